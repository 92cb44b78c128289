"""DDKL, CoDDKL, QDDKL and QC-DDKL on streams whose true function may change, for several numbers of quantizer bits."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from netsim import BadInput
from netsim.agents import FeatureMap, PowerLaw, RandomFourier
from netsim.scenarios.data.streams import Kind, MovingTruth
from netsim.scenarios.tasks.answers import answer_cheaper
from netsim.scenarios.tasks.method import wanted
from netsim.scenarios.tasks.online_task import (
    OnlineRegression,
    OnlineSteps,
    OnlineTask,
    Quantizer,
    Streams,
    TableStream,
    Tracking,
    apart,
    converged,
    ends,
    methods,
    names_of,
    notes_on,
    recent_errors,
    study_of_streams,
)
from netsim.scenarios.tasks.settings import TABLES, Channel, Setting, Wanted
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Seeds, Setup
from netsim.studies.experiment.study import Played
from netsim.studies.figures import Axis, Figure, curves
from netsim.util import check, draws
from netsim.util.typing import Array

_MOVING: dict[str, Kind] = {"drift": "drift", "switch": "switch", "rotate": "rotate"}
_RECENT = 0.05
"""Share of the rounds, up to the present one, over which recent errors are averaged."""
_PLAIN = ("DDKL", "CoDDKL", "QDDKL", "QC-DDKL")
"""Candidates for the reference method of comparisons: the first of these that ran is used."""


@dataclass(frozen=True, kw_only=True)
class DynamicStream(TableStream):
    """The agents' samples.

    Parameters
    ----------
    rounds : int
        Number of rounds; by default all of a table, or 3000.
    order : str
        Order of a table's rows: "shuffled", or "time" for the order of the file.
    speed : float
        Speed of a synthetic truth: "drift": step per round relative to the truth's norm; "rotate": radians per round;
        "switch": a switch every 5/speed rounds.
    noise : float
        Standard deviation of the noise of a synthetic stream, relative to the signal's.
    """

    TABLE = "dynamic_settings"

    speed: float = 0.01
    noise: float = 0.1

    def moving(self, kind: Kind, agents: int, phi: FeatureMap, seed: int) -> MovingTruth:
        """Return streams whose truth changes over time; raises BadInput for arguments outside their ranges."""
        every = max(round(5 / check.finite("speed", self.speed, above=0.0)), 1)
        rounds = 3000 if self.rounds is None else check.integer("rounds", self.rounds, low=1)
        return MovingTruth(kind, agents, phi, rounds, noise=self.noise, seed=seed, rate=self.speed, every=every)


@dataclass(frozen=True, kw_only=True)
class DynamicSteps(OnlineSteps):
    """Step sizes of all methods, the censor of CoDDKL and QC-DDKL, and the bits of QDDKL and QC-DDKL, as published."""

    TABLE = "dynamic_settings"
    COLUMNS: ClassVar[Mapping[str, str]] = {**OnlineSteps.COLUMNS, "bits": "bits"}
    # For tomshardware: the best values of a grid, found on a shuffle of the rows that no study uses.
    USUAL: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "rho": {"tomshardware": 0.3, "other": 1.0},
        "eta": {"tomshardware": 1.0, "other": 2.0},
        "step": {"tomshardware": 0.3, "other": 0.3},
    }
    USUAL_CONVENTIONS = TABLES

    bits: int | None = None


@dataclass(frozen=True, kw_only=True)
class DynamicSetting(Setting):
    """The size of the network and of the model; unset values follow the dissertation's ch. 4."""

    TABLE = "dynamic_settings"
    USUAL_CONVENTIONS = TABLES


@dataclass(frozen=True, kw_only=True)
class DynamicCompared(Wanted):
    """The methods to compare.

    Parameters
    ----------
    compare_bits : str
        Numbers of bits, separated by commas, with which QC-DDKL runs additionally; empty: none.
    """

    algorithms: str = "RFF-DOKL,DOKL,DDKL,CoDDKL,QDDKL,QC-DDKL"
    compare_bits: str = "2,3,4,5,6,7,8"


@dataclass(frozen=True, kw_only=True)
class MovingRegression(OnlineRegression):
    """Least squares on random features of synthetic streams with a known moving truth.

    Parameters
    ----------
    data : str
        "drift", "switch" or "rotate": how the truth moves.
    stream : DynamicStream
        The truth's speed, the noise, and the number of rounds if the experiment sets none.
    """

    data: str = "drift"
    stream: DynamicStream = DynamicStream()
    setting: Setting = DynamicSetting()
    conventions: str = TABLES

    def make(self, setup: Setup) -> OnlineTask:
        """Return the task of a run, with streams of another truth for tuning."""
        whole, told, seeds = self.whole(), Study("", {}), setup.seeds
        setting, stream = whole.setting, dataclasses.replace(whole.stream, rounds=setup.rounds or whole.stream.rounds)
        check.one_of("order", stream.order, stream.ORDERS)
        if setting.map != "RF-KL" or setting.median:
            raise BadInput(
                f"data = {self.data!r}: must be a table for another map or bandwidth; its truth is in its own"
            )
        graph = setting.graph(seeds.graph) if setup.graph is None else setup.graph
        stream.check_left_out(self.data)
        features, sigma = check.integer("features", setting.features, low=1), check.finite("sigma", setting.sigma)
        phi = RandomFourier(2, features, sigma=sigma, form="cos+sin", seed=seeds.seed)
        ours = seeds.data, draws.derived(seeds.data, self.data, "truth to tune on")
        truth, other = (stream.moving(_MOVING[self.data], len(graph), phi, number) for number in ours)
        told.record(setting, whole.stream)
        regularizer = check.finite("regularizer", setting.regularizer)
        given = graph, setup.ideal, truth.streams, phi.size, regularizer, truth.rounds, told
        return Streams(*given, _tracking(truth, phi, seeds.seed)).with_trial(other.streams, truth.rounds)


def experiment(
    *,
    data: str = "drift",
    conventions: str = TABLES,
    stream: DynamicStream = DynamicStream(),
    setting: DynamicSetting = DynamicSetting(),
    quantizer: Quantizer = Quantizer(),
    channel: Channel = Channel(),
    compared: DynamicCompared = DynamicCompared(),
    seeds: Seeds = Seeds(),
) -> Experiment:
    """Dynamic kernel learning: DDKL, CoDDKL, QDDKL, QC-DDKL (P. Xu's dissertation, ch. 4).

    On "drift", "switch" and "rotate" the truth is known, so the tracking error is computed. Unset values follow the
    dissertation (scenarios/published/dynamic_settings.csv). ODKLA and QC-ODKLA are also available.

    Parameters
    ----------
    data : str
        "drift", "switch" or "rotate" (synthetic: the way in which the truth changes), or the NAME of a table in
        NETSIM_DATA or the cache, or its path.
    conventions : str
        How unset values are chosen. "tables": the rows and scaling that give the dissertation's numbers of samples.
        "text": as its text describes, with all rows and each column scaled separately.
    """
    steps = DynamicSteps().resolved(data, conventions)
    censor = PowerLaw(check.finite("threshold", steps.threshold), check.finite("decay", steps.decay))
    known = {name: steps.of(each) for name, each in methods(censor, quantizer.coder(steps.bits or 1)).items()}
    found, notes = wanted(compared, known, steps.given(censor), taken=list(known))
    for part in filter(None, map(str.strip, compared.compare_bits.split(","))):
        if not part.isdecimal():
            raise check.refuse("compare_bits", compared.compare_bits, "numbers of bits with commas between")
        coder = quantizer.coder(check.integer("bits", int(part), low=1))
        found[f"QC-DDKL {part}-bit"] = known["QC-DDKL"].with_given(coder=coder)
    problem = MovingRegression if data in _MOVING else OnlineRegression
    return Experiment(
        problem=problem(data=data, stream=stream, setting=setting, conventions=conventions),
        methods=found,
        networks=channel,
        seeds=[seeds],
        rounds=stream.rounds,
        names=names_of(found),
        notes=notes,
        report=_report,
    )


dynamic = study_of_streams(experiment)


def _tracking(truth: MovingTruth, phi: FeatureMap, seed: int) -> Tracking:
    """Return a function of models and round t: the mean of (θ_iᵀφ(x) − θ°_tᵀφ(x))², x ~ U[0, 1]², θ°_t the truth."""
    features = phi(np.random.default_rng(seed).random((1000, phi.inputs)))
    covariance = features.T @ features / len(features)

    def error(models: Array, t: int) -> float:
        apart = models - truth.truth(t)
        return float(np.vdot(apart @ covariance, apart)) / len(apart)

    return error


_CAPTIONS = {
    "mse": "The mean squared error of the last rounds, by rounds, transmissions and payload.",
    "bits": "The mean squared error of QC-DDKL's last rounds by payload, for each number of bits an element.",
    "apart": "How far the error of the last rounds is above that of the method that codes and censors nothing.",
    "bits_apart": "How far QC-DDKL's error is above that of the method that codes and censors nothing, for each number "
    "of bits an element.",
    "regret": "What each method has lost so far, less what each round's own best model would have lost.",
    "tracking": "The mean squared error against the true function, which moves.",
}
"""Descriptions of the figures, by name."""


def _report(study: Study, played: Sequence[Played]) -> None:
    study.error = None
    cell, rounds, names = played[0].cell, study.rounds, [each.name for each in played]
    problem: Any = cell.problem
    main, by_bits = ([name for name in names if name.endswith("-bit") == coded] for coded in (False, True))
    data = f"{problem.data}{getattr(cell.network, 'title', '')}"
    last = rounds.groupby("algorithm", sort=False).last()
    table = ends(study, "DDKL")
    for column in ("dynamic_regret", "tracking_error"):
        if column in last:
            table[column] = last[column].to_numpy()
    answer_cheaper(study, table, "DDKL", "QC-DDKL", "running_mse")
    study.table("ends", "At the end of the stream", table)
    study.note(*notes_on(study))
    study.note("Dynamic regret compares with each round's own minimiser, which fits its few samples, noise included.")
    for name, figure in _figures(rounds, data, main, by_bits).items():
        study.figure(name, figure, _CAPTIONS[name], hero=name == "mse")


def _figures(
    rounds: pd.DataFrame, data: str, main: Sequence[str], by_bits: Sequence[str]
) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw recent errors, differences from the reference method, regret and tracking errors."""
    found: dict[str, Callable[[], Figure]] = {}
    window = max(round(_RECENT * rounds["round"].max()), 1)
    recent = Axis("recent_mse", log=True, label=f"MSE of the last {window} rounds")
    finite = converged(recent_errors(rounds, window))
    finite = finite[finite["round"] >= min(window, rounds["round"].max())]
    shown, bits = (finite[finite["algorithm"].isin(names)] for names in (main, by_bits))
    costs = [Axis("transmissions", log=True), Axis("payload_bits", log=True)]
    found["mse"] = partial(curves, shown, recent, [Axis("round"), *costs], f"Recent error, {data}")
    if by_bits:
        found["bits"] = partial(curves, bits, recent, costs[1:], f"QC-DDKL by bits an element, {data}")
    for name, part, among in (("apart", shown, shown), ("bits_apart", bits, finite)):
        plain = next((each for each in _PLAIN if each in set(among["algorithm"])), None)
        others = apart(among[among["algorithm"].isin({plain, *part["algorithm"]})], "recent_mse", plain or "")
        if len(others):
            above = Axis("apart", label=f"MSE of the last {window} rounds,\nabove that of {plain} (%)")
            found[name] = partial(curves, others, above, [Axis("round")], f"How far from {plain}, {data}")
    shown = converged(rounds[rounds["round"] >= 20])
    shown = shown[shown["algorithm"].isin(main)]
    found["regret"] = partial(curves, shown, Axis("dynamic_regret"), [Axis("round")], f"Dynamic regret, {data}")
    if "tracking_error" in shown:
        errors = shown.groupby("algorithm", sort=False)["tracking_error"]
        smooth = shown.assign(tracking_error=errors.transform(lambda each: each.rolling(50).mean()))
        title = f"Tracking the truth, {data}, mean of 50 rounds"
        error = Axis("tracking_error", log=True, label="MSE against the true function")
        found["tracking"] = partial(curves, smooth, error, [Axis("round")], title)
    return found
