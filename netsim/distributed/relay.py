"""Relay frames between processes.

On the path agent → outbox → link → inbox → agent, the relay lies between a link in one process and an inbox in another.
The frames of each link have sequence numbers, which reveal lost and duplicated datagrams.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from netsim.core import Frame, Tally
from netsim.core.framing import decode_frame
from netsim.distributed.envelope import LEG, OVERHEAD, FrameBatch, Message
from netsim.distributed.membership import Membership
from netsim.errors import AgentError, WireError
from netsim.transport.inbox import RemoteEndpoint

if TYPE_CHECKING:
    from netsim.engine.runtime import Runtime

__all__ = ["Relay"]

# Maximum number of received sequence numbers remembered for a link while an earlier number is missing. Also the maximum
# number of batches kept if they arrive before the run begins in this process.
_WINDOW = 10_000
# Several frames share a datagram of at most this size in bytes, so that the datagram fits into one Ethernet frame.
_BATCH_SIZE = 1400
# A run accepts at most this many kinds of message: without a limit, a faulty process could add any number of kinds.
_MAX_KINDS = 10_000


class _DuplicateFilter:
    """The sequence numbers received on a link: all numbers below ``_next``, and the numbers in ``_beyond``."""

    __slots__ = ("_beyond", "_next", "count")

    def __init__(self) -> None:
        self._next, self._beyond = 0, set[int]()
        self.count = 0

    def accept(self, number: int) -> bool:
        """Record a sequence number; return whether it is new."""
        if number < self._next or number in self._beyond:
            return False
        self.count += 1
        if number == self._next and not self._beyond:
            # The fast path: nearly all frames arrive in order.
            self._next += 1
            return True
        self._beyond.add(number)
        if len(self._beyond) > _WINDOW:
            # Treat the missing numbers as received, to limit the memory.
            self._next = min(self._beyond)
        while self._next in self._beyond:
            self._beyond.remove(self._next)
            self._next += 1
        return True


class _Batch:
    """Frames that wait for the next datagram to one process."""

    __slots__ = ("_frame", "_max_size", "messages", "size")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self.clear()

    def clear(self) -> None:
        """Remove all messages."""
        self.messages: list[Message] = []
        self.size = 0
        self._frame: Frame | None = None

    def add(self, frame: Frame, message: Message, size: int) -> None:
        """Add a frame, which takes at most ``size`` bytes of a datagram."""
        self.messages.append(message)
        self.size += size
        self._frame = frame

    def add_leg(self, frame: Frame, number: int, kind: str, leg: tuple[int, int, float]) -> bool:
        """Add a link to the last message; return False if the message has another frame or the datagram is full."""
        if frame is not self._frame or self.size + LEG > self._max_size:
            return False
        last = self.messages[-1]
        if last.number != number or last.kind != kind:
            # A duplicate that a link made of the frame has another transmission number, so it needs a separate message.
            return False
        last.legs.extend(leg)
        self.size += LEG
        return True


class Relay:
    """Sends and receives the frames of one run; ``processes`` maps each agent to the index of its process."""

    def __init__(self, membership: Membership, processes: Mapping[Hashable, int]) -> None:
        self._membership = membership
        self._processes = processes
        self._remotes: list[RemoteEndpoint] = []
        self._kinds: list[str] = []
        self._sent: dict[int, int] = {}
        self._batches: dict[int, _Batch] = {}
        self._flushing = False
        # The context in which `flush` runs. Without it, `flush` would run in the context of the agent that sends.
        self._context = copy_context()
        self._filters: dict[int, dict[int, _DuplicateFilter]] = {number: {} for number in membership.peers}
        # The last known incarnation of each process. A restarted process counts its sequence numbers from 0 again, so
        # its links get new filters.
        self._incarnations: dict[int, int] = {}
        self._early_batches: list[FrameBatch] = []
        self._run: Runtime | None = None
        # For each link: the index of the sender's process, the sender's name and the receiver's name.
        self._links: list[tuple[int, Hashable, Hashable]] = []
        self._names: list[Hashable] = []
        # Called before each datagram is sent; a `Node` with a journal uses it to write the events first.
        self.before_sending: Callable[[], None] = lambda: None
        # Whether the run is closed, so that frames received from now on are dropped.
        self.closed = False

    def is_local(self, agent: Hashable) -> bool:
        """Return whether an agent runs in this process."""
        return self._processes[agent] == self._membership.me

    def remote_endpoint(self, agent: Hashable, tally: Tally) -> RemoteEndpoint | None:
        """Return the remote endpoint of an agent in another process, or None if the agent runs in this one."""
        if self.is_local(agent):
            return None
        remote = RemoteEndpoint(agent, tally, self._send)
        self._remotes.append(remote)
        return remote

    def connect(self, run: "Runtime") -> None:
        """Begin to relay the frames of a run; called once the run is built."""
        self._run, self._names = run, list(run.inboxes)
        ledger, names = run.ledger, self._names
        for sender, receiver in zip(ledger.senders.tolist(), ledger.receivers.tolist(), strict=True):
            self._links.append((self._processes[names[sender]], names[sender], names[receiver]))
        for remote in self._remotes:
            remote.listen()
        early_batches, self._early_batches = self._early_batches, []
        for batch in early_batches:
            self.take(batch)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, to: Hashable, entries: list[Any]) -> None:
        """Add frames to the batch for the receiver's process, which `flush` sends in the next loop iteration."""
        assert self._run is not None
        tally = self._run.shared.tally
        if len(tally.kinds) > len(self._kinds):
            self._kinds = list(tally.kinds)
        host = self._processes[to]
        batch = self._batches.get(host)
        if batch is None:
            batch = self._batches[host] = _Batch(self._membership.transport.most)
        for time, key, kind, frame in entries:
            link, name = key >> tally.shift, self._kinds[kind]
            sequence = self._sent.get(link, 0)
            self._sent[link] = sequence + 1
            self._check_size(frame, name, to)
            number = key & ((1 << tally.shift) - 1)
            if not batch.add_leg(frame, number, name, (link, sequence, time)):
                size = len(frame.data) + 4 * len(name) + OVERHEAD
                if batch.messages and batch.size + size > _BATCH_SIZE:
                    self._send_batch(host, batch)
                batch.add(frame, Message(number, name, frame.sent_at, frame.data, [link, sequence, time]), size)
        if not self._flushing:
            self._flushing = True
            self._run.shared.loop.call_soon(self.flush, context=self._context)

    def flush(self) -> None:
        """Send the batches for all processes."""
        self._flushing = False
        for host, batch in self._batches.items():
            if batch.messages:
                self._send_batch(host, batch)

    def _send_batch(self, host: int, batch: "_Batch") -> None:
        membership = self._membership
        self.before_sending()
        membership.send(host, FrameBatch(membership.me, membership.incarnation, membership.run, batch.messages))
        batch.clear()

    def _check_size(self, frame: Frame, kind: str, to: Hashable) -> None:
        transport = self._membership.transport
        limit = transport.most - OVERHEAD
        if len(frame.data) + 4 * len(kind) > limit:
            what = f"a frame {kind!r} of {len(frame.data):,} bytes"
            carrier = type(transport).__name__
            raise AgentError(f"agent {frame.sender!r}: {what} to {to!r} is too large for {carrier}: at most {limit:,}")

    def sent_to(self) -> dict[int, int]:
        """Return {index of the process: number of frames sent to it}."""
        assert self._run is not None
        receivers = self._run.ledger.receivers
        counts = Counter[int]()
        for link, count in self._sent.items():
            counts[self._processes[self._names[receivers[link]]]] += count
        return counts

    # --- receiving ----------------------------------------------------------------------------------------------------

    def take(self, batch: FrameBatch) -> str:
        """Put frames into the receivers' inboxes; if any frame is dropped, return the reason (`DROPPED`), else ""."""
        if self.closed or (self._run is None and len(self._early_batches) >= _WINDOW):
            return "stale"
        if self._run is None:
            # Keep the batch until the run begins in this process: in the sender's process, whose clock may be slightly
            # ahead, it has begun already.
            self._early_batches.append(batch)
            return ""
        refused = ""
        for message in batch.messages:
            refused = self._accept(self._run, batch, message) or refused
        return refused

    def _accept(self, run: "Runtime", batch: FrameBatch, message: Message) -> str:
        tally = run.shared.tally
        if message.number >> tally.shift or (message.kind not in tally.kinds and len(tally.kinds) >= _MAX_KINDS):
            return "malformed"
        try:
            # A broadcast is one message for all links, so decode the frame only once.
            frame = decode_frame(message.data, message.sent_at, self._names)
        except WireError:
            return "malformed"
        kind, refused, legs = tally.kind(message.kind), "", iter(message.legs)
        for link, sequence, time in zip(legs, legs, legs, strict=True):
            ends = self._links[link] if link < len(self._links) else None
            if ends is None or ends[:2] != (batch.host, frame.sender) or not self.is_local(ends[2]):
                refused = "malformed"
            elif not self._filter_of(batch, link).accept(sequence):
                refused = refused or "replayed"
            else:
                self._arrive(run, ends[2], (link << tally.shift) + message.number, kind, frame, time)
        return refused

    def _arrive(self, run: "Runtime", receiver: Hashable, key: int, kind: int, frame: Frame, time: float) -> None:
        inbox, now = run.inboxes[receiver], run.shared.loop.now()
        rounds = run.contexts[receiver].shared.rounds
        if time < now and (frame.round == 0 or now >= rounds.deadline(frame.round)):
            # The datagram is late: the link's model had drawn the earlier arrival time ``time``. The receiver may have
            # read its inbox since then, so let the frame arrive now.
            time = now
        inbox.arrivals.push(time, key, kind, frame)
        inbox.watch()

    def _filter_of(self, batch: FrameBatch, link: int) -> _DuplicateFilter:
        if self._incarnations.get(batch.host) != batch.incarnation:
            self._incarnations[batch.host] = batch.incarnation
            self._filters[batch.host] = {}
        return self._filters[batch.host].setdefault(link, _DuplicateFilter())

    def has_all_of(self, host: int, count: int) -> bool:
        """Return whether this process has received all ``count`` frames that the process ``host`` sent to it."""
        return sum(numbers.count for numbers in self._filters[host].values()) >= count
