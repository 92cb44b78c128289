"""The points of a sweep: every combination of the values that its parameters take."""

import ast
import hashlib
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from netsim.errors import BadInput
from netsim.faults.words import joined
from netsim.studies.catalogue import AT, Parameter, StudyDefinition, flag
from netsim.util import check

MOST_POINTS = 1_000_000
"""The most points of a sweep: each is a folder of its own."""

_LONGEST = 100  # most characters of a folder's name


@dataclass(frozen=True)
class Point:
    """A combination of the given parameters' values; its name, such as ``loss=0.1,seed=3``, is its folder's name."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Grid:
    """The values of each given parameter; the last parameter varies fastest.

    ``study`` is the study's name, or the path of its file. ``idle`` maps a parameter to (other parameter, value): while
    the other has that value, the parameter has no effect. Combinations that differ only in such parameters are one run.
    """

    study: str
    values: Mapping[str, tuple[Any, ...]]
    idle: Mapping[str, tuple[str, Any]] = field(default_factory=dict)

    @property
    def swept(self) -> list[str]:
        """The parameters with several values."""
        return [name for name, values in self.values.items() if len(values) > 1]

    @property
    def fixed(self) -> dict[str, Any]:
        """The parameters with a single value."""
        return {name: values[0] for name, values in self.values.items() if len(values) == 1}

    def points(self) -> list[Point]:
        """Return all combinations, one for each distinct run."""
        return [point for point, first in self._combinations() if first is None]

    def twins(self) -> dict[str, list[Point]]:
        """Return the other combinations that are the same run as a point, by the point's name."""
        found: dict[str, list[Point]] = {}
        for point, first in self._combinations():
            if first is not None:
                found.setdefault(first, []).append(point)
        return found

    def _combinations(self) -> Iterator[tuple[Point, str | None]]:
        """Yield each combination with the name of an earlier combination that is the same run, or None."""
        firsts: dict[str, str] = {}
        for chosen in itertools.product(*self.values.values()):
            settings = dict(zip(self.values, chosen, strict=True))
            point = Point(_name({name: settings[name] for name in self.swept}), settings)
            runs = {
                name: self.values[name][0]
                if name in self.idle and settings.get(*self.idle[name]) == self.idle[name][1]
                else value
                for name, value in settings.items()
            }
            first = firsts.setdefault(repr(runs), point.name)
            yield point, None if first == point.name else first


def grid(definition: StudyDefinition, given: Mapping[str, Any]) -> Grid:
    """Return the grid of the given parameters; a list, tuple or range gives several values.

    Raises BadInput for an unknown parameter, an empty list, or an invalid value.
    """
    known = {parameter.name: parameter for parameter in definition.flags}
    values = {}
    for name, several in given.items():
        check.one_of("parameter", name, known)
        listed = _several(name, several) if isinstance(several, list | tuple | range) else [several]
        if not listed:
            raise BadInput(f"{name} = []: must be a value, or several")
        if name == AT.name:
            listed = [None if each is None else joined(each) for each in listed]
        # Remove repeated values, which would be the same point.
        values[name] = tuple(dict.fromkeys(_checked(known[name], value) for value in listed))
    if (count := math.prod(map(len, values.values()))) > MOST_POINTS:
        raise BadInput(f"points = {count:,}: must be at most {MOST_POINTS:,}, by fewer values of the parameters")
    idle = {
        name: (other, value)
        for name, (other, value) in definition.idle.items()
        if name in values and (other in values or known[other].default == value)
    }
    return Grid(definition.name, values, idle)


def values_of(parameter: Parameter, texts: Sequence[str]) -> list[Any]:
    """Return the values listed by a flag on the command line.

    Numbers are separated by commas, such as ``0,0.1,0.3``; integers may be a range ``0:20`` (without its end) or
    ``0:20:5``. An optional parameter may be ``none``. A text is one value per occurrence of the flag, because it may
    contain commas. Raises BadInput for anything else.
    """
    if parameter.kind is str:
        return list(texts)
    found: list[Any] = []
    for part in split(texts):
        several = _several(parameter.name, _parsed(parameter, part), part)
        if not several:
            raise check.refuse(parameter.name, part, "a range from a number up to a larger one, which is not in it")
        found += several
    return found


def split(texts: Sequence[str]) -> list[str]:
    """Split texts at commas outside brackets, and return the values."""
    return [part.strip() for text in texts for part in re.split(r",(?![^(\[]*[)\]])", text)]


def numbers(name: str, text: str) -> list[int]:
    """Return the whole numbers that a flag's text lists, such as ``0,1,5`` or ``0:10``."""
    return values_of(Parameter(name, int, False, None, ""), [text])


def _several(name: str, values: Sequence[Any], given: Any = None) -> Sequence[Any]:
    """Return the values; raises BadInput for a range longer than a sweep may be, without expanding the range."""
    # Slice instead of len(), which overflows for very long ranges.
    if isinstance(values, range) and values[MOST_POINTS:]:
        raise check.refuse(name, given or values, f"at most {MOST_POINTS:,} values, for each is a point of the sweep")
    return values


def flags_of(values: Mapping[str, Sequence[Any]]) -> str:
    """Return the command-line flags that list parameters' values; a parameter whose only value is None has no flag."""
    flags: list[str] = []
    for name, several in values.items():
        if list(several) == [None]:
            continue
        apart = any(isinstance(value, str | bool) for value in several)
        flags += [flag(name, value) for value in (several if apart else [listing(several)])]
    return " ".join(flags)


def listing(values: Sequence[Any]) -> str:
    """Return numbers as text in the form that `values_of` reads; three or more successive integers become a range."""
    runs: list[list[Any]] = []
    for value in values:
        if runs and type(value) is int is type(runs[-1][-1]) and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    found = []
    for run in runs:
        shown = ["none" if value is None else _text(value) for value in run]
        found += shown if len(run) < 3 else [f"{run[0]}:{run[-1] + 1}"]
    return ",".join(found)


def _parsed(parameter: Parameter, text: str) -> Sequence[Any]:
    if parameter.optional and text.lower() == "none":
        return [None]
    if parameter.kind is bool and text.lower() in ("true", "false"):
        return [text.lower() == "true"]
    if parameter.kind is object:
        with suppress(ValueError, SyntaxError):
            return [ast.literal_eval(text)]
        return [text]
    with suppress(ValueError):
        if parameter.kind is int and re.fullmatch(r"-?\d+:-?\d+(:-?\d+)?", text):
            return range(*map(int, text.split(":")))
        if parameter.kind in (int, float):
            return [parameter.kind(text)]
    wanted = {int: "whole numbers, or a range such as 0:20", float: "numbers", bool: "true or false"}[parameter.kind]
    raise check.refuse(parameter.name, text, f"{wanted}, with commas between")


def _checked(parameter: Parameter, value: Any) -> Any:
    """Return a value converted to the parameter's type; raises BadInput for an invalid value."""
    if value is None and parameter.optional:
        return None
    if parameter.kind is float:
        return check.number(parameter.name, value)
    if parameter.kind is int:
        return check.integer(parameter.name, value, low=-(2**63))
    if parameter.kind is bool:
        return check.flag(parameter.name, value)
    check.instance(parameter.name, value, str, "text")
    return value


def _name(settings: Mapping[str, Any]) -> str:
    """Return the name of the folder for some settings; a name that is long or has unsafe characters ends in a hash."""
    text = ",".join(f"{name}={_text(value)}" for name, value in settings.items()) or "point"
    # Keep only characters that have no special meaning in any file system.
    safe = re.sub(r"[^A-Za-z0-9=,.+_-]", "_", text)
    if safe == text and len(text) <= _LONGEST:
        return text
    mark = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:10]
    return f"{safe[:_LONGEST]}-{mark}"


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
