"""One run of the agents that are here, while the others run in other processes: its beginning, its rows and its end.

A run begins at an instant that all have in common, and ends when the last agent anywhere has. What happens is written
to a journal as it goes, if there is one: events before the frames that tell of them leave, states and rows as rounds
end.
"""

import hashlib
import math
import time
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from netsim.clock.clock import Loop
from netsim.distributed.journal import JournalWriter
from netsim.distributed.membership import Membership, Phase
from netsim.distributed.relay import Relay
from netsim.distributed.transport import Transport
from netsim.engine.build import Asked, Settings
from netsim.engine.diagnosis import waiting
from netsim.engine.runtime import Action, Runtime
from netsim.errors import BadInput, NetsimError, Stalled, one_line
from netsim.radio.settings import Radio
from netsim.run import Run

__all__ = ["NodeRuntime", "mark_of", "places_of"]

# Real seconds that the last frames may take once all agents have ended.
_LAST_FRAMES = 2.0
# Numbers that a process which begins again leaves to those that it sent before, for each round that has passed.
_NUMBERS_A_ROUND = 24


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


class NodeRuntime(Runtime):
    """The part of a run that is here: as `Runtime`, among other processes; with ``states`` each row has the agents'."""

    def __init__(
        self,
        settings: Settings,
        result: Run,
        loop: Loop,
        asked: Asked,
        scheduled: Sequence[Action],
        membership: Membership,
        relay: Relay,
        journal: JournalWriter | None,
        states: bool,
    ) -> None:
        self.membership, self.relay, self.journal, self._states = membership, relay, journal, states
        self.ended_at = math.inf
        self._closed_at = math.inf
        self._active = (time.monotonic(), 0)
        self._keeps: bool | None = None
        super().__init__(settings, result, loop, asked, scheduled)
        self.here = [name for name in self.agents if self.relay.is_here(name)]
        # The result shows what there is to see here.
        result.agents = {name: self.agents[name] for name in self.here}
        if self.journal is not None:
            self.journal.joined(loop.now(), sampled=self.sampler is not None)
            self.relay.before_sending = self._write_events

    # --- its beginning ------------------------------------------------------------------------------------------------

    def _must_begin(self, loop: Loop) -> None:
        """It may begin late, when the others have begun."""

    def _start(self) -> None:
        for name in self.agents:
            if not self.relay.is_here(name):
                self.tasks.finished(name)
        if self.loop.now() > 0:
            # Rounds have passed, and what an earlier process of the same agents sent has numbers, too.
            passed = self.parts.rounds.next_number()
            for name in self.here:
                self.contexts[name].begins_anew()
                self.contexts[name].outbox.skip_numbers(passed << _NUMBERS_A_ROUND)
        self.relay.connect(self.parts)
        self._keeper = self.loop.create_task(self._keep_rounds(), context=self.outside)
        super()._start()

    def _start_agents(self, names: Any) -> None:
        super()._start_agents(self.here)

    async def _keep_rounds(self) -> None:
        """Let rounds go on while agents anywhere may take part."""
        while True:
            await self.parts.rounds.opening()

    def _last_round(self) -> int:
        # The network's own rounds are kept open here.
        contexts = [self.contexts[name] for name in self.here]
        return max((max(context.round, context.left[0]) for context in contexts), default=0)

    # --- its rows -----------------------------------------------------------------------------------------------------

    def _write_row(self, number: int, time: float, until: float) -> None:
        super()._write_row(number, time, until)
        if self.journal is not None and self.error is None:
            try:
                if self._states:
                    self.journal.write_states()
                self._write_events()
                self._write_changes(self.journal)
                self.journal.write_row(number, time, self.sampler is not None or self._took_part(number))
            except NetsimError as error:
                self._fail(error)

    def _took_part(self, number: int) -> bool:
        contexts = [self.contexts[name] for name in self.here]
        # Agents with clocks of their own keep the network's rounds going while they take part in any.
        kept, self._keeps = self._keeps, self.parts.rounds.is_followed(number + 1)
        if kept is None:
            kept = any(shared.rounds.open_round for shared in self.parts.own.values())
        own = [context for context in contexts if context.shared.rounds is self.parts.rounds]
        return kept or any(context.round == number or context.left[0] == number for context in own)

    def _write_events(self) -> None:
        if self.journal is not None:
            self.journal.write_events(self.parts.shared.tally, self.asked.trace)

    def _write_changes(self, journal: JournalWriter) -> None:
        if self.result.watch is not None:
            journal.write_changes(self.result.watch)

    def _settle(self, until: float) -> None:
        super()._settle(min(until, math.nextafter(self.ended_at, math.inf)))

    # --- its end ------------------------------------------------------------------------------------------------------

    def _come_to_end(self) -> None:
        """All agents here are finished, or time is up: the others may need what is here."""
        if self.membership.phase == Phase.RUNNING:
            self.membership.done, self.membership.phase = self.loop.now(), Phase.DONE
            self.membership.send_heartbeat()
            self.check()

    def check(self) -> None:
        """See whether the run goes on: called now and then, and whenever another process says something."""
        membership, run = self.membership, self.membership.run
        if self.ended.done() or not self.started:
            return
        if membership.transport.failure is not None:
            self._fail(membership.transport.failure)
            return
        if membership.phase == Phase.RUNNING:
            self._look_for_standstill()
        if membership.phase == Phase.DONE:
            finals = [peer.final[1] for peer in membership.peers.values() if peer.final and peer.final[0] == run]
            alive = [peer for number, peer in membership.peers.items() if membership.is_alive(number)]
            if finals or all(peer.is_past(run, Phase.DONE) for peer in alive):
                ends = [peer.done for peer in membership.peers.values() if peer.run == run and peer.done is not None]
                end = max(finals) if finals else max([membership.done or 0.0, *ends])
                membership.phase = Phase.CLOSED
                # The clock of this process may not have come so far.
                self.timers.append(self.loop.call_at(end, self.loop.clock.at_instant_end, lambda: self._last(end)))
        if membership.phase == Phase.CLOSED and self._closed_at < math.inf:
            in_time = time.monotonic() - self._closed_at < _LAST_FRAMES
            if not (in_time and any(map(self._is_awaited, membership.peers))):
                self._end()

    def _last(self, end: float) -> None:
        """All agents everywhere have ended: tell the others how much they are to have from here."""
        self.ended_at, self._closed_at = end, time.monotonic()
        self.relay.flush()
        self.membership.finals = self.membership.run, end, self.relay.sent_to()
        self.membership.send_heartbeat()
        self.check()

    def _is_awaited(self, number: int) -> bool:
        """Return whether frames of a process are still to come."""
        final = self.membership.peers[number].final
        if final is None or final[0] != self.membership.run:
            return self.membership.is_alive(number)
        return not self.relay.has_all_of(number, final[2])

    def _look_for_standstill(self) -> None:
        """End iterations over inboxes, or fail, if agents here can only wait, and for long no frame has come."""
        tally = self.parts.shared.tally
        count = tally.link_messages + sum(tally.exits)
        since, before = self._active
        unfinished = {task: name for task, name in self.tasks.mains.items() if not task.done()}
        if count != before or self._can_go_on(set(unfinished.values())):
            self._active = time.monotonic(), count
        elif unfinished and time.monotonic() - since > self.membership.transport.patience:
            self._active = time.monotonic(), count
            if not self._end_iterations():
                waited = waiting(unfinished, self.contexts)
                self._fail(Stalled(f"nothing came for {self.membership.transport.patience:g} real seconds; {waited}"))

    def _can_go_on(self, names: Collection[Hashable]) -> bool:
        """Return whether something may happen to agents here although no other process sends anything."""
        now, contexts = self.loop.now(), [self.contexts[name] for name in names]
        # The network's own rounds are kept open here.
        kept = self.parts.rounds
        return (
            any(each.round or each.shared.rounds.waiting > (each.shared.rounds is kept) for each in contexts)
            or any(timer.when() > now for timer in self.timers if not timer.cancelled())
            or self.loop.clock.jobs > 0
            or self.tasks.has_timers()
            or any(True for name in names for _ in self.parts.inboxes[name].arrivals.under_way())
        )

    def _close(self) -> None:
        if hasattr(self, "_keeper"):
            self._keeper.cancel()
        super()._close()
        self.relay.closed = True
        self.result.ended_at = min(self.result.ended_at, self.ended_at)
        if self.journal is not None:
            try:
                self.journal.write_states()
                self._write_events()
                self._write_changes(self.journal)
                self.journal.end(self.result.ended_at, self.ledger.in_flight(), **self._ending())
            except NetsimError as error:
                self.error = self.error or error

    def _ending(self) -> dict[str, Any]:
        membership = self.membership
        selector: Any = self.loop.clock
        return {
            "why": "" if self.error is None else one_line(self.error),
            "dead": [membership.hosts[each] for each in membership.peers if not membership.is_alive(each)],
            "clocks": {membership.hosts[each]: list(peer.offset or ()) for each, peer in membership.peers.items()},
            "dropped": dict(membership.dropped),
            "datagrams": [membership.sent, membership.sent_bytes, membership.received, membership.received_bytes],
            "overruns": selector.overruns,
            "longest_lag": selector.longest_lag,
        }
