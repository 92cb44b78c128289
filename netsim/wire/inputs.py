"""Check the inputs of coders, and convert ranges, norms and scales to float32, the precision in which they are sent."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire import packing
from netsim.wire.coded import Coder

LARGEST = float(np.finfo(np.float32).max)


def real_array(vector: ArrayLike) -> Vector:
    """Return a vector or matrix of finite numbers as float64; raises BadInput for anything else."""
    if packing.is_finite(vector):
        return vector  # type: ignore[return-value]
    array = np.asarray(vector)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        array = check.finite_array("vector", vector)
    if array.ndim not in (1, 2):
        raise check.refuse("vector", array.shape, "of one or two dimensions")
    return array.astype(np.float64, copy=False)


def matrix(array: Vector) -> Vector:
    """Return the array if it is a matrix; raises BadInput for a vector."""
    if array.ndim != 2:
        raise check.refuse("vector", array.shape, "a matrix, for by_row = True")
    return array


def generator(rng: np.random.Generator | None) -> np.random.Generator:
    """Return the generator of a randomized coder; raises BadInput for None or another type."""
    if not isinstance(rng, np.random.Generator):
        raise check.refuse("rng", rng, "a numpy.random.Generator, from which this coder draws")
    return rng


def without_memory(coder: Coder) -> Coder:
    """Return ``coder`` for use inside another coder; raises BadInput if it is not a coder, or has a memory."""
    check.instance("coder", coder, Coder, "a netsim.coders.Coder")
    if coder.fresh() is not coder:
        raise check.refuse("coder", coder, "one without a memory")
    return coder


def with_own_memory(coder: Coder) -> Coder:
    """Return a fresh copy of ``coder`` for use inside another coder; raises BadInput if it has error feedback."""
    check.instance("coder", coder, Coder, "a netsim.coders.Coder")
    if coder.feeds_back:
        raise check.refuse("coder", coder, "one without error feedback: ErrorFeedback must be outermost")
    return coder.fresh()


def scales(sizes: Any) -> tuple[float, ...]:
    """Return ``sizes``, one number or one for each row of a matrix, rounded up to float32."""
    return tuple(float32_above(size) for size in np.atleast_1d(sizes).tolist())


def columns(scale: tuple[float, ...], by_row: bool) -> Any:
    """Return scales in a shape by which an array can be divided: one number, or a column with a scale for each row."""
    return np.array(scale)[:, None] if by_row else scale[0]


def without_zero(scale: Any) -> Any:
    """Replace scales of 0 by 1 to avoid a division by zero; a vector or row with scale 0 contains only zeros."""
    return (scale or 1.0) if isinstance(scale, float) else np.where(scale == 0.0, 1.0, scale)


def float32_above(value: float) -> float:
    """Round ``value`` ≥ 0 up to a float32; raises BadInput if it exceeds the largest float32."""
    return packing.float32_above(_in_range(value))


def float32_nearest(value: float) -> float:
    """Round ``value`` ≥ 0 to the nearest float32; raises BadInput if it exceeds the largest float32."""
    return float(np.float32(_in_range(value)))


def _in_range(value: float) -> float:
    if not value <= LARGEST:
        raise BadInput(f"vector has size {value:g}: must be at most {LARGEST:g}, float32's largest number")
    return value
