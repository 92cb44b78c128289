"""The networks of an experiment: links on a graph, a site of motes, or a function that makes a network."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import networkx as nx

from netsim.deployment import Deployment
from netsim.errors import BadInput
from netsim.faults import Fault
from netsim.links.link import Link
from netsim.links.measured import LinkedGraph
from netsim.network import Capacities, Compute, Medium, Network, limits_of
from netsim.radio import Radio
from netsim.studies.experiment import paths
from netsim.studies.experiment.paths import brief
from netsim.studies.experiment.setup import Ends, Setup
from netsim.util import check


@runtime_checkable
class AnyNetwork(Protocol):
    """Makes the network of a run."""

    def topology(self, setup: Setup) -> "nx.Graph[Any] | None":
        """Return the network's graph, or None if the network uses the problem's graph."""
        network = self.network(setup)
        if not network.scenery:
            return network.graph
        return network.graph.subgraph(node for node in network.graph if node not in network.scenery).copy()

    def network(self, setup: Setup) -> Network:
        """Return the network of a run."""
        ...


@check.named
@dataclass(frozen=True, kw_only=True)
class Links:
    """A network of an experiment: links on a graph, made anew for each run.

    For motes at positions use a `netsim.Deployment`, for measured links a `netsim.links.LinkedGraph`. The network of a
    run is a `netsim.Network`.

    Parameters
    ----------
    link : Link or callable
        The settings of every link, or a function of `Ends` that returns those of each directed link.
    graph : networkx.Graph or callable, optional
        The graph, or a function of the graph's seed that returns one. Default: the problem's. Keyword arguments of
        functions have paths, like the fields of dataclasses.
    medium, round_period, compute, faults, uplink, downlink, sharing
        As for `netsim.Network`.
    """

    link: Link | Callable[[Ends], Link] = field(default_factory=Link)
    graph: "nx.Graph[Any] | Callable[[int], nx.Graph[Any]] | None" = None
    medium: Medium = "wires"
    round_period: float = 1.0
    compute: Compute | None = None
    faults: Sequence[Fault] = ()
    uplink: Capacities | None = None
    downlink: Capacities | None = None
    sharing: Literal["fair", "fifo"] = "fair"

    def __post_init__(self) -> None:
        if not isinstance(self.link, Link) and (not callable(self.link) or inspect.isclass(self.link)):
            raise check.refuse("link", self.link, "a netsim.Link, or a function of Ends")
        if self.graph is not None and not isinstance(self.graph, nx.Graph) and not callable(self.graph):
            raise check.refuse("graph", self.graph, "a networkx.Graph, or a function of the seed")
        if not isinstance(self.medium, Radio):
            check.one_of("medium", self.medium, ("wires", "radio"))
        # Results depend on the limits in a file, not on its name, so the file is read here.
        check.put(self, uplink=limits_of("uplink", self.uplink), downlink=limits_of("downlink", self.downlink))

    @property
    def ideal(self) -> bool:
        """Whether every frame arrives without loss or delay."""
        limited = self.uplink is not None or self.downlink is not None
        return self.link == Link() and self.medium in ("wires", "radio") and not self.faults and not limited

    def topology(self, setup: Setup) -> "nx.Graph[Any] | None":
        """Return the graph, or None if the links use the problem's graph."""
        if not callable(self.graph):
            return self.graph
        draw: Callable[..., nx.Graph[Any]] = self.graph
        seed = inspect.signature(draw).parameters.get("seed")
        is_named = seed is not None and seed.default is not seed.empty
        return draw(seed=setup.seeds.graph) if is_named else draw(setup.seeds.graph)

    def network(self, setup: Setup) -> Network:
        """Return the network of a run; raises BadInput if the function of ends returns no link."""
        assert setup.graph is not None
        graph, link, own = setup.graph, self.link, {}
        if not isinstance(link, Link):
            arcs = graph.edges if graph.is_directed() else graph.to_directed().edges
            own = {(sender, receiver): link(Ends(sender, receiver, setup)) for sender, receiver in arcs}
            for (sender, receiver), each in own.items():
                if not isinstance(each, Link):
                    raise BadInput(f"{brief(link)}: must return a netsim.Link for {sender!r} → {receiver!r}")
            # On a shared medium the transmitter's rate and queue must be those of the network's link.
            link = next(iter(own.values()), Link())
        return Network(
            graph,
            link,
            links=own,
            round_period=self.round_period,
            medium=self.medium,
            seed=setup.seeds.network,
            faults=self.faults,
            compute=self.compute,
            uplink=self.uplink,
            downlink=self.downlink,
            sharing=self.sharing,
        )


@dataclass(frozen=True)
class FromMeasured(AnyNetwork):
    """A network of measured links."""

    measured: LinkedGraph

    def network(self, setup: Setup) -> Network:
        """Return the network of a run."""
        return Network(self.measured.graph, links=self.measured.links, seed=setup.seeds.network)


@dataclass(frozen=True)
class Site(AnyNetwork):
    """A network of motes at given positions."""

    deployment: Deployment

    def network(self, setup: Setup) -> Network:
        """Return the network of a run."""
        return self.deployment.network(seed=setup.seeds.network)


@dataclass(frozen=True)
class MadeNetwork(paths.FromFunction, AnyNetwork):
    """A function that makes a network: ``function(setup, **parameters) -> Network``, called before the problem is made.

    It may also return a `Deployment`.
    """

    def network(self, setup: Setup) -> Network:
        """Return the network of a run; raises BadInput if the function returns something else."""
        found = self.function(setup)
        if isinstance(found, Deployment):
            found = found.network(seed=setup.seeds.network)
        if not isinstance(found, Network):
            raise BadInput(f"{brief(self.function)}(setup): must return a netsim.Network, not {brief(found)}")
        return found


def network_of(given: Any) -> AnyNetwork:
    """Return an argument as a network: a `Link`, a graph, measured links, a `Deployment` or a function is wrapped.

    Raises BadInput for any other type.
    """
    if isinstance(given, Link):
        return Links(link=given)
    if isinstance(given, nx.Graph):
        return Links(graph=given)
    if isinstance(given, LinkedGraph):
        return FromMeasured(given)
    if isinstance(given, Deployment):
        return Site(given)
    if isinstance(given, AnyNetwork) and not inspect.isclass(given):
        return given
    if callable(given) and not inspect.isclass(given):
        return MadeNetwork(given)
    allowed = "Links, a Link, a graph, measured links, a Deployment, or a function of a Setup that returns a Network"
    raise check.refuse("networks", given, allowed)
