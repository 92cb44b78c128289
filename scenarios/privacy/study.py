"""Information revealed by every algorithm: bits of models, bits of raw data, and the final error, on one task."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from netsim import AgentError
from netsim.scenarios.data.tables import training
from netsim.scenarios.privacy.task import PrivacyTask, Projections, SharedSamples, compared
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.settings import Channel
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Seeds
from netsim.studies.experiment.study import Played, study_of
from netsim.studies.figures import Figure, drawing

_SIZE = 64  # bits per number of raw data


def experiment(
    *,
    problem: SharedSamples = SharedSamples(),  # noqa: B008 (frozen)
    rounds: int = 500,
    channel: Channel = Channel(),
    seeds: Seeds = Seeds(),
) -> Experiment:
    """Information revealed by algorithms: model bits, raw-data bits and test error of each, on one task.

    Every agent has its own samples, which most algorithms never send. In the greedy projected penalty method an agent
    sends inputs to request its neighbours' estimates. Successive projections need samples that several agents read.

    Parameters
    ----------
    rounds : int
        Number of rounds of each algorithm; online algorithms pass over their samples repeatedly. For successive
        projections: the total number of turns of all agents.
    """
    return Experiment(
        problem=problem, methods=compared(), networks=channel, seeds=[seeds], rounds=rounds, report=_report
    )


def _unfinished(study: Study, played: Played, error: AgentError | None) -> None:
    """Add a note on an algorithm that did not finish, as may happen on links of low capacity."""
    if error is not None:
        study.note(f"{played.name} did not finish: {error}")


privacy = study_of(experiment, ran=_unfinished)


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, played: Sequence[Played]) -> None:
    task = played[0].task
    assert isinstance(task, PrivacyTask)
    best, size = study.centralised[task.error], task.size
    table = _table(study, task, played)
    inputs, targets = training(task.parts)
    whole = len(targets) * (inputs.shape[1] + 1) * _SIZE
    kept = table[(table["raw_data_bits"] == 0) & np.isfinite(table["test_mse"])].sort_values("test_mse", kind="stable")
    study.ask("What does learning together give away, and what error does it buy?")
    if len(kept):
        answer(
            study,
            "{kept} of {count} algorithms send no raw data; of these {name} has the least test MSE, {error:.3g}, for "
            "{bits:,} bits of models. A centre that gets all {whole:,} raw-data bits has {best:.3g}.",
            of_one_run(study),
            **{"kept": len(kept), "count": len(table), "name": kept["algorithm"].iloc[0], "whole": whole},
            **{"error": kept["test_mse"].iloc[0], "bits": int(kept["model_bits"].iloc[0]), "best": best},
        )
    study.table("given_away", "What each algorithm gives away", table)
    study.note(
        f"All samples sent to a centre, once: {whole:,} raw-data bits, test MSE {best:.4g}; the target's variance is "
        f"{task.variance:.4g}.",
        "Models travel in float32 where they are not coded; inputs, and estimates at them, in float64. The greedy "
        "method asks each neighbour by a message of its own, on a radio, too.",
        f"Successive projections send estimates at samples that all agents read: {size.public} samples were given to "
        "all agents beforehand, which no ledger shows.",
    )
    study.figure(
        "given_away",
        partial(_draw, table, best, f"{size.data} data, {size.agents} agents{size.partition_title}"),
        "The model bits and the raw-data bits that each algorithm sends, and its test error; the grey line is a centre "
        "with all samples.",
        hero=True,
    )


def _table(study: Study, task: PrivacyTask, played: Sequence[Played]) -> pd.DataFrame:
    method_of = {each.name: each.cell.method for each in played}
    rows = []
    for name, run in study.runs.items():
        raw = run.ledger.raw_data_bits
        rows.append(
            {
                "algorithm": name,
                "sends": method_of[name].label.get("sends", ""),
                "transmissions": run.ledger.transmissions,
                "time_s": run.ended_at,
                "model_bits": run.ledger.payload_bits - raw,
                "raw_data_bits": raw,
                "samples others read": task.size.public if isinstance(method_of[name], Projections) else 0,
                "test_mse": task.error_of(run.agents),
            }
        )
    return pd.DataFrame(rows)


def _draw(table: pd.DataFrame, best: float, title: str) -> Figure:
    title, height = f"What each algorithm gives away, {title}", 0.33 * len(table) + 1.9
    figure, (left, right) = drawing(9.5, height, 2, title=title, sharey=True, width_ratios=(3, 2))
    places = np.arange(len(table))
    # Points instead of bars: on a log axis a bar has no zero, and its length would hide factors of ten.
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
        panel.grid(alpha=0.15, axis="x", which="minor")
        panel.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
