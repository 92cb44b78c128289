"""Received frames as arrays, and copies of the neighbours' states."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netsim import Agent, AgentError, Frame, Link, Network, latency, topology
from netsim.coders import QSGD, Float, Uniform
from netsim.core import ArrivalQueue, Copies, Tally, add_scaled_difference, add_scaled_sum, add_weighted_rows
from netsim.core.frame import FrameEncoder
from netsim.transport import Heard
from tests.parts import every

RNG = np.random.default_rng(3)


def frame(sender: Any, payload: Any, kind: str = "state", round: int = 1) -> Frame:
    data = FrameEncoder().encode(kind, 0, round, payload)
    return Frame(kind, sender, round, 0.0, data)


class Hearer(Agent):
    """Broadcasts its vector in each round, and stores the vectors that it receives."""

    def __init__(self, payload: Any) -> None:
        self.payload = payload
        self.heard: list[Heard] = []

    async def run(self) -> None:
        async for _ in self.rounds(2):
            await self.broadcast("state", self.payload)
            await self.broadcast("count", len(self.heard))
            self.heard.append(await self.collect())


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [RNG.normal(size=5), 2.5, [1, 2], {"a": 1}, "text"])
def test_nothing_of_a_frame_can_be_assigned_to(payload: Any) -> None:
    agents = {i: Hearer(payload) for i in range(3)}
    Network(topology.star(3)).run(agents)
    found = agents[1].heard[0][0]
    for name in ("kind", "sender", "round", "sent_at", "data", "payload", "request", "is_reply"):
        with pytest.raises(AttributeError):
            setattr(found, name, getattr(found, name))
    with pytest.raises((AttributeError, TypeError, ValueError)):
        found.payload *= 2
    other = agents[2].heard[0][0]
    np.testing.assert_equal(other.payload, payload)


# --- Heard ------------------------------------------------------------------------------------------------------------


def test_what_was_heard_is_a_list_and_rows() -> None:
    vectors = RNG.normal(size=(4, 7))
    agents = {i: Hearer(vectors[i]) for i in range(4)}
    Network(topology.complete(4), Link(latency=latency.uniform(0.0, 0.5)), seed=2).run(agents)
    heard = agents[0].heard[0]
    assert isinstance(heard, list)
    assert {f.sender for f in heard} == {1, 2, 3} == set(heard.senders)
    assert heard.senders == [f.sender for f in heard]
    states = heard.of("state")
    assert [f.kind for f in states] == ["state"] * 3
    np.testing.assert_array_equal(heard.stack("state"), vectors[states.senders])
    expected: NDArray[np.float64] = np.zeros(7)
    for sender in states.senders:
        expected = expected + vectors[sender]
    np.testing.assert_array_equal(heard.sum("state"), expected)
    weights = {1: 0.5, 2: -1.0, 3: 2.0}
    weighed = sum(weights[s] * vectors[s] for s in states.senders)
    np.testing.assert_allclose(heard.sum("state", weights=weights), weighed, rtol=1e-15)
    assert heard.sum("count") == 0.0
    assert heard.stack("count").tolist() == [0.0, 0.0, 0.0]


def test_nothing_heard() -> None:
    assert Heard().sum() == 0.0
    assert Heard().stack().shape == (0, 0)
    assert Heard().senders == []


def test_what_is_no_row_is_refused_in_one_line() -> None:
    with pytest.raises(AgentError, match=r"<Frame 'state' from 2 .*must be an array of numbers of shape \(3,\)"):
        Heard([frame(1, np.ones(3)), frame(2, np.ones(4))]).stack()
    with pytest.raises(AgentError, match="must be an array of numbers"):
        Heard([frame(1, "text")]).sum()
    with pytest.raises(AgentError, match="there is none for 2"):
        Heard([frame(2, np.ones(3))]).sum(weights={1: 1.0})


def test_coded_vectors_are_rows_too() -> None:
    coded = [Uniform(4).encode(RNG.normal(size=6)), QSGD(3).encode(RNG.normal(size=6), RNG)]
    heard = Heard([frame(i, each) for i, each in enumerate(coded)])
    np.testing.assert_array_equal(heard.stack(), [each.values for each in coded])


# --- Copies -----------------------------------------------------------------------------------------------------------


@every("add", [False, True])
@every("shape", [(5,), (2, 3), (1,)])
@every("coder", [None, Float(32), Uniform(5)])
def test_copies_take_in_what_was_heard(add: bool, shape: tuple[int, ...], coder: Any) -> None:
    names = ["b", "a", 7]
    start = RNG.normal(size=shape)
    copies = Copies(names, shape, start)
    expected = {name: start.copy() for name in names}
    last: dict[Any, int] = {}
    for k in range(1, 4):
        frames = []
        for name in RNG.permutation(np.array(names, dtype=object))[: RNG.integers(4)]:
            vector = RNG.normal(size=shape)
            payload = vector if coder is None else coder.encode(vector)
            value = np.asarray(getattr(payload, "values", payload), dtype=np.float64)
            frames += [frame(name, payload, round=k)] * int(RNG.integers(1, 3))
            expected[name] = expected[name] + value if add else value
            last[name] = k
        copies.take_in(Heard(frames), add=add)
        for name in names:
            np.testing.assert_array_equal(copies[name], expected[name])
            assert copies.heard(name) == (name in last)
        total = expected["b"] + expected["a"] + expected[7]
        np.testing.assert_array_equal(copies.sum(), total)
        assert dict(copies.items()).keys() == set(names)
    assert len(copies) == 3
    assert copies.table.shape == (3, *shape)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_copies_receive_from_a_queue_what_they_take_in_of_its_frames(add: bool, looks: bool) -> None:
    names = list("abcdef")
    taking, receiving = Copies(names, (4,)), Copies(names, (4,))
    tallies = [Tally(np.zeros(6, np.uint64), np.arange(6, dtype=np.uint64), False) for _ in range(2)]
    queues = [ArrivalQueue(tally) for tally in tallies]
    kinds = [tally.kind("state") for tally in tallies]
    for k in range(1, 9):
        for link in RNG.permutation(6)[: RNG.integers(7)].tolist():
            time, each = k + float(RNG.uniform(0.0, 1.4)), frame(names[link], RNG.normal(size=4), round=k)
            for queue, tally, kind in zip(queues, tallies, kinds, strict=True):
                queue.push(time, (link << tally.shift) + k, kind, each)
        if looks:
            assert queues[0].first() == queues[1].first()
        taking.take_in(queues[0].deliver(k + 1.0), add=add)
        receiving.receive(queues[1], k + 1.0, add=add)
        assert receiving.table.tobytes() == taking.table.tobytes()
        assert len(queues[0]) == len(queues[1])
    assert tallies[0].sums.tolist() == tallies[1].sums.tolist()
    assert tallies[0].exits == tallies[1].exits


def test_what_copies_refuse_of_a_queue_is_counted_and_gone() -> None:
    tally = Tally(np.zeros(1, np.uint64), np.zeros(1, np.uint64), False)
    queue, copies = ArrivalQueue(tally), Copies(["a"], (2,))
    for number, payload in enumerate([np.ones(2), np.ones(3), np.zeros(2)]):
        queue.push(0.5, number, tally.kind("state"), frame("a", payload, round=number + 1))
    with pytest.raises(AgentError, match=r"must be an array of numbers of shape \(2,\)"):
        copies.receive(queue, 1.0)
    assert copies["a"].tolist() == [1.0, 1.0]
    assert (len(queue), sum(tally.exits)) == (0, 3)


def test_a_frame_of_no_round_counts_each_time() -> None:
    copies = Copies(["a"], (2,))
    copies.take_in([frame("a", np.ones(2), round=0)] * 2, add=True)
    assert copies["a"].tolist() == [2.0, 2.0]


def test_what_fits_no_copy_is_refused() -> None:
    copies = Copies(["a"], (2,))
    with pytest.raises(AgentError, match=r"must be an array of numbers of shape \(2,\)"):
        copies.take_in([frame("a", np.ones(3))])
    with pytest.raises(AgentError, match="must be one of the neighbours"):
        copies.take_in([frame("c", np.ones(2))])
    assert copies["a"].tolist() == [0.0, 0.0]
    assert not copies.heard("a")


def test_a_sum_is_an_array_of_its_own() -> None:
    copies = Copies(["a"], (2,))
    total = copies.sum()
    total += 1.0
    assert copies["a"].tolist() == [0.0, 0.0]
    assert Copies([], (2,)).sum().tolist() == [0.0, 0.0]


# --- vectors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(100,), (3, 4), (0,), ()])
def test_sums_and_differences_are_those_of_numpy_to_the_last_bit(shape: tuple[int, ...]) -> None:
    for _ in range(50):
        y, a, b = (np.asarray(RNG.normal(size=shape) * 10.0 ** RNG.integers(-9, 9)) for _ in range(3))
        alpha = float(RNG.normal())
        np.testing.assert_array_equal(add_scaled_sum(y, alpha, a, b), y + alpha * (a + b))
        np.testing.assert_array_equal(add_scaled_difference(y, alpha, a, b), y + alpha * (a - b))
        other = np.asfortranarray(np.broadcast_to(b, (2, *shape)))[0]
        np.testing.assert_array_equal(add_scaled_sum(y, alpha, a, other), y + alpha * (a + other))


def test_weighted_rows_are_added_one_after_the_other() -> None:
    rng = np.random.default_rng(4)
    for shape in ((5,), (1,), (0,), (3, 4)):
        for count in (0, 1, 7):
            start, weights, rows = rng.normal(size=shape), rng.normal(size=count), rng.normal(size=(count, *shape))
            expected = start.copy()
            for weight, row in zip(weights, rows, strict=True):
                expected += weight * row
            before = start.copy()
            np.testing.assert_array_equal(add_weighted_rows(start, weights, rows), expected)
            np.testing.assert_array_equal(start, before)
            np.testing.assert_array_equal(add_weighted_rows(start, weights, np.asfortranarray(rows)), expected)
