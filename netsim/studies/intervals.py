"""Means and medians over seeds, their intervals, and checks of which rows may be pooled."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, stdtrit

from netsim.errors import BadInput
from netsim.studies import columns
from netsim.studies.outcome import worst_of_dead
from netsim.studies.seeds import SEEDS, over_text
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

STATISTICS: Mapping[str, str] = {"mean": "Student's t", "median": "order statistics"}
"""The statistics of several seeds, and their intervals; the median does not follow a seed that diverged."""

_SURVIVED = "run survived"

ALGORITHM = "algorithm"
"""The column before which a table has settings, and after which it has measures."""

SHARE = 0.95
"""How often an interval holds what it is of, by default."""


def statistic(values: ArrayLike, *, of: str = "mean") -> float:
    """Return the mean or the median of the values that are not NaN; NaN if there are none.

    Parameters
    ----------
    values : array, shape (n,)
    of : {"mean", "median"}

    Raises
    ------
    BadInput
        For another statistic.
    """
    check.one_of("of", of, list(STATISTICS))
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[~np.isnan(numbers)]
    count = len(numbers)
    if not count:
        return math.nan
    if of == "median":
        numbers = np.sort(numbers)[(count - 1) // 2 : count // 2 + 1]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(numbers.mean())
    # The sum may overflow although the mean does not.
    return mean if math.isfinite(mean) or not np.isfinite(numbers).all() else float((numbers / len(numbers)).sum())


def confidence(values: ArrayLike, *, of: str = "mean", share: float = SHARE) -> tuple[float, float]:
    """Return the ends of an interval that contains the true mean (median) in ``share`` of all repetitions.

    For the mean it is Student's t interval, mean ± t s/√n, which is exact at any n > 1 if the values are normal. If
    they are skewed, it covers the mean too seldom (88 % instead of 95 % for five exponential values), but at any n more
    often than a percentile bootstrap (80 %). For the median it lies between two order statistics, and covers ``share``
    or more for every distribution. The mean of booleans is a share, with the interval of `proportion`, because
    Student's t would have no width if all values are equal.

    Parameters
    ----------
    values : array, shape (n,)
        One value per repetition, independent of each other; numbers or booleans.
    of : {"mean", "median"}
        The statistic that the interval is for.
    share : float
        In (0, 1).

    Returns
    -------
    low, high : float
        The ends of the interval; NaN if there are too few values: one for a mean, fewer than six for a median at 95 %.

    Raises
    ------
    BadInput
        For another statistic, or a share outside its range.
    """
    numbers = np.sort(np.asarray(values, dtype=np.float64))
    count, least = len(numbers), fewest(of, share)
    if count and is_share(values, of):
        return proportion(int(numbers.sum()), count, share)
    if count < least:
        return math.nan, math.nan
    if of == "median":
        from scipy.stats import binom

        # Fewer than this many values lie below the median with a probability below (1 - share) / 2; likewise above.
        outside = max(1, int(binom.ppf((1.0 - share) / 2.0, count, 0.5)))
        return float(numbers[outside - 1]), float(numbers[count - outside])
    with np.errstate(over="ignore", invalid="ignore"):
        reach = stdtrit(count - 1, (1.0 + share) / 2.0) * numbers.std(ddof=1) / math.sqrt(count)
        mean = statistic(numbers)
        return float(mean - reach), float(mean + reach)


def is_share(values: ArrayLike, of: str) -> bool:
    """Return whether the statistic is a share of cases, as the mean of booleans is."""
    return of == "mean" and np.asarray(values).dtype == bool


def proportion(hits: int, count: int, share: float = SHARE) -> tuple[float, float]:
    """Return Clopper and Pearson's interval for the probability of a hit, given ``hits`` in ``count`` trials.

    Source: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26:404-413, 1934.
    """
    low = float(betaincinv(hits, count - hits + 1, (1 - share) / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, (1 + share) / 2)) if hits < count else 1.0
    return low, high


def fewest(of: str, share: float) -> int:
    """Return the least number of values for an interval.

    With fewer values, all of them lie too often on one side of the median. Raises BadInput for another statistic, or a
    share outside its range.
    """
    check.one_of("of", of, list(STATISTICS))
    check.number("share", share, above=0.0, high=math.nextafter(1.0, 0.0))
    return 2 if of == "mean" else math.ceil(1.0 - math.log2(1.0 - share) - check.ROUNDING)


def interval_text(counts: Iterable[int], *, of: str = "mean", share: float = SHARE) -> str:
    """Return as text the kind of interval that `confidence` gives for groups of values, with their sizes.

    Parameters
    ----------
    counts : iterable of int
        The numbers n of values per group; may be empty.
    of, share
        As for `confidence`.
    """
    return kind_text(counts, of, STATISTICS[of], fewest(of, share), share)


def kind_text(counts: Iterable[int], of: str, method: str, least: int, share: float, unit: str = "") -> str:
    """Return as text the kind of a statistic's interval, with the least number of values (``unit``) that it needs."""
    several = sorted({int(count) for count in counts}) or [0]
    n, kind = sizes_text(several), f"{100 * share:g} % interval of the {of}"
    if several[-1] < least:
        return f"no {kind}, which takes {least}{unit} ({n})"
    few = f"; none where n < {least}" if several[0] < least else ""
    return f"{kind} ({method}, {n}{few})"


def sizes_text(counts: Iterable[int]) -> str:
    """Return the sizes of groups as text: "n = 5", "n = 3 to 5"."""
    several = sorted(map(int, counts))
    return f"n = {several[0]}" if several[0] == several[-1] else f"n = {several[0]} to {several[-1]}"


def interval(
    frame: "pd.DataFrame",
    value: str,
    by: Sequence[str],
    *,
    of: str = "mean",
    share: float = SHARE,
    over: str = "seed",
) -> "pd.DataFrame":
    """Return a measure's mean, median and one of their intervals (`confidence`) over all rows that agree in ``by``.

    Only seeds are pooled, and only those of ``over``: the rows of a group have one setting, and distinct seeds.

    Parameters
    ----------
    frame : DataFrame
        A table from `load` or `compare`; the columns before ``algorithm`` are settings.
    value : str
        The measure's column. A run that did not survive counts with the worst value, which is ∞ for an error
        (`netsim.studies.outcome`). A run that survived without a value was not measured, and is omitted. In a column of
        booleans each run counts with its value; the mean is a share.
    by : sequence of str
        The columns by which rows are grouped: all settings with several values, except the seed.
    of : {"mean", "median"}
        The statistic that the interval is for.
    share : float
        In (0, 1).
    over : {"seed", "data_seed", "graph_seed", "loss_seed"}
        The seed whose values are pooled. An interval over "seed" holds for other runs of the same kind; an interval
        over "loss_seed" holds for other losses with the same data and the same graph.

    Returns
    -------
    DataFrame
        The columns of ``by``, then count, survived, mean, median, low, high. The last two are empty if there are too
        few values, or if a mean is not finite; they are clipped to the column's bounds
        (`netsim.studies.columns.bounds`). ``attrs["interval"]`` is the text of `interval_text`.

    Raises
    ------
    BadInput
        For an unknown column or statistic, a share outside its range, a setting that differs within a group, or a seed
        that occurs twice in a group.
    """
    import pandas as pd

    for name in (value, *by):
        check.one_of("column", name, [str(each) for each in frame.columns])
    check_numbers(frame, value)
    fewest(of, share)
    kept, survived = worst_of_dead(frame, value)
    check_pools(kept, list(by), over)
    rows, limits, shares = [], columns.bounds(value), is_share(frame[value], of)
    for key, part in columns.groups_of(kept.assign(**{_SURVIVED: survived}), by):
        values = part[value].to_numpy(dtype=bool if shares else np.float64)
        low, high = limits.clip(*confidence(values, of=of, share=share))
        found = {"count": len(values), "survived": int(part[_SURVIVED].sum())} | {
            name: statistic(values, of=name) for name in STATISTICS
        }
        found |= {"low": low, "high": high}
        rows.append(dict(zip(by, key, strict=True)) | found)
    table = pd.DataFrame(rows, columns=[*by, "count", "survived", "mean", "median", "low", "high"])
    over_seeds = "" if over == "seed" else f", over the {over_text(over)}s"
    about = kind_text(table["count"], "share", "Clopper and Pearson", 1, share) if shares else ""
    table.attrs["interval"] = (about or interval_text(table["count"], of=of, share=share)) + over_seeds
    return table


def check_numbers(frame: "pd.DataFrame", value: str) -> None:
    """Raise BadInput if a measure's column holds text."""
    try:
        frame[value].to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise check.refuse("column", value, "a column of numbers") from None


def settings_in(frame: "pd.DataFrame") -> list[str]:
    """Return the settings of a table: the columns before ``algorithm``; empty without that column."""
    names = [str(each) for each in frame.columns]
    return names[: names.index(ALGORITHM)] if ALGORITHM in names else []


def settings_of(frame: "pd.DataFrame", over: str = "seed") -> list[str]:
    """Return the settings that have several values in a table, and the algorithm, without the pooled seed."""
    settings = [name for name in settings_in(frame) if name not in ("point", over)]
    several = [name for name in settings if frame[name].nunique(dropna=False) > 1]
    return [*several, *([ALGORITHM] if ALGORITHM in frame else [])]


def check_pools(frame: "pd.DataFrame", by: Sequence[str], over: str = "seed") -> None:
    """Raise BadInput if a setting differs between rows of a group, or a seed of ``over`` occurs twice in a group."""
    check.one_of("over", over, SEEDS)
    names = [str(each) for each in frame.columns]
    if over != "seed" and over not in names:
        raise check.refuse("over", over, "a seed that has several values in the table")
    settings = [*settings_in(frame), *([ALGORITHM] if ALGORITHM in names else [])]
    alone = [*by, *({over} & {*names} - {*by})]
    for keys, wanted in ((list(by), settings), (alone, ["round"] if "round" in names else [])):
        for name in wanted if len(frame) else ():
            several = (frame.groupby(keys, sort=False, dropna=False) if keys else frame)[name].nunique(dropna=False)
            if name not in {*by, "point", over} and np.max(several) > 1:
                raise _pooled(by, name, frame[name].unique().tolist(), over)
    twice = frame[frame.duplicated(alone)] if alone != list(by) else frame[:0]
    if len(twice):
        where = ", ".join(f"{name} = {twice[name].iloc[0]}" for name in by)
        raise BadInput(
            f"{over} = {twice[over].iloc[0]}: must be there once for {where}; the same seed adds nothing: "
            "leave one out, or distinguish them by another column"
        )


def _pooled(by: Sequence[str], name: str, values: Sequence[Any], over: str) -> BadInput:
    shown = ", ".join(map(str, values[:3])) + (", …" if len(values) > 3 else "")
    kind = "seeds" if over == "seed" else f"{over_text(over)}s"
    instead = f"; over = {name!r} puts these together instead" if name in SEEDS else ""
    return BadInput(
        f"by = {', '.join(by)}: must have {name}, too, or the rows be of one {name} only ({shown}): "
        f"only {kind} may be put together{instead}"
    )
