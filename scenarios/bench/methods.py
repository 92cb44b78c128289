"""The methods that the suite compares, by name, and which of them a problem and a network allow."""

import dataclasses
from collections.abc import Mapping

from netsim import BadInput
from netsim.agents import COKE, CTA, DKLA, EdgeDuals, Geometric, RunningSums
from netsim.coders import Uniform
from netsim.scenarios.tasks.baselines import BASELINES, CODED_BITS
from netsim.scenarios.tasks.method import Method, methods_in
from netsim.scenarios.tasks.settings import chosen_names

_SUMMED = {"running_sums": True}
_CENSOR = Geometric(0.3, 0.95)


def _summed(name: str) -> Method:
    """Return a baseline that sends running sums, so that the next frame replaces a lost one."""
    method = BASELINES[name]
    return dataclasses.replace(method, name=f"{name}-sums", steps={**method.steps, **_SUMMED})


_OWN = (
    Method("CTA", CTA, {"eta": 0.25}),
    Method("DKLA", DKLA, {"rho": 0.05}),
    Method("DKLA-sums", DKLA, {"rho": 0.05}, duals=RunningSums()),
    Method("DKLA-edges", DKLA, {"rho": 0.05}, duals=EdgeDuals()),
    Method("COKE", COKE, {"rho": 0.05}, _CENSOR),
    Method(f"COKE-{CODED_BITS}bit", COKE, {"rho": 0.05}, _CENSOR, Uniform(CODED_BITS)),
    *BASELINES.values(),
    *map(_summed, ("DIGing", "SGP", "Push-DIGing")),
)

METHODS: Mapping[str, Method] = {method.name: method for method in _OWN}
"""All by name; the settings are where tuning starts."""

NONE = "none"

GIVEN = {"eta": 0.1, "rho": 0.05, "gamma": 0.5, "beta": 0.2}
"""Values that a user's class may ask for by a parameter without a default."""


def chosen_methods(algorithms: str, files: str | None) -> list[Method]:
    """Return the methods that are named, with "none" none, and those of a user's files.

    Raises
    ------
    BadInput
        For an unknown name or an unusable file, or if there is no method.
    """
    named = [] if algorithms == NONE else chosen_names("algorithms", algorithms, METHODS)
    found = [METHODS[name] for name in named] + methods_in(files, GIVEN, METHODS)
    if not found:
        raise BadInput(f"algorithms = {NONE!r}: must go with --method, or name some of {', '.join(METHODS)}")
    return found
