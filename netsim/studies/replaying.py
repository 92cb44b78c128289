"""The page of a run folder, or of a trace alone: found, checked and written."""

from collections.abc import Callable
from pathlib import Path

from netsim.replay.frames import MOST
from netsim.replay.render import render
from netsim.studies.traces import find_trace
from netsim.util import check

__all__ = ["replay"]


def replay(
    place: str | Path,
    out: str | Path | None = None,
    *,
    algorithm: str | None = None,
    most: int = MOST,
    told: Callable[[int], None] | None = None,
) -> Path:
    """Write one HTML file that shows a run, and return its path.

    Parameters
    ----------
    place : str or Path
        A run folder that was made with ``--trace``, or a trace file.
    out : str or Path, optional
        The file; default: ``replay.html`` in the run folder (``replay-ALGORITHM.html`` for an algorithm that was
        named), or beside the trace file under its name.
    algorithm : str, optional
        Of a run folder with several: which; default: the last, which is the one that the study is about.
    most : int
        Frames that it shows at most.
    told : callable, optional
        Called now and then with how many records of the trace have been read so far, each of them several times.

    Raises
    ------
    BadInput
        If it is neither, was made without a trace, is cut short or changed, or an argument cannot be used.
    NetsimError
        If the file cannot be written.
    """
    check.integer("most", most, low=1)
    found = find_trace(place, algorithm, told)
    out = found.target(out, "replay", ".html")
    return render(found.log, out, about=found.about, most=most, rounds=found.rounds, states=found.states)
