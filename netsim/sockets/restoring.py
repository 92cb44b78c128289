"""Agents given the states that others came to: whoever holds one of their objects, as a probe does, sees it, too.

Whoever reads states makes objects only of the classes that its own agents are made of, and of netsim's and numpy's: a
file can name no others.
"""

import builtins
import importlib
import inspect
import io
import pickle
import sys
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.errors import NetsimError, one_line
from netsim.sockets.objects import AGENT, ARRAY, LEFT_OUT, OBJECT, VALUE, LeftOut, kind_of, made, refill
from netsim.sockets.states import Heap, Written

__all__ = ["StateReader"]

# Of these no function is called for a file's sake, whoever holds it.
_POWERFUL = ("builtins", "operator", "importlib", "os", "posix", "nt", "subprocess", "sys", "runpy", "shutil")


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


_BUILTIN = ("bool", "bytearray", "complex", "frozenset", "int", "float", "list", "object", "range", "set", "slice")
_RANDOM = ("numpy.random._generator", "numpy.random.mtrand")
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_HARMLESS = {
    *(("builtins", name) for name in (*_BUILTIN, "dict", "tuple", "str", "bytes")),
    *(("builtins", name) for name, each in vars(builtins).items() if _is_exception(each)),
    *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
    ("fractions", "Fraction"),
    ("decimal", "Decimal"),
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

# Attributes before what holds things by their hashes.
_ORDER = (OBJECT, "list", "deque", "dict", "set")


class StateReader:
    """Gives agents the states that a `StateWriter` wrote of agents that were made in the same way.

    Parameters
    ----------
    agents : mapping
        {name: agent}, each as it was before the run.
    """

    def __init__(self, agents: Mapping[Hashable, Agent]) -> None:
        self._agents = agents
        self._allowed = set(_HARMLESS)
        # As the writers number them, from the same beginning.
        names = {id(agent): name for name, agent in agents.items()}
        self._first = {name: self._numbered(agent, names) for name, agent in agents.items()}
        # Whoever wrote the agents wrote what stands beside them, too.
        modules = {each.__module__ for agent in agents.values() for each in type(agent).__mro__}
        self._own = {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}
        self._arrays: dict[bytes, bytes] = {}
        # By process and agent, its objects and their kinds.
        self._heaps: dict[tuple[Hashable, Hashable], tuple[dict[int, Any], dict[int, str]]] = {}
        # Attributes that objects were told to have.
        self._names: dict[int, set[str]] = {}
        self._lasting = {id(value) for objects in self._first.values() for value, _ in objects.values()}

    def _numbered(self, agent: Agent, names: Mapping[int, Hashable]) -> dict[int, tuple[Any, bytes]]:
        """Return by number the objects of an agent and what is told of them, and allow what is named there."""
        heap = Heap(agent, names, lambda digest, array: None)
        # One that cannot be pickled is refused where it is to be written.
        with suppress(Exception):
            written = heap.written()
            self._allowed |= {(names[0], names[1]) for _, *names in written["new"].values() if names}
            for raw in written["told"].values():
                _Recorder(io.BytesIO(raw), self._allowed).load()
        return heap.objects()

    def learn(self, digest: bytes, raw: bytes) -> None:
        """Take note of an array's bytes."""
        self._arrays[digest] = raw

    def restore(self, process: Hashable, name: Hashable, written: Written) -> None:
        """Give an agent what a process wrote of it.

        Raises
        ------
        NetsimError
            If it cannot be read, or is of objects that may not be made.
        """
        if (process, name) not in self._heaps:
            # Another process of the same agent begins from the beginning, too.
            self._heaps[process, name] = {key: value for key, (value, _) in self._first[name].items()}, {0: OBJECT}
        try:
            self._restore(*self._heaps[process, name], written, self._first[name])
        except NetsimError:
            raise
        except Exception as error:
            raise NetsimError(f"an agent's state cannot be read ({type(error).__name__}: {one_line(error)})") from error

    def _restore(
        self,
        objects: dict[int, Any],
        kinds: dict[int, str],
        written: Written,
        first: Mapping[int, tuple[Any, bytes]],
    ) -> None:
        told = written["told"]
        for number, (kind, *where) in written["new"].items():
            kinds[number] = kind
            if kind not in (ARRAY, VALUE):
                objects[number] = self._made(kind, where, objects.get(number))
        # Then there is all that others can refer to.
        for kind in (ARRAY, VALUE, *_ORDER):
            # Of those that were met on the way from one to another, the other first.
            for number in sorted(told, reverse=True):
                if kinds[number] != kind:
                    continue
                if kind == ARRAY:
                    objects[number] = self._refilled(objects.get(number), told[number])
                elif kind == VALUE:
                    there, raw = first.get(number, (None, b""))
                    objects[number] = there if raw == told[number] else self.load(told[number], objects)
                else:
                    value, holds = objects[number], self.load(told[number], objects)
                    self._names[id(value)] = refill(value, kind, holds, self._names.get(id(value), ()))
        for number in written["gone"]:
            del kinds[number]
            value = objects.pop(number)
            if id(value) not in self._lasting:
                self._names.pop(id(value), None)

    def load(self, raw: bytes, objects: Mapping[int, Any] | None = None) -> Any:
        """Return what was pickled; raises NetsimError if the bytes are none that can be taken."""
        try:
            return _Unpickler(io.BytesIO(raw), objects or {}, self._agents, self._find).load()
        except Exception as error:
            raise NetsimError(f"an agent's state cannot be read ({type(error).__name__}: {one_line(error)})") from error

    def _made(self, kind: str, where: list[str], there: Any) -> Any:
        """Return the object that is there, if it is of a class; else a new one."""
        cls = type(there)
        if [cls.__module__, cls.__qualname__] == where and kind_of(there) == kind:
            return there
        new = made(self._find(*where))
        if kind_of(new) != kind:
            raise NetsimError(f"an agent's state cannot be read ({'.'.join(where)} is no {kind})")
        return new

    def _refilled(self, old: Any, raw: bytes) -> NDArray[Any]:
        """Return an array with what is told of it: the one that is there, if that can take it."""
        new = self.load(raw)
        if isinstance(new, tuple):
            digest, dtype, shape, by_column = new
            new = np.frombuffer(self._arrays[digest], np.dtype(dtype)).reshape(shape)
            new = np.array(new, order="F" if by_column else "C")
        if not isinstance(new, np.ndarray):
            raise NetsimError("an agent's state cannot be read (an array is none)")
        if not isinstance(old, np.ndarray) or (old.dtype, old.shape) != (new.dtype, new.shape):
            return new
        if old.flags.writeable:
            old[...] = new
        elif old.tobytes() != new.tobytes():
            return new
        return old

    def _find(self, module: str, name: str) -> Any:
        """Return what a pickle names; raises NetsimError if it may not."""
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
    parts = ("netsim.agents", "netsim.coders", "netsim.transport", "netsim._core", "netsim.scenarios.tasks")
    return any(module == each or module.startswith(f"{each}.") for each in parts)


def _method(holder: Any, name: str) -> Any:
    """Return a method of an object, or of a class."""
    cls = holder if isinstance(holder, type) else type(holder)
    found = inspect.getattr_static(cls, name)
    if isinstance(found, classmethod if cls is holder else FunctionType):
        return MethodType(found.__func__ if isinstance(found, classmethod) else found, holder)
    if (cls in (list, dict, set, deque) or cls.__module__ in _RANDOM) and callable(found):
        return getattr(holder, name)
    raise NetsimError(f"it names {name} of a {cls.__name__}, which is no method")


class _Unpickler(pickle.Unpickler):
    def __init__(
        self,
        source: io.BytesIO,
        objects: Mapping[int, Any],
        agents: Mapping[Hashable, Agent],
        find: Callable[[str, str], Any],
    ) -> None:
        super().__init__(source)
        self._objects = objects
        self._agents = agents
        self._find = find

    def persistent_load(self, pid: Any) -> Any:
        if isinstance(pid, tuple):
            what, holder, *name = pid
            return self._agents[holder] if what == AGENT else _method(holder, *name)
        return LeftOut() if pid == LEFT_OUT else self._objects[pid]

    def find_class(self, module: str, name: str) -> Any:
        return self._find(module, name)


class _Anything:
    """Stands for what a pickle names, and for what is made of it."""

    def __new__(cls, *values: Any, **more: Any) -> "_Anything":
        """Return one, of whatever it is to be made."""
        return super().__new__(cls)

    def take(self, *values: Any, **more: Any) -> "_Anything":
        """Do nothing."""
        return self

    __call__ = __setstate__ = __setitem__ = append = extend = add = update = take


class _Recorder(pickle.Unpickler):
    """Reads what this process wrote itself, and notes what it names, but makes nothing of it."""

    def __init__(self, source: io.BytesIO, named: set[tuple[str, str]]) -> None:
        super().__init__(source)
        self._named = named

    def persistent_load(self, pid: Any) -> Any:
        return _Anything()

    def find_class(self, module: str, name: str) -> Any:
        if module not in _POWERFUL or isinstance(getattr(sys.modules.get(module), name, None), type):
            self._named.add((module, name))
        return _Anything
