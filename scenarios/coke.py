"""CTA, DKLA and COKE on one network: training error against rounds, transmissions and bits."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from agents import COKE, CTA, DKLA, Geometric, LocalProblem, RandomFourier, Squared, centralised
from agents.consensus import SharingAgent
from agents.metrics import MeanSquaredError, consensus_error
from netsim import BadInput, check, topology
from netsim.ledger import DELIVERED
from netsim.plots import Axis, curves
from netsim.quantize import Uniform
from netsim.study import Study
from scenarios.common import Channel, complete, random_graph
from scenarios.data import AgentData, deal, load_table, scale_unit, synthetic
from scenarios.published import published

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_ROUNDS = (50, 100, 200, 500, 1000, 1500, 2000)


def coke(
    study: Study,
    *,
    data: str = "synthetic",
    agents: int | None = None,
    edges: int | None = None,
    rounds: int = 1000,
    rows: int | None = None,
    features: int | None = None,
    sigma: float | None = None,
    regularizer: float | None = None,
    rho: float | None = None,
    eta: float | None = None,
    threshold: float | None = None,
    decay: float | None = None,
    bits: int | None = None,
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
    agents : int
        Number of agents.
    edges : int
        Number of edges of the random graph; by default as dense as the paper's.
    rounds : int
        Number of rounds.
    rows : int
        Use only so many rows of the table, taken at random.
    features : int
        Number L of random features.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1].
    regularizer : float
        The centre's regulariser lambda.
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
    wanted = [check.one_of("algorithms", name.strip(), ("CTA", "DKLA", "COKE")) for name in algorithms.split(",")]
    coder = None if bits is None else Uniform(bits)
    censor = Geometric(chosen["threshold"], chosen["decay"])
    samples = _samples(data, len(graph), rows, seed)
    task = _Task(samples, chosen, seed, ideal=channel.is_ideal)
    makers = _makers(task, graph, chosen, rounds, censor, coder)
    for name in wanted + ([f"COKE {bits}-bit"] if coder else []):
        study.run(name, network, {node: makers[name](node) for node in graph}, [task.measure], rounds)
    study.centralised = task.optimum()
    _report(study, data, task)


# --- the task ---------------------------------------------------------------------------------------------------------


class _Task:
    """The agents' costs, and the measures of their models."""

    def __init__(self, samples: Sequence[AgentData], chosen: Mapping[str, float], seed: int, ideal: bool) -> None:
        width = samples[0].train_inputs.shape[1]
        features = RandomFourier(width, int(chosen["features"]), sigma=chosen["sigma"], seed=seed)
        train = [(features(part.train_inputs), part.train_target) for part in samples]
        test = [(features(part.test_inputs), part.test_target) for part in samples]
        share = chosen["regularizer"] / len(samples)
        self.problems = [LocalProblem(x, y, loss=Squared(), regularizer=share) for x, y in train]
        self.regularizer = chosen["regularizer"]
        self.variance = float(np.var(np.concatenate([y for _, y in train])))
        self._train, self._test = MeanSquaredError(train), MeanSquaredError(test)
        self._ideal = ideal

    def measure(self, agents: Mapping[Any, SharingAgent]) -> dict[str, float]:
        """Return the columns of a round: how good the models are, and how far apart."""
        models = np.stack([agent.theta for agent in agents.values()])
        columns = {
            "train_mse": self._train(models),
            "test_mse": self._test(models),
            "consensus_error": consensus_error(models),
        }
        duals = [agent.dual for agent in agents.values() if isinstance(agent, COKE)]
        if duals:
            columns["dual_residual"] = float(np.abs(np.sum(duals, axis=0)).max())
        if not self._ideal:
            columns["copy_error"] = max(
                (
                    float(np.linalg.norm(copy - agents[name].sharing.own))
                    for agent in agents.values()
                    for name, copy in agent.sharing.copies.items()
                ),
                default=0.0,
            )
        return columns

    def optimum(self) -> dict[str, float]:
        """Return the errors of the model that a centre would learn."""
        model = np.tile(centralised(self.problems, self.regularizer), (len(self.problems), 1))
        return {"train_mse": self._train(model), "test_mse": self._test(model)}


def _samples(data: str, agents: int, rows: int | None, seed: int) -> list[AgentData]:
    if data == "synthetic":
        if rows is not None:
            raise BadInput(
                f"rows = {rows}: must be left out for the synthetic data, whose agents draw their own number"
            )
        return synthetic(agents, seed=seed)
    return deal(scale_unit(load_table(data)), agents, seed=seed, rows=rows)


def _makers(
    task: _Task,
    graph: "nx.Graph[int]",
    chosen: Mapping[str, float],
    rounds: int,
    censor: Geometric,
    coder: Uniform | None,
) -> dict[str, Callable[[int], SharingAgent]]:
    """Return, by name, what makes the agent of a node."""
    weights = topology.metropolis_weights(graph)
    problems, rho = task.problems, chosen["rho"]
    makers: dict[str, Callable[[int], SharingAgent]] = {
        "CTA": lambda i: CTA(problems[i], rounds, eta=chosen["eta"], weights=dict(enumerate(weights[i]))),
        "DKLA": lambda i: DKLA(problems[i], rounds, rho=rho),
        "COKE": lambda i: COKE(problems[i], rounds, rho=rho, censor=censor),
    }
    if coder is not None:
        makers[f"COKE {coder.bits}-bit"] = lambda i: COKE(problems[i], rounds, rho=rho, censor=censor, coder=coder)
    return makers


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, data: str, task: _Task) -> None:
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
            "Another --sigma may help (Air quality learns with 0.5)."
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
    study.figure("mse", curves(finite, Axis("train_mse", log=True), axes, title, {"centralised": best}))


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
    import pandas as pd

    theirs = published("coke_cost_to_reach")
    theirs = theirs[theirs["dataset"] == data]
    first, last = rounds.loc[rounds["round"] == 2, "train_mse"].min(), rounds["train_mse"].min()
    levels = {*theirs["train_mse"], *(float(f"{level:.2g}") for level in np.geomspace(first, max(last, best), 9)[:-1])}
    rows = []
    for level in sorted(levels, reverse=True):
        row: dict[str, float] = {"train_mse": level}
        for name, part in rounds.groupby("algorithm", sort=False):
            reached = part.loc[part["train_mse"] <= level, "transmissions"]
            row[str(name)] = float(reached.iloc[0]) if len(reached) else math.nan
        dkla, censored = row.get("DKLA", math.nan), row.get("COKE", math.nan)
        row["COKE saves %"] = 100 * (1 - censored / dkla) if dkla else math.nan
        for name in ("DKLA", "COKE"):
            found = theirs[(theirs["train_mse"] == level) & (theirs["algorithm"] == name)]["transmissions"]
            if len(theirs):
                row[f"published {name}"] = float(found.iloc[0]) if len(found) else math.nan
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.dropna(how="all", subset=[str(name) for name in rounds["algorithm"].unique()]).reset_index(drop=True)
