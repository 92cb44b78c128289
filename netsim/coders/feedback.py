"""Error feedback: what a coder leaves out of one message is added to the next.

Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., "Error feedback fixes SignSGD and other
gradient compression schemes", 2019.
"""

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire.coded import Coder, Encoded, decoded
from netsim.wire.inputs import generator, real_array, without_memory


class ErrorFeedback(Coder):
    """Codes x + e instead of x, where e is what the messages so far left out: e ← x + e − C(x + e), at first 0.

    So Σ decoded + e = Σ x: over time nothing is lost, and e stays small if C is a contraction, E‖x − C(x)‖² < ‖x‖², as
    `TopK`, `RandomK` and `Sign` are. An unbiased coder of few bits is none (`RandomK` with ``unbiased``, `Ternary` and
    one-bit `QSGD` of long vectors): it needs no feedback, and with it e would grow without end.

    This is for what receivers add up: gradients and steps. An algorithm whose coder codes changes against what its
    neighbours know does the same already (`whole` = False in `netsim.agents`), for what was left out of one change is
    still missing from what they know, and so in the next.

    The memory e is one agent's. Each agent takes ``coder.fresh()`` of a coder that several are given; one that two
    agents use by mistake refuses the second, which it tells by its generator.

    Parameters
    ----------
    coder : Coder
        C, of any kind but one with a memory.

    Raises
    ------
    BadInput
        If ``coder`` is none or has a memory; in `encode` for another agent's generator or none, another shape than
        before, and as the coder does. Then e stays as it was.
    """

    def __init__(self, coder: Coder) -> None:
        self.coder = without_memory(coder)
        self.whole = coder.whole
        self._residual: Vector | None = None
        self._owner: np.random.Generator | None = None

    @property
    def residual(self) -> Vector | None:
        """The memory e, read-only, in the shape of what was coded; None before the first message."""
        return self._residual

    def fresh(self) -> "ErrorFeedback":
        """Return one with the same coder that remembers nothing yet: for one agent."""
        return ErrorFeedback(self.coder)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Encoded:
        """Return the coded x + e, and remember what it leaves out; ``rng`` is the agent's, always the same."""
        draws, array = generator(rng), real_array(vector)
        if self._owner is not None and self._owner is not draws:
            raise BadInput(
                "coder = ErrorFeedback: must serve one agent, and was given another generator than before "
                "(each agent takes coder.fresh())"
            )
        if self._residual is not None:
            if self._residual.shape != array.shape:
                raise BadInput(f"vector = {array.shape}: must have shape {self._residual.shape}, as what came before")
            with np.errstate(over="ignore"):
                array = check.finite_array("vector + residual", array + self._residual)
        coded = self.coder.encode(array, draws)
        residual = array - decoded(coded)
        residual.flags.writeable = False
        self._residual, self._owner = residual, draws
        return coded
