"""Random networks: topologies, links with all settings, agents with random habits, and scheduled events."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import networkx as nx
import numpy as np

from netsim import BadInput, Link, Network, Run, latency, loss, topology
from netsim.clock.order import Order
from netsim.faults import Fault, Hold, LinkChange, LinkDown, Partition
from netsim.links import Budget
from netsim.replay.frames import frames_of
from tests.fuzzers.agents import Habits, Noting, agent
from tests.fuzzers.laws import Played, check_books, check_same, looking_at_each_row
from tests.fuzzers.messages import check_messages

Rng = np.random.Generator
HABITS = ["in_rounds"] * 5 + [
    "twice_in_rounds",
    "heartbeat",
    "heartbeat",
    "listen",
    "listen",
    "ask_around",
    "wait_for_each",
    "at_once",
    "silent",
]
# Shares of a round at which probes read inboxes; some coincide with arrivals, timeouts and ends of rounds.
LOOKS = (0, 0.123, 0.25, 0.5, 0.77, 1, 1.31, 2)
PERIODS = [1.0, 1.0, 0.1, 0.3, 0.7, 1 / 3, 1e-3, 60.0]


def pick(rng: Rng, *choices: Any) -> Any:
    """Return a random choice, called with ``rng`` if it is callable."""
    choice = choices[rng.integers(len(choices))]
    return choice(rng) if callable(choice) else choice


# --- links ------------------------------------------------------------------------------------------------------------


def a_latency(rng: Rng, period: float) -> Any:
    """Return a latency: often none, a whole number of periods, or the same for many frames."""
    p = period
    return pick(
        rng,
        *(0.0, 0.0, p / 4, p / 4, p / 10, p, 2 * p, 3 * p, 1.5 * p),
        lambda _: latency.constant(p / 3),
        lambda _: latency.uniform(0.0, 0.9 * p),
        lambda _: latency.uniform(0.5 * p, 2.5 * p),
        lambda _: latency.normal(p / 3, p / 10),
        lambda _: latency.exponential(p / 3),
        lambda _: latency.exponential(p / 2, minimum=p / 4),
        lambda _: latency.pareto(p / 10, 1.5),
        lambda _: latency.empirical([p / 4, 0.0, p], jitter=0.5),
        lambda _: latency.correlated(latency.uniform(0.0, 0.9 * p), 0.5),
        lambda r: latency.trace([float(r.choice([0, p / 4, p, 2 * p])) for _ in range(r.integers(1, 5))]),
    )


def a_loss(rng: Rng) -> Any:
    """Return a loss model: often none, sometimes certain loss."""
    return pick(
        rng,
        *(0.0, 0.0, 0.0, 0.1, 0.5, 1.0),
        lambda _: loss.bernoulli(0.3),
        lambda _: loss.gilbert_elliott(0.4, burst=3),
        lambda _: loss.gilbert_elliott(0.0, burst=1),
        lambda _: loss.gemodel(0.3, 0.4, 0.8, 0.1),
        lambda _: loss.states(0.2, 0.3, 0.2, 0.5, 0.1),
        lambda _: loss.correlated(0.4, 0.3),
        lambda r: loss.gilbert_elliott(0.4, burst=float(r.choice([1, 3, 30])), slot=float(r.choice([0.01, 0.1, 1]))),
        lambda r: loss.trace(r.integers(0, 2, r.integers(1, 6))),
        lambda r: loss.trace([0, 1, 1, 0], offsets=int(r.integers(4))),
    )


def a_budget(rng: Rng, period: float) -> Any:
    """Return a bit budget per round or per second, or None."""
    per_round = float(rng.choice([300, 1500, 9000, 1e5]))
    over = pick(rng, "refuse", "wait")
    return pick(
        rng,
        *(None, None, None, per_round),
        lambda _: Budget(per_round, "round", over),
        lambda r: Budget(per_round / period, "second", over, burst=pick(r, None, 400.0, 1500.0)),
    )


def at_the_sender(rng: Rng, period: float, rated: bool = False) -> dict[str, Any]:
    """Return settings of a transmitter: rate, queue, budget, fragments."""
    rates = [500 / period, 5000 / period, 1e5 / period, 1e12]
    rate = float(rng.choice(rates)) if rated or rng.random() < 0.4 else None
    budget = a_budget(rng, period)
    waits = rate is not None or budget is not None
    return {
        "rate": rate,
        "budget": budget,
        "mtu": pick(rng, None, None, None, 13, 13, 64, 64, 1500, lambda r: int(r.integers(1, 40))),
        "header_bits": pick(rng, 0, 0, 24, 320),
        "queue": pick(rng, None, None, 1, 3) if waits else None,
        "queue_bits": pick(rng, None, None, 700, 5000) if waits else None,
    }


def on_the_way(rng: Rng, period: float) -> dict[str, Any]:
    """Return settings for frames in flight."""
    return {
        "latency": a_latency(rng, period),
        "loss": a_loss(rng),
        "duplicate": pick(rng, 0.0, 0.0, 0.3, 1.0),
        "corrupt": pick(rng, 0.0, 0.0, 0.0, 0.3, 1.0),
        "crc": bool(rng.random() < 0.7),
        "fifo": bool(rng.random() < 0.3),
    }


def in_numpy(rng: Rng, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, sometimes as numpy scalars, which users' scripts often pass."""
    types: dict[type, Callable[[Any], Any]] = {float: single, int: np.int64, bool: np.bool_}
    if rng.random() < 0.8:
        return settings
    return {name: types.get(type(value), lambda same: same)(value) for name, value in settings.items()}


def single(value: float) -> np.floating[Any]:
    """Return a number in single precision if that represents it exactly."""
    return np.float32(value) if float(np.float32(value)) == value else np.float64(value)


# --- networks ---------------------------------------------------------------------------------------------------------


def a_graph(rng: Rng) -> "nx.Graph[Any]":
    """Return a connected graph of one to eight agents, with names of several types."""
    n, seed = int(rng.integers(2, 9)), int(rng.integers(1000))
    makers: list[Callable[[], nx.Graph[Any]]] = [
        lambda: topology.ring(max(n, 3)),
        lambda: topology.path(n),
        lambda: topology.complete(min(n, 5)),
        lambda: topology.star(n),
        lambda: topology.grid(2, 3),
        lambda: topology.erdos_renyi(n, p=0.6, seed=seed),
        lambda: topology.random_geometric(n, 0.7, seed=seed),
        lambda: nx.random_labeled_tree(n, seed=seed),
        lambda: nx.path_graph(1) if rng.random() < 0.2 else topology.path(2),
    ]
    graph = makers[rng.integers(len(makers))]()
    naming = rng.integers(4)
    if naming == 0:
        return nx.relabel_nodes(graph, {i: f"agent {i}" for i in graph})
    if naming == 1:
        return nx.relabel_nodes(graph, {i: (i, f"{i}") if i % 2 else 10.0 - i for i in graph})
    return graph


def one_way(rng: Rng, graph: "nx.Graph[Any]") -> "nx.Graph[Any]":
    """Return a graph; one in four has some one-way links, and need not be strongly connected."""
    if rng.random() < 0.75:
        return graph
    directed = nx.DiGraph(graph)
    for a, b in graph.edges:
        which = rng.integers(4)
        if which < 2:
            directed.remove_edge(*((a, b) if which else (b, a)))
    return directed


def a_network(rng: Rng) -> Network:
    """Return a network with per-link settings and scheduled events."""
    period = float(rng.choice(PERIODS))
    graph = one_way(rng, a_graph(rng))
    medium = pick(rng, "wires", "wires", "radio")
    # If no frame waits, is cut or is damaged, both cores use a faster path for broadcasts.
    is_plain = rng.random() < 0.3
    port = {"header_bits": pick(rng, 0, 24, 320)} if is_plain else at_the_sender(rng, period)
    way = {"latency": a_latency(rng, period), "loss": a_loss(rng)} if is_plain else on_the_way(rng, period)
    ends = topology.links_of(graph)
    links = {}
    for _ in range(rng.integers(0, 4) if ends else 0):
        own = port if medium == "radio" else at_the_sender(rng, period)
        links[ends[rng.integers(len(ends))]] = Link(**in_numpy(rng, own | on_the_way(rng, period)))
    link, limit, seed = Link(**in_numpy(rng, port | way)), pick(rng, None, None, None, 1, 4), int(rng.integers(2**31))
    network = Network(
        graph,
        link,
        links=links,
        round_period=period,
        medium=medium,
        inbox_limit=limit,
        seed=seed,
        connected=False,
        **(some_capacities(np.random.default_rng(seed), graph, period) if medium == "wires" else {}),
    )
    for _ in range(rng.integers(0, 4)):
        happen(rng, network, ends)
    more = np.random.default_rng([seed, 1])
    for _ in range(more.integers(0, 5) if ends else 0):
        network.faults += [a_change(more, network, ends)]
    return network


def a_change(rng: Rng, network: Network, ends: list[tuple[Any, Any]]) -> Fault:
    """Return a fault: new settings of a link, a hold, or a cut that may drop frames in flight or be one-way."""
    period, nodes = network.round_period, list(network.graph)
    sender, receiver = ends[rng.integers(len(ends))]
    at = period * float(rng.choice([0, 0.25, 0.5, 1, 1.1, 2, 2.7, 4]))
    until = pick(rng, None, at + period * float(rng.choice([0.3, 1, 1.5, 5])))
    one_way = bool(rng.random() < 0.5)
    kind = rng.integers(6)
    if kind == 0:
        return Hold(sender, pick(rng, None, receiver), at, until, one_way)
    if kind == 1:
        return LinkDown(sender, receiver, at, until, one_way, drops=True)
    if kind == 2 and len(nodes) > 1:
        side = rng.permutation(len(nodes))[: rng.integers(1, len(nodes))]
        return Partition([nodes[place] for place in side], at, until, one_way, drops=bool(rng.random() < 0.5))
    way = on_the_way(rng, period)
    chosen = [name for name in ("latency", "loss", "duplicate", "corrupt", "crc") if rng.random() < 0.4] or ["loss"]
    changed = {name: way[name] for name in chosen}
    links = [network.links.get(each, network.link) for each in ((sender, receiver), (receiver, sender))]
    if network.medium == "wires" and all(link.rate is not None and link.budget is None for link in links):
        changed["rate"] = float(rng.choice([500, 5000, 1e5, 1e12])) / period
        changed["queue"] = pick(rng, None, 1, 5)
    return LinkChange(sender, receiver, at, until, one_way, **changed)


def some_capacities(rng: Rng, graph: "nx.Graph[Any]", period: float) -> dict[str, Any]:
    """Return capacities of some nodes, in one or both directions, so small that a frame takes a share of a round."""
    found: dict[str, Any] = {}
    for name in ("uplink", "downlink"):
        bits = [float(rng.choice([500, 2000, 5000, 1e5])) / period for _ in graph]
        some = {node: each for node, each in zip(graph, bits, strict=True) if rng.random() < 0.5}
        found |= {name: pick(rng, None, None, bits[0], some)}
    is_given = any(each is not None for each in found.values())
    return found | {"sharing": pick(rng, "fair", "fair", "fifo") if is_given else "fair"}


def happen(rng: Rng, network: Network, ends: list[tuple[Any, Any]]) -> None:
    """Schedule a cut or repair of a link, or a switch of a receiver, often exactly when a round ends."""
    time = network.round_period * float(rng.choice([0, 0.25, 0.5, 1, 1.5, 2, 2.7, 3, 5]))
    up = bool(rng.random() < 0.5)
    nodes = list(network.graph)
    if ends and rng.random() < 0.6:
        pair = ends[rng.integers(len(ends))]
        both = bool(rng.random() < 0.5)
        network.at(time, lambda: network.set_link(*pair, up=up, one_way=not both))
    else:
        node = nodes[rng.integers(len(nodes))]
        network.at(time, lambda: network.set_receiver(node, up=up))


def some_habits(rng: Rng, period: float) -> Habits:
    """Return an agent's habits; times are often shares of a round, so that many events coincide."""
    name = pick(rng, *HABITS)
    pauses = [period / 4, period / 2, period / 10, period, 0.37 * period, 1.2 * period]
    return Habits(
        name,
        count=int(rng.integers(1, 7)),
        period=period,
        pause=float(rng.choice(pauses)),
        timeout=float(rng.choice([0.0, *pauses])),
        keep_late=bool(rng.random() < 0.3),
        chance=float(rng.choice([0.0, 0.5, 1.0])),
        answers=bool(rng.random() < 0.5),
        background=bool(rng.random() < 0.15),
        looks=bool(rng.random() < 0.3),
    )


# --- a case -----------------------------------------------------------------------------------------------------------


class Case:
    """A network, its agents and its end time, all drawn from one seed."""

    network_of: Callable[[Rng], Network] = staticmethod(a_network)

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.network = self.network_of(rng)
        period = self.network.round_period
        self.habits = {node: some_habits(rng, period) for node in self.network.graph}
        self.until = pick(rng, None, None, None, 2 * period, 3.3 * period, lambda r: float(6 * period * r.random()))

    def play(
        self,
        watched: bool = False,
        trace: bool = False,
        looks_at: Sequence[float] = (),
        sample: float | None = None,
        workers: int = 1,
        order: Order | None = None,
    ) -> Played:
        """Run the network with new agents.

        ``watched``: use probes that read everything. ``looks_at``: additional times (s) of the probes. ``sample``: the
        interval between rows in seconds. ``workers``: the number of processes. ``order``: as in `Network.run`.
        """
        agents = {node: agent(habits) for node, habits in self.habits.items()}
        for time in looks_at:
            self.network.at(time, lambda: [len(agent.inbox) for agent in agents.values()].clear())
        settings: dict[str, Any] = {"until": self.until, "trace": trace, "sample": sample, "workers": workers}
        settings["order"] = order
        if watched:
            with looking_at_each_row():
                run = self.network.run(agents, [look], progress=lambda k: None, **settings)
        else:
            run = self.network.run(agents, **settings)
        return Played(self.network, agents, run, self.until, trace)


def look(agents: Mapping[Any, Noting]) -> Mapping[str, float]:
    """Read everything that a probe can see."""
    waiting = sum(len(agent.inbox) for agent in agents.values())
    return {"probe_waiting": waiting, "probe_now": max(agent.now + agent.round for agent in agents.values())}


def check_seed(seed: int) -> None:
    """Run the network of a seed in several ways and check that every law holds."""
    case = Case(seed)
    played = case.play(trace=True)
    check_books(played)
    check_messages(played)
    with suppress(BadInput):
        case.network.run(played.agents)
        raise AssertionError("agents that have run may not run again")
    # Running the same network again, or a new network with the same seed, must give the same run.
    watched = bool(seed % 3)
    if seed % 2:
        again = case.play(watched)
        assert played.run.ended_at == again.run.ended_at
        check_same(played, again)
    else:
        # A listener waits as long as events are scheduled, so additional probes would prolong its run.
        listens = any(habits.name == "listen" for habits in case.habits.values())
        times = [case.network.round_period * share for share in LOOKS] if watched and not listens else []
        check_same(played, Case(seed).play(watched, looks_at=times))


def check_sampled(seed: int) -> None:
    """Check that sampling rows at an interval does not change the run, and that the last row equals the totals."""
    plain, case = Case(seed).play(), Case(seed)
    share = float(np.random.default_rng(seed).choice([1, 0.5, 0.25, 0.3, 2, 0.1, 7]))
    sampled = case.play(watched=bool(seed % 2), sample=share * case.network.round_period)
    assert digest(sampled.run).split()[2:] == digest(plain.run).split()[2:]
    assert (sampled.run.trace_hash, sampled.run.ended_at) == (plain.run.trace_hash, plain.run.ended_at)
    for node, one in plain.agents.items():
        assert repr(one.notes) == repr(sampled.agents[node].notes), f"agent {node!r} noted something else"
    rows = sampled.run.rounds
    assert rows["round"].tolist() == list(range(1, len(rows) + 1))
    assert (rows["time_s"].diff().dropna() > 0).all()
    assert rows["time_s"].iloc[-1] == sampled.run.ended_at


def check_drawn(rng: Rng, check: Callable[[int], object]) -> None:
    """Run a check with a seed drawn from ``rng``; a failure names the seed."""
    seed = int(rng.integers(2**50))
    try:
        check(seed)
    except Exception as error:
        error.add_note(f"repeat with {check.__module__}.{check.__name__}({seed})")
        raise


def check_one(rng: Rng) -> None:
    """Check a random network."""
    check_drawn(rng, check_seed)


def digest(run: Run) -> str:
    """Return the trace hash, and digests of the tables of rounds and of links."""
    tables = (run.rounds, run.ledger.table(), run.ledger.senders_table())
    short = [hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()[:16] for table in tables]
    return " ".join([run.trace_hash, *short])


def hashes(seed: int, count: int) -> list[str]:
    """Return digests of ``count`` random networks drawn from ``seed``: of all events, frames and agents' records."""
    rng = np.random.default_rng(seed)
    return [whole_digest(Case(int(rng.integers(2**53))).play(trace=True)) for _ in range(count)]


def whole_digest(played: Played) -> str:
    """Return a digest of all results of a run."""
    trace, ledger = played.run.trace, played.run.ledger
    # Two copies of a frame that end at the same instant with different causes have no defined order, hence sorted.
    frames = sorted(zip(*(column.tolist() for column in frames_of(trace).columns.values()), strict=True))
    parts = (trace.table().to_csv(), frames, [heard.tolist() for heard in ledger.heard()])
    parts += ([agent.notes for agent in played.agents.values()],)
    return f"{digest(played.run)} {hashlib.sha256(repr(parts).encode()).hexdigest()}"
