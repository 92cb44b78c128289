"""Remedies for lost frames, and the families of methods that each remedy applies to."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from netsim.scenarios.tasks import baselines
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.method import with_remedy
from netsim.studies.experiment import Method
from netsim.studies.experiment.cells import Cell

CODED = "coded"
"""The family that sends coded changes: COKE with a coder. Results name it by its bits, e.g. "COKE 8-bit"."""

FAMILIES = ("CTA", "DKLA", "COKE", CODED)
"""The default methods: averaging, ADMM, censored ADMM, and ADMM with coded changes."""

METHODS = (*FAMILIES, *BASELINES)
"""All methods that can be chosen."""

_CODED = (CODED, *baselines.CODED)

NONE = "none"


class Remedy(NamedTuple):
    """A remedy for lost frames: its title in figures, the flags of ``coke`` that set it, and the families it suits."""

    title: str
    flags: Mapping[str, str]
    families: tuple[str, ...]

    @property
    def reliability(self) -> str:
        """Return the reliability that the remedy needs from the links."""
        return self.flags.get("reliability", NONE)


REMEDIES: Mapping[str, Remedy] = {
    NONE: Remedy("no remedy", {}, METHODS),
    "renormalised": Remedy("weights re-normalised", {"unheard": "dropped"}, ("CTA", "D-PSGD")),
    "running-sums": Remedy(
        "running sums", {"remedy": "running-sums"}, ("DKLA", "COKE", "DIGing", "SGP", "Push-DIGing")
    ),
    "coded-sums": Remedy("coded sums", {"remedy": "coded-sums"}, ("COKE",)),
    "edge-duals": Remedy("edge duals", {"remedy": "edge-duals"}, ("DKLA",)),
    "ack": Remedy(
        "acknowledgements (ack)", {"reliability": "ack"}, ("DKLA", "EXTRA", "DIGing", "SGP", "Push-DIGing", *_CODED)
    ),
    "nack": Remedy("repeats on request (nack)", {"reliability": "nack"}, ("DKLA", *_CODED)),
    "keyframe": Remedy("key frames", {"reliability": "keyframe"}, ("DKLA", *_CODED)),
}
"""The remedies by name; the first means no remedy."""


def remedied(remedy: str, family: Method) -> Method:
    """Return a method with the remedy's settings of agents applied, and with the remedy as a label."""
    flags = REMEDIES[remedy].flags
    if duals := flags.get("remedy"):
        family = with_remedy({"": family}, duals)[0][""]
    own = {name: value for name, value in flags.items() if name == "unheard"}
    return family.with_given(**own).with_label(remedy=remedy)


def fits(columns: Mapping[str, Any]) -> bool:
    """Return whether a run's network provides the reliability that its remedy needs."""
    return bool(columns["network"] == REMEDIES[columns["remedy"]].reliability)


def place_of(cell: Cell) -> tuple[int, int, float, float]:
    """Return the sort key of a run in tables and notes.

    Rows are ordered by remedy. Within a remedy, methods that send states come before methods that send coded changes.
    Then independent losses come before bursts, and small shares of losses before large ones.
    """
    columns, coded = cell.columns, "coder" in getattr(cell.method, "given", {})
    family = columns["family"] if columns["family"] in _CODED else CODED
    group = 1 + _CODED.index(family) if coded else 0
    return [*REMEDIES].index(columns["remedy"]), group, columns["burst"], columns["loss"]
