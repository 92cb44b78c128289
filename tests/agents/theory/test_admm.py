"""Runs of DKLA satisfy theorem 4 of COKE, and are counterexamples to its printed forms."""

import numpy as np
import pytest

from netsim import topology
from netsim.agents import COKE, DKLA, EdgeDuals, Geometric, LocalProblem, Logistic, centralised, theory
from netsim.agents.theory.admm import LinearConvergence, coke_penalty, dkla_best_rho, dkla_delta, dkla_energy
from netsim.agents.theory.inputs import Curvature, Graph
from netsim.util.typing import Array
from tests.agents.theory.problems import CASES, Ridge, kept

# The largest ratios of a bound to the measured error on graphs of up to 12 agents: √(G_k/m), and theorem 4 in round 1.
LOOSEST_HALF, LOOSEST_FIRST = 7.8, 32


def energies(ridge: Ridge, rho: float, rounds: int) -> tuple[Array, Array]:
    """Run DKLA; return for k = 0, …, rounds the energy G_k (`dkla_energy`) and the error ‖Θ_k − Θ*‖."""
    agents = ridge.agents(DKLA, rounds, rho=rho)
    both = kept(ridge.graph, agents, lambda agent: np.stack([agent.theta, agent.dual]))
    both = np.concatenate([np.zeros_like(both[:1]), both])
    optimal_dual = -np.array([cost.gradient(ridge.optimum) for cost in ridge.costs])
    found = [dkla_energy(each[:, 0], each[:, 1], ridge.optimum, optimal_dual, rho, ridge.graph) for each in both]
    return np.array(found), np.linalg.norm(both[:, :, 0] - ridge.optimum, axis=(1, 2))


def curvature_of(ridge: Ridge) -> Curvature:
    found = Curvature.of(ridge.costs)
    assert found is not None
    return found


@pytest.mark.parametrize(("graph", "seed"), CASES)
@pytest.mark.parametrize("rho", [0.05, 0.5])
def test_theorem_4_holds_in_every_round(graph: str, seed: int, rho: float) -> None:
    ridge = Ridge(graph, seed)
    energy, error = energies(ridge, rho, 60)
    curvature = curvature_of(ridge)
    delta = dkla_delta(curvature, Graph.of(ridge.graph), rho)
    above_rounding = energy[1:] > 1e-20 * energy[0]
    assert np.all((energy[1:] * (1 + delta) <= energy[:-1])[above_rounding])
    first_half = np.sqrt(energy[:-1] / curvature.m)
    assert np.all((error[1:] <= first_half)[above_rounding])
    assert np.min((first_half / error[1:])[above_rounding]) <= 2 * LOOSEST_HALF
    bound = LinearConvergence().errors(ridge.agents(DKLA, 60, rho=rho), ridge.graph, 60)
    assert np.all(error[1:] <= bound)
    assert bound[0] <= 2 * LOOSEST_FIRST * error[1]
    # The spectral radius is at most the theorem's rate.
    exact = theory.exact_rate(ridge.agents(DKLA, 60, rho=rho), ridge.graph)
    assert exact is not None
    assert exact <= (1 + delta) ** -0.5 + 1e-12


def test_theorem_4_holds_for_the_logistic_loss() -> None:
    ridge = Ridge("ring", 0)
    ridge.costs = [
        LocalProblem(c.features, np.sign(c.targets), loss=Logistic(), regularizer=c.regularizer) for c in ridge.costs
    ]
    ridge.optimum = centralised(ridge.costs, 2.0)
    agents = ridge.agents(DKLA, 40, rho=0.1)
    bound = LinearConvergence().errors(agents, ridge.graph, 40)
    assert np.all(ridge.errors(agents) <= bound)


def test_a_vacuous_bound_is_a_line() -> None:
    ridge = Ridge("ring", 0)
    zero = np.sqrt(5) * np.linalg.norm(ridge.optimum)
    for rounds, vacuous in ((3, True), (200, False)):
        agents = ridge.agents(DKLA, rounds, rho=0.5)
        bound = LinearConvergence().errors(agents, ridge.graph, rounds)
        assert (bound.min() >= zero) == vacuous
        assert ("bound_error" in theory.bounds(agents, ridge.graph, rounds)) is not vacuous
        line = (
            f"theorem 4 of COKE: vacuous here, the error after {rounds} rounds is at most {bound[-1]:.3g} "
            f"(zero model: {zero:.3g})"
        )
        assert theory.lines(agents, ridge.graph) == [line] * vacuous


def test_printed_delta_promises_too_much() -> None:
    # The printed δ multiplies by σ̃²min(S₋) where it must divide, which is too optimistic on a path: σ̃²min(S₋) < 1.
    ridge = Ridge(topology.path(10), 0, regularizer=10.0)
    energy, _ = energies(ridge, 0.02, 60)
    graph = Graph.of(ridge.graph)
    assert graph.minus < 1.0
    worst = (energy[1:] / energy[:-1]).max()
    right = 1 / (1 + dkla_delta(curvature_of(ridge), graph, 0.02))
    printed = 1 / (1 + dkla_delta(curvature_of(ridge), graph, 0.02, printed=True))
    assert printed < 0.99 < worst < right


def test_the_norm_without_root_fails_for_small_targets() -> None:
    # COKE's (34) prints ‖Θ − Θ*‖ for its square. Scaling the targets by 10⁻³ scales the left side by 10⁻³ and the right
    # side by 10⁻⁶, so the printed inequality fails.
    ridge = Ridge("ring", 0, scale=1e-3)
    energy, error = energies(ridge, 0.05, 20)
    assert np.all(error[1:] ** 2 <= energy[:-1] / curvature_of(ridge).m)
    assert np.all(error[1:] > energy[:-1] / curvature_of(ridge).m)


def test_delta_is_scale_free_and_best_at_its_nu() -> None:
    ridge = Ridge("ring", 1)
    curvature, graph = curvature_of(ridge), Graph.of(ridge.graph)
    best = dkla_delta(curvature, graph, 0.1)
    others = [dkla_delta(curvature, graph, 0.1, nu) for nu in 1 + np.logspace(-4, 4, 400)]
    assert best * 0.99 < max(others) <= best * (1 + 1e-12)
    # Scaling costs and ρ by the same factor leaves the run unchanged, so δ must not change either.
    small = Curvature(1e-3 * curvature.m, 1e-3 * curvature.M)
    assert dkla_delta(small, graph, 1e-4) == pytest.approx(best)


def test_best_rho_makes_delta_largest() -> None:
    ridge = Ridge("complete", 0)
    curvature, graph = curvature_of(ridge), Graph.of(ridge.graph)
    best = dkla_best_rho(curvature, graph)
    deltas = [dkla_delta(curvature, graph, rho) for rho in (0.9 * best, best, 1.1 * best)]
    assert deltas[1] > max(deltas[0], deltas[2])


def test_the_range_of_theorem_5_restricts_nothing() -> None:
    ridge = Ridge("ring", 0)
    ends = [coke_penalty(curvature_of(ridge), Graph.of(ridge.graph), eta, eta, eta, 2.0) for eta in (1e-3, 1e-6, 1e-9)]
    assert ends[0] * 900 < ends[1]
    assert ends[2] > 1e7
    assert theory.ranges(ridge.agents(COKE, 10, rho=1e6), ridge.graph) == []


def test_choice_of_rho() -> None:
    ridge = Ridge("complete", 0)
    agents = ridge.agents(DKLA, 10, rho=1.0)
    guaranteed = theory.choose(agents, ridge.graph)
    best = theory.choose(agents, ridge.graph, "best")
    rates = [theory.exact_rate(ridge.agents(DKLA, 10, **chosen), ridge.graph) for chosen in (guaranteed, best)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[1] < rates[0] < 1.0


def test_why_not() -> None:
    ridge = Ridge("ring", 0)
    censored = ridge.agents(COKE, 10, rho=0.1, censor=Geometric(0.1, 0.9))
    assert "theorem 4 of COKE: not for a censor" in theory.lines(censored, ridge.graph)
    assert set(theory.bounds(censored, ridge.graph, 5)) == {"bound_copy"}
    edges = ridge.agents(DKLA, 10, rho=0.1, duals=EdgeDuals())
    assert "theorem 4 of COKE: not for duals other than Accumulated" in theory.lines(edges, ridge.graph)
