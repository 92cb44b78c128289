"""Probes of models, for which the workers of a run send readings in place of agents."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from netsim.agents.consensus.base import SharingAgent
from netsim.agents.consensus.edges import EdgeSharing
from netsim.agents.consensus.push import Push
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.measures.metrics import consensus_error
from netsim.core import Copies
from netsim.errors import BadInput
from netsim.util.typing import Array

__all__ = ["AgentProbe", "ModelProbe", "Readings", "TaskProbe", "models_of", "residuals"]

Readings = dict[str, Sequence[Any]]
"""{name: a value for each agent, in their order}: the values that a probe reads from agents."""


class AgentProbe:
    """Base class of probes that workers measure in parts: `read` reads agents, and `measure` computes the columns.

    ``may_skip`` tells whether the probe may skip rounds, because its rows are independent of earlier ones.

    `measure` gets the readings of all agents in their order, so that sums equal those of one process to the last digit.

    Parameters
    ----------
    names : iterable
        The names of all agents, in their order.
    """

    may_skip = False

    def __init__(self, names: Iterable[Any]) -> None:
        self.names = list(names)

    def read(self, agents: Mapping[Any, Any]) -> Readings:
        """Return the readings of these agents; called once a round, where the agents run."""
        raise NotImplementedError

    def measure(self, readings: Readings) -> Mapping[str, float]:
        """Return a round's columns from the readings of all agents; called in the caller's process."""
        raise NotImplementedError

    def __call__(self, agents: Mapping[Any, Any]) -> Mapping[str, float]:
        """Return a round's columns."""
        return self.measure(self.read(agents))

    def local(self, agents: Mapping[Any, Any]) -> tuple[list[Any], Readings]:
        """Return the names of a worker's agents, and their readings."""
        return list(agents), {key: _packed(values) for key, values in self.read(agents).items()}

    def combine(self, parts: Sequence[tuple[list[Any], Readings]]) -> Mapping[str, float]:
        """Return a round's columns from all workers' readings."""
        places = {name: place for place, name in enumerate(name for names, _ in parts for name in names)}
        order = [places[name] for name in self.names]
        columns = {key: [value for _, readings in parts for value in readings[key]] for key in parts[0][1]}
        return self.measure({key: [values[place] for place in order] for key, values in columns.items()})


def _packed(values: Sequence[Any]) -> Sequence[Any]:
    """Return arrays of one shape as one array, which is pickled much faster."""
    kinds = {(value.shape, value.dtype) if type(value) is np.ndarray else None for value in values}
    return values if len(kinds) != 1 or None in kinds else np.stack(values)  # type: ignore[return-value]


class ModelProbe(AgentProbe):
    """A probe of the agents' models.

    Parameters
    ----------
    measure : callable
        Returns a round's columns from what `models_of` returns for all agents.
    names : iterable
        The names of all agents, in their order.
    ideal : bool
        As in `models_of`.
    """

    may_skip = True

    def __init__(self, measure: Callable[[Readings], Mapping[str, float]], names: Iterable[Any], ideal: bool) -> None:
        super().__init__(names)
        self._measure, self._ideal = measure, ideal

    def read(self, agents: Mapping[Any, Any]) -> Readings:
        """Return the agents' models."""
        return models_of(agents, self._ideal)

    def measure(self, readings: Readings) -> Mapping[str, float]:
        """Return a round's columns."""
        return self._measure(readings)


class TaskProbe(AgentProbe):
    """A probe of streams. Their task has `read` and ``columns_of``, because the columns need more than the models."""

    __name__ = "measure"

    def __init__(self, task: Any) -> None:
        super().__init__(task.graph)
        self._task = task

    def read(self, agents: Mapping[Any, Any]) -> Readings:
        """Return the task's readings of agents."""
        found: Readings = self._task.read(agents)
        return found

    def measure(self, readings: Readings) -> Mapping[str, float]:
        """Return a round's columns."""
        if not all(readings["count"]):
            raise BadInput("an agent took no sample: must take one in each round, by self.cost.draw(theta)")
        found: Mapping[str, float] = self._task.columns_of(readings)
        return found


def models_of(agents: Mapping[Any, Any], ideal: bool) -> Readings:
    """Return the agents' models, duals and last sent states, and the errors of the neighbours' copies of these states.

    Parameters
    ----------
    agents : mapping
        Agents by name.
    ideal : bool
        Whether all copies are equal because the links are ideal; then ``own`` and ``copies`` are omitted.

    Returns
    -------
    dict
        ``name``; ``theta``; ``dual``, None for methods without duals; ``tracking``, the tracker minus the gradient,
        None for methods without gradient tracking; ``weight``, None except for push-sum methods; ``own``, the state, or
        None for an agent that sends no state; and ``copies``, a list for each agent: for its copy of a state of one of
        ``agents`` the distance from this state, and for its copy of another agent's state the name and the copy.
    """
    parts = [agent.imbalance() if isinstance(agent, SharingAgent | Push) else {} for agent in agents.values()]
    duals, tracking = ([part.get(f"{name}_residual") for part in parts] for name in ("dual", "tracking"))
    thetas = [agent.theta for agent in agents.values()]
    weights = [agent.weight if isinstance(agent, Push) else None for agent in agents.values()]
    found: Readings = {"name": list(agents), "theta": thetas, "dual": duals, "tracking": tracking, "weight": weights}
    sharings = {} if ideal else {name: agent.sharing for name, agent in agents.items() if _has_copies(agent)}
    sent = {name: each.own for name, each in sharings.items()}
    with np.errstate(over="ignore", invalid="ignore"):
        copies = {name: _apart(each.copies, sent) for name, each in sharings.items()}
    return found | {"own": [sent.get(name) for name in agents], "copies": [copies.get(name, []) for name in agents]}


def _has_copies(agent: Any) -> bool:
    """Return whether an agent has copies of others' states; methods with edge variables or drawn clients have none."""
    return isinstance(sharing := vars(agent).get("sharing"), Sharing) and not isinstance(sharing, EdgeSharing)


def _apart(copies: Copies, sent: Mapping[Any, Array]) -> list[Any]:
    """Return the distance of each copy from the state or, if the state is in another worker, (name, copy)."""
    names = [name for name, _ in copies.items()]
    if not names or not sent.keys() >= set(names):
        # Copy the array, because it may change before it is sent.
        return [
            float(np.linalg.norm(copy - sent[name])) if name in sent else (name, copy.copy())
            for name, copy in copies.items()
        ]
    # In one call, because calling `norm` for each took longer than all other measures.
    states = np.concatenate([sent[name] for name in names])
    apart = (copies.table.reshape(states.shape) - states).reshape(len(names), -1)
    distances: list[Any] = np.sqrt(np.vecdot(apart, apart)).tolist()
    return distances


def residuals(models: Readings) -> dict[str, float]:
    """Return the columns that reveal lost frames, for methods that have them.

    The columns are consensus_error; dual_residual for methods with duals, and tracking_residual for gradient tracking,
    the largest element of sums that should be zero; least_weight for push-sum; and copy_error, if states were sent.
    """
    columns = {"consensus_error": consensus_error(np.array(models["theta"]))}
    for name in ("dual", "tracking"):
        parts = [part for part in models.get(name, ()) if part is not None]
        if parts:
            columns[f"{name}_residual"] = float(np.abs(np.add.reduce(parts)).max())
    weights = [weight for weight in models.get("weight", ()) if weight is not None]
    if weights:
        columns["least_weight"] = min(weights)
    sent = dict(zip(models["name"], models["own"], strict=True))
    if any(own is not None for own in sent.values()):
        errors = (
            each if isinstance(each, float) else float(np.linalg.norm(each[1] - sent[each[0]]))
            for copies in models["copies"]
            for each in copies
        )
        columns["copy_error"] = max(errors, default=0.0)
    return columns
