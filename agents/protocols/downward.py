"""Routes from the root down to the motes, which RPL's destination advertisements (DAO) set up."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from netsim.agents.protocols.collector import Arrival, Packet
from netsim.agents.protocols.kinds import Form, anything, fields, is_name, maybe, whole
from netsim.agents.protocols.mac import first_number

if TYPE_CHECKING:
    import netsim
    from netsim.agents.protocols.rpl import RPL

__all__ = ["DATAGRAM", "IS_DATAGRAM", "MODES", "Downward", "is_datagram"]

MODES = "storing", "non-storing"

DAO, DOWN, DATAGRAM = "dao", "dn", "dg"
IS_DATAGRAM = 2  # flag of a data packet that carries a datagram, not a reading

_HOP_LIMIT = 64
_MOST = 2**62
_SENT_LATELY = 32  # commands remembered for duplicate suppression
_DELAY = 1.0  # mean seconds from a change of parent to its advertisement: RFC 6550's DEFAULT_DAO_DELAY


@dataclass
class _Command:
    """A message that travels down from the root. In non-storing mode ``route`` lists the remaining nodes."""

    kind: str
    target: Hashable
    number: int
    hops: int
    route: list[Hashable] | None
    value: Any

    @property
    def name(self) -> Hashable:
        """The message's key: its number or, for a datagram, (origin, number), because the origin assigned that."""
        return (self.value[0], self.number) if self.kind == DATAGRAM else self.number


is_datagram = fields(is_name, lambda kind: type(kind) is str, anything)
"""The form of a datagram: [target, kind, payload] on the way up, [origin, kind, payload] on the way down."""


def _is_route(value: Any) -> bool:
    return type(value) is list and len(value) <= _HOP_LIMIT and all(map(is_name, value))


class Downward:
    """The downward routes of one node of RPL.

    A node that has chosen a new parent sends a DAO to this parent. The DAO contains the node's name, the parent's name,
    and an increasing number. Each node forwards the DAO to its parent, up to the root. In storing mode, each node on
    the way stores the neighbour from which the DAO arrived, as the next hop to the target. In non-storing mode, only
    the root stores all nodes' parents, and writes the whole route into each message.

    Attributes
    ----------
    routes : dict
        In storing mode {target: neighbour}; in non-storing mode, at the root, {target: parent}.
    received : dict
        {number: `Arrival`} of the messages that the root sent to this node.
    lost : dict
        {number: reason} of the messages that this node dropped; for datagrams, {(origin, number): reason}.
    daos : int
        Number of DAOs that this node has sent, including forwarded ones.
    """

    kinds: ClassVar[Mapping[str, Form]] = {
        DAO: fields(is_name, maybe(is_name), whole(-_MOST, _MOST)),
        DOWN: fields(is_name, whole(-_MOST, _MOST), whole(0, _HOP_LIMIT), maybe(_is_route), anything),
        DATAGRAM: fields(is_name, whole(-_MOST, _MOST), whole(0, _HOP_LIMIT), maybe(_is_route), is_datagram),
    }

    def __init__(self, node: "RPL", mode: str, refresh: float) -> None:
        self._node, self._mode, self._refresh = node, mode, refresh
        self.routes: dict[Hashable, Hashable] = {}
        self.received: dict[int, Arrival] = {}
        self.lost: dict[Hashable, str] = {}
        self.daos = 0
        # {target: (number of its last DAO, parent in this DAO)}.
        self._known: dict[Hashable, tuple[int, Hashable]] = {}
        self._number = first_number(node.now)
        self._up: deque[Hashable] = deque()
        self._down: deque[_Command] = deque()
        self._seen: deque[Hashable] = deque(maxlen=_SENT_LATELY)
        self._parent: Hashable = None
        self._woken = asyncio.Event()

    def control(self) -> list[Coroutine[Any, Any, None]]:
        """Return the node's background coroutines."""
        below = [self._forward()]
        return below if self._node.is_sink else [*below, self._advertise(), self._report()]

    # --- advertisements -----------------------------------------------------------------------------------------------

    async def _advertise(self) -> None:
        """Advertise a new parent after a short random delay, and repeat the advertisement about every ``refresh`` s."""
        node = self._node
        while True:
            wait = self._refresh if node.parent is not None and node.parent == self._parent else _DELAY
            begun, parent = node.now, node.parent
            while node.now < begun + wait * node.rng.uniform(0.5, 1.5) and node.parent == parent:
                await asyncio.sleep(min(wait, _DELAY))
            if node.parent is None or node.parent != parent:
                continue
            self._parent = parent
            self._number += 1
            self._known[node.name] = self._number, parent
            # In storing mode, also advertise the nodes below this one, to which the new parent has no routes.
            for target in (node.name, *(self.routes if self._mode == MODES[0] else ())):
                self._queue(target)

    def _queue(self, target: Hashable) -> None:
        if target not in self._up:
            self._up.append(target)
        self._woken.set()

    async def _report(self) -> None:
        """Send the queued advertisements to the parent, each until it is acknowledged or given up."""
        node, attempts = self._node, 0
        while True:
            while node.parent is None or not self._up:
                self._woken.clear()
                await (self._woken.wait() if not self._up else asyncio.sleep(_DELAY))
            target, parent = self._up[0], node.parent
            number, above = self._known[target]
            self.daos += 1
            outcome = await node.deliver(parent, DAO, [target, above, number])
            node.measure(parent, outcome)
            attempts += 1
            if outcome or attempts >= node.attempts:
                attempts = 0
                if self._up and self._up[0] == target:
                    self._up.popleft()
            node.choose()
            await asyncio.sleep(node.rng.uniform(*node.pause))

    def _hear_dao(self, sender: Hashable, target: Hashable, parent: Hashable, number: int) -> None:
        if target == self._node.name or number < self._known.get(target, (-_MOST, None))[0]:
            return
        self._known[target] = number, parent
        if self._mode == MODES[0]:
            self.routes[target] = sender
        elif self._node.is_sink:
            self.routes[target] = parent
        if not self._node.is_sink:
            self._queue(target)

    # --- commands -----------------------------------------------------------------------------------------------------

    def send(self, target: Hashable, value: Any) -> bool:
        """Send a value down to a node. Return False if there is no route to the node, or the queue is full."""
        self._number += 1
        return self._start(_Command(DOWN, target, self._number, 0, None, value))

    def turn(self, packet: Packet) -> bool:
        """Send a datagram that has reached the root down to its target; return False in the same cases as `send`."""
        target, kind, payload = packet.value
        return self._start(_Command(DATAGRAM, target, packet.number, packet.hops, None, [packet.origin, kind, payload]))

    def _start(self, command: _Command) -> bool:
        target = command.target
        command.route = None if self._mode == MODES[0] else self._source_route(target)
        if (command.route is None and target not in self.routes) or len(self._down) >= self._node.queue:
            return False
        self._down.append(command)
        self._woken.set()
        return True

    def _source_route(self, target: Hashable) -> list[Hashable] | None:
        """Return the route from the root's child down to a target, or None if a parent on it is unknown."""
        route = [target]
        while (parent := self.routes.get(route[0])) is not None and len(route) < _HOP_LIMIT:
            if parent == self._node.name:
                return route
            if parent in route:
                return None
            route.insert(0, parent)
        return None

    def hear(self, frame: "netsim.Frame | netsim.mote.Message") -> None:
        """Handle a DAO, a command from the root, or a datagram."""
        if frame.kind == DAO:
            self._hear_dao(frame.sender, *frame.payload)
            return
        command = _Command(frame.kind, *frame.payload)
        command.hops += 1
        if command.name in self._seen:
            return
        self._seen.append(command.name)
        if command.target == self._node.name and command.kind == DATAGRAM:
            self._node.hand_out(*command.value)
        elif command.target == self._node.name:
            self.received[command.number] = Arrival(command.value, self._node.now, command.hops)
            self._node.take_command(command.value)
        elif command.hops >= _HOP_LIMIT:
            self.lost[command.name] = "hop limit"
        elif len(self._down) >= self._node.queue:
            self.lost[command.name] = "queue full"
        else:
            self._down.append(command)
            self._woken.set()

    async def _forward(self) -> None:
        node = self._node
        while True:
            while not self._down:
                self._woken.clear()
                await self._woken.wait()
            command, attempts = self._down[0], 0
            to = self.routes.get(command.target) if command.route is None else next(iter(command.route), None)
            outcome = None
            while to is not None and to in node.neighbors and not outcome and attempts < node.attempts:
                left = None if command.route is None else command.route[1:]
                fields = [command.target, command.number, command.hops, left, command.value]
                outcome = await node.deliver(to, command.kind, fields)
                node.measure(to, outcome)
                attempts += 1
                await asyncio.sleep(node.rng.uniform(*node.pause))
            self._down.popleft()
            if not outcome:
                self.lost[command.name] = "no route" if outcome is None else f"not acknowledged ({outcome.reason})"
                if command.route is None and self.routes.get(command.target) == to:
                    # Delete the broken route; the target's next DAO will restore it.
                    self.routes.pop(command.target, None)
