"""On links that lose, delay and duplicate frames, each method equals a recursion over the frames that arrived."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netsim import Link, Network, latency, loss, topology
from netsim.agents import (
    COKE,
    CTA,
    DDKL,
    DKLA,
    DOKL,
    ODKLA,
    RFFDOKL,
    Geometric,
    LocalProblem,
    OnlineCost,
    PowerLaw,
    Squared,
)
from netsim.agents.consensus.base import Dual, SharingAgent
from netsim.coders import Float, Uniform
from netsim.core.records import LATE, LOST
from netsim.util.typing import Array
from tests.oracle import batch, lossy
from tests.parts import slow

ROUNDS, SIZE, SHARE, RHO, ETA = 100, 7, 1e-3, 0.3, 2.0
GRAPH = topology.erdos_renyi(6, p=0.5, seed=1)
A = topology.adjacency(GRAPH)
W = topology.metropolis_weights(GRAPH)
AGENTS = len(GRAPH)

RNG = np.random.default_rng(0)
DATA = [(RNG.normal(size=(20, SIZE)), RNG.normal(size=20)) for _ in GRAPH]
GRAM, CROSS = batch.stack(DATA)
FEATURES = RNG.normal(size=(ROUNDS, AGENTS, SIZE)) / np.sqrt(SIZE)
TARGETS = np.sin(FEATURES[:, :, 0]) + 0.1 * RNG.normal(size=(ROUNDS, AGENTS))

K = np.arange(1.0, ROUNDS + 1)
CODED = batch.uniform_quantizer(4)

LINKS = {
    "ideal": Link(),
    "independent": Link(loss=0.2),
    "bursts": Link(loss=loss.gilbert_elliott(mean=0.2, burst=4)),
    "late and twice": Link(loss=0.1, latency=latency.uniform(0.1, 1.1), duplicate=0.3),
}


def problem(i: int) -> LocalProblem:
    return LocalProblem(*DATA[i], loss=Squared(), regularizer=SHARE)


def cost(i: int) -> OnlineCost:
    samples = zip(FEATURES[:, i], TARGETS[:, i].tolist(), strict=True)
    return OnlineCost(samples, SIZE, loss=Squared(), regularizer=SHARE)


def row(i: int) -> dict[int, float]:
    return dict(enumerate(W[i]))


Make = Callable[[int], SharingAgent]
Recursion = Callable[[NDArray[np.bool_]], lossy.Result]


def admm(step: lossy.Step, *coding: Any) -> Recursion:
    return lambda arrived: lossy.admm(step, A, SIZE, RHO, arrived, lossy.Coding(*coding))


def diffusion(adapt: Callable[[int, int, Array], Array], *coding: Any) -> Recursion:
    return lambda arrived: lossy.diffusion(adapt, W, SIZE, arrived, lossy.Coding(*coding))


def cta_step(t: int, i: int, psi: Array) -> Array:
    return psi - 0.2 * (2.0 * (GRAM[i] @ psi - CROSS[i]) + 2.0 * SHARE * psi)


def rff_dokl_step(t: int, i: int, psi: Array) -> Array:
    error = FEATURES[t, i] @ psi - TARGETS[t, i]
    return psi - 0.3 * (2.0 * error * FEATURES[t, i] + 2.0 * SHARE * psi)


BATCH = lossy.batch_argmin(GRAM, CROSS, A, SHARE, RHO)
ODKLA_STEP = lossy.online_gradient(FEATURES, TARGETS, A, SHARE, RHO, ETA)
DOKL_STEP = lossy.online_argmin(FEATURES, TARGETS, A, SHARE, RHO, ETA)
DDKL_STEP = lossy.online_argmin(FEATURES, TARGETS, A, SHARE, RHO, 0.0)
GEOMETRIC, POWER = Geometric(0.6, 0.95), PowerLaw(0.6, 0.3)
BY_GEOMETRIC, BY_POWER = 0.6 * 0.95**K, 0.6 * K**-0.3

METHODS: dict[str, tuple[Make, Recursion]] = {
    "CTA": (lambda i: CTA(problem(i), ROUNDS, eta=0.2, weights=row(i)), diffusion(cta_step)),
    "CTA, censored": (
        lambda i: CTA(problem(i), ROUNDS, eta=0.2, weights=row(i), censor=GEOMETRIC),
        diffusion(cta_step, BY_GEOMETRIC),
    ),
    "CTA, coded": (
        lambda i: CTA(problem(i), ROUNDS, eta=0.2, weights=row(i), coder=Uniform(4)),
        diffusion(cta_step, None, CODED),
    ),
    "RFF-DOKL": (lambda i: RFFDOKL(cost(i), ROUNDS, eta=0.3, weights=row(i)), diffusion(rff_dokl_step)),
    "DKLA": (lambda i: DKLA(problem(i), ROUNDS, rho=RHO), admm(BATCH)),
    "DKLA, float32": (
        lambda i: DKLA(problem(i), ROUNDS, rho=RHO, coder=Float(32)),
        admm(BATCH, None, None, lambda state: state.astype(np.float32).astype(np.float64)),
    ),
    "COKE": (lambda i: COKE(problem(i), ROUNDS, rho=RHO, censor=GEOMETRIC), admm(BATCH, BY_GEOMETRIC)),
    "COKE, coded": (
        lambda i: COKE(problem(i), ROUNDS, rho=RHO, censor=GEOMETRIC, coder=Uniform(4)),
        admm(BATCH, BY_GEOMETRIC, CODED),
    ),
    "ODKLA": (lambda i: ODKLA(cost(i), ROUNDS, rho=RHO, eta=ETA), admm(ODKLA_STEP)),
    "QC-ODKLA": (
        lambda i: ODKLA(cost(i), ROUNDS, rho=RHO, eta=ETA, censor=GEOMETRIC, coder=Uniform(4)),
        admm(ODKLA_STEP, BY_GEOMETRIC, CODED),
    ),
    "DOKL": (lambda i: DOKL(cost(i), ROUNDS, rho=RHO, eta=ETA), admm(DOKL_STEP)),
    "DDKL": (lambda i: DDKL(cost(i), ROUNDS, rho=RHO), admm(DDKL_STEP)),
    "CoDDKL": (lambda i: DDKL(cost(i), ROUNDS, rho=RHO, censor=POWER), admm(DDKL_STEP, BY_POWER)),
    "QDDKL": (lambda i: DDKL(cost(i), ROUNDS, rho=RHO, coder=Uniform(4)), admm(DDKL_STEP, None, CODED)),
    "QC-DDKL": (
        lambda i: DDKL(cost(i), ROUNDS, rho=RHO, censor=POWER, coder=Uniform(4)),
        admm(DDKL_STEP, BY_POWER, CODED),
    ),
}


@pytest.mark.parametrize("link", [slow("ideal"), slow("independent"), slow("bursts"), "late and twice"])
@pytest.mark.parametrize("method", METHODS)
def test_models_and_duals_follow_from_which_frames_arrived(method: str, link: str) -> None:
    make, recursion = METHODS[method]
    thetas: list[Array] = []
    duals: list[Array] = []
    spoken: list[list[int]] = []

    def watch(agents: Mapping[int, Any]) -> dict[str, float]:
        every = agents.values()
        thetas.append(np.stack([agent.theta for agent in every]))
        duals.append(np.stack([agent.dual if isinstance(agent, Dual) else np.zeros(SIZE) for agent in every]))
        spoken.append([agent.sharing.spoken for agent in every])
        return {}

    run = Network(GRAPH, LINKS[link], seed=5).run({i: make(i) for i in GRAPH}, [watch], trace=True)
    arrived = lossy.arrivals(run, ROUNDS)
    expected = recursion(arrived)
    np.testing.assert_array_equal(np.diff(np.array(spoken), axis=0, prepend=0), expected.sent)
    scale = max(1.0, float(np.abs(expected.thetas).max()), float(np.abs(expected.duals).max()))
    np.testing.assert_allclose(np.array(thetas), expected.thetas, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(np.array(duals), expected.duals, rtol=0, atol=1e-12 * scale)
    missed = run.ledger.exits[LOST] + run.ledger.exits[LATE]
    assert (missed > 0.1 * run.ledger.link_messages) == (link != "ideal")
    if "censored" in method or method.startswith(("Co", "QC", "COKE")):
        assert 0.02 < expected.sent.mean() < 0.98
    if link != "ideal":
        # The losses must matter: with all frames received the models differ.
        apart = np.abs(recursion(np.ones_like(arrived)).thetas - expected.thetas).max()
        assert apart > 1e-3
