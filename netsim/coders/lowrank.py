"""Low-rank compression: send two narrow factors in place of a matrix.

Source: Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed
optimization", 2019.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from netsim.coders import nested
from netsim.coders.floats import Float
from netsim.coders.sparse import MOST_ELEMENTS, Sparse
from netsim.errors import WireError
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire import registry
from netsim.wire.coded import Coded, Coder, Encoded
from netsim.wire.inputs import generator, real_array, without_memory
from netsim.wire.packing import check_shape, checked

_NO_FACTOR = "a factor of a matrix must be a coded matrix whose elements all travel"


@dataclass(frozen=True)
class Factors(Coded):
    """A matrix P Qᵀ of shape (n, m), as its factors P of shape (n, r) and Q of shape (m, r).

    On the wire (type number 14): for P, then for Q, a byte with its type number, its length in bytes (four bytes, most
    significant first) and its bytes.

    Attributes
    ----------
    left, right : Coded
        P and Q.
    saturated : int
        Number of clipped elements in P and Q. Only the sender knows it, so comparisons ignore it.
    """

    left: Coded
    right: Coded
    saturated: int = field(default=0, compare=False)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of the matrix."""
        return self.left.shape[0], self.right.shape[0]

    def check(self) -> None:
        """Raise WireError unless the shapes of P and Q are consistent, and their product is finite."""
        for part in (self.left, self.right):
            # Reject sparse or nested factors, because a few hostile bytes could then claim a huge matrix.
            if not isinstance(part, Coded) or isinstance(part, Factors | Sparse) or len(part.shape) != 2:
                raise WireError(_NO_FACTOR)
        if self.left.shape[1] != self.right.shape[1]:
            raise WireError(f"factors of shapes {self.left.shape} and {self.right.shape} are inconsistent")
        if check_shape(self.shape) > MOST_ELEMENTS:
            raise WireError(f"no matrix of low rank has shape {self.shape}: at most {MOST_ELEMENTS} elements")
        with np.errstate(over="ignore"):
            sizes = [np.abs(part.values).max(initial=0.0) for part in (self.left, self.right)]
            if not np.isfinite(sizes[0] * sizes[1] * self.left.shape[1]):
                raise WireError("the product of a matrix's factors must be finite")

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: the sum over P and Q."""
        return registry.bits_of(self.left) + registry.bits_of(self.right)

    def pack(self) -> bytes:
        """Encode as bytes; raises WireError if the shapes of P and Q are inconsistent."""
        self.check()
        return nested.pack((self.left, self.right))

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Decode the bytes of `pack`; raises WireError for any other bytes."""
        left, start = nested.unpack(data, 0, "two factors", (Factors, Sparse), _NO_FACTOR)
        right, start = nested.unpack(data, start, "two factors", (Factors, Sparse), _NO_FACTOR)
        if start != len(data):
            raise WireError(f"{len(data)} bytes are too many for two factors")
        return checked(cls(left, right))

    def decode(self) -> Vector:
        """Return P Qᵀ."""
        return self.left.values @ self.right.values.T


class LowRank(Coder):
    """PowerSGD's compression: C(M) = P (MᵀP)ᵀ, where the r columns of P are an orthonormal basis of the range of M Q.

    Each message makes one step of the power iteration: Q is the previous message's MᵀP (a warm start); for the first
    message, Q is drawn from the normal distribution. As PPᵀ is a projection, ‖M − C(M)‖² = ‖M‖² − ‖PᵀM‖² ≤ ‖M‖². If M
    stays the same, the error falls to that of the best matrix of rank r. The coder is biased: if receivers add up
    messages, use `ErrorFeedback`.

    An n × m matrix takes r(n + m) numbers. A vector, or a matrix of at most r(n + m) elements, is sent whole.
    `InParts` turns a tensor of more than two axes into a matrix: the first axis gives its rows, all others its columns.

    In the paper all workers hold the same Q, and average P and Q over all workers (all-reduce). Neighbours in a graph
    cannot compute such an average, so here each agent sends P and Q of its own matrix.

    The memory Q belongs to one agent: each agent calls ``coder.fresh()``.

    Parameters
    ----------
    rank : int
        The number r of columns of P and Q.
    coder : Coder, optional
        The coder of P, and then of MᵀP, which is computed with the decoded P. Default: ``Float(32)``.

    Raises
    ------
    BadInput
        If ``rank`` < 1, or ``coder`` is not a coder or has a memory. In `encode`, if ``rng`` is missing, an element is
        not finite, a matrix has more than 2²⁴ elements, or ``coder`` omits elements or refuses P or Q.
    """

    def __init__(self, rank: int, coder: Coder | None = None) -> None:
        self.rank = check.integer("rank", rank, low=1)
        self.coder = without_memory(Float(32) if coder is None else coder)
        self._right: Vector | None = None

    def fresh(self) -> "LowRank":
        """Return a copy with an empty memory, for one agent."""
        return LowRank(self.rank, self.coder)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Encoded:
        """Return the coded array; the first Q is drawn from ``rng``, which is also passed to ``coder``."""
        array = real_array(vector)
        draws = generator(rng)
        if array.ndim == 1 or self.rank * sum(array.shape) >= array.size:
            return self.coder.encode(array, draws)
        if array.size > MOST_ELEMENTS:
            raise check.refuse("vector", array.shape, f"of at most {MOST_ELEMENTS} elements")
        with np.errstate(over="ignore", invalid="ignore"):
            basis, _ = np.linalg.qr(check.finite_array("vector · Q", array @ self._start(array.shape[1], draws)))
            # The basis is not finite if the norm of a column of M Q overflows, even if all elements of M Q are finite.
            left = _as_factor(self.coder, self.coder.encode(check.finite_array("vector's basis", basis), draws))
            right = check.finite_array("vectorᵀ · P", array.T @ left.values)
        coded = _as_factor(self.coder, self.coder.encode(right, draws))
        self._right = right
        return Factors(left, coded, left.saturated + coded.saturated)

    def _start(self, columns: int, draws: np.random.Generator) -> Vector:
        """Return Q for this message: the last message's MᵀP with scaled columns; random columns replace zero columns.

        If there was no message yet, or the last matrix had another number of columns, all columns are random.
        """
        right = self._right
        if right is None or right.shape != (columns, self.rank):
            return draws.standard_normal((columns, self.rank))
        sizes = np.abs(right).max(axis=0)
        # Each column is scaled to a largest element of ±1, so that M Q neither overflows nor underflows.
        start: Vector = right / np.where(sizes == 0.0, 1.0, sizes)
        if not sizes.all():
            start[:, sizes == 0.0] = draws.standard_normal((columns, np.count_nonzero(sizes == 0.0)))
        return start


def _as_factor(coder: Coder, encoded: Encoded) -> Coded:
    """Return an encoded factor as a coded array; raises BadInput if its coder omits elements."""
    if isinstance(encoded, Factors | Sparse):
        raise check.refuse("coder", coder, "one that sends all elements of P and Q")
    return nested.coded(encoded)
