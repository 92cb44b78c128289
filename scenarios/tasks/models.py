"""What a round's columns need of each agent: a probe that workers of one run measure in parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.agents.consensus.base import Dual, SharingAgent
from netsim.agents.consensus.edges import EdgeDuals
from netsim.agents.measures.metrics import consensus_error
from netsim.util.typing import Array

__all__ = ["Model", "ModelProbe", "models_of", "residuals"]


@dataclass(frozen=True, slots=True)
class Model:
    """An agent's model, its dual (ADMM methods), its own state as last sent, and its copies of its neighbours'."""

    theta: Array
    dual: Array | None
    own: Array | None
    copies: Mapping[Any, Array]


Models = Mapping[Any, Model]


def models_of(agents: Mapping[Any, Any], ideal: bool) -> dict[Any, Model]:
    """Return the agents' models by name; without copies if all are the same anyway (``ideal``)."""
    return {name: _model(agent, ideal) for name, agent in agents.items()}


def _model(agent: Any, ideal: bool) -> Model:
    dual = agent.dual if isinstance(agent, Dual) else None
    # With edge duals no agent has a copy of another's state.
    has_copies = isinstance(agent, SharingAgent) and not (
        isinstance(agent, Dual) and isinstance(agent.duals, EdgeDuals)
    )
    if ideal or not has_copies:
        return Model(agent.theta, dual, None, {})
    return Model(agent.theta, dual, agent.sharing.own, dict(agent.sharing.copies.items()))


@dataclass(frozen=True)
class ModelProbe:
    """A probe of the agents' models, which workers send in place of the agents.

    Parameters
    ----------
    measure : callable
        Returns a round's columns from all models.
    names : sequence
        The agents' names, in their order.
    ideal : bool
        As in `models_of`.
    """

    measure: Callable[[Models], Mapping[str, float]]
    names: Sequence[Any]
    ideal: bool

    def __call__(self, agents: Mapping[Any, Any]) -> Mapping[str, float]:
        """Return a round's columns."""
        return self.measure(models_of(agents, self.ideal))

    def local(self, agents: Mapping[Any, Any]) -> Models:
        """Return the models of a worker's agents."""
        return models_of(agents, self.ideal)

    def combine(self, parts: Sequence[Models]) -> Mapping[str, float]:
        """Return a round's columns from the models that all workers sent."""
        found = {name: model for part in parts for name, model in part.items()}
        return self.measure({name: found[name] for name in self.names})


def residuals(models: Models) -> dict[str, float]:
    """Return consensus_error, dual_residual (ADMM methods) and, of models that have what was sent, copy_error."""
    columns = {"consensus_error": consensus_error(np.stack([model.theta for model in models.values()]))}
    duals = [model.dual for model in models.values() if model.dual is not None]
    if duals:
        columns["dual_residual"] = float(np.abs(np.sum(duals, axis=0)).max())
    sent = {name: model.own for name, model in models.items() if model.own is not None}
    if sent:
        apart = (
            float(np.linalg.norm(copy - sent[name])) for model in models.values() for name, copy in model.copies.items()
        )
        columns["copy_error"] = max(apart, default=0.0)
    return columns
