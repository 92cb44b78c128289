"""Libraries that compute what a model asks for, on the CPU: numpy, PyTorch, JAX; imported only when asked for."""

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
        Its namespace of the array API.
    """

    def __init__(self, name: str, xp: Any) -> None:
        self.name, self.xp = name, xp

    def array(self, values: Any) -> Any:
        """Return a numpy array as one of the library, of the same dtype."""
        return self.xp.asarray(values)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of ``xp`` and arrays as one of arrays, as fast as the library can make it."""
        return partial(function, self.xp)


class _JAX(Backend):
    """JAX on the CPU, whose functions are compiled; with float64, which JAX by itself would make float32."""

    def __init__(self) -> None:
        super().__init__("jax", importlib.import_module("jax.numpy"))
        self._jax = importlib.import_module("jax")
        with _one_thread():
            self._device = self._jax.devices("cpu")[0]

    def _double(self) -> AbstractContextManager[Any]:
        """Return a context in which JAX keeps float64; outside of it a program's JAX is as the program set it."""
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
    """Let JAX, if it starts in this context, compute in one thread, as netsim's studies let BLAS.

    With several, the order of its sums, and so the last digits, would depend on how many cores a machine has. JAX reads
    the number from this variable of the environment when it starts, and never again.
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
    """Return a library by its name; raises BadInput for an unknown one, or one that is not installed."""
    check.one_of("backend", name, BACKENDS)
    for needed in _NEEDS.get(name, ()):
        check.installed(f"backend = {name!r}", needed, name)
    if name == "jax":
        return _JAX()
    # PyTorch's own names and arguments differ from the standard's here and there.
    return Backend(name, np if name == "numpy" else importlib.import_module("array_api_compat.torch"))


def as_numpy(values: Any) -> Array:
    """Return an array of any of the libraries as one of numpy, in float64."""
    return np.asarray(values, dtype=np.float64)
