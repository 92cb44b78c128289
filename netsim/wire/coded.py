"""Base classes of coders and coded arrays: a `Coder` encodes an array as a `Coded` array, or as a numpy array.

The sender decodes the same bytes as its receivers, so all copies of a state agree to the last bit.
"""

import inspect
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import WireError
from netsim.util.typing import Vector


class Coded(ABC):
    """A coded vector or matrix, with the bytes to send and the values decoded from them.

    A new type must be a frozen dataclass of numbers, tuples and bytes, because receivers share the object. It defines
    the four abstract members below; `netsim.coders.register` gives it a number on the wire.

    Attributes
    ----------
    shape : tuple of int
        Shape of the array.
    saturated : int
        Number of elements that the coder clipped. Only the sender knows this number; a run's ledger adds up the
        numbers of all messages.
    """

    shape: tuple[int, ...]
    saturated: int = 0

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Number of bits as papers count them: bits of the elements and of side information such as a scale."""

    @abstractmethod
    def pack(self) -> bytes:
        """Return the coded array as bytes; raises WireError if its attributes are inconsistent."""

    @classmethod
    @abstractmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Return the coded array from the bytes of `pack`.

        The bytes are untrusted: if they claim a size, compare it with their length before allocating memory of this
        size. Any exception that this method raises reaches the caller as a WireError.
        """

    @abstractmethod
    def decode(self) -> Vector:
        """Return the decoded values as a new array; `values` calls this once."""

    @cached_property
    def values(self) -> Vector:
        """The decoded array, read-only; raises WireError if `decode` gives another shape than ``shape``."""
        values = np.asarray(self.decode(), dtype=np.float64)
        if values.shape != self.shape:
            raise WireError(f"{type(self).__name__} of shape {self.shape} decodes to shape {values.shape}")
        values.flags.writeable = False
        return values

    def __array__(self, dtype: type | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        """Return the decoded values, so that numpy functions accept a coded array."""
        return np.array(self.values, dtype=dtype, copy=bool(copy)) if copy else np.asarray(self.values, dtype=dtype)


Encoded = Coded | NDArray[np.floating[Any]]
"""The result of a coder: a coded array or a numpy array, from which `decoded` returns the values."""


def decoded(coded: Encoded) -> Vector:
    """Return the values of a coder's result as a float64 array; a result that is a float64 array is not copied."""
    # The first comparison is redundant but fast, while isinstance is slow for abstract classes.
    if type(coded) is not np.ndarray and isinstance(coded, Coded):
        return coded.values
    return np.asarray(coded, dtype=np.float64)


class Coder(ABC):
    """Base class of coders, which turn a vector or matrix into the array that is sent.

    Attributes
    ----------
    whole : bool
        Whether the coder is precise enough to encode states directly, instead of their changes.
    feeds_back : bool
        Whether the coder adds the coding error of one message to the next message; only `ErrorFeedback` does.
    """

    whole: bool = False
    feeds_back: bool = False
    _given: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Make a coder, and store the arguments for `arguments`.

        They cannot be read from the coder's attributes, which may have other names or hold values computed from them.
        """
        made = super().__new__(cls)
        object.__setattr__(made, "_given", (given, named))
        return made

    @property
    def arguments(self) -> dict[str, Any]:
        """{name: value} of all arguments with which the coder was made, including defaults."""
        if (init := type(self).__init__) is object.__init__:
            return {}
        given, named = self._given
        found = inspect.signature(init).bind(self, *given, **named)
        found.apply_defaults()
        return dict(list(found.arguments.items())[1:])

    def __repr__(self) -> str:
        known = ((name, each) for name, each in vars(self).items() if name != "whole" and not name.startswith("_"))
        shown = ", ".join(f"{name}={each!r}" for name, each in known if each is not None and each is not False)
        return f"{type(self).__name__}({shown})"

    @abstractmethod
    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None, /) -> Encoded:
        """Return the coded array; a randomized coder draws from ``rng``, and raises BadInput if that is None."""

    def decode(self, coded: Encoded) -> Vector:
        """Return the values of an array that this or another coder encoded, as `decoded` does."""
        return decoded(coded)

    def fresh(self) -> "Coder":
        """Return the coder for one agent: this coder or, if it has a memory, a copy with an empty memory.

        Each agent calls this method, so that agents do not share memories.
        """
        return self
