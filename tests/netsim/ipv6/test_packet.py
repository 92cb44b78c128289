"""IPv6 packets compressed and fragmented by 6LoWPAN, compared with scapy's bytes."""

import random
import struct
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.ns3.sixlowpan import uncompressed
from netsim import WireError
from netsim.ipv6 import packet as ip
from netsim.ipv6.packet import Packet
from tests.parts import only_with

PREFIX = bytes.fromhex("fd00000000000000")
RPI = bytes.fromhex("630480000300")
SOURCE_ROUTE = bytes.fromhex("0302ee4000000004000500060000")


def any_address(rng: random.Random) -> bytes:
    short, prefix = rng.randrange(1, 5), rng.choice([ip.LOCAL, PREFIX])
    return rng.choice([ip.address(prefix, short), prefix + rng.randbytes(8), rng.randbytes(16)])


def any_packet(rng: random.Random) -> Packet:
    target = rng.choice([ip.ALL_NODES, any_address(rng)])
    payload, hops = rng.randbytes(rng.choice([0, 1, 20, 90, 300, 1000])), rng.choice([1, 2, 63, 64, 255])
    headers = rng.choice([(), ((ip.HOP_BY_HOP, RPI),), ((ip.ROUTING, SOURCE_ROUTE),)])
    headers = rng.choice([headers, ((ip.HOP_BY_HOP, RPI), (ip.ROUTING, SOURCE_ROUTE))])
    if rng.random() < 0.5:
        return ip.icmp(any_address(rng), target, 155, 1, payload, hops)._replace(headers=headers)
    port = rng.choice([5683, 0xF0B0, 0xF0BF, 0xF012])
    return ip.udp(any_address(rng), target, port, payload, hops)._replace(headers=headers)


def sent(packet: Packet, source: int, target: int, mtu: int = 116, tag: int = 7) -> list[bytes]:
    head, rest = ip.compress(packet, PREFIX, source, target)
    return ip.fragments(packet, head, rest, mtu, tag)


def test_what_is_read_is_what_was_written() -> None:
    rng, counts = random.Random(1), set()
    for _ in range(400):
        packet, ends = any_packet(rng), (rng.randrange(1, 5), rng.randrange(1, 5))
        parts = sent(packet, *ends, mtu := rng.choice([72, 102, 116]))
        assert all(len(part) <= mtu for part in parts)
        assert packet.size == len(uncompressed(packet))
        rng.shuffle(parts)
        assert ip.reassemble(parts, PREFIX, *ends) == packet
        counts.add(len(parts))
    assert {1, 2, 3, 10} <= counts


def test_bytes_of_a_datagram_between_neighbours_are_those_of_the_rfc() -> None:
    """First bytes as in figure 1 of RFC 6282, ports as in its 4.3.3, and the checksum of RFC 8200, 8.1."""
    packet = ip.udp(ip.address(ip.LOCAL, 1), ip.address(ip.LOCAL, 2), 0xF0B1, b"hello")
    # 011 dispatch, 11 no flow, 1 next header compressed, 10 hop limit 64; both addresses from the MAC header: 3 and 3.
    # UDP: 11110, checksum in line, both ports in four bits. The checksum by hand: the sum of all words, complemented.
    words = 2 * (0xFE80 + 0x00FF + 0xFE00) + 1 + 2 + 17 + 13 + 2 * 0xF0B1 + 13 + 0x6865 + 0x6C6C + 0x6F00
    checksum = ~(words % 0xFFFF) & 0xFFFF
    assert sent(packet, 1, 2) == [bytes.fromhex("7e33f311") + struct.pack("!H", checksum) + b"hello"]


def test_addresses_take_no_more_than_rfc_6282_lets_them() -> None:
    near, far = ip.address(PREFIX, 2), ip.address(PREFIX, 9)
    for source, mode in ((near, 0x70), (far, 0x60), (PREFIX + b"12345678", 0x50), (b"\x20" * 16, 0x00)):
        head, _ = ip.compress(ip.icmp(source, near, 155, 0, b""), PREFIX, 2, 3)
        # The target, node 2, is not the destination in the MAC header, node 3, so its address is sent.
        assert (head[1], len(head)) == (mode | 6, 3 + {0x70: 0, 0x60: 2, 0x50: 8, 0x00: 16}[mode] + 2)
    head, _ = ip.compress(ip.icmp(near, ip.ALL_NODES, 155, 0, b""), PREFIX, 2, 3)
    assert head.hex() == "7b7b3a01"


def test_fragments_are_those_of_rfc_4944() -> None:
    packet = ip.udp(ip.address(ip.LOCAL, 1), ip.address(ip.LOCAL, 2), 0xF0B0, bytes(range(250)))
    first, *later = sent(packet, 1, 2)
    # The 48 bytes of headers are compressed to 6; the first fragment covers 104 + 48 bytes, a multiple of 8.
    size = 48 + 250
    assert (first[:4], len(first)) == (struct.pack("!HH", 0xC000 | size, 7), 4 + 6 + 104)
    assert [part[:5] for part in later] == [struct.pack("!HHB", 0xE000 | size, 7, at // 8) for at in (152, 256)]
    assert b"".join([first[10:], *(part[5:] for part in later)]) == bytes(range(250))


def test_a_datagram_without_one_of_its_fragments_is_none() -> None:
    packet = ip.udp(ip.address(ip.LOCAL, 1), ip.address(ip.LOCAL, 2), 0xF0B0, bytes(500))
    parts = sent(packet, 1, 2)
    for missing in range(len(parts)):
        with pytest.raises(WireError):
            ip.reassemble(parts[:missing] + parts[missing + 1 :], PREFIX, 1, 2)
    with pytest.raises(WireError, match="of one packet"):
        ip.reassemble([*parts[:-1], sent(packet, 1, 2, tag=8)[-1]], PREFIX, 1, 2)


def test_hostile_bytes_raise_a_wire_error() -> None:
    rng = random.Random(2)
    for _ in range(2000):
        parts = sent(any_packet(rng), 1, 2, 72)
        number = rng.randrange(len(parts))
        data = bytearray(parts[number])
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        parts[number] = bytes(data[: rng.randrange(len(data) + 1)])
        with suppress(WireError):
            assert isinstance(ip.reassemble(parts, PREFIX, 1, 2), Packet)


def test_what_does_not_fit_is_refused() -> None:
    ends = ip.address(ip.LOCAL, 1), ip.address(ip.LOCAL, 2)
    assert sent(ip.udp(*ends, 0xF0B0, bytes(1232)), 1, 2)
    with pytest.raises(WireError, match="a packet of 1,281 bytes: must be of at most 1,280"):
        sent(ip.udp(*ends, 0xF0B0, bytes(1233)), 1, 2)
    long = ip.udp(*ends, 0xF0B0, bytes(100))._replace(headers=((ip.ROUTING, bytes(118)),))
    with pytest.raises(WireError, match="126 bytes of headers do not fit in a frame of 116 bytes"):
        sent(long, 1, 2)


# --- beside scapy -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scapy() -> Iterator[Any]:
    from scapy import config
    from scapy.layers import dot15d4, inet, inet6, sixlowpan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config.conf, "dot15d4_protocol", "sixlowpan")
        yield SimpleNamespace(ip=inet6.IPv6, udp=inet.UDP, inet6=inet6, lowpan=sixlowpan, mac=dot15d4)


@only_with("scapy")
def test_scapy_writes_the_same_datagrams(scapy: Any) -> None:
    for source, target, port, payload in ((1, 2, 0xF0B3, b"abc"), (1, 2, 5683, b"x" * 40), (3, 2, 0xF012, b"")):
        packet = ip.udp(ip.address(ip.LOCAL, 1), ip.address(ip.LOCAL, 2), port, payload)
        ends = {"src": "fe80::ff:fe00:1", "dst": "fe80::ff:fe00:2", "hlim": 64}
        theirs = scapy.ip(**ends) / scapy.udp(sport=port, dport=port) / payload
        assert uncompressed(packet) == bytes(theirs)
        modes = {"tf": 3, "hlim": 2, "nh": 1, "sam": 3 if source == 1 else 2, "dam": 3}
        compressed = scapy.lowpan.LoWPAN_IPHC(**modes) / scapy.lowpan.LoWPAN_NHC() / scapy.ip(bytes(theirs))
        head = {"fcf_panidcompress": 1, "fcf_srcaddrmode": 2, "fcf_destaddrmode": 2, "fcf_frametype": 1}
        mac = scapy.mac.Dot15d4(**head) / scapy.mac.Dot15d4Data(dest_panid=1, dest_addr=target, src_addr=source)
        [ours] = sent(packet, source, target)
        assert bytes(mac / compressed) == bytes(mac) + ours
        # scapy can parse netsim's packet.
        assert bytes(scapy.mac.Dot15d4(bytes(mac) + ours)[scapy.ip]) == uncompressed(packet)


@only_with("scapy")
def test_scapy_has_the_same_rank_in_the_option_of_data_packets(scapy: Any) -> None:
    ends = {"src": "fd00::ff:fe00:3", "dst": "fd00::ff:fe00:1", "hlim": 63}
    option = scapy.inet6.RplOption(Down=1, RplInstanceId=0, SenderRank=768)
    theirs = scapy.ip(**ends) / scapy.inet6.IPv6ExtHdrHopByHop(options=[option]) / scapy.udp(sport=9, dport=9) / b"abc"
    packet = ip.udp(ip.address(PREFIX, 3), ip.address(PREFIX, 1), 9, b"abc", 63)
    assert uncompressed(packet._replace(headers=((ip.HOP_BY_HOP, RPI),))) == bytes(theirs)
