"""The figures of the study `polk`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.agents.greedy.dictionary import Dictionary
from netsim.studies.figures import Figure, drawing, line_style
from netsim.util.typing import Array

_PANELS = (
    ("objective", "objective, mean over agents"),
    ("disagreement", "disagreement $\\sum_{ij}\\|f_i(x_i)-f_j(x_i)\\|^2$"),
    ("model_order", "model order, mean over agents"),
    ("accuracy", "test accuracy, mean over agents"),
)


def progress(rounds: pd.DataFrame, title: str, levels: Mapping[str, tuple[str, float]]) -> Figure:
    """Draw objective, disagreement, model order and accuracy against samples, a curve for each run.

    ``levels`` maps a run's name to the name and value of its reference accuracy.
    """
    figure, panels = drawing(9.0, 6.4, 2, 2, title=title, sharex=True)
    for panel, (column, label) in zip(panels.ravel(), _PANELS, strict=True):
        groups = rounds.groupby("algorithm", sort=False)
        for number, (name, rows) in enumerate(groups):
            shown, style = rows.dropna(subset=[column]), line_style(number, len(groups)) | {"linewidth": 1.3}
            panel.plot(shown["samples"], shown[column], color=f"C{number}", label=_called(str(name)), **style)
            if column == "accuracy" and name in levels:
                what, level = levels[str(name)]
                panel.axhline(level, color=f"C{number}", linewidth=1, linestyle=":", label=what)
        panel.set_ylabel(label)
    for panel in panels[1]:
        panel.set_xlabel("samples of an agent")
    found = dict(zip(*reversed(panels[1, 1].get_legend_handles_labels()), strict=True))
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=min(len(found), 5), frameon=False)
    return figure


def _called(run: str) -> str:
    """Return a run's name in a legend; the run "draw 3" uses the problem drawn by seed 3."""
    return f"problem of seed {run.removeprefix('draw ')}" if run.startswith("draw ") else f"penalty {run}"


def surface(model: Dictionary, inputs: Array, labels: NDArray[np.int64], names: Sequence[str], title: str) -> Figure:
    """Draw the decision regions of a model with two inputs, its dictionary, and the samples.

    ``inputs`` has shape (n, 2), and ``labels``, shape (n,), holds indices into the class ``names``.
    """
    from matplotlib.colors import ListedColormap, Normalize

    classes = model.weights.shape[1]
    colors = ListedColormap([f"C{number}" for number in range(classes)])
    low, high = np.quantile(inputs, [0.0, 1.0], axis=0) + np.array([[-0.3], [0.3]])
    across, up = np.meshgrid(np.linspace(low[0], high[0], 250), np.linspace(low[1], high[1], 250))
    decided = model(np.stack([across.ravel(), up.ravel()], axis=1)).argmax(axis=1).reshape(across.shape)
    figure, panel = drawing(7.2, 6.0, grid="")
    norm = Normalize(-0.5, classes - 0.5)
    panel.pcolormesh(across, up, decided, alpha=0.25, shading="nearest", cmap=colors, norm=norm)
    panel.scatter(inputs[:, 0], inputs[:, 1], 3, labels, cmap=colors, norm=norm, alpha=0.6, linewidths=0)
    points = model.points
    marked = panel.scatter(points[:, 0], points[:, 1], 46, facecolors="none", edgecolors="black", linewidths=1.4)
    patches = [panel.scatter([], [], color=f"C{number}", s=24) for number in range(classes)]
    figure.legend([*patches, marked], [*names, "dictionary"], loc="outside lower center", ncols=6, frameon=False)
    panel.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal", title=title)
    return figure
