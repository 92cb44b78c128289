"""The tables that a study adds to its run folder: their key columns and numeric columns, for comparisons of runs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.errors import BadInput, one_line
from netsim.studies.folder import check_unchanged
from netsim.studies.formats import OF_EVERY_RUN, TABLES, find_table, read_table
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

ALGORITHM = "algorithm"


def resolve(folders: Sequence[Path], metrics: Sequence[str], of_rounds: Iterable[str]) -> tuple[str | None, list[str]]:
    """Return the name of the table that has all metrics (None for rounds.csv), and the metrics' columns in it.

    A metric is a column of rounds.csv, or of a study's table, or is given as "table.column". Among tables, that with
    the fewest key columns takes precedence. Raises BadInput for an unknown metric, or if no table has them all.
    """
    rounds = list(of_rounds)
    if set(metrics) <= set(rounds):
        return None, list(metrics)
    tables = numbers_of(folders)
    names = [(name, column) for name, columns in tables.items() for column in columns]
    known = [*rounds, *(column for _, column in names), *(f"{name}.{column}" for name, column in names)]
    for metric in metrics:
        check.one_of("metric", metric, dict.fromkeys(known))
    # For each metric, the tables that have it, with its column in each.
    several = [{name: column for name, column in names if metric in (column, f"{name}.{column}")} for metric in metrics]
    common = [name for name in tables if all(name in where for where in several)]
    if not common:
        raise BadInput(f"metric = {metrics[-1]!r}: must be in the same table as {metrics[0]!r}")
    return common[0], [where[common[0]] for where in several]


def numbers_of(folders: Sequence[Path]) -> dict[str, list[str]]:
    """Return the numeric columns of each table of the folders; tables with the fewest key columns come first."""
    found: dict[str, list[str]] = {}
    keys: dict[str, int] = {}
    for folder in folders:
        for path in sorted(each for kind in TABLES for each in folder.glob(f"*.{kind}")):
            if path.stem in OF_EVERY_RUN:
                continue
            table = _read(folder, path.stem)
            keys[path.stem] = max(keys.get(path.stem, 1), _keys(table))
            numbers = [str(name) for name in table.select_dtypes("number").columns]
            found[path.stem] = list(dict.fromkeys([*found.get(path.stem, []), *numbers]))
    return {
        name: [each for each in found[name] if each != ALGORITHM] for name in sorted(found, key=lambda name: keys[name])
    }


def keyed(folders: Sequence[Path], name: str) -> "list[pd.DataFrame]":
    """Return a table of each folder, with its key columns first and ``algorithm`` last among the keys.

    The keys are the fewest leading columns that identify the rows in every folder. If ``algorithm`` is not among them,
    the first key is renamed to it.
    """
    tables = [_read(folder, name) for folder in folders]
    count = max(map(_keys, tables), default=1)
    ordered = []
    for table in tables:
        if ALGORITHM not in table.columns[:count]:
            table = table.rename(columns={table.columns[0]: ALGORITHM})
        keys, rest = [each for each in table.columns[:count] if each != ALGORITHM], table.columns[count:]
        ordered.append(table[[*keys, ALGORITHM, *rest]])
    return ordered


def _keys(table: "pd.DataFrame") -> int:
    """Return how many leading columns identify the rows; at least all leading text columns, and ``algorithm``."""
    names, numbers = list(table.columns), set(table.select_dtypes("number").columns)
    texts = next((place for place, name in enumerate(names) if name in numbers), len(names))
    least = max(1, texts, names.index(ALGORITHM) + 1 if ALGORITHM in names else 1)
    return next((count for count in range(least, len(names)) if not table.duplicated(names[:count]).any()), least)


def _read(folder: Path, name: str) -> "pd.DataFrame":
    path = find_table(folder, name)
    if path is None:
        raise BadInput(f"run folder = {str(folder)!r}: must have the table {name!r}")
    check_unchanged(folder, path.name, "settings.json", "summary.json")
    try:
        return read_table(path, text=[ALGORITHM])
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"table = {str(path)!r}: must be what a run wrote ({one_line(error)})") from None
