"""Find data files in the folder that the environment variable NETSIM_DATA names, and record the files read."""

import difflib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from netsim.errors import BadInput

FOLDER = "NETSIM_DATA"
"""The environment variable that names the folder of data sets."""
_IN_FOLDER = f"${FOLDER}/"
_recorded: ContextVar[dict[str, str] | None] = ContextVar("read", default=None)


def find(name: str, suffix: str, source: str = "") -> Path:
    """Return the path of ``<name><suffix>`` in the folder NETSIM_DATA; raises BadInput if it is missing.

    The error names the required file, and its public ``source`` if given.
    """
    for folder in folders(False):
        if (folder / f"{name}{suffix}").exists():
            return used(folder / f"{name}{suffix}", by_name=True)
    raise missing(name, (suffix,), source)


def missing(name: str, suffixes: Sequence[str], source: str = "", otherwise: str = "") -> BadInput:
    """Return the error for a missing data set; its message lists the required and the existing files.

    ``suffixes`` are the file name endings that the caller can read, the preferred one first; ``source`` says where the
    data are published; ``otherwise`` is appended to the message.
    """
    source = f"public source: {source}" if source else ""
    first, *others = suffixes
    more = "; ".join(filter(None, (f"or {', '.join(others)}" if others else "", source)))
    wanted = f"a folder that holds {name}{first}" + (f" ({more})" if more else "")
    value = os.environ.get(FOLDER)
    if not value:
        return BadInput(f"{FOLDER} is not set: must be {wanted}{otherwise}")
    folder = Path(value)
    if not folder.is_dir():
        return BadInput(f"{FOLDER} = {value!r} is not a folder: must be {wanted}")
    existing = sorted({path.name.removesuffix(end) for end in suffixes for path in folder.glob(f"*{end}")})
    held = f"it holds {', '.join(existing)}" if existing else "it holds no such file"
    hint = "" if source else nearest(name, existing)
    return BadInput(f"{FOLDER} = {value!r}: must be {wanted}{hint}; {held}{otherwise}")


def folders(here: bool) -> list[Path]:
    """Return the folders to search for data: NETSIM_DATA and, if ``here``, the current folder."""
    value = os.environ.get(FOLDER)
    return ([Path(value)] if value else []) + ([Path()] if here else [])


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint at the name most similar to ``name``, or "" if none is similar."""
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


# --- record of files read ---------------------------------------------------------------------------------------------


@contextmanager
def recording() -> Iterator[dict[str, str]]:
    """Yield a dict to which `used` adds the SHA-256 of each file, under the file's name.

    The name is the file's path. If `find` located the file in the folder NETSIM_DATA, the name is ``$NETSIM_DATA/…``,
    because this folder may move.
    """
    found: dict[str, str] = {}
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


def record(files: Mapping[str, str]) -> None:
    """Add ``files``, a mapping from names to SHA-256, to the enclosing `recording`, if there is one."""
    if (found := _recorded.get()) is not None:
        found |= files


def used(path: Path, *, by_name: bool = False) -> Path:
    """Add a file to the enclosing `recording`, if there is one, and return ``path``.

    ``by_name`` says whether `find` located the file.
    """
    found = _recorded.get()
    if found is not None and (digest := digest_of(path)):
        value = os.environ.get(FOLDER)
        inside = by_name and value and path.parent == Path(value)
        found[f"{_IN_FOLDER}{path.name}" if inside else str(path)] = digest
    return path


def path_of(name: str) -> Path:
    """Return the path of a file recorded under ``name``, with the present value of NETSIM_DATA for ``$NETSIM_DATA``."""
    value = os.environ.get(FOLDER, "")
    return Path(value, name.removeprefix(_IN_FOLDER)) if name.startswith(_IN_FOLDER) else Path(name)


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of a file, or "" if it is missing; cached while the file's dates and size are unchanged."""
    try:
        if not os.path.isfile(path):
            return ""
        found = os.stat(path)
        return _digest(os.path.abspath(path), found.st_mtime_ns, found.st_ctime_ns, found.st_size)
    except OSError:
        return ""


def changed_files(read: Mapping[str, str]) -> list[str]:
    """Return the names of the recorded files that have changed or disappeared since they were read."""
    return [name for name, digest in read.items() if digest_of(path_of(name)) != digest]


@lru_cache(maxsize=1024)
def _digest(path: str, *_: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
