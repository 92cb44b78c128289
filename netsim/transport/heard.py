"""The frames that an agent received in a round, as a list and as arrays.

On the path agent → outbox → link → inbox → agent, the receiving agent gets this list.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.core import Frame, added, stacked
from netsim.errors import AgentError
from netsim.wire.payloads import holds_numbers

__all__ = ["Heard", "rows"]


class Heard(list[Frame]):
    """The result of `Agent.collect`: frames in order of arrival, with methods for payloads that are arrays."""

    __slots__ = ()

    @property
    def senders(self) -> list[Hashable]:
        """The sender of each frame."""
        return [frame.sender for frame in self]

    def of(self, kind: str) -> "Heard":
        """Return the frames of one kind."""
        return Heard(frame for frame in self if frame.kind == kind)

    def stack(self, kind: str | None = None) -> NDArray[np.float64]:
        """Return the payloads, or only those of ``kind``, as rows: shape (frames, D) for vectors of D elements.

        Raises
        ------
        AgentError
            If the payloads are not arrays (or coded arrays) of equal shape.
        """
        return rows(self if kind is None else self.of(kind))

    def sum(self, kind: str | None = None, weights: Mapping[Any, float] | None = None) -> NDArray[np.float64] | float:
        """Return the sum of the payloads, added in order of arrival; 0.0 if there are none.

        Parameters
        ----------
        kind : str, optional
            Add only frames of this kind.
        weights : mapping, optional
                {sender: weight by which its payload is multiplied before the addition}.

        Raises
        ------
        AgentError
            If `stack` would raise AgentError for these frames, or if ``weights`` lacks a sender.
        """
        frames = self if kind is None else self.of(kind)
        if not frames:
            return 0.0
        at_once = added(frames) if weights is None else None
        if at_once is not None:
            return at_once
        table = rows(frames)
        if weights is not None:
            table *= np.array([_weight(weights, frame.sender) for frame in frames]).reshape(-1, *[1] * (table.ndim - 1))
        total: NDArray[np.float64] = table[0].copy()
        for row in table[1:]:
            total += row
        return total


def rows(frames: "list[Frame]") -> NDArray[np.float64]:
    """Return the frames' payloads as rows; raises AgentError if they are not arrays of equal shape."""
    at_once = stacked(frames)
    if at_once is not None:
        return at_once
    values = [np.asarray(frame.payload) for frame in frames]
    if not values:
        return np.empty((0, 0))
    for frame, value in zip(frames, values, strict=True):
        if not holds_numbers(value.dtype) or value.shape != values[0].shape:
            raise AgentError(
                f"{frame!r}: its payload must be an array of numbers of shape {values[0].shape}, as that of the first; "
                f"it is {type(frame.payload).__name__} of shape {value.shape}"
            )
    return np.array(values, dtype=np.float64)


def _weight(weights: Mapping[Any, float], sender: Hashable) -> float:
    try:
        return float(weights[sender])
    except KeyError:
        raise AgentError(
            f"weights: must have one for each sender that was heard; there is none for {sender!r}"
        ) from None
