"""What crosses between processes: a datagram is a mark, an authentication code and a msgpack array, never a pickle.

agent → outbox → link → inbox → agent: you are on the link, between two processes. Whatever bytes come, `unseal` returns
what they are or raises `Refused`, which names under which count they are dropped.
"""

import hmac
import math
from typing import Any, NamedTuple

import msgpack

__all__ = ["LEG", "OVERHEAD", "Heartbeat", "Message", "Parcel", "Refused", "seal", "unseal"]

_MARK = b"nsm1"
_CODE = 16
_MOST = 1 << 63

OVERHEAD = 200
"""Bytes that a datagram may have beside a frame and the name of its kind."""

LEG = 30
"""Bytes that each link takes on which a frame travels."""


class Message(NamedTuple):
    """A frame, and the links between two processes on which it travels."""

    # As in `netsim.core.records.Transmission`.
    number: int
    # Under which kind of message it is counted.
    kind: str
    # In simulated seconds.
    sent_at: float
    data: bytes
    # For each link three numbers in turn: the link's, how many frames it has carried before, and when (simulated s)
    # this one arrives by the link's model.
    legs: list[Any]


class Parcel(NamedTuple):
    """Frames from one process to another, of one of the processes' runs, counted from 0."""

    # The sender's place among all processes, and when (ns) it began.
    host: int
    incarnation: int
    run: int
    messages: list[Any]


class Heartbeat(NamedTuple):
    """The state of a process, which it sends to the others again and again; see `netsim.distributed.membership`."""

    host: int
    incarnation: int
    # How many it sent before.
    number: int
    state: dict[str, Any]


class Refused(Exception):  # noqa: N818  it is no error: anybody may send anything
    """Bytes that are dropped: ``why`` is ``strangers`` or ``malformed``."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


_PARCEL, _HEARTBEAT = [int, int, int, list], [int, int, int, dict]
_MESSAGE = [int, str, float, bytes, list]


def seal(message: Parcel | Heartbeat, key: bytes) -> bytes:
    """Return the datagram of a message, authenticated (HMAC-SHA-256, 128 bits of it) by a key that all share."""
    body: bytes = msgpack.packb([int(type(message) is Heartbeat), *message])
    return _MARK + hmac.digest(key, body, "sha256")[:_CODE] + body


def unseal(data: bytes, key: bytes) -> Parcel | Heartbeat:
    """Return the message that `seal` gave these bytes; raises Refused for any others."""
    body = data[len(_MARK) + _CODE :]
    code = hmac.digest(key, body, "sha256")[:_CODE]
    if data[: len(_MARK)] != _MARK or not hmac.compare_digest(data[len(_MARK) : len(_MARK) + _CODE], code):
        raise Refused("strangers")
    try:
        which, *fields = msgpack.unpackb(body, strict_map_key=False)
        types = [type(field) for field in fields]
        if which == 0 and types == _PARCEL and _are_in_range(fields):
            host, incarnation, run, messages = fields
            return Parcel(host, incarnation, run, [_message(each) for each in messages])
        if which == 1 and types == _HEARTBEAT and _are_in_range(fields):
            return Heartbeat(*fields)
    except Exception:
        # Bytes of whatever kind can make msgpack raise many things; what they mean here is one.
        pass
    raise Refused("malformed")


def _message(fields: list[Any]) -> Message:
    """Return a frame as it came; raises ValueError if it is none."""
    # Types first and all at once: most of what comes is right.
    if [type(field) for field in fields] != _MESSAGE or not _are_in_range(fields):
        raise ValueError("no message")
    legs = fields[4]
    if not legs or [type(each) for each in legs] != [int, int, float] * (len(legs) // 3) or not _are_in_range(legs):
        raise ValueError("no legs")
    return Message(*fields)


def _are_in_range(values: list[Any]) -> bool:
    for value in values:
        if type(value) is int:
            if not 0 <= value < _MOST:
                return False
        elif type(value) is float and not math.isfinite(value):
            return False
    return True
