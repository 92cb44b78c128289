"""Bursts of jitter on one agent's links (`netsim.faults.Jitter`): frames offered meanwhile take longer.

agent → outbox → link → inbox → agent: you are on the link, for as long as something is wrong with it.
"""

from netsim.transport.path import Copies
from netsim.util.draws import Stream

__all__ = ["Bursts"]


class Bursts:
    """What bursts there are, by link.

    Attributes
    ----------
    matter : bool
        Whether frames must be looked at: in a burst, and after one where none may overtake those that it delayed.
    """

    __slots__ = ("_active", "_latest", "matter")

    def __init__(self) -> None:
        # By place and the number of the fault: the most (s), and where draws come from.
        self._active: dict[int, dict[int, tuple[float, Stream]]] = {}
        # The latest arrival (s) on links that keep the order of frames, once they had a burst.
        self._latest: dict[int, float] = {}
        self.matter = False

    def begin(self, place: int, number: int, most: float, stream: Stream, fifo: bool) -> None:
        """Delay frames of a link by up to ``most`` seconds more, drawn from ``stream``."""
        self._active.setdefault(place, {})[number] = most, stream
        if fifo:
            self._latest.setdefault(place, 0.0)
        self.matter = True

    def end(self, place: int, number: int) -> None:
        """Let a burst end."""
        del self._active[place][number]
        if not self._active[place]:
            del self._active[place]
        self.matter = bool(self._active or self._latest)

    def delayed(self, place: int, copies: Copies) -> Copies:
        """Return when the copies of a frame arrive, from when they would without a burst."""
        for most, stream in self._active.get(place, {}).values():
            copies = [(time + most * stream.uniform(), damaged) for time, damaged in copies]
        if place in self._latest:
            for number, (time, damaged) in enumerate(copies):
                self._latest[place] = max(self._latest[place], time)
                copies[number] = self._latest[place], damaged
        return copies
