"""A neural network that agents learn together, by D-PSGD or any method that asks for gradients only."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from netsim.coders import Float
from netsim.errors import BadInput
from netsim.scenarios.data.files import find_table
from netsim.scenarios.data.samples import DIGITS, ClassSamples, SomeRows
from netsim.scenarios.data.tables import enough
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.classes import largest_share
from netsim.scenarios.tasks.diagnosis import diverged, silent, unheard
from netsim.scenarios.tasks.division import tell_division
from netsim.scenarios.tasks.method import Method, chosen, network_of
from netsim.scenarios.tasks.neural import NetworkModel, NeuralTask, shared_task
from netsim.scenarios.tasks.savings import cost_to_reach
from netsim.scenarios.tasks.settings import Compared, Divided, NetworkSize, PacedChannel
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.studies.seeds import Seeds
from netsim.util import check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MNIST = "mnist"
_ERRORS = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01)
_FEW = 3
"""Algorithms up to which figures also have a curve of each one's mean model."""
_USUAL_STEP = 0.1
_MANY_TIMES = 4.0
"""Where algorithms need this many times as many bits or seconds as others, that axis is logarithmic."""


@dataclass(frozen=True, kw_only=True)
class NeuralSamples(Divided, SomeRows, ClassSamples):
    """Which samples are learned from, and which agent gets which; of some data sets not all by default."""

    USUAL_ROWS: ClassVar[Mapping[str, int]] = {MNIST: 10_000}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How often models are measured, and on what.

    Parameters
    ----------
    every : int
        Rounds from one measurement of losses and errors to the next; the first and the last round have one, too.
    evaluated : int
        At most so many test samples, and as many training samples, are what models are measured on.
    """

    every: int = 10
    evaluated: int = 2000


@dataclass(frozen=True, kw_only=True)
class NeuralSize(NetworkSize):
    """The size of a random network, and how long it learns."""

    rounds: int = 200


@dataclass(frozen=True, kw_only=True)
class NeuralCompared(Compared):
    """What the study compares.

    Parameters
    ----------
    algorithms : str
        Which to run, with commas between: D-PSGD, EXTRA, DIGing, CHOCO, LEAD, BEER, LT-ADMM, SGP, Push-DIGing, AD-PSGD,
        and over a star EF21, EF21-P, FedAvg, SCAFFOLD, SCAFFOLD-states.
    eta : float
        Step size of all methods. By default each has one of its own, not tuned, and a class of --method 0.1.
    """

    algorithms: str = "D-PSGD"
    eta: float | None = None

    def methods(self, study: Study, dtype: str) -> list[Method]:
        """Return the methods that a study compares; raises BadInput as `chosen` does, or for a bad step."""
        known, eta = gradient_methods(), self.eta
        if eta is not None:
            eta = check.finite("eta", eta, above=0.0)
            known = {name: method.with_steps(**{**method.steps, "eta": eta}) for name, method in known.items()}
        found = chosen(study, self, known, {"eta": _USUAL_STEP if eta is None else eta})
        return list(map(_in_single, found)) if dtype == "float32" else found


def gradient_methods() -> Mapping[str, Method]:
    """Return the baselines that ask a cost for its gradient and for nothing else, by name."""
    return {
        name: method
        for name, method in BASELINES.items()
        if getattr(getattr(method.kind, "local_step", None), "asks", ("gradient",)) == ("gradient",)
    }


def _in_single(method: Method) -> Method:
    """Return a method that sends its states in float32, if it has a coder and none was chosen."""
    has_coder = "coder" in inspect.signature(method.kind).parameters
    return dataclasses.replace(method, coder=Float(32)) if has_coder and method.coder is None else method


def neural(
    study: Study,
    *,
    data: str | None = None,
    samples: NeuralSamples = NeuralSamples(),
    model: NetworkModel = NetworkModel(),
    size: NeuralSize = NeuralSize(),
    measured: Measured = Measured(),
    compared: NeuralCompared = NeuralCompared(),
    channel: PacedChannel = PacedChannel(),
    seeds: Seeds = Seeds(),
) -> None:
    """A neural network learned by D-PSGD or other methods from samples that may differ from agent to agent.

    All agents start from the same parameters. Each takes its gradients at minibatches of its own training samples, four
    fifths of what it has. The others, of all agents together, are what models are tested on.

    Parameters
    ----------
    data : str
        "mnist", "digits" (comes with netsim), or another table of classes: its name in the folder NETSIM_DATA, or
        its path (.csv.gz, .csv, .npz, .parquet). By default mnist if it is in that folder, else digits.
    """
    model.checked()
    size, partition = size.resolved(), samples.divided()
    methods = compared.methods(study, model.dtype)
    check.integer("every", measured.every, low=1)
    check.integer("evaluated", measured.evaluated, low=1)
    if data is None:
        data = _usual()
        study.note("Data: mnist." if data == MNIST else "Data: digits, as the folder NETSIM_DATA has no mnist.npz.")
    samples, model = samples.resolved(data), model.resolved()
    graph = size.graph(seeds.graph)
    network = channel.over(graph, seeds.network)
    table, classes = samples.load(data, seeds.data)
    enough(len(table.target), size.agents, 2)
    given: dict[str, Any] = {"every": measured.every, "evaluated": measured.evaluated, "rounds": size.rounds}
    given |= {"partition": partition, "how": model, "ideal": channel.ideal}
    task = shared_task(table, classes, graph, seed=seeds.seed, data_seed=seeds.data, **given)
    study.record(samples, model, size, data=data)
    study.note(*table.notes, f"Each model has {task.size:,} parameters: {_tensors(task.network.shapes)}.")
    tell_division(study, task.parts, samples, classes)
    if model.backend != "numpy":
        study.origin["libraries"] = {model.backend: version(model.backend)}
    study.constant = {"test_error": 1.0 - largest_share(np.concatenate([part.test_target for part in task.parts]))}
    for method in methods:
        own = network_of(study, method, network, channel, seeds.network)
        method.run(study, own, task, [task.measure], size.rounds, watch=task.watch)
    about = f"{data}, {model.model}, {size.agents} agents{samples.partition_title}{channel.title}"
    _report(study, task, about, timed=channel.compute is not None)


def _usual() -> str:
    """Return mnist if there is such a table, else digits."""
    try:
        find_table(MNIST)
    except BadInput:
        return DIGITS
    return MNIST


def _tensors(shapes: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())


def _report(study: Study, task: NeuralTask, about: str, *, timed: bool) -> None:
    """Leave the study's tables, notes and figures; ``about`` says of which data, model and links."""
    study.error = "train_loss"
    rounds = study.rounds
    known = rounds[np.isfinite(rounds["train_loss"])]
    study.table("ends", "At the end (mean_model: the mean of all agents' models)", _ends(rounds, task))
    reached = cost_to_reach(known, "test_error", _ERRORS, cost="wire_bits", saves={})
    if len(reached):
        study.table("bits_to_reach", "Bits on the wire to reach a test error", reached)
    study.note(*_verdicts(study))
    by = ["round", *["time_s"] * timed, "wire_bits"]
    whose = "a mean over the agents' models; where there are few algorithms also that of the mean of the models"
    for name, column, label, what in (
        ("error", "test_error", "test error (share misclassified)", "share of test samples that are misclassified"),
        ("loss", "train_loss", "training loss (cross-entropy, nats)", "cross-entropy on all agents' training samples"),
    ):
        if len(known):
            title = f"{label.partition(' (')[0].capitalize()}: {about}"
            drawn = partial(_curves, known, Axis(column, log=name == "loss", label=label), by, title)
            study.figure(name, drawn, f"The {what}, {whose}.")


def _ends(rounds: pd.DataFrame, task: NeuralTask) -> pd.DataFrame:
    """Return the last row of each run."""
    counts = ["time_s", "transmissions", "payload_bits", "wire_bits"]
    return rounds.groupby("algorithm", sort=False).tail(1)[["algorithm", *task.columns, "consensus_error", *counts]]


def _verdicts(study: Study) -> Iterator[str]:
    """Yield notes on each run that sent nothing, diverged or missed frames."""
    for name, run in study.runs.items():
        quiet = silent(name, run)
        yield from filter(None, [quiet] if quiet else [diverged(name, run, "train_loss", "--eta"), unheard(name, run)])


def _curves(rounds: pd.DataFrame, y: Axis, by: Sequence[str], title: str) -> "Figure":
    """Draw a measure of the agents' models, and of few algorithms also of their mean, against some columns."""
    if rounds["algorithm"].nunique() <= _FEW:
        parts = []
        for name, part in rounds.groupby("algorithm", sort=False):
            mean = part.assign(algorithm=f"{name}, mean model", **{y.column: part[f"mean_model_{y.column}"]})
            parts += [part.assign(algorithm=f"{name}, agents' models"), mean]
        rounds = pd.concat(parts, ignore_index=True)
    ends = rounds.groupby("algorithm")[list(by)].max()
    axes = [Axis(each, log=ends[each].max() > _MANY_TIMES * ends[each].min()) for each in by]
    return curves(rounds, y, axes, title)
