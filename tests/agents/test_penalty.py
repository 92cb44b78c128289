"""The greedy projected penalty method on a network equals its recursion (tests/oracle/dictionary.py)."""

from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import AgentError, BadInput, Link, Network, Run, topology
from netsim import loss as losses
from netsim.agents.costs.losses import Hinge, Logistic, LossFunction, Squared
from netsim.agents.costs.multiclass import MulticlassHinge, MulticlassLoss, Softmax
from netsim.agents.greedy.dictionary import Dictionary
from netsim.agents.greedy.penalty import ConstantPenalty, DoublingPenalty, GreedyPenalty, Penalty
from tests.oracle.dictionary import gaussian, greedy_penalty
from tests.parts import slow

SIGMA, ETA, LAMBDA = 0.7, 1.2, 0.01
ROUNDS, BATCH = 8, 3
GRAPH = topology.erdos_renyi(5, p=0.5, seed=3)
A = nx.to_numpy_array(GRAPH)

Batch = tuple[np.ndarray, np.ndarray]


def data(label: Callable[[np.random.Generator, np.ndarray], np.ndarray]) -> list[list[Batch]]:
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-2, 2, (ROUNDS, len(A), BATCH, 2))
    return [[(x, label(rng, x)) for x in each] for each in inputs]


def signs(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.where(x[:, 0] * x[:, 1] > 0, 1.0, -1.0)


def classes(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return rng.integers(3, size=len(x))


def agents(
    batches: list[list[Batch]], loss: LossFunction | MulticlassLoss, penalty: Penalty, parsimony: float
) -> dict[int, GreedyPenalty]:
    def stream(i: int) -> Iterator[Batch]:
        return (batch[i] for batch in batches)

    return {
        i: GreedyPenalty(
            Dictionary(2, getattr(loss, "classes", None), sigma=SIGMA),
            stream(i),
            len(batches),
            loss=loss,
            eta=ETA,
            regularizer=LAMBDA,
            parsimony=parsimony,
            penalty=penalty,
        )
        for i in GRAPH
    }


def one_hot(y: np.ndarray) -> np.ndarray:
    return np.eye(3)[y]


def softmax_slope(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(f) / np.exp(f).sum(axis=1, keepdims=True) - one_hot(y)


def crammer_singer_slope(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    result = np.zeros_like(f)
    for row, scores, right in zip(result, f, y, strict=True):
        wrong = max((j for j in range(3) if j != right), key=lambda j: scores[j])
        if 1 + scores[wrong] - scores[right] > 0:
            row[wrong], row[right] = 1.0, -1.0
    return result


def hinge_slope(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y[:, None] * f < 1, -y[:, None], 0.0)


def logistic_slope(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -y[:, None] / (1 + np.exp(y[:, None] * f))


def squared_slope(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 2 * (f - y[:, None])


CASES: dict[str, tuple[Any, Any, Any]] = {
    "logistic": (Logistic(), logistic_slope, signs),
    "hinge": (Hinge(), hinge_slope, signs),
    "squared": (Squared(), squared_slope, lambda rng, x: np.sin(x[:, 0])),
    "softmax": (Softmax(3), softmax_slope, classes),
    "multiclass hinge": (MulticlassHinge(3), crammer_singer_slope, classes),
}


@pytest.mark.parametrize(
    ("case", "link"),
    [
        (case, link) if link == Link() or case == "softmax" else slow(case, link)
        for case in CASES
        for link in (Link(), Link(latency=0.4), Link(duplicate=0.3))
    ],
)
def test_on_links_that_lose_nothing_it_equals_the_recursion(case: str, link: Link) -> None:
    loss, slope, label = CASES[case]
    batches = data(label)
    # In these rounds the penalty coefficient c doubles twice and then reaches its limit.
    penalty = DoublingPenalty(0.03, 2 * BATCH, limit=0.3)
    learners = agents(batches, loss, penalty, parsimony=0.1)
    grid = np.random.default_rng(9).uniform(-2, 2, (40, 2))
    values: list[np.ndarray] = []

    def record(running: Any) -> float:
        values.append(np.stack([running[i].model(grid).reshape(40, -1) for i in GRAPH]))
        return 0.0

    Network(GRAPH, link).run(learners, [record])
    expected = greedy_penalty(
        batches,
        A,
        slope,
        lambda seen, degree: min(0.03 * 2 ** (seen // (2 * BATCH)), 0.3 / (ETA * degree)),
        values=getattr(loss, "classes", 1),
        sigma=SIGMA,
        eta=ETA,
        regularizer=LAMBDA,
        parsimony=0.1,
    )
    assert len(values) == ROUNDS
    for found, models in zip(values, expected, strict=True):
        theirs = np.stack([gaussian(grid, points, SIGMA) @ weights for points, weights in models])
        assert found == pytest.approx(theirs, abs=1e-9)
    orders = [len(learner.model) for learner in learners.values()]
    assert orders == [len(points) for points, _ in expected[-1]]
    # Without pruning the model would have one kernel element per sample.
    assert max(orders) < ROUNDS * BATCH
    assert all(learner.missing == 0 for learner in learners.values())


def test_requests_carry_raw_inputs_once_a_neighbour_and_round() -> None:
    learners = agents(data(classes), Softmax(3), ConstantPenalty(0.1), 0.1)
    run = Network(GRAPH).run(learners)
    links = int(A.sum())
    assert run.ledger.transmissions == 2 * links * ROUNDS
    assert run.ledger.raw_data_bits == links * ROUNDS * BATCH * 2 * 64
    assert run.ledger.payload_bits == links * ROUNDS * BATCH * (2 + 3) * 64


def test_what_it_measures_is_from_before_it_learned() -> None:
    batches = data(classes)
    learners = agents(batches, Softmax(3), ConstantPenalty(0.1), 0.1)
    rows: list[tuple[float, float]] = []
    before: dict[int, Dictionary] = {}

    def check(running: Any) -> float:
        if before:
            x, y = batches[len(rows)][0]
            f = before[0](x)
            apart = sum(float(np.sum((f - before[j](x)) ** 2)) for j in GRAPH[0]) / BATCH
            assert running[0].disagreement == pytest.approx(apart)
            assert running[0].risk == pytest.approx(np.mean(Softmax(3).value(f, y)))
        for i in GRAPH:
            before[i] = Dictionary(2, 3, sigma=SIGMA)
            before[i].add(running[i].model.points, running[i].model.weights)
        rows.append((0.0, 0.0))
        return 0.0

    Network(GRAPH).run(learners, [check])
    assert len(rows) == ROUNDS
    assert learners[0].samples == ROUNDS * BATCH


@pytest.mark.parametrize(("latency", "everything"), [(0.6, True), (0.49, False)])
def test_a_request_and_its_reply_take_two_latencies(latency: float, everything: bool) -> None:
    learners = agents(data(signs), Logistic(), ConstantPenalty(0.1), 0.1)
    run = Network(GRAPH, Link(latency=latency)).run(learners)
    asked = int(A.sum()) * ROUNDS
    assert sum(learner.missing for learner in learners.values()) == (asked if everything else 0)
    assert run.ledger.transmissions == 2 * asked
    alone = agents(data(signs), Logistic(), ConstantPenalty(0.0), 0.1)
    Network(GRAPH).run(alone)
    same = [np.array_equal(learners[i].model.weights, alone[i].model.weights) for i in GRAPH]
    assert all(same) if everything else not any(same)


def test_disagreement_does_not_fall_by_losing_replies() -> None:
    sums = []
    for lost in (0.0, 0.5, 1.0):
        learners = agents(data(signs), Logistic(), ConstantPenalty(0.0), 0.1)
        seen: list[float] = []

        def watch(running: Any, seen: list[float] = seen) -> float:
            seen.extend(each.disagreement for each in running.values())
            return 0.0

        Network(GRAPH, Link(loss=lost), seed=1).run(learners, [watch])
        sums.append(seen)
    assert np.isnan(sums[2]).all()
    # With c = 0 lost replies do not change the models; each agent averages the disagreement over received replies.
    heard = ~np.isnan(sums[1])
    assert 0.3 < heard.mean() < 1.0
    assert np.nanmean(sums[1]) == pytest.approx(np.mean(np.array(sums[0])[heard]), rel=0.15)


def test_inputs_must_be_finite() -> None:
    batches = iter([(np.full((BATCH, 2), np.nan), np.ones(BATCH))])
    learner = GreedyPenalty(
        Dictionary(2),
        batches,
        1,
        loss=Logistic(),
        eta=0.1,
        regularizer=0.0,
        parsimony=0.1,
        penalty=ConstantPenalty(0.0),
    )
    with pytest.raises(AgentError, match=r"inputs\[0, 0\] = nan: must be finite"):
        Network(nx.empty_graph(1)).run({0: learner})


def test_what_was_lost_is_left_out_and_counted() -> None:
    learners = agents(data(signs), Logistic(), ConstantPenalty(0.1), 0.1)
    run = Network(GRAPH, Link(loss=losses.bernoulli(0.3)), seed=1).run(learners)
    table = run.ledger.table(by="kind").set_index("kind")
    # A lost request brings no "values" reply and is not counted as missing; only lost replies are.
    assert sum(learner.missing for learner in learners.values()) == table.loc["values", "lost"]
    assert 0 < table.loc["values", "lost"] < int(A.sum()) * ROUNDS


def test_a_budget_that_refuses_every_request_leaves_everybody_alone() -> None:
    learners = agents(data(signs), Logistic(), ConstantPenalty(0.1), 0.1)
    run: Run = Network(GRAPH, Link(budget=8)).run(learners)
    assert sum(learner.missing for learner in learners.values()) == int(A.sum()) * ROUNDS
    assert run.ledger.transmissions == 0


def test_one_agent_alone_learns() -> None:
    graph: nx.Graph[int] = nx.empty_graph(1)
    batches = data(signs)
    learner = agents(batches, Hinge(), ConstantPenalty(0.1), 0.05)[0]
    Network(graph).run({0: learner})
    x, y = (np.concatenate([batch[0][part] for batch in batches]) for part in (0, 1))
    assert np.mean(np.sign(learner.model(x)) == y) > 0.9


def test_a_larger_penalty_means_less_disagreement() -> None:
    apart = []
    for c in (0.0, 0.1, 0.2):
        learners = agents(data(classes), Softmax(3), ConstantPenalty(c), 0.02)
        Network(GRAPH).run(learners)
        grid = np.random.default_rng(9).uniform(-2, 2, (100, 2))
        apart.append(float(np.var([learner.model(grid) for learner in learners.values()], axis=0).mean()))
    assert apart[0] > apart[1] > apart[2]


def test_the_penalty_doubles_up_to_its_limit() -> None:
    penalty = DoublingPenalty(0.01, 200, limit=0.5)
    assert [penalty.at(n, 3.0, 2) for n in (0, 199, 200, 400, 600)] == [0.01, 0.01, 0.02, 0.04, 0.08]
    assert penalty.at(800, 3.0, 2) == 0.5 / 6 == penalty.at(10**9, 3.0, 2)
    assert ConstantPenalty(0.3).at(10**9, 3.0, 2) == 0.3


def test_bad_arguments_are_refused_in_one_line() -> None:
    def agent(**changed: Any) -> GreedyPenalty:
        given: dict[str, Any] = {
            "loss": Logistic(),
            "eta": 1.0,
            "regularizer": 0.1,
            "parsimony": 0.1,
            "penalty": ConstantPenalty(0.1),
        } | changed
        return GreedyPenalty(Dictionary(2), iter([]), 1, **given)

    with pytest.raises(BadInput, match=r"^eta = 0: must be a number > 0$"):
        agent(eta=0)
    with pytest.raises(BadInput, match=r"^regularizer = 1.0: must be < 1/eta = 1$"):
        agent(regularizer=1.0)
    with pytest.raises(BadInput, match=r"^regularizer = 0.25: must be < 1/eta = 0.25$"):
        agent(eta=4.0, regularizer=0.25)
    agent(eta=4.0, regularizer=0.24)
    with pytest.raises(BadInput, match=r"^parsimony = -1: must be a number >= 0$"):
        agent(parsimony=-1)
    with pytest.raises(BadInput, match=r"^loss = 'logistic': must be one for a model whose weights have shape \(0,\)$"):
        agent(loss=Softmax(3))
    for wrong in ({"start": -1.0, "every": 1}, {"start": 1.0, "every": 0}, {"start": 1.0, "every": 1, "limit": 1.5}):
        with pytest.raises(BadInput):
            DoublingPenalty(**wrong)
    with pytest.raises(BadInput, match=r"^c = nan"):
        ConstantPenalty(float("nan"))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "batches: must be one for each round; the stream ended after 0 samples"),
        ([(np.ones((3, 1)), np.ones(3))], r"batches: must be inputs of shape \(B, 2\)"),
        ([(np.ones((3, 2)), np.ones(2))], r"batches: must be inputs of shape \(B, 2\)"),
        ([(np.ones((3, 2)), np.zeros(3))], r"targets\[0\] = 0.0: must be -1 or 1"),
    ],
)
def test_bad_batches_are_refused_in_one_line(batches: list[Any], message: str) -> None:
    graph: nx.Graph[int] = nx.empty_graph(1)
    agent = GreedyPenalty(
        Dictionary(2),
        iter(batches),
        1,
        loss=Logistic(),
        eta=1,
        regularizer=0,
        parsimony=0.1,
        penalty=ConstantPenalty(0),
    )
    with pytest.raises(AgentError, match=message):
        Network(graph).run({0: agent})


def test_a_step_that_is_too_long_is_said_so() -> None:
    batches = data(CASES["squared"][2])
    learners = agents([batch for batch in batches for _ in range(40)], Squared(), ConstantPenalty(60.0), 0.1)
    with pytest.raises(AgentError, match=r"the model grew beyond all bounds after \d+ samples: take a smaller eta"):
        Network(GRAPH).run(learners)
