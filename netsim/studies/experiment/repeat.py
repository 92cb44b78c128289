"""Repeat an experiment from its folder alone, and pack the folder into one file for others."""

import json
import os
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
from netsim.studies.experiment.command import SETTINGS, experiment_in
from netsim.studies.experiment.content import digest
from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.folder import EXPERIMENT, INPUTS, RUNS, columns_of, keys_in, read
from netsim.studies.page import NAME as PAGE
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.datafiles import FOLDER
from netsim.util.files import write_whole

_TOP = (EXPERIMENT, "runs.csv", PAGE, RUNS, INPUTS)


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
    """Yield the folder of an experiment; that of a packed one is temporary.

    Raises BadInput for a file that is no zip file, or has paths outside.
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
        Cells by their columns: whose results are the same to the last digit, and with what differs.
    unknown : list of str
        Cells that the file does not make: of values that a script gave, or of code that has changed.
    notes : list of str
        Versions that differ.
    """

    same: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.same) and not self.different and not self.unknown

    def lines(self) -> Iterator[str]:
        """Yield the lines to print."""
        counts = len(self.same), len(self.different), len(self.unknown)
        yield "{} cells are the same, {} differ, {} cannot be repeated".format(*counts)
        yield from (f"differs: {each}" for each in self.different)
        yield from (f"cannot be repeated: {each}" for each in self.unknown[:3])
        yield from self.notes


def repeat(place: str | Path, *, trust: bool = False, reporter: Reporter | None = None) -> Repeated:
    """Run every cell of an experiment's folder again, from the copies in ``inputs/``, and compare.

    Parameters
    ----------
    place : str or Path
        The folder, or a file that `pack` wrote.
    trust : bool
        Whether the Python files in it may be executed.
    reporter : Reporter, optional
        Shows progress.

    Raises
    ------
    BadInput
        Without ``trust``, because the folder's files run code; or for a folder or file that is none of an experiment.
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
            # Data are looked up beside the file, with their content at the original run.
            copy = Path(shutil.copytree(folder / INPUTS, Path(name) / INPUTS))
            found = experiment_in(str(copy / file.name))
            if found is None:
                raise BadInput(
                    f"{place}: {file.name} must define an experiment; what a script makes cannot be repeated"
                )
            with found.known(), _data_in(copy):
                texts: dict[str, list[str]] = {}
                for flag, text in about.get("flags", []):
                    texts.setdefault(str(flag), []).append(Path(text).name if flag == SETTINGS else str(text))
                return _compared(found.with_flags(texts), folder, show)


@contextmanager
def _data_in(folder: Path) -> Iterator[None]:
    """Let files be found in a folder: by relative paths, and as data sets of NETSIM_DATA."""
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


def _compared(made: Experiment, folder: Path, show: Reporter) -> Repeated:
    found, notes = Repeated(), dict[str, None]()
    # Matched by content, not by key, to compare results of another version of netsim.
    cells = {digest(cell.content): cell for cell in made.cells()}
    there = keys_in(folder)
    with show.tally("cells", len(there)) as tally:
        for number, key in enumerate(there, 1):
            columns, content = columns_of(folder, key)
            name, before = paths.listed(columns) or key, read(folder, key)
            if before is None:
                found.different.append(f"{name}: its files are damaged")
            elif (cell := cells.get(digest(content))) is None:
                found.unknown.append(name)
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
                notes |= {f"{what} was {old}, and is {new}": None for what, (old, new) in both.items() if old != new}
            tally(number, len(found.different))
    found.notes += notes
    return found
