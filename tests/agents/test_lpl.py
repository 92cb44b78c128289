"""Low-power listening: the cost of wake-ups, the length of strobe trains, and the nodes that trains wake."""

import asyncio
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import AgentError, BadInput, Network, Run, presets
from netsim.agents import LPL, TSCH, ContikiMAC, Glossy, XMac
from netsim.faults import Crash
from tests.parts import slow

PRESET = presets.ieee802154()
RADIO = replace(PRESET.medium, access="aloha", max_frame_retries=0)


def talking(kind: type[LPL]) -> type[LPL]:
    """Return a subclass that posts ``posts`` messages to node 1 at random times and records what it receives."""

    class Talks(kind):  # type: ignore[misc, valid-type]
        def __init__(self, posts: int, **kwargs: float) -> None:
            super().__init__(**kwargs)
            self.posts, self.took = posts, list[tuple[float, Hashable, Any]]()
            self.done = list[tuple[float, bool]]()

        async def work(self) -> None:
            for k in range(self.posts):
                await asyncio.sleep(self.rng.uniform(1, 3))
                began = self.now
                self.done.append((began, await self.post(1, k)))

        def take(self, sender: Hashable, value: Any) -> None:
            self.took.append((self.now, sender, value))

    return Talks


def play(kind: type[LPL], posts: dict[int, int], graph: Any = None, until: float = 160.0, loss: float = 0.0) -> Run:
    graph = nx.path_graph(2) if graph is None else graph
    agents = {node: talking(kind)(posts.get(node, 0)) for node in graph}
    return Network(graph, replace(PRESET.link, loss=loss), medium=RADIO, seed=5).run(agents, until=until)


@pytest.mark.parametrize(("kind", "awake"), [(LPL, 5e-3 / 0.5), (XMac, 5e-3 / 0.5), (ContikiMAC, 2 * 128e-6 / 0.125)])
def test_an_idle_node_is_awake_for_its_wake_ups_only(kind: type[LPL], awake: float) -> None:
    run = play(kind, {}, until=100.0)
    assert (run.energy["listen_s"] / 100.0).tolist() == pytest.approx([awake] * 2, rel=0.01)
    assert run.energy["transmit_s"].tolist() == [0, 0]


@pytest.mark.parametrize("kind", [LPL, XMac, ContikiMAC])
def test_all_messages_arrive_once_and_in_order(kind: type[LPL]) -> None:
    run = play(kind, {0: 50})
    assert [value for _, _, value in run.agents[1].took] == list(range(50))
    assert all(acknowledged for _, acknowledged in run.agents[0].done)


@pytest.mark.parametrize("kind", [LPL, XMac, ContikiMAC])
def test_messages_posted_at_the_same_time_all_arrive(kind: type[LPL]) -> None:
    class Posts(talking(kind)):  # type: ignore[misc]
        async def work(self) -> None:
            self.done = await asyncio.gather(*(self.post(1, k) for k in range(self.posts)))

    agents: dict[int, Any] = {0: Posts(4), 1: talking(kind)(0)}
    Network(nx.path_graph(2), PRESET.link, medium=RADIO, seed=5).run(agents, until=20.0)
    assert all(agents[0].done)
    assert [value for _, _, value in agents[1].took] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [LPL, XMac, ContikiMAC])
def test_messages_after_a_crash_are_new(kind: type[LPL]) -> None:
    agents: dict[int, Any] = {0: talking(kind)(5), 1: talking(kind)(0)}
    crash = Crash(0, at=30.0, until=40.0)
    Network(nx.path_graph(2), PRESET.link, medium=RADIO, seed=5, faults=[crash]).run(agents, until=80.0)
    assert [value for _, _, value in agents[1].took] == [0, 1, 2, 3, 4] * 2


@pytest.mark.parametrize("agent", [LPL(), XMac(), ContikiMAC(), TSCH(is_root=True), Glossy(is_initiator=True)])
def test_a_medium_that_chooses_when_to_send_is_refused(agent: Any) -> None:
    network = Network(nx.empty_graph(1), PRESET.link, medium=PRESET.medium)
    says = rf'agent 0: {type(agent).__name__} chooses .* netsim.Radio\(access="aloha"\), not access="csma"'
    with pytest.raises(AgentError, match=says):
        network.run({0: agent}, until=10.0)


def waits(run: Run) -> Any:
    """Return the time (s) from each post to its arrival, less the sender's own channel sampling."""
    begins = [began + run.agents[0].listen for began, _ in run.agents[0].done]
    return np.array([time for time, *_ in run.agents[1].took]) - begins


@pytest.mark.parametrize(("kind", "period"), [(XMac, 0.5), (ContikiMAC, 0.125)])
def test_an_early_acknowledgement_halves_the_train(kind: type[LPL], period: float) -> None:
    """The receiver wakes at a uniform time within the period T: the wait has mean T/2 and standard deviation T/√12."""
    wait = waits(play(kind, {0: 50}))
    assert wait.mean() == pytest.approx(period / 2, abs=4 * period / np.sqrt(12 * 50) + 5e-3)
    assert wait.std() == pytest.approx(period / np.sqrt(12), rel=0.25)
    assert wait.max() < period + 0.02


def test_without_it_a_train_lasts_a_period_and_wakes_everyone() -> None:
    long, short = (play(kind, {0: 50}, graph=nx.complete_graph(4)) for kind in (LPL, XMac))
    assert waits(long).min() > 0.5
    assert waits(long).max() < 0.52
    # Time (s) for which nodes that are no receivers have their radio on, beyond their wake-ups.
    excess = [(run.energy[["listen_s", "receive_s"]].iloc[2:].sum(axis=1) - 1.6).mean() for run in (long, short)]
    # LPL keeps them awake for half a period per message; an X-MAC strobe names its receiver, so others sleep again.
    assert excess[0] == pytest.approx(50 * 0.25, rel=0.2)
    assert excess[1] < 0.5


def test_two_senders_take_turns() -> None:
    run = play(XMac, {0: 25, 2: 25}, graph=nx.complete_graph(3), until=150.0)
    arrived = {sender: sum(who == sender for _, who, _ in run.agents[1].took) for sender in (0, 2)}
    assert min(arrived.values()) >= 22


@pytest.mark.parametrize("kind", [LPL, slow(XMac), slow(ContikiMAC)])
def test_a_lossy_link_costs_few_messages(kind: type[LPL]) -> None:
    """Three in ten frames are lost, but a receiver meets several strobes per wake-up, and data frames are repeated."""
    run = play(kind, {0: 50}, loss=0.3)
    assert len(run.agents[1].took) >= 35
    assert len({value for _, _, value in run.agents[1].took}) == len(run.agents[1].took)


def announcing(kind: type[LPL]) -> type[LPL]:
    """Return a subclass in which node 0 broadcasts 20 messages."""

    class Announces(kind):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            self.took: list[Any] = []

        async def work(self) -> None:
            for k in range(20 if self.name == 0 else 0):
                await asyncio.sleep(self.rng.uniform(2, 4))
                assert await self.announce(k)

        def take(self, sender: Hashable, value: Any) -> None:
            self.took.append((sender, value))

    return Announces


@pytest.mark.parametrize("kind", [LPL, XMac, ContikiMAC])
def test_a_message_to_all_reaches_each_neighbour_once(kind: type[LPL]) -> None:
    """A broadcast's train lasts a whole period, so that all neighbours wake during it; no node acknowledges it."""
    graph = nx.complete_graph(5)
    run = Network(graph, PRESET.link, medium=RADIO, seed=5).run({k: announcing(kind)() for k in graph}, until=90.0)
    for node in range(1, 5):
        assert run.agents[node].took == [(0, k) for k in range(20)]
    assert (run.airtime["no_ack"] == 0).all()
    period = run.agents[0].period
    spent = run.energy[["listen_s", "receive_s"]].sum(axis=1)
    idle = 90.0 * (run.agents[0].listen / period if kind is not ContikiMAC else 2 * 128e-6 / period)
    # A receiver waits half a period, on average, for the data after a strobe train. ContikiMAC's train repeats the
    # data frame, so a receiver sleeps after one frame.
    excess = (spent[1:] - idle).mean()
    if kind is ContikiMAC:
        assert excess < 20 * 0.015
    else:
        assert excess == pytest.approx(20 * period / 2, rel=0.3)


@pytest.mark.parametrize("kind", [LPL, XMac, ContikiMAC])
def test_what_became_of_a_message_says_why(kind: type[LPL]) -> None:
    run = play(kind, {0: 5}, loss=0.0)
    assert all(outcome == 1 and outcome.attempts == 1 for _, outcome in run.agents[0].done)
    agents = {0: talking(kind)(3), 1: talking(kind)(0)}
    network = Network(nx.path_graph(2), PRESET.link, medium=RADIO, seed=5, faults=[Crash(1, at=0.5)])
    network.run(agents, until=30.0)
    assert [bool(outcome) for _, outcome in agents[0].done] == [False] * 3  # type: ignore[attr-defined]
    assert all(outcome.attempts and outcome.reason != "delivered" for _, outcome in agents[0].done)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [LPL, XMac])
def test_a_wake_up_that_holds_no_strobe_is_refused(kind: type[LPL]) -> None:
    """A wake-up must be longer than a strobe, or the node would never detect one."""

    class Tells(kind):  # type: ignore[misc, valid-type]
        async def work(self) -> None:
            await self.announce(1)

    message = r"listen = 0\.0005: must be longer than a strobe's time on the air \(0\.000\d+ s\)$"
    agents = {0: Tells(listen=0.5e-3), 1: kind(listen=0.5e-3)}
    with pytest.raises(AgentError, match=message):
        Network(nx.path_graph(2), PRESET.link, medium=RADIO).run(agents, until=10.0)


def test_a_gap_longer_than_a_period_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^gap = 1\.0: must be at most 0\.125$"):
        ContikiMAC(gap=1.0)
