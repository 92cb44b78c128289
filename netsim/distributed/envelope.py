"""The datagrams between processes: a magic number, an authentication code and a msgpack array, never a pickle.

On the path agent → outbox → link → inbox → agent, datagrams carry the frames of a link between two processes. `unseal`
accepts any bytes. It returns a message, or raises `Refused` with the reason why the datagram is dropped.
"""

import hmac
import math
from typing import Any, NamedTuple

import msgpack

__all__ = ["LEG", "OVERHEAD", "FrameBatch", "Heartbeat", "Message", "Refused", "fits", "seal", "unseal"]

_MARK = b"nsm1"
_CODE_SIZE = 16
_INT_LIMIT = 1 << 63

OVERHEAD = 200
"""Upper bound of a datagram's overhead in bytes: its size with one frame, minus the frame and the name of the frame's
kind."""

LEG = 30
"""Upper bound of the encoded size, in bytes, of one link's three numbers in the ``legs`` of a `Message`."""


class Message(NamedTuple):
    """A frame, and the links from one process to another on which the frame travels.

    Attributes
    ----------
    number : int
        The sender's transmission number, as in `netsim.core.records.Transmission`.
    kind : str
        The kind of message under which the frame is counted.
    sent_at : float
        Sending time (simulated s).
    data : bytes
        The frame.
    legs : list
        A flat list with three numbers for each link: the link's index, the frame's sequence number on the link, and the
        arrival time (simulated s) that the link's model drew.
    """

    number: int
    kind: str
    sent_at: float
    data: bytes
    legs: list[Any]


class FrameBatch(NamedTuple):
    """The frames of one run that a process sends to another process in one datagram.

    Attributes
    ----------
    host : int
        The index of the sending process among all processes.
    incarnation : int
        The time (ns) at which the sending process started, which distinguishes a restarted process from its
        predecessor.
    run : int
        The number of the run, from 0.
    messages : list of Message
        The frames.
    """

    host: int
    incarnation: int
    run: int
    messages: list[Any]


class Heartbeat(NamedTuple):
    """The state that a process periodically sends to all others, with a sequence ``number`` that starts at 0."""

    host: int
    incarnation: int
    number: int
    state: dict[str, Any]


class Refused(Exception):  # noqa: N818  hostile bytes are expected input, not an error
    """Raised for a datagram that must be dropped; the text is the reason, ``strangers`` or ``malformed``."""


_PARCEL, _HEARTBEAT = [int, int, int, list], [int, int, int, dict]
_MESSAGE = [int, str, float, bytes, list]


def seal(message: FrameBatch | Heartbeat, key: bytes) -> bytes:
    """Encode a message as a datagram, authenticated with the shared key (HMAC-SHA-256, truncated to 128 bits)."""
    body: bytes = msgpack.packb([int(type(message) is Heartbeat), *message])
    return _MARK + hmac.digest(key, body, "sha256")[:_CODE_SIZE] + body


def unseal(data: bytes, key: bytes) -> FrameBatch | Heartbeat:
    """Decode a datagram made by `seal`; raises Refused for any other bytes."""
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
        # Hostile bytes make msgpack raise exceptions of many types; any of them means that the datagram is malformed.
        pass
    raise Refused("malformed")


def _parse_message(fields: list[Any]) -> Message:
    """Convert decoded msgpack fields to a message; raises ValueError if they are invalid."""
    # One comparison of all types is faster than a check of each field, and nobody needs to know which type is wrong.
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


def fits(value: Any, form: Any) -> bool:
    """Return whether a value matches a form.

    A form is one of these:

    * a class: the type of the value, where ``float`` stands for a finite float or an int, and ``object`` for any value;
    * a function that returns whether a value has the form;
    * a list of one form, which all items of the value must match, or a list with a form for each item;
    * a dict: {class of all keys: form of all values}, or {key: form of its value};
    * a tuple of forms: the value must match at least one of them.
    """
    if type(form) is tuple:
        return any(fits(value, each) for each in form)
    if type(form) is list and type(value) is list:
        forms = form * len(value) if len(form) == 1 else form
        return len(forms) == len(value) and all(map(fits, value, forms))
    if type(form) is dict and type(value) is dict:
        [(key, item), *more] = form.items()
        if type(key) is type and not more:
            return all(fits(name, key) and fits(each, item) for name, each in value.items())
        return all(name in form and fits(each, form[name]) for name, each in value.items())
    if form is float:
        return type(value) in (float, int) and math.isfinite(value)
    if callable(form) and not isinstance(form, type):
        return bool(form(value))
    return form is object or type(value) is form
