"""Agents of one class speaking and hearing at once: the steps of all, then the broadcast of each; then what each heard.

Nothing is done here that `SharingAgent.say` and `SharingAgent.hear`, which define it, would not do for each. What takes
part is checked in each round; where an agent is out of the ordinary each does its own.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from netsim.agents.consensus.censor import Always, Geometric, PowerLaw, may_silence
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.schedule import advance, schedules_of
from netsim.errors import BadInput
from netsim.round_agent import Failed, Together
from netsim.util.compiled import compiled
from netsim.util.typing import Array

if TYPE_CHECKING:
    from netsim.agents.consensus.base import SharingAgent

__all__ = ["SharedRounds", "definer", "overrides", "steps"]

steps: Any = compiled("agents.consensus._steps")
"""The compiled steps; None without them."""

_Agents = list[Any]
Steps = Callable[[_Agents], Sequence[Array] | None]


class SharedRounds(Together):
    """Takes agents of one class through their rounds, all at once.

    Parameters
    ----------
    agents : list of SharingAgent
        The agents.
    local_steps : callable
        Returns the states of all agents after a local step, or None if each must do its own.
    after : callable
        Does for agents what the `SharingAgent.after_sharing` of each would do.
    """

    def __init__(self, agents: "Sequence[SharingAgent]", local_steps: Steps, after: Callable[[_Agents], None]) -> None:
        self._agents = list(agents)
        self._local_steps = local_steps
        self._after = after
        self._outboxes = [agent.outbox for agent in agents]
        self._inboxes = [agent.inbox for agent in agents]
        self._sharings: list[Sharing] = []
        self._are_usual = False

    def say(self, k: int, failed: Failed) -> bool:
        """Let all agents do their steps, and then broadcast their states unless these are censored."""
        if not self._usual() or not self._advanced(k):
            return False
        agents, sharings = self._agents, self._sharings
        states = self._local_steps(agents)
        if states is None:
            return False
        if len(states) != len(agents):
            what = f"{type(agents[0]).__name__}.local_steps() returned {len(states)} states"
            raise BadInput(f"{what}, but must return one for each of the {len(agents)} agents")
        for place, (agent, state) in enumerate(zip(agents, states, strict=True)):
            if getattr(state, "shape", None) != agent.theta.shape:
                # What is of another shape cannot be censored either, so nobody speaks: the run ends.
                failed(place, agent._refused(state))
                return True
        for place, (agent, sharing, outbox, state, speaks) in enumerate(
            zip(agents, sharings, self._outboxes, states, self._speaking(states, k), strict=True)
        ):
            agent.theta = state
            if speaks:
                try:
                    coded, known = sharing._code(state, state - sharing.own if sharing._sends_changes else state)
                    sharing._said(state, known, outbox.broadcast(sharing._kind, coded, k, False))
                except Exception as error:
                    failed(place, error)
            if sharing._may_be_censored:
                sharing._may_be_censored = may_silence(sharing._censor, k)
        return True

    def hear(self, k: int, until: float, failed: Failed) -> bool:
        """Let what arrived into the agents' copies, and update the agents."""
        if not self._usual():
            return False
        heard = self._agents
        for place, (inbox, sharing) in enumerate(zip(self._inboxes, self._sharings, strict=True)):
            try:
                inbox.take_into(sharing.copies, until, add=sharing._sends_changes)
            except Exception as error:
                failed(place, error)
                heard = [agent for agent in heard if agent is not self._agents[place]]
        self._after(heard)
        return True

    def _usual(self) -> bool:
        """Return whether all agents have a sharing of the usual kind; one that has just begun anew has none."""
        sharings = [vars(agent).get("sharing") for agent in self._agents]
        if sharings != self._sharings:
            self._are_usual = all(map(_is_usual, sharings))
            self._sharings = sharings  # type: ignore[assignment]
        return self._are_usual and not any(sharing.only_present for sharing in self._sharings)

    def _advanced(self, k: int) -> bool:
        """Give all scheduled fields their values of round k; return whether all have one."""
        try:
            for agent in self._agents:
                if schedules_of(agent):
                    advance(agent, k)
        except BadInput:
            # Each agent will find its own again.
            return False
        return True

    def _speaking(self, states: Sequence[Array], k: int) -> Sequence[bool]:
        """Return whether each agent is to broadcast its state."""
        censors = [sharing._censor for sharing in self._sharings]
        if all(type(censor) is Always for censor in censors):
            return [True] * len(censors)
        squares = _squares(states, self._sharings)
        return [
            not isinstance(censor, (Geometric, PowerLaw)) or censor.lets_through(square, k)
            for censor, square in zip(censors, squares, strict=True)
        ]


def _squares(states: Sequence[Array], sharings: Sequence[Sharing]) -> Sequence[float]:
    """Return ‖θ_i − θ̂_i‖² of each agent."""
    found: list[float] | None = None if steps is None else steps.squares(states, sharings)
    if found is None:
        changes = [(state - sharing.own).ravel() for state, sharing in zip(states, sharings, strict=True)]
        found = [float(change.dot(change)) for change in changes]
    return found


def _is_usual(sharing: Sharing | None) -> bool:
    """Return whether a sharing is as `Sharing` has it, and its censor and coder are netsim's own."""
    return (
        type(sharing) is Sharing
        and type(sharing._censor) in (Always, Geometric, PowerLaw)
        and type(sharing._coder).__module__.startswith("netsim.coders.")
        and sharing._repairs is None
        and not sharing._key_every
    )


def definer(kind: type, name: str) -> type:
    """Return the class in whose body a class finds a method; `object` if there is none."""
    return next((each for each in kind.__mro__ if name in vars(each)), object)


def overrides(kind: type, base: type) -> bool:
    """Return whether a class, or one between it and ``base``, has a method or property in place of one of ``base``."""
    fields = vars(base).get("__dataclass_fields__", ())
    for each in kind.__mro__[: kind.__mro__.index(base)]:
        for name, value in vars(each).items():
            is_plain = name.startswith("__") or not (callable(value) or hasattr(type(value), "__get__"))
            if not is_plain and (name in fields or hasattr(base, name)):
                return True
    return False
