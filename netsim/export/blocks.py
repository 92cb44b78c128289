"""The blocks of a pcapng file, which begin and end with their length.

The format is that of the IETF's draft "PCAP Now Generic (pcapng) Capture File Format". A library that writes it would
take more lines to call than these.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_NANOSECONDS", "PACKET", "host_names", "interface", "packets", "section"]

_SECTION, _INTERFACE, _NAMES, _PACKET = 0x0A0D0D0A, 1, 4, 6
_BYTE_ORDER = 0x1A2B3C4D
_RAW_IP = 101
_COMMENT, _APPLICATION, _NAME, _DESCRIPTION, _RESOLUTION = 1, 4, 2, 3, 9
_MOST_NAMES = 4096
# Of an option: its length has 16 bits.
_MOST_TEXT = 65_000

MOST_NANOSECONDS = 2**64 - 1
"""The latest time that a packet can have."""

PACKET = np.dtype(
    [
        ("block", "<u4"),
        ("length", "<u4"),
        ("interface", "<u4"),
        ("time_high", "<u4"),
        ("time_low", "<u4"),
        ("captured", "<u4"),
        ("original", "<u4"),
        ("bytes", "V28"),
        ("option", "<u2"),
        ("comment", "<u2"),
    ]
)
"""A packet block of 28 captured bytes as far as its comment."""

# Zeros up to a multiple of four bytes, and the end of a block's options.
_ENDS = tuple(bytes(-length % 4) + bytes(4) for length in range(4))


def section(application: str, comments: Sequence[str]) -> bytes:
    """Return the block that begins a file: what wrote it, and comments."""
    options = b"".join(_option(_COMMENT, text) for text in comments) + _option(_APPLICATION, application)
    return _block(_SECTION, struct.pack("<IHHq", _BYTE_ORDER, 1, 0, -1) + options + bytes(4))


def interface(name: str, description: str) -> bytes:
    """Return the block of the only interface: raw IP, times in nanoseconds, `PACKET` bytes of each packet."""
    options = _option(_NAME, name) + _option(_DESCRIPTION, description) + _option(_RESOLUTION, b"\x09")
    return _block(_INTERFACE, struct.pack("<HHI", _RAW_IP, 0, PACKET["bytes"].itemsize) + options + bytes(4))


def host_names(addresses: Sequence[int], names: Sequence[str]) -> Iterator[bytes]:
    """Yield blocks that name IPv4 addresses; an empty name is none."""
    pairs = [pair for pair in zip(addresses, names, strict=True) if pair[1]]
    for first in range(0, len(pairs), _MOST_NAMES):
        some = pairs[first : first + _MOST_NAMES]
        records = b"".join(_record(1, struct.pack(">I", address) + name.encode() + b"\0") for address, name in some)
        yield _block(_NAMES, records + bytes(4))


def packets(
    nanoseconds: NDArray[np.uint64], lengths: NDArray[np.int64], heads: NDArray[np.void], comments: Iterable[bytes]
) -> bytes:
    """Return a block for each packet: its time, its length (at most 2³² − 1 bytes), the 28 bytes captured, a comment.

    A comment is UTF-8 of at most 65,000 bytes.
    """
    texts = list(comments)
    fixed = np.empty(len(texts), PACKET)
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    # The comment, zeros up to four bytes, the end of the options, and the length once more.
    whole = PACKET.itemsize + sizes + -sizes % 4 + 8
    values: tuple[Any, ...] = (_PACKET, whole, 0, nanoseconds >> np.uint64(32), nanoseconds & np.uint64(2**32 - 1))
    values = (*values, heads.itemsize, lengths, heads, _COMMENT, sizes)
    for name, value in zip(PACKET.names or (), values, strict=True):
        fixed[name] = value
    begin, end, step = fixed.tobytes(), whole.astype("<u4").tobytes(), PACKET.itemsize
    parts: list[bytes] = []
    for index, text in enumerate(texts):
        parts += (begin[index * step : (index + 1) * step], text, _ENDS[len(text) % 4], end[4 * index : 4 * index + 4])
    return b"".join(parts)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _record(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _option(code: int, value: str | bytes) -> bytes:
    if isinstance(value, str):
        value = value.encode()[:_MOST_TEXT].decode(errors="ignore").encode()
    return _record(code, value)
