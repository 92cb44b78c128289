"""Taking agents through their rounds together: one callback as a round opens, one as it closes, whatever their number.

The main task of a driven agent only begins, and then waits for the end of its rounds. Its `say` and `hear` are called
here, with that task as the current one and in a copy of its context, so that they cannot tell the difference. An agent
whose `say` waits goes on in its task from there, as if never driven.
"""

import asyncio
import math
import types
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Mapping
from contextvars import copy_context
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from netsim.context import Rounds
from netsim.round_agent import RoundAgent, Together
from netsim.transport.heard import Heard
from netsim.transport.shared import Shared

if TYPE_CHECKING:
    from netsim.engine.runtime import Runtime

__all__ = ["Driver", "driven", "resumed_in"]

ENABLED = True
"""Whether agents are driven at all; tests compare a run with one in which each wakes for its rounds."""

_T = TypeVar("_T")

_STOPS = (KeyboardInterrupt, SystemExit)
"""What leaves the event loop at once; a task passes on what else its code raises."""


class _Member:
    """A driven agent with its task and its rounds; ``over`` is done when the driver is done with it.

    That is at the end of its rounds, or if its `say` waits: then ``waiting`` is the coroutine and what that waits for.
    """

    __slots__ = ("agent", "context", "over", "rounds", "task", "variables", "waiting")

    def __init__(self, agent: RoundAgent, rounds: Rounds) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.agent, self.context, self.rounds, self.task = agent, agent._netsim, rounds, task
        self.variables = copy_context()
        self.over: asyncio.Future[None] = self.context.shared.loop.create_future()
        self.waiting: tuple[Coroutine[Any, Any, None], Any] | None = None

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call the agent's code as its task would."""
        loop = self.context.shared.loop
        _enter_task(loop, self.task)
        try:
            return self.variables.run(function, *arguments)
        finally:
            _leave_task(loop, self.task)


class Driver:
    """Drives agents that start one right after the other; among all tasks they keep that place, as a single one.

    Parameters
    ----------
    shared : Shared
        The state that the agents share.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._rounds = shared.rounds
        # In their order; a dictionary, because many may leave at once.
        self._members: dict[_Member, None] = {}
        # The members, in their order, by what speaks and hears for them (None: each for itself); None: not known yet.
        self._groups: list[tuple[Together | None, list[_Member]]] | None = None
        # The callbacks belong to no agent.
        self._variables = copy_context()

    async def run(self, agent: RoundAgent) -> None:
        """Do what `RoundAgent.run` does: the coroutine of an agent's main task."""
        agent.begin()
        rounds = agent.rounds(agent.count)
        if not rounds.goes_on():
            rounds.leave()
            return
        rest = await self._take(agent, rounds)
        if rest is not None:
            await rest
            frames = await agent.collect()
            agent.hear(frames, agent.round)
            async for k in rounds:
                await agent.say(k)
                frames = await agent.collect()
                agent.hear(frames, k)

    async def _take(self, agent: RoundAgent, rounds: Rounds) -> Awaitable[None] | None:
        """Drive an agent to the end of its rounds, or until its `say` waits: then return the rest of that."""
        member = _Member(agent, rounds)
        if not self._members:
            self._wait_for_opening()
        self._members[member] = None
        self._groups = None
        cancelled = None
        try:
            await member.over
        except BaseException as error:
            self._forget(member)
            if member.waiting is None:
                rounds.leave()
                raise
            # The agent cancelled its own task.
            cancelled = error
        return None if member.waiting is None else _resumed(*member.waiting, cancelled)

    def _forget(self, member: _Member) -> None:
        self._members.pop(member, None)
        self._groups = None

    def _grouped(self) -> list[tuple[Together | None, list[_Member]]]:
        """Return the members by what speaks and hears for them: neighbours in their order, of one class."""
        if self._groups is None:
            of_one_class = (list(each) for _, each in groupby(self._members, lambda member: type(member.agent)))
            self._groups = [
                (type(each[0].agent).together([member.agent for member in each]), each) for each in of_one_class
            ]
        return self._groups

    def _wait_for_opening(self) -> None:
        self._rounds.opening().add_done_callback(self._opened, context=self._variables)

    def _opened(self, opening: "asyncio.Future[int]") -> None:
        if self._shared.over:
            # The run has ended since, and cancels the agents.
            return
        number = opening.result()
        for member in self._members:
            if member.context.first_round:
                member.context.round = number
            else:
                member.rounds.enter(number)
        for together, members in self._grouped():
            if together is not None and self._do(together.say, members, number):
                for member in members:
                    member.context.collected = number
            else:
                for member in members:
                    self._say(member, number)
        if self._members:
            self._rounds.closing().add_done_callback(self._closed, context=self._variables)

    def _closed(self, closing: "asyncio.Future[int]") -> None:
        if self._shared.over:
            return
        number, rounds = closing.result(), self._rounds
        deadline = rounds.open_deadline if number == rounds.open_round else rounds.deadline(number)
        for together, members in self._grouped():
            if together is None or not self._do(together.hear, members, number, deadline):
                for member in members:
                    self._hear(member, number, deadline)
        for member in list(self._members):
            if not member.rounds.goes_on():
                member.rounds.leave()
                self._release(member)
        if self._members:
            self._wait_for_opening()

    def _do(self, work: Callable[..., bool], members: list[_Member], *arguments: Any) -> bool:
        """Let the work be done for several agents; return whether it was."""
        try:
            return work(*arguments, lambda place, error: self._failed(members[place], error))
        except _STOPS:
            raise
        except BaseException as error:
            self._failed(members[0], error)
            return True

    def _say(self, member: _Member, number: int) -> None:
        say = _say(member.agent, number)
        try:
            awaited = member.call(say.send, None)
        except StopIteration:
            member.context.collected = number
        except _STOPS:
            raise
        except BaseException as error:
            self._failed(member, error)
        else:
            member.waiting = say, awaited
            self._release(member)

    def _hear(self, member: _Member, number: int, deadline: float) -> None:
        try:
            member.call(member.agent.hear, Heard(member.context.inbox.take_true(deadline)), number)
        except _STOPS:
            raise
        except BaseException as error:
            self._failed(member, error)

    def _release(self, member: _Member) -> None:
        self._forget(member)
        if not member.over.done():
            member.over.set_result(None)

    def _failed(self, member: _Member, error: BaseException) -> None:
        self._forget(member)
        if not member.over.done():
            member.over.set_exception(_out_of_a_coroutine(error) if isinstance(error, StopIteration) else error)


async def _say(agent: RoundAgent, number: int) -> None:
    await agent.say(number)


def _out_of_a_coroutine(error: StopIteration) -> RuntimeError:
    replaced = RuntimeError("coroutine raised StopIteration")
    replaced.__cause__ = error
    return replaced


@types.coroutine
def _resumed(
    started: Coroutine[Any, Any, None], awaited: Any, error: BaseException | None
) -> Generator[Any, None, None]:
    """Go on with a coroutine that waits for ``awaited``, or begin with an error that is raised there."""
    try:
        while True:
            if error is None:
                try:
                    yield awaited
                except BaseException as thrown:
                    error = thrown
            awaited = started.send(None) if error is None else started.throw(error)
            error = None
    except StopIteration:
        return


def resumed_in(awaited: object) -> object:
    """Return the coroutine with which a driven agent goes on in its task, if that is awaited; else what is awaited."""
    if getattr(awaited, "gi_code", None) is _resumed.__code__:
        return awaited.gi_frame.f_locals["started"]  # type: ignore[attr-defined]
    return awaited


def driven(run: "Runtime") -> Mapping[Hashable, Callable[[], Coroutine[Any, Any, None]]]:
    """Return, by name, what makes the coroutine of each agent that is driven; the others are woken for their rounds."""
    settings = run.settings
    observed = run.result.watch is not None or settings.viewer is not None
    timed = run.loop.clock.speed < math.inf
    special = run.medium is not None or settings.inbox_limit is not None or settings.link.reliability_model.numbers
    if not ENABLED or observed or timed or special or settings.faults or settings.compute is not None:
        return {}
    found = {}
    driver: Driver | None = None
    for name, agent in run.result.agents.items():
        if isinstance(agent, RoundAgent) and getattr(agent.run, "__func__", None) is RoundAgent.run:
            driver = driver or Driver(run.shared)
            found[name] = partial(driver.run, agent)
        else:
            # This one has its turn after those before it and before those after it.
            driver = None
    return found
