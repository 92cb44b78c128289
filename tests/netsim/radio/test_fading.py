"""Block fading and pattern noise: distributions, reception, and equality of the compiled and Python twins."""

import asyncio
import math
import pickle
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, ncx2

from netsim import BadInput, Link, Network, Radio, topology
from netsim.radio import BlockFading, PatternNoise, Phy, beta_factor
from netsim.radio.phy import key_on
from netsim.testing import Actor, Listener, Talker
from netsim.util import draws
from tests.netsim.radio.test_radio_twins import compiled_only, in_python, story
from tests.parts import every, slow

LINK = Link(rate=250e3, header_bits=8 * 17)
KS = (0.0, 2.0, 10.0)


def gains(fading: BlockFading, times: Sequence[float], key: int = 7, seed: int = 1) -> Any:
    """Return power gains as linear ratios."""
    return 10.0 ** (np.array([fading.gain_db(seed, key, time) for time in times]) / 10.0)


def rician(k: float) -> Any:
    """Return the distribution of a Rician channel's power gain: noncentral χ² with two degrees of freedom, mean 1."""
    return ncx2(2, 2.0 * k, scale=1.0 / (2.0 * (1.0 + k)))


def correlation(values: Any, lag: int) -> float:
    return float(np.corrcoef(values[:-lag], values[lag:])[0, 1])


# --- fading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", KS)
def test_the_power_gain_is_exponential_or_noncentral_chi_square(k: float) -> None:
    """The power gain has mean 1 and variance (1 + 2K)/(1 + K)²; K = 0 is Rayleigh fading, with an exponential gain."""
    found = gains(BlockFading(coherence=1.0, k_factor=k), range(20_000))
    assert kstest(found, "expon" if k == 0.0 else rician(k).cdf).pvalue > 0.01
    deviation = math.sqrt((1 + 2 * k) / (1 + k) ** 2)
    assert found.mean() == pytest.approx(1.0, abs=4 * deviation / math.sqrt(20_000))
    assert found.std() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("k", KS)
def test_blocks_are_constant_and_independent(k: float) -> None:
    fading = BlockFading(coherence=0.5, k_factor=k)
    fine = gains(fading, [0.01 * n for n in range(50_000)])
    lengths = np.diff(np.flatnonzero(np.diff(fine)))
    assert set(lengths) == {50}
    blocks = fine[::50]
    assert abs(correlation(blocks, 1)) < 4 / math.sqrt(len(blocks))
    assert abs(correlation(blocks, 2)) < 4 / math.sqrt(len(blocks))


def test_links_and_seeds_fade_independently_and_not_at_the_same_moments() -> None:
    fading = BlockFading(coherence=1.0)
    times = [0.01 * n for n in range(60_000)]
    one, other, reseeded = gains(fading, times), gains(fading, times, key=8), gains(fading, times, seed=2)
    for each in (other, reseeded):
        assert abs(np.corrcoef(one[::100], each[::100])[0, 1]) < 4 / math.sqrt(600)
        assert not set(np.flatnonzero(np.diff(one))) & set(np.flatnonzero(np.diff(each)))


def test_a_gain_does_not_depend_on_what_was_asked_before() -> None:
    times = np.random.default_rng(1).uniform(0, 1e6, 200)
    fading = BlockFading(coherence=0.1, k_factor=3.0)
    expected = [BlockFading(coherence=0.1, k_factor=3.0).gain_db(4, 9, time) for time in times]
    assert [fading.gain_db(4, 9, time) for time in times[::-1]] == expected[::-1]


def test_channels_fade_independently_and_not_at_the_same_moments() -> None:
    fading = BlockFading(coherence=1.0)
    times = [0.01 * n for n in range(60_000)]
    assert key_on(0, 7) == 7
    ways = [gains(fading, times, key=key_on(channel, 7)) for channel in (0, 1, 2, 15)]
    for one, other in combinations(ways, 2):
        assert abs(np.corrcoef(one[::100], other[::100])[0, 1]) < 4 / math.sqrt(600)
        assert not set(np.flatnonzero(np.diff(one))) & set(np.flatnonzero(np.diff(other)))


def star(phy: Phy, snr: float, leaves: int) -> Radio:
    """Return a radio on which the hub and each leaf receive each other with a given mean SNR (dB)."""
    ends = [pair for leaf in range(1, leaves + 1) for pair in ((0, leaf), (leaf, 0))]
    return Radio(access="aloha", phy=phy, powers=dict.fromkeys(ends, phy.noise_dbm + snr))


def bits_of(payload: Any) -> int:
    run = Network(topology.path(2), LINK).run({0: Talker([(0.0, payload)]), 1: Listener()})
    return int(run.ledger.table()["wire_bits"].max())


@pytest.mark.parametrize("k", KS)
def test_reception_is_the_integral_of_the_error_rate_over_the_gains(k: float) -> None:
    """The share is ∫ (1 − BER(SNR·g))^bits dF(g), F the distribution of the gain g; each frame is in a new block."""
    phy, snr, leaves, frames = Phy(fading=BlockFading(coherence=0.05, k_factor=k)), 2.0, 40, 200
    run = Network(topology.star(leaves + 1), LINK, medium=star(phy, snr, leaves), seed=3).run(
        {0: Talker([(0.1 * n, 0.5) for n in range(frames)]), **{leaf: Listener() for leaf in range(1, leaves + 1)}}
    )
    bits, density = bits_of(0.5), rician(k).pdf
    expected, _ = quad(lambda g: phy.success(snr + 10 * math.log10(g), bits) * density(g), 1e-9, 30, limit=500)
    received = sum(len(run.agents[leaf].heard) for leaf in range(1, leaves + 1)) / (leaves * frames)
    assert 0.3 < expected < 0.97
    assert received == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / (leaves * frames)))


def acknowledged(phy: Phy, snr: float, count: int) -> float:
    """Return the share of messages, sent a second apart, that a neighbour acknowledges within four tries."""

    async def script(me: Any) -> None:
        for n in range(count):
            me.log.append(bool(await me.deliver(1, "m", 0.5)))
            await asyncio.sleep(float(n + 1) - me.now)

    power = phy.noise_dbm + snr
    radio = Radio(phy=phy, powers={(0, 1): power, (1, 0): power}, acks=True)
    run = Network(topology.path(2), LINK, medium=radio, seed=2).run({0: Actor(script), 1: Listener()})
    return float(np.mean(run.agents[0].log))


def test_a_frame_sent_again_meets_the_channel_that_lost_it() -> None:
    """All tries and both directions share one gain g: ∫ 1 − (1 − p(g)·q(g))^4 dF(g), not 1 − (1 − ∫pq dF)^4."""
    snr, count = 2.0, 2000
    phy = Phy(fading=BlockFading(coherence=0.5))
    bits, ack = bits_of(0.5), Radio().ack_bits

    def once(g: float) -> float:
        level = snr + 10 * math.log10(g)
        return phy.success(level, bits) * phy.success(level, ack)

    single = quad(lambda g: once(g) * math.exp(-g), 1e-9, 30, limit=500)[0]
    together = quad(lambda g: (1 - (1 - once(g)) ** 4) * math.exp(-g), 1e-9, 30, limit=500)[0]
    assert 1 - (1 - single) ** 4 > together + 0.2
    # In 2.5 % of the cases a fading block ends between two tries.
    assert acknowledged(phy, snr, count) == pytest.approx(together, abs=0.04)
    fast = Phy(fading=BlockFading(coherence=1e-4))
    assert acknowledged(fast, snr, count) > together + 0.2


# --- noise ------------------------------------------------------------------------------------------------------------


def a_trace(count: int = 20_000) -> Any:
    """Return a noise trace: −98 dBm with bursts of −80 dBm, 12 ms long on average, and 1 dB of jitter."""
    rng = np.random.default_rng(5)
    bursts = np.repeat(np.arange(count) % 2, np.where(np.arange(count) % 2, rng.geometric(1 / 12, count), 60))[:count]
    return np.where(bursts, -80.0, -98.0) + rng.integers(-1, 2, count)


def sampled(noise: PatternNoise, count: int, node: int = 3, seed: int = 1) -> Any:
    return np.array([noise.noise_dbm(seed, node, 1e-3 * (n + 0.5)) for n in range(count)])


@pytest.mark.parametrize("history", [slow(1), 4, slow(20)])
def test_noise_has_the_traces_distribution_and_its_autocorrelation_up_to_the_history(history: int) -> None:
    """At lag τ the correlation is the trace's times 1 − τ/restart; each level's share of time is right to 0.01."""
    trace = a_trace()
    found = np.concatenate([sampled(PatternNoise(trace, history=history), 20_000, node) for node in range(10)])
    for level in np.unique(trace):
        assert np.mean(found == level) == pytest.approx(np.mean(trace == level), abs=0.01)
    assert set(found) <= set(trace)
    for lag in {1, (history + 1) // 2, history}:
        ring = float(np.corrcoef(trace, np.roll(trace, lag))[0, 1])
        assert correlation(found, lag) == pytest.approx(ring * (1 - lag / 1000), abs=0.03)


def test_without_a_history_samples_are_independent() -> None:
    found = sampled(PatternNoise(a_trace(), history=0), 20_000)
    assert abs(correlation(found, 1)) < 4 / math.sqrt(len(found))


def test_what_follows_a_pattern_followed_it_in_the_trace() -> None:
    """In the cyclic trace a b a c, each a is followed by b or c with equal probability, and both are followed by a."""
    found = sampled(PatternNoise([-90.0, -80.0, -90.0, -70.0], history=1, restart=1e3), 20_000)
    pairs = set(pairwise(found))
    assert pairs == {(-90.0, -80.0), (-90.0, -70.0), (-80.0, -90.0), (-70.0, -90.0)}
    assert np.mean(found == -80.0) == pytest.approx(0.25, abs=0.01)
    # With two samples of history, each next value of this trace is determined.
    known = sampled(PatternNoise([-90.0, -80.0, -90.0, -70.0], history=2, restart=1e3), 400)
    assert {tuple(known[n : n + 4]) for n in range(0, 400, 4)} == {tuple(known[:4])}


def test_values_are_the_same_to_a_pattern_once_rounded() -> None:
    trace = [-90.0, -80.0, -90.2, -70.0]
    for resolution, successors in ((1.0, {-80.0, -70.0}), (0.1, {-80.0})):
        found = sampled(PatternNoise(trace, history=1, resolution=resolution, restart=1e3), 2000)
        assert {b for a, b in pairwise(found) if a == -90.0} == successors


def test_noise_at_a_time_does_not_depend_on_what_was_asked_before() -> None:
    trace, rng = a_trace(2000), np.random.default_rng(1)
    times = np.concatenate([rng.uniform(0, 1e6, 50), rng.uniform(0, 2, 150)])
    asked = PatternNoise(trace)
    found = [asked.noise_dbm(4, int(time) % 3, time) for time in times]
    assert found == [PatternNoise(trace).noise_dbm(4, int(time) % 3, time) for time in times]
    again = pickle.loads(pickle.dumps(asked))
    assert [again.noise_dbm(4, int(time) % 3, time) for time in times[::-1]] == found[::-1]
    assert asked.noise_dbm(5, 0, 1.0) == PatternNoise(trace).noise_dbm(5, 0, 1.0)


def test_nodes_have_noise_of_their_own() -> None:
    noise = PatternNoise(a_trace())
    one, other = sampled(noise, 20_000, node=1), sampled(noise, 20_000, node=2)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.1


def test_a_frame_is_received_if_the_noise_as_it_begins_lets_it() -> None:
    """The power is 8 dB above the quiet noise and 10 dB below bursts; the noise at a frame's start decides."""
    trace = a_trace()
    phy = Phy(noise=PatternNoise(trace))
    radio = Radio(access="aloha", phy=phy, powers={(0, 1): -90.0, (1, 0): -90.0})
    plan = [(0.05 * n, 0.5) for n in range(4000)]
    run = Network(topology.path(2), LINK, medium=radio, seed=1).run({0: Talker(plan), 1: Listener()})
    assert len(run.agents[1].heard) / 4000 == pytest.approx(np.mean(trace < -90), abs=0.04)


# --- both -------------------------------------------------------------------------------------------------------------


def busy(seed: int) -> Any:
    """Run five nodes that send at random times with acknowledgements, under fading and noise."""
    phy = Phy(fading=BlockFading(coherence=0.02, k_factor=1.0), noise=PatternNoise(a_trace(2000), history=3))
    powers = {(a, b): -92.0 + a - b for a in range(5) for b in range(5) if a != b}
    plans = np.random.default_rng(seed).uniform(0, 2, (5, 40))
    agents = {node: Talker([(t, 0.5) for t in plans[node]], to=(node + 1) % 5) for node in range(5)}
    return Network(topology.ring(5), LINK, medium=Radio(phy=phy, powers=powers, acks=True), seed=seed).run(agents)


@compiled_only
@pytest.mark.parametrize("seed", range(3))
def test_both_twins_give_the_same_run(seed: int) -> None:
    run = busy(seed)
    assert story(run) == story(in_python(lambda: busy(seed)))
    assert story(run) == story(busy(seed))
    assert run.air is not None
    assert 0 < run.ledger.table()["lost"].sum() < run.ledger.table()["delivered"].sum()


# --- β ----------------------------------------------------------------------------------------------------------------


def beta_by_definition(received: Sequence[bool], least: int) -> float:
    mean, distance, independent = sum(received) / len(received), 0.0, 0.0
    for state in (True, False):
        for n in range(1, len(received)):
            after = [received[j] for j in range(n, len(received)) if all(x == state for x in received[j - n : j])]
            if len(after) >= least:
                distance += 1 - sum(x == state for x in after) / len(after)
                independent += 1 - mean if state else mean
    return 1 - distance / independent if independent and 0 < mean < 1 else math.nan


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 5))
def test_beta_is_that_of_its_definition(received: list[bool], least: int) -> None:
    expected = beta_by_definition(received, least)
    assert beta_factor(received, least=least) == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_beta_of_known_links() -> None:
    rng = np.random.default_rng(1)
    assert beta_factor(rng.random(100_000) < 0.7, least=100) == pytest.approx(0.0, abs=0.05)
    assert beta_factor(np.repeat(rng.random(1000) < 0.5, 100), least=100) > 0.95
    assert beta_factor([0, 1] * 100) == -1.0
    assert math.isnan(beta_factor([1] * 100))


# --- refusals ---------------------------------------------------------------------------------------------------------


@every(
    ("make", "says"),
    [
        (lambda: BlockFading(coherence=0.0), "coherence = 0.0"),
        (lambda: BlockFading(coherence=1.0, k_factor=-1.0), "k_factor = -1.0"),
        (lambda: BlockFading(coherence=1.0, k_factor=math.inf), "k_factor = inf"),
        (lambda: PatternNoise([-98.0]), "trace = "),
        (lambda: PatternNoise([[-98.0, -90.0]]), "trace = "),
        (lambda: PatternNoise([-98.0, math.nan]), "trace"),
        (lambda: PatternNoise([-98.0, -90.0], history=3), "history = 3: must be a whole number from 0 to 2"),
        (lambda: PatternNoise([-98.0, -90.0], history=1, interval=0.0), "interval = 0.0"),
        (lambda: PatternNoise([-98.0, -90.0], history=1, restart=1e-4), "restart = 0.0001"),
        (lambda: PatternNoise([-98.0, -90.0], history=1, resolution=0.0), "resolution = 0.0"),
        (lambda: beta_factor([0, 2]), "received = "),
        (lambda: beta_factor([]), "received = "),
        (lambda: beta_factor([0, 1], least=0), "least = 0"),
    ],
)
def test_refusals(make: Any, says: str) -> None:
    with pytest.raises(BadInput) as error:
        make()
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**62), st.integers(0, 100))
def test_single_draws_are_those_of_arrays(key: int, number: int, seed: int) -> None:
    keys = np.array([key], dtype=np.uint64)
    assert draws.stream_key(seed, key, "x") == int(draws.stream_keys(seed, keys, "x")[0])
    assert draws.uniform(key, number) == draws.uniforms(keys, number, 1)[0, 0]
