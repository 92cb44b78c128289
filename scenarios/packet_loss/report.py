"""The results of the study of packet loss: runs, intervals over seeds, tables, and notes."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netsim.errors import BadInput
from netsim.links import Reliability
from netsim.scenarios.packet_loss import figures
from netsim.scenarios.packet_loss.figures import ABOVE, ABOVE_LOSS_FREE, ABOVE_OPTIMUM, nearest
from netsim.scenarios.packet_loss.remedies import NONE, REMEDIES, place_of
from netsim.scenarios.tasks.answers import answer
from netsim.scenarios.tasks.savings import called
from netsim.studies import Study
from netsim.studies.experiment import Results
from netsim.studies.figures import Axis
from netsim.studies.outcome import COLUMN as OUTCOME
from netsim.studies.outcome import DIVERGED, FAILED, share_text
from netsim.studies.results import interval, interval_text

NEAR = 5.0
"""Excess error over the loss-free run, in per cent, above which notes call a method degraded."""

_PRICED = 0.1  # share of lost frames in the table of costs; the nearest share that ran is used
_APART = 1e-2  # norm of a copy's error above which notes mention it
_SAME = 10.0  # factor by which the consensus error must grow to reveal a loss

COLUMNS = ("consensus_error", "dual_residual", "copy_error", "transmissions", "wire_bits")
"""Measures of a run's last round that are kept in addition to its errors."""

OWN_COLUMNS = ("tracking_residual", "least_weight")
"""Further measures, which only some methods provide."""

KEYS = ("family", "remedy", "burst", "loss", "seed", "optimum")
"""First columns of the results: those that identify a run, and the optimum."""


def measured(results: Results, errors: Sequence[str]) -> tuple[pd.DataFrame, list[tuple[str, float, str, str]]]:
    """Return a row for each run, and (remedy, burst, point, reason) for each run that did not finish.

    An unfinished run has a row with empty measures if other runs of its setting finished. Raises BadInput if no run
    finished.

    Parameters
    ----------
    errors : sequence of str
        The columns of the task's errors; the study compares the first.
    """
    rows, failed = [], []
    for cell, found in sorted(results.cells, key=lambda each: place_of(each[0])):
        own = {name: cell.columns[name] for name in KEYS if name in cell.columns}
        if why := found.row["why"]:
            failed.append((own["remedy"], own["burst"], f"loss={own['loss']},seed={own['seed']}", why))
        rows.append((place_of(cell)[:3], ({OUTCOME: FAILED} if why else found.row) | own))
    ended = {(row["family"], row["remedy"], row["burst"], row["loss"]) for _, row in rows if row[OUTCOME] != FAILED}
    if not ended:
        raise BadInput(f"folder = {str(results.folder)!r}: must have a run that ended; all failed, {failed[0][3]}")
    rows.sort(key=lambda each: (each[0], each[1][OUTCOME] == FAILED))
    parts = []
    for _, several in itertools.groupby(rows, key=lambda each: each[0]):
        some = pd.DataFrame([row for _, row in several])
        some = some[[each in ended for each in zip(*(some[name] for name in KEYS[:4]), strict=True)]]
        own_columns = [name for name in OWN_COLUMNS if name in some]
        parts.append(some.reindex(columns=[*KEYS, *errors, *COLUMNS, *own_columns, OUTCOME]))
    frame = pd.concat([each for each in parts if len(each)], ignore_index=True)
    # Without losses all copies equal the states, so their error is not measured.
    frame.loc[(frame["loss"] == 0.0) & (frame["remedy"] != "edge-duals"), "copy_error"] = 0.0
    frame[errors[0]] = frame[errors[0]].where(np.isfinite(frame[errors[0]]), np.inf)
    return frame, failed


def tell(study: Study, results: Results, errors: Sequence[str], title: str, rounds: int, burst: float) -> None:
    """Add the tables, notes and figures to the study."""
    error = Axis(errors[0])
    table, failed = measured(results, errors)
    runs = with_errors(table, error.column)
    means = summarised(runs, errors)
    study.tables["runs"] = runs
    study.tables["means"] = means
    _answer(study, means, error)
    for remedy in dict.fromkeys(means["remedy"]):
        kind = interval_text(pick(means, ABOVE_LOSS_FREE, remedy=remedy)["count"])
        shown = f"{REMEDIES[remedy].title}: {error.text} above loss-free (%) by frames lost, mean [{kind}]"
        study.table(f"above_loss_free_{remedy.replace('-', '_')}", shown, by_share(means, remedy))
    share = nearest(means, _PRICED)
    study.table(
        "price", f"Bits on the wire and what they buy, at {percent(share)} loss, independent", price(means, share)
    )
    study.note(*notes(means, burst), *_keyframes(means, rounds), *left_out(runs, failed, error.column))
    level = ABOVE_OPTIMUM if (means["measure"] == ABOVE_OPTIMUM).any() else ABOVE_LOSS_FREE
    reach = f"{title}\nbands and bars: {interval_text(pick(means, level)['count'])}"
    above = f"{called(error).lower()} above {ABOVE[level][1]}"
    study.figure(
        "error",
        partial(figures.draw_errors, means, level, error, reach),
        f"The {above} by the share of lost frames, each lost by itself: a panel for each remedy, a line for each "
        "family of algorithms.",
        hero=True,
    )
    if (means["burst"] > 1.0).any():
        study.figure(
            "bursts",
            partial(figures.draw_errors, means, level, error, reach, burst=burst),
            f"The {above} where frames are lost in bursts of {burst:g} (dashed), beside independent losses of "
            "the same mean.",
        )
    study.figure(
        "agreement",
        partial(figures.draw_agreement, means, title),
        "What the consensus error, the sum of the duals and the spread of the copies show of lost frames, by family.",
    )
    study.figure(
        "price",
        partial(figures.draw_price, means, level, error, reach),
        f"What each remedy costs in bits on the wire, and the error above {ABOVE[level][0]} that it buys.",
    )


def _answer(study: Study, means: pd.DataFrame, error: Axis) -> None:
    """State the excess error of the most affected family at the priced share, and its best remedy's cost."""
    share = nearest(means, _PRICED)
    found = pick(means, ABOVE_LOSS_FREE, burst=1.0, loss=share)
    found = found[np.isfinite(found["mean"])]
    plain = found[found["remedy"] == NONE]
    study.ask("What do lost frames do to learning, and what does the remedy cost?")
    if plain.empty:
        return
    most = plain.loc[plain["mean"].idxmax()]
    text = "With {share:g} % of the frames lost, {family} ends {off:.3g} % above its loss-free {label}"
    fields = {"share": 100 * share, "family": most["family"], "off": most["mean"], "label": error.text}
    rows, mended = [most], found[(found["family"] == most["family"]) & (found["remedy"] != NONE)]
    if len(mended):
        rows.append(best := mended.loc[mended["mean"].abs().idxmin()])
        bits = pick(means, "wire_bits", burst=1.0, loss=share, family=most["family"]).set_index("remedy")["mean"]
        text += ", with {remedy} {mended:.3g} %, for {times:.3g} times the bits"
        fields |= {"remedy": REMEDIES[best["remedy"]].title, "mended": best["mean"]}
        fields["times"] = bits[best["remedy"]] / bits[NONE]
    kind = f"{interval_text([int(most['count'])])}, in pairs of seeds; independent losses."
    if most["count"] > 1:
        fields |= {f"ends{k}": (row["low"], row["high"]) for k, row in enumerate(rows)}
        kind = f"{' and '.join(f'{{ends{k}:.3g}} %' for k in range(len(rows)))}: {kind}"
    answer(study, f"{text}.", kind, **fields)


def _keyframes(means: pd.DataFrame, rounds: int) -> Iterator[str]:
    """Yield a note, if there are runs with key frames, that such runs end on a key frame."""
    every = Reliability("keyframe").every
    if "keyframe" in set(means["remedy"]) and rounds % every == 0:
        yield f"With key frames each run ends on one, for there is one every {every} rounds: copies have just met."


def left_out(
    runs: pd.DataFrame, failed: Sequence[tuple[str, float, str, str]], error: str = "train_mse"
) -> Iterator[str]:
    """Yield notes on the runs that have no mean: one line for unfinished runs, one for diverged runs."""
    if failed:
        which = Counter(f"{REMEDIES[remedy].title} ({_losses(burst)})" for remedy, burst, _, _ in failed)
        _, _, point, why = failed[0]
        yield f"Did not end: {_counted(which)}; the first, {point}: {why}"
    lost = runs[runs[error].map(math.isinf) | (runs[OUTCOME] == DIVERGED if OUTCOME in runs else False)]
    if len(lost):
        pairs = zip(lost["family"], lost["remedy"], strict=True)
        which = Counter(f"{family} with {REMEDIES[remedy].title}" for family, remedy in pairs)
        yield f"Diverged, so that there is no mean where they are: {_counted(which)} (which: runs.csv)."


def _counted(which: Mapping[str, int]) -> str:
    total = sum(which.values())
    parts = ", ".join(f"{count} of {name}" for name, count in which.items())
    return f"{total} {'run' if total == 1 else 'runs'}, {parts}"


# --- numbers ----------------------------------------------------------------------------------------------------------


def with_errors(runs: pd.DataFrame, error: str = "train_mse") -> pd.DataFrame:
    """Return the runs with their errors in per cent above the centralised optimum, and above the loss-free run.

    The comparison is paired: the loss-free run has the same family and seed, and thus the same data and graph, but
    lossless links and no remedy. Raises BadInput if a reference error is 0, because no percentage exists then.
    """
    plain = runs[(runs["remedy"] == NONE) & (runs["loss"] == 0.0)]
    if (plain[error] <= 0.0).any():
        row = plain[plain[error] <= 0.0].iloc[0]
        where = f"{row['family']} without loss, seed {row['seed']}, has {row[error]:.4g}"
        raise BadInput(f"{error}: must be above 0, to compare in per cent; {where}")
    base = plain.set_index(["family", "seed"])[error]
    own = base.reindex(list(zip(runs["family"], runs["seed"], strict=True))).to_numpy(dtype=np.float64)
    # A diverged run has no meaningful excess error.
    own = np.where(np.isfinite(own), own, math.nan)
    return runs.assign(
        **{
            ABOVE_OPTIMUM: 100.0 * (runs[error] / runs["optimum"] - 1.0),
            ABOVE_LOSS_FREE: 100.0 * (runs[error] / own - 1.0),
        }
    )


def summarised(runs: pd.DataFrame, errors: Sequence[str] = ("train_mse", "test_mse")) -> pd.DataFrame:
    """Return each measure's mean and its interval over the seeds: a row for each setting and measure.

    The mean is ∞ if a run diverged.
    """
    by = ["family", "remedy", "burst", "loss"]
    parts = [
        interval(runs, name, by).assign(measure=name)
        for name in (ABOVE_OPTIMUM, ABOVE_LOSS_FREE, *errors, *COLUMNS, *OWN_COLUMNS)
        if name in runs and runs[name].notna().any()
    ]
    return pd.concat(parts, ignore_index=True)


def pick(means: pd.DataFrame, measure: str, **chosen: Any) -> pd.DataFrame:
    """Return the rows of one measure that have the given column values, ordered by loss."""
    rows = means[means["measure"] == measure]
    for name, value in chosen.items():
        rows = rows[rows[name] == value]
    return rows.sort_values("loss", kind="stable")


# --- tables -----------------------------------------------------------------------------------------------------------


def percent(share: float) -> str:
    """Return a share as text in per cent: "0.1 %"."""
    return f"{100.0 * share:g} %"


def by_share(means: pd.DataFrame, remedy: str) -> pd.DataFrame:
    """Return a remedy's excess errors: a row for each family and kind of losses, a column for each share of losses."""
    rows = []
    found = pick(means, ABOVE_LOSS_FREE, remedy=remedy)
    for family in dict.fromkeys(found["family"]):
        of_family = found[found["family"] == family]
        for burst in sorted(set(of_family["burst"])):
            part = of_family[of_family["burst"] == burst]
            row = {"family": family, "losses": _losses(float(burst))}
            for share in sorted(set(found["loss"])):
                row[percent(share)] = next((_with_interval(one) for one in _at(part, share)), None)
            rows.append(row)
    return pd.DataFrame(rows)


def _with_interval(row: Any) -> str:
    """Return a row's mean as text, with its interval if there are several seeds, or the count of surviving runs."""
    if row.survived < row.count:
        return f"– {share_text(row.survived, row.count)}"
    return _short(row.mean) + (f" [{_short(row.low)}, {_short(row.high)}]" if row.count > 1 else "")


def _losses(burst: float) -> str:
    return "independent" if burst == 1.0 else f"bursts of {burst:g}"


def _short(number: float) -> str:
    """Return a percentage with two or three significant digits, without an exponent below a million."""
    if abs(number) >= 1e6:
        return f"{number:.2g}"
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.2g}" if abs(number) >= 0.005 else "0"


def _at(part: pd.DataFrame, share: float) -> list[Any]:
    return list(part[part["loss"] == share].itertuples())


def price(means: pd.DataFrame, share: float) -> pd.DataFrame:
    """Return the cost and the final error of each family with each remedy, at one share of lost frames."""
    chosen = {"burst": 1.0, "loss": share}
    bits = pick(means, "wire_bits", **chosen)
    spent = bits.set_index(["family", "remedy"])["mean"]
    above = pick(means, ABOVE_LOSS_FREE, **chosen).set_index(["family", "remedy"])["mean"]
    rows = []
    for family, remedy in zip(bits["family"], bits["remedy"], strict=True):
        row = {"family": family, "remedy": REMEDIES[remedy].title, "wire_Mbit": spent[family, remedy] / 1e6}
        row["times as many as without"] = spent[family, remedy] / spent[family, NONE]
        rows.append(row | {ABOVE_LOSS_FREE: above[family, remedy]})
    return pd.DataFrame(rows).sort_values(["family", "wire_Mbit"], kind="stable").reset_index(drop=True)


# --- notes ------------------------------------------------------------------------------------------------------------


def notes(means: pd.DataFrame, burst: float) -> Iterator[str]:
    """Yield notes with conclusions from the means."""
    families = list(dict.fromkeys(means["family"]))
    for family in families:
        yield from _off(means, family)
    for remedy in dict.fromkeys(means["remedy"]):
        if remedy != NONE:
            yield from _mended(means, remedy)
    if burst != 1.0:
        yield from _bursty(means, families, burst)


def _off(means: pd.DataFrame, family: str) -> Iterator[str]:
    """Yield the loss from which a family without a remedy fails, and whether its consensus error reveals this."""
    chosen = {"family": family, "remedy": NONE, "burst": 1.0}
    rows = pick(means, ABOVE_LOSS_FREE, **chosen)
    lossy = rows[rows["loss"] > 0.0]
    off = lossy[lossy["mean"] >= NEAR]
    sure = off[off["low"] > 0.0]
    if off.empty:
        highest = float(lossy["high"].max())
        doubt = f", in the mean: its interval reaches {_short(highest)} %" if highest > NEAR else ""
        most = percent(lossy["loss"].max())
        yield f"{family} without a remedy ends less than {NEAR:g} % above loss-free up to {most} loss{doubt}."
        return
    died = off[off["survived"] < off["count"]]
    first = (off if sure.empty else sure).iloc[0]
    if len(died) and (sure.empty or died["loss"].min() <= first["loss"]):
        row = died.iloc[0]
        alive = f"{int(row['survived'])} of {int(row['count'])} runs"
        yield f"At {percent(row['loss'])} loss {family} without a remedy survives in {alive}; the others diverged."
        return
    share = float(first["loss"])
    size = f"{_short(first['mean'])} % above loss-free"
    reach = f"[{_short(first['low'])}, {_short(first['high'])}: {interval_text([first['count']])}]"
    rest = ", which leaves it in doubt at any loss: more --repeats tell"
    if not sure.empty:
        rest = _symptoms(means, chosen, share)
    yield f"At {percent(share)} loss {family} without a remedy ends {size} {reach}{rest}."


def _symptoms(means: pd.DataFrame, chosen: dict[str, Any], share: float) -> str:
    """Return text on what the other measures reveal when a family fails."""

    def at(measure: str, where: float) -> float:
        found = _at(pick(means, measure, **chosen), where)
        return float(found[0].mean) if found else math.nan

    apart, before = at("consensus_error", share), at("consensus_error", 0.0)
    found = f"; its consensus error is {apart:.1g}, {before:.1g} without loss"
    if apart <= _SAME * before:
        found += ": it does not show it"
    duals, copies = at("dual_residual", share), at("copy_error", share)
    tracked = at("tracking_residual", share)
    if tracked > 1e-9:
        found += f"; max|Σy − Σ∇R| is {tracked:.2g}, {at('tracking_residual', 0.0):.1g} without loss"
    if duals > 1e-9:
        found += f"; max|Σγ| is {duals:.2g}, {at('dual_residual', 0.0):.1g} without loss"
    if copies > _APART:
        found += f"; a neighbour's copy of a state is up to {copies:.2g} from it"
    return found


def _mended(means: pd.DataFrame, remedy: str) -> Iterator[str]:
    """Yield the largest loss at which a remedy keeps a family's whole interval within `NEAR` of loss-free."""
    title = REMEDIES[remedy].title
    for family in dict.fromkeys(means[means["remedy"] == remedy]["family"]):
        parts = []
        for burst in sorted(set(means["burst"])):
            rows = pick(means, ABOVE_LOSS_FREE, family=family, remedy=remedy, burst=burst)
            rows = rows[rows["loss"] > 0.0]
            if rows.empty:
                continue
            low, high = (rows[end].fillna(rows["mean"]) for end in ("low", "high"))
            beyond = rows[~((low >= -NEAR) & (high <= NEAR))]
            within = rows if beyond.empty else rows[rows["loss"] < beyond["loss"].min()]
            where = "independent" if burst == 1.0 else f"in bursts of {burst:g}"
            if within.empty:
                parts.append(f"at no loss tested ({where})")
            else:
                parts.append(f"up to {percent(within['loss'].max())} loss ({where})")
        yield f"{family} with {title}: within {NEAR:g} % of loss-free {', '.join(parts)}."


def _bursty(means: pd.DataFrame, families: Sequence[str], burst: float) -> Iterator[str]:
    """Yield the effect of bursts at equal mean loss, for the largest share of lost frames."""
    share = float(means["loss"].max())
    parts = []
    for family in families:
        found = [
            _at(pick(means, ABOVE_LOSS_FREE, family=family, remedy=NONE, burst=each), share) for each in (1.0, burst)
        ]
        if all(found):
            alone, together = (rows[0].mean for rows in found)
            parts.append(f"{family} {_short(together)} % ({_short(alone)} %)")
    if parts:
        yield (
            f"At {percent(share)} loss in bursts of {burst:g}, without a remedy, above loss-free "
            f"(independent losses in brackets): {', '.join(parts)}."
        )
