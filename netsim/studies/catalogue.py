"""Studies: finding, describing and executing them."""

import dataclasses
import importlib
import inspect
import re
import shlex
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput, NetsimError, chain, one_line
from netsim.util.datafiles import digest_of, recording

if TYPE_CHECKING:
    from netsim.studies.study import Study
    from netsim.studies.terminal import Reporter

# Listing the studies needs no network, so the modules that run networks are imported later.

GROUP = "netsim.studies"
"""The entry points of this group name registries: packages list their studies there (netsim's own, too)."""

# Arguments that every run has besides the study's parameters.
_TAKEN = ("at", "out", "trace", "figures", "tables", "live", "pace", "no_browser", "help", "reporter")


@dataclass(frozen=True)
class Entry:
    """A study's location as ``module:function``, its title, and the group that lists it."""

    place: str
    title: str
    group: str = "others"


@dataclass(frozen=True)
class Registry:
    """The studies of a package by name; ``columns`` are the first measures of their rounds.csv.

    ``sources`` maps the studies' data sets to the places where they are published.
    """

    studies: Mapping[str, Entry]
    columns: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a study, of kind int, float, str or bool; an ``optional`` parameter may be None.

    In an experiment its kind may be object: a part such as a loss model, which a number may replace.
    """

    name: str
    kind: type
    optional: bool
    default: Any
    description: str


AT = Parameter("at", str, True, None, "A fault at a time (s) of each run: TIME WHAT NODE …; see docs/faults.md.")
"""The parameter of every study that appends faults in words (`netsim.faults.words`) to its networks' own."""

EVERY = Parameter("every", int, True, None, "Measure the first round, each of this many, and the last; by default all.")
"""The parameter of every study that says in which rounds models are measured, unless it has one of that name itself."""


ORDER = Parameter(
    "order", str, True, None, "The order of what an agent could do at one instant: a seed, words, or a file of them."
)
"""The parameter of every study that sets the order of its runs (`netsim.clock.order`), unless it has one itself."""


class Asked(BadInput):
    """Ends a run whose flags only request a list; the command line prints the ``listing``."""

    def __init__(self, message: str, listing: str) -> None:
        super().__init__(message)
        self.listing = listing


@dataclass(frozen=True)
class StudyDefinition:
    """A study as `find_study` finds it: its function and parameters.

    A parameter whose type is a dataclass stands for the dataclass's fields, which are parameters that several studies
    share.
    """

    name: str
    function: Callable[..., None]
    title: str
    parameters: tuple[Parameter, ...]
    groups: tuple[tuple[str, type], ...] = ()
    module: types.ModuleType | None = None
    """The module of its file, if it is a user's."""
    sha256: str = ""
    """Of its file, if it has one."""

    @property
    def flags(self) -> tuple[Parameter, ...]:
        """The study's parameters, and the parameters that all studies have: `AT`, `EVERY` and `ORDER`."""
        own = {parameter.name for parameter in self.parameters}
        return (*self.parameters, AT, *(each for each in (EVERY, ORDER) if each.name not in own))

    @property
    def idle(self) -> dict[str, tuple[str, Any]]:
        """Parameters that have no effect while another has a given value, such as ``{"burst": ("loss", 0.0)}``.

        They come from the class attribute ``IDLE`` of the study's parameter groups.
        """
        return {name: each for _, group in self.groups for name, each in getattr(group, "IDLE", {}).items()}

    def execute(self, trace: bool = False, reporter: "Reporter | None" = None, **parameters: Any) -> "Study":
        """Run the study and return it; raises BadInput for an unknown parameter."""
        study = self.prepare(trace, reporter, **parameters)
        self.play(study)
        return study

    def prepare(self, trace: bool = False, reporter: "Reporter | None" = None, **parameters: Any) -> "Study":
        """Return a study for `play`; raises BadInput for an unknown parameter.

        Parameters may include ``at``, faults as text that are added to the faults of the study's networks; ``every``,
        the interval of measured rounds; and ``order``, a seed or a text.
        """
        from netsim.clock.order import read
        from netsim.faults.words import joined
        from netsim.studies.study import Study
        from netsim.util import check

        at = parameters.pop(AT.name, None)
        more: dict[str, Any] = {AT.name: joined(at)} if at else {}
        if EVERY in self.flags and (every := parameters.pop(EVERY.name, None)) is not None:
            more[EVERY.name] = check.integer(EVERY.name, every, low=1)
        if ORDER in self.flags and (order := parameters.pop(ORDER.name, None)) is not None:
            more[ORDER.name] = read(order)
        known = {parameter.name: parameter.default for parameter in self.parameters}
        for name in parameters:
            check.one_of("parameter", name, known)
        columns = tuple(column for registry in registries() for column in registry.columns)
        study = Study(self.name, known | parameters | more, columns=columns, trace=trace, reporter=reporter)
        study.question = self.title
        study.origin |= self.source_hashes()
        return study

    def source_hashes(self) -> dict[str, Any]:
        """Return the SHA-256 of the study's file, if any, and of the sources of its package and netsim (`origin`)."""
        from netsim.studies.origin import source_of

        packages = ["netsim"] if self.module else ["netsim", self.function.__module__.partition(".")[0]]
        source = {name: digest for each in dict.fromkeys(packages) for name, digest in source_of(each).items()}
        return ({"file_sha256": self.sha256} if self.sha256 else {}) | {"source_sha256": source}

    def play(self, study: "Study") -> None:
        """Run the study into one made by `prepare`; if it raises, that study is marked partial.

        The study's origin gets the SHA-256 of the files read, including files named by parameters unless they changed.
        """
        arguments = dict(study.settings)
        named = {each: digest_of(each) for each in arguments.values() if isinstance(each, str)}
        with recording() as read:
            try:
                self._play(study, arguments)
            finally:
                same = {name: digest for name, digest in named.items() if digest and digest_of(name) == digest}
                study.origin["files_sha256"] = dict(sorted((same | read).items()))

    def _play(self, study: "Study", arguments: dict[str, Any]) -> None:
        from netsim.clock.order import ordering
        from netsim.engine.process import thread_pools
        from netsim.faults.words import appending
        from netsim.studies import script

        at = arguments.pop(AT.name, None)
        if EVERY in self.flags:
            study.every = arguments.pop(EVERY.name, 1)
        order = arguments.pop(ORDER.name, None) if ORDER in self.flags else None
        for name, group in self.groups:
            arguments[name] = group(**{field.name: arguments.pop(field.name) for field in dataclasses.fields(group)})
        # Agents' matrices are small: more BLAS threads would wait for each other, and could change rounding.
        with thread_pools().limit(limits=1), script.known(self.module), appending(at), ordering(order):
            try:
                self.function(study, **arguments)
            except BaseException as error:
                study.cut_short(error, why(self, error))
                raise


@cache
def registries() -> tuple[Registry, ...]:
    """Return the registries of all installed packages, netsim's own first."""
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda each: (each.name != "netsim", each.name))
    # An environment may contain netsim under a former name as well: count the same registry once.
    return tuple(each.load() for each in {each.value: each for each in found}.values())


def listed() -> dict[str, Entry]:
    """Return the studies of all installed packages by name.

    For equal names netsim's study takes precedence, then that of the first package.

    An installed package lists its studies by an entry point of the group `GROUP`, whose object is a `Registry`.
    """
    found: dict[str, Entry] = {}
    for registry in reversed(registries()):
        found |= registry.studies
    return dict(sorted(found.items()))


def grouped() -> dict[str, dict[str, Entry]]:
    """Return the studies of all installed packages by group and name; "others" is the last group."""
    studies = listed()
    groups = dict.fromkeys(entry.group for registry in registries() for entry in registry.studies.values())
    ordered = [*(group for group in groups if group != Entry.group), Entry.group]
    found = {group: {name: each for name, each in studies.items() if each.group == group} for group in ordered}
    return {group: entries for group, entries in found.items() if entries}


def find_study(name: str) -> StudyDefinition:
    """Return a study by its name, or by the path of a Python file that defines one.

    In a file the study is the only function whose first parameter is called ``study``; without one,
    `netsim.studies.plain` makes a study of the file. Raises BadInput if there is no such study, or the file cannot be
    used.
    """
    from netsim.studies import plain, script
    from netsim.util import check

    if not name.endswith(".py"):
        studies = listed()
        place, _, function = studies[check.one_of("study", name, studies)].place.partition(":")
        return _describe(name, getattr(importlib.import_module(place), function))
    module = script.new_module(name)
    with script.known(module):
        sha256, runs = plain.execute_up_to_a_run(name, module)
        found = [each for each in script.defined(module).values() if _is_study(each)]
        definition = _describe(name, found[0]) if len(found) == 1 and not runs else None
        if definition is None and (runs or not found):
            definition = plain.definition_of(name, module, runs, _describe)
        if definition is None:
            if not found and "experiment" in script.defined(module):
                raise BadInput(
                    f"study = {name!r}: must be a study here; `mine = study_of(experiment)` in the file "
                    "makes one of its experiment"
                )
            why = f"of the first it has {len(found)}"
            if not found and "__main__" in Path(name).read_text(errors="replace"):
                why = 'what stands under `if __name__ == "__main__":` is not run here'
            raise BadInput(f"study = {name!r}: must define {plain.FORMS}; {why}")
        return dataclasses.replace(definition, module=module, sha256=sha256)


def raised(definition: StudyDefinition, error: BaseException) -> str:
    """Return one line on the error that a study's code raised, with its file and line."""
    from netsim.studies import script

    file = definition.module.__file__ if definition.module else inspect.unwrap(definition.function).__code__.co_filename
    where = script.where(error, str(file))
    return f"study {definition.name!r} raised {type(error).__name__}{where}: {script.message(error)}"


def why(definition: StudyDefinition, error: BaseException) -> str:
    """Return one line on why a study stopped early."""
    if interrupted(error):
        return "interrupted"
    return " ".join(str(error).split()) if isinstance(error, NetsimError) else raised(definition, error)


def interrupted(error: BaseException | None) -> bool:
    """Return whether an error comes from a Ctrl-C, which a library may have converted to another error."""
    return any(isinstance(each, KeyboardInterrupt) for each in chain(error))


def _is_study(member: object) -> bool:
    if not inspect.isfunction(member):
        return False
    # The result of `study_of` has the signature of the function that makes the experiment, so look for `make`.
    return hasattr(member, "make") or next(iter(inspect.signature(member).parameters), "") == "study"


def _describe(name: str, function: Callable[..., None]) -> StudyDefinition:
    parameters, groups = flags_of(name, function)
    title = (inspect.getdoc(function) or "").partition("\n")[0]
    return StudyDefinition(name, function, title, parameters, groups)


def flags_of(name: str, function: Callable[..., Any]) -> tuple[tuple[Parameter, ...], tuple[tuple[str, type], ...]]:
    """Return a function's parameters, with dataclasses replaced by their fields, and those dataclasses by parameter.

    Raises BadInput for a parameter without a default, with a type that flags lack, or with a reserved name.
    """
    hints = _hints(name, function)
    hints.pop("return", None)
    groups = {key: hint for key, hint in hints.items() if dataclasses.is_dataclass(hint) and isinstance(hint, type)}
    parameters = [each for each in parameters_of(name, function) if each.name not in groups]
    # An experiment's study (`netsim.studies.experiment.study`) has flags derived from its parts.
    parameters += getattr(function, "named_parameters", tuple)()
    for key, group in groups.items():
        # A study may override the defaults of shared parameters.
        usual = inspect.signature(function).parameters[key].default
        parameters += [
            dataclasses.replace(
                each,
                default=getattr(usual, each.name, each.default),
                description=f"{each.description}{_by_data(usual, each.name)}",
            )
            for each in parameters_of(name, group)
        ]
    names = [parameter.name for parameter in parameters]
    for twice in sorted({each for each in names if names.count(each) > 1}):
        raise BadInput(f"study = {name!r}: must have one parameter {twice!r}, not {names.count(twice)}")
    return tuple(parameters), tuple(groups.items())


def _by_data(group: Any, field: str) -> str:
    """Return a help text on the default of an optional field whose group has a default per data set (``by_data()``)."""
    known = group.by_data() if hasattr(group, "by_data") else {}
    values = known.get(field, {}) if getattr(group, field) is None else {}
    if not values:
        return ""
    if len(set(values.values())) == 1:
        return f" [default: {_text(next(iter(values.values())))}]"
    usual = values.get("other")
    texts = [f"{_text(value)} for {data}" for data, value in values.items() if data != "other" and value != usual]
    return f" [default: {', '.join(texts + ([f'else {_text(usual)}'] if usual is not None else []))}]"


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def described(source: Any) -> dict[str, str]:
    """Return the descriptions of parameters in a docstring; a class inherits those of its bases."""
    found: dict[str, str] = {}
    for each in reversed(inspect.getmro(source)) if isinstance(source, type) else [source]:
        listed = re.findall(r"^(\w+(?:, \w+)*) : .*\n((?:    .*\n?)+)", inspect.getdoc(each) or "", re.MULTILINE)
        found |= {name: " ".join(text.split()) for names, text in listed for name in names.split(", ")}
    return found


def parameters_of(name: str, source: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a study's function except the study, or the fields of a dataclass."""
    words, hints = described(source), _hints(name, source)
    found = []
    for key, parameter in inspect.signature(source).parameters.items():
        if key == "study":
            continue
        if parameter.default is inspect.Parameter.empty:
            raise BadInput(f"study = {name!r}: must give its parameter {key!r} a default")
        if key in _TAKEN:
            raise BadInput(f"study = {name!r}: must give its parameter {key!r} another name; every run has its own")
        if dataclasses.is_dataclass(hints.get(key)):
            found.append(Parameter(key, object, False, parameter.default, words.get(key, "")))
            continue
        kind, optional = _kind(name, key, hints.get(key))
        default = parameter.default
        # Convert numpy scalars to Python's types, the only ones that a command line can give.
        plain = default.item() if type(default).__module__ == "numpy" and not default.ndim else default
        found.append(Parameter(key, kind, optional, plain, words.get(key, "")))
    return found


def _hints(name: str, source: Callable[..., Any]) -> dict[str, Any]:
    from netsim.studies.study import Study

    try:
        # A file may import Study under TYPE_CHECKING only.
        return typing.get_type_hints(source, localns={"Study": Study})
    except Exception as error:
        raise BadInput(
            f"study = {name!r}: must have types that can be found; {type(error).__name__}: {one_line(error)}"
        ) from None


def _kind(name: str, key: str, hint: Any) -> tuple[type, bool]:
    """Return a parameter's type, and whether the parameter may be None."""
    optional = False
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        optional = type(None) in typing.get_args(hint)
        hint = parts[0] if len(parts) == 1 else None
    if hint not in (int, float, str, bool):
        raise BadInput(
            f"study = {name!r}: must give its parameter {key!r} the type int, float, str or bool, or one | None"
        )
    return hint, optional


def run_command(name: str, parameters: Mapping[str, Any]) -> str:
    """Return the command that runs a study with some parameters; a parameter that is None has no flag."""
    flags = [flag(key, value) for key, value in parameters.items() if value is not None]
    return " ".join(["netsim run", shlex.quote(name), *flags])


def flag(name: str, value: Any) -> str:
    """Return a parameter and its value as a command-line flag."""
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    return f"--{option} {shlex.quote(str(value))}"
