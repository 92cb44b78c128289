"""The problems of an experiment: the learning task of a run's agents, and its error measure."""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import networkx as nx
import numpy as np

from netsim import topology
from netsim.errors import BadInput
from netsim.studies.experiment import paths
from netsim.studies.experiment.paths import brief
from netsim.studies.experiment.setup import Setup
from netsim.util import check


class Task:
    """The learning task of the agents of one run.

    Parameters
    ----------
    costs : sequence
        The cost of each node, in the order of the graph's nodes. A cost that contains random draws has a method
        ``fresh()``, which makes a new cost for each method.
    graph : networkx.Graph
        The network's graph.
    measure : callable
        ``measure(models) -> {column: number}``; the models are an array, shape (N, …), of the agents' ``theta``. The
        first column is the error that results compare.

    Attributes
    ----------
    error : str
        The name of the first column; set by the first measurement.

    Raises
    ------
    BadInput
        If a node has no cost.
    """

    def __init__(
        self, costs: Sequence[Any], graph: "nx.Graph[Any]", measure: Callable[..., Mapping[str, float]]
    ) -> None:
        if len(graph) != len(costs):
            raise BadInput(f"problem: must have a cost for each of the network's {len(graph)} nodes, not {len(costs)}")
        self.graph, self.costs = graph, dict(zip(graph, costs, strict=True))
        self._measure = measure
        self.error = ""

    def fresh(self) -> "Task":
        """Return a copy of the task for another method, so that changes to its costs do not affect other methods."""
        made = copy.copy(self)
        made.costs = copy.deepcopy(self.costs)
        return made

    def cost(self, node: Any) -> Any:
        """Return the cost of a node."""
        cost = self.costs[node]
        return cost.fresh() if hasattr(cost, "fresh") else cost

    @cached_property
    def _rows(self) -> dict[Any, dict[Any, float]]:
        nodes = list(self.graph)
        rows = topology.metropolis_weights(self.graph)
        return {node: dict(zip(nodes, row.tolist(), strict=True)) for node, row in zip(nodes, rows, strict=True)}

    def weights(self, node: Any) -> Mapping[Any, float]:
        """Return a node's Metropolis weights: a row of a symmetric, doubly stochastic matrix."""
        return self._rows[node]

    def measure(self, agents: Mapping[Any, Any]) -> Mapping[str, float]:
        """Return a round's columns; a probe of `netsim.Network.run`."""
        models = [getattr(agent, "theta", None) for agent in agents.values()]
        if any(model is None for model in models):
            raise BadInput("methods: must have agents whose model is their attribute theta, which the problem measures")
        found = self._measure(np.array(models))
        if not isinstance(found, Mapping) or not found:
            raise BadInput(f"measure: must return numbers by column name, not {brief(found)}")
        self.error = self.error or str(next(iter(found)))
        return found

    def optimum(self) -> dict[str, float]:
        """Return the least possible value of each column whose optimum is known."""
        return {}


class Problem:
    """Base class of problems with parameters: a dataclass of their settings.

    `make` returns the `Task` of a run, or any object with ``graph``, ``cost(node)``, ``weights(node)``, ``measure`` (a
    probe), ``error`` and ``optimum()``. Optional attributes of that object: ``fresh()`` returns the object for each
    run; ``rounds`` is the default length; ``after`` are further measures of a whole `Run`.
    """

    def whole(self) -> "Problem":
        """Return the problem with default values for the parameters that were left open."""
        return self

    def make(self, setup: Setup) -> Any:
        """Return the task of a run; ``setup.graph`` is the graph if the network has one, else None."""
        raise NotImplementedError


@dataclass(frozen=True)
class Drawn(paths.FromFunction, Problem):
    """A problem drawn by a function: ``function(seed, **parameters) -> costs, graph or None, measure``.

    Attributes
    ----------
    function : callable
        Takes the seed of the data. If it has an argument ``graph``, it gets the network's graph.
    edges : int, optional
        The number of edges of the random graph, which is drawn if neither the function nor the network has a graph.
        Default: two for each agent.
    """

    edges: int | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the function's keyword arguments with their values, and the edges."""
        known = list(inspect.signature(self.function).parameters.items())[1:]
        return {name: each.default for name, each in known if name != "graph"} | {"edges": self.edges}

    def with_parameter(self, name: str, value: Any) -> Self:
        """Return the problem with another value of a parameter."""
        return dataclasses.replace(self, edges=value) if name == "edges" else super().with_parameter(name, value)

    def make(self, setup: Setup) -> Task:
        """Return the task of a run; raises BadInput if the function returns something else."""
        graph, takes = setup.graph, inspect.signature(self.function).parameters
        made = self.function(setup.seeds.data, **({"graph": graph} if "graph" in takes else {}))
        if not isinstance(made, tuple) or len(made) != 3 or not callable(made[2]) or not isinstance(made[0], Iterable):
            raise BadInput(
                f"{brief(self.function)}(seed): must return costs, a graph or None, and a measure, not {brief(made)}"
            )
        costs, own, measure = list(made[0]), made[1], made[2]
        graph = own if graph is None else graph
        if graph is None:
            most = len(costs) * (len(costs) - 1) // 2
            edges = min(most, 2 * len(costs)) if self.edges is None else self.edges
            graph = topology.erdos_renyi(len(costs), edges=edges, seed=setup.seeds.graph)
        return Task(costs, graph, measure)


def problem_of(given: Any) -> Problem | None:
    """Return an argument as a problem: a function of the seed is wrapped, a problem or None is returned as it is.

    Raises BadInput for any other type.
    """
    if given is None or isinstance(given, Problem):
        return given
    if inspect.isfunction(given) or (isinstance(given, partial) and inspect.isfunction(given.func) and not given.args):
        return Drawn(given)
    raise check.refuse("problem", given, "a Problem, or a function of the seed")
