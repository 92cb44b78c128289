"""Low-power listening: receivers wake periodically, and a sender transmits a preamble until its receiver has woken."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import netsim
from netsim.agents.papers import BMAC, CONTIKIMAC, XMAC
from netsim.agents.protocols.kinds import Form, number
from netsim.agents.protocols.mac import ALL, BEGUN, DATA, Mac, sent
from netsim.agents.protocols.together import must_agree
from netsim.core.delivery import Delivery
from netsim.draw import Kind
from netsim.util import check

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["LPL", "ContikiMAC", "XMac"]

CALL = "s"
"""The kind of a strobe: one of the short frames that form a preamble."""

# Seconds in which a receiver turns from sending its acknowledgement to receiving: more than aTurnaroundTime.
_PAUSE = 0.5e-3
# Seconds between two checks whether a frame is still on the air.
_LOOK = 0.2e-3
_LOOKS = 5  # channel assessments before a message is given up
_TRIES = 3  # transmissions of the data once the receiver is awake
_LONGEST = 3600.0  # upper bound (s) for a period and a wake-up, and so for a train of strobes


class LPL(Mac):
    """Low-power listening as in B-MAC: the radio wakes once a period, and stays on if it finds a preamble.

    The preamble is a train of short frames (strobes) that lasts a whole period, so that each neighbour wakes within it.
    Each strobe carries the remaining time of the train, and every neighbour that receives a strobe waits until its end.
    Then the sender transmits the data, which the receiver acknowledges. A message to all neighbours is sent in the same
    way, but only once and without an acknowledgement.

    The agent switches its radio itself: ``Radio(access="aloha", acks=True, max_frame_retries=0)`` without a duty cycle.
    A subclass defines `work`, which calls `post` and `announce`, and `take`, which handles received messages.
    Alternatively, the layer serves the other parts of a mote: ``netsim.Mote(mac=LPL(), routing=CTP())``.

    Parameters
    ----------
    period : float
        Seconds from one wake-up to the next, the same at all nodes.
    listen : float
        Seconds for which a node listens after waking: longer than a strobe and the pause to the next one.

    Attributes
    ----------
    strobes : int
        Number of frames sent to wake receivers.

    Notes
    -----
    Source: J. Polastre, J. Hill and D. Culler, "Versatile low power media access for wireless sensor networks", SenSys
    2004. The paper's long preamble is divided into strobes, because packet radios cannot send a continuous preamble.
    """

    paper: ClassVar[str] = BMAC
    draw: ClassVar = {**Mac.draw, CALL: Kind("strobe")}
    kinds: ClassVar[Mapping[str, Form]] = {**Mac.kinds, CALL: number(0.0, 2 * _LONGEST)}

    def __init__(self, period: float = 0.5, listen: float = 5e-3) -> None:
        super().__init__()
        self.period = check.finite("period", period, above=0, high=_LONGEST)
        self.listen = check.finite("listen", listen, above=0, high=period)
        self.strobes = 0

    @classmethod
    def _check_together(cls, agents: "Mapping[Any, netsim.Agent]", graph: "nx.Graph[Any]") -> None:
        must_agree(agents, "period")

    # --- for the application ------------------------------------------------------------------------------------------

    async def post(self, to: Hashable, value: Any) -> Delivery:
        """Send a message to a neighbour; the result is true if it was acknowledged."""
        return await self._send(value, partial(self._unicast, to))

    async def announce(self, value: Any) -> bool:
        """Send a message to all neighbours after a train that wakes them; return whether it was transmitted.

        A neighbour that is sending at that time does not receive the message.
        """
        return bool(await self._send(value, self._spread))

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run `work`, and wake once a period; the first wake-up is at a random time."""
        # _turn protects the radio: a wake-up or a transmission holds it. _next lets one message after another be sent.
        self._turn, self._next = asyncio.Lock(), asyncio.Lock()
        self._set_up()
        self.radio.off()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.work())
            await asyncio.sleep(self.period * self.rng.random())
            while True:
                began = self.now
                if not self._turn.locked():
                    async with self._turn:
                        await self._wake_up()
                await asyncio.sleep(began + self.period - self.now)

    async def _wake_up(self) -> None:
        """Listen for a frame; if one arrives, handle it and the frames that follow."""
        await self._follow(await self.radio.listen(self.listen, until=self.is_own))

    async def _follow(self, frame: netsim.Frame | None) -> None:
        """Handle a received frame. After a strobe, wait until the end of its train for the data, and handle these."""
        while frame is not None:
            if frame.kind != CALL:
                self._take_in(frame)
            if frame.kind == ALL:
                # A sender may repeat the data, but all copies are equal, so stop listening.
                return
            # Continue to listen, because the sender may repeat the data or send another message.
            seconds = self.listen + (frame.payload if frame.kind == CALL else 0)
            frame = await self.radio.listen(seconds, until=self.is_own)

    async def _send(self, value: Any, how: Callable[[list[Any]], Awaitable[Delivery]]) -> Delivery:
        """Wait for the messages before, and send a message if one of five assessments finds the channel clear."""
        async with self._next:
            self._number += 1
            for _ in range(_LOOKS):
                async with self._turn:
                    self.radio.on()
                    try:
                        if await self._is_clear():
                            return await how([self._number, value])
                    finally:
                        self.radio.off()
                await asyncio.sleep(self.period * self.rng.random())
            return sent(False, 0, "access_failed")

    async def _is_clear(self) -> bool:
        """Return whether no train is in progress. If there is one, receive its data, which may be for this node."""
        frame = await self.radio.listen(self.listen, until=self.is_own)
        await self._follow(frame)
        return frame is None and not self.radio.busy()

    async def _unicast(self, to: Hashable, packet: list[Any]) -> Delivery:
        """Send strobes for a whole period, and then the data to one neighbour."""
        await self._call()
        return await self._hand_over(to, packet)

    async def _spread(self, packet: list[Any]) -> Delivery:
        """Send strobes for a whole period, and then the data to all neighbours."""
        await self._call()
        await asyncio.sleep(_PAUSE)
        await self._broadcast(packet)
        return sent(True, 1, "delivered")

    async def _call(self) -> None:
        """Send strobes for a whole period."""
        end = self.now + self.period
        while self.now < end:
            self.strobes += 1
            # The announced time includes ``listen``, so that a receiver that misses the later strobes still waits for
            # the data.
            await self.broadcast(CALL, end - self.now + self.listen)
            await asyncio.sleep(self.listen / 2)
            if (left := self.radio.transmit_left) > self.listen / 2:
                longest = f"longer than a strobe's time on the air ({self.listen / 2 + left:g} s)"
                raise check.refuse("listen", self.listen, longest)

    async def _broadcast(self, packet: list[Any]) -> None:
        """Send the data to all awake neighbours, and wait until they are sent."""
        await self.broadcast(ALL, packet)
        await asyncio.sleep(BEGUN)
        while self.radio.state == "transmit":
            await asyncio.sleep(_LOOK)

    async def _hand_over(self, to: Hashable, packet: list[Any]) -> Delivery:
        """Send the data to an awake receiver, up to three times until they are acknowledged."""
        attempts, outcome = 0, sent(False, 0, "")
        while not outcome and attempts < _TRIES:
            await asyncio.sleep(_PAUSE)
            outcome = await self.deliver(to, DATA, packet)
            attempts += 1
        return sent(bool(outcome), attempts, outcome.reason)


class XMac(LPL):
    """X-MAC: each strobe names its receiver, which acknowledges the first strobe after waking and so ends the preamble.

    On average a train is half as long as with `LPL`, and other nodes stay asleep. A message to all neighbours is sent
    as by `LPL`.

    Notes
    -----
    Source: M. Buettner, G. V. Yee, E. Anderson and R. Han, "X-MAC: a short preamble MAC protocol for duty-cycled
    wireless sensor networks", SenSys 2006. The acknowledgement of the link layer serves as the paper's early
    acknowledgement.
    """

    paper: ClassVar[str] = XMAC

    async def _unicast(self, to: Hashable, packet: list[Any]) -> Delivery:
        """Send strobes until the receiver answers, at most a little longer than a period, and then the data."""
        end = self.now + self.period + self.listen
        reason = ""
        while self.now < end:
            self.strobes += 1
            if answer := await self.deliver(to, CALL, 0):
                return await self._hand_over(to, packet)
            # A strobe that was delivered but not acknowledged means that the acknowledgement was lost.
            reason = "lost" if answer.reason == "delivered" else answer.reason
        return sent(False, 1, reason)


class ContikiMAC(LPL):
    """ContikiMAC: the data are repeated until acknowledged, or for a whole period if sent to all neighbours.

    A node wakes for two clear channel assessments, ``gap`` seconds apart. The radio stays on only if one of them finds
    energy. So a sender whose power at the receiver is below `netsim.radio.Phy.sense_dbm` wakes the receiver only by
    chance, even if its frames could be received. The phase lock, by which a sender learns its receivers' wake-up times,
    is not implemented.

    Parameters
    ----------
    period : float
        Seconds from one wake-up to the next.
    listen : float
        Seconds for which the radio stays on after an assessment has found energy.
    gap : float
        Seconds between the two assessments: shorter than every frame. The gap and the two assessments together must
        last longer than the pause between two frames of a train, so that at least one assessment meets a frame.

    Notes
    -----
    Source: A. Dunkels, "The ContikiMAC radio duty cycling protocol", SICS technical report T2011:13, 2011.
    """

    paper: ClassVar[str] = CONTIKIMAC

    def __init__(self, period: float = 0.125, listen: float = 12.5e-3, gap: float = 0.7e-3) -> None:
        super().__init__(period, listen)
        self.gap = check.finite("gap", gap, above=0, high=period)

    async def _wake_up(self) -> None:
        for _ in range(2):
            if await self._finds_energy():
                await super()._wake_up()
                return
            await asyncio.sleep(self.gap)

    async def _finds_energy(self) -> bool:
        """Switch the radio on for one channel assessment; return whether it finds energy."""
        self.radio.on()
        await asyncio.sleep(self.radio.cca)
        busy = self.radio.busy()
        self.radio.off()
        return busy

    async def _unicast(self, to: Hashable, packet: list[Any]) -> Delivery:
        """Send the data until they are acknowledged, at most a little longer than a period."""
        end = self.now + self.period + self.listen
        while self.now < end:
            self.strobes += 1
            if outcome := await self.deliver(to, DATA, packet):
                break
        return sent(bool(outcome), 1, outcome.reason)

    async def _spread(self, packet: list[Any]) -> Delivery:
        """Send the data to all neighbours repeatedly, for a little longer than a period."""
        end = self.now + self.period + self.listen
        while self.now < end:
            self.strobes += 1
            await self._broadcast(packet)
        return sent(True, 1, "delivered")
