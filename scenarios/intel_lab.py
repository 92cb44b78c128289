"""DKLA and COKE over measured links: what losses do to learning, what remedies bring back, and what that costs."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netsim import Link, Network
from netsim.agents import COKE, DKLA, Always, Duals, EdgeDuals, Geometric
from netsim.links.measured import Measured
from netsim.links.measured import intel_lab as measured_lab
from netsim.network import Medium
from netsim.radio import Energy, presets
from netsim.scenarios.tasks.diagnosis import unheard
from netsim.scenarios.tasks.method import REMEDIES, Method, parse_remedies, reliability_of
from netsim.scenarios.tasks.motes import by_round, numbered, reception, spent
from netsim.scenarios.tasks.problems import KernelRegression
from netsim.scenarios.tasks.savings import measure
from netsim.scenarios.tasks.settings import Rows, chosen_names
from netsim.studies import Study
from netsim.studies.experiment import Setup
from netsim.studies.experiment.study import learned
from netsim.studies.figures import Axis, curves, drawing
from netsim.studies.seeds import DataSeeds, Seeds
from netsim.util import check

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class LabModel:
    """What is learned, and in which steps.

    Parameters
    ----------
    features : int
        Number of random features.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1].
    regularizer : float
        The centre's regulariser lambda.
    rho : float
        Penalty of both methods.
    threshold : float
        COKE broadcasts in round k if its change has norm >= threshold * decay^k.
    decay : float
        Decay of the threshold per round.
    relaxation : float
        Relaxation of edge duals, in (0, 1); 0.5 is DKLA's own where no frame is lost.
    """

    features: int = 100
    sigma: float = 0.5
    regularizer: float = 1e-4
    rho: float = 1e-2
    threshold: float = 0.9
    decay: float = 0.97
    relaxation: float = 0.8

    def methods(self, algorithms: str) -> list[Method]:
        """Return the methods that are named; raises BadInput for numbers outside their ranges."""
        rho = {"rho": check.finite("rho", self.rho, above=0.0)}
        censor = Geometric(self.threshold, self.decay)
        known = {"DKLA": Method("DKLA", DKLA, rho, Always()), "COKE": Method("COKE", COKE, rho, censor)}
        return [known[name] for name in chosen_names("algorithms", algorithms, known)]

    def problem(self, data: str, rows: Rows, measured: Measured) -> KernelRegression:
        """Return the problem on a network; raises BadInput for numbers outside their ranges."""
        graph = measured.graph
        size = {name: getattr(self, name) for name in ("features", "sigma", "regularizer")}
        return KernelRegression(data=data, rows=rows, agents=len(graph), edges=graph.number_of_edges(), **size)


@dataclass(frozen=True, kw_only=True)
class Motes:
    """The radios.

    Parameters
    ----------
    medium : str
        "matrix": a message is heard or lost as a whole, as often as was measured, and transmissions are scheduled.
        "fragments": the same for each of its fragments of 116 bytes. "csma": all contend for one medium by CSMA-CA, and
        fragments are lost by collisions, too.
    least : float
        Motes are linked that hear each other at least so often, in both directions.
    power_dbm : int
        Transmit power, for the energy: 0, -1, -3, -5, -7, -10, -15 or -25.
    round_period : float
        Length of a round in seconds.
    min_be : int
        With "csma" macMinBE: the first back-off is of up to 2^min_be - 1 units of 0.32 ms. All begin a round together,
        which the standard's 3 is not made for.
    """

    medium: str = "matrix"
    least: float = 0.25
    power_dbm: int = 0
    round_period: float = 15.0
    min_be: int = 8

    def preset(self) -> presets.Preset:
        """Return CC2420 radios of IEEE 802.15.4; raises BadInput for what they cannot be."""
        check.one_of("medium", self.medium, ("matrix", "fragments", "csma"))
        found = presets.ieee802154(self.power_dbm)
        assert found.radio is not None
        min_be = check.integer("min_be", self.min_be, low=0, high=20)
        radio = dataclasses.replace(found.radio, min_be=min_be, max_be=max(min_be, found.radio.max_be))
        # A message that is heard or lost as a whole has one header, and its slot leaves it time enough.
        link = Link(header_bits=found.link.header_bits) if self.medium == "matrix" else found.link
        return found._replace(link=link, radio=radio)

    def energy(self) -> tuple[Energy, float]:
        """Return what a radio spends in its states, and its bits per second."""
        found = presets.ieee802154(self.power_dbm)
        assert found.energy is not None
        return found.energy, check.finite("rate", found.link.rate, above=0)

    def network(
        self, measured: Measured, seeds: DataSeeds, *, ideal: bool = False, reliability: str = "none"
    ) -> Network:
        """Return the network; with ``ideal`` nothing is lost, and no mote contends."""
        link = dataclasses.replace(self.preset().link, reliability=reliability)
        losses = {ends: each.loss for ends, each in measured.links.items()}
        links = {} if ideal else {ends: dataclasses.replace(link, loss=loss) for ends, loss in losses.items()}
        radio = self.preset().radio
        medium: Medium = radio if self.medium == "csma" and not ideal and radio is not None else "radio"
        # As on the lab's own plan, and in floor_plan.png: y grows downwards, in a replay, too.
        graph = measured.graph.copy()
        for place in graph.nodes.values():
            x, y = place["pos"]
            place["pos"] = (x, -y)
        return Network(
            graph,
            link,
            links=links,
            round_period=self.round_period,
            medium=medium,
            seed=seeds.network,
        )


def intel_lab(
    study: Study,
    *,
    data: str = "airquality",
    rounds: int = 2000,
    rows: Rows = Rows(),
    model: LabModel = LabModel(),
    motes: Motes = Motes(),
    algorithms: str = "DKLA,COKE",
    remedies: str = "running-sums,coded-sums,edge-duals",
    seeds: DataSeeds = DataSeeds(),
) -> None:
    """DKLA and COKE on 53 motes of the Intel lab: ideal links, its real ones, remedies; error, bits and energy.

    One seed is one draw of who has which samples, of the features and of the losses: sweep --seed for intervals.
    Reception is that of intel_connectivity in the folder NETSIM_DATA; radios are CC2420 of IEEE 802.15.4.

    Parameters
    ----------
    data : str
        What is learned: the NAME of a table in NETSIM_DATA, or its path; or "synthetic".
    rounds : int
        Number of rounds.
    algorithms : str
        Which to run, with commas between.
    remedies : str
        What to do about lost frames: "running-sums", "coded-sums", "edge-duals", "ack", "nack", "keyframe", with
        commas between; "none": nothing.
    """
    check.integer("rounds", rounds, low=1)
    rows.divided()
    methods, ways = model.methods(algorithms), parse_remedies(remedies)
    energy, rate = motes.energy()
    measured = numbered(measured_lab(least=motes.least))
    # Copies differ only on real links, but every run has the column.
    task = learned(
        study, model.problem(data, rows, measured), Setup(Seeds(**dataclasses.asdict(seeds)), rounds, measured.graph)
    )
    duals: dict[str, Duals] = {**REMEDIES, "edge-duals": EdgeDuals(model.relaxation)}
    for method, way in itertools.product(methods, ("ideal", "real", *ways)):
        kept = dataclasses.replace(method, name=f"{method.name} {way}", duals=duals.get(way, duals["none"]))
        network = motes.network(measured, seeds, ideal=way == "ideal", reliability=reliability_of(way))
        kept.run(study, network, task, [task.measure], rounds, watch=task.watch)
    study.centralised = task.optimum()
    used = {name: spent(run, energy, rate) for name, run in study.runs.items()}
    _report(study, measured, motes, used, f"{data} data, {len(task.nodes)} motes{rows.partition_title}", seeds)


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(
    study: Study, measured: Measured, motes: Motes, used: Mapping[str, pd.DataFrame], of: str, seeds: DataSeeds
) -> None:
    title = f"{of}, {seeds.text}"
    names = [measured.graph.nodes[node]["mote"] for node in measured.graph]
    study.table("comparison", f"What each makes of the links ({title})", comparison(study, used))
    study.tables["energy"] = pd.concat(
        [table.assign(algorithm=name, mote=names) for name, table in used.items()], ignore_index=True
    )
    study.note(*_notes(study, measured, motes, used, seeds))
    energy = pd.concat([by_round(run, used[name]) for name, run in study.runs.items()], ignore_index=True)
    shown = study.rounds.assign(energy_j=energy.to_numpy())
    axes = [Axis("round", True), Axis("energy_j", True, "energy (J per mote)"), Axis("wire_bits", True)]
    levels = {"centralised": study.centralised["train_mse"]}
    title = f"Training error from round 5 on, {title}"
    figure = partial(curves, shown[shown["round"] >= 5], measure("train_mse", log=True), axes, title, levels)
    study.figure(
        "mse",
        figure,
        "The training error by rounds, by the energy that a mote has spent, and by bits on the wire, on ideal links "
        "and on the lab's real ones.",
    )
    study.figure(
        "floor_plan",
        partial(floor_plan, measured, _drawn(used)),
        "The motes at their places, coloured by the energy that they spent; the darker and wider a link, the more of "
        "it is heard.",
    )


def _drawn(used: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return what the map shows: the first method without a remedy, and with the remedy that spends least."""
    method = next(iter(used)).split()[0]
    lossy = [name for name in used if name.split()[0] == method and not name.endswith(" ideal")]
    least = min(lossy, key=lambda name: float(used[name]["used_j"].mean()))
    return {name: used[name] for name in dict.fromkeys((lossy[0], least))}


def comparison(study: Study, used: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row per run: its error, also relative to ideal links, the share heard, bits, and joules per mote."""
    last = study.rounds.groupby("algorithm", sort=False).last().to_dict("index")
    first = next(iter(last))
    rows = []
    for name, run in study.runs.items():
        end, ideal = last[name], last[f"{name.split()[0]} ideal"]
        rows.append(
            {
                "algorithm": name,
                "train_mse": end["train_mse"],
                "test_mse": end["test_mse"],
                "MSE / ideal": end["train_mse"] / ideal["train_mse"],
                "heard": end["delivered"] / max(1, run.ledger.link_messages),
                "transmissions": end["transmissions"],
                "payload_bits": end["payload_bits"],
                f"bits / {first}": end["payload_bits"] / last[first]["payload_bits"],
                "mean_j": used[name]["used_j"].mean(),
                "most_j": used[name]["used_j"].max(),
            }
        )
    return pd.DataFrame(rows)


def _notes(
    study: Study, measured: Measured, motes: Motes, used: Mapping[str, pd.DataFrame], seeds: DataSeeds
) -> Iterator[str]:
    graph = measured.graph
    yield (
        f"{len(graph)} motes, {graph.number_of_edges()} links, mean reception {reception(measured):.2f}. "
        f"Centralised: training MSE {study.centralised['train_mse']:.4g}."
    )
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


def floor_plan(measured: Measured, used: Mapping[str, pd.DataFrame]) -> "Figure":
    """Draw the motes at their places coloured by ``used_j``, and links by mean reception: a panel for each run."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm, Normalize

    graph = measured.graph
    places = np.array([graph.nodes[node]["pos"] for node in graph])
    rows = {node: row for row, node in enumerate(graph)}
    ends = list(graph.edges)
    heard = np.array(
        [1.0 - (measured.links[a, b].loss_model.mean + measured.links[b, a].loss_model.mean) / 2 for a, b in ends]
    )
    segments = [places[[rows[a], rows[b]]] for a, b in ends]
    figure, panels = drawing(7.5 * len(used), 5.8, len(used))
    joules = np.concatenate([table["used_j"] for table in used.values()])
    # One scale for all panels, logarithmic because a remedy may spend a tenth.
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
        # As on the lab's own plan: y grows downwards.
        panel.invert_yaxis()
        panel.set_aspect("equal")
        panel.set_title(title)
        panel.set_xlabel("x (m)")
    panels[0].set_ylabel("y (m)")
    figure.colorbar(dots, ax=list(panels), label="energy (J)", shrink=0.9, pad=0.01)
    figure.colorbar(lines, ax=list(panels), label="reception (mean of both directions)", shrink=0.9, pad=0.01)
    return figure
