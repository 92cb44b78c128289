"""The commands of an experiment's file: netsim run, sweep, tune and show FILE.py."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from netsim.errors import BadInput
from netsim.studies.experiment.cells import SEED
from netsim.studies.experiment.command import SET, ExperimentFile, numbers, ranges_of
from netsim.studies.experiment.folder import EXPERIMENT
from netsim.studies.experiment.results import Results
from netsim.studies.terminal import Reporter

_JOBS = click.Option(["--jobs"], type=int, default=1, show_default=True, help="Number of processes.")
_METRIC = click.Option(["--metric"], type=str, help="The column of the summary. Default: the problem's error.")


def run_command(found: ExperimentFile) -> click.Command:
    """Return the command that runs an experiment; several values of a flag are all run."""

    def call(out: str | None, jobs: int, metric: str | None, dask: str | None, **given: Any) -> None:
        run(found, _texts(given), out=out, jobs=jobs, metric=metric, dask=dask)

    options: list[click.Parameter] = [
        click.Option(["--out"], type=str, help=f"The folder. Default: {_folder_of(found)}; what is there is kept."),
        _JOBS,
        click.Option(["--dask"], type=str, help="The address of a Dask scheduler whose workers run the cells."),
        _METRIC,
    ]
    help_text = f"{found.title} A flag may have several values: 0,0.1,0.3." if found.title else None
    return click.Command(found.file, callback=call, params=[*_options(found), *options], help=help_text)


def run(
    found: ExperimentFile,
    given: Sequence[tuple[str, str]],
    *,
    out: str | None,
    jobs: int,
    metric: str | None,
    dask: str | None,
) -> None:
    """Run an experiment, and print its summary."""
    reporter, folder = Reporter(), out or _folder_of(found)
    with found.known(), _resumable(folder):
        made = found.with_flags(given)
        results = made.run_cells(
            list(made.cells()), folder, jobs=jobs, dask=dask, reporter=reporter, flags=given, file=Path(found.file)
        )
    show(results, metric, reporter)
    with _resumable(folder):
        page = results.report().name
    reporter.line(f"\n{folder}: {page}, runs.csv, experiment.json, runs/ ({len(results.cells)} cells), inputs/")


@contextmanager
def _resumable(folder: str) -> Iterator[None]:
    """Tell of an interruption inside the context that the same command goes on."""
    try:
        yield
    except KeyboardInterrupt:
        message = f"interrupted; what is done in {folder} is whole, and the same command goes on"
        raise KeyboardInterrupt(message) from None


def show(results: Results, metric: str | None, reporter: Reporter) -> None:
    """Print a summary, what a reader must know of it, and how the runs ended."""
    if metric is None and not results.is_judged:
        table = results.medians()
        reporter.table("Medians over the seeds", table.loc[:, (table != 0).any()])
    else:
        table = results.summary(metric)
        reporter.table(f"{metric or results.metric} over the seeds: survivors, median of all runs", table)
        if table.attrs["note"]:
            reporter.line(table.attrs["note"])
    for note in results.notes:
        reporter.line(note)
    reporter.line(repr(results))


def tune(
    found: ExperimentFile,
    flags: Sequence[str],
    *,
    over: Sequence[str],
    out: str,
    seeds: str,
    validation: str | None,
    metric: str | None,
    jobs: int,
) -> None:
    """Tune an experiment's methods, and print what was chosen."""
    reporter = Reporter()
    chosen: dict[str, Any] = {} if validation is None else {"validation": numbers("validation", validation)}
    with found.known(), _resumable(out):
        made = found.with_flags(words(flags))
        tuned = made.tune(
            ranges_of(over),
            out=out,
            seeds=numbers("seeds", seeds),
            metric=metric,
            jobs=jobs,
            reporter=reporter,
            **chosen,
        )
    reporter.table("Chosen by validation", tuned.chosen)
    for note in tuned.notes:
        reporter.line(note)
    tuned.save(Path(out) / "tuned.json")
    reporter.line(f"{out}: tuned.json, runs/")


def show_folder(folder: Path) -> None:
    """Print what the folder of an experiment holds: its runs, and how they ended."""
    import pandas as pd

    reporter = Reporter()
    about = json.loads((folder / EXPERIMENT).read_text(encoding="utf-8"))
    table = pd.read_csv(folder / "runs.csv")
    keys = [name for name in table.columns[: list(table.columns).index("outcome")] if name != SEED]
    counts = table.groupby(keys, sort=False, dropna=False)["outcome"].value_counts().unstack(fill_value=0).reset_index()
    reporter.table(f"{len(table)} runs of {about['file'] or 'an experiment'}, by outcome", counts)
    for note in about["notes"]:
        reporter.line(note)


def show_paths(found: ExperimentFile) -> None:
    """Print every path of an experiment and its present value."""
    with found.known():
        Reporter().table(found.title or found.file, found.make().paths())


def words(flags: Sequence[str]) -> list[tuple[str, str]]:
    """Return the flags of a command line and their values; raises BadInput for a word that is none."""
    found, rest = [], iter(flags)
    for word in rest:
        flag, joined, value = word.partition("=")
        if not flag.startswith("--"):
            raise BadInput(f"{word}: must be a flag, as --loss 0.1")
        found.append((flag[2:].replace("-", "_"), value if joined else next(rest, "")))
    return found


def _options(found: ExperimentFile) -> list[click.Parameter]:
    with found.known():
        flags = found.flags()
    return [
        click.Option(
            [f"--{each.name.replace('_', '-')}", each.name],
            type=str,
            multiple=each.name == SET,
            help=f"{each.help} [default: {each.default}]" if each.default else each.help,
            metavar={int: "INTEGER", float: "FLOAT"}.get(each.kind, "TEXT"),
        )
        for each in flags
    ]


def _texts(given: dict[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in given.items():
        if isinstance(value, tuple):
            found += [(name, each) for each in value]
        elif value is not None:
            found.append((name, value))
    return found


def _folder_of(found: ExperimentFile) -> str:
    return str(Path("runs") / Path(found.file).stem)
