"""Determine Python's hash seed, on which the iteration order of a set of strings depends."""

import os
import sys
from functools import cache
from pathlib import Path

VARIABLE = "PYTHONHASHSEED"
"""The environment variable from which Python reads its hash seed, once, at startup."""


@cache
def hash_seed() -> int | None:
    """Return the hash seed of this process, or None if Python drew it at random.

    Python reads PYTHONHASHSEED only at startup, so this function needs the environment at startup. Linux stores it in
    /proc; on other systems the current environment is used instead.
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


def setting(seed: int | None) -> str:
    """Return the value of PYTHONHASHSEED that gives a new process this hash seed; None lets Python draw it."""
    return "random" if seed is None else str(seed)


def shown(seed: int | None) -> str:
    """Return a hash seed as text for messages."""
    return "drawn by Python" if seed is None else str(seed)
