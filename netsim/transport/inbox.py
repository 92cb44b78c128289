"""An agent's inbox. Links add a frame here as soon as it is sent; a waiting task wakes only when it can read a frame.

On the path agent → outbox → link → inbox → agent, this module is the inbox. Frames in flight are queued by arrival
time. Each read first processes (*settles*) all due frames: it counts them, drops those that are late or meet a
switched-off receiver or a full inbox, and makes the others readable. A timer is set only while a task or a callback
waits for a frame.
"""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import Context
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

from netsim.clock.clock import Loop
from netsim.core import ArrivalQueue, Copies, Frame, Tally
from netsim.core.arrival_queue import Entry
from netsim.core.framing import for_receiver
from netsim.core.records import INBOX_FULL, LATE, RECEIVER_DOWN
from netsim.errors import AgentError
from netsim.links.reliability import ACK, NACK
from netsim.transport.shared import Shared
from netsim.wire.routed import Routed

if TYPE_CHECKING:
    from netsim.clock.order import Chooser
    from netsim.transport.router import Router

__all__ = ["Inbox", "PartInbox", "RemoteEndpoint", "withdraw"]

# An ended agent never reads its frames. To free memory, they are dropped when more than _MAX_UNSETTLED are queued.
_MAX_UNSETTLED = 1000


@dataclass(slots=True, eq=False, repr=False)
class Inbox:
    """The frames for one agent; ``async for`` iterates over them as they arrive."""

    _shared: Shared
    limit: InitVar[int | None]
    arrivals: ArrivalQueue = field(init=False)
    replies: dict[int, asyncio.Future[Frame]] = field(default_factory=dict)
    iterating: int = 0
    # Two elements for each incoming link: the dict ``subscribers`` of the sender's outbox, and the key of this inbox in
    # that dict, which is the link's index. A flat list saves memory.
    watchers: list[Any] = field(default_factory=list)
    _loop: Loop = field(init=False)
    _tally: Tally = field(init=False)
    _limit: float = field(init=False)
    # (arrival time, key, frame) of each readable frame, in order. Before the first frame, an empty tuple saves memory.
    _ready: deque[tuple[float, int, Frame]] | tuple[()] = ()
    _blocked: list[asyncio.Future[bool]] = field(default_factory=list)
    _timer: asyncio.TimerHandle | None = None
    _timer_at: float = math.inf
    _on_request: Callable[[Frame], None] | None = None
    _on_numbered: Callable[[Frame], Frame | None] | None = None
    # The router of messages for other nodes; None without routing.
    _router: "Router | None" = None
    _drop_late_until: float = 0
    _watched: bool = False
    _abandoned: bool = False
    # {index of a link on hold: frames that have arrived over it}; None if no link has ever been on hold.
    _held: dict[int, list[Entry]] | None = None
    # Whether `_due` must filter or reorder the frames that are due, because of links on hold or a chooser.
    _sifts: bool = False
    # Orders simultaneous arrivals by the run's `Order`; None: they keep the order of their links.
    _chooser: "Chooser | None" = None
    # The context in which the timer runs; None: the context of the agent that sends or waits.
    _context: Context | None = None
    # Called with the frames that the agent receives, if not None.
    _note_heard: Callable[[Iterable[Frame]], None] | None = None

    def __post_init__(self, limit: int | None) -> None:
        self._loop, self._tally = self._shared.loop, self._shared.tally
        self._limit = math.inf if limit is None else limit
        self.arrivals = ArrivalQueue(self._tally)

    def follow(self, chooser: "Chooser", context: Context) -> None:
        """Let a chooser order simultaneous arrivals, and run timers in the context of this inbox's agent."""
        self._chooser, self._context, self._sifts = chooser, context, True

    def hold(self, link: int, on: bool) -> None:
        """Hold the frames that arrive over a link, or release them: they then arrive now, in the order of sending."""
        self.settle_now()
        held = self._held = {} if self._held is None else self._held
        if on:
            held.setdefault(link, [])
        else:
            for _, key, kind, frame in held.pop(link, ()):
                self.arrivals.push(self._loop.now(), key, kind, frame)
        self._sifts = bool(held) or self._chooser is not None
        self.watch()

    def withdraw(self, link: int) -> list[Entry]:
        """Remove and return the frames that are in flight on a link, in the order of sending."""
        self.settle_now()
        return withdraw(self.arrivals, link, self._tally.shift, self._loop.now())

    def withdraw_held(self, link: int) -> list[Entry]:
        """Remove and return the frames that wait because a link is on hold."""
        entries = (self._held or {}).get(link, [])
        found = entries[:]
        entries.clear()
        return found

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Yield (ledger key, kind id) of each frame that has no outcome yet."""
        yield from self.arrivals.under_way()
        for entries in (self._held or {}).values():
            for _, key, kind, _ in entries:
                yield key, kind

    def tell(self, note_heard: Callable[[Iterable[Frame]], None]) -> None:
        """Call ``note_heard`` with the frames that the agent receives from now on."""
        self._note_heard = note_heard

    def __len__(self) -> int:
        """Return the number of frames that can be read without waiting.

        Frames that arrive exactly now are counted here, but stay in the queue, because more may still arrive now.
        """
        now = self._loop.now()
        self.settle(self._shared.rounds.before(now))
        present = self.arrivals.due(math.nextafter(now, math.inf))
        for entry in present:
            self.arrivals.push(*entry)
        readable = len(self._ready) + sum(map(self._is_readable, present))
        return readable if self._limit == math.inf else min(readable, int(self._limit))

    async def get(self) -> Frame:
        """Wait for the next frame and return it."""
        while not self._settled():
            await self._block()
        return self._next()

    def __aiter__(self) -> "Inbox":
        """Iterate over all frames; the iteration ends when no frame can arrive any more."""
        return self

    async def __anext__(self) -> Frame:
        self.iterating += 1
        try:
            while not self._settled():
                if not await self._block():
                    raise StopAsyncIteration
        finally:
            self.iterating -= 1
        return self._next()

    def take(self, until: float) -> list[Frame]:
        """Remove and return the unread frames that arrived before ``until`` (s) on the agent's own clock."""
        clock = self._shared.clock
        true = until if clock is None or math.isinf(until) else clock.true(until)
        if self._router is not None and true > math.nextafter(self._loop.now(), math.inf):
            raise AgentError(
                "inbox.take(…): cannot take frames before they arrive with routing, which forwards them then"
            )
        return self.take_true(true)

    def take_true(self, until: float) -> list[Frame]:
        """Remove and return the unread frames that arrived before ``until`` (s) on the simulation's clock."""
        arrivals = self.arrivals
        is_fast = not (self._ready or arrivals.careful or self._sifts or self._note_heard)
        if is_fast and arrivals.up and self._limit == math.inf:
            return arrivals.deliver(until)
        self.settle(until)
        ready, frames = self._ready or deque(), []
        # Return no frame that arrived at or after ``until``: an earlier call of `settle` may have had a later limit,
        # and may have made such frames readable.
        while ready and ready[0][0] < until:
            frames.append(ready.popleft()[2])
        if self._note_heard is not None:
            self._note_heard(frames)
        return frames

    def take_into(self, copies: Copies, until: float, add: bool) -> None:
        """Do the same as ``copies.take_in(self.take_true(until))``, if possible without building a list of frames."""
        arrivals = self.arrivals
        is_fast = not (self._ready or arrivals.careful or self._sifts or self._note_heard)
        if is_fast and arrivals.up and self._limit == math.inf:
            copies.receive(arrivals, until, add=add)
        else:
            copies.take_in(self.take_true(until), add=add)

    def end_iteration(self) -> bool:
        """End every ``async for`` over this inbox that waits for a frame; return whether there was one."""
        if not self.iterating:
            return False
        _resolve(self._blocked, False)
        return True

    # --- arrivals -----------------------------------------------------------------------------------------------------

    def settle_now(self) -> None:
        """Process the frames that have arrived by now, as `settle` does."""
        if len(self.arrivals):
            self.settle(math.nextafter(self._loop.now(), math.inf))

    def settle(self, until: float) -> None:
        """Process the frames that arrived before ``until`` (s): count each, and drop it or make it readable."""
        if not len(self.arrivals):
            return
        is_special = bool(self._held) if self._abandoned else self._limit < math.inf
        if is_special or self.arrivals.careful or not self.arrivals.up:
            for entry in self._due(until):
                self._settle_one(entry)
        elif self._abandoned:
            self.arrivals.deliver(until)
        elif due := self._due(until):
            times, keys, kinds, frames = zip(*due, strict=True)
            self._tally.delivered(times, keys, kinds)
            self._put_all(list(zip(times, keys, frames, strict=True)))

    def _due(self, until: float) -> list[Entry]:
        """Return the frames due before ``until`` (s), except those of links on hold, which are kept in `_held`."""
        due = self.arrivals.due(until)
        if self._held:
            arrived, due = due, []
            for entry in arrived:
                self._held.get(entry[1] >> self._tally.shift, due).append(entry)
        return due if self._chooser is None or len(due) < 2 else self._chooser.arrange(due)

    def drop_late_frames(self, until: float) -> None:
        """From now on, drop frames of the rounds up to ``until`` that arrive after their round has closed."""
        if until != self._drop_late_until:
            # The previous ``until`` still applies to frames that have already arrived, so settle these first.
            self.settle(self._shared.rounds.before(self._loop.now()))
            self._drop_late_until = until

    def clear_unread(self) -> None:
        """Discard unread frames, because the agent's node has failed."""
        self._ready = ()

    def discard_from_now(self) -> None:
        """From now on, count frames and discard them, because the agent has ended."""
        if self._limit < math.inf:
            # The inbox's limit still applies to frames that have already arrived, so settle these first.
            self.settle_now()
        self._abandoned = True
        self.settle_now()
        self._ready = ()
        self._subscribe()

    def _next(self) -> Frame:
        assert self._ready
        frame = self._ready.popleft()[2]
        if self._note_heard is not None:
            self._note_heard((frame,))
        return frame

    def _settled(self) -> int:
        self.settle_now()
        return len(self._ready)

    def _drop_cause(self, entry: Entry) -> int | None:
        """Return the reason to drop a frame on arrival, or None; `_settle_one` checks for a full inbox."""
        time, _, _, frame = entry
        if not self.arrivals.up:
            return RECEIVER_DOWN
        if 0 < frame.round <= self._drop_late_until and time >= self._shared.rounds.deadline(frame.round):
            return LATE
        return None

    def _is_readable(self, entry: Entry) -> bool:
        frame = entry[3]
        if self._held and entry[1] >> self._tally.shift in self._held:
            return False
        if self._router is not None and type(frame.payload) is Routed:
            return not self._abandoned and self.arrivals.up and self._router.is_for_agent(frame)
        is_control = self._on_numbered is not None and frame.sequence > 0 and frame.kind in (ACK, NACK)
        is_consumed = (
            is_control
            or self._abandoned
            or frame.is_reply
            or (frame.request is not None and self._on_request is not None)
        )
        return not is_consumed and self._drop_cause(entry) is None

    def _settle_one(self, entry: Entry) -> None:
        """Count a frame, and pass it to the agent, to the task that waits for this reply, or to the reliable outbox.

        With routing, a message for other nodes is forwarded first, and a message for this agent replaces the frame that
        carried it.
        """
        time, key, kind, frame = entry
        cause = self._drop_cause(entry)
        left: Frame | None = frame
        if cause is None and self._on_numbered is not None and frame.sequence:
            if frame.kind not in (ACK, NACK) and len(self._ready) >= self._limit and not self._abandoned:
                cause = INBOX_FULL  # without an acknowledgement, the sender repeats the frame
            else:
                left = self._on_numbered(frame)
        if cause is None and left is not None and self._router is not None and type(left.payload) is Routed:
            left, dropped = self._router.heard(left)
            cause = dropped or (None if left is None else self._drop_cause((time, key, kind, left)))
        if cause is None and left is not None:
            cause = self._hand_over(time, key, left)
        if cause is None:
            self._tally.delivered((time,), (key,), (kind,))
        else:
            self._tally.ended(time, key, kind, cause)

    def _hand_over(self, time: float, key: int, frame: Frame) -> int | None:
        """Pass a frame to the agent, or to the task that waits for this reply; return the reason if it is dropped."""
        if frame.is_reply:
            waiting = self.replies.get(frame.request or 0)
            if waiting is None or waiting.done():
                return LATE
            waiting.set_result(for_receiver(frame))
            if self._note_heard is not None:
                self._note_heard((frame,))
        elif frame.request is not None and self._on_request is not None:
            if self._note_heard is not None:
                self._note_heard((frame,))
            self._on_request(frame)
        elif not self._abandoned:
            if len(self._ready) >= self._limit:
                return INBOX_FULL
            self._put_all([(time, key, for_receiver(frame))])
        return None

    def _put_all(self, entries: list[tuple[float, int, Frame]]) -> None:
        """Add readable frames; sort all readable frames by time and key, if the new frames do not come last anyway."""
        ready = self._ready = self._ready or deque()
        if self._chooser is None:
            in_order = not ready or ready[-1][:2] <= entries[0][:2]
        else:
            in_order = not ready or self._place(ready[-1]) <= self._place(entries[0])
        ready.extend(entries)
        if not in_order:
            ordered = sorted(ready, key=self._place)
            ready.clear()
            ready.extend(ordered)

    def _place(self, entry: tuple[float, int, Frame]) -> tuple[float, int]:
        """Return the sort key of a readable frame: (time, key), or the time alone if an `Order` arranged the frames."""
        time, key, _ = entry
        return time, 0 if self._chooser is not None and time in self._chooser.moved else key

    # --- waking tasks that wait ---------------------------------------------------------------------------------------

    @property
    def wait_description(self) -> str:
        """The object of the sentence "the task waits for …" if a task waits at this inbox; else an empty text."""
        return "the reply to a request" if self.replies else "a frame in its inbox" if self._blocked else ""

    def set_request_handler(self, on_request: Callable[[Frame], None]) -> None:
        """Call ``on_request`` with each request on its arrival."""
        self._on_request = on_request
        self._subscribe()

    def set_sequence_handler(self, on_numbered: Callable[[Frame], Frame | None]) -> None:
        """Call ``on_numbered`` with each numbered frame on arrival; a frame that it returns becomes readable.

        A numbered frame has a `Frame.sequence` (`netsim.transport.reliable`).
        """
        self._on_numbered = on_numbered
        self._subscribe()

    def set_router(self, router: "Router") -> None:
        """Pass each frame that arrives to a router, which forwards messages for other nodes."""
        self._router = router
        self._subscribe()

    @property
    def waits_for_all(self) -> bool:
        """Whether a callback or the router must process each frame on arrival, even if no task waits for it."""
        return self._on_request is not None or self._on_numbered is not None or self._router is not None

    def stop(self) -> None:
        """Stop waking tasks and answering requests, because the run is over."""
        self._on_request = self._on_numbered = self._router = self._note_heard = None
        if self._timer is not None:
            self._timer.cancel()

    def watch(self) -> None:
        """Set the timer to the next arrival if a task or a callback waits for a frame."""
        if not (self._blocked or self.replies or self.waits_for_all):
            if self._abandoned and len(self.arrivals) > _MAX_UNSETTLED:
                self.settle_now()
            return
        self._subscribe()
        first = self.arrivals.first()
        if first < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = first
            self._timer = self._loop.call_at_simulated(first, self._on_timer, context=self._context)

    def _subscribe(self) -> None:
        """Add this inbox to its senders' `subscribers`: a sender then calls `watch` after each frame to this agent."""
        if not self._watched:
            self._watched = True
            for subscribers, link in zip(self.watchers[::2], self.watchers[1::2], strict=True):
                subscribers[link] = self

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, math.inf
        self.settle_now()
        self._wake()
        self.watch()

    def _wake(self) -> None:
        """Wake one waiting task for each frame that can be read."""
        _resolve(itertools.islice(self._blocked, len(self._ready)), True)

    async def _block(self) -> bool:
        """Wait until there is a frame to read (True) or no frame can arrive any more (False)."""
        future: asyncio.Future[bool] = self._loop.create_future()
        self._blocked.append(future)
        self.watch()
        try:
            woken = await future
        except asyncio.CancelledError:
            # This task was cancelled, perhaps after it had been woken for a frame, which it will not read: wake the
            # next waiting task.
            self._blocked.remove(future)
            self._wake()
            raise
        self._blocked.remove(future)
        return woken

    async def wait_for_reply(self, request: int, timeout: float | None) -> Frame:
        """Wait for the reply to a request; raises TimeoutError after ``timeout`` seconds."""
        future: asyncio.Future[Frame] = self._loop.create_future()
        self.replies[request] = future
        self.watch()
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            # The reply may have arrived at the very instant of the time-out, before this task could take it.
            if not future.done() or future.cancelled():
                raise
            return future.result()
        finally:
            del self.replies[request]


def _resolve(futures: Iterable[asyncio.Future[bool]], result: bool) -> None:
    """Set the result of those futures that are not done, because their tasks wait for it."""
    for future in futures:
        if not future.done():
            future.set_result(result)


def withdraw(arrivals: ArrivalQueue, link: int, shift: int, now: float) -> list[Entry]:
    """Remove from a queue the frames of a link that arrive after ``now`` (s); return them in the order of sending."""
    entries = arrivals.due(math.inf)
    found = [entry for entry in entries if entry[1] >> shift == link and entry[0] > now]
    gone = {entry[1] for entry in found}
    for entry in entries:
        if entry[1] not in gone:
            arrivals.push(*entry)
    return sorted(found, key=lambda entry: entry[1])


class PartInbox:
    """The frames for one part of a `netsim.Mote`; ``async for`` iterates over them as they arrive."""

    def __init__(self, part: str, whole: Inbox) -> None:
        self._part, self._whole = part, whole
        self._ready, self._blocked = deque[Any](), list[asyncio.Future[bool]]()

    def __len__(self) -> int:
        return len(self._ready)

    def put(self, frame: Any) -> None:
        """Add a frame, and wake a task that waits for it."""
        self._ready.append(frame)
        self._wake()

    async def get(self) -> Any:
        """Wait for the next frame and return it."""
        while not self._ready:
            await self._block()
        return self._ready.popleft()

    def __aiter__(self) -> "PartInbox":
        return self

    async def __anext__(self) -> Any:
        self._whole.iterating += 1
        try:
            while not self._ready:
                if not await self._block():
                    raise StopAsyncIteration
        finally:
            self._whole.iterating -= 1
        return self._ready.popleft()

    @property
    def wait_description(self) -> str:
        """The object of the sentence "the part waits for …" if a task of the part waits here; else an empty text."""
        return "the reply to a request" if self._whole.replies else "a frame in its inbox" if self._blocked else ""

    def end_iteration(self) -> None:
        """End every ``async for`` that waits for a frame, because no frame can arrive any more."""
        _resolve(self._blocked, False)

    def _wake(self) -> None:
        _resolve(itertools.islice(self._blocked, len(self._ready)), True)

    async def _block(self) -> bool:
        """Wait until there may be a frame to read (True) or no frame can arrive any more (False)."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._blocked.append(future)
        try:
            return await future
        finally:
            self._blocked.remove(future)
            # This task may have been cancelled after it was woken for a frame: wake the next task for this frame.
            self._wake()

    def drop_late_frames(self, until: float) -> None:
        """Raise AgentError: parts of a mote cannot use rounds, because this inbox does not check for late frames."""
        raise AgentError(f"part {self._part!r}: a part of a mote has no rounds; use asyncio.sleep")

    async def wait_for_reply(self, request: int, timeout: float | None) -> Frame:
        """Wait for the reply to a request; raises TimeoutError after ``timeout`` seconds."""
        return await self._whole.wait_for_reply(request, timeout)


class RemoteEndpoint:
    """Replaces the inbox of an agent in another process: links put frames here, and `watch` sends them there."""

    def __init__(self, name: Hashable, tally: Tally, send: Callable[[Hashable, list[Any]], None]) -> None:
        self.arrivals = ArrivalQueue(tally)
        self.watchers: list[Any] = []
        self._name = name
        self._send = send

    def listen(self) -> None:
        """Add this endpoint to the `subscribers` of its senders: they then call `watch` after each frame."""
        for watched, index in zip(self.watchers[::2], self.watchers[1::2], strict=True):
            watched[index] = self

    def watch(self) -> None:
        """Send the frames in ``arrivals`` to the other process."""
        self._send(self._name, self.arrivals.due(math.inf))
