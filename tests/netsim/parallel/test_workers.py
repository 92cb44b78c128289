"""A network on several workers gives the results and errors of a single process."""

import asyncio
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import AgentError, BadInput, Link, NetsimError, Network, Radio, Run, Stalled, latency, topology
from netsim.faults import Crash, Leave
from netsim.links import Reliability
from netsim.parallel import collect, local
from netsim.parallel.cluster import Member
from tests.command import on_the_other_core
from tests.fuzzers.workers import check_workers, of_events, of_rounds
from tests.parts import forked_workers, message_of, slow

LATE = Link(latency=latency.uniform(0.02, 0.07), loss=0.1)


class Average(netsim.Agent):
    """Averages with its neighbours."""

    def __init__(self, value: float, rounds: int = 12) -> None:
        self.value, self.count = np.full(3, value), rounds
        self.heard = 0

    async def run(self) -> None:
        async for _ in self.rounds(self.count):
            await self.broadcast("state", self.value)
            frames = await self.collect()
            self.heard += len(frames)
            self.value = sum((frame.payload for frame in frames), self.value) / (1 + len(frames))


class Waiting(netsim.Agent):
    """Waits for a frame that is never sent."""

    async def run(self) -> None:
        await self.inbox.get()


def averaged(workers: int, link: Link = LATE, agents: int = 12, **more: Any) -> Run:
    network = Network(topology.ring(agents), link, round_period=0.1, seed=4, faults=more.pop("faults", ()))
    return network.run({node: Average(float(node)) for node in network.graph}, workers=workers, **more)


def mean(agents: Mapping[Any, Any]) -> float:
    return float(np.mean([agent.value for agent in agents.values()]))


class Mean:
    """The same mean as a probe with a local part for each worker."""

    __name__ = "mean"

    def __call__(self, agents: Mapping[Any, Any]) -> float:
        return mean(agents)

    def local(self, agents: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the values of one worker's agents."""
        return {name: agent.value for name, agent in agents.items()}

    def combine(self, parts: Any) -> float:
        """Return the mean of all workers' values, summed in the order of the agents' names."""
        values = {name: value for part in parts for name, value in part.items()}
        return float(np.mean([values[name] for name in sorted(values)]))


# --- the same run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [3, slow(1)])
@pytest.mark.parametrize("make", [of_events, of_rounds, partial(of_events, reliable=True)])
@pytest.mark.parametrize("with_faults", [slow(False), True])
def test_random_networks_are_the_same_over_workers(make: Callable[..., Any], with_faults: bool, seed: int) -> None:
    for each in range(4 * seed, 4 * seed + 2):
        check_workers(make, each, with_faults=with_faults)


FRAGMENTS = Link(latency=0.01, rate=2000.0, mtu=16)


@pytest.mark.parametrize(
    ("workers", "link"),
    [slow(2, LATE), (5, LATE), (3, Link()), slow(12, Link()), (2, Link(latency=0.25)), (3, FRAGMENTS)],
)
def test_rounds_are_the_same_over_workers(workers: int, link: Link) -> None:
    # With 5 workers there are 5 agents, so that each worker has one.
    agents = 5 if workers == 5 else 12
    one, several = (averaged(each, link, agents, probes=[mean]) for each in (1, workers))
    assert one.trace_hash == several.trace_hash
    assert one.rounds.equals(several.rounds)
    assert one.ledger.table().equals(several.ledger.table())
    assert one.ledger.senders_table().equals(several.ledger.senders_table())
    for before, now in zip(one.agents.values(), several.agents.values(), strict=True):
        assert (before.value == now.value).all()
        assert before.heard == now.heard


class Named(netsim.Agent):
    """Sends messages of kinds that only a few agents use, and of one common kind."""

    async def run(self) -> None:
        for kind in (f"kind {self.name % 3}", "all", "last"):
            for other in reversed(self.neighbors):
                await self.send(other, kind, 1)


def test_tables_have_one_order_over_workers() -> None:
    """Rows follow the graph's order of agents and the names of kinds, not the order of occurrence in a process."""
    graph = nx.relabel_nodes(topology.ring(6), {i: (5 * i) % 6 for i in range(6)})

    def ledger(workers: int) -> Any:
        return Network(graph, LATE).run({node: Named() for node in graph}, workers=workers).ledger

    one, several = ledger(1), ledger(3)
    place = {name: place for place, name in enumerate(graph)}
    for by in (["sender", "receiver", "kind"], ["kind", "receiver"], ["receiver"], ["kind"], []):
        table = one.table(by)
        assert table.equals(several.table(by)), by
        rows = table[by].values.tolist()
        assert rows == sorted(rows, key=lambda row: [place.get(value, value) for value in row])
    assert one.senders_table().equals(several.senders_table())
    rows = one.senders_table()[["agent", "kind"]].values.tolist()
    assert rows == sorted(rows, key=lambda row: (place[row[0]], row[1]))


@pytest.mark.slow
def test_spawned_workers_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_method", lambda: "spawn")
    assert averaged(2).trace_hash == averaged(1).trace_hash


def test_both_cores_do_the_same_over_workers() -> None:
    code = "from tests.netsim.parallel.test_workers import averaged; print(averaged(3).trace_hash)"
    assert on_the_other_core(code).strip() == averaged(1).trace_hash


def test_the_callers_agents_hold_the_final_states() -> None:
    network = Network(topology.ring(4), LATE, round_period=0.1)
    agents = {node: Average(float(node)) for node in network.graph}
    before = {node: agent.value for node, agent in agents.items()}
    run = network.run(agents, workers=2)
    assert all(run.agents[node] is agent for node, agent in agents.items())
    assert all((agent.value != before[node]).any() for node, agent in agents.items())
    assert agents[1].name == 1
    assert agents[1].neighbors == (0, 2)
    assert "already run" in message_of(lambda: network.run(agents), BadInput)
    assert message_of(lambda: agents[1].inbox).startswith("agent 1 runs in a worker, which has its inbox")


def test_objects_that_do_not_change_stay_the_callers() -> None:
    class Holding(Average):
        def __init__(self, value: float) -> None:
            super().__init__(value)
            self.table = np.arange(10.0)
            self.function = lambda x: x

    network = Network(topology.ring(4), LATE, round_period=0.1)
    agents = {node: Holding(float(node)) for node in network.graph}
    tables = [agent.table for agent in agents.values()]
    network.run(agents, workers=2)
    assert all(agent.table is table for agent, table in zip(agents.values(), tables, strict=True))
    assert agents[0].function(3) == 3


def test_what_cannot_be_pickled_stays_in_its_worker() -> None:
    class Closing(Average):
        async def run(self) -> None:
            self.made = lambda x: x
            await super().run()

    network = Network(topology.ring(4), LATE, round_period=0.1)
    agents = {node: Closing(float(node)) for node in network.graph}
    network.run(agents, workers=2)
    message = message_of(lambda: agents[0].made(3))
    assert message.startswith(
        "agent 0: its attribute 'made' (function) stayed in its worker, because it cannot be pickled"
    )


def test_a_probe_may_be_measured_in_parts() -> None:
    whole, parts = averaged(2, probes=[mean]), averaged(2, probes=[Mean()])
    assert whole.rounds.equals(parts.rounds)


def test_states_are_watched_over_workers() -> None:
    def watched(workers: int) -> str:
        network = Network(topology.ring(6), LATE, round_period=0.1)
        network.watch({"heard": "heard"})
        run = network.run({node: Average(float(node)) for node in network.graph}, workers=workers)
        table = run.states.sort_values(["time_s", "agent", "sent"], kind="stable")
        return str(table.to_csv(index=False))

    assert watched(1) == watched(3)


# --- refusals ---------------------------------------------------------------------------------------------------------


class Answering(Average):
    def answer(self, frame: netsim.Frame) -> int:
        return 1


@pytest.mark.parametrize(
    ("settings", "more", "message"),
    [
        (
            {"medium": Radio(), "link": Link(rate=1e6)},
            {},
            "workers = 2: must be 1 on a netsim.Radio: what agents share on the air",
        ),
        ({}, {"clock": "wall"}, "workers = 2: must be 1 with clock, which runs in real time"),
        ({"inbox_limit": 3}, {}, "workers = 2: must be 1 for inbox_limit over links without latency"),
        (
            {"link": Link(reliability=Reliability("nack"))},
            {},
            "workers = 2: must be 1 for reliability = 'nack' over links",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(settings: dict[str, Any], more: dict[str, Any], message: str) -> None:
    network = Network(topology.ring(4), settings.pop("link", None), **settings)
    agents = {node: Average(float(node)) for node in network.graph}
    assert message_of(lambda: network.run(agents, workers=2, **more), BadInput).startswith(message)


@pytest.mark.parametrize(("workers", "message"), [(0, "workers = 0: must be"), (5, "workers = 5: must be from 1 to 4")])
def test_the_number_of_workers_is_checked(workers: int, message: str) -> None:
    network = Network(topology.ring(4), LATE)
    agents = {node: Average(float(node)) for node in network.graph}
    assert message_of(lambda: network.run(agents, workers=workers), BadInput).startswith(message)


def test_frames_without_latency_are_read_by_rounds_only() -> None:
    network = Network(topology.ring(4))
    message = message_of(lambda: network.run({node: Waiting() for node in network.graph}, workers=2))
    assert "agent 0 reads frames as they arrive, over links without latency" in message
    answering = {node: Answering(1.0) for node in network.graph}
    assert "which answers requests, over links" in message_of(lambda: network.run(answering, workers=2), BadInput)


def test_an_agent_that_catches_a_refusal_does_not_go_on() -> None:
    """If the agent continued, it would behave differently than in a single process."""

    class Catching(Waiting):
        async def run(self) -> None:
            with suppress(Exception):
                await super().run()

    network = Network(topology.ring(4))
    message = message_of(lambda: network.run({node: Catching() for node in network.graph}, workers=2))
    assert re.match(r"agent 0 raised AgentError at 0 s \(test_workers.py, line \d+\): agent 0 reads frames", message)


@pytest.mark.parametrize("caught", [(), BadInput])
def test_an_agent_cannot_change_the_network_of_all(caught: Any) -> None:
    network = Network(topology.ring(4), LATE)

    class Cutting(netsim.Agent):
        async def run(self) -> None:
            with suppress(caught):
                network.set_link(0, 1, up=False)

    message = message_of(lambda: network.run({node: Cutting() for node in network.graph}, workers=2))
    assert "Network.set_link: must be called before the run, or by an action of Network.at, with workers" in message


# --- errors -----------------------------------------------------------------------------------------------------------


class Failing(Average):
    async def run(self) -> None:
        async for k in self.rounds(9):
            await self.broadcast("state", self.value)
            await self.collect()
            if k == 3 and self.name == 7:
                raise ValueError("seven")


def test_an_agents_error_is_the_same_over_workers() -> None:
    def failed(workers: int) -> BaseException:
        network = Network(topology.ring(9), LATE, round_period=0.1)
        with pytest.raises(AgentError) as caught:
            network.run({node: Failing(float(node)) for node in network.graph}, workers=workers)
        return caught.value

    one, several = failed(1), failed(3)
    assert str(one) == str(several)
    assert isinstance(several.__cause__, ValueError)
    assert several.__cause__.args == ("seven",)
    rows, partial_rows = one.run.rounds, several.run.rounds  # type: ignore[attr-defined]
    assert rows["round"].tolist() == partial_rows["round"].tolist()
    table = several.run.ledger.table()  # type: ignore[attr-defined]
    ends = table[[*several.run.ledger.causes, "in_flight"]].sum(axis=1)  # type: ignore[attr-defined]
    assert (table["offered"] + table["duplicated"] == ends).all()


def test_a_standstill_names_the_agents_of_all_workers() -> None:
    class Deaf(netsim.Agent):
        async def run(self) -> None:
            await asyncio.get_running_loop().create_future()

    network = Network(topology.ring(8), LATE, round_period=0.1)
    one = message_of(lambda: network.run({node: Deaf() for node in network.graph}), Stalled)
    several = message_of(lambda: network.run({node: Deaf() for node in network.graph}, workers=3), Stalled)
    assert one == several
    assert "and 3 more" in one


def test_a_probes_error_ends_the_run() -> None:
    def broken(agents: Mapping[Any, Any]) -> float:
        raise ValueError("no")

    message = message_of(lambda: averaged(2, probes=[broken]), NetsimError)
    assert message == message_of(lambda: averaged(1, probes=[broken]), NetsimError)


def test_faults_happen_in_all_workers() -> None:
    faults = [Crash(2, at=0.25, until=0.55), Leave(9, at=0.7)]
    one, several = averaged(1, faults=faults), averaged(3, faults=faults)
    assert one.trace_hash == several.trace_hash
    assert one.ledger.table().equals(several.ledger.table())


# --- processes that end early -----------------------------------------------------------------------------------------


class Lethal(Average):
    """Kills its worker process after some messages."""

    def __init__(self, value: float, when: float, signal_number: int = signal.SIGKILL) -> None:
        super().__init__(value, 50)
        self.when, self.number = when, signal_number

    async def run(self) -> None:
        if self.when:
            task = asyncio.create_task(self.die())
            self.task = task
        await super().run()

    async def die(self) -> None:
        await asyncio.sleep(self.when)
        os.kill(os.getpid(), self.number)
        time.sleep(0.01)


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 10))])
def test_a_worker_that_is_killed_ends_the_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    victim, when = int(rng.integers(8)), float(rng.uniform(0.01, 4.5))
    network = Network(topology.ring(8), LATE, round_period=0.1)
    agents = {node: Lethal(float(node), when if node == victim else 0.0) for node in network.graph}
    before = {process.pid for process in multiprocessing.active_children()}
    with pytest.raises(NetsimError) as caught:
        network.run(agents, probes=[mean], workers=3)
    message = str(caught.value)
    assert message.startswith("worker ")
    assert "of 3 (process " in message
    assert message.endswith("was killed by SIGKILL")
    rows = caught.value.run.rounds  # type: ignore[attr-defined]
    assert len(rows) <= when / 0.1 + 1
    assert {process.pid for process in multiprocessing.active_children()} <= before


def test_a_worker_that_someone_else_terminates_ends_the_run() -> None:
    network = Network(topology.ring(8), LATE, round_period=0.1)
    agents = {node: Lethal(float(node), 1.23 if node == 3 else 0.0, signal.SIGTERM) for node in network.graph}
    before = {process.pid for process in multiprocessing.active_children()}
    with pytest.raises(NetsimError, match=r"worker \d of 3 was ended by SIGTERM") as caught:
        network.run(agents, probes=[mean], workers=3)
    assert 0 < len(caught.value.run.rounds) < 50  # type: ignore[attr-defined]
    assert {process.pid for process in multiprocessing.active_children()} <= before


def test_a_probe_that_reads_a_clock_is_told_where_it_is() -> None:
    def clock(agents: Mapping[Any, Any]) -> float:
        return float(agents[0].now)

    with pytest.raises(
        NetsimError, match=r"probe clock raised AgentError after round 1: .*workers, which have their clocks"
    ):
        averaged(2, probes=[clock])


class Nested(netsim.Agent):
    """Runs a second network on several workers inside its own run."""

    async def run(self) -> None:
        averaged(2)


def test_a_worker_starts_no_workers() -> None:
    network = Network(topology.ring(4), LATE)
    with pytest.raises(AgentError, match="workers = 2: must be 1 in a process that may not start others"):
        network.run({node: Nested() for node in network.graph}, workers=2)


class Passing(netsim.Agent):
    """Forwards each frame on arrival."""

    async def run(self) -> None:
        await self.broadcast("news", 0)
        async for frame in self.inbox:
            if frame.payload < 5:
                await self.broadcast("news", frame.payload + 1)


def test_measured_delays_are_a_latency() -> None:
    network = Network(topology.ring(8), Link(latency=latency.trace([0.03, 0.01, 0.2])), seed=3)

    def played(workers: int) -> Run:
        return network.run({node: Passing() for node in network.graph}, until=2.0, workers=workers)

    one, several = played(1), played(3)
    assert one.ledger.totals()[0] > 100
    assert one.trace_hash == several.trace_hash
    assert one.ledger.table().equals(several.ledger.table())


def working(process: "subprocess.Popen[str]", count: int) -> list[str]:
    """Return the command's worker processes, once each has used half a second of processor time."""
    children: list[str] = []
    while len(children) < count or min(map(used, children)) < 0.5:
        time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return children


def used(process: str) -> float:
    """Return the processor time (s) that a process has used."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process(number: int, tmp_path: Path) -> None:
    words = [sys.executable, "-c", "from netsim.studies.cli import main; main()"]
    words += [
        "run",
        "coke",
        "--rounds",
        "100000",
        "--workers",
        "2",
        "--latency",
        "0.01",
        "--out",
        str(tmp_path / "run"),
    ]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        children = working(process, 2)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 143), err
    assert "marked partial" in err
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


# --- a worker that is stopped -----------------------------------------------------------------------------------------


class Stopped(Average):
    """Stops its worker process at a given time by SIGSTOP."""

    def __init__(self, value: float, when: float | None = None) -> None:
        super().__init__(value)
        self.when = when

    async def run(self) -> None:
        if self.when is not None:
            asyncio.get_running_loop().call_later(self.when, os.kill, os.getpid(), signal.SIGSTOP)
        await super().run()


def stopping(workers: int = 3) -> Run:
    network = Network(topology.ring(12), LATE, round_period=0.1, seed=4)
    # With one worker nothing is stopped, because the process would be pytest's.
    at = 0.55 if workers > 1 else 1e9
    return network.run({i: Stopped(float(i), at if i == 3 else 1e9) for i in network.graph}, workers=workers)


needs_waitid = pytest.mark.skipif(not hasattr(os, "waitid"), reason="the system does not tell who is stopped")


def on_silence(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> list[str]:
    """Call ``act`` with the process id for each warning of a stopped worker; return the list of warnings."""
    told: list[str] = []

    def show(message: Warning | str, *_: Any) -> None:
        # Newer Pythons also warn when a process with threads forks, and xdist has threads.
        if str(message).startswith("worker "):
            told.append(str(message))
            act(int(told[-1].rpartition(" ")[2]))

    monkeypatch.setattr(collect, "SILENCE", 0.1)
    monkeypatch.setattr(warnings, "showwarning", show)
    warnings.simplefilter("always")
    return told


@needs_waitid
def test_a_stopped_worker_is_named_and_may_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        told = on_silence(monkeypatch, lambda number: os.kill(number, signal.SIGCONT))
        run = stopping()
    # On a busy machine, the same warning may be repeated before the worker continues.
    (text,) = set(told)
    number = text.rpartition(" ")[2]
    assert re.fullmatch(
        rf"worker \d of 3 \(process {number}\) is stopped, and the run waits for it: kill -CONT {number}", text
    )
    assert run.trace_hash == stopping(1).trace_hash


@needs_waitid
def test_an_interrupt_ends_a_run_that_waits_for_a_stopped_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    with warnings.catch_warnings():
        on_silence(monkeypatch, interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            stopping()
    assert not multiprocessing.active_children()
    # The counts of the two other workers are in the result.
    assert len(caught.value.run.costs) == 2  # type: ignore[attr-defined]


def stop_again(worker: int, named: threading.Event) -> None:
    """Keep a worker stopped, with short pauses, until it is named: it may be stopped in the middle of a message."""
    while not named.wait(15.0):
        os.kill(worker, signal.SIGCONT)
        time.sleep(0.2)
        os.kill(worker, signal.SIGSTOP)


@pytest.mark.slow
@needs_waitid
def test_netsim_run_names_a_stopped_worker_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "from netsim.studies.cli import main; main()", "run", "coke", "--rounds", "100000"]
    words += ["--workers", "3", "--latency", "0.01", "--out", str(tmp_path / "run")]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        children, named = working(process, 3), threading.Event()
        os.kill(int(children[1]), signal.SIGSTOP)
        threading.Thread(target=stop_again, args=(int(children[1]), named), daemon=True).start()
        assert process.stderr is not None
        for line in process.stderr:
            if f"worker 2 of 3 (process {children[1]}) is stopped" in line:
                break
        named.set()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


# --- a cluster --------------------------------------------------------------------------------------------------------


def test_a_member_of_a_cluster_gives_all_messages_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(assignment: Any, mesh: Any, send: Any, started: Any) -> None:
        for number in range(5000):
            send("row", number)
        send("end", assignment)

    monkeypatch.setattr("netsim.parallel.cluster.work", work)
    monkeypatch.setattr("netsim.parallel.cluster._own_address", lambda: "127.0.0.1")

    async def taken() -> list[Any]:
        member = Member(0, pickle.dumps("assigned"), b"key")
        await member.begin([member.address()])
        found: list[Any] = []
        while not found or found[-1][0] == "row":
            found += await member.take()
        return found

    assert asyncio.run(taken()) == [*(("row", number) for number in range(5000)), ("end", "assigned")]


@pytest.mark.slow
def test_a_dask_cluster_does_the_same() -> None:
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None}
    with forked_workers(), distributed.LocalCluster(**settings) as cluster:
        one = averaged(1, probes=[mean])
        for workers in (2, 3):
            several = averaged(workers, probes=[mean], dask=cluster.scheduler_address)
            assert one.trace_hash == several.trace_hash
            assert one.rounds.equals(several.rounds)
            assert one.ledger.table().equals(several.ledger.table())
        network = Network(topology.ring(9), LATE, round_period=0.1)
        failing = {node: Failing(float(node)) for node in network.graph}
        message = message_of(lambda: network.run(failing, workers=2, dask=cluster.scheduler_address))
        assert message.startswith("agent 7 raised ValueError in round 3")
