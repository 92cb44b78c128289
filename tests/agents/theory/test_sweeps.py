"""The rate of successive projections, connected ensembles, and the number of features in theorem 3."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from netsim import BadInput, Network
from netsim.agents import Ensemble, network_graph, projectors
from netsim.agents.projections.divergences import Entropy
from netsim.agents.projections.estimate import Estimate, State, distance, limit, linear, state_of, together
from netsim.agents.theory import sweeps
from netsim.agents.theory.features import degrees_of_freedom, feature_error, features_needed
from netsim.agents.theory.sweeps import Sweep, is_connected
from netsim.util.typing import Array, Matrix
from tests.parts import message_of

Gram = Callable[[Matrix, Matrix], Matrix]


def gaussian(x: Matrix, z: Matrix) -> Matrix:
    result: Matrix = np.exp(-np.sum((x[:, None] - z[None]) ** 2, axis=-1))
    return result


def ensemble(sets: list[list[int]], seed: int = 0, gram: Gram = gaussian, regularizer: float = 0.1) -> Ensemble:
    rng = np.random.default_rng(seed)
    count = 1 + max(map(max, sets))
    return Ensemble(rng.uniform(-1, 1, (count, 2)), rng.normal(size=count), sets, regularizers=regularizer, gram=gram)


SETS = {
    "chain": [[3 * i, 3 * i + 1, 3 * i + 2, 3 * i + 3] for i in range(4)],
    "chain of two": [[2 * i, 2 * i + 1, 2 * i + 2, 2 * i + 3] for i in range(4)],
    "public": [[0, 1, 2, 3 + 2 * i, 4 + 2 * i] for i in range(3)],
}


def distances(of: Ensemble, count: int, order: Sequence[int] | None = None) -> Array:
    """Run sweeps of the agents' projections; return the distance to the limit at the start and after each sweep."""
    end, z = limit(of), of.targets.copy()
    estimates = [Estimate(gram, weight) for gram, weight in zip(of.grams, of.regularizers, strict=True)]
    found = []
    for k in range(count + 1):
        for i in (order or range(len(of))) if k else ():
            z[of.access[i]] = estimates[i].project(z[of.access[i]])
        found.append(distance(of, State(z.copy(), [each.coefficients for each in estimates]), end))
    return np.array(found)


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("seed", range(3))
def test_distances_are_predicted(sets: str, seed: int) -> None:
    of = ensemble(SETS[sets], seed)
    sweep, found = Sweep.of(of), distances(of, 40)
    assert np.linalg.norm(sweep.start) == pytest.approx(found[0])
    np.testing.assert_allclose(found[1:], sweep.distances(40), rtol=1e-5, atol=1e-7 * found[0])
    backwards = list(reversed(range(len(of))))
    again = Sweep.of(of, backwards).distances(10)
    np.testing.assert_allclose(distances(of, 10, backwards)[1:], again, rtol=1e-5, atol=1e-7 * found[0])
    # Theorem 2: no sweep increases the distance to the limit.
    assert np.all(np.diff(found) <= 1e-12)
    assert np.all(found[1:] <= sweep.bound(40) + 1e-7 * found[0])
    assert sweep.rate <= sweep.norm < 1.0


@pytest.mark.parametrize("sets", [[[0, 1], [1, 2], [0, 2]], [[0, 1], [1, 2], [2, 3], [3, 0]], [[0, 1, 2], [1, 2, 3]]])
@pytest.mark.parametrize("seed", range(3))
def test_late_sweeps_shrink_by_the_rate(sets: list[list[int]], seed: int) -> None:
    of = ensemble(sets, seed, gram=linear, regularizer=1.0)
    found = distances(of, 80)
    last = np.flatnonzero(found > 1e-6 * found[0])[-1]
    assert (found[last] / found[last - 3]) ** (1 / 3) == pytest.approx(Sweep.of(of).rate, abs=1e-4)


def test_a_network_has_the_predicted_distances() -> None:
    of = ensemble(SETS["chain"])
    agents = projectors(of, "token", 3)
    Network(network_graph(of, "token")).run(agents)
    assert distance(of, state_of(of, agents), limit(of)) == pytest.approx(Sweep.of(of).distances(3)[-1], rel=1e-5)


def test_large_ensembles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "LARGEST", 10)
    assert "at most 10 numbers" in message_of(lambda: Sweep.of(ensemble(SETS["chain"])), BadInput)


def test_a_rate_is_refused_for_other_losses_than_the_square() -> None:
    of = Ensemble(np.eye(2), np.ones(2), [[0, 1]], regularizers=1.0, gram=linear, divergence=Entropy())
    assert "must have squares" in message_of(lambda: Sweep.of(of), BadInput)


def polynomial(x: Matrix, z: Matrix) -> Matrix:
    return (1.0 + linear(x, z)) ** 2


def test_connected_ensembles() -> None:
    two, four, six = ([[*range(k), k], [*range(k), k + 1]] for k in (2, 4, 6))
    assert is_connected(ensemble(two, gram=linear))
    assert not is_connected(ensemble(two))
    assert is_connected(ensemble([[0, 1, 2], [0, 1, 2]]))
    # For the kernel (1 + xᵀx')² on the plane, C(4, 2) = 6 shared examples are needed; the paper's dᵖ = 4 are too few.
    assert not is_connected(ensemble([[*range(4), 4, 5], [*range(4), 6, 7]], gram=polynomial))
    assert is_connected(ensemble(six, gram=polynomial))
    assert is_connected(ensemble(four, gram=lambda x, z: linear(x, z) ** 2))


def test_all_agents_of_a_connected_ensemble_reach_the_centralised_solution() -> None:
    for sets, joined in (([[0, 1, 2], [0, 1, 3], [0, 1, 4]], True), ([[0, 1], [1, 2], [2, 3]], False)):
        of = ensemble(sets, gram=linear)
        assert is_connected(of) is joined
        central = linear(of.inputs, of.inputs) @ together(of)
        own = [
            linear(of.inputs, of.inputs[examples]) @ each
            for examples, each in zip(of.access, limit(of).coefficients, strict=True)
        ]
        assert bool(np.abs(np.array(own) - central).max() < 1e-9) is joined


def test_features_of_theorem_3() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 2))
    gram, regularizer = np.exp(-np.sum((x[:, None] - x[None]) ** 2, axis=-1) / 2), 0.05
    freedom = degrees_of_freedom(gram, regularizer)
    assert freedom == pytest.approx(np.trace(gram @ np.linalg.inv(gram + 60 * regularizer * np.eye(60))))
    needed = features_needed(gram, regularizer)
    assert needed == math.ceil((4 + 4 / 3) / regularizer * math.log(16 * freedom / 0.05))
    assert features_needed(gram, regularizer, classes=True) < needed

    def error(count: int, seed: int) -> float:
        draws = np.random.default_rng(seed)
        angles = x @ draws.normal(size=(2, count)) + draws.uniform(0, 2 * np.pi, count)
        return feature_error(gram, np.sqrt(2 / count) * np.cos(angles), regularizer)

    # The bound is λ/(1 − ε) = 2λ for ε = ½. A fortieth of the features suffices here; three features are too few.
    assert max(error(needed, seed) for seed in range(3)) <= 2 * regularizer
    assert max(error(needed // 40, seed) for seed in range(3)) <= 2 * regularizer
    assert max(error(3, seed) for seed in range(3)) > 2 * regularizer


def test_the_error_of_features_needs_one_half_for_twice_the_regularizer() -> None:
    rng, regularizer, printed = np.random.default_rng(1), 0.05, []
    x = rng.uniform(-1, 1, (40, 2))
    gram = np.exp(-np.sum((x[:, None] - x[None]) ** 2, axis=-1) / 2)
    values, vectors = np.linalg.eigh(gram + 40 * regularizer * np.eye(40))
    root = vectors / np.sqrt(values) @ vectors.T
    for count in (3, 10, 100):
        angles = x @ rng.normal(size=(2, count)) + rng.uniform(0, 2 * np.pi, count)
        features = np.sqrt(2 / count) * np.cos(angles)
        # The least ε with ΦΦᵀ + λTI ≥ (1 − ε)(K + λTI), from which the proof derives the bound λ/(1 − ε).
        epsilon = 1 - np.linalg.eigvalsh(root @ (features @ features.T + 40 * regularizer * np.eye(40)) @ root)[0]
        error = feature_error(gram, features, regularizer)
        assert 0.5 * regularizer / (1 - epsilon) < error <= regularizer / (1 - epsilon)
        # The printed theorem 3 has the bound 2λ for any ε, which holds only for ε ≤ ½.
        printed.append(error <= 2 * regularizer)
        assert printed[-1] or epsilon > 0.5
    assert not all(printed)
