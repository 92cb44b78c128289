"""Runs are launched here: on a loop made for them, interruptible by Ctrl-C, also while another loop runs."""

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
    except (Interrupted, SystemExit) as error:
        # Only the runner's end closed the books: asyncio lets an agent's `sys.exit` out of its loop at once.
        runtime.attach_result_to(error)
        raise


class _Insistent:
    """A handler of Ctrl-C that calls another one, and again if the loop's step does not end."""

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
    """Run; a Ctrl-C ends it between two steps or, if there is no next one, in the middle of an agent's code."""
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
    """Put a running event loop, as of a notebook or of an agent, aside, so that another one may run in this thread."""
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
    """Let a Ctrl-C end what runs now, where it would end the task of the loop outside, which cannot go on yet."""
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
    """Return whether this system starts threads; a browser does not."""
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return False
    return True
