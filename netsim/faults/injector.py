"""Apply a script of faults to a run: take agents and links down, and bring them back up."""

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import networkx as nx

from netsim.agent import Agent, slots_of
from netsim.errors import BadInput, one_line
from netsim.faults.record import FaultRecord
from netsim.faults.script import Faults
from netsim.topology import links_of, senders_to

if TYPE_CHECKING:
    from netsim.engine.link_changes import LinkChanges
    from netsim.engine.places import Place
    from netsim.engine.runtime import Runtime
    from netsim.faults.events import Fault, Links, Move, Rewire
    from netsim.transport.outbox import Outbox

    Way = Iterator[tuple[float, Place]]

__all__ = ["FaultInjector"]


class FaultInjector:
    """Applies the faults of a script to a run.

    The constructor raises BadInput if a fault resets an agent's state but the state cannot be copied.

    Attributes
    ----------
    faults : Faults
        The script.
    """

    def __init__(self, faults: Faults, graph: "nx.Graph[Any]", run: "Runtime") -> None:
        self.faults, self.graph = faults, graph
        self._run = run
        # {link: number of faults that currently cut the link}, where a sender that is down counts as one fault.
        self._cut: Counter[tuple[Hashable, Hashable]] = Counter()
        # {agent: number of faults that currently keep the agent down}.
        self._down: Counter[Hashable] = Counter()
        # The links that the user's program has cut, and the agents whose receivers it has switched off. The end of a
        # fault does not restore them.
        self._cut_by_program: set[tuple[Hashable, Hashable]] = set()
        self._off_by_program: set[Hashable] = set()
        # The agents that are down and have lost their state.
        self._lost: set[Hashable] = set()
        # The agents that have left for good.
        self._gone: set[Hashable] = set()
        self._delays: dict[Hashable, list[float]] = {}
        self._states: dict[Hashable, Any] = {}
        # For each moving agent: the remaining steps, and the time (s) and position of the next step.
        self._ways: dict[Hashable, tuple[Way, float, Place]] = {}
        # The latest `Rewire` that has begun; None before the first.
        self._rewiring: Rewire | None = None
        # The links that the latest rewiring has removed, as keys of a dict, because a set has no order.
        self._absent: dict[tuple[Hashable, Hashable], None] = {}
        # The record for the trace: the run's faults, links cut by the user's program, and empty batteries. It gets the
        # nodes of the whole graph, because a worker has only some of the agents, but records every fault.
        self.record = FaultRecord(run.settings.graph)
        # (time in s, function to call at that time) for each beginning and end of a fault.
        self.actions: list[tuple[float, Callable[[], None]]] = []
        for number, fault in enumerate(faults):
            fault.prepare(self)
            # Skip a fault without duration: an agent that joins at time 0 is never absent.
            if fault.ends != fault.begins:
                self.actions.append((fault.begins, partial(self._begin, fault, number)))
                if fault.ends is not None:
                    self.actions.append((fault.ends, partial(self._end, fault, number)))
        # The sort is stable, so actions at the same time stay in the order of the script.
        self.actions.sort(key=lambda action: action[0])

    def _begin(self, fault: "Fault", number: int) -> None:
        self.record.begin(number, fault, self.graph, self._run.loop.now())
        fault.begin(self, number)

    def _end(self, fault: "Fault", number: int) -> None:
        self.record.end(number, self._run.loop.now())
        fault.end(self, number)

    def is_down(self, agent: Hashable) -> bool:
        """Return whether an agent is down; its code must not run then."""
        return self._down[agent] > 0

    # --- agents -------------------------------------------------------------------------------------------------------

    def down(self, agent: Hashable, for_good: bool = False) -> None:
        """Add 1 to the number of faults that keep an agent down; if the number becomes 1, stop the agent."""
        self._down[agent] += 1
        if self._down[agent] == 1:
            self._run.set_receiver(agent, up=False)
            self.cut(self._outgoing(agent))
            self._run.halt(agent)
        if for_good and agent not in self._gone:
            self._gone.add(agent)
            self._run.tasks.finished(agent)

    def back(self, agent: Hashable, keeps_state: bool) -> None:
        """Subtract 1 from the number of faults that keep an agent down; if the number becomes 0, restart the agent."""
        if not keeps_state:
            self._lost.add(agent)
        self._down[agent] -= 1
        if self._down[agent]:
            return
        self._run.set_receiver(agent, up=agent not in self._off_by_program)
        self.mend(self._outgoing(agent))
        if agent in self._lost:
            self._lost.remove(agent)
            if agent in self._states:
                _restore(self._run.agents[agent], self._states[agent])
        self._run.restart(agent)

    def set_receiver(self, agent: Hashable, up: bool) -> None:
        """Switch an agent's receiver off or on for the user's program; it stays off while the agent is down."""
        (self._off_by_program.discard if up else self._off_by_program.add)(agent)
        self._run.set_receiver(agent, up and not self.is_down(agent))

    def keep_state(self, agent: Hashable) -> None:
        """Copy an agent's initial state, for a restart after a crash in which the agent loses its state."""
        if agent in self._run.contexts:
            self._states[agent] = _state_of(agent, self._run.agents[agent])

    def slow(self, agent: Hashable, delay: float, begins: bool) -> None:
        """Add (``begins``) or remove a delay of ``delay`` seconds before each message of an agent."""
        delays = self._delays.setdefault(agent, [])
        (delays.append if begins else delays.remove)(delay)
        self._run.slow(agent, sum(delays))

    # --- places -------------------------------------------------------------------------------------------------------

    def may_walk(self, move: "Move") -> None:
        """Raise BadInput if the network has no positions, or the move's position is invalid."""
        self._run.whereabouts(type(move).__name__).place(move.agent, move.position)

    def walk(self, move: "Move") -> None:
        """Begin a move of an agent."""
        agent, places = move.agent, self._run.whereabouts("Move")
        before = self._ways.pop(agent, None)
        if before is not None and before[1] <= self._run.loop.now():
            # The next step of the earlier move is due at this instant: make this step before the new move begins.
            places.put(agent, before[2])
        if move.until is None:
            places.jump(agent, move.position)
        else:
            places.set_out(agent)
            self._walk_on(agent, move.way_from(places.now[agent]))

    def stand(self, agent: Hashable) -> None:
        """End an agent's move, so that the agent stays at its current position."""
        self._ways.pop(agent, None)

    def _walk_on(self, agent: Hashable, way: "Way") -> None:
        """Schedule the next step of an agent's way."""
        following = next(way, None)
        if following is not None:
            step = self._ways[agent] = (way, *following)
            self._run.schedule(following[0], partial(self._arrive, agent, step))

    def _arrive(self, agent: Hashable, step: "tuple[Way, float, Place]") -> None:
        """Move an agent to the position of a step, unless a later move has replaced the move of this step."""
        if self._ways.get(agent) is step:
            del self._ways[agent]
            self._run.whereabouts("Move").put(agent, step[2])
            self._walk_on(agent, step[0])

    def _outgoing(self, agent: Hashable) -> list[tuple[Hashable, Hashable]]:
        return [(agent, other) for other in self.graph[agent]]

    # --- links --------------------------------------------------------------------------------------------------------

    @property
    def changes(self) -> "LinkChanges":
        """The object that changes links' settings, and holds or drops frames in flight."""
        return self._run.changes

    def may_hold(self, what: str) -> None:
        """Raise BadInput if the medium cannot hold or drop frames in flight; ``what`` names the fault."""
        self.changes.check_wired(what)

    def cut(self, links: Iterable[tuple[Hashable, Hashable]], drops: bool = False) -> None:
        """For each link, add 1 to the number of faults that cut it; cut the link if the number becomes 1.

        If ``drops``, drop the frames in flight on all these links.
        """
        links = tuple(links)
        if drops:
            self.changes.drop(links)
        for link in links:
            self._cut[link] += 1
            if self._cut[link] == 1:
                self._run.set_link(*link, up=False)

    def mend(self, links: Iterable[tuple[Hashable, Hashable]]) -> None:
        """For each link, subtract 1 from the number of faults that cut it; restore the link if the number becomes 0."""
        for link in links:
            self._cut[link] -= 1
            if not self._cut[link] and link not in self._cut_by_program:
                self._run.set_link(*link, up=True)

    def set_links(self, links: "Links", up: bool) -> None:
        """Cut or restore links for the user's program, which may also restore links that a fault has cut."""
        for link in links:
            (self._cut_by_program.discard if up else self._cut_by_program.add)(link)
            self._run.set_link(*link, up)

    def rewire(self, fault: "Rewire", place: int) -> None:
        """Set the links to those of the graph with index ``place`` of a rewiring, unless a later rewiring has begun."""
        if place == 0:
            self._rewiring = fault
        elif self._rewiring is not fault:
            return
        there = set(fault.graphs[place % len(fault.graphs)])
        before, self._absent = self._absent, {link: None for link in links_of(self.graph) if link not in there}
        self.mend([link for link in before if link not in self._absent])
        self.cut([link for link in self._absent if link not in before])
        for name, context in self._run.contexts.items():
            context.out_neighbors = tuple(each for each in self.graph[name] if (name, each) in there)
            context.in_neighbors = tuple(each for each in senders_to(self.graph, name) if (each, name) in there)
        if place + 1 < fault.repeat * len(fault.graphs):
            self._run.schedule(fault.at + (place + 1) * fault.period, partial(self.rewire, fault, place + 1))

    def outboxes(self, links: "Links") -> "Iterator[tuple[Outbox, int]]":
        """For each of ``links``, yield the sender's outbox and the link's index in this outbox.

        If ``links`` is empty, all links of the graph are meant.
        """
        for sender, receiver in links or links_of(self.graph):
            # A sender in another process has no outbox in this one.
            if (outbox := self._run.outboxes.get(sender)) is not None:
                yield outbox, outbox.link_index_of[receiver]


def _state_of(name: Hashable, agent: Agent) -> Any:
    """Return a deep copy of an agent's state, which is the result of ``__getstate__``, as for pickle."""
    try:
        state = agent.__getstate__()
        # With the memo {id(agent): agent}, `deepcopy` does not copy the agent, but keeps references to it, such as
        # those in bound methods.
        return copy.deepcopy(state, {id(agent): agent})
    except Exception as error:
        why = f"it cannot be copied ({type(error).__name__}: {one_line(error)}); use keeps_state=True"
        raise BadInput(f"Crash: agent = {name!r}: must be copied to begin anew without its state; {why}") from error


def _restore(agent: Any, state: Any) -> None:
    """Replace an agent's attributes by a copy of a state from `_state_of`."""
    state = copy.deepcopy(state, {id(agent): agent})
    # Keep the agent's context and the record of its operations, because they are data of the run.
    kept = {name: value for name, value in vars(agent).items() if name in ("_netsim", "_operations")}
    vars(agent).clear()
    for slot in slots_of(agent.__class__):
        with suppress(AttributeError):
            object.__delattr__(agent, slot)
    if hasattr(agent, "__setstate__"):
        agent.__setstate__(state)
    else:
        fields, slots = state if isinstance(state, tuple) else (state, None)
        vars(agent).update(fields or {})
        for name, value in (slots or {}).items():
            object.__setattr__(agent, name, value)
    vars(agent).update(kept)
