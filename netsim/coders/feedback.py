"""Error feedback: add a coder's error in one message to the next message.

Sources: Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., "Error feedback fixes SignSGD and
other gradient compression schemes", 2019.
"""

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire.coded import Coder, Encoded, decoded
from netsim.wire.inputs import generator, real_array, with_own_memory


class ErrorFeedback(Coder):
    """Encode x + e instead of x, where e accumulates the coding errors: e ← x + e − C(x + e), initially 0.

    So the sum of all decoded messages plus e equals the sum of all x. The memory e stays small if the coder C is a
    contraction, E‖x − C(x)‖² < ‖x‖², as `TopK`, `RandomK` and `Sign` are. Unbiased coders of few bits are not
    contractions (`RandomK` with ``unbiased``, `Ternary`, and one-bit `QSGD` of long vectors). They need no feedback,
    and with feedback e would grow without bound.

    Use error feedback for quantities that receivers add up, such as gradients and steps. An algorithm that encodes the
    difference between its state and its neighbours' copies of the state (`whole` = False in `netsim.agents`) does not
    need error feedback, because the next difference contains the error of the last message.

    The memory e belongs to one agent: each agent calls ``coder.fresh()``. If two agents share an object by mistake,
    `encode` raises BadInput for the second agent, which it recognises by the agent's random generator.

    Parameters
    ----------
    coder : Coder
        C, any coder without feedback. If it has a memory, each agent gets a separate one.

    Raises
    ------
    BadInput
        If ``coder`` is not a coder or has feedback itself. In `encode`, if ``rng`` is missing or another agent's, the
        shape differs from that of the last vector, or the coder rejects the vector. After an error, e is unchanged.
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
        """Return a copy with an empty memory, for one agent."""
        return ErrorFeedback(self.coder)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Encoded:
        """Return the coded x + e, and store the error in e; ``rng`` must be the agent's own generator in each call."""
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
