"""Methods, coders and censors by the names that the study of the frontier gives them, and all that they combine to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from netsim import BadInput, check
from netsim.agents import (
    DDKL,
    DOKL,
    ODKLA,
    RFFDOKL,
    AtRandom,
    Censor,
    Geometric,
    OnlineCost,
    Periodic,
    PowerLaw,
    Relative,
    Squared,
)
from netsim.agents.consensus.base import SharingAgent
from netsim.quantize import MOST_BITS, QSGD, Coder, Float, Uniform
from netsim.scenarios.tasks.batch import BatchTask
from netsim.scenarios.tasks.online import Method, OnlineAgent, Steps

ONLINE: dict[str, type[OnlineAgent]] = {"RFF-DOKL": RFFDOKL, "DOKL": DOKL, "ODKLA": ODKLA, "DDKL": DDKL}
METHODS = ("DKLA", "COKE", "CTA", *ONLINE)
"""The methods that can be compared."""

_CODERS = ("float64", "float32", "float16", "B", "B@R", "qsgd-B")
_CENSORS = ("none", "geometric", "geometric-MU", "power", "power-MU", "every-M", "random-P", "relative-S")

REFERENCE = "DKLA float64"
"""What all others are compared with."""

WITHIN = 0.01
"""How near to the reference's error a combination must end, relative to it."""


@dataclass(frozen=True)
class Combination:
    """A method, and what it says how often in how many bits, each under its name."""

    method: str
    coder_name: str
    censor_name: str
    coder: Coder
    censor: Censor | None

    @property
    def name(self) -> str:
        """Its name in rounds.csv."""
        return " ".join([self.method, self.coder_name, self.censor_name]).removesuffix(" none")


def combinations(
    methods: Sequence[str], coders: Sequence[tuple[str, Coder]], censors: Sequence[tuple[str, Censor | None]]
) -> list[Combination]:
    """Return the reference and then every combination that is a method of its own, each once.

    Raises
    ------
    BadInput
        If COKE is asked for, and no censor.
    """
    if "COKE" in methods and all(censor is None for _, censor in censors):
        raise BadInput("censors = 'none': must name a censor for COKE, which is DKLA without one")
    found = [Combination("DKLA", "float64", "none", Float(64), None)]
    found += [
        Combination(method, coder_name, censor_name, coder, censor)
        for method in methods
        for coder_name, coder in coders
        for censor_name, censor in censors
        if (censor is None or method != "DKLA") and (censor is not None or method != "COKE")
    ]
    first: dict[str, Combination] = {}
    for each in found:
        first.setdefault(each.name, each)
    return list(first.values())


def coder_of(text: str) -> tuple[str, Coder]:
    """Return the coder that ``text`` means, and its name in results.

    Raises
    ------
    BadInput
        If it means none; the message suggests the nearest.
    """
    if text in _CODERS[:3]:
        return text, Float(int(text.removeprefix("float")))
    bits, at, reach = text.removeprefix("qsgd-").partition("@")
    if not (bits.isascii() and bits.isdigit()):
        raise _unknown("coders", text, _CODERS, f"B: bits, 1 to {MOST_BITS}; R: a range")
    count = check.integer("coders", int(bits), low=1, high=MOST_BITS)
    if not at:
        return (text, QSGD(count)) if text.startswith("qsgd-") else (f"{count}-bit", Uniform(count))
    limit = _number(reach)
    if limit is None or text.startswith("qsgd-"):
        raise _unknown("coders", text, _CODERS, f"B: bits, 1 to {MOST_BITS}; R: a range")
    check.finite("coders", limit, above=0.0)
    return f"{count}-bit@{limit:g}", Uniform(count, -limit, limit)


def censor_of(text: str, threshold: float, decay: float) -> tuple[str, Censor | None]:
    """Return the censor that ``text`` means, None for the one that never is silent, and its name in results.

    Raises
    ------
    BadInput
        If it means none; the message suggests the nearest.
    """
    if text == "none":
        return text, None
    if text == "geometric":
        return text, Geometric(threshold, decay)
    if text == "power":
        return text, PowerLaw(threshold, 1.0)
    word, _, tail = text.partition("-")
    makers: dict[str, Callable[[float], Censor]] = {
        "geometric": lambda mu: Geometric(threshold, mu),
        "power": lambda mu: PowerLaw(threshold, mu),
        "every": lambda m: Periodic(_whole("censors", m)),
        "random": AtRandom,
        "relative": Relative,
    }
    value = _number(tail)
    if word not in makers or value is None:
        raise _unknown("censors", text, _CENSORS, "the capital letter: a number")
    return f"{word}-{value:g}", makers[word](value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _whole(parameter: str, number: float) -> int:
    return check.integer(parameter, int(number) if number.is_integer() else number, low=1)


def _unknown(parameter: str, text: str, known: Sequence[str], letters: str) -> BadInput:
    """Return the error for a name that means nothing."""
    try:
        check.one_of(parameter, text, known)
    except BadInput as error:
        return BadInput(f"{error}; {letters}")
    # The very words of the list, a letter where a number must be.
    return check.refuse(parameter, text, f"one of {', '.join(known)}; {letters}")


def agents_of(task: BatchTask, each: Combination, rounds: int, steps: Steps) -> dict[int, Any]:
    """Return new agents of a combination, one a node."""
    if each.method not in ONLINE:
        return dict(task.agents(each.method, rounds, censor=each.censor, coder=each.coder))
    method = Method(each.method, ONLINE[each.method], each.censor, each.coder)

    def learner(node: int) -> SharingAgent:
        problem = task.problems[node]
        samples = iter(zip(problem.features, problem.targets.tolist(), strict=True))
        cost = OnlineCost(samples, task.size, loss=Squared(), regularizer=problem.regularizer)
        return method.agent(cost, rounds, steps, task.weights(node))

    return {node: learner(node) for node in range(len(task.problems))}
