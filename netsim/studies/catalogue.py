"""Scenarios: finding them, and what their parameters are."""

import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from netsim import check
from netsim.errors import BadInput
from netsim.studies import Study
from netsim.studies.terminal import Reporter

_PACKAGE = "scenarios"


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
        return Study(self.name, known | parameters, trace=trace, reporter=reporter)

    def play(self, study: Study) -> None:
        """Run it into a study that `prepare` made."""
        arguments = dict(study.settings)
        for name, group in self.groups:
            arguments[name] = group(**{field.name: arguments.pop(field.name) for field in dataclasses.fields(group)})
        # Agents' matrices are small: more threads only wait for each other, and may round otherwise on another machine.
        with threadpool_limits(limits=1):
            self.function(study, **arguments)


def names() -> list[str]:
    """Return the names of the scenarios that come with netsim."""
    package = importlib.import_module(_PACKAGE)
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return [name for name in found if _is_scenario(getattr(importlib.import_module(f"{_PACKAGE}.{name}"), name, None))]


def find(name: str) -> Scenario:
    """Return a scenario by its name, or by the path of a Python file that defines one.

    In a file it is the one function whose first parameter is called ``study``.

    Raises
    ------
    BadInput
        If there is none of that name, or the file cannot be used.
    """
    if not name.endswith(".py"):
        check.one_of("scenario", name, names())
        return _describe(name, getattr(importlib.import_module(f"{_PACKAGE}.{name}"), name))
    path = Path(name)
    if not path.is_file():
        raise check.refuse("scenario", name, "an existing Python file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [
        each
        for name, each in vars(module).items()
        if not name.startswith("_") and _is_scenario(each) and each.__module__ == path.stem
    ]
    if len(found) != 1:
        raise BadInput(
            f"scenario = {name!r}: must define one function whose first parameter is `study`; it has {len(found)}"
        )
    return _describe(name, found[0])


def _is_scenario(member: object) -> bool:
    return inspect.isfunction(member) and next(iter(inspect.signature(member).parameters), "") == "study"


def _describe(name: str, function: Callable[..., None]) -> Scenario:
    hints = typing.get_type_hints(function)
    groups = {key: hint for key, hint in hints.items() if dataclasses.is_dataclass(hint) and isinstance(hint, type)}
    parameters = [each for each in _parameters(name, function) if each.name not in groups]
    for group in groups.values():
        parameters += _parameters(name, group)
    title = (inspect.getdoc(function) or "").partition("\n")[0]
    return Scenario(name, function, title, tuple(parameters), tuple(groups.items()))


def _parameters(name: str, source: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a scenario's function, the study left out, or the fields of a dataclass."""
    described = dict(re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", inspect.getdoc(source) or "", re.MULTILINE))
    hints = typing.get_type_hints(source)
    found = []
    for key, parameter in inspect.signature(source).parameters.items():
        if key == "study":
            continue
        if parameter.default is inspect.Parameter.empty:
            raise BadInput(f"scenario = {name!r}: must give its parameter {key!r} a default")
        words = " ".join(described.get(key, "").split())
        if dataclasses.is_dataclass(hints.get(key)):
            found.append(Parameter(key, object, False, parameter.default, words))
            continue
        kind, optional = _kind(name, key, hints.get(key))
        found.append(Parameter(key, kind, optional, parameter.default, words))
    return found


def _kind(name: str, key: str, hint: Any) -> tuple[type, bool]:
    """Return a parameter's type and whether it may be None."""
    optional = False
    if isinstance(hint, types.UnionType):
        optional = type(None) in typing.get_args(hint)
        (hint,) = [part for part in typing.get_args(hint) if part is not type(None)] or [None]
    if hint not in (int, float, str, bool):
        raise BadInput(
            f"scenario = {name!r}: must give its parameter {key!r} the type int, float, str or bool, or one | None"
        )
    return hint, optional
