"""A Radio's frames as a pcapng capture of IEEE 802.15.4 (docs/export.md), read back by tshark and by hand."""

import asyncio
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import BadInput, Energy, Link, Network, Radio, Run, presets, topology
from netsim.accounting.trace import Trace, TraceFile
from netsim.export import ieee802154, write_ieee802154, write_pcapng
from netsim.export.ieee802154 import PAN, fcs
from netsim.faults import Crash
from netsim.studies import traces
from netsim.testing import Actor, Listener, Talker, sized
from netsim.wire.codec import decode
from tests import pcapng
from tests.netsim.export.test_export import complaints, needs_tshark, tshark
from tests.netsim.replay.test_replay import saved

DATA, ACKNOWLEDGEMENT = 1, 2


class Reporter(netsim.Agent):
    """Sends acknowledged readings, and one broadcast of several fragments."""

    async def run(self) -> None:
        for k in range(20):
            await self.deliver("sink", "reading", [k, 20.5])
        await self.broadcast("hello", sized(300))


@pytest.fixture(scope="module")
def run() -> Run:
    preset = presets.ieee802154()
    graph = nx.Graph([("sink", "hall"), ("sink", "attic")])
    powers = {("hall", "sink"): -71.5, ("attic", "sink"): -80.0, ("sink", "hall"): -71.5, ("sink", "attic"): -80.0}
    network = Network(graph, replace(preset.link, loss=0.3), medium=replace(preset.radio, powers=powers), seed=1)
    return network.run({"sink": Listener(), "hall": Reporter(), "attic": Reporter()}, trace=True)


@pytest.fixture(scope="module")
def path(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run.export(tmp_path_factory.mktemp("air") / "run.pcapng", title="Mine")


def parsed(packet: pcapng.Packet) -> dict[str, Any]:
    """Return a packet's fields: TAP elements, MAC header, content, and whether its check sequence (FCS) is right."""
    version, length = struct.unpack_from("<BxH", packet.captured)
    assert version == 0
    elements, place = {}, 4
    while place < length:
        kind, size = struct.unpack_from("<HH", packet.captured, place)
        elements[kind] = packet.captured[place + 4 : place + 4 + size]
        place += 4 + size + -size % 4
    assert place == length
    frame, found = packet.captured[length:-2], packet.captured[-2:]
    control, number = struct.unpack_from("<HB", frame)
    parts = {"elements": elements, "type": control & 7, "wants_ack": bool(control & 0x20), "number": number}
    parts["whole"] = struct.unpack("<H", found)[0] == remainder(frame)
    if parts["type"] == DATA:
        parts |= dict(zip(("pan", "to", "from"), struct.unpack_from("<HHH", frame, 3), strict=True))
        parts["content"] = frame[9:]
    else:
        assert len(frame) == 3
    return parts


def remainder(frame: bytes) -> int:
    """Return the FCS of IEEE 802.15.4-2020, 7.2.11, computed by its shift register, lowest bit of each byte first."""
    register = 0
    for byte in frame:
        for bit in range(8):
            top = (register ^ byte >> bit) & 1
            register = register >> 1 ^ (0x8408 if top else 0)
    return register


def test_the_check_sequence_is_that_of_the_standard() -> None:
    # The standard's example: an acknowledgement with sequence number 0x6A has the FCS 0010 0111 1001 1110 in order of
    # sending. 0x2189 is the published check value of this CRC.
    bits = "0010011110011110"
    assert fcs(bytes([0x02, 0x00, 0x6A])) == sum(int(bit) << place for place, bit in enumerate(bits))
    assert fcs(b"123456789") == 0x2189
    noise = np.random.default_rng(1).bytes(127)
    assert fcs(noise) == remainder(noise)


@needs_tshark
def test_tshark_reads_802154_and_its_counts_are_those_of_the_run(run: Run, path: Path) -> None:
    # A fragment begins anywhere in a message, so tshark would read some fragments as headers of 6LoWPAN or LwMesh.
    plainly = ("-d", f"wpan.panid=={PAN},data")
    assert complaints(path, *plainly) == []
    columns = ("wpan.frame_type", "wpan.fcs_ok", "wpan.src16", "wpan.dst16", "wpan-tap.rss")
    flags = [word for column in columns for word in ("-e", column)]
    lines = [line.split("\t") for line in tshark(path, *plainly, "-T", "fields", *flags)]
    types = Counter(int(line[0], 0) for line in lines)
    airtime = run.airtime
    assert types == {DATA: airtime["frames"].sum(), ACKNOWLEDGEMENT: airtime["acks"].sum()}
    assert {line[1] for line in lines} == {"1"}
    broadcasts = [line for line in lines if line[3] == "0xffff"]
    assert len(broadcasts) == 2 * 3
    assert {float(line[4]) for line in lines if line[2] == "0x0002" and line[3] == "0x0001"} == {-71.5}
    assert {line[4] for line in broadcasts} == {""}
    # tshark itself determines which frame each acknowledgement belongs to.
    acknowledged = tshark(path, *plainly, "-o", "wpan.802154_ack_tracking:TRUE", "-Y", "wpan.ack_to")
    assert len(acknowledged) == types[ACKNOWLEDGEMENT]


def test_packets_are_the_rows_of_on_air(run: Run, path: Path) -> None:
    capture, rows = pcapng.read(path), run.on_air
    [(link_type, _, _)] = capture.interfaces
    assert link_type == 283
    assert capture.comments[0] == "Mine"
    assert "0x0001 sink, 0x0002 hall, 0x0003 attic" in capture.comments[2]
    addresses, numbers = {"sink": 1, "hall": 2, "attic": 3, None: 0xFFFF}, {}
    assert len(capture.packets) == len(rows)
    bits = 0
    for packet, row in zip(capture.packets, rows.to_dict("records"), strict=True):
        parts = parsed(packet)
        assert packet.time == round(row["start_s"] * 1e9)
        assert struct.unpack("<Q", parts["elements"][5])[0] == packet.time
        assert struct.unpack("<Q", parts["elements"][6])[0] == round(row["end_s"] * 1e9)
        assert parts["whole"]
        [comment] = packet.comments
        assert f"message {row['message']}, fragment {row['fragment']}" in comment
        assert f"{row['bits']} bits" in comment
        bits += row["bits"]
        receiver = None if isinstance(row["receiver"], float) else row["receiver"]
        if row["kind"] == "(acknowledgement)":
            assert parts["type"] == ACKNOWLEDGEMENT
            assert parts["number"] == numbers[receiver][row["message"], row["fragment"]]
            continue
        assert (parts["from"], parts["to"]) == (addresses[row["sender"]], addresses[receiver])
        assert parts["wants_ack"] == (receiver is not None)
        # Repetitions of a frame share its sequence number; each new fragment increments it.
        known = numbers.setdefault(row["sender"], {})
        assert parts["number"] == known.setdefault((row["message"], row["fragment"]), len(known) % 256)
        # The emulated frame also has 6 bytes before the MAC header, so its length equals the exported one.
        assert row["bits"] == 8 * (6 + 9 + len(parts["content"]) + 2)
    assert bits == run.ledger.wire_bits


def test_fragments_in_order_are_the_messages_bytes(run: Run, path: Path) -> None:
    contents: dict[tuple[int, str], bytes] = {}
    for packet, row in zip(pcapng.read(path).packets, run.on_air.to_dict("records"), strict=True):
        if row["kind"] != "(acknowledgement)" and row["retry"] == 0:
            key = row["sender"], row["message"]
            contents[key] = contents.get(key, b"") + parsed(packet)["content"]
    messages = {key: decode(data) for key, data in contents.items()}
    assert messages["hall", 20] == ["hello", 1, 0, sized(300)]
    assert messages["attic", 3] == ["reading", 2, 0, [3, 20.5]]


def test_a_file_is_the_same_from_memory_and_from_a_trace_file(run: Run, path: Path, tmp_path: Path) -> None:
    run.trace.save(tmp_path / "trace.npz")
    for log in (TraceFile(tmp_path / "trace.npz"), Trace.load(tmp_path / "trace.npz")):
        again = write_ieee802154(log, tmp_path / "again.pcapng")
        assert pcapng.read(again).packets == pcapng.read(path).packets


def test_megabytes_of_zeros_can_be_read_again(tmp_path: Path) -> None:
    # These zeros compress to a thousandth of their size, more than any other records of a trace.
    talker = Talker([(1.0 * k, np.zeros(250_000)) for k in range(3)])
    run = Network(topology.path(2), Link(rate=1e9), medium=Radio()).run({0: Listener(), 1: talker}, trace=True)
    run.trace.save(tmp_path / "trace.npz")
    path = write_ieee802154(TraceFile(tmp_path / "trace.npz"), tmp_path / "run.pcapng")
    lengths = [(packet.length, len(packet.captured)) for packet in pcapng.read(path).packets]
    # Wireshark reads at most 262,144 bytes (1 << 18) of a packet.
    assert all(length > 2_000_000 and captured == 1 << 18 for length, captured in lengths)
    assert len(lengths) == 3


def test_a_frame_that_is_cut_short_has_a_wrong_check_sequence(tmp_path: Path) -> None:
    network = Network(topology.path(2), Link(rate=800), medium=Radio(access="aloha"), faults=[Crash(1, at=0.5)])
    run = network.run({0: Listener(), 1: Talker([(0.0, sized(100))])}, until=2, trace=True)
    [packet] = pcapng.read(run.export(tmp_path / "run.pcapng")).packets
    assert not parsed(packet)["whole"]
    assert packet.comments[0].endswith("cut short after 0.5 s")


@pytest.mark.parametrize("battery", [None, 1.0])
def test_a_run_without_a_frame_on_the_air(battery: float | None, tmp_path: Path) -> None:
    energy = None if battery is None else Energy(transmit=1.0, listen=1.0, battery=1e-9)
    says = [] if battery is None else [(1.0, "x")]
    radio = Radio(energy=energy)
    run = Network(topology.path(2), Link(rate=800), medium=radio).run(
        {0: Listener(), 1: Talker(says)}, until=2, trace=True
    )
    assert pcapng.read(run.export(tmp_path / "run.pcapng")).packets == []


def test_only_the_first_frames_if_asked(run: Run, path: Path, tmp_path: Path) -> None:
    some = pcapng.read(run.export(tmp_path / "some.pcapng", most=7))
    assert some.packets == pcapng.read(path).packets[:7]
    assert any("Only the first 7 are here." in comment for comment in some.comments)


def test_outcomes_by_link_can_still_be_written(run: Run, tmp_path: Path) -> None:
    capture = pcapng.read(write_pcapng(run.trace, tmp_path / "udp.pcapng"))
    assert capture.interfaces[0][0] == pcapng.RAW_IP


def test_what_has_no_frames_on_the_air_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wires = Network(topology.path(2)).run({0: Listener(), 1: Talker([(0.0, "x")])}, until=2, trace=True)
    with pytest.raises(BadInput, match="must hold the frames on the air"):
        write_ieee802154(wires.trace, tmp_path / "no.pcapng")
    records = {name: run.trace._records[name] for name in ("sent", "exits", "details", "left", "in_flight")}
    trace = run.trace
    older = Trace(records, trace.agents, trace.kinds, trace._agent_keys, *trace.links, trace.scene)
    with pytest.raises(BadInput, match="which this version writes"):
        write_ieee802154(older, tmp_path / "no.pcapng")
    monkeypatch.setattr(ieee802154, "MOST_AGENTS", 2)
    with pytest.raises(BadInput, match="one short address each"):
        write_ieee802154(trace, tmp_path / "no.pcapng")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("sender", 3), ("sender", -1), ("link", 99), ("link", -2), ("kind", 9), ("size", -1), ("size", 10**6)],
)
def test_records_that_do_not_fit_together_are_refused(run: Run, field: str, value: int, tmp_path: Path) -> None:
    trace = run.trace
    records = {name: records.copy() for name, records in trace._records.items()}
    records["on_air"][field][0] = value
    changed = Trace(records, trace.agents, trace.kinds, trace._agent_keys, *trace.links, trace.scene)
    with pytest.raises(BadInput, match="must be of one run"):
        write_ieee802154(changed, tmp_path / "no.pcapng")


def test_the_export_of_a_run_folder_picks_by_the_medium(tmp_path: Path) -> None:
    folder = saved("aloha", tmp_path / "out", trace=True, agents=3, duration=0.2)
    capture = pcapng.read(traces.export(folder, "pcapng"))
    assert capture.interfaces[0][0] == 283
    assert capture.packets


def test_the_channel_is_that_on_which_the_frame_was_sent(tmp_path: Path) -> None:
    async def talk(agent: Any) -> None:
        for channel in (0, 26, 11):
            agent.radio.channel = channel
            await agent.broadcast("m", channel)
            await asyncio.sleep(1.0)

    network = Network(topology.path(2), Link(rate=250e3), medium=Radio())
    run = network.run({0: Actor(talk), 1: Listener()}, until=5, trace=True)
    packets = pcapng.read(run.export(tmp_path / "run.pcapng")).packets
    found = [parsed(packet)["elements"].get(3) for packet in packets]
    assert found == [None, struct.pack("<HB", 26, 0), struct.pack("<HB", 11, 0)]
