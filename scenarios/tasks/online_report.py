"""What is shown and said of online methods: their ends, their recent errors, and what went wrong."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netsim import BadInput
from netsim.scenarios.tasks.diagnosis import missed, silent
from netsim.studies import Study

if TYPE_CHECKING:
    import pandas as pd


def must_have_run(study: Study) -> None:
    """Raise BadInput if every method of a study diverged."""
    if not study.runs:
        raise BadInput(f"algorithms: must be such that one at least does not diverge; {study.notes[-1]}")


def online_notes(study: Study) -> Iterator[str]:
    """Yield what is to be said of every online method: frames that did not arrive, silence, clipped elements."""
    for name, run in study.runs.items():
        frames = missed(run)
        if frames:
            yield f"{name}: {frames}."
        quiet = silent(name, run)
        if quiet:
            yield quiet
        saturated = run.rounds["saturated"].iloc[-1]
        if saturated:
            yield f"{name}: {saturated:,} elements lay outside the quantizer's range and were clipped."


def recent_error(rounds: "pd.DataFrame") -> float:
    """Return a method's mean squared error over the last quarter of its rounds, from its running MSE.

    Parameters
    ----------
    rounds : DataFrame
        One method's rows.
    """
    count, running = rounds["round"].to_numpy(), rounds["running_mse"].to_numpy()
    before = int(len(count) * 3 / 4)
    if not before:
        return float(running[-1])
    start, end = count[before - 1], count[-1]
    return float((end * running[-1] - start * running[before - 1]) / (end - start))


def recent_errors(rounds: "pd.DataFrame", window: int) -> "pd.DataFrame":
    """Return the rounds with a column ``recent_mse``: each method's mean squared error over the last rounds.

    A mean over all rounds so far hides a truth that moves: the errors of the beginning stay in it.

    Parameters
    ----------
    rounds : DataFrame
        All rounds of every method, from the first, with ``running_mse``.
    window : int
        Number of rounds; at the beginning as many as there are.
    """
    groups = rounds.groupby("algorithm", sort=False)
    total = rounds["round"] * rounds["running_mse"]
    before = total.groupby(rounds["algorithm"], sort=False).shift(window).fillna(0.0)
    start = groups["round"].shift(window).fillna(0.0)
    return rounds.assign(recent_mse=(total - before) / (rounds["round"] - start))


def apart(rounds: "pd.DataFrame", column: str, reference: str) -> "pd.DataFrame":
    """Return the rounds of the others with a column ``apart``: by how many percent they are above the reference's.

    Parameters
    ----------
    rounds : DataFrame
        Of several methods, the reference among them.
    column : str
        What is compared, round by round.
    """
    base = rounds[rounds["algorithm"] == reference].set_index("round")[column]
    others = rounds[rounds["algorithm"] != reference]
    return others.assign(apart=100.0 * (others[column] / others["round"].map(base) - 1.0)).dropna(subset=["apart"])


def converged(rounds: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of the algorithms whose error ends within a hundred times the best one's."""
    last = rounds.groupby("algorithm", sort=False)["running_mse"].last()
    good = last.index[last < 100 * last.min()]
    return rounds[rounds["algorithm"].isin(good)]


def ends(study: Study, reference: str) -> "pd.DataFrame":
    """Return a row for each algorithm's end: its error and bits, and both relative to a reference algorithm's."""
    last = study.rounds.groupby("algorithm", sort=False).last().reset_index()
    columns = ["algorithm", "round", "running_mse", "transmissions", "payload_bits", "wire_bits"]
    table = last[columns].copy()
    if reference in set(table["algorithm"]):
        base = table.set_index("algorithm").loc[reference]
        table = table.assign(
            error_ratio=table["running_mse"] / base["running_mse"],
            bits_ratio=table["payload_bits"] / base["payload_bits"],
        )
    return table.rename(columns={"error_ratio": f"MSE / {reference}", "bits_ratio": f"bits / {reference}"})
