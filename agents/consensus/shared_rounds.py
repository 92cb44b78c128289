"""Run the rounds of all agents of one class together: first all local steps, then all broadcasts, then all updates.

The results equal those of `SharingAgent.say` and `SharingAgent.hear`. Each round checks the classes of the agents, of
their `Sharing` objects and of their costs. If the joint steps do not support a class, the two methods are called
instead.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from netsim.agents.consensus.censor import Always, Threshold, may_silence
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.schedule import advance, schedules_of
from netsim.coders import Exact, Float
from netsim.errors import BadInput
from netsim.round_agent import BatchRounds, Call, Failed, complete
from netsim.util.compiled import compiled
from netsim.util.typing import Array

if TYPE_CHECKING:
    from netsim.agents.consensus.base import SharingAgent

__all__ = ["SharedRounds", "compiled_steps", "steps"]

steps: Any = compiled("agents.consensus._steps")
"""The compiled module. None if it was not built or is disabled; each agent then takes its own step in Python."""

_Agents = list[Any]
Steps = Callable[[_Agents], Sequence[Array] | None]


def compiled_steps(name: str) -> Any:
    """Return a class method that calls the compiled function ``name``, or returns None if it is not compiled.

    Classes use it as their `SharingAgent.local_steps`.
    """
    return classmethod(lambda cls, agents: None if steps is None else getattr(steps, name)(agents))


class SharedRounds(BatchRounds):
    """Runs the rounds of agents of one class that exchange their states with neighbours.

    Parameters
    ----------
    agents : list of SharingAgent
        The agents.
    local_steps : callable
        Returns the states of all agents after a local step, or None if each agent must take its own step.
    update : callable or None
        Does the work of `SharingAgent.after_sharing` for all agents in one call, and returns True. If ``update`` is
        None or returns False, `after_sharing` is called for each agent.
    """

    def __init__(
        self, agents: "Sequence[SharingAgent]", local_steps: Steps, update: Callable[[_Agents], bool] | None
    ) -> None:
        super().__init__(agents)
        self._local_steps = local_steps
        self._update = update
        self._schedules = [schedules_of(agent) for agent in agents]
        self._outboxes = [agent.outbox for agent in agents]
        self._inboxes = [agent.inbox for agent in agents]
        # The agents' `Sharing` objects at the last check by `own_ways`.
        self._sharings: list[Any] = []
        # `_have_begun`: every agent has a `Sharing`. `_fits`: the joint steps support all these `Sharing` objects.
        # `_is_exact`: the agents' coders are `Exact`. `_is_single`: the agents' coders are 32-bit `Float`.
        # `_may_silence`: the censor may have suppressed all broadcasts of an agent so far.
        self._have_begun = self._fits = self._is_exact = self._is_single = self._may_silence = False
        self._censor: Always | Threshold = Always()

    def own_ways(self) -> list[int]:
        """Return the indices of the agents that must run their rounds in separate tasks.

        If an agent has a new `Sharing`, also check whether the joint steps support the `Sharing` objects of all agents.
        """
        if steps is None or not steps.are_as_seen(self._agents, self._seen, self._sharings):
            sharings = [vars(agent).get("sharing") for agent in self._agents]
            if super().own_ways() or sharings != self._sharings:
                self._sharings = sharings
                self._study(sharings)
        return self._own_ways

    def say(self, k: int, call: Call, failed: Failed) -> None:
        """Take the local steps of all agents, and then broadcast the states that are not censored."""
        found = self._local_steps(self._agents) if self._have_begun and self._advance(k) else None
        if found is None:
            super().say(k, call, failed)
            return
        states = list(found)
        if not self._take(states, failed):
            return
        if not self._fits:
            for place, (agent, sharing) in enumerate(zip(self._agents, self._sharings, strict=True)):
                call(place, complete, sharing.say, agent.theta, k)
            return
        speaking = self._speaking(states, k)
        # For each agent, the float32 array to send and the state decoded from it; None unless the coder is `Float(32)`.
        coded = steps.rounded(states) if self._is_single else None
        if steps is not None and (self._is_exact or coded is not None):
            steps.broadcast(self._sharings, self._outboxes, states, coded, speaking, k, failed)
        else:
            self._broadcast(states, speaking, k, failed)
        if self._may_silence and not may_silence(self._censor, k):
            self._may_silence = False
            for sharing in self._sharings:
                sharing._may_be_censored = False

    def hear(self, k: int, until: float, call: Call, failed: Failed) -> None:
        """Apply the received frames to the agents' copies, and update the agents."""
        if self.own_ways() or not self._fits:
            super().hear(k, until, call, failed)
            return
        adds = self._sharings[0]._sends_changes
        heard = (_hear if steps is None else steps.hear)(self._inboxes, self._sharings, until, adds, failed)
        if self._update is None or not self._update([self._agents[place] for place in heard]):
            for place in heard:
                call(place, self._agents[place].after_sharing)

    def _study(self, sharings: list[Any]) -> None:
        """Check whether the joint steps support all ``sharings``; if so, store their censor and the kind of coder."""
        self._have_begun = None not in sharings
        self._fits = all(type(sharing) is Sharing for sharing in sharings) and all(
            sharing._repairs is None
            and not (sharing._key_every or sharing.only_present)
            and sharing._censor == sharings[0]._censor
            and type(sharing._coder) is type(sharings[0]._coder)
            and sharing._sends_changes == sharings[0]._sends_changes
            for sharing in sharings
        )
        if not self._fits:
            return
        censor, coders = sharings[0]._censor, [sharing._coder for sharing in sharings]
        self._fits = isinstance(censor, Always | Threshold) and _is_ours(censor) and _is_ours(coders[0])
        self._censor = censor
        self._is_exact = type(coders[0]) is Exact
        self._is_single = steps is not None and type(coders[0]) is Float and all(each.bits == 32 for each in coders)
        self._may_silence = any(sharing._may_be_censored for sharing in sharings)

    def _advance(self, k: int) -> bool:
        """Set scheduled parameters to their values in round k; return False if a schedule gives an invalid value."""
        if not any(self._schedules):
            return True
        try:
            for agent in self._agents:
                advance(agent, k)
        except BadInput:
            # `SharingAgent.say` evaluates the schedules again, so that the error ends only the agent that causes it.
            return False
        return True

    def _take(self, states: list[Array], failed: Failed) -> bool:
        """Set the agents' states; if one has the wrong shape, report its agent to ``failed`` and return False."""
        if len(states) != len(self._agents):
            what = f"{type(self._agents[0]).__name__}.local_steps() returned {len(states)} states"
            raise BadInput(f"{what}, but must return one for each of the {len(self._agents)} agents")
        wrong = (_take if steps is None else steps.take)(self._agents, states)
        if wrong >= 0:
            failed(wrong, self._agents[wrong]._refused(states[wrong]))
        return bool(wrong < 0)

    def _broadcast(self, states: Sequence[Array], speaking: Sequence[bool], k: int, failed: Failed) -> None:
        """Encode and broadcast the states of the agents for which ``speaking`` is True."""
        for place, (sharing, outbox, state) in enumerate(zip(self._sharings, self._outboxes, states, strict=True)):
            if not speaking[place]:
                continue
            try:
                coded, known = sharing._code(state, state - sharing.own if sharing._sends_changes else state)
                sharing._said(state, known, outbox.broadcast(sharing._kind, coded, k, False))
            except Exception as error:
                failed(place, error)

    def _speaking(self, states: list[Array], k: int) -> list[bool]:
        """Return for each agent whether it broadcasts its state, as the censor decides."""
        censor = self._censor
        if isinstance(censor, Always):
            return [True] * len(states)
        limit = censor.threshold(k)
        found: list[bool] | None = None
        if steps is not None:
            found = steps.exceed(states, self._sharings, limit, censor.squared)
        if found is None:
            changes = [(state - sharing.own).ravel() for state, sharing in zip(states, self._sharings, strict=True)]
            squares = [float(change.dot(change)) for change in changes]
            found = [(square if censor.squared else math.sqrt(square)) >= limit for square in squares]
        return found


def _take(agents: _Agents, states: list[Array]) -> int:
    """Set the agents' states in order. Stop at a state of the wrong shape and return its index; return -1 if none."""
    for place, (agent, state) in enumerate(zip(agents, states, strict=True)):
        if getattr(state, "shape", None) != agent.theta.shape:
            return place
        agent.theta = state
    return -1


def _hear(inboxes: list[Any], sharings: list[Any], until: float, adds: bool, failed: Failed) -> list[int]:
    """Apply the received frames to the agents' copies; return the indices of the agents without an error."""
    heard = []
    for place, (inbox, sharing) in enumerate(zip(inboxes, sharings, strict=True)):
        try:
            inbox.take_into(sharing.copies, until, adds)
            heard.append(place)
        except Exception as error:
            failed(place, error)
    return heard


def _is_ours(thing: object) -> bool:
    return type(thing).__module__.startswith("netsim.")
