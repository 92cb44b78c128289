"""Figures of the study of deep kernel learning."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.studies.figures import Figure, drawing

_STYLES = {
    "RF-KL": ("C0", "o"),
    "DKL": ("C1", "s"),
    "DKL-MLP": ("C2", "D"),
    "DNN": ("C3", "^"),
    "Deep-semi": ("C4", "v"),
}
_LABELS = {"test_mse": "test MSE", "test_accuracy": "test accuracy"}
_MANY = 12
"""With at least this many classes the numbers are small, and zeros are omitted."""


def parameters_figure(table: pd.DataFrame, theirs: pd.DataFrame, metric: str, title: str) -> Figure:
    """Draw the metric against trainable parameters per output: results of this run filled, published results hollow."""
    figure, panel = drawing(9, 4.8)
    for method, (colour, marker) in _STYLES.items():
        ours = table[table["method"] == method]
        if len(ours):
            panel.errorbar(
                ours["per_output"], ours[metric], yerr=ours[f"± {metric}"].fillna(0.0), fmt=f"{marker}-", color=colour,
                linewidth=1, capsize=3, label=method,
            )  # fmt: skip
        known = theirs[theirs["method"] == method]
        if len(known):
            panel.plot(
                known["parameters"], known["value"], f"{marker}:", color=colour, markerfacecolor="none", linewidth=1,
                label=f"{method}, published",
            )  # fmt: skip
    for name, level in table.loc[table["per_output"].isna(), ["method", metric]].itertuples(index=False):
        panel.axhline(level, color="0.4", linewidth=1, linestyle="--", label=name)
    panel.set_xscale("log")
    if metric == "test_mse":
        panel.set_yscale("log")
    panel.set(xlabel="trainable parameters, one output", ylabel=_LABELS[metric])
    panel.set_title(title)
    handles, labels = panel.get_legend_handles_labels()
    # Draw netsim's results before the published ones.
    order = sorted(range(len(labels)), key=lambda place: "published" in labels[place])
    figure.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside right upper", frameon=False)
    return figure


def confusion_figure(confusion: NDArray[np.int64], classes: Sequence[str], title: str) -> Figure:
    """Draw a confusion matrix: shares of each true class (row) by colour, counts as numbers."""
    count = len(classes)
    # Escape dollar signs, which would begin a formula.
    classes, title = [name.replace("$", r"\$") for name in classes], title.replace("$", r"\$")
    side = min(max(5.0, 0.42 * count + 1.8), 14.0)
    figure, panel = drawing(side + 1.0, side, grid="")
    totals = np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    shares = confusion / totals
    image = panel.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    for (row, column), value in np.ndenumerate(confusion):
        if value or count < _MANY:
            panel.text(
                column, row, f"{value}", ha="center", va="center", fontsize=7 if count >= _MANY else 9,
                color="white" if shares[row, column] > 0.5 else "black",
            )  # fmt: skip
    upright = all(len(name) <= 3 for name in classes)
    panel.set_xticks(range(count), classes, rotation=0 if upright else 30, ha="center" if upright else "right")
    panel.set_yticks(range(count), classes)
    panel.set(xlabel="predicted class", ylabel="true class")
    figure.colorbar(image, label="share of the true class", shrink=0.8)
    panel.set_title(f"{title}: test samples")
    return figure
