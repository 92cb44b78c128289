"""Scenarios: finding them, and what their parameters are."""

import dataclasses
import importlib
import inspect
import os
import re
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from netsim import check
from netsim.errors import BadInput, one_line
from netsim.studies import Study
from netsim.studies.terminal import Reporter

GROUP = "netsim.studies"
"""The entry points of this group name the shelves: packages put their studies there (netsim's own, too)."""

# What every run of a scenario is given besides its parameters.
_TAKEN = ("out", "trace", "help", "reporter")


@dataclass(frozen=True)
class Listed:
    """Where a study is, as ``module:function``, and the first line of its docstring."""

    place: str
    title: str


@dataclass(frozen=True)
class Shelf:
    """The studies of a package, by name; ``columns`` are the measures that its rounds.csv begin with."""

    studies: Mapping[str, Listed]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a scenario.

    Attributes
    ----------
    kind : type
        int, float, str or bool.
    optional : bool
        Whether it may be None.
    """

    name: str
    kind: type
    optional: bool
    default: Any
    description: str


@dataclass(frozen=True)
class Scenario:
    """A function of a study and keyword parameters.

    A parameter whose type is a dataclass stands for the dataclass's fields: what several scenarios have in common.
    """

    name: str
    function: Callable[..., None]
    title: str
    parameters: tuple[Parameter, ...]
    groups: tuple[tuple[str, type], ...] = ()
    module: types.ModuleType | None = None
    """What its file defines, if it is none of netsim's own."""

    def execute(self, trace: bool = False, reporter: Reporter | None = None, **parameters: Any) -> Study:
        """Run it and return the study; raises BadInput for an unknown parameter."""
        study = self.prepare(trace, reporter, **parameters)
        self.play(study)
        return study

    def prepare(self, trace: bool = False, reporter: Reporter | None = None, **parameters: Any) -> Study:
        """Return the study that is to be played; raises BadInput for an unknown parameter."""
        known = {parameter.name: parameter.default for parameter in self.parameters}
        for name in parameters:
            check.one_of("parameter", name, known)
        columns = tuple(column for shelf in _shelves() for column in shelf.columns)
        return Study(self.name, known | parameters, columns=columns, trace=trace, reporter=reporter)

    def play(self, study: Study) -> None:
        """Run it into a study that `prepare` made."""
        arguments = dict(study.settings)
        for name, group in self.groups:
            arguments[name] = group(**{field.name: arguments.pop(field.name) for field in dataclasses.fields(group)})
        # Agents' matrices are small: more threads only wait for each other, and may round otherwise on another machine.
        with threadpool_limits(limits=1), _known(self.module):
            self.function(study, **arguments)


@cache
def _shelves() -> tuple[Shelf, ...]:
    found = sorted(entry_points(group=GROUP), key=lambda each: (each.name != "netsim", each.name))
    return tuple(each.load() for each in found)


def listed() -> dict[str, Listed]:
    """Return the studies of all installed packages by name; of two with one name netsim's own, or the first package's.

    An installed package lists its studies by an entry point of the group `GROUP`, whose object is a `Shelf`.
    """
    found: dict[str, Listed] = {}
    for shelf in reversed(_shelves()):
        found |= shelf.studies
    return dict(sorted(found.items()))


def find(name: str) -> Scenario:
    """Return a scenario by its name, or by the path of a Python file that defines one.

    In a file it is the one function whose first parameter is called ``study``.

    Raises
    ------
    BadInput
        If there is none of that name, or the file cannot be used.
    """
    if not name.endswith(".py"):
        studies = listed()
        place, _, function = studies[check.one_of("scenario", name, studies)].place.partition(":")
        return _describe(name, getattr(importlib.import_module(place), function))
    module = types.ModuleType(f"_scenario_{Path(name).stem.replace('.', '_')}")
    with _known(module):
        _run_file(name, module)
        found = [
            each
            for key, each in vars(module).items()
            if not key.startswith("_") and _is_scenario(each) and each.__module__ == module.__name__
        ]
        if len(found) != 1:
            raise BadInput(
                f"scenario = {name!r}: must define one function whose first parameter is `study`; it has {len(found)}"
            )
        return dataclasses.replace(_describe(name, found[0]), module=module)


def raised(scenario: Scenario, error: BaseException) -> str:
    """Return one line that says what a scenario's own code raised, and where."""
    where = _where(error, scenario.function.__code__.co_filename)
    return f"scenario {scenario.name!r} raised {type(error).__name__}{where}: {_message(error)}"


@contextmanager
def _known(module: types.ModuleType | None) -> Iterator[None]:
    """Let Python find a module by its name meanwhile, as dataclasses and pickle do; then be as if it had never been."""
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


def _run_file(name: str, module: types.ModuleType) -> None:
    """Execute a file as a module; nothing is left beside it (no __pycache__)."""
    path = Path(name)
    if not path.is_file():
        raise check.refuse("scenario", name, "an existing Python file")
    module.__file__ = os.path.abspath(path)
    try:
        exec(compile(path.read_bytes(), module.__file__, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        where = _where(error, module.__file__)
        raise BadInput(
            f"scenario = {name!r}: must be a Python file that runs; {type(error).__name__}{where}: {_message(error)}"
        ) from error


def _message(error: BaseException) -> str:
    # A syntax error's text would say once more where it is.
    return (error.msg if isinstance(error, SyntaxError) else one_line(error)) or "no message"


def _where(error: BaseException, file: str) -> str:
    """Return the file and line of an error, as ` (rumour.py, line 3)`: the line of ``file`` that led to it."""
    if isinstance(error, SyntaxError):
        return f" ({os.path.basename(error.filename)}, line {error.lineno})" if error.filename else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({os.path.basename(file)}, line {lines[-1]})" if lines else ""


def _is_scenario(member: object) -> bool:
    return inspect.isfunction(member) and next(iter(inspect.signature(member).parameters), "") == "study"


def _describe(name: str, function: Callable[..., None]) -> Scenario:
    hints = _hints(name, function)
    groups = {key: hint for key, hint in hints.items() if dataclasses.is_dataclass(hint) and isinstance(hint, type)}
    parameters = [each for each in _parameters(name, function) if each.name not in groups]
    for key, group in groups.items():
        # A study may have defaults of its own for what it has in common with others.
        usual = inspect.signature(function).parameters[key].default
        parameters += [
            dataclasses.replace(each, default=getattr(usual, each.name, each.default))
            for each in _parameters(name, group)
        ]
    names = [parameter.name for parameter in parameters]
    for twice in sorted({each for each in names if names.count(each) > 1}):
        raise BadInput(f"scenario = {name!r}: must have one parameter {twice!r}, not {names.count(twice)}")
    title = (inspect.getdoc(function) or "").partition("\n")[0]
    return Scenario(name, function, title, tuple(parameters), tuple(groups.items()))


def _parameters(name: str, source: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a scenario's function, the study left out, or the fields of a dataclass."""
    described = dict(re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", inspect.getdoc(source) or "", re.MULTILINE))
    hints = _hints(name, source)
    found = []
    for key, parameter in inspect.signature(source).parameters.items():
        if key == "study":
            continue
        if parameter.default is inspect.Parameter.empty:
            raise BadInput(f"scenario = {name!r}: must give its parameter {key!r} a default")
        if key in _TAKEN:
            raise BadInput(f"scenario = {name!r}: must give its parameter {key!r} another name; every run has its own")
        words = " ".join(described.get(key, "").split())
        if dataclasses.is_dataclass(hints.get(key)):
            found.append(Parameter(key, object, False, parameter.default, words))
            continue
        kind, optional = _kind(name, key, hints.get(key))
        found.append(Parameter(key, kind, optional, parameter.default, words))
    return found


def _hints(name: str, source: Callable[..., Any]) -> dict[str, Any]:
    try:
        # A file may import Study for type checkers only.
        return typing.get_type_hints(source, localns={"Study": Study})
    except Exception as error:
        raise BadInput(
            f"scenario = {name!r}: must have types that can be found; {type(error).__name__}: {one_line(error)}"
        ) from None


def _kind(name: str, key: str, hint: Any) -> tuple[type, bool]:
    """Return a parameter's type and whether it may be None."""
    optional = False
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        optional = type(None) in typing.get_args(hint)
        hint = parts[0] if len(parts) == 1 else None
    if hint not in (int, float, str, bool):
        raise BadInput(
            f"scenario = {name!r}: must give its parameter {key!r} the type int, float, str or bool, or one | None"
        )
    return hint, optional
