"""How roles, kinds of message and causes look in a picture: the numbers of page/tokens.json, drawn as the page does."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from netsim.replay.drawing import Drawing, Pen
from netsim.replay.html import tokens

__all__ = ["Style", "StyleSheet", "between", "head", "is_log", "mark", "shape"]

Corners = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Style:
    """How a role, a kind or a cause looks: the name of its colour, and what stands beside the colour."""

    colour: str
    weight: float = 1.0
    dash: tuple[float, ...] = ()
    shape: str = ""
    head: str = ""
    mark: str = ""
    reach: float = 1.0
    words: str = ""
    # The colour of a lifeline: that of the usual role would look like a line without one.
    line: str = ""


class StyleSheet:
    """The styles of a run's states, kinds and causes; ``light`` and ``dark`` have all colours by name.

    Parameters
    ----------
    words, kinds : sequence of str
        The words of the state that is shown, and the kinds of message, each in the order of the page.
    routine : str, optional
        The kind that is routine: it is grey.
    middle : bool
        Whether numbers are below or above a middle, in two colours; else from few to many.
    """

    def __init__(
        self, words: Sequence[str], kinds: Sequence[str], routine: str | None = None, middle: bool = False
    ) -> None:
        found = tokens()
        self.scale: list[str] = found["diverging"]["light"] if middle else found["ordinal"]
        self.terms: list[str] = found["terms"]
        self.light: dict[str, str] = dict(found["themes"]["light"])
        self.dark: dict[str, str] = dict(found["themes"]["dark"])
        self.down = self._style("down", found["down"])
        usual = self._style("routine", found["routine"])
        roles = [self._style(f"role{number}", each) for number, each in enumerate(found["roles"])]
        news = [self._style(f"kind{number}", each) for number, each in enumerate(found["kinds"])]
        count = len(roles)
        # More words than colours: the same colours with other shapes.
        self.roles = {
            word: replace(roles[place % count], shape=roles[(place + place // count) % count].shape)
            for place, word in enumerate(words)
        }
        self.kinds = {kind: usual if kind == routine else news[k % len(news)] for k, kind in enumerate(kinds)}
        self.routine = routine
        self.causes = {name: self._style(f"cause-{name}", each) for name, each in found["causes"].items()}

    def _style(self, name: str, found: dict[str, Any]) -> Style:
        self.light[name], self.dark[name] = found["light"], found["dark"]
        line = found.get("line", found)
        self.light[f"{name}-line"], self.dark[f"{name}-line"] = line["light"], line["dark"]
        more = {key: found[key] for key in ("weight", "shape", "head", "mark", "reach", "words") if key in found}
        return Style(name, line=f"{name}-line", dash=tuple(found.get("dash", ())), **more)

    def colours(self, theme: str) -> dict[str, str]:
        """Return the colours of a theme, "light" or "dark"."""
        return self.dark if theme == "dark" else self.light

    def cause(self, name: str) -> Style:
        """Return how frames look that ended so."""
        return self.causes.get(name, self.causes["in_flight"])

    def number(self, value: float, extent: tuple[float, float]) -> str:
        """Return the colour of a number on the scale between two others, logarithmic if one is ten times the other."""
        low, high = extent
        if is_log(low, high):
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low) if high > low else 0.5
        place = min(max(share, 0.0), 1.0) * (len(self.scale) - 1)
        first = min(int(place), len(self.scale) - 2)
        return between(self.scale[first], self.scale[first + 1], place - first)

    def ink_on(self, colour: str) -> str:
        """Return the colour of letters on a colour (``#rrggbb``)."""
        shares = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
        light = sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), shares, strict=True))
        return "#14181d" if light > 0.2 else "#ffffff"


def is_log(low: float, high: float) -> bool:
    """Return whether the scale between two numbers is logarithmic."""
    return low > 0 and high > 10 * low


def between(one: str, other: str, share: float) -> str:
    """Return the colour at a share of the way from one colour to another."""
    pairs = ((int(one[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(low + (high - low) * share):02x}" for low, high in pairs)


# --- shapes of agents, and of frames under way ------------------------------------------------------------------------


def _ring(count: int, turn: float = -0.25, size: float = 1.0) -> Corners:
    """Return the corners of a regular polygon; ``turn``: where the first one is, in turns."""
    angles = (2 * math.pi * (number / count + turn) for number in range(count))
    return [(size * math.cos(angle), size * math.sin(angle)) for angle in angles]


def _star() -> Corners:
    inner, outer = _ring(5, -0.15, 0.55), _ring(5, -0.25, 1.2)
    return [corner for pair in zip(outer, inner, strict=True) for corner in pair]


_SHAPES: dict[str, Corners] = {
    "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    "diamond": _ring(4, -0.25, 1.25),
    "triangle": [(0.0, -1.2), (1.1, 0.85), (-1.1, 0.85)],
    "wedge": [(0.0, 1.2), (1.1, -0.85), (-1.1, -0.85)],
    "pentagon": _ring(5, -0.25, 1.1),
    "hexagon": _ring(6, 0.0, 1.08),
    "star": _star(),
}


def shape(drawing: Drawing, name: str, x: float, y: float, size: float, pen: Pen) -> None:
    """Draw the shape of a role or a kind, some ``2 * size`` wide, around a point."""
    if name in _SHAPES:
        drawing.line([(x + size * px, y + size * py) for px, py in _SHAPES[name]], pen, closed=True)
    else:
        drawing.circle(x, y, size, pen)


# --- heads of arrows --------------------------------------------------------------------------------------------------

# Corners as (behind the tip, aside). A head that is in neither table is a full triangle.
_LINES: dict[str, Sequence[Corners]] = {
    "open": [[(9, 4.5), (0, 0), (9, -4.5)]],
    "bar": [[(0, 5), (0, -5)]],
    "double": [[(7, 4), (0, 0), (7, -4)], [(12, 4), (5, 0), (12, -4)]],
}
_AREAS: dict[str, Corners] = {
    "hollow": [(8, 3.5), (0, 0), (8, -3.5)],
    "diamond": [(11, 0), (5.5, 4), (0, 0), (5.5, -4)],
    "bar": [(9, 4), (1, 0), (9, -4)],
    "half": [(10, 0), (10, 5), (0, 0)],
}


def head(drawing: Drawing, style: Style, tip: tuple[float, float], way: tuple[float, float], size: float = 1.0) -> None:
    """Draw the head of a kind's arrow, whose tip is at a point; ``way`` is its direction, of length 1."""
    (x, y), (ux, uy) = tip, way

    def at(back: float, aside: float) -> tuple[float, float]:
        return x - size * (back * ux + aside * uy), y - size * (back * uy - aside * ux)

    full = Pen(fill=style.colour)
    if style.head == "dot":
        drawing.circle(*at(4, 0), size * 4, full)
        return
    edge = Pen(style.colour, "paper", size * 1.3, rounded=True) if style.head == "hollow" else full
    for corners in _LINES.get(style.head, ()):
        drawing.line([at(*each) for each in corners], Pen(line=style.colour, width=size * 1.8, rounded=True))
    if style.head not in _LINES or style.head in _AREAS:
        corners = _AREAS.get(style.head, [(9, 4), (0, 0), (9, -4)])
        drawing.line([at(*each) for each in corners], edge, closed=True)


# --- marks of frames that did not arrive ------------------------------------------------------------------------------

_Strokes = Sequence[Corners]

_X: _Strokes = [[(-1, -1), (1, 1)], [(-1, 1), (1, -1)]]
_STROKES: dict[str, _Strokes] = {
    "cross": _X,
    "star": [*_X, [(-1.3, 0), (1.3, 0)], [(0, -1.3), (0, 1.3)]],
    "zigzag": [[(-1.2, 0.6), (-0.4, -0.8), (0.4, 0.8), (1.2, -0.6)]],
    "minus": [[(-0.6, 0), (0.6, 0)]],
    "stack": [[(-1, -0.9), (1, -0.9)], [(-1, 0), (1, 0)], [(-1, 0.9), (1, 0.9)]],
    "hourglass": [[(-0.8, -0.9), (0.8, -0.9), (-0.8, 0.9), (0.8, 0.9), (-0.8, -0.9)]],
    "half": [[(0, -1), (-0.7, -0.7), (-1, 0), (-0.7, 0.7), (0, 1), (0, -1)]],
    "boxed": [[(0.6 * px, 0.6 * py) for px, py in each] for each in _X],
    "ringed": [[(0.6 * px, 0.6 * py) for px, py in each] for each in _X],
}
_FRAMES = {"boxed": "square", "ringed": "circle", "minus": "circle", "ring": "circle"}
_FULL = ("triangle", "square", "diamond", "dot")


def mark(drawing: Drawing, style: Style, x: float, y: float, size: float = 5.0) -> None:
    """Draw the mark of a cause around a point, above what is there."""
    line = Pen(line=style.colour, width=max(1.2, 0.4 * size), rounded=True)
    if style.mark in _FULL:
        name = "circle" if style.mark == "dot" else style.mark
        shape(drawing, name, x, y, size, Pen("paper", style.colour, 1.5))
        return
    if style.mark in _FRAMES:
        shape(drawing, _FRAMES[style.mark], x, y, 1.25 * size, Pen(style.colour, "paper", max(1.0, 0.26 * size)))
    for stroke in _STROKES.get(style.mark, ()):
        points = [(x + size * px, y + size * py) for px, py in stroke]
        if style.mark not in _FRAMES:
            drawing.line(points, Pen(line="paper", width=line.width + 3, rounded=True))
    for stroke in _STROKES.get(style.mark, ()):
        drawing.line([(x + size * px, y + size * py) for px, py in stroke], line)
