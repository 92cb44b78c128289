"""On ideal links D-PSGD, EXTRA, PG-EXTRA, DIGing, LEAD, BEER, EF21, EF21-P and LAG equal their recursions."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Link, NetsimError, Network, latency, topology
from netsim.agents import (
    BEER,
    DPSGD,
    EF21,
    EF21P,
    EXTRA,
    L1,
    LEAD,
    PGEXTRA,
    ClassProblem,
    DIGing,
    Lazy,
    LocalProblem,
    OverStar,
    Softmax,
    Squared,
    centralised,
    centralised_classes,
    schedule,
)
from netsim.coders import Exact, Float, Sign, TopK, Uniform
from netsim.util.typing import Array
from tests.agents.test_batch import FEATURES, LAMBDA, MOST, Task
from tests.oracle import batch, first_order
from tests.parts import slow

ROUNDS = 40
NONE = Exact()


class Setting:
    """A learning problem on a graph, with the arrays that agents and recursions need."""

    def __init__(self, graph: str, seed: int = 0, even: bool = False) -> None:
        self.task = Task(graph, seed, even)
        self.W = topology.metropolis_weights(self.task.graph)
        self.rows = [dict(enumerate(row)) for row in self.W]
        self.shape = (len(self.W), FEATURES)
        self.gradient = first_order.squares(self.task.gram, self.task.cross, self.task.share)

    def run(self, make: type[Any], link: Link | None = None, **given: Any) -> Array:
        """Return the models after each round, shape (rounds, N, D)."""
        models: list[Array] = []

        def watch(agents: Mapping[int, Any]) -> dict[str, float]:
            models.append(np.stack([agent.theta for agent in agents.values()]))
            return {}

        rounds = given.pop("rounds", ROUNDS)
        agents = {i: make(self.task.problems[i], rounds, **given, **self.own(make, i)) for i in self.task.graph}
        self.result = Network(self.task.graph, link, seed=3).run(agents, [watch])
        return np.array(models)

    def own(self, make: type[Any], i: int) -> dict[str, Any]:
        return {} if issubclass(make, OverStar) else {"weights": self.rows[i]}


def quantizer(coder: Any) -> Callable[[Array], Array]:
    """Return the function x → decode(encode(x)) of a coder, written independently of netsim's coders."""
    if isinstance(coder, Uniform):
        return batch.uniform_quantizer(coder.bits)

    def largest(h: Array) -> Array:
        kept = np.zeros_like(h)
        order = np.argsort(-np.abs(h), kind="stable")[:4]
        kept[order] = h[order]
        return kept

    return largest if isinstance(coder, TopK) else lambda h: h


each_graph = pytest.mark.parametrize("graph", MOST)
each_coder = pytest.mark.parametrize("coder", [NONE, Uniform(3), TopK(4)], ids=["exact", "3 bits", "top 4"])


def same(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@each_graph
def test_dpsgd_equals_its_recursion(graph: str) -> None:
    at = Setting(graph)
    steps = schedule.power(0.2)
    found = at.run(DPSGD, eta=steps)
    same(found, first_order.dpsgd(at.gradient, at.W, at.shape, 0.2 / np.sqrt(np.arange(1.0, ROUNDS + 1))))


@each_graph
def test_extra_equals_its_recursion(graph: str) -> None:
    at = Setting(graph)
    same(at.run(EXTRA, eta=0.1), first_order.extra(at.gradient, at.W, at.shape, 0.1, ROUNDS))


@each_graph
def test_pg_extra_equals_its_recursion(graph: str) -> None:
    at = Setting(graph)

    def prox(z: Array) -> Array:
        return np.where(z > 0.005, z - 0.005, np.where(z < -0.005, z + 0.005, 0.0))

    found = at.run(PGEXTRA, eta=0.1, nonsmooth=L1(0.05))
    same(found, first_order.pg_extra(at.gradient, prox, at.W, at.shape, 0.1, ROUNDS))
    same(at.run(PGEXTRA, eta=0.1, nonsmooth=L1(0.0)), at.run(EXTRA, eta=0.1))


@each_graph
@pytest.mark.parametrize("running_sums", [False, True])
def test_diging_equals_its_recursion(graph: str, running_sums: bool) -> None:
    at = Setting(graph)
    steps = schedule.geometric(0.05, 0.999)
    found = at.run(DIGing, eta=steps, running_sums=running_sums)
    etas = np.array([steps(k) for k in range(1, ROUNDS + 1)])
    same(found, first_order.diging(at.gradient, at.W, at.shape, etas))


@each_graph
@each_coder
def test_lead_equals_its_recursion(graph: str, coder: Any) -> None:
    at = Setting(graph)
    steps = (0.05, 0.3, 0.2) if isinstance(coder, TopK) else (0.1, 0.9, 0.5)
    found = at.run(LEAD, eta=steps[0], gamma=steps[1], alpha=steps[2], coder=coder)
    same(found, first_order.lead(at.gradient, at.W, at.shape, steps, ROUNDS, quantizer(coder)))


@each_graph
def test_without_coding_lead_is_nids(graph: str) -> None:
    """NIDS (Li, Shi and Yan 2019) with one step size: x ← (I + W)/2 (2x − x₋ − η(∇ − ∇₋)); ₋ marks the last round."""
    at = Setting(graph)
    half = (np.eye(len(at.W)) + at.W) / 2.0
    before, slope = np.zeros(at.shape), at.gradient(np.zeros(at.shape))
    x = before - 0.1 * slope
    expected = []
    for _ in range(ROUNDS):
        fresh = at.gradient(x)
        before, x = x, half @ (2.0 * x - before - 0.1 * (fresh - slope))
        slope = fresh
        expected.append(x)
    same(at.run(LEAD, eta=0.1, gamma=1.0, alpha=0.7), np.array(expected))


@each_graph
@each_coder
def test_beer_equals_its_recursion(graph: str, coder: Any) -> None:
    at = Setting(graph)
    found = at.run(BEER, eta=0.03, gamma=0.3, coder=coder)
    same(found, first_order.beer(at.gradient, at.W, at.shape, (0.03, 0.3), ROUNDS, quantizer(coder)))


@pytest.mark.parametrize("graph", ["star", "two", "one"])
@each_coder
def test_ef21_and_ef21_p_equal_their_recursions(graph: str, coder: Any) -> None:
    at = Setting(graph)
    for kind, recursion in ((EF21, first_order.ef21), (EF21P, first_order.ef21p)):
        found = at.run(kind, eta=0.1, coder=coder)
        expected = recursion(at.gradient, at.shape, 0.1, ROUNDS, quantizer(coder))
        same(found[:, 0], expected[:, 0])


@pytest.mark.parametrize("xi", [(0.1,) * 10, (0.5, 0.2, 0.3), (0.0,)], ids=["paper", "three", "zero"])
@pytest.mark.parametrize("method", ["LAG", "EF21, 3 bits"])
def test_lazy_clients_equal_the_recursion_and_are_silent_when_it_is(method: str, xi: tuple[float, ...]) -> None:
    at = Setting("star")
    kind, coder = (OverStar, NONE) if method == "LAG" else (EF21, Uniform(3))
    found = at.run(kind, eta=0.1, censor=Lazy(xi), coder=coder)
    expected, uploads = first_order.lag(at.gradient, at.shape, 0.1, ROUNDS, xi, quantizer(coder))
    same(found[:, 0], expected[1:])
    up = at.result.ledger.table(["sender"]).set_index("sender")["offered"]
    clients = range(1, len(at.W))
    assert [up[m] for m in clients] == uploads[:, 1:].sum(axis=0).tolist()
    assert at.result.ledger.transmissions == ROUNDS + uploads.sum()
    assert (uploads.sum() < 0.8 * ROUNDS * len(clients)) == any(xi)


def test_lazy_clients_reach_the_optimum_and_then_say_nothing() -> None:
    at = Setting("star", even=True)
    best = centralised(at.task.problems, LAMBDA)
    models = at.run(OverStar, rounds=150, eta=0.1, censor=Lazy())
    np.testing.assert_allclose(models[-1, 0], best, rtol=0, atol=1e-6)
    sent = at.result.ledger.transmissions - 150
    at.run(OverStar, rounds=150, eta=0.1)
    assert at.result.ledger.transmissions == 150 * len(at.W)
    assert sent < 0.5 * 150 * (len(at.W) - 1)


def test_a_lazy_client_that_loses_frames_catches_up() -> None:
    at = Setting("star", even=True)
    best = centralised(at.task.problems, LAMBDA)
    models = at.run(OverStar, Link(loss=0.2), rounds=280, eta=0.2, censor=Lazy())
    np.testing.assert_allclose(models[-1, 0], best, rtol=0, atol=1e-5)


def test_a_lazy_client_that_restarts_speaks_at_once_and_catches_up() -> None:
    at = Setting("star", even=True)
    best = centralised(at.task.problems, LAMBDA)
    agents = {i: OverStar(at.task.problems[i], 200, eta=0.2, censor=Lazy()) for i in at.task.graph}
    sent: list[int] = []
    network = Network(at.task.graph, seed=3)
    network.at(50.5, agents[2].restart)
    network.run(agents, [lambda _: sent.append(agents[2].sharing.spoken if "sharing" in vars(agents[2]) else 0) or {}])
    assert sent[49] > sent[51] == 1
    np.testing.assert_allclose(agents[0].theta, best, rtol=0, atol=1e-6)


def test_a_client_of_ef21_has_the_models_that_the_server_sent() -> None:
    at = Setting("star")
    found = at.run(EF21, eta=0.1, coder=Uniform(3))
    same(found[1:, 1:], np.repeat(found[:-1, :1], len(at.W) - 1, axis=1))


# --- what they are for ------------------------------------------------------------------------------------------------

REACH: dict[str, tuple[type[Any], dict[str, Any], int]] = {
    "EXTRA": (EXTRA, {"eta": 0.2}, 170),
    "DIGing": (DIGing, {"eta": 0.05}, 320),
    "DIGing, sums": (DIGing, {"eta": 0.05, "running_sums": True}, 320),
    "LEAD, 2 bits": (LEAD, {"eta": 0.2, "gamma": 0.7, "coder": Uniform(2)}, 230),
    "BEER, 4 bits": (BEER, {"eta": 0.08, "gamma": 0.6, "coder": Uniform(4)}, 1500),
    "EXTRA, 4 bits": (EXTRA, {"eta": 0.1, "coder": Uniform(4)}, 2500),
}


@pytest.mark.parametrize("method", [slow(name) if "4 bits" in name else name for name in REACH])
def test_with_steps_of_one_size_they_reach_the_optimum(method: str) -> None:
    at = Setting("random", even="4 bits" not in method)
    kind, given, rounds = REACH[method]
    models = at.run(kind, rounds=rounds, **given)
    same_to = np.tile(centralised(at.task.problems, LAMBDA), (len(at.W), 1))
    np.testing.assert_allclose(models[-1], same_to, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [EF21, EF21P])
@pytest.mark.parametrize("coder", [slow(TopK(1)), Uniform(2), Sign()], ids=["top 1", "2 bits", "signs"])
def test_over_a_star_they_reach_the_optimum(kind: Any, coder: Any) -> None:
    at = Setting("star", even=True)
    # TopK(1) sends one element per message, and converges with small steps only.
    eta, rounds = (0.05, 500) if isinstance(coder, TopK) else (0.2, 120)
    models = at.run(kind, rounds=rounds, eta=eta, coder=coder)
    best = centralised(at.task.problems, LAMBDA)
    np.testing.assert_allclose(models[-1], np.tile(best, (len(at.W), 1)), rtol=0, atol=1e-6)


def test_dpsgd_ends_beside_the_optimum_where_costs_differ() -> None:
    at = Setting("ring")
    best = centralised(at.task.problems, LAMBDA)
    apart = [float(np.abs(at.run(DPSGD, rounds=700, eta=eta)[-1] - best).max()) for eta in (0.1, 0.02)]
    assert apart[0] > 2 * apart[1] > 1e-3


def test_pg_extra_finds_the_sparse_optimum() -> None:
    """Optimality: the gradients' sum s is −N · weight · sign(θ) where θ ≠ 0, and |s| < N · weight where θ = 0."""
    at = Setting("ring")
    weight = 0.05
    models = at.run(PGEXTRA, rounds=1500, eta=0.1, nonsmooth=L1(weight))
    theta = models[-1, 0]
    np.testing.assert_allclose(models[-1], np.tile(theta, (len(at.W), 1)), rtol=0, atol=1e-7)
    slopes = at.gradient(models[-1]).sum(axis=0)
    zero = theta == 0.0
    assert 0 < zero.sum() < FEATURES
    np.testing.assert_allclose(slopes[~zero], -len(at.W) * weight * np.sign(theta[~zero]), rtol=0, atol=1e-6)
    assert (np.abs(slopes[zero]) < len(at.W) * weight).all()


# --- models of several classes, and float32 ---------------------------------------------------------------------------


def class_problems(graph: Any) -> list[ClassProblem]:
    rng = np.random.default_rng(2)
    found = []
    for i in graph:
        x = rng.normal(size=(40, 5)) + 0.3 * i
        found.append(ClassProblem(x, rng.integers(0, 3, 40), loss=Softmax(3), regularizer=2.0 / len(graph)))
    return found


MATRICES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "EXTRA": (EXTRA, {"eta": 0.1}),
    "DIGing": (DIGing, {"eta": 0.05}),
    "DIGing, sums": (DIGing, {"eta": 0.05, "running_sums": True}),
    "LEAD": (LEAD, {"eta": 0.1, "gamma": 0.7, "coder": Uniform(4)}),
    "BEER": (BEER, {"eta": 0.03, "gamma": 0.6, "coder": Uniform(4)}),
    "EF21": (EF21, {"eta": 0.1, "coder": TopK(3)}),
    "EF21-P": (EF21P, {"eta": 0.1, "coder": TopK(3)}),
}


@pytest.mark.parametrize("method", MATRICES)
def test_models_may_be_matrices(method: str) -> None:
    kind, given = MATRICES[method]
    graph = topology.star(5)
    problems = class_problems(graph)
    weights = topology.metropolis_weights(graph)
    own = [{} if kind in (EF21, EF21P) else {"weights": dict(enumerate(row))} for row in weights]
    agents = {i: kind(problems[i], 340 if kind is BEER else 210, **given, **own[i]) for i in graph}
    Network(graph, seed=1).run(agents)
    best = centralised_classes(problems, 2.0)
    np.testing.assert_allclose(np.stack([a.theta for a in agents.values()]), [best] * 5, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", MATRICES)
def test_states_may_travel_in_float32(method: str) -> None:
    kind, given = MATRICES[method]
    at = Setting("star", even=True)
    models = at.run(kind, rounds=260 if kind is BEER else 200, **{**given, "coder": Float(32)})
    best = centralised(at.task.problems, LAMBDA)
    np.testing.assert_allclose(models[-1], np.tile(best, (len(at.W), 1)), rtol=0, atol=1e-4)
    ledger = at.result.ledger
    vectors = 2 if kind in (DIGing, BEER) else 1
    assert ledger.payload_bits == 32 * FEATURES * vectors * ledger.transmissions


# --- what travels -----------------------------------------------------------------------------------------------------

BITS: dict[str, tuple[type[Any], dict[str, Any], int]] = {
    "D-PSGD": (DPSGD, {"eta": 0.1}, 64 * FEATURES),
    "EXTRA": (EXTRA, {"eta": 0.1}, 64 * FEATURES),
    "DIGing": (DIGing, {"eta": 0.1}, 2 * 64 * FEATURES),
    "DIGing, sums": (DIGing, {"eta": 0.1, "running_sums": True}, 2 * 64 * FEATURES),
    "LEAD": (LEAD, {"eta": 0.1, "gamma": 0.5, "coder": Uniform(4)}, 4 * FEATURES + 32),
    "BEER": (BEER, {"eta": 0.1, "gamma": 0.5, "coder": Uniform(4)}, 2 * (4 * FEATURES + 32)),
}


@pytest.mark.parametrize("method", BITS)
def test_a_packet_has_the_bits_that_the_table_says(method: str) -> None:
    kind, given, bits = BITS[method]
    at = Setting("ring")
    at.run(kind, rounds=7, **given)
    assert at.result.ledger.transmissions == 7 * len(at.W)
    assert at.result.ledger.payload_bits == bits * 7 * len(at.W)


def test_over_a_star_one_direction_is_coded() -> None:
    at = Setting("star")
    clients = len(at.W) - 1
    full, coded = 64 * FEATURES, 4 * FEATURES + 32
    for kind, down, up in ((EF21, full, coded), (EF21P, coded, full)):
        at.run(kind, rounds=7, eta=0.1, coder=Uniform(4))
        assert at.result.ledger.transmissions == 7 * (1 + clients)
        assert at.result.ledger.payload_bits == 7 * (down + clients * up)
        kinds = at.result.ledger.table(["kind"]).set_index("kind")["offered"].to_dict()
        assert kinds == {"state": 7 * clients, "change": 7 * clients}


def test_answers_within_a_round_come_in_time() -> None:
    at = Setting("star")
    ideal = at.run(EF21, eta=0.1, coder=Uniform(4))
    same(at.run(EF21, Link(latency=latency.uniform(0.05, 0.4)), eta=0.1, coder=Uniform(4)), ideal)


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda p: LEAD(p, 1, eta=0.1, gamma=1.0, alpha=1.5, weights={0: 1.0}), "alpha = 1.5: must be > 0 and <= 1"),
        (lambda p: LEAD(p, 1, eta=0.0, gamma=1.0, weights={0: 1.0}), r"eta = 0\.0"),
        (
            lambda p: PGEXTRA(p, 1, eta=0.1, nonsmooth=3, weights={0: 1.0}),
            r"nonsmooth = <int>: must have",
        ),
        (
            lambda p: DIGing(p, 1, eta=0.1, running_sums=True, coder=Uniform(4), weights={0: 1.0}),
            "coder = Uniform: must code states",
        ),
        (lambda p: EF21(p, 1, eta=0.1, coded_start=True), "coded_start = True: must be False for EF21"),
        (lambda p: L1(-1.0), r"weight = -1\.0"),
        (lambda p: Lazy(()), r"^weights = \(\): must be a tuple of at least one number$"),
        (lambda p: Lazy((0.1, -1.0)), r"^weights\[1\] = -1\.0: must be "),
        (
            lambda p: EXTRA(p, 1, eta=0.1, weights={0: 1.0}, censor=Lazy()),
            r"^censor = Lazy: must be with OverStar, EF21 or EF21P; EXTRA has no server$",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        make(Setting("one").task.problems[0])


@pytest.mark.parametrize("graph", ["ring", "path", "random"])
def test_a_method_of_a_server_needs_a_star(graph: str) -> None:
    with pytest.raises(NetsimError, match=r"graph: must be a star around server = 0 for EF21; the neighbours of "):
        Setting(graph).run(EF21, eta=0.1)


def test_a_cost_without_a_gradient_is_refused() -> None:
    class Bare:
        size = 3

    for kind in (DPSGD, EXTRA, DIGing, LEAD, BEER, EF21, EF21P):
        given: dict[str, Any] = {"eta": 0.1, "weights": {}, "gamma": 0.5}
        if kind in (EF21, EF21P):
            given = {"eta": 0.1}
        elif kind in (DPSGD, EXTRA, DIGing):
            del given["gamma"]
        with pytest.raises(BadInput, match=rf"which {kind.__name__} asks for; it has no gradient"):
            kind(Bare(), 1, **given)


def test_a_stochastic_gradient_is_drawn_once_a_round() -> None:
    class Noisy:
        def __init__(self, problem: LocalProblem, seed: int) -> None:
            self.problem, self.size, self.drawn = problem, problem.size, 0
            self.rng = np.random.default_rng(seed)

        def gradient(self, theta: Array) -> Array:
            self.drawn += 1
            return self.problem.gradient(theta) + 0.01 * self.rng.normal(size=self.size)

    at = Setting("star")
    assert isinstance(at.task.problems[0], LocalProblem)
    assert isinstance(at.task.problems[0].loss, Squared)
    for kind, first in ((DPSGD, 0), (EXTRA, 0), (DIGing, 1), (LEAD, 1), (BEER, 1), (EF21, 0), (EF21P, 0)):
        costs = [Noisy(problem, i) for i, problem in enumerate(at.task.problems)]
        given: dict[str, Any] = {"gamma": 0.3} if kind in (LEAD, BEER) else {}
        agents = {i: kind(costs[i], 20, eta=0.05, **given, **at.own(kind, i)) for i in at.task.graph}
        Network(at.task.graph).run(agents)
        assert {cost.drawn for cost in costs} == {20 + first}
