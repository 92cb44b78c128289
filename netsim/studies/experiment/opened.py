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
from netsim.util.datafiles import used

_CODE = {".py", ".pyc", ".pyi", ".so", ".pyd", ".dll", ".pth", ".ttf", ".mplstyle"}
_opened: ContextVar[dict[str, None] | None] = ContextVar("opened", default=None)


@contextmanager
def recorded() -> Iterator[None]:
    """Record the files that are opened for reading inside the context, as `netsim.util.datafiles.used` does."""
    _listen()
    found: dict[str, None] = {}
    token = _opened.set(found)
    try:
        yield
    finally:
        _opened.reset(token)
        for name in found:
            path = Path(name)
            if path.suffix not in _CODE and path.is_file() and not is_library(path):
                used(path)


@cache
def _listen() -> None:
    # Python has no other way to learn of all files: pandas, numpy and a user's `open` have nothing else in common.
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or (found := _opened.get()) is None:
        return
    name, mode = arguments[0], arguments[1]
    if isinstance(name, str | bytes | os.PathLike) and (mode is None or not {*"wax+"} & {*str(mode)}):
        found[os.fsdecode(name)] = None
