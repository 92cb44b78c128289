"""A run that is shown while it goes on: when its viewer looks. To look reads what is there, and changes nothing."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Protocol

from netsim.accounting.scene import Scene
from netsim.clock.clock import Loop
from netsim.errors import NetsimError
from netsim.run import Run

__all__ = ["View", "Viewer"]

# Real seconds from look to look, at least; and how many times as long as a look the run has for itself in between, but
# not beyond so many seconds: what a look takes grows with what happened since the last one.
_PAUSE, _SHARE, _LONGEST = 0.5, 20, 2.0
# Real seconds after which it looks at a run without rows, too.
_WITHOUT_ROWS = 1.0


class Viewer(Protocol):
    """Who shows runs while they go on. It must not raise, nor change anything."""

    def begin(self, run: Run, scene: Scene) -> None:
        """A run begins."""

    def look(self, scene: Scene) -> None:
        """All that happened before the time ``scene.ended_at`` (s) is recorded; this is called in the run's thread."""

    def end(self, scene: Scene, error: NetsimError | None) -> None:
        """The run is over, and its books are closed; ``error`` is what ended it, if that was one."""


class View:
    """When a viewer looks at a run: after a row, or else between two instants, but seldom in real time.

    As an onlooker of the loop (`netsim.clock.instants.Onlooker`) it makes no time pass, and sets no timer.
    """

    def __init__(
        self, viewer: Viewer, run: Run, loop: Loop, scene: Callable[[], Scene], rounds: Callable[[], int]
    ) -> None:
        self._viewer, self._run, self._loop = viewer, run, loop
        self._make_scene, self._rounds = scene, rounds
        self._scene: Scene | None = None
        self._due = 0.0
        self._patience = 0.0

    def start(self) -> None:
        """Look from now on."""
        self._scene = self._make_scene()
        self._viewer.begin(self._run, self._scene)
        self._patience = time.monotonic() + _WITHOUT_ROWS
        self._loop.instants.onlookers.append(self)

    def stop(self) -> None:
        """Look no more."""
        if self in self._loop.instants.onlookers:
            self._loop.instants.onlookers.remove(self)

    def end(self, error: NetsimError | None) -> None:
        """Tell the viewer that the run is over."""
        if self._scene is not None:
            self._viewer.end(self._now(), error)

    def row_written(self) -> None:
        """Look, if it is time: a row is written, so what has arrived is counted."""
        begun = time.monotonic()
        if begun < self._due:
            return
        self._viewer.look(self._now())
        ended = time.monotonic()
        self._due = ended + max(_PAUSE, min(_SHARE * (ended - begun), _LONGEST))
        self._patience = self._due + _WITHOUT_ROWS

    @property
    def time(self) -> float:
        """When to look, in seconds: whenever it is due."""
        return 0.0

    @property
    def until(self) -> float:
        """The present (s) if there has long been no row, else never: then it is the rows that count."""
        return math.inf if time.monotonic() < self._patience else self._loop.now()

    def look(self) -> None:
        """Look between two instants."""
        self._due = 0.0
        self.row_written()

    def _now(self) -> Scene:
        assert self._scene is not None
        return dataclasses.replace(self._scene, ended_at=self._loop.now(), rounds=self._rounds())
