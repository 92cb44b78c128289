"""The shared channel: stations that send at any time, at slots, or once the channel is free."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pandas as pd

import netsim
from netsim import Link, Network, Radio, topology
from netsim.draw import Star
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.site import OwnSite
from netsim.studies import Study
from netsim.studies.figures import Figure, drawing, legend_below
from netsim.testing import sized
from netsim.util import check

RATE, FRAME = 250e3, 100
_ROWS = 50
_AIRTIME = 8 * FRAME / RATE
_LOADS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_FORMULAS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "slotted ALOHA": ("$G e^{-G}$", lambda load: load * np.exp(-load)),
    "ALOHA": ("$G e^{-2G}$", lambda load: load * np.exp(-2 * load)),
}
"""Closed-form throughput of infinitely many stations, by access method: the formula as text and as function."""


class Station(netsim.Agent):
    """Sends frames of 100 bytes to the sink at the times of a Poisson process."""

    def __init__(self, gap: float, until: float, sink: Hashable = 0) -> None:
        self.gap, self.until, self.sink, self.sent = gap, until, sink, 0

    async def run(self) -> None:
        """Send frames at random intervals with mean ``gap`` (s) until the time ``until`` (s)."""
        while self.now + (wait := self.rng.exponential(self.gap)) < self.until:
            await asyncio.sleep(wait)
            self.sent += await self.send(self.sink, "m", sized(FRAME))


class Sink(netsim.Agent):
    """Counts received frames, by sender."""

    draw: ClassVar = {"is_sink": Star(lambda a: True)}

    def __init__(self) -> None:
        self.heard: Counter[Hashable] = Counter()

    async def run(self) -> None:
        """Count received frames until no more frame can arrive."""
        async for frame in self.inbox:
            self.heard[frame.sender] += 1


def in_rooms(agents: int, rooms: int) -> tuple["nx.Graph[int]", "nx.Graph[int]"]:
    """Return the link graph, a star round the sink, and the sensing graph, which also links stations in one room."""
    graph = topology.star(agents) if agents > 1 else topology.path(1)
    sensing, room = graph.copy(), {i: (i - 1) * rooms // max(agents - 1, 1) for i in range(1, agents)}
    sensing.add_edges_from((i, j) for i in room for j in room if i < j and room[i] == room[j])
    turn = 2 * math.pi / max(agents - 1, 1)
    pos = {i: (math.cos(i * turn), math.sin(i * turn)) if i else (0.0, 0.0) for i in graph}
    nx.set_node_attributes(graph, pos, "pos")
    return graph, sensing


class _Rooms:
    """Stations around a sink, divided into rooms; stations sense only others in the same room."""

    def __init__(self, agents: int, rooms: int) -> None:
        self.graph, self._sensing = in_rooms(agents, rooms)
        self.sink: Any = 0
        self.stations: list[Any] = list(range(1, agents))
        self.name = f"rooms: {rooms}"

    def radio(self, **how: Any) -> Radio:
        """Return the radio for an access method and its options."""
        return Radio(**how, sensing=self._sensing if how["access"] == "csma" else None)

    def network(self, radio: Radio, seed: int) -> Network:
        """Return the network of a run with this radio and seed."""
        return Network(self.graph, Link(rate=RATE), medium=radio, seed=seed)


class _OnSite(_Rooms):
    """The motes of a user's site that are linked to its sink."""

    def __init__(self, site: netsim.Deployment, agents: int, rooms: int) -> None:
        OwnSite.check_left_out(agents=(agents, 31), rooms=(rooms, 1))
        self._site, self.graph, self.sink = site, site.graph, site.sink
        self.stations, self.name = list(site.graph[site.sink]), "a site"
        if not self.stations:
            raise netsim.BadInput(f"site: must have motes that its sink {site.sink!r} may hear")

    def radio(self, **how: Any) -> Radio:
        """Return the site's own radio with the access method and options replaced."""
        own = self._site.preset.radio
        assert own is not None
        return replace(own, phy=None, acks=False, **how)

    def network(self, radio: Radio, seed: int) -> Network:
        """Return the site's network with this radio."""
        return self._site.network(radio=radio, link=Link(rate=RATE), seed=seed)


def aloha(
    study: Study,
    *,
    agents: int = 31,
    load: float = 0.5,
    rooms: int = 1,
    duration: float = 5.0,
    site: OwnSite = OwnSite(),  # noqa: B008 (frozen)
    seed: int = 1,
) -> None:
    """The shared channel: ALOHA, slotted ALOHA and carrier sense against the closed forms.

    Agent 0 is the sink; all others are stations that send it frames of 100 bytes at 250 kbit/s. The figure shows the
    throughput at loads from 0.1 to 2 and at ``load``. On a site of your own the stations are the motes linked to its
    sink; received powers decide carrier sensing and reception.

    Parameters
    ----------
    agents : int
        Number of agents.
    load : float
        Offered load: mean number of frames that all stations together start per frame duration.
    rooms : int
        Number of rooms that the stations are divided into. A station senses only those in its own room; all others are
        hidden from it.
    duration : float
        The time during which stations send, in seconds.
    seed : int
        Seed of everything random.
    """
    agents, rooms = check.integer("agents", agents, low=1), check.integer("rooms", rooms, low=1)
    load, duration = check.finite("load", load, above=0), check.finite("duration", duration, above=0)
    place = _Rooms(agents, rooms) if site.site is None else _OnSite(site.deployment(), agents, rooms)
    accesses = {
        "CSMA": place.radio(access="csma"),
        "slotted ALOHA": place.radio(access="slotted_aloha", slot=_AIRTIME),
        "ALOHA": place.radio(access="aloha"),
    }
    site.check_set()

    def team(load: float, sink: Sink) -> dict[Any, netsim.Agent]:
        gap = len(place.stations) * _AIRTIME / load
        others = {node: Sink() for node in place.graph}
        return others | {i: Station(gap, duration, place.sink) for i in place.stations} | {place.sink: sink}

    rows: list[dict[str, Any]] = []
    for name, radio in accesses.items():
        network, sink = place.network(radio, seed), Sink()
        # The share of a station's frames that were received; None for the sink and for a station that sent no frame.
        shares = {"arrived": lambda agent, sink=sink: sink.heard[agent.name] / agent.sent if _spoke(agent) else None}
        run = study.run(name, network, team(load, sink), [], _ROWS, sample=duration / _ROWS, watch=shares)
        ends = run.ledger.table()[["offered", "delivered", "collided", "access_failed"]].sum()
        carried = ends["delivered"] * _AIRTIME / max(duration, run.ended_at)
        formula = _FORMULAS[name][1](load) if name in _FORMULAS else math.nan
        rows.append({"access": name, **ends, "carried_%": 100 * carried, "formula_%": 100 * formula})
    table = pd.DataFrame(rows).round({"carried_%": 2, "formula_%": 2})
    csma, slotted, pure = table["carried_%"]
    study.ask("How much of a shared channel's time carries frames that arrive, with each way to share it?")
    answer(
        study,
        "At a load of {load:g} carrier sense carries {csma:.0f} % of the time, slotted ALOHA {slotted:.0f} %, and "
        "ALOHA {pure:.0f} %.",
        "{count} stations for {duration:g} s. The closed forms have {first:.1f} and {second:.1f} % for the two ALOHAs. "
        f"{of_one_run(study)}",
        **{"load": load, "csma": csma, "slotted": slotted, "pure": pure, "count": len(place.stations)},
        **{"duration": duration, "first": table["formula_%"][1], "second": table["formula_%"][2]},
    )
    study.table("carried", f"Frames, and the share of the time that carries them, at a load of {load:g}", table)
    points: list[dict[str, Any]] = []
    loads = sorted({*_LOADS, load})
    with study.progress("loads", len(accesses) * len(loads)) as progress:
        for name, radio in accesses.items():
            for offered in loads:
                part = place.network(radio, seed).run(team(offered, Sink()))
                ends = part.ledger.table()[["offered", "delivered"]].sum()
                # Queued frames are still sent after the stations stop, so the delivered share refers to the time until
                # the run's end.
                seconds = {"offered": duration, "delivered": max(duration, part.ended_at)}
                points.append({"access": name, "load": offered, **_AIRTIME * ends / pd.Series(seconds)})
                progress(len(points))
    drawn = study.tables["throughput"] = pd.DataFrame(points)
    title = f"{len(place.stations)} stations, {place.name}, {duration:g} s at each load"
    caption = "What the channel carries, by offered load and for each way to share it, beside the closed forms."
    study.figure("throughput", partial(_draw, drawn, title), caption, hero=True)


def _spoke(agent: netsim.Agent) -> bool:
    return isinstance(agent, Station) and agent.sent > 0


def _draw(points: pd.DataFrame, title: str) -> Figure:
    """Draw throughput against offered load: measured points, and the closed forms."""
    figure, panel = drawing(6.5, 4.4, title=title)
    fine = np.linspace(0.0, max(float(points["offered"].max()), 1.0), 200)
    for number, name in enumerate(points["access"].unique()):
        part, colour = points[points["access"] == name], f"C{number}"
        panel.plot(part["offered"], part["delivered"], "os^"[number % 3], color=colour, label=f"{name}, measured")
        if name in _FORMULAS:
            text, formula = _FORMULAS[name]
            panel.plot(fine, formula(fine), color=colour, linewidth=1.2, label=f"{name}, {text}")
    panel.set_xlabel("offered load G (frames in the time of one)")
    panel.set_ylabel("throughput S (frames in the time of one)")
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)
    legend_below(figure)
    return figure
