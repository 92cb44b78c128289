"""Show two or three runs side by side on one page, with a common film time and their differences."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netsim.replay.frames import Columns
from netsim.replay.html import packed_parts, page_of
from netsim.replay.render import parts_of
from netsim.util import check
from netsim.util.files import write_pieces

__all__ = ["compare", "write_compared"]

_Parts = tuple[dict[str, Any], Columns]


def compare(
    runs: Sequence[Any], path: str | Path = "compare.html", *, names: Sequence[str] | None = None, title: str = ""
) -> Path:
    """Write one HTML file that shows two or three runs side by side, on one film time; return its path.

    Parameters
    ----------
    runs : sequence of netsim.Run
        Two or three runs, each of which kept its trace (``trace=True`` in `Network.run`).
    path : str or Path
        The file to write. An existing file is replaced when the new one is complete.
    names : sequence of str, optional
        The names of the runs, such as ``["with the cut", "without"]``. Default: run 1, run 2, …
    title : str
        The title of the page.

    Raises
    ------
    BadInput
        If there are not two or three runs, a run has no trace, or the number of names differs from that of the runs.
    NetsimError
        If the file cannot be written.
    """
    if not isinstance(runs, Sequence) or len(runs) not in (2, 3):
        raise check.refuse("runs", len(runs) if isinstance(runs, Sequence) else runs, "two or three runs")
    found = [parts_of(run) for run in runs]
    return write_compared(path, found, names or [f"run {number + 1}" for number in range(len(runs))], title)


def write_compared(path: str | Path, found: Sequence[_Parts], names: Sequence[str], title: str = "") -> Path:
    """Write the page of `compare` for runs given as results of `netsim.replay.render.parts`.

    Raises the same errors as `compare`.
    """
    if len(names) != len(found) or len(set(names)) < len(names):
        raise check.refuse("names", list(names), f"{len(found)} different names, one of each run")
    metas, packed = zip(*(packed_parts(*each) for each in found), strict=True)
    meta = {"title": title or " | ".join(names), "names": list(names), "runs": metas}
    page = page_of(meta, packed)
    return write_pieces(path, [page.encode("utf-8", "backslashreplace")])
