"""Streams for online agents: each agent gets an iterator that yields one pair (φ, y) per round.

The rows of a table may be shuffled, in the order of the file, or divided among the agents by target, so that each agent
sees only a part of the problem. `MovingTruth` draws samples of a known model that changes. Features are computed in
blocks of `BLOCK` samples per agent, never for a whole table. So besides the table, a stream takes the memory of one
block, and 8 bytes for the index of each of its rows.

The seed determines every stream; reading one stream does not affect others.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from netsim.agents.costs.stream import Samples
from netsim.agents.maps.features import FeatureMap
from netsim.errors import BadInput
from netsim.scenarios.data.partitions import Partition
from netsim.scenarios.data.tables import Table
from netsim.util import check, draws
from netsim.util.typing import Array, Vector

Rows = NDArray[np.int64]
Kind = Literal["drift", "switch", "rotate"]

BLOCK = 256
"""The number of an agent's samples whose features are computed at a time."""

_STRETCH = 256  # rounds of a drifting truth computed and cached together


def rounds_of(table: Table, agents: int) -> int:
    """Return the number of rounds with a sample for every agent: the table's rows divided by ``agents``.

    Raises BadInput if ``agents`` is less than 1, or more than the table has rows.
    """
    count = len(table.target)
    check.integer("agents", agents, low=1)
    if agents > count:
        raise BadInput(f"agents = {agents}: must be at most {count}, the rows of table {table.name!r}")
    return count // agents


def shuffled(table: Table, agents: int, features: FeatureMap, seed: int) -> list[Samples]:
    """Deal each row to one agent, at random, so that all agents see the same problem.

    If the rows cannot be divided evenly, the first agents get one more. The streams yield (φ of shape (D,), y). Raises
    BadInput if an argument is outside its range, or the features have another width than the table.
    """
    return by_target(table, agents, features, mixing=1.0, seed=seed)


def in_order(table: Table, agents: int, features: FeatureMap) -> list[Samples]:
    """Deal the rows in the order of the file: in round t = 0, 1, … the agents get the rows tN … tN + N − 1.

    The result and the errors are as in `shuffled`.
    """
    _check(table, agents, features)
    count = len(table.target)
    return [_serve(table, features, np.arange(i, count, agents)) for i in range(agents)]


def by_target(table: Table, agents: int, features: FeatureMap, *, mixing: float, seed: int) -> list[Samples]:
    """Deal the rows by their target, so that the agents' problems differ.

    A share ``mixing`` of the rows, drawn at random, is dealt at random. The other rows are sorted by target (equal
    targets at random) and cut into N consecutive pieces, one per agent, the lowest for agent 0. So with ``mixing`` = 0
    the agents' ranges of targets are disjoint, and ``mixing`` = 1 equals `shuffled`. Each agent sees its rows in random
    order. The result and the errors are as in `shuffled`.
    """
    _check(table, agents, features)
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    order = rng.permutation(len(table.target))
    cut = round(check.probability("mixing", mixing) * len(order))
    mixed, rest = order[:cut], order[cut:]
    pieces = np.array_split(rest[np.argsort(table.target[rest], kind="stable")], agents)
    # The rows that are dealt at random complete each agent's share, so that shares are even.
    shares = np.array([len(share) for share in np.array_split(order, agents)])
    missing = shares - [len(piece) for piece in pieces]
    fillings = np.split(mixed, np.cumsum(missing)[:-1])
    rows = [np.concatenate(both) for both in zip(fillings, pieces, strict=True)]
    return [_serve(table, features, rng.permutation(each)) for each in rows]


def owners(target: Array, agents: int, partition: Partition, seed: int, *, classes: int = 0) -> list[Rows]:
    """Return each agent's rows, in ascending order, as given by `netsim.scenarios.data.tables.deal`.

    Raises BadInput for an argument outside its range, or a partition that the rows do not allow.
    """
    order = np.random.default_rng(check.integer("seed", seed, low=0)).permutation(len(target))
    parts = partition.divide(target[order], check.integer("agents", agents, low=1), seed=seed, classes=classes)
    return [np.sort(order[part]) for part in parts]


def again_and_again(
    table: Table, parts: Sequence[Rows], features: FeatureMap, *, in_order: bool, seed: int
) -> list[Samples]:
    """Return endless streams of (φ of shape (D,), y), in which each agent cycles through its rows.

    Each pass has a new random order or, with ``in_order``, the order of the file. Raises BadInput if the features have
    another width than the table.
    """
    _check(table, len(parts), features)

    def stream(agent: int, own: Rows) -> Samples:
        rng = draws.generator(seed, agent, "samples")
        while True:
            yield from _serve(table, features, own if in_order else rng.permutation(own))

    return [stream(agent, own) for agent, own in enumerate(parts)]


def passes(count: int, agent: int, seed: int) -> Iterator[int]:
    """Yield an agent's rows 0 … count − 1 endlessly, in a new random order for each pass."""
    rng = draws.generator(seed, agent, "samples")
    while True:
        yield from rng.permutation(count).tolist()


class MovingTruth:
    """Synthetic streams of a known linear model in feature space, the truth θ°, which changes over time.

    In round t = 1, 2, …, ``rounds`` each agent sees x ~ U[0, 1]^d and y = θ°_tᵀφ(x) + e with e ~ N(0, noise²), all
    independent. The norm of the truth is always ‖θ°_t‖ = scale·√D, so that ``scale`` is the root mean square of θ°_tᵀφ
    over all truths, for ‖φ‖ = 1. An agent's stream does not depend on the other agents, or on the length of the run.

    With ``drift`` the truth is a random walk on the sphere: in each round it turns by ``rate`` radians towards a new
    random direction. With ``rotate`` it turns by this angle in a fixed random plane. With ``switch`` there is a new
    random truth every ``every`` rounds. Raises BadInput if an argument is outside its range, or there are fewer than
    two features.
    """

    def __init__(
        self,
        kind: Kind,
        agents: int,
        features: FeatureMap,
        rounds: int,
        *,
        noise: float = 0.1,
        seed: int,
        rate: float = 0.01,
        every: int = 500,
        scale: float = 1.0,
    ) -> None:
        self.kind = check.one_of("kind", kind, get_args(Kind))
        self.agents = check.integer("agents", agents, low=1)
        self.features = features
        self.rounds = check.integer("rounds", rounds, low=0)
        self.noise = check.finite("noise", noise, low=0.0)
        self.seed = check.integer("seed", seed, low=0)
        self.rate = check.finite("rate", rate, low=0.0)
        self.every = check.integer("every", every, low=1)
        self.norm = check.finite("scale", scale, above=0.0) * math.sqrt(features.size)
        if features.size < 2:
            raise BadInput(f"features.size = {features.size}: must be at least 2, for a truth to move")
        first, second = self._rng(0, 0).standard_normal((2, features.size))
        first /= np.linalg.norm(first)
        second -= (second @ first) * first
        # Two orthogonal directions: the initial truth, and the direction of a rotation.
        self._plane = first, second / np.linalg.norm(second)
        # A drifting truth at the start of each stretch so far (one vector per _STRETCH rounds), and the last stretches.
        self._starts = [first]
        self._stretches: dict[int, Vector] = {}
        # The first round of the last requested block of truths, and these truths.
        self._block: tuple[int, Vector] = (0, first)

    def truth(self, t: int) -> Vector:
        """Return the truth θ°_t of round t = 1 … ``rounds``, shape (D,); raises BadInput for any other t."""
        check.integer("t", t, low=1, high=self.rounds)
        first = t - (t - 1) % BLOCK
        if first != self._block[0]:
            # Measures request one round after the other, so compute and keep a block of rounds.
            self._block = first, self._truths(first, min(first + BLOCK, self.rounds + 1))
        truth: Vector = self._block[1][t - first].copy()
        return truth

    def streams(self) -> list[Samples]:
        """Return a new iterator of (φ of shape (D,), y) for each agent, with the same samples each time."""
        return [self._serve(i) for i in range(self.agents)]

    def _serve(self, agent: int) -> Iterator[tuple[Vector, float]]:
        # Separate generators for inputs and noise, so that the block size does not affect the draws.
        places, errors = self._rng(1, agent), self._rng(2, agent)
        for start in range(1, self.rounds + 1, BLOCK):
            stop = min(start + BLOCK, self.rounds + 1)
            phi = self.features(places.random((stop - start, self.features.inputs)))
            y = np.einsum("td,td->t", phi, self._truths(start, stop))
            y += self.noise * errors.standard_normal(stop - start)
            yield from zip(phi, y.tolist(), strict=True)

    def _truths(self, start: int, stop: int) -> Vector:
        """Return θ°_t for t = start … stop − 1, shape (stop − start, D)."""
        t = np.arange(start - 1, stop - 1)
        if self.kind == "rotate":
            first, second = self._plane
            unit = np.cos(self.rate * t)[:, None] * first + np.sin(self.rate * t)[:, None] * second
        elif self.kind == "switch":
            numbers, places = np.unique(t // self.every, return_inverse=True)
            drawn = np.array([self._rng(3, int(each)).standard_normal(self.features.size) for each in numbers])
            unit = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True))[places]
        else:
            numbers, places = np.unique(t // _STRETCH, return_inverse=True)
            walked = np.array([self._stretch(int(each)) for each in numbers])
            unit = walked[places, t % _STRETCH]
        result: Vector = self.norm * unit
        return result

    def _stretch(self, number: int) -> Vector:
        """Return the walk from round number·_STRETCH to the next stretch, as unit vectors, shape (_STRETCH + 1, D)."""
        while len(self._starts) <= number:
            self._starts.append(self._walk(len(self._starts) - 1)[-1].copy())
        if number not in self._stretches:
            # The agents are nearly in the same round, so more than two stretches are never needed at a time.
            while len(self._stretches) >= 2:
                del self._stretches[next(iter(self._stretches))]
            path = self._stretches[number] = self._walk(number)
            if len(self._starts) == number + 1:
                self._starts.append(path[-1].copy())
        return self._stretches[number]

    def _walk(self, number: int) -> Vector:
        """Walk from the start of a stretch to that of the next, both included."""
        place = self._starts[number]
        path = [place]
        stay, turn = math.cos(self.rate), math.sin(self.rate)
        for direction in self._rng(4, number).standard_normal((_STRETCH, self.features.size)):
            aside = direction - (direction @ place) * place
            place = stay * place + (turn / math.sqrt(aside @ aside)) * aside
            path.append(place)
        return np.array(path)

    def _rng(self, purpose: int, number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(purpose, number)))


def _check(table: Table, agents: int, features: FeatureMap) -> None:
    rounds_of(table, agents)
    width = table.inputs.shape[1]
    if features.inputs != width:
        raise BadInput(f"features.inputs = {features.inputs}: must be {width}, the inputs of table {table.name!r}")


def _serve(table: Table, features: FeatureMap, rows: Rows) -> Iterator[tuple[Vector, float]]:
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        yield from zip(features(table.inputs[block]), table.target[block].tolist(), strict=True)
