"""Networks from measured links: tables of reception, and loaders for published measurements.

Each function except `cellular` returns a graph and the settings of its links, for ``Network(graph, link,
links=links)``. The loaders read data sets of `netsim.datasets` from the folder NETSIM_DATA or the cache, or files at a
given path.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np

from netsim.datasets import SETS, find
from netsim.errors import BadInput, one_line
from netsim.files.content import FileContent
from netsim.files.measured import is_k7, k7_table
from netsim.links import loss as losses
from netsim.links import rate
from netsim.links.link import Link
from netsim.links.loss import Loss
from netsim.util import check, tables
from netsim.util.datafiles import used

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "LinkedGraph",
    "cellular",
    "from_graph",
    "from_reception",
    "from_table",
    "grenoble",
    "intel_lab",
    "rutgers",
    "synthetic_lab",
    "ulb_library",
]

Pair = tuple[Any, Any]

# Names of edge attributes for rates and distances, which `netsim.topology.read` keeps. LinkSpeedRaw (bit/s) is from the
# Topology Zoo, and dist (km) from TopoHub.
_RATES, _DISTANCE = ("rate", "LinkSpeedRaw"), "dist"
_LONGEST_S = 10.0


class LinkedGraph(NamedTuple):
    """A graph and the settings of its links: ``Network(found.graph, links=found.links)``.

    The counterpart for a radio that all nodes share is `netsim.radio.RadioGraph`.

    Attributes
    ----------
    graph : Graph
        The graph, with an edge for each linked pair; nodes have ``pos`` (m) if positions are known.
    links : dict
        The settings of each directed link: {(sender, receiver): Link}.
    """

    graph: "nx.Graph[Any]"
    links: dict[Pair, Link]


# --- tables -----------------------------------------------------------------------------------------------------------


def from_table(
    table: "str | Path | pd.DataFrame",
    *,
    link: Link | None = None,
    least: float = 0.0,
    both: bool = False,
    positions: Mapping[Any, Sequence[float]] | None = None,
    bits: int | None = None,
    coherence: float | None = None,
) -> LinkedGraph:
    """Return links from a table of reception probabilities, which is a DataFrame or a file of measured links.

    Parameters
    ----------
    table : path or DataFrame
        A DataFrame or the path of a csv file, with columns ``sender, receiver, reception`` and a row for each measured
        directed pair. A pair without a row has the reception 0; the two directions may differ. Or the path of a K7
        trace, possibly compressed by gzip; the reception of a pair is then its mean ``pdr`` over all channels and
        times.
    link : Link, optional
        The settings of all links, except the loss, which is computed from the table.
    least : float
        The minimum reception probability of a linked pair; a pair with reception 0 is never linked.
    both : bool
        Whether a linked pair must reach ``least`` in both directions. Otherwise one direction suffices, and the other
        direction has its measured loss.
    positions : mapping, optional
        {node: (x, y)} in metres, for all nodes that have a link.
    bits : int, optional
        Length of the measured frames in bits, including headers, for `Link.loss_bits`: a `netsim.Radio` scales the loss
        for frames of other lengths. None: frames of all lengths have the same loss.
    coherence : float, optional
        Length of loss blocks in seconds: each direction of a link loses all frames of a block or none, independently of
        other blocks. Default: each frame is lost independently, even if it is a retransmission within milliseconds.

    Raises
    ------
    BadInput
        If the table lacks a column, has two rows for a pair, or has a reception that is not a probability, or if no
        pair is linked.
    """
    if isinstance(table, str | Path) and is_k7(FileContent.read("table", table)):
        table = _k7_means(_read(table, ("src", "dst", "pdr")))
    frame = _read(table, ("sender", "receiver", "reception"))
    reception: dict[Pair, float] = {}
    columns = (frame[name].tolist() for name in ("sender", "receiver", "reception"))
    for place, (sender, receiver, value) in enumerate(zip(*columns, strict=True)):
        if (sender, receiver) in reception:
            where = _place_of_row(table, frame, place)
            raise BadInput(f"{where}: must be the only one from {sender!r} to {receiver!r}")
        if not (type(value) is float and 0.0 <= value <= 1.0):
            value = check.probability(f"{_place_of_row(table, frame, place)}: reception", value)
        reception[sender, receiver] = value
    found = _of_reception("table", reception, _for_bits(link, bits), least, both, positions, coherence=coherence)
    lacking = [node for node in found.graph if positions is not None and node not in positions]
    if lacking:
        raise BadInput(f"positions: must have all nodes of the table that have a link; node {lacking[0]!r} is missing")
    return found


def _k7_means(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the mean reception of each pair of a K7 trace."""
    means = rows.groupby(["src", "dst"], sort=False)["pdr"].mean().reset_index()
    return means.rename(columns={"src": "sender", "dst": "receiver", "pdr": "reception"})


def from_reception(
    reception: Mapping[Pair, float],
    *,
    link: Link | None = None,
    least: float = 0.0,
    both: bool = False,
    positions: Mapping[Any, Sequence[float]] | None = None,
    nodes: Iterable[Hashable] = (),
    coherence: float | None = None,
) -> LinkedGraph:
    """Return links from a mapping of reception probabilities, {(sender, receiver): p}; see `from_table`.

    The graph contains all ``nodes``, even those without a link.
    """
    return _of_reception("reception", reception, link, least, both, positions, nodes, coherence)


def from_graph(graph: "nx.Graph[Any]", *, link: Link | None = None, speed: float = 2e8) -> LinkedGraph:
    """Return links from the attributes of a graph's edges; `netsim.topology.read` reads such a graph from a file.

    The attribute ``latency`` is in seconds. Without ``latency``, the latency is computed from ``dist`` (km) and
    ``speed``. The attribute ``rate``, or else ``LinkSpeedRaw``, is in bit/s, and ``loss`` is a probability. Numbers may
    be given as text. Missing settings are taken from ``link``.

    Parameters
    ----------
    graph : Graph
        The graph. An undirected edge becomes two links with equal settings.
    link : Link, optional
        The settings that edges do not specify; default: those of an ideal link.
    speed : float
        The speed of the signal in m/s. The default is about two thirds of the speed of light, as in fibre.

    Raises
    ------
    BadInput
        If an attribute has an invalid value.
    """
    check.instance("graph", graph, nx.Graph, "a networkx graph")
    usual, metres = Link() if link is None else link, check.finite("speed", speed, above=0)
    known: dict[tuple[tuple[str, float], ...], Link] = {}
    links: dict[Pair, Link] = {}
    for a, b, data in graph.edges(data=True):
        own = _settings_of(f"edge ({a!r}, {b!r})", data, metres)
        # Edges with the same settings share one `Link`, to save memory.
        key = tuple(own.items())
        if key not in known:
            given: dict[str, Any] = dict(own)
            known[key] = replace(usual, **given) if own else usual
        links[a, b] = known[key]
        if not graph.is_directed():
            links[b, a] = known[key]
    return LinkedGraph(graph, links)


def _settings_of(where: str, data: Mapping[str, Any], speed: float) -> dict[str, float]:
    """Return the link settings in the attributes of an edge."""
    found: dict[str, float] = {}
    if "latency" in data:
        found["latency"] = check.finite(f"{where}: latency", _as_number(data["latency"]), low=0)
        if found["latency"] > _LONGEST_S:
            check.doubt(f"{where}: latency = {found['latency']:g}: is in seconds; were milliseconds given?")
    elif _DISTANCE in data:
        found["latency"] = check.finite(f"{where}: dist", _as_number(data[_DISTANCE]), low=0) * 1e3 / speed
    rate_name = next((name for name in _RATES if name in data), None)
    if rate_name is not None:
        found["rate"] = check.finite(f"{where}: {rate_name}", _as_number(data[rate_name]), above=0)
    if "loss" in data:
        found["loss"] = check.probability(f"{where}: loss", _as_number(data["loss"]))
    return found


def _as_number(value: Any) -> Any:
    """Convert a text to a number; return anything else unchanged, for the caller's check."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _for_bits(link: Link | None, bits: int | None) -> Link | None:
    """Return ``link`` with ``loss_bits`` set to ``bits``; if ``bits`` is None, return ``link`` unchanged."""
    return link if bits is None else replace(Link() if link is None else link, loss_bits=bits)


def _of_reception(
    given: str,
    reception: Mapping[Pair, float],
    link: Link | None,
    least: float,
    both: bool,
    positions: Mapping[Any, Sequence[float]] | None,
    nodes: Iterable[Hashable] = (),
    coherence: float | None = None,
) -> LinkedGraph:
    model, least = Link() if link is None else link, check.probability("least", least)
    if coherence is not None:
        check.finite("coherence", coherence, low=losses.SHORTEST_SLOT)
    reception = {
        # Call `check.probability` only for suspect values: to format its first argument for millions of links would
        # take seconds.
        pair: value
        if type(value) is float and 0.0 <= value <= 1.0
        else check.probability(f"reception[{pair!r}]", value)
        for pair, value in check.mapping("reception", reception).items()
    }
    lost = {pair: 1.0 - value for pair, value in reception.items()}
    good = {pair for pair, value in reception.items() if value >= least and value > 0}
    models: dict[float, Loss] = {}
    loss_of: dict[Pair, Loss] = {}
    for pair, value in lost.items():
        if pair in good or (pair[1], pair[0]) in good:
            if value not in models:
                models[value] = _loss_model(value, coherence)
            loss_of[pair] = models[value]
    return _network(given, loss_of, good, model, both, positions, nodes)


def _loss_model(mean: float, coherence: float | None) -> Loss:
    """Return a loss model with this mean: losses are independent or, with ``coherence``, come in whole blocks."""
    if coherence is None or not 0.0 < mean < 1.0:
        return losses.bernoulli(mean)
    return losses.gilbert_elliott(mean, 1.0 / (1.0 - mean), slot=coherence)


def _network(
    given: str,
    loss_of: Mapping[Pair, Loss],
    good: Iterable[Pair],
    link: Link,
    both: bool,
    positions: Mapping[Any, Sequence[float]] | None = None,
    nodes: Iterable[Hashable] = (),
) -> LinkedGraph:
    """Return the network in which two nodes are linked if ``good`` contains a direction or, with ``both``, both."""
    good = set(good)
    graph: nx.Graph[Any] = nx.Graph()
    edges: dict[Pair, None] = {}
    for a, b in loss_of:
        if a != b and (a, b) in good and (not both or (b, a) in good) and (b, a) not in edges:
            edges[a, b] = None
    alone = set(nodes)
    if not edges and not alone:
        raise BadInput(f"{given}: must leave a link; every reception is 0 or below ``least``")
    graph.add_nodes_from(sorted(alone | {node for pair in edges for node in pair}, key=_sort_key))
    graph.add_edges_from(edges)
    for node in graph if positions is not None else ():
        if positions is not None and node in positions:
            graph.nodes[node]["pos"] = tuple(positions[node])
    # The loss of a direction that was not measured: every frame is lost.
    silent = losses.bernoulli(1.0)
    # Links with the same loss model share their settings, to save memory: a network may have millions of links.
    settings: dict[int, Link] = {}
    links: dict[Pair, Link] = {}
    for a, b in graph.edges:
        for pair in ((a, b), (b, a)):
            loss = loss_of.get(pair, silent)
            if id(loss) not in settings:
                settings[id(loss)] = link.with_loss(loss)
            links[pair] = settings[id(loss)]
    return LinkedGraph(graph, links)


def _sort_key(node: Hashable) -> tuple[bool, int | float, str]:
    """Return a sort key that puts numbers first, by value, and then other names."""
    is_number = isinstance(node, int | float)
    # Do not convert integers to float, because an integer may be too large for a float.
    return not is_number, node if isinstance(node, int | float) else 0, str(node)


def _place_of_row(table: "str | Path | pd.DataFrame", frame: "pd.DataFrame", place: int) -> str:
    """Return a row's name for error messages: the file and line or, for a DataFrame, the row's number."""
    if not isinstance(table, str | Path):
        return f"table, row {place + 1}"
    return f"{Path(table).name}, line {tables.line_of(Path(table), int(frame.index[place]))}"


def _read(table: "str | Path | pd.DataFrame", columns: tuple[str, ...]) -> "pd.DataFrame":
    import pandas as pd

    frame = table
    if isinstance(frame, str | Path):
        source = FileContent.read("table", frame)
        try:
            frame = k7_table(source) if is_k7(source) else tables.frame(source.path)[0]
        except BadInput as error:
            raise BadInput(f"table = {str(table)!r}: must be a csv file ({str(error)[:400]})") from None
    if not isinstance(frame, pd.DataFrame):
        raise check.refuse("table", table, "a path or a DataFrame")
    for name in columns:
        if name not in frame.columns:
            there = ", ".join(map(str, frame.columns))
            what = f"table = {str(table)!r}" if isinstance(table, str | Path) else "table"
            raise BadInput(f"{what}: must have a column {name!r}; it has {' '.join(there.split())[:200] or 'none'}")
        if frame[name].isna().any():
            row = int(frame[name].isna().to_numpy().argmax())
            raise BadInput(f"{_place_of_row(table, frame, row)}: must have a {name}; it is empty")
    return frame


# --- published measurements -------------------------------------------------------------------------------------------


def intel_lab(
    folder: str | Path | None = None,
    *,
    link: Link | None = None,
    least: float = 0.25,
    both: bool = True,
    bits: int | None = None,
    coherence: float | None = None,
) -> LinkedGraph:
    """Return the network of the Intel Berkeley Research Lab, with positions: 53 motes and 202 links at the defaults.

    Reception is averaged over the whole deployment of 2004. The tables ``intel_connectivity``, with columns sender,
    receiver and prob, and ``intel_mote_locs``, with columns mote, x_m and y_m, come from ``connectivity.txt`` and
    ``mote_locs.txt`` at db.csail.mit.edu/labdata. Node 0, the base station, only receives.

    Parameters
    ----------
    folder : path, optional
        The folder of the two tables; default: NETSIM_DATA, or the cache.
    link, least, both, bits, coherence
        As for `from_table`; the length of the measured frames is unknown.
    """
    tables = _data_path(folder, "intel_connectivity"), _data_path(folder, "intel_mote_locs")
    return _motes(*tables, link=link, least=least, both=both, bits=bits, coherence=coherence)


def synthetic_lab(
    *,
    link: Link | None = None,
    least: float = 0.25,
    both: bool = True,
    bits: int | None = None,
    coherence: float | None = None,
) -> LinkedGraph:
    """Return a network of motes that netsim made, not measured: 53 motes and 200 links at the defaults.

    The number of links and the reception resemble those of the Intel lab (`intel_lab`), but all positions and numbers
    are synthetic (`netsim.datasets.synthetic`). The tables are included in netsim.

    Parameters
    ----------
    link, least, both, bits, coherence
        As for `from_table`; frames of 40 bytes were assumed.
    """
    tables = find("synthetic_connectivity"), find("synthetic_mote_locs")
    return _motes(*tables, link=link, least=least, both=both, bits=bits, coherence=coherence)


def _motes(connectivity: Path, positions: Path, **how: Any) -> LinkedGraph:
    """Return the network from a table of receptions and a table of positions."""
    table = _read(connectivity, ("sender", "receiver", "prob"))
    motes = _read(positions, ("mote", "x_m", "y_m"))
    places = {int(m): (float(x), float(y)) for m, x, y in motes[["mote", "x_m", "y_m"]].to_numpy()}
    table = table.rename(columns={"prob": "reception"})
    return from_table(table, positions=places, **how)


def grenoble(
    path: str | Path | None = None,
    *,
    channel: int | None = None,
    link: Link | None = None,
    least: float = 0.25,
    both: bool = True,
    step: float | None = None,
    bits: int | None = None,
    coherence: float | None = None,
) -> LinkedGraph:
    """Return the network of FIT IoT-LAB Grenoble: 50 nodes, 802.15.4, 16 channels, 48 hours in January 2018.

    The table ``iotlab_grenoble_k7`` has columns datetime, src, dst, channel, pdr. A link has rows only for times at
    which something was received. Source: the K7 traces of the 6TiSCH simulator (Brun-Laguna et al., "A
    simulator-agnostic trace", 2018).

    Parameters
    ----------
    path : path, optional
        The path of the table, or of the K7 trace itself, ``grenoble.k7.gz``; default: in NETSIM_DATA, or in the cache.
    channel : int, optional
        A channel from 11 to 26; default: the mean over all channels, which a sender observes if it changes channels.
    link, least, both, bits
        As for `from_table`; ``least`` applies to the mean over time. The length of the measured frames is unknown.
    step : float, optional
        The length of a step in seconds: reception is averaged over each step, and varies from step to step. None:
        reception is averaged over all 48 hours.
    coherence : float, optional
        As for `from_table`; not with ``step``.

    Raises
    ------
    BadInput
        As for `from_table`, or if ``channel`` is not from 11 to 26, or ``coherence`` is given with ``step``.
    """
    import pandas as pd

    place = _data_path(path, "iotlab_grenoble_k7")
    table = _read(place, ("datetime", "src", "dst", "channel", "pdr"))
    if channel is not None:
        table = table[table["channel"] == check.integer("channel", channel, low=11, high=26)]
    times = pd.to_datetime(table["datetime"])
    since = (times - times.min()).dt.total_seconds().to_numpy()
    link = _for_bits(link, bits)
    model, least = Link() if link is None else link, check.probability("least", least)
    means = table.groupby(["src", "dst"], sort=False)["pdr"].mean()
    reception = {_node_pair(ends): float(mean) for ends, mean in means.items()}
    if step is None:
        return from_reception(reception, link=link, least=least, both=both, coherence=coherence)
    if coherence is not None:
        raise BadInput(f"coherence = {coherence!r}: must be left out with a step")
    width = check.finite("step", step, above=0)
    count = int(since.max() // width) + 1
    loss_of: dict[Pair, Loss] = {}
    for ends, part in table.assign(step=(since // width).astype(int)).groupby(["src", "dst"], sort=False):
        each = part.groupby("step")["pdr"].mean().reindex(range(count))
        # A step without measurements gets the value of the last step before it that has a value; steps before the first
        # measurement get the first value.
        loss_of[_node_pair(ends)] = losses.varying(1.0 - each.ffill().bfill().to_numpy(), width)
    return _network("table", loss_of, [pair for pair, value in reception.items() if value >= least], model, both)


def ulb_library(path: str | Path | None = None, *, link: Link | None = None, minute: float = 60.0) -> LinkedGraph:
    """Return a network of 19 motes in a library; its links replay 1,596 minutes of recorded receptions.

    Every minute, each mote sent a packet and reported the senders of the packets that it had received (ULB Machine
    Learning Group, "Library 1", November 2006). A link delivers all frames sent in a minute in which its packet was
    received, and no frames in other minutes. The table ``ulb_library1_links`` has columns seq (the minute), node (the
    receiver) and src (the sender).

    Parameters
    ----------
    path : path, optional
        The path of the table; default: in NETSIM_DATA, or in the cache.
    link : Link, optional
        The settings of all links, except the loss, which is computed from the table.
    minute : float
        Length of a recorded minute in the simulation, in seconds.
    """
    place = _data_path(path, "ulb_library1_links")
    table = _read(place, ("seq", "node", "src"))
    width = check.finite("minute", minute, above=0)
    count = int(table["seq"].max()) + 1
    loss_of: dict[Pair, Loss] = {}
    for ends, part in table.groupby(["src", "node"]):
        lost = np.ones(count)
        lost[part["seq"].to_numpy()] = 0.0
        loss_of[_node_pair(ends)] = losses.varying(lost, width)
    return _network("table", loss_of, loss_of, Link() if link is None else link, both=False)


def rutgers(
    path: str | Path | None = None,
    *,
    noise: int = -10,
    link: Link | None = None,
    least: float = 0.25,
    both: bool = True,
    coherence: float | None = None,
) -> LinkedGraph:
    """Return the network of the ORBIT testbed: 29 nodes, 802.11, under noise from a generator, in October 2005.

    The table ``rutgers_noise_links`` has columns tx, rx, noise_dbm and pdr, which is the share of 300 broadcasts that
    was received. Nodes are named by their position in the grid, such as "1-4". Source: Kaul, Gruteser, Seskar, CRAWDAD
    rutgers/noise (v. 2007-04-20), doi 10.15783/C7B59W.

    Parameters
    ----------
    path : path, optional
        The path of the table; default: in NETSIM_DATA, or in the cache.
    noise : int
        The power of the generator in dBm: −20, −15, −10, −5 or 0.
    link, least, both, coherence
        As for `from_table`; the measured losses are nearly independent.

    Raises
    ------
    BadInput
        As for `from_table`, or if the table has no rows for the power ``noise``.
    """
    place = _data_path(path, "rutgers_noise_links")
    table = _read(place, ("tx", "rx", "noise_dbm", "pdr"))
    levels = sorted(set(table["noise_dbm"].tolist()))
    check.member("noise", noise, levels, f"one of {', '.join(map(str, levels))}")
    table = table[table["noise_dbm"] == noise].rename(columns={"tx": "sender", "rx": "receiver", "pdr": "reception"})
    return from_table(table, link=link, least=least, both=both, coherence=coherence)


def cellular(name: str, path: str | Path | None = None) -> rate.Rate:
    """Return the rate of a measured cellular link, for `netsim.Link`: a sequence of opportunities to send 1500 bytes.

    Parameters
    ----------
    name : str
        The name of one of Mahimahi's traces, such as ``Verizon-LTE-short.down``.
    path : path, optional
        The file of traces. Each trace is an array of the milliseconds between opportunities. Default:
        ``mahimahi_cellular.npz`` in NETSIM_DATA, or in the cache.

    Raises
    ------
    BadInput
        If there is no such trace, or the file contains no traces.
    """
    place = _data_path(path, "mahimahi_cellular")
    try:
        with np.load(place) as traces:
            check.one_of("name", name, traces.files)
            steps = traces[name]
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"path = {str(place)!r}: must hold arrays in numpy's npz ({one_line(error)})") from None
    return rate.opportunities(np.cumsum(steps) / 1000.0)


def _node_pair(key: Any) -> tuple[int, int]:
    """Convert the key of a pandas group, a pair of numpy integers, to a pair of node names."""
    sender, receiver = key
    return int(sender), int(receiver)


def _data_path(given: str | Path | None, name: str) -> Path:
    """Return the path of a data set's file: ``given`` or, if ``given`` is a folder, the set's file in it.

    If ``given`` is None, `netsim.datasets.find` finds the file.
    """
    if given is None:
        return find(name)
    path = Path(given)
    return used(path / f"{name}{SETS[name].suffix}" if path.is_dir() else path)
