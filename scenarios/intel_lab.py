"""DKLA and COKE over measured links: the effect of losses on learning, and the effect and cost of remedies."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd

from netsim import Energy, Link, Network, Radio
from netsim.agents import COKE, DKLA, EdgeDuals, Geometric
from netsim.datasets import Missing
from netsim.links.measured import LinkedGraph, synthetic_lab
from netsim.links.measured import intel_lab as measured_lab
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.diagnosis import unheard
from netsim.scenarios.tasks.method import REMEDIES, parse_remedies, reliability_of
from netsim.scenarios.tasks.motes import by_round, cc2420, numbered, reception, spent
from netsim.scenarios.tasks.problems import KernelRegression, titled
from netsim.scenarios.tasks.settings import Rows, chosen_names
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Grid, Method, NamedValue, Seeds, Setup
from netsim.studies.experiment.study import Played, study_of
from netsim.studies.figures import Axis, Figure, curves, drawing
from netsim.studies.seeds import DataSeeds
from netsim.util import check


@dataclass(frozen=True, kw_only=True)
class LabModel:
    """The model to learn, and the step sizes.

    Parameters
    ----------
    features : int
        Number of random features.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1].
    regularizer : float
        The centre's regulariser lambda.
    relaxation : float
        Relaxation of edge duals, in (0, 1); without losses 0.5 is equivalent to DKLA.
    """

    features: int = 100
    sigma: float = 0.5
    regularizer: float = 1e-4
    relaxation: float = 0.8


@dataclass(frozen=True, kw_only=True)
class Motes:
    """The links and the radios.

    Parameters
    ----------
    links : str
        "measured": the reception rates measured in the lab. "synthetic": 53 generated motes and links, usable without
        the data set intel_connectivity; their results do not apply to the lab.
    medium : str
        "matrix": a message is received or lost as a whole, at the measured rate, and transmissions are scheduled.
        "fragments": each fragment of 116 bytes is received or lost separately. "csma": like "fragments", but all motes
        contend for one medium by CSMA-CA, so that collisions lose fragments, too.
    least : float
        Least reception rate of a link: two motes are linked if both directions reach it.
    power_dbm : int
        Transmit power, for the energy: 0, -1, -3, -5, -7, -10, -15 or -25.
    round_period : float
        Length of a round in seconds.
    min_be : int
        macMinBE with "csma": the first back-off is at most 2^min_be - 1 units of 0.32 ms. All motes begin a round at
        the same time, and the standard's value 3 causes too many collisions then.
    """

    links: str = "measured"
    medium: str = "matrix"
    least: float = 0.25
    power_dbm: int = 0
    round_period: float = 15.0
    min_be: int = 8

    def link_and_radio(self) -> tuple[Link, Radio]:
        """Return the link and radio of a CC2420 (IEEE 802.15.4); raises BadInput for invalid settings."""
        check.one_of("medium", self.medium, ("matrix", "fragments", "csma"))
        link, radio, _ = cc2420(self.power_dbm)
        min_be = check.integer("min_be", self.min_be, low=0, high=20)
        # A message that is received or lost as a whole has a single header, and its slot is long enough for all of it.
        link = Link(header_bits=link.header_bits) if self.medium == "matrix" else link
        return link, dataclasses.replace(radio, min_be=min_be, max_be=max(min_be, radio.max_be))

    def energy(self) -> tuple[Energy, float]:
        """Return the radio's power in each state, and its bit rate."""
        link, _, energy = cc2420(self.power_dbm)
        return energy, check.finite("rate", link.rate, above=0)

    @property
    def real(self) -> str:
        """Return the name of the runs over lossy links: "real" only if the links were measured."""
        return "real" if check.one_of("links", self.links, ("measured", "synthetic")) == "measured" else "synthetic"

    def measured(self) -> LinkedGraph:
        """Return the graph of the lab's measured links, or of generated ones, with motes numbered from 0."""
        if self.real == "synthetic":
            return numbered(synthetic_lab(least=self.least))
        try:
            return numbered(measured_lab(least=self.least))
        except Missing as error:
            raise Missing(f"{error}; --links synthetic takes links that netsim made") from None


@dataclass(frozen=True, kw_only=True)
class LabLinks(Motes):
    """The lab's network, for use in an experiment.

    Parameters
    ----------
    lossless : bool
        Whether links lose no frames and motes do not contend for the medium.
    reliability : str
        How links recover lost frames.
    """

    lossless: bool = False
    reliability: str = "none"

    @property
    def title(self) -> str:
        """Return the text about the network for titles of figures."""
        return "" if self.real == "real" else ", synthetic links"

    def topology(self, setup: Setup) -> "nx.Graph[int]":
        """Return the graph of linked motes."""
        return self.measured().graph

    def network(self, setup: Setup) -> Network:
        """Return the network of a run, lossless or with the lab's losses."""
        measured, (link, radio) = self.measured(), self.link_and_radio()
        link = dataclasses.replace(link, reliability=self.reliability)
        losses = {} if self.lossless else {ends: each.loss for ends, each in measured.links.items()}
        # On the lab's plan, and in floor_plan.png, y grows downwards; a replay shall look the same.
        graph = measured.graph.copy()
        for place in graph.nodes.values():
            x, y = place["pos"]
            place["pos"] = (x, -y)
        return Network(
            graph,
            link,
            links={ends: dataclasses.replace(link, loss=loss) for ends, loss in losses.items()},
            round_period=self.round_period,
            medium=radio if self.medium == "csma" and not self.lossless else "radio",
            seed=setup.seeds.network,
        )


def experiment(
    *,
    data: str = "airquality",
    rounds: int = 2000,
    rows: Rows = Rows(),
    model: LabModel = LabModel(),
    motes: Motes = Motes(),
    algorithms: str = "DKLA,COKE",
    remedies: str = "running-sums,coded-sums,edge-duals",
    seeds: DataSeeds = DataSeeds(),
) -> Experiment:
    """DKLA and COKE on 53 motes of the Intel lab: ideal links, its real ones, remedies; error, bits and energy.

    The seed determines the division of samples, the features and the losses; sweep --seed to obtain intervals.
    Reception rates are those of the data set intel_connectivity, and radios are CC2420 (IEEE 802.15.4). Without data
    sets the study runs with --data synthetic --links synthetic.

    Parameters
    ----------
    data : str
        The data to learn from: the NAME of a table in NETSIM_DATA or netsim's cache, or its path; or "synthetic".
    rounds : int
        Number of rounds.
    algorithms : str
        Algorithms to run, separated by commas.
    remedies : str
        Remedies for lost frames: "running-sums", "coded-sums", "edge-duals", "ack", "nack", "keyframe", separated by
        commas, or "none".
    """
    rows.divided()
    ways, duals = parse_remedies(remedies), {**REMEDIES, "edge-duals": EdgeDuals(model.relaxation)}
    known = {"DKLA": Method(DKLA, rho=1e-2), "COKE": Method(COKE, rho=1e-2, censor=Geometric(0.9, 0.97))}
    methods = {name: known[name] for name in chosen_names("algorithms", algorithms, known)}
    names = {"rho": "method.rho"}
    if "COKE" in methods:
        names |= {"threshold": "methods.COKE.censor.v", "decay": "methods.COKE.censor.mu"}
    size = {name: getattr(model, name) for name in ("features", "sigma", "regularizer")}
    return Experiment(
        # The error of the neighbours' copies is nonzero only on lossy links, but every run shall have the column.
        problem=KernelRegression(data=data, rows=rows, **size),
        methods=methods,
        networks=LabLinks(**dataclasses.asdict(motes)),
        grid=Grid(
            {
                "network.lossless": NamedValue(way, way == "ideal"),
                "network.reliability": NamedValue(way, reliability_of(way)),
                "method.duals": NamedValue(way, duals.get(way, duals["none"])),
            }
            for way in ("ideal", motes.real, *ways)
        ),
        seeds=[Seeds(**dataclasses.asdict(seeds))],
        rounds=rounds,
        names=names,
        report=_report,
    )


intel_lab = study_of(experiment)


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, played: Sequence[Played]) -> None:
    motes, seeds = played[0].cell.network, played[0].setup.seeds
    assert isinstance(motes, LabLinks)
    measured, (states, rate) = motes.measured(), motes.energy()
    used = {name: spent(run, states, rate) for name, run in study.runs.items()}
    title = f"{titled(played[0]).replace(' agents', ' motes')}, {seeds.text}"
    names = [measured.graph.nodes[node]["mote"] for node in measured.graph]
    table = comparison(study, used)
    _answer(study, table.set_index("algorithm"), motes.real)
    study.table("comparison", f"What each makes of the links ({title})", table)
    study.tables["energy"] = pd.concat(
        [table.assign(algorithm=name, mote=names) for name, table in used.items()], ignore_index=True
    )
    study.note(*_notes(study, measured, motes, used, seeds))
    energy = pd.concat([by_round(run, used[name]) for name, run in study.runs.items()], ignore_index=True)
    shown = study.rounds.assign(energy_j=energy.to_numpy())
    axes = [Axis("round", True), Axis("energy_j", True, "energy (J per mote)"), Axis("wire_bits", True)]
    levels = {"centralised": study.centralised["train_mse"]}
    title = f"Training error from round 5 on, {title}"
    real = "the lab's real ones" if motes.real == "real" else "synthetic ones"
    figure = partial(curves, shown[shown["round"] >= 5], Axis("train_mse", log=True), axes, title, levels)
    study.figure(
        "mse",
        figure,
        "The training error by rounds, by the energy that a mote has spent, and by bits on the wire, on ideal links "
        f"and on {real}.",
        hero=True,
    )
    study.figure(
        "floor_plan",
        partial(floor_plan, measured, _drawn(used)),
        "The motes at their places, coloured by the energy that they spent; the darker and wider a link, the more of "
        "it is heard.",
    )


def _answer(study: Study, table: pd.DataFrame, lossy: str) -> None:
    """State the first method's excess error over lossy links, without a remedy and with the best remedy."""
    method = str(table.index[0]).split()[0]
    own = table[[name.split()[0] == method for name in table.index]]
    known = own[np.isfinite(own["MSE / ideal"])].drop(index=f"{method} ideal")
    of = "a building's real links" if lossy == "real" else "synthetic links, made much like a building's,"
    study.ask(f"What do {of} cost in error, and which remedy mends it?")
    if (real := f"{method} {lossy}") not in known.index:
        return
    text = "{method} ends at {times:.2f} times its training MSE of ideal links"
    fields = {"method": method, "times": known.loc[real, "MSE / ideal"], "joules": known.loc[real, "mean_j"]}
    if len(known) > 1:
        best = known.drop(index=real)["MSE / ideal"].idxmin()
        text += ", with {remedy} at {least:.2f} times, for {spent:.2g} J a mote instead of {joules:.2g} J"
        fields |= {"remedy": best.split(" ", 1)[1], "least": known.loc[best, "MSE / ideal"]}
        fields |= {"spent": known.loc[best, "mean_j"]}
    else:
        text += ", for {joules:.2g} J a mote"
    answer(study, f"{text}.", of_one_run(study), **fields)


def _drawn(used: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the two runs drawn on the map: the first method without a remedy, and with the remedy of least energy."""
    method = next(iter(used)).split()[0]
    lossy = [name for name in used if name.split()[0] == method and not name.endswith(" ideal")]
    least = min(lossy, key=lambda name: float(used[name]["used_j"].mean()))
    return {name: used[name] for name in dict.fromkeys((lossy[0], least))}


def comparison(study: Study, used: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row per run: its error, also relative to ideal links, the reception rate, bits, and joules per mote."""
    last = study.rounds.groupby("algorithm", sort=False).last()
    error, bits = last["train_mse"], last["payload_bits"]
    table = last[["train_mse", "test_mse"]].copy()
    table["MSE / ideal"] = error / error[[f"{name.split()[0]} ideal" for name in last.index]].to_numpy()
    table["heard"] = last["delivered"] / [max(1, study.runs[name].ledger.link_messages) for name in last.index]
    table[["transmissions", "payload_bits"]] = last[["transmissions", "payload_bits"]]
    table[f"bits / {last.index[0]}"] = bits / bits.iloc[0]
    table["mean_j"] = [used[name]["used_j"].mean() for name in last.index]
    table["most_j"] = [used[name]["used_j"].max() for name in last.index]
    return table.reset_index()


def _notes(
    study: Study, measured: LinkedGraph, motes: Motes, used: Mapping[str, pd.DataFrame], seeds: Seeds
) -> Iterator[str]:
    graph = measured.graph
    yield (
        f"{len(graph)} motes, {graph.number_of_edges()} links, mean reception {reception(measured):.2f}. "
        f"Centralised: training MSE {study.centralised['train_mse']:.4g}."
    )
    if motes.real == "synthetic":
        yield "Synthetic links: netsim made the motes and their links; nothing was measured, nothing is of the lab."
    yield "Tables and replays number the agents from 0, in the order of the motes; energy.csv has both numbers."
    if motes.medium == "matrix":
        yield "A message is heard or lost as a whole, whatever its length: --medium fragments asks more of long ones."
    yield (
        f"All this is {seeds.text}: one draw of who has which samples, of the features and of the losses. "
        f"netsim sweep intel_lab --seed {seeds.seed}:{seeds.seed + 6} runs six, and netsim compare puts them together."
    )
    table = comparison(study, used)
    times = dict(zip(table["algorithm"], table["MSE / ideal"], strict=True))
    for name, run in study.runs.items():
        if not name.endswith(" ideal"):
            yield f"{name}: {times[name]:.3g} times the training MSE of ideal links, with {seeds.text}."
        yield from filter(None, [unheard(name, run)])
    for name, each in used.items():
        idle = float(each["listen_j"].sum() / each["used_j"].sum())
        if idle > 0.5:
            yield f"{name}: {idle:.1%} of the energy went into listening to an idle channel."


def floor_plan(measured: LinkedGraph, used: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw the motes at their positions, coloured by ``used_j``, and links by mean reception: one panel per run."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm, Normalize

    graph = measured.graph
    places = np.array([graph.nodes[node]["pos"] for node in graph])
    ends = list(graph.edges)
    heard = np.array(
        [1.0 - (measured.links[a, b].loss_model.mean + measured.links[b, a].loss_model.mean) / 2 for a, b in ends]
    )
    segments = [places[[a, b]] for a, b in ends]
    figure, panels = drawing(7.5 * len(used), 5.8, len(used), grid="")
    joules = np.concatenate([table["used_j"] for table in used.values()])
    # All panels share one scale, which is logarithmic because a remedy may spend only a tenth as much.
    scale: Normalize = LogNorm(joules.min(), joules.max()) if joules.min() > 0 else Normalize(0.0, joules.max())
    for panel, (title, table) in zip(panels, used.items(), strict=True):
        lines = LineCollection(segments, linewidths=0.5 + 4.0 * heard**2, cmap="Greys", zorder=1)
        lines.set_array(heard)
        lines.set_clim(0.0, 1.0)
        panel.add_collection(lines)
        dots = panel.scatter(*places.T, c=table["used_j"], cmap="plasma", norm=scale, s=190, edgecolors="k", zorder=2)
        for node, (x, y), shade in zip(graph, places, scale(table["used_j"].to_numpy()), strict=True):
            colour = "black" if shade > 0.5 else "white"
            panel.annotate(str(graph.nodes[node]["mote"]), (x, y), ha="center", va="center", fontsize=7, color=colour)
        # On the lab's plan y grows downwards.
        panel.invert_yaxis()
        panel.set(aspect="equal", title=title, xlabel="x (m)")
    panels[0].set_ylabel("y (m)")
    figure.colorbar(dots, ax=list(panels), label="energy (J)", shrink=0.9, pad=0.01)
    figure.colorbar(lines, ax=list(panels), label="reception (mean of both directions)", shrink=0.9, pad=0.01)
    return figure
