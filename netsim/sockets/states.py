"""Agents' states, as a process writes them down for whoever gathers its part of a run.

What an agent holds, directly or by way of others, is told object by object: each that can change in its place has a
number, under which others refer to it. Told is what is new since the last time. Arrays are kept once, under a hash of
what is in them, so that data which never change cost nothing.
"""

import hashlib
import io
import pickle
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.errors import BadInput, one_line
from netsim.sockets.objects import ARRAY, class_of, content, has_left, kind_of

__all__ = ["LEFT_OUT", "Heap", "StateWriter", "Written"]

LEFT_OUT = "left out"
"""In a pickle, in the place of what no other process can have."""

# In bytes: smaller arrays are no longer than what would stand for them; larger ones are compared, then hashed.
_SMALL, _LARGE = 64, 1 << 16

Reference = tuple[bytes, str, tuple[int, ...], bool]
"""Of an array: the hash of what is in it, its type, its shape, and whether it lies column by column."""

Written = dict[str, Any]
"""Of a state: ``new``, by number the kind and the class of objects; ``told``, by number what those hold that are new or
changed, pickled; ``gone``, the numbers of those that nothing holds any more. Number 0 is the agent."""


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
        self._heaps: dict[Hashable, Heap] = {}

    def state(self, name: Hashable, agent: Agent) -> Written:
        """Return what is new of an agent's state since the last call; raises BadInput if it cannot be pickled."""
        heap = self._heaps.get(name)
        if heap is None:
            heap = self._heaps[name] = Heap(agent, self._hashed)
        try:
            return heap.written()
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"agents[{name!r}]: must hold what can be pickled, to be gathered ({why})") from error

    def _hashed(self, array: NDArray[Any]) -> bytes:
        """Return the hash of an array, which is kept if it is new."""
        plain = np.ascontiguousarray(array)
        # The bytes alone do not tell a shape from another.
        what = f"{plain.dtype.str}{plain.shape}".encode()
        digest = hashlib.blake2b(plain.view(np.uint8).data, digest_size=16, key=what[:64]).digest()
        if digest not in self._known:
            self._known.add(digest)
            self._keep(digest, plain)
        return digest


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
    hashed : callable
        Returns the hash under which an array is kept.
    """

    def __init__(self, agent: Agent, hashed: Callable[[NDArray[Any]], bytes]) -> None:
        self._hashed = hashed
        self._count = self._pass = 0
        self._entries: dict[int, _Entry] = {}
        # Those that were met in this pass, the last of which are still to be told.
        self._met: list[_Entry] = []
        self._new: dict[int, list[str]] = {}
        self._agent = self._entries[id(agent)] = _Entry(0, agent, "object")

    def objects(self) -> dict[int, Any]:
        """Return all objects by number."""
        return {entry.number: entry.value for entry in self._entries.values()}

    def written(self) -> Written:
        """Return what is new since the last time."""
        self._pass += 1
        self._met, self._new = [], {}
        before = {entry.number for entry in self._entries.values()}
        self._meet(self._agent)
        told = {}
        for entry in self._met:
            raw = self._array(entry) if entry.kind == ARRAY else self._pickled(*content(entry.value, entry.kind))
            if raw != entry.raw:
                entry.raw = told[entry.number] = raw
        # What nothing holds any more is let go of, and its place in memory may be another's.
        self._entries = {key: entry for key, entry in self._entries.items() if entry.last == self._pass}
        gone = before - {entry.number for entry in self._met}
        return {"new": self._new, "told": told, "gone": sorted(gone)}

    def number(self, value: Any) -> int | None:
        """Return the number of an object that can change in its place; None if it is told where it stands."""
        entry = self._entries.get(id(value))
        if entry is None or (entry.kind == ARRAY and entry.form != _form(value)):
            kind = kind_of(value)
            if not kind:
                return None
            self._count += 1
            # An array of another form is another one.
            entry = self._entries[id(value)] = _Entry(self._count, value, kind)
            self._new[entry.number] = [kind] if kind == ARRAY else [kind, *class_of(value)]
        self._meet(entry)
        return entry.number

    def _meet(self, entry: _Entry) -> None:
        if entry.last != self._pass:
            entry.last = self._pass
            self._met.append(entry)

    def _array(self, entry: _Entry) -> bytes:
        array = entry.value
        if array.nbytes <= _SMALL or not array.ndim or array.dtype.kind not in "biufc":
            return self._pickled(array, array)
        return self._pickled(self._large(entry) if array.nbytes >= _LARGE else self._reference(array))

    def _reference(self, array: NDArray[Any]) -> Reference:
        by_column = array.flags.f_contiguous and not array.flags.c_contiguous
        return self._hashed(array), array.dtype.str, array.shape, by_column

    def _large(self, entry: _Entry) -> Reference:
        # Mostly data, which stay as they are: to compare them takes a tenth of the time that a hash does.
        raw = np.ascontiguousarray(entry.value).reshape(-1).view(np.uint8)
        if entry.copy is None or entry.reference is None or not _same(entry.copy, raw):
            entry.copy, entry.reference = raw.copy(), self._reference(entry.value)
        return entry.reference

    def _pickled(self, value: Any, itself: Any = None) -> bytes:
        target = io.BytesIO()
        _Pickler(target, self, itself).dump(value)
        return target.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles what an object holds; ``itself`` is not referred to."""

    def __init__(self, target: io.BytesIO, heap: Heap, itself: Any) -> None:
        super().__init__(target, protocol=5)
        self._heap = heap
        self._itself = itself

    def persistent_id(self, obj: Any) -> Any:
        if has_left(obj):
            return LEFT_OUT
        return None if obj is self._itself else self._heap.number(obj)


def _form(array: NDArray[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return array.dtype, array.shape


def _same(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> bool:
    """Return whether two pieces of memory of one size hold the same."""
    words = len(now) & ~7
    # Eight bytes at a time; a NaN is the same as itself.
    same = np.array_equal(before[:words].view(np.uint64), now[:words].view(np.uint64))
    return bool(same) and bool((before[words:] == now[words:]).all())
