"""What becomes of a frame once it has left: loss, latency, duplication, corruption.

`Fan` draws the outcomes of an agent's broadcasts over all its simple links at once, in blocks. `Path` carries frames
over one link one by one: over a link that needs more, or frames that go to one neighbour only.
"""

from collections.abc import Callable, Sequence

import numpy as np

from netsim.draws import Keys, Stream, stream_keys, uniforms
from netsim.latency import Latency
from netsim.link import Link
from netsim.loss import Bernoulli

Arrivals = list[tuple[float, bool]]
"""When each copy of a frame arrives, and whether it is corrupted."""


class Fan:
    """What an agent's next broadcast meets on each of its links, drawn for a block of broadcasts at a time.

    Parameters
    ----------
    links : sequence of Link
        One agent's outgoing links; what is drawn for those that are not simple is for others not to use.
    keys : uint64 array, shape (links,)
        The links' keys.
    block : int
        Broadcasts drawn at a time.
    """

    __slots__ = ("_block", "_count", "_fixed", "_keys", "_losses", "_models", "_rows", "_seed", "longest")

    def __init__(self, links: Sequence[Link], keys: Keys, seed: int, block: int) -> None:
        self._count = 0
        self._block = block
        self._keys = keys
        self._seed = seed
        # Links of the same settings are drawn together; usually that is all of them.
        groups: dict[int, list[int]] = {}
        for place, link in enumerate(links):
            groups.setdefault(id(link), []).append(place)
        losses, fixed = np.zeros(len(links)), np.zeros(len(links))
        self._models: list[tuple[Latency, slice | list[int]]] = []
        for same in groups.values():
            link = links[same[0]]
            places = slice(None) if len(groups) == 1 else same
            losses[places] = link.loss.mean if isinstance(link.loss, Bernoulli) else 0.0
            fixed[places] = link.latency_model.fixed or 0.0
            self._models.append((link.latency_model, places))
        self._losses = losses if losses.any() else None
        self._fixed: list[float] = fixed.tolist()
        self._rows = [self._fixed]
        # The longest delay in the present block, in seconds.
        self.longest = max(self._fixed, default=0.0)

    def next(self) -> list[float]:
        """Return the next broadcast's delay on each link, in seconds; negative where it is lost."""
        place = self._count % self._block
        if place == 0:
            self._draw()
        self._count += 1
        return self._rows[place]

    def _draw(self) -> None:
        """Draw a block of rows; an ideal network draws nothing."""
        if all(model.fixed is not None for model, _ in self._models):
            if self._losses is None:
                self._rows = [self._fixed] * self._block
                return
            rows = np.tile(self._fixed, (self._block, 1))
        else:
            rows = uniforms(stream_keys(self._seed, self._keys, "latency"), self._count, self._block)
            for model, places in self._models:
                rows[:, places] = model.delays(rows[:, places], self._count)
            self.longest = float(rows.max())
        if self._losses is not None:
            rows[uniforms(stream_keys(self._seed, self._keys, "loss"), self._count, self._block) < self._losses] = -1.0
        self._rows = rows.tolist()


class _Delays:
    """One link's delays in turn."""

    __slots__ = ("_block", "_count", "_key", "_model")

    def __init__(self, model: Latency, key: Keys) -> None:
        self._model, self._key, self._count = model, key, 0
        self._block: list[float] = []

    def next(self) -> float:
        if self._model.fixed is not None:
            return self._model.fixed
        if not self._block:
            self._block = self._model.delays(uniforms(self._key, self._count, 32), self._count)[::-1, 0].tolist()
            self._count += 32
        return self._block.pop()


class Path:
    """One directed link from the moment a frame's bits have left to its arrivals.

    Parameters
    ----------
    key : uint64 array, shape (1,)
        The link's key.
    purpose : str
        Put before the name of each of its random streams, to keep them apart from the link's other draws.
    """

    __slots__ = ("_corrupts", "_delays", "_duplicates", "_last", "_link", "_losses", "_lost")

    def __init__(self, link: Link, key: Keys, seed: int, purpose: str = "") -> None:
        def stream(name: str) -> Stream:
            return Stream(int(stream_keys(seed, key, purpose + name)[0]))

        self._link = link
        self._losses = stream("loss") if link.loss_model.mean else None
        state = stream("loss state").uniform() if self._losses is not None else 0.0
        self._lost: Callable[[float], bool] = link.loss_model.on_link(state)
        self._delays = _Delays(link.latency_model, stream_keys(seed, key, purpose + "latency"))
        self._duplicates = stream("duplicate") if link.duplicate else None
        self._corrupts = stream("corrupt") if link.corrupt else None
        self._last = 0.0

    def carry(self, ends: Sequence[float]) -> Arrivals:
        """Return the arrivals of a frame whose fragments left at ``ends`` (seconds); none if one of them is lost."""
        lost = False
        arrival = 0.0
        for end in ends:
            lost = (self._losses is not None and self._lost(self._losses.uniform())) or lost
            arrival = max(arrival, end + self._delays.next())
        if lost:
            return []
        arrivals = [arrival]
        if self._duplicates is not None and self._duplicates.uniform() < self._link.duplicate:
            arrivals.append(ends[-1] + self._delays.next())
        return [(self._in_order(time), self._damages()) for time in arrivals]

    def damage_place(self) -> float:
        """Return where in a corrupted frame the flipped bit is, as a share of its length."""
        return self._corrupts.uniform() if self._corrupts is not None else 0.0

    def _in_order(self, arrival: float) -> float:
        if self._link.fifo:
            arrival = self._last = max(arrival, self._last)
        return arrival

    def _damages(self) -> bool:
        return self._corrupts is not None and self._corrupts.uniform() < self._link.corrupt
