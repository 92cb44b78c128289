"""Compute times: the duration of each computation step of each node, and by how much they lengthen rounds."""

from collections.abc import Hashable, Mapping

import numpy as np

from netsim.errors import BadInput
from netsim.links.latency import Delays, Latency
from netsim.util import draws

__all__ = ["ComputeTimes"]

_BLOCK = 32


class ComputeTimes:
    """Compute times in seconds, drawn as a function of the seed, the node and the number of the node's step.

    Parameters
    ----------
    models : mapping
        The time model of each node.
    seed : int
        The seed of the random draws.
    """

    __slots__ = ("_blocks", "_keys", "_models", "_sums")

    def __init__(self, models: Mapping[Hashable, Latency], seed: int) -> None:
        self._models = dict(models)
        names = np.array([draws.name_key(name) for name in self._models], dtype=np.uint64)
        keys = draws.stream_keys(seed, names, "compute")
        self._keys = dict(zip(self._models, np.split(keys, len(keys)), strict=True))
        # For each node: the number of the last block of steps drawn, and the time (s) of each step in this block.
        self._blocks: dict[Hashable, tuple[int, list[float]]] = {}
        # Element k of the list is the total time (s) that rounds 1 to k wait for their slowest node.
        self._sums = [0.0]

    def seconds(self, node: Hashable, step: int) -> float:
        """Return the seconds of a node's step; the first is step 0."""
        number, place = divmod(step, _BLOCK)
        known = self._blocks.get(node)
        if known is None or known[0] != number:
            known = self._blocks[node] = number, self._drawn(node, number).tolist()
        return known[1][place]

    def waited(self, rounds: int) -> float:
        """Return by how many seconds in total the slowest nodes lengthen the first ``rounds`` rounds."""
        while len(self._sums) <= rounds:
            number = (len(self._sums) - 1) // _BLOCK
            slowest = np.max([self._drawn(node, number) for node in self._models], axis=0)
            for each in slowest.tolist():
                self._sums.append(self._sums[-1] + each)
        return self._sums[rounds]

    def _drawn(self, node: Hashable, block: int) -> Delays:
        """Return the seconds of each step in a block of a node's steps."""
        first, model = block * _BLOCK, self._models[node]
        found = model.delays(draws.uniforms(self._keys[node], first, _BLOCK), first)[:, 0]
        if not (np.isfinite(found) & (found >= 0)).all():
            raise BadInput(f"compute[{node!r}] = {model!r}: must draw finite seconds >= 0")
        return found
