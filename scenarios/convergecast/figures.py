"""The figures of convergecast: delivery, latency and energy by number of hops, and the tree on the map."""

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.scenarios.convergecast.field import Layout
from netsim.studies.figures import Axes, Figure, drawing, legend_below

_BREAK = (math.nan, math.nan)
_LINES = {"acks": "-", "no acks": "--"}
_MARKS = "os^vD"
# Share of a field's side beyond which a mote is drawn at the edge; least height difference (m) between two floors.
_MARGIN, _STOREY = 0.3, 2.0
_MOST_NAMED = 30  # largest number of motes whose names are written on the map


def draw_by_hops(by_hops: pd.DataFrame, title: str) -> Figure:
    """Draw delivery, latency and energy of frames by number of hops: one colour per duty cycle, dashed without acks."""
    figure, panels = drawing(12.5, 4.4, 3, title=f"Convergecast: {title}")
    columns = {
        "delivered_%": "readings that arrive (%)",
        "latency_s": "mean latency (s)",
        "frames_mj": "energy of frames, a mote (mJ)",
    }
    colours: dict[str, str] = {}
    for name, rows in by_hops.groupby("algorithm", sort=False):
        kind, _, share = str(name).partition(", ")
        number = list(colours).index(share) if share in colours else len(colours)
        colour = colours.setdefault(share, f"C{number}")
        for panel, column in zip(panels, columns, strict=True):
            mark = _MARKS[number % len(_MARKS)]
            panel.plot(rows["hops"], rows[column], _LINES.get(kind, "-"), color=colour, marker=mark, ms=4, label=name)
    for panel, (column, label) in zip(panels, columns.items(), strict=True):
        panel.set(xlabel="hops to the sink", ylabel=label, xticks=range(1, int(by_hops["hops"].max()) + 1))
        if column == "latency_s" and by_hops[column].isna().all():
            panel.set_yticks([])
            panel.text(0.5, 0.5, "no reading arrived", transform=panel.transAxes, ha="center")
        elif column == "latency_s":
            panel.set_yscale("log")
        else:
            panel.set_ylim(bottom=0)
    legend_below(figure, 3)
    return figure


def draw_tree(
    motes: pd.DataFrame,
    layout: Layout,
    title: str,
    parents: Mapping[str, Mapping[Any, Any]] = MappingProxyType({}),
    lost: Mapping[str, Collection[Any]] = MappingProxyType({}),
) -> Figure:
    """Draw the tree on the map for the first and the last run, coloured by delivery and energy on common scales.

    ``parents`` maps the names of runs to parents that differ from the layout's. ``lost`` has, by run, the motes without
    a parent at the end.
    """
    names = list(dict.fromkeys([motes["algorithm"].iloc[0], motes["algorithm"].iloc[-1]]))
    view = _View(layout)
    title = f"Convergecast: {title}; the star is the sink"
    figure, panels = drawing(9.6, 0.7 + 4.1 * len(names), 2, len(names), title=title, grid="")
    most = 1e3 * float(motes.loc[motes["algorithm"].isin(names), "frames_j"].max())
    for row, name in zip(panels, names, strict=True):
        part = motes[motes["algorithm"] == name].set_index("mote")
        tree = {mote: parent for mote, parent in parents.get(name, layout.parents).items() if parent is not None}
        before = lost.get(name, ())
        for panel, values, label, colours, high in (
            (row[0], part["delivered_%"], "readings that arrive (%)", "cividis", 100.0),
            (row[1], 1e3 * part["frames_j"], "energy of frames (mJ)", "viridis_r", most),
        ):
            for line, here in (("-", tree.keys() - before), ("--", tree.keys() & before)):
                # One line object draws all hops; breaks separate them.
                hops = [[*map(view.places.__getitem__, (mote, tree[mote])), _BREAK] for mote in here]
                if hops:
                    panel.plot(*np.concatenate(hops).T, line, color="0.6", lw=1, zorder=1)
            x, y = np.transpose([view.places[mote] for mote in values.index])
            drawn = panel.scatter(x, y, c=values, cmap=colours, vmin=0, vmax=high, s=60, edgecolors="0.3", zorder=2)
            view.name_motes(panel, values.index)
            view.finish(panel, layout.sink)
            panel.figure.colorbar(drawn, ax=panel, label=label)
            panel.set_title(name, fontsize=10)
    return figure


class _View:
    """The drawn positions of motes: floors side by side, and distant motes moved to the panel's edge.

    ``places`` are the positions on the panel; ``far`` holds the true positions (m) of the motes drawn at the edge.
    """

    def __init__(self, layout: Layout) -> None:
        graph, sink = layout.graph, layout.sink
        at = {node: tuple(map(float, place)) for node, place in graph.nodes(data="pos")}
        together = nx.node_connected_component(graph, sink) if graph.number_of_edges() else set(graph)
        low, high = (bound([at[node][:2] for node in together], axis=0) for bound in (np.min, np.max))
        side = max(*(high - low), 1.0)
        low, high = low - _MARGIN * side, high + _MARGIN * side
        self.middle = (low + high) / 2
        self.far = {
            node: place for node, place in at.items() if not (low <= place[:2]).all() or not (place[:2] <= high).all()
        }
        inside = {node: np.clip(place[:2], low, high) for node, place in at.items()}
        self.low, self.high = (bound(list(inside.values()), axis=0) for bound in (np.min, np.max))
        self.floors = _floors({place[2] for place in at.values() if len(place) > 2})
        # Floors are arranged along the shorter side, to fill the panel.
        width, height = self.high - self.low
        self.axis = int(width > height)
        self.step = 1.25 * max(self.high[self.axis] - self.low[self.axis], 0.2 * max(width, height), 1.0)
        self.places = {node: tuple(place + self._moved(at[node])) for node, place in inside.items()}

    def _moved(self, at: tuple[float, ...]) -> "NDArray[np.float64]":
        """Return the offset by which a mote is drawn because of its floor."""
        moved = np.zeros(2)
        if len(at) > 2:
            moved[self.axis] = self.step * next(k for k, (low, high) in enumerate(self.floors) if low <= at[2] <= high)
        return moved

    def finish(self, panel: Axes, sink: Any) -> None:
        """Draw the sink, label distant motes, and label the axes."""
        x, y = self.places[sink]
        panel.scatter(x, y, marker="*", s=260, color="k", zorder=3)
        for mote, at in self.far.items():
            where = ", ".join(f"{each:g}" for each in at)
            side, apart = ("right", -6) if self.places[mote][0] > self.middle[0] else ("left", 6)
            how: dict[str, Any] = {"textcoords": "offset points", "ha": side, "va": "center", "fontsize": 7}
            how |= {"zorder": 4, "bbox": {"pad": 0.5, "fc": "w", "ec": "none"}}
            panel.annotate(f"{mote}: far off, at ({where})", self.places[mote], (apart, 0), **how)
        # The panel keeps its size and shows more of the field; otherwise motes along a road would be drawn on the axis.
        panel.set_aspect("equal", adjustable="datalim")
        panel.set(xlabel="x (m)", ylabel="y (m)")
        self.mark_floors(panel)

    def name_motes(self, panel: Axes, motes: Collection[Any]) -> None:
        """Write each mote's name above it, unless so many names would cover each other and the tree."""
        if len(motes) > _MOST_NAMED:
            return
        for mote in motes:
            if mote not in self.far:
                how: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 7}
                panel.annotate(str(mote), self.places[mote], (0, 5), zorder=4, **how)

    def mark_floors(self, panel: Axes) -> None:
        """Write each floor's height beside it, and label the axis with the coordinates on each floor."""
        if len(self.floors) < 2:
            return
        low, high = self.low[self.axis], self.high[self.axis]
        # Adding 0.0 turns a negative zero into zero.
        ticks = [tick + 0.0 for tick in np.linspace(low, high, 3).round() if low <= tick <= high] or [low]
        moved = [(tick + self.step * k, f"{tick:g}") for k in range(len(self.floors)) for tick in ticks]
        (panel.set_yticks if self.axis else panel.set_xticks)([each for each, _ in moved], [text for _, text in moved])
        # Matplotlib would not draw a height outside the panel.
        top_left = self.low.copy()
        top_left[1] = high + self.step * (len(self.floors) - 1) if self.axis else self.high[1]
        panel.update_datalim([top_left])
        panel.margins(0.08)
        for k, (bottom, top) in enumerate(self.floors):
            height = f"z = {bottom:g} m" if bottom == top else f"z = {bottom:g} to {top:g} m"
            corner = self.low.copy()
            corner[self.axis] = high + self.step * k
            corner[1] = corner[1] if self.axis else self.high[1]
            how: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "color": "0.35", "va": "bottom"}
            panel.annotate(height, corner, (0, 7), zorder=4, bbox={"pad": 0.5, "fc": "w", "ec": "none"}, **how)
            if k:
                line = low + self.step * k - (self.step - (high - low)) / 2
                (panel.axhline if self.axis else panel.axvline)(line, color="0.85", linewidth=0.8, zorder=0)


def _floors(heights: Collection[float]) -> list[tuple[float, float]]:
    """Return the heights (m) of the lowest and the highest mote of each floor, from bottom to top."""
    floors: list[tuple[float, float]] = []
    for height in sorted(heights):
        if floors and height - floors[-1][1] < _STOREY:
            floors[-1] = floors[-1][0], height
        else:
            floors.append((height, height))
    return floors
