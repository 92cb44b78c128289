"""Objects that can change in their place, as arrays, lists and agents: what each holds, and how another takes it in.

Whoever holds one of them holds it afterwards, too: two names of one object are two names of one, and who got a new
object holds another than before. All else, as numbers, texts and tuples, is told where it stands
(`netsim.distributed.states`).
"""

import asyncio
import inspect
import io
import random
import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import Context as Variables
from enum import Enum
from functools import cache
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CoroutineType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any, NamedTuple

import numpy as np

from netsim import core
from netsim.core.copies import Copies
from netsim.core.frame import Frame
from netsim.transport.context import Context
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.wire.codec import check_keys, decode

__all__ = [
    "ARRAY",
    "ERROR",
    "ITEMS",
    "ITSELF",
    "LEFT_OUT",
    "METHOD",
    "OBJECT",
    "VALUE",
    "LeftOut",
    "content",
    "has_method",
    "home_of",
    "is_name",
    "kind_of",
    "kind_of_class",
    "made",
    "named",
    "put_together",
    "refill",
]

ARRAY, ITEMS, OBJECT, ITSELF, ERROR, VALUE = "array", "items", "object", "itself", "error", "value"
"""Arrays of numbers, arrays of objects, what has attributes, what takes its state by a method of its own, exceptions,
and what is taken apart by hand."""
LEFT_OUT, METHOD = "left out", "method"
_CONTAINERS: dict[str, type] = {"list": list, "dict": dict, "set": set, "deque": deque}

_OF_ONE_PROCESS = (
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

# Set for classes that are made while Python runs (Py_TPFLAGS_HEAPTYPE): all in Python, some in C.
_HEAP = 1 << 9

Names = tuple[Any, ...]
"""Names of attributes and their values, in turn."""


class LeftOut:
    """What stands for an object that no other process can have, as a generator that is under way."""


@cache
def home_of(cls: Any) -> Any:
    """Return the class written in C that makes the objects of a class: `object` for most, `list` for one of lists."""
    while _is_in_python(cls):
        cls = cls.__base__
    return cls


def _is_in_python(cls: Any) -> bool:
    """Return whether a class is: it makes its objects as its base does, and has no methods in C of its own."""
    slots = MemberDescriptorType | GetSetDescriptorType
    return (
        bool(cls.__flags__ & _HEAP)
        and getattr(vars(cls).get("__new__"), "__self__", None) is not cls
        and not any(
            getattr(each, "__objclass__", None) is cls and not isinstance(each, slots) for each in vars(cls).values()
        )
    )


@cache
def kind_of_class(cls: type) -> str:
    """Return how objects of a class are told, as `kind_of` does; but for what is to be seen in the object alone."""
    home = home_of(cls)
    # Generators, zips, counters and the like are iterators that Python itself knows.
    if issubclass(cls, _OF_ONE_PROCESS) or (issubclass(cls, Iterator) and home is cls):
        return LEFT_OUT
    if cls is MethodType:
        return METHOD
    if cls is np.ndarray:
        return ARRAY
    for kind, base in _CONTAINERS.items():
        if issubclass(cls, base):
            return kind
    if cls in _BY_HAND:
        return VALUE
    if issubclass(cls, Exception) and not issubclass(cls, BaseExceptionGroup):
        return ERROR
    if home is not object or issubclass(cls, Enum):
        return ""
    setter = getattr(cls, "__setstate__", None)
    # Of a frozen dataclass with slots it is Python's own, and sets fields.
    return OBJECT if setter is None or setter.__module__ == "dataclasses" else ITSELF


def kind_of(value: Any) -> str:
    """Return how an object is told.

    Returns
    -------
    str
        `ARRAY`, `ITEMS`, `OBJECT`, `ITSELF`, `ERROR`, `VALUE` or the name of a container for what has a number;
        `METHOD` of an object; `LEFT_OUT` for what belongs to one process: what runs, locks, files, functions without a
        name; "" for what is told where it stands, if it can be.
    """
    cls: Any = type(value)
    kind = kind_of_class(cls)
    if kind == ARRAY and value.dtype.hasobject:
        return ITEMS
    if cls is FunctionType and "<" in value.__qualname__:
        return LEFT_OUT
    if cls is BuiltinFunctionType and not isinstance(value.__self__, ModuleType | NoneType):
        # A method of a list, say.
        return METHOD
    return kind


def is_name(value: Any) -> bool:
    """Return whether an object is pickled by its name alone: classes, functions, and what others make like them."""
    if isinstance(value, type | FunctionType | BuiltinFunctionType | np.ufunc):
        return True
    try:
        return isinstance(value.__reduce_ex__(4), str)
    except Exception:
        return False


def named(value: Any) -> list[str]:
    """Return the module and the name of a class or a function; raises TypeError if it is not to be found there."""
    # Functions of scipy's that are numpy's ufuncs tell neither.
    name, module = getattr(value, "__qualname__", value.__name__), getattr(value, "__module__", None) or "scipy.special"
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise TypeError(f"{name}, which is not in the module {module}")
    return [module, name]


def has_method(holder: Any, name: str) -> bool:
    """Return whether ``name`` is a method of an object or a class that may be told of; nothing of it is called."""
    cls = holder if isinstance(holder, type) else type(holder)
    found = inspect.getattr_static(cls, name, None)
    if isinstance(found, classmethod if cls is holder else FunctionType):
        return True
    return (cls in _CONTAINERS.values() or cls in _BY_HAND) and not name.startswith("_") and callable(found)


# --- what an object holds ---------------------------------------------------------------------------------------------


def content(value: Any, kind: str) -> tuple[Any, ...]:
    """Return what an object other than an array of numbers holds, in tuples."""
    if kind == VALUE:
        parts: tuple[Any, ...] = _BY_HAND[type(value)].apart(value)
        return parts
    if kind == ITEMS:
        return tuple(value.flat)
    if kind == ERROR:
        # What is after the class and the arguments, if anything is.
        fields = next(iter(value.__reduce__()[2:]), None)
        return value.args, _flat(fields or {})
    if kind == ITSELF:
        state = value.__getstate__()
        # A dict is new each time, and need not be told as one with a number.
        return (True, _flat(state)) if type(state) is dict else (False, state)
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


def _paired(flat: Names) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def made(cls: Any) -> Any:
    """Return an object of a class that holds nothing yet; none of the class's own code runs."""
    return home_of(cls).__new__(cls)


def refill(value: Any, kind: str, holds: Any, told: Iterable[str]) -> set[str]:
    """Let an object hold what another of its kind does.

    Parameters
    ----------
    value, kind
        The object.
    holds : tuple
        As `content` returned it.
    told : iterable of str
        Its attributes as they were told before: those that are no more are taken away.

    Returns
    -------
    set of str
        Its attributes as they are told now.
    """
    if kind == ITEMS:
        for place, item in enumerate(_kept(value.flat, holds)):
            value.flat[place] = item
        return set()
    if kind == ERROR:
        value.args, fields = holds
        cls: Any = type(value)
        home_of(cls).__init__(value, *value.args)
        return _refill_names(value, fields, (), told)
    if kind == ITSELF:
        is_dict, state = holds
        _set_state(value, _paired(state) if is_dict else state)
        return set()
    if kind == OBJECT:
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
        check_keys(items, "decode")
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


def _kept(old: Iterable[Any], items: tuple[Any, ...]) -> list[Any]:
    """Return items, and what was there where one is left out."""
    there = [*old]
    return [
        there[place] if isinstance(item, LeftOut) and place < len(there) else item for place, item in enumerate(items)
    ]


def _refill_dict(value: Any, items: tuple[Any, ...], factory: Any) -> None:
    check_keys(items[::2], "decode")
    kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
    before = dict(value)
    kind.clear(value)
    for key, item in zip(items[::2], items[1::2], strict=True):
        kind.__setitem__(value, key, before.get(key, item) if isinstance(item, LeftOut) else item)
    if isinstance(value, defaultdict) and not isinstance(factory, LeftOut):
        value.default_factory = factory


def _refill_names(value: Any, fields: Names, slots: Names, told: Iterable[str]) -> set[str]:
    new, in_slots = _paired(fields), _paired(slots)
    if not all(type(name) is str for name in (*new, *in_slots)):
        raise TypeError("a name of an attribute is none")
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
        # Not its class, say.
        if not isinstance(inspect.getattr_static(type(value), name), MemberDescriptorType):
            raise TypeError(f"a {type(value).__name__} has no slot {name}")
        if not isinstance(each, LeftOut) or not hasattr(value, name):
            # Of a frozen object nothing may be assigned in its own way.
            object.__setattr__(value, name, each)
    return {*new, *in_slots}


# --- what is taken apart by hand --------------------------------------------------------------------------------------


class _ByHand(NamedTuple):
    """How objects of a class are taken apart, and put together: the one that is there, if it can be changed."""

    apart: Callable[[Any], tuple[Any, ...]]
    together: Callable[[Any, tuple[Any, ...], Any], Any]


def put_together(cls: type, parts: tuple[Any, ...], there: Any) -> Any:
    """Return an object of kind `VALUE` with these parts, the one ``there`` if that can take them.

    Raises
    ------
    Exception
        If they are none of such an object; of many kinds.
    """
    return _BY_HAND[cls].together(cls, parts, there if type(there) is cls else None)


def _random(cls: Any, state: tuple[Any, ...], there: Any) -> Any:
    stream = there or cls(0)
    # It checks what it is given.
    stream.setstate(state)
    return stream


_BITS = {each.__name__: each for each in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox,
                                          np.random.SFC64)}  # fmt: skip
# numpy believes any place in its buffers, and reads there.
_MOST = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "has_gauss": 1}


def _leaves(state: dict[str, Any]) -> Iterator[Any]:
    """Yield the numbers of a random generator's state; those of an array as bytes."""
    for each in state.values():
        if isinstance(each, dict):
            yield from _leaves(each)
        elif not isinstance(each, str):
            yield each.tobytes() if isinstance(each, np.ndarray) else each


def _grown(like: dict[str, Any], leaves: Iterator[Any]) -> dict[str, Any]:
    """Return a state like another one, with these numbers; raises an error if they are of none."""
    state: dict[str, Any] = {}
    for name, each in like.items():
        if isinstance(each, dict):
            state[name] = _grown(each, leaves)
        elif isinstance(each, str):
            state[name] = each
        elif isinstance(each, np.ndarray):
            state[name] = np.frombuffer(next(leaves), each.dtype).reshape(each.shape)
        else:
            state[name] = leaf = next(leaves)
            if type(leaf) is not type(each) or (type(leaf) is int and not 0 <= leaf <= _MOST.get(name, 2**128)):
                raise ValueError(f"{name} of a random generator is none")
    return state


def _bits(cls: Any, leaves: tuple[Any, ...], there: Any) -> Any:
    bits = there or cls(0)
    bits.state = _grown(bits.state, iter(leaves))
    return bits


def _generator_apart(stream: Any) -> tuple[Any, ...]:
    bits = stream.bit_generator
    if type(bits) not in _BITS.values():
        raise TypeError(f"a generator on {type(bits).__qualname__} is not known")
    return (type(bits).__name__, *_leaves(bits.state))


def _generator(cls: Any, parts: tuple[Any, ...], there: Any) -> Any:
    bits = _BITS[parts[0]]
    stream = there if there is not None and type(there.bit_generator) is bits else cls(bits(0))
    _bits(bits, parts[1:], stream.bit_generator)
    return stream


def _old_generator(cls: Any, leaves: tuple[Any, ...], there: Any) -> Any:
    stream = there or cls(0)
    stream.set_state(_grown(stream.get_state(legacy=False), iter(leaves)))
    return stream


def _frame_apart(frame: Any) -> tuple[Any, ...]:
    who = frame.kind, frame.sender, frame.round, frame.sent_at
    return (*who, frame.data, frame.plain, frame.request, frame.is_reply)


def _frame(cls: Any, parts: tuple[Any, ...], there: Any) -> Any:
    # It is not checked again when it is read.
    if len(decode(parts[4])) < 4:
        raise ValueError("a frame is none")
    return cls(*parts)


def _copies_apart(copies: Any) -> tuple[Any, ...]:
    _, (neighbors, _), (table, rounds) = copies.__reduce__()
    return neighbors, table, tuple(rounds)


def _copies(cls: Any, parts: tuple[Any, ...], there: Any) -> Any:
    neighbors, table, rounds = parts
    if len(neighbors) != len(table):
        raise ValueError("a table of copies is none")
    copies = there if there is not None else cls(neighbors, table.shape[1:])
    copies.__setstate__((table, rounds))
    return copies


_BY_HAND: dict[Any, _ByHand] = {
    random.Random: _ByHand(lambda stream: stream.getstate(), _random),
    np.random.Generator: _ByHand(_generator_apart, _generator),
    np.random.RandomState: _ByHand(lambda stream: tuple(_leaves(stream.get_state(legacy=False))), _old_generator),
    **{each: _ByHand(lambda bits: tuple(_leaves(bits.state)), _bits) for each in _BITS.values()},
    **{each: _ByHand(_frame_apart, _frame) for each in (Frame, core.Frame)},
}
if core.Copies is not Copies:
    # Python's own is as any object.
    _BY_HAND[core.Copies] = _ByHand(_copies_apart, _copies)
