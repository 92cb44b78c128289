"""Gossip averaging: an introductory agent in fifteen lines."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import netsim
from netsim import Link, Network, topology
from netsim.draw import Number
from netsim.links import latency as latencies
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.studies.graphs import OwnTopology
from netsim.studies.seeds import GraphSeeds


class Average(netsim.Agent):
    """Replaces its value by the mean of this value and the values received in the round."""

    draw: ClassVar = {"value": Number()}

    def __init__(self, value: float) -> None:
        self.value = value

    async def run(self) -> None:
        """Exchange values for 50 rounds."""
        async for _ in self.rounds(50):
            await self.broadcast("state", self.value)
            heard = [frame.payload for frame in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))


def spread(agents: Mapping[Any, Average]) -> float:
    """Return the difference between the largest and the smallest value."""
    values = [agent.value for agent in agents.values()]
    return max(values) - min(values)


def averaging(
    study: Study,
    *,
    agents: int = 20,
    radius: float = 0.4,
    loss: float = 0.1,
    latency: float = 0.01,
    rate: float | None = 250e3,
    own: OwnTopology = OwnTopology(),  # noqa: B008 (frozen)
    seeds: GraphSeeds = GraphSeeds(seed=1),
) -> None:
    """Gossip averaging on a random geometric graph of sensors.

    Each agent's initial value is its index. The spread of the values falls round by round in spite of lost frames.

    Parameters
    ----------
    agents : int
        Number of agents.
    radius : float
        Reach of an agent's radio in a field of 1 x 1.
    loss : float
        Probability that a frame is lost.
    latency : float
        Mean latency in seconds; each frame's is uniform from half to one and a half times the mean.
    rate : float
        Bits per second of each link.
    """
    graph = own.graph_of(
        agents, partial(topology.random_geometric, agents, radius, seed=seeds.graph), radius=(radius, 0.4)
    )
    link = Link(latency=latencies.uniform(latency / 2, latency * 1.5), loss=loss, rate=rate)
    network = Network(graph, link, round_period=0.1, seed=seeds.network)
    study.run("averaging", network, {node: Average(float(node)) for node in graph}, [spread], rounds=50)
    rounds = study.rounds
    shown = rounds[rounds["round"].isin([1, 2, 5, 10, 20, 50])]
    study.ask("How far do the values of sensors lie apart that average with their neighbours?")
    answer(
        study,
        "After a round the largest value is {first:.3g} above the smallest, after {count} rounds {last:.2g}.",
        f"{agents} agents that lose a share {loss:g} of the frames. {of_one_run(study)}",
        **{"first": rounds["spread"].iloc[0], "last": rounds["spread"].iloc[-1], "count": len(rounds)},
    )
    study.table(
        "by_round",
        "Spread of the values by round",
        shown[["round", "time_s", "delivered", "lost", "wire_bits", "spread"]],
    )
    apart = Axis("spread", log=True, label="spread: largest value less smallest")
    title = f"Gossip averaging, {agents} agents, loss {loss:g}"
    figure = partial(curves, rounds, apart, [Axis("round"), Axis("wire_bits")], title)
    study.figure(
        "spread",
        figure,
        "How far the largest value is from the smallest, by rounds and by bits on the wire.",
        hero=True,
    )
