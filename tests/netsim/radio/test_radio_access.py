"""Medium access: throughput against closed forms, and CSMA-CA against a simulation of the standard by symbols."""

import asyncio
import math
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, Link, Network, Radio, Run, topology
from netsim.testing import Actor, sized
from tests.parts import slow

RATE = 250e3
FRAME = 50
"""The frame size in bytes."""
SECONDS = 8 * FRAME / RATE


async def forever(me: Actor) -> None:
    await asyncio.sleep(1e9)


class Poisson(Agent):
    """Sends frames at the times of a Poisson process."""

    def __init__(self, per_second: float) -> None:
        self.mean = 1 / per_second

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.exponential(self.mean))
            await self.broadcast("m", sized(FRAME))


def share_delivered(run: Run) -> tuple[float, int]:
    row = run.ledger.table([]).iloc[0]
    done = int(row["offered"] - row["in_flight"])
    return row["delivered"] / done, done


def star_of_senders(senders: int, radio: Radio, per_second: float, seconds: float, seed: int) -> Run:
    agents: dict[int, Agent] = {0: Actor(forever)} | {i: Poisson(per_second) for i in range(1, senders + 1)}
    return Network(topology.star(senders + 1), Link(rate=RATE), medium=radio, seed=seed).run(agents, until=seconds)


@pytest.mark.parametrize("load", [0.2, 0.5, 1.0])
def test_throughput_of_pure_aloha(load: float) -> None:
    """Throughput is S = G·e^(−2G) for many senders; with N senders, e^(−2G(N−1)/N) of the frames survive."""
    senders, seconds = 60, 6000 * SECONDS / load
    run = star_of_senders(senders, Radio(access="aloha"), load / senders / SECONDS, seconds, seed=1)
    share, frames = share_delivered(run)
    expected = math.exp(-2 * load * (senders - 1) / senders)
    # The tolerance allows for losses in pairs, and for the share G/N of frames that wait for the sender's previous
    # frame.
    assert share == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / frames) + load / senders / 2)
    throughput = run.ledger.exits[0] * SECONDS / seconds
    assert throughput == pytest.approx(load * math.exp(-2 * load), rel=0.08)


@pytest.mark.parametrize("load", [0.3, 1.0])
def test_throughput_of_slotted_aloha(load: float) -> None:
    """Throughput is S = G·e^(−G)."""
    senders, seconds = 60, 6000 * SECONDS / load
    radio = Radio(access="slotted_aloha", slot=SECONDS)
    run = star_of_senders(senders, radio, load / senders / SECONDS, seconds, seed=2)
    throughput = run.ledger.exits[0] * SECONDS / seconds
    assert throughput == pytest.approx(load * math.exp(-load), rel=0.06)


@pytest.mark.parametrize(("senders", "q"), [(2, 0.5), slow(5, 0.2), slow(8, 0.05)])
def test_throughput_of_slotted_aloha_with_few_senders(senders: int, q: float) -> None:
    """Throughput is S = N·q·(1 − q)^(N−1) if each of N senders uses each slot with probability q."""
    slots = 6000

    async def now_and_then(me: Actor) -> None:
        for _ in range(slots):
            await asyncio.sleep(SECONDS)
            if me.rng.random() < q:
                await me.broadcast("m", sized(FRAME))

    agents = {0: Actor(), **{i: Actor(now_and_then) for i in range(1, senders + 1)}}
    radio = Radio(access="slotted_aloha", slot=SECONDS)
    run = Network(topology.star(senders + 1), Link(rate=RATE), medium=radio, seed=3).run(agents)
    expected = senders * q * (1 - q) ** (senders - 1)
    throughput = run.ledger.exits[0] / slots
    assert throughput == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / slots))


# --- CSMA-CA against the standard, symbol by symbol -------------------------------------------------------------------

UNIT, CCA, TURNAROUND, ACK, ACK_WAIT = 20, 8, 12, 22, 54
SIFS, LIFS, LONGEST_SHORT_FRAME = 12, 40, 2 * (6 + 18)
"""Symbols of 16 µs, as in IEEE 802.15.4 at 250 kbit/s; 6 bytes of preamble and length precede a frame of 18."""
SYMBOL = 16e-6


@dataclass
class Node:
    """A saturated sender, as described in clause 6.2.5.1 of the standard."""

    rng: np.random.Generator
    state: str = "back off"
    left: int = 0
    tries: int = 0
    retries: int = 0
    heard_busy: bool = False
    disturbed: bool = False
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(["sent", "good", "no access", "done"], 0))

    def back_off(self, nb: int) -> None:
        self.tries = nb
        self.state, self.left = "back off", UNIT * int(self.rng.integers(2 ** min(3 + nb, 5)))


def symbol_by_symbol(senders: int, frame: int, symbols: int, acks: bool, seed: int) -> dict[str, int]:
    """Return the counts, summed over senders that all hear each other and a sink; ``frame`` is in symbols."""
    rng = np.random.default_rng(seed)
    nodes = [Node(rng) for _ in range(senders)]
    for node in nodes:
        node.back_off(0)
    ack_starts: dict[int, int] = {}  # for each acknowledgement: its start, and the node to which it is addressed
    ack_for, ack_left, ack_disturbed = -1, 0, False
    space = SIFS if frame <= LONGEST_SHORT_FRAME else LIFS
    for now in range(symbols):
        if now in ack_starts:
            ack_for, ack_left, ack_disturbed = ack_starts.pop(now), ACK, False
        for node in nodes:
            advance(node, frame, acks)
        on_air = [i for i, node in enumerate(nodes) if node.state == "send"]
        busy = len(on_air) + (ack_left > 0)
        for i, node in enumerate(nodes):
            if node.state == "assess":
                node.heard_busy |= busy > 0
            elif node.state == "send":
                node.disturbed |= busy > 1
                node.left -= 1
                if node.left == 0:
                    node.counts["good"] += not node.disturbed
                    if acks:
                        node.state, node.left = "wait", ACK_WAIT
                        if not node.disturbed:
                            ack_starts[now + 1 + TURNAROUND] = i
                    else:
                        node.state, node.left = "space", space
                continue
            node.left -= 1
        if ack_left:
            ack_disturbed |= bool(on_air)
            ack_left -= 1
            if not ack_left and not ack_disturbed:
                nodes[ack_for].counts["done"] += 1
                nodes[ack_for].state, nodes[ack_for].left = "space", space
    return {name: sum(node.counts[name] for node in nodes) for name in nodes[0].counts}


def advance(node: Node, frame: int, acks: bool) -> None:
    """Put the node into its next state if its current state is over."""
    if node.state == "space" and node.left == 0:
        node.retries = 0
        node.back_off(0)
    if node.state == "wait" and node.left == 0:
        node.retries += 1
        if node.retries > 3:
            node.retries = 0
        node.back_off(0)
    if node.state == "assess" and node.left == 0:
        if node.heard_busy:
            if node.tries == 4:
                node.counts["no access"] += 1
                node.retries = 0
                node.back_off(0)
            else:
                node.back_off(node.tries + 1)
        else:
            node.state, node.left = "turn", TURNAROUND
    if node.state == "turn" and node.left == 0:
        node.state, node.left, node.disturbed = "send", frame, False
        node.counts["sent"] += 1
    if node.state == "back off" and node.left == 0:
        node.state, node.left, node.heard_busy = "assess", CCA, False


def in_netsim(senders: int, frame: int, seconds: float, acks: bool) -> dict[str, float]:
    payload = sized(frame * 4 // 8)

    async def saturate(me: Actor) -> None:
        while True:
            await me.deliver(0, "m", payload)

    async def fill(me: Actor) -> None:
        for _ in range(int(seconds / (frame * SYMBOL)) + 10):
            await me.broadcast("m", payload)
        await forever(me)

    agents = {i: Actor(saturate if acks else fill) for i in range(1, senders + 1)}
    network = Network(topology.complete(senders + 1), Link(rate=RATE), medium=Radio(acks=acks), seed=5)
    run = network.run({0: Actor(forever), **agents}, until=seconds)
    airtime = run.airtime.sum()
    delivered = run.ledger.table(["receiver"]).set_index("receiver")["delivered"][0]
    duplicates = run.airtime["duplicates"][0]
    return {
        "sent": airtime["frames"],
        "good": delivered + duplicates,
        "no access": airtime["access_failures"],
        "done": airtime["frames"] - airtime["no_ack"] if acks else 0,
    }


@pytest.mark.parametrize(
    ("senders", "frame", "acks"),
    [
        slow(2, 60, False),
        slow(5, 60, False),
        slow(5, 40, False),
        slow(8, 120, False),
        slow(5, 60, True),
        (8, 200, True),
    ],
)
def test_csma_is_as_the_standard_has_it(senders: int, frame: int, acks: bool) -> None:
    symbols = 400_000
    expected = symbol_by_symbol(senders, frame, symbols, acks, seed=1)
    found = in_netsim(senders, frame, symbols * SYMBOL, acks)
    for name, count in expected.items():
        # Both counts are random, and events come in groups: allow 5 standard deviations of a difference of two Poisson
        # counts.
        assert found[name] == pytest.approx(count, abs=5 * math.sqrt(2 * count) + 3), (name, found, expected)


# --- who hears whom ---------------------------------------------------------------------------------------------------


def collisions(sensing: "nx.Graph[int] | None") -> tuple[int, int]:
    """Return how many frames of two senders to one sink collided, and how many were offered."""
    agents: dict[int, Agent] = {0: Actor(forever), 1: Poisson(150), 2: Poisson(150)}
    network = Network(topology.star(3), Link(rate=RATE), medium=Radio(sensing=sensing), seed=1)
    row = network.run(agents, until=20).ledger.table([]).iloc[0]
    return int(row["collided"]), int(row["offered"])


def test_a_hidden_terminal_is_not_sensed() -> None:
    hidden, offered = collisions(None)
    sensed, _ = collisions(topology.complete(3))
    # At 150 frames a second, a frame overlaps one of the other sender with probability 1 − e^(−2·150·1.6 ms) = 0.38.
    assert hidden > 0.25 * offered
    assert sensed < 0.12 * offered


# --- acknowledgements -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "tries"), [(0.1, 4), (0.5, 4), (0.5, 1), (0.8, 6)])
def test_mean_tries_and_residual_loss(p: float, tries: int) -> None:
    """With at most m tries, the mean number of tries is (1 − pᵐ)/(1 − p), and pᵐ of the messages are lost."""
    frames = 4000

    async def talk(me: Actor) -> None:
        for _ in range(frames):
            me.log.append(await me.deliver(1, "m", sized(FRAME)))

    radio = Radio(acks=True, max_frame_retries=tries - 1)
    network = Network(topology.path(2), Link(rate=RATE, loss=p), links={(1, 0): Link(rate=RATE)}, medium=radio)
    run = network.run({0: Actor(talk), 1: Actor()})
    mean = (1 - p**tries) / (1 - p)
    row = run.ledger.table([]).iloc[0]
    assert run.airtime["frames"][0] / frames == pytest.approx(mean, rel=5 * math.sqrt(p / frames))
    assert row["lost"] / frames == pytest.approx(p**tries, abs=5 * math.sqrt(p**tries / frames) + 1e-9)
    assert sum(run.agents[0].log) == row["delivered"] == frames - row["lost"]


@pytest.mark.parametrize(("p", "a"), [(0.0, 0.5), (0.2, 1.0), (0.4, 0.1)])
def test_efficiency_of_stop_and_wait(p: float, a: float) -> None:
    """Efficiency is (1 − p)/(1 + 2a), where a is propagation time over transmission time."""
    frames, under_way = 3000, a * SECONDS

    async def talk(me: Actor) -> None:
        for _ in range(frames):
            await me.deliver(1, "m", sized(FRAME))

    # Acknowledgements have one bit and no turnaround, so a cycle is the frame's time and two propagation times.
    radio = Radio(
        access="aloha",
        acks=True,
        ack_bits=1,
        turnaround=0.0,
        min_be=0,
        max_be=0,
        ack_wait=2 * under_way + 1 / RATE,
        max_frame_retries=1000,
    )
    there, back = Link(rate=RATE, latency=under_way, loss=p), Link(rate=RATE, latency=under_way)
    run = Network(topology.path(2), there, links={(1, 0): back}, medium=radio).run({0: Actor(talk), 1: Actor()})
    efficiency = frames * SECONDS / run.ended_at
    assert efficiency == pytest.approx((1 - p) / (1 + 2 * a), rel=5 * math.sqrt(p / frames) + 0.005)
