"""Hostile datagrams, sent to a process that plays its rounds: their outcomes, and their effects on rounds and memory.

A third process sends noise, truncated datagrams, flipped bits, replayed datagrams, datagrams with another key,
malformed ones with the right key, and ones of unknown links. It pauses after each burst. A process cannot see the
datagrams that the kernel drops when a socket's buffer is full, so their count is read from Linux.
"""

import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import netsim
from benchmarks.report import SPAWN, in_processes
from netsim import Network
from netsim.distributed import UDP, envelope
from netsim.distributed.envelope import FrameBatch, Heartbeat, Message, seal
from tests.parts import free_port

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
PERIOD, ROUND = 0.1, 0.25
# Datagrams in a burst, and real seconds from burst to burst.
BURST, PAUSE = 50, 0.005
RECORDED = 60


class Steady(netsim.Agent):
    """Sends and collects each round, until the end."""

    def __init__(self, over: Any) -> None:
        self.over = over
        self.rounds_played = self.rounds_heard = 0

    async def run(self) -> None:
        """Play."""
        async for _ in self.rounds(1_000_000):
            await self.broadcast("state", np.zeros(100))
            self.rounds_heard += bool(await self.collect())
            self.rounds_played += 1
            if self.over.is_set():
                break


class Recorded(UDP):
    """A transport that also passes on its first datagrams, as an eavesdropper could record them."""

    def __init__(self, *args: Any, to: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._recorder, self._count = to, 0

    def send(self, to: str, data: bytes) -> None:
        """Send a datagram, and pass it on if it is one of the first."""
        super().send(to, data)
        self._count += 1
        if self._count <= RECORDED:
            self._recorder.send_bytes(data)


def megabytes() -> float:
    """Return the memory of this process; NaN where the system does not report it."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return float("nan")


def dropped_by_kernel(port: int) -> int:
    """Return the datagrams dropped at a full socket; −1 where the system does not report them."""
    with suppress(OSError):
        for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(f":{port:04X}"):
                return int(words[-1])
    return -1


def node(me: int, places: list[str], over: Any, recorder: Any, answer: Any) -> None:
    """Play the rounds of one agent; the first process is the target."""
    agents = {number: Steady(over) for number in range(2)}
    settings: dict[str, Any] = {"key": KEY, "pace": PERIOD / ROUND}
    peers = {places[1 - me]: [1 - me]}
    transport = UDP(places[0], peers, **settings) if me == 0 else Recorded(places[1], peers, to=recorder, **settings)
    port = int(places[me].rpartition(":")[2])
    memory, kernel = [0.0], [0]

    def look(row: int) -> None:
        if row == 4:
            memory[0] = megabytes()
        kernel[0] = dropped_by_kernel(port)

    Network(nx.path_graph(2), round_period=PERIOD, seed=1).run(agents, transport=transport, progress=look)
    agent, membership = agents[me], transport.membership
    answer.send(
        {
            "rounds": agent.rounds_played,
            "heard": agent.rounds_heard,
            "received": membership.received,
            "dropped": dict(membership.dropped),
            "kernel": kernel[0],
            "memory_MB": megabytes(),
            "growth_MB": megabytes() - memory[0],
        }
    )


def shots(recorded: list[bytes], number: random.Random) -> Iterator[bytes]:
    """Yield hostile datagrams, of each kind in turn."""
    incarnation = time.time_ns()
    message = Message(0, "state", 1.0, b"frame", [10**9, 0, 1.0])
    far = FrameBatch(1, incarnation, 0, [message])
    while True:
        good = number.choice(recorded)
        bit = number.randrange(8 * len(good))
        yield number.randbytes(number.randrange(1500))
        yield number.randbytes(65_507)
        yield good[: number.randrange(len(good))]
        yield good[: bit // 8] + bytes([good[bit // 8] ^ 1 << bit % 8]) + good[bit // 8 + 1 :]
        yield good
        yield seal(far, OTHER_KEY)
        yield seal(far._replace(host=number.randrange(2, 1 << 40)), KEY)
        legs = [number.randrange(100), 0, 1.0]
        yield seal(far._replace(incarnation=number.randrange(1 << 60), messages=[message._replace(legs=legs)]), KEY)
        yield seal(Heartbeat(1, incarnation, number.randrange(1 << 40), {"run": number.randbytes(9)}), KEY)
        yield seal(far._replace(messages=[[b"", [], {}, None, 1.5], -1, {}]), KEY)
        yield number.choice([envelope.seal(far, KEY)[:-1], b"", good + b"\0"])


def attack(place: str, count: int, recording: Any, over: Any, answer: Any) -> None:
    """Send hostile datagrams in bursts, and report their number."""
    recorded = [recording.recv_bytes() for _ in range(RECORDED)]
    host, _, port = place.rpartition(":")
    begun = time.perf_counter()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.connect((host, int(port)))
        for number, shot in zip(range(count), shots(recorded, random.Random(1)), strict=False):
            with suppress(ConnectionRefusedError):
                made.send(shot)
            if number % BURST == 0:
                time.sleep(PAUSE)
    taken = time.perf_counter() - begun
    # The process first reads the datagrams in the socket's buffer.
    time.sleep(1.0)
    over.set()
    answer.send({"sent": count, "seconds": taken})


def measured(count: int) -> dict[str, Any]:
    """Return the outcomes of hostile datagrams."""
    places = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    over = SPAWN.Event()
    recording, recorder = SPAWN.Pipe(duplex=False)
    nodes = ((node, (me, places, over, recorder)) for me in (0, 1))
    shot_at, honest, attacker = in_processes(*nodes, (attack, (places[0], count, recording, over)))
    if sys.platform != "linux":
        print("what the kernel dropped is not counted here", file=sys.stderr)
    counted = sum(shot_at["dropped"].values())
    return {
        "hostile datagrams": {"sent": attacker["sent"], "per_s": attacker["sent"] / attacker["seconds"]},
        "counted": {"all": counted, **shot_at["dropped"]},
        "dropped by the kernel (also of the peer's)": shot_at["kernel"],
        "rounds of the node": {"played": shot_at["rounds"], "in which it heard the peer": shot_at["heard"]},
        "rounds of the peer": {"played": honest["rounds"], "in which it heard the node": honest["heard"]},
        "memory of the node": {"MB": shot_at["memory_MB"], "growth_MB": shot_at["growth_MB"]},
    }
