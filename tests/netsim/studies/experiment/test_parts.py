"""The components of an experiment, and the dotted paths that name their settings."""

import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from joblib.externals.loky.cloudpickle_wrapper import dumps

import netsim
from netsim import (
    BadInput,
    Between,
    Deployment,
    Experiment,
    Link,
    Links,
    Method,
    Network,
    agents,
    product,
    topology,
    vary,
)
from netsim.agents import COKE, DKLA, DPSGD, EF21, Geometric, RunningSums
from netsim.coders import Coder, ErrorFeedback, Exact, Float, Uniform
from netsim.links.measured import from_reception
from netsim.studies.experiment.folder import send_caches
from netsim.studies.experiment.methods import default_of
from tests.netsim.studies.experiment.parts import Counts, counting, least_squares, small, total

# --- paths ------------------------------------------------------------------------------------------------------------


def test_a_part_changes_by_a_copy() -> None:
    before = small(methods={"COKE": Method(COKE, rho=0.1, censor=Geometric(1.0, 0.9))})
    after = before.with_values({"methods.COKE.censor.mu": 0.5, "network.link.loss": 0.2, "rounds": 7})
    assert after.values("methods.COKE.censor.mu") == [0.5]
    assert after.rounds == 7
    assert before.values("methods.COKE.censor.mu") == [0.9]
    assert before.rounds == 20


def test_a_part_checks_its_values_again() -> None:
    before = small(methods={"COKE": Method(COKE, rho=0.1, censor=Geometric(1.0, 0.9))})
    with pytest.raises(BadInput, match="mu"):
        before.with_values({"methods.COKE.censor.mu": 2.0})
    with pytest.raises(BadInput, match="probability"):
        before.with_values({"network.link.loss": 1.5})


def test_method_stands_for_all_that_have_the_parameter() -> None:
    found = small().with_values({"method.rho": 0.7})
    assert found.values("methods.DKLA.rho") == [0.7]
    assert found.values("methods.D-PSGD.eta") == [0.1]


@pytest.mark.parametrize("path", ["method.rhoo", "methods.DKLA.rho.x", "networks.lossy.link.loss", "problem.nois"])
def test_a_path_to_nothing_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="path = "):
        small().with_values({path: 1.0})
    with pytest.raises(BadInput, match="path = "):
        small(grid=vary(path, [1.0]))
    with pytest.raises(BadInput, match="path = "):
        small(names={"short": path})


def test_the_nearest_path_is_named() -> None:
    with pytest.raises(BadInput, match=r"did you mean 'methods.DKLA.rho'\?"):
        small().with_values({"methods.DKLA.rhoo": 1.0})


@pytest.mark.parametrize(
    ("path", "nearest"),
    [("method.rhoo", "method.rho"), ("network.link.los", "network.link.loss"), ("problem.nois", "problem.noise")],
)
def test_a_refused_path_is_shown_as_it_was_written(path: str, nearest: str) -> None:
    both = {"a": Link(), "b": Link(loss=0.1)}
    for networks in (None, both):
        with pytest.raises(BadInput, match=rf"^path = '{path}': .*did you mean '{nearest}'\?\)$"):
            small(networks=networks).with_values({path: 0.5})
    with pytest.raises(BadInput, match=rf"^path = '{path}': "):
        small(names={"short": path})
    with pytest.raises(BadInput, match=r"^path = 'method\.rhoo': "):
        small().tune({"method.rhoo": Between(0.1, 1.0)})
    with pytest.raises(BadInput, match=r"^over = 'network\.link\.loss': must be a path of methods"):
        small().tune({"network.link.loss": Between(0.1, 1.0)})


def test_names_with_full_stops_are_names() -> None:
    found = small(methods={"v1.2": Method(DKLA, rho=0.1)}).with_values({"methods.v1.2.rho": 0.5})
    assert found.values("methods.v1.2.rho") == [0.5]


def test_a_short_name_may_stand_for_several_paths() -> None:
    names = {"rate": ["methods.DKLA.rho", "methods.D-PSGD.eta"]}
    assert small(names=names).with_values({"rate": 0.3}).values("rate") == [0.3, 0.3]


def test_coders_are_parts_whatever_they_call_their_arguments() -> None:
    class Rounds(Coder):
        def __init__(self, digits: int, *, inner: Coder | None = None) -> None:
            self.step = 10.0**-digits
            self.inner = inner or Exact()

        def encode(self, vector: Any, rng: Any = None, /) -> Any:
            return self.inner.encode(np.round(np.asarray(vector) / self.step) * self.step)

    found = small(methods={"mine": Method(DKLA, rho=0.1, coder=ErrorFeedback(Rounds(3)))})
    assert found.values("methods.mine.coder.coder.digits") == [3]
    after = found.with_values({"methods.mine.coder.coder.digits": 2})
    assert after.values("methods.mine.coder")[0].arguments["coder"].step == 0.01


def test_paths_lists_every_value_with_its_short_name() -> None:
    table = small(names={"loss": "network.link.loss"}).paths().set_index("path")
    assert table.loc["methods.DKLA.rho", "value"] == "0.1"
    assert table.loc["networks.link.loss", "name"] == "loss"
    assert table.loc["problem.agents", "value"] == "4"


# --- methods ----------------------------------------------------------------------------------------------------------


def test_product_names_variants_by_their_values() -> None:
    found = product(Method(DKLA, rho=0.1), coder={"": Exact(), "half": Float(16)}, duals={"sums": RunningSums()})
    assert list(found) == ["sums", "half sums"]
    runs = small(methods=found, seeds=[0], rounds=2).run().runs
    assert list(runs["coder"]) == ["", "half"]
    assert list(runs["duals"]) == ["sums", "sums"]


def test_two_variants_of_one_name_are_refused() -> None:
    with pytest.raises(BadInput, match="one variant 'a'"):
        product(
            Method(DKLA, rho=0.1), coder={"a": Exact(), "": Uniform(4)}, duals={"": RunningSums(), "a": RunningSums()}
        )


def test_a_function_makes_agents_and_its_arguments_are_parameters() -> None:
    def made(setup: Any, step: int = 1) -> dict[Any, netsim.Agent]:
        return {node: Counts(setup.rounds, step) for node in setup.graph}

    found = counting(methods={"made": made}, grid=vary("method.step", [1, 5])).run()
    assert list(found.runs["total"]) == [9, 45]


def test_an_argument_may_be_a_function_of_the_node() -> None:
    found = counting(methods={"each": Method(Counts, step=lambda setup, node: node)}).run()
    assert list(found.runs["total"]) == [9]


def test_a_method_may_have_a_cost_or_rounds_of_its_own() -> None:
    def shifted(setup: Any, node: int, by: int = 0) -> Any:
        return setup.task.cost((node + by) % len(setup.graph))

    own = Method(DPSGD, eta=0.1, cost=shifted)
    methods = {"usual": Method(DPSGD, eta=0.1), "own": own, "short": Method(DPSGD, eta=0.1, count=5)}
    found = small(methods=methods, seeds=[0])
    ends = found.run().runs.set_index("method")
    assert ends.loc["own", "gap"] == ends.loc["usual", "gap"]
    assert found.play("short").rows == 5
    assert found.play("own").ledger.totals() == found.play("usual").ledger.totals()
    assert np.allclose(found.play("own").agents[1].theta, found.play("usual").agents[1].theta)
    other = found.with_values({"methods.own.cost.by": 1}).play("own")
    assert not np.allclose(other.agents[1].theta, found.play("usual").agents[1].theta)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({}, "methods = {}: must be one at least"),
        ({"": DKLA, "b": DKLA}, "methods: name = ''"),
        ({"a": 3}, "methods = 3: must be a Method, a class of agents, or a function of a Setup"),
        ({"a": Link}, "methods = .*Link.*: must be a Method"),
    ],
)
def test_what_is_no_method_is_refused(methods: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        small(methods=methods)


def test_an_unknown_argument_of_a_class_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadInput, match=r"parameter of DKLA = 'rh0'.*did you mean 'rho'"):
        Method(DKLA, rh0=0.1)


def test_a_missing_argument_is_named_before_anything_runs() -> None:
    with pytest.raises(BadInput, match=r"methods: DKLA: .*misses the argument 'rho'|methods: DKLA: .*'rho'"):
        small(methods={"DKLA": DKLA}).run()


def test_agents_of_a_server_run_over_a_star_of_the_problems_nodes() -> None:
    run = small(methods={"EF21": Method(EF21, eta=0.05)}).play()
    assert set(run.agents) == set(range(4))
    assert set(run.ledger.table()["sender"]) == set(range(4))
    assert all(0 in ends for ends in run.ledger.table()[["sender", "receiver"]].to_numpy().tolist())


def test_a_server_over_links_that_are_functions_of_their_ends_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"methods: EF21 .*star"):
        small(methods={"EF21": Method(EF21, eta=0.05)}, networks=Links(link=lambda ends: Link())).run()


STEPS = {"rho": 0.1, "eta": 0.05, "gamma": 0.3, "beta": 0.05, "alpha": 0.05}
BASES = {"Diffusion", "Dual", "Gossip", "OverStar", "Push", "SharingAgent", "Tracking"}
FIT = [
    *("ADPSGD", "BEER", "CHOCO", "COKE", "CTA", "DIGing", "DKLA", "DPSGD", "EF21", "EF21P", "EXTRA", "FedAvg", "LEAD"),
    *("LTADMM", "PushDIGing", "RelaxedADMM", "SCAFFOLD", "SGP"),
]


def learners() -> list[str]:
    """Return the names of all algorithms that need a cost."""
    kinds = {name: getattr(agents, name) for name in agents.__all__}
    return [
        name
        for name, kind in kinds.items()
        if inspect.isclass(kind) and issubclass(kind, netsim.Agent) and "cost" in inspect.signature(kind).parameters
    ]


def steps_of(kind: Any) -> dict[str, float]:
    """Return values for the step sizes that a class requires."""
    required = [
        name for name in inspect.signature(kind).parameters if default_of(kind, name) is inspect.Parameter.empty
    ]
    return {name: STEPS[name] for name in required if name in STEPS}


class Halves(Coder):
    """A user-defined coder that sends numbers in half precision."""

    def __init__(self, kind: str = "float16") -> None:
        self.kind = kind

    def encode(self, vector: Any, rng: Any = None, /) -> Any:
        return Exact().encode(np.asarray(vector).astype(self.kind).astype(float))


def test_every_method_that_fits_runs_on_a_problem_network_and_loss_of_ones_own() -> None:
    @dataclass(frozen=True)
    class Every:
        """A loss model that loses every third frame."""

        mean: float = 1 / 3

        def on_link(self, u: float) -> Callable[[float], bool]:
            count = iter(range(10**9))
            return lambda _: next(count) % 3 == 2

    methods = {name: Method(getattr(agents, name), **steps_of(getattr(agents, name))) for name in FIT}
    methods["mine"] = Method(DPSGD, eta=0.05, coder=Halves())
    found = small(methods=methods, networks=Links(link=Link(loss=Every())), rounds=4, seeds=[0]).run()
    assert list(found.runs["method"]) == [*FIT, "mine"]
    assert not found.runs["outcome"].isin(["failed"]).any(), found.runs[["method", "why"]]
    assert (found.runs["lost"] > 0).all()


@pytest.mark.parametrize("name", sorted({*learners()} - {*FIT} - BASES))
def test_a_method_that_does_not_fit_is_refused_by_name_in_one_line(name: str) -> None:
    kind = getattr(agents, name)
    with pytest.raises(BadInput) as error:
        small(methods={name: Method(kind, **steps_of(kind))}, rounds=2, seeds=[0]).run()
    assert str(error.value).startswith(f"methods: {name}: ")
    assert "\n" not in str(error.value)


# --- networks and problems --------------------------------------------------------------------------------------------


def test_links_may_be_functions_of_their_ends() -> None:
    def by_distance(ends: Any) -> Link:
        return Link(latency=ends.distance)

    graph = topology.grid(2, 2)
    run = counting(networks=Links(link=by_distance, graph=graph)).play()
    assert run is not None
    network = Links(link=by_distance, graph=graph).network(setup_of(graph))
    assert {repr(link.latency) for link in network.links.values()} == {repr(Link(latency=1.0).latency)}


def fading(ends: Any, mean: float = 0.2, slope: float = 0.0) -> Link:
    return Link(loss=mean + slope * ends.distance)


def field(seed: int, agents: int = 4, radius: float = 2.0) -> "nx.Graph[int]":
    return topology.random_geometric(agents, radius, seed=seed)


def test_keyword_arguments_of_functions_for_links_and_graphs_have_paths() -> None:
    before = counting(networks=Links(link=fading, graph=field))
    assert before.values("network.link.mean") == [0.2]
    assert before.values("network.graph.agents") == [4]
    after = before.with_values({"network.link.mean": 0.5, "network.graph.agents": 5})
    (mine,) = after.cells()
    network = mine.setup().network
    assert network is not None
    assert len(network.graph) == 5
    assert {repr(link.loss) for link in network.links.values()} == {"Bernoulli(mean=0.5)"}
    assert before.values("network.link.mean") == [0.2]
    listed = dict(after.paths()[["path", "value"]].itertuples(index=False, name=None))
    assert (listed["networks.link.mean"], listed["networks.link"]) == ("0.5", "fading(mean=0.5)")
    assert len({next(each.cells()).key for each in (before, after, after.with_values({"network.link.mean": 0.4}))}) == 3


def test_a_function_that_requires_nothing_gets_the_seed_by_its_name() -> None:
    drawn = partial(topology.random_geometric, agents=6, radius=0.6)
    here = counting(networks=Links(graph=drawn), seeds=[0, 1])
    assert "networks.graph.seed" not in list(here.paths()["path"])
    first, second = (cell.setup().graph for cell in here.cells())
    assert first is not None
    assert second is not None
    assert sorted(first.edges) == sorted(topology.random_geometric(6, 0.6, seed=0).edges) != sorted(second.edges)
    assert len(next(here.with_values({"network.graph.agents": 7}).cells()).setup().graph or ()) == 7


def setup_of(graph: "nx.Graph[Any]") -> Any:
    from netsim.studies.experiment import Seeds, Setup

    return Setup(Seeds(), 3, graph=graph)


def test_a_function_of_ends_that_returns_no_link_is_refused() -> None:
    with pytest.raises(BadInput, match=r"must return a netsim\.Link for 0 → 1"):
        counting(networks=Links(link=lambda ends: 0.1, graph=topology.path(2))).run()


@pytest.mark.parametrize(
    "network",
    [
        topology.ring(3),
        Links(graph=lambda seed: topology.erdos_renyi(3, edges=3, seed=seed)),
        lambda setup: Network(topology.ring(3), seed=setup.seeds.network),
        Deployment({0: (0.0, 0.0), 1: (5.0, 0.0), 2: (0.0, 5.0)}),
        from_reception({(a, b): 0.9 for a in range(3) for b in range(3) if a != b}),
        Links(graph=topology.ring(3), medium="radio", compute=0.1),
    ],
)
def test_networks_have_many_forms(network: Any) -> None:
    assert list(counting(networks=network).run().runs["total"]) == [9]


@pytest.mark.parametrize("network", [3, Network, "ring"])
def test_what_is_no_network_is_refused(network: Any) -> None:
    with pytest.raises(BadInput, match="networks = "):
        counting(networks=network)


def test_without_a_problem_a_network_must_have_a_graph() -> None:
    with pytest.raises(BadInput, match="networks: must have a graph"):
        Experiment(methods=Counts, measure=[total]).run()


def test_a_problem_may_take_the_networks_graph() -> None:
    def problem(seed: int, graph: Any) -> Any:
        return least_squares(seed, len(graph))[0], None, lambda models: {"gap": float(models.std())}

    runs = small(problem=problem, networks=topology.star(6), rounds=2, seeds=[0]).run().runs
    assert runs["transmissions"].tolist() == [12, 12]


def test_a_required_argument_of_a_problem_may_be_given_by_its_path() -> None:
    def problem(seed: int, agents: int, noise: float = 0.1) -> Any:
        return least_squares(seed, agents, noise)

    runs = small(problem=problem, grid=vary("problem.agents", [3, 4]), rounds=2, seeds=[0]).run().runs
    assert runs["transmissions"].tolist() == [6, 6, 8, 8]
    same = small(problem=partial(problem, agents=4), rounds=2, seeds=[0])
    assert same.values("problem.agents") == [4]
    assert same.run().runs["gap"].tolist() == runs["gap"].tolist()[2:]


def test_more_costs_than_nodes_are_refused() -> None:
    with pytest.raises(BadInput, match="a cost for each of the network's 3 nodes, not 4"):
        small(networks=topology.ring(3)).run()


def test_runs_of_different_methods_see_the_same_random_numbers() -> None:
    drawn = []

    def network(setup: Any) -> Network:
        drawn.append(float(setup.rng("fade", 1).random()))
        return Network(topology.ring(3), seed=setup.seeds.network)

    counting(methods={"a": Counts, "b": Counts}, networks=network, seeds=[4, 5]).run()
    assert len(set(drawn)) == 2


# --- figures ----------------------------------------------------------------------------------------------------------


def test_a_figure_has_a_panel_for_each_setting_and_at_most_eight_lines() -> None:
    methods = {f"DKLA {number}": Method(DKLA, rho=0.01 * number) for number in range(1, 11)}
    found = small(methods=methods, grid=vary("network.link.loss", [0.0, 0.1]), rounds=3).run()
    figure = found.figure()
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert [len(panel.lines) for panel in panels] == [8, 2, 8, 2]
    assert panels[0].get_title() == "network.link.loss 0, methods 1 of 2"


def test_results_go_to_the_functions_for_tables_of_runs() -> None:
    found = small().run()
    table = netsim.results.paired(found.tidy(), "gap", "D-PSGD", test="wilcoxon")
    assert list(table["algorithm"]) == ["DKLA"]
    assert found.figure("gap", "round").axes[0].get_ylabel() == "gap"
    assert found.tidy(rounds=True)["outcome"].notna().all()


# --- workers ----------------------------------------------------------------------------------------------------------


def test_a_part_whose_function_has_a_cache_is_sent_to_workers() -> None:
    calls = []

    @cache
    def drawn(number: int) -> int:
        calls.append(number)
        return 2 * number

    send_caches()
    sent = pickle.loads(dumps(drawn))
    assert (sent(2), sent(2), sent.cache_info().hits) == (4, 4, 1)
    assert pickle.loads(pickle.dumps(netsim.studies.origin.source_of)) is netsim.studies.origin.source_of
