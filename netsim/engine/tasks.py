"""The tasks of a run's agents: the main tasks, and the background tasks that agents create.

A task belongs to the agent in whose context it was created (`netsim.clock.task.OWNER`). This module keeps a strong
reference to each running task, because asyncio keeps only a weak one.
"""

import asyncio
import ctypes
import inspect
import math
import weakref
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterator, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import InitVar, dataclass, field
from typing import Any

from netsim.clock.clock import Loop
from netsim.clock.task import OWNER, Task, TaskOwner
from netsim.context import Context
from netsim.engine.diagnosis import agent_error, cancelled_error, is_shutdown_error, when
from netsim.errors import AgentError, NetsimError
from netsim.util.draws import Keys

__all__ = ["AgentTasks", "Patience", "cancel", "detach", "owner_of", "ready_handles", "stop"]

UNAWAITED = " in a task that is never awaited"


@dataclass(eq=False, repr=False)
class AgentTasks:
    """All tasks of all agents of one run.

    Parameters
    ----------
    loop : Loop
        The run's event loop.
    contexts : mapping
        The agents' contexts by their names.
    keys : uint64 array, shape (agents,)
        The 64-bit hash of each agent's name, including the agents of other processes.
    fail : callable
        Called with the error when an agent fails.
    finish : callable
        Called when all agents except the ``scenery`` (agents in the background) are finished.

    Attributes
    ----------
    members : dict
        The `TaskOwner` of each agent, by the agent's name.
    main_tasks : dict
        Maps the task that runs an agent's `Agent.run` to the agent's name.
    background : dict
        Maps each other unfinished task of an agent to the agent's name, in the order of creation.
    over : bool
        Whether the run has ended. Cancellations and refused sends then do not count as errors of agents.
    closed : bool
        Whether new tasks of agents are cancelled immediately.
    is_part : bool
        Whether the run may continue after these agents have ended, because other workers run further agents.
    """

    _loop: Loop
    _contexts: Mapping[Hashable, Context]
    keys: InitVar[Keys]
    _fail: Callable[[NetsimError], None]
    _finish: Callable[[], None]
    scenery: frozenset[Hashable] = frozenset()
    main_tasks: dict[asyncio.Task[Any], Hashable] = field(default_factory=dict)
    background: dict[asyncio.Task[Any], Hashable] = field(default_factory=dict)
    over: bool = False
    closed: bool = False
    is_part: bool = False
    # The agents whose nodes have failed. Their cancellation is not an error.
    _halted: set[Hashable] = field(default_factory=set)
    # Agents that ended at the current instant.
    _ended_now: list[Hashable] = field(default_factory=list)
    # Background tasks that raised an exception that has not been retrieved: {task: (owner, text with the time)}.
    _raised: dict[Any, tuple[TaskOwner, str]] = field(default_factory=dict)
    _check_scheduled: bool = False

    def __post_init__(self, keys: Keys) -> None:
        self._unfinished = set(self._contexts)
        self.members = {
            name: TaskOwner(self.register, name, int(keys[context.number]), context.shared.clock)
            for name, context in self._contexts.items()
        }

    def start(self, name: Hashable, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start the main task of an agent."""
        self._halted.discard(name)
        context = copy_context()
        context.run(OWNER.set, self.members[name])
        main = self._loop.create_task(coroutine, context=context)
        self.main_tasks[main] = self.background.pop(main)

    def halt(self, name: Hashable) -> None:
        """Cancel an agent's tasks because its node has failed; the agent may start again."""
        self._halted.add(name)
        for task, owner in [*self.main_tasks.items(), *self.background.items()]:
            if owner == name and not task.done():
                cancel(task)

    def is_finished(self, name: Hashable) -> bool:
        """Return whether an agent's code has ended."""
        return name not in self._unfinished

    def running(self, name: Hashable) -> asyncio.Task[Any] | None:
        """Return an unfinished task of an agent, preferably its main task; None if all its tasks are done."""
        tasks = (*self.main_tasks.items(), *self.background.items())
        return next(
            (task for task, owner in tasks if owner == name and not task.done() and _runs_agent_code(task)), None
        )

    def finished(self, name: Hashable) -> None:
        """Mark an agent as finished, because its code has ended or will not restart."""
        if name in self._unfinished:
            self._unfinished.discard(name)
            if name not in self.scenery and self._unfinished <= self.scenery:
                self._finish()

    def register(self, task: Task[Any], name: Hashable) -> None:
        """Keep a reference to an agent's new task until the task is done; if ``closed``, cancel it immediately."""
        self.background[task] = name
        task.add_done_callback(self._done)
        if self.closed:
            cancel(task)

    def first_background_error(self) -> AgentError | None:
        """Return the error of the first background task whose exception has not been retrieved."""
        self._raised = {task: more for task, more in self._raised.items() if _is_unretrieved(task)}
        for task, (member, at) in self._raised.items():
            return agent_error(member.name, _exception_of(task), self._contexts[member.name], UNAWAITED, at)
        return None

    def forget_raised(self) -> None:
        """Forget all background tasks that raised, and mark their exceptions as retrieved."""
        for task in self._raised:
            task.exception()
        self._raised.clear()

    def owns(self, owner: object) -> bool:
        """Return whether ``owner`` is the `TaskOwner` of an agent of this run."""
        return isinstance(owner, TaskOwner) and self.members.get(owner.name) is owner

    def has_timers(self) -> bool:
        """Return whether an agent of this run has a pending timer."""
        return any(map(self.owns, self._timer_owners()))

    def only_scenery_acts(self) -> bool:
        """Return whether no agent except background agents has a pending timer."""
        return all(self.owns(owner) and owner.name in self.scenery for owner in self._timer_owners())

    def _timer_owners(self) -> Iterator[Any]:
        timers: list[Any] = list(self._loop.clock.pending())
        return (timer._context.get(OWNER) for timer in timers)

    def name_of(self, task: asyncio.Task[Any]) -> Hashable:
        """Return the agent whose task this is."""
        return self.main_tasks[task] if task in self.main_tasks else self.background[task]

    def failed(self, name: Hashable, error: BaseException, how: str = "") -> None:
        """End the run with an agent's error, unless its cause is the run's end or a failure of the agent's node."""
        if not (self._is_shutting_down(name) and is_shutdown_error(error)):
            self._fail(agent_error(name, error, self._contexts[name], how))

    def _done(self, task: asyncio.Task[Any]) -> None:
        if task in self.main_tasks:
            self._agent_done(task)
            return
        name = self.background.pop(task)
        if not task.cancelled() and _is_unretrieved(task):
            if self._is_shutting_down(name) and is_shutdown_error(_exception_of(task)):
                task.exception()
                return
            self._raised[task] = self.members[name], when(self._contexts[name])
            if not self._check_scheduled:
                self._check_scheduled = True
                self._loop.clock.at_instant_end(self._report_unreferenced)

    def _is_shutting_down(self, name: Hashable) -> bool:
        return self.over or name in self._halted

    def _agent_done(self, task: asyncio.Task[Any]) -> None:
        name = self.main_tasks[task]
        if name in self._halted and not self.over:
            del self.main_tasks[task]
            if not task.cancelled() and (error := task.exception()):
                self.failed(name, error)
            return
        if not self._ended_now:
            self._loop.clock.at_instant_end(self._discard_frames_of_ended)
        self._ended_now.append(name)
        if task.cancelled():
            if not self.over:
                self._fail(cancelled_error(name, task, self._contexts[name]))
                return
        elif error := task.exception():
            self.failed(name, error)
            return
        self.finished(name)

    def _discard_frames_of_ended(self) -> None:
        """If the run continues, let the inboxes of agents that have just ended discard their frames."""
        gone, self._ended_now = self._ended_now, []
        if (not self._unfinished <= self.scenery or self.is_part) and not self.over:
            busy = set(self.background.values())
            for name in gone:
                if name not in busy:
                    self._contexts[name].inbox.discard_from_now()

    def _report_unreferenced(self) -> None:
        """Let asyncio report the exceptions of background tasks that only this object still references.

        To find these tasks, briefly drop the reference to each task that raised an exception. If it was the only
        reference, Python deletes the task, and asyncio passes the exception to the loop's exception handler. The
        references to the other tasks are restored, because without them the time of a later report would depend on
        garbage collection.
        """
        self._check_scheduled = False
        for reference in [weakref.ref(task) for task in self._raised]:
            more = self._raised.pop(reference())
            task = reference()
            if task is not None and _is_unretrieved(task):
                self._raised[task] = more
            del task


class Patience:
    """Checks once per second whether only background agents still have timers, so that the others are deadlocked."""

    def __init__(self, loop: Loop, only_scenery_acts: Callable[[], bool], on_deadlock: Callable[[], None]) -> None:
        self.time = self.until = loop.now() + 1.0
        self._only_scenery_acts, self._on_deadlock = only_scenery_acts, on_deadlock

    def look(self) -> None:
        """Make the check that is due; the loop calls this as it does for each `netsim.clock.virtual_clock.Onlooker`."""
        self.time = self.until = self.time + 1.0
        if self._only_scenery_acts():
            self._on_deadlock()


def owner_of(context: Mapping[str, Any]) -> Any:
    """Return the owner of the failed task or callback in asyncio's exception context, or None."""
    if "future" in context:
        return getattr(context["future"], "owner", None)
    inherited = getattr(context.get("handle"), "_context", None)
    return None if inherited is None else inherited.get(OWNER)


def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, unless the task only closes an async generator."""
    if _runs_agent_code(task):
        task.cancel()


def _runs_agent_code(task: asyncio.Task[Any]) -> bool:
    """Return whether a task runs a coroutine; a task that only closes an async generator does not."""
    return inspect.iscoroutine(task.get_coro())


def detach(task: asyncio.Task[Any]) -> None:
    """Remove a task that ignores cancellation from asyncio's registry, and close its coroutine if possible."""
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    coroutine: Any = task.get_coro()
    with suppress(Exception):
        coroutine.close()
    if getattr(coroutine, "cr_frame", None) is None:
        task.cancel()
        return
    # The coroutine also ignored close(). So prevent the task from running, and leak a reference to the coroutine: if
    # Python deleted the coroutine, it would call close() again.
    _unschedule(task)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))


def _unschedule(task: Any) -> None:
    """Prevent a task from running again: remove its wake-up callback, and cancel its scheduled handles."""
    future = task._fut_waiter
    for callback, _ in (future and future._callbacks) or ():
        if getattr(callback, "__self__", None) is task:
            future.remove_done_callback(callback)
    for handle in ready_handles(task.get_loop()):
        if getattr(handle._callback, "__self__", None) is task:
            handle.cancel()


def ready_handles(loop: asyncio.AbstractEventLoop) -> list[Any]:
    """Return the handles that a loop is about to call."""
    return list(getattr(loop, "_ready", ()))


def _is_unretrieved(task: asyncio.Task[Any]) -> bool:
    """Return whether a task raised an exception that has not been retrieved, so that asyncio would log it."""
    return bool(task._log_traceback)


def _exception_of(task: asyncio.Task[Any]) -> BaseException:
    # Do not call task.exception(), which would mark the exception as retrieved.
    error = task._exception
    assert error is not None
    return error


# --- the end of a run -------------------------------------------------------------------------------------------------

MAX_STOP_PASSES = 100_000
"""Maximum number of event-loop iterations to stop the agents in virtual time; 100 per agent are added."""

SECONDS_PER_STOP = 10.0
"""Maximum real time (s) to stop the agents on the wall clock."""

Pending = Collection["asyncio.Task[Any]"]


async def stop(loop: Loop, tasks: AgentTasks, end_iterations: Callable[[], bool]) -> list["asyncio.Task[Any]"]:
    """Cancel all tasks of all agents, wait until they are done, and close the agents' async generators.

    Background tasks are cancelled after the main tasks are done, because agents may need background tasks to clean up.

    Parameters
    ----------
    end_iterations : callable
        Called at a deadlock; returns whether it woke a task.

    Returns
    -------
    list of tasks
        The tasks that did not end.
    """
    for main in tasks.main_tasks:
        main.cancel()
    agents = len(tasks.main_tasks)
    try:
        await _Wait(loop, agents, end_iterations).until_done(lambda: tasks.main_tasks)
        _cancel_background(tasks)
        await _Wait(loop, agents, end_iterations).until_done(lambda: [*tasks.main_tasks, *tasks.background])
        _close_generators(loop, tasks)
        await _Wait(loop, agents, end_iterations).until_done(lambda: tasks.background)
    except asyncio.CancelledError:
        # The task that runs `stop` has been cancelled: cancel the remaining tasks, and do not wait for them.
        for main in tasks.main_tasks:
            main.cancel()
        _cancel_background(tasks)
        raise
    return [task for task in (*tasks.main_tasks, *tasks.background) if not task.done()]


def _cancel_background(tasks: AgentTasks) -> None:
    tasks.closed = True
    for task in list(tasks.background):
        cancel(task)


def _close_generators(loop: Loop, tasks: AgentTasks) -> None:
    for generator, owner in list(loop.generators.items()):
        if tasks.owns(owner) and not generator.ag_running:
            context = copy_context()
            context.run(OWNER.set, owner)
            loop.create_task(generator.aclose(), context=context)


class _Wait:
    """Waits until tasks are done, no task can proceed, or a limit is exceeded."""

    def __init__(self, loop: Loop, agents: int, end_iterations: Callable[[], bool]) -> None:
        self._loop = loop
        self._clock = loop.clock
        self._passes_left = MAX_STOP_PASSES + 100 * agents
        self._end_iterations = end_iterations
        self._gave_up = False
        self._wake: asyncio.Future[None]

    async def until_done(self, tasks: Callable[[], Pending]) -> None:
        """Wait until the repeatedly called function ``tasks`` returns no unfinished task."""
        timer = None
        if self._clock.pace < math.inf:
            timer = self._loop.call_later(SECONDS_PER_STOP * self._clock.pace, self._give_up)
        else:
            self._clock.on_pass.append(self._count)
        self._clock.on_standstill.append(self._on_deadlock)
        try:
            while not self._gave_up and (pending := [task for task in tasks() if not task.done()]):
                await self._wait_for_all(pending)
        finally:
            self._clock.on_standstill.remove(self._on_deadlock)
            if timer is None:
                self._clock.on_pass.remove(self._count)
            else:
                timer.cancel()

    async def _wait_for_all(self, pending: Pending) -> None:
        wake = self._wake = self._loop.create_future()
        left = len(pending)

        def done(task: object) -> None:
            nonlocal left
            left -= 1
            if not left and not wake.done():
                wake.set_result(None)

        for task in pending:
            task.add_done_callback(done)
        await wake

    def _give_up(self) -> None:
        self._gave_up = True
        if not self._wake.done():
            self._wake.set_result(None)

    def _count(self) -> None:
        self._passes_left -= 1
        # Reset the loop's count of passes, because this wait has a different limit.
        self._clock.passes = 0
        if self._passes_left < 0:
            self._give_up()

    def _on_deadlock(self) -> None:
        if not self._end_iterations():
            self._give_up()
