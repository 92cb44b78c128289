"""Those who look at a run without changing it: rows at a fixed interval, a viewer, the watched states.

Each is an onlooker of the loop (`netsim.clock.virtual_clock.Onlooker`), which calls it as time is about to pass. So it
needs no timer and no task, keeps no run going, and never comes between two steps of an agent.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextvars import Context as Variables
from typing import Protocol, TypeAlias

from netsim.accounting.scene import Scene
from netsim.agent import Agent
from netsim.clock.clock import Loop
from netsim.clock.rounds import RoundClock
from netsim.clock.task import OWNER
from netsim.engine.tasks import AgentTasks, Member
from netsim.errors import BadInput, NetsimError
from netsim.run import Run
from netsim.transport.context import Context
from netsim.transport.shared import Shared
from netsim.watch import Watch

__all__ = ["MOST_ROWS", "Sampler", "Shown", "View", "Viewer", "Watcher"]

# --- rows at a fixed interval -----------------------------------------------------------------------------------------

MOST_ROWS = 1_000_000
"""How many rows a run may have by sampling."""

Write = Callable[[int, float, float], None]


class Sampler:
    """When rows are due.

    Parameters
    ----------
    loop : Loop
        The run's loop.
    rounds : RoundClock
        The run's rounds: where one closes at a row's time, the row is the round's.
    sample : float
        Seconds from row to row.
    write : callable
        Called with a row's number, its time (s), and the time (s) before which arrivals count.
    fail : callable
        Called with the error, if there are too many.

    Attributes
    ----------
    time : float
        When the next row is due, in seconds.
    until : float
        The end (s) of that instant. Sums of pauses are rounded, so it is as wide as a round's boundary: what is a
        rounding error after a row's time is at it.
    """

    def __init__(
        self, loop: Loop, rounds: RoundClock, sample: float, write: Write, fail: Callable[[BadInput], None]
    ) -> None:
        self._loop = loop
        self._rounds = rounds
        self._sample = sample
        self._write = write
        self._fail = fail
        self._written = 0
        self._last = -math.inf
        self._wait_for(1)

    def start(self) -> None:
        """Look at the run from now on."""
        self._loop.clock.onlookers.append(self)

    def stop(self) -> None:
        """Look no more."""
        if self in self._loop.clock.onlookers:
            self._loop.clock.onlookers.remove(self)

    def look(self) -> None:
        """Write the row that is due."""
        # What arrives at this very instant has arrived: nothing more can happen in it.
        self._row(self.time, math.nextafter(self.until, math.inf))

    def round_ended(self, number: int) -> None:
        """Write the row that is due as a round closes, if one is: the same that the round would have had."""
        close = self._rounds.close_time(number)
        if close == self.time:
            self._row(close, self._rounds.deadline(number))

    def run_ended(self) -> None:
        """Write what is left: the run ends between two rows, or by the wall's clock, which may be late."""
        now = self._loop.now()
        while self.until < now:
            self.look()
        if self._last < now:
            self._row(now, math.nextafter(now, math.inf))

    def _wait_for(self, number: int) -> None:
        # What is meant to be a round's end is to be it, and else to be over when what comes at that end begins.
        self.time = self._rounds.snap(number * self._sample, widths=2)
        self.until = self._rounds.end_of(self.time)

    def _row(self, time: float, until: float) -> None:
        if self._written == MOST_ROWS:
            self.time = self.until = math.inf
            allowed = f"larger: there were {MOST_ROWS:,} rows by {self._last:g} s"
            self._fail(BadInput(f"sample = {self._sample:g}: must be {allowed}"))
            return
        self._written += 1
        self._last = time
        self._wait_for(self._written + 1)
        self._write(self._written, time, until)


# --- a viewer ---------------------------------------------------------------------------------------------------------

# Real seconds from look to look, at least; and how many times as long as a look the run has for itself in between, but
# not beyond so many seconds: what a look takes grows with what happened since the last one.
_PAUSE, _SHARE, _LONGEST = 0.5, 20, 2.0
# Real seconds after which it looks at a run without rows, too.
_WITHOUT_ROWS = 1.0


class Shown(Protocol):
    """Shows a run while it goes on. It must not raise, nor change anything."""

    def look(self, scene: Scene) -> None:
        """All that happened before the time ``scene.ended_at`` (s) is recorded; this is called in the run's thread."""

    def end(self, scene: Scene, error: NetsimError | None) -> None:
        """The run is over, and its books are closed; ``error`` is what ended it, if that was one."""


Viewer: TypeAlias = Callable[[Run, Scene], Shown]
"""Called as a run begins; returns what shows it."""


class View:
    """When a viewer looks at a run: after a row, or else between two instants, but seldom in real time.

    As an onlooker of the loop (`netsim.clock.virtual_clock.Onlooker`) it makes no time pass, and sets no timer.
    """

    def __init__(
        self, viewer: Viewer, run: Run, loop: Loop, scene: Callable[[], Scene], rounds: Callable[[], int]
    ) -> None:
        self._viewer, self._run, self._loop = viewer, run, loop
        self._make_scene, self._rounds = scene, rounds
        self._scene: Scene | None = None
        self._shown: Shown
        self._due = 0.0
        self._patience = 0.0

    def start(self) -> None:
        """Look from now on."""
        self._scene = self._make_scene()
        self._shown = self._viewer(self._run, self._scene)
        self._patience = time.monotonic() + _WITHOUT_ROWS
        self._loop.clock.onlookers.append(self)

    def stop(self) -> None:
        """Look no more."""
        if self in self._loop.clock.onlookers:
            self._loop.clock.onlookers.remove(self)

    def end(self, error: NetsimError | None) -> None:
        """Tell the viewer that the run is over."""
        if self._scene is not None:
            self._shown.end(self._now(), error)

    def row_written(self) -> None:
        """Look, if it is time: a row is written, so what has arrived is counted."""
        begun = time.monotonic()
        if begun < self._due:
            return
        self._shown.look(self._now())
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


# --- watched states ---------------------------------------------------------------------------------------------------


class Watcher:
    """Who looks at the agents of one run; an onlooker of its loop (`netsim.clock.virtual_clock.Onlooker`).

    Parameters
    ----------
    watch : Watch
        Where states are kept.
    loop : Loop
        The run's loop.
    contexts : mapping
        The agents' contexts by their names.
    tasks : AgentTasks
        Knows whose calls are those of agents of this run.
    shared : list of Shared
        What the agents share, by clock.
    fail : callable
        Called with the error, if a state cannot be had.
    """

    def __init__(
        self,
        watch: Watch,
        loop: Loop,
        contexts: Mapping[Hashable, Context],
        tasks: AgentTasks,
        shared: list[Shared],
        fail: Callable[[NetsimError], None],
    ) -> None:
        self._watch, self._loop, self._contexts, self._tasks = watch, loop, contexts, tasks
        self._shared, self._fail = shared, fail
        self._agents: Mapping[Hashable, Agent] = {}
        # Those whose code may have run at this instant, in the order in which it was called.
        self._called: dict[Hashable, None] = {}
        # What an agent sets only once it runs is not there at the beginning.
        self._early = True

    @property
    def time(self) -> float:
        """When to look, in seconds: before time passes, if anybody was called."""
        return -math.inf if self._called else math.inf

    until = time

    def start(self, agents: Mapping[Hashable, Agent]) -> None:
        """Look at these agents from now on."""
        self._agents = agents
        self.call(agents)
        self.look()
        self._loop.clock.onlookers.append(self)
        self._loop.note_calls(self._note)
        for shared in self._shared:
            shared.tell_sends(self._look)

    def stop(self, whole: bool) -> None:
        """Look for the last time; ``whole``: the run has come to its end, so what is not there by now never was."""
        if self._early and whole:
            self.row_written()
        self.look()
        if self in self._loop.clock.onlookers:
            self._loop.clock.onlookers.remove(self)
            self._loop.forget_calls(self._note)
        for shared in self._shared:
            shared.tell_sends(None)

    def call(self, names: Iterable[Hashable]) -> None:
        """Take note that something may change these agents at this instant."""
        self._called.update(dict.fromkeys(names))

    def row_written(self) -> None:
        """Look at all agents at this instant: what is watched may depend on others than the agent."""
        self._early = False
        self.call(self._agents)

    def look(self) -> None:
        """Look at those who were called."""
        called, self._called = self._called, {}
        for name in called:
            self._look(name)

    def _note(self, variables: Variables) -> None:
        """Take note of whose code is called in some context."""
        owner = variables.get(OWNER)
        if isinstance(owner, Member) and self._tasks.owns(owner):
            self._called[owner.name] = None

    def _look(self, name: Hashable) -> None:
        """Look at an agent, which may be about to send."""
        sent = self._contexts[name].outbox.sent
        try:
            self._watch.look(name, self._agents[name], self._loop.now(), sent, self._early)
        except NetsimError as error:
            self._fail(error)
