"""What the benchmark shows: a row for each case, the table of a page, and a figure for each problem."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netsim.scenarios.bench.problems import PROBLEMS
from netsim.scenarios.bench.suite import NETWORKS
from netsim.studies.figures import drawing, legend_below
from netsim.studies.intervals import confidence, statistic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = ["method", "problem", "network"]
COLUMNS = [*KEYS, "settings", "seeds", "survived"]
_MEANS = {"kbit": ("reached_bits", 1e-3), "seconds": ("reached_s", 1.0), "error": ("error", 1.0)}


def summarised(runs: pd.DataFrame, refused: Sequence[tuple[str, str, str, str]]) -> pd.DataFrame:
    """Return a row for each case.

    Returns
    -------
    DataFrame
        method, problem, network, settings (what tuning chose), seeds, survived: the number of seeds whose error is at
        the target or under it in the last round. Then ``kbit``: kilobits that an agent sends on the way to the target,
        ``seconds``: simulated time to it, both of the seeds that survived; and ``error``, that of the last round. Each
        is a mean with the ends of its 95 % interval by Student's t (``_low``, ``_high``). ``why`` says why a case was
        left out.
    """
    rows = []
    for keys, part in runs.groupby(KEYS, sort=False):
        row = dict(zip(KEYS, keys, strict=True)) | {
            "settings": part["settings"].iloc[0],
            "seeds": len(part),
            "survived": int(part["reached_bits"].notna().sum()),
        }
        for name, (column, factor) in _MEANS.items():
            values = part[column].dropna().to_numpy(float) * factor
            row[name] = statistic(values)
            row[f"{name}_low"], row[f"{name}_high"] = confidence(values)
        rows.append(row)
    left_out = [dict(zip([*KEYS, "why"], each, strict=True)) for each in refused]
    found = pd.DataFrame([*rows, *left_out], columns=[*COLUMNS, *_columns(), "why"])
    order = list(dict.fromkeys([*runs["method"], *(each[0] for each in refused)])) if len(runs) else []
    ranks = {"method": order, "problem": list(PROBLEMS), "network": list(NETWORKS)}
    places = found.apply(lambda row: tuple(ranks[key].index(row[key]) for key in KEYS), axis=1)
    return found.loc[places.sort_values().index].reset_index(drop=True).astype({"seeds": "Int64", "survived": "Int64"})


def _columns() -> list[str]:
    return [f"{name}{end}" for name in _MEANS for end in ("", "_low", "_high")]


def markdown(table: pd.DataFrame, problem: str) -> str:
    """Return a problem's table for a page: methods by networks.

    A cell has the kilobits to the target ± the half of the interval, and how many of the seeds survived if not all; or,
    if less than half did, the error of the last round in brackets.
    """
    part = table[table["problem"] == problem]
    networks = list(dict.fromkeys(part["network"]))
    lines = [f"| method | {' | '.join(networks)} |", "|---|" + "---:|" * len(networks)]
    for method, rows in part.groupby("method", sort=False):
        cells = [_cell(rows[rows["network"] == network]) for network in networks]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(rows: pd.DataFrame) -> str:
    if rows.empty or pd.isna(rows["seeds"].iloc[0]):
        return "–"
    row = rows.iloc[0]
    if 2 * row["survived"] < row["seeds"]:
        return f"({_number(row['error'])}; {row['survived']}/{row['seeds']})"
    reach = (row["kbit_high"] - row["kbit_low"]) / 2
    text = _number(row["kbit"]) + (f" ± {_number(reach)}" if math.isfinite(reach) else "")
    return text if row["survived"] == row["seeds"] else f"{text} ({row['survived']}/{row['seeds']})"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.1f}"


def draw(table: pd.DataFrame, problem: str) -> "Figure":
    """Draw a problem's cases: for each network the kilobits that an agent of each method sends to the target."""
    part = table[table["problem"] == problem]
    methods, networks = (list(dict.fromkeys(part[name])) for name in ("method", "network"))
    figure, panels = drawing(2.0 + 1.9 * len(networks), 1.8 + 0.24 * len(methods), len(networks), sharey=True)
    ran = part[part["seeds"].notna()]
    kbit = ran[["kbit", "kbit_low", "kbit_high"]].to_numpy(float)
    ends = kbit[np.isfinite(kbit) & (kbit > 0)]
    low, high = (ends.min() / 1.5, ends.max() * 1.5) if len(ends) else (1.0, 10.0)
    for panel, network in zip(np.atleast_1d(panels), networks, strict=True):
        for row in ran[ran["network"] == network].to_dict("records"):
            place, whole = methods.index(row["method"]), row["survived"] == row["seeds"]
            if row["survived"]:
                colour = "C0" if whole else "C1"
                if math.isfinite(row["kbit_low"]):
                    panel.plot([max(row["kbit_low"], low), row["kbit_high"]], [place, place], color=colour, lw=1.5)
                panel.plot(row["kbit"], place, "o" if whole else "D", color=colour, ms=5, mfc=colour if whole else "w")
                if not whole:
                    panel.annotate(
                        f" {row['survived']}/{row['seeds']}", (row["kbit_high"], place), fontsize=6, va="center"
                    )
            else:
                panel.plot(0.96, place, "x", color="C3", ms=5, transform=panel.get_yaxis_transform())
        for place, method in enumerate(methods):
            if not (ran[ran["network"] == network]["method"] == method).any():
                panel.plot(0.96, place, "_", color="0.6", ms=5, transform=panel.get_yaxis_transform())
        panel.set_xscale("log")
        panel.set_xlim(low, high * 2)
        panel.set_ylim(len(methods) - 0.5, -0.5)
        panel.set_title(network, fontsize=10)
        panel.set_xlabel("kbit an agent")
        panel.grid(alpha=0.3)
    first = np.atleast_1d(panels)[0]
    first.set_yticks(range(len(methods)), methods)
    first.plot([], [], "o-", color="C0", label="target reached on all seeds: mean, 95 % interval")
    first.plot([], [], "D-", color="C1", mfc="w", label="on some, so many")
    first.plot([], [], "x", color="C3", ls="", label="on none")
    first.plot([], [], "_", color="0.6", ls="", label="not made for this network")
    legend_below(figure)
    chosen = PROBLEMS[problem]
    seeds = int(ran["seeds"].max()) if len(ran) else 0
    figure.suptitle(f"{problem}: bits to a {_words(problem)} of {chosen.target:g}, {seeds} seeds")
    return figure


def _words(problem: str) -> str:
    return PROBLEMS[problem].error.replace("_", " ")
