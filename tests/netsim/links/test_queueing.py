"""Links as queues, at the closed forms of queueing theory; `test_links` has M/M/1/K and pure ALOHA.

Frames of 1000 bytes at 8000 bit/s: a service takes one second, and the rate of arrivals is the load.
"""

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Link, Network, latency, loss
from netsim.links import Budget
from netsim.testing import Listener, Talker, counts, sized
from tests.netsim.links.test_links import mean_and_error, poisson_times, talk
from tests.parts import slow

COUNT = 8000


def waits(sizes: np.ndarray, times: np.ndarray, link: Link) -> np.ndarray:
    """Return the time (s) that each frame needs from its offer to its arrival, in the order of the offers."""
    run = talk(zip(times, sizes, strict=True), link)
    arrived = np.array(run.agents[1].times)
    assert len(arrived) == len(times)
    return arrived - times


@pytest.mark.parametrize("gap", [0.8, 1.0, 1.25])
def test_equal_frames_at_equal_times_wait_as_in_a_dd1_queue(gap: float) -> None:
    numbers = np.arange(200)
    wait = waits(np.full(200, 1000), gap * numbers, Link(rate=8e3)) - 1
    assert wait == pytest.approx(numbers * max(0.0, 1 - gap), abs=1e-8)


@pytest.mark.parametrize(("gap", "queue"), [(0.8, 1), (0.8, 5), (0.3, 2)])
def test_a_full_dd1_queue_drops_what_exceeds_its_rate(gap: float, queue: int) -> None:
    run = talk([(gap * n, 1000) for n in range(1000)], Link(rate=8e3, queue=queue))
    # A queue of length one holds the frame in transmission, so it accepts the first offer after that frame has left.
    period = gap * math.ceil(1 / gap) if queue == 1 else 1.0
    assert counts(run)["delivered"] == pytest.approx(1000 * gap / period + queue, abs=queue + 1)


@pytest.mark.parametrize("load", [0.4, 0.7])
def test_frames_of_two_sizes_wait_as_pollaczek_and_khinchine_say(load: float) -> None:
    rng = np.random.default_rng(11)
    sizes = np.where(rng.random(COUNT) < 0.25, 2500, 500)
    service = sizes / 1000
    times = poisson_times(load, COUNT, seed=12)
    wait, error = mean_and_error(waits(sizes, times, Link(rate=8e3)) - service)
    expected = load * (0.25 * 2.5**2 + 0.75 * 0.5**2) / (2 * (1 - load))
    assert error < 0.12 * expected
    assert wait == pytest.approx(expected, abs=3.5 * error)


@pytest.mark.parametrize("depth", [slow(1), 2, slow(3)])
def test_a_token_bucket_lets_through_at_once_what_finds_little_work_in_an_md1_queue(depth: int) -> None:
    load, x = 0.6, depth - 1
    budget = Budget(8000, per="second", over="wait", burst=8000 * depth)
    delays = waits(np.full(COUNT, 1000), poisson_times(load, COUNT, seed=13), Link(budget=budget))
    share, error = mean_and_error(delays < 1e-7)
    # The token bucket's deficit is the work left in an M/D/1 queue, whose distribution is Erlang's.
    terms = [(load * (k - x)) ** k / math.factorial(k) * math.exp(-load * (k - x)) for k in range(depth)]
    expected = (1 - load) * sum(terms)
    assert error < 0.03
    assert share == pytest.approx(expected, abs=3.5 * error)


@pytest.mark.parametrize("load", [slow(0.3), 1.0, slow(2.5)])
def test_a_token_bucket_of_one_frame_refuses_what_erlangs_loss_formula_says(load: float) -> None:
    budget = Budget(8000, per="second", over="refuse", burst=8000)
    run = talk([(time, 1000) for time in poisson_times(load, COUNT, seed=14)], Link(budget=budget))
    refused, error = mean_and_error(np.array(run.agents[0].took) == 0)
    assert error < 0.01
    assert refused == pytest.approx(load / (1 + load), abs=3.5 * error)


@pytest.mark.parametrize(("mean", "burst", "fragments"), [slow(0.1, 5.0, 4), (0.3, 2.0, 3), slow(0.2, 4.0, 8)])
def test_fragments_are_lost_in_bursts(mean: float, burst: float, fragments: int) -> None:
    link = Link(loss=loss.gilbert_elliott(mean, burst), mtu=100)
    run = talk([(n / 10, 100 * fragments) for n in range(COUNT)], link, trace=True)
    ends = run.trace.table().query("event != 'sent'").sort_values("message")["event"]
    lost, error = mean_and_error((ends == "lost").to_numpy())
    to_bad = mean / burst / (1 - mean)
    expected = 1 - (1 - mean) * (1 - to_bad) ** (fragments - 1)
    assert error < 0.05 * expected
    # A loss chain that skipped the remaining fragments of a lost frame, or stepped once a frame, would deviate by more.
    assert lost == pytest.approx(expected, abs=3.5 * error)


@pytest.mark.parametrize("fragments", [1, 3, 9])
def test_a_frame_takes_the_longest_of_its_fragments_latencies(fragments: int) -> None:
    times = 10.0 * np.arange(4000)
    delays = waits(np.full(4000, 100 * fragments), times, Link(latency=latency.uniform(0, 1), mtu=100))
    error = float(delays.std(ddof=1)) / math.sqrt(len(delays))
    assert delays.mean() == pytest.approx(fragments / (fragments + 1), abs=3.5 * error)


class Spreader(Talker):
    """Sends each frame to a randomly drawn neighbour."""

    async def say(self, payload: Any) -> None:
        await self.send(self.neighbors[int(self.rng.integers(2))], "m", payload)


@pytest.mark.parametrize(("medium", "load"), [("radio", 0.6), ("wires", 0.3)])
def test_a_radio_has_one_queue_for_all_neighbours_and_wires_one_for_each(medium: Any, load: float) -> None:
    plan = [(time, sized(1000)) for time in poisson_times(0.6, COUNT, seed=15)]
    network = Network(nx.star_graph(2), Link(rate=8e3), medium=medium, seed=1)
    run = network.run({0: Spreader(plan), 1: Listener(), 2: Listener()}, trace=True)
    times = run.trace.table().pivot(index="message", columns="event", values="time_s")
    wait, error = mean_and_error((times["delivered"] - times["sent"]).to_numpy() - 1)
    expected = load / (2 * (1 - load))
    assert error < 0.12 * expected
    assert wait == pytest.approx(expected, abs=3.5 * error)
