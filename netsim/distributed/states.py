"""Agents' states, as a process writes them down for whoever gathers its part of a run.

What an agent holds, directly or by way of others, is told object by object: each that can change in its place has a
number, under which others refer to it. Told is what is new since the last time. Arrays are kept once, under a hash of
what is in them, so that data which never change cost nothing.

What is told is msgpack: None, numbers, texts and bytes as they are, all else a list that begins with what it is.
Nothing in it is a call: whoever reads it makes what it names in a way of its own (`netsim.distributed.restoring`).
"""

import datetime
import hashlib
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from enum import Enum, IntEnum, auto
from functools import partial
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.distributed.objects import (
    ARRAY,
    ITEMS,
    ITSELF,
    LEFT_OUT,
    METHOD,
    content,
    has_method,
    home_of,
    is_name,
    kind_of,
    named,
)
from netsim.errors import BadInput, one_line
from netsim.wire.codec import encode

__all__ = ["PLAIN", "SIMPLE", "Heap", "StateWriter", "Tag", "Written"]

# In bytes: smaller arrays are no longer than what would stand for them; larger ones are compared, then hashed.
_SMALL, _LARGE = 64, 1 << 16

Written = dict[str, Any]
"""Of a state: ``new``, by number the kind of objects, and the class of those that have one, or an array's shape;
``told``, by number what those hold that are new or changed, packed; ``gone``, the numbers of those that nothing holds
any more. Number 0 is the agent."""


class Tag(IntEnum):
    """What a list is that stands for something."""

    REFERENCE = auto()
    TUPLE = auto()
    FROZENSET = auto()
    INTEGER = auto()
    """Of more than 64 bits, in bytes."""
    SUBCLASS = auto()
    """Of a number, a text or a tuple: the class and what its base would be."""
    SCALAR = auto()
    """Of numpy's, in the wire format; a complex number, too."""
    DTYPE = auto()
    """Of an array, in the wire format."""
    NAME = auto()
    """Of a class or a function."""
    MEMBER = auto()
    """Of an enumeration."""
    METHOD = auto()
    AGENT = auto()
    """Another agent, by its number."""
    LEFT_OUT = auto()
    MADE = auto()
    """A class of `SIMPLE`, and its arguments."""


PLAIN: tuple[type, ...] = (type(None), bool, int, float, str, bytes)
"""What is as it is; integers of up to 64 bits."""

_BASES = (int, float, str, bytes, tuple)

SIMPLE: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    bytearray: lambda value: (bytes(value),),
    range: lambda value: (value.start, value.stop, value.step),
    slice: lambda value: (value.start, value.stop, value.step),
    Decimal: lambda value: (str(value),),
    datetime.date: lambda value: (value.year, value.month, value.day),
    datetime.timedelta: lambda value: (value.days, value.seconds, value.microseconds),
    datetime.timezone: lambda value: (value.utcoffset(None), value.tzname(None)),
    datetime.datetime: lambda value: (*value.timetuple()[:6], value.microsecond, value.tzinfo),
    datetime.time: lambda value: (value.hour, value.minute, value.second, value.microsecond, value.tzinfo),
    partial: lambda value: (value.func, value.args, tuple(value.keywords.items())),
}
"""What is made of a few arguments, and nothing else."""


class StateWriter:
    """Writes agents' states.

    Parameters
    ----------
    agents : mapping
        {name: agent}, all of the network's.
    keep : callable
        Called with the digest and the bytes of each array that is new.
    """

    def __init__(self, agents: Mapping[Any, Agent], keep: Callable[[bytes, bytes], None]) -> None:
        self._agents = agents
        self._numbers = {id(agent): number for number, agent in enumerate(agents.values())}
        self._keep = keep
        self._known: set[bytes] = set()
        self._heaps: dict[Hashable, Heap] = {}

    def state(self, name: Hashable) -> Written:
        """Return what is new of an agent's state since the last call; raises BadInput if it cannot be told."""
        heap = self._heaps.get(name)
        if heap is None:
            heap = self._heaps[name] = Heap(self._agents[name], self._numbers, self._kept)
        try:
            return heap.written()
        except Exception as error:
            why = one_line(error) if type(error) is TypeError else f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"agents[{name!r}]: must hold what can be told, to be gathered ({why})") from error

    def _kept(self, digest: bytes, data: bytes) -> None:
        if digest not in self._known:
            self._known.add(digest)
            self._keep(digest, data)


class _Entry:
    """An object with a number, and what was told of it last."""

    __slots__ = ("copy", "form", "kind", "last", "number", "raw", "reference", "value")

    def __init__(self, number: int, value: Any, kind: str) -> None:
        self.number, self.value, self.kind = number, value, kind
        self.form = _form(value) if kind in (ARRAY, ITEMS) else None
        self.last = -1
        self.raw = b""
        # Of a large array.
        self.copy: NDArray[np.uint8] | None = None
        self.reference: list[Any] = []


class Heap:
    """What one agent holds, by number.

    Parameters
    ----------
    agent : Agent
    numbers : mapping
        {identity: number} of all agents of the network: others are only named.
    keep : callable
        Called with the digest and the bytes of each array that is told.

    Attributes
    ----------
    names : set of (str, str)
        The modules and names of all classes and functions that were told of.
    """

    def __init__(self, agent: Agent, numbers: Mapping[int, int], keep: Callable[[bytes, bytes], None]) -> None:
        self.names: set[tuple[str, str]] = set()
        self._agents = {key: number for key, number in numbers.items() if key != id(agent)}
        self._keep = keep
        self._count = self._pass = 0
        self._entries: dict[int, _Entry] = {}
        # Those that were met in this pass, the last of which are still to be told.
        self._met: list[_Entry] = []
        self._new: dict[int, list[Any]] = {}
        self._entries[id(agent)] = self._agent = _Entry(0, agent, kind_of(agent))

    def objects(self) -> dict[int, Any]:
        """Return all objects by number."""
        return {entry.number: entry.value for entry in self._entries.values()}

    def written(self) -> Written:
        """Return what is new since the last time; raises an error if something cannot be told."""
        self._pass += 1
        self._met, self._new, told = [], {}, {}
        before = {entry.number for entry in self._entries.values()}
        self._meet(self._agent)
        for entry in self._met:
            what = self._array(entry) if entry.kind == ARRAY else self._tree(content(entry.value, entry.kind))
            raw = msgpack.packb(what, unicode_errors="surrogatepass")
            if raw != entry.raw:
                entry.raw = told[entry.number] = raw
        for entry in self._met if told else ():
            # What it makes of its state may be another thing though only the parts of that have changed.
            if entry.kind == ITSELF:
                told[entry.number] = entry.raw
        # What nothing holds any more is let go of, and its place in memory may be another's.
        self._entries = {key: entry for key, entry in self._entries.items() if entry.last == self._pass}
        gone = before - {entry.number for entry in self._entries.values()}
        return {"new": self._new, "told": told, "gone": sorted(gone)}

    def _meet(self, entry: _Entry) -> None:
        if entry.last != self._pass:
            entry.last = self._pass
            self._met.append(entry)

    def _reference(self, value: Any, kind: str) -> list[Any]:
        """Return what stands for an object with a number; one that has none is given one."""
        entry = self._entries.get(id(value))
        # An array of another form is another one.
        if entry is None or (entry.form is not None and entry.form != _form(value)):
            self._count += 1
            entry = self._entries[id(value)] = _Entry(self._count, value, kind)
            more = [] if kind == ARRAY else list(value.shape) if kind == ITEMS else self._name(type(value))
            self._new[entry.number] = [kind, *more]
        self._meet(entry)
        return [Tag.REFERENCE, entry.number]

    def _name(self, value: Any) -> list[str]:
        found = named(value)
        self.names.add((found[0], found[1]))
        return found

    def _tree(self, value: Any) -> Any:
        """Return what stands for a value; raises TypeError if nothing does."""
        cls = type(value)
        if cls in PLAIN and (cls is not int or -(1 << 63) <= value < 1 << 63):
            return value
        if cls is tuple or cls is frozenset:
            return [Tag.TUPLE if cls is tuple else Tag.FROZENSET, *map(self._tree, value)]
        kind = kind_of(value)
        if kind == LEFT_OUT:
            return [Tag.LEFT_OUT]
        if kind == METHOD:
            return self._method(value)
        if id(value) in self._agents:
            return [Tag.AGENT, self._agents[id(value)]]
        return self._reference(value, kind) if kind else self._tree_of_simple(cls, value)

    def _method(self, value: Any) -> list[Any]:
        holder, name = value.__self__, value.__name__
        if kind_of(holder) == LEFT_OUT:
            return [Tag.LEFT_OUT]
        if has_method(holder, name) and getattr(holder, name) == value:
            return [Tag.METHOD, self._tree(holder), name]
        raise TypeError(f"not {name} of a {type(holder).__qualname__}")

    def _tree_of_simple(self, cls: Any, value: Any) -> list[Any]:
        if cls is int:
            return [Tag.INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)]
        if isinstance(value, np.generic) or cls is complex:
            return [Tag.SCALAR, encode(value)]
        if isinstance(value, np.dtype):
            return [Tag.DTYPE, encode(np.empty(0, value))]
        if isinstance(value, Enum):
            if cls.__members__.get(value.name) is value:
                return [Tag.MEMBER, *self._name(cls), value.name]
        elif cls in SIMPLE:
            return [Tag.MADE, cls.__name__, *map(self._tree, SIMPLE[cls](value))]
        elif home_of(cls) in _BASES and not getattr(value, "__dict__", None):
            return [Tag.SUBCLASS, *self._name(cls), self._tree(home_of(cls).__getnewargs__(value)[0])]
        elif is_name(value):
            return [Tag.NAME, *self._name(value)]
        raise TypeError(f"not a {cls.__module__}.{cls.__qualname__}")

    def _array(self, entry: _Entry) -> list[Any]:
        """Return whether the bytes of an array are kept, they or their hash, and whether it lies column by column."""
        if entry.value.nbytes >= _LARGE:
            return self._large(entry)
        data = encode(entry.value)
        return self._kept(entry.value, data) if entry.value.nbytes > _SMALL else [False, data, _by_column(entry.value)]

    def _kept(self, array: NDArray[Any], data: bytes) -> list[Any]:
        digest = hashlib.blake2b(data, digest_size=16).digest()
        self._keep(digest, data)
        return [True, digest, _by_column(array)]

    def _large(self, entry: _Entry) -> list[Any]:
        # Mostly data, which stay as they are: to compare them takes a tenth of the time that a hash does.
        raw = np.ascontiguousarray(entry.value).reshape(-1).view(np.uint8)
        if entry.copy is None or not _same(entry.copy, raw):
            entry.copy, entry.reference = raw.copy(), self._kept(entry.value, encode(entry.value))
        return entry.reference


def _form(array: NDArray[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return array.dtype, array.shape


def _by_column(array: NDArray[Any]) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _same(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> bool:
    """Return whether two pieces of memory of one size hold the same."""
    words = len(now) & ~7
    # Eight bytes at a time; a NaN is the same as itself.
    same = np.array_equal(before[:words].view(np.uint64), now[:words].view(np.uint64))
    return bool(same) and bool((before[words:] == now[words:]).all())
