"""Pack coded arrays into bytes: a shape, and n integers of b bits in ⌈n·b/8⌉ bytes, most significant bit first.

The shape of a vector is written as a number, the shape of a matrix as a pair. `_packing.pyx` has compiled versions of
some functions, with the same results, which are used if they were built.
"""

import math
from typing import Any, TypeVar

import msgpack
import numpy as np
from numpy.typing import NDArray

from netsim.errors import WireError
from netsim.util.compiled import compiled
from netsim.util.typing import Vector

_MAX_ELEMENTS = 1 << 48
_Checked = TypeVar("_Checked", bound=Any)

# In msgpack, `_PAIR` is the first byte of a pair. An integer below 0x80 is a single byte. A larger integer consists of
# a first byte and further bytes: `_SIZES` is {first byte: number of further bytes}.
_PAIR = b"\x92"
_SIZES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}


def check_packed(data: bytes, bits: int, count: int) -> None:
    """Raise WireError unless ``data`` has the length of ``count`` packed integers."""
    if len(data) != -(-count * bits // 8):
        raise WireError(f"{len(data)} bytes cannot hold {count} integers of {bits} bits")


def pack(integers: NDArray[np.integer], bits: int) -> bytes:
    """Pack n integers of ``bits`` bits into ⌈n·bits/8⌉ bytes, most significant bit first.

    Parameters
    ----------
    integers : array of n elements
        Each in [0, 2**bits).
    bits : int
        From 1 to 16.
    """
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


def levels(array: Vector, factors: Any, uniforms: Vector, bits: int) -> NDArray[np.uint16]:
    """Return ⌊|element|·factor + uniform⌋ for each element, but at most 2**bits − 1.

    ``uniforms`` holds a random number for each element, uniform on [0, 1), so that rounding is random and unbiased.
    """
    exact = np.floor(np.abs(array) * factors + uniforms)
    found: NDArray[np.uint16] = np.minimum(exact, (1 << bits) - 1).astype(np.uint16)
    return found


def signed_levels(array: Vector, factors: Any, uniforms: Vector, bits: int) -> bytes:
    """Pack each element's sign, as one bit, and then its level (see `levels`), as ``bits`` ≤ 15 bits."""
    signs = (array < 0).astype(np.uint16)
    return pack(levels(array, factors, uniforms, bits) | signs << np.uint16(bits), bits + 1)


def shares(data: bytes, bits: int, shape: tuple[int, ...], scales: Any) -> Vector:
    """Decode the bytes of `signed_levels` to ± scale · level / (2**bits − 1); the caller must check their length."""
    codes = _unpack(data, bits + 1, math.prod(shape)).reshape(shape)
    magnitude = scales * ((codes & np.uint16((1 << bits) - 1)) / ((1 << bits) - 1))
    values: Vector = np.where(codes >> np.uint16(bits), -magnitude, magnitude)
    return values


def largest(array: Vector) -> float:
    """Return the largest magnitude of the elements, which must be finite; 0 for an empty array."""
    return float(np.abs(array).max(initial=0.0))


def float32_above(value: float) -> float:
    """Round ``value`` up to a float32; it must not exceed the largest float32."""
    rounded = np.float32(value)
    return float(rounded if float(rounded) >= value else np.nextafter(rounded, np.float32(np.inf)))


def is_finite(array: object) -> bool:
    """Return True if ``array`` is known to be a vector or matrix of finite float64 numbers, else False.

    Only the compiled version checks the array, in one fast pass. This version always returns False.
    """
    return False


def to_float32(array: object) -> NDArray[np.float32] | None:
    """Round a float64 array to float32, or return None if the caller must do that.

    Only the compiled version rounds, in one fast pass. This version always returns None.
    """
    return None


_module = compiled("wire._packing")
_cells_at_once, _middles_at_once = _cells, _middles
if _module is not None:
    pack, _unpack, _cells_at_once, _middles_at_once = _module.pack, _module.unpack, _module.cells, _module.middles
    signed_levels, shares = _module.signed_levels, _module.shares
    largest, float32_above = _module.largest, _module.float32_above
    is_finite, to_float32 = _module.is_finite, _module.to_float32


def cells(array: Vector, low: Any, high: Any, bits: int) -> tuple[bytes, int]:
    """Return the packed cell numbers of all elements, and how many elements are outside [low, high).

    Parameters
    ----------
    array : array of finite numbers
        Elements outside the range get the number of the first or the last cell.
    low, high : float, or arrays of shape (rows, 1), which hold one limit for each row
        The range, divided into 2**bits equal cells; in an empty range, all elements get cell 0.
    bits : int
        From 1 to 16.
    """
    return (_cells_at_once if type(low) is type(high) is float else _cells)(array, low, high, bits)


def middles(data: bytes, bits: int, shape: tuple[int, ...], low: Any, high: Any) -> Vector:
    """Decode the bytes of `cells` to the middle of each element's cell, or to 0 in an empty range.

    Raises WireError if ``data`` does not have the length that ``shape`` and ``bits`` imply.
    """
    check_packed(data, bits, math.prod(shape))
    return (_middles_at_once if type(low) is type(high) is float else _middles)(data, bits, shape, low, high)


def unpack(data: bytes, bits: int, count: int) -> NDArray[np.uint16]:
    """Unpack ``count`` integers written by `pack`; raises WireError if ``data`` has another length."""
    check_packed(data, bits, count)
    return _unpack(data, bits, count)


def check_shape(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a shape; raises WireError if a vector or matrix cannot have this shape."""
    if type(shape) is not tuple or len(shape) not in (1, 2):
        raise WireError(f"no coded array has shape {shape!r:.60}")
    product = count = 1
    for length in shape:
        if type(length) is not int or length < 0:
            raise WireError(f"no coded array has shape {shape!r:.60}")
        product *= length or 1
        count *= length
    if product >= _MAX_ELEMENTS:
        # ``product`` counts lengths of 0 as 1, because numpy refuses huge shapes even if the array is empty.
        raise WireError(f"no coded array has shape {shape!r:.60}")
    return count


def checked(coded: _Checked) -> _Checked:
    """Return a coded array; raises WireError if its attributes are inconsistent."""
    coded.check()
    return coded


def pack_shape(shape: tuple[int, ...]) -> bytes:
    """Encode a shape in msgpack: a vector's as a number, a matrix's as a pair, in at most 19 bytes."""
    if len(shape) == 1 and type(shape[0]) is int and 0 <= shape[0] < 0x80:
        # A shortcut for vectors of fewer than 128 elements: msgpack would return the same byte, but take longer.
        return bytes(shape)
    return bytes(msgpack.packb(shape[0] if len(shape) == 1 else shape))


def unpack_shape(data: bytes, start: int = 0) -> tuple[tuple[int, ...], int]:
    """Return the shape at offset ``start``, and the offset of its end; raises WireError if there is no shape.

    The number of elements is below 2⁴⁸, but the caller must compare it with the number of bytes.
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
    """Return a shape and the bytes after it; raises WireError unless n elements have ⌈n·bits/8⌉ such bytes."""
    shape, start = unpack_shape(data)
    elements = data[start:]
    check_packed(elements, bits, math.prod(shape))
    return shape, elements


def _length(data: bytes, start: int) -> tuple[int, int]:
    """Return the msgpack integer at offset ``start``, and the offset of its end."""
    first = data[start] if start < len(data) else 0xFF
    if first < 0x80:
        return first, start + 1
    end = start + 1 + _SIZES.get(first, 0)
    if end == start + 1 or end > len(data):
        raise WireError(f"{len(data)} bytes have no shape at {start}")
    return int.from_bytes(data[start + 1 : end], "big"), end
