"""Read csv files: `rows` for small handwritten files, with line numbers for errors, and `frame` for whole tables.

Both functions accept UTF-8 with or without a byte order mark; files may be compressed by gzip. The delimiter is a
comma, semicolon or tab; blanks after it are ignored. With semicolons or tabs, numbers may have a decimal comma. Empty
lines and lines that begin with # are skipped.
"""

import csv
import gzip
import io
import itertools
import math
import re
import warnings
import zlib
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import BadInput, one_line
from netsim.util import check
from netsim.util.datafiles import used
from netsim.util.files import text_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame", "line_of", "name", "named", "number", "rows"]

# An integer as Python prints it. 07 does not match, so it stays text, and is the name of another node than 7.
_WHOLE = re.compile("0|-?[1-9][0-9]*")
_MOST_DIGITS = 4000
_COMMENT = re.compile(r"^[ \t]*#[^\r\n]*", re.MULTILINE)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
_ROWS_SEARCHED = 1000  # `_thousands` looks for thousands separators in this many rows.
_UNNAMED = re.compile(r"(Unnamed: \d+)?")
_RETURN = re.compile(r"\r(?!\n)")
_QUOTED_OR_RETURN = re.compile(rf'"[^"]*"|{_RETURN.pattern}')


# --- text -------------------------------------------------------------------------------------------------------------


def _bytes_of(path: Path, failed: str) -> bytes:
    """Read a file's bytes, and decompress them if needed; error messages begin with ``failed``."""
    if not path.is_file() and path.exists():
        # Reading a pipe would block until another process writes to it.
        raise BadInput(f"{failed}: must be a regular file")
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" or path.suffix == ".gz" else data
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise BadInput(f"{failed}: {one_line(error)}") from None


def _without_comments(text: str) -> str:
    """Replace comment lines by empty lines, so that all other lines keep their numbers."""
    if "#" not in text:
        return text
    if '"' not in text:
        return _COMMENT.sub("", text)
    lines, quoted = text.splitlines(keepends=True), False
    for place, line in enumerate(lines):
        if not quoted and line.lstrip().startswith("#"):
            lines[place] = line[len(line.rstrip("\r\n")) :]
        else:
            quoted ^= line.count('"') % 2 == 1
    return "".join(lines)


def _with_line_feeds(text: str) -> str:
    """Return a text whose lines end with line feeds if some end with a carriage return alone, as on old systems.

    After such an empty line, pandas would drop an empty first cell, and so shift a row to the left.
    """
    if not _RETURN.search(text):
        return text
    return _QUOTED_OR_RETURN.sub(lambda found: found.group() if found.group().startswith('"') else "\n", text)


def _delimiter_of(text: str) -> str:
    """Return the delimiter that the first two lines suggest: a comma, semicolon or tab."""
    written = (match.group() for match in re.finditer(r"[^\r\n]+", text))
    lines = [re.sub(r'"[^"]*"', "", line) for line in itertools.islice(filter(str.strip, written), 2)]
    if not lines:
        return ","
    for delimiter in ";\t":
        if delimiter in lines[0] and ("," not in lines[0] or _same_counts(lines, delimiter) > _same_counts(lines, ",")):
            return delimiter
    return ","


def _same_counts(lines: Sequence[str], delimiter: str) -> bool:
    return len({line.count(delimiter) for line in lines}) == 1


# --- row by row -------------------------------------------------------------------------------------------------------


def rows(
    path: str | Path, needed: Collection[str], optional: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (where, cells) for each row of a csv file: its place, such as "motes.csv, line 3", and {column: cell}.

    Raises
    ------
    BadInput
        If the file is missing or not text, a needed column is missing, a column is unknown, or a row has more or fewer
        cells than there are columns.
    """
    failed = f"file = {str(path)!r}"
    try:
        text = _without_comments(text_of(_bytes_of(used(Path(path)), f"{failed}: must be a csv file"), failed))
        delimiter = _delimiter_of(text)
        found = [(line, [cell.strip() for cell in cells]) for line, cells in _all_rows(text, delimiter)]
    except FileNotFoundError:
        raise BadInput(f"{failed}: must be an existing file") from None
    except csv.Error as error:
        raise BadInput(f"{failed}: must be a csv file ({one_line(error)})") from None
    found = [(line, cells) for line, cells in found if any(cells)]
    if not found:
        raise BadInput(
            f"file = {str(path)!r}: must begin with a line of columns: {', '.join(needed or optional)}; it is empty"
        )
    if _UNNAMED.fullmatch(found[0][1][0]) and len(found[0][1]) > 1:
        # Drop the unnamed first column that pandas writes for its row numbers.
        found = [(line, cells[1:]) for line, cells in found]
    (line, columns), where = found[0], Path(path).name
    missing = [name for name in needed if name not in columns]
    if missing:
        there = " ".join(", ".join(columns).split())[:200]
        raise BadInput(f"{where}, line {line}: must have a column {missing[0]!r}; it has {there}")
    for name in columns:
        check.one_of(f"{where}, line {line}: column", name, [*needed, *optional])
        if columns.count(name) > 1:
            raise BadInput(f"{where}, line {line}: must have one column {name!r}; it has {columns.count(name)}")
    for line, cells in found[1:]:
        if len(cells) != len(columns):
            raise BadInput(f"{where}, line {line}: must have {len(columns)} cells, as the first line; has {len(cells)}")
        if delimiter != ",":
            cells = [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]
        yield f"{where}, line {line}", dict(zip(columns, cells, strict=True))


def number(where: str, row: Mapping[str, str], column: str) -> float:
    """Return the cell of a row in ``column`` as a finite number."""
    try:
        value = float(row[column])
    except ValueError:
        raise BadInput(f"{where}: {column} = {row[column][:100]!r}: must be a number") from None
    return check.finite(f"{where}: {column}", value)


def name(where: str, row: Mapping[str, str], column: str) -> Hashable:
    """Return the cell of a row in ``column`` as a node's name: an int if it is a whole number, else text."""
    text = row[column]
    if not text:
        raise BadInput(f"{where}: must have a {column}; it is empty")
    return named(text)


def named(text: str) -> Hashable:
    """Return the node's name that a text stands for: an int if it is a whole number, else the text."""
    # By default, Python refuses to convert texts with more digits to integers.
    return int(text) if len(text) <= _MOST_DIGITS and _WHOLE.fullmatch(text) else text


# --- whole tables -----------------------------------------------------------------------------------------------------


def frame(path: Path, columns: Sequence[int] | None = None) -> "tuple[pd.DataFrame, list[str]]":
    """Read a csv file as a table with one sample per row; also return notes, for example on columns that were dropped.

    The first line names the columns. Only empty cells are missing values; text such as "NA" stays text. Dropped are an
    unnamed first column (row numbers), unnamed empty columns, empty lines and, unless the delimiter is a comma, rows of
    empty cells. The index of the table holds each row's number in the file, from which `line_of` finds the line.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of int, optional
        The positions of the columns to read, from 0; default: all.

    Raises
    ------
    BadInput
        If the file is missing, damaged or not a table; or if its first line looks like a row of data, repeats a name,
        or lacks the name of a column that is not empty.
    """
    import pandas as pd

    try:
        data = _bytes_of(path, f"{path} cannot be read")
    except FileNotFoundError:
        raise BadInput(f"{path}: must be an existing file") from None
    given = text_of(data, str(path))
    text = _with_line_feeds(_without_comments(given))
    delimiter = _delimiter_of(text)
    line, names = _header_of(path, text, delimiter)
    decimal = _decimal_of(text, delimiter)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas only warns of rows with too many cells.
            found = pd.read_csv(
                io.BytesIO(data if text is given or text == given else text.encode()),
                index_col=False,
                keep_default_na=False,
                na_values=[""],
                low_memory=False,
                usecols=None if columns is None else list(columns),
                sep=delimiter,
                skipinitialspace=True,
                decimal=decimal,
            )
    except pd.errors.ParserWarning:
        raise _too_long(path, line, names, text, delimiter) from None
    except ValueError as error:  # ValueError includes pandas' EmptyDataError and UnicodeDecodeError.
        raise BadInput(f"{path} is no table: {one_line(error)}") from None
    for each in found.columns:
        if not pd.api.types.is_numeric_dtype(found[each]):
            found[each] = found[each].map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
    places = range(len(names)) if columns is None else columns
    found.columns = pd.Index([names[place] for place in places])
    if delimiter != ",":
        found = found.dropna(how="all")
    found, notes = _named_only(path, line, found)
    notes += _check_header(path, line, found)
    if delimiter != ",":
        notes += _thousands(text, delimiter, decimal, names, found)
    return found, notes


def _too_long(path: Path, line: int, names: Sequence[str], text: str, delimiter: str) -> BadInput:
    """Return the error for a table whose first row has more cells than there are column names."""
    rows = _all_rows(text, delimiter)
    next(rows)
    first, cells = next(rows)
    more = f"{len(cells)} cells under the {len(names)} names of line {line}"
    hint = "; R adds row names unless row.names = FALSE" if len(cells) == len(names) + 1 else ""
    return BadInput(f"{path}, line {first}: must have as many cells as there are names; it has {more}{hint}")


def _thousands(text: str, delimiter: str, decimal: str, names: Sequence[str], found: "pd.DataFrame") -> list[str]:
    """Return a note on each column whose decimal marks may be thousands separators: 1.005 may mean 1005.

    A column gets a note if every decimal mark in its first rows is followed by exactly three digits.
    """
    notes, point = [], re.escape(decimal)
    like = re.compile(rf"[-+]?[1-9]\d{{0,2}}{point}\d{{3}}")
    head = [cells for _, cells in itertools.islice(_all_rows(text, delimiter), 1, _ROWS_SEARCHED)]
    for place, each in enumerate(names):
        if each not in found or found[each].dtype.kind != "f":
            continue
        marked = [cell for cell in (cells[place].strip() for cells in head if place < len(cells)) if decimal in cell]
        if marked and all(like.fullmatch(cell) for cell in marked):
            value = marked[0].replace(decimal, ".")
            notes.append(
                f"column {each!r}: {marked[0]!r} taken as {value}; if it is {value.replace('.', '')}, write so"
            )
    return notes


def line_of(path: Path, row: int) -> int | None:
    """Return the number of the line at which a row ends in the file; None if there is no such row.

    ``row`` is the row's index in the table that `frame` returned.
    """
    text = _without_comments(text_of(_bytes_of(path, str(path)), str(path)))
    # pandas reads cells of any length, but the csv module refuses cells above 128 KiB by default.
    limit = csv.field_size_limit(max(len(text), 1))
    try:
        lines = [line for line, _ in _all_rows(text, _delimiter_of(text))]
    finally:
        csv.field_size_limit(limit)
    return lines[row + 1] if row + 1 < len(lines) else None


def _all_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row; empty lines are not rows, as in pandas."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    for cells in reader:
        if len(cells) > 1 or any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _header_of(path: Path, text: str, delimiter: str) -> tuple[int, list[str]]:
    try:
        line, names = next(_all_rows(text, delimiter))
    except StopIteration:
        raise BadInput(f"{path} is no table: No columns to parse from file") from None
    except csv.Error as error:
        raise BadInput(f"{path} is no table: {one_line(error)}") from None
    names = [each.strip() for each in names]
    twice = [each for each in names if not _UNNAMED.fullmatch(each) and names.count(each) > 1]
    if twice:
        raise BadInput(f"{path}, line {line}: must have one column {twice[0]!r}; it has {names.count(twice[0])}")
    return line, names


def _decimal_of(text: str, delimiter: str) -> str:
    """Return the decimal mark: a comma if some numbers have a comma and none has a point."""
    if delimiter == ",":
        return "."
    begin, end = rf"(?:^|{delimiter})[ \"]*[-+]?\d+", rf"\d+[ \"]*(?={delimiter}|\r|$)"
    has_comma = re.search(f"{begin},{end}", text, re.MULTILINE)
    return "," if has_comma and not re.search(rf"{begin}\.{end}", text, re.MULTILINE) else "."


def _named_only(path: Path, line: int, found: "pd.DataFrame") -> "tuple[pd.DataFrame, list[str]]":
    """Drop an unnamed first column (row numbers) and unnamed empty columns, and return notes on what was dropped.

    Raises BadInput for any other unnamed column.
    """
    unnamed = [place for place, each in enumerate(found.columns) if _UNNAMED.fullmatch(str(each))]
    notes = []
    for place in unnamed:
        empty = bool(found.iloc[:, place].isna().all())
        if place and not empty:
            raise BadInput(f"{path}, line {line}: must have a name for its column {place + 1}, which is not empty")
        notes.append(f"column {place + 1} left out: it has no name{', and is empty' if empty else ''}")
    kept = [place for place in range(len(found.columns)) if place not in unnamed]
    return (found.iloc[:, kept] if unnamed else found), notes


def _check_header(path: Path, line: int, found: "pd.DataFrame") -> list[str]:
    """Check that the first line of a table contains names of columns; raise BadInput if the names look like data.

    A name counts as data if it is a number, or a text that recurs in a cell of its column. The names look like data in
    two cases. First: all names count as data. Second: more than half of the names count as data, and at least one name
    is a number; but not if the numbers increase evenly and no text recurs. Return a note if the names are numbers that
    count up from 0 or 1.
    """
    names = [str(each) for each in found.columns]
    numbers = [float(each.replace(",", ".")) for each in names if _is_number(each)]
    again = [each for each in names if not _is_number(each) and _recurs(found[each], each)]
    steps = set(np.diff(numbers).tolist())
    # Evenly increasing whole numbers may be names of columns: positions from 0 or 1, or years among other names.
    counts = len(steps) <= 1 and all(each.is_integer() for each in numbers) and min(steps, default=1.0) > 0
    if len(numbers) == len(names) and counts and numbers[:1] in ([0.0], [1.0]):
        return [f"columns are called {names[0]} to {names[-1]}, as the first line says"] if len(names) > 1 else []
    like_data = len(numbers) + len(again)
    if (names and like_data == len(names)) or (numbers and like_data > len(names) / 2 and not (counts and not again)):
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        why = f"{shown} looks like a row of data: put a line of names before it"
        raise BadInput(f"{path}, line {line}: must name the columns; {why}")
    return []


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text.replace(",", ".")))
    except ValueError:
        return False


def _recurs(column: "pd.Series[Any]", cell: str) -> bool:
    return bool(column.dtype.kind not in "biuf" and (column == cell).any())
