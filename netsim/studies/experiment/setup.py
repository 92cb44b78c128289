"""The data of a run that an experiment's parts receive when they are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from netsim.network import Network
from netsim.studies.seeds import Seeds
from netsim.util.draws import generator

if TYPE_CHECKING:
    from netsim.studies.experiment.problems import Task


@dataclass(frozen=True)
class Setup:
    """The parts of a run made so far. Parts are made in this order: graph, task, network, agents.

    Attributes
    ----------
    seeds : Seeds
        Seeds of the data, the graph and the links.
    rounds : int
        Length of the run in rounds; 0 while the problem, which determines it, is not made.
    graph : networkx.Graph or None
        The network's graph; None before it is known.
    task : Task or None
        The learning task; None before it is created, and without a problem.
    network : Network or None
        The network; None before it is made.
    ideal : bool
        Whether every frame arrives without loss or delay, so that all copies of a state are the same.
    method : object or None
        The experiment's method, for a network whose radio depends on it; None while the task is made.
    derived : dict
        By each method with `Derived` parameters, that method with their values for this run.
    """

    seeds: Seeds
    rounds: int
    graph: "nx.Graph[Any] | None" = None
    task: "Task | None" = None
    network: Network | None = None
    ideal: bool = False
    method: Any = None
    derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.seeds.seed

    @cached_property
    def positions(self) -> Mapping[Any, Any]:
        """The position of each node, in metres or in the unit square; empty if the graph has none."""
        site = None if self.network is None else self.network.deployment
        if site is not None:
            return site.positions
        return {} if self.graph is None else nx.get_node_attributes(self.graph, "pos")

    def rng(self, *name: Any) -> np.random.Generator:
        """Return the random generator of a name; a seed and a name give the same numbers, whatever else is drawn."""
        return generator(self.seeds.network[1], name, "experiment")


@dataclass(frozen=True)
class Ends:
    """The ends of a directed link, for a function that returns the link's settings.

    Attributes
    ----------
    sender, receiver : hashable
        The nodes' names.
    setup : Setup
        The run.
    """

    sender: Any
    receiver: Any
    setup: Setup

    @property
    def distance(self) -> float:
        """The distance between the ends, in the unit of `Setup.positions`."""
        places = self.setup.positions
        return float(np.linalg.norm(np.subtract(places[self.sender], places[self.receiver])))
