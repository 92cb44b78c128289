"""Paths into the parts of an experiment: ``methods.COKE.censor.mu``, ``network.link.loss``.

The parameters of a part are the keys of a mapping, the fields of a dataclass, the arguments of a coder, the keyword
arguments of a function, or the result of its method ``parameters()``. A part is never changed in place: `changed` makes
a new one, so that its checks run again.
"""

import dataclasses
import inspect
import itertools
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.util import check
from netsim.util.datafiles import nearest
from netsim.wire.coded import Coder

ANY = "*"
"""In a path, every part at this place that has the rest of the path."""

_FUNCTIONS = (types.FunctionType, partial)
_DEEPEST = 8
_LONGEST = 60  # most characters of a value in a table


class Given(partial[Any]):
    """A function bound to values of some of its keyword arguments."""

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class FromFunction:
    """Base class of parts made by a function, whose keyword arguments are the part's parameters."""

    function: Callable[..., Any]

    def parameters(self) -> dict[str, Any]:
        """Return the function's keyword arguments with their values."""
        return parameters(self.function)

    def with_parameter(self, name: str, value: Any) -> Self:
        """Return the part with another value of a keyword argument."""
        return dataclasses.replace(self, function=with_parameter(self.function, name, value))


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
    if isinstance(part, _FUNCTIONS) or hasattr(part, "cache_info"):
        return _keyword_arguments(part)
    if dataclasses.is_dataclass(part):
        return {each.name: getattr(part, each.name) for each in dataclasses.fields(part) if each.init}
    return {}


def _keyword_arguments(function: Any) -> dict[str, Any]:
    """Return a function's arguments that have defaults, with the given values in place of their defaults."""
    known: Sequence[inspect.Parameter] = ()
    with suppress(ValueError):  # some functions in C have no signature
        known = [each for each in inspect.signature(function).parameters.values() if each.kind.name[:3] != "VAR"]
    usual = {each.name: each.default for each in known if each.default is not each.empty}
    # A function without required arguments gets its seed by name from `Links`, so `seed` is no parameter.
    return {name: value for name, value in usual.items() if name != "seed" or len(usual) < len(known)}


# A study looks up a class's signature a hundred times.
_SIGNATURES: WeakKeyDictionary[Callable[..., Any], inspect.Signature] = WeakKeyDictionary()


def signature_of(called: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a class or function."""
    if called not in _SIGNATURES:
        _SIGNATURES[called] = inspect.signature(called)
    return _SIGNATURES[called]


def check_arguments(what: str, called: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise BadInput, naming ``what``, if a class or function lacks one of the given arguments."""
    known = signature_of(called).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        for name in given:
            check.one_of(what, name, known)


def with_parameter(part: Any, name: str, value: Any) -> Any:
    """Return a part with another value of one parameter."""
    if hasattr(part, "with_parameter"):
        return part.with_parameter(name, value)
    if isinstance(part, Mapping):
        return {**part, name: value}
    if isinstance(part, Coder):
        return type(part)(**{**part.arguments, name: value})
    if callable(part) and not dataclasses.is_dataclass(part):
        return Given(part, **{name: value})
    return dataclasses.replace(part, **{name: value})


def places(part: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each path below a part with its value; a parameter comes before the parameters inside it."""
    if depth > _DEEPEST or isinstance(part, nx.Graph | np.ndarray):
        return
    for name, value in parameters(part).items():
        yield f"{prefix}{name}", value
        yield from places(value, f"{prefix}{name}.", depth + 1)


def values_at(part: Any, path: str, written: str | None = None) -> list[Any]:
    """Return the values at a path, one for each part that `ANY` matches.

    Raises BadInput if there is no value, naming the path as ``written`` by the user and the nearest existing path.
    """
    found = list(_values(part, path))
    if not found:
        raise _nowhere(part, path, written or path)
    return found


def _values(part: Any, path: str) -> Iterator[Any]:
    if not path:
        yield part
        return
    own = parameters(part)
    for name, rest in _steps(own, path):
        yield from _values(own[name], rest)


def _steps(own: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield (parameter, rest) for each parameter that the path may begin with; a name may contain full stops."""
    if path == ANY or path.startswith(f"{ANY}."):
        yield from ((name, path[len(ANY) + 1 :]) for name in own)
        return
    matching = [name for name in own if path == name or path.startswith(f"{name}.")]
    if matching:
        name = max(matching, key=len)
        yield name, path[len(name) + 1 :]


def changed(part: Any, path: str, value: Any, written: str | None = None) -> Any:
    """Return a part with another value at a path; like `values_at`, raises BadInput if the path does not exist."""
    found, count = _changed(part, path, value)
    if not count:
        raise _nowhere(part, path, written or path)
    return found


def _changed(part: Any, path: str, value: Any) -> tuple[Any, int]:
    """Return the changed part, and the number of values that were changed."""
    own, count = parameters(part), 0
    for name, rest in _steps(own, path):
        inner, found = _changed(own[name], rest, value) if rest else (value, 1)
        if found:
            part, count = with_parameter(part, name, inner), count + found
    return part, count


def _nowhere(part: Any, path: str, written: str) -> BadInput:
    known = [place for place, _ in places(part)]
    if written != path:
        # The path's first step matches several parts.
        first, _, rest = written.partition(".")
        known = [
            f"{first}.{place}" for each in _values(part, path.removesuffix(f".{rest}")) for place, _ in places(each)
        ]
    hint = nearest(written, known)
    return BadInput(f"path = {written!r}: must be a path that Experiment.paths() or netsim show lists{hint}")


def brief(value: Any) -> str:
    """Return a value as text for a table."""
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    if isinstance(value, Coder):
        given = [each for each in value.arguments.values() if each is not None and not isinstance(each, bool)]
        return f"{type(value).__name__}({', '.join(map(brief, given))})"
    if isinstance(value, str | nx.Graph):
        return str(value)
    if isinstance(value, partial):
        named = [f"{name}={brief(each)}" for name, each in value.keywords.items()]
        return f"{brief(value.func)}({', '.join([*map(brief, value.args), *named])})"
    text = str(getattr(value, "__name__", represented(value)))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def represented(value: Any) -> str:
    """Return an object's text in one line, without memory addresses, which differ by process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(repr(value).split()))


def listed(values: Mapping[str, Any]) -> str:
    """Return values with their names as text for messages."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


# --- values that are tried --------------------------------------------------------------------------------------------


class Grid(list[dict[str, Any]]):
    """Settings as mappings of paths to values: ``a * b`` combines each with each, ``a + b`` appends."""

    def __mul__(self, other: "Grid") -> "Grid":  # type: ignore[override]
        return Grid({**a, **b} for a, b in itertools.product(self, other))

    def __add__(self, other: "Grid") -> "Grid":  # type: ignore[override]
        return Grid([*self, *other])


@dataclass(frozen=True)
class NamedValue:
    """A value with the name that tables show."""

    name: str
    value: Any


def vary(path: str, values: Iterable[Any] | Mapping[str, Any]) -> Grid:
    """Return a `Grid` with one setting for each value of one path, for `Experiment.grid`.

    `netsim.studies.sweep` runs a study at every combination of its flags' values.

    Parameters
    ----------
    path : str
        A path of an experiment, or one of its short names.
    values : iterable or mapping
        The values; the keys of a mapping are the names that tables show.
    """
    check.instance("path", path, str, "a path of an experiment, or one of its short names")
    check.instance("values", values, Iterable, "an iterable, or a mapping of names to values")
    if isinstance(values, Mapping):
        return Grid({path: NamedValue(name, value)} for name, value in values.items())
    return Grid({path: value} for value in values)


def value_of(given: Any) -> Any:
    """Return a value without its name."""
    return given.value if isinstance(given, NamedValue) else given


def plain(value: Any) -> Any:
    """Return a numpy number, boolean or string as Python's type; anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def shown(value: Any) -> Any:
    """Return a value as shown in a column of a table."""
    if isinstance(value, NamedValue):
        return value.name
    return value if isinstance(value, int | float | str | None) else brief(value)
