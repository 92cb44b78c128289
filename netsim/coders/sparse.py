"""Sparsifying coders: send only the k largest elements (`TopK`) or k random ones (`RandomK`), with their indices.

Sources: Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", 2018; for gossip, Koloskova, Stich and Jaggi, 2019.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.coders.floats import Exact, Floats
from netsim.errors import WireError
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire import registry
from netsim.wire.coded import Coded, Coder, Encoded
from netsim.wire.inputs import generator, real_array, without_memory
from netsim.wire.packing import check_packed, check_shape, checked, pack, pack_shape, unpack, unpack_shape

_DENSE = "one that sends all k elements, as a sparse array of a sparse array has no wire format"

MOST_ELEMENTS = 1 << 24
"""Limit of the elements of a sparse vector (128 MB as float64), because a few hostile bytes can claim any length."""


@dataclass(frozen=True)
class Sparse(Coded):
    """A vector or matrix of n elements, of which k are sent; the others are 0.

    On the wire (type number 7): the shape; k; the type number of ``part``; the indices; the bytes of ``part``. The k
    indices increase, and have ⌈log₂ n⌉ bits each. If an index has more than 16 bits, the low 16 bits of all indices
    precede the high bits of all indices. If k = n there are no indices.

    Attributes
    ----------
    shape : tuple of int
        Shape of the array; elements are numbered row by row.
    places : bytes
        The packed indices.
    part : Coded
        The k elements that are sent, as a coded vector.
    saturated : int
        Number of clipped elements. Only the sender knows it, so comparisons ignore it.
    """

    shape: tuple[int, ...]
    places: bytes
    part: Coded
    saturated: int = field(default=0, compare=False)

    @classmethod
    def of(cls, shape: tuple[int, ...], indices: NDArray[np.integer], kept: Encoded) -> Self:
        """Return the sparse array of a shape that has the elements ``kept`` at ``indices``, which must increase."""
        if isinstance(kept, Sparse):
            raise check.refuse("coder", kept, _DENSE)
        part = kept if isinstance(kept, Coded) else Floats.of(kept)
        places = _pack_indices(indices, _index_bits(math.prod(shape), len(indices)))
        return cls(shape, places, part, part.saturated)

    def check(self) -> None:
        """Raise WireError unless the attributes are consistent."""
        elements = check_shape(self.shape)
        if elements > MOST_ELEMENTS:
            raise WireError(f"no sparse vector has shape {self.shape}: at most {MOST_ELEMENTS} elements")
        if type(self.places) is not bytes or not isinstance(self.part, Coded) or isinstance(self.part, Sparse):
            raise WireError("the attributes of Sparse have wrong types")
        if len(self.part.shape) != 1 or self.part.shape[0] > elements:
            raise WireError(f"no sparse vector of shape {self.shape} has a part of shape {self.part.shape}")
        bits = _index_bits(elements, self.count)
        check_packed(self.places, bits, self.count)
        indices = self.indices
        if bits and self.count and (indices[-1] >= elements or np.any(indices[1:] <= indices[:-1])):
            raise WireError(f"the indices of a sparse vector must increase, and be below {elements}")

    @property
    def count(self) -> int:
        """The number k of elements that are sent."""
        return self.part.shape[0]

    @cached_property
    def indices(self) -> NDArray[np.int64]:
        """The indices of the elements that are sent, in increasing order."""
        elements = math.prod(self.shape)
        return _unpack_indices(self.places, _index_bits(elements, self.count), self.count)

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: k·⌈log₂ n⌉ for the indices (0 if k = n), plus those of the k elements."""
        return self.count * _index_bits(math.prod(self.shape), self.count) + registry.bits_of(self.part)

    def pack(self) -> bytes:
        """Encode as bytes; raises WireError if the attributes are inconsistent."""
        self.check()
        number, part = registry.pack(self.part)
        return pack_shape(self.shape) + pack_shape((self.count,)) + bytes((number,)) + self.places + part

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Decode the bytes of `pack`; raises WireError for any other bytes."""
        shape, start = unpack_shape(data)
        counts, start = unpack_shape(data, start)
        elements = math.prod(shape)
        if elements > MOST_ELEMENTS or len(counts) != 1 or counts[0] > elements:
            raise WireError(f"a sparse vector of shape {shape} cannot send {counts} elements")
        end = start + 1 + -(-counts[0] * _index_bits(elements, counts[0]) // 8)
        if len(data) < end:
            raise WireError(f"{len(data)} bytes cannot hold a sparse vector of {counts[0]} elements of {elements}")
        if registry.KINDS.get(data[start]) is Sparse:
            # Without this check, a few hostile bytes could nest a thousand sparse arrays in each other.
            raise WireError("a sparse vector cannot be part of another")
        vector = cls(shape, data[start + 1 : end], registry.unpack(data[start], data[end:]))
        if vector.part.shape != counts:
            raise WireError(f"a sparse vector of {counts[0]} elements has a part of shape {vector.part.shape}")
        return checked(vector)

    def decode(self) -> Vector:
        """Return the array: the elements of ``part`` at their indices, zeros elsewhere."""
        values = np.zeros(math.prod(self.shape))
        values[self.indices] = self.part.values
        return values.reshape(self.shape)


def _index_bits(elements: int, count: int) -> int:
    """Return the bits of one index: ⌈log₂ n⌉, or 0 if all elements are sent."""
    return 0 if count == elements else (elements - 1).bit_length()


def _pack_indices(indices: NDArray[np.integer], bits: int) -> bytes:
    if bits <= 16:
        return pack(indices.astype(np.uint16), bits) if bits else b""
    return pack((indices & 0xFFFF).astype(np.uint16), 16) + pack((indices >> 16).astype(np.uint16), bits - 16)


def _unpack_indices(places: bytes, bits: int, count: int) -> NDArray[np.int64]:
    if not bits:
        return np.arange(count)
    if bits <= 16:
        return unpack(places, bits, count).astype(np.int64)
    low = unpack(places[: 2 * count], 16, count).astype(np.int64)
    return low | (unpack(places[2 * count :], bits - 16, count).astype(np.int64) << 16)


def _dense(coder: Coder | None) -> Coder:
    """Return the coder of the k elements, by default `Exact`; raises BadInput for a sparsifying coder."""
    if isinstance(coder, TopK | RandomK):
        raise check.refuse("coder", coder, _DENSE)
    return without_memory(Exact() if coder is None else coder)


def _elements(vector: ArrayLike) -> Vector:
    array = real_array(vector)
    if array.size > MOST_ELEMENTS:
        raise check.refuse("vector", array.shape, f"of at most {MOST_ELEMENTS} elements")
    return array


class TopK(Coder):
    """Send the k elements of largest absolute value; among equal elements the first are sent.

    The coder C is biased, with ‖x − C(x)‖² ≤ (1 − k/n)‖x‖². A message takes k·⌈log₂ n⌉ bits for the indices, plus the
    bits of the k elements.

    Parameters
    ----------
    k : int
        The number of elements; a shorter vector is sent whole.
    coder : Coder, optional
        The coder of the k elements. Default: `Exact`, for which the inequality holds.

    Raises
    ------
    BadInput
        If ``k`` < 1, or ``coder`` is not a coder, has a memory, or is itself sparsifying. In `encode`, if an element is
        not finite, there are more than 2²⁴ elements, or ``coder`` refuses the k elements.
    """

    def __init__(self, k: int, coder: Coder | None = None) -> None:
        self.k = check.integer("k", k, low=1)
        self.coder = _dense(coder)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Sparse:
        """Return the coded array; ``rng`` is passed to ``coder``."""
        array = _elements(vector)
        flat = array.ravel()
        indices = _largest(np.abs(flat), self.k)
        return Sparse.of(array.shape, indices, self.coder.encode(flat[indices], rng))


def _largest(sizes: Vector, count: int) -> NDArray[np.int64]:
    """Return the increasing indices of the ``count`` largest elements; among equal elements, take the first."""
    if count >= len(sizes):
        return np.arange(len(sizes))
    # Do not use argpartition, which may order equal elements differently on other machines; the k-th largest value is
    # the same on all.
    least = np.partition(sizes, len(sizes) - count)[len(sizes) - count]
    larger = np.flatnonzero(sizes > least)
    return np.sort(np.concatenate([larger, np.flatnonzero(sizes == least)[: count - len(larger)]]))


class RandomK(Coder):
    """Send k random elements, with all sets of k equally likely; the others are 0.

    Without scaling, the coder C has E‖x − C(x)‖² = (1 − k/n)‖x‖². With ``unbiased``, the elements are multiplied by
    n/k, so that E C(x) = x and E‖x − C(x)‖² = (n/k − 1)‖x‖². A message takes k·⌈log₂ n⌉ bits for the indices, plus the
    bits of the k elements.

    Parameters
    ----------
    k : int
        The number of elements; a shorter vector is sent whole.
    coder : Coder, optional
        The coder of the k elements; default: `Exact`. The result is unbiased only if this coder is unbiased.
    unbiased : bool
        Whether the elements are multiplied by n/k.

    Raises
    ------
    BadInput
        As for `TopK`, and in `encode` if scaling by n/k makes an element infinite.
    """

    def __init__(self, k: int, coder: Coder | None = None, *, unbiased: bool = False) -> None:
        self.k = check.integer("k", k, low=1)
        self.coder = _dense(coder)
        self.unbiased = check.flag("unbiased", unbiased)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Sparse:
        """Return the coded array; the indices are drawn from ``rng``, which is then passed to ``coder``."""
        array = _elements(vector)
        draws = generator(rng)
        flat = array.ravel()
        count = min(self.k, flat.size)
        indices = np.sort(draws.choice(flat.size, count, replace=False, shuffle=False)) if count else np.arange(0)
        kept = flat[indices]
        if self.unbiased and count:
            with np.errstate(over="ignore"):
                kept = check.finite_array("n/k · vector", kept * (flat.size / count))
        return Sparse.of(array.shape, indices, self.coder.encode(kept, draws))
