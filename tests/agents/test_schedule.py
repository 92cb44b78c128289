"""Step sizes and penalties that change with the round."""

import dataclasses
import math
import pickle

import numpy as np
import pytest

from netsim import AgentError, BadInput, Network, topology
from netsim.agents import COKE, CTA, DKLA, ODKLA, LocalProblem, OnlineCost, Scheduled, Squared, schedule
from tests.agents.test_batch import LAMBDA, RHO, Task
from tests.oracle import batch


@pytest.mark.parametrize(
    ("made", "values"),
    [
        (schedule.geometric(8.0, 0.5), [8.0, 4.0, 2.0, 1.0]),
        (schedule.power(2.0), [2.0, 2 / math.sqrt(2), 2 / math.sqrt(3), 1.0]),
        (schedule.power(6.0, 1), [6.0, 3.0, 2.0, 1.5]),
        (schedule.growing(2.0), [2.0, 2 * math.sqrt(2), 2 * math.sqrt(3), 4.0]),
        (schedule.growing(6.0, 1), [6.0, 12.0, 18.0, 24.0]),
        (schedule.doubling(1.0, 2), [1.0, 1.0, 2.0, 2.0]),
        (schedule.doubling(1.0, 1, limit=3.0), [1.0, 2.0, 3.0, 3.0]),
        (schedule.piecewise({1: 5.0, 3: 0.1}), [5.0, 5.0, 0.1, 0.1]),
    ],
)
def test_values(made: schedule.Schedule, values: list[float]) -> None:
    assert [made(k) for k in (1, 2, 3, 4)] == pytest.approx(values, rel=1e-15)
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (schedule.geometric(8.0, 0.5), "8·0.5^(k-1)"),
        (schedule.power(2.0), "2·k^(-0.5)"),
        (schedule.power(2.0, 0.0), "2·k^(0)"),
        (schedule.growing(2.0), "2·k^(0.5)"),
        (schedule.doubling(1.0, 2), "1·2^floor((k-1)/2)"),
        (schedule.doubling(1.0, 2, limit=3.0), "min(1·2^floor((k-1)/2), 3)"),
        (schedule.piecewise({1: 5.0, 3: 0.1}), "5 from round 1, 0.1 from round 3"),
    ],
)
def test_a_schedule_is_printed_as_its_formula(made: schedule.Schedule, shown: str) -> None:
    assert repr(made) == shown


def test_a_schedule_beyond_all_numbers_is_refused_in_its_round() -> None:
    task = Task("one", 0)
    for steep in (schedule.growing(1.0, 300.0), schedule.geometric(1.0, 1e200), lambda k: 2.0 ** (2000 * (k - 1))):
        with pytest.raises(AgentError, match=r"rho = inf: must be finite \(the schedule .* in round \d+\)"):
            task.run(lambda i, steep=steep: DKLA(task.problems[i], 20, rho=steep))


def test_doubling_for_ever_stays_a_number() -> None:
    assert math.isfinite(schedule.doubling(1.0, 1)(10**9))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: schedule.geometric(math.nan, 1.0), "start = nan: must be a number"),
        (lambda: schedule.geometric(1.0, 0.0), "factor = 0.0: must be a number > 0"),
        (lambda: schedule.power(1.0, -1.0), "exponent = -1.0: must be a number >= 0, for power(…) falls; growing(…)"),
        (lambda: schedule.growing(1.0, -1.0), "exponent = -1.0: must be a number >= 0"),
        (lambda: schedule.doubling(1.0, 0), "every = 0: must be a whole number >= 1"),
        (lambda: schedule.doubling(2.0, 1, limit=1.0), "limit = 1.0: must be a number >= 2"),
        (lambda: schedule.piecewise({}), "values = {}: must be a mapping {1: value"),
        (lambda: schedule.piecewise({2: 1.0}), "values = {2: 1.0}: must be a mapping {1: value"),
        (lambda: schedule.piecewise({1: 1.0, 5: 1.0, 3: 1.0}), "in the order of the rounds"),
    ],
)
def test_what_makes_no_schedule_is_refused(make: object, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()  # type: ignore[operator]
    assert says in str(caught.value)


def test_a_constant_schedule_is_the_number() -> None:
    task = Task("random", 0)
    plain, _ = task.run(lambda i: COKE(task.problems[i], 40, rho=RHO))
    scheduled, _ = task.run(lambda i: COKE(task.problems[i], 40, rho=schedule.geometric(RHO, 1.0)))
    np.testing.assert_array_equal(plain, scheduled)


def test_a_step_of_each_round() -> None:
    """CTA with η_k = 0.5/√k equals its recursion with that step size."""
    task = Task("ring", 1)
    weights = topology.metropolis_weights(task.graph)
    steps = schedule.power(0.5)
    models, _ = task.run(lambda i: CTA(task.problems[i], 30, eta=steps, weights=dict(enumerate(weights[i]))))
    theta = np.zeros_like(models[0])
    for k, found in enumerate(models, 1):
        psi = weights @ theta
        slope = 2.0 * (np.einsum("nij,nj->ni", task.gram, psi) - task.cross + task.share * psi)
        theta = psi - 0.5 / math.sqrt(k) * slope
        np.testing.assert_allclose(found, theta, rtol=0, atol=1e-9)


def test_a_penalty_that_doubles_every_so_many_rounds() -> None:
    """DKLA with a doubling ρ equals its equations (18) with the current round's ρ in the step and the dual update."""
    task = Task("random", 0)
    penalty = schedule.doubling(RHO, 20)
    models, _ = task.run(lambda i: DKLA(task.problems[i], 50, rho=penalty))
    theta, dual = np.zeros((2, *task.cross.shape))
    degree = task.adjacency.sum(axis=1)
    eye = np.eye(task.cross.shape[1])
    for k, found in enumerate(models, 1):
        rho = RHO * 2.0 ** ((k - 1) // 20)
        pull = dual - rho * (degree[:, None] * theta + task.adjacency @ theta)
        matrix = 2.0 * (task.gram + (task.share + rho * degree)[:, None, None] * eye)
        theta = np.linalg.solve(matrix, (2.0 * task.cross - pull)[:, :, None])[:, :, 0]
        dual = dual + rho * (degree[:, None] * theta - task.adjacency @ theta)
        np.testing.assert_allclose(found, theta, rtol=0, atol=1e-9)


def test_a_schedule_reads_as_the_present_value() -> None:
    task = Task("two", 0)
    seen = []

    class Watched(DKLA):
        def after_sharing(self) -> None:
            super().after_sharing()
            seen.append(self.rho)

    task.run(lambda i: Watched(task.problems[i], 3, rho=lambda k: 0.1 * k))
    assert seen == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.3, 0.3])


def test_a_value_outside_the_range_is_refused_in_its_round() -> None:
    task = Task("two", 0)
    weights = topology.metropolis_weights(task.graph)
    with pytest.raises(AgentError, match=r"eta = 0\.0: must be a number > 0 \(the schedule .* in round 3\)"):
        task.run(lambda i: CTA(task.problems[i], 5, eta=lambda k: 3.0 - k, weights=dict(enumerate(weights[i]))))


@pytest.mark.parametrize(
    ("value", "says"), [(0.0, "> 0"), (math.nan, "> 0"), ("1", "> 0"), (lambda k: -1.0, "round 1")]
)
def test_a_wrong_value_is_refused_at_once(value: object, says: str) -> None:
    with pytest.raises(BadInput, match=f"rho = .*{says}"):
        DKLA(Task("one", 0).problems[0], 1, rho=value)  # type: ignore[arg-type]


def test_a_missing_step_is_named() -> None:
    with pytest.raises(TypeError, match=r"ODKLA\(\) misses the argument 'eta'"):
        ODKLA(OnlineCost(iter([]), 2, loss=Squared(), regularizer=0.1), 1, rho=1.0)


def test_numpys_numbers_are_numbers() -> None:
    agent = DKLA(Task("one", 0).problems[0], 1, rho=np.float32(0.5))  # type: ignore[arg-type]
    assert type(agent.rho) is float
    assert agent.rho == 0.5


def test_finished_agents_with_schedules_can_be_pickled() -> None:
    problem = LocalProblem(np.eye(2), np.ones(2), loss=Squared(), regularizer=LAMBDA)
    agent = CTA(problem, 3, eta=schedule.power(0.1), weights={0: 1.0})
    Network(topology.path(1)).run({0: agent})
    copy = pickle.loads(pickle.dumps(agent))
    np.testing.assert_array_equal(copy.theta, agent.theta)
    assert copy.eta == agent.eta


def test_the_recursions_agree_with_one_another() -> None:
    # A schedule that never changes must equal the oracle's recursion for a constant ρ.
    task = Task("random", 1)
    models, _ = task.run(lambda i: DKLA(task.problems[i], 30, rho=schedule.piecewise({1: RHO})))
    expected, _ = batch.coke(task.gram, task.cross, task.adjacency, task.share, RHO, 30)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


def test_a_field_of_ones_own_may_have_a_default() -> None:
    class Boosted(DKLA):
        boost: Scheduled = Scheduled(default=0.5, above=0.0)

    Boosted = dataclasses.dataclass(eq=False, repr=False)(Boosted)  # type: ignore[misc]
    problem = Task("one", 0).problems[0]
    assert Boosted(problem, 1, rho=1.0).boost == 0.5
    assert Boosted(problem, 1, rho=1.0, boost=lambda k: 2.0 * k).boost == 2.0
    with pytest.raises(BadInput, match=r"boost = 0\.0"):
        Boosted(problem, 1, rho=1.0, boost=0.0)
    with pytest.raises(TypeError, match=r"Wrong\.boost: must be Scheduled\(default=…\), not 0\.5"):

        class Wrong(DKLA):
            boost: Scheduled = 0.5  # type: ignore[assignment]
