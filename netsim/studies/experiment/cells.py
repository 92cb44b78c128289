"""A cell of an experiment: one run of one method, on one problem, over one network, with one seed."""

import copy
import dataclasses
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from netsim.engine.process import limited_blas
from netsim.errors import AgentError, BadInput, one_line
from netsim.network import Network
from netsim.run import Run
from netsim.studies import tasks
from netsim.studies.experiment.content import content, digest, known, recorded
from netsim.studies.experiment.methods import AnyMethod
from netsim.studies.experiment.networks import AnyNetwork, Links
from netsim.studies.experiment.problems import Problem
from netsim.studies.experiment.setup import Setup
from netsim.studies.formats import read_table
from netsim.studies.origin import about, environment, source_of
from netsim.studies.outcome import DIVERGED, ENDED, FAILED, Ending, Outcome, outgrown
from netsim.studies.seeds import Seeds
from netsim.util import check
from netsim.util.datafiles import changed_files

if TYPE_CHECKING:
    import pandas as pd

METHOD, SEED = "method", "seed"
PROBLEM, NETWORK = "problem", "network"
_TAKEN = {METHOD, SEED, PROBLEM, NETWORK, "outcome", "outcome_round", "why", "judged_by", "optimum", "verdict"}
RESERVED = _TAKEN | {"round", "time_s"}
"""Columns of every table of results; no short name, no label and no measure may be one of them."""


@dataclass(frozen=True)
class Measured:
    """The results of a cell.

    Attributes
    ----------
    table : DataFrame or Path
        A row for each round (or sample), or the file that holds them.
    row : dict
        ``outcome``, ``outcome_round``, ``why``, ``judged_by`` (the column of the error), ``optimum``, and the last
        value of each column of the rounds.
    read : dict
        SHA-256 of each file that was read, by name.
    about : dict
        The versions of netsim and of all packages that influence the last digits.
    doubts : list of str
        The algorithm's warnings about its parameters (`doubts`).
    """

    table: "pd.DataFrame | Path"
    row: dict[str, Any]
    read: dict[str, str]
    about: dict[str, Any]
    doubts: list[str] = field(default_factory=list)

    @property
    def rounds(self) -> "pd.DataFrame":
        """The table of rounds, read on demand because an experiment may have thousands of tables."""
        import pandas as pd

        if not isinstance(self.table, Path):
            return self.table
        return read_table(self.table) if self.table.stat().st_size > 1 else pd.DataFrame()

    @classmethod
    def failed(cls, why: str) -> "Measured":
        """Return the results of a cell that failed."""
        import pandas as pd

        return cls(pd.DataFrame(), {"outcome": FAILED, "outcome_round": math.nan, "why": why}, {}, {})


@dataclass(frozen=True)
class Cell:
    """One run: its parts, and the columns that identify it.

    Attributes
    ----------
    columns : mapping
        Problem, network, settings, method and seed, as tables show them.
    problem : Problem or None
    network : AnyNetwork
    method : AnyMethod
    seeds : Seeds
    rounds : int or None
    until, sample : float or None
        See `netsim.Network.run`.
    measure, after : tuple of callable
        Probes of the agents, and measures of the whole run.
    ending : Ending
        The rule that classifies the run's outcome from its error.
    error : str or None
        The name of the error's column; default: the first column that the problem measures.
    method_name : str
        The method's name in the experiment. The column ``method`` may have a name shared by several variants.
    """

    columns: Mapping[str, Any]
    problem: Problem | None
    network: AnyNetwork
    method: AnyMethod
    seeds: Seeds
    rounds: int | None
    until: float | None = None
    sample: float | None = None
    measure: tuple[Callable[..., Any], ...] = ()
    after: tuple[Callable[..., Any], ...] = ()
    ending: Ending = field(default_factory=Ending)
    error: str | None = None
    method_name: str = ""

    @cached_property
    def content(self) -> dict[str, Any]:
        """Everything that the result depends on, except netsim's source."""
        names = [each.name for each in dataclasses.fields(self) if each.name not in ("columns", "method_name")]
        return {name: _content_of(getattr(self, name)) for name in names}

    @cached_property
    def key(self) -> str:
        """The truncated SHA-256 of the content and of netsim's source: the name of the cell's results."""
        return digest([self.content, dict(source_of("netsim"))])

    @property
    def name(self) -> str:
        """The key, used as the name of the job and of its files."""
        return self.key

    @property
    def condition(self) -> tuple[str, ...]:
        """The condition under which tuning chooses values: the method and its setting."""
        return condition_of(self.columns)

    def setup(self) -> Setup:
        """Return the setup of the run, with its graph, task and network.

        Raises
        ------
        BadInput
            If the parts are incompatible.
        """
        setup = Setup(self.seeds, self.rounds or 0, ideal=getattr(self.network, "ideal", False))
        with recorded(reader_of(self.network)):
            setup = dataclasses.replace(setup, graph=self.network.topology(setup))
        if self.problem is not None:
            with recorded(reader_of(self.problem)):
                task = task_of(self.problem, setup)
            rounds = setup.rounds or getattr(task, "rounds", 0)
            setup = dataclasses.replace(setup, graph=task.graph, task=task, rounds=rounds)
        if not setup.rounds:
            raise check.refuse("rounds", None, "a whole number >= 1; there is no problem that has a length of its own")
        if setup.graph is None:
            raise BadInput("networks: must have a graph, because there is no problem that has one")
        # The method is set after the task is made, because one task serves the runs of all methods.
        setup = dataclasses.replace(setup, method=getattr(self.method, "function", self.method))
        with recorded(reader_of(self.network)):
            return dataclasses.replace(setup, network=self._network(setup))

    def _network(self, setup: Setup) -> Network:
        of_kind = getattr(getattr(self.method, "kind", None), "graph_of", None)
        graph_of = getattr(self.method, "graph_of", of_kind)
        if graph_of is None:
            return self.network.network(setup)
        name = self.columns["method"]
        linked_by_ends = isinstance(self.network, Links) and callable(self.network.link)
        if linked_by_ends or self.network.topology(setup) is not None:
            raise BadInput(
                f"methods: {name} runs over a graph of its own, as a server over a star: must have Links with one Link "
                "for all, and the problem's graph"
            )
        own: nx.Graph[Any] = graph_of(setup.graph)
        return self.network.network(dataclasses.replace(setup, graph=own))

    def play(self, setup: Setup | None = None, *, trace: bool = False) -> Run:
        """Run the cell and return its `Run`."""
        setup = self.setup() if setup is None else setup
        agents = self.method.agents(setup)
        assert setup.network is not None
        return setup.network.run(agents, self.probes(setup, agents), until=self.until, sample=self.sample, trace=trace)

    def probes(self, setup: Setup, agents: Mapping[Any, Any]) -> list[Any]:
        """Return the problem's and the experiment's probes; a measure with ``of`` makes a probe for this run."""
        begun = [each.of(agents, setup.network, setup.rounds) if hasattr(each, "of") else each for each in self.measure]
        return [each for each in (getattr(setup.task, "measure", None), *begun) if each is not None]

    def measured(self) -> Measured:
        """Run the cell and return its results; an exception in the run becomes an outcome."""
        import pandas as pd

        run: Run | None = None
        task, found, more, doubted = None, None, dict[str, Any](), list[str]()
        # Agents' matrices are small: more BLAS threads would wait for each other, and could change rounding.
        quiet = np.errstate(over="ignore", invalid="ignore")
        with limited_blas(1), quiet:
            try:
                setup = self.setup()
                task = setup.task
                with recorded(reader_of(self.method)):
                    run = self.play(setup)
                doubted, more = doubts(setup, run.agents, self.measure), _derived(setup)
                measures = (*getattr(task, "after", ()), *self.after)
                more |= {key: value for each in measures for key, value in each(run).items()}
            except Exception as error:
                run = getattr(error, "run", run)
                diverged = outgrown(error) if isinstance(error, AgentError) else None
                found = diverged or Outcome(FAILED, why=line_of(error))
            rounds = pd.DataFrame() if run is None else run.rounds
            if taken := _TAKEN.intersection([*rounds, *more]):
                rounds = rounds.drop(columns=taken.intersection(rounds))
                refused = check.refuse("measure", min(taken), f"another name; every table has a column {min(taken)}")
                found = found or Outcome(FAILED, why=str(refused))
            error_column = self.error or ("" if task is None else str(task.error))
            optimum = math.nan
            if error_column and found is None:
                optimum = math.nan if task is None else float(_optimum(task).get(error_column, math.nan))
                found = self._judged(rounds, error_column, optimum)
        found = found or Outcome(ENDED)
        last: dict[Any, Any] = {} if rounds.empty else {name: column.iat[-1] for name, column in rounds.items()}
        row: dict[str, Any] = {
            "outcome": found.state,
            "outcome_round": math.nan if found.round is None else found.round,
            "why": found.why,
        }
        row |= {"judged_by": error_column, "optimum": optimum} if error_column else {}
        row |= {str(name): value for name, value in {**last, **more}.items() if name not in _TAKEN}
        versions = {**about(), **environment(), "source": dict(source_of("netsim"))}
        # The files that the parts read for this cell or earlier ones, because a part may cache content.
        read = {
            name: sha
            for part in (self.problem, self.network, self.method)
            for name, sha in known(reader_of(part)).items()
        }
        return Measured(rounds, row, read, versions, doubted)

    def _judged(self, rounds: "pd.DataFrame", column: str, optimum: float) -> Outcome:
        if rounds.empty:
            return Outcome(DIVERGED)
        try:
            errors = rounds[check.one_of("error", column, map(str, rounds))]
        except BadInput as error:
            return Outcome(FAILED, why=str(error))
        return self.ending.judge(errors, rounds["round"].tolist(), optimum=None if math.isnan(optimum) else optimum)


def line_of(error: BaseException) -> str:
    """Return the reason why a part failed: the error's text, preceded by its class unless netsim raised it."""
    return one_line(error) if isinstance(error, BadInput | AgentError) else f"{type(error).__name__}: {one_line(error)}"


def _derived(setup: Setup) -> dict[str, Any]:
    """Return the numbers derived for a run from a method's `Derived` parameters, keyed by column."""
    return {
        f"chosen_{name}": value
        for method, found in setup.derived.items()
        for name, value in found.given.items()
        if method.given[name] is not value and isinstance(value, int | float)
    }


def doubts(setup: Setup, agents: Mapping[Any, Any], measures: Iterable[Any]) -> list[str]:
    """Return warnings about the algorithm's parameters and notes on the measures of a run.

    They come from ``doubts(agents, network)`` of the agents' class and ``lines(agents, network)`` of a measure, if
    defined.
    """
    asks = getattr(type(next(iter(agents.values()), None)), "doubts", None)
    found = [] if asks is None else list(asks(agents, setup.network))
    for each in measures:
        found += each.lines(agents, setup.network) if hasattr(each, "lines") else []
    return found


def condition_of(columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of a cell that define its condition in tuning: all but the seed."""
    return tuple(f"{name}={value}" for name, value in columns.items() if name != "seed")


def is_of(name: str, method: Any, condition: Sequence[str]) -> bool:
    """Return whether a condition belongs to the method with this name in the experiment."""
    return set(condition_of({METHOD: name, **method.label})).issubset(condition)


# --- parts that cells share -------------------------------------------------------------------------------------------

_contents: dict[int, tuple[Any, Any, str]] = {}
_optima: list[tuple[Any, dict[str, float]]] = []


def _content_of(part: Any) -> Any:
    """Return the content of a part, computed once per part."""
    return _known_of(part)[1]


def reader_of(part: Any) -> str:
    """Return the name under which the files read by a part are recorded; equal parts have the same name."""
    return _known_of(part)[2]


def _known_of(part: Any) -> tuple[Any, Any, str]:
    """Return (part, content, reader's name); the result is cached per part."""
    found = _contents.get(id(part))
    if found is None or found[0] is not part:
        if len(_contents) > 10_000:
            _contents.clear()
        # A method's label only fills columns of tables, so it is excluded from the content.
        what = content({**vars(part), "label": type(part)} if isinstance(part, AnyMethod) else part)
        # Keep the part alive: another object could get its id.
        found = _contents[id(part)] = part, what, digest(what)
    return found


def forget_contents() -> None:
    """Forget the contents of all parts, because code they use, such as a notebook's function, may have changed."""
    _contents.clear()


def task_of(problem: Problem, setup: Setup) -> Any:
    """Return the task of a run; methods that run consecutively on the same problem share it.

    A task with an attribute ``ideal`` is shared by runs over ideal and other links; otherwise each kind has its own
    task.
    """
    key = [_content_of(problem), content(setup.seeds), setup.rounds, content(setup.graph)]
    last, found = tasks.last()
    if last not in (key, [*key, setup.ideal]) or changed_files(known(reader_of(problem))):
        tasks.forget()
        found = problem.make(setup)
        tasks.keep(key if hasattr(found, "ideal") else [*key, setup.ideal], found)
    if getattr(found, "ideal", setup.ideal) != setup.ideal:
        found = copy.copy(found)
        found.ideal = setup.ideal
    return found.fresh() if hasattr(found, "fresh") else found


def _optimum(task: Any) -> dict[str, float]:
    if not _optima or _optima[0][0] is not task:
        _optima[:] = [(task, dict(getattr(task, "optimum", dict)()))]
    return _optima[0][1]


def check_fits(cells: Sequence[Cell], missing: Container[str]) -> None:
    """Raise BadInput, which names the part, unless each method's agents can be made for each network and problem.

    ``missing`` are the keys of the cells that have not run. A combination is accepted if one of its cells has run or
    can be made, because for some seeds a problem may have nothing to learn.
    """
    alike: dict[tuple[int, ...], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((id(cell.method), id(cell.network), id(cell.problem)), []).append(cell)
    for several in alike.values():
        if all(cell.key in missing for cell in several):
            first, *others = several
            error = _misfit(first)
            if error is not None and all(_misfit(cell) for cell in others):
                raise error


def _misfit(cell: Cell) -> BadInput | None:
    """Return an error that names the method, or the problem and network, that cannot be made; None if all can."""
    columns = cell.columns
    where = ", ".join(f"{name} {columns[name]}" for name in (PROBLEM, NETWORK) if name in columns)
    try:
        setup = cell.setup()
        where = f"methods: {columns['method']}"
        agents = cell.method.agents(setup)
        assert setup.network is not None
        nodes = set(setup.network.graph) - setup.network.scenery.keys()
        if set(agents) != nodes:
            raise BadInput(f"must have an agent for each of the network's {len(nodes)} nodes")
    except Exception as error:
        why = line_of(error)
        return BadInput(why if not where or why.startswith(where) else f"{where}: {why}")
    return None
