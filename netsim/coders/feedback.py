"""Error feedback: the error of a coder in one message is added to the next.

Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., "Error feedback fixes SignSGD and other
gradient compression schemes", 2019.
"""

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire.coded import Coder, Encoded, decoded
from netsim.wire.inputs import generator, real_array, with_own_memory


class ErrorFeedback(Coder):
    """Encodes x + e instead of x, where e is the error of earlier messages: e ← x + e − C(x + e), at first 0.

    So Σ decoded + e = Σ x, and e stays small if C is a contraction, E‖x − C(x)‖² < ‖x‖², as `TopK`, `RandomK` and
    `Sign` are. An unbiased coder of few bits is not a contraction (`RandomK` with ``unbiased``, `Ternary` and one-bit
    `QSGD` of long vectors): it needs no feedback, and with feedback e would grow without bound.

    Use this for quantities that receivers add up: gradients and steps. An algorithm whose coder encodes the difference
    from what its neighbours know (`whole` = False in `netsim.agents`) does not need it, because the error of one
    difference is part of the next.

    The memory e belongs to one agent: each agent calls ``coder.fresh()``. If two agents use one object by mistake, the
    second is refused, as it has another random generator.

    Parameters
    ----------
    coder : Coder
        C, any coder without feedback; if it has a memory, each agent's has one of its own.

    Raises
    ------
    BadInput
        If ``coder`` is not a coder or has feedback itself; in `encode` if ``rng`` is missing or another agent's, the
        shape differs from before, or the coder refuses the vector. Then e is unchanged.
    """

    feeds_back = True

    def __init__(self, coder: Coder) -> None:
        self.coder = with_own_memory(coder)
        self.whole = coder.whole
        self._residual: Vector | None = None
        self._owner: np.random.Generator | None = None

    @property
    def residual(self) -> Vector | None:
        """The memory e, read-only, in the shape of the vectors; None before the first message."""
        return self._residual

    def fresh(self) -> "ErrorFeedback":
        """Return one with the same coder and an empty memory, for one agent."""
        return ErrorFeedback(self.coder)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Encoded:
        """Return the coded x + e, and remember its error; ``rng`` is the agent's generator, the same in each call."""
        draws, array = generator(rng), real_array(vector)
        if self._owner is not None and self._owner is not draws:
            raise BadInput(
                "coder = ErrorFeedback: must serve one agent, and was given another generator than before "
                "(each agent takes coder.fresh())"
            )
        if self._residual is not None:
            if self._residual.shape != array.shape:
                raise BadInput(f"vector = {array.shape}: must have shape {self._residual.shape}, like earlier vectors")
            with np.errstate(over="ignore"):
                array = check.finite_array("vector + residual", array + self._residual)
        coded = self.coder.encode(array, draws)
        residual = array - decoded(coded)
        residual.flags.writeable = False
        self._residual, self._owner = residual, draws
        return coded
