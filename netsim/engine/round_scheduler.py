"""Run the rounds of many agents in a batch: one callback for all agents as a round opens, and one as it closes.

The main task of an agent in a batch only calls `begin`, and then waits for the end of the agent's rounds. The callbacks
replace the agent's `say` and `hear`, and call the agent's other methods in a copy of the context of its task. If an
agent's class or a method is replaced during the run, the agent leaves the batch and continues in its task.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Hashable, Mapping
from contextvars import copy_context
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from netsim.context import Rounds
from netsim.round_agent import BatchRounds, Call, Failed, RoundAgent, has_own_method
from netsim.transport.shared import Shared

if TYPE_CHECKING:
    from netsim.engine.runtime import Runtime

__all__ = ["RoundScheduler", "scheduled"]

ENABLED = True
"""Whether agents run in batches; tests disable batches to compare with runs in which each agent's task runs its
rounds."""

_STOPS = (KeyboardInterrupt, SystemExit)
"""Exceptions that end the event loop immediately; any other exception ends the task of the agent that raised it."""


class _Member:
    """An agent of a batch, and the agent's rounds.

    The result of the future ``over`` is 0 at the end of the agent's rounds. If the agent leaves the batch earlier, the
    result is the number of the first round that the agent's task must run itself.
    """

    __slots__ = ("agent", "context", "over", "rounds", "variables")

    def __init__(self, agent: RoundAgent, rounds: Rounds) -> None:
        self.agent, self.context, self.rounds = agent, agent._netsim, rounds
        self.variables = copy_context()
        self.over: asyncio.Future[int] = self.context.shared.loop.create_future()


class RoundScheduler:
    """Runs the rounds of a batch of agents. It waits for each round once, and the agents then act one after another.

    Parameters
    ----------
    shared : Shared
        The state that the agents share.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._rounds = shared.rounds
        # The agents of the batch, in order. This is a dictionary, because removing many agents from a list would be
        # slow.
        self._members: dict[_Member, None] = {}
        # The batch object, the list of its members, and the functions that the batch calls. None if the members have
        # changed since it was made.
        self._batch: tuple[BatchRounds, list[_Member], Call, Failed] | None = None
        # The context of the callbacks, which belong to no agent. By default, a callback would run in the context of the
        # agent whose task adds the callback.
        self._variables = copy_context()

    async def run(self, agent: RoundAgent) -> None:
        """Do the same as `RoundAgent.run`; this is the coroutine of an agent's main task."""
        agent.begin()
        rounds = agent.rounds(agent.count)
        if not rounds.goes_on():
            rounds.leave()
            return
        member = _Member(agent, rounds)
        if not self._members:
            self._wait_for_opening()
        self._members[member] = self._batch = None
        try:
            number = await member.over
        except BaseException:
            self._forget(member)
            rounds.leave()
            raise
        if number:
            await agent.say(number)
            frames = await agent.collect()
            agent.hear(frames, number)
            async for k in rounds:
                await agent.say(k)
                frames = await agent.collect()
                agent.hear(frames, k)

    def _forget(self, member: _Member) -> None:
        self._members.pop(member, None)
        self._batch = None

    def _current(self) -> tuple[BatchRounds, list[_Member], Call, Failed]:
        if self._batch is None:
            members = list(self._members)
            batch = type(members[0].agent).batch([member.agent for member in members])
            assert batch is not None

            def failed(place: int, error: BaseException) -> None:
                self._failed(members[place], error)

            def call(place: int, function: Any, *values: Any) -> None:
                try:
                    members[place].variables.run(function, *values)
                except _STOPS:
                    raise
                except BaseException as error:
                    failed(place, error)

            self._batch = batch, members, call, failed
        return self._batch

    def _wait_for_opening(self) -> None:
        self._rounds.opening().add_done_callback(self._opened, context=self._variables)

    def _opened(self, opening: "asyncio.Future[int]") -> None:
        if self._shared.over:
            # The run ended between the opening of the round and this callback. Do nothing: the end of the run cancels
            # all agents.
            return
        number = opening.result()
        for member in self._members:
            context = member.context
            if context.first_round:
                context.round = number
            else:
                member.rounds.enter(number)
            context.collected = number
        if not self._members:
            return
        batch, members, call, failed = self._current()
        if own_ways := batch.own_ways():
            for place in own_ways:
                # Mark this round as not collected, so that the agent's task collects the frames of the round.
                members[place].context.collected = number - 1
                self._release(members[place], number)
            if not self._members:
                return
            batch, members, call, failed = self._current()
        self._do(batch.say, number, call, failed)
        if self._members:
            self._rounds.closing().add_done_callback(self._closed, context=self._variables)

    def _closed(self, closing: "asyncio.Future[int]") -> None:
        if self._shared.over or not self._members:
            return
        number, rounds = closing.result(), self._rounds
        deadline = rounds.open_deadline if number == rounds.open_round else rounds.deadline(number)
        batch, _, call, failed = self._current()
        self._do(batch.hear, number, deadline, call, failed)
        for member in [each for each in self._members if not each.rounds.goes_on()]:
            member.rounds.leave()
            self._release(member, 0)
        if self._members:
            self._wait_for_opening()

    def _do(self, work: Callable[..., None], *arguments: Any) -> None:
        """Call a method of the batch; an error that comes from no particular agent is reported as the first agent's."""
        try:
            work(*arguments)
        except _STOPS:
            raise
        except BaseException as error:
            arguments[-1](0, error)

    def _release(self, member: _Member, number: int) -> None:
        self._forget(member)
        if not member.over.done():
            member.over.set_result(number)

    def _failed(self, member: _Member, error: BaseException) -> None:
        self._forget(member)
        if not member.over.done():
            member.over.set_exception(_out_of_a_coroutine(error) if isinstance(error, StopIteration) else error)


def _out_of_a_coroutine(error: StopIteration) -> RuntimeError:
    replaced = RuntimeError("coroutine raised StopIteration")
    replaced.__cause__ = error
    return replaced


def scheduled(run: "Runtime") -> Mapping[Hashable, Callable[[], Coroutine[Any, Any, None]]]:
    """Return {agent name: function that creates the main coroutine} for the agents that run in batches."""
    settings = run.settings
    observed = run.result.watch is not None or settings.viewer is not None
    timed = run.loop.clock.pace < math.inf
    special = run.medium is not None or settings.inbox_limit is not None or settings.link.reliability_model.numbers
    special = special or settings.compute is not None or settings.order is not None
    if not ENABLED or observed or timed or special or settings.faults:
        return {}
    found: dict[Hashable, Callable[[], Coroutine[Any, Any, None]]] = {}
    # Only consecutive agents of a class form a batch, so that all agents act in the same order as without batches.
    alike = groupby(run.result.agents.items(), lambda item: (type(item[1]), has_own_method(item[1])))
    for (kind, has_own), items in alike:
        members = dict(items)
        fits = not has_own and issubclass(kind, RoundAgent) and kind.run is RoundAgent.run
        if fits and kind.batch(list(members.values())) is not None:
            scheduler = RoundScheduler(run.shared)
            found |= {name: partial(scheduler.run, agent) for name, agent in members.items()}
    return found
