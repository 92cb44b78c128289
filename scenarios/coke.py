"""CTA, DKLA and COKE on one network: training error against rounds, transmissions and bits."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd

from netsim.agents import COKE, CTA, DKLA, Geometric
from netsim.coders import Uniform
from netsim.scenarios.published import published
from netsim.scenarios.tasks.answers import answer, answer_least, of_one_run
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.batch_task import notes_on
from netsim.scenarios.tasks.method import names_of, wanted
from netsim.scenarios.tasks.own import OTHER
from netsim.scenarios.tasks.problems import Features, KernelRegression, OwnProblem, titled
from netsim.scenarios.tasks.savings import FINE, called, cost_to_reach, draw_savings, ladder, saved_on_the_way
from netsim.scenarios.tasks.settings import (
    TABLES,
    TEXT,
    PacedChannel,
    Prepared,
    Published,
    Rows,
    Wanted,
    is_timed,
    published_row,
)
from netsim.scenarios.tasks.theory import THEORY
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Method, Seeds
from netsim.studies.experiment.study import Played, study_of
from netsim.studies.figures import Axis, curves
from netsim.util import check

_SHOWN_ROUNDS = (50, 100, 200, 500, 1000, 1500, 2000)

_STEPS = {"rho": "rho", "threshold": "censor.v", "decay": "censor.mu", "squared": "censor.squared"}
"""Short names for the parameters that ADMM methods and a user's own methods take from the study."""

_LARGER = {"twitter": "the larger Twitter set, 98,704 rows"}
"""Data sets for which the paper prints results only for a larger version."""

_REFERENCE_ROUNDS = (10, 20, 50, 100, 200, 300)
"""Rounds of DKLA after which its training error is taken as the level that COKE must reach."""


@dataclass(frozen=True, kw_only=True)
class CokeRows(Prepared, Rows):
    """The rows and columns of the table to use, and their scaling; unset fields are read from settings.csv."""


@dataclass(frozen=True, kw_only=True)
class CokeFeatures(Features):
    """The size of the network and of the model, and the kind of features; unset fields are read from settings.csv."""

    USUAL_CONVENTIONS: ClassVar[str] = TABLES


@dataclass(frozen=True, kw_only=True)
class CokeMethods(OwnProblem, Wanted, Published):
    """The methods to compare, and the problem that they solve; unset fields are read from settings.csv.

    Parameters
    ----------
    eta : float
        Step size of CTA.
    gradient : float
        Factor of CTA's gradient: 2 gives the gradient of the squared error, 1 that of half the squared error.
    bits : int
        Also run COKE with changes quantized to this many bits per element (1-16); each message includes the quantizer's
        range. The variant's name, also for --algorithms, is e.g. "COKE 8-bit".
    unheard : str
        How CTA and D-PSGD treat a neighbour whose frame was lost in a round: use its last state ("kept"), or leave it
        out and renormalise the weights ("dropped").
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"eta": "cta_eta", "gradient": "gradient"}
    USUAL_CONVENTIONS: ClassVar[str] = TABLES

    algorithms: str = "CTA,DKLA,COKE"
    eta: float | None = None
    gradient: float | None = None
    bits: int | None = None
    unheard: str = "kept"

    def methods(self, rho: float, censor: Geometric) -> tuple[dict[str, Method], list[str]]:
        """Return the methods to run with all parameters set, and notes; raises BadInput as `wanted` does."""
        eta = check.finite("eta", self.eta, above=0.0)
        # R_i is the squared error without the factor 1/2, so its gradient has the factor 2.
        step = eta * check.finite("gradient", self.gradient, above=0.0) / 2.0
        unheard = check.one_of("unheard", self.unheard, ("kept", "dropped"))
        known = {"CTA": Method(CTA, eta=step, unheard=unheard), "DKLA": Method(DKLA, rho=rho)}
        known["COKE"] = coke = Method(COKE, rho=rho, censor=censor)
        known["D-PSGD"] = BASELINES["D-PSGD"].with_given(unheard=unheard)
        coded = {} if self.bits is None else {f"COKE {self.bits}-bit": coke.with_given(coder=Uniform(self.bits))}
        known |= coded | {name: each for name, each in BASELINES.items() if name not in known}
        return wanted(self, known, {"rho": rho, "eta": eta, "censor": censor}, always=coded)


def experiment(
    *,
    data: str = "synthetic",
    conventions: str = TABLES,
    rounds: int = 1000,
    rows: CokeRows = CokeRows(),
    compared: CokeMethods = CokeMethods(),
    features: CokeFeatures = CokeFeatures(),
    channel: PacedChannel = PacedChannel(),
    seeds: Seeds = Seeds(),
) -> Experiment:
    """Batch kernel learning: CTA, DKLA and COKE on one network (Xu, Wang, Chen and Tian 2021).

    --algorithms also accepts the baselines: D-PSGD, EXTRA, DIGing, CHOCO, LEAD, BEER, R-ADMM, LT-ADMM, SGP,
    Push-DIGing, AD-PSGD, and over a star EF21, EF21-P, FedAvg, SCAFFOLD and SCAFFOLD-states.

    Unset parameters take the paper's values for the data set. Values that the paper does not state are chosen to
    come close to its tables (scenarios/published/settings.csv).

    Parameters
    ----------
    data : str
        "synthetic" (the paper's data set), the name of a table in NETSIM_DATA or the cache, or a table's path.
    conventions : str
        How unset parameters are chosen: "tables" to come close to the paper's tables, "text" to follow its text.
        The synthetic data always use "text".
    rounds : int
        Number of rounds.
    """
    regression = KernelRegression(data=data, rows=rows, conventions=conventions, **dataclasses.asdict(features))
    problem, data = compared.instead(regression, rows, features, edges=features.edges)
    paper = published_row(Published.TABLE, data, conventions)
    compared = compared.resolved(data, conventions)
    censor = Geometric(paper["threshold_v"], paper["threshold_mu"], squared=paper["squared"])
    methods, notes = compared.methods(paper["rho"], censor)
    return Experiment(
        problem=problem,
        methods=methods,
        networks=channel,
        seeds=[seeds],
        rounds=rounds,
        names=names_of({name: each for name, each in methods.items() if name not in BASELINES}, _STEPS),
        notes=notes,
        report=partial(_report, compared=compared, censor=censor),
    )


coke = study_of(experiment, measures=THEORY)


def _conventions(problem: KernelRegression, gradient: float | None, censor: Geometric) -> Iterator[str]:
    """Yield a note on the settings that deviate from the paper's text, if the data set is in the paper's tables."""
    data, rows = str(problem.data), problem.rows
    if not len(_printed("coke_by_round", data)):
        return
    text = published_row(Published.TABLE, data, TEXT)
    pairs = problem.form == "pairs"
    deviations = {
        "features √(1/L) [cos, sin], 2L elements per message (paper: √(2/L) cos, L elements)": pairs,
        "the censor on ‖h‖² (the text: ‖h‖)": censor.squared,
        f"the first {rows.first} rows": rows.first,
        f"rows with a target within {rows.within} standard deviations of its mean": rows.within,
        "one minimum and maximum for all inputs (the paper does not say which)": rows.scaling == "whole",
        f"the target {rows.target}": rows.target,
        f"without the columns {rows.drop}": rows.drop,
        f"{problem.edges} links (the text: {text['edges']} edges)": problem.edges != text["edges"],
        "CTA's gradient without its factor 2": gradient == 1.0,
        f"threshold {censor.v:g} and decay {censor.mu:g}, as for the larger data set": data in _LARGER
        and censor.v != text["threshold_v"],
    }
    listed = "; ".join(name for name, deviates in deviations.items() if deviates)
    if listed:
        yield (
            f"Settings chosen so that our results come close to the published tables: {listed}. Use "
            "--conventions text to follow the paper's text."
        )
    else:
        yield "Settings follow the paper's text; with --conventions tables our results come closer to its tables."
    if data in _LARGER:
        yield f"The published columns are those of {_LARGER[data]}."


# --- tables, figures and notes
# ----------------------------------------------------------------------------------------------------


def _report(study: Study, played: Sequence[Played], *, compared: CokeMethods, censor: Geometric) -> None:
    study.record(eta=compared.eta, gradient=compared.gradient)
    last, data, timed = played[-1], OTHER, is_timed(played[-1].cell.network)
    if isinstance(problem := last.cell.problem, KernelRegression):
        data = str(problem.data)
        given = [each.given["censor"] for each in played if "censor" in each.given]
        study.note(*_conventions(problem.whole(), compared.gradient, next(iter(given), censor)))
    task, title = last.task, titled(last)
    rounds, best = study.rounds, study.centralised.get(task.error, math.nan)
    table = _by_round(rounds, data, [*["time_s"] * timed, *task.columns])
    savings = _savings(rounds, data, task.error, best)
    error = Axis(task.error, log=True)
    _answer(study, rounds, error, best)
    beside = " (published_*: the paper's values)" if "published_train_mse" in table else ""
    study.table("by_round", f"Errors and cost by round{beside}", table)
    if len(savings):
        study.table("cost_to_reach", f"Transmissions to reach a {error.text}", savings)
    study.note(*_notes(rounds, savings, error), *notes_on(study, task, {each.name: each.kind for each in played}))
    finite = rounds[np.isfinite(rounds[task.error]) & (rounds[task.error] < 100 * task.variance)]
    by = ["round", *["time_s"] * timed, "transmissions", "wire_bits"]
    axes = [Axis(column, log=True) for column in by]
    levels = {"centralised": best} if best == best else {}
    # The error curves nearly coincide; the saving is the horizontal distance between them.
    saving = draw_savings(finite, task.error, best, "DKLA", label=error.text, title=f"What is saved, {title}")
    study.figure(
        "mse",
        partial(curves, finite, error, axes, f"{called(error)}, {title}", levels),
        f"The {called(error).lower()} of each algorithm by rounds{', simulated seconds' * timed}, transmissions and "
        "bits on the wire; the grey line is what a centralised solution with all samples reaches.",
        hero=saving is None,
    )
    if saving is not None:
        study.figure(
            "saving",
            saving,
            "The fraction of DKLA's transmissions and bits that each algorithm saves until "
            "it reaches a given training error.",
            hero=True,
        )


def _answer(study: Study, rounds: pd.DataFrame, error: Axis, best: float) -> None:
    """State what COKE saved until it reached DKLA's errors; without both, name the algorithm with the least error."""
    levels = ladder(rounds, error.column, best, FINE)
    saved = cost_to_reach(rounds, error.column, levels, saves={"saved": ("DKLA", "COKE")})
    known = saved.dropna(subset=["saved"]) if "saved" in saved else saved[:0]
    if known.empty:
        answer_least(study, error.column)
        return
    study.ask("How many messages does censoring save on the way to the same error?")
    ends = rounds.groupby("algorithm", sort=False).tail(1).set_index("algorithm")[error.column]
    answer(
        study,
        "Until it reaches a {label} of {levels:.2g}, COKE saves {saved:.0f} % of the messages of DKLA.",
        "Least to most, over the errors that both reached ({count}). At the end DKLA has {plain:.3g} and COKE "
        f"{{cheap:.3g}}. {of_one_run(study)}",
        label=error.text,
        levels=(float(known[error.column].max()), float(known[error.column].min())),
        saved=(float(known["saved"].min()), float(known["saved"].max())),
        **{"count": len(known), "plain": ends["DKLA"], "cheap": ends["COKE"]},
    )


def _notes(rounds: pd.DataFrame, savings: pd.DataFrame, error: Axis) -> Iterator[str]:
    """Yield notes on COKE's savings, and on the levels at which the saving shrinks or becomes a loss."""
    on_the_way = saved_on_the_way(rounds, error.column, "DKLA", "COKE", _REFERENCE_ROUNDS)
    if any(share > 0 for share in on_the_way.values()):
        shares = ", ".join(f"{100 * share:.0f}" for share in on_the_way.values())
        numbers = ", ".join(map(str, on_the_way))
        yield (
            f"To reach DKLA's {called(error).lower()} after {numbers} rounds, COKE sent {shares} % fewer frames in "
            "this run."
        )
    saved = savings["COKE saves %"].dropna().to_numpy() if "COKE saves %" in savings else np.zeros(0)
    if len(saved) > 1 and saved.max() > 0 and saved[-1] < saved.max() / 2:
        if saved[-1] < 0:
            yield "Near the lowest levels COKE needs more transmissions than DKLA, because it censored updates."
        else:
            yield (
                "The saving shrinks near the optimum, where the censoring threshold is low and every agent broadcasts."
            )


def _printed(table: str, data: str) -> pd.DataFrame:
    """Return the rows of a published table for a data set, or for the larger set that contains it."""
    paper_rows = published(table)
    return paper_rows[paper_rows["dataset"] == ("twitter_large" if data in _LARGER else data)]


def _by_round(rounds: pd.DataFrame, data: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows of selected rounds, with any published values in extra columns."""
    ours = rounds[rounds["round"].isin({*_SHOWN_ROUNDS, rounds["round"].max()})]
    ours = ours[["algorithm", "round", *columns, "transmissions", "payload_bits", "wire_bits"]]
    paper_rows = _printed("coke_by_round", data).drop(columns="dataset")
    if paper_rows.empty:
        return ours.reset_index(drop=True)
    named = paper_rows.rename(
        columns={name: f"published_{name}" for name in ("train_mse", "test_mse", "transmissions")}
    )
    return pd.merge(ours, named, on=["algorithm", "round"], how="left")


def _savings(rounds: pd.DataFrame, data: str, error: str, best: float) -> pd.DataFrame:
    """Return, for each error level, each algorithm's transmissions, and COKE's saving relative to DKLA."""
    paper_rows = _printed("coke_cost_to_reach", data)
    levels = {*paper_rows["train_mse"], *ladder(rounds, error, best)}
    table = cost_to_reach(rounds, error, levels, saves={"COKE saves %": ("DKLA", "COKE")})
    if len(paper_rows):
        for name in ("DKLA", "COKE"):
            known = paper_rows[paper_rows["algorithm"] == name].set_index("train_mse")["transmissions"]
            table[f"published {name}"] = known.reindex(table["train_mse"]).to_numpy()
    return table
