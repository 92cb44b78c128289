"""Carry messages over several links: wrap messages to distant nodes, and forward the messages of other nodes.

A message to a distant node takes the path agent → outbox → link → inbox → agent once for each link of its route. At
each intermediate node, the router passes the message from the inbox to the outbox, without involving the node's agent.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netsim.core import Frame
from netsim.core.framing import decode_frame
from netsim.core.records import CORRUPTED, HOP_LIMIT
from netsim.errors import AgentError, WireError
from netsim.transport.outbox import Outbox
from netsim.transport.routes import Routes
from netsim.transport.shared import Shared
from netsim.wire.routed import EVERYONE, Routed

__all__ = ["Router"]


@dataclass(slots=True, eq=False, repr=False)
class Router:
    """Sends one agent's messages to nodes that are not neighbours, and forwards messages of other agents.

    Parameters
    ----------
    routes : Routes
        The routes of the network.
    shared : Shared
        The state that the run's agents share.
    name : Hashable
        The agent's name.
    names : sequence
        The names of all agents, indexed by number.
    numbers : mapping
        {name of an agent: its number}.
    outbox : Outbox
        The agent's outbox, which sends each message to the next hop.
    """

    _routes: Routes
    _shared: Shared
    _name: Hashable
    _names: Sequence[Hashable]
    _numbers: Mapping[Hashable, int]
    outbox: Outbox

    def reaches(self, to: Hashable) -> bool:
        """Return whether there is a route from this agent to the node ``to``."""
        return to in self._numbers and to != self._name and self._routes.next_hop(self._name, to) is not None

    def hears(self, to: Hashable) -> bool:
        """Return whether there is a route from the node ``to`` to this agent."""
        return bool(self._routes.route(to, self._name))

    def send(
        self,
        to: Hashable,
        kind: str,
        payload: Any,
        round_number: int,
        raw_data: bool,
        request: int | None = None,
        is_reply: bool = False,
    ) -> bool:
        """Send a message to a node to which a route leads; return whether the first link accepted the frame."""
        data = self._data(kind, payload, round_number, request, is_reply)
        routed = Routed(self._numbers[to], self._routes.hop_limit - 1, raw_data, data)
        return self._pass_on(self._routes.next_hop(self._name, to), kind, routed)

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Send a message to all nodes along the tree of routes; return how many links of this agent accepted it."""
        self._routes.refuse_one_way()
        tree = self._routes.tree(self._name)
        if len(tree) < len(self._names):
            left = next(name for name in self._names if name not in tree)
            raise AgentError(f"agent {self._name!r} cannot broadcast to everyone: no route leads back from {left!r}")
        data = self._data(kind, payload, round_number)
        routed = Routed(EVERYONE, self._routes.hop_limit - 1, raw_data, data)
        return sum(self._pass_on(child, kind, routed) for child in tree[self._name])

    def heard(self, frame: Frame) -> tuple[Frame | None, int]:
        """Forward a routed message, if it has further to go.

        Return the inner frame if this agent is a destination (else None), and the drop reason (0: not dropped).
        """
        routed = frame.payload
        inner = self.inner(frame)
        if inner is None:
            return None, CORRUPTED
        to_all = routed.destination == EVERYONE
        if to_all:
            hops = self._routes.tree(inner.sender).get(self._name, []) if routed.hops else []
        elif self._names[routed.destination] == self._name:
            return inner, 0
        else:
            hops = [self._routes.next_hop(self._name, self._names[routed.destination])]
            if None in hops:
                # On a valid route, every hop has a next hop, so the destination must have been corrupted on the way.
                return None, CORRUPTED
            if not routed.hops:
                return None, HOP_LIMIT
        further = Routed(routed.destination, routed.hops - 1, routed.raw_data, routed.data)
        for hop in hops:
            self._pass_on(hop, frame.kind, further)
        return (inner if to_all else None), 0

    def inner(self, frame: Frame) -> Frame | None:
        """Return the inner frame that a routed frame carries; None if it is damaged."""
        routed = frame.payload
        try:
            inner = decode_frame(routed.data, frame.sent_at, self._names, self._shared.encoder.kinds)
        except WireError:
            return None
        return inner if routed.destination < len(self._names) else None

    def is_for_agent(self, frame: Frame) -> bool:
        """Return whether a routed frame carries a message to this agent that is not a reply."""
        destination = frame.payload.destination
        inner = self.inner(frame)
        is_mine = destination == EVERYONE or (inner is not None and self._names[destination] == self._name)
        return is_mine and inner is not None and not inner.is_reply

    def _data(
        self, kind: str, payload: Any, round_number: int, request: int | None = None, is_reply: bool = False
    ) -> bytes:
        """Return the encoded inner frame, which stays the same on all hops."""
        shared = self._shared
        if shared.rounds.is_closing(round_number, shared.loop.now()):
            round_number = 0
        number = self._numbers[self._name]
        return shared.encoder.encode(kind, number, round_number, payload, request, is_reply)

    def _pass_on(self, hop: Hashable | None, kind: str, routed: Routed) -> bool:
        # Send outside rounds (0): only the destination decides whether the message is late for its round.
        return self.outbox.send(hop, kind, routed, 0, routed.raw_data)
