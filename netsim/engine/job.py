"""A run that was asked for and checked: on a loop of its own, on the caller's, or in a thread."""

import _thread
import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING

from netsim.clock.clock import ClockName, Loop, new_loop
from netsim.engine.build import Asked
from netsim.engine.process import warned
from netsim.engine.runtime import Runtime
from netsim.errors import Interrupted, NetsimError
from netsim.run import Run

if TYPE_CHECKING:
    from netsim.network import Network

__all__ = ["Job", "in_thread"]

_PATIENCE = 2.0
"""Seconds for which a Ctrl-C waits for an agent's step to end, before it ends that in the middle."""


class Job:
    """A run that another thread may interrupt, before it begins, too."""

    def __init__(self, network: "Network", result: Run, asked: Asked) -> None:
        self._network = network
        self._result = result
        self._asked = asked
        self._runtime: Runtime | None = None
        self._interrupted = False

    async def run(self, loop: Loop) -> Run:
        """Run on a loop of simulated time."""
        network = self._network
        if network._running is not None:
            raise NetsimError("this network is already running: make another Network for a second run at the same time")
        network._running = self._runtime = self._make_runtime(loop)
        try:
            if self._interrupted:
                raise asyncio.CancelledError
            return await self._runtime.run()
        except BaseException as error:
            self.hand_over(error)
            raise
        finally:
            network._running = None

    def _make_runtime(self, loop: Loop) -> Runtime:
        return Runtime(self._network.settings, self._result, loop, self._asked, self._network._scheduled)

    def simulate(self, clock: ClockName = "virtual", speed: float = 1.0) -> Run:
        """Run on a loop of its own."""
        return self.run_on(new_loop(clock, speed))

    def run_on(self, loop: Loop) -> Run:
        """Run on a loop that was made for it, to its end."""
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner, warned():
                try:
                    return runner.run(self._interruptible(loop))
                except KeyboardInterrupt as error:
                    self.hand_over(error)
                    raise
        except Interrupted as error:
            # Only the runner's end closed the books.
            self.hand_over(error)
            raise

    async def _interruptible(self, loop: Loop) -> Run:
        """Run; a Ctrl-C ends it between two steps or, if there is no next one, in the middle of an agent's code."""
        interrupt = signal.getsignal(signal.SIGINT)
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or not callable(interrupt) or interrupt is signal.default_int_handler:
            return await self.run(loop)

        def insist(number: int, frame: FrameType | None) -> None:
            stepped = threading.Event()
            loop.call_soon_threadsafe(stepped.set)

            def again() -> None:
                if not stepped.is_set() and signal.getsignal(signal.SIGINT) is insist:
                    _thread.interrupt_main()

            timer = threading.Timer(_PATIENCE, again)
            timer.daemon = True
            timer.start()
            interrupt(number, frame)

        signal.signal(signal.SIGINT, insist)
        try:
            return await self.run(loop)
        finally:
            signal.signal(signal.SIGINT, interrupt)

    def hand_over(self, error: BaseException) -> None:
        """Put the run so far onto the error that ended it, if its books could be closed."""
        if self._runtime is not None and self._runtime.closed:
            error.run = self._result  # type: ignore[attr-defined]

    def interrupt(self) -> None:
        """End the run, from another thread."""
        self._interrupted = True
        if self._runtime is not None:
            self._runtime.interrupt()


def in_thread(job: Job, simulate: Callable[[], Run]) -> Run:
    """Run where no event loop is running; an interrupt of this thread interrupts the run."""
    outcome: Future[Run] = Future()
    over = threading.Event()

    def work() -> None:
        try:
            outcome.set_result(simulate())
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            over.set()

    try:
        threading.Thread(target=work).start()
        over.wait()
    except BaseException as error:
        job.interrupt()
        # Not join(): after an interrupt that returns too early.
        over.wait()
        job.hand_over(error)
        raise
    return outcome.result()
