"""CTA, DKLA and COKE on one network: training error against rounds, transmissions and bits."""

from typing import TYPE_CHECKING

import numpy as np

from netsim import check
from netsim.agents import Geometric
from netsim.count.records import DELIVERED
from netsim.quantize import Coder, Uniform
from netsim.scenarios.published import published
from netsim.scenarios.tasks.batch import BatchTask
from netsim.scenarios.tasks.labels import measure
from netsim.scenarios.tasks.savings import cost_to_reach, ladder
from netsim.scenarios.tasks.settings import Channel, Setting, chosen_names, complete, random_graph
from netsim.studies import Study
from netsim.studies.figures import Axis, curves

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_ROUNDS = (50, 100, 200, 500, 1000, 1500, 2000)


def coke(
    study: Study,
    *,
    data: str = "synthetic",
    rounds: int = 1000,
    rows: int | None = None,
    rho: float | None = None,
    eta: float | None = None,
    threshold: float | None = None,
    decay: float | None = None,
    bits: int | None = None,
    setting: Setting = Setting(),  # noqa: B008 (frozen)
    channel: Channel = Channel(),  # noqa: B008 (frozen)
    algorithms: str = "CTA,DKLA,COKE",
    seed: int = 0,
) -> None:
    """Batch kernel learning: CTA, DKLA and COKE on one network (Xu, Wang, Chen and Tian 2021).

    What is left open is set as the paper has it for the data set (scenarios/published/settings.csv).

    Parameters
    ----------
    data : str
        "synthetic" (the paper's), or the NAME of NAME.csv.gz in the folder NETSIM_DATA.
    rounds : int
        Number of rounds.
    rows : int
        Use only so many rows of the table, taken at random.
    rho : float
        Penalty of DKLA and COKE.
    eta : float
        Step size of CTA.
    threshold : float
        COKE broadcasts in round k if its change has norm >= threshold * decay^k.
    decay : float
        Decay of the threshold per round.
    bits : int
        Also run COKE with its changes quantized to so many bits an element (1-16), range per message.
    setting : Setting
        The size of the network and of the model.
    channel : Channel
        The links.
    algorithms : str
        Which to run, with commas between.
    seed : int
        Seed of everything random.
    """
    chosen = complete(data, study.settings)
    study.settings |= chosen
    # Everything that can refuse an argument comes before the long work.
    check.integer("rounds", rounds, low=1)
    graph = random_graph(chosen, seed)
    network = channel.network(graph, seed)
    wanted = chosen_names("algorithms", algorithms, ("CTA", "DKLA", "COKE"))
    for name in ("rho", "eta"):
        check.finite(name, chosen[name], above=0.0)
    coder = None if bits is None else Uniform(bits)
    censor = Geometric(chosen["threshold"], chosen["decay"])
    task = BatchTask(study, data, chosen, graph, rows=rows, seed=seed, ideal=channel.is_ideal)
    variants: list[tuple[str, str, Coder | None]] = [(name, name, None) for name in wanted]
    if coder is not None:
        variants.append((f"COKE {bits}-bit", "COKE", coder))
    for name, method, each in variants:
        learners = task.agents(method, rounds, censor=censor if method == "COKE" else None, coder=each)
        study.run(name, network, learners, [task.measure], rounds)
    study.centralised = task.optimum()
    _report(study, data, task)


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, data: str, task: BatchTask) -> None:
    rounds = study.rounds
    best = study.centralised["train_mse"]
    study.table("by_round", "Errors and cost by round (published: the paper's)", _by_round(rounds, data))
    savings = _savings(rounds, data, best)
    if len(savings):
        study.table("cost_to_reach", "Transmissions to reach a training MSE", savings)
        study.note(
            "The saving shrinks as the level nears the optimum: by then the threshold is low and everybody speaks."
        )
    study.note(f"Centralised: training MSE {best:.4g}, test MSE {study.centralised['test_mse']:.4g}.")
    if best > task.variance:
        study.note(
            f"Does not learn: the centralised training MSE exceeds the target's variance, {task.variance:.4g}. "
            "Another --sigma may help, or --tune (Air quality learns with 0.5)."
        )
    if data == "energy":
        study.note("The published errors exceed the variance of a target in [0, 1]: compare shapes, not levels.")
    for name, run in study.runs.items():
        errors = run.rounds["train_mse"]
        if not errors.iloc[-1] <= 10 * errors.iloc[0]:
            study.note(f"{name} diverged: try a smaller step size.")
    for name, run in study.runs.items():
        if run.ledger.link_messages > run.ledger.exits[DELIVERED] and "dual_residual" in run.rounds:
            residual = run.rounds["dual_residual"].iloc[-1]
            study.note(
                f"{name} missed frames: its duals no longer sum to zero, by {residual:.3g}, so its optimum has moved."
            )
    finite = rounds[np.isfinite(rounds["train_mse"]) & (rounds["train_mse"] < 100 * task.variance)]
    axes = [Axis("round", log=True), Axis("transmissions", log=True), Axis("wire_bits", log=True)]
    title = f"Training error, {data} data, {len(task.problems)} agents"
    study.figure("mse", curves(finite, measure("train_mse", log=True), axes, title, {"centralised": best}))


def _by_round(rounds: "pd.DataFrame", data: str) -> "pd.DataFrame":
    """Return the rows of some rounds, the published numbers beside ours where there are any."""
    import pandas as pd

    ours = rounds[rounds["round"].isin({*_SHOWN_ROUNDS, rounds["round"].max()})]
    ours = ours[["algorithm", "round", "train_mse", "test_mse", "transmissions", "payload_bits", "wire_bits"]]
    theirs = published("coke_by_round")
    theirs = theirs[theirs["dataset"] == data].drop(columns="dataset")
    if theirs.empty:
        return ours.reset_index(drop=True)
    named = theirs.rename(columns={name: f"published_{name}" for name in ("train_mse", "test_mse", "transmissions")})
    return pd.merge(ours, named, on=["algorithm", "round"], how="left")


def _savings(rounds: "pd.DataFrame", data: str, best: float) -> "pd.DataFrame":
    """Return, level by level, the transmissions that each algorithm needed, and what COKE saved against DKLA."""
    theirs = published("coke_cost_to_reach")
    theirs = theirs[theirs["dataset"] == data]
    levels = {*theirs["train_mse"], *ladder(rounds, "train_mse", best)}
    table = cost_to_reach(rounds, "train_mse", levels, saves={"COKE saves %": ("DKLA", "COKE")})
    if len(theirs):
        for name in ("DKLA", "COKE"):
            known = theirs[theirs["algorithm"] == name].set_index("train_mse")["transmissions"]
            table[f"published {name}"] = known.reindex(table["train_mse"]).to_numpy()
    return table
