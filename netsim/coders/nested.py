"""Coded arrays within others: their bytes one after the other, each with what it is and how long."""

import struct
from collections.abc import Iterable

from netsim.coders.floats import Floats
from netsim.errors import WireError
from netsim.wire import registry
from netsim.wire.coded import Coded, Encoded

__all__ = ["coded", "pack", "unpack"]

_HEAD = struct.Struct(">BI")


def coded(made: Encoded) -> Coded:
    """Return what a coder made as a coded array."""
    return made if isinstance(made, Coded) else Floats.of(made)


def pack(parts: Iterable[Coded]) -> bytes:
    """Return of each a byte with its type number, the number of its bytes (four bytes) and these."""
    found = map(registry.pack, parts)
    return b"".join(_HEAD.pack(number, len(data)) + data for number, data in found)


def unpack(data: bytes, start: int, what: str, refused: tuple[type[Coded], ...], why: str) -> tuple[Coded, int]:
    """Return the array at an offset, and its end.

    Raises
    ------
    WireError
        If the bytes end before it does (``what`` they should hold), or it is of a kind that is ``refused`` (``why``).
    """
    begin = start + _HEAD.size
    if len(data) < begin:
        raise WireError(f"{len(data)} bytes cannot hold {what}")
    number, length = _HEAD.unpack_from(data, start)
    if len(data) < begin + length:
        raise WireError(f"{len(data)} bytes cannot hold {what}")
    if registry.KINDS.get(number) in refused:
        # Else few bytes could ask for a thousand of them within each other.
        raise WireError(why)
    return registry.unpack(number, data[begin : begin + length]), begin + length
