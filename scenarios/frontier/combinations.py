"""The methods, coders and censors of the frontier study, by name, and their combinations."""

from collections.abc import Callable, Mapping, Sequence

from netsim import BadInput, agents
from netsim.agents import Always, Censor
from netsim.coders import MOST_BITS, QSGD, Coder, Float, Uniform
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.studies import experiment
from netsim.util import check

METHODS: Mapping[str, experiment.Method] = {
    "DKLA": experiment.Method(agents.DKLA),
    "COKE": experiment.Method(agents.COKE),
    "CTA": experiment.Method(agents.CTA),
    "RFF-DOKL": experiment.Method(agents.RFFDOKL),
    "DOKL": experiment.Method(agents.DOKL),
    "ODKLA": experiment.Method(agents.ODKLA),
    "DDKL": experiment.Method(agents.DDKL),
    **BASELINES,
}
"""The methods that can be compared; the study sets the step sizes of the first seven."""

ONLINE = ("RFF-DOKL", "DOKL", "ODKLA", "DDKL")
"""Methods that receive one sample per round."""

_CODERS = ("float64", "float32", "float16", "B", "B@R", "qsgd-B")
_CENSORS = ("none", "geometric", "geometric-MU", "power", "power-MU", "every-M", "random-P", "relative-S")

REFERENCE = "DKLA float64"
"""The combination that all others are compared with."""

WITHIN = 0.01
"""Relative difference from the reference's error within which a combination counts as reaching it."""


def combinations(
    methods: Mapping[str, experiment.Method], coders: Mapping[str, Coder], censors: Mapping[str, Censor]
) -> dict[str, experiment.Method]:
    """Return every distinct combination by name, with its coder and censor as labels.

    A method without a coder runs once, unchanged. Raises BadInput for COKE without a censor.
    """
    quiet = {name: censor for name, censor in censors.items() if censor == Always()}
    censored = {name: censor for name, censor in censors.items() if censor != Always()}
    if "COKE" in methods and not censored:
        raise BadInput("censors = 'none': must name a censor for COKE, which is DKLA without one")
    found: dict[str, experiment.Method] = {}
    for name, method in methods.items():
        if "coder" not in method.parameters():
            found[name] = method
            continue
        # DKLA with a censor is COKE and COKE without one is DKLA; each would otherwise run twice.
        own = quiet if name == "DKLA" else censored if name == "COKE" else censors
        for variant, made in experiment.product(method, coder=coders, censor=own).items():
            # Methods that sample clients need coders of whole states and no censor.
            given = made.given
            if issubclass(made.kind, agents.FedAvg) and not (given["coder"].whole and given["censor"] == Always()):
                found.setdefault(name, method)
            else:
                found[f"{name} {variant}".removesuffix(" none")] = made
    return found


def coder_of(text: str) -> tuple[str, Coder]:
    """Return the coder described by a text, and its name in results; raises BadInput for an unknown one."""
    if text in _CODERS[:3]:
        return text, Float(int(text.removeprefix("float")))
    bits, at, reach = text.removeprefix("qsgd-").partition("@")
    random, limit = text.startswith("qsgd-"), _number(reach)
    if bits.isascii() and bits.isdigit():
        count = check.integer("coders", int(bits), low=1, high=MOST_BITS)
        if not at:
            return (text, QSGD(count)) if random else (f"{count}-bit", Uniform(count))
        if limit is not None and not random:
            check.finite("coders", limit, above=0.0)
            return f"{count}-bit@{limit:g}", Uniform(count, -limit, limit)
    raise _unknown("coders", text, _CODERS, f"B: bits, 1 to {MOST_BITS}; R: a range")


def censor_of(text: str, threshold: float, decay: float) -> tuple[str, Censor]:
    """Return the censor described by a text, and its name in results; raises BadInput for an unknown one."""
    if text == "none":
        return text, Always()
    word, dash, tail = text.partition("-")
    makers: dict[str, Callable[[float], Censor]] = {
        "geometric": lambda mu: agents.Geometric(threshold, mu),
        "power": lambda mu: agents.PowerLaw(threshold, mu),
        "every": lambda m: agents.Periodic(check.integer("censors", int(m) if m.is_integer() else m, low=1)),
        "random": agents.AtRandom,
        "relative": agents.Relative,
    }
    value = _number(tail) if dash else {"geometric": decay, "power": 1.0}.get(word)
    if word not in makers or value is None:
        raise _unknown("censors", text, _CENSORS, "the capital letter: a number")
    return f"{word}-{value:g}" if dash else word, makers[word](value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _unknown(parameter: str, text: str, known: Sequence[str], letters: str) -> BadInput:
    """Return the error for an unknown name; its message suggests the nearest known one."""
    try:
        check.one_of(parameter, text, known)
    except BadInput as error:
        return BadInput(f"{error}; {letters}")
    # The list itself, which has letters in the place of numbers, was passed as a name.
    return check.refuse(parameter, text, f"one of {', '.join(known)}; {letters}")
