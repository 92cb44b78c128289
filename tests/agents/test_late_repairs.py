"""A frame repaired late enters the dual variables with the penalty ρ of the round in which it was sent."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from netsim import Frame, Link, Network, latency, loss
from netsim.agents import (
    COKE,
    DDKL,
    DKLA,
    DOKL,
    ODKLA,
    OnlineCost,
    RelaxedADMM,
    RunningSums,
    SharingAgent,
    Squared,
    centralised,
    schedule,
)
from netsim.agents.consensus.base import Dual
from netsim.agents.consensus.sharing import Penalties
from netsim.coders import Uniform
from netsim.links import Reliability
from netsim.util.typing import Array
from tests.agents.test_lossy import (
    AGENTS,
    CODED,
    CROSS,
    ETA,
    FEATURES,
    GEOMETRIC,
    GRAM,
    GRAPH,
    POWER,
    RHO,
    ROUNDS,
    SHARE,
    TARGETS,
    A,
    K,
    cost,
    problem,
)
from tests.oracle import lossy
from tests.parts import slow


def penalty(k: int) -> float:
    """Return ρ of round k, which decreases from round to round and converges to RHO."""
    return RHO * (1.0 + 2.0 * 0.97**k)


RHOS = np.array([penalty(k) for k in range(1, ROUNDS + 1)])
# The latency, in rounds, exceeds 1: frames are late and reordered even without loss.
LATE = Link(loss=0.3, latency=latency.uniform(0.1, 2.2), reliability=Reliability("nack", window=100))

METHODS: dict[str, tuple[Callable[..., Any], lossy.Step, lossy.Coding]] = {
    "DKLA": (partial(DKLA, rho=penalty), lossy.batch_argmin(GRAM, CROSS, A, SHARE, RHOS), lossy.Coding()),
    "COKE, coded": (
        partial(COKE, rho=penalty, censor=GEOMETRIC, coder=Uniform(4)),
        lossy.batch_argmin(GRAM, CROSS, A, SHARE, RHOS),
        lossy.Coding(0.6 * 0.95**K, CODED),
    ),
    "ODKLA": (
        partial(ODKLA, rho=penalty, eta=ETA),
        lossy.online_gradient(FEATURES, TARGETS, A, SHARE, RHOS, ETA),
        lossy.Coding(),
    ),
    "QC-ODKLA": (
        partial(ODKLA, rho=penalty, eta=ETA, censor=GEOMETRIC, coder=Uniform(4)),
        lossy.online_gradient(FEATURES, TARGETS, A, SHARE, RHOS, ETA),
        lossy.Coding(0.6 * 0.95**K, CODED),
    ),
    "DOKL": (
        partial(DOKL, rho=penalty, eta=ETA),
        lossy.online_argmin(FEATURES, TARGETS, A, SHARE, RHOS, ETA),
        lossy.Coding(),
    ),
    "DDKL": (partial(DDKL, rho=penalty), lossy.online_argmin(FEATURES, TARGETS, A, SHARE, RHOS, 0.0), lossy.Coding()),
    "CoDDKL": (
        partial(DDKL, rho=penalty, censor=POWER),
        lossy.online_argmin(FEATURES, TARGETS, A, SHARE, RHOS, 0.0),
        lossy.Coding(0.6 * K**-0.3),
    ),
}


def noting(kind: type[Dual], heard: lossy.Heard) -> type[Dual]:
    """Return a subclass that records in ``heard`` the first round in which each frame is received."""

    class Noting(kind):  # type: ignore[misc, valid-type]
        def hear(self, frames: Sequence[Frame], k: int) -> None:
            for frame in frames:
                place = frame.round - 1, self.name, frame.sender
                heard[place] = min(heard[place], k - 1)
            super().hear(frames, k)

    return Noting


@pytest.mark.parametrize("link", [Link(loss=0.3, reliability="nack"), slow(LATE)], ids=["lost", "late"])
@pytest.mark.parametrize("method", METHODS)
def test_models_and_duals_follow_from_when_frames_were_heard(method: str, link: Link) -> None:
    make, step, coding = METHODS[method]
    heard = np.full((ROUNDS, AGENTS, AGENTS), ROUNDS)
    kind = noting(make.func, heard)  # type: ignore[attr-defined]
    given = make.keywords  # type: ignore[attr-defined]
    agents = {i: kind(problem(i) if issubclass(kind, DKLA) else cost(i), ROUNDS, **given) for i in GRAPH}
    thetas: list[Array] = []
    duals: list[Array] = []

    def watch(agents: Mapping[int, Any]) -> dict[str, float]:
        thetas.append(np.stack([agent.theta for agent in agents.values()]))
        duals.append(np.stack([agent.dual for agent in agents.values()]))
        return {}

    Network(GRAPH, link, seed=5).run(agents, [watch])
    expected = lossy.repaired(step, A, FEATURES.shape[2], RHOS, heard, coding)
    late = heard - np.arange(ROUNDS)[:, None, None]
    assert ((late > 0) & (heard < ROUNDS)).sum() > 100
    scale = max(1.0, float(np.abs(expected.thetas).max()), float(np.abs(expected.duals).max()))
    np.testing.assert_allclose(np.array(thetas), expected.thetas, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(np.array(duals), expected.duals, rtol=0, atol=1e-10 * scale)


# --- where it ends ----------------------------------------------------------------------------------------------------

LONG = 300
CHANGING = schedule.piecewise({1: 0.2, 20: 0.5, 40: 0.3})
# Losses end after round 60, so all lost frames are repaired soon afterwards.
THEN_GOOD = loss.varying([0.3, 0.0], [60.0, 1e9])


def same_again(i: int) -> OnlineCost:
    """Return an online cost that always draws the same sample, so that the methods have a fixed point."""
    sample = FEATURES[0, i], float(TARGETS[0, i])
    return OnlineCost(itertools.repeat(sample), FEATURES.shape[2], loss=Squared(), regularizer=0.3)


ENDS: dict[str, Callable[[int], SharingAgent]] = {
    "DKLA": lambda i: DKLA(problem(i), LONG, rho=CHANGING),
    "COKE": lambda i: COKE(problem(i), LONG, rho=CHANGING, censor=GEOMETRIC, coder=Uniform(8)),
    "ODKLA": lambda i: ODKLA(same_again(i), LONG, rho=CHANGING, eta=ETA),
    "QC-ODKLA": lambda i: ODKLA(same_again(i), LONG, rho=CHANGING, eta=ETA, censor=GEOMETRIC, coder=Uniform(8)),
    "DOKL": lambda i: DOKL(same_again(i), LONG, rho=CHANGING, eta=ETA),
    "DDKL": lambda i: DDKL(same_again(i), LONG, rho=CHANGING),
    "sums": lambda i: DKLA(problem(i), LONG, rho=CHANGING, duals=RunningSums()),
    "relaxed": lambda i: RelaxedADMM(problem(i), LONG, rho=CHANGING),
}


def ends(make: Callable[[int], SharingAgent], link: Link) -> tuple[Array, float]:
    """Return the final models, and the largest absolute element of Σ_i γ_i, the sum of the dual variables."""
    agents = {i: make(i) for i in GRAPH}
    Network(GRAPH, link, seed=2).run(agents)
    duals = [agent.dual for agent in agents.values() if isinstance(agent, Dual)]
    return np.stack([agent.theta for agent in agents.values()]), float(np.abs(np.sum(duals, axis=0)).max(initial=0.0))


@pytest.mark.parametrize("method", [slow(each) if k % 2 else each for k, each in enumerate(ENDS)])
def test_repaired_runs_end_where_ideal_ones_do(method: str) -> None:
    models, residual = ends(ENDS[method], Link(loss=THEN_GOOD, reliability="nack"))
    ideal, _ = ends(ENDS[method], Link())
    assert residual < 1e-12
    np.testing.assert_allclose(models, ideal, rtol=0, atol=1e-6)
    if isinstance(ENDS[method](0), DKLA):
        np.testing.assert_allclose(
            ideal, np.tile(centralised([problem(i) for i in GRAPH], SHARE * AGENTS), (AGENTS, 1)), rtol=0, atol=1e-6
        )


def test_penalties_of_rounds() -> None:
    penalties = Penalties()
    assert list(penalties.spans(1, 4)) == [(3, None)]
    for k, rho in {3: 1.0, 4: 1.0, 5: 2.0, 8: 4.0}.items():
        penalties.note(k, rho)
    assert list(penalties.spans(3, 10)) == [(2, 1.0), (3, 2.0), (2, 4.0)]
    assert list(penalties.spans(1, 4)) == [(3, 1.0)]
    assert list(penalties.spans(6, 7)) == [(1, 2.0)]
    assert list(penalties.spans(9, 9)) == []
