"""Values that may change with the round: step sizes, penalties.

An algorithm accepts a number, or any function of the round k = 1, 2, …. The schedules here can be compared and pickled,
and are printed as their formula: ``0.5·k^(-0.5)``. An algorithm declares such a parameter as a field, ``rho: Scheduled
= Scheduled(above=0.0)``; reading ``self.rho`` gives the value of the current round.
"""

import bisect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Union

from netsim.errors import BadInput
from netsim.util import check

Schedule = Callable[[int], float]
"""A function that returns the value for the round k = 1, 2, …."""

Step = Union[float, Schedule]  # noqa: UP007 (evaluated where it is documented)
"""The type of a step size or penalty: a number, which is the same in each round, or a schedule."""


@dataclass(frozen=True, repr=False)
class _Geometric:
    start: float
    factor: float

    def __repr__(self) -> str:
        return f"{self.start:g}·{self.factor:g}^(k-1)"

    def __call__(self, k: int) -> float:
        return self.start * self.factor ** (k - 1)


@dataclass(frozen=True, repr=False)
class _Power:
    """A power of k; a negative ``exponent`` makes the schedule fall."""

    start: float
    exponent: float

    def __repr__(self) -> str:
        return f"{self.start:g}·k^({self.exponent:g})"

    def __call__(self, k: int) -> float:
        return self.start * math.pow(k, self.exponent)


@dataclass(frozen=True, repr=False)
class _Doubling:
    start: float
    every: int
    limit: float

    def __repr__(self) -> str:
        grown = f"{self.start:g}·2^floor((k-1)/{self.every})"
        return grown if math.isinf(self.limit) else f"min({grown}, {self.limit:g})"

    def __call__(self, k: int) -> float:
        # Limit the exponent, because 2.0**1024 overflows.
        return min(self.start * 2.0 ** min((k - 1) // self.every, 500), self.limit)


@dataclass(frozen=True, repr=False)
class _Piecewise:
    rounds: tuple[int, ...]
    values: tuple[float, ...]

    def __repr__(self) -> str:
        return ", ".join(f"{value:g} from round {k}" for k, value in zip(self.rounds, self.values, strict=True))

    def __call__(self, k: int) -> float:
        return self.values[max(bisect.bisect_right(self.rounds, k) - 1, 0)]


def geometric(start: float, factor: float) -> Schedule:
    """Return start · factor^(k−1), factor > 0.

    This function and those below raise BadInput for a number that is not finite, or outside the stated range.
    """
    return _Geometric(check.finite("start", start), check.finite("factor", factor, above=0.0))


def power(start: float, exponent: float = 0.5) -> Schedule:
    """Return the falling schedule start · k^(−exponent), exponent ≥ 0; 0.5 is usual in online gradient descent."""
    start = check.finite("start", start)
    if check.finite("exponent", exponent) < 0.0:
        raise check.refuse("exponent", exponent, "a number >= 0, for power(…) falls; growing(…) grows")
    return _Power(start, 0.0 - exponent)  # not -exponent, which is printed as -0 for 0


def growing(start: float, exponent: float = 0.5) -> Schedule:
    """Return the growing schedule start · k^exponent, exponent ≥ 0; with 0.5, the step of a penalty ρ falls as 1/√k."""
    return _Power(check.finite("start", start), check.finite("exponent", exponent, low=0.0))


def doubling(start: float, every: int, limit: float = math.inf) -> Schedule:
    """Return the schedule min(start · 2^⌊(k−1)/every⌋, limit), which doubles after each ``every`` rounds."""
    return _Doubling(
        check.finite("start", start), check.integer("every", every, low=1), check.number("limit", limit, low=start)
    )


def piecewise(values: Mapping[int, float]) -> Schedule:
    """Return a step function: each key of ``values`` is the first round of its value; the first key must be 1."""
    rounds = tuple(check.integer("values", k, low=1) for k in values)
    if not rounds or rounds[0] != 1 or list(rounds) != sorted(set(rounds)):
        raise check.refuse("values", dict(values), "a mapping {1: value, round: value, …} in the order of the rounds")
    return _Piecewise(rounds, tuple(check.finite("values", value) for value in values.values()))


if TYPE_CHECKING:

    class Scheduled:
        """A field of an algorithm that is set to a number or a schedule; reading it gives its value in this round."""

        default: Step | None

        def __init__(
            self, *, default: Step | None = None, low: float = -math.inf, above: float | None = None
        ) -> None: ...
        def __get__(self, agent: object, owner: Any = None) -> float: ...
        def __set__(self, agent: object, value: Step) -> None: ...

else:

    class Scheduled(property):
        """A field of an algorithm that is set to a number or a schedule; reading it gives its present value.

        Parameters
        ----------
        default : float or schedule, optional
            The value of a missing field; default: the field is required.
        low, above : float, optional
            The least value, or an exclusive lower bound; default: none.

        Raises
        ------
        BadInput
            If the value is outside the range, when the field is set or when a round begins.
        TypeError
            If an algorithm is created without a required field.
        """

        # A property is almost as fast as an attribute: local steps read their step sizes several times a round.

        def __init__(self, *, default=None, low=-math.inf, above=None):
            self.default = default
            self._bounds = {"low": low, "above": above}

        def __set_name__(self, owner, name):
            self._field = name
            super().__init__(attrgetter(f"_{name}"), self._put)

        def _put(self, agent, value):
            if value is self:
                value = self.default
            if value is None:
                raise TypeError(f"{type(agent).__qualname__}() misses the argument {self._field!r}")
            schedules = vars(agent).setdefault("_schedules", {})
            schedules.pop(self._field, None)
            if callable(value):
                schedules[self._field] = value
                self.move_to(agent, 1, value)
            else:
                vars(agent)[f"_{self._field}"] = check.finite(self._field, value, **self._bounds)

        def __reduce__(self):
            # This descriptor is a default of a dataclass, so it is pickled with a class that a script sends to workers.
            return _scheduled, (self._field, self.default, self._bounds)

        def move_to(self, agent, k, schedule):
            """Set an agent's field to the schedule's value in round k."""
            try:
                value = schedule(k)
            except OverflowError:
                # Python raises for powers that overflow; refuse such a value like any other infinite step.
                value = math.inf
            try:
                vars(agent)[f"_{self._field}"] = check.finite(self._field, value, **self._bounds)
            except BadInput as error:
                raise BadInput(f"{error} (the schedule {schedule!r} in round {k})") from None


def _scheduled(field: str, default: Step | None, bounds: Mapping[str, Any]) -> Any:
    """Return a field of an algorithm from its pickled form."""
    made = Scheduled(default=default, **bounds)
    made.__set_name__(None, field)  # type: ignore[attr-defined]
    return made


def schedules_of(agent: Any) -> Mapping[str, Schedule]:
    """Return the schedules of an agent's fields; empty if all are numbers."""
    found: Mapping[str, Schedule] = vars(agent).get("_schedules", {})
    return found


def advance(agent: Any, k: int) -> None:
    """Set every scheduled field of an agent to its value in round k."""
    for field, schedule in schedules_of(agent).items():
        getattr(type(agent), field).move_to(agent, k, schedule)
