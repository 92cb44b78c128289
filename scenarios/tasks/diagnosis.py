"""What may be said of a run that went wrong: the true cause where it can be told, nothing more."""

from netsim import AgentError, BadInput, Run
from netsim.count.records import CAUSES, DELIVERED

_FEW = 1e-3  # share of the frames
_ROUNDING = 1e-9  # of a sum of duals


def outgrown(error: AgentError) -> bool:
    """Return whether a run ended because a model had grown beyond what its coder can code, which is an answer, too."""
    return isinstance(error.__cause__, BadInput) and str(error.__cause__).startswith("vector")


def missed(run: Run) -> str:
    """Return how many frames did not arrive in time, and why: "12 of 340 frames did not arrive in time (lost 12)".

    Empty if all did.
    """
    counts = dict(zip(CAUSES, run.ledger.exits, strict=True))
    counts["under way at the end"] = run.ledger.link_messages + run.ledger.duplicated - sum(counts.values())
    counts.pop(CAUSES[DELIVERED])
    causes = [f"{cause.replace('_', ' ')} {count:,}" for cause, count in counts.items() if count]
    if not causes:
        return ""
    total = sum(counts.values())
    return f"{total:,} of {run.ledger.link_messages:,} frames did not arrive in time ({', '.join(causes)})"


def losses_of_duals(name: str, run: Run) -> str | None:
    """Return what an ADMM method's missed frames did to its duals, or None."""
    if "dual_residual" not in run.rounds or not missed(run):
        return None
    residual = run.rounds["dual_residual"].iloc[-1]
    if residual <= _ROUNDING:
        # A broadcast that was refused is known to be so, and changes no dual.
        return None
    return f"{name} missed frames: its duals no longer sum to zero, by {residual:.3g}, so its optimum has moved."


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
        return f"{said}: {frames}; or its step size is too large ({steps})." if steps else f"{said}: {frames}."
    return f"{said}: try a smaller step size ({steps})." if steps else f"{said}."


def silent(name: str, run: Run) -> str | None:
    """Return that a method sent nothing or next to nothing of what it could, or None.

    An agent that no broadcast of left it learned alone.
    """
    ledger = run.ledger
    offered = ledger.link_messages
    refused = dict(zip(CAUSES, ledger.exits, strict=True))["refused"]
    if len(run.agents) < 2:
        return None
    if not offered:
        if not any(hasattr(agent, "censor") for agent in run.agents.values()):
            return f"{name} sent nothing: each agent learned alone."
        return f"{name} sent nothing: its censor let no agent speak, and each learned alone."
    if refused > (1 - _FEW) * offered:
        return f"{name} sent nothing: the budget refused {refused:,} of {offered:,} messages. Each agent learned alone."
    return None
