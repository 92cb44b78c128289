"""Putting a state into objects that are there: whoever else holds one of them, as a probe does, then sees the state.

An object takes the attributes of the one that stands in the same place of the state; an array its elements; a list and
a dict what they hold. Where the two are not of one kind, what the state has takes the place of what was there.
"""

from types import MemberDescriptorType
from typing import Any

import numpy as np

from netsim.sockets.states import LeftOut

__all__ = ["pour", "pour_into"]

# Of a frozen object nothing may be assigned in its own way.
_set = object.__setattr__


def pour_into(agent: Any, state: Any) -> None:
    """Give an agent a state, as its ``__getstate__`` returned it; what belongs to its network stays.

    Raises
    ------
    Exception
        Whatever the agent's own ``__setstate__`` raises.
    """
    if hasattr(agent, "__setstate__"):
        place = vars(agent).get("_netsim")
        agent.__setstate__(state)
        if place is not None:
            vars(agent)["_netsim"] = place
        return
    fields, slots = state if isinstance(state, tuple) else (state, None)
    _pour_fields(agent, {**(fields or {}), **(slots or {})}, {}, keep=("_netsim",))


def pour(old: Any, new: Any, done: dict[int, Any]) -> Any:
    """Return ``old`` with what is in ``new``, or ``new`` if that cannot be."""
    if isinstance(new, LeftOut):
        return old
    if id(new) in done:
        return done[id(new)][0]
    kept = old
    # What has been poured must live on meanwhile, or another object could be taken for it.
    done[id(new)] = old, new
    if type(old) is not type(new):
        kept = new
    elif isinstance(new, np.ndarray):
        kept = _pour_array(old, new)
    elif type(new) is dict:
        _pour_dict(old, new, done)
    elif type(new) is list:
        old[:] = [pour(*pair, done) for pair in zip([*old, *new[len(old) :]], new, strict=False)]
    elif type(new).__flags__ & _HEAP and not isinstance(new, tuple | str | bytes | int | float | frozenset | type):
        _pour_fields(old, _fields_of(new), done)
    else:
        kept = new
    done[id(new)] = kept, new
    return kept


# Set for classes that are written in Python (Py_TPFLAGS_HEAPTYPE).
_HEAP = 1 << 9


def _pour_array(old: Any, new: Any) -> Any:
    if old.shape != new.shape or old.dtype != new.dtype or not old.flags.writeable:
        return new
    old[...] = new
    return old


def _pour_dict(old: dict[Any, Any], new: dict[Any, Any], done: dict[int, Any]) -> None:
    poured = {key: pour(old[key], value, done) if key in old else value for key, value in new.items()}
    old.clear()
    old.update(poured)


def _fields_of(value: Any) -> dict[str, Any]:
    """Return an object's attributes, those in slots, too."""
    slots = [name for each in type(value).__mro__ for name, member in vars(each).items() if _is_slot(member)]
    return {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **getattr(value, "__dict__", {})}


def _is_slot(member: Any) -> bool:
    return isinstance(member, MemberDescriptorType)


def _pour_fields(old: Any, fields: dict[str, Any], done: dict[int, Any], keep: tuple[str, ...] = ()) -> None:
    before = _fields_of(old)
    for name in before.keys() - fields.keys() - {*keep}:
        object.__delattr__(old, name)
    for name, value in fields.items():
        _set(old, name, pour(before[name], value, done) if name in before else value)
