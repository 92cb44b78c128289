"""Building a run: each agent's inbox, outbox and context, the links between them, the ledger and the rounds."""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import networkx as nx
import numpy as np

from netsim.accounting.ledger import Ledger
from netsim.agent import Agent, attach, has_begun
from netsim.clock.clock import Loop
from netsim.clock.rounds import RoundClock
from netsim.core import Tally
from netsim.core.records import RADIO_CAUSES, SOCKET_CAUSES
from netsim.engine.observers import Viewer
from netsim.errors import BadInput
from netsim.faults import ClockSkew, Faults
from netsim.links.link import Link
from netsim.radio.energy import EnergyAccount
from netsim.radio.mac import Mac
from netsim.radio.medium import Medium
from netsim.radio.settings import Radio
from netsim.transport.context import Context
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox, Wiring
from netsim.transport.reliable import ReliableOutbox
from netsim.transport.shared import Shared
from netsim.util import check, draws

if TYPE_CHECKING:
    from netsim.distributed.relay import RemoteEndpoint

__all__ = ["Asked", "Parts", "Settings", "build", "check_agents"]


@dataclass(frozen=True)
class Settings:
    """What a network is made of; see `netsim.Network`, whose checked arguments these are."""

    graph: "nx.Graph[Any]"
    link: Link
    links: Mapping[tuple[Any, Any], Link]
    round_period: float
    medium: str | Radio
    inbox_limit: int | None
    seed: int
    faults: Faults


class Elsewhere(Protocol):
    """Who stands for the agents that run in other processes."""

    @property
    def keeps(self) -> bool:
        """Whether it wants to have the event log as it is written."""

    def stand_in(self, agent: Hashable, tally: Tally) -> "RemoteEndpoint | None":
        """Return what takes the frames for an agent in place of its inbox; None if the agent runs here."""


@dataclass(frozen=True)
class Asked:
    """What a run was asked for besides its agents: the checked arguments of `netsim.Network.run`, who shows it, and who
    stands for the agents that are elsewhere."""

    until: float | None
    sample: float | None
    trace: bool
    blas_threads: int | None
    viewer: Viewer | None = None
    elsewhere: Elsewhere | None = None

    @property
    def keeps(self) -> bool:
        """Whether the event log is written, for whomever."""
        return self.trace or self.viewer is not None or (self.elsewhere is not None and self.elsewhere.keeps)


@dataclass(frozen=True)
class Parts:
    """What one run of a network is made of; agents' parts by their names.

    Attributes
    ----------
    shared : Shared
        What agents share whose clocks are right; ``own`` are those of the others.
    """

    shared: Shared
    own: dict[Hashable, Shared]
    ledger: Ledger
    rounds: RoundClock
    inboxes: dict[Hashable, Inbox]
    outboxes: dict[Hashable, Outbox]
    contexts: dict[Hashable, Context]
    medium: Medium | None

    @property
    def all_shared(self) -> list[Shared]:
        """What agents share, by clock."""
        return [self.shared, *self.own.values()]


def check_agents(graph: "nx.Graph[Any]", agents: Mapping[Any, Agent]) -> None:
    """Raise BadInput unless there is one agent, an object of its own and of this run, for each node."""
    if not isinstance(agents, Mapping):
        raise check.refuse("agents", agents, "a mapping {node: Agent}")
    missing = [node for node in graph if node not in agents]
    extra = [name for name in agents if name not in graph]
    if missing or extra:
        which = f"no agent for node {missing[0]!r}" if missing else f"agent {extra[0]!r} is no node of the graph"
        counts = f"({len(missing)} missing, {len(extra)} too many)"
        raise BadInput(f"agents: must be one for each node of the graph; {which} {counts}")
    seen: dict[int, Hashable] = {}
    for name, agent in agents.items():
        if not isinstance(agent, Agent):
            raise check.refuse(f"agents[{name!r}]", agent, "an instance of a subclass of netsim.Agent")
        if inspect.iscoroutinefunction(agent.answer):
            raise BadInput(f"agents[{name!r}].answer: must be a plain function, without async; it replies at once")
        if seen.setdefault(id(agent), name) != name:
            raise BadInput(f"agents[{name!r}]: must be an object of its own; it is the one of {seen[id(agent)]!r}")
        if has_begun(agent):
            why = "this one has run and would go on from where it came to; for that, run copy.deepcopy(agents)"
            raise BadInput(f"agents[{name!r}]: must be made anew for each run; {why}")


def build(
    settings: Settings,
    agents: Mapping[Any, Agent],
    loop: Loop,
    *,
    asked: Asked,
    on_round_end: Callable[[int], None],
    on_death: Callable[[Hashable], None],
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
    tally = Tally(name_keys, keys, asked.keeps)
    ledger = Ledger(names, senders, receivers, name_keys, tally, _more_causes(settings, asked))
    ledger.keeps_trace = asked.trace
    rounds = RoundClock(loop, settings.round_period, on_round_end)
    shared = Shared(loop, tally, rounds)
    own = _clocks_of_their_own(settings, shared)
    inboxes = {name: Inbox(own.get(name, shared), settings.inbox_limit) for name in names}
    stand_in = (lambda name, tally: None) if asked.elsewhere is None else asked.elsewhere.stand_in
    takers = {name: stand_in(name, tally) or inbox for name, inbox in inboxes.items()}
    outboxes: dict[Hashable, Outbox] = {}
    contexts: dict[Hashable, Context] = {}
    radio = None if settings.medium == "wires" else settings.link
    medium = None
    if isinstance(settings.medium, Radio):
        medium = Medium(settings.medium, shared, settings.seed, names, log=asked.trace, on_death=on_death)
    # Blocks of draws are large where that is cheap, small where there are very many links.
    block = int(np.clip(2**18 // max(len(senders), 1), 8, 128))
    for i, name in enumerate(names):
        ends = slice(int(firsts[i]), int(firsts[i + 1]))
        wiring = Wiring(
            links=[settings.links.get((name, other), settings.link) for other in neighbors[name]],
            neighbors=neighbors[name],
            inboxes=[takers[other] for other in neighbors[name]],
            receivers=receivers[ends].tolist(),
            first=ends.start,
            keys=keys[ends],
            block=block,
            seed=settings.seed,
            radio=radio,
        )
        mine = own.get(name, shared)
        mac = None if medium is None else medium.mac(name, wiring, inboxes[name], mine.clock)
        outbox = outboxes[name] = _outbox(settings, wiring, mine, i, name, names, mac)
        if own:
            outbox.send_one_by_one()
        context = contexts[name] = Context(mine, name, neighbors[name], inboxes[name], outbox, settings.seed)
        context.reliability = settings.link.reliability_model
        if mac is not None:
            mac.down, mac.watching, mac.bursts = outbox.down, outbox.watching, outbox.bursts
            context.energy = None if mac.meter is None else EnergyAccount(mac.meter, loop.now)
        attach(agents[name], context)
    for name, outbox in outboxes.items():
        # Once all who send to it are there.
        if isinstance(outbox, ReliableOutbox):
            inboxes[name].number_with(outbox.heard)
    if medium is not None:
        medium.connect(graph)
    return Parts(shared, own, ledger, rounds, inboxes, outboxes, contexts, medium)


def _more_causes(settings: Settings, asked: Asked) -> tuple[str, ...]:
    """Return in which ways, besides the usual ones, frames can end."""
    if asked.elsewhere is not None:
        return SOCKET_CAUSES
    return RADIO_CAUSES if isinstance(settings.medium, Radio) else ()


def _clocks_of_their_own(settings: Settings, shared: Shared) -> dict[Hashable, Shared]:
    """Return what agents share with the others that have a clock of their own."""
    own = {}
    for fault in settings.faults:
        if isinstance(fault, ClockSkew):
            clock, loop = fault.clock, shared.loop
            period = settings.round_period * clock.rate
            rounds = RoundClock(loop, period, lambda number: None, clock.offset, shared.rounds)
            own[fault.agent] = Shared(loop, shared.tally, rounds, clock)
            loop.skewed = True
    return own


def _outbox(
    settings: Settings,
    wiring: Wiring,
    shared: Shared,
    number: int,
    name: Hashable,
    names: Sequence[Hashable],
    mac: Mac | None,
) -> Outbox:
    """Return an agent's outbox, one that numbers its frames where the links are to be reliable so."""
    reliability = settings.link.reliability_model
    if not reliability.numbers:
        return Outbox(shared, number, name, wiring, names, mac)
    after = [reliability.resend_after(link.latency_model, settings.round_period) for link in wiring.links]
    outbox = ReliableOutbox(shared, number, name, wiring, names, mac)
    outbox.set_up(reliability, max(after, default=settings.round_period))
    return outbox
