"""Batched steps give the same results as agents that step one by one, to the byte."""

import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

from netsim import Link, Network, loss, topology
from netsim.agents import (
    COKE,
    CTA,
    DDKL,
    DKLA,
    DOKL,
    DPSGD,
    EXTRA,
    ODKLA,
    RFFDOKL,
    Always,
    AtRandom,
    Geometric,
    GossipOMKL,
    LocalProblem,
    Logistic,
    MultiKernelCost,
    OnlineCost,
    PowerLaw,
    RunningSums,
    SharingAgent,
    Squared,
    SquaredHinge,
    schedule,
)
from netsim.agents.consensus.shared_rounds import SharedRounds, steps
from netsim.coders import QSGD, Coder, ErrorFeedback, Exact, Float, Sign, Uniform
from netsim.engine import round_scheduler
from netsim.errors import NetsimError
from netsim.round_agent import BatchRounds
from netsim.util.typing import Array
from tests.fuzzers.networks import Rng, a_network, digest, pick
from tests.parts import every, slow

METHODS: list[type[SharingAgent]] = [CTA, DKLA, COKE, RFFDOKL, ODKLA, DOKL, DDKL, GossipOMKL, DPSGD, EXTRA]


class OwnStep(COKE):
    """A user's method that changes the local step."""

    def local_step(self) -> Array:
        return 0.5 * super().local_step()


class OwnDuals(COKE):
    """A user's method that changes the dual update."""

    def after_sharing(self) -> None:
        super().after_sharing()
        self.dual = 0.9 * self.dual


class OwnPull(ODKLA):
    """A user's method that replaces the difference in its parent's step."""

    def pull_to_difference(self) -> Array:
        return 0.5 * super().pull_to_difference()


@dataclass(eq=False, repr=False)
class PlainPenalty(ODKLA):
    """A user's method that overrides the scheduled penalty with a plain field."""

    _: KW_ONLY
    rho: float = 0.25  # type: ignore[assignment]


class AtOnce(DKLA):
    """A user's method with its own local step, for single agents and for batches."""

    def local_step(self) -> Array:
        return self.theta + 0.1 * (1.0 - self.theta) - 0.05 * self.dual

    @classmethod
    def local_steps(cls, agents: list[Any]) -> list[Array]:
        thetas, duals = np.stack([agent.theta for agent in agents]), np.stack([agent.dual for agent in agents])
        return list(thetas + 0.1 * (1.0 - thetas) - 0.05 * duals)


class OwnLearning(GossipOMKL):
    """A user's method that changes the model after learning."""

    def after_sharing(self) -> None:
        super().after_sharing()
        self.model = 0.9 * self.model


class OwnGossip(GossipOMKL):
    """A user's method that halves its parent's gossip step."""

    def pull(self) -> Array:
        return 0.5 * super().pull()


OWN: list[type[SharingAgent]] = [OwnStep, OwnDuals, OwnPull, PlainPenalty, AtOnce, OwnLearning, OwnGossip]


class Problem:
    """A random network and its agents, drawn from one seed; each agent's class is drawn from ``methods``."""

    def __init__(self, seed: int, methods: list[type[SharingAgent]], is_plain: bool) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.kernels = (3, 1, 9)[seed % 3]
        self.network = a_plain_network(rng) if is_plain else a_network(rng)
        self.graph = self.network.graph
        self.size = int(rng.choice([1, 2, 7, 33, 100]))
        self.rounds = int(rng.integers(3, 16))
        self.coder = pick(rng, Exact(), Exact(), Float(32), Float(16), Uniform(4), QSGD(3), ErrorFeedback(Sign()))
        self.censor = pick(
            rng, Always(), Always(), Geometric(1.0, 0.8), PowerLaw(0.5, 1.0), rare(rng, AtRandom(0.7), Always())
        )
        self.censor = pick(rng, self.censor, self.censor, Geometric(0.5, 0.9, squared=True))
        self.loss = rare(rng, pick(rng, Logistic(), SquaredHinge()), Squared())
        self.schedules = bool(rng.random() < 0.3)
        self.counts = bool(rng.random() < 0.2)
        self.ends = bool(rng.random() < 0.1)
        self.duals = rare(rng, RunningSums(), None)
        self.weights = topology.metropolis_weights(self.graph)
        self.agents = {name: self.agent(i, name, methods) for i, name in enumerate(self.graph)}

    def agent(self, i: int, name: Any, methods: list[type[SharingAgent]]) -> SharingAgent:
        rng = self.rng
        method = methods[rng.integers(len(methods))]
        count = int(rng.integers(0, 14)) if self.counts else self.rounds
        coder = self.coder
        settings: dict[str, Any] = {"censor": self.censor, "coder": coder}
        if issubclass(method, DKLA | ODKLA | DOKL | DDKL):
            settings["rho"] = schedule.power(0.5) if self.schedules else 0.3
            if self.duals is not None and coder.whole and not self.schedules:
                settings["duals"] = self.duals
        else:
            row = dict(zip(self.graph, self.weights[i].tolist(), strict=True))
            settings["weights"] = row
            settings["unheard"] = pick(rng, "kept", "kept", "dropped") if isinstance(self.censor, Always) else "kept"
        if issubclass(method, CTA | RFFDOKL | ODKLA | DOKL | GossipOMKL | DPSGD | EXTRA):
            settings["eta"] = schedule.power(0.7) if self.schedules else 0.2
        if issubclass(method, GossipOMKL):
            settings["gamma"] = 0.4
        return method(self.cost(method), count, **settings)

    def cost(self, method: type[SharingAgent]) -> Any:
        rng, size = self.rng, self.size
        labels = not isinstance(self.loss, Squared)
        if issubclass(method, CTA | DKLA | DPSGD | EXTRA):
            y = np.sign(rng.normal(size=9)) if labels else rng.normal(size=9)
            return LocalProblem(rng.normal(size=(9, size)), y, loss=self.loss, regularizer=0.01)
        rounds = self.rounds - 2 if self.ends and rng.random() < 0.3 else 30
        targets = (np.sign(rng.normal(size=rounds)) if labels else rng.normal(size=rounds)).tolist()
        kernels = self.kernels if issubclass(method, GossipOMKL) else 1
        samples = zip(rng.normal(size=(rounds, kernels * size)), targets, strict=True)
        if issubclass(method, GossipOMKL):
            return MultiKernelCost(samples, kernels, size, loss=self.loss, regularizer=0.01)
        return OnlineCost(samples, size, loss=self.loss, regularizer=0.01)

    def happen(self) -> None:
        """Schedule up to two changes of agents during the run."""
        rng, period = self.rng, self.network.round_period
        names = list(self.graph)
        for _ in range(rng.integers(0, 3)):
            agent: Any = self.agents[names[rng.integers(len(names))]]
            time = period * float(rng.choice([0.5, 1, 2.5, 3, 5.25, 7]))

            action = pick(rng, "restart", "scale", "change", "forget", "set")
            self.network.at(time, partial(change, agent, action))


def rare(rng: Rng, seldom: Any, usually: Any) -> Any:
    """Return ``seldom`` with probability 1/5, otherwise ``usually``."""
    return seldom if rng.random() < 0.2 else usually


def change(agent: Any, action: str) -> None:
    """Apply to an agent a change that a fault or a user's action could make."""
    if action == "restart":
        agent.restart()
    elif action == "scale":
        agent.theta = 1.5 * agent.theta
    elif action == "change":
        agent.theta += 0.25
    elif action == "forget":
        vars(agent).pop("sharing", None)
    else:
        for name in {"rho", "eta"} & set(dir(type(agent))):
            setattr(agent, name, 0.11)


def a_plain_network(rng: Rng) -> Network:
    """Return a network on which nothing prevents batched rounds."""
    graph = pick(rng, topology.ring(5), topology.complete(4), topology.star(5), topology.path(1))
    latency = float(rng.choice([0.0, 0.3, 0.9, 1.3]))
    model = pick(rng, loss.bernoulli(0.0), loss.bernoulli(0.2), loss.gilbert_elliott(0.2, burst=2))
    way: dict[str, Any] = pick(rng, {}, {}, {"duplicate": 0.5}, {"mtu": 64, "rate": 1e5}, {"reliability": "keyframe"})
    return Network(graph, Link(latency=latency, loss=model, **way), seed=int(rng.integers(1000)))


def outcome(seed: int, way: str, methods: list[type[SharingAgent]], is_plain: bool) -> tuple[Any, ...]:
    """Run a problem in one of three ways (see `check`), and return all observable results, round by round."""
    problem = Problem(seed, methods, is_plain)
    problem.happen()
    states: list[Any] = []

    def look(agents: Mapping[Any, Any]) -> dict[str, float]:
        states.append([state_of(agent) for agent in agents.values()])
        return {}

    error = ""
    with ExitStack() as stack:
        if way == "woken":
            stack.enter_context(mock.patch.object(round_scheduler, "ENABLED", False))
        if way == "one by one":
            stack.enter_context(mock.patch.object(SharedRounds, "_study"))
        try:
            run = problem.network.run(problem.agents, [look], trace=True)
        except NetsimError as caught:
            error = str(caught)
            run = caught.run  # type: ignore[attr-defined]
    events = run.trace.table().to_csv(index=False)
    return error, digest(run), events, states, [state_of(agent) for agent in problem.agents.values()]


def state_of(agent: Any) -> list[Any]:
    """Return an agent's complete state, for a comparison to the byte."""
    sharing, cost = vars(agent).get("sharing"), agent.cost
    found = [agent.theta.tobytes(), str(agent.theta.dtype), agent.rng.bit_generator.state]
    found += [getattr(agent, name).tobytes() for name in ("dual", "model") if name in vars(agent)]
    if sharing is not None:
        found += [sharing.own.tobytes(), sharing.copies.table.tobytes(), sharing.spoken]
        found += [sharing.known(name) for name in agent.neighbors]
    if isinstance(agent, GossipOMKL):
        found += [agent.kernel_weights.values.tobytes(), pickle.dumps(cost.weighted_sum)]
    cost = getattr(cost, "combined", cost)
    names = ("count", "loss_sum", "squared_error", "right", "target")
    return [*found, [pickle.dumps(vars(cost).get(name)) for name in names]]


def check(seed: int, methods: list[type[SharingAgent]], is_plain: bool) -> str:
    """Assert equal results of batched steps, steps one by one, and agents woken singly; return the run's error."""
    at_once, one_by_one, woken = (outcome(seed, way, methods, is_plain) for way in ("at once", "one by one", "woken"))
    assert at_once == woken
    assert one_by_one == woken
    return str(at_once[0])


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_all_ways_leave_the_same_behind(method: type[SharingAgent], seed: int) -> None:
    check(seed, [method], is_plain=True)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_on_any_network(method: type[SharingAgent], seed: int) -> None:
    check(seed, [method], is_plain=False)


@pytest.mark.parametrize("method", OWN, ids=lambda method: method.__name__)
@pytest.mark.parametrize("seed", [0, 1, slow(2)])
def test_a_users_method_never_gets_its_parents_steps(method: type[SharingAgent], seed: int) -> None:
    check(seed, [method], is_plain=True)


@pytest.mark.parametrize("seed", [*range(6), *map(slow, range(6, 12))])
def test_classes_may_be_mixed(seed: int) -> None:
    check(seed, [DKLA, COKE, OwnStep, OwnDuals, AtOnce] if seed % 2 else [DDKL, ODKLA, DOKL, OwnPull], is_plain=True)


def own_step(agent: Any) -> None:
    agent.local_step = lambda: np.ones(agent.theta.shape)


def own_update(agent: Any) -> None:
    agent.after_sharing = lambda: setattr(agent, "theta", 0.5 * agent.theta)


def deafness(agent: Any) -> None:
    agent.hear = lambda frames, k: None


def own_words(agent: Any) -> None:
    async def say(k: int) -> None:
        await agent.broadcast("state", np.full(agent.theta.shape, float(k)))

    agent.say = say


def another_class(agent: Any) -> None:
    agent.__class__ = type("Another", (type(agent),), {"local_step": lambda agent: -agent.theta})


@pytest.mark.parametrize("mend", [own_step, own_update, deafness, own_words, another_class])
@pytest.mark.parametrize(
    ("method", "time"),
    # Change the agent at the beginning of a round and, for every third method, in the middle.
    [*((method, 3.0) for method in METHODS), *(slow(method, 3.5) for method in METHODS[1::3])],
)
def test_an_agent_may_get_methods_of_its_own_during_a_run(
    method: type[SharingAgent], mend: Callable[[Any], None], time: float
) -> None:
    def run(is_driven: bool, is_mended: bool = True) -> str:
        problem = Problem(4, [method], is_plain=True)
        problem.censor, problem.coder, problem.loss, problem.duals = Always(), Exact(), Squared(), None
        problem.ends, problem.counts, problem.rounds = False, False, 9
        agents = {name: problem.agent(i, name, [method]) for i, name in enumerate(problem.graph)}
        network = Network(problem.graph)
        if is_mended:
            network.at(time, lambda: mend(agents[1]))
        with mock.patch.object(round_scheduler, "ENABLED", is_driven):
            return network.run(agents).trace_hash

    assert run(True) == run(False) != run(False, is_mended=False)


@every("boundary", [3.0, 5.0])
@every("method", METHODS)
def test_a_run_that_stops_as_a_round_closes_leaves_the_states_of_that_round(
    method: type[SharingAgent], boundary: float
) -> None:
    def states(is_driven: bool) -> list[Any]:
        problem = Problem(4, [method], is_plain=True)
        with mock.patch.object(round_scheduler, "ENABLED", is_driven):
            Network(problem.graph).run(problem.agents, until=boundary)
        return [state_of(agent) for agent in problem.agents.values()]

    assert states(True) == states(False)


@pytest.mark.skipif(steps is None, reason="without the compiled steps each agent steps by itself")
@pytest.mark.parametrize("coder", [Exact(), Float(32), Uniform(4)], ids=repr)
@pytest.mark.parametrize(
    "method", [DKLA, COKE, RFFDOKL, ODKLA, DOKL, DDKL, GossipOMKL], ids=lambda method: method.__name__
)
def test_the_usual_methods_speak_and_hear_at_once(method: type[SharingAgent], coder: Coder) -> None:
    said, said_each, heard_each = spy(SharedRounds, "say"), spy(BatchRounds, "say"), spy(BatchRounds, "hear")
    problem = Problem(4, [method], is_plain=True)
    problem.censor, problem.coder, problem.loss, problem.duals = Always(), coder, Squared(), None
    problem.ends, problem.counts, problem.rounds = False, False, 9
    agents = {name: problem.agent(i, name, [method]) for i, name in enumerate(problem.graph)}
    for agent in agents.values():
        vars(agent)["unheard"] = "kept"
    with said as all_rounds, said_each as said_one_by_one, heard_each as heard_one_by_one:
        Network(problem.graph).run(agents)
    # The first rounds are not batched: they factor matrices, or neighbours have not been received from yet.
    alone = 2 if method in (RFFDOKL, GossipOMKL) else 1 if method in (DKLA, COKE) else 0
    assert (len(all_rounds), len(said_one_by_one), len(heard_one_by_one)) == (9, alone, 0)


class Doubled(MultiKernelCost):
    """A user's cost that replaces the gradient."""

    def gradient(self, models: Array) -> Array:
        return 2.0 * super().gradient(models)


def streamed(kind: type[MultiKernelCost] = MultiKernelCost, scale: float = 1.0, features: int = 4) -> MultiKernelCost:
    """Return a cost of random samples with two kernels, or with one if there are 100 features or more."""
    rng, kernels = np.random.default_rng(0), 2 if features < 100 else 1
    z, y = scale * rng.normal(size=(12, kernels * features)), np.sign(rng.normal(size=12))
    return kind(zip(z, y.tolist(), strict=True), kernels, features, regularizer=0.01)


@pytest.mark.parametrize(
    ("costs", "eta"),
    [
        pytest.param([streamed, streamed, partial(streamed, Doubled)], 0.2, id="a user's cost"),
        pytest.param([partial(streamed, features=20_000)] * 3, 0.2, id="rows that numpy adds up in pieces"),
        pytest.param([partial(streamed, scale=1e160)] * 3, 1e150, id="overflow"),
    ],
)
def test_unusual_costs_of_many_kernels_do_their_own(costs: list[Callable[[], MultiKernelCost]], eta: float) -> None:
    def run(is_driven: bool) -> tuple[Any, ...]:
        weights = dict.fromkeys(range(3), 1 / 3)
        agents = {i: GossipOMKL(cost(), 9, eta=eta, gamma=0.4, weights=weights) for i, cost in enumerate(costs)}
        with (
            mock.patch.object(round_scheduler, "ENABLED", is_driven),
            np.errstate(over="warn"),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            trace_hash = Network(topology.ring(3)).run(agents).trace_hash
        told = [(str(each.message), each.filename, each.lineno) for each in caught]
        return trace_hash, told, [state_of(agent) for agent in agents.values()]

    assert run(True) == run(False)


@contextmanager
def spy(owner: type, name: str) -> Iterator[list[Any]]:
    """Collect the return values of all calls of a method."""
    returned: list[Any] = []
    method = getattr(owner, name)

    def kept(*arguments: Any) -> Any:
        returned.append(method(*arguments))
        return returned[-1]

    with mock.patch.object(owner, name, kept):
        yield returned
