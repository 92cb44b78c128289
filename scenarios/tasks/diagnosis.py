"""What may be said of a run that went wrong: the true cause where it can be told, nothing more."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from netsim import AgentError, BadInput, Run
from netsim.agents import Accumulated
from netsim.count.records import CAUSES, DELIVERED, REFUSED

_FEW = 1e-3  # share of the frames
_ROUNDING = 1e-9  # of a sum of duals

_ON_RADIO = {
    "access_failed": "Access failed: their senders found the channel busy each time that they listened, and gave up.",
    "half_duplex": "Half duplex: their receivers were sending at the time.",
    "asleep": "Asleep: their receivers' radios were off as they began.",
}
"""What causes mean that frames have on a `netsim.Radio` only."""


@dataclass
class Outcome:
    """How a run ended that may diverge: ``error`` is that of a model that outgrew its coder, else None."""

    error: AgentError | None = None


@contextmanager
def may_diverge() -> Iterator[Outcome]:
    """Let a run diverge: that is an answer, too. An AgentError of another cause is raised on."""
    outcome = Outcome()
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield outcome
    except AgentError as error:
        # What a coder says of what it cannot code.
        if not (isinstance(error.__cause__, BadInput) and str(error.__cause__).startswith("vector")):
            raise
        outcome.error = error


def missed(run: Run) -> str:
    """Return how many frames did not arrive in time, and why: "12 of 340 frames did not arrive in time (lost 12)".

    Empty if all did.
    """
    counts = _exits(run)
    counts["under way at the end"] = run.ledger.link_messages + run.ledger.duplicated - sum(counts.values())
    counts.pop(CAUSES[DELIVERED])
    causes = [f"{cause.replace('_', ' ')} {count:,}" for cause, count in counts.items() if count]
    if not causes:
        return ""
    total = sum(counts.values())
    return f"{total:,} of {run.ledger.link_messages:,} frames did not arrive in time ({', '.join(causes)})"


def on_radio(run: Run) -> str:
    """Return what befell frames on a `netsim.Radio` in sentences, with a space before each; empty if nothing did."""
    counts = _exits(run)
    return "".join(f" {said}" for cause, said in _ON_RADIO.items() if counts.get(cause))


def _exits(run: Run) -> dict[str, int]:
    """Return how many frames ended by each cause."""
    return dict(zip(run.ledger.causes, run.ledger.exits, strict=True))


def unheard(name: str, run: Run) -> str | None:
    """Return how many frames a method missed, and what that did to an ADMM method's duals; None if it missed none."""
    frames = missed(run)
    if not frames:
        return None
    said, causes = f"{name} missed frames: {frames}", on_radio(run)
    residual = run.rounds["dual_residual"].iloc[-1] if "dual_residual" in run.rounds else 0.0
    if not residual > _ROUNDING:
        # A broadcast that was refused is known to be so, and changes no dual.
        return f"{said}.{causes}"
    if _makes_good(run):
        return f"{said}. Its duals sum to {residual:.3g} for now: what is heard next makes good what was lost.{causes}"
    return f"{said}. Its duals no longer sum to zero, by {residual:.3g}, so its optimum has moved.{causes}"


def _makes_good(run: Run) -> bool:
    """Return whether a run's duals are set right by frames to come: by a remedy, or because frames are sent again."""
    remedy = any(not isinstance(getattr(agent, "duals", Accumulated()), Accumulated) for agent in run.agents.values())
    return remedy or not {"ack", "nack"}.isdisjoint(run.ledger.table(["kind"])["kind"])


def diverged(name: str, run: Run, column: str, steps: str = "") -> str | None:
    """Return that a method's error grew tenfold, beyond all bounds or never was a number, and why if known; else None.

    Parameters
    ----------
    column : str
        The error.
    steps : str
        The flag by which the method's step is made smaller; empty if it has none.
    """
    errors = run.rounds[column]
    if errors.isna().all():
        return f"{name} has no {column.replace('_', ' ')}: its models hold values that are no numbers (NaN)."
    if errors.iloc[-1] <= 10 * errors.iloc[0]:
        return None
    said = f"{name} diverged"
    frames = missed(run)
    if frames:
        causes = on_radio(run)
        return (
            f"{said}: {frames}; or its step size is too large ({steps}).{causes}"
            if steps
            else f"{said}: {frames}.{causes}"
        )
    return f"{said}: try a smaller step size ({steps})." if steps else f"{said}."


def silent(name: str, run: Run) -> str | None:
    """Return that a method sent nothing or next to nothing of what it could, or None.

    An agent that no broadcast of left it learned alone.
    """
    ledger = run.ledger
    offered = ledger.link_messages
    refused = _exits(run)[CAUSES[REFUSED]]
    if len(run.agents) < 2:
        return None
    if not offered:
        if not any(hasattr(agent, "censor") for agent in run.agents.values()):
            return f"{name} sent nothing: each agent learned alone."
        return f"{name} sent nothing: its censor let no agent speak, and each learned alone."
    if refused > (1 - _FEW) * offered:
        return f"{name} sent nothing: the budget refused {refused:,} of {offered:,} messages. Each agent learned alone."
    return None
