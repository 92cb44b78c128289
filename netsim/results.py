"""What many runs come to: one table of a sweep or a run folder, means with intervals over seeds, figures and tables.

frame = netsim.results.load("sweeps/loss")
netsim.results.interval(frame, "train_mse", by=["algorithm", "loss"])
netsim.results.bands(frame, x="loss", y="train_mse").savefig("loss.pdf")
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from netsim import check
from netsim.errors import BadInput
from netsim.studies import folder as folders
from netsim.studies.figures import Axis, whole_rounds
from netsim.studies.sweep.sweep import read_points

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["STATISTICS", "bands", "compare", "heat_map", "interval", "latex", "load", "markdown", "pareto"]

STATISTICS: Mapping[str, Callable[..., Any]] = {"mean": np.mean, "median": np.median}
"""What several seeds may be told by: the median does not follow the one that diverged."""

_DRAWS = 2000


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


def interval(
    frame: "pd.DataFrame",
    value: str,
    by: Sequence[str],
    *,
    of: str = "mean",
    share: float = 0.95,
    seed: int = 0,
) -> "pd.DataFrame":
    """Return a measure's mean, median and bootstrap interval of one of the two, over all rows alike in ``by``.

    The interval is the percentile one: the middle ``share`` of the means (medians) of 2,000 resamples, each as large as
    the group and drawn with replacement. Of a single row it is that row.

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
    seed : int
        Seed of the resampling.

    Returns
    -------
    DataFrame
        ``by``, then count, mean, median, low, high.

    Raises
    ------
    BadInput
        For a column that is not there, another statistic, or a share outside its range.
    """
    import pandas as pd

    check.one_of("of", of, list(STATISTICS))
    for name in (value, *by):
        check.one_of("column", name, [str(each) for each in frame.columns])
    check.number("share", share, above=0.0, high=math.nextafter(1.0, 0.0))
    rows = []
    for key, part in frame.dropna(subset=[value]).groupby(list(by), sort=False, dropna=False):
        values = part[value].to_numpy(dtype=np.float64)
        low, high = _bootstrap(values, STATISTICS[of], share, seed)
        found = {"count": len(values), "mean": values.mean(), "median": np.median(values), "low": low, "high": high}
        rows.append(dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True)) | found)
    return pd.DataFrame(rows, columns=[*by, "count", "mean", "median", "low", "high"])


def _bootstrap(
    values: "np.ndarray[Any, np.dtype[np.float64]]", statistic: Callable[..., Any], share: float, seed: int
) -> tuple[float, float]:
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    found = statistic(values[rng.integers(0, len(values), (_DRAWS, len(values)))], axis=1)
    low, high = np.quantile(found, [(1.0 - share) / 2.0, (1.0 + share) / 2.0])
    return float(low), float(high)


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
    """Draw a measure's mean (median) against a parameter, with its bootstrap interval: a line for each ``by``."""
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
    counts = sorted({int(count) for count in table["count"]})
    several = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    panel.set_ylabel(f"{Axis(y).text}, {of} and 95 % interval of {several}")
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
