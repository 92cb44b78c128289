"""The shape of a coded vector or matrix, as its bytes begin with it: a vector's is a number, a matrix's a pair."""

import math

import msgpack

from netsim.errors import WireError
from netsim.wire.packing import check_packed

_MOST = 1 << 48

# How msgpack begins a list of two, and the bytes of whole numbers that it begins so; below 0x80 it is the number.
_PAIR = b"\x92"
_SIZES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}


def check_shape(shape: tuple[int, ...]) -> int:
    """Return the number of elements; raises WireError unless it is the shape of a vector or matrix that can be."""
    if type(shape) is not tuple or len(shape) not in (1, 2):
        raise WireError(f"no coded array has shape {shape!r:.60}")
    room = count = 1
    for length in shape:
        if type(length) is not int or length < 0:
            raise WireError(f"no coded array has shape {shape!r:.60}")
        room *= length or 1
        count *= length
    if room >= _MOST:
        # numpy cannot hold every shape with a zero in it.
        raise WireError(f"no coded array has shape {shape!r:.60}")
    return count


def pack_shape(shape: tuple[int, ...]) -> bytes:
    """Return the bytes of a shape: msgpack's of a vector's length, or of the list of a matrix's two; 19 at most."""
    return bytes(msgpack.packb(shape[0] if len(shape) == 1 else shape))


def unpack_shape(data: bytes, start: int = 0) -> tuple[tuple[int, ...], int]:
    """Return the shape that begins at ``start``, and where it ends; raises WireError if there is none.

    The number of elements is checked to be one that can be (below 2⁴⁸), not to be one that the bytes have room for.
    """
    if data[start : start + 1] == _PAIR:
        rows, middle = _length(data, start + 1)
        columns, end = _length(data, middle)
        check_shape((rows, columns))
        return (rows, columns), end
    length, end = _length(data, start)
    if length >= _MOST:
        raise WireError(f"no coded array has shape {(length,)}")
    return (length,), end


def unpack_elements(data: bytes, bits: int) -> tuple[tuple[int, ...], bytes]:
    """Return a shape and the bytes that come after it; raises WireError unless they are ⌈n·bits/8⌉ for n elements."""
    shape, start = unpack_shape(data)
    elements = data[start:]
    check_packed(elements, bits, math.prod(shape))
    return shape, elements


def _length(data: bytes, start: int) -> tuple[int, int]:
    """Return the whole number that begins at ``start`` as msgpack writes it, and where it ends."""
    first = data[start] if start < len(data) else 0xFF
    if first < 0x80:
        return first, start + 1
    end = start + 1 + _SIZES.get(first, 0)
    if end == start + 1 or end > len(data):
        raise WireError(f"{len(data)} bytes have no shape at {start}")
    return int.from_bytes(data[start + 1 : end], "big"), end
