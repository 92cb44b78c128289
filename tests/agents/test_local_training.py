"""Relaxed ADMM and LT-ADMM equal their recursions, coded and with lost frames, and remain exact under loss."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import AgentError, BadInput, Link, Network, loss, topology
from netsim.agents import DKLA, LTADMM, EdgeDuals, LocalProblem, Logistic, RelaxedADMM, centralised
from netsim.coders import ErrorFeedback, Float, TopK, Uniform
from netsim.util.typing import Array
from tests.agents.test_batch import FEATURES, LAMBDA, MOST, Task
from tests.oracle import batch, first_order, local_training, lossy
from tests.parts import slow

ROUNDS = 40
STEPS = {"eta": 0.05, "beta": 0.2, "rho": 0.3}
TRIPLE = (0.05, 0.2, 0.3)
LOSSY = {"ideal": Link(), "free": Link(loss=0.3), "burst": Link(loss=loss.gilbert_elliott(0.2, burst=4))}
each_graph = pytest.mark.parametrize("graph", MOST)
each_link = pytest.mark.parametrize("link", LOSSY)


def follow(
    task: Task, make: Callable[[Any], Any], link: Link | None = None, *, trace: bool = True
) -> tuple[Array, Any]:
    """Return the models after each round, shape (rounds, N, D), and which frames arrived, by sender and receiver."""
    models: list[Array] = []

    def watch(agents: Mapping[int, Any]) -> dict[str, float]:
        models.append(np.stack([agent.theta for agent in agents.values()]))
        return {}

    agents = {i: make(task.problems[i]) for i in task.graph}
    run = Network(task.graph, link, seed=2).run(agents, [watch], trace=trace)
    arrived = lossy.arrivals(run, len(models)).transpose(0, 2, 1) if trace else None
    return np.array(models), arrived


def gradient_of(task: Task) -> Callable[[Array], Array]:
    return first_order.squares(task.gram, task.cross, task.share)


@each_graph
@each_link
@pytest.mark.parametrize("alpha", [0.5, 0.8])
def test_relaxed_admm_equals_its_recursion(graph: str, link: str, alpha: float) -> None:
    task = Task(graph, 1)
    models, arrived = follow(task, lambda cost: RelaxedADMM(cost, ROUNDS, rho=0.4, relaxation=alpha), LOSSY[link])
    hessians = 2 * (task.gram + task.share * np.eye(FEATURES))
    argmin = local_training.proximal(hessians, 2 * task.cross)
    expected = local_training.radmm(argmin, task.adjacency, 0.4, alpha, arrived, FEATURES)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


@each_link
def test_relaxed_admm_is_dkla_with_edge_duals(link: str) -> None:
    task = Task("random", 0)
    models, _ = follow(task, lambda cost: RelaxedADMM(cost, ROUNDS, rho=0.4, relaxation=0.6), LOSSY[link])
    others, _ = follow(task, lambda cost: DKLA(cost, ROUNDS, rho=0.2, duals=EdgeDuals(0.6)), LOSSY[link])
    np.testing.assert_allclose(models, others, rtol=0, atol=1e-9)


@each_graph
@each_link
@pytest.mark.parametrize("tau", [1, 4])
def test_lt_admm_equals_its_recursion(graph: str, link: str, tau: int) -> None:
    task = Task(graph, 0)
    models, arrived = follow(task, lambda cost: LTADMM(cost, ROUNDS, tau=tau, **STEPS), LOSSY[link])
    expected = local_training.lt_admm(gradient_of(task), task.adjacency, TRIPLE, tau, arrived, FEATURES)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


@each_link
@pytest.mark.parametrize("graph", ["random", "two"])
def test_coded_lt_admm_equals_its_recursion(graph: str, link: str) -> None:
    task = Task(graph, 0)
    models, arrived = follow(task, lambda cost: LTADMM(cost, ROUNDS, coder=Uniform(4), **STEPS), LOSSY[link])
    code = batch.uniform_quantizer(4)
    expected = local_training.lt_admm(gradient_of(task), task.adjacency, TRIPLE, 5, arrived, FEATURES, code=code)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


def test_states_in_float32_are_rounded_only() -> None:
    task = Task("ring", 0)
    models, _ = follow(task, lambda cost: LTADMM(cost, ROUNDS, coder=Float(32), **STEPS), trace=False)
    exact, _ = follow(task, lambda cost: LTADMM(cost, ROUNDS, **STEPS), trace=False)
    assert 0 < np.abs(models - exact).max() < 1e-5


# --- what lost frames do ----------------------------------------------------------------------------------------------

SLOW_STEPS = {"eta": 0.1, "beta": 0.2, "rho": 0.3}
METHODS: dict[str, Callable[[Any, int], Any]] = {
    "relaxed ADMM": lambda cost, rounds: RelaxedADMM(cost, rounds, rho=0.3),
    "LT-ADMM": lambda cost, rounds: LTADMM(cost, rounds, **SLOW_STEPS),
    "LT-ADMM, 4 bits": lambda cost, rounds: LTADMM(cost, rounds, coder=Uniform(4), **SLOW_STEPS),
    "LT-ADMM, top 4": lambda cost, rounds: LTADMM(cost, rounds, coder=TopK(4), eta=0.05, beta=0.05, rho=0.3),
}


@pytest.mark.parametrize(
    ("method", "link"),
    [
        slow(name, link) if "top" in name or link not in ("burst", *["free"] * ("bits" in name)) else (name, link)
        for name in METHODS
        for link in [*LOSSY, "thin"]
        # Top-k coding needs many rounds to converge, so it runs on one link only.
        if "top" not in name or link == "burst"
    ],
)
def test_the_limit_is_exact_whatever_is_lost(method: str, link: str) -> None:
    task, rounds = Task("random", 0), 1400 if link == "thin" or "top" in method else 550 if "bits" in method else 800
    settings = LOSSY.get(link, Link(loss=0.6))
    models, _ = follow(task, lambda cost: METHODS[method](cost, rounds), settings, trace=False)
    best = centralised(task.problems, LAMBDA)
    assert np.abs(models[-1] - best).max() < 1e-7


def test_frames_that_come_twice_or_late_are_no_harm() -> None:
    task = Task("ring", 0)
    make = lambda cost: LTADMM(cost, ROUNDS, coder=Uniform(4), **STEPS)  # noqa: E731
    once, _ = follow(task, make, trace=False)
    twice, _ = follow(task, make, Link(duplicate=1.0), trace=False)
    np.testing.assert_array_equal(once, twice)


def test_coded_frames_have_the_bits_of_their_coder_and_three_numbers() -> None:
    task = Task("two", 0)
    agents = {i: LTADMM(task.problems[i], 10, coder=Uniform(4), **STEPS) for i in task.graph}
    run = Network(task.graph).run(agents)
    assert run.ledger.transmissions == 20
    # A frame holds 4 bits per feature, a 32-bit scale, and three small integers, one byte each in msgpack.
    assert run.ledger.payload_bits == 20 * (4 * FEATURES + 32 + 3 * 8)


# --- a shape of the paper ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_more_local_steps_need_fewer_rounds() -> None:
    """The paper's "local training accelerates convergence" (arXiv 2501.13516): logistic regression, a ring of ten."""
    needed = {tau: rounds_to(1e-6, tau) for tau in (1, 2, 5, 10)}
    assert needed[1] > 1.6 * needed[2] > 1.6 * 1.6 * needed[5]
    # Once the local problems are almost solved, more local steps save no rounds.
    assert needed[5] < 1.2 * needed[10] < 1.5 * needed[5]


def rounds_to(level: float, tau: int) -> int:
    """Return the first round after which all agents stay within ``level`` of the optimum, relative to its norm."""
    ring, rng = topology.ring(10), np.random.default_rng(0)
    problems = []
    for _ in ring:
        x = rng.normal(size=(100, 5)) + rng.normal(size=5)
        y = np.where(x @ rng.normal(size=5) + rng.normal(size=100) > 0, 1.0, -1.0)
        problems.append(LocalProblem(x, y, loss=Logistic(), regularizer=0.05))
    best = centralised(problems, 0.5)
    apart: list[float] = []

    def watch(agents: Mapping[int, Any]) -> dict[str, float]:
        apart.append(max(float(np.linalg.norm(agent.theta - best)) for agent in agents.values()))
        return {}

    agents = {i: LTADMM(problems[i], 600, eta=0.1, beta=0.1, rho=0.3, tau=tau) for i in ring}
    Network(ring).run(agents, [watch])
    far = np.flatnonzero(np.array(apart) > level * np.linalg.norm(best))
    return int(far[-1]) + 1


# --- refused ----------------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused() -> None:
    problem = Task("two", 0).problems[0]
    for given, message in (
        ({"relaxation": 1.0}, "relaxation = 1"),
        ({"tau": 0}, "tau = 0: must be a whole number >= 1"),
        ({"coded_start": True}, "coded_start = True: must be False for LTADMM"),
        ({"coder": ErrorFeedback(TopK(2))}, "coder = ErrorFeedback: must have no memory for LTADMM"),
    ):
        with pytest.raises(BadInput, match=message):
            LTADMM(problem, 1, **STEPS, **given)
    with pytest.raises(BadInput, match="must have size and gradient, which LTADMM asks for"):
        LTADMM(type("Cost", (), {"size": 2})(), 1, **STEPS)
    with pytest.raises(BadInput, match="must have size and proximal, which RelaxedADMM asks for"):
        RelaxedADMM(type("Cost", (), {"size": 2})(), 1, rho=1.0)


def test_foreign_frames_are_named() -> None:
    class Strange(netsim.Agent):
        async def run(self) -> None:
            async for _ in self.rounds(1):
                await self.broadcast("edge", [1, 0, "none", np.zeros(3)])

    task = Task("two", 0)
    agents = {0: LTADMM(task.problems[0], 1, coder=Uniform(4), **STEPS), 1: Strange()}
    with pytest.raises(AgentError, match="its payload must be three numbers and a coded array of shape"):
        Network(task.graph).run(agents)
