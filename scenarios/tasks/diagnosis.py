"""Notes on runs that went wrong, which name a cause only if it is certain."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim import Ending, Run
from netsim.agents import Accumulated, EdgeDuals
from netsim.core.records import CAUSES, DELIVERED, REFUSED

Ends = tuple[Any, Any]
"""A directed link: sender and receiver."""

_FEW = 1e-3  # share of the frames
_ROUNDING = 1e-9  # relative to a sum of duals
_ENOUGH = 20  # successive frames lost over a link before notes mention it
_SELDOM = 50  # frames sent per frame received from which a link counts as almost dead
_NAMED = 3  # the most links of a kind named in a note

_ON_RADIO = {
    "access_failed": "Access failed: their senders found the channel busy each time that they listened, and gave up.",
    "half_duplex": "Half duplex: their receivers were sending at the time.",
    "asleep": "Asleep: their receivers' radios were off as they began.",
}
"""{cause that exists only on a `netsim.Radio`: its explanation}."""


def missed(run: Run) -> str:
    """Return "12 of 340 frames did not arrive in time (lost 12)"; empty if all arrived."""
    counts = _exits(run)
    counts["under way at the end"] = run.ledger.link_messages + run.ledger.duplicated - sum(counts.values())
    counts.pop(CAUSES[DELIVERED])
    causes = [f"{cause.replace('_', ' ')} {count:,}" for cause, count in counts.items() if count]
    if not causes:
        return ""
    total = sum(counts.values())
    return f"{total:,} of {run.ledger.link_messages:,} frames did not arrive in time ({', '.join(causes)})"


def on_radio(run: Run) -> str:
    """Return the outcomes of frames on a `netsim.Radio`, as sentences with a space before each; "" if none."""
    counts = _exits(run)
    return "".join(f" {meaning}" for cause, meaning in _ON_RADIO.items() if counts.get(cause))


def missed_notes(runs: Mapping[str, Run]) -> list[str]:
    """Return a note on each algorithm's missing frames, and one note on the causes on the air."""
    found = {name: missed(run) for name, run in runs.items()}
    meanings = [meaning for cause, meaning in _ON_RADIO.items() if any(_exits(run).get(cause) for run in runs.values())]
    return [*(f"{name}: {frames}." for name, frames in found.items() if frames), *meanings]


def _exits(run: Run) -> dict[str, int]:
    """Return how many frames ended by each cause."""
    return dict(zip(run.ledger.causes, run.ledger.exits, strict=True))


def _listed(links: Sequence[Ends]) -> str:
    """Return links as text, with the number of those left out: "3 → 7, 5 → 2 and 4 links more"."""
    named = ", ".join(f"{sender} → {receiver}" for sender, receiver in links[:_NAMED])
    more = len(links) - _NAMED
    return f"{named} and {more:,} link{'s' * (more > 1)} more" if more > 0 else named


def dead_links(run: Run) -> tuple[str, list[Ends]]:
    """Return a note on links that delivered almost nothing for long, and the links that were dead at the end.

    The note is "" if there are none. Silence alone is no evidence: a link counts once 20 successive frames that were
    sent over it, or all frames since some round, did not arrive, for any reason. Frames that a censor, a budget or a
    full queue held back were not sent.
    """
    ledger, rounds = run.ledger, int(run.rounds["round"].iloc[-1]) if run.rows else 0
    ends = _ends(run)
    delivered, lost = ledger.heard()

    def chosen(which: NDArray[np.bool_]) -> list[Ends]:
        return [ends[number] for number in np.flatnonzero(which)]

    sent = delivered + lost
    known = (sent >= _ENOUGH) & (_SELDOM * delivered <= sent)
    dead, seldom = chosen(known & (delivered == 0)), chosen(known & (delivered > 0))
    parts = [f"nothing was heard over {_listed(dead)} in {rounds:,} rounds"] if dead else []
    for number, before, lost_before in ledger.marks:
        if number > 0.75 * rounds:
            continue
        fresh = ~known & (delivered == before) & (lost - lost_before >= _ENOUGH)
        known |= fresh
        if since := chosen(fresh):
            parts.append(f"nothing since round {number:,} over {_listed(since)}")
            dead += since
    if seldom:
        parts.append(f"next to nothing (at most one frame in {_SELDOM}) over {_listed(seldom)}")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:], dead


def _ends(run: Run) -> list[Ends]:
    """Return the ends of each directed link."""
    ledger = run.ledger
    return [(ledger.agents[a], ledger.agents[b]) for a, b in zip(ledger.senders, ledger.receivers, strict=True)]


def unheard(name: str, run: Run) -> str | None:
    """Return a note on a method's missed frames, the dead links, and their effect on the duals; None if none."""
    frames = missed(run)
    if not frames:
        return None
    links, dead = dead_links(run)
    losses, causes = f"{name} missed frames: {frames}." + (f" {links}." if links else ""), on_radio(run)
    what, residual = _unbalanced(run)
    if not residual > _ROUNDING:
        # A sender knows that its broadcast was refused, so the refusal changes no dual variable.
        return f"{losses}{causes}"
    if not _makes_good(run):
        return f"{losses} {what} no longer sum to zero, by {residual:.3g}, so its optimum has moved.{causes}"
    if all(isinstance(getattr(agent, "duals", None), EdgeDuals) for agent in run.agents.values()):
        effect = _on_edge_duals(run, dead)
    elif links:
        effect = ": what is lost there is made good late or never"
    else:
        effect = " for now: what is heard next makes good what was lost"
    return f"{losses} {what} sum to {residual:.3g}{effect}.{causes}"


def _unbalanced(run: Run) -> tuple[str, float]:
    """Return the name of a method's quantity that should sum to zero over the agents, and its final sum."""
    rounds = run.rounds
    for column, what in (("dual_residual", "Its duals"), ("tracking_residual", "Its trackers less its gradients")):
        if column in rounds:
            return what, float(rounds[column].iloc[-1])
    return "", 0.0


def _on_edge_duals(run: Run, links: Sequence[Ends]) -> str:
    """Return the effect of dead links on edge duals: none, if links that work in both directions connect all agents."""
    if not links:
        return " for now: what is heard next makes good what was lost"
    dead = set(links)
    for a, b in links:
        if (b, a) in dead:
            return f": edge duals bear a link that is dead one way, but not both ways ({a} – {b})"
    alive: nx.Graph[Any] = nx.Graph()
    alive.add_nodes_from(run.agents)
    alive.add_edges_from((a, b) for a, b in _ends(run) if not {(a, b), (b, a)} & dead)
    if nx.is_connected(alive):
        return " for now: edge duals bear links that are dead one way, for those alive both ways connect all agents"
    return ": edge duals bear links that are dead one way only if those alive both ways connect all agents"


def _makes_good(run: Run) -> bool:
    """Return whether later frames correct a run's duals, because of a remedy or of retransmissions."""
    remedy = any(
        not isinstance(getattr(agent, "duals", Accumulated()), Accumulated)
        or getattr(agent, "running_sums", False)
        or getattr(agent, "resends_state", False)
        for agent in run.agents.values()
    )
    return remedy or not {"ack", "nack"}.isdisjoint(run.ledger.table(["kind"])["kind"])


def diverged(name: str, run: Run, column: str, steps: str = "") -> str | None:
    """Return a note that a method diverged (`netsim.studies.outcome.Ending`), with possible causes; else None.

    A single run cannot distinguish the effect of lost frames from that of too large a step, so the note names both.
    ``steps`` is the flag of the method's step; "" if it has none.
    """
    errors = run.rounds[column]
    if errors.isna().all():
        return f"{name} has no {column.replace('_', ' ')}: its models hold values that are no numbers (NaN)."
    if Ending().judge(errors).survived:
        return None
    if frames := missed(run):
        return (
            f"{name} diverged: {frames}{f'; or its step size is too large ({steps})' if steps else ''}.{on_radio(run)}"
        )
    return f"{name} diverged{f': try a smaller step size ({steps})' if steps else ''}."


def silent(name: str, run: Run) -> str | None:
    """Return a note that a method sent almost nothing, so that its agents learned alone."""
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


def verdicts(runs: Mapping[str, Run], column: str, steps: Callable[[str], str]) -> Iterator[str]:
    """Yield notes on runs that sent nothing, diverged or missed frames; ``steps`` returns a method's flag."""
    for name, run in runs.items():
        quiet = silent(name, run)
        yield from filter(None, [quiet] if quiet else [diverged(name, run, column, steps(name)), unheard(name, run)])
