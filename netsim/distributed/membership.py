"""A process among the others: heartbeats, whose datagrams are taken, when a run begins, and which processes are dead.

agent → outbox → link → inbox → agent: you are beside the links, between processes. Every process sends every other its
state, again and again, as a heartbeat. Nothing is acknowledged, so nothing depends on any one datagram: a process that
missed a heartbeat learns the same from the next. A heartbeat bears what it answers to, so it also measures how far two
clocks are apart; and one that was recorded before this process began answers to nothing of it.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from netsim.distributed.envelope import Heartbeat, Parcel, Refused, seal, unseal
from netsim.distributed.transport import Transport
from netsim.errors import NetsimError

__all__ = ["DROPPED", "Membership", "Peer", "Phase", "clock"]

DROPPED = ("strangers", "malformed", "replayed", "oversized", "stale")
"""Why datagrams are dropped: not authenticated, no message, seen before, too large, of another run."""

# Clocks are compared by the best of this many last answers.
_ANSWERS = 64
# Reasons are cut to this many characters.
_MOST_TEXT = 300

# The wall's clock, without the jumps that it may make.
_OFFSET = time.time() - time.monotonic()


def clock() -> float:
    """Return the time of the day in seconds since 1970, as it was when this process began plus what has passed."""
    return time.monotonic() + _OFFSET


class Phase(IntEnum):
    """How far a process is with a run."""

    MEETING = 0
    RUNNING = 1
    DONE = 2
    CLOSED = 3
    OVER = 4


@dataclass
class Peer:
    """What is known of another process."""

    # Of its last heartbeat; −1: none came yet.
    incarnation: int = -1
    number: int = -1
    # Whether it has answered a heartbeat of this process: before that, it could be a recording.
    met: bool = False
    # Its run, how far it is, the mark of what it runs, when the run began by its own clock (s), when its last agent
    # ended (simulated s).
    run: int = -1
    phase: int = Phase.MEETING
    mark: bytes = b""
    epoch: float | None = None
    done: float | None = None
    # Of its last run that is closed: the run, its end (simulated s), and the number of frames that it sent here.
    final: tuple[int, float, int] | None = None
    # What ended it, if that was an error.
    why: str = ""
    # When it was last heard, in seconds of `time.monotonic`.
    heard_at: float = float("-inf")
    last: tuple[float, float] | None = None
    # Round trips and offsets (s) of its clock.
    answers: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_ANSWERS))

    @property
    def offset(self) -> tuple[float, float] | None:
        """By how much (s) its clock is ahead of this process's, and the round trip (s) of that measurement."""
        if not self.answers:
            return None
        trip, offset = min(self.answers)
        return offset, trip

    def is_past(self, run: int, phase: Phase) -> bool:
        """Return whether it has come to a phase of a run."""
        return self.run > run or (self.run == run and self.phase >= phase)


class Membership:
    """This process among the others, whose datagrams a transport carries."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.key = transport.key or b""
        # The first of all processes decides when a run begins.
        self.hosts = sorted([transport.here, *transport.peers])
        self.me = self.hosts.index(transport.here)
        self.incarnation = time.time_ns()
        self.peers = {number: Peer() for number in range(len(self.hosts)) if number != self.me}
        # The present run; before the first, the one before that.
        self.run = transport.first_run - 1
        self.phase = Phase.MEETING
        self.mark = b""
        self.epoch: float | None = None
        self.done: float | None = None
        self.why = ""
        self.finals: tuple[int, float, Mapping[int, int]] | None = None
        # Of the present run: datagrams that were dropped, by `DROPPED`; and datagrams and their bytes.
        self.dropped: Counter[str] = Counter()
        self.sent = self.received = self.sent_bytes = self.received_bytes = 0
        # Takes in frames, and returns why not, if not.
        self.take: Callable[[Parcel], str] | None = None
        self.on_heartbeat: Callable[[], None] | None = None
        self._heartbeats = 0

    # --- datagrams ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin to hear and be heard."""
        self.transport.receive_with(self.receive)
        await self.transport.open()

    async def close(self) -> None:
        """Fall silent."""
        self.transport.receive_with(None)
        await self.transport.close()

    def send(self, host: int, message: Parcel | Heartbeat) -> None:
        """Send a message to a process."""
        data = seal(message, self.key)
        self.sent += 1
        self.sent_bytes += len(data)
        self.transport.send(self.hosts[host], data)

    def receive(self, data: bytes) -> None:
        """Take in a datagram; never an exception, whatever it is."""
        self.received += 1
        self.received_bytes += len(data)
        why = self._taken(data)
        if why:
            self.dropped[why] += 1

    def _taken(self, data: bytes) -> str:
        if len(data) > self.transport.most:
            return "oversized"
        try:
            message = unseal(data, self.key)
        except Refused as refused:
            return refused.why
        peer = self.peers.get(message.host)
        if peer is None:
            return "strangers"
        if type(message) is Heartbeat:
            return self._hear(message, peer)
        assert isinstance(message, Parcel)
        if not peer.met or message.incarnation != peer.incarnation:
            return "replayed" if message.incarnation < peer.incarnation else "stale"
        if self.take is None or message.run != self.run:
            return "stale"
        return self.take(message)

    # --- beats --------------------------------------------------------------------------------------------------------

    def send_heartbeat(self) -> None:
        """Send all others the state of this process."""
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
            "why": self.why[:_MOST_TEXT],
            "sent": clock(),
            "answer": None if peer.last is None else [peer.incarnation, *peer.last],
        }

    def _hear(self, beat: Heartbeat, peer: Peer) -> str:
        if (beat.incarnation, beat.number) <= (peer.incarnation, peer.number):
            return "replayed"
        state, now = _checked(beat.state), clock()
        if state is None:
            return "malformed"
        if beat.incarnation > peer.incarnation:
            # It is new, or began again.
            fresh = Peer(incarnation=beat.incarnation)
            for name, value in vars(fresh).items():
                setattr(peer, name, value)
        peer.number, peer.heard_at = beat.number, time.monotonic()
        peer.last = state["sent"], now
        answer = state["answer"]
        if answer is not None and answer[0] == self.incarnation:
            peer.met = True
            _, first, second = answer
            third, fourth = state["sent"], now
            peer.answers.append(((fourth - first) - (third - second), ((second - first) + (third - fourth)) / 2))
        peer.run, peer.phase, peer.mark = state["run"], state["phase"], state["mark"]
        peer.epoch, peer.done, peer.why = state["epoch"], state["done"], state["why"]
        if state["final"] is not None:
            run, end, count = state["final"]
            peer.final = run, end, count
        if self.on_heartbeat is not None:
            self.on_heartbeat()
        return ""

    # --- the others ---------------------------------------------------------------------------------------------------

    def is_alive(self, number: int) -> bool:
        """Return whether a process still takes part, as far as can be heard."""
        peer = self.peers[number]
        recent = time.monotonic() - peer.heard_at < self.transport.silence
        return recent and peer.phase != Phase.OVER

    def begin(self, mark: bytes) -> None:
        """Go on to the next run; ``mark`` is a hash of what is to be run."""
        self.run += 1
        self.dropped.clear()
        self.sent = self.received = self.sent_bytes = self.received_bytes = 0
        self.phase, self.mark, self.epoch, self.done = Phase.MEETING, mark, None, None

    def when(self, margin: float) -> float | None:
        """Return when the present run begins, or began, in seconds of this process's `clock`.

        NaN if the others have ended it; None if that is not known yet. The first process, once all are there, decides
        for ``margin`` seconds from now.

        Raises
        ------
        NetsimError
            If another process runs something else.
        """
        met = {number: peer for number, peer in self.peers.items() if peer.met}
        for number, peer in met.items():
            if peer.run == self.run and peer.mark != self.mark:
                raise NetsimError(
                    f"process {self.hosts[number]!r} runs something else: graph, links, seed, agents and their places "
                    "must be the same in all processes"
                )
        if any(peer.is_past(self.run, Phase.DONE) for peer in met.values()):
            return float("nan")
        for peer in met.values():
            if peer.run == self.run and peer.epoch is not None and peer.offset is not None:
                return peer.epoch - peer.offset[0]
        there = [peer for peer in met.values() if peer.run == self.run and peer.offset is not None]
        if self.me == 0 and len(there) == len(self.peers):
            return clock() + margin
        return None

    def met(self) -> dict[str, int]:
        """Return the incarnations of the processes that were met in the present run, by their names."""
        there = ((number, peer) for number, peer in self.peers.items() if peer.met and peer.run == self.run)
        return {self.hosts[number]: peer.incarnation for number, peer in there}

    def missing(self) -> list[str]:
        """Return the names of the processes that were not met yet, or are still at an earlier run."""
        return [self.hosts[number] for number, peer in self.peers.items() if not peer.met or peer.run < self.run]


def _checked(state: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a heartbeat says if it is of the form that `Membership._state_for` returns, else None."""
    try:
        sound = (
            type(state["run"]) is int
            and state["run"] >= 0
            and type(state["phase"]) is int
            and 0 <= state["phase"] <= Phase.OVER
            and type(state["mark"]) is bytes
            and _is_time(state["sent"])
            and all(state[name] is None or _is_time(state[name]) for name in ("epoch", "done"))
            and type(state["why"]) is str
            and len(state["why"]) <= _MOST_TEXT
            and (state["answer"] is None or _is_answer(*state["answer"]))
            and (state["final"] is None or _is_final(*state["final"]))
        )
    except (KeyError, TypeError):
        return None
    return state if sound else None


def _is_time(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_answer(incarnation: Any, sent: Any, came: Any) -> bool:
    return type(incarnation) is int and _is_time(sent) and _is_time(came)


def _is_final(run: Any, end: Any, count: Any) -> bool:
    return type(run) is int and _is_time(end) and type(count) is int
