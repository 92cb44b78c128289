"""A round-based method inside a mote equals the same method run in rounds if all frames arrive."""

import re
import runpy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import BadInput, Deployment, Mote, Network, faults, presets
from netsim.agents import COKE, CTP, EF21, FTSP, Geometric, Learner, LeastSquares, RunningSums, Squared
from netsim.agents.consensus.base import SharingAgent
from netsim.coders import Uniform
from tests.command import ROOT

PRESET = presets.ieee802154()
PLACES = {node: (8.0 * node, 0.0) for node in range(4)}
ROUNDS, PERIOD, BEGIN = 12, 5.0, 60.0


def cost(node: int) -> LeastSquares:
    rng = np.random.default_rng(node)
    x = rng.normal(size=(10, 3))
    return LeastSquares(x, x @ np.arange(1.0, 4.0) + rng.normal(size=10), loss=Squared(), regularizer=1e-3)


def coke(node: int, **settings: Any) -> COKE:
    return COKE(cost(node), ROUNDS, rho=0.05, **settings)


def played(
    method: Any = coke, *, begin: float = BEGIN, happens: Any = (), **wanted: Any
) -> tuple[netsim.Run, dict[int, Any]]:
    """Run motes that learn by a common time from FTSP, on links so good that only collisions lose frames."""
    site = Deployment(PLACES, preset=PRESET, drift_ppm=50, offset=1, seed=3)
    motes = {
        node: Mote(
            time=FTSP(period=5),
            routing=CTP(is_sink=node == 0),
            learn=Learner(method(node), period=PERIOD, begin=begin, **wanted),
        )
        for node in PLACES
    }
    network = site.network(radio=replace(PRESET.radio, max_frame_retries=0), seed=5, faults=happens)
    return network.run(motes, until=begin + PERIOD * (ROUNDS + 1)), motes


def in_rounds(method: Any = coke) -> dict[int, Any]:
    graph = Deployment(PLACES, preset=PRESET, seed=3).graph
    agents = {node: method(node) for node in PLACES}
    Network(graph, round_period=1.0, seed=5).run(agents)
    return agents


@pytest.mark.parametrize(
    "method",
    [
        coke,
        lambda node: coke(node, censor=Geometric(1.0, 0.8)),
        lambda node: coke(node, duals=RunningSums()),
        lambda node: coke(node, coder=Uniform(4)),
    ],
    ids=["DKLA", "COKE", "running sums", "4 bits"],
)
def test_without_losses_it_is_the_method_to_the_bit(method: Any) -> None:
    run, motes = played(method)
    frames = run.ledger.table(["kind"]).set_index("kind")
    learned = frames.loc[[kind for kind in frames.index if kind in Learner.kinds]]
    assert learned["offered"].sum() == learned["delivered"].sum() > 0
    for node, agent in in_rounds(method).items():
        assert motes[node].learn.steps == ROUNDS
        assert motes[node].learn.late == 0
        assert np.array_equal(motes[node].learn.theta, agent.theta)


def test_motes_that_do_not_know_the_time_yet_miss_rounds_and_count_them_as_the_others_do() -> None:
    _, motes = played(begin=0.0)
    assert all(0 < each.learn.steps < ROUNDS for each in motes.values())
    models = np.array([each.learn.theta for each in motes.values()])
    best = np.array([each.theta for each in in_rounds().values()])
    # The missed rounds are the first ones: the models still approach those of a complete run.
    assert np.linalg.norm(models - best) < 0.5 * np.linalg.norm(best)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_mote_that_was_down_takes_part_again(keeps: bool) -> None:
    down, up = BEGIN + 4.5 * PERIOD, BEGIN + 6.5 * PERIOD
    run, motes = played(happens=[faults.Crash(2, at=down, until=up, keeps_state=keeps)])
    spoken = run.ledger.table(["sender", "kind"]).set_index(["sender", "kind"])["offered"]
    assert 0 < spoken[2, "state"] < spoken[1, "state"]
    assert 0 < motes[2].learn.steps < ROUNDS
    # Without its state, a restarted mote counts its rounds from the restart.
    assert (motes[2].learn.steps > ROUNDS // 2) == keeps
    assert np.isfinite(motes[2].learn.theta).all()


def test_it_is_a_part_beside_time() -> None:
    site = Deployment(PLACES, preset=PRESET)
    motes = {node: Mote(learn=Learner(coke(node), period=PERIOD)) for node in PLACES}
    with pytest.raises(netsim.NetsimError, match="Learner: must be in a mote with the part time"):
        site.network().run(motes, until=1)


class WithoutRounds(SharingAgent):
    async def run(self) -> None:
        """Do nothing."""


def test_what_it_refuses() -> None:
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (3, {}, "method = 3: must be a method in rounds"),
        (EF21(cost(0), ROUNDS, eta=0.1), {}, "method = 'EF21': must be a method that runs in rounds and has no server"),
        (
            WithoutRounds(cost(0), ROUNDS),
            {},
            "method = 'WithoutRounds': must be a method that runs in rounds and has no server",
        ),
        (coke(0), {"period": 0.0}, "period = 0.0: must be"),
        (coke(0), {"begin": np.nan}, "begin = nan: must be"),
        (coke(0), {"spread": 6.0}, "spread = 6.0: must be"),
    ]
    for method, words, text in refused:
        with pytest.raises(BadInput, match=re.escape(text)):
            Learner(method, **{"period": PERIOD} | words)


@pytest.mark.slow
def test_the_page_shows_what_its_script_finds() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "examples" / "learning_on_motes.py"))
    one = replace(script["experiment"], seeds=(1,), grid=netsim.vary("network.jammed", [60.0]))
    found = one.run().runs.set_index("method")
    best = np.mean([found.loc[name, "test_mse"] for name in ("running sums", "coded sums")])
    assert found.loc["DKLA", "test_mse"] > 2 * best
    assert found.loc["COKE", "test_mse"] > found.loc["DKLA", "test_mse"]
    assert found.loc["COKE, 4 bits", "test_mse"] > 10 * found.loc["COKE", "test_mse"]
    sending = found["sending_mj"].to_dict()
    assert sending["COKE, 4 bits"] < sending["coded sums"] < sending["COKE"] < sending["DKLA"] < sending["running sums"]
    page = (ROOT / "docs" / "learning_on_motes.md").read_text(encoding="utf-8")
    for name, row in (("DKLA", "DKLA: float64"), ("coded sums", "DKLA with coded sums")):
        (line,) = (line for line in page.splitlines() if line.startswith(f"| {row}"))
        told = float(line.split("|")[4].split()[0])
        assert sending[name] == pytest.approx(told, rel=0.05)
    assert (found["radio_j"] - 131).abs().max() < 1
