"""Agents' states in a journal: pickles of which only what an allowlist names can be made.

A state is what ``__getstate__`` of an agent returns. Each pickle is whole, and replaces all that an agent held before.
So *a probe reads only* ``agents``: an object that it took from an agent before the run is the agent's no longer.
Arrays are kept beside the pickles, once, under a hash of their content, so that data which never change cost nothing.

Reading a pickle calls no class that it names: its objects are made empty and given their attributes, or by `_MAKERS`.
"""

import asyncio
import builtins
import copyreg
import datetime
import hashlib
import importlib
import inspect
import io
import math
import pickle
import random
import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import Context as Variables
from decimal import Decimal
from enum import Enum
from functools import cache, partial
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim import core
from netsim.agent import Agent
from netsim.errors import BadInput, NetsimError, WireError, one_line
from netsim.transport.context import Context
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.wire.codec import check_keys, decode, encode

__all__ = ["LeftOut", "StateReader", "StateWriter"]

# Keys of a container that may have the hash of another one before it is looked at how many have the same.
_FEW_COLLISIONS = 200
# In bytes: smaller arrays are no longer than what would stand for them; larger ones are compared, then hashed.
_SMALL, _LARGE = 64, 1 << 16


class LeftOut:
    """Stands for an object that no other process can have, as a generator that is under way."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Raise NetsimError: it may have been a function without a name."""
        raise NetsimError("an agent's function without a name is not there, where its state was gathered")


_OF_ONE_PROCESS = (
    *(CoroutineType, AsyncGeneratorType, ModuleType, Variables, io.IOBase),
    *(threading.Thread, type(threading.Lock()), type(threading.RLock())),
    # Tasks, and what queues and events hold of the loop that they are used on.
    *(asyncio.Future, asyncio.AbstractEventLoop, asyncio.Handle),
    # An agent's place in its network.
    *(Context, Inbox, Outbox),
)
_ERRORS = tuple(each for each in vars(builtins).values() if isinstance(each, type) and issubclass(each, Exception))
_CONTAINERS = (list, dict, OrderedDict, defaultdict, set, deque)
# Made of arguments; each checks them, and runs nothing of anybody's.
_OF_ARGUMENTS = (
    *(OrderedDict, defaultdict, dict, set, frozenset, deque, range, slice, partial, Decimal),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
)
# Made of a value; a class derived from them has no attributes.
_OF_A_VALUE = (int, float, str, bytes, tuple)
_BITS = (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
_PLAIN = frozenset({NoneType, bool, int, float, str, bytes, tuple, list, dict, set, frozenset, bytearray})

# Set for classes that are made while Python runs (Py_TPFLAGS_HEAPTYPE): all in Python, some in C.
_HEAP = 1 << 9


@cache
def _home_of(cls: Any) -> Any:
    """Return the class written in C that makes the objects of a class: `object` for most, `list` for one of lists."""
    while _is_in_python(cls):
        cls = cls.__base__
    return cls


def _is_in_python(cls: Any) -> bool:
    """Return whether a class makes its objects as its base does, and has no methods in C of its own."""
    slots = MemberDescriptorType | GetSetDescriptorType
    methods = [each for each in vars(cls).values() if getattr(each, "__objclass__", None) is cls]
    makes = getattr(vars(cls).get("__new__"), "__self__", None) is cls
    return bool(cls.__flags__ & _HEAP) and not makes and all(isinstance(each, slots) for each in methods)


def _is_method(value: Any) -> bool:
    if type(value) is BuiltinFunctionType:
        # Of a list, say; a module's functions have that for their object.
        return not isinstance(value.__self__, ModuleType | NoneType)
    return type(value) is MethodType


def _is_left_out(value: Any) -> bool:
    """Return whether an object belongs to one process: what runs, locks, files, functions without a name."""
    cls: Any = type(value)
    if _is_method(value):
        return _is_left_out(value.__self__)
    # Generators, zips, counters and the like are iterators that Python itself knows.
    is_iterator = issubclass(cls, Iterator) and _home_of(cls) is cls
    return issubclass(cls, _OF_ONE_PROCESS) or is_iterator or (cls is FunctionType and "<" in value.__qualname__)


def _name_of(value: Any) -> tuple[str, str]:
    """Return the module and the name of a class or a function; raises TypeError if it is not to be found there."""
    # Functions of scipy's that are numpy's ufuncs tell neither.
    name, module = getattr(value, "__qualname__", value.__name__), getattr(value, "__module__", None) or "scipy.special"
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise TypeError(f"{name}, which is not in the module {module}")
    return module, name


def _is_named(value: Any) -> bool:
    """Return whether an object that is no class and no function is pickled by its name, as numpy's functions are."""
    try:
        return isinstance(value, np.ufunc) or isinstance(value.__reduce_ex__(4), str)
    except Exception:
        return False


# --- makers -----------------------------------------------------------------------------------------------------------


def _empty(cls: Any) -> Any:
    """Return an object with attributes or a container, that holds nothing yet; none of its class's own code runs."""
    home = _home_of(cls) if isinstance(cls, type) else None
    if home not in (object, *_CONTAINERS) or issubclass(cls, (*_OF_ONE_PROCESS, Enum)):
        raise NetsimError(f"it names {cls}, which is no class of objects")
    return home.__new__(cls)


def _of_arguments(cls: Any, *given: Any) -> Any:
    home = _home_of(cls)
    if home not in _ERRORS + _OF_ARGUMENTS:
        raise NetsimError(f"it names {cls}, which is not made of arguments")
    if home in _OF_ARGUMENTS and any(isinstance(each, Iterable) and type(each) not in _PLAIN for each in given):
        # A range may be as long as it claims.
        raise NetsimError(f"a {cls.__qualname__} of a {[type(each).__name__ for each in given]} is none")
    if home is OrderedDict and given:
        # Python would have a class of one's own take them in.
        raise NetsimError("an OrderedDict is none")
    if home in (set, frozenset):
        [items] = given
        check_keys(items, "decode")
    made = home.__new__(cls, *given)
    home.__init__(made, *given)
    return made


def _of_a_value(cls: Any, value: Any) -> Any:
    home, count = _home_of(cls), len(getattr(cls, "_fields", ()))
    if home not in _OF_A_VALUE or type(value) is not home or issubclass(cls, Enum) or (count and count != len(value)):
        raise NetsimError(f"a {cls.__qualname__} is none")
    return home.__new__(cls, value)


def _has_method(holder: Any, name: str) -> bool:
    """Return whether ``name`` is a method of an object or a class that may be written; nothing of it is called."""
    cls = holder if isinstance(holder, type) else type(holder)
    found = inspect.getattr_static(cls, name, None)
    if isinstance(found, classmethod if cls is holder else FunctionType):
        return True
    takes = (*_CONTAINERS, random.Random, np.random.Generator, np.random.RandomState, core.Copies)
    return cls in takes and not name.startswith("_") and callable(found)


def _method(holder: Any, name: str) -> Any:
    if not _has_method(holder, name):
        raise NetsimError(f"it names {name} of a {type(holder).__qualname__}, which is no method")
    found = inspect.getattr_static(holder if isinstance(holder, type) else type(holder), name)
    if isinstance(found, classmethod | FunctionType):
        # Nothing that the class may do when it is asked for an attribute.
        return MethodType(found.__func__ if isinstance(found, classmethod) else found, holder)
    return getattr(holder, name)


def _member(cls: Any, name: str) -> Any:
    if not issubclass(cls, Enum):
        raise NetsimError(f"{cls.__qualname__} has no members")
    return cls.__members__[name]


def _array(data: bytes) -> NDArray[Any]:
    """Return an array from its bytes in the wire format, read-only; raises an error if they are none."""
    array = decode(data)
    # Elements of no size may claim to be very many.
    if type(array) is not np.ndarray or array.size > len(data):
        raise WireError("an array is none")
    return array


def _dtype(data: bytes) -> np.dtype[Any]:
    return _array(data).dtype


def _scalar(data: bytes) -> Any:
    value = decode(data)
    if not isinstance(value, np.generic | complex):
        raise WireError("a number is none")
    return value


def _items(shape: tuple[int, ...], items: list[Any]) -> NDArray[Any]:
    if math.prod(shape) != len(items) or min(shape, default=0) < 0:
        raise NetsimError("an array claims to hold more than it does")
    array = np.empty(shape, object)
    for place, item in enumerate(items):
        array.flat[place] = item
    return array


# numpy believes any place in its buffers, and reads there.
_MOST = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "has_gauss": 1}


def _check_stream(like: Any, state: Any, name: str = "") -> None:
    """Raise an error unless the state of a random generator has the form of another one."""
    sound = type(state) is type(like)
    if sound and isinstance(like, dict):
        for key in like:
            _check_stream(like[key], state[key], key)
    elif sound and isinstance(like, np.ndarray):
        sound = state.dtype == like.dtype and state.shape == like.shape
    elif sound and isinstance(like, int):
        sound = 0 <= state <= _MOST.get(name, 2**128)
    if not sound or (isinstance(like, str) and state != like):
        raise ValueError(f"{name} of a random generator is none")


def _bits(name: str, state: dict[str, Any]) -> Any:
    [made] = [each(0) for each in _BITS if each.__name__ == name]
    _check_stream(made.state, state)
    made.state = state  # type: ignore[assignment]
    return made


def _generator(bits: Any) -> np.random.Generator:
    if type(bits) not in _BITS:
        raise TypeError("a random generator is none")
    return np.random.Generator(bits)


def _old_generator(state: dict[str, Any]) -> np.random.RandomState:
    made = np.random.RandomState(0)
    _check_stream(made.get_state(legacy=False), state)
    made.set_state(state)
    return made


def _random(state: tuple[Any, ...]) -> random.Random:
    made = random.Random(0)
    # It checks what it is given.
    made.setstate(state)
    return made


def _frame(*fields: Any) -> Any:
    # It is not checked again when it is read.
    if len(decode(fields[4])) < 4:
        raise ValueError("a frame is none")
    return core.Frame(*fields)


def _copies(neighbors: tuple[Any, ...], table: NDArray[Any], rounds: list[int]) -> Any:
    if len(neighbors) != len(table):
        raise ValueError("a table of copies is none")
    copies: Any = core.Copies(neighbors, table.shape[1:])
    copies.__setstate__((table, rounds))
    return copies


_MAKERS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        *(_of_arguments, _method, _member, _dtype, _scalar, _items),
        *(_bits, _generator, _old_generator, _random, _frame, _copies),
    )
}


# --- writing ----------------------------------------------------------------------------------------------------------


class StateWriter:
    """Writes the states of a network's agents; gives ``keep`` the digest and the bytes of each array that is new."""

    def __init__(self, agents: Mapping[Any, Agent], keep: Callable[[bytes, bytes], None]) -> None:
        self._agents, self._keep = agents, keep
        self._numbers = {id(agent): number for number, agent in enumerate(agents.values())}
        self._known: set[bytes] = set()
        self._picklers: dict[Hashable, _Pickler] = {}
        self._last: dict[Hashable, bytes] = {}

    def state(self, name: Hashable) -> bytes:
        """Return an agent's state, empty if it is that of the last call; raises BadInput if it cannot be written."""
        if name not in self._picklers:
            self._picklers[name] = _Pickler(self._agents[name], self._numbers, self._kept)
        try:
            state = self._picklers[name].pickled()
        except Exception as error:
            why = one_line(error) if type(error) is TypeError else f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"agents[{name!r}]: must hold what can be told, to be gathered ({why})") from error
        before, self._last[name] = self._last.get(name), state
        return b"" if state == before else state

    def _kept(self, digest: bytes, data: bytes) -> None:
        if digest not in self._known:
            self._known.add(digest)
            self._keep(digest, data)


class _Pickler(pickle.Pickler):
    """Pickles one agent's state, again and again."""

    def __init__(self, agent: Agent, numbers: Mapping[int, int], keep: Callable[[bytes, bytes], None]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=5)
        self._agent, self._numbers, self._keep = agent, numbers, keep
        # The modules and names of all classes and functions that it named.
        self.names: set[tuple[str, str]] = set()
        # What the first pickle left out: an agent that was made in the same way has the same under the same number.
        self.left_out: list[Any] = []
        self._is_first = True
        # By identity, the arrays of this pickle with what stands for them, and what the large ones held.
        self._arrays: dict[int, tuple[NDArray[Any], Any]] = {}
        self._large: dict[int, tuple[NDArray[np.uint8], Any]] = {}

    def pickled(self) -> bytes:
        """Return the state as it is now; raises an error if something cannot be written."""
        self._file.seek(0)
        self._file.truncate()
        self.clear_memo()
        # Held on to until the end: the place in memory of one that is gone may be another's.
        before, self._arrays = self._arrays, {}
        self.dump(self._agent.__getstate__())
        self._large = {key: self._large[key] for key in self._large.keys() & self._arrays.keys()}
        before.clear()
        self._is_first = False
        return self._file.getvalue()

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for an array, an agent, what is left out or only named; None for all else."""
        cls: Any = type(value)
        if cls in _PLAIN:
            return None
        if cls is np.ndarray and not value.dtype.hasobject:
            if id(value) not in self._arrays:
                self._arrays[id(value)] = value, (len(self._arrays), *self._reference(value))
            return "array", *self._arrays[id(value)][1]
        if id(value) in self._numbers:
            return "agent", self._numbers[id(value)]
        if _is_left_out(value):
            if self._is_first:
                self.left_out.append(value)
            numbers = [number for number, each in enumerate(self.left_out) if each is value]
            return "left out", numbers[0] if numbers else None
        if _home_of(cls) is not cls or isinstance(value, type | FunctionType | BuiltinFunctionType):
            return None
        return ("name", *self._named(value)) if _is_named(value) else None

    def reducer_override(self, value: Any) -> Any:
        """Return how an object is made anew; raises TypeError for what cannot be."""
        cls: Any = type(value)
        home, new = _home_of(cls), copyreg.__newobj__  # type: ignore[attr-defined]
        if _is_method(value):
            if not _has_method(value.__self__, value.__name__):
                raise TypeError(f"not {value.__name__} of a {type(value.__self__).__name__}")
            return _method, (value.__self__, value.__name__)
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            if _MAKERS.get(value.__name__) is not value:
                self._named(value)
            return NotImplemented
        if issubclass(cls, Enum) and cls.__members__.get(value.name) is value:
            return _member, (cls, value.name)
        if home is object and cls is not core.Frame and not issubclass(cls, Enum):
            return new, (cls,), _attributes(value)
        if home in _ERRORS:
            # A class's own __reduce__ is not asked.
            _, *parts = home.__reduce__(value)
            return _of_arguments, (cls, *parts[0]), *parts[1:]
        if home in _OF_A_VALUE and not issubclass(cls, Enum) and not getattr(value, "__dict__", None):
            return new, (cls, home.__getnewargs__(value)[0])
        if home in (*_CONTAINERS, *_OF_ARGUMENTS):
            maker, arguments, state, *items = (*value.__reduce_ex__(5), None)[:5]
            state = object.__getstate__(value) if home in _CONTAINERS else state
            if maker is new:
                return new, (cls,), state, *items
            if maker is cls:
                return _of_arguments, (cls, *arguments), state, *items
        return _value(value)

    def _named(self, value: Any) -> tuple[str, str]:
        name = _name_of(value)
        self.names.add(name)
        return name

    def _reference(self, array: NDArray[Any]) -> tuple[bool, bytes, bool]:
        """Return whether an array's bytes are kept apart, they or their hash, and whether it lies column by column."""
        by_column = array.flags.f_contiguous and not array.flags.c_contiguous
        if array.nbytes <= _SMALL:
            return False, encode(array), by_column
        if array.nbytes < _LARGE:
            return True, self._digest(array), by_column
        # Mostly data, which stay as they are: to compare them takes a tenth of the time that a hash does.
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        form = array.dtype, array.shape, by_column
        before, known = self._large.get(id(array), (raw, (None, b"")))
        if known[0] != form or not _same(before, raw):
            known = form, self._digest(array)
            self._large[id(array)] = raw.copy(), known
        return True, known[1], by_column

    def _digest(self, array: NDArray[Any]) -> bytes:
        data = encode(array)
        digest = hashlib.blake2b(data, digest_size=16).digest()
        self._keep(digest, data)
        return digest


def _attributes(value: Any) -> Any:
    """Return the state of an object, which without a ``__setstate__`` must be attributes."""
    state = value.__getstate__()
    if _sets_its_state(value):
        return state
    # A frozen dataclass with slots returns only their contents.
    state = object.__getstate__(value) if isinstance(state, list) else state
    if not (state is None or isinstance(state, dict) or (isinstance(state, tuple) and len(state) == 2)):
        raise TypeError(f"not a {type(value).__qualname__} whose __getstate__ returns no attributes")
    return state


def _value(value: Any) -> Any:
    """Return how a value of numpy's, a random generator, a frame or a table of copies is made anew."""
    cls: Any = type(value)
    if isinstance(value, np.generic | complex):
        return _scalar, (encode(value),)
    if isinstance(value, np.dtype):
        return _dtype, (encode(np.empty(0, value)),)
    if cls is np.ndarray and value.dtype == object:
        return _items, (value.shape, [*value.flat])
    if cls in _BITS:
        return _bits, (cls.__name__, value.state)
    if cls is np.random.Generator:
        return _generator, (value.bit_generator,)
    if cls is np.random.RandomState:
        return _old_generator, (value.get_state(legacy=False),)
    if cls is random.Random:
        return _random, (value.getstate(),)
    if cls is core.Frame:
        return _frame, value.__reduce__()[1]
    if cls is core.Copies:
        _, (neighbors, _), (table, rounds) = value.__reduce__()
        return _copies, (neighbors, table, rounds)
    raise TypeError(f"not a {cls.__module__}.{cls.__qualname__}")


def _same(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> bool:
    """Return whether two pieces of memory of one size hold the same."""
    words = len(now) & ~7
    # Eight bytes at a time; a NaN is the same as itself.
    same = np.array_equal(before[:words].view(np.uint64), now[:words].view(np.uint64))
    return bool(same) and bool((before[words:] == now[words:]).all())


# --- reading ----------------------------------------------------------------------------------------------------------

_BUILTIN = ("bool", "bytearray", "complex", "frozenset", "int", "float", "list", "object", "range", "set", "slice")
_HARMLESS = {
    *(("builtins", name) for name in (*_BUILTIN, "dict", "tuple", "str", "bytes")),
    *((each.__module__, each.__name__) for each in (*_ERRORS, *_OF_ARGUMENTS)),
    *(("fractions", "Fraction"), ("collections", "Counter"), ("random", "Random")),
    *(("numpy.random._generator", "Generator"), ("numpy.random.mtrand", "RandomState")),
    *((each.__module__, each.__name__) for each in _BITS),
    *(("asyncio.queues", name) for name in ("Queue", "PriorityQueue", "LifoQueue")),
    *(("asyncio.locks", name) for name in ("Lock", "Event", "Condition", "Semaphore", "BoundedSemaphore")),
}
"""What agents may come to hold though they did not at the beginning."""


class StateReader:
    """Gives agents that have not run the states that a `StateWriter` wrote of agents made in the same way."""

    def __init__(self, agents: Mapping[Hashable, Agent]) -> None:
        self.agents = [*agents.values()]
        self.arrays: dict[bytes, NDArray[Any]] = {}
        self._by_name = agents
        self._allowed = set(_HARMLESS)
        self._left_out: dict[Hashable, list[Any]] = {}
        # Attributes that an agent was given, or had at the beginning.
        self._given = {name: vars(agent).keys() - {"_netsim"} for name, agent in agents.items()}
        numbers = {id(agent): number for number, agent in enumerate(self.agents)}
        for name, agent in agents.items():
            pickler = _Pickler(agent, numbers, lambda digest, data: None)
            # One that cannot be written is refused where it is to be written.
            with suppress(Exception):
                pickler.pickled()
            self._allowed |= pickler.names
            self._left_out[name] = pickler.left_out
        # Whoever wrote the agents wrote what stands beside them, too.
        modules = {each.__module__ for agent in self.agents for each in type(agent).__mro__}
        self._own = {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}

    def learn(self, digest: bytes, data: bytes) -> None:
        """Take note of an array; raises WireError if the bytes are none."""
        self.arrays[digest] = _array(data)

    def restore(self, name: Hashable, state: bytes) -> None:
        """Give an agent what was written of it, if anything was; raises NetsimError if it cannot or may not be read."""
        try:
            if state:
                self._give(name, _Unpickler(state, self, self._left_out[name]).load())
        except Exception as error:
            why = one_line(error) if isinstance(error, NetsimError) else f"{type(error).__name__}: {one_line(error)}"
            raise NetsimError(f"an agent's state cannot be read ({why})") from error

    def _give(self, name: Hashable, state: Any) -> None:
        agent, given = self._by_name[name], self._given[name]
        there = vars(agent)
        place = there.get("_netsim")
        if _sets_its_state(agent):
            agent.__setstate__(state)  # type: ignore[attr-defined]
        else:
            fields, slots = _fields(state)
            # What was left out stays as it is.
            new = {key: there.get(key, each) if isinstance(each, LeftOut) else each for key, each in fields.items()}
            for key in given - fields.keys():
                there.pop(key, None)
            there.update(new)
            given.update(fields)
            _set_slots(agent, slots)
        if place is not None:
            # An agent's place in a network is no part of its state.
            there["_netsim"] = place

    def find(self, module: str, name: str) -> Any:
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
    parts = ("netsim.agents", "netsim.coders", "netsim.transport", "netsim.core._core", "netsim.scenarios.tasks")
    return any(module == each or module.startswith(f"{each}.") for each in parts)


def _sets_its_state(value: Any) -> bool:
    setter = getattr(type(value), "__setstate__", None)
    # Of a frozen dataclass with slots it is Python's own, and sets fields.
    return setter is not None and getattr(setter, "__module__", None) != "dataclasses"


def _fields(state: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes, and those in slots, of a state; raises an error if it is of none."""
    fields, slots = state if isinstance(state, tuple) else (state, None)
    fields, slots = fields or {}, slots or {}
    if not all(type(name) is str for name in (*fields, *slots)):
        raise TypeError("a name of an attribute is none")
    return fields, slots


def _set_slots(value: Any, slots: dict[str, Any]) -> None:
    for name, each in slots.items():
        # Not its class, say.
        if not isinstance(inspect.getattr_static(type(value), name), MemberDescriptorType):
            raise TypeError(f"a {type(value).__name__} has no slot {name}")
        # Of a frozen object nothing may be assigned in its own way.
        object.__setattr__(value, name, each)


class _Unpickler(pickle._Unpickler):
    """Reads what `_Pickler` writes and no other instruction; derived from the one in Python, which has methods."""

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    read: Callable[[int], bytes]

    def __init__(self, data: bytes, reader: StateReader, left_out: list[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._reader, self._left_out = reader, left_out
        self._arrays: dict[int, NDArray[Any]] = {}
        # By identity: what was made here, for nothing else is given attributes; and the hashes of containers' keys.
        self._made: dict[int, Any] = {}
        self._hashes: dict[int, set[int]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return one of this module's makers, or what agents may hold; raises an error for all else."""
        return _MAKERS[name] if module == __name__ else self._reader.find(module, name)

    def persistent_load(self, reference: Any) -> Any:
        """Return an array, an agent, what was left out or what is only named; raises an error for all else."""
        what, *parts = reference
        if what == "array":
            number, is_kept, data, by_column = parts
            if number not in self._arrays:
                found = self._reader.arrays[data] if is_kept else _array(data)
                self._arrays[number] = np.array(found, order="F" if by_column else "C")
            return self._arrays[number]
        if what == "name":
            return self._reader.find(*parts)
        [number] = parts
        if what == "left out" and number is None:
            return LeftOut()
        known = {"left out": self._left_out, "agent": self._reader.agents}[what]
        return known[range(len(known))[number]]

    def _note(self, value: Any) -> None:
        self._made[id(value)] = value
        self.stack.append(value)

    def _reduce(self) -> None:
        arguments, maker = self.stack.pop(), self.stack.pop()
        if not isinstance(maker, FunctionType) or _MAKERS.get(maker.__name__) is not maker:
            raise NetsimError("it calls what must not be called")
        value = maker(*arguments)
        (self._note if maker is _of_arguments else self.stack.append)(value)

    def _new(self) -> None:
        arguments, cls = self.stack.pop(), self.stack.pop()
        if arguments:
            self.stack.append(_of_a_value(cls, *arguments))
        else:
            self._note(_empty(cls))

    def _build(self) -> None:
        state, value = self.stack.pop(), self.stack[-1]
        if id(value) not in self._made:
            raise NetsimError("it gives attributes to what it did not make")
        if _sets_its_state(value):
            value.__setstate__(state)
            return
        fields, slots = _fields(state)
        if fields:
            vars(value).update(fields)
        _set_slots(value, slots)

    def _append(self, items: list[Any]) -> None:
        home: Any = deque if isinstance(self.stack[-1], deque) else list
        home.extend(self.stack[-1], items)

    def _set_items(self, flat: list[Any]) -> None:
        target = self.stack[-1]
        home: Any = OrderedDict if isinstance(target, OrderedDict) else dict
        self._check_keys(target, flat[::2])
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            home.__setitem__(target, key, value)

    def _add_items(self) -> None:
        items = self.pop_mark()
        self._check_keys(self.stack[-1], items)
        set.update(self.stack[-1], items)

    def _check_keys(self, target: Any, keys: list[Any]) -> None:
        """Raise WireError if many keys have the same hash, so that looking one up takes long."""
        seen = self._hashes.setdefault(id(target), set())
        seen.update(map(hash, keys))
        if len(target) + len(keys) - len(seen) > _FEW_COLLISIONS:
            check_keys([*target, *keys], "decode")

    def _frozenset(self) -> None:
        items = self.pop_mark()
        check_keys(items, "decode")
        self.stack.append(frozenset(items))

    def _bytearray(self) -> None:
        # A size that is claimed takes no memory before the bytes are there.
        self.stack.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))


_AS_PYTHON_DOES = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "MEMOIZE", "BINGET", "LONG_BINGET", "BINPERSID", "NONE"),
    *("STACK_GLOBAL", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "EMPTY_TUPLE"),
    *("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"),
)
"""Instructions that make numbers, texts, tuples and empty containers, or ask what is overridden above."""
_IN_OUR_WAY: dict[bytes, Callable[[_Unpickler], None]] = {
    pickle.REDUCE: _Unpickler._reduce,
    pickle.NEWOBJ: _Unpickler._new,
    pickle.BUILD: _Unpickler._build,
    pickle.APPEND: lambda self: self._append([self.stack.pop()]),
    pickle.APPENDS: lambda self: self._append(self.pop_mark()),
    pickle.SETITEM: lambda self: self._set_items([self.stack.pop(-2), self.stack.pop()]),
    pickle.SETITEMS: lambda self: self._set_items(self.pop_mark()),
    pickle.ADDITEMS: _Unpickler._add_items,
    pickle.FROZENSET: _Unpickler._frozenset,
    pickle.BYTEARRAY8: _Unpickler._bytearray,
}
_theirs: Any = pickle._Unpickler.dispatch
_Unpickler.dispatch = {code: _theirs[code] for code in (getattr(pickle, name)[0] for name in _AS_PYTHON_DOES)} | {
    code[0]: how for code, how in _IN_OUR_WAY.items()
}
