"""Decentralized online kernel classification by the greedy projected penalty method: accuracy, order, disagreement."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netsim.agents.greedy.penalty import ConstantPenalty, GreedyPenalty
from netsim.run import Run
from netsim.scenarios.data.choice import ClassChoice
from netsim.scenarios.data.textures import TEXTURES
from netsim.scenarios.polk.figures import progress, surface
from netsim.scenarios.polk.problems import BRODATZ, MIXTURES, Split, source_of
from netsim.scenarios.polk.task import Learning, ProblemSetting, Trial, draw_problem
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.classes import largest_share, signs
from netsim.scenarios.tasks.division import tell_streams
from netsim.scenarios.tasks.mapping import choose_sigma
from netsim.scenarios.tasks.settings import Channel
from netsim.scenarios.tasks.theory import Promises
from netsim.studies import Study
from netsim.studies.intervals import confidence, interval_text
from netsim.studies.seeds import Seeds
from netsim.util import check

_PROGRESS = "The objective, how far neighbours disagree, the points that are kept, and the accuracy, by samples"
"""Caption of the figure `progress`."""


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The runs, and how often they are measured.

    Parameters
    ----------
    compare : bool
        Also run without penalty and with constant penalties c, 2c and 4c, to show the effect of doubling on the
        disagreement.
    repeats : int
        Number of problems to draw; their seeds count from --seed.
    checks : int
        Number of accuracy measurements during a run.
    """

    compare: bool = True
    repeats: int = 1
    checks: int = 25

    def check(self) -> None:
        """Raise BadInput for a value outside its range."""
        check.integer("repeats", self.repeats, low=1)
        check.integer("checks", self.checks, low=1)


def polk(
    study: Study,
    *,
    data: str = MIXTURES,
    table: ClassChoice = ClassChoice(),  # noqa: B008 (frozen)
    problem: ProblemSetting = ProblemSetting(),  # noqa: B008 (frozen)
    learning: Learning = Learning(),  # noqa: B008 (frozen)
    trials: Trials = Trials(),
    channel: Channel = Channel(),
    promises: Promises = Promises(),
    seeds: Seeds = Seeds(),
) -> None:
    """Online kernel classification with small dictionaries (Koppel, Paternain, Richard and Ribeiro 2018).

    All agents learn from one training set, each in a different order; with --partition each learns from its part.
    Defaults depend on the data and on the loss, and are recorded in settings.json.

    Parameters
    ----------
    data : str
        "mixtures": five classes of three Gaussians each in the plane. "brodatz": 13 textures as texton histograms,
        from brodatz_center256.npz in NETSIM_DATA or the cache; test patches are from other parts of the pictures.
        Or a table of classes: its name in that folder, or its path (.csv.gz, .csv, .npz, .parquet).
    """
    rule = learning.resolved(data)
    trials.check()
    source = source_of(data, table)
    problem = problem.resolved(data, source)
    if problem.median or problem.tune:
        split = draw_problem(source, problem, seeds).split
        given = check.finite("sigma", problem.sigma, above=0.0)
        target = signs(split.labels.astype(np.float64), len(split.classes))
        sigma = choose_sigma(study, given, problem, split.inputs, target, seed=seeds.seed)
        problem = dataclasses.replace(problem, sigma=sigma)
    study.note(*source.notes)
    study.record(problem, rule)
    rows = []
    for number in range(seeds.seed, seeds.seed + trials.repeats):
        own = dataclasses.replace(seeds, seed=number)
        trial = Trial(study, draw_problem(source, problem, own), rule, channel, trials.checks, promises)
        rows.append(trial.row(trial.run(f"draw {number}", rule.schedule())))
        if number == seeds.seed:
            _tell_owners(trial, problem, rule)
            first, first_run = trial, study.runs[f"draw {number}"]
    if trials.compare:
        _compare(first)
    _report(first, first_run, data, rows, problem.partition_title)


def _tell_owners(trial: Trial, setting: ProblemSetting, rule: Learning) -> None:
    """Add the division of samples to the study, unless all agents have all samples."""
    split, dealt = trial.problem.split, trial.problem.owners
    if dealt is not None:
        targets = [split.labels[own].astype(np.float64) for own in dealt]
        tell_streams(trial.study, targets, rule.epochs * len(split.labels), setting, split.classes)


def _compare(trial: Trial) -> None:
    """Run without penalty, and with constant c, 2c and 4c; η·4c·d = 1 for the agent with the most neighbours d."""
    study, graph = trial.study, trial.problem.graph
    largest = 1.0 / (trial.rule.eta * max(max(dict(graph.degree).values()), 1))
    rows = []
    for c in (0.0, largest / 4, largest / 2, largest):
        row = trial.row(trial.run(f"c = {c:.3g}", ConstantPenalty(c)))
        rows.append({"c": c} | {name: row[name] for name in ("disagreement", "accuracy", "worst agent", "model order")})
    study.table("penalties", f"Constant penalties, {trial.problem.seeds.text}", pd.DataFrame(rows))


def _report(trial: Trial, run: Run, data: str, rows: Sequence[Mapping[str, Any]], parted: str) -> None:
    study, problem, criterion = trial.study, trial.problem, trial.rule.criterion
    reference = problem.split.reference_name
    study.centralised = {"test_accuracy": float(np.mean([row[reference] for row in rows]))}
    study.constant = {"accuracy": largest_share(problem.split.test_labels)}
    right, below = (np.array([row[name] for row in rows]) for name in ("accuracy", "points below"))
    several = len(rows) > 1
    study.ask("How well do agents classify that keep few samples each, and give raw inputs away for it?")
    answer(
        study,
        "{right:.1f} % of the test samples are classified rightly, {below:.2g} points below {reference}, with "
        "{order:.3g} samples kept an agent.",
        f"{interval_text([len(rows)])} over problems that were drawn." if several else of_one_run(study),
        right=confidence(100 * right) if several else 100 * float(right[0]),
        below=confidence(below) if several else float(below[0]),
        **{"reference": reference, "order": float(np.mean([row["model order"] for row in rows]))},
    )
    study.table("draws", f"{data}, {criterion} loss", pd.DataFrame(rows))
    study.note("Requests carry raw inputs: they are the raw_data_bits of the payload_bits.")
    study.note("Disagreement is its mean over the last fifth of the rounds; missing replies count as the others do.")
    ledger = run.ledger
    missed = run.rounds["missing"].iloc[-1] / max(ledger.link_messages, 1)
    if missed > 0.25:
        study.note(
            f"{missed:.0%} of the messages brought no reply in time: the agents learn nearly alone. A request and its "
            "reply must fit into a round, its latencies and its bits at the rate of the link."
        )
    title = f"{data}, {criterion} loss, {len(problem.graph)} agents{parted}"
    levels = {f"draw {row['seed']}": (f"{reference}, seed {row['seed']}", row[reference]) for row in rows}
    drawn = study.rounds[study.rounds["algorithm"].str.startswith("draw")]
    study.figure(
        "progress", partial(progress, drawn, title, levels), f"{_PROGRESS}, for each problem that was drawn.", hero=True
    )
    compared = study.rounds[study.rounds["algorithm"].str.startswith("c =")]
    if len(compared):
        drawing = partial(progress, compared, f"Constant penalties: {title}", {})
        study.figure("penalties", drawing, f"{_PROGRESS}, for each constant penalty.")
    _show_classes(trial, data, [agent for agent in run.agents.values() if isinstance(agent, GreedyPenalty)])


def _show_classes(trial: Trial, data: str, learners: Sequence[GreedyPenalty]) -> None:
    """Draw the decision regions if there are two inputs; show the accuracy for each named class."""
    study, problem = trial.study, trial.problem
    split = problem.split
    if split.inputs.shape[1] == 2:
        names = [f"class {name}" for name in split.classes]
        title = f"Decisions of agent 0, {len(learners[0].model)} points, {trial.rule.criterion} loss"
        study.figure(
            "surface",
            partial(surface, learners[0].model, split.inputs, split.labels, names, title),
            "For which class agent 0 decides in each place of the plane, the points that it keeps, and the samples.",
        )
    if data == BRODATZ:
        pictures: dict[str, Sequence[Any]] = {"texture": list(TEXTURES), "picture": list(TEXTURES.values())}
        study.table("textures", f"Accuracy by texture, {problem.seeds.text}", _by_class(split, learners, pictures))
    elif data != MIXTURES:
        table = _by_class(split, learners, {"class": list(split.classes)})
        study.table("by_class", f"Accuracy by class, {problem.seeds.text}", table)


def _by_class(split: Split, learners: Sequence[GreedyPenalty], names: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return each class's accuracy on test samples, averaged over the agents; NaN without samples."""
    right = np.mean([each.model(split.test_inputs).argmax(axis=1) == split.test_labels for each in learners], axis=0)
    of_class = [right[split.test_labels == label] for label in range(len(split.classes))]
    shares = [float(each.mean()) if len(each) else np.nan for each in of_class]
    return pd.DataFrame({**names, "accuracy": shares})
