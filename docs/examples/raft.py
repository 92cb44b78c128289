"""Raft on five servers, right or with a mistake: `netsim lab docs/examples/raft.py` shows it, and takes faults.

`netsim run docs/examples/raft.py --at "1 partition 0,1 until 2"` cuts two servers off. A server that crashes keeps its
disk if the fault says so: `--at "0.5 crash 2 until 1 keeping state"`.
"""

from netsim import Link, Network, latency, topology
from netsim.agents.classics import Raft
from netsim.util import check


class Turncoat(Raft):
    """Votes for whoever asks, although it has voted in this term: for itself, perhaps."""

    async def hear_vote_request(self, sender, term, last):
        self.voted_for = None
        await super().hear_vote_request(sender, term, last)


class Forgetful(Raft):
    """Does not write its vote to disk: it has forgotten it after a crash."""

    async def run(self):
        self.voted_for = None
        await super().run()


class Half(Raft):
    """Takes half of the servers for a majority: if their number is even, there are two such halves."""

    def quorum(self):
        return (len(self.neighbors) + 1) // 2


VERSIONS = {"right": Raft, "turncoat": Turncoat, "forgetful": Forgetful, "half": Half}


def make(
    *,
    agents: int = 5,
    version: str = "right",
    shortest: float = 0.15,
    longest: float = 0.3,
    loss: float = 0.05,
    seconds: float = 3.0,
    seed: int = 1,
):
    """Return a network of servers that agree on a list of commands, and its agents.

    Parameters
    ----------
    agents : int
        Number of servers.
    version : str
        "right", or one of three mistakes: "turncoat", "forgetful", "half".
    shortest : float
        A server waits for a leader at least so long, in seconds.
    longest : float
        And at most so long, in seconds.
    loss : float
        Probability that a frame is lost.
    seconds : float
        When the run ends.
    seed : int
        Everything random derives from it.
    """
    server = VERSIONS[check.one_of("version", version, VERSIONS)]
    graph = topology.complete(agents)
    network = Network(graph, Link(latency=latency.uniform(0.005, 0.02), loss=loss), seed=seed)
    commands = [(0.5 + 0.25 * k, f"x={k}") for k in range(int(4 * seconds) - 4)]
    return network, {i: server(election=(shortest, longest), commands=commands) for i in graph}, {"until": seconds}
