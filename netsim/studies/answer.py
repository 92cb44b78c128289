"""The answer to a study's question: a text whose fields are filled with numbers measured in the run."""

import math
import numbers
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netsim.util import check


@dataclass(frozen=True)
class _Measured:
    """A measured number or interval; both ends are shown, or one if they look the same."""

    ends: tuple[Any, ...]

    def __format__(self, form: str) -> str:
        return " to ".join(dict.fromkeys(_rounded(end, form) for end in self.ends))


def _rounded(number: Any, form: str) -> str:
    """Return a formatted number, with more digits if rounding would make it 0 or 100 although it is not."""
    shown = format(number, form)
    for digits in range(3, 18):
        try:
            if float(shown.replace(",", "")) not in {0.0, 100.0} - {float(number)}:
                break
        except ValueError:
            break
        shown = f"{number:.{digits}g}"
    return shown


def filled(text: str, fields: Mapping[str, Any], *others: str) -> list[str]:
    """Return a text and others with their fields filled in, each on one line.

    Parameters
    ----------
    text : str
        A text with fields in braces as for `str.format`, at least one of which is a number or an interval.
    fields : mapping
        Values by the names of fields: measured numbers, intervals as pairs of numbers, and text. A number that is not 0
        or 100 is not rounded to 0 or 100.

    Raises
    ------
    BadInput
        For a field without a value, a value without a field, a number that is not finite, a format that does not fit
        its value, or a ``text`` without a number.
    """
    try:
        names = [
            [part[1] for part in string.Formatter().parse(each) if part[1] is not None] for each in (text, *others)
        ]
    except ValueError as error:
        raise check.refuse("answer", text, f"a text with fields in braces ({error})") from None
    used = sorted({name for several in names for name in several})
    for name in used:
        check.one_of("field of the answer", name, list(fields) or ["the fields with values, and there are none"])
    if not any(map(_ends, map(fields.get, names[0]))):
        raise check.refuse("answer", text, "a text with a number that was measured, as a field")
    for name, value in fields.items():
        check.one_of("value for the answer", name, used)
        if not all(map(math.isfinite, _ends(value))):
            raise check.refuse(f"answer: {name}", value, "finite: a value that was not measured answers nothing")
    shown = {name: _Measured(ends) if (ends := _ends(value)) else value for name, value in fields.items()}
    try:
        return [" ".join(each.format_map(shown).split()) for each in (text, *others)]
    except (ValueError, TypeError) as error:
        raise check.refuse("answer", text, f"a text whose formats its values have ({error})") from None


def _ends(value: Any) -> tuple[float, ...]:
    """Return a number or an interval as a tuple of its ends; an empty tuple for anything else."""
    ends = value if isinstance(value, tuple) and len(value) == 2 else (value,)
    return ends if all(isinstance(end, numbers.Real) and not isinstance(end, bool) for end in ends) else ()
