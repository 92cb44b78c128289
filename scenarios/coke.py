"""CTA, DKLA and COKE on one network: training error against rounds, transmissions and bits."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from netsim.agents import COKE, CTA, DKLA, Geometric
from netsim.agents.maps.features import Form
from netsim.coders import Uniform
from netsim.scenarios.published import published
from netsim.scenarios.tasks.batch_task import BatchSteps, BatchTask, batch_task, draw_samples
from netsim.scenarios.tasks.diagnosis import diverged, silent, unheard
from netsim.scenarios.tasks.labels import measure
from netsim.scenarios.tasks.method import Method, check_joined, methods_in, remedied
from netsim.scenarios.tasks.savings import cost_to_reach, draw_savings, ladder, saved_on_the_way
from netsim.scenarios.tasks.settings import (
    TABLES,
    TEXT,
    Channel,
    Compared,
    Prepared,
    Rows,
    Setting,
    chosen_names,
    published_row,
)
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_ROUNDS = (50, 100, 200, 500, 1000, 1500, 2000)

_LARGER = {"twitter": "the larger Twitter set, 98,704 rows"}
"""Data sets that are printed only for a larger one."""

_LADDER = (10, 20, 50, 100, 200, 300)
"""Rounds of DKLA; what it has reached then is what COKE must reach, too."""

FORMS: Mapping[str, Form] = {"cosine": "cos", "pairs": "cos+sin"}
"""Forms of the random features, by the names that --form has for them."""


@dataclass(frozen=True, kw_only=True)
class CokeSetting(Setting):
    """The size of the network and of the model, and the form of its features.

    Parameters
    ----------
    form : str
        "cosine": √(2/L) cos(ωᵀx + b), a model of L elements. "pairs": √(1/L) [cos ωᵀx, sin ωᵀx], one of 2L.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {**Setting.COLUMNS, "form": "form"}
    USUAL_CONVENTIONS: ClassVar[str] = TABLES

    form: str | None = None

    @property
    def features_form(self) -> Form:
        """The form, as the feature maps call it; raises BadInput for an unknown one."""
        return FORMS[check.one_of("form", self.form, FORMS)]


@dataclass(frozen=True, kw_only=True)
class CokeRows(Prepared, Rows):
    """Which rows and columns of a table are used, and how they are scaled; what is left open is as found."""


@dataclass(frozen=True, kw_only=True)
class CokeSteps(BatchSteps):
    """Step sizes of the batch methods, COKE's censor, and its bits; what CTA makes of a neighbour that it did not hear.

    Parameters
    ----------
    squared : bool
        COKE compares the square of its change's norm with the threshold.
    gradient : float
        Factor of CTA's gradient: 2 is the gradient of the squared error, 1 that of half of it.
    bits : int
        Also run COKE with its changes quantized to so many bits an element (1-16), range per message; with 8 it is
        called "COKE 8-bit", and --algorithms may name it.
    unheard : str
        Of a neighbour that CTA did not hear in a round its last state counts ("kept"), or it is left out and the other
        weights grow ("dropped").
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {**BatchSteps.COLUMNS, "squared": "squared", "gradient": "gradient"}
    USUAL_CONVENTIONS: ClassVar[str] = TABLES

    squared: bool | None = None
    gradient: float | None = None
    bits: int | None = None
    unheard: str = "kept"

    def censor(self) -> Geometric:
        """Return COKE's censor; raises BadInput for numbers outside their ranges."""
        return dataclasses.replace(super().censor(), squared=check.flag("squared", self.squared))


def coke(
    study: Study,
    *,
    data: str = "synthetic",
    conventions: str = TABLES,
    rounds: int = 1000,
    rows: CokeRows = CokeRows(),
    steps: CokeSteps = CokeSteps(),
    setting: CokeSetting = CokeSetting(),
    channel: Channel = Channel(),
    compared: Compared = Compared(algorithms="CTA,DKLA,COKE"),
    seed: int = 0,
) -> None:
    """Batch kernel learning: CTA, DKLA and COKE on one network (Xu, Wang, Chen and Tian 2021).

    What is left open is set for the data set as the paper has it; what its text does not state, so that our runs come
    nearest to its printed tables (scenarios/published/settings.csv).

    Parameters
    ----------
    data : str
        "synthetic" (the paper's), or the NAME of a table in the folder NETSIM_DATA, or its path.
    conventions : str
        How what is left open is set: "tables", under which ours come close to the paper's printed tables; "text", as
        its text reads. The synthetic data have the text's only.
    rounds : int
        Number of rounds.
    rows : CokeRows
        Which rows and columns of a table are used, and how they are scaled.
    steps : CokeSteps
        Step sizes, censor and coder.
    setting : CokeSetting
        The size of the network and of the model, and the form of its features.
    channel : Channel
        The links.
    compared : Compared
        The algorithms.
    seed : int
        Seed of everything random.
    """
    steps, setting = steps.resolved(data, conventions), setting.resolved(data, conventions)
    rows = rows.resolved(data, conventions)
    # Everything that can refuse an argument comes before the long work.
    check.integer("rounds", rounds, low=1)
    methods = remedied(study, _methods(compared, steps), compared.remedy)
    samples = draw_samples(data, setting, rows, seed)
    graph = setting.graph(seed)
    network = channel.network(graph, seed)
    task, setting = batch_task(
        study, samples, setting, graph, ideal=channel.is_ideal, form=setting.features_form, seed=seed
    )
    study.record(steps, setting, rows)
    for line in _conventions(data, setting, steps, rows):
        study.note(line)
    for method in methods:
        agents = method.made(study, method.name, task, rounds)
        run = study.run(method.name, network, agents, [task.measure], rounds, watch=task.watch)
        check_joined(method.name, run)
    study.centralised, study.constant = task.optimum(), {"train_mse": task.variance}
    _report(study, f"{data} data, {len(task.nodes)} agents{channel.title}", data, task, methods)


def _methods(compared: Compared, steps: CokeSteps) -> list[Method]:
    """Return what is compared: the study's own, COKE with a coder, the user's."""
    sizes, censor = steps.checked(), steps.censor()
    rho = {"rho": sizes["rho"]}
    # R_i is the squared error itself, whose gradient has the factor 2.
    eta = {"eta": sizes["eta"] * check.finite("gradient", steps.gradient, above=0.0) / 2.0}
    check.one_of("unheard", steps.unheard, ("kept", "dropped"))
    known = {
        "CTA": Method("CTA", CTA, eta, unheard=steps.unheard),
        "DKLA": Method("DKLA", DKLA, rho),
        "COKE": Method("COKE", COKE, rho, censor),
    }
    if steps.bits is not None:
        coded = Method(f"COKE {steps.bits}-bit", COKE, rho, censor, Uniform(steps.bits))
        known[coded.name] = coded
    found = [known[name] for name in chosen_names("algorithms", compared.algorithms, known)]
    if steps.bits is not None and coded not in found:
        found.append(coded)
    return found + methods_in(compared.method, sizes | {"censor": censor}, [each.name for each in found])


def _conventions(data: str, setting: CokeSetting, steps: CokeSteps, rows: CokeRows) -> Iterator[str]:
    """Yield a note that names what is set otherwise than the paper's text has it, for a data set in its tables."""
    if not len(_printed("coke_by_round", data)):
        return
    text = published_row(Setting.TABLE, data, TEXT)
    pairs = setting.form == "pairs"
    said = {
        "features √(1/L) [cos, sin], 2L elements a message (the text: √(2/L) cos, L elements)": pairs,
        "the censor on ‖h‖² (the text: ‖h‖)": steps.squared,
        f"the first {rows.first} rows": rows.first,
        f"rows with a target within {rows.within} standard deviations of its mean": rows.within,
        "one minimum and maximum for all inputs (the text leaves open which)": rows.scaling == "whole",
        f"the target {rows.target}": rows.target,
        f"without the columns {rows.drop}": rows.drop,
        f"{setting.edges} links (the text: {text['edges']} edges)": setting.edges != text["edges"],
        "CTA's gradient without its factor 2": steps.gradient == 1.0,
        f"threshold {steps.threshold:g} and decay {steps.decay:g}, as of the larger set": data in _LARGER
        and steps.threshold != text["threshold_v"],
    }
    differs = [what for what, so in said.items() if so]
    if differs:
        listed = "; ".join(differs)
        yield f"Set so that ours come close to the printed tables: {listed}. --conventions text: as the text reads."
    else:
        yield "Set as the paper's text reads; --conventions tables: so that ours come close to its tables."
    if data in _LARGER:
        yield f"The printed columns are those of {_LARGER[data]}."


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, title: str, data: str, task: BatchTask, methods: Sequence[Method]) -> None:
    rounds = study.rounds
    best = study.centralised["train_mse"]
    table = _by_round(rounds, data)
    beside = " (published: the paper's)" if "published_train_mse" in table else ""
    study.table("by_round", f"Errors and cost by round{beside}", table)
    savings = _savings(rounds, data, best)
    if len(savings):
        study.table("cost_to_reach", "Transmissions to reach a training MSE", savings)
    for line in _notes(study, data, task, methods, savings):
        study.note(line)
    finite = rounds[np.isfinite(rounds["train_mse"]) & (rounds["train_mse"] < 100 * task.variance)]
    axes = [Axis("round", log=True), Axis("transmissions", log=True), Axis("wire_bits", log=True)]
    levels = {"centralised": best}
    error = measure("train_mse", log=True)
    study.figure(
        "mse",
        curves(finite, error, axes, f"Training error, {title}", levels),
        "The training error of each algorithm by rounds, transmissions and bits on the wire; the grey line is what a "
        "centre with all samples reaches.",
    )
    # Where the curves lie upon one another, the saving is in how far they are apart sideways.
    saving = draw_savings(finite, "train_mse", best, "DKLA", label=error.text, title=f"What is saved, {title}")
    if saving is not None:
        study.figure(
            "saving",
            saving,
            "What share of DKLA's transmissions, and of its bits, each algorithm saves on the way to a training error.",
        )


def _notes(
    study: Study, data: str, task: BatchTask, methods: Sequence[Method], savings: "pd.DataFrame"
) -> Iterator[str]:
    best = study.centralised["train_mse"]
    on_the_way = saved_on_the_way(study.rounds, "train_mse", "DKLA", "COKE", _LADDER)
    if any(share > 0 for share in on_the_way.values()):
        shares = ", ".join(f"{100 * share:.0f}" for share in on_the_way.values())
        numbers = ", ".join(map(str, on_the_way))
        yield f"To get where DKLA was after {numbers} rounds, COKE sent {shares} % fewer frames in this run."
    saved = savings["COKE saves %"].dropna().to_numpy() if "COKE saves %" in savings else np.zeros(0)
    if len(saved) > 1 and saved.max() > 0 and saved[-1] < saved.max() / 2:
        if saved[-1] < 0:
            yield "Near the lowest levels COKE needs more transmissions than DKLA: what it kept back is missing there."
        else:
            yield "The saving shrinks as the level nears the optimum: there the threshold is low and everybody speaks."
    yield f"Centralised: training MSE {best:.4g}, test MSE {study.centralised['test_mse']:.4g}."
    if best > task.variance:
        yield (
            f"Does not learn: the centralised training MSE exceeds the target's variance, {task.variance:.4g}. "
            "Another --sigma may help, or --tune (Air quality learns with 0.5)."
        )
    kinds = {method.name: method.kind for method in methods}
    for name, run in study.runs.items():
        steps = "--eta" if issubclass(kinds[name], CTA) else ""
        quiet = silent(name, run)
        said = [quiet] if quiet else [diverged(name, run, "train_mse", steps), unheard(name, run)]
        yield from filter(None, said)


def _printed(table: str, data: str) -> "pd.DataFrame":
    """Return the rows of a printed table for a data set, or for the larger one that it is a part of."""
    theirs = published(table)
    return theirs[theirs["dataset"] == ("twitter_large" if data in _LARGER else data)]


def _by_round(rounds: "pd.DataFrame", data: str) -> "pd.DataFrame":
    """Return the rows of some rounds, the published numbers beside ours where there are any."""
    import pandas as pd

    ours = rounds[rounds["round"].isin({*_SHOWN_ROUNDS, rounds["round"].max()})]
    ours = ours[["algorithm", "round", "train_mse", "test_mse", "transmissions", "payload_bits", "wire_bits"]]
    theirs = _printed("coke_by_round", data).drop(columns="dataset")
    if theirs.empty:
        return ours.reset_index(drop=True)
    named = theirs.rename(columns={name: f"published_{name}" for name in ("train_mse", "test_mse", "transmissions")})
    return pd.merge(ours, named, on=["algorithm", "round"], how="left")


def _savings(rounds: "pd.DataFrame", data: str, best: float) -> "pd.DataFrame":
    """Return, level by level, the transmissions that each algorithm needed, and what COKE saved against DKLA."""
    theirs = _printed("coke_cost_to_reach", data)
    levels = {*theirs["train_mse"], *ladder(rounds, "train_mse", best)}
    table = cost_to_reach(rounds, "train_mse", levels, saves={"COKE saves %": ("DKLA", "COKE")})
    if len(theirs):
        for name in ("DKLA", "COKE"):
            known = theirs[theirs["algorithm"] == name].set_index("train_mse")["transmissions"]
            table[f"published {name}"] = known.reindex(table["train_mse"]).to_numpy()
    return table
