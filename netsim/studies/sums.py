"""SHA256SUMS of a run folder: the digest of each of its files, in the format of ``sha256sum -c``."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from netsim.errors import BadInput

NAME = "SHA256SUMS"
"""The file, written last: a folder without it is not whole."""

_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\\]+)")


def write_sums(folder: Path) -> None:
    """Write the names and digests of all files in a folder into its SHA256SUMS."""
    names = sorted(each.name for each in folder.iterdir() if each.name != NAME)
    text = "".join(f"{digest_of(folder / name)}  {name}\n" for name in names)
    (folder / NAME).write_text(text, encoding="utf-8", newline="\n")


def read_sums(folder: Path) -> dict[str, str]:
    """Return the digests of a folder's files by name, from its SHA256SUMS.

    Raises BadInput if that file is missing, or a line is not in the form of `write_sums`.
    """
    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(f"it has no {NAME}") from None
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise BadInput(f"{NAME}, line {number}: must be a SHA-256, two blanks and a file's name")
        found[parts[2]] = parts[1]
    return found


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_files(folder: Path, sums: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise BadInput unless the named files have the digests in ``sums``."""
    for name in names:
        if not (folder / name).is_file():
            raise BadInput(f"it has no {name}")
        if name not in sums:
            raise BadInput(f"{NAME} must have a line for {name}")
        if digest_of(folder / name) != sums[name]:
            raise BadInput(f"{name} has changed since it was written: its SHA-256 is not that in {NAME}")
