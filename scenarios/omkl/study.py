"""Online multi-kernel learning by quantized gossip on dense and sparse graphs, and two methods to compare with."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pandas as pd

from netsim.scenarios.data.partitions import EVENLY
from netsim.scenarios.data.streams import rounds_of
from netsim.scenarios.data.tables import Table
from netsim.scenarios.omkl.figures import draw_losses
from netsim.scenarios.omkl.task import (
    GOSSIP,
    SINGLE,
    SYNTHETIC,
    KernelMeasure,
    MethodSetting,
    ModelSetting,
    OnGraph,
    Streams,
    TwoClasses,
)
from netsim.scenarios.tasks.answers import answer
from netsim.scenarios.tasks.classes import largest_share
from netsim.scenarios.tasks.division import tell_streams
from netsim.scenarios.tasks.settings import Channel
from netsim.scenarios.tasks.theory import Promises
from netsim.studies import Study
from netsim.studies.results import confidence, interval_text
from netsim.studies.seeds import DataSeeds
from netsim.util import check

COLUMNS = (
    "round",
    "transmissions",
    "link_messages",
    "payload_bits",
    "wire_bits",
    "loss",
    "running_loss",
    "weighted_loss",
    "consensus_error",
)
"""Columns of every repetition that are kept for all rounds."""

_TAIL = 0.1
"""Share of the last rounds over which ``tail_loss`` is averaged."""

_NAMES = ("-1", "+1")
"""Names of the two classes in a legend."""

_FINAL = ("running_loss", "tail_loss")
_LINKS, _BITS = "links", "bits"


@dataclass(frozen=True, kw_only=True)
class Length:
    """The length and the number of the runs.

    Parameters
    ----------
    rounds : int
        Number of rounds; by default the most that the samples allow.
    repeats : int
        Number of repetitions (the paper: 100).
    """

    rounds: int | None = None
    repeats: int = 3

    def resolved(self, table: Table, agents: int) -> Self:
        """Return the length with the number of rounds set; raises BadInput for more than the table allows."""
        most = rounds_of(table, agents)
        rounds = most if self.rounds is None else check.integer("rounds", self.rounds, low=1, high=most)
        return dataclasses.replace(self, rounds=rounds)


def omkl(
    study: Study,
    *,
    data: str = SYNTHETIC,
    problem: TwoClasses = TwoClasses(),  # noqa: B008 (frozen)
    model: ModelSetting = ModelSetting(),  # noqa: B008 (frozen)
    method: MethodSetting = MethodSetting(),  # noqa: B008 (frozen)
    length: Length = Length(),
    channel: Channel = Channel(),
    promises: Promises = Promises(),
    seeds: DataSeeds = DataSeeds(),
) -> None:
    """Online multi-kernel learning by gossip, on a path, a ring, all links (Ortega and Jafarkhani 2023).

    The task has two classes and logistic loss. In each round an agent receives one sample, predicts its class, and then
    learns from it. Gossip is compared with Koloskova et al. 2019, with one kernel, and with OMKL of Shen et al. 2021,
    on the complete graph. Each repetition has other random features and another order of the samples, the same for all
    methods. rounds.csv and ledger.csv describe the first repetition; losses.csv has the means over all repetitions.

    Parameters
    ----------
    data : str
        "synthetic" (two crescents in the plane); banana, credit_default, mnist, or the name of another table of classes
        in NETSIM_DATA or the cache, or its path (.csv.gz, .csv, .npz, .parquet).
    """
    problem = problem.resolved(data)
    model.check()
    steps, tried = method.steps(), method.methods()
    repeats = check.integer("repeats", length.repeats, low=1)
    check.fits("repeats", repeats, 100 * repeats, "the seeds of that many")
    table = problem.table(data, seeds.data)
    length = length.resolved(table, model.agents)  # checked before large graphs are built
    for each in tried:
        channel.over(each.graph(model.agents), seeds.network)
    study.note(*table.notes)
    study.record(problem, length)
    study.constant = {"running_accuracy": largest_share(table.target)}
    cases = list(itertools.product(steps, tried))
    parts, rounds, partition = [], check.integer("rounds", length.rounds, low=1), problem.divided()
    for repetition, own in enumerate(seeds.repeated(length.repeats)):
        if partition != EVENLY and not repetition:
            dealt = model.owners(table, partition, own)
            tell_streams(study, [(table.target[each] > 0).astype(float) for each in dealt], rounds, problem, _NAMES)
        label = f"repetition {repetition + 1} of {length.repeats}" if repetition else None
        streams = model.streams(table, rounds, own, partition)
        found = _repetition(study, label, cases, model, streams, channel, promises, own)
        parts += [each.assign(repetition=repetition) for each in found]
    _report(study, f"{data} data", tried, pd.concat(parts, ignore_index=True), model, problem.partition_title)
    promises.show(study)


def _repetition(
    study: Study,
    label: str | None,
    cases: Sequence[tuple[tuple[float, float], OnGraph]],
    model: ModelSetting,
    streams: Streams,
    channel: Channel,
    promises: Promises,
    seeds: DataSeeds,
) -> list[pd.DataFrame]:
    """Run every case on the same streams; return the `COLUMNS` of each run, with eta and method.

    Without a label the study stores the runs under their names. With a label it only shows the label as progress.
    """
    rounds = len(streams[0])
    found = []
    # Progress displays must not overlap: the first repetition shows the rounds of each run, later ones count runs.
    with nullcontext() if label is None else study.progress(label, len(cases)) as progress:
        for done, ((eta, gamma), method) in enumerate(cases, 1):
            network = channel.over(method.graph(model.agents), seeds.network)
            agents = method.agents(model, streams, rounds, eta, gamma)
            if progress is None:
                name = f"{method.name}, eta {eta:g}"
                study.note(*(f"{name}: {each}." for each in agents[0].doubts(agents, network)))
                probes = [KernelMeasure(network.graph), *promises.probes(study, name, agents, network, rounds)]
                run = study.run(name, network, agents, probes, rounds)
            else:
                run = network.run(agents, [KernelMeasure(network.graph)])
                progress(done)
            found.append(run.rounds[list(COLUMNS)].assign(eta=eta, method=method.name))
    return found


def _report(
    study: Study, data: str, tried: Sequence[OnGraph], runs: pd.DataFrame, model: ModelSetting, partition: str
) -> None:
    """Add tables, notes and the figure; ``runs`` has the `COLUMNS` by eta, method (its name) and repetition."""
    agents, sigma = model.agents, model.bandwidths[0]
    final = _final(runs)
    losses = study.tables["losses"] = _losses(runs)
    ends = _ends(tried, runs, final, agents)
    count = runs["repetition"].nunique()
    differences = _differences(tried, final)
    _answer(study, differences, {row.method: row.links for row in ends.itertuples()}, count)
    study.table("ends", f"At the end; means over {count} repetitions" if count > 1 else "At the end", ends)
    study.note(
        f"running_loss is the mean over agents and all rounds, tail_loss over the last {_TAIL:.0%} of the rounds, both "
        "of the combined prediction's logistic loss and its regulariser."
    )
    if len(differences):
        title = f"Loss of a method less that of another, in pairs; ±: {interval_text([count])}"
        study.table("differences", title, differences)
        study.note(*_statements(tried, ends, differences, agents, sigma))
    title = f"Online multi-kernel learning, {data}, {agents} agents{partition}, {runs['round'].max()} rounds"
    if count > 1:
        title += f"\nbands: {interval_text([count])}"
    study.figure(
        "losses",
        partial(draw_losses, losses, _above(tried, runs), tried, title),
        "The mean loss so far by rounds and by payload, and how far each method's is above the reference's: a row for "
        "each step.",
        hero=True,
    )


def _answer(study: Study, differences: pd.DataFrame, links: dict[Any, Any], count: int) -> None:
    """State how much gossip loses on fewer links at the largest step size; nothing without a complete graph."""
    study.ask("What does gossip lose if few agents are linked?")
    found = differences[differences["about"] == _LINKS] if len(differences) else differences
    if found.empty:
        return
    row = found.iloc[int(found["eta"].argmax())]
    half = row["± running_loss"] if count > 1 else 0.0
    answer(
        study,
        "On {few} links its running loss is {apart:+.2g} above that on {all} links, by {percent:+.2g} % in the mean.",
        f"{interval_text([count])}, of the differences in pairs, at step {{eta:g}}; {{name}} beside {{against}}.",
        **{"few": links[row["method"]], "all": links[row["against"]], "percent": row["running_loss %"]},
        **{"eta": row["eta"], "name": row["method"], "against": row["against"]},
        apart=(row["running_loss"] - half, row["running_loss"] + half),
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def _losses(runs: pd.DataFrame) -> pd.DataFrame:
    """Return, for each round, the means over the repetitions, and the half-width of the running loss's interval."""
    groups = runs.groupby(["eta", "method", "round"], sort=False)
    means = groups[list(COLUMNS[1:])].mean()
    means["running_loss_band"] = groups["running_loss"].agg(_half_width)
    return means.reset_index()


def _half_width(values: "pd.Series[float]") -> float:
    """Return the half-width of the confidence interval of a mean over repetitions; NaN for a single repetition."""
    low, high = confidence(values)
    return (high - low) / 2.0


def _final(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the final running_loss and tail_loss, indexed by eta, method and repetition."""
    last = runs["round"].max()
    keys = ["eta", "method", "repetition"]
    final: pd.DataFrame = runs[runs["round"] == last].set_index(keys)[["running_loss"]]
    tail = runs[runs["round"] > last - max(1, round(_TAIL * last))].groupby(keys)["loss"].mean()
    final["tail_loss"] = tail
    return final.sort_index()


def _ends(tried: Sequence[OnGraph], runs: pd.DataFrame, final: pd.DataFrame, agents: int) -> pd.DataFrame:
    """Return a row for each step size and method, with its cost and its losses."""
    counts = ["transmissions", "link_messages", "payload_bits", "wire_bits"]
    needed = runs[runs["round"] == runs["round"].max()].groupby(["eta", "method"])[counts].mean()
    means = final.groupby(["eta", "method"]).mean()
    rows = []
    for eta, method in itertools.product(runs["eta"].unique(), tried):
        row: dict[str, Any] = {"eta": eta, "method": method.name, "topology": method.topology}
        row["links"] = method.graph(agents).number_of_edges()
        row["element_bits"] = method.element_bits
        for part in (needed, means):
            row |= part.loc[(eta, method.name)].to_dict()
        rows.append(row)
    return pd.DataFrame(rows)


def _comparisons(tried: Sequence[OnGraph]) -> list[tuple[str, OnGraph, OnGraph]]:
    """Return the comparisons to make: a topic, a method, and the method that it is compared with."""
    gossip = [method for method in tried if method.kind == GOSSIP]
    found = []
    for ours, theirs in itertools.product(gossip, gossip):
        if ours.topology != "complete" and theirs.topology == "complete" and ours.bits == theirs.bits:
            found.append((_LINKS, ours, theirs))
    for ours, theirs in itertools.product(gossip, gossip):
        if ours.topology == theirs.topology and ours.bits is not None and theirs.bits is None:
            found.append((_BITS, ours, theirs))
    coded = [method for method in gossip if method.bits is not None][:1]
    others = [method for method in tried if method.kind != GOSSIP]
    return found + [(theirs.kind, ours, theirs) for ours, theirs in itertools.product(coded, others)]


def _differences(tried: Sequence[OnGraph], final: pd.DataFrame) -> pd.DataFrame:
    """Return, for each step size and comparison, the difference of both losses between the two methods."""
    rows = []
    for eta, (about, ours, theirs) in itertools.product(final.index.unique("eta"), _comparisons(tried)):
        row: dict[str, Any] = {"eta": eta, "about": about, "method": ours.name, "against": theirs.name}
        for name in _FINAL:
            base = final[name].loc[(eta, theirs.name)]
            apart = final[name].loc[(eta, ours.name)] - base
            row[name] = apart.mean()
            row[f"± {name}"] = _half_width(apart)
            row[f"{name} %"] = 100.0 * apart.mean() / base.mean()
        rows.append(row)
    return pd.DataFrame(rows)


def _above(tried: Sequence[OnGraph], runs: pd.DataFrame) -> pd.DataFrame:
    """Return gossip's excess loss over unquantized gossip on all links, by eta, method and round.

    Without a complete graph the reference is gossip on the first graph; without gossip the table is empty.
    """
    gossip = [method for method in tried if method.kind == GOSSIP]
    plain = sorted((method for method in gossip if method.bits is None), key=lambda each: each.topology != "complete")
    if not plain:
        return pd.DataFrame()
    keys = ["eta", "repetition", "round"]
    base = runs[runs["method"] == plain[0].name].set_index(keys)["running_loss"]
    parts = []
    for method in gossip:
        apart = runs[runs["method"] == method.name].set_index(keys)["running_loss"] - base
        groups = apart.groupby(["eta", "round"], sort=False)
        part = pd.DataFrame({"above": groups.mean(), "band": groups.agg(_half_width)}).reset_index()
        parts.append(part.assign(method=method.name, reference=plain[0].name))
    return pd.concat(parts, ignore_index=True)


# --- what they show ---------------------------------------------------------------------------------------------------


def _statements(
    tried: Sequence[OnGraph], ends: pd.DataFrame, differences: pd.DataFrame, agents: int, sigma: float
) -> Iterator[str]:
    """Yield conclusions from the differences: one line for each step size and comparison."""
    by_name = {method.name: method for method in tried}
    payload = ends.groupby("method")["payload_bits"].mean()
    for (eta, about), part in differences.groupby(["eta", "about"], sort=False):
        ours, theirs = (by_name[part[column].iloc[0]] for column in ("method", "against"))
        if about == _LINKS:
            graphs = dict.fromkeys(by_name[name].topology for name in part["method"])
            links = {each: OnGraph(GOSSIP, each, None).graph(agents).number_of_edges() for each in graphs}
            named = " and ".join(f"{each} ({count} links)" for each, count in links.items())
            most = [_up(part[f"{name} %"].abs().max(skipna=False)) for name in _FINAL]
            text = (
                f"gossip on {named} ends within {most[0]} % of the running loss of the complete graph "
                f"({theirs.graph(agents).number_of_edges()} links) and within {most[1]} % of its tail loss"
            )
        elif about == _BITS:
            most = [_up(part[name].abs().max(skipna=False)) for name in _FINAL]
            share = (
                f", with {payload[ours.name] / payload[theirs.name]:.1%} of the bits" if payload[theirs.name] else ""
            )
            text = (
                f"a {ours.bits}-bit quantizer moves gossip's running loss by at most {most[0]} "
                f"and its tail loss by at most {most[1]}{share}"
            )
        else:
            with_it = f"{theirs.name} with the one kernel sigma = {sigma:g}" if about == SINGLE else theirs.name
            ends_at = [
                f"{abs(part[f'{name} %'].iloc[0]):.2g} % {'higher' if part[name].iloc[0] > 0 else 'lower'}"
                for name in _FINAL
            ]
            text = f"{ours.name} has a running loss {ends_at[0]} and a tail loss {ends_at[1]} than {with_it}"
        yield f"eta = {eta:g}: {text}."


def _up(value: float) -> str:
    """Return a number rounded up to two digits, so that it remains an upper bound."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit) * unit:.2g}"
