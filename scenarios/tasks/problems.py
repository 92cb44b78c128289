"""Problems of experiments: regression on random features of a table's inputs, and problems from Python files."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import networkx as nx

from netsim.agents.maps.features import Form
from netsim.scenarios.data.tables import training
from netsim.scenarios.tasks.batch_task import BatchTask, draw_samples
from netsim.scenarios.tasks.division import tell_division
from netsim.scenarios.tasks.mapping import feature_map
from netsim.scenarios.tasks.own import OTHER, OfFile, OwnTask
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
        """The name of the form in feature maps; raises BadInput for an unknown form."""
        return FORMS[check.one_of("form", self.form, FORMS)]


@dataclass(frozen=True, kw_only=True)
class KernelRegression(Features, Problem):
    """Least squares on random features of a table's inputs; the samples are divided among the agents.

    On a network with its own graph, each node is an agent.

    Parameters
    ----------
    data : str or Path
        "synthetic" (that of the COKE paper), the name of a table in NETSIM_DATA or the cache, or a table's path. A
        Path stands for the file's content, wherever it lies, so that others can repeat the experiment in their folder.
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

    data: str | Path = "synthetic"
    rows: Rows = Rows()
    conventions: str = TEXT

    def whole(self) -> "KernelRegression":
        """Return the problem with the values of all parameters that were left open."""
        data = str(self.data)
        rows = self.rows.resolved(data, self.conventions) if isinstance(self.rows, Prepared) else self.rows
        return dataclasses.replace(self.resolved(data, self.conventions), rows=rows)

    def on(self, graph: "nx.Graph[Any]") -> "KernelRegression":
        """Return the problem with an agent for each node of a graph."""
        return dataclasses.replace(self, agents=len(graph), edges=graph.number_of_edges(), topology=None)

    def make(self, setup: Setup) -> BatchTask:
        """Return the task of a run."""
        graph, told = setup.graph, Study("", {})
        whole = (self if graph is None else self.on(graph)).whole()
        samples = draw_samples(str(self.data), whole, whole.rows, setup.seeds.data, told)
        graph = whole.graph(setup.seeds.graph) if graph is None else graph
        inputs, target = training(samples)
        length = check.integer("features", whole.features, low=1)
        # The memory is that of the features of all samples, and of each agent's Gram matrix.
        needs = 8 * length * (len(inputs) + len(samples) * length)
        check.fits("features", length, needs, f"the models of {len(samples):,} agents")
        phi, whole = feature_map(told, whole, inputs, target, form=whole.features_form, seed=setup.seed)
        regularizer = check.finite("regularizer", whole.regularizer)
        task = BatchTask(samples, phi, graph, regularizer=regularizer, ideal=setup.ideal)
        tell_division(told, samples, whole.rows)
        told.record(whole.rows, **{each.name: getattr(whole, each.name) for each in dataclasses.fields(Features)})
        task.told = told
        return task


@dataclass(frozen=True, kw_only=True)
class FileProblem(OfFile):
    """The result of a Python file's ``task(seed)``: each agent's cost, a graph or None, and a measure.

    Raises
    ------
    BadInput
        When a run is made: for a file that cannot be used, or a function that returns something else.
    """

    def make(self, setup: Setup) -> OwnTask:
        """Return the task of a run."""
        return OwnTask(str(self.file), *self.drawn(self.function(), setup), setup.ideal)


@dataclass(frozen=True, kw_only=True)
class OwnProblem:
    """A user's problem that replaces a data set.

    Parameters
    ----------
    task : str
        A Python file whose function task(seed) returns each agent's cost, a graph or None, and a measure: what is
        learned in place of the data.
    """

    KIND: ClassVar[type[OfFile]] = FileProblem

    task: str | None = None

    def instead(
        self, problem: Any, *groups: Any, edges: int | None, but: Sequence[str] = ("edges",)
    ) -> tuple[Problem, str]:
        """Return the file's problem, if there is a file, or else the data set's, and the name of its settings.

        Raises
        ------
        BadInput
            If there is a file, and a data set is named, or a flag in ``groups`` is set, which then has no meaning.
        """
        if self.task is None:
            return problem, problem.data
        why = f"left out with task = {self.task!r}, which defines the problem"
        if problem.data != "synthetic":
            raise check.refuse("data", problem.data, why)
        for group in groups:
            for field in dataclasses.fields(group):
                if field.name not in but and (value := getattr(group, field.name)) != field.default:
                    raise check.refuse(field.name, value, why)
        return self.KIND(file=Path(self.task), edges=edges), OTHER


def titled(played: Played) -> str:
    """Return the part of a figure's title that describes a run: "energy data, 10 agents, loss 0.1"."""
    problem: Any = played.cell.problem
    task = played.task
    what = f"{problem.data} data" if hasattr(problem, "data") else f"task {task.name}"
    divided = getattr(getattr(problem, "rows", getattr(problem, "stream", None)), "partition_title", "")
    return f"{what}, {len(task.nodes)} agents{divided}{getattr(played.cell.network, 'title', '')}"
