"""Doing something in a process of its own that has all that this one has, objects that cannot be copied included."""

import copy
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from netsim.errors import NetsimError, one_line

__all__ = ["apart", "die_with"]

_PAUSE = 0.1
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def apart(work: Callable[[Mapping[Any, Any]], None], agents: Mapping[Any, Any]) -> None:
    """Do some work with agents, which are afterwards as they were; it ends with this process, however that ends.

    Where processes cannot be forked, the work gets a copy of the agents.

    Raises
    ------
    NetsimError
        If the work raised: its message.
    """
    if not hasattr(os, "fork"):
        work(copy.deepcopy(dict(agents)))
        return
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if not child:
        os.close(reading)
        die_with(parent)
        _do(work, agents, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
        raise
    if said:
        raise NetsimError(said)
    if status:
        raise NetsimError(f"a run's own process ended with status {os.waitstatus_to_exitcode(status)}")


def _do(work: Callable[[Mapping[Any, Any]], None], agents: Mapping[Any, Any], writing: int) -> NoReturn:
    """Work, and end this process, which is a fork, without what the one it was forked from does at its end."""
    status = 0
    try:
        work(agents)
    except BaseException as error:
        status = 1
        said = one_line(error) if isinstance(error, NetsimError) else f"{type(error).__name__}: {one_line(error)}"
        with suppress(OSError):
            os.write(writing, said.encode(errors="replace")[:4000])
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def die_with(parent: int) -> None:
    """Let this process end as soon as the one that began it has, though that is killed."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
