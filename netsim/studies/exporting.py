"""A run folder, or a trace alone, as a file for another program."""

from collections.abc import Callable
from pathlib import Path

from netsim import export as formats
from netsim.studies.traces import find_trace

__all__ = ["export"]


def export(
    place: str | Path,
    format: str,
    out: str | Path | None = None,
    *,
    algorithm: str | None = None,
    most: int | None = None,
    told: Callable[[int], None] | None = None,
) -> Path:
    """Write a run as a file for another program, and return its path.

    Parameters
    ----------
    place : str or Path
        A run folder that was made with ``--trace``, or a trace file.
    format : str
        "pcapng" (its frames), "graphml" or "json" (its topology).
    out : str or Path, optional
        The file; default: ``run.pcapng``, ``topology.graphml`` or ``topology.json`` in the run folder
        (``run-ALGORITHM.pcapng`` for an algorithm that was named), or beside the trace file under its name.
    algorithm : str, optional
        Of a run folder with several: which; default: the last, which is the one that the study is about.
    most : int, optional
        Of pcapng: frames that it holds at most; default: all.
    told : callable, optional
        Called now and then with how many records of the trace have been read so far, each of them several times.

    Raises
    ------
    BadInput
        If it is neither, was made without a trace, is cut short or changed, or an argument cannot be used.
    NetsimError
        If the file cannot be written.
    """
    formats.check_format(format, most)
    found = find_trace(place, algorithm, told)
    path = found.target(out, "run" if format == "pcapng" else "topology", f".{format}")
    return formats.export(found.log, path, format, about=found.about, most=most)
