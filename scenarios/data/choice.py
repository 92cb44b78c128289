"""Choose a table's target and inputs, and decide whether the target is classes or numbers.

All decisions about a table are made here; a study copies them (`Chosen.notes`) into its notes.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.scenarios.data.files import bare, find_table
from netsim.scenarios.data.formats import as_numbers, numbers, place_in, read_frame
from netsim.util import check
from netsim.util.datafiles import nearest

if TYPE_CHECKING:
    Column = pd.Series[Any]

NOT_INPUTS = {
    "airquality": ("datetime",),
    "energy": ("date",),
    "adult": ("split",),
    "wisdm_har": ("UNIQUE_ID", "user"),
}
"""Columns of known tables that are not inputs: times, persons, and the split into training and test rows."""

MOST_CLASSES = 20
"""Whole numbers with at most this many different values are taken as classes; more only on request."""

MOST_TEXTS = 1000
"""A column of text may have at most this many different values, each of which becomes an input."""

UNKNOWN = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""The texts of cells that count as missing if such cells are to be left out or replaced."""

# {table: text of an unknown cell}; rows with such a cell are left out if a target of classes is requested.
_UNKNOWN = {"adult": "?"}
# {table: columns with empty cells, which are replaced by the median of the column}.
_MAY_BE_EMPTY = {"wisdm_har": ("XPEAK", "YPEAK", "ZPEAK")}

_TIME = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]\.?m\.?)?( ?(z|utc|gmt)|[+-]\d{2}:?\d{2})?"
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = (
    r"(\d{4}(?P<first>[-/.])\d{1,2}((?P=first)\d{1,2})?|\d{1,2}(?P<other>[-/.])\d{1,2}(?P=other)(\d{4}|\d{2})"
    rf"|\d{{1,2}}[ -]{_MONTH}[ ,-]*(\d{{4}}|\d{{2}})|{_MONTH} \d{{1,2}},? \d{{4}})"
)
_DATE = re.compile(rf"({_DAY}([ t,]+{_TIME})?|{_TIME})", re.IGNORECASE)
_LOOKED_AT = 50  # the number of cells of a column that are checked for dates


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table used by a study that predicts numbers.

    Parameters
    ----------
    target : str
        Column of the table to predict; by default the last one.
    drop : str
        Columns of the table to leave out, with commas between.
    missing : str
        Cells that are empty, ? or NA. "refuse" (the default) names the first. "drop" leaves out their rows. "mean" puts
        the mean of the column's other numbers; the target must not miss any.
    """

    OF_TABLES: ClassVar[tuple[str, ...]] = ("target", "drop", "missing", "classes")

    target: str | None = None
    drop: str | None = None
    missing: str | None = None

    @property
    def wants_classes(self) -> bool | None:
        """Whether the target must be classes; None: decided by its values."""
        return False

    def check_left_out(self, data: str) -> None:
        """Raise BadInput if rows, columns or a scaling are chosen, for data that are not a table."""
        for name in self.OF_TABLES:
            value = getattr(self, name, None)
            if value is not None and (name, value) != ("scaling", "column"):
                raise BadInput(f"{name} = {value!r}: must be left out for the data {data!r}, which are no table")


@dataclass(frozen=True, kw_only=True)
class Preparation(Columns):
    """The rows and columns of a table to use, and the scaling of its inputs to [0, 1].

    Parameters
    ----------
    first : int
        Use only the first rows of the table, this many; default: all.
    within : float
        Keep the rows whose target lies within this many standard deviations of the target's mean; default: all.
    scaling : str
        "column": each input has its own minimum and maximum. "whole": all inputs share one minimum and maximum.
        Default: "column".
    """

    OF_TABLES = (*Columns.OF_TABLES, "first", "within", "scaling")

    first: int | None = None
    within: float | None = None
    scaling: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableChoice(Columns):
    """The columns of a table to use, and whether its target is classes or numbers.

    Parameters
    ----------
    classes : bool
        Take the target as classes, or as numbers; by default text and up to 20 different whole numbers are classes.
    """

    classes: bool | None = None

    numbers_too: ClassVar[bool] = True
    """Whether the study can learn numbers."""

    @property
    def wants_classes(self) -> bool | None:
        """Whether the target must be classes; None: decided by its values."""
        return self.classes


@dataclass(frozen=True, kw_only=True)
class ClassChoice(TableChoice):
    """The columns of a table used by a study of classification.

    Parameters
    ----------
    classes : bool
        Take the target as classes, however many they are; by default text and up to 20 different whole numbers are.
    """

    numbers_too = False


@dataclass(frozen=True)
class Chosen:
    """A table with its columns chosen, but not yet converted to numbers.

    ``frame`` has the inputs and the target. ``notes`` has a line for each decision, and says how to change it.
    """

    name: str
    path: Path
    frame: pd.DataFrame
    target: str
    classes: bool
    notes: tuple[str, ...]

    @property
    def input_columns(self) -> list[str]:
        """Names of the input columns, in order."""
        return [str(each) for each in self.frame.columns if each != self.target]

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a column as finite numbers, shape (n,), or raise BadInput that names the first bad cell."""
        hint = "" if name == self.target else f"; --drop {name} leaves the column out"
        if self.frame[name].isin([*UNKNOWN, None]).any() or self.frame[name].isna().any():
            hint += ", --missing drop the rows" if hint else "; --missing drop leaves such rows out"
        return numbers(self.path, self.frame[name], hint)

    def encoded(self, name: str) -> NDArray[np.float64]:
        """Return a column as inputs: shape (n, 1), or for text (n, values) of 0 and 1.

        Raises BadInput for an empty cell, for a text among mostly numbers, and for text with too many values.
        """
        column = self.frame[name]
        if is_numeric(column) or _mostly_numbers(column):
            if name in _MAY_BE_EMPTY.get(bare(self.name), ()):
                column = column.fillna(column.median())
                return numbers(self.path, column)[:, None]
            # In a column that mostly holds numbers, a text is an error of the table, not a category.
            return self.column(name)[:, None]
        if column.isna().any():
            where = place_in(self.path, column, int(np.flatnonzero(column.isna())[0]))
            raise BadInput(f"{where} is empty: must be text")
        values = column.nunique()
        if values > MOST_TEXTS:
            raise BadInput(
                f"{self.path}: column {name!r} holds {values:,} different texts: must be {MOST_TEXTS:,} at most; "
                f"--drop {name} leaves the column out"
            )
        return pd.get_dummies(column).to_numpy(dtype=np.float64)


def choose(data: str, choice: Columns) -> Chosen:
    """Read a table and choose its columns.

    Columns known not to be inputs (`NOT_INPUTS`) are left out.

    Parameters
    ----------
    data : str
        The name or the path of the table, as for `netsim.scenarios.data.files.find_table`.
    choice : Columns
        The requested columns and target.

    Raises
    ------
    BadInput
        If the table or a column is missing, a column contains dates, or the target does not suit the choice.
    """
    path = find_table(data)
    frame, read = read_frame(path)
    frame, left_out = _without(path, bare(data), frame, choice)
    columns = [str(each) for each in frame.columns]
    if len(columns) < 2:
        raise BadInput(f"{path} has {len(columns)} usable columns: must have an input and a target at least")
    target = columns[-1] if choice.target is None else _known("target", choice.target, path, columns)
    _refuse_dates(path, frame, target)
    classes = choice.wants_classes
    if classes is not False and bare(data) in _UNKNOWN:
        mark = _UNKNOWN[bare(data)]
        frame = frame[~(frame == mark).any(axis=1)]
        if not len(frame):
            raise BadInput(f"{path} has no row without {mark!r}: must have one at least")
    frame, filled = _without_missing(path, frame, target, choice.missing)
    looks_like_classes, why = _looks(frame[target])
    taken = looks_like_classes if classes is None else classes
    notes = [*read, *filled, *([f"columns left out: {', '.join(left_out)}"] if left_out else [])]
    if choice.wants_classes is not False:
        notes += _many_texts(frame, target)
    if taken and not is_numeric(frame[target]):
        marks = [each for each in UNKNOWN if each and (frame[target] == each).any()]
        notes += [f"target {target!r}: {each!r} is a class; --missing drop leaves such rows out" for each in marks]
    return Chosen(data, path, frame, target, taken, (_taken(target, why, classes, taken, choice), *notes))


def _without_missing(path: Path, frame: pd.DataFrame, target: str, asked: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Return a table without missing cells, and a note on how they were handled."""
    if check.one_of("missing", asked or "refuse", ("drop", "mean", "refuse")) == "refuse":
        return frame, []
    known = frame.mask(frame.isin(UNKNOWN))
    empty = known.isna()
    if not empty.to_numpy().any():
        return frame, []
    if asked == "drop":
        kept = known[~empty.any(axis=1)]
        if not len(kept):
            raise BadInput(f"{path} has no row without a missing cell: must have one at least")
        notes = [f"rows left out: {len(frame) - len(kept):,} of {len(frame):,}, which miss a cell"]
    else:
        if empty[target].any():
            where = place_in(path, frame[target], int(np.flatnonzero(empty[target])[0]))
            raise BadInput(f"{where} is missing: must not be, for a mean; --missing drop leaves such rows out")
        kept = known
        notes = [f"cells filled with their column's mean: {int(empty.to_numpy().sum()):,}"]
    kept = kept.copy()
    for name in frame.columns[empty.any(axis=0)]:
        values = as_numbers(kept[name])
        # Without the marks of missing cells, the column may hold only numbers.
        numeric = bool((values.notna() == kept[name].notna()).all()) and bool(values.notna().any())
        if numeric:
            kept[name] = values
        if asked == "mean":
            if not numeric:
                where = place_in(path, frame[name], int(np.flatnonzero(empty[name])[0]))
                raise BadInput(f"{where} is missing: must be in a column of numbers, for a mean; --missing drop")
            kept[name] = values.fillna(values.mean())
    return kept, notes


def _many_texts(frame: pd.DataFrame, target: str) -> list[str]:
    """Return a note on each column of text that becomes many inputs."""
    notes = []
    for name in frame.columns:
        column = frame[name]
        if name == target or is_numeric(column) or pd.api.types.is_bool_dtype(column) or _mostly_numbers(column):
            continue
        values = int(column.nunique())
        if MOST_CLASSES < values <= MOST_TEXTS:
            notes.append(
                f"column {str(name)!r}: {values:,} different texts, each an input; --drop {name} leaves it out"
            )
    return notes


def is_numeric(column: "Column") -> bool:
    """Return whether a column holds numbers; booleans do not count as numbers."""
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def _looks(column: "Column") -> tuple[bool, str]:
    """Return whether a target looks like classes, and the reason."""
    values, rows = int(column.nunique()), len(column)
    if pd.api.types.is_bool_dtype(column):
        return True, f"truth values in {rows:,} rows"
    if not is_numeric(column):
        if _mostly_numbers(column):
            # The other cells are errors of the table, which are reported when the column is converted.
            return False, f"numbers, though not all, in {rows:,} rows"
        return True, f"{values:,} different texts in {rows:,} rows"
    if bool((column.dropna() % 1 != 0).any()):
        return False, f"numbers with fractions in {rows:,} rows"
    # If almost every value occurs only once, the numbers are counts or measurements.
    few = values <= MOST_CLASSES and values <= rows / 2
    return few, f"{values:,} different whole numbers in {rows:,} rows"


def _mostly_numbers(column: "Column") -> bool:
    return bool(as_numbers(column).notna().mean() > 0.5)


def _taken(target: str, why: str, asked: bool | None, taken: bool, choice: Columns) -> str:
    """Return how the target was interpreted, and the flag for the other interpretation."""
    note = f"target {target!r}: {why}, taken as {'classes' if taken else 'numbers'}"
    if asked is not None or "whole" not in why:
        return note
    if not taken:
        return f"{note}; --classes takes them as classes"
    return f"{note}; --no-classes takes them as numbers" if getattr(choice, "numbers_too", False) else note


def _without(path: Path, name: str, frame: pd.DataFrame, choice: Columns) -> tuple[pd.DataFrame, list[str]]:
    """Return the table without columns that are not inputs, and their names."""
    columns = [str(each) for each in frame.columns]
    found = [each for each in NOT_INPUTS.get(name, ()) if each in columns and each != choice.target]
    for each in _listed(choice.drop, columns):
        _known("drop", each, path, columns)
        if each == choice.target or (choice.target is None and each == columns[-1]):
            which = "what --target names" if choice.target else "the last column; --target names another"
            raise BadInput(f"drop = {each!r}: must not be the target, {which}")
        found.append(each)
    left_out = list(dict.fromkeys(found))
    return frame.drop(columns=left_out), left_out


def _listed(text: str | None, columns: list[str]) -> list[str]:
    """Return the columns that a parameter lists, although a column's name may contain a comma."""
    if text is None:
        return []
    return [text] if text in columns else [each.strip() for each in text.split(",")]


def _known(parameter: str, name: str, path: Path, columns: list[str]) -> str:
    if name not in columns:
        hint = nearest(name, columns) or f": {', '.join(columns)}"
        raise BadInput(f"{parameter} = {name!r}: must be a column of {path}{hint}")
    return name


def _refuse_dates(path: Path, frame: pd.DataFrame, target: str) -> None:
    """Raise BadInput if columns hold dates, which are neither numbers nor classes."""
    dates = {str(each): example for each in frame.columns if (example := _date_in(frame[each])) is not None}
    if not dates:
        return
    example = next(iter(dates.values()))
    several = len(dates) > 1
    which = f"column{'s' if several else ''} {', '.join(map(repr, dates))} of {path}"
    holds = f"{'hold' if several else 'holds'} dates such as {example!r}"
    if target in dates:
        raise BadInput(f"{which} {holds}: must not be the target; --target names another column")
    them = "them" if several else "it"
    raise BadInput(
        f"{which} {holds}: leave {them} out with --drop {','.join(dates)}, or put numbers in {them}, such as the hour"
    )


def _date_in(column: "Column") -> str | None:
    """Return the first date or time of a column that holds dates, else None."""
    known = column.dropna().iloc[:_LOOKED_AT]
    if not len(known):
        return None
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return str(known.iloc[0])
    if pd.api.types.is_numeric_dtype(column):
        return None
    dates = [each for each in (str(cell).strip() for cell in known) if _DATE.fullmatch(each)]
    return dates[0] if len(dates) > len(known) / 2 else None
