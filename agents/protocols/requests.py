"""Requests over a lossy link: repeated until answered, and answered once, as CoAP's confirmable messages."""

import asyncio
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import netsim
from netsim.agents.papers import COAP
from netsim.agents.protocols.kinds import Form, Speaker, anything, fields, whole
from netsim.agents.protocols.mac import first_number
from netsim.draw import Stack
from netsim.util import check

__all__ = ["Requests"]

ASK, ANSWER = "q", "qa"

_MOST = 2**62
# The first number is below 0 where the clock is.
_FIELDS = fields(whole(-_MOST, _MOST), anything)
_LONGER = 1.5  # ACK_RANDOM_FACTOR


class Requests(Speaker):
    """Sends requests to neighbours, and answers theirs: a request is repeated after doubled pauses until answered.

    A repeated request gets the same answer again, and `answer_to` is called only for the first. A subclass defines
    `answer_to`; other parts of the mote call `ask`.

    Parameters
    ----------
    timeout : float
        ACK_TIMEOUT: the first pause lasts 1 to 1.5 times so many seconds.
    repeats : int
        MAX_RETRANSMIT: how often a request is repeated.
    memory : int
        How many answers of each neighbour are kept, to be given again.

    Attributes
    ----------
    asked, repeated, answered : int
        Requests, repetitions of requests, and answers that this node has sent.
    foreign : Counter
        The number of received frames that were ignored, by kind.

    Notes
    -----
    Source: Z. Shelby, K. Hartke and C. Bormann, "The Constrained Application Protocol (CoAP)", RFC 7252, 2014, section
    4.2, with answers in place of acknowledgements (piggybacked responses). Only the timing is CoAP's: messages are
    netsim's.
    """

    draw: ClassVar = {"unanswered": Stack(lambda a: len(a._waiting))}
    paper: ClassVar[str] = COAP
    kinds: ClassVar[Mapping[str, Form]] = {ASK: _FIELDS, ANSWER: _FIELDS}

    def __init__(self, *, timeout: float = 2.0, repeats: int = 4, memory: int = 16) -> None:
        super().__init__()
        self.timeout = check.finite("timeout", timeout, above=0)
        self.repeats = check.integer("repeats", repeats, low=0, high=60)
        self.memory = check.integer("memory", memory, low=1)
        self.asked = self.repeated = self.answered = self._number = 0
        self._waiting: dict[tuple[Hashable, int], asyncio.Future[Any]] = {}

    # --- for the application ------------------------------------------------------------------------------------------

    async def ask(self, to: Hashable, value: Any) -> Any:
        """Send a request to a neighbour, and return its answer.

        Raises
        ------
        TimeoutError
            If no answer arrives to the request or its repetitions.
        """
        number = self._number = self._number + 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[to, number] = answer
        self.asked += 1
        pause = self.timeout * self.rng.uniform(1, _LONGER)
        try:
            for attempt in range(self.repeats + 1):
                self.repeated += attempt > 0
                await self.send(to, ASK, [number, value])
                try:
                    async with asyncio.timeout(pause * 2**attempt):
                        return await asyncio.shield(answer)
                except TimeoutError:
                    continue
        finally:
            del self._waiting[to, number]
        raise TimeoutError(f"{to!r} has not answered {self.repeats + 1} requests")

    def answer_to(self, sender: Hashable, value: Any) -> Any:
        """Return the answer to a request. To be overridden."""
        return None

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Handle requests and answers."""
        self._number = first_number(self.now)
        self._waiting = {}
        # For each neighbour, its last requests' numbers with their answers.
        self._given: dict[Hashable, deque[tuple[int, Any]]] = {}
        async for frame in self.inbox:
            if self.is_own(frame):
                await self._take(frame)

    async def _take(self, frame: netsim.Frame) -> None:
        number, value = frame.payload
        if frame.kind == ANSWER:
            waiting = self._waiting.get((frame.sender, number))
            if waiting is not None and not waiting.done():
                waiting.set_result(value)
            return
        given = self._given.setdefault(frame.sender, deque(maxlen=self.memory))
        known = next((answer for before, answer in given if before == number), given)
        if known is given:
            known = self.answer_to(frame.sender, value)
            given.append((number, known))
        self.answered += 1
        await self.send(frame.sender, ANSWER, [number, known])
