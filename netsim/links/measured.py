"""Networks from measured links: tables of reception, and loaders for published measurements.

Each returns the graph and the settings of its links, for ``Network(graph, link, links=links, ...)``. The files are
found in the folder that the environment variable NETSIM_DATA names, or by a path.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np

from netsim.errors import BadInput, one_line
from netsim.links import loss as losses
from netsim.links import rate
from netsim.links.link import Link
from netsim.links.loss import Loss
from netsim.util import check, tables
from netsim.util.datafiles import find, used
from netsim.util.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Measured", "cellular", "from_reception", "from_table", "grenoble", "intel_lab", "rutgers", "ulb_library"]

Pair = tuple[Any, Any]


class Measured(NamedTuple):
    """A measured network.

    Attributes
    ----------
    graph : Graph
        The pairs that are linked; nodes have ``pos`` (m) where positions are known.
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
) -> Measured:
    """Return the network of a table of reception probabilities.

    Parameters
    ----------
    table : path or DataFrame
        With columns ``sender, receiver, reception``, a row for each directed pair that was measured, in a csv file or
        as it is. A pair that is not there does not hear; a may hear b without being heard.
    link : Link, optional
        What else is true of each link; its loss is replaced.
    least : float
        Pairs are linked whose reception is at least this, and more than zero.
    both : bool
        In both directions; else in one of the two, and the other is as it was measured.
    positions : mapping, optional
        {node: (x, y)} in metres, of all nodes that have a link.
    bits : int, optional
        The length of the frames that were measured, headers included: `Link.loss_bits`, by which a `netsim.Radio`
        scales the loss of frames of other lengths. None: all lengths are lost alike.
    coherence : float, optional
        Losses come in blocks of so many seconds: of what a link carries in one all is lost or nothing, independent of
        the block before. Each direction has its own. Default: each frame is lost independently, also one that is sent
        again within milliseconds.

    Raises
    ------
    BadInput
        If the table has not these columns, or a value in them is no probability, or a pair is there twice; or if no
        link is left.
    """
    frame = _read(table, ("sender", "receiver", "reception"))
    reception: dict[Pair, float] = {}
    columns = (frame[name].tolist() for name in ("sender", "receiver", "reception"))
    for place, (sender, receiver, value) in enumerate(zip(*columns, strict=True)):
        if (sender, receiver) in reception:
            where = _row_of(table, frame, place)
            raise BadInput(f"{where}: must be the only one from {sender!r} to {receiver!r}")
        if not (type(value) is float and 0.0 <= value <= 1.0):
            value = check.probability(f"{_row_of(table, frame, place)}: reception", value)
        reception[sender, receiver] = value
    found = _of_reception("table", reception, _of_bits(link, bits), least, both, positions, coherence=coherence)
    lacking = [node for node in found.graph if positions is not None and node not in positions]
    if lacking:
        raise BadInput(f"positions: must have all nodes of the table that have a link; node {lacking[0]!r} is missing")
    return found


def from_reception(
    reception: Mapping[Pair, float],
    *,
    link: Link | None = None,
    least: float = 0.0,
    both: bool = False,
    positions: Mapping[Any, Sequence[float]] | None = None,
    nodes: Iterable[Hashable] = (),
    coherence: float | None = None,
) -> Measured:
    """Return the network of reception probabilities {(sender, receiver): p}; see `from_table`.

    ``nodes`` are in it even without a link.
    """
    return _of_reception("reception", reception, link, least, both, positions, nodes, coherence)


def _of_bits(link: Link | None, bits: int | None) -> Link | None:
    """Return a link whose loss holds for frames of so many bits; as it is where that is not given."""
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
) -> Measured:
    model, least = Link() if link is None else link, check.probability("least", least)
    if coherence is not None:
        check.finite("coherence", coherence, low=losses.SHORTEST_SLOT)
    reception = {
        # The name of a value is made for those only that may be wrong: of a large network there are millions.
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
                models[value] = _lossy(value, coherence)
            loss_of[pair] = models[value]
    return _network(given, loss_of, good, model, both, positions, nodes)


def _lossy(mean: float, coherence: float | None) -> Loss:
    """Return the model of a mean loss, of single frames or of blocks of so many seconds."""
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
) -> Measured:
    """Return the network of the pairs that are good in one direction, or in both, with these losses."""
    good = set(good)
    graph: nx.Graph[Any] = nx.Graph()
    edges: dict[Pair, None] = {}
    for a, b in loss_of:
        if a != b and (a, b) in good and (not both or (b, a) in good) and (b, a) not in edges:
            edges[a, b] = None
    alone = set(nodes)
    if not edges and not alone:
        raise BadInput(f"{given}: must leave a link; no pair's reception is above zero and at least as large as asked")
    graph.add_nodes_from(sorted(alone | {node for pair in edges for node in pair}, key=_in_order))
    graph.add_edges_from(edges)
    for node in graph if positions is not None else ():
        if positions is not None and node in positions:
            graph.nodes[node]["pos"] = tuple(positions[node])
    # What was never measured is never heard.
    silent = losses.bernoulli(1.0)
    # Links with the same loss share their settings: of a large network there may be millions.
    settings: dict[int, Link] = {}
    links: dict[Pair, Link] = {}
    for a, b in graph.edges:
        for pair in ((a, b), (b, a)):
            loss = loss_of.get(pair, silent)
            if id(loss) not in settings:
                settings[id(loss)] = link.with_loss(loss)
            links[pair] = settings[id(loss)]
    return Measured(graph, links)


def _in_order(node: Hashable) -> tuple[bool, float, str]:
    """Numbers by size, then names."""
    is_number = isinstance(node, int | float)
    return not is_number, float(node) if isinstance(node, int | float) else 0.0, str(node)


def _row_of(table: "str | Path | pd.DataFrame", frame: "pd.DataFrame", place: int) -> str:
    """Return where a row stands: the file and its line, or its number in a table that was given."""
    if not isinstance(table, str | Path):
        return f"table, row {place + 1}"
    return f"{Path(table).name}, line {tables.line_of(Path(table), int(frame.index[place]))}"


def _read(table: "str | Path | pd.DataFrame", columns: tuple[str, ...]) -> "pd.DataFrame":
    import pandas as pd

    frame = table
    if isinstance(frame, str | Path):
        try:
            if not Path(frame).exists():
                raise BadInput(f"table = {str(table)!r}: must be an existing file")
            frame = tables.frame(used(Path(frame)))[0]
        except BadInput as error:
            if str(error).startswith("table = "):
                raise
            raise BadInput(f"table = {str(table)!r}: must be a csv file ({error})") from None
    if not isinstance(frame, pd.DataFrame):
        raise check.refuse("table", table, "a path or a DataFrame")
    for name in columns:
        if name not in frame.columns:
            there = ", ".join(map(str, frame.columns))
            what = f"table = {str(table)!r}" if isinstance(table, str | Path) else "table"
            raise BadInput(f"{what}: must have a column {name!r}; it has {there[:200] or 'none'}")
        if frame[name].isna().any():
            row = int(frame[name].isna().to_numpy().argmax())
            raise BadInput(f"{_row_of(table, frame, row)}: must have a {name}; it is empty")
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
) -> Measured:
    """Return the Intel Berkeley Research Lab's motes, with positions: 53 motes and 202 links at the defaults.

    Reception is that of the whole deployment of 2004, averaged (``connectivity.txt``, ``mote_locs.txt`` at
    db.csail.mit.edu/labdata), as tables ``intel_connectivity`` (sender, receiver, prob) and ``intel_mote_locs`` (mote,
    x_m, y_m). Node 0, the base station, only receives.

    Parameters
    ----------
    folder : path, optional
        Where the two files are; default: NETSIM_DATA.
    link, least, both, bits, coherence
        As for `from_table`; the data do not say how long the frames were.
    """
    source = "db.csail.mit.edu/labdata"
    table = _read(_place(folder, "intel_connectivity", ".csv.gz", source), ("sender", "receiver", "prob"))
    motes = _read(_place(folder, "intel_mote_locs", ".csv.gz", source), ("mote", "x_m", "y_m"))
    places = {int(m): (float(x), float(y)) for m, x, y in motes[["mote", "x_m", "y_m"]].to_numpy()}
    table = table.rename(columns={"prob": "reception"})
    return from_table(table, link=link, least=least, both=both, positions=places, bits=bits, coherence=coherence)


def grenoble(
    file: str | Path | None = None,
    *,
    channel: int | None = None,
    link: Link | None = None,
    least: float = 0.25,
    both: bool = True,
    step: float | None = None,
    bits: int | None = None,
    coherence: float | None = None,
) -> Measured:
    """Return the 50 nodes of FIT IoT-LAB Grenoble, 802.15.4, measured for 48 hours on 16 channels in January 2018.

    The table ``iotlab_grenoble_k7`` has columns datetime, src, dst, channel, pdr; only links with a reception are in
    it. Source: the K7 traces of the 6TiSCH simulator (Brun-Laguna et al., "A simulator-agnostic trace", 2018).

    Parameters
    ----------
    file : path, optional
        The table; default: in NETSIM_DATA.
    channel : int, optional
        Of 11 to 26; default: the mean over all, as for a sender that hops.
    link, least, both, bits
        As for `from_table`; ``least`` is compared with the mean over the time. The table does not say how long the
        frames were.
    step : float, optional
        Seconds over which reception is averaged, for it to vary as it did; None: one mean over all the time.
    coherence : float, optional
        As for `from_table`, without a ``step``.

    Raises
    ------
    BadInput
        As `from_table`, or for a channel that is not there.
    """
    import pandas as pd

    place = _place(file, "iotlab_grenoble_k7", ".csv.gz", "the traces of the 6TiSCH simulator")
    table = _read(place, ("datetime", "src", "dst", "channel", "pdr"))
    if channel is not None:
        table = table[table["channel"] == check.integer("channel", channel, low=11, high=26)]
    times = pd.to_datetime(table["datetime"])
    since = (times - times.min()).dt.total_seconds().to_numpy()
    link = _of_bits(link, bits)
    model, least = Link() if link is None else link, check.probability("least", least)
    means = table.groupby(["src", "dst"], sort=False)["pdr"].mean()
    reception = {_ends(ends): float(mean) for ends, mean in means.items()}
    if step is None:
        return from_reception(reception, link=link, least=least, both=both, coherence=coherence)
    if coherence is not None:
        raise BadInput(f"coherence = {coherence!r}: must be left out with a step")
    width = check.finite("step", step, above=0)
    count = int(since.max() // width) + 1
    loss_of: dict[Pair, Loss] = {}
    for ends, part in table.assign(step=(since // width).astype(int)).groupby(["src", "dst"], sort=False):
        each = part.groupby("step")["pdr"].mean().reindex(range(count))
        # Where nothing was measured, what was measured last still holds; before the first, the first.
        loss_of[_ends(ends)] = losses.varying(1.0 - each.ffill().bfill().to_numpy(), width)
    return _network("table", loss_of, [pair for pair, value in reception.items() if value >= least], model, both)


def ulb_library(file: str | Path | None = None, *, link: Link | None = None, minute: float = 60.0) -> Measured:
    """Return 19 motes in a library that hear what they really heard: each minute anew, for 1,596 minutes.

    In every minute each mote sent a packet, and reported the senders that it had heard (ULB Machine Learning Group,
    "Library 1", November 2006). A link delivers all that is sent in the minutes in which its packet was heard, and
    nothing else. The table ``ulb_library1_links`` has columns seq (the minute), node (the receiver) and src (the
    sender).

    Parameters
    ----------
    file : path, optional
        The table; default: in NETSIM_DATA.
    link : Link, optional
        What else is true of each link; its loss is replaced.
    minute : float
        How long a minute lasts in the simulation, in seconds.
    """
    place = _place(file, "ulb_library1_links", ".csv.gz", "the Machine Learning Group of the ULB")
    table = _read(place, ("seq", "node", "src"))
    width = check.finite("minute", minute, above=0)
    count = int(table["seq"].max()) + 1
    heard: dict[Pair, Array] = {}
    for ends, part in table.groupby(["src", "node"]):
        lost = np.ones(count)
        lost[part["seq"].to_numpy()] = 0.0
        heard[_ends(ends)] = lost
    loss_of = {pair: losses.varying(lost, width) for pair, lost in heard.items()}
    return _network("table", loss_of, loss_of, Link() if link is None else link, both=False)


def rutgers(
    file: str | Path | None = None,
    *,
    noise: int = -10,
    link: Link | None = None,
    least: float = 0.25,
    both: bool = True,
    coherence: float | None = None,
) -> Measured:
    """Return the 29 nodes of the ORBIT testbed, 802.11, in October 2005, under noise from a generator.

    The table ``rutgers_noise_links`` has columns tx, rx, noise_dbm, pdr, the share received of 300 broadcasts;
    a node is named by its place in the grid, as "1-4". Source: Kaul, Gruteser, Seskar, CRAWDAD rutgers/noise (v.
    2007-04-20), doi 10.15783/C7B59W.

    Parameters
    ----------
    file : path, optional
        The table; default: in NETSIM_DATA.
    noise : int
        The power of the generator in dBm: −20, −15, −10, −5 or 0.
    link, least, both, coherence
        As for `from_table`; the losses measured there are nearly independent.

    Raises
    ------
    BadInput
        As `from_table`, or for a noise that is not there.
    """
    place = _place(file, "rutgers_noise_links", ".csv.gz", "doi.org/10.15783/C7B59W")
    table = _read(place, ("tx", "rx", "noise_dbm", "pdr"))
    levels = sorted(set(table["noise_dbm"].tolist()))
    if noise not in levels:
        raise check.refuse("noise", noise, f"one of {', '.join(map(str, levels))}")
    table = table[table["noise_dbm"] == noise].rename(columns={"tx": "sender", "rx": "receiver", "pdr": "reception"})
    return from_table(table, link=link, least=least, both=both, coherence=coherence)


def cellular(name: str, file: str | Path | None = None) -> rate.Rate:
    """Return a measured cellular link as a rate for `netsim.Link`: opportunities to send 1500 bytes.

    Parameters
    ----------
    name : str
        Which of Mahimahi's traces, as ``Verizon-LTE-short.down``.
    file : path, optional
        The traces, ``mahimahi_cellular.npz``: for each an array of the milliseconds between opportunities; default: in
        NETSIM_DATA.

    Raises
    ------
    BadInput
        If there is no such trace, or the file is none of traces.
    """
    place = _place(file, "mahimahi_cellular", ".npz", "the repository of Mahimahi")
    try:
        with np.load(place) as traces:
            check.one_of("name", name, traces.files)
            steps = traces[name]
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"file = {str(place)!r}: must hold arrays in numpy's npz ({one_line(error)})") from None
    return rate.opportunities(np.cumsum(steps) / 1000.0)


def _ends(key: Any) -> tuple[int, int]:
    """Return a group's key as a pair of nodes."""
    sender, receiver = key
    return int(sender), int(receiver)


def _place(given: str | Path | None, name: str, suffix: str, source: str) -> Path:
    """Return the path of a file: the one given, or, in a folder that is given or in NETSIM_DATA, the one so named."""
    if given is None:
        return find(name, suffix, source)
    path = Path(given)
    return used(path / f"{name}{suffix}" if path.is_dir() else path)
