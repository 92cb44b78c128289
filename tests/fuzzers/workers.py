"""Random networks give the same results over several workers as in one process.

The same is checked for agents that run random asyncio programs, each of which depends only on its agent.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from netsim import Agent, AgentError, Link, Network, Run, latency, topology
from netsim.faults import Fault, Faults, LinkChange
from netsim.links.latency import Latency
from tests.fuzzers.faults import COUNTS, faulty
from tests.fuzzers.laws import Played, check_books
from tests.fuzzers.networks import Case, Rng, digest
from tests.fuzzers.programs import Log, Machine, Node, play, program
from tests.fuzzers.reliable import a_reliability


def with_latency(rng: Rng, link: Link, period: float) -> Link:
    """Return a link whose frames arrive later than they are sent, and never at the same instant as another event."""
    low = float(period * rng.choice([0.01, 0.2, 0.7, 1.9]) * (1 + rng.random() / 10))
    high = low + float(period * rng.choice([0.1, 0.5, 2.0]))
    return replace(link, latency=latency.uniform(low, high))


def for_workers(fault: Fault, longer: Latency | None = None) -> Fault:
    """Return a fault without changes that workers refuse (rate, queue, shorter latency); it changes the loss
    instead."""
    if not isinstance(fault, LinkChange):
        return fault
    kept = {"latency": longer if fault.latency is not None else None, "rate": None, "queue": None}
    return replace(fault, **kept, loss=0.5 if fault.loss is None else fault.loss)


def of_events(seed: int, with_faults: bool = False, reliable: bool = False) -> Case:
    """Return a case with arbitrary agents over links with latency."""
    case, rng = Case(seed), np.random.default_rng([seed, 7])
    network, period = case.network, case.network.round_period
    network.link = with_latency(rng, network.link, period)
    network.links = {ends: with_latency(rng, link, period) for ends, link in network.links.items()}
    # A latency longer than all others; it cannot be used with acknowledgements, which would arrive after their round.
    longer = None if reliable else latency.uniform(2.1 * period, 3.0 * period)
    network.faults = Faults(for_workers(fault, longer) for fault in network.faults)
    if reliable:
        way = a_reliability(rng, case)
        network.link = replace(network.link, reliability=way)
        network.links = {ends: replace(link, reliability=way) for ends, link in network.links.items()}
    return faulty(case, seed, COUNTS) if with_faults else case


def of_rounds(seed: int, with_faults: bool = False) -> Case:
    """Return a case over any links, whose agents read frames only when a round closes."""
    case, rng = Case(seed), np.random.default_rng([seed, 8])
    case.network.faults = Faults(for_workers(fault) for fault in case.network.faults)
    case.network.inbox_limit = None
    for name, habits in case.habits.items():
        habit = ("in_rounds", "in_rounds", "twice_in_rounds")[rng.integers(3)]
        calm: dict[str, Any] = {"chance": 0.0, "answers": False, "background": False, "looks": False}
        case.habits[name] = replace(habits, name=habit, counts=False, **calm)
    return faulty(case, seed, COUNTS) if with_faults else case


def check_workers(make: Any, seed: int, **more: bool) -> Played:
    """Check that a case gives the same results in one process and over several workers; return the latter run."""
    rng = np.random.default_rng([seed, 9])
    cases = [make(seed, **more) for _ in range(2)]
    sample = float(rng.choice([0.3, 1.0, 2.5])) * cases[0].network.round_period if rng.random() < 0.3 else None
    count = min(int(rng.integers(2, 5)), len(cases[0].network.graph))
    for network in [case.network for case in cases]:
        if network.capacity is not None:
            # Workers refuse downlink capacities, because frames of several workers would share them.
            network.capacity = replace(network.capacity, downlink={})
    if rng.random() < 0.5:
        for case in cases:
            case.network.watch({"mood": "mood"})
    one = cases[0].play(trace=True, sample=sample)
    several = cases[1].play(trace=True, sample=sample, workers=count)
    if sample is None:
        check_books(several)
    assert several.run.trace_hash == one.run.trace_hash
    assert several.run.ended_at == one.run.ended_at
    assert several.rounds == one.rounds
    assert repr(several.links) == repr(one.links)
    assert repr(several.senders) == repr(one.senders)
    assert repr(several.trace) == repr(one.trace)
    assert digest(one.run) == digest(several.run)
    assert one.run.trace.scene == several.run.trace.scene
    assert [each.tolist() for each in one.run.ledger.heard()] == [each.tolist() for each in several.run.ledger.heard()]
    if one.run.watch is not None:
        tables = [
            each.run.states.sort_values(["time_s", "agent", "sent", "mood"], key=_text) for each in (one, several)
        ]
        assert tables[0].to_csv(index=False) == tables[1].to_csv(index=False)
    for node, agent in one.agents.items():
        other = several.agents[node]
        assert repr(agent.notes) == repr(other.notes), f"agent {node!r} noted something else"
        assert (agent.mood, agent.moods) == (other.mood, other.moods)
    return several


def _text(column: Any) -> Any:
    return column.map(repr) if column.name == "agent" else column


# --- what an agent does depends on that agent alone -------------------------------------------------------------------


class Speaking(Machine):
    """A machine that also sends its log to the agent's neighbours, and logs the tasks that the loop shows."""

    def __init__(self, agent: "Programmed") -> None:
        super().__init__()
        self.agent = agent

    def note(self, *what: object) -> None:
        """Append an entry to the log, with the names of the tasks that asyncio shows to the agent."""
        running = asyncio.current_task()
        names = sorted(task.get_name() for task in asyncio.all_tasks())
        super().note(*what, "in", None if running is None else running.get_name(), *names)

    async def run(self, node: Node) -> str:
        """Run one statement, and log that it ended."""
        label = await super().run(node)
        if self.agent.speaks and self.agent.neighbors:
            await self.agent.broadcast("ended", label)
        return label

    # --- more leaves

    async def do_futures(self, label: str, delay: float, which: int) -> list[int]:
        """Log the futures in a set, in the set's order."""
        numbers = {self.loop.create_future(): i for i in range(3 + 9 * which)}
        return [numbers[future] for future in set(numbers)]

    async def do_look(self, label: str, delay: float, which: int) -> list[str]:
        """Log all tasks, in the order of the set that asyncio returns."""
        return [task.get_name() for task in asyncio.all_tasks()]

    async def do_hear(self, label: str, delay: float, which: int) -> list[Any]:
        """Wait for a frame and return its content."""
        async with asyncio.timeout(delay):
            frame = await self.agent.inbox.get()
        return [frame.sender, frame.payload, round(frame.sent_at, 6)]


class Programmed(Agent):
    """An agent that runs a program, and keeps its log."""

    def __init__(self, node: Node, speaks: bool = True) -> None:
        self.node, self.speaks = node, speaks
        self.log: Log = []

    async def run(self) -> None:
        """Run the program."""
        self.log = await play(self.node, make=partial(Speaking, self))


def hash_a_task(agents: Mapping[Any, Any]) -> int:
    """Put new futures and all tasks into a set, as a probe might; this must not affect the agents' sets."""
    loop = asyncio.get_running_loop()
    return len({loop.create_future() for _ in range(5)} | asyncio.all_tasks()) and 0


def check_alone(seed: int) -> bool:
    """Check that programs run the same with workers, probes, a trace, watched attributes, and an additional agent.

    Return False if the programs of this seed end the run with an error, so that nothing can be compared.
    """
    rng = np.random.default_rng([seed, 10])
    count = int(rng.integers(3, 6))
    size, first = int(rng.integers(5, 30)), int(rng.integers(2**31))
    nodes = [program(first + i, size, ["futures", "look", "hear"]) for i in range(count + 1)]
    graph = topology.ring(count)
    # The additional agent only listens; it may be the first of the graph.
    larger: nx.Graph[int] = nx.Graph()
    larger.add_nodes_from([count, *range(count)] if rng.random() < 0.5 else range(count + 1))
    larger.add_edges_from([*graph.edges, (int(rng.integers(count)), count)])
    link = Link(latency=float(0.01 + rng.random()))

    def logs(graph: "nx.Graph[int]", probes: Any = (), watched: bool = False, **settings: Any) -> tuple[Run, Any]:
        agents = {i: Programmed(nodes[i], speaks=i < count) for i in graph}
        network = Network(graph, link, seed=seed)
        if watched:
            network.watch({"speaks": "speaks"})
        run = network.run(agents, probes, **settings)
        return run, {i: agents[i].log for i in range(count)}

    try:
        one, expected = logs(graph)
        _, beside = logs(larger)
    except AgentError as error:
        # Programs may leave a task whose error is never retrieved, which ends the run.
        if "in a task that is never awaited" in str(error):
            return False
        raise
    ways = (
        {"workers": 2},
        {"workers": 3},
        {"trace": True},
        {"sample": 0.7, "probes": [hash_a_task]},
        {"watched": True},
    )
    for way in ways:
        run, found = logs(graph, **way)
        assert found == expected, f"seed {seed}: agents do something else with {way}"
        assert run.trace_hash == one.trace_hash, f"seed {seed}: agents send something else with {way}"
    assert beside == expected, f"seed {seed}: agents do something else with one agent more"
    return True
