"""Cut an array into parts and encode each separately, so that each part has its own range, norm or largest elements.

The parts have equal lengths, or they are the tensors of a model, each with its shape and possibly its own coder.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from netsim.coders import nested
from netsim.coders.lowrank import Factors
from netsim.coders.sparse import MOST_ELEMENTS, Sparse
from netsim.errors import BadInput, WireError
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire import registry
from netsim.wire.coded import Coded, Coder
from netsim.wire.inputs import real_array, with_own_memory
from netsim.wire.packing import check_shape, checked

MOST_PARTS = 255


@dataclass(frozen=True)
class Several(Coded):
    """Coded arrays, concatenated along the first axis or, if ``flat``, raveled and concatenated into one vector.

    On the wire (type number 11): a byte of 0 if ``flat``; a byte with the number of parts; for each part a byte with
    its type number, its length in bytes (four bytes, most significant first) and its bytes.

    Attributes
    ----------
    parts : tuple of Coded
        The coded parts: vectors, or matrices with the same number of columns; if ``flat``, any mix of both.
    saturated : int
        Number of clipped elements in all parts. Only the sender knows it, so comparisons ignore it.
    flat : bool
        Whether the parts form one vector.
    """

    parts: tuple[Coded, ...]
    saturated: int = field(default=0, compare=False)
    flat: bool = False

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the concatenated parts."""
        if self.flat:
            return (sum(math.prod(part.shape) for part in self.parts),)
        return (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:])

    def check(self) -> None:
        """Raise WireError unless there are 1 to 255 parts with consistent shapes."""
        parts = self.parts
        if type(parts) is not tuple or not 1 <= len(parts) <= MOST_PARTS:
            raise WireError(f"Several must have from 1 to {MOST_PARTS} parts")
        if not all(isinstance(part, Coded) and not isinstance(part, Several) for part in parts):
            raise WireError("the parts of Several must be coded arrays other than Several")
        if any(len(part.shape) not in (1, 2) for part in parts) or (
            not self.flat and len({part.shape[1:] for part in parts}) != 1
        ):
            raise WireError(f"coded arrays of shapes {[part.shape for part in parts][:4]} are inconsistent")
        check_shape(self.shape)
        # Limit the total size, because a few hostile bytes can claim any length of a sparse array or low-rank matrix.
        wide = sum(math.prod(part.shape) for part in parts if isinstance(part, Sparse | Factors))
        if wide > MOST_ELEMENTS:
            raise WireError(f"sparse arrays of {wide} elements: at most {MOST_ELEMENTS}")

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: the sum over the parts."""
        return sum(registry.bits_of(part) for part in self.parts)

    def pack(self) -> bytes:
        """Encode as bytes; raises WireError if the shapes of the parts are inconsistent."""
        self.check()
        return bytes((0, len(self.parts)) if self.flat else (len(self.parts),)) + nested.pack(self.parts)

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Decode the bytes of `pack`; raises WireError for any other bytes."""
        if not data:
            raise WireError("0 bytes are not several coded arrays")
        flat = data[0] == 0
        count = data[flat] if len(data) > flat else 0
        parts, start = [], 1 + flat
        for _ in range(count):
            why = "Several cannot be a part of Several"
            part, start = nested.unpack(data, start, f"{count} coded arrays", (Several,), why)
            parts.append(part)
        if start != len(data):
            raise WireError(f"{len(data)} bytes are too many for {count} coded arrays")
        return checked(cls(tuple(parts), flat=flat))

    def decode(self) -> Vector:
        """Return the concatenated parts."""
        return np.concatenate([part.values.ravel() if self.flat else part.values for part in self.parts])


class InParts(Coder):
    """Cut an array into parts, of equal length or for the tensors of a model, and encode each part separately.

    ``InParts(Uniform(4), 3)`` cuts an array into three equal parts along its first axis. ``InParts(LowRank(2),
    {"weight": (10, 784), "bias": (10,)})`` cuts a vector into the elements of these two tensors. A tensor of more than
    two axes is encoded as a matrix: the first axis gives its rows, all others its columns. The payload bits of the
    result are the sum of the parts' payload bits.

    Parameters
    ----------
    coder : Coder or mapping of coders
        The coder of the parts or, if the parts have names, a mapping from each name to a coder. If a coder has a
        memory, each part gets a separate one.
    parts : int or mapping
        The number of parts, 1 … 255, or the shape of each part by name.

    Raises
    ------
    BadInput
        If ``coder`` is not a coder or has feedback, or ``parts`` or a shape is outside its range. In `encode`, if the
        array does not have the length of all parts together, or a coder refuses its part.
    """

    def __init__(self, coder: Coder | Mapping[str, Coder], parts: int | Mapping[str, Sequence[int]]) -> None:
        self.parts: int | dict[str, tuple[int, ...]]
        if isinstance(parts, Mapping):
            self.parts = _shapes(parts)
            names = list(self.parts)
        elif isinstance(parts, Sequence):
            raise check.refuse("parts", parts, "a number of parts, or the shapes of tensors by their names (a dict)")
        else:
            self.parts = check.integer("parts", parts, low=1, high=MOST_PARTS)
            names = [str(number) for number in range(self.parts)]
        self.coder: Coder | dict[str, Coder]
        if isinstance(coder, Mapping):
            self.coder = dict(coder)
            if set(self.coder) != set(names):
                raise BadInput(f"coder = {list(coder)!r:.80}: must have the names of the parts, {names!r:.80}")
        else:
            self.coder = coder
        each = [self.coder[name] if isinstance(self.coder, dict) else self.coder for name in names]
        self._coders = [with_own_memory(one) for one in each]

    def fresh(self) -> "InParts":
        """Return a copy whose coders have empty memories; the object itself if no coder has a memory."""
        if all(coder.fresh() is coder for coder in self._coders):
            return self
        return InParts(self.coder, self.parts)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Several:
        """Return the coded array; ``rng`` is passed to the coders."""
        cut = self._cut(real_array(vector))
        coded = [coder.encode(part, rng) for coder, part in zip(self._coders, cut, strict=True)]
        parts = tuple(nested.coded(each) for each in coded)
        return Several(parts, sum(part.saturated for part in parts), isinstance(self.parts, dict))

    def _cut(self, array: Vector) -> list[Vector]:
        """Cut an array into parts; raises BadInput if the array cannot be cut into these parts."""
        if isinstance(self.parts, int):
            if len(array) % self.parts:
                raise check.refuse("vector", array.shape, f"of a length that is a multiple of {self.parts}")
            return np.split(array, self.parts)
        sizes = [math.prod(shape) for shape in self.parts.values()]
        if array.shape != (sum(sizes),):
            raise check.refuse("vector", array.shape, f"of shape {(sum(sizes),)}, the elements of all parts")
        tensors = np.split(array, np.cumsum(sizes)[:-1])
        return [
            tensor.reshape(shape[0], -1) if len(shape) > 1 else tensor
            for tensor, shape in zip(tensors, self.parts.values(), strict=True)
        ]


def _shapes(parts: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Check the shapes of named tensors, and return them as tuples."""
    if not 1 <= len(parts) <= MOST_PARTS:
        raise check.refuse("parts", len(parts), f"from 1 to {MOST_PARTS} tensors")
    found = {}
    for name, shape in parts.items():
        what = f"parts[{name!r}]"
        # A tensor without axes has one element, so it becomes a vector of length 1.
        lengths = [shape] if isinstance(shape, int) else list(shape) or [1]
        found[name] = tuple(check.integer(what, length, low=1) for length in lengths)
    return found
