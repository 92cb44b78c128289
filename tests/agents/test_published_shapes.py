"""The shapes of published figures: which methods converge linearly, and which stall."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from netsim import Network, topology
from netsim.agents import CHOCO, DPSGD, EF21, LEAD, LocalProblem, Squared, centralised
from netsim.coders import Exact, TopK, Uniform
from netsim.util.typing import Array
from tests.oracle import batch, first_order

pytestmark = pytest.mark.slow

AGENTS, SIZE, SAMPLES, SHARE = 8, 40, 60, 0.05


def regressions(own: float) -> list[LocalProblem]:
    """Return linear regressions whose true vectors are a common vector plus ``own`` times an individual one."""
    rng = np.random.default_rng(0)
    common, found = rng.normal(size=SIZE), []
    for _ in range(AGENTS):
        x = rng.normal(size=(SAMPLES, SIZE))
        y = x @ (common + own * rng.normal(size=SIZE)) + 0.1 * rng.normal(size=SAMPLES)
        found.append(LocalProblem(x, y, loss=Squared(), regularizer=SHARE))
    return found


def distances(graph: Any, problems: list[LocalProblem], kind: Any, rounds: int, **given: Any) -> Array:
    """Return, for each round, the largest distance of a model from the common optimum, relative to its norm."""
    best = centralised(problems, SHARE * AGENTS)
    weights = topology.metropolis_weights(graph)
    own = [{} if kind is EF21 else {"weights": dict(enumerate(row))} for row in weights]
    agents = {i: kind(problem, rounds, **given, **own[i]) for i, problem in enumerate(problems)}
    found: list[float] = []

    def watch(playing: Mapping[int, Any]) -> dict[str, float]:
        models = np.stack([agent.theta for agent in playing.values()])
        found.append(float(np.linalg.norm(models - best, axis=1).max() / np.linalg.norm(best)))
        return {}

    Network(graph, seed=1).run(agents, [watch])
    return np.array(found)


def rate(errors: Array, begin: float, end: float) -> tuple[float, float]:
    """Return the factor by which errors fall per round between two levels, and the R² of the log-linear fit."""
    chosen = np.flatnonzero((errors < begin) & (errors > end))
    k, logs = chosen.astype(float), np.log(errors[chosen])
    slope = np.polyfit(k, logs, 1)[0]
    return float(np.exp(slope)), float(np.corrcoef(k, logs)[0, 1] ** 2)


def test_lead_converges_linearly_at_two_bits_where_choco_and_dgd_stall() -> None:
    """Reproduce a figure of Liu et al. 2021: linear regression, a ring of 8 agents with weights 1/3, 2 bits.

    LEAD converges linearly down to rounding errors, nearly as fast as without coding. CHOCO-SGD and D-PSGD stall.
    """
    ring, problems = topology.ring(AGENTS), regressions(own=1.0)
    eta = 0.1
    lead = distances(ring, problems, LEAD, 800, eta=eta, gamma=1.0, coder=Uniform(2))
    exact = distances(ring, problems, LEAD, 800, eta=eta, gamma=1.0, coder=Exact())
    choco = distances(ring, problems, CHOCO, 800, eta=eta, gamma=0.4, coder=Uniform(2))
    dpsgd = distances(ring, problems, DPSGD, 800, eta=eta)
    fall, straight = rate(lead, 1e-1, 1e-10)
    assert fall < 0.99
    assert straight > 0.99
    assert np.log(fall) < 0.8 * np.log(rate(exact, 1e-1, 1e-10)[0])
    assert lead[-1] < 1e-9
    for stalled in (choco, dpsgd):
        assert stalled[-1] > 0.02
        assert stalled[-1] == pytest.approx(stalled[400], rel=0.2)


def test_ef21_converges_linearly_with_steps_with_which_error_feedback_stalls() -> None:
    """Reproduce Richtárik, Sokolov and Fatkhullin 2021, section 5, with Top-1 coding and heterogeneous data.

    EF21 converges linearly down to rounding errors, as proved under strong convexity. Error feedback stalls, and at a
    larger error if the step is larger.
    """
    star, problems = topology.star(AGENTS), regressions(own=3.0)
    data = [(problem.features, problem.targets) for problem in problems]
    gradient = first_order.squares(*batch.stack(data), SHARE)
    best = centralised(problems, SHARE * AGENTS)

    def top(h: Array) -> Array:
        kept = np.zeros_like(h)
        place = int(np.abs(h).argmax())
        kept[place] = h[place]
        return kept

    ends = []
    for eta in (0.01, 0.02):
        ef21 = distances(star, problems, EF21, 1800, eta=eta, coder=TopK(1))
        _, straight = rate(ef21, 1e-1, 1e-9)
        assert straight > 0.99
        assert ef21[-1] < 1e-8
        models = first_order.error_feedback(gradient, (AGENTS, SIZE), eta, 1800, top)[:, 0]
        ef = np.linalg.norm(models - best, axis=1) / np.linalg.norm(best)
        ends.append(float(np.median(ef[-300:])))
        assert ends[-1] == pytest.approx(float(np.median(ef[-900:-300])), rel=0.3)
    assert 1e-3 < ends[0] < ends[1]
