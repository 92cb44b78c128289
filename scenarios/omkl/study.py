"""Gossiped and quantized online multi-kernel learning on graphs of many and of few links, and its two benchmarks."""

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from netsim import Run, check
from netsim.errors import BadInput
from netsim.scenarios.data.streams import rounds_of
from netsim.scenarios.omkl.report import COLUMNS, report
from netsim.scenarios.omkl.task import GRAPHS, KINDS, Measure, Method, Models, Streams, chosen_for, methods, problem
from netsim.scenarios.tasks.settings import Channel, chosen_names, names_in
from netsim.studies import Study

if TYPE_CHECKING:
    import pandas as pd


def omkl(
    study: Study,
    *,
    data: str = "synthetic",
    rows: int | None = None,
    rounds: int | None = None,
    positive: str | None = None,
    scaling: str | None = None,
    agents: int = 20,
    features: int = 20,
    sigmas: str = "1,3,5",
    regularizer: float = 1e-3,
    eta: str = "0.01,0.1",
    gamma: str = "0.009,0.09",
    bits: int = 3,
    topologies: str = "path,ring,complete",
    algorithms: str = "gossip,Koloskova,OMKL",
    seeds: int = 3,
    channel: Channel = Channel(),  # noqa: B008 (frozen)
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
        "synthetic" (two crescents in the plane); banana, credit_default, mnist, or another NAME of NAME.csv.gz in the
        folder NETSIM_DATA.
    rows : int
        Use only so many samples, taken at random; synthetic: draw so many (4000). Default for mnist: 10000.
    rounds : int
        Number of rounds; by default as many as there are samples for.
    positive : str
        Name of the class that is +1, all others being -1; may be left out if there are two. Default for mnist: 8.
    scaling : str
        "unit": each input scaled to [0, 1]; "variance": to mean 0 and variance 1; "none". By default none for banana
        and synthetic, which have variance 1 as they are, and unit for all others.
    agents : int
        Number of agents.
    features : int
        Number D of random frequencies of a kernel; a kernel's model has 2D elements.
    sigmas : str
        Bandwidths of the Gaussian kernels, with commas between; Koloskova has the first.
    regularizer : float
        The regulariser lambda, the whole of it at each agent.
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
    seeds : int
        Number of repetitions (the paper: 100).
    channel : Channel
        The links.
    seed : int
        Seed of everything random.
    """
    import pandas as pd

    chosen = chosen_for(data, rows, positive, scaling)
    study.settings |= chosen
    bandwidths = tuple(_numbers("sigmas", sigmas))
    steps = list(_pairs(_numbers("eta", eta), _numbers("gamma", gamma)))
    check.integer("bits", bits, low=1, high=16)
    check.integer("seeds", seeds, low=1)
    kinds = chosen_names("algorithms", algorithms, KINDS)
    graphs = chosen_names("topologies", topologies, GRAPHS)
    tried = methods(kinds, graphs, bits)
    check.integer("agents", agents, low=1)
    check.integer("features", features, low=1)
    check.finite("regularizer", regularizer, low=0.0)
    for method in tried:
        channel.network(method.graph(agents), seed)
    table = problem(data, chosen, seed)
    most = rounds_of(table, agents)
    length = most if rounds is None else check.integer("rounds", rounds, low=1, high=most)
    models = Models(agents, bandwidths, features, regularizer)
    parts = []
    for repetition, number in enumerate(np.random.SeedSequence(seed).generate_state(seeds).tolist()):
        label = f"repetition {repetition + 1} of {seeds}" if repetition else None
        streams = models.streams(table, length, number)
        found = _repetition(study, label, list(itertools.product(steps, tried)), models, streams, channel, number)
        parts += [each.assign(repetition=repetition) for each in found]
    runs = pd.concat(parts, ignore_index=True)
    report(study, tried, runs, agents, bandwidths[0])


def _numbers(name: str, text: str) -> list[float]:
    """Return the positive numbers that a parameter lists."""
    try:
        return [check.finite(name, float(each), above=0.0) for each in names_in(text)]
    except ValueError:  # BadInput is one, too.
        raise check.refuse(name, text, "positive numbers with commas between") from None


def _pairs(etas: Sequence[float], gammas: Sequence[float]) -> "zip[tuple[float, float]]":
    if len(etas) != len(gammas) or len(set(etas)) != len(etas):
        raise BadInput(f"eta = {etas}, gamma = {gammas}: must be a gamma for each eta, and no eta twice; give both")
    return zip(etas, gammas, strict=True)


def _repetition(
    study: Study,
    label: str | None,
    cases: Sequence[tuple[tuple[float, float], Method]],
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

    def keep(eta: float, method: Method, run: Run) -> None:
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
