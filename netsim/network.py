"""The network: a graph of links with agents on its nodes, and its settings."""

import asyncio
import inspect
import itertools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx

from netsim.agent import Agent
from netsim.clock.clock import ClockName, Loop, new_loop
from netsim.clock.order import ordered
from netsim.clock.rounds import SHORTEST_ROUND
from netsim.clock.virtual_clock import LATEST
from netsim.distributed.transport import Transport
from netsim.draw import Draw, Drawn, Kind, check_draw, declared, drawn_by_radio, source_of
from netsim.engine.build import Settings, check_agents
from netsim.engine.launch import aside, simulate, threads_start
from netsim.engine.observers import MOST_ROWS, Viewer
from netsim.engine.runtime import Runtime
from netsim.errors import BadInput, NetsimError
from netsim.faults import ClockSkew, Fault, Faults
from netsim.faults.events import CHANGEABLE
from netsim.faults.words import append
from netsim.ipv6 import SixLowpan
from netsim.links import latency
from netsim.links.capacity import Capacity
from netsim.links.latency import Latency
from netsim.links.link import Link
from netsim.links.loss import Loss
from netsim.links.rate import Rate
from netsim.radio.settings import Radio
from netsim.run import Probe, Progress, Run
from netsim.topology import check_connected, check_graph, one_way_link
from netsim.transport.routes import Routes, Routing
from netsim.util import check, draws
from netsim.util.variables import assigned
from netsim.watch import Watch, Watched, sources_of

if TYPE_CHECKING:
    from netsim.clock.order import Order
    from netsim.deployment import Deployment

Medium = Literal["wires", "radio"] | Radio
Compute = float | Latency | Mapping[Any, float | Latency]
Capacities = float | str | Path | Mapping[Any, float]
Agents = Mapping[Any, Agent]

# Lower bounds on the memory (bytes) per agent and per directed link; measured values are 5,700 and 220.
_BYTES_PER_AGENT, _BYTES_PER_LINK = 4_000, 150

_BY_NAME = operator.attrgetter("name")

# The maximum number of known kinds: msgpack encodes the integers 0 to 127 in one byte.
_MOST_KINDS = 128

# The maximum number of links that `repr` shows.
_MOST_SHOWN = 12

# Minimum sample interval as a fraction of a round; a shorter interval would be within rounding errors.
_MIN_SAMPLE_FRACTION = 1e-8


@check.named
class Network:
    """A graph whose edges are links: one in each direction, or in a directed graph one along each edge.

    Parameters
    ----------
    graph : networkx Graph or DiGraph
        Its nodes are the agents' names. A single node without edges is also valid. In a DiGraph an edge (a, b) is a
        link from a to b only.
    link : Link
        The settings of every link.
    links : mapping, optional
        Settings for single links: {(sender, receiver): Link}, for that direction only.
    round_period : float
        Length of a round in seconds.
    medium : {"wires", "radio"} or Radio
        With "wires", each link has a separate transmitter, and a broadcast sends one link message over each link. With
        "radio", an agent has one transmitter (rate, queue, budget, MTU and header of ``link``), a broadcast is one
        transmission to all neighbours, and ``links`` may override only what happens after transmission, such as latency
        and loss. A `Radio` also models the shared channel: medium access, carrier sense, collisions, acknowledgements
        and energy.
    inbox_limit : int, optional
        Maximum number of frames in an inbox; frames that arrive at a full inbox are dropped.
    seed : int or (int, int)
        The seed of every random stream. If two are given, the second is for the links and the radio (losses, delays,
        back-offs, fading), and the first for everything else.
    faults : iterable of Fault, optional
        Faults injected at fixed times in every run; see `netsim.faults`.
    connected : bool
        Whether the graph must be connected (a DiGraph strongly: each agent reaches every other one). With False it may
        have several components, and nodes without neighbours.
    compute : float, time model or mapping, optional
        The compute time of the nodes: seconds, a model of `netsim.latency`, or {node: seconds or model} for all nodes.
        Each round is longer by the compute time of its slowest node, and each agent computes at the start of the round.
        `Agent.compute` waits for the next compute time. Default: nothing takes time.
    kinds : sequence of str, optional
        Kinds of message that all nodes know beforehand, at most 128. Their frames contain a number of one byte instead
        of the kind's name. Other kinds can also be sent.
    stack : SixLowpan, optional
        A `netsim.SixLowpan`: messages are sent as 6LoWPAN frames. Default: a message is one msgpack array.
    uplink, downlink : float, mapping or path, optional
        Bits per second of a node, shared by all frames that it sends (uplink) or that are sent to it (downlink): a
        number for all nodes, {node: number}, or a csv file with the columns node and uplink or downlink
        (`netsim.Profile`). A node that is missing has no limit. The ``rate`` of a link limits that link in addition.
        Only on wires.
    sharing : {"fair", "fifo"}
        "fair": the frames in flight share a node's capacity max-min fairly. "fifo": each frame, in the order of
        sending, gets all the capacity that earlier frames leave.
    routing : str or mapping, optional
        How messages to nodes that are not neighbours are forwarded. "shortest": over the fewest links; the name of an
        edge attribute: over the path with the least sum; {node: {destination: neighbour}}: by these tables. Among
        equally good routes, each node chooses the neighbour that is first in the graph. Default: agents can send only
        to neighbours. Not available on a `Radio`, for which `netsim.agents` has routing protocols.
    hop_limit : int, optional
        The maximal number of links that a message crosses with ``routing``. Default: the number of nodes minus one.

    Attributes
    ----------
    deployment : Deployment or None
        The positions of the nodes, if `netsim.Deployment.network` created the network.
    scenery : dict
        {node: function} for the deployment's interferers: the function creates the node's agent in each run.

    Raises
    ------
    BadInput
        If the graph is empty, or not connected although ``connected`` requires it, or if another argument is invalid.
        Acknowledgements, and frames that receivers request again, need links in both directions.
    """

    def __init__(  # noqa: PLR0913  an editor shows every parameter
        self,
        graph: "nx.Graph[Any]",
        link: Link | None = None,
        *,
        links: Mapping[tuple[Any, Any], Link] | None = None,
        round_period: float = 1.0,
        medium: Medium = "wires",
        inbox_limit: int | None = None,
        seed: int | tuple[int, int] = 0,
        faults: Iterable[Fault] = (),
        connected: bool = True,
        compute: Compute | None = None,
        kinds: Sequence[str] = (),
        stack: SixLowpan | None = None,
        uplink: Capacities | None = None,
        downlink: Capacities | None = None,
        sharing: Literal["fair", "fifo"] = "fair",
        routing: Routing | None = None,
        hop_limit: int | None = None,
    ) -> None:
        (check_connected if check.flag("connected", connected) else check_graph)(graph)
        nodes, edges = len(graph), graph.number_of_edges()
        check.fits(
            "nodes of graph",
            nodes,
            nodes * _BYTES_PER_AGENT + (1 if graph.is_directed() else 2) * edges * _BYTES_PER_LINK,
            f"a run with its {edges:,} edges",
        )
        for node in graph:
            draws.plain_name(node)
        self.graph = graph
        check.called("link", link)
        check.called("medium", medium)
        self.link = Link() if link is None else link
        check.instance("link", self.link, Link, "a netsim.Link")
        self.round_period = check.finite("round_period", round_period, low=SHORTEST_ROUND, high=LATEST)
        if not isinstance(medium, Radio):
            check.one_of("medium", medium, ("wires", "radio"))
        self.medium: Medium = medium
        self.links = dict(links or {})
        for ends, override in self.links.items():
            self._check_override(ends, override)
        for each in (self.link, *self.links.values()):
            each.reliability_model.resend_after(each.latency_model, self.round_period)
        if isinstance(medium, Radio):
            medium.check_network(graph, self.link, self.links)
        elif found := next((each for each in (self.link, *self.links.values()) if each.loss_bits), None):
            raise check.refuse("loss_bits", found.loss_bits, "left out unless medium is a netsim.Radio")
        self._check_one_way()
        self.inbox_limit = None if inbox_limit is None else check.integer("inbox_limit", inbox_limit, low=1)
        self.seed, self.link_seed = _seeds(seed)
        self.faults = faults if isinstance(faults, Faults) else Faults(faults)
        self.faults.must_fit(graph)
        for fault in self.faults:
            if isinstance(fault, ClockSkew):
                fault.must_keep(self.round_period)
        self.compute = None if compute is None else self._checked_compute(compute)
        self.kinds = _checked_kinds(kinds)
        self.stack = stack
        if stack is not None:
            check.instance("stack", stack, SixLowpan, "a netsim.SixLowpan")
            if not isinstance(medium, Radio):
                raise check.refuse("stack", stack, "left out unless medium is a netsim.Radio")
            stack.must_fit(len(graph), self.link, self.links)
        self.capacity = self._checked_capacity(uplink, downlink, sharing)
        self.routes = self._checked_routes(routing, hop_limit)
        self.deployment: Deployment | None = None
        self.scenery: dict[Hashable, Callable[[], Agent]] = {}
        self._running: Runtime | None = None
        self._watched: dict[str, Callable[[Any], Any]] = {}
        self._draw: dict[str, Drawn | None] = {}
        self._viewer: Viewer | None = None
        self._scheduled: list[tuple[float, Callable[[], None]]] = []

    def _check_one_way(self) -> None:
        """Raise BadInput if receivers must answer over a link that has no reverse link."""
        link = one_way_link(self.graph)
        if link is None:
            return
        back = f"a graph with links in both directions; link {link!r} has none back"
        if self.link.reliability_model.numbers:
            raise BadInput(f"reliability = {self.link.reliability_model.way!r}: must go with {back}")
        if isinstance(self.medium, Radio) and self.medium.acks:
            raise BadInput(
                f"acks = True: must go with {back} (add it with loss=1.0, and its acknowledgements are lost)"
            )

    def _checked_compute(self, compute: Compute) -> dict[Hashable, Latency]:
        """Return each node's compute-time model; raise BadInput if other settings forbid rounds of unequal length."""
        if any(isinstance(fault, ClockSkew) for fault in self.faults):
            raise check.refuse(
                "compute", compute, "left out with a ClockSkew, by which agents have rounds of their own"
            )
        for each in (self.link, *self.links.values()):
            if each.budget is not None and each.budget_model.per == "round":
                raise check.refuse(
                    "budget",
                    each.budget_model.bits,
                    "a Budget per second with compute times, which make rounds unequal",
                )
        if not isinstance(compute, Mapping):
            return dict.fromkeys(self.graph, _time_model("compute", compute))
        for node in (*self.graph, *compute):
            if (node in compute) != (node in self.graph):
                raise BadInput(f"compute: must have the nodes of the graph as keys; {node!r} is in one of them only")
        return {node: _time_model(f"compute[{node!r}]", compute[node]) for node in self.graph}

    def _checked_capacity(
        self, uplink: Capacities | None, downlink: Capacities | None, sharing: str
    ) -> Capacity | None:
        """Return the nodes' capacities; raise BadInput if the medium or a link's rate does not allow capacities."""
        capacity = Capacity.of(self.graph, limits_of("uplink", uplink), limits_of("downlink", downlink), sharing)
        if capacity is None:
            return None
        name = "downlink" if uplink is None else "uplink"
        if self.medium != "wires":
            raise BadInput(f"{name}: must be left out unless medium = 'wires'; a radio has one rate for all it sends")
        for each in (self.link, *self.links.values()):
            if isinstance(each.rate, Rate):
                raise check.refuse("rate", each.rate, f"a number of bits per second with {name}")
        return capacity

    def _checked_routes(self, routing: Routing | None, hop_limit: int | None) -> Routes | None:
        """Return the routes; raise BadInput on a `Radio`, where protocols of `netsim.agents` forward messages."""
        if routing is not None and isinstance(self.medium, Radio):
            what = "left out on a netsim.Radio, where a protocol of netsim.agents, such as Rpl, forwards messages"
            raise check.refuse("routing", routing, what)
        return Routes.of(self.graph, routing, hop_limit)

    def _check_override(self, ends: Any, link: Any) -> None:
        if not (isinstance(ends, tuple) and len(ends) == 2 and self.graph.has_edge(*ends)):
            raise check.refuse("links", ends, "keyed by (sender, receiver) pairs that are edges of the graph")
        check.called(f"links[{ends}]", link)
        check.instance(f"links[{ends}]", link, Link, "a netsim.Link")
        if link.reliability != self.link.reliability:
            raise check.refuse(
                f"links[{ends}].reliability", link.reliability_model.way, "the same as on all other links"
            )
        for name in ("rate", "queue", "queue_bits", "budget", "mtu", "header_bits") if self.medium != "wires" else ():
            if getattr(link, name) != getattr(self.link, name):
                raise check.refuse(
                    f"links[{ends}].{name}",
                    getattr(link, name),
                    f"{getattr(self.link, name)}, the value of `link`, because a radio has "
                    "one transmitter for all links",
                )

    def __repr__(self) -> str:
        graph, joint = self.graph, "->" if self.graph.is_directed() else "-"
        links = ", ".join(f"{a!r}{joint}{b!r}" for a, b in itertools.islice(graph.edges, _MOST_SHOWN))
        more = ", …" if graph.number_of_edges() > _MOST_SHOWN else ""
        faults = "".join(f"; {fault}" for fault in self.faults)
        shown = f"{len(graph)} nodes, links {links or 'none'}{more}; {_changed(self.link)}"
        return f"<Network of {shown}; seed {self.seed}{faults}>"

    @property
    def settings(self) -> Settings:
        """The network's checked arguments."""
        return Settings(
            self.graph,
            self.link,
            self.links,
            self.round_period,
            self.medium,
            self.inbox_limit,
            self.seed,
            self.link_seed,
            self.faults,
            self.kinds,
            self.deployment,
            self.compute,
            self.stack,
            self.capacity,
            self.routes,
        )

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Schedule ``action`` at a simulated time (s) in every run or, if called during a run, in that run only.

        For example, to cut a link: ``network.at(3.0, lambda: network.set_link(0, 1, up=False))``. Actions scheduled for
        the same time run in the order of scheduling, before agents act at that time and, at time 0, before agents
        start. An action that raises an exception ends the run.

        Raises
        ------
        BadInput
            If ``action`` is not a plain (non-async) callable, or ``time`` is negative or in the run's past.
        """
        if not callable(action) or inspect.iscoroutinefunction(action):
            raise check.refuse("action", action, "a function without parameters that is not async")
        time = check.finite("time", time, low=0, high=LATEST)
        if self._running is None:
            self._scheduled.append((time, action))
        else:
            self._running.at(time, action)

    @check.named
    def set_link(  # noqa: PLR0913  an editor shows every parameter
        self,
        sender: Hashable,
        receiver: Hashable,
        up: bool | None = None,
        *,
        one_way: bool = False,
        drops: bool = False,
        held: bool | None = None,
        latency: float | Latency | None = None,
        loss: float | Loss | None = None,
        rate: float | None = None,
        queue: int | None = None,
        queue_bits: int | None = None,
        duplicate: float | None = None,
        corrupt: float | None = None,
        crc: bool | None = None,
    ) -> None:
        """During a run, cut, restore or hold the link between two agents, or change its settings.

        None leaves a property unchanged. ``docs/links.md`` describes the effect on frames in flight, and on the link's
        later draws.

        Parameters
        ----------
        sender, receiver : Hashable
            The endpoints of the link.
        up : bool, optional
            Whether the link carries frames from now on. Frames that are offered to a cut link are dropped as
            ``link_down``; frames in flight still arrive.
        one_way : bool
            Whether to change only the direction from ``sender`` to ``receiver``, as in `netsim.faults.LinkDown`.
        drops : bool
            With ``up=False``: whether frames in flight or in the link's queue are dropped as ``lost``.
        held : bool, optional
            True: from now on frames that reach the end of the link wait there. False: the waiting frames arrive.
        latency, loss, rate, queue, queue_bits, duplicate, corrupt, crc
            New settings, as in `netsim.Link`. ``rate`` is a number of bits per second; with `math.inf`, sending takes
            no time.

        Raises
        ------
        BadInput
            If the graph has no such edge, no property is given, a value is outside its range, or the link does not
            support the change: a link of a `netsim.Radio`, or a real one, can only be cut.
        """
        runtime, one_way = self._runtime(), check.flag("one_way", one_way)
        there, now, changes = (sender, receiver), runtime.loop.now(), runtime.changes
        if not (sender in self.graph and receiver in self.graph and self.graph.has_edge(sender, receiver)):
            raise check.refuse("link", there, "an edge of the graph")
        links = (there,) if one_way or not self.graph.has_edge(receiver, sender) else (there, there[::-1])
        given = dict(zip(CHANGEABLE, (latency, loss, rate, queue, queue_bits, duplicate, corrupt, crc), strict=True))
        settings = {name: value for name, value in given.items() if value is not None}
        if check.flag("drops", drops) and up is not False:
            raise BadInput("drops = True: must come with up=False")
        if up is None and held is None and not settings:
            raise BadInput(f"set_link: must change one of up, held, {', '.join(CHANGEABLE)}")
        runtime.must_be_shared("Network.set_link")
        if drops or held is not None:
            changes.check_wired("Network.set_link")
        if settings:
            changes.check("Network.set_link", links, settings)
            changes.check_queue(links, settings)
            changes.change("Network.set_link", links, settings)
            runtime.injector.record.change_links(links, settings, now)
        if held is not None:
            (changes.hold if check.flag("held", held) else changes.release)(links, "the program")
            runtime.injector.record.hold_links(links, held, now)
        if up is not None:
            if drops:
                changes.drop(links)
            runtime.injector.set_links(links, check.flag("up", up))
            runtime.injector.record.set_links(links, up, now)

    def route(self, sender: Hashable, receiver: Hashable) -> list[Any]:
        """Return the nodes on the route of a message with ``routing``, both ends included; [] without a route.

        Raises
        ------
        BadInput
            If the network has no routing, or the graph lacks the node.
        """
        if self.routes is None:
            raise BadInput("route: must go with Network(…, routing=…)")
        for name, node in (("sender", sender), ("receiver", receiver)):
            check.member(name, node, self.graph, "a node of the graph")
        return self.routes.route(sender, receiver)

    def set_receiver(self, agent: Hashable, up: bool) -> None:
        """Switch an agent's receiver off or on during a run; while off, it drops frames as ``receiver_down``."""
        runtime, up = self._runtime(), check.flag("up", up)
        check.member("agent", agent, self.graph, "a node of the graph")
        runtime.injector.set_receiver(agent, up)

    def move(self, agent: Hashable, position: Sequence[float]) -> None:
        """Move an agent's node to another position during a run; this ends a `netsim.faults.Move` in progress.

        Reception, carrier sensing and interference are recomputed. Signals already on the air keep their received
        powers.

        Parameters
        ----------
        agent : Hashable
            The agent's name.
        position : sequence of float
            (x, y) or (x, y, z) in metres; without z the node keeps its height.

        Raises
        ------
        BadInput
            If the network does not come from a `netsim.Deployment`, or the node would move into the range of a node
            that is not its neighbour. To allow this, pass the moves as the Deployment's ``moves``, or the node in its
            ``roaming``.
        """
        runtime = self._runtime()
        check.member("agent", agent, self.graph, "a node of the graph")
        runtime.move(agent, tuple(position))

    def watch(self, states: Watched | None = (), draw: Draw | None = None) -> None:
        """Record, in later runs, every change of agents' states in `Run.states`; further calls add states.

        To watch a run in progress, use `netsim.live.live_view` or ``--live``.

        A column of the same name from an earlier call is replaced. None ends the recording of all states.

        Parameters
        ----------
        states : mapping or sequence
            {column: state}, or the states alone. A state is the name of an attribute, or a function of an agent. Its
            value is a number; or True or False, text, a member of an enum, or a set, list, tuple or dict of these (at
            most 1,000 different ones); or None: no value. An agent that lacks the attribute has no value, because
            agents may be of several classes. But an attribute that no agent has by the first row, or by the end, is an
            error. A state is read before each message and with each note of the agent, at the end of each instant at
            which the agent's code ran, and with each row of `Run.rounds`. Reading a state does not affect the agent.
        draw : mapping, optional
            {column: drawing in a replay}, such as ``{"queue": Stack(), "parent": Edge()}`` of `netsim.draw`. A column
            that was not watched so far is then watched. These drawings override those declared by the agents' classes
            (`netsim.Agent.draw`). Declared states are watched in every run that keeps a trace or is shown live.

        Raises
        ------
        BadInput
            If ``states`` is not a valid mapping or sequence of states.
        """
        drawn = check_draw(draw or {})
        if states is None:
            self._watched, self._draw = {}, {}
            return
        watched = self._watched | (sources_of(states) if states or not drawn else {})
        for name, each in drawn.items():
            if each is not None:
                watched[name] = source_of(name, replace(each, state=each.state or watched.get(name)))
        self._watched, self._draw = watched, self._draw | drawn

    def show_to(self, viewer: Viewer | None) -> None:
        """Show later runs live in a viewer (see `netsim.live.live_view`); pass None to show nothing."""
        self._viewer = viewer

    @check.named
    def run(  # noqa: PLR0913  an editor shows every parameter
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
        workers: int = 1,
        dask: str | None = None,
        clock: ClockName = "virtual",
        pace: float = 1.0,
        every: int = 1,
        order: "int | Order | None" = None,
        deliveries: bool = False,
    ) -> Run:
        """Run all agents to completion, even within a running event loop (a notebook), and return the results.

        Parameters
        ----------
        agents : mapping
            {node: Agent}, with one newly created agent for each node of the graph. Agents that have run are rejected,
            because they would continue from their last state. To continue from that state, pass deep copies
            (`copy.deepcopy`).
        probes : sequence of callables
            For each row (at the end of each round, or as set by ``sample``), each probe is called with ``agents`` and
            returns a number (in a column named after the function) or a mapping of column names to numbers.
        until : float, optional
            Stop at this simulated time (s) even if agents are not finished.
        sample : float, optional
            Interval (s) between rows of `Run.rounds`, for agents that do not use rounds. Row k, whose ``round`` is k,
            shows time k·sample, after all events of that time. The last row shows the end of the run, even if the run
            ends between two samples. Sampling does not affect the agents. With ``sample``, rounds add no rows. A sample
            at the end of a round shows the state before the next round opens, as that round's row would. Default: a row
            for each round.
        trace : bool
            Keep the event log (`Run.trace`).
        progress : callable, optional
            Called with the number of each round that ended.
        blas_threads : int, optional
            The number of threads that numpy's and scipy's matrix products may use during the run, in the whole process.
            The agents' matrices are small, so additional threads mostly wait for each other. None leaves the number of
            threads unchanged. A different number of threads may change the last digits of floating-point results. While
            runs overlap, the smallest number applies.
        transport : Transport, optional
            Carries frames in real time to the other processes that run some of the agents (`netsim.distributed.UDP`,
            `netsim.distributed.MQTT`). With a transport, probes receive only the agents of this process, and the ledger
            counts only the frames that this process saw.
        workers : int
            The number of processes over which the run is spread, in virtual time. The results are the same, and each
            process holds its share of the links. ``docs/scale.md`` describes when workers save time, and which runs
            cannot be split.
        dask : str, optional
            The address of a Dask scheduler, ``tcp://host:8786``, whose workers run these processes; default: processes
            on this machine.
        clock : {"virtual", "wall"}
            "virtual" advances simulated time from event to event; "wall" runs it ``pace`` times as fast as real time.
        pace : float
            Speed relative to real time with ``clock="wall"``; default 1.
        every : int
            Write, and call the probes for, only the first row, each ``every``-th row and the last. Use it if probes
            take longer than the rounds, as measures of many models do. Default: 1.
        order : int or Order, optional
            The order in which agents' steps at equal times run: drawn from this seed, or given by a
            `netsim.testing.Order`. Default: the order in which the steps became ready.
        deliveries : bool
            Whether to record the messages that each agent receives (`Run.deliveries`), with payloads.

        Raises
        ------
        BadInput
            If the agents do not match the graph's nodes, an argument is invalid, or ``sample`` gives more than
            1,000,000 rows.
        AgentError
            If an agent raises an exception, which becomes ``__cause__``; the message names agent, round and line.
        Stalled
            If the run deadlocks: every task waits for an event that can never occur.
        Missed
            If the other processes have ended this run already (`netsim.distributed.node.Missed`).

        Notes
        -----
        An error that ends a run has the partial result as ``error.run``; its rows, ledger and trace are consistent up
        to the error. The KeyboardInterrupt of the first Ctrl-C also has this attribute.
        """
        settings = replace(self._settings_of(until, sample, trace, blas_threads, deliveries), clock=clock, pace=pace)
        if transport is not None and not isinstance(transport, Transport):
            raise check.refuse("transport", transport, "a netsim.distributed.Transport, such as netsim.distributed.UDP")
        real_time = {"transport": transport is not None, "clock": clock != "virtual", "pace": pace != 1.0}
        given = [name for name, is_given in real_time.items() if is_given]
        if transport is not None and len(given) > 1:
            raise BadInput(f"{given[1]}: cannot be combined with a transport, which runs in real time: see its pace")
        if transport is None and clock == "virtual" and pace != 1.0:
            raise check.refuse("pace", pace, "left out unless clock = 'wall'")
        every = check.integer("every", every, low=1)
        followed = ordered(order)
        if followed is not None:
            if given:
                raise BadInput(f"order: must be left out with {given[0]}, as real time has an order of its own")
            settings = replace(settings, order=followed)
        result = self.result_of(agents, probes, progress)
        result.every = every
        if (refine := REFINE.get()) is not None:
            given += [f"workers = {workers!r}"] if workers != 1 else ["dask"] if dask is not None else []
            if given:
                raise BadInput(f"{given[0]}: must be left out in a search or a simulated test")
            settings = refine(self, settings, result)
        if workers != 1 or dask is not None:
            if transport is not None:
                raise BadInput(f"workers = {workers!r}: must be 1 with transport, which runs in real time")
            run = self.play_in_workers(settings, result, workers, dask)
        elif transport is None and (backend := BACKEND.get()) is not None:
            run = backend(self, settings, result)
        else:
            run = self.play(settings, result, transport)
        run.complete()
        return run

    def play_in_workers(self, settings: Settings, result: Run, workers: int, dask: str | None = None) -> Run:
        """Run with validated ``settings``, as `play` does, but spread over several processes."""
        from netsim.parallel.launch import run_in_workers

        self._watch_drawn(settings, result)
        return run_in_workers(settings, result, self._scheduled, self._active, workers, dask)

    def play(self, settings: Settings, result: Run, transport: Transport | None = None) -> Run:
        """Run with validated ``settings``, as `run` does, and add the rows to ``result``, which holds the agents."""
        if transport is None:
            self._watch_drawn(settings, result)
            runtime = Runtime(settings, result, self._scheduled)

            def launch() -> Run:
                try:
                    return simulate(runtime, new_loop(settings.clock, settings.pace))
                finally:
                    runtime.release()
        else:
            from netsim.distributed.node import Node

            node = Node(settings, result, transport)
            runtime = node.runtime = Runtime(settings, result, self._scheduled, node)
            launch = node.meet_and_run

        with aside():
            return self._launch(runtime, launch)

    @check.named
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
        deliveries: bool = False,
    ) -> Run:
        """Run the network from a coroutine, with the results and errors of `run`.

        On a loop from `netsim.clock.new_loop`, the run shares the loop and its clock with other tasks. On any other
        loop, the run takes place in virtual time in a separate thread; on platforms without threads it blocks that
        loop.
        """
        if ordered(None) is not None:
            raise BadInput("order: must go with Network.run; run_async may share its loop with others")
        settings = self._settings_of(until, sample, trace, blas_threads, deliveries)
        result = self.result_of(agents, probes, progress)
        if (refine := REFINE.get()) is not None:
            settings = refine(self, settings, result)
        self._watch_drawn(settings, result)
        runtime = Runtime(settings, result, self._scheduled)
        loop = asyncio.get_running_loop()
        if isinstance(loop, Loop):
            with self._active(runtime):
                return await runtime.run(loop)

        def launch() -> Run:
            return simulate(runtime, new_loop())

        if not threads_start():
            with aside():
                return self._launch(runtime, launch)
        try:
            return await asyncio.to_thread(self._launch, runtime, launch)
        except asyncio.CancelledError:
            runtime.interrupt()
            raise

    def _launch(self, runtime: Runtime, launch: Callable[[], Run]) -> Run:
        with self._active(runtime):
            return launch()

    @contextmanager
    def _active(self, runtime: Runtime) -> Iterator[None]:
        """Route `at`, `set_link` and `set_receiver` to a run; raise NetsimError if another run is active."""
        if self._running is not None:
            raise NetsimError("this network is already running: make another Network for a second run at the same time")
        self._running = runtime
        try:
            yield
        finally:
            self._running = None

    def result_of(self, agents: Agents, probes: Sequence[Probe], progress: Progress | None) -> Run:
        """Return an empty `Run`, without rows or ledger; raise BadInput as `run` does."""
        if self.scenery and isinstance(agents, Mapping):
            agents = {**agents, **{node: make() for node, make in self.scenery.items()}}
        check_agents(self.graph, agents)
        check.functions("probes", probes, "functions of the agents")
        watched = Watch(self._watched, self.graph, self._draw) if self._watched else None
        return Run({node: agents[node] for node in self.graph}, probes, progress, watched)

    def _watch_drawn(self, settings: Settings, result: Run) -> None:
        """Also watch the states drawn by agents' classes and the medium, if the run keeps a trace or is shown live."""
        if not settings.trace and settings.viewer is None:
            return
        drawn = {**drawn_by_radio(settings.medium), **declared(result.agents.values())}
        # Keep a column that the user watches, because the user's function may differ from the class's state of the same
        # name.
        new = {
            name: found
            for name, found in drawn.items()
            if name not in self._draw and isinstance(self._watched.get(name, _BY_NAME), operator.attrgetter)
        }
        states = {name: source for name, (each, source) in new.items() if not isinstance(each, Kind)}
        if states:
            draw = {name: each for name, (each, _) in new.items()} | self._draw
            result.watch = Watch(self._watched | states, self.graph, draw, self._watched)

    def _settings_of(
        self, until: float | None, sample: float | None, trace: bool, blas_threads: int | None, deliveries: bool
    ) -> Settings:
        until = None if until is None else check.finite("until", until, above=0)
        sample = None if sample is None else self._check_sample(sample, until)
        if blas_threads is not None:
            blas_threads = check.integer("blas_threads", blas_threads, low=1)
        return replace(
            self.settings,
            faults=append(self.faults, self.graph),
            until=until,
            sample=sample,
            trace=check.flag("trace", trace),
            blas_threads=blas_threads,
            viewer=self._viewer,
            deliveries=check.flag("deliveries", deliveries),
        )

    def _check_sample(self, sample: float, until: float | None) -> float:
        sample = check.finite("sample", sample, low=max(SHORTEST_ROUND, _MIN_SAMPLE_FRACTION * self.round_period))
        if until is not None and until / sample > MOST_ROWS:
            raise check.refuse(
                "sample",
                sample,
                f">= {until / MOST_ROWS:g}, or until={until:g} gives too many rows",
            )
        return sample

    def _runtime(self) -> Runtime:
        if self._running is None or not self._running.built:
            raise NetsimError("the network is not running: use Network.at(time, action) to schedule an action")
        return self._running


Backend = Callable[[Network, Settings, Run], Run]
"""Runs a network with validated settings: fills and returns the given `Run`, or returns another `Run`."""

BACKEND: ContextVar[Backend | None] = ContextVar("BACKEND", default=None)
"""The backend that runs networks in place of the simulation; None: the simulation runs them."""


Refine = Callable[[Network, Settings, Run], Settings]
"""Returns the settings that replace a run's given settings before it starts."""

REFINE: ContextVar[Refine | None] = ContextVar("REFINE", default=None)
"""The function that changes the settings of runs during a search; None: settings are used as given."""


@contextmanager
def refined_by(refine: Refine) -> Iterator[None]:
    """Let ``refine`` change the settings of runs inside the context; the simulation runs them."""
    with assigned(REFINE, refine), played_by(None):
        yield


@contextmanager
def unscheduled(network: Network) -> Iterator[None]:
    """On exit, discard the actions (`Network.at`) and watched states that were added inside the context."""
    before = list(network._scheduled), network._watched, network._draw
    try:
        yield
    finally:
        network._scheduled, network._watched, network._draw = before


@contextmanager
def played_by(backend: Backend | None) -> Iterator[None]:
    """Let ``backend`` run the networks inside the context; None: the simulation runs them."""
    with assigned(BACKEND, backend):
        yield


@contextmanager
def spread(workers: int, dask: str | None = None) -> Iterator[None]:
    """Spread all runs inside the context over several workers; one worker without Dask has no effect."""
    if workers == 1 and dask is None:
        yield
        return
    with played_by(lambda network, settings, result: network.play_in_workers(settings, result, workers, dask)):
        yield


def _changed(link: Link) -> str:
    """Return the representation of a link with only the arguments that differ from the defaults."""
    own = [(each.name, getattr(link, each.name)) for each in fields(link)]
    usual = Link()
    return f"Link({', '.join(f'{name}={value!r}' for name, value in own if value != getattr(usual, name))})"


def _seeds(seed: int | tuple[int, int]) -> tuple[int, int]:
    """Return the seeds of agents and of links; a single number is used for both."""
    if not isinstance(seed, tuple):
        return (checked := check.integer("seed", seed, low=0)), checked
    if len(seed) != 2:
        raise check.refuse("seed", seed, "a whole number >= 0, or two: of agents and of links")
    agents, links = (check.integer(f"seed[{place}]", each, low=0) for place, each in enumerate(seed))
    return agents, links


def limits_of(name: str, value: Capacities | None) -> float | Mapping[Any, float] | None:
    """Return capacities as numbers; read them from a file if a path is given."""
    if not isinstance(value, str | Path):
        return value
    # Imported only when needed, because few networks have a profile.
    from netsim.profile import Profile

    found = getattr(Profile.read(value), name)
    if not found:
        raise check.refuse(name, str(value), f"a csv file with a column {name} or communication")
    limits: float | Mapping[Any, float] = found.get(None, found)
    return limits


def _time_model(name: str, value: float | Latency) -> Latency:
    """Return a compute-time model; a number becomes a model of this constant time (s)."""
    if isinstance(value, latency.Correlated):
        # Workers draw compute times in any order, and several workers draw the same time, so a time must not depend on
        # earlier ones.
        raise check.refuse(name, value, "a model whose times do not depend on one another")
    return value if isinstance(value, Latency) else latency.constant(check.finite(name, value, low=0, high=LATEST))


def _checked_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds that all nodes know; raise BadInput unless they are at most 128 different texts."""
    if isinstance(kinds, str) or not isinstance(kinds, Sequence):
        raise check.refuse("kinds", kinds, "a sequence of kinds of message")
    for number, kind in enumerate(kinds):
        check.instance(f"kinds[{number}]", kind, str, "a str")
        if kind in kinds[:number]:
            raise check.refuse(f"kinds[{number}]", kind, "there once only")
    if len(kinds) > _MOST_KINDS:
        raise BadInput(f"kinds: must be at most {_MOST_KINDS}, whose number is one byte; there are {len(kinds)}")
    return tuple(str(kind) for kind in kinds)
