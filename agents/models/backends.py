"""Array libraries for models, on the CPU: numpy, PyTorch, JAX, imported only when used."""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from netsim.util import check
from netsim.util.typing import Array

BACKENDS = ("numpy", "torch", "jax")
"""The libraries by name."""


class Backend:
    """A library with the array API, on the CPU.

    Parameters
    ----------
    name : str
        The library's name.
    xp : module
        The library's namespace of the array API.
    """

    def __init__(self, name: str, xp: Any) -> None:
        self.name, self.xp = name, xp

    def array(self, values: Any) -> Any:
        """Return a numpy array as an array of the library, with the same dtype."""
        return self.xp.asarray(values)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of ``xp`` and arrays as a function of arrays, compiled if the library supports it."""
        return partial(function, self.xp)


class _JAX(Backend):
    """JAX on the CPU with compiled functions, and with float64, which JAX converts to float32 by default."""

    def __init__(self) -> None:
        super().__init__("jax", importlib.import_module("jax.numpy"))
        self._jax = importlib.import_module("jax")
        with _one_thread():
            self._device = self._jax.devices("cpu")[0]

    def _double(self) -> AbstractContextManager[Any]:
        """Return a context in which JAX keeps float64; outside it, JAX keeps the program's setting."""
        found: AbstractContextManager[Any] = self._jax.enable_x64(True)
        return found

    def array(self, values: Any) -> Any:
        with self._double():
            return self._jax.device_put(values, self._device)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        fast = self._jax.jit(super().compiled(function))

        def called(*arrays: Any) -> Any:
            with self._double():
                return fast(*arrays)

        return called


@contextmanager
def _one_thread() -> Iterator[None]:
    """Make JAX, if it starts inside this context, compute in one thread, as netsim's studies do with BLAS.

    With several threads, the order of sums, and so the last digits, would depend on the machine's number of cores. JAX
    reads the number from this environment variable only once, at its start.
    """
    before = os.environ.get("NPROC")
    os.environ["NPROC"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["NPROC"]
        else:
            os.environ["NPROC"] = before


_NEEDS = {"torch": ("torch", "array_api_compat"), "jax": ("jax",)}


@cache
def backend(name: str) -> Backend:
    """Return a library by name; raises BadInput if it is unknown or not installed."""
    check.one_of("backend", name, BACKENDS)
    for needed in _NEEDS.get(name, ()):
        check.installed(f"backend = {name!r}", needed, name)
    if name == "jax":
        return _JAX()
    # Some names and arguments of PyTorch differ from the standard, so use array_api_compat's namespace.
    return Backend(name, np if name == "numpy" else importlib.import_module("array_api_compat.torch"))


def as_numpy(values: Any) -> Array:
    """Return any library's array as a numpy array of float64."""
    return np.asarray(values, dtype=np.float64)
