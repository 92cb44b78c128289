"""This process's part of a run: the agents that are here, while the others run in other processes.

The processes meet and agree on the instant at which the run begins. It ends when the last agent anywhere has ended.
What happens is written to a journal as it goes, if there is one: events before the frames that tell of them leave,
states and rows as rounds end.
"""

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Collection, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from netsim.clock.clock import Loop
from netsim.clock.pacing import PacedSelector
from netsim.distributed.journal import JournalWriter
from netsim.distributed.membership import Membership, Phase, clock
from netsim.distributed.relay import Relay
from netsim.distributed.transport import Transport
from netsim.engine.build import Settings
from netsim.engine.diagnosis import waiting
from netsim.engine.launch import simulate
from netsim.engine.runtime import Runtime
from netsim.errors import BadInput, NetsimError, Stalled, one_line
from netsim.radio.settings import Radio
from netsim.run import Run
from netsim.transport.context import Context

__all__ = ["Missed", "Node", "journal_name", "mark_of", "places_of"]

# Real seconds from heartbeat to heartbeat, before a run and during it; and from the meeting to the run's beginning.
_MEETING, _HEARTBEAT, _MARGIN = 0.05, 0.1, 1.0
# How late an instant may be, in rounds, before the clock jumps.
_SLACK = 0.5
# Real seconds that the last frames may take once all agents have ended.
_LAST_FRAMES = 2.0
# Numbers that a process which begins again leaves to those that it sent before, for each round that has passed.
_NUMBERS_A_ROUND = 24


class Missed(NetsimError):  # noqa: N818  names that say what happened
    """The other processes have ended this run already."""


def journal_name(run: int, host: int, incarnation: int) -> str:
    """Return the file, in the folder, of a process's part of a run."""
    return f"run-{run}/{host:03d}-{incarnation}.journal"


def places_of(settings: Settings, transport: Transport) -> dict[Hashable, int]:
    """Return the number of the process in which each agent runs.

    Raises
    ------
    BadInput
        If an agent has none or several, none runs here, or the network cannot be taken apart.
    """
    if isinstance(settings.medium, Radio):
        raise BadInput("medium: must be wires, or a radio without collisions, for agents in several processes")
    hosts = sorted([transport.here, *transport.peers])
    places: dict[Hashable, int] = {}
    for host, agents in transport.peers.items():
        for agent in agents:
            if agent not in settings.graph:
                raise BadInput(f"peers[{host!r}]: must be nodes of the graph; {agent!r} is none")
            if agent in places:
                raise BadInput(f"peers[{host!r}]: must be agents of one process only; {agent!r} is in two")
            places[agent] = hosts.index(host)
    if len(places) == len(settings.graph):
        raise BadInput("peers: must leave an agent to run here")
    return {agent: places.get(agent, hosts.index(transport.here)) for agent in settings.graph}


def mark_of(settings: Settings, agents: Mapping[Any, Any], places: Mapping[Hashable, int]) -> bytes:
    """Return a hash of what must be the same in all processes."""
    links = [(ends, repr(link)) for ends, link in settings.links.items()]
    what = (
        [(name, tuple(settings.graph[name]), places[name]) for name in settings.graph],
        (repr(settings.link), links, settings.round_period, settings.seed, settings.medium, settings.inbox_limit),
        [repr(fault) for fault in settings.faults],
        [type(agents[name]).__qualname__ for name in settings.graph],
    )
    return hashlib.blake2b(repr(what).encode(errors="backslashreplace"), digest_size=16).digest()


class Node:
    """This process's part of a run; ``result`` has the agents of all processes.

    A `Runtime` runs the agents that are here and calls the node as the run begins, at each row, and as it ends.
    """

    runtime: Runtime

    def __init__(self, settings: Settings, result: Run, transport: Transport) -> None:
        self._places = places_of(settings, transport)
        if transport.membership is None:
            transport.membership = Membership(transport)
        self._transport = transport
        self._membership: Membership = transport.membership
        self.relay = Relay(self._membership, self._places)
        self._journal: JournalWriter | None = None
        self._mark = mark_of(settings, result.agents, self._places)
        self._slack = _SLACK * settings.round_period
        self._ticking: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        # Since when (real s) nothing happened here, and how many events there were by then.
        self._active = (time.monotonic(), 0)
        self._keeps: bool | None = None
        # When the last agent anywhere ended (simulated s), and when this process learned it (real s).
        self._ended_at = self._closed_at = math.inf

    @property
    def journals(self) -> bool:
        """Whether it writes a journal."""
        return self._transport.folder is not None

    @property
    def _contexts(self) -> list[Context]:
        return [self.runtime.contexts[name] for name in self.runtime.result.agents]

    # --- the meeting --------------------------------------------------------------------------------------------------

    def meet_and_run(self) -> Run:
        """Meet the others, and run; raises Missed if they have ended the run."""
        membership = self._membership
        membership.begin(self._mark)
        try:
            self._journal = self._open_journal()
            # Not every system's own loop can say when a socket can be read.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                epoch = runner.run(self._meet())
            if math.isnan(epoch):
                if self._journal is not None:
                    self._journal.discard()
                raise Missed(f"run {membership.run}: the other processes have ended it")
            return simulate(self.runtime, Loop(PacedSelector(_monotonic(epoch), self._transport.pace, self._slack)))
        except BaseException as error:
            membership.phase, membership.why = Phase.OVER, one_line(error) or type(error).__name__
            raise

    def _open_journal(self) -> JournalWriter | None:
        membership, folder = self._membership, self._transport.folder
        if folder is None:
            return None
        path = folder / journal_name(membership.run, membership.me, membership.incarnation)
        return JournalWriter(path, self.runtime.agents, self._places, membership)

    async def _meet(self) -> float:
        """Find out when the run begins, in seconds of `clock`; NaN: it is over."""
        membership = self._membership
        give_up = time.monotonic() + self._transport.patience
        await membership.open()
        try:
            while True:
                membership.send_heartbeat()
                await asyncio.sleep(_MEETING)
                if self._transport.failure is not None:
                    raise self._transport.failure
                epoch = membership.when(_MARGIN)
                if epoch is not None:
                    break
                if time.monotonic() > give_up:
                    absent = ", ".join(map(repr, membership.missing())) or repr(membership.hosts[0])
                    raise NetsimError(f"nothing was heard of {absent} in {self._transport.patience:g} real seconds")
            if not math.isnan(epoch):
                membership.epoch, membership.phase = epoch, Phase.RUNNING
            membership.send_heartbeat()
            return epoch
        finally:
            await membership.close()

    @asynccontextmanager
    async def taking_part(self, loop: Loop) -> AsyncIterator[None]:
        """Wait for the instant at which all begin; meanwhile and until the end, exchange heartbeats and frames."""
        membership = self._membership
        membership.take = self.relay.take
        await membership.open()
        try:
            self._tick(loop)
            begun = loop.create_future()
            loop.call_at(0.0, begun.set_result, None)
            await begun
            yield
        except BaseException as error:
            membership.phase, membership.why = Phase.OVER, one_line(error) or type(error).__name__
            raise
        finally:
            membership.take = membership.on_heartbeat = None
            if self._ticking is not None:
                self._ticking.cancel()
            membership.send_heartbeat()
            await membership.close()
            if self._journal is not None:
                self._journal.close()

    def _tick(self, loop: Loop) -> None:
        """Tell the others that this process is alive, and see whether they are."""
        self._membership.send_heartbeat()
        self.check()
        self._ticking = loop.call_later(_HEARTBEAT * self._transport.pace, self._tick, loop)

    # --- the run's beginning ------------------------------------------------------------------------------------------

    def joined(self) -> None:
        """The run is built."""
        self._membership.on_heartbeat = self.check
        if self._journal is not None:
            self._journal.joined(self.runtime.loop.now(), sampled=self.runtime.result.sampled)
            self.relay.before_sending = self._write_events

    def starting(self) -> None:
        """The agents are about to start, perhaps late: the others may have begun."""
        run = self.runtime
        for name in run.agents:
            if not self.relay.is_here(name):
                run.tasks.finished(name)
        if run.loop.now() > 0:
            # Rounds have passed, and what an earlier process of the same agents sent has numbers, too.
            passed = run.rounds.next_number()
            for context in self._contexts:
                context.begins_anew()
                context.outbox.skip_numbers(passed << _NUMBERS_A_ROUND)
        self.relay.connect(run)
        self._keeper = run.loop.create_task(self._keep_rounds(), context=run.outside)

    async def _keep_rounds(self) -> None:
        """Let rounds go on while agents anywhere may take part."""
        while True:
            await self.runtime.rounds.opening()

    def last_round(self) -> int:
        """Return the last round in which agents here took part; the network's own rounds are kept open."""
        return max((max(context.round, context.left[0]) for context in self._contexts), default=0)

    # --- its rows -----------------------------------------------------------------------------------------------------

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
        # Agents with clocks of their own keep the network's rounds going while they take part in any.
        kept, self._keeps = self._keeps, run.rounds.is_followed(number + 1)
        if kept is None:
            kept = any(shared.rounds.open_round for shared in run.own.values())
        own = [context for context in self._contexts if context.shared.rounds is run.rounds]
        return kept or any(context.round == number or context.left[0] == number for context in own)

    def _write_events(self) -> None:
        if self._journal is not None:
            self._journal.write_events(self.runtime.shared.tally, self.runtime.settings.trace)

    def _write_changes(self, journal: JournalWriter) -> None:
        if self.runtime.result.watch is not None:
            journal.write_changes(self.runtime.result.watch)

    # --- its end ------------------------------------------------------------------------------------------------------

    def agents_ended(self) -> None:
        """All agents here are finished, or time is up: the others may need what is here."""
        membership = self._membership
        if membership.phase == Phase.RUNNING:
            membership.done, membership.phase = self.runtime.loop.now(), Phase.DONE
            membership.send_heartbeat()
            self.check()

    def check(self) -> None:
        """See whether the run goes on: called now and then, and whenever a heartbeat comes."""
        run, membership = self.runtime, self._membership
        if not run.started or run.ended.done():
            return
        if membership.transport.failure is not None:
            run.fail(membership.transport.failure)
            return
        if membership.phase == Phase.RUNNING:
            self._look_for_standstill()
        if membership.phase == Phase.DONE:
            self._look_for_end()
        if membership.phase == Phase.CLOSED and self._closed_at < math.inf:
            in_time = time.monotonic() - self._closed_at < _LAST_FRAMES
            if not (in_time and any(map(self._is_awaited, membership.peers))):
                run.end()

    def _look_for_end(self) -> None:
        """Close this part once all agents everywhere have ended, at the time of the last."""
        run, membership = self.runtime, self._membership
        finals = [peer.final[1] for peer in membership.peers.values() if peer.final and peer.final[0] == membership.run]
        alive = [peer for number, peer in membership.peers.items() if membership.is_alive(number)]
        if finals or all(peer.is_past(membership.run, Phase.DONE) for peer in alive):
            peers = [peer for peer in membership.peers.values() if peer.run == membership.run]
            ends = [peer.done for peer in peers if peer.done is not None]
            end = max(finals) if finals else max([membership.done or 0.0, *ends])
            membership.phase = Phase.CLOSED
            # The clock of this process may not have come so far.
            run.timers.append(run.loop.call_at(end, run.loop.clock.at_instant_end, lambda: self._last(end)))

    def _last(self, end: float) -> None:
        """Tell the other processes how many frames they must have from here."""
        self._ended_at, self._closed_at = end, time.monotonic()
        self.runtime.horizon = math.nextafter(end, math.inf)
        self.relay.flush()
        self._membership.finals = self._membership.run, end, self.relay.sent_to()
        self._membership.send_heartbeat()
        self.check()

    def _is_awaited(self, number: int) -> bool:
        """Return whether frames of a process are still to come."""
        final = self._membership.peers[number].final
        if final is None or final[0] != self._membership.run:
            return self._membership.is_alive(number)
        return not self.relay.has_all_of(number, final[2])

    def _look_for_standstill(self) -> None:
        """End iterations over inboxes, or fail, if agents here can only wait, and for long no frame has come."""
        run, patience = self.runtime, self._transport.patience
        tally = run.shared.tally
        count = tally.link_messages + sum(tally.exits)
        since, before = self._active
        unfinished = {task: name for task, name in run.tasks.mains.items() if not task.done()}
        if count != before or self._can_go_on(set(unfinished.values())):
            self._active = time.monotonic(), count
        elif unfinished and time.monotonic() - since > patience:
            self._active = time.monotonic(), count
            if not run.end_iterations():
                waited = waiting(unfinished, run.contexts)
                run.fail(Stalled(f"nothing came for {patience:g} real seconds; {waited}"))

    def _can_go_on(self, names: Collection[Hashable]) -> bool:
        """Return whether something may happen to agents here although no other process sends anything."""
        run = self.runtime
        now, contexts = run.loop.now(), [run.contexts[name] for name in names]
        # The network's own rounds are kept open here.
        kept = run.rounds
        return (
            any(each.round or each.shared.rounds.waiting > (each.shared.rounds is kept) for each in contexts)
            or any(timer.when() > now for timer in run.timers if not timer.cancelled())
            or run.loop.clock.jobs > 0
            or run.tasks.has_timers()
            or any(True for name in names for _ in run.inboxes[name].arrivals.under_way())
        )

    def closing(self) -> None:
        """The run is about to close its books."""
        if self._keeper is not None:
            self._keeper.cancel()

    def closed(self) -> None:
        """The run has closed its books."""
        run = self.runtime
        self.relay.closed = True
        run.result.ended_at = min(run.result.ended_at, self._ended_at)
        if self._journal is not None:
            try:
                self._journal.write_states()
                self._write_events()
                self._write_changes(self._journal)
                self._journal.end(run.result.ended_at, run.ledger.in_flight(), **self._ending())
            except NetsimError as error:
                run.error = run.error or error

    def _ending(self) -> dict[str, Any]:
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


def _monotonic(moment: float) -> float:
    """Return a time of `clock` in seconds of `time.monotonic`."""
    return time.monotonic() + (moment - clock())
