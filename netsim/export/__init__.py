"""Export a run to other programs: frames for Wireshark; the topology for networkx, or as GraphML or JSON."""

from pathlib import Path

from netsim.export.graphs import graph_of, write_graphml, write_json
from netsim.export.ieee802154 import write_ieee802154
from netsim.export.pcapng import write_pcapng
from netsim.replay.frames import Log
from netsim.replay.render import About
from netsim.util import check

__all__ = [
    "FORMATS",
    "check_format",
    "export",
    "graph_of",
    "write_graphml",
    "write_ieee802154",
    "write_json",
    "write_pcapng",
]

FORMATS = ("pcapng", "graphml", "json")
"""The names of the formats that `export` can write."""


def check_format(format: str, most: int | None) -> None:
    """Raise BadInput if ``format`` is not one of `FORMATS`, or if ``most`` is given for a format other than pcapng."""
    check.one_of("format", format, FORMATS)
    if most is not None:
        check.integer("most", most, low=1)
        if format != "pcapng":
            raise check.refuse("most", most, f"left out for {format}, which holds no frames")


def export(log: Log, path: str | Path, format: str, *, about: About | None = None, most: int | None = None) -> Path:
    """Export a trace as a file for another program, and return its path.

    Parameters
    ----------
    log : Log
        The trace.
    path : str or Path
        The file.
    format : {"pcapng", "graphml", "json"}
        The format of `write_pcapng`, `write_graphml` or `write_json`. For a `netsim.Radio`, "pcapng" is the format of
        `write_ieee802154`.
    about : About, optional
        The title, command and notes to store in the file.
    most : int, optional
        The maximum number of frames, only for pcapng; default: all.

    Raises
    ------
    BadInput
        If the trace or an argument cannot be used.
    NetsimError
        If the file cannot be written.
    """
    check_format(format, most)
    if format == "pcapng":
        on_radio = log.scene is not None and log.scene.medium == "shared"
        return (write_ieee802154 if on_radio else write_pcapng)(log, path, about=about, most=most)
    return (write_graphml if format == "graphml" else write_json)(log, path, about=about)
