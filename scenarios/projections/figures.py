"""Figures of successive projections that show values on the unit square."""

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim.studies.figures import Figure, drawing


@dataclass(frozen=True)
class Picture:
    """Values on a square grid of the unit square, row by row from the bottom, and points to mark on it."""

    title: str
    values: NDArray[np.float64]
    points: NDArray[np.float64] | None = None


def draw_field(
    pictures: Sequence[Picture], places: NDArray[np.float64] | None, links: "nx.Graph[int]", title: str
) -> Figure:
    """Draw pictures side by side with one colour scale, the first's; the last one also shows the sensors and links."""
    figure, panels = drawing(4.1 * len(pictures), 4.9, len(pictures), grid="", sharex=True, sharey=True)
    side = round(np.sqrt(len(pictures[0].values)))
    largest = float(np.abs(pictures[0].values).max())
    for panel, picture in zip(panels, pictures, strict=True):
        values, style = picture.values.reshape(side, side), {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
        image = panel.imshow(values, origin="lower", extent=(0, 1, 0, 1), **style)
        if picture.points is not None:
            panel.scatter(picture.points[:, 0], picture.points[:, 1], 9, color="0.15", marker="x", linewidths=0.8)
        panel.set_title(picture.title, fontsize=10)
        panel.set_xlabel("first coordinate")
    panels[0].set_ylabel("second coordinate")
    if places is not None:
        last = panels[-1]
        for a, b in links.edges:
            last.plot(*zip(places[a], places[b], strict=True), color="0.3", linewidth=0.4, alpha=0.6)
        last.scatter(places[:, 0], places[:, 1], 22, color="gold", edgecolors="0.1", linewidths=0.8, zorder=3)
        last.set(xlim=(0, 1), ylim=(0, 1))
    beyond = any(np.abs(picture.values).max() > largest for picture in pictures)
    figure.colorbar(image, ax=panels, label="field", shrink=0.8, extend="both" if beyond else "neither")
    if places is None:
        note = "agents' fields: the mean of all agents"
    else:
        note = (
            "agents' fields: each point as its nearest sensor sees it; sensors are joined where they share an example"
        )
    figure.suptitle(f"{title}\n{note}", fontsize=11)
    return figure
