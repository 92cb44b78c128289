"""The formats of a run folder's tables (csv, Parquet) and figures (PNG, SVG, PDF): written and read."""

import io
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.util import check
from netsim.util.files import write_whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FIGURES = ("png", "svg", "pdf")
TABLES = ("csv", "parquet")

NIGHT = "filter: invert(.92) hue-rotate(180deg)"
"""CSS that shows a figure light on dark: what was light is dark and the reverse, and colours keep their hue."""

# This CSS makes the figure follow the reader's colour scheme; programs that ignore it show the figure as drawn.
_FOLLOWS = f"<style>@media (prefers-color-scheme: dark) {{ svg {{ {NIGHT} }} }}</style>"

# Names of tables that the run folder of any study may have.
OF_EVERY_RUN = ("rounds", "ledger", "states", "notes")

# Omit the time, which would make two files of the same figure differ.
_UNDATED: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Formats:
    """The formats of figures, one or several, and of tables."""

    figures: tuple[str, ...] = ("png",)
    tables: str = "csv"

    @classmethod
    def chosen(cls, figures: str | None = None, tables: str | None = None) -> "Formats":
        """Return the formats of figures, given as comma-separated names, and of tables; None stands for the defaults.

        Raises BadInput for an unknown format, or Parquet without pyarrow.
        """
        names = cls.figures if figures is None else _names(figures)
        kind = cls.tables if tables is None else check.one_of("tables", tables, TABLES)
        if kind == "parquet":
            check.installed(f"tables = {kind!r}", "pyarrow", "arrow")
        return cls(names, kind)


def _names(figures: str) -> tuple[str, ...]:
    check.instance("figures", figures, str, f"formats with commas between: {', '.join(FIGURES)}")
    return tuple(dict.fromkeys(check.one_of("figures", name.strip(), FIGURES) for name in figures.split(",")))


# --- figures ----------------------------------------------------------------------------------------------------------


def write_figure(path: Path, figure: "Figure") -> str:
    """Write a figure atomically, in the format of the path's suffix; return warnings in one line.

    The same figure gives the same bytes.
    """
    from matplotlib import rc_context

    ending = path.suffix.removeprefix(".")
    more: dict[str, Any] = {"metadata": _UNDATED[ending]} if _UNDATED[ending] else {}
    # Python would print the warning with a line of a library, which tells a study's user nothing.
    with rc_context({"svg.hashsalt": path.name}), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with write_whole(path) as file:
            drawn = io.BytesIO()
            figure.savefig(drawn, format=ending, dpi=150, **more)
            file.write(_following(drawn.getvalue()) if ending == "svg" else drawn.getvalue())
    texts = list(dict.fromkeys(" ".join(str(each.message).split()) for each in caught))
    return f"{texts[0]}{f' (and {len(texts) - 1} more)' if texts[1:] else ''}" if texts else ""


def _following(drawn: bytes) -> bytes:
    """Return an SVG figure that becomes light on dark if the reader's colour scheme is dark."""
    head, svg, rest = drawn.partition(b"<svg ")
    tag, end, body = rest.partition(b">")
    return head + svg + tag + end + b"\n " + _FOLLOWS.encode() + body


# --- tables -----------------------------------------------------------------------------------------------------------


def write_table(path: Path, table: "pd.DataFrame") -> None:
    """Write a table in the format of the path's suffix."""
    if path.suffix == ".parquet":
        _in_columns(table).to_parquet(path, engine="pyarrow", compression="zstd", index=False)
    else:
        # An agent's name may be any text, even one that UTF-8 cannot encode.
        table.to_csv(path, index=False, errors="backslashreplace")


def _in_columns(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table that Parquet can store: values other than numbers and booleans become text, as in csv."""
    import pandas as pd

    # Make a new table, because the caller's must not change.
    table = table.rename(columns=str).infer_objects()
    for name in table.columns:
        column = table[name]
        if not pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_datetime64_any_dtype(column):
            table[name] = [None if each is None or each != each else _text(each) for each in column]
    return table


def _text(value: Any) -> str:
    return str(value).encode(errors="backslashreplace").decode()


def find_table(folder: Path, name: str) -> Path | None:
    """Return the file of a run folder's table, in any format, or None if it does not exist."""
    return next((path for kind in TABLES if (path := folder / f"{name}.{kind}").is_file()), None)


def read_table(path: Path, text: Iterable[str] = ()) -> "pd.DataFrame":
    """Read a table as it was written; columns in ``text`` stay text, even if they look like numbers.

    Raises BadInput for Parquet without pyarrow, and any error of pandas for a file that no run wrote.
    """
    import pandas as pd

    if path.suffix == ".parquet":
        check.installed(path.name, "pyarrow", "arrow")
        return pd.read_parquet(path, engine="pyarrow")
    with warnings.catch_warnings():
        # A run's files cause no pandas warning, such as for a row with too many fields: treat a warning as an error.
        warnings.simplefilter("error")
        # An algorithm may be called NA, or 1, so recognize empty cells in other columns only.
        names = pd.read_csv(path, index_col=False, nrows=0, encoding="utf-8").columns
        kinds = dict.fromkeys(text, str)
        return pd.read_csv(
            path,
            index_col=False,
            dtype=kinds,
            # Read at once: in chunks, the type of a column of flags would change after a long empty beginning.
            low_memory=False,
            keep_default_na=False,
            na_values={name: [""] for name in names if name not in kinds},
            # Times are compared with those of frames, so parse them exactly.
            converters={"time_s": float},
            encoding="utf-8",
        )
