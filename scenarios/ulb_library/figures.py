"""Predictions beside readings, and which mote heard which."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from netsim.scenarios.ulb_library.readings import LibraryField, Readings
from netsim.studies.figures import Figure, drawing, legend_below
from netsim.util.typing import Array

_LINES = ("-", "--", "-.", ":")


def errors(rounds: pd.DataFrame, best: float) -> Figure:
    """Draw the running errors at a mote's own place and at the others', and the hindsight model's error (°C)."""
    title = "What a mote's model predicts, before it learns from the minute"
    figure, panels = drawing(9.6, 4.6, 2, title=title, sharey=True)
    columns = {"running_own_c": "of its own reading", "running_field_c": "of the others' readings"}
    for panel, (column, title) in zip(panels, columns.items(), strict=True):
        for number, (name, rows) in enumerate(rounds.groupby("algorithm", sort=False)):
            panel.plot(rows["round"], rows[column], _LINES[number % 4], linewidth=1.6, label=str(name))
        panel.axhline(best, color="0.4", linewidth=1, label="one model fitted to all afterwards")
        panel.set(yscale="log", xlabel="minute", title=title)
    panels[0].set_ylabel("running error (°C, root mean square)")
    legend_below(figure, 4)
    return figure


def predictions(
    readings: Readings, fields: Mapping[str, LibraryField], motes: Sequence[int], names: Sequence[object], first: int
) -> Figure:
    """Draw, for a few motes, what they read and what all others' models predict of it, from a minute on."""
    minutes = len(next(iter(fields.values())).others)
    hours = readings.hours[first:minutes]
    title = "What the other motes' models predict of a mote's reading, on the average"
    figure, panels = drawing(4.2 * len(motes), 4.2, len(motes), title=title, sharey=True)
    for panel, mote in zip(panels, motes, strict=True):
        read = np.where(readings.present, readings.celsius, np.nan)[first:minutes, mote]
        for number, (name, field) in enumerate(fields.items()):
            predicted = np.array(field.others)[first:, mote]
            panel.plot(hours, predicted, _LINES[number % 4], linewidth=1.1, label=name)
        panel.plot(hours, read, color="black", linewidth=1.8, label="read")
        panel.set(title=f"mote {names[mote]}", xlabel="hours since midnight (UTC)")
    panels[0].set_ylabel("temperature (°C)")
    legend_below(figure, 6)
    return figure


def who_heard(share: Array, names: Sequence[object]) -> Figure:
    """Draw the share of packets that each mote heard of each; NaN: no link."""
    figure, panel = drawing(6.2, 5.2, grid="")
    image = panel.imshow(share, vmin=0.0, vmax=1.0, cmap="viridis")
    panel.set_xticks(range(len(names)), [str(name) for name in names], fontsize=8)
    panel.set_yticks(range(len(names)), [str(name) for name in names], fontsize=8)
    panel.set(xlabel="receiver", ylabel="sender")
    figure.colorbar(image, ax=panel, label="share of packets heard")
    return figure
