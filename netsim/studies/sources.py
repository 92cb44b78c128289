"""What a result came of, by SHA-256: netsim's source, the study's file, every file that was read; what has changed."""

import hashlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from netsim.util import datafiles

__all__ = ["changed_files", "changed_source", "is_recorded", "source_of", "versions"]

_SUFFIXES = (".py", ".csv")  # the code, and the settings that papers published
_CORE = ".pyx"  # told apart, for it is in a clone only
_NO_RESULT = "_build.py"  # as well


@cache
def source_of(package: str) -> Mapping[str, str]:
    """Return the SHA-256 of a package's source, by what it is the source of; once a process, as it is imported once."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        return {}
    root = Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
    found = {}
    for what, suffixes in ((package, _SUFFIXES), (f"{package}'s compiled core", (_CORE,))):
        total = hashlib.sha256()
        paths = sorted(_files(root, suffixes))
        for name, path in paths:
            with path.open("rb") as file:
                total.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
        if paths:
            found[what] = total.hexdigest()
    return found


def _files(root: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    if root.is_file():
        yield root.name, root
        return
    for folder, _, names in os.walk(root, followlinks=True):
        for name in names:
            if name.endswith(suffixes) and name != _NO_RESULT:
                path = Path(folder, name)
                yield path.relative_to(root).as_posix(), path


def is_recorded(settings: Mapping[str, Any]) -> bool:
    """Return whether settings.json tells what the result came of; those of earlier versions do not."""
    return all(isinstance(settings.get(name), Mapping) for name in ("source_sha256", "files_sha256"))


def changed_files(recorded: Mapping[str, Any], now: Mapping[str, Any], scenario: str) -> list[str]:
    """Return the files that are not any more as they were when they were read, or not there.

    Parameters
    ----------
    recorded : mapping
        What settings.json says.
    now : mapping
        The same of the study as it is now (`netsim.studies.catalogue.Scenario.made_of`).
    scenario : str
        What the study's own file is called.
    """
    own = [scenario] if recorded.get("file_sha256", now.get("file_sha256")) != now.get("file_sha256") else []
    read = recorded["files_sha256"] if is_recorded(recorded) else {}
    return own + [name for name, digest in read.items() if datafiles.digest_of(datafiles.path_of(name)) != digest]


def changed_source(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the packages whose source is not any more what it was; the arguments are those of `changed_files`."""
    before = recorded["source_sha256"] if is_recorded(recorded) else {}
    return [
        f"the source of {name}" for name, digest in now["source_sha256"].items() if before.get(name, digest) != digest
    ]


def versions(recorded: Mapping[str, Any], scenario: str) -> dict[str, str]:
    """Return the SHA-256 of all that a result came of, by what messages call it."""
    found = {scenario: str(recorded["file_sha256"])} if "file_sha256" in recorded else {}
    if is_recorded(recorded):
        # Edited by hand, settings.json may hold anything there.
        found |= {str(name): str(digest) for name, digest in recorded["files_sha256"].items()}
        found |= {f"the source of {name}": str(digest) for name, digest in recorded["source_sha256"].items()}
    return found
