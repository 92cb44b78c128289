"""Access to compiled modules, if they were built and are not disabled."""

import importlib
import os
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from netsim.errors import BadInput

__all__ = ["compiled", "is_built"]


def compiled(name: str) -> ModuleType | None:
    """Return a compiled module of netsim, or None if its Python twin is to be used.

    The environment variable ``NETSIM_CORE`` selects ``python``, ``compiled`` (an error if it was not built) or, if
    empty, the compiled module if it exists.
    """
    wanted = _wanted()
    if wanted == "python":
        return None
    try:
        return importlib.import_module(f"netsim.{name}")
    except ImportError as error:
        if wanted == "compiled":
            raise BadInput(f"NETSIM_CORE = 'compiled': must have been built with netsim ({error})") from None
        return None


def is_built(name: str) -> bool:
    """Return whether `compiled` looks for a module and its file is there: quickly, without importing it."""
    if _wanted():
        return compiled(name) is not None
    folder, _, module = name.rpartition(".")
    return PathFinder.find_spec(module, [str(Path(__file__).parents[1] / folder)]) is not None


def _wanted() -> str:
    wanted = os.environ.get("NETSIM_CORE", "")
    if wanted not in ("", "python", "compiled"):
        raise BadInput(f"NETSIM_CORE = {wanted!r}: must be python, compiled or empty")
    return wanted
