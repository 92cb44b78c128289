"""Runs on least squares have the predicted errors and exact rates, and converge up to the exact largest step."""

from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Network, topology
from netsim.agents import (
    CTA,
    DKLA,
    DPSGD,
    EXTRA,
    L1,
    PGEXTRA,
    DIGing,
    Geometric,
    LocalProblem,
    Logistic,
    schedule,
    theory,
)
from netsim.agents.measures.metrics import consensus_error
from netsim.agents.theory import choice, gradient, recursions
from netsim.agents.theory.inputs import Curvature, Mixing
from netsim.coders import Uniform
from netsim.util.typing import Array
from tests.agents.theory.problems import CASES, Ridge, kept
from tests.parts import message_of

METHODS = [
    (DKLA, {"rho": 0.1}),
    (CTA, {"eta": 0.3}),
    (DPSGD, {"eta": 0.3}),
    (EXTRA, {"eta": 0.3}),
    (DIGing, {"eta": 0.1}),
]


@pytest.mark.parametrize(("graph", "seed"), CASES)
@pytest.mark.parametrize(("make", "parameters"), METHODS)
def test_predicted_errors_are_those_of_a_run(graph: str, seed: int, make: Any, parameters: dict[str, float]) -> None:
    ridge = Ridge(graph, seed)
    agents = ridge.agents(make, 60, **parameters)
    predicted = theory.bounds(agents, ridge.graph, 60)["predicted_error"]
    errors = ridge.errors(agents)
    np.testing.assert_allclose(errors, predicted, rtol=1e-6, atol=1e-13)


SLOWLY = [
    (DKLA, {"rho": 5.0}),
    (CTA, {"eta": 0.02}),
    (DPSGD, {"eta": 0.02}),
    (EXTRA, {"eta": 0.02}),
    (DIGing, {"eta": 0.02}),
]


@pytest.mark.parametrize(("graph", "seed"), CASES)
@pytest.mark.parametrize(("make", "parameters"), SLOWLY)
def test_a_long_run_has_the_exact_rate(graph: str, seed: int, make: Any, parameters: dict[str, float]) -> None:
    # With one feature and small steps a single mode dominates early, so a run soon has its asymptotic rate.
    ridge = Ridge(graph, seed, size=1, regularizer=0.02)
    agents = ridge.agents(make, 400, **parameters)
    rate = theory.exact_rate(agents, ridge.graph)
    models = kept(ridge.graph, agents, lambda agent: agent.theta)
    steps = np.linalg.norm(np.diff(models, axis=0), axis=(1, 2))
    last = np.flatnonzero(steps > 1e-12)[-1]
    assert (steps[last] / steps[last - 20]) ** (1 / 20) == pytest.approx(rate, abs=1e-4)


@pytest.mark.parametrize(("graph", "seed"), CASES)
@pytest.mark.parametrize("make", [CTA, DPSGD, EXTRA, DIGing])
def test_a_step_beyond_the_exact_edge_diverges(graph: str, seed: int, make: Any) -> None:
    ridge = Ridge(graph, seed)
    agents = ridge.agents(make, 10, eta=0.1)
    guaranteed, exact = theory.ranges(agents, ridge.graph)
    assert exact.exact
    assert not guaranteed.exact
    # The exact largest steps were 1.05 to 1.78 times the guaranteed ones in these cases.
    assert guaranteed.high <= exact.high * (1 + 1e-9) <= 2 * 1.78 * guaranteed.high
    rates = [theory.exact_rate(ridge.agents(make, 10, eta=share * exact.high), ridge.graph) for share in (0.999, 1.001)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[0] < 1.0 < rates[1]


@pytest.mark.parametrize("make", [CTA, DPSGD, EXTRA, DIGing])
def test_runs_converge_below_the_exact_edge_and_diverge_above(make: Any) -> None:
    ridge = Ridge("ring", 0)
    edge = theory.ranges(ridge.agents(make, 10, eta=0.1), ridge.graph)[1].high
    limit = ridge.errors(ridge.agents(make, 200, eta=0.9 * edge))
    assert limit[-1] < 10 * limit[0]
    assert ridge.errors(ridge.agents(make, 200, eta=1.1 * edge))[-1] > 1e3 * limit[0]


def test_edges_are_met_by_equal_costs() -> None:
    # If all Hessians are M·I, the guaranteed largest steps of D-PSGD and DIGing are exact. EXTRA's exact largest step
    # is (5 + 3λ_N)/(4M), where λ_N is the smallest eigenvalue of the weights.
    weights = Ridge("ring", 0).weights
    hessians = np.stack([2.5 * np.eye(3)] * len(weights))
    mixing, curvature = Mixing.of(weights), Curvature(2.5, 2.5, hessians)
    assert gradient.dpsgd_exact_edge(weights, hessians) == pytest.approx(gradient.dpsgd_edge(mixing, curvature))
    assert gradient.extra_exact_edge(weights, hessians) == pytest.approx((5 + 3 * mixing.last) / (4 * 2.5))
    assert gradient.diging_exact_edge(weights, hessians) == pytest.approx(gradient.diging_edge(mixing, curvature))
    assert gradient.extra_edge(mixing, curvature) < gradient.extra_exact_edge(weights, hessians)


@pytest.mark.parametrize(("graph", "seed"), CASES)
@pytest.mark.parametrize("eta", [0.05, 0.3, schedule.power(0.3)])
def test_disagreement_of_dpsgd_is_bounded_in_every_round(graph: str, seed: int, eta: Any) -> None:
    ridge = Ridge(graph, seed)
    agents = ridge.agents(DPSGD, 60, eta=eta)
    probe = theory.probe(agents, ridge.graph)
    assert probe is not None
    found = []

    def watch(those: Any) -> dict[str, float]:
        measured = consensus_error(np.stack([agent.theta for agent in those.values()]))
        found.append((probe(those)["bound_consensus_error"], measured))
        return {}

    Network(ridge.graph, seed=1).run(agents, [watch])
    bound, measured = np.array(found).T
    assert np.all(measured <= bound * (1 + 1e-9))
    # The root of the bound was up to 18 times the measured root on graphs of up to 12 agents.
    assert bound[-1] <= (2 * 18) ** 2 * measured[-1]


def test_warnings_tell_exact_from_guaranteed() -> None:
    ridge = Ridge("ring", 0)
    edge = theory.ranges(ridge.agents(EXTRA, 10, eta=0.1), ridge.graph)
    between = (edge[0].high + edge[1].high) / 2
    assert theory.warnings(ridge.agents(EXTRA, 10, eta=between), ridge.graph) == []
    (line,) = theory.warnings(ridge.agents(EXTRA, 10, eta=2 * edge[1].high), ridge.graph)
    assert line.endswith(
        f"outside the range in which EXTRA converges on these costs (0, {edge[1].high:.3g}) "
        f"(exact; (0, {edge[0].high:.3g}) is guaranteed)"
    )


def test_other_losses_have_guaranteed_ranges_only() -> None:
    ridge = Ridge("ring", 0)
    costs = [
        LocalProblem(c.features, np.sign(c.targets), loss=Logistic(), regularizer=c.regularizer) for c in ridge.costs
    ]
    agents = {i: DPSGD(costs[i], 10, eta=5.0, weights=ridge.rows[i]) for i in ridge.graph}
    curvature = Curvature.of(costs)
    assert curvature is not None
    rng = np.random.default_rng(0)
    for cost in costs:
        a, b = rng.normal(size=(2, 3))
        slope = np.linalg.norm(cost.gradient(a) - cost.gradient(b)) / np.linalg.norm(a - b)
        assert curvature.m <= slope <= curvature.M
    (only,) = theory.ranges(agents, ridge.graph)
    assert not only.exact
    assert theory.exact_rate(agents, ridge.graph) is None
    assert "the exact rate: not for costs other than least squares" in theory.lines(agents, ridge.graph)


def test_why_not() -> None:
    ridge = Ridge("ring", 0)

    def of(**more: Any) -> dict[int, Any]:
        return ridge.agents(EXTRA, 10, **({"eta": 0.1} | more))

    def why(agents: dict[int, Any]) -> set[str]:
        return {line.partition(": ")[2] for line in theory.lines(agents, ridge.graph)}

    assert why(of()) == set()
    assert why(of(eta=schedule.power(0.1))) == {"not for a schedule of eta"}
    assert why(of(censor=Geometric(0.1, 0.9))) == {"not for a censor"}
    assert why(of(coder=Uniform(4))) == {"not for a coder"}
    assert why(of() | {0: EXTRA(ridge.costs[0], 10, eta=0.2, weights=ridge.rows[0])}) == {
        "not for agents of different eta"
    }
    far = of()
    for i in far:
        # These weights suit the complete graph, not the ring.
        far[i].weights = dict.fromkeys(ridge.graph, 0.2)
    assert why(far) == {"not for weights of agents that are not neighbours"}
    skewed = of()
    skewed[0].weights = skewed[0].weights | {1: 0.9}
    assert why(skewed) == {"not for weights that are not symmetric and doubly stochastic"}
    assert {each.why_not(of(), [ridge.graph]) for each in EXTRA.theorems} == {"not for graphs that change"}  # type: ignore[arg-type]


def test_a_changed_algorithm_has_no_theorems() -> None:
    class Own(EXTRA):
        def local_step(self) -> Array:
            return 2.0 * super().local_step()

    class Renamed(EXTRA):
        pass

    ridge = Ridge("ring", 0)
    assert theory.theorems_of(ridge.agents(Own, 10, eta=0.1)) == ()
    assert theory.theorems_of(ridge.agents(PGEXTRA, 10, eta=0.1, nonsmooth=L1(0.1))) == ()
    assert theory.theorems_of(ridge.agents(Renamed, 10, eta=0.1)) == EXTRA.theorems


def test_large_models_have_no_exact_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    ridge = Ridge("ring", 0)
    monkeypatch.setattr(choice, "LARGEST_SEARCHED", 14)
    searched = message_of(lambda: theory.choose(ridge.agents(EXTRA, 10, eta=0.1), ridge.graph, "best"), BadInput)
    assert searched == "by = 'best': must be 'guaranteed' for more than 14 numbers in all models (15)"
    monkeypatch.setattr(recursions, "LARGEST", 14)
    many = topology.ring(501)
    costs = {i: EXTRA(ridge.costs[0], 10, eta=9.0, weights={}) for i in many}
    assert theory.warnings(costs, many) == []
    assert "EXTRA: not for more than 500 agents (501)" in theory.lines(costs, many)
    agents = ridge.agents(EXTRA, 10, eta=0.1)
    assert theory.exact_rate(agents, ridge.graph) is None
    assert "the exact rate: not for more than 14 numbers in all models (15)" in theory.lines(agents, ridge.graph)
