"""ODKLA over UDP in two processes, one sensor of which is a device on a serial line, beside its simulation."""

import os
import subprocess
import sys
import tempfile
import tty
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from netsim import Link, Network, agents, latency, topology
from netsim.distributed import UDP, merge_parts

PLACES = {"127.0.0.1:47320": [0, 1, 2], "127.0.0.1:47321": [3, 4, 5]}  # the agents of two processes, or hosts
MAP, GRID = agents.RandomFourier(1, 20, sigma=0.1, form="cos+sin", seed=1), np.linspace(0, 1, 50)[:, None]


def sensor(node):  # yields the lines that it writes: a place, and what it read there
    rng = np.random.default_rng(node)
    while True:
        x = rng.random()
        yield f"{x!r} {float(np.sin(6 * x) + 0.1 * rng.normal())!r}"


def serial(path, record):
    """Yield the lines that come over a serial line, and record them."""
    with Path(path).open() as line, Path(record).open("w", buffering=1) as copy:
        for text in line:
            copy.write(text)
            yield text


def make(rounds, device=()):
    """Return a ring of six agents, each with a sensor; that of agent 0 is the device, of which there are the lines."""
    network = Network(topology.ring(6), Link(latency=latency.uniform(0.01, 0.05), loss=0.1), round_period=0.1, seed=1)
    ring = {}
    for node in network.graph:
        samples = ((MAP([[float(x)]])[0], float(y)) for x, y in map(str.split, sensor(node) if node else device))
        cost = agents.OnlineCost(samples, MAP.size, loss=agents.Squared(), regularizer=1e-4 / 6)
        ring[node] = agents.ODKLA(cost, rounds, rho=0.3, eta=3.0, duals=agents.CodedSums())
    return network, ring


def error(ring):
    return {"test_mse": np.mean([(MAP(GRID) @ each.theta - np.sin(6 * GRID[:, 0])) ** 2 for each in ring.values()])}


def part(here, rounds, line, folder):
    network, ring = make(rounds, serial(line, f"{folder}/readings.txt"))
    peers = {place: nodes for place, nodes in PLACES.items() if place != here}
    network.run(ring, [error], transport=UDP(here, peers, pace=0.5, folder=folder))  # a round of 0.1 s takes 0.2 s


def both(rounds, folder):
    """Return the run in two processes, and the simulation with the readings that the device gave."""
    end, line = os.openpty()  # no hardware is at hand: a pseudo-terminal is the line, and a process the device
    tty.setraw(line)
    device = subprocess.Popen([sys.executable, __file__, "device"], stdout=end)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool, ExitStack() as last:
        last.callback(device.kill)
        list(pool.map(part, PLACES, [rounds] * 2, [os.ttyname(line)] * 2, [folder] * 2))
    network, ring = make(rounds, Path(folder, "readings.txt").read_text().splitlines())
    return merge_parts(*make(rounds), folder, [error]), network.run(ring, [error])


if __name__ == "__main__":
    for text in sensor(0) if "device" in sys.argv else ():
        print(text, flush=True)
    outside, inside = both(100, tempfile.mkdtemp())
    same = [np.array_equal(agent.theta, inside.agents[node].theta) for node, agent in outside.agents.items()]
    print(f"{outside.trace_hash} outside\n{inside.trace_hash} simulated\n{sum(same)} of 6 models equal to the bit")
    axes = inside.rounds.plot("round", "test_mse", logy=True, figsize=(7, 3.6), grid=True)
    outside.rounds.plot("round", "test_mse", ax=axes, style="o", ms=4)
    axes.legend(["simulation with the same readings", "two processes over UDP, a device at a serial line"])
    axes.set(ylabel="test MSE, mean of 6 agents", title="ODKLA with coded sums on a ring, 10 % of frames lost, seed 1")
    axes.figure.savefig("outside.png", bbox_inches="tight")
