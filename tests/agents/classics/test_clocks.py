"""Tests of logical clocks against the happened-before relation, which paths in a graph of the traced events give."""

import itertools
import math
from typing import Any

import networkx as nx
import pytest

from netsim import BadInput, Link, Network, latency, topology
from netsim.agents.classics import Event, LamportClock, Stamped, VectorClock
from netsim.faults import ClockSkew
from netsim.replay.frames import frames_of
from tests.parts import slow

AGENTS = 5
GRAPHS = [topology.ring(AGENTS), topology.complete(AGENTS), topology.star(AGENTS), topology.path(AGENTS)]
SKEWS = [ClockSkew(i, offset=0.2 * i - 0.4, drift=0.05 * i) for i in range(AGENTS)]

Node = tuple[int, float]


def stamped(seed: int, *, loss: float = 0.0, skewed: bool = False, duplicate: float = 0.0) -> Any:
    link = Link(latency=latency.uniform(0.01, 0.4), loss=loss, duplicate=duplicate)
    network = Network(GRAPHS[seed % len(GRAPHS)], link, seed=seed, faults=SKEWS if skewed else ())
    return network.run({i: Stamped(i, AGENTS, until=2.0, pause=0.2) for i in range(AGENTS)}, trace=True)


def events_of(run: Any) -> "nx.DiGraph[Node]":
    """Return a graph of the events (agent, time): edges lead to the agent's next event, and from send to arrival."""
    frames = frames_of(run.trace).columns
    rows = [frames[name].tolist() for name in ("sender", "start", "receiver", "end", "cause")]
    hops = [((row[0], row[1]), (row[2], row[3]), row[4] == 0) for row in zip(*rows, strict=True)]
    events: set[Node] = {(row.agent, row.time_s) for row in run.notes.itertuples()}
    events |= {sent for sent, _, _ in hops} | {arrived for _, arrived, delivered in hops if delivered}
    graph: nx.DiGraph[Node] = nx.DiGraph()
    graph.add_nodes_from(events)
    for agent in range(AGENTS):
        nx.add_path(graph, sorted(event for event in events if event[0] == agent))
    graph.add_edges_from((sent, arrived) for sent, arrived, delivered in hops if delivered)
    return graph


def logged(run: Any, graph: "nx.DiGraph[Node]") -> dict[Node, Event]:
    """Return {event: log line}; the k-th line in an agent's log describes the agent's k-th event in the graph."""
    found: dict[Node, Event] = {}
    for number, agent in run.agents.items():
        own = sorted(node for node in graph if node[0] == number)
        found |= dict(zip(own, agent.log, strict=True))
    return found


@pytest.mark.parametrize("seed", [*range(6), *map(slow, range(6, 24))])
def test_vectors_are_happened_before(seed: int) -> None:
    """V(a) < V(b) if and only if there is a path from a to b, even with losses, duplicates and skewed clocks."""
    run = stamped(seed, loss=0.2 * (seed % 3 == 1), skewed=seed % 2 == 1, duplicate=0.1 * (seed % 3 == 2))
    graph = events_of(run)
    lines = logged(run, graph)
    assert len(lines) > 40
    past = {node: nx.ancestors(graph, node) for node in graph}
    for a, b in itertools.permutations(lines, 2):
        one, other = lines[a], lines[b]
        assert VectorClock.before(one.vector, other.vector) == (a in past[b])
        assert VectorClock.concurrent(one.vector, other.vector) == (a not in past[b] and b not in past[a])
        if a in past[b]:
            assert one.lamport < other.lamport
    for node, line in lines.items():
        # Each element of the vector counts one agent's events up to and including this event.
        known = past[node] | {node}
        assert line.vector == tuple(sum(each[0] == agent for each in known) for agent in range(AGENTS))
        # Lamport's clock is the number of events in the longest chain that ends with this event.
        assert line.lamport == nx.dag_longest_path_length(graph.subgraph(known)) + 1


def test_wall_clocks_are_not() -> None:
    """With skewed wall clocks some effects seem to precede their causes; by Lamport's clock, none does."""
    run = stamped(3, skewed=True)
    graph = events_of(run)
    lines = logged(run, graph)
    pairs = [(lines[a], lines[b]) for b in graph for a in nx.ancestors(graph, b)]
    assert any(cause.wall > effect.wall for cause, effect in pairs)
    assert all(cause.lamport < effect.lamport for cause, effect in pairs)


def test_an_agent_is_its_words() -> None:
    run = stamped(0)
    log = run.agents[0].log
    assert {line.what.split()[0] for line in log} == {"works", "sends", "hears"}
    assert run.agents[0].doing == log[-1].what.split()[0]
    assert [line.agent for line in log] == [0] * len(log)
    texts = run.notes["note"].tolist()
    assert f"works ({next(line.lamport for line in log if line.what == 'works')})" in texts


def test_clocks_by_hand() -> None:
    a, b = VectorClock(0, 2), VectorClock(1, 2)
    sent, alone = a.tick(), b.tick()
    assert (sent, alone) == ((1, 0), (0, 1))
    assert VectorClock.concurrent(sent, alone)
    heard = b.hear(sent)
    assert heard == (1, 2)
    assert VectorClock.before(sent, heard)
    assert not VectorClock.before(heard, heard)
    assert not VectorClock.concurrent(heard, heard)
    lamport = LamportClock()
    assert [lamport.tick(), lamport.hear(7), lamport.hear(3), lamport.stamp] == [1, 8, 9, 9]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VectorClock(3, 3), "own = 3: must be a whole number from 0 to 2"),
        (lambda: VectorClock(0, 0), "agents = 0: must be a whole number >= 1"),
        (lambda: Stamped(0, 2, until=math.inf), "until = inf: must be finite"),
        (lambda: Stamped(0, 2, pause=0), "pause = 0: must be a number > 0"),
        (lambda: Stamped(0, 2, work=1.5), "work = 1.5: must be a probability"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(BadInput) as error:
        make()
    assert str(error.value).startswith(message)


def test_an_agent_without_neighbours_only_works() -> None:
    agent = Stamped(0, 1)
    Network(topology.path(1)).run({0: agent})
    assert {event.what for event in agent.log} == {"works"}
