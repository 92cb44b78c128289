"""Agents' states, as a process writes them down for whoever gathers its part of a run.

A state is what pickle keeps of an agent, but for what belongs to its process alone, and for its arrays: each is kept
once, under a hash of what is in it, so that data which never change cost nothing. Whoever reads states makes objects
only of the classes that its own agents are made of, and of netsim's and numpy's: a file can name no others.
"""

import asyncio
import hashlib
import io
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.errors import BadInput, NetsimError, one_line

__all__ = ["LeftOut", "StateReader", "StateWriter", "Written", "is_refilled", "is_written"]

# In bytes: smaller arrays are no longer than what would stand for them; larger ones are compared, then hashed.
_SMALL, _LARGE = 64, 1 << 16

# Set for classes that are written in Python (Py_TPFLAGS_HEAPTYPE), and of those which are values.
_HEAP = 1 << 9
_VALUES = (tuple, str, bytes, int, float, complex, frozenset, type)

_Reference = tuple[bytes, str, tuple[int, ...]]

_BUILTIN = ("bool", "bytearray", "complex", "frozenset", "int", "float", "list", "object", "range", "set", "slice")
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_HARMLESS = {
    *(("builtins", name) for name in _BUILTIN),
    *(("collections", name) for name in ("Counter", "OrderedDict", "defaultdict", "deque")),
    # numpy's folder of compiled code has had two names.
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    *(("numpy.random._pickle", f"__{name}_ctor") for name in ("generator", "bit_generator", "randomstate")),
    *((f"numpy.random._{name.lower()}", name) for name in _BIT_GENERATORS),
    *(("numpy.random.bit_generator", name) for name in ("SeedSequence", "__pyx_unpickle_SeedSequence")),
    *(("asyncio.queues", name) for name in ("Queue", "PriorityQueue", "LifoQueue")),
    *(("asyncio.locks", name) for name in ("Lock", "Event", "Condition", "Semaphore", "BoundedSemaphore")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("copyreg", "_reconstructor"),
}
"""What agents may come to hold though they did not at the beginning."""


Written = dict[str, Any]
"""Of a state: ``fields``, all attributes; or those that ``changed``, and the names of those that are ``gone``; or
``whole``, what an agent with a ``__setstate__`` of its own is given."""

_LEFT_OUT, _FIELD = "left out", "field"

_OF_ONE_PROCESS = (
    GeneratorType,
    CoroutineType,
    AsyncGeneratorType,
    ModuleType,
    Context,
    # Tasks, and what queues and events hold of the loop that they are used on.
    asyncio.Future,
    asyncio.AbstractEventLoop,
    asyncio.Handle,
    # Not io.IOBase: to ask an abstract class takes long, and every object is asked.
    *(each for each in io.IOBase.__mro__ if each not in (io.IOBase, object)),
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Thread,
)


class LeftOut:
    """What stands for an object that no other process can have, as a generator that is under way."""


class StateWriter:
    """Writes agents' states.

    Parameters
    ----------
    keep : callable
        Called with the digest and the array for each array that is new.
    """

    def __init__(self, keep: Callable[[bytes, NDArray[Any]], None]) -> None:
        self._keep = keep
        self._known: set[bytes] = set()
        # Large arrays, what was in them, and how they were referred to.
        self._large: dict[int, tuple[NDArray[Any], NDArray[np.uint8], _Reference]] = {}
        # By agent, its attributes as they were told last.
        self._told: dict[Hashable, dict[str, bytes]] = {}
        # By agent and attribute, the object that it is, and which one it is of those that it has been.
        self._objects: dict[tuple[Hashable, str], tuple[Any, int]] = {}

    def state(self, name: Hashable, agent: Agent) -> Written:
        """Return what of an agent's state is new since this was last called; raises BadInput if it cannot be pickled.

        Its attributes are told one by one: what does not change is read but once, which may take long.
        """
        try:
            fields = fields_of(agent, agent.__getstate__())
            if fields is None:
                return {"whole": self._pickled(agent.__getstate__())}
            # What several attributes hold, as the agent itself, is told where it stands, and elsewhere only named.
            known = {id(agent): ("", 0)} | {
                id(value): (each, self._age(name, each, value)) for each, value in fields.items() if _is_object(value)
            }
            pickled = {each: self._pickled(value, known, each) for each, value in fields.items()}
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"agents[{name!r}]: must hold what can be pickled, to be gathered ({why})") from error
        told = self._told.get(name)
        self._told[name] = pickled
        if told is None:
            return {"fields": pickled}
        changed = {each: value for each, value in pickled.items() if told.get(each) != value}
        return {"changed": changed, "gone": sorted(told.keys() - pickled.keys())}

    def _age(self, name: Hashable, attribute: str, value: Any) -> int:
        """Return how often an attribute of an agent has become another object: whoever else holds it tells it anew."""
        before, age = self._objects.get((name, attribute), (value, 0))
        age += before is not value
        self._objects[name, attribute] = value, age
        return age

    def _pickled(self, value: Any, known: Mapping[int, tuple[str, int]] | None = None, name: str = "") -> bytes:
        target = io.BytesIO()
        others = {key: place for key, place in (known or {}).items() if not place[0] or place[0] != name}
        _Pickler(target, self._reference, others).dump(value)
        return target.getvalue()

    def _reference(self, array: NDArray[Any]) -> _Reference:
        plain = np.ascontiguousarray(array)
        if array.nbytes < _LARGE:
            return self._hashed(plain)
        # Mostly data, which stay as they are: to compare them takes a tenth of the time that a hash does.
        raw = plain.reshape(-1).view(np.uint8)
        _, before, reference = self._large.get(id(array), (None, None, None))
        if before is None or reference is None or not _same(before, raw) or reference[1:] != _form(array):
            reference = self._hashed(plain)
            self._large[id(array)] = array, raw.copy(), reference
        return reference

    def _hashed(self, plain: NDArray[Any]) -> _Reference:
        # The bytes alone do not tell a shape from another.
        what = f"{plain.dtype.str}{plain.shape}".encode()
        digest = hashlib.blake2b(plain.view(np.uint8).data, digest_size=16, key=what[:64]).digest()
        if digest not in self._known:
            self._known.add(digest)
            self._keep(digest, plain)
        return digest, *_form(plain)


def fields_of(agent: Any, state: Any) -> dict[str, Any] | None:
    """Return the attributes of which a state, as ``__getstate__`` gave it, consists; None if it is something else."""
    if hasattr(agent, "__setstate__"):
        return None
    fields, slots = state if isinstance(state, tuple) else (state, None)
    return {**(fields or {}), **(slots or {})}


def _is_object(value: Any) -> bool:
    """Return whether a value is an object that an agent has made, and no number, text or array."""
    return not isinstance(
        value, int | float | complex | str | bytes | tuple | frozenset | np.generic | np.ndarray | None
    )


def is_refilled(old: Any, new: Any) -> bool:
    """Return whether ``old`` stays, and takes what is in ``new``: else ``new`` takes its place."""
    if type(old) is not type(new):
        return False
    if isinstance(new, np.ndarray):
        return bool(old.shape == new.shape and old.dtype == new.dtype and old.flags.writeable)
    if isinstance(new, deque):
        return bool(old.maxlen == new.maxlen)
    if isinstance(new, dict | list | set):
        return True
    # Of which pickle keeps attributes, and no more than these.
    kind: Any = type(new)
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    return plain and is_written(kind) and not isinstance(new, _VALUES)


def is_written(kind: type) -> bool:
    """Return whether a class is written in Python."""
    return bool(kind.__flags__ & _HEAP)


def _cannot_travel(value: Any) -> bool:
    """Return whether a value belongs to one process: what runs, locks, files, functions without a name."""
    if isinstance(value, FunctionType):
        return "<" in value.__qualname__
    return isinstance(value, _OF_ONE_PROCESS)


def _form(array: NDArray[Any]) -> tuple[str, tuple[int, ...]]:
    return array.dtype.str, array.shape


def _same(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> bool:
    """Return whether two pieces of memory hold the same."""
    if len(before) != len(now):
        return False
    words = len(now) & ~7
    # Eight bytes at a time; a NaN is the same as itself.
    same = np.array_equal(before[:words].view(np.uint64), now[:words].view(np.uint64))
    return bool(same) and bool((before[words:] == now[words:]).all())


class _Pickler(pickle.Pickler):
    def __init__(
        self, target: io.BytesIO, refer: Callable[[NDArray[Any]], Any], known: Mapping[int, Any] | None = None
    ) -> None:
        super().__init__(target, protocol=5)
        self._refer = refer
        self._known = known or {}

    def persistent_id(self, obj: Any) -> Any:
        place = self._known.get(id(obj))
        if place is not None:
            return _FIELD, *place
        if _cannot_travel(obj):
            return _LEFT_OUT
        if type(obj) is np.ndarray and obj.nbytes > _SMALL and obj.ndim and obj.dtype.kind in "biufc":
            return self._refer(obj)
        return None


class StateReader:
    """Reads the states of agents that were made in the same way as one's own.

    Parameters
    ----------
    agents : mapping
        {name: agent}, each as it was before the run.
    """

    def __init__(self, agents: Mapping[Hashable, Agent]) -> None:
        self._allowed = _named_by(agents.values()) | _HARMLESS
        # Whoever wrote the agents wrote what stands beside them, too.
        modules = {each.__module__ for agent in agents.values() for each in type(agent).__mro__}
        self._own = {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}
        self._arrays: dict[bytes, bytes] = {}
        # The state that is being read: whose it is, its attributes, and those of them that are objects already.
        self._agent: Any = None
        self._raw: dict[str, bytes] = {}
        self._loaded: dict[str, Any] = {}
        # Large ones as arrays, which all states share and nobody may write to.
        self._shared: dict[Any, NDArray[Any]] = {}

    def learn(self, digest: bytes, raw: bytes) -> None:
        """Take note of an array's bytes."""
        self._arrays[digest] = raw

    def read(self, written: Written, agent: Agent) -> Written:
        """Return what a `StateWriter` wrote of an agent, with objects in place of bytes.

        Raises
        ------
        NetsimError
            If the bytes are none of objects that may be made.
        """
        if "whole" in written:
            return {"whole": self.load(written["whole"])}
        key = "fields" if "fields" in written else "changed"
        self._agent, self._raw, self._loaded = agent, written[key], {}
        return {**written, key: {name: self._field(name) for name in self._raw}}

    def _field(self, name: str) -> Any:
        """Return an attribute of the state that is being read."""
        if name not in self._loaded:
            # What names itself by way of another has no beginning.
            self._loaded[name] = LeftOut()
            self._loaded[name] = self.load(self._raw[name])
        return self._loaded[name]

    def load(self, state: bytes) -> Any:
        """Return an object; raises NetsimError if the bytes are none that can be taken."""
        try:
            return _Unpickler(io.BytesIO(state), self._referred, self._allowed, self._own).load()
        except Exception as error:
            raise NetsimError(f"an agent's state cannot be read ({type(error).__name__}: {one_line(error)})") from error

    def _referred(self, reference: Any) -> Any:
        if reference[0] != _FIELD:
            return self._array(reference)
        name = reference[1]
        if not name:
            return self._agent
        there = getattr(self._agent, name, LeftOut())
        if name not in self._raw:
            return there
        new = self._field(name)
        return there if isinstance(new, LeftOut) or is_refilled(there, new) else new

    def _array(self, reference: Any) -> NDArray[Any]:
        digest, dtype, shape = reference
        raw = self._arrays[digest]
        if len(raw) < _LARGE:
            # A copy: agents write into their arrays.
            return np.frombuffer(raw, np.dtype(dtype)).reshape(shape).copy()
        known = self._shared.get(reference)
        if known is None:
            known = self._shared[reference] = np.frombuffer(raw, np.dtype(dtype)).reshape(shape)
        return known


class _Unpickler(pickle.Unpickler):
    def __init__(
        self,
        source: io.BytesIO,
        array: Callable[[Any], NDArray[Any]],
        allowed: set[tuple[str, str]],
        own: set[str],
    ) -> None:
        super().__init__(source)
        self._array = array
        self._allowed = allowed
        self._own = own

    def persistent_load(self, pid: Any) -> Any:
        return LeftOut() if pid == _LEFT_OUT else self._array(pid)

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if module in self._own or self._may(module, name) else None
        if (module, name) in self._allowed:
            return found
        # What a module has only imported stands elsewhere, and so does what is reached by way of it.
        if not isinstance(found, type) or found.__module__ != module:
            raise NetsimError(f"it names {module}.{name}, which is of no agent at the beginning, nor beside one")
        return found

    def _may(self, module: str, name: str) -> bool:
        # Of netsim itself classes of what agents hold, but nothing that reads, writes or runs.
        parts = ("netsim.agents", "netsim.coders", "netsim.transport", "netsim._core", "netsim.scenarios.tasks")
        return (module, name) in self._allowed or any(module == each or module.startswith(f"{each}.") for each in parts)


class _Recorder(pickle.Unpickler):
    """Reads what this process wrote itself, and notes what it names."""

    def __init__(self, source: io.BytesIO, named: set[tuple[str, str]]) -> None:
        super().__init__(source)
        self._named = named

    def persistent_load(self, pid: Any) -> Any:
        return np.zeros(0)

    def find_class(self, module: str, name: str) -> Any:
        self._named.add((module, name))
        return super().find_class(module, name)


def _named_by(agents: Iterable[Agent]) -> set[tuple[str, str]]:
    """Return the modules and names that the states of some agents name."""
    named: set[tuple[str, str]] = set()
    for agent in agents:
        target = io.BytesIO()
        # One that cannot be pickled is refused where it is to be written.
        with suppress(Exception):
            _Pickler(target, lambda array: 0).dump(agent.__getstate__())
            _Recorder(io.BytesIO(target.getvalue()), named).load()
    return named
