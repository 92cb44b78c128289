"""Motes composed of several parts that share one radio: routing, time, dissemination, an application.

On the path agent → outbox → link → inbox → agent, a mote is between the inbox and its parts: it passes each frame to
the part that owns the frame's kind. Each part is an agent that can also run alone.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Collection, Coroutine, Hashable
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np

from netsim.agent import Agent
from netsim.context import Context
from netsim.core import Frame
from netsim.core.delivery import Delivery
from netsim.core.records import ALL_CAUSES, REFUSED
from netsim.engine.diagnosis import IN_PART
from netsim.errors import AgentError, BadInput, RunOver
from netsim.radio.handle import RadioHandle
from netsim.round_agent import RoundAgent
from netsim.transport.inbox import PartInbox
from netsim.util import check, draws
from netsim.wire.codec import encode

__all__ = ["MacLayer", "Message", "Mote", "Part"]

MAC = "mac"
"""The name of the MAC layer among a mote's parts."""


class Part(Agent):
    """Base class for agents that are only used as parts of a `Mote`.

    Attributes
    ----------
    kinds : collection of str
        Class attribute: the kinds of frames delivered to the part; by default none.
    switches_radio : bool
        Class attribute: whether the part switches the radio on and off, or sets its channel. A mote has at most one
        such part.
    uses_radio : bool
        Class attribute: whether the part uses the radio directly, as with ``radio.transmit``, and so cannot run above a
        MAC layer.
    on_ipv6 : type, optional
        Class attribute: the class that encodes the part's messages as IPv6 packets (`netsim.ipv6.Packets`); by default
        the general encoding.
    mote : Mote
        The mote, with the other parts as attributes: ``self.mote.routing.report(21.5)``.
    """

    kinds: ClassVar[Collection[str]] = ()
    switches_radio: ClassVar[bool] = False
    uses_radio: ClassVar[bool] = False
    on_ipv6: ClassVar[Any] = None
    # Whether the part has the radio on only while it expects its own frames, so that no other part may receive frames.
    _is_alone: ClassVar[bool] = False
    mote: "Mote"


class MacLayer(Protocol):
    """The methods that a MAC layer, such as `netsim.agents.ContikiMAC`, has in addition to those of a part."""

    async def post(self, to: Hashable, value: Any) -> Delivery:
        """Send a value to a neighbour, and return the outcome once it is known."""

    async def announce(self, value: Any) -> bool:
        """Send a value to all neighbours."""

    def take(self, sender: Hashable, value: Any) -> None:
        """Handle a received value; the mote replaces this method."""


class Message(NamedTuple):
    """A message received through an agent's MAC layer; parts receive it in place of a frame."""

    sender: Hashable
    kind: str
    payload: Any


class _PartContext:
    """The context of one part of a mote, with a separate inbox, random stream, radio handle and outbox.

    All other attributes, such as the name, the neighbours and the battery, are read from and written to the mote's
    context.
    """

    _OWN = frozenset({"base", "inbox", "mote", "outbox", "part", "parts", "radio", "rng", "task"})
    # Bind these methods here, because the mote's own would send through the mote's outbox.
    send, check_neighbor = Context.send, Context.check_neighbor
    carrier, carrier_to_all = Context.carrier, Context.carrier_to_all

    def __init__(self, base: Context, mote: "Mote", part: str) -> None:
        self.base, self.mote, self.part = base, mote, part
        self.rng: np.random.Generator = draws.generator(base.seed, base.name, f"part {part}")
        self.inbox = PartInbox(part, base.inbox)
        self.radio: RadioHandle | None = None if base.radio is None else base.radio.of(cast(Context, self))
        self.outbox: Any = base.outbox
        # A part has no parts itself. `task` runs the part; None before its start.
        self.parts: None = None
        self.task: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.base, name, value)

    def claim_radio(self) -> None:
        """Record that this part switches the radio; raise AgentError if another part of the mote does so already."""
        self.mote._claim_radio(self.part)


class _MacOutbox:
    """The outbox of all parts above a MAC layer; tasks of the mote pass its messages to the MAC layer."""

    acknowledges = True

    def __init__(self, layer: MacLayer, context: Context, group: asyncio.TaskGroup) -> None:
        self._layer, self._context, self._group = layer, context, group
        self.sending: set[asyncio.Task[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context.outbox, name)

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Send a message to all neighbours through the MAC layer; return the number of neighbours."""
        begun = self._begin(self._layer.announce(self._message(kind, payload, raw_data, None)))
        return len(self._context.neighbors) if begun else 0

    def send(
        self,
        to: Hashable,
        kind: str,
        payload: Any,
        round_number: int,
        raw_data: bool,
        request: int | None = None,
        is_reply: bool = False,
        outcome: "asyncio.Future[Delivery] | None" = None,
    ) -> bool:
        """Start to send a message to a neighbour through the MAC layer; return whether it was accepted."""
        begun = self._begin(self._post(to, self._message(kind, payload, raw_data, request), outcome))
        if not begun and outcome is not None:
            outcome.set_result(Delivery(False, 0, 0, ALL_CAUSES[REFUSED]))
        return begun

    def transmit(self, *args: Any) -> None:
        """Raise AgentError, because the MAC layer determines when, and how often, a frame is transmitted."""
        raise AgentError(f"agent {self._context.name!r}: above a MAC part there is no radio.transmit; use deliver")

    def _begin(self, sends: Coroutine[Any, Any, Any]) -> bool:
        """Start a task that sends, and return True; return False if the mote has ended or its node is down."""
        try:
            task = self._group.create_task(sends)
        except RuntimeError:
            sends.close()
            return False
        self.sending.add(task)
        task.add_done_callback(self.sending.discard)
        return True

    async def _post(self, to: Hashable, value: Any, outcome: "asyncio.Future[Delivery] | None") -> None:
        result = await self._layer.post(to, value)
        if outcome is not None and not outcome.done():
            outcome.set_result(result)

    def _message(self, kind: str, payload: Any, raw_data: bool, request: int | None) -> list[Any]:
        """Return a copy of the message for the MAC layer, unaffected by later changes; raise if it cannot be sent."""
        what = "raw data is not counted" if raw_data else "there are no requests" if request is not None else ""
        if what:
            raise AgentError(f"agent {self._context.name!r}: above a MAC part {what}")
        if type(kind) is not str:
            raise check.refuse("kind", kind, "a str")
        encode(payload)
        return [kind, copy.deepcopy(payload)]


class Mote(Agent):
    """An agent composed of parts: ``Mote(time=FTSP(), routing=CTP(), app=Sampler())``.

    Each part is a separate agent: it has its tasks, its stream of random numbers, and an inbox with frames of its
    ``kinds`` only. All parts share the mote's name, neighbours, clock, radio, battery and faults. If a part returns,
    the others continue; the mote ends with its last part. If a part raises an exception, the mote fails. After a
    `netsim.faults.Crash` all parts restart.

    Parameters
    ----------
    mac : MAC layer, optional
        The MAC layer below all parts, such as `netsim.agents.ContikiMAC`; None: the MAC layer of the radio. Parts above
        ``mac`` send by `Agent.broadcast`, `Agent.send` and `Agent.deliver`, and receive a `Message` in place of each
        frame.
    **parts : Agent
        The parts by name, each of which becomes an attribute of the mote.

    Attributes
    ----------
    mac : MAC layer or None
        The MAC layer below all parts, as passed to the constructor.
    parts : dict
        The parts by name, without the MAC layer.
    foreign : Counter
        The number of frames by kind that were dropped because no part owns their kind.

    Raises
    ------
    BadInput
        If there are no parts, two parts have the same kind, or two parts switch the radio. Also if a part is not an
        agent, has no ``kinds``, uses a reserved name, needs rounds, or answers requests.

    Notes
    -----
    `netsim.Network.watch` reads the states of parts by dotted names: ``network.watch(["routing.cost"])``.
    """

    def __init__(self, *, mac: Any = None, **parts: Any) -> None:
        if not parts:
            raise BadInput("Mote: parts: must be one or more, as in Mote(routing=CTP(), app=Sampler())")
        self.mac, self.parts = mac, parts
        self.foreign: Counter[str] = Counter()
        # {kind: name of the part that owns it}.
        self._owners: dict[str, str] = {}
        for name, part in self._members().items():
            _check_part(name, part, has_mac=mac is not None)
            if (twice := next((other for other in self.parts if self.parts[other] is part), name)) != name:
                raise BadInput(f"Mote: {name}: must be an object of its own; it is the same as {twice}")
            for kind in part.kinds:
                if (owner := self._owners.setdefault(kind, name)) != name:
                    raise BadInput(f"Mote: kind {kind!r}: must belong to one part; it is of {owner} and of {name}")
            setattr(self, name, part)
            part.mote = self
        switching = [name for name, part in self._members().items() if getattr(part, "switches_radio", False)]
        if len(switching) > 1:
            raise BadInput(f"Mote: the radio must be switched by one part; {' and '.join(switching)} do so")
        for alone in [name for name, part in self.parts.items() if getattr(part, "_is_alone", False)]:
            if others := [name for name, part in self.parts.items() if part.kinds and name != alone]:
                kind = type(self.parts[alone]).__name__
                raise BadInput(
                    f"Mote: {alone}: {kind} must be the only part that gets frames, for it has the radio off between "
                    f"its own; {others[0]} gets some, too"
                )
        # The name of the part that switches the radio; None until a part does so.
        self._switches: str | None = switching[0] if switching else None

    # --- in the network -----------------------------------------------------------------------------------------------

    def _members(self) -> dict[str, Any]:
        """Return the parts by name, the MAC layer first."""
        return self.parts if self.mac is None else {MAC: self.mac, **self.parts}

    def _context_of(self, part: Agent) -> Context:
        """Return a part's context, which stays the same if the mote's state is restored after a crash."""
        context = self._netsim
        name = next(name for name, each in self._members().items() if each is part)
        places = context.parts = context.parts or {}
        if name not in places:
            places[name] = _PartContext(context, self, name)
        return cast(Context, places[name])

    def _claim_radio(self, part: str) -> None:
        self._switches = self._switches or part
        if self._switches != part:
            raise AgentError(
                f"agent {self.name!r}: part {part!r} cannot switch the radio or set its channel: part "
                f"{self._switches!r} does so"
            )

    # --- the run ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run all parts until they have ended, and meanwhile distribute frames to them."""
        async with asyncio.TaskGroup() as group:
            sending = set[asyncio.Task[Any]]()
            if self.mac is not None:
                above = _MacOutbox(self.mac, self._netsim, group)
                self.mac.take, sending = self._take, above.sending
            for name, part in self._members().items():
                context: Any = part._netsim
                context.inbox = PartInbox(name, self.inbox)
                if self.mac is not None and name != MAC:
                    context.outbox = above
            below = [group.create_task(self._sort())]
            if self.mac is not None:
                below.append(group.create_task(_named(MAC, self.mac)))
            waiting = list[asyncio.Task[Any]]()
            # Parts without kinds only call other parts, so start them last, when the others are ready.
            for name, part in sorted(self.parts.items(), key=lambda each: not each[1].kinds):
                context = part._netsim
                context.task = group.create_task(_named(name, part))
                waiting.append(context.task)
            for tasks in (waiting, sending):
                while left := [task for task in tasks if not task.done()]:
                    done, _ = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        if task.cancelled():
                            # A part whose task is cancelled during the run ends the mote, as the cancellation would end
                            # a single agent.
                            task.result()
            for task in below:
                task.cancel()

    async def _sort(self) -> None:
        inbox = self.inbox
        while True:
            while not inbox._settled():
                if not await inbox._block():
                    # Close all inboxes, which ends the parts' iterations over them; other parts may still send.
                    for part in self._members().values():
                        part._netsim.inbox.end_iteration()
            self.hand_out(inbox._next())

    def _take(self, sender: Hashable, value: Any) -> None:
        """Handle a value received over the MAC layer; count it as foreign if it is not a mote's message."""
        if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str):
            self.hand_out(Message(sender, *value))
        else:
            self.foreign["(message)"] += 1

    def hand_out(self, frame: Frame | Message) -> None:
        """Put a frame into the inbox of the part that owns its kind."""
        owner = self._owners.get(frame.kind)
        if owner is None:
            self.foreign[frame.kind] += 1
        else:
            self._members()[owner].inbox.put(frame)


def _check_part(name: str, part: Any, *, has_mac: bool) -> None:
    """Raise BadInput unless an agent can be a part with this name."""
    kind = type(part).__name__
    check.instance(f"Mote: {name}", part, Agent, "an agent")
    is_layer = hasattr(part, "post") and hasattr(part, "announce")
    if isinstance(part, Mote):
        raise BadInput(f"Mote: {name}: must not be a mote")
    if name == MAC and not is_layer:
        raise BadInput(f"Mote: mac: must be a MAC layer, such as netsim.agents.ContikiMAC(), not {kind}")
    if name != MAC and is_layer:
        raise BadInput(f"Mote: {name}: must not be a MAC layer: give it as mac= of the mote")
    if name != MAC and (hasattr(Mote, name) or name.startswith("_") or name in ("parts", "foreign", "mote")):
        raise BadInput(f"Mote: {name}: must have another name; the mote has an attribute of this name")
    if not hasattr(part, "kinds"):
        raise BadInput(f"Mote: {name}: {kind} must declare its kinds, the kinds of frames that it gets, as Part does")
    is_several = isinstance(part.kinds, Collection) and not isinstance(part.kinds, str)
    if not is_several or not all(isinstance(each, str) for each in part.kinds):
        raise check.refuse(f"Mote: {name}: kinds", part.kinds, 'a collection of texts, such as ("alarm",)')
    if isinstance(part, RoundAgent) or type(part).answer is not Agent.answer:
        has = "rounds" if isinstance(part, RoundAgent) else "a method answer"
        raise BadInput(f"Mote: {name}: must be an agent without {has}, which {kind} has")
    if has_mac and getattr(part, "uses_radio", False) and name != MAC:
        raise BadInput(f"Mote: {name}: {kind} must be without a MAC layer below, for it uses the radio itself")


async def _named(name: str, part: Agent) -> None:
    """Run a part; add the part's name as a note to an exception that it raises."""
    try:
        await part.run()
    except RunOver:
        raise
    except Exception as error:
        error.add_note(f"{IN_PART}{name!r}")
        raise
