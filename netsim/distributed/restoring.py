"""Agents given the states that others came to: whoever holds one of their objects, as a probe does, sees it, too.

Whoever reads states makes objects only of the classes that its own agents are made of, of netsim's, and of some of
Python's: a file can name no others. It calls nothing for a file's sake but the ``__setstate__`` of such a class.
"""

import builtins
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.distributed.objects import (
    ARRAY,
    ERROR,
    ITEMS,
    ITSELF,
    OBJECT,
    VALUE,
    LeftOut,
    has_method,
    home_of,
    kind_of,
    kind_of_class,
    made,
    put_together,
    refill,
)
from netsim.distributed.states import PLAIN, SIMPLE, Heap, Tag, Written
from netsim.errors import NetsimError, WireError, one_line
from netsim.wire.codec import check_keys, check_whole, decode

__all__ = ["StateReader"]


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


_BUILTIN = ("bool", "bytearray", "complex", "frozenset", "int", "float", "list", "object", "range", "set", "slice")
_HARMLESS = {
    *(("builtins", name) for name in (*_BUILTIN, "dict", "tuple", "str", "bytes")),
    *(("builtins", name) for name, each in vars(builtins).items() if _is_exception(each)),
    ("fractions", "Fraction"),
    *(("collections", name) for name in ("Counter", "OrderedDict", "defaultdict", "deque")),
    ("random", "Random"),
    ("numpy.random._generator", "Generator"),
    ("numpy.random.mtrand", "RandomState"),
    *((f"numpy.random._{name.lower()}", name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")),
    *(("asyncio.queues", name) for name in ("Queue", "PriorityQueue", "LifoQueue")),
    *(("asyncio.locks", name) for name in ("Lock", "Event", "Condition", "Semaphore", "BoundedSemaphore")),
}
"""What agents may come to hold though they did not at the beginning."""

# What others refer to and cannot be made empty; attributes before what holds things by their hashes; then all is there.
_ORDER = (ARRAY, VALUE, OBJECT, ERROR, ITEMS, "list", "deque", "dict", "set", ITSELF)


class StateReader:
    """Gives agents the states that a `StateWriter` wrote of agents that were made in the same way.

    Parameters
    ----------
    agents : mapping
        {name: agent}, each as it was before the run.
    """

    def __init__(self, agents: Mapping[Hashable, Agent]) -> None:
        self._agents = list(agents.values())
        self._allowed = set(_HARMLESS)
        # As the writers number them, from the same beginning.
        numbers = {id(agent): number for number, agent in enumerate(self._agents)}
        self._first = {name: self._numbered(agent, numbers) for name, agent in agents.items()}
        # Whoever wrote the agents wrote what stands beside them, too.
        modules = {each.__module__ for agent in self._agents for each in type(agent).__mro__}
        self._own = {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}
        self._arrays: dict[bytes, NDArray[Any]] = {}
        # By process and agent, its objects and their kinds.
        self._heaps: dict[tuple[Hashable, Hashable], tuple[dict[int, Any], dict[int, tuple[str, type]]]] = {}
        # Attributes that objects were told to have.
        self._names: dict[int, set[str]] = {}
        self._lasting = {id(value) for objects in self._first.values() for value in objects.values()}

    def _numbered(self, agent: Agent, numbers: Mapping[int, int]) -> dict[int, Any]:
        """Return by number the objects of an agent, and allow what is named there."""
        heap = Heap(agent, numbers, lambda digest, data: None)
        # One that cannot be told is refused where it is to be written.
        with suppress(Exception):
            heap.written()
        self._allowed |= heap.names
        return heap.objects()

    def learn(self, digest: bytes, data: bytes) -> None:
        """Take note of an array; raises WireError if the bytes are none."""
        self._arrays[digest] = _array(data)

    def restore(self, process: Hashable, name: Hashable, written: Written) -> None:
        """Give an agent what a process wrote of it.

        Raises
        ------
        NetsimError
            If it cannot be read, or is of objects that may not be made.
        """
        if (process, name) not in self._heaps:
            # Another process of the same agent begins from the beginning, too.
            agent = self._first[name][0]
            self._heaps[process, name] = dict(self._first[name]), {0: (kind_of(agent), type(agent))}
        try:
            self._restore(*self._heaps[process, name], written)
        except Exception as error:
            why = one_line(error) if isinstance(error, NetsimError) else f"{type(error).__name__}: {one_line(error)}"
            raise NetsimError(f"an agent's state cannot be read ({why})") from error

    def _restore(self, objects: dict[int, Any], kinds: dict[int, tuple[str, type]], written: Written) -> None:
        told = {number: _unpacked(raw) for number, raw in written["told"].items()}
        for number, (kind, *more) in written["new"].items():
            self._begin(objects, kinds, number, kind, more, len(written["told"].get(number, b"")))
        # Of one kind what was met on the way from another first: that may look into it.
        for number in sorted(told, key=lambda each: (_ORDER.index(kinds[each][0]), -each)):
            kind, cls = kinds[number]
            there = objects.get(number)
            if kind == ARRAY:
                objects[number] = self._refilled(there, told[number])
                continue
            holds = self._value(told[number], objects)
            if kind == VALUE:
                objects[number] = put_together(cls, holds, there)
            else:
                self._names[id(there)] = refill(there, kind, holds, self._names.get(id(there), ()))
        for number in written["gone"]:
            del kinds[number]
            value = objects.pop(number)
            if id(value) not in self._lasting:
                self._names.pop(id(value), None)

    def _begin(
        self, objects: dict[int, Any], kinds: dict[int, tuple[str, type]], number: int, kind: str, more: Any, size: int
    ) -> None:
        """Make an object that holds nothing yet, unless there is one of its class."""
        there = objects.get(number)
        cls = np.ndarray if kind in (ARRAY, ITEMS) else self._find(*more)
        if kind not in _ORDER or (cls is not np.ndarray and kind_of_class(cls) != kind):
            raise NetsimError(f"{more} is no {kind}")
        kinds[number] = kind, cls
        if kind == ITEMS:
            # Each of them takes a byte at least where it is told.
            if math.prod(more) > size or min(more, default=0) < 0:
                raise NetsimError("an array claims to hold more than it does")
            if type(there) is not np.ndarray or (there.dtype, there.shape) != (np.dtype(object), tuple(more)):
                objects[number] = np.empty(more, object)
        elif kind not in (ARRAY, VALUE) and type(there) is not cls:
            objects[number] = made(cls)

    def _refilled(self, old: Any, told: Any) -> NDArray[Any]:
        """Return an array with what is told of it: the one that is there, if that can take it."""
        is_kept, data, by_column = told
        new = np.array(self._arrays[data] if is_kept else _array(data), order="F" if by_column else "C")
        if type(old) is not np.ndarray or (old.dtype, old.shape) != (new.dtype, new.shape):
            return new
        if old.flags.writeable:
            old[...] = new
        elif old.tobytes() != new.tobytes():
            return new
        return old

    def _value(self, tree: Any, objects: Mapping[int, Any]) -> Any:
        """Return what a tree of `netsim.distributed.states.Heap` stands for; raises an error if it is none."""
        if type(tree) in PLAIN:
            return tree
        tag, *parts = tree
        if tag in _NAMED:
            value = self._find(parts[0], parts[1])
            return value if tag == Tag.NAME else _NAMED[tag](value, *(self._value(each, objects) for each in parts[2:]))
        if tag == Tag.REFERENCE:
            return objects[parts[0]]
        if tag == Tag.AGENT:
            return self._agents[range(len(self._agents))[parts[0]]]
        return _READ[tag](*(self._value(each, objects) for each in parts))

    def _find(self, module: str, name: str) -> Any:
        """Return what a file names; raises NetsimError if it may not."""
        found = None
        if module in self._own or _may(module) or (module, name) in self._allowed:
            found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        if (module, name) in self._allowed:
            return found
        # What a module has only imported stands elsewhere, and so does what is reached by way of it.
        if not isinstance(found, type) or found.__module__ != module:
            raise NetsimError(f"it names {module}.{name}, which is of no agent at the beginning, nor beside one")
        return found


def _may(module: str) -> bool:
    # Of netsim itself classes of what agents hold, but nothing that reads, writes or runs.
    parts = (
        "netsim.agents",
        "netsim.coders",
        "netsim.core",
        "netsim.transport",
        "netsim.wire",
        "netsim.scenarios.tasks",
    )
    return any(module == each or module.startswith(f"{each}.") for each in parts)


def _unpacked(raw: bytes) -> Any:
    check_whole(raw)
    return msgpack.unpackb(raw, unicode_errors="surrogatepass")


def _array(data: bytes) -> NDArray[Any]:
    """Return an array from its bytes in the wire format, read-only; raises an error if they are none."""
    array = decode(data)
    # Elements of no size may claim to be very many.
    if type(array) is not np.ndarray or array.size > len(data):
        raise WireError("an array is none")
    return array


# --- what trees stand for ---------------------------------------------------------------------------------------------


def _frozen(*items: Any) -> frozenset[Any]:
    check_keys(items, "decode")
    return frozenset(items)


def _scalar(raw: bytes) -> Any:
    value = decode(raw)
    if not isinstance(value, np.generic | complex):
        raise WireError("a number is none")
    return value


def _subclass(cls: Any, value: Any) -> Any:
    home = home_of(cls)
    count = len(getattr(cls, "_fields", ()))
    if type(value) is not home or issubclass(cls, Enum) or (count and count != len(value)):
        raise NetsimError(f"a {cls.__qualname__} is none")
    return home.__new__(cls, value)


def _member(cls: type, name: str) -> Any:
    if not issubclass(cls, Enum):
        raise NetsimError(f"{cls.__qualname__} has no members")
    return cls.__members__[name]


def _method(holder: Any, name: str) -> Any:
    if not has_method(holder, name):
        raise NetsimError(f"it names {name} of a {type(holder).__qualname__}, which is no method")
    cls = holder if isinstance(holder, type) else type(holder)
    found = inspect.getattr_static(cls, name)
    if isinstance(found, classmethod | FunctionType):
        # Nothing that the class may do when it is asked for an attribute.
        return MethodType(found.__func__ if isinstance(found, classmethod) else found, holder)
    return getattr(holder, name)


def _simple(name: str, *arguments: Any) -> Any:
    [cls] = [each for each in SIMPLE if each.__name__ == name]
    first = arguments[0]
    if cls is partial:
        function, given, by_name = arguments
        return partial(function, *given, **dict(by_name))
    if type(first) is not {bytearray: bytes, Decimal: str}.get(cls, type(first)):
        raise TypeError(f"a {name} is none")
    return cls(*arguments)


_NAMED: dict[Any, Callable[..., Any]] = {
    Tag.NAME: lambda value: value,
    Tag.SUBCLASS: _subclass,
    Tag.MEMBER: _member,
}
_READ: dict[Any, Callable[..., Any]] = {
    Tag.TUPLE: lambda *items: items,
    Tag.FROZENSET: _frozen,
    Tag.INTEGER: lambda raw: int.from_bytes(memoryview(raw), "little", signed=True),
    Tag.SCALAR: _scalar,
    Tag.DTYPE: lambda raw: _array(raw).dtype,
    Tag.METHOD: _method,
    Tag.LEFT_OUT: LeftOut,
    Tag.MADE: _simple,
}
