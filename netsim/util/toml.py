"""Read TOML files: their tables and, unlike `tomllib`, the line number of each key."""

import re
import tomllib
from pathlib import Path
from typing import Any

from netsim.errors import BadInput, one_line

__all__ = ["lines_of", "read"]

_TABLE = re.compile(r"\s*(\[\[?)\s*([^\[\]=]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def read(file: str | Path) -> tuple[str, dict[str, Any]]:
    """Return a TOML file's text and tables; raises BadInput if the file is missing or is not TOML."""
    try:
        text = Path(file).read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or one_line(error)
        raise BadInput(f"{file}: must be a TOML file ({reason})") from None


def lines_of(text: str) -> dict[str, int]:
    """Return {path: line number} of each key and table of a TOML text, with paths such as motes.7.at.

    Limitation: a line within a multi-line string that looks like a key is mistaken for a key.
    """
    found, table, counts = dict[str, int](), "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.fullmatch(line):
            table = _path(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                found.setdefault(table, number)
                table = f"{table}.{counts[table]}"
            found.setdefault(table, number)
            table += "."
        elif key := _KEY.match(line):
            found.setdefault(table + _path(key[1]), number)
    return found


def _path(text: str) -> str:
    return ".".join(part.strip("\"'") for part in _PART.findall(text))
