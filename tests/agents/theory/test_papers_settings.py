"""The theorems' bounds at the settings of the papers' experiments equal the numbers in docs/theory.md."""

from math import ceil, log, sqrt

import numpy as np
import pytest

from netsim import topology
from netsim.agents import LocalProblem, RandomFourier, Squared, theory
from netsim.agents.theory.admm import dkla_best_rho, dkla_delta
from netsim.agents.theory.features import features_needed
from netsim.agents.theory.gossip import choco_rate
from netsim.coders import QSGD
from tests.command import ROOT

LARGE = topology.erdos_renyi(20, edges=95, seed=1)
INPUTS = np.random.default_rng(1).normal(size=(20, 500, 5))
PAGE = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8").partition("## At the papers' settings")[2]
ROWS = [line for line in PAGE.partition("\n## ")[0].splitlines() if line.startswith("|")]


def assert_told(number: float, word: str) -> None:
    """Assert that the table row that contains ``word`` shows ``number``, within 5 %."""
    (row,) = (line for line in ROWS if word in line)
    assert float(row.split("|")[3].replace(",", "")) == pytest.approx(number, rel=0.05)


def test_coke_at_its_synthetic_set() -> None:
    phi = RandomFourier(5, 100, sigma=1.0, seed=1)
    costs = [LocalProblem(phi(each), np.zeros(500), loss=Squared(), regularizer=5e-5 / 20) for each in INPUTS]
    curvature, spectrum = theory.Curvature.of(costs), theory.Graph.of(LARGE)
    assert curvature
    assert_told(curvature.M / curvature.m, "M/m")
    for rho, word in ((dkla_best_rho(curvature, spectrum), "best ρ"), (1e-2, "ρ = 0.01")):
        assert_told(ceil(2 * log(10) / log(1 + dkla_delta(curvature, spectrum, rho))), word)


def test_features_of_theorem_3() -> None:
    some = INPUTS[0, :400]
    gram = np.exp(-((some[:, None] - some) ** 2).sum(axis=-1) / 2)
    assert_told(features_needed(gram, 5e-5), "theorem 3")


def test_regret_of_gossip_omkl() -> None:
    contraction = theory.contraction(QSGD(3), 40)
    assert contraction
    rate = choco_rate(theory.Mixing.of(topology.metropolis_weights(LARGE)), contraction.delta)
    assert_told(0.01 * sqrt(12) / rate, "theorem 1")
