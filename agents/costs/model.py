"""One agent's cost of a model of classes on samples of its own, with gradients at minibatches."""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from netsim.agents.models.backends import as_numpy, backend
from netsim.agents.models.layered import Layered
from netsim.errors import BadInput
from netsim.util import check, draws
from netsim.util.typing import Array, Vector

DTYPES = ("float64", "float32")
"""Numbers that a gradient may be computed in."""


class ModelCost:
    """R(θ) = (1/T) Σ_t ℓ(w; x_t, y_t) + regularizer ‖w‖², w = start + θ: the cross-entropy of a network's parameters w.

    θ is how far the parameters have moved from where all agents start (`Layered.start` of ``seed``), so methods whose
    states begin at zero begin there.

    With ``batch`` each call of `gradient` takes the next minibatch: B samples without repetition, in passes over all of
    them, each in another random order; what is left at the end of a pass and fills no minibatch is left out of it.
    The n-th call has the n-th minibatch of the stream (``seed``, ``name``, "minibatch"), whatever else a run draws. So
    a method that takes one gradient a round and keeps it, as `DIGing` does, has each gradient at its own minibatch. One
    that needs two points at the same samples takes ``rows = cost.draw()`` once and gives these ``rows`` to both.

    Parameters
    ----------
    model : Layered
        The network.
    inputs : ndarray of shape (T, d)
        The samples. Not copied, if they are of ``dtype``.
    labels : ndarray of shape (T,)
        Numbers of their classes, from 0.
    batch : int, optional
        Size B of a minibatch, at most T are taken; by default all samples, every time.
    regularizer : float
        The agent's own share of the regulariser.
    seed : int
        Seed of the start, which must be that of all agents, and of the minibatches.
    name : hashable
        The agent's name, on which the minibatches depend.
    dtype : {"float64", "float32"}
        What gradient and value are computed in. θ and what is returned are float64 in any case.
    library : {"numpy", "torch", "jax"}
        What computes them.

    Attributes
    ----------
    size : int
        Length D of θ.
    shapes : dict
        The shapes of the tensors that θ is made of, by name, in their order.
    start : ndarray
        The parameters at θ = 0.
    samples, batch : int
        Number T of samples, and size of a minibatch, at most T.
    calls : int
        Minibatches drawn so far.

    Raises
    ------
    BadInput
        For shapes that do not fit, no sample, NaN or infinity, labels that are no classes, a number outside its range,
        or a library that is not installed. The methods raise it for a θ of another shape.
    """

    def __init__(
        self,
        model: Layered,
        inputs: Array,
        labels: NDArray[Any],
        *,
        batch: int | None = None,
        regularizer: float = 0.0,
        seed: int = 0,
        name: Hashable = 0,
        dtype: str = "float64",
        library: str = "numpy",
    ) -> None:
        self.model, self.size, self.shapes = model, model.size, model.shapes
        self.regularizer = check.finite("regularizer", regularizer, low=0.0)
        self._seed, self._name = check.integer("seed", seed, low=0), name
        draws.check_name(name)
        self._dtype = np.dtype(check.one_of("dtype", dtype, DTYPES))
        self.library = backend(library).name
        samples, chosen = check.finite_array("inputs", inputs), np.asarray(labels)
        if samples.ndim != 2 or not len(samples) or samples.shape[1] != model.inputs:
            raise BadInput(f"inputs.shape = {samples.shape}: must be (T, {model.inputs}) with T at least 1")
        if chosen.shape != (len(samples),):
            raise BadInput(f"labels.shape = {chosen.shape}: must be ({len(samples)},), as inputs")
        outside = chosen[~np.isin(chosen, np.arange(model.classes))]
        if len(outside):
            raise check.refuse("labels", outside[0].item(), f"whole numbers from 0 to {model.classes - 1}")
        self.samples = len(samples)
        self.batch = self.samples if batch is None else min(check.integer("batch", batch, low=1), self.samples)
        self._is_full = batch is None
        self.start = _start(model, self._seed)
        self._inputs = samples.astype(self._dtype, copy=False)
        self._labels = (chosen[:, None] == np.arange(model.classes)).astype(self._dtype)
        # Both as arrays of the library.
        self._there: tuple[Any, Any] | None = None
        self._begin()

    def _begin(self) -> None:
        self.calls = 0
        self._rng = draws.generator(self._seed, self._name, "minibatch")
        self._order: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: without the library's arrays, which are made anew of those of numpy."""
        return vars(self) | {"_there": None}

    def fresh(self) -> Self:
        """Return the same cost with its first minibatch still to come, for another run."""
        found = type(self).__new__(type(self))
        vars(found).update(vars(self))
        found._begin()
        return found

    def draw(self) -> NDArray[np.int64]:
        """Return the numbers of the next minibatch's samples, shape (B,)."""
        self.calls += 1
        if len(self._order) < self.batch:
            self._order = self._rng.permutation(self.samples)
        rows, self._order = self._order[: self.batch], self._order[self.batch :]
        return rows

    def gradient(self, theta: Vector, rows: NDArray[np.int64] | None = None) -> Vector:
        """Return ∇R at θ, shape (D,): at the next minibatch, or at the samples with the numbers ``rows``."""
        if rows is None and not self._is_full:
            rows = self.draw()
        weights = self._weights(theta)
        slopes = _functions(self.library, self.model)[1]
        with np.errstate(over="ignore", invalid="ignore"):
            found = as_numpy(slopes(*self._given(weights, rows)))
            return found + (2.0 * self.regularizer) * weights if self.regularizer else found

    def value(self, theta: Vector, rows: NDArray[np.int64] | None = None) -> float:
        """Return R(θ) over all samples, or over those with the numbers ``rows``."""
        weights = self._weights(theta)
        loss = _functions(self.library, self.model)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            found = as_numpy(loss(*self._given(weights, rows)))
            return float(found + self.regularizer * (weights @ weights))

    def tensors(self, theta: Vector) -> dict[str, Array]:
        """Return the parameters start + θ as tensors by name."""
        return self.model.tensors(self._weights(theta))

    def _weights(self, theta: Vector) -> Vector:
        if np.shape(theta) != (self.size,):
            raise BadInput(f"theta.shape = {np.shape(theta)}: must be ({self.size},)")
        return self.start + theta

    def _given(self, weights: Vector, rows: NDArray[np.int64] | None) -> tuple[Any, ...]:
        """Return the arguments of the compiled functions."""
        array = backend(self.library).array
        if self._there is None:
            self._there = array(self._inputs), array(self._labels)
        return array(weights.astype(self._dtype, copy=False)), *self._there, None if rows is None else array(rows)


@lru_cache(maxsize=4)
def _start(model: Layered, seed: int) -> Vector:
    """Return the start that all agents have, which is in memory once."""
    start = model.start(seed)
    start.setflags(write=False)
    return start


@lru_cache(maxsize=64)
def _functions(library: str, model: Layered) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the loss and its gradient of a model at parameters, samples, labels and the numbers of some of them."""

    def loss(xp: Any, weights: Any, inputs: Any, labels: Any, rows: Any) -> Any:
        return model.loss(xp, weights, *_taken(xp, inputs, labels, rows))

    def gradient(xp: Any, weights: Any, inputs: Any, labels: Any, rows: Any) -> Any:
        return model.gradient(xp, weights, *_taken(xp, inputs, labels, rows))

    compiled = backend(library).compiled
    return compiled(loss), compiled(gradient)


def _taken(xp: Any, inputs: Any, labels: Any, rows: Any) -> tuple[Any, Any]:
    """Return the samples with these numbers; all for None."""
    return (inputs, labels) if rows is None else (xp.take(inputs, rows, axis=0), xp.take(labels, rows, axis=0))
