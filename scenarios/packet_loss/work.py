"""The sweeps of the study of packet loss: family × remedy × loss × seed, each remedy in a folder that stays."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from netsim.errors import BadInput
from netsim.scenarios.tasks import baselines
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.settings import names_in
from netsim.studies import catalogue
from netsim.studies.outcome import COLUMN as OUTCOME
from netsim.studies.results import load
from netsim.studies.sweeps import sweep
from netsim.studies.sweeps.sweep import read_points
from netsim.studies.terminal import Reporter
from netsim.studies.values import parsed, tuned_for

CODED = "coded"
"""The family that sends coded changes: COKE with a coder. Results name it by its bits: "COKE 8-bit"."""

FAMILIES = ("CTA", "DKLA", "COKE", CODED)
"""Averaging, ADMM, censored ADMM, and ADMM of coded changes: what runs unless other methods are named."""

METHODS = (*FAMILIES, *BASELINES)
"""All methods that can be named."""

_ALONE = (CODED, *baselines.CODED)
"""Those of coded changes, each in a sweep of its own, for some of their runs end early."""

NONE = "none"


class Remedy(NamedTuple):
    """What is done about lost frames: its title in figures, the flags of ``coke`` that set it, and its families."""

    title: str
    flags: Mapping[str, Any]
    families: tuple[str, ...]


REMEDIES: Mapping[str, Remedy] = {
    NONE: Remedy("no remedy", {}, METHODS),
    "renormalised": Remedy("weights re-normalised", {"unheard": "dropped"}, ("CTA", "D-PSGD")),
    "running-sums": Remedy(
        "running sums", {"remedy": "running-sums"}, ("DKLA", "COKE", "DIGing", "SGP", "Push-DIGing")
    ),
    "coded-sums": Remedy("coded sums", {"remedy": "coded-sums"}, ("COKE",)),
    "edge-duals": Remedy("edge duals", {"remedy": "edge-duals"}, ("DKLA",)),
    "ack": Remedy(
        "acknowledgements (ack)", {"reliability": "ack"}, ("DKLA", "EXTRA", "DIGing", "SGP", "Push-DIGing", *_ALONE)
    ),
    "nack": Remedy("repeats on request (nack)", {"reliability": "nack"}, ("DKLA", *_ALONE)),
    "keyframe": Remedy("key frames", {"reliability": "keyframe"}, ("DKLA", *_ALONE)),
}
"""The remedies by name; the first is the absence of one."""


class LossWork(NamedTuple):
    """One sweep of the study ``coke``: its folder's name, remedy, mean burst, losses and other parameters."""

    name: str
    remedy: str
    burst: float
    losses: tuple[float, ...]
    settings: Mapping[str, Any]


def works(
    remedies: Sequence[str],
    losses: Sequence[float],
    burst: float,
    bits: int,
    settings: Mapping[str, Any],
    methods: Sequence[str] = FAMILIES,
) -> Iterator[LossWork]:
    """Yield the sweeps of some remedies: independent losses, and bursts unless ``burst`` is 1.

    Families of states have one sweep, those of coded changes one each, because some of their runs end early.
    """
    lossy = tuple(p for p in losses if p > 0.0)
    for name in remedies:
        remedy = REMEDIES[name]
        wanted = [family for family in remedy.families if family in methods]
        states = [family for family in wanted if family not in _ALONE]
        chosen: dict[str, dict[str, Any]] = {"": {"algorithms": ",".join(states)}} if states else {}
        for family in wanted:
            if family == CODED:
                chosen["-coded"] = {"algorithms": f"COKE {bits}-bit", "bits": bits}
            elif family in _ALONE:
                chosen[f"-{family}"] = {"algorithms": family}
        for mark, algorithms in chosen.items():
            given = {**settings, **remedy.flags, **algorithms}
            if own := _values_of(given.pop("set", ""), names_in(algorithms["algorithms"])):
                given["set"] = own
            yield LossWork(f"{name}{mark}", name, 1.0, tuple(losses), {**given, "burst": 1.0})
            if burst != 1.0 and lossy:
                yield LossWork(f"{name}{mark}-burst-{burst:g}", name, burst, lossy, {**given, "burst": burst})


def _values_of(text: str, names: Sequence[str]) -> str:
    """Return what a text such as "DKLA.rho=0.1,CTA.eta=0.5" gives to some methods."""
    own = [f"{method}.{name}={value}" for (method, name), value in parsed(text).items() if method in names]
    return ",".join(own)


def tuned_notes(found: Sequence[LossWork], files: str, seeds: range) -> Iterator[str]:
    """Yield what files of tuned settings give some sweeps, and which families are not in them.

    Raises BadInput, before anything runs, where a run of theirs would: for a condition that none was tuned for, or a
    seed on which one was.
    """
    coke, without = catalogue.find_study("coke"), []
    for work in found:
        for share in work.losses:
            asked = coke.prepare(**{**work.settings, "loss": share}).settings
            (values, *_) = [tuned_for(files, {**asked, "seed": seed})[2] for seed in seeds]
            missing = [name for name in asked["algorithms"].split(",") if name not in values]
            without += [f"{name} with {REMEDIES[work.remedy].title} at {100.0 * share:g} % loss" for name in missing]
    yield f"Each family at the settings that were best for its share of lost frames: {files}."
    if without:
        yield f"Not in {files}, and so with the study's own settings: {', '.join(dict.fromkeys(without))}."


class LossMeasurements(NamedTuple):
    """The results of the sweeps.

    ``table`` has a row for each run: family, remedy, burst, loss, seed, optimum, then its measures, first ``errors``.
    ``failed`` lists (remedy, burst, point, why) of the runs that did not end.
    """

    table: pd.DataFrame
    failed: list[tuple[str, float, str, str]]
    errors: tuple[str, ...]


COLUMNS = ("consensus_error", "dual_residual", "copy_error", "transmissions", "wire_bits")
"""Measures that are kept of a run's last round, beside its errors."""

OWN_COLUMNS = ("tracking_residual", "least_weight")
"""Measures that only some methods have."""


KEYS = ("family", "remedy", "burst", "loss", "seed", "optimum")
"""What tells runs apart, and the optimum: the first columns of the results."""


def do(
    found: Sequence[LossWork],
    folder: Path,
    seeds: range,
    jobs: int,
    reporter: Reporter,
    *,
    redo: bool = False,
    errors: tuple[str, ...],
) -> LossMeasurements:
    """Do what is missing of some sweeps, with ``redo`` also what other code or data gave; return all results.

    Parameters
    ----------
    errors : tuple of str
        The columns of the task's errors; the first is what the study is about.

    Raises
    ------
    BadInput
        If a folder holds something else, or runs of other code or data, or if no run ended.
    """
    parts, failed = [], []
    for number, work in enumerate(found, 1):
        reporter.line(f"{number} of {len(found)}: {work.name}")
        place = folder / work.name
        how: dict[str, Any] = {"jobs": jobs, "redo": redo, "reporter": reporter}
        done = sweep("coke", out=place, **how, loss=work.losses, seed=seeds, **work.settings)
        failed += [(work.remedy, work.burst, point, why) for point, why in done.failed.items()]
        if len(done.failed) < len(done.grid.points()):
            parts.append(_read(work, place, errors))
    if not parts:
        raise BadInput(f"folder = {str(folder)!r}: must have a run that ended; all failed, {failed[0][3]}")
    return LossMeasurements(pd.concat(parts, ignore_index=True), failed, errors)


def _read(work: LossWork, place: Path, errors: tuple[str, ...]) -> pd.DataFrame:
    """Return the rows of one sweep."""
    frame, error = load(place), errors[0]
    optima = {
        name: json.loads((point / "summary.json").read_text(encoding="utf-8"))["centralised"].get(error, math.nan)
        for name, _, point in read_points(place)
    }
    frame = frame.assign(
        family=frame["algorithm"], remedy=work.remedy, burst=work.burst, optimum=frame["point"].map(optima)
    )
    own = [name for name in OWN_COLUMNS if name in frame]
    frame = frame.reindex(columns=[*KEYS, *errors, *COLUMNS, *own, OUTCOME])
    # Without losses all copies equal the states, and are not measured.
    if work.remedy != "edge-duals":
        frame.loc[frame["loss"] == 0.0, "copy_error"] = 0.0
    frame[error] = frame[error].where(np.isfinite(frame[error]), np.inf)
    return frame
