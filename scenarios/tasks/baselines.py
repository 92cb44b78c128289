"""The baselines of decentralized optimization, by name in studies, with safe untuned steps."""

from collections.abc import Mapping

from netsim import Method, agents
from netsim.coders import Uniform

CODED_BITS = 4
"""The bits per element with which coded baselines send differences, unless a study sets another number."""

_CODER = Uniform(CODED_BITS)

BASELINES: Mapping[str, Method] = {
    "D-PSGD": Method(agents.DPSGD, eta=0.25),
    "EXTRA": Method(agents.EXTRA, eta=0.25),
    "DIGing": Method(agents.DIGing, eta=0.1),
    "CHOCO": Method(agents.CHOCO, eta=0.25, gamma=0.5, coder=_CODER),
    "LEAD": Method(agents.LEAD, eta=0.4, gamma=0.8, coder=_CODER),
    "BEER": Method(agents.BEER, eta=0.2, gamma=0.4, coder=_CODER),
    "EF21": Method(agents.EF21, eta=0.25, coder=_CODER),
    "EF21-P": Method(agents.EF21P, eta=0.25, coder=_CODER),
    "R-ADMM": Method(agents.RelaxedADMM, rho=0.05),
    "LT-ADMM": Method(agents.LTADMM, eta=0.2, beta=0.2, rho=0.05),
    "SGP": Method(agents.SGP, eta=0.1),
    "Push-DIGing": Method(agents.PushDIGing, eta=0.1),
    "FedAvg": Method(agents.FedAvg, eta=0.1),
    "SCAFFOLD": Method(agents.SCAFFOLD, eta=0.1),
    "SCAFFOLD-states": Method(agents.SCAFFOLD, eta=0.1, resends_state=True),
    "AD-PSGD": Method(agents.ADPSGD, eta=0.1),
}
"""The methods by name.

The steps suit the squared error of features of size about 1, whose curvature is about 2, and Metropolis weights of any
graph. PG-EXTRA is missing, because for the smooth costs of studies it equals EXTRA. In SCAFFOLD-states clients send
their whole states.
"""

CODED = tuple(name for name, method in BASELINES.items() if "coder" in method.given)
"""The names of the methods that send coded differences."""
