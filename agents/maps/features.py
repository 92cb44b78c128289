"""Feature maps: fixed functions that turn raw inputs into the vectors on which the linear models learn.

A shift-invariant kernel κ(x − x') is the Fourier transform of a density; the mean over L frequencies drawn
from that density approximates it with an error that falls as 1/√L (Rahimi and Recht, "Random features for
large-scale kernel machines", 2007). Agents that create a map with the same arguments and seed have the same
map.
"""

import math
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from netsim.errors import BadInput
from netsim.util import check

Kernel = Literal["gaussian", "laplacian", "cauchy"]
Form = Literal["cos", "cos+sin"]


class FeatureMap(Protocol):
    """A function from raw inputs to features.

    Attributes
    ----------
    inputs : int
        Length of one raw input.
    size : int
        Length of one feature vector.
    """

    @property
    def inputs(self) -> int:
        """Length of one raw input."""

    @property
    def size(self) -> int:
        """Length of one feature vector."""

    def __call__(self, x: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Map inputs of shape (n, inputs) to features of shape (n, size)."""


class RandomFourier:
    """Random Fourier features: φ(x)ᵀφ(x') approximates a kernel (COKE, Xu et al., 2021, eqs. 12 and 13).

    Parameters
    ----------
    inputs : int
        Length d of one raw input.
    features : int
        Number L of frequencies ω.
    sigma : float
        Bandwidth σ of the kernel, in the units of the inputs.
    kernel : {"gaussian", "laplacian", "cauchy"}
        The kernel to approximate, as defined in `kernel_matrix`. The elements of ω are drawn from N(0, σ⁻²)
        for the Gaussian, from a Cauchy law of scale 1/σ for the Laplacian, and from a Laplace law of scale
        1/σ for the Cauchy kernel.
    form : {"cos", "cos+sin"}
        ``cos``: √(2/L) cos(ωᵀx + b) with b ~ U[0, 2π), L features. ``cos+sin``: √(1/L) [cos ωᵀx, sin ωᵀx],
        2L features.
    orthogonal : bool
        Whether to draw the frequencies in blocks of d orthogonal directions, with lengths that are chi-distributed
        with d degrees of freedom. This lowers the error (Yu et al., "Orthogonal random features", 2016); it is
        possible only for the Gaussian kernel.
    seed : int
        Seed of the draw. The frequencies are the same for both forms.

    Attributes
    ----------
    inputs, size : int
        Length of one input and of one feature vector.
    frequencies : ndarray of shape (L, d)
        The frequencies ω, one a row.
    phases : ndarray of shape (L,)
        The phases b in radians; all zero in the ``cos+sin`` form.

    Raises
    ------
    BadInput
        For an argument outside its range, or orthogonal frequencies for another kernel than the Gaussian.
    """

    def __init__(
        self,
        inputs: int,
        features: int,
        *,
        sigma: float = 1.0,
        kernel: Kernel = "gaussian",
        form: Form = "cos",
        orthogonal: bool = False,
        seed: int = 0,
    ) -> None:
        self.inputs = check.integer("inputs", inputs, low=1)
        count = check.integer("features", features, low=1)
        scale = 1.0 / check.finite("sigma", sigma, above=0.0)
        check.one_of("kernel", kernel, get_args(Kernel))
        check.one_of("form", form, get_args(Form))
        if orthogonal and kernel != "gaussian":
            raise BadInput(f"orthogonal = True: must be False for kernel = {kernel!r}, not 'gaussian'")
        rng = np.random.default_rng(check.integer("seed", seed, low=0))
        shape = (count, self.inputs)
        check.fits("features", count, 8 * count * self.inputs, f"frequencies for {self.inputs:,} inputs")
        if orthogonal:
            unit = _orthogonal(shape, rng)
        elif kernel == "gaussian":
            unit = rng.standard_normal(shape)
        elif kernel == "laplacian":
            unit = rng.standard_cauchy(shape)
        else:
            unit = rng.laplace(size=shape)
        self.frequencies: NDArray[np.float64] = scale * unit
        self._both = form == "cos+sin"
        self.size = 2 * count if self._both else count
        self.phases = np.zeros(count) if self._both else rng.uniform(0.0, 2.0 * np.pi, count)

    def __call__(self, x: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Map inputs to features.

        Parameters
        ----------
        x : ndarray of shape (n, inputs)
            Raw inputs, one a row.

        Returns
        -------
        ndarray of shape (n, size)

        Raises
        ------
        BadInput
            If ``x`` has another width, or holds NaN or infinity.
        """
        points = _points("x", x, self.inputs)
        count = len(self.frequencies)
        check.fits("features", count, 8 * len(points) * self.size, f"those of {len(points):,} inputs at once")
        angles: NDArray[np.float64] = points @ self.frequencies.T + self.phases
        if self._both:
            return np.hstack([np.cos(angles), np.sin(angles)]) * math.sqrt(1.0 / count)
        return np.cos(angles) * math.sqrt(2.0 / count)


def kernel_matrix(kernel: Kernel, x: NDArray[np.float64], z: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Evaluate a kernel exactly between all rows of two arrays.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "cauchy"}
        exp(−‖x − z‖₂²/2σ²), exp(−‖x − z‖₁/σ), or Π_j 1/(1 + ((x_j − z_j)/σ)²).
    x, z : ndarray of shape (n, d) and (m, d)
        Points, one a row.
    sigma : float
        Bandwidth σ, in the units of the points.

    Returns
    -------
    ndarray of shape (n, m)

    Raises
    ------
    BadInput
        For an unknown kernel, σ ≤ 0, points of different widths, NaN or infinity.
    """
    check.one_of("kernel", kernel, get_args(Kernel))
    check.finite("sigma", sigma, above=0.0)
    x = _points("x", x)
    return kernel_values(kernel, x, _points("z", z, x.shape[1]), sigma)


def kernel_values(kernel: Kernel, x: NDArray[np.float64], z: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Return the result of `kernel_matrix` for arguments that are already checked."""
    if kernel == "gaussian":
        return np.exp(cdist(x, z, "sqeuclidean") / (-2.0 * sigma**2))
    if kernel == "laplacian":
        return np.exp(cdist(x, z, "cityblock") / -sigma)
    result = np.ones((len(x), len(z)))
    for a, b in zip(x.T, z.T, strict=True):
        result /= 1.0 + ((a[:, None] - b) / sigma) ** 2
    return result


def _orthogonal(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw standard normal rows that are orthogonal within each block of ``width`` rows."""
    count, width = shape
    blocks = -(-count // width)
    q, r = np.linalg.qr(rng.standard_normal((blocks, width, width)))
    # Signs from the diagonal of R make Q uniform over the orthogonal group, whatever sign convention the QR has.
    rows = (q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]).reshape(-1, width)[:count]
    lengths = np.sqrt(rng.chisquare(width, count))
    return np.asarray(rows * lengths[:, None], dtype=np.float64)


def _points(name: str, value: Any, width: int | None = None) -> NDArray[np.float64]:
    """Return ``value`` as a finite array of rows, with the given width if there is one."""
    array = check.finite_array(name, value)
    if array.ndim != 2 or (width is not None and array.shape[1] != width):
        allowed = f"(n, {'d' if width is None else width})"
        raise BadInput(f"{name}.shape = {array.shape}: must be {allowed}, one input a row")
    return array
