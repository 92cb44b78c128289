"""Having a script of faults happen in a run: holding agents and links down, and letting them go again."""

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MemberDescriptorType
from typing import Any, Protocol

import networkx as nx

from netsim.agent import Agent
from netsim.errors import BadInput, one_line
from netsim.faults.events import Crash, Jitter, Join, Leave, LinkDown, Partition, Straggler
from netsim.faults.script import Faults
from netsim.transport.context import Context

__all__ = ["Player", "Stage"]

Link = tuple[Hashable, Hashable]


class Stage(Protocol):
    """What a run lets faults do."""

    @property
    def agents(self) -> Mapping[Any, Agent]:
        """The agents by their names."""

    @property
    def contexts(self) -> Mapping[Hashable, Context]:
        """What each agent holds of the network."""

    def set_link(self, sender: Hashable, receiver: Hashable, up: bool) -> None:
        """Cut or mend one direction of a link."""

    def set_receiver(self, agent: Hashable, up: bool) -> None:
        """Switch an agent's receiver off or on."""

    def halt(self, agent: Hashable) -> None:
        """Stop an agent's code where it is."""

    def give_up(self, agent: Hashable) -> None:
        """Count an agent as finished: it never comes back."""

    def restart(self, agent: Hashable) -> None:
        """Begin an agent's code anew, unless it had finished."""


class _Life:
    """Whether an agent is down, and what it has left."""

    def __init__(self) -> None:
        self.holds = 0
        self.lost_state = self.gone = False


class Player:
    """Has the faults of a script happen.

    Parameters
    ----------
    faults : Faults
        The script.
    graph : networkx Graph
        The network's.
    stage : Stage
        The run.

    Raises
    ------
    BadInput
        If an agent that is to lose its state cannot be copied.
    """

    def __init__(self, faults: Faults, graph: "nx.Graph[Any]", stage: Stage) -> None:
        self._graph = graph
        self._stage = stage
        self._held: Counter[Link] = Counter()
        self._lives: dict[Hashable, _Life] = {}
        self._delays: dict[Hashable, list[float]] = {}
        self._states = {
            fault.agent: _state_of(fault.agent, stage.agents[fault.agent])
            for fault in faults
            if isinstance(fault, Crash) and not fault.keeps_state and fault.until is not None
        }
        # In the order of their times, and of the script where these are equal.
        self.actions: list[tuple[float, Callable[[], None]]] = []
        for number, fault in enumerate(faults):
            if type(fault) in _ACTIONS:
                self.actions += _ACTIONS[type(fault)](self, fault, number)
        self.actions.sort(key=lambda action: action[0])

    def is_down(self, agent: Hashable) -> bool:
        """Return whether an agent's code must not run."""
        return agent in self._lives and self._lives[agent].holds > 0

    # --- agents -------------------------------------------------------------------------------------------------------

    def down(self, agent: Hashable, for_good: bool = False) -> None:
        """Let an agent fail, for one reason more."""
        life = self._lives.setdefault(agent, _Life())
        life.holds += 1
        if life.holds == 1:
            self._stage.set_receiver(agent, up=False)
            self._hold(self._outgoing(agent))
            self._stage.halt(agent)
        if for_good and not life.gone:
            life.gone = True
            self._stage.give_up(agent)

    def back(self, agent: Hashable, keeps_state: bool) -> None:
        """Take one reason away; without any left, the agent begins anew."""
        life = self._lives[agent]
        life.lost_state = life.lost_state or not keeps_state
        life.holds -= 1
        if life.holds:
            return
        self._stage.set_receiver(agent, up=True)
        self._release(self._outgoing(agent))
        if life.lost_state:
            life.lost_state = False
            _restore(self._stage.agents[agent], self._states[agent])
        self._stage.restart(agent)

    def _outgoing(self, agent: Hashable) -> list[Link]:
        return [(agent, other) for other in self._graph[agent]]

    def slow(self, agent: Hashable, delay: float, begins: bool) -> None:
        """Let an agent need so much longer (s) for each message, or no more."""
        delays = self._delays.setdefault(agent, [])
        (delays.append if begins else delays.remove)(delay)
        self._stage.contexts[agent].delay = sum(delays)

    # --- links --------------------------------------------------------------------------------------------------------

    def _hold(self, links: Iterable[Link]) -> None:
        for link in links:
            self._held[link] += 1
            if self._held[link] == 1:
                self._stage.set_link(*link, up=False)

    def _release(self, links: Iterable[Link]) -> None:
        for link in links:
            self._held[link] -= 1
            if not self._held[link]:
                self._stage.set_link(*link, up=True)

    def cut(self, links: Iterable[Link]) -> Callable[[], None]:
        """Return the action that cuts links."""
        return partial(self._hold, links)

    def mend(self, links: Iterable[Link]) -> Callable[[], None]:
        """Return the action that mends them."""
        return partial(self._release, links)

    def jitter(self, fault: Jitter, number: int, begins: bool) -> None:
        """Let a burst of jitter begin or end on its links."""
        links = fault.on or [pair for a, b in self._graph.edges for pair in ((a, b), (b, a))]
        for sender, receiver in links:
            outbox = self._stage.contexts[sender].outbox
            place = outbox.places[receiver]
            if begins:
                outbox.disturb(place, number, fault.most)
            else:
                outbox.calm(place, number)


def _state_of(name: Hashable, agent: Agent) -> Any:
    """Return a copy of what an agent holds, as pickle would keep it: see ``__getstate__``."""
    try:
        state = agent.__getstate__()
        # What the agent holds of itself (a table of its methods, say) stays the agent's, not the copy's.
        return copy.deepcopy(state, {id(agent): agent})
    except Exception as error:
        why = f"it cannot be copied ({type(error).__name__}: {one_line(error)}); use keeps_state=True"
        raise BadInput(f"Crash: agent = {name!r}: must be copied to begin anew without its state; {why}") from error


def _restore(agent: Any, state: Any) -> None:
    """Give an agent back a copy of the attributes that it had."""
    state = copy.deepcopy(state, {id(agent): agent})
    place = vars(agent)["_netsim"]
    vars(agent).clear()
    for slot in _slots_of(type(agent)):
        with suppress(AttributeError):
            object.__delattr__(agent, slot)
    if hasattr(agent, "__setstate__"):
        agent.__setstate__(state)
    else:
        fields, slots = state if isinstance(state, tuple) else (state, None)
        vars(agent).update(fields or {})
        for name, value in (slots or {}).items():
            object.__setattr__(agent, name, value)
    vars(agent)["_netsim"] = place


def _slots_of(kind: type) -> list[str]:
    """Return the attributes that are kept in slots, a private one by its full name."""
    return [
        name for each in kind.__mro__ for name, member in vars(each).items() if isinstance(member, MemberDescriptorType)
    ]


Actions = list[tuple[float, Callable[[], None]]]


def _spanning(fault: Any, begin: Callable[[], None], end: Callable[[], None]) -> Actions:
    return [(fault.at, begin)] + ([] if fault.until is None else [(fault.until, end)])


def _crash(player: Player, fault: Crash, number: int) -> Actions:
    begin = partial(player.down, fault.agent, for_good=fault.until is None)
    return _spanning(fault, begin, partial(player.back, fault.agent, fault.keeps_state))


def _join(player: Player, fault: Join, number: int) -> Actions:
    if not fault.at:
        return []
    return [(0.0, partial(player.down, fault.agent)), (fault.at, partial(player.back, fault.agent, True))]


def _leave(player: Player, fault: Leave, number: int) -> Actions:
    return [(fault.at, partial(player.down, fault.agent, for_good=True))]


def _link_down(player: Player, fault: LinkDown, number: int) -> Actions:
    return _spanning(fault, player.cut(fault.links()), player.mend(fault.links()))


def _partition(player: Player, fault: Partition, number: int) -> Actions:
    links = fault.cut(player._graph)
    return _spanning(fault, player.cut(links), player.mend(links))


def _straggler(player: Player, fault: Straggler, number: int) -> Actions:
    slow = partial(player.slow, fault.agent, fault.delay)
    return _spanning(fault, partial(slow, True), partial(slow, False))


def _jitter(player: Player, fault: Jitter, number: int) -> Actions:
    jitter = partial(player.jitter, fault, number)
    return _spanning(fault, partial(jitter, True), partial(jitter, False))


_ACTIONS: dict[type, Callable[[Player, Any, int], Actions]] = {
    Crash: _crash,
    Join: _join,
    Leave: _leave,
    LinkDown: _link_down,
    Partition: _partition,
    Straggler: _straggler,
    Jitter: _jitter,
}
