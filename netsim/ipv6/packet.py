"""Encode and decode IPv6 packets in IEEE 802.15.4 frames: compressed headers (RFC 6282), fragments (RFC 4944).

Compression removes fields that follow from the MAC header or have common values. It supports traffic class and flow
label 0, the hop limits 1, 64 and 255, addresses derived from short MAC addresses, one context (number 0) for the
network's prefix, and the headers for hop-by-hop options, routing and UDP.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from netsim.errors import WireError

__all__ = [
    "ALL_NODES",
    "HOP_BY_HOP",
    "ICMP",
    "LOCAL",
    "MOST_BYTES",
    "ROUTING",
    "UDP",
    "Packet",
    "address",
    "compress",
    "decompress",
    "fragments",
    "icmp",
    "reassemble",
    "udp",
]

HOP_BY_HOP, UDP, ROUTING, ICMP = 0, 17, 43, 58

LOCAL = bytes.fromhex("fe80000000000000")
"""The prefix of link-local addresses, 8 bytes."""

ALL_NODES = bytes.fromhex("ff020000000000000000000000000001")
"""The multicast address of all nodes on the link."""

MOST_BYTES = 1280
"""Maximum size of an uncompressed packet in bytes. This is the minimum MTU of IPv6, and the MTU of 6LoWPAN in RFC
4944."""

# The first six bytes of an interface identifier that is derived from a short MAC address (RFC 6282, 3.2.2).
_OF_SHORT = bytes.fromhex("000000fffe00")
_MULTICAST = bytes.fromhex("ff02") + bytes(13)
# Dispatch bits of a compressed packet, of the first fragment, and of later fragments. Then the codes of two compressed
# next headers: an extension header, and UDP.
_IPHC, _FIRST, _LATER, _EXTENSION, _NHC_UDP = 0x60, 0xC0, 0xE0, 0xE0, 0xF0
# Flag for a header without traffic class and flow label, which are then 0.
_NO_FLOW = 0x18
_HOPS = {1: 1, 64: 2, 255: 3}
_EXTENSIONS = {HOP_BY_HOP: 0, ROUTING: 1}
# First ports of the ranges for which the compressed UDP header contains only four or eight bits of the port.
_FOUR_BITS, _EIGHT_BITS = 0xF0B0, 0xF000


class Packet(NamedTuple):
    """An IPv6 packet before compression.

    Attributes
    ----------
    source, target : bytes
        The addresses, 16 bytes each.
    hops : int
        The hop limit.
    headers : tuple of (int, bytes)
        The extension headers, each as (header number, bytes after the length field).
    protocol : int
        `UDP` or `ICMP`.
    body : bytes
        Everything after the extension headers, including the header of UDP or ICMPv6.
    """

    source: bytes
    target: bytes
    hops: int
    headers: tuple[tuple[int, bytes], ...]
    protocol: int
    body: bytes

    @property
    def size(self) -> int:
        """The size in bytes of the uncompressed packet; extension headers are multiples of 8 bytes."""
        return 40 + sum((9 + len(content)) // 8 * 8 for _, content in self.headers) + len(self.body)

    def with_checksum(self, place: int) -> "Packet":
        """Return the packet with the checksum (RFC 8200, 8.1) written into the body at the offset ``place``.

        ``target`` must be the final destination, because the checksum includes the target's address.
        """
        zeroed = self.body[:place] + bytes(2) + self.body[place + 2 :]
        data = self.source + self.target + struct.pack("!II", len(zeroed), self.protocol) + zeroed
        total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) // 2 * 2]))
        total += data[-1] << 8 if len(data) % 2 else 0
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        value = ~total & 0xFFFF or 0xFFFF
        return self._replace(body=zeroed[:place] + struct.pack("!H", value) + zeroed[place + 2 :])


def address(prefix: bytes, short: int) -> bytes:
    """Return the IPv6 address with an 8-byte prefix of the node with this short MAC address."""
    return prefix + _OF_SHORT + struct.pack("!H", short)


def udp(source: bytes, target: bytes, port: int, payload: bytes, hops: int = 64) -> Packet:
    """Return a UDP datagram with the same source and target port."""
    body = struct.pack("!HHHH", port, port, 8 + len(payload), 0) + payload
    return Packet(source, target, hops, (), UDP, body).with_checksum(6)


def icmp(source: bytes, target: bytes, kind: int, code: int, content: bytes, hops: int = 255) -> Packet:
    """Return an ICMPv6 message."""
    return Packet(source, target, hops, (), ICMP, struct.pack("!BBH", kind, code, 0) + content).with_checksum(2)


# --- compression ------------------------------------------------------------------------------------------------------


def compress(packet: Packet, prefix: bytes, mac_source: int, mac_target: int) -> tuple[bytes, bytes]:
    """Return (compressed headers, remaining bytes) of a packet (RFC 6282).

    ``prefix`` is the 8-byte prefix of context 0; the MAC addresses are in the frame's header.
    """
    source_bits, source = _compressed(packet.source, prefix, mac_source)
    if packet.target[:15] == _MULTICAST:
        target_bits, target = 0x0B, packet.target[15:]
    else:
        target_bits, target = _compressed(packet.target, prefix, mac_target)
    is_udp = packet.protocol == UDP
    is_chained = is_udp or bool(packet.headers)
    hops = _HOPS.get(packet.hops, 0)
    head = bytes([_IPHC | _NO_FLOW | is_chained << 2 | hops, source_bits << 4 | target_bits])
    head += (b"" if is_chained else bytes([packet.protocol])) + (b"" if hops else bytes([packet.hops]))
    head += source + target
    for number, (kind, content) in enumerate(packet.headers, 1):
        more = is_udp or number < len(packet.headers)
        head += bytes([_EXTENSION | _EXTENSIONS[kind] << 1 | more]) + (b"" if more else bytes([packet.protocol]))
        head += bytes([len(content)]) + content
    if not is_udp:
        return head, packet.body
    return head + _compressed_udp(*struct.unpack("!HHxxH", packet.body[:8])), packet.body[8:]


def _compressed(ip: bytes, prefix: bytes, short: int) -> tuple[int, bytes]:
    """Return (context and mode bits, address bytes that cannot be omitted) for an IPv6 address."""
    in_context = ip[:8] == prefix
    if not in_context and ip[:8] != LOCAL:
        return 0, ip
    if ip[8:14] != _OF_SHORT:
        return in_context << 2 | 1, ip[8:]
    return (in_context << 2 | 3, b"") if ip[14:] == struct.pack("!H", short) else (in_context << 2 | 2, ip[14:])


def _compressed_udp(source: int, target: int, checksum: int) -> bytes:
    ends = struct.pack("!H", checksum)
    if source & 0xFFF0 == target & 0xFFF0 == _FOUR_BITS:
        return bytes([_NHC_UDP | 3, (source & 15) << 4 | target & 15]) + ends
    if source & 0xFF00 == _EIGHT_BITS:
        return struct.pack("!BBH", _NHC_UDP | 2, source & 0xFF, target) + ends
    if target & 0xFF00 == _EIGHT_BITS:
        return struct.pack("!BHB", _NHC_UDP | 1, source, target & 0xFF) + ends
    return struct.pack("!BHH", _NHC_UDP, source, target) + ends


class _Reader:
    """Reads bytes in order; raises WireError if too few are left."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        self.place += count
        if self.place > len(self.data):
            raise WireError(f"{len(self.data)} bytes are no whole packet of 6LoWPAN")
        return self.data[self.place - count : self.place]

    def number(self, size: int = 1) -> int:
        """Return the next ``size`` bytes as a number."""
        return int.from_bytes(self.take(size), "big")


def decompress(data: bytes, prefix: bytes, mac_source: int, mac_target: int) -> Packet:
    """Return the packet from bytes made by `compress`; raises WireError for features that `compress` never uses."""
    reader = _Reader(data)
    first, second = reader.number(), reader.number()
    if first & 0xF8 != _IPHC | _NO_FLOW or second & 0x80:
        raise WireError(f"header {first:02x}{second:02x}: traffic classes, flows and other contexts are not read")
    protocol = -1 if first & 4 else reader.number()
    hops = {bits: hops for hops, bits in _HOPS.items()}.get(first & 3) or reader.number()
    source = _inflated(reader, second >> 4 & 7, prefix, mac_source)
    if second & 8 and second & 7 != 3:
        raise WireError(f"header {first:02x}{second:02x}: only multicast addresses of one byte are read")
    target = _MULTICAST + reader.take(1) if second & 8 else _inflated(reader, second & 7, prefix, mac_target)
    headers: list[tuple[int, bytes]] = []
    while protocol < 0:
        head = reader.number()
        if head & 0xFC == _NHC_UDP:
            ends = _inflated_ports(reader, head & 3), reader.take(2)
            rest = data[reader.place :]
            body = ends[0] + struct.pack("!H", 8 + len(rest)) + ends[1] + rest
            return Packet(source, target, hops, tuple(headers), UDP, body)
        kind = next((each for each, number in _EXTENSIONS.items() if head & 0xFE == _EXTENSION | number << 1), None)
        if kind is None:
            raise WireError(f"next header {head:02x}: only hop-by-hop options, routing headers and UDP are read")
        protocol = -1 if head & 1 else reader.number()
        headers.append((kind, reader.take(reader.number())))
    return Packet(source, target, hops, tuple(headers), protocol, data[reader.place :])


def _inflated(reader: _Reader, bits: int, prefix: bytes, short: int) -> bytes:
    in_context, mode = bits >> 2, bits & 3
    if mode == 0:
        return reader.take(16)
    if mode == 1:
        return (prefix if in_context else LOCAL) + reader.take(8)
    return address(prefix if in_context else LOCAL, short if mode == 3 else reader.number(2))


def _inflated_ports(reader: _Reader, mode: int) -> bytes:
    if mode == 3:
        both = reader.number()
        return struct.pack("!HH", _FOUR_BITS | both >> 4, _FOUR_BITS | both & 15)
    source = _EIGHT_BITS | reader.number() if mode == 2 else reader.number(2)
    return struct.pack("!HH", source, _EIGHT_BITS | reader.number() if mode == 1 else reader.number(2))


# --- fragments --------------------------------------------------------------------------------------------------------


def fragments(packet: Packet, head: bytes, rest: bytes, mtu: int, tag: int) -> list[bytes]:
    """Divide a compressed packet into fragments of at most ``mtu`` bytes (RFC 4944, 5.3).

    Offsets in fragments are positions in the uncompressed packet, in units of 8 bytes. Raises WireError if the headers
    do not fit in one frame.
    """
    size = packet.size
    if size > MOST_BYTES:
        raise WireError(f"a packet of {size:,} bytes: must be of at most {MOST_BYTES:,}, headers included")
    if len(head) + len(rest) <= mtu:
        return [head + rest]
    before = size - len(rest)
    end = (before + mtu - 4 - len(head)) // 8 * 8
    if end < before:
        raise WireError(f"{len(head)} bytes of headers do not fit in a frame of {mtu} bytes")
    found = [struct.pack("!HH", _FIRST << 8 | size, tag) + head + rest[: end - before]]
    step = (mtu - 5) // 8 * 8
    for begin in range(end, size, step):
        content = rest[begin - before : begin - before + step]
        found.append(struct.pack("!HHB", _LATER << 8 | size, tag, begin // 8) + content)
    return found


def reassemble(parts: Sequence[bytes], prefix: bytes, mac_source: int, mac_target: int) -> Packet:
    """Return the packet from its fragments in any order; raises WireError unless they form exactly one packet."""
    first = [part for part in parts if part[:1] and part[0] & 0xF8 == _FIRST]
    if not first:
        if len(parts) != 1:
            raise WireError(f"{len(parts)} fragments: must have a first one")
        return decompress(parts[0], prefix, mac_source, mac_target)
    later = sorted((part for part in parts if part not in first), key=lambda part: part[4:5])
    size, tag = int.from_bytes(first[0][:2], "big") & 0x7FF, first[0][2:4]
    data, end = first[0][4:], None
    for part in later:
        if len(part) < 6 or part[0] & 0xF8 != _LATER:
            raise WireError(f"{len(part)} bytes are no fragment")
        is_of_it = int.from_bytes(part[:2], "big") & 0x7FF == size and part[2:4] == tag
        if not is_of_it or end not in (None, 8 * part[4]):
            raise WireError("fragments: must be of one packet, without gaps")
        data, end = data + part[5:], 8 * part[4] + len(part) - 5
    packet = decompress(data, prefix, mac_source, mac_target)
    if not packet.size == end == size:
        raise WireError(f"fragments: must be of {size} bytes in all; they are of {packet.size}")
    return packet
