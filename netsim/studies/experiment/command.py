"""Experiments on the command line: the files that define them, and their flags.

A file is Python with an ``experiment`` or a function ``-> Experiment``, or it is TOML. The flags are the function's
arguments, the experiment's short names, and ``--set PATH=VALUE`` for any path. A flag has the type of the present
value, and its help comes from the docstring of its part.
"""

import dataclasses
import inspect
import itertools
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.studies import plain as plain_studies
from netsim.studies import script
from netsim.studies.catalogue import Asked, Parameter, described, find_study, flags_of
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import is_of
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.methods import Derived
from netsim.studies.experiment.paths import Grid, plain, vary
from netsim.studies.experiment.toml import read_toml
from netsim.studies.experiment.tuning import Between, range_of, settled
from netsim.studies.sweeps.grid import listing, split, values_of
from netsim.util import check
from netsim.util.datafiles import path_of, recording

SEEDS, ROUNDS, SET, SETTINGS = "seeds", "rounds", "set", "settings"

ASK = "list"
"""The value of ``--set`` that asks for all methods and parameters; no run follows."""

PLAIN = (bool, int, float, str)
"""What a command line can give."""

_CODER = "coder"
"""The word before the parameters of a method's coder."""

_PARTS = ("censor", "duals")
_OF_SITE = "site."
"""The beginning of places that are not the experiment's, but those of a study's site."""
_ROOTS = ("problem", "network", "networks", "method", "methods")

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
        The tuning ranges, if the file defines ``over`` beside the experiment.
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
        """Inside the context, let Python and workers find the classes that the file defines."""
        from joblib.externals.loky.cloudpickle_wrapper import dumps

        # Some versions of joblib bundle their own cloudpickle, so take the module of the `dumps` in use.
        pickler: Any = sys.modules[dumps.__module__]
        with ExitStack() as entered:
            entered.enter_context(beside(self.file))
            for module in self.modules:
                entered.enter_context(script.known(module))
                pickler.register_pickle_by_value(module)
                entered.callback(pickler.unregister_pickle_by_value, module)
            yield

    @cached_property
    def usual(self) -> Experiment:
        """The experiment made with the default of every argument."""
        return self.make()

    @cached_property
    def _arguments(self) -> tuple[dict[str, Parameter], Mapping[str, type]]:
        """Return the function's flags by name, and the dataclasses, by argument, whose fields are flags."""
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
        """Return the experiment with the values of its flags; a flag with several values becomes a sweep.

        Raises
        ------
        BadInput
            For an unknown flag or path, or a value of another type.
        """
        flags, own = dict(self.flags), self._arguments[0]
        texts = {check.one_of("flag", name, flags): list(several) for name, several in given.items()}
        sets = [] if SET in own else texts.pop(SET, [])
        settings = None if SETTINGS in own else texts.pop(SETTINGS, None)
        made = self._made(texts)
        texts = {name: several for name, several in texts.items() if name not in own}
        of_all = {ROUNDS: _single, SEEDS: values_of}
        more = {name: read(flags[name], texts.pop(name)) for name, read in of_all.items() if name in texts}
        made = dataclasses.replace(made, **more)
        for place, values in assigned(sets, "PATH=VALUE").items():
            made = with_names(made, place)
            flags[place] = _flag(place, made.values(place)[0])
            texts.setdefault(place, []).extend(values)
        chosen = {name: values_of(flags[name], split(several)) for name, several in texts.items()}
        made = made.with_values({name: values[0] for name, values in chosen.items() if len(values) == 1})
        for name, values in chosen.items():
            # Values from the command line replace those in the file's grid.
            here = made._of(name)
            others = [{path: value for path, value in each.items() if made._of(path) != here} for each in made.grid]
            kept = Grid(each for number, each in enumerate(others) if each not in others[:number])
            made = dataclasses.replace(made, grid=vary(name, values) * kept if len(values) > 1 else kept)
        if settings is None:
            return made
        present = self.present(made, given)
        tuned = settled(made, split(settings), lambda cell: {**present, **cell.columns}, self.over)
        return without_tuned(tuned, chosen)

    def apart(self, given: Texts) -> Iterator[tuple[dict[str, Any], Texts]]:
        """Yield (values, flags) for each combination of the arguments that have several values.

        In the flags these arguments have one value each. Short names and paths keep all their values, because the
        experiment's grid tries them.
        """
        own = self._arguments[0]
        several = {n: values for n, each in given.items() if n in own and len(values := values_of(own[n], each)) > 1}
        for chosen in itertools.product(*several.values()):
            here = dict(zip(several, chosen, strict=True))
            yield here, {**given, **{name: [str(value)] for name, value in here.items()}}

    def _values(self, given: Texts) -> dict[str, Any]:
        """Return the values of the function's arguments, by flag."""
        own = self._arguments[0]
        return {name: _single(each, given[name]) if name in given else each.default for name, each in own.items()}

    def _made(self, given: Texts) -> Experiment:
        """Return the experiment that the function makes from its arguments' values."""
        values = self._values(given)
        for name, group in self._arguments[1].items():
            values[name] = group(**{each.name: values.pop(each.name) for each in dataclasses.fields(group)})
        return self.make(**values)

    def present(self, made: Experiment, given: Texts) -> dict[str, Any]:
        """Return the present values of the function's arguments, the short names and the rounds, by flag."""
        found = {ROUNDS: made.rounds, **self._values(given)}
        tried = {path for each in made.grid for path in each}
        found |= {name: plain(made.values(name)[0]) for name in made.names if name not in tried}
        return {name: value for name, value in found.items() if value is None or isinstance(value, PLAIN)}


def study_in(name: str) -> ExperimentFile:
    """Return the experiment of a study; raises BadInput if the study has none."""
    study = find_study(name)
    if (make := getattr(study.function, "make", None)) is None:
        raise BadInput(f"study = {name!r}: must be a file with an experiment, or a study that is one, as coke is")
    return ExperimentFile(name, make, study.title, None, [])


def experiment_in(file: str) -> ExperimentFile | None:
    """Return the experiment defined by a Python or TOML file; None if a Python file defines none.

    Raises
    ------
    BadInput
        If the file does not run, or defines several.
    """
    path = Path(file)
    if path.suffix == ".toml":
        with beside(file):
            read, title, over, modules = read_toml(file)
        return ExperimentFile(file, lambda: read, title, over, modules)
    # Execute a file only if it may define an experiment, and only once: a script may print.
    if path.suffix != ".py" or not path.is_file() or "experiment" not in path.read_text(errors="replace").lower():
        return None
    module = script.new_module(file)
    with script.known(module), beside(file), recording() as read_files:
        _, runs = plain_studies.execute_up_to_a_run(file, module)
        if runs:
            return None
        members = script.defined(module).values()
        if any(inspect.isfunction(each) and hasattr(each, "make") for each in members):
            return None  # `study_of` converts it to a study
        makers = [each for each in members if _makes_experiment(each)]
        if isinstance(made := vars(module).get("experiment"), Experiment):
            # Files read while the script starts belong to no cell, but are needed to repeat the experiment.
            whole = dataclasses.replace(made, files=[*made.files, *map(path_of, read_files)])
            makers = [lambda: whole]
        if len(makers) > 1:
            raise BadInput(f"{file}: must define one experiment, or one function -> Experiment, not {len(makers)}")
    if not makers:
        return None
    title = (inspect.getdoc(makers[0]) or module.__doc__ or "").strip().partition("\n")[0]
    return ExperimentFile(file, makers[0], title, vars(module).get("over"), [module])


@contextmanager
def beside(file: str) -> Iterator[None]:
    """Inside the context, let modules be imported from a file's folder, as when Python runs the file."""
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
    """Return the flag of a path, left open by default; its type is that of the present value, or float for None."""
    kinds = (float,) if value is None else (each for each in (bool, int, float, str) if isinstance(value, each))
    return Parameter(name, next(iter(kinds), object), True, value, description)


def _single(flag: Parameter, texts: Sequence[str]) -> Any:
    """Return the value of a flag; raises BadInput if several are given."""
    values = values_of(flag, texts)
    if len(values) > 1:
        raise check.refuse(flag.name, ",".join(texts), "one value")
    return values[0]


def flag_of(experiment: Experiment, name: str) -> Parameter:
    """Return the flag of a short name or path; its help is from its part's docstring, or else is the path."""
    path = experiment._of(name)[0]
    owner, _, last = experiment._long(path).rpartition(".")
    holders = paths.values_at(experiment._tree(), owner) if owner else []
    sources = [getattr(each, "kind", None) or getattr(each, "function", None) or type(each) for each in holders]
    texts = (described(each).get(last, "") for each in sources)
    return _flag(name, experiment.values(name)[0], next(filter(None, texts), path))


# --- methods' parameters on the command line --------------------------------------------------------------------------
#
# Names are COKE.rho, COKE.v, CHOCO.coder.bits. ``--set METHOD.PARAMETER=VALUE`` sets a parameter, and ``--over
# [METHOD.]PARAMETER=LOW:HIGH`` searches it. Both flags also accept paths, such as problem.features or method.eta.


def _asked(experiment: Experiment) -> Asked:
    """Return the exception for `ASK`, which ends a run and lists each parameter as ``METHOD.PARAMETER=VALUE``."""
    lines, known = [], _families(experiment)
    for method, own in known.items():
        lines += [] if own else [f"{method}: no parameters"]
        for name, at in own.items():
            value = _present(experiment, at)
            # The form that `--set` reads; a required parameter, which has no value yet, is listed as none.
            text = str(value).lower() if value is None or isinstance(value, bool) else str(value)
            lines.append(f"{method}.{name}={text}")
    names = ", ".join(f"{method} ({', '.join(own) or 'none'})" for method, own in known.items())
    return Asked(f"set = {ASK!r}: must be METHOD.PARAMETER=VALUE, of these: {names}", "\n".join(lines))


def with_set_values(experiment: Experiment, text: str, *, has_site: bool = False) -> Experiment:
    """Return the experiment with the values of a text ``METHOD.PARAMETER=VALUE,…``; they override tuned ones.

    With ``has_site``, values for ``site.PATH`` are skipped.

    Raises
    ------
    BadInput
        For an unknown method, parameter or path, a value of another type, or text of another form.
    Asked
        For the text "list".
    """
    if text == ASK:
        raise _asked(experiment)
    values: dict[str, Any] = {}
    forms = [
        *(["METHOD.PARAMETER=VALUE"] if any(experiment.methods) else []),
        *(["site.PATH=VALUE"] if has_site else []),
    ]
    form = f"{' or '.join(forms)}, several with commas between"
    for place, several in assigned([text], form).items():
        if has_site and place.startswith(_OF_SITE):
            continue
        # A study whose only method has no name, such as convergecast, accepts values of its site only.
        if not all(_placed(place)) or not several[0] or not any(experiment.methods):
            raise check.refuse("set", f"{place}={several[0]}", form)
        if len(several) > 1:
            raise BadInput(f"set = {place!r}: must have one value, not several")
        at = _paths_of(experiment, "set", place)
        values |= dict.fromkeys(at, typed(f"set {place}", several[0], _present(experiment, at)))
    return without_tuned(experiment.with_values(values), values)


def without_tuned(experiment: Experiment, places: Iterable[str]) -> Experiment:
    """Return the experiment without tuned values at some paths or short names, which now have explicit values."""
    given = {experiment._long(path) for place in places for path in experiment._of(place)}
    settings = {}
    for key, tuned in experiment.settings.items():
        own = [paths.ANY, *(name for name, method in experiment.methods.items() if is_of(name, method, key))]
        settings[key] = {
            path: value for path, value in tuned.items() if given.isdisjoint(f"methods.{name}.{path}" for name in own)
        }
    return dataclasses.replace(experiment, settings=settings)


def with_names(experiment: Experiment, place: str) -> Experiment:
    """Return the experiment with ``METHOD.PARAMETER`` as a short name, unless it is already a path or a name."""
    if place in experiment.names or place.partition(".")[0] in _ROOTS or not all(_placed(place)):
        return experiment
    return dataclasses.replace(experiment, names={**experiment.names, place: _paths_of(experiment, "set", place)})


def ranges_of(experiment: Experiment, over: Sequence[str]) -> dict[str, Between | None]:
    """Return the tuning ranges by path, parsed from texts ``[METHOD.]PARAMETER[=LOW:HIGH[:log]]``.

    A parameter without a method applies to every method that has it; a text with a method takes precedence.

    Raises
    ------
    BadInput
        For an unknown method, parameter or path, a parameter that is not a number, two ranges of one parameter, or
        malformed text.
    """
    given = dict[str, Between | None]()
    for text in over:
        place, between = range_of(text, "[METHOD.]PARAMETER")
        if place in given:
            raise check.refuse("over", f"{place}={between}", f"the only range of {place}; another is {given[place]}")
        given[place] = between
    found: dict[str, Between | None] = {}
    for place, between in sorted(given.items(), key=lambda each: bool(_placed(each[0])[0])):
        at = _paths_of(experiment, "over", place)
        for path in at:
            if isinstance(now := plain(experiment.values(path)[0]), bool | str):
                raise check.refuse("over", place, f"a number, unlike {now!r}")
        found |= dict.fromkeys(at, between)
    return found


def _families(experiment: Experiment) -> dict[str, dict[str, list[str]]]:
    """Return the paths of each method's parameters by name; methods with the same label ``family`` are variants."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, method in experiment.methods.items():
        family = found.setdefault(method.label.get("family", name), {})
        for parameter, path in settable(name, method).items():
            family.setdefault(parameter, []).append(f"methods.{name}.{path}")
    return found


def _paths_of(experiment: Experiment, what: str, place: str) -> list[str]:
    """Return the paths that ``[METHOD.]PARAMETER``, a short name or a path denotes."""
    if place in experiment.names or place.partition(".")[0] in _ROOTS:
        return experiment._of(place)
    (method, name), known = _placed(place), _families(experiment)
    if method or what == "set":
        own = known[check.one_of(f"{what}: method", method, known)]
        return own[check.one_of(f"{what}: parameter of {method}", name, own)]
    found = [path for own in known.values() for path in own.get(name, [])]
    if not found:
        check.one_of(f"{what}: parameter", name, sorted({each for own in known.values() for each in own}))
    return found


def settable(name: str, method: Any) -> dict[str, str]:
    """Return the paths of a method's parameters that are numbers, switches or strings, keyed by name.

    The parameters of a censor or of duals keep their names; those of a coder are prefixed, such as ``coder.bits``. A
    coder that appears in the method's name is excluded, because another coder would make the name wrong.
    """
    found: dict[str, str] = {}
    names_coder = method.label.get("coder", "own") != "own" or re.search(r"\d-?bit", name) is not None
    for path, value in paths.places(method):
        first, _, rest = path.partition(".")
        if first == "weights" or (first == _CODER and names_coder):
            continue
        value = plain(value)
        if value is None or isinstance(value, (*PLAIN, Derived)):
            found.setdefault(rest if first in _PARTS and rest else path, path)
    ordered = sorted(found.items(), key=lambda each: "." in each[1])
    return {parameter: path for parameter, path in ordered if path not in (_CODER, *_PARTS)}


def _present(experiment: Experiment, at: Sequence[str]) -> Any:
    return plain(experiment.values(at[0])[0])


def assigned(texts: Sequence[str], form: str) -> dict[str, list[str]]:
    """Return lists of values by place, parsed from texts ``PLACE=VALUE,VALUE,PLACE=…``.

    Raises BadInput, which names the expected ``form``, if a text does not begin with a place.
    """
    found: dict[str, list[str]] = {}
    place = ""
    for text in filter(None, split(texts)):
        first, equals, value = (part.strip() for part in text.partition("="))
        if equals and "(" not in first:
            place, text = first, value
        elif not found:
            raise check.refuse("set", text, form)
        found.setdefault(place, []).append(text)
    return found


def _placed(text: str) -> tuple[str, str]:
    """Return the method, or "", and the parameter of ``[METHOD.]PARAMETER``.

    The parameter follows the last full stop, because a method's name may contain full stops. A coder's parameter
    includes each prefix "coder.": ``COKE.coder.bits``, and ``CHOCO.coder.coder.bits`` for a coder inside a coder.
    """
    method, _, name = text.strip().rpartition(".")
    while method == _CODER or method.endswith(f".{_CODER}"):
        method, name = method[: -len(_CODER)].rstrip("."), f"{_CODER}.{name}"
    return method, name


def typed(name: str, text: str, now: Any) -> Any:
    """Return a text converted to the type of the present value; if that is None, to a number if possible."""
    switch = {"true": True, "false": False}
    if isinstance(now, str):
        return text
    if isinstance(now, bool) and text.lower() in switch:
        return switch[text.lower()]
    if now is None and text.lower() == "none":
        return None
    for kind in () if isinstance(now, bool) else (float,) if isinstance(now, float) else (int, float):
        with suppress(ValueError):
            return kind(text)
    if now is None:
        return text
    raise check.refuse(name, text, "true or false" if isinstance(now, bool) else "a number")
