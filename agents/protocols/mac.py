"""Common parts of MAC layers that run in an agent: numbered messages, and the application above."""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import netsim
from netsim.agents.protocols.kinds import Form, Speaker, anything, fields, whole
from netsim.core.delivery import Delivery
from netsim.draw import Kind

__all__ = ["Mac"]

DATA, ALL = "m", "M"
# Seconds after which a frame that was handed to the radio is on the air.
BEGUN = 1e-6
"""The kinds of frames with messages: to one neighbour, and to all of them. They travel in each, so they are short."""

_MOST = 2**62  # more messages than any run has
_MESSAGE = fields(whole(0, _MOST), anything)


class Mac(Speaker):
    """Base of MAC layers that switch the radio themselves.

    A subclass defines `work`, which calls `post` and `announce`, and `take`, which gets received messages. Or the layer
    lies below the parts of a mote: ``netsim.Mote(mac=ContikiMAC(), routing=CTP())``. The medium is
    ``Radio(access="aloha", acks=True, max_frame_retries=0)`` without a duty cycle. Agents do not share a layer.
    """

    draw: ClassVar = {DATA: Kind("message"), ALL: Kind("broadcast")}
    kinds: ClassVar[Mapping[str, Form]] = {DATA: _MESSAGE, ALL: _MESSAGE}
    switches_radio: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._last: dict[Hashable, int] = {}

    async def work(self) -> None:
        """Do the application's work; the agent keeps receiving after this returns. To be overridden."""

    def take(self, sender: Hashable, value: Any) -> None:
        """Handle a received message; each arrives once. To be overridden."""

    async def post(self, to: Hashable, value: Any) -> Delivery:
        """Send a message to a neighbour; return whether it was acknowledged.

        ``attempts`` of the result counts transmissions that measure the link, without calls to a sleeping receiver.
        """
        raise NotImplementedError

    async def announce(self, value: Any) -> bool:
        """Send a message to all neighbours, without acknowledgements; return whether it was on the air."""
        raise NotImplementedError

    def _set_up(self) -> None:
        """Check the medium, and go on above the numbers from before a crash."""
        must_send_at_once(self)
        self._number = max(self._number, first_number(self.now))

    def _take_in(self, frame: netsim.Frame) -> None:
        """Pass a message on, unless it is a duplicate."""
        number, value = frame.payload
        if self._last.get(frame.sender) != number:
            self._last[frame.sender] = number
            self.take(frame.sender, value)


def must_send_at_once(agent: netsim.Agent) -> None:
    """Raise AgentError unless an agent's frames leave the air when it sends them."""
    if agent.radio.access != "aloha":
        raise netsim.AgentError(
            f"agent {agent.name!r}: {type(agent).__name__} chooses itself when a frame leaves, so the medium must be "
            f'a netsim.Radio(access="aloha"), not access="{agent.radio.access}"'
        )


def first_number(now: float) -> int:
    """Return the first number for a node that starts at a time (s): above all its numbers before a crash.

    The node has lost its numbers, but others remember them. No radio here sends a thousand messages a second.
    """
    return int(1000 * now)


def sent(acknowledged: bool, attempts: int, reason: str) -> Delivery:
    """Return the result of sending a message."""
    return Delivery(acknowledged, attempts, 0, reason, None)
