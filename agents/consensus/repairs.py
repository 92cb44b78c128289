"""Frames that come in a later round than theirs, sent again on request: what they would have done is done then."""

from collections.abc import Hashable, Iterable

import numpy as np

from netsim import Frame
from netsim.core import Copies
from netsim.core.copies import as_state
from netsim.util.typing import Vector

_KEPT = 64  # states of a neighbour that a late frame may belong between


class Repairs:
    """Takes frames into the copies in whatever order they come, and adds up what the duals missed.

    A state that n broadcast in round r and that comes in round k has in rounds r … k − 1, or until n's next broadcast
    that was heard, been taken for the one before. To the sum Σ_k θ̂_n, of which the dual is made, that is the difference
    as often as it was missing.

    Parameters
    ----------
    copies : Copies
        The copies, kept in place.
    start : ndarray
        What every θ̂ begins with.
    """

    def __init__(self, copies: Copies, start: Vector) -> None:
        self._copies = copies
        self._start = start
        # By neighbour: rounds in order, and the states (or changes) heard of them.
        self._known: dict[Hashable, list[tuple[int, Vector]]] = {}
        self._owed: Vector = np.zeros_like(start)

    def heard(self, neighbor: Hashable) -> bool:
        """Return whether a neighbour was ever heard."""
        return neighbor in self._known

    def owed(self) -> Vector:
        """Return Σ_n Σ_k of what was missing of θ̂_n, and forget it."""
        owed, self._owed = self._owed, np.zeros_like(self._start)
        return owed

    def take_in(self, frames: Iterable[Frame], round_number: int, *, add: bool) -> None:
        """Take in states, or changes to add; those of this round as ever, the late ones in their place."""
        for frame in frames:
            number = frame.round or round_number
            known = self._known.setdefault(frame.sender, [])
            # Most come in their order, and need no looking for their place.
            is_late = bool(known) and number <= known[-1][0]
            if is_late and any(number == each for each, _ in known):
                continue
            value = np.array(as_state(frame, self._start.shape), dtype=np.float64)
            place = sum(each < number for each, _ in known) if is_late else len(known)
            if add:
                missing, until = value, round_number
                self._copies[frame.sender][...] += value
            else:
                before = known[place - 1][1] if place else self._start
                until = known[place][0] if place < len(known) else round_number
                missing = value - before
                if place == len(known):
                    self._copies[frame.sender][...] = value
            self._owed += max(0, min(until, round_number) - number) * missing
            known.insert(place, (number, value))
            del known[:-_KEPT]
