"""Several vectors in one message, each coded by itself: with its own range, norm or largest elements.

The parts are equal, or the tensors of a model, in their shapes and with coders of their own.
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
from netsim.wire.packing import check_shape

MOST_PARTS = 255


@dataclass(frozen=True)
class Several(Coded):
    """Coded arrays one after the other along the first axis, or element by element in one vector.

    On the wire (type number 11): if they are one vector a byte of 0; a byte with the number of parts; then of each part
    a byte with its type number, the number of its bytes (four bytes, the most significant first) and these.

    Attributes
    ----------
    parts : tuple of Coded
        The parts: vectors, or matrices with the same number of columns unless they are one vector.
    saturated : int
        Clipped elements of all parts; known to the sender only, so not compared.
    flat : bool
        Whether they are one vector.
    """

    parts: tuple[Coded, ...]
    saturated: int = field(default=0, compare=False)
    flat: bool = False

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of all parts together."""
        if self.flat:
            return (sum(math.prod(part.shape) for part in self.parts),)
        return (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:])

    def check(self) -> None:
        """Raise WireError unless there are parts, and these fit together."""
        parts = self.parts
        if type(parts) is not tuple or not 1 <= len(parts) <= MOST_PARTS:
            raise WireError(f"several coded arrays must be from 1 to {MOST_PARTS}")
        if not all(isinstance(part, Coded) and not isinstance(part, Several) for part in parts):
            raise WireError("several coded arrays must be coded arrays, and none of them several")
        if any(len(part.shape) not in (1, 2) for part in parts) or (
            not self.flat and len({part.shape[1:] for part in parts}) != 1
        ):
            raise WireError(f"coded arrays of shapes {[part.shape for part in parts][:4]} do not fit together")
        check_shape(self.shape)
        # Few bytes can state the length of a sparse array, or of a matrix of low rank.
        wide = sum(math.prod(part.shape) for part in parts if isinstance(part, Sparse | Factors))
        if wide > MOST_ELEMENTS:
            raise WireError(f"sparse arrays of {wide} elements: at most {MOST_ELEMENTS}")

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: those of the parts."""
        return sum(registry.bits_of(part) for part in self.parts)

    def pack(self) -> bytes:
        """Return its bytes; raises WireError if its parts do not fit together."""
        self.check()
        return bytes((0, len(self.parts)) if self.flat else (len(self.parts),)) + nested.pack(self.parts)

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Return the arrays with these bytes; raises WireError for any others."""
        if not data:
            raise WireError("0 bytes are not several coded arrays")
        flat = data[0] == 0
        count = data[flat] if len(data) > flat else 0
        parts, start = [], 1 + flat
        for _ in range(count):
            why = "several coded arrays cannot be part of several others"
            part, start = nested.unpack(data, start, f"{count} coded arrays", (Several,), why)
            parts.append(part)
        if start != len(data):
            raise WireError(f"{len(data)} bytes are too many for {count} coded arrays")
        several = cls(tuple(parts), flat=flat)
        several.check()
        return several

    def decode(self) -> Vector:
        """Return the parts one after the other."""
        return np.concatenate([part.values.ravel() if self.flat else part.values for part in self.parts])


class InParts(Coder):
    """Encodes parts of an array by themselves: equal ones, or the tensors of a model. The bits are those of the parts.

    ``InParts(Uniform(4), 3)`` cuts an array into three equal parts along its first axis. With ``InParts(LowRank(2),
    {"weight": (10, 784), "bias": (10,)})`` a vector is the elements of these tensors, one after the other; each is
    encoded in its shape, as a matrix of its first axis and all others. Then ``coder`` may be a mapping, too, with a
    coder for each name.

    Parameters
    ----------
    coder : Coder or mapping of them
        Encodes the parts, one after the other. If it has a memory, each part's has one of its own.
    parts : int or mapping
        The number of parts, 1 … 255, or the shape of each by its name.

    Raises
    ------
    BadInput
        If a coder is none or has feedback, or ``parts`` or a shape is outside its range; in `encode` if the array does
        not have the length of the parts, or a coder refuses its part.
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
        """Return one with the same parts, and coders with empty memories; itself if they have none."""
        if all(coder.fresh() is coder for coder in self._coders):
            return self
        return InParts(self.coder, self.parts)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Several:
        """Return the coded array; ``rng`` is for the coders."""
        cut = self._cut(real_array(vector))
        coded = [coder.encode(part, rng) for coder, part in zip(self._coders, cut, strict=True)]
        parts = tuple(nested.coded(each) for each in coded)
        return Several(parts, sum(part.saturated for part in parts), isinstance(self.parts, dict))

    def _cut(self, array: Vector) -> list[Vector]:
        """Return the parts of an array."""
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
    """Return the shapes of tensors by their names, checked."""
    if not 1 <= len(parts) <= MOST_PARTS:
        raise check.refuse("parts", len(parts), f"from 1 to {MOST_PARTS} tensors")
    found = {}
    for name, shape in parts.items():
        what = f"parts[{name!r}]"
        # A tensor without axes has one element.
        lengths = [shape] if isinstance(shape, int) else list(shape) or [1]
        found[name] = tuple(check.integer(what, length, low=1) for length in lengths)
    return found
