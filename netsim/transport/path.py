"""The effects of a link on a frame that has left its sender: loss, latency, duplication, corruption, faults.

On the path agent → outbox → link → inbox → agent, this module is the link. `netsim.core.link_draws.LinkDraws` draws the
delays and losses of an agent's broadcasts over all its simple links at once. `Path` carries single frames: those to one
neighbour, and those over links that are not simple (`Link.is_simple`).
"""

from collections.abc import Callable, Sequence

from netsim.links.latency import Latency, on_links
from netsim.links.link import Link
from netsim.links.loss import Clocked
from netsim.util.draws import Keys, Stream, stream_keys, uniforms

__all__ = ["Bursts", "Copies", "Delays", "Path"]

Copies = list[tuple[float, bool]]
"""For each copy of a frame, its arrival time (s) and whether it is corrupted."""


class Delays:
    """The delays of one link's frames, drawn in blocks for speed."""

    __slots__ = ("_block", "_count", "_key", "_model")

    def __init__(self, model: Latency, key: Keys) -> None:
        # `next` draws the link's first number again, which does no harm: a recording (`TracedDelays`) ignores the
        # numbers that `next` passes to it, and a correlated model (`Correlated`) begins with this number.
        self._model = model if model.fixed is not None else on_links(model, uniforms(key, 0, 1)[0])
        self._key, self._count = key, 0
        self._block: list[float] = []

    def next(self) -> float:
        """Return the next delay, in seconds."""
        if self._model.fixed is not None:
            return self._model.fixed
        if not self._block:
            self._block = self._model.delays(uniforms(self._key, self._count, 32), self._count)[::-1, 0].tolist()
            self._count += 32
        return self._block.pop()


class Path:
    """One directed link, from the departure of a frame's bits to its arrivals.

    ``purpose`` is a prefix of the names of the path's random streams.
    """

    __slots__ = ("_clocked", "_corrupts", "_delays", "_duplicates", "_last", "_link", "_loss_bits", "_losses", "_lost")

    def __init__(self, link: Link, key: Keys, seed: int, purpose: str = "") -> None:
        def stream(name: str) -> Stream:
            return Stream(int(stream_keys(seed, key, purpose + name)[0]))

        self._link = link
        self._loss_bits = link.loss_bits
        self._losses = stream("loss") if link.loss_model.mean else None
        state = stream("loss state").uniform() if self._losses is not None else 0.0
        self._lost: Callable[[float], bool] = link.loss_model.on_link(state)
        # The loss model, if its decisions depend on time, else None. Set its ``time`` before each decision.
        self._clocked = self._lost if isinstance(self._lost, Clocked) else None
        self._delays = Delays(link.latency_model, stream_keys(seed, key, purpose + "latency"))
        self._duplicates = stream("duplicate") if link.duplicate else None
        self._corrupts = stream("corrupt") if link.corrupt else None
        self._last = 0.0

    def carry(self, ends: Sequence[float]) -> Copies:
        """Return the arrivals of a frame whose fragments left at ``ends`` (s); none if any fragment is lost."""
        lost = False
        arrival = 0.0
        for end in ends:
            if self._clocked is not None:
                self._clocked.time = end
            lost = (self._losses is not None and self._lost(self._losses.uniform())) or lost
            arrival = max(arrival, end + self._delays.next())
        if lost:
            return []
        arrivals = [arrival]
        if self._duplicates is not None and self._duplicates.uniform() < self._link.duplicate:
            arrivals.append(ends[-1] + self._delays.next())
        return [self.arrive(time) for time in arrivals]

    def cross(self, end: float, bits: int) -> tuple[float, bool]:
        """Return the arrival time of a fragment of ``bits`` that left at ``end`` (s), and whether it is lost."""
        if self._clocked is not None:
            self._clocked.time = end
        lost = self._losses is not None and self._lost(self._scaled(self._losses.uniform(), bits))
        return end + self._delays.next(), lost

    def _scaled(self, uniform: float, bits: int) -> float:
        """Transform a uniform number so that it is below p with probability 1 − (1 − p)^(bits/loss_bits), for any p."""
        return uniform if self._loss_bits is None else 1.0 - (1.0 - uniform) ** (self._loss_bits / bits)

    def arrive(self, time: float) -> tuple[float, bool]:
        """Return when a frame that arrives at ``time`` (s) is delivered, and whether it is corrupted.

        On a ``fifo`` link, a frame is not delivered before the frames ahead of it.
        """
        if self._link.fifo:
            time = self._last = max(time, self._last)
        return time, self._corrupts is not None and self._corrupts.uniform() < self._link.corrupt

    def damaged_share(self) -> float:
        """Return the position of the flipped bit in a corrupted frame, as a share of the frame's length."""
        return self._corrupts.uniform() if self._corrupts is not None else 0.0


class Bursts:
    """Faults that delay or lose single frames of one agent's links.

    A burst of jitter (`netsim.faults.Jitter`) delays frames; `netsim.faults.Lose` loses the next frame.
    """

    __slots__ = ("_active", "_begun", "_latest", "_to_lose", "matter")

    def __init__(self) -> None:
        # The active bursts, by link index and by fault number: of each, the maximum delay (s), and the random stream
        # from which delays are drawn.
        self._active: dict[int, dict[int, tuple[float, Stream]]] = {}
        # The number of bursts that have begun on a link at a time (s), by (link index, time).
        self._begun: dict[tuple[int, float], int] = {}
        # The latest arrival (s) by link index, for links with ``fifo`` on which a burst of jitter has begun.
        self._latest: dict[int, float] = {}
        # How many of the next frames are to be lost, by link index.
        self._to_lose: dict[int, int] = {}
        # Whether frames must pass `delayed` and `loses`. After a burst on a ``fifo`` link, this stays True for the rest
        # of the run, because later frames must not overtake the frames that the burst delayed.
        self.matter = False

    def count(self, link_index: int, at: float) -> int:
        """Return how many bursts have already begun on a link at time ``at`` (s), and count one more."""
        before = self._begun.get((link_index, at), 0)
        self._begun[link_index, at] = before + 1
        return before

    def begin(self, link_index: int, number: int, most: float, stream: Stream, fifo: bool) -> None:
        """Begin a burst: delay a link's frames by up to ``most`` more seconds, drawn from ``stream``."""
        self._active.setdefault(link_index, {})[number] = most, stream
        if fifo:
            self._latest.setdefault(link_index, 0.0)
        self.matter = True

    def end(self, link_index: int, number: int) -> None:
        """End the burst of the fault with this number on a link."""
        del self._active[link_index][number]
        if not self._active[link_index]:
            del self._active[link_index]
        self._update_matter()

    def lose(self, link_index: int) -> None:
        """Lose the next frame of a link, in addition to those already to be lost."""
        self._to_lose[link_index] = self._to_lose.get(link_index, 0) + 1
        self.matter = True

    def loses(self, link_index: int) -> bool:
        """Return whether the link loses the frame that it carries now; if so, one frame fewer remains to be lost."""
        if link_index not in self._to_lose:
            return False
        self._to_lose[link_index] -= 1
        if not self._to_lose[link_index]:
            del self._to_lose[link_index]
            self._update_matter()
        return True

    def _update_matter(self) -> None:
        self.matter = bool(self._active or self._latest or self._to_lose)

    def delayed(self, link_index: int, copies: Copies) -> Copies:
        """Delay the copies of a frame by the link's active bursts; on a ``fifo`` link, keep the order of frames."""
        for most, stream in self._active.get(link_index, {}).values():
            copies = [(time + most * stream.uniform(), damaged) for time, damaged in copies]
        if link_index in self._latest:
            for number, (time, damaged) in enumerate(copies):
                self._latest[link_index] = max(self._latest[link_index], time)
                copies[number] = self._latest[link_index], damaged
        return copies
