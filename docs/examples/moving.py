"""Least squares whose answer moves: a problem for ``netsim run online --task moving.py``."""

import numpy as np


class Moving:
    """R_t(θ) = (xᵀθ - y)² + 0.001 ‖θ‖² of one sample a round, y = xᵀθ°_t + noise."""

    size = 4

    def __init__(self, seed):
        self.rng, self.t = np.random.default_rng(seed), 0

    def draw(self, theta):
        self.t += 1
        self.x = self.rng.standard_normal(4)
        self.y = self.x @ truth(self.t) + 0.1 * self.rng.standard_normal()

    def value(self, theta):
        return (self.x @ theta - self.y) ** 2 + 0.001 * theta @ theta

    def gradient(self, theta):
        return 2 * (self.x @ theta - self.y) * self.x + 0.002 * theta

    def argmin(self, quadratic, linear):
        system = np.outer(self.x, self.x) + (0.001 + quadratic) * np.eye(4)
        return np.linalg.solve(system, self.y * self.x - linear / 2)


def truth(t):
    return np.array([np.cos(0.005 * t), np.sin(0.005 * t), 1, -1])


def task(seed):
    costs = [Moving([seed, agent]) for agent in range(8)]
    return costs, None, lambda models, t: {"from_truth": np.mean(np.sum((models - truth(t)) ** 2, axis=1))}
