"""DKL-MLP over a network: a deep model whose trained matrix, for C classes, is learned by DKLA, COKE and QC-ODKLA."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netsim.agents import COKE, DKLA, ODKLA, Geometric, OnlineClasses
from netsim.coders import Uniform
from netsim.core.records import DELIVERED
from netsim.scenarios.data.samples import DIGITS, ClassSamples
from netsim.scenarios.data.streams import passes
from netsim.scenarios.data.tables import deal, enough, training
from netsim.scenarios.deep.maps import Shape, choose_times, kernels_in
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.classes import MEASURES, ClassTask, Criterion
from netsim.scenarios.tasks.division import tell_division
from netsim.scenarios.tasks.method import Task, played
from netsim.scenarios.tasks.savings import cost_to_reach
from netsim.scenarios.tasks.settings import Channel, Divided, NetworkSize
from netsim.studies import Study
from netsim.studies.experiment import Method, Seeds
from netsim.studies.figures import Axis, Figure, curves
from netsim.util import check

_TRAIN_SHARE = 0.75
_TIMES = (2.5, 2.0, 1.8, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1.02, 1.01)
"""Levels of the training loss, as multiples of the centralised model's loss."""

_ERRORS = (0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02)
_SMOOTH = 0.1
"""Share of the rounds over which an online method's errors are averaged in figures."""

_COUNTS = ("transmissions", "payload_bits", "wire_bits")


@dataclass(frozen=True, kw_only=True)
class Model(Criterion):
    """The feature map of DKL-MLP, and the loss.

    Parameters
    ----------
    width : int
        Random frequencies of a layer of DKL-MLP.
    layers : int
        Number of layers of DKL-MLP.
    kernels : str
        "gaussian", "laplacian" or "cauchy" for all layers, or one kernel per layer, separated by commas.
    tune : bool
        Choose the bandwidths by cross-validated ridge regression; else they are the median distances.
    criterion : str
        Loss. "squared" has exact steps, computed as a product with a fixed matrix. "logistic" and "hinge" need an
        iterative solver and take minutes.
    """

    width: int = 100
    layers: int = 2
    kernels: str = "gaussian"
    tune: bool = True
    criterion: str | None = "squared"

    def shapes(self) -> tuple[Shape, Shape]:
        """Return the shapes of DKL-MLP and of RF-KL, which has as many features as all of DKL-MLP's layers together."""
        check.integer("layers", self.layers, low=1)
        check.integer("width", self.width, low=1)
        deep = Shape("DKL-MLP", (self.width,) * self.layers, tuple(kernels_in(self.kernels, self.layers)))
        return deep, Shape("RF-KL", (deep.features,), deep.kernels[:1])


@dataclass(frozen=True, kw_only=True)
class Methods:
    """The settings of the methods.

    Parameters
    ----------
    rho : float
        Penalty of DKLA and COKE.
    threshold : float
        COKE and QC-ODKLA broadcast in round k if their change has norm >= threshold * decay^k.
    decay : float
        Decay of the threshold per round.
    online_rho : float
        Penalty of QC-ODKLA.
    eta : float
        QC-ODKLA's proximal weight: the larger, the shorter the step.
    bits : int
        Bits per element of QC-ODKLA's messages (1-16); each message includes the quantizer's range.
    """

    rho: float = 5e-4
    threshold: float = 8.0
    decay: float = 0.985
    online_rho: float = 1.0
    eta: float = 3.0
    bits: int = 4

    def named(self) -> dict[str, Method]:
        """Return the methods by name; raises BadInput for a parameter outside its range."""
        rho, online_rho, eta = (
            check.finite(name, getattr(self, name), above=0.0) for name in ("rho", "online_rho", "eta")
        )
        censor = Geometric(self.threshold, self.decay)
        online = Method(ODKLA, rho=online_rho, eta=eta, censor=censor, coder=Uniform(self.bits))
        return {"DKLA": Method(DKLA, rho=rho), "COKE": Method(COKE, rho=rho, censor=censor), "QC-ODKLA": online}


@dataclass(frozen=True, kw_only=True)
class NetworkSamples(Divided, ClassSamples):
    """The samples to learn from, and their division among agents."""


def streamed(task: ClassTask, seed: int) -> Task:
    """Return a task whose agents draw endless streams: each pass over an agent's samples is in a new random order."""

    def cost(node: int) -> OnlineClasses:
        problem = task.problems[node]
        rows = passes(len(problem.labels), node, seed)
        stream = ((problem.features[row], int(problem.labels[row])) for row in rows)
        return OnlineClasses(stream, problem.size[0], loss=problem.loss, regularizer=problem.regularizer)

    return Task(cost, task.graph)


@dataclass(frozen=True)
class Case:
    """One run of the study, with the measures of the centralised model on the same feature map."""

    shape: Shape
    method: str
    channel: Channel
    best: Mapping[str, float]

    @property
    def links(self) -> str:
        """Return the non-ideal properties of the links, as "loss 0.1, latency 0.02"; "" if they are ideal."""
        if self.channel.ideal:
            return ""
        pairs = {name: getattr(self.channel, name) for name in ("loss", "burst", "slot", "latency", "rate", "budget")}
        return ", ".join(f"{name} {value:g}" for name, value in pairs.items() if value != getattr(Channel(), name))

    @property
    def short(self) -> str:
        """Return the run's name among runs with the same feature map."""
        return _with(self.method, self.links)

    @property
    def name(self) -> str:
        """Return the run's name in tables."""
        return f"{self.shape.method} {self.short}"


def _with(name: str, links: str) -> str:
    return f"{name}, {links}" if links else name


def deep_network(
    study: Study,
    *,
    data: str = DIGITS,
    samples: NetworkSamples = NetworkSamples(),
    size: NetworkSize = NetworkSize(),
    model: Model = Model(),
    methods: Methods = Methods(),
    channel: Channel = Channel(loss=0.1),
    seeds: Seeds = Seeds(),
) -> None:
    """DKL-MLP and RF-KL learned by DKLA, COKE, QC-ODKLA over a network (P. Xu's dissertation, section 5.6).

    All methods run on ideal links, and DKLA and COKE also on the given links. RF-KL has as many random features as all
    layers of DKL-MLP together, so that both have models and messages of equal size. About a minute with the defaults.

    Parameters
    ----------
    data : str
        "digits" (comes with netsim), or a table of classes: its name in NETSIM_DATA or the cache, or its path
        (.csv.gz, .csv, .npz, .parquet).
    """
    size, partition = size.resolved(), samples.divided()
    shapes = model.shapes()
    known = methods.named()
    table, classes = samples.load(data, seeds.data)
    enough(len(table.target), size.agents, 2)  # checked before a graph of that size is built
    links = _links(channel)
    graph = size.graph(seeds.graph)
    networks = {each: each.over(graph, seeds.network) for each in links}
    model = model.resolved(data, len(classes))
    sharing: dict[str, Any] = {"partition": partition, "classes": len(classes)}
    parts = deal(table, size.agents, train_share=_TRAIN_SHARE, seed=seeds.data, **sharing)
    study.note(*table.notes)
    study.record(samples, size, model, methods)
    tell_division(study, parts, samples, classes)
    loss, (inputs, target) = model.loss(len(classes)), training(parts)
    regularizer = model.regularizer / len(parts)
    chosen: dict[str, Any] = {"loss": loss, "regularizer": regularizer, "tune": model.tune, "seed": seeds.seed}
    times = choose_times(study, shapes, inputs, target, **chosen)
    cases = []
    for shape in shapes:
        phi = shape.build(inputs, times[shape.name], seeds.seed)
        task = ClassTask(parts, phi, loss=loss, regularizer=model.regularizer, graph=graph)
        best = task.measures(task.best_model()[None])
        study.centralised |= {f"{shape.name} {name}": value for name, value in best.items()}
        for each, network in networks.items():
            for method in known if each == links[0] else ("DKLA", "COKE"):
                case = Case(shape, method, each, best)
                probe = task.probe(ideal=each.ideal)
                learned = streamed(task, seeds.data) if method == "QC-ODKLA" else task
                played(study, case.name, known[method], learned, network, [probe], size.rounds)
                cases.append(case)
    _report(study, cases, len(classes), f"{data} data, {size.agents} agents{samples.partition_title}")


def _links(channel: Channel) -> list[Channel]:
    """Return ideal links, followed by the given links if those are not ideal."""
    ideal = Channel(medium=channel.medium, round_period=channel.round_period)
    return [ideal] if channel.ideal else [ideal, channel]


def _report(study: Study, cases: Sequence[Case], classes: int, title: str) -> None:
    """Add the study's tables, notes and figures, whose titles name the data and the number of agents."""
    rounds = study.rounds
    shapes = list(dict.fromkeys(case.shape for case in cases))
    features = shapes[0].features
    study.note(
        f"{shapes[0].name} and {shapes[1].name} have {features:,} features each: models and messages are "
        f"{features:,} x {classes} matrices, {features * classes:,} trainable parameters."
    )
    savings, saved = _savings(rounds, cases)
    table = _ends(study, cases)
    _answer(study, table, savings)
    study.table("ends", "At the end", table)
    if len(savings):
        study.table("cost_to_reach", "Transmissions to reach a training loss, in multiples of the optimum's", savings)
        study.note(*saved)
    errors = rounds.assign(test_error=1.0 - rounds["test_accuracy"])
    bits = cost_to_reach(errors, "test_error", _ERRORS, cost="wire_bits", saves={})
    if len(bits):
        study.table("bits_to_reach", "Bits on the wire to reach a share of test samples misclassified", bits)
    study.note(*_notes(study, cases))
    for shape in shapes:
        own = [case for case in cases if case.shape == shape]
        figure = partial(_curves, rounds, own, "train_loss", "training loss", f"{shape.name}, {title}")
        caption = f"The training loss on {shape.name}, for each method and its links."
        study.figure(f"train_loss_{shape.method.lower().replace('-', '_')}", figure, caption, hero=shape == shapes[0])
    first = [case for case in cases if case.links == cases[0].links]
    study.figure(
        "test_error",
        partial(_curves, errors, first, "test_error", "test error (1 − accuracy)", title),
        "The share of test samples that are misclassified, for each map and method.",
    )


def _answer(study: Study, ends: pd.DataFrame, savings: pd.DataFrame) -> None:
    """State COKE's saving on ideal links and its accuracy, for each feature map."""
    study.ask("Does censoring save messages of deep kernel maps, too?")
    known = savings.dropna(subset=["COKE saves %"]) if "COKE saves %" in savings else savings[:0]
    if known.empty:
        return
    parts, fields = [], {}
    at_end = ends[(ends["links"] == "ideal") & (ends["method"] == "COKE")].set_index("map")["test_accuracy"]
    for k, (name, part) in enumerate(known.groupby("map", sort=False)):
        parts.append(f"{{saved{k}:.0f}} % of DKLA's messages with {name} (test accuracy {{right{k}:.3f}})")
        fields[f"saved{k}"] = (part["COKE saves %"].min(), part["COKE saves %"].max())
        fields[f"right{k}"] = at_end[name]
    answer(
        study,
        f"COKE saves {' and '.join(parts)}.",
        "Least to most, at {count} training losses that both reached, {times:g} times the optimum's, on ideal links. "
        f"{of_one_run(study)}",
        times=(known["times"].max(), known["times"].min()),
        count=len(known["times"].unique()),
        **fields,
    )


def _ends(study: Study, cases: Sequence[Case]) -> pd.DataFrame:
    """Return the last row of each run, followed by rows of the centralised models."""
    found = []
    for case in cases:
        last = study.runs[case.name].rounds.iloc[-1]
        kinds = {"map": case.shape.name, "method": case.method, "loss": case.channel.loss}
        kinds["links"] = case.links or "ideal"
        found.append(kinds | {name: last[name] for name in (*_COUNTS, *MEASURES, "consensus_error", "dual_residual")})
    for shape, best in {case.shape: case.best for case in cases}.items():
        found.append({"map": shape.name, "method": "centralised", **best})
    return pd.DataFrame(found)


def _savings(rounds: pd.DataFrame, cases: Sequence[Case]) -> tuple[pd.DataFrame, list[str]]:
    """Return, for each map and error level, the transmissions that each method needed, and notes on the savings."""
    tables, notes = [], []
    columns = {links: _with("COKE saves %", links) for links in dict.fromkeys(case.links for case in cases)}
    pairs = {column: (_with("DKLA", links), _with("COKE", links)) for links, column in columns.items()}
    for shape in dict.fromkeys(case.shape for case in cases):
        own = {case.name: case for case in cases if case.shape == shape}
        best = next(iter(own.values())).best["train_loss"]
        part = rounds[rounds["algorithm"].isin(list(own))]
        part = part.assign(algorithm=part["algorithm"].map({name: case.short for name, case in own.items()}))
        table = cost_to_reach(part.assign(times=part["train_loss"] / best), "times", _TIMES, saves=pairs)
        table.insert(0, "map", shape.name)
        tables.append(table)
        for links, column in columns.items():
            # The column is missing if DKLA or the compared method did not run.
            known = table.reindex(columns=["times", column]).dropna()
            if len(known):
                saved, times = known[column], known["times"]
                share = _range(f"{saved.min():.0f}", f"{saved.max():.0f}")
                levels = _range(f"{times.max():g}", f"{times.min():g}")
                notes.append(
                    f"{shape.name}, {links or 'ideal links'}: COKE saves {share} % of DKLA's "
                    f"transmissions to a training loss of {levels} times the optimum's."
                )
    return pd.concat(tables, ignore_index=True), notes


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _notes(study: Study, cases: Sequence[Case]) -> Iterator[str]:
    """Yield notes on runs without messages, on effects of lost frames, and on learning from one sample per round."""
    silent = [case.name for case in cases if not study.runs[case.name].ledger.transmissions]
    if silent and len(next(iter(study.runs.values())).agents) > 1:
        yield f"{', '.join(silent)}: nothing was ever sent; the threshold is too high for such a model."
    for case in cases:
        run = study.runs[case.name]
        if run.ledger.link_messages <= run.ledger.exits[DELIVERED]:
            continue
        last = run.rounds.iloc[-1]
        ideal = next(c for c in cases if (c.shape, c.method, c.links) == (case.shape, case.method, ""))
        loss = study.runs[ideal.name].rounds["train_loss"].iloc[-1]
        beside = f", on ideal links at {loss / ideal.best['train_loss']:.3g} times"
        yield (
            f"{case.name} missed frames: its duals no longer sum to zero, by {last['dual_residual']:.3g}. It ends at "
            f"{last['train_loss'] / case.best['train_loss']:.3g} times the centralised training loss{beside}, with a "
            f"consensus error of {last['consensus_error']:.3g}."
        )
    for case in cases:
        if case.method == "QC-ODKLA":
            last = study.runs[case.name].rounds.iloc[-1]
            yield (
                f"{case.name} takes one sample an agent and round, {last['round']:.0f} each, the others all of theirs "
                f"every time: test accuracy {last['test_accuracy']:.3f} beside the centralised "
                f"{case.best['test_accuracy']:.3f}."
            )


def _smoothed(part: pd.DataFrame, cases: Sequence[Case], column: str) -> pd.DataFrame:
    """Return the rows with a column of online methods replaced by its moving average, which their names then mention.

    A single sample moves an online model back and forth, so its raw errors would be illegible beside those of batch
    methods.
    """
    for case in cases:
        rows = part["algorithm"] == case.name
        window = round(_SMOOTH * rows.sum())
        if case.method == "QC-ODKLA" and window > 1:
            smooth = part.loc[rows, column].rolling(window, min_periods=1).mean()
            part = part.assign(**{column: part[column].where(~rows, smooth)})
            part["algorithm"] = part["algorithm"].where(~rows, f"{case.name}, mean of {window} rounds")
    return part


def _curves(rounds: pd.DataFrame, cases: Sequence[Case], column: str, label: str, title: str) -> Figure:
    """Draw a measure against rounds, transmissions and bits on the wire, with the centralised models' values."""
    part = rounds[rounds["algorithm"].isin([case.name for case in cases])]
    part = _smoothed(part[np.isfinite(part[column])], cases, column)
    shapes = {case.shape: case.best for case in cases}
    levels = {
        f"centralised, {shape.method}": best[column] if column in best else 1.0 - best["test_accuracy"]
        for shape, best in shapes.items()
    }
    axes = [Axis(name, log=True) for name in ("round", "transmissions", "wire_bits")]
    return curves(part, Axis(column, log=True, label=label), axes, title, levels)
