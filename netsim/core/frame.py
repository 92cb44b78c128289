"""Frames: the messages that agents receive, and their bytes.

A frame takes the path agent → outbox → link → inbox → agent. On the wire it is a msgpack array [kind, sender,
round, payload]. If all nodes know the kind beforehand (`netsim.Network`), the kind's index replaces its name. A frame
of a request or a reply has two more elements: [… , request number, is reply]. A frame that a reliable link numbers also
has two more: [… , −sequence, false].
"""

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import msgpack
import numpy as np

from netsim.errors import WireError
from netsim.util import draws
from netsim.wire import registry
from netsim.wire.codec import encode, extension, unpack_payload

__all__ = ["Frame", "FrameEncoder", "message_hash"]

_UNREAD = object()

Powers = tuple[float, float, float]
"""The power of signal, noise and interference at a receiver, in mW; 0 if unknown."""

Reception = tuple[Powers | None, float, float | None]
"""How a frame arrived over a radio: powers; when it began and the sender's event, both by the receiver's clock (s)."""

# Types whose values msgpack can always write. An int may be too large, and a str may contain lone surrogates.
_PLAIN = frozenset({float, bool, type(None)})


@lru_cache(maxsize=4096)
def _key(name: Hashable) -> int:
    return draws.name_key(name)


def message_hash(sender: Hashable, kind: str, round: int, sent_at: float, sequence: int, request: int | None) -> int:
    """Return the hash of a frame, computed from the fields that its sender sets.

    The bytes are not included, because they contain the sender's index, which depends on the other agents.
    """
    return hash((_key(sender), _key(kind), round, sent_at, sequence, -1 if request is None else request))


class Frame:
    """A received message: a payload with its kind, sender, round and time.

    The bytes are decoded when the payload is first read, once for all receivers of a broadcast. Arrays are read-only.
    Payloads that could be changed in place (lists, dicts) are decoded per receiver. Attributes cannot be assigned,
    because receivers share the frame. A frame is equal only to itself. Its hash is `message_hash`, so that a set of
    frames has the same order in every run.
    """

    __slots__ = (
        "_carried",
        "_data",
        "_kind",
        "_payload",
        "_reception",
        "_round",
        "_sender",
        "_sent",
        "_sent_at",
        "_special",
    )

    def __init__(  # noqa: PLR0913  each attribute that receivers read
        self,
        kind: str,
        sender: Hashable,
        round: int,
        sent_at: float,
        data: bytes,
        plain: bool = True,
        request: int | None = None,
        is_reply: bool = False,
        sequence: int = 0,
        reception: "Reception | None" = None,
        carried: Any = None,
    ) -> None:
        self._kind = kind
        self._sender = sender
        self._round = round
        self._sent_at = sent_at
        self._data = data
        self._payload: Any = _UNREAD
        self._special = None if plain else (request, is_reply, sequence)
        self._reception = reception
        # A `netsim.ipv6.stack.Carried`, which holds the fragments and decodes the frame, if the network has a
        # ``stack``; otherwise None.
        self._carried = carried
        # In a receiver's copy of a `plain` frame: the original frame, whose payload the copy shares. Otherwise None.
        self._sent: Frame | None = None

    @property
    def kind(self) -> str:
        """The kind of message, as named by its sender."""
        return self._kind

    @property
    def sender(self) -> Hashable:
        """The agent that sent the frame."""
        return self._sender

    @property
    def round(self) -> int:
        """The round in which the frame was sent (0: outside rounds)."""
        return self._round

    @property
    def sent_at(self) -> float:
        """The simulated time (s) at which the frame was sent, even if its sender's own clock shows another time.

        For a message over several links (``Network(routing=...)``), the time at which the last link's frame was sent.
        """
        return self._sent_at

    @property
    def data(self) -> bytes:
        """The frame's bytes as they crossed the link."""
        return self._data

    def size(self) -> int:
        """Return the number of the frame's bytes; `data` may first have to join them."""
        return len(self.data)

    @property
    def payload(self) -> Any:
        """The decoded message body; it is decoded when it is first read."""
        value = self._payload
        if value is _UNREAD:
            value = self._payload = self._decoded() if self._sent is None else self._sent.payload
        return value

    def _decoded(self) -> Any:
        return unpack_payload(self._data)[3] if self._carried is None else self._carried.payload(self._data)

    @property
    def carried(self) -> Any:
        """The frame's `netsim.ipv6.stack.Carried`, if the network has a ``stack``; otherwise None."""
        return self._carried

    @property
    def plain(self) -> bool:
        """Whether all receivers may share this frame: it has an immutable payload, no `request` and no `sequence`."""
        return self._special is None

    @property
    def request(self) -> int | None:
        """The number of the request that this frame is or answers; None for other frames."""
        return None if self._special is None else self._special[0]

    @property
    def is_reply(self) -> bool:
        """Whether the frame answers a request."""
        return self._special is not None and self._special[1]

    @property
    def sequence(self) -> int:
        """The sequence number, from 1, that a reliable link assigned to the frame; 0 on other links."""
        return 0 if self._special is None else self._special[2]

    @property
    def rssi_dbm(self) -> float | None:
        """The power (dBm) with which the signal was received; None unless a `netsim.Radio` has ``powers`` or a phy.

        `rssi_dbm`, `snr_db` and `lqi` are measured at this frame's receiver. For a fragmented frame they are those of
        its last fragment.
        """
        powers = self._powers
        return None if powers is None else 10.0 * math.log10(powers[0])

    @property
    def snr_db(self) -> float | None:
        """Signal power over noise plus mean interference (dB); None unless a `netsim.Radio` has a phy."""
        powers = self._powers
        if powers is None or not powers[1]:
            return None
        power, noise, interference = powers
        return 10.0 * math.log10(power / (noise + interference))

    @property
    def lqi(self) -> int | None:
        """The link quality, from 0 for an `snr_db` of 0 or less to 255 for 40 or more; None without an `snr_db`.

        IEEE Std 802.15.4-2006, 6.9.8, requires values spread evenly over the range of qualities that a receiver can
        distinguish; 6.9.7 requires that energy detection spans at least 40 dB.
        """
        snr = self.snr_db
        return None if snr is None else round(255 * min(max(snr / 40.0, 0.0), 1.0))

    @property
    def began(self) -> float | None:
        """Time (s), by the receiver's own clock, at which the frame's first bit arrived; None unless over a radio.

        For a fragmented frame, `began` and `event` refer to its last fragment.
        """
        return None if self._reception is None else self._reception[1]

    @property
    def event(self) -> float | None:
        """The time (s) of the sender's ``event`` by the receiver's own clock; None without an event, or if too old."""
        return None if self._reception is None else self._reception[2]

    @property
    def _powers(self) -> Powers | None:
        return None if self._reception is None else self._reception[0]

    def copy(self) -> "Frame":
        """Return a copy of the frame; the copy decodes the payload again, so the two share no payload."""
        return Frame(*self._fields())

    def received(self, signal: Powers | None, began: float, event: float | None = None) -> "Frame":
        """Return a copy for one receiver, with the power of signal, noise and interference (mW) at that receiver.

        ``began`` and ``event`` are times by the receiver's own clock (s). Copies of a `plain` frame share its payload,
        which is decoded once.
        """
        frame = self.copy()
        frame._reception, frame._sent = (signal, began, event), self if self.plain else None
        return frame

    def _fields(self) -> tuple[Any, ...]:
        of_all = self._kind, self._sender, self._round, self._sent_at, self._data
        special = self.plain, self.request, self.is_reply, self.sequence
        if self._reception is None and self._carried is None:
            return (*of_all, *special)
        return (*of_all, *special, self._reception, self._carried)

    def __hash__(self) -> int:
        return message_hash(self._sender, self._kind, self._round, self._sent_at, self.sequence, self.request)

    def __repr__(self) -> str:
        return f"<Frame {self.kind!r} from {self.sender!r} in round {self.round}, {len(self.data)} bytes>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Frame, self._fields()


class FrameEncoder:
    """Encodes the frames of one run. Runs share no encoder, because a msgpack packer serves one thread at a time.

    All nodes know ``kinds`` beforehand: a frame of such a kind carries the kind's index (one byte) instead of its name.
    """

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        self.kinds = tuple(kinds)
        self._written: dict[str, str | int] = {kind: number for number, kind in enumerate(self.kinds)}
        self._packer = msgpack.Packer(strict_types=True, autoreset=False)

    def head(self, kind: str, sender: int) -> bytes:
        """Return the bytes before the round, for an agent's frames of one kind without request or sequence number."""
        return bytes(self._begin(kind, sender).bytes())

    def _begin(self, kind: str, sender: int) -> msgpack.Packer:
        packer = self._packer
        packer.reset()
        packer.pack_array_header(4)
        try:
            packer.pack(self._written.get(kind, kind))
        except UnicodeEncodeError as error:
            raise WireError(f"cannot encode the kind {kind!a}: {error.reason}") from None
        packer.pack(sender)
        return packer

    def encode(
        self,
        kind: str,
        sender: int,
        round_number: int,
        payload: Any,
        request: int | None = None,
        is_reply: bool = False,
        sequence: int = 0,
    ) -> bytes:
        """Return the bytes of a frame of agent number ``sender``; raises WireError if it cannot be encoded."""
        number = -sequence if sequence else request
        is_plain = type(payload) in _PLAIN
        if number is None and (is_plain or type(payload) is np.ndarray or type(payload) in registry.NUMBERS):
            # Most payloads are arrays, coded arrays or numbers. Packing the fields of their frames one by one takes a
            # fifth of the time of `netsim.wire.codec.encode`, which needs a list and calls hooks.
            packer = self._begin(kind, sender)
            packer.pack(round_number)
            if is_plain:
                packer.pack(payload)
            else:
                packer.pack_ext_type(*extension(payload))
            return bytes(packer.bytes())
        fields = [self._written.get(kind, kind), sender, round_number, payload]
        try:
            return encode(fields if number is None else [*fields, number, is_reply])
        except WireError:
            self._begin(kind, sender)  # Encode the kind first: if it is invalid, the error then names it.
            raise
