"""A study in several processes: simulated first, then played for real, gathered, and held against the simulation."""

import asyncio
import dataclasses
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput, NetsimError
from netsim.run import Run
from netsim.studies import Study, catalogue
from netsim.studies.catalogue import Scenario
from netsim.studies.deploy import sameness
from netsim.studies.deploy.plan import PARTS, Host, Plan, Settings
from netsim.studies.deploy.processes import Processes
from netsim.studies.deploy.stages import Ended, Playback, Rehearsal, Share, on
from netsim.studies.execute import reserved, tell_saved, terminable
from netsim.studies.formats import Formats
from netsim.studies.reserve import Reservation
from netsim.studies.terminal import Reporter

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Asked", "deploy", "gather_folder", "play_share"]


@dataclass(frozen=True)
class Asked:
    """What is asked of the run folder: where, and in which formats."""

    out: str | None
    formats: Formats


class _Progress(Reporter):
    """Shows progress only."""

    def line(self, text: str = "") -> None:
        """Print nothing."""

    def table(self, title: str, frame: "pd.DataFrame") -> None:
        """Print nothing."""


def deploy(plan: Plan, asked: Asked, reporter: Reporter) -> bool:
    """Run a study in several processes on this machine, or write what each host is to run.

    Returns whether all processes came to their end.
    """
    scenario = catalogue.find(plan.scenario)
    with terminable(), reserved(scenario, asked.out) as place:
        if plan.is_here:
            # What is not to be had should be known before the work.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(plan.try_out())
        rehearsal = _rehearsed(plan, reporter)
        plan = dataclasses.replace(plan, runs=len(rehearsal.runs))
        if not plan.is_here:
            _write_folder(plan, place, reporter)
            return True
        # Nobody else may read it, for the key's sake.
        with tempfile.TemporaryDirectory(prefix="netsim-deploy-", ignore_cleanup_errors=True) as made:
            folder = Path(made)
            plan.write(folder)
            _run_processes(plan, folder, rehearsal.runs, reporter)
            study, whole = _played_back(plan, folder, rehearsal.runs, reporter)
        _save(study, place, asked.formats, reporter)
    return whole


def gather_folder(folder: Path, asked: Asked, reporter: Reporter) -> bool:
    """Make a run folder of what the processes of a deployment wrote; return whether all came to their end."""
    plan = Plan.read(folder)
    scenario, _ = plan.find()
    with terminable(), reserved(scenario, asked.out) as place:
        rehearsal = _rehearsed(plan, reporter)
        study, whole = _played_back(plan, folder, rehearsal.runs, reporter)
        _save(study, place, asked.formats, reporter)
    return whole


def play_share(folder: Path, name: str, told: Callable[[int, int], None]) -> None:
    """Run what one process has to, to the end of the last run."""
    plan = Plan.read(folder)
    host = plan.host(name)
    scenario, parameters = plan.find()
    # Sent to a process alone, as a scheduler does: its part is then whole, and says why it ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    share = Share(plan, host, folder / PARTS, told)
    # With a trace, agents' states are kept, too.
    study = scenario.prepare(trace=plan.trace, **parameters)
    with on(share):
        try:
            scenario.play(study)
        except Ended:
            return
    raise NetsimError(f"scenario = {plan.scenario!r}: must make {plan.runs} runs, as planned; it made fewer")


def _rehearsed(plan: Plan, reporter: Reporter) -> Rehearsal:
    """Simulate the study: that finds out what cannot be done, how many runs there are, and what is to come out."""
    scenario, parameters = plan.find()
    rehearsal = Rehearsal(plan)
    study = scenario.prepare(reporter=reporter if reporter.quiet else _Progress(), **parameters)
    with on(rehearsal):
        _play(scenario, study)
    if not rehearsal.runs:
        raise BadInput(f"scenario = {plan.scenario!r}: must run a network in its own process, to be deployed")
    return rehearsal


def _play(scenario: Scenario, study: Study) -> None:
    """Play a study; raises NetsimError in one line where it does not come to its end."""
    try:
        scenario.play(study)
    except BaseException as error:
        # Whatever ends it, as a sys.exit.
        if catalogue.interrupted(error):
            raise
        raise NetsimError(catalogue.why(scenario, error)) from error


def _run_processes(plan: Plan, folder: Path, simulated: list[Run], reporter: Reporter) -> None:
    """Start the processes and wait for them."""
    (folder / PARTS).mkdir()
    rows = [run.rows for run in simulated]
    label = f"{len(plan.hosts)} processes over {plan.settings.carrier}"
    with (
        reporter.progress(label, sum(rows), "row ") as progress,
        Processes(plan, folder, lambda run, row: progress(sum(rows[:run]) + row)) as processes,
    ):
        processes.wait()


def _played_back(plan: Plan, folder: Path, simulated: list[Run], reporter: Reporter) -> tuple[Study, bool]:
    """Return the study with what the processes did in place of simulations, and whether all came to their end.

    The study notes how the two differ.
    """
    scenario, parameters = plan.find()
    playback = Playback(folder / PARTS)
    study = scenario.prepare(trace=plan.trace, reporter=_Told(reporter), **parameters)
    try:
        with on(playback):
            _play(scenario, study)
    except NetsimError as error:
        for before, made in zip(simulated, playback.found, strict=False):
            if before.rows and not made.run.rows and not made.killed and not made.failed:
                seconds = plan.settings.round_time
                raise NetsimError(
                    f"round_time = {seconds:g}: must be longer: all rounds had passed before the processes took part"
                ) from error
        raise
    named = {id(run): name for name, run in study.runs.items()}
    # A study may run networks besides those that it names.
    names = [named.get(id(made.run), f"run {number}") for number, made in enumerate(playback.found, start=1)]
    study.origin["command"] = shlex.join(["netsim", *sys.argv[1:]])
    study.origin["deployment"] = {**vars(plan.settings), "hosts": {host.name: host.address for host in plan.hosts}}
    study.table("processes", "Processes", sameness.processes(names, playback.found))
    for note in sameness.notes(names, simulated, playback.found):
        study.note(note)
    return study, not any(made.killed or made.failed for made in playback.found)


class _Told(Reporter):
    """Shows what a study says, but no progress: putting runs together is quick."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter.quiet)

    @contextmanager
    def progress(self, label: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
        """Show nothing."""
        yield lambda number: None


def _save(study: Study, place: Reservation, formats: Formats, reporter: Reporter) -> None:
    study.formats = formats
    study.save(place)
    tell_saved(place, reporter)


def _write_folder(plan: Plan, place: Reservation, reporter: Reporter) -> None:
    """Write the deployment's folder, and say what is to be done with it."""
    plan.write(place.parts)
    place.publish()
    shown = shlex.quote(place.shown)
    reporter.line(f"{place.shown}: deployment.json, key")
    reporter.line("Copy the folder to each host, over a way that nobody reads: its key opens the network. Then start")
    for host in plan.hosts:
        reporter.line(f"  on {host.name} ({host.address}): netsim node {shown} --host {host.name}")
    reporter.line(
        f"within {plan.settings.patience:g} s of each other. When they have ended, copy what each has written"
    )
    reporter.line(f"into its {place.shown}/{PARTS} to the same place here, and: netsim gather {shown}")


def plan_of(
    scenario: Scenario, parameters: Mapping[str, Any], settings: Settings, hosts: tuple[Host, ...], trace: bool
) -> Plan:
    """Return the plan of a study with these parameters."""
    # From any folder it is the same file.
    name = str(Path(scenario.name).resolve()) if scenario.sha256 else scenario.name
    return Plan(name, dict(parameters), settings, hosts, trace=trace, sha256=scenario.sha256)
