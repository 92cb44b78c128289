"""One run of a network: run the agents to their end, write the rounds' rows, say what went wrong."""

import asyncio
import gc
import inspect
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from netsim._diagnosis import agent_error, failure, standstill
from netsim._wiring import Parts, Settings, build
from netsim.agent import Agent
from netsim.core import Frame
from netsim.errors import AgentError, NetsimError
from netsim.run import Run
from netsim.transport.clock import Loop
from netsim.transport.framing import for_receiver

__all__ = ["Runtime"]

Action = tuple[float, Callable[[], None]]
"""A time (s) and what to call then."""


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
    until : float or None
        When to stop even if agents are not finished, in seconds.
    keep_trace : bool
        Whether to keep the event log.
    scheduled : sequence of (float, callable)
        What to call at which time (s).
    """

    def __init__(
        self,
        settings: Settings,
        result: Run,
        loop: Loop,
        *,
        until: float | None,
        keep_trace: bool,
        scheduled: Sequence[Action],
    ) -> None:
        if loop.time():
            raise NetsimError("run_async must start with its loop, at time 0: make a new loop for it")
        self.result = result
        self.agents = result.agents
        self.until = until
        self.scheduled = scheduled
        self.loop = loop
        self.tasks: dict[asyncio.Task[None], Hashable] = {}
        self.timers: list[asyncio.TimerHandle] = []
        self.ended: asyncio.Future[None] = loop.create_future()
        self.parts: Parts = build(settings, self.agents, loop, keep_trace=keep_trace, on_round_end=self._round_ended)
        self.ledger = result.ledger = self.parts.ledger
        self.ledger.in_flight = self._in_flight
        for name, agent in self.agents.items():
            if type(agent).answer is not Agent.answer:
                self.parts.inboxes[name].answer_with(self._answering(name))

    async def run(self) -> Run:
        """Run all agents; return the result."""
        with _unhurried_collector():
            # What was built stays to the end: the collector need not look at it again and again.
            gc.freeze()
            await self._run()
        self._settle(math.nextafter(self.loop.time(), math.inf))
        self.result.ended_at = self.loop.time()
        return self.result

    def interrupt(self) -> None:
        """End the run, from another thread."""
        with suppress(RuntimeError):  # the loop is closed: the run is over
            self.loop.call_soon_threadsafe(self.ended.cancel)

    def set_link(self, sender: Hashable, receiver: Hashable, up: bool) -> None:
        """Cut or mend a link."""
        self.parts.outboxes[sender].set_link(receiver, up)

    def set_receiver(self, agent: Hashable, up: bool) -> None:
        """Switch an agent's receiver off or on."""
        inbox = self.parts.inboxes[agent]
        inbox.settle_now()
        inbox.up = up

    # --- beginning and end --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self.loop.instants.on_standstill.append(self._standstill)
        try:
            with self._fail_on_callback_errors():
                self._start()
                await self.ended
        finally:
            self.loop.instants.on_standstill.remove(self._standstill)
            await self._stop()

    def _start(self) -> None:
        if self.until is not None:
            # At the end of the instant, so that a round that closes then is whole.
            self.timers.append(
                self.loop.call_at(self.parts.rounds.snap(self.until), self.loop.instants.at_instant_end, self._end)
            )
        for time, action in self.scheduled:
            self.timers.append(self.loop.call_at(time, self._act, time, action))
        self.unfinished = len(self.agents)
        for name, agent in self.agents.items():
            coroutine = agent.run()
            if not inspect.iscoroutine(coroutine):
                run = f"{type(agent).__qualname__}.run"
                raise AgentError(f"agent {name!r}: {run} must be `async def run(self)`, without yield")
            task = self.loop.create_task(coroutine)
            self.tasks[task] = name
            task.add_done_callback(self._agent_done)

    async def _stop(self) -> None:
        """Leave nothing behind on the loop."""
        for timer in self.timers:
            timer.cancel()
        self.parts.rounds.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for inbox in self.parts.inboxes.values():
            inbox.stop()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)

    def _agent_done(self, task: "asyncio.Task[None]") -> None:
        self.unfinished -= 1
        self.parts.inboxes[self.tasks[task]].abandon()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail_agent(self.tasks[task], error)
        elif self.unfinished == 0:
            # At the end of the instant, so that the last round's row is written.
            self.loop.instants.at_instant_end(self._end)

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _fail_agent(self, name: Hashable, error: BaseException) -> None:
        self._fail(agent_error(name, error, self.parts.contexts[name]))

    @contextmanager
    def _fail_on_callback_errors(self) -> Iterator[None]:
        """Let an exception that asyncio would only log, of a callback or of a task that nobody awaits, end the run."""
        before = self.loop.get_exception_handler()

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, Exception):
                self._fail(failure("a task that nobody awaits" if "future" in context else "a callback", error))
            else:
                loop.default_exception_handler(context)

        self.loop.set_exception_handler(handle)
        try:
            yield
        finally:
            self.loop.set_exception_handler(before)

    def _standstill(self) -> None:
        """Nothing can happen any more: end iterations over inboxes; if there are none, say who waits for what."""
        if [inbox for inbox in self.parts.inboxes.values() if inbox.end_iteration()]:
            return
        unfinished = {task: name for task, name in self.tasks.items() if not task.done()}
        self._fail(standstill(unfinished, self.parts.contexts))

    # --- what happens meanwhile ---------------------------------------------------------------------------------------

    def _answering(self, name: Hashable) -> Callable[[Frame], None]:
        agent, outbox, context = self.agents[name], self.parts.outboxes[name], self.parts.contexts[name]

        def answer(frame: Frame) -> None:
            try:
                reply = agent.answer(for_receiver(frame))
                outbox.send(frame.sender, frame.kind, reply, context.round, False, frame.request, is_reply=True)
            except Exception as error:
                self._fail_agent(name, error)

        return answer

    def _act(self, time: float, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._fail(failure(f"the action of Network.at({time:g}, …)", error))

    def _settle(self, until: float) -> None:
        """Count what arrived before ``until`` in every inbox."""
        for inbox in self.parts.inboxes.values():
            inbox.settle(until)

    def _round_ended(self, number: int) -> None:
        time = self.parts.rounds.close_time(number)
        self._settle(self.parts.rounds.deadline(number))
        try:
            self.result.add_row(number, time, self.ledger.totals())
        except Exception as error:
            self._fail(failure("progress", error))

    def _in_flight(self) -> Iterator[tuple[int, int]]:
        for inbox in self.parts.inboxes.values():
            yield from inbox.arrivals.under_way()


@contextmanager
def _unhurried_collector() -> Iterator[None]:
    """Let the garbage collector look less often at a run's many short-lived objects, and never at what was frozen."""
    threshold = gc.get_threshold()
    gc.set_threshold(max(threshold[0], 50_000), *threshold[1:])
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
