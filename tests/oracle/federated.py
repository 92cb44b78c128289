"""FedAvg, SCAFFOLD and AD-PSGD in plain numpy, for given participating clients and arrival times."""

import heapq
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Gradient = Callable[[Vector, int], Vector]
"""Returns the gradient of an agent's cost at a model."""


def fedavg(gradient: Gradient, drawn: Sequence[Sequence[int]], size: int, eta: float, tau: int) -> Vector:
    """Return the server's models, shape (rounds, D); ``drawn`` lists the clients that were drawn and answered."""
    x, found = np.zeros(size), []
    for clients in drawn:
        ends = []
        for i in clients:
            y = x.copy()
            for _ in range(tau):
                y -= eta * gradient(y, i)
            ends.append(y)
        if ends:
            x = np.mean(ends, axis=0)
        found.append(x)
    return np.array(found)


def scaffold(
    gradient: Gradient,
    agents: int,
    size: int,
    eta: float,
    tau: int,
    heard: Sequence[Sequence[int]],
    answered: Sequence[Sequence[int]],
    *,
    states: bool,
) -> tuple[Vector, Vector]:
    """Return the server's models and Σ c_i − N c, shape (rounds, D) each (Karimireddy et al. 2020, alg. 1, option II).

    In each round the clients in ``heard`` perform local steps, and the server receives the answers of those in
    ``answered``. With ``states`` an answer contains c_i, and c is the mean of the latest received; otherwise it
    contains the change of c_i.
    """
    x, c = np.zeros(size), np.zeros(size)
    own, table = np.zeros((agents, size)), np.zeros((agents, size))
    models, apart = [], []
    for there, back in zip(heard, answered, strict=True):
        ends, changes = {}, {}
        for i in there:
            y = x.copy()
            for _ in range(tau):
                y = y - eta * (gradient(y, i) - own[i] + c)
            new = own[i] - c + (x - y) / (tau * eta)
            ends[i], changes[i] = y, new - own[i]
            own[i] = new
        if back:
            x = x + np.mean([ends[i] - x for i in back], axis=0)
            if states:
                table[list(back)] = own[list(back)]
                c = table.mean(axis=0)
            else:
                c = c + sum(changes[i] for i in back) / agents
        models.append(x)
        apart.append(own.sum(axis=0) - agents * c)
    return np.array(models), np.array(apart)


def ad_psgd(
    gradient: Gradient,
    neighbors: Sequence[Sequence[int]],
    streams: Sequence[np.random.Generator],
    size: int,
    eta: float,
    times: tuple[float, float],
    until: int,
) -> Vector:
    """Return all models at the end of each second, shape (until, N, D): Lian et al. 2018, alg. 1, instant exchanges.

    ``times`` has the mean duration of a gradient step, and the standard deviation of its logarithm. Each agent's random
    stream alternately gives a duration and the index of a neighbour.
    """
    mean, spread = times
    x = np.zeros((len(neighbors), size))
    read = x.copy()

    def takes(i: int) -> float:
        return mean * float(np.exp(spread * streams[i].standard_normal() - spread**2 / 2))

    queue = [(takes(i), i) for i in range(len(neighbors))]
    heapq.heapify(queue)
    found = []
    for second in range(1, until + 1):
        while queue[0][0] < second:
            now, i = heapq.heappop(queue)
            j = neighbors[i][int(streams[i].integers(len(neighbors[i])))]
            x[i] = x[j] = (x[i] + x[j]) / 2
            x[i] = x[i] - eta * gradient(read[i], i)
            read[i] = x[i]
            heapq.heappush(queue, (now + takes(i), i))
        found.append(x.copy())
    return np.array(found)
