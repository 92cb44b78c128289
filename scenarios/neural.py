"""A neural network learned jointly by agents, with D-PSGD or any other method that needs only gradients."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from netsim.coders import Float
from netsim.scenarios.tasks.answers import answer_least
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.diagnosis import verdicts
from netsim.scenarios.tasks.method import wanted
from netsim.scenarios.tasks.neural import NetworkModel, NeuralLearning, NeuralSamples
from netsim.scenarios.tasks.savings import cost_to_reach
from netsim.scenarios.tasks.settings import NetworkSize, PacedChannel, Wanted, is_timed
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Method, Seeds
from netsim.studies.experiment.study import Played, study_of
from netsim.studies.figures import Axis, Figure, curves

_ERRORS = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01)
_FEW = 3
"""Up to this many algorithms, figures also show the curve of each algorithm's mean model."""
_USUAL_STEP = 0.1
_MANY_TIMES = 4.0
"""An axis of bits or seconds is logarithmic if some algorithm needs this many times as much as another."""


def gradient_methods() -> Mapping[str, Method]:
    """Return the baselines that need only the gradient of a cost function, by name."""
    return {
        name: method
        for name, method in BASELINES.items()
        if getattr(getattr(method.kind, "local_step", None), "asks", ("gradient",)) == ("gradient",)
    }


def experiment(
    *,
    data: str | None = None,
    samples: NeuralSamples = NeuralSamples(),
    model: NetworkModel = NetworkModel(),
    size: NetworkSize = NetworkSize(rounds=200),
    compared: Wanted = Wanted(algorithms="D-PSGD"),
    channel: PacedChannel = PacedChannel(),
    seeds: Seeds = Seeds(),
) -> Experiment:
    """A neural network learned by D-PSGD or other methods from samples that may differ between agents.

    All agents start from the same parameters. Each agent trains on four fifths of its samples, in minibatches. Models
    are tested on the remaining samples of all agents.

    --algorithms accepts D-PSGD, EXTRA, DIGing, CHOCO, LEAD, BEER, LT-ADMM, SGP, Push-DIGing, AD-PSGD, and over a star
    EF21, EF21-P, FedAvg, SCAFFOLD, SCAFFOLD-states. Each algorithm has a default step size that is not tuned; --eta
    sets one step size for all.

    Parameters
    ----------
    data : str
        "mnist", "digits" (comes with netsim), or another table of classes: its name in NETSIM_DATA or the cache, or
        its path (.csv.gz, .csv, .npz, .parquet). By default mnist if it is available, else digits.
    """
    methods, notes = wanted(compared, gradient_methods(), {"eta": _USUAL_STEP})
    if model.dtype == "float32":
        # Elements are counted as float32 by default, for methods that can use a coder.
        whole = [name for name, each in methods.items() if "coder" in each.parameters() and "coder" not in each.given]
        methods |= {name: methods[name].with_given(coder=Float(32)) for name in whole}
    etas = [f"methods.{name}.eta" for name, each in methods.items() if "eta" in each.given]
    return Experiment(
        problem=NeuralLearning(data=data, samples=samples, model=model, size=size),
        methods=methods,
        networks=channel,
        seeds=[seeds],
        rounds=size.rounds,
        names={"eta": etas} | {name: f"problem.{name}" for name in ("every", "evaluated")},
        notes=notes,
        report=_report,
    )


neural = study_of(experiment)


def _report(study: Study, played: Sequence[Played]) -> None:
    """Add the study's tables, notes and figures."""
    learned: Any = played[-1].cell.problem
    problem, channel, task = learned.whole(), played[-1].cell.network, played[-1].task
    if problem.model.backend != "numpy":
        study.origin["libraries"] = {problem.model.backend: version(problem.model.backend)}
    about = f"{problem.data}, {problem.model.model}, {len(task.nodes)} agents{problem.samples.partition_title}"
    about += getattr(channel, "title", "")
    study.error = "train_loss"
    rounds = study.rounds
    known = rounds[np.isfinite(rounds["train_loss"])]
    counts = ["time_s", "transmissions", "payload_bits", "wire_bits"]
    last = rounds.groupby("algorithm", sort=False).tail(1)[["algorithm", *task.columns, "consensus_error", *counts]]
    answer_least(study, "test_error")
    study.table("ends", "At the end (mean_model: the mean of all agents' models)", last)
    reached = cost_to_reach(known, "test_error", _ERRORS, cost="wire_bits", saves={})
    if len(reached):
        study.table("bits_to_reach", "Bits on the wire to reach a test error", reached)
    study.note(*verdicts(study.runs, "train_loss", lambda name: "--eta"))
    by = ["round", *["time_s"] * is_timed(channel), "wire_bits"]
    whose = "a mean over the agents' models; where there are few algorithms also that of the mean of the models"
    for name, column, label, what in (
        ("error", "test_error", "test error (share misclassified)", "share of test samples that are misclassified"),
        ("loss", "train_loss", "training loss (cross-entropy, nats)", "cross-entropy on all agents' training samples"),
    ):
        if len(known):
            title = f"{label.partition(' (')[0].capitalize()}: {about}"
            drawn = partial(_curves, known, Axis(column, log=name == "loss", label=label), by, title)
            study.figure(name, drawn, f"The {what}, {whose}.", hero=name == "error")


def _curves(rounds: pd.DataFrame, y: Axis, by: Sequence[str], title: str) -> Figure:
    """Draw the agents' mean of a measure against each column of ``by``; for few algorithms also the mean model's."""
    if rounds["algorithm"].nunique() <= _FEW:
        parts = []
        for name, part in rounds.groupby("algorithm", sort=False):
            mean = part.assign(algorithm=f"{name}, mean model", **{y.column: part[f"mean_model_{y.column}"]})
            parts += [part.assign(algorithm=f"{name}, agents' models"), mean]
        rounds = pd.concat(parts, ignore_index=True)
    ends = rounds.groupby("algorithm")[list(by)].max()
    axes = [Axis(each, log=ends[each].max() > _MANY_TIMES * ends[each].min()) for each in by]
    return curves(rounds, y, axes, title)
