"""Statements that are not in an algorithm's ``theorems``, and the papers' printed forms, each compared with a run."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from netsim import topology
from netsim.agents import CHOCO, DKLA, ODKLA, Ensemble, GossipOMKL
from netsim.agents.measures.regret import StaticRegret
from netsim.agents.projections.estimate import Estimate, State, distance, limit
from netsim.agents.theory import Curvature, Graph, Mixing, choose, contraction, weights_of
from netsim.agents.theory.admm import dkla_delta, dkla_energy
from netsim.agents.theory.censored import Constants
from netsim.agents.theory.features import feature_error, features_needed
from netsim.agents.theory.gossip import choco_rate, omkl_consensus_bound, omkl_regret_bound
from netsim.agents.theory.online import RegretProbe, copy_error_bound
from netsim.agents.theory.penalty import disagreement_bound, penalty_radius
from netsim.agents.theory.sweeps import Sweep
from netsim.coders import QSGD, TopK, Uniform
from netsim.scenarios.theory.pools import ETA, LAMBDA, C, Pools
from netsim.scenarios.theory.problems import GRAPHS, KERNELS, Problem
from netsim.util.typing import Array, Matrix

# The multiple of rounding errors from which ratios to a value are meaningful.
_ABOVE_ROUNDING = 1e3


class Curve:
    """The bound and the measured value in each round of a run.

    Parameters
    ----------
    name : str
        The column, or the parameter of a range.
    bound, measured : ndarray of shape (rounds,)
        The bound or prediction, and the measured value, after each round.
    exact : bool
        Whether ``bound`` is a prediction instead of a bound.
    zero : float or ndarray of shape (rounds,)
        The value for a model without learning. A bound that is never below this value is vacuous.
    holds : bool, optional
        Whether the statement holds; by default, the numbers decide.
    source : str
        The source of the statement, if it is not given elsewhere.
    rounding : float
        Share of the largest value up to which the two may differ by rounding errors.
    """

    def __init__(
        self,
        name: str,
        bound: Array,
        measured: Array,
        *,
        exact: bool = False,
        zero: float | Array = math.inf,
        holds: bool | None = None,
        source: str = "",
        rounding: float = 1e-12,
    ) -> None:
        self.name, self.bound, self.measured, self.exact, self.zero = name, bound, measured, exact, zero
        self.source = source
        finite = measured[np.isfinite(measured)]
        largest = float(finite.max(initial=0.0))
        slack = (1e-6 if exact else 1e-9) * np.abs(measured) + rounding * largest
        # A NaN does not satisfy a bound, because comparisons with NaN are false.
        kept = np.isfinite(measured) & ((np.abs(measured - bound) if exact else measured - bound) <= slack)
        self.holds = bool(kept.all()) if holds is None else holds
        last = np.flatnonzero(measured > _ABOVE_ROUNDING * rounding * largest)
        self.tightness = float(bound[last[-1]] / measured[last[-1]]) if len(last) else math.nan
        self.vacuous = bool(np.all(bound >= zero))


@dataclass(frozen=True)
class Case:
    """A statement, and a function that checks it on a graph with a seed for some rounds; by default on all graphs."""

    theorem: str
    algorithm: str
    source: str
    condition: str
    play: Callable[["nx.Graph[int]", int, int], Curve]
    printed: bool = False
    graphs: Mapping[str, Callable[[], "nx.Graph[int]"]] = field(default_factory=lambda: GRAPHS)


def energies(problem: Problem, rho: float) -> tuple[Array, Array, Curvature]:
    """Return G_k of `dkla_energy` for k = 0, 1, …, ‖Θ_k − Θ*‖ for k = 1, 2, … of DKLA, and the costs' curvature."""
    agents, optimum = problem.agents(DKLA, rho=rho), problem.optimum()
    both = problem.kept(agents, lambda agent: np.stack([agent.theta, agent.dual]))
    both = np.concatenate([np.zeros_like(both[:1]), both])
    dual = -np.array([agent.cost.gradient(optimum) for agent in agents.values()])
    found = [dkla_energy(each[:, 0], each[:, 1], optimum, dual, rho, problem.graph) for each in both]
    curvature = Curvature.of(agent.cost for agent in agents.values())
    assert curvature is not None
    return np.array(found), np.linalg.norm(both[1:, :, 0] - optimum, axis=(1, 2)), curvature


def _round_of_dkla(graph: "nx.Graph[int]", seed: int, rounds: int, *, printed: bool, rho: float = 0.02) -> Curve:
    energy, _, curvature = energies(Problem("ridge", graph, seed, rounds, whole=10.0), rho)
    delta = dkla_delta(curvature, Graph.of(graph), rho, printed=printed)
    return Curve("G", energy[:-1] / (1.0 + delta), energy[1:])


def _norm_without_root(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    energy, error, curvature = energies(Problem("ridge", graph, seed, rounds, scale=1e-3), 0.05)
    return Curve("error", energy[:-1] / curvature.m, error)


def _round_of_lemma_6(graph: "nx.Graph[int]", seed: int, rounds: int, *, printed: bool, rho: float = 0.002) -> Curve:
    energy, _, curvature = energies(Problem("ridge", graph, seed, rounds, whole=10.0, share=0.1), rho)
    spectrum = Graph.of(graph)
    none = (1e-9, 1e-9, 1e-9 * curvature.m * spectrum.minus / curvature.M**2)
    tried = [Constants.of(curvature, spectrum, rho, none, nu, printed=printed) for nu in (1.1, 2.0, 10.0, 100.0)]
    return Curve("G", energy[:-1] / (1.0 + max(each.delta for each in tried)), energy[1:])


class Regrets:
    """A probe of the regret, its bound, and the regret of the model θ = 0."""

    def __init__(self, probe: RegretProbe) -> None:
        self._probe, self._zero = probe, StaticRegret(probe.regret.size, probe.regret.regularizer)

    def __call__(self, agents: Mapping[Any, Any]) -> dict[str, float]:
        """Return the three values after a round."""
        costs = [agent.cost for agent in agents.values()]
        targets = np.array([cost.target for cost in costs])
        self._zero.take(np.stack([cost.features for cost in costs]), targets, float(targets @ targets))
        found = self._probe(agents)
        return found | {"static_regret": self._probe.regret.value, "zero_regret": self._zero.value}


def _copies_without_root(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    problem = Problem("stream", graph, seed, rounds)
    agents = problem.agents(ODKLA, eta=1.0, rho=0.3, coder=Uniform(2, low=-4.0, high=4.0))
    apart = problem.kept(agents, lambda agent: agent.theta - agent.sharing.own)
    zeta = copy_error_bound(len(graph), problem.size, interval=2.0)
    return Curve("copies", np.full(rounds, zeta), np.sum(apart**2, axis=(1, 2)))


def _printed_steps(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    problem = Problem("stream", graph, seed, rounds)
    agents = problem.agents(ODKLA, eta=rounds**-0.5, rho=rounds**-0.5)
    table = problem.run(agents, Regrets(RegretProbe(agents, graph)))
    return Curve("regret", table["zero_regret"].to_numpy(), table["static_regret"].to_numpy())


def _omkl(graph: "nx.Graph[int]", seed: int, rounds: int, *, regret: bool) -> Curve:
    coder, eta, problem = QSGD(8, by_row=True), 0.1, Problem("kernels", graph, seed, rounds)
    gamma = choose(problem.agents(GossipOMKL, eta=eta, gamma=0.05, coder=coder), graph)["gamma"]
    agents = problem.agents(GossipOMKL, eta=eta, gamma=gamma, coder=coder)
    both = problem.kept(agents, lambda agent: np.stack([agent.theta, agent.model]))
    lipschitz = float(np.linalg.norm(both[:, :, 0] - both[:, :, 1], axis=-1).max()) / eta
    coded = contraction(coder, (KERNELS, problem.size))
    assert coded is not None
    rate = choco_rate(Mixing.of(weights_of(agents)), coded.delta)
    if not regret:
        apart = np.sum((both[:, :, 0] - both[:, :, 0].mean(axis=1, keepdims=True)) ** 2, axis=(1, 3)).max(axis=1)
        return Curve("apart", np.full(rounds, omkl_consensus_bound(len(graph), eta, lipschitz, rate)), apart)
    # The regret of agents that do not learn is at most the loss of the zero model.
    zero = len(graph) * rounds * math.log(2.0)
    loss = sum(agent.cost.combined.loss_sum for agent in agents.values())
    bound = omkl_regret_bound(len(graph), rounds, KERNELS, eta=eta, lipschitz=lipschitz, rate=rate, theta_norm=0.0)
    return Curve("loss", np.array([zero + bound]), np.array([loss]), zero=zero)


class _Start:
    """A cost without gradient, for agents that only average their initial values."""

    def __init__(self, start: Array) -> None:
        self.start, self.size = start, start.size

    def gradient(self, theta: Array) -> Array:
        return np.zeros_like(theta)


class _Averaging(CHOCO):
    def start(self) -> None:
        super().start()
        self.theta = self.cost.start.copy()  # type: ignore[attr-defined]


def _gossip(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    start = np.random.default_rng(seed).normal(size=(len(graph), 6))
    problem = Problem("ridge", graph, seed, rounds)
    problem.cost = lambda i: _Start(start[i])  # type: ignore[method-assign]
    gamma = choose(problem.agents(CHOCO, eta=0.0, gamma=0.1, coder=TopK(2)), graph)["gamma"]
    agents = problem.agents(_Averaging, eta=0.0, gamma=gamma, coder=TopK(2))
    both = problem.kept(agents, lambda agent: np.stack([agent.theta, agent.theta - agent.sharing.own]))
    both[:, :, 0] -= start.mean(axis=0)
    first = np.sum((start - start.mean(axis=0)) ** 2) + np.sum(start**2)
    rate = choco_rate(Mixing.of(weights_of(agents)), 2.0 / 6.0)
    return Curve("gossip", first * (1.0 - rate) ** np.arange(1.0, rounds + 1.0), np.sum(both**2, axis=(1, 2, 3)))


def _projections(graph: "nx.Graph[int]", seed: int, rounds: int, *, exact: bool) -> Curve:
    rng = np.random.default_rng(seed)
    # There is an example for each agent, and one for each link, which both ends of the link read.
    own = [[i, *(len(graph) + k for k, edge in enumerate(graph.edges) if i in edge)] for i in graph]
    count = len(graph) + graph.number_of_edges()
    of = Ensemble(rng.uniform(-1, 1, (count, 2)), rng.normal(size=count), own, regularizers=0.1, gram=gaussian)
    end, z = limit(of), of.targets.copy()
    estimates = [Estimate(gram, weight) for gram, weight in zip(of.grams, of.regularizers, strict=True)]
    found = []
    for _ in range(_SWEEPS):
        for i in graph:
            z[of.access[i]] = estimates[i].project(z[of.access[i]])
        found.append(distance(of, State(z.copy(), [each.coefficients for each in estimates]), end))
    sweep = Sweep.of(of)
    promised = sweep.distances(_SWEEPS) if exact else sweep.bound(_SWEEPS)
    # The limit comes from a badly conditioned system, and so is less exact than the turns.
    return Curve("distance", promised, np.array(found), exact=exact, rounding=1e-9)


def gaussian(x: Matrix, z: Matrix) -> Matrix:
    """Return the Gaussian kernel of all pairs of rows."""
    result: Matrix = np.exp(-np.sum((x[:, None] - z[None]) ** 2, axis=-1))
    return result


def _features(graph: "nx.Graph[int]", seed: int, rounds: int, *, few: int | None = None) -> Curve:
    regularizer = 0.05
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (10 * len(graph), 2))
    gram = gaussian(x, x)
    needed = features_needed(gram, regularizer) if few is None else few
    angles = math.sqrt(2.0) * x @ rng.normal(size=(2, needed)) + rng.uniform(0.0, 2.0 * np.pi, needed)
    error = feature_error(gram, math.sqrt(2.0 / needed) * np.cos(angles), regularizer)
    return Curve("features", np.array([2.0 * regularizer]), np.array([error]))


def ddkl(graph: "nx.Graph[int]", seed: int, rho: float, rounds: int) -> tuple[Array, Array, Array, Array]:
    """Return Θ_t of DDKL's recursion (dissertation, eqs. 4.11, 4.12) for costs ½(θ − c_t)ᵀH(θ − c_t) that move.

    Returns
    -------
    Θ_t, shape (rounds, N, 2); θ*_t, shape (rounds, 2); ∇R(Θ*_t), shape (rounds, N, 2); and H, shape (N, 2).
    """
    rng, adjacent = np.random.default_rng(seed), topology.adjacency(graph)
    H, centres = rng.uniform(1.0, 2.0, (len(graph), 2)), 0.3 * rng.normal(size=(len(graph), 2))
    turn = 2.0 * np.pi * np.arange(rounds) / 50.0
    moving = centres + 0.1 * np.stack([np.sin(turn), np.cos(turn)], axis=1)[:, None]
    degrees = adjacent.sum(axis=1)[:, None]
    theta, dual, found = np.zeros_like(centres), np.zeros_like(centres), []
    for centre in moving:
        theta = (H * centre - dual + rho * (degrees * theta + adjacent @ theta)) / (H + 2.0 * rho * degrees)
        dual = dual + rho * (degrees * theta - adjacent @ theta)
        found.append(theta)
    best = np.sum(H * moving, axis=1) / H.sum(axis=0)
    return np.array(found), best, H * (best[:, None] - moving), H


def _tracking(graph: "nx.Graph[int]", seed: int, rounds: int, *, rho: float = 1.0) -> Curve:
    theta, best, slopes, H = ddkl(graph, seed, rho, 300)
    drift = math.sqrt(len(graph)) * float(np.linalg.norm(np.diff(best, axis=0), axis=1).max())
    gradient_drift = float(np.linalg.norm(np.diff(slopes, axis=0), axis=(1, 2)).max())
    spectrum = Graph.of(graph)
    constants = Constants.best(Curvature(float(H.min()), float(H.max())), spectrum, rho)
    bound = constants.tracking(spectrum, rho, drift, gradient_drift, copies=0.0)
    late = np.linalg.norm(theta - best[:, None], axis=(1, 2))[150:].max()
    zero = math.sqrt(len(graph)) * float(np.linalg.norm(best, axis=1).max())
    return Curve("tracking", np.array([bound]), np.array([late]), zero=zero)


def _dynamic_regret(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    found = []
    for T in _LONGER:
        theta, best, _, H = ddkl(graph, seed, 1.0 / T, T)
        found.append(0.5 * float(np.sum(H.sum(axis=0) * (theta.mean(axis=1) - best) ** 2)))
    # The bound grows as √T, starting from the first of these runs.
    return Curve("dynamic regret", found[0] * np.sqrt(np.array(_LONGER) / _LONGER[0]), np.array(found))


def _curvature(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    found, printed = [], []
    for i in graph:
        cost = Problem("ridge", graph, seed, rounds, whole=0.1).cost(i)
        _, vectors = np.linalg.eigh(cost.hessian)
        found.append(float(np.linalg.norm(cost.gradient(vectors[:, -1]) - cost.gradient(0.0 * vectors[:, -1]))))
        mean = cost.features.T @ cost.features / len(cost.targets)
        printed.append(float(np.linalg.eigvalsh(mean)[-1] + 2.0 * cost.regularizer) ** 2)
    return Curve("M", np.array([max(printed)]), np.array([max(found)]))


def _norm_of_a(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    A, x, y = np.diag([1.0, 0.0]), np.array([1.0, -1.0]), np.array([1.0, 1.0])
    return Curve("⟨Ax, y⟩", np.array([np.linalg.norm(A, 2) * (x @ y)]), np.array([A @ x @ y]))


def _gap(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    return Curve("gap", np.ones(1), np.array([Mixing.of(1.0 - np.eye(2)).gap]))


def _levels(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    v, levels = -np.abs(np.random.default_rng(seed).normal(size=len(graph))), 3
    length, n = float(np.linalg.norm(v)), len(v)
    low = np.floor(levels * v / length)
    up = levels * v / length - low
    # This is E‖Q(v) − v‖², in which sign(v_i) multiplies ξ_i.
    error = [
        (1.0 - p) * (-length * k / levels - e) ** 2 + p * (-length * (k + 1.0) / levels - e) ** 2
        for p, k, e in zip(up, low, v, strict=True)
    ]
    return Curve("Q", np.array([min(n / levels**2, math.sqrt(n) / levels) * length**2]), np.array([sum(error)]))


def _radius(graph: "nx.Graph[int]", seed: int, rounds: int, *, printed: bool, parsimony: float = 0.01) -> Curve:
    pools = Pools(graph, seed, drawn=True)
    late = pools.run(parsimony, rounds=200)[100:]
    moment, point = pools.second_moment(late), pools.zero(C, both=printed)
    radius = penalty_radius(ETA, LAMBDA, parsimony, len(graph), moment, printed=printed)
    return Curve("radius", np.array([radius]), np.array([pools.nearest(late, point)]))


def _disagreement(graph: "nx.Graph[int]", seed: int, rounds: int) -> Curve:
    pools = Pools(graph, seed)
    minimum = pools.zero(C, both=True)
    bound = disagreement_bound(pools.risk(pools.common()), C, pools.risk(minimum))
    return Curve("disagreement", np.array([bound]), np.array([pools.disagreement(minimum)]))


_SWEEPS, _LONGER = 40, (100, 400, 1600)
_PATH: Mapping[str, Callable[[], "nx.Graph[int]"]] = {"path of 10": lambda: topology.path(10)}
_TWO: Mapping[str, Callable[[], "nx.Graph[int]"]] = {"two": lambda: topology.path(2)}
_XU, _GOSSIP, _PREDD = "dissertation", "Ortega and Jafarkhani 2023", "Predd et al. 2006"
_KOPPEL = "Koppel et al. 2018"

CASES = (
    Case(
        "theorem 4, G in a round",
        "DKLA",
        "COKE, theorem 4; dissertation, 2.30",
        "ρ = 0.02",
        partial(_round_of_dkla, printed=False),
    ),
    Case(
        "theorem 4, G in a round, as printed",
        "DKLA",
        "COKE, theorem 4; dissertation, 2.30",
        "path of 10, ρ = 0.02",
        partial(_round_of_dkla, printed=True),
        printed=True,
        graphs=_PATH,
    ),
    Case("remark 3, M as printed", "DKLA", "COKE, remark 3", "λ = 0.1", _curvature, printed=True),
    Case("(34), without root", "DKLA", "COKE, eq. 34", "targets × 10⁻³", _norm_without_root, printed=True),
    Case(
        "lemma 6, G in a round",
        "DKLA",
        f"{_XU}, (4.22e)",
        "path of 10, costs and ρ × 0.1",
        partial(_round_of_lemma_6, printed=False),
        graphs=_PATH,
    ),
    Case(
        "lemma 6, G in a round, as printed",
        "DKLA",
        f"{_XU}, (4.22e)",
        "path of 10, costs and ρ × 0.1",
        partial(_round_of_lemma_6, printed=True),
        printed=True,
        graphs=_PATH,
    ),
    Case("lemma 6, tracking", "DDKL", f"{_XU}, lemma 6", "best model on a circle, ρ = 1", _tracking),
    Case(
        "theorem 10, ρ = 1/T",
        "DDKL",
        f"{_XU}, theorem 10",
        "best model on a circle; from T = 100 on",
        _dynamic_regret,
        printed=True,
    ),
    Case("lemma 5, ‖E‖² ≤ ζ", "ODKLA", f"{_XU}, lemma 5", "2 bits in [-4, 4)", _copies_without_root, printed=True),
    Case(
        "theorem 9, η = ρ = 1/√T",
        "ODKLA",
        f"{_XU}, theorem 9",
        "against the zero model's regret",
        _printed_steps,
        printed=True,
    ),
    Case(
        "(3.40), ⟨Ax, y⟩ ≤ σmax(A)⟨x, y⟩",
        "ODKLA",
        f"{_XU}, (3.40)",
        "A = diag(1, 0), x = (1, −1), y = (1, 1)",
        _norm_of_a,
        printed=True,
        graphs=_TWO,
    ),
    Case(
        "(2.42), features of theorem 3",
        "random features",
        "COKE, theorem 3; dissertation, theorem 11",
        "Gaussian kernel, λ = 0.05, ε = ½",
        _features,
    ),
    Case(
        "(2.42), 2λ for any ε",
        "random features",
        f"{_XU}, (2.42)",
        "Gaussian kernel, λ = 0.05, 3 features, so ε > ½",
        partial(_features, few=3),
        printed=True,
    ),
    Case("theorem 2, gossip", "CHOCO", "Koloskova et al. 2019, not re-read", "2 of 6 largest elements", _gossip),
    Case("(23), disagreement", "GossipOMKL", f"{_GOSSIP}, (23)", "QSGD of 8 bits", partial(_omkl, regret=False)),
    Case("theorem 1, regret", "GossipOMKL", f"{_GOSSIP}, theorem 1", "QSGD of 8 bits", partial(_omkl, regret=True)),
    Case("gap 1 − λ₂ ≤ 1", "GossipOMKL", _GOSSIP, "W = [[0, 1], [1, 0]]", _gap, printed=True, graphs=_TWO),
    Case(
        "(12), error of the levels as printed", "GossipOMKL", f"{_GOSSIP}, (12)", "all v_i < 0", _levels, printed=True
    ),
    Case(
        "theorem 1, radius about where (14) vanishes",
        "GreedyPenalty",
        f"{_KOPPEL}, theorem 1",
        "P = 0.01, c = 2",
        partial(_radius, printed=False),
    ),
    Case(
        "theorem 1, radius about the minimum of ψ_c, (27)",
        "GreedyPenalty",
        f"{_KOPPEL}, theorem 1",
        "P = 0.01, c = 2",
        partial(_radius, printed=True),
        printed=True,
    ),
    Case("proposition 2, disagreement of the minimum", "GreedyPenalty", _KOPPEL, "c = 2", _disagreement),
    Case("theorem 2, distance", "projections", _PREDD, "Gaussian kernel", partial(_projections, exact=False)),
    Case("distance predicted", "projections", "derived", "Gaussian kernel", partial(_projections, exact=True)),
)
"""The statements that are checked in addition to the algorithms' own theorems."""
