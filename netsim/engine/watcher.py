"""When the states that are watched are looked at, so that each change is known at the instant at which it comes.

An agent's state changes as its code runs. Whose code is called is noted; at the end of the instant, before time passes,
these agents are looked at. An agent that sends is looked at before its message leaves, too: so what it said is known to
come after what it was when it said it, also where it changes once more at the same instant. At each row, and at each
action of `Network.at`, all agents count as called.

Nothing here makes time pass, sets a timer or wakes an agent: a run is the same whether or not it is watched.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextvars import Context as Variables

from netsim.agent import Agent
from netsim.clock.clock import Loop
from netsim.clock.task import OWNER
from netsim.engine.tasks import AgentTasks, Member
from netsim.errors import NetsimError
from netsim.transport.context import Context
from netsim.transport.shared import Shared
from netsim.watch import Watch

__all__ = ["Watcher"]


class Watcher:
    """Who looks at the agents of one run; an onlooker of its loop (`netsim.clock.instants.Onlooker`).

    Parameters
    ----------
    watch : Watch
        Where states are kept.
    loop : Loop
        The run's loop.
    contexts : mapping
        The agents' contexts by their names.
    tasks : AgentTasks
        Knows whose calls are those of agents of this run.
    shared : list of Shared
        What the agents share, by clock.
    fail : callable
        Called with the error, if a state cannot be had.
    """

    def __init__(
        self,
        watch: Watch,
        loop: Loop,
        contexts: Mapping[Hashable, Context],
        tasks: AgentTasks,
        shared: list[Shared],
        fail: Callable[[NetsimError], None],
    ) -> None:
        self._watch, self._loop, self._contexts, self._tasks = watch, loop, contexts, tasks
        self._shared, self._fail = shared, fail
        self._agents: Mapping[Hashable, Agent] = {}
        # Those whose code may have run at this instant, in the order in which it was called.
        self._called: dict[Hashable, None] = {}
        # What an agent sets only once it runs is not there at the beginning.
        self._early = True

    @property
    def time(self) -> float:
        """When to look, in seconds: before time passes, if anybody was called."""
        return -math.inf if self._called else math.inf

    until = time

    def start(self, agents: Mapping[Hashable, Agent]) -> None:
        """Look at these agents from now on."""
        self._agents = agents
        self.call(agents)
        self.look()
        self._loop.instants.onlookers.append(self)
        self._loop.note_calls(self._note)
        for shared in self._shared:
            shared.tell_sends(self._look)

    def stop(self, whole: bool) -> None:
        """Look for the last time; ``whole``: the run has come to its end, so what is not there by now never was."""
        if self._early and whole:
            self.row_written()
        self.look()
        if self in self._loop.instants.onlookers:
            self._loop.instants.onlookers.remove(self)
            self._loop.forget_calls(self._note)
        for shared in self._shared:
            shared.tell_sends(None)

    def call(self, names: Iterable[Hashable]) -> None:
        """Take note that something may change these agents at this instant."""
        self._called.update(dict.fromkeys(names))

    def row_written(self) -> None:
        """Look at all agents at this instant: what is watched may depend on others than the agent."""
        self._early = False
        self.call(self._agents)

    def look(self) -> None:
        """Look at those who were called."""
        called, self._called = self._called, {}
        for name in called:
            self._look(name)

    def _note(self, variables: Variables) -> None:
        """Take note of whose code is called in some context."""
        owner = variables.get(OWNER)
        if isinstance(owner, Member) and self._tasks.owns(owner):
            self._called[owner.name] = None

    def _look(self, name: Hashable) -> None:
        """Look at an agent, which may be about to send."""
        sent = self._contexts[name].outbox.sent
        try:
            self._watch.look(name, self._agents[name], self._loop.now(), sent, self._early)
        except NetsimError as error:
            self._fail(error)
