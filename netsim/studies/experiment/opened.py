"""The data files that a cell opens, whoever opens them: results of other data are not taken for those of a cell."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from netsim.studies.experiment.content import is_library
from netsim.util.datafiles import recording, used

_CODE = {".py", ".pyc", ".pyi", ".so", ".pyd", ".dll", ".pth", ".ttf", ".mplstyle"}
_WRITES = os.O_WRONLY | os.O_RDWR
_opened: ContextVar[dict[str, str] | None] = ContextVar("opened", default=None)
_known: dict[str, dict[str, str]] = {}


@contextmanager
def recorded(reader: str) -> Iterator[None]:
    """Record the files opened for reading inside the context, under the name of their reader: SHA-256 by name.

    A problem, or a function with a cache, reads a file once for many cells: `known` has the files of all contexts of a
    reader in this process, as they were when they were opened.
    """
    _listen()
    found = _known.setdefault(reader, {})
    token = _opened.set(found)
    try:
        with recording() as named:
            yield
    finally:
        _opened.reset(token)
        found |= named


def known(reader: str) -> dict[str, str]:
    """Return the files that this process has recorded for a reader."""
    return dict(_known.get(reader, {}))


@cache
def _listen() -> None:
    # Python has no other way to learn of all files: pandas, numpy and a user's `open` have nothing else in common.
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or (found := _opened.get()) is None:
        return
    name, mode, flags = arguments
    if not isinstance(name, str | bytes | os.PathLike):
        return
    if {*"wax+"} & {*str(mode)} if mode is not None else isinstance(flags, int) and flags & _WRITES:
        return
    path = Path(os.fsdecode(name))
    if path.suffix in _CODE or not path.is_file() or is_library(path):
        return
    # Its digest is taken now, before it can change, and that opens it once more.
    token = _opened.set(None)
    try:
        with recording() as now:
            used(path, by_name=True)
        found |= now
    finally:
        _opened.reset(token)
