"""The seeds of a study's data, graph and links: each affects only its own draws, and defaults to --seed."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Link, Network, results, topology
from netsim.agents import DKLA
from netsim.scenarios.tasks.problems import KernelRegression
from netsim.scenarios.tasks.settings import Channel
from netsim.studies import catalogue
from netsim.studies.catalogue import listed
from netsim.studies.experiment import Setup
from netsim.studies.seeds import DataSeed, GraphSeeds, Seeds
from netsim.util import draws
from tests.command import ROOT

pytestmark = pytest.mark.usefixtures("all_undrawn")

SMALL: dict[str, dict[str, Any]] = {
    "coke": {"agents": 4, "features": 8, "rounds": 6, "loss": 0.3, "algorithms": "DKLA"},
    "online": {"agents": 4, "features": 8, "rounds": 6, "loss": 0.3, "algorithms": "ODKLA"},
    "dynamic": {"agents": 4, "features": 8, "rounds": 30, "loss": 0.3, "algorithms": "DDKL", "compare_bits": ""},
    "averaging": {"agents": 10, "radius": 0.6, "loss": 0.3},
    "pushsum": {"agents": 10, "radius": 0.6, "loss": 0.3, "rounds": 6},
    "flooding": {"agents": 10, "radius": 0.6, "loss": 0.3},
    "election": {"agents": 6, "loss": 0.3},
}


@pytest.mark.parametrize("name", SMALL)
def test_seeds_that_are_given_as_seed_give_the_same_run(name: str) -> None:
    study = catalogue.find_study(name)
    own = [each.name for each in study.parameters if each.name.endswith("_seed")]
    assert own
    usual = study.execute(seed=3, **SMALL[name])
    given = study.execute(seed=3, **dict.fromkeys(own, 3), **SMALL[name])
    assert given.trace_hash == usual.trace_hash
    assert all(usual.settings[each] is None for each in own)
    for each in own:
        assert study.execute(seed=3, **{each: 4}, **SMALL[name]).trace_hash != usual.trace_hash, each


def batch(**seeds: int) -> tuple[Any, Any, Any]:
    """Return the task with its samples and frequencies, the sorted edges, and the network of some seeds."""
    setup = Setup(Seeds(**seeds), 3)
    task = KernelRegression(agents=5, features=6).make(setup)
    network = Channel(loss=0.3).network(dataclasses.replace(setup, graph=task.graph))
    return task, sorted(task.graph.edges), network


def test_each_seed_draws_what_it_names_and_nothing_else() -> None:
    usual, edges, network = batch(seed=1)
    data, same_edges, _ = batch(seed=1, data_seed=2)
    assert same_edges == edges
    assert not np.array_equal(data.problems[0].targets, usual.problems[0].targets)
    graph, other_edges, _ = batch(seed=1, graph_seed=2)
    assert other_edges != edges
    assert np.array_equal(graph.problems[0].features, usual.problems[0].features)
    links, same_edges, other = batch(seed=1, loss_seed=2)
    assert same_edges == edges
    assert np.array_equal(links.problems[0].features, usual.problems[0].features)
    assert (network.seed, network.link_seed, other.seed, other.link_seed) == (1, 1, 1, 2)
    another, _, _ = batch(seed=2, data_seed=1, graph_seed=1, loss_seed=1)
    assert np.array_equal(another.problems[0].targets, usual.problems[0].targets)
    assert not np.array_equal(another.problems[0].features, usual.problems[0].features), "of the features' map"


def lost(seed: int | tuple[int, int]) -> tuple[str, float]:
    """Run the same agents on lossy links; return the trace hash, and a number that an agent draws."""
    task, _, _ = batch(seed=1)
    agents = {node: DKLA(task.cost(node), 6, rho=0.1) for node in task.nodes}
    run = Network(task.graph, Link(loss=0.3), seed=seed).run(agents)
    return run.trace_hash, float(agents[0].rng.random())


def test_a_network_takes_two_seeds_of_agents_and_of_links() -> None:
    (both, drawn), (same, again) = lost(1), lost((1, 1))
    assert (same, again) == (both, drawn)
    links, kept = lost((1, 2))
    assert links != both
    assert kept == drawn, "what agents draw stays"
    agents, other = lost((2, 1))
    assert agents == both, "these agents draw nothing, so that their frames are the same"
    assert other != drawn


@pytest.mark.parametrize(
    ("seed", "says"),
    [
        ((1, 2, 3), "seed = (1, 2, 3): must be a whole number >= 0, or two: of agents and of links"),
        ((1, -2), "seed[1] = -2: must be a whole number >= 0"),
        (-1, "seed = -1: must be a whole number >= 0"),
    ],
)
def test_a_network_refuses_other_seeds(seed: Any, says: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(says)}$"):
        Network(topology.path(2), seed=seed)


def test_seeds_that_are_none_are_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"^graph_seed = -1: must be a whole number >= 0"):
        catalogue.find_study("coke").execute(graph_seed=-1)
    assert Seeds(seed=3, data_seed=1).text == "seed 3, data seed 1"
    assert GraphSeeds(seed=3).network == (3, 3)


def test_repetitions_follow_from_each_seed() -> None:
    plain, own = Seeds(seed=3).repeated(3), Seeds(seed=3, data_seed=5).repeated(3)
    assert [each.seed for each in plain] == [each.seed for each in own]
    assert [each.data for each in plain] == [each.seed for each in plain]
    assert [each.data for each in own] == [each.data for each in DataSeed(seed=5).repeated(3)]


def test_a_derived_seed_is_always_the_same_and_no_other_runs() -> None:
    assert draws.derived(0, 1, "kernel") == 15209875579500018408
    found = {draws.derived(seed, name, what) for seed in range(20) for name in range(1, 5) for what in ("kernel", "x")}
    assert len(found) == 160
    assert min(found) > 10**15, "none of them is a seed that a study is given"
    assert max(found) < 2**64


def test_no_study_adds_to_a_seed() -> None:
    """If a study used seed + 1, one run's draws would repeat in the run of the next seed."""
    for path in sorted((ROOT / "scenarios").rglob("*.py")):
        # polk deliberately runs problems with successive seeds, and intel_lab prints a range of seeds to run.
        if path.parent.name != "polk" and path.name != "intel_lab.py":
            assert not re.findall(r"\bseeds?(?:\.\w+)? \+ (?!self)", path.read_text()), path


def test_studies_that_draw_have_seeds_for_it() -> None:
    seeds = {
        name: {each.name for each in catalogue.find_study(name).parameters if each.name.endswith("_seed")}
        for name in listed()
    }
    without = {name for name, found in seeds.items() if not found}
    assert without == {"aloha", "bench", "generals", "papers", "theory", "ulb_library"}, (
        "one thing only is drawn, or other studies run"
    )
    assert seeds["packet_loss"] == seeds["coke"] == {"data_seed", "graph_seed", "loss_seed"}


@pytest.mark.slow
def test_one_kind_of_seed_is_swept_and_put_together(tmp_path: Any) -> None:
    from netsim.studies import sweep

    sweep("coke", out=tmp_path / "s", loss_seed=range(3), data_seed=[1, 2], **SMALL["coke"])
    frame = results.load(tmp_path / "s")
    table = results.interval(frame, "train_mse", ["algorithm", "data_seed"], over="loss_seed")
    assert list(table["count"]) == [3, 3]
    assert (table["low"] < table["high"]).all()
