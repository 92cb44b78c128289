"""A study in several processes: a dry run, the processes' parts, and these collected and held against the dry run."""

import asyncio
import dataclasses
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.distributed.merge import MergedRun, merge_run
from netsim.distributed.node import Missed
from netsim.distributed.transport import Transport
from netsim.engine.build import Settings as RunSettings
from netsim.engine.launch import BACKEND, Backend
from netsim.errors import BadInput, NetsimError
from netsim.network import Network
from netsim.radio.settings import Radio
from netsim.run import Run
from netsim.studies import Study, catalogue
from netsim.studies.catalogue import Scenario
from netsim.studies.deploy import sameness
from netsim.studies.deploy.plan import PARTS, Host, Plan, Settings
from netsim.studies.deploy.processes import Processes, apart
from netsim.studies.execute import reserved, tell_saved, terminable
from netsim.studies.formats import Formats
from netsim.studies.reserve import Reservation
from netsim.studies.terminal import Reporter

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["deploy", "gather_folder", "participate", "plan_of"]

Agents = Mapping[Any, Any]


# --- what runs the networks of a study --------------------------------------------------------------------------------


@contextmanager
def _on(backend: Backend | None) -> Iterator[None]:
    """Have a backend run networks meanwhile; None: the simulation."""
    token = BACKEND.set(backend)
    try:
        yield
    finally:
        BACKEND.reset(token)


def _run(network: Network, settings: RunSettings, result: Run, transport: Transport | None = None) -> Run:
    """Run a network without a backend."""
    with _on(None):
        return network.play(settings, result, transport)


class DryRun:
    """Simulates the runs of a study, which are then known; raises BadInput for one that cannot be deployed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.runs: list[Run] = []

    def __call__(self, network: Network, settings: RunSettings, result: Run) -> Run:
        """Simulate a run."""
        if isinstance(network.medium, Radio):
            raise BadInput(
                f"scenario = {self._plan.scenario!r}: must have wires, or a radio without collisions, to be deployed; "
                "what agents share on the air is in one process"
            )
        self._plan.places(network.graph)
        self.runs.append(_run(network, settings, result))
        return self.runs[-1]


class _Ended(Exception):  # noqa: N818  it is no error
    """A process has played all runs of the study: the rest of it is for the collector."""


class Participant:
    """Plays a process's part of each run, and then simulates the run: by its results the study goes on."""

    def __init__(self, plan: Plan, host: Host, folder: Path, report: Callable[[int, int], None]) -> None:
        self._plan, self._host, self._folder, self._report = plan, host, folder, report
        self._count = 0

    def __call__(self, network: Network, settings: RunSettings, result: Run) -> Run:
        """Play a part of a run; raises _Ended after the last."""
        number, self._count = self._count, self._count + 1

        settings = dataclasses.replace(settings, trace=False)

        def play(agents: Agents) -> None:
            mine = network.result_of(agents, result.probes, lambda row: self._report(number, row))
            transport = self._plan.transport(self._host, network.graph, network.round_period, self._folder)
            transport.first_run = number
            with suppress(Missed):  # it began again, and the others are further
                _run(network, settings, mine, transport)

        # The agents here are those that are simulated below.
        apart(play, result.agents)
        if self._count == self._plan.runs:
            raise _Ended
        return _run(network, settings, result)


class Collector:
    """Puts the runs that processes have played together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.found: list[MergedRun] = []

    def __call__(self, network: Network, settings: RunSettings, result: Run) -> Run:
        """Put the next run together."""
        self.found.append(merge_run(settings, result, self._folder, len(self.found)))
        return self.found[-1].run


# --- what the commands do ---------------------------------------------------------------------------------------------


class _OnlyProgress(Reporter):
    """Shows progress only."""

    def line(self, text: str = "") -> None:
        """Print nothing."""

    def table(self, title: str, frame: "pd.DataFrame") -> None:
        """Print nothing."""


def deploy(plan: Plan, out: str | None, formats: Formats, reporter: Reporter) -> bool:
    """Run a study in several processes on this machine, or write what each host is to run.

    Returns whether all processes came to their end.
    """
    scenario = catalogue.find_study(plan.scenario)
    with terminable(), reserved(scenario, out) as place:
        if plan.is_here:
            # What cannot be reached should be known before the work.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(plan.try_out())
        simulated = _dry_run(plan, reporter)
        plan = dataclasses.replace(plan, runs=len(simulated))
        if not plan.is_here:
            _write_folder(plan, place, reporter)
            return True
        # No other user may read it, for the key's sake.
        with tempfile.TemporaryDirectory(prefix="netsim-deploy-", ignore_cleanup_errors=True) as made:
            folder = Path(made)
            plan.write(folder)
            _run_processes(plan, folder, simulated, reporter)
            study, whole = _collected(plan, folder, simulated, reporter)
        _save(study, place, formats, reporter)
    return whole


def gather_folder(folder: Path, out: str | None, formats: Formats, reporter: Reporter) -> bool:
    """Make a run folder of what the processes of a deployment wrote; return whether all came to their end."""
    plan = Plan.read(folder)
    scenario, _ = plan.find()
    with terminable(), reserved(scenario, out) as place:
        simulated = _dry_run(plan, reporter)
        study, whole = _collected(plan, folder, simulated, reporter)
        _save(study, place, formats, reporter)
    return whole


def participate(folder: Path, name: str, report: Callable[[int, int], None]) -> None:
    """Run what one process has to, to the end of the last run."""
    plan = Plan.read(folder)
    host = plan.host(name)
    scenario, parameters = plan.find()
    # Sent to a process alone, as a scheduler does: its part is then whole, and says why it ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # With a trace, agents' states are kept, too.
    study = scenario.prepare(trace=plan.trace, **parameters)
    with _on(Participant(plan, host, folder / PARTS, report)):
        try:
            scenario.play(study)
        except _Ended:
            return
    raise NetsimError(f"scenario = {plan.scenario!r}: must make {plan.runs} runs, as planned; it made fewer")


def _dry_run(plan: Plan, reporter: Reporter) -> list[Run]:
    """Simulate the study: that finds out what cannot be done, how many runs there are, and what is to come out."""
    scenario, parameters = plan.find()
    dry_run = DryRun(plan)
    study = scenario.prepare(reporter=reporter if reporter.quiet else _OnlyProgress(), **parameters)
    with _on(dry_run):
        _play(scenario, study)
    if not dry_run.runs:
        raise BadInput(f"scenario = {plan.scenario!r}: must run a network in its own process, to be deployed")
    return dry_run.runs


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


def _collected(plan: Plan, folder: Path, simulated: list[Run], reporter: Reporter) -> tuple[Study, bool]:
    """Return the study with what the processes did in place of simulations, and whether all came to their end.

    The study notes how the two differ.
    """
    scenario, parameters = plan.find()
    collector = Collector(folder / PARTS)
    study = scenario.prepare(trace=plan.trace, reporter=_WithoutProgress(reporter), **parameters)
    try:
        with _on(collector):
            _play(scenario, study)
    except NetsimError as error:
        for before, made in zip(simulated, collector.found, strict=False):
            if before.rows and not made.run.rows and not made.killed and not made.failed:
                seconds = plan.settings.round_time
                raise NetsimError(
                    f"round_time = {seconds:g}: must be longer: all rounds had passed before the processes took part"
                ) from error
        raise
    named = {id(run): name for name, run in study.runs.items()}
    # A study may run networks besides those that it names.
    names = [named.get(id(made.run), f"run {number}") for number, made in enumerate(collector.found, start=1)]
    study.origin["command"] = shlex.join(["netsim", *sys.argv[1:]])
    study.origin["deployment"] = {**vars(plan.settings), "hosts": {host.name: host.address for host in plan.hosts}}
    study.table("processes", "Processes", sameness.processes(names, collector.found))
    for note in sameness.notes(names, simulated, collector.found):
        study.note(note)
    return study, not any(made.killed or made.failed for made in collector.found)


class _WithoutProgress(Reporter):
    """Shows what a study reports, but no progress: putting runs together is quick."""

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
