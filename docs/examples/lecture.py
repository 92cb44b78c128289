"""A server votes without a look at the candidate's log: a search finds how a committed command is lost."""

from functools import partial

from netsim import Link, Network, topology
from netsim.agents.classics import Raft
from netsim.faults.words import appending
from netsim.replay import compare
from netsim.testing import search

DRAWN = {"until": 1.5, "cuts": 4}  # links that fail, drawn anew for each seed


class Gullible(Raft):
    """Votes for whoever asks first in a term, however old the candidate's log is."""

    async def hear_vote_request(self, sender, term, last):
        own = self.log[-1][0], len(self.log)
        await super().hear_vote_request(sender, term, own)


class Kept:
    """A command that one server has committed stays in its place: no server ever commits another there."""

    def __init__(self):
        self.committed = []

    def __call__(self, agents):
        for name, agent in agents.items():
            own = agent.log[1 : agent.commit + 1]
            for place, ((_, command), first) in enumerate(zip(own, self.committed, strict=False), 1):
                assert command == first, f"{name} commits {command} as entry {place}, where {first} was committed"
            self.committed += [command for _, command in own[len(self.committed) :]]


def make(*, gullible: bool = True, seed: int = 1):
    server, graph = Gullible if gullible else Raft, topology.complete(3)
    network = Network(graph, Link(latency=0.01), seed=seed)
    agents = {i: server(commands=[(0.2 + 0.4 * k, f"{'abc'[i]}{k}") for k in range(4)]) for i in graph}
    return network, agents, {"until": 2.0}


if __name__ == "__main__":
    found = search(make, Kept, seeds=range(100), faults=DRAWN, order=True)
    print(found, found.replay("lecture.html"), sep="\n")
    network, agents, _ = make(gullible=False, seed=found.seed)
    with appending(found.words):
        mended = network.run(agents, until=found.time, order=found.schedule, trace=True)
    right = search(partial(make, gullible=False), Kept, seeds=range(300), faults=DRAWN, order=True)
    print("Raft as published:", right or "300 seeds break nothing")
    names = [f"Votes for whoever asks, seed {found.seed}", f"Raft as published, seed {found.seed}"]
    compare([found.run, mended], "lecture_branches.html", names=names)
    for name, run, title in zip(("mistake", "published"), (found.run, mended), names, strict=True):
        run.picture(f"lecture_{name}.png", view="map", begin=found.time, size=(440, 560), title=title)
