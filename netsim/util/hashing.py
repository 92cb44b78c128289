"""Python's hash seed, on which the order of a set of texts depends."""

import os
import sys
from functools import cache
from pathlib import Path

VARIABLE = "PYTHONHASHSEED"
"""The variable that Python reads at its start."""


@cache
def hash_seed() -> int | None:
    """Return the hash seed of this process, or None if Python drew it.

    The environment at the start of the process counts: a program that sets PYTHONHASHSEED itself changes nothing any
    more. It is known on Linux; elsewhere the present environment must do.
    """
    if not sys.flags.hash_randomization:
        return 0
    text = "" if sys.flags.ignore_environment else _at_start()
    return int(text) if text.isdecimal() and int(text) else None


def _at_start() -> str:
    try:
        variables = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ.get(VARIABLE, "")
    given = (each.partition(b"=") for each in variables)
    return next((value.decode("ascii", "replace") for name, _, value in given if name == VARIABLE.encode()), "")


def shown(seed: int | None) -> str:
    """Return a hash seed as messages show it."""
    return "drawn by Python" if seed is None else str(seed)
