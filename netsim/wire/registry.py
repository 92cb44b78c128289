"""Numbers of coded types: on the wire, the type's number precedes a coded array's bytes and determines their decoding.

Numbers 0 … 63 are reserved for netsim and never change: 1 … 4 are array, numpy scalar, tuple and complex number, and
`netsim.coders` lists the rest. Users register types from 64 to 127. All processes of a run must use equal numbers.
"""

from collections.abc import Callable
from inspect import isabstract
from typing import TypeVar

import numpy as np

from netsim.errors import BadInput, WireError
from netsim.util import check
from netsim.wire.coded import Coded

FIRST, LAST = 64, 127
"""The range of numbers for `register`."""

KINDS: dict[int, type[Coded]] = {}
"""{number on the wire: coded type whose ``unpack`` decodes the bytes}."""

NUMBERS: dict[type, int] = {}
"""{coded type: number on the wire}; several types may share a number (see `enter`)."""

Kind = TypeVar("Kind", bound=type[Coded])


def enter(number: int, kind: type[Coded], *members: type[Coded]) -> None:
    """Enter the type ``kind`` under a number; ``kind.unpack`` then decodes the arrays with this number.

    If there are ``members``, they are the types that are sent with this number, instead of ``kind`` itself.
    """
    KINDS[number] = kind
    NUMBERS.update(dict.fromkeys(members or (kind,), number))


def register(number: int) -> Callable[[Kind], Kind]:
    """Return a class decorator that gives a coded type its number on the wire.

    Parameters
    ----------
    number : int
        From 64 to 127; it must be the same in every program that sends or receives the type.

    Raises
    ------
    BadInput
        If the number is not an integer in this range or is in use, or the class already has a number or is not a frozen
        dataclass with all members of `Coded`. A class of the same module and name replaces the old class, for example
        when a notebook cell is run again.
    """
    number = check.integer("number", number, low=FIRST, high=LAST)

    def give(kind: Kind) -> Kind:
        _check_kind(kind)
        old = KINDS.get(number)
        if old is not None:
            if (old.__module__, old.__qualname__) != (kind.__module__, kind.__qualname__):
                taken = f"free; {number} is {old.__module__}.{old.__qualname__}"
                raise check.refuse("number", number, taken)
            del NUMBERS[old]
        enter(number, kind)
        return kind

    return give


def _check_kind(kind: type[Coded]) -> None:
    if not (isinstance(kind, type) and issubclass(kind, Coded)):
        raise check.refuse("kind", kind, "a class derived from netsim.coders.Coded")
    if kind in NUMBERS:
        raise BadInput(f"{kind.__name__} has number {NUMBERS[kind]}: must be registered once")
    if isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise BadInput(f"{kind.__name__} has no {missing}: must define all abstract members of netsim.coders.Coded")
    parameters = kind.__dict__.get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        raise BadInput(f"{kind.__name__} is mutable: must be a dataclass with frozen=True, because receivers share it")


def pack(coded: Coded) -> tuple[int, bytes]:
    """Return the number of a coded array's type, and the array's bytes.

    Raises WireError if the type has no number, or if the array's own ``pack`` raises it or does not return bytes.
    """
    kind = type(coded)
    number = NUMBERS.get(kind)
    if number is None:
        raise unregistered(kind)
    data = coded.pack()
    if type(data) is not bytes:
        raise WireError(f"cannot encode a {kind.__module__}.{kind.__qualname__}: its pack() does not return bytes")
    return number, data


def unregistered(kind: type) -> WireError:
    """Return the error for a coded type without a number."""
    return WireError(
        f"cannot encode a {kind.__module__}.{kind.__qualname__}: it has no number on the wire (netsim.coders.register)"
    )


def unpack(number: int, data: bytes) -> Coded:
    """Decode ``data`` as the coded type with this number; raises only WireError."""
    kind = KINDS.get(number)
    if kind is None:
        raise WireError(f"unknown extension type {number}")
    try:
        coded = kind.unpack(data)
    except WireError:
        raise
    except Exception as error:
        # Invalid bytes can make msgpack, numpy and users' types raise exceptions of many types.
        raise WireError(f"{len(data)} bytes are not a {kind.__name__}: {type(error).__name__}") from error
    if NUMBERS.get(type(coded)) != number:
        raise WireError(f"{len(data)} bytes are not a {kind.__name__}: its unpack() returns a {type(coded).__name__}")
    return coded


def bits_of(coded: Coded) -> int:
    """Return a coded array's payload bits; raises WireError if they are not an integer from 0 to 2⁴⁸."""
    bits = coded.payload_bits
    if type(bits) is not int:
        bits = int(bits) if isinstance(bits, np.integer) else -1
    if not 0 <= bits <= 1 << 48:
        shown = f"{type(coded).__name__}.payload_bits is {coded.payload_bits!r:.40}"
        raise WireError(f"{shown}: must be a whole number from 0 to 2**48")
    return bits
