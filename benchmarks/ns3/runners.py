"""One run of a case in ns-3, in the independent model and in netsim; each returns the same counts."""

import asyncio
import json
import math
import shutil
import struct
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import networkx as nx

from benchmarks.ns3.cases import FOLDER, Case, Run
from netsim import Agent, Link, Network, Radio
from netsim.radio import Phy, oqpsk
from netsim.testing import sized
from tests.oracle.lr_wpan import DETECTION_DBM, LOCK_DB, NOISE_DBM, Medium, Rules

__all__ = ["RULES", "compiled", "in_model", "in_netsim", "in_ns3", "network", "ns3_version"]

RULES = {
    "model": Rules(),
    "model without spaces": Rules(spaces=False),
    "model of any overlap": Rules(sinr=False, locks=False),
    "model without locks": Rules(locks=False),
    "model with takeover": Rules(takeover=True),
    "model of the standard's CCA": Rules(cca="any"),
    "model of all interference": Rules(forgets=False),
    "model of both": Rules(cca="any", forgets=False),
    "model of addressed acks": Rules(strays=False),
}
"""The rules of the model: ns-3's, and variants in which one or two rules are changed."""

# Messages in progress at the time of the last request may still arrive.
_GRACE = 5.0
_LIBRARIES = ("sixlowpan", "internet", "lr-wpan", "spectrum", "propagation", "mobility", "network", "core")


# --- ns-3 -------------------------------------------------------------------------------------------------------------


def ns3_version() -> str | None:
    """Return the version of ns-3's installed lr-wpan; None if it, or a compiler, is missing."""
    if shutil.which("g++") is None or shutil.which("pkg-config") is None:
        return None
    asked = subprocess.run(["pkg-config", "--modversion", "ns3-lr-wpan"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None


def compiled(folder: Path, name: str = "convergecast") -> Path:
    """Compile one of the programs here against ns-3, into a folder."""
    program = folder / name
    libraries = [f"-lns3-{library}" for library in _LIBRARIES]
    source = str(FOLDER / f"{name}.cc")
    subprocess.run(["g++", "-std=c++17", "-O2", "-o", str(program), source, *libraries], check=True)
    return program


def in_ns3(case: Case, seed: int, program: Path) -> Run:
    """Run a case in ns-3."""
    rows = [[x, y] for x, y, _ in case.places] + case.losses_db
    layout = "\n".join([str(len(case.places)), *(" ".join(f"{each:.12g}" for each in row) for row in rows)])
    what = (f"{case.seconds:.12g}", case.payload_bytes, int(case.acks), f"{case.rate:.12g}")
    arguments = (seed, *what, case.networks, case.channels)
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, input=layout, capture_output=True, text=True, check=True)
    counts: dict[str, float] = json.loads(done.stdout)
    return counts


# --- the model --------------------------------------------------------------------------------------------------------


def in_model(case: Case, seed: int, rules: Rules) -> Run:
    """Run a case in the independent model."""
    nodes = range(len(case.places))
    apart = [[case.channel(i) != case.channel(j) for j in nodes] for i in nodes]
    powers = [[-math.inf if apart[i][j] else -case.losses_db[i][j] for j in nodes] for i in nodes]
    medium = Medium(
        powers,
        case.metres,
        seed,
        payload=case.payload_bytes,
        acks=case.acks,
        rate=case.rate,
        seconds=case.seconds,
        rules=rules,
        sinks=list(map(case.sink, nodes)),
    )
    return asdict(medium.run())


# --- netsim -----------------------------------------------------------------------------------------------------------


class Sender(Agent):
    """Sends numbered messages to its sink: as a Poisson process, or each one as soon as the last is acknowledged."""

    def __init__(self, case: Case, sink: int, channel: int) -> None:
        self.case, self.sink, self.channel = case, sink, channel
        self.requested, self.acknowledged = list[float](), 0
        self.filler = sized(case.frame_bytes)[_NUMBER.size :]

    async def run(self) -> None:
        """Send until the case's time is over."""
        case, self.radio.channel = self.case, self.channel
        if case.rate:
            while (wait := self.rng.exponential(1.0 / case.rate)) + self.now < case.seconds:
                await asyncio.sleep(wait)
                await self.send(self.sink, "m", self.next())
            return
        await asyncio.sleep(self.rng.uniform(0.0, 0.01))
        while self.now < case.seconds:
            if case.acks:
                self.acknowledged += bool(await self.deliver(self.sink, "m", self.next()))
                continue
            # The end of a frame is not reported, so always queue more than can be sent.
            for _ in range(math.ceil(1.0 / (8 * case.frame_bytes / _RATE))):
                await self.send(self.sink, "m", self.next())
            await asyncio.sleep(1.0)

    def next(self) -> bytes:
        """Return the next message."""
        self.requested.append(self.now)
        return _NUMBER.pack(len(self.requested) - 1) + self.filler


class Sink(Agent):
    """Records the arrival of each message."""

    def __init__(self, channel: int) -> None:
        self.channel, self.came = channel, dict[tuple[int, int], float]()

    async def run(self) -> None:
        """Listen."""
        self.radio.channel = self.channel
        async for frame in self.inbox:
            self.came[frame.sender, *_NUMBER.unpack(frame.payload[: _NUMBER.size])] = self.now


_RATE = 250e3
_NUMBER = struct.Struct("<I")


def network(case: Case, seed: int, like: Literal["any", "ns3"] = "ns3") -> Network:
    """Return the network of a case: one or two stars, whose received powers follow from the case."""
    nodes = range(len(case.places))
    phy = Phy(
        error_rate=oqpsk,
        bandwidth=5e6,
        noise_figure=NOISE_DBM + 174.0 - 10.0 * math.log10(5e6),
        lock_db=LOCK_DB,
        sense_dbm=DETECTION_DBM,
        cca=like,
        chunks=like,
    )
    losses = case.losses_db
    powers = {(i, j): -losses[i][j] for i in nodes for j in nodes if i != j}
    radio = Radio(phy=phy, powers=powers, acks=case.acks)
    stars = nx.Graph((case.sink(i), i) for i in nodes if case.sink(i) != i)
    return Network(stars, Link(rate=_RATE), medium=radio, seed=seed, connected=case.networks == 1)


def in_netsim(case: Case, seed: int, like: Literal["any", "ns3"] = "ns3") -> Run:
    """Run a case in netsim."""
    nodes = range(len(case.places))
    senders = {i: Sender(case, case.sink(i), case.channel(i)) for i in nodes if case.sink(i) != i}
    sinks = {i: Sink(case.channel(i)) for i in nodes if case.sink(i) == i}
    run = network(case, seed, like).run({**sinks, **senders}, until=case.seconds + (_GRACE if case.rate else 0.0))
    came = [arrival for sink in sinks.values() for arrival in sink.came.items()]
    air = run.airtime[["duplicates", "access_failures", "no_ack"]].sum()
    return {
        "requests": sum(len(each.requested) for each in senders.values()),
        "received": len(came),
        "first": len(sinks[0].came),
        "duplicates": int(air["duplicates"]),
        "acknowledged": sum(each.acknowledged for each in senders.values()),
        "access_failed": int(air["access_failures"]),
        "no_ack": int(air["no_ack"]),
        "delay_s": sum(when - senders[sender].requested[number] for (sender, number), when in came),
    }
