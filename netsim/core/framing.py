"""Making frames: from a payload and its bytes, from bytes alone, for one receiver.

agent → outbox → link → inbox → agent: you are in the outbox, and again in the inbox.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any

from netsim.core import Frame
from netsim.errors import WireError
from netsim.wire.codec import decode, is_mutable

__all__ = ["damaged", "decode_frame", "for_receiver", "new_frame"]


def new_frame(
    kind: str,
    sender: Hashable,
    round: int,
    sent_at: float,
    data: bytes,
    payload: Any,
    request: int | None = None,
    is_reply: bool = False,
) -> Frame:
    """Return the frame of these bytes, which carry ``payload``."""
    plain = request is None and not is_mutable(payload)
    return Frame(kind, sender, round, sent_at, data, plain, request, is_reply)


def decode_frame(data: bytes, sent_at: float, names: Sequence[Hashable]) -> Frame:
    """Return the frame that these bytes are, ``names`` being the agents by number; raises WireError if it is none."""
    match decode(data):
        case [kind, sender, number, payload, *rest] if (
            # Not isinstance: True is no number, and numpy's text no text of ours.
            (type(kind), type(sender), type(number)) == (str, int, int)
            and 0 <= sender < len(names)
            and 0 <= number < 1 << 63
        ):
            match rest:
                case []:
                    return new_frame(kind, names[sender], number, sent_at, data, payload)
                case [int(request), bool(is_reply)]:
                    return new_frame(kind, names[sender], number, sent_at, data, payload, request, is_reply)
    raise WireError(f"{len(data)} bytes are no frame")


def damaged(frame: Frame, place: float, names: Sequence[Hashable]) -> Frame | None:
    """Return what a receiver without CRC makes of a frame with one bit flipped; None if it notices.

    ``place`` says where the bit is, as a share of the frame's length.
    """
    bit = math.floor(place * 8 * len(frame.data))
    data = bytearray(frame.data)
    data[bit // 8] ^= 1 << bit % 8
    try:
        received = decode_frame(bytes(data), frame.sent_at, names)
    except WireError:
        return None
    # The link tells from whom a frame comes: another sender's name in it is noticed.
    return received if received.sender == frame.sender else None


def for_receiver(frame: Frame) -> Frame:
    """Return the frame to hand to one receiver: a copy if its payload could be changed in place."""
    return frame if frame.plain else frame.copy()
