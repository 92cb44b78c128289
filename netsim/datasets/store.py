"""Data sets on this machine: find them, or download, prepare and check them.

A data set is searched for in the folder given by the environment variable NETSIM_DATA, then in the cache
(`netsim.util.datafiles.cache_folder`), then in the netsim package. `get` downloads into the cache.
"""

import errno
import gzip
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.datasets.preparation import Arrays, Originals, content, content_digest, digest
from netsim.datasets.registry import SETS, SHIPPED, UNTRIED, Dataset
from netsim.errors import BadInput, NetsimError, one_line
from netsim.util import check
from netsim.util.datafiles import CACHE, FOLDER, cache_folder, folders, nearest, used
from netsim.util.files import write_pieces

if TYPE_CHECKING:
    import pandas as pd

_TIMEOUT_S = 30.0
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


# --- finding ----------------------------------------------------------------------------------------------------------


class Missing(BadInput):
    """A data set is not on this machine; the message names the command that downloads it, or its source."""


def find(name: str) -> Path:
    """Return the path of the file of a data set in `SETS`.

    Raises
    ------
    BadInput
        If the set is unknown.
    Missing
        If the data set is not on this machine.
    """
    known = SETS[check.one_of("name", name, SETS)]
    if (path := where(known)) is None:
        raise refuse_missing(name, (known.suffix,))
    return used(path, by_name=True)


def where(known: Dataset) -> Path | None:
    """Return the path of a data set's file, or None if it is not on this machine."""
    paths = (folder / f"{known.name}{known.suffix}" for folder in _places())
    return next(filter(Path.exists, paths), None)


def in_cache(name: str, suffixes: Sequence[str]) -> Path | None:
    """Return the path of the file in the cache that has this name and one of the suffixes, or None."""
    folder = cache_folder()
    paths = () if folder is None else (folder / f"{name}{each}" for each in suffixes)
    return next(filter(Path.exists, paths), None)


def refuse_missing(name: str, suffixes: Sequence[str], otherwise: str = "") -> Missing:
    """Return the error for a missing data set; it lists the files in NETSIM_DATA and says how to get the data set.

    ``suffixes`` are the file name endings that the caller can read, the preferred one first. ``otherwise`` is text
    appended to the message.
    """
    known = SETS.get(name)
    source = f"public source: {known.source}" if known else ""
    first, *others = sorted(suffixes, key=lambda each: known is not None and each != known.suffix)
    more = "; ".join(filter(None, (f"or {', '.join(others)}" if others else "", source)))
    wanted = f"a folder that holds {name}{first}" + (f" ({more})" if more else "")
    if known is not None:
        fetched = f"netsim data get {name} fetches it"
        otherwise += f"; {fetched if known.addresses else f'netsim cannot fetch it: {known.why_not}'}"
    value = next(iter(folders(False)), None)
    if value is None:
        return Missing(f"{FOLDER} is not set: must be {wanted}{otherwise}")
    if not value.is_dir():
        return Missing(f"{FOLDER} = {str(value)!r} is not a folder: must be {wanted}{otherwise}")
    existing = sorted({path.name.removesuffix(end) for end in suffixes for path in value.glob(f"*{end}")})
    held = f"it holds {', '.join(existing)}" if existing else "it holds no such file"
    hint = "" if known else nearest(name, existing)
    return Missing(f"{FOLDER} = {str(value)!r}: must be {wanted}{hint}; {held}{otherwise}")


def _places() -> Iterator[Path]:
    """Yield the folders of data sets in the order in which they are searched."""
    yield from folders(False)
    if (cache := cache_folder()) is not None:
        yield cache
    yield SHIPPED


# --- fetching ---------------------------------------------------------------------------------------------------------


def get(
    name: str,
    files: Sequence[str | Path] = (),
    *,
    tell: Callable[[str], None] = print,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Download a data set, prepare it, compare its SHA-256 and store it in the cache; return its path.

    A data set that exists on this machine is not downloaded again, unless its file in the cache is damaged. If an error
    occurs, no file is left in the cache. A killed process leaves a hidden folder, which the next call removes. If
    several processes request the same data set at the same time, one downloads it and the others wait.

    Parameters
    ----------
    name : str
        The name of a data set in `SETS`.
    files : sequence of path, optional
        The original files, or folders of them, if they are already on this machine; then no network is needed.
    tell : function, optional
        Called with each line of text for the user.
    progress : function, optional
        Called with the number of bytes of a file received so far.

    Raises
    ------
    BadInput
        If the set is unknown or cannot be downloaded, the original files have wrong digests, or pooch is missing.
    NetsimError
        If an address cannot be read, or the cache cannot be written.
    """
    known = SETS[check.one_of("name", name, SETS)]
    if (found := where(known)) is not None and found.parent != cache_folder():
        tell(f"{name}: is here, {found}")
        return found
    if known.prepare is None:
        raise BadInput(f"{name}: netsim cannot fetch it: {known.why_not}; it is published at {known.source}")
    paths = _files(files)
    target = _cache() / f"{name}{known.suffix}"
    with _locked(target.parent, known):
        if _is_whole(target, known):
            tell(f"{name}: is here, {target}")
            return target
        work = target.with_name(f".{name}.part")
        # This folder was left by a killed process: because of the lock, no other process can be using it.
        shutil.rmtree(work, ignore_errors=True)
        try:
            work.mkdir()
            paths = paths or [_download(known, each, work, tell, progress) for each in known.addresses]
            prepared = _prepared(known, paths)
            # Write inside this folder first, so that a killed process leaves files only here.
            os.replace(write_pieces(work / target.name, [_packed(prepared, known.suffix)]), target)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; nothing of {name} was kept") from None
        except OSError as error:
            raise NetsimError(f"{name}: {target.parent} could not be written ({_reason(error)})") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    tell(f"{name}: {target}, {'SHA-256 as it must be' if known.sha256 else UNTRIED}")
    return target


def _cache() -> Path:
    """Return the cache's folder; create it if it does not exist."""
    folder = cache_folder()
    if folder is None:
        raise BadInput(
            f"{CACHE} is not set: must be a folder, or pooch be installed: pip install '.[data]' in the clone"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{CACHE}: {str(folder)!r} must be a folder that can be made ({_reason(error)})") from None
    return folder


def _files(given: Sequence[str | Path]) -> list[Path]:
    """Return a list of files in which each given folder is replaced by its files."""
    found: list[Path] = []
    for path in map(Path, given):
        if not path.exists():
            raise check.refuse("from", str(path), "an existing file or folder")
        found += sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path]
    return found


def _locked(folder: Path, known: Dataset) -> AbstractContextManager[object]:
    """Hold the lock of a data set, so that no other process downloads it; wait while another process holds the lock."""
    from filelock import FileLock

    try:
        return FileLock(folder / f".{known.name}.lock").acquire()
    except (OSError, NotImplementedError) as error:
        raise NetsimError(f"{known.name}: {folder} could not be locked ({one_line(error)})") from error


def _is_whole(path: Path, known: Dataset) -> bool:
    """Return whether a file in the cache has the expected content."""
    with suppress(Exception):
        return path.exists() and (not known.sha256 or content_digest(path) == known.sha256)
    return False


def _download(
    known: Dataset, address: str, folder: Path, tell: Callable[[str], None], progress: Callable[[int], None] | None
) -> Path:
    """Download one file of a data set, and return its path; raise NetsimError with instructions if that fails."""
    try:
        import pooch
        import requests
    except ImportError:
        raise BadInput("pooch: must be installed to fetch data: pip install '.[data]' in the clone") from None
    # Otherwise pooch would print the address and the file's SHA-256 to standard error.
    pooch.get_logger().setLevel("ERROR")
    tell(f"{known.name}: {address}")
    bar: Any = False if progress is None else _Progress(progress)
    downloader = pooch.HTTPDownloader(progressbar=bar, timeout=_TIMEOUT_S)
    name = known.files[known.addresses.index(address)]
    try:
        return Path(pooch.retrieve(address, known_hash=None, fname=name, path=folder, downloader=downloader))
    except requests.RequestException as error:
        one = len(known.files) == 1
        which, given = ("it", known.files[0]) if one else (f"all {len(known.files)} files there", "FOLDER")
        then = f"download {which} elsewhere, then netsim data get {known.name} --from {given}"
        raise NetsimError(f"{known.name}: {address} could not be read ({_network_reason(error)}); {then}") from None


class _Progress:
    """Reports the progress of a download by pooch, which calls these methods."""

    total = 0

    def __init__(self, show: Callable[[int], None]) -> None:
        self._show, self._count = show, 0

    def update(self, count: int) -> None:
        """Count received bytes, and report the sum."""
        self._count = min(self._count + count, self.total or self._count + count)
        self._show(self._count)

    def reset(self) -> None:
        """Set the count to 0."""
        self._count = 0

    def close(self) -> None:
        """Do nothing; pooch calls this at the end."""


def _network_reason(error: Exception) -> str:
    """Return a short text with the reason why an address could not be read."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return f"no answer for {_TIMEOUT_S:g} s"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut"
    return "no connection" if isinstance(error, requests.ConnectionError) else one_line(error)


def _prepared(known: Dataset, paths: Sequence[Path]) -> "pd.DataFrame | Arrays":
    """Convert the originals to the table; raise BadInput unless the digests are as expected."""
    assert known.prepare is not None
    try:
        prepared = known.prepare(Originals(paths))
    except BadInput as error:
        raise BadInput(f"{known.name}: {error}") from None
    except Exception as error:
        # The library that reads a changed or damaged original may raise any exception.
        raise BadInput(f"{known.name}: the original is not as it was published ({one_line(error)})") from None
    found = digest(prepared)
    if known.sha256 and found != known.sha256:
        raise BadInput(
            f"{known.name}: the SHA-256 of the prepared table is {found}: must be {known.sha256}; the original has "
            "changed or is damaged, and nothing of it was kept"
        )
    return prepared


def _packed(prepared: Any, suffix: str) -> bytes:
    """Return the file content for a prepared table; equal tables give equal bytes."""
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez_compressed(buffer, **prepared)
    else:
        with gzip.GzipFile("", "wb", 9, buffer, mtime=0) as file:
            file.write(content(prepared))
    return buffer.getvalue()


def _reason(error: OSError) -> str:
    return "no space" if error.errno in _FULL else error.strerror or one_line(error)
