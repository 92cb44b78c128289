"""The benchmark's results: a table with a row for each case, tables for the documentation, and a figure per problem."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.scenarios.bench.problems import PROBLEMS
from netsim.scenarios.bench.suite import NETWORKS
from netsim.studies.figures import Figure, drawing, legend_below
from netsim.studies.intervals import confidence, statistic
from netsim.studies.paired import paired

KEYS = ["method", "problem", "network"]
OWN = "its own"
"""Text in a table for a method's default settings, when tuning found none better."""

_FAR = 10
"""Larger errors are shown as "> 10", because the models have diverged."""

_FEWEST = 5
"""Least number of seed pairs for which a page shows a ratio."""

COLUMNS = [*KEYS, "settings", "seeds", "survived"]
_COSTS = {"kbit": ("reached_bits", 1e-3), "seconds": ("reached_s", 1.0)}


def summarised(runs: pd.DataFrame, refused: Sequence[tuple[str, str, str, str]]) -> pd.DataFrame:
    """Return a table with a row for each case.

    Returns
    -------
    DataFrame
        The columns method, problem, network, settings (chosen by tuning), seeds (their number) and ``survived``, the
        number of seeds whose error in the last round is at most the target. ``kbit`` is the kilobits that an agent
        sends until it reaches the target, and ``seconds`` the simulated time until then. Both are geometric means over
        the surviving seeds; ``_low`` and ``_high`` are the ends of their 95 % intervals, by Student's t on the
        logarithms. ``error`` is the mean over all seeds of the last round's error, with its interval by Student's t.
        ``why`` is the reason why a case was left out.
    """
    rows = []
    for keys, part in runs.groupby(KEYS, sort=False):
        row = dict(zip(KEYS, keys, strict=True)) | {
            "settings": part["settings"].iloc[0],
            "seeds": len(part),
            "survived": int(part["reached_bits"].notna().sum()),
        }
        for name, (column, factor) in _COSTS.items():
            logarithms = np.log(part[column].dropna().to_numpy(float) * factor)
            row |= dict(zip(_columns(name), np.exp(_mean(logarithms)), strict=True))
        row |= dict(zip(_columns("error"), _mean(part["error"].to_numpy(float)), strict=True))
        rows.append(row)
    left_out = [dict(zip([*KEYS, "why"], each, strict=True)) for each in refused]
    means = [each for name in (*_COSTS, "error") for each in _columns(name)]
    found = pd.DataFrame([*rows, *left_out], columns=[*COLUMNS, *means, "why"])
    order = list(dict.fromkeys([*runs["method"], *(each[0] for each in refused)]))
    ranks = {"method": order, "problem": list(PROBLEMS), "network": list(NETWORKS)}
    places = found.apply(lambda row: tuple(ranks[key].index(row[key]) for key in KEYS), axis=1)
    return found.loc[places.sort_values().index].reset_index(drop=True).astype({"seeds": "Int64", "survived": "Int64"})


def _columns(name: str) -> list[str]:
    return [name, f"{name}_low", f"{name}_high"]


def _mean(values: NDArray[np.float64]) -> tuple[float, float, float]:
    return statistic(values), *confidence(values)


def against(runs: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the ratio of each method's bits to a reference method's, until the target is reached, paired by seed.

    Returns
    -------
    DataFrame
        The columns problem, network and method; ``pairs``, the number of seeds on which both methods reach the target;
        ``missing``, the number of seeds on which one does not; ``ratio``, the geometric mean of the ratios; ``low`` and
        ``high``, its 95 % interval (Student's t on the logarithms); and ``p_holm``, the p-value of the hypothesis that
        the ratio is 1, corrected for all rows (Holm). Problems on which the reference did not run are left out.
    """
    frame = runs.rename(columns={"method": "algorithm"}).assign(log_bits=np.log(runs["reached_bits"]))
    with_it = frame.loc[frame["algorithm"] == reference, "problem"]
    frame = frame[frame["problem"].isin(with_it)][["problem", "network", "seed", "algorithm", "log_bits"]]
    found = paired(frame, "log_bits", reference, by=["problem", "network"])
    found["ratio"], found["low"], found["high"] = (np.exp(found[name]) for name in ("difference", "low", "high"))
    found = found.rename(columns={"algorithm": "method", "count": "pairs"})
    return found[["problem", "network", "method", "pairs", "missing", "ratio", "low", "high", "p_holm"]]


def markdown(table: pd.DataFrame, problem: str) -> str:
    """Return a problem's table in Markdown: a row for each suitable method, a column for each network.

    A cell shows the kilobits until the target is reached with their interval, and the number of surviving seeds if some
    did not survive. If less than half of the seeds survived, it shows the last round's error instead.
    """
    return _pivot(_made_for(table, problem), _cell)


def _made_for(table: pd.DataFrame, problem: str) -> pd.DataFrame:
    """Return a problem's rows for the methods that ran on at least one network."""
    part = table[table["problem"] == problem]
    return part[part["method"].isin(part.loc[part["seeds"].notna(), "method"])]


def _cell(rows: pd.DataFrame) -> str:
    if rows.empty or pd.isna(rows["seeds"].iloc[0]):
        return "–"
    row = rows.iloc[0]
    share = f"{int(row['survived'])}/{int(row['seeds'])}"
    if 2 * row["survived"] < row["seeds"]:
        return f"{share}, error {_number(row['error']) if row['error'] <= _FAR else f'> {_FAR}'}"
    text = f"{_number(row['kbit'])} [{_number(row['kbit_low'])}, {_number(row['kbit_high'])}]"
    return text if row["survived"] == row["seeds"] else f"{share}: {text}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.1f}"


def ratios(table: pd.DataFrame, problem: str) -> str:
    """Return a problem's ratios from `against` as a Markdown table: methods by networks.

    A cell shows the ratio and its interval, the number of pairs if some seeds are missing, and * if p_holm is below
    0.05. It is empty if there are fewer than five pairs.
    """
    return _pivot(table[table["problem"] == problem], _ratio)


def _pivot(part: pd.DataFrame, cell: Callable[[pd.DataFrame], str]) -> str:
    networks = list(dict.fromkeys(part["network"]))
    lines = [f"| method | {' | '.join(networks)} |", "|---|" + "---:|" * len(networks)]
    for method, rows in part.groupby("method", sort=False):
        cells = [cell(rows[rows["network"] == network]) for network in networks]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratio(rows: pd.DataFrame) -> str:
    if rows.empty or rows["pairs"].iloc[0] < _FEWEST:
        return "–"
    row = rows.iloc[0]
    text = f"{row['ratio']:.2g} [{row['low']:.2g}, {row['high']:.2g}]{'*' if row['p_holm'] < 0.05 else ''}"
    return f"{text} ({row['pairs']})" if row["missing"] else text


def draw(table: pd.DataFrame, problem: str) -> Figure:
    """Draw a problem's results: for each network, the kilobits that an agent of each method sends until the target."""
    part = _made_for(table, problem)
    methods, networks = (list(dict.fromkeys(part[name])) for name in ("method", "network"))
    figure, panels = drawing(2.0 + 1.9 * len(networks), max(3.2, 1.8 + 0.24 * len(methods)), len(networks), sharey=True)
    ran = part[part["seeds"].notna()]
    means = ran["kbit"].dropna().to_numpy(float)
    low, high = (means.min() / 3, means.max() * 10) if len(means) else (1.0, 10.0)
    for panel, network in zip(panels, networks, strict=True):
        across = panel.get_yaxis_transform()
        for row in ran[ran["network"] == network].to_dict("records"):
            place, whole = methods.index(row["method"]), row["survived"] == row["seeds"]
            if row["survived"]:
                colour = "C0" if whole else "C1"
                if math.isfinite(row["kbit_low"]):
                    ends = np.clip([row["kbit_low"], row["kbit_high"]], low, high / 3)
                    panel.plot(ends, [place, place], color=colour, lw=1.5)
                panel.plot(row["kbit"], place, "o" if whole else "D", color=colour, ms=5, mfc=colour if whole else "w")
                if not whole:
                    text = f"{row['survived']}/{row['seeds']}"
                    panel.text(0.98, place, text, fontsize=6, va="center", ha="right", transform=across)
            else:
                panel.plot(0.96, place, "x", color="C3", ms=5, transform=across)
        for place, method in enumerate(methods):
            if not (ran[ran["network"] == network]["method"] == method).any():
                panel.plot(0.96, place, "_", color="0.6", ms=5, transform=across)
        panel.set(xscale="log", xlim=(low, high), ylim=(len(methods) - 0.5, -0.5))
        panel.set_title(network, fontsize=10)
        panel.set_xlabel("kbit an agent")
    first = panels[0]
    first.set_yticks(range(len(methods)), methods)
    first.plot([], [], "o-", color="C0", label="target reached on all seeds: mean, 95 % interval")
    first.plot([], [], "D-", color="C1", mfc="w", label="on so many (mean and interval of these)")
    first.plot([], [], "x", color="C3", ls="", label="on none")
    first.plot([], [], "_", color="0.6", ls="", label="not made for this network")
    legend_below(figure)
    chosen = PROBLEMS[problem]
    seeds = int(ran["seeds"].max()) if len(ran) else 0
    figure.suptitle(f"{problem}: bits to a {chosen.error.replace('_', ' ')} of {chosen.target:g}, {seeds} seeds")
    return figure
