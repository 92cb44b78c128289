"""Find a part of a history, as short as possible, whose results are impossible in every order of its operations."""

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from netsim.checkers.models import Model
from netsim.checkers.operations import Operation
from netsim.checkers.order import Call, Order, Undecided

__all__ = ["Contradiction", "find_contradiction"]

# A step takes about 20 microseconds, so that searches end within two seconds.
_MOST_STEPS = 25_000
# Parts with more operations are not reduced one operation at a time, because each attempt needs a search.
_MOST_SHORTENED = 64


@dataclass(frozen=True)
class Contradiction:
    """Operations whose recorded results are impossible in every order.

    Attributes
    ----------
    operations : list of Operation
        The operations that contradict each other. In a long history: the first operation whose result is impossible,
        the operations concurrent with it, and the last earlier change of the state.
    before : int
        The number of earlier operations, on which the contradiction also depends.
    """

    operations: list[Operation]
    before: int

    def __str__(self) -> str:
        shown = "; ".join(map(str, self.operations))
        return f"no order explains {shown}" + (f", after {self.before:,} more" if self.before else "")


def find_contradiction(operations: Iterable[Operation], model: Model, *, timed: bool = True) -> Contradiction | None:
    """Return operations whose results are impossible in every order; None if some order explains all results.

    Operations on different keys are checked separately. Operations of unknown outcome may have taken effect or not.

    Parameters
    ----------
    operations : iterable of Operation
        The history.
    model : Model
        The data type.
    timed : bool
        True: an operation that ended before another began must come first (linearizability). False: operations may come
        in any order (serializability).

    Raises
    ------
    BadInput
        If the model lacks the operation.
    Undecided
        If the search takes more than 25,000 steps, about two seconds: the problem is NP-complete.
    """
    by_key: dict[Hashable, list[Call]] = {}
    for each in operations:
        model.must_know(each)
        if each.outcome != "failed":
            by_key.setdefault(each.key, []).append(_call(each, timed))
    order = Order(model, _MOST_STEPS)
    for calls in by_key.values():
        if not order.explains(calls):
            return _part(calls, order)
    return None


def _call(operation: Operation, timed: bool) -> Call:
    known = operation.outcome == "ok"
    if not timed:
        return Call(operation, 0.0, math.inf, known)
    return Call(operation, operation.start, operation.end if known else math.inf, known)


def _part(calls: list[Call], order: Order) -> Contradiction:
    """Return a short part of the calls whose results are impossible in every order."""
    with suppress(Undecided):
        calls = _first_wrong(calls, order)
    last = max(calls, key=lambda call: (call.needed, call.end))
    if len(calls) > _MOST_SHORTENED:
        # The contradictory operation, those concurrent with it, and the last earlier change of the state.
        changes = [each for each in calls if each.end < last.start and not order.model.reads(each.operation)]
        shown = sorted(changes, key=lambda call: call.end)[-1:]
        shown += [call for call in calls if call is not last and call.end >= last.start] + [last]
        return Contradiction([call.operation for call in shown], len(calls) - len(shown))
    # Try to remove reads first, because changes of the state explain more to the reader.
    for place in sorted(range(len(calls)), key=lambda place: not order.model.reads(calls[place].operation)):
        fewer = [*calls[:place], _spared(calls[place]), *calls[place + 1 :]]
        with suppress(Undecided):
            if not order.explains(fewer):
                calls = fewer
    return Contradiction([call.operation for call in calls if call.needed], 0)


def _first_wrong(calls: Sequence[Call], order: Order) -> list[Call]:
    """Return the calls made by the time at which the results first become impossible; unfinished calls are optional."""
    times = sorted({call.end for call in calls if call.needed})
    last = len(times) - 1
    first = bisect_left(times, True, hi=last, key=lambda time: not order.explains(_until(time, calls)))
    return _until(times[first], calls)


def _until(time: float, calls: Sequence[Call]) -> list[Call]:
    return [call if call.end <= time else _spared(call) for call in calls if call.start <= time]


def _spared(call: Call) -> Call:
    """Return a copy of a call with unknown outcome, which allows every order that was allowed before, and more."""
    return replace(call, end=math.inf, needed=False)
