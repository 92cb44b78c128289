"""A toolkit for tests of agents: neighbours that follow a script, line networks, links that lose chosen frames.

It needs no test framework. Your agent runs among agents of the toolkit, which send given payloads at given times and
record the frames that they receive:

>>> from netsim.testing import Listener, Talker, play
>>> run = play(Talker([(0.5, "hello")]), Listener())
>>> run.agents[1].heard
[(0.5, 0, 'hello')]

`simulate` turns a function into a test that runs a network with many seeds, faults and orders. `search` looks for a
seed and faults that violate an invariant. `check_same` runs a network with other hash seeds, the other core and more
workers. `isolated` agents share nothing. `netsim.strategies` has strategies for hypothesis.

docs/testing.md has more examples.
"""

import asyncio
import inspect
import itertools
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import networkx as nx

from netsim import topology
from netsim.agent import Agent
from netsim.clock.order import Choice, Deferral, Order
from netsim.core import Frame
from netsim.core.frame import FrameEncoder
from netsim.isolation import isolated
from netsim.links.loss import Decide, Loss
from netsim.network import Network
from netsim.run import Run
from netsim.seed_search import Explored, Finding, explore, search
from netsim.simulated_test import simulate
from netsim.util import check

__all__ = [
    "Actor",
    "Choice",
    "Deferral",
    "Explored",
    "Finding",
    "KnowsUnheard",
    "Listener",
    "Order",
    "Replier",
    "Rounder",
    "Talker",
    "check_heard",
    "check_same",
    "could_know",
    "counts",
    "explore",
    "isolated",
    "losing",
    "play",
    "search",
    "simulate",
    "sized",
]

_A = TypeVar("_A", bound="Actor")


class Actor(Agent):
    """An agent that runs a function.

    Parameters
    ----------
    script : callable, optional
        ``async def script(me)``, called with the agent; by default the agent does nothing.

    Attributes
    ----------
    log : list
        An empty list, to which the script may append.
    """

    def __init__(self: _A, script: Callable[[_A], Awaitable[object]] | None = None) -> None:
        self.script: Callable[[Any], Awaitable[object]] | None = script
        self.log: list[Any] = []

    async def run(self) -> None:
        """Run the script."""
        if self.script is not None:
            await self.script(self)


class Replier(Actor):
    """Answers requests at the instant of their arrival, and appends (time in s, payload) of each request to ``log``.

    Parameters
    ----------
    script : callable, optional
        A script that the agent runs in addition, as for `Actor`.
    reply : callable
        Maps a request's payload to the payload of the reply; default: the same payload.
    """

    def __init__(
        self,
        script: Callable[["Replier"], Awaitable[object]] | None = None,
        *,
        reply: Callable[[Any], Any] = lambda payload: payload,
    ) -> None:
        super().__init__(script)
        self.reply_to = reply

    def answer(self, frame: Frame) -> Any:
        """Answer a request."""
        self.log.append((self.now, frame.payload))
        return self.reply_to(frame.payload)


class Talker(Agent):
    """Sends given payloads at given times, outside rounds.

    Parameters
    ----------
    plan : iterable of (float, object)
        Times (s, >= 0) and payloads, in any order; payloads of equal time are sent in the given order.
    to : node, optional
        The neighbour to send to; default: all.
    kind : str
        The kind of message.

    Attributes
    ----------
    took : list of int
        For each message the number of links that accepted it (which may have lost it later).
    """

    def __init__(self, plan: Iterable[tuple[float, Any]], to: Any = None, *, kind: str = "m") -> None:
        self.plan = sorted(check.timed("plan", plan), key=lambda item: item[0])
        self.to = to
        self.kind = kind
        self.took: list[int] = []

    async def run(self) -> None:
        """Send all payloads."""
        for time, payload in self.plan:
            if time > self.now:
                await asyncio.sleep(time - self.now)
            await self.say(payload)

    async def say(self, payload: Any) -> None:
        """Send one message."""
        if self.to is None:
            self.took.append(await self.broadcast(self.kind, payload))
        else:
            self.took.append(int(await self.send(self.to, self.kind, payload)))


class Listener(Agent):
    """Records all frames that it receives, and their times. It enters no round and sends nothing.

    Attributes
    ----------
    times : list of float
        When each frame arrived, in seconds.
    frames : list of Frame
        The frames, in order of arrival.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.frames: list[Frame] = []

    async def run(self) -> None:
        """Receive until no frame can arrive any more."""
        async for frame in self.inbox:
            self.times.append(self.now)
            self.frames.append(frame)

    @property
    def heard(self) -> list[tuple[float, Any, Any]]:
        """(time in s, sender, payload) of each frame."""
        return [(time, frame.sender, frame.payload) for time, frame in zip(self.times, self.frames, strict=True)]

    @property
    def payloads(self) -> list[Any]:
        """The payload of each frame."""
        return [frame.payload for frame in self.frames]


class Rounder(Agent):
    """Broadcasts the number of each round, and records the frames that it collects. Override `step` to change this.

    Parameters
    ----------
    rounds : int
        The number of rounds.
    keep_late : bool
        As for `netsim.Agent.rounds`.

    Attributes
    ----------
    heard : list of (int, node, object)
        Round, sender and payload of each collected frame, in order.
    opened : list of (int, float)
        Number and opening time (s) of each round.
    closed : list of float
        The time (s) at which `collect` returned in each round.
    """

    def __init__(self, rounds: int = 3, keep_late: bool = False) -> None:
        self.count = check.integer("rounds", rounds, low=0)
        self.keep_late = keep_late
        self.heard: list[tuple[int, Any, Any]] = []
        self.opened: list[tuple[int, float]] = []
        self.closed: list[float] = []

    async def run(self) -> None:
        """Take part in the rounds."""
        async for number in self.rounds(self.count, keep_late=self.keep_late):
            self.opened.append((number, self.now))
            await self.step(number)

    async def step(self, number: int) -> None:
        """Broadcast and collect in a round."""
        await self.broadcast("x", number)
        self.heard += [(number, frame.sender, frame.payload) for frame in await self.collect()]
        self.closed.append(self.now)


def play(*agents: Agent, shape: Callable[[int], "nx.Graph[Any]"] = topology.path, **settings: Any) -> Run:
    """Run agents 0, 1, 2, … on a network and return the run.

    Parameters
    ----------
    agents : Agent
        The agents 0, 1, 2, … in this order.
    shape : callable
        Maps the number of agents to the graph: by default a line, in which each agent has the previous and the next as
        neighbours; ``topology.complete``, ``topology.star``, ….
    settings : object
        Arguments of `netsim.Network` (``link``, ``links``, ``round_period``, ``seed``, …) and of `netsim.Network.run`
        (``probes``, ``until``, ``sample``, ``trace``, …).

    Raises
    ------
    BadInput, AgentError, Stalled
        As `netsim.Network.run` does.
    """
    of_run = {name: settings.pop(name) for name in inspect.signature(Network.run).parameters.keys() & settings.keys()}
    return Network(shape(len(agents)), **settings).run(dict(enumerate(agents)), **of_run)


class KnowsUnheard(AssertionError):  # noqa: N818  named after the event
    """An agent knew a fact before any frame could have brought it, so information reached the agent outside frames."""


def could_know(run: Run, source: Hashable) -> dict[Hashable, float]:
    """Return, for each agent, the earliest time (s) at which it could know a fact that one agent knew initially.

    An agent can know the fact once it has received a frame that was sent by an agent that could already know it. Agents
    that could never know it are omitted.

    Parameters
    ----------
    run : Run
        A run with ``trace=True``.
    source : hashable
        The name of the agent that knew the fact from the start.

    Raises
    ------
    BadInput
        If the run has no trace, or lacks the agent.
    """
    check.member("source", source, run.agents, "the name of an agent of the run")
    events = run.trace.table()
    sent = events[events["event"] == "sent"]
    left = dict(zip(zip(sent["sender"], sent["message"], strict=True), sent["time_s"], strict=True))
    arrived = events[events["event"] == "delivered"]
    frames = [
        (time, receiver, sender, left[sender, message])
        for time, receiver, sender, message in zip(
            *(arrived[name] for name in ("time_s", "receiver", "sender", "message")), strict=True
        )
    ]
    known: dict[Hashable, float] = {source: 0.0}
    before: dict[Hashable, float] = {}
    while known != before:
        # Repeat until nothing changes, because frames without delay may be listed in any order.
        before = dict(known)
        for time, receiver, sender, began in frames:
            if known.get(sender, math.inf) <= began:
                known[receiver] = min(time, known.get(receiver, math.inf))
    return known


def check_heard(run: Run, state: str, *, source: Hashable) -> None:
    """Check that no agent knew a fact before a frame could have brought it (`could_know`).

    Parameters
    ----------
    run : Run
        A run with ``trace=True``.
    state : str
        The watched state that shows an agent's knowledge: the agent knows the fact unless the state is 0, False or
        None.
    source : hashable
        The name of the agent that knew from the start.

    Raises
    ------
    KnowsUnheard
        If an agent knew the fact too early; the message names the agent and the time.
    BadInput
        As in `could_know`, or if the state was not watched.
    """
    since = could_know(run, source)
    check.member("state", state, run.states.columns, "one that the network watched")
    for agent, time, value in zip(run.states["agent"], run.states["time_s"], run.states[state], strict=True):
        # NaN counts as not knowing, too.
        if value is None or value != value or not value:
            continue
        if time < since.get(agent, math.inf):
            heard = f"before {since[agent]:g} s" if agent in since else "at all"
            raise KnowsUnheard(
                f"agent {agent!r} knows at {time:g} s what agent {source!r} began with, and could not have heard "
                f"it {heard}"
            )


def counts(run: Run, **of: Any) -> dict[str, int]:
    """Count the link messages of a run by outcome: {cause: count}, also ``duplicated`` and ``in_flight``.

    Parameters
    ----------
    run : Run
        The run.
    of : object
        ``sender``, ``receiver`` or ``kind``: count only matching messages.

    Returns
    -------
    dict
        The outcomes that occurred. ``offered`` + ``duplicated`` = the sum of the causes + ``in_flight``.

    Raises
    ------
    BadInput
        If ``of`` has another name.
    AssertionError
        If that equation does not hold, which would be a bug in netsim.
    """
    table = run.ledger.table()
    for column, value in of.items():
        check.one_of("count by", column, ("sender", "receiver", "kind"))
        table = table[table[column] == value]
    found = table[["offered", "duplicated", *run.ledger.causes, "in_flight"]].sum()
    if found["offered"] + found["duplicated"] != found[[*run.ledger.causes, "in_flight"]].sum():
        raise AssertionError(f"link messages do not add up: {found.to_dict()}")
    return {str(name): int(number) for name, number in found.items() if number and name != "offered"}


def sized(size: int, kind: str = "m") -> bytes:
    """Return a payload whose frame has exactly ``size`` bytes: over ``Link(rate=8 * size)`` it takes a second.

    This holds for the first 128 agents, outside rounds and in rounds 1 to 127.

    Raises
    ------
    BadInput
        If no frame with a payload of bytes has that size.
    """
    size = check.integer("size", size, low=1)
    encoder = FrameEncoder()
    for overhead in range(len(kind.encode()) + 5, len(kind.encode()) + 14):
        if overhead <= size and len(encoder.encode(kind, 0, 0, bytes(size - overhead))) == size:
            return bytes(size - overhead)
    raise check.refuse("size", size, f"the length of a frame of kind {kind!r} that carries bytes")


def check_same(make: Callable[..., Any], *, seed: int = 1, workers: int = 1) -> None:
    """Repeat a run under conditions that must not affect it, and compare every event, row and count.

    The repetitions use other hash seeds of Python (which determine the order of a set of strings), the other core
    (compiled or Python), and another number of workers. Each repetition runs in a new process, so that no module keeps
    state. All have the same seed.

    Parameters
    ----------
    make : callable
        As for `search`: ``make(seed=…)`` returns a network and its agents and, optionally, a mapping of arguments of
        `netsim.Network.run`. It must be picklable by cloudpickle, as functions of a module or a test are.
    seed : int
        The seed of all runs.
    workers : int
        The number of workers of the reference run. One of the repetitions has two workers, or one if the reference run
        has several.

    Raises
    ------
    AssertionError
        If a run differs; the message names the condition, and the first event and agent that differ.
    BadInput
        If an argument is invalid, or the network rejects the run. Conditions that are not available (a radio cannot be
        split over workers, the compiled core may not be built) are skipped.
    NetsimError
        If the run ends in an error under every condition.
    """
    from netsim.studies.verification import check_made

    reruns = check_made(make, check.integer("seed", seed, low=0), check.integer("workers", workers, low=1))
    if not all(reruns):
        lines = [line for rerun in reruns if not rerun for line in rerun.lines()]
        raise AssertionError("\n".join(["the run depends on what it must not depend on", *lines]))


@dataclass(frozen=True)
class _Losing:
    numbers: frozenset[int]
    # Not 0, because links do not call a model whose mean is 0.
    mean: float = math.ulp(0.0)

    def on_link(self, u: float) -> Decide:
        numbers = itertools.count()
        return lambda u: next(numbers) in self.numbers


def losing(*numbers: int) -> Loss:
    """Return a loss model that loses the given frames: ``Link(loss=losing(0, 3))`` loses a link's first and fourth."""
    return _Losing(frozenset(check.integer("number", number, low=0) for number in numbers))
