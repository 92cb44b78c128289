"""An agent's inbox. The receiver pulls: links put arrivals here at once, and nobody is woken before it matters.

Frames that have not arrived yet wait in order of arrival. Whoever reads first settles what is due: frames are counted,
dropped if late, if the agent is down or if the inbox is full, and the rest become readable. A timer is set only while
a task is blocked on this inbox.
"""

import asyncio
import bisect
import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator

from netsim.count.ledger import COLLIDED, INBOX_FULL, LATE, RECEIVER_DOWN
from netsim.transport.frame import Frame, for_receiver
from netsim.transport.shared import Shared

Entry = tuple[float, int, Frame]
"""Arrival time (s), key of the link message (see `netsim.count.ledger.STEP`), frame."""


class Inbox:
    """Frames for one agent; also an async iterator over them."""

    __slots__ = (
        "_alarm",
        "_alarm_at",
        "_blocked",
        "_ledger",
        "_limit",
        "_loop",
        "_on_request",
        "_pending",
        "_ready",
        "_shared",
        "collided",
        "incoming",
        "iterating",
        "replies",
        "strict_until",
        "up",
    )

    def __init__(self, shared: Shared, limit: int | None) -> None:
        self._shared = shared
        self._loop = shared.loop
        self._ledger = shared.ledger
        self._limit = math.inf if limit is None else limit
        self._ready: deque[Frame] = deque()
        self._pending: list[Entry] = []
        self._blocked: deque[asyncio.Future[bool]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf
        self._on_request: Callable[[Frame], None] | None = None
        self.incoming: list[Entry] = []
        self.collided: set[int] = set()
        self.replies: dict[int, asyncio.Future[Frame]] = {}
        self.iterating = 0
        # Frames of rounds up to this one are dropped if they arrive after their round has closed.
        self.strict_until: float = 0
        self.up = True

    def __len__(self) -> int:
        """Return the number of frames that can be read without waiting."""
        self.settle(math.nextafter(self._loop.time(), math.inf))
        return len(self._ready)

    async def get(self) -> Frame:
        """Wait for the next frame and return it."""
        while not len(self):
            await self._block()
        return self._ready.popleft()

    def __aiter__(self) -> "Inbox":
        """Iterate over all frames that will ever come: it ends when none can come any more."""
        return self

    async def __anext__(self) -> Frame:
        self.iterating += 1
        try:
            while not len(self):
                if not await self._block():
                    raise StopAsyncIteration
        finally:
            self.iterating -= 1
        return self._ready.popleft()

    def take(self, until: float) -> list[Frame]:
        """Return, and forget, the frames that arrived before ``until`` (seconds) and were not read yet."""
        self.settle(until)
        frames = list(self._ready)
        self._ready.clear()
        return frames

    def end_iteration(self) -> bool:
        """End every ``async for`` that is blocked here; return whether there was one."""
        if not self.iterating:
            return False
        for future in self._blocked:
            if not future.done():
                future.set_result(False)
        return True

    @property
    def holds(self) -> bool:
        """Whether any frame is not settled yet."""
        return bool(self.incoming or self._pending)

    def under_way(self) -> Iterator[Entry]:
        """Yield the frames that have not arrived yet."""
        yield from self.incoming
        yield from self._pending

    # --- arrivals -----------------------------------------------------------------------------------------------------

    def settle(self, until: float) -> None:
        """Make what arrived before ``until`` (seconds) readable, and count it."""
        due = self._due(until)
        if not due:
            return
        if self._shared.careful or self.collided or not self.up or self._limit < math.inf:
            due = [entry for entry in due if self._admit(entry)]
            if not due:
                return
            times, keys, _ = zip(*due, strict=True)
        else:
            times, keys, frames = zip(*due, strict=True)
            self._ready.extend(frames)
        self._ledger.delivered(times, keys)

    def _due(self, until: float) -> list[Entry]:
        """Remove and return, in order of arrival, what arrived before ``until``."""
        incoming, pending = self.incoming, self._pending
        due: list[Entry] = []
        if incoming and not pending:
            # The usual case: a whole round's frames, in one go. A sorted list is a heap, too.
            incoming.sort()
            cut = len(incoming) if incoming[-1][0] < until else bisect.bisect_left(incoming, (until,))
            due = incoming[:cut]
            self._pending = incoming[cut:]
        else:
            for entry in incoming:
                heapq.heappush(pending, entry)
            while pending and pending[0][0] < until:
                due.append(heapq.heappop(pending))
        incoming.clear()
        return due

    def _admit(self, entry: Entry) -> bool:
        """Put a frame where it belongs; return whether it counts as delivered, after counting it if not."""
        time, key, frame = entry
        cause = None
        if key in self.collided:
            self.collided.discard(key)
            cause = COLLIDED
        elif not self.up:
            cause = RECEIVER_DOWN
        elif 0 < frame.round <= self.strict_until and time >= self._shared.rounds.close_time(frame.round):
            cause = LATE
        elif frame.is_reply:
            waiting = self.replies.get(frame.request or 0)
            if waiting is None or waiting.done():
                cause = LATE
            else:
                waiting.set_result(for_receiver(frame))
        elif frame.request is not None and self._on_request is not None:
            self._on_request(frame)
        elif len(self._ready) >= self._limit:
            cause = INBOX_FULL
        else:
            self._ready.append(for_receiver(frame))
        if cause is None:
            return True
        self._ledger.dropped(time, key, cause)
        return False

    # --- waking whoever is blocked ------------------------------------------------------------------------------------

    @property
    def awaited(self) -> str:
        """What some task waits for here, in words; empty if none does."""
        return "the reply to a request" if self.replies else "a frame in its inbox" if self._blocked else ""

    def answer_with(self, on_request: Callable[[Frame], None]) -> None:
        """Hand each request to ``on_request`` at the instant when it arrives."""
        self._on_request = on_request
        self._shared.watched = True

    def stop(self) -> None:
        """Wake nobody any more and answer nothing: the run is over."""
        self._on_request = None
        if self._alarm is not None:
            self._alarm.cancel()

    def drop(self) -> None:
        """Let what is under way stay so: the books are closed."""
        self.incoming.clear()
        self._pending.clear()

    def watch(self) -> None:
        """Set the alarm to the next arrival, if somebody is to be told of it."""
        if not (self._blocked or self.replies or self._on_request is not None):
            return
        self._shared.watched = True
        first = min(self.incoming)[0] if self.incoming else math.inf
        if self._pending:
            first = min(first, self._pending[0][0])
        if first < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = first
            self._alarm = self._loop.call_at(first, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, math.inf
        self.settle(math.nextafter(self._loop.time(), math.inf))
        self._wake()
        self.watch()

    def _wake(self) -> None:
        """Wake as many of those who are blocked as there are frames to read."""
        for future in itertools.islice(self._blocked, len(self._ready)):
            if not future.done():
                future.set_result(True)

    async def _block(self) -> bool:
        """Wait until there is something to read (True) or nothing can come any more (False)."""
        future: asyncio.Future[bool] = asyncio.Future(loop=self._loop)
        self._blocked.append(future)
        self.watch()
        try:
            woken = await future
        except asyncio.CancelledError:
            # It may have been woken already: the frame is for the next in line, then.
            self._blocked.remove(future)
            self._wake()
            raise
        self._blocked.remove(future)
        return woken

    async def reply_to(self, request: int, timeout: float | None) -> Frame:
        """Wait for the reply to a request; raises TimeoutError after ``timeout`` seconds."""
        future: asyncio.Future[Frame] = asyncio.Future(loop=self._loop)
        self.replies[request] = future
        self.watch()
        try:
            async with asyncio.timeout(timeout):
                return await future
        finally:
            del self.replies[request]
