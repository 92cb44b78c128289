"""Launch runs on new event loops, also while another loop runs, and let a Ctrl-C interrupt them."""

import _thread
import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from netsim.clock.clock import Loop, suspended
from netsim.clock.task import OWNER
from netsim.engine.process import warned
from netsim.engine.runtime import Runtime
from netsim.errors import Interrupted
from netsim.run import Run

__all__ = ["aside", "simulate", "threads_start"]

_INTERRUPT_TIMEOUT = 2.0
"""If an agent's step has not ended this many real seconds after a Ctrl-C, the Ctrl-C interrupts it."""


def simulate(runtime: Runtime, loop: Loop) -> Run:
    """Run a `Runtime` to its end on ``loop``, which must be new and is closed afterwards."""
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner, warned():
            try:
                return runner.run(_interruptible(runtime, loop))
            except KeyboardInterrupt as error:
                runtime.attach_result_to(error)
                raise
    except (Interrupted, SystemExit) as error:
        # Attach the result only now: an agent's `sys.exit` leaves asyncio's loop at once, but the counts are complete
        # only once the runner has closed.
        runtime.attach_result_to(error)
        raise


class _Insistent:
    """A Ctrl-C handler that calls another handler, and interrupts again if the loop's current step does not end."""

    def __init__(self, loop: Loop, interrupt: Callable[[int, FrameType | None], Any]) -> None:
        self._loop, self._interrupt = loop, interrupt

    def __call__(self, number: int, frame: FrameType | None) -> None:
        stepped = threading.Event()
        self._loop.call_soon_threadsafe(stepped.set)

        def again() -> None:
            if not stepped.is_set() and signal.getsignal(signal.SIGINT) is self:
                _thread.interrupt_main()

        timer = threading.Timer(_INTERRUPT_TIMEOUT, again)
        timer.daemon = True
        timer.start()
        self._interrupt(number, frame)


async def _interruptible(runtime: Runtime, loop: Loop) -> Run:
    """Run so that a Ctrl-C ends the run between two steps or, if a step does not end, in the middle of it."""
    interrupt = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not callable(interrupt) or interrupt is signal.default_int_handler:
        return await runtime.run(loop)

    signal.signal(signal.SIGINT, _Insistent(loop, interrupt))
    try:
        return await runtime.run(loop)
    finally:
        signal.signal(signal.SIGINT, interrupt)


@contextmanager
def aside() -> Iterator[None]:
    """Suspend the running event loop, such as a notebook's, so that another one can run in this thread."""
    outer = asyncio._get_running_loop()
    if outer is None:
        yield
        return
    owner = OWNER.set(None)
    try:
        with suspended(outer), _interrupts():
            yield
    finally:
        OWNER.reset(owner)


@contextmanager
def _interrupts() -> Iterator[None]:
    """Make a Ctrl-C interrupt the inner run: the outer loop's handler would only cancel the outer, suspended task."""
    interrupt = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    asyncios = isinstance(interrupt, partial) and isinstance(getattr(interrupt.func, "__self__", None), asyncio.Runner)
    if not in_main or not (asyncios or isinstance(interrupt, _Insistent)):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)


def threads_start() -> bool:
    """Return whether this system can start threads; a browser cannot."""
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return False
    return True
