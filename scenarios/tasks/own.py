"""A user's problem, from a Python file: each agent's cost, a graph, and a measure of the models."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from netsim import BadInput, Method, Problem, Setup, topology
from netsim.core.records import TOTALS
from netsim.scenarios.tasks.method import Task, agents_of
from netsim.studies import script
from netsim.util import check
from netsim.util.typing import Array

_GONE = 1e100
"""A model with a larger element has grown without bound, so its measures may be NaN."""

Measure = Callable[..., Mapping[str, float]]
OTHER = "other"
"""The name in tables of published settings for data sets that are not in the papers, as a file's problem is."""
_OF_STUDIES = ("consensus_error", "dual_residual", "tracking_residual", "least_weight", "copy_error", "running_loss")
_TAKEN = frozenset({*_OF_STUDIES, "round", "time_s", "algorithm", "trace_hash", *TOTALS})
"""Names of columns that studies or all rounds already have, and that a measure must not use."""


class OwnTask(Task):
    """The costs of a file on a graph, and its measures.

    Parameters
    ----------
    file : str
        Path of the file.
    costs : sequence
        Each agent's cost: any object with ``size``, the length or shape of a model, and the members that methods need.
    graph : networkx.Graph
        The network's graph, with a node 0, 1, … for each agent.
    measure : callable
        Returns {column: number} for all models, shape (N, size). The first is the error that reports compare.
    ideal : bool
        Whether the links lose and delay no frame, so that all copies of a state are equal.

    Attributes
    ----------
    name : str
        The name in figures, which is the file's name.
    error : str
        Name of the first column.
    columns : tuple of str
        Names of all columns.
    size : int or tuple of int
        Length or shape of a model.
    variance : float
        Infinity, because a user's problem has no targets with whose variance errors could be compared.
    """

    variance: ClassVar[float] = float("inf")
    watch: ClassVar[Mapping[str, Callable[[Any], float]] | None] = None

    def __init__(self, file: str, costs: Sequence[Any], graph: "nx.Graph[int]", measure: Measure, ideal: bool) -> None:
        # A cost that draws random numbers, such as a ModelCost with minibatches, starts anew for each method.
        super().__init__(lambda node: costs[node].fresh() if hasattr(costs[node], "fresh") else costs[node], graph)
        self.file, self.name, self.costs, self._measure, self.ideal = file, Path(file).stem, costs, measure, ideal
        self.size = costs[0].size
        self._shape = self.size if isinstance(self.size, tuple) else (self.size,)
        self.columns = self._names()
        self.error = self.columns[0]

    def _names(self) -> tuple[str, ...]:
        """Return the names of the columns, by measuring the initial models."""
        return tuple(self.measures(np.zeros((len(self.costs), *self._shape))))

    def measures(self, models: Array, *more: Any) -> dict[str, float]:
        """Return the file's measures of models; raises BadInput if a measure of numeric models is not a number."""
        found = called(self.file, f"measure of {self.name}: must run", self._measure, models, *more)
        try:
            numbers = {name: float(value) for name, value in found.items()}
        except (AttributeError, TypeError, ValueError):
            numbers = {}
        if not numbers or not all(isinstance(name, str) for name in numbers):
            raise BadInput(f"measure of {self.name}: must return numbers by column name, not {_short(found)}")
        self._check_names(numbers, _TAKEN)
        first, value = next(iter(numbers.items()))
        if value != value and np.abs(models).max() < _GONE:
            raise BadInput(f"measure of {self.name}: must return a number as {first!r} of models that are, not NaN")
        return numbers

    def _check_names(self, columns: Iterable[str], taken: Collection[str]) -> None:
        for name in columns:
            if name in taken:
                raise BadInput(f"measure of {self.name}: must have another name for its column {name!r}")

    def optimum(self) -> dict[str, float]:
        """Return the measures of the model with the least sum of costs, found by L-BFGS from zero.

        Empty unless all costs have ``value`` and ``gradient``. It is the centralised model if the costs are convex.
        """
        from scipy.optimize import minimize

        if not all(hasattr(cost, "value") and hasattr(cost, "gradient") for cost in self.costs):
            return {}

        def total(flat: Any) -> tuple[float, Any]:
            theta = flat.reshape(self._shape)
            slopes = np.sum([cost.gradient(theta) for cost in self.costs], axis=0)
            return float(sum(cost.value(theta) for cost in self.costs)), slopes.ravel()

        start = np.zeros(int(np.prod(self._shape)))
        options = {"maxiter": 10_000, "maxfun": 100_000, "gtol": 1e-10, "ftol": 1e-15}
        what = f"value and gradient of {self.name}: must run"
        solve = partial(minimize, jac=True, method="L-BFGS-B", options=options)
        best = called(self.file, what, solve, total, start).x.reshape(self._shape)
        return self.measures(np.tile(best, (len(self.costs), *[1] * len(self._shape))))

    def check_above_zero(self, error: float, whose: str) -> None:
        """Raise BadInput unless an error is above 0, for a study that compares errors in per cent."""
        if not error > 0.0:
            raise BadInput(
                f"task = {self.file!r}: must have an error above 0, to compare in per cent; {whose} has "
                f"{self.error} {error:.4g}"
            )

    def check(self, methods: Iterable[Method], rounds: int, taken: Collection[str] = ()) -> None:
        """Raise BadInput if a cost lacks a member that a method needs, or the name of a column is reserved."""
        self._check_names(self.columns, taken)
        for method in methods:
            agents_of(method, self, rounds)


@dataclass(frozen=True, kw_only=True)
class OfFile(Problem):
    """Base class of problems that the function ``task(seed)`` of a Python file returns.

    The function returns the costs, a `networkx.Graph` with the nodes 0, 1, … or None for a random connected graph, and
    the measure (`OwnTask`).

    Parameters
    ----------
    file : Path
        The file.
    edges : int, optional
        Number of edges of the random graph, if neither the file nor the network has a graph; default: two per agent.
    """

    may_lack_measure: ClassVar[bool] = False

    file: Path
    edges: int | None = None

    def function(self) -> Callable[[int], Any]:
        """Return the file's function; raises BadInput if the file is missing, fails, or lacks it."""
        found = script.load("task", str(self.file)).get("task")
        if not callable(found):
            raise BadInput(f"task = {str(self.file)!r}: must define a function task(seed)")
        return found  # type: ignore[no-any-return]

    def drawn(self, function: Callable[[int], Any], setup: Setup) -> "tuple[list[Any], nx.Graph[int], Any]":
        """Call the file's function; return the new costs, the graph of the run, and the measure.

        Raises
        ------
        BadInput
            If the function fails, or returns something else.
        """
        task = f"task = {str(self.file)!r}"
        made = called(str(self.file), f"{task}: must have a function task(seed) that runs", function, setup.seeds.data)
        optional = self.may_lack_measure
        if not isinstance(made, tuple) or len(made) != 3 or not (callable(made[2]) or (optional and made[2] is None)):
            wanted = "a measure or None" if optional else "a measure"
            raise BadInput(f"{task}: must have a task(seed) that returns costs, a graph or None, and {wanted}")
        costs, graph, measure = made
        costs = list(costs) if isinstance(costs, Iterable) else []
        sizes = [getattr(cost, "size", None) for cost in costs]
        if not sizes or sizes[0] is None or any(size != sizes[0] for size in sizes):
            raise BadInput(f"{task}: must return costs, one for each agent, all with the same size")
        for length in sizes[0] if isinstance(sizes[0], tuple) and sizes[0] else (sizes[0],):
            check.integer(f"{task}: size", length, low=1)
        nodes, agents = f"the nodes 0 to {len(costs) - 1}", len(costs)
        if graph is not None and (
            not isinstance(graph, nx.Graph) or sorted(graph, key=str) != sorted(range(agents), key=str)
        ):
            raise BadInput(f"{task}: must return a networkx.Graph with {nodes}, or None")
        if setup.graph is not None:
            return costs, setup.graph, measure
        if graph is None:
            edges = min(agents * (agents - 1) // 2, 2 * agents) if self.edges is None else self.edges
            graph = topology.erdos_renyi(agents, edges=edges, seed=setup.seeds.graph)
        elif self.edges is not None:
            raise BadInput(f"edges = {self.edges}: must be left out with {task}, which returns a graph")
        return costs, graph, measure


def called(file: str, what: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a file's function; raises BadInput with its line if it fails."""
    try:
        return function(*given)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        line = script.where(error, os.path.abspath(file))
        raise BadInput(f"{what}; {type(error).__name__}{line}: {script.message(error)}") from error


def _short(found: Any) -> str:
    text = " ".join(repr(found).split())
    return text if len(text) <= 100 else f"{text[:99]}…"
