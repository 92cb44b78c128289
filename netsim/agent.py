"""Base class of agents: a subclass implements `run`, and this class provides the rest."""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from netsim.accounting.captions import check_label
from netsim.context import Context, Rounds
from netsim.core import Frame
from netsim.core.delivery import Delivery
from netsim.errors import AgentError
from netsim.links.reliability import Reliability
from netsim.transport.heard import Heard
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.util import check, draws
from netsim.wire.payloads import encodable

if TYPE_CHECKING:
    import networkx as nx

    from netsim.radio.energy import EnergyAccount
    from netsim.radio.handle import RadioHandle

_ABSENT = object()


class _NoContext:
    """Stands for a context before `attach`: finds the context of a mote's part, or raises AgentError."""

    def __get__(self, agent: "Agent | None", kind: "type[Agent]") -> Any:
        if agent is None:
            return self
        if (mote := vars(agent).get("mote")) is not None:
            context = vars(agent)["_netsim"] = mote._context_of(agent)
            return context
        raise AgentError(f"{kind.__qualname__} has not joined a network yet: use this inside run()")


class Agent:
    """Base of every agent: subclass it and write ``async def run(self)``.

    Inside `run` plain asyncio works (sleep, timeout, TaskGroup, Queue), in simulated time. The methods and properties
    below are available once the network runs, but not in ``__init__``. A subclass that reuses one of these names for
    its own attribute causes an AgentError.

    Attributes
    ----------
    needs_links_both_ways : bool
        Whether these agents require links in both directions; `netsim.Network.run` rejects a one-way link. A
        subclass may set it; False by default.
    background : bool
        Whether the agent is part of the environment instead of the system under study. A run does not wait for its end,
        and the run's agents, rows, states and tables of airtime and energy omit it. A subclass may set it; False by
        default.
    draw : dict
        Class attribute: how the agent's states are drawn in replays (see `netsim.draw`): ``{"role": Role(), "parent":
        Edge()}``. These states are watched in each run that keeps a trace or is shown live. Agents may set a state
        late, but if no agent of the class ever sets it, the run ends with an error, because the name may be misspelled.
    """

    _netsim: Context
    needs_links_both_ways: ClassVar[bool] = False
    background: ClassVar[bool] = False
    draw: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in sorted(_RESERVED):
            # A mixin that precedes Agent in the MRO would also hide the name.
            if getattr(cls, name, _ABSENT) is not getattr(Agent, name, _ABSENT):
                raise _name_clash(cls, name)

    if not TYPE_CHECKING:
        # A class attribute, because defining __getattr__ would slow every attribute access of an agent.
        _netsim = _NoContext()

    def __getstate__(self) -> Any:
        # Drop the network context from the copy, because its loop and tasks cannot be copied.
        state: Any = super().__getstate__()
        fields, slots = state if isinstance(state, tuple) else (state, None)
        fields = {key: value for key, value in (fields or {}).items() if key != "_netsim"}
        return fields if slots is None else (fields, slots)

    async def run(self) -> None:
        """Run the agent; the agent is finished when this coroutine returns."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def run(self)")

    def answer(self, frame: Frame) -> Any:
        """Return the payload of the reply to a request; netsim calls this method when the request arrives.

        Without this optional method, requests go to the inbox and the agent answers them with `reply`.
        """
        raise NotImplementedError

    @classmethod
    def _check_together(cls, agents: "Mapping[Any, Agent]", graph: "nx.Graph[Any]") -> None:
        """Raise BadInput, or warn, if the settings of a protocol's agents are inconsistent with each other."""

    def _members(self) -> "dict[str, Any]":
        """Return the agent's parts by name; empty unless it is a `netsim.Mote`."""
        return {}

    @property
    def name(self) -> Hashable:
        """The agent's name: its node in the graph."""
        return self._netsim.name

    @property
    def neighbors(self) -> tuple[Hashable, ...]:
        """The names of the agents to which this agent has a link; in an undirected graph these are also its senders."""
        return self._netsim.neighbors

    @property
    def out_neighbors(self) -> tuple[Hashable, ...]:
        """The neighbours to which this agent currently has links; `netsim.faults.Rewire` changes them.

        Links that a fault or `netsim.Network.set_link` has cut are included, because the agent cannot know that they
        are cut.
        """
        return self._netsim.out_neighbors

    @property
    def in_neighbors(self) -> tuple[Hashable, ...]:
        """The neighbours that currently have links to this agent; cut links are included, as in `out_neighbors`."""
        return self._netsim.in_neighbors

    @property
    def now(self) -> float:
        """Simulated time (s), read from the agent's own clock if `netsim.faults.ClockSkew` skews it."""
        shared = self._netsim.shared
        now = shared.loop.now()
        return now if shared.clock is None else shared.clock.local(now)

    @property
    def round(self) -> int:
        """The number of the agent's current round; 0 outside `rounds`."""
        return self._netsim.round

    @property
    def has_compute_times(self) -> bool:
        """Whether the network has compute times, so that `compute` may be called without seconds."""
        return self._netsim.shared.rounds.compute is not None

    @property
    def rng(self) -> np.random.Generator:
        """The agent's own random stream, derived from the network's seed and the agent's name."""
        context = self._netsim
        if context.rng is None:
            context.rng = draws.generator(context.seed, context.name, "agent")
        return context.rng

    @property
    def inbox(self) -> Inbox:
        """The queue of received frames: ``await inbox.get()``, or ``async for frame in inbox``."""
        return self._netsim.inbox

    @property
    def outbox(self) -> Outbox:
        """The outbox through which `broadcast` and `send` transmit."""
        return self._netsim.outbox

    @property
    def energy(self) -> "EnergyAccount":
        """The energy account of the agent's radio and battery, in joules: ``used``, ``left``, ``last_frame``.

        Raises
        ------
        AgentError
            If the medium is not a `netsim.Radio` with an ``energy`` model.
        """
        account = self._netsim.energy
        if account is None:
            raise AgentError(
                f"agent {self.name!r} has no energy account: the medium must be a netsim.Radio(energy=...)"
            )
        return account

    @property
    def radio(self) -> "RadioHandle":
        """The agent's radio: ``on()``, ``off()``, ``await listen(seconds)``, ``busy()``, ``channel``, ``state``.

        Raises
        ------
        AgentError
            If the medium is not a `netsim.Radio`.
        """
        handle = self._netsim.radio
        if handle is None:
            raise AgentError(f"agent {self.name!r} cannot control a radio: the medium must be a netsim.Radio")
        return handle

    def spend(self, what: str, joules: float) -> None:
        """Spend joules of the agent's battery immediately, as for a sensor reading: ``self.spend("adc", 40e-6)``.

        `netsim.Run.energy` has a column for each ``what``. A battery supplies at most the energy it holds.

        Raises
        ------
        AgentError
            If the medium is not a `netsim.Radio` with an ``energy`` model.
        BadInput
            If the joules are negative, or ``what`` is the name of a radio state.
        """
        self.energy.spend(what, joules)

    @property
    def reliability(self) -> Reliability:
        """The retransmission settings of the agent's links."""
        return self._netsim.reliability

    def rounds(self, count: int, keep_late: bool = False) -> Rounds:
        """Iterate over ``count`` rounds: ``async for k in self.rounds(50)`` yields each round's number as it opens.

        A frame that arrives after the close of the round in which it was sent is dropped and counted as late or, with
        ``keep_late``, delivered with the frames of the next round. An agent that overruns a round rejoins at the next
        round that opens.
        """
        return Rounds(self._netsim, check.integer("rounds", count, low=0), check.flag("keep_late", keep_late))

    def note(self, text: str) -> None:
        """Attach a remark to the agent, which replays show: ``self.note("becomes leader")``.

        `netsim.Run.notes` lists the notes. They are kept if the run keeps a trace or is watched live, and do not affect
        the run. A node that is down writes no notes.

        Raises
        ------
        BadInput
            If ``text`` is not printable text of 1 to 200 characters.
        RunOver
            If the run is over.
        """
        self._netsim.note(text)

    async def broadcast(
        self,
        kind: str,
        payload: Any = None,
        *,
        raw_data: bool = False,
        label: str | None = None,
        everyone: bool = False,
    ) -> int:
        """Encode a message once and send it to every neighbour, over each of this agent's links.

        Parameters
        ----------
        kind : str
            The message type, by which the ledger counts messages.
        payload : object
            The message body: a number, str, bytes, None, list, tuple, dict, array or coded array, or an object of a
            registered class (`netsim.payloads`). By default None.
        raw_data : bool
            Whether the payload contains raw data samples, whose bits are then also counted as raw-data bits.
        label : str, optional
            The text on the message's arrows in a replay, at most 40 characters; "" for none. The label is not sent. By
            default it is the payload, if that is a number, a str, or a list, tuple, dict or set of these, with at most
            16 characters as text.
        everyone : bool
            With ``Network(routing=...)``: send the message to all nodes. Nodes forward it along the tree formed by
            their routes to this agent, so each other node receives it over exactly one link. Default: only to the
            neighbours.

        Returns
        -------
        int
            The number of this agent's links that accepted the message, which may still lose it.

        Raises
        ------
        WireError
            If the payload cannot be encoded.
        BadInput
            If the label is not printable, or too long, or ``everyone`` is set in a graph with one-way links.
        AgentError
            If ``everyone`` is set without routing, or no route leads back from some node.
        """
        context = self._netsim
        if label is not None:
            check_label(label)
        carrier = context.carrier_to_all() if everyone else context.outbox
        if context.delay:
            await context.straggle()
        number = -1 if context.captions is None else context.outbox.sent
        try:
            taken = carrier.broadcast(kind, encodable(payload), context.round, raw_data)
        except AgentError:
            await asyncio.sleep(0)  # An agent that retries in a tight loop must not block the event loop.
            raise
        if number >= 0:
            context.caption(number, label, payload)
        return taken

    async def send(
        self, to: Hashable, kind: str, payload: Any = None, *, raw_data: bool = False, label: str | None = None
    ) -> bool:
        """Send a message to one neighbour, with the parameters of `broadcast`, and return whether the link accepted it.

        With ``Network(routing=...)`` the receiver may be any node: intermediate nodes forward the message.

        Raises
        ------
        AgentError
            If ``to`` is not a neighbour and, with routing, no route leads there.
        """
        self._check_neighbor(to)
        return await self._netsim.send(to, kind, payload, raw_data, label=label)

    async def deliver(
        self, to: Hashable, kind: str, payload: Any = None, *, raw_data: bool = False, label: str | None = None
    ) -> Delivery:
        """Send a message to one neighbour, and return its outcome once it is acknowledged or given up.

        This needs a `netsim.Radio` with ``acks``. The result is true if the message was acknowledged. It is false if no
        attempt was acknowledged, although the message may have arrived. To continue during the wait, run this in a
        task, or use `send`, which does not wait.

        Returns
        -------
        Delivery
            True or false, with ``attempts``, ``backoffs``, ``reason`` and ``energy_j``
            (`netsim.core.delivery.Delivery`).

        Raises
        ------
        AgentError
            If ``to`` is not a neighbour, or the medium does not send acknowledgements.
        """
        context = self._netsim
        self._check_neighbor(to)
        if not context.outbox.acknowledges:
            raise AgentError(
                f"agent {self.name!r} cannot wait for an acknowledgement: the medium must be a netsim.Radio(acks=True)"
            )
        outcome: asyncio.Future[Delivery] = context.shared.loop.create_future()
        await context.send(to, kind, payload, raw_data, outcome=outcome, label=label)
        return await outcome

    async def request(
        self,
        to: Hashable,
        kind: str,
        payload: Any = None,
        timeout: float | None = None,
        *,
        raw_data: bool = False,
        label: str | None = None,
    ) -> Frame:
        """Send a request to a neighbour, as `send` does, wait for its reply and return it.

        Raises
        ------
        AgentError
            If ``to`` is not a neighbour, or has no link back; with routing, if there is no route there and back.
        TimeoutError
            If no reply arrives within ``timeout`` seconds; a later reply is counted as late.
        """
        context = self._netsim
        self._check_neighbor(to)
        if to in context.one_way if context.router is None else not context.router.hears(to):
            why = "that has no link back" if context.router is None else "no route leads back within the hop limit"
            raise AgentError(f"agent {self.name!r} cannot request from {to!r}: {why}")
        if timeout is not None:
            timeout = check.number("timeout", timeout, low=0)
        number = context.requests = context.requests + 1
        await context.send(to, kind, payload, raw_data, request=number, label=label)
        return await context.inbox.wait_for_reply(number, timeout)

    async def reply(
        self, frame: Frame, payload: Any = None, *, raw_data: bool = False, label: str | None = None
    ) -> bool:
        """Reply to a request read from the inbox; return whether the link accepted the reply."""
        if frame.request is None or frame.is_reply:
            raise AgentError(f"agent {self.name!r}: {frame!r} is not a request and has no reply; use send")
        self._check_neighbor(frame.sender)
        return await self._netsim.send(
            frame.sender, frame.kind, payload, raw_data, request=frame.request, is_reply=True, label=label
        )

    async def compute(self, seconds: float | None = None) -> None:
        """Spend simulated time on computation; frames that arrive meanwhile wait in the inbox.

        In a loop over `rounds`, the time is spent within the current round. If the computation ends after the round has
        closed, the agent's frames are late, and the agent joins the next round that opens. With ``Network(…,
        compute=…)`` each round lasts until all agents have computed, and agents spend the network's compute times
        without calling this method.

        Parameters
        ----------
        seconds : float, optional
            The duration. By default the network's compute time of this node: the first call takes the time of round 1,
            the second call that of round 2, ….

        Raises
        ------
        BadInput
            If ``seconds`` is negative, infinite or NaN.
        AgentError
            Without ``seconds``, if the network has no compute times.
        """
        await self._netsim.compute(seconds)

    async def collect(self) -> Heard:
        """Wait until the round closes; return the frames that arrived since the last collect, in order of arrival.

        The result is a list that also returns the payloads as arrays (`Heard`). If the round has already closed, this
        returns immediately.
        """
        context = self._netsim
        number = context.round
        if number <= context.collected:
            twice, outside = f"was called twice in round {number}", "is for use inside `async for … in self.rounds(…)`"
            raise AgentError(f"agent {context.name!r}: collect() {twice if number else outside}")
        rounds = context.shared.rounds
        if number <= rounds.closed:
            context.collected = number
            return Heard(context.inbox.take_true(context.shared.loop.now()))
        before, context.collected = context.collected, number
        try:
            await rounds.closing()
        except asyncio.CancelledError:
            context.collected = before
            raise
        deadline = rounds.open_deadline if number == rounds.open_round else rounds.deadline(number)
        return Heard(context.inbox.take_true(deadline))

    def _check_neighbor(self, to: Hashable) -> None:
        self._netsim.check_neighbor(to)


_RESERVED = frozenset(name for name in vars(Agent) if not name.startswith("__")) - {
    "run",
    "answer",
    "needs_links_both_ways",
    "background",
    "draw",
    "_check_together",
    "_members",
} | {"_netsim"}
_NAMES = _RESERVED - {"_netsim"}


def _name_clash(kind: type[Agent], name: str) -> AgentError:
    what = f"the name {name!r} belongs to netsim.Agent; choose another for your own"
    return AgentError(f"{kind.__qualname__}.{name}: {what}")


def _read_only_setter(name: str) -> Callable[[Agent, Any], None]:
    def setter(agent: Agent, value: Any) -> None:
        raise _name_clash(type(agent), name)

    return setter


for _name, _member in list(vars(Agent).items()):
    if isinstance(_member, property):
        setattr(Agent, _name, _member.setter(_read_only_setter(_name)))


def attach(agent: Agent, context: Context) -> None:
    """Set an agent's context; raise AgentError if an instance attribute hides an attribute of Agent."""
    if not _NAMES.isdisjoint(vars(agent)):
        raise _name_clash(type(agent), min(_NAMES & vars(agent).keys()))
    agent._netsim = context
    for part in agent._members().values():
        # The mote will create the part's context.
        vars(part).pop("_netsim", None)


def has_run(agent: Agent) -> bool:
    """Return whether an agent has taken part in a run that started."""
    context: Context | None = vars(agent).get("_netsim")
    return context is not None and context.shared.begun


@cache
def slots_of(kind: type) -> list[str]:
    """Return the names of a class's slots, with private names mangled, as ``object.__delattr__`` needs them."""
    members = [(name, member) for each in kind.__mro__ for name, member in vars(each).items()]
    return [name for name, member in members if isinstance(member, MemberDescriptorType)]
