"""Invariants for `netsim.testing.search`: each function returns a class, and each run creates an instance of it."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from netsim.checkers.explain import find_contradiction
from netsim.checkers.models import Model, register, transactions
from netsim.checkers.operations import operations
from netsim.checkers.order import Undecided
from netsim.util import check

__all__ = [
    "agreement",
    "all_of",
    "at_most_one",
    "eventually",
    "linearizable",
    "no_lost_update",
    "one_leader_a_term",
    "serializable",
]

Agents = Mapping[Any, Any]


class Invariant:
    """A condition that must hold after each instant, and at the end; raises AssertionError.

    The invariants below override one or both methods, which themselves check nothing.
    """

    def __call__(self, agents: Agents) -> None:
        """Check the states after an instant."""

    def at_end(self, agents: Agents) -> None:
        """Check the states and the history at the end of the run."""


def linearizable(model: Model = register, initial: Hashable = None) -> type[Invariant]:
    """The recorded results are those of some sequential order in which each operation takes effect during its call.

    Operations on different keys are checked separately. If one operation ends at the time at which another begins,
    either may be first, because the order of two agents within an instant has no meaning; operations of one agent keep
    their order. If the search takes more than 25,000 steps, a warning reports that the run is undecided.

    Parameters
    ----------
    model : Model
        The data type: `register` (also for each key of a key–value store), `mutex`, `queue`, or a user-defined model.
    initial : Hashable, optional
        The initial state; default: that of the model.

    Raises
    ------
    BadInput
        At the end of a run with an operation that the model lacks.
    """
    return _explained(_beginning(model, initial), timed=True)


def serializable(initial: Mapping[Any, Any] | None = None) -> type[Invariant]:
    """Some serial order of the recorded transactions explains all values that they read.

    Record a transaction as ``invoke(self, "transaction", [("read", "x"), ("write", "y", 3)])``, with the values read as
    the result. To require that this order also respects time, use ``linearizable(transactions)``.

    Parameters
    ----------
    initial : mapping, optional
        The initial content of the store.
    """
    first = None if initial is None else frozenset(check.mapping("initial", initial).items())
    return _explained(_beginning(transactions, first), timed=False)


def _beginning(model: Model, initial: Hashable) -> Model:
    check.instance("model", model, Model, "a netsim.checkers.Model")
    return model if initial is None else dataclasses.replace(model, initial=initial)


def _explained(model: Model, timed: bool) -> type[Invariant]:
    class Explained(Invariant):
        def at_end(self, agents: Agents) -> None:
            calls = operations(agents)
            try:
                found = find_contradiction(calls, model, timed=timed)
            except Undecided:
                check.doubt(
                    f"history of {len(calls)} operations: undecided; more keys, or fewer that are unknown, help"
                )
                return
            if found is not None:
                raise AssertionError(str(found))

    return Explained


def no_lost_update(read: Callable[[Agents], float], name: str = "add") -> type[Invariant]:
    """At the end ``read(agents)`` is the sum of all acknowledged additions and of some additions with unknown outcome.

    Parameters
    ----------
    read : callable
        Returns the total that the agents hold.
    name : str
        The operation that adds; its value is a number.
    """
    check.instance("read", read, Callable, "a function")

    class NoLostUpdate(Invariant):
        def at_end(self, agents: Agents) -> None:
            added = [each for each in operations(agents) if each.name == name]
            sure = [each for each in added if each.outcome == "ok"]
            unknown = [each.value for each in added if each.outcome == "unknown"]
            known, found = sum(each.value for each in sure), read(agents)
            least = known + sum(value for value in unknown if value < 0)
            most = known + sum(value for value in unknown if value > 0)
            range_ = f"{least:g}" if least == most else f"{least:g} to {most:g}"
            if not least <= found <= most:
                raise AssertionError(f"{found:g} in place of {range_}: {'; '.join(map(str, sure))}")

    return NoLostUpdate


def at_most_one(holds: Callable[[Any], Any], what: str = "hold it") -> type[Invariant]:
    """At no time is ``holds(agent)`` true of two agents."""
    check.instance("holds", holds, Callable, "a function")

    class AtMostOne(Invariant):
        def __call__(self, agents: Agents) -> None:
            who = [name for name, agent in agents.items() if holds(agent)]
            if len(who) > 1:
                raise AssertionError(f"{who} {what}")

    return AtMostOne


def _role_is_leader(agent: Any) -> bool:
    return bool(agent.role == "leader")


def _term(agent: Any) -> Hashable:
    return agent.term  # type: ignore[no-any-return]


def one_leader_a_term(
    leads: Callable[[Any], Any] = _role_is_leader, term: Callable[[Any], Hashable] = _term
) -> type[Invariant]:
    """Each term has at most one leader.

    Parameters
    ----------
    leads, term : callable
        Called with an agent; return whether it leads, and its term.
        By default ``agent.role == "leader"`` and ``agent.term``.
    """
    check.instance("leads", leads, Callable, "a function")
    check.instance("term", term, Callable, "a function")

    class OneLeaderATerm(Invariant):
        def __init__(self) -> None:
            self.leader: dict[Hashable, Hashable] = {}

        def __call__(self, agents: Agents) -> None:
            for name, agent in agents.items():
                if leads(agent):
                    first = self.leader.setdefault(term(agent), name)
                    if first != name:
                        raise AssertionError(f"term {term(agent)} has two leaders, {first!r} and {name!r}")

    return OneLeaderATerm


def agreement(decided: Callable[[Any], Any], *, all_decide: bool = False) -> type[Invariant]:
    """All agents that decide, decide the same value, and never change it.

    Parameters
    ----------
    decided : callable
        Called with an agent; returns its decision, None before it decides.
    all_decide : bool
        Whether all agents must have decided at the end.
    """
    check.instance("decided", decided, Callable, "a function")
    must_decide = check.flag("all_decide", all_decide)

    class Agreement(Invariant):
        def __init__(self) -> None:
            self.kept: dict[Hashable, Any] = {}

        def __call__(self, agents: Agents) -> None:
            for name, agent in agents.items():
                value = decided(agent)
                if value is None and name not in self.kept:
                    continue
                kept = self.kept.setdefault(name, value)
                if kept != value:
                    raise AssertionError(f"{name!r} decided {kept!r}, then {value!r}")
                who, first = next(iter(self.kept.items()))
                if first != value:
                    raise AssertionError(f"{who!r} decided {first!r}, {name!r} {value!r}")

        def at_end(self, agents: Agents) -> None:
            late = [name for name in agents if must_decide and name not in self.kept]
            if late:
                raise AssertionError(f"{late} did not decide")

    return Agreement


def eventually(state: Callable[[Any], Any], *, alive: Callable[[Any], Any] | None = None) -> type[Invariant]:
    """At the end ``state(agent)`` is equal for all agents.

    Parameters
    ----------
    state : callable
        Called with an agent; returns the state to compare.
    alive : callable, optional
        Called with an agent; returns whether the agent is compared. By default all are.
    """
    check.instance("state", state, Callable, "a function")
    if alive is not None:
        check.instance("alive", alive, Callable, "a function")

    class Eventually(Invariant):
        def at_end(self, agents: Agents) -> None:
            found = {name: state(agent) for name, agent in agents.items() if alive is None or alive(agent)}
            for name, value in found.items():
                first = next(iter(found))
                if value != found[first]:
                    raise AssertionError(f"{first!r} ends with {found[first]!r}, {name!r} with {value!r}")

    return Eventually


def all_of(*invariants: Any) -> type[Invariant]:
    """All given invariants hold; each is a function or class, as for `netsim.testing.search`."""
    for each in invariants:
        check.instance("invariant", each, Callable, "a function")

    class AllOf(Invariant):
        def __init__(self) -> None:
            self.parts = [each() if isinstance(each, type) else each for each in invariants]

        def __call__(self, agents: Agents) -> None:
            for each in self.parts:
                name = getattr(each, "__name__", type(each).__name__)
                if each(agents) is False:
                    raise AssertionError(f"{name} does not hold")

        def at_end(self, agents: Agents) -> None:
            for each in self.parts:
                if hasattr(each, "at_end") and each.at_end(agents) is False:
                    raise AssertionError(f"{type(each).__name__} does not hold at the end")

    return AllOf
