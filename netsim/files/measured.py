"""Read measured links: K7 traces, and csv files with the received power (RSSI) of each link.

Source of K7: K. Brun-Laguna, P. H. Gomes, P. Minet, T. Watteyne, "Moving Beyond Testbeds? Lessons (We) Learned about
Connectivity", IEEE Pervasive Computing 2018, and the Python package k7. A K7 trace is a line of JSON that describes the
campaign, followed by csv.
"""

import io
from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING

from netsim.errors import BadInput
from netsim.files.content import FileContent
from netsim.util import check, tables

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["is_k7", "is_rssi", "k7_table", "rssi_powers"]

_ENDS = (("sender", "receiver"), ("src", "dst"), ("source", "target"), ("tx", "rx"), ("from", "to"))
_POWERS = ("rssi", "mean_rssi", "rssi_dbm", "power_dbm")


def is_k7(source: FileContent) -> bool:
    """Return whether a file is a K7 trace: the first line is JSON, and the second has the columns of csv."""
    first, _, rest = source.data[:4096].partition(b"\n")
    return first.lstrip().startswith(b"{") and first.rstrip().endswith(b"}") and rest[:64].lstrip()[:9] == b"datetime,"


def k7_table(source: FileContent) -> "pd.DataFrame":
    """Return the rows of a K7 trace that have a receiver, with datetime, src, dst, channel, pdr and other columns.

    Raises
    ------
    BadInput
        If a column is missing, a value is invalid, or no row has a receiver.
    """
    import pandas as pd

    _, _, text = source.text.partition("\n")
    try:
        table = pd.read_csv(io.StringIO(text), skipinitialspace=True)
    except ValueError as error:
        raise source.refuse(f"a K7 trace ({' '.join(str(error).split())[:120]})") from None
    if "mean_pdr" in table and "pdr" not in table:
        table = table.rename(columns={"mean_pdr": "pdr"})
    lacking = [name for name in ("datetime", "src", "dst", "channel", "pdr") if name not in table]
    if lacking:
        raise source.refuse(
            f"a K7 trace with a column {lacking[0]!r}; it has {', '.join(map(str, table.columns))[:120]}"
        )
    # A row without a receiver means that no mote received the sender's packets.
    kept = table[table["dst"].notna()]
    if not len(kept) or not pd.api.types.is_numeric_dtype(kept["pdr"]) or kept[["src", "pdr"]].isna().any(axis=None):
        raise source.refuse("a K7 trace with src, dst and pdr in each row, and a row that was received")
    whole = {name: kept[name].astype(int) for name in ("src", "dst") if pd.api.types.is_float_dtype(kept[name])}
    return kept.assign(**whole)


def is_rssi(columns: Collection[str]) -> bool:
    """Return whether a csv file with these columns contains received powers."""
    return any(set(pair) <= set(columns) for pair in _ENDS) and any(name in columns for name in _POWERS)


def rssi_powers(source: FileContent) -> tuple[dict[tuple[Hashable, Hashable], float], list[str]]:
    """Return the received power {(sender, receiver): dBm} of each measured link, and notes.

    The columns are ``sender`` and ``receiver`` (or ``src`` and ``dst``, ``tx`` and ``rx``, …) and ``rssi`` (or
    ``mean_rssi``, ``rssi_dbm``). Other columns are ignored. If a link has several rows, its power is their mean in dBm.

    Raises
    ------
    BadInput
        If a column is missing, or a power is not a number from −200 to 50 dBm.
    """
    header = next(source.lines(), (0, ""))[1].lower()
    cells = [cell.strip().strip('"') for cell in header.replace(";", ",").replace("\t", ",").split(",")]
    ends = next((pair for pair in _ENDS if set(pair) <= set(cells)), None)
    column = next((name for name in _POWERS if name in cells), None)
    if ends is None or column is None:
        raise source.refuse(f"a csv file with the columns sender, receiver and rssi; it has {', '.join(cells)[:80]}")
    heard: dict[tuple[Hashable, Hashable], list[float]] = {}
    others = [cell for cell in cells if cell not in (*ends, column)]
    for where, row in tables.rows(source.path, (*ends, column), others):
        if not row[column]:
            continue
        pair = tables.name(where, row, ends[0]), tables.name(where, row, ends[1])
        if pair[0] == pair[1]:
            raise BadInput(f"{where}: receiver = {pair[1]!r}: must be another than the sender")
        power = check.finite(f"{where}: {column}", tables.number(where, row, column), low=-200, high=50)
        heard.setdefault(pair, []).append(power)
    if not heard:
        raise source.refuse("a csv file with a received power")
    several = sum(len(each) > 1 for each in heard.values())
    notes = [f"took the mean power of each link; {several:,} of {len(heard):,} have several"] if several else []
    return {pair: sum(each) / len(each) for pair, each in heard.items()}, notes
