"""Reliable links: lost frames are resent, after a timeout or on request, and all transmissions are counted."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import Agent, AgentError, BadInput, Link, Network, latency, loss, topology
from netsim.links import Reliability
from netsim.testing import Actor
from tests.fuzzers.reliable import check_reliable
from tests.parts import slow

ROUNDS = 200


class Speaks(Agent):
    """Broadcasts the number of each round, and records received frames with their times."""

    def __init__(self, rounds: int = ROUNDS) -> None:
        self.count = rounds
        self.heard: list[tuple[int, Any, int, Any]] = []

    async def run(self) -> None:
        async for k in self.rounds(self.count):
            await self.broadcast("state", [self.name, k])
            await self.send(self.neighbors[0], "one", k)
            self.heard += [(k, frame.sender, frame.round, frame.payload) for frame in await self.collect()]


def run_of(reliability: str | Reliability, seed: int = 1, **settings: Any) -> tuple[Any, list[Speaks]]:
    graph = topology.ring(4)
    agents = {i: Speaks() for i in graph}
    run = Network(graph, Link(reliability=reliability, **{"loss": 0.3, **settings}), seed=seed).run(agents, trace=True)
    return run, list(agents.values())


def kinds(run: Any) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = run.ledger.table(["kind"]).set_index("kind").to_dict("index")
    return table


def states(agent: Speaks) -> list[tuple[int, Any, int]]:
    return [(k, sender, number) for k, sender, number, payload in agent.heard if isinstance(payload, list)]


@pytest.mark.parametrize("lossy", [0.3, loss.gilbert_elliott(0.3, burst=3)])
def test_with_acks_everything_arrives_in_its_round_and_once(lossy: Any) -> None:
    _, agents = run_of("ack", loss=lossy)
    for agent in agents:
        every = [(k, n, k) for k in range(1, ROUNDS + 1) for n in agent.neighbors]
        missing = len(set(every) - set(states(agent)))
        assert sorted(states(agent)) == sorted(set(states(agent)))
        assert set(states(agent)) <= set(every)
        assert missing == 0 if lossy == 0.3 else missing < 5
    ones = sum(isinstance(payload, int) for agent in agents for _, _, _, payload in agent.heard)
    assert 4 * ROUNDS - 20 <= ones <= 4 * ROUNDS


def test_tries_and_acks_are_as_many_as_the_loss_makes_them() -> None:
    # A try succeeds if frame and ack arrive (0.7² = 0.49), so there are 1/0.49 tries; 0.7 of the tries cause an ack.
    table = kinds(run_of("ack")[0])
    frames = table["state"]["offered"] + table["one"]["offered"]
    assert table["resent"]["offered"] == pytest.approx(frames * (1 / 0.49 - 1), rel=0.1)
    assert table["ack"]["offered"] == pytest.approx(frames * 0.7 / 0.49, rel=0.1)
    assert table["ack"]["wire_bits"] > 0
    assert table["resent"]["wire_bits"] > table["ack"]["wire_bits"]


def test_on_links_that_lose_nothing_nothing_is_sent_again() -> None:
    table = kinds(run_of("ack", loss=0.0)[0])
    assert "resent" not in table
    assert table["ack"]["delivered"] == table["state"]["delivered"] + table["one"]["delivered"]
    assert set(kinds(run_of("nack", loss=0.0)[0])) == {"state", "one"}


def test_on_request_everything_arrives_but_the_last() -> None:
    run, agents = run_of("nack")
    table = kinds(run)
    assert 0 < table["nack"]["offered"] < table["state"]["offered"]
    later = 0
    for agent in agents:
        found = states(agent)
        assert len(found) == len(set(found))
        heard = {(sender, number) for _, sender, number in found}
        due = {(n, k) for k in range(1, ROUNDS - 10) for n in agent.neighbors}
        assert due <= heard
        assert all(k >= number for k, _, number in found)
        later += sum(k > number for k, _, number in found)
    assert later > 100


@pytest.mark.parametrize("way", ["ack", "nack"])
def test_a_link_that_delivers_twice_is_heard_once(way: str) -> None:
    _, agents = run_of(way, loss=0.1, duplicate=0.5)
    for agent in agents:
        assert len(states(agent)) == len(set(states(agent)))


@pytest.mark.parametrize("way", ["ack", "nack", "keyframe"])
@pytest.mark.parametrize(
    "settings",
    [
        {"loss": 0.2, "latency": latency.uniform(0.0, 0.3), "rate": 1e5, "queue": 6, "duplicate": 0.1, "corrupt": 0.1},
        {"loss": 0.2, "corrupt": 0.5, "crc": False},
    ],
)
def test_same_seed_same_run_and_all_is_counted(way: str, settings: dict[str, Any]) -> None:
    first, second = (run_of(way, **settings)[0] for _ in range(2))
    assert first.trace_hash == second.trace_hash
    ledger = first.ledger
    under_way = sum(1 for _ in ledger.in_flight())
    assert ledger.link_messages + ledger.duplicated == sum(ledger.exits) + under_way


def test_acks_that_cannot_be_back_are_refused() -> None:
    with pytest.raises(BadInput, match=r"reliability = 'ack': must have a latency below half the round period, 0.5 s"):
        Network(topology.path(2), Link(latency=0.5, reliability="ack"))
    Network(topology.path(2), Link(latency=0.4, reliability="ack"))
    Network(topology.path(2), Link(latency=0.5, reliability="nack"))


@pytest.mark.parametrize("make", [lambda: Link(reliability="sure"), lambda: Reliability("acks")])  # type: ignore[arg-type]
def test_an_unknown_way_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(BadInput, match="reliability"):
        make()


@pytest.mark.parametrize("given", [{"timeout": 0.0}, {"tries": 0}, {"window": 0}, {"every": 0}])
def test_numbers_out_of_range_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(given))):
        Reliability("ack", **given)


def test_one_way_for_all_links() -> None:
    with pytest.raises(BadInput, match="reliability"):
        Network(topology.path(2), Link(), links={(0, 1): Link(reliability="ack")})


def test_a_kind_of_the_channels_own_is_refused() -> None:
    def acks() -> dict[int, Agent]:
        return {i: Actor(lambda me: me.broadcast("ack", 1)) for i in range(2)}

    with pytest.raises(AgentError, match="kind = 'ack'"):
        Network(topology.path(2), Link(reliability="ack")).run(acks())
    Network(topology.path(2), Link()).run(acks())


def test_requests_are_answered_beside_it() -> None:
    class Asks(Agent):
        def __init__(self) -> None:
            self.replies: list[Any] = []

        def answer(self, frame: Any) -> Any:
            return frame.payload + 1

        async def run(self) -> None:
            async for k in self.rounds(5):
                await self.broadcast("state", np.full(3, float(k)))
                reply = await self.request(self.neighbors[0], "question", k)
                self.replies.append(reply.payload)
                assert len(await self.collect()) == len(self.neighbors)

    agents = {i: Asks() for i in range(4)}
    Network(topology.ring(4), Link(latency=0.01, reliability="ack"), seed=1).run(agents)
    assert all(agent.replies == [2, 3, 4, 5, 6] for agent in agents.values())


@pytest.mark.parametrize("way", ["ack", "nack"])
@pytest.mark.parametrize("answers", [False, True])
def test_to_an_agent_a_numbered_frame_is_no_request(way: str, answers: bool) -> None:
    class Reads(Agent):
        async def run(self) -> None:
            if self.name == 0:
                await self.send(1, "word", [1, 2])
                await self.broadcast("word", np.ones(3))
            else:
                self.got = [await self.inbox.get() for _ in range(2)]

    class Answers(Reads):
        def answer(self, frame: Any) -> Any:
            raise AssertionError("there was no request")

    agents = {i: (Answers if answers else Reads)() for i in range(2)}
    Network(topology.path(2), Link(latency=0.01, reliability=way)).run(agents)
    assert [frame.request for frame in agents[1].got] == [None, None]
    assert agents[1].got[0].payload == [1, 2]
    assert agents[1].got[1].payload.tolist() == [1, 1, 1]


@pytest.mark.parametrize("way", ["ack", "nack"])
def test_what_an_inbox_has_no_room_for_is_sent_again(way: str) -> None:
    class Slow(Agent):
        def __init__(self) -> None:
            self.got: list[int] = []

        async def run(self) -> None:
            for k in range(8 if self.name == 0 else 0):
                await self.send(1, "number", k)
            for _ in range(40):
                await asyncio.sleep(0.1)
                if self.name == 1:
                    self.got += [(await self.inbox.get()).payload for _ in range(len(self.inbox))]
                elif way == "nack" and self.now < 3:
                    await self.send(1, "number", -1)

    agents = {i: Slow() for i in range(2)}
    run = Network(topology.path(2), Link(latency=0.01, reliability=way), inbox_limit=2).run(agents)
    assert sorted(k for k in agents[1].got if k >= 0) == list(range(8))
    assert run.ledger.table([])["inbox_full"].iloc[0] > 0


@pytest.mark.parametrize("on_radio", [False, True])
@pytest.mark.parametrize("more", [0, slow(1)])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**50), with_faults=st.booleans())
def test_laws_hold_with_reliable_links(more: int, on_radio: bool, seed: int, with_faults: bool) -> None:
    check_reliable(seed + more, with_faults, on_radio)
