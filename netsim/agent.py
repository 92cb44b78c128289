"""The agent: what its author writes is `run`, everything else is here."""

import asyncio
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from netsim.core import Frame
from netsim.errors import AgentError
from netsim.links.reliability import Reliability
from netsim.transport.context import Context, Rounds
from netsim.transport.heard import Heard
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.util import check, draws

if TYPE_CHECKING:
    from netsim.radio.energy import EnergyAccount

_ABSENT = object()


class Agent:
    """Base of every agent: subclass it and write ``async def run(self)``.

    Inside `run` plain asyncio works (sleep, timeout, TaskGroup, Queue), in simulated time. What follows is available
    once the network runs, not yet in ``__init__``. A subclass must not use these names for attributes of its own: doing
    so is an AgentError at once.
    """

    _netsim: Context

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in sorted(_RESERVED):
            # Not only in the class itself: a mixin before Agent would hide it, too.
            if getattr(cls, name, _ABSENT) is not getattr(Agent, name, _ABSENT):
                raise _clash(cls, name)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name == "_netsim":
                raise AgentError(f"{type(self).__qualname__} is in no network yet: use this inside run()")
            raise AttributeError(f"{type(self).__qualname__!r} object has no attribute {name!r}")

    def __getstate__(self) -> Any:
        # Its place in a network is left out: a copy is in none, and the network's loop and tasks cannot be copied.
        state: Any = super().__getstate__()
        fields, slots = state if isinstance(state, tuple) else (state, None)
        fields = {key: value for key, value in (fields or {}).items() if key != "_netsim"}
        return fields if slots is None else (fields, slots)

    async def run(self) -> None:
        """Do what the agent does; when it returns, the agent is finished."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def run(self)")

    def answer(self, frame: Frame) -> Any:
        """Return the reply to a request, at the instant when it arrives.

        Optional: an agent without it finds requests in its inbox and answers them with `reply`.
        """
        raise NotImplementedError

    @property
    def name(self) -> Hashable:
        """The agent's name: its node in the graph."""
        return self._netsim.name

    @property
    def neighbors(self) -> tuple[Hashable, ...]:
        """The agents to which it has a link."""
        return self._netsim.neighbors

    @property
    def now(self) -> float:
        """Simulated time in seconds, by the agent's own clock if that is off (`netsim.faults.ClockSkew`)."""
        shared = self._netsim.shared
        now = shared.loop.now()
        return now if shared.clock is None else shared.clock.local(now)

    @property
    def round(self) -> int:
        """The round it is in; 0 outside `rounds`."""
        return self._netsim.round

    @property
    def rng(self) -> np.random.Generator:
        """The agent's own random stream, derived from the network's seed and the agent's name."""
        context = self._netsim
        if context.rng is None:
            context.rng = draws.generator(context.seed, context.name, "agent")
        return context.rng

    @property
    def inbox(self) -> Inbox:
        """Frames that arrived: ``await inbox.get()``, or ``async for frame in inbox``."""
        return self._netsim.inbox

    @property
    def outbox(self) -> Outbox:
        """The sending side, behind `broadcast` and `send`."""
        return self._netsim.outbox

    @property
    def energy(self) -> "EnergyAccount":
        """What its radio has spent, and what its battery still holds: ``used``, ``left``, ``last_frame`` in joules.

        Raises
        ------
        AgentError
            If the medium is no `netsim.Radio` with an ``energy``.
        """
        account = self._netsim.energy
        if account is None:
            raise AgentError(f"agent {self.name!r} has no energy: the medium must be a netsim.Radio(energy=...)")
        return account

    @property
    def reliability(self) -> Reliability:
        """What its links do about frames that do not arrive."""
        return self._netsim.reliability

    def rounds(self, count: int, keep_late: bool = False) -> Rounds:
        """Take part in ``count`` rounds: ``async for k in self.rounds(50)`` yields each number, from 1, as it opens.

        A frame that arrives after the round it was sent in has closed is dropped and counted as late; with
        ``keep_late`` it is delivered with the next round's. An agent that overruns a round takes part again in the
        next one to open.
        """
        return Rounds(self._netsim, check.integer("rounds", count, low=0), check.flag("keep_late", keep_late))

    async def broadcast(self, kind: str, payload: Any, *, raw_data: bool = False) -> int:
        """Send a message to every neighbour: encoded once, carried over each link.

        Parameters
        ----------
        kind : str
            What kind of message it is; counts are kept by kind.
        payload : object
            Numbers, text, bytes, None, lists, tuples, dicts, numpy arrays, coded arrays.
        raw_data : bool
            Whether it carries samples: its bits are then counted as raw-data bits, too.

        Returns
        -------
        int
            How many links took it (it may still be lost on its way).

        Raises
        ------
        WireError
            If the payload cannot travel.
        """
        context = self._netsim
        if context.delay:
            await context.get_round_to_it()
        try:
            return context.outbox.broadcast(kind, payload, context.round, raw_data)
        except AgentError:
            await asyncio.sleep(0)  # or one that tries again and again would never let the loop go on
            raise

    async def send(self, to: Hashable, kind: str, payload: Any, *, raw_data: bool = False) -> bool:
        """Send a message to one neighbour; return whether the link took it. Otherwise as `broadcast`.

        Raises
        ------
        AgentError
            If ``to`` is not a neighbour.
        """
        self._must_be_neighbor(to)
        return await self._netsim.send(to, kind, payload, raw_data)

    async def deliver(self, to: Hashable, kind: str, payload: Any, *, raw_data: bool = False) -> bool:
        """Send a message to one neighbour, wait until it was acknowledged or given up, and return which of the two.

        That is for a `netsim.Radio` with ``acks``. False means that no acknowledgement came in all its repetitions:
        the message itself may have arrived. To go on meanwhile, make a task of it, or use `send`, which waits for
        nothing.

        Raises
        ------
        AgentError
            If ``to`` is not a neighbour, or the medium acknowledges nothing.
        """
        context = self._netsim
        self._must_be_neighbor(to)
        if not context.outbox.acknowledges:
            raise AgentError(
                f"agent {self.name!r} cannot know what is delivered: the medium must be a netsim.Radio(acks=True)"
            )
        outcome: asyncio.Future[bool] = context.shared.loop.create_future()
        await context.send(to, kind, payload, raw_data, outcome=outcome)
        return await outcome

    async def request(
        self, to: Hashable, kind: str, payload: Any, timeout: float | None = None, *, raw_data: bool = False
    ) -> Frame:
        """Send a request to a neighbour, wait for its reply and return it.

        Raises
        ------
        AgentError
            If ``to`` is not a neighbour.
        TimeoutError
            If no reply came within ``timeout`` seconds; one that comes later is counted as late.
        """
        context = self._netsim
        self._must_be_neighbor(to)
        if timeout is not None:
            timeout = check.number("timeout", timeout, low=0)
        number = context.requests = context.requests + 1
        await context.send(to, kind, payload, raw_data, request=number)
        return await context.inbox.reply_to(number, timeout)

    async def reply(self, frame: Frame, payload: Any, *, raw_data: bool = False) -> bool:
        """Answer a request that was found in the inbox; return whether the link took the reply."""
        if frame.request is None or frame.is_reply:
            raise AgentError(f"agent {self.name!r}: {frame!r} is no request, so it cannot be replied to; use send")
        self._must_be_neighbor(frame.sender)
        return await self._netsim.send(
            frame.sender, frame.kind, payload, raw_data, request=frame.request, is_reply=True
        )

    async def collect(self) -> Heard:
        """Wait until the round closes; return the frames that arrived since the last collect, in order of arrival.

        It is a list; `Heard` gives what they carry as arrays, too.

        If the round has closed already, the agent having overrun it, return at once what arrived until now.
        """
        context = self._netsim
        number = context.round
        if number <= context.collected:
            twice, outside = f"was called twice in round {number}", "is for use inside `async for … in self.rounds(…)`"
            raise AgentError(f"agent {context.name!r}: collect() {twice if number else outside}")
        rounds = context.shared.rounds
        if number <= rounds.closed:
            context.collected = number
            return Heard(context.inbox.arrived(context.shared.loop.now()))
        before, context.collected = context.collected, number
        try:
            await rounds.closing()
        except asyncio.CancelledError:
            context.collected = before
            raise
        deadline = rounds.open_deadline if number == rounds.open_round else rounds.deadline(number)
        return Heard(context.inbox.arrived(deadline))

    def _must_be_neighbor(self, to: Hashable) -> None:
        if to not in self._netsim.outbox.link_index_of:
            near = ", ".join(repr(n) for n in self.neighbors[:8]) + (", …" if len(self.neighbors) > 8 else "")
            raise AgentError(f"agent {self.name!r} cannot send to {to!r}: its neighbours are {near or 'none'}")


_RESERVED = frozenset(name for name in vars(Agent) if not name.startswith("__")) - {"run", "answer"} | {"_netsim"}


def _clash(kind: type[Agent], name: str) -> AgentError:
    what = f"the name {name!r} belongs to netsim.Agent; choose another for your own"
    return AgentError(f"{kind.__qualname__}.{name}: {what}")


def _refuse_assignment(name: str) -> Callable[[Agent, Any], None]:
    def set_it(agent: Agent, value: Any) -> None:
        raise _clash(type(agent), name)

    return set_it


for _name, _member in list(vars(Agent).items()):
    if isinstance(_member, property):
        setattr(Agent, _name, _member.setter(_refuse_assignment(_name)))


def attach(agent: Agent, context: Context) -> None:
    """Give an agent its context; raises AgentError if an attribute of its own hides one of Agent's."""
    for name in sorted(_RESERVED & vars(agent).keys() - {"_netsim"}):
        raise _clash(type(agent), name)
    agent._netsim = context


def has_begun(agent: Agent) -> bool:
    """Return whether an agent has been in a run that began."""
    context: Context | None = vars(agent).get("_netsim")
    return context is not None and context.shared.begun
