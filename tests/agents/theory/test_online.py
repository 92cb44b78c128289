"""Runs of ODKLA and QC-ODKLA satisfy the bounds of regret and of the error of the neighbours' copies."""

from typing import Any

import numpy as np
import pytest

from netsim import Network
from netsim.agents import (
    DDKL,
    ODKLA,
    AtRandom,
    Geometric,
    PowerLaw,
    RunningSums,
    schedule,
    theory,
)
from netsim.agents.theory.inputs import Graph
from netsim.agents.theory.online import (
    CopyError,
    Regret,
    RegretProbe,
    copy_error_bound,
    odkla_best_eta,
    odkla_regret_bound,
)
from netsim.coders import QSGD, Exact, Uniform
from netsim.util.typing import Array
from tests.agents.theory.problems import CASES, GRAPHS, Stream, kept

ROUNDS = 100
# The largest ratios of a bound to the measured value on graphs of up to 12 agents, in runs of up to 3,200 rounds.
LOOSEST_REGRET, LOOSEST_COPY = 8.4, 1.5


def regret_and_bound(stream: Stream, agents: dict[int, Any]) -> tuple[Array, Array]:
    """Run agents, and return the regret and its bound after each round."""
    probe = RegretProbe(agents, stream.graph)
    found = []

    def watch(those: Any) -> dict[str, float]:
        found.append((probe(those)["bound_regret"], probe.regret.value))
        return {}

    Network(stream.graph, seed=1).run(agents, [watch])
    bound, regret = np.array(found).T
    return regret, bound


@pytest.mark.parametrize(("graph", "seed"), CASES)
@pytest.mark.parametrize("growth", [0.25, 1.0])
def test_regret_of_odkla_is_bounded_in_every_round(graph: str, seed: int, growth: float) -> None:
    stream = Stream(graph, seed, ROUNDS)
    regret, bound = regret_and_bound(stream, stream.agents(ODKLA, eta=growth * ROUNDS**0.5, rho=ROUNDS**-0.5))
    assert np.all(regret <= bound)
    assert bound[-1] <= 2 * LOOSEST_REGRET * regret[-1]


@pytest.mark.parametrize(("graph", "seed"), CASES)
@pytest.mark.parametrize("coded", [False, True])
def test_regret_of_qc_odkla_is_bounded_in_every_round(graph: str, seed: int, coded: bool) -> None:
    stream = Stream(graph, seed, ROUNDS)
    coder = Uniform(4, low=-1.0, high=1.0) if coded else Exact()
    agents = stream.agents(
        ODKLA, eta=ROUNDS**0.5 / 4, rho=0.3, censor=Geometric(0.3, 0.99), coder=coder, coded_start=coded
    )
    regret, bound = regret_and_bound(stream, agents)
    assert np.all(regret <= bound)
    assert bound[-1] <= 2 * LOOSEST_REGRET * regret[-1]


def test_with_the_printed_steps_odkla_diverges() -> None:
    stream = Stream("ring", 0, ROUNDS)
    printed = stream.agents(ODKLA, eta=ROUNDS**-0.5, rho=ROUNDS**-0.5)
    regret, bound = regret_and_bound(stream, printed)
    assert regret[-1] > 1e20
    assert np.all(regret <= bound)


@pytest.mark.slow
def test_regret_doubles_as_rounds_grow_four_times() -> None:
    ends = []
    for rounds in (200, 800):
        stream = Stream("complete", 0, rounds)
        regret, _ = regret_and_bound(stream, stream.agents(ODKLA, eta=rounds**0.5 / 4, rho=rounds**0.5 / 4))
        ends.append(regret[-1])
    assert 1.5 < ends[1] / ends[0] < 2.5


def test_best_eta_makes_the_bound_least() -> None:
    graph = Graph.of(GRAPHS["ring"]())
    norm, gradient, rounds = 1.5, 0.4, 50

    def bound(eta: float) -> float:
        return odkla_regret_bound(norm, graph.agents * rounds * gradient**2, eta, 0.1, graph)

    best = odkla_best_eta(norm, gradient, rounds)
    assert bound(best) < min(bound(0.9 * best), bound(1.1 * best))


@pytest.mark.parametrize(("graph", "seed"), CASES)
@pytest.mark.parametrize(
    ("censor", "coder"),
    [
        (Geometric(0.5, 0.99), Exact()),
        (Geometric(0.05, 0.9), Uniform(3, low=-2.0, high=2.0)),
        (Geometric(0.3, 0.99, squared=True), Exact()),
        (PowerLaw(0.5, 0.3), Uniform(5, low=-2.0, high=2.0)),
    ],
)
def test_copies_are_within_the_lemma(graph: str, seed: int, censor: Any, coder: Any) -> None:
    stream = Stream(graph, seed, 60)
    agents = stream.agents(ODKLA, eta=1.0, rho=0.3, censor=censor, coder=coder, coded_start=True)
    bound = theory.bounds(agents, stream.graph, 60)["bound_copy"]
    error = np.linalg.norm(kept(stream.graph, agents, lambda agent: agent.theta - agent.sharing.own), axis=(1, 2))
    assert np.all(error <= bound)
    assert bound.max() <= 2 * LOOSEST_COPY * error.max()


def test_the_lemma_without_root_fails() -> None:
    # 8 agents with 8 elements and an interval Δ = ½ start at θ̂_1 = Q(0) = Δ/2. The error of the copies E_1 has
    # ‖E_1‖² = 64/16 = 4 and the bound is ζ = √64/4 = 2, so ‖E_1‖ ≤ ζ holds and the printed ‖E_1‖² ≤ ζ does not.
    start = np.linalg.norm(Uniform(3, low=-2.0, high=2.0).encode(np.zeros((8, 8))).decode())
    zeta = copy_error_bound(8, 8, interval=0.5)
    assert start == pytest.approx(zeta) == pytest.approx(2.0)
    assert start**2 > 1.9 * zeta
    # A run satisfies the right bound, and violates the printed one.
    stream = Stream("ring", 0, 20)
    agents = stream.agents(ODKLA, eta=1.0, rho=0.3, coder=Uniform(2, low=-4.0, high=4.0))
    error = np.linalg.norm(kept(stream.graph, agents, lambda agent: agent.theta - agent.sharing.own), axis=(1, 2))
    zeta = copy_error_bound(5, 6, interval=2.0)
    assert np.all(error <= zeta)
    assert np.any(error**2 > zeta)


def test_rounds_after_the_agents_last_change_nothing() -> None:
    stream = Stream("ring", 0, 5)
    agents = stream.agents(ODKLA, eta=1.0, rho=0.1)
    probe = RegretProbe(agents, stream.graph)
    Network(stream.graph, seed=1).run(agents, [probe])
    bound, regret = probe(agents)["bound_regret"], probe.regret.value
    assert probe(agents)["bound_regret"] == bound > regret == probe.regret.value
    assert probe.regret.count == 5 * len(agents)


def test_why_not() -> None:
    stream = Stream("ring", 0, 10)

    def of(**more: Any) -> dict[int, Any]:
        return stream.agents(ODKLA, **({"eta": 1.0, "rho": 0.1} | more))

    assert Regret().why_not(of(), stream.graph) == ""
    assert Regret().why_not(of(eta=schedule.growing(1.0)), stream.graph) == "not for a schedule of eta"
    assert Regret().why_not(of(duals=RunningSums()), stream.graph) == "not for duals other than Accumulated"
    assert CopyError().why_not(of(censor=AtRandom(0.5)), stream.graph) == "not for the censor AtRandom"
    assert "without a fixed interval" in CopyError().why_not(of(coder=QSGD(3)), stream.graph)
    clipped = of(coder=Uniform(3, low=-2.0, high=2.0), coded_start=True)
    assert theory.lines(clipped, stream.graph) == ["lemma 5 of the dissertation: while no element lies outside [-2, 2)"]
    assert theory.lines(of(coder=Uniform(3, low=-2.0, high=2.0, saturate=False)), stream.graph) == []
    dynamic = stream.agents(DDKL, rho=0.1, censor=Geometric(0.1, 0.9))
    assert set(theory.bounds(dynamic, stream.graph, 5)) == {"bound_copy"}
    assert theory.probe(dynamic, stream.graph) is None
    assert theory.probe(of(), stream.graph) is not None
