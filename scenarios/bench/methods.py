"""The methods compared by the suite, by name."""

from collections.abc import Mapping

from netsim import BadInput, Method
from netsim.agents import COKE, CTA, DKLA, EdgeDuals, Geometric, RunningSums
from netsim.coders import Uniform
from netsim.scenarios.tasks.baselines import BASELINES, CODED_BITS
from netsim.scenarios.tasks.method import methods_in
from netsim.scenarios.tasks.settings import chosen_names

_COKE = Method(COKE, rho=0.05, censor=Geometric(0.3, 0.95))

METHODS: Mapping[str, Method] = {
    "CTA": Method(CTA, eta=0.25),
    "DKLA": Method(DKLA, rho=0.05),
    "DKLA-sums": Method(DKLA, rho=0.05, duals=RunningSums()),
    "DKLA-edges": Method(DKLA, rho=0.05, duals=EdgeDuals()),
    "COKE": _COKE,
    f"COKE-{CODED_BITS}bit": _COKE.with_given(coder=Uniform(CODED_BITS)),
    **BASELINES,
    # Frames carry running sums, so that the next frame replaces a lost one.
    **{f"{name}-sums": BASELINES[name].with_given(running_sums=True) for name in ("DIGing", "SGP", "Push-DIGing")},
}
"""The methods by name; their settings are the start of the tuning."""

NONE = "none"

GIVEN = {"eta": 0.1, "rho": 0.05, "gamma": 0.5, "beta": 0.2}
"""Values passed to a user's class for parameters of these names that have no default."""


def chosen_methods(algorithms: str, files: str | None) -> dict[str, Method]:
    """Return the methods given by name (none for "none"), and those of a user's files.

    Raises
    ------
    BadInput
        For an unknown name or an unusable file, or if there is no method.
    """
    named = [] if algorithms == NONE else chosen_names("algorithms", algorithms, METHODS)
    found = {name: METHODS[name] for name in named} | methods_in(files, GIVEN, METHODS)
    if not found:
        raise BadInput(f"algorithms = {NONE!r}: must go with --method, or name some of {', '.join(METHODS)}")
    return found
