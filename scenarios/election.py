"""Leader election on a ring, and the effect of a lost message."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

import netsim
from netsim import Link, Network, topology
from netsim.draw import Badge, Role
from netsim.links import latency as latencies
from netsim.scenarios.flooding import ask
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.studies.seeds import DataSeeds
from netsim.util import check


class Candidate(netsim.Agent):
    """Forwards identifiers larger than its own; becomes leader if its own returns (Chang and Roberts 1979)."""

    draw: ClassVar = {
        "role": Role(lambda a: role(a), usual="candidate"),
        "number": Badge(),
        "leader": Badge(),
    }

    def __init__(self, number: int, onward: Any, timeout: float | None = None) -> None:
        self.number, self.onward, self.timeout = number, onward, timeout
        self.leader: int | None = None
        self.seen: set[tuple[str, int]] = set()

    async def run(self) -> None:
        """Send its identifier, and handle received messages until no frame is in flight."""
        async with asyncio.TaskGroup() as telling:
            telling.create_task(self.tell("candidate", self.number))
            async for frame in self.inbox:
                if frame.request is not None:
                    await self.reply(frame, None)
                if (frame.kind, frame.payload) not in self.seen:
                    self.seen.add((frame.kind, frame.payload))
                    self.take_in(frame.kind, frame.payload, telling)

    def take_in(self, kind: str, number: int, telling: asyncio.TaskGroup) -> None:
        """Handle a message received for the first time: forward a larger candidate, or accept the leader."""
        if kind == "candidate" and number > self.number:
            telling.create_task(self.tell("candidate", number))
        elif (kind == "candidate" and number == self.number) or (kind == "leader" and self.leader is None):
            self.leader = number
            telling.create_task(self.tell("leader", number))

    async def tell(self, kind: str, number: int) -> None:
        """Forward a message once, or repeatedly until it is acknowledged."""
        if self.timeout is None:
            await self.send(self.onward, kind, number)
        else:
            await ask(self, self.onward, kind, number, timeout=self.timeout, attempts=100)


def role(agent: Candidate) -> str:
    """Return an agent's role: candidate until it knows a leader, then follower or leader."""
    if agent.leader is None:
        return "candidate"
    return "leader" if agent.leader == agent.number else "follower"


def informed(agents: Mapping[Any, Candidate]) -> int:
    """Return the number of agents that know a leader."""
    return sum(agent.leader is not None for agent in agents.values())


def election(
    study: Study,
    *,
    agents: int = 12,
    loss: float = 0.05,
    latency: float = 0.01,
    seeds: DataSeeds = DataSeeds(seed=1),
) -> None:
    """Leader election on a ring, with each message sent once, and with repetition until acknowledgement.

    Each agent has a number as its identifier, and sends only to the next agent. The largest number should win.

    Parameters
    ----------
    agents : int
        Number of agents, at least 3.
    loss : float
        Probability that a frame is lost.
    latency : float
        Mean latency in seconds; each frame's is uniform from half to one and a half times the mean.
    """
    graph = topology.ring(agents)
    numbers = np.random.default_rng(seeds.data).permutation(agents).tolist()
    link = Link(latency=latencies.uniform(check.finite("latency", latency, above=0) / 2, latency * 1.5), loss=loss)
    for name, timeout in (("once", None), ("acknowledged", 4 * latency)):
        team = {node: Candidate(numbers[node], (node + 1) % agents, timeout) for node in graph}
        network = Network(graph, link, seed=seeds.network)
        study.run(name, network, team, [informed], rounds=2 * agents, sample=latency)
    last = study.rounds.groupby("algorithm", sort=False, as_index=False).last()
    once, acked = (row for _, row in last.iterrows())
    study.ask("Do all agents of a ring learn who leads, if a message may be lost?")
    answer(
        study,
        "Of {agents} agents {once:g} know a leader where messages are sent once, {sent:,} of them, and {acked:g} where "
        "they are acknowledged, with {more:,} messages.",
        f"A frame is lost with probability {loss:g}. {of_one_run(study)}",
        **{"agents": agents, "once": once["informed"], "sent": once["transmissions"]},
        **{"acked": acked["informed"], "more": acked["transmissions"]},
    )
    shown = last[["algorithm", "informed", "transmissions", "lost", "time_s"]]
    study.table("at_the_end", f"Of {agents} agents on a ring", shown)
    axes = [Axis("time_s"), Axis("transmissions", label="messages")]
    knowing = Axis("informed", label="agents that know a leader", counts=True)
    figure = partial(curves, study.rounds, knowing, axes, f"Election, {agents} agents, loss {loss:g}")
    study.figure(
        "informed", figure, "How many agents know a leader, by simulated time and by messages sent.", hero=True
    )
