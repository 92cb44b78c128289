"""What a result depends on, as JSON: code by its text, arrays and files by their bytes, other parts by their values.

Content is not parameters: two functions with equal parameters are two contents. The code of a user's class or function
is its text, with the text of all that it uses of its own file, and the whole of the user's other files that it uses.
The code of netsim and of installed packages has only its name here: a cell's key has netsim's source besides, and a
cell records the versions of the packages.
"""

import ast
import builtins
import dataclasses
import hashlib
import inspect
import linecache
import sys
import sysconfig
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput, one_line
from netsim.studies.experiment.paths import brief
from netsim.wire.coded import Coder

_PLAIN = (bool, int, str, bytes, complex, type(None))


def content(part: Any) -> Any:
    """Return what a part is, as JSON can hold it; raises BadInput for what has neither a value nor a text."""
    return _Content().of(part)


class _Content:
    """The content of parts; a part within itself is named, not entered again."""

    def __init__(self) -> None:
        self._inside: list[Any] = []

    def of(self, part: Any) -> Any:
        if any(each is part for each in self._inside):
            return {"again": type(part).__qualname__}
        self._inside.append(part)
        try:
            return self._of(part)
        finally:
            self._inside.pop()

    def _of(self, part: Any) -> Any:
        if isinstance(part, float):
            return repr(float(part))
        if type(part) in _PLAIN:
            return part if isinstance(part, int | str | None) else [type(part).__name__, repr(part)]
        if isinstance(part, np.generic):
            return self.of(part.item())
        if isinstance(part, np.ndarray):
            return self._of_array(part)
        if isinstance(part, Path):
            return {"file": [part.name, digest(part.read_bytes()) if part.is_file() else None]}
        if isinstance(part, nx.Graph):
            nodes = [[self.of(node), self.of(data)] for node, data in part.nodes(data=True)]
            edges = [[self.of(a), self.of(b), self.of(data)] for a, b, data in part.edges(data=True)]
            return {"graph": [type(part).__name__, self.of(part.graph), _digest_of([nodes, edges])]}
        if isinstance(part, Mapping):
            items = [[self.of(name), self.of(value)] for name, value in part.items()]
            return {"mapping": sorted(items, key=repr) if all(isinstance(name, str) for name in part) else items}
        if isinstance(part, set | frozenset):
            return {"set": sorted((self.of(each) for each in part), key=repr)}
        if isinstance(part, list | tuple | range):
            return [type(part).__name__, *map(self.of, part)]
        if isinstance(part, types.ModuleType):
            return {"module": [part.__name__, *self._of_module(part)]}
        if isinstance(part, types.MethodType):
            return {"method": [self.of(part.__self__), self.of(part.__func__)]}
        if isinstance(part, type | types.FunctionType | types.BuiltinFunctionType):
            return {"code": self._of_code(part)}
        if callable(part) and hasattr(part, "__wrapped__"):
            # A function with a cache, say.
            return {"wrapped": [type(part).__name__, self.of(part.__wrapped__)]}
        if isinstance(part, partial):
            return {"partial": [self.of(part.func), self.of(part.args), self.of(part.keywords)]}
        return {"part": [self.of(type(part)), self._of_object(part)]}

    def _of_array(self, part: Any) -> Any:
        if part.dtype.hasobject:
            return {"array": [list(part.shape), *map(self.of, part.ravel().tolist())]}
        return {"array": [str(part.dtype), list(part.shape), digest(np.ascontiguousarray(part).tobytes())]}

    def _of_object(self, part: Any) -> Any:
        if isinstance(part, Coder):
            return self.of(part.arguments)
        if dataclasses.is_dataclass(part):
            return self.of({each.name: getattr(part, each.name) for each in dataclasses.fields(part) if each.init})
        if hasattr(part, "to_csv"):
            # A table of pandas.
            return digest(part.to_csv().encode())
        try:
            reduced = part.__reduce_ex__(2)
        except Exception as error:
            raise BadInput(f"{brief(part)}: must have a value that can be recorded ({one_line(error)})") from None
        if isinstance(reduced, str):
            return reduced
        return [self.of(list(each) if isinstance(each, Iterator) else each) for each in reduced]

    # --- code ---------------------------------------------------------------------------------------------------------

    def _of_code(self, what: Any) -> Any:
        name = getattr(what, "__qualname__", what.__name__)
        module = sys.modules.get(what.__module__ or "")
        if isinstance(what, types.BuiltinFunctionType) or not is_users(what):
            return [what.__module__, name]
        used = sorted(_names_of(what, getattr(module, "__dict__", {})).items())
        closed = [cell.cell_contents for cell in getattr(what, "__closure__", None) or () if _is_filled(cell)]
        defaults = [getattr(what, "__defaults__", None), getattr(what, "__kwdefaults__", None)]
        return [
            name,  # without the module's name: a file that is run as a script has another one
            _text_of(what) or self._bytecode(what),
            self.of(closed),
            self.of(defaults),
            [[each, self._of_used(value, what)] for each, value in used],
        ]

    def _of_used(self, value: Any, by: Any) -> Any:
        """Return the content of a global name's value; of what another of the user's files defines, the whole file."""
        home = _home_of(value)
        if isinstance(value, type | types.FunctionType) and home is not _home_of(by) and is_users(value):
            return self.of(home)
        return self.of(value)

    def _of_module(self, module: types.ModuleType) -> list[Any]:
        """Return the digests of a user's file, and of the user's other files that it uses."""
        return [digest(_lines(str(file)).encode()) for file in _files(module, set())]

    def _bytecode(self, what: Any) -> Any:
        """Return the bytecode of code without a text, as in a REPL."""
        if isinstance(what, type):
            own = {name: value for name, value in vars(what).items() if isinstance(value, types.FunctionType)}
            plain = {
                name: value
                for name, value in vars(what).items()
                if not name.startswith("__") and isinstance(value, (float, *_PLAIN))
            }
            return [[name, self._bytecode(value)] for name, value in own.items()] + [self.of(plain)]
        return _bytes_of(what.__code__)


def _bytes_of(code: types.CodeType) -> list[Any]:
    consts = [_bytes_of(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
    return [digest(code.co_code), list(code.co_names), list(code.co_varnames), consts]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names_of(what: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the global names that a class or function uses, with their values."""
    text = _text_of(what)
    try:
        tree = ast.parse(text) if text else None
    except SyntaxError:
        # The text of a lambda is a part of a line.
        tree = None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree else set(_in_bytecode(what))
    own = what.__name__
    found = {name: known[name] for name in names if name in known and name != own and not hasattr(builtins, name)}
    # `experiment` itself, and what else holds the part that is asked for, is no part of it.
    return {name: value for name, value in found.items() if not hasattr(value, "with_values")}


def _in_bytecode(what: Any) -> Iterator[str]:
    functions = vars(what).values() if isinstance(what, type) else [what]
    for each in functions:
        if (code := getattr(each, "__code__", None)) is not None:
            yield from _in_code(code)
    for base in getattr(what, "__bases__", ()):
        yield base.__name__


def _in_code(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _in_code(each)


def _text_of(what: Any) -> str:
    """Return the text of a class or function; empty if it has none, as in a REPL."""
    with suppress(OSError, TypeError):
        return textwrap.dedent(inspect.getsource(inspect.unwrap(what)))
    return ""


# --- the user's files -------------------------------------------------------------------------------------------------


@cache
def _is_users_file(file: str | None) -> bool:
    return file is not None and Path(file).is_file() and not is_library(Path(file))


def is_library(path: Path) -> bool:
    """Return whether a file belongs to Python, to an installed package, to netsim or to the system."""
    path = path.resolve()
    return bool({"site-packages", "dist-packages"} & {*path.parts}) or any(map(path.is_relative_to, _libraries()))


@cache
def _libraries() -> tuple[Path, ...]:
    known, root = sysconfig.get_paths(), Path(__file__).resolve().parents[3]
    library = [Path(known[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    own = [root / name for name in ("netsim", "agents", "scenarios")]
    return (*library, *own, *map(Path, ("/proc", "/sys", "/dev", "/etc", "/usr/share", "/usr/lib")))


def _home_of(value: Any) -> types.ModuleType | None:
    """Return the module that a value is, or that defines it."""
    if isinstance(value, types.ModuleType):
        return value
    name = getattr(value, "__module__", None)
    return sys.modules.get(name) if isinstance(name, str) else None


def is_users(what: Any) -> bool:
    """Return whether a class or function is the user's: of no installed package, and not of netsim."""
    module = _home_of(what)
    if module is None:
        return True  # of a file that is no module any more
    file = getattr(module, "__file__", None)
    # In a REPL and a notebook there is no file.
    return _is_users_file(file) if file is not None else module.__name__ == "__main__"


def files_of(parts: Iterable[Any]) -> list[Path]:
    """Return the user's files in which the classes and functions of parts stand, and those that these files use."""
    found: dict[Path, None] = {}
    for part in parts:
        for each in (part, type(part), getattr(part, "kind", None), getattr(part, "function", None)):
            for file in _files(_home_of(each), set()):
                found[file] = None
    return list(found)


def _files(module: Any, seen: set[str]) -> Iterator[Path]:
    file = getattr(module, "__file__", None)
    if file is None or not _is_users_file(file) or module.__name__ in seen:
        return
    seen.add(module.__name__)
    yield Path(file)
    for value in list(vars(module).values()):
        yield from _files(_home_of(value), seen)


def snapshot(files: Iterable[Path]) -> None:
    """Keep the text of files as it is now, for `inspect.getsource`: a file may be edited while its code is used."""
    for file in files:
        _lines(str(file))


def _lines(file: str) -> str:
    """Return the text of a file as it was when it was first asked for."""
    entry = linecache.cache.get(file)
    if entry is None or len(entry) == 1 or entry[1] is not None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        # Without a time the entry is never read again from the file.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        return text
    return "".join(entry[2])


def digest(data: bytes) -> str:
    """Return a short digest of bytes."""
    return hashlib.sha256(data).hexdigest()[:20]


def _digest_of(value: Any) -> str:
    return digest(repr(value).encode())
