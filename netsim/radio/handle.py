"""An agent's control of its radio (`netsim.Agent.radio`): on and off, listening, carrier sense, channel and power.

The handle passes each call to the node's MAC layer (`netsim.radio.mac`).
"""

import asyncio
import inspect
import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal, overload

from netsim.accounting.captions import check_label
from netsim.clock.clock import Loop
from netsim.core import Frame
from netsim.core.delivery import Delivery, Sent
from netsim.errors import AgentError
from netsim.radio.mac import MICROSECOND, STAMP_BITS, local
from netsim.radio.phy import doubt_power
from netsim.radio.settings import MOST_DBM, Access
from netsim.transport.transmitter import time_tolerance
from netsim.util import check
from netsim.wire.payloads import encodable

if TYPE_CHECKING:
    from netsim.radio.mac import Mac

__all__ = ["MOST_CHANNEL", "RadioHandle"]

State = Literal["off", "listen", "receive", "transmit", "sleep"]

MOST_CHANNEL = 1000
"""The highest permitted channel number. Real radios have far fewer: IEEE 802.15.4's channel page 0 has 27 channels."""


class RadioHandle:
    """Lets one agent control its radio.

    Without a `netsim.radio.DutyCycle`, a radio is on until its agent switches it off. When a node returns after a
    crash, its radio is on, uses channel 0, and sends with the transmit power to which ``Radio.powers`` refer.
    """

    # Slots make a misspelt assignment such as ``radio.chanel = 1`` raise an error.
    __slots__ = ("_context", "_listens", "_loop", "_mac", "_reference")

    def __init__(self, mac: "Mac", loop: Loop, context: Any) -> None:
        # ``context`` is the `netsim.context.Context` of the agent, or of one part of a `netsim.Mote`.
        self._mac, self._loop, self._context = mac, loop, context
        phy = mac.medium.radio.phy
        self._reference = 0.0 if phy is None else mac.medium.radio.power_dbm_of(mac.name)
        # How many calls of `listen` currently keep the radio on that the agent had switched off. The call that ends
        # last switches the radio off again.
        self._listens = 0

    def of(self, context: Any) -> "RadioHandle":
        """Return a handle of the same radio for one part of a `netsim.Mote`, which has the context ``context``."""
        return RadioHandle(self._mac, self._loop, context)

    @property
    def state(self) -> State:
        """The current state of the radio.

        "off": the agent has switched the radio off. "sleep": the duty cycle has put the radio to sleep. "transmit": the
        radio is sending, even if it was switched off or fell asleep after the frame began. "receive": the radio is
        receiving a frame that may still succeed. "listen": the radio is on, but neither sends nor receives.
        """
        mac, now = self._mac, self._loop.now()
        if mac.receiver.sends_until > now:
            return "transmit"
        if not mac.listening:
            return "off"
        if mac.schedule is not None and not mac.schedule.is_awake(now):
            return "sleep"
        return "receive" if mac.hears(now) else "listen"

    @property
    def is_off(self) -> bool:
        """Whether the agent has switched the radio off."""
        return not self._mac.listening

    @property
    def transmit_left(self) -> float:
        """The seconds until the end of the frame that the radio is sending; 0 if it is not sending."""
        return max(0.0, self._mac.receiver.sends_until - self._loop.now())

    @property
    def channel(self) -> int:
        """The channel on which the radio works, 0 or higher; frames on other channels neither arrive nor disturb.

        A message is sent on the channel that was set when the agent sent it: the radio changes its channel only after
        all earlier messages have been acknowledged or given up or, without acknowledgements, sent. A frame that the
        radio is receiving when it changes the channel is dropped as ``asleep``.
        """
        return self._mac.channel

    @channel.setter
    def channel(self, channel: int) -> None:
        self._context.claim_radio()
        self._mac.tune(check.integer("channel", channel, low=0, high=MOST_CHANNEL), self._loop.now())

    @property
    def access(self) -> Access:
        """The node's channel access method, from ``Radio.access``."""
        return self._mac.access

    @property
    def cca(self) -> float:
        """The seconds that a clear channel assessment takes: ``Radio.cca``."""
        return self._mac.medium.radio.cca

    @property
    def power_dbm(self) -> float:
        """The transmit power of the radio in dBm.

        ``Radio.powers`` are the received powers for the node's initial transmit power: its value in
        ``Radio.power_dbm``, or else ``Phy.transmit_dbm`` (without a phy, 0 dBm). A transmit power that is x dB higher
        raises all received powers of this sender by x dB. A message is sent with the power that was set when the agent
        sent it. If ``Energy.transmit_at`` is given, sending draws the watts of the transmit power, and transmit powers
        outside the range of that mapping are refused. Otherwise sending draws ``Energy.transmit`` at any power.
        """
        return round(self._reference + 10.0 * math.log10(self._mac.gain), 9)

    @power_dbm.setter
    def power_dbm(self, power: float) -> None:
        power = check.number("power_dbm", power, low=-MOST_DBM, high=MOST_DBM)
        doubt_power("power_dbm", power)
        meter = self._mac.meter
        if meter is not None:
            energy = meter.energy
            meter.transmit_watts = energy.transmit if power == self._reference else energy.sends_with(power)
        self._mac.gain = 10.0 ** ((power - self._reference) / 10.0)

    @property
    def longest_sleep(self) -> float:
        """The longest sleep of the radio's duty cycle in seconds; 0 without a duty cycle."""
        schedule = self._mac.schedule
        return 0.0 if schedule is None else schedule.longest_sleep

    def on(self) -> None:
        """Switch the radio on; a frame that waited for the radio now contends for the channel.

        Raises
        ------
        AgentError
            If the node has a duty cycle, because then only the duty cycle switches the radio.
        """
        self._switch(True)

    def off(self) -> None:
        """Switch the radio off: it then draws the power of sleep, and drops arriving frames as ``asleep``.

        A frame that the radio is receiving is lost. A frame that the radio is sending is sent to its end, and its
        acknowledgement is still received. All other queued frames, and frames that the agent sends later, wait until
        the radio is on.

        Raises
        ------
        AgentError
            If the node has a duty cycle, because then only the duty cycle switches the radio.
        """
        self._switch(False)

    def _switch(self, on: bool) -> None:
        mac, now = self._mac, self._loop.now()
        if mac.schedule is not None:
            raise AgentError(
                f"agent {mac.name!r} cannot switch its radio: it has a duty cycle; give Radio(duty_cycle={{...}}) only "
                "for other nodes"
            )
        self._context.claim_radio()
        if on == mac.listening:
            return
        mac.listen(on, now)
        if mac.meter is not None:
            mac.meter.listen(on, now)
            mac.medium.watch.plan(mac, now)

    async def transmit(
        self,
        kind: str,
        payload: Any = None,
        to: Hashable | None = None,
        *,
        event: float | None = None,
        raw_data: bool = False,
        label: str | None = None,
    ) -> Sent:
        """Send a message, and return its outcome once it has left the air, or was given up.

        On a medium with acknowledgements, a message to one neighbour has left the air when it is acknowledged, or after
        the last time-out. Messages of `broadcast`, `send` and `transmit` leave in the order in which they were sent.

        Parameters
        ----------
        kind, payload, raw_data, label
            As in `netsim.Agent.broadcast`.
        to : hashable, optional
            The neighbour; None: all neighbours.
        event : float, optional
            The time (s) of an event by the agent's own clock, not after now. The frame gets 32 more bits, which carry
            the event's age when the frame's first bit is sent, rounded to 1 us. From the age, the receiver computes
            `netsim.Frame.event`: the event's time by the receiver's own clock, apart from the signal's delay and the
            drift between the clocks since the event. It is None if the frame waits so long that the age exceeds
            32 bits. Source: M. Maróti and J. Sallai, "Packet-level time synchronization", TinyOS TEP 133, 2008.

        Raises
        ------
        AgentError
            If ``to`` is not a neighbour.
        BadInput
            If ``event`` is later than now, or more than 4295 s ago, so that its age exceeds 32 bits.
        """
        context, loop = self._context, self._loop
        if to is not None:
            context.check_neighbor(to)
        if event is not None:
            now = local(self._mac.clock, loop.now())
            event = check.finite("event", event, low=now - (2**STAMP_BITS - 1) * MICROSECOND, high=now)
        if label is not None:
            check_label(label)
        if context.delay:
            await context.straggle()
        outcome: asyncio.Future[Delivery] = loop.create_future()
        number = context.outbox.sent
        try:
            context.outbox.transmit(to, kind, encodable(payload), context.round, raw_data, event, outcome)
        except AgentError:
            await asyncio.sleep(0)  # yield to the event loop, as `Context.send` does
            raise
        context.caption(number, label, payload)
        return Sent.of(await outcome, is_acknowledged=to is not None and self._mac.acknowledges)

    async def carrier(self, seconds: float) -> None:
        """Emit a carrier for some time by the agent's own clock: power without a frame.

        Other nodes sense the carrier, and it disturbs their reception on this channel, but no receiver locks on it. It
        costs as much energy as sending at the current `power_dbm`. The carrier does not contend for the channel: it
        begins immediately or, if the radio is sending a frame, when that frame ends. Frames that become due during the
        carrier wait for its end. The ledger does not record the carrier.

        Raises
        ------
        AgentError
            If the radio is off.
        """
        seconds = check.finite("seconds", seconds, low=0)
        if self.state in ("off", "sleep"):
            raise AgentError(f"agent {self._mac.name!r} cannot emit a carrier: its radio is off")
        while self.transmit_left > time_tolerance(self._loop.now()):
            await asyncio.sleep(self.transmit_left)
        now, clock = self._loop.now(), self._mac.clock
        end = now + seconds if clock is None else clock.true(clock.local(now) + seconds)
        self._mac.carry(now, end)
        await asyncio.sleep(seconds)

    def airtime(self, frame: Frame) -> float:
        """Return the time on the air (s) of a frame that fits into one fragment."""
        check.instance("frame", frame, Frame, "a netsim.Frame")
        radio, link = self._mac.medium.radio, self._mac.wiring.radio
        assert link is not None
        return radio.seconds(8 * len(frame.data) + link.header_bits, link)

    def busy(self) -> bool:
        """Return whether a clear channel assessment that ends now finds the channel busy.

        The assessment covers the last ``Radio.cca`` seconds (128 us by default), and the call itself takes no simulated
        time. After switching the radio on, the agent must therefore sleep for ``Radio.cca`` seconds before the call.

        Raises
        ------
        AgentError
            If the radio is off.
        """
        if self.state in ("off", "sleep"):
            raise AgentError(f"agent {self._mac.name!r} cannot assess the channel: its radio is off")
        return self._mac.senses(self._loop.now())

    @overload
    async def listen(self, seconds: float, until: None = None) -> list[Frame]: ...

    @overload
    async def listen(self, seconds: float, until: Callable[[Frame], object]) -> Frame | None: ...

    async def listen(
        self, seconds: float, until: Callable[[Frame], object] | None = None
    ) -> list[Frame] | Frame | None:
        """Switch the radio on for some time, read the inbox, and restore the radio's state.

        Parameters
        ----------
        seconds : float
            The time for which to listen, by the agent's own clock.
        until : callable, optional
            Stop at the first frame for which ``until(frame)`` is true. A coroutine function is refused.

        Returns
        -------
        list of Frame, or Frame, or None
            Without ``until``: all frames that were read, in order. With ``until``: the first frame for which it is
            true, or None; frames that arrive before this frame are read, but not returned.

        Notes
        -----
        If several calls overlap, each frame goes to one of them, and the radio is on until the last call ends.
        """
        seconds = check.finite("seconds", seconds, low=0)
        if until is not None and (not callable(until) or inspect.iscoroutinefunction(until)):
            raise check.refuse("until", until, "a function of a frame, or None")
        frames, inbox = list[Frame](), self._context.inbox
        frame: Frame
        holds = self._listens > 0 or not self._mac.listening
        if holds:
            self._listens += 1
            self.on()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    frame = await inbox.get()
                    if until is None:
                        frames.append(frame)
                    elif until(frame):
                        return frame
        except TimeoutError:
            return frames if until is None else None
        finally:
            if holds:
                self._listens -= 1
                if not self._listens:
                    self.off()

    def __repr__(self) -> str:
        return f"<radio: {self.state}, channel {self.channel}, {self.power_dbm:g} dBm>"
