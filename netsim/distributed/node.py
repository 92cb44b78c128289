"""Run the agents of this process in a run whose other agents run in other processes.

The processes first meet: they exchange heartbeats until they have agreed on a start time. The run ends when all agents
of all processes have ended. If the transport has a folder, the process writes a journal. It records an event before the
event's frame leaves the process, and states and rows at the end of each round.
"""

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from netsim.clock.clock import Loop
from netsim.clock.pacing import PacedSelector
from netsim.clock.rounds import RoundClock
from netsim.context import Context
from netsim.core import Tally
from netsim.core.records import SOCKET_CAUSES
from netsim.distributed.journal import Journal
from netsim.distributed.membership import Membership, Phase, clock
from netsim.distributed.relay import Relay
from netsim.distributed.transport import Transport
from netsim.engine.build import Settings
from netsim.engine.diagnosis import waiting
from netsim.engine.launch import simulate
from netsim.engine.runtime import Runtime
from netsim.errors import BadInput, NetsimError, Stalled, one_line
from netsim.faults import Hold, LinkChange
from netsim.links.link import Link
from netsim.radio.settings import Radio
from netsim.run import Run
from netsim.transport.inbox import Inbox, RemoteEndpoint
from netsim.transport.shared import Shared
from netsim.util import check, draws

__all__ = ["Missed", "Node", "journal_name", "mark_of", "must_be_apart", "places_of"]

# Real seconds: the interval between heartbeats before a run (_MEETING_INTERVAL) and during a run (_HEARTBEAT_INTERVAL),
# and the time from the moment when all processes have met to the start of the run (_START_MARGIN).
_MEETING_INTERVAL, _HEARTBEAT_INTERVAL, _START_MARGIN = 0.05, 0.1, 1.0
# If the simulated time lags behind real time by more than this many rounds, the simulation's clock jumps ahead to it.
_SLACK = 0.5
# Real seconds to wait for the last frames once all agents have ended.
_LAST_FRAMES = 2.0
# A restarted process skips 2**_SKIPPED_BITS transmission numbers for each round that has passed, because the process
# that it replaces may have used these numbers.
_SKIPPED_BITS = 24


class Missed(NetsimError):  # noqa: N818  named after the event
    """Raised if the other processes have already ended this run."""


def journal_name(run: int, host: int, incarnation: int) -> str:
    """Return the path of a process's journal of a run, relative to the transport's folder."""
    return f"run-{run}/{host:03d}-{incarnation}.journal"


def places_of(settings: Settings, transport: Transport) -> dict[Hashable, int]:
    """Return the index of each agent's process.

    Raises BadInput if an agent is unknown or in two processes, if no agent is left for this process, or if
    `must_be_apart` refuses the settings.
    """
    must_be_apart(settings)
    hosts = sorted([transport.here, *transport.peers])
    processes: dict[Hashable, int] = {}
    for host, agents in transport.peers.items():
        for agent in agents:
            if agent not in settings.graph:
                raise BadInput(f"peers[{host!r}]: must be nodes of the graph; {agent!r} is not one")
            if agent in processes:
                raise BadInput(f"peers[{host!r}]: must be agents of one process only; {agent!r} is in two")
            processes[agent] = hosts.index(host)
    if len(processes) == len(settings.graph):
        raise BadInput("peers: must leave an agent to run here")
    return {agent: processes.get(agent, hosts.index(transport.here)) for agent in settings.graph}


def must_be_apart(settings: Settings) -> None:
    """Raise BadInput for settings that require virtual time, or all agents in one process."""
    if isinstance(settings.medium, Radio):
        raise BadInput("medium: must be wires, or a radio without collisions, for agents in several processes")
    if settings.kinds:
        raise check.refuse("kinds", settings.kinds, "left out for agents in several processes")
    if settings.capacity is not None:
        raise BadInput("uplink, downlink: must be left out for agents in several processes in real time")
    if settings.compute is not None:
        raise BadInput("compute: must be left out for agents in several processes in real time")
    for fault in settings.faults:
        if isinstance(fault, LinkChange | Hold) or getattr(fault, "drops", False):
            name = type(fault).__name__
            raise BadInput(f"{name}: must be left out for agents in several processes, whose frames are on real links")
    if settings.routes is not None:
        raise BadInput("routing: must be left out for agents in several processes in real time; one process forwards")
    if settings.clock != "virtual" or settings.pace != 1.0:
        raise BadInput("clock: must be left out for agents in several processes in real time: see the transport's pace")
    if settings.order is not None:
        raise BadInput("order: must be left out for agents in several processes, as real time has an order of its own")
    if settings.deliveries:
        raise BadInput("deliveries = True: must be left out for agents in several processes in real time")
    if settings.viewer is not None:
        raise BadInput("transport: must go without --live, which shows the runs of one process")


def mark_of(settings: Settings, agents: Mapping[Any, Any], processes: Mapping[Hashable, int]) -> bytes:
    """Return a hash of the settings that must be the same in all processes."""
    graph, plain = settings.graph, draws.plain_name
    links = [(plain(ends), repr(link)) for ends, link in settings.links.items()]
    shared = (
        [(plain(name), plain(tuple(graph[name])), processes[name]) for name in graph],
        (repr(settings.link), links, settings.round_period, settings.medium, settings.inbox_limit),
        (settings.seed, settings.link_seed),
        [repr(fault) for fault in settings.faults],
        [type(agents[name]).__qualname__ for name in graph],
    )
    return hashlib.blake2b(repr(shared).encode(errors="backslashreplace"), digest_size=16).digest()


class Node:
    """Runs this process's agents in a distributed run; ``result`` holds the agents of all processes.

    A `Runtime` runs this process's agents, and calls the node when the run begins, at each row, and when it ends.
    """

    runtime: Runtime
    causes = SOCKET_CAUSES
    round_clock = RoundClock

    def __init__(self, settings: Settings, result: Run, transport: Transport) -> None:
        self._process_of = places_of(settings, transport)
        if transport.membership is None:
            transport.membership = Membership(transport)
        self._transport = transport
        self._membership: Membership = transport.membership
        self.relay = Relay(self._membership, self._process_of)
        self._journal: Journal | None = None
        self._mark = mark_of(settings, result.agents, self._process_of)
        self._slack = _SLACK * settings.round_period
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._round_task: asyncio.Task[None] | None = None
        # When this process was last active (real s), and the number of events that it had counted by then; see
        # `_check_standstill`.
        self._last_activity = (time.monotonic(), 0)
        # The result of `RoundClock.is_followed` for the next round, stored when a row is written; None before the first
        # row. See `_took_part`.
        self._follows_next: bool | None = None
        # `_ended_at`: the time (simulated s) at which the last agent of any process ended. `_closed_at`: the time (real
        # s) at which this process closed its part of the run.
        self._ended_at = self._closed_at = math.inf

    @property
    def journals(self) -> bool:
        """Whether the process writes a journal."""
        return self._transport.folder is not None

    def is_local(self, agent: Hashable) -> bool:
        """Return whether an agent runs in this process."""
        return self.relay.is_local(agent)

    def wired(self, names: Sequence[Hashable]) -> Sequence[Hashable]:
        """Return the agents whose links this process builds: the agents of all processes."""
        return names

    def inbox(self, shared: Shared, limit: int | None, name: Hashable) -> Inbox:
        """Return an agent's inbox."""
        return Inbox(shared, limit)

    def neighbor_inboxes(
        self, inboxes: Mapping[Hashable, Inbox], tally: Tally
    ) -> Mapping[Hashable, Inbox | RemoteEndpoint]:
        """Return the inbox of each agent of this process, and a remote endpoint for each other agent."""
        return {name: self.relay.remote_endpoint(name, tally) or inbox for name, inbox in inboxes.items()}

    def refuse_of_agent(self, what: str) -> None:
        """Do nothing: an agent may call any action, because each process performs its actions itself."""

    def expect(self, time: float) -> None:
        """Do nothing: an action needs no preparation, because actions on frames in flight are refused (`may_hold`)."""

    def check_change(self, what: str, link: tuple[Hashable, Hashable], before: Link, after: Link) -> None:
        """Raise BadInput: a link's settings cannot change, because frames cross real links."""
        self.may_hold(what)

    def may_hold(self, what: str) -> None:
        """Raise BadInput: frames in flight are on their way to other processes, and cannot be held or dropped."""
        raise BadInput(f"{what}: must be left out with a transport, whose frames are on real links")

    @property
    def _contexts(self) -> list[Context]:
        return [self.runtime.contexts[name] for name in self.runtime.result.agents]

    # --- meeting ------------------------------------------------------------------------------------------------------

    def meet_and_run(self) -> Run:
        """Meet the other processes, and run; raises Missed if they have already ended the run."""
        membership = self._membership
        membership.begin(self._mark)
        try:
            if (folder := self._transport.folder) is not None:
                path = folder / journal_name(membership.run, membership.me, membership.incarnation)
                self._journal = Journal(path, self.runtime.agents, self._process_of, membership)
            # Do not use asyncio's default loop: on Windows it lacks add_reader, which the transports need to watch
            # their sockets.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                epoch = runner.run(self._meet())
            if math.isnan(epoch):
                if self._journal is not None:
                    self._journal.discard()
                raise Missed(f"run {membership.run}: the other processes have ended it")
            begin = time.monotonic() + (epoch - clock())
            return simulate(self.runtime, Loop(PacedSelector(begin, self._transport.pace, self._slack)))
        except BaseException as error:
            membership.phase, membership.error = Phase.OVER, one_line(error) or type(error).__name__
            raise

    async def _meet(self) -> float:
        """Meet the other processes; return the start time in seconds of `clock`, or NaN if the run is over."""
        membership = self._membership
        give_up = time.monotonic() + self._transport.patience
        await membership.open()
        try:
            while True:
                membership.send_heartbeat()
                await asyncio.sleep(_MEETING_INTERVAL)
                if self._transport.failure is not None:
                    raise self._transport.failure
                epoch = membership.start_time(_START_MARGIN)
                if epoch is not None:
                    break
                if time.monotonic() > give_up:
                    absent = ", ".join(map(repr, membership.missing())) or repr(membership.hosts[0])
                    raise NetsimError(f"no answer from {absent} in {self._transport.patience:g} real seconds")
            if not math.isnan(epoch):
                membership.epoch, membership.phase = epoch, Phase.RUNNING
            membership.send_heartbeat()
            return epoch
        finally:
            await membership.close()

    @asynccontextmanager
    async def taking_part(self, loop: Loop) -> AsyncIterator[None]:
        """Wait for the start of the run, then exchange heartbeats and frames until its end."""
        membership = self._membership
        membership.take = self.relay.take
        await membership.open()
        try:
            self._send_heartbeats(loop)
            started = loop.create_future()
            loop.call_at(0.0, started.set_result, None)
            await started
            yield
        except BaseException as error:
            membership.phase, membership.error = Phase.OVER, one_line(error) or type(error).__name__
            raise
        finally:
            membership.take = membership.on_heartbeat = None
            if self._heartbeat_timer is not None:
                self._heartbeat_timer.cancel()
            membership.send_heartbeat()
            await membership.close()
            if self._journal is not None:
                self._journal.close()

    def _send_heartbeats(self, loop: Loop) -> None:
        """Send a heartbeat and call `check`, now and then periodically."""
        self._membership.send_heartbeat()
        self.check()
        self._heartbeat_timer = loop.call_later(_HEARTBEAT_INTERVAL * self._transport.pace, self._send_heartbeats, loop)

    # --- start --------------------------------------------------------------------------------------------------------

    def joined(self) -> None:
        """Start to record the run in the journal; called once the links of the run are built."""
        self._membership.on_heartbeat = self.check
        if self._journal is not None:
            self._journal.joined(self.runtime.loop.now(), sampled=self.runtime.result.sampled)
            self.relay.before_sending = self._write_events

    def starting(self) -> None:
        """Start to relay frames. Called before the agents here start; agents in other processes may already run."""
        run = self.runtime
        for name in run.agents:
            if not self.relay.is_local(name):
                run.tasks.finished(name)
        if run.loop.now() > 0:
            # The run has started, so this process may replace a dead one. Skip the transmission numbers that the dead
            # process may have used in the rounds so far.
            passed = run.rounds.next_number()
            for context in self._contexts:
                context.note_restart()
                context.outbox.skip_numbers(passed << _SKIPPED_BITS)
        self.relay.connect(run)
        self._round_task = run.loop.create_task(self._keep_rounds_open(), context=run.caller_context)

    async def _keep_rounds_open(self) -> None:
        """Wait for every round, so that rounds continue even while no agent of this process takes part."""
        while True:
            await self.runtime.rounds.opening()

    def last_round(self) -> int:
        """Return the number of the last round in which an agent of this process took part; later rounds may be open."""
        return max((max(context.round, context.left[0]) for context in self._contexts), default=0)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def row_written(self, number: int, time: float) -> None:
        """Write a row to the journal, with the agents' states if the run has probes."""
        run, journal = self.runtime, self._journal
        if journal is None:
            return
        try:
            if run.result.probes:
                journal.write_states()
            self._write_events()
            self._write_changes(journal)
            journal.write_row(number, time, run.result.sampled or self._took_part(number))
        except NetsimError as error:
            run.fail(error)

    def _took_part(self, number: int) -> bool:
        run = self.runtime
        # `is_followed(k)` is True if an agent with its own clock opens a round before round k closes. It must be called
        # before round k closes, but round ``number`` has closed already. So use the result that was stored for this
        # round when the last row was written, and store the result for the next round.
        followed, self._follows_next = self._follows_next, run.rounds.is_followed(number + 1)
        if followed is None:
            followed = any(shared.rounds.open_round for shared in run.own.values())
        in_step = [context for context in self._contexts if context.shared.rounds is run.rounds]
        return followed or any(context.round == number or context.left[0] == number for context in in_step)

    def _write_events(self) -> None:
        if self._journal is not None:
            self._journal.write_events(self.runtime.shared.tally, self.runtime.settings.trace)

    def _write_changes(self, journal: Journal) -> None:
        if self.runtime.result.watch is not None:
            journal.write_changes(self.runtime.result.watch)

    # --- end ----------------------------------------------------------------------------------------------------------

    def agents_ended(self) -> None:
        """Announce that this process is done; called when its agents have ended or at the time limit."""
        membership = self._membership
        if membership.phase == Phase.RUNNING:
            membership.done, membership.phase = self.runtime.loop.now(), Phase.DONE
            membership.send_heartbeat()
            self.check()

    def check(self) -> None:
        """Advance to the next phase if all processes are ready; called periodically and for each heartbeat."""
        run, membership = self.runtime, self._membership
        if not run.started or run.ended.done():
            return
        if membership.transport.failure is not None:
            run.fail(membership.transport.failure)
            return
        if membership.phase == Phase.RUNNING:
            self._check_standstill()
        if membership.phase == Phase.DONE:
            self._check_end()
        if membership.phase == Phase.CLOSED and self._closed_at < math.inf:
            in_time = time.monotonic() - self._closed_at < _LAST_FRAMES
            if not (in_time and any(map(self._owes_frames, membership.peers))):
                run.end()

    def _check_end(self) -> None:
        """If the agents of all processes have ended, set a timer to close this part of the run.

        The part is closed at the simulated time at which the last agent ended.
        """
        run, membership = self.runtime, self._membership
        finals = [peer.final[1] for peer in membership.peers.values() if peer.final and peer.final[0] == membership.run]
        alive = [peer for number, peer in membership.peers.items() if membership.is_alive(number)]
        if finals or all(peer.has_reached(membership.run, Phase.DONE) for peer in alive):
            peers = [peer for peer in membership.peers.values() if peer.run == membership.run]
            ends = [peer.done for peer in peers if peer.done is not None]
            end = max(finals) if finals else max([membership.done or 0.0, *ends])
            membership.phase = Phase.CLOSED
            # The clock of this process may be behind: wait until it has reached the end, too.
            run.timers.append(run.loop.call_at(end, run.loop.clock.at_instant_end, lambda: self._close_at(end)))

    def _close_at(self, end: float) -> None:
        """Close this part of the run: send the last frames, and announce the number of frames sent to each process."""
        self._ended_at, self._closed_at = end, time.monotonic()
        self.runtime.horizon = math.nextafter(end, math.inf)
        self.relay.flush()
        self._membership.finals = self._membership.run, end, self.relay.sent_to()
        self._membership.send_heartbeat()
        self.check()

    def _owes_frames(self, number: int) -> bool:
        final = self._membership.peers[number].final
        if final is None or final[0] != self._membership.run:
            return self._membership.is_alive(number)
        return not self.relay.has_all_of(number, final[2])

    def _check_standstill(self) -> None:
        """Detect a standstill: for ``patience`` real seconds, all agents of this process have only waited for frames.

        At a standstill, end the agents' iterations over inboxes; if no agent iterates, end the run with an error.
        """
        run, patience = self.runtime, self._transport.patience
        tally = run.shared.tally
        events = tally.link_messages + sum(tally.exits)
        since, events_then = self._last_activity
        unfinished = {task: name for task, name in run.tasks.main_tasks.items() if not task.done()}
        if events != events_then or self._can_go_on(set(unfinished.values())):
            self._last_activity = time.monotonic(), events
        elif unfinished and time.monotonic() - since > patience:
            self._last_activity = time.monotonic(), events
            if not run.end_iterations():
                waits = waiting(unfinished, run.contexts)
                run.fail(Stalled(f"no frame arrived for {patience:g} real seconds; {waits}"))

    def _can_go_on(self, names: Collection[Hashable]) -> bool:
        """Return whether any of these agents may continue without a frame from another process."""
        run = self.runtime
        now, contexts = run.loop.now(), [run.contexts[name] for name in names]
        return (
            # `_keep_rounds_open` always waits for the network's next round, so do not count it as a waiting task.
            any(each.round or each.shared.rounds.waiting > (each.shared.rounds is run.rounds) for each in contexts)
            or any(timer.when() > now for timer in run.timers if not timer.cancelled())
            or run.loop.clock.jobs > 0
            or run.tasks.has_timers()
            or any(True for name in names for _ in run.inboxes[name].arrivals.under_way())
        )

    def closing(self) -> None:
        """Cancel the task that waits for rounds; called before the run completes its counts."""
        if self._round_task is not None:
            self._round_task.cancel()

    def closed(self) -> None:
        """Write the last entries of the journal; called once the run has completed its counts."""
        run = self.runtime
        self.relay.closed = True
        run.result.ended_at = min(run.result.ended_at, self._ended_at)
        if self._journal is not None:
            try:
                self._journal.write_states()
                self._write_events()
                self._write_changes(self._journal)
                self._journal.end(run.result.ended_at, run.ledger.in_flight(), **self._end_of_journal())
            except NetsimError as error:
                run.error = run.error or error

    def _end_of_journal(self) -> dict[str, Any]:
        membership, error = self._membership, self.runtime.error
        selector: Any = self.runtime.loop.clock
        return {
            "why": "" if error is None else one_line(error),
            "dead": [membership.hosts[each] for each in membership.peers if not membership.is_alive(each)],
            "clocks": {membership.hosts[each]: list(peer.offset or ()) for each, peer in membership.peers.items()},
            "dropped": dict(membership.dropped),
            "datagrams": [membership.sent, membership.sent_bytes, membership.received, membership.received_bytes],
            "overruns": selector.overruns,
            "longest_lag": selector.longest_lag,
        }
