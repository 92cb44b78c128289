"""A paper's claim and its verdict: numbers are judged by prediction intervals of further runs, statements by bounds."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from netsim.errors import BadInput
from netsim.scenarios.papers.work import Runs, Work
from netsim.scenarios.published import published
from netsim.studies.results import confidence
from netsim.util import check

Measure = Callable[[Runs], "pd.Series[float]"]
"""A function that returns a number for each seed from the runs of a work."""

Reader = Callable[[Runs], "pd.DataFrame | pd.Series[float]"]
"""A function that returns the values to judge from the runs of a work: a row for each seed, a column for each cell."""

AGREES, DIFFERS, OPEN, NO_DATA, VOID = "agrees", "differs", "undecided", "no data", "void"

IN_PART, CAUSE_SHOWN, EXCLUDED = "agrees in part", "differs, cause shown", "differs, causes excluded"

OUTCOMES = (AGREES, IN_PART, CAUSE_SHOWN, EXCLUDED, OPEN, VOID, NO_DATA)
"""Every claim has one of these outcomes."""

PREPARED = (
    "The tables are prepared so that the numbers of samples match the printed ones "
    "([how](scenarios.md#what-the-papers-tables-were-made-with)), and the step sizes are the study's own. The text "
    "states neither; agreeing numbers do not show that the author used these settings."
)
"""The note on chapters 3 and 4 of the dissertation."""

LEARNED = 0.9
"""A model counts as having learned if its error is at most this share of the best constant answer's error."""

_SHARE = 0.95
NEAR = 0.1
"""A printed number is near ours if the median over our seeds differs from it by at most this share."""

_WIDEST = 0.5
"""An interval decides nothing if its half-width exceeds this share of the published number."""


@dataclass(frozen=True)
class Cell:
    """A printed number, with half a unit of its last digit, or the bounds within which a statement is true."""

    label: str
    published: float | None = None
    digit: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    @staticmethod
    def printed(labels: Iterable[str], values: Iterable[float], digit: float) -> "tuple[Cell, ...]":
        """Return a cell for each printed number."""
        return tuple(Cell(label, float(value), digit) for label, value in zip(labels, values, strict=True))


@dataclass(frozen=True)
class Try:
    """Another setting (a work) in which a claim is judged, to find out why it does not hold.

    ``read`` and ``of`` default to the claim's.
    """

    label: str
    work: str
    read: Reader | None = None
    of: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A paper's result, and how the corresponding result of netsim is read."""

    where: str
    what: str
    work: str
    """The name of the work whose runs are judged."""
    read: Reader
    cells: tuple[Cell, ...]
    """The claim's numbers, or its one statement."""
    criterion: str = ""
    """For a statement: what is measured, and the reason for the bounds."""
    tries: tuple[Try, ...] = ()
    open: str = ""
    """Details that the paper does not state, but that may matter."""
    of: tuple[str, ...] = ()
    """The algorithms that the claim is about; by default all algorithms of the work."""
    learning: bool = True
    """Whether the claim is void if none of these algorithms learns; False if the claim does not depend on learning."""

    @property
    def title(self) -> str:
        """The claim's place in the paper, and its content."""
        return f"{self.where}, {self.what}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Paper:
    """A paper with its claims, the works that judge them, the parts that are not judged, and the settings."""

    name: str
    title: str
    works: tuple[Work, ...]
    claims: tuple[Claim, ...]
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """The verdict on a cell, with the values by seed and a 95 % interval.

    For a number it is the prediction interval of a further run; for a statement, the interval of the mean.
    """

    cell: Cell
    values: tuple[float, ...]
    low: float
    high: float
    verdict: str

    @property
    def mean(self) -> float:
        """Mean over the seeds; NaN if a run has no value."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def median(self) -> float:
        """Median over the seeds; NaN if a run has no value."""
        return float(np.median(self.values)) if self.values else math.nan

    @property
    def near(self) -> bool:
        """Whether the median over the seeds is within 10 % of the published number, apart from its rounding."""
        theirs = self.cell.published
        return theirs is not None and abs(self.median - theirs) <= NEAR * abs(theirs) + self.cell.digit

    @property
    def off(self) -> float:
        """The relative difference from the published number; NaN for a statement."""
        theirs = self.cell.published
        return (self.mean - theirs) / abs(theirs) if theirs else math.nan


@dataclass(frozen=True)
class Judged:
    """The verdict on a claim, or the reason why there is none, and the results of other settings."""

    claim: Claim
    found: tuple[Found, ...]
    missing: str = ""
    tried: Mapping[str, "Judged"] = field(default_factory=dict)
    over_constant: float = math.nan
    """Our best error as a multiple of the best constant answer's; NaN if the claim is not about learning."""

    @property
    def void(self) -> bool:
        """Whether netsim's run does not learn, so that agreement or difference says nothing about the method."""
        return self.over_constant > LEARNED

    @property
    def agreeing(self) -> int:
        """The number of agreeing cells; 0 if void."""
        return 0 if self.void else sum(one.verdict == AGREES for one in self.found)

    @property
    def verdict(self) -> str:
        """The verdict as text, or the number of agreeing cells if only some agree."""
        if not self.found:
            return NO_DATA
        if self.void:
            return VOID
        if self.agreeing:
            return AGREES if self.agreeing == len(self.found) else f"{self.agreeing} of {len(self.found)} agree"
        return DIFFERS if any(one.verdict == DIFFERS for one in self.found) else OPEN

    @property
    def causes(self) -> list[str]:
        """The changes of settings with which all cells agree; empty if the claim agrees without a change."""
        return [label for label, each in self.tried.items() if each.verdict == AGREES]

    @property
    def outcome(self) -> str:
        """The claim's value of `OUTCOMES`."""
        if self.verdict in (AGREES, VOID, NO_DATA):
            return self.verdict
        if self.causes:
            return CAUSE_SHOWN
        if self.agreeing:
            return IN_PART
        return EXCLUDED if self.verdict == DIFFERS else OPEN

    @property
    def near(self) -> int:
        """The number of printed numbers that are within 10 % of our median."""
        return sum(one.near for one in self.found)


def judge(cell: Cell, values: Sequence[float]) -> Found:
    """Judge a cell by the measured values, one for each seed.

    A published number counts as a further run of the same setting: it agrees if it lies, up to its rounding, in the
    95 % prediction interval of Student's t. A statement holds if the whole 95 % interval of the mean (Student's t) lies
    within its bounds, and fails if the whole interval lies outside.
    """
    from scipy import stats

    numbers = np.asarray(values, dtype=np.float64)
    count, low, high, theirs = len(numbers), math.nan, math.nan, cell.published
    if count < 2:
        verdict = OPEN
    elif not np.isfinite(numbers).all():
        verdict = DIFFERS
    elif theirs is None:
        low, high = confidence(numbers, share=_SHARE)
        inside, outside = cell.low <= low and high <= cell.high, high < cell.low or cell.high < low
        verdict = AGREES if inside else DIFFERS if outside else OPEN
    else:
        spread = float(numbers.std(ddof=1)) * math.sqrt(1.0 + 1.0 / count)
        half = float(stats.t.ppf((1.0 + _SHARE) / 2.0, count - 1)) * spread
        mean = float(numbers.mean())
        low, high = mean - half, mean + half
        verdict = AGREES if abs(mean - theirs) <= half + cell.digit else DIFFERS
        if verdict == AGREES and half > _WIDEST * abs(theirs) + cell.digit:
            verdict = OPEN
    return Found(cell, tuple(numbers.tolist()), low, high, verdict)


def judged(claim: Claim, runs: Mapping[str, Runs]) -> Judged:
    """Judge a claim by the runs of works, keyed by name; raises BadInput if they lack a necessary column or table."""
    mine = runs[claim.work]
    if mine.missing:
        return Judged(claim, (), mine.missing)
    found = _judged(claim, mine)
    if found.verdict == AGREES:
        return found
    there = {each.label: (each, runs[each.work]) for each in claim.tries if not runs[each.work].missing}
    return replace(
        found,
        tried={
            label: _judged(replace(claim, read=each.read or claim.read, of=each.of or claim.of), other)
            for label, (each, other) in there.items()
        },
    )


def _judged(claim: Claim, runs: Runs) -> Judged:
    table = claim.read(runs)
    if isinstance(table, pd.Series):
        table = table.to_frame(claim.cells[0].label)
    for cell in claim.cells:
        if cell.label not in table:
            raise BadInput(f"{runs.folder}: must have results for {cell.label!r} of {claim.where}, {claim.what}")
    cells = tuple(judge(cell, table[cell.label].to_list()) for cell in claim.cells)
    return Judged(claim, cells, over_constant=runs.over_constant(claim.of) if claim.learning else math.nan)


def why(each: Judged) -> str:
    """Return the reason why a claim does not hold, according to runs in other settings; "" if it holds.

    Only a change with which all cells agree is called a cause.
    """
    if each.verdict in (AGREES, NO_DATA):
        return ""
    reasons = []
    if each.void:
        reasons.append(f"Ours does not learn: its error is {each.over_constant:.3g} times a constant answer's.")
    if each.causes:
        reasons.append(f"Cause shown: it agrees with {' or '.join(each.causes)}.")
        return " ".join(reasons)
    most = max((other.agreeing for other in each.tried.values()), default=0)
    better = [label for label, other in each.tried.items() if other.agreeing == most > each.agreeing]
    hollow = [label for label, other in each.tried.items() if other.void]
    excluded = [label for label in each.tried if label not in (*better, *hollow)]
    if better:
        reasons.append(f"More of it agrees ({most} of {len(each.found)}) with {' or '.join(better)}.")
    if excluded:
        reasons.append(f"Excluded: {'; '.join(excluded)}.")
    if hollow and not each.void:
        reasons.append(f"Inconclusive, because nothing is learned: {'; '.join(hollow)}.")
    if not each.tried and not each.void:
        apart = all(one.verdict in (AGREES, OPEN) for one in each.found)
        reasons.append("Our seeds vary too much for a verdict." if apart else "No other setting was run.")
    return " ".join(reasons)


def attempt(each: Judged) -> str:
    """Return a short text with a claim's verdict in its present setting."""
    if each.found[0].cell.published is None:
        return f"{each.found[0].mean:.3g}, {'does not learn' if each.void else each.verdict}"
    if each.void:
        return "does not learn"
    return f"{each.agreeing} of {len(each.found)} agree, {each.near} within 10 %, {typical(each.found)} off"


def typical(cells: Sequence[Found]) -> str:
    """Return the median relative difference from the printed numbers, as a percentage."""
    offs = [abs(one.off) for one in cells if math.isfinite(one.off)]
    if not offs:
        return "–"
    percent = 100.0 * float(np.median(offs))
    return f"{percent:.0f} %" if percent >= 9.5 else f"{percent:.2g} %"


def printed(table: str, value: str, **where: object) -> pd.DataFrame:
    """Return the rows of a published table that meet the conditions and have a value; raises BadInput without any."""
    try:
        frame = published(table)
    except FileNotFoundError:
        raise BadInput(
            f"published table {table!r}: must be {table}.csv among the published tables; it is not there"
        ) from None
    for name in (value, *where):
        check.one_of("column", name, [str(each) for each in frame.columns])
    for name, wanted in where.items():
        frame = frame[frame[name] == wanted]
    return frame.dropna(subset=[value])
