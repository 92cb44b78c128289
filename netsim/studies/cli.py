"""The command line: netsim list, run, sweep, tune, bench, show, verify, replay, export, compare, deploy, and more."""

import io
import itertools
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from netsim._version import __version__
from netsim.errors import BadInput, NetsimError, chain
from netsim.studies import catalogue
from netsim.studies.catalogue import StudyDefinition
from netsim.studies.options import options_of, texts_of
from netsim.studies.terminal import Reporter, forget, text
from netsim.util.compiled import is_built

if TYPE_CHECKING:
    from netsim.datasets import Dataset
    from netsim.studies.experiment.command import ExperimentFile

# Modules of networks are imported only by commands that need them, so that the other commands start fast.

# Arguments after the name of a study may be the study's flags.
_OPEN = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": ["-h", "--help"]}


def _flag(name: str, kind: type, words: str, usual: Any = None) -> click.Option:
    """Return a flag of a type, with its help text and the default shown there."""
    return click.Option([name], type=kind, is_flag=kind is bool, default=usual, show_default=bool(usual), help=words)


# Flags: of every command that writes a run folder, and of `netsim run`.
_OUT = _flag("--out", str, "The run folder, new or empty. Default: the next free runs/NAME-n.")
_TRACE = _flag("--trace", bool, "Keep the event log, too (trace-ALGORITHM.npz).", False)
_FORMATS = (
    _flag(
        "--figures",
        str,
        "Formats of the figures: png, svg, pdf, or several with commas between. Default: png; with --style paper "
        "pdf,svg.",
    ),
    _flag("--tables", str, "Format of the tables: csv, or parquet (smaller; takes pip install '.[arrow]').", "csv"),
)
_OF_RUN = (
    _flag(
        "--style",
        str,
        "How figures look: usual, or paper (a column of 3.5 inches, several panels 7.16, 8 points, serifs).",
        "usual",
    ),
    _flag("--live", bool, "Show the run in the browser while it goes on; nothing in it changes.", False),
    _flag("--pace", float, "With --live: simulated seconds that are shown in a second."),
    _flag("--no-browser", bool, "With --live: only print the address.", False),
    _flag("--workers", int, "Number of processes over which each network is spread; the results are the same.", 1),
    _flag("--dask", str, "With --workers: the address of a Dask scheduler whose workers these are."),
)
_CHECK = "Then run it again with other hash seeds, the other core and another number of workers, and compare."
_CHECK_NAME = "check_conditions"  # the variable's name for --check, because a study may have a parameter `check`


def _command(
    definition: StudyDefinition,
    call: Callable[..., None],
    flags: Sequence[click.Parameter],
    kind: Callable[..., click.Command] = click.Command,
) -> click.Command:
    """Return the command of a study, with the study's parameters and the command's flags."""
    # Click would cut the short help at the first full stop, even after an initial.
    title = definition.function.__doc__ and definition.title
    params = [*options_of(definition.parameters), *flags]
    return kind(name=definition.name, callback=call, params=params, help=title, short_help=title)


def _experiment_in(name: str) -> "ExperimentFile | None":
    """Return the experiment that a Python or TOML file defines; None if the file defines none."""
    if not name.endswith((".py", ".toml")):
        return None
    from netsim.studies.experiment.command import experiment_in

    return experiment_in(name)


def is_quick(arguments: Sequence[str]) -> bool:
    """Return whether a command line only lists or shows, and so needs no network."""
    return not arguments or arguments[0] in ("list", "data", "--version") or arguments[-1] in ("-h", "--help")


class _Studies(click.Group):
    """A group with a command for each study, made by ``make``."""

    def __init__(self, make: Callable[[StudyDefinition], click.Command], **more: Any) -> None:
        super().__init__(**more)
        self._make = make

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(catalogue.listed())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if self.name == "run" and (found := _experiment_in(cmd_name)) is not None:
            from netsim.studies.experiment.cli import run_command

            return run_command(found)
        return self._make(catalogue.find_study(cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The titles are known without importing the studies.
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.title) for name, entry in catalogue.listed().items()])


# --- run --------------------------------------------------------------------------------------------------------------


def _run_command(definition: StudyDefinition) -> click.Command:
    def call(
        figures: str | None,
        tables: str,
        style: str,
        live: bool,
        pace: float | None,
        no_browser: bool,
        workers: int,
        dask: str | None,
        out: str | None,
        trace: bool,
        **parameters: Any,
    ) -> None:
        from netsim.network import spread
        from netsim.studies.execute import execute, viewed
        from netsim.studies.figures import VECTORS
        from netsim.studies.figures import style as drawn_in
        from netsim.studies.formats import Formats

        check = parameters.pop(_CHECK_NAME, False)
        with drawn_in(style):
            # Refuse an unknown style before the work.
            formats, reporter = Formats.chosen(VECTORS.get(style) if figures is None else figures, tables), Reporter()
        if live and workers > 1:
            # Refuse before an address is shown that would have no content.
            raise BadInput(f"workers = {workers}: must be 1 with --live, which shows the runs of one process")
        with viewed(live, pace, not no_browser, reporter) as session, spread(workers, dask), drawn_in(style):
            settings: dict[str, Any] = {"out": out, "trace": trace, "formats": formats, "workers": workers}
            folder = execute(definition, parameters, reporter=reporter, session=session, **settings)
        if check and not _check(definition, parameters, folder, workers, reporter):
            click.get_current_context().exit(1)

    shared = options_of(each for each in definition.flags if each in (catalogue.EVERY, catalogue.ORDER))
    flags = [_at(), *shared, _OUT, _TRACE, *_FORMATS, *_OF_RUN]
    if "check" not in {each.name for each in definition.parameters}:
        # A study's parameter of the same name takes precedence: `bench --check FOLDER` checks an entry.
        flags.append(click.Option(["--check", _CHECK_NAME], is_flag=True, help=_CHECK))
    return _command(definition, call, flags, partial(_RunCommand, definition))


def _check(
    definition: StudyDefinition, parameters: Mapping[str, Any], folder: Path, workers: int, reporter: Reporter
) -> bool:
    """Run a study again under other conditions and print the results; return whether they are the same."""
    import dataclasses

    from netsim.studies.conditions import Condition, Job
    from netsim.studies.verification import check_conditions

    same = True
    base = dataclasses.replace(Condition.here(), workers=workers)
    for rerun in check_conditions(Job(definition.name, parameters), folder, base):
        same = same and bool(rerun)
        reporter.lines(rerun.lines())
    return same


def _at() -> click.Option:
    """Return the option that appends faults, given as text."""
    return click.Option([f"--{catalogue.AT.name}"], multiple=True, help=catalogue.AT.description)


class _RunCommand(click.Command):
    """A study's command; if a flag lists several values, the error names the sweep that runs them."""

    def __init__(self, definition: StudyDefinition, **more: Any) -> None:
        super().__init__(**more)
        self._definition = definition

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given, _, order = self.make_parser(ctx).parse_args(list(args))
        if [each.name for each in order].count("set") > 1:
            # Refuse several --set, because Click would use only the last one.
            raise BadInput("set: must be given once, several values with commas between; several flags are a sweep")
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            name = str(error.param and error.param.name)
            value = str(given.get(name) or "")
            if {*value} & {*",:"} and (command := self._sweep(name, given)):
                from netsim.util import check

                raise check.refuse(name, value, f"one value; several are a sweep: {command}") from None
            raise

    def _sweep(self, over: str, given: Mapping[str, Any]) -> str:
        """Return the command of a sweep over a parameter with these values; "" if the command would be invalid."""
        from netsim.studies.sweeps.grid import grid

        known = {each.name for each in self._definition.flags}
        if over not in known:
            return ""
        # `sweep` treats a repeated --at as alternatives; here they are combined.
        at = {catalogue.AT.name: "; ".join(filter(None, given.get(catalogue.AT.name, ())))}
        kept = {name: at.get(name, value) for name, value in given.items() if name in known}
        flags = [catalogue.flag(name, value) for name, value in kept.items()]
        try:
            grid(self._definition, _listed(self._definition, tuple(shlex.split(" ".join(flags)))))
        except BadInput:
            return ""
        place = f"sweeps/{Path(self._definition.name).stem}"
        places = itertools.chain([place], (f"{place}-{number}" for number in itertools.count(2)))
        out = given.get("out") or next(each for each in places if not os.path.lexists(each))
        return " ".join(["netsim sweep", shlex.quote(self._definition.name), *flags, "--out", shlex.quote(out)])


_CORE = "compiled" if is_built("core._core") else "python"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"netsim, version %(version)s (core: {_CORE})")
def app() -> None:
    """Emulate networks of agents that learn together."""


@app.command("list")
def list_them() -> None:
    """List the studies."""
    width = max(len(name) for name in catalogue.listed())
    for number, (group, entries) in enumerate(catalogue.grouped().items()):
        click.echo(("\n" if number else "") + group)
        for name, entry in entries.items():
            click.echo(f"  {name:{width}}  {entry.title}")


# --- data -------------------------------------------------------------------------------------------------------------


@app.group("data")
def data() -> None:
    """List, fetch and find the data sets that studies name."""


@data.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
def list_data(names: tuple[str, ...]) -> None:
    """List the data sets, and whether each is here or can be fetched; with NAMES print all facts about these."""
    from netsim import datasets
    from netsim.datasets.store import where

    for known in map(_known, names):
        _describe(known)
    if names:
        return
    groups: dict[str, list[str]] = {"here": [], "netsim data get NAME fetches": [], "netsim cannot fetch": []}
    here, fetched, others = groups.values()
    width = max(map(len, datasets.SETS))
    for known in datasets.SETS.values():
        path = where(known)
        line = f"  {known.name:{width}}  {known.title}"
        if path is not None:
            here.append(f"{line}: {'ships with netsim' if known.ships else path}")
        elif known.prepare is None:
            others.append(f"{line}: {known.why_not}; {known.source}")
        else:
            fetched.append(f"{line}; {known.source}" + ("" if known.sha256 else f"; {datasets.UNTRIED}"))
    click.echo("\n\n".join("\n".join([title, *lines]) for title, lines in groups.items() if lines))


@data.command("get")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--from", "files", multiple=True, help="The original, downloaded elsewhere, or a folder; several times.")
def get_data(names: tuple[str, ...], files: tuple[str, ...]) -> None:
    """Fetch data sets, prepare them as the studies expect, check their SHA-256, and keep them in the cache."""
    from netsim import datasets

    if files and len(names) > 1:
        raise BadInput(f"from = {files[0]!r}: must go with one data set, not with {', '.join(names)}")
    reporter = Reporter()
    for known in map(_known, names):
        with reporter.counter(known.name, "bytes") as progress:
            datasets.get(known.name, files, tell=reporter.line, progress=progress)
        reporter.line(f"licence: {known.licence}")
        if known.citation:
            reporter.line(f"cite: {known.citation}")


@data.command("path")
@click.argument("names", metavar="[NAME]...", nargs=-1)
def path_of_data(names: tuple[str, ...]) -> None:
    """Print where data sets are; without NAMES, the folders that are searched, in order."""
    from netsim import datasets
    from netsim.util.datafiles import CACHE, FOLDER, cache_folder

    for known in map(_known, names):
        click.echo(datasets.find(known.name))
    if not names:
        click.echo(f"{FOLDER}: {os.environ.get(FOLDER) or 'not set'}")
        click.echo(f"{CACHE}: {cache_folder() or 'not set, and pooch is not installed'}")
        click.echo(f"ships with netsim: {datasets.SHIPPED}")


def _known(name: str) -> "Dataset":
    """Return the data set with a name; raises BadInput for an unknown name."""
    from netsim.datasets import SETS
    from netsim.util.datafiles import nearest

    if name not in SETS:
        raise BadInput(f"data = {name!r}: must be one that netsim data list lists{nearest(name, list(SETS))}")
    return SETS[name]


def _describe(known: "Dataset") -> None:
    """Print all facts about a data set."""
    from netsim import datasets
    from netsim.datasets.store import where

    checked = known.sha256 or (datasets.UNTRIED if known.addresses else "none")
    click.echo(f"{known.name}: {known.title}\n  here: {where(known) or 'no'}\n  source: {known.source}")
    for address in known.addresses:
        click.echo(f"  original: {address}")
    if known.why_not:
        click.echo(f"  netsim cannot fetch it: {known.why_not}")
    click.echo(
        f"  SHA-256 of the content: {checked}\n  licence: {known.licence}\n  cite: {known.citation or known.source}"
    )


@app.group("run", cls=_Studies, make=_run_command, subcommand_metavar="NAME|PATH.py [--parameter value]...")
def run() -> None:
    """Run a study: one of `netsim list`, or a Python file of your own. Its flags: netsim run NAME --help.

    An experiment's file may be TOML, too.
    """


# --- lab --------------------------------------------------------------------------------------------------------------


def _lab_command(definition: StudyDefinition) -> click.Command:
    shared = options_of(each for each in definition.flags if each is catalogue.ORDER)

    def call(no_browser: bool, at: tuple[str, ...], **parameters: Any) -> None:
        from netsim.clock.order import read
        from netsim.faults.words import joined
        from netsim.studies.laboratory.server import LabServer

        terminal = sys.stdout is not None and sys.stdout.isatty()
        lines = Reporter()
        browser = terminal and not no_browser
        order = (parameters.pop(catalogue.ORDER.name) or "") if shared else ""
        first = {"at": joined(at), "order": read(order) if order else ""}
        with LabServer(definition.name, parameters, **first, browser=browser, report=lines.line) as server:
            lines.line("Ctrl-C ends it")
            server.wait()

    return _command(definition, call, [_at(), *shared, _flag("--no-browser", bool, "Only print the address.", False)])


@app.group("lab", cls=_Studies, make=_lab_command, subcommand_metavar="NAME|PATH.py [--parameter value]...")
def lab() -> None:
    """Poke a run in the browser: cut links and crash nodes by a click; each fault starts a branch that repeats."""


@app.command("sweep", context_settings=_OPEN)
@click.argument("study")
@click.option("--out", type=str, required=True, help="The folder of the sweep: new, or that of one to go on with.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Number of processes.")
@click.option("--dask", type=str, help="The address of a Dask scheduler whose workers run the points instead.")
@click.option("--timeout", type=float, help="Seconds that a point may take.")
@click.option("--memory", type=int, help="Megabytes that a point may take.")
@click.option("--retry", is_flag=True, help="Run points that failed before once more.")
@click.option("--redo", is_flag=True, help="Run points once more whose code or data have changed since.")
@click.option(
    "--tables", type=str, default="csv", show_default=True, help="The format of the points' tables: csv or parquet."
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def sweep_them(study: str, flags: tuple[str, ...], out: str, **more: Any) -> None:
    """Run a study at every combination of the values of its flags: --loss 0,0.1,0.3 --seed 0:20.

    Numbers may be lists and ranges (without their end); a flag of text is given once for each value. Finished points
    are not run again, so the same command continues an interrupted sweep. Points whose code or data have changed since
    are refused, or run again with --redo.
    """
    from netsim.studies.sweeps import sweep

    if (experiment := _experiment_in(study)) is not None:
        _run_experiment(experiment, flags, out, more)
        return
    found = catalogue.find_study(study)
    reporter = Reporter()
    given: dict[str, Any] = _listed(found, flags)
    if given.get("set") == ["list"]:
        # Every point would raise the same error, so run one point for its message.
        found.play(found.prepare(**{name: values[0] for name, values in given.items()}))
    try:
        result = sweep(study, out=out, reporter=reporter, **more, **given)
    except KeyboardInterrupt:
        _stop(f"interrupted; what is done in {out} is whole, and the same command goes on", 130)
    count = len(result.grid.points())
    reporter.line(f"{out}: {count - len(result.failed)} of {count} points, {len(result.failed)} failed; points.csv")
    if result.failed:
        sys.exit(1)


def _run_experiment(found: "ExperimentFile", flags: Sequence[str], out: str, more: Mapping[str, Any]) -> None:
    """Run an experiment as a sweep; raises BadInput for a flag that only a study's sweep has."""
    from netsim.studies.experiment import cli
    from netsim.studies.sweeps.point import Limits

    for name in _asked("retry", "redo", "tables"):
        raise BadInput(f"{name} = {more[name]}: must be left out for an experiment, whose cells are kept by content")
    limits = Limits(more["timeout"], more["memory"])
    cli.run(found, cli.texts_in(found, flags), out=out, jobs=more["jobs"], dask=more["dask"], limits=limits)


def _asked(*names: str) -> list[str]:
    """Return the given flags of this command among ``names``."""
    source = click.get_current_context().get_parameter_source
    return [name for name in names if source(name) is not ParameterSource.DEFAULT]


@app.command("tune", context_settings=_OPEN)
@click.argument("study")
@click.option(
    "--over",
    multiple=True,
    help="[METHOD.]PARAMETER=LOW:HIGH or …:log, or PATH=…; several times. Without a range: that of the algorithm's "
    "theorems. Default: what a file has as `over`.",
)
@click.option("--out", type=str, required=True, help="The folder: new, or that of a tuning to go on with.")
@click.option("--seeds", default="100:103", show_default=True, help="Of the search; later runs must have others.")
@click.option(
    "--validation", default="200:206", show_default=True, help="Seeds that choose among the finalists; or none."
)
@click.option("--candidates", type=int, default=8, show_default=True, help="How many values of each method are tried.")
@click.option("--finalists", type=int, default=3, show_default=True, help="How many of them are validated.")
@click.option(
    "--metric",
    help="The column whose last value is to be small, or "
    "COLUMN@ERROR=VALUE: that where the error is reached for good; VALUE may be +P%, above the centralised one. "
    "Default: the problem's error.",
)
@click.option("--of", default="median", show_default=True, help="What is compared of the seeds: median or mean.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Number of processes.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def tune_it(study: str, flags: tuple[str, ...], **how: Any) -> None:
    """Search the best parameters of each method of an experiment, or of a study that is one.

    Each method gets the same number of trials under each condition, by successive halving, on seeds that its results do
    not use. The flag --settings of run and sweep takes the file tuned.json in the folder. Finished runs are not
    repeated, so the same command continues.
    """
    from netsim.studies.experiment import cli
    from netsim.studies.experiment.command import study_in

    cli.tune(_experiment_in(study) or study_in(study), flags, **how)


def _listed(definition: StudyDefinition, flags: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return the values that flags list, by parameter."""
    from netsim.studies.sweeps.grid import values_of

    by_name = {each.name: each for each in definition.flags}
    return {name: values_of(by_name[name], listed) for name, listed in texts_of(definition.flags, flags).items()}


@app.command(
    "bench",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    short_help="Run the benchmark: a fixed suite of problems and networks, for a method of yours (netsim run bench).",
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def bench_it(ctx: click.Context, flags: tuple[str, ...]) -> None:
    """Run the study bench."""
    command = _run_command(catalogue.find_study("bench"))
    with command.make_context("bench", list(flags), parent=ctx.parent) as inner:
        command.invoke(inner)


@app.command()
@click.argument("folder")
@click.option("--methods-section", is_flag=True, help="Instead: the paragraph of a paper on how this was made.")
@click.option("--format", "format_", default="text", show_default=True, help="Of --methods-section: text or latex.")
def show(folder: str, methods_section: bool, format_: str) -> None:
    """Show what a run folder or a sweep holds, or every path of an experiment's file."""
    if (experiment := _experiment_in(folder)) is not None:
        from netsim.studies.experiment.cli import show_paths

        show_paths(experiment)
        return
    if (Path(folder) / "experiment.json").is_file() and not methods_section:
        from netsim.studies.experiment.cli import show_folder

        show_folder(Path(folder))
        return
    from netsim.studies.folder import load, partial_text

    _must_go_with("methods_section", "format_")
    if methods_section:
        from netsim.studies import methods_section as section

        Reporter().line(section.methods_section(folder, format_).rstrip())
        return
    if (Path(folder) / "sweep.json").is_file():
        _show_sweep(Path(folder))
        return
    found = load(folder, partial=True)
    settings, summary, rounds = found["settings"], found["summary"], found["rounds"]
    reporter = Reporter()
    if summary["partial"]:
        reporter.line(partial_text(found))
    reporter.line(catalogue.run_command(settings["study"], settings["parameters"]))
    last = rounds.groupby("algorithm", sort=False).tail(1).dropna(axis=1, how="all")
    reporter.table("Last round", last.loc[:, (last != 0).any()])
    for name, value in summary["centralised"].items():
        reporter.line(f"centralised {name}: {text(value)}")
    for name, value in summary.get("constant", {}).items():
        reporter.line(f"best constant answer, {name}: {text(value)}")
    reporter.lines(summary["notes"])
    for name, why in summary["failed"].items():
        reporter.line(f"{name} could not be made: {why}")
    reporter.line(f"trace hash: {summary['trace_hash']}")
    reporter.line(f"netsim {settings['netsim']}, core: {settings['core']}")


def _show_sweep(folder: Path) -> None:
    """Show the progress of a sweep, the command that continues it, and the last values of its points."""
    from netsim.studies import compare
    from netsim.studies.sweeps.grid import flags_of
    from netsim.studies.sweeps.sweep import read_sweep, runs_of

    found, done, reporter = read_sweep(folder), runs_of(folder), Reporter()
    study, count, where = found.grid.study, len(found.grid.points()), shlex.quote(str(folder))
    reporter.line(f"a sweep of {study}: {len(done)} of {count} points done, {len(found.failed)} failed")
    command = f"netsim sweep {shlex.quote(study)} {flags_of(found.grid.values)}".rstrip()
    reporter.line(f"{command} --out {where}")
    if done:
        table = compare.table([str(folder)], [])
        reporter.table(*compare.titled(table, [], "mean", False))
        reporter.lines(compare.diverged([str(folder)]))
        measure = compare.measures_of(table)[2:]
        if len(measure):
            reporter.line(f"with intervals: netsim compare {where} --metric {measure[0]}")
        reporter.line(f"one point: netsim show {shlex.quote(str(done[0]))}")
    for name, why in list(found.failed.items())[:1]:
        reporter.line(f"{name} failed{' first' if len(found.failed) > 1 else ''}: {why}")


@app.command("verify")
@click.argument("folder")
@click.option("--workers", type=int, default=1, show_default=True, help="Number of processes to repeat it over.")
@click.option("--trust", is_flag=True, help="Of an experiment: run the Python files that its folder holds.")
@click.pass_context
def verify_it(ctx: click.Context, folder: str, workers: int, trust: bool) -> None:
    """Repeat a run folder, each point of a sweep or each cell of an experiment, and show whether results are the same.

    Exit status: 0 if all is identical, or equal to 1e-9; 1 if something differs; 2 for what cannot be repeated.
    """
    from netsim.network import spread
    from netsim.studies.sweeps.sweep import runs_of, unfinished
    from netsim.studies.verification import verify

    reporter = Reporter()
    if (Path(folder) / "experiment.json").is_file() or folder.endswith(".zip"):
        from netsim.studies.experiment.repeat import repeat

        found = repeat(folder, trust=trust, reporter=reporter)
        reporter.lines(found.lines())
        ctx.exit(0 if found else 1)
    if trust:
        raise BadInput("trust: must be left out except for the folder of an experiment or a file of netsim pack")
    places, missing = runs_of(Path(folder)), unfinished(Path(folder))
    if not places:
        raise BadInput(f"folder = {folder!r}: must be a sweep with a point that is done; {missing}")
    same = True
    for place in places:
        with spread(workers):
            verdict = verify(place)
        same = same and bool(verdict)
        reporter.lines([*verdict.lines(), *(f"  {each}" for each in verdict.elsewhere)])
    if missing:
        reporter.line(missing)
    ctx.exit(0 if same else 1)


@app.command("pack")
@click.argument("folder")
@click.option("--out", type=str, required=True, help="The zip file.")
def pack_it(folder: str, out: str) -> None:
    """Pack the folder of an experiment into one file, which netsim verify repeats."""
    from netsim.studies.experiment.repeat import pack

    Reporter().line(str(pack(folder, out)))


@app.command("replay")
@click.argument("place", metavar="RUNDIR|TRACE")
@click.option("--out", type=str, help="The file. Default: replay.html in the run folder, or replay.gif and so on.")
@click.option("--algorithm", type=str, help="Of a run folder with several: which. Default: the last.")
@click.option("--most", type=int, default=500_000, show_default=True, help="Frames that it shows at most.")
@click.option("--gif", "format_", flag_value="gif", help="Instead of the page: a film of at most 25 s.")
@click.option("--mp4", "format_", flag_value="mp4", help="Instead of the page: the same film; takes ffmpeg.")
@click.option("--svg", "format_", flag_value="svg", help="Instead of the page: a picture as SVG.")
@click.option("--png", "format_", flag_value="png", help="Instead of the page: a picture as PNG.")
@click.option("--follow", type=str, help="A word of frames' labels, or a kind: the film goes where it goes.")
@click.option("--view", type=str, help="Of a film or picture: map (a film's default) or spacetime (a picture's).")
@click.option("--from", "begin", type=float, help="Of a film or picture: from when (s); of a map as picture: when.")
@click.option("--to", "end", type=float, help="Of a film or picture: until when (s).")
@click.option("--theme", type=str, help="Of a film or picture: light (default; an SVG follows its reader) or dark.")
@click.option("--size", type=str, help="Of a film or picture: WIDTHxHEIGHT in pixels.")
@click.option("--fps", type=int, help="Of a film: pictures in a second. Default: 12.")
def replay_it(
    place: str,
    out: str | None,
    algorithm: str | None,
    most: int,
    follow: str | None,
    format_: str | None,
    size: str | None,
    **look: Any,
) -> None:
    """Make one HTML file that shows a run which was made with --trace: it opens in any browser, from the disk.

    With --gif, --mp4, --svg or --png make a film or a picture instead, for slides; that takes no browser.
    """
    from netsim.studies.traces import picture, replay

    reporter = Reporter()
    given = {name: value for name, value in (look | {"size": size}).items() if value is not None}
    if format_ is not None:
        from netsim.replay.picture import Wanted, size_of

        wanted = Wanted(**look, size=None if size is None else size_of(size))
        path = picture(
            place, format_, out, algorithm=algorithm, most=most, follow=follow, wanted=wanted, reporter=reporter
        )
        _print_made(reporter, path, place, algorithm)
        return
    for name, value in given.items():
        name = {"begin": "from", "end": "to"}.get(name, name)
        raise BadInput(f"{name} = {value}: must go with --gif, --mp4, --svg or --png")
    with reporter.counter("replay", "events read") as progress:
        path = replay(place, out, algorithm=algorithm, most=most, follow=follow, progress=progress)
    _print_made(reporter, path, place, algorithm)


@app.command("convert")
@click.argument("file", metavar="IN")
@click.argument("out", metavar="OUT")
def convert_it(file: str, out: str) -> None:
    """Write a graph, motes, a trace of ways, measured links or a capture as a file that netsim documents.

    The format of IN is recognised from its content. OUT ends in .csv; for a graph also in .graphml or .json.
    """
    from netsim.files.convert import convert

    made, reporter = convert(file, out), Reporter()
    reporter.line(f"{made.path}: {made.what}")
    reporter.lines(made.notes)


@app.command("export")
@click.argument("place", metavar="RUNDIR|TRACE")
@click.option("--format", "format_", type=str, required=True, help="pcapng: its frames; graphml or json: its topology.")
@click.option("--out", type=str, help="The file. Default: run.pcapng or topology.FORMAT in the run folder.")
@click.option("--algorithm", type=str, help="Of a run folder with several: which. Default: the last.")
@click.option("--most", type=int, help="Frames that pcapng holds at most. Default: all.")
def export_it(place: str, format_: str, out: str | None, algorithm: str | None, most: int | None) -> None:
    """Write a run which was made with --trace for other programs: Wireshark (pcapng), networkx (GraphML, JSON).

    For a shared radio, pcapng contains the transmissions on the air, as IEEE 802.15.4.
    """
    from netsim.studies.traces import export

    reporter = Reporter()
    with reporter.counter("export", "events read") as progress:
        path = export(place, format_, out, algorithm=algorithm, most=most, progress=progress)
    _print_made(reporter, path, place, algorithm)


def _print_made(reporter: Reporter, path: Path, place: str, algorithm: str | None) -> None:
    """Print the path of the new file, and the names of the other algorithms that have traces."""
    from netsim.studies.traces import traced

    reporter.line(str(path))
    others = traced(place)[:-1] if algorithm is None and Path(place).is_dir() else []
    if others:
        reporter.line(f"of the last algorithm; --algorithm shows another: {', '.join(others)}")


def _must_go_with(other: str, *names: str) -> None:
    """Raise BadInput if one of the named flags was given without the flag that it requires."""
    given = click.get_current_context().params
    for name in _asked(*names) if given[other] in (None, False) else ():
        raise BadInput(f"{name.strip('_')} = {given[name]}: must go with --{other.replace('_', '-')}")


@app.command("compare")
@click.argument("folders", nargs=-1, required=True)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="A column of rounds.csv, or of another table (by_hops.latency_s); several times. wire_bits@test_mse=+10%: "
    "where test_mse is, from then on, at most 10 % above the centralised one.",
)
@click.option("--out", type=str, help="Draw the first metric into this file: .png, .svg or .pdf.")
@click.option("--against", help="What to draw it against: a setting, or round (default, where it has rounds).")
@click.option("--only", help="Only these algorithms, with commas between.")
@click.option("--where", multiple=True, help="Only runs with SETTING=VALUE, as loss=0,0.1; several times.")
@click.option("--statistic", default="mean", show_default=True, help="Of the seeds of a sweep: mean or median.")
@click.option("--each", is_flag=True, help="A row for each seed of a sweep, not for all of them together.")
@click.option(
    "--over", default="seed", show_default=True, help="Which seeds: seed, data_seed, graph_seed or loss_seed."
)
@click.option("--paired", help="Differences of the first metric, seed by seed, from this algorithm, or loss=0.")
@click.option(
    "--test",
    default="t",
    show_default=True,
    help="Of --paired: t (Student's), wilcoxon (signed ranks), or ratio (t of the logarithms, for errors).",
)
@click.option("--style", default="usual", show_default=True, help="Of --out: usual, or paper (a column, 3.5 inches).")
@click.option("--replay", is_flag=True, help="Instead: a page (--out, compare.html) of two or three runs side by side.")
def compare_them(
    folders: tuple[str, ...],
    replay: bool,
    metrics: tuple[str, ...],
    only: str | None,
    where: tuple[str, ...],
    out: str | None,
    statistic: str,
    each: bool,
    over: str,
    **more: Any,
) -> None:
    """Put run folders and sweeps side by side: in which settings they differ, and their last values."""
    from netsim.studies import compare
    from netsim.studies.sweeps.sweep import unfinished

    reporter = Reporter()
    if replay:
        from netsim.studies.traces import replay_side_by_side

        reporter.line(str(replay_side_by_side(folders, out or "compare.html")))
        return
    _must_go_with("paired", "test")
    _must_go_with("out", "against", "style")
    reporter.lines(filter(None, [unfinished(Path(folder)) for folder in dict.fromkeys(folders)]))
    found = compare.filtered(compare.table(folders, metrics), only, where)
    reporter.lines(compare.conditions(folders))
    measures = compare.measures_of(found) if metrics else []
    reporter.table(*compare.titled(found, measures, statistic, each, over))
    metric = measures[0] if measures else compare.measures_of(found)[-1]
    if more["paired"] is not None:
        reporter.table(*compare.paired(found, metric, more["paired"], over=over, test=more["test"]))
    reporter.lines([*compare.diverged(folders, found), *compare.unreached(found, over)])
    reporter.lines([] if metrics else compare.left_out(folders, found))
    if out is not None:
        warned = compare.draw(found, metric, out, more["against"], statistic, over=over, style=more["style"])
        reporter.line(f"{out}: {warned}" if warned else out)


# --- deploy -----------------------------------------------------------------------------------------------------------


def _deploy_command(definition: StudyDefinition) -> click.Command:
    from netsim.distributed.transport import TRANSPORTS, transport_of

    flags = [
        _flag("--processes", int, "Number of processes on this machine."),
        _flag("--nodes", str, "Instead: a TOML file with a table [hosts.NAME] of each process's address, and agents."),
        _flag("--transport", str, f"{', or '.join(TRANSPORTS)}.", "udp"),
        _flag("--broker", str, "Of MQTT. Default: 127.0.0.1:1883."),
        _flag("--round-time", float, "Real seconds that a round takes.", 0.1),
        _flag("--patience", float, "Real seconds to wait for other processes.", 60.0),
        _flag("--silence", float, "Real seconds after which a silent process is dead.", 5.0),
    ]
    taken = {each.name for each in flags}
    for parameter in definition.parameters:
        if parameter.name in taken:
            raise BadInput(f"study = {definition.name!r}: must give its parameter {parameter.name!r} another name here")

    def call(
        processes: int | None,
        nodes: str | None,
        transport: str,
        broker: str | None,
        out: str | None,
        trace: bool,
        figures: str | None,
        tables: str,
        **given: Any,
    ) -> None:
        from netsim.studies.deploy.deploy import deploy
        from netsim.studies.deploy.plan import Connection, Plan, hosts_in, local_hosts
        from netsim.studies.formats import Formats

        times = {name: given.pop(name) for name in ("round_time", "patience", "silence")}
        if (processes is None) == (nodes is None):
            raise BadInput("processes: must be given, or --nodes FILE instead")
        hosts, brokers = ((), {}) if nodes is None else hosts_in(nodes)
        if broker is not None:
            if not transport_of(transport).needs_broker:
                with_broker = " or ".join(name for name in TRANSPORTS if transport_of(name).needs_broker)
                raise BadInput(f"broker = {broker!r}: must go with --transport {with_broker}")
            brokers = {"broker": broker}
        settings = Connection(transport, **times, **brokers)
        if processes is not None:
            hosts = local_hosts(processes, transport)
        plan = Plan.of(definition, given, settings=settings, hosts=hosts, trace=trace)
        whole = deploy(plan, out, Formats.chosen(figures, tables), Reporter())
        click.get_current_context().exit(0 if whole else 1)

    return _command(definition, call, [*flags, _OUT, _TRACE, *_FORMATS])


@app.group(
    "deploy",
    cls=_Studies,
    make=_deploy_command,
    subcommand_metavar="NAME|PATH.py [--parameter value]... --processes N",
)
def deploy_them() -> None:
    """Run a study in several processes over real sockets, and compare its results with the simulation's."""


@app.command("node")
@click.argument("folder")
@click.option("--host", type=str, required=True, help="The name of this process in the deployment.")
@click.option("--tell", is_flag=True, hidden=True)
@click.option("--parent", type=int, hidden=True)
def node_it(folder: str, host: str, tell: bool, parent: int | None) -> None:
    """Run one process of a deployment: FOLDER is what `netsim deploy` wrote."""
    from netsim.studies.deploy.deploy import participate
    from netsim.studies.deploy.processes import die_with

    if parent is not None:
        die_with(parent)

    def report(run: int, row: int) -> None:
        if tell:
            print(run, row, flush=True)
        elif row == 1:
            print(f"run {run + 1}: begun", file=sys.stderr, flush=True)

    participate(Path(folder), host, report)


@app.command("gather", params=[_OUT, *_FORMATS])
@click.argument("folder")
def gather_it(folder: str, out: str | None, figures: str | None, tables: str) -> None:
    """Make a run folder from the files that the processes of a deployment wrote, and compare it with the simulation."""
    from netsim.studies.deploy.deploy import gather_folder
    from netsim.studies.formats import Formats

    whole = gather_folder(Path(folder), out, Formats.chosen(figures, tables), Reporter())
    click.get_current_context().exit(0 if whole else 1)


# --- all of them ------------------------------------------------------------------------------------------------------


_format_as_usual = warnings.formatwarning


def main() -> None:
    """Run the command line; a user's mistake ends in one line and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Escape names that the terminal's encoding lacks: an encoding error must not lose a run.
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _format_warning
    try:
        status = app(standalone_mode=False, prog_name="netsim")
        if status:
            sys.exit(status)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except KeyboardInterrupt:
        _stop_interrupted()
    except BrokenPipeError:
        # The reader of the output has closed the pipe, as in `netsim list | head`.
        forget(sys.stdout)
    except Exception as error:
        if isinstance(error, click.Abort) or catalogue.interrupted(error):
            messages = [str(each) for each in chain(error) if isinstance(each, KeyboardInterrupt)]
            _stop_interrupted(next(filter(None, messages), ""))
        if isinstance(error, click.ClickException):
            _stop(error.format_message(), 2)
        if not isinstance(error, NetsimError):
            raise
        from netsim.studies.folder import Unsaved

        if isinstance(error, catalogue.Asked):
            click.echo(error.listing)
            return
        _stop(str(error), 1 if isinstance(error, Unsaved) else 2)
    finally:
        warnings.formatwarning = _format_as_usual


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning; a warning about a command's input names the user's file or folder, not a line of code."""
    # In a command, the warning's line is in the command-line library, so omit it.
    if Path(filename).parent in (Path(__file__).parent, Path(click.__file__).parent):
        return f"netsim: {message}\n"
    return _format_as_usual(message, category, filename, lineno, line)


def _stop_interrupted(message: str = "") -> NoReturn:
    from netsim.studies.execute import INTERRUPTED, status_of_interrupt

    _stop(message or INTERRUPTED, status_of_interrupt())


def _stop(message: str, status: int) -> NoReturn:
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"netsim: {' '.join(message.split())}", file=sys.stderr, flush=True)
    sys.exit(status)
