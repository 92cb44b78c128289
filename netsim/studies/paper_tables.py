"""Tables as text: Markdown, and LaTeX with intervals in its cells."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import BadInput
from netsim.studies.columns import groups_of
from netsim.studies.outcome import share_text
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

_SHARED = ("mean", "median", "difference", "ratio")  # columns that show the share of surviving runs

BEST = ("least", "greatest")
"""Which values are the best ones."""

_SPECIAL = str.maketrans(
    {**{mark: f"\\{mark}" for mark in "&%$#_{}"}, "~": r"\textasciitilde{}", "^": r"\^{}", "\\": r"\textbackslash{}"}
)
_NONE = "--"
# Numbers outside these bounds are written with a power of ten.
_SMALL, _LARGE = 1e-2, 1e5
_MOST_DECIMALS = 5
_APART = 1e3  # factor above which numbers share no power of ten


def markdown(frame: "pd.DataFrame", digits: int = 4) -> str:
    """Return a table as Markdown."""
    cells = _cells(frame, digits)
    safe = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    lines = [f"| {' | '.join(row)} |" for row in safe]
    return "\n".join([lines[0], f"|{'---|' * len(cells[0])}", *lines[1:]]) + "\n"


def latex(
    frame: "pd.DataFrame",
    digits: int = 4,
    *,
    cells: str | None = None,
    rows: str | Sequence[str] = "algorithm",
    columns: str | None = None,
    best: str | None = None,
) -> str:
    r"""Return a table as LaTeX (booktabs); with ``cells``, as a table of numbers with intervals.

    Parameters
    ----------
    frame : DataFrame
        Any table; with ``cells`` one of `interval` or `paired`.
    digits : int
        Significant digits of numbers without an interval. For a number with an interval, half of the interval's width
        has two significant digits; the number and the ends have as many decimals, or more if they need them for two
        digits.
    cells : str, optional
        The column of the numbers in the cells, "mean", "median" or "difference". A cell is ``$m \pm h$`` if ``low`` and
        ``high`` are m ∓ h, else ``$m\ [low, high]$``; a number without an interval, such as that of one seed, stands
        alone, and a missing number is a dash. If only 2 of 6 runs survived, (2/6) follows. Small and large numbers have
        a power of ten, the same in the whole table unless they are far apart.
    rows : str or sequence of str
        The columns whose values begin the rows.
    columns : str, optional
        The column whose values become the table's columns, such as "loss"; default: one column.
    best : {"least", "greatest"}, optional
        In each column the best number with an interval is bold, and so is every number within that interval, because
        the interval does not distinguish them from the best; differences in pairs (`paired`) may. A number without an
        interval, or with dead runs, is never bold.

    Returns
    -------
    str
        A ``tabular``. Its first line is a comment that describes the intervals or tests, for the caption.

    Raises
    ------
    BadInput
        If a column is missing, or a cell has several rows.
    """
    if cells is None:
        return _plain(frame, digits)
    names = [str(each) for each in frame.columns]
    keys = [rows] if isinstance(rows, str) else list(rows)
    for name in (cells, "low", "high", *keys, *([columns] if columns else [])):
        check.one_of("column", name, names)
    if best is not None:
        check.one_of("best", best, BEST)
    check.integer("digits", digits, low=1)
    places = [*keys, *([columns] if columns else [])]
    if (twice := frame[frame.duplicated(places)]).size:
        where = ", ".join(f"{name} = {setting_text(twice[name].iloc[0])}" for name in places)
        raise BadInput(f"rows, columns = {', '.join(places)}: must tell all rows apart; there are several with {where}")
    return _pivoted(frame, digits, cells, keys, columns, best)


def setting_text(value: Any) -> str:
    """Return a setting as a flag's text; "none" for None."""
    if value is None or value != value:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _pivoted(
    frame: "pd.DataFrame", digits: int, cells: str, keys: list[str], columns: str | None, best: str | None
) -> str:
    groups = {"": frame}
    if columns is not None:
        groups = {setting_text(key): part for (key,), part in groups_of(frame, [columns])}
    power, marked = _power(frame, cells), False
    texts: dict[tuple[Any, ...], dict[str, str]] = {tuple(row): {} for row in frame[keys].itertuples(index=False)}
    for name, part in groups.items():
        bold = _bold(part, cells, best)
        marked = marked or any(bold)
        for row, strong in zip(part.to_dict("records"), bold, strict=True):
            number = float("nan") if row[cells] is None else float(row[cells])
            cell = in_math(number, float(row["low"]), float(row["high"]), digits, power)
            shown = rf"$\mathbf{{{cell}}}$" if strong else f"${cell}$" if cell else _NONE
            shown = " ".join(filter(None, [shown, _share_of(row)]))
            texts[tuple(row[key] for key in keys)][name] = shown
    about = str(frame.attrs.get("interval", ""))
    about = "; ".join(filter(None, (cells if not about.startswith(cells) else "", about)))
    rule = f"; bold: the {best} of a column, and what lies within its interval" if marked else ""
    lines = [f"% {about}{rule}"]
    lines += [rf"\begin{{tabular}}{{{'l' * len(keys)}{'r' * len(groups)}}}", r"\toprule"]
    if columns is not None:
        lines += [
            rf"{' & ' * len(keys)}\multicolumn{{{len(groups)}}}{{c}}{{{in_latex(columns.replace('_', ' '))}}} \\",
            rf"\cmidrule(lr){{{len(keys) + 1}-{len(keys) + len(groups)}}}",
        ]
    heads = [key.replace("_", " ") for key in keys] + ([cells] if columns is None else list(groups))
    lines += [" & ".join(map(in_latex, heads)) + r" \\", r"\midrule"]
    for key, found in texts.items():
        begin = [in_latex(setting_text(each)) for each in key]
        lines.append(" & ".join([*begin, *(found.get(name, _NONE) for name in groups)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _bold(part: "pd.DataFrame", cells: str, best: str | None) -> "list[bool]":
    """Return which numbers of a column are bold: the best, and those within the interval of the best."""
    known = part[cells].notna() & part["low"].notna() & part["high"].notna()
    if "survived" in part and "count" in part:
        known &= part["survived"] == part["count"]
    if best is None or not known.any():
        return [False] * len(part)
    numbers = part[cells].where(known)
    values = numbers.to_numpy(dtype=np.float64)
    first = part.iloc[int(np.nanargmin(values if best == "least" else -values))]
    within: list[bool] = (known & (numbers >= first["low"]) & (numbers <= first["high"])).tolist()
    return within


def _power(frame: "pd.DataFrame", cells: str) -> int | None:
    """Return the power of ten of a table's smallest number, for all numbers; None if the numbers are far apart."""
    sizes = frame[cells].abs().where(frame["low"].notna())
    sizes = sizes[(sizes > 0) & np.isfinite(sizes)]
    if sizes.empty or sizes.max() >= _APART * sizes.min():
        return None
    smallest = float(sizes.min())
    return 0 if smallest >= _SMALL and sizes.max() < _LARGE else math.floor(math.log10(smallest))


def in_math(number: float, low: float, high: float, digits: int = 4, power: int | None = None) -> str:
    r"""Return a number with its interval in LaTeX's math mode: "0.73 \pm 0.12" or "0.73\ [0.70, 0.9]".

    Parameters
    ----------
    number, low, high : float
        The number and its interval, NaN if unknown; without a number the text is empty.
    digits : int
        Significant digits of a number without an interval.
    power : int, optional
        Write a number with an interval with this power of ten; by default a power is chosen if the number is small or
        large.
    """
    if math.isnan(number):
        return ""
    if math.isinf(number):
        return _with_digits(number, 0)
    # An interval that is infinite on one side is still shown.
    endless = math.isinf(low) != math.isinf(high) and not (math.isnan(low) or math.isnan(high))
    if not endless and (not (math.isfinite(low) and math.isfinite(high)) or high <= low):
        return in_latex(f"{number:.{digits}g}").strip("$")
    half = (high - low) / 2
    largest = max(abs(each) for each in ((number, low, high) if endless else (number, half)) if math.isfinite(each))
    if power is None:
        power = 0 if largest == 0 or _SMALL <= largest < _LARGE else math.floor(math.log10(largest))
    scale = 10.0**power
    if endless:
        decimals = max(0, digits - 1 - (math.floor(math.log10(largest / scale)) if largest else 0))
    else:
        decimals = max(0, 1 - math.floor(math.log10(half / scale)))
    if not endless and abs((high - number) - (number - low)) <= 1e-6 * (high - low):
        text = rf"{number / scale:.{decimals}f} \pm {half / scale:.{decimals}f}"
    else:
        middle, first, last = (_with_digits(each / scale, decimals) for each in (number, low, high))
        text = rf"{middle}\ [{first}, {last}]"
    return rf"({text}) \cdot 10^{{{power}}}" if power else text


def _with_digits(number: float, decimals: int) -> str:
    """Return a number with the given decimals, or with more if it needs them for two digits, so that no end is 0."""
    if math.isinf(number):
        return r"\infty" if number > 0 else r"-\infty"
    own = 1 - math.floor(math.log10(abs(number))) if number else 0
    if own > max(decimals, _MOST_DECIMALS):
        return in_latex(f"{number:.1e}").strip("$")
    return f"{number:.{max(decimals, own)}f}"


def in_latex(cell: str) -> str:
    """Return a text escaped for LaTeX; in a number an exponent becomes a power of ten."""
    if found := re.fullmatch(r"([+-]?\d+(?:\.\d*)?)e([+-]?\d+)", cell):
        return rf"${found[1]} \cdot 10^{{{int(found[2])}}}$"
    return cell.translate(_SPECIAL)


def _share_of(row: Mapping[Any, Any]) -> str:
    """Return the share of surviving runs in a row, "(2/6)"; "" if all survived or the share is unknown."""
    if "survived" not in row or "count" not in row:
        return ""
    return share_text(int(row["survived"]), int(row["count"]))


def with_shares(frame: "pd.DataFrame", write: Callable[[Any], str]) -> "pd.DataFrame":
    """Return a table of `interval` or `paired` for display, with (2/6) in cells if only 2 of 6 runs survived.

    Other tables are returned unchanged. ``write`` formats a number.
    """
    if "survived" not in frame or "count" not in frame:
        return frame
    shown = frame.drop(columns="survived")
    shares = [_share_of(row) for row in frame.to_dict("records")]
    for name in _SHARED if any(shares) else ():
        if name in shown:
            cells = [
                f"{write(value)} {share}".strip() if share else value
                for value, share in zip(frame[name], shares, strict=True)
            ]
            shown[name] = cells if all(isinstance(each, float) for each in cells) else np.array(cells, dtype=object)
    return shown


def _plain(frame: "pd.DataFrame", digits: int) -> str:
    cells = _cells(frame, digits)
    frame = with_shares(frame, str)
    columns = "".join("l" if frame.dtypes.iloc[i].kind not in "iuf" else "r" for i in range(len(cells[0])))
    rows = [" & ".join(in_latex(cell) for cell in row) + r" \\" for row in cells]
    body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
    note = [f"% {frame.attrs['note']}"] if frame.attrs.get("note") else []
    return "\n".join([*note, *body, r"\end{tabular}"]) + "\n"


def _cells(frame: "pd.DataFrame", digits: int) -> list[list[str]]:
    """Return the cells of a table as texts, beginning with the column names."""
    check.integer("digits", digits, low=1)

    def text(value: Any) -> str:
        if isinstance(value, float | np.floating):
            return "" if math.isnan(value) else f"{float(value):.{digits}g}"
        if isinstance(value, int) and 2**63 <= abs(value) < 10**308:
            # Such a large count is a measure that diverged, whose digits are meaningless.
            return f"{float(value):.{digits}g}"
        return "" if value is None else str(value)

    frame = with_shares(frame, text)
    names: Mapping[int, str] = dict(enumerate(map(str, frame.columns)))
    return [list(names.values()), *[[text(value) for value in row] for row in frame.itertuples(index=False)]]
