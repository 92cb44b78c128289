import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim import BadInput, Network
from netsim.agents import DDKL, Always, AtRandom, Censor, Geometric, OnlineCost, Periodic, PowerLaw, Relative, Squared
from netsim.agents.consensus.censor import may_silence
from tests.parts import every

SIZE = 3
ZERO = np.zeros(SIZE)


def speaks(censor: Censor, change: float, k: int = 1, state: float = 1.0) -> bool:
    """Return whether a censor lets an agent send, given the norms of the change and of the state in round k."""
    direction = np.array([2.0, -1.0, 2.0]) / 3.0
    result = censor.speaks(change * direction, state * direction[::-1], k, np.random.default_rng(0))
    assert type(result) is bool
    return result


def test_always() -> None:
    assert speaks(Always(), 0.0)
    assert speaks(Always(), 5.0, 100)


@pytest.mark.parametrize(
    ("censor", "thresholds"),
    [
        (Geometric(4.0, 0.5), {1: 2.0, 2: 1.0, 10: 4.0 / 1024}),
        (Geometric(4.0, 1.0), {1: 4.0, 1000: 4.0}),
        (PowerLaw(4.0, 0.5), {1: 4.0, 4: 2.0, 100: 0.4}),
        (PowerLaw(0.1, 0.0), {1: 0.1, 1000: 0.1}),
        (PowerLaw(8.0, 3.0), {2: 1.0}),
        (Geometric(4.0, 0.25, squared=True), {1: 1.0, 2: 0.5, 10: 2.0 / 1024}),
        (PowerLaw(4.0, 1.0, squared=True), {1: 2.0, 4: 1.0, 100: 0.2}),
        (Relative(0.25, squared=True), {1: 0.5, 9: 0.5}),
    ],
    ids=repr,
)
def test_thresholds_are_their_formulas(censor: Censor, thresholds: dict[int, float]) -> None:
    for k, threshold in thresholds.items():
        assert not speaks(censor, threshold * (1 - 1e-9), k)
        assert speaks(censor, threshold * (1 + 1e-9), k)
        assert not speaks(censor, 0.0, k)


@pytest.mark.parametrize("censor", [Geometric(3.0, 0.5), PowerLaw(3.0, 0.0)], ids=repr)
def test_a_change_just_at_the_threshold_is_broadcast(censor: Censor) -> None:
    k, threshold = (1, 1.5) if isinstance(censor, Geometric) else (5, 3.0)
    assert censor.speaks(np.array([threshold, 0.0]), np.zeros(2), k, np.random.default_rng(0))


@every("censor", [Geometric(0.0, 1.0), Geometric(0.0, 0.5), PowerLaw(0.0, 0.9), Relative(0.0)])
@every("k", [1, 7, 10_000])
def test_a_threshold_of_zero_is_no_censoring(censor: Censor, k: int) -> None:
    assert speaks(censor, 0.0, k)
    assert speaks(censor, 1e-300, k)


def test_far_rounds_have_a_threshold_of_zero_at_last() -> None:
    assert speaks(Geometric(4.0, 0.5), 0.0, 100_000)
    assert speaks(Geometric(4.0, 0.0), 0.0, 1)
    assert not speaks(PowerLaw(4.0, 0.95), 0.0, 10**9)


def test_periodic() -> None:
    assert [k for k in range(1, 13) if speaks(Periodic(4), 0.0, k)] == [4, 8, 12]
    assert all(speaks(Periodic(1), 0.0, k) for k in range(1, 5))


def test_at_random_speaks_in_its_share_of_the_rounds() -> None:
    rng = np.random.default_rng(1)
    for rate in (0.0, 0.03, 0.5, 1.0):
        spoken = [AtRandom(rate).speaks(ZERO, ZERO, k, rng) for k in range(1, 20_001)]
        assert abs(np.mean(spoken) - rate) <= 5 * math.sqrt(rate * (1 - rate) / 20_000)
    # The decisions of different rounds are also independent.
    runs = np.array([AtRandom(0.5).speaks(ZERO, ZERO, k, rng) for k in range(20_000)])
    assert abs(np.mean(runs[1:] & runs[:-1]) - 0.25) < 0.02


def test_at_random_follows_the_agents_generator() -> None:
    def draws(seed: int) -> list[bool]:
        rng = np.random.default_rng(seed)
        return [AtRandom(0.5).speaks(ZERO, ZERO, k, rng) for k in range(50)]

    assert draws(1) == draws(1) != draws(2)


def test_relative() -> None:
    censor = Relative(0.1)
    for size in (1e-6, 1.0, 1e6):
        assert not speaks(censor, 0.0999 * size, state=size)
        assert speaks(censor, 0.1001 * size, state=size)
    # A zero model gives no scale for changes, so even a change of zero is sent.
    assert speaks(censor, 0.0, state=0.0)


@every(
    ("censor", "rounds"),
    [
        (Always(), []),
        (Geometric(4.0, 0.5), [1, 2, 3, 4, 5, 6]),
        (Geometric(0.0, 0.5), []),
        (Geometric(4.0, 0.0), []),
        (PowerLaw(0.1, 2.0), [1, 2, 3, 4, 5, 6]),
        (PowerLaw(0.0, 2.0), []),
        (Periodic(3), [1, 2, 4, 5]),
        (Periodic(1), []),
        (AtRandom(0.9), [1, 2, 3, 4, 5, 6]),
        (AtRandom(1.0), []),
        (Relative(0.5), []),
        (Relative(1.5), [1, 2, 3, 4, 5, 6]),
    ],
)
def test_in_which_rounds_who_never_spoke_may_be_silent(censor: Censor, rounds: list[int]) -> None:
    found = [k for k in range(1, 7) if may_silence(censor, k)]
    assert found == rounds
    # While θ̂ is 0, the change is the whole state, which is sent in the other rounds, however small it is.
    for k in range(1, 7):
        for size in (1e-9, 1.0):
            spoken = speaks(censor, size, k, state=size)
            assert spoken or k in found
    assert not may_silence(Geometric(4.0, 0.5), 100_000)


def test_of_a_censor_of_ones_own_nothing_is_known() -> None:
    class Never:
        def speaks(self, change: object, state: object, round_number: int, rng: object) -> bool:
            return False

    assert may_silence(Never(), 1)


@given(st.floats(0, 10), st.floats(0, 1), st.integers(1, 1000), st.floats(0, 10))
def test_censors_by_size_are_monotonous(v: float, mu: float, k: int, change: float) -> None:
    for censor in (Geometric(v, mu), PowerLaw(v, mu), Relative(v)):
        if speaks(censor, change, k):
            assert speaks(censor, 1.001 * change + 1e-12, k)
            assert isinstance(censor, Relative) or speaks(censor, change, k + 1)


def test_agents_under_a_censor_speak_when_it_says_so() -> None:
    graph = nx.path_graph(3)

    def agent(i: int, censor: Censor) -> DDKL:
        rng = np.random.default_rng(i)
        samples = iter([(rng.normal(size=SIZE), float(rng.normal())) for _ in range(60)])
        return DDKL(OnlineCost(samples, SIZE, loss=Squared(), regularizer=0.1), 60, rho=0.5, censor=censor)

    def spoken(censor: Censor) -> list[int]:
        run = Network(graph, seed=1).run({i: agent(i, censor) for i in graph})
        counts = [each.sharing.spoken for each in run.agents.values()]
        assert sum(counts) == run.ledger.transmissions
        return counts

    assert spoken(Always()) == spoken(Geometric(0.0, 1.0)) == [60, 60, 60]
    assert spoken(Periodic(7)) == [8, 8, 8]
    assert spoken(AtRandom(0.0)) == [0, 0, 0]
    some = spoken(AtRandom(0.5))
    assert all(10 < each < 50 for each in some)
    assert some == spoken(AtRandom(0.5))
    assert len(set(some)) > 1  # each agent draws for itself
    assert all(0 < each < 60 for each in spoken(PowerLaw(1.0, 0.3)) + spoken(Relative(0.7)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Geometric(-1.0, 0.5), "threshold = -1.0: must be a number >= 0"),
        (lambda: Geometric(math.nan, 0.5), "threshold = nan: must be a number >= 0"),
        (lambda: Geometric(1.0, 1.01), "decay = 1.01: must be a number >= 0 and <= 1"),
        (lambda: PowerLaw(math.inf, 0.5), "threshold = inf: must be finite"),
        (lambda: PowerLaw(1.0, -0.5), "decay = -0.5: must be a number >= 0"),
        (lambda: Periodic(0), "every = 0: must be a whole number >= 1"),
        (lambda: Periodic(2.0), "every = 2.0: must be a whole number >= 1"),  # type: ignore[arg-type]
        (lambda: AtRandom(1.5), "rate = 1.5: must be a probability in [0, 1]"),
        (lambda: Relative(-0.1), "share = -0.1: must be a number >= 0"),
    ],
)
def test_bad_censors_are_refused(make: Callable[[], Censor], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", [Geometric, PowerLaw])
def test_numpys_numbers_are_pythons(kind: Callable[[Any, Any], Any]) -> None:
    censor = kind(np.float32(0.5), np.float32(0.25))
    assert (type(censor.v), type(censor.mu)) == (float, float)
    assert censor == kind(0.5, 0.25)
