"""A run's frames as pcapng and its topology as GraphML and JSON (docs/export.md), read back by other programs."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, Link, NetsimError, Network, Run, export, topology
from netsim.accounting.trace import TraceFile
from netsim.replay.frames import Reader, frames_of
from netsim.replay.render import About
from netsim.studies import traces
from netsim.studies.cli import main
from netsim.testing import Actor, Listener, Rounder, Talker, play, sized
from netsim.util import files
from tests import pcapng
from tests.command import ROOT
from tests.netsim.replay.test_replay import COLUMNS, KINDS, Mixed, network, saved

TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="no tshark: apt-get install tshark")

STRANGE: list[Hashable] = [
    "a\nb",
    "😀",
    "x" * 300,
    3,
    (1, "a"),
    "3.5",
    "\ud800",
    "\x00\x1b",
    " ",
    b"raw",
    "</node>&\"'",
    -0.5,
]


def tshark(path: Path, *words: str) -> list[str]:
    """Return the lines that tshark prints for a capture file."""
    assert TSHARK
    done = subprocess.run([TSHARK, "-r", str(path), *words], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def complaints(path: Path, *words: str) -> list[str]:
    """Return what Wireshark's expert information criticizes in a file, without comments."""
    lines = tshark(path, *words, "-q", "-z", "expert")
    kinds = [line for line in lines if re.match(r"\w+ \(\d+\)$", line)]
    return [line for line in kinds if not line.startswith("Comments ")]


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest) -> Run:
    found, coded = network(request.param)
    # One link is down for a while, and some frames are in flight at the end.
    found.at(0.55, lambda: found.set_link(0, next(iter(found.graph[0])), up=False))
    return found.run({node: Mixed(coded) for node in found.graph}, trace=True, until=1.1501)


@pytest.fixture(scope="module")
def path(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # `export.write_pcapng` also accepts the trace of a Radio; the run itself would be exported as IEEE 802.15.4.
    return export.write_pcapng(run.trace, tmp_path_factory.mktemp("export") / "run.pcapng", about=About("Mine"))


def fate(comment: str) -> str:
    return comment.split()[0]


def address(number: int) -> str:
    number += 1
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def ordered(run: Run) -> dict[str, Any]:
    """Return the columns of a run's frames in order of their departure."""
    columns = frames_of(run.trace).columns
    order = np.lexsort([columns[name] for name in ("receiver", "number", "sender", "start", "depart")])
    return {name: column[order] for name, column in columns.items()}


# --- pcapng -----------------------------------------------------------------------------------------------------------


def test_there_are_as_many_packets_by_cause_as_in_the_ledger(run: Run, path: Path) -> None:
    capture = pcapng.read(path)
    assert len(capture.packets) > 200
    ledger = run.ledger.table(by=[]).iloc[0]
    causes = Counter(fate(comment) for packet in capture.packets for comment in packet.comments)
    expected = {cause: int(ledger[cause]) for cause in (*run.ledger.causes, "in_flight") if ledger[cause]}
    assert causes == expected
    assert len(causes) > 1
    names = list(run.agents)
    numbers = {address(number): name for number, name in enumerate(names)}
    by_link = Counter((numbers[p.ip["from"]], numbers[p.ip["to"]], fate(p.comments[0])) for p in capture.packets)
    table = run.ledger.table(by=["sender", "receiver"]).set_index(["sender", "receiver"])
    assert by_link == {
        (*link, cause): int(row[cause]) for link, row in table.iterrows() for cause in expected if row[cause]
    }
    # The file's comment has the same counts as the run's page.
    ends = ", ".join(f"{count:,} {cause}" for cause, count in frames_of(run.trace).counts.items() if count)
    assert f"{len(capture.packets):,} frames: {ends}." in capture.comments


def test_times_lengths_addresses_and_ports_are_those_of_the_frames(run: Run, path: Path) -> None:
    capture, columns = pcapng.read(path), ordered(run)
    packets = capture.packets
    assert [packet.time for packet in packets] == np.rint(columns["depart"] * 1e9).astype(int).tolist()
    assert sorted(packet.time for packet in packets) == [packet.time for packet in packets]
    carried = [-(-bits // 8) for bits in columns["bits"].tolist()]
    assert [packet.length for packet in packets] == [28 + length for length in carried]
    assert [packet.ip["payload"] for packet in packets] == carried
    assert {len(packet.captured) for packet in packets} == {28}
    assert [packet.ip["from"] for packet in packets] == [address(i) for i in columns["sender"].tolist()]
    assert [packet.ip["to"] for packet in packets] == [address(i) for i in columns["receiver"].tolist()]
    assert [packet.ip["ports"] for packet in packets] == [(49152 + k, 49152 + k) for k in columns["kind"].tolist()]
    assert capture.names == {address(number): str(name) for number, name in enumerate(run.agents)}
    [(link, most, options)] = capture.interfaces
    assert (link, most, options[9]) == (101, 28, [b"\x09"])


def test_the_comment_names_the_fate_of_a_frame(run: Run, path: Path) -> None:
    pattern = re.compile(
        r"(?P<cause>\w+) at (?P<end>\S+) s after (?P<after>\S+) s(?:, left after (?P<waited>\S+) s)?; "
        r"kind (?P<kind>\w+), (?:round (?P<round>\d+)|no round), message (?P<number>\d+), "
        r"(?:(?P<bits>\d+) bits|never left)(?P<reply>, reply)?"
    )
    columns, causes, kinds = ordered(run), frames_of(run.trace).causes, run.trace.kinds
    rows = list(zip(*(columns[name].tolist() for name in COLUMNS), strict=True))
    packets = pcapng.read(path).packets
    assert len(packets) == len(rows)
    for packet, row in zip(packets, rows, strict=True):
        start, depart, end, _, _, kind, cause, turn, bits, reply, number, _ = row
        [comment] = packet.comments
        found = pattern.fullmatch(comment)
        assert found, comment
        assert (found["cause"], found["kind"], bool(found["reply"])) == (causes[cause], kinds[kind], bool(reply))
        assert [int(found[name] or 0) for name in ("round", "number", "bits")] == [turn, number, bits]
        waited = depart - start if bits else 0
        assert [float(found[name] or 0) for name in ("end", "after", "waited")] == pytest.approx(
            [end, end - start, waited], abs=1e-9
        )


@pytest.mark.slow
@needs_tshark
def test_wireshark_reads_it_without_a_complaint(run: Run, path: Path) -> None:
    ledger, packets = run.ledger.table(by=[]).iloc[0], pcapng.read(path).packets
    assert complaints(path) == []
    fields = ("frame.time_epoch", "frame.len", "ip.src", "udp.dstport", "udp.length", "ip.checksum.status")
    rows = [
        line.split("\t") for line in tshark(path, "-o", "ip.check_checksum:TRUE", "-T", "fields", *each("-e", fields))
    ]
    assert rows == [
        [
            f"{packet.time // 10**9}.{packet.time % 10**9:09d}",
            *(str(packet.length), packet.ip["from"], str(packet.ip["ports"][1]), str(packet.ip["payload"] + 8), "1"),
        ]
        for packet in packets
    ]
    # Starting tshark takes half a second, so one call prints all comments, and another one tests a filter.
    causes = [comment.partition(" ")[0] for comment in tshark(path, "-T", "fields", "-e", "frame.comment")]
    for cause in (*run.ledger.causes, "in_flight"):
        assert causes.count(cause) == ledger[cause], cause
    found = tshark(path, "-Y", 'frame.comment matches "^delivered "', "-T", "fields", "-e", "frame.number")
    assert len(found) == ledger["delivered"]


@needs_tshark
def test_the_page_shows_what_tshark_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    of_wires, of_radio, *_ = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(of_wires + of_radio, "export.md", "exec"), namespace)
    namespace["run"].export(tmp_path / "run.pcapng")
    namespace["aired"].export(tmp_path / "air.pcapng")
    shown = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for command, printed in shown:
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == printed


def each(flag: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (flag, value)]


def test_packets_of_a_long_run_are_in_order_however_it_is_cut(run: Run) -> None:
    whole = ordered(run)
    for size in (1, 7, 100, 10**6):
        reader = Reader(run.trace)
        parts = list(reader.parts(size))
        assert reader.shown == len(whole["start"]) == sum(reader.counts.values())
        assert (len(parts) > 1) == (size < 1000)
        for name in COLUMNS:
            assert np.array_equal(np.concatenate([part[name] for part in parts]), whole[name]), name


def test_a_file_is_the_same_from_memory_and_from_a_trace_file(run: Run, path: Path, tmp_path: Path) -> None:
    run.trace.save(tmp_path / "run.npz")
    again = export.write_pcapng(run.trace, tmp_path / "again.pcapng", about=About("Mine"))
    assert again.read_bytes() == path.read_bytes()
    export.write_pcapng(TraceFile(tmp_path / "run.npz"), tmp_path / "file.pcapng")
    assert pcapng.read(tmp_path / "file.pcapng").packets == pcapng.read(path).packets


def test_what_is_thinned_is_noted(run: Run, tmp_path: Path) -> None:
    capture = pcapng.read(export.write_pcapng(run.trace, tmp_path / "thin.pcapng", most=60))
    shown = len(capture.packets)
    assert 0 < shown <= 60
    omitted = [text for text in capture.comments if f" {shown:,} of " in text]
    assert len(omitted) == 1
    assert omitted[0].endswith("all counts are of the whole run.")


@pytest.mark.parametrize("length", [65_000, 65_507, 65_508, 200_000])
def test_frames_longer_than_udp_allows_keep_their_length(length: int, tmp_path: Path) -> None:
    run = play(Talker([(0.0, sized(length))]), Listener(), trace=True)
    [bits] = frames_of(run.trace).columns["bits"].tolist()
    path = run.export(tmp_path / "long.pcapng")
    [packet] = pcapng.read(path).packets
    assert packet.length == 28 + bits // 8
    assert packet.ip["payload"] == min(bits // 8, 65_507)
    assert ("more than UDP's length can say" in packet.comments[0]) == (bits // 8 > 65_507)
    if TSHARK:
        assert complaints(path) == []
        assert tshark(path, "-T", "fields", "-e", "frame.len") == [str(28 + bits // 8)]


def test_strange_names_do_no_harm(tmp_path: Path) -> None:
    graph = nx.relabel_nodes(topology.ring(len(STRANGE)), dict(enumerate(STRANGE)))
    run = Network(graph).run({name: Talker([(0.0, 1)], kind="kind\nof 😀" * 30) for name in graph}, trace=True)
    path = run.export(tmp_path / "strange.pcapng", title="\x00\ud800\n" + "t" * 100_000)
    capture = pcapng.read(path)
    assert len(capture.packets) == 2 * len(STRANGE)
    shown = [
        "a\\nb",
        "😀",
        "x" * 200 + "…",
        "3",
        "(1, 'a')",
        "3.5",
        "\\ud800",
        "\\x00\\x1b",
        "",
        "b'raw'",
        "</node>&\"'",
        "-0.5",
    ]
    assert capture.names == {address(number): name for number, name in enumerate(shown) if name}
    assert capture.comments[0].startswith("\\x00\\ud800\\nttt")
    assert all("kind kind\\nof 😀" in packet.comments[0] for packet in capture.packets)
    if TSHARK:
        assert complaints(path) == []
        hosts = tshark(path, "-N", "n", "-T", "fields", "-e", "ip.src_host", "-e", "ip.src")
        named = {row.split("\t")[1]: row.split("\t")[0] for row in hosts}
        assert named[address(1)] == "😀"
        assert named[address(8)] == address(8)


def test_a_run_without_a_frame(tmp_path: Path) -> None:
    run = play(Actor(), Actor(), trace=True)
    capture = pcapng.read(run.export(tmp_path / "none.pcapng"))
    assert capture.packets == []
    assert "0 frames: none." in capture.comments
    assert len(capture.names) == 2
    if TSHARK:
        assert tshark(tmp_path / "none.pcapng") == []
    graph = nx.read_graphml(run.export(tmp_path / "none.graphml"))
    assert [data["offered"] for _, _, data in graph.edges(data=True)] == [0, 0]


def test_times_of_decades_and_gaps_of_nanoseconds(tmp_path: Path) -> None:
    run = play(Talker([(0.0, 1), (1e-9, 2), (3e-9, 3), (2e9, 4)]), Listener(), trace=True)
    path = run.export(tmp_path / "late.pcapng")
    assert [packet.time for packet in pcapng.read(path).packets] == [0, 1, 3, 2 * 10**18]
    if TSHARK:
        assert tshark(path, "-T", "fields", "-e", "frame.time_epoch")[1:] == [
            *("0.000000001", "0.000000003", "2000000000.000000000")
        ]
    late = play(Talker([(2e10, 1)]), Listener(), trace=True)
    with pytest.raises(
        BadInput, match=r"^trace: must have times from 0 to 2\^64 ns \(584 years\) for pcapng; it has 20000000000\.0 s$"
    ):
        late.export(tmp_path / "later.pcapng")
    assert not (tmp_path / "later.pcapng").exists()


def test_more_agents_than_addresses_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = play(Talker([(0.0, 1)]), Listener(), trace=True)
    monkeypatch.setattr("netsim.export.pcapng.MOST_AGENTS", 1)
    with pytest.raises(BadInput, match=r"^agents = 2: must be at most 1 for pcapng, one address each$"):
        run.export(tmp_path / "many.pcapng")


def test_more_kinds_than_ports_share_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def talk(me: Actor) -> None:
        for kind in ("a", "b", "c", "d"):
            await me.send(1, kind, 0)

    monkeypatch.setattr("netsim.export.pcapng.FIRST_PORT", 65_534)
    capture = pcapng.read(play(Actor(talk), Listener(), trace=True).export(tmp_path / "kinds.pcapng"))
    assert [packet.ip["ports"][1] for packet in capture.packets] == [65_534, 65_535, 65_535, 65_535]
    assert "Kinds of message number 2 and later share port 65535." in capture.comments


# --- the topology -----------------------------------------------------------------------------------------------------


def read_json(path: Path) -> "nx.DiGraph[Any]":
    content = json.loads(path.read_text(encoding="utf-8"))
    return nx.node_link_graph(content, edges="edges")


def test_a_graphs_counts_are_those_of_the_ledger(run: Run) -> None:
    graph = export.graph_of(run.trace)
    assert list(graph) == list(run.agents)
    table = run.ledger.table(by=["sender", "receiver"]).set_index(["sender", "receiver"])
    columns = ["offered", "duplicated", *run.ledger.causes, "in_flight"]
    assert run.trace.scene
    columns += ["wire_bits"] * (run.trace.scene.medium == "wires")
    assert nx.is_weakly_connected(graph)
    assert all(graph.has_edge(receiver, sender) for sender, receiver in graph.edges)
    for sender, receiver, data in graph.edges(data=True):
        row = table.loc[(sender, receiver)] if (sender, receiver) in table.index else dict.fromkeys(columns, 0)
        assert data == {column: int(row[column]) for column in columns}
    assert sum(nx.get_edge_attributes(graph, "offered").values()) == table["offered"].sum() > 200


def test_a_graph_that_was_written_is_read_back_the_same(run: Run, tmp_path: Path) -> None:
    graph = export.graph_of(run.trace)
    from_json = read_json(run.export(tmp_path / "g.json"))
    from_graphml = nx.read_graphml(run.export(tmp_path / "g.graphml"), node_type=int)
    assert from_json.graph == graph.graph
    for each in (from_json, from_graphml):
        assert each.is_directed()
        assert list(each) == list(graph)
        assert list(each.edges(data=True)) == list(graph.edges(data=True))
        assert {name: (data["x"], data["y"]) for name, data in each.nodes(data=True)} == dict(graph.nodes(data="pos"))
    assert {name: tuple(pos) for name, pos in from_json.nodes(data="pos")} == dict(graph.nodes(data="pos"))
    assert from_graphml.graph.items() >= graph.graph.items()


@pytest.mark.parametrize("ending", ["graphml", "json"])
def test_a_network_can_be_made_of_what_was_written(ending: str, tmp_path: Path) -> None:
    graph = topology.random_geometric(9, 0.5, seed=1)
    run = Network(graph, Link(loss=0.1), seed=3).run({i: Rounder(3) for i in graph}, trace=True)
    again = topology.read(run.export(tmp_path / f"g.{ending}"))
    kind = str if ending == "graphml" else int
    assert {frozenset(edge) for edge in again.edges} == {frozenset(map(kind, edge)) for edge in graph.edges}
    assert dict(again.nodes(data="pos")) == {kind(name): tuple(pos) for name, pos in graph.nodes(data="pos")}
    if ending == "json":
        same = Network(again, Link(loss=0.1), seed=3).run({i: Rounder(3) for i in again}, trace=True)
        assert same.trace_hash == run.trace_hash
        assert same.trace.scene == run.trace.scene


def test_strange_names_in_a_graph(tmp_path: Path) -> None:
    graph = nx.relabel_nodes(topology.ring(len(STRANGE)), dict(enumerate(STRANGE)))
    run = Network(graph).run({name: Rounder(1) for name in graph}, trace=True)
    from_json = read_json(run.export(tmp_path / "g.json", title="\x00\ud800"))
    assert list(from_json) == ["b'raw'" if name == b"raw" else name for name in STRANGE]
    assert from_json.graph["title"] == "\x00\ud800"
    from_graphml = nx.read_graphml(run.export(tmp_path / "g.graphml", title="\x00\ud800"))
    escaped = {"\ud800": "\\ud800", "\x00\x1b": "\\x00\\x1b"}
    assert list(from_graphml) == [escaped.get(str(name), str(name)) for name in STRANGE]
    assert from_graphml.graph["title"] == "\\x00\\ud800"
    for each in (from_json, from_graphml):
        assert each.size() == 2 * len(STRANGE)
        # Without positions, the file contains none, rather than meaningless ones.
        assert all(data == {} for _, data in each.nodes(data=True))


def test_names_that_are_one_as_text_are_refused(tmp_path: Path) -> None:
    graph = nx.path_graph([1, "1", 2])
    run = Network(graph).run({name: Rounder(1) for name in graph}, trace=True)
    assert list(read_json(run.export(tmp_path / "g.json"))) == [1, "1", 2]
    with pytest.raises(BadInput, match=r"^agents: must have names that differ in such a file; 2 are '1'$"):
        run.export(tmp_path / "g.graphml")
    run.trace.save(tmp_path / "t.npz")
    with pytest.raises(BadInput, match=r"^agents: must have names that differ as names of nodes; 2 are '1'$"):
        traces.export(tmp_path / "t.npz", "json")
    assert not list(tmp_path.glob("*.graphml"))


# --- files and folders ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "out"
    return saved("coke", out, trace=True, agents=4, rounds=20, features=8, loss=0.2, bits=3)


def test_a_run_folder_is_exported(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert traces.export(copy, "pcapng") == copy / "run.pcapng"
    assert traces.export(copy, "pcapng", algorithm="DKLA") == copy / "run-DKLA.pcapng"
    assert traces.export(copy, "graphml") == copy / "topology.graphml"
    assert traces.export(copy, "json", algorithm="CTA") == copy / "topology-CTA.json"
    assert traces.export(copy / "trace-CTA.npz", "json") == copy / "trace-CTA.json"
    assert traces.export(copy / "trace-CTA.npz", "pcapng", tmp_path / "a.b") == tmp_path / "a.b"
    ledger = pd.read_csv(copy / "ledger.csv")
    for name, file in (("COKE 3-bit", "run.pcapng"), ("DKLA", "run-DKLA.pcapng")):
        mine, capture = ledger[ledger["algorithm"] == name], pcapng.read(copy / file)
        causes = Counter(fate(packet.comments[0]) for packet in capture.packets)
        assert causes == {cause: mine[cause].sum() for cause in ("delivered", "lost")}
        assert capture.comments[0] == f"coke: {name}"
        assert re.fullmatch(r"netsim \d+\.\d+\.\d+\S*", capture.application)
    assert any(
        "the folder also has traces of CTA, DKLA, COKE." in text for text in pcapng.read(copy / "run.pcapng").comments
    )
    graph, mine = read_json(copy / "topology-CTA.json"), ledger[ledger["algorithm"] == "CTA"]
    assert graph.graph["title"] == "coke: CTA"
    assert {(int(a), int(b)): data["lost"] for a, b, data in graph.edges(data=True)} == {
        (row.sender, row.receiver): row.lost for row in mine.itertuples()
    }


def test_what_cannot_be_exported_is_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    def refusal(place: Path, format: str = "pcapng", *rest: Any, **more: Any) -> str:
        with pytest.raises(BadInput) as caught:
            traces.export(place, format, *rest, **more)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert refusal(folder, "pcap") == ("format = 'pcap': must be one of pcapng, graphml, json (did you mean 'pcapng'?)")
    assert refusal(folder, most=0) == "most = 0: must be a whole number >= 1"
    assert refusal(folder, "json", most=5) == "most = 5: must be left out for json, which holds no frames"
    assert "must be one of CTA, DKLA, COKE, COKE 3-bit" in refusal(folder, algorithm="DKLB")
    assert "must be left out for a trace file" in refusal(folder / "trace-CTA.npz", algorithm="CTA")
    assert refusal(tmp_path / "missing").endswith("missing': must be an existing run folder or trace file")
    assert "must be what `netsim run` wrote" in refusal(tmp_path)
    assert "must be a whole trace file" in refusal(folder / "ledger.csv")
    whole = (folder / "trace-CTA.npz").read_bytes()
    cut = tmp_path / "cut.npz"
    for length in range(0, len(whole), len(whole) // 10):
        cut.write_bytes(whole[:length])
        assert "must be a whole trace file; it is not one" in refusal(cut)
    trace = tmp_path / "trace.json"
    trace.write_bytes(whole)
    assert refusal(trace, "json").endswith("must be another file than the trace")
    assert refusal(trace, "pcapng", trace).endswith("must be another file than the trace")
    assert trace.read_bytes() == whole
    assert "must be in a folder that exists" in refusal(trace, "pcapng", tmp_path / "no" / "where.pcapng")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.npz", "trace.json"]


@pytest.mark.parametrize(
    ("records", "field", "value"), [("in_flight", "kind", 99), ("left", "bits", -8), ("left", "key", -1)]
)
def test_events_that_do_not_fit_together_are_refused(records: str, field: str, value: int, tmp_path: Path) -> None:
    link = Link(latency=10.0, rate=1e4)
    run = play(Talker([(0.0, 1), (0.0, 2), (0.5, 3)]), Listener(), link=link, trace=True, until=1.0)
    run.trace.save(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as file:
        parts = dict(file)
    assert len(parts[records])
    parts[records][field] = value
    np.savez(tmp_path / "changed.npz", **parts)
    assert traces.export(tmp_path / "whole.npz", "pcapng").is_file()
    for form in export.FORMATS:
        with pytest.raises(BadInput, match=r"^trace: must be that of a run; its events do not fit together \(.*\)$"):
            traces.export(tmp_path / "changed.npz", form)


def test_a_run_must_have_a_trace_and_a_file_a_known_ending(tmp_path: Path) -> None:
    run = play(Talker([(0.0, 1)]), Listener())
    with pytest.raises(BadInput, match=r"^trace = False: must be True in Network.run for the event log to be kept$"):
        run.export(tmp_path / "run.pcapng")
    for name in ("run.pcap", "run", "pcapng"):
        with pytest.raises(BadInput, match=r"^path = .*: must be a name that ends in \.pcapng, \.graphml, \.json$"):
            play(Talker([(0.0, 1)]), Listener(), trace=True).export(tmp_path / name)


@pytest.mark.parametrize("ending", ["pcapng", "graphml", "json"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_no_half_file(
    error: BaseException, ending: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened = files.write_whole

    @contextmanager
    def write_whole(path: Path) -> Iterator[Any]:
        with opened(path) as file:
            written = 0

            def write(data: bytes) -> None:
                nonlocal written
                file.write(data[: 600 - written])
                written += len(data)
                if written > 600:
                    raise error

            yield SimpleNamespace(write=write)

    monkeypatch.setattr(files, "write_whole", write_whole)
    run = play(Rounder(5), Rounder(5), trace=True)
    for content in (None, "old"):
        if content is not None:
            (tmp_path / f"run.{ending}").write_text(content)
        with pytest.raises((NetsimError, KeyboardInterrupt)) as caught:
            run.export(tmp_path / f"run.{ending}")
        if isinstance(error, OSError):
            assert str(caught.value).endswith(f"run.{ending}': could not be written (No space left on device)")
        assert [path.name for path in tmp_path.iterdir()] == ([] if content is None else [f"run.{ending}"])
    assert (tmp_path / f"run.{ending}").read_text() == "old"


def test_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def command(*words: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["netsim", "export", *words])
        try:
            main()
        except SystemExit as ended:
            return ended.code, capsys.readouterr().err
        return 0, capsys.readouterr().out

    out = tmp_path / "run.pcapng"
    others = "of the last algorithm; --algorithm shows another: CTA, DKLA, COKE\n"
    assert command(str(folder), "--format", "pcapng", "--out", str(out)) == (0, f"{out}\n{others}")
    whole = len(pcapng.read(out).packets)
    words = ("--format", "pcapng", "--out", str(out), "--most", "10")
    assert command(str(folder / "trace-CTA.npz"), *words) == (0, f"{out}\n")
    assert len(pcapng.read(out).packets) <= 10 < whole
    words = ("--format", "graphml", "--algorithm", "CTA", "--out", str(tmp_path / "g"))
    assert command(str(folder), *words) == (0, f"{tmp_path / 'g'}\n")
    assert nx.read_graphml(tmp_path / "g").graph["title"] == "coke: CTA"
    assert command(str(folder)) == (2, "netsim: Missing option '--format'.\n")
    status, output = command(str(folder), "--format", "svg")
    assert (status, output) == (2, "netsim: format = 'svg': must be one of pcapng, graphml, json\n")
    status, output = command(str(tmp_path), "--format", "json")
    assert (status, output.count("\n")) == (2, 1)
