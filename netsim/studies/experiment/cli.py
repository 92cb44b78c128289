"""The commands of an experiment's file: netsim run, sweep, tune and show FILE.py, or FILE.toml."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pandas as pd

from netsim.errors import BadInput
from netsim.studies.experiment.cells import SEED
from netsim.studies.experiment.command import ASK, SET, SETTINGS, ExperimentFile, Texts, ranges_of, with_set_values
from netsim.studies.experiment.folder import EXPERIMENT, TABLE
from netsim.studies.experiment.paths import brief
from netsim.studies.experiment.results import Results
from netsim.studies.experiment.tuning import check_apart, save
from netsim.studies.options import options_of, texts_of
from netsim.studies.sweeps.grid import numbers
from netsim.studies.sweeps.point import Limits
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.files import write_pieces

_JOBS = click.Option(["--jobs"], type=int, default=1, show_default=True, help="Number of processes.")
_METRIC = click.Option(["--metric"], type=str, help="The column of the summary. Default: the problem's error.")


def run_command(found: ExperimentFile) -> click.Command:
    """Return the command that runs an experiment with every combination of its flags' values."""

    def call(out: str | None, jobs: int, metric: str | None, dask: str | None, **texts: Sequence[str]) -> None:
        run(
            found, {name: given for name, given in texts.items() if given}, out=out, jobs=jobs, metric=metric, dask=dask
        )

    with found.known():
        flags = [replace(each, default=each.default and brief(each.default)) for each in found.flags.values()]
    options: list[click.Parameter] = [
        click.Option(["--out"], type=str, help=f"The folder. Default: {_folder_of(found)}; what is there is kept."),
        _JOBS,
        click.Option(["--dask"], type=str, help="The address of a Dask scheduler whose workers run the cells."),
        _METRIC,
    ]
    help_text = f"{found.title} A flag may have several values: 0,0.1,0.3." if found.title else None
    return click.Command(found.file, callback=call, params=[*options_of(flags, listed=True), *options], help=help_text)


def run(
    found: ExperimentFile,
    given: Texts,
    *,
    out: str | None,
    jobs: int,
    metric: str | None = None,
    dask: str | None,
    limits: Limits | None = None,
) -> None:
    """Run an experiment, and print its summary."""
    reporter, folder = Reporter(), out or _folder_of(found)
    with found.known(), _resumable(folder):
        made = found.with_flags(given)
        results = made.run_cells(
            list(made.cells()),
            folder,
            jobs=jobs,
            dask=dask,
            limits=limits,
            reporter=reporter,
            metric=metric,
            flags=[(name, text) for name, several in given.items() for text in several],
            file=Path(found.file),
        )
    show(results, metric, reporter)
    with _resumable(folder):
        page = results.report().name
    reporter.line(f"\n{folder}: {page}, {TABLE}, {EXPERIMENT}, runs/ ({len(results.cells)} cells), inputs/")


@contextmanager
def _resumable(folder: str) -> Iterator[None]:
    """Inside the context, tell an interrupted user that the same command continues the experiment."""
    try:
        yield
    except KeyboardInterrupt:
        message = f"interrupted; what is done in {folder} is whole, and the same command goes on"
        raise KeyboardInterrupt(message) from None


def show(results: Results, metric: str | None, reporter: Reporter) -> None:
    """Print a summary, its notes, and the runs' outcomes."""
    for of, part in results.with_one_error() if metric is None else [("", results)]:
        if metric is None and not part.is_judged:
            table = part.medians()
            reporter.table(
                f"Medians over the seeds{of}; with intervals: --metric COLUMN", table.loc[:, (table != 0).any()]
            )
        else:
            table = part.summary(metric)
            reporter.table(f"{metric or part.metric} over the seeds{of}: survivors, median of all runs", table)
            if table.attrs["note"]:
                reporter.line(table.attrs["note"])
    reporter.lines(results.notes)
    reporter.line(repr(results))


def tune(
    found: ExperimentFile,
    flags: Sequence[str],
    *,
    over: Sequence[str],
    out: str,
    seeds: str,
    validation: str,
    **more: Any,
) -> None:
    """Tune an experiment's methods, and print the choices; ``more`` is as in `netsim.Experiment.tune`."""
    reporter = Reporter()
    more["validation"] = [] if validation == "none" else numbers("validation", validation)
    texts = texts_in(found, flags)
    if SETTINGS in texts:
        raise check.refuse(SETTINGS, texts[SETTINGS][0], "left out, as --over searches values of its own")
    asks = ASK in texts.get(SET, ())
    texts[SET] = [each for each in texts.get(SET, ()) if each != ASK]
    parts = []
    with found.known(), _resumable(out):
        for when, here in found.apart(texts):
            made = found.with_flags(here)
            if asks:
                with_set_values(made, ASK)
            ranges = ranges_of(made, over) or check.mapping("over", found.over or {})
            if not ranges:
                where = "in the table [over]" if found.file.endswith(".toml") else "beside the experiment, as `over`,"
                raise BadInput(f"over: must be given, as --over method.eta=0.01:1:log, or {where} in {found.file}")
            check_apart([path.rpartition(".")[2] for path in ranges], when)
            tuned = made.tune(ranges, out=out, seeds=numbers("seeds", seeds), reporter=reporter, **more)
            parts.append((when, tuned))
        table = pd.concat([_with(when, tuned.table) for when, tuned in parts], ignore_index=True)
        given = {n: v for n, v in found.present(made, here).items() if n not in when and v is not None}
        save(Path(out) / "tuned.json", parts, given)
        write_pieces(Path(out) / "tuning.csv", [table.to_csv(index=False).encode()])
    how = tuned.experiment.tuning
    chosen = pd.concat([_with(when, tuned.chosen) for when, tuned in parts], ignore_index=True)
    reporter.table(f"Chosen: {how['of']} {how['metric']} of the runs that survive", chosen)
    told = [("".join(f"{name}={value}, " for name, value in when.items()), tuned.notes) for when, tuned in parts]
    reporter.lines(dict.fromkeys(f"{where}{note}" for where, notes in told for note in notes))
    reporter.line(f"{out}: tuning.csv ({len(table)} trials), tuned.json, runs/")


def _with(when: Mapping[str, Any], table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**when)[[*when, *table.columns]]


def show_folder(folder: Path) -> None:
    """Print the content of an experiment's folder: its runs, and their outcomes."""
    reporter = Reporter()
    about = json.loads((folder / EXPERIMENT).read_text(encoding="utf-8"))
    table = pd.read_csv(folder / TABLE)
    keys = [name for name in table.columns[: list(table.columns).index("outcome")] if name != SEED]
    counts = table.groupby(keys, sort=False, dropna=False)["outcome"].value_counts().unstack(fill_value=0).reset_index()
    reporter.table(f"{len(table)} runs of {about['file'] or 'an experiment'}, by outcome", counts)
    reporter.lines(about["notes"])


def show_paths(found: ExperimentFile) -> None:
    """Print every path of an experiment and its present value."""
    with found.known():
        Reporter().table(found.title or found.file, found.usual.paths())


def texts_in(found: ExperimentFile, flags: Sequence[str]) -> dict[str, list[str]]:
    """Return the texts given to flags on a command line; raises BadInput for an unknown flag."""
    with found.known():
        return texts_of(found.flags.values(), flags)


def _folder_of(found: ExperimentFile) -> str:
    return str(Path("runs") / Path(found.file).stem)
