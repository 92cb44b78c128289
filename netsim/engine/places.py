"""Current and earlier positions of a run's nodes. Moving a node changes the received powers of its links."""

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from netsim.errors import BadInput

if TYPE_CHECKING:
    from netsim.clock.clock import Loop
    from netsim.deployment import Deployment
    from netsim.radio.medium import Medium

__all__ = ["Path", "Place", "Places"]

Place = tuple[float, ...]
Path = list[tuple[float, Place]]
"""Way-points (time in s, place), connected by straight lines.

A jump is stored as two way-points with the same time: first the old place, then the new place.
"""


class Places:
    """The places of a run's nodes.

    Attributes
    ----------
    now : dict
        Each node's current place, in metres.
    paths : dict
        The `Path` of each node that has moved.
    """

    def __init__(self, deployment: "Deployment", medium: "Medium", loop: "Loop") -> None:
        self.now: dict[Hashable, Place] = dict(deployment.places)
        self.paths: dict[Hashable, Path] = {}
        self._deployment, self._medium, self._loop = deployment, medium, loop
        # For each node: the other nodes within its reach. For each pair, the medium stores the received power in both
        # directions.
        self._reached: dict[Hashable, dict[Hashable, None]] = {node: {} for node in self.now}
        for one, other in deployment.powers:
            self._reached[one][other] = None
        # For each node on a straight leg: True if the last way-point of its path is the current end of the leg, False
        # if it is the leg's start. A current end is replaced by the next one, because both lie on the same line.
        self._under_way: dict[Hashable, bool] = {}

    def place(self, node: Hashable, position: object) -> Place:
        """Validate a position and return it as a place; a position without a height gets the node's current height."""
        return self._deployment.place(position, self.now[node])

    def set_out(self, node: Hashable) -> None:
        """Start a straight leg of a node's path; following calls of `put` move the node along this leg."""
        self._path_of(node).append((self._loop.now(), self.now[node]))
        self._under_way[node] = False

    def jump(self, node: Hashable, position: object) -> None:
        """Move a node to a place instantly, and end its straight leg."""
        self._under_way.pop(node, None)
        self.put(node, self.place(node, position))

    def put(self, node: Hashable, place: Place) -> None:
        """Move a node to a place; all places between calls of `set_out` and `jump` must lie on one straight line.

        Raises
        ------
        BadInput
            If the new place is within range of a node that is not the node's neighbour.
        """
        here, self.now[node] = self.now[node], place
        powers = self._deployment.powers_of(node, self.now)
        try:
            self._deployment.must_be_neighbours(powers)
        except BadInput:
            self.now[node] = here
            raise
        now, path = self._loop.now(), self._path_of(node)
        if node not in self._under_way:
            path += [(now, here), (now, place)]
        elif self._under_way[node]:
            path[-1] = now, place
        else:
            path.append((now, place))
            self._under_way[node] = True
        reached, before = {ends[1]: None for ends in powers if ends[0] == node}, self._reached[node]
        for other in before:
            if other not in reached:
                del self._reached[other][node]
                powers[node, other] = powers[other, node] = -math.inf
        for other in reached:
            self._reached[other][node] = None
        self._reached[node] = reached
        self._medium.set_powers(powers, now)
        self._medium.set_distances(node, self.now)

    def _path_of(self, node: Hashable) -> Path:
        return self.paths.setdefault(node, [(0.0, self._deployment.places[node])])


def flat(paths: Mapping[Hashable, Path]) -> dict[Hashable, list[tuple[float, float, float]]]:
    """Return each node's path as way-points (time in s, x, y), without heights."""
    return {node: [(time, place[0], place[1]) for time, place in path] for node, path in paths.items()}
