"""What a coder is and what it makes: `Coder.encode` turns an array into a `Coded` one, which knows its bytes and bits.

Sender and receivers decode the same bytes, so their copies agree to the last bit.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import WireError
from netsim.util.typing import Vector


class Coded(ABC):
    """A coded vector or matrix: what travels, and the values that sender and receivers alike take it for.

    A type of one's own is a frozen dataclass of numbers, tuples and bytes (receivers share the object), with the four
    members below, and has a number on the wire: `netsim.coders.register`.

    Attributes
    ----------
    shape : tuple of int
        Shape of the array.
    saturated : int
        How many elements the coder had to clip; known to the sender only. The ledger adds them up.
    """

    shape: tuple[int, ...]
    saturated: int = 0

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Bits that the papers count: those of the elements, and of the side information that travels along."""

    @abstractmethod
    def pack(self) -> bytes:
        """Return all of it as bytes; raises WireError if its parts do not fit each other."""

    @classmethod
    @abstractmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Return what `pack` made these bytes of.

        Anybody may have written the bytes: no size that they claim is to be believed, and nothing of that size made,
        before it was compared with their number. Whatever exception is raised reaches others as a WireError.
        """

    @abstractmethod
    def decode(self) -> Vector:
        """Return the array that this stands for, as a new one; asked once, for `values`."""

    @cached_property
    def values(self) -> Vector:
        """The decoded array, read-only; raises WireError if `decode` gives another shape than ``shape``."""
        values = np.asarray(self.decode(), dtype=np.float64)
        if values.shape != self.shape:
            raise WireError(f"{type(self).__name__} of shape {self.shape} decodes to shape {values.shape}")
        values.flags.writeable = False
        return values

    def __array__(self, dtype: type | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        """Return the decoded values, so that numpy functions take a coded array as it is."""
        return np.array(self.values, dtype=dtype, copy=bool(copy)) if copy else np.asarray(self.values, dtype=dtype)


Encoded = Coded | NDArray[np.floating[Any]]
"""What a coder returns and a receiver gets, a coded array or plain numbers; `decoded` gives its values."""


def decoded(coded: Encoded) -> Vector:
    """Return the values that sender and receivers alike take it for, in its shape; a float64 array is itself."""
    return coded.values if isinstance(coded, Coded) else np.asarray(coded, dtype=np.float64)


class Coder(ABC):
    """Turns a vector, or a matrix, into what travels.

    Attributes
    ----------
    whole : bool
        Whether it is precise enough to code a state itself rather than the change of one.
    """

    whole: bool = False

    def __repr__(self) -> str:
        known = ((name, each) for name, each in vars(self).items() if name != "whole" and not name.startswith("_"))
        told = ", ".join(f"{name}={each!r}" for name, each in known if each is not None and each is not False)
        return f"{type(self).__name__}({told})"

    @abstractmethod
    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None, /) -> Encoded:
        """Return the coded array; a coder that rounds or picks at random draws from ``rng``, and refuses None."""

    def decode(self, coded: Encoded) -> Vector:
        """Return the values of what this coder, or another, made; see `decoded`."""
        return decoded(coded)

    def fresh(self) -> "Coder":
        """Return the coder for one agent: itself, or, if it remembers what it coded, one that remembers nothing yet.

        What is given to several agents is asked for this by each of them, so that no two share a memory.
        """
        return self
