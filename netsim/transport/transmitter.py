"""The sending side of a link: bit budget, fragmentation, queue and transmission rate.

A transmitter needs no timer: it stores the time until which it is busy, and computes a frame's departure times when the
frame is offered.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netsim.links.link import Budget, Link
from netsim.util.check import ROUNDING

__all__ = ["Departure", "Shift", "Transmitter", "bit_limit", "time_tolerance", "transmitters_of"]

# The smallest tolerance (s) for comparing times: times are rounded sums, so a timer may run slightly too early.
_EARLY = 1e-9


def time_tolerance(now: float) -> float:
    """Return the rounding tolerance (s) of sums of times near ``now``, which grows with ``now``."""
    return max(_EARLY, 4 * math.ulp(now))


Shift = tuple[int, float, float, int]
"""A frame whose departure changes because of a new rate: the number of its transmission, the change of the departure
(s), the new time at which its first bit leaves (s; −∞: it has left), and the frame's bits.
"""

Release = Callable[[float, int], float]
"""A function of (now, bits): the earliest time (s) at which a frame may be sent; infinity if it is refused."""


def bit_limit(bits: float) -> float:
    """Add a rounding tolerance to a limit in bits: as a float, 0.29 * 800 is below 232, but must permit 232 bits."""
    return bits if bits.is_integer() else bits * (1 + ROUNDING)


def _bucket(budget: Budget) -> Release:
    """Return the `Release` of a budget per second: a token bucket."""
    # The bucket held ``tokens`` bits at the time ``then`` (s) of its last update.
    size = budget.bits if budget.burst is None else budget.burst
    most = bit_limit(size)
    tokens, then = size, 0.0

    def release(now: float, bits: int) -> float:
        nonlocal tokens, then
        start = max(now, then)
        held = min(size, tokens + (start - then) * budget.bits)
        wait = max(0.0, (bits - held) / budget.bits)
        if bits > most or start + wait == math.inf or (budget.over == "refuse" and wait > time_tolerance(now)):
            return math.inf
        if budget.over == "refuse":
            wait = 0.0
        tokens, then = held + wait * budget.bits - bits, start + wait
        return then

    return release


def _per_round(budget: Budget, period: float, offset: float) -> Release:
    """Return the `Release` of a budget per round, which is renewed at ``offset`` (s) and then every ``period`` (s)."""
    window, used = -math.inf, 0
    most = bit_limit(budget.bits)

    def release(now: float, bits: int) -> float:
        nonlocal window, used
        if bits > most:
            return math.inf
        # Because of rounding errors, a round may open slightly before or after the exact multiple of the period.
        since = now - offset
        present = math.floor(max(since / period + 1e-9, (since + 4 * math.ulp(now)) / period))
        if present > window:
            window, used = present, 0
        if used + bits > most:
            if budget.over == "refuse":
                return math.inf
            # ``window`` is the last round of which budget was used: continue with the round after it. Queued frames may
            # have used the budgets of future rounds, so ``window`` may be later than the current round.
            window, used = window + 1, 0
        used += bits
        return max(now, offset + window * period)

    return release


@dataclass(frozen=True)
class Departure:
    """The result of offering a frame to the transmitter of a link or of an agent's radio.

    Attributes
    ----------
    cause : int
        The cause of rejection, or 0 if the frame was accepted.
    start : float
        The time (s) at which transmission starts.
    ends : sequence of float
        For each fragment, the time (s) at which its last bit has been sent.
    bits : int
        Bits sent, including headers.
    """

    cause: int
    start: float
    ends: Sequence[float]
    bits: int


class Transmitter:
    """The sending side of a wired link or of an agent's radio; the first round starts at ``offset`` (s)."""

    __slots__ = (
        "_busy_until",
        "_held_bits",
        "_leave",
        "_link",
        "_mtu",
        "_queue",
        "_queue_bits",
        "_queued",
        "_rate",
        "header_bits",
        "release",
    )

    def __init__(self, link: Link, round_period: float, offset: float = 0.0) -> None:
        self._link = link
        # Not isinstance(…, Rate): checking a runtime protocol would take longer than the rest of this method.
        self._rate = link.rate if isinstance(link.rate, float | int) else None
        self._leave = None if link.rate is None or isinstance(link.rate, float | int) else link.rate.on_port()
        self._queue = math.inf if link.queue is None else link.queue
        self._queue_bits = math.inf if link.queue_bits is None else link.queue_bits
        self._mtu = link.mtu
        self.header_bits = link.header_bits
        # Returns the time from which the budget allows a frame to be sent; None without a budget.
        self.release: Release | None = None
        if link.budget is not None:
            budget = link.budget_model
            self.release = _bucket(budget) if budget.per == "second" else _per_round(budget, round_period, offset)
        self._busy_until = 0.0
        # (departure time of the last bit (s), bits, transmission number) of each frame that has not left.
        self._queued: deque[tuple[float, int, int]] = deque()
        self._held_bits = 0

    def fragments(self, size: int) -> list[int]:
        """Return the number of bits, header included, of each fragment of a frame of ``size`` bytes."""
        if self._mtu is None or size <= self._mtu:
            return [8 * size + self.header_bits]
        whole, rest = divmod(size, self._mtu)
        parts = [self._mtu] * whole + ([rest] if rest else [])
        return [8 * part + self.header_bits for part in parts]

    def accept(self, now: float, fragments: list[int], number: int = 0) -> tuple[str, float, list[float]]:
        """Offer a frame, given by the bits of its fragments.

        Return the cause of rejection ("" if accepted), the start time and the end time of each fragment (s). ``number``
        is the transmission number, by which `change` identifies a waiting frame.
        """
        bits = sum(fragments)
        held = self._queued
        present = now + time_tolerance(now)
        while held and held[0][0] <= present:
            self._held_bits -= held.popleft()[1]
        if len(held) >= self._queue or self._held_bits + bits > self._queue_bits:
            return "queue_full", now, []
        start = now
        if self.release is not None:
            start = self.release(now, bits)
            if start == math.inf:
                return "refused", now, []
        start = end = max(start, self._busy_until)
        ends = []
        for part in fragments:
            if self._leave is not None:
                end = self._leave(end, part)
            else:
                end += part / self._rate if self._rate is not None else 0.0
            ends.append(end)
        self._busy_until = end
        held.append((end, bits, number))
        self._held_bits += bits
        return "", start, ends

    def change(self, link: Link, now: float) -> "list[Shift]":
        """Change the constant rate and the queue limits; return the frames whose departures change.

        A link whose rate changes has no budget. So its waiting frames are sent back to back, and the same factor scales
        all remaining times.
        """
        # Only constant rates occur here, because `netsim.engine.link_changes` refuses to change varying rates.
        before, rate = self._rate, link.rate if isinstance(link.rate, float | int) else None
        self._queue = math.inf if link.queue is None else link.queue
        self._queue_bits = math.inf if link.queue_bits is None else link.queue_bits
        self._link, self._rate = link, rate
        if rate == before or self._busy_until <= now or before is None:
            return []
        scale = 0.0 if rate is None else before / rate
        self._busy_until = now + (self._busy_until - now) * scale
        shifts: list[Shift] = []
        last = now
        for place, (end, bits, number) in enumerate(self._queued):
            if end > now:
                left = now + (end - now) * scale
                shifts.append((number, left - end, last if shifts else -math.inf, bits))
                self._queued[place], last = (left, bits, number), left
        return shifts

    def clear(self, now: float) -> None:
        """Drop all frames that have not left at ``now`` (s); the budget that they used is not returned."""
        self._queued.clear()
        self._held_bits, self._busy_until = 0, min(self._busy_until, now)
        if self._leave is not None:
            self._leave = self._link.rate.on_port()  # type: ignore[union-attr]


def transmitters_of(
    links: Sequence[Link],
    radio: Link | None,
    round_period: float,
    offset: float,
    make: Callable[[Link, float, float], Transmitter] = Transmitter,
) -> dict[int, Transmitter]:
    """Return {link index: transmitter} for the links that need a transmitter; all links of a radio share one."""
    if radio is not None:
        return dict.fromkeys(range(len(links)), make(radio, round_period, offset)) if radio.has_port else {}
    return {index: make(link, round_period, offset) for index, link in enumerate(links) if link.has_port}
