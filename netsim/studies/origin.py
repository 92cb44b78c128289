"""The origin of a result: versions, core, BLAS and processor, and the SHA-256 of code and files read."""

import hashlib
import importlib.util
import os
import platform
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from netsim._version import __version__
from netsim.util import datafiles

_PACKAGES = ("numpy", "scipy", "networkx", "msgpack", "pandas", "scikit-learn")
_SUFFIXES = (".py", ".csv")  # the code, and the settings that papers published
_OF_BLAS = {  # properties of a library to record, by threadpoolctl's names
    "library": "internal_api",
    "version": "version",
    "kernel": "architecture",
    "threading": "threading_layer",
}
_CORE = ".pyx"  # hashed separately, because only a clone has these files
_NO_RESULT = "_build.py"  # only in a clone, and without effect on results


def about() -> dict[str, str]:
    """Return the version of ``netsim`` and its ``core``, as in settings.json."""
    from netsim import core

    return {"netsim": __version__, "core": core.NAME}


def environment() -> dict[str, Any]:
    """Return further facts on which the last digits of a result may depend.

    ``packages`` maps packages to versions; ``blas`` has the name, version, kernel (chosen for the processor) and
    threads of numpy's BLAS; ``simd`` lists the processor's instructions by which numpy chooses its loops.
    """
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "blas": _blas(),
        "simd": _simd(),
    }


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _blas() -> list[dict[str, str]]:
    import numpy as np

    from netsim.engine.process import blas_libraries

    # Only numpy's library: scipy may include another one, but whether a process has loaded it depends on earlier work,
    # and loading it takes longer than a small network. The version of scipy is among the packages.
    libraries = [each.info() for each in blas_libraries()]
    own = [each for each in libraries if _is_beside(each["filepath"], np.linalg.__path__[0])]
    found = {tuple(str(each.get(name) or "unknown") for name in _OF_BLAS.values()) for each in own or libraries}
    return [dict(zip(_OF_BLAS, each, strict=True)) for each in sorted(found)]


def _is_beside(library: str, package: str) -> bool:
    """Return whether a library belongs to a subpackage's package: inside it, or in the folder ``x.libs``."""
    folder = package.replace("\\", "/").rpartition("/")[0]
    return library.replace("\\", "/").startswith((folder + "/", folder + ".libs/"))


@cache
def _simd() -> list[str]:
    import numpy as np

    try:
        known: Any = np.show_config(mode="dicts")["SIMD Extensions"]
        return sorted({str(name) for key in ("baseline", "found") for name in known.get(key, ())})
    except (KeyError, TypeError, AttributeError):
        return []


# --- sources ----------------------------------------------------------------------------------------------------------


@cache
def source_of(package: str) -> Mapping[str, str]:
    """Return the SHA-256 of a package's source and of its compiled core.

    The result is cached, because a process imports a package once.
    """
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
    """Return whether settings.json records the sources, which it does not if a program made and saved the `Study`."""
    return all(isinstance(settings.get(name), Mapping) for name in ("source_sha256", "files_sha256"))


def changed_files(recorded: Mapping[str, Any], now: Mapping[str, Any], study: str) -> list[str]:
    """Return the files that have changed or disappeared since they were read.

    ``recorded`` is the content of settings.json, ``now`` the result of
    `netsim.studies.catalogue.StudyDefinition.source_hashes`, and ``study`` the name of the study's file.
    """
    own = [study] if recorded.get("file_sha256", now.get("file_sha256")) != now.get("file_sha256") else []
    read = recorded["files_sha256"] if is_recorded(recorded) else {}
    return own + datafiles.changed_files(read)


def changed_source(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the packages whose source has changed; the arguments are those of `changed_files`."""
    before = recorded["source_sha256"] if is_recorded(recorded) else {}
    return [
        f"the source of {name}" for name, digest in now["source_sha256"].items() if before.get(name, digest) != digest
    ]
