"""What went wrong in a run, said in one line: which agent raised where, who waits for what."""

import asyncio
import inspect
import os
import sysconfig
import traceback
from collections.abc import Hashable, Mapping
from typing import Any

from netsim.errors import AgentError, NetsimError, Stalled, one_line
from netsim.transport.context import Context

__all__ = ["agent_error", "failure", "standstill"]

_FOLDERS = [os.path.dirname(__file__), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))]
_LIBRARIES = tuple(folder + os.sep for folder in _FOLDERS)


def agent_error(name: Hashable, error: BaseException, context: Context) -> AgentError:
    """Return the error for an agent that raised: its name, its round, its own line."""
    first, more = error, ""
    while isinstance(first, BaseExceptionGroup):
        more = f" (and {len(first.exceptions) - 1} more)" if len(first.exceptions) > 1 else more
        first = first.exceptions[0]
    now = context.shared.loop.time()
    # An exception has left the round that it comes from.
    number = context.round or context.left[0] * (context.left[1] == now)
    where = f" in round {number}" if number else f" at {now:g} s"
    # The agent's own line, not the line in netsim, numpy or asyncio that raised.
    frames = traceback.extract_tb(first.__traceback__)
    own = [f for f in frames if not f.filename.startswith(_LIBRARIES)] or frames
    line = f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno})" if own else ""
    found = AgentError(f"agent {name!r} raised {type(first).__name__}{where}{line}: {one_line(first)}{more}")
    found.__cause__ = error if more else first
    return found


def failure(what: str, error: Exception) -> NetsimError:
    """Return the error to end a run with when something other than an agent raised."""
    if isinstance(error, NetsimError):
        return error
    found = NetsimError(f"{what} raised {type(error).__name__}: {one_line(error)}")
    found.__cause__ = error
    return found


def standstill(unfinished: Mapping["asyncio.Task[None]", Hashable], contexts: Mapping[Hashable, Context]) -> Stalled:
    """Return the error for a run in which every task waits for what can never come: who waits for what."""
    waiting = [
        f"agent {name!r} waits for {_waits_for(task, contexts[name])}" for task, name in list(unfinished.items())[:5]
    ]
    more = [f"and {len(unfinished) - 5} more"] if len(unfinished) > 5 else []
    now = next(iter(contexts.values())).shared.loop.time()
    return Stalled(f"at {now:g} s every task waits for what can never come: {'; '.join([*waiting, *more])}")


def _waits_for(task: "asyncio.Task[None]", context: Context) -> str:
    own: Any = task.get_coro()
    inner = own
    while inspect.iscoroutine(inner.cr_await):
        inner = inner.cr_await
        if inner.cr_frame is not None and not inner.cr_code.co_filename.startswith(_LIBRARIES):
            own = inner
    what = context.inbox.awaited or (f"{inner.__qualname__}()" if inner is not own else "a future")
    return f"{what} ({os.path.basename(own.cr_code.co_filename)}, line {own.cr_frame.f_lineno})"
