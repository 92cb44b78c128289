"""Read the files of data sets: each format becomes a DataFrame, or is refused in one line."""

import importlib.util
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.datasets import find
from netsim.errors import BadInput, one_line
from netsim.scenarios.data.files import find_table
from netsim.util import check, tables

_MOST_SHOWN = 60  # the largest number of characters of a cell in an error message
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


def read_frame(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return a file's table, one sample a row, and notes on parts left out.

    A csv file (`netsim.util.tables.frame`) begins with a line of column names, and has commas, semicolons or tabs
    between its columns. Only empty cells are missing values; every other text is kept as it is. The arrays of an npz
    file become columns with their names. If an array has more dimensions, as for images, each element of a sample
    becomes a column: ``x0``, ``x1``, ….

    Raises BadInput if the file is damaged or not a table, if its first line looks like a row of data, if it has no row,
    or if it is parquet and pyarrow is missing.
    """
    notes: list[str] = []
    if path.name.endswith(".npz"):
        frame = _frame_of_arrays(path)
    elif path.name.endswith(".parquet"):
        frame = _frame_of_parquet(path)
    else:
        frame, notes = tables.frame(path)
    if not len(frame):
        raise BadInput(f"{path} has no row: must be a table with one sample a row")
    return frame, notes


def samples_in(data: str) -> int:
    """Return the number of rows of a table, faster than reading it; raises BadInput if it does not exist."""
    path = find_table(data)
    if path.name.endswith(".npz"):
        return _length(path, _arrays(path))
    if path.name.endswith(".parquet"):
        reader = _parquet(path)
        try:
            return int(reader.read_metadata(path).num_rows)
        except _UNREADABLE as error:
            raise BadInput(f"{path} cannot be read: {_line(error)}") from None
    first = tables.frame(path, [0])[0]
    # A row whose first cell is empty may be an empty line or a row with other values, so read the whole table.
    return len(tables.frame(path)[0]) if not len(first.columns) or first.isna().any(axis=None) else len(first)


def load_arrays(name: str, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of a known data set, ``<name>.npz``.

    Raises BadInput if it is not on this machine (`netsim.datasets.Missing`), damaged, or lacks an array of ``wanted``.
    """
    path = find(name)
    arrays = _arrays(path)
    for key in wanted:
        if key not in arrays:
            raise BadInput(f"{path} has no array {key!r}: must hold {', '.join(wanted)}")
    return arrays


def as_numbers(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column as numbers, with NaN for other cells; integers beyond the range of floats become infinite."""
    try:
        return pd.to_numeric(column, errors="coerce")
    except OverflowError:
        # Integers that are too large for a float raise OverflowError; parsed from text, they become infinite.
        return column.map(_as_number).astype(float)


def _as_number(cell: object) -> float:
    try:
        return float(str(cell))
    except ValueError:
        return float("nan")


def numbers(path: Path, column: "pd.Series[Any]", hint: str = "") -> NDArray[np.float64]:
    """Return a column as finite numbers, or raise BadInput that names the column and the first bad row, and a hint."""
    values = np.asarray(as_numbers(column), dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        row = int(bad[0])
        raise BadInput(
            f"{place_in(path, column, row)} = {_shown(column.iloc[row])}: must be a finite number "
            f"({len(bad)} such rows){hint}"
        )
    return values


def place_in(path: Path, column: "pd.Series[Any]", row: int) -> str:
    """Return the location of a cell as text: the file, the line in a csv file, the column and the row."""
    number = int(column.index[row])
    line = tables.line_of(path, number) if path.name.endswith((".csv", ".csv.gz")) else None
    return f"{path}{'' if line is None else f', line {line}'}: column {column.name!r}, data row {number + 1}"


def _shown(cell: object) -> str:
    if isinstance(cell, str):
        return repr(cell if len(cell) <= _MOST_SHOWN else f"{cell[:_MOST_SHOWN]}…")
    try:
        return f"{float(cell):g}"  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return " ".join(repr(cell).split())[:40]


# --- one format each --------------------------------------------------------------------------------------------------


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except _UNREADABLE as error:
        raise BadInput(f"{path} cannot be read: {_line(error)}") from None
    except TypeError:
        # The file holds a single array, which numpy.save wrote.
        raise BadInput(f"{path} cannot be read: must hold named arrays, as numpy.savez writes them") from None


def _length(path: Path, arrays: dict[str, NDArray[Any]]) -> int:
    """Return the number of rows, which must be the same for all arrays."""
    shapes = ", ".join(f"{key} {array.shape}" for key, array in arrays.items())
    if len({array.shape[:1] for array in arrays.values()}) != 1 or any(not each.ndim for each in arrays.values()):
        raise BadInput(f"{path} holds {shapes or 'nothing'}: must be arrays with one sample a row, of one length")
    return len(next(iter(arrays.values())))


def _frame_of_arrays(path: Path) -> pd.DataFrame:
    arrays = _arrays(path)
    rows = _length(path, arrays)
    parts = []
    # The target is the last column of a table; among arrays it is y, at any position.
    for key in sorted(arrays, key=lambda each: each == "y"):
        array = arrays[key]
        if array.dtype.kind not in "biufUM":
            raise BadInput(f"{path}: {key} is {array.dtype} {array.shape}: must be numbers or text")
        # pandas computes only with numbers in the machine's byte order.
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        names = [key] if array.ndim == 1 else [f"{key}{place}" for place in range(array[0].size if len(array) else 0)]
        parts.append(pd.DataFrame(array.reshape(rows, len(names)), columns=names))
    frame = pd.concat(parts, axis=1)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise BadInput(f"{path} has two columns {twice[0]!r}: must be arrays whose columns have names of their own")
    return frame


def _parquet(path: Path) -> Any:
    """Return the table of a parquet file."""
    check.installed(str(path), "pyarrow", "arrow")
    return importlib.import_module("pyarrow.parquet")


def _frame_of_parquet(path: Path) -> pd.DataFrame:
    _parquet(path)
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except _UNREADABLE as error:
        raise BadInput(f"{path} cannot be read: {_line(error)}") from None
    # An index with a name is a column of the table; an index without a name only counts the rows.
    frame = frame.reset_index(drop=frame.index.names == [None])
    frame.columns = frame.columns.map(str)
    for key in frame.columns:
        if isinstance(frame[key].dtype, pd.CategoricalDtype):
            frame[key] = frame[key].astype(frame[key].cat.categories.dtype)
    return frame


def _line(error: Exception) -> str:
    return one_line(error) or type(error).__name__
