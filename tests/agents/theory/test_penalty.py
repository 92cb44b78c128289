"""Where the greedy projected penalty method ends, and by how much its agents disagree."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pytest

from netsim import Network, topology
from netsim.agents import ConstantPenalty, Dictionary, GreedyPenalty, Squared
from netsim.agents.theory.penalty import (
    dictionary_separation,
    disagreement_bound,
    penalty_radius,
    projection_error_bound,
)
from netsim.util.typing import Array
from tests.parts import slow

POOL, SIGMA, LAMBDA, C = 3, 0.7, 0.5, 4.0


seeds = pytest.mark.parametrize("seed", [0, slow(1), slow(2)])


def kernel(x: Array, z: Array) -> Array:
    result: Array = np.exp(-np.sum((x[:, None] - z[None]) ** 2, axis=-1) / (2 * SIGMA**2))
    return result


class Pools:
    """Three samples at each agent of a ring of three, of which all are in each mini-batch: gradients are exact."""

    def __init__(self, seed: int, alike: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.x = rng.uniform(-1, 1, (3, POOL, 2))
        if alike:
            self.x[:] = self.x[0]
        self.y = np.sin(2 * self.x.sum(axis=2)) + rng.normal(size=(3, 1))
        self.all = self.x.reshape(-1, 2)
        self.gram = kernel(self.all, self.all)

    def zero(self, c: float, both: bool) -> Array:
        """Return the functions' values at all inputs, shape (3, 9), where the mean gradient vanishes.

        With ``both`` the gradient is that of ψ_c, else that of eq. 14, without the terms at the neighbours' samples.
        """
        n = len(self.all)
        system, right = np.zeros((3 * n, 3 * n)), np.zeros(3 * n)
        for i in range(3):
            at = slice(i * n, (i + 1) * n)
            # E over agent i's samples of f(x)κ(x, ·), in coordinates of κ at all inputs.
            mean = [np.diag(np.repeat(np.arange(3) == k, POOL) / POOL) @ self.gram for k in range(3)]
            system[at, at] += LAMBDA * np.eye(n) + 2 * mean[i]
            right[at][i * POOL : (i + 1) * POOL] = 2 * self.y[i] / POOL
            for j in {0, 1, 2} - {i}:
                pull = c * (mean[i] + mean[j]) if both else c * mean[i]
                system[at, at] += pull
                system[at, slice(j * n, (j + 1) * n)] -= pull
        weights = np.linalg.solve(system, right).reshape(3, n)
        return weights @ self.gram

    def risk(self, values: Array, weights: Array) -> float:
        """Return R, the sum of the agents' regularised risks, of functions by values and weights at all inputs."""
        own = values.reshape(3, 3, POOL)[range(3), range(3)]
        norms = np.einsum("in,nm,im->i", weights, self.gram, weights)
        return float(np.sum(np.mean((own - self.y) ** 2, axis=1)) + LAMBDA / 2 * norms.sum())

    def batches(self, i: int) -> Iterator[tuple[Array, Array]]:
        while True:
            yield self.x[i], self.y[i]

    def run(
        self, parsimony: float, rounds: int = 150, eta: float = 0.1
    ) -> tuple[list[Array], dict[int, GreedyPenalty]]:
        """Return the functions' values at all inputs after each round, and the agents."""
        penalty = ConstantPenalty(C)
        agents = {
            i: GreedyPenalty(
                Dictionary(2, sigma=SIGMA),
                self.batches(i),
                rounds,
                loss=Squared(),
                eta=eta,
                regularizer=LAMBDA,
                parsimony=parsimony,
                penalty=penalty,
            )
            for i in range(3)
        }
        found: list[Array] = []

        def watch(those: Mapping[int, GreedyPenalty]) -> dict[str, float]:
            found.append(np.stack([agent.model(self.all) for agent in those.values()]))
            return {}

        Network(topology.ring(3), seed=1).run(agents, [watch])
        return found, agents


def norm(pools: Pools, values: Array) -> float:
    """Return the norm in the kernel's space of functions in the span of all inputs."""
    return float(np.sqrt(np.sum(values * np.linalg.lstsq(pools.gram, values.T, rcond=1e-12)[0].T)))


@seeds
def test_the_method_ends_where_eq_14_vanishes_and_not_at_the_minimum(seed: int) -> None:
    pools = Pools(seed)
    end = pools.run(parsimony=1e-6)[0][-1]
    there, minimum = pools.zero(C, both=False), pools.zero(C, both=True)
    assert np.abs(end - there).max() < 1e-3
    assert np.abs(end - minimum).max() > 30 * np.abs(end - there).max()


def test_with_equal_inputs_it_minimises_half_the_penalty() -> None:
    pools = Pools(0, alike=True)
    np.testing.assert_allclose(pools.zero(C, both=False), pools.zero(C / 2, both=True), atol=1e-12)
    assert np.abs(pools.run(parsimony=1e-6)[0][-1] - pools.zero(C / 2, both=True)).max() < 1e-3


@seeds
@pytest.mark.parametrize("parsimony", [0.01, 0.1])
def test_radius(seed: int, parsimony: float) -> None:
    pools, eta = Pools(seed), 0.1
    values, _ = pools.run(parsimony)
    there = pools.zero(C, both=False)
    late = values[75:]
    moment = np.mean([norm(pools, b - a) ** 2 for a, b in pairwise(late)]) / eta**2
    nearest = min(norm(pools, each - there) for each in late)
    radius = penalty_radius(eta, LAMBDA, parsimony, 3, float(moment))
    # About the minimum of ψ_c, which the theorem speaks of, the radius is too small.
    minimum = pools.zero(C, both=True)
    assert parsimony > 0.01 or min(norm(pools, each - minimum) for each in late) > 2 * radius
    assert nearest <= radius < penalty_radius(eta, LAMBDA, parsimony, 3, float(moment), printed=True)


@pytest.mark.parametrize("seed", range(3))
def test_points_of_a_dictionary_are_separated(seed: int) -> None:
    eta, parsimony = 0.1, 0.2

    def samples(of: int) -> Iterator[tuple[Array, Array]]:
        draws = np.random.default_rng((seed, of))
        while True:
            x = draws.uniform(-1, 1, (1, 2))
            yield x, np.sin(2 * x.sum(axis=1))

    agent = GreedyPenalty(
        Dictionary(2, sigma=SIGMA),
        samples(0),
        100,
        loss=Squared(),
        eta=eta,
        regularizer=LAMBDA,
        parsimony=parsimony,
        penalty=ConstantPenalty(0.0),
    )
    largest = 0.0

    def watch(those: Mapping[int, GreedyPenalty]) -> dict[str, float]:
        nonlocal largest
        # The loss of the sample before it was learned from: its slope is 2√loss.
        largest = max(largest, 2 * those[0].risk ** 0.5)
        return {}

    Network(topology.path(1), seed=1).run({0: agent}, [watch])
    points = agent.model.points
    assert len(points) > 2
    distances = np.sqrt(2 - 2 * kernel(points, points)[np.triu_indices(len(points), 1)])
    assert distances.min() >= dictionary_separation(agent.epsilon, eta, largest)


@pytest.mark.parametrize("seed", range(3))
def test_disagreement_of_the_minimum(seed: int) -> None:
    pools = Pools(seed)

    def weights(values: Array) -> Array:
        return np.asarray(np.linalg.solve(pools.gram, values.T).T, dtype=np.float64)

    minimum = pools.zero(C, both=True)
    # The best common function is that of a very large penalty.
    common = np.tile(pools.zero(1e6, both=True).mean(axis=0), (3, 1))
    best = pools.risk(common, weights(common))
    at_samples = minimum.reshape(3, 3, POOL)
    half = 0.5 * sum(np.mean((at_samples[i, i] - at_samples[j, i]) ** 2) for i in range(3) for j in range(3))
    tight = disagreement_bound(best, C, pools.risk(minimum, weights(minimum)))
    assert half <= tight * (1 + 1e-6) <= disagreement_bound(best, C)


def test_projection_error() -> None:
    # V vectors of norm at most ε/η, stacked.
    stacked = np.linalg.norm(np.full((4, 1), 0.1 / 0.5))
    assert stacked == pytest.approx(projection_error_bound(0.1, 0.5, 4))
    assert projection_error_bound(0.1, 0.5, 4, printed=True) == pytest.approx(2 * stacked)
