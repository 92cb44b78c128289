"""Messages over several links: routes against networkx, times and bits against closed forms, and frame conservation."""

import asyncio
import math
from typing import Any

import msgpack
import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import Agent, Link, Network, Radio, Run, latency, topology
from netsim.coders import Uniform
from netsim.distributed import UDP
from netsim.errors import BadInput
from netsim.faults import Crash, LinkDown
from netsim.testing import Actor, Listener, counts
from netsim.wire.codec import decode, encode
from netsim.wire.routed import EVERYONE, Routed
from tests.command import on_the_other_core
from tests.fuzzers.routing import ALL, Node, Plan, check_seeds, nodes
from tests.parts import every, message_of


def carried(graph: "nx.Graph[Any]", plans: dict[Any, Plan], link: Link | None = None, **settings: Any) -> Run:
    network = Network(graph, link, **{"routing": "shortest", **settings})
    return network.run(nodes(graph, plans))


# --- routes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_routes_are_as_short_as_networkx_says(directed: bool) -> None:
    rng = np.random.default_rng(1)
    graph: Any = topology.directed_random(14, 0.2, seed=2) if directed else topology.erdos_renyi(14, p=0.2, seed=3)
    for _, _, data in graph.edges(data=True):
        data["cost"] = float(rng.integers(0, 4))
    for routing, weight in (("shortest", None), ("cost", "cost")):
        network = Network(graph, routing=routing)
        for sender in graph:
            for receiver in set(graph) - {sender}:
                route = network.route(sender, receiver)
                assert (route[0], route[-1], len(set(route))) == (sender, receiver, len(route))
                if not graph.has_edge(sender, receiver):
                    found = nx.path_weight(graph, route, weight) if weight else len(route) - 1
                    assert found == nx.shortest_path_length(graph, sender, receiver, weight)


def test_of_routes_that_are_as_good_the_first_in_the_graph_is_taken() -> None:
    grid = topology.grid(3, 3)
    assert Network(grid, routing="shortest").route(0, 8) == [0, 1, 2, 5, 8]
    shuffled = nx.Graph()
    shuffled.add_nodes_from(grid)
    shuffled.add_edges_from(reversed(list(grid.edges)))
    assert Network(shuffled, routing="shortest").route(0, 8) == [0, 1, 2, 5, 8]
    other = nx.Graph()
    other.add_nodes_from([0, 3, 1, 2, 4, 5, 6, 7, 8])
    other.add_edges_from(grid.edges)
    assert Network(other, routing="shortest").route(0, 8) == [0, 3, 4, 5, 8]


def test_tables_say_the_way() -> None:
    ring = topology.ring(6)
    around = {node: {to: (node + 1) % 6 for to in range(6) if to != node} for node in range(6)}
    network = Network(ring, Link(latency=1.0), routing=around)
    assert network.route(0, 4) == [0, 1, 2, 3, 4]
    assert network.route(0, 5) == [0, 5]
    run = network.run(nodes(ring, {0: [(0.0, 4, "m", "x")]}))
    assert run.agents[4].heard == [(4.0, 0, "m", "x")]


# --- one message ------------------------------------------------------------------------------------------------------


def bits_of(kind: str, sender: int, origin: int, destination: int, hops: int, payload: Any) -> int:
    """Return the bits of a frame that carries another frame, in the format described in docs/links.md."""
    inner = msgpack.packb([kind, origin, 0, payload])
    return 8 * len(
        msgpack.packb([kind, sender, 0, msgpack.ExtType(15, msgpack.packb([destination, hops, False]) + inner)])
    )


@every(("hops", "mtu"), [(2, None), (5, None), (5, 16)])
def test_time_and_bits_over_several_links_are_sums(hops: int, mtu: int | None) -> None:
    """Store and forward takes h·(bits/rate + latency) for h hops; each hop's bits are charged to its sender."""
    link = Link(latency=0.25, rate=8000, mtu=mtu, header_bits=24)
    run = carried(topology.path(hops + 1), {0: [(0.0, hops, "far", 1.5)]}, link)
    frames = [bits_of("far", sender, 0, hops, hops - 1 - sender, 1.5) for sender in range(hops)]
    wire = [bits + 24 * (1 if mtu is None else math.ceil(bits / 8 / mtu)) for bits in frames]
    assert run.agents[hops].heard == [(pytest.approx(sum(wire) / 8000 + 0.25 * hops), 0, "far", 1.5)]
    table = run.ledger.table()
    assert table[["sender", "receiver"]].to_numpy().tolist() == [[i, i + 1] for i in range(hops)]
    assert table["wire_bits"].tolist() == wire
    assert table["offered"].tolist() == table["delivered"].tolist() == [1] * hops
    senders = run.ledger.senders_table()
    assert senders["transmissions"].tolist() == [1] * hops
    assert senders["payload_bits"].tolist() == [64] * hops


def test_the_destination_hears_the_sender_and_the_nodes_between_hear_nothing() -> None:
    run = carried(topology.path(4), {0: [(0.0, 3, "m", [1, {"a": 2}]), (1.0, 1, "near", None)]}, Link(latency=0.1))
    heard = [agent.heard for agent in run.agents.values()]
    assert heard == [[], [(1.1, 0, "near", None)], [], [(pytest.approx(0.3), 0, "m", [1, {"a": 2}])]]


def test_payloads_are_counted_as_if_sent_to_a_neighbour() -> None:
    coder, vector = Uniform(bits=4), np.linspace(-1, 1, 50)

    class Sender(Node):
        async def run(self) -> None:
            await self.send(2, "v", coder.encode(vector), raw_data=True)

    agents: dict[int, Agent] = {0: Sender(), 1: Node(), 2: Node()}
    run = Network(topology.path(3), routing="shortest").run(agents)
    rows = run.ledger.senders_table()
    near = Network(topology.path(2)).run({0: _To(1, coder.encode(vector)), 1: Node()}).ledger.senders_table()
    assert rows["payload_bits"].tolist() == [near["payload_bits"][0]] * 2
    assert rows["raw_data_bits"].tolist() == rows["payload_bits"].tolist()
    assert np.array_equal(agents[2].heard[0][3].values, coder.encode(vector).values)  # type: ignore[attr-defined]


class _To(Node):
    def __init__(self, to: int, payload: Any) -> None:
        super().__init__([(0.0, to, "v", payload)])


def test_requests_and_replies_travel_over_several_links() -> None:
    class Asks(Agent):
        async def run(self) -> None:
            self.reply_ = (await self.request(3, "sum", [1, 2, 3], timeout=5.0)).payload, self.now
            with pytest.raises(TimeoutError):
                await self.request(2, "sum", [1], timeout=0.3)

    class Answers(Node):
        def answer(self, frame: netsim.Frame) -> Any:
            return sum(frame.payload) + frame.sender

    class Late(Node):
        async def run(self) -> None:
            frame = await self.inbox.get()
            await asyncio.sleep(1.0)
            await self.reply(frame, "late")
            await asyncio.sleep(5.0)

    asks = Asks()
    agents: dict[int, Agent] = {0: asks, 1: Node(), 2: Late(), 3: Answers()}
    run = Network(topology.path(4), Link(latency=0.125), routing="shortest").run(agents)
    assert asks.reply_ == (6, 0.75)
    assert counts(run, sender=1, receiver=0)["late"] == 1


def test_late_is_judged_by_the_agent_for_which_the_message_is() -> None:
    """A server outside rounds receives frames that are late for agents in rounds, even if forwarders are in rounds."""

    class InRounds(Agent):
        def __init__(self) -> None:
            self.heard: list[Any] = []

        async def run(self) -> None:
            async for k in self.rounds(3):
                if self.name == 0:
                    await self.send("server", "x", k)
                    await self.send(2, "x", k)
                self.heard += [(k, frame.round, frame.payload) for frame in await self.collect()]

    graph = nx.Graph([(0, 1), (1, 2), (2, "server")])
    agents: dict[Any, Any] = {0: InRounds(), 1: InRounds(), 2: InRounds(), "server": Node()}
    run = Network(graph, Link(latency=0.6), routing="shortest").run(agents)
    assert [payload for _, _, _, payload in agents["server"].heard] == [1, 2, 3]
    assert agents[2].heard == []
    assert counts(run, sender=1, receiver=2) == {"delivered": 3, "late": 3}
    fast: dict[Any, Any] = {0: InRounds(), 1: InRounds(), 2: InRounds(), "server": Node()}
    Network(graph, Link(latency=0.3), routing="shortest").run(fast)
    assert fast[2].heard == [(k, k, k) for k in (1, 2, 3)]


# --- what may happen on the way ---------------------------------------------------------------------------------------


def test_a_forwarder_that_is_down_or_cut_off_ends_the_way_on_that_link() -> None:
    plan = {0: [(float(t), 3, "m", t) for t in range(4)]}
    faults = [Crash(2, at=0.5, until=1.9), LinkDown(1, 2, at=2.5, until=3.5)]
    run = carried(topology.path(4), plan, Link(latency=0.1), faults=faults)
    assert [payload for *_, payload in run.agents[3].heard] == [0, 2]
    assert counts(run, sender=0) == {"delivered": 4}
    assert counts(run, sender=1) == {"delivered": 2, "receiver_down": 1, "link_down": 1}
    assert counts(run, sender=2) == {"delivered": 2}


def test_a_node_forwards_after_its_agent_has_ended_and_whatever_it_waits_for() -> None:
    class Ended(Agent):
        async def run(self) -> None:
            return

    class Waits(Node):
        async def run(self) -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(self.inbox.get(), 50.0)
            assert len(self.inbox) == 0

    agents: dict[int, Any] = {0: Node([(1.0, 3, "m", 1)]), 1: Ended(), 2: Waits(), 3: Node()}
    Network(topology.path(4), Link(latency=0.1), routing="shortest", inbox_limit=1).run(agents)
    assert [payload for *_, payload in agents[3].heard] == [1]


def test_a_message_crosses_no_more_links_than_the_limit() -> None:
    run = carried(topology.path(6), {0: [(0.0, 3, "m", 1), (0.0, 4, "m", 2)]}, hop_limit=3)
    assert run.agents[3].heard == [(0.0, 0, "m", 1)]
    assert run.agents[4].heard == []
    assert counts(run, sender=2, receiver=3) == {"delivered": 1, "hop_limit": 1}
    # A message that circles in a routing loop also ends at the limit.
    around = {0: {3: 1}, 1: {3: 2}, 2: {3: 0}}
    graph = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)])
    graph.remove_edge(2, 3)
    graph.add_edges_from([(0, 4), (4, 3)])
    run = carried(graph, {1: [(0.0, 3, "m", 1)]}, routing=around, hop_limit=7)
    assert counts(run) == {"delivered": 6, "hop_limit": 1}
    assert Network(graph, routing=around, hop_limit=7).route(1, 3) == []


def test_each_link_acknowledges_for_itself() -> None:
    """Over lossy links with acknowledgements, every message arrives exactly once, over any number of hops."""
    plan: Plan = [(0.5 * t, 4, "m", t) for t in range(60)]
    for way in ("ack", "nack"):
        link = Link(latency=0.01, loss=0.3, reliability=way)
        run = carried(topology.path(5), {0: plan}, link)
        heard = [payload for *_, payload in run.agents[4].heard]
        # With "nack", nobody notices the loss of the last messages before the sender falls silent.
        least = list(range(60 if way == "ack" else 50))
        assert sorted(heard)[: len(least)] == least
        assert len(heard) == len(set(heard))
        kinds = set(run.ledger.table(["kind"])["kind"])
        assert kinds == {"m", way, "resent"}


def test_a_damaged_message_goes_no_further_where_it_cannot_be_read() -> None:
    plan: Plan = [(0.1 * t, 3, "m", "payload") for t in range(300)]
    run = carried(topology.path(4), {0: plan}, Link(latency=0.01, corrupt=0.5, crc=False))
    ends = counts(run)
    assert ends["corrupted"] > 50
    whole = [each for each in run.agents[3].heard if each[1:] == (0, "m", "payload")]
    assert len(whole) > 20


def test_motes_parts_send_over_several_links() -> None:
    class Sends(netsim.Part):
        async def run(self) -> None:
            await self.send(2, "reading", 21.5)

    class Sinks(netsim.Part):
        kinds = ("reading",)

        async def run(self) -> None:
            self.frame = await self.inbox.get()

    class Sleeps(netsim.Part):
        async def run(self) -> None:
            await asyncio.sleep(9)

    sink = Sinks()
    motes = {0: netsim.Mote(app=Sends()), 1: netsim.Mote(app=Sleeps()), 2: netsim.Mote(app=sink)}
    Network(topology.path(3), Link(latency=0.1), routing="shortest").run(motes)
    assert (sink.frame.sender, sink.frame.kind, sink.frame.payload) == (0, "reading", 21.5)


# --- to everyone ------------------------------------------------------------------------------------------------------


@every("seed", [1, 2, 3])
def test_a_broadcast_to_everyone_crosses_each_link_of_a_tree_once(seed: int) -> None:
    """There are n − 1 link messages; each node receives the broadcast once, after its distance times the latency."""
    graph = topology.erdos_renyi(25, p=0.12, seed=seed)
    run = carried(graph, {7: [(0.0, ALL, "model", 1.0)]}, Link(latency=0.5))
    distances = nx.single_source_shortest_path_length(graph, 7)
    for name, agent in run.agents.items():
        assert agent.heard == ([] if name == 7 else [(0.5 * distances[name], 7, "model", 1.0)])
    assert counts(run) == {"delivered": 24}
    limited = carried(graph, {7: [(0.0, ALL, "model", 1.0)]}, Link(latency=0.5), hop_limit=2)
    assert {name for name, agent in limited.agents.items() if agent.heard} == {
        n for n in graph if 1 <= distances[n] <= 2
    }


def test_a_broadcast_follows_the_routes_back() -> None:
    graph = topology.ring(6)
    for a, b in graph.edges:
        graph.edges[a, b]["cost"] = 10.0 if (a, b) == (0, 5) else 1.0
    run = carried(graph, {0: [(0.0, ALL, "m", 1)]}, Link(latency=1.0), routing="cost")
    assert [agent.heard[0][0] for agent in list(run.agents.values())[1:]] == [1.0, 2.0, 3.0, 4.0, 5.0]


# --- laws -------------------------------------------------------------------------------------------------------------


def test_messages_are_conserved_and_both_cores_agree() -> None:
    here = check_seeds(range(5))
    code = "from tests.fuzzers.routing import check_seeds; print(*check_seeds(range(5)), sep='\\n')"
    assert on_the_other_core(code).splitlines() == here


@pytest.mark.slow
def test_many_networks_conserve_messages() -> None:
    check_seeds(range(100, 180))


def test_routing_changes_nothing_for_neighbours_and_workers_change_nothing() -> None:
    graph = topology.erdos_renyi(12, p=0.25, seed=4)
    rng = np.random.default_rng(0)
    near = {n: [(float(rng.random()), next(iter(graph[n])), "k", k) for k in range(5)] for n in graph}
    near = {n: sorted(plan, key=lambda each: each[0]) for n, plan in near.items()}
    link = Link(latency=latency.uniform(0.01, 0.2), loss=0.1, rate=1e4)
    plain = Network(graph, link).run(nodes(graph, near))
    assert Network(graph, link, routing="shortest").run(nodes(graph, near)).trace_hash == plain.trace_hash
    far = {n: [(time, (n + k) % 12, "k", k) for k, (time, *_) in enumerate(plan, 1)] for n, plan in near.items()}
    far[3].append((2.0, ALL, "all", "x"))
    runs = [Network(graph, link, routing="shortest").run(nodes(graph, far), workers=w) for w in (1, 2)]
    assert runs[0].trace_hash == runs[1].trace_hash
    assert runs[0].ledger.table().equals(runs[1].ledger.table())
    assert [a.heard for a in runs[0].agents.values()] == [a.heard for a in runs[1].agents.values()]


# --- refused ----------------------------------------------------------------------------------------------------------


def test_without_routing_the_refusal_says_what_would_carry_the_message() -> None:
    run = lambda to, **more: Network(topology.path(3), **more).run(nodes(topology.path(3), {0: [(0.0, to, "m", 1)]}))  # noqa: E731
    line = "agent 0 cannot send to 2: its neighbours are 1; Network(…, routing='shortest') would carry it"
    assert line in message_of(lambda: run(2))
    assert message_of(lambda: run(9)).endswith("agent 0 cannot send to 9: its neighbours are 1")
    assert "agent 0 cannot send to 9: no route leads there" in message_of(lambda: run(9, routing="shortest"))
    assert "agent 0 cannot send to 0: no route leads there" in message_of(lambda: run(0, routing="shortest"))
    assert "everyone=True) needs Network(…, routing='shortest')" in message_of(lambda: run(ALL))


def test_no_frame_is_taken_or_passed_on_before_it_arrives() -> None:
    class Takes(Node):
        async def run(self) -> None:
            await asyncio.sleep(0.5)
            self.early = self.inbox.take(self.now)
            with pytest.raises(netsim.AgentError, match="cannot take frames before they arrive with routing"):
                self.inbox.take(9.0)
            await asyncio.sleep(9.0)

    agents: dict[int, Any] = {0: Node([(0.0, 2, "m", 1)]), 1: Takes(), 2: Node()}
    Network(topology.path(3), Link(latency=1.0), routing="shortest").run(agents)
    assert (agents[1].early, agents[2].heard) == ([], [(2.0, 0, "m", 1)])


@every("routing", [None, "shortest"])
def test_a_name_that_no_node_can_have_is_refused(routing: Any) -> None:
    async def sends(agent: Actor) -> None:
        for name in ([1], {}, (2, [])):
            for say in (agent.send, agent.request):
                with pytest.raises(netsim.AgentError, match=r"agent 0 cannot send to .*: must be the name of one node"):
                    await say(name, "m")  # type: ignore[arg-type]

    Network(topology.path(2), routing=routing).run({0: Actor(sends), 1: Listener()})


def test_a_request_names_the_hop_limit_that_no_reply_can_keep() -> None:
    async def asks(agent: Actor) -> None:
        with pytest.raises(netsim.AgentError, match="cannot request from 2: no route leads back within the hop limit"):
            await agent.request(2, "m")

    agents = {0: Actor(asks), 1: Listener(), 2: Listener()}
    Network(topology.path(3), routing="shortest", hop_limit=1).run(agents)


def test_what_cannot_be_routed_is_refused_in_one_line() -> None:
    path, ring = topology.path(3), topology.directed_ring(4)
    parts = nx.Graph([(0, 1), (2, 3)])
    wrong: list[tuple[Any, str]] = [
        (lambda: Network(path, routing=3), "routing = 3: must be 'shortest', the name of an edge attribute, or"),  # type: ignore[arg-type]
        (lambda: Network(path, routing="cost"), "'cost' of edge (0, 1) is missing"),
        (lambda: Network(nx.path_graph(2), hop_limit=3), "hop_limit = 3: must be left out without routing"),
        (lambda: Network(path, routing="shortest", hop_limit=0), "hop_limit = 0: must be a whole number from 1"),
        (lambda: Network(path, routing="shortest", hop_limit=2**64), "must be a whole number from 1 to 4294967295"),
        (lambda: Network(path, routing={9: {}}), "routing: must have nodes of the graph as keys; 9 is none"),
        (lambda: Network(path, routing={0: {0: 1}}), "routing[0] = 0: must be keyed by other nodes of the graph"),
        (lambda: Network(path, routing={0: {2: 2}}), "routing[0][2] = 2: must be a node to which that one has a link"),
        (lambda: Network(topology.path(4), routing={0: {3: 1}}), "routing[0][3] = 1: must know the way on"),
        (
            lambda: Network(path, Link(rate=1e5), medium=Radio(), routing="shortest"),
            "must be left out on a netsim.Radio",
        ),
        (lambda: Network(path).route(0, 2), "route: must go with Network(…, routing=…)"),
        (lambda: Network(path, routing="shortest").route(0, 7), "receiver = 7: must be a node of the graph"),
        (
            lambda: carried(path, {}).ledger and Network(path, routing="shortest").run(nodes(path, {}), workers=2),
            "routing over links",
        ),
        (
            lambda: Network(path, routing="shortest").run(
                nodes(path, {}), transport=UDP("127.0.0.1:9", {"127.0.0.1:8": [2]})
            ),
            "routing: must be left out for agents in several processes",
        ),
    ]
    for make, line in wrong:
        with pytest.raises(BadInput) as found:
            make()
        assert line in str(found.value)
    costs = nx.path_graph(3)
    nx.set_edge_attributes(costs, -1.0, "cost")
    with pytest.raises(BadInput, match=r"'cost' of edge \(0, 1\) = -1.0"):
        Network(costs, routing="cost")
    one_way = message_of(lambda: carried(ring, {0: [(0.0, ALL, "m", 1)]}))
    assert "must go with a graph with links in both directions" in one_way
    apart = message_of(lambda: carried(parts, {0: [(0.0, ALL, "m", 1)]}, connected=False))
    assert "cannot broadcast to everyone: no route leads back from 2" in apart
    assert "cannot send to 2: no route" in message_of(lambda: carried(parts, {0: [(0.0, 2, "m", 1)]}, connected=False))


def test_hostile_bytes_carry_no_message() -> None:
    good = Routed(3, 2, True, b"\x00\xff")
    assert decode(encode(good)) == good
    assert Routed.unpack(Routed(EVERYONE, 0, False, b"").pack()) == Routed(EVERYONE, 0, False, b"")
    for fields in ([1, 2], [1, 2, 3], [-2, 0, True], [1, -1, True], [True, 1, True], [1.0, 1, True], "x", None):
        with pytest.raises(netsim.WireError):
            decode(msgpack.packb(msgpack.ExtType(15, msgpack.packb(fields))))
    for data in (b"", b"\xdd\xff\xff\xff\xff", b"\xc1"):
        with pytest.raises(netsim.WireError):
            decode(msgpack.packb(msgpack.ExtType(15, data)))
