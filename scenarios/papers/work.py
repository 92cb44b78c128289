"""The sweeps that the papers' study reads: studies with some settings over several seeds, each in its own folder."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from netsim.datasets import find
from netsim.errors import BadInput
from netsim.scenarios.data.files import find_table
from netsim.studies.catalogue import flag
from netsim.studies.outcome import with_worst
from netsim.studies.results import load
from netsim.studies.sweeps import sweep
from netsim.studies.sweeps.sweep import read_points
from netsim.studies.terminal import Reporter
from netsim.util import check

_DRAWN = ("synthetic", "drift", "switch", "rotate", "mixtures", "field", "digits")
"""Data sets that are always available, because they are drawn at random or come with a library."""

_ARRAYS = {"brodatz": "brodatz_center256"}
"""{data set: the name of its file}, if they differ."""


@dataclass(frozen=True)
class Work:
    """A study with some settings, the name of its folder, and its known differences from the paper."""

    name: str
    study: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    differs: str = ""

    @classmethod
    def of(cls, study: str, name: str, differs: str = "", /, **settings: object) -> "Work":
        """Return a work whose name begins with the name of its study."""
        return cls(f"{study}-{name}", study, settings, differs)

    @property
    def command(self) -> str:
        """The command of one repetition."""
        flags = [flag(name, value) for name, value in self.settings.items()]
        return " ".join([f"netsim run {self.study}", *flags])

    def check_data(self) -> None:
        """Raise BadInput, with instructions, if the work's data are missing."""
        data = self.settings.get("data")
        if data in _ARRAYS:
            find(_ARRAYS[data])
        elif data is not None and data not in _DRAWN:
            find_table(data)


class Runs:
    """The finished runs of a work, from its sweep's folder; or the reason why there are none, or why some failed."""

    def __init__(self, work: Work, folder: Path, missing: str = "", failed: Mapping[str, str] | None = None) -> None:
        self.work, self.folder, self.missing, self.failed = work, folder, missing, dict(failed or {})

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The rounds of all runs, with a column for the seed."""
        frame = load(self.folder, rounds=True)
        names = [str(name) for name in frame.columns]
        return with_worst(frame, names[names.index("algorithm") + 1 :])

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of the study for all runs, with a column for the seed; raises BadInput if a run lacks it."""
        parts = []
        for _, given, place in read_points(self.folder):
            try:
                part = pd.read_csv(place / f"{name}.csv")
            except (OSError, ValueError):
                raise BadInput(f"{place}: must hold a table {name}.csv") from None
            parts.append(part.assign(seed=given["seed"]))
        return pd.concat(parts, ignore_index=True)

    def beside(self, name: str) -> "Runs":
        """Return the runs of another work of the same study, for comparison; raises BadInput if there are none."""
        place = self.folder.parent / name
        if not (place / "sweep.json").is_file():
            raise BadInput(f"{place}: must be the sweep of {name}; there is none")
        return Runs(Work(name, self.work.study), place)

    def centralised(self, name: str) -> "pd.Series[float]":
        """Return a measure of the centralised reference, by seed; raises BadInput if there is none."""
        found = {}
        for given, summary in self._summaries():
            if summary["centralised"].get(name) is None:
                raise BadInput(f"{self.folder}: must have a centralised {name!r} in every summary.json")
            found[given["seed"]] = float(summary["centralised"][name])
        return pd.Series(found)

    def over_constant(self, algorithms: Collection[str] = ()) -> float:
        """Return the final error of the best of some algorithms, by default all, divided by that of the best constant.

        It is the mean over the seeds; NaN if the study does not record the constant's error. For an accuracy the error
        is the share of wrong answers. If a study has only the mean over all rounds so far ("running"), the final error
        is that of the last fifth of the rounds.
        """
        known = [str(name) for name in self.rounds["algorithm"].unique()]
        chosen = [check.one_of("algorithm", name, known) for name in algorithms] or known
        rows = self.rounds[self.rounds["algorithm"].isin(chosen)]
        ratios = []
        for seed, constant in self.constants.items():
            for column, reached in constant.items():
                ends = rows[rows["seed"] == seed].groupby("algorithm")[["round", column]].apply(_end, column)
                if column.endswith("accuracy"):
                    ends, reached = 1.0 - ends, 1.0 - reached
                ratios.append(float(ends.min()) / reached if reached else math.inf)
        return sum(ratios) / len(ratios) if ratios else math.nan

    @cached_property
    def constants(self) -> dict[int, dict[str, float]]:
        """The measures of the best constant, by seed and column; empty if a study does not record them."""
        return {given["seed"]: summary.get("constant", {}) for given, summary in self._summaries()}

    def _summaries(self) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
        """Yield settings and summary of each run."""
        for _, given, place in read_points(self.folder):
            yield given, json.loads((place / "summary.json").read_text(encoding="utf-8"))

    def columns(self, frame: pd.DataFrame, *names: str) -> pd.DataFrame:
        """Return columns of a table; raises BadInput, which names the column, if one is missing."""
        for name in names:
            if name not in frame:
                raise BadInput(f"{self.folder}: must have results with a column {name!r}")
        return frame[list(names)]


def _end(rows: pd.DataFrame, column: str) -> float:
    """Return a column's last value; for a running mean, the mean over the last fifth of the rounds."""
    measured = rows.dropna(subset=[column])
    last = measured.iloc[-1]
    if not column.startswith("running"):
        return float(last[column])
    before = measured[measured["round"] <= 0.8 * last["round"]]
    if before.empty:
        return float(last[column])
    start = before.iloc[-1]
    rounds = last["round"] - start["round"]
    return float((last["round"] * last[column] - start["round"] * start[column]) / rounds)


def do(
    works: Sequence[Work], folder: Path, seeds: range, jobs: int, reporter: Reporter, *, redo: bool = False
) -> dict[str, Runs]:
    """Run the missing parts of some works; return their runs by name.

    Failed runs are tried again, and with ``redo`` also runs whose code or data have changed. For a work with missing
    data, or without a successful run, the result has the reason in place of runs. Raises BadInput if a folder has other
    content, or runs of other code or data.
    """
    found = {}
    for number, work in enumerate(works, 1):
        place = folder / work.name
        reporter.line(f"{number} of {len(works)}, {work.name}: {work.command}")
        why, failed = "", {}
        try:
            work.check_data()
        except BadInput as error:
            # The report is published, so it must not contain paths of this machine.
            why = f"the table {work.settings['data']!r} is not in the folder NETSIM_DATA"
            reporter.line(str(error))
        else:
            how: dict[str, Any] = {"jobs": jobs, "retry": True, "redo": redo, "reporter": reporter}
            done = sweep(work.study, out=place, **how, seed=seeds, **work.settings)
            failed = done.failed
            if len(failed) == len(seeds):
                why = f"all runs failed: {next(iter(failed.values()))}"
        found[work.name] = Runs(work, place, why, failed)
    return found
