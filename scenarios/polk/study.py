"""Decentralized online kernel classification by the greedy projected penalty method: accuracy, order, agreement."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import BadInput, check
from netsim.agents.greedy.penalty import ConstantPenalty, DoublingPenalty, GreedyPenalty, Penalty
from netsim.run import Run
from netsim.scenarios.data.textures import TEXTURES
from netsim.scenarios.polk.figures import progress, surface
from netsim.scenarios.polk.task import Problem, Trial, draw_problem
from netsim.scenarios.tasks.mapping import choose_sigma
from netsim.scenarios.tasks.settings import Bandwidth, Channel
from netsim.studies import Study

if TYPE_CHECKING:
    import pandas as pd

# What was found to work: near the reference's accuracy with a small dictionary.
_COMMON = {
    "mixtures": {"agents": 20, "samples": 5000, "penalty": 0.01, "doubling": 200},
    "brodatz": {"agents": 5, "samples": 5000, "penalty": 0.02, "doubling": 0},
}
_USUAL = {
    ("mixtures", "logistic"): {"sigma": 0.5, "eta": 6.0, "parsimony": 0.01},
    ("mixtures", "hinge"): {"sigma": 0.5, "eta": 3.0, "parsimony": 0.02},
    ("mixtures", "squared"): {"sigma": 0.5, "eta": 0.5, "parsimony": 0.12},
    ("brodatz", "logistic"): {"sigma": 0.6, "eta": 10.0, "parsimony": 0.03},
    ("brodatz", "hinge"): {"sigma": 0.6, "eta": 6.0, "parsimony": 0.05},
    ("brodatz", "squared"): {"sigma": 0.6, "eta": 0.4, "parsimony": 0.5},
}


def polk(
    study: Study,
    *,
    data: str = "mixtures",
    loss_function: str = "logistic",
    agents: int | None = None,
    density: float = 0.2,
    samples: int | None = None,
    epochs: int = 1,
    batch: int = 32,
    sigma: float | None = None,
    eta: float | None = None,
    parsimony: float | None = None,
    regularizer: float = 1e-6,
    penalty: float | None = None,
    doubling: int | None = None,
    limit: float = 0.5,
    compare: bool = True,
    draws: int = 1,
    checks: int = 25,
    bandwidth: Bandwidth = Bandwidth(),  # noqa: B008 (frozen)
    channel: Channel = Channel(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> None:
    """Online kernel classification with small dictionaries (Koppel, Paternain, Richard and Ribeiro 2018).

    All agents learn from one training set, each in an order of its own. What is left open depends on the data and on
    the loss function; it is in settings.json.

    Parameters
    ----------
    data : str
        "mixtures": five classes of three Gaussians each in the plane. "brodatz": 13 textures as texton histograms,
        from brodatz_center256.npz in the folder NETSIM_DATA; patches to test on are from other parts of the pictures.
    loss_function : str
        "logistic", "hinge" or "squared".
    agents : int
        Number of agents.
    density : float
        Probability that two agents are linked; drawn until all are connected.
    samples : int
        Size of the training set.
    epochs : int
        How often each agent goes through the training set.
    batch : int
        Samples of an agent in a round; a few more where the training set is no multiple of it.
    sigma : float
        Bandwidth of the Gaussian kernel.
    eta : float
        Step size.
    parsimony : float
        The projection may move a model by parsimony * eta^1.5.
    regularizer : float
        Regulariser lambda.
    penalty : float
        Weight c of disagreement, at first.
    doubling : int
        Number of samples after which the penalty doubles; 0: never.
    limit : float
        The penalty stops doubling when eta * c * neighbours is so large (0-1).
    compare : bool
        Also run without penalty and with constant ones c, 2c and 4c, to show what doubling does to the disagreement.
    draws : int
        Number of problems to draw, with seeds from --seed on.
    checks : int
        How often accuracy is measured.
    bandwidth : Bandwidth
        How sigma is chosen, if not as given.
    channel : Channel
        The links.
    seed : int
        Seed of everything random.
    """
    check.one_of("data", data, _COMMON)
    check.one_of("loss_function", loss_function, ("logistic", "hinge", "squared"))
    for name, low in (("epochs", 1), ("batch", 1), ("draws", 1), ("checks", 1)):
        check.integer(name, study.settings[name], low=low)
    check.probability("density", density)
    check.number("limit", limit, high=1.0, above=0.0)
    if sigma is not None and (bandwidth.median or bandwidth.tune):
        raise BadInput(f"sigma = {sigma:g}: must be left out where median or tune = True")
    usual = _COMMON[data] | _USUAL[data, loss_function]
    study.settings |= {name: value for name, value in usual.items() if study.settings[name] is None}
    chosen = study.settings
    for name in ("sigma", "eta"):
        check.finite(name, chosen[name], above=0.0)
    for name in ("parsimony", "regularizer", "penalty"):
        check.finite(name, chosen[name], low=0.0)
    if bandwidth.median or bandwidth.tune:
        problem = draw_problem(data, chosen, seed)
        signs = np.where(problem.labels[:, None] == np.arange(problem.classes), 1.0, -1.0)
        choose_sigma(study, chosen["sigma"], problem.inputs, signs, seed=seed)
    schedule = _schedule(chosen)
    rows = []
    for number in range(draws):
        trial = Trial(study, draw_problem(data, chosen, seed + number), channel)
        rows.append(trial.row(trial.run(f"draw {seed + number}", schedule)))
        if number == 0:
            first, first_run = trial, study.runs[f"draw {seed}"]
    if compare:
        _compare(first)
    _report(study, first, first_run, rows)


def _schedule(chosen: Mapping[str, Any]) -> Penalty:
    every = check.integer("doubling", chosen["doubling"], low=0)
    return DoublingPenalty(chosen["penalty"], every, chosen["limit"]) if every else ConstantPenalty(chosen["penalty"])


def _compare(trial: Trial) -> None:
    """Run without penalty, and with c, 2c and 4c, where η·4c·d = 1 for the agent with the most neighbours."""
    import pandas as pd

    study, graph = trial.study, trial.problem.graph
    largest = 1.0 / (study.settings["eta"] * max(max(dict(graph.degree).values()), 1))
    rows = []
    for c in (0.0, largest / 4, largest / 2, largest):
        row = trial.row(trial.run(f"c = {c:.3g}", ConstantPenalty(c)))
        rows.append({"c": c} | {name: row[name] for name in ("disagreement", "accuracy", "worst agent", "model order")})
    study.table("penalties", f"Constant penalties, seed {trial.problem.seed}", pd.DataFrame(rows))


def _report(study: Study, trial: Trial, run: Run, rows: Sequence[Mapping[str, Any]]) -> None:
    import pandas as pd

    problem, chosen = trial.problem, study.settings
    study.centralised = {"test_accuracy": float(np.mean([row[problem.reference] for row in rows]))}
    study.table("draws", f"{chosen['data']}, {chosen['loss_function']} loss", pd.DataFrame(rows))
    study.note("Requests carry raw inputs: they are the raw_data_bits of the payload_bits.")
    study.note("Disagreement is its mean over the last fifth of the rounds; missing replies count as the others do.")
    ledger = run.ledger
    missed = run.rounds["missing"].iloc[-1] / max(ledger.link_messages, 1)
    if missed > 0.25:
        study.note(
            f"{missed:.0%} of the messages brought no reply in time: the agents learn nearly alone. A request and its "
            "reply must fit into a round, its latencies and its bits at the rate of the link."
        )
    title = f"{chosen['data']}, {chosen['loss_function']} loss, {len(problem.graph)} agents"
    levels = {
        f"draw {row['seed']}": (f"{problem.reference}, draw {row['seed']}", row[problem.reference]) for row in rows
    }
    drawn = study.rounds[study.rounds["algorithm"].str.startswith("draw")]
    study.figure("progress", progress(drawn, title, levels))
    if chosen["compare"]:
        compared = study.rounds[study.rounds["algorithm"].str.startswith("c =")]
        study.figure("penalties", progress(compared, f"Constant penalties: {title}", {}))
    learners = [agent for agent in run.agents.values() if isinstance(agent, GreedyPenalty)]
    if chosen["data"] == "mixtures":
        title = f"Decisions of agent 0, {len(learners[0].model)} points, {chosen['loss_function']} loss"
        study.figure("surface", surface(learners[0].model, problem.inputs, problem.labels, title))
    else:
        study.table("textures", f"Accuracy by texture, seed {problem.seed}", _by_texture(problem, learners))


def _by_texture(problem: Problem, learners: Sequence[GreedyPenalty]) -> "pd.DataFrame":
    """Return each texture's share of test patches that were recognised, the mean over agents."""
    import pandas as pd

    right = np.mean(
        [each.model(problem.test_inputs).argmax(axis=1) == problem.test_labels for each in learners], axis=0
    )
    shares = [float(right[problem.test_labels == label].mean()) for label in range(problem.classes)]
    return pd.DataFrame({"texture": list(TEXTURES), "picture": list(TEXTURES.values()), "accuracy": shares})
