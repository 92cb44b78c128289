"""A user's time-varying problem, from a Python file: costs that advance from round to round."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.models import AgentProbe, Readings, TaskProbe, models_of, residuals
from netsim.scenarios.tasks.own import Measure, OfFile, OwnTask
from netsim.studies import Study
from netsim.studies.experiment import Setup
from netsim.studies.experiment.cells import Cell
from netsim.util.typing import Array

ROUNDS = 1000
"""The number of rounds, because a file does not state one."""


class CountedCost:
    """A wrapper of a file's cost that adds up the cost of each drawn round's model.

    Parameters
    ----------
    cost : object
        An object with ``size``, ``draw(theta)``, which advances to the next round's cost, ``value(theta)``, and the
        members that the methods need.

    Attributes
    ----------
    count : int
        Number of rounds drawn so far.
    loss_sum : float
        The sum over these rounds of the cost at the model with which the round was drawn.
    """

    def __init__(self, cost: Any) -> None:
        self.cost, self.size, self.count, self.loss_sum = cost, cost.size, 0, 0.0

    def __getattr__(self, name: str) -> Any:
        # The object is being unpickled, and has no attribute `cost` yet.
        if name == "cost":
            raise AttributeError(name)
        return getattr(self.cost, name)

    def draw(self, theta: Array) -> None:
        """Advance to the next round's cost, and add its value at ``theta`` before learning."""
        self.cost.draw(theta)
        self.count += 1
        self.loss_sum += float(self.cost.value(theta))


def steps_text(given: Mapping[str, Any]) -> str:
    """Return a method's step sizes as text for a note on divergence."""
    sizes = ", ".join(f"{name} = {value:g}" for name, value in given.items() if isinstance(value, float))
    return f" with {sizes or 'its steps'}"


class OwnStreams(OwnTask):
    """One pass over the time-varying costs of a file, with the columns ``running_loss`` and the file's measures.

    ``running_loss`` is the mean, over agents and rounds so far, of each round's cost at the model before it learns from
    the round. The measure is a function of the models and the round 1, 2, …, or None.
    """

    rounds: int
    told: Study
    fresh: Callable[[], "OwnStreams"]
    steps_text = staticmethod(steps_text)

    def __init__(
        self, file: str, costs: Sequence[Any], graph: "nx.Graph[int]", measure: Measure | None, ideal: bool
    ) -> None:
        self._measures = measure is not None
        super().__init__(file, [CountedCost(cost) for cost in costs], graph, measure or _nothing, ideal)

    def _names(self) -> tuple[str, ...]:
        own = self.measures(np.zeros((len(self.costs), *self._shape)), 1) if self._measures else {}
        return ("running_loss", *own)

    def optimum(self) -> dict[str, float]:
        """Return nothing: the least costs change with time."""
        return {}

    @property
    def measure(self) -> AgentProbe:
        """A probe of a round's columns: the running loss, the file's measures, and the models' disagreement."""
        return TaskProbe(self)

    def read(self, agents: Mapping[Any, Any]) -> Readings:
        """Return the readings for `columns_of`: the agents' models, and their costs' counts."""
        found = {name: getattr(agent, "cost", None) for name, agent in agents.items()}
        costs = [cost if isinstance(cost, CountedCost) else self.costs[name] for name, cost in found.items()]
        counted = {"count": [cost.count for cost in costs], "loss": [cost.loss_sum for cost in costs]}
        return models_of(agents, self.ideal) | counted

    def columns_of(self, readings: Readings) -> dict[str, float]:
        """Return a round's columns from the readings of all agents."""
        counts = readings["count"]
        running = {"running_loss": sum(readings["loss"]) / sum(counts)}
        own = self.measures(np.array(readings["theta"]), max(counts)) if self._measures else {}
        return running | own | residuals(readings)


def _nothing(models: Array, t: int) -> dict[str, float]:
    raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class StreamFile(OfFile):
    """The result of a Python file's ``task(seed)``: time-varying costs, a graph or None, a measure.

    For each run the function is called anew, so that each run has new costs.

    Raises
    ------
    BadInput
        When a run is made: for a file that cannot be used, or if a second call returns the costs of the first.
    """

    may_lack_measure = True

    def make(self, setup: Setup) -> OwnStreams:
        """Return the task of a run."""
        file, function, told = str(self.file), self.function(), Study("", {})
        costs, graph, _ = self.drawn(function, setup)
        told.record(rounds=setup.rounds or ROUNDS)

        def begun() -> OwnStreams:
            new, _, measure = self.drawn(function, dataclasses.replace(setup, graph=graph))
            if any(one is other for one in new for other in costs):
                raise BadInput(f"task = {file!r}: must return new costs in each call, for each method to begin anew")
            task = OwnStreams(file, new, graph, measure, setup.ideal)
            task.fresh, task.rounds, task.told = begun, told.settings["rounds"], told
            return task

        return begun()

    def check(self, cells: Iterable[Cell]) -> None:
        """Raise BadInput, which names the file's class, if a cost lacks a member that a method needs."""
        for cell in cells:
            setup = Setup(cell.seeds, cell.rounds or ROUNDS)
            costs, graph, _ = self.drawn(
                self.function(), dataclasses.replace(setup, graph=cell.network.topology(setup))
            )
            task: Any = Task(costs.__getitem__, graph)
            cell.method.agents(dataclasses.replace(setup, graph=graph, task=task))
            for cost in costs:
                if not hasattr(cost, "value"):
                    name = type(cost).__name__
                    raise BadInput(f"cost = <{name}>: must have value, for the running loss; it has none")
