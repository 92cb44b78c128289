"""Agents' states on the map of a picture, drawn as the page does (page/drawn.js) and meta["draw"] declares."""

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.replay.drawing import Drawing, Pen
from netsim.replay.run_history import RunHistory, cells_of
from netsim.replay.style_sheet import StyleSheet, shape

__all__ = ["Drawings"]

# Of a pile so many are drawn; behind them stands their number.
_PILE = 6


class Drawings:
    """Reads a run's states by what they are drawn as, and draws what stands at an agent."""

    def __init__(self, run: RunHistory, styles: StyleSheet) -> None:
        self.run, self.styles = run, styles

    # --- edges --------------------------------------------------------------------------------------------------------

    @cached_property
    def deepest(self) -> float:
        """The greatest depth of the run, of an even selection of its changes."""
        times = self.run.meta["states"]["times"]
        some = times[:: max(1, math.ceil(len(times) / 100))] + times[-1:]
        found = [depth for time in some for depth in self.run.tree_at(str(self.run.tree), time).depths]
        return max((each for each in found if each == each), default=1.0) or 1.0

    def draw_edges(
        self, drawing: Drawing, places: NDArray[np.float64], radius: float, k: float, time: float, since: float
    ) -> None:
        """Draw arrows to parents, as wide as what hangs on them; of what has just changed the old one, too."""
        for name in self.run.drawn_as("edge"):
            tree = self.run.tree_at(name, time)
            for agent, parent in enumerate(tree.parents):
                _, begin, before = self.run.since(name, agent, time)
                is_new = begin > max(since, 0.0)
                old = self.run.agent_named(agent, before)
                ends = places[agent], radius
                if is_new and old >= 0 and old != parent:
                    _arrow(drawing, *ends, places[old], k, Pen("soft", "soft", 1.5 * k, (4 * k, 5 * k)))
                if parent >= 0 and self.run.down_at(agent, time) is None:
                    width = min(1.6 + 0.8 * math.sqrt(tree.sizes[agent]), 6.0) * k
                    colour = "accent" if is_new else "edge"
                    _arrow(drawing, *ends, places[parent], k, Pen(colour, colour, width))

    # --- at an agent --------------------------------------------------------------------------------------------------

    def draw_beside(
        self, drawing: Drawing, agent: int, at: tuple[float, float], r: float, k: float, time: float, waiting: int
    ) -> None:
        """Draw a ring that runs out, a pile, a bar and a coin."""
        x, y = at
        for name in self.run.drawn_as("arc"):
            due, begin, _ = self.run.since(name, agent, time)
            if isinstance(due, float) and time < due < math.inf:
                share = min((due - time) / (due - begin or 1.0), 1.0)
                for colour, until in (("faint", 1.0), ("accent" if share < 0.3 else "soft", share)):
                    turns = np.linspace(-0.25, until - 0.25, max(int(40 * until), 2)) * 2 * math.pi
                    far = r + 4.5 * k
                    points = [(x + far * math.cos(turn), y + far * math.sin(turn)) for turn in turns.tolist()]
                    drawing.line(points, Pen(colour, width=3.5 * k))
        stacks = [self.run.value(name, agent, time) for name in self.run.drawn_as("stack")]
        count = int(sum(each for each in stacks if isinstance(each, float))) if stacks else waiting
        left = x + r + 3 * k
        for number in range(min(count, _PILE)):
            top = y + r - (number + 1) * 5 * k
            drawing.box(left, top, left + 11 * k, top + 4 * k, Pen("soft", "past", 0.8))
        if count > _PILE:
            drawing.word(left, y + r - _PILE * 5 * k - 3 * k, str(count), 11 * k, bold=True)
        for name in self.run.drawn_as("gauge"):
            share = self.run.value(name, agent, time)
            if isinstance(share, float):
                left, high = x - r - 8 * k, 1.7 * r
                bottom = y + high / 2
                drawing.box(left, bottom - high, left + 5 * k, bottom, Pen("soft", "paper", 0.8))
                full = "accent" if share < 0.2 else "good"
                drawing.box(left, bottom - high * share, left + 5 * k, bottom, Pen("soft", full, 0.8))
        if self.run.has("token", agent, time):
            coin(drawing, x + 0.9 * r, y - 0.9 * r, 0.55 * r)

    # --- strips -------------------------------------------------------------------------------------------------------

    @cached_property
    def strip(self) -> tuple[str, int, list[int], dict[str, str]] | None:
        """The state that is a strip, its most cells, the agents that have it, and colours by term; None without."""
        names = self.run.drawn_as("strip")
        if not names:
            return None
        values = self.run.values(names[0])
        found = [cells_of(value)[1] for value in dict.fromkeys(values) if value]
        terms = sorted({cell.term for cells in found for cell in cells}, key=lambda term: (len(term), term))
        agents = sorted({agent for _, agent, _, _ in self.run.changes(names[0], first=True)})
        colours = dict(zip(terms, itertools.cycle(self.styles.terms)))
        return (names[0], max(map(len, found), default=1) or 1, agents, colours) if agents else None

    def draw_strip(
        self, drawing: Drawing, box: tuple[float, float, float, float], k: float, time: float, since: float
    ) -> None:
        """Draw the rows of a strip, index below index, in a box: solid what stands for ever, dashed what does not."""
        assert self.strip is not None
        state, most, agents, colours = self.strip
        left, top, right, bottom = box
        high = min(30 * k, (bottom - top) / (len(agents) + 1))
        name = 30 * k
        wide = min(46 * k, (right - left - name) / most)
        y = (top + bottom - high * (len(agents) + 1)) / 2
        drawing.word(left + 0.45 * name, y + 0.7 * high, state, 11 * k, "soft", bold=True, anchor="middle", rim="")
        shift = 0
        for row, agent in enumerate(agents):
            value, begin, before = self.run.since(state, agent, time)
            (first, cells), (_, old) = cells_of(value), cells_of(before)
            shift, at = max(shift, first), y + high * (row + 1)
            drawing.word(
                left + 0.45 * name, at + 0.64 * high, self.run.agents[agent][:4], 11 * k, bold=True, anchor="middle"
            )
            for place in range(most):
                x = left + name + place * wide
                edges = x + 1.5 * k, at + 2 * k, x + wide - 1.5 * k, at + high - 2 * k
                if place >= len(cells):
                    drawing.box(*edges, Pen("faint"))
                    continue
                cell = cells[place]
                is_new = begin > max(since, 0.0) and (place >= len(old) or old[place] != cell)
                colour = colours[cell.term] if cell.term else "panel"
                drawing.box(*edges, Pen(fill=colour, opacity=1.0 if cell.fixed else 0.35))
                line = Pen(
                    "accent" if is_new else "ink" if cell.fixed else "soft", width=(1.8 if cell.fixed else 1.2) * k
                )
                dash = () if cell.fixed else (3 * k, 3 * k)
                drawing.box(*edges, Pen(line.line, width=line.width * (1.6 if is_new else 1.0), dash=dash))
                ink = self.styles.ink_on(colour) if cell.fixed and cell.term else "ink"
                middle = x + wide / 2
                fits = cell.text[: max(2, int(wide / (7.5 * k)))]
                drawing.word(middle, at + 0.5 * high, fits, 10.5 * k, ink, bold=True, anchor="middle", rim="")
                if cell.term:
                    drawing.word(middle, at + 0.84 * high, f"t{cell.term}", 8.5 * k, ink, anchor="middle", rim="")
        for place in range(most):
            x = left + name + (place + 0.5) * wide
            drawing.word(x, y + 0.7 * high, str(shift + place + 1), 10 * k, "soft", anchor="middle", rim="")

    # --- legend -------------------------------------------------------------------------------------------------------

    def signs(self) -> Iterator[tuple[Any, str]]:
        """Yield the legend's signs, each a function of a drawing, a place and a scale, and their words."""
        for kind, sign in _SIGNS.items():
            for name in self.run.drawn_as(kind):
                last = name.rpartition(".")[2]
                yield (
                    sign,
                    {"dim": f"pale: {last}", "arc": f"time left: {last}", "strip": "dashed: not yet committed"}.get(
                        kind, last
                    ),
                )


def coin(drawing: Drawing, x: float, y: float, size: float) -> None:
    """Draw a coin."""
    drawing.circle(x, y, size, Pen("#14181d", "coin", 1.4))
    drawing.circle(x, y, 0.5 * size, Pen("#14181d", width=1.4))


def _arrow(
    drawing: Drawing, begin: NDArray[np.float64], radius: float, end: NDArray[np.float64], k: float, pen: Pen
) -> None:
    way = end - begin
    far = math.hypot(*way) or 1.0
    ux, uy = way / far
    size = 3 * k + 1.6 * pen.width
    tip = end - (radius + 3) * way / far
    back = tip - size * way / far
    drawing.line([tuple(begin + radius * way / far), tuple(back)], Pen(pen.line, width=pen.width, dash=pen.dash))
    aside = 0.6 * size * np.array([-uy, ux])
    drawing.line([tuple(tip), tuple(back + aside), tuple(back - aside)], Pen(fill=pen.fill), closed=True)


def _edge_sign(drawing: Drawing, x: float, y: float, k: float) -> None:
    _arrow(drawing, np.array([x, y]), 0.0, np.array([x + 30 * k, y]), k, Pen("edge", "edge", 3 * k))


def _pile_sign(drawing: Drawing, x: float, y: float, k: float) -> None:
    for number in range(3):
        top = y + (1 - number) * 5 * k
        drawing.box(x + 14 * k, top, x + 25 * k, top + 4 * k, Pen("soft", "past", 0.8))


def _gauge_sign(drawing: Drawing, x: float, y: float, k: float) -> None:
    drawing.box(x + 17 * k, y - 8 * k, x + 22 * k, y + 8 * k, Pen("soft", "paper", 0.8))
    drawing.box(x + 17 * k, y, x + 22 * k, y + 8 * k, Pen("soft", "good", 0.8))


def _cell_sign(drawing: Drawing, x: float, y: float, k: float) -> None:
    drawing.box(x + 10 * k, y - 6 * k, x + 30 * k, y + 6 * k, Pen("soft", width=1.2 * k, dash=(3 * k, 3 * k)))


_SIGNS: Mapping[str, Any] = {
    "edge": _edge_sign,
    "star": lambda drawing, x, y, k: shape(drawing, "star", x + 20 * k, y, 7 * k, Pen("ink", "paper", k)),
    "token": lambda drawing, x, y, k: coin(drawing, x + 20 * k, y, 6 * k),
    "stack": _pile_sign,
    "gauge": _gauge_sign,
    "dim": lambda drawing, x, y, k: drawing.circle(x + 20 * k, y, 7 * k, Pen("ink", "panel", k, opacity=0.4)),
    "arc": lambda drawing, x, y, k: drawing.circle(x + 20 * k, y, 7 * k, Pen("soft", width=3 * k)),
    "strip": _cell_sign,
}
