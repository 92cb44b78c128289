import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from tests.oracle import batch

AGENTS, SIZE, LAM, RHO = 5, 6, 0.05, 0.1
RING = np.roll(np.eye(AGENTS), 1, axis=0) + np.roll(np.eye(AGENTS), -1, axis=0)
WEIGHTS = (RING + np.eye(AGENTS)) / 3  # Metropolis on a ring


@pytest.fixture
def data() -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(SIZE)
    features = [rng.standard_normal((12 + 3 * i, SIZE)) for i in range(AGENTS)]
    return [(x, x @ truth + 0.3 * rng.standard_normal(len(x))) for x in features]


@pytest.fixture
def moments(data: list[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> tuple[batch.Vector, batch.Vector]:
    return batch.stack(data)


def test_optimum_has_no_gradient(
    data: list[tuple[NDArray[np.float64], NDArray[np.float64]]], moments: tuple[batch.Vector, batch.Vector]
) -> None:
    theta = batch.optimum(*moments, LAM)
    gradient = 2 * LAM * theta
    for x, y in data:
        gradient += 2 * x.T @ (x @ theta - y) / len(y)
    assert gradient == pytest.approx(np.zeros(SIZE), abs=1e-12)


def test_dkla_converges_to_the_centralised_solution(moments: tuple[batch.Vector, batch.Vector]) -> None:
    thetas, sent = batch.coke(*moments, RING, LAM / AGENTS, RHO, 600)
    best = batch.optimum(*moments, LAM)
    assert np.abs(thetas[-1] - best).max() < 1e-9
    assert np.abs(thetas[0] - best).max() > 1e-2
    assert sent.all()


def test_rounds_agent_by_agent(data: list[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    # A general minimiser solves the paper's equations; the censoring threshold silences some agents in round 2.
    v, mu = 1.2, 0.4
    thetas, sent = batch.coke(*batch.stack(data), RING, LAM / AGENTS, RHO, 4, v=v, mu=mu)
    heard, dual = np.zeros((AGENTS, SIZE)), np.zeros((AGENTS, SIZE))
    for k in (1, 2, 3, 4):
        fresh, speaks = np.empty((AGENTS, SIZE)), np.empty(AGENTS, dtype=bool)
        for i, (x, y) in enumerate(data):
            neighbours = np.flatnonzero(RING[i])
            linear = dual[i] - RHO * sum(heard[i] + heard[n] for n in neighbours)

            def cost(t: NDArray[np.float64], x=x, y=y, linear=linear) -> float:  # type: ignore[no-untyped-def]
                penalty = LAM / AGENTS + RHO * 2
                return float(np.mean((y - x @ t) ** 2) + penalty * t @ t + t @ linear)

            fresh[i] = minimize(cost, np.zeros(SIZE), method="BFGS", options={"gtol": 1e-7}).x
            speaks[i] = np.linalg.norm(fresh[i] - heard[i]) >= v * mu**k
        heard = np.where(speaks[:, None], fresh, heard)
        for i in range(AGENTS):
            dual[i] += RHO * sum(heard[i] - heard[n] for n in np.flatnonzero(RING[i]))
        assert thetas[k - 1] == pytest.approx(fresh, abs=1e-5)
        assert sent[k - 1].tolist() == speaks.tolist()
    assert sent[0].all()
    assert 0 < sent[1].sum() < AGENTS


def test_censoring_saves_messages_and_still_converges(moments: tuple[batch.Vector, batch.Vector]) -> None:
    thetas, sent = batch.coke(*moments, RING, LAM / AGENTS, RHO, 600, v=0.5, mu=0.96)
    assert 0 < sent.mean() < 0.8
    assert np.abs(thetas[-1] - batch.optimum(*moments, LAM)).max() < 1e-6


def test_nothing_is_sent_under_a_threshold_that_no_change_reaches(
    moments: tuple[batch.Vector, batch.Vector],
) -> None:
    thetas, sent = batch.coke(*moments, RING, LAM / AGENTS, RHO, 5, v=1e6)
    assert not sent.any()
    assert np.array_equal(thetas[0], thetas[-1])


def test_coded_differences_converge(moments: tuple[batch.Vector, batch.Vector]) -> None:
    best = batch.optimum(*moments, LAM)
    for bits in (3, 8):
        coded = batch.uniform_quantizer(bits)
        thetas, _ = batch.coke(*moments, RING, LAM / AGENTS, RHO, 600, quantize=coded)
        assert np.abs(thetas[-1] - best).max() < 1e-6
    exact, _ = batch.coke(*moments, RING, LAM / AGENTS, RHO, 50, quantize=lambda h: h)
    plain, _ = batch.coke(*moments, RING, LAM / AGENTS, RHO, 50)
    assert exact == pytest.approx(plain, abs=1e-12)


def test_cta_moves_towards_the_centralised_solution(moments: tuple[batch.Vector, batch.Vector]) -> None:
    best = batch.optimum(*moments, LAM)
    thetas, sent = batch.cta(*moments, WEIGHTS, LAM / AGENTS, 0.05, 400)
    distance = np.linalg.norm(thetas.mean(axis=1) - best, axis=1)
    assert distance[-1] < 0.1 * distance[0]
    assert sent.all()
    smaller, _ = batch.cta(*moments, WEIGHTS, LAM / AGENTS, 0.005, 4000)
    assert np.abs(smaller[-1] - best).max() < 0.2 * np.abs(thetas[-1] - best).max()


def test_cta_round_by_hand(data: list[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    thetas, _ = batch.cta(*batch.stack(data), WEIGHTS, LAM / AGENTS, 0.05, 3)
    for i, (x, y) in enumerate(data):
        mixed = WEIGHTS[i] @ thetas[1]
        gradient = 2 * x.T @ (x @ mixed - y) / len(y) + 2 * LAM / AGENTS * mixed
        assert thetas[2, i] == pytest.approx(mixed - 0.05 * gradient, abs=1e-12)
    assert thetas[0, 0] == pytest.approx(0.05 * 2 * data[0][0].T @ data[0][1] / len(data[0][1]))


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_quantizer_error_is_at_most_half_a_cell(bits: int) -> None:
    rng = np.random.default_rng(bits)
    decode = batch.uniform_quantizer(bits)
    for scale in (1e-6, 1.0, 1e3):
        h = scale * rng.standard_normal(200)
        decoded = decode(h)
        assert np.abs(decoded - h).max() <= np.abs(h).max() / 2**bits * (1 + 1e-6)
        assert len(np.unique(decoded)) <= 2**bits


def test_quantizer_range_covers_the_peak_in_single_precision() -> None:
    peak = 1.0 + 2.0**-40  # exceeds 1, the float32 nearest to it
    step = 2 * float(np.nextafter(np.float32(1), np.float32(2))) / 4
    assert batch.uniform_quantizer(2)(np.array([peak, -peak])).tolist() == [1.5 * step, -1.5 * step]


def test_quantizer_of_a_fixed_range_saturates() -> None:
    h = np.array([-5.0, -1.0, -0.1, 0.0, 0.1, 0.999, 1.0, 5.0])
    expected = [-0.75, -0.75, -0.25, 0.25, 0.25, 0.75, 0.75, 0.75]
    assert batch.uniform_quantizer(2, low=-1.0, high=1.0)(h).tolist() == expected
    assert batch.uniform_quantizer(2, scale=1.0)(h).tolist() == expected
    assert batch.uniform_quantizer(1, low=0.0, high=4.0)(h).tolist() == [1.0] * 7 + [3.0]


def test_quantizer_of_zeros() -> None:
    assert batch.uniform_quantizer(3)(np.zeros(4)).tolist() == [0.0] * 4
    assert batch.uniform_quantizer(3, scale=1.0)(np.zeros(4)).tolist() == [0.125] * 4
