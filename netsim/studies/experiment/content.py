"""The content of a result's inputs as JSON: code by text, arrays and files by bytes, parts by values.

Parts with equal parameters may differ in content: two functions of a user, for instance, differ in their code. The
content of a user's class or function is its text, the text of everything that it uses in the same file, and the user's
other files that it uses, each as a whole. Code of netsim and of installed packages appears only by name here: a cell's
key also includes netsim's source, and a cell records the packages' versions.

The files that a cell reads are recorded as well, so that results computed from other data are not reused.
"""

import dataclasses
import dis
import hashlib
import importlib.util
import inspect
import json
import linecache
import os
import sys
import sysconfig
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput, one_line
from netsim.studies.experiment.paths import brief
from netsim.util.datafiles import recording, used
from netsim.util.variables import assigned
from netsim.wire.coded import Coder

_PLAIN = (bool, int, str, bytes, complex, type(None))
_HELD = (*_PLAIN, float, tuple, list, dict, set, frozenset, np.ndarray, np.generic)
_FROM_HEAP = 1 << 9  # CPython's type flag: the class was made by Python, not in C


def content(part: Any) -> Any:
    """Return a part's content as JSON data; raises BadInput for a part that has neither a value nor source code."""
    return _Content().of(part)


class _Content:
    """Computes the content of parts; a part that contains itself is named once, which ends the recursion."""

    def __init__(self) -> None:
        self._inside: list[Any] = []
        self._code: list[Any] = []

    def of(self, part: Any) -> Any:
        if any(each is part for each in self._inside):
            return {"again": type(part).__qualname__}
        self._inside.append(part)
        try:
            found = self._of(part)
            # A user's subclass of list or dict may behave differently, so its class belongs to the content.
            own = isinstance(part, Mapping | list | tuple | set | frozenset | np.ndarray | nx.Graph | float)
            return {"part": [self.of(type(part)), found]} if own and is_users(type(part)) else found
        finally:
            self._inside.pop()

    def _of(self, part: Any) -> Any:
        if isinstance(part, float):
            return float(part)
        if type(part) in _PLAIN:
            return part if isinstance(part, int | str | None) else [type(part).__name__, repr(part)]
        if isinstance(part, np.generic):
            return self.of(part.item())
        if isinstance(part, np.ndarray):
            values = part.ravel().tolist() if part.dtype.hasobject else digest(np.ascontiguousarray(part).tobytes())
            return {"array": [str(part.dtype), list(part.shape), self.of(values)]}
        if isinstance(part, Path):
            # A folder's path is no content: the files read in it are recorded when they are opened.
            found = [part.name, digest(part.read_bytes()) if part.is_file() else None]
            return {"folder": []} if part.is_dir() else {"file": found}
        if isinstance(part, nx.Graph):
            # The order of neighbours is content: agents sum received values in that order, which changes rounding.
            near = [list(part[node]) for node in part]
            held = self.of([list(part.nodes(data=True)), list(part.edges(data=True)), near])
            return {"graph": [type(part).__name__, self.of(part.graph), digest(held)]}
        if isinstance(part, Mapping):
            names = sorted(part) if all(isinstance(name, str) for name in part) else list(part)
            return {"mapping": [[self.of(name), self.of(part[name])] for name in names]}
        if isinstance(part, set | frozenset):
            return {"set": sorted((_Content().of(each) for each in part), key=repr)}
        if isinstance(part, list | tuple | range):
            return [type(part).__name__, *map(self.of, part)]
        if isinstance(part, types.ModuleType):
            return {"module": [part.__name__, *self._of_module(part)]}
        if isinstance(part, types.MethodType):
            return {"method": [self.of(part.__self__), self.of(part.__func__)]}
        if isinstance(part, types.BuiltinFunctionType) and not isinstance(part.__self__, types.ModuleType | None):
            return {"method": [self.of(part.__self__), part.__name__]}
        if isinstance(part, type | types.FunctionType | types.BuiltinFunctionType):
            return {"code": self._of_code(part)}
        if hasattr(part, "cache_info") and hasattr(part, "__wrapped__"):
            return {"cached": self.of(part.__wrapped__)}
        return {"part": [self.of(type(part)), self._of_object(part)]}

    def _of_object(self, part: Any) -> Any:
        if isinstance(part, Coder):
            return self.of(part.arguments)
        if dataclasses.is_dataclass(part):
            names = [each.name for each in dataclasses.fields(part) if each.init]
            if is_users(type(part)):
                # Also include attributes that are not fields: those of a subclass that is no dataclass, or set from an
                # InitVar.
                own = getattr(part, "__dict__", {})
                names += [each for each in own if not isinstance(getattr(type(part), each, None), cached_property)]
            return self.of({name: getattr(part, name) for name in names})
        if hasattr(part, "to_csv"):
            # In CSV the number 1 and the text "1" are the same, so the dtypes are included.
            return digest(f"{part.to_csv()}{getattr(part, 'dtypes', None)}")
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
        if isinstance(what, types.BuiltinFunctionType) or not is_users(what):
            return [what.__module__, name]
        if what in self._code:
            return {"again": self._code.index(what)}
        self._code.append(what)
        functions, text = _functions_of(what), _text_of(what)
        # A class made in a function or by `type` may have bases and values that its source text does not show.
        bases, kinds = getattr(what, "__bases__", ()), _HELD if isinstance(what, type) else object
        held = {key: each for key, each in vars(what).items() if key[:2] != "__" and isinstance(each, kinds)}
        return [
            name,  # Exclude the module's name: a file run as a script is called __main__.
            text,
            # Source text alone is ambiguous: a line may contain two lambdas, and a file two classes of the same name.
            [[each.__name__, _text_of(each) or _bytes_of(each.__code__)] for each in functions],
            [self._around(each) for each in functions],
            [self.of(each) for each in (*bases, held)],
            [[each, self._of_used(value, what)] for each, value in sorted(_names_of(what, functions, text).items())],
            [self.of(module) for module in _imported_in(functions)],
        ]

    def _around(self, function: Any) -> Any:
        """Return a function's closure values and defaults."""
        closed = []
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # skip a closure cell that is still empty
                closed.append(cell.cell_contents)
        return [self.of(closed), self.of(function.__defaults__), self.of(function.__kwdefaults__)]

    def _of_used(self, value: Any, by: Any) -> Any:
        """Return the content of a global name's value; of code from another user's file, that whole file."""
        home = _home_of(value)
        if isinstance(value, type | types.FunctionType) and home not in (None, _home_of(by)) and is_users(value):
            return self.of(home)
        return self.of(value)

    def _of_module(self, module: types.ModuleType) -> list[Any]:
        """Return digests of a user's file and the user's files that it uses, and its global numbers and strings."""
        files = [digest(_lines(str(file))) for file in _files(module, set())]
        # Another file may have set global values of the module, which its text does not show.
        held = {
            key: each
            for key, each in vars(module).items()
            if key[:2] != "__" and isinstance(each, float | bool | int | str)
        }
        return [*files, self.of(held)] if files else []


def _bytes_of(value: Any) -> Any:
    """Return code as its bytecode, names and constants, without line numbers; return a constant as text."""
    if isinstance(value, types.CodeType):
        return [digest(value.co_code), value.co_names, value.co_varnames, [*map(_bytes_of, value.co_consts)]]
    # The order of a set of strings differs between processes.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def _functions_of(what: Any) -> list[types.FunctionType]:
    """Return a function as a list, or the functions of a class except those generated by `dataclass`."""
    if isinstance(what, types.FunctionType):
        return [what]
    found: list[types.FunctionType] = []
    for name, value in vars(what).items():
        inside = [getattr(value, each, None) for each in ("__func__", "fget", "fset", "fdel", "func", "__wrapped__")]
        for each in [value, *inside]:
            if isinstance(each, types.FunctionType):
                file = each.__code__.co_filename
                if not (dataclasses.is_dataclass(what) and name[:2] == "__" and not _is_users_file(file)):
                    found.append(each)
    return found


def _names_of(what: Any, functions: list[types.FunctionType], text: str) -> dict[str, Any]:
    """Return the global names that a class or function uses, with their values."""
    known = getattr(_home_of(what), "__dict__", None) or (functions[0].__globals__ if functions else {})
    codes = [each.__code__ for each in functions]
    with suppress(SyntaxError):
        # The text also contains decorators, bases and defaults. A lambda's text may be no statement: SyntaxError.
        codes.append(compile(text, "", "exec"))
    closed = {name for each in functions for name in each.__code__.co_freevars}
    names = {name for code in codes for name in _operands(code, "LOAD_GLOBAL", "LOAD_NAME")} - closed
    found = {name: known[name] for name in names if name in known and name[:2] != "__"}
    # Exclude `experiment` itself and other objects that contain the requested part.
    return {name: value for name, value in found.items() if not hasattr(value, "with_values")}


@cache
def _operands(code: types.CodeType, *instructions: str) -> frozenset[str]:
    """Return the names used by some instructions of code, including functions in it."""
    own = {str(each.argval) for each in dis.get_instructions(code) if each.opname in instructions}
    inside = [_operands(each, *instructions) for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(own.union(*inside))


def _imported_in(functions: list[types.FunctionType]) -> list[types.ModuleType]:
    """Return the user's modules that functions import when they are called."""
    found = []
    for name in sorted({name for each in functions for name in _operands(each.__code__, "IMPORT_NAME")}):
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(name)
            if spec is not None and _is_users_file(spec.origin):
                found.append(importlib.import_module(name))
    return found


def _text_of(what: Any) -> str:
    """Return the text of a class or function; "" if there is none, as for a lambda or in a REPL."""
    if what.__name__ == "<lambda>":
        return ""
    with suppress(OSError, TypeError):
        # Take the text of a decorator's inner function itself; getsource would follow __wrapped__.
        return textwrap.dedent(inspect.getsource(getattr(what, "__code__", what)))
    return ""


# --- the user's files -------------------------------------------------------------------------------------------------


# By file, the module and its spec at the time when the file's text was stored.
_executed: dict[str, tuple[types.ModuleType, Any]] = {}


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
    """Return the module that a value is, or is defined in."""
    if isinstance(value, types.ModuleType):
        return value
    # A decorated function may carry another module's name in __module__.
    own = value.__globals__ if isinstance(value, types.FunctionType) else None
    name = getattr(value, "__module__", None) if own is None else own.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module if own is None or own is getattr(module, "__dict__", None) else None


def is_users(what: Any) -> bool:
    """Return whether the user defined a class or function, in no installed package and not in netsim."""
    module = _home_of(what)
    if isinstance(what, types.FunctionType):
        file = what.__globals__.get("__file__")
        return _is_users_file(file) if file is not None else not what.__code__.co_filename.startswith("<frozen")
    if module is None:
        return True  # its file is no longer a module
    if isinstance(what, type) and module.__name__ == "builtins":
        return bool(what.__flags__ & _FROM_HEAP)  # True for a class made by `exec`
    file = getattr(module, "__file__", None)
    # In a REPL or a notebook, __main__ has no file.
    return _is_users_file(file) if file is not None else module.__name__ == "__main__"


def files_of(parts: Iterable[Any]) -> list[Path]:
    """Return the user's files that define the classes and functions of parts, and the user's files that these use."""
    kinds = ((part, type(part), getattr(part, "kind", None), getattr(part, "function", None)) for part in parts)
    homes = (_home_of(each.func if isinstance(each, partial) else each) for several in kinds for each in several)
    return list(dict.fromkeys(file for home in homes for file in _files(home, set())))


def _files(module: Any, seen: set[str]) -> Iterator[Path]:
    file = getattr(module, "__file__", None)
    if file is None or not _is_users_file(file) or module.__name__ in seen:
        return
    seen.add(module.__name__)
    before = _executed.setdefault(file, (module, module.__spec__))
    if before[0] is not module or before[1] is not module.__spec__:
        # The module was reloaded or executed again, so the stored text is outdated.
        _executed[file] = module, module.__spec__
        linecache.cache.pop(file, None)
    yield Path(file)
    for value in list(vars(module).values()):
        yield from _files(_home_of(value), seen)


def snapshot(files: Iterable[Path]) -> None:
    """Store the present text of files for `inspect.getsource`, because a file may be edited while its code runs."""
    for file in files:
        _lines(str(file))


def _lines(file: str) -> str:
    """Return the text of a file as it was at the first request."""
    entry = linecache.cache.get(file)
    if entry is None or len(entry) == 1 or entry[1] is not None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        # An entry without a modification time is never read from the file again.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        return text
    return "".join(entry[2])


def digest(given: Any) -> str:
    """Return a short digest of bytes, of a string, or of JSON data."""
    data = given if isinstance(given, bytes) else json.dumps(given, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:20]


# --- the data files that a cell opens, whoever opens them -------------------------------------------------------------

_CODE = {".py", ".pyc", ".pyi", ".so", ".pyd", ".dll", ".pth", ".ttf", ".mplstyle"}
_WRITES = os.O_WRONLY | os.O_RDWR
_opened: ContextVar[dict[str, str] | None] = ContextVar("opened", default=None)
_known: dict[str, dict[str, str]] = {}


@contextmanager
def recorded(reader: str) -> Iterator[None]:
    """Record the SHA-256 of files opened for reading inside the context, keyed by name, for their reader.

    A problem, or a function with a cache, may read a file once for many cells. So `known` returns the files of all
    contexts of a reader in this process, each with the digest of its content when it was opened.
    """
    _listen()
    found = _known.setdefault(reader, {})
    try:
        with assigned(_opened, found), recording() as named:
            yield
    finally:
        found |= named


def known(reader: str) -> dict[str, str]:
    """Return the files that this process has recorded for a reader."""
    return dict(_known.get(reader, {}))


@cache
def _listen() -> None:
    # Only an audit hook sees every opened file: pandas, numpy and `open` share no other function.
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
    # Compute the digest now, before the file changes. This opens the file again, so recording is off meanwhile.
    with assigned(_opened, None), recording() as now:
        used(path, by_name=True)
    found |= now
