"""The datagrams between processes: a magic number, an authentication code and a msgpack array, never a pickle.

agent → outbox → link → inbox → agent: this is on the link, between two processes. For any bytes, `unseal` returns a
message or raises `Refused` with the drop reason under which they are counted.
"""

import hmac
import math
from typing import Any, NamedTuple

import msgpack

__all__ = ["LEG", "OVERHEAD", "FrameBatch", "Heartbeat", "Message", "Refused", "seal", "unseal"]

_MARK = b"nsm1"
_CODE_SIZE = 16
_INT_LIMIT = 1 << 63

OVERHEAD = 200
"""The most bytes of a datagram beyond a frame and the name of its kind."""

LEG = 30
"""The most bytes that a frame's entry takes for each link."""


class Message(NamedTuple):
    """A frame, and the links between two processes on which it travels."""

    # The sender's transmission number, as in `netsim.core.records.Transmission`.
    number: int
    # The kind of message under which it is counted.
    kind: str
    # In simulated seconds.
    sent_at: float
    data: bytes
    # Three numbers for each link: its index, the frame's sequence number on it, and the arrival time (simulated s)
    # that the link's model gave.
    legs: list[Any]


class FrameBatch(NamedTuple):
    """Frames of one run from one process to another."""

    # The sender's index among all processes, and its start time (ns).
    host: int
    incarnation: int
    # From 0.
    run: int
    messages: list[Any]


class Heartbeat(NamedTuple):
    """The state that a process sends to the others periodically; see `netsim.distributed.membership`."""

    host: int
    incarnation: int
    # A sequence number, from 0.
    number: int
    state: dict[str, Any]


class Refused(Exception):  # noqa: N818  hostile bytes are expected input, not an error
    """A datagram was dropped; the reason is ``strangers`` or ``malformed``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_PARCEL, _HEARTBEAT = [int, int, int, list], [int, int, int, dict]
_MESSAGE = [int, str, float, bytes, list]


def seal(message: FrameBatch | Heartbeat, key: bytes) -> bytes:
    """Return the datagram of a message, authenticated with the shared key (HMAC-SHA-256, truncated to 128 bits)."""
    body: bytes = msgpack.packb([int(type(message) is Heartbeat), *message])
    return _MARK + hmac.digest(key, body, "sha256")[:_CODE_SIZE] + body


def unseal(data: bytes, key: bytes) -> FrameBatch | Heartbeat:
    """Return the message of a datagram that `seal` made; raises Refused for any other bytes."""
    body = data[len(_MARK) + _CODE_SIZE :]
    code = hmac.digest(key, body, "sha256")[:_CODE_SIZE]
    if data[: len(_MARK)] != _MARK or not hmac.compare_digest(data[len(_MARK) : len(_MARK) + _CODE_SIZE], code):
        raise Refused("strangers")
    try:
        type_id, *fields = msgpack.unpackb(body, strict_map_key=False)
        types = [type(field) for field in fields]
        if type_id == 0 and types == _PARCEL and _are_in_range(fields):
            host, incarnation, run, messages = fields
            return FrameBatch(host, incarnation, run, [_parse_message(each) for each in messages])
        if type_id == 1 and types == _HEARTBEAT and _are_in_range(fields):
            return Heartbeat(*fields)
    except Exception:
        # Hostile bytes make msgpack raise many types of exception; all mean the same here.
        pass
    raise Refused("malformed")


def _parse_message(fields: list[Any]) -> Message:
    """Return the message with these fields; raises ValueError if they do not form one."""
    # One comparison of all types: nearly all messages are well formed.
    if [type(field) for field in fields] != _MESSAGE or not _are_in_range(fields):
        raise ValueError("not a message")
    legs = fields[4]
    if not legs or [type(each) for each in legs] != [int, int, float] * (len(legs) // 3) or not _are_in_range(legs):
        raise ValueError("not a list of legs")
    return Message(*fields)


def _are_in_range(values: list[Any]) -> bool:
    for value in values:
        if type(value) is int:
            if not 0 <= value < _INT_LIMIT:
                return False
        elif type(value) is float and not math.isfinite(value):
            return False
    return True
