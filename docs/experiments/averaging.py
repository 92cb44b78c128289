"""Averaging on three topologies, with and without losses: what a lecture shows in a few lines."""

import netsim
from netsim import Experiment, Links, topology, vary


class Average(netsim.Agent):
    def __init__(self, rounds):
        self.number = rounds

    async def run(self):
        self.value = float(self.name)
        async for _ in self.rounds(self.number):
            await self.broadcast("state", self.value)
            heard = [frame.payload for frame in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))


def spread(agents):
    values = [agent.value for agent in agents.values()]
    return {"spread": max(values) - min(values), "mean": sum(values) / len(values)}


experiment = Experiment(
    methods=Average,
    networks={
        "ring": Links(graph=topology.ring(12)),
        "grid": Links(graph=topology.grid(3, 4)),
        "random": Links(graph=lambda seed: topology.random_geometric(12, 0.5, seed=seed)),
    },
    names={"loss": "network.link.loss"},
    grid=vary("loss", [0.0, 0.1, 0.3]),
    measure=[spread],
    rounds=40,
    seeds=range(4),
)

if __name__ == "__main__":
    results = experiment.run()
    print(results)
    print(results.runs.pivot_table(index="network", columns="loss", values=["spread", "mean"]).round(3))
