"""Export the transmissions on a `netsim.Radio` as an IEEE 802.15.4 sniffer that receives every node would record them.

The file is pcapng (`netsim.export.pcapng`) of link type LINKTYPE_IEEE802_15_4_TAP, in which metadata precede each
frame. Sources: Exegin, "IEEE 802.15.4 TAP Link Type Specification", version 1.1; IEEE Std 802.15.4-2020, 7.2 for the
MAC frame.
"""

import math
import struct
from binascii import crc_hqx
from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.errors import BadInput
from netsim.export.pcapng import (
    _PACKET,
    _block,
    _comment,
    _host_names,
    _interface,
    _nanoseconds,
    _printable,
    _section,
)
from netsim.ipv6.packet import LOCAL, address
from netsim.radio.medium import ACK
from netsim.replay.frames import Log
from netsim.replay.render import About
from netsim.util import check
from netsim.util.files import write_pieces

__all__ = ["BROADCAST", "LINK_TYPE", "MOST_AGENTS", "PAN", "fcs", "write_ieee802154"]

LINK_TYPE = 283
"""LINKTYPE_IEEE802_15_4_TAP."""

PAN = 0x6E73
"""The PAN ID in all frames."""

BROADCAST = 0xFFFF
"""The broadcast address, a short address that stands for all nodes."""

MOST_AGENTS = 0xFFFD
"""The maximum number of agents, whose short addresses count from 1: 0xFFFE means "no short address", and 0xFFFF is
`BROADCAST`."""

# Wireshark refuses files with longer packets.
_MOST_BYTES = 1 << 18

# Values of the frame control field: data with short addresses in one PAN, the flag that requests an acknowledgement,
# and an acknowledgement.
_DATA, _REQUEST, _ACK = 0x8841, 0x0020, 0x0002

# The type codes of the elements of a TAP header.
_FCS_TYPE, _RSS, _CHANNEL, _START, _END = 0, 1, 3, 5, 6
_CRC_16 = 1

# Table that maps each byte to the byte with reversed bits.
_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def fcs(data: bytes) -> int:
    """Return IEEE 802.15.4's frame check sequence: a CRC of x¹⁶ + x¹² + x⁵ + 1, least significant bit first."""
    high, low = divmod(crc_hqx(data.translate(_REVERSED), 0), 256)
    return _REVERSED[low] << 8 | _REVERSED[high]


def write_ieee802154(log: Log, path: str | Path, *, about: About | None = None, most: int | None = None) -> Path:
    """Write the transmissions on a `netsim.Radio` as pcapng of IEEE 802.15.4, and return the file's path.

    The file has a packet for each transmission of a fragment and for each acknowledgement. A broadcast is one packet.
    docs/export.md describes the format.

    Parameters
    ----------
    log : Log
        The trace.
    path : str or Path
        The file.
    about : About, optional
        The title, command and notes to write at the beginning of the file.
    most : int, optional
        The maximum number of frames; later frames are left out. Default: all.

    Raises
    ------
    BadInput
        If the trace has no log of a `netsim.Radio`, ``most`` is invalid, or the trace exceeds the limits of the format:
        65,533 agents, and times below 2⁶⁴ ns (584 years).
    NetsimError
        If the file cannot be written.
    """
    if most is not None:
        check.integer("most", most, low=1)
    if len(log.agents) > MOST_AGENTS:
        raise BadInput(f"agents = {len(log.agents):,}: must be at most {MOST_AGENTS:,}, one short address each")
    on_radio = log.scene is not None and log.scene.medium == "shared"
    if not on_radio or (log.count("left") and not log.count("on_air")):
        raise BadInput(
            "trace: must hold the frames on the air of a netsim.Radio, which this version writes; it does not"
        )
    return write_pieces(path, _pieces(log, about or About(), log.count("on_air") if most is None else most))


def _pieces(log: Log, about: About, most: int) -> Iterator[bytes]:
    names = [_printable(name).strip() for name in log.agents]
    yield _section(f"netsim {__version__}", _comments(log, about, names, most))
    yield _interface("netsim", "IEEE 802.15.4, every frame on the air, heard beside its sender", LINK_TYPE)
    if stack := _stack(log):
        for prefix in (LOCAL, bytes.fromhex(stack["prefix"])):
            yield from _host_names((address(prefix, number) for number in range(1, len(names) + 1)), names)
    sniffer, left = _Sniffer(log, names), most
    for rows in log.chunks("on_air"):
        some = rows[:left]
        left -= len(some)
        yield b"".join(sniffer.packets(some))


def _comments(log: Log, about: About, names: list[str], most: int) -> list[str]:
    """Return the comments at the beginning of the file."""
    count = log.count("on_air")
    omitted = f" Only the first {most:,} are here." if count > most else ""
    reading = f"To have Wireshark look for no protocol in messages: decode wpan.panid 0x{PAN:04x} as Data."
    if stack := _stack(log):
        ports = ", ".join(f"{port} {kind}" for kind, port in stack["ports"].items())
        prefix = IPv6Address(bytes.fromhex(stack["prefix"]) + bytes(8))
        reading = f"Wireshark needs the preference 6lowpan.context0:{prefix}/64. UDP ports by kind of message: {ports}"
    texts = [
        *filter(None, (about.title, about.command)),
        f"{count:,} frames on the air, repetitions and acknowledgements included.{omitted}",
        f"Short addresses: {', '.join(f'0x{number:04x} {name}' for number, name in enumerate(names, 1))}",
        "Times are simulated. The MAC header, 9 bytes, and the FCS, 2 bytes, are made by the export; between them is "
        "what the frame carried of its message. The bits on the air, with the network's own headers, are in comments.",
        reading,
        *about.notes,
    ]
    return [_printable(text, 4000) for text in texts]


def _stack(log: Log) -> Mapping[str, Any]:
    return {} if log.scene is None else log.scene.stack


class _Sniffer:
    """Converts records of transmissions, in order of time, to packets."""

    def __init__(self, log: Log, names: list[str]) -> None:
        self._names, self._kinds = names, [_printable(kind) for kind in log.kinds]
        self._receivers, self._links = log.links[1].tolist(), len(log.links[0])
        self._ack = log.kinds.index(ACK) if ACK in log.kinds else -1
        # For each sender: the last fragment that it sent, and the sequence number of that fragment.
        self._last: dict[int, tuple[tuple[int, int], int]] = {}
        self._chunks, self._held = log.chunks("contents"), b""

    def packets(self, rows: NDArray[np.void]) -> Iterator[bytes]:
        """Yield a pcapng packet block for each record of a transmission."""
        self._check(rows)
        times = [_nanoseconds(rows[name]).tolist() for name in ("start", "end")]
        names = ("sender", "link", "kind", "message", "fragment", "retry", "bits", "channel", "dbm", "whole")
        columns = [rows[name].tolist() for name in names]
        for start, end, content, *row in zip(*times, self._contents(rows["size"]), *columns, strict=True):
            yield self._packet(start, end, content, *row)

    def _check(self, rows: NDArray[np.void]) -> None:
        limits = {"sender": (0, len(self._names)), "link": (-1, self._links), "kind": (0, len(self._kinds))}
        for name, (low, high) in limits.items():
            if not np.all((rows[name] >= low) & (rows[name] < high)):
                raise BadInput(f"trace: must be of one run; its frames on the air have a {name} that it does not know")
        if np.any(rows["size"] < 0) or np.any((rows["kind"] == self._ack) & (rows["link"] < 0)):
            raise BadInput("trace: must be of one run; its frames on the air do not fit their contents")

    def _contents(self, sizes: NDArray[np.int64]) -> Iterator[bytes]:
        """For each frame, yield the bytes of the message that the frame carries."""
        needs = int(sizes.sum())
        parts, size = [self._held], len(self._held)
        while size < needs:
            part = next(self._chunks, None)
            if part is None:
                raise BadInput("trace: must be of one run; its frames on the air do not fit their contents")
            parts.append(part.tobytes())
            size += len(parts[-1])
        data, place = b"".join(parts), 0
        self._held = data[needs:]
        for size in sizes.tolist():
            yield data[place : place + size]
            place += size

    def _packet(self, start: int, end: int, content: bytes, sender: int, link: int, kind: int, *row: Any) -> bytes:
        message, fragment, retry, bits, channel, dbm, whole = row
        to = self._receivers[link] if link >= 0 else -1
        named = f"{self._names[sender]} → {self._names[to] if to >= 0 else 'all'}"
        which = f"message {message}, fragment {fragment}"
        if kind == self._ack:
            frame = struct.pack("<HB", _ACK, self._last.get(to, (None, 0))[1])
            text = f"{named}: acknowledges {which}, {bits} bits"
        else:
            control = _DATA | (_REQUEST if to >= 0 and self._ack >= 0 else 0)
            address = to + 1 if to >= 0 else BROADCAST
            number = self._number(sender, (message, fragment))
            frame = struct.pack("<HBHHH", control, number, PAN, address, sender + 1) + content
            text = f"{named}: {self._kinds[kind]}, {which}, retry {retry}, {bits} bits"
        check_sequence = fcs(frame)
        if not whole:
            text += f", cut short after {(end - start) / 1e9:.9g} s"
            check_sequence ^= 0xFFFF
        return _packet(start, _tap(start, end, channel, dbm) + frame + struct.pack("<H", check_sequence), text)

    def _number(self, sender: int, fragment: tuple[int, int]) -> int:
        """Return the sequence number of a fragment; its retransmissions have the same number."""
        last, number = self._last.get(sender, (None, -1))
        if fragment != last:
            number = (number + 1) % 256
            self._last[sender] = fragment, number
        return number


def _tap(start: int, end: int, channel: int, dbm: float) -> bytes:
    """Return the TAP header: FCS type, received power (dBm) if known, channel unless 0, start and end (ns)."""
    fields = struct.pack("<HHB3x", _FCS_TYPE, 1, _CRC_16)
    if not math.isnan(dbm):
        fields += struct.pack("<HHf", _RSS, 4, dbm)
    if channel:
        fields += struct.pack("<HHHBx", _CHANNEL, 3, channel, 0)
    fields += struct.pack("<HHQHHQ", _START, 8, start, _END, 8, end)
    return struct.pack("<BxH", 0, 4 + len(fields)) + fields


def _packet(nanoseconds: int, data: bytes, comment: str) -> bytes:
    captured = data[:_MOST_BYTES]
    head = struct.pack("<IIIII", 0, nanoseconds >> 32, nanoseconds & 0xFFFFFFFF, len(captured), len(data))
    return _block(_PACKET, head + captured + bytes(-len(captured) % 4) + _comment(comment))
