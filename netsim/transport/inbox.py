"""An agent's inbox. The receiver pulls: links put arrivals here at once, and nobody is woken before it matters.

agent → outbox → link → inbox → agent: you are at the inbox. Frames that have not arrived yet wait in order of arrival.
Whoever reads first settles what is due: frames are counted, dropped if late, if the agent is down or if the inbox is
full, and the rest become readable. A timer is set only while a task is blocked on this inbox.
"""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable

from netsim.core import Arrivals, Frame
from netsim.count.records import COLLIDED, INBOX_FULL, LATE, RECEIVER_DOWN
from netsim.transport.arrivals import Entry
from netsim.transport.framing import for_receiver
from netsim.transport.shared import Shared

__all__ = ["Inbox"]

# Frames to an agent that has ended are counted in heaps of so many.
_HEAP = 1000


class Inbox:
    """Frames for one agent; also an async iterator over them."""

    __slots__ = (
        "_abandoned",
        "_alarm",
        "_alarm_at",
        "_blocked",
        "_limit",
        "_loop",
        "_on_request",
        "_ready",
        "_shared",
        "_strict_until",
        "_tally",
        "_watched",
        "arrivals",
        "collided",
        "iterating",
        "replies",
        "up",
        "watchers",
    )

    def __init__(self, shared: Shared, limit: int | None) -> None:
        self._shared = shared
        self._loop = shared.loop
        self._tally = shared.tally
        self._limit = math.inf if limit is None else limit
        self._ready: deque[Frame] = deque()
        self._blocked: deque[asyncio.Future[bool]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf
        self._on_request: Callable[[Frame], None] | None = None
        self._strict_until: float = 0
        self._watched = self._abandoned = False
        self.arrivals = Arrivals(shared.tally)
        self.collided: set[int] = set()
        self.replies: dict[int, asyncio.Future[Frame]] = {}
        self.iterating = 0
        self.up = True
        # Where its senders note, by the number of their link to it, that it wants to be told of arrivals.
        self.watchers: list[tuple[dict[int, Inbox], int]] = []

    def __len__(self) -> int:
        """Return the number of frames that can be read without waiting."""
        self.settle_now()
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
        arrivals = self.arrivals
        if not (self._ready or arrivals.careful or self.collided) and self.up and self._limit == math.inf:
            return arrivals.deliver(until)
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

    # --- arrivals -----------------------------------------------------------------------------------------------------

    def settle_now(self) -> None:
        """Make what has arrived by now readable, and count it."""
        self.settle(math.nextafter(self._loop.time(), math.inf))

    def settle(self, until: float) -> None:
        """Make what arrived before ``until`` (seconds) readable, and count it."""
        if not len(self.arrivals):
            return
        if self._is_special():
            for entry in self.arrivals.due(until):
                self._settle_one(entry)
        else:
            self._ready.extend(self.arrivals.deliver(until))
        if self._abandoned:
            self._ready.clear()

    def be_strict(self, until: float) -> None:
        """From now on drop frames of rounds up to this one that arrive after their round has closed."""
        if until != self._strict_until:
            # What has arrived by now did so under the rule that held until now, whether or not somebody looked.
            self.settle_now()
            self._strict_until = until

    def abandon(self) -> None:
        """The agent has ended: what comes is counted as before, but kept for nobody."""
        self._abandoned = True
        self.settle_now()
        self._ready.clear()
        self._want_to_be_told()

    def _is_special(self) -> bool:
        """Return whether arrivals must be looked at one by one."""
        return self.arrivals.careful or bool(self.collided) or not self.up or self._limit < math.inf

    def _settle_one(self, entry: Entry) -> None:
        """Put a frame where it belongs, and count it."""
        time, key, kind, frame = entry
        cause = None
        if key in self.collided:
            self.collided.discard(key)
            cause = COLLIDED
        elif not self.up:
            cause = RECEIVER_DOWN
        elif 0 < frame.round <= self._strict_until and time >= self._shared.rounds.deadline(frame.round):
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
            self._tally.delivered((time,), (key,), (kind,))
        else:
            self._tally.ended(time, key, kind, cause)

    # --- waking whoever is blocked ------------------------------------------------------------------------------------

    @property
    def awaited(self) -> str:
        """What some task waits for here, in words; empty if none does."""
        return "the reply to a request" if self.replies else "a frame in its inbox" if self._blocked else ""

    def answer_with(self, on_request: Callable[[Frame], None]) -> None:
        """Hand each request to ``on_request`` at the instant when it arrives."""
        self._on_request = on_request
        self._want_to_be_told()

    def stop(self) -> None:
        """Wake nobody any more and answer nothing: the run is over."""
        self._on_request = None
        if self._alarm is not None:
            self._alarm.cancel()

    def watch(self) -> None:
        """Set the alarm to the next arrival, if somebody is to be told of it."""
        if not (self._blocked or self.replies or self._on_request is not None):
            if self._abandoned and len(self.arrivals) > _HEAP:
                self.settle_now()
            return
        self._want_to_be_told()
        first = self.arrivals.first()
        if first < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = first
            self._alarm = self._loop.call_at(first, self._ring)

    def _want_to_be_told(self) -> None:
        """Let the senders say when something is on its way, from now on."""
        if not self._watched:
            self._watched = True
            for noted, place in self.watchers:
                noted[place] = self

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, math.inf
        self.settle_now()
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
