"""Search for a seed, faults and an order that violate an invariant, and reduce faults and order to a minimum.

A run is a function of its seed, its faults and the order of steps within instants. A finding consists of these three,
which suffice to repeat the violation. The random draws of links and agents are keyed: removing a fault changes only
that fault's effects. A choice in the order is identified by agent, time and number. So faults and order can be shrunk:
the run is repeated with some faults or choices left out, until none can be removed (Zeller, Hildebrandt 2002,
"Simplifying and isolating failure-inducing input").
"""

import dataclasses
import inspect
import math
import re
import shlex
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar, get_args

import networkx as nx
import numpy as np

from netsim.agent import Agent
from netsim.clock.order import Choice, Deferral, Method, Order
from netsim.clock.task import OWNER
from netsim.engine.build import Settings
from netsim.errors import AgentError, BadInput, NetsimError, Stalled, one_line
from netsim.faults import ClockSkew, Crash, Fault, Faults, Hold, Jitter, LinkChange, LinkDown, Partition, Straggler
from netsim.faults.words import as_text
from netsim.network import BACKEND, Network, Refine, refined_by
from netsim.run import Run
from netsim.util import check

__all__ = ["Change", "Drawn", "Explored", "Finding", "Invariant", "Program", "Trials", "explore", "quoted", "search"]

Make: TypeAlias = Callable[..., Any]
Invariant: TypeAlias = Callable[[Mapping[Any, Any]], Any]
Drawn: TypeAlias = Mapping[str, Any] | Iterable[Fault] | Callable[["nx.Graph[Any]", int], Iterable[Fault]] | None

Change: TypeAlias = Choice | Deferral
"""A single deviation from asyncio's order of steps."""

_T = TypeVar("_T")

# Arguments of `Network.run` that `make` may set. The search sets the others itself; it runs in virtual time in this
# process.
_OF_RUN = ("probes", "until", "sample", "progress", "blas_threads", "trace")
# Arguments of `Faults.draw` that are not kinds of faults. The search itself sets the graph and the seed.
_OF_DRAW = tuple(inspect.signature(Faults.draw).parameters.keys() - {"graph", "seed", "counts"})
# Real seconds after which progress is shown on a terminal.
_PROGRESS_DELAY_S = 2.0
# Fields of faults that are delays (s) or loss probabilities.
_SIZES = ("delay", "most", "loss")
# The maximum number of decimals of a rounded number that replaces a longer one.
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Finding:
    """A run that violates an invariant; ``print(finding)`` shows the events and how to repeat the run.

    Attributes
    ----------
    seed : int
        The seed of the run.
    faults : Faults
        The necessary faults, in addition to the network's own faults.
    drawn : Faults
        The faults with which the violation was first seen.
    time : float
        When the invariant was violated, in seconds of simulated time.
    message : str
        The first line of the AssertionError's text, or the message of the error that ended the run.
    kind : str
        "invariant", or the name of the error that ended the run: "AgentError" or "Stalled".
    words : str or None
        The faults as text for ``--at`` and `netsim.faults.words.appending`; "" without faults, and None if a fault has
        no text form.
    run : Run
        The run with its trace, stopped at the violation.
    tried, runs : int
        The number of seeds tried, and the number of runs for shrinking.
    again : str
        The command of the shell that repeats the run; if ``make`` is not in a file, the Python call.
    error : BaseException or None
        The exception that was raised; None if the invariant returned False.
    order : tuple of Choice or Deferral
        The changes of asyncio's order that are necessary for the violation.
    drawn_order : int
        The number of changes of asyncio's order when the violation was first seen.
    """

    seed: int
    faults: Faults
    drawn: Faults
    time: float
    message: str
    kind: str
    words: str | None
    run: Run = field(compare=False, repr=False)
    tried: int
    runs: int
    again: str = field(compare=False, repr=False)
    error: BaseException | None = field(default=None, compare=False, repr=False)
    order: tuple[Change, ...] = ()
    drawn_order: int = 0

    @property
    def schedule(self) -> Order:
        """The order of the run, as an argument of `netsim.Network.run` and as the content of a file for ``--order``."""
        return Order(schedule=self.order)

    def replay(self, path: str | Path = "replay.html", *, title: str = "") -> Path:
        """Write the run up to the violation as a page, as `netsim.Run.replay` does; return its path."""
        return self.run.replay(path, title=title or f"seed {self.seed}: {self.message}")

    @property
    def story(self) -> str:
        """The text that ``print`` shows below the message: seed, faults, order, and how to repeat the run."""
        needed = [f"  {each}" for each in (*self.faults, *self.order)]
        seeds, runs = _counted(self.tried, "seed"), _counted(self.runs, "run")
        parts = [f"{len(self.faults)} of {len(self.drawn)} faults"] if self.drawn else []
        if self.drawn_order:
            parts.append(f"{len(self.order)} of {_counted(self.drawn_order, 'change')} of order")
        shrunk = f"; {' and '.join(parts)} needed; {runs} to shrink" if parts else ""
        first = f"seed {self.seed}, at {self.time:g} s ({seeds} tried{shrunk})"
        return "\n".join([first, *needed, f"again: {self.again}"])

    def __str__(self) -> str:
        return f"{self.message}\n{self.story}"


def quoted(words: str) -> str:
    """Return text quoted for a shell, on one line; in double quotes, unless it has special characters."""
    words = " ".join(words.split())
    return shlex.quote(words) if set(words) & set('"$`\\!') else f'"{words}"'


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def search(
    make: Make,
    invariant: Invariant | type[Any],
    *,
    seeds: Iterable[int] = range(100),
    faults: Drawn = None,
    order: bool | Method = False,
) -> Finding | None:
    """Return the first run that violates an invariant, with its faults shrunk; None if there is none.

    The invariant is called with the agents at the end of each instant with events, when every change of state is
    complete, and at the end of the run. The run ends at the first violation. An error of an agent's code, or a
    deadlock, is a violation, too.

    Parameters
    ----------
    make : callable
        ``make(seed=…)`` returns a new network and its agents, ``(network, agents)``. A third element, such as
        ``{"until": 5.0}``, holds arguments of `netsim.Network.run`. Called for each run; ``netsim lab`` accepts the
        same function.
    invariant : callable or class
        ``invariant(agents)`` with {node: agent}. The invariant is violated if the call returns False or raises
        AssertionError, whose first line is kept; it holds if the call returns None or True. If it is a class, each run
        gets a new object, which may keep state. Its optional method ``at_end(agents)`` is checked in the same way at
        the end of the run.
    seeds : iterable of int
        The seeds to try, in this order.
    faults : mapping, callable or iterable of Fault, optional
        Faults in addition to the network's own: arguments of `Faults.draw`, ``dict(until=5.0, crashes=2)``, whose
        seed is that of the run; a function of graph and seed that returns faults; or the same faults for all seeds.
        Default: none.
    order : bool or {"random", "priorities"}
        Whether the order of agents' steps at equal times is also drawn, with the seed of the run, and by which method
        (`netsim.testing.Order`). True: the seed selects the method. The first seed is also tried in asyncio's order,
        before the drawn one.

    Raises
    ------
    BadInput
        If an argument is invalid, or a run rejects the faults or the result of ``make``.
    NetsimError
        If the invariant raises another error, or a repetition of a run differs from the run.
    """
    return Trials(_Made(_checked_make(make)), invariant, faults).search(seeds, order)


def _found(trials: "Trials", seed: int, broken: "_Broken", tried: int) -> Finding:
    """Shrink a violation, repeat the shrunk run with a trace, and return the finding."""
    before, last = trials.count, broken

    def breaks(faults: Sequence[Fault], changes: Sequence[Change]) -> bool:
        nonlocal last
        found = trials.run(seed, Faults(faults), order=Order(schedule=changes))
        if found is None or found.kind != broken.kind:
            return False
        last = found
        return True

    changes: Sequence[Change] = broken.changes
    if changes and breaks(broken.faults, ()):
        changes = ()
    needed = Faults(_shrunk(list(broken.faults), lambda faults: breaks(faults, changes)))
    if changes:
        changes = _shrunk_changes(changes, lambda left: breaks(needed, left))
    runs = trials.count - before
    again = trials.run(seed, needed, trace=True, order=Order(schedule=changes, records=True))
    if again is None or last.fingerprint() != again.fingerprint():
        why = f"{trials.program.name} must make the same network and agents each time, and draw from its seed alone"
        raise NetsimError(f"the run of seed {seed} does not repeat: {why}")
    words = as_text(needed, again.graph)
    found = again.time, again.message, again.kind[0], words, again.run
    command = trials.program.again(seed, words, again.changes)
    return Finding(
        seed, needed, broken.faults, *found, tried, runs, command, again.error, again.changes, len(broken.changes)
    )


class Program(Protocol):
    """Base class of programs that create and run one network for a seed.

    Attributes
    ----------
    name : str
        The program's name in error messages.
    """

    name: str

    def play(self, seed: int, refine: Refine) -> BaseException | None:
        """Run the network of a seed with refined settings; return the error that is a violation, or None."""

    def again(self, seed: int, words: str | None, order: Sequence[Change]) -> str:
        """Return the command that repeats a run with faults (as text, None if they have no text form) and an order."""


class _Made:
    """The program that runs the network and agents returned by a function ``make``."""

    name = "make"

    def __init__(self, make: Make) -> None:
        self._make = make

    def play(self, seed: int, refine: Refine) -> BaseException | None:
        network, agents, settings = _made(self._make(seed=seed))
        with refined_by(refine):
            try:
                network.run(agents, **settings)
            except (AgentError, Stalled) as error:
                if error.run is None:
                    raise
                return error
        return None

    def again(self, seed: int, words: str | None, order: Sequence[Change]) -> str:
        if words is None:
            return f"make(seed={seed}) with the finding's faults added to the network's"
        command = _command(self._make, seed) or f"make(seed={seed})"
        at = f" --at {quoted(words)}" if words else ""
        return command + at + (f" --order {quoted('; '.join(map(str, order)))}" if order else "")


def _command(make: Make, seed: int) -> str:
    """Return the ``netsim lab`` command for the file of ``make``; "" if it is not in a file."""
    settings: dict[str, Any] = {}
    if isinstance(make, partial) and not make.args:
        settings, make = make.keywords, make.func
    # A decorator may be defined in another file than the function.
    make = inspect.unwrap(make)
    path = Path(getattr(getattr(make, "__code__", None), "co_filename", ""))
    if getattr(make, "__qualname__", "") != "make" or path.suffix != ".py" or not path.is_file():
        return ""
    from netsim.studies.catalogue import flag

    with suppress(ValueError):
        path = path.resolve().relative_to(Path.cwd())
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    flags = [flag(name, value) for name, value in {**plain, "seed": seed}.items()]
    return " ".join(["netsim run", shlex.quote(str(path)), *flags])


# --- one run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Broken:
    """A run that violated the invariant or ended with an error; ``kind`` says which."""

    kind: tuple[str, ...]
    time: float
    message: str
    faults: Faults
    graph: "nx.Graph[Any]"
    run: Run
    changes: tuple[Change, ...]
    error: BaseException | None

    def fingerprint(self) -> tuple[Any, ...]:
        """Return the values that must be equal in every repetition of the run."""
        return self.kind, self.time, self.message, self.run.trace_hash


class Trials:
    """Runs of new networks, each with a seed and faults.

    Parameters
    ----------
    program : Program
        Creates and runs the network of a seed.
    invariant, faults : object
        As for `search`.

    Attributes
    ----------
    count : int
        How many runs there were.
    """

    def __init__(self, program: Program, invariant: Invariant | type[Any], faults: Drawn) -> None:
        self.program = program
        self._invariant, self._drawn = _checked_invariant(invariant), _checked_faults(faults)
        self.count = 0

    def search(self, seeds: Iterable[int], order: bool | Method) -> Finding | None:
        """Return the first run that breaks the invariant, shrunk; see `netsim.testing.search`."""
        if not isinstance(order, bool):
            check.one_of("order", order, ["True", "False", *get_args(Method)])
        tried = 0
        with _progress(seeds) as tell:
            for seed in _checked_seeds(seeds):
                tried += 1
                broken = self.run(seed) if tried == 1 or not order else None
                if broken is None and order:
                    method: Method = ("random", "priorities")[seed % 2] if order is True else order
                    broken = self.run(seed, order=Order(seed, method=method, records=True))
                if broken is not None:
                    break
                tell(tried)
            else:
                if not tried:
                    raise BadInput("seeds: must be at least one")
                return None
        return _found(self, seed, broken, tried)

    def repeat(self, seed: int, order: Order) -> Finding | None:
        """Return the violation of a run repeated without changes, or None."""
        order.records = True
        broken = self.run(seed, Faults(), True, order)
        if broken is None:
            return None
        found = broken.time, broken.message, broken.kind[0], "", broken.run
        again = self.program.again(seed, None, ())
        return Finding(seed, Faults(), Faults(), *found, 1, 0, again, broken.error, broken.changes)

    def run(
        self, seed: int, faults: Faults | None = None, trace: bool = False, order: Order | None = None
    ) -> _Broken | None:
        """Run with a seed, an order and faults (by default the seed's faults); return the violation, or None."""
        self.count += 1
        guard = _Guard(self._invariant, seed)
        if order is not None:
            # Describing choices as text takes time, and only the final run's descriptions are shown.
            order.tells = trace
        own = {"inspect": guard, "order": order, "trace": trace}
        trial = _Trial(own, lambda graph: self._faults_of(graph, seed) if faults is None else faults)
        error = self.program.play(seed, trial.refine)
        run = trial.run
        if run is None:
            # The program raised an error before it ran a network, or ran no network at all.
            raise error or BadInput(f"{self.program.name}: must run a network")
        changes = () if order is None else order.again().schedule
        about = trial.faults, trial.graph, run, changes
        if guard.message is not None and not isinstance(error, AgentError | Stalled):
            return _Broken(("invariant",), guard.time, guard.message, *about, guard.error)
        if error is None:
            return None
        kind = (type(error).__name__, type(error.__cause__).__name__)
        message = _text_of(error) if isinstance(error, AssertionError) else one_line(error)
        return _Broken(kind, run.ended_at, message or kind[0], *about, error)

    def _faults_of(self, graph: "nx.Graph[Any]", seed: int) -> Faults:
        drawn = self._drawn
        if drawn is None:
            return Faults()
        if isinstance(drawn, Mapping):
            return Faults.draw(graph, seed=seed, **drawn)
        return Faults(drawn(graph, seed) if callable(drawn) else drawn)


class _Trial:
    """One run of a search: changes the settings with which the program's network runs, and stores the run's result."""

    def __init__(self, own: Mapping[str, Any], faults_of: Callable[["nx.Graph[Any]"], Faults]) -> None:
        self._own, self._faults_of = own, faults_of
        self._before = BACKEND.get()
        self.run: Run | None = None
        self.faults = Faults()
        self.graph: nx.Graph[Any] = nx.Graph()

    def refine(self, network: Network, settings: Settings, result: Run) -> Settings:
        """Return the settings of the run with the faults, the order and the guard of this trial."""
        if self.run is not None:
            if OWNER.get() is None:
                raise BadInput("network: must be the only one that runs in a simulated test")
            return settings
        # Runs that agents start within this run are not part of the search.
        BACKEND.set(self._before)
        self.graph = network.graph
        self.faults = self._faults_of(network.graph)
        self.run = result
        return dataclasses.replace(settings, faults=_together(settings.faults, self.faults, network), **self._own)


class _Guard:
    """Calls an invariant until it is violated.

    Attributes
    ----------
    message : str or None
        How the invariant was violated; None: not yet.
    time : float
        The simulated time (s) of the last call.
    error : AssertionError or None
        The raised error.
    """

    def __init__(self, invariant: Invariant | type[Any], seed: int) -> None:
        self._holds: Invariant = _object_of(invariant) if isinstance(invariant, type) else invariant
        self._at_end: Invariant | None = getattr(self._holds, "at_end", None)
        self._name = getattr(invariant, "__name__", type(invariant).__name__)
        self._seed = seed
        self.message: str | None = None
        self.error: AssertionError | None = None
        self.time = math.inf

    def __call__(self, agents: Mapping[Hashable, Agent], time: float, last: bool) -> bool:
        """Check the invariant and return whether the run must end; raise NetsimError if it raises another error."""
        self.time = time
        # This mapping is the network's own, so pass a read-only view.
        agents = MappingProxyType(agents)
        if self._is_broken(self._holds, agents, time):
            return True
        return last and self._at_end is not None and self._is_broken(self._at_end, agents, time)

    def _is_broken(self, holds: Invariant, agents: Mapping[Hashable, Agent], time: float) -> bool:
        try:
            result = holds(agents)
        except AssertionError as error:
            self.error = error
            self.message = _text_of(error) or f"{self._name} does not hold"
        except Exception as error:
            where = f"at {time:g} s with seed {self._seed}"
            raise NetsimError(
                f"invariant {self._name} raised {type(error).__name__} {where}: {one_line(error)}"
            ) from error
        else:
            if result is None or result is True:
                return False
            check.instance(f"invariant {self._name}, result", result, bool | np.bool_, "True, False or None")
            if result:
                return False
            self.message = f"{self._name} does not hold"
        return True


def _text_of(error: AssertionError) -> str:
    """Return the first line of an error's text (pytest's details follow) without addresses, which vary by run."""
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(str(error).strip().partition("\n")[0].split()))


def _together(own: Faults, more: Faults, network: Network) -> Faults:
    """Return a network's own faults joined with additional ones; raise BadInput if the network rejects them."""
    both = own + more
    both.must_fit(network.graph)
    for fault in both:
        if isinstance(fault, ClockSkew):
            fault.must_keep(network.round_period)
            if network.compute is not None:
                raise check.refuse("faults", fault, "without a ClockSkew, as the network has compute times")
    return both


# --- all orders -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explored:
    """The orders that `explore` tried without a violation; ``print(explored)`` summarises them.

    Attributes
    ----------
    runs : int
        How many runs there were.
    complete : bool
        Whether all orders with up to ``deviations`` changes were tried.
    deviations : int or None
        The maximum number of changes of asyncio's order in a run; None: any number.
    """

    runs: int
    complete: bool
    deviations: int | None

    def __str__(self) -> str:
        bound = "" if self.deviations is None else f" with up to {_counted(self.deviations, 'change')}"
        which = f"all orders{bound}" if self.complete else f"the orders{bound} that were tried"
        return f"holds in {which}: {_counted(self.runs, 'run')}"


def explore(
    make: Make,
    invariant: Invariant | type[Any],
    *,
    seed: int = 1,
    faults: Drawn = None,
    deviations: int | None = None,
    limit: int = 10_000,
) -> Finding | Explored:
    """Try every order of agents' steps within instants, for one seed, until an invariant is violated.

    The first runs each delay one task or link behind all other steps of an instant, which finds most mistakes in few
    runs. Then all orders follow, each once, sorted by the number of changes to asyncio's order and then by the number
    of agents whose steps change.

    Parameters
    ----------
    make, invariant, faults : object
        As for `search`.
    seed : int
        The seed of all runs.
    deviations : int, optional
        The maximum number of changes of asyncio's order in a run. Default: any number.
    limit : int
        The maximum number of runs, not counting those that shrink a finding.

    Raises
    ------
    BadInput, NetsimError
        As `search` does.
    """
    trials = Trials(_Made(_checked_make(make)), invariant, faults)
    seed, limit = check.integer("seed", seed, low=0), check.integer("limit", limit, low=1)
    if deviations is not None:
        deviations = check.integer("deviations", deviations, low=0)
    order = Order(records=True)
    broken = trials.run(seed, order=order)
    usual = list(order.choices)
    waiting: dict[tuple[Any, ...], Deferral] = {}
    for each in usual if deviations != 0 else ():
        for thing in each.things:
            # Delaying an agent behind all others is one and the same change, whichever agent runs instead.
            key = each.time, thing, None if each.kind == "agent" else each.agent
            waiting.setdefault(key, Deferral(each.agent, each.time, thing))
    holds = [Order(schedule=[hold], records=True) for hold in waiting.values()]
    while broken is None and holds and trials.count < limit:
        broken = trials.run(seed, order=holds.pop(0))
    level: list[tuple[tuple[Choice, ...], list[Choice]]] = [((), usual)]
    done = 0
    while broken is None and level and (deviations is None or done < deviations):
        # To try each order once, a further change must come after the last one in the order of the run.
        further = [
            (*taken, choice._replace(taken=which))
            for taken, choices in level
            for choice in choices[_after(taken, choices) :]
            for which in range(1, choice.among)
        ]
        level, done = [], done + 1
        for taken in sorted(further, key=lambda changes: len({each.agent for each in changes})):
            if trials.count >= limit:
                return Explored(trials.count, False, deviations)
            order = Order(schedule=taken, records=True)
            broken = trials.run(seed, order=order)
            if broken is not None:
                break
            level.append((taken, list(order.choices)))
    return Explored(trials.count, not holds, deviations) if broken is None else _found(trials, seed, broken, 1)


def _after(taken: Sequence[Choice], choices: Sequence[Choice]) -> int:
    """Return the index in ``choices`` of the first choice after the last element of ``taken``."""
    return 1 + max((place for place, each in enumerate(choices) if taken and each.place == taken[-1].place), default=-1)


# --- shrinking --------------------------------------------------------------------------------------------------------

_Breaks: TypeAlias = Callable[[Sequence[Fault]], bool]


def _shrunk(faults: list[Fault], breaks: _Breaks) -> list[Fault]:
    """Return a subset of faults, possibly simplified, that still violates; no fault can be removed or simplified."""
    faults = _simplest(_fewest(faults, breaks), breaks)
    # After simplification another fault may be unnecessary.
    while len(faults) > 1 and len(fewer := _fewest(faults, breaks)) < len(faults):
        faults = _simplest(fewer, breaks)
    return faults


def _fewest(parts: list[_T], breaks: Callable[[list[_T]], bool]) -> list[_T]:
    """Return the necessary items: remove halves, then quarters, then single ones, until none can be removed."""
    if not parts or breaks([]):
        return []
    size = (len(parts) + 1) // 2
    while size:
        for first in range(0, len(parts), size):
            left = parts[:first] + parts[first + size :]
            if left and breaks(left):
                parts = left
                break
        else:
            size = 0 if size == 1 else (size + 1) // 2
    return parts


def _shrunk_changes(changes: Sequence[Change], breaks: Callable[[list[Change]], bool]) -> list[Change]:
    """Return necessary changes of order that still violate; one `Deferral` replaces several choices if possible.

    A step overtaken by twelve others needs twelve choices, none of which can be removed, or a single `Deferral`.
    """
    left = _fewest(list(changes), breaks)
    for place, change in enumerate(left):
        if isinstance(change, Choice):
            less = (change._replace(taken=taken) for taken in range(1, change.taken))
            tries = ([*left[:place], each, *left[place + 1 :]] for each in less)
            left = next((each for each in tries if breaks(each)), left)
    for instant in dict.fromkeys((each.agent, each.time) for each in left):
        there = [each for each in left if (each.agent, each.time) == instant and isinstance(each, Choice)]
        others = [each for each in left if each not in there]
        passed = dict.fromkeys(thing for each in there for thing in each.things[: each.taken])
        holds = ([*others, Deferral(*instant, thing)] for thing in passed if len(there) > 1)
        left = next((each for each in holds if breaks(each)), left)
    return left if len(left) < 2 else _fewest(left, breaks)


def _simplest(faults: list[Fault], breaks: _Breaks) -> list[Fault]:
    """Return the faults, each replaced by the simplest form that still violates."""
    for place in range(len(faults)):
        found: Fault | None = faults[place]
        while found is not None:
            faults = [*faults[:place], found, *faults[place + 1 :]]
            tries = _simpler(found)
            found = next((each for each in tries if breaks([*faults[:place], each, *faults[place + 1 :]])), None)
    return faults


def _simpler(fault: Fault) -> Iterator[Fault]:
    """Yield simpler forms of a fault: without an end, keeping the state, with fewer nodes, or with rounder numbers."""
    if isinstance(fault, Crash) and fault.until is not None:
        yield dataclasses.replace(fault, until=None, keeps_state=False)
        if not fault.keeps_state:
            yield dataclasses.replace(fault, keeps_state=True)
    if isinstance(fault, LinkDown | LinkChange | Partition | Straggler | Jitter) and fault.until is not None:
        yield dataclasses.replace(fault, until=None)
    if isinstance(fault, LinkDown | LinkChange | Hold | Partition) and fault.one_way:
        yield dataclasses.replace(fault, one_way=False)
    if isinstance(fault, Partition) and len(fault.side) > 1:
        for name in fault.side:
            yield dataclasses.replace(fault, side=tuple(each for each in fault.side if each != name))
    names = {each.name for each in dataclasses.fields(fault)}
    for name in ("at", "until", *_SIZES):
        value = getattr(fault, name, None)
        if name in names and isinstance(value, float):
            yield from _rounder(fault, name, value)


def _rounder(fault: Any, name: str, value: float) -> Iterator[Fault]:
    """Yield copies of a fault with fewer decimals in a field, a time or delay (s); the fewest decimals first."""
    for decimals in range(_MOST_DECIMALS):
        rounded = round(value, decimals)
        if rounded == value:
            return
        if name in _SIZES and rounded > value:
            # Round down, because a larger value is not simpler.
            rounded = round(rounded - 10.0**-decimals, decimals)
        try:
            yield dataclasses.replace(fault, **{name: rounded})
        except BadInput:
            # The rounded fault would have no duration, or no delay.
            continue


# --- arguments --------------------------------------------------------------------------------------------------------


def _checked_make(make: Make) -> Make:
    if isinstance(make, type) or not callable(make) or inspect.iscoroutinefunction(make):
        raise check.refuse("make", make, "a function that returns (network, agents)")
    if not _takes(make, seed=0):
        raise check.refuse("make", make, "callable as make(seed=…)")
    return make


def _made(made: Any) -> tuple[Network, Mapping[Any, Agent], Mapping[str, Any]]:
    """Return the network, the agents and the arguments of the run from the result of ``make``."""
    form = "(network, agents), or (network, agents, {arguments of Network.run})"
    has_network = isinstance(made, tuple) and len(made) in (2, 3) and isinstance(made[0], Network)
    if not (has_network and all(isinstance(each, Mapping) for each in made[1:])):
        raise BadInput(f"make: must return {form}, not {_shown(made)}")
    settings = dict(made[2]) if len(made) == 3 else {}
    check.each_one_of("argument of Network.run", settings, _OF_RUN)
    return made[0], made[1], settings


def _shown(made: Any) -> str:
    if isinstance(made, tuple):
        return f"({', '.join(type(each).__name__ for each in made)})"
    return type(made).__name__


def _checked_invariant(invariant: Invariant | type[Any]) -> Invariant | type[Any]:
    if inspect.iscoroutinefunction(invariant) or not callable(invariant):
        raise check.refuse("invariant", invariant, "a function of the agents that is not async")
    if isinstance(invariant, type):
        _object_of(invariant)
    elif not _takes(invariant, {}):
        raise check.refuse("invariant", invariant, "callable as invariant(agents)")
    return invariant


def _object_of(invariant: type[Any]) -> Invariant:
    """Return a new instance of an invariant's class."""
    if not _takes(invariant):
        raise check.refuse("invariant", invariant, "a class whose objects are made without arguments")
    made: Invariant = invariant()
    if not callable(made) or not _takes(made, {}):
        raise check.refuse("invariant", invariant, "a class with a method __call__(self, agents)")
    return made


def _takes(function: Callable[..., Any], *values: Any, **arguments: Any) -> bool:
    """Return whether a function's signature accepts these arguments."""
    try:
        inspect.signature(function).bind(*values, **arguments)
    except TypeError:
        return False
    except ValueError:
        # Some functions written in C have no signature.
        return True
    return True


def _checked_seeds(seeds: Any) -> Iterator[int]:
    """Yield the seeds after validation."""
    if not isinstance(seeds, Iterable) or isinstance(seeds, str):
        raise check.refuse("seeds", seeds, "whole numbers, such as range(100)")
    for seed in seeds:
        yield check.integer("seed", seed, low=0)


def _checked_faults(faults: Drawn) -> Drawn:
    if faults is None or isinstance(faults, Faults):
        return faults
    if isinstance(faults, Mapping):
        kinds = sorted(kind.plural for kind in Fault.kinds.values() if kind.plural)
        check.each_one_of("faults", faults, [*sorted(_OF_DRAW), *kinds])
        if "until" not in faults:
            raise BadInput(
                "faults: must have until, the time (s) in which they begin, as in dict(until=5.0, crashes=2)"
            )
        return dict(faults)
    if callable(faults):
        if not _takes(faults, nx.Graph(), 0):
            raise check.refuse("faults", faults, "callable as faults(graph, seed)")
        return faults
    return Faults(faults)


# --- on a terminal ----------------------------------------------------------------------------------------------------


@contextmanager
def _progress(seeds: Any) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows the number of seeds tried on a terminal, if the search takes long."""
    due = time.monotonic() + _PROGRESS_DELAY_S
    shown: Callable[[int], None] | None = None
    with ExitStack() as bar:

        def tell(tried: int) -> None:
            nonlocal shown
            if shown is None and time.monotonic() >= due:
                from netsim.studies.terminal import Reporter

                shown = bar.enter_context(Reporter(quiet=quiet).progress("seeds", len(seeds)))
            if shown is not None:
                shown(tried)

        quiet = not isinstance(seeds, Sequence) or sys.stderr is None or not sys.stderr.isatty()
        yield tell
