"""On ideal links the online and dynamic methods equal their recursions: same models and senders in each round."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

import netsim
from netsim import AgentError, BadInput, Network, topology
from netsim.agents import DDKL, DOKL, ODKLA, RFFDOKL, Geometric, Logistic, OnlineCost, PowerLaw, RandomFourier, Squared
from netsim.agents.consensus.base import SharingAgent
from netsim.agents.costs.losses import LossFunction, SquaredHinge
from netsim.agents.measures.regret import DynamicRegret, StaticRegret
from netsim.coders import QSGD, Coder, Exact, Float, Uniform
from netsim.scenarios.data.streams import Samples, by_target, in_order, shuffled
from netsim.scenarios.data.tables import Table
from netsim.util.typing import Array
from tests.oracle import batch, online
from tests.parts import every, slow

ROUNDS, INPUTS, LAMBDA = 40, 3, 1e-3
GRAPHS = {
    "random": lambda seed: topology.erdos_renyi(6, p=0.5, seed=seed),
    "ring": lambda seed: topology.ring(5),
    "two": lambda seed: topology.path(2),
    "one": lambda seed: topology.path(1),
}


class Task:
    """Data streams of the agents of a graph, also stacked into arrays for the oracle."""

    def __init__(self, graph: str, seed: int, *, labels: bool = False, features: int = 8, rounds: int = ROUNDS) -> None:
        self.graph = GRAPHS[graph](seed)
        self.agents = len(self.graph)
        self.rounds = rounds
        self.share = LAMBDA / self.agents
        rng = np.random.default_rng(seed)
        inputs = rng.random((rounds, self.agents, INPUTS))
        feature_map = RandomFourier(INPUTS, features, sigma=0.5, form="cos+sin", seed=seed)
        self.size = feature_map.size
        self.features = np.stack([feature_map(each) for each in inputs])
        signal = np.sin(4.0 * inputs[:, :, 0]) - inputs[:, :, 1] + 0.1 * rng.standard_normal(inputs.shape[:2])
        self.targets = np.where(signal > 0.0, 1.0, -1.0) if labels else signal
        self.loss: LossFunction = Logistic() if labels else Squared()
        self.adjacency = nx.to_numpy_array(self.graph, weight=None)
        self.weights = topology.metropolis_weights(self.graph)

    def cost(self, i: int) -> OnlineCost:
        samples = zip(self.features[:, i], self.targets[:, i].tolist(), strict=True)
        return OnlineCost(samples, self.size, loss=self.loss, regularizer=self.share)

    def run(self, make: Callable[[int], Any]) -> tuple[Array, NDArray[np.bool_], Array]:
        """Return each round's models, which agents sent, and their squared errors."""
        models: list[Array] = []
        spoken: list[list[int]] = []
        errors: list[list[float]] = []

        def watch(agents: Mapping[int, Any]) -> dict[str, float]:
            models.append(np.stack([agent.theta for agent in agents.values()]))
            spoken.append([agent.sharing.spoken for agent in agents.values()])
            errors.append([agent.cost.squared_error for agent in agents.values()])
            return {}

        self.result = Network(self.graph, seed=3).run({i: make(i) for i in self.graph}, [watch])
        sent = np.diff(np.array(spoken), axis=0, prepend=0).astype(bool)
        return np.array(models), sent, np.diff(np.array(errors), axis=0, prepend=0.0)

    def check(self, make: Callable[[int], Any], expected: online.Result) -> None:
        """Run the agents, and compare each round with the oracle's result."""
        models, sent, errors = self.run(make)
        np.testing.assert_array_equal(sent, expected[1])
        np.testing.assert_allclose(models, expected[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(errors, expected[2] ** 2, rtol=0, atol=1e-9)
        assert len(models) == self.rounds


# --- the recursions ---------------------------------------------------------------------------------------------------

everywhere = pytest.mark.parametrize("graph", GRAPHS)
twice = pytest.mark.parametrize("seed", [0, slow(1)])


@everywhere
@twice
def test_rff_dokl_equals_its_recursion(graph: str, seed: int) -> None:
    task = Task(graph, seed)
    task.check(
        lambda i: RFFDOKL(task.cost(i), ROUNDS, eta=0.3, weights=dict(enumerate(task.weights[i]))),
        online.rff_dokl(task.features, task.targets, task.weights, task.share, 0.3),
    )


@everywhere
@twice
@pytest.mark.parametrize(
    ("v", "mu", "bits"), [(0.0, 1.0, None), (0.4, 0.95, None), (0.4, 0.95, 3), (0.0, 1.0, 1), (0.6, 0.95, 8)]
)
def test_odkla_equals_its_recursion(graph: str, seed: int, v: float, mu: float, bits: int | None) -> None:
    task = Task(graph, seed)
    coder, quantize = _coding(bits)
    expected = online.odkla(task.features, task.targets, task.adjacency, task.share, 0.3, 2.0, v, mu, quantize)
    assert v == 0.0 or 0 < expected[1].sum() < expected[1].size
    censor = Geometric(v, mu)
    task.check(lambda i: ODKLA(task.cost(i), ROUNDS, rho=0.3, eta=2.0, censor=censor, coder=coder), expected)


@everywhere
@twice
@pytest.mark.parametrize("bits", [None, 4])
def test_logistic_odkla_equals_its_recursion(graph: str, seed: int, bits: int | None) -> None:
    task = Task(graph, seed, labels=True)
    coder, quantize = _coding(bits)
    expected = online.odkla(
        task.features, task.targets, task.adjacency, task.share, 0.2, 1.0, 0.5, 0.95, quantize, online.logistic
    )
    censor = Geometric(0.5, 0.95)
    task.check(lambda i: ODKLA(task.cost(i), ROUNDS, rho=0.2, eta=1.0, censor=censor, coder=coder), expected)


@everywhere
@twice
@pytest.mark.parametrize("solve", ["rank-one", "dense"])
def test_dokl_equals_its_recursion(graph: str, seed: int, solve: str) -> None:
    task = Task(graph, seed)
    task.check(
        lambda i: DOKL(task.cost(i), ROUNDS, rho=0.3, eta=1.5, solve=solve),
        online.dokl(task.features, task.targets, task.adjacency, task.share, 0.3, 1.5),
    )


@everywhere
@twice
@pytest.mark.parametrize(
    ("v", "mu", "bits"),
    [(0.0, 0.9, None), (0.5, 0.3, None), (0.0, 0.9, 5), (0.5, 0.3, 6)],
    ids=["DDKL", "CoDDKL", "QDDKL", "QC-DDKL"],
)
def test_ddkl_equals_its_recursion(graph: str, seed: int, v: float, mu: float, bits: int | None) -> None:
    task = Task(graph, seed)
    coder, quantize = _coding(bits)
    expected = online.ddkl(task.features, task.targets, task.adjacency, task.share, 0.3, v, mu, quantize)
    assert v == 0.0 or 0 < expected[1].sum() < expected[1].size
    task.check(lambda i: DDKL(task.cost(i), ROUNDS, rho=0.3, censor=PowerLaw(v, mu), coder=coder), expected)


@everywhere
@pytest.mark.parametrize("coded_start", [False, True])
@pytest.mark.parametrize("method", ["QC-ODKLA", "QC-DDKL"])
def test_with_a_fixed_range_the_methods_begin_as_they_are_told(graph: str, coded_start: bool, method: str) -> None:
    """The dissertation's algorithms 4 and 5 start at θ̂ = Q(0), half a quantizer cell; netsim's default is θ̂ = 0."""
    task = Task(graph, 0)
    coder, quantize = Uniform(4, -1.0, 1.0), batch.uniform_quantizer(4, low=-1.0, high=1.0)
    assert (quantize(np.zeros(3)) == 1 / 16).all()
    data = task.features, task.targets, task.adjacency, task.share
    if method == "QC-ODKLA":
        recursion = lambda start: online.odkla(*data, 0.3, 2.0, 0.4, 0.95, quantize, coded_start=start)  # noqa: E731
        make = lambda i: ODKLA(  # noqa: E731
            task.cost(i), ROUNDS, rho=0.3, eta=2.0, censor=Geometric(0.4, 0.95), coder=coder, coded_start=coded_start
        )
    else:
        recursion = lambda start: online.ddkl(*data, 0.3, 0.5, 0.3, quantize, coded_start=start)  # noqa: E731
        make = lambda i: DDKL(  # noqa: E731
            task.cost(i), ROUNDS, rho=0.3, censor=PowerLaw(0.5, 0.3), coder=coder, coded_start=coded_start
        )
    task.check(make, recursion(coded_start))
    if graph != "one":
        assert np.abs(recursion(True)[0] - recursion(False)[0]).max() > 1e-3


def test_a_coded_start_is_no_other_start_where_zeros_are_coded_as_zeros() -> None:
    task = Task("ring", 0)
    for coder in (Exact(), Float(32), Uniform(4), QSGD(4)):
        plain, coded = (
            task.run(lambda i, s=start: DDKL(task.cost(i), 20, rho=0.3, coder=coder, coded_start=s))  # type: ignore[misc]  # noqa: B023
            for start in (False, True)
        )
        np.testing.assert_array_equal(plain[0], coded[0])


def _coding(bits: int | None) -> tuple[Coder, online.Quantizer | None]:
    return (Exact(), None) if bits is None else (Uniform(bits), batch.uniform_quantizer(bits))


def test_rounds_agent_by_agent() -> None:
    # A general minimiser solves the paper's equations for one agent at a time; the oracle must agree. The censoring
    # threshold silences some agents.
    task = Task("ring", 0, rounds=4)
    rho, eta, v, mu = 0.3, 0.5, 0.35, 0.4
    thresholds = v * np.arange(1.0, 5.0) ** -mu
    thetas, sent, errors = online.dokl(
        task.features, task.targets, task.adjacency, task.share, rho, eta, thresholds=thresholds
    )
    theta, heard, dual = (np.zeros((task.agents, task.size)) for _ in range(3))
    for t in range(4):
        fresh = np.empty_like(theta)
        for i in task.graph:
            phi, y, near = task.features[t, i], task.targets[t, i], list(task.graph[i])
            linear = dual[i] - rho * sum(heard[i] + heard[n] for n in near)

            def cost(u: Array, phi=phi, y=y, linear=linear, old=theta[i]) -> float:  # type: ignore[no-untyped-def]
                stay = eta / 2 * np.sum((u - old) ** 2)
                return float((u @ phi - y) ** 2 + (task.share + rho * 2) * u @ u + stay + linear @ u)

            assert errors[t, i] == pytest.approx(theta[i] @ phi - y, abs=1e-6)
            fresh[i] = minimize(cost, np.zeros(task.size), method="BFGS", options={"gtol": 1e-8}).x
        theta = fresh
        speaks = np.linalg.norm(theta - heard, axis=1) >= thresholds[t]
        assert sent[t].tolist() == speaks.tolist()
        heard = np.where(speaks[:, None], theta, heard)
        dual += rho * np.array([sum(heard[i] - heard[n] for n in task.graph[i]) for i in task.graph])
        np.testing.assert_allclose(thetas[t], theta, rtol=0, atol=1e-6)
    assert 0 < sent.sum() < sent.size
    np.testing.assert_array_equal(
        online.ddkl(task.features, task.targets, task.adjacency, task.share, rho, v, mu)[0],
        online.dokl(task.features, task.targets, task.adjacency, task.share, rho, 0.0, thresholds)[0],
    )


def test_without_censor_and_coder_the_quantized_methods_are_the_plain_ones_to_the_last_bit() -> None:
    task = Task("random", 2)
    for plain, censored in (
        (
            lambda i: ODKLA(task.cost(i), ROUNDS, rho=0.3, eta=2.0),
            lambda i: ODKLA(task.cost(i), ROUNDS, rho=0.3, eta=2.0, censor=Geometric(0.0, 1.0)),
        ),
        (
            lambda i: DDKL(task.cost(i), ROUNDS, rho=0.3),
            lambda i: DDKL(task.cost(i), ROUNDS, rho=0.3, censor=PowerLaw(0.0, 0.9)),
        ),
        (
            lambda i: DOKL(task.cost(i), ROUNDS, rho=0.3, eta=0.0),
            lambda i: DDKL(task.cost(i), ROUNDS, rho=0.3, coder=Float(64)),
        ),
    ):
        one, other = task.run(plain), task.run(censored)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_on_ideal_links_copies_are_equal_and_the_duals_sum_to_zero() -> None:
    task = Task("random", 3)
    make = lambda i: DDKL(task.cost(i), 40, rho=0.3, censor=PowerLaw(0.4, 0.5), coder=Uniform(5))  # noqa: E731
    task.run(make)
    agents = task.result.agents
    for agent in agents.values():
        for name, copy in agent.sharing.copies.items():
            np.testing.assert_array_equal(copy, agents[name].sharing.own)
    assert abs(sum(agent.dual for agent in agents.values())).max() < 1e-12


# --- one sample's cost ------------------------------------------------------------------------------------------------

LOSSES: list[LossFunction] = [Squared(), SquaredHinge(), Logistic()]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def _one_sample(loss: LossFunction, seed: int, size: int = 7) -> tuple[OnlineCost, float, Array]:
    rng = np.random.default_rng(seed)
    y = float(rng.normal()) if isinstance(loss, Squared) else float(rng.choice([-1.0, 1.0]))
    cost = OnlineCost(iter([(rng.normal(size=size), y)]), size, loss=loss, regularizer=0.1 * rng.random())
    cost.draw(np.zeros(size))
    return cost, 0.5 * rng.random(), rng.normal(size=size)


def _value(cost: OnlineCost, theta: Array) -> float:
    value = cost.loss.value(np.array(cost.features @ theta), np.array(cost.target))
    return float(value) + cost.regularizer * float(theta @ theta)


@each_loss
@pytest.mark.parametrize("seed", range(10))
def test_argmin_is_the_minimum(loss: LossFunction, seed: int) -> None:
    cost, quadratic, linear = _one_sample(loss, seed)

    def total(theta: Array) -> float:
        return _value(cost, theta) + quadratic * float(theta @ theta) + float(linear @ theta)

    def slope(theta: Array) -> Array:
        return cost.gradient(theta) + 2.0 * quadratic * theta + linear

    found = cost.argmin(quadratic, linear)
    assert np.abs(slope(found)).max() < 1e-12 * (1.0 + np.abs(linear).max())
    by_search = minimize(total, np.zeros(7), jac=slope, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(found, by_search, rtol=0, atol=1e-6)


@every("seed", range(10))
def test_argmin_for_squares_is_the_solution_of_the_linear_system(seed: int) -> None:
    cost, quadratic, linear = _one_sample(Squared(), seed, size=40)
    phi = cost.features
    matrix = 2.0 * np.outer(phi, phi) + 2.0 * (cost.regularizer + quadratic) * np.eye(40)
    expected = np.linalg.solve(matrix, 2.0 * cost.target * phi - linear)
    np.testing.assert_allclose(cost.argmin(quadratic, linear), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@each_loss
def test_gradient_matches_finite_differences(loss: LossFunction) -> None:
    cost, _, theta = _one_sample(loss, 5)
    for direction in 1e-6 * np.eye(7):
        difference = (_value(cost, theta + direction) - _value(cost, theta - direction)) / 2e-6
        assert cost.gradient(theta) @ direction * 1e6 == pytest.approx(difference, abs=1e-7)


@each_loss
@settings(max_examples=150, deadline=None)
@given(f=st.floats(-600, 600), k=st.floats(0, 1e6), y=st.sampled_from([-1.0, 1.0]))
@example(f=0.0, k=0.0, y=1.0)
@example(f=1.0, k=1.0, y=1.0)
@example(f=600.0, k=1e6, y=-1.0)
def test_slope_solves_its_equation(loss: LossFunction, f: float, k: float, y: float) -> None:
    s = loss.slope(f, k, y)
    # s − ℓ'(f − k·s) grows in s at a rate of at least 1, so a change of sign close to the result proves the root.
    width = 1e-9 * abs(s) + 1e-9 * abs(f) / (1.0 + k) + 1e-300
    sides = [each - float(loss.derivative(np.array(f - k * each), np.array(y))) for each in (s - width, s + width)]
    assert sides[0] <= 0.0 <= sides[1]


# --- accounting -------------------------------------------------------------------------------------------------------


def test_each_sample_is_predicted_before_it_is_learned_from() -> None:
    task = Task("ring", 4, rounds=30)
    models, _, errors = task.run(lambda i: ODKLA(task.cost(i), 30, rho=0.3, eta=1.0))
    before = np.concatenate([np.zeros_like(models[:1]), models[:-1]])
    predictions = np.einsum("tnd,tnd->tn", task.features, before)
    np.testing.assert_allclose(errors, (predictions - task.targets) ** 2, rtol=0, atol=1e-12)
    losses = errors + task.share * np.sum(before**2, axis=2)
    for i, agent in task.result.agents.items():
        assert agent.cost.count == 30
        assert agent.cost.loss_sum == pytest.approx(losses[:, i].sum(), rel=1e-12)
    # All models start at 0, so the first prediction is 0.
    np.testing.assert_allclose(errors[0], task.targets[0] ** 2, rtol=0, atol=1e-12)


def test_logistic_accounting() -> None:
    task = Task("two", 0, labels=True, rounds=20)
    models, _, _ = task.run(lambda i: ODKLA(task.cost(i), 20, rho=0.3, eta=1.0))
    before = np.concatenate([np.zeros_like(models[:1]), models[:-1]])
    predictions = np.einsum("tnd,tnd->tn", task.features, before)
    losses = -np.log(expit(task.targets * predictions)) + task.share * np.sum(before**2, axis=2)
    for i, agent in task.result.agents.items():
        assert agent.cost.loss_sum == pytest.approx(losses[:, i].sum(), rel=1e-12)


class Courier(netsim.Agent):
    """Broadcasts one vector through a coder and stores the arrivals."""

    def __init__(self, coder: Uniform, vector: Array) -> None:
        self.coded = coder.encode(vector)
        self.frames: list[netsim.Frame] = []

    async def run(self) -> None:
        async for _ in self.rounds(1):
            await self.broadcast("change", self.coded)
            self.frames += await self.collect()


def test_three_bits_an_element_is_what_travels() -> None:
    vector = np.random.default_rng(0).uniform(-1.0, 1.0, 2 * 50)
    run = Network(topology.path(2)).run({i: Courier(Uniform(3, -1.0, 1.0), vector) for i in range(2)})
    assert run.ledger.transmissions == 2
    assert run.ledger.payload_bits == 2 * 300
    packed = run.agents[0].coded.data
    assert len(packed) == 38
    frame = run.agents[1].frames[0]
    assert frame.data.endswith(packed)
    # The frame holds the packed integers (38 bytes), both ends of the range (16), and less than 24 bytes of framing.
    assert len(frame.data) < 38 + 16 + 24
    task = Task("ring", 0, features=50, rounds=10)
    task.run(lambda i: ODKLA(task.cost(i), 10, rho=0.3, eta=1.0, coder=Uniform(3, -1.0, 1.0)))
    assert task.result.ledger.payload_bits == task.result.ledger.transmissions * 300


def test_a_range_of_each_messages_own_costs_32_bits_more() -> None:
    task = Task("ring", 0, features=50, rounds=10)
    task.run(lambda i: DDKL(task.cost(i), 10, rho=0.3, coder=Uniform(6)))
    assert task.result.ledger.payload_bits == 5 * 10 * (600 + 32)


def test_saturation_is_counted() -> None:
    low, high = -0.02, 0.05
    task = Task("ring", 1)
    middles = batch.uniform_quantizer(3, low=low, high=high)
    outside = 0

    def quantize(h: Array) -> Array:
        nonlocal outside
        outside += int(np.sum((h < low) | (h >= high)))
        return middles(h)

    expected = online.odkla(task.features, task.targets, task.adjacency, task.share, 0.1, 8.0, quantize=quantize)
    task.check(lambda i: ODKLA(task.cost(i), ROUNDS, rho=0.1, eta=8.0, coder=Uniform(3, low, high)), expected)
    assert task.result.ledger.saturated == outside > 0
    task.run(lambda i: ODKLA(task.cost(i), ROUNDS, rho=0.1, eta=8.0, coder=Uniform(3)))
    assert task.result.ledger.saturated == 0


# --- regret -----------------------------------------------------------------------------------------------------------


def _table(seed: int, width: int, noise: float, f: Callable[[Array], Array], rows: int = 16_000) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.random((rows, width))
    return Table(f"table {seed}", x, f(x) + noise * rng.standard_normal(rows), tuple("abcde"[:width]), "y")


STATIONARY: dict[str, Callable[[], tuple[RandomFourier, list[Samples]]]] = {}


def _stationary(make: Callable[[], tuple[RandomFourier, list[Samples]]]) -> None:
    STATIONARY[make.__name__.removeprefix("_")] = make


def _features(inputs: int) -> RandomFourier:
    return RandomFourier(inputs, 15, sigma=0.5, form="cos+sin", seed=1)


@_stationary
def _shuffled() -> tuple[RandomFourier, list[Samples]]:
    table = _table(0, 2, 0.1, lambda x: np.sin(3 * x[:, 0]) * x[:, 1])
    return _features(2), shuffled(table, 4, _features(2), seed=0)


@_stationary
def _in_order() -> tuple[RandomFourier, list[Samples]]:
    table = _table(1, 5, 0.2, lambda x: x[:, 0] * x[:, 1] + 2 * (x[:, 2] - 0.5) ** 2 + 0.5 * x[:, 3])
    return _features(5), in_order(table, 4, _features(5))


@_stationary
def _agents_differ() -> tuple[RandomFourier, list[Samples]]:
    table = _table(2, 1, 0.05, lambda x: np.abs(x[:, 0] - 0.4))
    return _features(1), by_target(table, 4, _features(1), mixing=0.2, seed=0)


@pytest.mark.parametrize("stream", [slow(each) if k else each for k, each in enumerate(STATIONARY)])
def test_static_regret_is_sublinear_if_the_weights_grow_as_the_root_of_the_rounds(stream: str) -> None:
    feature_map, samples = STATIONARY[stream]()
    data = [list(each) for each in samples]
    features = np.stack([[phi for phi, _ in each] for each in data], axis=1)
    targets = np.array([[y for _, y in each] for each in data]).T
    ring = topology.adjacency(topology.ring(4))
    share = 1e-4 / 4

    def regret_a_round(rounds: int, weight: float) -> float:
        x, y = features[:rounds], targets[:rounds]
        with np.errstate(all="ignore"):
            thetas, _, errors = online.odkla(x, y, ring, share, rho=weight, eta=weight)
        before = np.concatenate([np.zeros_like(thetas[:1]), thetas[:-1]])
        regret = StaticRegret(feature_map.size, share)
        with np.errstate(all="ignore"):
            losses = np.sum(errors**2 + share * np.sum(before**2, axis=2), axis=1)
        for each in zip(x, y, losses.tolist(), strict=True):
            regret.take(*each)
        return regret.value / rounds

    doublings = [250, 500, 1000, 2000, 4000]
    grown = [regret_a_round(rounds, 0.3 * math.sqrt(rounds)) for rounds in doublings]
    assert all(b < 0.97 * a for a, b in pairwise(grown))
    assert grown[-1] > 0.0
    # The opposite choice: a weight that shrinks with √T makes the steps grow until the method diverges.
    shrunk = [regret_a_round(rounds, 16.0 / math.sqrt(rounds)) for rounds in (500, 4000)]
    assert not shrunk[1] < 2.0 * shrunk[0]


def test_regret_of_a_run_is_that_of_its_recursion() -> None:
    task = Task("ring", 0, rounds=50)
    static, dynamic = StaticRegret(task.size, task.share), DynamicRegret(task.size, task.share)
    paid = np.zeros(task.agents)

    def watch(agents: Mapping[int, Any]) -> dict[str, float]:
        costs = [agent.cost for agent in agents.values()]
        now = np.array([cost.loss_sum for cost in costs])
        x, y = np.stack([cost.features for cost in costs]), np.array([cost.target for cost in costs])
        for regret in (static, dynamic):
            regret.take(x, y, float(np.sum(now - paid)))
        paid[:] = now
        return {"static": static.value}

    agents = {i: DOKL(task.cost(i), 50, rho=0.3, eta=1.0) for i in task.graph}
    run = Network(task.graph).run(agents, [watch])
    thetas, _, _ = online.dokl(task.features, task.targets, task.adjacency, task.share, 0.3, 1.0)
    before = np.concatenate([np.zeros_like(thetas[:1]), thetas[:-1]])
    for regret, kind in ((static, StaticRegret), (dynamic, DynamicRegret)):
        expected = kind(task.size, task.share)
        for x, y, theta in zip(task.features, task.targets, before, strict=True):
            loss = np.sum((np.sum(x * theta, axis=1) - y) ** 2) + task.share * np.sum(theta**2)
            expected.take(x, y, float(loss))
        assert regret.value == pytest.approx(expected.value, rel=1e-9)
    assert run.rounds["static"].iloc[-1] == static.value


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda cost: ODKLA(cost, 10, rho=0.0, eta=1.0), "rho = 0.0"),
        (lambda cost: ODKLA(cost, 10, rho=1.0, eta=0.0), "eta = 0.0"),
        (lambda cost: ODKLA(cost, -1, rho=1.0, eta=1.0), "count = -1"),
        (lambda cost: DOKL(cost, 10, rho=1.0, eta=-1.0), "eta = -1.0"),
        (lambda cost: DOKL(cost, 10, rho=1.0, eta=1.0, solve="sparse"), "solve = 'sparse'"),
        (lambda cost: DDKL(cost, 10, rho=math.inf), "rho = inf"),
        (lambda cost: RFFDOKL(cost, 10, eta=0.0, weights={}), "eta = 0.0"),
        (lambda cost: OnlineCost(iter([]), 0, loss=Squared(), regularizer=0.1), "size = 0"),
        (lambda cost: OnlineCost(iter([]), 3, loss=Squared(), regularizer=-0.1), "regularizer = -0.1"),
    ],
)
def test_bad_parameters_are_named(make: Callable[[OnlineCost], SharingAgent], named: str) -> None:
    with pytest.raises(BadInput, match=f"^{named}: must be [^\n]+$"):
        make(Task("two", 0).cost(0))


def test_a_stream_that_ends_too_early_is_named() -> None:
    task = Task("two", 0, rounds=5)
    with pytest.raises(AgentError, match=r"samples: must be one for each round; the stream ended after 5[^\n]*$"):
        task.run(lambda i: DDKL(task.cost(i), 6, rho=1.0))


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()], ids=lambda loss: loss.name)
def test_labels_that_the_loss_does_not_know_are_named(loss: LossFunction) -> None:
    cost = OnlineCost(iter([(np.ones(2), 1.0), (np.ones(2), 0.0)]), 2, loss=loss, regularizer=0.1)
    cost.draw(np.zeros(2))
    with pytest.raises(BadInput, match=rf"^targets\[0\] = 0.0: must be -1 or 1 for the {loss.name} loss$"):
        cost.draw(np.zeros(2))


def test_a_dense_solve_is_for_squares() -> None:
    task = Task("two", 0, labels=True)
    with pytest.raises(AgentError, match=r'solve = "dense": must go with a squared loss; the cost has Logistic$'):
        task.run(lambda i: DOKL(task.cost(i), ROUNDS, rho=0.3, eta=1.5, solve="dense"))
