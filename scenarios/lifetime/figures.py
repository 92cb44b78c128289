"""The figure of lifetimes: batteries alive against rounds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_APART = 0.08
_MARKS = [m * 10**k for k in range(6) for m in (1, 2, 5)]


def draw(deaths: Mapping[str, Any], rounds: int, radios: Sequence[str], title: str) -> "Figure":
    """Draw how many batteries are not empty, against rounds: a panel for each way that radios are used.

    Parameters
    ----------
    deaths : mapping
        By run, "algorithm, radio": the round in which each battery was empty, in order, infinite if none.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    shown = [radio for radio in radios if any(name.endswith(f", {radio}") for name in deaths)]
    methods = list(dict.fromkeys(name.rpartition(", ")[0] for name in deaths))
    figure = Figure(figsize=(max(6.5, 5.4 * len(shown)), 4.3), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    finite = [each[np.isfinite(each)] for each in deaths.values()]
    first = min((each[0] for each in finite if len(each)), default=rounds)
    for panel, radio in zip(panels, shown, strict=True):
        for number, method in enumerate(methods):
            ends = deaths[f"{method}, {radio}"]
            dead = ends[np.isfinite(ends)]
            steps = np.concatenate([[1.0], dead, [dead[-1] if len(dead) == len(ends) else rounds]])
            alive = np.concatenate([len(ends) - np.arange(len(dead) + 1), [len(ends) - len(dead)]])
            style = ("-", "--", "-.", ":")[number % 4]
            # A little apart, so that one can see those that are the same.
            panel.step(
                steps,
                alive + _APART * (number - len(methods) / 2),
                where="post",
                label=method,
                color=f"C{number}",
                linestyle=style,
                linewidth=1.6,
            )
        panel.set_title(f"radio {radio}", fontsize=10)
        panel.set_xscale("log")
        low, high = max(1.0, first / 2), rounds * 1.1
        shown_marks = [mark for mark in _MARKS if low <= mark <= high]
        panel.set_xticks(shown_marks, [f"{mark:,}" for mark in shown_marks])
        panel.minorticks_off()
        panel.set_xlim(low, high)
        panel.set_xlabel("round")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("batteries that are not empty\n(curves a little apart, to be told from each other)")
    panels[0].yaxis.set_major_locator(MaxNLocator(integer=True))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), frameon=False)
    figure.suptitle(title)
    return figure
