"""The batch learning task that several scenarios share: each agent's cost and samples, the agents, what is measured."""

from collections.abc import Mapping
from typing import Any

import networkx as nx
import numpy as np

from netsim import BadInput, check, topology
from netsim.agents import COKE, CTA, DKLA, Censor, LocalProblem, Squared, centralised
from netsim.agents.consensus.base import SharingAgent
from netsim.agents.measures.metrics import MeanSquaredError
from netsim.quantize import Coder
from netsim.scenarios.data.tables import AgentData, deal, load_table, scale_unit, synthetic, training
from netsim.scenarios.tasks.mapping import feature_map
from netsim.scenarios.tasks.settings import residuals
from netsim.studies import Study


class BatchTask:
    """The agents' costs, and the measures of their models.

    Parameters
    ----------
    study : Study
        Says which feature map, and is told its bandwidth.
    data : str
        "synthetic", or the name of a table.
    chosen : mapping
        features, sigma, regularizer, rho, eta: what `netsim.scenarios.tasks.settings.complete` returned.
    graph : networkx.Graph
        With a node 0, 1, … for each agent.
    rows : int, optional
        Use only so many rows of the table.
    seed : int
        Seed of the data and of the feature map.
    ideal : bool
        Whether the links lose and delay nothing, so that all copies of a state are the same.

    Attributes
    ----------
    problems : list of LocalProblem
        One an agent.
    size : int
        Length of a model.
    variance : float
        Variance of all training targets.
    """

    def __init__(
        self,
        study: Study,
        data: str,
        chosen: Mapping[str, Any],
        graph: "nx.Graph[int]",
        *,
        rows: int | None,
        seed: int,
        ideal: bool,
    ) -> None:
        samples = _samples(data, len(graph), rows, seed)
        inputs, target = training(samples)
        features = feature_map(study, chosen, inputs, target, seed=seed)
        train = [(features(part.train_inputs), part.train_target) for part in samples]
        test = [(features(part.test_inputs), part.test_target) for part in samples]
        share = chosen["regularizer"] / len(samples)
        self.problems = [LocalProblem(x, y, loss=Squared(), regularizer=share) for x, y in train]
        self.size = features.size
        self.regularizer = chosen["regularizer"]
        self.variance = float(np.var(target))
        self._rho, self._eta = chosen["rho"], chosen["eta"]
        self._weights = topology.metropolis_weights(graph)
        self._train, self._test = MeanSquaredError(train), MeanSquaredError(test)
        self._ideal = ideal

    def agents(
        self, method: str, rounds: int, *, censor: Censor | None = None, coder: Coder | None = None
    ) -> dict[int, SharingAgent]:
        """Return new agents of CTA, DKLA or COKE, one a node; DKLA is never censored."""
        check.one_of("method", method, ("CTA", "DKLA", "COKE"))
        if method == "CTA":
            return {
                i: CTA(problem, rounds, eta=self._eta, weights=self.weights(i), censor=censor, coder=coder)
                for i, problem in enumerate(self.problems)
            }
        if method == "DKLA":
            return {i: DKLA(problem, rounds, rho=self._rho, coder=coder) for i, problem in enumerate(self.problems)}
        return {
            i: COKE(problem, rounds, rho=self._rho, censor=censor, coder=coder)
            for i, problem in enumerate(self.problems)
        }

    def weights(self, node: int) -> dict[int, float]:
        """Return the weights with which an agent averages."""
        return dict(enumerate(self._weights[node]))

    def measure(self, agents: Mapping[Any, SharingAgent]) -> dict[str, float]:
        """Return the columns of a round: how good the models are, and how far apart."""
        models = np.stack([agent.theta for agent in agents.values()])
        errors = {"train_mse": self._train(models), "test_mse": self._test(models)}
        return errors | residuals(agents, self._ideal)

    def optimum(self) -> dict[str, float]:
        """Return the errors of the model that a centre would learn."""
        model = np.tile(centralised(self.problems, self.regularizer), (len(self.problems), 1))
        return {"train_mse": self._train(model), "test_mse": self._test(model)}


def _samples(data: str, agents: int, rows: int | None, seed: int) -> list[AgentData]:
    if data == "synthetic":
        if rows is not None:
            raise BadInput(
                f"rows = {rows}: must be left out for the synthetic data, whose agents draw their own number"
            )
        return synthetic(agents, seed=seed)
    return deal(scale_unit(load_table(data)), agents, seed=seed, rows=rows)
