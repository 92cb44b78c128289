"""Agents of one network in several processes (docs/sockets.md): as in a simulation, and honest where it is not."""

import asyncio
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import (
    UDP,
    Agent,
    AgentError,
    BadInput,
    Link,
    NetsimError,
    Network,
    Radio,
    Reliability,
    Run,
    Stalled,
    gather,
    latency,
    loss,
    new_loop,
    topology,
)
from netsim.sockets import job, pacing
from netsim.sockets.pacing import PacedSelector
from netsim.transport.clock import Loop
from netsim.transport.instants import PATIENCE, WallSelector
from tests.parts import Average, Made, addresses, deployed, in_parts, spread

HARD = Link(
    latency=latency.uniform(5e-3, 40e-3),
    loss=loss.gilbert_elliott(mean=0.1, burst=3),
    rate=1e6,
    queue=8,
    mtu=64,
    header_bits=8 * 28,
    duplicate=0.1,
    corrupt=0.1,
)
# Half a second of real time a round: what shares the machine must not make a frame late.
PACE = 0.4


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads begin at once: they need no second to get ready."""
    monkeypatch.setattr(job, "_MARGIN", 0.4)


def network(link: Link | None = None, **settings: Any) -> Made:
    graph = topology.random_geometric(12, radius=0.6, seed=1)
    made = Network(graph, link or Link(), round_period=0.1, seed=7, **settings)
    return made, {node: Average(float(node)) for node in graph}


def must_be_the_same(simulated: Run, run: Run) -> None:
    columns = list(simulated.rounds.columns)
    assert run.rounds[columns].equals(simulated.rounds)
    assert (run.rounds["missing"] == 0).all()
    assert run.trace_hash == simulated.trace_hash
    assert run.trace.hash == run.trace_hash
    by = ["sender", "receiver", "kind"]
    ours, theirs = (each.ledger.table().set_index(by).sort_index() for each in (run, simulated))
    assert (ours.pop("missing") == 0).all()
    assert ours.equals(theirs)
    assert run.ledger.senders_table().equals(simulated.ledger.senders_table())
    assert run.ended_at == simulated.ended_at


def conserved(run: Run) -> None:
    table = run.ledger.table()
    ends = table[[*run.ledger.causes, "in_flight"]].sum(axis=1)
    assert (table["offered"] + table["duplicated"] == ends).all()
    assert (ends >= 0).all()


SETTINGS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "hard": {"link": HARD},
    "radio": {"link": Link(loss=0.1, rate=1e6, latency=1e-3), "medium": "radio"},
    # What answers a frame is sent when that arrives by the link's model, if it really came before.
    "acknowledged": {"link": Link(loss=0.2, latency=0.03, reliability="ack")},
    "asked for": {"link": Link(loss=0.2, latency=0.03, reliability=Reliability("nack"))},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_the_simulation_to_the_last_bit(name: str, tmp_path: Path) -> None:
    # An answer must really be there when by its link's model it arrives: that takes slower links.
    rounds, pace = (3, PACE / 8) if name in ("acknowledged", "asked for") else (12, PACE)

    def make() -> Made:
        made, agents = network(**SETTINGS[name])
        for agent in agents.values():
            agent.count = rounds  # type: ignore[attr-defined]
        return made, agents

    simulation, agents = make()
    simulated = simulation.run(agents, [spread], trace=True)
    run, found = deployed(make, tmp_path, [spread], pace=pace)
    must_be_the_same(simulated, run)
    for node, agent in agents.items():
        assert np.array_equal(found[node].value, agent.value)


class Staggered(Agent):
    """Ends when its turn comes, some long before the others."""

    def __init__(self, rounds: int) -> None:
        self.count = rounds
        self.heard = 0

    async def run(self) -> None:
        async for _ in self.rounds(self.count):
            await self.broadcast("word", self.name)
            self.heard += len(await self.collect())


def test_agents_that_end_early_still_hear_as_in_the_simulation(tmp_path: Path) -> None:
    def make() -> Made:
        graph = nx.complete_graph(6)
        return Network(graph, Link(latency=0.13), round_period=0.1, seed=2), {i: Staggered(2 + i) for i in graph}

    made, agents = make()
    simulated = made.run(agents, trace=True)
    run, found = deployed(make, tmp_path, pace=PACE)
    must_be_the_same(simulated, run)
    assert [agent.heard for agent in found.values()] == [agent.heard for agent in agents.values()]  # type: ignore[attr-defined]


def test_rows_at_a_fixed_interval_are_put_together_too(tmp_path: Path) -> None:
    places = addresses(2)
    made, agents = network()
    simulated = made.run(agents, [spread], sample=0.25, trace=True)
    shares = [list(range(5)), list(range(5, 12))]
    errors = []

    def part(me: int) -> None:
        made, agents = network()
        transport = UDP(places[me], {places[1 - me]: shares[1 - me]}, folder=tmp_path, pace=PACE / 2)
        try:
            made.run(agents, [spread], sample=0.25, transport=transport)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=part, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    made, agents = network()
    must_be_the_same(simulated, gather(made, agents, tmp_path, [spread], trace=True))


class Asker(Agent):
    """Asks its neighbours for numbers, and sends one a word that it waits for."""

    def __init__(self) -> None:
        self.got: list[float] = []

    def answer(self, frame: Any) -> float:
        return float(frame.payload) * 2

    async def run(self) -> None:
        for other in self.neighbors:
            reply = await self.request(other, "twice", self.name, timeout=20)
            self.got.append(reply.payload)
        await self.send(self.neighbors[0], "word", "done")
        await self.inbox.get()


def test_requests_replies_and_words_cross(tmp_path: Path) -> None:
    def make() -> Made:
        graph = nx.cycle_graph(4)
        return Network(graph, Link(latency=0.01), round_period=1.0), {i: Asker() for i in graph}

    # Agent 0's first neighbour is 1, and so on around: each gets one word but 3, to whom nobody sends.
    outcome = in_parts(make, tmp_path, pace=1.0, patience=1.5)
    raised = [each for each in outcome.values() if isinstance(each, BaseException)]
    assert len(raised) == 1
    assert isinstance(raised[0], Stalled)
    assert "nothing came for 1.5 real seconds; agent 3 waits for a frame in its inbox (test_sockets.py" in str(
        raised[0]
    )
    made, agents = make()
    run = gather(made, agents, tmp_path)
    conserved(run)
    assert [agent.got for agent in agents.values()] == [[0, 0], [2, 2], [4, 4], [6, 6]]  # type: ignore[attr-defined]


# --- what is not as in a simulation -----------------------------------------------------------------------------------


def test_rounds_too_short_for_the_machine_are_late_and_nothing_hangs(tmp_path: Path) -> None:
    def make() -> Made:
        made, agents = network()
        return made, {node: Average(float(node), rounds=200) for node in agents}

    outcome = in_parts(make, tmp_path, pace=100.0)
    assert not [each for each in outcome.values() if isinstance(each, BaseException)]
    made, agents = make()
    run = gather(made, agents, tmp_path)
    conserved(run)
    assert run.ledger.table()["late"].sum() > 0


def test_a_part_alone_counts_what_it_saw() -> None:
    outcome = in_parts(lambda: network(), None, probes=[lambda agents: len(agents)], pace=PACE)
    for run in outcome.values():
        assert isinstance(run, Run)
        assert len(run.agents) == 3
        assert (run.rounds["<lambda>"] == 3).all()
        table = run.ledger.table()
        here = table["sender"].isin(run.agents)
        assert (table[here]["offered"] == 12).all()
        assert (table[table["receiver"].isin(run.agents)]["delivered"] == 12).all()


class Ready(Agent):
    """Is ready only once it runs; one of them never is."""

    async def run(self) -> None:
        if self.name == 0:
            raise ValueError("not today")
        self.value = np.ones(3)
        async for _ in self.rounds(4):
            await self.broadcast("state", self.value)
            await self.collect()


def ready(agents: Any) -> float:
    return float(sum(agent.value.sum() for agent in agents.values()))


def test_agents_of_a_process_that_came_to_nothing_are_not_measured(tmp_path: Path) -> None:
    def make() -> Made:
        graph = nx.complete_graph(4)
        return Network(graph, round_period=0.1), {i: Ready() for i in graph}

    outcome = in_parts(make, tmp_path, parts=2, probes=[ready], pace=PACE, silence=1.0)
    assert sum(isinstance(each, AgentError) for each in outcome.values()) == 1
    made, agents = make()
    run = gather(made, agents, tmp_path, [ready])
    conserved(run)
    assert len(run.rounds) == 4
    assert "ready" not in run.rounds or run.rounds["ready"].isna().all()


# --- what must not be -------------------------------------------------------------------------------------------------


def two(folder: Path | None = None, **settings: Any) -> list[Any]:
    """Return what two parts came to, whose settings may differ: pairs of values."""
    places = addresses(2)
    outcome: list[Any] = [None, None]

    def part(me: int) -> None:
        mine = {name: value[me] if isinstance(value, tuple) else value for name, value in settings.items()}
        made, agents = mine.pop("make", network)()
        nodes = list(made.graph)
        transport = UDP(places[me], {places[1 - me]: nodes[1 - me :: 2]}, folder=folder, pace=PACE, **mine)
        try:
            outcome[me] = made.run(agents, transport=transport)
        except BaseException as error:
            outcome[me] = error
        finally:
            transport.seen = transport.membership  # type: ignore[attr-defined]

    threads = [threading.Thread(target=part, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


def test_who_has_another_key_is_a_stranger() -> None:
    first, second = two(key=(b"k" * 16, b"l" * 16), patience=1.0)
    for each in (first, second):
        assert isinstance(each, NetsimError)
        assert "nothing was heard of '127.0.0.1:" in str(each)
        assert "in 1 real seconds" in str(each)


def test_who_runs_something_else_is_refused() -> None:
    other = lambda: network(Link(loss=0.1))  # noqa: E731
    outcome = two(make=(network, other), patience=5.0)
    assert any("runs something else: graph, links, seed, agents and their places" in str(each) for each in outcome)


class Shouter(Agent):
    async def run(self) -> None:
        async for _ in self.rounds(2):
            await self.broadcast("much", np.zeros(9000))
            await self.collect()


def test_a_frame_too_large_for_a_datagram_is_refused_by_name() -> None:
    def make() -> Made:
        graph = nx.path_graph(2)
        return Network(graph, round_period=0.1), {i: Shouter() for i in graph}

    for each in two(make=make, silence=1.0):
        assert isinstance(each, AgentError)
        assert "a frame 'much' of 72," in str(each)
        assert "is too large for UDP: at most 65,307" in str(each)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"here": "0.0.0.0:9000"}, "must be a loopback address, or come with a key"),
        ({"here": "nowhere"}, "here = 'nowhere': must be an address as 127.0.0.1:9000"),
        ({"here": "127.0.0.1:0"}, "must be an address"),
        ({"here": "127.0.0.1:9001"}, "must be the other processes, not this one too"),
        ({"peers": {}}, "peers = {}: must be a mapping"),
        ({"peers": {"127.0.0.1:9001": "ab"}}, "must be a list of agents' names"),
        ({"key": b"short"}, "key: must be at least 16 bytes"),
        ({"pace": 0}, "pace = 0: must be a number > 0"),
        ({"patience": float("nan")}, "patience = nan"),
        ({"silence": -1}, "silence = -1"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], says: str) -> None:
    arguments: dict[str, Any] = {"here": "127.0.0.1:9000", "peers": {"127.0.0.1:9001": [0]}} | change
    with pytest.raises(BadInput, match=re.escape(says)) as found:
        UDP(**arguments)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("peers", "says"),
    [
        ({"127.0.0.1:9001": [99]}, "99 is none"),
        ({"127.0.0.1:9001": [1], "127.0.0.1:9002": [1]}, "1 is in two"),
        ({"127.0.0.1:9001": list(range(12))}, "must leave an agent to run here"),
    ],
)
def test_agents_have_one_place_each(peers: dict[str, list[int]], says: str) -> None:
    made, agents = network()
    with pytest.raises(BadInput, match="peers") as found:
        made.run(agents, transport=UDP("127.0.0.1:9000", peers))
    assert says in str(found.value)


def test_what_cannot_be_taken_apart_is_refused() -> None:
    transport = UDP("127.0.0.1:9000", {"127.0.0.1:9001": [1]})
    shared = Network(nx.path_graph(2), Link(rate=1e6), medium=Radio())
    with pytest.raises(BadInput, match="medium: must be wires, or a radio without collisions"):
        shared.run({0: Average(1), 1: Average(2)}, transport=transport)
    made, agents = network()
    with pytest.raises(BadInput, match=r"transport = 'udp': must be a netsim.Transport"):
        made.run(agents, transport="udp")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="speed: must not go with a transport"):
        made.run(agents, transport=transport, speed=2)
    with pytest.raises(BadInput, match=r"argument of Network.run = 'sped'"):
        made.run(agents, sped=2)  # type: ignore[call-arg]


def test_an_address_that_is_taken_is_named() -> None:
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    held.bind(("127.0.0.1", 0))
    here = f"127.0.0.1:{held.getsockname()[1]}"
    made, agents = network()
    with held, pytest.raises(NetsimError, match=r"must be an address that can be had \(Address already in use\)"):
        made.run(agents, transport=UDP(here, {"127.0.0.1:9001": [1]}))


# --- time -------------------------------------------------------------------------------------------------------------


class Wall:
    """A wall's clock on which only sleep takes time, whatever the machine does meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> list[Any]:
        """Let them pass, and a little more, as on any machine; meanwhile no socket becomes ready."""
        self.seconds += seconds + 1e-9
        return []

    def paced(self, epoch: float) -> PacedSelector:
        """Return a selector that sleeps on it: ten simulated seconds in one, half a second of slack."""
        selector = PacedSelector(epoch, speed=10.0, slack=0.5)
        selector._sockets.select = self.sleep
        return selector


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    clock = Wall()
    monkeypatch.setattr(pacing, "time", clock)
    return clock


def test_an_instant_is_what_it_was_to_be_though_the_machine_comes_late(wall: Wall) -> None:
    selector = wall.paced(0.05)
    loop = Loop(selector)
    times = []

    def late() -> None:
        times.append(loop.time())
        wall.sleep(0.03)  # 0.3 s of its time

    for when in (0.0, 0.1, 2.0):
        loop.call_at(when, late)
    loop.call_at(2.1, loop.stop)
    assert loop.time() < 0
    loop.run_forever()
    loop.close()
    assert times == [0.0, 0.1, 2.0]
    assert selector.overruns == 0
    # What is due at 0.1 s, 10 ms on the wall, comes after 30 ms.
    assert selector.longest_lag == pytest.approx(0.02, rel=1e-6)


def test_a_clock_that_falls_behind_jumps(wall: Wall) -> None:
    selector = wall.paced(0.0)
    loop = Loop(selector)
    times = []
    loop.call_at(0.1, wall.sleep, 0.2)
    loop.call_at(1.0, lambda: times.append(loop.time()))
    loop.call_at(10.0, loop.stop)
    loop.run_forever()
    loop.close()
    # 0.1 s of its time, then the 2 s that it slept.
    assert times == [pytest.approx(2.1, rel=1e-6)]
    assert selector.overruns == 1


def say(to: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"word", to)


class Listener(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if not self.came.done():
            self.came.set_result(data)


def test_on_the_walls_clock_a_loop_waits_for_sockets() -> None:
    loop = new_loop("wall", 50.0)

    async def listen() -> bytes:
        transport, protocol = await loop.create_datagram_endpoint(Listener, local_addr=("127.0.0.1", 0))
        to = transport.get_extra_info("sockname")
        threading.Timer(0.5, say, (to,)).start()
        try:
            return await protocol.came
        finally:
            transport.close()
            await asyncio.sleep(0)

    try:
        assert loop.run_until_complete(listen()) == b"word"
    finally:
        loop.close()


def test_a_silence_of_open_sockets_is_a_standstill_in_the_end() -> None:
    selector = WallSelector(50.0, patience=0.3)
    loop = Loop(selector)

    async def listen() -> None:
        transport, protocol = await loop.create_datagram_endpoint(Listener, local_addr=("127.0.0.1", 0))
        try:
            await protocol.came
        finally:
            transport.close()

    begun = time.monotonic()
    with pytest.raises(Stalled, match="waits for what can never come"):
        loop.run_until_complete(listen())
    assert 0.3 < time.monotonic() - begun < PATIENCE
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
