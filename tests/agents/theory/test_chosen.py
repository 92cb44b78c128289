"""`theory.Chosen`: parameters of an experiment's methods that a theorem chooses for each run."""

import math
from pathlib import Path
from typing import Any

import pytest

from netsim import BadInput, Between, Experiment, Link, Links, Method, Setup, topology
from netsim.agents import CTA, DKLA, EXTRA, LEAD, Geometric, theory
from netsim.agents.theory import Chosen
from netsim.coders import RandomK
from netsim.studies import catalogue
from netsim.studies.experiment import paths
from netsim.studies.experiment.command import ranges_of
from netsim.studies.experiment.content import content
from netsim.studies.experiment.methods import Derived
from netsim.studies.experiment.study import study_of
from netsim.studies.seeds import Seeds
from tests.agents.theory.problems import Ridge


def ridge(graph: Any, **more: Any) -> Any:
    """Return a problem for `netsim.Experiment`: a function of the seed that gives least squares on a graph."""

    def problem(seed: int) -> Any:
        of = Ridge(graph, seed, size=6, **more)
        return of.costs, of.graph, lambda models: {"gap": float(((models - of.optimum) ** 2).mean())}

    return problem


def of_lead(**alpha: Any) -> Experiment:
    """Return an experiment in which LEAD diverges with its default α: RandomK(2) of 6 elements, a complete graph."""
    method = Method(LEAD, eta=Chosen(), gamma=Chosen(), coder=RandomK(2, unbiased=True), **alpha)
    problem = ridge(topology.complete(6), regularizer=3.0)
    return Experiment(methods={"LEAD": method}, problem=problem, rounds=120, seeds=[1])


def gradient(**more: Any) -> Experiment:
    methods = {"CTA": Method(CTA, eta=Chosen("best")), "EXTRA": Method(EXTRA, eta=Chosen("best"))}
    return Experiment(**{"methods": methods, "problem": ridge("ring"), "rounds": 15, "seeds": range(2), **more})


def as_study(*, loss: float = 0.0, seeds: Seeds = Seeds(seed=1)) -> Experiment:
    """Return an experiment with CTA whose step size a theorem chooses.

    Parameters
    ----------
    loss : float
        Probability that a frame is lost.
    """
    methods = {"CTA": Method(CTA, eta=Chosen())}
    return gradient(methods=methods, networks=Links(link=Link(loss=loss)), seeds=[seeds])


class Mine(CTA):
    """CTA with an overridden step, so that no theorem of CTA applies."""

    def local_step(self) -> Any:
        return super().local_step()


def test_lead_converges_where_its_default_diverges() -> None:
    found = of_lead(alpha=Chosen()).run()
    first = found.rounds[found.rounds["round"] == 1]["gap"].max()
    assert found.runs["gap"].max() < 1e-6 * first
    assert not [note for note in found.notes if "outside" in note]
    # Without `Chosen`, LEAD's default α diverges, and a note reports that it is outside its range.
    usual = of_lead().run()
    assert list(usual.runs["outcome"]) == ["diverged"]
    assert usual.runs["gap"].max() > 10 * first
    assert [note for note in usual.notes if note.startswith("LEAD: alpha = 0.5: outside the range")]


def test_each_run_has_what_is_chosen_of_its_costs() -> None:
    experiment = gradient()
    runs = experiment.run().runs
    for name, kind in (("CTA", CTA), ("EXTRA", EXTRA)):
        for seed in range(2):
            agents: Any = experiment.play(name, seed).agents
            of = Ridge("ring", seed, size=6)
            expected = theory.choose(of.agents(kind, 15, eta=0.01), of.graph, "best")["eta"]
            assert [agent.eta for agent in agents.values()] == pytest.approx([expected] * 5, rel=1e-12)
            (kept,) = runs[(runs["method"] == name) & (runs["seed"] == seed)]["chosen_eta"]
            assert kept == next(iter(agents.values())).eta
    assert runs["chosen_eta"].nunique() == 4


def test_all_values_of_a_run_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def choose(agents: Any, graph: Any, by: str) -> Any:
        asked.append(by)
        return theory.choose(agents, graph, by)

    monkeypatch.setattr("netsim.agents.theory.chosen.choose", choose)
    first = next(of_lead(alpha=Chosen()).cells())
    setup, method = first.setup(), first.method
    assert isinstance(method, Method)
    # A study creates one agent for a check, and all agents for the run: the theorem must be evaluated only once.
    assert len(method.agents(setup, [0])) == 1
    assert len(method.agents(setup)) == 6
    assert asked == ["guaranteed"]


@pytest.mark.parametrize(
    ("method", "networks", "why"),
    [
        (
            Method(CTA, eta=Chosen()),
            Link(loss=0.1),
            "parameter = Chosen(): must be a number here; theorems are not for links",
        ),
        (
            Method(LEAD, eta=Chosen(), gamma=0.1, censor=Geometric(0.1, 0.9)),
            None,
            "(theorem 1 of LEAD: not for a censor)",
        ),
        (Method(Mine, eta=Chosen()), None, "(no theorem of this algorithm is known)"),
        (Method(CTA, eta=0.1, coder=Chosen()), None, "coder = Chosen(): must be another value; it gives eta only"),
        (Method(CTA, eta=Chosen("best")), "ring of 80", "must be 'guaranteed' for more than 400 numbers"),
    ],
)
def test_refused_in_one_line_before_anything_runs(method: Method, networks: Any, why: str, tmp_path: Path) -> None:
    graph = topology.ring(80) if networks == "ring of 80" else "ring"
    links = None if isinstance(networks, str) else networks
    with pytest.raises(BadInput) as raised:
        Experiment(methods={"m": method}, problem=ridge(graph), networks=links, rounds=3, seeds=[0]).run(tmp_path)
    assert str(raised.value).startswith("methods: m: ")
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "runs").glob("*"))


def test_refused_without_a_network_and_by_another_word() -> None:
    of = Ridge("ring", 0)
    task: Any = type("Task", (), {"cost": of.costs.__getitem__, "weights": of.rows.__getitem__})
    with pytest.raises(BadInput, match="theorems are not for agents without their network"):
        Method(CTA, eta=Chosen()).agents(Setup(Seeds(), 3, graph=of.graph, task=task))
    with pytest.raises(BadInput, match="by = 'first': must be"):
        Chosen("first")


def test_cells_are_kept_and_found_again(tmp_path: Path) -> None:
    assert gradient().run(tmp_path).ran == 4
    assert gradient().run(tmp_path).ran == 0
    other = gradient().with_values({"methods.CTA.eta": Chosen()})
    assert other.run(tmp_path).ran == 2
    assert content(Chosen()) != content(Chosen("best"))
    assert content(Chosen("best")) == content(Chosen("best"))


def test_paths_end_at_it() -> None:
    assert [repr(each) for each in (Chosen(), Chosen("best"))] == ["Chosen()", "Chosen('best')"]
    assert isinstance(Chosen(), Derived)
    method = Method(EXTRA, eta=Chosen("best"))
    assert repr(method) == "Method(EXTRA, eta=Chosen('best'))"
    assert [path for path, _ in paths.places(method) if path.startswith("eta")] == ["eta"]


def test_tuning_begins_with_what_is_chosen() -> None:
    experiment = gradient(methods={"EXTRA": Method(EXTRA, eta=Chosen("best"))}, networks=Links())
    assert ranges_of(experiment, ["EXTRA.eta=0.1:0.2"]) == {"methods.EXTRA.eta": Between(0.1, 0.2)}
    # The other candidates are far too small, so the theorem's step must win.
    tuned = experiment.tune({"method.eta": Between(1e-6, 1e-5, log=True)}, candidates=3, seeds=[100], validation=[200])
    assert tuned.chosen["candidate"][0] == 0
    assert tuned.chosen["eta"][0] == "Chosen('best')"
    assert tuned.notes == []
    assert tuned.experiment.run().runs["chosen_eta"].nunique() == 2
    # The other candidate is too large and diverges, so the theorem's step must win.
    tuned = experiment.tune({"method.eta": Between(1e-6, 1e6)}, candidates=2, seeds=[100], validation=[])
    assert tuned.chosen["candidate"][0] == 0
    assert math.isnan(Between(0.1, 0.2).place(Chosen()))


def test_tuning_searches_the_range_of_the_theorems_where_none_is_given() -> None:
    experiment = gradient(methods={"EXTRA": Method(EXTRA, eta=0.01)}, networks=Links())
    assert ranges_of(experiment, ["EXTRA.eta"]) == {"methods.EXTRA.eta": None}
    seeds = [100, 101]
    tuned = experiment.tune({"method.eta": None}, candidates=4, seeds=seeds, validation=[])
    problems = [Ridge("ring", seed, size=6) for seed in seeds]
    every = [theory.ranges(of.agents(EXTRA, 15, eta=0.01), of.graph) for of in problems]
    # The largest convergent step is exact for these costs; the smallest one over both seeds limits the search.
    edge = min(each.high for found in every for each in found if each.exact)
    tried = tuned.table[tuned.table["seed"] == 100]["eta"].to_list()
    chosen = theory.choose(problems[0].agents(EXTRA, 15, eta=0.01), problems[0].graph)["eta"]
    assert [float(each) for each in tried[1:]] == pytest.approx([chosen, edge / 100, 0.99 * edge], rel=1e-4)
    searched = (
        f"EXTRA: eta is searched in {Between(edge / 100, 0.99 * edge, log=True)}, within the range in which EXTRA"
    )
    assert tuned.notes[0] == f"{searched} converges on these costs (0, {edge:.3g}) (exact)."
    assert set(tuned.table["outcome"]) <= {"converged", "unfinished"}


def test_parameters_of_one_theorem_are_searched_about_what_it_chooses() -> None:
    tuned = of_lead(alpha=0.5).tune(
        {"method.alpha": None, "method.gamma": None}, candidates=4, seeds=[5], validation=[]
    )
    of = Ridge(topology.complete(6), 5, size=6, regularizer=3.0)
    coder = RandomK(2, unbiased=True)
    chosen = theory.choose(of.agents(LEAD, 120, eta=0.1, gamma=0.1, alpha=0.1, coder=coder), of.graph)
    (first,) = tuned.table[tuned.table["candidate"] == 1].to_dict("records")
    assert [float(first[name]) for name in ("alpha", "gamma")] == pytest.approx(
        [chosen["alpha"], chosen["gamma"]], rel=1e-3
    )
    ranges = theory.ranges(of.agents(LEAD, 120, coder=coder, **chosen), of.graph)
    promised = {each.parameter: each.promise() for each in ranges}
    for name in ("alpha", "gamma"):
        assert [note for note in tuned.notes if f"{name} is searched" in note and promised[name] in note]


@pytest.mark.parametrize(
    ("method", "link", "why"),
    [
        (Method(DKLA, rho=0.1), Link(), "rho: must be a parameter for which a theorem gives a range"),
        (Method(CTA, eta=0.1), Link(loss=0.1), "theorems are not for links that lose frames"),
        (Method(Mine, eta=0.1), Link(), "no theorem has one"),
    ],
)
def test_a_range_is_asked_for_where_no_theorem_has_one(method: Any, link: Link, why: str) -> None:
    parameter = next(iter(method.given))
    with pytest.raises(BadInput) as raised:
        gradient(methods={"m": method}, networks=link).tune({f"method.{parameter}": None}, seeds=[100])
    assert str(raised.value).startswith(f"over = 'm.{parameter}': must be PATH=LOW:HIGH or LOW:HIGH:log")
    assert why in str(raised.value)


def test_a_study_tells_the_value_that_was_used() -> None:
    study = catalogue._describe("mine", study_of(as_study)).execute()
    eta = study.origin["methods"]["CTA"]["eta"]
    of = Ridge("ring", 1, size=6)
    assert eta == theory.choose(of.agents(CTA, 15, eta=0.01), of.graph)["eta"]
    with pytest.raises(BadInput, match="theorems are not for links that lose frames"):
        catalogue._describe("mine", study_of(as_study)).execute(loss=0.1)
