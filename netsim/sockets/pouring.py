"""Putting a state into objects that are there: whoever else holds one of them, as a probe does, then sees the state.

An object takes the attributes of the one that stands in the same place of the state; an array its elements; a list and
a dict what they hold. Where the two are not of one kind, what the state has takes the place of what was there.
"""

from types import MemberDescriptorType
from typing import Any

import numpy as np

from netsim.sockets.states import LeftOut, Written

__all__ = ["Pourer"]

# Of a frozen object nothing may be assigned in its own way.
_set = object.__setattr__

# Set for classes that are written in Python (Py_TPFLAGS_HEAPTYPE).
_HEAP = 1 << 9
# Of those, which are values.
_VALUES = (tuple, str, bytes, int, float, frozenset, type)


class Pourer:
    """Puts states into agents, again and again: of arrays that did not change, nothing is copied."""

    def __init__(self) -> None:
        # Arrays that are there, and which array of a state was put into them last.
        self._held: dict[int, tuple[Any, Any]] = {}
        # What has been poured in this state, by its identity: it must live on meanwhile.
        self._done: dict[int, tuple[Any, Any]] = {}

    def pour_into(self, agent: Any, state: Written) -> None:
        """Give an agent a state, as `netsim.sockets.states.StateReader.read` returned it; its place in a network stays.

        Raises
        ------
        Exception
            Whatever the agent's own ``__setstate__`` raises.
        """
        if "whole" in state:
            place = vars(agent).get("_netsim")
            agent.__setstate__(state["whole"])
            if place is not None:
                vars(agent)["_netsim"] = place
            return
        self._done = {}
        if "fields" in state:
            self._pour_fields(agent, state["fields"], keep=("_netsim",))
        else:
            there = _fields_of(agent)
            kept = {name: value for name, value in there.items() if name not in state["gone"]}
            self._pour_fields(agent, state["changed"], keep=tuple(kept))
        self._done = {}

    def _pour(self, old: Any, new: Any) -> Any:
        """Return ``old`` with what is in ``new``, or ``new`` if that cannot be."""
        if new is old or isinstance(new, LeftOut):
            return old
        if id(new) in self._done:
            return self._done[id(new)][0]
        self._done[id(new)] = old, new
        kept = old
        if type(old) is not type(new):
            kept = new
        elif isinstance(new, np.ndarray):
            kept = self._pour_array(old, new)
        elif type(new) is dict:
            self._pour_dict(old, new)
        elif type(new) is list:
            old[:] = [self._pour(*pair) for pair in zip([*old, *new[len(old) :]], new, strict=False)]
        elif type(new).__flags__ & _HEAP and not isinstance(new, _VALUES):
            self._pour_fields(old, _fields_of(new))
        else:
            kept = new
        self._done[id(new)] = kept, new
        return kept

    def _pour_array(self, old: Any, new: Any) -> Any:
        if old.shape != new.shape or old.dtype != new.dtype or not old.flags.writeable:
            return new if new.flags.writeable else new.copy()
        # One that may be written to is nobody else's, and another time another's.
        if new.flags.writeable:
            old[...] = new
        elif self._held.get(id(old), (None, None))[1] is not new:
            old[...] = new
            self._held[id(old)] = old, new
        return old

    def _pour_dict(self, old: dict[Any, Any], new: dict[Any, Any]) -> None:
        poured = {key: self._pour(old[key], value) if key in old else value for key, value in new.items()}
        old.clear()
        old.update(poured)

    def _pour_fields(self, old: Any, fields: dict[str, Any], keep: tuple[str, ...] = ()) -> None:
        before = _fields_of(old)
        for name in before.keys() - fields.keys() - {*keep}:
            object.__delattr__(old, name)
        for name, value in fields.items():
            _set(old, name, self._pour(before[name], value) if name in before else value)


def _fields_of(value: Any) -> dict[str, Any]:
    """Return an object's attributes, those in slots, too."""
    slots = _slots_of(type(value))
    return {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **getattr(value, "__dict__", {})}


_slots: dict[type, list[str]] = {}


def _slots_of(kind: type) -> list[str]:
    """Return the names of the attributes that a class keeps in slots."""
    found = _slots.get(kind)
    if found is None:
        members = [item for each in kind.__mro__ for item in vars(each).items()]
        found = _slots[kind] = [name for name, member in members if isinstance(member, MemberDescriptorType)]
    return found
