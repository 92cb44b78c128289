"""An experiment as a study, with flags and a report: one run of each method, or all cells.

A study that runs one cell of each method has traces and replays. A study of all cells runs them in a separate folder,
from which its run folder gets tables and figures.
"""

import dataclasses
import functools
import inspect
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from netsim.errors import AgentError, BadInput
from netsim.run import Run
from netsim.studies import tasks
from netsim.studies.catalogue import Parameter, flags_of
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import METHOD, NETWORK, PROBLEM, Cell, doubts, reader_of, task_of
from netsim.studies.experiment.command import PLAIN, flag_of, with_set_values
from netsim.studies.experiment.content import is_users, known, recorded
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.folder import check_folder
from netsim.studies.experiment.methods import Method
from netsim.studies.experiment.paths import plain
from netsim.studies.experiment.problems import Problem
from netsim.studies.experiment.setup import Setup
from netsim.studies.experiment.tuning import settled
from netsim.studies.outcome import outgrown
from netsim.studies.study import Study
from netsim.util.datafiles import record

SET = Parameter(
    "set",
    str,
    True,
    None,
    'Values of methods\' parameters: METHOD.PARAMETER=VALUE, several with commas between; "list" names what there is. '
    "Also of any path of the experiment: problem.features=50.",
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


@dataclass
class Played:
    """A cell that runs in a study: its name, the setup of its parts, and its duration in this process (s)."""

    name: str
    cell: Cell
    setup: Setup
    seconds: float = math.nan

    @property
    def kind(self) -> Any:
        """The method's class of agents, or None if a function makes them."""
        return getattr(self.cell.method, "kind", None)

    @property
    def given(self) -> Mapping[str, Any]:
        """The arguments given to the method, by name."""
        return getattr(self.cell.method, "given", {})

    @property
    def task(self) -> Any:
        """The learning task; None without a problem."""
        return self.setup.task


# Cached, because a sweep needs the flags at each point, and computing them takes up to 45 ms.
@functools.cache
def named_parameters(make: Callable[..., Experiment], folder: str | None = None) -> tuple[Parameter, ...]:
    """Return the flags of an experiment's short names, each open by default, and those that set its methods' values.

    Parameters in the grid have no flag. With a default ``folder`` the flags of `run_kept` are included.
    """
    usual = make()
    found = []
    for each in (flag_of(usual, name) for name in _names_of(usual)):
        text = f"{each.description} [default: {paths.brief(each.default)}]"
        found.append(dataclasses.replace(each, default=None, description=text))
    own = {each.name for each in flags_of(make.__name__, make)[0]}
    kept = [] if folder is None else [dataclasses.replace(FOLDER, default=folder), JOBS]
    return *found, *(each for each in (SET, SETTINGS) if each.name not in own), *kept


def _names_of(experiment: Experiment) -> list[str]:
    """Return the short names, except those in the grid."""
    tried = {name for values in experiment.grid for name in values}
    return [name for name in experiment.names if name not in tried]


Prepare = Callable[[Study, Experiment], Experiment]
"""What a study makes of its experiment before it runs."""

Ran = Callable[[Study, Played, AgentError | None], None]
"""What a study does after each run, with the error that ended it: it may note it, refuse, or raise it."""


def check_run(study: Study, played: Played, error: AgentError | None) -> None:
    """Raise the error that ended a run, unless the method's models outgrew their coder.

    Note if the method runs over a star with a server.
    """
    if error is not None and played.name not in study.lost:
        raise error
    if hasattr(played.kind, "graph_of") and hasattr(played.kind, "server"):
        called = played.cell.method.label.get("method", played.name)
        study.note(f"{called} runs over a star of the same agents and links, with agent 0 as its server.")


def tell_ran(study: Study, played: Played, error: AgentError | None) -> None:
    """Do as `check_run`, and note that a method whose models outgrew their coder diverged."""
    check_run(study, played, error)
    if error is not None:
        given = played.task.steps_text(played.given) if hasattr(played.task, "steps_text") else ""
        study.note(f"{played.name} diverged{given}, and is left out: {error}")


def study_of(
    make: Callable[..., Experiment],
    *,
    prepare: Prepare | None = None,
    ran: Ran = tell_ran,
    folder: str | None = None,
    measures: Mapping[str, tuple[Any, str]] = MappingProxyType({}),
) -> Callable[..., None]:
    """Return a function of a `Study` and flags that runs the experiment made by ``make``.

    The flags are those of ``make``, with dataclass arguments replaced by their fields, and `named_parameters`. With
    ``folder``, the default of the flag of that name, all cells run and are stored there (`run_kept`); without it one
    cell runs for each method (`play`, which gets ``prepare`` and ``ran``). ``measures`` maps names of switches to
    (measure, the switch's description).
    """

    @functools.wraps(make)
    def study_of_experiment(study: Study, **given: Any) -> None:
        own = {name: given[name] for name in inspect.signature(make).parameters if name in given}
        made = make(**own)
        asked = [measure for name, (measure, _) in measures.items() if given.get(name)]
        made = dataclasses.replace(made, measure=[*made.measure, *asked]) if asked else made
        chosen = {name: given[name] for name in made.names if given.get(name) is not None}
        if folder is None:
            play(study, made.with_values(chosen), prepare=prepare, ran=ran)
        else:
            run_kept(study, made.with_values(chosen))

    switches = [Parameter(name, bool, False, False, text) for name, (_, text) in measures.items()]
    study_of_experiment.named_parameters = lambda: [*named_parameters(make, folder), *switches]  # type: ignore[attr-defined]
    study_of_experiment.make = make  # type: ignore[attr-defined]
    return study_of_experiment


def play(study: Study, experiment: Experiment, *, prepare: Prepare | None = None, ran: Ran = tell_ran) -> None:
    """Run the cells of an experiment in a study, method by method, and call its report.

    The study's parameters ``settings`` and ``set`` give values to the methods; ``prepare`` may then change them. If a
    run raised, ``ran`` may leave out its method; the default does so if the method's models outgrew their coder.

    Raises
    ------
    BadInput
        For an unknown method or parameter, or a method without rounds.
    AgentError
        If an error ends all runs, or if ``ran`` raises the error of a run.
    """
    experiment = _begun(study, experiment)
    if prepare is not None:
        experiment = prepare(study, experiment)
    played = [Played(name, cell, cell.setup()) for name, cell in _named(experiment)]
    _take_told(study, played[0].task, played[0].cell.problem, played[0].cell.network)
    _check_made(played)
    error = None
    for each in played:
        lost = _run(study, each)
        ran(study, each, lost)
        error = lost or error
    if any(is_users(each.kind or type(each.cell.method)) for each in played):
        # Discard the tasks: a user's method may have changed their costs.
        tasks.forget()
    if not study.runs and error is not None:
        raise error
    task = played[-1].task
    if task is not None:
        # A task without `optimum` has no known optimum.
        study.centralised, study.error = getattr(task, "optimum", dict)(), task.error
    if experiment.report is not None:
        experiment.report(study, played)
    for measure in experiment.measure:
        if hasattr(measure, "show"):
            measure.show(study)


def run_kept(study: Study, experiment: Experiment) -> None:
    """Run all cells of an experiment in the folder named by a study's flags, and report their results.

    Existing cells are not run again unless code or data have changed, so an interrupted study continues. The study's
    parameters are ``folder``, ``jobs``, and ``set`` as in `play`.

    Raises
    ------
    BadInput
        For a folder with other files, and in the cases of `play` and `Experiment.run`.
    NetsimError
        If all cells fail.
    """
    if not (folder := study.settings[FOLDER.name]):
        raise BadInput("folder = '': must be the name of a folder")
    check_folder(Path(folder), FOLDER.name)
    experiment = _begun(study, experiment)
    cells: dict[str, Cell] = {}
    for cell in experiment.cells(experiment.seeds[:1]):
        cells.setdefault(cell.method_name, cell)
    _check_made([Played(name, cell, cell.setup()) for name, cell in cells.items()])
    results = experiment.run(folder, jobs=study.settings[JOBS.name], reporter=study.reporter)
    for _, found in results.cells:
        record(found.read)
    study.note(*results.notes)
    if experiment.report is not None:
        experiment.report(study, results)


def _begun(study: Study, experiment: Experiment) -> Experiment:
    """Return the experiment with the values that the study's flags set, and note its notes in the study."""
    shown = {name: experiment.values(name) for name in _names_of(experiment)}
    # A short name whose paths have different values is not recorded: no single value would repeat the run.
    study.record(**{n: v[0] for n, v in shown.items() if isinstance(v[0], PLAIN) and all(e == v[0] for e in v)})
    if (files := study.settings.get(SETTINGS.name)) and not experiment.tuning:
        names = [each.strip() for each in files.split(",")]
        experiment = settled(experiment, names, lambda cell: {**study.settings, **cell.columns})
    if experiment.tuning:
        _tell_tuning(study, experiment)
    experiment = with_set_values(experiment, study.settings.get(SET.name) or "", has_site="site" in study.settings)
    study.note(*experiment.notes)
    return experiment


def gives_values(study: Study) -> bool:
    """Return whether a study's flags set values of its methods, directly or from a file."""
    return any(study.settings.get(each.name) for each in (SET, SETTINGS))


def _tell_tuning(study: Study, experiment: Experiment) -> None:
    """Note how the settings were tuned, and record it in settings.json, because the tuning file may disappear."""
    about = {name: value for name, value in experiment.tuning.items() if name not in ("notes", "given")}
    study.origin["tuning"] = about
    searched = dict.fromkeys(f"{path} in {text}" for own in about["over"].values() for path, text in own.items())
    seeds = [f"{what} {', '.join(map(str, about[what]))}" for what in ("seeds", "validation") if about[what]]
    how = "; ".join([*searched, f"{about['runs']} runs", *seeds, f"least {about['metric']}"])
    study.note(f"Settings of {', '.join(about['methods'])} from {about['file']}: {how}.")


def _check_made(played: list[Played]) -> None:
    """Before anything runs, raise BadInput for an invalid argument of a method, or a column that is also a label."""
    labels = {name for each in played for name in each.cell.method.label}
    columns = getattr(played[0].task, "columns", ())
    for column in columns if isinstance(columns, tuple) else ():
        if column in labels:
            raise BadInput(f"measure of {played[0].task.name}: must have another name for its column {column!r}")
    for each in played:
        if isinstance(each.cell.method, Method):
            each.cell.method.agents(each.setup, list(each.setup.graph or ())[:1])


def _named(experiment: Experiment) -> list[tuple[str, Cell]]:
    """Return the cells with their names, which join the method, problem, network and setting, omitting repetitions."""
    shown = dict.fromkeys([METHOD, PROBLEM, NETWORK, *(path for setting in experiment.grid for path in setting)])
    order = {name: number for number, name in enumerate(experiment.methods)}
    found = []
    for cell in sorted(experiment.cells(), key=lambda each: order[each.method_name]):
        columns = {**cell.columns, METHOD: cell.method_name}
        words = [str(columns[path]) for path in shown if path in columns]
        found.append((" ".join(dict.fromkeys(filter(None, words))), cell))
    return found


def learned(study: Study, problem: Problem, setup: Setup) -> Any:
    """Return the task of a study's run, and add its notes, tables and settings to the study.

    Consecutive studies in one process, such as the points of a sweep, share the task.
    """
    with recorded(reader_of(problem)):
        task = task_of(problem, setup)
    _take_told(study, task, problem)
    return task


def _take_told(study: Study, task: Any, *parts: Any) -> None:
    """Add the notes, tables and settings from a task's construction to the study, and record the files read."""
    for part in parts:
        record(known(reader_of(part)))
    if (told := getattr(task, "told", None)) is not None:
        study.settings |= {name: value for name, value in told.settings.items() if name in study.settings}
        study.take(told)


def _run(study: Study, played: Played) -> AgentError | None:
    """Run a cell; return the error that ended it, or None."""
    cell, setup, name = played.cell, played.setup, played.name
    task, start = played.task, time.perf_counter()
    agents = cell.method.agents(setup)
    if isinstance(cell.method, Method):
        tell_parameters(study, name, cell.method, agents, 0 if task is None else 2)
    study.note(*(f"{name}: {each}." for each in doubts(setup, agents, cell.measure)))
    probes = cell.probes(setup, agents)
    assert setup.network is not None
    how: dict[str, Any] = {"until": cell.until, "sample": cell.sample, "watch": getattr(task, "watch", None)}
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            check_took_part(name, study.run(name, setup.network, agents, probes, setup.rounds, **how))
            played.seconds = time.perf_counter() - start
            study.constant = getattr(task, "constant", {})
    except AgentError as error:
        study.lost |= {name: lost} if (lost := outgrown(error)) else {}
        return error
    return None


def check_took_part(name: str, run: Run) -> Run:
    """Return the run; raises BadInput if no agent took part in any round, because it then has no results."""
    if not run.rows:
        raise BadInput(f"{name} took part in no round: run() must iterate with async for k in self.rounds(rounds)")
    return run


# --- a run's parameters -----------------------------------------------------------------------------------------------


def tell_parameters(study: Study, name: str, method: Method, agents: Mapping[Any, Any], given: int) -> None:
    """Print a method's parameters under the name of its run, and record them in the study's settings.json.

    The first ``given`` arguments of the method's class are omitted, because they come from the run.
    """
    used = _used(method, next(iter(agents.values())), given)
    study.origin.setdefault("methods", {})[name] = {"class": method.kind.__name__, **used}
    listed = [f"{key} {value}" for key, value in used.items() if value is not None and value is not False]
    study.reporter.line(f"{name}: {', '.join([method.kind.__name__, *listed])}")


def _used(method: Method, agent: Any, given: int) -> dict[str, Any]:
    """Return an agent's parameters by name, except the first ``given`` arguments of its class."""
    found, known = dict[str, Any](), Method(method.kind).parameters()
    for name, parameter in list(inspect.signature(method.kind).parameters.items())[given:]:
        if name == "weights" and name not in known:
            found[name] = "Metropolis"
        elif parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            value = method.given.get(name, known.get(name))
            # Prefer the agent's attribute, whose value may be converted. It may be missing, if stored under another
            # name.
            with suppress(Exception):
                value = vars(agent).get("_schedules", {}).get(name, getattr(agent, name))
            found[name] = _text(value)
    return found


def _text(value: Any) -> Any:
    """Return a parameter's value for settings.json, without memory addresses, which differ between processes."""
    value = plain(value)
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return paths.represented(value)[:200]
