"""The cost of a frame on real sockets: agents in two processes over UDP and MQTT, compared with a bare echo.

The echo is asyncio's datagram endpoint, which returns the same bytes without parsing them. A frame has 100 float64. The
rate is measured in rounds in which each agent sends to all agents of the other process, and continues when it has
received the same number of frames; so many frames are in flight, and the echo has the same number. The time is the
round trip of a single frame. With --hostile, strangers send datagrams to a process that plays its rounds.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import netsim
from benchmarks import hostile
from benchmarks.report import SPAWN, in_processes, parser, show
from netsim import Network
from netsim.distributed import MQTT, UDP, Transport
from netsim.errors import BadInput
from tests.parts import free_port, mosquitto, program

ELEMENTS = 100
FRAME = np.random.default_rng(1).random(ELEMENTS)
# Real seconds after which a missing datagram counts as lost.
PATIENCE = 5.0
# The number of round trips with a single frame in flight.
TRIPS = 1000

Make = Callable[[str, dict[str, list[int]], Path | None], Transport]


class Speaker(netsim.Agent):
    """Sends to all neighbours, and continues when it has received a frame from each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.moments: list[float] = []
        self.worked: list[float] = []

    async def run(self) -> None:
        """Play."""
        self._note()
        for _ in range(self.count):
            await self.broadcast("state", FRAME)
            for _ in self.neighbors:
                await self.inbox.get()
        self._note()

    def _note(self) -> None:
        self.moments.append(time.perf_counter())
        self.worked.append(time.process_time())


class Pinger(netsim.Agent):
    """Sends a vector and waits for its return, repeatedly."""

    def __init__(self, to: int, count: int) -> None:
        self.to, self.count = to, count
        self.moments: list[float] = []
        self.worked = [0.0]

    async def run(self) -> None:
        """Play."""
        self.moments.append(time.perf_counter())
        for _ in range(self.count):
            await self.send(self.to, "ping", FRAME)
            await self.inbox.get()
            self.moments.append(time.perf_counter())


class Ponger(netsim.Agent):
    """Returns each received frame."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def run(self) -> None:
        """Play."""
        for _ in range(self.count):
            frame = await self.inbox.get()
            await self.send(frame.sender, "pong", frame.payload)


def over_udp(here: str, peers: dict[str, list[int]], folder: Path | None) -> Transport:
    """Return a transport."""
    return UDP(here, peers, patience=PATIENCE, folder=folder)


class OverMQTT:
    """Makes transports over a broker."""

    def __init__(self, broker: str) -> None:
        self.broker = broker

    def __call__(self, here: str, peers: dict[str, list[int]], folder: Path | None) -> Transport:
        """Return a transport."""
        return MQTT(self.broker, here.replace(":", "-"), {name.replace(":", "-"): it for name, it in peers.items()})


def play(make: Make, places: list[str], me: int, size: int, count: int, folder: Path | None, answer: Any) -> None:
    """Run one of two processes, each with ``size`` agents; the first one reports its measurements (see `in_two`)."""
    sides = [list(range(size)), list(range(size, 2 * size))]
    graph = nx.complete_bipartite_graph(size, size)
    agents: dict[int, Any] = {number: Speaker(count) for number in graph}
    if size == 1:
        agents = {0: Pinger(1, count), 1: Ponger(count)}
    transport = make(places[me], {places[1 - me]: sides[1 - me]}, folder)
    Network(graph, round_period=1.0, seed=1).run(agents, transport=transport)
    if me:
        answer.send(None)
        return
    mean = transport.membership.sent_bytes / transport.membership.sent
    mine = [agents[number] for number in sides[0]]
    worked = [moment for agent in mine for moment in agent.worked]
    answer.send(([agent.moments for agent in mine], max(worked) - min(worked), mean))


# --- the bare echo ----------------------------------------------------------------------------------------------------


class Echo(asyncio.DatagramProtocol):
    """Returns each received datagram."""

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Return the datagram."""
        self.transport.sendto(data, addr)


class Client(asyncio.DatagramProtocol):
    """Keeps a number of datagrams in flight, and records when each returns."""

    def __init__(self, size: int, pairs: int, count: int) -> None:
        self.data, self.pairs, self.left = bytes(size), pairs, pairs * (count - 1)
        self.awaited = pairs * count
        self.moments = [time.perf_counter()]
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the first."""
        self.transport = transport
        for _ in range(self.pairs):
            transport.sendto(self.data)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Send the next."""
        self.moments.append(time.perf_counter())
        self.awaited -= 1
        if self.left:
            self.left -= 1
            self.transport.sendto(data)
        elif not self.awaited:
            self.over.set_result(None)


def echo(port: int) -> None:
    """Run the echo process until it is terminated."""

    async def main() -> None:
        await asyncio.get_running_loop().create_datagram_endpoint(Echo, local_addr=("127.0.0.1", port))
        await asyncio.Event().wait()

    asyncio.run(main())


def bare(port: int, size: int, pairs: int, count: int, answer: Any) -> None:
    """Run the process that sends datagrams to the echo."""

    async def main() -> tuple[list[float], float]:
        loop, before = asyncio.get_running_loop(), time.process_time()
        end = ("127.0.0.1", port)
        endpoint, client = await loop.create_datagram_endpoint(lambda: Client(size, pairs, count), remote_addr=end)
        async with asyncio.timeout(600):
            await client.over
        endpoint.close()
        return client.moments, time.process_time() - before

    answer.send(asyncio.run(main()))


# --- measuring --------------------------------------------------------------------------------------------------------


def in_two(make: Make, size: int, count: int, written: bool) -> tuple[list[list[float]], float, float]:
    """Return each agent's times in one process, its CPU seconds, and the mean bytes of a datagram."""
    places = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    found: tuple[list[list[float]], float, float]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if written else None
        found, _ = in_processes(*((play, (make, places, me, size, count, folder)) for me in range(2)))
    return found


def echoed(size: int, pairs: int, count: int) -> tuple[list[float], float]:
    """Return the start and the times at which the bare echo returned datagrams, and the CPU seconds."""
    port = free_port()
    server = SPAWN.Process(target=echo, args=(port,), daemon=True)
    server.start()
    time.sleep(1.0)
    found: tuple[list[float], float]
    [found] = in_processes((bare, (port, size, pairs, count)))
    server.terminate()
    server.join()
    return found


def trips(moments: list[float]) -> dict[str, float]:
    """Return percentiles of the times between moments, in microseconds."""
    times = np.diff(moments) * 1e6
    return {"p50_us": float(np.percentile(times, 50)), "p95_us": float(np.percentile(times, 95))}


def measured(makers: dict[str, tuple[Make, bool]], agents: int, rounds: int, repeats: int) -> dict[str, Any]:
    """Return the rates and times of each transport, medians over alternating repeats."""
    found: dict[str, list[dict[str, float]]] = {}
    size, frames = 1000.0, 2 * agents * agents * rounds

    def note(name: str, seconds: float, worked: float, alone: list[float]) -> None:
        # Each process sends half of the frames, and receives as many.
        row = {"frames_per_s": frames / seconds, "cpu_us_per_frame": worked / frames * 2e6, **trips(alone)}
        found.setdefault(name, []).append(row)

    for _ in range(repeats):
        for name, (make, written) in makers.items():
            many, worked, mean = in_two(make, agents, rounds, written)
            size = mean if name == "UDP" else size
            [alone], _, _ = in_two(make, 1, TRIPS, written)
            note(name, max(one[-1] for one in many) - min(one[0] for one in many), worked, alone)
        # A round trip is two datagrams.
        moments, worked = echoed(round(size), agents * agents, rounds)
        note("bare echo", moments[-1] - moments[0], worked, echoed(round(size), 1, TRIPS)[0])
    rows = {name: {key: statistics.median(row[key] for row in each) for key in each[0]} for name, each in found.items()}
    bare = rows["bare echo"]["frames_per_s"]
    for row in rows.values():
        row["of_the_bare_echo"] = row["frames_per_s"] / bare
    return {"datagram_bytes": round(size), **rows}


def main() -> None:
    """Run the benchmark."""
    command = parser(__doc__, agents=8, rounds=400, repeats=3)
    command.add_argument("--hostile", type=int, metavar="N", help="instead: N hostile datagrams at a running process")
    chosen = command.parse_args()
    if chosen.hostile is not None:
        show(hostile.measured(chosen.hostile), chosen.json, "hostile datagrams at a process that plays its rounds")
        return
    makers: dict[str, tuple[Make, bool]] = {"UDP": (over_udp, False), "UDP, written down": (over_udp, True)}
    with ExitStack() as stack:
        try:
            MQTT("127.0.0.1:1", "a", {"b": [1]})
            if program("mosquitto") is None:
                raise BadInput("no mosquitto: apt-get install mosquitto")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            makers["MQTT"] = OverMQTT(stack.enter_context(mosquitto(folder))[0]), False
        except BadInput as error:
            print(f"MQTT is left out: {error}", file=sys.stderr)
        result = measured(makers, chosen.agents, chosen.rounds, chosen.repeats)
    show(result, chosen.json, f"two processes of {chosen.agents} agents, {chosen.rounds} rounds")


if __name__ == "__main__":
    main()
