"""A radio network from measured received powers of links."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx

from netsim.errors import BadInput
from netsim.files.content import FileContent
from netsim.files.file_kinds import kind_of, wrong_kind
from netsim.files.measured import is_k7, rssi_powers
from netsim.links.link import Link
from netsim.radio import presets
from netsim.radio.settings import MOST_DBM, Radio
from netsim.util import check

__all__ = ["RadioGraph", "from_rssi"]

_BITS = 8 * 50  # The size in bits of the frame whose reception probability decides which nodes are neighbours, as in
# `netsim.Deployment`.


class RadioGraph(NamedTuple):
    """A graph, its link and its radio: ``Network(found.graph, found.link, medium=found.radio)``."""

    graph: "nx.Graph[Any]"
    link: Link
    radio: Radio


def from_rssi(path: str | Path, *, preset: presets.Preset | None = None, least: float = 0.1) -> RadioGraph:
    """Return the radio network that a csv file of received powers describes.

    The columns are ``sender, receiver, rssi`` (dBm), or have the names that other programs use (src, dst; tx, rx;
    mean_rssi, rssi_dbm). Further columns are ignored. If a link has several rows, for different channels or times, for
    example, they are averaged. A direction without a row carries no signal. Two nodes are neighbours if one receives a
    frame of 50 bytes from the other with probability ``least`` or more without interference; other measured pairs only
    interfere. RSSI is measured on received frames only, so the mean of a poor link is too high.

    Parameters
    ----------
    path : path
        The csv file; it may be compressed by gzip.
    preset : Preset, optional
        Link and radio; default: `netsim.presets.ieee802154`. Its radio has a phy.
    least : float
        The least reception probability between neighbours, in (0, 1).

    Raises
    ------
    BadInput
        If the file lacks these columns, a power is not a number from −200 to 50, or no two nodes are neighbours.
    """
    check.instance("preset", preset, presets.Preset, "a Preset, as netsim.presets.ieee802154()", optional=True)
    given = presets.ieee802154() if preset is None else preset
    radio = given.radio
    if radio is None or radio.phy is None:
        raise check.refuse("preset", preset, "a Preset whose radio has a phy, as netsim.presets.ieee802154()")
    if not 0 < check.finite("least", least) < 1:
        raise check.refuse("least", least, "a probability in (0, 1)")
    source = FileContent.read("file", path)
    if kind_of(source) != "links" or is_k7(source):
        raise wrong_kind(source, "links") if kind_of(source) != "graph" else source.refuse("a csv file with rssi")
    measured, notes = rssi_powers(source)
    if notes:
        check.doubt(f"{source.where}: {'; '.join(notes)}")
    enough = radio.phy.receives_from(least, _BITS)
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(dict.fromkeys(node for pair in measured for node in pair))
    graph.add_edges_from(pair for pair, power in measured.items() if power >= enough)
    if not graph.number_of_edges():
        raise BadInput(f"{source.where}: must have a link of {enough:.1f} dBm or more, from which frames are received")
    powers = dict.fromkeys(((b, a) for a, b in measured), -MOST_DBM) | measured
    return RadioGraph(graph, given.link, replace(radio, powers=powers))
