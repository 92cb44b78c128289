"""A study in several processes: simulated, played in parts, merged, and compared with the simulation."""

import asyncio
import copy
import dataclasses
import itertools
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from netsim.distributed.merge import MergedRun, merge_run
from netsim.distributed.node import Missed, must_be_apart
from netsim.distributed.transport import Transport
from netsim.engine.build import Settings
from netsim.errors import BadInput, NetsimError
from netsim.network import BACKEND, Backend, Network
from netsim.radio.settings import Radio
from netsim.run import Run
from netsim.studies import Study, catalogue
from netsim.studies.deploy import sameness
from netsim.studies.deploy.plan import PARTS, Plan
from netsim.studies.deploy.processes import Ended, Processes, forked
from netsim.studies.execute import reserved, show_saved, terminable
from netsim.studies.formats import Formats
from netsim.studies.reserve import Reservation
from netsim.studies.terminal import Reporter

Agents = Mapping[Any, Any]


def deploy(plan: Plan, out: str | None, formats: Formats, reporter: Reporter) -> bool:
    """Run a study in several processes on this machine, or write the folder that each host runs.

    Return whether all processes ended well.
    """
    definition = catalogue.find_study(plan.study)
    with terminable(), reserved(definition, out) as place:
        if plan.is_here:
            # Fail early if a host cannot be reached.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(plan.try_out())
        simulated = _simulated(plan, reporter)
        plan = dataclasses.replace(plan, runs=len(simulated))
        if not plan.is_here:
            _write_folder(plan, place, reporter)
            return True
        # The folder is private, because it holds the key.
        with tempfile.TemporaryDirectory(prefix="netsim-deploy-", ignore_cleanup_errors=True) as made:
            folder = Path(made)
            plan.write(folder)
            _run_processes(plan, folder, simulated, reporter)
            study, whole = _collected(plan, folder, simulated, reporter)
        _save(study, place, formats, reporter)
    return whole


def gather_folder(folder: Path, out: str | None, formats: Formats, reporter: Reporter) -> bool:
    """Make a run folder from the files of a deployment's processes; return whether all ended well."""
    plan = Plan.read(folder)
    definition, _ = plan.find()
    with terminable(), reserved(definition, out) as place:
        study, whole = _collected(plan, folder, _simulated(plan, reporter), reporter)
        _save(study, place, formats, reporter)
    return whole


def participate(folder: Path, name: str, report: Callable[[int, int], None]) -> NoReturn:
    """Play a process's part of each run, report the numbers of runs and rows, and end the process."""
    plan = Plan.read(folder)
    host = plan.host(name)
    # A scheduler may send SIGTERM to this process only. Handled like Ctrl-C, it leaves a valid part with the reason.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    numbers = itertools.count()

    def play(network: Network, settings: Settings, result: Run) -> Run:
        number, settings = next(numbers), dataclasses.replace(settings, trace=False)

        def play_part(agents: Agents) -> None:
            transport = plan.transport(host, network.graph, network.round_period, folder / PARTS)
            transport.first_run = number
            with suppress(Missed):  # this process restarted while the others went on
                mine = network.result_of(agents, result.probes, partial(report, number))
                _run(network, settings, mine, transport)

        is_last = number + 1 == plan.runs
        # The study continues with the results of a simulation, which needs the agents unchanged: play on a copy or in a
        # fork.
        if not is_last and not hasattr(os, "fork"):
            play_part(copy.deepcopy(result.agents))
        elif is_last or forked():
            play_part(result.agents)
            raise Ended(0)
        return _run(network, settings, result)

    # With a trace, the states of agents are recorded as well.
    _play(plan, play, trace=plan.trace)
    raise NetsimError(f"study = {plan.study!r}: must make {plan.runs} runs, as planned; it made fewer")


def _play(plan: Plan, backend: Backend, **more: Any) -> Study:
    """Play a study whose networks are run by a backend; raise NetsimError, in one line, if the study ends early."""
    definition, parameters = plan.find()
    study = definition.prepare(**more, **parameters)
    context = copy_context()
    context.run(BACKEND.set, backend)
    try:
        context.run(definition.play, study)
    except BaseException as error:
        # BaseException, because sys.exit also ends a study early.
        if isinstance(error, Ended) or catalogue.interrupted(error):
            raise
        raise NetsimError(catalogue.why(definition, error)) from error
    return study


def _run(network: Network, settings: Settings, result: Run, transport: Transport | None = None) -> Run:
    """Run a network without a backend."""
    context = copy_context()
    context.run(BACKEND.set, None)
    return context.run(network.play, settings, result, transport)


def _simulated(plan: Plan, reporter: Reporter) -> list[Run]:
    """Simulate the study to check that it can be deployed; return its runs, which have the expected results."""
    runs: list[Run] = []

    def simulate(network: Network, settings: Settings, result: Run) -> Run:
        if isinstance(network.medium, Radio):
            raise BadInput(
                f"study = {plan.study!r}: must have wires, or a radio without collisions, to be deployed; "
                "what agents share on the air is in one process"
            )
        must_be_apart(settings)
        plan.places(network.graph)
        runs.append(_run(network, settings, result))
        return runs[-1]

    _play(plan, simulate, reporter=Reporter(reporter.quiet, texts=False))
    if not runs:
        raise BadInput(f"study = {plan.study!r}: must run a network in its own process, to be deployed")
    return runs


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
    """Return the study with the processes' results and notes on differences, and whether all processes ended well."""
    found: list[MergedRun] = []

    def merge(network: Network, settings: Settings, result: Run) -> Run:
        found.append(merge_run(settings, result, folder / PARTS, len(found)))
        return found[-1].run

    try:
        # Show no progress, because merging is quick.
        study = _play(plan, merge, trace=plan.trace, reporter=Reporter(reporter.quiet, bars=False))
    except NetsimError as error:
        for before, made in zip(simulated, found, strict=False):
            if before.rows and not made.run.rows and not made.killed and not made.failed:
                seconds = plan.settings.round_time
                raise NetsimError(
                    f"round_time = {seconds:g}: must be longer: all rounds had passed before the processes took part"
                ) from error
        raise
    named = {id(run): name for name, run in study.runs.items()}
    # A study may run unnamed networks besides its named runs.
    names = [named.get(id(made.run), f"run {number}") for number, made in enumerate(found, start=1)]
    study.origin["command"] = shlex.join(["netsim", *sys.argv[1:]])
    study.origin["deployment"] = {**vars(plan.settings), "hosts": {host.name: host.address for host in plan.hosts}}
    study.table("processes", "Processes", sameness.processes(names, found))
    for note in sameness.notes(names, simulated, found):
        study.note(note)
    return study, not any(made.killed or made.failed for made in found)


def _save(study: Study, place: Reservation, formats: Formats, reporter: Reporter) -> None:
    study.formats = formats
    study.save(place)
    show_saved(place, reporter)


def _write_folder(plan: Plan, place: Reservation, reporter: Reporter) -> None:
    """Write the deployment's folder, and print the commands of each host."""
    plan.write(place.parts)
    place.publish()
    shown = shlex.quote(place.shown)
    reporter.line(f"{place.shown}: deployment.json, key")
    reporter.line("Copy the folder to each host so that no one else can read it: its key opens the network. Then start")
    for host in plan.hosts:
        reporter.line(f"  on {host.name} ({host.address}): netsim node {shown} --host {host.name}")
    reporter.line(
        f"within {plan.settings.patience:g} s of each other. When they have ended, copy what each has written"
    )
    reporter.line(f"into its {place.shown}/{PARTS} to the same place here, and: netsim gather {shown}")
