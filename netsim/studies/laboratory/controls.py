"""The controls of a study's parameters: sliders, choices, switches, and a seed with a die."""

import math
import re
from collections.abc import Iterable
from typing import Any

from netsim.studies.catalogue import Parameter
from netsim.studies.laboratory.tree import exact

__all__ = ["controls"]

# Patterns in a description: nouns for a number between 0 and 1, the least value, and a list of allowed texts.
_SHARE = re.compile(r"\b(probability|share|fraction|likelihood)\b", re.IGNORECASE)
_LEAST = re.compile(r"\bat least (\d+)\b")
_CHOICE = re.compile(r'"([^" ]+)"')
_FREE = re.compile(r"\b(path|NAME|commas|file|folder)\b")
_SHARES = ("loss", "corrupt", "duplicate")

# The maximum of a slider as a multiple of its default.
_TIMES = 4


def controls(parameters: Iterable[Parameter]) -> list[dict[str, Any]]:
    """Return each parameter's control for the page, as JSON data.

    Each control has ``name``, ``label``, ``help``, ``default``, ``optional`` and a ``sort``: "switch", "choice" (with
    ``choices``), "text", "seed", "number", or "slider" (with ``low``, ``high`` and ``step``). A slider's range is a
    suggestion: any number can be typed.
    """
    return [
        {
            "name": each.name,
            "label": each.name.replace("_", " ").capitalize(),
            "help": each.description,
            "default": exact(each.default) if math.isfinite(_number(each.default)) else None,
            "optional": each.optional or each.default is None,
            **_sort(each),
        }
        for each in parameters
    ]


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) else 0.0
    except OverflowError:
        return math.inf


def _sort(parameter: Parameter) -> dict[str, Any]:
    if parameter.kind is bool:
        return {"sort": "switch"}
    if parameter.kind is str:
        listed = (
            [] if _FREE.search(parameter.description) else list(dict.fromkeys(_CHOICE.findall(parameter.description)))
        )
        if len(listed) > 1 and parameter.default in listed:
            return {"sort": "choice", "choices": listed}
        return {"sort": "text"}
    whole = parameter.kind is int
    if whole and (parameter.name == "seed" or parameter.name.endswith("_seed")):
        return {"sort": "seed"}
    if parameter.default is None or not math.isfinite(_number(parameter.default)):
        return {"sort": "number"}
    return {"sort": "slider"} | _range(parameter, float(parameter.default), whole)


def _range(parameter: Parameter, default: float, whole: bool) -> dict[str, float]:
    """Return the range of a number's slider: 0 to 1 for a share, otherwise up to a multiple of the default."""
    if whole:
        least = _LEAST.search(parameter.description)
        return {
            "low": min(int(least[1]) if least else 1, int(default)),
            "high": max(10, _TIMES * int(default)),
            "step": 1,
        }
    if 0 <= default <= 1 and (_SHARE.search(parameter.description) or parameter.name in _SHARES):
        return {"low": 0, "high": 1, "step": 0.01}
    high = _round(_TIMES * abs(default)) or 1.0
    return {"low": 0 if default >= 0 else -high, "high": high, "step": _round(high / 200)}


def _round(value: float) -> float:
    """Return a number rounded up to 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{next(each for each in (1, 2, 5, 10) if each * power >= value * (1 - 1e-9)) * power:.6g}")
