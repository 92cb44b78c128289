"""Runs in several parts, as processes run them, but in threads of this one; and servers for their datagrams."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import netsim
from netsim import Agent, Link, Network, Run, Transport, latency, loss, topology

PERIOD, PACE = 0.1, 0.5
"""Simulated seconds of a round, and how many pass in a real one: 0.2 real seconds a round."""

IMPAIRED = Link(
    latency=latency.uniform(5e-3, 40e-3), loss=loss.gilbert_elliott(0.1, 3), rate=1e6, queue=8, mtu=64, corrupt=0.1
)

Made = tuple[Network, dict[Hashable, Agent]]


class Average(Agent):
    """Averages a vector with its neighbours'."""

    def __init__(self, value: float, rounds: int) -> None:
        self.value = np.full(20, value)
        self.count = rounds

    async def run(self) -> None:
        async for _ in self.rounds(self.count):
            await self.broadcast("state", self.value)
            heard = [frame.payload for frame in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))


def averaging(link: Link, rounds: int = 10) -> Made:
    """Return twelve agents that average, and their network; agents are as they are before a run."""
    graph = topology.random_geometric(12, radius=0.6, seed=1)
    network = Network(graph, link, round_period=PERIOD, seed=7)
    return network, {name: Average(float(name), rounds) for name in graph}


def spread(agents: Mapping[Hashable, Any]) -> float:
    """Return how far the agents are apart."""
    return float(np.ptp([agent.value[0] for agent in agents.values()]))


def shares(names: Sequence[str], agents: Sequence[Hashable]) -> dict[str, dict[str, list[Hashable]]]:
    """Return for each process the others and their agents; all have as many."""
    size = len(agents) // len(names)
    place = {name: list(agents[size * i : size * (i + 1)]) for i, name in enumerate(names)}
    return {here: {name: place[name] for name in names if name != here} for here in names}


def played(
    make: Callable[[], Made], transports: Mapping[str, Transport], **settings: Any
) -> dict[str, Run | BaseException]:
    """Return how each part ended: its run, or what it raised."""
    outcome: dict[str, Run | BaseException] = {}

    def play(name: str, transport: Transport) -> None:
        network, agents = make()
        try:
            outcome[name] = network.run(agents, [spread], transport=transport, **settings)
        except BaseException as error:
            outcome[name] = error

    threads = [threading.Thread(target=play, args=item) for item in transports.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


def assert_as_simulated(make: Callable[[], Made], folder: Path) -> Run:
    """Gather the parts of a run, and hold it against the simulation; return the simulation."""
    network, agents = make()
    simulated = network.run(agents, [spread], trace=True)
    network, gathered_agents = make()
    gathered = netsim.gather(network, gathered_agents, folder, [spread], trace=True)
    for name, agent in agents.items():
        assert np.array_equal(vars(agent)["value"], vars(gathered_agents[name])["value"]), name
    pd.testing.assert_frame_equal(simulated.rounds, gathered.rounds[simulated.rounds.columns], check_exact=True)
    assert set(gathered.rounds["missing"]) == {0}
    assert simulated.trace_hash == gathered.trace_hash
    return simulated


# --- servers ----------------------------------------------------------------------------------------------------------


def program(name: str) -> str | None:
    """Return the path of a server, if it is installed."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def free_port() -> int:
    """Return a port of the loopback interface on which nobody listens."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@contextmanager
def serving(command: Sequence[str | Path], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until it is no longer wanted; it is ready when it listens on its port."""
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            give_up = time.monotonic() + 20
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < give_up, log.read_text()
                    time.sleep(0.02)
            yield process
        finally:
            process.kill()


@contextmanager
def mosquitto(folder: Path, more: Sequence[str] = ("allow_anonymous true",)) -> Iterator[tuple[str, Any]]:
    """Run an MQTT broker of its own; yields its address and its process."""
    port = free_port()
    lines = [f"listener {port} 127.0.0.1", "set_tcp_nodelay true", "user root", *more]
    settings = folder / "mosquitto.conf"
    settings.write_text("\n".join(lines) + "\n")
    with serving([program("mosquitto") or "", "-c", settings], port, folder / "mosquitto.log") as process:
        yield f"127.0.0.1:{port}", process
