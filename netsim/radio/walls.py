"""The walls and floors of a building, which attenuate signals between two places.

The multi-wall model: the path loss grows by the loss of each wall that the straight line between two nodes crosses, and
with the number of floors between them. Source: COST Action 231, "Digital mobile radio towards future generation
systems", final report, EUR 18957, 1999, section 4.7: L = L_FS + L_c + Σ k_wi·L_wi + k_f^((k_f + 2)/(k_f + 1) − b)·L_f,
with the loss L_FS in free space, a constant L_c, the loss L_wi of each of the k_wi walls of type i, the loss L_f of
each of the k_f floors, and b = 0.46. Walls have unlimited height.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.util import check, tables
from netsim.util.typing import Array

__all__ = ["Walls"]

Segment = tuple[float, float, float, float, float]

_FEWER = 0.46  # The constant b of the module's docstring: each further floor attenuates less than the floor before it.
_COLUMNS = ("x1", "y1", "x2", "y2", "loss_db")


@dataclass(frozen=True)
class Walls:
    """The walls and floors of a building, for `LogDistance`.

    If a straight wall is given as two pieces, a line through their common end crosses exactly one of them, so the wall
    counts once. A line along a wall does not cross the wall.

    Parameters
    ----------
    segments : iterable of (x1, y1, x2, y2, loss_db)
        The ends of each wall in metres, and its attenuation in dB, 0 or more. COST 231 measured 3.4 dB for
        light walls (plasterboard, or concrete thinner than 10 cm) and 6.9 dB for heavy ones, at 1.8 GHz.
    storey : float, optional
        The height of a storey in metres: there is a floor at each multiple of this height. None: there are no floors.
        Positions without a third coordinate are at height 0.
    floor_db : float
        The attenuation of a floor in dB, 0 or more. COST 231 measured 18.3 dB at 1.8 GHz.

    Raises
    ------
    BadInput
        If a value is not finite, a loss is negative, or a wall has no length.
    """

    segments: tuple[Segment, ...]
    storey: float | None = None
    floor_db: float = 18.3

    def __init__(
        self, segments: Iterable[Iterable[float]] = (), *, storey: float | None = None, floor_db: float = 18.3
    ) -> None:
        if not isinstance(segments, Iterable) or isinstance(segments, str):
            raise check.refuse("segments", segments, "a list of (x1, y1, x2, y2, loss_db)")
        check.put(self, segments=tuple(_wall(f"segments[{place}]", each) for place, each in enumerate(segments)))
        check.put(self, storey=None if storey is None else check.finite("storey", storey, above=0))
        check.put(self, floor_db=check.finite("floor_db", floor_db, low=0))

    @classmethod
    def from_csv(cls, path: str | Path, *, storey: float | None = None, floor_db: float = 18.3) -> "Walls":
        """Read the walls from a csv file with the columns x1, y1, x2, y2 (metres) and loss_db (dB).

        Empty lines and lines that begin with # are ignored. For ``storey`` and ``floor_db`` see `Walls`.

        Raises
        ------
        BadInput
            If the file is missing, or a row does not describe a wall; the error then names the row's line.
        """
        found = tables.rows(path, _COLUMNS)
        walls = (_wall(where, [tables.number(where, row, column) for column in _COLUMNS]) for where, row in found)
        return cls(walls, storey=storey, floor_db=floor_db)

    def loss_between(self, first: Array, second: Array) -> Array:
        """Return the total loss of walls and floors in dB between pairs of places, shape (pairs,).

        ``first`` and ``second`` have shape (pairs, 2 or 3), in metres.
        """
        first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
        # Order the ends of each line, so that both directions of a link have the same rounding errors.
        swapped = (first[:, 0] > second[:, 0]) | ((first[:, 0] == second[:, 0]) & (first[:, 1] > second[:, 1]))
        a = np.where(swapped[:, None], second[:, :2], first[:, :2])
        b = np.where(swapped[:, None], first[:, :2], second[:, :2])
        lost = self._floors(first, second)
        # Sort the lines by the x of their left ends. The lines that may cross a wall then form one range: none of them
        # begins to the right of the wall, or more than ``longest`` to the left of it.
        order = np.argsort(a[:, 0], kind="stable")
        left, longest = a[order, 0], float((b[:, 0] - a[:, 0]).max(initial=0.0))
        for x1, y1, x2, y2, loss in self.segments:
            start = np.searchsorted(left, min(x1, x2) - longest)
            some = order[start : np.searchsorted(left, max(x1, x2), side="right")]
            (ax, ay), (bx, by) = a[some].T, b[some].T
            # A line crosses a wall if the line's ends lie on different sides of the wall, and the wall's ends on
            # different sides of the line.
            apart = _is_left(x1, y1, x2, y2, ax, ay) != _is_left(x1, y1, x2, y2, bx, by)
            apart &= _is_left(ax, ay, bx, by, x1, y1) != _is_left(ax, ay, bx, by, x2, y2)
            lost[some[apart]] += loss
        return lost

    def _floors(self, first: Array, second: Array) -> Array:
        """Return the loss of the floors (dB) between pairs of places, shape (pairs,)."""
        if self.storey is None or first.shape[1] < 3:
            return np.zeros(len(first))
        count = np.abs(np.floor(second[:, 2] / self.storey) - np.floor(first[:, 2] / self.storey))
        return np.where(count > 0, count ** ((count + 2) / (count + 1) - _FEWER) * self.floor_db, 0.0)


def _wall(where: str, values: Iterable[float]) -> Segment:
    """Check the five numbers of a wall and return them."""
    numbers = check.finite_array(where, values)
    if numbers.shape != (5,):
        raise check.refuse(where, values, "five numbers: x1, y1, x2, y2, loss_db")
    x1, y1, x2, y2, loss = numbers.tolist()
    check.finite(f"{where}: loss_db", loss, low=0)
    if (x1, y1) == (x2, y2):
        raise BadInput(f"{where}: must be a wall with a length; both of its ends are ({x1:g}, {y1:g})")
    return x1, y1, x2, y2, loss


def _is_left(x1: Any, y1: Any, x2: Any, y2: Any, x: Any, y: Any) -> Any:
    """Return whether (x, y) is on the left of the line from (x1, y1) to (x2, y2), element by element."""
    return (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) > 0
