"""Frames to and from other processes: what stands in the place of an agent elsewhere, and what puts its frames here.

agent → outbox → link → inbox → agent: you are between link and inbox, which are in two processes. Frames of a link are
numbered, so that what got lost between the processes is known, and what comes twice is noticed.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from netsim.core import ArrivalQueue, Frame, Tally
from netsim.core.framing import decode_frame
from netsim.distributed.envelope import LEG, OVERHEAD, Message, Parcel
from netsim.distributed.membership import Membership
from netsim.errors import AgentError, WireError

if TYPE_CHECKING:
    from netsim.engine.runtime import Runtime

__all__ = ["Relay", "RemoteEndpoint"]

# Frames of a link beyond one that has not come; and kinds of message that others may bring up.
_WINDOW = 10_000
# Bytes up to which frames share a datagram: as many as an Ethernet takes whole.
_TOGETHER = 1400
_MOST_KINDS = 10_000


class RemoteEndpoint:
    """Stands for the inbox of an agent that runs elsewhere: links put frames into it."""

    def __init__(self, name: Hashable, tally: Tally, send: Callable[[Hashable, list[Any]], None]) -> None:
        self.arrivals = ArrivalQueue(tally)
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


class _Waiting:
    """Frames that are to leave for one process."""

    __slots__ = ("_frame", "_most", "messages", "size")

    def __init__(self, most: int) -> None:
        self._most = most
        self.clear()

    def clear(self) -> None:
        """Let go of them."""
        self.messages: list[Message] = []
        self.size = 0
        self._frame: Frame | None = None

    def add(self, frame: Frame, message: Message, size: int) -> None:
        """Add a frame, about ``size`` bytes of a datagram."""
        self.messages.append(message)
        self.size += size
        self._frame = frame

    def add_leg(self, frame: Frame, number: int, kind: str, leg: tuple[int, int, float]) -> bool:
        """Let the last frame travel on a link more, if it is this one; return whether it is."""
        if frame is not self._frame or self.size + LEG > self._most:
            return False
        last = self.messages[-1]
        if last.number != number or last.kind != kind:
            # A second copy has a number of its own.
            return False
        last.legs.extend(leg)
        self.size += LEG
        return True


class Relay:
    """The frames of one run that cross between processes; by their names, the numbers of the agents' processes."""

    def __init__(self, membership: Membership, places: Mapping[Hashable, int]) -> None:
        self._membership = membership
        self._places = places
        self._remotes: list[RemoteEndpoint] = []
        self._kinds: list[str] = []
        self._sent: dict[int, int] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._flushing = False
        # What is sent off later is no agent's doing.
        self._context = copy_context()
        self._heard: dict[int, dict[int, _Sequence]] = {number: {} for number in membership.peers}
        # What a process received before it began again belongs to frames that its successor does not know of.
        self._incarnations: dict[int, int] = {}
        self._early: list[Parcel] = []
        self._run: Runtime | None = None
        # By link: the sender's process, the sender, the receiver.
        self._ends: list[tuple[int, Hashable, Hashable]] = []
        self._names: list[Hashable] = []
        # Called before frames leave this process.
        self.before_sending: Callable[[], None] = lambda: None
        # Whether nothing more is taken in.
        self.closed = False

    def is_here(self, agent: Hashable) -> bool:
        """Return whether an agent runs in this process."""
        return self._places[agent] == self._membership.me

    def stand_in(self, agent: Hashable, tally: Tally) -> RemoteEndpoint | None:
        """Return what takes the frames for an agent that runs elsewhere; None if it runs here."""
        if self.is_here(agent):
            return None
        remote = RemoteEndpoint(agent, tally, self._send)
        self._remotes.append(remote)
        return remote

    def connect(self, run: "Runtime") -> None:
        """Take part in a run that is built."""
        self._run, self._names = run, list(run.inboxes)
        ledger, names = run.ledger, self._names
        for sender, receiver in zip(ledger.senders.tolist(), ledger.receivers.tolist(), strict=True):
            self._ends.append((self._places[names[sender]], names[sender], names[receiver]))
        for remote in self._remotes:
            remote.listen()
        early, self._early = self._early, []
        for parcel in early:
            self.take(parcel)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, to: Hashable, entries: list[Any]) -> None:
        """Have frames sent off in the loop's next pass."""
        assert self._run is not None
        tally = self._run.shared.tally
        if len(tally.kinds) > len(self._kinds):
            self._kinds = list(tally.kinds)
        host = self._places[to]
        waiting = self._waiting.get(host)
        if waiting is None:
            waiting = self._waiting[host] = _Waiting(self._membership.transport.most)
        for time, key, kind, frame in entries:
            link, name = key >> tally.shift, self._kinds[kind]
            number = self._sent.get(link, 0)
            self._sent[link] = number + 1
            self._must_fit(frame, name, to)
            count = key & ((1 << tally.shift) - 1)
            if not waiting.add_leg(frame, count, name, (link, number, time)):
                size = len(frame.data) + 4 * len(name) + OVERHEAD
                if waiting.messages and waiting.size + size > _TOGETHER:
                    self._send_off(host, waiting)
                waiting.add(frame, Message(count, name, frame.sent_at, frame.data, [link, number, time]), size)
        if not self._flushing:
            self._flushing = True
            self._run.shared.loop.call_soon(self.flush, context=self._context)

    def flush(self) -> None:
        """Send off what waits."""
        self._flushing = False
        for host, waiting in self._waiting.items():
            if waiting.messages:
                self._send_off(host, waiting)

    def _send_off(self, host: int, waiting: "_Waiting") -> None:
        membership = self._membership
        self.before_sending()
        membership.send(host, Parcel(membership.me, membership.incarnation, membership.run, waiting.messages))
        waiting.clear()

    def _must_fit(self, frame: Frame, kind: str, to: Hashable) -> None:
        transport = self._membership.transport
        most = transport.most - OVERHEAD
        if len(frame.data) + 4 * len(kind) > most:
            what = f"a frame {kind!r} of {len(frame.data):,} bytes"
            carrier = type(transport).__name__
            raise AgentError(f"agent {frame.sender!r}: {what} to {to!r} is too large for {carrier}: at most {most:,}")

    def sent_to(self) -> dict[int, int]:
        """Return the number of frames sent, by the number of the receiver's process."""
        assert self._run is not None
        receivers = self._run.ledger.receivers
        counts = Counter[int]()
        for link, count in self._sent.items():
            counts[self._places[self._names[receivers[link]]]] += count
        return counts

    # --- receiving ----------------------------------------------------------------------------------------------------

    def take(self, parcel: Parcel) -> str:
        """Put frames into the inboxes that they are for; return why not all (`membership.DROPPED`), or ""."""
        if self.closed or (self._run is None and len(self._early) >= _WINDOW):
            return "stale"
        if self._run is None:
            # Another clock is a little ahead.
            self._early.append(parcel)
            return ""
        refused = ""
        for message in parcel.messages:
            refused = self._take(self._run, parcel, message) or refused
        return refused

    def _take(self, run: "Runtime", parcel: Parcel, message: Message) -> str:
        tally = run.shared.tally
        if message.number >> tally.shift or (message.kind not in tally.kinds and len(tally.kinds) >= _MOST_KINDS):
            return "malformed"
        try:
            # Once for all whom a broadcast is for.
            frame = decode_frame(message.data, message.sent_at, self._names)
        except WireError:
            return "malformed"
        kind, refused, legs = tally.kind(message.kind), "", iter(message.legs)
        for link, sequence, time in zip(legs, legs, legs, strict=True):
            ends = self._ends[link] if link < len(self._ends) else None
            if ends is None or ends[:2] != (parcel.host, frame.sender) or not self.is_here(ends[2]):
                refused = "malformed"
            elif not self._sequence(parcel, link).take(sequence):
                refused = refused or "replayed"
            else:
                self._arrive(run, ends[2], (link << tally.shift) + message.number, kind, frame, time)
        return refused

    def _arrive(self, run: "Runtime", receiver: Hashable, key: int, kind: int, frame: Frame, time: float) -> None:
        inbox, now = run.inboxes[receiver], run.shared.loop.now()
        rounds = run.contexts[receiver].shared.rounds
        if time < now and (frame.round == 0 or now >= rounds.deadline(frame.round)):
            # It came later than by its link's model, and somebody could have noticed.
            time = now
        inbox.arrivals.push(time, key, kind, frame)
        inbox.watch()

    def _sequence(self, parcel: Parcel, link: int) -> _Sequence:
        if self._incarnations.get(parcel.host) != parcel.incarnation:
            self._incarnations[parcel.host] = parcel.incarnation
            self._heard[parcel.host] = {}
        return self._heard[parcel.host].setdefault(link, _Sequence())

    def has_all_of(self, host: int, count: int) -> bool:
        """Return whether all ``count`` frames have come that a process sent here."""
        return sum(sequence.count for sequence in self._heard[host].values()) >= count
