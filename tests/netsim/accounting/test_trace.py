"""The event log is complete and in order; its file is written completely or not at all."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, BadInput, Link, Network, Run, latency, topology
from netsim.accounting import Trace
from netsim.testing import Actor
from netsim.util.files import write_whole


class Talker(Agent):
    async def run(self) -> None:
        async for k in self.rounds(4):
            await self.broadcast("all", np.full(3, float(k)))
            await self.send(self.neighbors[0], "one", k, raw_data=True)
            await self.collect()


def traced(**settings: Any) -> Run:
    link = Link(latency=latency.uniform(0.0, 0.12), loss=0.2, duplicate=0.1, corrupt=0.1)
    graph = topology.ring(5)
    return Network(graph, link, round_period=0.1, seed=2).run({i: Talker() for i in graph}, trace=True, **settings)


@pytest.fixture(scope="module")
def run() -> Run:
    return traced()


@pytest.fixture
def saved(run: Run, tmp_path: Path) -> Path:
    run.trace.save(tmp_path / "trace.npz")
    return tmp_path / "trace.npz"


def refusal(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        Trace.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


# --- the table --------------------------------------------------------------------------------------------------------


def test_events_are_in_order_and_complete(run: Run) -> None:
    table = run.trace.table()
    assert list(table.columns) == [
        "time_s",
        "event",
        "message",
        "sender",
        "receiver",
        "kind",
        "payload_bits",
        "wire_bits",
    ]
    assert table["time_s"].is_monotonic_increasing
    counted = run.ledger.table(by=()).iloc[0]
    events = Counter(table["event"])
    assert events.pop("sent") == 5 * 4 * 2
    assert events == {cause: counted[cause] for cause in events}
    assert {"delivered", "lost", "late", "corrupted"} <= events.keys()
    assert sum(events.values()) == counted["offered"] + counted["duplicated"] - counted["in_flight"]
    assert len(run.trace) == len(table)


def test_events_say_who_what_and_how_much(run: Run) -> None:
    table = run.trace.table()
    sent = table[table["event"] == "sent"]
    assert set(sent[sent["kind"] == "all"]["receiver"]) == {None}
    one = sent[sent["kind"] == "one"]
    first_neighbor = {i: next(iter(topology.ring(5)[i])) for i in range(5)}
    assert set(zip(one["sender"], one["receiver"], strict=True)) == set(first_neighbor.items())
    assert set(sent[sent["kind"] == "all"]["payload_bits"]) == {3 * 64}
    totals = dict(zip(("payload_bits", "wire_bits"), sent[["payload_bits", "wire_bits"]].sum(), strict=True))
    assert totals == {name: int(run.ledger.senders_table()[name].sum()) for name in totals}
    ended = table[table["event"] != "sent"]
    assert ended["wire_bits"].isna().all()
    # Every message ends after it was sent, at a node that has a link to its sender.
    assert all(abs(a - b) in (1, 4) for a, b in zip(ended["sender"], ended["receiver"], strict=True))
    assert (ended.groupby("message")["time_s"].min() >= 0).all()


def test_a_message_ends_after_it_was_sent() -> None:
    agents = {i: Actor(lambda me: me.send(me.neighbors[0], "x", 1)) for i in range(2)}
    run = Network(topology.path(2), Link(latency=0.25)).run(agents, until=1.0, trace=True)
    assert run.trace.table()[["time_s", "event", "message", "sender", "receiver"]].values.tolist() == [
        [0.0, "sent", 0, 0, 1],
        [0.0, "sent", 0, 1, 0],
    ]
    assert run.ledger.table(by=())["in_flight"].tolist() == [2]


def test_names_of_agents_may_be_numbers_text_and_tuples() -> None:
    names = [("a", 1), b"bytes", "text", 2.5]
    graph = nx.relabel_nodes(nx.cycle_graph(4), dict(enumerate(names)))
    table = Network(graph).run({name: Talker() for name in graph}, trace=True).trace.table()
    assert set(table["sender"]) == set(names)


def test_a_run_without_messages() -> None:
    trace = Network(topology.path(1)).run({0: Actor()}, trace=True).trace
    assert (len(trace), len(trace.table())) == (0, 0)


def test_a_trace_must_be_asked_for() -> None:
    run = Network(topology.ring(5)).run({i: Talker() for i in range(5)})
    with pytest.raises(BadInput, match=r"^trace = False: must be True in Network.run for the event log to be kept$"):
        _ = run.trace


# --- on disk ----------------------------------------------------------------------------------------------------------


def test_saved_and_loaded_it_is_the_same(run: Run, saved: Path) -> None:
    loaded = Trace.load(saved)
    assert loaded.hash == run.trace.hash == run.trace_hash
    table, expected = loaded.table(), run.trace.table()
    for column in ("sender", "receiver"):
        expected[column] = expected[column].map(lambda name: None if name is None else str(name))
    assert table.astype(object).fillna("").equals(expected.astype(object).fillna(""))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved: Path, share: float) -> None:
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    assert "must be a whole trace file" in refusal(saved)


def test_a_changed_byte_is_never_taken_for_the_trace(run: Run, saved: Path) -> None:
    whole = saved.read_bytes()
    places = np.linspace(0, len(whole) - 1, 150).astype(int)
    accepted = []
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 0x55
        saved.write_bytes(changed)
        with suppress(BadInput):
            accepted.append(Trace.load(saved).hash)
    # A change in bytes that the trace does not use, such as the dates in a zip file, may be accepted.
    assert set(accepted) <= {run.trace_hash}
    assert len(accepted) < len(places) / 5


def test_changed_events_in_a_sound_file_are_refused(saved: Path) -> None:
    with np.load(saved) as file:
        parts = {name: file[name] for name in file.files}
    parts["exits"]["time"][3] += 1e-9
    np.savez(saved, **parts)
    assert "must be unchanged" in refusal(saved)


@pytest.mark.parametrize("content", [b"", b"no trace", b"PK\x03\x04", "npy", "other npz"])
def test_another_file_is_refused(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / "other.npz"
    with path.open("wb") as file:
        if content == "npy":
            np.save(file, np.zeros(3))
        elif content == "other npz":
            np.savez(file, x=np.zeros(3))
        else:
            file.write(content)  # type: ignore[arg-type]
    assert "must be a whole trace file" in refusal(path)


def test_a_missing_file_and_a_folder(tmp_path: Path, run: Run) -> None:
    assert "must be an existing file" in refusal(tmp_path / "missing.npz")
    assert "must be a whole trace file" in refusal(tmp_path)
    with pytest.raises(BadInput, match="must be in a folder that exists"):
        run.trace.save(tmp_path / "missing" / "trace.npz")


# --- files that are written whole -------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, b"what was there"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_all_as_it_was(
    tmp_path: Path, before: bytes | None, error: type[BaseException]
) -> None:
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)

    def write() -> None:
        with write_whole(path) as file:
            file.write(b"half of it")
            file.flush()
            assert (path.read_bytes() if path.exists() else None) == before
            raise error

    with pytest.raises(error):
        write()
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else ["file"])
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_finished_write_replaces_what_was_there(tmp_path: Path) -> None:
    path, ordinary = tmp_path / "file", tmp_path / "ordinary"
    path.write_bytes(b"old")
    ordinary.touch()
    with write_whole(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode == ordinary.stat().st_mode
    assert len(list(tmp_path.iterdir())) == 2
