"""Isolated agents: each agent's class comes from a separate module, as if each had a process.

Agents of one process can reach each other through a variable of their module, an attribute of their class, a default
argument, or an object that `make` gave to several of them. Isolated agents cannot. So if a run gives the same bytes
with and without isolation, its agents did not depend on sharing. Isolation does not stop malicious code, which can
still use `sys.modules` or the garbage collector.
"""

import io
import itertools
import operator
import os
import pickle
import sys
import sysconfig
import weakref
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, overload

from netsim.agent import Agent
from netsim.errors import BadInput, one_line
from netsim.util import check

__all__ = ["isolated"]

_A = TypeVar("_A", bound=Agent)
_N = TypeVar("_N", bound=Hashable)

_NUMBERS = itertools.count()
# The files being executed: a file that isolates agents during its own execution would recurse without end.
_EXECUTED: set[str] = set()
_LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
# Types whose objects are shared instead of copied, as in `copy.deepcopy`: they have no state, or their state cannot be
# copied.
_SHARED = (type, FunctionType, BuiltinFunctionType, ModuleType, weakref.ref)


@overload
def isolated(agents: type[_A]) -> Callable[..., _A]: ...
@overload
def isolated(agents: Mapping[_N, _A]) -> dict[_N, _A]: ...
def isolated(agents: type[_A] | Mapping[_N, _A]) -> Callable[..., _A] | dict[_N, _A]:
    """Return agents that each have a separate module, executed anew from the file of their class.

    Modules of netsim, of Python and of installed packages are shared, and so are other modules that the file imports.

    Parameters
    ----------
    agents : mapping or class
        ``{node: agent}`` of agents that have not run: each is copied, together with all objects that it shares with
        others. Or a class: the result is then a function that creates an agent from the class's arguments, so that
        agents share no state from ``__init__`` either.

    Raises
    ------
    BadInput
        If a class is not defined at the top of a file, or an agent cannot be copied; also if the file itself isolates
        agents while it is executed.
    """
    if not isinstance(agents, type):
        return {name: _copied(name, agent) for name, agent in check.mapping("agents", agents).items()}
    kind: type[_A] = agents
    if not issubclass(kind, Agent):
        raise check.refuse("agents", kind, "a class of agents, or {node: agent}")
    path = _own_file(kind)

    def make(*args: Any, **settings: Any) -> _A:
        if path is None:
            return kind(*args, **settings)
        module = _executed(path, kind)
        fresh: Callable[..., _A] = operator.attrgetter(kind.__qualname__)(module)
        return _kept(module, lambda: fresh(*args, **settings))

    return make


def _own_file(kind: type) -> str | None:
    """Return the file that defines a class; None if that is a file of netsim, Python or an installed package."""
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None)
    if kind.__module__.partition(".")[0] == "netsim" or (path and os.path.realpath(path).startswith(_LIBRARIES)):
        return None
    if _found(module, kind.__qualname__) is not kind or not path or not os.path.isfile(path):
        raise BadInput(f"agents: {kind.__qualname__} must be defined at the top of a file to be isolated")
    return str(path)


def _found(module: ModuleType | None, name: str) -> Any:
    """Return the object with a dotted name in a module, or None."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


@lru_cache(maxsize=64)
def _compiled(path: str, changed_at: int) -> CodeType:
    return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)


def _executed(path: str, kind: type) -> ModuleType:
    """Execute the file of a class as a new module, and return the module."""
    if path in _EXECUTED:
        raise BadInput(f'agents: {path} isolates them as it is executed; let it do so under if __name__ == "__main__"')
    module = ModuleType(f"{kind.__module__}__{next(_NUMBERS)}")
    module.__file__, module.__package__ = path, sys.modules[kind.__module__].__package__
    # Dataclasses and pickle look up modules in `sys.modules` by name.
    sys.modules[module.__name__] = module
    _EXECUTED.add(path)
    try:
        exec(_compiled(path, os.stat(path).st_mtime_ns), vars(module))
    except BaseException:
        del sys.modules[module.__name__]
        raise
    finally:
        _EXECUTED.discard(path)
    return module


def _kept(module: ModuleType, make: Callable[[], _A]) -> _A:
    """Return the agent that ``make`` creates, and remove its module once the agent is garbage-collected."""
    try:
        agent = make()
    except BaseException:
        del sys.modules[module.__name__]
        raise
    weakref.finalize(agent, sys.modules.pop, module.__name__, None).atexit = False
    return agent


def _copied(name: Hashable, agent: _A) -> _A:
    check.instance(f"agents[{name!r}]", agent, Agent, "an agent")
    kind = type(agent)
    path = _own_file(kind)
    file, shared = io.BytesIO(), list[Any]()
    try:
        _Writer(file, kind.__module__ if path else None, shared).dump(agent)
    except Exception as error:
        raise BadInput(f"agents: agent {name!r} cannot be copied to be isolated ({one_line(error)})") from error
    file.seek(0)
    if path is None:
        return _Reader(file, ModuleType(kind.__module__), shared).load()  # type: ignore[no-any-return]
    module = _executed(path, kind)
    read: Callable[[], _A] = _Reader(file, module, shared).load
    return _kept(module, read)


class _Writer(pickle.Pickler):
    """Pickles an agent; objects of its module are stored by name, and shared objects by index."""

    def __init__(self, file: io.BytesIO, module: str | None, shared: list[Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._name, self._shared = module, shared

    def persistent_id(self, value: Any) -> str | int | None:
        """Return the name of an object of the module, the index of a shared object, or None for other objects."""
        if not isinstance(value, _SHARED):
            return None
        if self._name is not None and getattr(value, "__module__", None) == self._name:
            name = str(getattr(value, "__qualname__", ""))
            if _found(sys.modules[self._name], name) is value:
                return name
        self._shared.append(value)
        return len(self._shared) - 1


class _Reader(pickle.Unpickler):
    """Unpickles the output of a `_Writer`, with names looked up in another module."""

    def __init__(self, file: io.BytesIO, module: ModuleType, shared: list[Any]) -> None:
        super().__init__(file)
        self._module, self._shared = module, shared

    def persistent_load(self, written: str | int) -> Any:
        """Return the object for a name or an index."""
        if isinstance(written, int):
            return self._shared[written]
        return operator.attrgetter(written)(self._module)
