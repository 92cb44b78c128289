"""Convert values to short texts for the arrows and legends of figures."""

import heapq
import math
import numbers
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from netsim.util.check import as_float

__all__ = ["cut", "short_text"]

# The largest depth of nested containers: a deeper value has no short text.
_DEEPEST = 4

_BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("{", "}"), dict: ("{", "}")}


def short_text(value: Any, most: int) -> str | None:
    """Return ``value`` as text, of which only the first ``most`` characters are reliable.

    Numbers, text, None, enum members, lists, tuples, sets and dicts can be converted. The result is None if ``value``
    is or contains anything else, such as an array, or is nested too deeply. Numbers that are not integers are rounded
    to three significant digits, enum members are shown by name, sets and dicts are sorted.
    """
    return _text(value, most, 0)


def cut(text: str, most: int) -> str:
    """Shorten a text to at most ``most`` characters, with an ellipsis at its end."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: Any, most: int, depth: int) -> str | None:
    if isinstance(value, Enum):
        value = value.name or str(value.value)
    if isinstance(value, str):
        text = value[: most + 1]
        return text if text.isprintable() else repr(text)[1:-1]
    if value is None or isinstance(value, bool | np.bool_):
        return str(value)
    if isinstance(value, numbers.Real):
        return _number(value)
    kind = next((each for each in _BRACKETS if isinstance(value, each)), None)
    if kind is None or depth == _DEEPEST:
        return None
    # Further elements would be cut off, because each element takes at least three characters with its separator.
    parts = _parts(value, most // 3 + 2, most, depth)
    if parts is None:
        return None
    opening, closing = _BRACKETS[kind]
    return opening + ", ".join(parts) + closing


def _parts(value: Any, count: int, most: int, depth: int) -> list[str] | None:
    """Return the first ``count`` elements of a container as text; sets and dicts are sorted."""
    keys: Iterable[Any] = value
    if isinstance(value, set | frozenset | Mapping):
        keys = heapq.nsmallest(count, value, key=lambda each: _rank(each, most))
    parts = []
    for key, _ in zip(keys, range(count), strict=False):
        text = _text(key, most, depth + 1)
        if isinstance(value, Mapping) and text is not None:
            other = _text(value[key], most, depth + 1)
            text = None if other is None else f"{text}: {other}"
        if text is None:
            return None
        parts.append(text)
    return parts


def _rank(value: Any, most: int) -> tuple[bool, float, str]:
    """Return a sort key: numbers first, by value, then all other elements by their text."""
    if isinstance(value, numbers.Real) and not math.isnan(value):
        return False, as_float(value), ""
    return True, 0.0, _text(value, most, 1) or ""


def _number(value: Any) -> str:
    if isinstance(value, numbers.Integral):
        # Python refuses to convert integers with thousands of digits to text.
        return str(int(value)) if abs(int(value)) < 10**30 else "…"
    return f"{float(value):.3g}"
