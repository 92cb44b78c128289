"""Gossiped and quantized online multi-kernel learning on graphs of many and of few links, and its two benchmarks."""

import dataclasses
import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from netsim import Run
from netsim.errors import BadInput
from netsim.scenarios.data.streams import rounds_of
from netsim.scenarios.data.tables import Table
from netsim.scenarios.omkl.report import COLUMNS, report
from netsim.scenarios.omkl.task import GRAPHS, KINDS, SYNTHETIC, Measure, Models, OnGraph, Streams, TwoClasses, methods
from netsim.scenarios.tasks.classes import largest_share
from netsim.scenarios.tasks.settings import Channel, chosen_names, names_in
from netsim.studies import Study
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class ModelSetting:
    """The size of the network and of its models.

    Parameters
    ----------
    agents : int
        Number of agents.
    features : int
        Number D of random frequencies of a kernel; a kernel's model has 2D elements.
    sigmas : str
        Bandwidths of the Gaussian kernels, with commas between; Koloskova has the first.
    regularizer : float
        The regulariser lambda, the whole of it at each agent.
    """

    agents: int = 20
    features: int = 20
    sigmas: str = "1,3,5"
    regularizer: float = 1e-3

    def models(self) -> Models:
        """Return the models; raises BadInput for what is outside its range."""
        check.integer("agents", self.agents, low=1)
        check.integer("features", self.features, low=1)
        check.finite("regularizer", self.regularizer, low=0.0)
        return Models(self.agents, tuple(_numbers("sigmas", self.sigmas)), self.features, self.regularizer)


@dataclass(frozen=True, kw_only=True)
class MethodSetting:
    """The methods, their steps, and on which graphs they run.

    Parameters
    ----------
    eta : str
        Step of learning; several with commas between.
    gamma : str
        Step of the gossip, one for each eta.
    bits : int
        Bits of a level of the random quantizer (1-16), which sends a sign, too; gossip also runs without.
    topologies : str
        Graphs of the gossip, with commas between: path, ring, star, complete. Koloskova has the first.
    algorithms : str
        Which of gossip, Koloskova and OMKL to run, with commas between.
    """

    eta: str = "0.01,0.1"
    gamma: str = "0.009,0.09"
    bits: int = 3
    topologies: str = "path,ring,complete"
    algorithms: str = "gossip,Koloskova,OMKL"

    def steps(self) -> list[tuple[float, float]]:
        """Return each step of learning, and that of its gossip; raises BadInput if they are no pairs."""
        etas, gammas = _numbers("eta", self.eta), _numbers("gamma", self.gamma)
        if len(etas) != len(gammas) or len(set(etas)) != len(etas):
            raise BadInput(f"eta = {etas}, gamma = {gammas}: must be a gamma for each eta, and no eta twice; give both")
        return list(zip(etas, gammas, strict=True))

    def methods(self) -> list[OnGraph]:
        """Return the methods on their graphs; raises BadInput for unknown ones."""
        check.integer("bits", self.bits, low=1, high=16)
        kinds = chosen_names("algorithms", self.algorithms, KINDS)
        return methods(kinds, chosen_names("topologies", self.topologies, GRAPHS), self.bits)


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long is learned, and how often.

    Parameters
    ----------
    rounds : int
        Number of rounds; by default as many as there are samples for.
    repeats : int
        Number of repetitions (the paper: 100).
    """

    rounds: int | None = None
    repeats: int = 3

    def resolved(self, table: Table, agents: int) -> Self:
        """Return it with as many rounds as the table has samples for, if they were left open.

        Raises
        ------
        BadInput
            For more rounds than that, or too few samples for the agents.
        """
        most = rounds_of(table, agents)
        rounds = most if self.rounds is None else check.integer("rounds", self.rounds, low=1, high=most)
        return dataclasses.replace(self, rounds=rounds)

    def seeds(self, seed: int) -> list[int]:
        """Return the seed of each repetition."""
        return [int(each) for each in np.random.SeedSequence(seed).generate_state(self.repeats)]


def omkl(
    study: Study,
    *,
    data: str = SYNTHETIC,
    problem: TwoClasses = TwoClasses(),  # noqa: B008 (frozen)
    model: ModelSetting = ModelSetting(),
    method: MethodSetting = MethodSetting(),
    length: Length = Length(),
    channel: Channel = Channel(),
    seed: int = 0,
) -> None:
    """Online multi-kernel learning by gossip, on a path, a ring, all links (Ortega and Jafarkhani 2023).

    Two classes, logistic loss, one sample an agent and round, predicted before it is learned from. Beside it, with one
    kernel, Koloskova et al. 2019, and OMKL of Shen et al. 2021 on the complete graph. All is repeated with other random
    features and another order of the samples; each repetition is the same for all methods. rounds.csv and ledger.csv
    hold the first one, losses.csv the means over all.

    Parameters
    ----------
    data : str
        "synthetic" (two crescents in the plane); banana, credit_default, mnist, or the name of another table of classes
        in the folder NETSIM_DATA, or its path (.csv.gz, .csv, .npz, .parquet).
    problem : TwoClasses
        Which two classes are to be told apart.
    model : ModelSetting
        The size of the network and of its models.
    method : MethodSetting
        The methods, their steps, and on which graphs they run.
    length : Length
        How long is learned, and how often.
    channel : Channel
        The links.
    seed : int
        Seed of everything random.
    """
    import pandas as pd

    problem = problem.resolved(data)
    models, steps, tried = model.models(), method.steps(), method.methods()
    repeats = check.integer("repeats", length.repeats, low=1)
    check.fits("repeats", repeats, 100 * repeats, "the seeds of so many")
    table = problem.table(data, seed)
    length = length.resolved(table, model.agents)  # before graphs of so many are built
    for each in tried:
        channel.network(each.graph(model.agents), seed)
    for text in table.said:
        study.note(text)
    study.record(problem, length)
    study.constant = {"running_accuracy": largest_share(table.target)}
    cases = list(itertools.product(steps, tried))
    parts = []
    for repetition, number in enumerate(length.seeds(seed)):
        label = f"repetition {repetition + 1} of {length.repeats}" if repetition else None
        streams = models.streams(table, check.integer("rounds", length.rounds, low=1), number)
        found = _repetition(study, label, cases, models, streams, channel, number)
        parts += [each.assign(repetition=repetition) for each in found]
    report(study, data, tried, pd.concat(parts, ignore_index=True), models)


def _numbers(name: str, text: str) -> list[float]:
    """Return the positive numbers that a parameter lists."""
    try:
        return [check.finite(name, float(each), above=0.0) for each in names_in(text)]
    except ValueError:  # BadInput is one, too.
        raise check.refuse(name, text, "positive numbers with commas between") from None


def _repetition(
    study: Study,
    label: str | None,
    cases: Sequence[tuple[tuple[float, float], OnGraph]],
    models: Models,
    streams: Streams,
    channel: Channel,
    seed: int,
) -> "list[pd.DataFrame]":
    """Run every case on the same streams; return `COLUMNS` of each, with eta and method.

    Without a label the study keeps the runs whole, under their names; with one it shows that and keeps nothing.
    """
    rounds = len(streams[0])
    found = []

    def keep(eta: float, method: OnGraph, run: Run) -> None:
        found.append(run.rounds[list(COLUMNS)].assign(eta=eta, method=method.name))

    # One thing shows progress at a time: each run of the first repetition by its rounds, the others by their runs.
    with nullcontext() if label is None else study.progress(label, len(cases)) as progress:
        for done, ((eta, gamma), method) in enumerate(cases, 1):
            network = channel.network(method.graph(models.agents), seed)
            agents = method.agents(models, streams, rounds, eta, gamma)
            if progress is None:
                name = f"{method.name}, eta {eta:g}"
                keep(eta, method, study.run(name, network, agents, [Measure()], rounds))
            else:
                keep(eta, method, network.run(agents, [Measure()]))
                progress(done)
    return found
