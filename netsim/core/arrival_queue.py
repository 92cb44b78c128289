"""The frames on their way to one inbox, in order of arrival.

On the path agent → outbox → link → inbox → agent, this queue lies between link and inbox. A link pushes each frame at
the time of sending; the inbox, when an agent reads it, takes out the frames that have arrived. Frames that arrive at
the same time are ordered by link, and on one link by the order of sending. So the order of frames does not depend on
which of two agents acted first.
"""

import bisect
import heapq
import math
from collections.abc import Iterator

from netsim.core.frame import Frame
from netsim.core.tally import Tally

__all__ = ["ArrivalQueue", "Entry"]

Entry = tuple[float, int, int, Frame]
"""Arrival time (s), the link message's key (see `netsim.core.records`), the id of its kind, and the frame."""


class ArrivalQueue:
    """The frames that were sent to one agent and have no outcome yet.

    Attributes
    ----------
    incoming : list of Entry
        Frames pushed since the queue was last read, in any order.
    careful : bool
        Whether the inbox must examine the frames one by one, because a frame may be late, belong to a request, be
        numbered by a reliable link, or have a mutable payload.
    up : bool
        Whether the agent's receiver is on.
    """

    __slots__ = ("_pending", "_tally", "careful", "incoming", "up")

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._pending: list[Entry] = []
        self.incoming: list[Entry] = []
        self.careful = False
        self.up = True

    def __len__(self) -> int:
        return len(self.incoming) + len(self._pending)

    def push(self, time: float, key: int, kind: int, frame: Frame, deadline: float = -math.inf) -> None:
        """Add a frame; set ``careful`` if `Frame.plain` is false or the frame arrives at or after ``deadline`` (s)."""
        self.incoming.append((time, key, kind, frame))
        if time >= deadline or not frame.plain:
            self.careful = True

    def first(self) -> float:
        """Return the time of the next arrival, in seconds; infinite if there is none."""
        self._merge()
        return self._pending[0][0] if self._pending else math.inf

    def due(self, until: float) -> list[Entry]:
        """Remove and return, in order, the entries that arrive before ``until`` (s)."""
        incoming, pending = self.incoming, self._pending
        if incoming and not pending:
            # The usual case: the queue is read once per round, and the last read left no frame in ``_pending``. Then
            # sort the incoming frames. Those that are not due become the heap ``_pending``, because a sorted list is a
            # heap.
            incoming.sort()
            cut = len(incoming) if incoming[-1][0] < until else bisect.bisect_left(incoming, (until,))
            due = incoming[:cut]
            self._pending = incoming[cut:]
            incoming.clear()
        else:
            self._merge()
            due = []
            while pending and pending[0][0] < until:
                due.append(heapq.heappop(pending))
        if not self._pending:
            self.careful = False
        return due

    def deliver(self, until: float) -> list[Frame]:
        """Remove and return the frames that arrive before ``until`` (s), and count them as delivered."""
        incoming = self.incoming
        if incoming and not self._pending and max(incoming)[0] < until:
            # The usual case: every frame is due, so that no frame is left for ``_pending``.
            due = sorted(incoming)
            incoming.clear()
        else:
            due = self.due(until)
        if not due:
            return []
        times, keys, kinds, frames = zip(*due, strict=True)
        self._tally.delivered(times, keys, kinds)
        return list(frames)

    def clear(self) -> None:
        """Remove all frames without counting an outcome for them."""
        self.incoming.clear()
        self._pending.clear()

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Yield the key and the kind id of each frame in the queue."""
        for _, key, kind, _ in (*self.incoming, *self._pending):
            yield key, kind

    def _merge(self) -> None:
        for entry in self.incoming:
            heapq.heappush(self._pending, entry)
        self.incoming.clear()
