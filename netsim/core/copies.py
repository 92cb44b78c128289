"""Copies of the neighbours' states in one table: each neighbour's last payload, or the sum of its payloads.

On the path agent → outbox → link → inbox → agent, this table belongs to the receiving agent.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.core.arrival_queue import ArrivalQueue
from netsim.core.frame import Frame
from netsim.errors import AgentError
from netsim.wire.coded import Coded
from netsim.wire.payloads import holds_numbers

__all__ = ["Copies"]


class Copies:
    """A table with one row per neighbour, which holds a copy of that neighbour's state.

    Parameters
    ----------
    neighbors : sequence
        The neighbours, in the order of the rows.
    shape : tuple of int
        Shape of a state.
    start : ndarray of that shape, optional
        The first value of every row; default: zeros.

    Attributes
    ----------
    table : ndarray of shape (neighbors, *shape)
        The copies; changed in place.
    """

    __slots__ = ("_rounds", "_rows", "table")

    def __init__(
        self, neighbors: Sequence[Hashable], shape: tuple[int, ...], start: NDArray[np.float64] | None = None
    ) -> None:
        self._rows = {neighbor: row for row, neighbor in enumerate(neighbors)}
        # For each row: the round of the last frame taken in, or -1 before the first frame.
        self._rounds = [-1] * len(self._rows)
        self.table = np.zeros((len(self._rows), *shape))
        if start is not None:
            self.table[:] = start

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, neighbor: Hashable) -> NDArray[np.float64]:
        """Return the copy of one neighbour's state: a view of the table, which later frames change."""
        copy: NDArray[np.float64] = self.table[self._rows[neighbor]]
        return copy

    def items(self) -> Iterable[tuple[Hashable, NDArray[np.float64]]]:
        """Return each neighbour with the copy of its state."""
        return zip(self._rows, self.table, strict=True)

    def heard(self, neighbor: Hashable) -> bool:
        """Return whether any frame of this neighbour has been taken in."""
        return self._rounds[self._rows[neighbor]] >= 0

    def take_in(self, frames: Iterable[Frame], *, add: bool = False) -> None:
        """Replace the copies of the senders' states by the frames' payloads; if ``add``, add the payloads instead.

        A frame of round 1 or later is ignored if the last frame of its sender has the same round, because a link may
        deliver a frame twice.

        Raises
        ------
        AgentError
            If a payload is not an array (or coded array) of the states' shape, or the sender is not a neighbour.
        """
        for frame in frames:
            row = self._rows.get(frame.sender)
            if row is None:
                raise AgentError(f"{frame!r}: its sender must be one of the neighbours whose states are kept")
            if frame.round and frame.round == self._rounds[row]:
                continue
            value = as_state(frame, self.table.shape[1:])
            self._rounds[row] = frame.round
            if add:
                self.table[row] += value
            else:
                self.table[row] = value

    def receive(self, arrivals: ArrivalQueue, until: float, *, add: bool = False) -> None:
        """Take in the frames that arrive before ``until`` (s), remove them from the queue, count them as delivered."""
        self.take_in(arrivals.deliver(until), add=add)

    def sum(self) -> NDArray[np.float64]:
        """Return the sum of all copies, added in the order of the rows."""
        if not len(self.table):
            return np.zeros(self.table.shape[1:])
        total: NDArray[np.float64] = self.table[0].copy()
        for row in self.table[1:]:
            total += row
        return total


def as_state(frame: Frame, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Return a frame's payload as an array of this shape; raises AgentError if it is not one."""
    payload: Any = frame.payload
    # The type is compared first for speed: most payloads are numpy arrays.
    if type(payload) is not np.ndarray and isinstance(payload, Coded):
        # Compare shapes before decoding: a few bytes may claim a huge array.
        if payload.shape == shape:
            return payload.values
    else:
        value = np.asarray(payload)
        if value.shape == shape and holds_numbers(value.dtype):
            return value
    raise AgentError(f"{frame!r}: its payload must be an array of numbers of shape {shape}, not {payload!r:.60}")
