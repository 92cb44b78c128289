"""netem's models, compared with closed forms, iproute2's tables, and recursions written from netem's algorithm.

The algorithm is that of Linux's net/sched/sch_netem.c (``get_crandom``, ``loss_gilb_ell``, ``loss_4state`` and
``tabledist`` of 6.18), with its 32-bit integers.
"""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import signal, stats

from netsim import Link, Network, latency, loss, topology
from netsim.errors import BadInput
from netsim.links.loss import Loss
from netsim.testing import Listener, Talker, play
from netsim.util.draws import uniforms
from tests.parts import every

MANY = 20_000
KEY = np.array([43], dtype=np.uint64)
SHARE = 1 << 32

TABLES = [found for way in ("lib/tc", "lib/*/tc", "share/tc") for found in sorted(Path("/usr").glob(f"{way}/*.dist"))]


def lost_of(model: Loss, count: int = MANY, state: float = 0.3) -> np.ndarray:
    decide = model.on_link(state)
    return np.array([decide(u) for u in uniforms(KEY, 0, count)[:, 0].tolist()])


def runs(lost: np.ndarray) -> np.ndarray:
    """Return the lengths of the runs of successive losses."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], lost.astype(int), [0]])))
    return edges[1::2] - edges[::2]


def near(found: np.ndarray, mean: float, memory: float = 0.0) -> None:
    """Check that the mean of numbers with a given lag-1 correlation is within 4.5 standard errors."""
    error = found.std() * math.sqrt((1 + memory) / (1 - memory) / len(found))
    assert abs(found.mean() - mean) < 4.5 * error + 1e-12, (found.mean(), mean, error)


# --- the kernel's algorithm -------------------------------------------------------------------------------------------


def numbers(seed: int) -> Iterator[int]:
    rng = np.random.default_rng(seed)
    while True:
        yield from rng.integers(0, SHARE, 4096, dtype=np.uint64).tolist()


def percent(share: float) -> int:
    """Return the 32-bit integer that tc passes to the kernel for a probability."""
    return round(share * (SHARE - 1))


def crandom(correlation: float, random: Iterator[int]) -> Iterator[int]:
    rho, last = percent(correlation) + 1, next(random)
    while True:
        last = (next(random) * (SHARE - rho) + last * rho) >> 32
        yield last


def kernel_gemodel(p: float, r: float, bad: float, good: float, count: int) -> np.ndarray:
    random, is_bad, lost = numbers(1), False, []
    p_, r_, h, k1 = percent(p), percent(r), SHARE - 1 - percent(bad), percent(good)
    for _ in range(count):
        step, own = next(random), next(random)
        # As in the kernel, a frame's loss is decided by the state before the transition.
        lost.append(own > h if is_bad else own < k1)
        is_bad = step >= r_ if is_bad else step < p_
    return np.array(lost)


def kernel_states(p13: float, p31: float, p32: float, p23: float, p14: float, count: int) -> np.ndarray:
    random, state, lost = numbers(2), 1, []
    for _ in range(count):
        u = next(random) / SHARE
        if state == 1:
            state = 4 if u < p14 else 3 if u < p13 + p14 else 1
        elif state == 2:
            state = 3 if u < p23 else 2
        elif state == 3:
            state = 2 if u < p32 else 1 if u < p31 + p32 else 3
        else:
            state = 1
        lost.append(state in (3, 4))
    return np.array(lost)


# --- losses -----------------------------------------------------------------------------------------------------------

CHAINS = [
    (0.05, 0.3, 1.0, 0.0),
    (0.05, 0.3, 0.6, 0.02),
    (0.7, 0.8, 0.9, 0.3),
    (0.0, 0.5, 1.0, 0.2),
    (1.0, 0.0, 0.4, 0.0),
]


@every(("p", "r", "bad", "good"), CHAINS)
def test_gemodel_has_its_stationary_loss_and_correlation(p: float, r: float, bad: float, good: float) -> None:
    """Cov(lost_n, lost_n+1) = (bad − good)² π(1 − π)(1 − p − r), as losses depend only on the state; π = P(bad)."""
    model, share = loss.gemodel(p, r, bad, good), p / (p + r)
    lost, keep = lost_of(model), 1 - p - r
    assert model.mean == pytest.approx(share * bad + (1 - share) * good)
    near(lost, model.mean, max(keep, 0.0))
    covariance = (bad - good) ** 2 * share * (1 - share) * keep
    near((lost[1:] - model.mean) * (lost[:-1] - model.mean), covariance, max(keep, 0.0))


@every(("p", "r", "bad", "good"), CHAINS[:3])
def test_gemodel_has_the_runs_of_the_kernels_recursion(p: float, r: float, bad: float, good: float) -> None:
    ours, kernels = lost_of(loss.gemodel(p, r, bad, good)), kernel_gemodel(p, r, bad, good, MANY)
    assert _same_lengths(runs(ours), runs(kernels))
    assert _same_lengths(runs(~ours), runs(~kernels))


def _same_lengths(ours: np.ndarray, others: np.ndarray) -> bool:
    most = int(np.quantile(np.concatenate([ours, others]), 0.99)) + 1
    table = [np.bincount(np.minimum(each, most), minlength=most + 1)[1:] for each in (ours, others)]
    return bool(stats.chi2_contingency(np.array(table)[:, np.sum(table, axis=0) > 0]).pvalue > 1e-4)


def test_bursts_of_the_simple_chain_are_geometric() -> None:
    lengths = runs(lost_of(loss.gemodel(0.05, 0.3)))
    counts = np.bincount(np.minimum(lengths, 12), minlength=13)[1:]
    shares = stats.geom(0.3).pmf(np.arange(1, 13))
    shares[-1] += stats.geom(0.3).sf(12)
    assert stats.chisquare(counts, shares * counts.sum()).pvalue > 1e-4


def test_gemodel_by_default_is_independent_and_is_the_chain_of_mean_and_burst() -> None:
    assert loss.gemodel(0.25) == loss.gemodel(0.25, 0.75, 1.0, 0.0)
    assert lost_of(loss.gemodel(0.25)).tolist() == lost_of(loss.bernoulli(0.25)).tolist()
    assert lost_of(loss.gemodel(0.125, 0.5)).tolist() == lost_of(loss.gilbert_elliott(0.2, 2)).tolist()


def test_a_slot_of_gemodel_loses_its_share() -> None:
    model = loss.gemodel(0.3, 0.3, 0.8, 0.1, slot=1.0)
    decide: Any = model.on_link(0.5)
    shares = []
    for slot in range(60):
        decide.time = slot + 0.5
        shares.append(np.mean([decide(u) for u in uniforms(KEY, 1000 * slot, 1000)[:, 0].tolist()]))
    assert {round(share, 1) for share in shares} == {0.1, 0.8}


@every(
    "chain",
    [(0.1, 0.4, 0.2, 0.5, 0.05), (0.02, 0.3, 0.0, 1.0, 0.0), (0.0, 0.5, 0.0, 1.0, 0.3), (0.5, 0.5, 0.5, 0.2, 0.5)],
)
def test_states_are_the_kernels_four(chain: tuple[float, float, float, float, float]) -> None:
    p13, p31, p32, p23, p14 = chain
    steps = np.array([[1 - p13 - p14, 0, p13, p14], [0, 1 - p23, p23, 0], [p31, p32, 1 - p31 - p32, 0], [1, 0, 0, 0]])
    stationary = np.linalg.matrix_power(steps, 1 << 20)[0]
    model = loss.states(*chain)
    assert model.mean == pytest.approx(stationary[2] + stationary[3])
    ours, kernels = lost_of(model), kernel_states(*chain, count=MANY)
    near(ours, model.mean, 0.5)
    assert _same_lengths(runs(ours), runs(kernels))
    assert _same_lengths(runs(~ours), runs(~kernels))
    u = uniforms(KEY, 0, 8000)[:, 0]
    near(np.array([model.on_link(start)(step) for start, step in zip(u[::2], u[1::2], strict=True)]), model.mean)


@every(("probability", "correlation"), [(0.1, 0.25), (0.3, 0.5), (0.45, 0.8), (0.9, 0.25), (0.25, 0.02)])
def test_correlated_losses_have_netems_mean_not_the_probability(probability: float, correlation: float) -> None:
    """The losses are compared with the long-run mean of netem's recursion, and with the kernel's integer arithmetic."""
    model = loss.correlated(probability, correlation)
    fresh = np.random.default_rng(3).random(400_000)
    x, _ = signal.lfilter([1 - correlation], [1, -correlation], fresh, zi=[0.5 * correlation])
    near(x < probability, model.mean, correlation)
    near(lost_of(model), model.mean, correlation)
    source, limit = crandom(correlation, numbers(4)), percent(probability)
    near(np.array([next(source) <= limit for _ in range(MANY)]), model.mean, correlation)
    assert (model.mean < probability) == (probability < 0.5)


def test_the_means_of_the_warning_are_true() -> None:
    means = [loss.correlated(0.1, each).mean for each in (0.25, 0.5, 0.75)]
    assert means == pytest.approx([0.0175, 0.0011, 5.5e-7], rel=0.02)
    assert [loss.correlated(p, 0.6).mean for p in (0, 0.5, 1)] == pytest.approx([0, 0.5, 1], abs=1e-12)
    assert loss.correlated(0.3, 0).mean == pytest.approx(0.3, abs=1e-9)


# --- delays -----------------------------------------------------------------------------------------------------------


def delays_of(model: latency.Latency, count: int = MANY, links: int = 1) -> np.ndarray:
    u = np.random.default_rng(5).random((count, links))
    placed = latency.on_links(model, u[0])
    return np.concatenate([placed.delays(u[k : k + 500], k) for k in range(0, count, 500)])


@pytest.mark.skipif(not TABLES, reason="iproute2 is not installed")
def test_iproute2s_tables_are_drawn_as_netem_draws_them() -> None:
    assert {path.stem for path in TABLES} >= {"normal", "pareto", "paretonormal", "experimental"}
    moments = {
        "normal": (0.0, 1.0),
        "pareto": (-0.03, 0.82),
        "paretonormal": (-0.03, 0.83),
        "experimental": (-0.01, 0.88),
    }
    for path in TABLES:
        mean, jitter = 0.1, 0.02
        lines = path.read_text().splitlines()
        table = [int(word) for line in lines if not line.startswith("#") for word in line.split()]
        # `tabledist` uses the jitter in ns, here rounded to the nearest integer.
        ns, source, size = round(jitter * 1e9), numbers(6), len(table)
        kernel = [100_000_000 + math.floor(ns * table[next(source) % size] / 8192 + 0.5) for _ in range(MANY)]
        ours = delays_of(latency.empirical(path, mean, jitter))[:, 0]
        assert set(np.round(ours * 1e9)) <= {100_000_000 + math.floor(ns * t / 8192 + 0.5) for t in table} | {
            100_000_000 + math.ceil(ns * t / 8192 - 0.5) for t in table
        }
        assert stats.ks_2samp(ours, np.array(kernel) / 1e9).pvalue > 1e-4
        told = moments[path.stem]
        near((ours - mean) / jitter, float(np.mean(table)) / 8192)
        assert (np.mean(table) / 8192, np.std(table) / 8192) == pytest.approx(told, abs=0.006)


def test_measured_delays_come_each_as_often_and_in_no_order() -> None:
    run = play(Talker([(0, n) for n in range(3000)]), Listener(), link=Link(latency=latency.empirical([0.3, 0.1, 0.2])))
    times = np.array([time for time, *_ in run.agents[1].heard])
    assert stats.chisquare([np.sum(np.isclose(times, t)) for t in (0.1, 0.2, 0.3)]).pvalue > 1e-4


@every("correlation", [0.25, 0.9])
def test_correlated_delays_have_the_moments_of_the_recursion(correlation: float) -> None:
    """For x uniform on [0, 1), the variance is (1 − ρ)/(1 + ρ)/12, and the autocorrelation at lag k is ρᵏ."""
    found = delays_of(latency.correlated(latency.uniform(1.0, 3.0), correlation), 40_000, 8)[1000:]
    assert found.mean() == pytest.approx(2.0, abs=0.01)
    assert found.std() == pytest.approx(2 * math.sqrt((1 - correlation) / (1 + correlation) / 12), rel=0.02)
    for lag in (1, 3):
        pairs = np.corrcoef(found[:-lag].ravel(), found[lag:].ravel())[0, 1]
        assert pairs == pytest.approx(correlation**lag, abs=0.015)
    # The delays of different links are independent.
    assert abs(np.corrcoef(found[:, 0], found[:, 1])[0, 1]) < 5 / math.sqrt(
        40_000 * (1 - correlation) / (1 + correlation)
    )


def test_linux_undoes_the_correlation_of_its_delays() -> None:
    """The kernel's correlated integers equal netsim's recursion; their remainders, which it uses, are uncorrelated."""
    source = crandom(0.25, numbers(7))
    random = [next(source) for _ in range(MANY)]
    ours = delays_of(latency.correlated(latency.uniform(0.0, 1.0), 0.25))[:, 0]
    assert stats.ks_2samp(np.array(random[::10]) / SHARE, ours[::10]).pvalue > 1e-4
    assert np.corrcoef(random[1:], random[:-1])[0, 1] == pytest.approx(0.25, abs=0.02)
    for size in (4096, 2 * 10_000_000):
        left = np.array(random) % size
        assert abs(np.corrcoef(left[1:], left[:-1])[0, 1]) < 0.02
        assert left.std() == pytest.approx(size / math.sqrt(12), rel=0.02)


def test_a_link_has_one_chain_of_delays_for_broadcasts_and_single_frames() -> None:
    """Of four frames, some broadcast and some not, the delays follow one chain in the order of sending."""
    link = Link(latency=latency.correlated(latency.uniform(0.0, 0.5), 0.9))
    ways: list[list[Any]] = [[(k, k) for k in range(4)], [(k, k, 1) if k % 2 else (k, k) for k in range(4)]]
    heard = []
    for way in ways:
        agents = {0: Mixed(way), 1: Listener()}
        Network(topology.path(2), link, seed=3).run(agents)
        heard.append([time for time, *_ in agents[1].heard])
    assert heard[0] == heard[1]


class Mixed(Talker):
    """Broadcasts, or sends to one neighbour, at given times."""

    def __init__(self, plan: list[Any]) -> None:
        self.plan = plan

    async def run(self) -> None:
        for time, value, *to in self.plan:
            await asyncio.sleep(time - self.now)
            await (self.send(to[0], "k", value) if to else self.broadcast("k", value))


# --- refused ----------------------------------------------------------------------------------------------------------


def test_what_no_model_takes_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.dist").write_text("1 2 x")
    (tmp_path / "large.dist").write_text("40000")
    (tmp_path / "empty.dist").write_text("# nothing\n")
    (tmp_path / "long.dist").write_text("1 " * 16385)
    (tmp_path / "good.dist").write_text("# comment\n-8192 0\n 8192\n")
    good: Any = latency.empirical(tmp_path / "good.dist", 0.1, 0.02)
    assert good.values.tolist() == pytest.approx([0.08, 0.1, 0.12])
    wrong = [
        (lambda: loss.gemodel(1.5), "p = 1.5: must be a probability in [0, 1]"),
        (lambda: loss.gemodel(0, 0), "r = 0: must be above 0 for p = 0"),
        (lambda: loss.gemodel(0.1, 0.2, bad=-1), "bad = -1: must be a probability in [0, 1]"),
        (lambda: loss.gemodel(0.1, slot=0), "slot = 0: must be a number >= 1e-09"),
        (lambda: loss.states(0.6, p14=0.5), "p14 = 0.5: must be at most 1 − p13 = 0.4"),
        (lambda: loss.states(0.6, 0.6, 0.6), "p32 = 0.6: must be at most 1 − p31 = 0.4"),
        (lambda: loss.states(0.6, 0), "p31 = 0: must be above 0"),
        (lambda: loss.states(0.6, 0.2, 0.1, 0), "p23 = 0: must be above 0"),
        (lambda: loss.correlated(0.1, 1), "correlation = 1: must be a fraction in [0, 1)"),
        (lambda: loss.correlated(0.1, math.nan), "correlation = nan: must be a fraction in [0, 1)"),
        (lambda: latency.correlated(latency.constant(1), 0.5), "must be a random model"),
        (lambda: latency.correlated(latency.trace([1.0]), 0.5), "must be a random model"),
        (lambda: latency.correlated(latency.correlated(latency.uniform(0, 1), 0.5), 0.5), "must be a random model"),
        (lambda: latency.correlated(0.5, 0.5), "model = 0.5: must be a random model"),  # type: ignore[arg-type]
        (lambda: latency.empirical([]), "table = []: must be at least one number"),
        (
            lambda: latency.empirical([0.1, -0.2]),
            "table = [0.1, -0.2]: must be so large that mean + jitter·value is never negative, as with mean >= 0.2",
        ),
        (lambda: latency.empirical([1.0], jitter=1e308, mean=1e308), "jitter = 1e+308: must be so small"),
        (lambda: latency.empirical(tmp_path / "good.dist"), "is never negative, as with mean >= 1"),
        (lambda: latency.empirical(tmp_path / "none.dist"), "must be a file that can be read"),
        (lambda: latency.empirical(tmp_path), "must be a file that can be read"),
        (lambda: latency.empirical(tmp_path / "bad.dist", 1, 1), "must be a table of 1 to 16,384 whole numbers"),
        (lambda: latency.empirical(tmp_path / "large.dist", 9, 1), "must be a table of 1 to 16,384 whole numbers"),
        (lambda: latency.empirical(tmp_path / "empty.dist", 1, 1), "must be a table of 1 to 16,384 whole numbers"),
        (lambda: latency.empirical(tmp_path / "long.dist", 1, 1), "must be a table of 1 to 16,384 whole numbers"),
        (
            lambda: Network(topology.path(2), compute=latency.correlated(latency.uniform(0, 1), 0.5)),
            "must be a model whose times do not depend on one another",
        ),
    ]
    for make, line in wrong:
        with pytest.raises(BadInput) as found:
            make()
        assert line in str(found.value)
        assert "\n" not in str(found.value)
