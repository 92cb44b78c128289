"""Spectra, curvatures and contractions that the theorems require."""

from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import BadInput, topology
from netsim.agents import CHOCO, CTA, ClassProblem, LocalProblem, Softmax, Squared, theory
from netsim.agents.theory.inputs import Curvature, Graph, Mixing, contraction
from netsim.coders import QSGD, Coder, Exact, Float, Natural, RandomK, Sign, Ternary, TopK, Uniform, decoded
from tests.agents.theory.problems import GRAPHS, Ridge
from tests.parts import message_of


@pytest.mark.parametrize("graph", GRAPHS)
def test_spectra_are_those_of_the_incidence_matrices(graph: str) -> None:
    of = GRAPHS[graph]()
    # The paper's incidence matrices have a column per direction of an edge.
    arcs = [(a, b) for pair in of.edges for a, b in (pair, pair[::-1])]
    signed, unsigned = np.zeros((2, len(of), len(arcs)))
    for k, (a, b) in enumerate(arcs):
        signed[a, k], signed[b, k] = 1.0, -1.0
        unsigned[a, k] = unsigned[b, k] = 1.0
    plus, minus = (np.linalg.svd(each, compute_uv=False) ** 2 for each in (unsigned, signed))
    found = Graph.of(of)
    assert found.edges == of.number_of_edges()
    assert found.plus == pytest.approx(plus[0])
    assert found.minus_max == pytest.approx(minus[0])
    assert found.minus == pytest.approx(minus[minus > 1e-9].min())


def test_mixing() -> None:
    found = Mixing.of(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert (found.second, found.last, found.sigma, found.gap, found.beta) == pytest.approx((-1, -1, 1, 2, 2))


@pytest.mark.parametrize("make", [CTA, CHOCO])
def test_weights_are_read_from_agents(make: Any) -> None:
    ridge = Ridge("path", 0)
    more = {"gamma": 0.1} if make is CHOCO else {}
    agents = ridge.agents(make, 5, eta=0.1, **more)
    np.testing.assert_allclose(theory.weights_of(agents), ridge.weights, atol=1e-15)


def test_curvature() -> None:
    ridge = Ridge("ring", 0)
    found = Curvature.of(ridge.costs)
    assert found is not None
    # Remark 3 of COKE prints squared values, and a factor 1/T where 2/T is right.
    grams = [cost.features.T @ cost.features / len(cost.targets) for cost in ridge.costs]
    values = np.array([np.linalg.eigvalsh(2 * gram + 2 * 2.0 / 5 * np.eye(3)) for gram in grams])
    assert (found.m, found.M) == pytest.approx((values.min(), values.max()))
    classes = ClassProblem(np.eye(3), np.arange(3), loss=Softmax(3), regularizer=0.1)
    assert Curvature.of([*ridge.costs[:1], classes]) is None
    assert Curvature.of([]) is None


def test_curvature_needs_as_many_features_of_each_cost() -> None:
    ridge = Ridge("ring", 0)
    wide = LocalProblem(np.eye(4), np.zeros(4), loss=Squared(), regularizer=0.1)
    text = message_of(lambda: Curvature.of([*ridge.costs, wide]), BadInput)
    assert text == "features.shape[1] of costs[5] = 4: must be 3, as in costs[0]"


CODERS = [
    Exact(),
    QSGD(2),
    QSGD(4),
    Natural(),
    Ternary(),
    RandomK(2),
    RandomK(2, unbiased=True),
    TopK(2),
    Sign(),
    Uniform(3),
]


@pytest.mark.parametrize("coder", CODERS, ids=lambda coder: type(coder).__name__)
def test_contractions_hold(coder: Coder) -> None:
    rng = np.random.default_rng(0)
    found = contraction(coder, 6)
    assert found is not None
    # The vectors include Ternary's worst case: one element is √n + 1 times the others.
    vectors = [*rng.normal(size=(6, 6)), np.array([6**0.5 + 1, 1, 1, 1, 1, 1]), np.eye(6)[0]]
    ratios = []
    for x in vectors:
        found_x = np.array([decoded(coder.encode(x, rng)) for _ in range(400)])
        ratios.append(np.mean(np.sum((found_x - x) ** 2, axis=1)) / (x @ x))
        if found.unbiased:
            assert np.linalg.norm(found_x.mean(axis=0) - x) < 0.25 * np.linalg.norm(x)
    # The means over 400 draws have a statistical error; 15 % allow for it.
    assert max(ratios) <= 1.15 * min(found.variance, 1 - found.delta) + 1e-12
    if isinstance(coder, Ternary):
        assert max(ratios) == pytest.approx(found.variance, rel=0.1)


def test_intervals_and_unknown_coders() -> None:
    fixed = contraction(Uniform(4, low=-1.0, high=1.0), 6)
    assert fixed is not None
    assert fixed.interval == 2 / 16
    assert contraction(Float(32), 6) is None
    assert contraction(TopK(2, Sign()), 6) is None
    rows = contraction(QSGD(3, by_row=True), (4, 6))
    assert rows == contraction(QSGD(3), 6) != contraction(QSGD(3), (4, 6))


def test_refusals() -> None:
    assert message_of(lambda: Graph.of(topology.path(1)), BadInput) == "nodes of graph = 1: must be 2 or more"
    assert message_of(lambda: Graph.of(nx.DiGraph([(0, 1)])), BadInput) == "graph: must be undirected"
    assert "symmetric matrix" in message_of(lambda: Mixing.of(np.array([[0.5, 0.5], [0.2, 0.8]])), BadInput)
    assert "must be (N, N)" in message_of(lambda: Mixing.of(np.ones((2, 3))), BadInput)
    ridge = Ridge("ring", 0)
    plain = ridge.agents(CTA, 5, eta=0.1)
    assert "by = 'fastest'" in message_of(lambda: theory.choose(plain, ridge.graph, "fastest"), BadInput)
    assert "rounds = 0" in message_of(lambda: theory.bounds(plain, ridge.graph, 0), BadInput)
    kinked = {i: CTA(_Unknown(), 5, eta=0.1, weights=ridge.rows[i]) for i in ridge.graph}
    assert "not for costs of unknown curvature" in message_of(lambda: theory.choose(kinked, ridge.graph), BadInput)
    assert theory.ranges(kinked, ridge.graph) == []


class _Unknown(LocalProblem):
    def __new__(cls) -> "_Unknown":
        return object.__new__(cls)

    def __init__(self) -> None:
        self.size = 2
        self.loss = type("Own", (Squared,), {"name": "own"})()
