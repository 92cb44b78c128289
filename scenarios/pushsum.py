"""Averaging over lossy links: Metropolis weights, whose mean drifts, and push-sum with and without running sums."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

import netsim
from netsim import Link, Network, topology
from netsim.draw import Number
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.studies.graphs import OwnTopology
from netsim.studies.seeds import GraphSeeds
from netsim.util import check


class Metropolis(netsim.Agent):
    """Moves its value towards received values, with weights that preserve the mean while no frame is lost."""

    draw: ClassVar = {"value": Number()}

    def __init__(self, value: float, rounds: int) -> None:
        self.value, self.duration = value, rounds

    async def run(self) -> None:
        """Broadcast the value and average it in each round."""
        degree = len(self.neighbors)
        async for _ in self.rounds(self.duration):
            await self.broadcast("state", [self.value, degree])
            heard = [frame.payload for frame in await self.collect()]
            self.value += sum((value - self.value) / (1 + max(degree, other)) for value, other in heard)


class PushSum(netsim.Agent):
    """Broadcasts shares of a sum and a weight; the estimate is their ratio (Kempe, Dobra and Gehrke 2003)."""

    draw: ClassVar = {"value": Number()}

    def __init__(self, value: float, rounds: int) -> None:
        self.held, self.duration = np.array([value, 1.0]), rounds

    @property
    def value(self) -> float:
        """Return the agent's estimate of the mean."""
        return float(self.held[0] / self.held[1])

    def to_say(self, share: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
        """Return the payload from which each neighbour derives the share sent to it."""
        return share

    def received(self, frame: netsim.Frame) -> Any:
        """Return the share carried by a frame."""
        return frame.payload

    async def run(self) -> None:
        """Broadcast a share and add the received shares in each round."""
        async for _ in self.rounds(self.duration):
            self.held = self.held / (1 + len(self.neighbors))
            await self.broadcast("share", self.to_say(self.held))
            self.held = self.held + sum(self.received(frame) for frame in await self.collect())


class RunningPushSum(PushSum):
    """Broadcasts the sum of all its shares so far, so that the next frame replaces a lost one (Vaidya et al. 2011)."""

    def __init__(self, value: float, rounds: int) -> None:
        super().__init__(value, rounds)
        self.sent: Any = np.zeros(2)
        self.known: dict[Any, Any] = {}

    def to_say(self, share: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
        """Return the sum of all shares sent so far."""
        self.sent = self.sent + share
        return self.sent

    def received(self, frame: netsim.Frame) -> Any:
        """Return the share received: the increase of the sender's running sum since its last received frame."""
        before = self.known.get(frame.sender, 0.0)
        self.known[frame.sender] = frame.payload
        return frame.payload - before


def pushsum(
    study: Study,
    *,
    agents: int = 20,
    radius: float = 0.4,
    loss: float = 0.1,
    rounds: int = 100,
    own: OwnTopology = OwnTopology(),  # noqa: B008 (frozen)
    seeds: GraphSeeds = GraphSeeds(seed=1),
) -> None:
    """Averaging over lossy links: Metropolis weights, push-sum, and push-sum with running sums.

    Each agent's initial value is its index. The error is the distance of its estimate from the mean of all indices.

    Parameters
    ----------
    agents : int
        Number of agents.
    radius : float
        Reach of an agent's radio in a field of 1 x 1.
    loss : float
        Probability that a frame is lost.
    rounds : int
        Number of rounds.
    """
    rounds = check.integer("rounds", rounds, low=1)
    graph = own.graph_of(
        agents, partial(topology.random_geometric, agents, radius, seed=seeds.graph), radius=(radius, 0.4)
    )
    mean = (agents - 1) / 2

    def wrong(team: Mapping[Any, Any]) -> dict[str, float]:
        values = np.array([agent.value for agent in team.values()])
        return {"error": float(np.abs(values - mean).max()), "spread": float(np.ptp(values))}

    kinds = {"metropolis": Metropolis, "push-sum": PushSum, "push-sum-running": RunningPushSum}
    for name, kind in kinds.items():
        team = {node: kind(float(node), rounds) for node in graph}
        network = Network(graph, Link(loss=loss), seed=seeds.network)
        study.run(name, network, team, [wrong], rounds=rounds)
    last = study.rounds.groupby("algorithm", sort=False, as_index=False).last()
    study.ask("Which way to average survives lost frames?")
    metropolis, push, running = last["error"]
    answer(
        study,
        "After {rounds:,} rounds the agent that is furthest off is {metropolis:.2g} from the mean with Metropolis "
        "weights, {push:.2g} with push-sum, and {running:.2g} with running sums.",
        f"{agents} agents that lose a share {loss:g} of the frames. {of_one_run(study)}",
        **{"rounds": rounds, "metropolis": metropolis, "push": push, "running": running},
    )
    study.table("at_the_end", f"After {rounds} rounds, the mean being {mean:g}", last[["algorithm", "error", "spread"]])
    error = Axis("error", log=True, label="largest distance from the mean")
    title = f"Averaging over lossy links, {agents} agents, loss {loss:g}"
    study.figure(
        "error",
        partial(curves, study.rounds, error, [Axis("round"), Axis("wire_bits")], title),
        "How far the agent that is furthest off is from the mean, by rounds and by bits on the wire.",
        hero=True,
    )
