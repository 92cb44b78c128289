"""Export a run's frames for Wireshark, as UDP over IPv4 between synthetic addresses, with outcomes as comments.

The file format is that of the IETF's draft "PCAP Now Generic (pcapng) Capture File Format": a sequence of blocks, each
with its length at the beginning and the end. Calling a library would take more lines than writing the blocks in this
module.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.errors import BadInput
from netsim.radio.medium import ACK
from netsim.replay.frames import Columns, Log, Reader
from netsim.replay.render import About
from netsim.util.files import write_pieces

__all__ = ["FIRST_PORT", "MOST_AGENTS", "write_pcapng"]

FIRST_PORT = 49_152
"""The UDP port of the first kind of message; the following kinds have the following ports."""

_LAST_PORT = 65_535
_NETWORK = 10 << 24

MOST_AGENTS = 2**24 - 2
"""The maximum number of agents: the number of host addresses in 10.0.0.0/8."""

_HEADERS = 28
# The largest UDP payload (bytes) that the 16-bit length of an IPv4 header allows.
_MOST_PAYLOAD = 2**16 - 1 - _HEADERS
_MOST_LENGTH = 2**32 - 1

# The number of packets encoded in one step.
_AT_ONCE = 1 << 14
# The maximum length of a name in bytes of UTF-8; Wireshark's limit is 255.
_MOST_NAME = 200

_HEAD = np.dtype(
    [
        ("version", "u1"),
        ("service", "u1"),
        ("length", ">u2"),
        ("identification", ">u2"),
        ("fragment", ">u2"),
        ("hops", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("source", ">u4"),
        ("destination", ">u4"),
        ("source_port", ">u2"),
        ("destination_port", ">u2"),
        ("udp_length", ">u2"),
        ("udp_checksum", ">u2"),
    ]
)


def write_pcapng(log: Log, path: str | Path, *, about: About | None = None, most: int | None = None) -> Path:
    """Write the frames of a trace as a pcapng file, with a packet for each frame on each link; return its path.

    A packet's time is the simulated time (ns) at which the frame's first bit left, as if the run had begun in 1970;
    packets are sorted by time. Only the 28 bytes of the IPv4 and UDP headers are captured. The packet's length is 28
    plus the frame's bytes on the wire. docs/export.md describes the format.

    Parameters
    ----------
    log : Log
        The trace.
    path : str or Path
        The file.
    about : About, optional
        The title, command and notes to write at the beginning of the file.
    most : int, optional
        The maximum number of frames; `netsim.replay.frames.Reader` selects which frames are left out. Default: all.

    Raises
    ------
    BadInput
        If the trace was written by an incompatible version, ``most`` is invalid, or the trace exceeds the limits of the
        format: 16,777,214 agents, and times below 2⁶⁴ ns (584 years).
    NetsimError
        If the file cannot be written.
    """
    if len(log.agents) > MOST_AGENTS:
        raise BadInput(f"agents = {len(log.agents):,}: must be at most {MOST_AGENTS:,} for pcapng, one address each")
    return write_pieces(path, _pieces(log, Reader(log, most), about or About()))


def _pieces(log: Log, reader: Reader, about: About) -> Iterator[bytes]:
    kinds = [_printable(kind) for kind in log.kinds]
    ports = np.minimum(FIRST_PORT + np.arange(len(kinds)), _LAST_PORT)
    yield _section(f"netsim {__version__}", _comments(log, reader, about, kinds, ports.tolist()))
    what = f"medium: {reader.scene.medium}; a packet for each frame on each link"
    yield _interface("netsim", what, _RAW_IP, _PACKET_BLOCK["bytes"].itemsize)
    addresses = (struct.pack(">I", _NETWORK + number) for number in range(1, len(log.agents) + 1))
    yield from _host_names(addresses, [_printable(name).strip() for name in log.agents])
    for part in reader.parts():
        for first in range(0, len(part["depart"]), _AT_ONCE):
            some = {name: column[first : first + _AT_ONCE] for name, column in part.items()}
            times, carried = _nanoseconds(some["depart"]), -(-some["bits"] // 8)
            lengths = np.minimum(_HEADERS + carried, _MOST_LENGTH)
            yield _packets(times, lengths, _heads(some, carried, ports), _fates(some, reader.causes, kinds))


def _nanoseconds(seconds: NDArray[np.float64]) -> NDArray[np.uint64]:
    if not np.all((seconds >= 0) & (seconds < _MOST_NANOSECONDS / 1e9)):
        last = seconds.max()
        raise BadInput(f"trace: must have times from 0 to 2^64 ns (584 years) for pcapng; it has {last} s")
    return np.rint(seconds * 1e9).astype(np.uint64)


def _heads(part: Columns, carried: NDArray[np.int64], ports: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the IPv4 and UDP headers of frames, shape (frames,)."""
    head = np.zeros(len(carried), _HEAD)
    payload = np.minimum(carried, _MOST_PAYLOAD)
    head["version"], head["hops"], head["protocol"] = 0x45, 64, 17
    head["fragment"] = 0x4000
    head["length"] = _HEADERS + payload
    head["source"] = _NETWORK + 1 + part["sender"].astype(np.int64)
    head["destination"] = _NETWORK + 1 + part["receiver"].astype(np.int64)
    head["source_port"] = head["destination_port"] = ports[part["kind"]]
    head["udp_length"] = 8 + payload
    words = head.view(">u2").reshape(len(head), -1)[:, :10].astype(np.int64).sum(axis=1)
    for _ in range(2):
        words = (words & 0xFFFF) + (words >> 16)
    head["checksum"] = ~words & 0xFFFF
    # The UDP checksum stays 0, which means "no checksum", because there are no payload bytes to sum.
    return head.view("V28")


def _fates(part: Columns, causes: list[str], kinds: list[str]) -> Iterator[bytes]:
    """For each frame, yield a sentence with its outcome, kind, round, message number and size."""
    names = ("start", "depart", "end", "cause", "kind", "round", "number", "bits", "reply")
    columns = (part[name].tolist() for name in names)
    for start, depart, end, cause, kind, turn, number, bits, reply in zip(*columns, strict=True):
        waited = f", left after {round(depart - start, 9):.15g} s" if depart > start and bits else ""
        when = f"at {round(end, 9):.15g} s after {round(end - start, 9):.15g} s{waited}"
        which = f"kind {kinds[kind]}, {f'round {turn}' if turn else 'no round'}, message {number}"
        size = f"{bits} bits" if bits else "never left"
        if bits > 8 * _MOST_PAYLOAD:
            size += " (more than UDP's length can say)"
        text = f"{causes[cause]} {when}; {which}, {size}{', reply' if reply else ''}"
        yield text.encode()


def _comments(log: Log, reader: Reader, about: About, kinds: Sequence[str], ports: Sequence[int]) -> list[str]:
    """Return the comments at the beginning of the file."""
    counts = ", ".join(f"{count:,} {cause}" for cause, count in reader.counts.items() if count)
    texts = [
        *filter(None, (about.title, about.command)),
        f"{sum(reader.counts.values()):,} frames: {counts or 'none'}." + (reader.omitted and f" {reader.omitted}"),
        "One packet for each frame on each link. Addresses are 10.0.0.1 for the first agent and so on. The packet's "
        f"length is that of the headers of IPv4 and UDP, {_HEADERS} bytes, which are not the frame's and alone are "
        "captured, plus the frame's bytes on the wire, rounded up. Times are simulated.",
        "Ports by kind of message: " + ", ".join(f"{port} {kind}" for port, kind in zip(ports, kinds, strict=True)),
        *about.notes,
    ]
    if len(kinds) > _LAST_PORT - FIRST_PORT + 1:
        texts.append(f"Kinds of message number {_LAST_PORT - FIRST_PORT + 1:,} and later share port {_LAST_PORT}.")
    if ACK in log.kinds:
        texts.append("The radio's acknowledgements are counted in bits only: they are no frames of agents, nor here.")
    return [_printable(text, 4000) for text in texts]


def _printable(value: object, most: int = _MOST_NAME) -> str:
    """Return text in one line of at most about ``most`` bytes; unprintable characters are escaped."""
    text = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(value))
    data = text.encode()
    return text if len(data) <= most else data[:most].decode(errors="ignore") + "…"


# --- the blocks of a file ---------------------------------------------------------------------------------------------

_SECTION, _INTERFACE, _NAMES, _PACKET = 0x0A0D0D0A, 1, 4, 6
_BYTE_ORDER = 0x1A2B3C4D
_RAW_IP = 101
_COMMENT, _APPLICATION, _NAME, _DESCRIPTION, _RESOLUTION = 1, 4, 2, 3, 9
_MOST_NAMES = 4096
# The maximum length of an option's text in bytes; the length field has 16 bits.
_MOST_TEXT = 65_000

# The latest time (ns) that a packet can have.
_MOST_NANOSECONDS = 2**64 - 1

# A packet block with 28 captured bytes, up to the beginning of its comment.
_PACKET_BLOCK = np.dtype(
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

# For an option of length n: item n % 4 is the padding to a multiple of four bytes, and the end of the block's options.
_ENDS = tuple(bytes(-length % 4) + bytes(4) for length in range(4))


def _section(application: str, comments: Sequence[str]) -> bytes:
    """Return the first block of a file, which names the writing program and holds comments."""
    options = b"".join(_option(_COMMENT, text) for text in comments) + _option(_APPLICATION, application)
    return _block(_SECTION, struct.pack("<IHHq", _BYTE_ORDER, 1, 0, -1) + options + bytes(4))


def _interface(name: str, description: str, link_type: int, most: int = 0) -> bytes:
    """Return the block that describes the only interface: times in ns, at most ``most`` bytes per packet (0: all)."""
    options = _option(_NAME, name) + _option(_DESCRIPTION, description) + _option(_RESOLUTION, b"\x09")
    return _block(_INTERFACE, struct.pack("<HHI", link_type, 0, most) + options + bytes(4))


def _host_names(addresses: Iterable[bytes], names: Sequence[str]) -> Iterator[bytes]:
    """Yield blocks with the names of IPv4 (4 bytes) or IPv6 addresses; addresses with empty names are left out."""
    pairs = [pair for pair in zip(addresses, names, strict=True) if pair[1]]
    for first in range(0, len(pairs), _MOST_NAMES):
        some = pairs[first : first + _MOST_NAMES]
        records = b"".join(_record(len(at) // 16 + 1, at + name.encode() + b"\0") for at, name in some)
        yield _block(_NAMES, records + bytes(4))


def _packets(
    nanoseconds: NDArray[np.uint64], lengths: NDArray[np.int64], heads: NDArray[np.void], comments: Iterable[bytes]
) -> bytes:
    """Return a block for each packet: its time, its length (at most 2³² − 1 bytes), the 28 bytes captured, a comment.

    ``comments`` are UTF-8, each of at most 65,000 bytes.
    """
    texts = list(comments)
    fixed = np.empty(len(texts), _PACKET_BLOCK)
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    # Added to the fixed fields: the comment, padding to four bytes, the end of the options, and the repeated length.
    whole = _PACKET_BLOCK.itemsize + sizes + -sizes % 4 + 8
    values: tuple[Any, ...] = (_PACKET, whole, 0, nanoseconds >> np.uint64(32), nanoseconds & np.uint64(2**32 - 1))
    values = (*values, heads.itemsize, lengths, heads, _COMMENT, sizes)
    for name, value in zip(_PACKET_BLOCK.names or (), values, strict=True):
        fixed[name] = value
    begin, end, step = fixed.tobytes(), whole.astype("<u4").tobytes(), _PACKET_BLOCK.itemsize
    parts: list[bytes] = []
    for index, text in enumerate(texts):
        parts += (begin[index * step : (index + 1) * step], text, _ENDS[len(text) % 4], end[4 * index : 4 * index + 4])
    return b"".join(parts)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _record(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _comment(text: str) -> bytes:
    """Return the options of a packet block: a comment."""
    return _option(_COMMENT, text) + bytes(4)


def _option(code: int, value: str | bytes) -> bytes:
    if isinstance(value, str):
        value = value.encode()[:_MOST_TEXT].decode(errors="ignore").encode()
    return _record(code, value)
