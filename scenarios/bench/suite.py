"""The suite: problems, networks, seeds, tuning. A change of any of these requires a new version number."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import networkx as nx

from netsim import BadInput, Link, Network, Setup, loss
from netsim.links.measured import LinkedGraph, grenoble, intel_lab
from netsim.scenarios.tasks.motes import numbered

VERSION = 1
SEEDS = range(10)
"""The seeds of the final runs."""

TUNING_SEEDS = range(100, 103)
"""The seeds on which methods are tuned."""

CANDIDATES = 12
"""Candidates per case in successive halving: 12 on one seed, the best 6 on a second, 3 on a third: 21 runs."""

RANGES: Mapping[str, str] = {
    "eta": "0.01:3:log",
    "rho": "0.001:10:log",
    "gamma": "0.03:1:log",
    "beta": "0.01:1:log",
    "v": "0.001:3:log",
    "mu": "0.9:0.995",
}
"""For each parameter name, the range in which tuning searches; other parameters keep their values."""

AGENTS, EDGES = 10, 28
"""Numbers of nodes and edges of the random graph."""


@dataclass(frozen=True)
class Links:
    """A network of the benchmark: uniform links on the problem's graph, or a measured network.

    Attributes
    ----------
    about : str
        A description.
    link : Link
        The links of the problem's graph.
    measured : callable, optional
        Returns a measured network, in place of a random graph. It needs the tables in NETSIM_DATA.
    """

    about: str
    link: Link = field(default_factory=Link)
    measured: Callable[[], LinkedGraph] | None = None

    def missing(self) -> str:
        """Return the reason why the network is unavailable, with the missing table's name; "" if it is available."""
        try:
            if self.measured is not None:
                self.measured()
        except BadInput as error:
            return str(error)
        return ""

    def topology(self, setup: Setup) -> "nx.Graph[int] | None":
        """Return the measured graph, or None to use the problem's graph; raises BadInput if a table is missing."""
        return None if self.measured is None else numbered(self.measured()).graph

    def network(self, setup: Setup) -> Network:
        """Return the network of a run; raises BadInput if a table is missing."""
        assert setup.graph is not None
        links = {} if self.measured is None else numbered(self.measured()).links
        return Network(setup.graph, self.link, links=links, medium="radio", seed=setup.seeds.network)


NETWORKS: Mapping[str, Links] = {
    "ideal": Links("no frame is lost"),
    "loss-1": Links("1 % of the frames are lost, independently", Link(loss=0.01)),
    "loss-10": Links("10 % of the frames are lost, independently", Link(loss=0.1)),
    "bursts": Links("10 % of the frames are lost, 5 in a row on average", Link(loss=loss.gilbert_elliott(0.1, 5.0))),
    "intel-lab": Links("53 motes and 202 links of the Intel lab, 50 % of the frames are lost", measured=intel_lab),
    "grenoble": Links("50 nodes and 211 links of FIT IoT-LAB Grenoble, 15 % are lost", measured=grenoble),
}
"""The networks by name."""
