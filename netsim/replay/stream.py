"""The frames of a run in order of their departure, some at a time: a run of any length takes little memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.replay.frames import MOST, Columns, Log, Recorded, fitting, recorded
from netsim.replay.thinning import Chosen, choose
from netsim.util import check

__all__ = ["Stream", "stream_of"]

_ORDER = ("receiver", "number", "sender", "start", "depart")


@dataclass(frozen=True)
class Stream:
    """The frames of a run, to be gone through any number of times.

    Attributes
    ----------
    causes, counts, omitted
        As `netsim.replay.frames.Frames` has them.
    shown : int
        How many frames there are to go through.
    """

    causes: list[str]
    counts: dict[str, int]
    omitted: str
    shown: int
    _found: Recorded
    _order: NDArray[np.int64]
    _starts: NDArray[np.float64]
    _cuts: NDArray[np.int64]

    def parts(self) -> Iterator[Columns]:
        """Yield frames, the columns as in `netsim.replay.frames.Frames`, but in order of ``depart``, then ``start``."""
        waiting: Columns = {}
        for first, last in zip(self._cuts[:-1], self._cuts[1:], strict=True):
            which = np.zeros(self._found.messages.count, dtype=np.bool_)
            which[self._order[first:last]] = True
            with fitting():
                new = self._found.columns(Chosen(which, ""))
            both = {name: np.concatenate([waiting[name], new[name]]) if waiting else new[name] for name in new}
            order = np.lexsort([both[name] for name in _ORDER])
            both = {name: column[order] for name, column in both.items()}
            # Nothing that is offered later can leave before it is offered.
            later = self._starts[last] if last < len(self._starts) else np.inf
            ready = int(np.searchsorted(both["depart"], later, side="left"))
            yield {name: column[:ready] for name, column in both.items()}
            waiting = {name: column[ready:] for name, column in both.items()}
        if waiting and len(waiting["depart"]):
            yield waiting


def stream_of(log: Log, most: int | None = None, size: int = MOST) -> Stream:
    """Return the frames of a trace as a stream.

    Parameters
    ----------
    log : Log
        A trace of this version of netsim.
    most : int, optional
        More frames are thinned (`netsim.replay.thinning`); default: all are there.
    size : int
        About so many frames are in memory at a time, those that wait in queues besides, and a few bytes for each
        transmission of the run.

    Raises
    ------
    BadInput
        If ``most`` is no whole number of at least 1, or the trace is of an earlier version, or not that of a run.
    """
    if most is not None:
        check.integer("most", most, low=1)
    check.integer("size", size, low=1)
    found = recorded(log)
    with fitting():
        total = found.total if most is None else most
        chosen = choose(found.messages.count, found.total, total, found.messages.ends)
        starts, frames = _weighed(found, chosen)
    order = np.argsort(starts, kind="stable")[: int(np.isfinite(starts).sum())]
    reached = np.cumsum(frames[order])
    shown = int(reached[-1]) if len(order) else 0
    cuts = np.searchsorted(reached, np.arange(size, shown, size), side="left") + 1
    cuts = np.unique(np.concatenate([[0], cuts, [len(order)]]))
    return Stream(found.causes, found.counts, chosen.omitted, shown, found, order, starts[order], cuts)


def _weighed(found: Recorded, chosen: Chosen) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return when each chosen message was offered (s; infinity for those not chosen), and its number of frames."""
    starts = np.full(found.messages.count, np.inf)
    for sent in found.log.chunks("sent"):
        starts[found.messages.firsts[sent["sender"]] + sent["number"]] = sent["time"]
    starts[~chosen.which] = np.inf
    frames = np.zeros(found.messages.count, dtype=np.int32)
    for numbers, _ in found.messages.ends():
        np.add.at(frames, numbers, 1)
    return starts, frames
