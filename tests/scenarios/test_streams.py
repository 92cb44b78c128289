import math
import os
import tracemalloc
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

from netsim import BadInput
from netsim.agents import RandomFourier
from netsim.scenarios.data import streams
from netsim.scenarios.data.streams import MovingTruth, Samples, by_target, in_order, rounds_of, shuffled
from netsim.scenarios.data.tables import Table, load_table, scale_unit
from netsim.util.typing import Array
from tests.parts import every

real_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set")


class Identity:
    """A feature map that returns its inputs, and records the number of rows of each call."""

    def __init__(self, inputs: int = 2) -> None:
        self.inputs = self.size = inputs
        self.calls: list[int] = []

    def __call__(self, x: Array, /) -> Array:
        self.calls.append(len(x))
        return x


def table(samples: int = 23, seed: int = 0) -> Table:
    """Return a table in which the inputs of each row identify the sample, with targets in random order."""
    index = np.arange(samples, dtype=np.float64)
    target = np.random.default_rng(seed).permutation(index)
    return Table("counting", np.column_stack([index, -index]), target, ("a", "b"), "y")


def rows(samples: list[Samples], source: Table) -> list[list[int]]:
    """Read streams to the end, check that features and targets match, and return each agent's rows."""
    result = []
    for each in samples:
        pairs = list(each)
        numbers = [int(phi[0]) for phi, _ in pairs]
        for (phi, y), number in zip(pairs, numbers, strict=True):
            assert phi.tolist() == source.inputs[number].tolist()
            assert type(y) is float
            assert y == source.target[number]
        result.append(numbers)
    return result


DEALS: dict[str, Callable[[Table, int, Any], list[Samples]]] = {
    "shuffled": lambda source, agents, features: shuffled(source, agents, features, seed=3),
    "in_order": in_order,
    "apart": lambda source, agents, features: by_target(source, agents, features, mixing=0.0, seed=3),
    "half": lambda source, agents, features: by_target(source, agents, features, mixing=0.5, seed=3),
}
each_deal = pytest.mark.parametrize("deal", DEALS.values(), ids=DEALS)


# --- tables -----------------------------------------------------------------------------------------------------------


@each_deal
@pytest.mark.parametrize(("samples", "agents"), [(23, 5), (20, 5), (7, 7), (9, 1), (600, 2)])
def test_every_row_goes_to_one_agent_once(
    deal: Callable[[Table, int, Any], list[Samples]], samples: int, agents: int
) -> None:
    source = table(samples)
    dealt = rows(deal(source, agents, Identity()), source)
    assert sorted(np.concatenate(dealt)) == list(range(samples))
    fair = [len(each) for each in np.array_split(np.arange(samples), agents)]
    assert [len(each) for each in dealt] == fair
    assert min(fair) == rounds_of(source, agents)


def test_in_order_is_the_order_of_the_file() -> None:
    source = table(23)
    dealt = rows(in_order(source, 5, Identity()), source)
    for t in range(rounds_of(source, 5)):
        assert [each[t] for each in dealt] == list(range(5 * t, 5 * t + 5))
    assert [each[4:] for each in dealt] == [[20], [21], [22], [], []]


def test_shuffled_is_in_no_order() -> None:
    source = table(4000)
    dealt = rows(shuffled(source, 4, Identity(), seed=0), source)
    for each in dealt:
        numbers = np.array(each)
        assert abs(np.corrcoef(numbers, np.arange(1000))[0, 1]) < 0.12
        assert abs(numbers.mean() - 2000) < 4 * 4000 / math.sqrt(12 * 1000)
        assert abs(source.target[numbers].mean() - 2000) < 4 * 4000 / math.sqrt(12 * 1000)


def test_streams_follow_their_seed() -> None:
    source = table(60)
    for deal in (shuffled, lambda *given, seed: by_target(*given, mixing=0.4, seed=seed)):
        first, again, other = (rows(deal(source, 3, Identity(), seed=seed), source) for seed in (1, 1, 2))
        assert first == again
        assert first != other


def test_by_target_gives_each_agent_a_range_of_targets() -> None:
    source = table(1000)
    dealt = rows(by_target(source, 4, Identity(), mixing=0.0, seed=0), source)
    for i, each in enumerate(dealt):
        targets = source.target[each]
        assert sorted(targets) == list(range(250 * i, 250 * (i + 1)))
        # An agent's targets show no trend over time, so its problem stays the same.
        assert abs(np.corrcoef(targets, np.arange(250))[0, 1]) < 0.25


@pytest.mark.parametrize("mixing", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_share_that_is_mixed_is_as_asked(mixing: float) -> None:
    source, agents = table(4000), 4
    dealt = rows(by_target(source, agents, Identity(), mixing=mixing, seed=0), source)
    # A randomly assigned row falls into its agent's own range by chance in one of four cases.
    own = [np.mean(source.target[each] // 1000 == i) for i, each in enumerate(dealt)]
    expected = 1.0 - mixing + mixing / agents
    assert np.mean(own) == pytest.approx(expected, abs=0.02)
    # Mixed rows are spread over the whole stream, not collected at its beginning or end.
    first = [np.mean(source.target[each[:500]] // 1000 == i) for i, each in enumerate(dealt)]
    assert np.mean(first) == pytest.approx(expected, abs=0.05)


def test_all_mixed_is_shuffled() -> None:
    source = table(101)
    mixed = rows(by_target(source, 4, Identity(), mixing=1.0, seed=5), source)
    assert mixed == rows(shuffled(source, 4, Identity(), seed=5), source)


def test_by_target_separates_labels() -> None:
    labels = np.where(np.random.default_rng(0).random(1000) < 0.5, -1.0, 1.0)
    index = np.arange(1000, dtype=np.float64)
    source = Table("labels", np.column_stack([index, -index]), labels, ("a", "b"), "label")
    dealt = rows(by_target(source, 5, Identity(), mixing=0.0, seed=0), source)
    assert [len(set(labels[each])) for each in dealt].count(1) >= 4
    assert (labels[dealt[0]] == -1.0).all()
    assert (labels[dealt[-1]] == 1.0).all()
    # Rows with equal labels are shuffled, so late rows of the file may go to the first agent.
    assert max(dealt[0]) > 700


def test_features_are_computed_in_blocks() -> None:
    source, features = table(1200), Identity()
    samples = shuffled(source, 2, features, seed=0)
    assert features.calls == []
    next(samples[0])
    assert features.calls == [256]
    list(samples[0])
    assert features.calls == [256, 256, 88]


@each_deal
def test_blocks_do_not_matter(
    deal: Callable[[Table, int, Any], list[Samples]], monkeypatch: pytest.MonkeyPatch
) -> None:
    features = RandomFourier(2, 6, sigma=500.0, seed=0)

    def read(block: int) -> list[list[tuple[Array, float]]]:
        monkeypatch.setattr(streams, "BLOCK", block)
        return [list(each) for each in deal(table(301), 3, features)]

    whole = read(1000)
    for block in (1, 7, 256):
        for one, other in zip(whole, read(block), strict=True):
            for (phi, y), (psi, z) in zip(one, other, strict=True):
                np.testing.assert_allclose(phi, psi, rtol=0, atol=1e-12)
                assert y == z


@each_deal
def test_reading_one_stream_does_not_move_another(deal: Callable[[Table, int, Any], list[Samples]]) -> None:
    source = table(60)
    one_by_one = rows(deal(source, 3, Identity()), source)
    samples = deal(source, 3, Identity())
    in_turn = [[int(phi[0]) for phi, _ in each] for each in zip(*samples, strict=True)]
    assert np.array(in_turn).T.tolist() == one_by_one


def test_memory_is_that_of_a_block() -> None:
    # 40,000 samples of 200 features would need 64 MB per agent; a block of them needs 0.4 MB.
    source = table(40_000)
    features = RandomFourier(2, 200, sigma=1e4)
    tracemalloc.start()
    try:
        for _ in islice(zip(*in_order(source, 4, features), strict=False), 2000):
            pass
        for _ in islice(zip(*MovingTruth("drift", 4, features, 10**9, seed=0).streams(), strict=True), 2000):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12e6


def test_rounds_of() -> None:
    assert [rounds_of(table(23), agents) for agents in (1, 5, 23)] == [23, 4, 1]


@real_data
def test_real_table_in_order() -> None:
    source = scale_unit(load_table("airquality"))
    features = RandomFourier(13, 50, sigma=0.5, form="cos+sin")
    samples = in_order(source, 5, features)
    assert rounds_of(source, 5) == 1871
    for t, together in enumerate(islice(zip(*samples, strict=True), 300)):
        for i, (phi, y) in enumerate(together):
            assert y == source.target[5 * t + i]
            assert phi.shape == (100,)
            assert phi @ phi == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: in_order(table(), 24, Identity()),
            "agents = 24: must be at most 23, the rows of table 'counting'",
        ),
        (lambda: shuffled(table(), 0, Identity(), seed=0), "agents = 0: must be a whole number >= 1"),
        (lambda: rounds_of(table(), 2.0), "agents = 2.0: must be a whole number >= 1"),  # type: ignore[arg-type]
        (
            lambda: in_order(table(), 2, Identity(3)),
            "features.inputs = 3: must be 2, the inputs of table 'counting'",
        ),
        (lambda: shuffled(table(), 2, Identity(), seed=-1), "seed = -1: must be a whole number >= 0"),
        (
            lambda: by_target(table(), 2, Identity(), mixing=1.5, seed=0),
            "mixing = 1.5: must be a probability in [0, 1]",
        ),
    ],
)
def test_bad_deals_are_refused_before_anything_is_read(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value) == message


# --- truths that move -------------------------------------------------------------------------------------------------

FEATURES = RandomFourier(2, 10, sigma=0.5, form="cos+sin", seed=4)
KINDS = ("drift", "switch", "rotate")
each_kind = pytest.mark.parametrize("kind", KINDS)


def moving(kind: Any, agents: int = 3, rounds: int = 600, seed: int = 1, **options: Any) -> MovingTruth:
    return MovingTruth(kind, agents, FEATURES, rounds, **{"noise": 0.0, "every": 100, "seed": seed, **options})


def read(source: MovingTruth) -> tuple[Array, Array]:
    """Return features of shape (T, N, D) and targets of shape (T, N)."""
    data = [list(each) for each in source.streams()]
    return np.stack([[phi for phi, _ in each] for each in data], axis=1), np.array([[y for _, y in s] for s in data]).T


@each_kind
def test_samples_are_those_of_the_truth(kind: str) -> None:
    source = moving(kind)
    x, y = read(source)
    assert x.shape == (600, 3, 20)
    truths = np.array([source.truth(t) for t in range(1, 601)])
    np.testing.assert_allclose(np.einsum("tnd,td->tn", x, truths), y, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(truths, axis=1), math.sqrt(20), rtol=1e-12)


def test_drift_turns_by_its_rate_in_ever_new_directions() -> None:
    source = moving("drift", rate=0.02, rounds=3000)
    unit = np.array([source.truth(t) for t in range(1, 3001)]) / math.sqrt(20)
    steps = np.linalg.norm(np.diff(unit, axis=0), axis=1)
    np.testing.assert_allclose(steps, 2 * math.sin(0.01), rtol=1e-9)
    # Steps have independent directions, also across blocks, so that after k steps the distance is √k steps.
    turns = np.einsum("td,td->t", np.diff(unit, axis=0)[1:], np.diff(unit, axis=0)[:-1]) / 0.02**2
    assert abs(turns.mean()) < 5 / math.sqrt(20 * 3000)
    far = np.linalg.norm(unit[100:] - unit[:-100], axis=1)
    assert 0.1 < far.mean() < 0.3
    assert np.linalg.norm(unit[0] - unit[-1]) > 0.3


def test_switch_draws_a_new_truth_every_so_often() -> None:
    source = moving("switch", every=70, rounds=400)
    truths = np.array([source.truth(t) for t in range(1, 401)])
    changed = np.flatnonzero(np.any(np.diff(truths, axis=0) != 0.0, axis=1)) + 2
    assert changed.tolist() == [71, 141, 211, 281, 351]
    distinct = truths[::70] / math.sqrt(20)
    assert np.abs(np.triu(distinct @ distinct.T, 1)).max() < 0.8


def test_rotate_turns_by_its_rate_in_a_plane() -> None:
    source = moving("rotate", rate=2 * math.pi / 400, rounds=500)
    unit = np.array([source.truth(t) for t in range(1, 501)]) / math.sqrt(20)
    angles = np.arccos(np.einsum("td,td->t", unit[1:], unit[:-1]))
    np.testing.assert_allclose(angles, 2 * math.pi / 400, rtol=1e-6)
    assert np.linalg.matrix_rank(unit, tol=1e-8) == 2
    np.testing.assert_allclose(unit[400], unit[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(unit[200], -unit[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["drift", "rotate"])
def test_at_no_rate_it_stands_still(kind: str) -> None:
    source = moving(kind, rate=0.0)
    for t in (2, 300, 600):
        np.testing.assert_allclose(source.truth(t), source.truth(1), rtol=0, atol=1e-12)


@each_kind
def test_noise_is_as_asked(kind: str) -> None:
    exact, noisy = moving(kind, rounds=2000), moving(kind, rounds=2000, noise=0.3)
    (x, y), (same, z) = read(exact), read(noisy)
    np.testing.assert_array_equal(x, same)
    errors = z - y
    assert abs(errors.mean()) < 5 * 0.3 / math.sqrt(6000)
    assert errors.std() == pytest.approx(0.3, rel=0.05)
    assert abs(np.mean(errors[1:] * errors[:-1])) < 5 * 0.09 / math.sqrt(6000)
    assert abs(np.mean(errors[:, 0] * errors[:, 1])) < 5 * 0.09 / math.sqrt(2000)


def test_signal_is_of_its_scale() -> None:
    signals = [read(moving("switch", agents=1, rounds=200, every=1, seed=s, scale=2.0))[1] for s in range(5)]
    assert np.sqrt(np.mean(np.square(signals))) == pytest.approx(2.0, rel=0.15)


@each_kind
def test_streams_of_a_truth_follow_its_seed(kind: str) -> None:
    (x, y), (again, z), (other, _) = (read(moving(kind, noise=0.1, seed=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(x, again)
    np.testing.assert_array_equal(y, z)
    assert not np.array_equal(x, other)
    assert not np.array_equal(x[:, 0], x[:, 1])
    # More agents and more rounds must not change the other samples.
    more, targets = read(moving(kind, agents=5, rounds=900, noise=0.1))
    np.testing.assert_allclose(more[:600, :3], x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(targets[:600, :3], y, rtol=0, atol=1e-12)


@each_kind
def test_blocks_and_the_order_of_questions_do_not_matter(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = read(moving(kind, noise=0.1, rounds=1100))
    forwards = [moving(kind, rounds=1100).truth(t) for t in (1, 256, 257, 1100)]
    source = moving(kind, noise=0.1, rounds=1100)
    backwards = [source.truth(t) for t in (1100, 257, 256, 1)]
    np.testing.assert_array_equal(forwards, backwards[::-1])
    monkeypatch.setattr(streams, "BLOCK", 37)
    psi, z = read(source)
    np.testing.assert_allclose(x, psi, rtol=0, atol=1e-12)
    np.testing.assert_allclose(y, z, rtol=0, atol=1e-12)
    # One agent reads far more rounds than the others.
    ahead, behind, _ = moving(kind, noise=0.1, rounds=1100).streams()
    assert [y for _, y in ahead] == pytest.approx(z[:, 0])
    assert [y for _, y in behind] == pytest.approx(z[:, 1])


def test_a_truth_of_no_rounds() -> None:
    assert [list(each) for each in moving("drift", rounds=0).streams()] == [[], [], []]


@every(
    ("make", "message"),
    [
        (
            lambda: moving("drfit"),
            "kind = 'drfit': must be one of drift, switch, rotate (did you mean 'drift'?)",
        ),
        (lambda: moving("drift", agents=0), "agents = 0: must be a whole number >= 1"),
        (lambda: moving("drift", rounds=-1), "rounds = -1: must be a whole number >= 0"),
        (lambda: moving("drift", noise=-0.1), "noise = -0.1: must be a number >= 0"),
        (lambda: moving("drift", seed=0.5), "seed = 0.5: must be a whole number >= 0"),
        (lambda: moving("drift", rate=math.inf), "rate = inf: must be finite"),
        (lambda: moving("switch", every=0), "every = 0: must be a whole number >= 1"),
        (lambda: moving("switch", scale=0.0), "scale = 0.0: must be a number > 0"),
        (lambda: moving("drift").truth(0), "t = 0: must be a whole number from 1 to 600"),
        (lambda: moving("drift").truth(601), "t = 601: must be a whole number from 1 to 600"),
        (
            lambda: MovingTruth("rotate", 1, RandomFourier(2, 1), 5, seed=0),
            "features.size = 1: must be at least 2, for a truth to move",
        ),
    ],
)
def test_bad_truths_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value) == message
