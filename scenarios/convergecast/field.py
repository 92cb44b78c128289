"""The positions of motes, their links, and the tree over which they report to the sink."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import networkx as nx

from netsim import BadInput, Deployment, Link, Network, Radio, topology
from netsim.radio import LogDistance, presets
from netsim.radio.phy import Phy
from netsim.scenarios.tasks.site import OwnSite
from netsim.util import check

_DEFAULTS = {"path-loss": {"exponent": 3.5, "shadowing": 4.0, "fading": 4.0}, "disk": {"loss": 0.1}}
_FRAME = 8 * 50  # frame size (bits on the air) that defines the links of motes at given places
_WHY = {"path-loss": "on a disk all within reach hear alike", "disk": "path loss decides how many frames are lost"}


@dataclass(frozen=True, kw_only=True)
class SensorField(OwnSite):
    """A field of motes.

    Parameters
    ----------
    agents : int
        Number of motes including the sink, which is the mote nearest to a corner.
    side : float
        Length of the field's sides in metres.
    radius : float
        Range in metres. "path-loss": the distance at which half of the frames are received, without shadowing. "disk":
        no frame is received beyond it.
    model : str
        "path-loss": log-distance path loss, which decides how many frames are lost; "disk": all motes within range
        receive each other's frames, except a share --loss.
    exponent : float
        "path-loss": its exponent, 3.5 by default.
    shadowing : float
        "path-loss": standard deviation in dB of each link's constant shadowing, as by walls; 4 by default.
    fading : float
        "path-loss": standard deviation in dB of the fading, which changes from frame to frame; 4 by default.
    loss : float
        "disk": probability that a frame is lost, 0.1 by default.
    tree : str
        "etx": paths with the fewest expected transmissions; "hops": paths with the fewest hops.
    """

    agents: int = 40
    side: float = 100.0
    radius: float = 25.0
    model: str = "path-loss"
    exponent: float | None = None
    shadowing: float | None = None
    fading: float | None = None
    loss: float | None = None
    tree: str = "etx"

    def resolved(self) -> "SensorField":
        """Return the field with all parameters of its model set; raises BadInput for unusable arguments."""
        check.integer("agents", self.agents, low=2)
        for name in ("side", "radius"):
            check.finite(name, getattr(self, name), above=0.0)
        model = check.one_of("model", self.model, list(_DEFAULTS))
        check.one_of("tree", self.tree, ("etx", "hops"))
        self.check_set()
        if self.site is not None:
            names = ("agents", "side", "radius", "model", *(name for each in _DEFAULTS.values() for name in each))
            self.check_left_out(**{name: (getattr(self, name), getattr(SensorField, name)) for name in names})
            return self
        given = {name for each in _DEFAULTS.values() for name in each if getattr(self, name) is not None}
        for name in sorted(given - _DEFAULTS[model].keys()):
            other = next(each for each in _DEFAULTS if each != model)
            raise BadInput(f"{name} = {getattr(self, name):g}: must go with model = {other!r}; {_WHY[other]}")
        usual = _DEFAULTS[model].items()
        left: dict[str, Any] = {name: each for name, each in usual if name not in given}
        found = replace(self, **left)
        if found.loss is not None and check.probability("loss", found.loss) == 1.0:
            raise check.refuse("loss", found.loss, "a probability below 1, or no mote hears another")
        return found

    def _placed(self, preset: presets.Preset) -> "Layout":
        """Return the layout of the site's motes; a mote without a path to the sink has the parent None."""
        found, radio = self.deployment(), preset.radio
        assert radio is not None
        assert radio.phy is not None
        if radio.phy.sense_dbm != Phy.sense_dbm:
            own = found.preset.radio.phy if found.preset.radio else None
            found = replace(found, phy=replace(own or radio.phy, sense_dbm=radio.phy.sense_dbm))
        received = found.reception(_FRAME)
        parents = dict.fromkeys(node for node in found.graph if node != found.sink)
        parents |= _parents(found.graph, received, found.sink, self.tree)
        return Layout(found.graph, {}, received, found.sink, parents, found)

    def layout(self, preset: presets.Preset, seed: int) -> "Layout":
        """Return the layout of motes, at random positions or those of a site, with their tree.

        Raises
        ------
        BadInput
            As `resolved`, or if some mote has no path to the sink.
        """
        field = self.resolved()
        return _at_random(field, preset.link, seed) if field.site is None else field._placed(preset)

    def _path_loss(self) -> LogDistance:
        """Return the path loss model, with the transmit power for which the power received at ``radius`` is the
        sensitivity."""
        given = {name: getattr(self, name) for name in ("exponent", "shadowing", "fading")}
        model = LogDistance(**{name: value for name, value in given.items() if value is not None})
        power = model.sensitivity + model.path_loss(self.radius)
        return replace(model, transmit_dbm=power)


@dataclass(frozen=True)
class Layout:
    """Motes with positions ``pos`` (m), their links, and ``parents``: each mote's next hop towards the sink."""

    graph: "nx.Graph[Any]"
    links: Mapping[tuple[Any, Any], Link]
    received: Mapping[tuple[Any, Any], float]
    """For each directed link, the probability that a frame is received if no other mote sends."""
    sink: Any
    parents: Mapping[Any, Any]
    deployment: Deployment | None = None
    """The deployment, if the motes are at given places; otherwise None."""

    def network(self, link: Link, radio: Radio, **options: Any) -> Network:
        """Return the network of these motes."""
        if self.deployment is not None:
            own = self.deployment.preset.radio
            assert own is not None
            names = ("access", "acks", "max_frame_retries", "duty_cycle")
            # All other settings, such as the transmit power, remain the site's.
            radio = replace(own, phy=None, **{name: getattr(radio, name) for name in names})
            return self.deployment.network(radio=radio, **options)
        return Network(self.graph, link, links=self.links, medium=radio, **options)

    def path(self, mote: Any) -> list[tuple[Any, Any]]:
        """Return the hops (sender, receiver) from a mote to the sink; none if there is no path."""
        hops = []
        while mote != self.sink and self.parents[mote] is not None:
            hops.append((mote, self.parents[mote]))
            mote = self.parents[mote]
        return hops

    def expected(self, mote: Any, tries: int) -> float:
        """Return the probability that a reading arrives without collisions: Π 1 − (1 − p)^tries over its hops.

        Here p is the probability that a frame is received over a hop. If only the acknowledgement is lost, the frame is
        sent again; a sender thus stops before ``tries`` only after the frame has arrived.
        """
        if self.parents[mote] is None:
            return 0.0
        return math.prod(1.0 - (1.0 - self.received[ends]) ** tries for ends in self.path(mote))


# The study's network, motes and report ask for the same layout one after the other.
@lru_cache(maxsize=1)
def _at_random(field: SensorField, link: Link, seed: int) -> Layout:
    """Return a field of motes at random places; see `SensorField.layout`."""
    try:
        graph = topology.random_geometric(field.agents, field.radius / field.side, seed=seed)
    except BadInput:
        allowed = f"larger: {field.agents} motes on {field.side:g} m × {field.side:g} m are hardly ever connected"
        raise check.refuse("radius", field.radius, allowed) from None
    places = {node: tuple(field.side * part for part in data["pos"]) for node, data in graph.nodes(data=True)}
    if field.loss is not None:
        nx.set_node_attributes(graph, places, "pos")
        ends = [pair for a, b in graph.edges for pair in ((a, b), (b, a))]
        links = dict.fromkeys(ends, replace(link, loss=field.loss))
    else:
        model = field._path_loss()
        graph, links = model.network(places, link=link, least=0.1, both=True, seed=seed, connected=False)
    sink = min(places, key=lambda node: math.hypot(*places[node]))
    cut = len(places) - (len(nx.node_connected_component(graph, sink)) if sink in graph else 0)
    if cut:
        allowed = f"larger: {cut} of {len(places)} motes without a path to the sink"
        raise check.refuse("radius", field.radius, allowed)
    received = {ends: 1.0 - each.loss_model.mean for ends, each in links.items()}
    return Layout(graph, links, received, sink, _parents(graph, received, sink, field.tree))


def _parents(graph: "nx.Graph[Any]", received: Mapping[tuple[Any, Any], float], sink: Any, tree: str) -> dict[Any, Any]:
    """Return each mote's next hop; a frame with acknowledgement costs an expected 1/(p_ab p_ba) transmissions.

    Source of the metric: De Couto, Aguayo, Bicket and Morris, "A high-throughput path metric for multi-hop wireless
    routing", MobiCom 2003.
    """

    def cost(a: Any, b: Any, _: Any) -> float | None:
        both = received[a, b] * received[b, a]
        # None means no link: reception may be possible in one direction only.
        return None if not both else 1.0 / both if tree == "etx" else 1.0

    paths = nx.single_source_dijkstra_path(graph, sink, weight=cost)
    return {mote: path[-2] for mote, path in paths.items() if mote != sink}
