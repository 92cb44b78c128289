"""The script of a network's faults, which can be checked, printed, saved, and drawn at random from a seed."""

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, overload

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.faults.events import Fault
from netsim.util import check, draws
from netsim.util.datafiles import used
from netsim.util.files import write_whole

__all__ = ["FaultSampler", "Faults"]

Size = float | tuple[float, float]
"""The maximum of a random value, or (minimum, maximum)."""


class Faults(Sequence[Fault]):
    """A script of faults, sorted by the times at which the faults begin.

    ``Network(graph, faults=Faults([Crash(3, at=5.0, until=9.0), …]))`` applies the faults in every run of the network;
    ``print(faults)`` lists them.

    Parameters
    ----------
    faults : iterable of Fault
        Faults of the kinds `Crash`, `Join`, `Leave`, `LinkDown`, `LinkChange`, `Hold`, `Lose`, `Partition`,
        `Straggler`, `ClockSkew`, `Jitter`, `Move` and `Rewire`. A link or agent that several faults keep down is up
        again when the last of these faults has ended.

    Raises
    ------
    BadInput
        If an element is not a Fault.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        if not isinstance(faults, Iterable) or isinstance(faults, str):
            raise check.refuse("faults", faults, "a list of faults, such as netsim.faults.Crash(3, at=5.0)")
        listed = list(faults)
        for fault in listed:
            check.instance("faults", fault, Fault, "a list of faults, such as netsim.faults.Crash(3, at=5.0)")
        self._faults = tuple(sorted(listed, key=lambda fault: fault.begins))

    def __len__(self) -> int:
        return len(self._faults)

    @overload
    def __getitem__(self, place: int) -> Fault: ...
    @overload
    def __getitem__(self, place: slice) -> "Faults": ...
    def __getitem__(self, place: int | slice) -> "Fault | Faults":
        return Faults(self._faults[place]) if isinstance(place, slice) else self._faults[place]

    def __add__(self, more: Iterable[Fault]) -> "Faults":
        return Faults([*self, *more])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Faults) and self._faults == other._faults

    def __hash__(self) -> int:
        return hash(self._faults)

    def __repr__(self) -> str:
        return f"Faults([{', '.join(map(repr, self._faults))}])"

    def __str__(self) -> str:
        return "\n".join(map(str, self._faults)) or "no faults"

    def must_fit(self, graph: "nx.Graph[Any]") -> None:
        """Raise BadInput if the graph lacks a fault's agent or link, or an agent has two `Join` or two `ClockSkew`."""
        for fault in self:
            fault.must_fit(graph)
        named = [(type(fault), fault.agents()) for fault in self if fault.once]
        for kind, names in named:
            if named.count((kind, names)) > 1:
                raise check.refuse(f"{kind.__name__}: agent", names[0], "named once")

    def save(self, path: str | Path) -> None:
        """Write the list to a JSON file.

        Raises
        ------
        BadInput
            If JSON cannot represent an agent's name, which must be text, a real number, None, or a tuple of these.
        """
        listed = [{"fault": type(fault).__name__, **_fields_of(fault)} for fault in self]
        try:
            text = json.dumps(listed, indent=2, allow_nan=False, default=_plain)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"faults: must have names and settings that are text, real numbers, None or tuples of these ({error})"
            ) from None
        with write_whole(path) as file:
            file.write(text.encode())

    @classmethod
    def load(cls, path: str | Path) -> "Faults":
        """Read a file written by `save`; raises BadInput if the file is missing or has another format."""
        try:
            listed = json.loads(used(Path(path)).read_text(encoding="utf-8"))
        except OSError as error:
            raise BadInput(f"file = {str(path)!r}: must be a file that can be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise BadInput(f"file = {str(path)!r}: must be a list of faults in JSON ({error})") from None
        if not isinstance(listed, list):
            raise BadInput(f"file = {str(path)!r}: must be a list of faults in JSON")
        return cls(_fault_of(path, place, entry) for place, entry in enumerate(listed))

    @classmethod
    def draw(  # noqa: PLR0913  each kind of fault has sizes of its own
        cls,
        graph: "nx.Graph[Any]",
        *,
        until: float,
        seed: int = 0,
        mean_duration: float | None = None,
        duration: Size | None = None,
        delay: Size | None = None,
        jitter: Size | None = None,
        offset: Size | None = None,
        drift: Size | None = None,
        loss: Size | None = None,
        keeps_state: bool | None = None,
        one_way: bool | None = False,
        **counts: int,
    ) -> "Faults":
        """Draw a script at random; the faults of one kind do not depend on the numbers of faults of other kinds.

        The parameters from ``duration`` to ``loss`` are ranges: (minimum, maximum), or only the maximum. Values are
        drawn uniformly from a range. The ranges change neither which faults are drawn nor when they begin.

        Parameters
        ----------
        graph : networkx Graph
            The network's graph.
        until : float
            The faults begin at times drawn uniformly from [0, until), in seconds.
        seed : int
            The seed of all draws.
        mean_duration : float, optional
            Mean of the exponentially distributed durations, in seconds. Default: a tenth of ``until``.
        duration : float or (float, float), optional
            Range of uniformly distributed durations, in seconds, in place of exponential ones.
        delay : float or (float, float), optional
            Range of the delays of stragglers, in seconds. Default: up to a tenth of the mean duration.
        jitter : float or (float, float), optional
            Range of the maximum delay of a burst of jitter, in seconds. Default: up to a tenth of the mean duration.
        offset : float or (float, float), optional
            Range of the absolute values of clock offsets, in seconds; signs are random. Default: up to a tenth of the
            mean duration.
        drift : float or (float, float), optional
            Range of the absolute values of clock drifts, in seconds per second; signs are random. Default: up to 1e-4.
        loss : float or (float, float), optional
            Range of the loss probabilities of changed links. Default: up to 1.
        keeps_state : bool, optional
            Whether nodes that crash keep their state. Default: each node keeps its state with probability one half. The
            choice does not change which nodes crash, or when.
        one_way : bool, optional
            Whether partitions are one way, as in `Partition`. None: each partition is one way with probability one
            half.
        **counts : int
            The number of faults of each kind: ``crashes``, ``joins``, ``leaves``, ``cuts``, ``changes`` and ``holds``
            of links (each one way with probability one half), ``losses`` of one frame each, ``partitions``,
            ``stragglers``, ``jitters``, and ``skews`` of clocks.

        Raises
        ------
        BadInput
            If a kind is unknown, an argument is invalid, or no agent or link is left for a fault.
        """
        until = check.finite("until", until, above=0)
        if duration is not None and mean_duration is not None:
            raise BadInput("duration: must be left out with mean_duration, which it replaces")
        mean = until / 10 if mean_duration is None else check.finite("mean_duration", mean_duration, above=0)
        given = {"duration": duration, "delay": delay, "jitter": jitter, "offset": offset, "drift": drift, "loss": loss}
        sizes = {name: None if size is None else _range(name, size) for name, size in given.items()}
        if (lengths := sizes["duration"]) is not None:
            mean = sum(lengths) / 2
        if sizes["drift"] is not None and sizes["drift"][1] >= 1:
            raise check.refuse("drift", drift, "< 1, as a clock that gains a second in each never comes to its end")
        if sizes["loss"] is not None and sizes["loss"][1] > 1:
            raise check.refuse("loss", loss, "at most 1")
        seed = check.integer("seed", seed, low=0)
        one_way = None if one_way is None else check.flag("one_way", one_way)
        keeps_state = None if keeps_state is None else check.flag("keeps_state", keeps_state)
        drawn: list[Fault] = []
        kinds = {kind.plural: kind for kind in Fault.kinds.values() if kind.plural}
        for name, count in counts.items():
            check.one_of("kind of fault", name, kinds)
            count = check.integer(name, count, low=0)
            rng = draws.generator(seed, name, "faults")
            sampler = FaultSampler(rng, graph, until, mean, name, count, keeps_state, one_way, sizes)
            drawn += [kinds[name].sample(sampler) for _ in range(count)]
        return cls(drawn)


def _range(name: str, size: Size) -> tuple[float, float]:
    """Return (minimum, maximum) of an argument of `Faults.draw` that is a range."""
    if not isinstance(size, tuple | list):
        return 0.0, check.finite(name, size, above=0)
    low, high = check.pair(name, size, "(least, greatest)")
    low = check.finite(name, low, low=0)
    return low, check.finite(name, high, low=low) if low else check.finite(name, high, above=0)


def _signed(u: float, low: float, high: float) -> float:
    """Map ``u`` in [−1, 1] to the number with the same sign and the absolute value low + (high − low)·|u|."""
    return math.copysign(low + (high - low) * abs(u), u)


def _fault_of(path: str | Path, place: int, entry: Any) -> Fault:
    """Return the fault that an entry of a file describes; raises BadInput for an invalid entry."""
    where = f"file = {str(path)!r}: entry {place}"
    if not isinstance(entry, dict) or str(entry.get("fault")) not in Fault.kinds:
        raise BadInput(f"{where}: must be an object whose 'fault' is one of {', '.join(sorted(Fault.kinds))}")
    kind = Fault.kinds[str(entry["fault"])]
    values = {key: _tuples(value) for key, value in entry.items() if key != "fault"}
    allowed = {field.name for field in fields(kind)}
    if not values.keys() <= allowed:
        raise BadInput(f"{where}: {min(values.keys() - allowed)!r} must be one of {', '.join(sorted(allowed))}")
    try:
        return kind(**values)
    except TypeError:
        raise BadInput(f"{where}: must have all of {', '.join(sorted(allowed))}") from None
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def _fields_of(fault: Fault) -> dict[str, Any]:
    """Return {name: value} of a fault's fields; unlike ``dataclasses.asdict``, leave values unconverted."""
    return {field.name: getattr(fault, field.name) for field in fields(fault)}


def _plain(name: Any) -> Any:
    """Convert a numpy scalar to a Python number for JSON; raises TypeError for any other value."""
    if isinstance(name, np.generic):
        return name.item()
    raise TypeError(f"{type(name).__name__} {name!r}")


def _tuples(value: Any) -> Any:
    """Convert lists from JSON to tuples, because agents' names must be hashable."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(eq=False, repr=False)
class FaultSampler:
    """Draws the agents, links and times of the faults of one kind."""

    rng: np.random.Generator
    _graph: "nx.Graph[Any]"
    _until: float
    mean: float
    _name: str
    _count: int
    _keeps_state: bool | None
    _one_way: bool | None
    _sizes: Mapping[str, tuple[float, float] | None]
    _shuffled: Iterator[int] | None = None

    def __post_init__(self) -> None:
        self._nodes: list[Hashable] = list(self._graph)
        self._edges = list(self._graph.edges)

    def node(self) -> Hashable:
        """Draw an agent."""
        return self._nodes[self.rng.integers(len(self._nodes))]

    def node_once(self) -> Hashable:
        """Draw an agent that `node_once` has not returned before."""
        if self._shuffled is None:
            if self._count > len(self._nodes):
                raise check.refuse(self._name, self._count, f"at most {len(self._nodes)}, one for each agent")
            self._shuffled = iter(self.rng.permutation(len(self._nodes)))
        return self._nodes[next(self._shuffled)]

    def edge(self) -> tuple[Hashable, Hashable]:
        """Draw an edge as a link (sender, receiver), in a random direction if the graph has both directions."""
        if not self._edges:
            raise check.refuse(self._name, "> 0", "0: the graph has no edge")
        a, b = self._edges[self.rng.integers(len(self._edges))]
        return (a, b) if self.coin() or not self._graph.has_edge(b, a) else (b, a)

    def span(self) -> tuple[float, float]:
        """Draw the times (s) at which a fault begins and ends."""
        at, length = float(self._until * self.rng.random()), float(self.rng.exponential(self.mean))
        if self._sizes["duration"] is not None:
            # Convert the exponential number to a uniform one. A separate uniform draw would leave the generator in
            # another state, and change the following faults.
            low, high = self._sizes["duration"]
            length = low - (high - low) * math.expm1(-length / self.mean)
        return at, at + max(length, 1e-6 * self._until)

    def coin(self) -> bool:
        """Return True with probability one half."""
        return bool(self.rng.random() < 0.5)

    def keeps_state(self) -> bool:
        """Return whether a node keeps its state: the argument of `Faults.draw` or, if that is None, a coin toss."""
        # Toss the coin in any case, so that later draws do not depend on the argument.
        drawn = self.coin()
        return drawn if self._keeps_state is None else self._keeps_state

    def size(self, name: str) -> float:
        """Draw a value greater than 0 uniformly from the range that `Faults.draw` has for the parameter ``name``."""
        low, high = self._sizes[name] or (0.0, 1.0 if name == "loss" else self.mean / 10)
        return low + (high - low) * (1 - float(self.rng.random()))

    def clock(self) -> tuple[float, float]:
        """Draw the offset (s) and the drift of a clock, each with a random sign."""
        u, v = self.rng.uniform(-1, 1, 2).tolist()
        # The default is not computed as a range up to mean / 10, because rounding would change the last digit of
        # scripts drawn by default.
        offset = u * self.mean / 10 if self._sizes["offset"] is None else _signed(u, *self._sizes["offset"])
        return offset, _signed(v, *(self._sizes["drift"] or (0.0, 1e-4)))

    def one_way(self) -> bool:
        """Return whether a partition is one way: the argument of `Faults.draw` or, if that is None, a coin toss."""
        # Toss the coin only if necessary, because older scripts were drawn without a toss, when all partitions were
        # two-way.
        return self.coin() if self._one_way is None else self._one_way

    def side(self) -> list[Hashable]:
        """Draw one side of a partition: some of the agents, but not all."""
        if len(self._nodes) < 2:
            raise check.refuse(self._name, "> 0", "0: the graph has one node")
        size = int(self.rng.integers(1, len(self._nodes)))
        return [self._nodes[place] for place in self.rng.permutation(len(self._nodes))[:size]]
