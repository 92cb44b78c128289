"""The happened-before relation in a replay page (clocks, pasts, futures, chains), against agents with vector clocks."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, Link, Network, topology
from netsim.faults import Crash
from netsim.links import latency
from netsim.replay.frames import frames_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="needs node"),
]

Row = dict[str, Any]
DELIVERED, LOST = 0, 1
_COLUMNS = ("start", "end", "sender", "receiver", "cause", "round", "reply", "number")

# The script prints the page's results for all events: {time, agent, clock, past, future, sent, got, over}.
_SCRIPT = """
const { columns, agents, local, pairs } = JSON.parse(require("fs").readFileSync(0));
const types = { start: Float64Array, end: Float64Array, number: Float64Array, cause: Int16Array, reply: Uint8Array };
for (const name of Object.keys(columns)) columns[name] = (types[name] || Int32Array).from(columns[name]);
const known = new Causality(columns, agents, local), events = Array.from(known.time.keys());
const marked = (marks) => events.filter((event) => marks[event]), all = Array.from(known.clocks());
const lists = ["time", "agent", "sent", "got"].map((name) => [name, Array.from(known[name])]);
console.log(JSON.stringify({
  ...Object.fromEntries(lists),
  clocks: events.map((event) => all.slice(event * agents, (event + 1) * agents)),
  clock: events.map((event) => Array.from(known.clock(event))),
  past: events.map((event) => marked(known.past(event))),
  future: events.map((event) => marked(known.future(event))),
  chains: pairs.map(([one, other]) => known.chain(one, other)),
  overtook: Array.from(overtakings(columns, agents)),
}));
"""


def page_says(
    columns: dict[str, Any], agents: int, local: Sequence[Row] = (), pairs: Sequence[tuple[int, int]] = ()
) -> dict[str, Any]:
    """Run the page's causality.js under Node, and return its results."""
    page = files("netsim.replay") / "page"
    program = "\n".join((page / name).read_text(encoding="utf-8") for name in ("events.js", "causality.js")) + _SCRIPT
    asked = {
        "columns": {name: np.asarray(columns[name]).tolist() for name in _COLUMNS},
        "agents": agents,
        "local": list(local),
        "pairs": list(pairs),
    }
    done = subprocess.run(
        ["node", "-e", program], input=json.dumps(asked), capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return the rows as columns, in the order that a page uses."""
    filled = [{"cause": DELIVERED, "round": 0, "reply": 0, "number": 0, **row} for row in rows]
    filled.sort(key=lambda row: (row["start"], row["sender"], row["number"], row["receiver"]))
    return {name: [row[name] for row in filled] for name in _COLUMNS}


def clocks_of(columns: dict[str, Any], agents: int, local: Sequence[Row] = ()) -> dict[tuple[int, float], list[int]]:
    """Return vector clocks by agent and time, computed from a graph of events in which every frame takes some time."""
    rows = list(zip(*(columns[name] for name in ("start", "end", "sender", "receiver", "cause")), strict=True))
    events = {(int(row[2]), float(row[0])) for row in rows} | {(int(each["agent"]), each["time"]) for each in local}
    events |= {(int(row[3]), float(row[1])) for row in rows if row[4] == DELIVERED}
    graph: nx.DiGraph[tuple[int, float]] = nx.DiGraph()
    graph.add_nodes_from(events)
    for agent in range(agents):
        nx.add_path(graph, sorted(event for event in events if event[0] == agent))
    graph.add_edges_from(
        ((int(row[2]), float(row[0])), (int(row[3]), float(row[1]))) for row in rows if row[4] == DELIVERED
    )
    return {
        event: np.bincount([each[0] for each in nx.ancestors(graph, event) | {event}], minlength=agents).tolist()
        for event in events
    }


def by_event(found: dict[str, Any]) -> dict[tuple[int, float], list[int]]:
    return {
        (agent, time): clock for agent, time, clock in zip(found["agent"], found["time"], found["clocks"], strict=True)
    }


@pytest.mark.parametrize("seed", range(4))
def test_vector_clocks_are_those_of_the_graph_of_events(seed: int) -> None:
    """The frames include broadcasts, losses, duplicates, immediate replies, notes, and several at one instant."""
    draw, agents, rows = np.random.default_rng(seed), 5, []
    for number in range(60):
        # Times lie on a grid, so that many events share an instant.
        sender, start = int(draw.integers(agents)), float(draw.integers(40)) / 8
        for receiver in draw.permutation([i for i in range(agents) if i != sender])[: draw.integers(1, 4)].tolist():
            for _ in range(1 + (draw.random() < 0.1)):
                cause = LOST if draw.random() < 0.2 else DELIVERED
                end = start if cause else start + float(draw.integers(1, 12)) / 8
                rows.append({"start": start, "end": end, "sender": sender, "receiver": receiver, "number": number})
                rows[-1]["cause"] = cause
    local = [{"time": float(draw.integers(40)) / 8, "agent": int(draw.integers(agents))} for _ in range(15)]
    local.sort(key=lambda each: each["time"])
    columns = columns_of(rows)
    found, expected = page_says(columns, agents, local), clocks_of(columns, agents, local)
    assert len(found["time"]) == len(expected)
    assert by_event(found) == expected
    assert found["clock"] == found["clocks"]
    # Event a precedes event b exactly if no element of a's clock is larger than that of b's.
    clocks = np.array(found["clocks"])
    for event, clock in enumerate(clocks):
        before = set(np.flatnonzero((clocks <= clock).all(axis=1)).tolist()) - {event}
        assert set(found["past"][event]) == before
        assert all(event in found["future"][each] for each in before)


class Clocked(Agent):
    """Sends its vector clock in each message, and logs the clock after each instant at which it acted."""

    def __init__(self, number: int, agents: int) -> None:
        self.number, self.clock, self.log = number, [0] * agents, dict[float, list[int]]()

    def tick(self, heard: Sequence[int] = ()) -> None:
        self.clock = [max(pair) for pair in zip(self.clock, heard or self.clock, strict=True)]
        if self.now not in self.log:
            self.clock[self.number] += 1
        self.log[self.now] = list(self.clock)

    async def run(self) -> None:
        self.tick()
        await self.broadcast("m", (4, self.clock))
        async for frame in self.inbox:
            left, heard = frame.payload
            self.tick(heard)
            if left:
                await self.send(self.neighbors[left % len(self.neighbors)], "m", (left - 1, list(self.clock)))


@pytest.mark.parametrize("crashes", [False, True])
def test_they_are_what_agents_count_themselves(crashes: bool) -> None:
    """A crashed agent's events after its restart follow its events before the crash."""
    graph = topology.ring(5)
    link = Link(latency=latency.Uniform(0.01, 0.3), loss=0.1, duplicate=0.1)
    faults = [Crash(2, at=0.25, until=0.6, keeps_state=True)] if crashes else []
    agents = {i: Clocked(i, 5) for i in graph}
    run = Network(graph, link, seed=3, faults=faults).run(agents, trace=True)
    columns = frames_of(run.trace).columns
    found = by_event(page_says(columns, 5))
    assert found == {(i, time): clock for i, agent in agents.items() for time, clock in agent.log.items()}
    assert len(found) > 25


def test_chain_has_as_few_frames_as_possible() -> None:
    rows = [
        {"start": 0.0, "end": 1.0, "sender": 0, "receiver": 1},
        {"start": 1.0, "end": 2.0, "sender": 1, "receiver": 2},
        {"start": 0.5, "end": 2.5, "sender": 0, "receiver": 2, "number": 1},
        {"start": 3.0, "end": 3.5, "sender": 2, "receiver": 3},
        {"start": 0.2, "end": 0.2, "sender": 3, "receiver": 0, "cause": LOST},
    ]
    columns = columns_of(rows)
    plain = page_says(columns, 4)
    at = {(agent, time): event for event, (agent, time) in enumerate(zip(plain["agent"], plain["time"], strict=True))}
    pairs = [(at[0, 0.0], at[3, 3.5]), (at[0, 0.0], at[2, 2.0]), (at[3, 0.2], at[0, 0.5]), (at[3, 0.2], at[3, 3.5])]
    far, near, lost, own = page_says(columns, 4, pairs=pairs)["chains"]
    assert [(columns["sender"][row], columns["receiver"][row]) for row in far["rows"]] == [(0, 2), (2, 3)]
    assert [(columns["sender"][row], columns["receiver"][row]) for row in near["rows"]] == [(0, 1), (1, 2)]
    assert near["events"] == [at[0, 0.0], at[1, 1.0], at[2, 2.0]]
    # A lost frame orders no events; two events of the same agent are ordered without frames.
    assert lost is None
    assert own["rows"] == []
    assert own["events"] == [at[3, 0.2], at[3, 3.5]]


def instant(sender: int, receiver: int, number: int = 0, **more: Any) -> Row:
    """Return a frame of zero duration."""
    return {"start": 1.0, "end": 1.0, "sender": sender, "receiver": receiver, "number": number, **more}


def order_of(rows: Sequence[Row], agents: int, local: Sequence[Row] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    columns = columns_of(rows)
    found = page_says(columns, agents, local)
    for event, past in enumerate(found["past"]):
        assert all(earlier < event for earlier in past)
    for sent, got, cause in zip(found["sent"], found["got"], columns["cause"], strict=True):
        assert (got < 0) == bool(cause)
        assert cause or sent in found["past"][got]
    return columns, found


def test_rounds_send_before_they_hear_at_the_same_instant() -> None:
    """All agents send in the same round with zero latency, so no message can have caused another."""
    rows = [instant(i, j, round=3) for i in range(4) for j in range(4) if i != j]
    _, found = order_of(rows, 4)
    assert sorted(found["agent"]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(not found["past"][event] for event in found["sent"])
    assert all(len(found["past"][event]) == 4 for event in found["got"])


def test_a_reply_follows_its_question_at_the_same_instant() -> None:
    rows = [instant(0, 1, round=1), instant(1, 0, 7, round=1, reply=1)]
    _, found = order_of(rows, 2)
    asked, answered = found["sent"]
    assert found["got"][0] == answered, "hears and answers in one event"
    assert found["got"][1] != asked
    assert len(found["time"]) == 3
    # Both agents ask and both answer: neither request precedes the other one.
    rows += [instant(1, 0, round=1), instant(0, 1, 7, round=1, reply=1)]
    columns, found = order_of(rows, 2)
    sent = {
        (sender, reply): event
        for sender, reply, event in zip(columns["sender"], columns["reply"], found["sent"], strict=True)
    }
    assert not found["past"][sent[0, 0]]
    assert not found["past"][sent[1, 0]]
    assert found["past"][sent[0, 1]] == sorted([sent[0, 0], sent[1, 0]])


def test_a_token_runs_along_a_chain_at_one_instant() -> None:
    _, found = order_of([instant(i, i + 1) for i in (3, 1, 0, 2)], 5)
    assert found["agent"] == [0, 1, 2, 3, 4]
    assert [len(past) for past in found["past"]] == [0, 1, 2, 3, 4]
    # In a cycle of zero-latency frames some agent must be first: here the sender of the first frame.
    _, found = order_of([instant(i, (i + 1) % 3) for i in range(3)], 3)
    assert found["agent"] == [0, 1, 2, 0]


def test_whoever_just_heard_begins_an_instant() -> None:
    """Of four agents that send around a ring at one instant, agent 2, which just received a frame, is the first."""
    rows = [instant(i, (i + 1) % 4) for i in range(4)]
    rows.append({"start": 0.0, "end": 1.0, "sender": 0, "receiver": 2, "number": 9})
    _, found = order_of(rows, 4)
    assert found["agent"] == [0, 2, 3, 0, 1, 2]


def test_one_question_after_the_other_at_one_instant() -> None:
    """Of two requests to the same agent, the second follows the first answer; requests to two agents are one event."""
    rows = [instant(0, 1, 0), instant(0, 1, 1), instant(1, 0, 0), instant(1, 0, 1)]
    _, found = order_of(rows, 2)
    assert found["agent"] == [0, 1, 0, 1, 0]
    _, found = order_of([instant(0, 1, 0), instant(0, 2, 1)], 3)
    assert found["agent"] == [0, 1, 2]


def test_a_note_belongs_to_the_event_before_its_next_transmission() -> None:
    """If the agent acts at the note's instant, the note adds no event; otherwise it adds one."""
    rows = [instant(0, 1, 0), instant(1, 0, 0), instant(0, 1, 1)]
    for sent in (0, 1, 5):
        _, found = order_of(rows, 2, [{"time": 1.0, "agent": 0, "sent": sent}])
        assert found["agent"] == [0, 1, 0, 1]
    _, found = order_of(rows, 2, [{"time": 0.5, "agent": 0, "sent": 0}, {"time": 2.0, "agent": 1, "sent": 1}])
    assert found["agent"] == [0, 0, 1, 0, 1, 1]


def test_what_overtakes_is_found_by_link() -> None:
    rows = [
        {"start": 0.0, "end": 3.0, "sender": 0, "receiver": 1, "number": 0},
        {"start": 1.0, "end": 2.0, "sender": 0, "receiver": 1, "number": 1},
        {"start": 1.0, "end": 2.5, "sender": 2, "receiver": 1, "number": 0},
        {"start": 1.5, "end": 1.5, "sender": 0, "receiver": 1, "number": 2, "cause": LOST},
        {"start": 2.0, "end": 2.9, "sender": 0, "receiver": 1, "number": 3},
        {"start": 2.5, "end": 3.5, "sender": 0, "receiver": 1, "number": 4},
        # The duplicate of a message must not be matched before its original.
        {"start": 3.0, "end": 9.0, "sender": 2, "receiver": 1, "number": 1},
        {"start": 3.0, "end": 8.0, "sender": 2, "receiver": 1, "number": 1},
    ]
    columns = columns_of(rows)
    overtook = page_says(columns, 3)["overtook"]
    first = next(i for i, end in enumerate(columns["end"]) if end == 3.0)
    assert {columns["end"][i]: other for i, other in enumerate(overtook) if other >= 0} == {2.0: first, 2.9: first}
