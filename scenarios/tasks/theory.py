"""The theorems' bounds for the runs of a study, with the flag ``theory``: columns, notes and a figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from netsim import Network
from netsim.agents.theory import MEASURED, Theory
from netsim.studies import Study
from netsim.studies.columns import label
from netsim.studies.figures import Figure, drawing, legend_below, whole_rounds


class _Shown(Theory):
    def show(self, study: Study) -> None:
        """Add a figure of bounds and measured values to a study, if its runs have such columns."""
        rounds = study.rounds
        # If no frame is censored or coded, copies have no error, and the bound of the error is 0.
        there = {name for name in rounds.select_dtypes("number") if (rounds[name] > 0).any()}
        drawn = {promised: measured for promised, measured in MEASURED.items() if {promised, measured} <= there}
        if drawn:
            study.figure(
                "theory",
                partial(_draw, rounds, drawn),
                "Measured (solid), and what a theorem promises of it: a bound (dashed), a prediction (dotted).",
            )


_TEXT = "Columns of what the papers' theorems promise of each run, a figure, and notes on those that promise nothing."

_SHOWN = _Shown()
THEORY: Mapping[str, tuple[Any, str]] = {"theory": (_SHOWN, _TEXT)}
"""{flag: (measure, help)} of studies that have the flag ``--theory``."""


@dataclass(frozen=True, kw_only=True)
class Promises:
    """The display of theorems in a study that is not an experiment.

    Parameters
    ----------
    theory : bool
        Columns of what the papers' theorems promise of each run, a figure, and notes on those that promise nothing.
    """

    theory: bool = False

    def probes(
        self, study: Study, name: str, agents: Mapping[Any, Any], network: Network, rounds: int, of: Any = _SHOWN
    ) -> list[Any]:
        """If requested, note the theorems' statements that have no column, and return the probes with columns."""
        if not self.theory:
            return []
        study.note(*(f"{name}: {line}." for line in of.lines(agents, network)))
        return [probe for probe in (of.of(agents, network, rounds),) if probe is not None]

    def show(self, study: Study) -> None:
        """Add the figure to the study, if requested."""
        if self.theory:
            _SHOWN.show(study)


def _draw(rounds: pd.DataFrame, drawn: Mapping[str, str]) -> Figure:
    quantities = list(dict.fromkeys(drawn.values()))
    rounds = rounds.dropna(subset=list(drawn), how="all")
    title = "Measured (solid), bounds (dashed) and predictions (dotted)"
    figure, panels = drawing(max(4.2 * len(quantities), 6.5), 4.2, len(quantities), title=title)
    colours = {str(name): f"C{number % 10}" for number, name in enumerate(rounds["algorithm"].unique())}
    entries: dict[str, Any] = {}
    for panel, measured in zip(panels, quantities, strict=True):
        for name, rows in rounds.groupby("algorithm", sort=False):
            own = [each for each, column in drawn.items() if column == measured and rows[each].notna().any()]
            for column in [measured, *own] if own else ():
                there = rows.dropna(subset=[column])
                style: dict[str, Any] = {"color": colours[str(name)]}
                if column.startswith("bound"):
                    style["linestyle"] = "--"
                elif column != measured:
                    style |= {"color": "black", "linestyle": ":", "zorder": 3}
                (line,) = panel.plot(there["round"], there[column], **style)
                if column == measured:
                    entries.setdefault(str(name), line)
        panel.set_yscale("log", nonpositive="mask")
        whole_rounds(panel)
        panel.set(xlabel="round", ylabel=label(measured))
    legend_below(figure, entries=entries)
    return figure
