"""FedAvg and SCAFFOLD on a star, and AD-PSGD, equal their recursions, with and without lost frames."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from netsim import AgentError, BadInput, Link, Network, topology
from netsim.agents import ADPSGD, SCAFFOLD, FedAvg, Geometric, LocalProblem, Squared, centralised
from netsim.coders import Float, Uniform
from netsim.util import draws
from netsim.util.typing import Array
from tests.agents.test_batch import FEATURES, LAMBDA
from tests.oracle import federated

AGENTS, ROUNDS, ETA, TAU = 8, 60, 0.05, 4
SHARE = LAMBDA / AGENTS


def problems_of(seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    scale = 0.3 + rng.random(FEATURES)
    data = [(rng.normal(size=(30, FEATURES)) * scale, rng.normal(size=30)) for _ in range(AGENTS)]
    return [LocalProblem(x, y, loss=Squared(), regularizer=SHARE) for x, y in data]


PROBLEMS = problems_of()
BEST = centralised(PROBLEMS, LAMBDA)
HESSIANS = [2 * p.features.T @ p.features / 30 + 2 * SHARE * np.eye(FEATURES) for p in PROBLEMS]
LINEAR = [2 * p.features.T @ p.targets / 30 for p in PROBLEMS]


def gradient(x: Array, i: int) -> Array:
    return HESSIANS[i] @ x - LINEAR[i]


def play(
    kind: Any, link: Link | None = None, rounds: int = ROUNDS, seed: int = 3, **given: Any
) -> tuple[Any, Any, Any]:
    """Return the server's models, Σ c_i − N c after each round, and the run."""
    models: list[Array] = []
    apart: list[Array] = []

    def watch(agents: Mapping[int, Any]) -> dict[str, float]:
        models.append(agents[0].theta)
        parts = [agent.imbalance().get("dual_residual", 0.0) for agent in agents.values()]
        apart.append(np.sum(parts, axis=0))
        return {}

    settings = {"eta": ETA, "tau": TAU} | given
    agents = {i: kind(PROBLEMS[i], rounds, **settings) for i in range(AGENTS)}
    run = Network(topology.star(AGENTS), link, seed=seed).run(agents, [watch], trace=True)
    return np.array(models), np.array(apart), run


def drawn_by(seed: int, rounds: int, size: int) -> list[list[int]]:
    """Return the clients drawn in each round, from the server's keyed stream."""
    rng = draws.generator(seed, 0, "agent")
    return [sorted(rng.choice(AGENTS, size, replace=False).tolist()) for _ in range(rounds)]


def who_heard(run: Any, drawn: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each round, from the trace, the clients that received the model, and those whose answers arrived."""
    events = run.trace.table()
    got = events[events["event"] == "delivered"]
    down = {(int(row.time_s), row.receiver) for row in got.itertuples() if row.sender == 0}
    up = {(int(row.time_s), row.sender) for row in got.itertuples() if row.receiver == 0}
    heard = [[i for i in clients if i == 0 or (k, i) in down] for k, clients in enumerate(drawn)]
    answered = [[i for i in clients if i == 0 or (k, i) in up] for k, clients in enumerate(drawn)]
    return heard, answered


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize(("share", "size"), [(0.5, 4), (1.0, 8), (0.01, 1)])
def test_fedavg_equals_its_recursion(loss: float, share: float, size: int) -> None:
    models, _, run = play(FedAvg, Link(loss=loss), share=share)
    _, answered = who_heard(run, drawn_by(3, ROUNDS, size))
    expected = federated.fedavg(gradient, answered, FEATURES, ETA, TAU)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("states", [False, True])
def test_scaffold_equals_its_recursion(loss: float, states: bool) -> None:
    models, apart, run = play(SCAFFOLD, Link(loss=loss), resends_state=states)
    heard, answered = who_heard(run, drawn_by(3, ROUNDS, 4))
    expected = federated.scaffold(gradient, AGENTS, FEATURES, ETA, TAU, heard, answered, states=states)
    np.testing.assert_allclose(models, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(apart, expected[1], rtol=0, atol=1e-9)


def test_who_is_drawn_depends_on_the_seed_alone() -> None:
    def receivers(run: Any) -> list[tuple[int, int]]:
        events = run.trace.table()
        sent = events[(events["sender"] == 0) & (events["event"] != "sent")]
        return sorted((int(row.time_s), row.receiver) for row in sent.itertuples())

    runs = [receivers(play(kind, Link(loss=loss))[2]) for kind in (FedAvg, SCAFFOLD) for loss in (0.0, 0.4)]
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert runs[0] != receivers(play(FedAvg, seed=4)[2])


def test_frames_are_those_of_the_drawn() -> None:
    _, _, run = play(SCAFFOLD)
    messages = sum(len([i for i in clients if i]) for clients in drawn_by(3, ROUNDS, 4))
    assert run.ledger.transmissions == 2 * messages
    assert run.ledger.payload_bits == 2 * messages * 2 * FEATURES * 64
    _, _, half = play(SCAFFOLD, coder=Float(32))
    assert half.ledger.payload_bits == messages * 2 * FEATURES * 64


def test_scaffold_finds_the_optimum_and_fedavg_a_place_beside_it() -> None:
    ends = {kind: play(kind, rounds=600)[0][-1] for kind in (FedAvg, SCAFFOLD)}
    assert np.abs(ends[SCAFFOLD] - BEST).max() < 1e-8
    assert np.abs(ends[FedAvg] - BEST).max() > 1e-3


def test_lost_answers_bias_scaffold_unless_states_are_sent_again() -> None:
    biased, apart, _ = play(SCAFFOLD, Link(loss=0.1), 500)
    exact, _, _ = play(SCAFFOLD, Link(loss=0.1), 500, resends_state=True)
    assert np.abs(biased[-1] - BEST).max() > 1e-4
    assert np.abs(apart[-1]).max() > 1e-4
    assert np.abs(exact[-1] - BEST).max() < 1e-8


def test_wrong_arguments_are_refused() -> None:
    for given, message in (
        ({"share": 0.0}, "share = 0"),
        ({"share": 1.5}, "share = 1.5: must be > 0 and <= 1"),
        ({"tau": 0}, "tau = 0"),
        ({"coder": Uniform(3)}, "coder = Uniform: must code states"),
        ({"censor": Geometric(1.0, 0.9)}, "censor = Geometric: must be left out with FedAvg"),
    ):
        with pytest.raises(BadInput, match=message):
            FedAvg(PROBLEMS[0], 1, eta=0.1, **given)  # type: ignore[arg-type]
    ring = topology.ring(AGENTS)
    with pytest.raises(AgentError, match="must be a star around server = 0 for SCAFFOLD"):
        Network(ring).run({i: SCAFFOLD(PROBLEMS[i], 1, eta=0.1) for i in ring})


class Fails:
    """A cost whose gradient raises."""

    size = FEATURES

    def gradient(self, theta: Array) -> Array:
        raise ValueError("no gradient")


@pytest.mark.parametrize("kind", [FedAvg, SCAFFOLD, ADPSGD])
def test_an_error_of_a_cost_ends_the_run(kind: Any) -> None:
    star = topology.star(3)
    with pytest.raises(AgentError, match=r"agent 2 raised ValueError .*no gradient"):
        Network(star).run({i: kind(Fails() if i == 2 else PROBLEMS[i], 20, eta=0.1) for i in star})


# --- AD-PSGD ----------------------------------------------------------------------------------------------------------

GRAPH = topology.erdos_renyi(AGENTS, p=0.4, seed=1)


def follow(link: Link | None = None, rounds: int = ROUNDS, **given: Any) -> tuple[Array, Any]:
    """Return the models at the end of each round, shape (rounds, N, D), and the run."""
    models: list[Array] = []

    def watch(agents: Mapping[int, Any]) -> dict[str, float]:
        models.append(np.stack([agent.theta for agent in agents.values()]))
        return {}

    agents = {i: ADPSGD(PROBLEMS[i], rounds, **({"eta": ETA} | given)) for i in GRAPH}
    run = Network(GRAPH, link, seed=5).run(agents, [watch])
    return np.array(models), run


@pytest.mark.parametrize(("seconds", "spread"), [(0.7, 0.5), (2.3, 1.0), (0.31, 0.05)])
def test_ad_psgd_equals_its_recursion(seconds: float, spread: float) -> None:
    models, run = follow(seconds=seconds, spread=spread)
    streams = [draws.generator(5, i, "agent") for i in GRAPH]
    neighbors = [list(GRAPH[i]) for i in GRAPH]
    expected = federated.ad_psgd(gradient, neighbors, streams, FEATURES, ETA, (seconds, spread), ROUNDS)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)
    assert len(run.rounds) == ROUNDS


def test_a_gradient_takes_its_time() -> None:
    _, run = follow(rounds=200, seconds=0.5, spread=0.8)
    steps = [agent.steps for agent in run.agents.values()]
    # The standard deviation of the number of steps is about 3 % of its mean.
    assert np.mean(steps) == pytest.approx(400, rel=0.05)
    agents = {i: ADPSGD(PROBLEMS[i], 100, eta=ETA, seconds=3.0 if i == 0 else 1.0, spread=0.0) for i in GRAPH}
    Network(GRAPH).run(agents)
    assert agents[0].steps in (33, 34)
    assert all(agents[i].steps in (99, 100) for i in GRAPH if i)


def test_slow_links_and_lost_frames_cost_ad_psgd_little() -> None:
    ideal, _ = follow(rounds=250)
    far = np.linalg.norm(ideal[-1] - BEST, axis=1).mean()
    assert 1e-3 < far < 0.5
    for link in (Link(latency=0.4), Link(loss=0.1), Link(latency=0.4, loss=0.3)):
        models, run = follow(link, rounds=250, patience=1.0)
        assert np.linalg.norm(models[-1] - BEST, axis=1).mean() < 2 * far
        # Frames may arrive after the end of their round, but none counts as late.
        assert run.ledger.table([])["late"].item() == 0


def test_without_steps_the_sum_of_the_models_is_kept() -> None:
    start = np.random.default_rng(0).normal(size=(AGENTS, FEATURES))
    agents = {i: ADPSGD(PROBLEMS[i], 400, eta=1e-300) for i in GRAPH}
    for i, agent in agents.items():
        agent.theta = start[i]
    # Other agents average with an agent while it waits for its answer.
    Network(GRAPH, Link(latency=0.2), seed=1).run(agents)
    ends = np.stack([agent.theta for agent in agents.values()])
    np.testing.assert_allclose(ends, np.tile(start.mean(axis=0), (AGENTS, 1)), atol=1e-9)


def test_wrong_arguments_of_ad_psgd_are_refused() -> None:
    for given, message in (
        ({"eta": 0.0}, "eta = 0"),
        ({"eta": 0.1, "seconds": 0.0}, "seconds = 0"),
        ({"eta": 0.1, "spread": -1.0}, "spread = -1"),
        ({"eta": 0.1, "patience": 0.0}, "patience = 0"),
    ):
        with pytest.raises(BadInput, match=message):
            ADPSGD(PROBLEMS[0], 1, **given)
    directed = topology.directed_ring(3)
    with pytest.raises(BadInput, match="ADPSGD needs links in both directions"):
        Network(directed).run({i: ADPSGD(PROBLEMS[i], 1, eta=0.1) for i in directed})
