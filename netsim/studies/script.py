"""A user's Python files, executed as modules that Python can find by name in the meantime."""

import hashlib
import os
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netsim.errors import BadInput, one_line
from netsim.util import check, datafiles


def load(parameter: str, file: str) -> dict[str, Any]:
    """Execute a Python file and return its definitions by name; no __pycache__ is written.

    ``parameter`` is the name of the argument in messages. Raises BadInput if the file does not exist or raises an
    error.
    """
    module = new_module(file)
    with known(module):
        execute(parameter, file, module)
    datafiles.used(Path(file))
    return defined(module)


def new_module(file: str) -> types.ModuleType:
    """Return an empty module for a file, named after the file."""
    return types.ModuleType(f"_study_{Path(file).stem.replace('.', '_')}")


def defined(module: types.ModuleType) -> dict[str, Any]:
    """Return the public classes and functions that a module itself defines, by name."""
    return {
        key: each
        for key, each in vars(module).items()
        if not key.startswith("_") and getattr(each, "__module__", None) == module.__name__
    }


@contextmanager
def known(module: types.ModuleType | None) -> Iterator[None]:
    """Inside the context, register a module by its name, because dataclasses and pickle look it up."""
    if module is None:
        yield
        return
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]
        if before is not None:
            sys.modules[module.__name__] = before


def execute(parameter: str, file: str, module: types.ModuleType) -> str:
    """Execute a file as a module; return its SHA-256."""
    path = Path(file)
    if not path.is_file():
        raise check.refuse(parameter, file, "an existing Python file")
    module.__file__ = os.path.abspath(path)
    try:
        text = path.read_bytes()
        exec(compile(text, module.__file__, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        line = where(error, module.__file__)
        raise BadInput(
            f"{parameter} = {file!r}: must be a Python file that runs; {type(error).__name__}{line}: {message(error)}"
        ) from error
    return hashlib.sha256(text).hexdigest()


def message(error: BaseException) -> str:
    """Return an error's text in one line."""
    # Omit the rest of a syntax error's text, which repeats the file and line.
    return (error.msg if isinstance(error, SyntaxError) else one_line(error)) or "no message"


def where(error: BaseException, file: str) -> str:
    """Return the place of an error, as `` (rumour.py, line 3)``: the last line of ``file`` in its traceback."""
    if isinstance(error, SyntaxError):
        return f" ({os.path.basename(error.filename)}, line {error.lineno})" if error.filename else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({os.path.basename(file)}, line {lines[-1]})" if lines else ""
