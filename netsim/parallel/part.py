"""One worker of a run: it runs some of the agents, and exchanges frames with the other workers.

Before time passes, each worker sends every other worker its frames and a `Report`: the time of its next event, whether
an agent waits for frames, when its agents want a round, and whether all its agents have ended. All workers then have
the same reports and reach the same conclusions, so there is no coordinator.
"""

import heapq
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgpack

from netsim.clock.clock import Loop
from netsim.clock.task import OWNER
from netsim.core import ArrivalQueue, Frame, Tally
from netsim.engine.diagnosis import SHOWN, stalled, waiting
from netsim.errors import AgentError, BadInput, NetsimError, Stalled
from netsim.links.link import Link
from netsim.parallel.mesh import Lost, Mesh
from netsim.parallel.parcels import pack, unpack
from netsim.parallel.rounds import JointRounds
from netsim.parallel.window import WindowSelector
from netsim.topology import senders_to
from netsim.transport.inbox import Inbox
from netsim.transport.shared import Shared

if TYPE_CHECKING:
    from netsim.engine.build import Settings
    from netsim.engine.runtime import Runtime

__all__ = ["GOING_ON", "INTERRUPTED", "Part", "crossing_latency"]

# The values of `Report.status`.
GOING_ON, OVER, FAILED, INTERRUPTED = range(4)


def crossing_latency(settings: "Settings", place: Mapping[Hashable, int]) -> float:
    """Return the smallest latency (s) of any link between two workers; infinity if there is no such link."""
    usual, crossing = settings.link.least_latency, math.inf
    for sender in settings.graph:
        here = place[sender]
        for receiver in settings.graph[sender]:
            if place[receiver] != here:
                link = settings.links.get((sender, receiver)) if settings.links else None
                crossing = min(crossing, usual if link is None else link.least_latency)
                if not settings.links:
                    return crossing
    return crossing


class PartInbox(Inbox):
    """The inbox of an agent of this worker; it reports to the worker's `Part` that the agent waits for frames."""

    __slots__ = ("_name", "_part", "_waits_since", "unordered")

    def __init__(self, shared: Shared, limit: int | None, name: Hashable, part: "Part", unordered: bool) -> None:
        super().__init__(shared, limit)
        self._name, self._part = name, part
        # Whether an incoming link of this agent has no latency. Then the order of frames that arrive at the same time
        # could depend on the number of workers.
        self.unordered = unordered
        self._waits_since = 0.0

    @property
    def waits(self) -> bool:
        """Whether a task or a callback waits for a frame."""
        return bool(self._blocked or self.replies or self.waits_for_all)

    def arrived(self, sent_at: float) -> None:
        """Call `watch` for a frame that another worker sent at ``sent_at`` (s).

        `watch` sets a timer, and timers due at the same instant run in the order in which they were set. This timer
        counts as set at ``sent_at``, or when the agent began to wait, if that is later: as in one process.
        """
        clock = self._part.selector
        clock.set_at = max(sent_at, self._waits_since)
        try:
            self.watch()
        finally:
            clock.set_at = None

    def __len__(self) -> int:
        self._must_be_ordered()
        return super().__len__()

    def take(self, until: float) -> list[Frame]:
        """Take frames as `Inbox.take` does; raises AgentError if ``until`` is later than the present time."""
        present = self._shared.loop.time()
        if until > math.nextafter(present, math.inf):
            raise self._part.refused(
                self._name,
                AgentError,
                f"agent {self._name!r} cannot take frames before they arrive, with workers: "
                "those of other workers are not known",
            )
        if until > present:
            self._must_be_ordered()
        return super().take(until)

    async def _block(self) -> bool:
        self._note_wait()
        return await super()._block()

    def _settled(self) -> int:
        self._must_be_ordered()
        return super()._settled()

    async def wait_for_reply(self, request: int, timeout: float | None) -> Frame:
        """Wait as `Inbox.wait_for_reply` does, and report that the agent waits for a frame."""
        self._must_be_ordered()
        self._note_wait()
        return await super().wait_for_reply(request, timeout)

    def _on_timer(self) -> None:
        self._waits_since = self._loop.now()
        super()._on_timer()

    def _note_wait(self) -> None:
        if not self.waits:
            self._waits_since = self._loop.now()

    def _subscribe(self) -> None:
        super()._subscribe()
        self._part.subscribed(self._name, self)

    def _must_be_ordered(self) -> None:
        """Raise AgentError if the order of frames that arrive at one time could depend on the number of workers."""
        if self.unordered:
            raise self._part.refused(
                self._name,
                AgentError,
                f"agent {self._name!r} reads frames as they arrive, over links without latency: with workers, "
                "give the links a latency (latency=1e-6, say), or read with collect()",
            )


class _Endpoint:
    """Stands in for the inboxes of all agents of another worker: links put the frames for these agents here."""

    def __init__(self, tally: Tally) -> None:
        self.arrivals = ArrivalQueue(tally)
        # Links append to this list, but it is never read: the `Part` sends all frames before time passes.
        self.watchers: list[Any] = []

    def watch(self) -> None:
        """Do nothing: the `Part` removes the frames from this endpoint before time passes."""


@dataclass(slots=True)
class Report:
    """A worker's progress, as reported to all others.

    Attributes
    ----------
    status : int
        GOING_ON, OVER (its agents have ended), FAILED, or INTERRUPTED (it must end early).
    now : float
        The worker's time (s) or, if all its agents have ended, the time at which the last of them ended.
    next : float
        Time (s) of the worker's next event.
    waits : bool
        Whether an agent of the worker waits for frames.
    round : float
        The time (s) at which the worker's agents want a round (`JointRounds.wanted`).
    arrivals : list of float
        For each worker, the arrival time (s) of the first frame sent to it.
    """

    status: int
    now: float
    next: float
    waits: bool
    round: float
    arrivals: list[float]


class Part:
    """One worker's part of a run; the worker's `Runtime` calls it when the run begins, at each row, and at the end.

    Parameters
    ----------
    mesh : Mesh
        The connections to the other workers.
    place : mapping
        The worker of each agent.
    settings : Settings
        The run's settings.
    send : callable
        Sends a message, with its name and content, to the caller of the run.
    measure : callable, optional
        Called with the number of each row; returns the measurements to send with the row.
    """

    journals = False
    causes = ()
    round_clock = JointRounds
    runtime: "Runtime"

    def __init__(
        self,
        mesh: Mesh,
        place: Mapping[Hashable, int],
        settings: "Settings",
        send: Callable[[str, Any], None],
        measure: Callable[[int], Any] | None = None,
    ) -> None:
        self.place, self.selector = place, WindowSelector()
        self._mesh, self._send, self._measure = mesh, send, measure
        self._settings, self._lookahead = settings, crossing_latency(settings, place)
        self.endpoints: dict[int, _Endpoint] = {}
        # For each agent that has ever waited for a frame, its inbox.
        self._subscribed: dict[Hashable, PartInbox] = {}
        self._watched = bytearray(len(place))
        # For each kind of message, its first use in this worker: the time (s), the number of the agent that used it,
        # and how many other kinds this agent had used before.
        self.kinds: dict[str, tuple[float, int, int]] = {}
        self._kinds_seen = 0
        self._is_over = self._was_over = self._is_closed = False
        # The time (s) at which the last agent of this worker ended.
        self._over_at = 0.0
        # Times in s. `_earliest`: the next event of any worker. `_limit`: until then this worker may advance without an
        # exchange. `_end`: the next event of any worker that still has running agents.
        self._earliest, self._limit, self._end = -math.inf, -math.inf, math.inf
        # A heap of the times (s) of future actions that may drop frames in flight.
        self._actions: list[float] = []
        # `stop`: whether this worker was asked to end early. `has_stopped`: whether it has reported that to the others.
        self.stop = self.has_stopped = False
        # `costs`: the costs of this worker (`Ending.costs`). `_begun`: the CPU seconds of this process when the run
        # began.
        self.costs: dict[str, float] = {"cpu_seconds": 0.0, "waited_seconds": 0.0, "windows": 0, "bytes": 0}
        self._begun = 0.0

    def is_local(self, agent: Hashable) -> bool:
        """Return whether an agent runs in this worker."""
        return self.place[agent] == self._mesh.rank

    # --- building -----------------------------------------------------------------------------------------------------

    def wired(self, names: Sequence[Hashable]) -> Sequence[Hashable]:
        """Return the agents of ``names`` that run in this worker: it builds only the links of these agents."""
        return [name for name in names if self.place[name] == self._mesh.rank]

    def inbox(self, shared: Shared, limit: int | None, name: Hashable) -> PartInbox:
        """Return the inbox of an agent of this worker."""
        settings = self._settings
        several = [settings.link]
        if settings.links:
            senders = senders_to(settings.graph, name)
            several = [settings.links.get((sender, name), settings.link) for sender in senders]
        # Check each distinct link once: many neighbours share one, and its least latency may require a whole trace.
        links = {id(link): link for link in several}.values()
        return PartInbox(shared, limit, name, self, any(not each.least_latency for each in links))

    def neighbor_inboxes(self, inboxes: Mapping[Hashable, Inbox], tally: Tally) -> Mapping[Hashable, Any]:
        """Return a mapping from each agent to its inbox or, for another worker's agent, to that worker's endpoint."""
        others = range(self._mesh.count)
        self.endpoints = {worker: _Endpoint(tally) for worker in others if worker != self._mesh.rank}
        return {name: self.endpoints.get(worker, inboxes.get(name)) for name, worker in self.place.items()}

    def subscribed(self, name: Hashable, inbox: PartInbox) -> None:
        """Register an agent that waits for frames, so that frames from other workers wake it."""
        self._subscribed[name] = inbox
        self._watched[self._numbers[name]] = 1

    # --- hooks of the runtime -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def taking_part(self, loop: Loop) -> AsyncIterator[None]:
        """Number the agents; a worker has no other preparation or clean-up to do."""
        names = list(self._settings.graph)
        self._names, self._numbers = names, {name: i for i, name in enumerate(names)}
        yield

    def joined(self) -> None:
        """Prepare to receive frames; called once the run is built."""
        run = self.runtime
        assert isinstance(run.rounds, JointRounds)
        self._tally, self._rounds = run.shared.tally, run.rounds
        run.tasks.is_part = True
        self._queues: list[Any] = [None] * len(self._names)
        for name, inbox in run.inboxes.items():
            self._queues[self._numbers[name]] = inbox.arrivals

    def starting(self) -> None:
        """From now on, let time pass only in agreement with the other workers."""
        self.selector.window = self
        self._begun = time.process_time()

    def last_round(self) -> int:
        """Return the number of the last round that opened."""
        return self._rounds.last

    def refuse_of_agent(self, what: str) -> None:
        """Raise BadInput if an agent calls a function that must take effect in all workers."""
        owner = OWNER.get()
        if owner is not None:
            why = f"{what}: must be called before the run, or by an action of Network.at, with workers"
            raise self.refused(owner.name, BadInput, why)

    def expect(self, time: float) -> None:
        """Make all workers exchange frames before an action at ``time`` (s), which may drop frames in flight.

        Otherwise a worker that is already past the action could receive frames from before it, sent by a worker whose
        agents have ended.
        """
        heapq.heappush(self._actions, time)

    def check_change(self, what: str, link: tuple[Hashable, Hashable], before: Link, after: Link) -> None:
        """Raise BadInput if a link's new settings cannot be applied in a run with workers.

        The rate must not change, because waiting frames are in several processes. The latency must not fall below the
        bound on which all workers rely.
        """
        if after.rate != before.rate:
            raise BadInput(f"{what}: rate must stay with workers, as frames that wait are in several processes")
        least, former = after.least_latency, before.least_latency
        if after.latency_model is before.latency_model:
            return
        if after.fifo and before.is_simple:
            raise BadInput(f"{what}: latency must stay on a fifo link of constant latency, with workers")
        bound = self._lookahead if self.place[link[0]] != self.place[link[1]] else min(former, self._lookahead)
        if least < bound:
            why = f"workers rely on the least latency of links between them, {bound:g} s"
            raise BadInput(f"{what}: latency of {link!r} must be at least {bound:g} s: {why}")

    def may_hold(self, what: str) -> None:
        """Accept every action that holds or drops frames: each worker holds or drops its own frames."""

    def refused(self, name: Hashable, kind: type[NetsimError], why: str) -> NetsimError:
        """Fail the run with an agent's error, and return it; if it were only raised, the agent could catch it."""
        trace, frame = None, sys._getframe(1)
        while frame is not None:
            # Build the traceback that ``raise`` would build, so that the run's error shows the agent's line.
            trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
        self.runtime.tasks.failed(name, kind(why).with_traceback(trace))
        return kind(why)

    def row_written(self, number: int, time: float) -> None:
        """Send a row to the caller of the run."""
        run = self.runtime
        try:
            measured = None if self._measure is None else self._measure(number)
        except NetsimError as error:
            run.fail(error)
        else:
            self._send("row", (number, time, run.ledger.totals(), measured))

    def agents_ended(self) -> None:
        """Record that all agents of this worker have ended.

        If the run's time limit is reached, exchange reports until all workers agree to end.
        """
        until, run = self._settings.until, self.runtime
        if not self._is_over:
            self._is_over, self._over_at = True, run.loop.now()
        if until is not None and run.loop.now() >= run.rounds.snap(until):
            while not self._is_closed:
                self.advance(math.inf)

    def closing(self) -> None:
        """Exchange frames a last time, unless the workers have agreed to end; called before the counts are final."""
        if self._is_closed:
            return
        if self.selector.window is not None:
            # This worker failed or was interrupted, and the other workers do not know it yet.
            run = self.runtime
            with suppress(Lost):
                self._exchange(INTERRUPTED if run.error is None else FAILED, math.inf)
        self._close()

    def closed(self) -> None:
        """Do nothing, because `worker.work` sends the results after the run."""

    def _close(self) -> None:
        self._is_closed = True
        self.selector.window = None
        self.costs["cpu_seconds"] = time.process_time() - self._begun

    # --- windows ------------------------------------------------------------------------------------------------------

    def allows(self, time: float) -> bool:
        """Return whether this worker's clock may advance to ``time`` (s) without an exchange."""
        if len(self._tally.kinds) != self._kinds_seen:
            self._note_kinds()
        if self._is_over and (not self._was_over or time > self._end):
            # All agents of this worker have ended, so the run may end before ``time``: exchange first.
            return False
        return time < self._limit or time == self._earliest < math.inf

    def advance(self, until: float) -> float:
        """Exchange frames and reports, and return the time (s) of the next event of any worker.

        ``until`` is the time (s) of this worker's next event. The result is −∞ if the next event is not known yet, or
        if the run ends.
        """
        self._was_over = self._is_over
        self.has_stopped = self.stop
        status = INTERRUPTED if self.stop else OVER if self._is_over else GOING_ON
        run, rank = self.runtime, self._mesh.rank
        if until < math.inf and (trial := self._rounds.trial) is not None:
            # The open round is on trial and may be cancelled, so do not report its end as this worker's next event. If
            # the round stays open, agents of other workers take part in it, and their workers report its end.
            until = self.selector.next_but(trial)
        try:
            reports = self._exchange(status, until)
        except Lost as error:
            run.fail(error)
            self._close()
            return -math.inf
        self._rounds.agree(min(report.round for i, report in enumerate(reports) if i != rank))
        states = [report.status for report in reports]
        nexts = [
            min(report.next, *(other.arrivals[i] for other in reports)) if report.waits else report.next
            for i, report in enumerate(reports)
        ]
        earliest, is_over = min(nexts), set(states) == {OVER}
        end = max(report.now for report in reports)
        if FAILED in states or INTERRUPTED in states or (is_over and earliest > end):
            if is_over:
                self.selector.set_now(end)
            self._close()
            run.end()
            return -math.inf
        if earliest == math.inf:
            self._stand_still()
            return -math.inf
        if earliest > self._earliest:
            self.selector.passes = 0
        self._earliest = earliest
        self._end = min((nexts[i] for i, state in enumerate(states) if state != OVER), default=end)
        # Exchange at the latest when a round ends, so that workers report whether their agents want the next round.
        self._limit = min(earliest + self._lookahead, self._rounds.deadline(self._rounds.closes_after(earliest)))
        while self._actions and self._actions[0] <= earliest:
            heapq.heappop(self._actions)
        if self._actions:
            self._limit = min(self._limit, self._actions[0])
        # The earliest event may be the arrival of a frame from another worker, which wakes its receiver only if the
        # receiver waits for a frame. So exchange again: the receiver's worker, which now has the frame, reports its
        # true next event.
        return earliest if earliest == min(report.next for report in reports) else -math.inf

    def _exchange(self, status: int, until: float) -> list[Report]:
        """Exchange frames and reports with all workers; return the reports by worker."""
        rank, mesh, run = self._mesh.rank, self._mesh, self.runtime
        kinds = list(self._tally.kinds)
        parcels, arrivals = {}, [math.inf] * mesh.count
        for worker, endpoint in self.endpoints.items():
            parcels[worker], arrivals[worker] = pack(endpoint.arrivals, kinds)
        waits = any(inbox.waits for inbox in self._subscribed.values())
        mine = Report(
            status, self._over_at if self._is_over else run.loop.now(), until, waits, self._rounds.wanted, arrivals
        )
        head = msgpack.packb(astuple(mine))
        size, begun = len(head).to_bytes(2, "little"), time.perf_counter()
        received = mesh.exchange({worker: [size, head, parcels[worker]] for worker in parcels})
        self.costs["waited_seconds"] += time.perf_counter() - begun
        self.costs["windows"] += 1
        self.costs["bytes"] += sum(map(len, parcels.values()))
        reports, touched = [], []
        ends = run.ledger.senders, run.ledger.receivers
        rounds = self._rounds.open_round, self._rounds.open_deadline
        for worker in range(mesh.count):
            if worker == rank:
                reports.append(mine)
                continue
            message = received[worker]
            end = 2 + int.from_bytes(message[:2], "little")
            reports.append(Report(*msgpack.unpackb(message[2:end])))
            parcel = bytes(message[end:])
            touched += unpack(parcel, self._tally, self._names, *ends, self._queues, self._watched, *rounds)
        for sent_at, receiver in sorted(touched):
            run.inboxes[self._names[receiver]].arrived(sent_at)  # type: ignore[attr-defined]
        self._kinds_seen = len(self._tally.kinds)
        return reports

    def _note_kinds(self) -> None:
        """Record the current instant as the first use of each new kind of message."""
        self._kinds_seen = len(self._tally.kinds)
        now, run = self.runtime.loop.now(), self.runtime
        for name, outbox in run.outboxes.items():
            for used, kind in enumerate(outbox.kinds):
                if kind not in self.kinds:
                    self.kinds[kind] = now, self._numbers[name], used

    # --- standstills --------------------------------------------------------------------------------------------------

    def _stand_still(self) -> None:
        """Handle a deadlock: no worker has a next event.

        End the agents' iterations over inboxes in all workers; if no agent iterates, end the run with an error.
        """
        run = self.runtime
        ended = run.end_iterations()
        if ended:
            run.count_ready_agents()
        error = run.tasks.first_background_error()
        unfinished = {
            self._numbers[name]: (task, name) for task, name in run.tasks.main_tasks.items() if not task.done()
        }
        first = [(number, waiting(dict([unfinished[number]]), run.contexts)) for number in sorted(unfinished)[:SHOWN]]
        mine = ended, error is not None, len(unfinished), first, self.selector.beyond, run.loop.now()
        raw = msgpack.packb(mine)
        received = self._mesh.exchange({worker: [raw] for worker in self.endpoints})
        reports = [mine, *(msgpack.unpackb(message, use_list=False) for message in received.values())]
        self.selector.set_now(max(report[5] for report in reports))
        if any(report[0] for report in reports):
            return
        if error is not None:
            run.fail(error)
        elif any(report[1] for report in reports):
            run.end()
        else:
            run.fail(self._standstill(reports))
        self._close()

    def _standstill(self, reports: list[Any]) -> Stalled:
        texts = [text for _, text in sorted(each for report in reports for each in report[3])]
        count, beyond = sum(report[2] for report in reports), any(report[4] for report in reports)
        return stalled(self.runtime.loop.now(), texts[:SHOWN], count, beyond)
