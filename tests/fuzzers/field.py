"""Published field files, intact or cut short, flipped, mixed or renamed, passed to every reader.

A reader must accept a file or refuse it with a `BadInput` of one line. To repeat a seed, call
``check_one(np.random.default_rng(seed))``.
"""

import gzip
import struct
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from netsim import Deployment, links, mobility, topology
from netsim.errors import BadInput
from netsim.files.captures import read_packets
from netsim.files.convert import convert
from netsim.radio import from_rssi
from tests.fuzzers.files import mutated

PUBLISHED = Path(__file__).parents[1] / "netsim" / "files" / "published"

Rng = np.random.Generator


@cache
def contents() -> dict[str, bytes]:
    """Return the content of each published file, and of two captures, by name."""
    found = {path.name: path.read_bytes() for path in sorted(PUBLISHED.iterdir())}
    found["seen.pcap"] = struct.pack("<IHHiIII4I", 0xA1B2C3D4, 2, 4, 0, 0, 40, 1, 1, 2, 4, 60) + b"abcd"
    header = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHII", 1, 20, 1, 0, 40, 20)
    found["seen.pcapng"] = header + interface + struct.pack("<8I4sI", 6, 36, 0, 1, 2, 4, 60, 0, b"abcd", 36)
    return found


DOORS: tuple[Callable[[Path], Any], ...] = (
    topology.read,
    Deployment.read,
    mobility.read,
    links.from_table,
    from_rssi,
    read_packets,
    lambda path: convert(path, path.with_name("out.csv")),
)


def _changed(rng: Rng, data: bytes) -> bytes:
    """Return a file's content after one more random or malicious change."""
    huge = b"9" * int(rng.integers(300, 6000))
    at = int(rng.integers(len(data) + 1))
    ways: list[Callable[[], bytes]] = [
        lambda: mutated(rng, data),
        lambda: mutated(rng, data),
        lambda: data + contents()[str(rng.choice(sorted(contents())))],
        lambda: data[:at] + huge + data[at:],
        lambda: data.replace(b".", b"e"),
        lambda: data.replace(b"0", b"-1e308"),
        lambda: data.replace(b"<", b"<" + b"<a>" * int(rng.integers(1, 200)), 1),
        lambda: b"<!DOCTYPE a [<!ENTITY b 'c'>]>" + data,
        lambda: data.replace(b'"', b""),
    ]
    return ways[int(rng.integers(len(ways)))]()


def check_one(rng: Rng) -> None:
    """Check that every reader accepts a damaged published file, or refuses it with an error of one line."""
    name = str(rng.choice(sorted(contents())))
    data = contents()[name]
    for _ in range(rng.integers(1, 4)):
        data = _changed(rng, data)
    if rng.random() < 0.1:
        data = gzip.compress(data, mtime=0)
    if rng.random() < 0.3:
        name = "a" + Path(str(rng.choice(sorted(contents())))).suffix
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        path = Path(folder, name)
        path.write_bytes(data)
        for door in DOORS:
            try:
                door(path)
            except BadInput as error:
                line = str(error)
                assert "\n" not in line, line
                assert len(line) < 1000, line
