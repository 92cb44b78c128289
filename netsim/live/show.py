"""One run that is shown: looks at it in its own thread, and has the page that shows it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.accounting.scene import Scene
from netsim.errors import NetsimError, one_line
from netsim.live.pending import Pending, excerpt
from netsim.live.reel import Reel, Told
from netsim.replay.frames import frames_of
from netsim.replay.html import COLUMNS, html
from netsim.replay.render import About, describe, no_changes, remarks, texts
from netsim.run import Run

__all__ = ["Show"]


class Show:
    """A run that is shown while it goes on (`netsim.engine.observers.Viewer`).

    Parameters
    ----------
    number : int
        Which of a session's runs it is, from 1.
    about : About
        What its page says of it.
    most : int
        Frames that its page keeps.
    pace : float or None
        Simulated seconds that its page shows in a second; None: as suits the run.
    length : float or None
        How long the run will last, in simulated seconds, as far as is known.

    Attributes
    ----------
    reel : Reel or None
        What its page is told; None before it begins.
    """

    def __init__(self, number: int, about: About, most: int, pace: float | None, length: float | None) -> None:
        self.number, self.about = number, about
        self._most, self._pace, self._length = most, pace, length
        self.reel: Reel | None = None
        self.running = True
        self._run: Run
        self._page: str | None = None

    # --- in the run's thread ------------------------------------------------------------------------------------------

    def begin(self, run: Run, scene: Scene) -> None:
        """A run begins."""
        self._run, self._scene = run, scene
        self._states = [] if run.watch is None else run.watch.columns
        self._pending = Pending(run.ledger, forget=not run.ledger.keeps_trace)
        self.reel = Reel(len(run.agents), len(self._states))

    def look(self, scene: Scene) -> None:
        """Take up what happened since the last look."""
        self._look(scene, over=False, why="")

    def end(self, scene: Scene, error: NetsimError | None) -> None:
        """Take up the rest."""
        self._look(scene, over=True, why="" if error is None else one_line(error))
        self.running = False

    def _look(self, scene: Scene, over: bool, why: str) -> None:
        assert self.reel is not None
        if not self.running:
            return
        try:
            ended, under_way = self._pending.look(scene, over)
            self.reel.write(self._told(scene, over, why), ended, under_way, self._run)
            self.reel.forget(self.reel.held - self._most)
        except Exception as error:
            # A run is not to fail because it cannot be shown.
            self.running = False
            self.reel.fail(f"it cannot be shown any further: {type(error).__name__}: {one_line(error)}")

    def _told(self, scene: Scene, over: bool, why: str) -> Told:
        ledger = self._run.ledger
        kinds = texts(ledger.tally.kinds)
        counts = dict(zip(ledger.causes, ledger.exits, strict=True)) | {"in_flight": len(list(ledger.in_flight()))}
        return Told(scene.ended_at, not over, why, kinds, counts, remarks(kinds), scene.rounds)

    # --- in the server's threads --------------------------------------------------------------------------------------

    def page(self) -> str:
        """Return the page, without frames: it asks for them."""
        if self._page is None:
            ledger = self._run.ledger
            log = excerpt(ledger, self._scene)
            meta = describe(log, frames_of(log), self.about)
            meta["kinds"] = []
            meta["states"] = no_changes(self._states)
            columns: dict[str, Any] = {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}
            live = {"number": self.number, "pace": self._pace, "length": self._length}
            self._page = html(meta | {"live": live, "ended_at": 0.0}, columns, asks=True)
        return self._page

    def news(self, since: Sequence[int]) -> dict[str, Any]:
        """Return what is new to its page, as JSON has it."""
        assert self.reel is not None
        return self.reel.news(since, self._most)
