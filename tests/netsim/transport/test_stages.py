"""The compiled stages of links equal their Python twins, which define them, to the last bit.

`tests/netsim/test_network_fuzz.py` compares whole runs in two processes. Here one process runs both twins, which
allows many more cases.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from netsim import Agent, Link, Network, latency, loss, topology
from netsim.faults import Faults
from netsim.links import Budget, rate
from netsim.links.latency import Delays, Latency
from netsim.links.loss import Decide
from netsim.links.rate import Leave
from netsim.testing import Listener, Talker, sized
from netsim.transport import link_stages, outbox, path, stages, transmitter
from netsim.util.draws import Keys
from tests.fuzzers.faults import COUNTS, faulty
from tests.fuzzers.networks import Case, a_latency, a_loss, at_the_sender, on_the_way, whole_digest
from tests.fuzzers.reliable import reliable
from tests.parts import every, slow

pytestmark = pytest.mark.skipif(stages.Path is path.Path, reason="only the twins are there")

KEY: Keys = np.array([12345], dtype=np.uint64)


@contextmanager
def in_python() -> Iterator[None]:
    """Replace the stages of links in outboxes by their Python twins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "LinkStages", link_stages.LinkStages)
        yield


# --- one sender's side ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_a_transmitter_is_its_twin(first: int) -> None:
    for seed in range(first, first + 100):
        rng = np.random.default_rng(seed)
        period = float(rng.choice([1.0, 0.1, 1 / 3, 0.7]))
        link = Link(**at_the_sender(rng, period, rated=seed % 3 == 0))
        if seed % 7 == 0:
            link = replace(link, rate=rate.opportunities(period * np.array([0.01, 0.02, 0.5, 0.51, 1.3]), bits=700))
        offset = 0.0 if seed % 2 else -period / 3
        both = [make(link, period, offset) for make in (stages.Transmitter, transmitter.Transmitter)]
        now = 0.0
        for _ in range(60):
            now += period * float(rng.choice([0.0, 0.0, 0.1, 0.25, 1.0, 100.0, rng.random()]))
            size = int(rng.integers(1, rng.choice([20, 300])))
            parts = [each.fragments(size) for each in both]
            assert parts[0] == parts[1]
            found, expected = (each.accept(now, cut) for each, cut in zip(both, parts, strict=True))
            assert found == expected, seed
        releases = [each.release for each in both]
        assert [release is None for release in releases] == [link.budget is None] * 2
        if all(releases):
            assert releases[0](now, 80) == releases[1](now, 80)


@pytest.mark.parametrize("bits", [2**53 - 1, 2**53, 2**53 + 1, 2**60 + 1])
def test_bits_beyond_the_precision_of_floats_are_compared_exactly(bits: int) -> None:
    for budget in (Budget(float(2**53)), Budget(float(2**60)), Budget(1e300), Budget(1.5)):
        link = Link(budget=budget)
        found, expected = (
            make(link, 1.0).accept(0.0, [bits]) for make in (stages.Transmitter, transmitter.Transmitter)
        )
        assert found == expected


# --- one link ---------------------------------------------------------------------------------------------------------


@every("seed", range(150))
def test_a_path_is_its_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    way = on_the_way(rng, 1.0) | {"loss": pick_loss(rng), "latency": a_latency(rng, 1.0)}
    if seed % 2:
        way["latency"] = latency.uniform(0.1, 0.9)
    link = Link(**way, loss_bits=None if seed % 3 else 300)
    found, expected = (make(link, KEY, seed, "one by one ") for make in (stages.Path, path.Path))
    now = 0.0
    for _ in range(60):
        now += float(rng.exponential(0.3)) if rng.random() < 0.8 else float(rng.integers(1000))
        ends = np.cumsum([now, *rng.random(int(rng.integers(3)))]).tolist()
        assert found.carry(ends) == expected.carry(ends)
        now = ends[-1]
        if rng.random() < 0.3:
            bits = int(rng.integers(1, 1000))
            assert found.cross(now, bits) == expected.cross(now, bits)
            assert found.arrive(now) == expected.arrive(now)
            assert found.damaged_share() == expected.damaged_share()


def pick_loss(rng: np.random.Generator) -> Any:
    """Return a random loss model, which usually has memory."""
    burst, slot = float(rng.choice([1, 1.5, 3, 30])), float(rng.choice([0.01, 0.3, 1, 7]))
    kinds = [
        a_loss(rng),
        loss.gilbert_elliott(0.4, burst),
        loss.gilbert_elliott(0.4, burst, slot=slot),
        # Here p > 1 - r, so successive states alternate more often than independent ones.
        loss.GilbertElliott(0.9, 0.8, slot),
        loss.gemodel(0.3, 0.4, 0.8, 0.1),
        loss.gemodel(0.3, 0.4, 0.8, 0.1, slot=slot),
        loss.states(0.2, 0.3, 0.2, 0.5, 0.1),
        loss.correlated(0.4, 0.3),
        loss.varying([0.0, 1.0, 0.3], [1.0, 0.25, slot]),
    ]
    return kinds[rng.integers(len(kinds))]


def test_a_frame_that_never_leaves_is_in_the_last_slot() -> None:
    link = Link(loss=loss.gilbert_elliott(0.5, 3, slot=0.1))
    found, expected = (make(link, KEY, 1).carry([math.inf]) for make in (stages.Path, path.Path))
    assert found == expected


# --- networks ---------------------------------------------------------------------------------------------------------


class RatedCase(Case):
    """A random network in which every link has a rate or a queue; bursts and duplicates occur."""

    @staticmethod
    def network_of(rng: np.random.Generator) -> Network:
        network = Case.network_of(rng)
        period, kept = network.round_period, network.medium == "radio"
        port = at_the_sender(rng, period, rated=True)
        network.link = Link(**port | on_the_way(rng, period) | {"loss": pick_loss(rng)})
        for pair in network.links:
            own = port if kept else at_the_sender(rng, period)
            network.links[pair] = Link(**own | on_the_way(rng, period))
        # LinkChange refuses to change the rate of a link that has a budget, so such faults are left out.
        all_rated = all(link.budget is None for link in (network.link, *network.links.values()))
        network.faults = Faults(each for each in network.faults if all_rated or getattr(each, "rate", None) is None)
        return network


def same_in_python(make: Any, seed: int) -> None:
    """Check that a case has the same results with the Python twins, to the byte; half of the cases record a trace."""

    def digest() -> Any:
        return whole_digest(make(seed).play(trace=True)) if seed % 2 else make(seed).play().run.trace_hash

    found = digest()
    with in_python():
        assert digest() == found


@pytest.mark.parametrize("first", [0, slow(1)])
def test_networks_end_the_same_with_the_twins(first: int) -> None:
    for seed in range(100 * first, 100 * first + (20 if first else 5)):
        same_in_python(Case, seed)
        same_in_python(RatedCase, seed)


@pytest.mark.parametrize("first", [0, slow(1)])
def test_networks_with_faults_end_the_same_with_the_twins(first: int) -> None:
    for seed in range(100 * first, 100 * first + (15 if first else 6)):
        same_in_python(lambda seed: faulty(RatedCase(seed), seed, COUNTS), seed)


@pytest.mark.parametrize("first", [0, slow(1)])
def test_reliable_links_end_the_same_with_the_twins(first: int) -> None:
    for seed in range(100 * first, 100 * first + (15 if first else 6)):
        same_in_python(lambda seed: reliable(RatedCase(seed), seed, with_faults=seed % 3 == 0), seed)


# --- a user's own models ----------------------------------------------------------------------------------------------


class EveryThird:
    """A user-defined loss model that loses every third frame."""

    mean = 1 / 3

    def on_link(self, u: float) -> Decide:
        count = int(3 * u)

        def lost(u: float) -> bool:
            nonlocal count
            count += 1
            return count % 3 == 0

        return lost


class Steps:
    """A user-defined latency model whose delays are multiples of a quarter."""

    fixed = None

    def delays(self, u: Delays, first: int) -> Delays:
        return np.floor(4 * u) / 4 + first


class Slower:
    """A user-defined rate model whose rate decreases with each frame."""

    mean = 1000.0

    def on_port(self) -> Leave:
        count = 0

        def leave(start: float, bits: float) -> float:
            nonlocal count
            count += 1
            return start + bits * count / 1000.0

        return leave


class Failing(Slower):
    """A rate model that raises an error at the third frame."""

    def on_port(self) -> Leave:
        count = 0

        def leave(start: float, bits: float) -> float:
            nonlocal count
            count += 1
            if count == 3:
                raise ValueError("no more")
            return start + bits

        return leave


def talked(link: Link) -> tuple[Any, ...]:
    """Return the results of a run in which one agent sends frames of many sizes to two neighbours."""
    frames = [(0.1 * number, sized(100 + 50 * (number % 5))) for number in range(40)]
    run = Network(topology.star(3), link, seed=3).run({0: Talker(frames), 1: Listener(), 2: Listener()}, trace=True)
    assert run.trace is not None
    return run.trace_hash, run.trace.table().to_csv(), run.agents[1].times


@pytest.mark.parametrize(
    "link",
    [
        Link(loss=EveryThird()),
        Link(loss=EveryThird(), rate=8e3, mtu=60),
        Link(latency=Steps(), duplicate=0.5),
        Link(latency=Steps(), loss=EveryThird(), rate=Slower(), queue=3, fifo=True),
        Link(rate=Slower(), corrupt=0.5, crc=False),
    ],
)
def test_a_users_models_are_called_as_by_the_twins(link: Link) -> None:
    assert isinstance(link.latency_model, Latency)
    found = talked(link)
    with in_python():
        assert talked(link) == found


def test_an_error_of_a_users_model_is_the_same() -> None:
    class Sender(Agent):
        failed = 0

        async def run(self) -> None:
            async for _ in self.rounds(4):
                try:
                    await self.broadcast("x", 1)
                except ValueError:
                    self.failed += 1

    def outcome() -> tuple[str, int]:
        run = Network(topology.star(3), Link(rate=Failing())).run({i: Sender() for i in range(3)})
        return run.trace_hash, sum(agent.failed for agent in run.agents.values())

    found = outcome()
    assert found[1] == 4
    with in_python():
        assert outcome() == found
