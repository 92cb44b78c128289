"""The figure of bits against frames: what arrives, the error, the energy, with the frames' boundaries."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from netsim.radio import presets

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def boundaries(table: "pd.DataFrame", size: int) -> list[float]:
    """Return the bits an element at which a message of ``size`` elements fills 1, 2, … frames, up to the last one."""
    most = presets.ieee802154().link.mtu
    assert most is not None
    beside = float((table["message_bytes"] - table["payload_bytes"]).max())
    return [8 * (k * most - beside) / size for k in range(1, math.ceil(table["frames"].max()))]


def draw(table: "pd.DataFrame", size: int, loss: float, levels: Mapping[str, float], title: str) -> "Figure":
    """Draw what arrives, the error and the energy against bits an element; at grey lines another frame begins."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.4), layout="constrained")
    panels = figure.subplots(1, 3)
    ends = boundaries(table, size)
    steps = np.repeat(ends, 2)
    shares = 100 * (1 - loss) ** np.repeat(np.arange(1, len(ends) + 2), 2)
    line = np.array([table["bits"].min() / 1.2, *steps, table["bits"].max() * 1.2])
    panels[0].plot(line, shares, color="0.3", linewidth=1, label="(1 − p)^frames")
    panels[0].plot(table["bits"], table["arrived_%"], "o", color="C0", label="measured")
    panels[0].set_ylabel("messages that arrive whole (%)")
    panels[0].set_ylim(0, 104)
    for column, what in (("train_mse", "training MSE"), ("mj", "energy of frames, agent and round (mJ)")):
        panel = panels[1 if column == "train_mse" else 2]
        panel.plot(table["bits"], table[column], "o--", color="C3", label="as it is")
        panel.plot(table["bits"], table[f"{column} mended"], "s-", color="C2", label="what is lost is sent again")
        panel.set_yscale("log")
        panel.set_ylabel(what)
    for style, (name, level) in zip((":", "-"), levels.items(), strict=True):
        panels[1].axhline(level, color="0.4", linestyle=style, linewidth=1, label=name)
    for panel in panels:
        _mark(panel, ends, list(table["bits"]))
        panel.legend(fontsize=8)
    figure.suptitle(f"{title}; grey: where another frame begins", fontsize=11)
    return figure


def _mark(panel: "Axes", ends: list[float], bits: list[int]) -> None:
    for end in ends:
        panel.axvline(end, color="0.85", linewidth=0.8, zorder=0)
    panel.set_xscale("log", base=2)
    panel.set_xticks(bits, [str(each) for each in bits])
    panel.minorticks_off()
    panel.set_xlabel("bits an element")
    panel.set_xlim(min(bits) / 1.2, max(bits) * 1.2)
    panel.grid(axis="y", alpha=0.3)
