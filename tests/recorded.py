"""Real runs as the page of a replay takes them: what was sent and how it ended, joined from a run's trace."""

from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

import netsim
from netsim import Link, Network, Run, latency, loss, topology
from netsim.count.records import ALL_CAUSES, key_shift

Columns = dict[str, NDArray[Any]]


class Average(netsim.Agent):
    """Averages with its neighbours, and answers some of them."""

    def __init__(self, rounds: int) -> None:
        self.rounds_left, self.value = rounds, 0.0

    async def run(self) -> None:
        """Speak and listen, round by round."""
        self.value = float(self.rng.normal())
        async for number in self.rounds(self.rounds_left):
            await self.broadcast("state", self.value)
            heard = [frame for frame in await self.collect() if frame.kind == "state"]
            self.value = sum((float(frame.payload) for frame in heard), self.value) / (1 + len(heard))
            if heard and number % 3 == 0:
                await self.send(heard[0].sender, "thanks", number)


def averaging(agents: int, rounds: int, lost: float = 0.05, degree: float = 6.0) -> tuple[dict[str, Any], Columns]:
    """Run averaging on a random geometric graph; return what `netsim.replay.html.html` takes."""
    graph = topology.random_geometric(agents, radius=(degree / agents / np.pi) ** 0.5 * 1.15 + 0.08, seed=3)
    link = Link(latency=latency.uniform(0.02, 0.105), loss=loss.bernoulli(lost), rate=250e3)
    rows: list[dict[Any, float]] = []

    def probe(running: Any) -> dict[str, float]:
        rows.append({name: agent.value for name, agent in running.items()})
        values = np.array(list(rows[-1].values()))
        return {"spread": float(values.std()), "mean": float(values.mean())}

    network = Network(graph, link, round_period=0.1, seed=7)
    run = network.run({name: Average(rounds) for name in graph}, [probe], trace=True)
    meta, columns = recorded(run, graph, network.round_period)
    table = run.rounds
    meta["states"] = {"value": {"times": table["time_s"].tolist(), "values": [list(row.values()) for row in rows]}}
    shown = ["spread", "mean", "delivered", "lost"]
    meta["curves"] = {"x": table["time_s"].tolist(), "columns": {name: table[name].tolist() for name in shown}}
    return meta, columns


def recorded(run: Run, graph: Any, round_period: float) -> tuple[dict[str, Any], Columns]:
    """Return a run's meta data and its link messages."""
    trace, agents = run.trace, list(graph)
    columns = columns_of(trace, round_period)
    ledger = run.ledger.table(by=["kind"])
    counts = {cause: int(ledger[cause].sum()) for cause in ALL_CAUSES if cause in ledger}
    held = nx.get_node_attributes(graph, "pos")
    places = held or nx.spring_layout(graph, seed=1)
    meta = {
        "title": "averaging, with loss",
        "command": "netsim run averaging --loss 0.05 --trace",
        "versions": {"netsim": netsim.__version__, "numpy": np.__version__},
        "agents": [str(name) for name in agents],
        "positions": [[float(x) for x in places[name]] for name in agents],
        "has_positions": bool(held),
        "links": [[agents.index(i), agents.index(j)] for i, j in graph.edges],
        "round_period": round_period,
        "ended_at": run.ended_at,
        "kinds": trace.kinds,
        "causes": list(ALL_CAUSES),
        "counts": counts,
        "total": len(columns["start"]),
        "shown": len(columns["start"]),
        "omitted": "",
        "states": {},
        "curves": {"x": [], "columns": {}},
        "notes": ["A test."],
    }
    return meta, columns


def columns_of(trace: netsim.Trace, round_period: float) -> Columns:
    """Return the events of a trace on plain links: a frame departs when it is sent."""
    sent, exits = trace._sent, trace._exits
    shift = key_shift(len(trace._senders))
    link, number = exits["key"] >> shift, exits["key"] & ((1 << shift) - 1)
    senders = trace._senders[link]
    # A transmission by its sender and number.
    places = {(int(a), int(b)): row for row, (a, b) in enumerate(zip(sent["sender"], sent["number"], strict=True))}
    row = np.array([places[key] for key in zip(senders.tolist(), number.tolist(), strict=True)], dtype=int)
    start = sent["time"][row]
    columns: Columns = {
        "start": start,
        "depart": start.copy(),
        "end": np.maximum(exits["time"], start),
        "sender": senders.astype(np.int32),
        "receiver": trace._receivers[link].astype(np.int32),
        "kind": exits["kind"].astype(np.int16),
        "cause": exits["cause"].astype(np.int16),
        "round": (start / round_period + 1e-9).astype(np.int32) + 1,
        "bits": sent["each"][row],
        "reply": (sent["kind"][row] == 1).astype(np.uint8),
        "number": number,
    }
    order = np.lexsort((columns["receiver"], number, senders, start))
    return {name: column[order] for name, column in columns.items()}
