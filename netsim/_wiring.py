"""Building a run: each agent's inbox, outbox and context, the links between them, the ledger and the rounds."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from netsim import draws
from netsim.agent import Agent, attach
from netsim.core import Tally
from netsim.count.ledger import Ledger
from netsim.link import Link
from netsim.transport.air import Air
from netsim.transport.clock import Loop
from netsim.transport.context import Context
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox, Wiring
from netsim.transport.rounds import RoundClock
from netsim.transport.shared import Shared

__all__ = ["Parts", "Settings", "build"]


@dataclass(frozen=True)
class Settings:
    """What a network is made of; see `netsim.Network`, whose checked arguments these are."""

    graph: "nx.Graph[Any]"
    link: Link
    links: Mapping[tuple[Any, Any], Link]
    round_period: float
    medium: str
    collisions: bool
    inbox_limit: int | None
    seed: int


@dataclass(frozen=True)
class Parts:
    """What one run of a network is made of; agents' parts by their names."""

    shared: Shared
    ledger: Ledger
    rounds: RoundClock
    inboxes: dict[Hashable, Inbox]
    outboxes: dict[Hashable, Outbox]
    contexts: dict[Hashable, Context]


def build(
    settings: Settings,
    agents: Mapping[Any, Agent],
    loop: Loop,
    *,
    keep_trace: bool,
    on_round_end: Callable[[int], None],
) -> Parts:
    """Build the links and give each agent its context; raises AgentError if an agent hides one of Agent's names."""
    graph, names = settings.graph, list(agents)
    number = {name: i for i, name in enumerate(names)}
    neighbors = {name: tuple(graph[name]) for name in names}
    degrees = np.array([len(neighbors[name]) for name in names], dtype=np.int64)
    firsts = np.concatenate([[0], np.cumsum(degrees)])
    senders = np.repeat(np.arange(len(names)), degrees)
    receivers = np.fromiter((number[n] for name in names for n in neighbors[name]), np.int64, count=int(firsts[-1]))
    name_keys = np.array([draws.name_key(name) for name in names], dtype=np.uint64)
    keys = draws.link_keys(name_keys[senders], name_keys[receivers])
    tally = Tally(name_keys, keys, keep_trace)
    ledger = Ledger(names, senders, receivers, name_keys, tally)
    rounds = RoundClock(loop, settings.round_period, on_round_end)
    shared = Shared(loop, tally, rounds)
    inboxes: dict[Hashable, Inbox] = {name: Inbox(shared, settings.inbox_limit) for name in names}
    outboxes: dict[Hashable, Outbox] = {}
    contexts: dict[Hashable, Context] = {}
    air = Air() if settings.collisions else None
    radio = settings.link if settings.medium == "radio" else None
    # Blocks of draws are large where that is cheap, small where there are very many links.
    block = int(np.clip(2**18 // max(len(senders), 1), 8, 128))
    for i, name in enumerate(names):
        ends = slice(int(firsts[i]), int(firsts[i + 1]))
        wiring = Wiring(
            links=[settings.links.get((name, other), settings.link) for other in neighbors[name]],
            neighbors=neighbors[name],
            inboxes=[inboxes[other] for other in neighbors[name]],
            receivers=receivers[ends].tolist(),
            first=ends.start,
            keys=keys[ends],
            block=block,
            seed=settings.seed,
            radio=radio,
            air=air,
        )
        outboxes[name] = Outbox(shared, i, name, wiring, names)
        contexts[name] = Context(shared, name, neighbors[name], inboxes[name], outboxes[name], settings.seed)
        attach(agents[name], contexts[name])
    return Parts(shared, ledger, rounds, inboxes, outboxes, contexts)
