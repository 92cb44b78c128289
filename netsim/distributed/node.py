"""One run of the agents that are here, while the others run in other processes: its beginning, its rows and its end.

A run begins at an instant that all have in common, and ends when the last agent anywhere has. What happens is written
to a journal as it goes, if there is one: events before the frames that tell of them leave, states and rows as rounds
end.
"""

import hashlib
import math
import time
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netsim.clock.clock import Loop
from netsim.distributed.membership import Phase, Session
from netsim.distributed.relay import Post
from netsim.distributed.scribe import Scribe
from netsim.distributed.transport import Transport
from netsim.engine.build import Asked, Settings
from netsim.engine.diagnosis import waiting
from netsim.engine.runtime import Action, Runtime
from netsim.errors import BadInput, NetsimError, Stalled, one_line
from netsim.radio.settings import Radio
from netsim.run import Run

__all__ = ["NodeRuntime", "Part", "mark_of", "places_of"]

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


@dataclass(frozen=True)
class Part:
    """What a part of a run has besides what every run has.

    Attributes
    ----------
    session : Session
        This process among the others.
    post : Post
        The frames that cross.
    scribe : Scribe or None
        Who writes down what happens.
    states : bool
        Whether agents' states are to be written with each row, or at the end only.
    """

    session: Session
    post: Post
    scribe: Scribe | None
    states: bool


class NodeRuntime(Runtime):
    """The part of a run that is here; parameters as `Runtime` has them, and the part."""

    def __init__(
        self, settings: Settings, result: Run, loop: Loop, asked: Asked, scheduled: Sequence[Action], part: Part
    ) -> None:
        self.session, self.post, self.scribe, self._states = part.session, part.post, part.scribe, part.states
        self.ended_at = math.inf
        self._closed_at = math.inf
        self._active = (time.monotonic(), 0)
        self._keeps: bool | None = None
        super().__init__(settings, result, loop, asked, scheduled)
        self.here = [name for name in self.agents if self.post.is_here(name)]
        # Who looks at the result is shown what there is to see here.
        result.agents = {name: self.agents[name] for name in self.here}
        if self.scribe is not None:
            self.scribe.joined(loop.now(), sampled=self.sampler is not None)
            self.post.before_sending = self._write_events

    # --- its beginning ------------------------------------------------------------------------------------------------

    def _must_begin(self, loop: Loop) -> None:
        """It may begin late, when the others have begun."""

    def _start(self) -> None:
        for name in self.agents:
            if not self.post.is_here(name):
                self.tasks.finished(name)
        if self.loop.now() > 0:
            # Rounds have passed, and what an earlier process of the same agents sent has numbers, too.
            passed = self.parts.rounds.next_number()
            for name in self.here:
                self.contexts[name].begins_anew()
                self.contexts[name].outbox.skip_numbers(passed << _NUMBERS_A_ROUND)
        self.post.connect(self.parts)
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
        if self.scribe is not None and self.error is None:
            try:
                if self._states:
                    self.scribe.write_states()
                self._write_events()
                self._write_changes(self.scribe)
                self.scribe.write_row(number, time, self.sampler is not None or self._took_part(number))
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
        if self.scribe is not None:
            self.scribe.write_events(self.parts.shared.tally, self.asked.trace)

    def _write_changes(self, scribe: Scribe) -> None:
        if self.result.watch is not None:
            scribe.write_changes(self.result.watch)

    def _settle(self, until: float) -> None:
        super()._settle(min(until, math.nextafter(self.ended_at, math.inf)))

    # --- its end ------------------------------------------------------------------------------------------------------

    def _come_to_end(self) -> None:
        """All agents here are finished, or time is up: the others may need what is here."""
        if self.session.phase == Phase.RUNNING:
            self.session.done, self.session.phase = self.loop.now(), Phase.DONE
            self.session.beat()
            self.check()

    def check(self) -> None:
        """See whether the run goes on: called now and then, and whenever another process says something."""
        session, run = self.session, self.session.run
        if self.ended.done() or not self.started:
            return
        if session.transport.failure is not None:
            self._fail(session.transport.failure)
            return
        if session.phase == Phase.RUNNING:
            self._look_for_standstill()
        if session.phase == Phase.DONE:
            finals = [peer.final[1] for peer in session.peers.values() if peer.final and peer.final[0] == run]
            alive = [peer for number, peer in session.peers.items() if session.is_alive(number)]
            if finals or all(peer.is_past(run, Phase.DONE) for peer in alive):
                told = [peer.done for peer in session.peers.values() if peer.run == run and peer.done is not None]
                end = max(finals) if finals else max([session.done or 0.0, *told])
                session.phase = Phase.CLOSED
                # The clock of this process may not have come so far.
                self.timers.append(self.loop.call_at(end, self.loop.instants.at_instant_end, lambda: self._last(end)))
        if session.phase == Phase.CLOSED and self._closed_at < math.inf:
            in_time = time.monotonic() - self._closed_at < _LAST_FRAMES
            if not (in_time and any(map(self._is_awaited, session.peers))):
                self._end()

    def _last(self, end: float) -> None:
        """All agents everywhere have ended: tell the others how much they are to have from here."""
        self.ended_at, self._closed_at = end, time.monotonic()
        self.post.flush()
        self.session.finals = self.session.run, end, self.post.sent_to()
        self.session.beat()
        self.check()

    def _is_awaited(self, number: int) -> bool:
        """Return whether frames of a process are still to come."""
        final = self.session.peers[number].final
        if final is None or final[0] != self.session.run:
            return self.session.is_alive(number)
        return not self.post.has_all_of(number, final[2])

    def _look_for_standstill(self) -> None:
        """End iterations over inboxes, or fail, if agents here can only wait, and for long no frame has come."""
        tally = self.parts.shared.tally
        count = tally.link_messages + sum(tally.exits)
        since, before = self._active
        unfinished = {task: name for task, name in self.tasks.mains.items() if not task.done()}
        if count != before or self._can_go_on(set(unfinished.values())):
            self._active = time.monotonic(), count
        elif unfinished and time.monotonic() - since > self.session.transport.patience:
            self._active = time.monotonic(), count
            if not self._end_iterations():
                waited = waiting(unfinished, self.contexts)
                self._fail(Stalled(f"nothing came for {self.session.transport.patience:g} real seconds; {waited}"))

    def _can_go_on(self, names: Collection[Hashable]) -> bool:
        """Return whether something may happen to agents here although no other process sends anything."""
        now, contexts = self.loop.now(), [self.contexts[name] for name in names]
        # The network's own rounds are kept open here.
        kept = self.parts.rounds
        return (
            any(each.round or each.shared.rounds.waiting > (each.shared.rounds is kept) for each in contexts)
            or any(timer.when() > now for timer in self.timers if not timer.cancelled())
            or self.loop.instants.jobs > 0
            or self.tasks.has_timers()
            or any(True for name in names for _ in self.parts.inboxes[name].arrivals.under_way())
        )

    def _close(self) -> None:
        if hasattr(self, "_keeper"):
            self._keeper.cancel()
        super()._close()
        self.post.closed = True
        self.result.ended_at = min(self.result.ended_at, self.ended_at)
        if self.scribe is not None:
            try:
                self.scribe.write_states()
                self._write_events()
                self._write_changes(self.scribe)
                self.scribe.end(self.result.ended_at, self.ledger.in_flight(), **self._ending())
            except NetsimError as error:
                self.error = self.error or error

    def _ending(self) -> dict[str, Any]:
        session = self.session
        selector: Any = self.loop.instants
        return {
            "why": "" if self.error is None else one_line(self.error),
            "dead": [session.hosts[each] for each in session.peers if not session.is_alive(each)],
            "clocks": {session.hosts[each]: list(peer.offset or ()) for each, peer in session.peers.items()},
            "dropped": dict(session.dropped),
            "datagrams": [session.sent, session.sent_bytes, session.received, session.received_bytes],
            "overruns": selector.overruns,
            "longest_lag": selector.longest_lag,
        }
