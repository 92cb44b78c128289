"""DKL-MLP over a network: a deep model, a matrix for C classes, learned by DKLA, COKE and QC-ODKLA."""

import dataclasses
from dataclasses import dataclass
from typing import Self

import networkx as nx

from netsim import topology
from netsim.agents import COKE, DKLA, ODKLA, Geometric
from netsim.agents.costs.classes import ClassProblem, OnlineClasses
from netsim.agents.costs.stream import Samples as Stream
from netsim.coders import Uniform
from netsim.scenarios.data.samples import DIGITS, ClassSamples
from netsim.scenarios.data.tables import AgentData, deal, enough, training
from netsim.scenarios.deep.maps import Shape, choose_times, in_words, kernels_in
from netsim.scenarios.deep.network_report import Case, Links, report
from netsim.scenarios.tasks.classes import ClassTask, Criterion, ridge_regularizer, signs
from netsim.scenarios.tasks.method import Method, Task
from netsim.scenarios.tasks.settings import Channel
from netsim.studies import Study
from netsim.util import check, draws

_TRAIN_SHARE = 0.75


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of the network, and how long it learns.

    Parameters
    ----------
    agents : int
        Number of agents.
    edges : int
        Number of edges of the random graph; by default two for each agent.
    rounds : int
        Number of rounds.
    """

    agents: int = 10
    edges: int | None = None
    rounds: int = 400

    def resolved(self) -> Self:
        """Return it with two edges for each agent, as far as there are pairs, if they were left open."""
        agents = check.integer("agents", self.agents, low=1)
        check.integer("rounds", self.rounds, low=1)
        usual = min(agents * (agents - 1) // 2, max(agents - 1, 2 * agents))
        return dataclasses.replace(self, edges=usual) if self.edges is None else self

    def graph(self, seed: int) -> "nx.Graph[int]":
        """Return a connected random graph of that size, nothing left open."""
        return topology.erdos_renyi(self.agents, edges=self.edges, seed=seed)


@dataclass(frozen=True, kw_only=True)
class Model(Criterion):
    """The map of DKL-MLP, and what the models are learned by.

    Parameters
    ----------
    width : int
        Random frequencies of a layer of DKL-MLP.
    layers : int
        Number of layers of DKL-MLP.
    kernels : str
        "gaussian", "laplacian" or "cauchy" for all layers, or one for each with commas between.
    tune : bool
        Choose the bandwidths by cross-validated ridge regression; else they are the median distances.
    criterion : str
        Loss: "squared", whose exact steps are products with one matrix; "logistic" and "hinge", whose steps are
        searched for, take minutes.
    """

    width: int = 100
    layers: int = 2
    kernels: str = "gaussian"
    tune: bool = True
    criterion: str | None = "squared"

    def shapes(self) -> tuple[Shape, Shape]:
        """Return DKL-MLP, and RF-KL with as many features as all its layers have."""
        check.integer("layers", self.layers, low=1)
        check.integer("width", self.width, low=1)
        deep = Shape("DKL-MLP", (self.width,) * self.layers, tuple(kernels_in(self.kernels, self.layers)))
        return deep, Shape("RF-KL", (deep.features,), deep.kernels[:1])


@dataclass(frozen=True, kw_only=True)
class Methods:
    """The settings of the methods.

    Parameters
    ----------
    rho : float
        Penalty of DKLA and COKE.
    threshold : float
        COKE and QC-ODKLA broadcast in round k if their change has norm >= threshold * decay^k.
    decay : float
        Decay of the threshold per round.
    online_rho : float
        Penalty of QC-ODKLA.
    eta : float
        QC-ODKLA's weight of staying where one is: the larger, the shorter the step.
    bits : int
        Bits an element of QC-ODKLA's messages (1-16), range per message.
    """

    rho: float = 5e-4
    threshold: float = 8.0
    decay: float = 0.985
    online_rho: float = 1.0
    eta: float = 3.0
    bits: int = 4

    def check(self) -> None:
        """Raise BadInput for what is outside its range."""
        for name in ("rho", "online_rho", "eta"):
            check.finite(name, getattr(self, name), above=0.0)
        Geometric(self.threshold, self.decay)
        Uniform(self.bits)

    def named(self, name: str) -> Method:
        """Return DKLA, COKE or QC-ODKLA."""
        censor = Geometric(self.threshold, self.decay)
        if name == "QC-ODKLA":
            return Method(name, ODKLA, {"rho": self.online_rho, "eta": self.eta}, censor, Uniform(self.bits))
        return (
            Method(name, DKLA, {"rho": self.rho}) if name == "DKLA" else Method(name, COKE, {"rho": self.rho}, censor)
        )


class Passes:
    """A task's samples as streams without end: each pass over an agent's samples is in another random order."""

    def __init__(self, task: ClassTask, seed: int) -> None:
        self.nodes, self.weights = task.nodes, task.weights
        self._problems, self._seed = task.problems, seed

    def cost(self, node: int) -> OnlineClasses:
        """Return an agent's cost of one sample a round, at the start of its stream."""
        problem = self._problems[node]
        stream = _passes(problem, self._seed, node)
        return OnlineClasses(stream, problem.size[0], loss=problem.loss, regularizer=problem.regularizer)


def deep_network(
    study: Study,
    *,
    data: str = DIGITS,
    samples: ClassSamples = ClassSamples(),  # noqa: B008 (frozen)
    size: Size = Size(),
    model: Model = Model(),
    methods: Methods = Methods(),
    channel: Channel = Channel(loss=0.1),
    seed: int = 0,
) -> None:
    """DKL-MLP and RF-KL learned by DKLA, COKE, QC-ODKLA over a network (P. Xu's dissertation, section 5.6).

    On ideal links first, then DKLA and COKE on the links that are given. RF-KL has as many random features as DKL-MLP
    has in all its layers, so that their models and messages are of one size. About a minute with the defaults.

    Parameters
    ----------
    data : str
        "digits" (comes with scikit-learn), or a table of classes: its name in the folder NETSIM_DATA, or its path
        (.csv.gz, .csv, .npz, .parquet).
    samples : ClassSamples
        Which samples are learned from; the target must be classes.
    size : Size
        The size of the network, and how long it learns.
    model : Model
        The map of DKL-MLP, and what the models are learned by.
    methods : Methods
        The settings of the methods.
    channel : Channel
        The links; ideal ones are run before them in any case.
    seed : int
        Seed of everything random.
    """
    size = size.resolved()
    shapes = model.shapes()
    methods.check()
    table, classes = samples.load(data, seed)
    enough(len(table.target), size.agents, 2)  # before a graph of so many is built
    links = _links(channel)
    graph = size.graph(seed)
    networks = {each: each.channel.network(graph, seed) for each in links}
    model = model.resolved(data, len(classes))
    parts = deal(table, size.agents, train_share=_TRAIN_SHARE, seed=seed)
    for text in table.said:
        study.note(text)
    study.record(samples, size, model, methods)
    tasks = _tasks(study, shapes, parts, len(classes), model, seed)
    cases = []
    for shape, task in tasks.items():
        best = task.measures(task.optimum()[None])
        study.centralised |= {f"{shape.name} {name}": value for name, value in best.items()}
        for each, network in networks.items():
            for method in ("DKLA", "COKE", "QC-ODKLA") if each == links[0] else ("DKLA", "COKE"):
                case = Case(shape, method, each, best)
                probe = task.probe(ideal=each.channel.is_ideal)
                learned: Task = Passes(task, seed) if method == "QC-ODKLA" else task
                agents = methods.named(method).made(study, case.name, learned, size.rounds)
                study.run(case.name, network, agents, [probe], size.rounds)
                cases.append(case)
    report(study, cases, len(classes), f"{data} data, {size.agents} agents")


def _links(channel: Channel) -> list[Links]:
    """Return ideal links, and those given if they are others."""
    ideal = Channel(medium=channel.medium, round_period=channel.round_period)
    return [Links(ideal)] if channel.is_ideal else [Links(ideal), Links(channel)]


def _tasks(
    study: Study, shapes: tuple[Shape, Shape], parts: list[AgentData], classes: int, model: Model, seed: int
) -> dict[Shape, ClassTask]:
    """Return the task on each map, their bandwidths chosen; what was tuned is in the study's tables and settings."""
    loss = model.loss(classes)
    inputs, target = training(parts)
    times = choose_times(
        study,
        shapes,
        inputs,
        signs(target, classes),
        regularizer=ridge_regularizer(loss, model.regularizer / len(parts)),
        tune=model.tune,
        seed=seed,
    )
    if model.tune:
        study.record(bandwidths=in_words(times))
    return {
        shape: ClassTask(parts, shape.build(inputs, times[shape.name], seed), loss=loss, regularizer=model.regularizer)
        for shape in shapes
    }


def _passes(problem: ClassProblem, seed: int, agent: int) -> Stream:
    """Yield an agent's samples one by one, each pass over them in another random order, without end."""
    rng = draws.generator(seed, agent, "samples")
    while True:
        for row in rng.permutation(len(problem.labels)):
            yield problem.features[row], int(problem.labels[row])
