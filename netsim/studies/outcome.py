"""Outcomes of runs: summaries treat a run that did not survive as an outcome, not as a missing value.

Every summary over runs (tables, intervals, figures, paired differences, tuning) follows one rule. A run that diverged
or failed stays in the count and has the worst value of an error, ∞. So a mean over runs is ∞ if one of them died, a
median is finite if more than half survive, and tables show (2/6) beside the number if only 2 of 6 runs survived.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import AgentError, BadInput, one_line
from netsim.studies import columns
from netsim.studies.reach import settled
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

CONVERGED, STALLED, UNFINISHED = "converged", "stalled", "unfinished"
DIVERGED, FAILED, ENDED = "diverged", "failed", "ended"
NOT_REACHED = "not reached"
"""The outcome of a run where a target is asked for (COLUMN@TARGET), and the run never stayed at it."""

DEAD = (DIVERGED, FAILED, NOT_REACHED)
"""The outcomes that count as the worst."""

BEST, TIED = "best", "tied"
"""The verdicts of a summary on methods."""

COLUMN = "outcome"
"""The column of results that has them."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    state : str
        "diverged", "converged", "stalled", "unfinished", "failed", or "ended" if the run has no error column to
        classify it.
    round : int or None
        The round from which on the run has converged or diverged.
    why : str
        The line of an exception that ended the run; "" if the outcome follows from the error's values.
    """

    state: str
    round: int | None = None
    why: str = ""

    @property
    def survived(self) -> bool:
        """Whether the run neither diverged nor failed."""
        return self.state not in DEAD

    def recorded(self) -> dict[str, Any]:
        """Return the outcome as stored in summary.json."""
        more = {"outcome_round": self.round} if self.round is not None else {}
        return {COLUMN: self.state} | more | ({"outcome_why": self.why} if self.why else {})


@dataclass(frozen=True)
class Ending:
    """The rule by which a run's errors determine its outcome.

    A run *diverged* if its last error is not finite or exceeds ``factor`` times the first; its round is the one in
    which this last excess began, and a run that recovers has not diverged. It *converged* if its error stays at or
    below ``target``, or if its gap to the optimum stays within the share ``within`` of the first gap. It *stalled* if
    the second half of its rounds reduced the error by less than the share ``within``; otherwise it is *unfinished*.

    The first error is the first measured one. If it is 0 (agents that start at the solution), no factor applies, and
    the run diverged only if its last error is not finite. If no error was ever a number, the run diverged from the
    start. Columns that always grow (regret, bits, transmissions) decide no outcome. A study names the column that
    decides it (``error`` of `netsim.studies.study.Study`); without such a column a run has *ended*.

    Parameters
    ----------
    target : float, optional
        The error at or below which a run has converged.
    within : float
        In (0, 1).
    factor : float
        Above 1.
    """

    target: float | None = None
    within: float = 0.01
    factor: float = 10.0

    def __post_init__(self) -> None:
        if self.target is not None:
            check.finite("target", self.target)
        check.number("within", self.within, above=0.0, high=math.nextafter(1.0, 0.0))
        check.finite("factor", self.factor, above=1.0)

    def judge(self, errors: ArrayLike, rounds: Sequence[Any] | None = None, *, optimum: float | None = None) -> Outcome:
        """Return the outcome of a run with these errors.

        Parameters
        ----------
        errors : array, shape (n,)
            The errors in order of rounds; NaN before the last row means that the round was not measured.
        rounds : sequence of int, shape (n,), optional
            The rounds of the errors; by default 1 to n.
        optimum : float, optional
            The least error possible, if it is known.
        """
        values = np.asarray(errors, dtype=np.float64)
        if not len(values):
            return Outcome(ENDED)
        at = [int(each) for each in rounds] if rounds is not None else list(range(1, len(values) + 1))
        known = np.flatnonzero(~np.isnan(values))
        dead = self.dead(values)
        if dead[-1]:
            alive = np.flatnonzero(~dead)
            return Outcome(DIVERGED, at[int(alive[-1]) + 1 if len(alive) else 0])
        values = values[known]
        first, last = float(values[0]), float(values[-1])
        level = self.target
        if level is None and optimum is not None and first > optimum:
            level = optimum + self.within * (first - optimum)
        if level is not None and (there := settled(values, level)) is not None:
            return Outcome(CONVERGED, at[int(known[there])])
        half = float(values[len(values) // 2])
        return Outcome(UNFINISHED if last < half - self.within * abs(half) else STALLED)

    def dead(self, errors: ArrayLike) -> NDArray[np.bool_]:
        """Return, for each row, whether a run that ended there would have diverged.

        Parameters
        ----------
        errors : array, shape (n,)

        Notes
        -----
        An error may be measured every tenth round: an empty row between measured rows counts as the row before it. If
        the empty rows at the end are at least as many as the interval of measurements, they are dead, because one of
        them was measured as NaN.
        """
        values = np.asarray(errors, dtype=np.float64)
        empty = np.isnan(values)
        known = np.flatnonzero(~empty)
        if not len(known):
            return np.ones(len(values), dtype=bool)
        first = float(values[known[0]])
        bound = self.factor * first if first > 0.0 else math.inf
        with np.errstate(invalid="ignore"):
            found = np.isinf(values) | (values > bound)
        # With a measurement every k rounds, the run may end between two measurements.
        gaps = np.diff(known)
        apart = int(gaps.max()) if len(gaps) else 1
        tail = len(values) - 1 - int(known[-1])
        latest = np.maximum.accumulate(np.where(empty, -1, np.arange(len(values))))
        found = np.where(latest >= 0, found[np.maximum(latest, 0)], False)
        if tail >= max(apart, 1):
            found[int(known[-1]) + 1 :] = True
        return np.asarray(found, dtype=bool)


def outgrown(error: AgentError) -> Outcome | None:
    """Return the outcome of a run whose model outgrew its coder: diverged in its last round; None for another error."""
    # A coder raises this error for a vector that it cannot encode.
    if not (isinstance(error.__cause__, BadInput) and str(error.__cause__).startswith("vector")):
        return None
    run = getattr(error, "run", None)
    rounds = [] if run is None or "round" not in run.rounds else run.rounds["round"].tolist()
    return Outcome(DIVERGED, int(rounds[-1]) if rounds else None, one_line(error))


@dataclass
class Trial:
    """A run that may diverge.

    ``how`` is the outcome and ``error`` the error if a model outgrew its coder; else both are None.
    """

    how: Outcome | None = None
    error: AgentError | None = None


@contextmanager
def may_diverge() -> Iterator[Trial]:
    """Let a run diverge, because that is a result; an AgentError with another cause is raised again."""
    trial = Trial()
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield trial
    except AgentError as error:
        trial.how, trial.error = outgrown(error), error
        if trial.how is None:
            raise


def error_of(names: Iterable[str]) -> str | None:
    """Return the first of `netsim.studies.columns.ERRORS` in a run's columns, which decides its outcome."""
    there = set(map(str, names))
    return next((each for each in columns.ERRORS if each in there), None)


def worst_of_dead(frame: "pd.DataFrame", column: str) -> "tuple[pd.DataFrame, NDArray[np.bool_]]":
    """Return the measured rows of a column, with its worst value for dead runs, and which of these rows survived.

    A run is dead if its ``outcome`` is in `DEAD`, or if its value is ∞. Columns of costs, and columns of booleans, keep
    a dead run's value. A run that survived without a value was not measured, so its row is omitted.

    Parameters
    ----------
    frame : DataFrame
        A row for each run.
    column : str
        The measure.
    """
    counted, died = with_worst_of(frame, column)
    kept = counted[column].notna().to_numpy()
    return counted[kept], ~died[kept]


def with_worst_of(frame: "pd.DataFrame", column: str) -> "tuple[pd.DataFrame, NDArray[np.bool_]]":
    """Return all rows of a table, with values replaced as in `worst_of_dead`, and which of the rows are dead."""
    values = frame[column].to_numpy(dtype=np.float64)
    endless = np.isinf(values)
    died = endless | frame[COLUMN].isin(DEAD).to_numpy() if COLUMN in frame else endless
    kept = (columns.counts(column) or frame[column].dtype == bool) & np.isfinite(values)
    return frame.assign(**{column: np.where(died & ~kept, columns.worst(column), values)}), died


def with_worst(frame: "pd.DataFrame", names: Iterable[str]) -> "pd.DataFrame":
    """Return a table of runs or rounds in which dead runs have the worst value of some columns.

    Columns that count costs, and columns that are not numbers, keep their values.
    """
    if COLUMN not in frame:
        return frame
    died = frame[COLUMN].isin(DEAD)
    chosen = [name for name in names if name in frame and frame[name].dtype.kind in "fiu" and not columns.counts(name)]
    if not died.any() or not chosen:
        return frame
    return frame.assign(**{name: frame[name].astype(float).mask(died, columns.worst(name)) for name in chosen})


def share_text(survived: int, count: int) -> str:
    """Return the share of surviving runs as tables show it, "(2/6)"; "" if all survived."""
    return "" if survived == count else f"({survived}/{count})"
