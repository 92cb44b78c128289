"""What is measured of the agents' models in each round."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agents.local import moments, samples
from netsim import check
from netsim.errors import BadInput


class MeanSquaredError:
    """The mean squared error over all samples of all agents, each sample predicted by its own agent's model.

    MSE(θ_1 … θ_N) = (1/Σ_i T_i) Σ_i Σ_t (θ_iᵀφ_it − y_it)², as in §5 of Xu, Wang, Chen and Tian, "COKE",
    2021. A call works on the Gram matrices of all agents at once, so its cost does not depend on the number
    of samples. It is correct to about 1e-15 of the terms that cancel in it.

    Parameters
    ----------
    data : sequence of (features, targets)
        One pair an agent, of shapes (T_i, D) and (T_i,).

    Attributes
    ----------
    agents, size, samples : int
        Number N of agents, length D of a model, and number Σ_i T_i of samples.

    Raises
    ------
    BadInput
        For no agent, shapes that do not fit, NaN or infinity.
    """

    def __init__(self, data: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
        if not data:
            raise check.refuse("data", data, "at least one pair (features, targets)")
        pairs = [samples(f"data[{i}][0]", x, f"data[{i}][1]", y) for i, (x, y) in enumerate(data)]
        self.agents, self.size = len(pairs), pairs[0][0].shape[1]
        for i, (x, _) in enumerate(pairs):
            if x.shape[1] != self.size:
                raise BadInput(f"data[{i}][0].shape = {x.shape}: must be (T, {self.size}), as in data[0]")
        self.samples = sum(len(y) for _, y in pairs)
        weights = np.array([len(y) for _, y in pairs]) / self.samples
        grams, crosses, energies = zip(*(moments(x, y) for x, y in pairs), strict=True)
        self._grams = weights[:, None, None] * np.stack(grams)
        self._crosses = 2.0 * weights[:, None] * np.stack(crosses)
        self._energy = float(weights @ np.array(energies))

    def __call__(self, thetas: NDArray[np.float64]) -> float:
        """Return the error of the models ``thetas``, of shape (N, D), in squared units of the target.

        Models that grew without bound give inf or nan.

        Raises
        ------
        BadInput
            If ``thetas`` has another shape.
        """
        if np.shape(thetas) != (self.agents, self.size):
            raise BadInput(f"thetas.shape = {np.shape(thetas)}: must be {(self.agents, self.size)}")
        with np.errstate(over="ignore", invalid="ignore"):
            predicted = np.matmul(self._grams, thetas[:, :, None])[:, :, 0]
            error = np.vdot(predicted - self._crosses, thetas) + self._energy
        return float(np.maximum(error, 0.0))  # rounding may put a perfect fit just below zero; nan stays nan


def consensus_error(thetas: NDArray[np.float64]) -> float:
    """Return how far the agents' models are apart: (1/N) Σ_i ‖θ_i − θ̄‖², θ̄ = (1/N) Σ_i θ_i.

    Parameters
    ----------
    thetas : ndarray of shape (N, D)
        One model a row. Models that grew without bound give inf or nan.

    Returns
    -------
    float
        Zero when all agree; in squared units of θ.

    Raises
    ------
    BadInput
        If ``thetas`` is not of two dimensions or has no row.
    """
    if np.ndim(thetas) != 2 or not len(thetas):
        raise BadInput(f"thetas.shape = {np.shape(thetas)}: must be (N, D) with N at least 1")
    with np.errstate(over="ignore", invalid="ignore"):
        apart = thetas - np.mean(thetas, axis=0)
        return float(np.vdot(apart, apart) / len(thetas))
