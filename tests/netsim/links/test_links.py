import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from netsim import Agent, Frame, Link, Network, Radio, Run, latency, loss
from netsim.core.frame import FrameEncoder
from netsim.errors import BadInput
from netsim.faults import LinkDown
from netsim.links import Budget, Reliability
from netsim.links.rate import opportunities
from netsim.testing import Listener, Talker, counts, losing, play, sized
from tests.parts import every, message_of, slow

Plan = Iterable[tuple[float, int]]


def bodies(plan: Plan) -> list[tuple[float, bytes]]:
    return [(time, sized(size)) for time, size in plan]


def speaker(plan: Plan, to: Any = 1) -> Talker:
    """Return an agent that sends frames of given sizes (bytes) at given times (s), to one neighbour or to all."""
    return Talker(bodies(plan), to)


def talk(plan: Plan, link: Link, to: Any = 1, **options: Any) -> Run:
    """Send one agent's frames to another over ``link``."""
    return play(speaker(plan, to), Listener(), link=link, **options)


def arrivals(run: Run) -> list[tuple[float, bytes]]:
    """Return the times (s) and contents of agent 1's received frames."""
    return [(time, frame.data) for time, frame in zip(run.agents[1].times, run.agents[1].frames, strict=True)]


def close(times: Sequence[float]) -> Any:
    return pytest.approx(times, abs=1e-8)


# --- rate and latency -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", [1, None], ids=["send", "broadcast"])
@pytest.mark.parametrize("delay", [0.0, 0.25, 100.0])
def test_a_burst_leaves_one_frame_after_the_other(to: Any, delay: float) -> None:
    run = talk([(0, 1000)] * 5, Link(rate=8e3, latency=delay), to)
    assert run.agents[1].times == close([n + delay for n in range(1, 6)])
    assert run.ledger.wire_bits == 5 * 8000


def test_a_link_that_was_idle_starts_at_once() -> None:
    run = talk([(0, 1000), (0.5, 500), (3, 250)], Link(rate=8e3))
    assert run.agents[1].times == close([1, 1.5, 3.25])


def test_frames_in_flight_overlap() -> None:
    run = talk([(n / 100, 1000) for n in range(100)], Link(latency=5.0))
    assert run.agents[1].times == close([5 + n / 100 for n in range(100)])


def test_each_direction_and_each_link_sends_for_itself() -> None:
    graph = nx.path_graph(3)
    agents = {0: Listener(), 1: speaker([(0, 1000)] * 2, None), 2: Listener()}
    run = Network(graph, Link(rate=8e3), links={(1, 2): Link(rate=16e3)}).run(agents)
    assert run.agents[0].times == close([1, 2])
    assert run.agents[2].times == close([0.5, 1])


def mean_and_error(values: np.ndarray, batches: int = 40) -> tuple[float, float]:
    """Return the mean of a correlated sequence, and its standard error estimated by batch means."""
    means = np.array([batch.mean() for batch in np.array_split(values, batches)])
    return float(means.mean()), float(means.std(ddof=1) / math.sqrt(batches))


def poisson_times(load: float, count: int, seed: int) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / load, count))


@pytest.mark.parametrize(("load", "queue"), [slow(0.8, 3), (1.5, 5), slow(0.9, 1)])
def test_frames_of_random_sizes_are_dropped_as_often_as_by_an_mm1k_queue(load: float, queue: int) -> None:
    sizes = np.maximum(np.round(np.random.default_rng(3).exponential(4000, 12_000)), 8).astype(int)
    sizes[(sizes == 263) | (sizes == 65544) | (sizes == 65545)] += 2
    # All frames are lost after transmission, so that none is stored: only queueing matters here.
    run = talk(zip(poisson_times(load, len(sizes), seed=4), sizes, strict=True), Link(rate=32e3, queue=queue, loss=1.0))
    blocked, error = mean_and_error(np.array(run.agents[0].took) == 0)
    expected = (1 - load) * load**queue / (1 - load ** (queue + 1))
    assert error < 0.05 * expected
    assert blocked == pytest.approx(expected, abs=3.5 * error)
    assert counts(run)["queue_full"] == run.agents[0].took.count(False)


# --- queue ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"queue": 2}, {"queue_bits": 16_000}, {"queue_bits": 23_999}])
def test_the_tail_of_a_burst_is_dropped_and_room_is_given_back(limit: dict[str, int]) -> None:
    plan = [(0, 1000)] * 4 + [(1.1, 1000)] * 2 + [(9, 1000)] * 3
    run = talk(plan, Link(rate=8e3, **limit))
    assert run.agents[0].took == [True, True, False, False, True, False, True, True, False]
    assert run.agents[1].times == close([1, 2, 3, 10, 11])
    assert counts(run) == {"delivered": 5, "queue_full": 4}
    assert run.ledger.wire_bits == 5 * 8000


def test_a_queue_in_bits_takes_what_fits() -> None:
    run = talk([(0, 1000), (0, 1001), (0, 500), (0, 501), (0, 499)], Link(rate=8e3, queue_bits=8 * 2000))
    assert run.agents[0].took == [True, False, True, False, True]


@pytest.mark.parametrize("interval", [0.1, 1 / 3, 0.7])
def test_frames_that_come_just_as_fast_as_they_leave_are_all_taken(interval: float) -> None:
    link = Link(rate=800 / interval, queue=1, budget=Budget(800 / interval, per="second", burst=800))
    run = talk([(n * interval, 100) for n in range(1000)], link)
    assert counts(run) == {"delivered": 1000}


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_waiting_token_bucket_sends_as_soon_as_it_can_pay() -> None:
    link = Link(budget=Budget(800, per="second", over="wait", burst=1600))
    assert talk([(0, 100)] * 5 + [(6, 200)] * 2, link).agents[1].times == close([0, 0, 1, 2, 3, 6, 8])


class Rounder(Agent):
    """Broadcasts frames of 100 bytes in each round, and records the frames collected in each round."""

    def __init__(self, rounds: int, each: int = 1, keep_late: bool = False) -> None:
        self.count, self.each, self.keep_late = rounds, each, keep_late
        self.took: list[int] = []
        self.heard: list[list[int]] = []

    async def run(self) -> None:
        async for _ in self.rounds(self.count, self.keep_late):
            self.took += [await self.broadcast("m", sized(100)) for _ in range(self.each)]
            self.heard.append([frame.round for frame in await self.collect()])


@pytest.mark.parametrize("period", [1.0, 0.1, 1 / 3, 0.7])
def test_the_budget_is_whole_in_each_of_many_rounds(period: float) -> None:
    run = Network(nx.path_graph(2), Link(budget=1600), round_period=period).run({i: Rounder(120, 3) for i in (0, 1)})
    assert run.agents[0].took == [1, 1, 0] * 120
    assert run.rounds["refused"].diff().dropna().unique().tolist() == [2]
    assert run.rounds["wire_bits"].diff().dropna().unique().tolist() == [2 * 1600]


def test_what_waits_for_a_rounds_budget_is_late_unless_late_frames_are_kept() -> None:
    def run(keep_late: bool) -> Run:
        link = Link(budget=Budget(1600, over="wait"))
        return Network(nx.path_graph(2), link).run({i: Rounder(2, 3, keep_late) for i in (0, 1)})

    assert run(False).agents[1].heard == [[1, 1], [2]]
    assert counts(run(False)) == {"delivered": 6, "late": 6}
    assert run(True).agents[1].heard == [[1, 1], [1, 2]]


# --- fragments --------------------------------------------------------------------------------------------------------


@every(
    ("size", "mtu", "fragments"),
    [
        (1000, None, 1),
        (1000, 1000, 1),
        (1000, 999, 2),
        (1000, 500, 2),
        (1000, 300, 4),
        (1000, 1, 1000),
        (1000, 5000, 1),
    ],
)
@every("medium", ["wires", "radio"])
@every("to", [1, None])
def test_each_fragment_has_a_header(size: int, mtu: int | None, fragments: int, medium: Any, to: Any) -> None:
    run = talk([(0, size)] * 3, Link(mtu=mtu, header_bits=88, rate=8e3), to, medium=medium)
    bits = 8 * size + 88 * fragments
    assert run.ledger.wire_bits == 3 * bits
    assert run.agents[1].times == close([n * bits / 8e3 for n in (1, 2, 3)])


@pytest.mark.parametrize("to", [1, None], ids=["send", "broadcast"])
@pytest.mark.parametrize(("mtu", "fragments"), [(100, 1), (50, 2), (30, 4)])
def test_a_frame_is_lost_with_any_of_its_fragments(to: Any, mtu: int, fragments: int) -> None:
    found = counts(talk([(0, 100)] * 4000, Link(mtu=mtu, loss=0.15), to))
    assert stats.binomtest(found["lost"], 4000, 1 - 0.85**fragments).pvalue > 1e-3


def test_a_frame_has_arrived_when_its_last_fragment_has() -> None:
    link = Link(mtu=50, rate=400, latency=latency.trace([5, 0.5, 0.5, 0.5]))
    assert talk([(0, 100)] * 2, link).agents[1].times == close([4.5, 6])


# --- duplicates, corruption, order ------------------------------------------------------------------------------------


def test_duplicates_are_counted_and_arrive_twice() -> None:
    run = talk([(n, 100) for n in range(2000)], Link(duplicate=0.3, loss=0.2, latency=latency.uniform(0, 0.5)))
    found = counts(run)
    assert found["delivered"] == len(arrivals(run)) == 2000 + found["duplicated"] - found["lost"]
    assert stats.binomtest(found["duplicated"], 2000 - found["lost"], 0.3).pvalue > 1e-3
    assert run.ledger.wire_bits == 2000 * 800


def test_every_copy_has_a_delay_of_its_own() -> None:
    run = talk([(0, 100), (10, 100)], Link(duplicate=1.0, latency=latency.trace([3, 1, 2], offsets=0)))
    assert run.agents[1].times == close([1, 3, 12, 13])


def test_a_crc_turns_corruption_into_a_drop() -> None:
    found = counts(talk([(0, 100)] * 3000, Link(corrupt=0.2)))
    assert found["delivered"] + found["corrupted"] == 3000
    assert stats.binomtest(found["corrupted"], 3000, 0.2).pvalue > 1e-3


def test_without_a_crc_one_flipped_bit_arrives_or_the_frame_is_dropped() -> None:
    run = talk([(0, 100)] * 3000, Link(corrupt=0.5, crc=False))
    sent = FrameEncoder().encode("m", 0, 0, sized(100))
    flipped = [int.from_bytes(sent) ^ int.from_bytes(data) for _, data in arrivals(run)]
    assert {bits.bit_count() for bits in flipped} == {0, 1}
    found = counts(run)
    damaged = sum(map(bool, flipped)) + found["corrupted"]
    assert found["delivered"] + found["corrupted"] == 3000
    assert stats.binomtest(damaged, 3000, 0.5).pvalue > 1e-3
    # Each bit of the content is equally likely to flip. A flip in the few bytes before it usually makes the frame
    # invalid.
    places = [bits.bit_length() - 1 for bits in flipped if 0 < bits < 1 << 8 * 90]
    assert stats.kstest(places, stats.randint(0, 8 * 90).cdf).pvalue > 1e-3
    assert found["corrupted"] < 0.1 * damaged


def test_damaged_requests_and_replies_go_to_nobody_else() -> None:
    class Asker(Agent):
        answers = 0

        async def run(self) -> None:
            for _ in range(1500):
                with suppress(TimeoutError):
                    await self.request(self.neighbors[0], "ask", 1, timeout=1)
                    self.answers += 1

        def answer(self, frame: Frame) -> int:
            assert frame.sender in self.neighbors
            return 2

    run = Network(nx.path_graph(3), Link(corrupt=0.5, crc=False)).run({i: Asker() for i in range(3)})
    assert 0 < run.agents[0].answers < 1500
    assert sum(counts(run).values()) == run.ledger.link_messages


@pytest.mark.parametrize("gap", [0.0, 0.3, 0.7])
def test_frames_overtake_each_other_as_often_as_their_delays_say(gap: float) -> None:
    count = 3000
    plan = [item for n in range(count) for item in ((2.0 * n, 100), (2.0 * n + gap, 101))]
    lengths = [len(data) for _, data in arrivals(talk(plan, Link(latency=latency.uniform(0.1, 1.1))))]
    overtaken = sum(first == 101 for first in lengths[::2])
    assert stats.binomtest(overtaken, count, (1 - gap) ** 2 / 2).pvalue > 1e-3


@pytest.mark.parametrize("to", [1, None], ids=["send", "broadcast"])
@pytest.mark.parametrize("extra", [{}, {"duplicate": 0.5}, {"loss": 0.3}, {"rate": 1e6, "mtu": 30}])
def test_fifo_never_reorders(extra: dict[str, Any], to: Any) -> None:
    plan = [(n / 100, 50 + n % 150) for n in range(150)]
    run = talk(plan, Link(latency=latency.exponential(0.5), fifo=True, **extra), to)
    lengths = [len(data) for _, data in arrivals(run)]
    assert lengths == sorted(lengths)
    assert len(lengths) > 90
    free = arrivals(talk(plan, Link(latency=latency.exponential(0.5), **extra), to))
    assert [len(data) for _, data in free] != sorted(len(data) for _, data in free)


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("medium", ["wires", "radio"])
@pytest.mark.parametrize("to", [1, None])
@pytest.mark.parametrize("rate", [None, 1e6])
def test_a_cut_link_takes_nothing_and_what_is_under_way_arrives(medium: Any, to: Any, rate: float | None) -> None:
    network = Network(nx.path_graph(2), Link(latency=1.0, rate=rate), medium=medium)
    network.at(1.5, lambda: network.set_link(0, 1, up=False, one_way=True))
    network.at(3.5, lambda: network.set_link(0, 1, up=True))
    both = {i: Both(bodies((n, 100) for n in range(5)), to if to is None else 1 - i) for i in (0, 1)}
    run = network.run(both)
    assert run.agents[0].took == [True, True, False, False, True]
    assert counts(run, sender=0) == {"delivered": 3, "link_down": 2}
    assert counts(run, sender=1) == {"delivered": 5}
    assert run.ledger.transmissions == 8
    assert run.ledger.wire_bits == 8 * 800


@pytest.mark.parametrize("way", [{}, {"one_way": False}, {"one_way": True}])
def test_a_link_is_cut_and_mended_as_linkdown_does_it(way: dict[str, bool]) -> None:
    def played(network: Network) -> Run:
        return network.run({i: Both(bodies((n, 100) for n in range(5)), None) for i in range(3)})

    by_hand = Network(nx.path_graph(3), Link(latency=0.1))
    by_hand.at(1.5, lambda: by_hand.set_link(0, 1, up=False, **way))
    by_hand.at(3.5, lambda: by_hand.set_link(0, 1, up=True, **way))
    one_way = way.get("one_way", False)
    script = Network(nx.path_graph(3), Link(latency=0.1), faults=[LinkDown(0, 1, at=1.5, until=3.5, one_way=one_way)])
    run = played(by_hand)
    pd.testing.assert_frame_equal(run.ledger.table(), played(script).ledger.table())
    assert counts(run, sender=0) == {"delivered": 3, "link_down": 2}
    assert counts(run, sender=1, receiver=0) == ({"delivered": 5} if one_way else {"delivered": 3, "link_down": 2})
    assert counts(run, sender=1, receiver=2) == {"delivered": 5}


def test_a_half_mended_link_stays_cut_the_other_way() -> None:
    network = Network(nx.path_graph(2), Link())
    network.at(1.5, lambda: network.set_link(0, 1, up=False))
    network.at(3.5, lambda: network.set_link(1, 0, up=True, one_way=True))
    run = network.run({i: Both(bodies((n, 100) for n in range(5)), None) for i in (0, 1)})
    assert counts(run, sender=0) == {"delivered": 2, "link_down": 3}
    assert counts(run, sender=1) == {"delivered": 3, "link_down": 2}


class Both(Talker):
    """Sends, and then waits for frames that are still in flight."""

    async def run(self) -> None:
        await super().run()
        async for _ in self.inbox:
            pass


# --- radio ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("medium", "transmissions"), [("radio", 1), ("wires", 3)])
@pytest.mark.parametrize("simple", [True, False])
def test_a_broadcast_on_a_radio_is_one_transmission(medium: Any, transmissions: int, simple: bool) -> None:
    link = Link(latency=1.011, header_bits=40) if simple else Link(latency=0.011, header_bits=40, rate=840)
    network = Network(nx.star_graph(3), link, medium=medium)
    run = network.run({0: speaker([(0, 100)], None), **{i: Listener() for i in (1, 2, 3)}})
    assert [run.agents[i].times for i in (1, 2, 3)] == [close([1.011])] * 3
    assert run.ledger.wire_bits == 840 * transmissions
    assert run.ledger.senders_table()["wire_bits"].tolist() == [840 * transmissions]
    # One radio transmission serves three links, so its bits cannot be assigned to any of them.
    assert ("wire_bits" in run.ledger.table()) == (medium == "wires")
    if medium == "wires":
        assert run.ledger.table()["wire_bits"].tolist() == [840] * 3
    assert (run.ledger.transmissions, run.ledger.link_messages) == (1, 3)


def test_a_radio_sends_one_frame_at_a_time_whoever_it_is_for() -> None:
    class Switch(Agent):
        async def run(self) -> None:
            for to in (1, 2, 1, 3):
                await self.send(to, "m", sized(100))
            await self.broadcast("m", sized(100))

    def times(medium: Any) -> list[list[float]]:
        agents = {0: Switch(), **{i: Listener() for i in (1, 2, 3)}}
        run = Network(nx.star_graph(3), Link(rate=800), medium=medium).run(agents)
        return [run.agents[i].times for i in (1, 2, 3)]

    assert times("radio") == [close([1, 3, 5]), close([2, 5]), close([4, 5])]
    assert times("wires") == [close([1, 2, 3]), close([1, 2]), close([1, 2])]


def test_a_radios_budget_is_one_for_all_neighbours() -> None:
    def run(medium: Any) -> Run:
        agents = {0: speaker([(0, 100)] * 3, None), **{i: Listener() for i in (1, 2, 3)}}
        return Network(nx.star_graph(3), Link(budget=1600), medium=medium).run(agents)

    for medium in ("radio", "wires"):
        assert counts(run(medium)) == {"delivered": 6, "refused": 3}
        assert run(medium).ledger.wire_bits == 1600 * (1 if medium == "radio" else 3)


def test_each_neighbour_on_a_radio_loses_for_itself() -> None:
    network = Network(nx.star_graph(2), Link(loss=0.5), links={(0, 1): Link(), (0, 2): Link(loss=1.0)}, medium="radio")
    run = network.run({0: speaker([(0, 100)] * 9, None), 1: Listener(), 2: Listener()})
    assert counts(run, receiver=1) == {"delivered": 9}
    assert counts(run, receiver=2) == {"lost": 9}


# The path 1 - 0 - 2 - 3: node 0 receives nodes 1 and 2; node 3 receives only node 2.
HIDDEN = nx.Graph([(1, 0), (0, 2), (2, 3)])


def on_air(first: float, second: float, to: Any = None, link: Link | None = None, **links: Link) -> Run:
    """Let agents 1 and 2 each send one frame, which lasts 1 s, at the given times."""
    link = link or Link(rate=800)
    network = Network(HIDDEN, link, links={(2, 0): links.get("from_2", link)}, medium=Radio(access="aloha"))
    agents = {0: Listener(), 1: speaker([(first, 100)], 0), 2: speaker([(second, 100)], to), 3: Listener()}
    return network.run(agents)


@pytest.mark.parametrize("gap", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("swap", [False, True])
def test_transmissions_that_overlap_at_a_common_neighbour_destroy_each_other(gap: float, swap: bool) -> None:
    run = on_air(*((gap, 0.0) if swap else (0.0, gap)))
    assert counts(run, receiver=0) == {"collided": 2}
    assert counts(run, receiver=3) == {"delivered": 1}
    assert run.ledger.wire_bits == 1600


@pytest.mark.parametrize("gap", [1.0, 1.001])
def test_transmissions_one_after_the_other_do_not_collide(gap: float) -> None:
    assert counts(on_air(0, gap)) == counts(on_air(gap, 0)) == {"delivered": 3}


def test_frames_that_one_station_sends_in_a_row_do_not_collide() -> None:
    network = Network(HIDDEN, Link(rate=800), medium=Radio(access="aloha"))
    run = network.run({0: Listener(), 1: speaker([(0, 100)] * 4, 0), 2: speaker([(2.5, 100)], 0), 3: Listener()})
    assert counts(run, sender=1) == {"delivered": 2, "collided": 2}
    assert counts(run, sender=2) == {"collided": 1}


def test_a_transmission_for_another_neighbour_interferes() -> None:
    for run in (on_air(0, 0.5, to=3), on_air(0.5, 0, to=3)):
        assert counts(run, sender=1) == {"collided": 1}
        assert counts(run, sender=2) == {"delivered": 1}


def test_a_frame_that_would_have_been_lost_interferes() -> None:
    for times in ((0, 0.5), (0.5, 0)):
        run = on_air(*times, from_2=Link(rate=800, loss=losing(0)))
        assert counts(run, sender=1) == {"collided": 1}


@pytest.mark.parametrize("latency_", [0.0, 2.5])
def test_a_latency_saves_no_transmission(latency_: float) -> None:
    run = on_air(0, 0.5, link=Link(rate=800, latency=latency_))
    assert counts(run, receiver=0) == {"collided": 2}
    assert counts(run, receiver=3) == {"delivered": 1}


def test_throughput_of_many_stations_is_that_of_pure_aloha() -> None:
    stations, load, count = 40, 0.5, 4000
    rng = np.random.default_rng(6)
    starts, who = poisson_times(load, count, seed=7), rng.integers(1, stations + 1, count)
    agents = {i: speaker([(time, 100) for time in starts[who == i]], 0) for i in range(1, stations + 1)}
    network = Network(nx.star_graph(stations), Link(rate=800), medium=Radio(access="aloha"))
    run = network.run({0: Listener(), **agents})
    throughput = counts(run)["delivered"] / starts[-1]
    # A station's own frames never overlap, so only the other stations' frames interfere.
    expected = load * math.exp(-2 * load * (1 - 1 / stations))
    assert throughput == pytest.approx(expected, rel=0.06)


# --- what is refused --------------------------------------------------------------------------------------------------


@every(
    ("make", "message"),
    [
        (lambda: Link(latency=-1), "latency = -1: must be a number >= 0"),
        (lambda: Link(latency=None), "latency = None: must be a number >= 0"),
        (lambda: Link(loss=2), "loss = 2: must be a probability in [0, 1]"),
        (lambda: Link(loss=loss.bernoulli), "loss = bernoulli: must be called: bernoulli(...)"),
        (lambda: Link(latency=latency.uniform), "latency = uniform: must be called: uniform(...)"),
        (lambda: Link(rate=opportunities), "rate = opportunities: must be called: opportunities(...)"),
        (lambda: Link(budget=Budget), "budget = Budget: must be called: Budget(...)"),
        (lambda: Link(reliability=Reliability), "reliability = Reliability: must be called: Reliability(...)"),
        (lambda: Link(rate=0), "rate = 0: must be a number > 0"),
        (lambda: Link(rate=math.inf), "rate = inf: must be finite"),
        (lambda: Link(rate=1, queue=0), "queue = 0: must be a whole number >= 1"),
        (lambda: Link(rate=1, queue_bits=1.5), "queue_bits = 1.5: must be a whole number >= 1"),
        (lambda: Link(queue=4), "queue = 4: must come with a rate or a budget, or nothing ever waits"),
        (lambda: Link(queue_bits=9), "queue_bits = 9: must come with a rate or a budget, or nothing ever waits"),
        (lambda: Link(mtu=0), "mtu = 0: must be a whole number >= 1"),
        (lambda: Link(header_bits=-1), "header_bits = -1: must be a whole number from 0 to 2147483647"),
        (lambda: Link(header_bits=2**31), "header_bits = 2147483648: must be a whole number from 0 to 2147483647"),
        (lambda: Link(duplicate=1.1), "duplicate = 1.1: must be a probability in [0, 1]"),
        (lambda: Link(corrupt=math.nan), "corrupt = nan: must be a probability in [0, 1]"),
        (lambda: Link(crc="yes"), "crc = 'yes': must be True or False"),
        (lambda: Link(fifo=0.5), "fifo = 0.5: must be True or False"),
        (lambda: Link(budget=0), "budget = 0: must be a number > 0"),
        (lambda: Link(budget="much"), "budget = 'much': must be a number > 0"),
        (lambda: Budget(-1), "budget = -1: must be a number > 0"),
        (lambda: Budget(1, per="hour"), "per = 'hour': must be one of round, second"),
        (lambda: Budget(1, per="secnd"), "per = 'secnd': must be one of round, second (did you mean 'second'?)"),
        (lambda: Budget(1, over="drop"), "over = 'drop': must be one of refuse, wait"),
        (lambda: Budget(1, per="second", burst=0), "burst = 0: must be a number > 0"),
        (lambda: Budget(1, burst=5), "burst = 5: must be None for a budget per round"),
    ],
)
def test_bad_links_are_refused_in_one_line(make: Any, message: str) -> None:
    assert message_of(make, BadInput) == message


NUMBERS = [np.float32, np.float64, np.uint8, np.int64, Fraction, int, float]


@pytest.mark.parametrize("kind", NUMBERS)
def test_every_setting_is_kept_as_a_number_of_pythons_own(kind: Any) -> None:
    number = kind(100)
    link = Link(latency=number, rate=number, budget=number, loss=kind(1), duplicate=kind(0), corrupt=kind(1))
    bucket = Budget(number, per="second", burst=number)
    found = [link.latency_model.fixed, link.rate, link.loss_model.mean, link.duplicate, link.corrupt]
    found += [link.budget_model.bits, bucket.bits, bucket.burst]
    assert found == [100, 100, 1, 0, 1, 100, 100, 100]
    # If a setting kept its type, 10**25 bits/s would differ from 1e25, and so would the run.
    assert {type(value) for value in found} == {float}
    if kind in WHOLE:
        link = Link(rate=1, queue=number, queue_bits=number, mtu=number, header_bits=number)
        sizes = [link.queue, link.queue_bits, link.mtu, link.header_bits]
        assert sizes == [100] * 4
        assert {type(value) for value in sizes} == {int}


WHOLE = (int, np.uint8, np.int64)


def test_flags_are_kept_as_true_or_false() -> None:
    link = Link(crc=np.False_, fifo=np.True_)
    assert link.crc is False
    assert link.fifo is True


@every("value", [Decimal(1), np.array(1.0), np.array([1.0]), True, np.True_, "1", None, 1j, []])
@every(
    "make",
    [
        lambda value: Link(latency=value),
        lambda value: Link(loss=value),
        lambda value: Link(rate=value) if value is not None else Budget(value),
        lambda value: Link(rate=1, queue=value) if value is not None else Budget(value),
        lambda value: Link(rate=1, queue_bits=value) if value is not None else Budget(value),
        lambda value: Link(mtu=value) if value is not None else Budget(value),
        lambda value: Link(header_bits=value),
        lambda value: Link(duplicate=value),
        lambda value: Link(corrupt=value),
        lambda value: Link(budget=value) if value is not None else Budget(value),
        lambda value: Budget(1, per="second", burst=value) if value is not None else Budget(value),
        lambda value: latency.uniform(0, value),
        lambda value: latency.normal(value, 0),
        lambda value: latency.pareto(1, value),
        lambda value: latency.exponential(value),
        lambda value: loss.gilbert_elliott(0.1, value),
    ],
)
def test_what_is_no_number_is_refused_at_once(make: Any, value: Any) -> None:
    with pytest.raises(BadInput, match=r"^\w+ = [^\n]+: must be [^\n]+$"):
        make(value)


@every(
    "link",
    [
        Link(rate=1e-300),
        Link(rate=5e-324),
        Link(rate=1e300),
        Link(rate=np.float32(1e-38)),
        Link(latency=1e308),
        Link(latency=5e-324),
        Link(latency=latency.uniform(0, 1e308)),
        Link(latency=latency.pareto(1e-300, 1e300)),
        Link(budget=5e-324),
        Link(budget=Budget(5e-324, "second", "wait")),
        Link(budget=Budget(5e-324, "second", "wait", burst=1e300)),
        Link(budget=Budget(1e-300, "second", "wait", burst=1000)),
        Link(budget=1e308),
        Link(rate=8e3, queue=10**30, queue_bits=10**30, mtu=10**30),
        Link(header_bits=2**31 - 1, mtu=1),
        Link(loss=5e-324, duplicate=5e-324, corrupt=5e-324),
        Link(loss=loss.gilbert_elliott(1e-300, 1e300)),
    ],
)
@every("medium", ["wires", "radio"])
def test_a_run_at_the_ends_of_the_ranges_ends(link: Link, medium: Any) -> None:
    network = Network(nx.path_graph(3), link, medium=medium)
    run = network.run({0: Rounder(4), 1: Rounder(4, keep_late=True), 2: speaker([(0, 100)] * 3, None)})
    assert counts(run)
    assert network.run({0: speaker([(0, 100)] * 9, 1), 1: Listener(), 2: Listener()}).ledger.link_messages == 9


def test_models_and_numbers_mean_the_same() -> None:
    models = Link(latency=latency.constant(0.5), loss=loss.bernoulli(0.1), budget=Budget(9))
    assert Link(latency=0.5, loss=0.1, budget=9) == models
