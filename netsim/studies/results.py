"""Results of many runs: one table of a sweep or a run folder, means with intervals over seeds, figures, tables.

frame = netsim.studies.results.load("sweeps/loss")
netsim.studies.results.interval(frame, "train_mse", by=["algorithm", "loss"])
netsim.studies.results.bands(frame, x="loss", y="train_mse").savefig("loss.pdf")
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import BadInput
from netsim.studies import folder as folders
from netsim.studies import own_tables
from netsim.studies.columns import bounds, groups_of
from netsim.studies.figures import STYLES, Axis, drawing, legend_below, style, unless_set, whole_rounds
from netsim.studies.intervals import ALGORITHM, STATISTICS, confidence, interval, interval_text, is_share, statistic
from netsim.studies.outcome import COLUMN, ENDED, FAILED, NOT_REACHED, UNFINISHED, Ending, Outcome, share_text
from netsim.studies.paired import TESTS, holm, p_value, paired
from netsim.studies.paper_tables import latex, markdown, setting_text
from netsim.studies.reach import Target
from netsim.studies.seeds import SEEDS
from netsim.studies.sweeps.grid import Point
from netsim.studies.sweeps.sweep import free, read_failures, read_points, read_sweep
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "SEEDS",
    "STATISTICS",
    "STYLES",
    "TESTS",
    "bands",
    "compare",
    "confidence",
    "heat_map",
    "holm",
    "interval",
    "interval_text",
    "latex",
    "load",
    "markdown",
    "p_value",
    "paired",
    "pareto_front",
    "statistic",
    "style",
    "tradeoff",
]

_MEASURED = ("count", "survived", "mean", "median", "low", "high")
_NARROW = 5.0  # inches, as wide as a paper's column: too narrow for the explanation of a band in one line
_FARTHEST = 1e300  # a larger number leaves matplotlib no room for ticks
_MOST_WITHIN = 6  # most lines with the legend inside the panel
_MOST_NAMED = 24  # most lines that a legend names
_MOST_TOLD = 6  # most lines for which a panel lists the shares of surviving runs
_MOST_DECADES = 12  # most decades of an axis of values: smaller values are zero up to rounding


# --- tables -----------------------------------------------------------------------------------------------------------


def load(folder: str | Path, *, rounds: bool = False, reach: str | None = None) -> "pd.DataFrame":
    """Return the results of a sweep, or of one run folder, as one table.

    Parameters
    ----------
    folder : str or Path
        A folder written by ``netsim sweep`` or ``netsim run``.
    rounds : bool
        Whether to return a row for each round instead of only the last.
    reach : str, optional
        "COLUMN=VALUE" or "COLUMN=+P%": instead of the last round, return the round from which on the column stays at or
        below VALUE, or P % above the centralised value. The row is empty if there is no such round.

    Returns
    -------
    DataFrame
        For a sweep: the point's name, the given parameters (as ``given_NAME`` if a column has the same name), the
        algorithm, and its columns. For a run folder: the algorithm and its columns. The last column, ``outcome``, is
        the state in which the run ended (`netsim.studies.outcome.Outcome`), or with ``rounds`` its state in that round.
        A run that diverged before it had results has a row without values, and so has a failed run if other runs of its
        condition ended.

    Raises
    ------
    BadInput
        If the folder is of another kind or damaged; if ``reach`` is malformed, or combined with ``rounds``.
    """
    import pandas as pd

    parts = [
        _beside({} if run.point is None else {"point": run.point, **run.given}, run.rows)
        for run in _runs(folder, rounds, reach=reach)
    ]
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class _Run:
    """The rows of a run folder, and its place; for a point of a sweep also the point's name and parameters."""

    rows: "pd.DataFrame"
    place: Path
    point: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)


def _runs(folder: str | Path, rounds: bool, table: str | None = None, reach: str | None = None) -> list[_Run]:
    """Return the finished runs of a sweep, or the run of a run folder, with all rows or the last row of each algorithm.

    With ``table``, the rows are those of the study's table of this name; with ``reach``, those at which the target was
    reached.
    """
    target = None if reach is None else Target.of(reach)
    if target is not None and (rounds or table is not None):
        raise check.refuse("reach", reach, "left out with rounds, or with numbers of a table of the study's own")
    path = Path(folder)
    places: list[tuple[str | None, Mapping[str, Any], Path]] = [(None, {}, path)]
    twins: Mapping[str, Sequence[Point]] = {}
    is_sweep = (path / "sweep.json").is_file()
    if is_sweep:
        places, twins = [*read_points(path)], read_sweep(path).grid.twins()
    if not places:
        raise BadInput(f"folder = {str(folder)!r}: must have a point that is done")
    found = []
    tables = None if table is None else own_tables.keyed([place for *_, place in places], table)
    for number, (name, given, place) in enumerate(places):
        whole = folders.load(place, every=False)
        rows = whole["rounds"] if tables is None else tables[number]
        if target is not None:
            rows = target.rows(rows, place, whole["summary"]["centralised"])
        elif not rounds and tables is None:
            rows = rows.groupby("algorithm", sort=False).tail(1).reset_index(drop=True)
        algorithms = whole["summary"]["algorithms"].items()
        ended = {name: Outcome(last[COLUMN], last.get("outcome_round")) for name, last in algorithms}
        if tables is None:
            rows = _with_outcomes(rows, ended, rounds, target.column if target else None)
        found.append(_Run(rows, place, name, given))
        # Combinations that are the same run share its results: give each combination its rows.
        found += [_Run(rows.copy(), place, each.name, each.settings) for each in twins.get(name or "", ())]
    return [*found, *_failed(path, found)] if is_sweep and tables is None else found


def _with_outcomes(
    rows: "pd.DataFrame", ended: Mapping[str, Outcome], rounds: bool, target: str | None
) -> "pd.DataFrame":
    """Return rows with the outcomes of their runs, and a row for each run without results.

    With ``rounds``, an outcome applies from its round on. With a ``target``, runs that missed the target have the
    outcome NOT_REACHED.
    """
    import pandas as pd

    without = [name for name, each in ended.items() if not each.survived and name not in set(rows["algorithm"])]
    if without:
        rows = pd.concat([rows, pd.DataFrame({"algorithm": without})], ignore_index=True)
    of = [ended.get(str(name), Outcome(ENDED)) for name in rows["algorithm"]]
    states = pd.Series([each.state for each in of], rows.index)
    if rounds and "round" in rows:
        since = pd.Series([each.round for each in of], rows.index, float)
        states = states.mask(rows["round"] < since, UNFINISHED)
    if target is not None:
        states = states.mask(rows[target].isna(), NOT_REACHED)
    return rows.assign(**{COLUMN: states})


def _failed(folder: Path, done: Sequence[_Run]) -> list[_Run]:
    """Return a sweep's failed points as runs without values, for the algorithms that ran under the same condition.

    A condition is all settings except the seeds. If no point of a condition ended, its algorithms are unknown, and its
    failed points are omitted.
    """
    import pandas as pd

    known: dict[str, dict[str, None]] = {}
    for run in done:
        known.setdefault(_condition(run.given), {}).update(dict.fromkeys(map(str, run.rows["algorithm"])))
    found = []
    for point, given in read_failures(folder):
        if names := list(known.get(_condition(given), {})):
            rows = pd.DataFrame({"algorithm": names, COLUMN: FAILED}).reindex(columns=done[0].rows.columns)
            found.append(_Run(rows, folder / "points" / point, point, given))
    return found


def _condition(given: Mapping[str, Any]) -> str:
    return repr({name: value for name, value in given.items() if name not in SEEDS})


def _beside(settings: Mapping[str, Any], rows: "pd.DataFrame") -> "pd.DataFrame":
    """Insert settings before the columns of rows, and return the rows."""
    for name, value in reversed(free(settings, rows.columns).items()):
        rows.insert(0, name, [value] * len(rows))
    return rows


def compare(
    *places: str | Path, rounds: bool = False, table: str | None = None, reach: str | None = None
) -> "pd.DataFrame":
    """Return the results of several run folders or sweeps, one under another.

    Parameters
    ----------
    *places : str or Path
        Run folders and sweeps.
    rounds : bool
        Whether to return a row for each round instead of only the last.
    table : str, optional
        Return the rows of this table of the study instead, such as "by_hops".
    reach : str, optional
        As for `load`.

    Returns
    -------
    DataFrame
        ``folder``, the point's name if there is a sweep, the settings that differ, the algorithm, and its columns.
        Values that a study chose for each point of a sweep, such as a bandwidth that depends on the seed's data, are no
        settings.

    Raises
    ------
    BadInput
        If a folder is of another kind or damaged; for ``reach`` as in `load`.
    """
    import pandas as pd

    if not places:
        raise BadInput("folders = (): must be at least one")
    found = []
    for place in dict.fromkeys(map(str, places)):
        runs = _runs(place, rounds, table, reach)
        found += [(place, run, settings) for run, settings in zip(runs, _settings(runs), strict=True)]
    points = any(run.point is not None for _, run, _ in found)
    differ = _differing([settings for _, _, settings in found])
    parts = []
    for place, run, settings in found:
        about = {"folder": place, **({"point": run.point} if points else {})}
        parts.append(_beside(about | {name: settings.get(name) for name in differ}, run.rows))
    return pd.concat(parts, ignore_index=True)


def _settings(runs: Sequence[_Run]) -> list[dict[str, Any]]:
    """Return the study and the parameters of each run of a folder."""
    swept = _differing([run.given for run in runs])
    recorded: list[dict[str, Any]] = []
    for run in runs:
        if not (run.place / "settings.json").is_file():
            # A failed point has no settings file, so take that of another point of the sweep.
            recorded.append(recorded[0])
            continue
        settings = json.loads((run.place / "settings.json").read_text(encoding="utf-8"))
        recorded.append({"study": settings["study"], **settings["parameters"]})
    # Parameters that differ although they were not swept were chosen by the study.
    chosen = {*_differing(recorded)} - {*swept}
    return [
        {name: value for name, value in each.items() if name not in chosen} | {name: run.given[name] for name in swept}
        for each, run in zip(recorded, runs, strict=True)
    ]


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for each in settings for name in each)
    return [name for name in names if len({repr(each.get(name)) for each in settings}) > 1]


def pareto_front(costs: ArrayLike, errors: ArrayLike) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return which points are Pareto-optimal: no other point is as good in both measures and better in one.

    Parameters
    ----------
    costs, errors : array, shape (n,)
        The measures of the points, which are better if smaller. A point with NaN or infinity is never on the front.
    """
    x, y = np.asarray(costs, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    kept = np.zeros(len(x), dtype=bool)
    best, price = math.inf, math.inf
    for i in np.lexsort((y, x)):
        if np.isfinite(x[i]) and (y[i] < best or (y[i] == best and x[i] == price)):
            kept[i], best, price = np.isfinite(y[i]), y[i], x[i]
    return kept


# --- figures ----------------------------------------------------------------------------------------------------------


def bands(
    frame: "pd.DataFrame",
    x: str,
    y: str,
    *,
    by: str | Sequence[str] = "algorithm",
    of: str = "mean",
    log: bool = True,
    title: str = "",
    over: str = "seed",
    facets: str | Sequence[str] | None = None,
    ax: "Axes | Sequence[Axes] | None" = None,
) -> "Figure":
    """Draw a measure's mean (median) against a parameter, with its interval (`confidence`) over the seeds.

    There is a line for each combination of the columns ``by``, named in the legend, with (2/6) if only 2 of 6 runs
    survived. A line ends where its mean is infinite. Diverging values do not set the range of the axis: it shows all
    surviving lines, and other lines up to ten times (`netsim.studies.outcome.Ending`) their starting values. The
    arguments and errors are those of `interval`: only seeds are pooled. Changed settings in matplotlib's ``rcParams``
    (by `style` or by you) determine sizes, fonts and colours.

    Parameters
    ----------
    facets : str or sequence of str, optional
        A column or several: each value, or combination of values, has a separate panel.
    ax : Axes, or sequence of Axes, optional
        The axes to draw on, one for each facet. Default: a new figure, which also gets a legend and the ``title``.

    Returns
    -------
    Figure
        The new figure, or the figure of ``ax``.

    Raises
    ------
    BadInput
        As for `interval`; or if the numbers of ``ax`` and of facets differ.
    """
    names = [by] if isinstance(by, str) else list(by)
    panelled = [facets] if isinstance(facets, str) else list(facets or ())
    if {x, *names}.intersection(panelled):
        raise check.refuse("facets", facets, "another column than those of x and by")
    table = interval(frame, y, [*panelled, *names, x], of=of, over=over)
    shared = is_share(frame[y], of)
    if shared:
        # Dead runs are counted in the share, so no line ends because of them.
        table["survived"] = table["count"]
    for each in (of, "low", "high"):
        # matplotlib cannot draw such large numbers, and omits infinity.
        table[each] = table[each].mask(table[each].abs() > _FARTHEST, np.sign(table[each]) * math.inf)
    keys = list(dict.fromkeys(table[names].itertuples(index=False, name=None))) if names else [()]
    shares = {} if panelled else _shares(table, names)
    looks = {
        key: {**look, "label": " ".join(filter(None, (_named(names, key) or Axis(y).text, shares.get(key))))}
        for key, look in zip(keys, _styles(keys), strict=True)
    }
    parts = groups_of(table, panelled)
    beside = len(keys) > _MOST_WITHIN
    figure, panels = _panels(ax, len(parts), beside)
    about = f"{'share' if shared else of}; band: {table.attrs['interval']}" if (table["count"] > 1).any() else ""
    if ax is not None or figure.get_figwidth() < _NARROW:
        # The given axes may be narrow, so break the line.
        about = about.replace(" (", "\n(", 1)
    opened: list[Callable[[], None]] = []
    for number, (panel, (value, part)) in enumerate(zip(panels, parts, strict=True)):
        opened += _draw_bands(panel, part, x, names, of, looks, jumps=x == "round" and Axis(y).jumps)
        if panelled:
            _tell_dead(panel, part, names)
        panel.set_xlabel(Axis(x).text)
        panel.set_ylabel(Axis(y).text if number % _columns(len(parts)) == 0 or ax is not None else "")
        if panel_title := _named(panelled, value) if panelled else about:
            panel.set_title(panel_title, fontsize=unless_set("axes.titlesize", 9))
        if x == "round":
            whole_rounds(panel)
        panel.grid(alpha=unless_set("grid.alpha", 0.3))
    for panel in panels:
        # Panels share their axes, so draw all panels before limiting one. A share is bounded, so its axis is linear.
        _scale(panel, table, of, log and math.isinf(bounds(y).high), x)
    for fill_up in opened:
        fill_up()
    for panel in panels:
        if not _is_number(table[x]):
            panel.tick_params(axis="x", labelrotation=20)
    small: dict[str, Any] = {"frameon": False, "fontsize": unless_set("legend.fontsize", 8 if beside else "medium")}
    if names and (ax is not None or not (beside or panelled)):
        panels[0].legend(**small)
    elif names:
        _legend_outside(figure, [look["label"] for look in looks.values()], below=not beside, **small)
    if ax is None:
        figure.suptitle("\n".join(filter(None, (title, about if panelled else ""))))
    return figure


def _shares(table: "pd.DataFrame", names: Sequence[str]) -> dict[tuple[Any, ...], str]:
    """Return each line's smallest share of surviving runs, "(2/6)"; "" if all survived."""
    found = {}
    for key, part in groups_of(table, names):
        least = part.iloc[int((part["survived"] / part["count"]).argmin())]
        found[key] = share_text(int(least["survived"]), int(least["count"]))
    return found


def _tell_dead(panel: "Axes", part: "pd.DataFrame", names: Sequence[str]) -> None:
    """List the lines with dead runs in a panel, because all panels share one legend."""
    shares = _shares(part, names)
    dead = [f"{_named(names, key)} {share}" for key, share in shares.items() if share]
    if len(dead) > 1 and len(set(shares.values())) == 1:
        # All lines have the same share, perhaps because the problem of one seed could not be made: a list would hide
        # the lines.
        dead = [f"each {next(iter(shares.values()))}"]
    if dead:
        shown = "\n".join([*dead[:_MOST_TOLD], *([f"and {len(dead) - _MOST_TOLD} more"] if dead[_MOST_TOLD:] else [])])
        where: dict[str, Any] = {"transform": panel.transAxes, "ha": "right", "va": "top", "zorder": 5}
        box = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1.5}
        panel.text(0.98, 0.97, shown, fontsize=7, color="0.3", bbox=box, **where)


def _legend_outside(figure: "Figure", labels: Sequence[str], *, below: bool, **how: Any) -> None:
    """Put one legend for all panels beside or below them; of many lines it names the first `_MOST_NAMED`."""
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {}
    for panel in figure.axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    ordered = [label for label in labels if label in handles]
    shown = {name: handles[name] for name in ordered[:_MOST_NAMED]}
    if len(ordered) > _MOST_NAMED:
        shown[f"and {len(ordered) - _MOST_NAMED} more"] = Line2D([], [], linestyle="")
    if below:
        legend_below(figure, entries=shown)
    else:
        figure.legend(list(shown.values()), list(shown), loc="outside right center", **how)


def _columns(count: int) -> int:
    """Return the number of panels side by side, for ``count`` panels."""
    return count if count <= 3 else math.ceil(math.sqrt(count))


def _panels(ax: "Axes | Sequence[Axes] | None", count: int, beside: bool) -> "tuple[Figure, list[Axes]]":
    """Return a figure and a panel for each facet: the given panels, or new ones."""
    if ax is not None:
        given = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != count:
            raise BadInput(f"ax = {len(given)} axes: must be {count}, one for each facet")
        return given[0].figure, given
    columns = _columns(count)
    rows = math.ceil(count / columns)
    size = (9.0 if beside else 6.5, 4.4) if count == 1 else (3.6 * columns + 1.6, 3.2 * rows + 0.4)
    figure, grid = drawing(*size, columns, rows, sharey=True, sharex=True)
    panels = list(grid.ravel())
    for panel in panels[count:]:
        panel.set_visible(False)
    return figure, panels[:count]


def _draw_bands(
    panel: "Axes",
    table: "pd.DataFrame",
    x: str,
    names: Sequence[str],
    of: str,
    looks: Mapping[tuple[Any, ...], Mapping[str, Any]],
    *,
    jumps: bool,
) -> "list[Callable[[], None]]":
    """Draw a line with its band for each combination of ``names``.

    A band that is infinite above, because of dead runs, is completed once the axis limit is known. Return the functions
    that complete such bands.
    """
    opened: list[Callable[[], None]] = []
    for key, part in groups_of(table, names):
        rows = part.sort_values(x) if _is_number(table[x]) else part
        at = rows[x] if _is_number(table[x]) and not table[x].isna().any() else rows[x].map(setting_text)
        # Mark only some points of a curve over many rounds.
        how = {"markersize": unless_set("lines.markersize", 4), "markevery": max(1, len(rows) // 15)}
        how |= {"drawstyle": "steps-post" if jumps else "default"}
        # Draw no line between algorithms: it would suggest intermediate values.
        how |= {"linestyle": ""} if x == ALGORITHM else {}
        (line,) = panel.plot(at, rows[of], **{**looks[key], **how})
        filled: dict[str, Any] = {"color": line.get_color(), "step": "post" if jumps else None}
        fill: Any
        if len(rows) > 1 and x != ALGORITHM:
            fill = partial(panel.fill_between, alpha=0.2, linewidth=0, **filled)
        else:
            # For one point a filled band would be invisible, and between algorithms it would have no meaning.
            fill = partial(panel.vlines, color=line.get_color(), alpha=0.4, linewidth=3)
        infinite = np.isfinite(rows[of]) & np.isposinf(rows["high"])
        known = rows["high"].mask(infinite, rows[of])
        fill(at, rows["low"], known)
        if infinite.any():
            opened.append(partial(_fill_above, panel, partial(fill, at, known), known, infinite))
    return opened


def _fill_above(
    panel: "Axes", fill: "Callable[..., Any]", known: "pd.Series[Any]", infinite: "pd.Series[bool]"
) -> None:
    """Draw the part of a band above ``known``, which extends to the end of the axis if the band is infinite."""
    bottom, top = panel.get_ylim()
    fill(known.mask(infinite, top))
    panel.set_ylim(bottom, top)


def _scale(panel: "Axes", table: "pd.DataFrame", of: str, log: bool, x: str) -> None:
    """Make a panel's value axis logarithmic if requested and all values are positive, and limit it.

    Dead runs do not set the upper limit of the axis, and bands that reach zero or below do not set the lower one.
    """
    finite = table.loc[np.isfinite(table[of]), of]
    if finite.empty:
        return
    most, least, logarithmic = _highest(table, of, x), float(finite.min()), log and bool((table[of] > 0).all())
    if logarithmic:
        panel.set_yscale("log")
    if (cut := most < float(finite.max())) or (logarithmic and (table["low"] <= 0).any()):
        highs = table["high"].where(table["high"] <= most if cut else np.isfinite(table["high"]))
        top = most if math.isnan(highs.max()) else max(most, float(highs.max()))
        if logarithmic:
            panel.set_ylim(max(least, top * 10.0**-_MOST_DECADES if cut else 0.0) / 2, 1.5 * top)
        else:
            lows = table["low"].where(table[of] <= most)
            bottom = least if math.isnan(lows.min()) else min(least, float(lows.min()))
            panel.set_ylim(bottom - 0.05 * (top - bottom or 1.0), top + 0.05 * (top - bottom or 1.0))


def _highest(table: "pd.DataFrame", of: str, x: str) -> float:
    """Return the upper limit of values: the maximum of complete lines, or ten times the usual start of lines."""
    ended = ~np.isfinite(table[of])
    finite = table[~ended]
    highest = float(finite[of].max())
    if x != "round" or not ended.any():
        return highest
    # A line ends when one of its runs has died (for a median: half of them), so its last values are diverging ones.
    names = [name for name in table.columns if name not in (x, *_MEASURED)]
    ends = ended.groupby([table[name] for name in names], dropna=False).transform("any") if names else ended | True
    firsts = finite.loc[finite["round"] == finite["round"].min(), of]
    limits = [Ending().factor * float(firsts.median()), *table.loc[~ends, of]]
    return min(highest, max(limits)) if max(limits) > 0.0 else highest


def _is_number(column: "pd.Series[Any]") -> bool:
    """Return whether a column is numeric, and so has an order and distances."""
    return column.dtype.kind in "fiu"


def _named(names: Sequence[str], key: tuple[Any, ...]) -> str:
    """Return the name of a combination in the legend: "loss 0.1, COKE"."""
    return ", ".join(
        setting_text(value).lstrip("_")
        if name in ("algorithm", "folder", "problem", "network")
        else f"{name.removeprefix('given_').replace('_', ' ')} {setting_text(value)}"
        for name, value in zip(names, key, strict=True)
    )


def _styles(keys: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return each combination's style, by default a colour and a marker each.

    If there are enough of both, the colour shows the last column and the marker the others.
    """
    last, others = dict.fromkeys(key[-1:] for key in keys), dict.fromkeys(key[:-1] for key in keys)
    both = 1 < len(last) <= 10 and 1 < len(others) <= 8
    styles = []
    for number, key in enumerate(keys):
        colour, mark = (list(last).index(key[-1:]), list(others).index(key[:-1])) if both else (number, number)
        styles.append(
            {"color": f"C{colour % 10}", "marker": "os^DvPX*"[mark % 8], "linestyle": ("-", "--", "-.", ":")[mark % 4]}
        )
    return styles


def tradeoff(
    frame: "pd.DataFrame",
    x: str,
    y: str,
    *,
    by: str | Sequence[str] = "algorithm",
    of: str = "mean",
    log: bool = False,
    title: str = "",
    facets: str | Sequence[str] | None = None,
) -> "Figure":
    """Draw two measures against one another: a point for each combination of ``by``, with its intervals both ways.

    The intervals and errors are those of `interval`. A combination with an infinite mean, because of dead runs, has no
    point.

    Parameters
    ----------
    x, y : str
        The measures.
    log : bool
        Whether the axis of ``x`` is logarithmic.
    facets : str or sequence of str, optional
        As for `bands`.
    """
    names, panelled = [by] if isinstance(by, str) else list(by), [facets] if isinstance(facets, str) else facets or []
    groups = [*panelled, *names]
    first, second = (interval(frame, each, groups, of=of) for each in (x, y))
    both = first.merge(second, on=groups, suffixes=("_x", "_y"), sort=False)
    keys = list(dict.fromkeys(both[names].itertuples(index=False, name=None)))
    # Markers without a filling show those below them.
    looks: dict[Any, dict[str, Any]] = {
        key: {**look, "linestyle": "", "fillstyle": "none"} for key, look in zip(keys, _styles(keys), strict=True)
    }
    parts = groups_of(both, panelled)
    figure, panels = _panels(None, len(parts), beside=False)
    for number, (panel, (value, part)) in enumerate(zip(panels, parts, strict=True)):
        for key, point in groups_of(part, names):
            at = point[[f"{of}_x", f"{of}_y"]].to_numpy(dtype=np.float64)[0]
            if np.isfinite(at).all():
                ends = point[["low_x", "high_x", "low_y", "high_y"]].to_numpy(dtype=np.float64)[0].reshape(2, 2)
                across, up = np.abs(ends - at[:, None])[..., None]
                panel.errorbar(at[0], at[1], xerr=across, yerr=up, label=_named(names, key), capsize=2, **looks[key])
        panel.set(xlabel=Axis(x).text, ylabel=Axis(y).text if number % _columns(len(parts)) == 0 else "")
        panel.set_xscale("log" if log else "linear")
        panel.set_title(_named(panelled, value), fontsize=unless_set("axes.titlesize", 9))
        panel.grid(alpha=unless_set("grid.alpha", 0.3))
    _legend_outside(figure, [_named(names, key) for key in keys], below=True, frameon=False)
    # A share has another kind of interval than a number, so name both kinds.
    kinds = "; ".join(dict.fromkeys(str(each.attrs["interval"]) for each in (first, second)))
    figure.suptitle("\n".join(filter(None, (title, f"{of}s; bars: {kinds}"))))
    return figure


def heat_map(frame: "pd.DataFrame", x: str, y: str, value: str, *, title: str = "") -> "Figure":
    """Draw a measure's mean over the seeds by two parameters, as colours with numbers; raises errors as `interval`."""
    from matplotlib.colors import LogNorm

    table = interval(frame, value, [y, x]).pivot(index=y, columns=x, values="mean")
    cells = table.to_numpy(dtype=np.float64)
    figure, panel = drawing(1.1 * cells.shape[1] + 2.5, 0.6 * cells.shape[0] + 1.8)
    wide = np.nanmin(cells) > 0 and np.nanmax(cells) > 20 * np.nanmin(cells)
    image = panel.imshow(cells, aspect="auto", cmap="viridis", norm=LogNorm() if wide else None)
    shades: Any = image.norm(cells)
    for (row, column), cell in np.ndenumerate(cells):
        dark = shades[row, column] < 0.6
        panel.text(column, row, f"{cell:.3g}", ha="center", va="center", color="white" if dark else "black")
    panel.set_xticks(range(cells.shape[1]), [str(each) for each in table.columns])
    panel.set_yticks(range(cells.shape[0]), [str(each) for each in table.index])
    panel.set_xlabel(Axis(x).text)
    panel.set_ylabel(Axis(y).text)
    figure.colorbar(image, label=f"{Axis(value).text}, mean")
    figure.suptitle(title)
    return figure
