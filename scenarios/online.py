"""RFF-DOKL, DOKL, ODKLA and QC-ODKLA on one stream a network: running error against time, triggers and bits."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim import check
from netsim.agents import Geometric
from netsim.agents.costs.stream import Samples
from netsim.quantize import Uniform
from netsim.scenarios.data.streams import by_target, in_order, rounds_of, shuffled
from netsim.scenarios.data.tables import Table, load_table, pooled, scale_unit, split_rows, synthetic
from netsim.scenarios.published import published
from netsim.scenarios.tasks.labels import measure
from netsim.scenarios.tasks.mapping import feature_map
from netsim.scenarios.tasks.online import Steps, Streaming, choose_steps, converged, ends, methods, wanted
from netsim.scenarios.tasks.settings import Channel, Setting, complete, random_graph
from netsim.studies import Study
from netsim.studies.figures import Axis, curves

if TYPE_CHECKING:
    import pandas as pd

# What --tune chose with seed 0, rounded; the dissertation does not print its own.
_STEPS = {"airquality": Steps(rho=0.3, eta=2.0, step=0.5)}
_USUAL_STEPS = Steps(rho=1.0, eta=8.0, step=0.1)


def online(
    study: Study,
    *,
    data: str = "synthetic",
    rounds: int | None = None,
    order: str = "shuffled",
    mixing: float = 0.0,
    rho: float | None = None,
    eta: float | None = None,
    step: float | None = None,
    threshold: float | None = None,
    decay: float | None = None,
    bits: int = 3,
    range: float | None = None,
    algorithms: str = "RFF-DOKL,DOKL,ODKLA,QC-ODKLA",
    setting: Setting = Setting(),  # noqa: B008 (frozen)
    channel: Channel = Channel(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> None:
    """Online kernel learning: RFF-DOKL, DOKL, ODKLA, QC-ODKLA (P. Xu's dissertation, ch. 3).

    Each agent sees one sample a round, predicts it, then learns from it. What is left open is set as the dissertation
    has it for the data set (scenarios/published/online_settings.csv).

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of NAME.csv.gz in the folder NETSIM_DATA.
    rounds : int
        Number of rounds; by default as many as the data have samples for each agent.
    order : str
        "shuffled"; "time": rows in file order; "target": rows sorted by target, each agent another part of them.
    mixing : float
        With order "target": share of the rows that is dealt at random all the same.
    rho : float
        Penalty of the ADMM methods.
    eta : float
        Weight of staying where one is, of the ADMM methods: the larger, the shorter the step.
    step : float
        Step size of RFF-DOKL.
    threshold : float
        QC-ODKLA broadcasts in round t if its change has norm >= threshold * decay^t.
    decay : float
        Decay of the threshold per round.
    bits : int
        Bits an element of QC-ODKLA (1-16).
    range : float
        Fixed range [-range, range) of its quantizer; by default a range for each message.
    algorithms : str
        Which to run, with commas between; DDKL, CoDDKL, QDDKL, QC-DDKL are known, too.
    setting : Setting
        The size of the network and of the model.
    channel : Channel
        The links.
    seed : int
        Seed of everything random.
    """
    chosen = complete(data, study.settings, "online_settings")
    study.settings |= chosen
    coder = Uniform(bits) if range is None else Uniform(bits, -range, range)
    known = methods(Geometric(chosen["threshold"], chosen["decay"]), coder)
    run = wanted(algorithms, known)
    check.one_of("order", order, ("shuffled", "time", "target"))
    check.probability("mixing", mixing)
    network = channel.network(random_graph(chosen, seed), seed)
    count = len(network.graph)
    table = pooled(synthetic(20, seed=seed)) if data == "synthetic" else scale_unit(load_table(data))
    held, table = split_rows(table, 0.1, seed=seed) if setting.tune else (table, table)
    phi = feature_map(study, chosen, held.inputs, held.target, form="cos+sin", seed=seed)

    def streams(rows: Table) -> Callable[[], Sequence[Samples]]:
        if order == "time":
            return lambda: in_order(rows, count, phi)
        if order == "target":
            return lambda: by_target(rows, count, phi, mixing=mixing, seed=seed)
        return lambda: shuffled(rows, count, phi, seed)

    def streaming(rows: Table) -> Streaming:
        return Streaming(network, channel.is_ideal, streams(rows), phi.size, chosen["regularizer"])

    most = rounds_of(table, count)
    length = most if rounds is None else check.integer("rounds", rounds, low=1, high=most)
    trial = streaming(held) if setting.tune else None
    steps = choose_steps(study, trial, min(rounds_of(held, count), 500), run, _STEPS.get(data, _USUAL_STEPS))
    main = streaming(table)
    for method in run:
        main.run(study, method, length, steps[method.name])
    _report(study, data, main, float(np.var(table.target)))


def _report(study: Study, data: str, streaming: Streaming, variance: float) -> None:
    study.table("ends", "At the end of the stream", ends(study, "ODKLA"))
    study.table("running_time", "Running time", running_times(data, streaming))
    study.note(
        "Published seconds: Matlab on the author's desktop, nothing sent. Ours: every frame encoded, carried and "
        "counted, errors measured in each round. They say how the methods compare, not the machines."
    )
    rounds = study.rounds
    for name, part in rounds.groupby("algorithm", sort=False):
        if not part["running_mse"].iloc[-1] <= variance:
            study.note(f"{name} does not learn: its running MSE exceeds the target's variance, {variance:.4g}.")
        saturated = part["saturated"].iloc[-1]
        if saturated:
            study.note(f"{name}: {saturated:,} elements lay outside the quantizer's range and were clipped.")
    axes = [Axis("round", log=True), Axis("transmissions", log=True), Axis("payload_bits", log=True)]
    shown = converged(rounds[rounds["round"] >= 20])
    title = f"Running error from round 20 on, {data} data, {len(streaming.graph)} agents"
    study.figure("mse", curves(shown, measure("running_mse", log=True), axes, title))
    regret = rounds.dropna(subset=["static_regret"])
    title = f"Static regret, {data} data, {len(streaming.graph)} agents"
    study.figure("regret", curves(regret, measure("static_regret"), [Axis("round")], title))


def running_times(data: str, streaming: Streaming) -> "pd.DataFrame":
    """Return each algorithm's seconds beside the published ones."""
    import pandas as pd

    table = published("online_running_time")
    theirs = table[table["dataset"] == data].set_index("algorithm")["seconds"]
    names, ours = list(streaming.seconds), list(streaming.seconds.values())
    return pd.DataFrame({"algorithm": names, "seconds": ours, "published": theirs.reindex(names).to_numpy()})
