"""Differences in pairs: two algorithms, or two values of a setting, seed by seed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from netsim.studies.columns import groups_of
from netsim.studies.intervals import (
    ALGORITHM,
    SHARE,
    check_numbers,
    check_pools,
    confidence,
    fewest,
    kind_text,
    settings_of,
    sizes_text,
    statistic,
)
from netsim.studies.outcome import with_worst_of
from netsim.studies.seeds import over_text
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

TESTS: Mapping[str, str] = {
    "t": "Student's t",
    "wilcoxon": "Wilcoxon's signed ranks",
    "ratio": "Student's t of the logarithms",
}
"""The tests of differences, which give their intervals, too."""

_LEVEL = 0.05  # level below which a p is called significant
_ROUNDING = 1e-12  # differences closer than this relative amount count as equal


def paired(
    frame: "pd.DataFrame",
    value: str,
    reference: Any,
    *,
    within: str = ALGORITHM,
    by: Sequence[str] | None = None,
    over: str = "seed",
    test: str = "t",
    share: float = SHARE,
) -> "pd.DataFrame":
    """Return the differences of a measure from a reference's, in pairs of runs that differ in one setting only.

    Both runs of a pair have the same seed and the same other settings, so that effects of the seed cancel.

    Parameters
    ----------
    frame : DataFrame
        A table from `load` or `compare`; the columns before ``algorithm`` are settings.
    value : str
        The measure's column.
    reference : object
        The algorithm, or the value of ``within``, from which the differences are taken.
    within : str
        The column in which the two runs of a pair differ: "algorithm", or a setting.
    by : sequence of str, optional
        The other settings; each combination of their values has separate differences. Default: all settings with
        several values, and the algorithm.
    over : str
        The seed by which runs are paired, as for `interval`.
    test : {"t", "wilcoxon", "ratio"}
        "t" is Student's t: its interval is for the mean difference, and exact if the differences are normal. "wilcoxon"
        is Wilcoxon's signed-rank test: its interval is for the pseudomedian (the median of the means of any two
        differences), valid for every symmetric distribution; at 95 % it needs six pairs. "ratio", for errors and costs
        above 0, is Student's t of the logarithms: its interval is for the geometric mean of value / reference.
    share : float
        The coverage of the interval, in (0, 1).

    Returns
    -------
    DataFrame
        The columns of ``by`` and ``within``; ``count``, the number of pairs; ``missing``, the number of seeds without a
        pair, because one of the two runs was not measured; ``survived``, the number of pairs of which both runs
        survived; ``difference``, the mean (pseudomedian) of value − reference, or ``ratio``; ``low`` and ``high``, its
        interval; ``p``, two-sided, for no difference; ``p_holm``, p after Holm's correction for all rows. If rows with
        ``p_holm`` below 0.05 are called different, the risk that any of them is so by chance is 5 %. The text
        ``attrs["interval"]`` describes the interval and the test.

    Raises
    ------
    BadInput
        For an unknown column, reference or test, settings that differ within pairs, a duplicate seed, or a ratio of
        numbers that are not above 0.

    Notes
    -----
    A run that diverged or failed has the worst value (`netsim.studies.outcome`). With signed ranks its difference is
    infinite and has the largest rank; two dead runs are a tie. Student's t gives no interval and no p if differences
    are not finite. Equal differences have no spread to estimate: their p is that of the sign test, 2^(1−n), and they
    have no interval.
    """
    import pandas as pd

    check.one_of("test", test, TESTS)
    fewest("mean", share)
    names = [str(each) for each in frame.columns]
    for name in (value, within, *(by or ())):
        check.one_of("column", name, names)
    check_numbers(frame, value)
    if over not in names:
        raise check.refuse("over", over, "a seed that has several values in the table")
    # Compare settings by repr: None is a value of a setting, but pandas would treat it as missing.
    label, labels = "label", frame[within].map(repr)
    known = dict(zip(labels, frame[within], strict=True))
    own = next((each for each, found in known.items() if found == reference or each == repr(reference)), None)
    if own is None:
        allowed = f"one of {', '.join(map(str, known.values()))}, the values of {within}"
        raise check.refuse("reference", reference, allowed)
    keys = settings_of(frame, over) if by is None else list(by)
    keys = [name for name in keys if name not in (within, over)]
    check_pools(frame, [*keys, within], over)
    same: list[bytes | None] = []
    counted, died = with_worst_of(frame, value)
    rows, labelled = [], counted.assign(**{label: labels}).assign(**{_DEAD: died})
    if test == "ratio" and (labelled[value] <= 0.0).any():
        least = f"{value} = {labelled[value].min():g}"
        raise check.refuse("test", test, f"t or wilcoxon where a value is not above 0, as {least}")
    for key, part in groups_of(labelled, keys):
        table = part.pivot(index=over, columns=label, values=value)
        dead = part.pivot(index=over, columns=label, values=_DEAD)
        about = dict(zip(keys, key, strict=True))
        for each in [other for other in part[label].unique() if other != own]:
            same.append(_runs_of(table[each], table.get(own)))
            rows.append(about | {within: known[each]} | _row(table, dead, each, own, test, share))
    result = pd.DataFrame(rows, columns=[*keys, within, *_COLUMNS])
    result = result.rename(columns={"difference": "ratio"}) if test == "ratio" else result
    result["p_holm"], compared = _holm_once(result["p"].to_numpy(dtype=np.float64), same)
    shown = f"{reference:g}" if isinstance(reference, float) else str(reference)
    named = shown if within == ALGORITHM else f"{within} = {shown}"
    result.attrs["interval"] = paired_text(result, named, over=over, test=test, share=share, compared=compared)
    return result


_COLUMNS = ("count", "missing", "survived", "difference", "low", "high", "p")
_DEAD = "run died"


def _row(
    table: "pd.DataFrame", dead: "pd.DataFrame", name: str, reference: str, test: str, share: float
) -> dict[str, Any]:
    """Return the counts of pairs, the difference, its interval and p for two columns of a table by seed."""
    if reference not in table:
        return {"count": 0, "missing": len(table), "survived": 0} | dict.fromkeys(_COLUMNS[3:], math.nan)
    both = table[[name, reference]].notna().all(axis=1)
    ours, theirs = table.loc[both, [name, reference]].to_numpy(dtype=np.float64).T
    alive = ~dead.loc[both, [name, reference]].astype(bool).any(axis=1)
    if test == "ratio":
        ours, theirs = np.log(ours), np.log(theirs)
    with np.errstate(invalid="ignore"):
        # Two dead runs are a tie: their difference is 0, not ∞ − ∞.
        apart = np.where(ours == theirs, 0.0, ours - theirs)
    whole = bool(np.isfinite(ours).all() and np.isfinite(theirs).all())
    if test == "wilcoxon":
        middle, (low, high) = pseudomedian(apart), signed_rank_interval(apart, share=share)
    else:
        middle = statistic(apart) if whole else _endless(apart)
        low, high = confidence(apart, share=share) if whole and not _constant(apart) else (math.nan, math.nan)
    ends = [float(np.exp(each)) if test == "ratio" else each for each in (middle, low, high)]
    p = p_value(apart, test=test) if whole or test == "wilcoxon" else math.nan
    counts = len(apart), len(both) - len(apart), int(alive.sum())
    return dict(zip(_COLUMNS, (*counts, *ends, p), strict=True))


def _endless(apart: NDArray[np.float64]) -> float:
    """Return the mean of differences, some of them infinite or NaN: ±∞ if the infinite ones agree, else NaN."""
    signs = set(np.sign(apart[np.isinf(apart)]).tolist())
    return signs.pop() * math.inf if len(signs) == 1 else math.nan


def _constant(apart: NDArray[np.float64]) -> bool:
    """Return whether differences are nonzero, and equal up to rounding."""
    largest = float(np.abs(apart).max()) if len(apart) > 1 else 0.0
    return bool(0.0 < largest < math.inf and np.ptp(apart) <= _ROUNDING * largest)


def least_p(count: int, test: str) -> float:
    """Return the least possible p of a test with ``count`` pairs: 2^(1−n) for signed ranks, 0 for Student's t."""
    if test == "wilcoxon":
        return 2.0 ** (1 - count) if count else math.nan
    return 0.0 if count > 1 else math.nan


def paired_text(table: "pd.DataFrame", reference: str, *, over: str, test: str, share: float, compared: int) -> str:
    """Return a caption for a table of `paired`: interval, pairs, correction, and whether significance is possible.

    ``compared`` is the number of distinct comparisons, because rows may compare the same runs.
    """
    of = {"t": "mean difference", "wilcoxon": "pseudomedian difference", "ratio": "geometric mean ratio"}[test]
    needed = fewest("median" if test == "wilcoxon" else "mean", share)
    interval = kind_text(table["count"], of, TESTS[test], needed, share, " pairs")
    corrected = f"p two-sided, p_holm corrected for {compared} comparison{'s' if compared != 1 else ''} (Holm)"
    what = "ratio to" if test == "ratio" else "difference from"
    parts = [f"{what} {reference}, {over_text(over)} by {over_text(over)}", interval, corrected]
    return "; ".join([*parts, *_doubts(table, test, compared)])


def _doubts(table: "pd.DataFrame", test: str, compared: int) -> Iterator[str]:
    """Yield a note if no difference of a table can be significant, and a note on dead runs without a p."""
    tested = table[table["p"].notna()]
    if len(tested):
        # The least corrected p is the smallest possible p times the number of comparisons.
        least = min(1.0, compared * min(least_p(int(count), test) for count in tested["count"]))
        if least >= _LEVEL:
            yield f"with {sizes_text(tested['count'])} no p_holm can be under {_LEVEL:g}: the least is {least:.3g}"
    if test != "wilcoxon" and (table["survived"] < table["count"]).any():
        yield "no p where a run died, whose difference is infinite: --test wilcoxon ranks it worst"


def _runs_of(values: "pd.Series[float]", reference: "pd.Series[float] | None") -> bytes | None:
    """Return a comparison's values by seed as bytes, which identify its runs; None if other runs may have equal values.

    A setting that does not affect a run, such as the burst length without losses, gives values equal to the last bit.
    Integers may be equal by chance.
    """
    if reference is None:
        return None
    both = np.array([values.to_numpy(dtype=np.float64), reference.to_numpy(dtype=np.float64)])
    finite = both[np.isfinite(both)]
    return both.tobytes() if (finite != np.round(finite)).any() else None


def _holm_once(p: NDArray[np.float64], same: Sequence[bytes | None]) -> tuple[NDArray[np.float64], int]:
    """Return p values after Holm's correction that counts comparisons of the same runs once, and how many it counts."""
    firsts: dict[Any, int] = {}
    place = [firsts.setdefault(number if key is None else key, number) for number, key in enumerate(same)]
    once = np.full(len(p), math.nan)
    once[place] = p[place]
    return holm(once)[place], int(np.count_nonzero(~np.isnan(once)))


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Return Holm's corrected p values, which bound the risk of any false finding among them.

    NaN stays NaN, and is not counted as a test. Source: S. Holm, "A simple sequentially rejective multiple test
    procedure", Scandinavian Journal of Statistics 6:65-70, 1979.

    Parameters
    ----------
    p : array, shape (n,)
    """
    given = np.asarray(p, dtype=np.float64)
    for each in given[~np.isnan(given)]:
        check.probability("p", each)
    found = np.full(len(given), math.nan)
    there = np.flatnonzero(~np.isnan(given))
    order = there[np.argsort(given[there], kind="stable")]
    steps = np.arange(len(order), 0, -1) * given[order]
    found[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return found


def p_value(differences: ArrayLike, *, test: str = "t") -> float:
    """Return the two-sided p for no difference; NaN for fewer than two differences (wilcoxon: for none).

    Equal differences have no spread; their p is that of the sign test, 2^(1−n).

    Parameters
    ----------
    differences : array, shape (n,)
        The differences; for "ratio" the logarithms of ratios.
    test : {"t", "wilcoxon", "ratio"}
    """
    apart = np.asarray(differences, dtype=np.float64)
    count = len(apart)
    if test == "wilcoxon":
        from scipy.stats import wilcoxon

        if not np.any(apart):
            return 1.0 if count else math.nan
        return float(wilcoxon(apart).pvalue)
    if count < 2 or not np.isfinite(apart).all():
        return math.nan
    if _constant(apart):
        return float(2.0 ** (1 - count))
    with np.errstate(over="ignore", invalid="ignore"):
        mean, error = float(apart.mean()), float(apart.std(ddof=1)) / math.sqrt(count)
    if not error:
        return 1.0
    return float(2.0 * stdtr(count - 1, -abs(mean) / error))


def pseudomedian(differences: ArrayLike) -> float:
    """Return the median of the means of any two differences, including each with itself (Hodges and Lehmann 1963)."""
    means = _means_of_two(differences)
    return statistic(means, of="median")


def signed_rank_interval(differences: ArrayLike, *, share: float = SHARE) -> tuple[float, float]:
    """Return the interval for the pseudomedian: the shifts that Wilcoxon's exact test does not reject.

    Its ends are two of the sorted Walsh averages, the means of any two differences (Tukey). The ends are NaN if there
    are too few differences.

    Parameters
    ----------
    differences : array, shape (n,)
    share : float
        In (0, 1).
    """
    count = len(np.asarray(differences))
    if count < fewest("median", share):
        return math.nan, math.nan
    means = np.sort(_means_of_two(differences))
    # By sum of ranks, the share of the sign combinations that give it.
    ways = np.zeros(len(means) + 1)
    ways[0] = 1.0
    for rank in range(1, count + 1):
        ways[rank:] = (ways[rank:] + ways[:-rank]) / 2.0
        ways[:rank] /= 2.0
    outside = int(np.searchsorted(np.cumsum(ways), (1.0 - share) / 2.0 * (1.0 + 1e-12), side="right"))
    return float(means[outside - 1]), float(means[len(means) - outside])


def _means_of_two(differences: ArrayLike) -> NDArray[np.float64]:
    apart = np.asarray(differences, dtype=np.float64)
    first, second = np.triu_indices(len(apart))
    with np.errstate(invalid="ignore"):
        means = (apart[first] + apart[second]) / 2.0
    # A pair in which one method's run died, and a pair in which the other's died, average to 0.
    return np.where(np.isnan(means), 0.0, means)
