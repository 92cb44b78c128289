"""What many runs come to: one table of a sweep or a run folder, means with intervals over seeds, figures and tables.

frame = netsim.results.load("sweeps/loss")
netsim.results.interval(frame, "train_mse", by=["algorithm", "loss"])
netsim.results.bands(frame, x="loss", y="train_mse").savefig("loss.pdf")
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from netsim import check
from netsim.errors import BadInput
from netsim.studies import folder as folders
from netsim.studies.figures import Axis, whole_rounds
from netsim.studies.sweep.sweep import read_points

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "STATISTICS",
    "bands",
    "compare",
    "confidence",
    "heat_map",
    "interval",
    "latex",
    "load",
    "markdown",
    "pareto",
    "told_interval",
]

STATISTICS: Mapping[str, str] = {"mean": "Student's t", "median": "order statistics"}
"""What several seeds may be told by, and what its interval is; the median does not follow a seed that diverged."""

_SHARE = 0.95


# --- tables -----------------------------------------------------------------------------------------------------------


def load(folder: str | Path, *, rounds: bool = False) -> "pd.DataFrame":
    """Return the results of a sweep, or of one run folder, as one table.

    Parameters
    ----------
    folder : str or Path
        What ``netsim sweep`` or ``netsim run`` wrote.
    rounds : bool
        A row for each round instead of the last one only.

    Returns
    -------
    DataFrame
        Of a sweep: the point's name, the parameters that were given, the algorithm, its columns. Of a run folder: the
        algorithm and its columns.

    Raises
    ------
    BadInput
        If it is neither, or damaged.
    """
    import pandas as pd

    path = Path(folder)
    if not (path / "sweep.json").is_file():
        table: pd.DataFrame = folders.load(path)["rounds"]
        if not rounds:
            table = table.groupby("algorithm", sort=False).tail(1).reset_index(drop=True)
        return table
    parts = []
    for name, given, place in read_points(path):
        part = folders.load(place)["rounds"]
        part = part if rounds else part.groupby("algorithm", sort=False).tail(1)
        for column, value in reversed({"point": name, **given}.items()):
            # A study may measure what it is also told.
            if column not in part:
                part.insert(0, column, [value] * len(part))
        parts.append(part)
    if not parts:
        raise BadInput(f"folder = {str(folder)!r}: must have a point that is done")
    whole: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return whole


def confidence(values: ArrayLike, *, of: str = "mean", share: float = _SHARE) -> tuple[float, float]:
    """Return the ends of an interval that holds the true mean (median) in ``share`` of all repetitions.

    Of the mean it is Student's t, mean ± t s/√n: exact at any n > 1 where values are normal. Where they are skewed it
    holds the mean too seldom (of five exponential values in 87 % for 95 %), but oftener than a percentile bootstrap
    (77 %), at any n. Of the median it lies between two order statistics: ``share`` or more, whatever the distribution.

    Parameters
    ----------
    values : array, shape (n,)
        One of each repetition, independent of one another.
    of : {"mean", "median"}
        What the interval is of.
    share : float
        In (0, 1).

    Returns
    -------
    low, high : float
        NaN where there are too few values for an interval: one of a mean, under six of a median at 95 %.

    Raises
    ------
    BadInput
        For another statistic, or a share outside its range.
    """
    numbers = np.sort(np.asarray(values, dtype=np.float64))
    count = len(numbers)
    if count < _fewest(of, share):
        return math.nan, math.nan
    if of == "median":
        from scipy.stats import binom

        # So many may lie below the median, or above it, by chance.
        outside = max(1, int(binom.ppf((1.0 - share) / 2.0, count, 0.5)))
        return float(numbers[outside - 1]), float(numbers[count - outside])
    with np.errstate(over="ignore", invalid="ignore"):
        reach = stdtrit(count - 1, (1.0 + share) / 2.0) * numbers.std(ddof=1) / math.sqrt(count)
        return float(numbers.mean() - reach), float(numbers.mean() + reach)


def _fewest(of: str, share: float) -> int:
    """Return how many values an interval takes: of a median so many that all lie on one side of it seldom enough.

    Raises BadInput for another statistic, or a share outside its range.
    """
    check.one_of("of", of, list(STATISTICS))
    check.number("share", share, above=0.0, high=math.nextafter(1.0, 0.0))
    return 2 if of == "mean" else math.ceil(1.0 - math.log2(1.0 - share) - check.ROUNDING)


def told_interval(counts: Iterable[int], *, of: str = "mean", share: float = _SHARE) -> str:
    """Return in words what `confidence` gives of groups of so many values: which interval, and of how many.

    Parameters
    ----------
    counts : iterable of int
        Numbers n of values; none if it is empty.
    of, share
        As `confidence` has them.
    """
    several = sorted({int(count) for count in counts}) or [0]
    n = f"n = {several[0]}" if len(several) == 1 else f"n = {several[0]} to {several[-1]}"
    fewest = _fewest(of, share)
    kind = f"{100 * share:g} % interval of the {of}"
    if several[-1] < fewest:
        return f"{n}: no {kind}, which takes {fewest}"
    few = f"; none where n < {fewest}" if several[0] < fewest else ""
    return f"{kind} ({STATISTICS[of]}, {n}{few})"


def interval(
    frame: "pd.DataFrame",
    value: str,
    by: Sequence[str],
    *,
    of: str = "mean",
    share: float = _SHARE,
) -> "pd.DataFrame":
    """Return a measure's mean, median and the interval of one of the two, over all rows alike in ``by``.

    The interval is that of `confidence`.

    Parameters
    ----------
    frame : DataFrame
        As `load` returns it.
    value : str
        The measure's column; rows where it is empty are left out.
    by : sequence of str
        Columns that tell groups apart: the seed is not among them.
    of : {"mean", "median"}
        What the interval is of.
    share : float
        In (0, 1).

    Returns
    -------
    DataFrame
        ``by``, then count, mean, median, low, high; the last two are empty where there are too few values.

    Raises
    ------
    BadInput
        For a column that is not there, another statistic, or a share outside its range.
    """
    import pandas as pd

    for name in (value, *by):
        check.one_of("column", name, [str(each) for each in frame.columns])
    _fewest(of, share)
    rows = []
    for key, part in frame.dropna(subset=[value]).groupby(list(by), sort=False, dropna=False)[value]:
        values = part.to_numpy(dtype=np.float64)
        low, high = confidence(values, of=of, share=share)
        found = {"count": len(values), "mean": values.mean(), "median": np.median(values), "low": low, "high": high}
        rows.append(dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True)) | found)
    return pd.DataFrame(rows, columns=[*by, "count", "mean", "median", "low", "high"])


def compare(*places: str | Path) -> "pd.DataFrame":
    """Return the last values of several run folders or sweeps, one under another; ``folder`` tells them apart."""
    import pandas as pd

    if not places:
        raise BadInput("folders = (): must be one at least")
    return pd.concat([load(place).assign(folder=str(place)) for place in places], ignore_index=True)


def pareto(costs: ArrayLike, errors: ArrayLike) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return which points no other point beats: none costs no more, errs no more, and is better in one of the two.

    Parameters
    ----------
    costs, errors : array, shape (n,)
        NaN and infinity are never on the front.
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
    by: str = "algorithm",
    of: str = "mean",
    log: bool = True,
    title: str = "",
) -> "Figure":
    """Draw a measure's mean (median) against a parameter, with its interval (`confidence`): a line for each ``by``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.4), layout="constrained")
    panel = figure.subplots()
    table = interval(frame, y, [by, x], of=of)
    for number, (name, part) in enumerate(table.groupby(by, sort=False)):
        rows = part.sort_values(x)
        # Of a curve over the rounds, not each of its points.
        style: Any = {"markersize": 4, "markevery": max(1, len(rows) // 15)}
        panel.plot(rows[x], rows[of], ("o-", "s--", "^-.", "D:")[number % 4], label=str(name), **style)
        panel.fill_between(rows[x], rows["low"], rows["high"], alpha=0.2, linewidth=0)
    if log and (table["low"] > 0).all():
        panel.set_yscale("log")
    panel.set_xlabel(Axis(x).text)
    panel.set_ylabel(f"{Axis(y).text}, {of}\n{told_interval(table['count'], of=of)}")
    if x == "round":
        whole_rounds(panel)
    panel.grid(alpha=0.3)
    panel.legend(frameon=False)
    figure.suptitle(title)
    return figure


def heat_map(frame: "pd.DataFrame", x: str, y: str, value: str, *, title: str = "") -> "Figure":
    """Draw a measure's mean over two parameters, as colours with their numbers."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    table = interval(frame, value, [y, x]).pivot(index=y, columns=x, values="mean")
    cells = table.to_numpy(dtype=np.float64)
    figure = Figure(figsize=(1.1 * cells.shape[1] + 2.5, 0.6 * cells.shape[0] + 1.8), layout="constrained")
    panel = figure.subplots()
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


# --- text -------------------------------------------------------------------------------------------------------------


def markdown(frame: "pd.DataFrame", digits: int = 4) -> str:
    """Return a table as Markdown."""
    cells = _cells(frame, digits)
    safe = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    lines = [f"| {' | '.join(row)} |" for row in safe]
    return "\n".join([lines[0], f"|{'---|' * len(cells[0])}", *lines[1:]]) + "\n"


_SPECIAL = str.maketrans(
    {**{mark: f"\\{mark}" for mark in "&%$#_{}"}, "~": r"\textasciitilde{}", "^": r"\^{}", "\\": r"\textbackslash{}"}
)


def latex(frame: "pd.DataFrame", digits: int = 4) -> str:
    """Return a table as LaTeX (booktabs); numbers with an exponent as powers of ten."""
    cells = _cells(frame, digits)
    columns = "".join("l" if frame.dtypes.iloc[i].kind not in "iuf" else "r" for i in range(len(cells[0])))
    rows = [" & ".join(_in_latex(cell) for cell in row) + r" \\" for row in cells]
    body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
    return "\n".join([*body, r"\end{tabular}"]) + "\n"


def _in_latex(cell: str) -> str:
    number, mark, exponent = cell.partition("e")
    if mark and _is_number(cell):
        return rf"${number} \cdot 10^{{{int(exponent)}}}$"
    return cell.translate(_SPECIAL)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cells(frame: "pd.DataFrame", digits: int) -> list[list[str]]:
    """Return a table's texts, its line of names first."""
    check.integer("digits", digits, low=1)
    names: Mapping[int, str] = dict(enumerate(map(str, frame.columns)))

    def text(value: Any) -> str:
        if isinstance(value, float | np.floating):
            return "" if math.isnan(value) else f"{float(value):.{digits}g}"
        if isinstance(value, int) and 2**63 <= abs(value) < 10**308:
            # No count comes to that: it diverged, and is not written out.
            return f"{float(value):.{digits}g}"
        return "" if value is None else str(value)

    return [list(names.values()), *[[text(value) for value in row] for row in frame.itertuples(index=False)]]
