"""An outbox that numbers its frames, and repeats frames that are not acknowledged or that a receiver requests.

On the path agent → outbox → link → inbox → agent, this module is the outbox. It also processes the numbered frames that
arrive in the inbox. A frame's number is its `Frame.sequence`: even numbers are for broadcasts, odd numbers for frames
to one neighbour. Control frames refer to frames by their numbers: ``ack`` acknowledges a frame, ``nack`` requests
several frames, and ``resent`` contains the bytes of the original frame.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from netsim.core import Frame
from netsim.core.delivery import Delivery
from netsim.core.framing import decode_frame, new_frame
from netsim.errors import WireError
from netsim.links.reliability import ACK, NACK, RESENT, Reliability
from netsim.transport.outbox import Outbox
from netsim.util import check

__all__ = ["ReliableOutbox"]


@dataclass
class _Sent:
    """A sent frame with a sequence number, kept because it may have to be repeated."""

    data: bytes
    raw_data: bool
    round: int
    waiting: list[Hashable]
    tries: int = 1


class _Stream:
    """The sequence numbers received from one neighbour, either of its broadcasts or of its frames to this agent."""

    def __init__(self) -> None:
        self.top = 0
        self.missing: dict[int, None] = {}

    def take(self, number: int, window: int) -> bool:
        """Record a sequence number, and which of the ``window`` numbers before it are missing.

        Return whether the sequence number is new.
        """
        if number > self.top:
            for gap in range(max(self.top + 1, number - window), number):
                self.missing[gap] = None
            self.top = number
            for old in [gap for gap in self.missing if gap < number - window]:
                del self.missing[old]
            return True
        return self.missing.pop(number, number) is None


class ReliableOutbox(Outbox):
    """Outbox that numbers and repeats its agent's frames, and acknowledges or requests frames of neighbours."""

    __slots__ = ("_after", "_broadcasts", "_heard", "_kept", "_settings", "_to_one")

    def set_up(self, settings: Reliability, after: float) -> None:
        """Set how the outbox repeats frames; a frame not acknowledged within ``after`` seconds is repeated."""
        self._settings, self._after = settings, after
        self._broadcasts = 0
        self._to_one: dict[Hashable, int] = {}
        self._kept: OrderedDict[tuple[Hashable | None, int], _Sent] = OrderedDict()
        self._heard: dict[tuple[Hashable, int], _Stream] = {}

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Broadcast a message as `Outbox.broadcast` does, in a numbered frame."""
        shared = self._shared
        now = shared.loop.now()
        self._check_and_count_send(kind, now)
        _check_kind(kind)
        if round_number and shared.rounds.is_closing(round_number, now):
            round_number = 0
        self._broadcasts += 1
        number = 2 * self._broadcasts
        frame = self._broadcast_path.frame(now, kind, round_number, payload, sequence=number)
        taken = self._offer(self._kind_id(kind), frame, payload, raw_data) if self._wiring.links else 0
        self._keep(None, number, kind, payload, round_number, raw_data, list(self.link_index_of) if taken else [])
        for link_index in sorted(self.subscribers):
            self.subscribers[link_index].watch()
        return taken

    def send(
        self,
        to: Hashable,
        kind: str,
        payload: Any,
        round_number: int,
        raw_data: bool,
        request: int | None = None,
        is_reply: bool = False,
        outcome: asyncio.Future[Delivery] | None = None,
        sequence: int = 0,
    ) -> bool:
        """Send a message as `Outbox.send` does, in a numbered frame.

        Requests and replies get no number, because the requester waits for the reply anyway.
        """
        if request is not None:
            return super().send(to, kind, payload, round_number, raw_data, request, is_reply, outcome)
        _check_kind(kind)
        count = self._to_one[to] = self._to_one.get(to, 0) + 1
        number = 2 * count - 1
        taken = super().send(to, kind, payload, round_number, raw_data, outcome=outcome, sequence=number)
        self._keep(to, number, kind, payload, round_number, raw_data, [to] if taken else [])
        return taken

    def heard(self, frame: Frame) -> Frame | None:
        """Process a numbered frame on its arrival; return the frame for the agent, or None."""
        number = frame.sequence
        if frame.kind == ACK:
            self._acknowledged(frame.sender, number)
        elif frame.kind == NACK:
            self._requested(frame)
        else:
            return self._data(frame, number)
        return None

    # --- sending again ------------------------------------------------------------------------------------------------

    def _keep(
        self,
        to: Hashable | None,
        number: int,
        kind: str,
        payload: Any,
        round_number: int,
        raw_data: bool,
        waiting: list[Hashable],
    ) -> None:
        """Keep a sent frame until all receivers in ``waiting`` have acknowledged it.

        If receivers request missing frames instead of acknowledging frames, keep only the latest frames.
        """
        if not waiting:
            return
        data = self._shared.encoder.encode(kind, self._number, round_number, payload, sequence=number)
        key = to, number
        self._kept[key] = _Sent(data, raw_data, round_number, waiting)
        if self._settings.way == "ack":
            self._shared.loop.call_at_simulated(self._shared.loop.now() + self._after, self._again, key)
        elif len(self._kept) > self._settings.window * (1 + len(self.link_index_of)):
            self._kept.popitem(last=False)

    def _again(self, key: tuple[Hashable | None, int]) -> None:
        """Repeat a frame to the receivers that have not acknowledged it.

        Give up after ``Reliability.attempts`` tries, or if the frame would arrive after its round has closed.
        """
        sent, shared = self._kept.get(key), self._shared
        if sent is None or shared.over:
            return
        sent.tries += 1
        # Repeat the frame only if it will probably arrive before its round closes. Assume a latency of a third of the
        # waiting time ``after``: with the default of ``after``, this is half a round trip.
        in_time = shared.loop.now() + self._after / 3.0 < shared.rounds.deadline(sent.round)
        if sent.tries > self._settings.attempts or not in_time:
            del self._kept[key]
            return
        self._resend(sent, key[1], list(sent.waiting), sent.round)
        shared.loop.call_at_simulated(shared.loop.now() + self._after, self._again, key)

    def _resend(self, sent: _Sent, number: int, to: Iterable[Hashable], round_number: int) -> None:
        for name in to:
            super().send(name, RESENT, sent.data, round_number, sent.raw_data, sequence=number)

    def _acknowledged(self, by: Hashable, number: int) -> None:
        key = (by if number % 2 else None), number
        sent = self._kept.get(key)
        if sent is not None and by in sent.waiting:
            sent.waiting.remove(by)
            if not sent.waiting:
                del self._kept[key]

    def _requested(self, frame: Frame) -> None:
        """Repeat the frames that a neighbour requested, as far as they are still kept."""
        wanted = frame.payload if isinstance(frame.payload, list) else []
        for number in [each for each in wanted if type(each) is int][: self._settings.window]:
            sent = self._kept.get(((frame.sender if number % 2 else None), number))
            if sent is not None:
                self._resend(sent, number, [frame.sender], 0)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _data(self, frame: Frame, number: int) -> Frame | None:
        """Acknowledge a frame, or request the frames that are missing before it; return the frame if it is new."""
        if frame.kind == RESENT:
            original = self._original(frame)
            if original is None:
                return None
            frame = original
        odd = number % 2
        stream = self._heard.setdefault((frame.sender, odd), _Stream())
        settings = self._settings
        is_new = stream.take((number + odd) // 2, settings.window)
        if settings.way == "ack":
            super().send(frame.sender, ACK, None, 0, False, sequence=number)
        elif is_new and stream.missing and (number + odd) // 2 == stream.top:
            missing = [2 * each - odd for each in stream.missing]
            super().send(frame.sender, NACK, missing, 0, False, sequence=number)
        if not is_new:
            return None
        # The sequence number is internal to the link layer, so the agent gets a frame without it.
        return new_frame(frame.kind, frame.sender, frame.round, frame.sent_at, frame.data, frame.payload)

    def _original(self, frame: Frame) -> Frame | None:
        """Decode the original frame inside a ``resent`` frame; None if the bytes are invalid."""
        try:
            original = decode_frame(frame.payload, frame.sent_at, self._agents, self._shared.encoder.kinds)
        except (WireError, TypeError):
            return None
        return original if (original.sender, original.sequence) == (frame.sender, frame.sequence) else None


def _check_kind(kind: str) -> None:
    """Raise BadInput for a kind that is reserved for control frames."""
    if kind in (ACK, NACK, RESENT):
        raise check.refuse("kind", kind, f"another than {ACK}, {NACK} and {RESENT}, which a reliable link sends itself")
