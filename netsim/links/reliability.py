"""Reliability of a channel: how lost frames are recovered."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from netsim.errors import BadInput
from netsim.links.latency import Latency, TracedDelays
from netsim.util import check

Way = Literal["none", "ack", "nack", "keyframe"]
WAYS: tuple[Way, ...] = ("none", "ack", "nack", "keyframe")

ACK, NACK, RESENT = "ack", "nack", "resent"
"""The kinds of message that a reliable channel sends in addition to the agents' messages."""


@check.named
@dataclass(frozen=True)
class Reliability:
    """The method by which a channel recovers lost frames.

    Frames that the channel adds are counted under the kinds ``ack``, ``nack`` and ``resent``, and may be lost, too.

    Parameters
    ----------
    way : {"none", "ack", "nack", "keyframe"}
        "ack": receivers acknowledge each frame; within the round, the sender repeats the frame to receivers that have
        not acknowledged it. "nack": a receiver that misses a sequence number requests that frame, which may then arrive
        in a later round. "keyframe": the channel recovers nothing, but agents that share states
        (`netsim.agents.Sharing`) broadcast the whole state every ``every`` rounds, which corrects the receivers' copies
        of the state.
    timeout : float, optional
        "ack": seconds until a frame is sent again; default: a twentieth of a round, or 1.5 round trips if longer.
    attempts : int
        "ack": maximum number of transmissions of a frame.
    window : int
        "nack": number of recent frames that a sender keeps for requests.
    every : int
        "keyframe": number of rounds from one broadcast of the whole state to the next.

    Raises
    ------
    BadInput
        If ``way`` is unknown, or a number is outside its range.
    """

    way: Way = "none"
    timeout: float | None = None
    attempts: int = 16
    window: int = 64
    every: int = 50

    def __post_init__(self) -> None:
        check.one_of("reliability", self.way, WAYS)
        check.fields(self, check.finite, "timeout", above=0.0, optional=True)
        check.fields(self, check.integer, "attempts", "window", "every", low=1)

    @property
    def numbers(self) -> bool:
        """Whether frames have sequence numbers."""
        return self.way in ("ack", "nack")

    def resend_after(self, latency: Latency, period: float) -> float:
        """Return the seconds after which an unacknowledged frame is sent again.

        Raises
        ------
        BadInput
            If an acknowledgement cannot return before the round closes.
        """
        trip = 2.0 * typical(latency)
        if self.way == "ack" and trip >= period:
            raise BadInput(
                f"reliability = 'ack': must have a latency below half the round period, {period / 2:g} s; "
                f"it is {trip / 2:g} s, and no acknowledgement is back before the round closes"
            )
        return self.timeout if self.timeout is not None else max(1.5 * trip, period / 20.0)


def of(value: "Reliability | str") -> Reliability:
    """Return a `Reliability` from an object or a ``way``; raises BadInput for an unknown way."""
    if isinstance(value, Reliability):
        return value
    return Reliability(check.one_of("reliability", value, WAYS))  # type: ignore[arg-type]


def typical(latency: Latency) -> float:
    """Return a latency's median, in seconds."""
    if isinstance(latency, TracedDelays):
        return float(np.median(latency.values))
    return latency.fixed if latency.fixed is not None else float(latency.delays(np.array([[0.5]]), 0)[0, 0])
