"""The shared channel: stations that speak when they like, at slots, or once they hear nobody."""

import asyncio
import math
from collections import Counter
from collections.abc import Hashable

import networkx as nx

import netsim
from netsim import Link, Network, Radio, check, topology
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.testing import sized

RATE, FRAME = 250e3, 100
_ROWS = 50


class Station(netsim.Agent):
    """Sends a frame of 100 bytes to agent 0 whenever it has something to say: a Poisson process."""

    def __init__(self, gap: float, until: float) -> None:
        self.gap, self.until, self.sent = gap, until, 0

    async def run(self) -> None:
        """Speak, on average every ``gap`` seconds, until ``until`` (s)."""
        while self.now + (wait := self.rng.exponential(self.gap)) < self.until:
            await asyncio.sleep(wait)
            self.sent += await self.send(0, "m", sized(FRAME))


class Sink(netsim.Agent):
    """Counts by sender what it hears."""

    def __init__(self) -> None:
        self.heard: Counter[Hashable] = Counter()

    async def run(self) -> None:
        """Listen until nothing can come any more."""
        async for frame in self.inbox:
            self.heard[frame.sender] += 1


def in_rooms(agents: int, rooms: int) -> tuple["nx.Graph[int]", "nx.Graph[int]"]:
    """Return who reaches whom, stations round the sink, and who senses whom: the sink, and those of the same room."""
    graph = topology.star(agents) if agents > 1 else topology.path(1)
    sensing, room = graph.copy(), {i: (i - 1) * rooms // max(agents - 1, 1) for i in range(1, agents)}
    sensing.add_edges_from((i, j) for i in room for j in room if i < j and room[i] == room[j])
    turn = 2 * math.pi / max(agents - 1, 1)
    pos = {i: (math.cos(i * turn), math.sin(i * turn)) if i else (0.0, 0.0) for i in graph}
    nx.set_node_attributes(graph, pos, "pos")
    return graph, sensing


def aloha(
    study: Study, *, agents: int = 31, load: float = 0.5, rooms: int = 1, duration: float = 5.0, seed: int = 1
) -> None:
    """The shared channel: ALOHA, slotted ALOHA and carrier sense against the closed forms.

    Agent 0 is the sink; all others are stations that send it frames of 100 bytes at 250 kbit/s.

    Parameters
    ----------
    agents : int
        Number of agents.
    load : float
        Frames that all stations together begin in the time of one frame, on average.
    rooms : int
        The stations are in so many rooms, and sense those of their own only; from room to room they are hidden.
    duration : float
        For how long stations speak, in seconds.
    seed : int
        Seed of everything random.
    """
    import pandas as pd

    agents, rooms = check.integer("agents", agents, low=1), check.integer("rooms", rooms, low=1)
    load, duration = check.finite("load", load, above=0), check.finite("duration", duration, above=0)
    (graph, sensing), frame, rows = in_rooms(agents, rooms), 8 * FRAME / RATE, []
    for name, radio, formula in (
        ("CSMA", Radio(access="csma", sensing=sensing), math.nan),
        ("slotted ALOHA", Radio(access="slotted_aloha", slot=frame), load * math.exp(-load)),
        ("ALOHA", Radio(access="aloha"), load * math.exp(-2 * load)),
    ):
        sink, gap = Sink(), (agents - 1) * frame / load
        network = Network(graph, Link(rate=RATE), medium=radio, seed=seed)
        everybody = {i: Station(gap, duration) if i else sink for i in graph}
        # Of a station the share of what it said that was heard; of the sink, and of who said nothing, nothing.
        shares = {"arrived": lambda agent, sink=sink: sink.heard[agent.name] / agent.sent if _spoke(agent) else None}
        run = study.run(name, network, everybody, [], _ROWS, sample=duration / _ROWS, watch=shares)
        ends = run.ledger.table()[["offered", "delivered", "collided", "access_failed"]].sum()
        rows.append({"access": name, **ends, "carried": ends["delivered"] * frame / duration, "formula": formula})
    table = pd.DataFrame(rows).round({"carried": 4, "formula": 4})
    study.table("carried", f"Frames, and the share of the time that carries them, at a load of {load:g}", table)
    title = f"{agents - 1} stations, load {load:g}, rooms: {rooms}"
    arrived = Axis("delivered", label="frames delivered")
    study.figure("delivered", curves(study.rounds, arrived, [Axis("time_s")], title))


def _spoke(agent: netsim.Agent) -> bool:
    return isinstance(agent, Station) and agent.sent > 0
