"""Tests of replicated data types: laws of merging, random histories, and gossip against an epidemic recursion."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import BadInput, Link, Network, Run, latency, topology
from netsim.agents.classics import AntiEntropy, GCounter, ORSet, PNCounter
from netsim.faults import Crash, Partition
from tests.parts import slow

REPLICAS = range(3)
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "merge"]), st.sampled_from(REPLICAS), st.integers(0, 2)), max_size=25
)


COUNTERS = st.dictionaries(st.sampled_from(REPLICAS), st.integers(0, 9)).map(GCounter)


def histories(steps: list[tuple[str, int, int]]) -> tuple[list[ORSet], list[set[tuple[int, int]]]]:
    """Apply a history to three replicas; return their `ORSet` objects and, for each, the expected additions.

    An addition is (step of the history, element). A replica has seen its own steps and, after a merge, all steps that
    the other replica has seen. Expected are the additions that it has seen, without the removals that it has seen.
    """
    sets = [ORSet() for _ in REPLICAS]
    seen: list[set[tuple[int, int]]] = [set() for _ in REPLICAS]
    gone: list[set[tuple[int, int]]] = [set() for _ in REPLICAS]
    for place, (what, i, other) in enumerate(steps):
        if what == "add":
            sets[i] = sets[i].add(i, other)
            seen[i] = seen[i] | {(place, other)}
        elif what == "remove":
            sets[i] = sets[i].remove(other)
            gone[i] = gone[i] | {each for each in seen[i] if each[1] == other}
        else:
            sets[i] = sets[i].merge(sets[other])
            seen[i], gone[i] = seen[i] | seen[other], gone[i] | gone[other]
    return sets, [a - b for a, b in zip(seen, gone, strict=True)]


def obeys(a: Any, b: Any, c: Any) -> None:
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(a) == a
    # A second merge changes nothing: merged data are never lost.
    assert a.merge(b).merge(a) == a.merge(b)


@given(COUNTERS, COUNTERS, COUNTERS)
def test_counters_merge_in_any_order_and_any_number_of_times(a: GCounter, b: GCounter, c: GCounter) -> None:
    obeys(a, b, c)
    obeys(PNCounter(a, b), PNCounter(b, c), PNCounter(c, a))


@settings(max_examples=200)
@given(STEPS)
def test_sets_merge_in_any_order_and_any_number_of_times(steps: list[tuple[str, int, int]]) -> None:
    obeys(*histories(steps)[0])


@settings(max_examples=200)
@given(STEPS)
def test_a_set_holds_what_was_added_and_not_removed_by_one_who_had_seen_it(steps: list[tuple[str, int, int]]) -> None:
    for state, left in zip(*histories(steps), strict=True):
        assert state.value == sorted({element for _, element in left})


@given(st.lists(st.tuples(st.sampled_from(REPLICAS), st.integers(-5, 5))))
def test_a_counter_is_the_sum_of_what_all_replicas_did(steps: list[tuple[int, int]]) -> None:
    replicas = [PNCounter() for _ in REPLICAS]
    for i, amount in steps:
        replicas[i] = replicas[i].add(i, amount)
    merged = replicas[2].merge(replicas[0]).merge(replicas[1])
    assert merged.value == sum(amount for _, amount in steps)


def test_an_addition_at_the_same_time_as_a_removal_survives() -> None:
    before = ORSet().add(0, "milk")
    assert before.remove("milk").merge(before).value == []
    assert before.remove("milk").merge(before.add(1, "milk")).value == ["milk"]
    assert before.remove("milk").add(0, "milk").value == ["milk"]


def values(run: Run) -> list[Any]:
    replicas: dict[Any, Any] = dict(run.agents)
    return [agent.value for agent in replicas.values()]


def one(k: int) -> Callable[[PNCounter], PNCounter]:
    return lambda state: state.add(k, 1 + k)


def distinct(agents: Any) -> int:
    return len({agent.value for agent in agents.values()})


def total(agents: Any) -> int:
    return sum(agent.value for agent in agents.values())


HARSH = Link(loss=0.3, duplicate=0.3, latency=latency.exponential(0.15))


@pytest.mark.parametrize("seed", [0, 1, *map(slow, range(2, 6))])
def test_all_replicas_agree_on_the_sum_after_a_partition_over_bad_links(seed: int) -> None:
    graph = topology.erdos_renyi(8, edges=14, seed=seed)
    writes = {i: dict.fromkeys(range(1, 13), one(i)) for i in graph}
    network = Network(graph, HARSH, seed=seed, faults=[Partition([0, 1, 2, 3], at=2.0, until=14.0)])
    run = network.run({i: AntiEntropy(PNCounter(), 40, writes[i]) for i in graph}, probes=[distinct])
    assert values(run) == [12 * sum(1 + i for i in graph)] * 8
    assert run.rounds["distinct"].iloc[11] > 1  # the two sides disagreed during the partition


@pytest.mark.parametrize("seed", [0, 1, *map(slow, range(2, 6))])
def test_all_replicas_agree_on_a_set_after_a_partition_over_bad_links(seed: int) -> None:
    rng = random.Random(seed)

    def change(i: int) -> Callable[[ORSet], ORSet]:
        what = rng.choice(["eggs", "milk", "rice"])
        return rng.choice([lambda state: state.add(i, what), lambda state: state.remove(what)])

    graph = topology.ring(6)
    writes = {i: {k: change(i) for k in range(1, 13)} for i in graph}
    network = Network(graph, HARSH, seed=seed, faults=[Partition([0, 1, 2], at=2.0, until=14.0)])
    run = network.run({i: AntiEntropy(ORSet(), 50, writes[i]) for i in graph})
    states: dict[Any, Any] = dict(run.agents)
    assert all(agent.state == states[0].state for agent in states.values())
    # Each addition counts once, although some arrived twice.
    assert len(states[0].state.added) == sum(
        "add" in f.__code__.co_names for each in writes.values() for f in each.values()
    )


def test_a_replica_that_forgets_must_learn_its_own_count_before_it_goes_on() -> None:
    # A merge keeps the larger count of a replica, so an addition to a lost count has no effect.
    def counted(keeps: bool, last: int) -> int:
        crash = Crash(0, at=6.5, until=7.5, keeps_state=keeps)
        idle = Crash(1, at=0.5, until=0.6)
        writes = dict.fromkeys((1, 2, 3, last), lambda state: state.add(0))
        agents = {i: AntiEntropy(GCounter(), 20, writes if i == 0 else {}) for i in range(2)}
        return int(values(Network(topology.path(2), Link(latency=0.01), faults=[crash, idle]).run(agents))[1])

    assert counted(keeps=True, last=9) == 4
    assert counted(keeps=False, last=9) == 3  # round 9 is the replica's first round after the crash
    assert counted(keeps=False, last=10) == 4


def informed(n: int, rounds: int) -> list[float]:
    """Return the expected number of informed replicas among n after each round, by the recursion of push-pull.

    A replica stays uninformed if the replica that it contacts is uninformed, and no informed replica contacts it.
    """
    ignorant, found = 1 - 1 / n, []
    for _ in range(rounds):
        ignorant *= ignorant * (1 - 1 / (n - 1)) ** (n * (1 - ignorant))
        found.append(n * (1 - ignorant))
    return found


def test_news_spreads_as_fast_as_the_recursion_says() -> None:
    n, rounds, curves = 48, 10, []
    for seed in range(5):
        graph = topology.complete(n)
        agents = {i: AntiEntropy(GCounter(), rounds, {1: lambda s: s.add(0)} if i == 0 else {}) for i in graph}
        curves.append(Network(graph, Link(latency=0.01), seed=seed).run(agents, probes=[total]).rounds["total"])
        assert curves[-1].iloc[-1] == n
    needed = [int((curve < n).sum()) + 1 for curve in curves]
    expected = 1 + sum(each < n - 0.5 for each in informed(n, rounds))
    # A replica may take part in several exchanges of a round one after another, so gossip is sometimes a little faster
    # than the recursion.
    assert expected - 1.2 <= np.mean(needed) <= expected + 0.8


def test_the_recursion_is_that_of_a_simulation_without_a_network() -> None:
    n, rng, mean = 400, random.Random(1), np.zeros(9)
    for _ in range(40):
        knows = [i == 0 for i in range(n)]
        for k in range(9):
            pairs = [(i, (i + rng.randrange(1, n)) % n) for i in range(n)]
            knew = list(knows)
            for i, j in pairs:
                knows[i] |= knew[j]
                knows[j] |= knew[i]
            mean[k] += sum(knows) / 40
    # The recursion replaces random numbers by their means, which overestimates the growth from one informed replica.
    assert mean == pytest.approx(informed(n, 9), rel=0.15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GCounter().add(0, -1), "amount = -1"),
        (lambda: AntiEntropy(GCounter(), -1), "count = -1"),
        (lambda: AntiEntropy(GCounter(), 1, timeout=0.0), "timeout = 0"),
        (lambda: AntiEntropy(GCounter(), 1, [1]), r"changes = \[1\]: must be a mapping"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()


def test_a_replica_without_neighbours_keeps_to_itself() -> None:
    network = Network(topology.path(1))
    replica = AntiEntropy(GCounter(), 3, {2: lambda state: state.add(0)})
    network.run({0: replica})
    assert replica.value == 1
