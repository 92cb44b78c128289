"""Objects that can change in their place, as arrays, lists and agents: what each holds, and how another takes it in.

What knows itself how it is pickled, as a random generator, is a *value*: if it changes, it is told anew, as another.
All else, as numbers, texts and tuples, is told where it stands. So what holds what is as it was: two names of one
object are two names of one, and who got a new object holds another than before.
"""

import asyncio
import copyreg
import io
import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress
from contextvars import Context as Variables
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any

import numpy as np

from netsim.transport.context import Context
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox

__all__ = [
    "AGENT",
    "ARRAY",
    "LEFT_OUT",
    "METHOD",
    "OBJECT",
    "VALUE",
    "LeftOut",
    "class_of",
    "content",
    "kind_of",
    "made",
    "refill",
    "sets_itself",
]

ARRAY, OBJECT, VALUE, LEFT_OUT, METHOD = "array", "object", "value", "left out", "method"
AGENT = "agent"
"""In a pickle, before the name of another agent."""
_CONTAINERS: dict[str, type] = {"list": list, "dict": dict, "set": set, "deque": deque}

# Set for classes that are written in Python (Py_TPFLAGS_HEAPTYPE).
_HEAP = 1 << 9

_OF_ONE_PROCESS = (
    GeneratorType,
    CoroutineType,
    AsyncGeneratorType,
    ModuleType,
    Variables,
    # Tasks, and what queues and events hold of the loop that they are used on.
    asyncio.Future,
    asyncio.AbstractEventLoop,
    asyncio.Handle,
    io.IOBase,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Thread,
    # An agent's place in its network.
    Context,
    Inbox,
    Outbox,
)

# What pickle makes of parts that it can have later, or of none.
_TRANSPARENT = (
    *(NoneType, bool, int, float, complex, str, bytes, bytearray, range, slice, tuple, frozenset),
    *(type, FunctionType, BuiltinFunctionType),
)

Names = tuple[Any, ...]
"""Names of attributes and their values, in turn."""


class LeftOut:
    """What stands for an object that no other process can have, as a generator that is under way."""


class _Kinds(dict[type, str]):
    """By class, the kind of its objects."""

    def __missing__(self, cls: type) -> str:
        self[cls] = kind = _kind(cls)
        return kind


def _kind(cls: type) -> str:
    if issubclass(cls, _OF_ONE_PROCESS):
        return LEFT_OUT
    if cls is MethodType:
        return METHOD
    if cls is np.ndarray:
        return ARRAY
    for kind, base in _CONTAINERS.items():
        if issubclass(cls, base):
            return kind
    if cls in _TRANSPARENT or issubclass(cls, np.generic):
        return ""
    # A tuple with names, say.
    if issubclass(cls, tuple) and not cls.__dictoffset__ and cls.__reduce_ex__ is object.__reduce_ex__:
        return ""
    return OBJECT if _is_plain(cls) else VALUE


def _is_plain(cls: Any) -> bool:
    """Return whether pickle keeps of an object of a class its attributes, and makes it from these alone."""
    base = cls
    while base.__flags__ & _HEAP:
        base = base.__base__
    return (
        base is object
        and cls is not object
        and cls.__reduce_ex__ is object.__reduce_ex__
        and cls.__reduce__ is object.__reduce__
        and cls.__new__ is object.__new__
        and cls not in copyreg.dispatch_table
        and not _sets_itself(cls)
        and not hasattr(cls, "__getnewargs__")
        and not hasattr(cls, "__getnewargs_ex__")
    )


def _sets_itself(cls: Any) -> bool:
    setter = getattr(cls, "__setstate__", None)
    # Of a frozen dataclass with slots it is Python's own, and sets fields.
    return setter is not None and setter.__module__ != "dataclasses"


_KINDS = _Kinds()


def sets_itself(value: Any) -> bool:
    """Return whether an object takes its state by a method of its own."""
    return _sets_itself(type(value))


def kind_of(value: Any) -> str:
    """Return how an object is told.

    Returns
    -------
    str
        `ARRAY`, `OBJECT` or the name of a container for what can change in its place; `VALUE`; `METHOD` of an object;
        `LEFT_OUT` for what belongs to one process: what runs, locks, files, functions without a name; "" for all that
        is as pickle has it.
    """
    kind = _KINDS[type(value)]
    if kind == ARRAY and value.dtype.hasobject:
        return VALUE
    if type(value) is FunctionType and "<" in value.__qualname__:
        return LEFT_OUT
    if type(value) is BuiltinFunctionType and not isinstance(value.__self__, ModuleType | NoneType):
        # A method of a list, say.
        return METHOD
    return kind


def class_of(value: Any) -> list[str]:
    """Return the module and the name of an object's class; raises TypeError if it is not to be found there."""
    cls = type(value)
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not cls:
        raise TypeError(f"the class {cls.__qualname__} is not in the module {cls.__module__}")
    return [cls.__module__, cls.__qualname__]


# --- what an object holds ---------------------------------------------------------------------------------------------


def content(value: Any, kind: str) -> tuple[Any, ...]:
    """Return what an object other than an array holds, in tuples."""
    if kind == OBJECT:
        state = value.__getstate__()
        # A frozen dataclass with slots tells only their contents.
        return _names(object.__getstate__(value) if isinstance(state, list) else state)
    names = _names(object.__getstate__(value))
    if kind == "dict":
        return (_flat(value), *names, getattr(value, "default_factory", None))
    return (tuple(value), *names, getattr(value, "maxlen", None))


def _names(state: Any) -> tuple[Names, Names]:
    """Return the attributes, and those in slots, of which a state consists."""
    fields, slots = state if isinstance(state, tuple) else (state, None)
    return _flat(fields or {}), _flat(slots or {})


def _flat(items: dict[Any, Any]) -> Names:
    return tuple(each for item in items.items() for each in item)


def made(cls: Any) -> Any:
    """Return an object of a class that holds nothing yet."""
    return cls.__new__(cls)


def refill(value: Any, kind: str, holds: Any, told: Iterable[str]) -> set[str]:
    """Let an object hold what another of its kind does.

    Parameters
    ----------
    value, kind
        The object.
    holds : tuple
        As `content` returned it; of one that takes its state by a method of its own, that.
    told : iterable of str
        Its attributes as they were told before: those that are no more are taken away.

    Returns
    -------
    set of str
        Its attributes as they are told now.
    """
    if kind == OBJECT:
        if sets_itself(value):
            _set_state(value, holds)
            return set()
        fields, slots = holds
        return _refill_names(value, fields, slots, told)
    items, fields, slots, more = holds
    if kind == "dict":
        _refill_dict(value, items, more)
    elif kind == "list":
        list.__init__(value, _kept(value, items))
    elif kind == "deque":
        deque.__init__(value, _kept(value, items), more)
    else:
        set.clear(value)
        set.update(value, items)
    return _refill_names(value, fields, slots, told)


def _set_state(value: Any, state: Any) -> None:
    # An agent's place in a network is no part of its state.
    place = getattr(value, "__dict__", {}).get("_netsim")
    if state is not None:
        value.__setstate__(state)
    if place is not None:
        vars(value)["_netsim"] = place


def _kept(old: Any, items: tuple[Any, ...]) -> list[Any]:
    """Return items, and what was there where one is left out."""
    there = [*old]
    return [
        there[place] if isinstance(item, LeftOut) and place < len(there) else item for place, item in enumerate(items)
    ]


def _refill_dict(value: Any, items: tuple[Any, ...], factory: Any) -> None:
    kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
    before = dict(value)
    kind.clear(value)
    for key, item in zip(items[::2], items[1::2], strict=True):
        kind.__setitem__(value, key, before.get(key, item) if isinstance(item, LeftOut) else item)
    if isinstance(value, defaultdict) and not isinstance(factory, LeftOut):
        value.default_factory = factory


def _refill_names(value: Any, fields: Names, slots: Names, told: Iterable[str]) -> set[str]:
    new = dict(zip(fields[::2], fields[1::2], strict=True))
    in_slots = dict(zip(slots[::2], slots[1::2], strict=True))
    there = getattr(value, "__dict__", None)
    if there is not None:
        for name in there.keys() & new.keys():
            if isinstance(new[name], LeftOut):
                new[name] = there[name]
        # What was never told, as an agent's place in a network, stays.
        untold = {name: each for name, each in there.items() if name not in told and name not in new}
        there.clear()
        there.update(untold)
        there.update(new)
    for name in set(told) - new.keys() - in_slots.keys():
        with suppress(AttributeError):
            object.__delattr__(value, name)
    for name, each in in_slots.items():
        if not isinstance(each, LeftOut) or not hasattr(value, name):
            # Of a frozen object nothing may be assigned in its own way.
            object.__setattr__(value, name, each)
    return {*new, *in_slots}
