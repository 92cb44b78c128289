"""CTP and RPL: no lasting loops, all readings reach the sink, failed links are replaced, few beacons when stable."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import BadInput, Link, Network, Radio, topology
from netsim.agents import CTP, LPL, RPL, TSCH, Collector, ContikiMAC, XMac
from netsim.agents.protocols.collector import Packet
from netsim.agents.protocols.estimator import LinkEstimator
from netsim.faults import Crash, LinkDown
from tests.parts import every, slow

BOTH = pytest.mark.parametrize("protocol", [CTP, RPL])
LINK = Link(rate=250e3, header_bits=136)
RADIO = Radio(acks=True, max_frame_retries=0)


def reporting(protocol: Any, every: float, since: float = 60.0) -> type[Any]:
    """Return a subclass that reports its name and a running number every ``every`` seconds, from time ``since``."""

    class Mote(protocol):  # type: ignore[misc]
        async def work(self) -> None:
            await asyncio.sleep(max(0.0, since + every * self.rng.random() - self.now))
            while not self.is_sink:
                self.report([self.name, self.taken + 1])
                await asyncio.sleep(every)

    return Mote


def collect(
    protocol: type[Collector],
    graph: "nx.Graph[Any]",
    until: float,
    *,
    every: float = 10.0,
    loss: float = 0.0,
    links: dict[Any, Link] | None = None,
    faults: Iterable[Any] = (),
    probe: Callable[[Any], float] | None = None,
    **settings: Any,
) -> Any:
    """Run a protocol on a graph with node 0 as the sink, and evaluate ``probe`` every second."""
    link = LINK.with_loss(netsim.loss.bernoulli(loss)) if loss else LINK
    network = Network(graph, link, links=links, medium=RADIO, seed=3, faults=faults)
    agents = {node: reporting(protocol, every)(is_sink=node == 0, **settings) for node in graph}
    return network.run(agents, [probe] if probe else [], until=until, sample=1.0)


def tree(agents: Any) -> "nx.DiGraph[Any]":
    return nx.DiGraph((name, each.parent) for name, each in agents.items() if each.parent is not None)


def field(seed: int = 1) -> "nx.Graph[int]":
    return topology.random_geometric(25, radius=0.32, seed=seed)


@BOTH
@pytest.mark.parametrize("loss", [slow(0.0), 0.2])
def test_all_readings_reach_the_sink_over_a_tree(protocol: type[Collector], loss: float) -> None:
    run = collect(protocol, field(), 400.0, loss=loss)
    agents = run.agents
    arrived = agents[0].heard
    found = tree(agents)
    assert nx.is_tree(found.to_undirected())
    assert set(found) == set(agents)
    assert all(entry.value == [origin, number] for (origin, number), entry in arrived.items())
    early = {(name, number) for name, each in agents.items() for number in range(1, each.taken)}
    assert len(early) > 24 * 30
    # A transmission and its acknowledgement succeed with probability 0.64; eight attempts fail once in 3500 hops.
    assert len(early - set(arrived)) <= (0 if loss == 0 else 8)


@BOTH
@pytest.mark.slow
def test_loops_do_not_last(protocol: type[Collector]) -> None:
    """While links change, loops may form; ranks (RPL) or costs (CTP) then rise until the loop breaks."""
    graph = field(2)
    cuts = [LinkDown(a, b, at=100.0 + 20 * k, until=160.0 + 20 * k) for k, (a, b) in enumerate([*graph.edges][:20])]

    def loops(agents: Any) -> float:
        return float(not nx.is_directed_acyclic_graph(tree(agents)))

    run = collect(protocol, graph, 800.0, loss=0.1, faults=cuts, probe=loops)
    looped = run.rounds["loops"].to_numpy()
    longest = max((len(part) for part in "".join("x" if each else " " for each in looped).split()), default=0)
    assert longest <= 120
    assert looped[-200:].sum() == 0


@BOTH
@pytest.mark.slow
def test_the_tree_costs_little_more_than_the_best(protocol: type[Collector]) -> None:
    graph = field(3)
    losses = {(a, b): 0.05 + 0.4 * ((7 * a + 3 * b) % 10) / 10 for a, b in graph.to_directed().edges}
    links = {ends: LINK.with_loss(netsim.loss.bernoulli(each)) for ends, each in losses.items()}
    run = collect(protocol, graph, 900.0, links=links)

    def etx(a: int, b: int, _: Any = None) -> float:
        return 1 / ((1 - losses[a, b]) * (1 - losses[b, a]))

    best = nx.single_source_dijkstra_path_length(graph, 0, weight=etx)
    found = tree(run.agents)
    ours = {node: sum(etx(*hop) for hop in nx.utils.pairwise(nx.shortest_path(found, node, 0))) for node in found}
    # To avoid oscillation, a protocol keeps a parent that costs up to 1.5 transmissions more than the best.
    assert sum(ours.values()) <= 1.35 * sum(best.values())
    assert all(ours[node] <= best[node] + 2.5 for node in ours)


DIAMOND = nx.Graph([(0, 1), (0, 2), (1, 3), (2, 3)])


@BOTH
def test_a_dead_link_is_left_for_another(protocol: type[Collector]) -> None:
    before = collect(protocol, DIAMOND, 250.0).agents[3].parent
    run = collect(protocol, DIAMOND, 600.0, faults=[LinkDown(3, before, at=251.0)])
    other = {1: 2, 2: 1}[before]
    assert run.agents[3].parent == other
    late = [number for (origin, number), entry in run.agents[0].heard.items() if origin == 3 and entry.time > 400]
    assert late == list(range(late[0], late[0] + len(late)))
    assert len(late) >= 19


@BOTH
def test_a_parent_that_crashes_is_left_and_may_come_back(protocol: type[Collector]) -> None:
    before = collect(protocol, DIAMOND, 250.0).agents[3].parent
    run = collect(protocol, DIAMOND, 900.0, faults=[Crash(before, at=251.0, until=500.0)])
    assert run.agents[before].parent == 0
    times = sorted(entry.time for (origin, _), entry in run.agents[0].heard.items() if origin == 3)
    assert max(b - a for a, b in nx.utils.pairwise(times)) < 60.0


@BOTH
def test_a_node_without_a_way_to_the_sink_keeps_its_readings_and_gains_one(protocol: type[Collector]) -> None:
    graph = topology.path(4)
    run = collect(protocol, graph, 400.0, faults=[LinkDown(2, 3, at=0.0, until=200.0)], every=20.0)
    arrived = sorted(number for origin, number in run.agents[0].heard if origin == 3)
    assert arrived[:8] == list(range(1, 9))
    assert run.agents[3].parent == 2


@BOTH
def test_one_copy_of_each_reading_counts_although_acknowledgements_are_lost(protocol: type[Collector]) -> None:
    back = {(0, 1): LINK.with_loss(netsim.loss.bernoulli(0.5))}
    run = collect(protocol, topology.path(2), 500.0, links=back, every=1.0)
    sink, mote = run.agents[0], run.agents[1]
    assert sink.duplicates > 100
    assert len(sink.heard) >= mote.taken - 3


@BOTH
def test_a_full_queue_says_so(protocol: type[Collector]) -> None:
    run = collect(protocol, topology.path(3), 80.0, every=0.01, queue=3)
    reasons = [reason for each in run.agents.values() for reason in each.lost.values()]
    assert reasons.count("queue full") > 100
    agents = run.agents
    for origin in (1, 2):
        named = set().union(*(each.lost for each in agents.values())) | set(agents[0].heard)
        named |= {packet.reading for each in agents.values() for packet in each.waiting}
        missing = {(origin, number) for number in range(1, agents[origin].taken + 1)} - named
        assert len(missing) <= 1, "one packet at most is on the air at the end"


# --- CTP --------------------------------------------------------------------------------------------------------------


def test_ctp_costs_are_the_sums_of_etx() -> None:
    run = collect(CTP, topology.path(5), 1000.0, loss=0.1, every=2.0)
    costs = [run.agents[node].cost for node in range(5)]
    assert costs[0] == 0
    # A hop costs 1/0.81 transmissions; the tolerance allows for the small windows of the estimator.
    for node, cost in enumerate(costs[1:], 1):
        assert cost == pytest.approx(node / 0.81, rel=0.2)


def test_ctp_beacons_become_seldom_and_those_who_ask_get_them_at_once() -> None:
    run = collect(CTP, field(), 5000.0, every=100.0)
    assert max(each.beacons for each in run.agents.values()) < 60
    assert min(each.trickle.interval for each in run.agents.values()) > 100
    late = collect(CTP, topology.path(4), 1300.0, faults=[Crash(3, at=1.0, until=1200.0)])
    assert late.agents[3].parent == 2


def test_ctp_data_that_come_from_nearer_the_sink_reset_the_timer() -> None:
    agent = CTP()
    agent.cost = 2.0
    resets = []
    agent.trickle = type("Timer", (), {"reset": lambda self: resets.append(1)})()
    packet = Packet(1, 1, None)
    assert agent.inspect(packet, 2, 21)
    assert not resets
    assert agent.inspect(packet, 2, 20)
    assert len(resets) == 1


def offer(agent: Any, sender: str, tenths: int) -> None:
    """Deliver three beacons of a neighbour with cost ``tenths`` / 10 to an agent, enough for a link estimate."""
    for number in range(3):
        agent.hear(netsim.mote.Message(sender, "b", [number, False, 0, tenths]))


def test_ctp_keeps_the_neighbours_of_the_best_routes() -> None:
    agent: Any = collect(CTP, topology.path(2), 100.0, table=3).agents[1]
    offer(agent, "a", 50)
    offer(agent, "b", 40)
    offer(agent, "c", 30)
    assert set(agent.estimator) == {0, "b", "c"}
    offer(agent, "d", 26)
    assert set(agent.estimator) == {0, "b", "c"}, "it is better, but not by 1.5 transmissions"
    assert agent.parent == 0


def test_ctp_leaves_a_parent_for_who_is_nearer_and_else_has_no_route_for_a_while() -> None:
    agent: Any = collect(CTP, topology.path(2), 100.0).agents[1]
    offer(agent, "a", 5)
    offer(agent, "b", 30)
    assert agent.parent == 0
    offer(agent, 0, 65535)
    assert (agent.parent, agent.cost) == ("a", 1.5)
    offer(agent, "a", 65535)
    assert agent.parent is None
    offer(agent, "b", 30)
    assert agent.parent is None
    assert not agent._pulls, "what it would be offered now may lead over itself"


# --- RPL --------------------------------------------------------------------------------------------------------------


def test_rpl_ranks_grow_to_the_leaves() -> None:
    agents = collect(RPL, field(), 600.0, loss=0.1).agents
    assert agents[0].rank == 256
    for node, each in agents.items():
        if node:
            assert each.rank // 256 > agents[each.parent].rank // 256


def test_rpl_is_quiet_when_calm() -> None:
    """The longest Trickle interval is 4.096 s · 2^8 = 17.5 min, so a node sends about 10 DIOs in three hours."""
    run = collect(RPL, field(), 4 * 3600.0, every=600.0, probing=1e9)
    early = collect(RPL, field(), 3600.0, every=600.0, probing=1e9)
    dios = sum(each.dios for each in run.agents.values()) - sum(each.dios for each in early.agents.values())
    assert dios <= 25 * 12


def test_rpl_drops_what_comes_down_twice() -> None:
    agent = RPL()
    agent.rank, agent._ranks, agent._answers = 600, {}, asyncio.Queue()
    resets = []
    agent.trickle = type("Timer", (), {"reset": lambda self: resets.append(1)})()
    packet = Packet(1, 1, None)
    assert agent.inspect(packet, 2, 700)
    assert agent.inspect(packet, 2, 600)
    assert not resets
    assert not agent.inspect(packet, 2, 500)
    assert len(resets) == 1


def test_rpl_gives_up_its_rank_where_the_root_is_gone() -> None:
    """Cut off from the root, ranks grow by at most seven hops and then become infinite: no count to infinity."""
    seen: list[int] = []

    def ranks(agents: Any) -> float:
        seen.extend(agents[node].rank for node in (1, 2, 3) if agents[node].rank < 65535)
        return 0.0

    ring = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 1)])
    collect(RPL, ring, 3000.0, faults=[LinkDown(0, 1, at=300.0)], probe=ranks)
    assert max(seen) <= 3 * 512 + 7 * 256
    assert len(seen) > 300


def test_rpl_joins_far_below_its_lowest_rank_only_in_a_new_version() -> None:
    ring = nx.cycle_graph(12)
    cut = [LinkDown(0, 1, at=300.0)]
    assert collect(RPL, ring, 1000.0, faults=cut).agents[1].parent is None

    class Root(reporting(RPL, 10.0)):  # type: ignore[misc]
        async def work(self) -> None:
            await asyncio.sleep(600)
            self.repair()

    network = Network(ring, LINK, medium=RADIO, seed=3, faults=cut)
    agents: Any = {node: (Root if node == 0 else reporting(RPL, 10.0))(is_sink=node == 0) for node in ring}
    network.run(agents, until=1000.0)
    assert {each.version for each in agents.values()} == {1}
    assert agents[1].parent == 2
    assert agents[1].rank >= 12 * 256


@every(
    ("make", "says"),
    [
        (lambda: CTP(queue=0), "queue = 0"),
        (lambda: CTP(switch=-1.0), "switch = -1"),
        (lambda: CTP(pause=(0.2, 0.1)), "pause = 0.1"),
        (lambda: CTP(pause=0.1), r"pause = 0.1: must be \(least, most\), in seconds"),  # type: ignore[arg-type]
        (lambda: CTP(pause=(1, 2, 3)), r"pause = \(1, 2, 3\)"),  # type: ignore[arg-type]
        (lambda: CTP(imin=float("nan")), "imin = nan"),
        (lambda: CTP(doublings=61), "doublings = 61"),
        (lambda: CTP(table=0), "table = 0"),
        (lambda: RPL(imin=0.0), "imin = 0"),
        (lambda: RPL(doublings=-1), "doublings = -1"),
        (lambda: RPL(k=0), "k = 0"),
        (lambda: RPL(attempts=0), "attempts = 0"),
        (lambda: RPL(probing=0.0), "probing = 0"),
        (lambda: RPL(min_hop_increase=0), "min_hop_increase = 0"),
        (lambda: RPL(min_hop_increase=2**16), "min_hop_increase = 65536: must be a whole number from 1 to 65534"),
    ],
)
def test_bad_input_is_refused_by_name(make: Callable[[], object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        make()


@BOTH
@pytest.mark.parametrize("keeps_state", [False, True])
def test_who_crashed_is_heard_again(protocol: type[Collector], keeps_state: bool) -> None:
    """The sink must not take a restarted mote's readings for duplicates of those from before the crash."""
    kind = reporting(protocol, 5.0, since=5.0)
    agents = {node: kind(is_sink=node == 0) for node in range(2)}
    crash = netsim.faults.Crash(1, at=52.0, until=60.0, keeps_state=keeps_state)
    Network(topology.path(2), LINK, medium=RADIO, seed=1, faults=[crash]).run(agents, until=120.0)
    heard = agents[0].heard.values()
    assert len(heard) >= 18
    assert sum(each.time > 60.0 for each in heard) >= 8


def test_it_needs_acknowledgements() -> None:
    network = Network(topology.path(2), LINK, medium=Radio(acks=False))
    with pytest.raises(netsim.AgentError, match=r"the medium must be a netsim.Radio\(acks=True\)"):
        network.run({node: reporting(CTP, 1.0, 5.0)(is_sink=node == 0) for node in range(2)}, until=60)


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "mac"), [(CTP, LPL), (RPL, XMac), (CTP, ContikiMAC), (RPL, TSCH), (CTP, TSCH)])
def test_a_mac_layer_below_carries_beacons_and_data(protocol: type[Collector], mac: Any) -> None:
    """On a line of four motes; readings start after 200 s, when all motes have joined the TSCH network."""
    kind, line = reporting(protocol, 30.0, since=200.0), nx.path_graph(4)

    def below(node: int) -> Any:
        return TSCH(node == 0, slotframe=7, hopping=range(4)) if mac is TSCH else mac(0.125)

    motes = {node: netsim.Mote(mac=below(node), routing=kind(is_sink=node == 0)) for node in line}
    radio = replace(RADIO, access="aloha")
    Network(line, LINK, medium=radio, seed=3).run(motes, until=560.0)
    agents = {node: mote.routing for node, mote in motes.items()}
    assert {node: each.parent for node, each in agents.items()} == {0: None, 1: 0, 2: 1, 3: 2}
    due = [reading for node in (1, 2, 3) for reading in [(node, k) for k in range(1, 11)]]
    missing = [reading for reading in due if reading not in agents[0].heard]
    assert len(missing) <= 1
    assert all(heard.hops == origin for (origin, _), heard in agents[0].heard.items() if origin)


# --- sparse sites, and parts that are cut off -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 4])
def test_rpl_starts_cold_on_a_sparse_site(seed: int) -> None:
    """Some motes have only bad links; nearly all readings must arrive nevertheless."""
    outcome = netsim.studies.find_study("convergecast").execute(
        agents=25, routing="rpl", acks=True, awake="1", seed=seed, readings=12
    )
    assert outcome.tables["by_run"].iloc[0]["delivered_%"] > 95.0


def test_rpl_takes_a_bad_link_where_there_is_no_better_one() -> None:
    links = {(0, 1): LINK.with_loss(netsim.loss.bernoulli(0.7)), (1, 0): LINK.with_loss(netsim.loss.bernoulli(0.6))}
    run = collect(RPL, topology.path(2), 900.0, links=links, every=15.0, attempts=30)
    assert run.agents[1].estimator.etx(0) > 4.0
    assert run.agents[1].parent == 0
    assert len(run.agents[0].heard) > 0.9 * run.agents[1].taken


def test_an_estimate_that_is_not_measured_fades() -> None:
    """Five successful probes at long intervals (``age=5``) improve a bad estimate more than five frequent ones."""
    links = LinkEstimator()
    links.sent("a", 5, False)
    links.sent("a", 5, False)
    bad = links.etx("a")
    for _ in range(5):
        links.sent("a", 1, True)
    steady = links.etx("a")
    for _ in range(5):
        links.sent("a", 1, True, age=5.0)
    assert bad > steady > 4.0
    assert 1.0 < links.etx("a") < 1.5


def spun(run: Any) -> list[str]:
    return [reason for each in run.agents.values() for reason in each.lost.values() if reason in ("hop limit", "loop")]


@pytest.mark.parametrize("graph", [nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 1)]), field(2)])
def test_ctp_in_a_part_that_is_cut_off_waits(graph: "nx.Graph[Any]") -> None:
    """Nodes cut off from the sink notice it, loop no packets, and send few beacons; later they find a route again."""
    cuts = [LinkDown(0, node, at=100.0, until=300.0) for node in graph[0]]
    cut = collect(CTP, graph, 290.0, faults=cuts)
    assert not spun(cut)
    assert all(each.parent is None for each in cut.agents.values())
    sent = sum(each.beacons for each in collect(CTP, graph, 200.0, faults=cuts).agents.values())
    more = sum(each.beacons for each in cut.agents.values()) - sent
    assert more < 90 / 8 * len(graph) * 1.3
    found = collect(CTP, graph, 420.0, faults=cuts)
    assert all(each.parent is not None for node, each in found.agents.items() if node)
    assert not spun(found)
    late = [(name, each.taken) for name, each in found.agents.items() if name]
    assert sum((name, number - 1) in found.agents[0].heard for name, number in late) >= 0.9 * len(late)


def test_a_packet_that_comes_round_ends_the_route() -> None:
    agent = CTP()
    agent._netsim = type("Context", (), {"name": 5, "shared": None})()
    agent.trickle = type("Timer", (), {"reset": lambda self: None})()
    agent.estimator = LinkEstimator()
    agent._known.append((1, 1, 0))
    assert agent.has_come_round(Packet(1, 1, None, hops=4))
    assert not agent.has_come_round(Packet(1, 1, None, hops=1))
    assert agent.has_come_round(Packet(5, 9, None, hops=3))
    assert not agent.has_come_round(Packet(2, 1, None, hops=4))
