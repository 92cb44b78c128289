"""Parameters of an experiment's methods that a theorem chooses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netsim.agents.theory.choice import BY, choose
from netsim.agents.theory.inputs import Agents
from netsim.agents.theory.links import not_ideal
from netsim.util import check

if TYPE_CHECKING:
    from netsim import Setup


@dataclass(frozen=True, repr=False)
class Chosen:
    """A placeholder for a parameter of `netsim.Method`: the value that `choose` returns for each run's agents.

    ``Method(LEAD, eta=Chosen(), gamma=Chosen(), alpha=Chosen(), coder=QSGD(4))``. A theorem chooses its parameters
    jointly. So a parameter given by hand may lie outside the range that the chosen ones imply; notes report this.

    Parameters
    ----------
    by : {"guaranteed", "best"}
        As for `choose`.

    Raises
    ------
    BadInput
        If ``by`` is unknown. Before a run, if no theorem chooses the parameter, if none applies to the network, or if
        agents are created without their network, as for deployments.
    """

    by: str = "guaranteed"

    def __post_init__(self) -> None:
        check.one_of("by", self.by, BY)

    def __repr__(self) -> str:
        return f"Chosen({'' if self.by == BY[0] else repr(self.by)})"

    def parameters(self) -> dict[str, Any]:
        """Return no parameters, so that an experiment's paths end at this placeholder."""
        return {}

    def derive(self, agents: Agents, setup: "Setup") -> Mapping[str, float]:
        """Return the parameters chosen for these agents."""
        network = setup.network
        reason = "not for agents without their network" if network is None else not_ideal(network)
        if network is None or reason:
            raise check.refuse("parameter", self, f"a number here; theorems are {reason}")
        return choose(agents, network.graph, self.by)
