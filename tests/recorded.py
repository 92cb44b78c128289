"""A real run in the data format of a replay page."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import netsim
from netsim import Link, Network, latency, loss, topology
from netsim.replay.frames import frames_of
from netsim.replay.render import About, describe

Columns = dict[str, NDArray[Any]]


class Average(netsim.Agent):
    """Averages with its neighbours, and also replies to some of them."""

    def __init__(self, rounds: int) -> None:
        self.rounds_left, self.value = rounds, 0.0

    async def run(self) -> None:
        """Broadcast and collect in each round."""
        self.value = float(self.rng.normal())
        async for number in self.rounds(self.rounds_left):
            await self.broadcast("state", self.value)
            heard = [frame for frame in await self.collect() if frame.kind == "state"]
            self.value = sum((float(frame.payload) for frame in heard), self.value) / (1 + len(heard))
            if heard and number % 3 == 0:
                await self.send(heard[0].sender, "thanks", number)


def states_at(states: pd.DataFrame, columns: Columns, time: float) -> pd.DataFrame:
    """Return, for each agent in order, the row of `Run.states` that the page shows at a time.

    It is the last row by that time; for an agent that sends at that time, the row of its first sending.
    """
    sends = np.flatnonzero(columns["start"] == time)
    first: dict[int, int] = {}
    for sender, number in zip(columns["sender"][sends].tolist(), columns["number"][sends].tolist(), strict=True):
        first[sender] = min(number, first.get(sender, number))
    numbers = {name: i for i, name in enumerate(states["agent"].unique())}
    sent = states["agent"].map(numbers).map(first).fillna(np.inf)
    known = states[(states["time_s"] < time) | ((states["time_s"] == time) & (states["sent"] <= sent))]
    return known.groupby("agent", sort=False).last()


def averaging(agents: int, rounds: int, lost: float = 0.05, degree: float = 6.0) -> tuple[dict[str, Any], Columns]:
    """Run averaging on a random geometric graph; return the arguments for `netsim.replay.html.html`."""
    graph = topology.random_geometric(agents, radius=(degree / agents / np.pi) ** 0.5 * 1.15 + 0.08, seed=3)
    link = Link(latency=latency.uniform(0.02, 0.105), loss=loss.bernoulli(lost), rate=250e3)

    def probe(running: Any) -> dict[str, float]:
        values = np.array([agent.value for agent in running.values()])
        return {"spread": float(values.std()), "mean": float(values.mean())}

    network = Network(graph, link, round_period=0.1, seed=7)
    network.watch(["value"])
    run = network.run({name: Average(rounds) for name in graph}, [probe], trace=True)
    frames = frames_of(run.trace)
    rounds = run.rounds[["time_s", "spread", "mean", "delivered", "lost"]]
    return describe(run.trace, frames, About("averaging, with loss"), rounds, run.states), frames.columns
