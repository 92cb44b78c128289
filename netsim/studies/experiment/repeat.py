"""Repeat an experiment from its folder alone, and pack the folder into one file for others."""

import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from netsim.errors import BadInput, one_line
from netsim.studies.experiment import paths
from netsim.studies.experiment.cells import Cell
from netsim.studies.experiment.command import SETTINGS, experiment_in
from netsim.studies.experiment.content import digest
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.folder import EXPERIMENT, INPUTS, RUNS, TABLE, as_kept, columns_of, keys_in, read
from netsim.studies.experiment.paths import brief
from netsim.studies.page import NAME as PAGE
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.datafiles import FOLDER, digest_of
from netsim.util.files import write_whole

_DIGEST = re.compile(r"[0-9a-f]{20,}$")
_TOP = (EXPERIMENT, TABLE, PAGE, RUNS, INPUTS)


def pack(folder: str | Path, out: str | Path) -> Path:
    """Write an experiment's folder as one zip file, and return its path.

    Raises BadInput if the folder is not an experiment's.
    """
    place = Path(folder)
    if not _about(place).get("file"):
        raise BadInput(
            f"folder = {str(folder)!r}: must be of an experiment whose file is known, to be repeated from it"
        )
    with write_whole(out) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(place.rglob("*")):
            if path.is_file() and path.relative_to(place).parts[0] in _TOP:
                packed.write(path, path.relative_to(place).as_posix())
    return Path(out)


@contextmanager
def opened(place: Path) -> Iterator[Path]:
    """Yield an experiment's folder; a packed folder is unpacked into a temporary one.

    Raises BadInput for a file that is no zip file, or that contains paths outside the folder.
    """
    if place.is_dir():
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="netsim-packed-") as name:
        try:
            with zipfile.ZipFile(place) as packed:
                for member in packed.namelist():
                    parts = PurePosixPath(member).parts
                    if not parts or parts[0] not in _TOP or ".." in parts or "\\" in member:
                        raise BadInput(f"{place}: must have no files outside an experiment's folder, as {member!r}")
                packed.extractall(name)
        except (zipfile.BadZipFile, OSError) as error:
            raise BadInput(f"{place}: must be a file that netsim pack wrote ({one_line(error)})") from None
        if not (Path(name) / EXPERIMENT).is_file():
            raise BadInput(f"{place}: must be a file that netsim pack wrote; it has no {EXPERIMENT}")
        yield Path(name)


@dataclass
class Repeated:
    """The result of repeating an experiment.

    Attributes
    ----------
    same, different : list of str
        Names of cells: those whose results agree to the last digit, and those whose results differ, with the
        difference.
    unknown : dict
        Names of stored cells that the file does not make, listed by reason: a script gave their values, or code has
        changed.
    tables : list of str
        Errors in the table of all runs.
    notes : list of str
        Versions and inputs that differ.
    """

    same: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.same) and not (self.different or self.unknown or self.tables)

    def lines(self) -> Iterator[str]:
        """Yield the lines to print."""
        counts = len(self.same), len(self.different), sum(map(len, self.unknown.values()))
        yield "{} cells are the same, {} differ, {} cannot be repeated".format(*counts)
        yield from (f"differs: {each}" for each in self.different + self.tables)
        for why, names in self.unknown.items():
            more = f"; and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"cannot be repeated, {why}: {'; '.join(names[:3])}{more}"
        yield from self.notes


def repeat(place: str | Path, *, trust: bool = False, reporter: Reporter | None = None) -> Repeated:
    """Run every cell of an experiment's folder again, from the copies in ``inputs/``, and compare.

    Parameters
    ----------
    place : str or Path
        The folder, or a file that `pack` wrote.
    trust : bool
        Whether the Python files in the folder may be executed.
    reporter : Reporter, optional
        Shows progress.

    Raises
    ------
    BadInput
        Without ``trust``, because the folder's files are executed; or if the folder or file is not an experiment's.
    """
    show = reporter or Reporter(quiet=True)
    with opened(Path(place).resolve()) as folder:
        about = _about(folder)
        file = folder / INPUTS / Path(str(about.get("file") or "")).name
        if not about.get("file") or not file.is_file():
            raise BadInput(f"{place}: must hold the file that defines the experiment; it was made without one")
        if not trust:
            raise BadInput(
                f"{place}: holds files that run code ({INPUTS}/{file.name}); read them, then give --trust to run them"
            )
        with tempfile.TemporaryDirectory(prefix="netsim-repeat-") as name:
            # The runs look up data beside the file, so that they read the copies made at the original run.
            copy = Path(shutil.copytree(folder / INPUTS, Path(name) / INPUTS))
            with _data_in(copy):
                found = experiment_in(str(copy / file.name))
            if found is None:
                raise BadInput(
                    f"{place}: {file.name} must define an experiment; what a script makes cannot be repeated"
                )
            with found.known(), _data_in(copy):
                texts: dict[str, list[str]] = {}
                for flag, text in about.get("flags", []):
                    texts.setdefault(str(flag), []).append(Path(text).name if flag == SETTINGS else str(text))
                return _compared(found.with_flags(texts), folder, about, show)


@contextmanager
def _data_in(folder: Path) -> Iterator[None]:
    """Inside the context, find files in a folder: by relative paths, and as data sets of NETSIM_DATA."""
    before = os.environ.get(FOLDER)
    os.environ[FOLDER] = str(folder)
    try:
        with chdir(folder):
            yield
    finally:
        os.environ.pop(FOLDER)
        if before is not None:
            os.environ[FOLDER] = before


def _about(folder: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads((folder / EXPERIMENT).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise check.refuse("folder", str(folder), f"the folder of an experiment, with a whole {EXPERIMENT}") from None


def _compared(made: Experiment, folder: Path, about: Mapping[str, Any], show: Reporter) -> Repeated:
    found, notes = Repeated(), dict.fromkeys(_changed_inputs(folder, about))
    # Match cells by content, not by key: the key contains netsim's source, and another netsim's results are of
    # interest.
    cells = {digest(cell.content): cell for cell in made.cells()}
    named = {_name_of(cell.columns): cell for cell in cells.values()}
    there = keys_in(folder)
    lost = {key: columns for key, columns in about.get("cells", {}).items() if key not in there}
    found.different += [f"{paths.listed(columns) or key}: its files are missing" for key, columns in lost.items()]
    with show.tally("cells", len(there)) as tally:
        for number, key in enumerate(there, 1):
            columns, content = columns_of(folder, key)
            name, before = _name_of(columns) or key, read(folder, key)
            if before is None:
                found.different.append(f"{name}: its files are damaged")
            elif (cell := cells.get(digest(content))) is None:
                found.unknown.setdefault(_why_another(content, named.get(name)), []).append(name)
            else:
                now = cell.measured()
                was, ended = before.row["outcome"], now.row["outcome"]
                if was != ended:
                    found.different.append(f"{name}: its outcome was {was}, and is {ended}")
                elif before.rounds.to_csv(index=False) != now.rounds.to_csv(index=False):
                    found.different.append(f"{name}: its rounds")
                else:
                    found.same.append(name)
                both = {what: (before.about.get(what), value) for what, value in now.about.items()}
                notes |= {
                    f"{what} has changed" if what == "source" else f"{what} was {old}, and is {new}": None
                    for what, (old, new) in both.items()
                    if old != new
                }
            tally(number, len(found.different))
    found.notes += notes
    if not found.different:
        found.tables += _wrong_table(folder, about)
    return found


def _name_of(columns: Mapping[str, Any]) -> str:
    """Return a cell's name, which is the same for its stored columns and for those that its file makes."""
    return paths.listed({name: as_kept(value) for name, value in columns.items()})


def _changed_inputs(folder: Path, about: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note on each file of ``inputs/`` whose SHA-256 differs from that of the file that the runs read."""
    known: dict[str, set[str]] = {str(about.get("file")): {str(about.get("file_sha256"))}}
    for name, sha in dict(about.get("files", {})).items():
        known.setdefault(PurePosixPath(name).name, set()).add(sha)
    for path in sorted((folder / INPUTS).glob("*")):
        if path.name in known and digest_of(path) not in known[path.name]:
            yield f"{INPUTS}/{path.name} is not the file that the runs read: its SHA-256 is another"


def _why_another(before: Any, cell: Cell | None) -> str:
    """Return which parts of a stored cell differ from those of the cell of the same name that the file makes."""
    if cell is None or not isinstance(before, dict):
        return "because the file makes no such cell"
    now = json.loads(json.dumps(cell.content))
    differences = {
        part: _first_difference(before.get(part), now[part]) for part in now if now[part] != before.get(part)
    }
    parts = [f"{part} ({why})" if why else part for part, why in differences.items()]
    return f"because of another {' and '.join(parts)}"


def _first_difference(before: Any, now: Any) -> str:
    """Return the first difference between two contents: a file or code by name, or two plain values; else ""."""
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        for key in before:
            if before[key] == now[key]:
                continue
            if key == "file":
                return f"the file {before[key][0]} has changed"
            if key == "code" and before[key][:2] != now[key][:2]:
                return f"the code of {before[key][0]} has changed"
            return _first_difference(before[key], now[key])
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return next((_first_difference(*both) for both in zip(before, now, strict=True) if both[0] != both[1]), "")
    # Omit a digest, such as a graph's: it tells a reader nothing.
    plain = all(isinstance(each, str | int | float | None) and not _DIGEST.match(str(each)) for each in (before, now))
    return f"{brief(before)} became {brief(now)}" if plain else ""


def _wrong_table(folder: Path, about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors in ``runs.csv``, whose rows must be those of the cells."""
    import pandas as pd

    cells = about.get("cells", {})
    try:
        table = pd.read_csv(folder / TABLE, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        yield f"{TABLE} cannot be read ({one_line(error)})"
        return
    rows = {key: found.row for key in cells if (found := read(folder, key)) is not None}
    names = dict.fromkeys(name for row in rows.values() for name in row)
    if missing := [name for name in names if name not in table]:
        yield f"{TABLE} has no column {missing[0]}"
        return
    # If equal cells share one run, the table has more rows than cells: then compare rows by their measures only.
    labels = [str(name) for name in table if name not in names] if len(table) == len(cells) else []
    known = {
        (
            *(_plain(cells[key].get(name.removeprefix("given_"), "")) for name in labels),
            *(_plain(row.get(n)) for n in names),
        )
        for key, row in rows.items()
    }
    there = {tuple(map(_plain, row)) for row in table[[*labels, *names]].itertuples(index=False)}
    if there != known:
        yield f"{TABLE} has {len(there - known)} rows that are no cell's, and lacks those of {len(known - there)} cells"


def _plain(value: Any) -> str:
    """Return a table's entry as text; a number has the same text in any notation."""
    try:
        text = f"{float(value):.9g}"
    except (TypeError, ValueError):
        text = "" if value is None else str(value)
    return "" if text == "nan" else text
