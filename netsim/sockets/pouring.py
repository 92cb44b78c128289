"""Putting a state into objects that are there: whoever else holds one of them, as a probe does, then sees the state.

An object takes the attributes of the one that stands in the same place of the state; an array its elements; a list, a
dict, a set and a deque what they hold. Where the two are not of one kind, what the state has takes the place of what
was there.
"""

from collections import deque
from types import MemberDescriptorType
from typing import Any

import numpy as np

from netsim.sockets.states import LeftOut, Written, is_refilled, is_written

__all__ = ["Pourer"]

# Of a frozen object nothing may be assigned in its own way.
_set = object.__setattr__


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
        if is_refilled(old, new):
            self._done[id(new)] = old, new
            self._refill(old, new)
            return old
        # Of arrays that many states share agents get their own.
        kept = new.copy() if isinstance(new, np.ndarray) and not new.flags.writeable else new
        self._done[id(new)] = kept, new
        return kept

    def _refill(self, old: Any, new: Any) -> None:
        """Give an object the contents of another of its kind."""
        if isinstance(new, np.ndarray):
            self._refill_array(old, new)
        elif isinstance(new, dict):
            poured = {key: self._pour(old[key], value) if key in old else value for key, value in new.items()}
            old.clear()
            old.update(poured)
        elif isinstance(new, list):
            old[:] = [self._pour(*pair) for pair in zip([*old, *new[len(old) :]], new, strict=False)]
        elif isinstance(new, set | deque):
            old.clear()
            (old.extend if isinstance(new, deque) else old.update)(new)
        self._pour_fields(old, _fields_of(new))

    def _refill_array(self, old: Any, new: Any) -> None:
        # One that may be written to is nobody else's, and another time another's.
        if new.flags.writeable:
            old[...] = new
        elif self._held.get(id(old), (None, None))[1] is not new:
            old[...] = new
            self._held[id(old)] = old, new

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
        members = [item for each in kind.__mro__ if is_written(each) for item in vars(each).items()]
        found = _slots[kind] = [name for name, member in members if isinstance(member, MemberDescriptorType)]
    return found
