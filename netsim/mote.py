"""Motes of several parts: routing, time, dissemination, an application, all on one radio.

On the path agent → outbox → link → inbox → agent, a mote stands between the inbox and its parts: it hands each frame to
the part that owns the frame's kind. Each part is an agent, which can also run alone.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Coroutine, Hashable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np

from netsim.agent import Agent
from netsim.context import Context
from netsim.core import Frame
from netsim.core.delivery import Delivery
from netsim.engine.diagnosis import IN_PART
from netsim.errors import AgentError, BadInput, RunOver
from netsim.radio.handle import RadioHandle
from netsim.round_agent import RoundAgent
from netsim.util import check, draws
from netsim.wire.payloads import encodable

__all__ = ["MacLayer", "Message", "Mote", "Part"]

MAC = "mac"
"""The name of the MAC layer among a mote's parts."""


class Part(Agent):
    """Base of agents of your own that are made to be parts of a `Mote`.

    Attributes
    ----------
    kinds : collection of str
        Of the class: the kinds of the frames that the part gets; by default none.
    switches_radio : bool
        Of the class: whether the part switches the radio on and off, or sets its channel. A mote has one such part.
    mote : Mote
        The whole, with the other parts: ``self.mote.routing.report(21.5)``.
    """

    kinds: ClassVar[Collection[str]] = ()
    switches_radio: ClassVar[bool] = False
    mote: "Mote"


class MacLayer(Protocol):
    """What a mote needs of a MAC layer, such as `netsim.agents.ContikiMAC`, besides what it needs of every part."""

    async def post(self, to: Hashable, value: Any) -> Delivery:
        """Send a value to a neighbour, and return what became of it."""

    async def announce(self, value: Any) -> bool:
        """Send a value to all neighbours."""

    def take(self, sender: Hashable, value: Any) -> None:
        """Take a value that arrived; the mote puts a function of its own in place of this."""


class Message(NamedTuple):
    """What arrives over a MAC layer of an agent's in place of a frame."""

    sender: Hashable
    kind: str
    payload: Any


class PartInbox(asyncio.Queue[Any]):
    """The frames for one part, in order of arrival: a queue over which ``async for`` iterates, as over an `Inbox`."""

    _END = object()

    def __init__(self, part: str) -> None:
        super().__init__()
        self._part, self._iterators = part, 0

    def __len__(self) -> int:
        return self.qsize()

    async def get(self) -> Any:
        """Wait for the next frame and return it."""
        while (frame := await super().get()) is self._END:
            # It is for a task that iterates.
            self.put_nowait(frame)
        return frame

    def __aiter__(self) -> "PartInbox":
        return self

    async def __anext__(self) -> Any:
        self._iterators += 1
        try:
            frame = await super().get()
        finally:
            self._iterators -= 1
        if frame is self._END:
            raise StopAsyncIteration
        return frame

    def end_iteration(self) -> None:
        """End every ``async for`` that waits for a frame, because none can arrive any more."""
        for _ in range(self._iterators):
            self.put_nowait(self._END)

    def drop_late_frames(self, until: float) -> None:
        """Refuse rounds, whose frames this inbox does not sort."""
        raise AgentError(f"part {self._part!r}: a part of a mote has no rounds; use asyncio.sleep")


class _PartContext:
    """A mote's context as one part has it: with its own inbox, random numbers, radio handle and outbox.

    All else, such as the name, the neighbours and the battery, is the mote's; an attribute that is set is the mote's.
    """

    _OWN = frozenset({"base", "inbox", "mote", "outbox", "part", "radio", "rng"})
    # The mote's method would send through the mote's outbox.
    send = Context.send

    def __init__(self, base: Context, mote: "Mote", part: str) -> None:
        self.base, self.mote, self.part = base, mote, part
        self.rng: np.random.Generator = draws.generator(base.seed, base.name, f"part {part}")
        self.inbox = PartInbox(part)
        self.radio: RadioHandle | None = None if base.radio is None else base.radio.of(cast(Context, self))
        self.outbox: Any = base.outbox if mote.mac is None or part == MAC else _MacOutbox(mote, base.outbox)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.base, name, value)

    def claim_radio(self) -> None:
        """Raise AgentError if another part of the mote switches the radio; from now on this one does."""
        self.mote._claim_radio(self.part)


class _MacOutbox:
    """The outbox of a part above a MAC layer, which sends over that layer, in tasks of the mote."""

    acknowledges = True

    def __init__(self, mote: "Mote", outbox: Any) -> None:
        self._mote, self._outbox = mote, outbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Have the MAC layer send a message to all neighbours; return how many there are."""
        self._check(raw_data, None)
        self._mote._begin(self._mote.mac.announce([kind, payload]))
        return len(self._outbox.link_index_of)

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
        """Have the MAC layer send a message to a neighbour."""
        self._check(raw_data, request)
        self._mote._begin(self._post(to, [kind, payload], outcome))
        return True

    def transmit(self, *args: Any) -> None:
        """Refuse: a MAC layer decides itself when a frame leaves, and how often."""
        raise AgentError(
            f"agent {self._mote.name!r}: radio.transmit is for motes without a MAC part; above one use broadcast, send "
            "or deliver"
        )

    async def _post(self, to: Hashable, value: Any, outcome: "asyncio.Future[Delivery] | None") -> None:
        result = await self._mote.mac.post(to, value)
        if outcome is not None and not outcome.done():
            outcome.set_result(result)

    def _check(self, raw_data: bool, request: int | None) -> None:
        what = "raw data is not counted" if raw_data else "there are no requests" if request is not None else ""
        if what:
            raise AgentError(f"agent {self._mote.name!r}: above a MAC part {what}")


class Mote(Agent):
    """An agent of several parts: ``Mote(time=FTSP(), routing=CTP(), app=Sampler())``.

    Each part is an agent of its own: it has its tasks, its stream of random numbers, and an inbox with the frames of
    its ``kinds`` only. Name, neighbours, clock, radio, battery and faults are the mote's. A part that returns has
    ended, and the others go on; the mote ends with the last. A part that raises fails the mote. After a
    `netsim.faults.Crash` all parts begin again.

    Parameters
    ----------
    mac : MAC layer, optional
        The MAC layer below all parts, such as `netsim.agents.ContikiMAC`; None: the radio's. Parts above it use
        `Agent.broadcast`, `Agent.send` and `Agent.deliver`, and get a `Message` in place of each frame.
    **parts : Agent
        The parts by name, each of which becomes an attribute of the mote.

    Attributes
    ----------
    mac : MAC layer or None
        As given.
    parts : dict
        The parts by name, without the MAC layer.
    foreign : Counter
        By kind, the frames that no part owns, which are dropped.

    Raises
    ------
    BadInput
        If there is no part, one is no agent or has no ``kinds``, its name is one of the mote's own, it needs rounds or
        answers requests, two own the same kind, or two switch the radio.

    Notes
    -----
    `netsim.Network.watch` reads the states of parts by dotted names: ``network.watch(["routing.cost"])``.
    """

    def __init__(self, *, mac: Any = None, **parts: Agent) -> None:
        if not parts:
            raise BadInput("Mote: parts: must be one or more, as in Mote(routing=CTP(), app=Sampler())")
        self.mac, self.parts, self.foreign = mac, parts, Counter[str]()
        layer = {} if mac is None else {MAC: mac}
        switching = [name for name, part in (layer | parts).items() if getattr(part, "switches_radio", False)]
        self._owners: dict[str, str] = {}
        for name, part in (layer | parts).items():
            self._check(name, part)
            for kind in part.kinds:  # type: ignore[attr-defined]
                if (owner := self._owners.setdefault(kind, name)) != name:
                    raise BadInput(f"Mote: kind {kind!r}: must belong to one part; it is of {owner} and of {name}")
            setattr(self, name, part)
            part.mote = self  # type: ignore[attr-defined]
        if len(switching) > 1:
            raise BadInput(f"Mote: the radio must be switched by one part; {' and '.join(switching)} do so")
        if mac is not None and switching[:1] != [MAC]:
            raise BadInput(f"Mote: mac: must be a MAC layer, such as netsim.agents.ContikiMAC(), not {type(mac).__name__}")
        # The part that switches the radio; None until one does.
        self._switches: str | None = switching[0] if switching else None

    def _check(self, name: str, part: Any) -> None:
        check.instance(f"Mote: {name}", part, Agent, "an agent")
        kind = type(part).__name__
        if name != MAC and (hasattr(Mote, name) or name in ("parts", "foreign")):
            raise BadInput(f"Mote: {name}: must have another name, for this one is the mote's own")
        if not hasattr(part, "kinds"):
            raise BadInput(f"Mote: {name}: {kind} must declare its kinds, the kinds of frames that it gets, as Part does")
        if isinstance(part, RoundAgent) or type(part).answer is not Agent.answer:
            has = "rounds" if isinstance(part, RoundAgent) else "a method answer"
            raise BadInput(f"Mote: {name}: must be an agent without {has}, which {kind} has")
        if isinstance(part, Mote) or name != MAC and hasattr(part, "announce") and hasattr(part, "post"):
            raise BadInput(f"Mote: {name}: must be no {'mote' if isinstance(part, Mote) else 'MAC layer: give it as mac='}")

    # --- in the network -----------------------------------------------------------------------------------------------

    def _context_of(self, part: Agent) -> Context:
        """Return a part's context, which stays the same if the mote's state is restored after a crash."""
        context = self._netsim
        name = next(name for name, each in self._members().items() if each is part)
        places = context.parts = context.parts or {}
        if name not in places:
            places[name] = _PartContext(context, self, name)
        return cast(Context, places[name])

    def _members(self) -> dict[str, Any]:
        """Return the parts by name, the MAC layer first."""
        return self.parts if self.mac is None else {MAC: self.mac, **self.parts}

    def _claim_radio(self, part: str) -> None:
        self._switches = self._switches or part
        if self._switches != part:
            raise AgentError(
                f"agent {self.name!r}: part {part!r} cannot switch the radio or set its channel: part "
                f"{self._switches!r} does so"
            )

    # --- the run ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run all parts until they have ended, and hand out frames meanwhile."""
        self._inboxes = {}
        for name, part in self._members().items():
            inbox = part._netsim.inbox = PartInbox(name)
            self._inboxes |= dict.fromkeys(part.kinds, inbox)
        self._sending: set[asyncio.Task[Any]] = set()
        async with asyncio.TaskGroup() as self._group:
            below = [self._group.create_task(self._sort())]
            if self.mac is not None:
                self.mac.take = self._take
                below.append(self._group.create_task(self._run_part(MAC, self.mac)))
            tasks = [self._group.create_task(self._run_part(*each)) for each in self.parts.items()]
            while tasks := [*tasks, *self._sending]:
                tasks = [*(await asyncio.wait(tasks))[1]]
            for task in below:
                task.cancel()

    async def _run_part(self, name: str, part: Agent) -> None:
        try:
            await part.run()
        except RunOver:
            raise
        except Exception as error:
            error.add_note(f"{IN_PART}{name!r}")
            raise

    def _begin(self, sends: Coroutine[Any, Any, Any]) -> None:
        """Send something over the MAC layer, in a task of the mote."""
        task = self._group.create_task(sends)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _sort(self) -> None:
        async for frame in self.inbox:
            self._hand_out(frame)
        for inbox in self._inboxes.values():
            inbox.end_iteration()

    def _take(self, sender: Hashable, value: Any) -> None:
        """Take what arrived over the MAC layer; anything may arrive."""
        if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str):
            self._hand_out(Message(sender, *value))
        else:
            self.foreign["(message)"] += 1

    def _hand_out(self, frame: Frame | Message) -> None:
        if (inbox := self._inboxes.get(frame.kind)) is None:
            self.foreign[frame.kind] += 1
        else:
            inbox.put_nowait(frame)
