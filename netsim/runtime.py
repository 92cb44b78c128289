"""One run of a network: build the links, run the agents to their end, say what went wrong."""

import asyncio
import gc
import inspect
import math
import os
import sysconfig
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import draws
from netsim.agent import Agent, Context, attach
from netsim.clock import Loop
from netsim.errors import AgentError, NetsimError, Stalled, one_line
from netsim.exchange import Exchange
from netsim.inbox import Inbox
from netsim.ledger import Ledger
from netsim.medium import Air
from netsim.outbox import Outbox, Wiring
from netsim.rounds import RoundClock
from netsim.run import Run
from netsim.wire import Frame, for_receiver

if TYPE_CHECKING:
    from netsim.network import Network

_FOLDERS = [os.path.dirname(__file__), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))]
_LIBRARIES = tuple(folder + os.sep for folder in _FOLDERS)


class Runtime:
    """One run of a network.

    Parameters
    ----------
    result : Run
        Where the results go; it holds the agents.
    until : float or None
        When to stop even if agents are not finished, in seconds.
    scheduled : sequence of (float, callable)
        What to call at which time (s).
    """

    def __init__(
        self,
        network: "Network",
        result: Run,
        until: float | None,
        keep_trace: bool,
        scheduled: Sequence[tuple[float, Callable[[], None]]],
    ) -> None:
        self.network = network
        self.result = result
        self.agents = result.agents
        self.until = until
        self.keep_trace = keep_trace
        self.scheduled = scheduled
        self.inboxes: dict[Any, Inbox] = {}
        self.outboxes: dict[Any, Outbox] = {}
        self.contexts: dict[Any, Context] = {}
        self.tasks: dict[asyncio.Task[None], Any] = {}
        self.timers: list[asyncio.TimerHandle] = []
        self.started = self.interrupted = False

    async def run(self) -> Run:
        """Run all agents; return the result."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        if loop.time():
            raise NetsimError("run_async must start with its loop, at time 0: make a new loop for it")
        with _unhurried_collector():
            self.wire(loop)
            # What was built stays to the end: the collector need not look at it again and again.
            gc.freeze()
            await self._run(loop)
        self.settle(math.nextafter(loop.time(), math.inf))
        self.result.ended_at = loop.time()
        self.ledger.fold()
        return self.result

    async def _run(self, loop: Loop) -> None:
        self.ended: asyncio.Future[None] = loop.create_future()
        self.started = True
        loop.instants.on_standstill.append(self._standstill)
        try:
            with self._fail_on_callback_errors():
                self._start()
                await self.ended
        finally:
            loop.instants.on_standstill.remove(self._standstill)
            await self._stop()

    def interrupt(self) -> None:
        """End the run, from another thread."""
        self.interrupted = True
        if self.started:
            with suppress(RuntimeError):  # the loop is closed: the run is over
                self.loop.call_soon_threadsafe(self.ended.cancel)

    # --- building -----------------------------------------------------------------------------------------------------

    def wire(self, loop: Loop) -> None:
        """Build the links and give each agent its context."""
        network, names = self.network, list(self.agents)
        number = {name: i for i, name in enumerate(names)}
        neighbors = {name: tuple(network.graph[name]) for name in names}
        degrees = np.array([len(neighbors[name]) for name in names], dtype=np.int64)
        firsts = np.concatenate([[0], np.cumsum(degrees)])
        senders = np.repeat(np.arange(len(names)), degrees)
        receivers = np.fromiter((number[n] for name in names for n in neighbors[name]), np.int64, count=int(firsts[-1]))
        self.loop = loop
        self.ledger = self.result.ledger = Ledger(names, senders, receivers, self.keep_trace)
        self.ledger.in_flight = self._in_flight
        self.rounds = RoundClock(loop, network.round_period, self._round_ended)
        exchange = Exchange(loop, self.ledger, self.rounds)
        name_keys = np.array([draws.name_key(name) for name in names], dtype=np.uint64)
        keys = draws.link_keys(name_keys[senders], name_keys[receivers])
        self.inboxes = {name: Inbox(exchange, network.inbox_limit) for name in names}
        air = Air() if network.collisions else None
        radio = network.link if network.medium == "radio" else None
        # Blocks of draws are large where that is cheap, small where there are very many links.
        block = int(np.clip(2**18 // max(len(senders), 1), 8, 128))
        for i, name in enumerate(names):
            ends = slice(int(firsts[i]), int(firsts[i + 1]))
            wiring = Wiring(
                links=[network.links.get((name, other), network.link) for other in neighbors[name]],
                neighbors=neighbors[name],
                inboxes=[self.inboxes[other] for other in neighbors[name]],
                receivers=receivers[ends].tolist(),
                first=ends.start,
                keys=keys[ends],
                radio=radio,
                air=air,
            )
            context = Context(exchange, name, neighbors[name], self.inboxes[name], network.seed)
            context.outbox = self.outboxes[name] = Outbox(exchange, i, name, wiring, network.seed, block)
            self.contexts[name] = context
            attach(self.agents[name], context)
            if type(self.agents[name]).answer is not Agent.answer:
                self.inboxes[name].answer_with(self._answering(name))

    def _answering(self, name: Hashable) -> Callable[[Frame], None]:
        agent, outbox, context = self.agents[name], self.outboxes[name], self.contexts[name]

        def answer(frame: Frame) -> None:
            try:
                reply = agent.answer(for_receiver(frame))
                outbox.send(frame.sender, frame.kind, reply, context.round, False, frame.request, is_reply=True)
            except Exception as error:
                self._fail(self._agent_error(name, error))

        return answer

    # --- beginning and end --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self.interrupted:
            self.ended.cancel()
        if self.until is not None:
            # At the end of the instant, so that a round that closes then is whole.
            self.timers.append(
                self.loop.call_at(self.rounds.snap(self.until), self.loop.instants.at_instant_end, self._end)
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
        self.rounds.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for inbox in self.inboxes.values():
            inbox.stop()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)

    def _agent_done(self, task: "asyncio.Task[None]") -> None:
        self.unfinished -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(self._agent_error(self.tasks[task], error))
        elif self.unfinished == 0:
            # At the end of the instant, so that the last round's row is written.
            self.loop.instants.at_instant_end(self._end)

    # --- what went wrong ----------------------------------------------------------------------------------------------

    def _agent_error(self, name: Hashable, error: BaseException) -> AgentError:
        """Return the error for an agent that raised: its name, its round, its own line."""
        first, more = error, ""
        while isinstance(first, BaseExceptionGroup):
            more = f" (and {len(first.exceptions) - 1} more)" if len(first.exceptions) > 1 else more
            first = first.exceptions[0]
        context, now = self.contexts[name], self.loop.time()
        # An exception has left the round that it comes from.
        number = context.round or context.left[0] * (context.left[1] == now)
        where = f" in round {number}" if number else f" at {now:g} s"
        # The agent's own line, not the line in netsim, numpy or asyncio that raised.
        frames = traceback.extract_tb(first.__traceback__)
        own = [f for f in frames if not f.filename.startswith(_LIBRARIES)] or frames
        line = f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno})" if own else ""
        failure = AgentError(f"agent {name!r} raised {type(first).__name__}{where}{line}: {one_line(first)}{more}")
        failure.__cause__ = first if not more else error
        return failure

    def _failure(self, what: str, error: Exception) -> NetsimError:
        if isinstance(error, NetsimError):
            return error
        failure = NetsimError(f"{what} raised {type(error).__name__}: {one_line(error)}")
        failure.__cause__ = error
        return failure

    @contextmanager
    def _fail_on_callback_errors(self) -> Iterator[None]:
        """Let an exception that asyncio would only log, of a callback or of a task that nobody awaits, end the run."""
        before = self.loop.get_exception_handler()

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, Exception):
                self._fail(self._failure("a task that nobody awaits" if "future" in context else "a callback", error))
            else:
                loop.default_exception_handler(context)

        self.loop.set_exception_handler(handle)
        try:
            yield
        finally:
            self.loop.set_exception_handler(before)

    def _standstill(self) -> None:
        """Nothing can happen any more: end iterations over inboxes; if there are none, say who waits for what."""
        if [inbox for inbox in self.inboxes.values() if inbox.end_iteration()]:
            return
        unfinished = [(task, name) for task, name in self.tasks.items() if not task.done()]
        waiting = [f"agent {name!r} waits for {self._waits_for(task, name)}" for task, name in unfinished]
        shown = "; ".join(waiting[:5]) + (f"; and {len(waiting) - 5} more" if len(waiting) > 5 else "")
        self._fail(Stalled(f"at {self.loop.time():g} s every task waits for what can never come: {shown}"))

    def _waits_for(self, task: "asyncio.Task[None]", name: Hashable) -> str:
        own: Any = task.get_coro()
        inner = own
        while inspect.iscoroutine(inner.cr_await):
            inner = inner.cr_await
            if inner.cr_frame is not None and not inner.cr_code.co_filename.startswith(_LIBRARIES):
                own = inner
        what = self.inboxes[name].awaited or (f"{inner.__qualname__}()" if inner is not own else "a future")
        return f"{what} ({os.path.basename(own.cr_code.co_filename)}, line {own.cr_frame.f_lineno})"

    # --- what happens meanwhile ---------------------------------------------------------------------------------------

    def _act(self, time: float, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._fail(self._failure(f"the action of Network.at({time:g}, …)", error))

    def settle(self, until: float) -> None:
        """Count what arrived before ``until`` in every inbox."""
        for inbox in self.inboxes.values():
            if inbox.holds:
                inbox.settle(until)

    def _round_ended(self, number: int) -> None:
        time = self.rounds.close_time(number)
        self.settle(time)
        try:
            self.result.add_row(number, time, self.ledger.totals())
        except Exception as error:
            self._fail(self._failure("progress", error))

    def _in_flight(self) -> Iterator[int]:
        for inbox in self.inboxes.values():
            for entry in inbox.under_way():
                yield entry[1]


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
