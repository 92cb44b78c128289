"""Raft keeps the safety properties of its paper (figure 3) under all faults, and makes progress after the faults."""

import asyncio
import runpy
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from netsim import Faults, Link, Network, latency, topology
from netsim.agents.classics import Raft
from netsim.checkers import one_leader_a_term
from netsim.errors import BadInput
from netsim.faults import Partition
from netsim.faults.words import appending, parse
from netsim.testing import Actor, Listener, play, search
from tests.command import ROOT, call
from tests.parts import slow

EXAMPLE = runpy.run_path(str(ROOT / "docs" / "examples" / "raft.py"))
FAULTS_END, END = 3.0, 5.0


class Promises:
    """Checks election safety, log matching, leader completeness and state-machine safety throughout a run."""

    def __init__(self) -> None:
        self.leaders: dict[int, Any] = {}
        # (committed entry, term of the node that committed it first), in order of the log.
        self.committed: list[tuple[Any, int]] = []

    def __call__(self, agents: Mapping[Any, Raft]) -> None:
        nodes = list(agents.items())
        for name, node in nodes:
            self.check_committed(name, node)
        for name, node in nodes:
            if node.role == "leader":
                assert self.leaders.setdefault(node.term, name) == name, f"two leaders in term {node.term}"
                for index, (entry, term) in enumerate(self.committed):
                    if term < node.term:
                        assert node.log[index : index + 1] == [entry], f"leader {name} lacks {entry}"
        for place, (name, node) in enumerate(nodes):
            for other, its in nodes[:place]:
                assert logs_match(node.log, its.log), f"logs of {name} and {other} do not match"

    def check_committed(self, name: Any, node: Raft) -> None:
        for index, entry in enumerate(node.log[: node.commit + 1]):
            if index == len(self.committed):
                self.committed.append((entry, node.term))
            assert self.committed[index][0] == entry, f"{name} commits {entry}, not {self.committed[index][0]}"


def logs_match(log: list[Any], other: list[Any]) -> bool:
    """Return whether two logs are equal up to the last index at which their entries have the same term."""
    same = [index for index in range(min(len(log), len(other))) if log[index][0] == other[index][0]]
    return log[: same[-1] + 1] == other[: same[-1] + 1]


def cluster(*, seed: int, agents: int = 5, loss: float = 0.1, version: type[Raft] = Raft) -> Any:
    graph = topology.complete(agents)
    network = Network(graph, Link(latency=latency.uniform(0.005, 0.03), loss=loss), seed=seed)
    # Commands arrive until the end, because a leader commits entries of earlier terms only together with an entry of
    # its own term.
    commands = [(0.3 + 0.2 * k, f"x={k}") for k in range(22)]
    return network, {i: version(commands=commands) for i in graph}, {"until": END}


def all_kinds(graph: "nx.Graph[Any]", seed: int) -> list[Any]:
    """Draw faults of all kinds that Raft must tolerate; all end before `FAULTS_END`."""
    counts = {"crashes": 3, "partitions": 2, "cuts": 3, "losses": 3, "stragglers": 1, "jitters": 1, "skews": 1}
    drawn = Faults.draw(graph, until=FAULTS_END - 0.5, seed=seed, mean_duration=0.4, keeps_state=True, **counts)
    return [fault for fault in drawn if fault.ends is None or fault.ends < FAULTS_END]


def check_safe_and_live(seeds: range, agents: int) -> None:
    found = search(partial(cluster, agents=agents), Promises, seeds=seeds, faults=all_kinds)
    assert found is None, found
    for seed in seeds:
        network, nodes, settings = cluster(seed=seed, agents=agents)
        network = Network(network.graph, network.link, seed=seed, faults=Faults(all_kinds(network.graph, seed)))
        network.run(nodes, **settings)
        assert_all_done(nodes, seed)


def assert_all_done(nodes: Mapping[Any, Raft], seed: int) -> None:
    """Check that each node has committed, exactly once, every command issued at least 1 s before the end."""
    for node in nodes.values():
        done = [command for _, command in node.log[1 : node.commit + 1]]
        assert len(set(done)) == len(done)
        assert set(done) >= {command for at, command in node.commands if at < END - 1}, f"seed {seed}"


@pytest.mark.parametrize("agents", [slow(3), 5])
def test_it_is_safe_whatever_fails_and_goes_on_after_it(agents: int) -> None:
    check_safe_and_live(range(6), agents)


@pytest.mark.slow
@pytest.mark.parametrize("agents", [3, 4, 5])
def test_it_is_safe_over_many_seeds(agents: int) -> None:
    check_safe_and_live(range(100, 108), agents)


def test_the_older_of_two_leaders_gives_way_and_loses_what_it_could_not_commit() -> None:
    graph = topology.complete(5)
    faults = Faults([Partition([0, 1], at=1, until=2)])
    network = Network(graph, Link(latency=latency.uniform(0.005, 0.02)), seed=1, faults=faults)
    commands = {i: [(0.5, "both"), (1.2, "few" if i < 2 else "many")] for i in graph}
    agents = {i: Raft(commands=commands[i]) for i in graph}
    seen: list[Any] = []

    def look() -> None:
        seen.extend((i, node.role, node.log[node.commit], node.log[-1]) for i, node in agents.items())

    network.at(1.9, look)
    run = network.run(agents, until=3.0, trace=True)
    # Node 0, the leader of term 1, is partitioned off with node 1. It accepts its client's command "few", but never
    # commits it.
    assert seen[:2] == [(0, "leader", (1, "both"), (1, "few")), (1, "follower", (1, "both"), (1, "few"))]
    assert [(role, log[1], last[1]) for _, role, log, last in seen[2:]].count(("leader", "many", "many")) == 1
    assert run.notes["note"].tolist()[:3] == ["becomes leader", "becomes leader", "steps down"]
    assert [command for _, command in agents[0].log[1:]][:2] == ["both", "many"]
    # Nodes 0 and 1 never lead again, so the command of their clients, "few", is never sent to the others.
    assert all(node.log == agents[0].log and node.commit == len(node.log) - 1 for node in agents.values())


@pytest.mark.parametrize(
    ("words", "safe"), [("0.19 crash 2 until 0.2 keeping state", True), ("0.19 crash 2 until 0.2", False)]
)
def test_a_vote_must_survive_a_crash(words: str, safe: bool) -> None:
    # Link 0-1 is cut. Node 2 votes for node 0; then node 1, which receives nothing from node 0, requests the vote of
    # node 2 in the same term.
    for version, expected in (("right", safe), ("forgetful", False)):
        make = partial(EXAMPLE["make"], agents=3, loss=0.0, version=version, seconds=1.5)
        faults = parse(["0 cut 0-1", words], topology.complete(3))
        found = search(make, one_leader_a_term(), seeds=[1], faults=faults)
        assert (found is None) == expected, (version, found)


def test_equal_timeouts_elect_nobody() -> None:
    # All nodes become candidates at the same times and vote for themselves, so no term gets a leader.
    for seed in range(5):
        network, agents, settings = EXAMPLE["make"](longest=0.15, seed=seed)
        network.run(agents, **settings)
        assert not any(node.led for node in agents.values())
        assert {node.term for node in agents.values()} == {20}


def test_half_of_an_even_number_is_no_majority() -> None:
    # On each side of a partition into 2 + 2 nodes, a candidate gets both votes, which is half of all nodes.
    led = {"right": 0, "half": 0}
    for version in led:
        for seed in range(10):
            network, agents, settings = EXAMPLE["make"](agents=4, version=version, loss=0.0, seconds=1.0, seed=seed)
            with appending("0 partition 0,1"):
                network.run(agents, **settings)
            terms = [term for node in agents.values() for term in node.led]
            led[version] += len(terms) > len(set(terms))
    assert led["right"] == 0
    assert led["half"] > 5


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    # Figure 8 of the paper: a majority stores the entry of term 1, but the leader's term is 2, and there is no entry of
    # term 2. So the leader must not commit.
    graph = topology.complete(3)
    agents = {i: Raft() for i in graph}
    for node in agents.values():
        node.term, node.log = 1, [(0, None), (1, "old")]
    Network(graph, Link(latency=0.01), seed=1).run(agents, until=1.0)
    leader = next(node for node in agents.values() if node.role == "leader")
    assert set(leader.match.values()) == {1}
    assert leader.commit == 0


def test_a_late_message_removes_nothing() -> None:
    node, heard = Raft(), Listener()
    plan = [
        (0.01, "append", (1, 0, 0, [(1, "a"), (1, "b")], 0)),
        (0.02, "append", (1, 0, 0, [(1, "a")], 0)),
        (0.03, "append", (1, 2, 1, [], 2)),
    ]

    async def leader(me: Any) -> None:
        for at, kind, payload in plan:
            await asyncio.sleep(at - me.now)
            await me.send(1, kind, payload)

    play(Actor(leader), node, heard, until=0.1)
    assert node.log == [(0, None), (1, "a"), (1, "b")]
    assert node.commit == 2


@pytest.mark.slow
def test_the_example_is_a_study_and_takes_faults(tmp_path: Path) -> None:
    path, faults = str(ROOT / "docs" / "examples" / "raft.py"), "0.5 crash 2 until 1 keeping state"
    done = call("run", path, "--seconds", "1.5", "--at", faults, "--trace", "--out", "raft", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = call("run", path, "--version", "wrong", "--out", "wrong", cwd=tmp_path)
    assert done.returncode != 0
    assert "version = 'wrong': must be one of right, turncoat, forgetful, half" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heartbeat": 0}, "heartbeat = 0: must be a number > 0"),
        ({"election": (0.05, 0.1)}, r"election = 0.05: must be a number > 0.05"),
        ({"election": (0.2, 0.1)}, r"election = 0.1: must be a number >= 0.2"),
        ({"election": 5}, r"election = 5: must be a pair \(least, most\)"),
        ({"commands": [(-1, "x")]}, r"commands = -1: must be a number >= 0"),
        ({"commands": 5}, r"commands = 5: must be pairs \(time, value\)"),
        ({"commands": [(1, "x"), "late"]}, r"commands\[1\] = 'late': must be a pair \(time, value\)"),
    ],
)
def test_bad_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Raft(**arguments)
