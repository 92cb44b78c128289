"""Experiments in TOML: the tree of `netsim.Experiment`, where a ``kind`` is what Python would import and call."""

import dataclasses
import importlib
import inspect
import tomllib
import types
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from netsim.agent import Agent
from netsim.errors import BadInput, one_line
from netsim.links.link import Link
from netsim.studies import script
from netsim.studies.experiment import paths
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.grid import Grid, sweep
from netsim.studies.experiment.methods import Method
from netsim.studies.experiment.networks import Links
from netsim.studies.experiment.paths import Given
from netsim.studies.experiment.record import title_of_toml
from netsim.studies.experiment.tuning import Between, Choice
from netsim.studies.outcome import Ending
from netsim.studies.seeds import Seeds
from netsim.studies.sweeps.grid import numbers
from netsim.util import check

_Made = TypeVar("_Made")

KIND = "kind"
_TABLE, _LIST = (dict, "a table"), (list, "a list")
_NUMBER = ((int, float), "a number")
# What each key of the file holds, and that in words.
_KEYS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("methods", "problem", "networks", "grid", "names", "ending", "over"), _TABLE),
    **dict.fromkeys(("measure", "after", "files"), _LIST),
    **dict.fromkeys(("until", "sample"), _NUMBER),
    "rounds": (int, "a whole number"),
    "error": (str, "a text"),
    "seeds": ((int, str, list), "a list of whole numbers, or a text as 0:10"),
}
_NAME = "the full name of a class or function, as netsim.agents.DKLA"
_NAMED = 'a list of values, or a table of named ones; a path is one name, in quotes: "method.eta" = [0.1, 0.2]'
_RANGE = 'a table of low, high and log, or a list to choose from; a path is one name, in quotes: "method.eta" = {…}'


@dataclasses.dataclass
class FromTOML:
    """An experiment that was read from a TOML file.

    Attributes
    ----------
    experiment : Experiment
    over : mapping
        The ranges of tuning, by path.
    title : str
        The file's first line, if it is a comment.
    modules : list of module
        Files beside it that kinds name.
    """

    experiment: Experiment
    over: Mapping[str, Between | Choice]
    title: str
    modules: list[types.ModuleType]


def read_toml(file: str) -> FromTOML:
    """Return the experiment of a TOML file; files beside it are executed if a kind names them.

    Raises
    ------
    BadInput
        In one line, with the place in the file: for an unknown key or argument, a kind that cannot be imported, or a
        value of another type.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or one_line(error)
        raise BadInput(f"{file}: must be a TOML file ({reason})") from None
    with ExitStack() as known:
        reader = _Reader(file, known)
        given = {name: reader.checked(name, value) for name, value in tables.items()}
        over = {path: reader.range(path, each) for path, each in given.pop("over", {}).items()}
        return FromTOML(reader.experiment(given), over, title_of_toml(text), list(reader.modules.values()))


class _Reader:
    """Makes the parts that tables describe; files beside the TOML are known as modules for as long as ``known``."""

    def __init__(self, file: str, known: ExitStack) -> None:
        self.file, self.known = file, known
        self.modules: dict[str, types.ModuleType] = {}

    def checked(self, name: str, value: Any) -> Any:
        """Return the value of a key, which is known and of its type."""
        kinds, words = _KEYS[self._told("", check.one_of, "key", name, _KEYS)]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise self._refused(name, value, words)
        for place, each in value.items() if name == "names" else ():
            if not all(isinstance(path, str) for path in (each if isinstance(each, list) else [each])):
                raise self._refused(f"names.{place}", each, "a path, or a list of paths")
        if name == "files" and not all(isinstance(each, str) for each in value):
            raise self._refused(name, value, "a list of paths")
        return value

    def experiment(self, given: Mapping[str, Any]) -> Experiment:
        """Return the experiment of keys that are checked."""
        made = dict(given)
        for group, usual in (("methods", None), ("problem", None), ("networks", Links)):
            if group in made:
                made[group] = self._parts(group, made[group], usual)
        for name in ("measure", "after"):
            made[name] = [self._function(each, f"{name}[{place}]") for place, each in enumerate(made.get(name, ()))]
        if isinstance(made.get("seeds"), str):
            made["seeds"] = self._told("seeds", numbers, "seeds", made["seeds"])
        elif "seeds" in made:
            made["seeds"] = self.built(made["seeds"], "seeds", Seeds)
        if "ending" in made:
            made["ending"] = self.built(made["ending"], "ending", Ending)
        grid = Grid([{}])
        for path, values in made.get("grid", {}).items():
            grid = grid * self._sweep(path, values)
        return self._told("", Experiment, **made | {"grid": grid})

    def range(self, path: str, given: Any) -> Between | Choice:
        """Return a range of tuning."""
        where = f"over.{path}"
        if isinstance(given, list):
            return self._told(where, Choice, self.built(given, where))
        if not isinstance(given, dict) or not {"low", "high"} <= given.keys():
            raise self._refused(where, given, _RANGE)
        found: Between = self.built(given, where, Between)
        return found

    def built(self, given: Any, where: str, usual: Any = None) -> Any:
        """Return what a value is; of a table without a kind, the ``usual`` kind or the mapping that it is."""
        if isinstance(given, list):
            return [self.built(each, f"{where}[{place}]", usual) for place, each in enumerate(given)]
        if not isinstance(given, dict):
            return given
        kind = self._kind(given[KIND], f"{where}.{KIND}") if KIND in given else usual
        own = {
            name: self.built(each, f"{where}.{name}", Link if kind is Links and name == "link" else None)
            for name, each in given.items()
            if name != KIND
        }
        return own if kind is None else self._told(where, _called, kind, own)

    def _parts(self, group: str, table: Mapping[str, Any], usual: Any) -> Any:
        if KIND in table:
            return self.built(table, group)
        for name, each in table.items():
            if not isinstance(each, dict) or (usual is None and KIND not in each):
                raise self._refused(f"{group}.{name}", each, f"a table with a {KIND}")
        return {name: self.built(each, f"{group}.{name}", usual) for name, each in table.items()}

    def _sweep(self, path: str, values: Any) -> Grid:
        where = f"grid.{path}"
        is_named = isinstance(values, dict) and not any(
            isinstance(each, list) or (isinstance(each, dict) and KIND not in each) for each in values.values()
        )
        if not values or not (is_named or isinstance(values, list)):
            raise self._refused(where, values, _NAMED)
        return sweep(path, self.built(values, where))

    def _function(self, given: Any, where: str) -> Any:
        found = self._kind(given, where) if isinstance(given, str) else self.built(given, where)
        if not callable(found):
            raise self._refused(where, given, f"the full name of a function, or a table with a {KIND}")
        return found

    def _kind(self, name: Any, where: str) -> Any:
        """Return the class or function of a name: of a file beside the TOML, or of an installed package."""
        if not isinstance(name, str):
            raise self._refused(where, name, _NAME)
        place, _, last = name.rpartition(".")
        beside = Path(self.file).resolve().parent / f"{place}.py"
        try:
            if place and beside.is_file() and place not in self.modules:
                self.modules[place] = module = script.new_module(str(beside))
                self.known.enter_context(script.known(module))
                script.execute(where, str(beside), module)
            found = getattr(self.modules.get(place) or importlib.import_module(place), last)
        except BadInput as error:
            raise BadInput(f"{self.file}: {error}") from None
        except Exception as error:
            raise self._refused(where, name, f"{_NAME} ({one_line(error)})") from None
        if not callable(found):
            raise self._refused(where, name, _NAME)
        return found

    def _told(self, where: str, function: Callable[..., _Made], *given: Any, **named: Any) -> _Made:
        """Return what a function returns; raise its errors as BadInput, with the place in the file."""
        try:
            return function(*given, **named)
        except Exception as error:
            why = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"{self.file}: {where}: {why}" if where else f"{self.file}: {why}") from None

    def _refused(self, where: str, value: Any, allowed: str) -> BadInput:
        return check.refuse(f"{self.file}: {where}", value, allowed)


def _called(kind: Any, given: Mapping[str, Any]) -> Any:
    """Return what a class or function returns; a function that needs more, as a seed or a link's ends, waits for it."""
    if inspect.isclass(kind) and issubclass(kind, Agent):
        return Method(kind, **given)
    paths.check_arguments(f"argument of {kind.__name__}", kind, given)
    if inspect.isclass(kind) or _is_complete(kind, given):
        return kind(**given)
    return Given(kind, **given) if given else kind


def _is_complete(function: Any, given: Mapping[str, Any]) -> bool:
    """Return whether a function has all its arguments, and a seed, if it takes one."""
    known = inspect.signature(function)
    try:
        known.bind(**given)
    except TypeError:
        return False
    return "seed" in given or "seed" not in known.parameters
