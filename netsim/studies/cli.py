"""The command line: netsim list, run, show."""

import io
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from netsim import check
from netsim.errors import NetsimError
from netsim.studies import Study, catalogue
from netsim.studies._about import about
from netsim.studies.catalogue import Scenario
from netsim.studies.claim import Claim, claim, claim_next
from netsim.studies.folder import Unsaved, load, rescued
from netsim.studies.terminal import Reporter, forget, text

_INTERRUPTED = "interrupted; no run folder was written"


class _Scenarios(click.Group):
    """A command for each scenario, its flags made from the function's parameters."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(catalogue.listed())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return _command(catalogue.find(cmd_name))


def _command(scenario: Scenario) -> click.Command:
    options: list[click.Parameter] = []
    for parameter in scenario.parameters:
        flag = "--" + parameter.name.replace("_", "-")
        switch = parameter.kind is bool
        options.append(
            click.Option(
                [f"{flag}/--no-{flag[2:]}" if switch else flag, parameter.name],
                type=parameter.kind,
                default=parameter.default,
                show_default=parameter.default is not None,
                help=parameter.description,
            )
        )
    options.append(
        click.Option(["--out"], type=str, help="The run folder, new or empty. Default: the next free runs/NAME-n.")
    )
    options.append(click.Option(["--trace"], is_flag=True, help="Keep the event log, too (trace-ALGORITHM.npz)."))

    def call(out: str | None, trace: bool, **parameters: Any) -> None:
        _execute(scenario, out, trace, parameters)

    # The short help would be cut at the first full stop, that of an initial, say.
    title = scenario.function.__doc__ and scenario.title
    return click.Command(scenario.name, callback=call, params=options, help=title, short_help=title)


def _execute(scenario: Scenario, out: str | None, trace: bool, parameters: dict[str, Any]) -> None:
    reporter = Reporter()
    place: Claim | None = None
    heeded = signal.getsignal(signal.SIGINT)
    try:
        # Before the run: what cannot be written should be known before the work, not after it.
        with claim_next(Path(scenario.name).stem) if out is None else claim(out) as place:
            study = scenario.prepare(trace=trace, reporter=reporter, **parameters)
            _play(scenario, study)
            study.save(place)
            # All is done: Ctrl-C is too late, and would only leave the lock behind.
            with suppress(ValueError):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        if place is None or not place.published:
            raise
    with suppress(ValueError):
        signal.signal(signal.SIGINT, heeded)
    files = ", ".join(sorted(path.name for path in place.folder.iterdir()))
    reporter.line(f"\n{place.shown}: {files}")


def _play(scenario: Scenario, study: Study) -> None:
    """Play a study; if it fails, say in one line where, and keep the runs that were finished."""
    try:
        scenario.play(study)
    except (Exception, SystemExit) as error:
        message = str(error) if isinstance(error, NetsimError) else catalogue.raised(scenario, error)
        failed = NetsimError(message) if not study.runs or _interrupted(error) else None
        raise failed or NetsimError(str(rescued(study, message, "the finished runs"))) from error


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    about()["netsim"], prog_name="netsim", message=f"%(prog)s, version %(version)s (core: {about()['core']})"
)
def app() -> None:
    """Emulate networks of agents that learn together."""


@app.command("list")
def list_them() -> None:
    """List the scenarios."""
    found = catalogue.listed()
    width = max(len(name) for name in found)
    for name, each in found.items():
        click.echo(f"{name:{width}}  {each.title}")


@app.group("run", cls=_Scenarios, subcommand_metavar="NAME|PATH.py [--parameter value]...")
def run() -> None:
    """Run a scenario: one of `netsim list`, or a Python file of your own. Its flags: netsim run NAME --help."""


@app.command(
    "sweep",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": ["-h", "--help"]},
)
@click.argument("scenario")
@click.option("--out", type=str, required=True, help="The folder of the sweep: new, or that of one to go on with.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Number of processes.")
@click.option("--timeout", type=float, help="Seconds that a point may take.")
@click.option("--memory", type=int, help="Megabytes that a point may take.")
@click.option("--retry", is_flag=True, help="Run points that failed before once more.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def sweep_them(
    scenario: str, flags: tuple[str, ...], out: str, jobs: int, timeout: float | None, memory: int | None, retry: bool
) -> None:
    """Run a scenario at every combination of the values of its flags: --loss 0,0.1,0.3 --seed 0:20.

    Numbers may be lists and ranges (without their end); a flag of text is given once for each value. What is done
    already is not done again: the same command goes on where a sweep was interrupted.
    """
    from netsim.studies.sweep import sweep

    found = catalogue.find(scenario)
    reporter = Reporter()
    given = _listed(found, flags)
    result = sweep(
        scenario, out=out, jobs=jobs, timeout=timeout, memory=memory, retry=retry, reporter=reporter, **given
    )
    count = len(result.grid.points())
    reporter.line(f"{out}: {count - len(result.failed)} of {count} points, {len(result.failed)} failed; points.csv")


def _listed(scenario: Scenario, flags: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return the values that flags list, by parameter."""
    from netsim.studies.sweep.grid import values_of

    known = {f"--{each.name.replace('_', '-')}": each for each in scenario.parameters}
    texts: dict[str, list[str]] = {}
    words = iter(flags)
    for word in words:
        flag, joined, value = word.partition("=")
        negated = flag.startswith("--no-") and f"--{flag[5:]}" in known
        parameter = known[check.one_of("flag", f"--{flag[5:]}" if negated else flag, known)]
        if parameter.kind is bool and not joined:
            value = "false" if negated else "true"
        elif not joined:
            value = next(words, "")
        texts.setdefault(parameter.name, []).append(value)
    by_name = {each.name: each for each in scenario.parameters}
    return {name: values_of(by_name[name], listed) for name, listed in texts.items()}


@app.command()
@click.argument("folder")
def show(folder: str) -> None:
    """Show what a run folder holds."""
    found = load(folder)
    settings, summary, rounds = found["settings"], found["summary"], found["rounds"]
    reporter = Reporter()
    given = {key: value for key, value in settings["parameters"].items() if value is not None}
    flags = " ".join(_flag(key, value) for key, value in given.items())
    reporter.line(f"netsim run {shlex.quote(settings['scenario'])} {flags}".rstrip())
    last = rounds.groupby("algorithm", sort=False).tail(1).dropna(axis=1, how="all")
    reporter.table("Last round", last.loc[:, (last != 0).any()])
    for name, value in summary["centralised"].items():
        reporter.line(f"centralised {name}: {text(value)}")
    for note in summary["notes"]:
        reporter.line(note)
    for name, why in summary.get("failed", {}).items():
        reporter.line(f"{name} could not be made: {why}")
    reporter.line(f"trace hash: {summary['trace_hash']}")
    # Folders of earlier versions do not tell the core.
    reporter.line(f"netsim {settings.get('netsim', 'of unknown version')}, core: {settings.get('core', 'python')}")


def _flag(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {shlex.quote(str(value))}"


def main() -> None:
    """Run the command line; a mistake of the user's ends in one line and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal's encoding does not have is no reason to lose a run.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(standalone_mode=False, prog_name="netsim")
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except KeyboardInterrupt:
        _stop(_INTERRUPTED, 130)
    except BrokenPipeError:
        # Whoever read the output has gone, as with `netsim list | head`.
        forget(sys.stdout)
    except Exception as error:
        if isinstance(error, click.Abort) or _interrupted(error):
            _stop(_INTERRUPTED, 130)
        if isinstance(error, click.ClickException):
            _stop(error.format_message(), 2)
        if not isinstance(error, NetsimError):
            raise
        _stop(str(error), 1 if isinstance(error, Unsaved) else 2)


def _interrupted(error: BaseException | None) -> bool:
    """Return whether an error comes of a Ctrl-C that a library, say while it was being imported, made into its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _stop(message: str, status: int) -> NoReturn:
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"netsim: {' '.join(message.split())}", file=sys.stderr, flush=True)
    sys.exit(status)
