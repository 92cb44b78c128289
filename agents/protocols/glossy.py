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

# The time (s) that a radio needs between sending and receiving: aTurnaroundTime of IEEE 802.15.4.
_TURNAROUND = 192e-6
# Upper bounds for the number of a flood, and for the relays of one flood, which no run reaches.
_MOST, _MOST_RELAYS = 2**62, 2**16 - 1


class Glossy(Speaker):
    """Glossy: one node floods a value once a period; each receiver repeats it in the next slot.

    * A frame carries the flood's number, the number of relays so far, and the value. All frames in a slot have the same
      content, so they do not disturb each other if the medium has ``Phy(concurrent_s=...)``.
    * A node alternately receives and sends, until it has sent ``n_tx`` times. Then it switches its radio off until the
      next flood. Only the initiator sends without having received a frame.
    * From the number of relays, a node computes its hop count from the initiator, and the start of this and of the next
      flood. A node that has missed more than ``patience`` floods listens until it receives one.

    The medium must transmit without delay: ``Radio(access="aloha", phy=Phy(concurrent_s=0.5e-6))``, without
    acknowledgements. A subclass defines two methods: `value` returns the value that the initiator floods, and `take`
    handles this value at all other nodes.

    Parameters
    ----------
    is_initiator : bool
        Whether this node starts the floods.
    n_tx : int
        How many times each node sends the frame of a flood.
    period : float
        Seconds from one flood to the next; at least 2 · ``n_tx`` slots and ``guard``.
    slot : float
        Seconds from the start of a frame to the start of the next: the time on the air and at least 192 us, which
        radios need between receiving and sending.
    duration : float
        Seconds after the start of a flood during which nodes wait for its frames.
    guard : float
        Seconds before the expected start of a flood at which nodes begin to listen.
    patience : int
        How many consecutive floods a node may miss before it listens continuously.
    jitter : float
        Maximum random delay (s) of each relay, as caused by interrupts in software.

    Attributes
    ----------
    hops : int or None
        The number of hops from the initiator in the last flood; None before the first flood.
    reference : float or None
        The time (s), on this node's clock, at which the initiator started the last flood.

    Notes
    -----
    Source: F. Ferrari, M. Zimmerling, L. Thiele and O. Saukh, "Efficient network flooding and time synchronization with
    Glossy", IPSN 2011. In the paper nodes measure the length of a slot; here the length is a parameter.
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
        # How long a flood occupies the initiator's radio; the next flood must not start earlier.
        busy = 2 * self.n_tx * self.slot
        if busy + self.guard > self.period * (1 + check.ROUNDING):
            raise check.refuse("period", self.period, f"at least 2 · n_tx · slot and guard, {busy + self.guard:g} s")
        self.patience = check.integer("patience", patience, low=0)
        self.jitter = check.finite("jitter", jitter, low=0, high=slot)
        self.hops: int | None = 0 if is_initiator else None
        self.reference: float | None = None
        # _due: expected time (s) of the next flood; None if unknown. _missed: number of consecutive missed floods.
        self._due: float | None = None
        self._missed = 0
        # The number of the last flood received.
        self._last: int | None = None

    @classmethod
    def _check_together(cls, agents: "Mapping[Any, netsim.Agent]", graph: "nx.Graph[Any]") -> None:
        for several in roots_of(agents, graph, "is_initiator", "nobody begins a flood"):
            check.doubt(f"is_initiator: agents {', '.join(map(repr, several))} begin floods, which disturb each other")
        must_agree(agents, "period", "slot")

    # --- for the application ------------------------------------------------------------------------------------------

    def value(self, number: int) -> Any:
        """Return the value that the initiator sends in flood ``number`` (from 1). To be overridden."""
        return None

    def take(self, number: int, value: Any) -> None:
        """Handle the value of flood ``number``; called once per flood. To be overridden."""

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start floods as the initiator, or relay them; between floods the radio is off."""
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
        """Start a flood with a value now, and send its frame ``n_tx`` times."""
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
        """Relay the next flood. If its time is unknown, listen for one period."""
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
        """Receive and repeat the frames of a flood; return False if the first does not arrive within ``seconds``."""
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
        """Raise BadInput unless the frame just sent fits into a slot; other nodes would ignore a longer frame."""
        await asyncio.sleep(BEGUN)
        airtime = BEGUN + self.radio.transmit_left
        # If the radio is off, nothing is being sent: transmit_left is 0, and the check passes.
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
        """Return whether a frame belongs to a new flood, not to the last one, which other nodes may still repeat."""
        if not self._is_flood(frame):
            return False
        number, relays, _ = frame.payload
        if number != self._last or self.reference is None:
            return True
        # After a crash the initiator counts from 1 again, so an equal number may belong to a new flood.
        began = self._next(frame) - (relays + 1) * self.slot
        return bool(began - self.reference > self.period / 2)

    def _next(self, frame: netsim.Frame) -> float:
        """Return the time (s) at which the slot after a just received frame's slot begins."""
        return self.now + (self.slot - self.radio.airtime(frame))

    async def _off(self) -> None:
        """Wait until a frame just sent is on the air, and switch the radio off; the frame is still sent to its end."""
        await asyncio.sleep(BEGUN)
        self.radio.off()
