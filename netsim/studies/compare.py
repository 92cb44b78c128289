"""Compare run folders or sweeps: the settings that differ, the last values, the curves."""

import json
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.core.records import TOTALS
from netsim.errors import BadInput, NetsimError, one_line
from netsim.studies import own_tables, results
from netsim.studies.columns import groups_of
from netsim.studies.formats import FIGURES, write_figure
from netsim.studies.intervals import settings_in
from netsim.studies.outcome import COLUMN, DEAD, DIVERGED, NOT_REACHED, share_text, worst_of_dead
from netsim.studies.paper_tables import setting_text, with_shares
from netsim.studies.reach import Target
from netsim.studies.seeds import over_text
from netsim.studies.sweeps.sweep import runs_of
from netsim.studies.terminal import text
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

ROUND = "round"
_MOST_LINES, _MOST_PANELS = 8, 6  # most lines in one panel, and most panels over which more lines are spread
_COSTS = ("transmissions", "payload_bits")
_LOST = "did not arrive in time"  # marks a note that attributes divergence to lost frames
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_USUAL = ("train_mse", "test_mse", "consensus_error", "test_accuracy")


def table(places: Sequence[str], metrics: Sequence[str]) -> "pd.DataFrame":
    """Return a row for each run, or point of a sweep, and algorithm: differing settings and last values.

    Without ``metrics`` the columns are the usual ones, or if there are none, the study's. Metrics may be numeric
    columns of one of the study's tables (`netsim.studies.own_tables.resolve`): the result then has a row for each row
    of that table, with the table's keys before the algorithm. COLUMN@TARGET is the value in the round in which the
    target is reached (``reach`` of `netsim.studies.results.load`), not the last value. If a run did not survive, the
    last column is ``outcome``. Raises BadInput for a folder that is neither a run nor a sweep, or incomplete, for an
    unknown metric, or for several targets.
    """
    reach = target_of(metrics)
    last = results.compare(*places, reach=reach)
    if last.empty:
        rows = "runs with rows in rounds.csv; agents without rounds get rows by sample= of Network.run"
        raise BadInput(f"folders = {', '.join(places)}: must be {rows}")
    if reach is not None:
        last = last.rename(columns={metric.partition("@")[0]: metric for metric in metrics})
    elif not set(metrics) <= set(last.columns):
        holder, metrics = own_tables.resolve([run for _, run in _runs(places)], metrics, measures_of(last))
        last = results.compare(*places, table=holder)
    measures = measures_of(last)
    there = [name for name in measures if last[name].notna().any()]
    after = there.index(TOTALS[-1]) + 1 if TOTALS[-1] in there else len(there)
    own = [name for name in _USUAL if name in there] or there[after:]
    chosen = list(dict.fromkeys(metrics)) or [*_COSTS, *own]
    for name in chosen:
        check.one_of("metric", name, measures)
    ended = [COLUMN] if COLUMN in last and last[COLUMN].isin(DEAD).any() else []
    return last[[*(name for name in settings_in(last) if name != "point"), "algorithm", *chosen, *ended]]


def left_out(places: Sequence[str], found: "pd.DataFrame") -> list[str]:
    """Return lines that name the columns and tables of the first run that a `table` of the usual columns omits."""
    first = next(run for _, run in _runs(places))
    last = results.compare(str(first))
    told = {*found, ROUND, "time_s"}
    more = [name for name in measures_of(last) if name not in told and (last[name].notna() & (last[name] != 0)).any()]
    lines = [f"--metric shows others: {', '.join(more)}"] if more else []
    tables = own_tables.numbers_of([first])
    return lines + [f"--metric {name}.… : {', '.join(columns)}" for name, columns in tables.items() if columns]


def target_of(metrics: Sequence[str]) -> str | None:
    """Return the text after "@" in metrics, the target; raises BadInput if metrics have several targets."""
    found = {metric.partition("@")[2] for metric in metrics if "@" in metric}
    if found and (len(found) > 1 or not all("@" in metric for metric in metrics)):
        raise check.refuse("metric", ", ".join(metrics), "all in the last round, or all at one target")
    return next(iter(found), None)


def measures_of(found: "pd.DataFrame") -> list[str]:
    """Return the names of the measures in a `table`."""
    return [name for name in map(str, found.columns[len(settings_in(found)) + 1 :]) if name != COLUMN]


def over_seeds(found: "pd.DataFrame", metrics: Sequence[str], of: str, over: str = "seed") -> "pd.DataFrame | None":
    """Return a row for each group of rows of a `table` that differ only in their seed; None if there is no such group.

    ``over`` is the kind of seed, one of `netsim.studies.results.SEEDS`. For a single metric the row has the mean, the
    median and the interval (`netsim.studies.results.interval`). For several it has the statistic ``of`` each column,
    "mean" or "median"; (2/6) is added if only 2 of 6 runs survived. Raises BadInput for another statistic.
    """
    import pandas as pd

    check.one_of("statistic", of, list(results.STATISTICS))
    check.one_of("over", over, results.SEEDS)
    by = [name for name in [*settings_in(found), "algorithm"] if name != over]
    if over not in found or not found.duplicated(by).any():
        return None
    if len(metrics) == 1:
        together = results.interval(found, metrics[0], by, of=of, over=over)
        return with_shares(together, text).rename(columns={"count": "seeds"})
    measures, rows = measures_of(found), []
    for key, part in groups_of(found, by):
        values = {name: _cell(part, name, of) for name in measures}
        rows.append(dict(zip(by, key, strict=True)) | {"seeds": _seeds(part, measures, over)} | values)
    return pd.DataFrame(rows, columns=[*by, "seeds", *measures])


def _cell(part: "pd.DataFrame", name: str, of: str) -> float | str:
    """Return a column's statistic over some runs; as text with (2/6) if only 2 of 6 survived."""
    counted, survived = worst_of_dead(part, name)
    value = results.statistic(counted[name], of=of)
    share = share_text(int(survived.sum()), len(counted))
    return f"{text(value)} {share}" if share else value


def _seeds(part: "pd.DataFrame", measures: Sequence[str], over: str) -> int | str:
    """Return the number of seeds with a value, or the range of that number over the measures that have values."""
    counts = {int(worst_of_dead(part, name)[0][over].nunique()) for name in measures} - {0} or {0}
    return max(counts) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def titled(
    found: "pd.DataFrame", metrics: Sequence[str], of: str, each: bool, over: str = "seed"
) -> tuple[str, "pd.DataFrame"]:
    """Return a title and a table: the result of `over_seeds` if there is one, unless ``each`` requests all rows."""
    together = over_seeds(found, metrics, of, over)
    reach = target_of(metrics)
    what = "Last values" if reach is None else f"Where {Target.of(reach)}, values"
    if together is None or each:
        return what, found
    if len(metrics) == 1:
        interval = results.interval_text(together["seeds"], of=of)
        return f"{what} of {metrics[0]} over the {over_text(over)}s; low to high: {interval}", together
    return f"{what}, {of} over the {over_text(over)}s", together


def paired(
    found: "pd.DataFrame", metric: str, reference: str, *, over: str = "seed", test: str = "t"
) -> tuple[str, "pd.DataFrame"]:
    """Return a title and the differences of a metric from a reference's, in pairs (`netsim.studies.results.paired`).

    Parameters
    ----------
    found : DataFrame
        A `table`.
    reference : str
        An algorithm, or a setting and its value, such as "loss=0".

    Raises
    ------
    BadInput
        As for `netsim.studies.results.paired`.
    """
    settings = settings_in(found)
    within, wanted = "algorithm", reference
    name, joined, value = reference.partition("=")
    if reference not in set(found["algorithm"]) and joined and name in settings:
        within, wanted = name, value
    by_text = {setting_text(each): each for each in found[within].unique()}
    wanted = _as_written(wanted, by_text)
    if wanted not in by_text or within == over:
        others = [each for each in settings if each != over]
        possible = list(by_text) if within != over else list(dict.fromkeys(map(str, found["algorithm"])))
        allowed = f"one of {', '.join(possible)}" + (f", or NAME=VALUE of {', '.join(others)}" if others else "")
        raise check.refuse("paired", reference, allowed)
    # Pairs within folders are compared by the settings that differ within a folder, because settings may also differ
    # between folders.
    by = [each for each in settings if each not in (within, over)]
    if within == "folder":
        by = _differ_within(found, by)
    elif not found.duplicated([*(each for each in settings if each != "folder"), "algorithm"]).any():
        # The settings alone identify rows, so the two runs of a pair may come from different folders.
        by = [each for each in by if each != "folder"]
    by = [each for each in [*by, "algorithm"] if each != within and found[each].nunique(dropna=False) > 1]
    if _names_follow(found, within) and not found.duplicated([*settings, within]).any():
        by.remove("algorithm")
    differences = results.paired(found, metric, by_text[wanted], within=within, by=by, over=over, test=test)
    title = f"{metric}: {differences.attrs['interval']}"
    if by and not differences["count"].any():
        title += f"; no two runs that differ in {within} have the same {' and '.join(by)}"
    return title, differences


def _names_follow(found: "pd.DataFrame", setting: str) -> bool:
    """Return whether each algorithm has one value of a setting, as if the setting named the algorithm.

    With routing = ctp the algorithm may be "CTP, awake 1", for instance.
    """
    if setting == "algorithm" or found["algorithm"].nunique() < 2:
        return False
    return bool((found.groupby("algorithm")[setting].nunique(dropna=False) == 1).all())


def _as_written(given: str, by_text: Collection[str]) -> str:
    """Return the text among ``by_text`` with the same numeric value, such as 0 for 0.0; else the given text."""
    given = given.strip()
    if given in by_text:
        return given
    try:
        number = float(given)
        # Compare only texts that are numbers: names, such as those of algorithms, need not be.
        return next((each for each in by_text if _NUMBER.fullmatch(each) and float(each) == number), given)
    except ValueError:
        return given


def conditions(places: Sequence[str]) -> list[str]:
    """Return a line on each separate seed, and on the site, that all runs share, because intervals hold for it only."""
    given = [_parameters(run) for _, run in _runs(places)]
    lines = []
    for name in results.SEEDS[1:]:
        (first, *others) = {each.get(name) for each in given} or {None}
        if first is not None and not others:
            lines.append(f"All runs have the {over_text(name)} {first}; intervals over other seeds hold for that one.")
    sites = {(each.get("site"), each.get("set")) for each in given}
    if len(sites) == 1 and (site := sites.pop()[0]) is not None:
        lines.append(f"All runs have the site {site}, whose own seed draws shadowing; intervals hold for that one.")
    return lines


def _runs(places: Sequence[str]) -> list[tuple[str, Path]]:
    """Return (place, run folder) for each run of each place."""
    return [(place, run) for place in dict.fromkeys(places) for run in runs_of(Path(place))]


def _parameters(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "settings.json").read_text(encoding="utf-8"))["parameters"])


def filtered(found: "pd.DataFrame", only: str | None, where: Sequence[str]) -> "pd.DataFrame":
    """Return the rows of some algorithms, and of some values of settings.

    Parameters
    ----------
    found : DataFrame
        A `table`.
    only : str, optional
        Algorithms, separated by commas.
    where : sequence of str
        SETTING=VALUE; several values are separated by commas.

    Raises
    ------
    BadInput
        For an algorithm, a setting or a value that the table lacks.
    """
    wanted = [("only", "algorithm", only)] if only is not None else []
    for each in where:
        name, equals, values = each.partition("=")
        if not equals:
            raise check.refuse("where", each, "SETTING=VALUE, several values with commas between")
        wanted.append(("where", check.one_of("where", name.strip(), settings_in(found)), values))
    for argument, name, values in wanted:
        texts = found[name].map(setting_text)
        known = dict.fromkeys(texts)
        wanted_texts = [_as_written(each, known) for each in values.split(",")]
        found = found[texts.isin([check.one_of(argument, each, known) for each in wanted_texts])]
    if found.empty:
        raise BadInput(f"where = {', '.join(where)}: must leave a run; none has all of these")
    return found


def diverged(places: Sequence[str], left: "pd.DataFrame | None" = None) -> list[str]:
    """Return a line for each algorithm that diverged: in how many of the runs, and why.

    With ``left``, a `filtered` `table`, only its algorithms and runs count. If a run without lost frames diverged, the
    line gives its reason, because losses are then not the cause.
    """
    runs = [run for place, run in _runs(places) if _is_left(place, run, left)]
    found: dict[str, list[tuple[Path, str]]] = {}
    for run in runs:
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        said = (str(note).partition(" diverged") for note in summary["notes"])
        notes = {name: why for name, told, why in said if told}
        dead = [name for name, last in summary["algorithms"].items() if last[COLUMN] == DIVERGED]
        for name in dead:
            if left is not None and name not in set(left["algorithm"]):
                continue
            found.setdefault(name, []).append((run, notes.get(name, "").strip(" :.")))
    lines = []
    for name, noted in found.items():
        first = noted[0][0]
        lossless = [why for _, why in noted if _LOST not in why]
        reasons = set(lossless or [why for _, why in noted])
        # A reason that names losses contains numbers of its run, so reasons may differ.
        why = (
            f": {reasons.pop()}.".replace(": .", ".")
            if len(reasons) == 1
            else f"; why: netsim show {shlex.quote(str(first))}"
        )
        also = ", also where no frame was lost" if 0 < len(lossless) < len(noted) else ""
        lines.append(f"{name} diverged in {len(noted)} of {len(runs)} runs{also}, {first.name} first{why}")
    return lines


def _is_left(place: str, run: Path, left: "pd.DataFrame | None") -> bool:
    """Return whether a run's settings remain in a filtered `table`."""
    if left is None:
        return True
    given = _parameters(run) | {"folder": place}
    settings = [name for name in settings_in(left) if given.get(name) is not None]
    return all(setting_text(given[name]) in set(left[name].map(setting_text)) for name in settings)


def unreached(found: "pd.DataFrame", over: str = "seed") -> list[str]:
    """Return a line for each algorithm and combination of settings that did not reach the target in every run."""
    by = [name for name in [*settings_in(found), "algorithm"] if name != over]
    column = measures_of(found)[0]
    lines: list[str] = []
    reach = target_of([column])
    if reach is None:
        return lines
    for key, part in groups_of(found, by):
        if missing := int((part[column].isna() & (part[COLUMN] == NOT_REACHED if COLUMN in part else True)).sum()):
            where = [f"{name}={setting_text(value)}" for name, value in zip(by[:-1], key[:-1], strict=True)]
            which = ", ".join([*where, str(key[-1])])
            lines.append(f"{which}: not there in {missing} of {len(part)} runs ({Target.of(reach)})")
    return lines


def draw(
    found: "pd.DataFrame",
    metric: str,
    out: str,
    against: str | None = None,
    of: str = "mean",
    *,
    over: str = "seed",
    style: str = "usual",
) -> str:
    """Write a figure of a metric over the rounds, or of its last value against a setting, with bands.

    There is a line for each algorithm and combination of the settings that differ, except the seed. Folders have
    separate lines, unless each folder has one value of the setting ``against``: then a line joins the folders. If a
    panel would have too many lines, they are spread over panels by a setting. Without ``against`` the horizontal axis
    is the rounds; a metric with one value a run, such as a column of a study's table, is drawn against the first
    setting that differs, else by algorithm. Return matplotlib's warnings in one line. Raises BadInput for a wrong
    argument, NetsimError if writing fails.
    """
    path = Path(out)
    check.one_of("out: its ending", path.suffix.removeprefix("."), FIGURES)
    if not path.parent.is_dir():
        raise BadInput(f"out = {out!r}: must be in a folder that exists")
    differing = settings_in(found)[1:]
    possible = [name for name in differing if name != over]
    check.one_of("against", against or ROUND, [ROUND, *differing, "algorithm"])
    rows = found
    if against in (None, ROUND):
        # A target's column (COLUMN@TARGET) and columns of tables have one value per run.
        whole = results.compare(*found["folder"].unique(), rounds=True) if "@" not in metric else found
        if metric in whole and whole is not found:
            # Take only the runs that are in ``found``, which may be `filtered`.
            runs = found[["folder", *differing, "algorithm"]].drop_duplicates()
            rows, against = whole.merge(runs), ROUND
        elif against is None:
            against = next((name for name in possible if name != "study"), "algorithm")
        else:
            raise check.refuse("against", against, f"one of {', '.join(differing)}: {metric} has one value a run")
    settings = [name for name in differing if name not in (against, over)]
    apart = found["folder"].nunique() > 1
    # Join folders only if no row is in two of them: it would be drawn twice.
    if (
        apart
        and against in differing
        and not _differ_within(found, [against])
        and not found.duplicated([*differing, "algorithm"]).any()
    ):
        rows, by = found.drop(columns="folder"), settings
    else:
        by = [*(["folder"] if apart else []), *_differ_within(found, settings)]
    by = [name for name in [*by, "algorithm"] if name != against]
    facets = _facets(rows, by)
    try:
        with results.style(style):
            how: dict[str, Any] = {"by": [name for name in by if name != facets], "of": of, "over": over}
            figure = results.bands(rows, x=against, y=metric, facets=facets, **how)
            return write_figure(path, figure)
    except OSError as error:
        raise NetsimError(f"out = {out!r}: could not be written ({error.strerror or one_line(error)})") from None


def _facets(rows: "pd.DataFrame", by: Sequence[str]) -> str | None:
    """Return the column whose values get separate panels, if one panel would have too many lines; else None."""
    if rows[list(by)].drop_duplicates().shape[0] <= _MOST_LINES:
        return None
    sizes = {name: rows[name].nunique(dropna=False) for name in by if name != "algorithm"}
    possible = [name for name, size in sizes.items() if 2 <= size <= _MOST_PANELS]
    return max(possible, key=lambda name: sizes[name], default=None)


def _differ_within(found: "pd.DataFrame", settings: Sequence[str]) -> list[str]:
    """Return the settings that have several values within a folder."""
    folders = found.groupby("folder", sort=False)
    return [name for name in settings if (folders[name].nunique(dropna=False) > 1).any()]
