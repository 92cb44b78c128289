"""A pcapng reader for tests, written from the format's draft and RFCs 791 and 768; it checks all lengths."""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RAW_IP = 101


@dataclass
class Packet:
    """A packet: time in the interface's units, original length, and, for raw IP, the IPv4 and UDP headers."""

    time: int
    length: int
    captured: bytes
    comments: list[str]
    ip: dict[str, Any] = field(default_factory=dict)


@dataclass
class Capture:
    """The content of a capture file."""

    comments: list[str] = field(default_factory=list)
    application: str = ""
    interfaces: list[tuple[int, int, dict[int, list[bytes]]]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    packets: list[Packet] = field(default_factory=list)


def read(path: Path) -> Capture:
    """Read a little-endian file that has one section; assert that the file is valid."""
    data, found, place = path.read_bytes(), Capture(), 0
    while place < len(data):
        kind, length = struct.unpack_from("<II", data, place)
        assert length % 4 == 0
        assert length >= 12
        body = data[place + 8 : place + length - 4]
        assert struct.unpack_from("<I", data, place + length - 4) == (length,)
        assert (kind == 0x0A0D0D0A) == (place == 0)
        place += length
        _READERS[kind](found, body)
    assert place == len(data)
    return found


def _section(found: Capture, body: bytes) -> None:
    assert struct.unpack_from("<IHHq", body) == (0x1A2B3C4D, 1, 0, -1)
    options = _options(body[16:])
    found.comments = [text.decode() for text in options.pop(1)]
    [application] = options.pop(4)
    found.application = application.decode()
    assert not options


def _interface(found: Capture, body: bytes) -> None:
    link, reserved, most = struct.unpack_from("<HHI", body)
    assert reserved == 0
    found.interfaces.append((link, most, _options(body[8:])))


def _names(found: Capture, body: bytes) -> None:
    place = 0
    while True:
        kind, length = struct.unpack_from("<HH", body, place)
        value = body[place + 4 : place + 4 + length]
        place += 4 + length + -length % 4
        if not kind:
            break
        assert kind == 1
        name, end = value[4:-1], value[-1]
        assert end == 0
        assert 0 not in name
        assert name
        found.names[_dotted(value[:4])] = name.decode()
    assert place == len(body)


def _packet(found: Capture, body: bytes) -> None:
    interface, high, low, captured, length = struct.unpack_from("<IIIII", body)
    assert interface < len(found.interfaces)
    assert captured <= length
    data = body[20 : 20 + captured]
    options = _options(body[20 + captured + -captured % 4 :])
    comments = [text.decode() for text in options.pop(1)]
    assert not options
    headers = _headers(data) if found.interfaces[interface][0] == RAW_IP else {}
    found.packets.append(Packet((high << 32) + low, length, data, comments, headers))


def _headers(data: bytes) -> dict[str, Any]:
    assert data[0] == 0x45
    assert data[9] == 17
    words = sum(struct.unpack_from(">10H", data))
    while words >> 16:
        words = (words & 0xFFFF) + (words >> 16)
    assert words == 0xFFFF
    source_port, port, length, check = struct.unpack_from(">4H", data, 20)
    assert check == 0
    (total,) = struct.unpack_from(">H", data, 2)
    assert total == 20 + length
    return {
        "from": _dotted(data[12:16]),
        "to": _dotted(data[16:20]),
        "ports": (source_port, port),
        "payload": length - 8,
    }


def _dotted(address: bytes) -> str:
    return ".".join(map(str, address))


def _options(data: bytes) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    place = 0
    while True:
        code, length = struct.unpack_from("<HH", data, place)
        value = data[place + 4 : place + 4 + length]
        assert len(value) == length
        place += 4 + length + -length % 4
        if code == 0:
            assert length == 0
            assert place == len(data)
            return found
        found.setdefault(code, []).append(value)


_READERS = {0x0A0D0D0A: _section, 1: _interface, 4: _names, 6: _packet}
