"""What a frame costs on real sockets: agents of two processes play ping-pong over UDP and MQTT, beside a bare echo.

The echo is asyncio's own datagram endpoint, which sends back what comes: the same bytes, nothing is read of them. A
frame holds 100 float64. The rate is that of many pairs at once, so many frames are under way; the time of a round trip
is that of one pair alone. With --hostile, datagrams of strangers come at a process that plays its rounds.
"""

import asyncio
import multiprocessing
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
from benchmarks.report import parser, show
from netsim import MQTT, UDP, Network, Transport
from netsim.errors import BadInput
from tests.parts import free_port, mosquitto, program

SPAWN = multiprocessing.get_context("spawn")
ELEMENTS = 100
FRAME = np.random.default_rng(1).random(ELEMENTS)
# Real seconds after which a datagram that does not come is taken to be lost.
PATIENCE = 5.0

Make = Callable[[str, dict[str, list[int]], Path | None], Transport]


class Pinger(netsim.Agent):
    """Sends a vector and waits for it, again and again."""

    def __init__(self, to: int, count: int) -> None:
        self.to, self.count = to, count
        self.moments: list[float] = []

    async def run(self) -> None:
        """Play."""
        self.moments.append(time.perf_counter())
        for _ in range(self.count):
            await self.send(self.to, "ping", FRAME)
            await self.inbox.get()
            self.moments.append(time.perf_counter())


class Ponger(netsim.Agent):
    """Sends back what comes."""

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


def play(make: Make, places: list[str], me: int, pairs: int, count: int, folder: Path | None, answer: Any) -> None:
    """Be one of the two processes; the first answers with the moments of each pair, and the bytes of a datagram."""
    # Connected by links that carry nothing.
    graph = nx.compose(nx.path_graph(pairs), nx.Graph([(number, pairs + number) for number in range(pairs)]))
    sides = [list(range(pairs)), list(range(pairs, 2 * pairs))]
    agents: dict[int, Any] = {number: Pinger(pairs + number, count) for number in sides[0]}
    agents |= {number: Ponger(count) for number in sides[1]}
    transport = make(places[me], {places[1 - me]: sides[1 - me]}, folder)
    Network(graph, round_period=1.0, seed=1).run({name: agents[name] for name in graph}, transport=transport)
    if me == 0:
        sizes = transport.session.sent_bytes / transport.session.sent
        answer.send(([agents[number].moments for number in sides[0]], sizes))


# --- the bare echo ----------------------------------------------------------------------------------------------------


class Echo(asyncio.DatagramProtocol):
    """Sends back what comes."""

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Send it back."""
        self.transport.sendto(data, addr)


class Client(asyncio.DatagramProtocol):
    """Keeps so many datagrams under way, and notes when each comes back."""

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
    """Be the process that sends back what comes, until it is ended."""

    async def main() -> None:
        await asyncio.get_running_loop().create_datagram_endpoint(Echo, local_addr=("127.0.0.1", port))
        await asyncio.Event().wait()

    asyncio.run(main())


def bare(port: int, size: int, pairs: int, count: int, answer: Any) -> None:
    """Be the process that sends."""

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        end = ("127.0.0.1", port)
        endpoint, client = await loop.create_datagram_endpoint(lambda: Client(size, pairs, count), remote_addr=end)
        async with asyncio.timeout(600):
            await client.over
        endpoint.close()
        return client.moments

    answer.send(asyncio.run(main()))


# --- measuring --------------------------------------------------------------------------------------------------------


def in_two(make: Make, pairs: int, count: int, written: bool) -> tuple[list[list[float]], float]:
    """Return the moments of each pair, and the mean bytes of a datagram."""
    places = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    receiving, sending = SPAWN.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if written else None
        parts = [
            SPAWN.Process(target=play, args=(make, places, me, pairs, count, folder, sending), daemon=True)
            for me in range(2)
        ]
        for part in parts:
            part.start()
        sending.close()
        try:
            found: tuple[list[list[float]], float] = receiving.recv()
        except EOFError:
            raise SystemExit("a process ended in an error") from None
        for part in parts:
            part.join()
    return found


def echoed(size: int, pairs: int, count: int) -> list[float]:
    """Return the moments at which datagrams came back from the bare echo, the beginning before them."""
    port = free_port()
    receiving, sending = SPAWN.Pipe(duplex=False)
    server = SPAWN.Process(target=echo, args=(port,), daemon=True)
    server.start()
    time.sleep(1.0)
    SPAWN.Process(target=bare, args=(port, size, pairs, count, sending), daemon=True).start()
    moments: list[float] = receiving.recv()
    server.terminate()
    server.join()
    return moments


def trips(moments: list[float]) -> dict[str, float]:
    """Return percentiles of the times between moments, in microseconds."""
    times = np.diff(moments) * 1e6
    return {"p50_us": float(np.percentile(times, 50)), "p95_us": float(np.percentile(times, 95))}


def measured(makers: dict[str, tuple[Make, bool]], pairs: int, count: int, repeats: int) -> dict[str, Any]:
    """Return rates and times of each, medians over repeats; they take turns."""
    rates: dict[str, list[float]] = {}
    times: dict[str, list[dict[str, float]]] = {}
    size = 1000.0
    for _ in range(repeats):
        for name, (make, written) in makers.items():
            many, size_here = in_two(make, pairs, count, written)
            size = size_here if name == "UDP" else size
            began, ended = min(one[0] for one in many), max(one[-1] for one in many)
            rates.setdefault(name, []).append(pairs * count / (ended - began))
            [one], _ = in_two(make, 1, count, written)
            times.setdefault(name, []).append(trips(one))
        moments = echoed(round(size), pairs, count)
        rates.setdefault("bare echo", []).append(pairs * count / (moments[-1] - moments[0]))
        times.setdefault("bare echo", []).append(trips(echoed(round(size), 1, count)))
    result: dict[str, Any] = {"datagram_bytes": round(size)}
    bare_rate = statistics.median(rates["bare echo"])
    for name, values in rates.items():
        rate = statistics.median(values)
        row = {key: statistics.median(each[key] for each in times[name]) for key in ("p50_us", "p95_us")}
        result[name] = {"round_trips_per_s": rate, "of_the_bare_echo": rate / bare_rate, **row}
    return result


def main() -> None:
    """Run the benchmark."""
    command = parser(__doc__, pairs=64, count=500, repeats=3)
    chosen = command.parse_args()
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
        result = measured(makers, chosen.pairs, chosen.count, chosen.repeats)
    show(result, chosen.json, f"{chosen.pairs} pairs, {chosen.count} round trips each; times are of one pair alone")


if __name__ == "__main__":
    main()
