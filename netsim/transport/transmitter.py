"""What a sender's side does to a frame: a bit budget, fragments, a queue, and sending at a rate.

All of it is arithmetic on times. A transmitter knows until when it is busy, so the times at which a frame's last bits
leave are known the moment the frame is offered, and no timer is needed.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netsim._former import former_names
from netsim.core import Frame
from netsim.links.link import Budget, Link
from netsim.links.rate import Rate
from netsim.util.check import ROUNDING

__all__ = ["Departure", "Transmitter", "TxRequest", "early", "transmitters_of"]

__getattr__ = former_names(__name__)

# Times are rounded, and timers may run this much early (seconds).
_EARLY = 1e-9


def early(now: float) -> float:
    """Return by how much (s) sums of times may miss the present; far from 0 they are rounded more coarsely."""
    return max(_EARLY, 4 * math.ulp(now))


Release = Callable[[float, int], float]
"""From (now, bits) the time from which the frame may be sent, or infinity if it is refused."""


def _most(bits: float) -> float:
    """Return up to how many bits a budget lets through; a product that was rounded down is meant as it would be exact.

    A frame is a whole number of bits: a budget of 0.29 * 800 carries one of 232.
    """
    return bits if bits.is_integer() else bits * (1 + ROUNDING)


def _bucket(budget: Budget) -> Release:
    """Return a token bucket: ``tokens`` were there at time ``then``."""
    size = budget.bits if budget.burst is None else budget.burst
    most = _most(size)
    tokens, then = size, 0.0

    def release(now: float, bits: int) -> float:
        nonlocal tokens, then
        start = max(now, then)
        held = min(size, tokens + (start - then) * budget.bits)
        wait = max(0.0, (bits - held) / budget.bits)
        if bits > most or start + wait == math.inf or (budget.over == "refuse" and wait > early(now)):
            return math.inf
        if budget.over == "refuse":
            wait = 0.0
        tokens, then = held + wait * budget.bits - bits, start + wait
        return then

    return release


def _per_round(budget: Budget, period: float, offset: float) -> Release:
    """Return a budget that is whole again at each multiple of ``period`` after ``offset`` (s)."""
    window, used = -math.inf, 0
    most = _most(budget.bits)

    def release(now: float, bits: int) -> float:
        nonlocal window, used
        if bits > most:
            return math.inf
        # A round opens within rounding error of its multiple of the period, before or after.
        since = now - offset
        present = math.floor(max(since / period + 1e-9, (since + 4 * math.ulp(now)) / period))
        if present > window:
            window, used = present, 0
        if used + bits > most:
            if budget.over == "refuse":
                return math.inf
            # What waits may have used up the round after this one, and more.
            window, used = window + 1, 0
        used += bits
        return max(now, offset + window * period)

    return release


@dataclass(frozen=True, slots=True)
class TxRequest:
    """A frame that an outbox asks a node's MAC layer to send on a `netsim.Radio` (`netsim.radio.mac.Mac.take`)."""

    # As in `netsim.core.records.Transmission`.
    number: int
    kind: int
    frame: Frame
    # The sender's links that it is for, and whether it is for one neighbour, which may acknowledge it.
    link_indices: Sequence[int]
    to_one: bool
    # Where to put whether it was acknowledged.
    outcome: asyncio.Future[bool] | None = None


@dataclass(frozen=True)
class Departure:
    """How a frame got through the transmitter of one link, or of an agent's radio."""

    # Why it did not; 0 if it did.
    cause: int
    # When sending starts, and when each fragment has left, in seconds.
    start: float
    ends: Sequence[float]
    # What is sent, headers included.
    bits: int


class Transmitter:
    """One sender's queue and transmitter, of a link on wires or an agent on a radio; rounds count from ``offset``."""

    __slots__ = (
        "_busy_until",
        "_held",
        "_held_bits",
        "_leave",
        "_mtu",
        "_queue",
        "_queue_bits",
        "_rate",
        "header_bits",
        "release",
    )

    def __init__(self, link: Link, round_period: float, offset: float = 0.0) -> None:
        self._leave = link.rate.on_port() if isinstance(link.rate, Rate) else None
        self._rate = None if isinstance(link.rate, Rate) else link.rate
        self._queue = math.inf if link.queue is None else link.queue
        self._queue_bits = math.inf if link.queue_bits is None else link.queue_bits
        self._mtu = link.mtu
        self.header_bits = link.header_bits
        # The budget, where there is one.
        self.release: Release | None = None
        if link.budget is not None:
            budget = link.budget_model
            self.release = _bucket(budget) if budget.per == "second" else _per_round(budget, round_period, offset)
        self._busy_until = 0.0
        self._held: deque[tuple[float, int]] = deque()
        self._held_bits = 0

    def fragments(self, size: int) -> list[int]:
        """Return the bits of each fragment, header included, of a frame of ``size`` bytes."""
        if self._mtu is None or size <= self._mtu:
            return [8 * size + self.header_bits]
        whole, rest = divmod(size, self._mtu)
        parts = [self._mtu] * whole + ([rest] if rest else [])
        return [8 * part + self.header_bits for part in parts]

    def accept(self, now: float, fragments: list[int]) -> tuple[str, float, list[float]]:
        """Take a frame: return why not ("" if taken), and when (s) sending starts and each fragment has left."""
        bits = sum(fragments)
        held = self._held
        present = now + early(now)
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
        held.append((end, bits))
        self._held_bits += bits
        return "", start, ends


def transmitters_of(
    links: Sequence[Link], radio: Link | None, round_period: float, offset: float
) -> dict[int, Transmitter]:
    """Return the transmitters by link index: of links that queue, refuse or fragment frames; a radio has one."""
    if radio is not None:
        return dict.fromkeys(range(len(links)), Transmitter(radio, round_period, offset)) if radio.has_port else {}
    return {
        link_index: Transmitter(link, round_period, offset) for link_index, link in enumerate(links) if link.has_port
    }
