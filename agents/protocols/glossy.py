"""Glossy: fast floods in which all relays of a frame send it at the same time."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import netsim
from netsim.agents.papers import GLOSSY as PAPER
from netsim.agents.protocols.kinds import Form, Speaker, anything, fields, whole
from netsim.agents.protocols.mac import BEGUN, must_send_at_once
from netsim.agents.protocols.together import must_agree, roots_of
from netsim.draw import Kind, Number, Star
from netsim.util import check

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Glossy"]

FLOOD = "g"

# The turnaround time (s) of a radio between sending and receiving: aTurnaroundTime.
_TURNAROUND = 192e-6
# More floods, and more relays of one flood, than any run has.
_MOST, _MOST_RELAYS = 2**62, 2**16 - 1


class Glossy(Speaker):
    """Glossy: one node floods a value once a period; each receiver repeats it in the next slot.

    * A frame carries the flood's number, the number of relays so far, and the value. All frames of a slot are equal, so
    they do not disturb each other if the medium has ``Phy(concurrent_s=...)``. * A node alternately receives and sends,
    until it has sent ``n_tx`` times; then its radio is off until the next flood. Only the initiator also sends without
    having received. * From the number of relays a node derives its hops from the initiator, and the start of the flood
    and of the next one. A node that has missed more than ``patience`` floods listens until it hears one.

    The medium must send at once: ``Radio(access="aloha", phy=Phy(concurrent_s=0.5e-6))``, without acknowledgements. A
    subclass defines `value`, which the initiator floods, and `take`, which all other nodes call with it.

    Parameters
    ----------
    is_initiator : bool
        Whether this node begins the floods.
    n_tx : int
        How often each node sends a flood's frame.
    period : float
        Seconds from one flood to the next; 2 · ``n_tx`` slots and ``guard`` must fit in.
    slot : float
        Seconds from the beginning of a frame to that of the next: the time on the air, and more than 192 us in which
        radios turn between receiving and sending.
    duration : float
        Seconds after a flood's beginning in which nodes wait for its frames.
    guard : float
        Seconds before the beginning of a flood at which nodes begin to listen.
    patience : int
        How many floods in a row a node may miss before it listens all the time.
    jitter : float
        Each relay is late by a random time from 0 to this (s), as in software that interrupts delay.

    Attributes
    ----------
    hops : int or None
        From the initiator, in the last flood; None before the first.
    reference : float or None
        When, by the own clock, the last flood began at the initiator (s).

    Notes
    -----
    Source: F. Ferrari, M. Zimmerling, L. Thiele and O. Saukh, "Efficient network flooding and time synchronization with
    Glossy", IPSN 2011. In the paper nodes measure the length of a slot; here they know it, by their own clocks.
    """

    draw: ClassVar = {"hops": Number(), "is_initiator": Star(), FLOOD: Kind("flood")}

    paper: ClassVar[str] = PAPER
    switches_radio: ClassVar[bool] = True
    _is_alone: ClassVar[bool] = True
    kinds: ClassVar[Mapping[str, Form]] = {FLOOD: fields(whole(0, _MOST), whole(0, _MOST_RELAYS), anything)}

    def __init__(
        self,
        is_initiator: bool = False,
        *,
        n_tx: int = 3,
        period: float = 1.0,
        slot: float = 1.5e-3,
        duration: float = 30e-3,
        guard: float = 1e-3,
        patience: int = 3,
        jitter: float = 0.0,
    ) -> None:
        super().__init__()
        self.is_initiator = check.flag("is_initiator", is_initiator)
        self.n_tx = check.integer("n_tx", n_tx, low=1)
        self.period = check.finite("period", period, above=0)
        self.slot = check.finite("slot", slot, above=_TURNAROUND)
        self.duration = check.finite("duration", duration, above=0, high=period)
        self.guard = check.finite("guard", guard, low=0, high=period)
        # The initiator's radio is busy for this long; the next flood must not be due before.
        busy = 2 * self.n_tx * self.slot
        if busy + self.guard > self.period * (1 + check.ROUNDING):
            raise check.refuse("period", self.period, f"at least 2 · n_tx · slot and guard, {busy + self.guard:g} s")
        self.patience = check.integer("patience", patience, low=0)
        self.jitter = check.finite("jitter", jitter, low=0, high=slot)
        self.hops: int | None = 0 if is_initiator else None
        self.reference: float | None = None
        # The expected time (s) of the next flood, None if unknown; and the number of floods missed in a row.
        self._due: float | None = None
        self._missed = 0
        # The last flood that was received.
        self._last: int | None = None

    @classmethod
    def _check_together(cls, agents: "Mapping[Any, netsim.Agent]", graph: "nx.Graph[Any]") -> None:
        for several in roots_of(agents, graph, "is_initiator", "nobody begins a flood"):
            check.doubt(f"is_initiator: agents {', '.join(map(repr, several))} begin floods, which disturb each other")
        must_agree(agents, "period", "slot")

    # --- for the application ------------------------------------------------------------------------------------------

    def value(self, number: int) -> Any:
        """Return the value of the initiator's flood with a number, from 1. To be overridden."""
        return None

    def take(self, number: int, value: Any) -> None:
        """Handle a flood's value; called once per flood. To be overridden."""

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Initiate floods, or take part in them, with the radio off in between."""
        must_send_at_once(self)
        self.radio.on()
        if not self.is_initiator:
            self._due = self._last = None
            while True:
                await self._follow()
        begins, number = self.now, 0
        while True:
            self.reference, number = begins, number + 1
            await self._initiate(number, self.value(number))
            begins += self.period
            await self._until(begins)
            self.radio.on()

    async def _initiate(self, number: int, value: Any) -> None:
        """Flood a value, now."""
        at = self.now
        for sent in range(self.n_tx):
            await self._until(at)
            await self.broadcast(FLOOD, [number, 2 * sent, value])
            if sent == 0:
                await self._check_slot()
            if sent < self.n_tx - 1:
                frame = await self.radio.listen(2 * self.slot - _TURNAROUND, until=self._is_flood)
                at = at + 2 * self.slot if frame is None else self._next(frame)
        await self._off()

    async def _follow(self) -> None:
        """Take part in the next flood, or listen for one for a period."""
        due = self._due
        if due is not None:
            await self._until(due - self.guard)
            self.radio.on()
        if await self._relay(self.period if due is None else self.guard + self.duration):
            assert self.reference is not None
            self._due, self._missed = self.reference + self.period, 0
        elif due is not None:
            self._missed += 1
            self._due = due + self.period if self._missed <= self.patience else None
        if self._due is not None:
            await self._off()

    async def _relay(self, seconds: float) -> bool:
        """Receive a flood's frames, the first within some seconds, and repeat each; return whether any arrived."""
        for sent in range(self.n_tx):
            frame = await self.radio.listen(seconds, until=self._is_flood if sent else self._is_new_flood)
            if frame is None:
                return sent > 0
            number, relays, value = frame.payload
            at = self._next(frame)
            if sent == 0:
                self.hops, self.reference = relays + 1, at - (relays + 1) * self.slot
                self._last = number
                self.take(number, value)
            await self._until(at + self.jitter * self.rng.random())
            await self.broadcast(FLOOD, [number, relays + 1, value])
            assert self.reference is not None
            seconds = max(0.0, self.reference + self.duration - self.now)
        return True

    async def _check_slot(self) -> None:
        """Raise BadInput unless the frame just sent fits into a slot; other nodes ignore longer ones."""
        await asyncio.sleep(BEGUN)
        airtime = BEGUN + self.radio.transmit_left
        # A radio that is off sends nothing.
        if self.slot - airtime < _TURNAROUND * (1 - check.ROUNDING):
            raise check.refuse("slot", self.slot, f"a frame's time on the air ({airtime:g} s) and 192 us more")

    def _is_flood(self, frame: netsim.Frame) -> bool:
        """Return whether a frame belongs to a flood and fits into a slot."""
        if not self.is_own(frame):
            return False
        if self.slot - self.radio.airtime(frame) < _TURNAROUND:
            self.foreign[frame.kind] += 1
            return False
        return True

    def _is_new_flood(self, frame: netsim.Frame) -> bool:
        """Return whether a frame belongs to another flood than the last, which others may still repeat."""
        if not self._is_flood(frame):
            return False
        number, relays, _ = frame.payload
        if number != self._last or self.reference is None:
            return True
        # An initiator that crashed counts from 1 again.
        began = self._next(frame) - (relays + 1) * self.slot
        return bool(began - self.reference > self.period / 2)

    def _next(self, frame: netsim.Frame) -> float:
        """Return when (s) the slot after that of a frame begins, which has just been received."""
        return self.now + (self.slot - self.radio.airtime(frame))

    async def _off(self) -> None:
        """Switch the radio off once the frame that was just sent, if any, is on the air."""
        await asyncio.sleep(BEGUN)
        self.radio.off()
