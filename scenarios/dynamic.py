"""DDKL, CoDDKL, QDDKL and QC-DDKL on streams whose truth moves, or may move; the bits of the quantizer compared."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from netsim import BadInput, check
from netsim.agents import PowerLaw, RandomFourier
from netsim.agents.costs.stream import Samples
from netsim.agents.maps.features import FeatureMap
from netsim.quantize import Uniform
from netsim.scenarios.data.streams import Kind, MovingTruth, in_order, rounds_of, shuffled
from netsim.scenarios.data.tables import Table, load_table, scale_unit, split_rows
from netsim.scenarios.tasks.labels import measure
from netsim.scenarios.tasks.mapping import feature_map
from netsim.scenarios.tasks.online import (
    Method,
    Steps,
    Streaming,
    Tracking,
    choose_steps,
    converged,
    ends,
    given_steps,
    methods,
    wanted,
)
from netsim.scenarios.tasks.settings import Channel, Setting, complete, random_graph
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.typing import Vector

_MOVING: dict[str, Kind] = {"drift": "drift", "switch": "switch", "rotate": "rotate"}
_TRIAL = 500
_Source = Callable[[], Sequence[Samples]]
_USUAL_STEPS = Steps(rho=1.0, eta=2.0, step=0.3)


def dynamic(
    study: Study,
    *,
    data: str = "drift",
    rounds: int | None = None,
    order: str = "shuffled",
    speed: float = 0.01,
    noise: float = 0.1,
    rho: float | None = None,
    eta: float | None = None,
    step: float | None = None,
    threshold: float | None = None,
    decay: float | None = None,
    bits: int | None = None,
    compare: str = "2,3,4,5,6,7,8",
    algorithms: str = "RFF-DOKL,DOKL,DDKL,CoDDKL,QDDKL,QC-DDKL",
    setting: Setting = Setting(),  # noqa: B008 (frozen)
    channel: Channel = Channel(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> None:
    """Dynamic kernel learning: DDKL, CoDDKL, QDDKL, QC-DDKL (P. Xu's dissertation, ch. 4).

    On "drift", "switch" and "rotate" the truth is known, so the tracking error is, too. What is left open is set as the
    dissertation has it (scenarios/published/dynamic_settings.csv).

    Parameters
    ----------
    data : str
        "drift", "switch", "rotate" (synthetic, the truth moves so), or the NAME of NAME.csv.gz in NETSIM_DATA.
    rounds : int
        Number of rounds; by default all of a table, or 3000.
    order : str
        Of a table's rows: "shuffled", or "time": as they stand in the file.
    speed : float
        Of a synthetic truth: its step a round relative to its length, or radians a round; "switch" is every 5/speed.
    noise : float
        Of a synthetic stream: standard deviation of the noise; the signal's is 1.
    rho : float
        Penalty of the ADMM methods.
    eta : float
        DOKL's weight of staying where one is.
    step : float
        Step size of RFF-DOKL.
    threshold : float
        Co methods broadcast in round t if their change has norm >= threshold * t^-decay.
    decay : float
        Exponent of the threshold's decay.
    bits : int
        Bits an element of the Q methods (1-16), range per message.
    compare : str
        Also run QC-DDKL with each of these numbers of bits; empty: do not.
    algorithms : str
        Which to run, with commas between; ODKLA and QC-ODKLA are known, too.
    setting : Setting
        The size of the network and of the model.
    channel : Channel
        The links.
    seed : int
        Seed of everything random.
    """
    chosen = complete(data, study.settings, "dynamic_settings")
    study.settings |= chosen
    check.one_of("order", order, ("shuffled", "time"))
    censor = PowerLaw(chosen["threshold"], chosen["decay"])
    known = methods(censor, Uniform(chosen["bits"]))
    run = wanted(algorithms, known)
    compared = _compared(compare, known["QC-DDKL"])
    network = channel.network(random_graph(chosen, seed), seed)

    def streaming(source: _Source, tracking: Tracking | None = None) -> Streaming:
        return Streaming(network, channel.is_ideal, source, phi.size, chosen["regularizer"], tracking)

    kind = _MOVING.get(data)
    phi: FeatureMap
    if kind is not None:
        if setting.map != "RF-KL" or setting.median:
            raise BadInput(f"data = {data!r}: must be a table for another map or bandwidth; its truth is in its own")
        phi = RandomFourier(2, chosen["features"], sigma=chosen["sigma"], form="cos+sin", seed=seed)
        length = 3000 if rounds is None else check.integer("rounds", rounds, low=1)
        truth, other = (
            _moving(kind, len(network.graph), phi, length, noise, number, speed) for number in (seed, seed + 1)
        )
        main, trial = streaming(truth.streams, _tracking(truth, phi, seed)), streaming(other.streams)
        trial_rounds = min(_TRIAL, length)
    else:
        table = scale_unit(load_table(data))
        held, table = split_rows(table, 0.1, seed=seed) if setting.tune else (table, table)
        phi = feature_map(study, chosen, held.inputs, held.target, form="cos+sin", seed=seed)
        most = rounds_of(table, len(network.graph))
        length = most if rounds is None else check.integer("rounds", rounds, low=1, high=most)
        main, trial = (streaming(_dealt(rows, len(network.graph), phi, order, seed)) for rows in (table, held))
        trial_rounds = min(_TRIAL, rounds_of(held, len(network.graph)))
    steps = choose_steps(study, trial if setting.tune else None, trial_rounds, run, _USUAL_STEPS)
    for method in run:
        main.run(study, method, length, steps[method.name])
    for method in compared:
        main.run(study, method, length, steps.get("QC-DDKL", given_steps(study, _USUAL_STEPS)))
    _report(study, data, [method.name for method in run], [method.name for method in compared])


def _moving(
    kind: Kind, agents: int, phi: FeatureMap, rounds: int, noise: float, seed: int, speed: float
) -> MovingTruth:
    every = max(round(5 / check.finite("speed", speed, above=0.0)), 1)
    return MovingTruth(kind, agents, phi, rounds, noise=noise, seed=seed, rate=speed, every=every)


def _dealt(rows: Table, agents: int, phi: FeatureMap, order: str, seed: int) -> _Source:
    if order == "time":
        return lambda: in_order(rows, agents, phi)
    return lambda: shuffled(rows, agents, phi, seed)


def _tracking(truth: MovingTruth, phi: FeatureMap, seed: int) -> Tracking:
    """Return the mean over agents and inputs of (θ_iᵀφ(x) − θ°_tᵀφ(x))², x ~ U[0, 1]²."""
    features = phi(np.random.default_rng(seed).random((1000, phi.inputs)))
    covariance = features.T @ features / len(features)

    def error(models: Vector, t: int) -> float:
        apart = models - truth.truth(t)
        return float(np.vdot(apart @ covariance, apart)) / len(apart)

    return error


def _compared(compare: str, method: Method) -> list[Method]:
    """Return QC-DDKL with each number of bits asked for."""
    found = []
    for part in filter(None, (each.strip() for each in compare.split(","))):
        if not part.isdecimal():
            raise check.refuse("compare", compare, "numbers of bits with commas between")
        found.append(dataclasses.replace(method, name=f"QC-DDKL {part}-bit", coder=Uniform(int(part))))
    return found


def _report(study: Study, data: str, wanted: Sequence[str], compared: Sequence[str]) -> None:
    rounds = study.rounds
    last = rounds.groupby("algorithm", sort=False).last()
    table = ends(study, "DDKL")
    table["dynamic_regret"] = last["dynamic_regret"].to_numpy()
    if "tracking_error" in last:
        table["tracking_error"] = last["tracking_error"].to_numpy()
    study.table("ends", "At the end of the stream", table)
    study.note("Dynamic regret compares with each round's own minimiser, which fits its few samples, noise included.")
    axes = [Axis("round", log=True), Axis("transmissions", log=True), Axis("payload_bits", log=True)]
    finite = converged(rounds[rounds["round"] >= 20])
    main = finite[finite["algorithm"].isin(wanted)]
    study.figure("mse", curves(main, measure("running_mse", log=True), axes, f"Running error from round 20 on, {data}"))
    if compared:
        bits = finite[finite["algorithm"].isin(compared)]
        title = f"QC-DDKL by bits an element, {data}"
        study.figure("bits", curves(bits, measure("running_mse", log=True), [axes[0], axes[2]], title))
    regret = [Axis("round")]
    study.figure("regret", curves(main, measure("dynamic_regret"), regret, f"Dynamic regret, {data}"))
    if "tracking_error" in main:
        smooth = main.assign(
            tracking_error=main.groupby("algorithm", sort=False)["tracking_error"].transform(
                lambda e: e.rolling(50).mean()
            )
        )
        title = f"Tracking the truth, {data}, mean of 50 rounds"
        study.figure("tracking", curves(smooth, measure("tracking_error", log=True), regret, title))
