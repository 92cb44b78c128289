"""Experiments on the command line: a file with an ``experiment``, or a function ``-> Experiment``, and its flags.

The flags are the function's arguments, the experiment's short names, and ``--set PATH=VALUE`` for any path. Their types
are those of the present values; help comes from the docstrings of the parts.
"""

import ast
import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.studies import plain, script
from netsim.studies.experiment import paths
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.grid import Grid, sweep
from netsim.studies.experiment.tuning import Between, settled
from netsim.util import check

_KINDS: tuple[type, ...] = (bool, int, float, str)
SEEDS, ROUNDS, SET, SETTINGS = "seeds", "rounds", "set", "settings"


@dataclass(frozen=True)
class Flag:
    """A flag of an experiment.

    Attributes
    ----------
    name : str
        Its name, without the dashes.
    kind : type
        int, float, str or bool; object for a part such as a loss model, in whose place a number may be given.
    default : str
        The present value in words.
    help : str
        A sentence on what it is.
    """

    name: str
    kind: type
    default: str
    help: str


@dataclass(frozen=True)
class ExperimentFile:
    """A Python file that defines an experiment.

    Attributes
    ----------
    file : str
        Its path.
    make : callable
        Returns the experiment; its keyword arguments are flags.
    module : module
        The executed file.
    """

    file: str
    make: Callable[..., Experiment]
    module: types.ModuleType

    @property
    def title(self) -> str:
        """The first line of the function's docstring, or else of the file's."""
        text = inspect.getdoc(self.make) or self.module.__doc__ or ""
        return text.strip().partition("\n")[0]

    @contextmanager
    def known(self) -> Iterator[None]:
        """Let Python, and workers, find the file's classes inside the context."""
        pickler = _pickler()
        with script.known(self.module), beside(self.file):
            pickler.register_pickle_by_value(self.module)
            try:
                yield
            finally:
                pickler.unregister_pickle_by_value(self.module)

    def flags(self) -> list[Flag]:
        """Return the flags: the function's arguments, the short names, the rounds, the seeds and any path."""
        made, described = self.make(), _described(self.make)
        hints = typing.get_type_hints(self.make)
        found = [
            Flag(name, _kind_of(hints.get(name), each.default), paths.brief(each.default), described.get(name, ""))
            for name, each in inspect.signature(self.make).parameters.items()
        ]
        for name in made.names:
            value = made.values(name)[0]
            found.append(Flag(name, _kind_of(None, value), paths.brief(value), _help_of(made, name)))
        found.append(Flag(ROUNDS, int, str(made.rounds), "Length of a run in rounds."))
        seeds = ",".join(str(each.seed) for each in made._all_seeds)
        found.append(Flag(SEEDS, str, seeds, "The runs of each combination: 0,1,2 or 0:10."))
        found.append(Flag(SET, str, "", "PATH=VALUE for any path of netsim show; several times."))
        found.append(Flag(SETTINGS, str, "", "The tuned.json of netsim tune, whose values the methods take."))
        return found

    def with_flags(self, given: Sequence[tuple[str, str]]) -> Experiment:
        """Return the experiment that flags ask for; one with several values is swept.

        Raises
        ------
        BadInput
            For an unknown flag or path, or a value of another type.
        """
        flags = {each.name: each for each in self.flags()}
        own = inspect.signature(self.make).parameters
        arguments: dict[str, Any] = {}
        chosen: dict[str, list[Any]] = {}
        seeds, rounds, settings, sets = None, None, None, []
        for name, text in given:
            flag = flags[check.one_of("flag", name, flags)]
            if name == SET:
                sets.append(text)
            elif name == SETTINGS:
                settings = text
            elif name == SEEDS:
                seeds = numbers(SEEDS, text)
            elif name == ROUNDS:
                rounds = _value(ROUNDS, text, int)
            elif name in own:
                arguments[name] = _value(name, text, flag.kind)
            else:
                chosen[name] = [_value(name, each, flag.kind) for each in _split(text)]
        made = self.make(**arguments)
        for each in sets:
            path, equals, text = each.partition("=")
            if not equals:
                raise check.refuse(SET, each, "PATH=VALUE")
            now = made.values(path.strip())[0]
            chosen[path.strip()] = [_value(path, part, _kind_of(None, now)) for part in _split(text)]
        made = made.with_values({name: values[0] for name, values in chosen.items() if len(values) == 1})
        for name, values in chosen.items():
            # Values from the command line replace those that the file tries.
            others = [{path: value for path, value in each.items() if path != name} for each in made.grid]
            kept = Grid(each for number, each in enumerate(others) if each not in others[:number])
            made = dataclasses.replace(made, grid=sweep(name, values) * kept if len(values) > 1 else kept)
        more: dict[str, Any] = ({} if seeds is None else {SEEDS: seeds}) | ({} if rounds is None else {ROUNDS: rounds})
        made = dataclasses.replace(made, **more)
        return made if settings is None else settled(made, settings)


def experiment_in(file: str) -> ExperimentFile | None:
    """Return the experiment that a Python file defines; None if it defines none.

    Raises
    ------
    BadInput
        If the file does not run, or defines several.
    """
    path = Path(file)
    # A file is executed once only: a script may print.
    if path.suffix != ".py" or not path.is_file() or "experiment" not in path.read_text(errors="replace").lower():
        return None
    module = script.new_module(file)
    with script.known(module), beside(file):
        _, runs = plain.execute_up_to_a_run(file, module)
        if runs:
            return None
        makers = [each for each in script.defined(module).values() if _makes_experiment(each)]
        if isinstance(made := vars(module).get("experiment"), Experiment):
            return ExperimentFile(file, lambda: made, module)
        if len(makers) > 1:
            raise BadInput(f"{file}: must define one experiment, or one function -> Experiment, not {len(makers)}")
    return ExperimentFile(file, makers[0], module) if makers else None


@contextmanager
def beside(file: str) -> Iterator[None]:
    """Let modules be imported from a file's folder inside the context, as when Python runs the file."""
    folder = str(Path(file).resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _makes_experiment(member: Any) -> bool:
    hint = getattr(member, "__annotations__", {}).get("return")
    return inspect.isfunction(member) and (hint is Experiment or str(hint).rpartition(".")[2] == "Experiment")


def ranges_of(texts: Sequence[str]) -> dict[str, Between]:
    """Return the ranges that ``PATH=LOW:HIGH[:log]`` give, by path; raises BadInput for another form."""
    found = {}
    for text in texts:
        path, equals, ends = text.partition("=")
        low, colon, rest = ends.partition(":")
        high, _, log = rest.partition(":")
        if not (equals and colon) or log not in ("", "log"):
            raise check.refuse("over", text, "PATH=LOW:HIGH or PATH=LOW:HIGH:log")
        ends_of = [_value("over", each, int if re.fullmatch(r"[+-]?\d+", each) else float) for each in (low, high)]
        found[path.strip()] = Between(ends_of[0], ends_of[1], log == "log")
    return found


def numbers(name: str, text: str) -> list[int]:
    """Return the whole numbers of ``0,1,5`` or ``0:10``; raises BadInput for another form."""
    found: list[int] = []
    for part in text.split(","):
        ends = part.split(":")
        if not all(re.fullmatch(r"\s*\d+\s*", each) for each in ends) or len(ends) > 3:
            raise check.refuse(name, text, "whole numbers, as 0,1,5 or 0:10")
        found += range(*map(int, ends)) if len(ends) > 1 else [int(part)]
    return found


def _value(name: str, text: str, kind: type) -> Any:
    """Return a value of a type; raises BadInput if the text gives none."""
    text = text.strip()
    if kind is str:
        return text
    if text.lower() == "none":
        return None
    if kind is object:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text
    if kind is bool:
        return check.one_of(name, text.lower(), ("true", "false")) == "true"
    try:
        return kind(text)
    except ValueError:
        raise check.refuse(name, text, "a whole number" if kind is int else "a number") from None


def _split(text: str) -> list[str]:
    """Return the values between commas that are in no brackets."""
    return re.split(r",(?![^(\[]*[)\]])", text)


def _kind_of(hint: Any, value: Any) -> type:
    """Return the type of a flag: that of its annotation, or of its present value; if that is None, a number."""
    for each in typing.get_args(hint) or (hint,):
        if each in _KINDS:
            return typing.cast(type, each)
    if value is None:
        return float
    return next((each for each in _KINDS if isinstance(value, each)), object)


def _described(source: Any) -> dict[str, str]:
    """Return what docstrings say of parameters, of a class those of its bases, too."""
    found: dict[str, str] = {}
    for each in reversed(inspect.getmro(source)) if isinstance(source, type) else [source]:
        found |= re.findall(r"^(\w+)(?:, \w+)* : .*\n((?:    .*\n?)+)", inspect.getdoc(each) or "", re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found.items()}


def _help_of(experiment: Experiment, name: str) -> str:
    """Return what the docstring of its part says of a path's parameter, else the path."""
    path = experiment._of(name)[0]
    owner, _, last = path.rpartition(".")
    if not owner:
        return path
    holders = paths.values_at(experiment._tree(), experiment._long(owner)) if "." in owner else []
    holder = holders[0] if holders else None
    source = getattr(holder, "kind", None) or getattr(holder, "function", None) or type(holder)
    return _described(source).get(last, "") or path


def _pickler() -> Any:
    """Return cloudpickle as joblib uses it: its own copy in some versions."""
    from joblib.externals.loky.cloudpickle_wrapper import dumps

    return sys.modules[dumps.__module__]
