"""The kinds of faults: a class for each kind. All times are in seconds of simulated time.

To add a kind, add one class here. The class defines and checks the fields of a fault, applies a fault at its beginning,
undoes it at its end, and draws one at random.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import networkx as nx

from netsim.clock.clock import LocalClock
from netsim.clock.rounds import SHORTEST_ROUND, distinguishable
from netsim.clock.virtual_clock import LATEST
from netsim.errors import BadInput
from netsim.links.latency import Latency
from netsim.links.link import Link
from netsim.links.loss import Loss
from netsim.topology import links_of
from netsim.util import check
from netsim.util.draws import plain_name

if TYPE_CHECKING:
    from netsim.faults.injector import FaultInjector
    from netsim.faults.script import FaultSampler

__all__ = [
    "ClockSkew",
    "Crash",
    "Fault",
    "Hold",
    "Jitter",
    "Join",
    "Leave",
    "LinkChange",
    "LinkDown",
    "Lose",
    "Move",
    "Partition",
    "Rewire",
    "Straggler",
]

Links = tuple[tuple[Hashable, Hashable], ...]

# Suffix of the description of a fault that drops frames in flight.
_DROPS = ", and drops what is in flight"


def _sort_key(name: Hashable) -> tuple[str, str]:
    """Return a sort key for agents' names, which may be of different types; equal names have equal keys."""
    plain = plain_name(name)
    return type(plain).__name__, repr(plain)


@dataclass(frozen=True)
class Fault:
    """Base class of faults; each kind of fault is a subclass.

    A kind is a frozen dataclass with a field ``at``, the time (s) at which the fault begins. A kind whose faults may
    end also has a field ``until``: the time (s) of the end, or None.

    Attributes
    ----------
    plural : str
        The name of the parameter of `Faults.draw` for the number of faults of this kind; empty if `Faults.draw` does
        not draw this kind.
    once : bool
        Whether an agent can have only one fault of this kind.
    kinds : dict
        {name of the class: class} for all kinds. `Faults.save` writes these names to files.
    """

    plural: ClassVar[str] = ""
    once: ClassVar[bool] = False
    kinds: ClassVar[dict[str, type["Fault"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = cls.__name__
        # A user's class with the name of a kind in this module must not replace this kind.
        if not name.startswith("_") and (cls.__module__ == __name__ or name not in __all__):
            Fault.kinds[name] = cls

    def __post_init__(self) -> None:
        check.fields(self, check.finite, "at", low=0, high=LATEST)
        if getattr(self, "until", None) is not None:
            check.fields(self, check.finite, "until", above=self.begins, high=LATEST)

    @property
    def begins(self) -> float:
        """The time (s) at which the fault begins."""
        return float(getattr(self, "at", 0.0))

    @property
    def ends(self) -> float | None:
        """The time (s) at which the fault ends; None if it never ends."""
        return getattr(self, "until", None)

    def prepare(self, injector: "FaultInjector") -> None:
        """Prepare for the fault before the run begins, for example by copying an agent's state."""

    def begin(self, injector: "FaultInjector", number: int) -> None:
        """Apply the fault in a run; ``number`` is its index in the script."""

    def end(self, injector: "FaultInjector", number: int) -> None:
        """Undo the effects of the fault; called at its end, with the same ``number`` as `begin`."""

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> "Fault":
        """Draw a fault of this kind at random; raises BadInput if no agent or link is left for it."""
        raise NotImplementedError

    def agents(self) -> tuple[Hashable, ...]:
        """Return the agents that the fault names."""
        return ()

    def links(self) -> Links:
        """Return the links (sender, receiver) that the fault names."""
        return ()

    def links_in(self, graph: "nx.Graph[Any]") -> Links:
        """Return the links of a graph that the fault affects."""
        return tuple(link for link in self.links() if graph.has_edge(*link))

    def must_fit(self, graph: "nx.Graph[Any]") -> None:
        """Raise BadInput if the fault names an agent or link that the graph lacks."""
        for agent in self.agents():
            check.member(f"{type(self).__name__}: agent", agent, graph, "a node of the graph")
        for link in self.links():
            if not (all(end in graph for end in link) and graph.has_edge(*link)):
                raise check.refuse(f"{type(self).__name__}: link", link, "an edge of the graph")

    def _span(self) -> str:
        return f"from {self.begins:g} s" + ("" if self.ends is None else f" to {self.ends:g} s")


@dataclass(frozen=True)
class _OfAgent(Fault):
    """Base class of faults of one agent."""

    agent: Hashable

    def agents(self) -> tuple[Hashable, ...]:
        """Return the fault's agent as a tuple of one."""
        return (self.agent,)


@dataclass(frozen=True)
class Crash(_OfAgent):
    """A node fails: its code stops immediately, and frames sent to it end as ``receiver_down``.

    On a `netsim.Radio` the node's radio is off while the node is down: a frame that it was sending is cut short, and
    the node spends no energy.

    When the node recovers, the agent's `run` starts again. `Agent.rounds` then skips the rounds that have passed since
    the agent's first round, so that the agent ends when the others end.

    Parameters
    ----------
    agent : Hashable
        The agent's name.
    at : float
        Time of the failure, in seconds.
    until : float, optional
        Time of the recovery, in seconds. None: the node never recovers.
    keeps_state : bool
        Whether the agent's attributes survive the crash, as in flash memory. Otherwise they are reset to their values
        before the run.
    """

    at: float
    until: float | None = None
    keeps_state: bool = False
    plural = "crashes"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.flag, "keeps_state")

    def __str__(self) -> str:
        if self.until is None:
            return f"agent {self.agent!r} is down for good from {self.at:g} s"
        how = "with" if self.keeps_state else "without"
        return f"agent {self.agent!r} is down {self._span()} and returns {how} its state"

    def prepare(self, injector: "FaultInjector") -> None:
        if not self.keeps_state and self.until is not None:
            injector.keep_state(self.agent)

    def begin(self, injector: "FaultInjector", number: int) -> None:
        injector.down(self.agent, for_good=self.until is None)

    def end(self, injector: "FaultInjector", number: int) -> None:
        injector.back(self.agent, self.keeps_state)

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(sampler.node(), *sampler.span(), keeps_state=sampler.keeps_state())


@dataclass(frozen=True)
class _Once(_OfAgent):
    """Base class of `Leave` and `Join`, which happen at one time ``at`` (s)."""

    at: float
    until = None

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(sampler.node_once(), sampler.span()[0])


@dataclass(frozen=True)
class Leave(_Once):
    """An agent leaves at time ``at`` (s), and never returns."""

    plural = "leaves"

    def __str__(self) -> str:
        return f"agent {self.agent!r} leaves at {self.at:g} s"

    def begin(self, injector: "FaultInjector", number: int) -> None:
        injector.down(self.agent, for_good=True)


@dataclass(frozen=True)
class Join(_Once):
    """An agent joins at time ``at`` (s), before which it neither sends nor receives; it ends with the other agents."""

    plural = "joins"
    once = True

    @property
    def begins(self) -> float:
        """The time (s) at which the agent's absence begins: 0, the beginning of the run."""
        return 0.0

    @property
    def ends(self) -> float:
        """The time (s) at which the agent joins, which ends its absence."""
        return self.at

    def __str__(self) -> str:
        return f"agent {self.agent!r} joins at {self.at:g} s"

    def begin(self, injector: "FaultInjector", number: int) -> None:
        injector.down(self.agent)

    def end(self, injector: "FaultInjector", number: int) -> None:
        injector.back(self.agent, keeps_state=True)


@dataclass(frozen=True)
class _OfLink(Fault):
    """Base class of faults of a link between two agents, in one direction or both."""

    sender: Hashable
    receiver: Hashable
    at: float
    until: float | None = None
    one_way: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.flag, "one_way")

    def links(self) -> Links:
        """Return the directed links of the fault: the link and, unless ``one_way``, the reverse link."""
        there = (self.sender, self.receiver)
        return (there,) if self.one_way else (there, there[::-1])

    def must_fit(self, graph: "nx.Graph[Any]") -> None:
        """Raise BadInput if the graph lacks the link from sender to receiver; the reverse link may be missing."""
        there = (self.sender, self.receiver)
        if not (all(end in graph for end in there) and graph.has_edge(*there)):
            raise check.refuse(f"{type(self).__name__}: link", there, "an edge of the graph")

    def _name(self) -> str:
        return f"link {self.sender!r} {'→' if self.one_way else '↔'} {self.receiver!r}"

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(*sampler.edge(), *sampler.span(), one_way=sampler.coin())


class _Cut(Fault):
    """Base class of faults that cut links, and may drop the frames in flight on these links."""

    drops = False

    def prepare(self, injector: "FaultInjector") -> None:
        if self.drops:
            injector.may_hold(f"{type(self).__name__}: drops")

    def begin(self, injector: "FaultInjector", number: int) -> None:
        injector.cut(self.links_in(injector.graph), drops=self.drops)

    def end(self, injector: "FaultInjector", number: int) -> None:
        injector.mend(self.links_in(injector.graph))


@dataclass(frozen=True)
class LinkDown(_OfLink, _Cut):
    """A link is cut: frames offered to it end as ``link_down``; frames already in flight arrive, unless dropped.

    On a `netsim.Radio` the sender does not notice the cut: it transmits, but ``receiver`` cannot decode its frames.

    Parameters
    ----------
    sender, receiver : Hashable
        The ends of the link.
    at : float
        Time of the cut, in seconds.
    until : float, optional
        Time of the repair, in seconds. None: the link stays cut.
    one_way : bool
        Whether only this direction is cut. Otherwise the link from receiver to sender, if there is one, is cut, too.
    drops : bool
        Whether frames on the link and in its queue end as ``lost`` at the time of the cut. Not possible on a
        `netsim.Radio`.
    """

    drops: bool = False
    plural = "cuts"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.flag, "drops")

    def __str__(self) -> str:
        return f"{self._name()} is down {self._span()}{_DROPS if self.drops else ''}"


@dataclass(frozen=True)
class LinkChange(_OfLink):
    """The given settings of a link change; its other settings remain as they are.

    Losses and delays are computed from the same random numbers as without the change. So the draws of other links do
    not change, and neither do the draws of this link after the end of the change. On frames in flight and in the queue
    only a new ``rate`` has an effect: bits that are not yet sent leave earlier or later. If two changes overlap, the
    one that begins last applies.

    Parameters
    ----------
    sender, receiver : Hashable
        The ends of the link.
    at : float
        Time of the change, in seconds.
    until : float, optional
        The time (s) at which the link gets its former settings back. None: never.
    one_way : bool
        Whether only this direction changes. Otherwise the link from receiver to sender, if there is one, changes, too.
    latency, loss, rate, queue, queue_bits, duplicate, corrupt, crc
        As in `netsim.Link`. None: unchanged. A ``rate`` is in bits per second, and `math.inf` means that sending takes
        no time.
    """

    latency: float | Latency | None = None
    loss: float | Loss | None = None
    rate: float | None = None
    queue: int | None = None
    queue_bits: int | None = None
    duplicate: float | None = None
    corrupt: float | None = None
    crc: bool | None = None
    plural = "changes"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.settings:
            raise BadInput(f"LinkChange: must change one of {', '.join(CHANGEABLE)}")
        given = {name: value for name, value in self.settings.items() if name != "rate" or value != math.inf}
        # `Link` accepts a queue limit only with a rate. The changed link may already have a rate, so check the settings
        # with any rate.
        link = Link(**({"rate": 1.0} | given))
        check.put(self, **{name: getattr(link, name) for name in given if name not in ("latency", "loss")})

    @property
    def settings(self) -> dict[str, Any]:
        """{name: value} of the changed settings."""
        return {name: getattr(self, name) for name in CHANGEABLE if getattr(self, name) is not None}

    def __str__(self) -> str:
        return f"{self._name()} has {settings_text(self.settings)} {self._span()}"

    def prepare(self, injector: "FaultInjector") -> None:
        links, changes = self.links_in(injector.graph), injector.changes
        changes.check("LinkChange", links, self.settings)
        if self.queue is not None or self.queue_bits is not None:
            # A queue limit needs a rate, which another change may set, earlier or later.
            others = [fault for fault in injector.faults if isinstance(fault, LinkChange)]
            rated = {
                link
                for fault in others
                if fault.rate not in (None, math.inf)
                for link in fault.links_in(injector.graph)
            }
            changes.check_queue([link for link in links if link not in rated], self.settings)

    def begin(self, injector: "FaultInjector", number: int) -> None:
        links = self.links_in(injector.graph)
        if self.until is None:
            injector.changes.change("LinkChange", links, self.settings)
        else:
            injector.changes.begin("LinkChange", links, self.settings, number)

    def end(self, injector: "FaultInjector", number: int) -> None:
        injector.changes.end(self.links_in(injector.graph), number)

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(*sampler.edge(), *sampler.span(), one_way=sampler.coin(), loss=sampler.size("loss"))


CHANGEABLE = ("latency", "loss", "rate", "queue", "queue_bits", "duplicate", "corrupt", "crc")
"""The settings of a `netsim.Link` that may change during a run."""


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return changed settings as text, such as "loss 0.3, rate 1e+06"."""
    shown = {name: f"{value:g}" if type(value) in (int, float) else str(value) for name, value in settings.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


@dataclass(frozen=True)
class Hold(_OfLink):
    """A link is on hold: frames that would arrive wait, and arrive at the end of the hold, in the order of sending.

    The hold does not change sending, and does not affect frames that arrive after its end. Not possible on a
    `netsim.Radio`.

    Parameters
    ----------
    sender, receiver : Hashable
        The ends of the link. If ``receiver`` is None, all links from and to the agent ``sender`` are on hold.
    at : float
        The time (s) from which frames wait.
    until : float, optional
        The time (s) at which the waiting frames are released. None: never, so that they stay in flight.
    one_way : bool
        Whether only the direction from ``sender`` is on hold. Otherwise both directions are.
    """

    plural = "holds"

    def agents(self) -> tuple[Hashable, ...]:
        """Return the agent whose links are on hold, as a tuple of one; empty if only one link is on hold."""
        return (self.sender,) if self.receiver is None else ()

    def links(self) -> Links:
        """Return the directed links on hold; empty if all links of an agent are on hold."""
        return () if self.receiver is None else super().links()

    def must_fit(self, graph: "nx.Graph[Any]") -> None:
        """Raise BadInput if the graph lacks the agent or the link; the reverse link may be missing."""
        if self.receiver is None:
            Fault.must_fit(self, graph)
        else:
            super().must_fit(graph)

    def links_in(self, graph: "nx.Graph[Any]") -> Links:
        """Return the links of a graph that are on hold."""
        if self.receiver is not None:
            return super().links_in(graph)
        return tuple((a, b) for a, b in links_of(graph) if a == self.sender or (b == self.sender and not self.one_way))

    def __str__(self) -> str:
        if self.receiver is None:
            return f"frames {'from' if self.one_way else 'from and to'} agent {self.sender!r} wait {self._span()}"
        return f"frames on link {self.sender!r} {'→' if self.one_way else '↔'} {self.receiver!r} wait {self._span()}"

    def prepare(self, injector: "FaultInjector") -> None:
        injector.may_hold("Hold")

    def begin(self, injector: "FaultInjector", number: int) -> None:
        injector.changes.hold(self.links_in(injector.graph), number)

    def end(self, injector: "FaultInjector", number: int) -> None:
        injector.changes.release(self.links_in(injector.graph), number)


@dataclass(frozen=True)
class Lose(Fault):
    """A link loses the next frame offered to it, which ends as ``lost``.

    This frame may be a broadcast's copy on this link, or a retransmission. If the link rejects a frame, because it is
    cut or its queue is full, the frame after that is lost instead. On a `netsim.Radio`, the receiver fails to decode
    the next transmission of a frame or fragment; with acknowledgements the sender sends it again.

    Parameters
    ----------
    sender, receiver : Hashable
        The ends of the link.
    at : float
        Time in seconds. The first frame offered to the link from this time on is lost.
    """

    sender: Hashable
    receiver: Hashable
    at: float
    until = None
    plural = "losses"

    def links(self) -> Links:
        """Return the fault's link as a tuple of one."""
        return ((self.sender, self.receiver),)

    def __str__(self) -> str:
        return f"link {self.sender!r} → {self.receiver!r} loses the next frame from {self.at:g} s"

    def begin(self, injector: "FaultInjector", number: int) -> None:
        for outbox, link_index in injector.outboxes(self.links()):
            outbox.lose_next(link_index)

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(*sampler.edge(), sampler.span()[0])


@dataclass(frozen=True)
class Partition(_Cut):
    """The network is split: all links between some agents and the others are cut, in both directions or one way.

    Parameters
    ----------
    side : iterable
        The agents on one side.
    at : float
        Time of the split, in seconds.
    until : float, optional
        Time of the repair, in seconds. None: the network stays split.
    one_way : bool
        Whether only the links from ``side`` to the others are cut, so that ``side`` still receives the others' frames.
    drops : bool
        Whether frames in flight on these links are dropped, as in `LinkDown`.
    """

    side: tuple[Hashable, ...]
    at: float
    until: float | None = None
    one_way: bool = False
    drops: bool = False
    plural = "partitions"

    def __init__(
        self,
        side: Iterable[Hashable],
        at: float,
        until: float | None = None,
        one_way: bool = False,
        drops: bool = False,
    ) -> None:
        if isinstance(side, str) or not isinstance(side, Iterable):
            raise check.refuse("side", side, "agents' names")
        # Sort the names, because ``side`` may be a set, whose order may differ between processes.
        check.put(self, side=tuple(sorted(side, key=_sort_key)))
        check.put(self, at=at, until=until, one_way=one_way, drops=drops)
        check.fields(self, check.flag, "one_way", "drops")
        self.__post_init__()

    def agents(self) -> tuple[Hashable, ...]:
        """Return the agents of one side."""
        return self.side

    def must_fit(self, graph: "nx.Graph[Any]") -> None:
        """Raise BadInput if the graph lacks an agent, or all agents are on one side."""
        super().must_fit(graph)
        if not 0 < len(set(self.side)) < len(graph):
            raise BadInput(
                f"Partition: side has {len(set(self.side))} of {len(graph)} agents: must be some, and not all"
            )

    def links_in(self, graph: "nx.Graph[Any]") -> Links:
        """Return the directed links that are cut."""
        side = set(self.side)
        return tuple(
            (a, b) for a, b in links_of(graph) if (a in side) != (b in side) and (a in side or not self.one_way)
        )

    def __str__(self) -> str:
        names = ", ".join(map(repr, self.side[:8])) + (f", … ({len(self.side)})" if len(self.side) > 8 else "")
        who = f"agent {names} is" if len(self.side) == 1 else f"agents {names} are"
        how = "not heard by" if self.one_way else "cut off from"
        return f"{who} {how} the others {self._span()}{_DROPS if self.drops else ''}"

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(sampler.side(), *sampler.span(), one_way=sampler.one_way())


@dataclass(frozen=True)
class Straggler(_OfAgent):
    """An agent is slow: each of its messages is delayed, as if the agent computed for the time ``delay``.

    A message sent after its round has closed ends as ``late`` at the receivers. Replies of `Agent.answer` are not
    delayed.

    Parameters
    ----------
    agent : Hashable
        The agent's name.
    delay : float
        Seconds by which each message is delayed.
    at : float
        Time in seconds at which the delays begin.
    until : float, optional
        Time in seconds at which the delays end. None: the end of the run.
    """

    delay: float
    at: float = 0.0
    until: float | None = None
    plural = "stragglers"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.finite, "delay", above=0, high=LATEST)

    def __str__(self) -> str:
        return f"agent {self.agent!r} needs {self.delay:g} s for each message {self._span()}"

    def begin(self, injector: "FaultInjector", number: int) -> None:
        injector.slow(self.agent, self.delay, begins=True)

    def end(self, injector: "FaultInjector", number: int) -> None:
        injector.slow(self.agent, self.delay, begins=False)

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(sampler.node(), sampler.size("delay"), *sampler.span())


@dataclass(frozen=True)
class Move(_OfAgent):
    """A node of a `netsim.Deployment` moves to another position, in a straight line and at constant speed.

    The movement is discrete: the node stays at each position for ``step`` seconds. After each step, reception, carrier
    sensing and interference are recomputed. A later `Move` or `Network.move` of the same node ends an earlier `Move`.

    Parameters
    ----------
    agent : Hashable
        The agent's name.
    position : tuple of float
        The destination in metres: (x, y), or (x, y, z). Without z the node keeps its height.
    at : float
        Time of departure, in seconds.
    until : float, optional
        Time of arrival, in seconds. None: the node jumps.
    step : float
        Seconds for which the node stays at each position on the way.
    """

    position: tuple[float, ...]
    at: float
    until: float | None = None
    step: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.finite, "step", low=SHORTEST_ROUND)
        check.put(self, position=check.position("Move: position", self.position))

    @property
    def ends(self) -> None:
        """None even if ``until`` is given: a move has no effects to undo at its end, so `end` need not be called."""
        return

    def way_from(self, start: tuple[float, ...]) -> Iterator[tuple[float, tuple[float, ...]]]:
        """Yield the time (s) and position (m) of each step on the way from ``start`` to the destination."""
        end = (*self.position, *start[len(self.position) :])
        if self.until is not None:
            length = self.until - self.at
            for number in range(1, math.ceil(length / self.step - check.ROUNDING)):
                share = number * self.step / length
                place = tuple(a + share * (b - a) for a, b in zip(start, end, strict=True))
                yield self.at + number * self.step, place
        yield self.at if self.until is None else self.until, end

    def __str__(self) -> str:
        place = ", ".join(f"{each:g}" for each in self.position)
        when = f"at {self.at:g} s" if self.until is None else f"from {self.at:g} s to {self.until:g} s"
        return f"agent {self.agent!r} goes to ({place}) {when}"

    def prepare(self, injector: "FaultInjector") -> None:
        injector.may_walk(self)

    def begin(self, injector: "FaultInjector", number: int) -> None:
        injector.walk(self)


@dataclass(frozen=True)
class Rewire(Fault):
    """A time-varying graph: the network has the links of one graph of a sequence at a time, known to the agents.

    From ``at`` on, the network has the links of the first graph; ``period`` seconds later it has the links of the
    second graph, and so on. The whole sequence is repeated ``repeat`` times, and the last graph remains.
    `Agent.out_neighbors` and `Agent.in_neighbors` change with the graph. A broadcast is still offered to all links of
    the network's graph, and ends as ``link_down`` on an absent link. Frames in flight arrive. If the graph changes at
    the instant at which a round closes, agents collect the frames of this round with their new neighbours. A later
    `Rewire` ends an earlier `Rewire`.

    Parameters
    ----------
    graphs : sequence
        The graphs, each as a networkx graph or as a list of links (sender, receiver). The network's graph must contain
        all of these links; `netsim.topology.union` returns such a graph.
    period : float
        Seconds from one graph to the next; the network's ``round_period`` gives one graph per round.
    repeat : int
        How often the whole sequence is played.
    at : float
        Time of the first graph, in seconds.
    """

    graphs: tuple[Links, ...]
    period: float
    repeat: int = 1
    at: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.finite, "period", low=SHORTEST_ROUND)
        check.fields(self, check.integer, "repeat", low=1)
        if not isinstance(self.graphs, Iterable) or isinstance(self.graphs, str | nx.Graph):
            raise check.refuse("graphs", self.graphs, "a sequence of networkx graphs, or of lists of links")
        check.put(self, graphs=tuple(map(_links_in, self.graphs)))
        if not self.graphs:
            raise check.refuse("graphs", self.graphs, "at least one graph")

    def links(self) -> Links:
        """Return the links that are in at least one of the graphs."""
        return tuple(dict.fromkeys(link for links in self.graphs for link in links))

    def __str__(self) -> str:
        times = f", {self.repeat} times" if self.repeat > 1 else ""
        return f"{len(self.graphs)} graphs follow one another, each {self.period:g} s{times}, from {self.at:g} s"

    def begin(self, injector: "FaultInjector", number: int) -> None:
        injector.rewire(self, 0)


def _links_in(graph: Any) -> Links:
    """Return the links of a networkx graph, or a list of pairs as links."""
    if isinstance(graph, nx.Graph):
        return tuple(links_of(graph))
    pairs = tuple(graph) if isinstance(graph, Iterable) and not isinstance(graph, str) else (graph,)
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise check.refuse("graphs", pair, "networkx graphs, or pairs (sender, receiver)")
    return tuple((a, b) for a, b in pairs)


@dataclass(frozen=True)
class ClockSkew(_OfAgent):
    """A node's clock is wrong for the whole run.

    The wrong clock governs the node's `Agent.now`, rounds, waits (`asyncio.sleep`, timeouts, `Agent.request`), and its
    radio's duty cycle. The simulation's clock governs everything else: results, ledger, trace, `Network.at`, links and
    radios.

    Parameters
    ----------
    agent : Hashable
        The agent's name.
    offset : float
        The simulation's time (s) at which the clock shows 0 and the node's first round opens. With a positive offset
        the clock is behind; with a negative offset it is ahead. A clock that is ahead shows a later time when the run
        begins: rounds before that time take no time, and the round that contains it is shorter.
    drift : float
        Seconds that the clock loses per second shown on it: 5e-5 means that the clock is 50 ppm slow.
    """

    offset: float = 0.0
    drift: float = 0.0
    plural = "skews"
    once = True

    def __post_init__(self) -> None:
        check.fields(self, check.finite, "offset", low=-LATEST, high=LATEST)
        check.fields(self, check.finite, "drift", above=-1)

    @property
    def clock(self) -> LocalClock:
        """The conversion between the node's time and the simulation's time."""
        return LocalClock(self.offset, self.drift)

    def must_keep(self, round_period: float) -> None:
        """Raise BadInput unless rounds that last ``round_period`` (s) on this clock have a valid length.

        Rounds must also be much longer than the rounding errors of times, which grow with ``offset``.
        """
        length = round_period * self.clock.rate
        if not SHORTEST_ROUND <= length <= LATEST:
            allowed = f"such that rounds by this clock last from {SHORTEST_ROUND:g} s to {LATEST:g} s, not {length:g} s"
            raise check.refuse("ClockSkew: drift", self.drift, allowed)
        if not distinguishable(length, self.offset):
            raise check.refuse(
                "ClockSkew: offset", self.offset, f"so small that rounds of {length:g} s can be told apart"
            )

    def __str__(self) -> str:
        behind = f"{abs(self.offset):g} s {'behind' if self.offset >= 0 else 'ahead'}"
        loses = f"{'loses' if self.drift >= 0 else 'gains'} {abs(self.drift) * 1e6:g} us a second"
        return f"agent {self.agent!r} has a clock {behind}, which {loses}"

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(sampler.node_once(), *sampler.clock())


@dataclass(frozen=True)
class Jitter(Fault):
    """A burst of jitter: each frame has an additional delay, drawn uniformly on [0, ``most``).

    Parameters
    ----------
    most : float
        Limit of the additional delay, in seconds.
    at : float
        Time in seconds at which the burst begins.
    until : float, optional
        Time in seconds at which the burst ends. None: the end of the run.
    on : iterable of pairs, optional
        The affected links (sender, receiver). Empty: all links.
    """

    most: float
    at: float = 0.0
    until: float | None = None
    on: Links = ()
    plural = "jitters"

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = tuple(self.on) if isinstance(self.on, Iterable) and not isinstance(self.on, str) else (self.on,)
        for pair in pairs:
            if not (isinstance(pair, tuple | list) and len(pair) == 2):
                raise check.refuse("on", self.on, "pairs (sender, receiver)")
        check.put(self, most=check.finite("most", self.most, above=0), on=tuple((a, b) for a, b in pairs))
        twice = [pair for place, pair in enumerate(self.on) if pair in self.on[:place]]
        if twice:
            raise check.refuse("on", twice[0], "named once")

    def links(self) -> Links:
        """Return the affected links; an empty tuple means all links."""
        return self.on

    def __str__(self) -> str:
        where = f" on {len(self.on)} links" if self.on else ""
        return f"up to {self.most:g} s of jitter{where} {self._span()}"

    def begin(self, injector: "FaultInjector", number: int) -> None:
        for outbox, link_index in injector.outboxes(self.on):
            outbox.begin_jitter(link_index, number, self.most, self.begins)

    def end(self, injector: "FaultInjector", number: int) -> None:
        for outbox, link_index in injector.outboxes(self.on):
            outbox.end_jitter(link_index, number)

    @classmethod
    def sample(cls, sampler: "FaultSampler") -> Fault:
        return cls(sampler.size("jitter"), *sampler.span())
