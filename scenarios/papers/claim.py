"""A claim of a paper, and how it is judged: numbers by where a further run of ours would fall, others by bounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import BadInput
from netsim.scenarios.papers.work import Runs, Work
from netsim.scenarios.published import published
from netsim.studies.results import confidence
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

Reader = Callable[[Runs], "pd.DataFrame"]
"""From the runs of a work to what was measured: a row for each seed, a column for each cell of a claim."""

AGREES, DIFFERS, OPEN, NO_DATA, VOID = "agrees", "differs", "undecided", "no data", "void"

IN_PART, CAUSE_SHOWN, EXCLUDED = "agrees in part", "differs, cause shown", "differs, causes excluded"

OUTCOMES = (AGREES, IN_PART, CAUSE_SHOWN, EXCLUDED, OPEN, VOID, NO_DATA)
"""What may become of a claim, each in one of these."""

PREPARED = (
    "The tables are prepared so that the printed numbers of samples come out "
    "([how](scenarios.md#what-the-papers-tables-were-made-with)), and the step sizes are the study's own. The text "
    "states neither; that numbers agree does not show that the author did so."
)
"""What is said of chapters 3 and 4 of the dissertation."""

LEARNED = 0.9
"""A model has learned something if its error is at most this share of the best constant answer's."""

_SHARE = 0.95
NEAR = 0.1
"""A printed number is near ours if the median of our seeds is off by at most this share of it."""

_WIDEST = 0.5
"""An interval whose half is wider than this share of the published number decides nothing."""


@dataclass(frozen=True)
class Cell:
    """A number that a paper prints, or the bounds within which a measure makes a statement true.

    Parameters
    ----------
    label : str
        Which one; the reader's column.
    published : float, optional
        What the paper prints.
    digit : float
        Half a unit of its last printed digit.
    low, high : float
        Of a statement: the bounds.
    """

    label: str
    published: float | None = None
    digit: float = 0.0
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Try:
    """Another setting in which a claim is read, to find out why it does not hold.

    Parameters
    ----------
    label : str
        What is changed.
    work : str
        Name of the work.
    read : callable, optional
        How it is read there, if not as the claim is.
    of : tuple of str
        The algorithms that it is about there, if not those of the claim.
    """

    label: str
    work: str
    read: "Reader | None" = None
    of: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a paper reports, and how ours is read.

    Parameters
    ----------
    where : str
        The paper's table, figure or section.
    what : str
        What it reports.
    work : str
        Name of the work whose runs say what we get.
    read : callable
        How.
    cells : tuple of Cell
        Numbers, or one statement.
    criterion : str
        Of a statement: what is measured, and why the bounds are what they are.
    tries : tuple of Try
        Other settings.
    open : str
        What the paper leaves unsaid that may matter.
    of : tuple of str
        The algorithms that it is about; by default all of the work.
    learning : bool
        Whether it is void where none of these learns: not if it is about what learning does not change.
    """

    where: str
    what: str
    work: str
    read: Reader
    cells: tuple[Cell, ...]
    criterion: str = ""
    tries: tuple[Try, ...] = ()
    open: str = ""
    of: tuple[str, ...] = ()
    learning: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Paper:
    """A paper, what it reports, and the works that are needed to judge it.

    Parameters
    ----------
    name : str
        How ``--only`` calls it.
    title : str
        Authors, title, year.
    works : tuple of Work
    claims : tuple of Claim
    left_out : tuple of str
        What of it is not judged, and why.
    notes : tuple of str
        How its numbers are read, and under which settings.
    """

    name: str
    title: str
    works: tuple[Work, ...]
    claims: tuple[Claim, ...]
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """What became of a cell.

    Attributes
    ----------
    cell : Cell
    values : tuple of float
        Ours, by seed; NaN where a run has none.
    low, high : float
        Of a number: where a further run of ours would fall (95 %). Of a statement: the mean's interval (95 %).
    verdict : str
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
        """Whether the median over the seeds is within 10 % of the published number, rounding of the print aside."""
        theirs = self.cell.published
        return theirs is not None and abs(self.median - theirs) <= NEAR * abs(theirs) + self.cell.digit

    @property
    def off(self) -> float:
        """Return by what share of the published number ours is off; NaN of a statement."""
        theirs = self.cell.published
        return (self.mean - theirs) / abs(theirs) if theirs else math.nan


@dataclass(frozen=True)
class Judged:
    """What became of a claim.

    Attributes
    ----------
    claim : Claim
    found : tuple of Found
    missing : str
        Why nothing was found, if nothing was.
    tried : mapping
        What became of it in other settings, by what was changed.
    over_constant : float
        The best error of ours as a multiple of the best constant answer's; NaN if it is not a claim about learning.
    """

    claim: Claim
    found: tuple[Found, ...]
    missing: str = ""
    tried: Mapping[str, "Judged"] = field(default_factory=dict)
    over_constant: float = math.nan

    @property
    def void(self) -> bool:
        """Whether ours does not learn: then neither agreement nor difference says anything of the method."""
        return self.over_constant > LEARNED

    @property
    def agreeing(self) -> int:
        """How many cells agree; none does of what is void."""
        return 0 if self.void else sum(one.verdict == AGREES for one in self.found)

    @property
    def verdict(self) -> str:
        """One word, or how many cells agree, if some do."""
        if not self.found:
            return NO_DATA
        if self.void:
            return VOID
        if self.agreeing:
            return AGREES if self.agreeing == len(self.found) else f"{self.agreeing} of {len(self.found)} agree"
        return DIFFERS if any(one.verdict == DIFFERS for one in self.found) else OPEN

    @property
    def causes(self) -> list[str]:
        """The changes with which all of it agrees; of what agrees as it is, none."""
        return [label for label, each in self.tried.items() if each.verdict == AGREES]

    @property
    def outcome(self) -> str:
        """Which of `OUTCOMES` it is."""
        if self.verdict in (AGREES, VOID, NO_DATA):
            return self.verdict
        if self.causes:
            return CAUSE_SHOWN
        if self.agreeing:
            return IN_PART
        return EXCLUDED if self.verdict == DIFFERS else OPEN

    @property
    def near(self) -> int:
        """How many printed numbers are within 10 % of our median."""
        return sum(one.near for one in self.found)


def judge(cell: Cell, values: Sequence[float]) -> Found:
    """Judge a cell by ours, one of each seed.

    A published number is one run more, if it is of the same setting: it agrees if it lies where, by Student's t, 95 %
    of further runs of ours would, rounding of the print aside. A statement holds if the whole 95 % interval of our
    mean, by Student's t too, lies within its bounds, and not if it lies wholly without.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return Found(cell, tuple(numbers.tolist()), math.nan, math.nan, DIFFERS if len(numbers) > 1 else OPEN)
    if cell.published is None:
        low, high = confidence(numbers, share=_SHARE)
        inside, outside = cell.low <= low and high <= cell.high, high < cell.low or cell.high < low
        return Found(cell, tuple(numbers.tolist()), low, high, AGREES if inside else DIFFERS if outside else OPEN)
    half = _further(numbers)
    mean = float(numbers.mean())
    verdict = AGREES if abs(mean - cell.published) <= half + cell.digit else DIFFERS
    if verdict == AGREES and half > _WIDEST * abs(cell.published) + cell.digit:
        verdict = OPEN
    return Found(cell, tuple(numbers.tolist()), mean - half, mean + half, verdict)


def _further(numbers: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    """Return how far from the mean of some runs 95 % of further runs lie at most, by Student's t."""
    from scipy import stats

    count = len(numbers)
    spread = float(numbers.std(ddof=1)) * math.sqrt(1.0 + 1.0 / count)
    return float(stats.t.ppf((1.0 + _SHARE) / 2.0, count - 1)) * spread


def judged(claim: Claim, runs: Mapping[str, Runs]) -> Judged:
    """Judge a claim by the runs of the works, by name.

    Raises
    ------
    BadInput
        If results lack a column or a table that the claim is read from.
    """
    mine = runs[claim.work]
    if mine.missing:
        return Judged(claim, (), mine.missing)
    found = _judged(claim, mine)
    if found.verdict == AGREES:
        return found
    others = {
        each.label: (replace(claim, read=each.read or claim.read, of=each.of or claim.of), runs[each.work])
        for each in claim.tries
    }
    return replace(found, tried={label: _judged(*one) for label, one in others.items() if not one[1].missing})


def _judged(claim: Claim, runs: Runs) -> Judged:
    table = claim.read(runs)
    for cell in claim.cells:
        if cell.label not in table:
            raise BadInput(f"{runs.folder}: must have results for {cell.label!r} of {claim.where}, {claim.what}")
    cells = tuple(judge(cell, table[cell.label].to_list()) for cell in claim.cells)
    return Judged(claim, cells, over_constant=runs.over_constant(claim.of) if claim.learning else math.nan)


def why(each: Judged) -> str:
    """Return why a claim does not hold, as far as runs in other settings tell; empty if it does hold.

    Nothing is called a cause but a change with which all of it agrees.
    """
    if each.verdict in (AGREES, NO_DATA):
        return ""
    said = []
    if each.void:
        said.append(f"Ours does not learn: its error is {each.over_constant:.3g} times a constant answer's.")
    if each.causes:
        said.append(f"Cause shown: it agrees with {' or '.join(each.causes)}.")
        return " ".join(said)
    most = max((other.agreeing for other in each.tried.values()), default=0)
    better = [label for label, other in each.tried.items() if other.agreeing == most > each.agreeing]
    hollow = [label for label, other in each.tried.items() if other.void]
    excluded = [label for label in each.tried if label not in (*better, *hollow)]
    if better:
        said.append(f"More of it agrees ({most} of {len(each.found)}) with {' or '.join(better)}.")
    if excluded:
        said.append(f"Excluded: {'; '.join(excluded)}.")
    if hollow and not each.void:
        said.append(f"Tells nothing, for nothing is learned: {'; '.join(hollow)}.")
    if not each.tried and not each.void:
        apart = all(one.verdict in (AGREES, OPEN) for one in each.found)
        said.append("Our seeds lie too far apart to tell." if apart else "No other setting was run.")
    return " ".join(said)


def attempt(each: Judged) -> str:
    """Return in a few words what became of a claim in one setting."""
    if each.found[0].cell.published is None:
        return f"{each.found[0].mean:.3g}, {'does not learn' if each.void else each.verdict}"
    if each.void:
        return "does not learn"
    return f"{each.agreeing} of {len(each.found)} agree, {each.near} within 10 %, {typical(each.found)} off"


def typical(cells: Sequence[Found]) -> str:
    """Return the median of how far numbers are off, as a percentage."""
    offs = [abs(one.off) for one in cells if math.isfinite(one.off)]
    if not offs:
        return "–"
    percent = 100.0 * float(np.median(offs))
    return f"{percent:.0f} %" if percent >= 9.5 else f"{percent:.2g} %"


def printed(table: str, value: str, **where: object) -> "pd.DataFrame":
    """Return the rows of a published table that meet conditions, by column, and have a value.

    Raises
    ------
    BadInput
        If there is no such table or column.
    """
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
