"""Coded sums: each copy of a neighbour's state is either exact to the last bit or detected as wrong and repaired."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Link, Network, loss
from netsim.agents import COKE, DKLA, Always, AtRandom, CodedSums, RunningSums, centralised, schedule
from netsim.agents.consensus.coded_sums import CodedSharing
from netsim.coders import Float
from netsim.util.typing import Array
from tests.agents.test_lossy import AGENTS, GEOMETRIC, GRAPH, RHO, SHARE, SIZE, problem
from tests.parts import slow

FINE = CodedSums(step=1e-9, halvings=0, dither=False, sum_every=1)


class Books:
    """A probe that records, for each round, the models and the largest absolute element of the sum of the duals."""

    def __init__(self) -> None:
        self.thetas: list[Array] = []
        self.residual: list[float] = []
        self.wrong_states = 0

    def __call__(self, agents: Mapping[int, Any]) -> dict[str, float]:
        self.thetas.append(np.stack([agent.theta for agent in agents.values()]))
        self.residual.append(float(np.abs(sum(agent.dual for agent in agents.values())).max()))
        return {}


def run_of(
    way: CodedSums | RunningSums, link: Link, rounds: int = 150, kind: type[DKLA] = DKLA, **given: Any
) -> tuple[Books, Any, list[CodedSharing]]:
    books = Books()
    agents = {i: kind(problem(i), rounds, rho=RHO, duals=way, **given) for i in GRAPH}
    run = Network(GRAPH, link, seed=3).run(agents, [books], trace=True)
    return books, run, [agent.sharing for agent in agents.values()]  # type: ignore[misc]


@pytest.mark.parametrize("censor", [Always(), GEOMETRIC], ids=["DKLA", "COKE"])
@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_on_a_fine_grid_equal_to_running_sums(lost: float, censor: Any) -> None:
    fine, _, sharings = run_of(FINE, Link(loss=lost), 60, COKE, censor=censor)
    sums, _, _ = run_of(RunningSums(), Link(loss=lost), 60, COKE, censor=censor)
    np.testing.assert_allclose(fine.thetas, sums.thetas, rtol=0, atol=1e-5)
    assert sum(each.astray for each in sharings) == 0


@pytest.mark.parametrize("dither", [True, False])
@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("link", [slow(Link()), Link(loss=0.3), Link(loss=loss.gilbert_elliott(0.5, burst=8))])
def test_what_was_heard_is_known_to_the_last_bit(link: Link, every: int, dither: bool) -> None:
    way = CodedSums(step=0.01, halvings=3, halve_every=20, reach=6, sum_every=every, dither=dither)
    agents = {i: DKLA(problem(i), 80, rho=RHO, duals=way) for i in GRAPH}
    heard: list[tuple[int, int]] = []

    class Check:
        def __init__(self) -> None:
            self.sums = {i: {0: np.zeros(SIZE)} for i in GRAPH}

        def __call__(self, now: Mapping[int, Any]) -> dict[str, float]:
            for i, agent in now.items():
                sharing = agent.sharing
                step = sharing._step
                np.testing.assert_allclose(sharing.own / step, np.rint(sharing.own / step), atol=1e-6)
                for place, name in enumerate(agent.neighbors):
                    if sharing._missed[place] == 0:
                        heard.append((i, name))
                        np.testing.assert_array_equal(sharing.copies[name], now[name].sharing.own)
                        if every == 1:
                            np.testing.assert_array_equal(sharing.totals[place], now[name].sharing.total)
            return {}

    run = Network(GRAPH, link, seed=3).run(agents, [Check()])
    sums = run.ledger.table(["kind"]).set_index("kind")["delivered"]["sum"]
    astray = sum(agent.sharing.astray for agent in agents.values())  # type: ignore[attr-defined]
    assert len(heard) == sums - astray


def test_who_was_away_too_long_finds_out_and_asks() -> None:
    way = CodedSums(step=0.001, halvings=0, reach=3, sum_every=1, dither=False)
    books, run, sharings = run_of(way, Link(loss=loss.gilbert_elliott(0.5, burst=12)), 200)
    table = run.ledger.table(["kind"]).set_index("kind")
    astray = sum(each.astray for each in sharings)
    repairs = sum(each.repairs for each in sharings)
    assert astray > 10
    assert 0 < repairs <= table["offered"]["repair"]
    # The ledger counts the bits of repair frames.
    assert table["wire_bits"]["repair"] > 0
    assert np.isfinite(books.thetas).all()


@pytest.mark.parametrize("lost", [slow(0.0), 0.3])
def test_the_models_end_within_the_grid_of_the_optimum(lost: float) -> None:
    best = centralised([problem(i) for i in GRAPH], SHARE * AGENTS)
    for step in (1e-2, 1e-4):
        books, _, _ = run_of(CodedSums(step=step, halvings=4, halve_every=40), Link(loss=lost), 420)
        assert np.abs(np.mean(books.thetas[-200:], axis=(0, 1)) - best).max() < 10 * step
    # tests.agents.test_survival shows that plain duals end far from the optimum.


def test_one_that_lost_its_state_is_understood_again() -> None:
    way = CodedSums(step=1e-4, halvings=5, halve_every=30)
    agents = {i: DKLA(problem(i), 480, rho=RHO, duals=way) for i in GRAPH}
    books = Books()
    network = Network(GRAPH, Link(loss=0.2), seed=3)
    for at in (60.0, 200.25):
        network.at(at, agents[2].restart)
    network.run(agents, [books])
    best = centralised([problem(i) for i in GRAPH], SHARE * AGENTS)
    assert np.abs(np.mean(books.thetas[-200:], axis=(0, 1)) - best).max() < 1e-3


def test_a_censor_cannot_keep_a_repair_back() -> None:
    way = CodedSums(step=1e-3, halvings=0, reach=1, sum_every=1)
    _, _, sharings = run_of(way, Link(loss=0.6), 300, COKE, censor=AtRandom(0.3))
    assert sum(each.repairs for each in sharings) > 0
    assert all(not each._lost or each.astray for each in sharings)


def test_bits_are_those_that_travel() -> None:
    way = CodedSums(step=0.01, halvings=3, halve_every=10)
    _, run, _ = run_of(way, Link(), 60)
    last = run.rounds.iloc[-1]
    assert last["payload_bits"] < 64 * SIZE * AGENTS * 60 / 2
    assert last["wire_bits"] > last["payload_bits"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"step": 0.0}, "step = 0.0: must be a number > 0"),
        ({"halvings": 60}, "halvings = 60: must be from 0 to 48"),
        ({"halve_every": 0}, "halve_every = 0"),
        ({"reach": 0}, "reach = 0"),
        ({"sum_every": 0}, "sum_every = 0"),
        ({"dither": 3}, "dither = 3"),
    ],
)
def test_arguments_out_of_range_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        CodedSums(**given)


@pytest.mark.parametrize("given", [{"coder": Float(32)}, {"rho": schedule.power(1.0)}])
def test_what_does_not_go_together_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="CodedSums"):
        DKLA(problem(0), 5, **{"rho": RHO, "duals": CodedSums(), **given})
