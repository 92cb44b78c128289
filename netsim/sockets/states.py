"""Agents' states, as a process writes them down for whoever gathers its part of a run.

What an agent holds, directly or by way of others, is told object by object: each that can change in its place has a
number, under which others refer to it. Told is what is new since the last time. Arrays are kept once, under a hash of
what is in them, so that data which never change cost nothing.
"""

import copyreg
import hashlib
import io
import pickle
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.errors import BadInput, one_line
from netsim.sockets.objects import (
    AGENT,
    ARRAY,
    LEFT_OUT,
    METHOD,
    OBJECT,
    VALUE,
    class_of,
    content,
    kind_of,
    sets_itself,
)

__all__ = ["Heap", "StateWriter", "Written"]

# In bytes: smaller arrays are no longer than what would stand for them; larger ones are compared, then hashed.
_SMALL, _LARGE = 64, 1 << 16

Reference = tuple[bytes, str, tuple[int, ...], bool]
"""Of an array: the hash of what is in it, its type, its shape, and whether it lies column by column."""

Written = dict[str, Any]
"""Of a state: ``new``, by number the kind of objects, and the class of those that can change in their place; ``told``,
by number what those hold that are new or changed, pickled; ``gone``, the numbers of those that nothing holds any more.
Number 0 is the agent."""


class StateWriter:
    """Writes agents' states.

    Parameters
    ----------
    agents : mapping
        {name: agent}, all of the network's.
    keep : callable
        Called with the digest and the array for each array that is new.
    """

    def __init__(self, agents: Mapping[Any, Agent], keep: Callable[[bytes, NDArray[Any]], None]) -> None:
        self._agents = agents
        self._names = {id(agent): name for name, agent in agents.items()}
        self._keep = keep
        self._known: set[bytes] = set()
        self._heaps: dict[Hashable, Heap] = {}

    def state(self, name: Hashable) -> Written:
        """Return what is new of an agent's state since the last call; raises BadInput if it cannot be pickled."""
        heap = self._heaps.get(name)
        if heap is None:
            heap = self._heaps[name] = Heap(self._agents[name], self._names, self._kept)
        try:
            return heap.written()
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"agents[{name!r}]: must hold what can be pickled, to be gathered ({why})") from error

    def _kept(self, digest: bytes, array: NDArray[Any]) -> None:
        if digest not in self._known:
            self._known.add(digest)
            self._keep(digest, array)


class _Entry:
    """An object with a number, and what was told of it last."""

    __slots__ = ("copy", "form", "kind", "last", "number", "raw", "reference", "value")

    def __init__(self, number: int, value: Any, kind: str) -> None:
        self.number, self.value, self.kind = number, value, kind
        self.form = _form(value) if kind == ARRAY else None
        self.last = -1
        self.raw = b""
        # Of a large array.
        self.copy: NDArray[np.uint8] | None = None
        self.reference: Reference | None = None


class Heap:
    """What one agent holds, by number.

    Parameters
    ----------
    agent : Agent
    names : mapping
        {identity: name} of all agents of the network: others are only named.
    keep : callable
        Called with the digest and the array for each array that is told.
    """

    def __init__(
        self, agent: Agent, names: Mapping[int, Hashable], keep: Callable[[bytes, NDArray[Any]], None]
    ) -> None:
        self.names = {key: name for key, name in names.items() if key != id(agent)}
        self._keep = keep
        self._count = self._pass = 0
        self._entries: dict[int, _Entry] = {}
        # Those that were met in this pass, the last of which are still to be told.
        self._met: list[_Entry] = []
        self._new: dict[int, list[str]] = {}
        self._told: dict[int, bytes] = {}
        self._agent = self._entries[id(agent)] = _Entry(0, agent, OBJECT)

    def objects(self) -> dict[int, tuple[Any, bytes]]:
        """Return by number all objects, and what was told of them last."""
        return {entry.number: (entry.value, entry.raw) for entry in self._entries.values()}

    def written(self) -> Written:
        """Return what is new since the last time."""
        self._pass += 1
        self._met, self._new, self._told = [], {}, {}
        before = {entry.number for entry in self._entries.values()}
        self._meet(self._agent)
        for entry in self._met:
            raw = self._array(entry) if entry.kind == ARRAY else self._content(entry)
            if raw != entry.raw:
                entry.raw = self._told[entry.number] = raw
        # What nothing holds any more is let go of, and its place in memory may be another's.
        self._entries = {key: entry for key, entry in self._entries.items() if entry.last == self._pass}
        gone = before - {entry.number for entry in self._entries.values()}
        return {"new": self._new, "told": self._told, "gone": sorted(gone)}

    def is_agent(self, value: Any) -> bool:
        """Return whether an object is the agent itself."""
        return value is self._agent.value

    def known(self, value: Any) -> int | None:
        """Return the number of an object that has one."""
        entry = self._entries.get(id(value))
        # An array of another form is another one, and a value may have become another one.
        if (
            entry is None
            or (entry.kind == ARRAY and entry.form != _form(value))
            or (entry.kind == VALUE and entry.last != self._pass)
        ):
            return None
        self._meet(entry)
        return entry.number

    def number(self, value: Any, kind: str) -> int:
        """Return the number that an object is given; raises TypeError if its class is not to be found."""
        if kind == VALUE:
            return self._number_of_value(value)
        entry = self._add(value, kind, *([] if kind == ARRAY else class_of(value)))
        self._meet(entry)
        return entry.number

    def _number_of_value(self, value: Any) -> int:
        raw = self._value(value)
        entry = self._entries.get(id(value))
        if entry is None or entry.raw != raw:
            entry = self._add(value, VALUE)
            entry.raw = self._told[entry.number] = raw
        entry.last = self._pass
        return entry.number

    def _add(self, value: Any, kind: str, *where: str) -> _Entry:
        self._count += 1
        entry = self._entries[id(value)] = _Entry(self._count, value, kind)
        self._new[entry.number] = [kind, *where]
        return entry

    def _value(self, value: Any) -> bytes:
        target = io.BytesIO()
        _ValuePickler(target, self, value).dump(value)
        return target.getvalue()

    def _meet(self, entry: _Entry) -> None:
        if entry.last != self._pass:
            entry.last = self._pass
            self._met.append(entry)

    def _array(self, entry: _Entry) -> bytes:
        array = entry.value
        if array.nbytes <= _SMALL or not array.ndim or array.dtype.kind not in "biufc":
            return self._value(array)
        return pickle.dumps(self._large(entry) if array.nbytes >= _LARGE else self._reference(array), protocol=5)

    def _reference(self, array: NDArray[Any]) -> Reference:
        plain = np.ascontiguousarray(array)
        # The bytes alone do not tell a shape from another.
        what = f"{plain.dtype.str}{plain.shape}".encode()
        digest = hashlib.blake2b(plain.view(np.uint8).data, digest_size=16, key=what[:64]).digest()
        self._keep(digest, plain)
        return digest, array.dtype.str, array.shape, array.flags.f_contiguous and not array.flags.c_contiguous

    def _large(self, entry: _Entry) -> Reference:
        # Mostly data, which stay as they are: to compare them takes a tenth of the time that a hash does.
        raw = np.ascontiguousarray(entry.value).reshape(-1).view(np.uint8)
        if entry.copy is None or entry.reference is None or not _same(entry.copy, raw):
            entry.copy, entry.reference = raw.copy(), self._reference(entry.value)
        return entry.reference

    def _content(self, entry: _Entry) -> bytes:
        if entry.kind == OBJECT and sets_itself(entry.value):
            return self._value(entry.value.__getstate__())
        target = io.BytesIO()
        _Pickler(target, self, None).dump(content(entry.value, entry.kind))
        return target.getvalue()


class _Registered:
    """How objects are pickled, as `copyreg` knows; not exceptions, for which others register what others lack."""

    def __getitem__(self, cls: type) -> Any:
        if issubclass(cls, BaseException):
            raise KeyError(cls)
        return copyreg.dispatch_table[cls]


class _ValuePickler(pickle.Pickler):
    """Pickles a value, ``itself``, in one but for its arrays."""

    dispatch_table: Any = _Registered()

    def __init__(self, target: io.BytesIO, heap: Heap, itself: Any) -> None:
        super().__init__(target, protocol=5)
        self._heap = heap
        self._itself = itself

    def persistent_id(self, obj: Any) -> Any:
        kind = kind_of(obj)
        if not kind or obj is self._itself:
            return None
        if kind == LEFT_OUT:
            return LEFT_OUT
        if kind == METHOD:
            # Whose it is may have a number.
            return METHOD, obj.__self__, obj.__name__
        if id(obj) in self._heap.names:
            return AGENT, self._heap.names[id(obj)]
        return self._referred(obj, kind)

    def _referred(self, obj: Any, kind: str) -> Any:
        # Whoever makes a value may look into all that it is made of: only arrays are there by then.
        if self._heap.is_agent(obj) or (kind == ARRAY and obj.nbytes > _SMALL):
            return self._numbered(obj, kind)
        return None

    def _numbered(self, obj: Any, kind: str) -> int:
        number = self._heap.known(obj)
        return self._heap.number(obj, kind) if number is None else number


class _Pickler(_ValuePickler):
    """Pickles what an object holds; ``itself`` is not referred to."""

    def _referred(self, obj: Any, kind: str) -> Any:
        return self._numbered(obj, kind)


def _form(array: NDArray[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return array.dtype, array.shape


def _same(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> bool:
    """Return whether two pieces of memory of one size hold the same."""
    words = len(now) & ~7
    # Eight bytes at a time; a NaN is the same as itself.
    same = np.array_equal(before[:words].view(np.uint64), now[:words].view(np.uint64))
    return bool(same) and bool((before[words:] == now[words:]).all())
