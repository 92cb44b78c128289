"""Random delays and losses of an agent's broadcasts, drawn together for all simple links (`Link.is_simple`).

On the path agent → outbox → link → inbox → agent, this class is part of the links. It draws the numbers for a block
of broadcasts at a time, which is faster than drawing them for each broadcast.
"""

from collections.abc import Sequence

import numpy as np

from netsim.links.latency import Latency, TracedDelays, on_links
from netsim.links.link import Link
from netsim.links.loss import Bernoulli
from netsim.util.draws import Keys, purpose_key, stream_keys, uniforms

__all__ = ["LinkDraws", "placed"]

# The number of uniform numbers that a model with memory processes at a time when it replays earlier frames.
_CATCH_UP = 1 << 12


def placed(model: Latency, keys: Keys, first: int = 0) -> Latency:
    """Prepare a latency model for links with the random streams ``keys``, whose next frame has the index ``first``.

    A model in which delays depend on earlier delays continues as if it had drawn these.
    """
    if model.fixed is not None:
        return model
    # The first uniform number of each link selects, for example, at which position of a recording the link starts. The
    # link's first frame gets the same number, which does no harm: recordings ignore the numbers of frames.
    found = on_links(model, uniforms(keys, 0, 1)[0])
    if found is not model and not isinstance(found, TracedDelays):
        for each in range(0, first, _CATCH_UP):
            found.delays(uniforms(keys, each, min(_CATCH_UP, first - each)), each)
    return found


class LinkDraws:
    """Draws the delays of an agent's broadcasts on each of its links, for a block of broadcasts at a time.

    Parameters
    ----------
    links : sequence of Link
        One agent's outgoing links. Delays are drawn for all of them, but the caller ignores the delays of a link that
        is not simple. If an element changes, call `change`.
    keys : uint64 array, shape (links,)
        The key of each link, which selects the link's random streams.
    seed : int
        The network's seed.
    block : int
        The number of broadcasts for which delays are drawn at a time.

    Attributes
    ----------
    longest : float
        The longest delay in the present block, in seconds.
    """

    __slots__ = (
        "_block",
        "_count",
        "_fixed",
        "_is_stale",
        "_links",
        "_losses",
        "_models",
        "_rows",
        "_seed",
        "keys",
        "longest",
    )

    def __init__(self, links: Sequence[Link], keys: Keys, seed: int, block: int) -> None:
        self._links = links
        # Whether `_prepare` must be called before the next draw.
        self._count, self._is_stale = 0, True
        self._block = block
        self.keys = keys
        self._seed = seed
        self._rows: list[list[float]] = []
        self.longest = 0.0

    @property
    def only(self) -> Link | None:
        """The settings that all links have in common; None if links have different settings."""
        return self._links[0] if len(set(map(id, self._links))) == 1 else None

    def change(self, count: int) -> None:
        """Discard and redraw the delays from broadcast number ``count`` on, after a change of settings in ``links``."""
        self._count, self._is_stale = count, True

    def _prepare(self, first: int) -> None:
        """Group the links by their settings, for draws from broadcast ``first`` on.

        This is done at the first draw, because with the compiled core, which draws by itself, often none follows.
        """
        # One call draws the delays of a whole group.
        groups: dict[int, list[int]] = {}
        for index, link in enumerate(self._links):
            groups.setdefault(id(link), []).append(index)
        losses, fixed = np.zeros(len(self._links)), np.zeros(len(self._links))
        self._models: list[tuple[Latency, slice | list[int]]] = []
        for same in groups.values():
            link = self._links[same[0]]
            indices = slice(None) if len(groups) == 1 else same
            losses[indices] = link.loss.mean if isinstance(link.loss, Bernoulli) else 0.0
            fixed[indices] = link.latency_model.fixed or 0.0
            model = link.latency_model
            model = placed(model, self._stream("latency")[indices], first)
            self._models.append((model, indices))
        self._losses = losses if losses.any() else None
        self._fixed: list[float] = fixed.tolist()
        self.longest = max(self._fixed, default=0.0)

    def next(self) -> list[float]:
        """Return the next broadcast's delay on each link, in seconds; negative where the frame is lost."""
        row = self._count % self._block
        if row == 0 or self._is_stale:
            if self._is_stale:
                self._prepare(self._count - row)
                self._is_stale = False
            self._draw(self._count - row)
        self._count += 1
        return self._rows[row]

    @property
    def count(self) -> int:
        """The number of broadcasts whose delays have been returned."""
        return self._count

    def purpose_key(self, purpose: str) -> int:
        """Return the key that selects, combined with a link's key, the link's random stream for one purpose."""
        return purpose_key(self._seed, purpose)

    def _stream(self, purpose: str) -> Keys:
        """Return the keys of the links' random streams for a purpose, shape (links,)."""
        return stream_keys(self._seed, self.keys, purpose)

    def _draw(self, first: int) -> None:
        """Draw a block of delays from broadcast ``first`` on, with a row per broadcast and a column per link.

        Constant delays need no random numbers.
        """
        if all(model.fixed is not None for model, _ in self._models):
            if self._losses is None:
                self._rows = [self._fixed] * self._block
                return
            rows = np.tile(self._fixed, (self._block, 1))
        else:
            rows = uniforms(self._stream("latency"), first, self._block)
            for model, indices in self._models:
                rows[:, indices] = model.delays(rows[:, indices], first)
            self.longest = float(rows.max())
        if self._losses is not None:
            rows[uniforms(self._stream("loss"), first, self._block) < self._losses] = -1.0
        self._rows = rows.tolist()
