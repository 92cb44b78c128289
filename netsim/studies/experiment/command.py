"""Experiments on the command line: a file with an ``experiment``, or a function ``-> Experiment``, or TOML; its flags.

The flags are the function's arguments, the experiment's short names, and ``--set PATH=VALUE`` for any path. Their types
are those of the present values; help comes from the docstrings of the parts.
"""

import dataclasses
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.studies import plain as plain_studies
from netsim.studies import script
from netsim.studies.catalogue import Parameter, described, find_study, flags_of
from netsim.studies.experiment import paths
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.named import PLAIN, assigned, with_names, without_tuned
from netsim.studies.experiment.paths import Grid, plain, sweep
from netsim.studies.experiment.tuning import settled
from netsim.studies.sweeps.grid import listing, split, values_of
from netsim.util import check

SEEDS, ROUNDS, SET, SETTINGS = "seeds", "rounds", "set", "settings"

Texts = Mapping[str, Sequence[str]]
"""The texts of the values that a command line gives flags, by flag."""


@dataclass(frozen=True)
class ExperimentFile:
    """A file of Python or TOML that defines an experiment.

    Attributes
    ----------
    file : str
        Its path.
    make : callable
        Returns the experiment; its keyword arguments are flags.
    title : str
        The first line of the function's docstring, or else of the file's.
    over : mapping or None
        The ranges of tuning, which the file may have beside the experiment.
    modules : sequence of module
        The executed files.
    """

    file: str
    make: Callable[..., Experiment]
    title: str
    over: Any
    modules: Sequence[types.ModuleType]

    @contextmanager
    def known(self) -> Iterator[None]:
        """Let Python, and workers, find the file's classes inside the context."""
        pickler = _pickler()
        with ExitStack() as entered:
            entered.enter_context(beside(self.file))
            for module in self.modules:
                entered.enter_context(script.known(module))
                pickler.register_pickle_by_value(module)
                entered.callback(pickler.unregister_pickle_by_value, module)
            yield

    @cached_property
    def usual(self) -> Experiment:
        """The experiment with the defaults of all arguments."""
        return self.make()

    @cached_property
    def _arguments(self) -> tuple[dict[str, Parameter], Mapping[str, type]]:
        """The flags of the function's arguments, and those arguments that are dataclasses of several flags."""
        flags, groups = flags_of(self.file, self.make)
        return {each.name: each for each in flags}, dict(groups)

    @cached_property
    def flags(self) -> dict[str, Parameter]:
        """The flags by name: the function's arguments, the short names, the rounds, the seeds and any path."""
        own, seeds = self._arguments[0], listing([each.seed for each in self.usual._all_seeds])
        others = [
            *(flag_of(self.usual, name) for name in self.usual.names),
            Parameter(ROUNDS, int, False, self.usual.rounds, "Length of a run in rounds."),
            Parameter(SEEDS, int, False, seeds, "The runs of each combination: 0,1,2 or 0:10."),
            Parameter(SET, str, True, None, "PATH=VALUE, or METHOD.PARAMETER=VALUE, of netsim show; several times."),
            Parameter(SETTINGS, str, True, None, "The tuned.json of netsim tune, whose values the methods take."),
        ]
        return {**own, **{each.name: own.get(each.name, each) for each in others}}

    def with_flags(self, given: Texts) -> Experiment:
        """Return the experiment that flags ask for; one with several values is swept.

        Raises
        ------
        BadInput
            For an unknown flag or path, or a value of another type.
        """
        flags, own = dict(self.flags), self._arguments[0]
        texts = {check.one_of("flag", name, flags): list(several) for name, several in given.items()}
        sets, settings = texts.pop(SET, []), None if SETTINGS in own else texts.pop(SETTINGS, None)
        single = {name: _single(flags[name], texts.pop(name)) for name in {*own, ROUNDS} & texts.keys()}
        more = {name: single.pop(name) for name in {ROUNDS} - own.keys() if name in single}
        if SEEDS in texts and SEEDS not in own:
            more[SEEDS] = values_of(flags[SEEDS], texts.pop(SEEDS))
        made = dataclasses.replace(self._made(single), **more)
        for place, values in assigned(sets, "PATH=VALUE").items():
            made = with_names(made, place)
            flags[place] = _flag(place, made.values(place)[0])
            texts.setdefault(place, []).extend(values)
        chosen = {name: values_of(flags[name], split(several)) for name, several in texts.items()}
        made = made.with_values({name: values[0] for name, values in chosen.items() if len(values) == 1})
        for name, values in chosen.items():
            # Values from the command line replace those that the file tries.
            here = made._of(name)
            others = [{path: value for path, value in each.items() if made._of(path) != here} for each in made.grid]
            kept = Grid(each for number, each in enumerate(others) if each not in others[:number])
            made = dataclasses.replace(made, grid=sweep(name, values) * kept if len(values) > 1 else kept)
        if settings is None:
            return made
        present = self.present(made, given)
        tuned = settled(made, split(settings), lambda cell: {**present, **cell.columns}, self.over)
        return without_tuned(tuned, chosen)

    def apart(self, given: Texts) -> Iterator[tuple[dict[str, Any], Texts]]:
        """Yield each combination of the values of arguments that have several: these, and flags with one value each.

        Short names and paths keep all their values: the experiment itself tries them.
        """
        own = self._arguments[0]
        several = {n: values for n, each in given.items() if n in own and len(values := values_of(own[n], each)) > 1}
        for chosen in itertools.product(*several.values()):
            here = dict(zip(several, chosen, strict=True))
            yield here, {**given, **{name: [str(value)] for name, value in here.items()}}

    def _made(self, single: Mapping[str, Any]) -> Experiment:
        """Return the experiment that the function makes of some arguments; others have their defaults."""
        given = dict(single)
        for name in self._arguments[1]:
            group = inspect.signature(self.make).parameters[name].default
            fields = {each.name for each in dataclasses.fields(group)} & given.keys()
            given[name] = dataclasses.replace(group, **{each: given.pop(each) for each in fields})
        return self.make(**given)

    def present(self, made: Experiment, given: Texts) -> dict[str, Any]:
        """Return the values of the function's arguments, of the short names and of the rounds, by flag."""
        found = {ROUNDS: made.rounds} | {
            name: values_of(each, given[name][-1:])[0] if name in given else each.default
            for name, each in self._arguments[0].items()
        }
        tried = {path for each in made.grid for path in each}
        found |= {name: plain(made.values(name)[0]) for name in made.names if name not in tried}
        return {name: value for name, value in found.items() if value is None or isinstance(value, PLAIN)}


def study_in(name: str) -> ExperimentFile:
    """Return the experiment that a study is; raises BadInput if it is none."""
    study = find_study(name)
    if (make := getattr(study.function, "make", None)) is None:
        raise BadInput(f"scenario = {name!r}: must be a file with an experiment, or a study that is one, as coke is")
    return ExperimentFile(name, make, study.title, None, [])


def experiment_in(file: str) -> ExperimentFile | None:
    """Return the experiment that a file of Python or TOML defines; None if one of Python defines none.

    Raises
    ------
    BadInput
        If the file does not run, or defines several.
    """
    path = Path(file)
    if path.suffix == ".toml":
        from netsim.studies.experiment.toml import read_toml

        with beside(file):
            return read_toml(file)
    # A file is executed once only: a script may print.
    if path.suffix != ".py" or not path.is_file() or "experiment" not in path.read_text(errors="replace").lower():
        return None
    module = script.new_module(file)
    with script.known(module), beside(file):
        _, runs = plain_studies.execute_up_to_a_run(file, module)
        if runs:
            return None
        makers = [each for each in script.defined(module).values() if _makes_experiment(each)]
        if isinstance(made := vars(module).get("experiment"), Experiment):
            makers = [lambda: made]
        if len(makers) > 1:
            raise BadInput(f"{file}: must define one experiment, or one function -> Experiment, not {len(makers)}")
    if not makers:
        return None
    title = (inspect.getdoc(makers[0]) or module.__doc__ or "").strip().partition("\n")[0]
    return ExperimentFile(file, makers[0], title, vars(module).get("over"), [module])


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


def _flag(name: str, value: Any, description: str = "") -> Parameter:
    """Return the flag of a path, which may be left open: its type is that of the present value; of None, a number."""
    kinds = (float,) if value is None else (each for each in (bool, int, float, str) if isinstance(value, each))
    return Parameter(name, next(iter(kinds), object), True, value, description)


def _single(flag: Parameter, texts: Sequence[str]) -> Any:
    """Return the one value of a flag; raises BadInput if there are several."""
    values = values_of(flag, texts)
    if len(values) > 1:
        raise check.refuse(flag.name, ",".join(texts), "one value")
    return values[0]


def flag_of(experiment: Experiment, name: str) -> Parameter:
    """Return the flag of a short name or path, with what the docstring of its part says of it, else the path."""
    path = experiment._of(name)[0]
    owner, _, last = experiment._long(path).rpartition(".")
    holders = paths.values_at(experiment._tree(), owner) if owner else []
    sources = [getattr(each, "kind", None) or getattr(each, "function", None) or type(each) for each in holders]
    texts = (described(each).get(last, "") for each in sources)
    return _flag(name, experiment.values(name)[0], next(filter(None, texts), path))


def _pickler() -> Any:
    """Return cloudpickle as joblib uses it: its own copy in some versions."""
    from joblib.externals.loky.cloudpickle_wrapper import dumps

    return sys.modules[dumps.__module__]
