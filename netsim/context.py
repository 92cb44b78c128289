"""The context that connects an agent to its network: name, neighbours, inbox, outbox and rounds.

On the path agent → outbox → link → inbox → agent, this module is at both ends.
"""

import asyncio
import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from netsim.accounting.captions import Captions, check_label, check_note
from netsim.clock.virtual_clock import LATEST
from netsim.core.delivery import Delivery
from netsim.errors import AgentError, RunOver
from netsim.links.reliability import Reliability
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.transport.router import Router
from netsim.transport.shared import Shared
from netsim.util import check
from netsim.wire.payloads import encodable

if TYPE_CHECKING:
    from netsim.radio.energy import EnergyAccount
    from netsim.radio.handle import RadioHandle

__all__ = ["Context", "Rounds"]

_NO_RELIABILITY = Reliability()


@dataclass(slots=True, eq=False, repr=False)
class Context:
    """An agent's context in one run of a network."""

    shared: Shared
    name: Hashable
    neighbors: tuple[Hashable, ...]
    inbox: Inbox
    outbox: Outbox
    seed: int
    # Neighbours to which this agent currently has a link, then those that have one to it; changed by
    # `netsim.faults.Rewire`.
    out_neighbors: tuple[Hashable, ...] = field(init=False)
    in_neighbors: tuple[Hashable, ...] = field(init=False)
    # The neighbours without a link back to this agent.
    one_way: frozenset[Hashable] = frozenset()
    # The energy that the agent's radio spends; None without an energy model.
    energy: "EnergyAccount | None" = None
    # The agent's radio; None unless the medium is a `netsim.Radio`.
    radio: "RadioHandle | None" = None
    # The router for messages to nodes that are not neighbours; None without routing.
    router: Router | None = None
    rng: np.random.Generator | None = None
    reliability: Reliability = _NO_RELIABILITY
    round: int = 0
    # The number of the last round that the agent left, and the time (s) of leaving.
    left: tuple[int, float] = (0, 0.0)
    collected: int = 0
    requests: int = 0
    # The delay (s) of each message while a fault makes the agent a straggler.
    delay: float = 0.0
    # The agent's index among all agents.
    number: int = 0
    # The run's labels and notes; None if they are not kept.
    captions: Captions | None = None
    # Number of `compute` calls that took the network's compute times.
    steps: int = 0
    # The contexts of a `netsim.Mote`'s parts, by name; None for other agents.
    parts: dict[str, Any] | None = None
    # Whether the agent's node is down.
    down: bool = False
    # The first round in which the agent participated; 0 until then.
    first_round: int = 0
    # Number of rounds that passed before a restart and are skipped; None: the agent restarted, and they are not counted
    # yet.
    _passed: int | None = 0

    def __post_init__(self) -> None:
        self.out_neighbors = self.in_neighbors = self.neighbors

    def note_restart(self) -> None:
        """Record that the agent's code restarts, or starts late, so that it skips the rounds that have passed."""
        self._passed = None

    def check_neighbor(self, to: Hashable) -> None:
        """Raise AgentError unless the agent has a link to a node or, with routing, a route."""
        try:
            if to in self.outbox.link_index_of:
                return
        except TypeError:
            raise AgentError(f"agent {self.name!r} cannot send to {to!r}: must be the name of one node") from None
        if self.router is not None and self.router.outbox is self.outbox:
            if self.router.reaches(to):
                return
            raise AgentError(f"agent {self.name!r} cannot send to {to!r}: no route leads there")
        shown = ", ".join(repr(n) for n in self.neighbors[:8]) + (", …" if len(self.neighbors) > 8 else "")
        could_route = self.radio is None and self.router is None and to != self.name and self.outbox.is_node(to)
        more = "; Network(…, routing='shortest') would carry it" if could_route else ""
        raise AgentError(f"agent {self.name!r} cannot send to {to!r}: its neighbours are {shown or 'none'}{more}")

    def carrier(self, to: Hashable) -> Outbox | Router:
        """Return the object that sends messages to a node: the outbox for a neighbour, otherwise the router."""
        return self.outbox if self.router is None or to in self.outbox.link_index_of else self.router

    def carrier_to_all(self) -> Router:
        """Return the router, which sends messages to all nodes; AgentError if there is none, or above a MAC layer."""
        if self.router is None or self.router.outbox is not self.outbox:
            raise AgentError(
                f"agent {self.name!r}: broadcast(…, everyone=True) needs Network(…, routing='shortest'); "
                "without, a broadcast reaches the neighbours"
            )
        return self.router

    def claim_radio(self) -> None:
        """Record that the agent's code switches its radio on and off; only one part of a `netsim.Mote` may do so."""

    async def straggle(self) -> None:
        """Wait for a straggler's delay, unless nothing will be sent because the agent is down or the run is over."""
        if not (self.down or self.shared.over):
            await self.shared.loop.pause(self.delay)

    async def compute(self, seconds: float | None) -> None:
        """Wait while the agent computes: for ``seconds`` or, if None, for the network's next compute time."""
        shared = self.shared
        if seconds is not None:
            seconds = check.finite("seconds", seconds, low=0, high=LATEST)
        elif shared.rounds.compute is not None:
            seconds = shared.rounds.compute.seconds(self.name, self.steps)
            self.steps += 1
        else:
            raise AgentError(
                f"agent {self.name!r}: compute() must have the seconds, or a network with compute times: "
                "Network(…, compute=…)"
            )
        await shared.loop.pause(seconds)

    async def send(
        self,
        to: Hashable,
        kind: str,
        payload: Any,
        raw_data: bool,
        *,
        request: int | None = None,
        is_reply: bool = False,
        outcome: asyncio.Future[Delivery] | None = None,
        label: str | None = None,
    ) -> bool:
        """Send to a neighbour or over a route, after a straggler's delay; return whether the link accepted it."""
        if label is not None:
            check_label(label)
        if self.delay:
            await self.straggle()
        number = -1 if self.captions is None else self.outbox.sent
        try:
            carrier = self.carrier(to)
            if isinstance(carrier, Router):
                taken = carrier.send(to, kind, encodable(payload), self.round, raw_data, request, is_reply)
            else:
                taken = carrier.send(to, kind, encodable(payload), self.round, raw_data, request, is_reply, outcome)
        except AgentError:
            await asyncio.sleep(0)  # an agent that catches the error and retries forever must not block the loop
            raise
        if number >= 0:
            self.caption(number, label, payload)
        return taken

    def caption(self, number: int, label: str | None, payload: Any) -> None:
        """Store the label of transmission ``number``, unless nothing was sent because the agent has no links."""
        if self.captions is not None and self.outbox.sent > number:
            self.captions.label(self.number, number, label, payload)

    def note(self, text: str) -> None:
        """Store a note; first call ``on_send``, so that the agent's watched states are read at the same time."""
        check_note(text)
        shared = self.shared
        if shared.over:
            raise RunOver(f"agent {self.name!r} cannot note {text!r}: the run is over")
        if self.down:
            return
        if shared.on_send is not None:
            shared.on_send(self.name)
        if self.captions is not None:
            self.captions.note(shared.loop.now(), self.number, self.outbox.sent, text)

    def without_passed(self, count: int) -> int:
        """Return ``count`` minus the number of rounds that passed before the agent's restart."""
        if self._passed is None:
            self._passed = self.shared.rounds.next_number() - max(self.first_round, 1)
        passed = min(self._passed, count)
        self._passed -= passed
        return count - passed


class Rounds:
    """The iterator of `Agent.rounds`, for ``async for``."""

    __slots__ = ("_context", "_inside", "_keep_late", "_left", "_started")

    def __init__(self, context: Context, count: int, keep_late: bool) -> None:
        self._context = context
        self._left = count
        self._keep_late = keep_late
        self._inside = self._started = False
        self._warn_of_sleep()

    def _warn_of_sleep(self) -> None:
        """Warn, once per run, if the agent's duty cycle turns its radio off for whole rounds."""
        context, shared = self._context, self._context.shared
        seconds = 0.0 if context.radio is None else context.radio.longest_sleep
        if shared.overslept or not seconds > shared.rounds.period * (1 + check.ROUNDING):
            return
        shared.overslept = True
        check.doubt(
            f"duty_cycle: the radio of agent {context.name!r} sleeps for {seconds:g} s at a time, longer than a round "
            f"of {shared.rounds.period:g} s (round_period), so whole rounds pass in which it hears nothing"
        )

    def __aiter__(self) -> "Rounds":
        return self

    def __iter__(self) -> NoReturn:
        raise AgentError("self.rounds(…): must be read by `async for`, since time passes between rounds, not by `for`")

    async def __anext__(self) -> int:
        context = self._context
        rounds = context.shared.rounds
        if not self.goes_on():
            if context.round > rounds.closed:
                await rounds.closing()
            self.leave()
            raise StopAsyncIteration
        number = await rounds.opening()
        if self._inside and number > context.round + 1:
            self._warn_of_overrun(number)
        self.enter(number)
        if rounds.compute is not None and (seconds := rounds.compute.seconds(context.name, number - 1)):
            # This agent computes in its round; the round's length covers the slowest agent.
            await context.shared.loop.pause(seconds)
        return number

    def _warn_of_overrun(self, number: int) -> None:
        """Warn, once per run, that the agent's code missed rounds; not if faults, clocks or real time explain this."""
        context, shared = self._context, self._context.shared
        if shared.overrun or context.delay or shared.clock is not None or shared.loop.clock.pace != math.inf:
            return
        shared.overrun = True
        check.doubt(
            f"agent {context.name!r} overran round {context.round} and takes part in round {number} next: what it did "
            f"in that round took longer than its {shared.rounds.length(context.round):g} s"
        )

    def __del__(self) -> None:
        # A break, return or exception has ended the loop without a call of __anext__.
        if self._inside:
            self.leave()

    def goes_on(self) -> bool:
        """Return whether another round follows; if so, decrement the number of remaining rounds."""
        if not self._started:
            self._started = True
            self._left = self._context.without_passed(self._left)
        if self._left == 0:
            return False
        self._left -= 1
        return True

    def enter(self, number: int) -> None:
        """Enter a round that has just opened."""
        context = self._context
        context.round = number
        context.first_round = context.first_round or number
        context.inbox.drop_late_frames(0 if self._keep_late else math.inf)
        self._inside = True

    def leave(self) -> None:
        """Leave the round: frames sent from now on have no round; late frames of earlier rounds are still dropped."""
        self._inside = False
        context = self._context
        context.inbox.drop_late_frames(0 if self._keep_late else context.round)
        context.left = context.round, context.shared.loop.now()
        context.round = 0
