"""Operations of clients: each call, its times, and its outcome as known to the client."""

import math
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from netsim.agent import Agent
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Operation", "history", "invoke", "operations"]

Outcome = Literal["ok", "failed", "unknown"]

# The maximum number of characters of an operation's note in a replay.
_MOST_SHOWN = 60


class Operation:
    """A client's call, as a context manager: its outcome is unknown until `ok` or `failed` is called.

    Attributes
    ----------
    agent : Hashable
        The calling agent.
    name : str
        The name of the called operation in the model, such as ``"read"``.
    value, key : object
        The operation's argument, and the key of the object on which it acts.
    number : int
        The operation's index among the agent's operations.
    start, end : float
        The times (s) of the call and of the moment when the outcome was known; ``end`` is infinite until then.
    outcome : {"ok", "failed", "unknown"}
        Whether the operation took effect.
    result : object
        The returned value.
    """

    __slots__ = ("_told", "agent", "end", "key", "name", "number", "outcome", "result", "start", "value")

    def __init__(
        self,
        agent: Hashable,
        name: str,
        value: Any = None,
        *,
        key: Hashable = None,
        number: int = 0,
        start: float = 0.0,
        told: "Callable[[Operation], float] | None" = None,
    ) -> None:
        self.agent, self.name, self.value, self.key = agent, name, value, key
        self.number, self.start, self.end = number, start, math.inf
        self.outcome: Outcome = "unknown"
        self.result: Any = None
        self._told = told

    def ok(self, result: Any = None) -> None:
        """Record that the operation took effect, and its result."""
        self.result = result
        self._ends("ok")

    def failed(self) -> None:
        """Record that the operation did not take effect and never will."""
        self._ends("failed")

    def _ends(self, outcome: Outcome) -> None:
        if self.outcome != "unknown":
            raise check.refuse("outcome", outcome, f"recorded once; it was already {self.outcome!r}")
        self.outcome = outcome
        self.end = self.start if self._told is None else self._told(self)

    def __enter__(self) -> "Operation":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getstate__(self) -> Any:
        # Do not copy the reference to the run's clock.
        return None, {name: getattr(self, name) for name in self.__slots__ if name != "_told"} | {"_told": None}

    @property
    def call(self) -> str:
        """The operation as text, with its result: ``read x → 3``."""
        words = [self.name, *(str(each) for each in (self.key, self.value) if each is not None)]
        shown = " ".join(words)
        return f"{shown} → {self.result}" if self.outcome == "ok" and self.result is not None else shown

    def __str__(self) -> str:
        end = "" if self.end == math.inf else f"{self.end:.6g}"
        known = "" if self.outcome == "ok" else f", {self.outcome}"
        return f"{self.call} by {self.agent} ({self.start:.6g}–{end} s{known})"


def invoke(agent: Agent, name: str, value: Any = None, *, key: Hashable = None) -> Operation:
    """Record that an agent calls an operation, for `netsim.Run.history` and the checkers.

    ::

        with invoke(self, "write", 3, key="x") as operation:
            await self.request(0, "write", ["x", 3], timeout=1.0)
            operation.ok()

    If the block ends without ``ok()`` or ``failed()``, as after a time-out or a crash, the outcome is unknown: the
    operation may take effect at any later time, or never. A crash does not delete the record. The replay shows the
    outcome as a note.

    Parameters
    ----------
    agent : Agent
        The client.
    name : str
        The name of an operation of the `Model`.
    value : object
        The operation's argument.
    key : Hashable
        The object on which the operation acts; operations on different objects are checked separately.

    Raises
    ------
    BadInput
        If the name is not a text.
    """
    check.instance("name", name, str, "text")
    done: list[Operation] = vars(agent).setdefault("_operations", [])

    def told(operation: Operation) -> float:
        shown = operation.call if operation.outcome == "ok" else f"{operation.call}: {operation.outcome}"
        shown = "".join(each if each.isprintable() else " " for each in shown)
        agent.note(shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN - 1]}…")
        return agent.now

    done.append(Operation(agent.name, name, value, key=key, number=len(done), start=agent.now, told=told))
    return done[-1]


def operations(agents: Mapping[Any, Agent]) -> list[Operation]:
    """Return the operations of all agents and their parts, in the order of their calls."""
    callers = [each for agent in agents.values() for each in (agent, *agent._members().values())]
    return sorted((op for each in callers for op in vars(each).get("_operations", ())), key=lambda op: op.start)


def history(agents: Mapping[Any, Agent]) -> "pd.DataFrame":
    """Return the operations as a table: agent, operation, key, value, result, outcome, began_s, ended_s."""
    import pandas as pd

    columns = ["agent", "operation", "key", "value", "result", "outcome", "began_s", "ended_s"]
    rows = [(op.agent, op.name, op.key, op.value, op.result, op.outcome, op.start, op.end) for op in operations(agents)]
    # With dtype object, integers beside None are not converted to floats.
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return table.astype({"began_s": float, "ended_s": float})
