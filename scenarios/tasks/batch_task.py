"""Batch learning: step sizes, the task with its costs and measures, and notes on its runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from netsim.agents import COKE, CTA, DKLA, FeatureMap, Geometric, LocalProblem, Squared, centralised
from netsim.agents.measures.metrics import MeanSquaredError
from netsim.scenarios.data.partitions import IID
from netsim.scenarios.data.tables import AgentData, check_rows, deal, load_prepared, pooled, synthetic, training
from netsim.scenarios.tasks.diagnosis import verdicts
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.own import OwnTask
from netsim.scenarios.tasks.settings import Published, Rows, Setting
from netsim.studies import Study
from netsim.studies.experiment import Method
from netsim.util import check
from netsim.util.typing import Array


@dataclass(frozen=True, kw_only=True)
class BatchSteps(Published):
    """Step sizes of the batch methods, and COKE's censor; defaults are those published for the data set.

    Parameters
    ----------
    rho : float
        Penalty of DKLA and COKE.
    eta : float
        Step size of CTA.
    threshold : float
        COKE broadcasts in round k if its change has norm >= threshold * decay^k.
    decay : float
        Decay of the threshold per round.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {
        "rho": "rho",
        "eta": "cta_eta",
        "threshold": "threshold_v",
        "decay": "threshold_mu",
    }

    rho: float | None = None
    eta: float | None = None
    threshold: float | None = None
    decay: float | None = None

    def methods(self) -> dict[str, Method]:
        """Return CTA, DKLA and COKE by name; raises BadInput for numbers outside their ranges."""
        rho, eta = (check.finite(name, getattr(self, name), above=0.0) for name in ("rho", "eta"))
        censor = Geometric(check.finite("threshold", self.threshold), check.number("decay", self.decay))
        return {
            "CTA": Method(CTA, eta=eta),
            "DKLA": Method(DKLA, rho=rho),
            "COKE": Method(COKE, rho=rho, censor=censor),
        }


class BatchTask(Task):
    """Least-squares regression: every agent has its own samples, and all share a feature map.

    Parameters
    ----------
    samples : sequence of AgentData
        Each agent's training and test samples.
    phi : FeatureMap
        The feature map, which is the same for all agents.
    graph : networkx.Graph
        The network's graph, with one node for each agent.
    regularizer : float
        The λ of the centralised problem; each agent's share is λ/N.
    ideal : bool
        Whether the links lose and delay no frame, so that all copies of a state are equal.

    Attributes
    ----------
    graph, regularizer, ideal
        As given.
    cost : callable
        Returns the cost R_i of the agent with a given name; the cost has a value, a gradient and a proximal step.
    problems : list of LocalProblem
        The costs of all agents.
    size : int
        Length of a model.
    variance : float
        Variance of all training targets.
    error, columns
        The column of the error that reports compare, and the columns of all errors.
    told : Study or None
        The notes, tables, figures and settings from the creation of the task.
    """

    told: Study | None = None

    error: ClassVar[str] = "train_mse"
    columns: ClassVar[tuple[str, ...]] = ("train_mse", "test_mse")

    def __init__(
        self,
        samples: Sequence[AgentData],
        phi: FeatureMap,
        graph: "nx.Graph[Any]",
        *,
        regularizer: float,
        ideal: bool = False,
    ) -> None:
        train = [(phi(part.train_inputs), part.train_target) for part in samples]
        test = [(phi(part.test_inputs), part.test_target) for part in samples]
        share = regularizer / len(samples)
        self.regularizer = regularizer
        self.problems = [LocalProblem(x, y, loss=Squared(), regularizer=share) for x, y in train]
        super().__init__(dict(zip(graph, self.problems, strict=True)).__getitem__, graph)
        self.size = phi.size
        self.variance = float(np.var(training(samples)[1]))
        self._train, self._test = MeanSquaredError(train), MeanSquaredError(test)
        self.ideal = ideal

    @property
    def constant(self) -> dict[str, float]:
        """The training error of the best constant: the variance of the targets."""
        return {self.error: self.variance}

    def yardsticks(self, best: float) -> str:
        """Return a note with reference errors: the centralised error, and the target's variance."""
        return f"Centralised: training MSE {best:.4g}; the target's variance is {self.variance:.4g}."

    def measures(self, models: Array) -> dict[str, float]:
        """Return the errors of the agents' models, shape (N, D), by column."""
        return {"train_mse": self._train(models), "test_mse": self._test(models)}

    @property
    def watch(self) -> dict[str, Callable[[Any], float]]:
        """The state of each agent shown in replays: ``own_mse``, its model's error on its own samples."""

        def own_mse(agent: Any) -> float:
            with np.errstate(over="ignore", invalid="ignore"):
                return float(self.cost(agent.name).mean_squared_error(agent.theta))

        return {"own_mse": own_mse}

    def optimum(self) -> dict[str, float]:
        """Return train_mse and test_mse of the centralised model."""
        model = np.tile(centralised(self.problems, self.regularizer), (len(self.problems), 1))
        return self.measures(model)


def notes_on(study: Study, task: BatchTask | OwnTask, kinds: Mapping[str, type[Any]]) -> Iterator[str]:
    """Yield notes on the centralised model, and on runs that sent nothing, diverged or missed frames."""
    best, variance, error = study.centralised, task.variance, task.error
    if isinstance(task, OwnTask):
        if best:
            yield f"Centralised: {', '.join(f'{name} {value:.4g}' for name, value in best.items())}."
    else:
        yield f"Centralised: training MSE {best['train_mse']:.4g}, test MSE {best['test_mse']:.4g}."
    if best.get(error, 0.0) > variance:
        yield (
            f"Does not learn: the centralised training MSE exceeds the target's variance, {variance:.4g}. "
            "Another --sigma may help, or --tune (Air quality learns with 0.5)."
        )
    yield from verdicts(study.runs, error, lambda name: "--eta" if issubclass(kinds[name], CTA) else "")


def draw_samples(data: str, setting: Setting, rows: Rows, seed: int, study: Study) -> list[AgentData]:
    """Return each agent's training and test samples of a table or of "synthetic"; a note names omitted parts.

    Raises
    ------
    BadInput
        For an unknown or damaged table, an unknown column, too few samples, or a partition that they do not allow.
    """
    agents, partition = check.integer("agents", setting.agents, low=1), rows.divided()
    if data == "synthetic":
        rows.check_left_out(data)
        if rows.rows is not None:
            allowed = "left out for the synthetic data, whose agents draw their own number"
            raise check.refuse("rows", rows.rows, allowed)
        drawn = synthetic(agents, seed=seed)
        return drawn if partition.kind == IID else deal(pooled(drawn), agents, seed=seed, partition=partition)
    check_rows(data, agents, each=2, rows=rows.rows)
    table = load_prepared(data, rows)
    study.note(*table.left_out)
    return deal(table, agents, seed=seed, rows=rows.rows, partition=partition)
