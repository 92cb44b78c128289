"""An experiment as a study: one run of each method, with its flags, traces, replays and a report."""

import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.errors import AgentError, BadInput
from netsim.run import Run
from netsim.studies.catalogue import Parameter
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import Cell, forget_task, reader_of, task_of
from netsim.studies.experiment.command import _help_of, _kind_of
from netsim.studies.experiment.content import is_users
from netsim.studies.experiment.experiment import NETWORK, PROBLEM, Experiment
from netsim.studies.experiment.methods import Method, default_of
from netsim.studies.experiment.opened import known, recorded
from netsim.studies.experiment.problems import Problem
from netsim.studies.experiment.results import METHOD
from netsim.studies.experiment.setup import Setup
from netsim.studies.outcome import may_diverge
from netsim.studies.study import Study
from netsim.studies.values import ASK, parsed, typed, values_of
from netsim.util.datafiles import record

_PLAIN = (bool, int, float, str)
_PARTS = ("censor", "duals")

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


@dataclass(frozen=True)
class Played:
    """A cell that ran in a study under a name, and the setup for which its parts were made."""

    name: str
    cell: Cell
    setup: Setup

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


def named_parameters(make: Callable[..., Experiment]) -> list[Parameter]:
    """Return the flags of an experiment's short names, each left open by default, and those of its methods' values."""
    usual = make()
    found = []
    for name in usual.names:
        value = usual.values(name)[0]
        text = f"{_help_of(usual, name)} [default: {paths.brief(value)}]"
        found.append(Parameter(name, _kind_of(None, value), True, None, text))
    return [*found, SET, SETTINGS]


Ran = Callable[[Study, Played, AgentError | None], None]
"""What a study does after each run, with the error of models that outgrew their coder: it may note, or refuse."""


def tell_star(study: Study, played: Played) -> None:
    """Note that a method ran over a star, if it did."""
    if getattr(played.kind, "graph_of", None) is not None:
        called = played.cell.method.label.get("method", played.name)
        study.note(f"{called} runs over a star of the same agents and links, with agent 0 as its server.")


def tell_ran(study: Study, played: Played, error: AgentError | None) -> None:
    """Note that a method ran over a star, and that it diverged, if its models outgrew their coder."""
    tell_star(study, played)
    if error is not None:
        study.note(f"{played.name} diverged, and is left out: {error}")


def study_of(make: Callable[..., Experiment], ran: Ran = tell_ran) -> Callable[..., None]:
    """Return a function of a `Study` and flags that runs the experiment which a function makes.

    Its flags are the function's, with the fields of its arguments that are dataclasses, and `named_parameters`.
    """

    @functools.wraps(make)
    def study_of_experiment(study: Study, **given: Any) -> None:
        own = {name: given[name] for name in inspect.signature(make).parameters if name in given}
        made = make(**own)
        chosen = {name: given[name] for name in made.names if given.get(name) is not None}
        play(study, made.with_values(chosen), ran)

    study_of_experiment.named_parameters = functools.partial(named_parameters, make)  # type: ignore[attr-defined]
    return study_of_experiment


def play(study: Study, experiment: Experiment, ran: Ran = tell_ran) -> None:
    """Run the cells of an experiment in a study, those of each method one after the other, and let it report.

    The values of the study's parameters ``set`` and ``settings`` are given to the methods. A method whose models
    outgrow their coder is left out; ``ran`` notes it.

    Raises
    ------
    BadInput
        For a method or parameter that there is not, or a method that takes part in no round.
    AgentError
        If every method's models outgrow their coder.
    """
    shown = {name: experiment.values(name)[0] for name in experiment.names}
    study.record(**{name: value for name, value in shown.items() if isinstance(value, _PLAIN)})
    experiment = with_set_values(study, experiment)
    study.note(*experiment.notes)
    played = [Played(name, cell, cell.setup()) for name, cell in _named(experiment)]
    _take_told(study, played[0].task, played[0].cell.problem, played[0].cell.network)
    labels = {name for each in played for name in each.cell.method.label}
    for column in getattr(played[0].task, "columns", ()):
        if column in labels:
            raise BadInput(f"measure of {played[0].task.name}: must have another name for its column {column!r}")
    for each in played:
        if isinstance(each.cell.method, Method):
            # It refuses what it cannot take before anything runs.
            each.cell.method.agent(each.setup, next(iter(each.setup.graph or ())))
    error = None
    for each in played:
        lost = _run(study, each)
        ran(study, each, lost)
        error = lost or error
    if any(is_users(each.kind or type(each.cell.method)) for each in played):
        # A method of the user's own may have changed the costs.
        forget_task()
    if not study.runs and error is not None:
        raise error
    task = played[-1].task
    if task is not None:
        # A task without it knows no optimum.
        study.centralised, study.error = getattr(task, "optimum", dict)(), task.error
        if math.isfinite(variance := getattr(task, "variance", math.inf)):
            study.constant = {task.error: variance}
    if experiment.report is not None:
        experiment.report(study, played)


def _named(experiment: Experiment) -> list[tuple[str, Cell]]:
    """Return the cells with their names: the method, problem, network and the values of the setting, each once."""
    shown = dict.fromkeys([METHOD, PROBLEM, NETWORK, *(path for setting in experiment.grid for path in setting)])
    order = {name: number for number, name in enumerate(experiment.methods)}
    found = []
    for cell in sorted(experiment.cells(), key=lambda each: order[each.method_name]):
        columns = {**cell.columns, METHOD: cell.method_name}
        words = [str(columns[path]) for path in shown if path in columns]
        found.append((" ".join(dict.fromkeys(filter(None, words))), cell))
    return found


def learned(study: Study, problem: Problem, setup: Setup) -> Any:
    """Return the task of a run of a study, which takes the notes, tables and settings that came up when it was made.

    Studies that follow each other in one process, as the points of a sweep, share the task.
    """
    with recorded(reader_of(problem)):
        task = task_of(problem, setup)
    _take_told(study, task, problem)
    return task


def _take_told(study: Study, task: Any, *parts: Any) -> None:
    """Take what a task told of itself when it was made, and the files that parts read."""
    for part in parts:
        record(known(reader_of(part)))
    if (told := getattr(task, "told", None)) is not None:
        study.settings |= {name: value for name, value in told.settings.items() if name in study.settings}
        study.take(told)


def _run(study: Study, played: Played) -> AgentError | None:
    """Run a cell; if its models outgrow their coder, return the error."""
    cell, setup, name = played.cell, played.setup, played.name
    task = setup.task
    agents = cell.method.agents(setup)
    _tell_parameters(study, played, agents)
    probes = [*([] if task is None else [task.measure]), *cell.measure]
    assert setup.network is not None
    with may_diverge() as trial:
        how: dict[str, Any] = {"sample": cell.sample, "watch": getattr(task, "watch", None)}
        run = study.run(name, setup.network, agents, probes, cell.rounds, **how)
        check_took_part(name, run)
    if trial.how is not None:
        study.lost[name] = trial.how
    return trial.error


def check_took_part(name: str, run: Run) -> Run:
    """Return the run; raises BadInput if no agent took part in any round, as there are then no results."""
    if not run.rows:
        raise BadInput(f"{name} took part in no round: run() must iterate with async for k in self.rounds(rounds)")
    return run


# --- values of methods' parameters ------------------------------------------------------------------------------------


_PLACES = ("problem", "network", "networks", "method", "methods")


def with_set_values(study: Study, experiment: Experiment) -> Experiment:
    """Return the experiment with the values that a study's parameters ``set`` and ``settings`` give.

    ``set`` takes METHOD.PARAMETER=VALUE, and any path of the experiment, as problem.features=50.
    """
    text = study.settings.get(SET.name) or ""
    given = {} if text == ASK else parsed(text)
    deep = {f"{place}.{name}": value for (place, name), value in given.items() if place.partition(".")[0] in _PLACES}
    values: dict[str, Any] = {
        path: typed(f"set {path}", value, _plain(experiment.values(path)[0])) for path, value in deep.items()
    }
    places = {name: settable(name, method) for name, method in experiment.methods.items()}
    present = {
        name: {each: _plain(paths.values_at(experiment.methods[name], path)[0]) for each, path in own.items()}
        for name, own in places.items()
    }
    for name, own in values_of(study, present, text if not deep else ",".join(_without(text, deep))).items():
        values |= {f"methods.{name}.{places[name][parameter]}": value for parameter, value in own.items()}
    return experiment.with_values(values)


def _without(text: str, paths_: Mapping[str, Any]) -> list[str]:
    """Return the parts of a text of values but those of some paths."""
    return [part for part in text.split(",") if part.partition("=")[0].strip() not in paths_]


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
