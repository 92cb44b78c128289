"""What every algorithm gives away: model bits and raw-data bits, and the error that they buy, on one task."""

from typing import TYPE_CHECKING

import numpy as np

from netsim import AgentError, check
from netsim.scenarios.data.tables import training
from netsim.scenarios.privacy.task import Task, draw_samples
from netsim.scenarios.tasks.mapping import choose_sigma
from netsim.scenarios.tasks.settings import Bandwidth, Channel
from netsim.studies import Study

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SIZE = 64  # bits of a number of raw data


def privacy(
    study: Study,
    *,
    data: str = "field",
    agents: int = 10,
    samples: int = 100,
    public: int = 20,
    rounds: int = 500,
    features: int = 50,
    sigma: float = 0.25,
    regularizer: float = 1e-3,
    bandwidth: Bandwidth = Bandwidth(),
    channel: Channel = Channel(),
    seed: int = 0,
) -> None:
    """What each algorithm gives away: model bits, raw-data bits and test error of all of them, on one task.

    Every agent has samples of its own, which most algorithms never send. The greedy projected penalty method asks for
    others' estimates at its inputs; successive projections need samples that several agents read.

    Parameters
    ----------
    data : str
        "field": a function of two inputs, with noise; or the NAME of NAME.csv.gz in the folder NETSIM_DATA.
    agents : int
        Number of agents.
    samples : int
        Samples of each agent to train on; as many again are for the test.
    public : int
        Samples that all agents read, for successive projections only: so many of the training samples in all.
    rounds : int
        Rounds of each algorithm; the online ones pass over their samples again and again. Successive projections: so
        many turns of all agents together.
    features : int
        Number of random frequencies, of a sine and a cosine each.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1]. Multi-kernel methods have half and twice that,
        too.
    regularizer : float
        The centre's regulariser lambda.
    bandwidth : Bandwidth
        How sigma is chosen, if not as given.
    channel : Channel
        The links.
    seed : int
        Seed of everything random.
    """
    check.integer("rounds", rounds, low=1)
    check.integer("agents", agents, low=2)
    check.integer("samples", samples, low=2)
    check.integer("features", features, low=1)
    check.integer("public", public, low=1, high=agents * samples)
    check.finite("sigma", sigma, above=0.0)
    check.finite("regularizer", regularizer, above=0.0)
    check.integer("seed", seed, low=0)
    parts = draw_samples(data, agents, samples, seed)
    sigma = choose_sigma(study, sigma, *training(parts), seed=seed)
    task = Task(parts, features, sigma, regularizer, rounds, public, channel, seed)
    for entry in task.entries():
        try:
            study.run(entry.name, entry.network, entry.agents, [task.measure(entry)], rounds)
        except AgentError as error:
            # On links that carry too little one algorithm may not get through where others do.
            study.note(f"{entry.name} did not finish: {error}")
    study.centralised = {"test_mse": task.best()}
    table = _table(study, task)
    study.table("given_away", "What each algorithm gives away", table)
    whole = agents * samples * (task.width + 1) * _SIZE
    study.note(
        f"All samples sent to a centre, once: {whole:,} raw-data bits, test MSE {study.centralised['test_mse']:.4g}; "
        f"the target's variance is {task.variance:.4g}."
    )
    study.note(
        "Models travel in float32 where they are not coded; inputs, and estimates at them, in float64. The greedy "
        "method asks each neighbour by a message of its own, on a radio, too."
    )
    study.note(
        f"Successive projections send estimates at samples that all agents read: {public} samples were given to "
        "everybody beforehand, which no ledger shows."
    )
    study.figure("given_away", _draw(table, study.centralised["test_mse"], f"{data} data, {agents} agents"))


# --- what is shown ----------------------------------------------------------------------------------------------------


def _table(study: Study, task: Task) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for name, run in study.runs.items():
        entry = task.entry_by_name[name]
        error = float(np.mean(np.square(entry.predict(run.agents) - task.truth)))
        raw = run.ledger.raw_data_bits
        rows.append(
            {
                "algorithm": name,
                "sends": entry.sends,
                "transmissions": run.ledger.transmissions,
                "time_s": run.ended_at,
                "model_bits": run.ledger.payload_bits - raw,
                "raw_data_bits": raw,
                "samples others read": entry.read_by_others,
                "test_mse": error,
            }
        )
    return pd.DataFrame(rows)


def _draw(table: "pd.DataFrame", best: float, title: str) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 0.33 * len(table) + 1.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    places = np.arange(len(table))
    for shift, column, label, colour in (
        (-0.19, "model_bits", "model bits", "tab:blue"),
        (0.19, "raw_data_bits", "raw-data bits", "tab:red"),
    ):
        bits = table[column].where(table[column] > 0)
        left.barh(places + shift, bits, height=0.38, label=label, color=colour)
    left.set_xscale("log")
    sent = table[["model_bits", "raw_data_bits"]].to_numpy()
    # Bars on a log axis stand on a power of ten.
    left.set_xlim(left=10.0 ** np.floor(np.log10(sent[sent > 0].min(initial=10.0) / 2)))
    left.set_xlabel("payload (bits)")
    left.set_yticks(places, table["algorithm"])
    left.invert_yaxis()
    right.plot(table["test_mse"], places, "o", color="black")
    right.axvline(best, color="0.4", linewidth=1, label="centralised")
    errors = table["test_mse"].to_numpy()
    if np.nanmax(errors) > 10 * min(best, float(np.nanmin(errors))):
        right.set_xscale("log")
    right.set_xlabel("test MSE")
    for panel in (left, right):
        panel.grid(alpha=0.3, axis="x")
        panel.set_axisbelow(True)
    figure.suptitle(f"What each algorithm gives away, {title}")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
