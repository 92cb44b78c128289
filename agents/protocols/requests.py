"""Requests over lossy links: repeated until answered, but handled only once, like CoAP's confirmable messages."""

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
# Negative numbers occur, because the first number is derived from the node's clock, which may be below 0.
_FIELDS = fields(whole(-_MOST, _MOST), anything)
_LONGER = 1.5  # ACK_RANDOM_FACTOR


class Requests(Speaker):
    """Sends requests to neighbours, repeated after doubled pauses until answered, and answers neighbours' requests.

    A subclass defines `answer_to`, which is called once per request; a repetition gets a copy of the first answer.
    Other parts of the mote call `ask`.

    Parameters
    ----------
    timeout : float
        ACK_TIMEOUT in seconds: the first pause lasts 1 to 1.5 times as long.
    repeats : int
        MAX_RETRANSMIT: the maximum number of repetitions of a request.
    memory : int
        How many answers to each neighbour are stored, so that they can be sent again.

    Attributes
    ----------
    asked, repeated, answered : int
        Numbers of requests, of repetitions of requests, and of answers that this node has sent.
    foreign : Counter
        The number of received frames that were ignored, by kind.

    Notes
    -----
    Source: Z. Shelby, K. Hartke and C. Bormann, "The Constrained Application Protocol (CoAP)", RFC 7252, 2014, section
    4.2. Answers serve as acknowledgements (piggybacked responses). Only the timing is that of CoAP, not the format of
    messages.
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
            If neither the request nor a repetition is answered.
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
        # {neighbour: (number, answer) of its last requests}.
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
