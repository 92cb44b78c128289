"""Read the times and lengths of captured packets from pcap and pcapng files.

Sources: the IETF's drafts "PCAP Capture File Format" (draft-ietf-opsawg-pcap) and "PCAP Now Generic (pcapng) Capture
File Format" (draft-ietf-opsawg-pcapng).
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from netsim.errors import BadInput
from netsim.files.content import FileContent
from netsim.util import check

__all__ = ["Packet", "is_capture", "read_packets"]

# {first four bytes of a pcap file, as an integer: ticks per second}.
_MAGIC = {0xA1B2C3D4: 1_000_000, 0xA1B23C4D: 1_000_000_000}
_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_RESOLUTION, _OFFSET = 9, 14


class Packet(NamedTuple):
    """A captured packet: the time (s) since the first packet, and the length on the wire (bytes)."""

    time: float
    size: int


@dataclass
class _Clock:
    """The clock of an interface: the ticks per second, and the offset (s) to add to its times."""

    ticks: int = 1_000_000
    offset: int = 0


def is_capture(data: bytes) -> bool:
    """Return whether bytes begin with the magic number of pcap or pcapng."""
    if len(data) < 4:
        return False
    little, big = struct.unpack("<I", data[:4])[0], struct.unpack(">I", data[:4])[0]
    return little in _MAGIC or big in _MAGIC or little == _SECTION


def read_packets(path: str | Path) -> list[Packet]:
    """Return the packets of a capture in order of time, without their contents.

    The first packet has the time 0. The packets of all interfaces in a pcapng file are merged. Packets without a time
    (simple packet blocks) are left out, and a RuntimeWarning reports their number.

    Parameters
    ----------
    path : path
        A pcap or pcapng file, possibly compressed by gzip or bzip2.

    Raises
    ------
    BadInput
        If the file is missing, truncated, not a capture, or has no packet.
    """
    source = FileContent.read("packets", path)
    if not is_capture(source.data):
        raise source.refuse("a capture of pcap or pcapng")
    try:
        little = struct.unpack("<I", source.data[:4])[0]
        found = _of_pcapng(source) if little == _SECTION else _of_pcap(source)
    except struct.error:
        raise source.refuse("a whole capture; it is cut short") from None
    if not found:
        raise source.refuse("a capture with a packet; it has none")
    # Subtract times as integers of nanoseconds: as a float, a time in seconds since 1970 has a resolution of only 0.24
    # µs.
    found.sort()
    return [Packet((at - found[0][0]) / 1e9, size) for at, size in found]


def _of_pcap(source: FileContent) -> list[tuple[int, int]]:
    """Return (time in ns, size in bytes) of each packet in a pcap file."""
    data = source.data
    order = "<" if struct.unpack("<I", data[:4])[0] in _MAGIC else ">"
    unit = 1_000_000_000 // _MAGIC[struct.unpack(f"{order}I", data[:4])[0]]
    if len(data) < 24:
        raise source.refuse("a whole capture; it is cut short")
    at, found = 24, list[tuple[int, int]]()
    while at < len(data):
        seconds, fraction, captured, size = struct.unpack_from(f"{order}4I", data, at)
        at += 16 + captured
        if at > len(data):
            raise source.refuse("a whole capture; it is cut short")
        found.append((seconds * 1_000_000_000 + fraction * unit, size))
    return found


def _of_pcapng(source: FileContent) -> list[tuple[int, int]]:
    """Return (time in ns, size in bytes) of each packet in a pcapng file."""
    data, at, order = source.data, 0, "<"
    clocks: list[_Clock] = []
    found: list[tuple[int, int]] = []
    untimed = 0
    while at < len(data):
        kind = struct.unpack_from(f"{order}I", data, at)[0]
        if kind == _SECTION:
            # Each section defines its byte order and its interfaces.
            order, clocks = ("<" if struct.unpack_from("<I", data, at + 8)[0] == 0x1A2B3C4D else ">"), []
        length = struct.unpack_from(f"{order}I", data, at + 4)[0]
        if length < 12 or length % 4 or at + length > len(data):
            raise source.refuse(f"a whole capture; the block at byte {at:,} is not")
        body = data[at + 8 : at + length - 4]
        if kind == _INTERFACE:
            clocks.append(_clock_of(source, body[8:], order))
        elif kind == _ENHANCED:
            found.append(_packet_of(source, body, order, clocks))
        untimed += kind == _SIMPLE
        at += length
    if untimed:
        check.doubt(f"{source.where}: left out {untimed:,} packets without a time")
    return found


def _clock_of(source: FileContent, options: bytes, order: str) -> _Clock:
    clock, at = _Clock(), 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(f"{order}2H", options, at)
        value = options[at + 4 : at + 4 + length]
        if code == _RESOLUTION and length == 1:
            power = value[0] & 0x7F
            clock.ticks = 2**power if value[0] & 0x80 else 10**power
        elif code == _OFFSET and length == 8:
            clock.offset = struct.unpack(f"{order}q", value)[0]
        elif code == 0:
            break
        at += 4 + length + -length % 4
    return clock


def _packet_of(source: FileContent, body: bytes, order: str, clocks: list[_Clock]) -> tuple[int, int]:
    interface, high, low, _, size = struct.unpack_from(f"{order}5I", body)
    if interface >= len(clocks):
        raise BadInput(f"{source.where}: must have an interface for each packet; {interface} is not described")
    clock = clocks[interface]
    return clock.offset * 1_000_000_000 + ((high << 32) + low) * 1_000_000_000 // clock.ticks, size
