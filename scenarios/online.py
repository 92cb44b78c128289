"""RFF-DOKL, DOKL, ODKLA and QC-ODKLA on one stream a network: running error against time, triggers and bits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from netsim import check
from netsim.agents import Geometric
from netsim.coders import Uniform
from netsim.scenarios.data.streams import rounds_of
from netsim.scenarios.data.tables import Table, split_rows
from netsim.scenarios.published import published
from netsim.scenarios.tasks.mapping import feature_map
from netsim.scenarios.tasks.method import remedied
from netsim.scenarios.tasks.online_report import converged, ends, must_have_run, online_notes, recent_error
from netsim.scenarios.tasks.online_task import OnlineSteps, Streaming, fixed_or_own, methods, own_methods, wanted
from netsim.scenarios.tasks.savings import measure
from netsim.scenarios.tasks.settings import TABLES, Channel, Compared
from netsim.scenarios.tasks.stream import OnlineSetting, Stream
from netsim.studies import Study
from netsim.studies.figures import Axis, curves

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class CodedSteps(OnlineSteps):
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
    saturate : bool
        What lies outside that range takes its last level. Without: the integer goes on, with the bits that it needs
        (equation 3.21 as printed).
    """

    TABLE = "online_settings"
    USUAL_CONVENTIONS = TABLES
    # Of a grid, the best on a shuffle that no study runs on; those of airquality are what --tune chose, rounded.
    USUAL: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "airquality": {"rho": 0.3, "eta": 2.0, "step": 0.5},
        "tomshardware": {"rho": 0.3, "eta": 2.0, "step": 0.3},
        "energy": {"rho": 3.0, "eta": 0.3, "step": 0.1},
        "twitter": {"rho": 0.1, "eta": 2.0, "step": 0.3},
        **OnlineSteps.USUAL,
    }

    bits: int = 3
    range: float | None = None
    saturate: bool = True
    squared: bool = False

    def coder(self) -> Uniform:
        """Return QC-ODKLA's coder; raises BadInput for numbers outside their ranges."""
        return fixed_or_own(self.bits, self.range, saturate=self.saturate)

    def censor(self) -> Geometric:
        """Return QC-ODKLA's censor; raises BadInput for numbers outside their ranges."""
        return Geometric(check.finite("threshold", self.threshold), check.number("decay", self.decay), self.squared)


def online(
    study: Study,
    *,
    data: str = "synthetic",
    conventions: str = TABLES,
    stream: Stream = Stream(),
    steps: CodedSteps = CodedSteps(),
    setting: OnlineSetting = OnlineSetting(),
    channel: Channel = Channel(),
    compared: Compared = Compared(algorithms="RFF-DOKL,DOKL,ODKLA,QC-ODKLA"),
    seed: int = 0,
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
    stream : Stream
        The samples and their order.
    steps : CodedSteps
        Step sizes, censor and coder.
    setting : OnlineSetting
        The size of the network and of the model.
    channel : Channel
        The links.
    compared : Compared
        The algorithms.
    seed : int
        Seed of everything random.
    """
    steps, setting = steps.resolved(data, conventions), setting.resolved(data, conventions)
    stream = stream.resolved(data, conventions)
    censor = steps.censor()
    run = wanted(compared.algorithms, methods(censor, steps.coder()))
    run = [steps.of(each) for each in run] + own_methods(compared, steps, censor, compared.algorithms.split(","))
    run = remedied(study, run, compared.remedy)
    count = check.integer("agents", setting.agents, low=1)
    table = stream.load(data, count, seed)
    network = channel.network(setting.graph(seed), seed)
    held, table = split_rows(table, 0.1, seed=seed) if setting.tune else (table, table)
    length = stream.length(table, count)
    phi, setting = feature_map(study, setting, held.inputs, held.target, form="cos+sin", seed=seed)

    def streaming(rows: Table) -> Streaming:
        regularizer = check.finite("regularizer", setting.regularizer)
        return Streaming(network, channel.is_ideal, stream.dealt(rows, count, phi, seed), phi.size, regularizer)

    if setting.tune:
        run = streaming(held).tune(study, run, min(rounds_of(held, count), 500))
    study.record(steps.untold() if setting.tune else steps, setting, stream)
    main = streaming(table)
    for method in run:
        main.run(study, method, length)
    must_have_run(study)
    _report(study, data, channel, main, float(np.var(table.target)))


def _report(study: Study, data: str, channel: Channel, streaming: Streaming, variance: float) -> None:
    study.table("ends", "At the end of the stream", ends(study, "ODKLA"))
    times = running_times(data, streaming)
    study.table("running_time", "Running time", times)
    if "published" in times:
        study.note(
            "Published seconds: Matlab on the author's desktop, nothing sent. Ours: every frame encoded, carried and "
            "counted, errors measured in each round; step_seconds: the processor's for their steps alone. They say how "
            "the methods compare, not the machines."
        )
    rounds = study.rounds
    for line in _notes(study, variance):
        study.note(line)
    axes = [Axis("round", log=True), Axis("transmissions", log=True), Axis("payload_bits", log=True)]
    shown = converged(rounds[rounds["round"] >= 20])
    of = f"{data} data, {len(streaming.graph)} agents{channel.title}"
    title = f"Running error from round 20 on, {of}"
    study.figure(
        "mse",
        curves(shown, measure("running_mse", log=True), axes, title),
        "The mean squared error of all predictions so far, each made before its sample was learned from, by rounds, "
        "transmissions and payload.",
    )
    regret = rounds.dropna(subset=["static_regret"])
    title = f"Static regret, {of}"
    study.figure(
        "regret",
        curves(regret, measure("static_regret"), [Axis("round")], title),
        "What each method has lost so far, less what the best fixed model for the same samples would have lost.",
    )


def _notes(study: Study, variance: float) -> Iterator[str]:
    yield from online_notes(study)
    for name, run in study.runs.items():
        recent = recent_error(run.rounds)
        if not recent <= variance:
            yield (
                f"{name} does not learn: its MSE over the last quarter of the rounds, {recent:.4g}, is not below the "
                f"target's variance, {variance:.4g}."
            )


def running_times(data: str, streaming: Streaming) -> "pd.DataFrame":
    """Return each algorithm's seconds beside the published ones."""
    import pandas as pd

    table = published("online_running_time")
    theirs = table[table["dataset"] == data].set_index("algorithm")["seconds"]
    names, ours, steps = list(streaming.seconds), streaming.seconds.values(), streaming.step_seconds.values()
    frame = pd.DataFrame({"algorithm": names, "seconds": list(ours), "step_seconds": list(steps)})
    return frame if theirs.empty else frame.assign(published=theirs.reindex(names).to_numpy())
