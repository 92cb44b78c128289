"""Compare compressed IPv6 packets with the bytes of ns-3's sixlowpan.

python -m benchmarks.ns3.sixlowpan            the bytes of netsim, beside those of ns-3 that are stored
python -m benchmarks.ns3.sixlowpan --store    store those of the ns-3 that is installed first

docs/ns3.md lists the differences.
"""

import csv
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.ns3.cases import FOLDER
from benchmarks.ns3.runners import compiled
from benchmarks.report import columns, parser
from netsim.ipv6 import packet as ip
from netsim.ipv6.packet import Packet

__all__ = ["PACKETS", "in_netsim", "in_ns3", "stored", "uncompressed"]

_PREFIX, _EVERYONE = bytes.fromhex("fd00000000000000"), 0xFFFF
# The payload limit of a frame; ns-3 assumes MAC headers of 13 bytes, two more than the frames have.
_MTU = 114
_FILE = FOLDER / "sixlowpan.csv"
_RPI = (ip.HOP_BY_HOP, bytes.fromhex("630400000100"))


def _local(short: int) -> bytes:
    return ip.address(ip.LOCAL, short)


def _routable(short: int) -> bytes:
    return ip.address(_PREFIX, short)


def _packets() -> dict[str, tuple[int, int, Packet]]:
    found: dict[str, tuple[int, int, Packet]] = {}
    for size in (0, 20, 108, 109, 300):
        payload, all_routers = bytes(7 * i % 251 for i in range(size)), ip.ALL_NODES[:15] + b"\x1a"
        each = {
            "to a neighbour": (1, 2, ip.udp(_local(1), _local(2), 0xF0B0, payload)),
            "to all": (1, _EVERYONE, ip.udp(_local(1), ip.ALL_NODES, 0xF0B1, payload)),
            "first hop, with RPL's option": (3, 2, ip.udp(_routable(3), _routable(1), 0xF0B0, payload)),
            "next hop, with RPL's option": (2, 1, ip.udp(_routable(3), _routable(1), 0xF0B0, payload, 63)),
            "on its way": (2, 3, ip.udp(_routable(1), _routable(5), 5683, payload, 63)),
            "from outside": (
                1,
                2,
                ip.udp(bytes.fromhex("20010db8" + 23 * "0" + "1"), _routable(2), 0xF0B1, payload, 9),
            ),
            "a 16th kind": (1, 2, ip.udp(_local(1), _local(2), 0xF000, payload)),
            "a DIO": (1, _EVERYONE, ip.icmp(_local(1), all_routers, 155, 1, payload)),
            "a DAO on its way": (2, 1, ip.icmp(_routable(3), _routable(1), 155, 2, payload, 254)),
        }
        for name, (source, target, packet) in each.items():
            headers = (_RPI,) if "option" in name else ()
            found[f"{name}, {size} B"] = (source, target, packet._replace(headers=headers))
    return found


PACKETS = _packets()
"""{name: (source and target of the frame, packet)}."""


def uncompressed(packet: Packet) -> bytes:
    """Return the packet as plain IPv6, without 6LoWPAN (RFC 8200)."""
    chain = [*(kind for kind, _ in packet.headers), packet.protocol]
    body = b""
    for following, (_, content) in zip(chain[1:], packet.headers, strict=True):
        content += b"\0" * (-(2 + len(content)) % 8)
        body += bytes([following, (2 + len(content)) // 8 - 1]) + content
    body += packet.body
    return struct.pack("!IHBB", 6 << 28, len(body), chain[0], packet.hops) + packet.source + packet.target + body


def in_netsim(name: str, tag: int = 0) -> list[bytes]:
    """Return the contents of a packet's frames; fragments have the tag."""
    source, target, packet = PACKETS[name]
    head, rest = ip.compress(packet, _PREFIX, source, target)
    return ip.fragments(packet, head, rest, _MTU, tag)


def in_ns3(program: Path) -> dict[str, list[bytes]]:
    """Return {name: contents of the frames} from ns-3's `sixlowpan.cc`, with the tag of fragments set to 0."""
    lines = [
        f"{source >> 8:02x}:{source & 255:02x} {target >> 8:02x}:{target & 255:02x} {uncompressed(packet).hex()}"
        for source, target, packet in PACKETS.values()
    ]
    command = [str(program), "fd00::"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    found = [[bytes.fromhex(part) for part in line.split()] for line in done.stdout.splitlines()]
    # ns-3 draws the tag at random.
    plain = [[part[:2] + b"\0\0" + part[4:] for part in parts] if len(parts) > 1 else parts for parts in found]
    return dict(zip(PACKETS, plain, strict=True))


def stored() -> Mapping[str, list[bytes]]:
    """Return {name: contents of the frames} of ns-3 3.37."""
    with _FILE.open(newline="", encoding="utf-8") as file:
        return {row["packet"]: [bytes.fromhex(part) for part in row["frames"].split()] for row in csv.DictReader(file)}


def main() -> None:
    """Print the bytes on the air of each packet."""
    command = parser(__doc__)
    command.add_argument("--store", action="store_true", help="run ns-3, and store its bytes in sixlowpan.csv")
    if command.parse_args().store:
        with tempfile.TemporaryDirectory() as folder, _FILE.open("w", newline="", encoding="utf-8") as file:
            rows = in_ns3(compiled(Path(folder), "sixlowpan")).items()
            csv.writer(file, lineterminator="\n").writerows(
                [("packet", "frames"), *((name, " ".join(part.hex() for part in parts)) for name, parts in rows)]
            )
    theirs = stored()
    table = {
        name: {"ns3": [*map(len, theirs[name])], "netsim": [*map(len, ours)], "equal": ours == theirs[name]}
        for name in PACKETS
        for ours in [in_netsim(name)]
    }
    print(columns({name: {key: str(value) for key, value in row.items()} for name, row in table.items()}))


if __name__ == "__main__":
    main()
