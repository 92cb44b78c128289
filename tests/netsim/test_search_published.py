"""Published mistakes, reimplemented as agents: a search finds each mistake, and nothing in its repaired version."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import networkx as nx
import pytest

from netsim import Agent, Link, Network, topology
from netsim.agents.classics import Raft
from netsim.checkers import invoke, linearizable, no_lost_update
from netsim.testing import Finding, search

# A power of two, so that sums of equal numbers of steps are exactly equal.
STEP = 2.0**-6


class Server(Agent):
    """Answers each request by its method ``on_…``."""

    def answer(self, frame: Any) -> Any:
        return getattr(self, f"on_{frame.kind}")(*frame.payload)

    async def run(self) -> None:
        """Wait for requests until the run ends."""


# --- a cache's stale set ----------------------------------------------------------------------------------------------


class Cache(Server):
    """A look-aside cache (node 0) in front of a database (node 1); a client that misses may get a lease token.

    Nishtala et al., "Scaling Memcache at Facebook", NSDI 2013, section 3.2.1: a web server reads a value from the
    database; meanwhile another server updates the value and deletes it from the cache; then the first server writes the
    stale value into the cache. The paper's repair is leases, which a delete invalidates.
    """

    def __init__(self, leases: bool) -> None:
        self.leases, self.values, self.tokens, self.issued = leases, dict[str, int](), set[int](), 0

    def on_get(self, key: str) -> tuple[Any, int]:
        if key not in self.values:
            self.issued += 1
            self.tokens.add(self.issued)
        return self.values.get(key), self.issued

    def on_set(self, key: str, value: int, token: int) -> None:
        if not self.leases or token in self.tokens:
            self.values[key] = value

    def on_delete(self, key: str) -> None:
        self.values.pop(key, None)
        self.tokens.clear()


class Database(Server):
    def __init__(self) -> None:
        self.value = 0

    def on_read(self) -> int:
        return self.value

    def on_write(self, value: int) -> None:
        self.value = value


class WebServer(Agent):
    """Reads and writes at given times; a plan has entries (steps, value to write or None for a read)."""

    def __init__(self, plan: list[tuple[int, int | None]]) -> None:
        self.plan = plan

    async def run(self) -> None:
        for steps, value in self.plan:
            await asyncio.sleep(steps * STEP - self.now)
            if value is None:
                with invoke(self, "read") as read:
                    read.ok(await self.read())
            else:
                with invoke(self, "write", value) as write:
                    await self.request(1, "write", (value,))
                    await self.request(0, "delete", ("x",))
                    write.ok()

    async def read(self) -> int:
        found, token = (await self.request(0, "get", ("x",))).payload
        if found is None:
            found = (await self.request(1, "read", ())).payload
            await self.request(0, "set", ("x", found, token))
        return int(found)


def cached(*, leases: bool, seed: int = 1) -> Any:
    graph = nx.Graph([(server, web) for server in (0, 1) for web in (2, 3)])
    agents = {0: Cache(leases), 1: Database(), 2: WebServer([(0, None), (30, None)]), 3: WebServer([(2, 1)])}
    return Network(graph, Link(latency=STEP), seed=seed), agents, {"until": 1.0}


# --- two brokers of a log ---------------------------------------------------------------------------------------------


class Keys(Server):
    """Maelstrom's service lin-kv, a linearizable key–value store."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def on_read(self, key: str) -> Any:
        return self.values.get(key)

    def on_write(self, key: str, value: Any) -> None:
        self.values[key] = value

    def on_cas(self, key: str, old: Any, new: Any) -> bool:
        if self.values.get(key) != old:
            return False
        self.values[key] = new
        return True


class Broker(Agent):
    """A node of a log that uses the service at node 0: it takes the next offset, and stores a message there.

    Gossip Glomers, challenge 5b (fly.io/dist-sys/5b, 2023), on Maelstrom 0.2: its workload "kafka" reports a lost write
    if two messages get one offset. That happens if a node reads the offset and then writes the next one; Maelstrom's
    demo (demo/clojure/kafka.clj, commit 47a0b71) uses compare-and-set.
    """

    def __init__(self, compares: bool, times: list[int]) -> None:
        self.compares, self.times = compares, times

    async def run(self) -> None:
        for steps in self.times:
            await asyncio.sleep(steps * STEP - self.now)
            with invoke(self, "add", 1) as send:
                await self.request(0, "write", (f"message {await self.offset()}", (self.name, steps)))
                send.ok()

    async def offset(self) -> int:
        while True:
            found = (await self.request(0, "read", ("offset",))).payload or 0
            if not self.compares:
                await self.request(0, "write", ("offset", found + 1))
                return int(found)
            if (await self.request(0, "cas", ("offset", found or None, found + 1))).payload:
                return int(found)


def logged(*, compares: bool, seed: int = 1) -> Any:
    agents = {0: Keys(), 1: Broker(compares, [0, 20]), 2: Broker(compares, [2, 30])}
    return Network(topology.star(3), Link(latency=STEP), seed=seed), agents, {"until": 1.0}


def messages(agents: Any) -> int:
    return sum(key.startswith("message") for key in agents[0].values)


# --- reads by whoever believes to lead --------------------------------------------------------------------------------


class Etcd(Raft):
    """A register on Raft; its clients ask any node that believes to be the leader.

    etcd-io/etcd issue 741, 18 April 2014, shortly before etcd 0.4.0: a leader answers reads from its own state, even
    after the others have elected a new leader. etcd 2.0 still does so without ``quorum=true`` (issue 2837), which makes
    each read an entry of the log.
    """

    def __init__(self, quorum: bool) -> None:
        super().__init__()
        self.asks_quorum = quorum

    async def run(self) -> None:
        self.commands = []
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self.client())

    async def client(self) -> None:
        for number in range(100):
            await asyncio.sleep(0.1 * self.rng.random())
            if self.role != "leader":
                continue
            value = (self.name, number)
            if self.rng.random() < 0.5:
                with invoke(self, "write", value) as write:
                    await self.committed(("write", value))
                    write.ok()
            else:
                with invoke(self, "read") as read:
                    upto = await self.committed(("read", value)) if self.asks_quorum else self.commit
                    writes = [command[1] for _, command in self.log[1 : upto + 1] if command[0] == "write"]
                    read.ok(writes[-1] if writes else None)

    async def committed(self, command: Any) -> int:
        """Wait until a command is committed, and return its index in the log."""
        self.commands.append((self.now, command))
        while True:
            await asyncio.sleep(0.01)
            for place in range(1, self.commit + 1):
                if self.log[place][1] == command:
                    return place


def replicated(*, quorum: bool, seed: int = 1) -> Any:
    graph = topology.complete(3)
    return Network(graph, Link(latency=0.01), seed=seed), {i: Etcd(quorum) for i in graph}, {"until": 3.0}


# --- a lease that is overrun ------------------------------------------------------------------------------------------


class Storage(Server):
    """A counter with a lock that expires after half a second; with fencing, it also checks the lock's token.

    Kleppmann, "How to do distributed locking", 8 February 2016: a client that pauses for longer than its lease
    overwrites the next client's write, as in early versions of HBase. With increasing tokens, the storage refuses such
    a write.
    """

    def __init__(self, fences: bool) -> None:
        self.fences, self.count, self.token, self.free_at = fences, 0, 0, 0.0

    def on_acquire(self) -> int | None:
        if self.now < self.free_at:
            return None
        self.token, self.free_at = self.token + 1, self.now + 0.5
        return self.token

    def on_release(self, token: int) -> None:
        if token == self.token:
            self.free_at = 0.0

    def on_read(self) -> int:
        return self.count

    def on_write(self, count: int, token: int) -> bool:
        if self.fences and token != self.token:
            return False
        self.count = count
        return True


class Worker(Agent):
    async def run(self) -> None:
        for _ in range(4):
            await asyncio.sleep(self.rng.random())
            while (token := (await self.request(0, "acquire", ())).payload) is None:
                await asyncio.sleep(0.1)
            with invoke(self, "add", 1) as add:
                count = (await self.request(0, "read", ())).payload
                done = (await self.request(0, "write", (count + 1, token))).payload
                (add.ok if done else add.failed)()
            await self.request(0, "release", (token,))


def leased(*, fences: bool, seed: int = 1) -> Any:
    agents = {0: Storage(fences), 1: Worker(), 2: Worker(), 3: Worker()}
    return Network(topology.star(4), Link(latency=0.01), seed=seed), agents, {"until": 60.0}


# --- all --------------------------------------------------------------------------------------------------------------

PAUSES: dict[str, Any] = {"until": 3.0, "stragglers": 3, "duration": (0.5, 2.0), "delay": 1.0}
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, dict[str, Any]]] = {
    "stale set": (partial(cached, leases=False), partial(cached, leases=True), linearizable(initial=0), {}),
    "two brokers": (partial(logged, compares=False), partial(logged, compares=True), no_lost_update(messages), {}),
    "leader's read": (
        partial(replicated, quorum=False),
        partial(replicated, quorum=True),
        linearizable(),
        {"until": 2.5, "partitions": 2, "cuts": 2, "duration": (0.2, 1.0)},
    ),
    "lease": (
        partial(leased, fences=False),
        partial(leased, fences=True),
        no_lost_update(lambda agents: agents[0].count),
        PAUSES,
    ),
}


def found_in(case: str, **faults: Any) -> Finding | None:
    wrong, _, invariant, own = CASES[case]
    return search(wrong, invariant, seeds=range(100), faults={**own, **faults} or None, order=not own)


@pytest.mark.parametrize("case", CASES)
def test_a_published_mistake_is_found(case: str) -> None:
    wrong, right, invariant, faults = CASES[case]
    found = found_in(case)
    assert found is not None
    if faults:
        assert 1 <= len(found.faults) <= 2
    else:
        # In asyncio's order no seed shows the mistake; one change of order causes it.
        assert len(found.order) == 1
        assert search(wrong, invariant, seeds=range(20)) is None
    assert search(right, invariant, seeds=range(found.seed + 1), faults=faults or None, order=True) is None


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_repairs_a_published_mistake_stands_many_seeds(case: str) -> None:
    _, right, invariant, faults = CASES[case]
    assert search(right, invariant, seeds=range(300), faults=faults or None, order=True) is None


def test_a_lease_is_overrun_only_by_delays_of_its_size() -> None:
    assert found_in("lease", delay=0.1) is None
