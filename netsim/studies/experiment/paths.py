"""Paths into the parts of an experiment: ``methods.COKE.censor.mu``, ``network.link.loss``.

The parameters of a part are the keys of a mapping, the fields of a dataclass, the arguments of a coder, or what its
method ``parameters()`` returns. A part is never changed in place: `changed` makes it anew, so its own checks run again.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.util import check
from netsim.wire.coded import Coder

ANY = "*"
"""In a path, every part at this place that has the rest of the path."""

_DEEPEST = 8
_LONGEST = 60  # characters of a value in a table


def parameters(part: Any) -> dict[str, Any]:
    """Return a part's parameters by name, with their present values; empty if it has none."""
    if isinstance(part, type):
        return {}
    if hasattr(part, "parameters"):
        return dict(part.parameters())
    if isinstance(part, Mapping):
        return dict(part) if all(isinstance(name, str) for name in part) else {}
    if isinstance(part, Coder):
        return part.arguments
    if dataclasses.is_dataclass(part):
        return {each.name: getattr(part, each.name) for each in dataclasses.fields(part) if each.init}
    return {}


def with_parameter(part: Any, name: str, value: Any) -> Any:
    """Return a part with another value of one parameter."""
    if hasattr(part, "with_parameter"):
        return part.with_parameter(name, value)
    if isinstance(part, Mapping):
        return {**part, name: value}
    if isinstance(part, Coder):
        return type(part)(**{**part.arguments, name: value})
    return dataclasses.replace(part, **{name: value})


def places(part: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each path below a part and the value there; a parameter comes before its own parameters."""
    if depth > _DEEPEST or isinstance(part, nx.Graph | np.ndarray):
        return
    for name, value in parameters(part).items():
        yield f"{prefix}{name}", value
        yield from places(value, f"{prefix}{name}.", depth + 1)


def values_at(part: Any, path: str) -> list[Any]:
    """Return the values at a path, one for each part that `ANY` stands for.

    Raises BadInput, with the nearest path, if there is no value.
    """
    found = list(_values(part, path))
    if not found:
        raise _nowhere(part, path)
    return found


def _values(part: Any, path: str) -> Iterator[Any]:
    if not path:
        yield part
        return
    own = parameters(part)
    for name, rest in _steps(own, path):
        yield from _values(own[name], rest)


def _steps(own: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters that a path's first word names, and what follows it; a name may hold full stops."""
    if path == ANY or path.startswith(f"{ANY}."):
        yield from ((name, path[len(ANY) + 1 :]) for name in own)
        return
    matching = [name for name in own if path == name or path.startswith(f"{name}.")]
    if matching:
        name = max(matching, key=len)
        yield name, path[len(name) + 1 :]


def changed(part: Any, path: str, value: Any) -> Any:
    """Return a part with another value at a path; raises BadInput, with the nearest path, if it leads nowhere."""
    found, count = _changed(part, path, value)
    if not count:
        raise _nowhere(part, path)
    return found


def _changed(part: Any, path: str, value: Any) -> tuple[Any, int]:
    """Return the changed part, and in how many places it was changed."""
    own, count = parameters(part), 0
    for name, rest in _steps(own, path):
        inner, found = _changed(own[name], rest, value) if rest else (value, 1)
        if found:
            part, count = with_parameter(part, name, inner), count + found
    return part, count


def _nowhere(part: Any, path: str) -> BadInput:
    known = [place for place, _ in places(part)]
    try:
        check.one_of("path", path, known)
    except BadInput as error:
        near = re.search(r" \(did you mean .*\)$", str(error))
        hint = near.group() if near else ""
        return BadInput(f"path = {path!r}: must be a path that Experiment.paths() or netsim show lists{hint}")
    return BadInput(f"path = {path!r}: must lead to a parameter")


def brief(value: Any) -> str:
    """Return a value as a table shows it."""
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    if isinstance(value, Coder):
        return f"{type(value).__name__}({', '.join(brief(each) for each in _given(value))})"
    if isinstance(value, str | nx.Graph):
        return str(value)
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(repr(value).split()))
    named = getattr(value, "__name__", text)
    return named if len(named) <= _LONGEST else f"{named[: _LONGEST - 1]}…"


def _given(coder: Coder) -> list[Any]:
    return [
        value for value in coder.arguments.values() if value is not None and value is not False and value is not True
    ]
