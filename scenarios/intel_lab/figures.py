"""The floor plan: who hears whom how well, and who spent how much."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from netsim.links.measured import Measured

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def floor_plan(measured: Measured, used: Mapping[str, "pd.DataFrame"]) -> "Figure":
    """Draw the motes at their places, a panel for each run.

    Parameters
    ----------
    measured : Measured
        Nodes with ``pos`` (m) and ``mote``; a link's width and colour are its reception, the mean of both directions.
    used : mapping of DataFrame
        By the panel's title: ``used_j`` of each node, in their order, which colours it.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.figure import Figure

    graph = measured.graph
    places = np.array([graph.nodes[node]["pos"] for node in graph])
    rows = {node: row for row, node in enumerate(graph)}
    ends = list(graph.edges)
    heard = np.array(
        [1.0 - (measured.links[a, b].loss_model.mean + measured.links[b, a].loss_model.mean) / 2 for a, b in ends]
    )
    segments = [places[[rows[a], rows[b]]] for a, b in ends]
    figure = Figure(figsize=(7.5 * len(used), 5.8), layout="constrained")
    panels = figure.subplots(1, len(used), squeeze=False)[0]
    joules = np.concatenate([table["used_j"] for table in used.values()])
    # One scale for all panels; logarithmic, for a remedy may spend a tenth.
    scale: Normalize = LogNorm(joules.min(), joules.max()) if joules.min() > 0 else Normalize(0.0, joules.max())
    for panel, (title, table) in zip(panels, used.items(), strict=True):
        lines = LineCollection(segments, linewidths=0.5 + 4.0 * heard**2, cmap="Greys", zorder=1)
        lines.set_array(heard)
        lines.set_clim(0.0, 1.0)
        panel.add_collection(lines)
        dots = panel.scatter(*places.T, c=table["used_j"], cmap="plasma", norm=scale, s=190, edgecolors="k", zorder=2)
        for node, (x, y), shade in zip(graph, places, scale(table["used_j"].to_numpy()), strict=True):
            colour = "black" if shade > 0.5 else "white"
            panel.annotate(str(graph.nodes[node]["mote"]), (x, y), ha="center", va="center", fontsize=7, color=colour)
        # As on the lab's own plan: y grows downwards.
        panel.invert_yaxis()
        panel.set_aspect("equal")
        panel.set_title(title)
        panel.set_xlabel("x (m)")
    panels[0].set_ylabel("y (m)")
    figure.colorbar(dots, ax=list(panels), label="energy (J)", shrink=0.9, pad=0.01)
    figure.colorbar(lines, ax=list(panels), label="reception (mean of both directions)", shrink=0.9, pad=0.01)
    return figure
