"""What the page of one run is told: written by the run's thread, read by those of the server."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.live.rows import Changes, Rows
from netsim.replay.frames import Columns
from netsim.replay.html import COLUMNS
from netsim.replay.packing import pack
from netsim.run import Run

__all__ = ["Reel", "Told"]


@dataclass(frozen=True)
class Told:
    """What is known of a run at a look, apart from its frames.

    Attributes
    ----------
    known : float
        The time (s) before which all is known.
    running : bool
        Whether it goes on.
    why : str
        Why it ended, if that was an error, or why it cannot be shown any further.
    kinds : list of str
        The kinds of message so far.
    counts : dict
        How many frames have ended so, by cause, and how many are under way.
    notes : list of str
        What a reader should know.
    rounds : int
        The last round that opened.
    """

    known: float = 0.0
    running: bool = True
    why: str = ""
    kinds: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rounds: int = 0


class Reel:
    """The newest frames of a run, its rows, and what else its page shows.

    Parameters
    ----------
    agents : int
        How many there are.
    states : int
        How many states of each the run keeps.

    Attributes
    ----------
    held : int
        How many frames it holds of those that have ended.
    fetched : bool
        Whether some page has all of it.
    """

    def __init__(self, agents: int, states: int) -> None:
        self._rows, self._changes = Rows(), Changes(agents, states)
        self._lock = threading.Lock()
        self._told = Told()
        self._parts: list[tuple[int, Columns]] = []
        self._serial = 0
        self._under_way: Columns = {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}
        self.held = 0
        self.fetched = False

    def write(self, told: Told, ended: Columns, under_way: Columns, run: Run) -> None:
        """Add what was seen at a look: frames that ended since the last one, the run's new rows and agents' states."""
        with self._lock:
            self._rows.look(run)
            self._changes.look(run.watch)
            self._told, self._under_way = told, under_way
            many = len(ended["start"])
            if many:
                self._serial += 1
                self._parts.append((self._serial, ended))
                self.held += many

    def fail(self, why: str) -> None:
        """Say why it cannot be shown any further."""
        with self._lock:
            self._told = replace(self._told, running=False, why=why)

    def forget(self, many: int) -> None:
        """Let go of the oldest frames, at least so many."""
        with self._lock:
            while many > 0 and self._parts:
                _, part = self._parts[0]
                size = len(part["start"])
                if size <= many:
                    del self._parts[0]
                else:
                    # The number stays that of the part: who has seen it has these, too.
                    self._parts[0] = (self._parts[0][0], {name: column[many:] for name, column in part.items()})
                self.held -= min(size, many)
                many -= size

    def news(self, since: Sequence[int], most: int) -> dict[str, Any]:
        """Return what is new to a page, as JSON has it.

        Parameters
        ----------
        since : five ints
            What the answer before called ``since``; zeros: the page has nothing.
        most : int
            Frames that a page keeps.
        """
        serial, stride, count, edition, shown = since
        with self._lock:
            told, under_way, rows, changes = self._told, self._under_way, self._rows, self._changes
            parts = [part for number, part in self._parts if number > serial]
            first = count if stride == rows.stride and count <= rows.count else 0
            change = shown if edition == changes.edition and shown <= changes.count else 0
            since = self._serial, rows.stride, rows.count, changes.edition, changes.count
            columns: dict[str, NDArray[Any]] = {
                name: np.concatenate([np.empty(0, dtype), *(part[name] for part in parts)])
                for name, dtype in COLUMNS.items()
            }
            columns |= {f"open {name}": column for name, column in under_way.items()}
            columns |= rows.columns(first) | changes.columns(change)
            notes = [*told.notes, *rows.notes, *changes.notes]
            names = list(rows.curves)
            self.fetched = self.fetched or not told.running
        total = sum(told.counts.values())
        return {
            "since": ".".join(map(str, since)), "row": first, "change": change, "known": told.known,
            "running": told.running, "why": told.why, "kinds": told.kinds, "curves": names, "counts": told.counts,
            "total": total, "most": most, "rounds": told.rounds, "notes": notes, "packed": pack(columns, quickly=True),
        }  # fmt: skip
