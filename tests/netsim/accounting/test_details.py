"""What the ledger and the trace record of each frame: its end and cause, its size, and the round of a reply."""

import asyncio
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import Agent, AgentError, BadInput, Link, Network, topology
from netsim.accounting import Trace
from netsim.links import Budget
from netsim.testing import Actor, Rounder, Talker
from tests.parts import every


def counting(count: int, pause: float = 0.0) -> Talker:
    """Return an agent that broadcasts 0, 1, … with a pause (s) after each."""
    return Talker([(i * pause, i) for i in range(count)], kind="x")


# --- causes and the hash ----------------------------------------------------------------------------------------------


def test_the_hash_tells_causes_apart() -> None:
    """Trace hashes differ when the same frame ends at the same time for different causes."""

    def run(**settings: Any) -> tuple[str, dict[str, int]]:
        limit = settings.pop("limit", None)
        network = Network(topology.path(2), Link(latency=0.5), inbox_limit=limit)
        if settings:
            network.at(0.1, lambda: network.set_receiver(1, up=False))
        done = network.run({0: counting(2), 1: Actor(lambda me: asyncio.sleep(1))})
        ends = done.ledger.table(by=()).iloc[0]
        return done.trace_hash, {name: int(ends[name]) for name in ("delivered", "receiver_down", "inbox_full")}

    delivered, full, down = run(), run(limit=1), run(down=True)
    assert [ends for _, ends in (delivered, full, down)] == [
        {"delivered": 2, "receiver_down": 0, "inbox_full": 0},
        {"delivered": 1, "receiver_down": 0, "inbox_full": 1},
        {"delivered": 0, "receiver_down": 2, "inbox_full": 0},
    ]
    assert len({delivered[0], full[0], down[0]}) == 3


# --- switches ---------------------------------------------------------------------------------------------------------


def test_what_arrived_before_a_receiver_went_down_was_received() -> None:
    class Later(Agent):
        async def run(self) -> None:
            await asyncio.sleep(2)
            self.got = [self.inbox.take(self.now)]

    for up_again in (None, 1.2):
        network = Network(topology.path(2), Link(latency=0.1))
        # Frames arrive at 0.1, 0.6, 1.1 and 1.6 s.
        network.at(0.8, lambda network=network: network.set_receiver(1, up=False))
        if up_again:
            network.at(up_again, lambda network=network: network.set_receiver(1, up=True))
        later = Later()
        run = network.run({0: counting(4, 0.5), 1: later})
        assert [frame.payload for frame in later.got[0]] == ([0, 1, 3] if up_again else [0, 1])
        assert run.ledger.table(by=())["receiver_down"].tolist() == [1 if up_again else 2]


def test_a_radio_that_nobody_hears_spends_nothing() -> None:
    class Twice(Agent):
        async def run(self) -> None:
            self.took = []
            for _ in range(2):
                self.took.append(await self.broadcast("x", np.zeros(4)))
                await asyncio.sleep(0.1)

    network = Network(topology.star(3), Link(rate=1e6, budget=Budget(500, per="round")), medium="radio")
    network.at(0, lambda: [network.set_link(0, i, up=False) for i in (1, 2)].clear())
    network.at(0.05, lambda: [network.set_link(0, i, up=True) for i in (1, 2)].clear())
    agent = Twice()
    run = network.run({0: agent, 1: Actor(), 2: Actor()})
    # The budget suffices for one message. The first message used none of it, because no agent could receive it.
    assert agent.took == [0, 2]
    assert run.ledger.table(by=())[["link_down", "delivered", "refused"]].values.tolist() == [[2, 2, 0]]


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_a_reply_belongs_to_the_round_of_who_replies() -> None:
    class Asker(Agent):
        async def run(self) -> None:
            self.rounds_of_replies = []
            async for _ in self.rounds(3):
                frame = await self.request(1, "ask", None)
                self.rounds_of_replies.append(frame.round)

    class Replier(Agent):
        def answer(self, frame: Any) -> Any:
            return None

        async def run(self) -> None:
            async for _ in self.rounds(3):
                pass

    asker = Asker()
    Network(topology.path(2), Link(latency=0.1)).run({0: asker, 1: Replier()})
    assert asker.rounds_of_replies == [1, 2, 3]


@every("period", [0.1, 0.25, 0.3, 1 / 3, 0.7, 7.3, 1e-6])
@every("keep_late", [False, True])
def test_a_latency_of_one_period_is_late_in_every_round(period: float, keep_late: bool) -> None:
    agents = {i: Rounder(300, keep_late) for i in range(2)}
    Network(topology.path(2), Link(latency=period), round_period=period).run(agents)
    for me, agent in agents.items():
        assert agent.heard == [(k + 1, 1 - me, k) for k in range(1, 300) if keep_late]


def test_a_heartbeat_at_the_ends_of_rounds_is_never_late() -> None:
    class Beating(Agent):
        async def run(self) -> None:
            self.heard = 0
            beat = asyncio.create_task(self.beat())
            async for _ in self.rounds(20):
                self.heard += len(await self.collect())
            beat.cancel()

        async def beat(self) -> None:
            while True:
                await asyncio.sleep(1.0)
                await self.broadcast("beat", self.now)

    agents = {i: Beating() for i in range(3)}
    run = Network(topology.complete(3)).run(agents)
    assert run.ledger.table(by=())["late"].tolist() == [0]
    assert all(agent.heard >= 2 * 18 for agent in agents.values())


# --- ends -------------------------------------------------------------------------------------------------------------


def test_an_agent_that_has_ended_keeps_no_frames() -> None:
    gone = Actor()
    run = Network(topology.path(2), Link(latency=0.01)).run({0: counting(3000, 0.001), 1: gone})
    assert run.ledger.table(by=())[["delivered", "in_flight"]].sum(axis=1).tolist() == [3000]
    assert len(gone.inbox) == 0
    assert gone.inbox.take(math.inf) == []


def test_one_that_sends_without_waiting_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsim.transport.outbox.MAX_SENDS_PER_INSTANT", 500)

    class Endless(Agent):
        async def run(self) -> None:
            while True:
                await self.broadcast("x", 1)

    with pytest.raises(AgentError, match=r"agent 0 .*sent 500 messages at one instant"):
        Network(topology.path(2)).run({0: Endless(), 1: Actor()})
    Network(topology.path(2)).run({0: counting(499), 1: counting(499)})


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_small_file_that_claims_to_be_a_large_trace_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("sent.npy", "w", force_zip64=True) as part,
    ):
        for _ in range(300):
            part.write(bytes(1 << 20))
    assert file.stat().st_size < 1 << 20
    with pytest.raises(BadInput, match="would be 314,572,800 bytes"):
        Trace.load(file)
