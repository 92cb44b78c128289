"""Pack and unpack coded arrays that are parts of another coded array.

Each part is its type number, its length in bytes, and its bytes.
"""

import struct
from collections.abc import Iterable

from netsim.coders.floats import Floats
from netsim.errors import WireError
from netsim.wire import registry
from netsim.wire.coded import Coded, Encoded

__all__ = ["coded", "pack", "unpack"]

_HEAD = struct.Struct(">BI")


def coded(made: Encoded) -> Coded:
    """Return a coder's result as a coded array: a numpy array is wrapped in `Floats`."""
    return made if isinstance(made, Coded) else Floats.of(made)


def pack(parts: Iterable[Coded]) -> bytes:
    """Concatenate coded arrays, each as a byte with its type number, its length (four bytes) and its bytes."""
    found = map(registry.pack, parts)
    return b"".join(_HEAD.pack(number, len(data)) + data for number, data in found)


def unpack(data: bytes, start: int, what: str, refused: tuple[type[Coded], ...], why: str) -> tuple[Coded, int]:
    """Return the coded array at offset ``start``, and the offset of its end.

    Raises
    ------
    WireError
        If the bytes end too early (the message says that they cannot hold ``what``), the array has one of the types
        ``refused`` (the message is ``why``), or the array's own bytes are invalid.
    """
    begin = start + _HEAD.size
    if len(data) < begin:
        raise WireError(f"{len(data)} bytes cannot hold {what}")
    number, length = _HEAD.unpack_from(data, start)
    if len(data) < begin + length:
        raise WireError(f"{len(data)} bytes cannot hold {what}")
    if registry.KINDS.get(number) in refused:
        # Without this check, a few hostile bytes could nest a thousand arrays in each other.
        raise WireError(why)
    return registry.unpack(number, data[begin : begin + length]), begin + length
