"""Feature maps in studies: every study with random features accepts a deep map, and can choose a bandwidth."""

from typing import Any

import numpy as np
import pytest

from netsim.agents.maps.bandwidth import median_distance
from netsim.agents.maps.deep import Deep, MultiPath
from netsim.agents.maps.features import RandomFourier
from netsim.errors import BadInput
from netsim.scenarios.tasks.mapping import TIMES, choose_sigma, feature_map
from netsim.scenarios.tasks.settings import Bandwidth, Setting
from netsim.studies import Study, catalogue
from tests.parts import slow

pytestmark = pytest.mark.usefixtures("all_undrawn")

X = np.random.default_rng(0).random((300, 2))
Y = np.sin(20 * X[:, 0]) * np.cos(15 * X[:, 1])
RESOLVED: dict[str, Any] = {"agents": 4, "edges": 5, "features": 60, "sigma": 0.5, "regularizer": 1e-6}


def made(**settings: Any) -> tuple[Any, Setting, Study]:
    study = Study("test", {})
    phi, setting = feature_map(study, Setting(**RESOLVED | settings), X, Y, seed=3)
    assert study.settings == {}, "what was found is returned"
    return phi, setting, study


def test_a_given_bandwidth_is_kept() -> None:
    phi, setting, _ = made()
    assert isinstance(phi, RandomFourier)
    assert (phi(X) == RandomFourier(2, 60, sigma=0.5, seed=3)(X)).all()
    assert setting == Setting(**RESOLVED)


def test_the_median_distance() -> None:
    phi, setting, _ = made(median=True)
    assert setting.median
    assert setting.sigma == pytest.approx(median_distance(X), rel=0.05)
    assert (phi(X) == RandomFourier(2, 60, sigma=setting.sigma, seed=3)(X)).all()


def test_tuning_finds_the_scale_of_the_target() -> None:
    """The target varies on a scale much shorter than the median distance."""
    phi, setting, study = made(tune=True)
    table = study.tables["bandwidths"]
    assert len(table) == len(TIMES)
    best = table.loc[table["mse"].idxmin()]
    assert best["chosen"]
    assert setting.sigma == best["sigma"] < 0.5 * median_distance(X)
    assert best["mse"] < 0.5 * table["mse"].iloc[-1]
    assert (phi(X) == RandomFourier(2, 60, sigma=best["sigma"], seed=3)(X)).all()


def test_deep_maps_have_the_median_below() -> None:
    deep, paths = made(map="DKL")[0], made(map="DKL-MLP")[0]
    assert isinstance(deep, Deep)
    assert isinstance(paths, MultiPath)
    assert (deep.size, paths.size) == (60, 120)
    first = RandomFourier(2, 60, sigma=0.5, seed=3)(X)
    assert (paths(X)[:, 60:] == first).all()
    assert (paths(X)[:, :60] == deep(X)).all()


def test_what_cannot_be() -> None:
    with pytest.raises(BadInput, match="did you mean 'DKL'"):
        made(map="DKLL")
    for name in ("coke", "polk"):
        with pytest.raises(BadInput, match="median = True, tune = True: must be one of the two"):
            catalogue.find_study(name).execute(median=True, tune=True)
    for name in ("coke", "online"):
        with pytest.raises(BadInput, match="sigma = 7, tune = True: must be one of the two"):
            catalogue.find_study(name).execute(sigma=7.0, tune=True)
    with pytest.raises(BadInput, match="must go with 5 samples at least; there are 4"):
        choose_sigma(Study("test", {}), 1.0, Bandwidth(tune=True), X[:4], Y[:4], seed=3)
    with pytest.raises(BadInput, match="features = None: must be a whole number"):
        feature_map(Study("test", {}), Setting(sigma=1.0), X, Y, seed=3)
    with pytest.raises(BadInput, match="data = 'drift': must be a table for another map"):
        catalogue.find_study("dynamic").execute(map="DKL")


@pytest.mark.parametrize("name", ["coke", "online", "frontier"])
@pytest.mark.parametrize("kind", ["DKL", "DKL-MLP"])
def test_every_scenario_takes_a_deep_map(name: str, kind: str) -> None:
    options: dict[str, Any] = {"agents": 3, "features": 6, "rounds": 4, "map": kind, "median": True}
    if name == "frontier":
        options |= {"coders": "float32", "censors": "none", "methods": "DKLA,ODKLA"}
    study = catalogue.find_study(name).execute(**options)
    sizes = {len(agent.theta) for run in study.runs.values() for agent in run.agents.values()}
    assert sizes == {(12 if kind == "DKL-MLP" else 6) * (2 if name == "online" else 1)}
    assert study.settings["sigma"] > 0


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *[("polk", "median"), slow("polk", "tune"), slow("projections", "median")],
        *[("projections", "tune"), ("privacy", "median"), slow("privacy", "tune")],
    ],
)
def test_studies_of_kernels_choose_their_bandwidth(name: str, way: str) -> None:
    options: dict[str, Any] = {
        "polk": {"agents": 3, "samples": 64, "density": 1.0, "compare": False},
        "projections": {"agents": 6, "examples": 40, "radius": 0.5, "sweeps": 2, "orders": "token"},
        "privacy": {"agents": 3, "samples": 10, "public": 3, "rounds": 4, "features": 5},
    }[name]
    study = catalogue.find_study(name).execute(**options | {way: True})
    given = catalogue.find_study(name).execute(**options)
    assert 0 < study.settings["sigma"] != given.settings["sigma"]
    assert ("bandwidths" in study.tables) == (way == "tune")
    # The chosen value changes the run.
    assert study.trace_hash != given.trace_hash


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("coke", {"rho": 0.0}, "rho = 0.0: must be a number > 0"),
        ("coke", {"regularizer": -1.0}, "regularizer = -1.0: must be a number >= 0"),
        ("coke", {"eta": -1.0}, "eta = -1.0: must be a number > 0"),
        ("frontier", {"rho": 0.0}, "rho = 0.0: must be a number > 0"),
        ("polk", {"penalty": float("nan")}, "penalty = nan: must be"),
        ("polk", {"density": float("nan")}, "density = nan: must be a probability"),
        ("polk", {"limit": 7.0, "doubling": 0}, "limit = 7.0: must be"),
        ("polk", {"sigma": 1.0, "tune": True}, "sigma = 1: must be left out"),
        ("projections", {"sigma": 1.0, "median": True}, "sigma = 1: must be left out"),
    ],
)
def test_bad_parameters_are_refused_before_any_run(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        catalogue.find_study(name).execute(**options)
    assert message in str(caught.value)


def test_an_algorithm_named_twice_runs_once() -> None:
    study = catalogue.find_study("coke").execute(algorithms="COKE,COKE", rounds=2, features=4, agents=3)
    assert list(study.runs) == ["COKE"]
