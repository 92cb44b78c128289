"""Import netsim's compiled modules, if they were built and are not disabled.

For each compiled module there is Python code with the same results, its Python twin.
"""

import importlib
import os
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from netsim.errors import BadInput

__all__ = ["compiled", "is_built"]


def compiled(name: str) -> ModuleType | None:
    """Import and return a compiled module of netsim; return None if its Python twin is to be used instead.

    The environment variable ``NETSIM_CORE`` decides: ``python`` always uses the twin, ``compiled`` raises BadInput if
    the module was not built, and empty uses the module if it was built.
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
    """Return whether `compiled` would return a module.

    If NETSIM_CORE is empty, only look for the module's file, which is faster than importing it.
    """
    if _wanted():
        return compiled(name) is not None
    folder, _, module = name.rpartition(".")
    return PathFinder.find_spec(module, [str(Path(__file__).parents[1] / folder)]) is not None


def _wanted() -> str:
    wanted = os.environ.get("NETSIM_CORE", "")
    if wanted not in ("", "python", "compiled"):
        raise BadInput(f"NETSIM_CORE = {wanted!r}: must be python, compiled or empty")
    return wanted
