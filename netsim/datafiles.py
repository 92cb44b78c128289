"""Finding data files: by their name in the folder that the environment variable NETSIM_DATA names."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from netsim.errors import BadInput

__all__ = ["find", "folders", "missing", "nearest"]

_FOLDER = "NETSIM_DATA"


def find(name: str, suffix: str, source: str = "") -> Path:
    """Return the path of ``<name><suffix>`` in the folder NETSIM_DATA, or raise BadInput that says what to do.

    ``source`` says where it is published.
    """
    for folder in folders(False):
        if (folder / f"{name}{suffix}").exists():
            return folder / f"{name}{suffix}"
    raise missing(name, (suffix,), source)


def missing(name: str, suffixes: Sequence[str], source: str = "", otherwise: str = "") -> BadInput:
    """Return the error for a data set that is not there: what to put where, and what is there.

    The first of the ``suffixes`` is the usual one; ``source`` says where the set is published.
    """
    source = f"public source: {source}" if source else ""
    first, *others = suffixes
    more = "; ".join(filter(None, (f"or {', '.join(others)}" if others else "", source)))
    wanted = f"a folder that holds {name}{first}" + (f" ({more})" if more else "")
    value = os.environ.get(_FOLDER)
    if not value:
        return BadInput(f"{_FOLDER} is not set: must be {wanted}{otherwise}")
    folder = Path(value)
    if not folder.is_dir():
        return BadInput(f"{_FOLDER} = {value!r} is no folder: must be {wanted}")
    there = sorted({path.name.removesuffix(end) for end in suffixes for path in folder.glob(f"*{end}")})
    held = f"it holds {', '.join(there)}" if there else "it holds no such file"
    near = "" if source else nearest(name, there)
    return BadInput(f"{_FOLDER} = {value!r}: must be {wanted}{near}; {held}{otherwise}")


def folders(here: bool) -> list[Path]:
    """Return where a name is looked for: NETSIM_DATA; and, if it is a file's name, where the user stands."""
    value = os.environ.get(_FOLDER)
    return ([Path(value)] if value else []) + ([Path()] if here else [])


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint at the name that was probably meant; empty if none is near."""
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
