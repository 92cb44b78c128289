"""The results of an experiment: tables of runs and rounds, summaries that count dead runs, and comparisons."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import BadInput
from netsim.studies import columns
from netsim.studies.experiment.cells import METHOD, SEED, Cell, Measured
from netsim.studies.intervals import ALGORITHM, check_numbers, confidence, proportion, statistic
from netsim.studies.outcome import (
    BEST,
    CONVERGED,
    DEAD,
    DIVERGED,
    FAILED,
    STALLED,
    TIED,
    UNFINISHED,
    worst_of_dead,
)
from netsim.studies.page import NAME as PAGE
from netsim.studies.paired import holm
from netsim.studies.reserve import refusals
from netsim.studies.results import bands
from netsim.studies.sweeps.sweep import free
from netsim.util import check
from netsim.util.files import write_whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_LEVEL = 0.05
_MOST_LINES = 8  # most lines in a panel, so that they can be told apart


@dataclass(frozen=True)
class Results:
    """The results of an experiment.

    Attributes
    ----------
    cells : list of (Cell, Measured)
        Every run, in the experiment's order.
    labels : tuple of str
        Columns that distinguish variants of a method.
    folder : Path or None
        The folder of the runs.
    ran : int
        The number of cells that ran now; the results of the others were stored before.
    notes : list of str
        Warnings for the reader, such as cells run with different versions, or data that was not copied.
    about : dict
        The description of the experiment that experiment.json contains (`netsim.studies.experiment.record`).
    """

    cells: list[tuple[Cell, Measured]]
    labels: tuple[str, ...] = ()
    folder: Path | None = None
    ran: int = 0
    notes: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def runs(self) -> "pd.DataFrame":
        """A row for each run: its columns, its outcome, and the last value of each measure."""
        import pandas as pd

        return pd.DataFrame([{**columns, **found.row} for columns, found in self._with_columns])

    @cached_property
    def rounds(self) -> "pd.DataFrame":
        """A row for each round of each run."""
        import pandas as pd

        parts = [found.rounds.assign(**columns) for columns, found in self._with_columns]
        if not (parts := [part for part in parts if len(part)]):
            return pd.DataFrame(columns=self.keys)
        table = pd.concat(parts, ignore_index=True)
        return table[[name for name in dict.fromkeys([*self.keys, *table]) if name in table]]

    @property
    def keys(self) -> list[str]:
        """The columns that identify runs."""
        return list(dict.fromkeys(name for columns, _ in self._with_columns for name in columns))

    @cached_property
    def _with_columns(self) -> list[tuple[dict[str, Any], Measured]]:
        """The runs with their columns; a column that any run also has as a measure gets the prefix ``given_``."""
        measures = {name for _, found in self.cells for name in found.row}
        return [(free(cell.columns, measures), found) for cell, found in self.cells]

    @property
    def by(self) -> list[str]:
        """The default columns of a summary: the method, and columns with several values, except seeds and labels."""
        settings = [name for name in self.keys if name not in (SEED, METHOD, *self.labels)]
        return [*(name for name in settings if self.runs[name].nunique(dropna=False) > 1), METHOD]

    @property
    def metric(self) -> str:
        """The name of the problem's error; raises BadInput if there is none, or several."""
        if len(self._errors) != 1:
            names = ", ".join(self._errors) or "none"
            raise BadInput(f"metric: must be given, a column of Results.runs; the problems' errors are {names}")
        return self._errors[0]

    @cached_property
    def _errors(self) -> list[str]:
        """The names of the problems' errors, by which outcomes are classified."""
        return [str(each) for each in dict.fromkeys(found.row.get("judged_by") for _, found in self.cells) if each]

    @property
    def is_judged(self) -> bool:
        """Whether a problem's error decides the runs' outcomes."""
        return bool(self._errors)

    def with_one_error(self) -> "Iterator[tuple[str, Results]]":
        """Yield ("", self); if problems have different errors, yield (name, results) for each problem instead."""
        if len(self._errors) < 2:
            yield "", self
            return
        for name, _ in self.runs.groupby("problem", sort=False):
            yield f", {name}", self.only("problem", name)

    def medians(self, by: Sequence[str] | None = None) -> "pd.DataFrame":
        """Return the number of surviving runs, and the median of every measure over all runs, by groups of runs.

        A failed run has no measures; it counts as the worst value of each.

        Parameters
        ----------
        by : sequence of str, optional
            As for `summary`.
        """
        import pandas as pd

        by = self._checked(by)
        numeric = map(str, self.runs.select_dtypes("number"))
        measures = [name for name in numeric if name not in (*self.keys, "outcome_round", "optimum")]
        rows = []
        for key, part in _groups(self.runs, by):
            alive = int((~part["outcome"].isin(DEAD)).sum())
            found = {name: statistic(worst_of_dead(part, name)[0][name], of="median") for name in measures}
            rows.append({**key, "survived": f"{alive}/{len(part)}", **found})
        return pd.DataFrame(rows)

    def summary(self, metric: str | None = None, by: Sequence[str] | None = None) -> "pd.DataFrame":
        """Return a row for each group of runs: the number of survivors, and the median over all runs.

        A run that diverged or failed counts as the worst value, so the median is ∞ if more than half died.

        Parameters
        ----------
        metric : str, optional
            A column of `runs`; default: the problem's error.
        by : sequence of str, optional
            The columns by which runs are grouped; default: `by`.

        Returns
        -------
        DataFrame
            The columns of ``by``; ``survived``, such as "5/6", with ``survival_low`` and ``survival_high``, Clopper and
            Pearson's 95 % interval of the share; the numbers of runs that ``converged``, ``stalled``, ``diverged``,
            ``failed`` or are ``unfinished``; ``median_…``, with ``median_low`` and ``median_high``, its 95 % interval
            (order statistics, of 6 runs or more); ``worst_…``; ``mean_…`` where all survived; ``verdict``: "best" for
            the method with the least median among those with most survivors, "tied" if the sign test cannot distinguish
            a method of these from the best (p of 0.05 or more after Holm's correction for the methods of one
            condition). The text ``attrs["note"]`` warns if there are too few seeds to distinguish any two methods.

        Raises
        ------
        BadInput
            For an unknown column.
        """
        import pandas as pd

        metric = self._metric(metric)
        by = self._checked(by)
        table = pd.DataFrame([key | _summary(part, metric) for key, part in _groups(self.runs, by)])
        if METHOD in by and len(table):
            others = [name for name in by if name != METHOD]
            # Both tables yield their groups in the same order: that of their first rows.
            both = zip(_groups(table, others), _groups(self.runs, others), strict=True)
            verdicts = [part[METHOD].map(_verdicts(part, runs, metric)) for (_, part), (_, runs) in both]
            table["verdict"] = pd.concat(verdicts)
        table = table.drop(columns="_alive")
        table.attrs["note"] = self._too_few()
        return table

    def _checked(self, by: Sequence[str] | None) -> list[str]:
        return self.by if by is None else [check.one_of("by", name, self.keys) for name in by]

    def _too_few(self) -> str:
        """Return a warning if there are too few seeds for the sign test; else ""."""
        seeds, methods = self.runs[SEED].nunique(), self.runs[METHOD].nunique()
        least = min(1.0, 2.0 ** (1 - seeds) * (methods - 1))
        if methods < 2 or least < _LEVEL:
            return ""
        return (
            f"With {seeds} seed{'s' * (seeds > 1)} and {methods} methods the sign test can tell none from the best: "
            f"its least p after Holm is {least:.3g}."
        )

    def versus(self, reference: str, metric: str | None = None) -> "pd.DataFrame":
        """Return, for each other method, on how many seeds it was better and worse than a reference.

        Runs are paired by seed and all columns of `by`. A dead run loses against a survivor; two dead ones tie.

        Parameters
        ----------
        reference : str
            The method with which the others are compared.
        metric : str, optional
            As for `summary`.

        Returns
        -------
        DataFrame
            The columns of `by`; ``better``, ``worse``, ``equal``: numbers of seeds; ``p`` of the two-sided sign test,
            and ``p_holm``, corrected for all rows of the table, because a reader may pick any row. To test fewer
            hypotheses, take the results of fewer conditions (`only`). The text ``attrs["note"]`` explains the columns.

        Raises
        ------
        BadInput
            For an unknown method or column.
        """
        import pandas as pd

        metric = self._metric(metric)
        check.one_of("reference", reference, [str(each) for each in self.runs[METHOD].unique()])
        by = [name for name in self.by if name != METHOD]
        rows = []
        for key, part in _groups(self.runs, by):
            wide = _by_seed(part, metric)
            for name in wide.columns:
                if name != reference and reference in wide:
                    found = _signs(wide[name], wide[reference], metric)
                    rows.append({**key, METHOD: name, **found})
        table = pd.DataFrame(rows, columns=[*by, METHOD, "better", "worse", "equal", "p"])
        table["p_holm"] = holm(table["p"].to_numpy(dtype=np.float64))
        rows_text = f" for the {len(table)} rows of this table" if len(table) > 1 else ""
        table.attrs["note"] = (
            f"On how many seeds each method is better and worse than {reference}; p of the two-sided sign test, p_holm "
            f"corrected{rows_text} (Holm)."
        )
        return table

    def tidy(self, *, rounds: bool = False) -> "pd.DataFrame":
        """Return the table of runs (or of rounds) as `netsim.results.load` does: settings, ``algorithm``, measures.

        All functions of `netsim.results` accept it: bands, heat maps, intervals, paired differences, LaTeX. In a table
        of rounds a dead run has as many rows as the longest run, with the worst value from its death on.
        """
        table = self._with_the_dead() if rounds else self.runs
        settings = [name for name in self.keys if name in table and name not in (METHOD, *self.labels)]
        rest = [name for name in table.columns if name not in (*settings, METHOD, *self.labels)]
        return table[[*settings, METHOD, *rest]].rename(columns={METHOD: ALGORITHM})

    def _with_the_dead(self) -> "pd.DataFrame":
        """Return the table of rounds with a column of outcomes; a run is dead from the round of its death on."""
        import pandas as pd

        tables = [found.rounds for _, found in self.cells]
        longest = max(tables, key=len, default=pd.DataFrame())
        parts = []
        for (settings, found), table in zip(self._with_columns, tables, strict=True):
            died = found.row["outcome"] in DEAD and "round" in longest
            if died:
                left = longest[["round", "time_s"]].iloc[len(table) :]
                table = pd.concat([table, left], ignore_index=True)
            since = found.row["outcome_round"]
            # A failed run has no round of death: it was alive in its recorded rounds.
            alive = table["round"] < since if since == since else pd.Series(table.index < len(found.rounds))
            outcome = alive.map({True: "", False: found.row["outcome"]}) if died else ""
            parts.append(table.assign(**settings, outcome=outcome))
        return pd.concat(parts, ignore_index=True)

    def figure(
        self, y: str | None = None, x: str = "round", *, of: str = "median", log: bool = True, title: str = ""
    ) -> "Figure":
        """Draw a measure of each method against the rounds, or against a setting, with its interval over the seeds.

        Each combination of the other settings has a panel, and no panel has more than eight lines.

        Parameters
        ----------
        y : str, optional
            The measure; default: the problem's error.
        x : str
            A column of `rounds`, or one of the settings.
        of : {"mean", "median"}
            The statistic to draw (`netsim.results.bands`).
        log : bool
            Whether the axis of the measure is logarithmic.
        title : str
            The figure's title.

        Raises
        ------
        BadInput
            For an unknown column.
        """
        table = self.tidy(rounds=x not in self.keys)
        y = self.metric if y is None else y
        for name in (x, y):
            check.one_of("column", name, [str(each) for each in table.columns])
        settings = [name for name in self.by if name not in (METHOD, x)]
        methods = list(dict.fromkeys(table[ALGORITHM]))
        if (groups := -(-len(methods) // _MOST_LINES)) > 1:
            number = {name: f"{place // _MOST_LINES + 1} of {groups}" for place, name in enumerate(methods)}
            table, settings = table.assign(methods=table[ALGORITHM].map(number)), [*settings, "methods"]
        return bands(table, x, y, by=ALGORITHM, of=of, log=log, title=title, facets=settings)

    def only(self, column: str, value: Any) -> "Results":
        """Return the results of the runs that have a value in one of `keys`.

        Raises
        ------
        BadInput
            For an unknown column, or a value that no run has there.
        """
        check.one_of("column", column, self.keys)
        # Methods may lack settings that other methods have.
        both = [
            (pair, settings[column])
            for pair, (settings, _) in zip(self.cells, self._with_columns, strict=True)
            if column in settings
        ]
        if not any(each == value for _, each in both):
            there = ", ".join(dict.fromkeys(str(each) for _, each in both))
            raise check.refuse("value", value, f"one of {there}, which runs have as {column}")
        return replace(self, cells=[pair for pair, each in both if each == value])

    def report(self, path: str | Path | None = None, *, reference: str | None = None, title: str = "") -> Path:
        """Write the results as one page, which loads nothing, and return its path.

        It has figures of the error (without an error, of each measure) over each numeric setting and over the rounds;
        the tables `summary`, `versus` and `medians`; every dead run; notes, the parts and their values; the command to
        repeat the experiment; the paragraph for a methods section; and versions.

        Parameters
        ----------
        path : str or Path, optional
            Default: report.html in the folder of the runs.
        reference : str, optional
            The method with which the others are compared (`versus`). Default: the first.
        title : str, optional
            The title of the page. Default: the first line of the docstring of the experiment's file.

        Raises
        ------
        BadInput
            If there is neither a path nor a folder of the runs; for an unknown method, or a file that cannot be
            written.
        """
        from netsim.studies.experiment.report import report

        if path is None and self.folder is None:
            raise check.refuse("path", path, "given, for the runs are kept in no folder")
        if reference is not None:
            check.one_of("reference", reference, [str(each) for each in self.runs[METHOD].unique()])
        place = Path(path) if path is not None else Path(str(self.folder), PAGE)
        page = report(self, reference, title).encode(errors="backslashreplace")
        with refusals(place.parent), write_whole(place) as file:
            file.write(page)
        return place

    def methods_section(self, format: str = "text") -> str:
        """Return the description of the methods for a paper, as text or "latex"."""
        from netsim.studies.methods_section import methods_section

        return methods_section(self, format)

    def _metric(self, metric: str | None) -> str:
        name = self.metric if metric is None else check.one_of("metric", metric, [str(each) for each in self.runs])
        check_numbers(self.runs, name)
        return name

    def __repr__(self) -> str:
        ends = ", ".join(f"{count} {name}" for name, count in self.runs["outcome"].value_counts().items())
        return f"Results({len(self.cells)} runs, {self.ran} of them new: {ends})"


def _groups(table: "pd.DataFrame", by: Sequence[str]) -> "Iterator[tuple[dict[str, Any], pd.DataFrame]]":
    """Yield the values of some columns with their rows, in order of first appearance."""
    yield from ((dict(zip(by, key, strict=True)), part) for key, part in columns.groups_of(table, by))


def _summary(part: "pd.DataFrame", metric: str) -> dict[str, Any]:
    """Return the summary of one group of runs."""
    dead = part["outcome"].isin(DEAD)
    alive, count = int((~dead).sum()), len(part)
    low, high = proportion(alive, count)
    found: dict[str, Any] = {"survived": f"{alive}/{count}", "survival_low": low, "survival_high": high}
    found |= {name: int((part["outcome"] == name).sum()) for name in (CONVERGED, STALLED, UNFINISHED, DIVERGED, FAILED)}
    values = worst_of_dead(part, metric)[0][metric].to_numpy(dtype=np.float64)
    worst = columns.worst(metric)
    ends = confidence(values, of="median")
    found |= {f"median_{metric}": statistic(values, of="median"), "median_low": ends[0], "median_high": ends[1]}
    found[f"worst_{metric}"] = (max if worst > 0 else min)(values, default=math.nan)
    return found | {f"mean_{metric}": statistic(values) if alive == count else math.nan, "_alive": alive / count}


def _verdicts(part: "pd.DataFrame", runs: "pd.DataFrame", metric: str) -> dict[str, str]:
    """Return each method's verdict: best, tied with the best, or ""."""
    neither = dict.fromkeys(part[METHOD], "")
    able = part[part["_alive"] == part["_alive"].max()]
    sign = 1.0 if columns.worst(metric) > 0 else -1.0
    scores = sign * able[f"median_{metric}"]
    if not np.isfinite(scores.min()):
        return neither
    best = str(able.loc[scores.idxmin(), METHOD])
    wide = _by_seed(runs, metric)
    others = [name for name in able[METHOD] if name != best and name in wide]
    p = holm([_signs(wide[name], wide[best], metric)["p"] for name in others])
    return neither | {best: BEST} | {str(name): TIED for name, each in zip(others, p, strict=True) if not each < _LEVEL}


def _by_seed(runs: "pd.DataFrame", metric: str) -> "pd.DataFrame":
    """Return a row for each seed and a column for each method; a run that died has the worst value."""
    counted = worst_of_dead(runs, metric)[0]
    return counted.pivot_table(index=SEED, columns=METHOD, values=metric, aggfunc="first", sort=False)


def _signs(values: "pd.Series[float]", reference: "pd.Series[float]", metric: str) -> dict[str, Any]:
    """Return on how many seeds values are better and worse than a reference's, and the sign test's p."""
    # Imported here because scipy.stats takes longer to import than everything else, also in each worker.
    from scipy.stats import binomtest

    both = values.notna() & reference.notna()
    less, more = int((values[both] < reference[both]).sum()), int((values[both] > reference[both]).sum())
    better, worse = (less, more) if columns.worst(metric) > 0 else (more, less)
    p = float(binomtest(better, better + worse).pvalue) if better + worse else 1.0
    return {"better": better, "worse": worse, "equal": int(both.sum()) - better - worse, "p": p}
