"""Logistic regression of one's own: `netsim run coke --task docs/examples/logistic.py --rho 0.02 --eta 2`."""

import numpy as np
from scipy.optimize import minimize


class Logistic:
    """R_i(θ) = mean of log(1 + exp(-y xᵀθ)) + 0.01 ‖θ‖² over the agent's samples."""

    def __init__(self, x, y):
        self.z, self.size = y[:, None] * x, x.shape[1]

    def value(self, theta):
        return np.mean(np.logaddexp(0, -self.z @ theta)) + 0.01 * theta @ theta

    def gradient(self, theta):
        return -self.z.T @ (1 / (1 + np.exp(self.z @ theta))) / len(self.z) + 0.02 * theta

    def proximal(self, c):
        def solve(linear):  # argmin R_i(θ) + c ‖θ‖² + linearᵀθ
            def total(t):
                return self.value(t) + c * t @ t + linear @ t, self.gradient(t) + 2 * c * t + linear

            return minimize(total, np.zeros(self.size), jac=True, tol=1e-9).x

        return solve


def task(seed):
    x = np.random.default_rng(seed).standard_normal((8, 50, 6))
    costs = [Logistic(own[:, :5], np.sign(own @ [2, -1, 0, 1, 0.5, 0.5])) for own in x]
    return costs, None, lambda models: {"train_loss": np.mean([[cost.value(m) for cost in costs] for m in models])}
