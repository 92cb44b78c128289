"""The map of a run at an instant: agents at their places, frames on their way, crosses where some ended, the clock."""

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from netsim.replay.drawing import Drawing, Pen, width_of
from netsim.replay.drawn import Drawings
from netsim.replay.film import Film, under_way
from netsim.replay.legend import crashed, entries, heading, legend, shortened
from netsim.replay.run_history import Fault, RunHistory, Span, Tree, few, seconds
from netsim.replay.spacetime import Box, OccupancyGrid, short_words
from netsim.replay.style_sheet import StyleSheet, mark, shape

__all__ = ["MapView"]

# With more agents none has a name; with more frames at a time they are small; with more still, without labels.
_NAMED, _MANY, _LABELLED = 60, 300, 24

# How long (s of film) what has just happened is marked: a cross, a note, a new edge.
_HOLD = 2.0

# Frames that are drawn at most, and crosses.
_DRAWN = 2000

_Placed = tuple[int, float, float]
"""A frame and where it is."""

# Faults that are shown also if they do not end.
_LASTING = ("Crash", "Leave", "Empty", "LinkDown", "SetLink", "LinkChange", "Hold", "Partition")


class MapView:
    """The map of a run, between two times (s), in a size in pixels.

    Parameters
    ----------
    run : RunHistory
    styles : StyleSheet
    film : Film
    begin, end : float
        In seconds: what its legend explains.
    size : (float, float)
        Width and height, in pixels.
    k : float
        How large text is; 1 is 12 pixels.
    """

    def __init__(
        self,
        run: RunHistory,
        styles: StyleSheet,
        film: Film,
        begin: float,
        end: float,
        size: tuple[float, float],
        k: float,
    ) -> None:
        self.run, self.styles, self.film, self.begin, self.end, self.k = run, styles, film, begin, end, k
        self._size, self._rows = size, run.rows(begin, end)
        times = " to ".join(seconds(each, end - begin) for each in (begin, end))
        self._title = Drawing(*size, run.title, f"The map, {times}")
        top = heading(self._title, run.title, run.command, k)
        self._top = top + 26 * k
        listed = entries(run, styles, self._rows, arrows=False)
        self._bottom = max(legend(self._title, listed, k) - 48 * k, self._top + 1.0)
        area = size[0] * (self._bottom - self._top)
        self._radius = max(5 * k, min(19 * k, 0.2 * math.sqrt(area / max(len(run.agents), 6))))
        self._notes, self._flying = list(run.notes()), np.empty(0, dtype=np.int64)
        self._drawings = Drawings(run, styles)
        self._waiting: dict[int, int] = {}
        self._path = set(film.path)
        self._tree: tuple[float, Tree] | None = None
        self._strip = self._reserved(size, k)
        self._kept: dict[int, tuple[Box, str]] | None = None
        # Where agents stand still they are put once.
        self._still = None if run.meta["paths"] else self._put(run.places(0.0))

    def draw(self, film: float) -> Drawing:
        """Return the map at a time of film (s)."""
        time, since = float(self.film.time(film)), float(self.film.time(max(film - _HOLD, 0.0))) - (film < _HOLD)
        drawing = Drawing(*self._size, self._title.title, self._title.about)
        drawing.extend(self._title)
        places = self._put(self.run.places(time)) if self._still is None else self._still
        grid = OccupancyGrid()
        self._draw_links(drawing, places, time)
        self._drawings.draw_edges(drawing, places, self._radius, self.k, time, since)
        flying = self._draw_frames(drawing, places, time)
        ended = self._draw_ends(drawing, places, time, since)
        self._draw_agents(drawing, places, time, since, grid)
        for _, x, y in (*flying, *ended):
            grid.occupy((x - 5 * self.k, y - 5 * self.k, x + 5 * self.k, y + 5 * self.k))
        self._draw_labels(drawing, flying, grid)
        if self._strip is not None:
            self._drawings.draw_strip(drawing, self._strip, self.k, time, since)
        self._draw_clock(drawing, time, film)
        self._draw_strip(drawing, film)
        return drawing

    def _reserved(self, size: tuple[float, float], k: float) -> Box | None:
        """Return the box of a strip at the right, if there is one."""
        if self._drawings.strip is None:
            return None
        wide = min(0.46 * size[0], (30 + 46 * self._drawings.strip[1]) * k)
        return size[0] - wide - 10 * k, self._top, size[0] - 10 * k, self._bottom

    # --- places -------------------------------------------------------------------------------------------------------

    def _put(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return places in pixels; agents that would hide one another are pushed apart."""
        everywhere = self.run.everywhere
        low, high = everywhere.min(axis=0, initial=math.inf), everywhere.max(axis=0, initial=-math.inf)
        rim = self._radius + 22 * self.k
        across = self._size[0] if self._strip is None else self._strip[0]
        room = np.maximum([across - 2 * rim, self._bottom - self._top - 2 * rim], 1.0)
        extent = high - low
        wide = np.where(extent > 0, extent, np.nan)
        scale = float(np.nanmin(np.append(room / wide, np.inf))) if len(places) else 1.0
        scale = scale if math.isfinite(scale) else 0.0
        middle = np.array([across / 2, (self._top + self._bottom) / 2])
        put = middle + (places - (low + high) / 2) * scale * np.array([1.0, -1.0])
        return put if self.run.meta["paths"] or len(put) > 400 else self._pushed(put, rim)

    def _pushed(self, put: NDArray[np.float64], rim: float) -> NDArray[np.float64]:
        gap = 2.3 * self._radius
        for _ in range(60):
            apart = put[:, None] - put[None, :]
            distance = np.hypot(apart[..., 0], apart[..., 1])
            np.fill_diagonal(distance, math.inf)
            close = distance < gap
            if not close.any():
                break
            # Those at one place go apart by their numbers.
            turn = np.arange(len(put))[:, None] * 2.4 + np.zeros(len(put))[None, :]
            away = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
            ways = np.where(distance[..., None] > 1e-9, apart / np.maximum(distance, 1e-9)[..., None], away)
            put = put + 0.5 * np.sum(ways * (np.where(close, gap - distance, 0.0))[..., None], axis=1)
            put = np.clip(put, [rim, self._top + rim], [self._size[0] - rim, self._bottom - rim])
        return put

    # --- links and frames ---------------------------------------------------------------------------------------------

    def _draw_links(self, drawing: Drawing, places: NDArray[np.float64], time: float) -> None:
        k, cut = self.k, self.run.cut_at(time)
        links = self.run.meta["links"]
        width = 0.4 * k if len(links) > 1500 else 1.2 * k
        for one, other in links:
            ends = [tuple(places[one]), tuple(places[other])]
            if (one, other) in cut or (other, one) in cut:
                drawing.line(ends, Pen("bandline", width=1.4 * k, dash=(3 * k, 5 * k)))
            else:
                drawing.line(ends, Pen("line", width=width))

    def _place(self, places: NDArray[np.float64], row: int, time: float) -> tuple[float, float]:
        """Return where a frame is, or was when it ended; lanes keep the two directions of a link apart."""
        columns = self.run.columns
        i, j = int(columns["sender"][row]), int(columns["receiver"][row])
        (x, y), (dx, dy) = places[i], places[j] - places[i]
        length = math.hypot(dx, dy) or 1.0
        begin, until = float(columns["depart"][row]), float(self.run.until[row])
        reach = self.styles.cause(self.run.causes[columns["cause"][row]]).reach
        share = 1.0 if time >= until else (time - begin) / (until - begin) if time > begin else 0.0
        rim, lane = min(self._radius, length / 3), min(5 * self.k, 0.4 * self._radius)
        along = rim + (length - 2 * rim) * share * reach
        return x + (dx * along - dy * lane) / length, y + (dy * along + dx * lane) / length

    def _draw_frames(self, drawing: Drawing, places: NDArray[np.float64], time: float) -> list[_Placed]:
        """Draw what is under way, or count what waits in its sender's queue; return the former with its places."""
        columns, rows = self.run.columns, self._rows
        flying = rows[(columns["start"][rows] <= time) & (self.run.until[rows] > time)]
        self._flying = flying
        k, size = self.k, (2.6 if len(flying) > _MANY else 5.0) * self.k
        found, queued = [], set()
        self._waiting.clear()
        for row in self.film.path:
            if columns["depart"][row] <= time:
                drawing.line(
                    [tuple(places[columns["sender"][row]]), self._place(places, row, time)],
                    Pen("accent", width=2.5 * k),
                )
        casts = self._draw_rings(drawing, places, flying, time)
        for row in few(flying, _DRAWN).tolist():
            message = int(columns["sender"][row]), int(columns["number"][row])
            if time < columns["depart"][row]:
                # What waits is a pile at its sender.
                self._waiting[message[0]] = self._waiting.get(message[0], 0) + (message not in queued)
                queued.add(message)
                continue
            if message in casts:
                continue
            x, y = self._place(places, row, time)
            style = self.styles.kinds[self.run.kinds[columns["kind"][row]]]
            reply = columns["reply"][row]
            if row in self._path:
                drawing.circle(x, y, 2 * size, Pen("accent", width=2.5 * k))
            pen = Pen(style.colour, "paper", 1.8 * k) if reply else Pen("paper", style.colour, k)
            shape(drawing, style.shape, x, y, size * (0.85 if reply else 1.0), pen)
            found.append((row, x, y))
        return found

    def _draw_rings(
        self, drawing: Drawing, places: NDArray[np.float64], flying: NDArray[np.int64], time: float
    ) -> set[tuple[int, int]]:
        """Draw a ring for each broadcast that several hear on one medium; return their senders and numbers."""
        columns, heard = self.run.columns, defaultdict[tuple[int, int], list[int]](list)
        if self.run.meta.get("medium") != "shared":
            return set()
        for row in flying[columns["depart"][flying] <= time].tolist():
            heard[int(columns["sender"][row]), int(columns["number"][row])].append(row)
        casts = {message: rows for message, rows in heard.items() if len(rows) > 1}
        for (sender, _), rows in casts.items():
            begin, end = float(columns["depart"][rows[0]]), float(self.run.until[rows[0]])
            far = np.hypot(*(places[columns["receiver"][rows]] - places[sender]).T).max() - self._radius
            share = min((time - begin) / (end - begin or 1.0), 1.0)
            colour = self.styles.kinds[self.run.kinds[columns["kind"][rows[0]]]].colour
            pen = Pen(colour, width=2.5 * self.k, opacity=1 - 0.7 * share)
            x, y = places[sender].tolist()
            drawing.circle(x, y, self._radius + max(float(far), 4.0) * share, pen)
        return set(casts)

    def _draw_ends(self, drawing: Drawing, places: NDArray[np.float64], time: float, since: float) -> list[_Placed]:
        """Draw a mark where a frame ended that did not arrive, for a while; return them with their places."""
        columns, rows = self.run.columns, self._rows
        ends, found = columns["end"][rows], []
        ended = rows[(ends <= time) & (ends > since) & (columns["cause"][rows] > 0)]
        for row in few(ended, _DRAWN).tolist():
            cause = self.run.causes[columns["cause"][row]]
            if cause != "in_flight":
                x, y = self._place(places, row, time)
                mark(drawing, self.styles.cause(cause), x, y, 5.5 * self.k)
                found.append((row, x, y))
        return found

    def _draw_labels(self, drawing: Drawing, flying: list[_Placed], grid: OccupancyGrid) -> None:
        """Draw the labels of frames where there is room, if there are few."""
        columns, size, k = self.run.columns, 11 * self.k, self.k
        if len(flying) > _LABELLED:
            return
        for row, x, y in flying:
            kind, label = self.run.kinds[columns["kind"][row]], self.run.label(row)
            text = f"{kind} {label}" if label else kind if len(self.run.kinds) > 1 else ""
            wide = width_of(text, size)
            for left in (x + 8 * k, x - wide - 8 * k):
                box = (left, y - 0.6 * size, left + wide, y + 0.6 * size)
                if text and box[0] > 0 and box[2] < self._size[0] and grid.is_free(box):
                    grid.occupy(box)
                    drawing.word(left, y + 0.36 * size, text, size, self.styles.kinds[kind].colour)
                    break

    # --- agents -------------------------------------------------------------------------------------------------------

    def _draw_agents(
        self, drawing: Drawing, places: NDArray[np.float64], time: float, since: float, grid: OccupancyGrid
    ) -> None:
        run, k, radius = self.run, self.k, self._radius
        size = max(9 * k, min(13 * k, 0.75 * radius))
        named = len(run.agents) <= _NAMED
        inside = all(width_of(name, size, True) < 1.6 * radius for name in run.agents)
        slots = self._slots(places, inside) if named else {}
        for agent, (x, y) in enumerate(places.tolist()):
            down = run.down_at(agent, time)
            colour, words, ink, dashed = self._state(agent, time, down)
            grid.occupy((x - radius, y - radius, x + radius, y + radius))
            if down is not None:
                crashed(drawing, self.styles, x, y, radius, k)
            else:
                self._drawings.draw_beside(drawing, agent, (x, y), radius, k, time, self._waiting.get(agent, 0))
                span = run.span_at(agent, time)
                name = self.styles.roles[span.word].shape if span is not None and span.word is not None else "circle"
                name = "star" if self.run.has("star", agent, time) else name
                pale = 1.0
                if self.run.has("dim", agent, time):
                    shape(drawing, name, x, y, radius, Pen(fill="paper"))
                    pale, ink = 0.4, "ink"
                shape(drawing, name, x, y, radius, Pen("ink", colour, 1.4 * k, dashed, opacity=pale))
            if named and inside:
                drawing.word(x, y + 0.36 * size, run.agents[agent], size, ink, bold=True, anchor="middle", rim="")
            below = words if inside else f"{self._names[agent]} {words}".strip()
            if below and agent in slots:
                self._draw_words(drawing, grid, slots[agent], below)
        self._draw_notes(drawing, places, time, since, grid)

    @cached_property
    def _names(self) -> list[str]:
        """The agents' names as they stand beside them: a long one would have no room anywhere."""
        return [shortened(name, 11 * self.k, 152 * self.k, True) for name in self.run.agents]

    def _slots(self, places: NDArray[np.float64], inside: bool) -> dict[int, tuple[Box, str]]:
        """Return a free box beside agents for the widest words that it may have: below, above, right or left of it."""
        if self._still is not None and self._kept is not None:
            return self._kept
        run, radius, k = self.run, self._radius, self.k
        grid = OccupancyGrid()
        found: dict[int, tuple[Box, str]] = {}
        for x, y in places.tolist():
            grid.occupy((x - radius, y - radius, x + radius, y + radius))
        far, high = radius + 3 * k, 11 * k
        for agent, (x, y) in enumerate(places.tolist()):
            states = dict.fromkeys(self._words_of(each) for each in run.spans[agent])
            texts = [*states] if inside else [f"{self._names[agent]} {each}".strip() for each in (*states, "")]
            texts += ["down"] if inside and run.down(agent) else []
            wide = max((width_of(each, high, True) for each in texts), default=0.0)
            sides = ((x - wide / 2, y + far, "middle"), (x - wide / 2, y - far - high, "middle"))
            for left, top, anchor in (*sides, (x + far, y - high / 2, "start"), (x - far - wide, y - high / 2, "end")):
                box = (left - 1, top, left + wide + 1, top + high)
                if grid.is_free(box):
                    grid.occupy(box)
                    found[agent] = box, anchor
                    break
        self._kept = found
        return found

    def _draw_words(self, drawing: Drawing, grid: OccupancyGrid, slot: tuple[Box, str], text: str) -> None:
        (left, top, right, bottom), anchor = slot
        grid.occupy(slot[0])
        x = {"middle": (left + right) / 2, "start": left, "end": right}[anchor]
        drawing.word(x, top + 0.86 * (bottom - top), text, 11 * self.k, bold=True, anchor=anchor)

    def _state(self, agent: int, time: float, down: Fault | None) -> tuple[str, str, str, tuple[float, ...]]:
        """Return an agent's colour, the words below it, the colour of letters on it, and the dash of its rim."""
        if down is not None:
            return "paper", "down", "ink", ()
        if self.run.tree is not None:
            depth = self._tree_at(time).depths[agent]
            if math.isnan(depth):
                return "panel", "", "ink", (2 * self.k, 4 * self.k)
            colour = self.styles.number(depth, (0.0, self._drawings.deepest))
            return colour, "", self.styles.ink_on(colour), ()
        span = self.run.span_at(agent, time)
        if span is not None and span.word is not None:
            role = self.styles.roles[span.word]
            return role.colour, self._words_of(span), self.styles.ink_on(self.styles.light[role.colour]), ()
        if span is None or not math.isfinite(span.number):
            return "panel", "", "ink", ()
        colour = self.styles.number(span.number, self.run.extent)
        return colour, self._words_of(span), self.styles.ink_on(colour), ()

    def _tree_at(self, time: float) -> Tree:
        if self._tree is None or self._tree[0] != time:
            self._tree = time, self.run.tree_at(str(self.run.tree), time)
        return self._tree[1]

    def _words_of(self, span: Span) -> str:
        if span.word is not None:
            return span.text
        return f"{self.run.state} {span.number:.3g}" if self._short_numbers and math.isfinite(span.number) else ""

    @cached_property
    def _short_numbers(self) -> bool:
        spans = [each.number for listed in self.run.spans for each in listed if math.isfinite(each.number)]
        return len(str(self.run.state)) <= 10 and all(len(f"{each:g}") <= 4 for each in spans)

    def _draw_notes(
        self, drawing: Drawing, places: NDArray[np.float64], time: float, since: float, grid: OccupancyGrid
    ) -> None:
        k, size = self.k, 11 * self.k
        for when, agent, text in self._notes:
            if not since < when <= time:
                continue
            x, y = places[agent]
            shown = f"“{shortened(text, 12, 180)}”"
            wide = width_of(shown, size, False, True) + 9 * k
            left = min(max(x - wide / 2, 4), self._size[0] - wide - 4)
            top = y - self._radius - 22 * k
            drawing.box(left, top, left + wide, top + 16 * k, Pen("ink", "paper", 1.2 * k, (2 * k, 2 * k)), 4 * k)
            drawing.word(left + 4.5 * k, top + 12 * k, shown, size, italic=True, rim="")
            grid.occupy((left, top, left + wide, top + 16 * k))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _draw_clock(self, drawing: Drawing, time: float, film: float) -> None:
        k, run, flying, rate = self.k, self.run, len(self._flying), self.film.rate(film)
        drawn = f", {_DRAWN:,} drawn" if flying > _DRAWN else ""
        text, last = (seconds(each, self.end - self.begin) for each in (time, self.end))
        y = self._top - 8 * k
        drawing.word(14 * k, y, text, 16 * k, bold=True)
        # As wide as the last time, or what follows would jump.
        wide = max(width_of(text, 16 * k, True), width_of(last, 16 * k, True))
        period, rounds = float(run.meta["round_period"]), int(run.meta["rounds"])
        count = min(math.floor(time / period + 1e-9) + 1, rounds) if rounds and period > 0 else 0
        of_round = f"round {count:,} of {rounds:,} · " if count else ""
        follows = f" · follows {self.film.thing}" if self.film.thing else ""
        many = f"{float(f'{max(rate, 1 / rate) if rate else 0:.2g}'):,g}×"
        speed = f" · slowed {many}" if 0 < rate < 1 else f" · {many} as fast as life" if rate else ""
        drawing.word(22 * k + wide, y, f"{of_round}{flying:,} under way{drawn}{speed}{follows}", 12 * k, "soft")
        for number, words in enumerate(self._faults_now(time)):
            at = drawing.width - 14 * k, y + 16 * k * number
            drawing.word(*at, words, 12 * k, "bandline", bold=True, anchor="end")

    def _faults_now(self, time: float) -> Iterator[str]:
        """Yield what goes wrong at a time, in a few words each."""
        by_words: dict[str, list[str]] = defaultdict(list)
        for fault in self.run.going_on(time):
            if not fault.ends and fault.what not in _LASTING:
                continue
            if fault.sides:
                sides = " | ".join(" ".join(self.run.agents[each] for each in side) for side in fault.sides)
                by_words[f"partition {sides}"] = []
            else:
                words = short_words(fault, self.run)[0] or "not there yet"
                by_words[words] += [self.run.agents[each] for each in fault.agents]
        listed = [f"{words} {' '.join(agents)}".strip() for words, agents in by_words.items()]
        yield from (shortened(each, 12 * self.k, 0.6 * self._size[0], True) for each in listed[:3])

    def _draw_strip(self, drawing: Drawing, film: float) -> None:
        """Draw what happens, in words, and how much of the film has passed, with its moments."""
        k, y = self.k, self._bottom + 36 * self.k
        left, right = 14 * k, drawing.width - 14 * k
        departed = self._flying[self.run.columns["depart"][self._flying] <= float(self.film.time(film))]
        text = shortened(self.film.caption(film) or under_way(self.run, departed), 15 * k, right - left, True)
        drawing.word(drawing.width / 2, y - 17 * k, text, 15 * k, bold=True, anchor="middle")
        at = left + min(film / self.film.length, 1.0) * (right - left)
        drawing.line([(left, y), (right, y)], Pen("line", width=3 * k))
        drawing.line([(left, y), (at, y)], Pen("soft", width=3 * k))
        for each in self.film.moments:
            x, size = left + each["film"] / self.film.length * (right - left), (5 if each["weight"] >= 7 else 3) * k
            corners = [(x - size, y - 3 * k - 1.5 * size), (x + size, y - 3 * k - 1.5 * size), (x, y - 3 * k)]
            drawing.line(corners, Pen(fill="accent" if each["weight"] >= 7 else "soft"), closed=True)
        drawing.circle(at, y, 5 * k, Pen("paper", "accent", 1.5 * k))
