"""Observers, which do not change a run: rows at a fixed interval, a viewer, watched states, an inspection.

Each observer is a `netsim.clock.virtual_clock.Onlooker`, which the loop calls before time advances. So an observer
needs no timer or task, does not prevent a run from ending, and never runs between two steps of agents at one instant.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextvars import Context as Variables
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from netsim.accounting.run_metadata import RunMetadata
from netsim.agent import Agent
from netsim.clock.clock import Loop
from netsim.clock.rounds import RoundClock
from netsim.clock.task import OWNER, TaskOwner
from netsim.context import Context
from netsim.engine.tasks import AgentTasks
from netsim.errors import BadInput, NetsimError
from netsim.run import Run
from netsim.transport.shared import Shared
from netsim.watch import Watch

__all__ = ["MOST_ROWS", "Inspect", "Inspection", "Sampler", "Shown", "View", "Viewer", "Watcher"]

# --- rows at a fixed interval -----------------------------------------------------------------------------------------

MOST_ROWS = 1_000_000
"""Maximum number of sampled rows of a run."""

Write = Callable[[int, float, float], None]


@dataclass(eq=False, repr=False)
class Sampler:
    """Writes rows of the results table at a fixed interval of simulated time.

    Parameters
    ----------
    loop : Loop
        The run's loop.
    rounds : RoundClock
        The run's round clock. A sampled row at the time at which a round closes equals the row that a run without
        ``sample`` writes for that round.
    sample : float
        Seconds from row to row.
    write : callable
        Called with (row number, time of the row in s, time in s before which arrivals count).
    fail : callable
        Called with the error if there are too many rows.

    Attributes
    ----------
    time : float
        The time (s) at which the next row is due.
    until : float
        The end (s) of the instant at ``time``. Events up to ``until`` count as events at ``time``: their times are sums
        of pauses, which have rounding errors.
    """

    _loop: Loop
    _rounds: RoundClock
    _sample: float
    _write: Write
    _fail: Callable[[BadInput], None]
    _written: int = 0
    _last: float = -math.inf

    def __post_init__(self) -> None:
        self._wait_for(1)

    def start(self) -> None:
        """Observe the run from now on."""
        self._loop.clock.onlookers.append(self)

    def look(self) -> None:
        """Write the row that is due."""
        # Count the frames that arrive exactly at this time, too: `look` is called after all events of the instant.
        self._row(self.time, math.nextafter(self.until, math.inf))

    def round_ended(self, number: int) -> None:
        """If a row is due at the time at which a round closes, write it.

        The row counts arrivals up to the round's deadline, as the round's row does in a run without ``sample``.
        """
        close = self._rounds.close_time(number)
        if close == self.time:
            self._row(close, self._rounds.deadline(number))

    def run_ended(self) -> None:
        """Write the rows that are due before the run's end, and a last row at the end."""
        now = self._loop.now()
        while self.until < now:
            self.look()
        if self._last < now:
            self._row(now, math.nextafter(now, math.inf))

    def _wait_for(self, number: int) -> None:
        # `snap` removes rounding errors: if a row is due at the end of a round, it returns exactly that end. So the
        # ``until`` of a row that is due before a round's end is before that end, too.
        self.time = self._rounds.snap(number * self._sample, widths=2)
        self.until = self._rounds.instant_end(self.time)

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

# After each call of the viewer, `View` pauses for _SHARE times the duration of the call, but for at least _PAUSE and at
# most _LONGEST real seconds. Without the limit _LONGEST, pauses and calls could lengthen each other without bound,
# because the viewer has more to show after a longer pause.
_PAUSE, _SHARE, _LONGEST = 0.5, 20, 2.0
# If no row is written within this many real seconds after a pause, `View` calls the viewer between two instants.
_WITHOUT_ROWS = 1.0


class Shown(Protocol):
    """Protocol of an object that shows a run in progress; its methods must not raise, and must not change the run."""

    def look(self, scene: RunMetadata) -> None:
        """Show the run up to ``scene.ended_at`` (s); all events until then are recorded. Called in the run's thread."""

    def end(self, scene: RunMetadata, error: NetsimError | None) -> None:
        """Show the end of the run; ``error`` is the error that ended the run, or None."""


Viewer: TypeAlias = Callable[[Run, RunMetadata], Shown]
"""Called when a run begins; returns the object that shows the run."""


class View:
    """Calls a viewer after rows or, if no rows are written, between instants; limits the calls per real second."""

    # A row or an instant may be due at any time, so only `until` controls when the loop calls `look`.
    time = 0.0

    def __init__(
        self, viewer: Viewer, run: Run, loop: Loop, scene: Callable[[], RunMetadata], rounds: Callable[[], int]
    ) -> None:
        self._viewer, self._run, self._loop = viewer, run, loop
        self._make_scene, self._rounds = scene, rounds
        self._scene: RunMetadata | None = None
        self._shown: Shown
        self._due = 0.0
        self._patience = 0.0

    def start(self) -> None:
        """Call the viewer, and observe the run from now on."""
        self._scene = self._make_scene()
        self._shown = self._viewer(self._run, self._scene)
        self._patience = time.monotonic() + _WITHOUT_ROWS
        self._loop.clock.onlookers.append(self)

    def end(self, error: NetsimError | None) -> None:
        """Make the viewer show the end of the run, if the viewer was started."""
        if self._scene is not None:
            self._shown.end(self._now(), error)

    def row_written(self) -> None:
        """Call the viewer, unless it was called too recently. All arrivals up to the row are already counted."""
        begun = time.monotonic()
        if begun < self._due:
            return
        self._shown.look(self._now())
        ended = time.monotonic()
        self._due = ended + max(_PAUSE, min(_SHARE * (ended - begun), _LONGEST))
        self._patience = self._due + _WITHOUT_ROWS

    @property
    def until(self) -> float:
        """The current time (s) if no row was written for too long, so that the loop calls `look`; else infinity."""
        return math.inf if time.monotonic() < self._patience else self._loop.now()

    def look(self) -> None:
        """Call the viewer now, even if it was called recently."""
        self._due = 0.0
        self.row_written()

    def _now(self) -> RunMetadata:
        assert self._scene is not None
        return dataclasses.replace(self._scene, ended_at=self._loop.now(), rounds=self._rounds())


# --- watched states ---------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Watcher:
    """Records the watched states of a run's agents at each instant at which they may have changed.

    Parameters
    ----------
    watch : Watch
        Stores the states.
    loop : Loop
        The run's loop.
    contexts : mapping
        The agents' contexts by their names.
    tasks : AgentTasks
        The tasks of the run's agents, used to recognise the callbacks of these agents.
    shared : list of Shared
        The agents' shared states, one for each clock.
    fail : callable
        Called with the error if a state cannot be read.
    """

    _watch: Watch
    _loop: Loop
    _contexts: Mapping[Hashable, Context]
    _tasks: AgentTasks
    _shared: list[Shared]
    _fail: Callable[[NetsimError], None]
    _agents: Mapping[Hashable, Agent] = field(default_factory=dict)
    # The marked agents in order of marking: their code may have run at this instant.
    _called: dict[Hashable, None] = field(default_factory=dict)
    # Whether no row has been written yet. Before the first row an attribute may be missing, because agents set it when
    # they run.
    _early: bool = True
    # Whether the next call of `look` checks that each attribute exists on some agent.
    _checks: bool = False

    @property
    def time(self) -> float:
        """Minus infinity if an agent is marked, so that the loop calls `look` before time advances, else infinity."""
        return -math.inf if self._called else math.inf

    until = time

    def start(self, agents: Mapping[Hashable, Agent]) -> None:
        """Observe these agents from now on."""
        self._agents = agents
        self.call(agents)
        self.look()
        self._loop.clock.onlookers.append(self)
        self._loop.note_calls(self._note)
        for shared in self._shared:
            shared.note_sends(self._look)

    def stop(self, whole: bool) -> None:
        """Record the last states. If the run is complete (``whole``), an attribute that no agent has is an error."""
        if self._early and whole:
            self.row_written()
        self.look()
        if whole and self._all_here():
            self._try(lambda: self._watch.check_found(self._loop.now(), whole=True))
        self._loop.forget_calls(self._note)
        for shared in self._shared:
            shared.note_sends(None)

    def call(self, names: Iterable[Hashable]) -> None:
        """Mark agents whose states may change at this instant, so that the next `look` records them."""
        self._called.update(dict.fromkeys(names))

    def row_written(self) -> None:
        """Mark all agents, so that the next call of `look` records the states of all.

        Between rows, `look` records only agents whose code has run. But a state that depends on another agent may
        change although its agent's code has not run.
        """
        self.call(self._agents)
        self._checks = self._early and self._all_here()
        self._early = False

    def _all_here(self) -> bool:
        """Return whether this process runs all agents; otherwise a missing attribute may exist in another process."""
        return len(self._agents) + len(self._tasks.scenery) == self._watch.agents

    def look(self) -> None:
        """Record the states of the agents that were marked since the last call."""
        called, self._called = self._called, {}
        for name in called:
            self._look(name)
        if self._checks:
            self._checks = False
            self._try(lambda: self._watch.check_found(self._loop.now(), whole=False))

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except NetsimError as error:
            self._fail(error)

    def _note(self, variables: Variables) -> None:
        """Mark the agent that owns a scheduled callback, because the agent's code will run."""
        owner = variables.get(OWNER)
        if isinstance(owner, TaskOwner) and self._tasks.owns(owner):
            self._called[owner.name] = None

    def _look(self, name: Hashable) -> None:
        """Record an agent's states; `Shared.note_sends` also calls this just before the agent sends."""
        sent, agent = self._contexts[name].outbox.sent, self._agents.get(name)
        if agent is not None:  # None: a background agent, whose states are not recorded
            self._try(lambda: self._watch.look(name, agent, self._loop.now(), sent, self._early))


# --- an inspection ----------------------------------------------------------------------------------------------------

Inspect: TypeAlias = Callable[[Mapping[Hashable, Agent], float, bool], bool]
"""Called with the agents, the time (s) and whether the run is over; returns whether to end the run."""


@dataclass(eq=False, repr=False)
class Inspection:
    """Calls an inspection at the end of each instant and of the run, and ends the run when the inspection returns True.

    It is called at every instant, even if no agent has run: tracking which agents have run would cost more than most
    inspections.

    Parameters
    ----------
    inspect : callable
        The inspection; a NetsimError that it raises ends the run.
    loop : Loop
        The run's loop.
    end : callable
        Called to end the run.
    fail : callable
        Called with the error, if the inspection raises one.
    """

    _inspect: Inspect
    _loop: Loop
    _end: Callable[[], None]
    _fail: Callable[[NetsimError], None]
    _agents: Mapping[Hashable, Agent] = field(default_factory=dict)
    _seen: float = -math.inf
    _over: bool = False

    @property
    def time(self) -> float:
        """Minus infinity, so that the loop calls `look` before time advances.

        Infinity if this instant has already been inspected, or if the run is about to end.
        """
        return math.inf if self._over or self._loop.now() == self._seen else -math.inf

    until = time

    def start(self, agents: Mapping[Hashable, Agent]) -> None:
        """Observe these agents from now on."""
        self._agents = agents
        self._loop.clock.onlookers.append(self)

    def stop(self, whole: bool) -> None:
        """If the run is complete (``whole``), call the inspection for the last time."""
        if whole and not self._over:
            self.look(last=True)

    def look(self, last: bool = False) -> None:
        """Call the inspection, and end the run if the inspection returns True or raises."""
        self._seen = self._loop.now()
        try:
            self._over = self._inspect(self._agents, self._seen, last)
        except NetsimError as error:
            self._over = True
            self._fail(error)
        if self._over:
            self._end()
