"""The cost of a neural network on one agent's samples, with gradients over minibatches."""

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
"""Precisions in which a gradient may be computed."""


class ModelCost:
    """The cross-entropy of a neural network with parameters w: R(θ) = (1/T) Σ_t ℓ(w; x_t, y_t) + regularizer ‖w‖².

    For a network that is ``squared`` ℓ is the squared error of its predictions.

    The parameters are w = start + θ. All agents have the same ``start`` (`Layered.start` of ``seed``), so they begin
    with the same random network, although the methods begin with θ = 0.

    With ``batch``, each call of `gradient` takes the next minibatch of B samples. Each pass over the data takes the
    samples in a new random order, without repetition; at the end of a pass, samples that do not fill a minibatch are
    skipped. The n-th call takes the n-th minibatch of the random stream (``seed``, ``name``, "minibatch"), whatever
    other random numbers a run draws. A method that needs gradients at two points for the same samples calls
    ``rows = cost.draw()`` once, and passes ``rows`` to both calls of `gradient`.

    Parameters
    ----------
    model : Layered
        The network.
    inputs : ndarray of shape (T, d)
        The samples. Not copied if they have type ``dtype``.
    labels : ndarray of shape (T,)
        Numbers of the samples' classes, from 0; of a network that is ``squared`` the targets, shape (T,) or (T, C).
    batch : int, optional
        Size B of a minibatch; a size above T counts as T. By default each call takes all samples.
    regularizer : float
        The agent's own share of the regulariser.
    seed : int
        Seed of the start and of the minibatches; all agents need the same seed.
    name : hashable
        The agent's name, which selects its minibatches.
    dtype : {"float64", "float32"}
        Precision of the computation; θ and all results are float64 in any case.
    library : {"numpy", "torch", "jax"}
        Library that computes gradients and values.

    Attributes
    ----------
    size : int
        Length D of θ.
    shapes : dict
        The shapes of the tensors in θ, by name, in their order.
    start : ndarray
        The parameters at θ = 0.
    samples : int
        Number T of samples.
    batch : int
        Size of a minibatch, at most T.
    calls : int
        Number of minibatches drawn so far.

    Raises
    ------
    BadInput
        For inconsistent shapes, no sample, NaN or infinity, labels that are no classes, a number outside its range, or
        a library that is not installed. The methods raise it for a θ of another shape.
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
        draws.plain_name(name)
        self._dtype = np.dtype(check.one_of("dtype", dtype, DTYPES))
        self.library = backend(library).name
        samples = check.finite_array("inputs", inputs)
        if samples.ndim != 2 or not len(samples) or samples.shape[1] != model.inputs:
            raise BadInput(f"inputs.shape = {samples.shape}: must be (T, {model.inputs}) with T at least 1")
        wanted = (_targets if model.squared else _one_hot)(labels, len(samples), model.classes)
        self.samples = len(samples)
        self.batch = self.samples if batch is None else min(check.integer("batch", batch, low=1), self.samples)
        self._is_full = batch is None
        self.start = _start(model, self._seed)
        self._inputs = samples.astype(self._dtype, copy=False)
        self._labels = wanted.astype(self._dtype)
        # Inputs and labels as arrays of ``library``; None until the first use.
        self._arrays: tuple[Any, Any] | None = None
        self._begin()

    def _begin(self) -> None:
        self.calls = 0
        self._rng = draws.generator(self._seed, self._name, "minibatch")
        self._order: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle, without the library's arrays, which are created again from numpy arrays."""
        return vars(self) | {"_arrays": None}

    def fresh(self) -> Self:
        """Return a copy that begins again at the first minibatch, for another run."""
        found = type(self).__new__(type(self))
        vars(found).update(vars(self))
        found._begin()
        return found

    def draw(self) -> NDArray[np.int64]:
        """Return the indices of the next minibatch's samples, shape (B,)."""
        self.calls += 1
        if len(self._order) < self.batch:
            self._order = self._rng.permutation(self.samples)
        rows, self._order = self._order[: self.batch], self._order[self.batch :]
        return rows

    def gradient(self, theta: Vector, rows: NDArray[np.int64] | None = None) -> Vector:
        """Return ∇R(θ), shape (D,), over the next minibatch, or over the samples with indices ``rows``."""
        if rows is None and not self._is_full:
            rows = self.draw()
        weights = self._weights(theta)
        slopes = _functions(self.library, self.model)[1]
        with np.errstate(over="ignore", invalid="ignore"):
            found = as_numpy(slopes(*self._arguments(weights, rows)))
            return found + (2.0 * self.regularizer) * weights if self.regularizer else found

    def value(self, theta: Vector, rows: NDArray[np.int64] | None = None) -> float:
        """Return R(θ) over all samples, or over those with indices ``rows``."""
        weights = self._weights(theta)
        loss = _functions(self.library, self.model)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            found = as_numpy(loss(*self._arguments(weights, rows)))
            return float(found + self.regularizer * (weights @ weights))

    def tensors(self, theta: Vector) -> dict[str, Array]:
        """Return the parameters start + θ as tensors by name."""
        return self.model.tensors(self._weights(theta))

    def _weights(self, theta: Vector) -> Vector:
        if np.shape(theta) != (self.size,):
            raise BadInput(f"theta.shape = {np.shape(theta)}: must be ({self.size},)")
        return self.start + theta

    def _arguments(self, weights: Vector, rows: NDArray[np.int64] | None) -> tuple[Any, ...]:
        array = backend(self.library).array
        if self._arrays is None:
            self._arrays = array(self._inputs), array(self._labels)
        return array(weights.astype(self._dtype, copy=False)), *self._arrays, None if rows is None else array(rows)


def _one_hot(labels: NDArray[Any], count: int, classes: int) -> NDArray[np.bool_]:
    """Return, for each sample, which class it is of, shape (T, C)."""
    chosen = np.asarray(labels)
    if chosen.shape != (count,):
        raise BadInput(f"labels.shape = {chosen.shape}: must be ({count},), as inputs")
    outside = chosen[~np.isin(chosen, np.arange(classes))]
    if len(outside):
        raise check.refuse("labels", outside[0].item(), f"whole numbers from 0 to {classes - 1}")
    return np.asarray(chosen[:, None] == np.arange(classes))


def _targets(labels: NDArray[Any], count: int, width: int) -> Array:
    """Return the targets, shape (T, C)."""
    targets = check.finite_array("labels", labels)
    if targets.shape not in ((count, width), (count,)) or (targets.ndim == 1 and width > 1):
        raise BadInput(f"labels.shape = {targets.shape}: must be ({count}, {width}), as inputs and outputs")
    return targets.reshape(count, width)


@lru_cache(maxsize=4)
def _start(model: Layered, seed: int) -> Vector:
    """Return the parameters at θ = 0; cached, so that all agents of a process share one array."""
    start = model.start(seed)
    start.setflags(write=False)
    return start


@lru_cache(maxsize=64)
def _functions(library: str, model: Layered) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a model's compiled loss and gradient, as functions of parameters, samples, labels and indices."""

    def over(rows_of: Callable[..., Any]) -> Callable[..., Any]:
        return backend(library).compiled(
            lambda xp, weights, inputs, labels, rows: rows_of(xp, weights, *_select(xp, inputs, labels, rows))
        )

    return over(model.loss), over(model.gradient)


def _select(xp: Any, inputs: Any, labels: Any, rows: Any) -> tuple[Any, Any]:
    """Return the samples and labels with indices ``rows``, or all of them if ``rows`` is None."""
    return (inputs, labels) if rows is None else (xp.take(inputs, rows, axis=0), xp.take(labels, rows, axis=0))
