"""Around a picture: its title, and the legend of all colours, lines and marks that are on it."""

import bisect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from netsim.replay.drawing import Drawing, Pen, width_of
from netsim.replay.drawn import Drawings
from netsim.replay.run_history import RunHistory
from netsim.replay.style_sheet import Style, StyleSheet, head, is_log, mark, shape

__all__ = ["MARKED", "REPLY", "Entry", "crashed", "entries", "heading", "legend", "shortened", "strokes"]

_SAMPLE = 34.0

MARKED = 1500
"""Frames from which on those that overtook others have no mark."""

REPLY = (1.5, 3.0)
"""The dash of a reply's arrow."""


@dataclass(frozen=True)
class Entry:
    """One entry of a legend: its sample, drawn from a point to the right, and its words, before which one is bold."""

    sample: Callable[[Drawing, float, float, float], None]
    bold: str
    words: str
    colour: str

    def width(self, k: float) -> float:
        """Return how wide it is at a scale."""
        return k * (_SAMPLE + 26) + width_of(self.bold, 12 * k, True) + width_of(self.words, 12 * k)


def heading(drawing: Drawing, title: str, about: str, k: float) -> float:
    """Draw a title and a line about what is shown; return where they end."""
    room = drawing.width - 28 * k
    drawing.word(14 * k, 26 * k, shortened(title, 17 * k, room, True), 17 * k, bold=True, rim="")
    drawing.word(14 * k, 44 * k, shortened(about, 12 * k, room), 12 * k, "soft", rim="")
    return 54 * k


def shortened(text: str, size: float, room: float, bold: bool = False) -> str:
    """Return a text, or as much of its beginning as there is room for."""
    if width_of(text, size, bold) <= room:
        return text
    # By halves: to try each length in turn takes minutes for names of some thousand letters.
    lengths = range(1, len(text))
    count = bisect.bisect_right(lengths, room, key=lambda length: width_of(text[:length] + "…", size, bold))
    return text[:count] + "…" if count else ""


def entries(run: RunHistory, styles: StyleSheet, rows: NDArray[np.int64], *, arrows: bool) -> list[Entry]:
    """Return the entries for some frames and for all states; ``arrows``: of lines, else of shapes."""
    found = list(_states(run, styles, arrows))
    if not arrows:
        found += [Entry(sign, "", words, "ink") for sign, words in Drawings(run, styles).signs()]
    some_down = any(run.down(agent) for agent in range(len(run.agents)))
    if some_down:
        sample = partial(_line, style=styles.down, width=2) if arrows else partial(_down, styles=styles)
        found.append(Entry(sample, "", "down", "ink"))
    columns = run.columns
    for number in np.unique(columns["kind"][rows]).tolist():
        kind = run.kinds[number]
        style = styles.kinds[kind]
        found.append(Entry(partial(_arrow if arrows else _dot, style=style), kind, "", style.colour))
    if arrows and len(rows) < MARKED and run.overtook[rows].any():
        found.append(Entry(_overtaking, "", "overtook another of its link", "ink"))
    if columns["reply"][rows].any():
        found.append(Entry(_reply if arrows else _hollow, "", "reply", "ink"))
    for number in np.unique(columns["cause"][rows]).tolist():
        name = run.causes[number]
        if number and (arrows or name != "in_flight"):
            found.append(Entry(partial(_ending, style=styles.cause(name)), "", styles.cause(name).words or name, "ink"))
    return found


def legend(drawing: Drawing, listed: Sequence[Entry], k: float) -> float:
    """Draw a legend in rows at the bottom of a drawing, and return where it begins."""
    rows: list[list[Entry]] = []
    room = drawing.width - 28 * k
    left = math.inf
    for entry in listed:
        if left + entry.width(k) > room:
            rows.append([])
            left = 0.0
        rows[-1].append(entry)
        left += entry.width(k)
    top = drawing.height - k * (8 + 21 * len(rows))
    for number, row in enumerate(rows):
        x, y = 14 * k, top + k * (21 * number + 10)
        for entry in row:
            entry.sample(drawing, x, y, k)
            at = x + (_SAMPLE + 7) * k
            drawing.word(at, y + 4.2 * k, entry.bold, 12 * k, entry.colour, bold=True, rim="")
            at += width_of(entry.bold + " ", 12 * k, True) if entry.bold else 0
            drawing.word(at, y + 4.2 * k, entry.words, 12 * k, "ink", rim="")
            x += entry.width(k)
    return top


def _states(run: RunHistory, styles: StyleSheet, arrows: bool) -> Iterable[Entry]:
    if run.has_words:
        for word in run.words:
            style = styles.roles[word]
            sample = partial(_line, style=style, width=style.weight) if arrows else partial(_shape, style=style)
            # True and False say nothing without the state's name.
            yield Entry(sample, f"{run.state} {word}" if word in ("True", "False") else word, "", "ink")
    elif math.isfinite(run.extent[0]):
        low, high = run.extent
        ends = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}{', logarithmic' * is_log(low, high)}"
        yield Entry(partial(_ramp, styles=styles, extent=run.extent), str(run.state), ends, "ink")
    elif run.tree is not None and not arrows:
        extent = 0.0, Drawings(run, styles).deepest
        yield Entry(partial(_ramp, styles=styles, extent=extent), "hops", f"0 to {extent[1]:g}", "ink")


def _line(drawing: Drawing, x: float, y: float, k: float, style: Style, width: float) -> None:
    pen = Pen(style.line, width=width * k, dash=tuple(k * each for each in style.dash))
    drawing.line([(x, y), (x + _SAMPLE * k, y)], pen)


def _shape(drawing: Drawing, x: float, y: float, k: float, style: Style) -> None:
    shape(drawing, style.shape, x + 0.6 * _SAMPLE * k, y, 7 * k, Pen("ink", style.colour, k))


def _down(drawing: Drawing, x: float, y: float, k: float, styles: StyleSheet) -> None:
    crashed(drawing, styles, x + 0.6 * _SAMPLE * k, y, 7 * k, k)


def crashed(drawing: Drawing, styles: StyleSheet, x: float, y: float, radius: float, k: float) -> None:
    """Draw an agent that is down."""
    colour = styles.down.colour
    drawing.circle(x, y, radius, Pen(colour, "paper", 1.8 * k, (0.1, 4 * k), rounded=True))
    cross, at = 0.4 * radius, (x + 0.8 * radius, y - 0.8 * radius)
    for way in (1, -1):
        ends = [(at[0] - cross, at[1] - way * cross), (at[0] + cross, at[1] + way * cross)]
        drawing.line(ends, Pen(colour, width=2.2 * k, rounded=True))


def _arrow(drawing: Drawing, x: float, y: float, k: float, style: Style) -> None:
    dash = tuple(k * each for each in style.dash)
    drawing.line([(x, y), (x + (_SAMPLE - 7) * k, y)], Pen(style.colour, width=style.weight * k, dash=dash))
    head(drawing, style, (x + _SAMPLE * k, y), (1.0, 0.0), k)


def _dot(drawing: Drawing, x: float, y: float, k: float, style: Style) -> None:
    shape(drawing, style.shape, x + 0.6 * _SAMPLE * k, y, 5 * k, Pen("paper", style.colour, k))


def _reply(drawing: Drawing, x: float, y: float, k: float) -> None:
    drawing.line([(x, y), (x + _SAMPLE * k, y)], Pen("soft", width=1.5 * k, dash=tuple(k * each for each in REPLY)))


def _overtaking(drawing: Drawing, x: float, y: float, k: float) -> None:
    drawing.line([(x, y), (x + _SAMPLE * k, y)], Pen("soft", width=1.3 * k))
    strokes(drawing, (x + 0.6 * _SAMPLE * k, y), (1.0, 0.0), k)


def strokes(drawing: Drawing, at: tuple[float, float], way: tuple[float, float], k: float) -> None:
    """Draw two strokes across an arrow that overtook another."""
    (x, y), (ux, uy) = at, way
    for back in (0.0, 4 * k):
        middle, across = (x - back * ux, y - back * uy), (-5 * k * uy, 5 * k * ux)
        ends = [(middle[0] + sign * across[0], middle[1] + sign * across[1]) for sign in (1, -1)]
        drawing.line(ends, Pen("ink", width=1.6 * k))


def _hollow(drawing: Drawing, x: float, y: float, k: float) -> None:
    drawing.circle(x + 0.6 * _SAMPLE * k, y, 4.5 * k, Pen("soft", "paper", 1.8 * k))


def _ending(drawing: Drawing, x: float, y: float, k: float, style: Style) -> None:
    drawing.line([(x, y), (x + 0.75 * _SAMPLE * k, y)], Pen("soft", width=1.3 * k))
    mark(drawing, style, x + 0.8 * _SAMPLE * k, y, 4.5 * k)


def _ramp(drawing: Drawing, x: float, y: float, k: float, styles: StyleSheet, extent: tuple[float, float]) -> None:
    low, high = extent
    steps = 1 if low == high else 17
    wide = _SAMPLE * k / steps
    for number in range(steps):
        share = (number + 0.5) / steps
        value = low * (high / low) ** share if is_log(low, high) else low + (high - low) * share
        colour = styles.number(value, extent)
        # A little wider, or the ground would shine through between two.
        right = x + wide * (number + 1) + (0.4 if number < steps - 1 else 0)
        drawing.box(x + wide * number, y - 5 * k, right, y + 5 * k, Pen(fill=colour))
    drawing.box(x, y - 5 * k, x + _SAMPLE * k, y + 5 * k, Pen("soft", width=0.8))
