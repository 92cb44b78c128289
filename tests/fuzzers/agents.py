"""Agents with random behaviours, which record all messages that they send and receive."""

import asyncio
import copy
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import netsim
from netsim import Frame
from tests.fuzzers import payloads

KINDS = ["all", "one", "θ"]


@dataclass
class Call:
    """A message that an agent sends; ``took`` is the number of links that accepted it (None: not known yet).

    ``mood`` is the value of the agent's attribute ``mood`` at the call.
    """

    sender: Hashable
    to: Hashable | None
    kind: str
    round: int
    at: float
    payload: Any
    raw: bool = False
    took: int | None = None
    finished: bool = False
    is_special: bool = False
    mood: int = 0


@dataclass
class Got:
    """A received frame, as copied when the agent received it."""

    sender: Hashable
    kind: str
    round: int
    sent_at: float
    payload: Any
    now: float
    length: int


@dataclass(frozen=True)
class Habits:
    """Parameters of an agent's behaviour; times in seconds."""

    name: str
    count: int
    period: float
    pause: float
    timeout: float
    keep_late: bool = False
    chance: float = 0.5
    answers: bool = False
    background: bool = False
    looks: bool = False
    # Whether the agent counts the unread frames in its inbox at the end.
    counts: bool = True
    # Whether all messages have the same payload.
    alike: bool = False
    # On a radio: whether the agent changes channel and power after queueing messages.
    retunes: bool = False
    # On a radio: whether the agent waits until its messages have left the air, outside rounds.
    transmits: bool = False


@dataclass
class Notes:
    """An agent's record: messages, received frames, errors found, time of its end, and number of unread frames."""

    calls: list[Call] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    # Messages to neighbours: time of the call, kind, and the event that the message reports.
    events: list[tuple[float, str, float | None]] = field(default_factory=list)
    # The outcomes of messages whose transmission has ended.
    sent: list[Any] = field(default_factory=list)
    # Each frame received by radio: sender, kind, time of sending, local start of reception, and event.
    stamps: list[tuple[Hashable, str, float, float, float | None]] = field(default_factory=list)
    # Not compared: a listener ends when nothing more can arrive, which is later if a probe is still scheduled.
    left_at: float = field(default=float("inf"), repr=False)
    unread: int = field(default=0, repr=False)


class Log(list[tuple[float, int]]):
    """A list that copying its agent does not copy, so that records survive a restart."""

    def __deepcopy__(self, memo: object) -> "Log":
        return self


class Noting(netsim.Agent):
    """Sends and receives messages as its habits prescribe, and records both.

    The counter ``mood`` increases before and after each message sent, and after each message received; ``moods`` holds
    (time in s, mood) pairs.
    """

    def __init__(self, habits: Habits) -> None:
        self.habits = habits
        self.notes = Notes()
        self.mood = 0
        self.moods = Log([(0.0, 0)])
        # The channel set at each call, if the agent retunes its radio.
        self.channels = Log()

    def feel(self) -> int:
        """Increase the mood, record it with the time, and return it."""
        self.mood += 1
        self.moods.append((self.now, self.mood))
        return self.mood

    async def run(self) -> None:
        """Run the method that the habits name, with background traffic if they request it."""
        task = asyncio.create_task(self.ping()) if self.habits.background else None
        await getattr(self, self.habits.name)()
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.notes.left_at, self.notes.unread = self.now, len(self.inbox) if self.habits.counts else 0

    # --- habits -------------------------------------------------------------------------------------------------------

    async def in_rounds(self) -> None:
        """Broadcast in each round, and collect frames in most rounds."""
        async for _ in self.rounds(self.habits.count, self.habits.keep_late):
            await self.tell()
            if self.rng.random() < self.habits.chance:
                await self.act()
            if self.habits.looks:
                len(self.inbox)
            if self.rng.random() < 0.9:
                for frame in await self.collect():
                    self.hear_of(frame)

    async def twice_in_rounds(self) -> None:
        """Leave a loop over rounds before its end, and begin another."""
        async for k in self.rounds(self.habits.count, self.habits.keep_late):
            await self.tell()
            if k > self.habits.count // 2:
                break
        await self.in_rounds()

    async def heartbeat(self) -> None:
        """Broadcast at intervals, and read the inbox."""
        for _ in range(self.habits.count):
            await asyncio.sleep(self.habits.pause)
            await self.tell()
            for _ in range(len(self.inbox)):
                self.hear_of(await self.inbox.get())

    async def listen(self) -> None:
        """Read all frames that will ever arrive, and forward some of them."""
        left = self.habits.count
        async for frame in self.inbox:
            self.hear_of(frame)
            if left and self.rng.random() < self.habits.chance:
                left -= 1
                await self.act(frame)

    async def ask_around(self) -> None:
        """Send requests to the neighbours one after the other."""
        for _ in range(self.habits.count):
            await self.ask()
            await asyncio.sleep(self.habits.pause)

    async def wait_for_each(self) -> None:
        """Wait for single frames, each with a timeout."""
        for _ in range(self.habits.count):
            with suppress(TimeoutError):
                async with asyncio.timeout(self.habits.timeout):
                    self.hear_of(await self.inbox.get())
            await self.tell()

    async def at_once(self) -> None:
        """Ask, read and send from several concurrent tasks."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.heartbeat())
            tasks.create_task(self.ask())
            tasks.create_task(self.wait_for_each())
            tasks.create_task(self.ask())

    async def silent(self) -> None:
        """Do nothing."""

    # --- what they do ------------------------------------------------------------------------------------------------

    async def ping(self) -> None:
        """Send messages concurrently with the main behaviour, until either ends."""
        for _ in range(4 * self.habits.count):
            await asyncio.sleep(self.habits.pause)
            await self.tell()

    async def act(self, frame: Frame | None = None) -> None:
        """Perform one random action."""
        what = self.rng.integers(4)
        if frame is not None and frame.request is not None and not frame.is_reply:
            await self.give(frame)
        elif what == 0:
            await self.ask()
        elif what == 1:
            await asyncio.sleep(self.habits.pause)
        elif what == 2:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.habits.timeout):
                    self.hear_of(await self.inbox.get())
        else:
            await self.tell()

    def other(self) -> Hashable:
        """Return a random neighbour."""
        return self.neighbors[int(self.rng.integers(len(self.neighbors)))]  # type: ignore[no-any-return]

    def intend(self, to: Hashable | None, kind: str, is_special: bool = False) -> tuple[Call, Any]:
        """Record a message that is about to be sent; return the record and the payload."""
        payload = "la" if self.habits.alike else payloads.make(self.rng)
        raw = bool(self.rng.random() < 0.2) and not is_special
        call = Call(self.name, to, kind, self.round, self.now, copy.deepcopy(payload), raw, is_special=is_special)
        call.mood = self.feel()
        if self.habits.retunes:
            self.channels.append((self.now, self.radio.channel))
        self.notes.calls.append(call)
        return call, payload

    async def tell(self) -> None:
        """Send a message to all neighbours or to a random one."""
        if not self.neighbors:
            return
        to = None if self.rng.random() < 0.6 else self.other()
        call, payload = self.intend(to, KINDS[self.rng.integers(len(KINDS))])
        if self.habits.transmits and not self.round:
            await self.transmit(call, payload)
            return
        self.notes.events.append((call.at, call.kind, None))
        if to is None:
            took: int = await self.broadcast(call.kind, payload, raw_data=call.raw)
        else:
            took = await self.send(to, call.kind, payload, raw_data=call.raw)
        call.took, call.finished = int(took), True
        self.feel()
        payloads.spoil(payload)
        if self.habits.retunes and self.rng.random() < 0.5:
            # A message that is still queued must leave with the settings of its call, not with these.
            self.radio.channel = int(self.rng.integers(3)) // 2
            self.radio.power_dbm -= float(self.rng.integers(-3, 4))

    async def transmit(self, call: Call, payload: Any) -> None:
        """Transmit a message, with or without the time of an event, and record the outcome."""
        event = self.now - float(self.rng.choice([0.0, 1e-6, 0.3])) if self.rng.random() < 0.5 else None
        # Record the event before the wait, which the run's end may cut short after the frame has arrived.
        self.notes.events.append((call.at, call.kind, event))
        sent = await self.radio.transmit(call.kind, payload, call.to, event=event, raw_data=call.raw)
        call.finished = True
        self.feel()
        self.notes.sent.append(sent)
        payloads.spoil(payload)
        if sent.on_air and not call.at <= sent.began <= sent.ended <= self.now + 1e-9:
            self.notes.wrong.append(f"{call} left the air at another time: {sent}")

    async def ask(self) -> None:
        """Send a request to a neighbour, and wait for the reply up to a timeout."""
        able = [each for each in self.neighbors if each in self.in_neighbors]
        if able:
            call, payload = self.intend(able[int(self.rng.integers(len(able)))], "ask", is_special=True)
            with suppress(TimeoutError):
                self.hear_of(await self.request(call.to, "ask", payload, self.habits.timeout))
            call.finished = True

    async def give(self, frame: Frame) -> None:
        """Reply to a request from the inbox."""
        call, payload = self.intend(frame.sender, frame.kind, is_special=True)
        call.took = int(await self.reply(frame, payload))
        call.finished = True

    def hear_of(self, frame: Frame) -> None:
        """Record a frame, then modify its mutable parts."""
        if not payloads.read_only(frame.payload):
            self.notes.wrong.append(f"an array of {frame} can be written to")
        content = copy.deepcopy(frame.payload)
        got = Got(frame.sender, frame.kind, frame.round, frame.sent_at, content, self.now, len(frame.data))
        self.notes.got.append(got)
        if frame.began is not None:
            self.notes.stamps.append((frame.sender, frame.kind, frame.sent_at, frame.began, frame.event))
        self.feel()
        payloads.spoil(frame.payload)


class Answering(Noting):
    """An agent that answers requests by the method ``answer``, as they arrive."""

    def answer(self, frame: Frame) -> Any:
        """Record a request, and return the reply."""
        self.hear_of(frame)
        call, payload = self.intend(frame.sender, frame.kind, is_special=True)
        call.finished = True
        return payload


def agent(habits: Habits) -> Noting:
    """Return an agent with these habits."""
    return Answering(habits) if habits.answers else Noting(habits)
