"""A shared radio: transmissions that overlap at a receiver destroy each other there.

agent → outbox → link → inbox → agent: you are on the link.
"""

import bisect
import math

__all__ = ["Air"]


class Air:
    """What each receiver hears: who is on the air from when to when.

    Pure ALOHA as far as the medium goes: nobody listens before talking, and every neighbour's transmission interferes,
    whether or not its own frame would have been lost on the way.
    """

    def __init__(self) -> None:
        self._heard: dict[int, _Spectrum] = {}

    def hear(self, receiver: int, collided: set[int], now: float, start: float, end: float) -> tuple[bool, list[int]]:
        """Put a transmission on the air at one receiver, from ``start`` to ``end`` (seconds).

        The keys of earlier ones that it overlaps are put into ``collided``. Return whether there are any, and a list
        for the keys of its own copies that are under way to the inbox, which later ones may destroy.
        """
        spectrum = self._heard.get(receiver)
        if spectrum is None:
            spectrum = self._heard[receiver] = _Spectrum()
        spectrum.forget(now)
        hit = spectrum.overlapping(start, end)
        for keys in hit:
            collided.update(keys)
        return bool(hit), spectrum.add(start, end)


class _Spectrum:
    """Transmissions at one receiver, in the order of their starts: queued ones may start much later."""

    __slots__ = ("_ends", "_keys", "_longest", "_starts")

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._keys: list[list[int]] = []
        self._longest = 0.0

    def forget(self, now: float) -> None:
        """Drop the first ones that have ended."""
        gone = 0
        while gone < len(self._ends) and self._ends[gone] <= now:
            gone += 1
        if gone:
            del self._starts[:gone], self._ends[:gone], self._keys[:gone]

    def overlapping(self, start: float, end: float) -> list[list[int]]:
        """Return the keys of each transmission that shares some time with this one."""
        # None that starts before this, and lasts at most so long, reaches it.
        first = bisect.bisect_left(self._starts, start - self._longest - 4 * math.ulp(start))
        last = bisect.bisect_left(self._starts, end)
        return [self._keys[i] for i in range(first, last) if start < self._ends[i]]

    def add(self, start: float, end: float) -> list[int]:
        """Put one on the air."""
        place = bisect.bisect_right(self._starts, start)
        keys: list[int] = []
        self._starts.insert(place, start)
        self._ends.insert(place, end)
        self._keys.insert(place, keys)
        self._longest = max(self._longest, end - start)
        return keys
