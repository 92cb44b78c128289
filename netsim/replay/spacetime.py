"""The space–time diagram of a run: a lifeline for each agent, an arrow for each frame, words where there is room."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netsim.replay.drawing import Drawing, Pen, width_of
from netsim.replay.legend import MARKED, REPLY, entries, heading, legend, shortened, strokes
from netsim.replay.run_history import DOWN, Fault, RunHistory, Span, few, seconds
from netsim.replay.style_sheet import Style, StyleSheet, head, mark

__all__ = ["SpaceTime", "short_words"]

# Square pixels of the diagram for each arrow (at the usual size of text) below which something is left out.
_LABELS, _ROUTINE_LABELS, _TERMS, _DOTS, _TICKS, _HEADS = 900.0, 1800.0, 600.0, 250.0, 60.0, 40.0

# Arrows that are drawn at most, of frames that arrived and of others.
_ARROWS, _LOSSES = 4000, 2000

Box = tuple[float, float, float, float]


class OccupancyGrid:
    """Rectangles already drawn, indexed by grid cell, so that labels do not overlap."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], list[Box]] = defaultdict(list)

    def is_free(self, box: Box) -> bool:
        """Return whether a box overlaps no other."""
        left, top, right, bottom = box
        return not any(
            left < other[2] and right > other[0] and top < other[3] and bottom > other[1]
            for cell in self._within(box)
            for other in self._cells.get(cell, ())
        )

    def occupy(self, box: Box) -> None:
        """Add a rectangle."""
        for cell in self._within(box):
            self._cells[cell].append(box)

    def _within(self, box: Box) -> Iterator[tuple[int, int]]:
        across, along = (range(int(box[i] // 64), int(box[i + 2] // 64) + 1) for i in (0, 1))
        return itertools.product(across, along)


@dataclass(frozen=True)
class Arrow:
    """A frame: from where to where, how it looks, why it ended (nothing: it arrived), and its label.

    ``leaves`` is where it leaves, after its wait; ``bow`` how far it bends to be seen, if it takes no time.
    """

    row: int
    begin: tuple[float, float]
    leaves: tuple[float, float]
    end: tuple[float, float]
    bow: float
    style: Style
    routine: bool
    reply: bool
    cause: str
    label: str


class SpaceTime:
    """The diagram of a run between two times (s), in a size in pixels.

    Parameters
    ----------
    run : RunHistory
    styles : StyleSheet
    begin, end : float
        In seconds, ``begin`` < ``end``.
    size : (float, float)
        Width and height, in pixels.
    k : float
        How large text is; 1 is 12 pixels.
    """

    def __init__(
        self, run: RunHistory, styles: StyleSheet, begin: float, end: float, size: tuple[float, float], k: float = 1.0
    ) -> None:
        self.run, self.styles, self.begin, self.end, self.k = run, styles, begin, end, k
        self.rows = run.rows(begin, end)
        self.rows = self.rows[run.columns["end"][self.rows] >= begin]
        failed = run.columns["cause"][self.rows] > 0
        self._drawn = np.union1d(few(self.rows[~failed], _ARROWS), few(self.rows[failed], _LOSSES))
        self._drawing = Drawing(*size, run.title)
        self._grid = OccupancyGrid()
        self._lanes = _lanes(len(run.agents), run.partitions(begin, end))
        self._measure()

    def _measure(self) -> None:
        """Find where the diagram is between title, names, last words and legend."""
        k, run, drawing = self.k, self.run, self._drawing
        drawing.about = self.about()
        top = heading(drawing, run.title, drawing.about, k)
        bottom = legend(drawing, entries(run, self.styles, self.rows, arrows=True), k)
        names = [width_of(name, 13 * k, True) for name in run.agents]
        ends = [width_of(self._last_words(agent), 12 * k, True) for agent in range(len(run.agents))]
        self.left = 24 * k + min(max(names, default=0.0), 110 * k)
        self.right = drawing.width - max(14 * k + min(max(ends, default=0.0), 150 * k), 34 * k)
        self.top, self.bottom = top + 10 * k, bottom - 34 * k
        self.gap = (self.bottom - self.top) / max(len(run.agents), 1)
        area = (self.right - self.left) * (self.bottom - self.top) / k**2
        self._each = area / max(len(self.rows), 1)

    def about(self) -> str:
        """Return one line on what is shown."""
        run = self.run
        whole = self.begin <= 0 and self.end >= run.ended_at
        span = self.end - self.begin
        times = "" if whole else f"{seconds(self.begin, span)} to {seconds(self.end, span)} of "
        there = [place for place, name in enumerate(run.causes) if name in ("delivered", "late", "in_flight")]
        missing = int((~np.isin(run.columns["cause"][self.rows], there)).sum())
        count = f"{len(self.rows):,} frame{'' if len(self.rows) == 1 else 's'}"
        lost = f", {missing:,} of them did not arrive" if missing else ""
        some = f"; {len(self._drawn):,} are drawn" if len(self._drawn) < len(self.rows) else ""
        return f"{times}{seconds(run.ended_at, run.ended_at)}, {count}{lost}{some}"

    def x(self, time: float) -> float:
        """Return where a time is."""
        return self.left + (time - self.begin) / (self.end - self.begin) * (self.right - self.left)

    def y(self, agent: int) -> float:
        """Return where an agent's lifeline is."""
        return self.top + (self._lanes[agent] + 0.5) * self.gap

    def draw(self) -> Drawing:
        """Return the diagram."""
        self._draw_partitions()
        self._draw_axis()
        self._draw_cuts()
        self._draw_lifelines()
        arrows = [self._arrow(row) for row in self._drawn.tolist()]
        for arrow in arrows:
            self._draw_arrow(arrow)
        self._draw_dots(arrows)
        for arrow in arrows:
            # A frame may end after the stretch that is shown.
            if arrow.cause and arrow.end[0] <= self.right + 1:
                mark(self._drawing, self.styles.cause(arrow.cause), *arrow.end, self._mark_size)
                self._take(*arrow.end, 1.5 * self._mark_size)
        self._draw_faults()
        self._draw_changes()
        self._draw_notes()
        self._draw_terms()
        self._draw_labels(arrows)
        return self._drawing

    # --- the ground ---------------------------------------------------------------------------------------------------

    def _draw_partitions(self) -> None:
        k = self.k
        for fault in self.run.partitions(self.begin, self.end):
            left, right = self.x(max(fault.begin, self.begin)), self.x(min(fault.end, self.end))
            top, bottom = self.top - 8 * k, self.bottom + 4 * k
            self._drawing.box(left, top, right, bottom, Pen(fill="band"))
            for time, x in ((fault.begin, left), (fault.end, right)):
                if self.begin <= time <= self.end:
                    self._drawing.line([(x, top), (x, bottom)], Pen("bandline", width=k, dash=(2 * k, 4 * k)))
            span = self.end - self.begin
            times = f"from {seconds(fault.begin, span)}" + (f" to {seconds(fault.end, span)}" if fault.ends else "")
            sides = " | ".join(" ".join(self.run.agents[each] for each in side) for side in fault.sides)
            wide = self.right - left - 8 * k
            for text in (f"partition: {sides}, {times}", f"partition: {sides}", "partition"):
                if width_of(text, 12 * k, True) < wide:
                    self._say(left + 6 * k, top + 13 * k, text, "bandline", rim="band")
                    break

    def _draw_axis(self) -> None:
        k, drawing = self.k, self._drawing
        step = _step((self.end - self.begin) / max(1.0, (self.right - self.left) / (70 * k)))
        span = self.end - self.begin
        unit = seconds(0.0, span).split()[1]
        number = math.ceil(self.begin / step - 1e-9)
        last = math.floor(self.end / step + 1e-9)
        for each in range(number, last + 1):
            x = self.x(each * step)
            drawing.line([(x, self.top - 4 * k), (x, self.bottom + 4 * k)], Pen("faint", width=k))
            text = seconds(each * step, span, step).split()[0] + (f" {unit}" if each == last else "")
            # The last one's unit, or many digits, must not be cut off at the edge of the picture.
            half = width_of(text, 12 * k) / 2 + 2 * k
            x = max(half, min(x, drawing.width - half))
            drawing.word(x, self.bottom + 19 * k, text, 12 * k, "soft", anchor="middle", rim="")

    def _draw_cuts(self) -> None:
        """Draw a line between what is separated: the sides of a partition, or the ends of a link that is cut."""
        k = self.k
        for fault in self.run.faults:
            if fault.begin > self.end or fault.end < self.begin or not fault.links:
                continue
            left, right = self.x(max(fault.begin, self.begin)), self.x(min(fault.end, self.end))
            for y in self._borders(fault):
                self._drawing.line([(left, y), (right, y)], Pen("bandline", width=2.2 * k, dash=(9 * k, 5 * k)))
                text = short_words(fault, self.run)[0]
                if left - width_of(text, 12 * k, True) - 6 * k > self.left:
                    self._say(left - 6 * k, y + 4 * k, text, "bandline", anchor="end")

    def _borders(self, fault: Fault) -> list[float]:
        """Return where a fault's lines are: between two sides, or halfway between the ends of a link."""
        if fault.sides:
            side_of = {agent: number for number, side in enumerate(fault.sides) for agent in side}
            sides = [side_of.get(agent, -1) for agent in self._order]
            return [self.top + lane * self.gap for lane in range(1, len(sides)) if sides[lane] != sides[lane - 1]]
        if fault.what not in ("LinkDown", "SetLink", "LinkChange", "Hold", "Lose") or not self._has_room:
            return []
        return sorted({self._halfway(one, other) for one, other in fault.links})

    def _halfway(self, one: int, other: int) -> float:
        """Return a place halfway between two agents, but on nobody's lifeline."""
        between = (self._lanes[one] + self._lanes[other]) / 2
        return self.top + (between + (0.5 if between.is_integer() else 0.0) + 0.5) * self.gap

    def _cut_between(self, row: int) -> float | None:
        """Return where a frame was stopped by a cut; None if there is no line on its way."""
        columns, run = self.run.columns, self.run
        sender, receiver, time = (columns[name][row].item() for name in ("sender", "receiver", "depart"))
        low, high = sorted((self.y(sender), self.y(receiver)))
        for fault in run.going_on(time):
            if fault.separates(sender, receiver) or (not fault.sides and (sender, receiver) in fault.links):
                places = self._borders(fault) if fault.sides else [self._halfway(sender, receiver)] * self._has_room
                between = [place for place in places if low < place < high]
                if between:
                    return min(between, key=lambda place: abs(place - self.y(sender)))
        return None

    @cached_property
    def _order(self) -> list[int]:
        return sorted(range(len(self._lanes)), key=self._lanes.__getitem__)

    @property
    def _has_room(self) -> bool:
        """Return whether lifelines are so far apart that words fit between them."""
        return self.gap > 15 * self.k

    # --- lifelines ----------------------------------------------------------------------------------------------------

    def _draw_lifelines(self) -> None:
        k, drawing, run = self.k, self._drawing, self.run
        every = math.ceil(14 * k / self.gap)
        for agent, name in enumerate(run.agents):
            y = self.y(agent)
            if self._lanes[agent] % every == 0:
                text = shortened(name, 13 * k, 112 * k, True)
                drawing.word(self.left - 10 * k, y + 4.6 * k, text, 13 * k, bold=True, anchor="end", rim="")
            for begin, end in self._up(agent, self.begin, self.end):
                drawing.line([(self.x(begin), y), (self.x(end), y)], Pen("line", width=1.2 * k))
            for span, left, right in self._pieces(agent):
                self._draw_span(span, [(left, y), (right, y)])
            for fault in run.down(agent):
                self._draw_down(fault, y)
            self._grid.occupy((self.left, y - 3 * k, self.right, y + 3 * k))
            if self._lanes[agent] % every == 0 and (last := self._last_words(agent)):
                text = shortened(last, 12 * k, 152 * k, True)
                drawing.word(self.right + 7 * k, y + 4.2 * k, text, 12 * k, bold=True, rim="")
                self._grid.occupy((self.right + 4 * k, y - 8 * k, drawing.width, y + 6 * k))

    def _pieces(self, agent: int) -> Iterator[tuple[Span, float, float]]:
        """Yield an agent's states, with their ends in pixels, where it is not down.

        States that take less than a pixel are drawn as one: the last of them, which may go on for long.
        """
        spans = self.run.spans[agent]
        parts = [(span, self._up(agent, max(span.begin, self.begin), min(span.end, self.end))) for span in spans]
        pieces = [(span, begin, end) for span, listed in parts for begin, end in listed]
        left: float | None = None
        for place, (span, begin, end) in enumerate(pieces):
            left = self.x(begin) if left is None else left
            goes_on = place + 1 < len(pieces) and pieces[place + 1][1] == end
            if not goes_on or self.x(end) >= left + 0.8:
                yield span, left, self.x(end)
                left = None

    def _up(self, agent: int, begin: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield the parts of a stretch of time in which an agent is not down."""
        for fault in self.run.down(agent):
            if fault.begin > begin and min(fault.begin, end) > begin:
                yield begin, min(fault.begin, end)
            begin = max(begin, fault.end)
        if end > begin:
            yield begin, end

    def _draw_span(self, span: Span, ends: Sequence[tuple[float, float]]) -> None:
        k = self.k * self._thin
        if span.word is not None:
            style = self.styles.roles[span.word]
            dash = tuple(self.k * each for each in style.dash)
            self._drawing.line(ends, Pen(style.line, width=style.weight * k, dash=dash))
        elif math.isfinite(span.number):
            self._drawing.line(ends, Pen("soft", width=6.4 * k))
            self._drawing.line(ends, Pen(self.styles.number(span.number, self.run.extent), width=5 * k))

    @property
    def _thin(self) -> float:
        """Return how thick lifelines are, of many agents."""
        return min(1.0, max(0.3, self.gap / (24 * self.k)))

    def _draw_down(self, fault: Fault, y: float) -> None:
        begin, end = max(fault.begin, self.begin), min(fault.end, self.end)
        if end < begin:
            return
        k, ends = self.k, [(self.x(begin), y), (self.x(end), y)]
        self._drawing.line(ends, Pen(self.styles.down.colour, width=2 * k, dash=(0.1, 6 * k), rounded=True))

    def _last_words(self, agent: int) -> str:
        """Return what holds of an agent at the end of the diagram."""
        if (fault := self.run.down_at(agent, self.end)) is not None:
            return {"Crash": "crashed", "Leave": "left", "Join": "not there yet"}.get(fault.what, "down")
        span = self.run.span_at(agent, self.end)
        return "" if span is None else self._words_of(span)

    def _words_of(self, span: Span) -> str:
        if span.word is not None:
            return span.text
        name = f"{self.run.state} " if self._tells_numbers else ""
        return f"{name}{span.number:.3g}" if math.isfinite(span.number) else ""

    # --- arrows -------------------------------------------------------------------------------------------------------

    @property
    def _mark_size(self) -> float:
        return self.k * min(5.0, max(2.5, 0.1 * math.sqrt(self._each) + 2))

    def _arrow(self, row: int) -> Arrow:
        columns, run = self.run.columns, self.run
        sender, receiver = int(columns["sender"][row]), int(columns["receiver"][row])
        cause, kind = run.causes[columns["cause"][row]], run.kinds[columns["kind"][row]]
        depart, end = float(columns["depart"][row]), float(columns["end"][row])
        y, to = self.y(sender), self.y(receiver)
        begin, tip = (self.x(float(columns["start"][row])), y), (self.x(end), to)
        up = math.copysign(min(4 * self.k, 0.2 * self.gap), to - y)
        leaves = (self.x(depart), y + up) if self.x(depart) > begin[0] + 3 * self.k else begin
        arrived = cause in ("delivered", "late")
        if not arrived:
            share = 0.55 if cause == "lost" else self.styles.cause(cause).reach
            # Of a frame that never came to fly, no end is known: it is drawn as if it flew as long as others.
            at = end if end > depart else depart + share * run.flight
            far = y + share * (to - y)
            cut = self._cut_between(row) if cause == "link_down" else None
            if cut is not None:
                far = cut
                at = depart + run.flight * min(1.0, abs(far - y) / max(abs(to - y), 1e-9)) if end <= depart else end
            elif cause == "receiver_down":
                far = to - math.copysign(min(0.12 * self.gap, 9 * self.k), to - y)
            elif cause == "in_flight":
                far = y + min(share, (end - depart) / run.flight if run.flight else share) * (to - y)
            tip = (max(self.x(at), leaves[0] + (6 * self.k if end <= depart else 0)), far)
        bow = min(0.09 * abs(to - y), 60 * self.k) if arrived and tip[0] == begin[0] and self._each > _DOTS else 0.0
        shown = "" if cause == "delivered" else cause
        routine, label = kind == self.styles.routine, run.label(row)
        text = f"{kind} {label}".strip() if label else (kind if len(run.kinds) > 1 else "")
        look = self.styles.kinds[kind]
        return Arrow(row, begin, leaves, tip, bow, look, routine, bool(columns["reply"][row]), shown, text)

    def _draw_arrow(self, arrow: Arrow) -> None:
        begin, end = self._clipped(arrow.leaves, arrow.end)
        k, style, dense = self.k, arrow.style, self._each < _DOTS
        opacity = 0.55 if dense and not arrow.cause else 1.0
        if arrow.routine and not arrow.cause and self._each < _TICKS:
            # A tick on the lifeline from where it goes.
            up = math.copysign(min(0.3 * self.gap, 5 * k), end[1] - begin[1])
            self._drawing.line([begin, (begin[0], begin[1] + up)], Pen(style.colour, width=k))
            return
        from_x = (begin[0] + end[0]) / 2 + 2 * arrow.bow if arrow.bow else begin[0]
        from_y = (begin[1] + end[1]) / 2 if arrow.bow else begin[1]
        length = math.hypot(end[0] - from_x, end[1] - from_y) or 1.0
        way = (end[0] - from_x) / length, (end[1] - from_y) / length
        heads = self._each > _HEADS and (not arrow.cause or arrow.cause == "late") and arrow.end == end
        # The tip is at the rim of the event's dot.
        back = 0.0 if arrow.cause or not heads else min(4.5 * k, 0.2 * length)
        tip = end[0] - back * way[0], end[1] - back * way[1]
        foot = tip[0] - 5 * k * way[0] * heads, tip[1] - 5 * k * way[1] * heads
        dash = tuple(k * each for each in (REPLY if arrow.reply else style.dash))
        width = style.weight * k * (0.6 if dense else 1.0)
        points = [begin, foot] if not arrow.bow else _bent(begin, (from_x, from_y), foot)
        points = [arrow.begin, *points] if arrow.leaves != arrow.begin and arrow.begin[0] >= self.left else points
        self._drawing.line(points, Pen(style.colour, width=width, dash=dash, opacity=opacity))
        if heads and len(self.rows) < MARKED and self.run.overtook[arrow.row]:
            strokes(self._drawing, (end[0] - 0.14 * length * way[0], end[1] - 0.14 * length * way[1]), way, k)
        if heads:
            head(self._drawing, style, tip, way, k * (0.6 if dense else 0.9))

    def _clipped(self, begin: tuple[float, float], end: tuple[float, float]) -> tuple[tuple[float, float], ...]:
        """Return the ends of a line's part between the first and the last time."""
        (x, y), (to_x, to_y) = begin, end
        if to_x <= x:
            return begin, end
        shares = [min(max((edge - x) / (to_x - x), 0.0), 1.0) for edge in (self.left, self.right + 6 * self.k)]
        return tuple((x + share * (to_x - x), y + share * (to_y - y)) for share in shares)

    def _draw_dots(self, arrows: Sequence[Arrow]) -> None:
        """Draw the events: what one agent does at one moment is one dot."""
        columns, k = self.run.columns, self.k
        size = k * (3.8 if self._each > _LABELS else 2.6) * max(self._thin, 0.6)
        places: dict[tuple[float, float], None] = {}
        for arrow in arrows:
            places[round(arrow.begin[0], 2), self.y(int(columns["sender"][arrow.row]))] = None
            if columns["cause"][arrow.row] == 0:
                places[round(arrow.end[0], 2), self.y(int(columns["receiver"][arrow.row]))] = None
        for x, y in places:
            if self.left - 1 <= x <= self.right + 1:
                if self._each > _DOTS:
                    self._drawing.circle(x, y, size, Pen("ink", "paper", 1.5 * k))
                self._take(x, y, size + k)

    # --- words: faults, changes of state, notes, and terms ------------------------------------------------------------

    def _draw_faults(self) -> None:
        k, drawing = self.k, self._drawing
        for fault in self.run.faults:
            first, last = short_words(fault, self.run)
            for agent in fault.agents if not fault.links or fault.what in DOWN else ():
                y = self.y(agent)
                if fault.what not in DOWN:
                    left, right = (min(max(self.x(each), self.left), self.right) for each in (fault.begin, fault.end))
                    below = [(left, y + 6 * k), (right, y + 6 * k)]
                    drawing.line(below, Pen("bandline", width=1.6 * k, dash=(2 * k, 2 * k)))
                if first and self._sees(fault.begin):
                    self._draw_begin(fault, y)
                    self._chip(self.x(fault.begin), y, first, self.styles.down.colour)
                if last and fault.ends and self._sees(fault.end):
                    self._draw_return(fault, y)
                    self._chip(self.x(fault.end), y, *self._restarted(last, agent, fault.end))
            if not fault.agents and not fault.links and self._sees(fault.begin):
                x = self.x(fault.begin)
                drawing.line([(x, self.top), (x, self.bottom)], Pen("bandline", width=k, dash=(2 * k, 4 * k)))
                self._chip(x, self.top + 14 * k, first, "bandline")

    def _draw_begin(self, fault: Fault, y: float) -> None:
        x, size = self.x(fault.begin), 6 * self.k
        if fault.what in DOWN:
            for way in (1, -1):
                pen = Pen(self.styles.down.colour, width=3.2 * self.k, rounded=True)
                self._drawing.line([(x - size, y - way * size), (x + size, y + way * size)], pen)
            self._take(x, y, size)

    def _draw_return(self, fault: Fault, y: float) -> None:
        if fault.what in DOWN:
            x, k = self.x(fault.end), self.k
            colour = self.styles.down.colour
            self._drawing.line([(x, y - 8 * k), (x, y + 8 * k)], Pen(colour, width=3.2 * k, rounded=True))
            self._drawing.circle(x, y, 4.2 * k, Pen(colour, "paper", 2 * k))
            self._take(x, y, 8 * k)

    def _restarted(self, words: str, agent: int, time: float) -> tuple[str, str]:
        """Return the words at an agent's return, with the state in which it returns, and their colour."""
        span = next((each for each in self.run.spans[agent] if each.begin == time), None)
        if span is None or span.word is None:
            return words, self.styles.down.colour
        return f"{words}, {span.text}", "ink"

    def _draw_changes(self) -> None:
        """Draw the words of states where they change."""
        run = self.run
        for agent in range(len(run.agents)):
            for before, span in itertools.pairwise(run.spans[agent]):
                if not self._sees(span.begin) or any(each.end == span.begin for each in run.down(agent)):
                    continue
                if span.word is not None and span.word != before.word:
                    self._chip(self.x(span.begin), self.y(agent), span.text, "ink")
                elif span.word is None and span.number != before.number and self._tells_numbers:
                    self._chip(self.x(span.begin), self.y(agent), self._words_of(span), "ink")

    @cached_property
    def _tells_numbers(self) -> bool:
        """Return whether numbers change so seldom, and are so short, that each is told."""
        spans = [each for listed in self.run.spans for each in listed if self._sees(each.begin)]
        return len(spans) <= 5 * len(self.run.agents) and all(len(f"{each.number:g}") <= 5 for each in spans)

    def _draw_terms(self) -> None:
        """Draw what else changed, small, where the state's word did not."""
        if self._each < _TERMS:
            return
        for agent in range(len(self.run.agents)):
            for before, span in itertools.pairwise(self.run.spans[agent]):
                if self._sees(span.begin) and span.word == before.word and span.rest != before.rest:
                    self._place_small(self.x(span.begin), self.y(agent), span.rest)

    def _draw_notes(self) -> None:
        for time, agent, text in self.run.notes():
            if self._sees(time):
                self._chip(self.x(time), self.y(agent), f"“{shortened(text, 12, 180)}”", "ink", note=True)

    def _sees(self, time: float) -> bool:
        return self.begin <= time <= self.end

    def _chip(self, x: float, y: float, text: str, colour: str, *, note: bool = False) -> None:
        """Draw words in a frame beside a point of a lifeline: a state's above it, a note's, dotted, below."""
        k, size = self.k, 11.5 * self.k
        wide, high = width_of(text, size, not note, note) + 9 * k, size + 5 * k
        up, down, farther = y - high - 6 * k, y + 6 * k, high + 3 * k
        right, left = x + 4 * k, x - wide - 4 * k
        above = [(right, up), (left, up), (right, up - farther), (x - wide / 2, up - farther)]
        below = [(right, down), (left, down), (right, down + farther), (x - wide / 2, down + farther)]
        for left, top in [*below, *above] if note else [*above, *below]:
            box = (left, top, left + wide, top + high)
            if not (self._inside(box) and self._grid.is_free(box)):
                continue
            self._grid.occupy((box[0] - k, box[1] - k, box[2] + k, box[3] + k))
            pen = Pen(colour, "paper", 1.2 * k, (2 * k, 2 * k) if note else ())
            self._drawing.box(*box, pen, 4 * k)
            how = {"italic": True} if note else {"bold": True}
            self._drawing.word(left + 4.5 * k, top + 0.76 * high, text, size, colour, rim="", **how)
            return

    def _inside(self, box: Box) -> bool:
        top, bottom = self.top - 8 * self.k, self.bottom + 6 * self.k
        return box[0] > self.left - 2 and box[2] < self._drawing.width - 2 and box[1] > top and box[3] < bottom

    def _place_small(self, x: float, y: float, text: str) -> None:
        k, size = self.k, 11 * self.k
        wide = width_of(text, size)
        for left, base in ((x + 6 * k, y - 7 * k), (x - wide - 6 * k, y - 7 * k), (x + 6 * k, y + 16 * k)):
            box = (left - 2, base - size, left + wide + 2, base + 3 * k)
            if self._inside(box) and self._grid.is_free(box):
                self._grid.occupy(box)
                self._drawing.word(left, base, text, size, "soft", rim=self._ground(box))
                return

    def _say(self, x: float, y: float, text: str, colour: str, *, rim: str = "paper", anchor: str = "start") -> None:
        """Draw bold words where they must stand."""
        wide = width_of(text, 12 * self.k, True)
        left = x - wide if anchor == "end" else x
        self._grid.occupy((left - 2, y - 12 * self.k, left + wide + 2, y + 4 * self.k))
        self._drawing.word(x, y, text, 12 * self.k, colour, bold=True, rim=rim, anchor=anchor)

    def _ground(self, box: Box) -> str:
        """Return the colour of the ground of a box; nothing if it has two."""
        bands = [(self.x(each.begin), self.x(each.end)) for each in self.run.partitions(self.begin, self.end)]
        if any(left <= box[0] and box[2] <= right for left, right in bands):
            return "band"
        return "" if any(left < box[2] and box[0] < right for left, right in bands) else "paper"

    def _take(self, x: float, y: float, size: float) -> None:
        self._grid.occupy((x - size, y - size, x + size, y + size))

    # --- labels of arrows ---------------------------------------------------------------------------------------------

    def _draw_labels(self, arrows: Sequence[Arrow]) -> None:
        """Draw the labels of arrows, news before routine, where there is room."""
        if self._each < _LABELS:
            return
        columns = self.run.columns
        fans: dict[tuple[int, float, str], list[Arrow]] = defaultdict(list)
        for arrow in arrows:
            fans[int(columns["sender"][arrow.row]), float(columns["depart"][arrow.row]), arrow.label].append(arrow)
        for routine in (False, True):
            for (_, _, label), fan in fans.items():
                if not label or fan[0].routine != routine or (routine and self._each < _ROUTINE_LABELS):
                    continue
                cut = [each for each in fan if each.cause == "link_down"]
                if cut:
                    names = sorted(int(columns["receiver"][each.row]) for each in cut)
                    self._label(cut[-1], f"{label} to {' '.join(self.run.agents[each] for each in names)}", True)
                for arrow in fan:
                    if arrow not in cut:
                        self._label(arrow, label, len(fan) == 1)

    def _label(self, arrow: Arrow, text: str, tail: bool) -> None:
        """Draw a label at its arrow: near its tail or, of one to many, near its head."""
        k, size = self.k, 11 * self.k
        wide = width_of(text, size)
        (x, y), (to_x, to_y) = arrow.leaves, arrow.end
        for share in (0.3, 0.4, 0.22, 0.5, 0.62, 0.72) if tail else (0.74, 0.66, 0.82, 0.58, 0.5, 0.4):
            at, base = x + share * (to_x - x) + 4 * share * (1 - share) * arrow.bow, y + share * (to_y - y)
            for left in (at + 5 * k, at - wide - 5 * k):
                box = (left - 3, base - 0.6 * size, left + wide + 3, base + 0.6 * size)
                if self._inside(box) and box[2] < self.right + 8 * k and self._grid.is_free(box):
                    self._grid.occupy(box)
                    colour = arrow.style.colour
                    self._drawing.word(left, base + 0.36 * size, text, size, colour, rim=self._ground(box))
                    return


def short_words(fault: Fault, run: RunHistory) -> tuple[str, str]:
    """Return what is said where a fault begins and where it ends."""
    link = " ".join(run.agents[each] for each in fault.links[0]) if fault.links else ""
    link = link.replace(" ", "–", 1)
    said = {
        "Crash": ("crash", "restart"),
        "Leave": ("leaves", "is back"),
        "Join": ("", "joins"),
        "Empty": ("battery empty", "charged"),
        "LinkDown": (f"cut {link}", ""),
        "SetLink": (f"link {link} changed", ""),
        "LinkChange": (f"changed {link}", ""),
        "Hold": (f"on hold {link}" if not fault.agents else "on hold", "released"),
        "Lose": (f"loses one {link}", ""),
        "Partition": ("cut", ""),
        "Straggler": ("slow", ""),
        "ClockSkew": ("clock skewed", ""),
        "Jitter": ("jitter", ""),
        "Move": ("moves", ""),
        "Rewire": ("rewired", ""),
    }
    return said.get(fault.what, (fault.what.lower(), ""))


def _lanes(agents: int, partitions: Sequence[Fault]) -> list[int]:
    """Return the lane of each agent: as they are numbered, but those of one side of a partition together."""
    sides = [{agent: number for number, side in enumerate(fault.sides) for agent in side} for fault in partitions]
    order = sorted(range(agents), key=lambda agent: ([side.get(agent, -1) for side in sides], agent))
    lanes = np.empty(agents, dtype=np.int64)
    lanes[order] = np.arange(agents)
    return lanes.tolist()


def _bent(begin: tuple[float, float], by: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Return points of a curve from a place to another, which is drawn to a third."""
    shares = [number / 12 for number in range(13)]
    weights = [((1 - each) ** 2, 2 * each * (1 - each), each**2) for each in shares]
    return [(a * begin[0] + b * by[0] + c * end[0], a * begin[1] + b * by[1] + c * end[1]) for a, b, c in weights]


def _step(rough: float) -> float:
    """Return a round number that is no smaller than another."""
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next((each * power for each in (1, 2, 5, 10) if each * power >= rough * 0.999), rough)
