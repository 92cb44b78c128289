"""Payloads to bytes and back (msgpack), and how many bits a payload is.

agent → outbox → link → inbox → agent: you are in the outbox, and again in the inbox. numpy arrays, numpy scalars,
tuples, complex numbers and quantized vectors are msgpack extension types, so decode(encode(x)) is x bit for bit, type
included.
"""

import math
import warnings
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from netsim.errors import WireError
from netsim.quantize import MOST_BITS, Quantized, check_packed

ARRAY, _SCALAR, _TUPLE, _COMPLEX, _QUANTIZED = 1, 2, 3, 4, 5
_METHODS = ("fixed", "range", "qsgd")

_IMMUTABLE = frozenset({np.ndarray, Quantized, float, int, str, bytes, bool, type(None), complex})

# Descriptions of arrays, written and read, are few and repeat: building one costs more than all else in a frame.
_trailers: dict[tuple[np.dtype[Any], tuple[int, ...]], bytes] = {}
_read_trailers: dict[tuple[bytes, int], tuple[np.dtype[Any], tuple[int, ...], int]] = {}


def _trailer(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return what follows an array's raw bytes: its dtype and shape, and the length of that in one byte.

    At the end rather than the front, so that the decoded array is aligned without a copy.
    """
    if dtype.hasobject:
        raise WireError(f"cannot encode an array of dtype {dtype}: only plain data (no Python objects) can travel")
    try:
        with warnings.catch_warnings():
            # What a dtype carries beside its layout ("metadata") does not travel.
            warnings.simplefilter("ignore")
            head: bytes = msgpack.packb([np.lib.format.dtype_to_descr(dtype), *shape])
    except ValueError:
        raise WireError(f"cannot encode an array of dtype {dtype}: its fields overlap or are out of order") from None
    if len(head) > 255:
        raise WireError(f"cannot encode an array of dtype {dtype}: its description is longer than 255 bytes")
    return head + bytes([len(head)])


def array_bytes(array: NDArray[Any]) -> bytes:
    """Return an array's raw bytes and what describes them: the content of an extension of type `ARRAY`."""
    key = (array.dtype, array.shape)
    trailer = _trailers.get(key)
    if trailer is None:
        if len(_trailers) > 1000:
            _trailers.clear()
        trailer = _trailers[key] = _trailer(*key)
    return array.tobytes() + trailer


def _name(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _descr(value: Any) -> Any:
    """Return a dtype description as numpy wants it: msgpack made its tuples lists."""
    if isinstance(value, list):
        return [(_name(item[0]), _descr(item[1]), *(tuple(shape) for shape in item[2:])) for item in value]
    return value


def _read_trailer(trailer: bytes, raw: int) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return dtype, shape and element count of an array of ``raw`` bytes, checked against each other."""
    descr, *shape = msgpack.unpackb(trailer)
    dtype = np.lib.format.descr_to_dtype(_descr(descr))
    count = math.prod(shape)
    if dtype.hasobject or min(shape, default=0) < 0 or count * dtype.itemsize != raw:
        raise WireError(f"array of {raw} bytes cannot have dtype {dtype} and shape {tuple(shape)}")
    return dtype, tuple(shape), count


def _read_array(data: bytes) -> NDArray[Any]:
    length = data[-1]
    end = len(data) - 1 - length
    key = (data[end:-1], end)
    known = _read_trailers.get(key)
    if known is None:
        if len(_read_trailers) > 1000:
            _read_trailers.clear()
        known = _read_trailers[key] = _read_trailer(*key)
    dtype, shape, count = known
    if end <= 0:
        # Not from np.zeros: elements of no size may claim to be very many.
        return np.ndarray(shape, dtype, b"")
    array = np.frombuffer(data, dtype, count)
    return array if len(shape) == 1 else array.reshape(shape)


def _quantized_bytes(vector: Quantized) -> bytes:
    side = np.array(vector.scale, dtype="<f8" if vector.method == "fixed" else "<f4")
    # A vector's length is a number, any other shape a list.
    shape: bytes = msgpack.packb(vector.shape[0] if len(vector.shape) == 1 else vector.shape)
    by_row = vector.method != "fixed" and len(vector.scale) != 1
    return (
        bytes([_METHODS.index(vector.method) << 5 | vector.bits | by_row << 7]) + shape + side.tobytes() + vector.data
    )


def _read_quantized(data: bytes) -> Quantized:
    method, bits, by_row = _METHODS[data[0] >> 5 & 3], data[0] & 31, data[0] >> 7
    unpacker = msgpack.Unpacker()
    unpacker.feed(data[1:20])
    read = unpacker.unpack()
    shape = tuple(read) if type(read) is list else (read,)
    if len(shape) not in (1, 2) or not all(type(n) is int and n >= 0 for n in shape):
        raise WireError("not a quantized vector")
    if math.prod(max(n, 1) for n in shape) >= 1 << 48:
        # numpy cannot hold every shape with a zero in it.
        raise WireError("not a quantized vector")
    start = 1 + unpacker.tell()
    side = 16 if method == "fixed" else 4 * shape[0] if by_row else 4
    scale = tuple(np.frombuffer(data[start : start + side], "<f8" if method == "fixed" else "<f4").tolist())
    vector = Quantized(method, bits, shape, scale, data[start + side :])
    widths = (scale[1] - scale[0],) if method == "fixed" else scale
    if by_row and (method == "fixed" or len(shape) != 2 or len(scale) != shape[0]):
        raise WireError("not a quantized vector")
    if not (1 <= bits <= MOST_BITS and all(0 <= width < math.inf for width in widths)):
        raise WireError("not a quantized vector")
    count = vector.count
    if vector.method == "qsgd" and bits == MOST_BITS:
        check_packed(vector.data[2 * count :], 1, count)
    else:
        check_packed(vector.data, vector.element_bits, count)
    return vector


def _pack_other(value: Any) -> msgpack.ExtType:
    """Encode what msgpack does not know (its ``default`` hook)."""
    kind = type(value)
    if kind is Quantized:
        return msgpack.ExtType(_QUANTIZED, _quantized_bytes(value))
    if isinstance(value, np.ma.MaskedArray):
        raise WireError("cannot encode a masked array: fill it first")
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(ARRAY, array_bytes(np.asarray(value)))
    if isinstance(value, np.generic):
        array = np.asarray(value)
        if array.dtype.kind in "SU" and array[()] != value:
            # numpy keeps no trailing zeros of a text.
            raise WireError(f"cannot encode a {kind.__qualname__} that ends in zeros: use str or bytes")
        return msgpack.ExtType(_SCALAR, array_bytes(array))
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, encode(list(value)))
    if kind is complex:
        return msgpack.ExtType(_COMPLEX, np.array(value).tobytes())
    raise WireError(
        f"cannot encode a {kind.__module__}.{kind.__qualname__}: payloads are numbers, text, bytes, None, lists, "
        "tuples, dicts, numpy arrays and quantized vectors"
    )


def _read_other(code: int, data: bytes) -> Any:
    """Decode an extension type (msgpack's ``ext_hook``)."""
    if code == ARRAY:
        return _read_array(data)
    if code == _QUANTIZED:
        return _read_quantized(data)
    if code == _SCALAR:
        return _read_array(data)[()]
    if code == _TUPLE:
        return tuple(unpack_payload(data))
    if code == _COMPLEX:
        return complex(np.frombuffer(data, np.complex128)[0])
    raise WireError(f"unknown extension type {code}")


def unpack_payload(data: bytes) -> Any:
    """Return what these bytes are, which `encode` wrote; others may raise anything (see `decode`)."""
    return msgpack.unpackb(data, ext_hook=_read_other, strict_map_key=False)


def encode(value: Any) -> bytes:
    """Return the bytes of a payload.

    Raises
    ------
    WireError
        If a value cannot travel: an unknown type, an array of Python objects, an integer of more than 64 bits.
    """
    try:
        return bytes(msgpack.packb(value, default=_pack_other, strict_types=True, use_bin_type=True))
    except (OverflowError, ValueError, UnicodeEncodeError, RecursionError) as error:
        raise WireError(f"cannot encode the payload: {error}") from None


def decode(data: bytes) -> Any:
    """Return the payload that `encode` gave these bytes; arrays are read-only, for receivers share them.

    Raises
    ------
    WireError
        If the bytes are anything else; never another exception.
    """
    try:
        return unpack_payload(data)
    except WireError:
        raise
    except Exception as error:
        # Hostile bytes can make msgpack and numpy raise many things; what they mean here is one.
        raise WireError(f"cannot decode {len(data)} bytes: {type(error).__name__}") from error


def is_mutable(payload: Any) -> bool:
    """Return whether a receiver could change this payload in place."""
    kind = type(payload)
    if kind in _IMMUTABLE:
        return False
    if isinstance(payload, np.ndarray | np.generic):
        return False
    return not (kind is tuple and not any(map(is_mutable, payload)))


def payload_bits(payload: Any) -> int:
    """Return the bits that the papers would count for a payload.

    8 × the bytes of an array, n·b (and 32 for a range or norm) of a quantized vector, 64 for a float, the sum over the
    items of lists, tuples and dicts, and 8 × the encoded length of anything else.
    """
    if isinstance(payload, np.ndarray):
        return payload.nbytes * 8
    if isinstance(payload, Quantized):
        return payload.payload_bits
    if isinstance(payload, np.generic):
        return payload.nbytes * 8
    if isinstance(payload, float):
        return 64
    if isinstance(payload, list | tuple):
        return sum(map(payload_bits, payload))
    if isinstance(payload, dict):
        return sum(payload_bits(part) for item in payload.items() for part in item)
    return 8 * len(encode(payload))
