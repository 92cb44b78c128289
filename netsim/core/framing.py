"""Functions that create frames: from a payload and its bytes, from bytes alone, or for one receiver.

On the path agent → outbox → link → inbox → agent, outbox, link and inbox call these functions.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import msgpack

from netsim.core import Frame
from netsim.errors import WireError
from netsim.wire.codec import decode, is_mutable

__all__ = ["damaged", "decode_frame", "for_receiver", "new_frame", "without_sender"]


def new_frame(
    kind: str,
    sender: Hashable,
    round: int,
    sent_at: float,
    data: bytes,
    payload: Any,
    request: int | None = None,
    is_reply: bool = False,
    sequence: int = 0,
) -> Frame:
    """Return a frame; ``payload`` only determines whether all receivers may share the frame (`Frame.plain`)."""
    plain = request is None and not sequence and not is_mutable(payload)
    return Frame(kind, sender, round, sent_at, data, plain, request, is_reply, sequence)


def decode_frame(data: bytes, sent_at: float, names: Sequence[Hashable], kinds: Sequence[str] = ()) -> Frame:
    """Return the frame that ``data`` encodes; raise WireError if the bytes are not a valid frame.

    The numbers of sender and kind in the bytes are indices of ``names`` and ``kinds``.
    """
    fields = decode(data)
    # Do not use a `match` statement: since numpy 2.5 its sequence patterns match arrays of any shape. Do not use
    # isinstance: it accepts True as an int and numpy.str_ as a str.
    if type(fields) is list and len(fields) in (4, 6):
        written, sender, number, payload, *rest = fields
        if (
            (type(sender), type(number)) == (int, int)
            and (type(written) is str or (type(written) is int and 0 <= written < len(kinds)))
            and 0 <= sender < len(names)
            and 0 <= number < 1 << 63
        ):
            kind = kinds[written] if isinstance(written, int) else written
            if not rest:
                return new_frame(kind, names[sender], number, sent_at, data, payload)
            request, is_reply = rest
            if type(request) is int and type(is_reply) is bool and request > -(1 << 63):
                # On a reliable link, a negative number is a negated sequence number. But only the receiver knows
                # whether the link is reliable. So ``request`` keeps the number, and ``sequence`` is its negation.
                sequence = max(-request, 0)
                return new_frame(kind, names[sender], number, sent_at, data, payload, request, is_reply, sequence)
    raise WireError(f"{len(data)} bytes are no frame")


def without_sender(data: bytes) -> bytes:
    """Return a frame's bytes without the sender's index, so that equal messages of two senders have equal bytes."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    unpacker.read_array_header()
    unpacker.skip()
    begin = unpacker.tell()
    unpacker.skip()
    return data[:begin] + data[unpacker.tell() :]


def damaged(frame: Frame, where: float, names: Sequence[Hashable], kinds: Sequence[str] = ()) -> Frame | None:
    """Flip one bit of a frame and return the frame that a receiver without CRC decodes; None if decoding fails.

    ``where``, in [0, 1), is the bit's position as a share of the frame's length.
    """
    bit = math.floor(where * 8 * len(frame.data))
    data = bytearray(frame.data)
    data[bit // 8] ^= 1 << bit % 8
    try:
        received = decode_frame(bytes(data), frame.sent_at, names, kinds)
    except WireError:
        return None
    # The receiver knows which agent sends on this link, so it rejects a frame with another sender.
    return received if received.sender == frame.sender else None


def for_receiver(frame: Frame) -> Frame:
    """Return the frame for one receiver: a copy if the payload could be changed in place, else the frame itself."""
    return frame if frame.plain else frame.copy()
