"""The sweeps behind the study of packet loss: family × remedy × loss × seed, each remedy in a folder that stays."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import BadInput
from netsim.studies.results import load
from netsim.studies.sweeps import sweep
from netsim.studies.sweeps.sweep import read_points
from netsim.studies.terminal import Reporter

if TYPE_CHECKING:
    import pandas as pd

CODED = "coded"
"""The family that sends coded changes: COKE with a coder. The study calls it by its bits: "COKE 8-bit"."""

FAMILIES = ("CTA", "DKLA", "COKE", CODED)
"""Averaging, ADMM, censored ADMM, and ADMM of coded changes."""

NONE = "none"


@dataclass(frozen=True)
class Remedy:
    """What is done about lost frames.

    Attributes
    ----------
    title : str
        What figures call it.
    flags : mapping
        Parameters of the study ``coke`` that set it.
    families : tuple of str
        Of which it is measured.
    """

    title: str
    flags: Mapping[str, Any]
    families: tuple[str, ...]


REMEDIES: Mapping[str, Remedy] = {
    NONE: Remedy("no remedy", {}, FAMILIES),
    "renormalised": Remedy("weights re-normalised", {"unheard": "dropped"}, ("CTA",)),
    "running-sums": Remedy("running sums", {"remedy": "running-sums"}, ("DKLA", "COKE")),
    "coded-sums": Remedy("coded sums", {"remedy": "coded-sums"}, ("COKE",)),
    "edge-duals": Remedy("edge duals", {"remedy": "edge-duals"}, ("DKLA",)),
    "ack": Remedy("acknowledgements (ack)", {"reliability": "ack"}, ("DKLA", CODED)),
    "nack": Remedy("repeats on request (nack)", {"reliability": "nack"}, ("DKLA", CODED)),
    "keyframe": Remedy("key frames", {"reliability": "keyframe"}, ("DKLA", CODED)),
}
"""The remedies by name; the first is the absence of one."""


@dataclass(frozen=True)
class Work:
    """One sweep of the study ``coke``.

    Attributes
    ----------
    name : str
        What its folder is called.
    remedy : str
        One of `REMEDIES`.
    burst : float
        Mean number of frames lost in a row; 1: losses are independent.
    settings : mapping
        Parameters, but for the losses and seeds.
    losses : tuple of float
        Shares of frames that are lost.
    """

    name: str
    remedy: str
    burst: float
    settings: Mapping[str, Any]
    losses: tuple[float, ...]


def works(
    remedies: Sequence[str], losses: Sequence[float], burst: float, bits: int, settings: Mapping[str, Any]
) -> Iterator[Work]:
    """Yield the sweeps of some remedies: independent losses, and bursts unless ``burst`` is 1.

    Families of states and of coded changes have sweeps of their own: of the latter some runs end early.
    """
    for name in remedies:
        remedy = REMEDIES[name]
        states = [family for family in remedy.families if family != CODED]
        coded = {"algorithms": f"COKE {bits}-bit", "bits": bits} if CODED in remedy.families else {}
        for mark, chosen in (("", {"algorithms": ",".join(states)} if states else {}), ("-coded", coded)):
            if not chosen:
                continue
            given = {**settings, **remedy.flags, **chosen}
            yield Work(f"{name}{mark}", name, 1.0, {**given, "burst": 1.0}, tuple(losses))
            lossy = tuple(p for p in losses if p > 0.0)
            if burst != 1.0 and lossy:
                yield Work(f"{name}{mark}-burst-{burst:g}", name, burst, {**given, "burst": burst}, lossy)


@dataclass(frozen=True)
class Measured:
    """What the sweeps came to.

    Attributes
    ----------
    table : DataFrame
        A row for each run: family, remedy, burst, loss, seed, then its measures.
    failed : list of (remedy, burst, point, why)
        Runs that did not end.
    """

    table: "pd.DataFrame"
    failed: list[tuple[str, float, str, str]]


COLUMNS = ("train_mse", "test_mse", "consensus_error", "dual_residual", "copy_error", "transmissions", "wire_bits")
"""Measures that are kept of a run's last round."""


def do(
    found: Sequence[Work], folder: Path, seeds: range, jobs: int, reporter: Reporter, *, redo: bool = False
) -> Measured:
    """Do what is missing of some sweeps, with ``redo`` also what came of other code or data; return what all came to.

    Raises
    ------
    BadInput
        If a folder holds something else, or runs of other code or data, or nothing came to its end.
    """
    import pandas as pd

    parts, failed = [], []
    for number, work in enumerate(found, 1):
        reporter.line(f"{number} of {len(found)}: {work.name}")
        place = folder / work.name
        how: dict[str, Any] = {"jobs": jobs, "redo": redo, "reporter": reporter}
        done = sweep("coke", out=place, **how, loss=work.losses, seed=seeds, **work.settings)
        failed += [(work.remedy, work.burst, point, why) for point, why in done.failed.items()]
        if len(done.failed) < len(done.grid.points()):
            parts.append(_read(work, place))
    if not parts:
        raise BadInput(f"folder = {str(folder)!r}: must have a run that ended; all failed, {failed[0][3]}")
    return Measured(pd.concat(parts, ignore_index=True), failed)


def _read(work: Work, place: Path) -> "pd.DataFrame":
    """Return the rows of one sweep."""
    frame = load(place)
    optima = {
        name: json.loads((point / "summary.json").read_text(encoding="utf-8"))["centralised"]["train_mse"]
        for name, _, point in read_points(place)
    }
    frame = frame.assign(
        family=frame["algorithm"], remedy=work.remedy, burst=work.burst, optimum=frame["point"].map(optima)
    )
    frame = frame.reindex(columns=["family", "remedy", "burst", "loss", "seed", "optimum", *COLUMNS])
    # Where nothing is lost all copies are the states themselves, and are not measured.
    if work.remedy != "edge-duals":
        frame.loc[frame["loss"] == 0.0, "copy_error"] = 0.0
    frame["train_mse"] = frame["train_mse"].where(np.isfinite(frame["train_mse"]), np.inf)
    return frame
