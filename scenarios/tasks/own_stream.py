"""A problem of the user's own that changes with time, from a Python file: costs that go on to their next round."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from netsim import Network
from netsim.errors import BadInput
from netsim.scenarios.tasks.method import Method, Task
from netsim.scenarios.tasks.models import AgentProbe, Readings, models_of, residuals
from netsim.scenarios.tasks.own import Measure, OwnFile, OwnTask
from netsim.scenarios.tasks.settings import Channel
from netsim.studies.seeds import Seeds
from netsim.util import check
from netsim.util.typing import Array

ROUNDS = 1000
"""Rounds of a problem whose file cannot say how many it has."""


class CountedCost:
    """A cost of a file: whatever is asked of it is the file's, and what each drawn round's model costs is added up.

    Parameters
    ----------
    cost : object
        With ``size``, ``draw(theta)``, which goes on to the next round's cost, ``value(theta)``, and what the methods
        ask for.

    Attributes
    ----------
    count : int
        Rounds drawn so far.
    loss_sum : float
        The sum over them of the cost of the model with which the round was drawn.
    """

    def __init__(self, cost: Any) -> None:
        self.cost, self.size, self.count, self.loss_sum = cost, cost.size, 0, 0.0

    def __getattr__(self, name: str) -> Any:
        # What has no cost yet is being unpickled.
        if name == "cost":
            raise AttributeError(name)
        return getattr(self.cost, name)

    def draw(self, theta: Array) -> None:
        """Go on to the next round's cost, and add what ``theta`` costs there, before anything is learned of it."""
        self.cost.draw(theta)
        self.count += 1
        self.loss_sum += float(self.cost.value(theta))


class OwnStreams(OwnTask):
    """One reading of a file's costs, which change with time: its measures, after ``running_loss``.

    ``running_loss`` is the mean over agents and rounds so far of the costs of the models from before each round's cost
    was seen. The measure takes the models and the round, 1, 2, …; it may be None.
    """

    def __init__(
        self, file: str, costs: Sequence[Any], graph: "nx.Graph[int]", measure: Measure | None, ideal: bool
    ) -> None:
        self._measures = measure is not None
        super().__init__(file, [CountedCost(cost) for cost in costs], graph, measure or _nothing, ideal)

    def _names(self) -> tuple[str, ...]:
        own = self._measured(np.zeros((len(self.costs), *self._shape)), 1) if self._measures else {}
        return ("running_loss", *own)

    @property
    def constant(self) -> dict[str, float]:
        """Nothing: no constant prediction is known."""
        return {}

    @property
    def measure(self) -> AgentProbe:
        """A probe of a round's columns: the running loss, what the file measures, and how far the models differ."""
        return _StreamProbe(self)

    def read(self, agents: Mapping[Any, Any]) -> Readings:
        """Return what `columns` needs of these agents: their models, and what their costs counted."""
        found = {name: getattr(agent, "cost", None) for name, agent in agents.items()}
        costs = [cost if isinstance(cost, CountedCost) else self.costs[name] for name, cost in found.items()]
        counted = {"count": [cost.count for cost in costs], "loss": [cost.loss_sum for cost in costs]}
        return models_of(agents, self.ideal) | counted

    def columns_of(self, readings: Readings) -> dict[str, float]:
        """Return a round's columns from what `read` returned of all agents."""
        counts = readings["count"]
        if not all(counts):
            raise BadInput("an agent took no sample: must take one in each round, by self.cost.draw(theta)")
        running = {"running_loss": sum(readings["loss"]) / sum(counts)}
        own = self._measured(np.array(readings["theta"]), max(counts)) if self._measures else {}
        return running | own | residuals(readings)


def _nothing(models: Array, t: int) -> dict[str, float]:
    raise NotImplementedError


class _StreamProbe(AgentProbe):
    """The probe of streams of a file."""

    __name__ = "measure"

    def __init__(self, task: OwnStreams) -> None:
        super().__init__(task.graph)
        self._task = task

    def read(self, agents: Mapping[Any, Any]) -> Readings:
        """Return what the task reads of agents."""
        return self._task.read(agents)

    def measure(self, readings: Readings) -> Mapping[str, float]:
        """Return a round's columns."""
        return self._task.columns_of(readings)


@dataclass
class OwnStreaming:
    """A file's costs over a network; each run has new ones, of another call of its function."""

    network: Network
    rounds: int
    task: Callable[[], OwnStreams]
    name: str
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        file: str,
        methods: Sequence[Method],
        rounds: int | None,
        *,
        edges: int | None,
        channel: Channel,
        seeds: Seeds,
    ) -> "OwnStreaming":
        """Return it, if the file's costs have what the methods ask for.

        Raises
        ------
        BadInput
            As `OwnFile` does, for costs that lack something, or if a second call returns the costs of the first.
        """
        rounds = ROUNDS if rounds is None else check.integer("rounds", rounds, low=1)
        source = OwnFile(file, seeds.data)
        costs, given, _ = source.problem(none=True)
        graph = source.graph(given, len(costs), edges, seeds.graph)
        network = channel.over(graph, seeds.network)
        for method in methods:
            method.agents(Task(costs.__getitem__, graph), rounds)
        for cost in costs:
            if not hasattr(cost, "value"):
                raise BadInput(f"cost = <{type(cost).__name__}>: must have value, for the running loss; it has none")

        def task() -> OwnStreams:
            new, _, measure = source.problem(none=True)
            if any(one is other for one in new for other in costs):
                raise BadInput(f"task = {file!r}: must return new costs in each call, for each method to begin anew")
            return OwnStreams(file, new, graph, measure, channel.ideal)

        first = task()
        return cls(network, rounds, task, first.name, first.columns)
