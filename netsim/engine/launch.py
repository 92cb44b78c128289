"""Runs are launched here: on a loop made for them, interruptible by Ctrl-C, or in a thread beside a running loop."""

import _thread
import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING

from netsim.clock.clock import Loop
from netsim.engine.build import Settings
from netsim.engine.process import warned
from netsim.engine.runtime import Runtime
from netsim.errors import Interrupted
from netsim.run import Run

if TYPE_CHECKING:
    from netsim.network import Network

__all__ = ["BACKEND", "Backend", "in_thread", "simulate"]

Backend = Callable[["Network", Settings, Run], Run]
"""Runs a network with checked settings: it fills and returns the run, or returns another one."""

BACKEND: ContextVar[Backend | None] = ContextVar("BACKEND", default=None)
"""Runs the networks of a program in place of the simulation; None: the simulation does."""

_PATIENCE = 2.0
"""Seconds for which a Ctrl-C waits for an agent's step to end, before it ends that in the middle."""


def simulate(runtime: Runtime, loop: Loop) -> Run:
    """Run on a loop that was made for it, to its end."""
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner, warned():
            try:
                return runner.run(_interruptible(runtime, loop))
            except KeyboardInterrupt as error:
                runtime.attach_result_to(error)
                raise
    except Interrupted as error:
        # Only the runner's end closed the books.
        runtime.attach_result_to(error)
        raise


async def _interruptible(runtime: Runtime, loop: Loop) -> Run:
    """Run; a Ctrl-C ends it between two steps or, if there is no next one, in the middle of an agent's code."""
    interrupt = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not callable(interrupt) or interrupt is signal.default_int_handler:
        return await runtime.run(loop)

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
        return await runtime.run(loop)
    finally:
        signal.signal(signal.SIGINT, interrupt)


def in_thread(runtime: Runtime, launch: Callable[[], Run]) -> Run:
    """Call ``launch`` in a thread without an event loop; an interrupt of this thread interrupts the run."""
    outcome: Future[Run] = Future()
    over = threading.Event()

    def work() -> None:
        try:
            outcome.set_result(launch())
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            over.set()

    try:
        threading.Thread(target=work).start()
        over.wait()
    except BaseException as error:
        runtime.interrupt()
        # Not join(): after an interrupt that returns too early.
        over.wait()
        runtime.attach_result_to(error)
        raise
    return outcome.result()
