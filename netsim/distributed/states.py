"""Pickle agents' states for a journal, and restore them; a pickle may name only allowlisted classes and functions.

A state is the result of an agent's ``__getstate__``. Each pickle is complete: restoring it replaces all objects that
the agent held. So *a probe must read states from* ``agents``: after a restore, an agent no longer holds the objects
that a program took from it before. Arrays are stored outside the pickles, under a hash of their content, so that an
array that never changes is stored once.

Reading a pickle calls no class that it names: an object is either created empty and then given its attributes, or
created by a function of `_MAKERS`.
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
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import Context as Variables
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim import core
from netsim.agent import Agent
from netsim.context import Context
from netsim.errors import BadInput, NetsimError, WireError, one_line
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.wire.codec import check_keys, decode, encode

__all__ = ["StateReader", "StateWriter", "Unavailable"]

# `check_keys` checks the keys of a container only if the container has more hash collisions than this.
_FEW_COLLISIONS = 200
# Sizes in bytes. An array of at most _SMALL is stored in the pickle, because a reference to such an array would be as
# long. An array of at least _LARGE is hashed only if it has changed.
_SMALL, _LARGE = 64, 1 << 16


class Unavailable:
    """Placeholder in a merged run for an object that is bound to its process, such as a running generator."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise NetsimError: the placeholder stands for a function that a merged run does not have."""
        raise NetsimError("a lambda or nested function in an agent's state is not available in a merged run")


_PROCESS_BOUND = (
    *(types.CoroutineType, types.AsyncGeneratorType, types.ModuleType, Variables, io.IOBase),
    *(threading.Thread, type(threading.Lock()), type(threading.RLock())),
    # asyncio's tasks, and the loops and futures that its queues and events hold.
    *(asyncio.Future, asyncio.AbstractEventLoop, asyncio.Handle),
    # The objects that connect an agent to its network.
    *(Context, Inbox, Outbox),
)
_ERRORS = tuple(each for each in vars(builtins).values() if isinstance(each, type) and issubclass(each, Exception))
_CONTAINERS = (list, dict, OrderedDict, defaultdict, set, deque)
# Classes whose objects are created from arguments. These classes only check the arguments: they run no code that a
# forged pickle could exploit.
_FROM_ARGUMENTS = (
    *(OrderedDict, defaultdict, dict, set, frozenset, deque, range, slice, partial, Decimal),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
)
# Classes whose objects are pickled as one value, without attributes. So an object of a derived class can be pickled
# only if it has no attributes.
_FROM_VALUE = (int, float, str, bytes, tuple)
_BITS = (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
_PLAIN = frozenset({types.NoneType, bool, int, float, str, bytes, tuple, list, dict, set, frozenset, bytearray})

# Py_TPFLAGS_HEAPTYPE, a flag of all classes defined in Python and of some classes defined in C.
_HEAP = 1 << 9


@cache
def _c_base(cls: Any) -> Any:
    """Return the base class in C that allocates the objects of a class, such as `object` or `list`."""
    while _is_defined_in_python(cls):
        cls = cls.__base__
    return cls


def _is_defined_in_python(cls: Any) -> bool:
    """Return whether a class is written in Python: it allocates objects as its base does, and has no methods in C."""
    slots = types.MemberDescriptorType | types.GetSetDescriptorType
    methods = [each for each in vars(cls).values() if getattr(each, "__objclass__", None) is cls]
    allocates = getattr(vars(cls).get("__new__"), "__self__", None) is cls
    return bool(cls.__flags__ & _HEAP) and not allocates and all(isinstance(each, slots) for each in methods)


def _is_method(value: Any) -> bool:
    if type(value) is types.BuiltinFunctionType:
        # Built-in functions have the same type as built-in methods, such as [].append. They differ in ``__self__``,
        # which is a module or None for a function.
        return not isinstance(value.__self__, types.ModuleType | types.NoneType)
    return type(value) is types.MethodType


def _is_left_out(value: Any) -> bool:
    """Return whether an object is bound to its process, such as running code, a lock, a file or a nested function."""
    cls: Any = type(value)
    if _is_method(value):
        return _is_left_out(value.__self__)
    # True for iterators defined in C, such as generators, `zip` and `itertools.count`.
    is_iterator = issubclass(cls, Iterator) and _c_base(cls) is cls
    return issubclass(cls, _PROCESS_BOUND) or is_iterator or (cls is types.FunctionType and "<" in value.__qualname__)


def _name_of(value: Any) -> tuple[str, str]:
    """Return the module and name of a class or function; raises TypeError if the module has no such name."""
    # The only supported objects without __qualname__ and __module__ are the ufuncs of scipy.special.
    name, module = getattr(value, "__qualname__", value.__name__), getattr(value, "__module__", None) or "scipy.special"
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise TypeError(f"it names {name}, which is not in the module {module}")
    return module, name


def _is_pickled_by_name(value: Any) -> bool:
    """Return whether an object that is no class or function is pickled by its name, as numpy's ufuncs are."""
    try:
        return isinstance(value, np.ufunc) or isinstance(value.__reduce_ex__(4), str)
    except Exception:
        return False


# --- makers -----------------------------------------------------------------------------------------------------------


def _empty(cls: Any) -> Any:
    """Return an empty object or container of a class, without running code of this class."""
    base = _c_base(cls) if isinstance(cls, type) else None
    if base not in (object, *_CONTAINERS) or issubclass(cls, (*_PROCESS_BOUND, Enum)):
        raise NetsimError(f"it names {cls}, of which no empty object can be created")
    return base.__new__(cls)


def _of_arguments(cls: Any, *args: Any) -> Any:
    base = _c_base(cls)
    if base not in _ERRORS + _FROM_ARGUMENTS:
        raise NetsimError(f"it names {cls}, which is not created from arguments")
    if base in _FROM_ARGUMENTS and any(isinstance(each, Iterable) and type(each) not in _PLAIN for each in args):
        # Refuse arguments that the class would iterate over without end, such as a huge range.
        raise NetsimError(f"a {cls.__qualname__} cannot be created from {[type(each).__name__ for each in args]}")
    if base is OrderedDict and args:
        # A class derived from OrderedDict could run its own code for each item.
        raise NetsimError("an OrderedDict must be created empty")
    if base in (set, frozenset):
        [items] = args
        check_keys(items, "decode")
    made = base.__new__(cls, *args)
    base.__init__(made, *args)
    return made


def _of_a_value(cls: Any, value: Any) -> Any:
    base, count = _c_base(cls), len(getattr(cls, "_split_state", ()))
    if base not in _FROM_VALUE or type(value) is not base or issubclass(cls, Enum) or (count and count != len(value)):
        raise NetsimError(f"a {cls.__qualname__} cannot be created from this value")
    return base.__new__(cls, value)


def _has_method(holder: Any, name: str) -> bool:
    """Return whether ``name`` is a method of ``holder`` that a state may name; runs no code of the holder."""
    cls = holder if isinstance(holder, type) else type(holder)
    found = inspect.getattr_static(cls, name, None)
    if isinstance(found, classmethod if cls is holder else types.FunctionType):
        return True
    takes = (*_CONTAINERS, random.Random, np.random.Generator, np.random.RandomState, core.Copies)
    return cls in takes and not name.startswith("_") and callable(found)


def _method(holder: Any, name: str) -> Any:
    if not _has_method(holder, name):
        raise NetsimError(f"it names {name} of a {type(holder).__qualname__}, which is not a method")
    found = inspect.getattr_static(holder if isinstance(holder, type) else type(holder), name)
    if isinstance(found, classmethod | types.FunctionType):
        # Do not use ``getattr``, which may run code of the class, such as a property.
        return types.MethodType(found.__func__ if isinstance(found, classmethod) else found, holder)
    return getattr(holder, name)


def _member(cls: Any, name: str) -> Any:
    if not issubclass(cls, Enum):
        raise NetsimError(f"{cls.__qualname__} has no members")
    return cls.__members__[name]


def _array(data: bytes) -> NDArray[Any]:
    """Return a read-only array from its bytes in the wire format; raises an error for any other bytes."""
    array = decode(data)
    # A forged array of zero-size elements could have so many elements that iterating over it never ends.
    if type(array) is not np.ndarray or array.size > len(data):
        raise WireError("these bytes are not an array")
    return array


def _dtype(data: bytes) -> np.dtype[Any]:
    return _array(data).dtype


def _scalar(data: bytes) -> Any:
    value = decode(data)
    if not isinstance(value, np.generic | complex):
        raise WireError("these bytes are not a number")
    return value


def _items(shape: tuple[int, ...], items: list[Any]) -> NDArray[Any]:
    if math.prod(shape) != len(items) or min(shape, default=0) < 0:
        raise NetsimError("the shape of an array does not match its items")
    array = np.empty(shape, object)
    for index, item in enumerate(items):
        array.flat[index] = item
    return array


# Upper limits of values in the state of a random generator. numpy uses these values as positions in buffers without a
# check, and would read beyond the buffers if they were larger.
_MAX_POSITION = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "has_gauss": 1}


def _check_generator_state(like: Any, state: Any, name: str = "") -> None:
    """Raise an error unless a random generator's state has the types, shapes and ranges of the valid state ``like``."""
    sound = type(state) is type(like)
    if sound and isinstance(like, dict):
        for key in like:
            _check_generator_state(like[key], state[key], key)
    elif sound and isinstance(like, np.ndarray):
        sound = state.dtype == like.dtype and state.shape == like.shape
    elif sound and isinstance(like, int):
        sound = 0 <= state <= _MAX_POSITION.get(name, 2**128)
    if not sound or (isinstance(like, str) and state != like):
        raise ValueError(f"{name} of a random generator is invalid")


def _bits(name: str, state: dict[str, Any]) -> Any:
    [made] = [each(0) for each in _BITS if each.__name__ == name]
    _check_generator_state(made.state, state)
    made.state = state  # type: ignore[assignment]
    return made


def _generator(bits: Any) -> np.random.Generator:
    if type(bits) not in _BITS:
        raise TypeError("not a bit generator")
    return np.random.Generator(bits)


def _old_generator(state: dict[str, Any]) -> np.random.RandomState:
    made = np.random.RandomState(0)
    _check_generator_state(made.get_state(legacy=False), state)
    made.set_state(state)
    return made


def _random(state: tuple[Any, ...]) -> random.Random:
    made = random.Random(0)
    # Unlike numpy, Python checks the state itself.
    made.setstate(state)
    return made


def _frame(*fields: Any) -> Any:
    # Check the bytes here: when an agent reads the payload later, they are decoded without checks.
    if len(decode(fields[4])) < 4:
        raise ValueError("not a frame")
    return core.Frame(*fields)


def _copies(neighbors: tuple[Any, ...], table: NDArray[Any], rounds: list[int]) -> Any:
    if len(neighbors) != len(table):
        raise ValueError("not a table of copies")
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
    """Writes the states of a network's agents; calls ``keep`` with the digest and bytes of each new array."""

    def __init__(self, agents: Mapping[Any, Agent], keep: Callable[[bytes, bytes], None]) -> None:
        self._agents, self._keep = agents, keep
        self._numbers = {id(agent): number for number, agent in enumerate(agents.values())}
        self._known: set[bytes] = set()
        self._picklers: dict[Hashable, _Pickler] = {}
        self._last: dict[Hashable, bytes] = {}

    def state(self, name: Hashable) -> bytes:
        """Return an agent's state, or b"" if it has not changed since the last call; raises BadInput if unpicklable."""
        if name not in self._picklers:
            self._picklers[name] = _Pickler(self._agents[name], self._numbers, self._kept)
        try:
            state = self._picklers[name].pickled()
        except Exception as error:
            reason = one_line(error) if type(error) is TypeError else f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"agents[{name!r}]: must have a state that a journal can hold ({reason})") from error
        before, self._last[name] = self._last.get(name), state
        return b"" if state == before else state

    def _kept(self, digest: bytes, data: bytes) -> None:
        if digest not in self._known:
            self._known.add(digest)
            self._keep(digest, data)


class _Pickler(pickle.Pickler):
    """Pickles the state of one agent repeatedly."""

    def __init__(self, agent: Agent, numbers: Mapping[int, int], keep: Callable[[bytes, bytes], None]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=5)
        self._agent, self._numbers, self._keep = agent, numbers, keep
        # (module, name) of each class and function that the pickles name.
        self.names: set[tuple[str, str]] = set()
        # The objects left out of the first pickle, in order. A pickle refers to such an object by its index in this
        # list. The reader creates its agent in the same way, so that its agent leaves out the same objects in the same
        # order, and the index identifies the object.
        self.left_out: list[Any] = []
        self._is_first = True
        # Both dicts are keyed by the ``id`` of an array. `_arrays`: the arrays of this pickle, with their references.
        # `_large`: copies of the large arrays, for comparison with the next pickle.
        self._arrays: dict[int, tuple[NDArray[Any], Any]] = {}
        self._large: dict[int, tuple[NDArray[np.uint8], Any]] = {}

    def pickled(self) -> bytes:
        """Return the agent's current state as a pickle; raises an error if it cannot be pickled."""
        self._file.seek(0)
        self._file.truncate()
        self.clear_memo()
        # Keep the arrays of the last pickle alive until the new pickle is complete. Otherwise a new array could get the
        # ``id`` of a freed array, and would be taken for it.
        before, self._arrays = self._arrays, {}
        self.dump(self._agent.__getstate__())
        self._large = {key: self._large[key] for key in self._large.keys() & self._arrays.keys()}
        before.clear()
        self._is_first = False
        return self._file.getvalue()

    def persistent_id(self, value: Any) -> Any:
        """Return a reference if ``value`` is an array, an agent, an object left out, or pickled by name; else None."""
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
        if _c_base(cls) is not cls or isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            return None
        return ("name", *self._reference_name(value)) if _is_pickled_by_name(value) else None

    def reducer_override(self, value: Any) -> Any:
        """Return the function and arguments that recreate an object; raises TypeError for an unsupported object."""
        cls: Any = type(value)
        base, new = _c_base(cls), copyreg.__newobj__  # type: ignore[attr-defined]
        if _is_method(value):
            if not _has_method(value.__self__, value.__name__):
                raise TypeError(f"it holds the method {value.__name__} of a {type(value.__self__).__name__}")
            return _method, (value.__self__, value.__name__)
        if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            if _MAKERS.get(value.__name__) is not value:
                self._reference_name(value)
            return NotImplemented
        if issubclass(cls, Enum) and cls.__members__.get(value.name) is value:
            return _member, (cls, value.name)
        if base is object and cls is not core.Frame and not issubclass(cls, Enum):
            return new, (cls,), _attributes(value)
        if base in _ERRORS:
            # Call the base class's __reduce__: a derived class's __reduce__ may name any function.
            _, *parts = base.__reduce__(value)
            return _of_arguments, (cls, *parts[0]), *parts[1:]
        if base in _FROM_VALUE and not issubclass(cls, Enum) and not getattr(value, "__dict__", None):
            return new, (cls, base.__getnewargs__(value)[0])
        if base in (*_CONTAINERS, *_FROM_ARGUMENTS):
            maker, arguments, state, *items = (*value.__reduce_ex__(5), None)[:5]
            state = object.__getstate__(value) if base in _CONTAINERS else state
            if maker is new:
                return new, (cls,), state, *items
            if maker is cls:
                return _of_arguments, (cls, *arguments), state, *items
        return _value(value)

    def _reference_name(self, value: Any) -> tuple[str, str]:
        name = _name_of(value)
        self.names.add(name)
        return name

    def _reference(self, array: NDArray[Any]) -> tuple[bool, bytes, bool]:
        """Return (is_hash, data, column_major) for an array; ``data`` is its hash if ``is_hash``, else its bytes."""
        by_column = array.flags.f_contiguous and not array.flags.c_contiguous
        if array.nbytes <= _SMALL:
            return False, encode(array), by_column
        if array.nbytes < _LARGE:
            return True, self._digest(array), by_column
        # Compare with the last content first: most large arrays never change, and a comparison takes a tenth of the
        # time of a hash.
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
    """Return an object's state; raises TypeError if the state is neither attributes nor read by ``__setstate__``."""
    state = value.__getstate__()
    if _has_own_setstate(value):
        return state
    # A frozen dataclass with slots has a ``__getstate__`` that returns a list of values without names: call object's.
    state = object.__getstate__(value) if isinstance(state, list) else state
    if not (state is None or isinstance(state, dict) or (isinstance(state, tuple) and len(state) == 2)):
        raise TypeError(f"it holds a {type(value).__qualname__}, whose __getstate__ does not return attributes")
    return state


def _value(value: Any) -> Any:
    """Return the function and arguments that recreate a numpy value, random generator, frame or table of copies."""
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
    raise TypeError(f"it holds a {cls.__module__}.{cls.__qualname__}")


def _same(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> bool:
    words = len(now) & ~7
    # Compare as integers, because a NaN does not equal itself, and in units of eight bytes, which is faster.
    same = np.array_equal(before[:words].view(np.uint64), now[:words].view(np.uint64))
    return bool(same) and bool((before[words:] == now[words:]).all())


# --- reading ----------------------------------------------------------------------------------------------------------

_BUILTIN = ("bool", "bytearray", "complex", "frozenset", "int", "float", "list", "object", "range", "set", "slice")
_HARMLESS = {
    *(("builtins", name) for name in (*_BUILTIN, "dict", "tuple", "str", "bytes")),
    *((each.__module__, each.__name__) for each in (*_ERRORS, *_FROM_ARGUMENTS)),
    *(("fractions", "Fraction"), ("collections", "Counter"), ("random", "Random")),
    *(("numpy.random._generator", "Generator"), ("numpy.random.mtrand", "RandomState")),
    *((each.__module__, each.__name__) for each in _BITS),
    *(("asyncio.queues", name) for name in ("Queue", "PriorityQueue", "LifoQueue")),
    *(("asyncio.locks", name) for name in ("Lock", "Event", "Condition", "Semaphore", "BoundedSemaphore")),
}
"""(module, name) of each class that any state may name, even if no agent held an instance before the run."""


class StateReader:
    """Restores states written by a `StateWriter`, in agents created in the same way as the writer's."""

    def __init__(self, agents: Mapping[Hashable, Agent]) -> None:
        self.agents = [*agents.values()]
        self.arrays: dict[bytes, NDArray[Any]] = {}
        self._by_name = agents
        self._allowed = set(_HARMLESS)
        self._left_out: dict[Hashable, list[Any]] = {}
        # For each agent: the names of the attributes that it had at first, or received from a state since then.
        self._known_attributes = {name: vars(agent).keys() - {"_netsim"} for name, agent in agents.items()}
        numbers = {id(agent): number for number, agent in enumerate(self.agents)}
        for name, agent in agents.items():
            pickler = _Pickler(agent, numbers, lambda digest, data: None)
            # If an agent cannot be pickled, `StateWriter` has refused it, so the journal has no states of this agent.
            with suppress(Exception):
                pickler.pickled()
            self._allowed |= pickler.names
            self._left_out[name] = pickler.left_out
        # States may also name classes defined in the same modules as the agents' classes.
        modules = {each.__module__ for agent in self.agents for each in type(agent).__mro__}
        self._agent_modules = {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}

    def learn(self, digest: bytes, data: bytes) -> None:
        """Store an array that states refer to by ``digest``; raises WireError if the bytes are not an array."""
        self.arrays[digest] = _array(data)

    def restore(self, name: Hashable, state: bytes) -> None:
        """Restore an agent's state; b"" leaves it unchanged. Raises NetsimError for a damaged or forbidden state."""
        try:
            if state:
                self._set_state(name, _Unpickler(state, self, self._left_out[name]).load())
        except Exception as error:
            reason = one_line(error) if isinstance(error, NetsimError) else f"{type(error).__name__}: {one_line(error)}"
            raise NetsimError(f"an agent's state cannot be read ({reason})") from error

    def _set_state(self, name: Hashable, state: Any) -> None:
        agent, known = self._by_name[name], self._known_attributes[name]
        attributes = vars(agent)
        context = attributes.get("_netsim")
        if _has_own_setstate(agent):
            agent.__setstate__(state)  # type: ignore[attr-defined]
        else:
            fields, slots = _split_state(state)
            # An attribute that was left out of the state keeps its current value.
            new = {
                key: attributes.get(key, value) if isinstance(value, Unavailable) else value
                for key, value in fields.items()
            }
            for key in known - fields.keys():
                attributes.pop(key, None)
            attributes.update(new)
            known.update(fields)
            _set_slots(agent, slots)
        if context is not None:
            # The connection to the network is not part of a state, so add it again.
            attributes["_netsim"] = context

    def find(self, module: str, name: str) -> Any:
        """Return the class or function with a name that occurs in a state; raises NetsimError if it is not allowed."""
        found = None
        if module in self._agent_modules or _is_allowed_module(module) or (module, name) in self._allowed:
            found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        if (module, name) in self._allowed:
            return found
        # From the modules of agents, allow only the classes that a module defines, not those that it imports.
        if not isinstance(found, type) or found.__module__ != module:
            raise NetsimError(f"it names {module}.{name}, which no agent had at the beginning or has in its module")
        return found


def _is_allowed_module(module: str) -> bool:
    # These modules define objects that agents hold, and nothing that accesses files or runs code.
    parts = ("netsim.agents", "netsim.coders", "netsim.transport", "netsim.core._core", "netsim.scenarios.tasks")
    return any(module == each or module.startswith(f"{each}.") for each in parts)


def _has_own_setstate(value: Any) -> bool:
    setter = getattr(type(value), "__setstate__", None)
    # `dataclasses` generates a __setstate__ for frozen dataclasses with slots, which only sets the fields.
    return setter is not None and getattr(setter, "__module__", None) != "dataclasses"


def _split_state(state: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a state's attributes for ``__dict__`` and for slots; raises an error if the state has another form."""
    fields, slots = state if isinstance(state, tuple) else (state, None)
    fields, slots = fields or {}, slots or {}
    if not all(type(name) is str for name in (*fields, *slots)):
        raise TypeError("the name of an attribute must be text")
    return fields, slots


def _set_slots(value: Any, slots: dict[str, Any]) -> None:
    for name, each in slots.items():
        # Set only slots: a forged state must not set ``__class__``, for example.
        if not isinstance(inspect.getattr_static(type(value), name), types.MemberDescriptorType):
            raise TypeError(f"a {type(value).__name__} has no slot {name}")
        # A frozen dataclass forbids assignment, so call object's method.
        object.__setattr__(value, name, each)


class _Unpickler(pickle._Unpickler):
    """Unpickler that accepts only the opcodes that `_Pickler` writes.

    It derives from pickle's private implementation in Python, because the C implementation cannot override opcodes.
    """

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    read: Callable[[int], bytes]

    def __init__(self, data: bytes, reader: StateReader, left_out: list[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._reader, self._left_out = reader, left_out
        self._arrays: dict[int, NDArray[Any]] = {}
        # Both dicts are keyed by the ``id`` of an object. `_made`: the objects that this unpickler created; only these
        # may get attributes. `_hashes`: the hashes of each container's keys.
        self._made: dict[int, Any] = {}
        self._hashes: dict[int, set[int]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return a function of `_MAKERS`, or an allowed class or function; raises an error for any other."""
        return _MAKERS[name] if module == __name__ else self._reader.find(module, name)

    def persistent_load(self, reference: Any) -> Any:
        """Return the object for a reference from `_Pickler.persistent_id`; raises an error for any other reference."""
        kind, *parts = reference
        if kind == "array":
            number, is_kept, data, by_column = parts
            if number not in self._arrays:
                found = self._reader.arrays[data] if is_kept else _array(data)
                self._arrays[number] = np.array(found, order="F" if by_column else "C")
            return self._arrays[number]
        if kind == "name":
            return self._reader.find(*parts)
        [number] = parts
        if kind == "left out" and number is None:
            return Unavailable()
        known = {"left out": self._left_out, "agent": self._reader.agents}[kind]
        return known[range(len(known))[number]]

    def _note(self, value: Any) -> None:
        self._made[id(value)] = value
        self.stack.append(value)

    def _reduce(self) -> None:
        arguments, maker = self.stack.pop(), self.stack.pop()
        if not isinstance(maker, types.FunctionType) or _MAKERS.get(maker.__name__) is not maker:
            raise NetsimError("it calls a function that is not allowed")
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
            raise NetsimError("it gives attributes to an object that it did not create")
        if _has_own_setstate(value):
            value.__setstate__(state)
            return
        fields, slots = _split_state(state)
        if fields:
            vars(value).update(fields)
        _set_slots(value, slots)

    def _append(self, items: list[Any]) -> None:
        base: Any = deque if isinstance(self.stack[-1], deque) else list
        base.extend(self.stack[-1], items)

    def _set_items(self, flat: list[Any]) -> None:
        target = self.stack[-1]
        base: Any = OrderedDict if isinstance(target, OrderedDict) else dict
        self._check_keys(target, flat[::2])
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            base.__setitem__(target, key, value)

    def _add_items(self) -> None:
        items = self.pop_mark()
        self._check_keys(self.stack[-1], items)
        set.update(self.stack[-1], items)

    def _check_keys(self, target: Any, keys: list[Any]) -> None:
        """Raise WireError if many keys have the same hash, which would make lookups slow."""
        seen = self._hashes.setdefault(id(target), set())
        seen.update(map(hash, keys))
        if len(target) + len(keys) - len(seen) > _FEW_COLLISIONS:
            check_keys([*target, *keys], "decode")

    def _frozenset(self) -> None:
        items = self.pop_mark()
        check_keys(items, "decode")
        self.stack.append(frozenset(items))

    def _bytearray(self) -> None:
        # Read the bytes before allocating, because the pickle may claim a forged size, larger than the memory.
        self.stack.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))


_INHERITED = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "MEMOIZE", "BINGET", "LONG_BINGET", "BINPERSID", "NONE"),
    *("STACK_GLOBAL", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "EMPTY_TUPLE"),
    *("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"),
)
"""Opcodes for which the base class's implementation is kept. They create numbers, texts, tuples and empty containers,
or call an overridden method."""
_OVERRIDDEN: dict[bytes, Callable[[_Unpickler], None]] = {
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
_inherited: Any = pickle._Unpickler.dispatch
_Unpickler.dispatch = {code: _inherited[code] for code in (getattr(pickle, name)[0] for name in _INHERITED)} | {
    code[0]: how for code, how in _OVERRIDDEN.items()
}
