"""The greedy projected penalty method: online kernel learning by agents that compare values, not models.

A. Koppel, S. Paternain, C. Richard and A. Ribeiro, "Decentralized online learning with kernels", IEEE Transactions on
Signal Processing, 2018. Each agent has a function f_i over its own dictionary (`netsim.agents.greedy.dictionary`), and
at a sample (x, y) of its stream the cost

    ℓ(f_i(x), y) + (λ/2)‖f_i‖² + (c/2) Σ_{j ∈ N_i} ‖f_i(x) − f_j(x)‖².

For this, it requests its neighbours' predictions at x. These requests carry raw inputs, and are counted as raw data.
"""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import netsim
from netsim.agents import papers
from netsim.agents.greedy.dictionary import Dictionary
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance
from netsim.agents.theory.penalty import PenaltyBounds
from netsim.errors import BadInput, NetsimError
from netsim.util import check
from netsim.util.typing import Array

Batches = Iterator[tuple[Array, NDArray[Any]]]
"""An agent's stream of mini-batches: inputs of shape (B, d), and targets of shape (B,)."""


_DIVERGED = 1e100  # a limit whose square is still finite


class Penalty(Protocol):
    """The weight c of disagreement."""

    def at(self, samples: int, eta: float, degree: int) -> float:
        """Return c after a number of samples, for a step size η and a number of neighbours d_i ≥ 1."""


@dataclass(frozen=True)
class ConstantPenalty:
    """A constant c ≥ 0; the user must keep η·c·d_i below 1."""

    c: float

    def __post_init__(self) -> None:
        check.put(self, c=check.finite("c", self.c, low=0.0))

    def at(self, samples: int, eta: float, degree: int) -> float:
        """Return c."""
        return self.c


@dataclass(frozen=True)
class DoublingPenalty:
    """A weight c that doubles after each ``every`` samples, until η·c·d_i reaches a limit.

    A step multiplies the differences between agents by 1 − s(1 − ν), with s = η·c·d_i and ν in [−1, 1] an eigenvalue of
    the graph's random walk. For s ≥ 1 the method diverges on some graphs; for s ≤ 1/2 it overshoots on no graph. (In
    the paper c doubles without end, so the method diverges.)

    Parameters
    ----------
    start : float
        The initial c ≥ 0.
    every : int
        Number of samples after which c doubles.
    limit : float
        The largest η·c·d_i, in (0, 1].
    """

    start: float
    every: int
    limit: float = 0.5

    def __post_init__(self) -> None:
        start, every = check.finite("start", self.start, low=0.0), check.integer("every", self.every, low=1)
        check.put(self, start=start, every=every, limit=check.number("limit", self.limit, high=1.0, above=0.0))

    def at(self, samples: int, eta: float, degree: int) -> float:
        """Return min(start · 2^⌊samples/every⌋, limit/(η d_i))."""
        # Limit the exponent, because 2.0**1024 overflows.
        doublings = min(samples // self.every, 500)
        return min(self.start * 2.0**doublings, self.limit / (eta * degree))


@dataclass(eq=False, repr=False)
class GreedyPenalty(Cited, netsim.Agent):
    """One agent of the greedy projected penalty method (algorithm 1 of the paper).

    In each round it takes a mini-batch of B samples, requests each neighbour j's f_j at its B inputs in one message,
    and after the round's close makes a step of stochastic gradient descent in the kernel's space,

        f̃ = (1 − ηλ) f_i − (η/B) Σ_b [ℓ'(f_i(x_b), y_b) + c Σ_j (f_i(x_b) − f_j(x_b))] κ(x_b, ·),

    then prunes the dictionary as far as ‖f̃ − f_i‖ ≤ ε = P·η^{3/2} allows. The gradient is the mini-batch's *mean*, so
    η and P have the same meaning for any B. Values requested in a round are those of models before the round's step.

    The gradient is the paper's (eq. 14), without the terms c (f_i(x) − f_j(x)) κ(x, ·) at the neighbours' samples x. If
    all agents' inputs have one distribution, the method therefore minimises the penalised cost with c/2 in place of c.
    Otherwise it converges to the point where the mean of its steps vanishes, which does not minimise the penalised cost
    for any c (`netsim.agents.theory.penalty`).

    A neighbour whose reply did not arrive before the round's close is left out of the sum and counted. The sum is not
    rescaled: with fewer replies the pull towards the neighbours is weaker. A request and its reply take two latencies;
    in a shorter round all replies are missing.

    Parameters
    ----------
    model : Dictionary
        The function f_i, usually empty initially; it is changed in place. For a loss of C classes it has C values.
    batches : iterator of (inputs, targets)
        The agent's stream, which is read once, one mini-batch per round.
    count : int
        Number of rounds.
    loss : LossFunction or MulticlassLoss
        The loss ℓ. For a squared error of LossFunction, ℓ' = 2(f − y).
    eta : float or schedule
        Step size η > 0.
    regularizer : float
        The weight λ ≥ 0 of (λ/2)‖f_i‖²; ηλ must be below 1.
    parsimony : float
        The parsimony P ≥ 0, in units of the function's norm per η^{3/2}.
    penalty : Penalty
        The schedule of c.

    Attributes
    ----------
    samples : int
        Number of samples learned from so far.
    missing : int
        Number of replies that did not arrive in time.
    risk : float
        Mean of ℓ over the last mini-batch, predicted before it was learned from.
    disagreement : float
        Mean over the last mini-batch of Σ_j ‖f_i(x_b) − f_j(x_b)‖², before learning. A neighbour without a reply counts
        as the average of the others; NaN without any reply.

    Raises
    ------
    BadInput
        If an argument is outside its range, or the loss and the model differ in the number of classes. During a run, if
        the stream ends, or a mini-batch has wrong shapes or targets.
    NetsimError
        In a run, if the model grows without bound.
    """

    paper = papers.KOPPEL
    theorems = (PenaltyBounds(),)
    # The agent sends requests to its neighbours, which reply.
    needs_links_both_ways = True
    model: Dictionary
    batches: Batches
    count: int
    _: KW_ONLY
    loss: Any
    eta: Scheduled = Scheduled(above=0.0)
    regularizer: float
    parsimony: float
    penalty: Penalty
    samples: int = field(default=0, init=False)
    missing: int = field(default=0, init=False)
    risk: float = field(default=0.0, init=False)
    disagreement: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.count = check.integer("count", self.count, low=0)
        check.fields(self, check.finite, "regularizer", "parsimony", low=0.0)
        if self.eta * self.regularizer >= 1.0:
            raise check.refuse("regularizer", self.regularizer, f"< 1/eta = {1.0 / self.eta:g}")
        classes = getattr(self.loss, "classes", None)
        shape = self.model.weights.shape
        if shape[1:] != (() if classes is None else (classes,)):
            raise check.refuse("loss", self.loss.name, f"one for a model whose weights have shape {shape}")

    @property
    def epsilon(self) -> float:
        """The largest change of the model by pruning, ε = P·η^{3/2}."""
        return float(self.parsimony * self.eta**1.5)

    async def run(self) -> None:
        """Take part in the rounds."""
        async for k in self.rounds(self.count):
            advance(self, k)
            x, y = self._next_batch()
            heard = await self._ask_neighbors(x)
            self._learn(x, y, heard)

    def answer(self, frame: netsim.Frame) -> Array:
        """Return f_i at a neighbour's inputs."""
        return self.model(frame.payload)

    async def _ask_neighbors(self, x: Array) -> list[Array]:
        """Send a request to every neighbour, wait until the round closes, and return the replies."""
        asked = [
            asyncio.ensure_future(self.request(neighbor, "values", x, raw_data=True)) for neighbor in self.neighbors
        ]
        try:
            await self.collect()
        finally:
            for each in asked:
                each.cancel()
        if asked:
            await asyncio.wait(asked)
        heard = [each.result().payload for each in asked if not each.cancelled()]
        self.missing += len(asked) - len(heard)
        return heard

    def _learn(self, x: Array, y: NDArray[Any], heard: list[Array]) -> None:
        """Make the step from f_i to f̃, and prune."""
        f = self.model(x)
        apart = [f - other for other in heard]
        slope = self.loss.derivative(f, y)
        if apart:
            slope = slope + self.penalty.at(self.samples, self.eta, len(self.neighbors)) * sum(apart)
        if not np.abs(slope).max() < _DIVERGED:
            advice = "take a smaller eta, or a penalty c with eta * c * neighbours below 1"
            raise NetsimError(f"the model grew beyond all bounds after {self.samples} samples: {advice}")
        self.risk = float(np.mean(self.loss.value(f, y)))
        self.disagreement = self._disagreement(apart)
        self.model.scale(1.0 - self.eta * self.regularizer)
        lost = self.model.add(x, (-self.eta / len(x)) * slope)
        self.model.prune(self.epsilon, lost)
        self.samples += len(x)

    def _disagreement(self, apart: list[Array]) -> float:
        """Return the mean of Σ_j ‖f_i − f_j‖² over the mini-batch, extrapolated to neighbours without a reply."""
        if not apart:
            return math.nan if self.neighbors else 0.0
        squares = [float(np.vdot(each, each)) / len(each) for each in apart]
        return len(self.neighbors) * sum(squares) / len(squares)

    def _next_batch(self) -> tuple[Array, NDArray[Any]]:
        try:
            x, y = next(self.batches)
        except StopIteration:
            ended = f"the stream ended after {self.samples} samples"
            raise BadInput(f"batches: must be one for each round; {ended}") from None
        width = self.model.points.shape[1]
        if np.ndim(x) != 2 or not len(x) or np.shape(x)[1] != width or np.shape(y) != (len(x),):
            found = f"the next has {np.shape(x)} and {np.shape(y)}"
            raise BadInput(f"batches: must be inputs of shape (B, {width}) and targets of shape (B,); {found}")
        self.loss.check_targets(y)
        return check.finite_array("inputs", x), y
