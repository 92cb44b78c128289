"""Group membership of processes: exchange heartbeats, check datagrams, agree on a start time, detect dead processes.

Every process periodically sends its state to every other process, in a heartbeat. Heartbeats are not acknowledged,
because each repeats the whole state. Each heartbeat echoes the timestamp of the last heartbeat that its sender received
from this process. The echo measures the offset between the two clocks, and proves that the heartbeat is not a recording
from before this process started.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import NoneType
from typing import Any

from netsim.distributed.envelope import FrameBatch, Heartbeat, Refused, fits, seal, unseal
from netsim.distributed.transport import Transport
from netsim.errors import NetsimError

__all__ = ["DROPPED", "Membership", "Peer", "Phase", "clock"]

DROPPED = ("strangers", "malformed", "replayed", "oversized", "stale")
"""Reasons for dropping a datagram, in this order: it is not authenticated, holds no valid message, was received before,
is too large, or belongs to another run."""

# Number of recent round trips kept for each peer. The shortest one measures the offset between the two clocks most
# accurately.
_MEASUREMENTS = 64
# Maximum length, in characters, of an error's text in a heartbeat.
_MAX_TEXT = 300


def _is_time(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


# The form (`netsim.distributed.envelope.fits`) of the state in a heartbeat.
_STATE = {
    **{"run": int, "phase": int, "mark": bytes, "epoch": (NoneType, _is_time), "done": (NoneType, _is_time)},
    **{"why": str, "sent": _is_time, "final": (NoneType, [int, _is_time, int])},
    "answer": (NoneType, [int, _is_time, _is_time]),
}

# The time of day minus the monotonic clock (s). It is read only once, so that later adjustments of the system clock
# have no effect.
_OFFSET = time.time() - time.monotonic()


def clock() -> float:
    """Return the time of day in seconds since 1970; later adjustments of the system clock do not change it."""
    return time.monotonic() + _OFFSET


class Phase(IntEnum):
    """The phases of a process in a run, in order; OVER means that the process left the run early, after an error."""

    MEETING = 0
    RUNNING = 1
    DONE = 2
    CLOSED = 3
    OVER = 4


@dataclass
class Peer:
    """The last known state of another process.

    Attributes
    ----------
    incarnation, number : int
        Start time (ns) and sequence number in the last heartbeat; −1 before the first.
    met : bool
        Whether the process has echoed a heartbeat of this process. Until then, its heartbeats could be replayed ones.
    run, phase : int
        The number of the process's current run, and the process's `Phase` in that run.
    mark : bytes
        Hash of the run's settings.
    epoch : float or None
        Start of the run (s) on the clock of that process.
    done : float or None
        Time (simulated s) at which the process's last agent ended.
    final : (int, float, int) or None
        The last run that the process has closed: (run number, end in simulated s, number of frames that the process
        sent to this process in that run).
    heard_at : float
        Arrival time of the last heartbeat (`time.monotonic`, s).
    last : (float, float) or None
        When the last heartbeat was sent (s, peer's clock), and when it arrived (s, this process's clock).
    measurements : deque of (float, float)
        The recent measurements: (round trip in s, clock offset in s).
    """

    incarnation: int = -1
    number: int = -1
    met: bool = False
    run: int = -1
    phase: int = Phase.MEETING
    mark: bytes = b""
    epoch: float | None = None
    done: float | None = None
    final: tuple[int, float, int] | None = None
    heard_at: float = float("-inf")
    last: tuple[float, float] | None = None
    measurements: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_MEASUREMENTS))

    @property
    def offset(self) -> tuple[float, float] | None:
        """(offset, round trip) in s: by how much the peer's clock is ahead, and the round trip that measured it."""
        if not self.measurements:
            return None
        trip, offset = min(self.measurements)
        return offset, trip

    def has_reached(self, run: int, phase: Phase) -> bool:
        """Return whether the peer has reached a phase of a run, or is in a later run."""
        return self.run > run or (self.run == run and self.phase >= phase)


class Membership:
    """The states of this process and of its peers, exchanged as heartbeats over a transport."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.key = transport.key or b""
        # Sorted, so that all processes agree on the indices. The process with index 0 sets the start time of a run.
        self.hosts = sorted([transport.here, *transport.peers])
        self.me = self.hosts.index(transport.here)
        self.incarnation = time.time_ns()
        self.peers = {number: Peer() for number in range(len(self.hosts)) if number != self.me}
        # The number of the current run. Before the first run, it is one less than the number of the first run.
        self.run = transport.first_run - 1
        self.phase = Phase.MEETING
        self.mark = b""
        self.epoch: float | None = None
        self.done: float | None = None
        self.error = ""
        self.finals: tuple[int, float, Mapping[int, int]] | None = None
        # Counters of the current run. `dropped`: dropped datagrams, by reason (`DROPPED`). `sent`, `received`,
        # `sent_bytes`, `received_bytes`: datagrams sent and received, and their bytes.
        self.dropped: Counter[str] = Counter()
        self.sent = self.received = self.sent_bytes = self.received_bytes = 0
        # Called with each received batch of frames; returns the reason (`DROPPED`) if it drops a frame, else "".
        self.take: Callable[[FrameBatch], str] | None = None
        self.on_heartbeat: Callable[[], None] | None = None
        self._heartbeats = 0

    # --- datagrams ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the transport, and start to exchange datagrams."""
        self.transport.receive_with(self.receive)
        await self.transport.open()

    async def close(self) -> None:
        """Ignore datagrams from now on, and close the transport."""
        self.transport.receive_with(None)
        await self.transport.close()

    def send(self, host: int, message: FrameBatch | Heartbeat) -> None:
        """Send a message to a process."""
        data = seal(message, self.key)
        self.sent += 1
        self.sent_bytes += len(data)
        self.transport.send(self.hosts[host], data)

    def receive(self, data: bytes) -> None:
        """Count a received datagram and process its message; if it is dropped, count the reason, too."""
        self.received += 1
        self.received_bytes += len(data)
        reason = self._accept(data)
        if reason:
            self.dropped[reason] += 1

    def _accept(self, data: bytes) -> str:
        """Process the message in a datagram; return the reason (`DROPPED`) if it is dropped, else ""."""
        if len(data) > self.transport.most:
            return "oversized"
        try:
            message = unseal(data, self.key)
        except Refused as refused:
            return str(refused)
        peer = self.peers.get(message.host)
        if peer is None:
            return "strangers"
        if type(message) is Heartbeat:
            return self._accept_heartbeat(message, peer)
        assert isinstance(message, FrameBatch)
        if not peer.met or message.incarnation != peer.incarnation:
            return "replayed" if message.incarnation < peer.incarnation else "stale"
        if self.take is None or message.run != self.run:
            return "stale"
        return self.take(message)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def send_heartbeat(self) -> None:
        """Send the state of this process to all others."""
        for number in self.peers:
            self.send(number, Heartbeat(self.me, self.incarnation, self._heartbeats, self._state_for(number)))
        self._heartbeats += 1

    def _state_for(self, to: int) -> dict[str, Any]:
        peer = self.peers[to]
        final = None
        if self.finals is not None:
            run, end, counts = self.finals
            final = [run, end, counts.get(to, 0)]
        return {
            "run": max(self.run, 0),
            "phase": int(self.phase),
            "mark": self.mark,
            "epoch": self.epoch,
            "done": self.done,
            "final": final,
            "why": self.error[:_MAX_TEXT],
            "sent": clock(),
            "answer": None if peer.last is None else [peer.incarnation, *peer.last],
        }

    def _accept_heartbeat(self, heartbeat: Heartbeat, peer: Peer) -> str:
        if (heartbeat.incarnation, heartbeat.number) <= (peer.incarnation, peer.number):
            return "replayed"
        state, now = heartbeat.state, clock()
        if not _is_sound(state):
            return "malformed"
        if heartbeat.incarnation > peer.incarnation:
            # The process is new or has restarted: forget the state of its predecessor.
            peer = self.peers[heartbeat.host] = Peer(incarnation=heartbeat.incarnation)
        peer.number, peer.heard_at = heartbeat.number, time.monotonic()
        peer.last = state["sent"], now
        answer = state["answer"]
        if answer is not None and answer[0] == self.incarnation:
            peer.met = True
            # The clock offset is measured as in NTP: this process sent a heartbeat at the time ``left``, the peer
            # received it at ``arrived`` and answered at ``returned``, and this process receives the answer ``now``.
            _, left, arrived = answer
            returned = state["sent"]
            peer.measurements.append(((now - left) - (returned - arrived), ((arrived - left) + (returned - now)) / 2))
        peer.run, peer.phase, peer.mark = state["run"], state["phase"], state["mark"]
        peer.epoch, peer.done = state["epoch"], state["done"]
        if state["final"] is not None:
            run, end, count = state["final"]
            peer.final = run, end, count
        if self.on_heartbeat is not None:
            self.on_heartbeat()
        return ""

    # --- other processes ----------------------------------------------------------------------------------------------

    def is_alive(self, number: int) -> bool:
        """Return whether a process is alive: its last heartbeat is recent, and its phase is not OVER."""
        peer = self.peers[number]
        recent = time.monotonic() - peer.heard_at < self.transport.silence
        return recent and peer.phase != Phase.OVER

    def begin(self, mark: bytes) -> None:
        """Begin the next run; ``mark`` is a hash of its settings."""
        self.run += 1
        self.dropped.clear()
        self.sent = self.received = self.sent_bytes = self.received_bytes = 0
        self.phase, self.mark, self.epoch, self.done = Phase.MEETING, mark, None, None

    def start_time(self, margin: float) -> float | None:
        """Return the start time of the current run in seconds of this process's `clock`; None if it is not known yet.

        NaN means that the other processes have already ended the run. Once all processes have met, the process with
        index 0 sets the start to ``margin`` seconds from now. Raises NetsimError if another process has different
        settings.
        """
        met = {number: peer for number, peer in self.peers.items() if peer.met}
        for number, peer in met.items():
            if peer.run == self.run and peer.mark != self.mark:
                raise NetsimError(
                    f"process {self.hosts[number]!r} runs something else: graph, links, seed, agents and the process "
                    "of each agent must be the same in all processes"
                )
        if any(peer.has_reached(self.run, Phase.DONE) for peer in met.values()):
            return float("nan")
        for peer in met.values():
            if peer.run == self.run and peer.epoch is not None and peer.offset is not None:
                return peer.epoch - peer.offset[0]
        there = [peer for peer in met.values() if peer.run == self.run and peer.offset is not None]
        if self.me == 0 and len(there) == len(self.peers):
            return clock() + margin
        return None

    def met(self) -> dict[str, int]:
        """Return {process: incarnation} for the processes that this process has met in the current run."""
        there = ((number, peer) for number, peer in self.peers.items() if peer.met and peer.run == self.run)
        return {self.hosts[number]: peer.incarnation for number, peer in there}

    def missing(self) -> list[str]:
        """Return the names of the processes that this process has not met yet, or that are still in an earlier run."""
        return [self.hosts[number] for number, peer in self.peers.items() if not peer.met or peer.run < self.run]


def _is_sound(state: dict[str, Any]) -> bool:
    """Return whether the state in a received heartbeat has the fields and types that `Membership._state_for` writes."""
    return (
        fits(state, _STATE)
        and len(state) == len(_STATE)
        and state["run"] >= 0
        and 0 <= state["phase"] <= Phase.OVER
        and len(state["why"]) <= _MAX_TEXT
    )
