"""Base class of MAC layers that run in an agent: numbered messages, and the interface to the application."""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import netsim
from netsim.agents.protocols.kinds import Form, Speaker, anything, fields, whole
from netsim.core.delivery import Delivery
from netsim.draw import Kind

__all__ = ["Mac"]

DATA, ALL = "m", "M"
"""The kinds of frames with messages: to one neighbour, and to all. They are short, because each frame contains one."""

BEGUN = 1e-6
"""Seconds after which a frame that was handed to the radio is on the air."""

_MOST = 2**62  # upper bound for the number of a message, which no run reaches
_MESSAGE = fields(whole(0, _MOST), anything)


class Mac(Speaker):
    """Base of MAC layers that switch the radio themselves.

    A subclass defines `work`, which calls `post` and `announce`, and `take`, which handles received messages.
    Alternatively, the layer serves the other parts of a mote: ``netsim.Mote(mac=ContikiMAC(), routing=CTP())``. The
    medium must be ``Radio(access="aloha", acks=True, max_frame_retries=0)`` without a duty cycle. Each agent needs a
    separate object.
    """

    draw: ClassVar = {DATA: Kind("message"), ALL: Kind("broadcast")}
    kinds: ClassVar[Mapping[str, Form]] = {DATA: _MESSAGE, ALL: _MESSAGE}
    switches_radio: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._last: dict[Hashable, int] = {}

    async def work(self) -> None:
        """Run the application. To be overridden; the agent continues to receive after this method returns."""

    def take(self, sender: Hashable, value: Any) -> None:
        """Handle a received message; called once per message. To be overridden."""

    async def post(self, to: Hashable, value: Any) -> Delivery:
        """Send a message to a neighbour; the result is true if it was acknowledged.

        ``attempts`` of the result counts only transmissions that measure the link, not those that wake the receiver.
        """
        raise NotImplementedError

    async def announce(self, value: Any) -> bool:
        """Send a message to all neighbours, without acknowledgements; return whether it was transmitted."""
        raise NotImplementedError

    def _set_up(self) -> None:
        """Check the medium, and choose the first message number, which exceeds all numbers from before a crash."""
        must_send_at_once(self)
        self._number = max(self._number, first_number(self.now))

    def _take_in(self, frame: netsim.Frame) -> None:
        """Pass a received message to `take`, unless it is a duplicate."""
        number, value = frame.payload
        if self._last.get(frame.sender) != number:
            self._last[frame.sender] = number
            self.take(frame.sender, value)


def must_send_at_once(agent: netsim.Agent) -> None:
    """Raise AgentError unless the medium transmits an agent's frames without delay."""
    if agent.radio.access != "aloha":
        raise netsim.AgentError(
            f"agent {agent.name!r}: {type(agent).__name__} chooses itself when a frame leaves, so the medium must be "
            f'a netsim.Radio(access="aloha"), not access="{agent.radio.access}"'
        )


def first_number(now: float) -> int:
    """Return the first message number of a node that starts at the time ``now`` (s).

    It must exceed the numbers that the node used before a crash: the node has lost them, but others remember them. It
    does, because no radio here sends a thousand messages per second.
    """
    return int(1000 * now)


def sent(acknowledged: bool, attempts: int, reason: str) -> Delivery:
    """Return a `Delivery` that describes the outcome of a message."""
    return Delivery(acknowledged, attempts, 0, reason, None)
