"""Record an agent's rows in a file that stays valid even if the process is killed."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import BadInput, NetsimError, one_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Recorder"]


class Recorder:
    """Appends each row to a file immediately, as a line of JSON.

    If the process is killed, the file keeps every recorded row. (If the machine crashes, this depends on its file
    system.) Agents may share a recorder, and it does not affect the run. An agent that loses its state in a `Crash`
    keeps its recorder.

    Parameters
    ----------
    path : str or Path
        The file, which must not exist yet, so that rows of two runs are never mixed and no recorded row is overwritten.

    Raises
    ------
    BadInput
        If the file exists, or its folder does not.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file: int | None = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise BadInput(f"path = {str(path)!r}: must be a new file that can be written ({reason})") from None

    def record(self, **row: Any) -> None:
        """Append a row, given as keyword arguments {column: number, text, list or array}.

        Raises
        ------
        BadInput
            If a value cannot be written as JSON.
        NetsimError
            If the file is closed, or cannot be written.
        """
        if self._file is None:
            raise NetsimError(f"recorder {str(self.path)!r}: is closed")
        try:
            line = json.dumps(row, default=_plain).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise BadInput(f"row = {row!r}: must be of numbers, texts, lists and arrays ({one_line(error)})") from None
        try:
            # One call, so that a kill cannot split a line.
            written = os.write(self._file, line)
        except OSError as error:
            raise NetsimError(f"recorder {str(self.path)!r}: could not be written ({error.strerror})") from error
        if written < len(line):
            # Remove the partial row: the disk may have space again later, and the next row must start on a new line.
            with suppress(OSError):
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise NetsimError(f"recorder {str(self.path)!r}: could not be written (the disk is full)")

    def close(self) -> None:
        """Close the file; leaving ``with Recorder(path) as recorder`` closes it, too."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Recorder":
        return self

    def __reduce__(self) -> Any:
        raise NetsimError(f"recorder {str(self.path)!r}: must stay in its process; give each process one of its own")

    @staticmethod
    def read(path: str | Path) -> "pd.DataFrame":
        """Return the rows of a file, in the order of recording; an incomplete last line is left out.

        Raises
        ------
        BadInput
            If the file is missing, or not a recorder's.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        try:
            for line in Path(path).read_bytes().split(b"\n")[:-1]:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"{type(row).__name__} is no row")
                rows.append(row)
        except OSError as error:
            raise BadInput(f"path = {str(path)!r}: must be the file of a Recorder ({one_line(error)})") from None
        except ValueError as error:
            where = f"path = {str(path)!r}, line {len(rows) + 1}"
            raise BadInput(f"{where}: must be the file of a Recorder ({one_line(error)})") from None
        return pd.DataFrame(rows)


def _plain(value: Any) -> Any:
    """Return an array or a numpy number as JSON data; raises TypeError for any other type."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not one")
