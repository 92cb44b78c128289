"""TOML files: their tables, and in which line a key stands, which `tomllib` does not tell."""

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
    """Return a TOML file's text and tables; raises BadInput if there is no such file, or it is no TOML."""
    try:
        text = Path(file).read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or one_line(error)
        raise BadInput(f"{file}: must be a TOML file ({reason})") from None


def lines_of(text: str) -> dict[str, int]:
    """Return the first line of each key and table of a TOML text by its path, as motes.7.at or moves.0.to.

    What looks like a key within a text of several lines is taken for one.
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
