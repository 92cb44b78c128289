"""TSCH: all channels are used equally, clocks stay within the guard time, and an idle node sleeps."""

import asyncio
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import Network, Run, presets
from netsim.agents import TSCH
from netsim.agents.protocols.mac import ALL
from netsim.agents.protocols.tsch import HOPPING
from netsim.faults import ClockSkew, Crash
from netsim.testing import Actor

PRESET = presets.ieee802154()
RADIO = replace(PRESET.medium, access="aloha", max_frame_retries=0)


class Mote(TSCH):
    """Posts messages to a neighbour at random intervals of mean ``apart`` (s), once the network has formed."""

    def __init__(self, to: Hashable = None, posts: int = 0, apart: float = 10.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.to, self.posts, self.apart = to, posts, apart
        self.took: list[tuple[Hashable, int]] = []
        self.done: list[bool] = []
        self.used: list[int] = []

    async def work(self) -> None:
        await asyncio.sleep(300)
        for k in range(self.posts):
            await asyncio.sleep(self.rng.exponential(self.apart))
            self.done.append(await self.post(self.to, k))

    def take(self, sender: Hashable, value: Any) -> None:
        self.took.append((sender, value))
        self.used.append(self.radio.channel)


def play(graph: Any, agents: dict[int, netsim.Agent], until: float, faults: Any = (), powers: Any = None) -> Run:
    medium = replace(RADIO, powers=powers)
    return Network(graph, PRESET.link, medium=medium, faults=list(faults), seed=3).run(agents, until=until)


def line(nodes: int, posts: int = 0, beacons: float = 2.0, **kwargs: Any) -> dict[int, netsim.Agent]:
    return {k: Mote(k - 1, posts if k else 0, is_root=k == 0, beacons=beacons, **kwargs) for k in range(nodes)}


@pytest.mark.slow
def test_a_line_joins_and_delivers_in_spite_of_its_clocks() -> None:
    """Neighbours that differ by 40 ppm drift by half the guard, 1.1 ms, in 27 s; beacons every 5 s prevent that."""
    rng = np.random.default_rng(1)
    clocks = [ClockSkew(k, offset=rng.uniform(-3, 3), drift=(-1) ** k * 20e-6) for k in range(5)]
    run = play(nx.path_graph(5), line(5, 30, beacons=5.0, slotframe=25), 1500.0, clocks)
    assert [agent.hops for agent in run.agents.values()] == [0, 1, 2, 3, 4]
    for node in range(1, 5):
        assert all(run.agents[node].done)
        assert run.agents[node - 1].took == [(node, k) for k in range(30)]


def test_without_beacons_in_time_clocks_leave_the_guard() -> None:
    """At 200 ppm clocks drift by half the guard in 5.5 s, so with beacons every 100 s most messages are lost."""
    clocks = [ClockSkew(1, drift=200e-6)]
    run = play(nx.path_graph(2), line(2, 30, beacons=100.0, retries=0), 1500.0, clocks)
    assert sum(run.agents[1].done) < 15


def test_all_channels_have_their_turn() -> None:
    """The slotframe's 101 slots and the 16 channels are coprime, so successive messages use all channels equally."""
    run = play(nx.path_graph(2), line(2, 320, apart=1e-3), 1500.0)
    used = Counter(run.agents[0].used)
    assert set(used) == set(HOPPING)
    # 320 messages on 16 channels are 20 per channel on average; a beacon delays some of them.
    assert all(10 <= count <= 30 for count in used.values())


class Jammer(netsim.Agent):
    """Transmits continuously on one channel."""

    async def run(self) -> None:
        await asyncio.sleep(290)
        self.radio.channel = 5
        while True:
            await self.broadcast("noise", bytes(90))
            await asyncio.sleep(4.1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("hopping", "left"), [(HOPPING, 15 / 16), ((5,), 0.0)])
def test_a_jammed_channel_costs_its_share_only(hopping: tuple[int, ...], left: float) -> None:
    """With 16 channels 1/16 of the messages are lost; on the jammed channel alone, no message is delivered."""
    powers = {(a, b): -50.0 if a == 2 else -70.0 for a in range(3) for b in range(3) if a != b}
    done = []
    for jammer in (Actor(), Jammer()):
        agents = line(2, 160, apart=1e-3, hopping=hopping, retries=0, slotframe=25, beacons=5.0)
        run = play(nx.complete_graph(3), {**agents, 2: jammer}, 800.0, powers=powers)
        done.append(sum(run.agents[1].done))
    # Some messages collide with a beacon of the root, with or without the jammer.
    assert done[0] > 140
    assert done[1] == pytest.approx(left * done[0], abs=6)


def test_an_idle_node_listens_for_the_guard_time_only() -> None:
    run = play(nx.path_graph(2), line(2, beacons=1e6), 500.0)
    root = run.energy.iloc[0]
    assert root["listen_s"] / 500.0 == pytest.approx(2.2e-3 / (101 * 10e-3), rel=0.01)


def test_a_shared_cell_is_shared_by_back_off() -> None:
    """Four nodes send in the same cell; after collisions the back-off lets nearly all messages through."""
    agents: dict[int, netsim.Agent] = {
        k: Mote(0, 20 if k else 0, apart=1e-3, is_root=k == 0, hopping=range(3), beacons=20.0) for k in range(5)
    }
    run = play(nx.complete_graph(5), agents, 700.0)
    assert all(sum(run.agents[k].done) >= 17 for k in range(1, 5))
    assert run.airtime["no_ack"].sum() > 20


class Announcer(TSCH):
    def __init__(self, is_root: bool) -> None:
        super().__init__(is_root, slotframe=25, hopping=range(3))
        self.took: list[Any] = []

    async def work(self) -> None:
        await asyncio.sleep(100)
        for k in range(20 if self.is_root else 0):
            await asyncio.sleep(1)
            assert await self.announce(k)

    def take(self, sender: Hashable, value: Any) -> None:
        self.took.append(value)


def test_a_message_to_all_is_sent_once_in_a_shared_cell() -> None:
    """A few broadcasts may be lost, because a node's own beacon occupies about one in fifty cells."""
    agents = {k: Announcer(k == 0) for k in range(3)}
    run = Network(nx.complete_graph(3), PRESET.link, medium=RADIO, seed=3).run(agents, until=150.0)
    for node in (1, 2):
        took = run.agents[node].took  # type: ignore[attr-defined]
        assert len(took) >= 17
        assert took == sorted(set(took))
        assert run.agents[node].joins == 1  # type: ignore[attr-defined]
        assert 0 < run.agents[node].joined_at < 100  # type: ignore[attr-defined]
    assert run.ledger.table(["kind"]).set_index("kind")["offered"][ALL] == 40


@pytest.mark.parametrize(
    ("hopping", "message"),
    [
        ((), r"hopping = \(\): must be a sequence of channels, one or more"),
        (5, "hopping = 5: must be a sequence of channels, one or more"),
        ([5, 1001], "hopping = 1001: must be a whole number from 0 to 1000"),
    ],
)
def test_channels_that_are_none(hopping: Any, message: str) -> None:
    with pytest.raises(netsim.BadInput, match=message):
        TSCH(hopping=hopping)


def test_who_posts_may_stop_waiting_and_is_told_at_once_of_a_stranger() -> None:
    class Posts(TSCH):
        async def work(self) -> None:
            with pytest.raises(netsim.AgentError, match="agent 1 cannot send to 5: its neighbours are 0"):
                await self.post(5, "stranger")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(self.post(0, "impatient"), 1e-6)
            self.done = await self.post(0, "patient")

    class Takes(TSCH):
        def take(self, sender: Hashable, value: Any) -> None:
            self.took = [*getattr(self, "took", []), value]

    root, node = Takes(is_root=True, hopping=[0]), Posts(hopping=[0])
    play(nx.path_graph(2), {0: root, 1: node}, 100.0)
    assert node.done
    assert root.took == ["impatient", "patient"]


def test_a_network_follows_its_root_when_that_returns_with_another_time() -> None:
    """Without a check, two nodes could take each other as time source and never rejoin the root."""

    class Talks(Mote):
        async def work(self) -> None:
            while True:
                await asyncio.sleep(self.rng.uniform(1, 2))
                # An acknowledgement from the time source also corrects the clock.
                await self.post(self.to, 0)

    agents: dict[int, netsim.Agent] = {
        k: Talks(1 if k != 1 else 2, is_root=k == 0, beacons=2.0, slotframe=7, hopping=(0, 1, 2)) for k in range(3)
    }
    play(nx.path_graph(3), agents, 200.0, [Crash(0, at=40.0, until=80.0)])
    assert [agent.hops for agent in agents.values()] == [0, 1, 2]
    zeros = [agent._zero for agent in agents.values()]
    assert max(zeros) - min(zeros) < 1e-3


def test_beacons_must_be_no_more_frequent_than_the_cells_that_take_them() -> None:
    """A slotframe has one cell for beacons: with a shorter period a node would expect beacons that cannot come."""
    with pytest.raises(netsim.BadInput, match=r"^beacons = 0\.01: must be a number >= 0\.07$"):
        TSCH(slotframe=7, beacons=0.01)


def test_a_node_that_joins_again_takes_what_it_acknowledges() -> None:
    class Posts(Mote):
        async def work(self) -> None:
            for k in range(self.posts):
                await asyncio.sleep(0.1)
                self.done.append(bool(await self.post(1, k)))

    agents = {
        k: Posts(posts=400 if k == 2 else 0, is_root=k == 0, beacons=3.0, slotframe=7, hopping=(0, 1, 2))
        for k in range(3)
    }
    play(nx.path_graph(3), dict(agents), 100.0, [Crash(0, at=20.0)])
    acknowledged = {k for k, done in enumerate(agents[2].done) if done}
    assert acknowledged - {k for _, k in agents[1].took} == set()
    assert agents[1].joins > 1
