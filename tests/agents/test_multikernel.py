"""Online multi-kernel learning equals its recursion on ideal links, and keeps its invariants on lossy links."""

import math
import warnings
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from netsim import AgentError, BadInput, Link, Network, Run, topology
from netsim.agents.consensus.censor import Always, AtRandom, Censor, Geometric, Periodic, PowerLaw
from netsim.agents.consensus.multikernel import CompleteOMKL, GossipOMKL, KernelWeights
from netsim.agents.costs.kernels import MultiKernelCost
from netsim.agents.costs.losses import Squared
from netsim.agents.maps.features import RandomFourier
from netsim.agents.maps.side_by_side import SideBySide
from netsim.coders import QSGD, Coder, Exact, Float, Uniform
from netsim.core.records import LOST
from netsim.links.loss import gilbert_elliott
from netsim.util.typing import Array
from tests.oracle import batch, lossy, multikernel

ROUNDS, INPUTS, FREQUENCIES, LAMBDA, ETA, GAMMA = 30, 2, 5, 1e-2, 0.3, 0.4
GRAPHS = {
    "random": lambda: topology.erdos_renyi(6, p=0.5, seed=1),
    "path": lambda: topology.path(5),
    "complete": lambda: topology.complete(5),
    "one": lambda: topology.path(1),
}


class Task:
    """Streams of two classes on a graph, and their stacked form for the oracle."""

    def __init__(self, graph: str, kernels: int, seed: int = 0) -> None:
        self.graph = GRAPHS[graph]()
        self.agents, self.kernels = len(self.graph), kernels
        rng = np.random.default_rng(seed)
        inputs = rng.standard_normal((ROUNDS, self.agents, INPUTS))
        sigmas = (1.0, 0.5, 4.0)[:kernels]
        maps = [
            RandomFourier(INPUTS, FREQUENCIES, sigma=sigma, form="cos+sin", seed=p) for p, sigma in enumerate(sigmas)
        ]
        self.size = maps[0].size
        self.flat = np.stack([SideBySide(maps)(each) for each in inputs])
        self.features = np.stack([np.stack([each(x) for each in maps], axis=1) for x in inputs])
        self.targets = np.where(inputs[:, :, 0] * inputs[:, :, 1] > 0.0, 1.0, -1.0)
        self.weights = topology.metropolis_weights(self.graph)

    def cost(self, i: int) -> MultiKernelCost:
        samples = zip(self.flat[:, i], self.targets[:, i].tolist(), strict=True)
        return MultiKernelCost(samples, self.kernels, self.size, regularizer=LAMBDA)

    def gossip(self, i: int, coder: Coder = Exact(), censor: Censor = Always()) -> GossipOMKL:
        row = dict(enumerate(self.weights[i]))
        return GossipOMKL(self.cost(i), ROUNDS, eta=ETA, gamma=GAMMA, weights=row, coder=coder, censor=censor)

    def complete(self, i: int, coder: Coder = Exact(), censor: Censor = Always()) -> CompleteOMKL:
        assert censor == Always()
        return CompleteOMKL(self.cost(i), ROUNDS, agents=self.agents, eta=ETA, coder=coder)

    def run(self, method: str, coder: Coder = Exact(), link: Link | None = None, censor: Censor = Always()) -> Run:
        """Run all agents, and store each round's values in `models`, `thetas`, `kernel_weights` and `losses`."""
        kept: dict[str, list[Any]] = {"models": [], "thetas": [], "kernel_weights": [], "combined": [], "weighted": []}

        def watch(agents: Mapping[int, Any]) -> dict[str, float]:
            every = agents.values()
            kept["models"].append([agent.model for agent in every])
            kept["thetas"].append([getattr(agent, "theta", agent.model) for agent in every])
            kept["kernel_weights"].append([agent.kernel_weights.values for agent in every])
            kept["combined"].append([agent.cost.combined.loss_sum for agent in every])
            kept["weighted"].append([agent.cost.weighted_sum for agent in every])
            if link is None and method == "gossip":
                for name, agent in agents.items():
                    for neighbor in self.graph[name]:
                        np.testing.assert_array_equal(agents[neighbor].sharing.copies[name], agent.sharing.own)
            return {}

        make = self.gossip if method == "gossip" else self.complete
        network = Network(self.graph, link, medium="radio", seed=3)
        run = network.run({i: make(i, coder, censor) for i in self.graph}, [watch], trace=True)
        self.models, self.thetas = np.array(kept["models"]), np.array(kept["thetas"])
        self.kernel_weights = np.array(kept["kernel_weights"])
        self.combined = np.diff(np.array(kept["combined"]), axis=0, prepend=0.0)
        self.weighted = np.diff(np.array(kept["weighted"]), axis=0, prepend=0.0)
        return run

    def check(self, expected: multikernel.Result) -> None:
        """Compare the values stored by `run` with the oracle's, at every round."""
        assert len(self.models) == ROUNDS
        np.testing.assert_allclose(self.models, expected.models, rtol=0, atol=1e-9)
        np.testing.assert_allclose(self.kernel_weights, expected.weights, rtol=0, atol=1e-9)
        np.testing.assert_allclose(self.combined, expected.combined, rtol=0, atol=1e-9)
        before = np.concatenate([np.full((1, self.agents, self.kernels), 1 / self.kernels), expected.weights[:-1]])
        np.testing.assert_allclose(self.weighted, (before * expected.kernels).sum(axis=2), rtol=0, atol=1e-9)


everywhere = pytest.mark.parametrize("graph", GRAPHS)
kernel_counts = pytest.mark.parametrize("kernels", [1, 3])


# --- the recursions ---------------------------------------------------------------------------------------------------


@everywhere
@kernel_counts
@pytest.mark.parametrize("bits", [None, 4])
def test_gossip_equals_its_recursion(graph: str, kernels: int, bits: int | None) -> None:
    task = Task(graph, kernels)
    task.run("gossip", Exact() if bits is None else Uniform(bits, by_row=True))
    quantize = None if bits is None else batch.uniform_quantizer(bits)
    task.check(multikernel.gossip(task.features, task.targets, task.weights, LAMBDA, ETA, GAMMA, quantize))


@everywhere
@kernel_counts
@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("censor", [Geometric(4.0, 0.9), PowerLaw(3.0, 0.6)], ids=["geometric", "power"])
def test_censored_gossip_equals_its_recursion(
    graph: str, kernels: int, bits: int | None, censor: Geometric | PowerLaw
) -> None:
    task = Task(graph, kernels)
    run = task.run("gossip", Exact() if bits is None else Uniform(bits, by_row=True), censor=censor)
    quantize = None if bits is None else batch.uniform_quantizer(bits)
    k = np.arange(1.0, ROUNDS + 1)
    thresholds = censor.v * (censor.mu**k if isinstance(censor, Geometric) else k**-censor.mu)
    task.check(multikernel.gossip(task.features, task.targets, task.weights, LAMBDA, ETA, GAMMA, quantize, thresholds))
    assert 0 < run.ledger.transmissions < 0.8 * ROUNDS * task.agents or graph == "one"


@pytest.mark.parametrize("graph", ["complete", "one"])
@kernel_counts
@pytest.mark.parametrize("bits", [None, 4])
def test_complete_equals_its_recursion(graph: str, kernels: int, bits: int | None) -> None:
    task = Task(graph, kernels)
    task.run("complete", Exact() if bits is None else Uniform(bits, by_row=True))
    quantize = None if bits is None else batch.uniform_quantizer(bits)
    task.check(multikernel.complete(task.features, task.targets, LAMBDA, ETA, quantize))


def test_two_rounds_by_hand() -> None:
    # The paper's equations, evaluated for one agent and kernel at a time, check the vectorised oracle.
    task = Task("path", 3)
    expected = multikernel.gossip(task.features, task.targets, task.weights, LAMBDA, ETA, GAMMA)
    for i in task.graph:
        z, y = task.features[:, i], task.targets[:, i]
        # Round 1: θ' = h = 0, so every kernel predicts 0 and the loss is ln 2; the step is −η(−y/2)z.
        first = [ETA * y[0] / 2 * z[0, p] for p in range(3)]
        np.testing.assert_allclose(expected.models[0, i], first, rtol=0, atol=1e-15)
        np.testing.assert_allclose(expected.kernels[0, i], math.log(2.0))
        # Round 2: h is still 0, so θ = θ'.
        lost = [
            math.log(1 + math.exp(-y[1] * float(first[p] @ z[1, p]))) + LAMBDA * float(first[p] @ first[p])
            for p in range(3)
        ]
        np.testing.assert_allclose(expected.kernels[1, i], lost)
        w = np.exp(-ETA * np.array(lost))
        np.testing.assert_allclose(expected.weights[1, i], w / w.sum())
        mix = sum(float(first[p] @ z[1, p]) for p in range(3)) / 3
        size = sum(float(first[p] @ first[p]) for p in range(3)) / 9
        assert expected.combined[1, i] == pytest.approx(math.log(1 + math.exp(-y[1] * mix)) + LAMBDA * size)
    # Gossip begins in round 3: θ = θ'_2 + γ Σ_n w_in (h_n − h_i), where h = θ'_1, the model of round 2.
    i, near = 1, (0, 2)
    hidden, learned = expected.models[0], expected.models[1]
    pull = sum(task.weights[i, n] * (hidden[n] - hidden[i]) for n in near)
    theta = learned[i] + GAMMA * pull
    y = task.targets[2, i]
    for p in range(3):
        z = task.features[2, i, p]
        gradient = -y / (1 + math.exp(y * float(theta[p] @ z))) * z + 2 * LAMBDA * theta[p]
        np.testing.assert_allclose(expected.models[2, i, p], theta[p] - ETA * gradient, rtol=0, atol=1e-15)


# --- quantized --------------------------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("bits", [1, 3, 16])
def test_the_gossip_step_keeps_the_average(graph: str, bits: int) -> None:
    # `run` also checks in each round that hidden states agree bit for bit at both ends of a link.
    task = Task(graph, 3)
    task.run("gossip", QSGD(bits, by_row=True))
    before = np.concatenate([np.zeros((1, *task.models[0].shape)), task.models[:-1]])
    # One bit is too coarse for this gossip step: the models grow, so the tolerance grows with them.
    rounding = 1e-14 * max(1.0, float(np.abs(task.thetas).max()))
    np.testing.assert_allclose(task.thetas.mean(axis=1), before.mean(axis=1), rtol=0, atol=rounding)
    if len(task.graph) > 1:
        assert np.abs(task.thetas - before).max() > 1e-3, "the gossip must move the models"


def test_agents_on_a_complete_graph_have_all_in_common() -> None:
    task = Task("complete", 3)
    task.run("complete", QSGD(3, by_row=True))
    for kept in (task.models, task.kernel_weights):
        assert (kept == kept[:, :1]).all()


def test_more_bits_come_nearer_to_none() -> None:
    task = Task("path", 3)
    exact = multikernel.gossip(task.features, task.targets, task.weights, LAMBDA, ETA, GAMMA)
    errors = []
    for bits in (2, 5, 9, 14):
        task.run("gossip", QSGD(bits, by_row=True))
        errors.append(float(np.abs(task.models - exact.models).max()))
    assert all(after < before / 3 for before, after in pairwise(errors)), errors
    assert errors[-1] < 1e-3


@pytest.mark.parametrize(("kernels", "bits"), [(1, 3), (3, 3), (3, 16)])
def test_bits_are_counted_exactly(kernels: int, bits: int) -> None:
    task = Task("complete", kernels)
    coded = kernels * (task.size * (bits + 1) + 32)
    for method, payload in (("gossip", coded), ("complete", coded + 32 * kernels)):
        ledger = task.run(method, QSGD(bits, by_row=True)).ledger
        assert ledger.transmissions == ROUNDS * task.agents
        assert ledger.link_messages == ROUNDS * task.agents * (task.agents - 1)
        assert ledger.payload_bits == ROUNDS * task.agents * payload
        assert ledger.raw_data_bits == 0
    assert task.run("gossip").ledger.payload_bits == ROUNDS * task.agents * 64 * kernels * task.size


# --- what is lost -----------------------------------------------------------------------------------------------------


def test_the_combination_never_costs_more_than_its_kernels() -> None:
    task = Task("random", 3)
    task.run("gossip", QSGD(3, by_row=True))
    assert (task.combined <= task.weighted + 1e-15).all()
    assert (task.combined < task.weighted).any()


def test_the_better_kernel_wins_and_the_loss_falls() -> None:
    task = Task("path", 3)
    task.run("gossip", QSGD(3, by_row=True))
    costs = multikernel.gossip(task.features, task.targets, task.weights, LAMBDA, ETA, GAMMA).kernels
    best = int(costs.sum(axis=(0, 1)).argmin())
    assert (task.kernel_weights[-1].argmax(axis=1) == best).all()
    assert task.combined[-15:].mean() < 0.95 * task.combined[:15].mean()


def test_weights_of_bad_kernels_do_not_underflow() -> None:
    weights = KernelWeights(3)
    for _ in range(10):
        weights.learn(np.array([1e3, 1e3 + 0.1, 2e3]), 1.0)
    np.testing.assert_allclose(weights.values, [1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0.0], rtol=1e-9)


def test_another_loss() -> None:
    task = Task("path", 3)
    samples = [zip(task.flat[:, i], task.targets[:, i].tolist(), strict=True) for i in task.graph]
    agents = {
        i: GossipOMKL(
            MultiKernelCost(samples[i], 3, task.size, loss=Squared(), regularizer=LAMBDA),
            1,
            eta=ETA,
            gamma=GAMMA,
            weights=dict(enumerate(task.weights[i])),
        )
        for i in task.graph
    }
    Network(task.graph, seed=1).run(agents)
    for i, agent in agents.items():
        np.testing.assert_allclose(agent.model, 2 * ETA * task.targets[0, i] * task.features[0, i])


# --- links that are not ideal -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gossip", "complete"])
@pytest.mark.parametrize("coder", [Exact(), Float(32), QSGD(3, by_row=True)], ids=["none", "float32", "qsgd"])
def test_learns_over_links_that_lose_and_delay(method: str, coder: Coder) -> None:
    task = Task("complete", 3)
    run = task.run(method, coder, Link(loss=0.3, latency=0.2, duplicate=0.1))
    assert 0.2 < run.ledger.exits[LOST] / run.ledger.link_messages < 0.4
    # The loss is slightly higher than on ideal links: a lost coded change stays missing from a neighbour's copy.
    assert task.combined[-15:].mean() < math.log(2.0) - 0.02
    again = Task("complete", 3)
    assert again.run(method, coder, Link(loss=0.3, latency=0.2, duplicate=0.1)).trace_hash == run.trace_hash


def test_a_neighbour_that_was_never_heard_does_not_pull() -> None:
    task = Task("path", 3)
    task.run("gossip", Exact(), Link(loss=1.0))
    alone = Task("path", 3)
    alone.weights = np.eye(task.agents)
    np.testing.assert_allclose(
        task.models,
        multikernel.gossip(task.features, task.targets, alone.weights, LAMBDA, ETA, GAMMA).models,
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize(
    ("censor", "believed"),
    [
        (Geometric(2.0, 0.97), True),
        (PowerLaw(1.0, 0.3), True),
        (Geometric(0.0, 0.97), False),
        (Periodic(5), False),
        (AtRandom(1.0), False),
    ],
    ids=repr,
)
def test_who_was_never_heard_is_believed_silent_where_a_censor_may_have_silenced_it(
    censor: Geometric | PowerLaw | Periodic | AtRandom, believed: bool
) -> None:
    """No frame arrives. An agent assumes censoring only if its neighbours' censor has a positive threshold."""
    task = Task("path", 3)
    task.run("gossip", Exact(), Link(loss=1.0), censor)
    k = np.arange(1.0, ROUNDS + 1)
    thresholds = np.zeros(ROUNDS)
    if isinstance(censor, Geometric):
        thresholds = censor.v * censor.mu**k
    elif isinstance(censor, PowerLaw):
        thresholds = censor.v * k**-censor.mu
    for i in task.graph:
        # Neighbours believed silent count as h = 0 with their weights; otherwise the agent gives itself weight 1.
        own = np.array([[task.weights[i, i] if believed else 1.0]])
        features, targets = task.features[:, [i]], task.targets[:, [i]]
        expected = multikernel.gossip(features, targets, own, LAMBDA, ETA, GAMMA, None, thresholds)
        np.testing.assert_allclose(task.models[:, i], expected.models[:, 0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "link",
    [Link(loss=0.2), Link(loss=gilbert_elliott(mean=0.2, burst=4)), Link(loss=0.1, duplicate=0.3)],
    ids=["independent", "bursts", "twice"],
)
@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("censor", [None, Geometric(4.0, 0.9)], ids=["uncensored", "censored"])
def test_lossy_gossip_follows_from_which_frames_arrived(link: Link, bits: int | None, censor: Geometric | None) -> None:
    task = Task("random", 3)
    run = task.run("gossip", Exact() if bits is None else Uniform(bits, by_row=True), link, censor or Always())
    row = batch.uniform_quantizer(bits or 1)
    coding = lossy.Coding(
        None if censor is None else censor.v * censor.mu ** np.arange(1.0, ROUNDS + 1),
        None if bits is None else lambda change: np.stack([row(each) for each in change]),
    )

    def gradient(t: int, i: int, theta: Array) -> Array:
        z, y = task.features[t, i], task.targets[t, i]
        slopes = -y / (1.0 + np.exp(y * (theta * z).sum(axis=1)))
        return slopes[:, None] * z + 2.0 * LAMBDA * theta

    arrived = lossy.arrivals(run, ROUNDS)
    expected = lossy.gossip(gradient, task.weights, (3, task.size), GAMMA, ETA, arrived, coding)
    np.testing.assert_allclose(task.models, expected, rtol=0, atol=1e-11)
    every = lossy.gossip(gradient, task.weights, (3, task.size), GAMMA, ETA, np.ones_like(arrived), coding)
    assert np.abs(every - expected).max() > 1e-3


def test_complete_averages_over_what_came() -> None:
    # If all frames are lost, each agent's models equal those of an agent alone; its kernel weights use its own losses
    # times the number of agents.
    task = Task("complete", 3)
    task.run("complete", Exact(), Link(loss=1.0))
    for i in task.graph:
        own = multikernel.complete(task.features[:, [i]], task.targets[:, [i]], LAMBDA, ETA)
        np.testing.assert_allclose(task.models[:, i], own.models[:, 0], rtol=0, atol=1e-9)
    costs = multikernel.complete(task.features[:, [0]], task.targets[:, [0]], LAMBDA, ETA).kernels[:, 0].sum(axis=0)
    logarithms = np.log(task.kernel_weights[-1, 0])
    expected = -ETA * task.agents * costs
    np.testing.assert_allclose(logarithms - logarithms[0], expected - expected[0], atol=1e-5)


def test_one_agent_sends_nothing_and_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in ("gossip", "complete"):
            assert Task("one", 3).run(method, QSGD(3, by_row=True)).ledger.link_messages == 0


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"eta": 0.0}, "eta = 0.0: must be"),
        ({"gamma": -1.0}, "gamma = -1.0: must be"),
        ({"count": -1}, "count = -1: must be"),
        ({"kernels": 0}, "kernels = 0: must be"),
        ({"features": 0}, "features = 0: must be"),
        ({"regularizer": -1.0}, "regularizer = -1.0: must be"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], says: str) -> None:
    given = {"kernels": 2, "features": 4, "regularizer": 0.1, "count": 3, "eta": 0.1, "gamma": 0.1} | parameters

    def make() -> GossipOMKL:
        cost = MultiKernelCost(iter([]), given["kernels"], given["features"], regularizer=given["regularizer"])
        return GossipOMKL(cost, given["count"], eta=given["eta"], gamma=given["gamma"], weights={})

    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value).startswith(says)


def test_complete_omkl_needs_a_complete_graph() -> None:
    task = Task("path", 3)
    with pytest.raises(AgentError, match=r"has 1 neighbours: must be 4, all others") as caught:
        task.run("complete")
    assert isinstance(caught.value.__cause__, BadInput)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="agents = 0"):
        CompleteOMKL(task.cost(0), 3, agents=0, eta=0.1)


def test_maps_side_by_side_must_fit() -> None:
    first = RandomFourier(2, 3, seed=0)
    for maps, says in (
        ([], "maps = []: must be at least one"),
        ([first, RandomFourier(3, 3)], "maps[1].inputs = 3: must be 2"),
        ([first, first, RandomFourier(2, 4)], "maps[2].size = 4: must be 3"),
    ):
        with pytest.raises(BadInput) as caught:
            SideBySide(maps)
        assert str(caught.value).startswith(says)


def test_the_stream_must_be_long_enough() -> None:
    task = Task("path", 1)
    cost = MultiKernelCost(iter([(task.flat[0, 0], 1.0)]), 1, task.size, regularizer=0.0)
    models, weights = np.zeros((1, task.size)), np.ones(1)
    cost.draw(models, weights)
    with pytest.raises(BadInput, match="the stream ended after 1"):
        cost.draw(models, weights)
