"""The network: a graph of links with agents on its nodes, and its settings."""

import asyncio
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import networkx as nx

from netsim._former import must_be_current
from netsim.agent import Agent
from netsim.clock.clock import ClockName, Loop
from netsim.clock.rounds import SHORTEST_ROUND
from netsim.clock.virtual_clock import LATEST
from netsim.distributed.transport import Transport
from netsim.engine.backend import STAGE, Wanted
from netsim.engine.build import Asked, Settings, check_agents
from netsim.engine.job import Job, in_thread
from netsim.engine.observers import MOST_ROWS, Viewer
from netsim.engine.runtime import Runtime
from netsim.errors import BadInput, NetsimError
from netsim.faults import ClockSkew, Fault, Faults
from netsim.links.link import Link
from netsim.radio.settings import Radio
from netsim.run import Probe, Progress, Run
from netsim.topology import check_connected
from netsim.util import check, draws
from netsim.watch import Watch, Watched

if TYPE_CHECKING:
    from netsim.distributed.job import NodeJob

Medium = Literal["wires", "radio"] | Radio


class Clock(TypedDict, total=False):
    """How time passes in a run: see `Network.run`."""

    clock: ClockName
    speed: float


Agents = Mapping[Any, Agent]

# Bytes that a run takes at least for an agent and a link in one direction; measured were 5,700 and 220.
_AGENT, _LINK = 4_000, 150

# Of a round: less would be no more than rounding errors.
_SHORTEST_SAMPLE = 1e-8


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
    medium : {"wires", "radio"} or Radio
        On wires every link has a sender's side of its own, and a broadcast is a link message on each. On a radio an
        agent has one transmitter (rate, queue, budget, MTU and header of ``link``), and a broadcast is one transmission
        that all neighbours hear; ``links`` then may change latency, loss and what follows only. A `Radio` is a medium
        that all share besides: who may speak when, carrier sense, collisions, acknowledgements, energy.
    collisions : bool
        Must be False: transmissions collide on a `Radio`.
    inbox_limit : int, optional
        Frames that an inbox holds at most; more are dropped.
    seed : int
        Everything random derives from it.
    faults : iterable of Fault, optional
        What goes wrong at set times of every run: see `netsim.faults`.

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
        faults: Iterable[Fault] = (),
    ) -> None:
        check_connected(graph)
        nodes, edges = len(graph), graph.number_of_edges()
        check.fits("nodes of graph", nodes, nodes * _AGENT + 2 * edges * _LINK, f"a run with its {edges:,} edges")
        for node in graph:
            draws.check_name(node)
        self.graph = graph
        check.called("link", link)
        check.called("medium", medium)
        self.link = Link() if link is None else link
        if not isinstance(self.link, Link):
            raise check.refuse("link", link, "a netsim.Link")
        self.round_period = check.finite("round_period", round_period, low=SHORTEST_ROUND, high=LATEST)
        if not isinstance(medium, Radio):
            check.one_of("medium", medium, ("wires", "radio"))
        self.medium: Medium = medium
        self.links = dict(links or {})
        for ends, override in self.links.items():
            self._check_override(ends, override)
        for each in (self.link, *self.links.values()):
            each.reliability_model.resend_after(each.latency_model, self.round_period)
        if collisions:
            must_be_current("collisions", collisions)
        if isinstance(medium, Radio):
            medium.check_network(graph, self.link, self.links)
        self.inbox_limit = None if inbox_limit is None else check.integer("inbox_limit", inbox_limit, low=1)
        self.seed = check.integer("seed", seed, low=0)
        self.faults = faults if isinstance(faults, Faults) else Faults(faults)
        self.faults.must_fit(graph)
        for fault in self.faults:
            if isinstance(fault, ClockSkew):
                fault.must_keep(self.round_period)
        self._running: Runtime | None = None
        self._watched: Watched | None = None
        self._viewer: Viewer | None = None
        self._scheduled: list[tuple[float, Callable[[], None]]] = []

    def _check_override(self, ends: Any, link: Any) -> None:
        if not (isinstance(ends, tuple) and len(ends) == 2 and self.graph.has_edge(*ends)):
            raise check.refuse("links", ends, "keyed by (sender, receiver) pairs that are edges of the graph")
        check.called(f"links[{ends}]", link)
        if not isinstance(link, Link):
            raise check.refuse(f"links[{ends}]", link, "a netsim.Link")
        if link.reliability != self.link.reliability:
            raise check.refuse(f"links[{ends}].reliability", link.reliability_model.way, "as on all links")
        for name in ("rate", "queue", "queue_bits", "budget", "mtu", "header_bits") if self.medium != "wires" else ():
            if getattr(link, name) != getattr(self.link, name):
                raise check.refuse(
                    f"links[{ends}].{name}", getattr(link, name), f"{getattr(self.link, name)} as on the whole radio"
                )

    @property
    def settings(self) -> Settings:
        """What it is made of."""
        return Settings(
            self.graph,
            self.link,
            self.links,
            self.round_period,
            self.medium,
            self.inbox_limit,
            self.seed,
            self.faults,
        )

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Call ``action`` at a simulated time (s) of every run; during a run, at a time of that run.

        For example, to cut a link: ``network.at(3.0, lambda: network.set_link(0, 1, up=False))``. Actions of one time
        are called in the order in which they were given, before what agents do at that time; at time 0, before agents
        start. One that raises ends the run.

        Raises
        ------
        BadInput
            If ``action`` cannot be called so, ``time`` is negative, or the run has passed it.
        """
        if not callable(action) or inspect.iscoroutinefunction(action):
            raise check.refuse("action", action, "a function without arguments, and without async")
        time = check.finite("time", time, low=0, high=LATEST)
        if self._running is None:
            self._scheduled.append((time, action))
        else:
            self._running.at(time, action)

    def set_link(self, sender: Hashable, receiver: Hashable, up: bool, *, both: bool = True) -> None:
        """Cut or mend the link between two agents while the network runs.

        Frames already under way arrive; new ones end with cause ``link_down``.

        Parameters
        ----------
        sender, receiver : Hashable
            The link's ends.
        up : bool
            Whether the link carries frames from now on.
        both : bool
            In both directions, as `netsim.faults.LinkDown` cuts it; False: from ``sender`` to ``receiver`` only.

        Raises
        ------
        BadInput
            If the graph has no such edge.
        """
        runtime, up, both = self._runtime(), check.flag("up", up), check.flag("both", both)
        if not self.graph.has_edge(sender, receiver):
            raise check.refuse("link", (sender, receiver), "an edge of the graph")
        runtime.set_link(sender, receiver, up)
        if both:
            runtime.set_link(receiver, sender, up)

    def set_receiver(self, agent: Hashable, up: bool) -> None:
        """Switch an agent's receiver off or on while the network runs; what arrives meanwhile is ``receiver_down``."""
        runtime, up = self._runtime(), check.flag("up", up)
        if agent not in self.graph:
            raise check.refuse("agent", agent, "a node of the graph")
        runtime.set_receiver(agent, up)

    def watch(self, states: Watched | None) -> None:
        """Keep each change of something of the agents' states in the runs to come, in `Run.states`; None: nothing.

        Parameters
        ----------
        states : mapping or sequence
            {column: what} or whats alone, where a what is the name of an attribute that is a number, or a function of
            an agent that returns one (None for none). An agent is looked at before each message that it sends, at the
            end of each instant at which its code ran, and with each row of `Run.rounds`; it sees nothing of it.

        Raises
        ------
        BadInput
            If it is anything else.
        """
        if states is not None:
            Watch(states)
        self._watched = states

    def show_to(self, viewer: Viewer | None) -> None:
        """Let a viewer see the runs to come while they go on (`netsim.live.live_view` makes one); None: nobody."""
        self._viewer = viewer

    def run(
        self,
        agents: Agents,
        probes: Sequence[Probe] = (),
        *,
        until: float | None = None,
        sample: float | None = None,
        trace: bool = False,
        progress: Progress | None = None,
        blas_threads: int | None = 1,
        transport: Transport | None = None,
        **clock: Unpack[Clock],
    ) -> Run:
        """Run every agent to its end and return what happened. Works inside a running event loop (a notebook), too.

        Parameters
        ----------
        agents : mapping
            {node: Agent}, one for each node of the graph, made for this run: agents that have run are refused, as they
            would go on from where they came to. Copies of them (`copy.deepcopy`) do so.
        probes : sequence of callables
            Each is called for each row (at the end of each round, or see ``sample``) with ``agents``, and returns a
            number (its column is the function's name) or a mapping of column names to numbers.
        until : float, optional
            Stop at this simulated time (s) even if agents are not finished.
        sample : float, optional
            Seconds from row to row of `Run.rounds`, for agents that do not live in rounds: row k, whose ``round`` is k,
            shows time k·sample, once all that was due then has happened. The last row is the run's end, also where that
            comes between two. Agents see nothing of it. If they take part in rounds, these have no rows of their own;
            a row whose time is a round's end is the one that the round would have had, before the next one opens.
            Default: a row for each round.
        trace : bool
            Keep the event log (`Run.trace`).
        progress : callable, optional
            Called with the number of each round that ended.
        blas_threads : int, optional
            How many threads numpy's and scipy's matrix products may use meanwhile, in the whole process; afterwards
            they have what they had. Agents' matrices are small, and more threads mostly wait for each other. None: as
            many as they have. Another number may give other last digits. Of runs that overlap the fewest threads hold.
        transport : Transport, optional
            Carries frames to other processes, which run some of the agents, in real time (`netsim.distributed.UDP`,
            `netsim.distributed.MQTT`). Probes then get this process's agents, and the ledger counts what it saw.
        clock : {"virtual", "wall"}
            Simulated time jumps from event to event, or passes ``speed`` times as fast as real time.
        speed : float
            See ``clock``; default 1.

        Raises
        ------
        BadInput
            If the agents do not fit the graph, an argument cannot be used, or ``sample`` makes more than 1,000,000
            rows.
        AgentError
            If an agent raises: the message names it, its round and its line; the cause is its exception.
        Stalled
            If every task waits for what can never come.
        Missed
            If the other processes have ended this run already (`netsim.distributed.job.Missed`).

        Notes
        -----
        An error that ends a run that had begun carries what it had come to, as ``error.run``: rows, ledger and trace up
        to then, which add up as those of a whole run do. So does the KeyboardInterrupt of a Ctrl-C, as long as it is
        the first.
        """
        asked = self._asked(until, sample, trace, blas_threads)
        how = _checked_clock(clock, transport)
        if transport is None and (stage := STAGE.get()) is not None:
            return stage(self, agents, Wanted(probes, progress, asked))
        if transport is None:
            job = Job(self, self.result_of(agents, probes, progress), asked)
        else:
            job = self._part(agents, probes, progress, asked, transport)
        if asyncio._get_running_loop() is None:
            return job.simulate(*how)
        return in_thread(job, lambda: job.simulate(*how))

    async def run_async(
        self,
        agents: Agents,
        probes: Sequence[Probe] = (),
        *,
        until: float | None = None,
        sample: float | None = None,
        trace: bool = False,
        progress: Progress | None = None,
        blas_threads: int | None = 1,
    ) -> Run:
        """Run as `run` does, from a coroutine.

        On a loop of `netsim.clock.new_loop` it shares that loop and its time with whatever else runs there; on any
        other loop it runs in virtual time in a thread of its own.
        """
        result = self.result_of(agents, probes, progress)
        job = Job(self, result, self._asked(until, sample, trace, blas_threads))
        loop = asyncio.get_running_loop()
        if isinstance(loop, Loop):
            return await job.run(loop)
        try:
            return await asyncio.to_thread(job.simulate)
        except asyncio.CancelledError:
            job.interrupt()
            raise

    def _part(
        self, agents: Agents, probes: Sequence[Probe], progress: Progress | None, asked: Asked, transport: Transport
    ) -> "NodeJob":
        """Return the part of a run that is here."""
        from netsim.distributed.job import NodeJob

        if asked.viewer is not None:
            raise BadInput("transport: must go without --watch: what happens is in several processes")
        written = transport.folder is not None
        return NodeJob(
            self, self.result_of(agents, () if written else probes, progress), asked, transport, bool(probes)
        )

    def result_of(self, agents: Agents, probes: Sequence[Probe], progress: Progress | None) -> Run:
        """Return a `Run` without rows or ledger, for who is to fill it; raises BadInput as `run` does."""
        check_agents(self.graph, agents)
        for probe in probes:
            if not callable(probe):
                raise check.refuse("probes", probe, "functions of the agents")
        watched = None if self._watched is None else Watch(self._watched, self.graph)
        return Run({node: agents[node] for node in self.graph}, probes, progress, watched)

    def _asked(self, until: float | None, sample: float | None, trace: bool, blas_threads: int | None) -> Asked:
        until = None if until is None else check.finite("until", until, above=0)
        sample = None if sample is None else self._check_sample(sample, until)
        if blas_threads is not None:
            blas_threads = check.integer("blas_threads", blas_threads, low=1)
        return Asked(until, sample, check.flag("trace", trace), blas_threads, self._viewer)

    def _check_sample(self, sample: float, until: float | None) -> float:
        sample = check.finite("sample", sample, low=max(SHORTEST_ROUND, _SHORTEST_SAMPLE * self.round_period))
        if until is not None and until / sample > MOST_ROWS:
            raise check.refuse("sample", sample, f">= {until / MOST_ROWS:g}, or until={until:g} makes too many rows")
        return sample

    def _runtime(self) -> Runtime:
        if self._running is None:
            raise NetsimError("the network is not running: use Network.at(time, action) to plan ahead")
        return self._running


def _checked_clock(clock: Clock, transport: Transport | None) -> tuple[ClockName, float]:
    """Return how time passes; raises BadInput for an argument that `Network.run` does not have."""
    for name in clock:
        check.one_of("argument of Network.run", name, Clock.__annotations__)
    if transport is not None and not isinstance(transport, Transport):
        raise check.refuse("transport", transport, "a netsim.distributed.Transport, as netsim.distributed.UDP")
    if transport is not None and clock:
        raise BadInput(f"{next(iter(clock))}: must not go with a transport, whose time is the wall's: see its pace")
    return clock.get("clock", "virtual"), clock.get("speed", 1.0)
