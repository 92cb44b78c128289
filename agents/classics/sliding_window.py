"""A sliding window: several items under way at once, each delivered once and in order over a link that loses some."""

import asyncio
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import netsim
from netsim.agents import papers
from netsim.draw import Role
from netsim.util import check

__all__ = ["Receiver", "Sender"]


@dataclass(eq=False, repr=False, kw_only=True)
class _Side(netsim.Agent, papers.Cited):
    """What both sides agree on: the window, the rule, and how many sequence numbers there are."""

    draw: ClassVar = {"status": Role(usual="waiting")}

    window: int = 8
    selective: bool = False
    numbers: int = 2**32
    status: str = field(default="", init=False)
    paper = papers.CERF_KAHN

    def __post_init__(self) -> None:
        check.integer("window", self.window, low=1)
        check.flag("selective", self.selective)
        check.integer("numbers", self.numbers, low=self.window)


@dataclass(eq=False, repr=False)
class Sender(_Side):
    """Sends items with up to ``window`` of them unacknowledged, and repeats those that stay so for ``timeout`` seconds.

    A frame carries an item and its sequence number, which counts from 0 to ``numbers - 1`` and begins again. Go-back-N:
    an acknowledgement is the number of the item that the receiver expects, and acknowledges all before it; when the
    oldest item times out, the sender begins again at it. Selective repeat: an acknowledgement is for one item, and only
    an item that times out is sent again. The agent returns when all items are acknowledged.

    Parameters
    ----------
    to : name
        The neighbour that is the `Receiver`.
    items : sequence
        What is sent: payloads, as for `netsim.Agent.send`.
    window : int
        How many items may be unacknowledged; 1 is stop and wait.
    selective : bool
        Selective repeat in place of go-back-N.
    numbers : int
        How many sequence numbers there are, at least ``window``. On a link that keeps the order of frames, go-back-N
        needs ``window + 1`` and selective repeat ``2 * window``; on one that does not, as many as may be sent while an
        old frame is still under way.
    timeout : float
        Seconds without an acknowledgement after which an item is sent again: more than there and back takes.
    frame_time : float
        Seconds that a frame takes to be sent: the sender sends no faster. 0: the link's queue holds what waits.

    Attributes
    ----------
    status : str
        "sending", "waiting" (the window is full, or all is sent), "repeating" or "done".
    base : int
        The oldest item that is not acknowledged.
    sent : int
        Frames sent, repetitions included.

    Raises
    ------
    BadInput
        If an argument is outside its range.

    Notes
    -----
    Cerf and Kahn (1974) give the window to a transport protocol; both rules are those of any textbook on data links.
    """

    to: Hashable
    items: Sequence[Any]
    timeout: float = 1.0
    frame_time: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.finite("timeout", self.timeout, above=0)
        check.finite("frame_time", self.frame_time, low=0)
        self.base = self.next = self.new = self.sent = 0  # new: the oldest item that was never sent
        self.due: dict[int, float] = {}  # what is not acknowledged, and when it times out

    async def run(self) -> None:
        """Send what the window allows, one frame at a time, and hear acknowledgements meanwhile."""
        wake = free = self.now
        while self.base < len(self.items):
            if self.now >= free and (item := self.choose()) is not None:
                await self.transmit(item)
                wake = free = self.now + self.frame_time
            elif self.now >= free:
                self.status, wake = "waiting", min(self.due.values())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(wake):
                    self.hear((await self.inbox.get()).payload)
        self.status = "done"

    def choose(self) -> int | None:
        """Return the item to send: one that timed out, or the next of the window; None if there is none."""
        late = [item for item, time in self.due.items() if time <= self.now]
        if late:
            self.note(f"{min(late)} timed out")
        if late and self.selective:
            return min(late)
        if late:  # go back to the oldest, and forget the alarms of those behind it until they are sent again
            self.next, self.due = self.base, dict.fromkeys(self.due, float("inf"))
        return self.next if self.next < min(self.base + self.window, len(self.items)) else None

    async def transmit(self, item: int) -> None:
        """Send an item, and set its alarm."""
        self.status = "repeating" if item < self.new else "sending"
        self.next, self.new, self.sent = max(self.next, item + 1), max(self.new, item + 1), self.sent + 1
        self.due[item] = self.now + self.timeout
        await self.send(self.to, "item", [item % self.numbers, self.items[item]], label=str(item % self.numbers))

    def hear(self, number: int) -> None:
        """Take in an acknowledgement, and move the window on; an old one, from before the window, says nothing."""
        ahead = (number - self.base) % self.numbers
        if ahead <= self.new - self.base:
            for item in [self.base + ahead] if self.selective else range(self.base, self.base + ahead):
                self.due.pop(item, None)
        self.base = min(self.due, default=self.new)
        self.next = max(self.next, self.base)


@dataclass(eq=False, repr=False)
class Receiver(_Side):
    """Delivers each item of a `Sender` once and in order, and acknowledges every frame.

    Go-back-N keeps no item that is not the next. Selective repeat keeps those of the window until the ones before them
    have come. An item that comes again is acknowledged again, because the first acknowledgement may have been lost.

    Parameters
    ----------
    window, selective, numbers
        As those of the `Sender`.

    Attributes
    ----------
    status : str
        What it did with the last frame: "delivers", "holds" or "discards".
    delivered : list
        The items, in the order of delivery.

    Notes
    -----
    It returns when no frame can come any more, which is a convenience of the simulator: a real receiver does not know
    whether its last acknowledgement has arrived, and must stay for a while.
    """

    delivered: list[Any] = field(default_factory=list, init=False)
    held: dict[int, Any] = field(default_factory=dict, init=False)

    async def run(self) -> None:
        """Deliver, hold or discard the item of each frame, and acknowledge it."""
        async for frame in self.inbox:
            number, item = frame.payload
            ahead = (number - len(self.delivered)) % self.numbers
            self.status = "discards"
            if ahead < (self.window if self.selective else 1):
                self.status, self.held[len(self.delivered) + ahead] = "holds", item
            while len(self.delivered) in self.held:
                self.status = "delivers"
                self.delivered.append(self.held.pop(len(self.delivered)))
            await self.send(frame.sender, "ack", number if self.selective else len(self.delivered) % self.numbers)
