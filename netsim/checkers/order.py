"""Search for an order of operations that explains all results (Wing and Gong 1993, with Lowe's memoization)."""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from netsim.checkers.models import Model
from netsim.checkers.operations import Operation

__all__ = ["Call", "Order", "Undecided"]


class Undecided(Exception):  # noqa: N818  no error: the question is NP-complete
    """The search for an order took too many steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """An operation in the search; it takes effect from ``start`` to ``end``, and may be omitted unless ``needed``."""

    operation: Operation
    start: float
    end: float
    needed: bool


class Order:
    """A depth-first search for an order of calls that explains the results of the needed ones.

    If one call ends at the time at which another begins, either may be first; calls of one agent keep their order.

    Parameters
    ----------
    model : Model
        The model that defines the possible results.
    steps : int
        The maximum total number of steps of all searches.
    """

    def __init__(self, model: Model, steps: int) -> None:
        self.model, self._left = model, steps

    def explains(self, calls: Sequence[Call]) -> bool:
        """Return whether an order explains the results of all needed calls; raise Undecided if the steps run out."""
        search = _Search(sorted(calls, key=lambda call: (call.start, call.end)), self.model)
        for _ in search.steps():
            self._left -= 1
            if self._left < 0:
                raise Undecided
        return search.found


class _Search:
    """A search. Needed calls that are placed already: all before index ``base``, and later ones by bits of ``mask``."""

    def __init__(self, calls: list[Call], model: Model) -> None:
        self.found = False
        self._model = model
        self._needed = needed = [call for call in calls if call.needed]
        self._others = [call for call in calls if not call.needed]
        self._starts, self._ends = [call.start for call in needed], [call.end for call in needed]
        self._reads = [model.reads(call.operation) for call in needed]
        self._before, self._before_others = _before(needed, needed), _before(self._others, needed)

    def steps(self) -> Iterator[None]:
        """Search, and yield after each step."""
        needed, others, step = self._needed, self._others, self._model.step
        seen: set[tuple[int, int, int, Hashable]] = set()
        # Elements: base, mask, the bit mask of placed calls that are not needed, and the state.
        stack: list[tuple[int, int, int, Any]] = [(0, 0, 0, self._model.initial)]
        while stack:
            base, mask, used, state = stack.pop()
            ready, first_end = self._ready(base, mask)
            while (read := self._right_read(ready, state)) is not None:
                base, mask = _place(base, mask, read)
                ready, first_end = self._ready(base, mask)
            if base == len(needed):
                self.found = True
                return
            if (base, mask, used, state) in seen:
                continue
            seen.add((base, mask, used, state))
            yield
            for j, call in enumerate(others):
                if call.start > first_end:
                    break
                before = self._before_others[j]
                if not used >> j & 1 and (before < base or mask >> (before - base) & 1):
                    right, after = step(state, call.operation)
                    # Skip a call that is not needed and changes nothing.
                    if right and after != state:
                        stack.append((base, mask, used | 1 << j, after))
            for i in sorted(ready, key=self._ends.__getitem__, reverse=True):
                right, after = step(state, needed[i].operation)
                if right:
                    stack.append((*_place(base, mask, i), used, after))

    def _right_read(self, ready: Sequence[int], state: Any) -> int | None:
        """Return a ready call that is a read with the right result, which is always safe to place next; or None."""
        for i in ready:
            if self._reads[i] and self._model.step(state, self._needed[i].operation)[0]:
                return i
        return None

    def _ready(self, base: int, mask: int) -> tuple[list[int], float]:
        """Return the needed calls that may be placed next, and the earliest end of an unplaced needed call."""
        ready, first_end, starts, ends, before = [], math.inf, self._starts, self._ends, self._before
        for i in range(base, len(starts)):
            if mask >> (i - base) & 1:
                continue
            if starts[i] > first_end:
                break
            if ends[i] < first_end:
                first_end = ends[i]
            j = before[i]
            if j < base or mask >> (j - base) & 1:
                ready.append(i)
        return ready, first_end


def _place(base: int, mask: int, i: int) -> tuple[int, int]:
    mask |= 1 << (i - base)
    # Skip the placed calls at the mask's low end.
    placed = (~mask & (mask + 1)).bit_length() - 1
    return base + placed, mask >> placed


def _before(calls: Sequence[Call], needed: Sequence[Call]) -> list[int]:
    """Return, for each call, the index of the last needed call of the same agent that ended before it; -1 if none."""
    before, of_agent = [-1] * len(calls), dict[Hashable, list[int]]()
    coming = iter(sorted((_order(call), i) for i, call in enumerate(needed)))
    at, i = next(coming, (None, -1))
    for place in sorted(range(len(calls)), key=lambda place: _order(calls[place])):
        call = calls[place]
        while at is not None and at < _order(call):
            of_agent.setdefault(needed[i].operation.agent, []).append(i)
            at, i = next(coming, (None, -1))
        earlier = reversed(of_agent.get(call.operation.agent, ()))
        before[place] = next((i for i in earlier if needed[i].end <= call.start), -1)
    return before


def _order(call: Call) -> tuple[float, int]:
    return call.start, call.operation.number
