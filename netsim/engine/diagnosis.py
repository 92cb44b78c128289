"""One-line error messages of a run: which agent raised an error in which line, or what each agent waits for."""

import asyncio
import inspect
import os
import sysconfig
import traceback
from collections.abc import Hashable, Mapping, Sequence
from types import TracebackType
from typing import Any

from netsim.clock.virtual_clock import LATEST
from netsim.context import Context
from netsim.errors import AgentError, NetsimError, RunOver, Stalled, one_line
from netsim.transport.inbox import Inbox

Tasks = Mapping["asyncio.Task[Any]", Hashable]
"""{task: name of its agent}."""

IN_PART = "in part "
"""Prefix of the note that names the part of a mote in which an error was raised."""

SHOWN = 5
"""Maximum number of agents that the error for a deadlock names."""

_FOLDERS = [os.path.dirname(os.path.dirname(__file__)), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))]
_LIBRARIES = tuple(folder + os.sep for folder in _FOLDERS)
_INBOX = Inbox.get.__code__.co_filename


def agent_error(
    name: Hashable, error: BaseException, context: Context, how: str = "", at: str | None = None
) -> AgentError:
    """Return the error for an agent that raised one, with source line, circumstances (``how``) and time (``at``)."""
    first, more, notes = error, "", [*getattr(error, "__notes__", ())]
    while isinstance(first, BaseExceptionGroup):
        more = f" (and {len(first.exceptions) - 1} more)" if len(first.exceptions) > 1 else more
        first = first.exceptions[0]
        notes += getattr(first, "__notes__", ())
    part = next((f", {note}," for note in notes if note.startswith(IN_PART)), "")
    place = (when(context) if at is None else at) + _line(first.__traceback__)
    found = AgentError(f"agent {name!r}{part} raised {type(first).__name__}{how}{place}: {one_line(first)}{more}")
    found.__cause__ = error if more else first
    return found


def cancelled_error(name: Hashable, task: "asyncio.Task[Any]", context: Context) -> AgentError:
    """Return the error for an agent whose task was cancelled before the run's end."""
    try:
        task.result()
    except asyncio.CancelledError as error:
        place = when(context) + _line(error.__traceback__)
        why = "catch asyncio.CancelledError where it awaits what it cancels, or it ends there"
        found = AgentError(f"agent {name!r} was cancelled{place} though the run goes on: {why}")
        found.__cause__ = error
        return found
    raise AssertionError("only for a task that was cancelled")


def when(context: Context) -> str:
    """Return the text " in round k" for an agent's current round or, if it is in no round, " at t s" for the time."""
    now = context.shared.loop.now()
    # An exception takes the agent out of its round before the error is reported. So if the agent left a round at the
    # present time, that round counts as its current round.
    number = context.round or context.left[0] * (context.left[1] == now)
    return f" in round {number}" if number else f" at {now:g} s"


def _line(trace: TracebackType | None) -> str:
    # Show the last line of the user's code, not the line in netsim, numpy or asyncio that raised the error. The paths
    # of compiled libraries have no folder, so only the suffix identifies them.
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.endswith((".pyx", ".pxd"))]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno})" if own else ""


def failure(what: str, error: BaseException) -> NetsimError:
    """Return the error that ends a run in which code other than an agent's raised ``error``."""
    if isinstance(error, NetsimError):
        return error
    found = NetsimError(f"{what} raised {type(error).__name__}: {one_line(error)}")
    found.__cause__ = error
    return found


def is_shutdown_error(error: BaseException) -> bool:
    """Return whether an error has no other cause than the cancellation of its agent or a send after the run's end."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_shutdown_error, error.exceptions))
    return isinstance(error, RunOver | asyncio.CancelledError)


def standstill(unfinished: Tasks, contexts: Mapping[Hashable, Context]) -> Stalled:
    """Return the error for a run in which every task waits for an event that can never come."""
    loop = next(iter(contexts.values())).shared.loop
    return stalled(loop.now(), _waits(unfinished, contexts), len(unfinished), loop.clock.beyond)


def stalled(now: float, waits: Sequence[str], unfinished: int, beyond: bool) -> Stalled:
    """Return the error for a deadlock.

    ``waits`` describes for each of the first few agents what it waits for. ``unfinished`` is the number of all
    unfinished agents. ``beyond`` is True if a timer was set to a time later than `LATEST`.
    """
    late = f" (what is to be later than {LATEST:g} s never comes)" if beyond else ""
    return Stalled(f"at {now:g} s every task waits for what can never come: {_listed(waits, unfinished)}{late}")


def waiting(unfinished: Tasks, contexts: Mapping[Hashable, Context]) -> str:
    """Return a text that describes what the first few unfinished agents wait for."""
    return _listed(_waits(unfinished, contexts), len(unfinished))


def _waits(unfinished: Tasks, contexts: Mapping[Hashable, Context]) -> list[str]:
    first = list(unfinished.items())[:SHOWN]
    return [f"agent {name!r} waits for {_waits_for(task, contexts[name])}" for task, name in first]


def _listed(waits: Sequence[str], unfinished: int) -> str:
    more = [f"and {unfinished - SHOWN} more"] if unfinished > SHOWN else []
    return "; ".join([*waits, *more])


def endless(name: Hashable, task: "asyncio.Task[Any] | None", context: Context, passes: int) -> AgentError:
    """Return the error for an agent whose task (or callbacks, if ``task`` is None) keeps time from advancing."""
    does = "its callbacks set each other off" if task is None else f"it waits for {_waits_for(task, context)}"
    now = context.shared.loop.now()
    why = f"after {passes:,} passes of the event loop time has not moved"
    return AgentError(f"agent {name!r} never lets time pass: at {now:g} s {does} again and again; {why}")


def uncancellable_error(name: Hashable, task: "asyncio.Task[Any]", context: Context) -> AgentError:
    """Return the error for an agent that does not end when it is cancelled."""
    where = f"it waits for {_waits_for(task, context)}"
    return AgentError(f"agent {name!r} does not end when it is cancelled: {where}; let asyncio.CancelledError out")


def _waits_for(task: "asyncio.Task[Any]", context: Context) -> str:
    for name, part in (context.parts or {}).items():
        if part.task is not None and not part.task.done():
            return f"{_waits_for(part.task, part)}, {IN_PART}{name!r}"
    own: Any = task.get_coro()
    # Name the coroutine that the agent's code awaits, not the innermost one, which may be a private coroutine of
    # asyncio and differ between versions.
    called: Any = None
    inner, in_inbox = own, False
    while inspect.iscoroutine(awaited := getattr(inner, "cr_await", None)):
        inner = awaited
        in_inbox = in_inbox or inner.cr_code.co_filename == _INBOX
        if inner.cr_frame is not None and not inner.cr_code.co_filename.startswith(_LIBRARIES):
            own, called = inner, None
        elif called is None:
            called = inner
    what = f"{called.__qualname__}()" if called is not None else "a future"
    if in_inbox:
        what = context.inbox.wait_description or what
    frame = getattr(own, "cr_frame", None)
    return what if frame is None else f"{what} ({os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno})"
