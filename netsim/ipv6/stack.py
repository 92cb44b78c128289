"""The protocol stack between agents and frames, which converts messages to packets and back.

On the path agent → outbox → link → inbox → agent, the outbox gets frames from the stack. At the receiver, the stack
decodes the payload from the bytes that were on the air.
"""

import ipaddress
import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from netsim.core import Frame
from netsim.core.frame import FrameEncoder
from netsim.errors import BadInput, WireError
from netsim.ipv6 import packet as ip
from netsim.ipv6.packet import Packet
from netsim.links.link import Link
from netsim.util import check
from netsim.wire.codec import encode, is_mutable, unpack_payload

__all__ = ["IPv6Stack", "Packets", "SixLowpan"]

BROADCAST = 0xFFFF
"""The broadcast address, a short MAC address that stands for all nodes."""

_MOST_NODES = 0xFFFD
_HEADER_BITS, _MOST_MTU, _LEAST_MTU = 8 * 17, 116, 64
# UDP ports for the kinds of message that parts of agents declare. The first 15 are compressed to four bits, the others
# to eight.
_PORTS = (*range(0xF0B0, 0xF0BF), *range(0xF000, 0xF0B0))
_ANY_PORT = 0xF0BF
# A first byte from 0x00 to 0x3F marks a frame that is not 6LoWPAN (RFC 4944, 5.1). TinyOS uses 0x3F (TEP 125).
_NOT_LOWPAN = b"\x3f"
_STAMP_BYTES = 4


class Packets(Protocol):
    """Converts a protocol's messages to packets that are not plain UDP between neighbours, such as ICMPv6.

    A part of an agent names the subclass that converts its messages as ``on_ipv6``. Each run creates one object of the
    subclass, with {agent: part} and the stack as arguments.
    """

    is_routing: ClassVar[bool]
    """Whether `read` also gets datagrams of other parts between routable addresses."""
    codes: ClassVar[Mapping[tuple[int, int], str]]
    """{(ICMPv6 type, ICMPv6 code): kind of message}."""

    def __init__(self, parts: Mapping[Any, Any], stack: "IPv6Stack") -> None: ...

    def write(self, kind: str, sender: Hashable, to: Hashable | None, payload: Any) -> Packet | None:
        """Return the packet of a message, or None without one; if ``to`` is None, the message is for all neighbours."""

    def read(self, kind: str, packet: Packet) -> tuple[str, Any]:
        """Return (kind, payload) of a message from a packet made by `write`; ``kind`` is that of the code or port."""


@dataclass(frozen=True)
class SixLowpan:
    """6LoWPAN: frames contain IPv6, UDP and ICMPv6 as in the standards, so that Wireshark can decode them.

    Use it as ``deployment.network(stack=netsim.SixLowpan())``; agents and protocols need no change. See docs/ipv6.md.

    Parameters
    ----------
    ports : mapping
        {kind: UDP port} for kinds of message whose payloads are bytes, for example ``{"coap": 5683}``. A payload is
        then the whole content of a datagram. Each other declared kind gets a port automatically, and its payloads are
        encoded with msgpack.
    prefix : str
        The /64 prefix of routable addresses, which is context 0 of the header compression.

    Raises
    ------
    BadInput
        If a port or the prefix is invalid.
    """

    ports: Mapping[str, int] = field(default_factory=dict)
    prefix: str = "fd00::/64"

    def __post_init__(self) -> None:
        check.instance("ports", self.ports, Mapping, "a mapping {kind: port}")
        given = dict(self.ports)
        for kind, port in given.items():
            if check.integer(f"ports[{kind!r}]", port, low=1, high=0xFFFF) in (*_PORTS, _ANY_PORT):
                raise check.refuse(f"ports[{kind!r}]", port, "outside 61440 to 61631, which other kinds have")
        if len(set(given.values())) < len(given):
            raise check.refuse("ports", given, "different for each kind")
        check.put(self, ports=given)
        try:
            fits = ipaddress.IPv6Network(self.prefix).prefixlen == 64
        except ValueError:
            fits = False
        if not fits:
            raise check.refuse("prefix", self.prefix, "a /64 of IPv6, as fd00::/64")

    @property
    def bytes_of_prefix(self) -> bytes:
        """The 8 bytes of the prefix."""
        return ipaddress.IPv6Network(self.prefix).network_address.packed[:8]

    def must_fit(self, nodes: int, link: Link, links: Mapping[Any, Link]) -> None:
        """Raise BadInput if the network's frames are not those of IEEE 802.15.4, or there are too many nodes."""
        if link.header_bits != _HEADER_BITS or not (link.mtu and _LEAST_MTU <= link.mtu <= _MOST_MTU):
            raise BadInput(
                f"stack: needs frames of IEEE 802.15.4, as netsim.presets.ieee802154() has them (header_bits = "
                f"{_HEADER_BITS}, mtu from {_LEAST_MTU} to {_MOST_MTU}); the link has header_bits = "
                f"{link.header_bits}, mtu = {link.mtu}"
            )
        if not all(each.crc for each in (link, *links.values())):
            raise BadInput("stack: needs crc = True: frames of IEEE 802.15.4 have a checksum")
        if link.reliability_model.numbers:
            way = link.reliability_model.way
            raise BadInput(
                f"reliability = {way!r}: must be left out with a stack; netsim.Radio(acks=True) repeats frames"
            )
        if nodes > _MOST_NODES:
            raise BadInput(f"stack: needs at most {_MOST_NODES:,} nodes, a short address each; there are {nodes:,}")


class Carried:
    """The information needed to decode a frame's bytes: the fragments' sizes, and the MAC addresses."""

    __slots__ = ("mac_source", "mac_target", "sizes", "stack")

    def __init__(self, stack: "IPv6Stack", sizes: tuple[int, ...], mac_source: int, mac_target: int) -> None:
        self.stack, self.sizes, self.mac_source, self.mac_target = stack, sizes, mac_source, mac_target

    def __deepcopy__(self, memo: Any) -> "Carried":
        return self

    def payload(self, data: bytes) -> Any:
        """Decode the payload from a frame's bytes."""
        return self.stack.read(self.parts(data), self.mac_source, self.mac_target)[2]

    def parts(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of each fragment of a frame."""
        end = 0
        for size in self.sizes:
            end += size
            yield data[end - size : end]

    def content(self, data: bytes, index: int, age: float | None, is_stamped: bool) -> bytes:
        """Return a fragment's bytes on the air, which end with the event's age (s) if ``is_stamped`` (TEP 133)."""
        begin = sum(self.sizes[:index])
        content = data[begin : begin + self.sizes[index]]
        return content + struct.pack("!I", 0xFFFFFFFF if age is None else round(age * 1e6)) if is_stamped else content


class IPv6Stack:
    """The protocol stack of one run: addresses of nodes, ports of kinds of message, and packets of protocols.

    Parameters
    ----------
    settings : SixLowpan
        The prefix, and the ports that the user has chosen.
    agents : mapping
        The agents by name, in order; the first has the short MAC address 1.
    kinds : sequence of str
        The kinds of message that all nodes know before the run.
    mtu : int
        The maximum content of a frame in bytes.

    Attributes
    ----------
    ports : dict
        {kind: UDP port}.

    Raises
    ------
    BadInput
        If an agent has a MAC layer, or two protocols define different packets for the same kind.
    """

    def __init__(self, settings: SixLowpan, agents: Mapping[Any, Any], kinds: Sequence[str], mtu: int) -> None:
        self.prefix, self._mtu, self._raw = settings.bytes_of_prefix, mtu, frozenset(settings.ports)
        self._names = list(agents)
        self._shorts = {name: number for number, name in enumerate(self._names, 1)}
        self._encoder = FrameEncoder(kinds)
        self._tags = dict.fromkeys(self._shorts, 0)
        groups: dict[Any, dict[Hashable, Any]] = {}
        owners: dict[str, Any] = {}
        for name, agent in agents.items():
            for part in (agent, *agent._members().values()):
                _check_mac(name, part)
                way = getattr(part, "on_ipv6", None)
                if way is not None:
                    groups.setdefault(way, {})[name] = part
                for kind in getattr(part, "kinds", ()):
                    if owners.setdefault(kind, way) is not way:
                        raise BadInput(f"stack: kind {kind!r} must be of one protocol; two have other packets for it")
        made: dict[Any, Packets] = {way: way(parts, self) for way, parts in groups.items()}
        self._routing = next((each for each in made.values() if each.is_routing), None)
        self._packets: dict[str, Packets] = {kind: made[way] for kind, way in owners.items() if way is not None}
        self._codes = {code: kind for packets in made.values() for code, kind in packets.codes.items()}
        others = {*self._codes.values(), *settings.ports}
        on_udp = [kind for kind in {**dict.fromkeys(kinds), **owners} if kind not in others]
        self.ports: dict[str, int] = {**dict(zip(on_udp, _PORTS, strict=False)), **settings.ports}
        self._kinds = {port: kind for kind, port in self.ports.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the prefix (hexadecimal) and the ports as a dict, to be stored in a trace."""
        return {"prefix": self.prefix.hex(), "ports": self.ports | {"(others)": _ANY_PORT}}

    # --- addresses ----------------------------------------------------------------------------------------------------

    def local(self, name: Hashable) -> bytes:
        """Return the link-local address of a node."""
        return ip.address(ip.LOCAL, self._shorts[name])

    def routable(self, name: Hashable) -> bytes:
        """Return the routable address of a node, which has the network's prefix."""
        return ip.address(self.prefix, self._shorts[name])

    def name(self, address: bytes) -> Any:
        """Return the name of the node with an address; raises WireError if there is no such node."""
        short = int.from_bytes(address[14:], "big")
        if not 0 < short <= len(self._names) or address not in (
            ip.address(ip.LOCAL, short),
            ip.address(self.prefix, short),
        ):
            raise WireError(f"{ipaddress.IPv6Address(address)} is the address of no node")
        return self._names[short - 1]

    def knows(self, name: Hashable) -> bool:
        """Return whether a node with this name exists."""
        return name in self._shorts

    # --- payloads -----------------------------------------------------------------------------------------------------

    def encoded(self, kind: str, payload: Any) -> bytes | None:
        """Return a payload as a datagram's content; None if the kind has no port, or its port only accepts bytes."""
        if kind not in self.ports or (kind in self._raw and type(payload) is not bytes):
            return None
        return payload if kind in self._raw else encode(payload)

    def decoded(self, kind: str, data: bytes) -> Any:
        """Return the payload from bytes made by `encoded`."""
        return data if kind in self._raw else unpack_payload(data)

    # --- frames -------------------------------------------------------------------------------------------------------

    def frame(
        self,
        kind: str,
        sender: Hashable,
        round_number: int,
        now: float,
        payload: Any,
        to: Hashable | None,
        request: int | None = None,
        is_reply: bool = False,
        is_stamped: bool = False,
    ) -> Frame:
        """Return the frame of a message to the neighbour ``to``, or to all neighbours if ``to`` is None.

        Raises
        ------
        WireError
            If the payload cannot be encoded, or is too large.
        """
        mac_source, mac_target = self._shorts[sender], BROADCAST if to is None else self._shorts[to]
        if is_stamped:
            # A stamped frame is not a UDP datagram: the age of its event is known only when the frame leaves, too late
            # for a checksum.
            data = _NOT_LOWPAN + self._encoder.encode(kind, mac_source - 1, round_number, payload, request, is_reply)
            if len(data) > self._mtu - _STAMP_BYTES:
                raise WireError(f"{len(data)} bytes with an event must fit in a frame of {self._mtu}, its age included")
            parts = [data]
        else:
            plain = not round_number and request is None
            packet = self._packet(kind, sender, to, payload) if plain else None
            if packet is None:
                fields = [kind, round_number, payload] + ([] if request is None else [request, is_reply])
                packet = self._datagram(sender, to, _ANY_PORT, encode(fields))
            head, rest = ip.compress(packet, self.prefix, mac_source, mac_target)
            parts = ip.fragments(packet, head, rest, self._mtu, self._tags[sender])
            if len(parts) > 1:
                self._tags[sender] = (self._tags[sender] + 1) % 0x10000
        carried = Carried(self, tuple(map(len, parts)), mac_source, mac_target)
        shared = request is None and not is_mutable(payload)
        return Frame(kind, sender, round_number, now, b"".join(parts), shared, request, is_reply, 0, None, carried)

    def _packet(self, kind: str, sender: Hashable, to: Hashable | None, payload: Any) -> Packet | None:
        """Return the packet of a message if its protocol or its port defines one, else None."""
        if kind in self._packets:
            return self._packets[kind].write(kind, sender, to, payload)
        data = self.encoded(kind, payload)
        return None if data is None else self._datagram(sender, to, self.ports[kind], data)

    def _datagram(self, sender: Hashable, to: Hashable | None, port: int, payload: bytes) -> Packet:
        return ip.udp(self.local(sender), ip.ALL_NODES if to is None else self.local(to), port, payload)

    def read(
        self, parts: Iterator[bytes] | Sequence[bytes], mac_source: int, mac_target: int
    ) -> tuple[str, int, Any, int | None, bool]:
        """Decode a message from its fragments: (kind, round, payload, request, is_reply).

        The fragments were made by `frame`.

        Raises
        ------
        WireError
            If the bytes are not a message.
        """
        parts = list(parts)
        if parts[0][:1] == _NOT_LOWPAN:
            kind, _, *rest = unpack_payload(parts[0][1:])
            return _fields(self._encoder.kinds[kind] if isinstance(kind, int) else kind, *rest)
        packet = ip.reassemble(parts, self.prefix, mac_source, mac_target)
        if packet.protocol == ip.ICMP:
            kind = self._codes.get((packet.body[0], packet.body[1]))
        else:
            port = int.from_bytes(packet.body[2:4], "big")
            if port == _ANY_PORT:
                return _fields(*unpack_payload(packet.body[8:]))
            kind = self._kinds.get(port)
        if kind is None:
            raise WireError("a packet of no kind of message")
        packets = self._packets.get(kind) or (self._routing if packet.source[:8] == self.prefix else None)
        kind, payload = packets.read(kind, packet) if packets else (kind, self.decoded(kind, packet.body[8:]))
        return _fields(kind, 0, payload)


def _fields(
    kind: str, round_number: int, payload: Any, request: int | None = None, is_reply: bool = False
) -> tuple[str, int, Any, int | None, bool]:
    return kind, round_number, payload, request, is_reply


def _check_mac(name: Hashable, part: Any) -> None:
    """Raise BadInput if a part is a MAC layer, or has one, because such a layer's frames do not contain IPv6."""
    for each in (part, getattr(part, "mac", None)):
        if hasattr(each, "post") and hasattr(each, "announce"):
            raise BadInput(
                f"stack: agents[{name!r}]: must have no MAC layer of its own; {type(each).__name__} sends other "
                "frames than IPv6"
            )
