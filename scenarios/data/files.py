"""Reading the data sets of the folder that the environment variable NETSIM_DATA names."""

import difflib
import gzip
import io
import os
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

_FOLDER = "NETSIM_DATA"

_SOURCES = {
    "adult": "UCI id 2",
    "airquality": "UCI id 360",
    "banana": "OpenML id 1460",
    "blood": "UCI id 340",
    "conductivity": "UCI id 464",
    "credit_default": "UCI id 350",
    "energy": "UCI id 374",
    "har": "UCI id 240",
    "letter": "UCI id 59",
    "mnist": "yann.lecun.com/exdb/mnist, as arrays x and y",
    "sensorless": "UCI id 325",
    "tomshardware": "UCI id 248, regression/TomsHardware.data",
    "twitter": "UCI id 248, regression/Twitter.data",
    "wisdm_har": "WISDM lab, activity recognition v1.1, transformed",
}


def find(name: str, suffix: str) -> Path:
    """Return the path of ``<name><suffix>`` in the folder, or raise BadInput that says what to do."""
    source = f" (public source: {_SOURCES[name]})" if name in _SOURCES else ""
    wanted = f"a folder that holds {name}{suffix}{source}"
    value = os.environ.get(_FOLDER)
    if not value:
        raise BadInput(f"{_FOLDER} is not set: must be {wanted}")
    folder = Path(value)
    if not folder.is_dir():
        raise BadInput(f"{_FOLDER} = {value!r} is no folder: must be {wanted}")
    there = sorted(path.name.removesuffix(suffix) for path in folder.glob(f"*{suffix}"))
    if name not in there:
        held = f"it holds {', '.join(there)}" if there else f"it holds no {suffix} file"
        near = "" if source else nearest(name, there)
        raise BadInput(f"{_FOLDER} = {value!r}: must be {wanted}{near}; {held}")
    return folder / f"{name}{suffix}"


def read_table(path: Path) -> "pd.DataFrame":
    """Return a gzipped csv file as a DataFrame; empty cells are NaN, every other mark is kept as it is.

    Raises
    ------
    BadInput
        If it is damaged, no table, or has no row.
    """
    import pandas as pd

    try:
        text = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {_line(error)}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the line of names
            # Only empty cells are missing values: other marks are text, and are reported as such.
            frame = pd.read_csv(
                io.BytesIO(text), index_col=False, keep_default_na=False, na_values=[""], low_memory=False
            )
    except (ValueError, pd.errors.ParserWarning) as error:  # ValueError: also for an empty file or no text
        raise BadInput(f"{path} is no table: {_line(error)}") from None
    if not len(frame):
        raise BadInput(f"{path} has no row: must be a table with one sample a row")
    return frame


def numbers(path: Path, column: "pd.Series[Any]") -> NDArray[np.float64]:
    """Return a column as finite numbers, or raise BadInput that names the column and the first bad row."""
    import pandas as pd

    values = np.asarray(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        row = int(bad[0])
        cell = column.iloc[row]
        value = repr(cell) if isinstance(cell, str) else f"{float(cell):g}"
        raise BadInput(
            f"{path}: column {column.name!r}, data row {row + 1} = {value}: must be a finite number "
            f"({len(bad)} such rows)"
        )
    return values


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint at the name that was probably meant; empty if none is near."""
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def load_arrays(name: str, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of ``<name>.npz`` from the folder NETSIM_DATA.

    Raises
    ------
    BadInput
        If NETSIM_DATA is unset or no folder, or the file is missing, damaged, or lacks an array that is ``wanted``.
    """
    path = find(name, ".npz")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {_line(error)}") from None
    for key in wanted:
        if key not in arrays:
            raise BadInput(f"{path} has no array {key!r}: must hold {', '.join(wanted)}")
    return arrays


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
