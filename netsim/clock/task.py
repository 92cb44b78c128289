"""Tasks and futures that are numbered, so that sets of them have one order in every run; and whose tasks they are.

asyncio keeps tasks in sets: a TaskGroup its children, `asyncio.wait` what is done, the loop all tasks. A set is ordered
by hash, and by default that is an address in memory. Here it is a number, from 0 for each loop. What the constructors
of asyncio's own types make, `asyncio.Future()` and `asyncio.Task(…)`, cannot be numbered, and is refused.
"""

import asyncio
import sys
import weakref
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from types import AsyncGeneratorType, FrameType
from typing import Any, Protocol, TypeVar

from netsim.clock.skew import LocalClock
from netsim.errors import BadInput

__all__ = ["OWNER", "Future", "Generators", "Owner", "Task", "refuse_unnumbered", "refuse_unordered"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

_ASYNCIO = vars(asyncio.tasks)


class Owner(Protocol):
    """Whoever is told of the tasks that are made in its context.

    Attributes
    ----------
    clock : LocalClock or None
        By which clock these sleep; None: by the simulation's.
    """

    clock: LocalClock | None

    def adopt(self, task: "Task[Any]") -> None:
        """Take note of a task that was made."""


OWNER: ContextVar[Owner | None] = ContextVar("OWNER", default=None)
"""To whom a task made here belongs; tasks and timers inherit it."""


def _in_order(future: Any) -> int:
    # Given when it is first asked for: most futures never are in a set.
    try:
        number: int = future._number
    except AttributeError:
        numbers = getattr(future.get_loop(), "numbers", None)
        # Those of `asyncio.gather` may be on any loop.
        number = future._number = object.__hash__(future) if numbers is None else next(numbers)
    return number


# The one kind of future that asyncio makes itself, and not by asking the loop for it.
_ASYNCIO["_GatheringFuture"].__hash__ = _in_order


class Future(asyncio.Future[_T]):
    """A future that is hashed by its number."""

    __slots__ = ("_number",)
    _number: int
    __hash__ = _in_order


class Task(asyncio.Task[_T_co]):
    """A task that is hashed by its number.

    Attributes
    ----------
    owner : Owner or None
        To whom it belongs.
    """

    __slots__ = ("_number", "owner")
    _number: int
    owner: Owner | None
    __hash__ = _in_order


class Generators(weakref.WeakKeyDictionary[AsyncGeneratorType[Any, Any], Owner | None]):
    """The async generators that were begun and not ended, in that order; asyncio's own set of them has no order."""

    def add(self, generator: AsyncGeneratorType[Any, Any]) -> None:
        """Note that one was begun, and by whom."""
        self[generator] = OWNER.get()

    def discard(self, generator: AsyncGeneratorType[Any, Any]) -> None:
        """Note that one is ended."""
        self.pop(generator, None)


def refuse_unnumbered(maker: FrameType) -> None:
    """Refuse a future or task of asyncio's own types: sets of them are in the order of their addresses.

    Their constructors are written in C and ask the loop for its `get_debug`. So whoever asks and does not name that
    function has called one.

    Parameters
    ----------
    maker : frame
        That of who asks.

    Raises
    ------
    BadInput
        If that is neither asyncio nor a loop of netsim, which make what is numbered.
    """
    if "get_debug" not in maker.f_code.co_names and maker.f_globals is not _ASYNCIO:
        raise BadInput(
            "asyncio.Future(…), asyncio.Task(…): must be made by get_running_loop().create_future() and "
            "asyncio.create_task(…), or sets of them have another order in each run"
        )


def refuse_unordered(coroutine: Generator[Any, None, Any] | Coroutine[Any, Any, Any]) -> None:
    """Refuse to make a task where `asyncio.as_completed` takes bare coroutines from a set, that is, in any order.

    Raises
    ------
    BadInput
        If this is called by a function that `asyncio.as_completed` has called to make a task.
    """
    frame = sys._getframe(2)
    if frame.f_globals is not _ASYNCIO or frame.f_code.co_name not in ("ensure_future", "_ensure_future"):
        return
    # What is between the two, a comprehension or a constructor, depends on the version of Python.
    for _ in range(4):
        caller = frame.f_back
        if caller is None or caller.f_globals is not _ASYNCIO:
            return
        frame = caller
        if frame.f_code.co_name == "as_completed":
            coroutine.close()
            what = f"coroutine {getattr(coroutine, '__qualname__', coroutine)!r}"
            raise BadInput(f"asyncio.as_completed: must be given tasks, as of asyncio.create_task; got {what}")
