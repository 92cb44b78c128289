"""A process among the others: what each says of itself, whose datagrams are taken, when a run begins and who is dead.

agent → outbox → link → inbox → agent: you are beside the links, between processes. Every process tells every other its
state, again and again (a beat). Nothing is acknowledged, so nothing depends on any one datagram: whoever missed a beat
learns the same from the next. A beat bears what it answers to, so it also measures how far two clocks are apart; and a
beat that was recorded before this process began answers to nothing of it.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from netsim.distributed.envelope import Beat, Parcel, Refused, seal, unseal
from netsim.distributed.transport import Transport
from netsim.errors import NetsimError

__all__ = ["DROPPED", "Peer", "Phase", "Session", "Taker", "clock"]

DROPPED = ("strangers", "malformed", "replayed", "oversized", "stale")
"""Why datagrams are dropped: not authenticated, no message, seen before, too large, of another run."""

# Clocks are compared by the best of the last so many answers.
_ANSWERS = 64
# Names and reasons of others are cut to so many characters.
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
    """What is known of another process.

    Attributes
    ----------
    incarnation, number : int
        Of its last beat; −1: none came yet.
    met : bool
        Whether it has answered a beat of this process: before that, a recording could be talking.
    run, phase, mark, epoch, done
        What it said: its run, how far it is, the mark of what it runs, when the run began by its own clock (s), when
        its last agent ended (simulated s).
    final : tuple or None
        Of its last run that is closed: the run, its end (simulated s), and how many frames it sent here.
    why : str
        What ended it, if that was an error.
    heard_at : float
        When it was last heard, in seconds of `time.monotonic`.
    answers : deque of (float, float)
        Round trips and offsets (s) of its clock.
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
    why: str = ""
    heard_at: float = float("-inf")
    last: tuple[float, float] | None = None
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


class Taker(Protocol):
    """Who takes in the frames of a run."""

    def take(self, parcel: Parcel) -> str:
        """Take in a frame; return why not, one of `DROPPED`, or ""."""


class Session:
    """This process among the others.

    Parameters
    ----------
    transport : Transport
        What carries its datagrams.

    Attributes
    ----------
    hosts : list of str
        The names of all processes; the first says when a run begins.
    me : int
        The place of this one.
    run : int
        The present run, from 0; the one before the first, before that.
    dropped : Counter
        Datagrams of the present run that were dropped, by `DROPPED`.
    sent, received : int
        Its datagrams so far.
    sent_bytes, received_bytes : int
        Their bytes.
    taker : Taker or None
        Who takes in frames.
    on_beat : callable or None
        Called after each beat that came.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.key = transport.key or b""
        self.hosts = sorted([transport.here, *transport.peers])
        self.me = self.hosts.index(transport.here)
        self.incarnation = time.time_ns()
        self.peers = {number: Peer() for number in range(len(self.hosts)) if number != self.me}
        self.run = transport.first_run - 1
        self.phase = Phase.MEETING
        self.mark = b""
        self.epoch: float | None = None
        self.done: float | None = None
        self.why = ""
        self.finals: tuple[int, float, Mapping[int, int]] | None = None
        self.dropped: Counter[str] = Counter()
        self.sent = self.received = self.sent_bytes = self.received_bytes = 0
        self.taker: Taker | None = None
        self.on_beat: Callable[[], None] | None = None
        self._beats = 0

    # --- datagrams ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin to hear and be heard."""
        self.transport.receive_with(self.receive)
        await self.transport.open()

    async def close(self) -> None:
        """Fall silent."""
        self.transport.receive_with(None)
        await self.transport.close()

    def post(self, host: int, message: Parcel | Beat) -> None:
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
        if type(message) is Beat:
            return self._hear(message, peer)
        assert isinstance(message, Parcel)
        if not peer.met or message.incarnation != peer.incarnation:
            return "replayed" if message.incarnation < peer.incarnation else "stale"
        if self.taker is None or message.run != self.run:
            return "stale"
        return self.taker.take(message)

    # --- beats --------------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Tell all others how far this process is."""
        for number in self.peers:
            self.post(number, Beat(self.me, self.incarnation, self._beats, self._said(number)))
        self._beats += 1

    def _said(self, to: int) -> dict[str, Any]:
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

    def _hear(self, beat: Beat, peer: Peer) -> str:
        if (beat.incarnation, beat.number) <= (peer.incarnation, peer.number):
            return "replayed"
        said, now = _checked(beat.said), clock()
        if said is None:
            return "malformed"
        if beat.incarnation > peer.incarnation:
            # It is new, or began again.
            fresh = Peer(incarnation=beat.incarnation)
            for name, value in vars(fresh).items():
                setattr(peer, name, value)
        peer.number, peer.heard_at = beat.number, time.monotonic()
        peer.last = said["sent"], now
        answer = said["answer"]
        if answer is not None and answer[0] == self.incarnation:
            peer.met = True
            _, first, second = answer
            third, fourth = said["sent"], now
            peer.answers.append(((fourth - first) - (third - second), ((second - first) + (third - fourth)) / 2))
        peer.run, peer.phase, peer.mark = said["run"], said["phase"], said["mark"]
        peer.epoch, peer.done, peer.why = said["epoch"], said["done"], said["why"]
        if said["final"] is not None:
            run, end, count = said["final"]
            peer.final = run, end, count
        if self.on_beat is not None:
            self.on_beat()
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


def _checked(said: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a beat says if it is of the form that `Session._said` has, else None."""
    try:
        sound = (
            type(said["run"]) is int
            and said["run"] >= 0
            and type(said["phase"]) is int
            and 0 <= said["phase"] <= Phase.OVER
            and type(said["mark"]) is bytes
            and _is_time(said["sent"])
            and all(said[name] is None or _is_time(said[name]) for name in ("epoch", "done"))
            and type(said["why"]) is str
            and len(said["why"]) <= _MOST_TEXT
            and (said["answer"] is None or _is_answer(*said["answer"]))
            and (said["final"] is None or _is_final(*said["final"]))
        )
    except (KeyError, TypeError):
        return None
    return said if sound else None


def _is_time(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_answer(incarnation: Any, sent: Any, came: Any) -> bool:
    return type(incarnation) is int and _is_time(sent) and _is_time(came)


def _is_final(run: Any, end: Any, count: Any) -> bool:
    return type(run) is int and _is_time(end) and type(count) is int
