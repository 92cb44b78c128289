"""The network: a graph of links with agents on its nodes, and one run of it."""

import asyncio
import gc
import math
import threading
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import networkx as nx
import numpy as np

from netsim import check, draws
from netsim.agent import Agent, Context, attach
from netsim.clock import ClockName, Loop, new_loop
from netsim.errors import AgentError, BadInput, NetsimError, Stalled
from netsim.exchange import Exchange
from netsim.inbox import Inbox, waiting_for
from netsim.ledger import Ledger
from netsim.link import Link
from netsim.medium import Air
from netsim.outbox import Outbox, Wiring
from netsim.rounds import RoundClock
from netsim.run import Probe, Progress, Run
from netsim.topology import check_connected
from netsim.wire import Frame, for_receiver

Medium = Literal["wires", "radio"]
Agents = Mapping[Any, Agent]


class Network:
    """A connected graph whose edges are links, one in each direction.

    Parameters
    ----------
    graph : networkx Graph
        Undirected and connected; its nodes are the agents' names. A single node without edges is a network, too.
    link : Link
        The settings of every link.
    links : mapping, optional
        Settings for single links: {(sender, receiver): Link}, for that direction only.
    round_period : float
        Length of a round in seconds.
    medium : {"wires", "radio"}
        On wires every link has a sender's side of its own, and a broadcast is a link message on each. On a radio an agent
        has one transmitter (rate, queue, budget, MTU and header of ``link``), and a broadcast is one transmission that all
        neighbours hear; ``links`` then may change latency, loss and what follows only.
    collisions : bool
        Radio with a rate only: transmissions that overlap in time at a receiver destroy each other there.
    inbox_limit : int, optional
        Frames that an inbox holds at most; more are dropped.
    seed : int
        Everything random derives from it.

    Raises
    ------
    BadInput
        If the graph is empty, directed or not connected, or another argument cannot be used.
    """

    def __init__(
        self,
        graph: "nx.Graph[Any]",
        link: Link | None = None,
        *,
        links: Mapping[tuple[Any, Any], Link] | None = None,
        round_period: float = 1.0,
        medium: Medium = "wires",
        collisions: bool = False,
        inbox_limit: int | None = None,
        seed: int = 0,
    ) -> None:
        check_connected(graph)
        self.graph = graph
        self.link = Link() if link is None else link
        if not isinstance(self.link, Link):
            raise check.refuse("link", link, "a netsim.Link")
        self.links = dict(links or {})
        for ends, override in self.links.items():
            if not (isinstance(ends, tuple) and len(ends) == 2 and graph.has_edge(*ends)):
                raise check.refuse("links", ends, "keyed by (sender, receiver) pairs that are edges of the graph")
            if not isinstance(override, Link):
                raise check.refuse(f"links[{ends}]", override, "a netsim.Link")
        self.round_period = check.finite("round_period", round_period, above=0)
        check.one_of("medium", medium, ("wires", "radio"))
        self.medium: Medium = medium
        if collisions and (medium != "radio" or self.link.rate is None):
            raise BadInput("collisions = True: must go with medium='radio' and a rate, or a transmission takes no time")
        self.collisions = collisions
        self.inbox_limit = None if inbox_limit is None else check.integer("inbox_limit", inbox_limit, low=1)
        self.seed = check.integer("seed", seed, low=0)
        self._running: _Runtime | None = None
        self._scheduled: list[tuple[float, Callable[[], None]]] = []

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Call ``action`` at a simulated time (s) of every run, say to cut a link: ``at(3, lambda: net.set_link(0, 1, up=False))``."""
        self._scheduled.append((check.finite("time", time, low=0), action))

    def set_link(self, sender: Hashable, receiver: Hashable, up: bool) -> None:
        """Cut or mend the link from ``sender`` to ``receiver`` (this direction) while the network runs.

        Frames already under way arrive; new ones end with cause ``link_down``.
        """
        runtime = self._runtime()
        if not self.graph.has_edge(sender, receiver):
            raise check.refuse("link", (sender, receiver), "an edge of the graph")
        runtime.outboxes[sender].set_link(receiver, up)

    def set_receiver(self, agent: Hashable, up: bool) -> None:
        """Switch an agent's receiver off or on while the network runs; frames that arrive meanwhile are ``receiver_down``."""
        runtime = self._runtime()
        if agent not in runtime.inboxes:
            raise check.refuse("agent", agent, "a node of the graph")
        inbox = runtime.inboxes[agent]
        inbox.settle(math.nextafter(runtime.loop.time(), math.inf))
        inbox.up = up

    def run(
        self,
        agents: Agents,
        probes: Sequence[Probe] = (),
        *,
        until: float | None = None,
        trace: bool = False,
        progress: Progress | None = None,
        clock: ClockName = "virtual",
        speed: float = 1.0,
    ) -> Run:
        """Run every agent to its end and return what happened. Works inside a running event loop (a notebook), too.

        Parameters
        ----------
        agents : mapping
            {node: Agent}, one for each node of the graph.
        probes : sequence of callables
            Each is called at the end of each round with ``agents``, and returns a number (its column is the function's
            name) or a mapping of column names to numbers.
        until : float, optional
            Stop at this simulated time (s) even if agents are not finished.
        trace : bool
            Keep the event log (`Run.trace`).
        progress : callable, optional
            Called with the number of each round that ended.
        clock : {"virtual", "wall"}
            Simulated time jumps from event to event, or passes ``speed`` times as fast as real time.

        Raises
        ------
        BadInput
            If the agents do not fit the graph.
        AgentError
            If an agent raises: the message names it, its round and its line; the cause is its exception.
        Stalled
            If every task waits for what can never come.
        """
        def simulate() -> Run:
            runtime = _Runtime(self, agents, probes, trace, progress)
            with asyncio.Runner(loop_factory=lambda: new_loop(clock, speed)) as runner:
                return runner.run(self._run(runtime, until))

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return simulate()
        return _in_thread(simulate)

    async def run_async(
        self, agents: Agents, probes: Sequence[Probe] = (), *, until: float | None = None, trace: bool = False,
        progress: Progress | None = None,
    ) -> Run:
        """Run as `run` does, from a coroutine.

        On a loop of `netsim.clock.new_loop` it shares that loop and its time with whatever else runs there; on any other
        loop it runs in virtual time in a thread of its own.
        """
        if isinstance(asyncio.get_running_loop(), Loop):
            return await self._run(_Runtime(self, agents, probes, trace, progress), until)
        return await asyncio.to_thread(self.run, agents, probes, until=until, trace=trace, progress=progress)

    async def _run(self, runtime: "_Runtime", until: float | None) -> Run:
        if self._running is not None:
            raise NetsimError("this network is already running: make another Network for a second run at the same time")
        self._running = runtime
        try:
            return await runtime.run(until, self._scheduled)
        finally:
            self._running = None

    def _runtime(self) -> "_Runtime":
        if self._running is None:
            raise NetsimError("the network is not running: use Network.at(time, action) to plan ahead")
        return self._running


class _Runtime:
    """One run of a network."""

    def __init__(
        self, network: Network, agents: Agents, probes: Sequence[Probe], trace: bool, progress: Progress | None
    ) -> None:
        _check_agents(network.graph, agents)
        self.network = network
        self.agents = {node: agents[node] for node in network.graph}
        self.result = Run(self.agents, probes, progress)
        self.keep_trace = trace
        self.inboxes: dict[Any, Inbox] = {}
        self.outboxes: dict[Any, Outbox] = {}
        self.contexts: dict[Any, Context] = {}

    def wire(self, loop: Loop) -> None:
        """Build the links and give each agent its context."""
        network, names = self.network, list(self.agents)
        number = {name: i for i, name in enumerate(names)}
        neighbors = {name: tuple(network.graph[name]) for name in names}
        degrees = np.array([len(neighbors[name]) for name in names], dtype=np.int64)
        firsts = np.concatenate([[0], np.cumsum(degrees)])
        senders = np.repeat(np.arange(len(names)), degrees)
        receivers = np.fromiter((number[n] for name in names for n in neighbors[name]), np.int64, count=int(firsts[-1]))
        self.loop = loop
        self.ledger = self.result.ledger = Ledger(names, senders, receivers, self.keep_trace)
        self.ledger.in_flight = self._in_flight
        rounds = RoundClock(loop, network.round_period, self._round_ended)
        exchange = Exchange(loop, self.ledger, rounds)
        name_keys = np.array([draws.name_key(name) for name in names], dtype=np.uint64)
        keys = draws.link_keys(name_keys[senders], name_keys[receivers])
        self.inboxes = {name: Inbox(exchange, network.inbox_limit) for name in names}
        air = Air() if network.collisions else None
        radio = network.link if network.medium == "radio" else None
        # Blocks of draws are large where that is cheap, small where there are very many links.
        block = int(np.clip(2**18 // max(len(senders), 1), 8, 128))
        for i, name in enumerate(names):
            ends = slice(int(firsts[i]), int(firsts[i + 1]))
            wiring = Wiring(
                links=[network.links.get((name, other), network.link) for other in neighbors[name]],
                neighbors=neighbors[name], inboxes=[self.inboxes[other] for other in neighbors[name]],
                receivers=receivers[ends].tolist(), first=ends.start, keys=keys[ends], radio=radio, air=air,
            )
            context = Context(exchange, name, neighbors[name], self.inboxes[name], network.seed)
            context.outbox = self.outboxes[name] = Outbox(exchange, i, name, wiring, network.seed, block)
            self.contexts[name] = context
            attach(self.agents[name], context)
            if type(self.agents[name]).answer is not Agent.answer:
                self.inboxes[name].on_request = self._answering(name)

    async def run(self, until: float | None, scheduled: Sequence[tuple[float, Callable[[], None]]]) -> Run:
        """Run all agents; return the result."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        self.wire(loop)
        start = loop.time()
        if start:
            raise NetsimError("run_async must start with its loop, at time 0: make a new loop for it")
        self.ended: asyncio.Future[None] = loop.create_future()
        if until is not None:
            loop.call_at(check.finite("until", until, above=0), self._end)
        for time, action in scheduled:
            loop.call_at(time, self._guarded(action, "an action of Network.at"))
        self.tasks: dict[asyncio.Task[None], Any] = {}
        self.unfinished = len(self.agents)
        for name, agent in self.agents.items():
            task = loop.create_task(agent.run())
            self.tasks[task] = name
            task.add_done_callback(self._agent_done)
        loop.instants.on_standstill = self._standstill
        try:
            with self._fail_on_callback_errors(), _unhurried_collector():
                await self.ended
        finally:
            loop.instants.on_standstill = None
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
        self.settle(math.nextafter(loop.time(), math.inf))
        self.result.ended_at = loop.time()
        self.ledger.fold()
        return self.result

    # --- how a run ends -----------------------------------------------------------------------------------------------

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)

    def _agent_done(self, task: "asyncio.Task[None]") -> None:
        self.unfinished -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(self._agent_error(self.tasks[task], error))
        elif self.unfinished == 0:
            # At the end of the instant, so that the last round's row is written.
            self.loop.instants.at_instant_end(self._end)

    def _agent_error(self, name: Hashable, error: BaseException) -> NetsimError:
        if isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        context = self.contexts[name]
        where = f" in round {context.round}" if context.round else f" at {self.loop.time():g} s"
        frames = traceback.extract_tb(error.__traceback__)
        line = ""
        if frames:
            # The agent's own line, not the line in netsim or numpy that raised.
            own = [f for f in frames if "/netsim/" not in f.filename and "site-packages" not in f.filename] or frames
            line = f" ({own[-1].filename.rsplit('/', 1)[-1]}, line {own[-1].lineno})"
        failure = AgentError(f"agent {name!r} raised {type(error).__name__}{where}{line}: {error}")
        failure.__cause__ = error
        return failure

    def _standstill(self) -> None:
        """Nothing can happen any more: end iterations over inboxes; if there are none, say who waits for what."""
        if [inbox for inbox in self.inboxes.values() if inbox.end_iteration()]:
            return
        waiting = [f"agent {name!r} waits for {self._waits_for(task, name)}" for task, name in self.tasks.items() if not task.done()]
        shown = "; ".join(waiting[:5]) + (f"; and {len(waiting) - 5} more" if len(waiting) > 5 else "")
        self._fail(Stalled(f"at {self.loop.time():g} s every task waits for what can never come: {shown}"))

    def _waits_for(self, task: "asyncio.Task[None]", name: Hashable) -> str:
        inbox = self.inboxes[name]
        if inbox.watched and inbox.on_request is None:
            what = waiting_for(inbox)
        else:
            what = "something that no other task will do"
        stack = task.get_stack()
        return f"{what} ({stack[-1].f_code.co_filename.rsplit('/', 1)[-1]}, line {stack[-1].f_lineno})" if stack else what

    @contextmanager
    def _fail_on_callback_errors(self) -> Iterator[None]:
        before = self.loop.get_exception_handler()

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, Exception):
                self._fail(error)

        self.loop.set_exception_handler(handle)
        try:
            yield
        finally:
            self.loop.set_exception_handler(before)

    def _guarded(self, action: Callable[[], None], what: str) -> Callable[[], None]:
        def call() -> None:
            try:
                action()
            except Exception as error:
                failure = error if isinstance(error, NetsimError) else NetsimError(f"{what} raised {type(error).__name__}: {error}")
                self._fail(failure)

        return call

    # --- what happens meanwhile ---------------------------------------------------------------------------------------

    def _answering(self, name: Hashable) -> Callable[[Frame], None]:
        agent, outbox, context = self.agents[name], self.outboxes[name], self.contexts[name]

        def answer(frame: Frame) -> None:
            try:
                reply = agent.answer(for_receiver(frame))
                outbox.send(frame.sender, frame.kind, reply, context.round, False, frame.request, is_reply=True)
            except Exception as error:
                self._fail(self._agent_error(name, error))

        return answer

    def settle(self, until: float) -> None:
        """Count what arrived before ``until`` in every inbox."""
        for inbox in self.inboxes.values():
            if inbox.holds:
                inbox.settle(until)

    def _round_ended(self, number: int) -> None:
        time = number * self.network.round_period
        self.settle(time)
        try:
            self.result.add_row(number, time, self.ledger.totals())
        except Exception as error:
            self._fail(error if isinstance(error, NetsimError) else NetsimError(f"a probe raised {type(error).__name__}: {error}"))

    def _in_flight(self) -> Iterator[int]:
        for inbox in self.inboxes.values():
            for entry in inbox.under_way():
                yield entry[1]


def _check_agents(graph: "nx.Graph[Any]", agents: Agents) -> None:
    missing = [node for node in graph if node not in agents]
    extra = [name for name in agents if name not in graph]
    if missing or extra:
        which = f"no agent for node {missing[0]!r}" if missing else f"agent {extra[0]!r} is no node of the graph"
        raise BadInput(f"agents: must be one for each node of the graph; {which} ({len(missing)} missing, {len(extra)} too many)")
    seen: dict[int, Hashable] = {}
    for name, agent in agents.items():
        if not isinstance(agent, Agent):
            raise check.refuse(f"agents[{name!r}]", agent, "an instance of a subclass of netsim.Agent")
        if seen.setdefault(id(agent), name) != name:
            raise BadInput(f"agents[{name!r}]: must be an object of its own; it is the one of {seen[id(agent)]!r}")


@contextmanager
def _unhurried_collector() -> Iterator[None]:
    """Let the garbage collector look at a run's many short-lived objects less often, and at what was there before never."""
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(threshold[0], 50_000), *threshold[1:])
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def _in_thread(simulate: Callable[[], Run]) -> Run:
    """Run where no event loop is running."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.extend((True, simulate()))
        except BaseException as error:
            outcome.extend((False, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    worked, value = outcome
    if not worked:
        raise value
    result: Run = value
    return result
