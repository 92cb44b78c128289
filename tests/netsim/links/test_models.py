import itertools
import math
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from netsim import Link, Network, latency, loss
from netsim.core.link_draws import LinkDraws
from netsim.errors import BadInput
from netsim.links import reliability
from netsim.links.latency import Latency
from netsim.links.loss import Clocked, GilbertElliott, Loss
from netsim.testing import Listener, Talker, play
from netsim.transport.stages import Path
from netsim.util.draws import Stream, generator, link_keys, name_key, stream_keys, uniforms
from tests.command import python
from tests.parts import every, message_of, slow

MANY = 4_000


def key(name: str) -> np.ndarray:
    return np.array([name_key(name)], dtype=np.uint64)


def burst(count: int, one_by_one: bool) -> Talker:
    """Send frames 0, 1, … at the same instant, by broadcast or to one neighbour."""
    return Talker([(0, number) for number in range(count)], 1 if one_by_one else None)


def arrivals(link: Link, count: int = MANY, seed: int = 1, one_by_one: bool = False) -> dict[int, float]:
    """Return the arrival time (s) of each numbered frame; all are sent over one link at time 0."""
    run = play(burst(count, one_by_one), Listener(), link=link, seed=seed)
    assert run.ledger.table()["offered"].tolist() == [count]
    return {number: time for time, _, number in run.agents[1].heard}


def losses(model: float | Loss, count: int = MANY, seed: int = 1, one_by_one: bool = False) -> np.ndarray:
    arrived = arrivals(Link(loss=model), count, seed, one_by_one)
    return np.array([number not in arrived for number in range(count)])


# --- latency ----------------------------------------------------------------------------------------------------------

DISTRIBUTIONS = {
    "uniform": (latency.uniform(5e-3, 20e-3), stats.uniform(5e-3, 15e-3)),
    "normal": (latency.normal(10e-3, 3e-3), stats.norm(10e-3, 3e-3)),
    "exponential": (latency.exponential(10e-3), stats.expon(0, 10e-3)),
    "shifted exponential": (latency.exponential(10e-3, minimum=8e-3), stats.expon(8e-3, 2e-3)),
    "pareto": (latency.pareto(2e-3, 3.5), stats.pareto(3.5, scale=2e-3)),
    "log-normal": (latency.lognormal(5e-3, 0.5), stats.lognorm(0.5, scale=5e-3)),
}


@pytest.mark.parametrize("one_by_one", [False, True], ids=["broadcast", "send"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_delays_on_a_link_have_the_configured_distribution(name: str, one_by_one: bool) -> None:
    model, expected = DISTRIBUTIONS[name]
    delays = np.array(list(arrivals(Link(latency=model), one_by_one=one_by_one).values()))
    assert len(delays) == MANY
    # A normal latency, truncated at zero, equals zero with a probability of 0.04 %.
    assert stats.kstest(delays, expected.cdf).pvalue > 1e-3
    error = expected.std() / math.sqrt(MANY)
    assert delays.mean() == pytest.approx(expected.mean(), abs=4 * error)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_quantiles_of_a_latency_model_are_those_of_its_distribution(name: str) -> None:
    model, expected = DISTRIBUTIONS[name]
    levels = np.array([[0.0, 0.001], [0.25, 0.5], [0.75, 0.9], [0.99, 1 - 2**-53]])
    delays = model.delays(levels.copy(), 0)
    assert delays.shape == levels.shape
    assert delays[1:] == pytest.approx(expected.ppf(levels[1:]), rel=1e-9)
    assert np.all(np.isfinite(delays))
    assert np.all(delays >= 0)


@pytest.mark.parametrize(
    "model",
    [
        0.02,
        latency.constant(0.02),
        latency.uniform(0.02, 0.02),
        latency.normal(0.02, 0),
        latency.exponential(0.02, 0.02),
    ],
)
def test_latencies_without_spread(model: float | Latency) -> None:
    assert list(arrivals(Link(latency=model), 50).values()) == pytest.approx([0.02] * 50)


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_latency_trace_is_read_in_order_and_again(count: int, one_by_one: bool) -> None:
    trace = np.random.default_rng(0).uniform(1, 2, 37)
    for begin in (0, 5):
        found = arrivals(Link(latency=latency.trace(trace, offsets=begin)), count, one_by_one=one_by_one)
        assert [found[i] for i in range(count)] == pytest.approx(
            [trace[(begin + i) % 37] for i in range(count)], abs=1e-8
        )


@pytest.mark.parametrize("medium", ["wires", "radio"])
@pytest.mark.parametrize("simple", [True, False])
def test_links_read_a_latency_trace_from_places_of_their_own(medium: Any, simple: bool) -> None:
    record = np.arange(20) / 100.0

    def first_of(leaves: int, seed: int, **begin: int) -> list[int]:
        link = Link(latency=latency.trace(record, **begin), **({} if simple else {"duplicate": 1e-12}))
        network = Network(nx.star_graph(leaves), link, medium=medium, seed=seed)
        run = network.run({0: burst(40, one_by_one=False), **{i: Listener() for i in range(1, leaves + 1)}})
        found = []
        for leaf in range(1, leaves + 1):
            late = [time for _, time in sorted((number, time) for time, _, number in run.agents[leaf].heard)]
            places = [round(100 * time) for time in late]
            assert places == [(places[0] + n) % 20 for n in range(40)]
            found.append(places[0])
        return found

    found = first_of(20, seed=1)
    assert len(set(found)) > 8
    # The initial position depends only on the seed and on the link's ends.
    assert first_of(20, seed=1) == found != first_of(20, seed=2)
    assert first_of(3, seed=1) == found[:3]
    begins = [place for seed in range(10, 25) for place in first_of(20, seed=seed)]
    assert stats.chisquare(np.bincount(begins, minlength=20)).pvalue > 1e-3
    # With an explicit offset, all links read the same position of the trace.
    assert first_of(20, seed=1, offsets=7) == [7] * 20


def test_a_typical_delay_of_a_trace_is_its_median() -> None:
    assert reliability.typical(latency.trace([9.0, 1.0, 2.0])) == 2.0
    assert reliability.typical(latency.constant(0.5)) == 0.5


# --- loss -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_by_one", [False, True], ids=["broadcast", "send"])
@pytest.mark.parametrize("probability", [0.001, 0.1, 0.5, 0.97])
def test_independent_losses_are_a_binomial_number(probability: float, one_by_one: bool) -> None:
    lost = losses(probability, one_by_one=one_by_one)
    assert stats.binomtest(int(lost.sum()), MANY, probability).pvalue > 1e-3
    pairs = int((lost[1:] & lost[:-1]).sum())
    assert stats.binomtest(pairs, MANY - 1, probability**2).pvalue > 1e-4


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_losses(probability: float) -> None:
    assert losses(probability, 500).mean() == losses(probability, 500, one_by_one=True).mean() == probability


def lost_at(model: Loss, times: "np.ndarray", seed: int = 1) -> np.ndarray:
    """Return a boolean array: which frames, sent over one link at these times (s), were lost."""
    run = play(Talker([(float(time), n) for n, time in enumerate(times)]), Listener(), link=Link(loss=model), seed=seed)
    arrived = set(run.agents[1].payloads)
    return np.array([n not in arrived for n in range(len(times))])


BURSTS = [(0.1, 5.0), slow(0.5, 2.0), (0.5, 1.0), slow(0.02, 10.0), (0.8, 4.0), slow(0.3, 1.5)]


@pytest.mark.parametrize("slot", [None, 0.1])
@pytest.mark.parametrize(("mean", "burst"), BURSTS)
def test_gilbert_elliott_has_its_mean_loss_burst_length_and_correlation(
    mean: float, burst: float, slot: float | None
) -> None:
    r = 1 / burst
    p = mean * r / (1 - mean)
    model = loss.gilbert_elliott(mean, burst, slot=slot)
    # Models without time slots get all frames at one time; slotted models get one frame a slot.
    times = np.zeros(MANY) if slot is None else slot * np.arange(MANY)
    lost = np.concatenate([lost_at(model, times, seed) for seed in range(2 if slot is None else 1)])
    correlation = 1 - p - r
    # The variance of the mean of correlated losses is that of this many independent losses.
    independent = len(lost) * (1 - correlation) / max(1 + correlation, 1e-9)
    assert lost.mean() == pytest.approx(mean, abs=4 * math.sqrt(mean * (1 - mean) / independent) + 1e-12)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], lost.astype(int), [0]])))
    lengths = edges[1::2] - edges[::2]
    assert lengths.mean() == pytest.approx(burst, abs=4 * math.sqrt((1 - r) / r**2 / len(lengths)) + 1e-3)
    assert np.corrcoef(lost[1:], lost[:-1])[0, 1] == pytest.approx(correlation, abs=4 / math.sqrt(independent) + 1e-3)
    assert loss.gilbert_elliott(mean, burst).mean == pytest.approx(mean)


def test_gilbert_elliott_starts_in_its_stationary_state() -> None:
    model = loss.gilbert_elliott(0.3, 20)
    first = [model.on_link(u)(0.5) for u in uniforms(key("start"), 0, 4000)[:, 0]]
    assert stats.binomtest(sum(first), 4000, 0.3).pvalue > 1e-3


@pytest.mark.parametrize("slot", [None, 1.0])
@pytest.mark.parametrize("length", [slow(2.0), 5.0, slow(40.0)])
def test_what_bursts_lose_they_lose_at_each_higher_mean_loss(length: float, slot: float | None) -> None:
    means = [mean for mean in (0.001, 0.01, 0.1, 0.3, 0.5, 0.8) if length >= 1 / (1 - mean)]
    times = np.arange(3000.0)
    rows = [lost_at(loss.gilbert_elliott(mean, length, slot=slot), times) for mean in means]
    assert len(rows) > 3
    assert not [n for n, (less, more) in enumerate(itertools.pairwise(rows)) if (less & ~more).any()]
    assert 0 < rows[-3].sum() < rows[-1].sum()


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("mean", [0.05, 0.3, 0.5])
def test_bursts_as_long_as_those_of_independent_losses_are_independent_losses(mean: float, one_by_one: bool) -> None:
    lost = losses(loss.gilbert_elliott(mean, 1 / (1 - mean)), 2000, one_by_one=one_by_one)
    assert stats.binomtest(int(lost.sum()), 2000, mean).pvalue > 1e-3
    if not one_by_one:
        assert lost.tolist() == losses(mean, 2000).tolist()


@pytest.mark.parametrize(("mean", "burst"), [*BURSTS, slow(0.5, 1.2), (0.2, 1.0), (0.0, 1.0), slow(0.01, 3000.0)])
def test_a_channel_that_moves_on_with_time_does_so_whatever_is_sent(mean: float, burst: float) -> None:
    """The losses depend on the time only: a sparse sender loses the same frames as one that sends in each slot."""
    model = loss.gilbert_elliott(mean, burst, slot=0.1)
    always = lost_at(model, 0.1 * np.arange(4000))
    now_and_then = np.flatnonzero(np.random.default_rng(0).random(4000) < 0.01)
    assert lost_at(model, 0.1 * now_and_then).tolist() == always[now_and_then].tolist()
    # Three frames sent in the same slot share one outcome.
    thrice = lost_at(model, 0.1 * (np.arange(900) // 3) + 0.03 * (np.arange(900) % 3))
    assert thrice.tolist() == np.repeat(always[:300], 3).tolist()


@pytest.mark.parametrize(("mean", "burst"), [(0.3, 4.0), (0.5, 1.2), (0.1, 50.0)])
@pytest.mark.parametrize("gap", [1, slow(2), 7, slow(100)])
def test_after_a_gap_a_channel_in_time_is_what_the_two_state_chain_says(mean: float, burst: float, gap: int) -> None:
    """P(bad after g slots | bad) = mean + (1 − mean) λ^g, with λ = 1 − p − r."""
    model = loss.gilbert_elliott(mean, burst, slot=1.0)
    assert isinstance(model, loss.GilbertElliott)
    rate = 1 - model.p - model.r
    # Each pair of frames is ``gap`` slots apart, and far from the other pairs.
    starts = np.arange(4000) * (gap + 1001)
    lost = lost_at(model, np.stack([starts, starts + gap], axis=1).ravel()).reshape(-1, 2)
    after_bad = lost[lost[:, 0], 1]
    assert len(after_bad) > 300
    expected = mean + (1 - mean) * rate**gap
    assert after_bad.mean() == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / len(after_bad)))


def test_a_channel_in_time_costs_little_after_a_long_silence() -> None:
    """The state is computed from a bounded number of earlier slots, not over a million slots."""
    model = loss.gilbert_elliott(0.2, 8.0, slot=1e-3)
    before = uniforms.__globals__["_mix"]
    drawn = []

    def counted(z: Any) -> Any:
        drawn.append(z.size)
        return before(z)

    decide = model.on_link(0.3)
    uniforms.__globals__["_mix"] = counted
    try:
        for hour in range(1, 100):
            decide.time = 3600.0 * hour  # type: ignore[attr-defined]
            decide(0.5)
    finally:
        uniforms.__globals__["_mix"] = before
    assert 99 <= sum(drawn) < 99 * 200


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_loss_trace_is_read_in_order_and_again(one_by_one: bool) -> None:
    record = [False, True, True, False, True]
    for begin in range(5):
        lost = losses(loss.trace(record, offsets=begin), 12, one_by_one=one_by_one)
        assert lost.tolist() == [record[(begin + n) % 5] for n in range(12)]
    assert loss.trace([True, False]).mean == 0.5
    assert not losses(loss.trace([0]), 9).any()


@pytest.mark.parametrize("medium", ["wires", "radio"])
def test_links_read_a_loss_trace_from_places_of_their_own(medium: Any) -> None:
    """Each of twenty links loses one frame in twenty, and the links do not all lose the same frame."""
    record = [1] + [0] * 19

    def lost_of(leaves: int, seed: int, **begin: int) -> list[list[bool]]:
        network = Network(nx.star_graph(leaves), Link(loss=loss.trace(record, **begin)), medium=medium, seed=seed)
        run = network.run({0: burst(40, one_by_one=False), **{i: Listener() for i in range(1, leaves + 1)}})
        heard = [set(run.agents[i].payloads) for i in range(1, leaves + 1)]
        return [[n not in each for n in range(40)] for each in heard]

    found = lost_of(20, seed=1)
    assert all(np.flatnonzero(row).tolist() == [row.index(True), row.index(True) + 20] for row in found)
    assert len({row.index(True) for row in found}) > 8
    assert np.sum(found, axis=0).max() < 8
    # The initial position depends only on the seed and on the link's ends.
    assert lost_of(20, seed=1) == found != lost_of(20, seed=2)
    assert lost_of(3, seed=1) == found[:3]
    places = [row.index(True) for seed in range(10, 25) for row in lost_of(20, seed=seed)]
    assert stats.chisquare(np.bincount(places, minlength=20)).pvalue > 1e-3
    # With an explicit offset, all links read the same position of the trace.
    assert np.sum(lost_of(20, seed=1, offsets=0), axis=0).tolist() == [20, *[0] * 19] * 2


# --- draws ------------------------------------------------------------------------------------------------------------


def test_a_stream_reads_the_numbers_of_its_key() -> None:
    stream = Stream(int(key("a")[0]))
    assert [stream.uniform() for _ in range(100)] == uniforms(key("a"), 0, 100)[:, 0].tolist()


def test_numbers_do_not_depend_on_how_they_are_read() -> None:
    keys = np.concatenate([key("a"), key("b"), key("c")])
    whole = uniforms(keys, 0, 90)
    assert np.array_equal(np.concatenate([uniforms(keys, first, 9) for first in range(0, 90, 9)]), whole)
    assert np.array_equal(uniforms(keys[1:2], 0, 90)[:, 0], whole[:, 1])


def test_numbers_are_uniform_and_independent_from_one_to_the_next_and_between_streams() -> None:
    names = np.array([name_key(i) for i in range(12)], dtype=np.uint64)
    senders, receivers = (grid.ravel() for grid in np.meshgrid(names, names))
    links = link_keys(senders, receivers)
    keys = [stream_keys(seed, links, purpose) for seed in (0, 1) for purpose in ("loss", "latency")]
    numbers = uniforms(np.concatenate(keys), 0, 500)
    assert numbers.shape == (500, 4 * 144)
    assert np.unique(numbers[0]).size == numbers.shape[1]
    assert 0 <= numbers.min() <= numbers.max() < 1
    assert stats.kstest(numbers.ravel(), "uniform").pvalue > 1e-3
    # If samples are uniform, the p-values of their tests are uniform, too; tested along and across the streams.
    for samples in (numbers.T, numbers):
        assert stats.kstest([stats.kstest(sample, "uniform").pvalue for sample in samples], "uniform").pvalue > 1e-3
    correlations = np.corrcoef(numbers.T)[np.triu_indices(numbers.shape[1], 1)] * math.sqrt(500)
    assert correlations.std() == pytest.approx(1, abs=0.02)
    assert np.abs(correlations).max() < 6
    successive = np.array([np.corrcoef(s[1:], s[:-1])[0, 1] for s in numbers.T]) * math.sqrt(499)
    assert abs(successive.mean()) < 4 / math.sqrt(len(successive))
    assert np.abs(successive).max() < 5


def test_bits_of_the_numbers_are_fair() -> None:
    draws = (uniforms(key("bits"), 0, 50_000)[:, 0] * 2**53).astype(np.uint64)
    ones = np.array([int(((draws >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(53)])
    assert np.abs(ones - 25_000).max() < 4.5 * math.sqrt(50_000) / 2


def test_names_purposes_seeds_and_directions_have_streams_of_their_own() -> None:
    names = [0, 1, "0", "1", 0.5, (0, 1), (1, 0), "a", b"a", None, -1]
    keys = np.array([name_key(name) for name in names], dtype=np.uint64)
    assert len(set(keys.tolist())) == len(names)
    both = np.array([link_keys(keys[i : i + 1], keys[j : j + 1])[0] for i in range(11) for j in range(11)])
    assert len(set(both.tolist())) == 121
    streams = [stream_keys(seed, both, purpose) for seed in (0, 1, -1, 2**70) for purpose in ("a", "b", "")]
    assert len(set(np.concatenate(streams).tolist())) == 121 * 12
    states = {generator(seed, who, what).bytes(8) for seed in (0, 1) for who in names for what in ("agent", "")}
    assert len(states) == 2 * 11 * 2


@pytest.mark.parametrize(
    "link",
    [
        Link(latency=latency.uniform(0, 1), loss=0.3),
        Link(latency=latency.pareto(1, 2)),
        Link(loss=0.5),
        Link(latency=2.0),
        Link(latency=latency.trace([1, 2, 3]), loss=0.1),
    ],
)
def test_the_size_of_blocks_changes_no_number(link: Link) -> None:
    keys = np.concatenate([key("a"), key("b"), key("c")])
    small, large = (LinkDraws([link, link, Link(latency=0.5)], keys, 7, block) for block in (8, 128))
    rows = [small.next() for _ in range(300)]
    assert rows == [large.next() for _ in range(300)]
    assert all(delay == 0.5 for _, _, delay in rows)
    alone = LinkDraws([link], keys[:1], 7, 32)
    assert [alone.next()[0] for _ in range(300)] == [row[0] for row in rows]


def test_longest_is_the_longest_delay_of_the_block() -> None:
    draws = LinkDraws(
        [Link(latency=latency.uniform(0, 1)), Link(latency=0.25)], np.concatenate([key("a"), key("b")]), 0, 16
    )
    for _ in range(5):
        rows = [draws.next()]
        longest = draws.longest
        rows += [draws.next() for _ in range(15)]
        assert max(map(max, rows)) == longest


def test_a_path_draws_what_the_fan_draws_and_each_stage_has_a_stream_of_its_own() -> None:
    link = Link(latency=latency.uniform(0, 1), loss=0.3)
    draws, path = LinkDraws([link], key("a"), 3, 64), Path(link, key("a"), 3)
    damaged = Path(Link(latency=latency.uniform(0, 1), loss=0.3, duplicate=0.5, corrupt=0.5), key("a"), 3)
    apart = Path(link, key("a"), 3, "one by one ")
    rows = [draws.next()[0] for _ in range(200)]
    arrived = [path.carry([0.0]) for _ in range(200)]
    assert [bool(a) for a in arrived] == [delay >= 0 for delay in rows]
    assert all(a[0][0] == delay for a, delay in zip(arrived, rows, strict=True) if a)
    assert [bool(damaged.carry([0.0])) for _ in range(200)] == [bool(a) for a in arrived]
    assert [bool(apart.carry([0.0])) for _ in range(200)] != [bool(a) for a in arrived]


def test_numbers_are_the_same_in_another_process() -> None:
    program = """
import numpy as np
from netsim.util.draws import *
keys = np.array([name_key(n) for n in ("a", 1, (2, "b"))], dtype=np.uint64)
print(uniforms(stream_keys(5, link_keys(keys, keys[::-1]), "loss"), 3, 4).tolist())
print(generator(5, "a", "agent").random())
"""
    outputs = [python(program, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    keys = np.array([name_key(n) for n in ("a", 1, (2, "b"))], dtype=np.uint64)
    here = uniforms(stream_keys(5, link_keys(keys, keys[::-1]), "loss"), 3, 4).tolist()
    assert outputs[0] == outputs[1] == f"{here}\n{generator(5, 'a', 'agent').random()}\n"


def test_the_first_numbers_are_pinned() -> None:
    # If this value changed, every published run would change.
    assert uniforms(np.array([0], dtype=np.uint64), 0, 1)[0, 0] == (0xE220A8397B1DCDAF >> 11) * 2.0**-53
    assert name_key("a") == 0x3395AC8F5BBE65A7


# --- what is refused --------------------------------------------------------------------------------------------------


@every(
    ("make", "message"),
    [
        (lambda: latency.constant(-1), "latency = -1: must be a number >= 0"),
        (lambda: latency.constant(math.nan), "latency = nan: must be a number >= 0"),
        (lambda: latency.constant(math.inf), "latency = inf: must be finite"),
        (lambda: latency.constant(True), "latency = True: must be a number >= 0"),
        (lambda: latency.constant(10**400), "latency = 100000000000000000...0000000000000000000: must be finite"),
        (lambda: latency.uniform(2, 1), "high = 1: must be a number >= 2"),
        (lambda: latency.uniform(-1, 1), "low = -1: must be a number >= 0"),
        (
            lambda: latency.normal(1, 0.5),
            "deviation = 0.5: must be at most a third of mean = 1, or delays would be negative",
        ),
        (lambda: latency.normal(1, -0.5), "deviation = -0.5: must be a number >= 0"),
        (lambda: latency.exponential(1, 2), "mean = 1: must be a number >= 2"),
        (lambda: latency.pareto(0, 2), "minimum = 0: must be a number > 0"),
        (lambda: latency.pareto(1, 1), "shape = 1: must be a number > 1"),
        (lambda: latency.lognormal(-1, 1), "median = -1: must be a number >= 0"),
        (lambda: latency.lognormal(1, -1), "sigma = -1: must be a number >= 0"),
        (lambda: latency.lognormal(1, 1e3), "sigma = 1000.0: must be so small that every delay is finite"),
        (lambda: latency.trace([]), "seconds = []: must be at least one delay, none of them negative"),
        (lambda: latency.trace([1, -1]), "seconds = [1, -1]: must be at least one delay, none of them negative"),
        (lambda: latency.trace([1, math.nan]), "seconds[1] = nan: must be finite (1 such values)"),
        (lambda: latency.trace(["soon"]), "seconds = ['soon']: must be an array of real numbers"),
        (lambda: latency.of("soon"), "latency = 'soon': must be a number >= 0"),
        (lambda: loss.bernoulli(1.5), "loss = 1.5: must be a probability in [0, 1]"),
        (
            lambda: loss.of([0.5]),
            "loss = [0.5]: must be a probability in [0, 1] or a loss model, with mean and on_link(u)",
        ),  # type: ignore[arg-type]
        (lambda: loss.bernoulli(-0.1), "loss = -0.1: must be a probability in [0, 1]"),
        (lambda: loss.bernoulli(math.nan), "loss = nan: must be a probability in [0, 1]"),
        (lambda: loss.of("half"), "loss = 'half': must be a probability in [0, 1]"),
        (lambda: loss.gilbert_elliott(0.6, 1), "mean = 0.6: must be at most burst/(1 + burst) = 0.5 for burst = 1"),
        (lambda: loss.gilbert_elliott(1, 9), "mean = 1: must be at most burst/(1 + burst) = 0.9 for burst = 9"),
        (lambda: loss.gilbert_elliott(0.1, 0.5), "burst = 0.5: must be a number >= 1"),
        (lambda: loss.gilbert_elliott(0.1, math.inf), "burst = inf: must be finite"),
        (lambda: loss.gilbert_elliott(2, 3), "mean = 2: must be a probability in [0, 1]"),
        (lambda: loss.trace([]), "lost = []: must be a sequence of at least one 0 (arrived) or 1 (lost)"),
        (lambda: loss.trace([0, 2]), "lost = [0, 2]: must be a sequence of at least one 0 (arrived) or 1 (lost)"),
        (lambda: loss.trace(1), "lost = 1: must be a sequence of at least one 0 (arrived) or 1 (lost)"),
        (
            lambda: loss.trace([0, [0.5], 1]),
            "lost = [0, [0.5], 1]: must be a sequence of at least one 0 (arrived) or 1 (lost)",
        ),
        (lambda: loss.trace([[0, 1]]), "lost = [[0, 1]]: must be a sequence of at least one 0 (arrived) or 1 (lost)"),
        (
            lambda: loss.trace(["0", "1"]),
            "lost = ['0', '1']: must be a sequence of at least one 0 (arrived) or 1 (lost)",
        ),
        (lambda: latency.trace([0, [0.5]]), "seconds = [0, [0.5]]: must be an array of numbers, of shape (n,)"),
        (
            lambda: latency.trace([[1.0], [2.0]]),
            "seconds = [[1.0], [2.0]]: must be an array of numbers, of shape (n,); its shape is (2, 1)",
        ),
        (lambda: latency.trace(0.1), "seconds = 0.1: must be an array of numbers, of shape (n,)"),
        (lambda: latency.trace([True]), "seconds = [True]: must be an array of real numbers"),
        (lambda: latency.trace([1, 2], offsets=2), "offsets = 2: must be a whole number from 0 to 1"),
        (lambda: loss.trace([0, 1], offsets=2), "offsets = 2: must be a whole number from 0 to 1"),
        (lambda: loss.trace([0, 1], offsets=-1), "offsets = -1: must be a whole number from 0 to 1"),
        (lambda: loss.gilbert_elliott(0.1, 3, slot=0), "slot = 0: must be a number >= 1e-09"),
        (lambda: loss.gilbert_elliott(0.1, 3, slot=math.inf), "slot = inf: must be finite"),
        (lambda: latency.exponential(1e308), "mean = 1e+308: must be so small that every delay is finite"),
        (lambda: latency.normal(1.7e308, 5e307), "mean = 1.7e+308: must be so small that every delay is finite"),
        (lambda: latency.pareto(1e300, 1.01), "minimum = 1e+300: must be so small that every delay is finite"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(make: Any, message: str) -> None:
    assert message_of(make, BadInput) == message


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        # Each argument is valid as written, but exact arithmetic on its rounded floating-point value would refuse it.
        (lambda: latency.normal(0.3, 0.1), latency.Normal(0.3, 0.1)),
        (lambda: latency.normal(3e-3, 1e-3 * (1 + 1e-15)), latency.Normal(3e-3, 1e-3 * (1 + 1e-15))),
        (lambda: latency.uniform(0.1 + 0.2, 0.3), latency.Uniform(0.1 + 0.2, 0.1 + 0.2)),
        (lambda: latency.exponential(0.3, minimum=0.1 + 0.2), latency.Exponential(0.1 + 0.2, 0.1 + 0.2)),
        (lambda: loss.bernoulli(1 - 0.9 - 0.1), loss.Bernoulli(0.0)),
        (lambda: loss.bernoulli(0.7 + 0.2 + 0.1 + 2**-52), loss.Bernoulli(1.0)),
        (lambda: loss.gilbert_elliott(0.5, 0.1 * 3 / 0.3 - 2**-52), loss.GilbertElliott(1.0, 1.0)),
        (lambda: loss.gilbert_elliott(0.8, 4), loss.GilbertElliott(1.0, 0.25)),
    ],
)
def test_rounding_is_no_reason_to_refuse(make: Any, expected: Any) -> None:
    assert make() == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: latency.normal(0.3, 0.1 + 1e-9),
        lambda: latency.uniform(0.3, 0.3 - 1e-9),
        lambda: latency.uniform(0, -1e-15),
        lambda: latency.exponential(0.3, 0.3 + 1e-9),
        lambda: loss.bernoulli(-1e-14),
        lambda: loss.bernoulli(1 + 1e-14),
        lambda: loss.gilbert_elliott(0.5, 1 - 1e-9),
        lambda: loss.gilbert_elliott(0.8 + 1e-9, 4),
    ],
)
def test_what_is_more_than_rounding_is_refused(make: Any) -> None:
    with pytest.raises(BadInput):
        make()


def test_gilbert_elliotts_errors_have_the_names_that_the_user_gave() -> None:
    def message(mean: Any, burst: Any) -> str:
        with pytest.raises(BadInput) as caught:
            loss.gilbert_elliott(mean, burst, names=("loss", "length"))
        return str(caught.value)

    assert message(0.9, 1.2) == "loss = 0.9: must be at most length/(1 + length) = 0.545455 for length = 1.2"
    assert message(2, 3) == "loss = 2: must be a probability in [0, 1]"
    assert message(0.1, 0.5) == "length = 0.5: must be a number >= 1"


def test_a_trace_of_delays_may_have_any_but_negative_ones() -> None:
    assert latency.trace([0.0, 0.5, 5e-324]).delays(np.zeros((4, 2)), 1)[:, 1].tolist() == [0.5, 5e-324, 0.0, 0.5]
    with pytest.raises(BadInput, match="none of them negative"):
        latency.trace([1.0, -5e-324])


def test_a_trace_of_delays_is_the_models_own() -> None:
    measured = np.array([1.0, 2.0])
    model = latency.trace(measured)
    measured[:] = 99.0
    assert model.delays(np.zeros((2, 1)), 0).tolist() == [[1.0], [2.0]]


def test_models_keep_numbers_of_pythons_own() -> None:
    third = np.float32(1 / 3)
    models = [
        latency.uniform(third, np.int8(1)),
        latency.normal(third, np.float16(0)),
        latency.pareto(third, np.int8(2)),
    ]
    models += [
        latency.exponential(np.uint8(2), third),
        loss.gilbert_elliott(third, np.uint8(2), slot=third),
        loss.bernoulli(third),
    ]
    models += [latency.constant(third), loss.Bernoulli(1)]
    assert {type(value) for model in models[:-1] for value in vars(model).values()} == {float}
    assert models[-1].on_link(0.5)(0.5) is True


def test_numbers_of_every_kind_are_taken() -> None:
    for value in (Fraction(1, 2), np.float32(0.5), 0.5):
        assert loss.bernoulli(value).mean == latency.constant(value).fixed == 0.5
    models = [loss.trace(np.array([True, False])), loss.gilbert_elliott(0, 1), loss.of(loss.bernoulli(0.5))]
    assert [model.mean for model in models] == [0.5, 0, 0.5]


def test_a_slot_has_one_state_in_whatever_order_frames_leave() -> None:
    model = GilbertElliott(p=0.3, r=0.4, slot=1.0)

    def states(times: list[float]) -> dict[float, bool]:
        lost, found = model.on_link(0.2), dict[float, bool]()
        assert isinstance(lost, Clocked)
        for time in times:
            lost.time = time
            found[time] = lost(0.5)
        return found

    times = [0.5 + slot for slot in range(300)]
    assert states(times) == states(times[::-1]) == states([*times[150:], *times[:150]])
