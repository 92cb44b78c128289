"""The batch learning task that several studies share: the agents' costs, and the measures of their models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from netsim.agents import Geometric, LocalProblem, Squared, centralised
from netsim.agents.maps.features import FeatureMap, Form
from netsim.agents.measures.metrics import MeanSquaredError
from netsim.scenarios.data.tables import AgentData, check_rows, deal, load_prepared, synthetic, training
from netsim.scenarios.tasks.mapping import AnySetting, feature_map
from netsim.scenarios.tasks.method import averaging_weights
from netsim.scenarios.tasks.settings import Published, Rows, Setting, residuals
from netsim.studies import Study
from netsim.util import check


@dataclass(frozen=True, kw_only=True)
class BatchSteps(Published):
    """Step sizes of the batch methods, and COKE's censor; what is left open is as published for the data set.

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

    def checked(self) -> dict[str, float]:
        """Return rho and eta; raises BadInput where they are not positive."""
        return {name: check.finite(name, getattr(self, name), above=0.0) for name in ("rho", "eta")}

    def censor(self) -> Geometric:
        """Return COKE's censor; raises BadInput for numbers outside their ranges."""
        return Geometric(check.finite("threshold", self.threshold), check.number("decay", self.decay))


class BatchTask:
    """Regression with squares: every agent has samples of its own, and the feature map in common.

    Parameters
    ----------
    samples : sequence of AgentData
        Each agent's samples, to train on and to test on.
    phi : FeatureMap
        The map that all share.
    graph : networkx.Graph
        With a node 0, 1, … for each agent.
    regularizer : float
        The centre's λ; each agent's is λ/N.
    ideal : bool
        Whether the links lose and delay nothing, so that all copies of a state are the same.

    Attributes
    ----------
    graph, regularizer
        As given.
    problems : list of LocalProblem
        One an agent.
    size : int
        Length of a model.
    variance : float
        Variance of all training targets.
    """

    def __init__(
        self,
        samples: Sequence[AgentData],
        phi: FeatureMap,
        graph: "nx.Graph[int]",
        *,
        regularizer: float,
        ideal: bool = False,
    ) -> None:
        train = [(phi(part.train_inputs), part.train_target) for part in samples]
        test = [(phi(part.test_inputs), part.test_target) for part in samples]
        share = regularizer / len(samples)
        self.graph = graph
        self.regularizer = regularizer
        self.problems = [LocalProblem(x, y, loss=Squared(), regularizer=share) for x, y in train]
        self.size = phi.size
        self.variance = float(np.var(training(samples)[1]))
        self._weights = averaging_weights(graph)
        self._train, self._test = MeanSquaredError(train), MeanSquaredError(test)
        self._ideal = ideal

    def yardsticks(self, best: float) -> str:
        """Return a note of what an error is to be held against: the centralised one, and that of the mean."""
        return f"Centralised: training MSE {best:.4g}; the target's variance is {self.variance:.4g}."

    @property
    def nodes(self) -> range:
        """The agents' names."""
        return range(len(self.problems))

    def cost(self, node: int) -> LocalProblem:
        """Return an agent's cost R_i, with its value, gradient and proximal step."""
        return self.problems[node]

    def weights(self, node: int) -> dict[int, float]:
        """Return the weights with which an agent averages, by name: a row of Metropolis' doubly stochastic matrix."""
        return self._weights[node]

    def measure(self, agents: Mapping[Any, Any]) -> dict[str, float]:
        """Return the columns of a round (a probe): how good the agents' models ``theta`` are, and how far apart."""
        models = np.stack([agent.theta for agent in agents.values()])
        errors = {"train_mse": self._train(models), "test_mse": self._test(models)}
        return errors | residuals(agents, self._ideal)

    @property
    def watch(self) -> dict[str, Callable[[Any], float]]:
        """What is to be seen of each agent in a replay: ``own_mse``, its model's error on its own samples."""

        def own_mse(agent: Any) -> float:
            with np.errstate(over="ignore", invalid="ignore"):
                return float(self.problems[agent.name].mean_squared_error(agent.theta))

        return {"own_mse": own_mse}

    def optimum(self) -> dict[str, float]:
        """Return the errors of the model that a centre would learn."""
        model = np.tile(centralised(self.problems, self.regularizer), (len(self.problems), 1))
        return {"train_mse": self._train(model), "test_mse": self._test(model)}


def draw_samples(data: str, setting: Setting, rows: Rows, seed: int) -> list[AgentData]:
    """Return each agent's samples, to train on and to test on.

    Parameters
    ----------
    data : str
        "synthetic", or the name or path of a table.
    setting : Setting
        Says how many agents there are.
    rows : Rows
        Which rows and columns of the table are used.
    seed : int
        Seed of all that is drawn.

    Raises
    ------
    BadInput
        For an unknown or damaged table, a column that it has not, or too few samples.
    """
    agents = check.integer("agents", setting.agents, low=1)
    if data == "synthetic":
        rows.check_left_out(data)
        if rows.rows is not None:
            allowed = "left out for the synthetic data, whose agents draw their own number"
            raise check.refuse("rows", rows.rows, allowed)
        return synthetic(agents, seed=seed)
    check_rows(data, agents, each=2, rows=rows.rows)
    return deal(load_prepared(data, rows), agents, seed=seed, rows=rows.rows)


def batch_task(
    study: Study,
    samples: Sequence[AgentData],
    setting: AnySetting,
    graph: "nx.Graph[int]",
    *,
    ideal: bool,
    form: Form = "cos",
    seed: int,
) -> tuple[BatchTask, AnySetting]:
    """Return the task of a study's setting, nothing of which is left open, and the setting with its bandwidth."""
    inputs, target = training(samples)
    length = check.integer("features", setting.features, low=1)
    # Before they are drawn: those of all samples, and of each agent's squares the matrix.
    needs = 8 * length * (len(inputs) + len(samples) * length)
    check.fits("features", length, needs, f"the models of {len(samples):,} agents")
    phi, setting = feature_map(study, setting, inputs, target, form=form, seed=seed)
    regularizer = setting.regularizer
    assert regularizer is not None
    return BatchTask(samples, phi, graph, regularizer=regularizer, ideal=ideal), setting
