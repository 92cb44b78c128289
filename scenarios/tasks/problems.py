"""Problems of experiments: regression on random features of a table, and what a Python file defines."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx

from netsim.agents.maps.features import Form
from netsim.scenarios.tasks.batch_task import BatchTask, batch_task, draw_samples
from netsim.scenarios.tasks.division import tell_division
from netsim.scenarios.tasks.own import OfFile, OwnTask
from netsim.scenarios.tasks.settings import TEXT, Prepared, Rows, Setting
from netsim.studies import Study
from netsim.studies.experiment import Problem, Setup
from netsim.studies.experiment.study import Played
from netsim.util import check

FORMS: Mapping[str, Form] = {"cosine": "cos", "pairs": "cos+sin"}
"""The forms of the random features, by their names."""


@dataclass(frozen=True, kw_only=True)
class Features(Setting):
    """The size of the network and of the model, and the form of its features.

    Parameters
    ----------
    form : str
        "cosine": √(2/L) cos(ωᵀx + b), which gives a model of L elements. "pairs": √(1/L) [cos ωᵀx, sin ωᵀx], which
        gives a model of 2L elements.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {**Setting.COLUMNS, "form": "form"}

    form: str | None = None

    @property
    def features_form(self) -> Form:
        """The form by its name in the feature maps; raises BadInput for an unknown form."""
        return FORMS[check.one_of("form", self.form, FORMS)]


@dataclass(frozen=True, kw_only=True)
class KernelRegression(Features, Problem):
    """Least squares on random features of a table's inputs; the samples are divided among the agents.

    On a network with a graph of its own there are as many agents as nodes.

    Parameters
    ----------
    data : str
        "synthetic" (that of the COKE paper), the name of a table in the folder NETSIM_DATA, or a table's path.
    rows : Rows
        Which rows and columns of the table are used.
    conventions : str
        How values that are left open follow from the COKE paper: "text", or "tables" to come close to its tables.

    Raises
    ------
    BadInput
        When a run is made: for an unknown or damaged table, an unknown column, too few samples, or a value outside its
        range.
    """

    data: str = "synthetic"
    rows: Rows = Rows()
    conventions: str = TEXT

    def whole(self) -> "KernelRegression":
        """Return the problem with the values of all parameters that were left open."""
        rows = self.rows.resolved(self.data, self.conventions) if isinstance(self.rows, Prepared) else self.rows
        return dataclasses.replace(self.resolved(self.data, self.conventions), rows=rows)

    def on(self, graph: "nx.Graph[Any]") -> "KernelRegression":
        """Return the problem for a graph's nodes."""
        return dataclasses.replace(self, agents=len(graph), edges=graph.number_of_edges())

    def make(self, setup: Setup) -> BatchTask:
        """Return the task of a run."""
        graph, told = setup.graph, Study("", {})
        whole = (self if graph is None else self.on(graph)).whole()
        samples = draw_samples(self.data, whole, whole.rows, setup.seeds.data, told)
        graph = whole.graph(setup.seeds.graph) if graph is None else graph
        task, whole = batch_task(told, samples, whole, graph, ideal=setup.ideal, seed=setup.seed)
        tell_division(told, samples, whole.rows)
        told.record(whole.rows, **{each.name: getattr(whole, each.name) for each in dataclasses.fields(Features)})
        task.told = told
        return task


@dataclass(frozen=True, kw_only=True)
class FileProblem(OfFile):
    """What a Python file's function ``task(seed)`` returns: each agent's cost, a graph or None, and a measure.

    Raises
    ------
    BadInput
        When a run is made: for a file that cannot be used, or a function that returns something else.
    """

    def make(self, setup: Setup) -> OwnTask:
        """Return the task of a run."""
        return OwnTask(str(self.file), *self.drawn(self.function(), setup), setup.ideal)


def titled(played: Played) -> str:
    """Return what figures' titles say of a run: "energy data, 10 agents, partition dirichlet:0.1, loss 0.1"."""
    problem, task = played.cell.problem, played.task
    what = f"{problem.data} data" if isinstance(problem, KernelRegression) else f"task {task.name}"
    divided = problem.rows.partition_title if isinstance(problem, KernelRegression) else ""
    return f"{what}, {len(task.nodes)} agents{divided}{getattr(played.cell.network, 'title', '')}"
