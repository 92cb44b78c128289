"""A measure of an experiment: the theorems' bounds and predictions beside the measured values."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.agents.theory.admm import optimum_of
from netsim.agents.theory.choice import bounds, lines, probe
from netsim.agents.theory.inputs import Agents
from netsim.agents.theory.links import not_ideal

if TYPE_CHECKING:
    from netsim import Network

MODEL_ERROR, COPY_ERROR = "model_error", "model_copy_error"

MEASURED: Mapping[str, str] = {
    "bound_error": MODEL_ERROR,
    "predicted_error": MODEL_ERROR,
    "bound_consensus_error": "consensus_error",
    "bound_copy": COPY_ERROR,
    "bound_regret": "static_regret",
    "predicted_payload_bits": "payload_bits",
    "bound_distance": "limit_distance",
    "predicted_distance": "limit_distance",
}
"""{column of a bound or prediction: column of the measured value}."""


class Theory:
    """A measure for `netsim.Experiment`: the bounds and predictions of the theorems that apply to a run's agents.

    The columns ``bound_…`` and ``predicted_…`` contain them for each round. The column ``model_error`` is ‖Θ_k − Θ*‖
    for the stacked models of all agents, and ``model_copy_error`` the norm of the difference between all models and
    their copies at neighbours. On lossy links there are no columns, which `lines` reports, with the reasons.
    """

    def __repr__(self) -> str:
        return "Theory()"

    def of(self, agents: Agents, network: "Network", rounds: int) -> Callable[[Agents], dict[str, float]] | None:
        """Return the probe of a run whose agents have not begun, or None if no theorem has a column."""
        if not_ideal(network):
            return None
        known, running = bounds(agents, network.graph, rounds), probe(agents, network.graph)
        if not known and running is None:
            return None
        best = optimum_of(agents) if any(MEASURED[name] == MODEL_ERROR for name in known) else None
        number = -1

        def columns(agents: Agents) -> dict[str, float]:
            nonlocal number
            number = min(number + 1, rounds - 1)
            row = {name: float(values[number]) for name, values in known.items()}
            row |= {} if running is None else running(agents)
            if best is not None:
                row[MODEL_ERROR] = float(np.linalg.norm(_models(agents) - best))
            if "bound_copy" in known:
                copies = np.stack([agent.sharing.own for agent in agents.values()])
                row[COPY_ERROR] = float(np.linalg.norm(_models(agents) - copies))
            return row

        # The probe must be called in every round, because a bound may depend on all rounds so far.
        columns.may_skip = False  # type: ignore[attr-defined]
        return columns

    def lines(self, agents: Agents, network: "Network") -> list[str]:
        """Return why some theorems do not apply, and the statements of the others that have no column."""
        reason = not_ideal(network)
        return [f"theorems: {reason}"] if reason else lines(agents, network.graph)


def _models(agents: Mapping[Any, Any]) -> Any:
    return np.stack([agent.theta for agent in agents.values()])
