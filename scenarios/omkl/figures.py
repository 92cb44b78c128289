"""The figure of the study of online multi-kernel learning."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from netsim.scenarios.omkl.task import COMPLETE, GOSSIP, OnGraph
from netsim.studies.figures import LABELS, Axes, Figure, drawing, legend_below, line_style, unmark_unseen, whole_rounds

_COLOURS = {"path": "C3", "ring": "C0", "star": "C4", "complete": "C2"}
_FIRST_ROUND = 10
"""First round that is drawn; the mean over fewer rounds is mostly noise."""


def draw_losses(losses: pd.DataFrame, above: pd.DataFrame, methods: Sequence[OnGraph], title: str) -> Figure:
    """Draw running losses against rounds and bits, and gossip's excess loss over a reference; a row for each step size.

    ``losses`` has the keys eta, method and round, and the columns running_loss, running_loss_band and payload_bits.
    ``above`` has the same keys, and the columns ``above`` (the excess loss), ``band`` and ``reference``; it may be
    empty.
    """
    etas = losses["eta"].unique()
    start = min(_FIRST_ROUND, int(losses["round"].max()))
    losses = losses[losses["round"] >= start]
    figure, panels = drawing(13, 1.6 + 3.5 * len(etas), 3, len(etas))
    for row, eta in zip(panels, etas, strict=True):
        for number, method in enumerate(methods):
            marks = {key: value for key, value in line_style(number, len(methods)).items() if key.startswith("mark")}
            part = losses[(losses["eta"] == eta) & (losses["method"] == method.name)]
            for panel, x in zip(row[:2], ("round", "payload_bits"), strict=True):
                _curve(panel, method, part, (x, "running_loss", "running_loss_band"), marks)
            if len(above):
                part = above[(above["eta"] == eta) & (above["method"] == method.name) & (above["round"] >= start)]
                _curve(row[2], method, part, ("round", "above", "band"), marks)
        row[0].set_ylabel(f"mean loss so far, η = {eta:g}")
        _label(row[0], "round")
        _label(row[1], "payload_bits")
        _label(row[2], "round")
        if (losses["payload_bits"] > 0).any():
            row[1].set_xscale("log", nonpositive="mask")
        if len(above):
            row[2].set_ylabel(f"mean loss so far, above that of\n{above['reference'].iloc[0]}")
            row[2].axhline(0.0, color="0.4", linewidth=0.8, zorder=0)
            row[2].ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    unmark_unseen(figure)
    legend_below(figure, 4)
    figure.suptitle(f"{title}, from round {start} on")
    return figure


def _curve(
    panel: Axes, method: OnGraph, part: pd.DataFrame, columns: tuple[str, str, str], marks: Mapping[str, Any]
) -> None:
    """Draw one method's curve and band, with markers where curves coincide; ``columns`` names x, y and the band."""
    if part.empty:
        return
    x, y, band = columns
    if method.kind == GOSSIP:
        colour = _COLOURS.get(method.topology, _COLOURS["ring"])
        # Curves with and without coding mostly coincide, so the broad uncoded one shows through the dashes.
        style, width = ("-", 3.0) if method.bits is None else ("--", 1.2)
        alpha = 0.35 if method.bits is None else 1.0
    else:
        colour, style, width, alpha = ("0.1" if method.kind == COMPLETE else "C1"), ":", 1.8, 1.0
    panel.plot(part[x], part[y], style, color=colour, linewidth=width, alpha=alpha, label=method.name, **marks)
    # Only one band for each graph, because the bands of coded and uncoded gossip coincide.
    if method.kind != GOSSIP or method.bits is None:
        panel.fill_between(part[x], part[y] - part[band], part[y] + part[band], color=colour, alpha=0.15, linewidth=0)


def _label(panel: Axes, x: str) -> None:
    panel.set_xlabel(LABELS.get(x, x))
    if x == "round":
        whole_rounds(panel)
