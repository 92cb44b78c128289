"""Compressed IPv6 packets equal those of ns-3's sixlowpan byte for byte, with one exception (docs/ns3.md)."""

from pathlib import Path

import pytest

from benchmarks.ns3.runners import compiled, ns3_version
from benchmarks.ns3.sixlowpan import PACKETS, in_netsim, in_ns3, stored

# ns-3 compresses a single port between 0xF000 and 0xF0FF, but not two of them.
PORTS = {name for name in PACKETS if name.startswith("a 16th kind")}


def test_frames_carry_the_bytes_of_ns3() -> None:
    theirs = stored()
    assert list(theirs) == list(PACKETS)
    assert {name for name in PACKETS if in_netsim(name) != theirs[name]} == PORTS


@pytest.mark.parametrize("name", sorted(PORTS))
def test_ns3_sends_one_byte_more_for_ports_that_begin_alike(name: str) -> None:
    """ns-3 uses NHC 0xF0 with both ports in full; netsim uses 0xF2, which omits the first byte of the source port."""
    assert b"".join(stored()[name]) == b"".join(in_netsim(name)).replace(
        b"\xf2\x00\xf0\x00", b"\xf0\xf0\x00\xf0\x00", 1
    )


@pytest.mark.slow
@pytest.mark.skipif(ns3_version() != "3.37", reason="there is no ns-3 3.37 (libns3-dev), or no compiler")
def test_ns3_still_sends_what_is_stored(tmp_path: Path) -> None:
    assert in_ns3(compiled(tmp_path, "sixlowpan")) == stored()
