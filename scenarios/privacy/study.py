"""What every algorithm gives away: model bits and raw-data bits, and the error that they buy, on one task."""

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netsim import AgentError
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.data.tables import training
from netsim.scenarios.privacy.task import FIELD, PrivacySize, PrivacyTask
from netsim.scenarios.tasks.division import tell_division
from netsim.scenarios.tasks.mapping import choose_sigma
from netsim.scenarios.tasks.settings import Channel
from netsim.studies import Study
from netsim.studies.figures import drawing
from netsim.studies.seeds import Seeds
from netsim.util import check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = 64  # bits of a number of raw data


def privacy(
    study: Study,
    *,
    data: str = FIELD,
    columns: Columns = Columns(),
    size: PrivacySize = PrivacySize(),  # noqa: B008 (frozen)
    rounds: int = 500,
    channel: Channel = Channel(),
    seeds: Seeds = Seeds(),
) -> None:
    """What each algorithm gives away: model bits, raw-data bits and test error of all of them, on one task.

    Every agent has samples of its own, which most algorithms never send. The greedy projected penalty method asks for
    others' estimates at its inputs; successive projections need samples that several agents read.

    Parameters
    ----------
    data : str
        "field": a function of two inputs, with noise; or a table of numbers: its name in the folder NETSIM_DATA, or its
        path (.csv.gz, .csv, .npz, .parquet).
    rounds : int
        Rounds of each algorithm; the online ones pass over their samples again and again. Successive projections: so
        many turns of all agents together.
    """
    check.integer("rounds", rounds, low=1)
    size.check()
    parts, lines = size.draw(data, columns, seeds.data)
    size = dataclasses.replace(size, sigma=choose_sigma(study, size.sigma, size, *training(parts), seed=seeds.seed))
    study.note(*lines)
    study.record(size)
    tell_division(study, parts, size)
    task = PrivacyTask(parts, size, rounds, channel, seeds)
    for entry in task.entries():
        try:
            study.run(entry.name, entry.network, entry.agents, [task.measure(entry)], rounds)
        except AgentError as error:
            # On links that carry too little, one algorithm may fail where others do not.
            study.note(f"{entry.name} did not finish: {error}")
    study.centralised = {"test_mse": task.best()}
    table = _table(study, task)
    study.table("given_away", "What each algorithm gives away", table)
    whole = len(training(parts)[1]) * (task.width + 1) * _SIZE
    study.note(
        f"All samples sent to a centre, once: {whole:,} raw-data bits, test MSE {study.centralised['test_mse']:.4g}; "
        f"the target's variance is {task.variance:.4g}."
    )
    study.note(
        "Models travel in float32 where they are not coded; inputs, and estimates at them, in float64. The greedy "
        "method asks each neighbour by a message of its own, on a radio, too."
    )
    study.note(
        f"Successive projections send estimates at samples that all agents read: {size.public} samples were given to "
        "all agents beforehand, which no ledger shows."
    )
    study.figure(
        "given_away",
        partial(
            _draw, table, study.centralised["test_mse"], f"{data} data, {size.agents} agents{size.partition_title}"
        ),
        "The model bits and the raw-data bits that each algorithm sends, and its test error; the grey line is a centre "
        "with all samples.",
    )


# --- what is shown ----------------------------------------------------------------------------------------------------


def _table(study: Study, task: PrivacyTask) -> pd.DataFrame:
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


def _draw(table: pd.DataFrame, best: float, title: str) -> "Figure":
    figure, (left, right) = drawing(9.5, 0.33 * len(table) + 1.9, 2, sharey=True, width_ratios=(3, 2))
    places = np.arange(len(table))
    # Points, not bars: a bar on a log axis has no zero to stand on, and its length hides factors of ten.
    for column, label, mark, colour in (
        ("model_bits", "model bits", "o", "tab:blue"),
        ("raw_data_bits", "raw-data bits", "D", "tab:red"),
    ):
        bits = table[column].where(table[column] > 0)
        left.plot(bits, places, mark, markersize=7, label=label, color=colour)
    left.set_xscale("log")
    sent = table[["model_bits", "raw_data_bits"]].to_numpy()
    sent = sent[sent > 0]
    if len(sent):
        left.set_xlim(sent.min() / 2, sent.max() * 2)
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
        panel.grid(alpha=0.3)
        panel.grid(alpha=0.15, axis="x", which="minor")
        panel.set_axisbelow(True)
    figure.suptitle(f"What each algorithm gives away, {title}")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
