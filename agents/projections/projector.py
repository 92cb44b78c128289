"""An agent that trains by successive orthogonal projections, for any order of turns.

In its turn an agent projects (`netsim.agents.projections.estimate.Estimate`) and sends the new values of its examples
only to the agents that share them; inputs and targets are never sent. Agents without common examples may act at the
same time, because their projections commute. In every order (`netsim.agents.projections.orders`,
`netsim.agents.projections.contention`) an agent acts only after receiving all values of the sharers' earlier turns, so
that each run equals a serial one.
"""

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import netsim
from netsim.agents import papers
from netsim.agents.papers import Cited
from netsim.agents.projections.estimate import Ensemble, Estimate, Part
from netsim.core import Frame
from netsim.errors import NetsimError
from netsim.util import check
from netsim.util.typing import Vector

_TRIES = 2_000
_LONGEST = 8  # times the first wait, after many tries
# The most bits of a frame without values (two lists, four numbers of five bytes, a text of eight), and those that
# values add.
_FRAME, _ARRAY = 256, 128


class Projector(Cited, netsim.Agent):
    """Base class: the local estimate, copies of the message values, and the exchange of updates with sharers.

    Sharers are agents with common examples. Turns have a number, the version: of two turns that set the same value, the
    later one has the larger version. The version is sent with the values, so a late or duplicated message has no
    effect.

    A subclass defines in `turns` when the agent takes its turns.

    Parameters
    ----------
    part : Part
        The agent's part of the problem, for its medium.
    sweeps : int
        Number of turns.
    duration : float
        Seconds that a projection takes.
    reliable : bool
        Whether each message is repeated until it is acknowledged. Set this to False only on links that lose no frame
        and delay all frames equally.
    timeout : float
        Seconds after which a message that is not acknowledged is repeated. Each repetition doubles the time, up to 8
        times the first one.
    radio : bool
        Whether the medium is a radio: values are broadcast, and sharers are polled one by one, so that their replies do
        not collide. On wires all sharers are polled at once.

    Attributes
    ----------
    z : ndarray of shape (|S_i|,)
        The agent's copies of the message values. The array is replaced, never changed in place.
    versions : int array of shape (|S_i|,)
        The number of the turn that set each value; −1 if none has.
    estimate : Estimate
        The function f_i.
    taken : int
        The number of turns so far.
    """

    paper = papers.PREDD
    # Acknowledgements need links in both directions.
    needs_links_both_ways = True

    def __init__(
        self,
        part: Part,
        sweeps: int,
        *,
        duration: float = 0.0,
        reliable: bool = True,
        timeout: float = 1.0,
        radio: bool = False,
    ) -> None:
        self.part = part
        self.sweeps = check.integer("sweeps", sweeps, low=0)
        self.duration = check.finite("duration", duration, low=0.0)
        self.reliable = reliable
        self.timeout = check.finite("timeout", timeout, above=0.0)
        self.on_radio = radio
        self.z: Vector = part.targets.copy()
        self.versions = np.full(len(self.z), -1)
        self.estimate = Estimate(part.gram, part.regularizer, part.divergence)
        self.taken = 0
        # The last turn received from each sharer.
        self.latest = dict.fromkeys(part.sharers, -1)
        self._news = asyncio.Event()
        self._jobs = 0
        self._rounds: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Take all turns, and then receive messages until the end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            await self.turns()

    async def turns(self) -> None:
        """Take the agent's turns when they are due."""
        raise NotImplementedError

    # --- a turn -------------------------------------------------------------------------------------------------------

    async def turn(self) -> None:
        """Project, and send the new values to the sharers."""
        with self.at_work():
            if self.duration:
                await asyncio.sleep(self.duration)
            self.project()
            await self.tell_values()

    def project(self) -> None:
        """Project, and set the turn's version."""
        version = self.version()
        self.z = self.estimate.project(self.z)
        self.versions = np.full(len(self.z), version)
        self.taken += 1

    def version(self) -> int:
        """Return the number of a new turn: larger than that of any turn that set one of the agent's values."""
        return int(self.versions.max()) + 1

    async def tell_values(self) -> None:
        """Send each sharer the values of common examples; if reliable, return when all sharers have received them."""
        # Send these values to all, because a sharer that has received them may act and change them before others have.
        version, z = int(self.versions[0]), self.z
        places, sharers = self.part.to_send, self.part.sharers
        if self.on_radio and sharers:
            await self.broadcast("values", [version, z[places[sharers[0]]]])
            if not self.reliable:
                return

        async def tell(sharer: int) -> None:
            # Broadcasts are not acknowledged, because acknowledgements would collide. Instead each receiver is asked in
            # turn, and gets the values again if it lacks them.
            if not (self.on_radio and await self.tell(sharer, "heard", version)):
                await self.tell(sharer, "values", [version, z[places[sharer]]])

        await self.each(sharers, tell)

    # --- messages -----------------------------------------------------------------------------------------------------

    async def each(self, others: Sequence[int], speak: Callable[[int], Awaitable[None]]) -> None:
        """Send to several agents: one after another on a radio, at once on wires."""
        if self.on_radio:
            for other in others:
                await speak(other)
        else:
            await asyncio.gather(*(speak(other) for other in others))

    async def tell(self, to: int, kind: str, payload: Any) -> Any:
        """Send a message to a neighbour, if reliable until it is acknowledged; return the reply.

        Raises NetsimError if there is no answer after very many tries.
        """
        if not self.reliable:
            await self.send(to, kind, payload)
            return None
        patience = self.timeout
        with self.at_work():
            for _ in range(_TRIES):
                try:
                    # Waits are random, because with equal waits two colliding agents would collide for ever.
                    return (await self.request(to, kind, payload, patience * (1 + self.rng.random()))).payload
                except TimeoutError:
                    patience = longer(patience, self.timeout)
        raise NetsimError(
            f"no answer from {to!r} to {kind!r} in {_TRIES} tries: the link is cut, its budget is less than a message, "
            f"or timeout = {self.timeout:g} s is shorter than a round trip"
        )

    def answer(self, frame: Frame) -> Any:
        """Process a message that arrives as a request, and return its acknowledgement."""
        # First process unread frames that arrived earlier, such as a broadcast to which this query refers.
        for earlier in self.inbox.take(math.nextafter(self.now, math.inf)):
            self.receive(earlier)
        return self.receive(frame)

    async def _listen(self) -> None:
        async for frame in self.inbox:
            self.receive(frame)

    def receive(self, frame: Frame) -> Any:
        """Process a message, which may be a duplicate; return the acknowledgement."""
        if frame.kind == "heard":
            return self.latest[number_of(frame.sender)] >= frame.payload
        if frame.kind == "values" and frame.sender in self.part.in_common:
            self.take(number_of(frame.sender), *frame.payload)
        return True

    def take(self, sender: int, version: int, values: Vector) -> None:
        """Copy those of a sharer's values that are newer than the agent's copies."""
        places = self.part.in_common[sender]
        newer = version > self.versions[places]
        self.z, self.versions = self.z.copy(), self.versions.copy()
        self.z[places[newer]] = values[self.part.in_message[sender][newer]]
        self.versions[places[newer]] = version
        self.latest[sender] = max(self.latest[sender], version)
        self._news.set()

    # --- the network's rounds -----------------------------------------------------------------------------------------

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Take part in the network's rounds inside the context, and in two more, so that results have a row for each.

        Turns are independent of rounds. An agent that only waits for messages takes part in no rounds, so that a run in
        which all agents wait for a lost message ends with an error.
        """
        self._jobs += 1
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._stay())
        try:
            yield
        finally:
            self._jobs -= 1

    async def _stay(self) -> None:
        idle = 0
        async for _ in self.rounds(sys.maxsize, keep_late=True):
            idle = 0 if self._jobs else idle + 1
            if idle == 2:
                break


def longer(wait: float, first: float) -> float:
    """Return the wait (s) after another failure: twice the last wait, but at most 8 times the first one."""
    return min(2 * wait, _LONGEST * first)


def largest_message(ensemble: Ensemble, *, radio: bool = False) -> int:
    """Return the bits of the values in the largest message; its frame is a little larger."""
    if radio:
        return 64 * max(len(ensemble.on_air(i)) for i in range(len(ensemble)))
    return 64 * max((len(ensemble.shared(a, b)) for a, b in ensemble.sharers.edges), default=0)


def sure_timeout(
    ensemble: Ensemble,
    *,
    latency: float = 0.0,
    rate: float | None = None,
    round_period: float = 1.0,
    radio: bool = False,
) -> float:
    """Return a timeout (s) that exceeds the round trip of any message and its reply, in every order.

    With this timeout only lost messages are repeated. ``latency`` is the longest time (s) for which a frame is in
    flight after its transmission. Waiting frames share a transmitter's ``rate`` (bits/s): on wires the frames to the
    same agent; on a radio, where values are broadcast, the sender's values and a reply to each neighbour. A
    hundredth of a round is added, so that the timeout is positive on links without delay, and a frame that a budget
    refuses is not repeated too often in one round.
    """
    check.finite("latency", latency, low=0.0)
    check.finite("round_period", round_period, above=0.0)
    largest = _FRAME + _ARRAY + largest_message(ensemble, radio=radio)
    # The ring of the token adds up to two neighbours.
    neighbors = 2 + max(degree for _, degree in ensemble.sharers.degree)
    queued = 2 * largest + neighbors * _FRAME if radio else largest + _FRAME
    sending = 0.0 if rate is None else queued / check.finite("rate", rate, above=0.0)
    return 2 * (latency + sending) + 0.01 * round_period


def number_of(name: Hashable) -> int:
    """Return an agent's number, which is its name."""
    assert isinstance(name, int)
    return name
