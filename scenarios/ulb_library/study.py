"""Motes that learn the temperature of their library from their own readings, over the packets that were heard."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

import netsim
from netsim import Link, Method, Network
from netsim.agents import Always, Dual, OnlineCost, RandomFourier
from netsim.coders import Exact, Float
from netsim.links.measured import LinkedGraph
from netsim.links.measured import ulb_library as measured_library
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.diagnosis import unheard
from netsim.scenarios.tasks.method import REMEDIES, parse_remedies, played, reliability_of
from netsim.scenarios.tasks.motes import numbered
from netsim.scenarios.tasks.online_task import OnlineSteps, OnlineTask, methods
from netsim.scenarios.tasks.settings import chosen_names
from netsim.scenarios.ulb_library.figures import errors, predictions, who_heard
from netsim.scenarios.ulb_library.readings import LibraryField, Readings, error_of, hindsight, load
from netsim.studies import Study
from netsim.util import check
from netsim.util.typing import Array

_MINUTE = 60.0
_ALONE = "alone"


@dataclass(frozen=True, kw_only=True)
class LibrarySteps(OnlineSteps):
    """Step sizes of the online methods.

    Parameters
    ----------
    step : float
        Step size of RFF-DOKL, and of a mote alone.
    """

    USUAL: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "rho": {"other": 0.01},
        "eta": {"other": 1.0},
        "step": {"other": 0.3},
    }


@dataclass(frozen=True, kw_only=True)
class LibraryModel:
    """The model of the temperature.

    Parameters
    ----------
    inputs : str
        What predicts a mote's temperature, with commas between: "time" of day, and its own readings humidity, par and
        tsr (light), volt, temp_int. Positions were not published.
    features : int
        Number L of random frequencies; a model has 2L elements.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1].
    regularizer : float
        The centre's regulariser lambda.
    """

    inputs: str = "time,humidity,par,tsr"
    features: int = 50
    sigma: float = 0.5
    regularizer: float = 1e-4


def ulb_library(
    study: Study,
    *,
    rounds: int = 1596,
    model: LibraryModel = LibraryModel(),
    steps: LibrarySteps = LibrarySteps(),
    algorithms: str = "ODKLA,RFF-DOKL",
    remedies: str = "running-sums,coded-sums",
    seed: int = 0,
) -> None:
    """Nineteen motes learn a library's temperature over the packets that were really heard, minute by minute.

    A round is a minute: each mote predicts, learns from its reading, and broadcasts its model; the model reaches the
    receivers of the mote's packet of that minute (ulb_library1_links and ulb_library1_readings in NETSIM_DATA or the
    cache).

    Parameters
    ----------
    rounds : int
        Number of minutes, of 1596.
    algorithms : str
        Which to run, with commas between: RFF-DOKL, DOKL, ODKLA, DDKL.
    remedies : str
        What ADMM methods do about lost frames: "running-sums", "coded-sums", "edge-duals", with commas between; "none":
        nothing.
    seed : int
        Seed of everything random.
    """
    steps = steps.resolved("other")
    plain = {name: each for name, each in methods(Always(), Exact()).items() if isinstance(each.given["coder"], Float)}
    run = {name: steps.of(plain[name]) for name in chosen_names("algorithms", algorithms, plain)}
    alone = Method(Alone, eta=check.finite("step", steps.step, above=0.0))
    ways = parse_remedies(remedies)
    measured = numbered(measured_library(minute=_MINUTE))
    rounds = check.integer("rounds", rounds, low=2, high=_minutes(measured))
    names = [measured.graph.nodes[node]["mote"] for node in measured.graph]
    regularizer = check.finite("regularizer", model.regularizer, low=0.0)
    readings = load(names, model.inputs, _minutes(measured))
    phi = RandomFourier(readings.inputs.shape[2], model.features, sigma=model.sigma, form="cos+sin", seed=seed)
    features, fields = readings.features(phi), dict[str, LibraryField]()

    def learn(name: str, method: Method, way: str) -> None:
        """Run a method over ideal links or over what was heard, with a remedy or without."""
        graph, links = measured
        reliability, ideal = reliability_of(way), way == "ideal"
        heard = {ends: dataclasses.replace(each, reliability=reliability) for ends, each in links.items()}
        how: dict[str, Any] = {"links": {} if ideal else heard, "medium": "radio", "seed": seed}
        network = Network(graph, Link(reliability=reliability), round_period=_MINUTE, **how)
        streams, size = readings.streams(features, rounds), features.shape[2]
        task = OnlineTask(streams, size, regularizer, graph, rounds=rounds, ideal=ideal)
        probe = fields[name] = LibraryField(readings, features)
        played(study, name, method, task, network, [task.measure, probe], rounds)

    for name, method in run.items():
        learn(f"{name} ideal", method, "ideal")
        learn(f"{name} heard", method, "heard")
        for way in ways if issubclass(method.kind, Dual) else ():
            duals = REMEDIES.get(way, REMEDIES["none"])
            # Coded sums code by themselves.
            coder = Exact() if way == "coded-sums" else method.given["coder"]
            learn(f"{name} {way}", method.with_given(duals=duals, coder=coder), way)
    learn(_ALONE, alone, "ideal")
    study.record(steps)
    best = error_of(readings, hindsight(readings, features, rounds, regularizer))
    _report(study, fields, readings, measured, rounds, best)


def _minutes(measured: LinkedGraph) -> int:
    """Return how many minutes were recorded."""
    return len(next(iter(measured.links.values())).loss_model.losses)  # type: ignore[attr-defined]


class Alone(netsim.Agent):
    """A mote that sends nothing and learns from its own readings only: θ ← θ − η ∇L_t(θ)."""

    def __init__(self, cost: OnlineCost, count: int, *, eta: float) -> None:
        self.cost, self.count, self.eta = cost, count, eta
        self.theta = np.zeros(cost.size)

    async def run(self) -> None:
        """Learn from a reading in each minute."""
        async for _ in self.rounds(self.count):
            self.cost.draw(self.theta)
            self.theta = self.theta - self.eta * self.cost.gradient(self.theta)


def _report(
    study: Study,
    fields: Mapping[str, LibraryField],
    readings: Readings,
    measured: LinkedGraph,
    rounds: int,
    best: float,
) -> None:
    """Show what was learned."""
    names = [measured.graph.nodes[node]["mote"] for node in measured.graph]
    study.centralised = {"error_c": best}
    table = _ends(study, rounds)
    _answer(study, table.set_index("algorithm")["elsewhere_c"], len(names), rounds)
    study.table("ends", "Errors over the second half, °C, root mean square", table)
    share = _heard(measured, rounds)
    study.note(*_notes(study, readings, rounds, names, share, best))
    first = min(30, rounds // 2)
    shown = study.rounds[study.rounds["round"] >= first]
    study.figure(
        "errors",
        partial(errors, shown, best),
        "The error of a mote's model at its own place and at the others', minute by minute, before it learns from "
        "the minute; the grey line is one model fitted to all readings afterwards.",
        hero=True,
    )
    method = next(iter(fields)).split()[0]
    drawn = {name: each for name, each in fields.items() if name.split()[0] in (method, _ALONE)}
    motes = [0, len(names) // 2, len(names) - 1]
    study.figure(
        "predictions",
        partial(predictions, readings, drawn, motes, names, first),
        "What three motes read, and what the models of all others predict of it.",
    )
    study.figure(
        "heard", partial(who_heard, share, names), "The share of its packets that each mote's neighbours heard."
    )


def _answer(study: Study, elsewhere: "pd.Series[float]", motes: int, rounds: int) -> None:
    """Answer how well the first method predicts other motes' readings over what was heard, and a mote alone."""
    method = str(elsewhere.index[0]).removesuffix(" ideal")
    study.ask("How well do motes predict the temperature where the others are, over the packets that were heard?")
    heard, ideal, alone = (elsewhere[name] for name in (f"{method} heard", f"{method} ideal", _ALONE))
    answer(
        study,
        "By {method} within {heard:.3f} °C, over links that lose nothing within {ideal:.3f} °C; a mote that learns "
        "alone within {alone:.3f} °C.",
        f"Root mean square over {motes} motes and the second half of {rounds:,} minutes. {of_one_run(study)}",
        **{"method": method, "heard": heard, "ideal": ideal, "alone": alone},
    )


def _ends(study: Study, rounds: int) -> pd.DataFrame:
    first = rounds // 2
    rows = []
    for name, run in study.runs.items():
        late = run.rounds.iloc[first:]
        rows.append(
            {
                "algorithm": name,
                "own_c": float(np.sqrt(np.nanmean(late["own_error_c"] ** 2))),
                "elsewhere_c": float(np.sqrt(np.nanmean(late["field_error_c"] ** 2))),
                "consensus_error": late["consensus_error"].iloc[-1],
                "heard": late["delivered"].iloc[-1] / max(1, run.ledger.link_messages),
                "payload_bits": late["payload_bits"].iloc[-1],
            }
        )
    return pd.DataFrame(rows)


def _heard(measured: LinkedGraph, rounds: int) -> Array:
    """Return the share of the run's minutes in which each mote was heard by each, shape (N, N)."""
    count = len(measured.graph)
    share = np.full((count, count), np.nan)
    for (sender, receiver), link in measured.links.items():
        losses = link.loss_model.losses  # type: ignore[attr-defined]
        share[sender, receiver] = 1.0 - losses[:rounds].mean()
    return share


def _notes(study: Study, readings: Readings, rounds: int, names: list[int], share: Array, best: float) -> Iterator[str]:
    received = np.nanmean(share, axis=0)
    worst = int(np.argmin(received))
    there = readings.present[:rounds]
    yield (
        f"{len(share)} motes, {rounds} minutes; {np.nanmean(share):.1%} of the packets were heard, "
        f"by mote {names[worst]} {received[worst]:.1%}, as it reported. In {1 - there.mean():.1%} of the minutes a "
        "mote has no reading: it learns from its last one again, and is not judged."
    )
    yield f"One model fitted to all readings afterwards is wrong by {best:.3g} °C (root mean square)."
    yield "Positions were not published: a model tells motes apart by what they read beside the temperature."
    for name, run in study.runs.items():
        if name != _ALONE:
            yield from filter(None, [unheard(name, run)])
