"""Low-power listening: receivers wake periodically, and a sender calls until its receiver has woken."""

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
"""The kind of a strobe of the preamble."""

# Seconds for a receiver's turnaround after its acknowledgement: more than aTurnaroundTime.
_PAUSE = 0.5e-3
# Seconds from look to look whether a frame is still on the air.
_LOOK = 0.2e-3
_LOOKS = 5  # of the channel, before a message is given up
_TRIES = 3  # to send the data once the receiver is awake
_LONGEST = 3600.0  # limit (s) of a period and of a wake-up, and so of a train


class LPL(Mac):
    """Low-power listening as in B-MAC: the radio wakes once a period, and stays on if it finds a preamble.

    The preamble is a train of short frames over a whole period, so that each neighbour wakes within it. The data
    follow, with an acknowledgement. Each short frame carries the train's remaining time, and every neighbour that hears
    one waits for the end.

    A message to all neighbours is also such a train, followed by the data, once and without an acknowledgement.

    The agent switches its radio itself: ``Radio(access="aloha", acks=True, max_frame_retries=0)`` without a duty cycle.
    A subclass defines `work`, which calls `post` and `announce`, and `take`, which gets received messages; or the layer
    lies below the parts of a mote: ``netsim.Mote(mac=LPL(), routing=CTP())``.

    Parameters
    ----------
    period : float
        Seconds from one wake-up to the next. It must be the same at all nodes.
    listen : float
        Seconds for which a wake-up listens: longer than a strobe and the pause to the next one.

    Attributes
    ----------
    strobes : int
        Frames sent to call receivers.

    Notes
    -----
    Source: J. Polastre, J. Hill and D. Culler, "Versatile low power media access for wireless sensor networks", SenSys
    2004. The long preamble is cut into strobes, as on radios that send packets.
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
        """Send a message to a neighbour; return whether it was acknowledged."""
        return await self._send(value, partial(self._unicast, to))

    async def announce(self, value: Any) -> bool:
        """Send a message to all neighbours after a train that wakes each of them; return whether it was on the air.

        A neighbour that is sending at that time misses it.
        """
        return bool(await self._send(value, self._spread))

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Wake once a period, from a random moment on, beside `work`."""
        # Locks: of the radio, held by a wake-up or a message; and of the next message's turn.
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
        """Listen for a frame, and handle what follows it."""
        await self._follow(await self.radio.listen(self.listen, until=self.is_own))

    async def _follow(self, frame: netsim.Frame | None) -> None:
        """Wait for the data until the end of the train announced by a strobe, and handle them."""
        while frame is not None:
            if frame.kind != CALL:
                self._take_in(frame)
            if frame.kind == ALL:
                # Further copies would be the same.
                return
            # The sender may repeat the data, or have more.
            seconds = self.listen + (frame.payload if frame.kind == CALL else 0)
            frame = await self.radio.listen(seconds, until=self.is_own)

    async def _send(self, value: Any, how: Callable[[list[Any]], Awaitable[Delivery]]) -> Delivery:
        """Send a message in its turn, once one of five assessments finds the channel clear."""
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
        """Return whether no other train is in progress; another one may be for this node, too."""
        frame = await self.radio.listen(self.listen, until=self.is_own)
        await self._follow(frame)
        return frame is None and not self.radio.busy()

    async def _unicast(self, to: Hashable, packet: list[Any]) -> Delivery:
        """Call everyone for a whole period, then send the data."""
        await self._call()
        return await self._hand_over(to, packet)

    async def _spread(self, packet: list[Any]) -> Delivery:
        """Call everyone for a whole period, then send the data to all."""
        await self._call()
        await asyncio.sleep(_PAUSE)
        await self._broadcast(packet)
        return sent(True, 1, "delivered")

    async def _call(self) -> None:
        """Send strobes for a whole period."""
        end = self.now + self.period
        while self.now < end:
            self.strobes += 1
            # A receiver that misses the rest of the train still waits for the data and their repetitions.
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
        """Send the data to an awake receiver; return whether one of three tries was acknowledged."""
        attempts, outcome = 0, sent(False, 0, "")
        while not outcome and attempts < _TRIES:
            await asyncio.sleep(_PAUSE)
            outcome = await self.deliver(to, DATA, packet)
            attempts += 1
        return sent(bool(outcome), attempts, outcome.reason)


class XMac(LPL):
    """X-MAC: each strobe names its receiver, which answers at once when it wakes and so ends the preamble.

    On average a train is half as long as that of `LPL`, and other nodes sleep on. A message to all is sent as by `LPL`.

    Notes
    -----
    Source: M. Buettner, G. V. Yee, E. Anderson and R. Han, "X-MAC: a short preamble MAC protocol for duty-cycled
    wireless sensor networks", SenSys 2006. The early acknowledgement is the link layer's.
    """

    paper: ClassVar[str] = XMAC

    async def _unicast(self, to: Hashable, packet: list[Any]) -> Delivery:
        """Call the receiver until it answers, for a little more than a period, then send the data."""
        end = self.now + self.period + self.listen
        reason = ""
        while self.now < end:
            self.strobes += 1
            if answer := await self.deliver(to, CALL, 0):
                return await self._hand_over(to, packet)
            # The strobe was received, so its answer was lost.
            reason = "lost" if answer.reason == "delivered" else answer.reason
        return sent(False, 1, reason)


class ContikiMAC(LPL):
    """ContikiMAC: the data themselves are repeated until acknowledged; those to all, for a whole period.

    A wake-up is two clear channel assessments, ``gap`` seconds apart; the radio stays on only if one finds energy. So a
    sender whose power at the receiver is below `netsim.radio.Phy.sense_dbm` wakes it only by chance, even if its frames
    could be received. The phase lock, with which a sender remembers its receiver's wake-up times, is not implemented.

    Parameters
    ----------
    period : float
        Seconds from one wake-up to the next.
    listen : float
        Seconds for which the radio stays on after energy was found.
    gap : float
        Seconds between the two assessments. It is shorter than every frame, and longer than the pause between two
        frames of a train without two assessments, so that one of the two meets a frame.

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
        """Send the data until they are acknowledged, for a little more than a period."""
        end = self.now + self.period + self.listen
        while self.now < end:
            self.strobes += 1
            if outcome := await self.deliver(to, DATA, packet):
                break
        return sent(bool(outcome), 1, outcome.reason)

    async def _spread(self, packet: list[Any]) -> Delivery:
        """Send the data to all, again and again for a little more than a period."""
        end = self.now + self.period + self.listen
        while self.now < end:
            self.strobes += 1
            await self._broadcast(packet)
        return sent(True, 1, "delivered")
