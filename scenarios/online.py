"""RFF-DOKL, DOKL, ODKLA and QC-ODKLA on the same streams: running error against time, transmissions and bits."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pandas as pd

from netsim.agents import Geometric
from netsim.scenarios.published import published
from netsim.scenarios.tasks.method import Method
from netsim.scenarios.tasks.online_task import (
    OnlineSetting,
    OnlineSteps,
    OnlineStudy,
    QuantizedSteps,
    Stream,
    converged,
    recent_error,
)
from netsim.scenarios.tasks.own import OTHER, check_left_out
from netsim.scenarios.tasks.own_stream import OwnStreaming
from netsim.scenarios.tasks.savings import measure
from netsim.scenarios.tasks.settings import TABLES, Channel, Compared, OwnProblem
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.studies.seeds import Seeds
from netsim.util import check

_RUNNING = "running_mse"


@dataclass(frozen=True, kw_only=True)
class CodedSteps(QuantizedSteps):
    """Step sizes, and QC-ODKLA's censor and coder.

    Parameters
    ----------
    threshold : float
        QC-ODKLA broadcasts in round t if its change has norm >= threshold * decay^t.
    decay : float
        Decay of the threshold per round.
    squared : bool
        QC-ODKLA compares the square of its change's norm with the threshold.
    bits : int
        Bits an element of QC-ODKLA (1-16).
    range : float
        Fixed range [-range, range) of its quantizer; by default a range for each message.
    """

    TABLE = "online_settings"
    # Of a grid, the best on a shuffle that no study runs on; those of airquality are what --tune chose, rounded.
    USUAL: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "airquality": {"rho": 0.3, "eta": 2.0, "step": 0.5},
        "tomshardware": {"rho": 0.3, "eta": 2.0, "step": 0.3},
        "energy": {"rho": 3.0, "eta": 0.3, "step": 0.1},
        "twitter": {"rho": 0.1, "eta": 2.0, "step": 0.3},
        **OnlineSteps.USUAL,
    }

    bits: int = 3

    def censor(self) -> Geometric:
        """Return QC-ODKLA's censor; raises BadInput for numbers outside their ranges."""
        return Geometric(check.finite("threshold", self.threshold), check.number("decay", self.decay), self.squared)


@dataclass(frozen=True, kw_only=True)
class OnlineCompared(OwnProblem, Compared):
    """What the study compares, and on which problem.

    Parameters
    ----------
    task : str
        A Python file whose function task(seed) returns each agent's cost, which changes with time, a graph or None, and
        a measure or None: what is learned in place of the data, for 1000 rounds by default.
    """

    algorithms: str = "RFF-DOKL,DOKL,ODKLA,QC-ODKLA"


def online(
    study: Study,
    *,
    data: str = "synthetic",
    conventions: str = TABLES,
    stream: Stream = Stream(),
    steps: CodedSteps = CodedSteps(),
    setting: OnlineSetting = OnlineSetting(),
    channel: Channel = Channel(),
    compared: OnlineCompared = OnlineCompared(),
    seeds: Seeds = Seeds(),
) -> None:
    """Online kernel learning: RFF-DOKL, DOKL, ODKLA, QC-ODKLA (P. Xu's dissertation, ch. 3).

    Each agent sees one sample a round, predicts it, then learns from it. What is left open is set as the dissertation
    has it for the data set (scenarios/published/online_settings.csv). DDKL, CoDDKL, QDDKL, QC-DDKL are known, too.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of a table in the folder NETSIM_DATA, or its path.
    conventions : str
        How what is left open is set: "tables", with the rows and the scaling under which the dissertation's numbers of
        samples come out; "text", as its text reads: all rows, each column scaled by itself.
    """
    edges, file = setting.edges, compared.task
    if file is not None:
        check_left_out(file, data, stream, setting, but=("rounds", "edges"))
        data = OTHER
    steps, resolved = steps.resolved(data, conventions), setting.resolved(data, conventions)
    methods = steps.chosen(study, compared, compared.algorithms.split(","))
    what, errors = f"{data} data", [_RUNNING]
    if file is None:
        stream = stream.resolved(data, conventions)
        learning = OnlineStudy.of(study, data, stream, resolved, channel, seeds)
    else:
        own = OwnStreaming.of(file, methods, stream.rounds, edges=edges, channel=channel, seeds=seeds)
        stream = dataclasses.replace(stream, rounds=own.rounds)
        learning = OnlineStudy(study, setting, stream, own, None)
        what, errors = f"task {own.name}", list(own.columns)
    methods = learning.tuned(methods)
    learning.play(methods, steps)
    agents = f"{len(learning.main.network.graph)} agents{stream.partition_title}"
    times = running_times(data, learning, methods)
    _report(learning, times, f"{what}, {agents}{channel.title}", errors)


def _report(learning: OnlineStudy, times: pd.DataFrame, of: str, errors: Sequence[str]) -> None:
    study, rounds, error = learning.study, learning.study.rounds, errors[0]
    study.table("ends", "At the end of the stream", learning.ends("ODKLA", errors))
    study.table("running_time", "Running time", times)
    if "published" in times:
        study.note(
            "Published seconds: Matlab on the author's desktop, nothing sent. Ours: every frame encoded, carried and "
            "counted, errors measured in each round; step_seconds: the processor's for the agents' steps alone, one "
            "after the other, from those of the first 200 rounds. They say how the methods compare, not the machines."
        )
    study.note(*learning.notes(), *_unlearned(learning))
    axes = [Axis("round", log=True), Axis("transmissions", log=True), Axis("payload_bits", log=True)]
    shown = converged(rounds[rounds["round"] >= 20], error)
    what = "mean squared error" if error == _RUNNING else "mean cost"
    scale = measure(error, log=not (shown[error] <= 0).any())
    study.figure(
        "mse",
        partial(curves, shown, scale, axes, f"Running error from round 20 on, {of}"),
        f"The {what} of all predictions so far, each made before its sample was learned from, by rounds, "
        "transmissions and payload.",
    )
    if "static_regret" not in rounds:
        return
    regret = rounds.dropna(subset=["static_regret"])
    study.figure(
        "regret",
        partial(curves, regret, measure("static_regret"), [Axis("round")], f"Static regret, {of}"),
        "What each method has lost so far, less what the best fixed model for the same samples would have lost.",
    )


def _unlearned(learning: OnlineStudy) -> Iterator[str]:
    """Yield which methods do not learn, where the target's variance is known."""
    if math.isnan(learning.variance):
        return
    for name, run in learning.study.runs.items():
        recent = recent_error(run.rounds)
        if not recent <= learning.variance:
            yield (
                f"{name} does not learn: its MSE over the last quarter of the rounds, {recent:.4g}, is not below the "
                f"target's variance, {learning.variance:.4g}."
            )


def running_times(data: str, learning: OnlineStudy, methods: Sequence[Method]) -> pd.DataFrame:
    """Return each algorithm's seconds, of the whole run and of the agents' steps alone, beside the published ones."""
    table = published("online_running_time")
    theirs = table[table["dataset"] == data].set_index("algorithm")["seconds"]
    rows = [
        (method.name, learning.seconds[method.name], learning.step_seconds(method))
        for method in methods
        if method.name in learning.seconds
    ]
    frame = pd.DataFrame(rows, columns=["algorithm", "seconds", "step_seconds"])
    return frame if theirs.empty else frame.assign(published=theirs.reindex(frame["algorithm"]).to_numpy())
