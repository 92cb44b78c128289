"""Pack frames for another worker into bytes, and unpack them.

A parcel holds all frames sent to one worker since the last exchange: first the names of the kinds of message, then each
frame once, with the links on which it travels. Frames enter a parcel after their link and leave it before the inbox.
"""

import math
import struct
from collections.abc import Hashable, Sequence
from typing import Any

from netsim.core import ArrivalQueue, Frame, Tally
from netsim.util.compiled import compiled

__all__ = ["pack", "unpack"]

_COUNTS, _LENGTH = struct.Struct("<II"), struct.Struct("<I")
# _HEAD has the fields of a frame's header, in order: index of its kind; index of the kind under which it is counted;
# flags; number of its bytes; number of its links; round; sending time; request; sequence number; offset and length of a
# vector in its bytes. Only the compiled core uses the last two. _LEG has the fields of one link: arrival time and key.
_HEAD, _LEG = struct.Struct("<IIIIIqdqqqq"), struct.Struct("<dq")
_PLAIN, _REQUEST, _REPLY = 1, 2, 4


def pack(queue: ArrivalQueue, kinds: list[str]) -> tuple[bytes, float]:
    """Remove all frames from a queue; return them packed into bytes, and the first arrival time (s).

    ``kinds`` lists the names of the kinds of message in the order of their ids in this process.
    """
    entries = queue.due(math.inf)
    if not entries:
        return b"", math.inf
    texts: dict[str, int] = {}
    frames: dict[tuple[int, int], tuple[Frame, list[bytes]]] = {}
    for time, key, kind, frame in entries:
        _, legs = frames.setdefault((id(frame), kind), (frame, []))
        legs.append(_LEG.pack(time, key))
    parts = []
    for (_, kind), (frame, legs) in frames.items():
        own, counted = (texts.setdefault(text, len(texts)) for text in (frame.kind, kinds[kind]))
        flags = _PLAIN * frame.plain + _REQUEST * (frame.request is not None) + _REPLY * frame.is_reply
        numbers = frame.round, frame.sent_at, frame.request or 0, frame.sequence
        parts += [_HEAD.pack(own, counted, flags, len(frame.data), len(legs), *numbers, 0, 0), frame.data, *legs]
    names = [text.encode("utf-8", "surrogatepass") for text in texts]
    head = [_COUNTS.pack(len(texts), len(frames)), *(_LENGTH.pack(len(name)) + name for name in names)]
    return b"".join([*head, *parts]), entries[0][0]


def unpack(
    data: bytes,
    tally: Tally,
    names: Sequence[Hashable],
    senders: Any,
    receivers: Any,
    queues: Sequence[ArrivalQueue | None],
    watched: bytearray,
    open_round: int,
    open_deadline: float,
) -> list[tuple[float, int]]:
    """Put the frames of a parcel into their receivers' queues; raises ValueError for a damaged parcel.

    A byte of ``watched`` is 1 for an agent that waits, or has waited, for frames. For each frame to such an agent,
    (sending time in s, receiver's index) is returned. ``senders`` and ``receivers`` hold the indices of the agents at
    the ends of each link. ``queues`` holds the queue of each agent by index, or None for an agent of another worker.

    A frame that may be late sets `ArrivalQueue.careful`, so that its receiver's inbox checks the frames one by one. A
    frame of the round ``open_round`` may be late if it arrives at or after ``open_deadline`` (s). A frame of round 0 is
    never late, and a frame of any other round may be late.
    """
    touched: list[tuple[float, int]] = []
    if not data:
        return touched
    try:
        texts, frames = _COUNTS.unpack_from(data)
        at, kinds = _COUNTS.size, []
        for _ in range(texts):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size + length
            kinds.append(data[at - length : at].decode("utf-8", "surrogatepass"))
        for _ in range(frames):
            own, counted, flags, size, count, round_number, sent_at, request, sequence, *_ = _HEAD.unpack_from(data, at)
            at += _HEAD.size + size
            frame, kind = None, tally.kind(kinds[counted])
            for time, key in (_LEG.unpack_from(data, at + i * _LEG.size) for i in range(count)):
                link = key >> tally.shift
                if frame is None:
                    fields = round_number, sent_at, data[at - size : at], bool(flags & _PLAIN)
                    asked = request if flags & _REQUEST else None
                    frame = Frame(kinds[own], names[senders[link]], *fields, asked, bool(flags & _REPLY), sequence)
                receiver = int(receivers[link])
                queue = queues[receiver]
                if queue is None:
                    raise ValueError("the parcel has a frame for an agent of another worker")
                may_be_late = time >= open_deadline if round_number == open_round else round_number != 0
                queue.incoming.append((time, key, kind, frame))
                queue.careful = queue.careful or may_be_late or not frame.plain
                if watched[receiver]:
                    touched.append((sent_at, receiver))
            at += count * _LEG.size
    except (struct.error, IndexError) as error:
        raise ValueError(f"the parcel cannot be read ({error})") from None
    return touched


_compiled = compiled("parallel._parcels")
if _compiled is not None:
    globals().update(pack=_compiled.pack, unpack=_compiled.unpack)
