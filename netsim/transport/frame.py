"""Frames: what an agent receives, and its bytes.

agent → outbox → link → inbox → agent: this is what travels. On the wire a frame is a msgpack array [kind, sender,
round, payload], with two more elements where it belongs to a request: [… , request number, is reply].
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from netsim import check
from netsim.errors import WireError
from netsim.transport.wire import ARRAY, array_bytes, decode, encode, is_mutable, unpack_payload


class Frame:
    """What an agent receives: who sent what kind of message, when, and its payload.

    The bytes are decoded when the payload is first asked for, once for all receivers of a broadcast; arrays are
    read-only, and payloads that could be changed in place (lists, dicts) are decoded for each receiver apart.

    Attributes
    ----------
    kind : str
        The sender's name for this kind of message.
    sender : Hashable
        The agent that sent it.
    round : int
        The round in which it was sent (0: outside rounds).
    sent_at : float
        When it was sent, in simulated seconds.
    data : bytes
        The frame as it crossed the link.
    payload : object
        What was sent.
    plain : bool
        Whether one object serves all receivers, and nobody waits for it by number: true of most frames.
    request : int or None
        The number of the request that this frame is or answers.
    is_reply : bool
        Whether it answers a request.
    """

    __slots__ = ("data", "kind", "payload", "round", "sender", "sent_at")
    plain = True
    mutable = False
    request: int | None = None
    is_reply = False
    payload: Any

    def __init__(self, kind: str, sender: Hashable, round: int, sent_at: float, data: bytes) -> None:
        self.kind = kind
        self.sender = sender
        self.round = round
        self.sent_at = sent_at
        self.data = data

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Asked for only until the payload is there: from then on it is an ordinary, fast attribute.
            if name != "payload":
                raise AttributeError(f"a frame has no attribute {name!r}")
            self.payload = unpack_payload(self.data)[3]
            return self.payload

    def __repr__(self) -> str:
        return f"<Frame {self.kind!r} from {self.sender!r} in round {self.round}, {len(self.data)} bytes>"


class SpecialFrame(Frame):
    """A frame that each receiver decodes for itself, or that belongs to a request."""

    __slots__ = ("is_reply", "mutable", "request")
    plain = False

    def __init__(
        self,
        kind: str,
        sender: Hashable,
        round: int,
        sent_at: float,
        data: bytes,
        mutable: bool,
        request: int | None,
        is_reply: bool,
    ) -> None:
        super().__init__(kind, sender, round, sent_at, data)
        self.mutable = mutable
        self.request = request
        self.is_reply = is_reply

    def copy(self) -> "SpecialFrame":
        """Return the same frame with a payload of its own."""
        return SpecialFrame(
            self.kind, self.sender, self.round, self.sent_at, self.data, self.mutable, self.request, self.is_reply
        )


def for_receiver(frame: Frame) -> Frame:
    """Return the frame to hand to one receiver: a copy if the payload could be changed in place."""
    return frame.copy() if isinstance(frame, SpecialFrame) and frame.mutable else frame


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
    mutable = is_mutable(payload)
    if mutable or request is not None:
        return SpecialFrame(kind, sender, round, sent_at, data, mutable, request, is_reply)
    return Frame(kind, sender, round, sent_at, data)


class FrameEncoder:
    """Writes the frames of one run (a msgpack packer serves one thread at a time)."""

    def __init__(self) -> None:
        self._packer = msgpack.Packer(strict_types=True, autoreset=False)

    def encode(
        self,
        kind: str,
        sender: int,
        round_number: int,
        payload: Any,
        request: int | None = None,
        is_reply: bool = False,
    ) -> bytes:
        """Return the bytes of a frame from agent number ``sender``; raises WireError as `encode` does."""
        if type(kind) is not str:
            raise check.refuse("kind", kind, "a text (str)")
        if type(payload) is np.ndarray and request is None:
            # What most frames are; five times as fast without lists and hooks.
            packer = self._packer
            packer.reset()
            packer.pack_array_header(4)
            packer.pack(kind)
            packer.pack(sender)
            packer.pack(round_number)
            packer.pack_ext_type(ARRAY, array_bytes(payload))
            return bytes(packer.bytes())
        fields = [kind, sender, round_number, payload]
        return encode(fields if request is None else [*fields, request, is_reply])


def decode_frame(data: bytes, sent_at: float, names: Sequence[Hashable]) -> Frame:
    """Return the frame that these bytes are, ``names`` being the agents by number; raises WireError if it is none."""
    match decode(data):
        case [str(kind), int(sender), int(number), payload, *rest] if 0 <= sender < len(names) and number >= 0:
            match rest:
                case []:
                    return new_frame(kind, names[sender], number, sent_at, data, payload)
                case [int(request), bool(is_reply)]:
                    return new_frame(kind, names[sender], number, sent_at, data, payload, request, is_reply)
    raise WireError(f"{len(data)} bytes are no frame")
