"""Captions, labels, notes and faults of a run (docs/replay.md) do not change its results."""

import asyncio
import contextlib
import enum
import json
import zipfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import Agent, BadInput, Frame, Link, Network, Radio, Run, topology
from netsim.accounting.trace import Trace, TraceFile
from netsim.faults import Crash, Fault, LinkDown, Partition
from netsim.replay.frames import frames_of
from netsim.replay.render import parts
from tests.parts import every, message_of


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Speaker(Agent):
    """Sends messages with labels, notes and captions; with ``quiet`` the same messages without them."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.role, self.term, self.ready, self.seen, self.colour = "follower", 0, False, set[int](), Colour.RED

    def answer(self, frame: Frame) -> int:
        return 7

    async def run(self) -> None:
        for k in range(4):
            await asyncio.sleep(0.05 * (1 + self.rng.random()))
            self.term, self.ready, self.colour = k, k % 2 == 1, Colour.BLUE
            self.seen.add(k)
            self.role = "leader" if k == 2 else "follower"
            label = None if self.quiet else f"t{k}"
            if not self.quiet and k == 2:
                self.note("becomes leader")
            await self.broadcast("beat", np.arange(20.0), label=label)
            await self.send(self.neighbors[0], "vote", k)
            if k == 3:
                with contextlib.suppress(TimeoutError):
                    await self.request(self.neighbors[-1], "ask", timeout=0.5)


def network(faults: list[Fault] | None = None, **options: Any) -> Network:
    graph = nx.complete_graph(4)
    made = Network(graph, Link(latency=0.01, loss=0.1), seed=5, faults=faults or [], **options)
    made.watch(["role", "term"])
    made.watch({"ready": "ready", "seen": "seen", "colour": "colour"})
    return made


def spoken(**settings: Any) -> Run:
    made = network([Partition([0, 1], 0.08, 0.12), Crash(3, at=0.1, until=0.2), LinkDown(0, 2, at=99.0)])
    made.at(0.15, lambda: made.set_link(0, 1, up=False))
    made.at(0.18, lambda: made.set_link(0, 1, up=True))
    made.at(0.19, lambda: made.set_link(1, 2, up=False, one_way=True))
    return made.run({i: Speaker() for i in range(4)}, trace=True, **settings)


@pytest.fixture(scope="module")
def run() -> Run:
    return spoken()


def labels_of(log: Any) -> list[tuple[Any, ...]]:
    """Return the sender, number, kind and label of each frame."""
    columns = frames_of(log).columns
    names = zip(*(columns[name].tolist() for name in ("sender", "number", "kind", "label")), strict=True)
    return sorted((s, n, log.kinds[k], log.texts[label] if label >= 0 else "") for s, n, k, label in names)


# --- states -----------------------------------------------------------------------------------------------------------


def test_states_may_be_words_truth_values_and_sets(run: Run) -> None:
    states = run.states
    assert list(states.columns) == ["time_s", "agent", "sent", "role", "term", "ready", "seen", "colour"]
    assert set(states["role"]) == {"follower", "leader"}
    assert states["term"].dtype == float
    assert states["ready"].dtype == bool
    assert set(states["seen"]) == {"{}", "{0}", "{0, 1}", "{0, 1, 2}", "{0, 1, 2, 3}"}
    assert set(states["colour"]) == {"RED", "BLUE"}
    last = states.groupby("agent").last()
    assert (last["role"] == "follower").all()
    assert last["ready"].all()


class Odd(Agent):
    def __init__(self, values: list[Any]) -> None:
        self.values, self.x = values, values[0]

    async def run(self) -> None:
        for value in self.values:
            self.x = value
            await asyncio.sleep(1.0)


def watched(values: list[Any]) -> list[Any]:
    """Return the successive recorded states of an agent; None where no state was recorded."""
    made = Network(topology.path(2))
    made.watch(["x"])
    states = made.run({0: Odd(values), 1: Odd(values[:1])}).states
    column = states[states["agent"] == 0]["x"]
    return [None if pd.isna(value) else value for value in column]


def test_a_column_that_has_a_word_is_of_words() -> None:
    assert watched([1, 2.5, "none yet", 1, None, np.float64(3)]) == ["1", "2.5", "none yet", "1", None, "3"]
    assert watched([True, None, False]) == [True, None, False]
    assert watched([True, "maybe"]) == ["True", "maybe"]
    assert watched(["x" * 50, "y"]) == ["x" * 39 + "…", "y"]
    assert watched([{3, 1, 2}, frozenset(), (1, "a"), [0.123456]]) == ["{1, 2, 3}", "{}", "(1, a)", "[0.123]"]
    assert watched([np.bool_(True), np.str_("no")]) == ["True", "no"]


def test_too_many_words_are_refused_in_one_line() -> None:
    message = message_of(lambda: watched([f"word {k}" for k in range(1002)]), BadInput)
    assert message == (
        "watch, x: must be a number, or a state with at most 1,000 different words in a run; "
        "the next one is 'word 1000'"
    )


def test_none_ends_all_watching() -> None:
    made = network()
    made.watch(None)
    found = made.run({i: Speaker() for i in range(4)})
    assert message_of(lambda: found.states, BadInput).startswith("watch = None")


# --- labels and notes -------------------------------------------------------------------------------------------------


def test_labels_and_notes_change_nothing(run: Run) -> None:
    made = network([Partition([0, 1], 0.08, 0.12), Crash(3, at=0.1, until=0.2)])
    made.at(0.15, lambda: made.set_link(0, 1, up=False))
    made.at(0.18, lambda: made.set_link(0, 1, up=True))
    made.at(0.19, lambda: made.set_link(1, 2, up=False, one_way=True))
    made.watch(None)
    quiet = made.run({i: Speaker(quiet=True) for i in range(4)})
    assert quiet.trace_hash == run.trace_hash
    assert quiet.ledger.table().equals(run.ledger.table())


def test_each_frame_has_its_label(run: Run) -> None:
    found = labels_of(run.trace)
    assert {kind for _, _, kind, _ in found} == {"beat", "vote", "ask"}
    assert {label for _, _, kind, label in found if kind == "beat"} == {"t0", "t1", "t2", "t3"}
    assert {label for _, _, kind, label in found if kind == "vote"} == {"0", "1", "2", "3"}
    # The reply's label is its payload; the request has no label.
    assert {label for _, _, kind, label in found if kind == "ask"} == {"", "7"}


def test_notes_are_told_with_the_state_that_they_tell_of(run: Run) -> None:
    notes = run.notes
    assert list(notes.columns) == ["time_s", "agent", "sent", "note"]
    assert set(notes["note"]) == {"becomes leader"}
    for row in notes.itertuples():
        mine = run.states[(run.states["agent"] == row.agent) & (run.states["time_s"] <= row.time_s)]
        assert mine["role"].iloc[-1] == "leader"
    assert message_of(lambda: network().run({i: Speaker() for i in range(4)}).notes, BadInput).startswith("trace = ")


@every(
    ("payload", "label"),
    [
        (3, "3"),
        (0.123456, "0.123"),
        (np.float32(2.5), "2.5"),
        ("hello", "hello"),
        (None, ""),
        ([1, 2], "[1, 2]"),
        ({"a": 1}, "{a: 1}"),
        ((True, None), "(True, None)"),
        ("a word of more than 16 letters", ""),
        (list(range(100)), ""),
        (np.zeros(3), ""),
        (b"bytes", ""),
    ],
)
def test_a_small_payload_is_its_own_label(payload: Any, label: str) -> None:
    class Sends(Agent):
        async def run(self) -> None:
            if self.name == 0:
                await self.send(1, "m", payload)

    found = Network(topology.path(2)).run({0: Sends(), 1: Sends()}, trace=True)
    assert labels_of(found.trace) == [(0, 0, "m", label)]


@every(
    ("call", "message"),
    [
        (lambda me: me.note(3), "note = 3: must be printable text of 1 to 200 characters"),
        (lambda me: me.note(" "), "note = ' ': must be printable text of 1 to 200 characters"),
        (lambda me: me.note("x" * 201), "must be printable text of 1 to 200 characters"),
        (lambda me: me.broadcast("m", label=3), "label = 3: must be printable text of at most 40 characters"),
        (lambda me: me.send(1 - me.name, "m", label="a\nb"), r"label = 'a\nb': must be printable text of at most 40"),
    ],
)
@every("trace", [False, True])
def test_what_cannot_be_said_is_refused_in_one_line(call: Any, message: str, trace: bool) -> None:
    class Says(Agent):
        async def run(self) -> None:
            found = call(self)
            if found is not None:
                await found

    text = message_of(lambda: Network(topology.path(2)).run({0: Says(), 1: Says()}, trace=trace), netsim.AgentError)
    assert message in text


def test_on_a_radio_messages_have_labels_too() -> None:
    graph = topology.path(3)
    made = Network(graph, Link(rate=250e3), medium=Radio(), seed=2)
    found = made.run({i: Speaker() for i in graph}, trace=True)
    assert {label for _, _, kind, label in labels_of(found.trace) if kind == "beat"} == {"t0", "t1", "t2", "t3"}


# --- faults -----------------------------------------------------------------------------------------------------------


def test_faults_are_recorded_as_they_happen(run: Run) -> None:
    partition, crash, both, one = run.trace.scene.faults  # type: ignore[union-attr]
    assert (partition["what"], partition["begin"], partition["end"]) == ("Partition", 0.08, 0.12)
    assert partition["sides"] == [[0, 1], [2, 3]]
    assert len(partition["links"]) == 8
    assert (crash["what"], crash["agents"], crash["begin"], crash["end"]) == ("Crash", [3], 0.1, 0.2)
    assert (both["what"], both["links"], both["begin"], both["end"]) == ("SetLink", [[0, 1], [1, 0]], 0.15, 0.18)
    assert (one["what"], one["links"], one["begin"], one["end"]) == ("SetLink", [[1, 2]], 0.19, None)


# --- files, workers ---------------------------------------------------------------------------------------------------


def page_of(log: Any, run: Run) -> Any:
    meta, columns = parts(log, rounds=run.rounds, states=run.states)
    return meta, {name: column.tolist() for name, column in columns.items()}


def test_a_file_keeps_all_of_it(run: Run, tmp_path: Path) -> None:
    run.trace.save(tmp_path / "trace.npz")
    meta, columns = page_of(run.trace, run)
    assert meta["marks"]["texts"] == ["becomes leader"] * len(run.notes)
    assert meta["states"]["values"]["role"]["words"] == ["follower", "leader"]
    assert {-1} < set(columns["label"])
    for log in (Trace.load(tmp_path / "trace.npz"), TraceFile(tmp_path / "trace.npz")):
        assert page_of(log, run) == (meta, columns)


@pytest.mark.parametrize("change", ["texts", "label", "sender", "time", "fault"])
def test_a_file_that_says_what_cannot_be_is_refused(run: Run, tmp_path: Path, change: str) -> None:
    path = tmp_path / "trace.npz"
    run.trace.save(path)
    with np.load(path) as file:
        found = {name: file[name].copy() for name in file.files}
    meta = json.loads(str(found["meta"]))
    if change == "texts":
        meta["texts"] = meta["texts"][:1]
    elif change == "label":
        found["labels"]["text"][3] = -2
    elif change == "sender":
        found["labels"]["sender"][0] = 99
    elif change == "time":
        found["notes"]["time"][0] = np.nan
    else:
        meta["scene"]["faults"][0]["agents"] = [17]
    found["meta"] = np.array(json.dumps(meta))
    np.savez_compressed(path, **found)
    for read in (Trace.load, TraceFile):
        assert "must be a whole trace file" in message_of(lambda read=read: read(path), BadInput)  # type: ignore[misc]


def test_a_trace_without_words_is_as_before(tmp_path: Path) -> None:
    class Plain(Agent):
        async def run(self) -> None:
            await self.broadcast("m", np.zeros(3))

    graph = topology.ring(4)
    Network(graph).run({i: Plain() for i in graph}, trace=True).trace.save(tmp_path / "trace.npz")
    with zipfile.ZipFile(tmp_path / "trace.npz") as archive:
        assert not {"labels.npy", "notes.npy"} & set(archive.namelist())


def test_several_workers_say_the_same_as_one(run: Run) -> None:
    def of(count: int) -> tuple[Any, ...]:
        faults: list[Fault] = [Partition([0, 1], 0.08, 0.12), Crash(3, at=0.1, until=0.2, keeps_state=True)]
        made = network(faults)
        found = made.run({i: Speaker() for i in range(4)}, trace=True, workers=count)
        meta, columns = page_of(found.trace, found)
        said: dict[Hashable, Any] = {name: meta[name] for name in ("labels", "marks", "faults")}
        by_agent = [found.states[found.states["agent"] == name].to_csv() for name in range(4)]
        return found.trace_hash, said, columns["label"], found.notes.to_csv(), by_agent

    assert of(1) == of(2)
