"""The bytes of coded arrays: a shape, integers of b bits in ⌈n·b/8⌉ bytes, cells of a range; compiled if netsim was.

The shape of a vector is written as a number, that of a matrix as a pair. Integers are packed with the most significant
bit first.
"""

import math
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from netsim.errors import WireError
from netsim.util.compiled import compiled
from netsim.util.typing import Vector

__all__ = [
    "cells",
    "check_packed",
    "check_shape",
    "float32_above",
    "is_finite",
    "largest",
    "middles",
    "pack",
    "pack_shape",
    "to_float32",
    "unpack",
    "unpack_elements",
    "unpack_shape",
]

_MAX_ELEMENTS = 1 << 48

# The first byte of a pair in msgpack; and that of an integer, with its number of bytes. Below 0x80 it is the integer.
_PAIR = b"\x92"
_SIZES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}


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


def _cells(array: Vector, low: Any, high: Any, bits: int) -> tuple[bytes, int]:
    levels = 1 << bits
    width = (high - low) / levels
    width = np.where(width == 0.0, 1.0, width)
    integers = np.floor((np.clip(array, low, high) - low) / width)
    outside = int(np.count_nonzero((array < low) | (array >= high)))
    return pack(np.clip(integers, 0, levels - 1).astype(np.uint16), bits), outside


def _middles(data: bytes, bits: int, shape: tuple[int, ...], low: Any, high: Any) -> Vector:
    step = (high - low) / (1 << bits)
    values = low + (_unpack(data, bits, math.prod(shape)).reshape(shape) + 0.5) * step
    return np.where(step == 0.0, 0.0, values)


def largest(array: Vector) -> float:
    """Return the largest magnitude of finite elements; 0 if there is none."""
    return float(np.abs(array).max(initial=0.0))


def float32_above(value: float) -> float:
    """Return the smallest float32 that is not below ``value``, which is at most the largest float32."""
    rounded = np.float32(value)
    return float(rounded if float(rounded) >= value else np.nextafter(rounded, np.float32(np.inf)))


def is_finite(array: object) -> bool:
    """Return whether this is known, from one pass, to be a vector or matrix of finite float64."""
    return False


def to_float32(array: object) -> NDArray[np.float32] | None:
    """Return an array rounded to float32 if that takes one pass, else None: also for elements that do not fit."""
    return None


_module = compiled("wire._packing")
_cells_at_once, _middles_at_once = _cells, _middles
if _module is not None:
    _pack, _unpack, _cells_at_once, _middles_at_once = _module.pack, _module.unpack, _module.cells, _module.middles
    largest, float32_above = _module.largest, _module.float32_above
    is_finite, to_float32 = _module.is_finite, _module.to_float32


def cells(array: Vector, low: Any, high: Any, bits: int) -> tuple[bytes, int]:
    """Return the number of each element's cell of [low, high), packed, and how many elements lie outside.

    Parameters
    ----------
    array : array of finite numbers
        Elements outside of the range are in its first or last cell.
    low, high : float, or columns with one for each row
        The range, which 2**bits cells divide; if it is empty there is only the first cell.
    bits : int
        From 1 to 16.
    """
    return (_cells_at_once if type(low) is type(high) is float else _cells)(array, low, high, bits)


def middles(data: bytes, bits: int, shape: tuple[int, ...], low: Any, high: Any) -> Vector:
    """Return the middle of each cell that `cells` wrote, 0 where the range is empty; raises WireError as `unpack`."""
    check_packed(data, bits, math.prod(shape))
    return (_middles_at_once if type(low) is type(high) is float else _middles)(data, bits, shape, low, high)


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


def check_shape(shape: tuple[int, ...]) -> int:
    """Return the number of elements; raises WireError unless it is the shape of a possible vector or matrix."""
    if type(shape) is not tuple or len(shape) not in (1, 2):
        raise WireError(f"no coded array has shape {shape!r:.60}")
    product = count = 1
    for length in shape:
        if type(length) is not int or length < 0:
            raise WireError(f"no coded array has shape {shape!r:.60}")
        product *= length or 1
        count *= length
    if product >= _MAX_ELEMENTS:
        # Also if a length is 0: numpy cannot hold every such shape.
        raise WireError(f"no coded array has shape {shape!r:.60}")
    return count


def pack_shape(shape: tuple[int, ...]) -> bytes:
    """Return the bytes of a shape, at most 19: a vector's length or a matrix's pair in msgpack."""
    return bytes(msgpack.packb(shape[0] if len(shape) == 1 else shape))


def unpack_shape(data: bytes, start: int = 0) -> tuple[tuple[int, ...], int]:
    """Return the shape at offset ``start``, and its end; raises WireError if there is no shape.

    The number of elements is below 2⁴⁸; the caller compares it with the number of bytes.
    """
    if data[start : start + 1] == _PAIR:
        rows, middle = _length(data, start + 1)
        columns, end = _length(data, middle)
        check_shape((rows, columns))
        return (rows, columns), end
    length, end = _length(data, start)
    if length >= _MAX_ELEMENTS:
        raise WireError(f"no coded array has shape {(length,)}")
    return (length,), end


def unpack_elements(data: bytes, bits: int) -> tuple[tuple[int, ...], bytes]:
    """Return a shape and the bytes after it; raises WireError unless these are ⌈n·bits/8⌉ for n elements."""
    shape, start = unpack_shape(data)
    elements = data[start:]
    check_packed(elements, bits, math.prod(shape))
    return shape, elements


def _length(data: bytes, start: int) -> tuple[int, int]:
    """Return the msgpack integer at offset ``start``, and its end."""
    first = data[start] if start < len(data) else 0xFF
    if first < 0x80:
        return first, start + 1
    end = start + 1 + _SIZES.get(first, 0)
    if end == start + 1 or end > len(data):
        raise WireError(f"{len(data)} bytes have no shape at {start}")
    return int.from_bytes(data[start + 1 : end], "big"), end
