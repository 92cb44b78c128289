"""Algorithms with each coder: `Exact` sends float64, and with every coder the algorithms reach the same model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netsim import Link, Network, Run, topology
from netsim.agents import (
    COKE,
    CompleteOMKL,
    Geometric,
    GossipOMKL,
    LocalProblem,
    Logistic,
    MultiKernelCost,
    Squared,
    centralised,
)
from netsim.coders import QSGD, Coder, Exact, Float, RandomK, Sign, Ternary, TopK, Uniform

SIZE, AGENTS = 6, 5


def problems() -> list[LocalProblem]:
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(20, SIZE)), rng.normal(size=20)) for _ in range(AGENTS)]
    return [LocalProblem(x, y, loss=Squared(), regularizer=1e-3 / AGENTS) for x, y in data]


def coke(coder: Coder, rounds: int = 60, **settings: Any) -> dict[int, Any]:
    return {i: COKE(local, rounds, rho=0.1, coder=coder, **settings) for i, local in enumerate(problems())}


def kernels(make: Callable[..., Any], coder: Coder, **settings: Any) -> dict[int, Any]:
    agents = {}
    for i in range(AGENTS):
        rng = np.random.default_rng(i)
        samples = iter([(rng.normal(size=2 * SIZE), rng.choice([-1.0, 1.0])) for _ in range(30)])
        cost = MultiKernelCost(samples, 2, SIZE, loss=Logistic(), regularizer=1e-3)
        agents[i] = make(cost, 30, eta=0.3, coder=coder, **settings)
    return agents


METHODS: dict[str, Callable[[Coder], dict[int, Any]]] = {
    "COKE": lambda coder: coke(coder, censor=Geometric(0.3, 0.9)),
    "gossip": lambda coder: kernels(GossipOMKL, coder, gamma=0.5, weights=dict.fromkeys(range(AGENTS), 0.2)),
    "complete": lambda coder: kernels(CompleteOMKL, coder, agents=AGENTS),
}


def play(agents: dict[int, Any], link: Link | None = None) -> tuple[Run, list[bytes]]:
    run = Network(topology.complete(AGENTS), link, seed=3).run(agents)
    return run, [(agent.model if hasattr(agent, "model") else agent.theta).tobytes() for agent in agents.values()]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("link", [None, Link(loss=0.2, latency=0.01, duplicate=0.1)], ids=["ideal", "lossy"])
def test_exact_is_float64(method: str, link: Link | None) -> None:
    rounded, models = play(METHODS[method](Float(64)), link)
    exact, same = play(METHODS[method](Exact()), link)
    assert exact.trace_hash == rounded.trace_hash
    assert same == models
    assert exact.ledger.table().equals(rounded.ledger.table())


@pytest.mark.parametrize(
    "coder",
    [
        Exact(),
        Float(32),
        Uniform(4),
        QSGD(4),
        TopK(2),
        TopK(2, Uniform(8)),
        RandomK(3),
        RandomK(3, QSGD(6)),
        Sign(),
        Ternary(),
    ],
    ids=lambda coder: type(coder).__name__,
)
def test_changes_coded_in_any_way_come_to_the_optimum(coder: Coder) -> None:
    agents = coke(coder, 300)
    play(agents)
    best = centralised(problems(), 1e-3)
    assert max(np.linalg.norm(agent.theta - best) for agent in agents.values()) < 1e-5 * np.linalg.norm(best)
