"""One run of a network: run the agents to their end, write the rounds' rows, say what went wrong."""

import asyncio
import inspect
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from netsim.accounting.scene import Scene, positions_of
from netsim.agent import Agent
from netsim.clock.clock import Loop
from netsim.clock.task import OWNER
from netsim.core import Frame
from netsim.core.framing import for_receiver
from netsim.engine.build import Asked, Parts, Settings, build
from netsim.engine.diagnosis import agent_error, endless, failure, standstill, stubborn
from netsim.engine.observers import Sampler, View, Watcher
from netsim.engine.process import limited_blas, unhurried_collector
from netsim.engine.tasks import UNAWAITED, AgentTasks, abandon, owner_of, ready_handles, stop
from netsim.errors import AgentError, BadInput, NetsimError, Stalled
from netsim.faults.player import Player
from netsim.radio.settings import Radio
from netsim.run import Run

__all__ = ["Runtime"]

Action = tuple[float, Callable[[], None]]
"""A time (s) and what to call then."""

# Passes of the loop that one agent more may take at one instant.
_PASSES_PER_AGENT = 100
# A standstill that ends iterations over inboxes counts as so many passes: it looks at each inbox.
_PASSES_PER_STANDSTILL = 100
# Passes over which is counted who could run, to name who never lets time pass.
_SAMPLES = 8


class Runtime:
    """One run of a network.

    Parameters
    ----------
    settings : Settings
        What the network is made of.
    result : Run
        Where the results go; it holds the agents.
    loop : Loop
        The loop it runs on, at time 0.
    asked : Asked
        What it was asked for.
    scheduled : sequence of (float, callable)
        What to call at which time (s).
    """

    def __init__(self, settings: Settings, result: Run, loop: Loop, asked: Asked, scheduled: Sequence[Action]) -> None:
        self._must_begin(loop)
        self.result = result
        self.agents = result.agents
        self.settings = settings
        self.asked = asked
        self.started = False
        self.closed = False
        self.loop = loop
        self.timers: list[asyncio.TimerHandle] = []
        self.ended: asyncio.Future[None] = loop.create_future()
        self.error: NetsimError | None = None
        self.parts: Parts = build(
            settings, self.agents, loop, asked=asked, on_round_end=self._round_ended, on_death=self._died
        )
        sample = asked.sample
        self.sampler = None if sample is None else Sampler(loop, self.parts.rounds, sample, self._write_row, self._fail)
        self.contexts = self.parts.contexts
        self.tasks = AgentTasks(loop, self.contexts, self._fail, self._finish)
        self.player = Player(settings.faults, settings.graph, self)
        self.watcher: Watcher | None = None
        if result.watch is not None:
            shared = self.parts.all_shared
            self.watcher = Watcher(result.watch, loop, self.contexts, self.tasks, shared, self._fail)
        self.scheduled = [*self.player.actions, *scheduled]
        self.samples: Counter[tuple[Hashable, asyncio.Task[Any] | None]] = Counter()
        self.sampled = 0
        # Actions are not their agents': what they make belongs to whoever runs the network.
        self.outside = copy_context()
        result.sampled = sample is not None
        self.ledger = result.ledger = self.parts.ledger
        self.ledger.in_flight = self._in_flight
        self.view = None if asked.viewer is None else View(asked.viewer, result, loop, self._scene, self._last_round)
        for name, agent in self.agents.items():
            if type(agent).answer is not Agent.answer:
                self.parts.inboxes[name].answer_with(self._answering(name))

    async def run(self) -> Run:
        """Run all agents; return the result."""
        with unhurried_collector(), limited_blas(self.asked.blas_threads), self._watched():
            try:
                self._start()
                await self.ended
                if self.sampler and self.error is None:
                    self.sampler.run_ended()
            finally:
                self._close()
                try:
                    await self._stop()
                finally:
                    if self.view:
                        self.view.end(self.error)
        if self.error is not None:
            raise self.error
        return self.result

    def interrupt(self) -> None:
        """End the run, from another thread."""
        with suppress(RuntimeError):  # the loop is closed: the run is over
            self.loop.call_soon_threadsafe(self.ended.cancel)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Call ``action`` at a time (s) of this run, which must not be past."""
        if not self.started:
            self.scheduled.append((time, action))
            return
        if time < self.loop.now():
            raise BadInput(f"time = {time:g}: must be >= {self.loop.now():g}, the time that the run has come to")
        call = partial(self._act, time, action)
        self.timers.append(self.loop.call_first_at(time, call, context=self.outside))

    def set_link(self, sender: Hashable, receiver: Hashable, up: bool) -> None:
        """Cut or mend one direction of a link."""
        self.parts.outboxes[sender].set_link(receiver, up)

    def set_receiver(self, agent: Hashable, up: bool) -> None:
        """Switch an agent's receiver off or on."""
        inbox = self.parts.inboxes[agent]
        inbox.settle_now()
        inbox.up = up

    def halt(self, agent: Hashable) -> None:
        """Stop an agent's code where it is; what it has not read is lost."""
        self.contexts[agent].down = True
        self.parts.inboxes[agent].forget()
        if self.parts.medium:
            self.parts.medium.switch(agent, on=False)
        self.tasks.halt(agent)

    def give_up(self, agent: Hashable) -> None:
        """Count an agent as finished."""
        self.tasks.finished(agent)

    def restart(self, agent: Hashable) -> None:
        """Begin an agent's code anew, or late, unless it had finished."""
        self.contexts[agent].down = False
        if self.parts.medium:
            self.parts.medium.switch(agent, on=True)
        left = self.tasks.running(agent)
        if left is not None:
            self._fail(stubborn(agent, left, self.contexts[agent]))
        if left is not None or self.tasks.is_finished(agent):
            return
        self.contexts[agent].begins_anew()
        self.tasks.start(agent, self._coroutine_of(agent, self.agents[agent]))

    # --- beginning and end --------------------------------------------------------------------------------------------

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Hear of what the loop would only log or never notice."""
        instants = self.loop.clock
        more = _PASSES_PER_AGENT * len(self.agents)
        instants.limit += more
        instants.on_endless.append(self._endless)
        self.loop.on_error.append(self._handle)
        try:
            yield
        finally:
            instants.limit -= more
            instants.on_endless.remove(self._endless)
            self.loop.on_error.remove(self._handle)

    def _start(self) -> None:
        for shared in self.parts.all_shared:
            shared.begun = True
        self.loop.clock.on_standstill.append(self._standstill)
        if self.watcher:
            self.watcher.start(self.result.agents)
        if self.sampler:
            self.sampler.start()
        if self.parts.medium:
            self.parts.medium.start()
        if self.view:
            self.view.start()
        # What is planned for the beginning comes before the agents; an action may plan more.
        for time, action in self.scheduled:
            if time <= self.loop.now():
                self._act(time, action)
        self.started = True
        for time, action in self.scheduled:
            if time > self.loop.now():
                self.at(time, action)
        if self.asked.until is not None:
            # At the end of the instant, so that a round that closes then is whole.
            until = self.parts.rounds.snap(self.asked.until)
            self.timers.append(self.loop.call_at_true(until, self.loop.clock.at_instant_end, self._come_to_end))
        if not self.ended.done():
            self._start_agents(self.agents)

    def _must_begin(self, loop: Loop) -> None:
        """Raise NetsimError unless a run can begin at the loop's present time."""
        if loop.now():
            raise NetsimError("run_async must start with its loop, at time 0: make a new loop for it")

    def _start_agents(self, names: Iterable[Hashable]) -> None:
        for name in names:
            if not self.player.is_down(name):
                self.tasks.start(name, self._coroutine_of(name, self.agents[name]))

    def _coroutine_of(self, name: Hashable, agent: Agent) -> Coroutine[Any, Any, None]:
        try:
            coroutine = agent.run()
        except Exception as error:
            raise agent_error(name, error, self.parts.contexts[name]) from error
        if not inspect.iscoroutine(coroutine):
            run = f"{type(agent).__qualname__}.run"
            raise AgentError(f"agent {name!r}: {run} must be `async def run(self)`, without yield")
        return coroutine

    def _close(self) -> None:
        """Close the books: what happens from here on is not counted."""
        for timer in self.timers:
            timer.cancel()
        if self.sampler:
            self.sampler.stop()
        for shared in self.parts.all_shared:
            shared.rounds.stop()
        if self.parts.medium:
            self.parts.medium.stop()
            self.result.air = self.parts.medium.airtime
        for inbox in self.parts.inboxes.values():
            inbox.stop()
        self._settle(math.nextafter(self.loop.now(), math.inf))
        under_way = list(self._in_flight())
        self.ledger.in_flight = partial(iter, under_way)
        for inbox in self.parts.inboxes.values():
            inbox.drop()
        self.result.ended_at = self.loop.now()
        if self.view:
            self.view.stop()
        if self.ledger.keeps_trace:
            self.ledger.scene = self._scene()
        if self.watcher:
            self.watcher.stop(whole=self.error is None)
        for shared in self.parts.all_shared:
            shared.end()
        self.tasks.over = self.closed = True

    def _scene(self) -> Scene:
        settings = self.settings
        medium = "shared" if isinstance(settings.medium, Radio) else settings.medium
        places = positions_of(settings.graph, self.agents)
        return Scene(settings.round_period, self.loop.now(), medium, places, self._last_round())

    def _last_round(self) -> int:
        """Return the last round that opened; 0: none did."""
        return self.parts.rounds.open_round

    async def _stop(self) -> None:
        """Leave nothing behind on the loop."""
        self.loop.clock.on_standstill.remove(self._standstill)
        left = await stop(self.loop, self.tasks, self._end_iterations)
        for task in left:
            name = self.tasks.name_of(task)
            self._fail(stubborn(name, task, self.parts.contexts[name]))
            abandon(task)
        error = self.tasks.raised_first()
        if error is not None:
            self._fail(error)
        self.tasks.forget_raised()

    def _finish(self) -> None:
        # At the end of the instant, so that the last round's row is written.
        self.loop.clock.at_instant_end(self._come_to_end)

    def _come_to_end(self) -> None:
        """All agents are finished, or time is up."""
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _fail(self, error: NetsimError) -> None:
        """End the run; the first error is the one to raise."""
        if self.error is None:
            self.error = error
        self._end()

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _handle(self, context: dict[str, Any]) -> bool:
        """Let an exception that asyncio would only log, of a callback or of a task that nobody awaits, end the run."""
        error, owner = context.get("exception"), owner_of(context)
        how = UNAWAITED if "future" in context else " in a callback"
        if error is not None and self.tasks.owns(owner):
            self.tasks.failed(owner.name, error, how)
        elif owner is None and isinstance(error, Exception):
            self._fail(failure(how.removeprefix(" in "), error))
        else:
            return False
        return True

    def _standstill(self) -> None:
        """Nothing can happen any more: end iterations over inboxes; if there are none, say who waits for what."""
        if self._end_iterations():
            self._sample()
            return
        unfinished = {task: name for task, name in self.tasks.mains.items() if not task.done()}
        self._fail(self.tasks.raised_first() or standstill(unfinished, self.parts.contexts))

    def _end_iterations(self) -> bool:
        self.loop.clock.passes += _PASSES_PER_STANDSTILL
        return bool([inbox for inbox in self.parts.inboxes.values() if inbox.end_iteration()])

    def _sample(self) -> None:
        """Count whose turn it is, if time has long not moved."""
        if self.loop.clock.passes <= self.loop.clock.limit:
            return
        for handle in ready_handles(self.loop):
            owner = handle._context.get(OWNER)
            if self.tasks.owns(owner):
                task = getattr(handle._callback, "__self__", None)
                self.samples[owner.name, task if isinstance(task, asyncio.Task) else None] += 1

    def _endless(self) -> None:
        """After a few passes more, end the run with whose turn it was most often while time did not move."""
        self._sample()
        self.sampled += 1
        # Another run on the same loop, whose agent it may be, comes first.
        if self.sampled < (_SAMPLES if self.samples else 2 * _SAMPLES):
            return
        passes = self.loop.clock.passes
        if self.samples:
            [((name, task), _)] = self.samples.most_common(1)
            self._fail(endless(name, task, self.parts.contexts[name], passes))
        else:
            where = f"at {self.loop.now():g} s after {passes:,} passes of the event loop"
            self._fail(Stalled(f"{where} time has not moved: callbacks or tasks of no agent run again and again"))
        self.sampled = self.loop.clock.passes = 0

    # --- what happens meanwhile ---------------------------------------------------------------------------------------

    def _answering(self, name: Hashable) -> Callable[[Frame], None]:
        agent, outbox, context = self.agents[name], self.parts.outboxes[name], self.parts.contexts[name]
        member = self.tasks.members[name]

        def answer(frame: Frame) -> None:
            # Whoever looks into the inbox has this called: what is made here is still the agent's own.
            token = OWNER.set(member)
            if self.watcher:
                self.watcher.call((name,))
            try:
                reply = agent.answer(for_receiver(frame))
                outbox.send(frame.sender, frame.kind, reply, context.round, False, frame.request, is_reply=True)
            except Exception as error:
                self.tasks.failed(name, error)
            finally:
                OWNER.reset(token)

        return answer

    def _died(self, name: Hashable) -> None:
        """A node's battery is empty: its agent goes no further, and the others go on."""
        self.player.down(name, for_good=True)

    def _act(self, time: float, action: Callable[[], None]) -> None:
        if self.watcher:
            # An action may change any of them.
            self.watcher.call(self.result.agents)
        try:
            action()
        except (Exception, asyncio.CancelledError) as error:
            self._fail(failure(f"the action of Network.at({time:g}, …)", error))

    def _settle(self, until: float) -> None:
        """Count what arrived before ``until`` in every inbox."""
        for inbox in self.parts.inboxes.values():
            inbox.settle(until)

    def _round_ended(self, number: int) -> None:
        if self.parts.shared.over:
            # An agent that takes part in rounds while it cleans up.
            return
        if self.sampler:
            self.sampler.round_ended(number)
        else:
            self._write_row(number, self.parts.rounds.close_time(number), self.parts.rounds.deadline(number))

    def _write_row(self, number: int, time: float, until: float) -> None:
        """Write the row of a time (s), at which what arrived before ``until`` (s) counts."""
        self._settle(until)
        try:
            self.result.add_row(number, time, self.ledger.totals())
        except Exception as error:
            self._fail(failure("progress", error))
        if self.watcher:
            self.watcher.row_written()
        if self.view:
            self.view.row_written()

    def _in_flight(self) -> Iterator[tuple[int, int]]:
        for inbox in self.parts.inboxes.values():
            yield from inbox.arrivals.under_way()
        if self.parts.medium:
            yield from self.parts.medium.under_way()
