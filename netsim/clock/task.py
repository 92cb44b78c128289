"""Numbered tasks and futures, so that sets of them have the same order in every run, and the owners of tasks.

asyncio keeps tasks in sets: the children of a TaskGroup, the done tasks of `asyncio.wait`, all tasks of a loop. The
iteration order of a set depends on hashes. By default a hash is a memory address, which differs between runs; here the
hash of a task or future is its number. Each agent numbers its own tasks, so that the order of its sets does not depend
on other agents in the same process; the loop numbers tasks without an agent. Futures and tasks created by asyncio's own
constructors, `asyncio.Future()` and `asyncio.Task(…)`, have no number and are rejected.
"""

import asyncio
import itertools
import sys
import weakref
from collections.abc import Callable, Coroutine, Generator, Hashable
from contextvars import ContextVar
from functools import wraps
from types import AsyncGeneratorType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from netsim.errors import BadInput

if TYPE_CHECKING:
    from netsim.clock.clock import LocalClock

__all__ = ["OWNER", "Future", "Generators", "Task", "TaskOwner", "refuse_unnumbered", "refuse_unordered"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

_ASYNCIO = vars(asyncio.tasks)

# The number of a task or future consists of its agent's key (47 bits) and a count (12 bits), to fit into the 61 bits of
# a hash.
_COUNT_BITS, _KEY_MASK = 12, 2**47 - 1


class TaskOwner:
    """An agent, represented as the owner of its tasks.

    Attributes
    ----------
    register : callable
        Called with each new task of the agent, and with the agent's name.
    numbers : iterator of int
        Supplies the hashes of the agent's tasks and futures.
    names : iterator of int
        Supplies the numbers in the names of the agent's tasks: 1, 2, ….
    task_factory : callable or None
        The factory of the agent's tasks; None unless the agent has set one.
    """

    __slots__ = ("clock", "name", "names", "numbers", "register", "task_factory")

    def __init__(
        self, register: "Callable[[Task[Any], Hashable], None]", name: Hashable, key: int, clock: "LocalClock | None"
    ) -> None:
        self.register = register
        self.name = name
        self.clock = clock
        self.names = itertools.count(1)
        self.task_factory: Any = None
        # The low bits of a task's hash are a count, so that a small set of tasks has the same order in every agent. The
        # high bits are a key computed from the agent's name, so that tasks of different agents have different hashes:
        # with equal hashes, a dictionary of all agents' tasks would take quadratic time.
        self.numbers = itertools.count((key & _KEY_MASK) << _COUNT_BITS)


OWNER: ContextVar[TaskOwner | None] = ContextVar("OWNER", default=None)
"""The running agent, or None; tasks and timers inherit this variable from the agent that creates them."""


def _number_of(future: Any) -> int:
    # A future gets its number at the first hash, not at creation, because most futures are never put into a set.
    try:
        number: int = future._number
    except AttributeError:
        loop = future.get_loop()
        numbers = getattr(loop, "numbers", None)
        if numbers is None:
            # This future of `asyncio.gather` runs on a loop of another type, which has no numbers: use Python's own
            # hash.
            number = future._number = object.__hash__(future)
        else:
            # Before Python 3.14 asyncio hashes a new task before the task's ``owner`` is set, so take `loop.maker`, the
            # agent whose task is being made. Later versions hash a task later, perhaps while another agent runs:
            # `OWNER` is then that other agent, so prefer the task's ``owner``.
            owner = loop.maker or getattr(future, "owner", OWNER.get())
            number = future._number = next(numbers if owner is None else owner.numbers)
    return number


# Number the futures of `asyncio.gather`, too: asyncio creates only this type without calling the loop.
_ASYNCIO["_GatheringFuture"].__hash__ = _number_of

_all_tasks = asyncio.all_tasks


@wraps(_all_tasks)
def all_tasks(loop: asyncio.AbstractEventLoop | None = None) -> "set[asyncio.Task[Any]]":
    """Return the loop's unfinished tasks; if an agent calls, only its tasks, because others may run elsewhere."""
    found: set[asyncio.Task[Any]] = _all_tasks(loop)
    owner = OWNER.get()
    if owner is None:
        return found
    own = [task for task in found if getattr(task, "owner", None) is owner]
    # Sort, because if hashes collide, a set's order depends on the order in which it was filled.
    own.sort(key=hash)
    return set(own)


# Replace the function before programs can import it by name. asyncio.Runner, which runs outside agents, still gets all
# tasks.
asyncio.all_tasks = _ASYNCIO["all_tasks"] = all_tasks


class Future(asyncio.Future[_T]):
    """A future whose hash is its number, so that sets of futures have a fixed order."""

    __slots__ = ("_number",)
    _number: int
    __hash__ = _number_of


class Task(asyncio.Task[_T_co]):
    """A task whose hash is its number, so that sets of tasks have a fixed order.

    Attributes
    ----------
    owner : TaskOwner or None
        The agent to which the task belongs.
    """

    __slots__ = ("_number", "owner")
    _number: int
    owner: TaskOwner | None
    __hash__ = _number_of


class Generators(weakref.WeakKeyDictionary[AsyncGeneratorType[Any, Any], TaskOwner | None]):
    """Started async generators that have not ended, in the order of their start; asyncio's own set has no order."""

    def add(self, generator: AsyncGeneratorType[Any, Any]) -> None:
        """Store a generator with the running agent, which started it."""
        self[generator] = OWNER.get()

    def discard(self, generator: AsyncGeneratorType[Any, Any]) -> None:
        """Remove a generator that has ended."""
        self.pop(generator, None)


def refuse_unnumbered(maker: FrameType) -> None:
    """Raise BadInput if a stack frame creates a future or task of asyncio's own types, which have no number."""
    # ``maker`` is the frame from which the loop's `get_debug` was called. If the code of this frame does not name
    # `get_debug`, it called the constructor of a future or task: constructors call `get_debug`, but have no frame of
    # their own, because they are written in C. Raise in this case, unless the code is asyncio's own: netsim numbers the
    # futures and tasks that asyncio itself creates.
    if "get_debug" not in maker.f_code.co_names and maker.f_globals is not _ASYNCIO:
        raise BadInput(
            "asyncio.Future(…), asyncio.Task(…): must be created by get_running_loop().create_future() and "
            "asyncio.create_task(…), or sets of them have another order in each run"
        )


def refuse_unordered(coroutine: Generator[Any, None, Any] | Coroutine[Any, Any, Any]) -> None:
    """Raise BadInput if `asyncio.as_completed` makes a task of this coroutine.

    `as_completed` takes coroutines from a set, so the order in which it makes tasks would differ between runs.
    """
    frame = sys._getframe(2)
    if frame.f_globals is not _ASYNCIO or frame.f_code.co_name not in ("ensure_future", "_ensure_future"):
        return
    # Look for `as_completed` among several callers, because some Python versions call `ensure_future` through a
    # comprehension or a constructor.
    for _ in range(4):
        caller = frame.f_back
        if caller is None or caller.f_globals is not _ASYNCIO:
            return
        frame = caller
        if frame.f_code.co_name == "as_completed":
            coroutine.close()
            what = f"coroutine {getattr(coroutine, '__qualname__', coroutine)!r}"
            raise BadInput(f"asyncio.as_completed: must be given tasks, as of asyncio.create_task; got {what}")
