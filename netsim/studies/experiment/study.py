"""An experiment as a study, with its flags and a report: one run of each method, with traces and replays, or all cells.

All cells of an experiment run in a folder of their own, from which the study's run folder gets tables and figures.
"""

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import AgentError, BadInput
from netsim.run import Run
from netsim.studies.catalogue import Parameter
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import Cell, forget_task, reader_of
from netsim.studies.experiment.command import _help_of, _kind_of
from netsim.studies.experiment.content import is_users
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.folder import check_folder
from netsim.studies.experiment.methods import Method, default_of
from netsim.studies.experiment.opened import known
from netsim.studies.experiment.setup import Setup
from netsim.studies.outcome import may_diverge
from netsim.studies.study import Study
from netsim.studies.values import values_of
from netsim.util.datafiles import record

_PLAIN = (bool, int, float, str)
_PARTS = ("censor", "duals")

SET = Parameter(
    "set",
    str,
    True,
    None,
    'Values of methods\' parameters: METHOD.PARAMETER=VALUE, several with commas between; "list" names what there is.',
)
SETTINGS = Parameter(
    "settings",
    str,
    True,
    None,
    "The tuned.json of `netsim tune`: each method runs with the values that were best for this condition. Of several "
    "with commas between, the first that was tuned for it.",
)
FOLDER = Parameter(
    "folder", str, False, "", "Folder of the runs: a new one, or one that runs of this study have filled."
)
JOBS = Parameter("jobs", int, False, 2, "Number of processes.")
REDO = Parameter("redo", bool, False, False, "Needed no more: what other code or data gave runs again by itself.")


@dataclass(frozen=True)
class Played:
    """A cell that ran in a study, and the setup for which its parts were made."""

    cell: Cell
    setup: Setup

    @property
    def name(self) -> str:
        """The method's name."""
        return str(self.cell.columns["method"])

    @property
    def kind(self) -> Any:
        """The method's class of agents, or None if a function makes them."""
        return getattr(self.cell.method, "kind", None)

    @property
    def given(self) -> Mapping[str, Any]:
        """The arguments that the method was given, by name."""
        return getattr(self.cell.method, "given", {})

    @property
    def task(self) -> Any:
        """What the agents learned; None without a problem."""
        return self.setup.task


def named_parameters(make: Callable[..., Experiment], folder: str | None = None) -> list[Parameter]:
    """Return the flags of an experiment's short names, each left open by default, and those of its methods' values.

    What the grid tries has no flag. With the default of a ``folder`` there are those of `run_kept`, too.
    """
    usual = make()
    found = []
    for name, value in _named_values(usual).items():
        text = f"{_help_of(usual, name)} [default: {paths.brief(value)}]"
        found.append(Parameter(name, _kind_of(None, value), True, None, text))
    own = inspect.signature(make).parameters
    kept = [] if folder is None else [dataclasses.replace(FOLDER, default=folder), JOBS, REDO]
    return [*found, *(each for each in (SET, SETTINGS) if each.name not in own), *kept]


def _named_values(experiment: Experiment) -> dict[str, Any]:
    """Return the present values of the short names, except of what the grid tries."""
    tried = {name for values in experiment.grid for name in values}
    return {name: experiment.values(name)[0] for name in experiment.names if name not in tried}


def study_of(make: Callable[..., Experiment], *, folder: str | None = None) -> Callable[..., None]:
    """Return a function of a `Study` and flags that runs the experiment which a function makes.

    Its flags are the function's, with the fields of its arguments that are dataclasses, and `named_parameters`. With
    ``folder``, the default of a flag, it runs all cells and keeps them there (`run_kept`), else one for each method
    (`play`).
    """

    @functools.wraps(make)
    def study_of_experiment(study: Study, **given: Any) -> None:
        own = {name: given[name] for name in inspect.signature(make).parameters if name in given}
        made = make(**own)
        chosen = {name: given[name] for name in made.names if given.get(name) is not None}
        (play if folder is None else run_kept)(study, made.with_values(chosen))

    named = functools.partial(named_parameters, make, folder)
    study_of_experiment.named_parameters = named  # type: ignore[attr-defined]
    return study_of_experiment


def play(study: Study, experiment: Experiment) -> None:
    """Run the cells of an experiment in a study, one for each method, and let it report.

    The values of the study's parameters ``set`` and ``settings`` are given to the methods. A method whose models
    outgrow their coder is left out, with a note.

    Raises
    ------
    BadInput
        For a method or parameter that there is not, or a method that takes part in no round.
    AgentError
        If every method's models outgrow their coder.
    """
    experiment, played = _begun(study, experiment)
    _take_told(study, played[0])
    error = None
    for each in played:
        error = _run(study, each) or error
    if any(is_users(each.kind or type(each.cell.method)) for each in played):
        # A method of the user's own may have changed the costs.
        forget_task()
    if not study.runs and error is not None:
        raise error
    task = played[-1].task
    if task is not None:
        study.centralised, study.error = task.optimum(), task.error
        if math.isfinite(variance := getattr(task, "variance", math.inf)):
            study.constant = {task.error: variance}
    if experiment.report is not None:
        experiment.report(study, played)


def run_kept(study: Study, experiment: Experiment) -> None:
    """Run all cells of an experiment in the folder that a study's flags name, and let it report on their results.

    Cells that are there are not run again, so an interrupted study goes on. The study's parameters are ``folder``,
    ``jobs``, ``redo``, and ``set`` as of `play`.

    Raises
    ------
    BadInput
        For a folder that holds something else; as `play` does; as `Experiment.run` does.
    NetsimError
        If all cells fail.
    """
    if not (folder := study.settings[FOLDER.name]):
        raise BadInput("folder = '': must be the name of a folder")
    check_folder(Path(folder), FOLDER.name)
    if study.settings[REDO.name]:
        study.reporter.line(f"--redo may be left out. {REDO.description}")
    experiment, _ = _begun(study, experiment)
    results = experiment.run(folder, jobs=study.settings[JOBS.name], reporter=study.reporter)
    for _, found in results.cells:
        record(found.read)
    study.note(*results.notes)
    if experiment.report is not None:
        experiment.report(study, results)


def _begun(study: Study, experiment: Experiment) -> tuple[Experiment, list[Played]]:
    """Return the experiment with the values that a study gives its methods, and a cell of each; note its notes.

    It refuses what the methods cannot take before anything runs.
    """
    study.record(**{name: value for name, value in _named_values(experiment).items() if isinstance(value, _PLAIN)})
    experiment = with_set_values(study, experiment)
    study.note(*experiment.notes)
    cells: dict[str, Cell] = {}
    for cell in experiment.cells(experiment.seeds[:1]):
        cells.setdefault(cell.columns["method"], cell)
    played = [Played(cell, cell.setup()) for cell in cells.values()]
    for each in played:
        if isinstance(each.cell.method, Method):
            each.cell.method.agent(each.setup, next(iter(each.setup.graph or ())))
    return experiment, played


def _take_told(study: Study, first: Played) -> None:
    """Take what the problem told of itself when it was made, and the files that were read."""
    for part in (first.cell.problem, first.cell.network):
        record(known(reader_of(part)))
    if (told := getattr(first.setup.task, "told", None)) is not None:
        study.settings |= told.settings
        study.take(told)


def _run(study: Study, played: Played) -> AgentError | None:
    """Run a cell; if its models outgrow their coder, note that and return the error."""
    cell, setup, name = played.cell, played.setup, played.name
    task = setup.task
    if getattr(played.kind, "graph_of", None) is not None:
        called = cell.method.label.get("method", name)
        study.note(f"{called} runs over a star of the same agents and links, with agent 0 as its server.")
    agents = cell.method.agents(setup)
    _tell_parameters(study, played, agents)
    probes = [*([] if task is None else [task.measure]), *cell.measure]
    assert setup.network is not None
    with may_diverge() as trial:
        run = study.run(name, setup.network, agents, probes, cell.rounds, watch=getattr(task, "watch", None))
        check_took_part(name, run)
    if trial.how is not None:
        study.lost[name] = trial.how
        study.note(f"{name} diverged, and is left out: {trial.error}")
    return trial.error


def check_took_part(name: str, run: Run) -> Run:
    """Return the run; raises BadInput if no agent took part in any round, as there are then no results."""
    if not run.rows:
        raise BadInput(f"{name} took part in no round: run() must iterate with async for k in self.rounds(rounds)")
    return run


# --- values of methods' parameters ------------------------------------------------------------------------------------


def with_set_values(study: Study, experiment: Experiment) -> Experiment:
    """Return the experiment with the values that a study's parameters ``set`` and ``settings`` give to its methods.

    What is given to a family, a method's label of this name, is given to all its variants. An experiment that has
    settings by condition keeps them, but where ``set`` gives a value.
    """
    families: dict[str, list[str]] = {}
    for name, method in experiment.methods.items():
        families.setdefault(method.label.get("family", name), []).append(name)
    places = {name: settable(name, method) for name, method in experiment.methods.items()}
    plain: dict[str, dict[str, Any]] = {}
    for family, (first, *_) in families.items():
        found = {each: paths.values_at(experiment.methods[first], path)[0] for each, path in places[first].items()}
        plain[family] = {each: _plain(value) for each, value in found.items()}
    asked = Study(study.scenario, {"set": study.settings.get("set")}) if experiment.settings else study
    given = {
        name: {places[name][parameter]: value for parameter, value in own.items()}
        for family, own in values_of(asked, plain).items()
        for name in families[family]
    }
    settings = dict(experiment.settings)
    for name, own in given.items():
        settings |= {key: {**tuned, **own} for key, tuned in settings.items() if f"method={name}" in key}
    values = {f"methods.{name}.{path}": value for name, own in given.items() for path, value in own.items()}
    return dataclasses.replace(experiment.with_values(values), settings=settings)


def settable(name: str, method: Any) -> dict[str, str]:
    """Return the paths of a method's parameters that are numbers, switches or words, by the names that ``set`` takes.

    Parameters of a censor or of duals go by their own names, those of a coder by ``coder.bits``. A coder that the
    method's name tells has none: another one would make the name wrong.
    """
    found: dict[str, str] = {}
    names_coder = method.label.get("coder", "own") != "own" or re.search(r"\d-?bit", name) is not None
    for path, value in paths.places(method):
        first, _, rest = path.partition(".")
        if first == "weights" or (first == "coder" and names_coder):
            continue
        value = _plain(value)
        if value is None or isinstance(value, _PLAIN):
            found.setdefault(rest if first in _PARTS and rest else path, path)
    ordered = sorted(found.items(), key=lambda each: "." in each[1])
    return {parameter: path for parameter, path in ordered if path not in ("coder", *_PARTS)}


# --- what is told of a run --------------------------------------------------------------------------------------------


def _tell_parameters(study: Study, played: Played, agents: Mapping[Any, Any]) -> None:
    """Print a method's parameters, and record them in the study's settings.json."""
    method = played.cell.method
    if not isinstance(method, Method):
        return
    used = _used(method, next(iter(agents.values())), 2 if played.setup.task is not None else 0)
    study.origin.setdefault("methods", {})[played.name] = {"class": method.kind.__name__, **used}
    listed = [f"{key} {value}" for key, value in used.items() if value is not None and value is not False]
    study.reporter.line(f"{played.name}: {', '.join([method.kind.__name__, *listed])}")


def _used(method: Method, agent: Any, given: int) -> dict[str, Any]:
    """Return an agent's parameters by name, except the first ``given``, which the run gives."""
    found: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(method.kind).parameters.items())[given:]:
        usual = default_of(method.kind, name)
        if name == "weights" and usual is parameter.empty:
            found[name] = "Metropolis"
        elif parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            value = method.given.get(name, None if usual is parameter.empty else usual)
            # Prefer the agent's attribute, which may be converted; it may be missing if stored under another name.
            with suppress(Exception):
                value = vars(agent).get("_schedules", {}).get(name, getattr(agent, name))
            found[name] = _text(value)
    return found


def _plain(value: Any) -> Any:
    """Return a number, switch or word of numpy's as one of Python's, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _text(value: Any) -> Any:
    """Return a parameter's value as stored in settings.json, without memory addresses, which differ by process."""
    value = _plain(value)
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(repr(value).split()))[:200]
