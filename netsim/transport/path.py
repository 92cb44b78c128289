"""What becomes of a frame once it has left: loss, latency, duplication, corruption, faults of its link.

agent → outbox → link → inbox → agent: you are on the link. `netsim.core.link_draws.LinkDraws` draws the outcomes of an
agent's broadcasts over all its simple links at once. `Path` carries frames over one link one by one: over a link that
needs more, or frames that go to one neighbour only.
"""

from collections.abc import Callable, Sequence

from netsim.links.latency import Latency, on_links
from netsim.links.link import Link
from netsim.links.loss import Clocked
from netsim.util.draws import Keys, Stream, stream_keys, uniforms

__all__ = ["Bursts", "Copies", "Delays", "Path"]

Copies = list[tuple[float, bool]]
"""When each copy of a frame arrives, and whether it is corrupted."""


class Delays:
    """One link's delays in turn, drawn in blocks."""

    __slots__ = ("_block", "_count", "_key", "_model")

    def __init__(self, model: Latency, key: Keys) -> None:
        # A model of recorded delays has no other use for the stream's first number.
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
    """One directed link from the moment a frame's bits have left to its arrivals; ``purpose`` tells its draws apart."""

    __slots__ = ("_clocked", "_corrupts", "_delays", "_duplicates", "_last", "_link", "_loss_bits", "_losses", "_lost")

    def __init__(self, link: Link, key: Keys, seed: int, purpose: str = "") -> None:
        def stream(name: str) -> Stream:
            return Stream(int(stream_keys(seed, key, purpose + name)[0]))

        self._link = link
        self._loss_bits = link.loss_bits
        self._losses = stream("loss") if link.loss_model.mean else None
        state = stream("loss state").uniform() if self._losses is not None else 0.0
        self._lost: Callable[[float], bool] = link.loss_model.on_link(state)
        # A decision that depends on the time: it is set first.
        self._clocked = self._lost if isinstance(self._lost, Clocked) else None
        self._delays = Delays(link.latency_model, stream_keys(seed, key, purpose + "latency"))
        self._duplicates = stream("duplicate") if link.duplicate else None
        self._corrupts = stream("corrupt") if link.corrupt else None
        self._last = 0.0

    def carry(self, ends: Sequence[float]) -> Copies:
        """Return the arrivals of a frame whose fragments left at ``ends`` (seconds); none if one of them is lost."""
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
        """Return when one fragment of ``bits`` that left at ``end`` (s) arrives, or would, and whether it is lost."""
        if self._clocked is not None:
            self._clocked.time = end
        lost = self._losses is not None and self._lost(self._number(self._losses.uniform(), bits))
        return end + self._delays.next(), lost

    def _number(self, uniform: float, bits: int) -> float:
        """Return what is below p with the probability 1 − (1 − p)^(bits/loss_bits), for every p."""
        return uniform if self._loss_bits is None else 1.0 - (1.0 - uniform) ** (self._loss_bits / bits)

    def arrive(self, time: float) -> tuple[float, bool]:
        """Return when what reaches the receiver at ``time`` (s) is handed over, and whether it is corrupted."""
        return self._in_order(time), self._damages()

    def damaged_share(self) -> float:
        """Return where in a corrupted frame the flipped bit is, as a share of its length."""
        return self._corrupts.uniform() if self._corrupts is not None else 0.0

    def _in_order(self, arrival: float) -> float:
        if self._link.fifo:
            arrival = self._last = max(arrival, self._last)
        return arrival

    def _damages(self) -> bool:
        return self._corrupts is not None and self._corrupts.uniform() < self._link.corrupt


class Bursts:
    """The faults on one agent's links that change single frames.

    In a burst of jitter (`netsim.faults.Jitter`) frames take longer; `netsim.faults.Lose` loses the next frame.
    """

    __slots__ = ("_active", "_begun", "_latest", "_to_lose", "matter")

    def __init__(self) -> None:
        # By link index and the number of the fault: the most (s), and where draws come from.
        self._active: dict[int, dict[int, tuple[float, Stream]]] = {}
        # How many have begun, by link index and time (s).
        self._begun: dict[tuple[int, float], int] = {}
        # The latest arrival (s) on links that keep the order of frames, once they had a burst.
        self._latest: dict[int, float] = {}
        # How many of the next frames are lost, by link index.
        self._to_lose: dict[int, int] = {}
        # Whether frames must be looked at: in a burst, after one where none may overtake those that it delayed, and
        # where the next is lost.
        self.matter = False

    def count(self, link_index: int, at: float) -> int:
        """Count a burst that begins on a link at a time (s), and return how many of that time were before it."""
        before = self._begun.get((link_index, at), 0)
        self._begun[link_index, at] = before + 1
        return before

    def begin(self, link_index: int, number: int, most: float, stream: Stream, fifo: bool) -> None:
        """Delay frames of a link by up to ``most`` seconds more, drawn from ``stream``."""
        self._active.setdefault(link_index, {})[number] = most, stream
        if fifo:
            self._latest.setdefault(link_index, 0.0)
        self.matter = True

    def end(self, link_index: int, number: int) -> None:
        """Let a burst end."""
        del self._active[link_index][number]
        if not self._active[link_index]:
            del self._active[link_index]
        self._settle()

    def lose(self, link_index: int) -> None:
        """Lose one more of the next frames of a link."""
        self._to_lose[link_index] = self._to_lose.get(link_index, 0) + 1
        self.matter = True

    def loses(self, link_index: int) -> bool:
        """Return whether a frame that a link carries now is one that it loses."""
        if link_index not in self._to_lose:
            return False
        self._to_lose[link_index] -= 1
        if not self._to_lose[link_index]:
            del self._to_lose[link_index]
            self._settle()
        return True

    def _settle(self) -> None:
        self.matter = bool(self._active or self._latest or self._to_lose)

    def delayed(self, link_index: int, copies: Copies) -> Copies:
        """Return when the copies of a frame arrive, from when they would without a burst."""
        for most, stream in self._active.get(link_index, {}).values():
            copies = [(time + most * stream.uniform(), damaged) for time, damaged in copies]
        if link_index in self._latest:
            for number, (time, damaged) in enumerate(copies):
                self._latest[link_index] = max(self._latest[link_index], time)
                copies[number] = self._latest[link_index], damaged
        return copies
