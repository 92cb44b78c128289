"""An asyncio event loop on simulated time, virtual or paced by the wall clock, with a fixed order of events.

It differs from asyncio's own loop in four ways. Time and timers come from `netsim.clock.virtual_clock`. Tasks and
futures are numbered. Jobs in threads take no virtual time. In virtual time the loop needs no sockets, so that it also
runs in a browser. An agent may have its own clock (`LocalClock`).
"""

import asyncio
import concurrent.futures
import itertools
import math
import re
import sys
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial, wraps
from typing import Any, Literal, TypeVar, TypeVarTuple

from netsim.clock.task import OWNER, Future, Generators, Task, TaskOwner, refuse_unnumbered, refuse_unordered
from netsim.clock.virtual_clock import ClockSelector, VirtualSelector, WallSelector
from netsim.core.round_barrier import RoundBarrier
from netsim.errors import BadInput, NetsimError
from netsim.util.check import finite, one_of
from netsim.util.compiled import compiled

__all__ = ["END_OF_SLEEP", "ClockName", "LocalClock", "Loop", "new_loop", "suspended", "timed"]

ClockName = Literal["virtual", "wall"]
_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class LocalClock:
    """A skewed clock. It is ``offset`` s behind at time 0, and each of its seconds lasts 1 + ``drift`` s.

    Attributes
    ----------
    offset : float
        The simulated time (s) at which this clock shows 0.
    rate : float
        Seconds of simulated time per second of this clock.
    """

    __slots__ = ("offset", "rate")

    def __init__(self, offset: float, drift: float) -> None:
        self.offset = offset
        self.rate = 1.0 + drift

    def local(self, time: float) -> float:
        """Return the reading of this clock at a time (s)."""
        return (time - self.offset) / self.rate

    def true(self, local: float) -> float:
        """Return the time (s) at which this clock shows ``local``, rounded up.

        At that time the clock never shows less than ``local``, so a task that sleeps until ``local`` never wakes early.
        """
        time = self.offset + local * self.rate
        step = math.ulp(max(abs(time), abs(self.offset)))
        while self.local(time) < local:
            time += step
        return time


class Loop(asyncio.SelectorEventLoop):
    """An asyncio event loop on simulated time. Timers of the same time run in the order in which they were set.

    Tasks and futures are hashed by number, so that sets of them have the same order in every run. In virtual time the
    loop rejects futures and tasks created by asyncio's own constructors, because these have no number. In real time it
    allows them, because runs are not reproducible and I/O libraries may need them.

    asyncio's own methods, such as `time` and `call_at`, use the clock of the calling agent if it has its own. `now` and
    `call_at_simulated` use the simulation's clock.

    Attributes
    ----------
    clock : ClockSelector
        The simulation's clock and timers.
    numbers : iterator of int
        Supplies the hashes of tasks and futures that no agent owns.
    names : iterator of int
        Supplies the numbers in the names of tasks that no agent owns: 1, 2, ….
    maker : TaskOwner or None
        The agent whose task is being created.
    skewed : bool
        Whether some agents have their own clocks.
    on_error : list of callables
        Called one after another with the context of an uncaught exception, until a handler returns True because it has
        handled the exception. If none does, the exception handler is called.
    generators : Generators
        The async generators that were started on this loop and have not ended.
    on_call : list of callables
        The hooks added by `note_calls`.
    """

    def __init__(self, selector: ClockSelector) -> None:
        self.clock = selector
        self.numbers = itertools.count()
        self.names = itertools.count(1)
        self.maker: TaskOwner | None = None
        self._in_factory = False
        self.skewed = False
        self.on_error: list[Callable[[dict[str, Any]], bool]] = []
        self.generators = Generators()
        self.on_call: list[Callable[[Context], None]] = []
        super().__init__(selector)
        selector.ready = self._ready  # type: ignore[attr-defined]
        # Bind the selector's method directly, because `now` is called so often that a wrapper would cost time.
        methods: Any = self
        methods.now = selector.now
        # Replace asyncio's unordered set, so that generators are closed in a fixed order.
        self._asyncgens = self.generators

    # --- waking the loop ----------------------------------------------------------------------------------------------

    # asyncio's attribute: whether debug mode is on.
    _debug: bool
    # asyncio's attribute: whether the loop is closed.
    _closed: bool
    # asyncio's attribute: the task factory, used for all agents that have not set one.
    _task_factory: Any

    # The two ends of the pipe through which asyncio wakes its own loop; None until the pipe is made.
    _ssock = _csock = None

    def _make_self_pipe(self) -> None:
        # In virtual time only signal handlers need the pipe, and `add_signal_handler` makes it for them.
        if self.clock.pace < math.inf:
            super()._make_self_pipe()  # type: ignore[misc]

    def _close_self_pipe(self) -> None:
        if self._csock is not None:
            super()._close_self_pipe()

    def _write_to_self(self) -> None:
        if self._csock is None:
            self.clock.wake()
        else:
            super()._write_to_self()

    def add_signal_handler(self, sig: int, callback: Callable[[*_Args], object], *args: *_Args) -> None:
        """Call ``callback`` at a signal, as asyncio does; first make the pipe to which Python's handler writes."""
        if self._csock is None and not self.is_closed():
            super()._make_self_pipe()  # type: ignore[misc]
        super().add_signal_handler(sig, callback, *args)

    def __reduce__(self) -> Any:
        # Copy the loop as None: the events, locks and queues of a copied agent then find the loop of its next run.
        return type(None), ()

    # --- time ---------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the simulated time in seconds, whatever clock the running agent has."""
        return self.clock.now()

    def time(self) -> float:
        """Return the time in seconds by the clock of the running agent."""
        if not self.skewed:
            return self.now()
        clock = self._local_clock()
        return self.now() if clock is None else clock.local(self.now())

    def _local_clock(self) -> LocalClock | None:
        """Return the running agent's own clock; None if it has none."""
        owner = OWNER.get()
        return None if owner is None else owner.clock

    def note_calls(self, note: Callable[[Context], None]) -> None:
        """Call ``note`` with the context of each callback that is scheduled by `call_soon`, until `forget_calls`."""
        self.on_call.append(note)
        # Override the methods only while a hook is set, so that without hooks they are as fast as asyncio's.
        methods: Any = self
        methods.call_soon = partial(self._call_and_note, super().call_soon)
        methods.call_soon_threadsafe = partial(self._call_and_note, super().call_soon_threadsafe)

    def forget_calls(self, note: Callable[[Context], None]) -> None:
        """Stop calling ``note``, if `note_calls` was called."""
        if note in self.on_call:
            self.on_call.remove(note)
            if not self.on_call:
                del self.call_soon, self.call_soon_threadsafe

    def _call_and_note(self, call_soon: Callable[..., asyncio.Handle], *args: Any, **settings: Any) -> asyncio.Handle:
        handle = call_soon(*args, **settings)
        for note in self.on_call:
            note(handle._context)  # type: ignore[attr-defined]
        return handle

    # --- timers -------------------------------------------------------------------------------------------------------

    def call_at(
        self, when: float, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call ``callback`` at a time (s) by the clock of the running agent; see `call_at_simulated`."""
        # Convert, because a numpy float32 would make the loop's time a float32, with larger rounding errors.
        when = float(when)
        if math.isnan(when):
            raise ValueError("when: must be a time in seconds; it is NaN")
        clock = self._local_clock() if self.skewed else None
        time = when if clock is None or math.isinf(when) else clock.true(when)
        return self._set_timer(when, time, callback, args, context, first=False)

    def call_at_simulated(
        self, when: float, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call ``callback`` at a simulated time (s); immediately if it has passed, never if it is after `LATEST`."""
        return self._set_timer(when, when, callback, args, context, first=False)

    def call_first_at(self, when: float, callback: Callable[[], object], context: Context) -> asyncio.TimerHandle:
        """Call ``callback`` at a time (s), before all other timers of that time."""
        return self._set_timer(when, when, callback, (), context, first=True)

    def _set_timer(
        self,
        when: float,
        time: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        first: bool,
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        context = copy_context() if context is None else context
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        start: Callable[[], object]
        if callback is END_OF_SLEEP and not self.on_call:
            start = partial(self._wake, timer, args)
        elif not self.on_call:
            # asyncio's loop, too, appends the handle of a due timer to its ready handles without calling `call_soon`.
            start = partial(self._ready.append, timer)  # type: ignore[attr-defined]
        else:
            # Run the callback through `call_soon`, which passes the callback's context to the hooks.
            start = partial(self.call_soon, _run, timer, callback, args, context=context)
        self.clock.set_timer(time, timer, start, first)
        return timer

    def _wake(self, timer: asyncio.TimerHandle, args: tuple[Any, ...]) -> None:
        """End a task's sleep: immediately if nothing else happens now, otherwise after the callbacks that are ready."""
        if not self.clock.is_alone():
            self._ready.append(timer)  # type: ignore[attr-defined]
        elif not timer._cancelled:
            END_OF_SLEEP(*args)

    async def pause(self, seconds: float) -> None:
        """Sleep for ``seconds`` of simulated time, even if the caller has its own clock."""
        over = self.create_future()
        timer = self.call_at_simulated(self.now() + seconds, _finish, over)
        try:
            await over
        finally:
            timer.cancel()

    # --- tasks and futures --------------------------------------------------------------------------------------------

    def create_future(self) -> Future[Any]:
        """Return a new future whose hash is a number (`netsim.clock.task`)."""
        return Future(loop=self)

    def get_debug(self) -> bool:
        """Return whether debug mode is on.

        Raises BadInput if the caller is the constructor of an unnumbered future or task.
        """
        # Compare code objects first, which is fast: every new handle calls this method.
        maker = sys._getframe(1)
        code = maker.f_code
        if not (code in _NUMBERED_CODES or self.clock.pace < math.inf):
            if self._in_factory:
                self._in_factory = False
            else:
                refuse_unnumbered(maker)
        return self._debug

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: object = None,
        context: Context | None = None,
        **settings: Any,
    ) -> Task[_T]:
        """Run a coroutine as a task. Its default name is Task-1, Task-2, …, counted for each agent separately.

        A task that an agent creates in a context without `OWNER`, such as an empty context, belongs to that agent.

        Raises BadInput if `asyncio.as_completed` creates the task from a coroutine, and NetsimError if the task factory
        returns another type than `netsim.clock.task.Task`.
        """
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        refuse_unordered(coro)
        owner = OWNER.get()
        if context is not None and owner is not (given := context.get(OWNER)):
            if given is None:
                context.run(OWNER.set, owner)
            else:
                owner = given
        # Count named tasks as well, because asyncio.create_task may set the name after creation.
        number = next(self.names if owner is None else owner.names)
        name = f"Task-{number}" if name is None else str(name)
        outer, self.maker = self.maker, owner
        try:
            factory = self._factory_of(owner)
            if factory is None:
                task = Task(coro, loop=self, name=name, context=context, **settings)
            else:
                # The factory may make an unnumbered task: `get_debug` allows it, and `_checked` then checks its type.
                self._in_factory = True
                loops_own, self._task_factory = self._task_factory, factory
                try:
                    made = super().create_task(coro, name=name, context=context, **settings)
                finally:
                    self._in_factory = False
                    self._task_factory = loops_own
                task = self._checked(made, owner)
            task.owner = owner
            if owner is not None:
                # Since Python 3.14 asyncio does not hash a new task; `register` does so, after the owner has been set.
                owner.register(task, owner.name)
        finally:
            self.maker = outer
        return task

    def _checked(self, task: Any, owner: TaskOwner | None) -> Task[Any]:
        if isinstance(task, Task):
            return task
        task.cancel()
        # Remove the task factory: closing the loop creates tasks, too, and the factory would make them of a wrong type.
        self._set_factory_of(owner, None)
        kind = f"{type(task).__module__}.{type(task).__qualname__}"
        raise NetsimError(
            f"task factory: must return a netsim.clock.task.Task, so that sets of tasks have a fixed order; got {kind}"
        )

    def set_task_factory(self, factory: Any) -> None:
        """Set the factory, which must return `netsim.clock.task.Task`; asyncio's eager factory is adapted to that.

        A factory that an agent sets creates only the tasks of that agent.
        """
        if factory is getattr(asyncio, "eager_task_factory", self):
            make: Any = vars(asyncio)["create_eager_task_factory"]
            factory = make(Task)
        self._set_factory_of(OWNER.get(), factory)

    def get_task_factory(self) -> Any:
        """Return the task factory of the running agent; None if tasks are created without a factory."""
        return self._factory_of(OWNER.get())

    def _set_factory_of(self, owner: TaskOwner | None, factory: Any) -> None:
        if owner is None:
            super().set_task_factory(factory)
        elif factory is None or callable(factory):
            owner.task_factory = factory
        else:
            raise TypeError("task factory must be a callable or None")

    def _factory_of(self, owner: TaskOwner | None) -> Any:
        return self._task_factory if owner is None or owner.task_factory is None else owner.task_factory

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Pass an uncaught exception to the functions in ``on_error``; if none handles it, call asyncio's handler."""
        if not any(handle(context) for handle in list(self.on_error)):
            super().call_exception_handler(context)

    # --- jobs in threads ----------------------------------------------------------------------------------------------

    def run_in_executor(
        self, executor: concurrent.futures.Executor | None, func: Callable[[*_Args], _T], *args: *_Args
    ) -> asyncio.Future[_T]:
        """Run a function in a thread or, in virtual time, to completion while the loop waits.

        In virtual time the function takes no simulated time, so that its result has a fixed place in the order of
        events. The function then runs in the calling thread, unless an executor is given.
        """
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        if self.clock.pace == math.inf:
            # asyncio.wrap_future cannot be used: since Python 3.14 its future is done immediately, so the awaiting task
            # would run before callbacks that are ready now.
            finished: Future[_T] = self.create_future()
            self.call_soon(_set_outcome, finished, *_outcome_of(executor, partial(func, *args)))
            return finished
        job: asyncio.Future[_T] = super().run_in_executor(executor, func, *args)
        self.clock.jobs += 1
        job.add_done_callback(self._job_done)
        return job

    def _job_done(self, job: object) -> None:
        self.clock.jobs -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait up to ``timeout`` real s for threads to end; in virtual time or before Python 3.12, without limit."""
        pace = self.clock.pace
        settings = {} if timeout is None or pace == math.inf else {"timeout": timeout * pace}
        self.clock.jobs += 1
        try:
            await super().shutdown_default_executor(**settings)
        finally:
            self.clock.jobs -= 1


# `Loop.get_debug` refuses a caller that makes an unnumbered future or task. The callers with these code objects (the
# most frequent one first) are allowed without a further check. RoundBarrier does make unnumbered futures of asyncio's
# own type, which are faster, and may do so because it never puts them in a set.
_NUMBERED_CODES = (
    asyncio.Handle.__init__.__code__,
    Loop.create_future.__code__,
    asyncio.Handle.cancel.__code__,
    RoundBarrier.wait.__code__,
    Loop.create_task.__code__,
)
END_OF_SLEEP: Callable[..., None] = vars(asyncio.futures)["_set_result_unless_cancelled"]
"""The callback of the timer that `asyncio.sleep` sets."""


def _outcome_of(
    executor: concurrent.futures.Executor | None, job: Callable[[], _T]
) -> tuple[_T | None, BaseException | None]:
    """Run a job to its end, in this thread or an executor; return its result (or None) and its exception (or None)."""
    submitted = None if executor is None else executor.submit(job)
    try:
        return (_run_here(job) if submitted is None else submitted.result()), None
    except StopIteration as error:
        # A future does not accept StopIteration, so replace it as asyncio does since Python 3.12.
        stop = RuntimeError("StopIteration interacts badly with generators and cannot be raised into a Future")
        stop.__cause__ = error
        return None, stop
    except concurrent.futures.CancelledError as error:
        # Convert concurrent.futures' CancelledError, which an awaiting task would not treat as a cancellation.
        return None, asyncio.CancelledError(*error.args)
    except BaseException as error:
        return None, error


def _set_outcome(finished: Future[Any], result: Any, error: BaseException | None) -> None:
    if finished.cancelled():
        return
    if error is None:
        finished.set_result(result)
    else:
        finished.set_exception(error)


def _run_here(job: Callable[[], _T]) -> _T:
    """Call a function as in a new thread, without a running event loop and with an empty context."""
    with suspended(asyncio._get_running_loop()):
        return Context().run(job)


@contextmanager
def suspended(loop: Any) -> Iterator[None]:
    """Suspend this thread's running loop and its current task, if any, so that another loop may run."""
    task = None if loop is None else asyncio.current_task(loop)
    # Leave the current task: since Python 3.14 a thread, not each loop, has a current task. While it has one, another
    # loop in this thread cannot run its own tasks.
    if task is not None:
        _leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            _enter_task(loop, task)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _run(timer: asyncio.TimerHandle, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    # Another callback of the same instant may have cancelled the timer.
    if not timer.cancelled():
        callback(*args)


def timed(handle: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Return the callback of a handle of this loop (None: cancelled), its arguments, and whether a timer set it."""
    callback: Any = handle._callback
    args: tuple[Any, ...] = handle._args or ()
    if callback is _run:
        return args[1], args[2], True
    return callback, args, type(handle) is not asyncio.Handle and handle.when() > -math.inf


# Names of asyncio's methods that wait for other processes or devices, which takes real time.
_OUTSIDE = re.compile("add_(reader|writer)|connect_|create_(?!future|task)|sock_|subprocess_")


def _outside(name: str) -> Callable[..., Any]:
    """Return asyncio's method of this name, with a check that raises BadInput in virtual time."""
    method = getattr(asyncio.SelectorEventLoop, name)

    @wraps(method)
    def only_in_real_time(self: Loop, *values: Any, **arguments: Any) -> Any:
        if self.clock.pace == math.inf:
            why = "virtual time jumps to the next event and does not wait for a socket, a pipe or another process"
            raise BadInput(f"loop.{name}: must go with clock='wall' in Network.run: {why}")
        return method(self, *values, **arguments)

    return only_in_real_time


for _name in filter(_OUTSIDE.match, dir(asyncio.SelectorEventLoop)):
    setattr(Loop, _name, _outside(_name))


def new_loop(clock: ClockName = "virtual", pace: float = 1.0) -> Loop:
    """Return an event loop on virtual time, or on wall-clock time accelerated by the factor ``pace``.

    Raises
    ------
    BadInput
        If ``clock`` is unknown or ``pace`` is not positive.
    """
    one_of("clock", clock, ("virtual", "wall"))
    pace = finite("pace", pace, above=0)
    if clock == "wall":
        return Loop(WallSelector(pace))
    if COMPILED is None:
        return Loop(VirtualSelector())
    loop: Loop = COMPILED.CompiledLoop(COMPILED.CompiledSelector())
    return loop


COMPILED = compiled("clock._loop")
"""The module `netsim.clock._loop`, the compiled version of the loop; None if it was not built or is disabled."""
