"""Build a run: each agent's inbox, outbox and context, the links between them, the ledger and the round clock."""

import inspect
from collections.abc import Hashable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim.accounting.captions import Captions
from netsim.accounting.hearings import Hearings
from netsim.accounting.ledger import Ledger
from netsim.agent import Agent, attach, has_run
from netsim.clock.clock import ClockName, Loop
from netsim.clock.compute import ComputeTimes
from netsim.clock.rounds import RoundClock
from netsim.context import Context
from netsim.core import Tally
from netsim.core.records import RADIO_CAUSES, ROUTING_CAUSES, SOCKET_CAUSES
from netsim.errors import BadInput
from netsim.faults import ClockSkew, Faults
from netsim.ipv6 import IPv6Stack, SixLowpan
from netsim.links.capacity import Capacity, Fluid
from netsim.links.latency import Latency
from netsim.links.link import Link
from netsim.radio.energy import EnergyAccount
from netsim.radio.handle import RadioHandle
from netsim.radio.mac import Mac
from netsim.radio.medium import Medium
from netsim.radio.settings import Radio
from netsim.topology import one_way_link, senders_to
from netsim.transport.inbox import Inbox, RemoteEndpoint
from netsim.transport.outbox import Outbox, Wiring
from netsim.transport.reliable import ReliableOutbox
from netsim.transport.router import Router
from netsim.transport.routes import Routes
from netsim.transport.shared import Shared
from netsim.transport.sharing import Sharing
from netsim.util import check, draws

if TYPE_CHECKING:
    from netsim.clock.order import Order
    from netsim.deployment import Deployment
    from netsim.engine.observers import Inspect, Viewer
    from netsim.engine.runtime import Runtime

__all__ = ["Settings", "build", "check_agents", "ends_of_links"]

_Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """The validated arguments of `netsim.Network` and `netsim.Network.run`, except agents and probes."""

    graph: "nx.Graph[Any]"
    link: Link
    links: Mapping[tuple[Any, Any], Link]
    round_period: float
    medium: str | Radio
    inbox_limit: int | None
    seed: int
    link_seed: int
    faults: Faults
    kinds: tuple[str, ...] = ()
    deployment: "Deployment | None" = None
    compute: Mapping[Hashable, Latency] | None = None
    stack: SixLowpan | None = None
    capacity: Capacity | None = None
    routes: Routes | None = None
    until: float | None = None
    sample: float | None = None
    trace: bool = False
    blas_threads: int | None = 1
    viewer: "Viewer | None" = None
    inspect: "Inspect | None" = None
    order: "Order | None" = None
    deliveries: bool = False
    clock: ClockName = "virtual"
    pace: float = 1.0


def check_agents(graph: "nx.Graph[Any]", agents: Mapping[Any, Agent]) -> None:
    """Raise BadInput unless each node has a separate agent that no earlier run has used."""
    check.instance("agents", agents, Mapping, "a mapping {node: Agent}")
    missing = [node for node in graph if node not in agents]
    extra = [name for name in agents if name not in graph]
    if missing or extra:
        which = f"no agent for node {missing[0]!r}" if missing else f"agent {extra[0]!r} is not a node of the graph"
        counts = f"({len(missing)} missing, {len(extra)} too many)"
        raise BadInput(f"agents: must be one for each node of the graph; {which} {counts}")
    seen: dict[int, Hashable] = {}
    for name, agent in agents.items():
        check.instance(f"agents[{name!r}]", agent, Agent, "an instance of a subclass of netsim.Agent")
        if inspect.iscoroutinefunction(agent.answer):
            raise BadInput(
                f"agents[{name!r}].answer: must be a plain function, not async, because it replies immediately"
            )
        if seen.setdefault(id(agent), name) != name:
            raise BadInput(
                f"agents[{name!r}]: must be a distinct object; it is the same object as agents[{seen[id(agent)]!r}]"
            )
    if all(type(agent).background for agent in agents.values()):
        raise BadInput("agents: must have one that is not in the background, or nothing ends the run")
    _check_parts(agents)
    checks: dict[Any, dict[Any, Agent]] = {}
    for name, agent in ((name, each) for name, whole in agents.items() for each in (whole, *whole._members().values())):
        if has_run(agent):
            why = "this one has already run; to continue from its last state, pass copy.deepcopy(agents)"
            raise BadInput(f"agents[{name!r}]: must be a new agent for each run; {why}")
        if agent.needs_links_both_ways and (link := one_way_link(graph)) is not None:
            kind = type(agent).__name__
            raise BadInput(f"agents[{name!r}]: {kind} needs links in both directions; link {link!r} has none back")
        checks.setdefault(type(agent)._check_together.__func__, {})[name] = agent
    for together in checks.values():
        type(next(iter(together.values())))._check_together(together, graph)


def _check_parts(agents: Mapping[Any, Agent]) -> None:
    """Raise BadInput if two agents share a component that is itself an Agent, such as a MAC layer."""
    known = {id(agent) for agent in agents.values()}
    owners: dict[int, tuple[Hashable, str]] = {}
    for name, agent in agents.items():
        for attribute, part in vars(agent).items():
            if not isinstance(part, Agent) or id(part) in known:
                continue
            owner, place = owners.setdefault(id(part), (name, attribute))
            if owner != name:
                raise BadInput(
                    f"agents[{name!r}].{attribute}: must be an object of its own; it is the same {type(part).__name__} "
                    f"as agents[{owner!r}].{place}"
                )


def build(run: "Runtime", loop: Loop, *, merged: bool = False) -> None:
    """Build the links of a run on a loop, and give each agent its context.

    ``merged`` is True for a run reconstructed from the journals of several processes. Raises AgentError if an agent's
    attribute hides an attribute of Agent.
    """
    settings, agents, node = run.settings, run.agents, run.node
    graph, names = settings.graph, list(settings.graph)
    neighbors = {name: tuple(graph[name]) for name in names}
    senders, receivers, firsts = ends_of_links(neighbors)
    name_keys = run.name_keys = np.array([draws.name_key(name) for name in names], dtype=np.uint64)
    keys = draws.link_keys(name_keys[senders], name_keys[receivers])
    keeps_events = settings.trace or settings.viewer is not None or (node is not None and node.journals)
    tally = Tally(name_keys, keys, keeps_events)
    on_medium = isinstance(settings.medium, Radio)
    causes = SOCKET_CAUSES if merged else RADIO_CAUSES if on_medium else () if node is None else node.causes
    causes += () if settings.routes is None else ROUTING_CAUSES
    run.ledger = run.result.ledger = Ledger(
        names, senders, receivers, name_keys, tally, causes, on_wires=settings.medium == "wires"
    )
    run.ledger.keeps_trace = settings.trace
    run.ledger.captions = Captions() if settings.trace or settings.viewer is not None else None
    run.loop, run.rounds = loop, _round_clock(run, loop)
    shared, own = _add_shared(run, tally)
    _add_sharing(run, neighbors, senders, receivers)
    neighbor_inboxes = _build_inboxes(run, names)
    inboxes = run.inboxes
    _note_hearings(run, names)
    run.outboxes, run.contexts, run.medium = {}, {}, None
    radio = None if settings.medium == "wires" else settings.link
    if isinstance(settings.medium, Radio):
        run.medium = Medium(
            settings.medium, shared, settings.link_seed, names, log=settings.trace, on_death=run.battery_died
        )
    # Random numbers are drawn in blocks for each link: large blocks are fast, but take too much memory if there are
    # many links.
    block = int(np.clip(2**18 // max(len(senders), 1), 8, 128))
    for i, name in enumerate(names):
        if name not in inboxes:
            continue
        ends = slice(int(firsts[i]), int(firsts[i + 1]))
        wiring = Wiring(
            links=_links(settings, name, neighbors[name]),
            neighbors=neighbors[name],
            inboxes=[neighbor_inboxes[other] for other in neighbors[name]],
            receivers=receivers[ends].tolist() if on_medium else (),
            first=ends.start,
            keys=keys[ends],
            block=block,
            seed=settings.link_seed,
            radio=radio,
        )
        agent_shared = own.get(name, shared)
        mac = None if run.medium is None else run.medium.mac(name, wiring, inboxes[name], agent_shared.clock)
        outbox = run.outboxes[name] = _outbox(settings, wiring, agent_shared, i, name, names, mac)
        if own:
            outbox.disable_fast_path()
        context = Context(agent_shared, name, neighbors[name], inboxes[name], outbox, settings.seed)
        run.contexts[name] = _placed(context, i, run)
        if mac is not None:
            outbox.acknowledges = mac.acknowledges
            mac.down, mac.subscribers, mac.bursts = outbox.down, outbox.subscribers, outbox.bursts
            context.radio, context.energy = (
                RadioHandle(mac, loop, context),
                EnergyAccount(mac, loop) if mac.meter else None,
            )
        attach(agents[name], context)
    _let_inboxes_answer(run, names)
    if run.medium is not None:
        run.medium.connect(graph)


def _let_inboxes_answer(run: "Runtime", names: Sequence[Hashable]) -> None:
    """Let inboxes acknowledge frames on reliable links and, with routing, forward messages for other nodes."""
    # Both calls register the inbox with the senders' outboxes, so all outboxes must exist already.
    routes = run.settings.routes
    numbers = {} if routes is None else {name: number for number, name in enumerate(names)}
    for name, outbox in run.outboxes.items():
        if isinstance(outbox, ReliableOutbox):
            run.inboxes[name].set_sequence_handler(outbox.heard)
        if routes is not None:
            router = Router(routes, run.own.get(name, run.shared), name, names, numbers, outbox)
            run.inboxes[name].set_router(router)
            run.contexts[name].router = router


def _round_clock(run: "Runtime", loop: Loop) -> RoundClock:
    """Return the network's round clock; its class depends on whether other processes run some of the agents."""
    settings, kind = run.settings, run.node.round_clock if run.node else RoundClock
    clock = kind(loop, settings.round_period, run.round_ended)
    if settings.compute is not None:
        clock.compute = ComputeTimes(settings.compute, settings.seed)
    return clock


def _placed(context: Context, number: int, run: "Runtime") -> Context:
    """Set the attributes of a context that depend on the whole network, and return the context."""
    graph = run.settings.graph
    context.number, context.captions = number, run.ledger.captions
    context.reliability = run.settings.link.reliability_model
    if graph.is_directed():
        context.in_neighbors = senders_to(graph, context.name)
        context.one_way = frozenset(context.neighbors) - frozenset(context.in_neighbors)
    return context


def _build_inboxes(run: "Runtime", names: Sequence[Hashable]) -> Mapping[Hashable, Inbox | RemoteEndpoint]:
    """Build the inboxes of this process; return each agent's inbox, or the remote endpoint that replaces it."""
    shared, own, node, limit = run.shared, run.own, run.node, run.settings.inbox_limit
    if node is None:
        run.inboxes = {name: Inbox(own.get(name, shared), limit) for name in names}
        return run.inboxes
    run.inboxes = {name: node.inbox(own.get(name, shared), limit, name) for name in node.wired(names)}
    return node.neighbor_inboxes(run.inboxes, shared.tally)


def _note_hearings(run: "Runtime", names: Sequence[Hashable]) -> None:
    """If the run records deliveries, make the inboxes of this process record each received frame."""
    if not run.settings.deliveries:
        return
    hearings = run.ledger.hearings = Hearings()
    for number, name in enumerate(names):
        if name in run.inboxes:
            run.inboxes[name].tell(hearings.of(number, run.loop.now))


def ends_of_links(neighbors: Mapping[Hashable, Sequence[Hashable]]) -> tuple[_Indices, _Indices, _Indices]:
    """Return senders and receivers of shape (links,), and the index of each agent's first link, shape (agents + 1,)."""
    index = {name: i for i, name in enumerate(neighbors)}
    degrees = np.array([len(others) for others in neighbors.values()], dtype=np.int64)
    firsts = np.concatenate([[0], np.cumsum(degrees)])
    receivers = (index[other] for others in neighbors.values() for other in others)
    return np.repeat(np.arange(len(index)), degrees), np.fromiter(receivers, np.int64, count=int(firsts[-1])), firsts


def _links(settings: Settings, name: Hashable, neighbors: Sequence[Hashable]) -> list[Link]:
    """Return the settings of an agent's links, in the order of its neighbours."""
    if not settings.links:
        return [settings.link] * len(neighbors)
    return [settings.links.get((name, other), settings.link) for other in neighbors]


def _add_shared(run: "Runtime", tally: Tally) -> tuple[Shared, dict[Hashable, Shared]]:
    """Create and return the state that agents share, and {name: state} for agents with a skewed clock."""
    settings, loop = run.settings, run.loop
    run.shared, run.own = Shared(loop, tally, run.rounds, kinds=settings.kinds), {}
    for fault in settings.faults:
        # An agent with a skewed clock has rounds of its own.
        if isinstance(fault, ClockSkew):
            clock = fault.clock
            period = settings.round_period * clock.rate
            rounds = RoundClock(loop, period, lambda number: None, clock.offset, run.rounds)
            run.own[fault.agent] = Shared(loop, tally, rounds, clock, settings.kinds)
            loop.skewed = True
    if settings.stack is not None and settings.link.mtu is not None:
        agents = {name: run.agents[name] for name in settings.graph}
        stack = IPv6Stack(settings.stack, agents, settings.kinds, settings.link.mtu)
        for shared in run.all_shared:
            shared.stack = stack
    return run.shared, run.own


def _add_sharing(
    run: "Runtime", neighbors: Mapping[Hashable, Sequence[Hashable]], senders: _Indices, receivers: _Indices
) -> None:
    settings, shared = run.settings, run.shared
    if settings.capacity is not None:
        links = [link for name in neighbors for link in _links(settings, name, neighbors[name])]
        limits = settings.capacity.limits(neighbors)
        sharing = Sharing(Fluid(senders, receivers, limits, links, settings.capacity.sharing), shared, copy_context())
        for each in run.all_shared:
            each.sharing = sharing


def _outbox(
    settings: Settings,
    wiring: Wiring,
    shared: Shared,
    number: int,
    name: Hashable,
    names: Sequence[Hashable],
    mac: Mac | None,
) -> Outbox:
    """Return an agent's outbox, which adds sequence numbers if the reliability mode needs them."""
    reliability = settings.link.reliability_model
    take = None if mac is None else mac.take
    if not reliability.numbers:
        return Outbox(shared, number, name, wiring, names, take)
    after = [reliability.resend_after(link.latency_model, settings.round_period) for link in wiring.links]
    outbox = ReliableOutbox(shared, number, name, wiring, names, take)
    outbox.set_up(reliability, max(after, default=settings.round_period))
    return outbox
