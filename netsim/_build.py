"""Build the compiled modules if a C compiler is available; otherwise netsim uses the equivalent Python modules."""

import hashlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = (
    "agents.consensus._steps",
    "clock._loop",
    "core._core",
    "parallel._parcels",
    "radio._mac",
    "transport._links",
    "wire._packing",
)
# Modules whose types other modules may cimport: a .pxd beside the source declares them.
_DECLARED = ("clock._loop", "core._core")


class CompiledCore(BuildHookInterface):  # type: ignore[type-arg]
    """A build hook that compiles the modules into the source tree (editable install) and into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; if compiling fails, report the failure and continue without compiled modules."""
        if self.target_name != "wheel":
            # A source archive must not contain modules compiled for one system.
            return
        try:
            built = compile_core(Path(self.root))
        except (Exception, SystemExit) as error:
            self.app.display_warning(
                f"netsim: the compiled core could not be built ({error}); the core in Python is used instead. "
                "With a C compiler and Python's headers it is more than twice as fast."
            )
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"] += built


def fingerprint(paths: list[Path]) -> str:
    """Return a hash of files, of compiler tools, and of the environment variables that affect them."""
    tools = [*map(importlib.metadata.version, ("cython", "numpy", "setuptools")), sys.version, platform.platform()]
    tools += [f"{name}={os.environ.get(name)}" for name in ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED")]
    parts = [repr(tools).encode(), *(path.read_bytes() for path in paths)]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def compile_core(root: Path) -> list[str]:
    """Build the extension modules and return their paths below ``root``."""
    import numpy
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    work = root / "build" / f"core-{sys.implementation.cache_tag}"
    # Forbid fused multiply-add: the equivalent Python module rounds after each operation.
    options = [] if sys.platform == "win32" else ["-g0", "-ffp-contract=off"]
    # CFLAGS precede these options, and the compiler obeys the last one.
    if options and "-O" not in os.environ.get("CFLAGS", ""):
        options.append("-O3")
    modules = [
        Extension(
            f"netsim.{name}",
            [str(_source(name))],
            include_dirs=[numpy.get_include()],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
            extra_compile_args=options,
        )
        for name in MODULES
    ]
    command = build_ext(Distribution({"name": "netsim", "ext_modules": modules}))
    built = [str(Path("netsim") / command.get_ext_filename(name)) for name in MODULES]
    sources = [root / _source(name) for name in MODULES] + [Path(__file__)]
    sources += [(root / _source(name)).with_suffix(".pxd") for name in _DECLARED]
    # Compare hashes, not file dates: every install writes its build tools, such as numpy's headers, with new dates.
    stamp = work / "stamp"
    results = [root / path for path in built]
    there = stamp.is_file() and all(path.is_file() for path in results)
    if there and stamp.read_text(encoding="utf-8") == fingerprint(sources + results):
        return built
    cores = os.cpu_count() or 1
    # Other systems start children without fork, and each child would run the installing program again.
    forked = cores if sys.platform == "linux" else 0
    command.distribution.ext_modules = cythonize(modules, build_dir=str(work), quiet=True, nthreads=forked)  # type: ignore[no-untyped-call]
    command.inplace = True
    command.parallel = cores
    command.build_temp = str(work)
    command.ensure_finalized()
    command.run()
    stamp.write_text(fingerprint(sources + results), encoding="utf-8")
    return built


def _source(name: str) -> Path:
    """Return the path of a module's Cython source below the root."""
    return Path("netsim", *name.split(".")).with_suffix(".pyx")
