"""RPL's messages as IPv6 packets: control messages (RFC 6550), and data with RPL's option and source routes.

Sources: RFC 6550, section 6, for DIS, DIO, DAO and their options; RFC 6553 for the option of data packets; RFC 6554 for
source routes; RFC 6621, section 6.1, for the option that numbers the datagrams of a mote's other parts.
"""

import math
import struct
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from netsim.agents.protocols.downward import DATAGRAM, IS_DATAGRAM, is_datagram
from netsim.errors import BadInput
from netsim.ipv6 import IPv6Stack
from netsim.ipv6 import packet as ip
from netsim.ipv6.packet import Packet
from netsim.wire.codec import encode, unpack_payload

if TYPE_CHECKING:
    from netsim.agents.protocols.rpl import RPL

__all__ = ["RplPackets"]

ALL_RPL_NODES = bytes.fromhex("ff02") + bytes(13) + b"\x1a"

_ICMP_TYPE = 155
_MODES = {None: 0, "non-storing": 1, "storing": 2}
_CONFIGURATION, _TARGET, _TRANSIT, _PREFIX, _DESCRIPTOR = 4, 5, 6, 8, 9
_GROUNDED, _MRHOF, _LIFETIME, _LIFETIME_UNIT = 0x80, 1, 30, 60
_RPI, _DOWN, _WRONG_RANK = 0x63, 0x80, 0x40
_DPD = 0x08  # option for duplicate packet detection, with a number that the source assigns
_SOURCE_ROUTE, _ELIDED = 3, 14  # routing type; number of leading bytes that are equal in all nodes' addresses
_HOPS = 64
_KEPT_ROUTES = 1024
_LINEAR, _CIRCLE = 240, 128  # a version counts from 240 to 255, then from 0 to 127: RFC 6550, 7.2


class RplPackets:
    """Converts messages of the `RPL` nodes of one network to IPv6 packets, and back.

    A forwarded packet is the origin's packet with a lower hop limit and an advanced source route; its checksum is
    unchanged. Payloads lack some fields of packets: the root, and a packet's progress. This object records these when
    the packet is sent.

    Parameters
    ----------
    parts : mapping
        {node: its RPL part}.
    stack : IPv6Stack
        The stack, which assigns addresses and ports.

    Raises
    ------
    BadInput
        Unless there is exactly one root, because the root's address identifies the DODAG in a DIO.
    """

    is_routing = True
    codes: ClassVar[Mapping[tuple[int, int], str]] = {
        (_ICMP_TYPE, 0): "dis",
        (_ICMP_TYPE, 1): "dio",
        (_ICMP_TYPE, 2): "dao",
    }

    def __init__(self, parts: "Mapping[Any, RPL]", stack: IPv6Stack) -> None:
        self._parts, self._stack = parts, stack
        roots = [name for name, part in parts.items() if part.is_sink]
        if len(roots) != 1:
            raise BadInput(f"stack: RPL must have one root, whose address names the DODAG; {len(roots)} are sinks")
        self._root = stack.routable(roots[0])
        self._mode = parts[roots[0]].downward
        self._kinds = parts[roots[0]].kinds
        # {(node, target): hop limit of the last DAO about the target that was sent to the node}.
        self._limits: dict[tuple[Hashable, Hashable], int] = {}
        # {(source, target, number): route} of commands and datagrams sent in non-storing mode.
        self._routes: dict[tuple[bytes, Hashable, int], list[bytes]] = {}

    def write(self, kind: str, sender: Hashable, to: Hashable | None, payload: Any) -> Packet | None:
        """Return the packet of a message, or None for a payload that RPL never sends."""
        is_own = sender in self._parts and self._parts[sender].kinds[kind](payload)
        if not is_own or type(payload) is tuple:
            return None
        if kind == "dis":
            return self._control(sender, to, 0, bytes(2))
        if kind == "dio":
            return self._dio(sender, to, *payload)
        if to is None:
            return None
        if kind == "dao":
            return self._dao(sender, to, *payload)
        return self._data(kind, sender, *payload) if kind == "d" else self._command(kind, sender, to, *payload)

    def read(self, kind: str, packet: Packet) -> tuple[str, Any]:
        """Return the kind and the payload of the message in a packet."""
        if kind == "dis":
            return kind, None
        if kind == "dio":
            return kind, self._read_dio(packet)
        if kind == "dao":
            return kind, self._read_dao(packet)
        headers, hops, name = dict(packet.headers), _HOPS - packet.hops, self._stack.name
        options = _options(headers.get(ip.HOP_BY_HOP, b""))
        flags, rank = struct.unpack("!BxH", options[_RPI]) if _RPI in options else (0, 0)
        left = self._addresses_left(headers[ip.ROUTING]) if ip.ROUTING in headers else []
        names = [name(each) for each in left]
        target = names[-1] if names else name(packet.target)
        if is_other := _DPD in options:
            content = [kind, self._stack.decoded(kind, packet.body[8:])]
            kind = "d" if _RPI in options and not flags & _DOWN else DATAGRAM
            number, value = int.from_bytes(options[_DPD][1:], "big"), None
            value = [target if kind == "d" else name(packet.source), *content]
        else:
            number, value = unpack_payload(packet.body[8:])
        if kind == "d":
            marks = bool(flags & _WRONG_RANK) | IS_DATAGRAM * is_other
            return kind, [name(packet.source), number, hops, rank, marks, value]
        return kind, [target, number, hops, None if flags & _DOWN else names, value]

    # --- control messages ---------------------------------------------------------------------------------------------

    def _control(self, sender: Hashable, to: Hashable | None, code: int, content: bytes) -> Packet:
        target = ALL_RPL_NODES if to is None else self._stack.local(to)
        return ip.icmp(self._stack.local(sender), target, _ICMP_TYPE, code, content)

    def _dio(self, sender: Hashable, to: Hashable | None, version: int, rank: int) -> Packet | None:
        after = version - (256 - _LINEAR)
        if after >= _CIRCLE:
            return None
        counted = _LINEAR + version if after < 0 else after
        node = self._parts[sender]
        flags = _GROUNDED | _MODES[node.downward] << 3
        content = struct.pack("!BBHBBBx", 0, counted, rank, flags, 0, 0) + self._root
        shortest = round(math.log2(1000 * node.imin))
        configuration = struct.pack(
            "!BBBBHHHxBH",
            0,
            min(node.doublings, 255),
            min(max(shortest, 0), 255),
            min(node.k or 0, 255),
            min(node.max_increase, 0xFFFF),
            node.min_hop_increase,
            _MRHOF,
            _LIFETIME,
            _LIFETIME_UNIT,
        )
        # The on-link flag is not set, because the prefix spans many hops. Flag A is set, because nodes derive their
        # addresses from the prefix.
        prefix = struct.pack("!BBIIxxxx", 64, 0x40, 0xFFFFFFFF, 0xFFFFFFFF) + self._root[:8] + bytes(8)
        return self._control(sender, to, 1, content + _option(_CONFIGURATION, configuration) + _option(_PREFIX, prefix))

    def _read_dio(self, packet: Packet) -> list[int]:
        counted, rank = struct.unpack("!BH", packet.body[5:8])
        return [counted - _LINEAR if counted >= _LINEAR else counted + 256 - _LINEAR, rank]

    def _dao(
        self, sender: Hashable, to: Hashable, target: Hashable, parent: Hashable | None, number: int
    ) -> Packet | None:
        stack = self._stack
        if not (stack.knows(target) and (parent is None or stack.knows(parent)) and 0 <= number < 1 << 40):
            return None
        content = struct.pack("!BBBB", 0, 0, 0, number & 0xFF) + _option(_TARGET, b"\0\x80" + stack.routable(target))
        # Numbers continue after a crash, so they exceed the 8 bits of a path sequence. The opaque descriptor carries
        # the higher bits.
        content += _option(_DESCRIPTOR, struct.pack("!I", number >> 8)) if number >> 8 else b""
        above = b"" if parent is None else stack.routable(parent)
        content += _option(_TRANSIT, struct.pack("!BBBB", 0, 0, number & 0xFF, _LIFETIME) + above)
        if self._mode != "non-storing":
            return self._control(sender, to, 2, content)
        hops = _HOPS if sender == target else max(1, self._limits.get((sender, target), _HOPS) - 1)
        self._limits[to, target] = hops
        packet = ip.icmp(stack.routable(target), self._root, _ICMP_TYPE, 2, content, hops)
        return _with_rank(packet, 0, self._parts[sender].rank)

    def _read_dao(self, packet: Packet) -> list[Any]:
        options = _options(packet.body[8:])
        high = int.from_bytes(options.get(_DESCRIPTOR, b""), "big")
        transit, name = options[_TRANSIT], self._stack.name
        return [name(options[_TARGET][2:]), name(transit[4:]) if transit[4:] else None, high << 8 | transit[2]]

    # --- data ---------------------------------------------------------------------------------------------------------

    def _udp(self, kind: str, source: bytes, target: bytes, hops: int, number: int, value: Any) -> Packet:
        return ip.udp(source, target, self._stack.ports[kind], encode([number, value]), _HOPS - hops)

    def _datagram(
        self, origin: Hashable, target: Hashable, hops: int, number: int, kind: str, payload: Any
    ) -> Packet | None:
        """Return the packet of a datagram, or None if its kind has no port or its payload is invalid for the port."""
        stack, is_own = self._stack, kind != DATAGRAM and kind in self._kinds
        data = None if is_own else stack.encoded(kind, payload)
        if data is None or number < 0 or not (stack.knows(origin) and stack.knows(target)):
            return None
        packet = ip.udp(stack.routable(origin), stack.routable(target), stack.ports[kind], data, _HOPS - hops)
        numbered = _option(_DPD, bytes(1) + number.to_bytes((number.bit_length() + 7) // 8, "big"))
        return packet._replace(headers=((ip.HOP_BY_HOP, numbered),))

    def _data(
        self, kind: str, sender: Hashable, origin: Hashable, number: int, hops: int, rank: int, flags: int, value: Any
    ) -> Packet | None:
        if not (self._stack.knows(origin) and 0 <= rank <= 0xFFFF and flags in range(4) and hops < _HOPS):
            return None
        packet: Packet | None = None
        if not flags & IS_DATAGRAM:
            packet = self._udp(kind, self._stack.routable(origin), self._root, hops, number, value)
        elif type(value) is list and is_datagram(value):
            packet = self._datagram(origin, value[0], hops, number, *value[1:])
        return packet and _with_rank(packet, _WRONG_RANK * (flags & 1), rank)

    def _command(
        self,
        kind: str,
        sender: Hashable,
        to: Hashable,
        target: Hashable,
        number: int,
        hops: int,
        left: list[Hashable] | None,
        value: Any,
    ) -> Packet | None:
        stack = self._stack
        names = [target, to] if left is None else [to, *left]
        if not all(map(stack.knows, names)) or hops >= _HOPS or (left is not None and names[-1] != target):
            return None
        packet: Packet | None
        if kind == DATAGRAM:
            packet = self._datagram(value[0], target, hops, number, *value[1:]) if type(value) is list else None
        else:
            packet = self._udp(kind, self._root, stack.routable(target), hops, number, value)
        if packet is None or left is None:
            return packet and _with_rank(packet, _DOWN, self._parts[sender].rank)
        known, is_first = (packet.source, target, number), stack.routable(sender) == self._root
        if is_first:
            self._routes[known] = [stack.routable(name) for name in names]
            if len(self._routes) > _KEPT_ROUTES:
                del self._routes[next(iter(self._routes))]
            if not left:
                return packet
        # At each hop, the next address of the source route becomes the packet's target, and the previous target takes
        # its place in the header (RFC 6554).
        route = self._routes.get(known, [])
        behind = route[: max(0, len(route) - 1 - len(left))]
        addresses = [*behind, *(stack.routable(name) for name in left)]
        content = b"".join(each[_ELIDED:] for each in addresses)
        pad = -len(content) % 8
        fixed = struct.pack("!BBBBxx", _SOURCE_ROUTE, len(left), _ELIDED << 4 | _ELIDED, pad << 4)
        route_header = ip.ROUTING, fixed + content + bytes(pad)
        return packet._replace(target=stack.routable(to), headers=(*packet.headers, route_header))

    def _addresses_left(self, header: bytes) -> list[bytes]:
        left, pad = header[1], header[3] >> 4
        content = header[6 : len(header) - pad]
        addresses = [self._root[:_ELIDED] + content[place : place + 2] for place in range(0, len(content), 2)]
        return addresses[len(addresses) - left :]


def _option(kind: int, content: bytes) -> bytes:
    return bytes([kind, len(content)]) + content


def _options(content: bytes) -> dict[int, bytes]:
    options, place = {}, 0
    while place < len(content):
        kind, size = content[place : place + 2]
        options[kind] = content[place + 2 : place + 2 + size]
        place += 2 + size
    return options


def _with_rank(packet: Packet, flags: int, rank: int) -> Packet:
    """Return the packet with an RPL option (RFC 6553), which carries ``flags`` and the sender's ``rank``."""
    others = dict(packet.headers).get(ip.HOP_BY_HOP, b"")
    return packet._replace(headers=((ip.HOP_BY_HOP, _option(_RPI, struct.pack("!BBH", flags, 0, rank)) + others),))
