"""Frames to and from other processes: what stands in the place of an agent elsewhere, and what puts its frames here.

agent → outbox → link → inbox → agent: you are between link and inbox, which are in two processes. Frames of a link are
numbered, so that what got lost between the processes is known, and what comes twice is noticed.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from netsim._wiring import Parts
from netsim.core import Arrivals, Tally
from netsim.errors import AgentError, WireError
from netsim.sockets.envelope import OVERHEAD, Parcel
from netsim.sockets.session import Session
from netsim.transport.framing import decode_frame

__all__ = ["Far", "Post"]

# Frames of a link beyond one that has not come; and kinds of message that others may bring up.
_WINDOW = 10_000
_MOST_KINDS = 10_000


class Far:
    """What stands in the place of an agent that runs elsewhere: links put frames into ``arrivals``, as into an inbox's.

    See `netsim.transport.wiring.Neighbor`.
    """

    def __init__(self, name: Hashable, tally: Tally, send: Callable[[Hashable, list[Any]], None]) -> None:
        self.arrivals = Arrivals(tally)
        self.collided: set[int] = set()
        self.watchers: list[Any] = []
        self._name = name
        self._send = send

    def listen(self) -> None:
        """Let the senders say when something is on its way, from now on."""
        for noted, place in zip(self.watchers[::2], self.watchers[1::2], strict=True):
            noted[place] = self

    def watch(self) -> None:
        """Send off what has been put into the arrivals."""
        self._send(self._name, self.arrivals.due(math.inf))


class _Sequence:
    """Which frames of a link have come."""

    __slots__ = ("_beyond", "_next", "count")

    def __init__(self) -> None:
        self._next, self._beyond = 0, set[int]()
        self.count = 0

    def take(self, number: int) -> bool:
        """Note a frame; return whether it is new."""
        if number < self._next or number in self._beyond:
            return False
        self.count += 1
        if number == self._next and not self._beyond:
            # As nearly all come.
            self._next += 1
            return True
        self._beyond.add(number)
        if len(self._beyond) > _WINDOW:
            # What has not come so far is not waited for.
            self._next = min(self._beyond)
        while self._next in self._beyond:
            self._beyond.remove(self._next)
            self._next += 1
        return True


class Post:
    """The frames of one run that cross between processes.

    Parameters
    ----------
    session : Session
        This process among the others.
    places : mapping
        {agent: number of its process}.
    keeps : bool
        Whether the event log is to be written.

    Attributes
    ----------
    before_sending : callable
        Called before frames leave this process.
    closed : bool
        Whether nothing more is taken in.
    """

    def __init__(self, session: Session, places: Mapping[Hashable, int], keeps: bool) -> None:
        self._session = session
        self._places = places
        self._fars: list[Far] = []
        self._kinds: list[str] = []
        self._sent: dict[int, int] = {}
        self._heard: dict[int, dict[int, _Sequence]] = {number: {} for number in session.peers}
        # What a process received before it began again belongs to frames that its successor does not know of.
        self._incarnations: dict[int, int] = {}
        self._early: list[Parcel] = []
        self._parts: Parts | None = None
        # By link: the sender's process, the sender, the receiver.
        self._ends: list[tuple[int, Hashable, Hashable]] = []
        self._names: list[Hashable] = []
        self.keeps = keeps
        self.before_sending: Callable[[], None] = lambda: None
        self.closed = False

    def place_of(self, agent: Hashable) -> int:
        """Return the number of the process in which an agent runs."""
        return self._places[agent]

    def is_here(self, agent: Hashable) -> bool:
        """Return whether an agent runs in this process."""
        return self._places[agent] == self._session.me

    def stand_in(self, agent: Hashable, tally: Tally) -> Far | None:
        """Return what takes the frames for an agent that runs elsewhere; None if it runs here."""
        if self.is_here(agent):
            return None
        far = Far(agent, tally, self._send)
        self._fars.append(far)
        return far

    def connect(self, parts: Parts) -> None:
        """Take part in a run that is built."""
        self._parts, self._names = parts, list(parts.inboxes)
        ledger, names = parts.ledger, self._names
        for sender, receiver in zip(ledger.senders.tolist(), ledger.receivers.tolist(), strict=True):
            self._ends.append((self._places[names[sender]], names[sender], names[receiver]))
        for far in self._fars:
            far.listen()
        early, self._early = self._early, []
        for parcel in early:
            self.take(parcel)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, to: Hashable, entries: list[Any]) -> None:
        assert self._parts is not None
        session, tally = self._session, self._parts.shared.tally
        self.before_sending()
        if len(tally.kinds) > len(self._kinds):
            self._kinds = list(tally.kinds)
        for time, key, kind, frame in entries:
            link = key >> tally.shift
            number = self._sent.get(link, 0)
            self._sent[link] = number + 1
            name, most = self._kinds[kind], session.transport.most - OVERHEAD
            if len(frame.data) + 4 * len(name) > most:
                what = f"a frame {name!r} of {len(frame.data):,} bytes"
                carrier = type(session.transport).__name__
                raise AgentError(
                    f"agent {frame.sender!r}: {what} to {to!r} is too large for {carrier}: at most {most:,}"
                )
            me, begun, run = session.me, session.incarnation, session.run
            count = key & ((1 << tally.shift) - 1)
            parcel = Parcel(me, begun, run, link, number, time, count, name, frame.sent_at, frame.data)
            session.post(self._places[to], parcel)

    def sent_to(self) -> dict[int, dict[int, int]]:
        """Return how many frames were sent on each link, by the number of the receiver's process."""
        assert self._parts is not None
        receivers = self._parts.ledger.receivers
        counts: dict[int, dict[int, int]] = {number: {} for number in self._session.peers}
        for link, count in self._sent.items():
            counts[self._places[self._names[receivers[link]]]][link] = count
        return counts

    # --- receiving ----------------------------------------------------------------------------------------------------

    def take(self, parcel: Parcel) -> str:
        """Put a frame into the inbox that it is for; return why not (`netsim.sockets.session.DROPPED`), or ""."""
        parts = self._parts
        if self.closed or (parts is None and len(self._early) >= _WINDOW):
            return "stale"
        if parts is None:
            # Another clock is a little ahead.
            self._early.append(parcel)
            return ""
        tally = parts.shared.tally
        if not (parcel.link < len(self._ends) and parcel.number >> tally.shift == 0):
            return "malformed"
        host, sender, receiver = self._ends[parcel.link]
        if host != parcel.host or not self.is_here(receiver):
            return "malformed"
        if parcel.kind not in tally.kinds and len(tally.kinds) >= _MOST_KINDS:
            return "malformed"
        try:
            frame = decode_frame(parcel.data, parcel.sent_at, self._names)
        except WireError:
            return "malformed"
        if frame.sender != sender:
            return "malformed"
        if not self._sequence(parcel).take(parcel.sequence):
            return "replayed"
        inbox, now = parts.inboxes[receiver], parts.shared.loop.time()
        rounds, time = parts.contexts[receiver].shared.rounds, parcel.time
        if time < now and (frame.round == 0 or now >= rounds.deadline(frame.round)):
            # It came later than by its link's model, and somebody could have noticed.
            time = now
        inbox.arrivals.push(time, (parcel.link << tally.shift) + parcel.number, tally.kind(parcel.kind), frame)
        inbox.watch()
        return ""

    def _sequence(self, parcel: Parcel) -> _Sequence:
        if self._incarnations.get(parcel.host) != parcel.incarnation:
            self._incarnations[parcel.host] = parcel.incarnation
            self._heard[parcel.host] = {}
        return self._heard[parcel.host].setdefault(parcel.link, _Sequence())

    def has_all_of(self, host: int, counts: Mapping[int, int]) -> bool:
        """Return whether all frames have come that a process sent here, so many on each link."""
        heard = self._heard[host]
        return all(link in heard and heard[link].count >= count for link, count in counts.items())
