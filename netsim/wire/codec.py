"""Encode payloads with msgpack, decode them, and count their bits.

On the path agent → outbox → link → inbox → agent, the outbox encodes and the inbox decodes. numpy arrays, numpy
scalars, tuples, complex numbers, coded arrays (`netsim.coders`) and objects of registered classes (`netsim.payloads`)
become msgpack extension types. Either decode(encode(x)) equals x bit for bit and in type, or encode refuses x, with
three exceptions: a bytearray, or a memoryview of bytes, arrives as bytes; an array of another library arrives as a
numpy array; an OrderedDict arrives as a dict. Objects of other subclasses of str, dict, numpy.ndarray, … are refused.
"""

import math
import warnings
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from itertools import chain
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from netsim.errors import WireError, one_line
from netsim.wire import registry
from netsim.wire.coded import Coded
from netsim.wire.payloads import LONGEST_NAME, MOST_NESTED, Named, encodable, name_of, unpacked
from netsim.wire.routed import Routed

# The numbers of msgpack extension types, except those of coded types, which are in `netsim.wire.registry`.
ARRAY, _SCALAR, _TUPLE, _COMPLEX, _NAMED, _ROUTED = 1, 2, 3, 4, 12, 15

_IMMUTABLE = frozenset({np.ndarray, float, int, str, bytes, bool, type(None), complex})

# Types whose values recur often, so that the number of bits of each value is cached.
_KEPT = frozenset({int, bool, type(None)})

# Types that `_check_parts` examines: containers, and types that msgpack would encode, but decode as another type.
_TO_CHECK = frozenset({list, tuple, dict, Named, memoryview, msgpack.ExtType, msgpack.Timestamp})

# The largest depth of nested containers: one more than in a payload, because a frame is a list with the payload in it.
_MAX_DEPTH = MOST_NESTED + 1

_BUFFER_SIZE = 1024

# The largest number of dict keys with equal hashes. Without this limit, a small hostile payload could occupy its
# receiver for hours.
_MAX_COLLISIONS = 256

# numpy's limit. It holds for an array, but also for each field of an array with fields, which may be an array itself.
_MOST_DIMENSIONS = 64

# Caches for encoding and decoding arrays, because describing a dtype takes longer than all other work on a frame.
# `_trailers` maps (dtype, shape) to (trailer, whether the dtype has fields). `_read_trailers` maps (description, size
# of the array in bytes) to (dtype, shape, number of elements).
_trailers: dict[tuple[np.dtype[Any], tuple[int, ...]], tuple[bytes, bool]] = {}
_read_trailers: dict[tuple[bytes, int], tuple[np.dtype[Any], tuple[int, ...], int]] = {}


def _trailer(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the bytes after an array's raw bytes: a description of dtype and shape, and one byte with its length.

    The description follows the raw bytes, because in front it would misalign them, so that decoding would have to copy
    the array.
    """
    if dtype.hasobject:
        raise WireError(f"cannot encode an array of dtype {dtype}: only plain data (no Python objects) can be sent")
    try:
        with warnings.catch_warnings():
            # numpy warns that it drops a dtype's metadata, but metadata do not change the values.
            warnings.simplefilter("ignore")
            description: bytes = msgpack.packb([np.lib.format.dtype_to_descr(dtype), *shape])
    except ValueError:
        raise WireError(f"cannot encode an array of dtype {dtype}: its fields overlap or are out of order") from None
    if len(description) > 255:
        raise WireError(f"cannot encode an array of dtype {dtype}: its description is longer than 255 bytes")
    if not _arrives(description, dtype, shape):
        raise WireError(f"cannot encode an array of dtype {dtype}: it would not arrive unchanged")
    return description + bytes([len(description)])


def _arrives(description: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Return whether a description decodes to this dtype and shape."""
    try:
        return _read_trailer(description, math.prod(shape) * dtype.itemsize)[:2] == (dtype, shape)
    except Exception:
        # numpy may raise exceptions of many types; each means that the receiver could not decode the array.
        return False


def array_trailer(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[bytes, bool]:
    """Return the cached `_trailer` of a dtype and shape, and whether the dtype has fields."""
    known = _trailers.get((dtype, shape))
    if known is None:
        if len(_trailers) > 1000:
            _trailers.clear()
        known = _trailers[dtype, shape] = _trailer(dtype, shape), dtype.fields is not None
    return known


def array_bytes(array: NDArray[Any]) -> bytes:
    """Return the content of an extension of type `ARRAY`: the array's raw bytes and its description."""
    trailer, has_fields = array_trailer(array.dtype, array.shape)
    if has_fields and array.nbytes:
        # The padding between fields contains arbitrary bytes. Replace it by zeros, so that equal runs send equal bytes.
        packed = np.zeros(array.shape, array.dtype)
        _copy_fields(packed, array)
        array = packed
    return array.tobytes() + trailer


def _copy_fields(to: NDArray[Any], array: NDArray[Any]) -> None:
    """Copy a structured array field by field, without the padding: numpy 2.5 would copy padding with a whole array."""
    for name in array.dtype.names or ():
        if to[name].dtype.fields is None:
            to[name] = array[name]
        else:
            _copy_fields(to[name], array[name])


def extension(payload: Any) -> tuple[int, bytes]:
    """Encode an array or a coded array; return the number and the content of its msgpack extension type.

    Raises WireError if the array cannot be encoded.
    """
    if type(payload) is np.ndarray:
        known = encodable(payload)
        return (ARRAY, array_bytes(known)) if known is payload else (_NAMED, _named_bytes(known))
    try:
        return registry.pack(payload)
    except WireError:
        raise
    except Exception as error:
        raise _not_encoded(error) from None


def _not_encoded(error: Exception) -> WireError:
    return WireError(f"cannot encode the payload: {one_line(error)}")


def _to_descr(value: Any) -> Any:
    """Restore the tuples of a dtype description, which msgpack turned into lists."""
    if isinstance(value, list):
        fields = ((tuple(name) if isinstance(name, list) else name, *rest) for name, *rest in value)
        return [(name, _to_descr(kind), *map(tuple, shape)) for name, kind, *shape in fields]
    return value


def _has_valid_units(dtype: np.dtype[Any]) -> bool:
    """Return whether the time units in a dtype are valid: numpy accepts a unit of 0 s, but cannot compute with it."""
    if dtype.subdtype is not None:
        return _has_valid_units(dtype.subdtype[0])
    if dtype.fields is not None:
        return all(_has_valid_units(part[0]) for part in dtype.fields.values())
    return dtype.kind not in "mM" or np.datetime_data(dtype)[1] > 0


def _dimensions_within(dtype: np.dtype[Any]) -> int:
    """Return the largest number of dimensions that fields of a dtype add to those of an array."""
    if dtype.subdtype is not None:
        return len(dtype.shape) + _dimensions_within(dtype.subdtype[0])
    return max((_dimensions_within(part[0]) for part in (dtype.fields or {}).values()), default=0)


def _read_trailer(trailer: bytes, raw: int) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return an array's dtype, shape and number of elements from its description.

    Raises WireError if the dtype or the shape is not allowed, or if such an array does not take ``raw`` bytes.
    """
    descr, *shape = msgpack.unpackb(trailer)
    with warnings.catch_warnings():
        # numpy warns of deprecated dtype names, but the sender chose the name, so a warning here would not help.
        warnings.simplefilter("ignore")
        dtype = np.lib.format.descr_to_dtype(_to_descr(descr))
    count = math.prod(shape)
    if dtype.hasobject or not _has_valid_units(dtype) or min(shape, default=0) < 0 or count * dtype.itemsize != raw:
        raise WireError(f"array of {raw} bytes cannot have dtype {dtype} and shape {tuple(shape)}")
    if len(shape) + _dimensions_within(dtype) > _MOST_DIMENSIONS:
        raise WireError(f"array of shape {tuple(shape)} cannot have dtype {dtype}: numpy could not read its fields")
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
        # Hostile bytes can claim any number of elements of size 0. np.zeros would hang for many; np.ndarray does not.
        return np.ndarray(shape, dtype, b"")
    array = np.frombuffer(data, dtype, count)
    return array if len(shape) == 1 else array.reshape(shape)


def _pack_other(value: Any) -> msgpack.ExtType:
    """Encode an object of a type that msgpack does not know; msgpack calls this function as its ``default`` hook."""
    kind = type(value)
    if kind in registry.NUMBERS:
        return msgpack.ExtType(*registry.pack(value))
    if kind is np.ndarray:
        return msgpack.ExtType(ARRAY, array_bytes(value))
    if isinstance(value, np.ma.MaskedArray):
        raise WireError("cannot encode a masked array: fill it first")
    if isinstance(value, np.ndarray):
        raise WireError(f"cannot encode a {name_of(kind)}: it would arrive as a plain array; use numpy.asarray")
    if isinstance(value, np.generic):
        return msgpack.ExtType(_SCALAR, _scalar_bytes(value))
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, _pack(list(value)))
    if kind is complex:
        return msgpack.ExtType(_COMPLEX, np.array(value).tobytes())
    if kind is Named:
        return msgpack.ExtType(_NAMED, _named_bytes(value))
    if kind is Routed:
        return msgpack.ExtType(_ROUTED, value.pack())
    if isinstance(value, Coded):
        raise registry.unregistered(kind)
    raise _unknown(value)


def _scalar_bytes(value: np.generic) -> bytes:
    kind = type(value)
    array = np.asarray(value)
    if array.dtype.kind in "SU" and array[()] != value:
        # numpy drops trailing null characters of its text, so the value would not arrive unchanged.
        raise WireError(f"cannot encode a {kind.__qualname__} that ends in zeros: use str or bytes")
    content = array_bytes(array)
    arrives = np.dtype(array.dtype.str).type
    if arrives is not kind:
        raise WireError(f"cannot encode a {name_of(kind)}: it would arrive as a {name_of(arrives)}")
    return content


def _unknown(value: Any) -> WireError:
    kind = type(value)
    if kind is int:
        return WireError(
            f"cannot encode an integer of {value.bit_length()} bits: it must be from -2**63 to 2**64 - 1; send a "
            "float, or bytes"
        )
    return WireError(
        f"cannot encode a {name_of(kind)}: payloads are numbers, text, bytes, None, lists, tuples, dicts, arrays, "
        "coded arrays and what netsim.payloads.register names"
    )


def read_extension(code: int, data: bytes) -> Any:
    """Decode the content ``data`` of extension type ``code``; msgpack calls this function as its ``ext_hook``."""
    if code == ARRAY:
        return _read_array(data)
    if code == _SCALAR:
        return _read_scalar(data)
    if code == _TUPLE:
        return tuple(unpack_payload(data))
    if code == _COMPLEX:
        return complex(*np.frombuffer(data, np.float64).tolist())
    if code == _NAMED:
        name, content = _split(data)
        return unpacked(name, unpack_payload(content))
    if code == _ROUTED:
        return Routed.unpack(data)
    return registry.unpack(code, data)


def _read_scalar(data: bytes) -> Any:
    array = _read_array(data)
    if array.ndim:
        raise WireError(f"an array of shape {array.shape} is not a scalar")
    return array[()]


def _named_bytes(value: Named) -> bytes:
    return _pack(value.name) + _pack(value.content)


def _split(data: bytes) -> tuple[str, bytes]:
    """Split the bytes of a `Named` payload into its name and the bytes of its content."""
    unpacker = msgpack.Unpacker()
    # The first bytes contain the whole name, because msgpack writes at most three bytes before it.
    unpacker.feed(data[: LONGEST_NAME + 3])
    name = unpacker.unpack()
    if type(name) is not str:
        raise WireError(f"no payload has the name {name!r:.60}")
    return name, data[unpacker.tell() :]


def _pack(value: Any) -> bytes:
    # Start with a small buffer, which grows if necessary: allocating msgpack's default buffer of 256 KB takes longer
    # than encoding a frame.
    return bytes(msgpack.packb(value, default=_pack_other, strict_types=True, use_bin_type=True, buf_size=_BUFFER_SIZE))


def unpack_payload(data: bytes) -> Any:
    """Decode trusted bytes that `encode` wrote; for untrusted bytes use `decode`."""
    return msgpack.unpackb(data, ext_hook=read_extension, strict_map_key=False)


def _check_parts(value: Any, depth_left: int, action: str) -> None:
    """Raise WireError if lists, tuples and dicts are nested more than ``depth_left`` deep, or hold an unknown type."""
    kind = type(value)
    if kind not in _TO_CHECK:
        return
    if kind is memoryview and value.format == "B" and value.ndim == 1:
        return
    if kind not in (list, tuple, dict, Named):
        raise _unknown(value)
    if not depth_left:
        raise WireError(f"cannot {action} the payload: lists, tuples and dicts are nested deeper than {MOST_NESTED}")
    parts = [value.content] if kind is Named else value
    if kind is dict:
        check_keys(value, action)
        parts = list(chain(value, value.values()))
    if not _TO_CHECK.isdisjoint(map(type, parts)):
        for part in parts:
            _check_parts(part, depth_left - 1, action)


def check_keys(keys: Collection[Any], action: str) -> None:
    """Raise WireError if so many keys of a dict have the same hash that lookups would be slow."""
    hashes = list(map(hash, keys))
    if len(keys) - len(set(hashes)) >= _MAX_COLLISIONS and max(Counter(hashes).values()) > _MAX_COLLISIONS:
        raise WireError(f"cannot {action} the payload: more than {_MAX_COLLISIONS} keys of a dict have the same hash")


def encode(value: Any) -> bytes:
    """Return the bytes of a payload.

    Raises
    ------
    WireError
        If a value cannot be sent: an object of an unknown type, or of a subclass of a known type; an array of Python
        objects, or an array on another device than the CPU; an integer of more than 64 bits; lists, tuples and dicts
        nested more than `MOST_NESTED` deep.
    """
    try:
        value = encodable(value)
        _check_parts(value, _MAX_DEPTH, "encode")
        return _pack(value)
    except WireError:
        raise
    except Exception as error:
        raise _not_encoded(error) from None


def decode(data: bytes) -> Any:
    """Decode a payload from bytes; arrays are read-only, because receivers share them.

    Hostile bytes are safe to decode: time is proportional to their length, and memory is at most about 100 times that
    length.

    Raises
    ------
    WireError
        If the bytes are not a payload; no other exception is raised.
    """
    try:
        value = _decode(data, _MAX_DEPTH)
        _check_parts(value, _MAX_DEPTH, "decode")
    except WireError:
        raise
    except Exception as error:
        # Invalid bytes can make msgpack and numpy raise exceptions of many types.
        raise WireError(f"cannot decode {len(data)} bytes: {type(error).__name__}") from error
    return value


def _decode(data: bytes, depth_left: int) -> Any:
    """Decode untrusted bytes, in which tuples may nest up to ``depth_left`` deep."""
    check_whole(data)

    def read_other(code: int, body: bytes) -> Any:
        if code not in (_TUPLE, _NAMED):
            return read_extension(code, body)
        if not depth_left:
            raise WireError(f"cannot decode the payload: tuples are nested deeper than {MOST_NESTED}")
        if code == _NAMED:
            name, body = _split(body)
            content = _decode(body, depth_left - 1)
            # Check the content first, because the user's unpack function need not be safe for hostile content.
            _check_parts(content, depth_left - 1, "decode")
            return unpacked(name, content)
        items = _decode(body, depth_left - 1)
        if isinstance(items, np.ndarray):
            # Hostile bytes can claim an array of any number of elements of size 0. For many, tuple(items) would hang.
            raise WireError("a tuple cannot be an array")
        return tuple(items)

    return msgpack.unpackb(data, ext_hook=read_other, object_pairs_hook=_dict, strict_map_key=False)


def check_whole(data: bytes) -> None:
    """Raise an error if lists or dicts in the bytes claim more items than follow.

    Without this check, msgpack would allocate lists of the size that hostile bytes claim.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=max(len(data), 1))
    unpacker.feed(data)
    unpacker.skip()


def _dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    check_keys([key for key, _ in pairs], "decode")
    return dict(pairs)


def is_mutable(payload: Any) -> bool:
    """Return whether a receiver could change the payload in place."""
    kind = type(payload)
    if kind in _IMMUTABLE or kind in registry.NUMBERS:
        return False
    if isinstance(payload, np.ndarray | np.generic):
        return False
    if isinstance(payload, Named):
        return payload.is_mutable
    return not (kind is tuple and not any(map(is_mutable, payload)))


def payload_bits(payload: Any) -> int:
    """Return the number of bits of a payload, as papers count them.

    An array counts 8 × its bytes, a coded array its ``payload_bits``, a float 64, and a list, tuple or dict the sum
    over its items. An object of a registered class counts like the payload that its ``pack`` returns, and a routed
    message like the payload that it carries. Anything else counts 8 × its encoded length.
    """
    # A shortcut for short ASCII text, which is frequent in lists: encoding it would take ten times as long.
    if type(payload) is str and len(payload) < 32 and payload.isascii():
        return 8 + 8 * len(payload)
    if type(payload) in _KEPT:
        return _kept_bits(payload)
    if isinstance(payload, np.ndarray):
        return payload.nbytes * 8
    if type(payload) in registry.NUMBERS:
        return registry.bits_of(payload)
    if isinstance(payload, np.generic):
        return payload.nbytes * 8
    if isinstance(payload, float):
        return 64
    if isinstance(payload, list | tuple):
        return sum(map(payload_bits, payload))
    if isinstance(payload, dict):
        return sum(payload_bits(part) for item in payload.items() for part in item)
    if isinstance(payload, Named):
        return payload_bits(payload.content)
    if type(payload) is Routed:
        return payload_bits(unpack_payload(payload.data)[3])
    known = encodable(payload)
    if known is not payload:
        return payload_bits(known)
    return 8 * len(encode(payload))


@lru_cache(2**12)
def _kept_bits(payload: int | bool | None) -> int:
    return 8 * len(encode(payload))


def saturated(payload: Any) -> int:
    """Return the number of elements that a coder clipped in the payload; 0 if the payload is not a coded array."""
    return payload.saturated if type(payload) in registry.NUMBERS else 0
