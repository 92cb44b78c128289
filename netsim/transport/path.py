"""The effects of a link on a frame that has left its sender: loss, latency, duplication, corruption, faults.

On the path agent → outbox → link → inbox → agent, this module is the link. `netsim.core.link_draws.LinkDraws` draws the
delays and losses of an agent's broadcasts over all its simple links together. `Path` carries single frames: frames to
one neighbour, and frames over links that are not simple (`Link.is_simple`).
"""

from collections.abc import Callable, Sequence

from netsim.core.link_draws import placed
from netsim.links.latency import Latency
from netsim.links.link import Link
from netsim.links.loss import Bernoulli, Clocked, Loss
from netsim.util.draws import Keys, Stream, stream_keys, uniforms

__all__ = ["Bursts", "Copies", "Delays", "Path", "catch_up"]

# A loss model with memory replays this many uniform numbers at a time.
_CATCH_UP = 1 << 12

Copies = list[tuple[float, bool]]
"""(arrival time in s, whether it is corrupted) for each copy of a frame."""


class Delays:
    """The delays of one link's frames, drawn in blocks for speed."""

    __slots__ = ("_block", "_count", "_key", "_model")

    def __init__(self, model: Latency, key: Keys, first: int = 0) -> None:
        self._model = placed(model, key, first)
        self._key, self._count = key, first
        self._block: list[float] = []

    @property
    def drawn(self) -> int:
        """The number of delays returned so far."""
        return self._count - len(self._block)

    def next(self) -> float:
        """Return the next delay, in seconds."""
        if self._model.fixed is not None:
            self._count += 1
            return self._model.fixed
        if not self._block:
            self._block = self._model.delays(uniforms(self._key, self._count, 32), self._count)[::-1, 0].tolist()
            self._count += 32
        return self._block.pop()


class Path:
    """One directed link, from the departure of a frame's bits to its arrivals.

    ``purpose`` is a prefix of the names of the path's random streams.
    """

    __slots__ = (
        "_clocked",
        "_corrupts",
        "_delays",
        "_duplicates",
        "_fragments",
        "_key",
        "_link",
        "_loss_bits",
        "_losses",
        "_lost",
        "_purpose",
        "_seed",
        "last",
    )

    def __init__(self, link: Link, key: Keys, seed: int, purpose: str = "") -> None:
        self._key, self._seed, self._purpose = key, seed, purpose
        # The number of the next fragment; fragments count even if the loss model needs no uniform number.
        self._fragments = 0
        self._duplicates: Stream | None = None
        self._corrupts: Stream | None = None
        self._delays = Delays(link.latency_model, self._stream_key("latency"))
        # The latest arrival (s) of any frame so far.
        self.last = 0.0
        self._set(link)

    def change(self, link: Link, last: float | None = None) -> None:
        """Apply new settings as if the link had always had them: fragment n uses uniform number n of its stream.

        A loss model with memory, and the delays, continue as if they had decided on all earlier fragments. ``last`` is
        the latest arrival (s) of a frame in flight; it is given if this path has not carried all frames in flight.
        """
        if link.latency_model is not self._link.latency_model:
            self._delays = Delays(link.latency_model, self._stream_key("latency"), self._delays.drawn)
        if last is not None:
            self.last = last
        self._set(link)

    def _stream_key(self, name: str) -> Keys:
        return stream_keys(self._seed, self._key, self._purpose + name)

    def _stream(self, name: str, first: int = 0) -> Stream:
        return Stream(int(self._stream_key(name)[0]), first)

    def _set(self, link: Link) -> None:
        """Store new settings: create the loss model if it changed, and the random streams that are needed."""
        model, known = link.loss_model, getattr(self, "_link", None)
        self._link, self._loss_bits = link, link.loss_bits
        if known is None or model is not known.loss_model:
            self._losses = self._stream("loss", self._fragments) if model.mean else None
            state = self._stream("loss state").uniform() if self._losses is not None else 0.0
            self._lost: Callable[[float], bool] = model.on_link(state)
            # The loss model if its decisions depend on time, else None. Its ``time`` must be set before each decision.
            self._clocked = self._lost if isinstance(self._lost, Clocked) else None
            if self._losses is not None:
                catch_up(model, self._lost, self._stream_key("loss"), self._fragments)
        if link.duplicate and self._duplicates is None:
            self._duplicates = self._stream("duplicate")
        if link.corrupt and self._corrupts is None:
            self._corrupts = self._stream("corrupt")

    def carry(self, ends: Sequence[float]) -> Copies:
        """Return the arrivals of a frame whose fragments left at ``ends`` (s); none if any fragment is lost."""
        lost = False
        arrival = 0.0
        for end in ends:
            if self._clocked is not None:
                self._clocked.time = end
            self._fragments += 1
            lost = (self._losses is not None and self._lost(self._losses.uniform())) or lost
            arrival = max(arrival, end + self._delays.next())
        if lost:
            return []
        arrivals = [arrival]
        if self._link.duplicate and self._duplicates is not None and self._duplicates.uniform() < self._link.duplicate:
            arrivals.append(ends[-1] + self._delays.next())
        return [self.arrive(time) for time in arrivals]

    def cross(self, end: float, bits: int) -> tuple[float, bool]:
        """Return the arrival time of a fragment of ``bits`` that left at ``end`` (s), and whether it is lost."""
        if self._clocked is not None:
            self._clocked.time = end
        self._fragments += 1
        lost = self._losses is not None and self._lost(self._scaled(self._losses.uniform(), bits))
        return end + self._delays.next(), lost

    def _scaled(self, uniform: float, bits: int) -> float:
        """Transform a uniform number for a fragment's length: for any p, it is below p with the scaled probability.

        If p is the loss probability for ``loss_bits`` bits, the scaled probability is 1 − (1 − p)^(bits/loss_bits).
        """
        return uniform if self._loss_bits is None else 1.0 - (1.0 - uniform) ** (self._loss_bits / bits)

    def arrive(self, time: float) -> tuple[float, bool]:
        """Return when a frame that arrives at ``time`` (s) is delivered, and whether it is corrupted.

        On a ``fifo`` link, a frame is not delivered before the frames ahead of it.
        """
        if self._link.fifo:
            time = self.last = max(time, self.last)
        damaged = self._link.corrupt and self._corrupts is not None and self._corrupts.uniform() < self._link.corrupt
        return time, bool(damaged)

    def damaged_share(self) -> float:
        """Return the position of the flipped bit in a corrupted frame, as a share of the frame's length."""
        return self._corrupts.uniform() if self._corrupts is not None else 0.0


def catch_up(model: Loss, lost: Callable[[float], bool], key: Keys, count: int) -> None:
    """Replay the first ``count`` fragments of a link in a loss model with memory.

    Models without memory, and models whose state depends only on time, need no replay.
    """
    if isinstance(model, Bernoulli) or isinstance(lost, Clocked):
        return
    for first in range(0, count, _CATCH_UP):
        for number in uniforms(key, first, min(_CATCH_UP, count - first))[:, 0].tolist():
            lost(number)


class Bursts:
    """Faults that delay or lose single frames of one agent's links.

    A burst of jitter (`netsim.faults.Jitter`) delays frames; `netsim.faults.Lose` loses the next frame.
    """

    __slots__ = ("_active", "_begun", "_latest", "_to_lose", "matter")

    def __init__(self) -> None:
        # {link index: {fault number: (maximum delay in s, random stream of the delays)}} of the active bursts.
        self._active: dict[int, dict[int, tuple[float, Stream]]] = {}
        # {(link index, time in s): number of bursts that have begun on the link at this time}.
        self._begun: dict[tuple[int, float], int] = {}
        # {link index: latest arrival (s)} for ``fifo`` links on which a burst of jitter has begun.
        self._latest: dict[int, float] = {}
        # {link index: number of next frames that the link must lose}.
        self._to_lose: dict[int, int] = {}
        # Whether `delayed` and `loses` must be called for each frame. After a burst on a ``fifo`` link this remains
        # True for the rest of the run, because later frames must not overtake the frames that the burst delayed.
        self.matter = False

    def count(self, link_index: int, at: float) -> int:
        """Return how many bursts have already begun on a link at time ``at`` (s), and count one more."""
        before = self._begun.get((link_index, at), 0)
        self._begun[link_index, at] = before + 1
        return before

    def begin(self, link_index: int, number: int, most: float, stream: Stream, fifo: bool) -> None:
        """Begin a burst: delay a link's frames by up to ``most`` additional seconds, drawn from ``stream``."""
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
        """Lose one more of the next frames of a link."""
        self._to_lose[link_index] = self._to_lose.get(link_index, 0) + 1
        self.matter = True

    def loses(self, link_index: int) -> bool:
        """Return whether the link loses its current frame; if so, decrease the number of frames still to lose."""
        if link_index not in self._to_lose:
            return False
        self._to_lose[link_index] -= 1
        if not self._to_lose[link_index]:
            del self._to_lose[link_index]
            self._update_matter()
        return True

    def reset_latest(self, link_index: int, latest: float) -> None:
        """Set the latest arrival (s) on a ``fifo`` link after the arrivals of its frames in flight changed."""
        if link_index in self._latest:
            self._latest[link_index] = latest

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
