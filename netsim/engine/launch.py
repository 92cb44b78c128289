"""Start runs on new event loops, even while another event loop is running, and let a Ctrl-C interrupt them."""

import _thread
import asyncio
import signal
import sys
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
from netsim.util.variables import assigned

__all__ = ["aside", "importing_whole", "simulate", "threads_start"]

_IMPORT_PAUSE = 0.02
"""Real seconds after which a Ctrl-C that came during an import is tried again."""

_INTERRUPT_TIMEOUT = 2.0
"""If an agent's step has not ended this many real seconds after a Ctrl-C, the step is interrupted."""


def simulate(runtime: Runtime, loop: Loop) -> Run:
    """Run a `Runtime` to its end on ``loop``; the loop must be new, and is closed afterwards."""
    try:
        with _interrupts(), asyncio.Runner(loop_factory=lambda: loop) as runner, warned():
            try:
                return runner.run(_interruptible(runtime, loop))
            except KeyboardInterrupt as error:
                runtime.attach_result_to(error)
                raise
    except (Interrupted, SystemExit) as error:
        # Attach the result only now: an agent's `sys.exit` leaves asyncio's loop immediately, but the counts are
        # complete only after the runner has closed.
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
                _interrupt_main()

        timer = threading.Timer(_INTERRUPT_TIMEOUT, again)
        timer.daemon = True
        timer.start()
        self._interrupt(number, frame)


async def _interruptible(runtime: Runtime, loop: Loop) -> Run:
    """Run so that a Ctrl-C ends the run after the current step, or within the step if it takes too long."""
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
    """Suspend the running event loop, such as a notebook's, so that another loop can run in this thread."""
    outer = asyncio._get_running_loop()
    if outer is None:
        yield
        return
    with assigned(OWNER, None), suspended(outer), _interrupts():
        yield


@contextmanager
def _interrupts() -> Iterator[None]:
    """Make a Ctrl-C interrupt the inner run, instead of calling the outer loop's handler.

    The outer loop's handler would only cancel the suspended outer task. While `importing_whole` has set its handler,
    asyncio would install no handler for the inner run.
    """
    interrupt = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    asyncios = isinstance(interrupt, partial) and isinstance(getattr(interrupt.func, "__self__", None), asyncio.Runner)
    if not in_main or not (asyncios or isinstance(interrupt, _Insistent) or interrupt is _interrupt_after_import):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)


@contextmanager
def importing_whole() -> Iterator[None]:
    """Delay a Ctrl-C to the end of an import.

    If the import of a library written in C is interrupted, the library cannot be imported again, and may crash Python
    at exit.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt_after_import)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt_after_import:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_after_import(number: int, frame: FrameType | None) -> None:
    """Handle a Ctrl-C: interrupt or, if an import is in progress, try again soon."""
    caller = frame
    while caller is not None and caller.f_code.co_filename != "<frozen importlib._bootstrap>":
        caller = caller.f_back
    if caller is None:
        signal.default_int_handler(number, frame)
    timer = threading.Timer(_IMPORT_PAUSE, _interrupt_main)
    timer.daemon = True
    timer.start()


def _interrupt_main() -> None:
    """Interrupt the main thread from another thread, even during a system call."""
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def threads_start() -> bool:
    """Return whether this system can start threads, which Python in a browser cannot."""
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return False
    return True
