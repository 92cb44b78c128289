"""Dual updates that tolerate loss equal plain duals on ideal links, and their recursions on lossy links."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import BadInput, Link, Network, loss
from netsim.agents import (
    CHOCO,
    COKE,
    CTA,
    DDKL,
    DKLA,
    DOKL,
    ODKLA,
    RFFDOKL,
    Accumulated,
    CodedSums,
    Duals,
    EdgeDuals,
    Geometric,
    GossipOMKL,
    MultiKernelCost,
    RunningSums,
    centralised,
    schedule,
)
from netsim.agents.consensus.base import Dual
from netsim.coders import QSGD, Float, Uniform
from netsim.faults import Crash
from netsim.util.typing import Array
from tests.agents.test_lossy import (
    AGENTS,
    BATCH,
    BY_GEOMETRIC,
    DDKL_STEP,
    DOKL_STEP,
    ETA,
    GEOMETRIC,
    GRAPH,
    ODKLA_STEP,
    RHO,
    ROUNDS,
    SHARE,
    SIZE,
    A,
    cost,
    problem,
    row,
)
from tests.oracle import lossy, survival
from tests.parts import slow

Make = Callable[[int, Duals], Dual]
IDEAL = Link()

METHODS: dict[str, tuple[Make, lossy.Step, Array | None]] = {
    "DKLA": (lambda i, duals: DKLA(problem(i), ROUNDS, rho=RHO, duals=duals), BATCH, None),
    "COKE": (
        lambda i, duals: COKE(problem(i), ROUNDS, rho=RHO, censor=GEOMETRIC, duals=duals),
        BATCH,
        BY_GEOMETRIC,
    ),
    "ODKLA": (lambda i, duals: ODKLA(cost(i), ROUNDS, rho=RHO, eta=ETA, duals=duals), ODKLA_STEP, None),
    "DOKL": (lambda i, duals: DOKL(cost(i), ROUNDS, rho=RHO, eta=ETA, duals=duals), DOKL_STEP, None),
    "DDKL": (lambda i, duals: DDKL(cost(i), ROUNDS, rho=RHO, duals=duals), DDKL_STEP, None),
}


class Watch:
    """A probe that keeps every round's models and duals."""

    def __init__(self) -> None:
        self.thetas: list[Array] = []
        self.duals: list[Array] = []

    def __call__(self, agents: Mapping[int, Any]) -> dict[str, float]:
        self.thetas.append(np.stack([agent.theta for agent in agents.values()]))
        self.duals.append(np.stack([agent.dual for agent in agents.values()]))
        return {"residual": float(np.abs(self.duals[-1].sum(axis=0)).max())}


def run_of(make: Callable[[int], Any], link: Link = IDEAL, seed: int = 5) -> tuple[Watch, Any]:
    watch = Watch()
    return watch, Network(GRAPH, link, seed=seed).run({i: make(i) for i in GRAPH}, [watch], trace=True)


# COKE with edge duals is left out: edge duals are not updated for a censored neighbour, which changes the method.
ON_IDEAL_LINKS = [(name, RunningSums()) for name in METHODS] + [
    (name, EdgeDuals()) for name in METHODS if name != "COKE"
]


@pytest.mark.parametrize(("method", "way"), ON_IDEAL_LINKS)
def test_on_ideal_links_equal_to_the_plain_method(method: str, way: Duals) -> None:
    make, step, thresholds = METHODS[method]
    watch, _ = run_of(lambda i: make(i, way))
    expected = lossy.admm(step, A, SIZE, RHO, np.ones((ROUNDS, AGENTS, AGENTS), dtype=bool), lossy.Coding(thresholds))
    np.testing.assert_allclose(np.array(watch.thetas), expected.thetas, rtol=0, atol=1e-9)
    plain, _ = run_of(lambda i: make(i, Accumulated()))
    np.testing.assert_allclose(watch.thetas, plain.thetas, rtol=0, atol=1e-9)
    if isinstance(way, RunningSums):
        np.testing.assert_allclose(np.array(watch.duals), expected.duals, rtol=0, atol=1e-9)


@pytest.mark.parametrize("link", [Link(loss=0.3), Link(loss=loss.gilbert_elliott(0.3, burst=5))], ids=["free", "burst"])
@pytest.mark.parametrize("method", METHODS)
def test_running_sums_follow_from_which_frames_arrived(method: str, link: Link) -> None:
    make, step, thresholds = METHODS[method]
    watch, run = run_of(lambda i: make(i, RunningSums()), link)
    arrived = lossy.arrivals(run, ROUNDS)
    thetas, duals = survival.running_sums(step, A, SIZE, RHO, arrived, thresholds)
    scale = max(1.0, float(np.abs(duals).max()))
    np.testing.assert_allclose(np.array(watch.thetas), thetas, rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(np.array(watch.duals), duals, rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("method", ["DKLA", "ODKLA", "DOKL", "DDKL"])
def test_edge_duals_follow_from_which_frames_arrived(method: str) -> None:
    make, step, _ = METHODS[method]
    watch, run = run_of(lambda i: make(i, EdgeDuals(0.4)), Link(loss=0.3))
    thetas = survival.edge_duals(step, A, SIZE, RHO, 0.4, lossy.arrivals(run, ROUNDS))
    np.testing.assert_allclose(np.array(watch.thetas), thetas, rtol=0, atol=1e-11)


def long_run(way: Duals, lost: float, rounds: int = 1200, **given: Any) -> tuple[float, Watch]:
    """Run DKLA; return the distance of the final models from the centralised optimum, and the probe."""
    watch, _ = run_of(lambda i: DKLA(problem(i), rounds, rho=RHO, duals=way, **given), Link(loss=lost))
    best = centralised([problem(i) for i in GRAPH], SHARE * AGENTS)
    return float(np.abs(watch.thetas[-1] - best).max()), watch


@pytest.mark.parametrize("way", [EdgeDuals(), RunningSums()], ids=["edges", "sums"])
def test_at_thirty_percent_loss_the_optimum_is_that_of_the_centre(way: Duals) -> None:
    apart, watch = long_run(way, 0.3)
    assert apart < 1e-8
    assert np.abs(watch.duals[-1].sum(axis=0)).max() < 1e-8
    # With plain duals the agents agree on a wrong model.
    worse, plain = long_run(Accumulated(), 0.3)
    assert worse > 1e-3
    assert np.ptp(plain.thetas[-1], axis=0).max() < 1e-6


# --- links over which nothing is ever heard ---------------------------------------------------------------------------

DEAD = next((a, b) for a, b in GRAPH.edges if nx.is_connected(nx.restricted_view(GRAPH, [], [(a, b)])))


def with_dead(way: Duals, dead: Sequence[tuple[int, int]], rounds: int) -> Array:
    """Return DKLA's final models if the directed links ``dead`` lose all frames and all other links are ideal."""
    links = {ends: Link(loss=1.0) for ends in dead}
    agents = {i: DKLA(problem(i), rounds, rho=RHO, duals=way) for i in GRAPH}
    Network(GRAPH, links=links).run(agents)
    return np.stack([agent.theta for agent in agents.values()])


def arrived_but(dead: Sequence[tuple[int, int]], rounds: int) -> lossy.Arrived:
    arrived = np.ones((rounds, AGENTS, AGENTS), dtype=bool)
    for sender, receiver in dead:
        arrived[:, receiver, sender] = False
    return arrived


@pytest.mark.parametrize("way", [Accumulated(), RunningSums()], ids=["plain", "sums"])
def test_one_link_dead_one_way_takes_accumulated_duals_and_running_sums_to_the_zero_model(way: Duals) -> None:
    """At a fixed point Σ_n (θ̂_i − copy of θ̂_n) = 0 at each agent i; a copy that stays 0 forces all models to 0."""
    best = np.abs(centralised([problem(i) for i in GRAPH], SHARE * AGENTS)).max()
    assert np.abs(with_dead(way, [DEAD], 1000)).max() < 1e-6 * best
    rounds = 60
    if isinstance(way, RunningSums):
        thetas, _ = survival.running_sums(BATCH, A, SIZE, RHO, arrived_but([DEAD], rounds))
    else:
        thetas = lossy.admm(BATCH, A, SIZE, RHO, arrived_but([DEAD], rounds), lossy.Coding()).thetas
    np.testing.assert_allclose(with_dead(way, [DEAD], rounds), thetas[-1], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_edge_duals_bear_a_link_that_is_dead_one_way_but_not_both_ways() -> None:
    """A link dead both ways acts as a regulariser ρ‖θ‖² at each end; a link dead one way has no such effect."""
    best = centralised([problem(i) for i in GRAPH], SHARE * AGENTS)
    both = [DEAD, DEAD[::-1]]
    np.testing.assert_allclose(with_dead(EdgeDuals(), [DEAD], 4000), np.tile(best, (AGENTS, 1)), rtol=0, atol=1e-8)
    found = with_dead(EdgeDuals(), both, 4000)
    np.testing.assert_allclose(found, np.tile(found[0], (AGENTS, 1)), rtol=0, atol=1e-8)
    assert np.abs(found[0] - best).max() > 1e-2 * np.abs(best).max()
    # Optimality with the regulariser: the sum of gradients plus 2ρθ for each of the two ends is 0.
    gradient = sum(problem(i).gradient(found[0]) for i in GRAPH)
    np.testing.assert_allclose(gradient + 2 * 2 * RHO * found[0], 0.0, rtol=0, atol=1e-8)
    thetas = survival.edge_duals(BATCH, A, SIZE, RHO, 0.5, arrived_but(both, 200))
    np.testing.assert_allclose(with_dead(EdgeDuals(), both, 200), thetas[-1], rtol=0, atol=1e-9)


def test_running_sums_in_float32_keep_their_balance() -> None:
    apart, watch = long_run(RunningSums(), 0.3, coder=Float(32))
    assert apart < 1e-3
    assert np.abs(watch.duals[-1].sum(axis=0)).max() < 1e-3


def test_running_sums_take_a_penalty_that_changes() -> None:
    rho = schedule.power(RHO, 0.3)
    sums, _ = run_of(lambda i: DKLA(problem(i), 40, rho=rho, duals=RunningSums()))
    plain, _ = run_of(lambda i: DKLA(problem(i), 40, rho=rho))
    np.testing.assert_allclose(sums.thetas, plain.thetas, rtol=0, atol=1e-9)


def test_what_travels_is_counted() -> None:
    _, plain = run_of(lambda i: DKLA(problem(i), 10, rho=RHO))
    _, sums = run_of(lambda i: DKLA(problem(i), 10, rho=RHO, duals=RunningSums()))
    _, edges = run_of(lambda i: DKLA(problem(i), 10, rho=RHO, duals=EdgeDuals()))
    bits = [each.rounds["payload_bits"].iloc[-1] for each in (plain, sums, edges)]
    assert bits[0] == 64 * SIZE * AGENTS * 10
    assert bits[1] == 2 * bits[0]
    assert bits[2] == 64 * SIZE * A.sum() * 10
    assert edges.rounds["transmissions"].iloc[-1] == A.sum() * 10


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"duals": RunningSums(), "coder": Uniform(4)}, "coder = Uniform: must code states"),
        ({"duals": EdgeDuals(), "coder": Uniform(4)}, "coder = Uniform: must code states"),
        ({"duals": EdgeDuals(), "rho": schedule.power(1.0)}, "rho = a schedule: must be a number"),
        ({"duals": RunningSums(), "coded_start": True}, "coded_start = True: must be False"),
        ({"duals": "sums"}, "duals = 'sums': must be one of Accumulated"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        DKLA(problem(0), 5, **{"rho": RHO, **given})


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.5, float("nan")])
def test_a_relaxation_out_of_range_is_refused(alpha: float) -> None:
    with pytest.raises(BadInput, match="relaxation"):
        EdgeDuals(alpha)


# --- an agent that loses its state -----------------------------------------------------------------------------------


def crashed(make: Callable[[int], Any], at: float, link: Link, seed: int = 1) -> tuple[Watch, Any]:
    watch = Watch()
    agents = {i: make(i) for i in GRAPH}
    network = Network(GRAPH, link, seed=seed)
    network.at(at, agents[2].restart)
    return watch, network.run(agents, [watch])


@pytest.mark.parametrize("at", [slow(300.0), 300.5], ids=["between rounds", "within one"])
@pytest.mark.parametrize("way", [RunningSums(), EdgeDuals()], ids=["sums", "edges"])
@pytest.mark.parametrize("lost", [slow(0.0), 0.3])
def test_after_a_loss_of_state_the_agents_find_the_optimum_again(way: Duals, at: float, lost: float) -> None:
    watch, _ = crashed(lambda i: DKLA(problem(i), 1200, rho=RHO, duals=way), at, Link(loss=lost))
    best = centralised([problem(i) for i in GRAPH], SHARE * AGENTS)
    jump = np.abs(watch.thetas[299][2] - watch.thetas[300][2]).max()
    assert jump > 1e-3
    assert np.abs(watch.thetas[-1] - best).max() < 1e-8
    assert np.abs(watch.thetas).max() < 100.0


@pytest.mark.parametrize(
    "make",
    [
        lambda i: COKE(problem(i), 60, rho=RHO, censor=GEOMETRIC, coder=Uniform(4)),
        lambda i: COKE(problem(i), 60, rho=RHO, censor=Geometric(0.6, 0.95), duals=RunningSums()),
        lambda i: ODKLA(cost(i), 60, rho=RHO, eta=ETA, duals=RunningSums()),
        lambda i: DKLA(problem(i), 60, rho=RHO, coder=Uniform(4), coded_start=True),
    ],
)
def test_a_loss_of_state_never_brings_a_run_down(make: Callable[[int], Any]) -> None:
    watch, run = crashed(make, 20.25, Link(loss=0.2))
    assert len(run.rounds) == 60
    assert np.isfinite(watch.thetas).all()


def test_one_that_begins_anew_speaks_after_it_has_listened() -> None:
    class Reborn(DKLA):
        async def run(self) -> None:
            await super().run()

    agents = {i: Reborn(problem(i), 50, rho=RHO, duals=RunningSums()) for i in GRAPH}
    network = Network(GRAPH, Link(), seed=1)
    network.at(20.0, agents[2].restart)
    run = network.run(agents)
    assert [agent.sharing.spoken for agent in agents.values()] == [29 if i == 2 else 50 for i in GRAPH]
    assert len(run.rounds) == 50


@pytest.mark.parametrize("keeps_state", [False, slow(True)])
@pytest.mark.parametrize("way", [RunningSums(), slow(CodedSums()), EdgeDuals()], ids=["sums", "coded sums", "edges"])
def test_after_a_crash_the_agents_find_the_optimum_again(way: Duals, keeps_state: bool) -> None:
    class Watched(DKLA):
        def local_step(self) -> Array:
            played.setdefault(self.name, []).append(self.round)
            return super().local_step()

    played: dict[Any, list[int]] = {}
    agents = {i: Watched(problem(i), 1050, rho=RHO, duals=way) for i in GRAPH}
    faults = [Crash(2, at=300.5, until=340.2, keeps_state=keeps_state), Crash(0, at=600.0, until=600.5)]
    run = Network(GRAPH, Link(loss=0.1), seed=1, faults=faults).run(agents)
    assert len(run.rounds) == 1050
    # Node 2 crashes during round 301 and restarts during round 341, so its next full round is 342.
    assert played[2] == [*range(1, 302), *range(342, 1051)]
    assert played[0] == [*range(1, 601), *range(602, 1051)]
    best = centralised([problem(i) for i in GRAPH], SHARE * AGENTS)
    error = max(np.abs(agent.theta - best).max() for agent in agents.values())
    # Coded sums lie on a grid, so their models end within a few grid steps of the optimum.
    assert error < (0.05 if isinstance(way, CodedSums) else 1e-8)


@pytest.mark.parametrize("way", ["none", "ack", "nack", "keyframe"])
@pytest.mark.parametrize("kind", ["CTA", "CHOCO", "RFF-DOKL", "OMKL", "coded ADMM"])
def test_every_method_that_shares_goes_on_whatever_the_links_do(kind: str, way: str) -> None:
    every: dict[str, Callable[[int], Any]] = {
        "CTA": lambda i: CTA(problem(i), 50, eta=0.1, weights=row(i), unheard="dropped"),
        "CHOCO": lambda i: CHOCO(problem(i), 50, eta=0.1, gamma=0.3, weights=row(i), coder=Uniform(6)),
        "RFF-DOKL": lambda i: RFFDOKL(cost(i), 50, eta=0.1, weights=row(i)),
        "OMKL": lambda i: GossipOMKL(kernels(i), 50, eta=0.1, gamma=0.3, weights=row(i), coder=QSGD(4, by_row=True)),
        "coded ADMM": lambda i: COKE(problem(i), 50, rho=RHO, censor=GEOMETRIC, coder=Uniform(6)),
    }
    agents = {i: every[kind](i) for i in GRAPH}
    network = Network(GRAPH, Link(loss=0.2, latency=0.01, duplicate=0.1, reliability=way), seed=1)
    network.at(12.0, agents[0].restart)
    network.at(20.5, agents[3].restart)
    run = network.run(agents)
    assert len(run.rounds) == 50
    assert all(np.isfinite(agent.theta).all() for agent in agents.values())


def kernels(i: int) -> MultiKernelCost:
    own = np.random.default_rng(i)
    samples = ((own.normal(size=6), float(own.choice([-1.0, 1.0]))) for _ in range(50))
    return MultiKernelCost(samples, kernels=2, features=3, regularizer=1e-3)


def test_a_restart_forgets_all_that_was_learned() -> None:
    agents = {
        i: GossipOMKL(kernels(i), 9, eta=0.5, gamma=0.3, weights=row(i), coder=QSGD(4, by_row=True)) for i in GRAPH
    }
    Network(GRAPH, seed=1).run(agents)
    agents[0].restart()
    assert not agents[0].theta.any()
    assert not agents[0].model.any()
    np.testing.assert_array_equal(agents[0].kernel_weights.values, [0.5, 0.5])
    admm = {i: DKLA(problem(i), 9, rho=RHO) for i in GRAPH}
    first = Network(GRAPH, seed=1).run(admm)
    for agent in admm.values():
        agent.restart()
    assert Network(GRAPH, seed=1).run(copy.deepcopy(admm)).trace_hash == first.trace_hash
