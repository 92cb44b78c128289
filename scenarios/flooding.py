"""Flooding, its spanning tree, and the effect of lost frames on both."""

import asyncio
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, ClassVar

import netsim
from netsim import Link, Network, topology
from netsim.draw import Edge, Number, Star
from netsim.links import latency as latencies
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.studies.graphs import OwnTopology
from netsim.studies.seeds import GraphSeeds
from netsim.util import check


async def ask(agent: netsim.Agent, to: Hashable, kind: str, payload: Any, *, timeout: float, attempts: int) -> bool:
    """Send a request up to ``attempts`` times, waiting ``timeout`` s for each reply; return whether one arrived."""
    for _ in range(attempts):
        try:
            await agent.request(to, kind, payload, timeout=timeout)
        except TimeoutError:
            continue
        return True
    return False


class Flood(netsim.Agent):
    """Forwards the news on first receipt: to its children in the tree, or to all neighbours except its parent."""

    draw: ClassVar = {"hops": Number(), "parent": Edge(), "first": Star(lambda a: a.hops == 0)}

    def __init__(self, first: bool, children: list[Any] | None = None) -> None:
        self.parent: Any = None
        self.hops: int | None = 0 if first else None
        self.children = children

    def onward(self) -> list[Any]:
        """Return the neighbours to which the news is forwarded."""
        return [each for each in self.neighbors if each != self.parent] if self.children is None else self.children

    async def tell(self, to: Any) -> None:
        """Send the news to one neighbour."""
        await self.send(to, "news", self.hops)

    async def run(self) -> None:
        """Handle received news until no frame is in flight."""
        async with asyncio.TaskGroup() as telling:
            if self.hops is not None:
                self.pass_on(telling)
            async for frame in self.inbox:
                if frame.request is not None:
                    await self.reply(frame, None)
                if self.hops is None:
                    self.parent, self.hops = frame.sender, frame.payload + 1
                    self.pass_on(telling)

    def pass_on(self, telling: asyncio.TaskGroup) -> None:
        """Start to send the news to all neighbours of `onward` concurrently."""
        for to in self.onward():
            telling.create_task(self.tell(to))


class AskingTree(Flood):
    """Sends the news to each child repeatedly until the child answers within ``timeout`` seconds."""

    def __init__(self, first: bool, children: list[Any], timeout: float) -> None:
        super().__init__(first, children)
        self.timeout = timeout

    async def tell(self, to: Any) -> None:
        """Send the news to one child."""
        await ask(self, to, "news", self.hops, timeout=self.timeout, attempts=100)


def informed(agents: Mapping[Any, Flood]) -> int:
    """Return the number of agents that know the news."""
    return sum(agent.hops is not None for agent in agents.values())


def flooding(
    study: Study,
    *,
    agents: int = 30,
    radius: float = 0.3,
    loss: float = 0.1,
    latency: float = 0.01,
    own: OwnTopology = OwnTopology(),  # noqa: B008 (frozen)
    seeds: GraphSeeds = GraphSeeds(seed=1),
) -> None:
    """Flooding, its spanning tree, and the tree with acknowledgements: the agents reached, and the cost.

    Agent 0 has news for all. The tree results from flooding on lossless links: an agent's parent is the neighbour from
    which it first received the news.

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
    """
    graph = own.graph_of(
        agents, partial(topology.random_geometric, agents, radius, seed=seeds.graph), radius=(radius, 0.3)
    )
    delay = latencies.uniform(check.finite("latency", latency, above=0) / 2, latency * 1.5)
    first = {node: Flood(node == 0) for node in graph}
    Network(graph, Link(latency=delay), seed=seeds.network).run(first)
    children = {node: [each for each in graph if first[each].parent == node] for node in graph}
    contenders: dict[str, dict[Any, Flood]] = {
        "flooding": {node: Flood(node == 0) for node in graph},
        "tree": {node: Flood(node == 0, children[node]) for node in graph},
        "tree-ack": {node: AskingTree(node == 0, children[node], 4 * latency) for node in graph},
    }
    for name, team in contenders.items():
        network = Network(graph, Link(latency=delay, loss=loss), seed=seeds.network)
        study.run(name, network, team, [informed], rounds=10, sample=latency)
    last = study.rounds.groupby("algorithm", sort=False, as_index=False).last()
    shown = last[["algorithm", "informed", "transmissions", "lost", "time_s"]]
    ends = {f"{what}_{k}": row[what] for k, row in shown.iterrows() for what in ("informed", "transmissions")}
    study.ask("Who hears the news, and how many messages does that take?")
    answer(
        study,
        "Of {agents} agents, {informed_0:g} hear it by flooding, with {transmissions_0:,} messages, {informed_1:g} by "
        "its tree with {transmissions_1:,}, and {informed_2:g} by the tree with acknowledgements, with "
        "{transmissions_2:,}.",
        f"A frame is lost with probability {loss:g}. {of_one_run(study)}",
        agents=agents,
        **ends,
    )
    study.table("at_the_end", f"Of {agents} agents", shown)
    axes = [Axis("time_s"), Axis("transmissions", label="messages")]
    know = Axis("informed", label="agents that know", counts=True)
    figure = partial(curves, study.rounds, know, axes, f"Flooding, {agents} agents, loss {loss:g}")
    study.figure(
        "informed", figure, "How many agents know the news, by simulated time and by messages sent.", hero=True
    )
