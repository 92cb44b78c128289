"""The end of a run: its agents' tasks are cancelled, and waited for, but not for ever."""

import asyncio
import math
from collections.abc import Callable, Collection
from contextvars import copy_context
from typing import Any

from netsim.clock.clock import Loop
from netsim.clock.task import OWNER
from netsim.engine.tasks import AgentTasks, cancel

__all__ = ["stop"]

PASSES_PER_STOP = 100_000
"""How many passes of the event loop agents have to end, in virtual time, and for each agent 100 more."""

SECONDS_PER_STOP = 10.0
"""How many real seconds they have on the wall clock."""

Pending = Collection["asyncio.Task[Any]"]


async def stop(loop: Loop, tasks: AgentTasks, end_iterations: Callable[[], bool]) -> list["asyncio.Task[Any]"]:
    """Cancel all tasks of all agents, wait until they are done, close their async generators.

    An agent's background tasks are cancelled when the agents are done: these may need them to clean up.

    Parameters
    ----------
    end_iterations : callable
        Called at a standstill; returns whether it woke somebody.

    Returns
    -------
    list of tasks
        Those that did not end.
    """
    for main in tasks.mains:
        main.cancel()
    agents = len(tasks.mains)
    try:
        await _Wait(loop, agents, end_iterations).until_done(lambda: tasks.mains)
        _cancel_background(tasks)
        await _Wait(loop, agents, end_iterations).until_done(lambda: [*tasks.mains, *tasks.background])
        _close_generators(loop, tasks)
        await _Wait(loop, agents, end_iterations).until_done(lambda: tasks.background)
    except asyncio.CancelledError:
        # Whoever waits here is to end, too: nothing is left running, but nothing is waited for.
        for main in tasks.mains:
            main.cancel()
        _cancel_background(tasks)
        raise
    return [task for task in (*tasks.mains, *tasks.background) if not task.done()]


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
    """A wait that ends when tasks are done, when nothing can happen any more, or when it took too long."""

    def __init__(self, loop: Loop, agents: int, end_iterations: Callable[[], bool]) -> None:
        self._loop = loop
        self._instants = loop.instants
        self._passes_left = PASSES_PER_STOP + 100 * agents
        self._end_iterations = end_iterations
        self._gave_up = False
        self._wake: asyncio.Future[None]

    async def until_done(self, tasks: Callable[[], Pending]) -> None:
        """Wait for the tasks that ``tasks`` names, and for those it names then."""
        timer = None
        if self._instants.speed < math.inf:
            timer = self._loop.call_later(SECONDS_PER_STOP * self._instants.speed, self._give_up)
        else:
            self._instants.on_pass.append(self._count)
        self._instants.on_standstill.append(self._standstill)
        try:
            while not self._gave_up and (pending := [task for task in tasks() if not task.done()]):
                await self._all(pending)
        finally:
            self._instants.on_standstill.remove(self._standstill)
            if timer is None:
                self._instants.on_pass.remove(self._count)
            else:
                timer.cancel()

    async def _all(self, pending: Pending) -> None:
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
        # Time may stand still for so long: it is bounded here.
        self._instants.passes = 0
        if self._passes_left < 0:
            self._give_up()

    def _standstill(self) -> None:
        if not self._end_iterations():
            self._give_up()
