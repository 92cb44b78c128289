"""The frames of a run as columns, and its replay page as one file (docs/replay.md); no page is rendered here."""

import asyncio
import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from netsim import Agent, BadInput, Link, NetsimError, Network, Radio, Run, latency, topology
from netsim.accounting import Trace
from netsim.accounting.trace import TraceFile
from netsim.coders import Uniform
from netsim.replay import render
from netsim.replay.frames import Reader, frames_of
from netsim.studies import find_study, verify
from netsim.studies.cli import main
from netsim.studies.formats import Formats
from netsim.studies.sums import write_sums
from netsim.studies.traces import replay
from netsim.testing import Listener, Talker, play
from netsim.util import files
from netsim.util.files import write_whole
from tests.command import ROOT

COLUMNS = ["start", "depart", "end", "sender", "receiver", "kind", "cause", "round", "bits", "reply", "number", "label"]


class Mixed(Agent):
    """Broadcasts a vector each round; sometimes sends a frame or a request to one neighbour."""

    def __init__(self, coded: bool = False) -> None:
        self.coded = coded

    def answer(self, frame: Any) -> Any:
        return [frame.payload, 1.5]

    async def run(self) -> None:
        async for k in self.rounds(12):
            vector = self.rng.normal(size=20)
            await self.broadcast("state", Uniform(3).encode(vector) if self.coded else vector)
            if k % 3 == 0:
                await self.send(self.neighbors[-1], "one", k)
            if k % 5 == 0:
                with suppress(TimeoutError):
                    await self.request(self.neighbors[0], "ask", k, timeout=0.05)
            await self.collect()


def network(name: str) -> tuple[Network, bool]:
    graph = topology.random_geometric(7, 0.6, seed=3)
    links: dict[str, tuple[Link, dict[str, Any]]] = {
        "plain": (Link(latency=latency.uniform(0.01, 0.15)), {}),
        "lossy": (Link(latency=latency.uniform(0.01, 0.15), loss=0.2), {}),
        "queued": (Link(latency=0.01, rate=2e4, queue=2, mtu=50, header_bits=8, duplicate=0.3, loss=0.1), {}),
        "budget": (Link(budget=1500, rate=1e5, corrupt=0.1), {}),
        "collisions": (Link(rate=1e5), {"medium": Radio(access="aloha")}),
        "radio": (Link(rate=5e4, queue=3), {"medium": "radio"}),
        "acks": (Link(rate=250e3, mtu=100), {"medium": Radio(acks=True)}),
        "quantized": (Link(loss=0.1, latency=0.02), {}),
        "reliable": (Link(loss=0.2, latency=0.005, reliability="ack"), {}),
    }
    link, more = links[name]
    return Network(graph, link, round_period=0.1, seed=4, **more), name == "quantized"


KINDS = ["lossy", "queued", "collisions", "radio", "acks", "quantized", "reliable"]


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest) -> Run:
    found, coded = network(request.param)
    found.at(0.55, lambda: found.set_link(0, next(iter(found.graph[0])), up=False))
    # Some frames are in flight at the end.
    found.watch({"k": lambda a: 1})
    return found.run({node: Mixed(coded) for node in found.graph}, trace=True, until=1.1501)


@pytest.fixture(scope="module")
def frames(run: Run) -> Reader:
    return frames_of(run.trace)


def named(run: Run, frames: Reader) -> pd.DataFrame:
    table = pd.DataFrame(frames.columns)
    names, kinds = list(run.agents), run.trace.kinds
    for column in ("sender", "receiver"):
        table[column] = [names[i] for i in table[column]]
    table["kind"] = [kinds[i] for i in table["kind"]]
    table["cause"] = [frames.causes[i] for i in table["cause"]]
    return table


def test_counts_by_cause_are_those_of_the_ledger(run: Run, frames: Reader) -> None:
    ledger = run.ledger.table(by=[]).iloc[0]
    assert frames.counts == {cause: int(ledger[cause]) for cause in (*run.ledger.causes, "in_flight")}
    drawn = Counter(frames.causes[i] for i in frames.columns["cause"])
    assert drawn == {cause: count for cause, count in frames.counts.items() if count}
    assert frames.omitted == ""
    assert sum(drawn.values()) > 200
    by_link = run.ledger.table(by=["sender", "receiver", "kind"]).set_index(["sender", "receiver", "kind"])
    table = named(run, frames).groupby(["sender", "receiver", "kind", "cause"]).size()
    for (sender, receiver, kind, cause), count in table.items():
        assert by_link.loc[(sender, receiver, kind), cause] == count


def test_columns_are_the_events_of_the_trace(run: Run, frames: Reader) -> None:
    assert list(frames.columns) == COLUMNS
    events, table = run.trace.table(), named(run, frames)
    sent, ends = events[events["event"] == "sent"], events[events["event"] != "sent"]
    starts = {(row.sender, row.message): row.time_s for row in sent.itertuples()}
    assert all(starts[row.sender, row.number] == row.start for row in table.itertuples())
    theirs = Counter((r.sender, r.receiver, r.kind, r.event, r.time_s) for r in ends.itertuples())
    ended = table[table["cause"] != "in_flight"]
    # The trace records a loss when the frame is offered; the page draws the loss at the frame's departure.
    left = ended["end"] == ended["depart"]
    mine = Counter((r.sender, r.receiver, r.kind, r.cause, r.end) for r in ended[~left].itertuples())
    assert not mine - theirs
    assert Counter((r[0], r[1], r[2], r[3]) for r in theirs.elements()) == Counter(
        (r.sender, r.receiver, r.kind, r.cause) for r in ended.itertuples()
    )
    under_way = table[table["cause"] == "in_flight"]
    assert (under_way["end"] == run.ended_at).all() or (under_way["depart"] > run.ended_at).any()
    assert (table["start"] <= table["depart"]).all()
    assert (table["depart"] <= table["end"]).all()
    assert table["start"].is_monotonic_increasing


def test_rounds_and_replies(run: Run, frames: Reader) -> None:
    table = named(run, frames)
    assert table["round"].max() == 12
    states = table[(table["kind"] == "state")]
    assert (states["round"] == 1 + np.floor(states["start"] / 0.1 + 1e-6)).all()
    assert set(table[table["reply"] == 1]["kind"]) <= {"ask"}
    if len(table[(table["kind"] == "ask") & (table["cause"] == "delivered") & (table["reply"] == 0)]):
        assert table["reply"].any()


def test_a_trace_file_gives_the_same(run: Run, frames: Reader, tmp_path: Path) -> None:
    run.trace.save(tmp_path / "trace.npz")
    for log in (TraceFile(tmp_path / "trace.npz"), Trace.load(tmp_path / "trace.npz")):
        again = frames_of(log)
        assert again.counts == frames.counts
        assert log.scene == run.trace.scene
        for name in COLUMNS:
            assert np.array_equal(again.columns[name], frames.columns[name]), name


def test_thinned_frames_are_whole_messages(run: Run, frames: Reader) -> None:
    total = len(frames.columns["start"])
    whole = Counter(zip(frames.columns["sender"], frames.columns["number"], strict=True))
    for most in (total - 1, total // 2, 30):
        thin = frames_of(run.trace, most)
        shown = len(thin.columns["start"])
        assert 0 < shown <= most
        assert thin.counts == frames.counts
        assert thin.omitted.startswith(f"{shown:,} of {total:,} frames are shown: ")
        for message, count in Counter(zip(thin.columns["sender"], thin.columns["number"], strict=True)).items():
            assert whole[message] == count
        again = frames_of(run.trace, most)
        assert all(np.array_equal(thin.columns[name], again.columns[name]) for name in COLUMNS)


def test_what_did_not_arrive_is_kept_where_there_is_room() -> None:
    graph = topology.complete(6)
    link = Link(loss=0.01, latency=0.01)
    run = Network(graph, link, round_period=0.1, seed=2).run({i: Mixed() for i in topology.complete(6)}, trace=True)
    counts = frames_of(run.trace).counts
    thin = frames_of(run.trace, 250)
    lost = (thin.columns["cause"] == thin.causes.index("lost")).sum()
    assert 0 < counts["lost"] == lost
    assert "all of messages of which some frame did not arrive, and of the others " in thin.omitted


def test_in_a_queue_and_on_the_air() -> None:
    # Five frames of 1000 bytes, offered at t = 0 on a link of 8 kbit/s, arrive at 1, 2, …, 5 s.
    run = play(Talker([(0.0, b"x" * 992)] * 5), Listener(), link=Link(rate=8e3), trace=True)
    columns = frames_of(run.trace).columns
    bits = columns["bits"][0]
    assert columns["start"].tolist() == [0.0] * 5
    assert columns["depart"] == pytest.approx(np.arange(5) * bits / 8e3)
    assert columns["end"] == pytest.approx(np.arange(1, 6) * bits / 8e3)
    assert columns["bits"].sum() == run.ledger.wire_bits


def test_wire_bits_add_up_on_wires() -> None:
    for name in ("plain", "budget", "reliable"):
        found, coded = network(name)
        run = found.run({node: Mixed(coded) for node in found.graph}, trace=True)
        assert frames_of(run.trace).columns["bits"].sum() == run.ledger.wire_bits, name


def test_on_a_shared_medium_a_frame_departs_as_its_first_fragment_does() -> None:
    found, _ = network("acks")
    run = found.run({node: Mixed() for node in found.graph}, trace=True)
    frames = frames_of(run.trace)
    air = run.on_air[(run.on_air["fragment"] == 0) & (run.on_air["kind"] != "(acknowledgement)")]
    first = air.groupby(["sender", "message"])["start_s"].min()
    table = named(run, frames)
    gone = table[table["bits"] > 0]
    assert len(gone) > 100
    assert all(first[row.sender, row.number] == row.depart for row in gone.itertuples())
    assert not any((row.sender, row.number) in first.index for row in table[table["bits"] == 0].itertuples())


def test_a_reply_is_distinguished_from_its_request() -> None:
    class Asker(Agent):
        async def run(self) -> None:
            await self.request(1, "ask", 1)

    class Answerer(Agent):
        def answer(self, frame: Any) -> int:
            return 2

        async def run(self) -> None:
            await asyncio.sleep(1.0)

    columns = frames_of(play(Asker(), Answerer(), trace=True).trace).columns
    assert list(zip(columns["sender"], columns["reply"], strict=True)) == [(0, 0), (1, 1)]


# --- the page ---------------------------------------------------------------------------------------------------------


class Stand:
    """Replaces the page's writer, and records its arguments."""

    def __init__(self) -> None:
        self.given: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.page = "<!doctype html>ø\ud800"

    def html(self, meta: Mapping[str, Any], columns: Mapping[str, Any]) -> str:
        json.dumps(meta, allow_nan=False)
        assert meta["shown"] == len(columns["start"])
        self.given.append((dict(meta), dict(columns)))
        return self.page


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    made = Stand()
    monkeypatch.setattr(render, "html", made.html)
    return made


def test_a_run_writes_its_page(stand: Stand, tmp_path: Path) -> None:
    found, _ = network("lossy")
    found.watch({"k": lambda agent: np.float32(2.0)})
    run = found.run({node: Mixed() for node in found.graph}, trace=True)
    path = run.replay(tmp_path / "page.html", title="Mine")
    assert path.read_bytes() == "<!doctype html>ø\\ud800".encode()
    [(meta, _)] = stand.given
    assert meta["title"] == "Mine"
    assert meta["agents"] == [str(node) for node in found.graph]
    assert meta["positions"] == [list(found.graph.nodes[node]["pos"]) for node in found.graph]
    assert meta["has_positions"] is True
    assert sorted(map(sorted, meta["links"])) == sorted(sorted(edge) for edge in found.graph.edges)
    assert (meta["round_period"], meta["ended_at"]) == (0.1, run.ended_at)
    assert meta["counts"] == frames_of(run.trace).counts
    assert meta["total"] == meta["shown"] == sum(meta["counts"].values())
    assert meta["causes"][0] == "delivered"
    assert meta["curves"]["x"] == run.rounds["time_s"].tolist()
    assert meta["curves"]["columns"]["lost"] == run.rounds["lost"].tolist()
    many = len(found.graph)
    changes = {"times": [0.0] * many, "agents": list(range(many)), "sent": [0] * many, "values": {"k": [2.0] * many}}
    assert meta["states"] == changes | {"thinned": False}
    assert meta["rounds"] == 12


def test_without_positions_a_layout_is_drawn_the_same_each_time(stand: Stand, tmp_path: Path) -> None:
    hostile = ["</script><b>", 'a"b', "\ud800", "é", 3]
    graph = nx.relabel_nodes(topology.ring(5), dict(enumerate(hostile)))
    for _ in range(2):
        run = Network(graph).run({name: Mixed() for name in graph}, trace=True)
        run.trace.save(tmp_path / "t.npz")
        replay(tmp_path / "t.npz")
    (meta, _), (again, _) = stand.given
    assert meta == again
    assert meta["title"] == "t.npz"
    assert meta["agents"] == ["</script><b>", 'a"b', "\\ud800", "é", "3"]
    assert meta["has_positions"] is False
    assert len({tuple(place) for place in meta["positions"]}) == 5
    assert meta["curves"] == {"x": [], "columns": {}}
    assert meta["states"] == render.no_changes()
    assert (tmp_path / "t.html").is_file()


def test_a_run_without_a_trace_is_refused(tmp_path: Path) -> None:
    run = play(Talker([(0.0, 1)]), Listener())
    with pytest.raises(BadInput, match=r"^trace = False: must be True in Network.run for the event log to be kept$"):
        run.replay(tmp_path / "page.html")


@pytest.mark.parametrize("most", [0, -1, 1.5, True, "many"])
def test_most_must_be_a_number(most: Any, tmp_path: Path) -> None:
    run = play(Talker([(0.0, 1)]), Listener(), trace=True)
    with pytest.raises(BadInput, match=r"^most = .*: must be a whole number >= 1$"):
        run.replay(tmp_path / "page.html", most=most)


def half_written(then: Callable[[], None]) -> Any:
    """Return a replacement for `write_whole` that writes half of a file and then calls ``then``."""

    @contextmanager
    def write(path: Path) -> Iterator[Any]:
        with write_whole(path) as file:

            class Half:
                def write(self, data: bytes) -> None:
                    assert len(data) > 50_000
                    file.write(data[: len(data) // 2])
                    file.flush()
                    then()

            yield Half()

    return write


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_no_half_page(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(files, "write_whole", half_written(fail))
    run = play(Talker([(0.0, 1)]), Listener(), trace=True)
    for content in (None, "old"):
        if content is not None:
            (tmp_path / "page.html").write_text(content)
        with pytest.raises((NetsimError, KeyboardInterrupt)) as caught:
            run.replay(tmp_path / "page.html")
        if isinstance(error, OSError):
            assert str(caught.value).endswith("page.html': could not be written (No space left on device)")
        assert [path.name for path in tmp_path.iterdir()] == ([] if content is None else ["page.html"])
    assert (tmp_path / "page.html").read_text() == "old"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_kill_leaves_no_half_page(tmp_path: Path) -> None:
    code = """
import os, signal
from netsim.util import files
from netsim.testing import Listener, Talker, play
from tests.netsim.replay.test_replay import half_written
files.write_whole = half_written(lambda: os.kill(os.getpid(), signal.SIGKILL))
play(Talker([(0.0, 1)]), Listener(), trace=True).replay("page.html")
"""
    here = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | here, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "page.html").exists()


# --- run folders and files --------------------------------------------------------------------------------------------


def saved(study_name: str, out: Path, **parameters: Any) -> Path:
    """Return a run folder without figures, because drawing figures takes the most time."""
    study = find_study(study_name).execute(**parameters)
    study.formats = Formats(figures=())
    return study.save(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "out"
    return saved("coke", out, trace=True, agents=4, rounds=20, features=8, loss=0.2, bits=3)


def test_a_run_folder_gives_its_page(stand: Stand, folder: Path) -> None:
    assert replay(folder) == folder / "replay.html"
    assert replay(folder, algorithm="DKLA") == folder / "replay-DKLA.html"
    ledger, rounds = pd.read_csv(folder / "ledger.csv"), pd.read_csv(folder / "rounds.csv")
    states = pd.read_csv(folder / "states.csv")
    for (meta, _), name in zip(stand.given, ("COKE 3-bit", "DKLA"), strict=True):
        assert meta["title"] == f"coke: {name}"
        mine = ledger[ledger["algorithm"] == name]
        assert meta["counts"] == {cause: int(mine[cause].sum()) for cause in meta["counts"]}
        assert meta["total"] == (mine["offered"] + mine["duplicated"]).sum()
        errors = rounds[rounds["algorithm"] == name]["train_mse"]
        assert meta["curves"]["columns"]["train_mse"] == errors.tolist()
        assert "dual_residual" in meta["curves"]["columns"]
        part = states[states["algorithm"] == name]
        assert list(part.columns) == ["algorithm", "time_s", "agent", "sent", "own_mse"]
        assert meta["states"]["agents"] == part["agent"].tolist()
        assert meta["states"]["values"]["own_mse"] == part["own_mse"].tolist()
        assert set(meta["versions"]) == {"netsim", "core", "python"}
    assert any("the folder also has traces of CTA, DKLA, COKE." in note for note in stand.given[0][0]["notes"])


def test_states_are_there_with_a_trace_only_and_are_verified(folder: Path, tmp_path: Path) -> None:
    plain = saved("coke", tmp_path / "plain", agents=4, rounds=20, features=8, loss=0.2, bits=3)
    assert not (plain / "states.csv").exists()
    for name in ("rounds.csv", "ledger.csv"):
        assert (plain / name).read_bytes() == (folder / name).read_bytes()
    assert verify(folder).state == "identical"


def test_what_is_no_traced_run_is_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    def refusal(place: Path, **more: Any) -> str:
        with pytest.raises(BadInput) as caught:
            replay(place, **more)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert refusal(tmp_path / "missing").endswith("missing': must be an existing run folder or trace file")
    assert "must be what `netsim run` wrote; it has no settings.json" in refusal(tmp_path)
    assert "must be one of CTA, DKLA, COKE, COKE 3-bit" in refusal(folder, algorithm="DKLB")
    assert "must be left out for a trace file" in refusal(folder / "trace-DKLA.npz", algorithm="DKLA")
    plain = saved("averaging", tmp_path / "plain", agents=4)
    assert refusal(plain).endswith("must hold a trace; run it again with --trace")
    cut = shutil.copytree(folder, tmp_path / "cut")
    whole = (cut / "trace-DKLA.npz").read_bytes()
    (cut / "trace-DKLA.npz").write_bytes(whole[:-100])
    assert "trace-DKLA.npz has changed since it was written" in refusal(cut, algorithm="DKLA")
    trace = tmp_path / "t.npz"
    for length in range(0, len(whole), len(whole) // 20):
        trace.write_bytes(whole[:length])
        assert "must be a whole trace file; it is not one" in refusal(trace)
    expected = frames_of(TraceFile(folder / "trace-DKLA.npz")).columns
    refused = 0
    for place in range(0, len(whole), len(whole) // 60):
        trace.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        refused += 1
        with suppress(BadInput):
            # Bytes that no checksum covers, such as dates, may change.
            columns = frames_of(TraceFile(trace)).columns
            refused -= 1
            assert all(np.array_equal(columns[name], expected[name]) for name in COLUMNS), place
    assert refused > 30
    shutil.copy(folder / "ledger.csv", trace)
    assert "must be a whole trace file; it is not one" in refusal(trace)


def test_a_trace_of_an_earlier_version_is_reported(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(folder / "trace-DKLA.npz") as old, zipfile.ZipFile(tmp_path / "old.npz", "w") as new:
        for name in old.namelist():
            if name not in ("details.npy", "left.npy", "in_flight.npy"):
                new.writestr(name, old.read(name))
    assert Trace.load(tmp_path / "old.npz").hash == Trace.load(folder / "trace-DKLA.npz").hash
    with pytest.raises(BadInput, match=r"^trace: must be of this version of netsim; run it again with --trace"):
        replay(tmp_path / "old.npz")


def test_a_ledger_of_another_run_is_refused(stand: Stand, folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    table = pd.read_csv(other / "ledger.csv")
    (other / "ledger.csv").write_text(table.to_csv(index=False).replace("COKE 3-bit", "COKE 3-bix", 1))
    write_sums(other)
    with pytest.raises(BadInput, match="must be of one run; its ledger has"):
        replay(other)


def test_the_command(
    stand: Stand, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def command(*words: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["netsim", "replay", *words])
        try:
            main()
        except SystemExit as ended:
            return ended.code, capsys.readouterr().err
        return 0, capsys.readouterr().out

    page = tmp_path / "page.html"
    others = "of the last algorithm; --algorithm shows another: CTA, DKLA, COKE\n"
    assert command(str(folder), "--out", str(page)) == (0, f"{page}\n{others}")
    assert command(str(folder), "--out", str(page), "--algorithm", "CTA") == (0, f"{page}\n")
    assert command(str(folder / "trace-CTA.npz"), "--out", str(page), "--most", "50") == (0, f"{page}\n")
    assert stand.given[-1][0]["shown"] <= 50 < stand.given[-1][0]["total"]
    assert command(str(folder), "--most", "0") == (2, "netsim: most = 0: must be a whole number >= 1\n")
    status, output = command(str(tmp_path), "--out", str(page))
    assert (status, output.count("\n")) == (2, 1)


def test_curves_of_many_rows_and_many_changes_of_states_are_thinned(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(render, "MOST_ROWS", 5)
    monkeypatch.setattr(render, "MOST_CHANGES", 40)
    found, _ = network("lossy")
    # The state of some agents changes in each round, that of the others only once.
    found.watch({"k": lambda agent: agent.round if agent.name < 3 else min(agent.round, 1)})
    run = found.run({node: Mixed() for node in found.graph}, trace=True)
    run.replay(tmp_path / "page.html")
    [(meta, _)] = stand.given
    assert len(meta["curves"]["x"]) == 5
    assert meta["curves"]["x"][-1] == run.rounds["time_s"].iloc[-1]
    states, agents = run.states, meta["states"]["agents"]
    output = "States show 39 of 54 changes: of agents that changed often some, evenly, and the last."
    assert meta["notes"] == ["Curves show 5 of 12 rows, evenly.", output]
    assert [agents.count(i) for i in range(7)] == [9] * 3 + [3] * 4
    for i in range(7):
        mine = states[states["agent"] == i]["time_s"].tolist()
        shown = [time for agent, time in zip(agents, meta["states"]["times"], strict=True) if agent == i]
        assert [shown[0], shown[-1]] == [mine[0], mine[-1]]
        assert max(mine.index(b) - mine.index(a) for a, b in itertools.pairwise(shown)) <= 2
