"""Find the folders of data sets, and record which files are read."""

import difflib
import hashlib
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from netsim.util.variables import assigned

FOLDER = "NETSIM_DATA"
"""The environment variable that names the folder of data sets."""
CACHE = "NETSIM_CACHE"
"""The environment variable that names the folder of data sets that netsim downloaded."""
_recorded: ContextVar[dict[str, str] | None] = ContextVar("read", default=None)


def folders(here: bool) -> list[Path]:
    """Return the folders to search for data: NETSIM_DATA and, if ``here``, the current folder."""
    value = os.environ.get(FOLDER)
    return ([Path(value)] if value else []) + ([Path()] if here else [])


def _data_folder() -> Path | None:
    return next(iter(folders(False)), None)


def cache_folder() -> Path | None:
    """Return the folder of downloaded data sets: NETSIM_CACHE, else the user's cache folder; None without pooch."""
    value = os.environ.get(CACHE)
    return Path(value) if value else _user_cache()


@lru_cache(maxsize=1)
def _user_cache() -> Path | None:
    # pooch determines the cache folder; without pooch, no data set can have been downloaded.
    if importlib.util.find_spec("pooch") is None:
        return None
    import pooch

    return Path(pooch.os_cache("netsim"))


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint for error messages at the name most similar to ``name``, or "" if no name is similar."""
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


# --- record of files read ---------------------------------------------------------------------------------------------


@contextmanager
def recording() -> Iterator[dict[str, str]]:
    """Yield a dict to which `used` adds the SHA-256 of each file, under the file's name.

    The name is the file's path. For a file found by the name of a data set, in the folder NETSIM_DATA or in the cache,
    the name is ``$NETSIM_DATA/…`` or ``$NETSIM_CACHE/…`` instead, because these folders may move.
    """
    found: dict[str, str] = {}
    with assigned(_recorded, found):
        yield found


def record(files: Mapping[str, str]) -> None:
    """Add ``files``, a mapping from names to SHA-256, to the enclosing `recording`, if there is one."""
    if (found := _recorded.get()) is not None:
        found |= files


def used(path: Path, *, by_name: bool = False) -> Path:
    """Add a file to the enclosing `recording`, if there is one, and return ``path``.

    ``by_name`` means that the file may have been found by the name of a data set.
    """
    found = _recorded.get()
    if found is not None and (digest := digest_of(path)):
        found[_name_of(path) if by_name else str(path)] = digest
    return path


def _name_of(path: Path) -> str:
    value = os.environ.get(FOLDER)
    if value and path.parent == Path(value):
        return f"${FOLDER}/{path.name}"
    # Downloaded files have these suffixes. For other files, do not call `cache_folder`, which imports pooch.
    fetched = path.name.endswith((".csv.gz", ".npz")) and path.parent == cache_folder()
    return f"${CACHE}/{path.name}" if fetched else str(path)


def path_of(name: str) -> Path:
    """Return the path of a file recorded under ``name``, with the current folders NETSIM_DATA and NETSIM_CACHE.

    A data set may have moved from one of these folders to the other. The caller must compare its SHA-256.
    """
    variable, _, file = name.partition("/")
    if variable not in (f"${FOLDER}", f"${CACHE}"):
        return Path(name)
    both = (_data_folder, cache_folder) if variable == f"${FOLDER}" else (cache_folder, _data_folder)
    paths = (folder / file for each in both if (folder := each()) is not None)
    return next(filter(Path.exists, paths), Path(name))


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of a file, or "" if it is missing; it is cached until the file's dates or size change."""
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
