"""Figures, drawn without the global state of matplotlib."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.studies import columns as known
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    # For annotations only: importing matplotlib takes long.
    Axes = Figure = Any

LABELS = known.LABELS
"""Axis labels by column (`netsim.studies.columns`)."""

_COUNTS = {"transmissions", "delivered", "payload_bits", "wire_bits"}

# Line styles of the grey horizontal reference lines.
_LEVEL_STYLES = ("-", (0, (1, 1)), (0, (4, 2)), (0, (8, 2, 2, 2)))

# Ratio of a log axis's largest to smallest value: above _FEW only minor ticks 2 and 5 are labelled, from _MANY on none.
_FEW, _MANY = 4, 30


@dataclass(frozen=True)
class Axis:
    """A column to plot, whether its axis is logarithmic, and its label if it differs from `LABELS`.

    Set ``counts`` for a column that grows in steps, such as transmissions: it keeps its value until the next row, and
    is plotted as a step function.
    """

    column: str
    log: bool = False
    label: str = ""
    counts: bool = False

    @property
    def jumps(self) -> bool:
        """Whether the column is plotted as a step function."""
        return self.counts or self.column in _COUNTS

    @property
    def text(self) -> str:
        """The axis's label; the default is made from the column's name."""
        return self.label or known.label(self.column)


def curves(
    rounds: "pd.DataFrame", y: Axis, against: Sequence[Axis], title: str, levels: Mapping[str, float] | None = None
) -> "Figure":
    """Plot a column of a rounds table against others in adjacent panels, with one curve per algorithm and one legend.

    Parameters
    ----------
    rounds : DataFrame
        A rounds table with a column ``algorithm``. Coinciding curves can be told apart by their markers, which are
        staggered. Curves are step functions if either axis is a count.
    levels : mapping, optional
        The values of horizontal reference lines, by label.
    """
    figure, panels = drawing(max(4.2 * len(against), 6.5), 4.2, len(against), title=title, sharey=True)
    count = rounds["algorithm"].nunique()
    for panel, x in zip(panels, against, strict=True):
        drawn = "steps-post" if x.jumps or y.jumps else "default"
        for number, (name, rows) in enumerate(rounds.groupby("algorithm", sort=False)):
            style = line_style(number, count) | {"drawstyle": drawn}
            panel.plot(rows[x.column], rows[y.column], label=str(name), **style)
        for number, (label, level) in enumerate((levels or {}).items()):
            panel.axhline(
                level, color="0.4", linestyle=_LEVEL_STYLES[number % len(_LEVEL_STYLES)], linewidth=1, label=label
            )
        panel.set_xlabel(x.text)
        # A log axis needs positive values; a run without messages has none.
        if x.log and (rounds[x.column] > 0).any():
            panel.set_xscale("log", nonpositive="mask")
            _thin_minor_labels(panel, rounds[x.column][rounds[x.column] > 0])
        if x.column == "round":
            whole_rounds(panel)
    panels[0].set_ylabel(y.text)
    positive = rounds[y.column][rounds[y.column] > 0]
    if y.log and len(positive):
        panels[0].set_yscale("log")
        if positive.max() == positive.min():
            # A single value gives no range to an axis.
            panels[0].set_ylim(positive.min() / 10, positive.max() * 10)
    unmark_unseen(figure)
    legend_below(figure)
    return figure


def drawing(
    width: float,
    height: float,
    columns: int | None = None,
    rows: int | None = None,
    *,
    title: str = "",
    grid: str = "both",
    **how: Any,
) -> "tuple[Figure, Any]":
    """Return a new figure of a size in inches (`sized`) and its panels: one, ``columns`` in a row, or a grid.

    ``rows`` is the number of rows of the grid. ``grid`` names the axes that have grid lines: "both", "x", "y", or ""
    for none. ``how`` is passed on to matplotlib's `Figure.subplots`: sharex, sharey, width_ratios.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=sized(width, height, columns or 1), layout="constrained")
    if title:
        figure.suptitle(title)
    panels = figure.subplots(rows or 1, columns or 1, squeeze=False, **how)
    for panel in panels.flat if grid else ():
        panel.grid(axis=grid, alpha=0.3)
    return figure, panels[0, 0] if columns is None else panels if rows else panels[0]


STYLES: Mapping[str, Mapping[str, Any]] = {
    "usual": {},
    "paper": {
        "figure.figsize": (3.5, 2.6),
        # The font is part of matplotlib, so a figure is the same on every machine.
        "font.family": ["STIXGeneral"],
        "mathtext.fontset": "stix",
        "font.size": 8.0,
        "axes.labelsize": 8.0,
        "axes.titlesize": 8.0,
        "figure.titlesize": 8.0,
        "legend.fontsize": 7.0,
        "xtick.labelsize": 7.0,
        "ytick.labelsize": 7.0,
        "axes.linewidth": 0.6,
        "grid.linewidth": 0.4,
        "lines.linewidth": 1.0,
        "lines.markersize": 3.0,
        # Publishers require embedded fonts, as TrueType.
        "pdf.fonttype": 42,
    },
}
"""Settings of matplotlib by the names of styles; "paper": a column of 3.5 inches, 8 points, with serifs."""

VECTORS: Mapping[str, str] = {"paper": "pdf,svg"}
"""The formats in which figures of a style are written, if they are not chosen."""

_PAGE = 7.16 / 3.5
"""How many times as wide as a column a page's text is."""

_WIDTH = 12.0
"""Inches of a figure of report.html: at 1,200 pixels a text of 10 points has 14."""


@contextmanager
def style(name: str) -> Iterator[None]:
    """Draw figures in a style inside the context, which must include saving them; raises BadInput for an unknown one.

    With "paper", a figure of one panel is as wide as a column of a two-column page (3.5 inches), a figure of several
    panels as wide as both columns (7.16 inches).
    """
    settings: Any = STYLES[check.one_of("style", name, STYLES)]
    if not settings:
        yield
        return
    from matplotlib import rc_context

    with rc_context(settings):
        yield


def unless_set(name: str, usual: Any) -> Any:
    """Return one of matplotlib's settings if it was changed, else netsim's usual value."""
    from matplotlib import rcParams, rcParamsDefault

    settings: Any = rcParams
    defaults: Any = rcParamsDefault
    return usual if settings[name] == defaults[name] else settings[name]


def sized(width: float, height: float, columns: int = 1) -> tuple[float, float]:
    """Return a figure's size in inches: as given, or matplotlib's setting ``figure.figsize`` if it was changed.

    With that setting, a figure with several columns of panels is as wide as the text of a two-column page.
    """
    found = unless_set("figure.figsize", None)
    if found is None:
        return width, height
    if columns == 1:
        return float(found[0]), float(found[0]) * height / width if height > width else float(found[1])
    page = float(found[0]) * _PAGE
    return page, max(float(found[1]), page * height / width)


def fit_to_page(figures: "Sequence[Figure]") -> None:
    """Resize the figures of one page to its width, and align panels that share an x label.

    A figure without matplotlib's constrained layout, which `drawing` sets, keeps its size; all do if ``figure.figsize``
    is set.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels: dict[tuple[str, str], list[Axes]] = {}
    for figure in figures:
        laid_out = isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine)
        if laid_out and unless_set("figure.figsize", None) is None:
            width, height = figure.get_size_inches()
            figure.set_size_inches(_WIDTH, height * min(1.0, _WIDTH / width))
            if any(panel.get_aspect() != "auto" for panel in figure.axes):
                # The compressed layout keeps a matrix next to its colour bar.
                figure.set_layout_engine("compressed")
        for panel in figure.axes:
            # Maps have a scale that must be kept, and categories have none.
            if (
                panel.get_xlabel()
                and panel.get_aspect() == "auto"
                and panel.xaxis.units is None
                and not panel.xaxis_inverted()
            ):
                panels.setdefault((panel.get_xlabel(), panel.get_xscale()), []).append(panel)
    for alike in panels.values():
        if len({panel.figure for panel in alike}) > 1:
            ends = [end for panel in alike for end in panel.get_xlim()]
            for panel in alike:
                panel.set_xlim(min(ends), max(ends))


def legend_below(figure: "Figure", columns: int | None = None, entries: "Mapping[str, Any] | None" = None) -> None:
    """Put a legend below the figure, by default in as many columns as fit its width.

    Its entries are those of the first panel, or ``entries``, which maps labels to handles.
    """
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if entries is not None:
        handles, labels = list(entries.values()), list(entries)
    columns = _columns_of(figure, labels) if columns is None else min(columns, len(labels))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def _columns_of(figure: "Figure", labels: Sequence[str]) -> int:
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(size=rcParams["legend.fontsize"])
    size = font.get_size_in_points()
    # matplotlib's defaults, in font sizes: handle length 2, gap to the text 0.8, column spacing 2.
    widths = [TextPath((0, 0), label, size=size, prop=font).get_extents().width + 4.8 * size for label in labels]
    # A wider figure is later resized to the width of a report.
    room = 72 * min(figure.get_figwidth(), _WIDTH)
    fitting = (n for n in range(len(labels), 1, -1) if sum(map(max, np.array_split(widths, n))) <= room)
    return next(fitting, 1)


def line_style(number: int, of: int) -> dict[str, Any]:
    """Return the style of curve ``number`` (from 0) out of ``of``; its markers are offset from other curves'."""
    style: dict[str, Any] = {"linestyle": ("-", "--", "-.", ":")[number % 4]}
    style |= {"linewidth": unless_set("lines.linewidth", 1.6)}
    if of > 1:
        # The marker spacing is a fraction of the panel's diagonal, so that markers are evenly spaced on any axis.
        gap = max(0.12, 0.03 * of)
        style |= {
            "marker": "os^Dvp<>"[number % 8],
            "markersize": unless_set("lines.markersize", 4.5),
            "markevery": (gap * (number + 0.5) / of, gap),
        }
    return style


def unmark_unseen(figure: "Figure") -> None:
    """Remove the markers of curves without a finite point, for which matplotlib cannot place any.

    Call it after the axis scales are set, on a figure whose curves use `line_style`.
    """
    for panel in figure.axes:
        for line in panel.lines:
            points = panel.transScale.transform(np.asarray(line.get_xydata(), dtype=float))
            if not np.isfinite(points).all(axis=1).any():
                line.set_marker("")


def whole_rounds(panel: "Axes") -> None:
    """Label only integers, in full, on a panel's x axis of rounds; call it after the axis scale is set."""
    from matplotlib.ticker import MaxNLocator

    if panel.get_xscale() == "linear":
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    low, high = (max(each, 1.0) for each in panel.dataLim.intervalx)
    span = high / low
    digits = "123456789" if span <= 2 else "12357" if span <= _FEW else "25" if span < _MANY else ""
    panel.xaxis.set_major_formatter(partial(_whole, digits="123456789"))
    panel.xaxis.set_minor_formatter(partial(_whole, digits=digits))


def _whole(value: float, place: float, *, digits: str) -> str:
    """Return an integer in full if its first digit is in ``digits``, else ""."""
    near = round(value)
    return f"{near:,}" if near >= 1 and abs(value - near) < 1e-6 and str(near)[0] in digits else ""


def _thin_minor_labels(panel: "Axes", values: "pd.Series[float]") -> None:
    """Label fewer minor ticks of a log axis than matplotlib, because its labels 2, 3, 4 and 6 overlap."""
    span = values.max() / values.min()
    if span > _FEW:
        panel.xaxis.set_minor_formatter(_format_2_and_5 if span < _MANY else "")


def _format_2_and_5(value: float, place: float) -> str:
    power = math.floor(math.log10(value) + 1e-9)
    first = round(value / 10.0**power)
    return rf"$\mathdefault{{{first}\times10^{{{power}}}}}$" if first in (2, 5) else ""
