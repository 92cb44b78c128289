"""Which messages of a long run are shown: whole broadcasts, the same ones each time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.core.records import DELIVERED
from netsim.util import draws

__all__ = ["Chosen", "choose"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Ends = Callable[[], Iterator[tuple[Ints, Ints | None]]]
"""Yields messages by number, one for each of their frames, and the causes of the frames' ends (None: under way)."""

# Of the room there is: where those that did not all arrive take more, all are drawn alike.
_ROOM_FOR_LOSSES = 0.8


@dataclass(frozen=True)
class Chosen:
    """Which messages are shown, and in one sentence which are not."""

    which: Bools
    omitted: str


def choose(messages: int, total: int, most: int, ends: Ends) -> Chosen:
    """Choose messages, each with all its frames, of together at most ``most`` frames of ``total``.

    Messages of which some frame did not arrive come first, all of them if they leave some room; of the others as many
    as fit, by a fixed hash of their numbers.
    """
    if total <= most:
        return Chosen(np.ones(messages, dtype=np.bool_), "")
    frames, failed = np.zeros(messages, dtype=np.int32), np.zeros(messages, dtype=np.bool_)
    for numbers, causes in ends():
        np.add.at(frames, numbers, 1)
        if causes is not None:
            failed[numbers[causes != DELIVERED]] = True
    losses = int(frames[failed].sum())
    mixed = draws.mix_words(np.arange(messages, dtype=np.uint64))
    if losses > _ROOM_FOR_LOSSES * most:
        which = _drawn(np.ones(messages, dtype=np.bool_), frames, mixed, most)
        what = "whole messages, each with all its frames, chosen by a fixed hash"
    else:
        which = failed | _drawn(~failed, frames, mixed, most - losses)
        share = frames[which & ~failed].sum() / max(frames[~failed].sum(), 1)
        what = (
            "all of messages of which some frame did not arrive, and of the others "
            f"{100 * share:.3g} %, whole messages chosen by a fixed hash"
        )
    shown = int(frames[which].sum())
    return Chosen(which, f"{shown:,} of {total:,} frames are shown: {what}; all counts are of the whole run.")


def _drawn(among: Bools, frames: NDArray[np.int32], mixed: NDArray[np.uint64], room: int) -> Bools:
    """Return messages among some that have at most ``room`` frames together: those whose hash is small."""
    share = room / max(int(frames[among].sum()), 1)
    while True:
        found: Bools = among & (mixed < np.uint64(min(share, 1.0 - 2.0**-53) * 2.0**64))
        there = int(frames[found].sum())
        if there <= room:
            return found
        share *= min(room / there, 0.999)
