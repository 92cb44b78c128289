"""Jobs of threads in virtual time: nothing else goes on while one runs, so that it takes no time and its result has one
place in the order of events."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from contextvars import Context
from typing import TypeVar

__all__ = ["at_once"]

_T = TypeVar("_T")


def at_once(executor: concurrent.futures.Executor | None, job: Callable[[], _T]) -> "concurrent.futures.Future[_T]":
    """Run a job to its end, here or in an executor; return a future that is done."""
    outcome: concurrent.futures.Future[_T] = concurrent.futures.Future()
    outcome.set_running_or_notify_cancel()
    submitted = None if executor is None else executor.submit(job)
    try:
        outcome.set_result(_run_here(job) if submitted is None else submitted.result())
    except StopIteration as error:
        # As asyncio has it since Python 3.12; before, whoever awaited such a job waited for ever.
        stop = RuntimeError("StopIteration interacts badly with generators and cannot be raised into a Future")
        stop.__cause__ = error
        outcome.set_exception(stop)
    except BaseException as error:
        outcome.set_exception(error)
    return outcome


def _run_here(job: Callable[[], _T]) -> _T:
    """Call a function as a thread of its own would: no event loop runs, and context variables are not set."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return Context().run(job)
    finally:
        asyncio._set_running_loop(loop)
