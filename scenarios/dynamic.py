"""DDKL, CoDDKL, QDDKL and QC-DDKL on streams whose truth moves, or may move; the bits of the quantizer compared."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from netsim import BadInput, check
from netsim.agents import PowerLaw, RandomFourier
from netsim.agents.costs.stream import Samples
from netsim.agents.maps.features import FeatureMap
from netsim.coders import Uniform
from netsim.scenarios.data.streams import Kind, MovingTruth, in_order, rounds_of, shuffled
from netsim.scenarios.data.tables import Table, check_rows, load_prepared, split_rows
from netsim.scenarios.tasks.mapping import feature_map
from netsim.scenarios.tasks.method import Method, remedied
from netsim.scenarios.tasks.online_report import apart, converged, ends, must_have_run, online_notes, recent_errors
from netsim.scenarios.tasks.online_task import (
    OnlineSteps,
    Streaming,
    Tracking,
    fixed_or_own,
    methods,
    own_methods,
    wanted,
)
from netsim.scenarios.tasks.savings import measure
from netsim.scenarios.tasks.settings import TABLES, Channel, Compared, Prepared, Setting
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.typing import Array

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOVING: dict[str, Kind] = {"drift": "drift", "switch": "switch", "rotate": "rotate"}
_TRIAL = 500
_RECENT = 0.05
"""Of the rounds, the share that recent errors are the mean of."""
_PLAIN = ("DDKL", "CoDDKL", "QDDKL", "QC-DDKL")
"""What the others are held against: the first of these that ran."""
_Source = Callable[[], Sequence[Samples]]


@dataclass(frozen=True, kw_only=True)
class DynamicStream(Prepared):
    """What the agents see.

    Parameters
    ----------
    rounds : int
        Number of rounds; by default all of a table, or 3000.
    order : str
        Of a table's rows: "shuffled", or "time": as they stand in the file.
    speed : float
        Of a synthetic truth: its step a round relative to its length, or radians a round; "switch" is every 5/speed.
    noise : float
        Of a synthetic stream: standard deviation of the noise; the signal's is 1.
    """

    TABLE = "dynamic_settings"

    rounds: int | None = None
    order: str = "shuffled"
    speed: float = 0.01
    noise: float = 0.1

    def moving(self, kind: Kind, agents: int, phi: FeatureMap, seed: int) -> MovingTruth:
        """Return streams whose truth moves; raises BadInput for arguments outside their ranges."""
        every = max(round(5 / check.finite("speed", self.speed, above=0.0)), 1)
        rounds = 3000 if self.rounds is None else check.integer("rounds", self.rounds, low=1)
        return MovingTruth(kind, agents, phi, rounds, noise=self.noise, seed=seed, rate=self.speed, every=every)

    def dealt(self, rows: Table, agents: int, phi: FeatureMap, seed: int) -> _Source:
        """Return a function that deals a table's rows, the same each time."""
        if self.order == "time":
            return lambda: in_order(rows, agents, phi)
        return lambda: shuffled(rows, agents, phi, seed)


@dataclass(frozen=True, kw_only=True)
class DynamicSteps(OnlineSteps):
    """Step sizes, and the Co and Q methods' censor and coder.

    Parameters
    ----------
    eta : float
        DOKL's weight of staying where one is: the larger, the shorter the step.
    threshold : float
        Co methods broadcast in round t if their change has norm >= threshold * t^-decay.
    decay : float
        Exponent of the threshold's decay.
    squared : bool
        Co methods compare the square of their change's norm with the threshold.
    bits : int
        Bits an element of the Q methods (1-16).
    range : float
        Fixed range [-range, range) of their quantizer, of --compare-bits, too; by default a range for each message.
    saturate : bool
        What lies outside that range takes its last level. Without: the integer goes on, with the bits that it needs
        (equation 3.21 as printed).
    """

    TABLE = "dynamic_settings"
    USUAL_CONVENTIONS = TABLES
    COLUMNS: ClassVar[Mapping[str, str]] = {**OnlineSteps.COLUMNS, "bits": "bits"}
    USUAL: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "tomshardware": {"rho": 0.3, "eta": 1.0, "step": 0.3},
        "other": {"rho": 1.0, "eta": 2.0, "step": 0.3},
    }
    """rho, eta and step by data set; of tomshardware the best of a grid, on a shuffle that no study runs on."""

    bits: int | None = None
    range: float | None = None
    saturate: bool = True
    squared: bool = False

    def coder(self, bits: int | None = None) -> Uniform:
        """Return the Q methods' coder, of so many bits if given; raises BadInput for numbers outside their ranges."""
        count = check.integer("bits", self.bits if bits is None else bits, low=1)
        return fixed_or_own(count, self.range, saturate=self.saturate)

    def censor(self) -> PowerLaw:
        """Return the Co methods' censor; raises BadInput for numbers outside their ranges."""
        return PowerLaw(check.finite("threshold", self.threshold), check.finite("decay", self.decay), self.squared)


@dataclass(frozen=True, kw_only=True)
class DynamicSetting(Setting):
    """The size of the network and of the model, where left open as the dissertation's ch. 4 has it."""

    TABLE = "dynamic_settings"
    USUAL_CONVENTIONS = TABLES


@dataclass(frozen=True, kw_only=True)
class DynamicCompared(Compared):
    """What the study compares.

    Parameters
    ----------
    compare_bits : str
        Also run QC-DDKL with each of these numbers of bits; empty: do not.
    """

    algorithms: str = "RFF-DOKL,DOKL,DDKL,CoDDKL,QDDKL,QC-DDKL"
    compare_bits: str = "2,3,4,5,6,7,8"


def dynamic(
    study: Study,
    *,
    data: str = "drift",
    conventions: str = TABLES,
    stream: DynamicStream = DynamicStream(),
    steps: DynamicSteps = DynamicSteps(),
    setting: DynamicSetting = DynamicSetting(),
    channel: Channel = Channel(),
    compared: DynamicCompared = DynamicCompared(),
    seed: int = 0,
) -> None:
    """Dynamic kernel learning: DDKL, CoDDKL, QDDKL, QC-DDKL (P. Xu's dissertation, ch. 4).

    On "drift", "switch" and "rotate" the truth is known, so the tracking error is, too. What is left open is set as the
    dissertation has it (scenarios/published/dynamic_settings.csv). ODKLA and QC-ODKLA are known, too.

    Parameters
    ----------
    data : str
        "drift", "switch", "rotate" (synthetic, the truth moves so), or the NAME of a table in the folder NETSIM_DATA,
        or its path.
    conventions : str
        How what is left open is set: "tables", with the rows and the scaling under which the dissertation's numbers of
        samples come out; "text", as its text reads: all rows, each column scaled by itself.
    stream : DynamicStream
        What the agents see.
    steps : DynamicSteps
        Step sizes, censor and coder.
    setting : DynamicSetting
        The size of the network and of the model.
    channel : Channel
        The links.
    compared : DynamicCompared
        The algorithms.
    seed : int
        Seed of everything random.
    """
    steps, setting = steps.resolved(data, conventions), setting.resolved(data, conventions)
    stream = stream.resolved(data, conventions)
    check.one_of("order", stream.order, ("shuffled", "time"))
    censor = steps.censor()
    known = methods(censor, steps.coder())
    run = [steps.of(each) for each in wanted(compared.algorithms, known)] + own_methods(compared, steps, censor, known)
    run = remedied(study, run, compared.remedy)
    by_bits = [steps.of(each) for each in _compared(compared.compare_bits, known["QC-DDKL"], steps)]
    if data not in _MOVING:
        check_rows(data, check.integer("agents", setting.agents, low=1))
    learning = _Learning(study, data, stream, setting, channel, seed)
    if setting.tune:
        run = learning.trial.tune(study, run, learning.trial_rounds)
        tuned = {each.name: each.steps for each in run}
        by_bits = [each.with_steps(**tuned.get("QC-DDKL", each.steps)) for each in by_bits]
    study.record(steps.untold() if setting.tune else steps, learning.setting, stream)
    for method in [*run, *by_bits]:
        learning.main.run(study, method, learning.rounds)
    must_have_run(study)
    _report(study, f"{data}{channel.title}", [method.name for method in run], [method.name for method in by_bits])


class _Learning:
    """The streams that count, and others to tune on.

    Attributes
    ----------
    main, trial : Streaming
    rounds, trial_rounds : int
        Their lengths.
    setting : Setting
        With the bandwidth that was found.
    """

    def __init__(
        self, study: Study, data: str, stream: DynamicStream, setting: DynamicSetting, channel: Channel, seed: int
    ) -> None:
        self.network, self.ideal = channel.network(setting.graph(seed), seed), channel.is_ideal
        self.stream, self.setting, self.agents = stream, setting, len(self.network.graph)
        if data in _MOVING:
            self._move(data, seed)
        else:
            self._read(study, data, seed)

    def _move(self, data: str, seed: int) -> None:
        setting = self.setting
        if setting.map != "RF-KL" or setting.median:
            raise BadInput(f"data = {data!r}: must be a table for another map or bandwidth; its truth is in its own")
        self.stream.check_left_out(data)
        features, sigma = check.integer("features", setting.features, low=1), check.finite("sigma", setting.sigma)
        phi = RandomFourier(2, features, sigma=sigma, form="cos+sin", seed=seed)
        truth, other = (self.stream.moving(_MOVING[data], self.agents, phi, number) for number in (seed, seed + 1))
        self.main = self._streaming(truth.streams, phi, _tracking(truth, phi, seed))
        self.trial = self._streaming(other.streams, phi)
        self.rounds = truth.rounds
        self.trial_rounds = min(_TRIAL, self.rounds)

    def _read(self, study: Study, data: str, seed: int) -> None:
        stream, agents = self.stream, self.agents
        table = load_prepared(data, stream)
        held, table = split_rows(table, 0.1, seed=seed) if self.setting.tune else (table, table)
        most = rounds_of(table, agents)
        self.rounds = most if stream.rounds is None else check.integer("rounds", stream.rounds, low=1, high=most)
        phi, self.setting = feature_map(study, self.setting, held.inputs, held.target, form="cos+sin", seed=seed)
        self.main = self._streaming(stream.dealt(table, agents, phi, seed), phi)
        self.trial = self._streaming(stream.dealt(held, agents, phi, seed), phi)
        self.trial_rounds = min(_TRIAL, rounds_of(held, agents))

    def _streaming(self, source: _Source, phi: FeatureMap, tracking: Tracking | None = None) -> Streaming:
        regularizer = check.finite("regularizer", self.setting.regularizer)
        return Streaming(self.network, self.ideal, source, phi.size, regularizer, tracking)


def _tracking(truth: MovingTruth, phi: FeatureMap, seed: int) -> Tracking:
    """Return the mean over agents and inputs of (θ_iᵀφ(x) − θ°_tᵀφ(x))², x ~ U[0, 1]²."""
    features = phi(np.random.default_rng(seed).random((1000, phi.inputs)))
    covariance = features.T @ features / len(features)

    def error(models: Array, t: int) -> float:
        apart = models - truth.truth(t)
        return float(np.vdot(apart @ covariance, apart)) / len(apart)

    return error


def _compared(compare_bits: str, method: Method, steps: DynamicSteps) -> list[Method]:
    """Return QC-DDKL with each number of bits asked for."""
    found = []
    for part in filter(None, (each.strip() for each in compare_bits.split(","))):
        if not part.isdecimal():
            raise check.refuse("compare_bits", compare_bits, "numbers of bits with commas between")
        found.append(dataclasses.replace(method, name=f"QC-DDKL {part}-bit", coder=steps.coder(int(part))))
    return found


_CAPTIONS = {
    "mse": "The mean squared error of the last rounds, by rounds, transmissions and payload.",
    "bits": "The mean squared error of QC-DDKL's last rounds by payload, for each number of bits an element.",
    "apart": "How far the error of the last rounds is above that of the method that codes and censors nothing.",
    "bits_apart": "How far QC-DDKL's error is above that of the method that codes and censors nothing, for each number "
    "of bits an element.",
    "regret": "What each method has lost so far, less what each round's own best model would have lost.",
    "tracking": "The mean squared error against the true function, which moves.",
}
"""What the figures show, by name."""


def _report(study: Study, data: str, wanted: Sequence[str], compared: Sequence[str]) -> None:
    rounds = study.rounds
    last = rounds.groupby("algorithm", sort=False).last()
    table = ends(study, "DDKL")
    table["dynamic_regret"] = last["dynamic_regret"].to_numpy()
    if "tracking_error" in last:
        table["tracking_error"] = last["tracking_error"].to_numpy()
    study.table("ends", "At the end of the stream", table)
    for line in online_notes(study):
        study.note(line)
    study.note("Dynamic regret compares with each round's own minimiser, which fits its few samples, noise included.")
    for name, figure in _figures(rounds, data, wanted, compared).items():
        study.figure(name, figure, _CAPTIONS[name])


def _figures(rounds: "pd.DataFrame", data: str, wanted: Sequence[str], compared: Sequence[str]) -> "dict[str, Figure]":
    """Return the figures by name: recent errors, how far they are from the plain method's, regret and tracking."""
    found = {}
    window = max(round(_RECENT * rounds["round"].max()), 1)
    recent = Axis("recent_mse", log=True, label=f"MSE of the last {window} rounds")
    finite = converged(recent_errors(rounds, window))
    finite = finite[finite["round"] >= min(window, rounds["round"].max())]
    main, bits = (finite[finite["algorithm"].isin(names)] for names in (wanted, compared))
    costs = [Axis("transmissions", log=True), Axis("payload_bits", log=True)]
    found["mse"] = curves(main, recent, [Axis("round"), *costs], f"Recent error, {data}")
    if compared:
        found["bits"] = curves(bits, recent, costs[1:], f"QC-DDKL by bits an element, {data}")
    for name, part, among in (("apart", main, main), ("bits_apart", bits, finite)):
        plain = next((each for each in _PLAIN if each in set(among["algorithm"])), None)
        others = apart(among[among["algorithm"].isin({plain, *part["algorithm"]})], "recent_mse", plain or "")
        if len(others):
            above = Axis("apart", label=f"MSE of the last {window} rounds,\nabove that of {plain} (%)")
            found[name] = curves(others, above, [Axis("round")], f"How far from {plain}, {data}")
    rounds = converged(rounds[rounds["round"] >= 20])
    main = rounds[rounds["algorithm"].isin(wanted)]
    found["regret"] = curves(main, measure("dynamic_regret"), [Axis("round")], f"Dynamic regret, {data}")
    if "tracking_error" in main:
        smooth = main.assign(
            tracking_error=main.groupby("algorithm", sort=False)["tracking_error"].transform(
                lambda e: e.rolling(50).mean()
            )
        )
        title = f"Tracking the truth, {data}, mean of 50 rounds"
        found["tracking"] = curves(smooth, measure("tracking_error", log=True), [Axis("round")], title)
    return found
