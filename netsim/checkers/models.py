"""Sequential data types: the possible results of each operation, and the state after it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from netsim.checkers.operations import Operation
from netsim.errors import BadInput

__all__ = ["Model", "mutex", "queue", "register", "transactions"]


@dataclass(frozen=True)
class Model:
    """A data type that is used by one client at a time.

    Attributes
    ----------
    words : tuple of str
        The names of the data type's operations.
    step : callable
        ``step(state, operation)`` returns whether the operation may take effect in this state with its recorded result,
        and the state after it. States must be hashable. If the outcome of the operation is unknown, any result is
        allowed.
    reads : callable
        ``reads(operation)`` returns whether the operation leaves every state unchanged, as a read does.
    initial : Hashable
        The initial state.
    """

    words: tuple[str, ...]
    step: Callable[[Any, Operation], tuple[bool, Any]]
    reads: Callable[[Operation], bool]
    initial: Hashable = None

    def must_know(self, operation: Operation) -> None:
        """Raise BadInput for an operation that the data type lacks."""
        if operation.name not in self.words:
            allowed = ", ".join(self.words[:-1])
            raise BadInput(f"operation {operation.name!r}: must be {allowed} or {self.words[-1]}: {operation}")


def _register(state: Any, call: Operation) -> tuple[bool, Any]:
    known = call.outcome == "ok"
    if call.name == "read":
        return not known or bool(call.result == state), state
    if call.name == "write":
        return True, call.value
    if call.name == "add":
        return True, (state or 0) + call.value
    old, new = call.value
    # A compare-and-swap without a result counts as successful.
    swaps = not known or call.result is None or bool(call.result)
    return (state == old) is swaps, new if swaps else state


def _mutex(holder: Any, call: Operation) -> tuple[bool, Any]:
    if call.name == "release":
        return holder == call.agent, None
    if call.outcome == "ok" and call.result is False:
        return holder is not None, holder
    return holder is None, call.agent


def _queue(waiting: Any, call: Operation) -> tuple[bool, Any]:
    if call.name == "enqueue":
        return True, (*waiting, call.value)
    first, rest = (waiting[0], waiting[1:]) if waiting else (None, waiting)
    return call.outcome != "ok" or bool(call.result == first), rest


def _transactions(state: Any, call: Operation) -> tuple[bool, Any]:
    held, found = dict(state), []
    for word, key, *value in call.value:
        if word == "read":
            found.append(held.get(key))
        else:
            held[key] = value[0] if word == "write" else (held.get(key) or 0) + value[0]
    right = call.outcome != "ok" or call.result is None or list(call.result) == found
    return right, frozenset(held.items())


register = Model(
    ("read", "write", "cas", "add"),
    _register,
    lambda call: call.name == "read" or (call.name == "cas" and call.result is False),
)
"""A register, or with keys a key–value store. Operations: ``read`` → value; ``write`` a value; ``cas`` (old, new), a
compare-and-swap → whether it succeeded; ``add`` a number. The initial value is None, unless `linearizable` sets it."""

mutex = Model(("acquire", "release"), _mutex, lambda call: call.name == "acquire" and call.result is False)
"""A lock. Operations: ``acquire`` (result False: it was not free), and ``release`` by the holder."""

queue = Model(("enqueue", "dequeue"), _queue, lambda call: False, ())
"""A queue. Operations: ``enqueue`` a value; ``dequeue`` → the first value, or None if the queue is empty."""

transactions = Model(
    ("transaction",), _transactions, lambda call: all(word == "read" for word, *_ in call.value), frozenset()
)
"""A key–value store with transactions. An operation's value is a sequence of ``("read", key)``,
``("write", key, value)`` and ``("add", key, number)``; its result is the list of the values read, in order."""
