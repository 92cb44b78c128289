"""Experiments in TOML: the tree of `netsim.Experiment`, where a ``kind`` names what Python would import and call."""

import importlib
import inspect
import types
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import reduce
from operator import mul
from pathlib import Path
from typing import Any

from netsim.agent import Agent
from netsim.errors import BadInput, one_line
from netsim.links.link import Link
from netsim.studies import script
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import line_of
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.methods import Method
from netsim.studies.experiment.networks import Links
from netsim.studies.experiment.paths import Grid, vary
from netsim.studies.experiment.record import title_of_toml
from netsim.studies.experiment.tuning import Between, OneOf
from netsim.studies.outcome import Ending
from netsim.studies.seeds import Seeds
from netsim.studies.sweeps.grid import numbers
from netsim.util import check, toml

KIND = "kind"
_TABLE, _LIST = (dict, "a table"), (list, "a list")
_NUMBER = ((int, float), "a number")
# By key, the types of its value, and their description for messages.
_KEYS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("methods", "problem", "networks", "grid", "names", "ending", "over"), _TABLE),
    **dict.fromkeys(("measure", "after", "goals"), _LIST),
    **dict.fromkeys(("until", "sample"), _NUMBER),
    "files": (list, "a list of paths"),
    "rounds": (int, "a whole number"),
    "error": (str, "a text"),
    "seeds": ((int, str, list), "a list of whole numbers, or a text as 0:10"),
}
# The kinds of tables that name no kind.
_USUAL: dict[str, Any] = {"networks": Links, "ending": Ending, "seeds": Seeds}
_NAME = "the full name of a class or function, as netsim.agents.DKLA"
_NAMED = 'a list of values, or a table of named ones; a path is one name, in quotes: "method.eta" = [0.1, 0.2]'
_RANGE = 'a table of low, high and log, or a list to choose from; a path is one name, in quotes: "method.eta" = {…}'


def read_toml(file: str) -> tuple[Experiment, str, Any, list[types.ModuleType]]:
    """Return a TOML file's experiment, title and tuning ranges, and the modules of the Python files that it uses.

    A Python file in the same folder is executed if a ``kind`` names it.

    Raises
    ------
    BadInput
        With a one-line message and the place in the file, for an unknown key or argument, a kind that cannot be
        imported, or a value of another type.
    """
    text, tables = toml.read(file)
    with ExitStack() as known:
        reader = _Reader(Path(file).resolve().parent, known)
        with check.naming(f"{file}: "):
            given = {name: reader.value(name, value) for name, value in tables.items()}
            over = given.pop("over", None)
            made = _placed("", Experiment, **given)
        return made, title_of_toml(text), over, list(reader.modules.values())


class _Reader:
    """Makes the parts that tables describe.

    A kind may name a Python file in ``folder``; its module stays importable until ``known`` is closed.
    """

    def __init__(self, folder: Path, known: ExitStack) -> None:
        self.folder, self.known = folder, known
        self.modules: dict[str, types.ModuleType] = {}

    def value(self, name: str, given: Any) -> Any:
        """Return the object for a key of the file; raises BadInput for an unknown key or a value of another type."""
        kinds, words = _KEYS[check.one_of("key", name, _KEYS)]
        if not isinstance(given, kinds) or isinstance(given, bool):
            raise check.refuse(name, given, words)
        match name:
            case "methods" | "problem" | "networks" if KIND not in given:
                for part, each in given.items():
                    if not isinstance(each, dict) or (name not in _USUAL and KIND not in each):
                        raise check.refuse(f"{name}.{part}", each, f"a table with a {KIND}")
                return {part: self.built(each, f"{name}.{part}", _USUAL.get(name)) for part, each in given.items()}
            case "measure" | "after":
                return [self._function(each, f"{name}[{place}]") for place, each in enumerate(given)]
            case "grid":
                return reduce(mul, (self._vary(path, values) for path, values in given.items()), Grid([{}]))
            case "over":
                return {path: self._range(path, each) for path, each in given.items()}
            case "names":
                for short, path in given.items():
                    if not _are_texts(path if isinstance(path, list) else [path]):
                        raise check.refuse(f"names.{short}", path, "a path, or a list of paths")
            case "files" if not _are_texts(given):
                raise check.refuse(name, given, words)
            case "seeds" if isinstance(given, str):
                return _placed(name, numbers, name, given)
        return given if name == "names" else self.built(given, name, _USUAL.get(name))

    def built(self, given: Any, where: str, usual: Any = None) -> Any:
        """Return the object for a value; a table without a kind is of the ``usual`` kind, or else a mapping."""
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
        return own if kind is None else _placed(where, _called, kind, own)

    def _range(self, path: str, given: Any) -> Between | OneOf:
        where = f"over.{path}"
        if isinstance(given, list):
            choice: OneOf = _placed(where, OneOf, self.built(given, where))
            return choice
        if not isinstance(given, dict) or not {"low", "high"} <= given.keys():
            raise check.refuse(where, given, _RANGE)
        found: Between = self.built(given, where, Between)
        return found

    def _vary(self, path: str, values: Any) -> Grid:
        where = f"grid.{path}"
        is_named = isinstance(values, dict) and not any(
            isinstance(each, list) or (isinstance(each, dict) and KIND not in each) for each in values.values()
        )
        if not values or not (is_named or isinstance(values, list)):
            raise check.refuse(where, values, _NAMED)
        return vary(path, self.built(values, where))

    def _function(self, given: Any, where: str) -> Any:
        found = self._kind(given, where) if isinstance(given, str) else self.built(given, where)
        if not callable(found):
            raise check.refuse(where, given, f"the full name of a function, or a table with a {KIND}")
        return found

    def _kind(self, name: Any, where: str) -> Any:
        """Return the named class or function, from a Python file beside the TOML file or from an installed package."""
        check.instance(where, name, str, _NAME)
        place, _, last = name.rpartition(".")
        beside = self.folder / f"{place}.py"
        try:
            if place and beside.is_file() and place not in self.modules:
                self.modules[place] = module = script.new_module(str(beside))
                self.known.enter_context(script.known(module))
                script.execute(where, str(beside), module)
            found = getattr(self.modules.get(place) or importlib.import_module(place), last)
        except BadInput:
            raise
        except Exception as error:
            raise check.refuse(where, name, f"{_NAME} ({one_line(error)})") from None
        if not callable(found):
            raise check.refuse(where, name, _NAME)
        return found


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(each, str) for each in values)


def _placed(where: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Return a function's result; its errors are raised as BadInput with the place in the file."""
    try:
        return function(*given, **named)
    except Exception as error:
        raise BadInput(f"{where}: {line_of(error)}".removeprefix(": ")) from None


def _called(kind: Any, given: Mapping[str, Any]) -> Any:
    """Call a class or function and return the result.

    A function that needs more arguments, such as a seed or a link's ends, is returned uncalled, with those given.
    """
    if inspect.isclass(kind) and issubclass(kind, Agent):
        return Method(kind, **given)
    paths.check_arguments(f"argument of {kind.__name__}", kind, given)
    if inspect.isclass(kind) or _is_complete(kind, given):
        return kind(**given)
    return paths.Given(kind, **given) if given else kind


def _is_complete(function: Any, given: Mapping[str, Any]) -> bool:
    """Return whether a function has all arguments that it requires, and the seed if it takes one."""
    known = inspect.signature(function)
    try:
        known.bind(**given)
    except TypeError:
        return False
    return "seed" in given or "seed" not in known.parameters
