"""Integers of b bits in ⌈n·b/8⌉ bytes, most significant bit first; compiled where that was built."""

import numpy as np
from numpy.typing import NDArray

from netsim.errors import WireError
from netsim.util.compiled import compiled

__all__ = ["check_packed", "pack", "unpack"]


def check_packed(data: bytes, bits: int, count: int) -> None:
    """Raise WireError unless ``data`` has the length of ``count`` packed integers."""
    if len(data) != -(-count * bits // 8):
        raise WireError(f"{len(data)} bytes cannot hold {count} integers of {bits} bits")


def _pack(integers: NDArray[np.integer], bits: int) -> bytes:
    planes = np.unpackbits(integers.ravel().astype(">u2").view(np.uint8)).reshape(-1, 16)
    return np.packbits(planes[:, 16 - bits :]).tobytes()


def _unpack(data: bytes, bits: int, count: int) -> NDArray[np.uint16]:
    planes = np.zeros((count, 16), dtype=np.uint8)
    planes[:, 16 - bits :] = np.unpackbits(np.frombuffer(data, np.uint8), count=count * bits).reshape(count, bits)
    return np.packbits(planes).view(">u2").astype(np.uint16)


_module = compiled("wire._packing")
if _module is not None:
    _pack, _unpack = _module.pack, _module.unpack


def pack(integers: NDArray[np.integer], bits: int) -> bytes:
    """Return ⌈n·bits/8⌉ bytes that hold n integers of ``bits`` bits each, most significant bit first.

    Parameters
    ----------
    integers : array of n elements
        Each in [0, 2**bits).
    bits : int
        From 1 to 16.
    """
    return _pack(integers, bits)


def unpack(data: bytes, bits: int, count: int) -> NDArray[np.uint16]:
    """Return the ``count`` integers that `pack` wrote; raises WireError if ``data`` has another length."""
    check_packed(data, bits, count)
    return _unpack(data, bits, count)
