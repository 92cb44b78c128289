"""What carried a study's frames and computed its numbers: versions, the core, the BLAS and the processor."""

import importlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from netsim import core
from netsim._version import __version__

_PACKAGES = ("numpy", "scipy", "networkx", "msgpack", "pandas", "scikit-learn")


def about() -> dict[str, str]:
    """Return what settings.json and ``netsim --version`` say: ``netsim``, the version, and ``core``."""
    return {"netsim": __version__, "core": core.NAME}


@cache
def environment() -> dict[str, Any]:
    """Return what else the last digits of a result may depend on.

    Returns
    -------
    dict
        ``python`` and ``platform``; ``packages``, their versions by name; ``blas``, for each library that carries
        numpy's and scipy's matrix products its name, version, kernel (for which processor it was chosen) and how it
        makes threads; ``simd``, the processor's instructions that numpy chooses its own loops by.
    """
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "blas": _blas(),
        "simd": _simd(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _blas() -> list[dict[str, str]]:
    from threadpoolctl import threadpool_info

    # They may bring a library each; what else the process has loaded is not netsim's.
    roots = [str(importlib.import_module(name).__path__[0]) for name in ("numpy.linalg", "scipy.linalg")]
    libraries = [each for each in threadpool_info() if each["user_api"] == "blas"]
    own = [each for each in libraries if any(_is_beside(each["filepath"], root) for root in roots)]
    found = {
        (
            str(each["internal_api"]),
            str(each["version"]),
            str(each.get("architecture") or "unknown"),
            str(each.get("threading_layer") or "unknown"),
        )
        for each in own or libraries
    }
    return [dict(zip(("library", "version", "kernel", "threading"), each, strict=True)) for each in sorted(found)]


def _is_beside(library: str, package: str) -> bool:
    """Return whether a library came with a package of which this is a subpackage's folder: in it, or in ``x.libs``."""
    folder = package.replace("\\", "/").rpartition("/")[0]
    return library.replace("\\", "/").startswith((folder + "/", folder + ".libs/"))


def _simd() -> list[str]:
    import numpy as np

    try:
        known: Any = np.show_config(mode="dicts")["SIMD Extensions"]
        return sorted({str(name) for key in ("baseline", "found") for name in known.get(key, ())})
    except (KeyError, TypeError, AttributeError):
        return []
