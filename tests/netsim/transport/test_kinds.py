"""Kinds of message that all nodes know in advance (docs/counting.md) take one byte, and change nothing else."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
import pytest

from netsim import Agent, BadInput, Frame, Link, Network, Radio, Run, topology
from netsim.distributed import UDP
from netsim.links import Reliability
from netsim.testing import Actor, Listener

NAMES = ("temperature-reading", "d", "state")


class Mixed(Agent):
    """Broadcasts and sends numbers, arrays and lists of all kinds; sends requests to its neighbours."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    async def run(self) -> None:
        async for k in self.rounds(6):
            await self.broadcast("temperature-reading", 20.5 + k)
            await self.broadcast("state", np.arange(3.0) + k)
            await self.send(self.neighbors[0], "d", [k, "x"])
            await self.broadcast("never announced", k)
            heard = [(f.sender, f.kind, f.round, np.asarray(f.payload).tolist()) for f in await self.collect()]
            self.heard += sorted(heard, key=repr)


def made(kinds: Sequence[str], **settings: Any) -> Run:
    link = settings.pop("link", Link(loss=0.1, latency=0.01))
    network = Network(topology.ring(4), link, seed=3, kinds=kinds, **settings)
    return network.run({i: Mixed() for i in range(4)}, until=20)


def payload_bits(run: Run) -> dict[str, int]:
    """Return the payload bits of the agents' own messages, without retransmissions, whose payload is a whole frame."""
    bits = run.ledger.senders_table().groupby("kind")["payload_bits"].sum().to_dict()
    return {kind: bits[kind] for kind in (*NAMES, "never announced")}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"link": Link(rate=1e5, mtu=16, header_bits=8, latency=0.01, duplicate=0.1)},
        {"link": Link(latency=0.01, loss=0.2, reliability=Reliability("nack"))},
        {"link": Link(latency=0.01, loss=0.2, reliability=Reliability("ack"))},
        {"medium": Radio(acks=True), "link": Link(rate=1e5)},
    ],
    ids=["plain", "fragments", "nack", "ack", "radio"],
)
def test_agents_hear_the_same_and_each_frame_is_shorter_by_the_name(settings: dict[str, Any]) -> None:
    by_name, by_number = made((), **settings), made(NAMES, **settings)
    if not isinstance(settings.get("medium"), Radio):
        assert [agent.heard for agent in by_number.agents.values()] == [
            agent.heard for agent in by_name.agents.values()
        ]
    assert by_number.ledger.wire_bits < by_name.ledger.wire_bits
    assert payload_bits(by_number) == payload_bits(by_name)
    assert set(by_number.ledger.table()["kind"]) == set(by_name.ledger.table()["kind"])


def test_bits_are_those_of_one_byte() -> None:
    async def talk(agent: Any) -> None:
        for kind in (*NAMES, "never announced"):
            await agent.broadcast(kind, None)

    run = Network(topology.path(2), kinds=NAMES).run({0: Actor(talk), 1: Listener()}, until=1)
    bits = run.ledger.table(by="kind").set_index("kind")["wire_bits"].to_dict()
    # The five bytes are: an array of four, the kind, the sender 0, the round 0, and nil.
    assert bits == {**dict.fromkeys(NAMES, 8 * 5), "never announced": 8 * (4 + 1 + 15)}


def test_the_bytes_have_the_number() -> None:
    seen: list[Frame] = []

    async def hear(agent: Any) -> None:
        seen.append(await agent.inbox.get())

    async def talk(agent: Any) -> None:
        await agent.broadcast("state", "x")

    Network(topology.path(2), kinds=NAMES).run({0: Actor(talk), 1: Actor(hear)})
    [frame] = seen
    assert msgpack.unpackb(frame.data) == [2, 0, 0, "x"]
    assert (frame.kind, frame.payload) == ("state", "x")


def test_a_flipped_bit_may_make_another_known_kind_and_no_other_number() -> None:
    heard: list[str] = []

    async def hear(agent: Any) -> None:
        async for frame in agent.inbox:
            heard.append(frame.kind)  # noqa: PERF401  at the end of the run it is cancelled

    async def talk(agent: Any) -> None:
        for _ in range(4000):
            await agent.broadcast("d", None)
            await asyncio.sleep(0.01)

    link = Link(corrupt=1.0, crc=False)
    Network(topology.path(2), link, kinds=NAMES).run({0: Actor(talk), 1: Actor(hear)}, until=50)
    # A flipped bit changes kind 1 to 0 or to 3, 5, 9, …. Of these, only 0 is a known kind.
    assert {"d", "temperature-reading"} <= set(heard) <= {*NAMES}
    assert "state" not in heard


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("state", "kinds = 'state': must be a sequence of kinds of message"),
        ({"a", "b"}, "must be a sequence of kinds of message"),
        (["a", 1], "kinds[1] = 1: must be a str"),
        (["a", "b", "a"], "kinds[2] = 'a': must be there once only"),
        ([str(i) for i in range(129)], "kinds: must be at most 128, whose number is one byte; there are 129"),
    ],
)
def test_bad_kinds_are_refused(kinds: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        Network(topology.path(2), kinds=kinds)
    assert message in str(caught.value)


def test_agents_in_several_processes_are_refused() -> None:
    transport = UDP("127.0.0.1:1", {"127.0.0.1:2": [1]})
    with pytest.raises(BadInput, match=r"kinds = .*: must be left out for agents in several processes"):
        Network(topology.path(2), kinds=NAMES).run({0: Mixed(), 1: Mixed()}, transport=transport)


def test_128_kinds_take_one_byte_each() -> None:
    async def talk(agent: Any) -> None:
        await agent.broadcast("127", None)

    kinds = [str(i) for i in range(128)]
    run = Network(topology.path(2), kinds=kinds).run({0: Actor(talk), 1: Listener()}, until=1)
    assert run.ledger.wire_bits == 8 * 5


PROGRAM = """
from tests.netsim.transport.test_kinds import NAMES, made
from netsim import Link, Radio
print(made(NAMES).trace_hash, made(NAMES, medium=Radio(acks=True), link=Link(rate=1e5)).trace_hash)
"""


@pytest.mark.slow
def test_both_cores_and_workers_send_the_same_bytes() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "NETSIM_CORE": core},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for core in ("python", "compiled")
    }
    assert len(printed) == 1
    network = Network(topology.ring(4), Link(loss=0.1, latency=0.01), seed=3, kinds=NAMES)
    run = network.run({i: Mixed() for i in range(4)}, until=20, workers=2)
    assert run.trace_hash == printed.pop().split()[0]
