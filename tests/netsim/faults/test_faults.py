"""Faults occur at their times, at the nodes that they name, and change nothing else."""

import asyncio
import contextlib
import dataclasses
import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import AgentError, BadInput, Faults, Link, Network, Stalled, latency, testing, topology
from netsim.faults import ClockSkew, Crash, Fault, Jitter, Join, Leave, LinkDown, Partition, Straggler
from netsim.faults.injector import FaultInjector
from netsim.testing import Actor, Listener
from tests.fuzzers.faults import COUNTS, check_faulty, check_slow_clocks
from tests.parts import every, slow


class Talker(netsim.Agent):
    """Broadcasts its name in each round, and records its rounds and the senders heard."""

    def __init__(self, count: int = 10) -> None:
        self.count = count
        self.lives = 0
        self.rounds_of: list[int] = []
        self.heard: dict[int, list[Any]] = {}

    async def run(self) -> None:
        self.lives += 1
        async for k in self.rounds(self.count):
            self.rounds_of.append(k)
            await self.broadcast("hello", k)
            self.heard[k] = sorted(frame.sender for frame in await self.collect())


def talk(faults: Any, nodes: int = 4, link: Link | None = None, **more: Any) -> tuple[dict[Any, Talker], netsim.Run]:
    graph = topology.complete(nodes)
    agents = {node: Talker() for node in graph}
    network = Network(graph, Link(latency=0.1) if link is None else link, seed=1, faults=faults, **more)
    return agents, network.run(agents, trace=True)


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_crash_with_its_state_kept() -> None:
    agents, run = talk([Crash(0, at=2.5, until=6.5, keeps_state=True)])
    assert agents[0].lives == 2
    # Node 0 restarts during round 7, joins the next round, and ends together with the other nodes.
    assert agents[0].rounds_of == [1, 2, 3, 8, 9, 10]
    assert run.ended_at == 10
    # Node 0 fails in round 3, after its broadcast of that round.
    assert [0 in agents[1].heard[k] for k in range(1, 11)] == [k in (1, 2, 3, 8, 9, 10) for k in range(1, 11)]
    table = run.ledger.table("receiver")
    down = dict(zip(table["receiver"], table["receiver_down"], strict=True))
    # Three neighbours send in rounds 4, 5 and 6. The frames of round 7 arrive at 6.1 s, when node 0 is still down.
    assert down == {0: 12, 1: 0, 2: 0, 3: 0}


def test_a_crash_without_its_state_begins_as_before_the_run() -> None:
    agents, _ = talk([Crash(0, at=2.5, until=6.5)])
    assert agents[0].lives == 1
    assert agents[0].rounds_of == [8, 9, 10]
    assert sorted(agents[0].heard) == [8, 9, 10]


def test_a_node_may_fail_again_and_again() -> None:
    agents, _ = talk([Crash(0, at=k + 0.5, until=k + 0.7, keeps_state=True) for k in range(9)])
    assert agents[0].lives == 10
    # Node 0 fails after its broadcast and restarts before the round closes, so it receives frames only in the last
    # round.
    assert agents[0].rounds_of == list(range(1, 11))
    assert list(agents[0].heard) == [10]
    assert all(0 in agents[1].heard[k] for k in range(1, 11))


def test_failures_that_overlap_end_with_the_last() -> None:
    agents, _ = talk([Crash(0, at=1.5, until=4.5, keeps_state=True), Crash(0, at=3.5, until=7.5)])
    assert agents[0].rounds_of == [9, 10]
    agents, _ = talk([Crash(0, at=1.5, until=7.5, keeps_state=True), Crash(0, at=3.5)])
    assert agents[0].rounds_of == [1, 2]


def test_leaving_and_joining() -> None:
    agents, run = talk([Leave(0, at=4.0), Join(1, at=3.0)])
    assert agents[0].rounds_of == [1, 2, 3, 4]
    # Node 0 fails at 4 s, just before round 4 closes at the same instant.
    assert sorted(agents[0].heard) == [1, 2, 3]
    assert agents[1].rounds_of == list(range(4, 11))
    assert run.ended_at == 10


def test_a_run_ends_when_all_that_are_left_have_ended() -> None:
    _, run = talk([Leave(node, at=2.5) for node in range(4)])
    assert run.ended_at == 2.5
    _, run = talk([Crash(0, at=2.5, until=30.5)])
    # When the node restarts, no rounds are left.
    assert run.ended_at == 30.5


def test_what_a_node_had_not_read_is_lost_and_its_tasks_end() -> None:
    class Listener(netsim.Agent):
        def __init__(self) -> None:
            self.seen: list[int] = []
            self.ticks: list[float] = []
            self.ended: list[float] = []

        async def tick(self) -> None:
            while True:
                await asyncio.sleep(1)
                self.ticks.append(self.now)

        async def run(self) -> None:
            background = asyncio.create_task(self.tick())
            try:
                await asyncio.sleep(3)
                self.seen += [(await self.inbox.get()).payload for _ in range(len(self.inbox))]
                background.cancel()
            finally:
                self.ended.append(self.now)

    class Sender(netsim.Agent):
        async def run(self) -> None:
            for number in range(8):
                await self.broadcast("number", number)
                await asyncio.sleep(1)

    agents: dict[int, netsim.Agent] = {0: Sender(), 1: Listener()}
    faults = [Crash(1, at=2.5, until=3.5, keeps_state=True)]
    run = Network(topology.path(2), faults=faults).run(agents)
    listener = agents[1]
    assert isinstance(listener, Listener)
    assert listener.ended == [2.5, 6.5]
    assert listener.ticks == [1, 2, 4.5, 5.5]
    assert listener.seen == [4, 5, 6]
    # Frames 0, 1 and 2 count as delivered, though the crash came before they were read. Frame 3 was sent at 3 s to a
    # node that was down.
    assert run.ledger.table([])[["delivered", "receiver_down"]].iloc[0].tolist() == [7, 1]


def test_nothing_leaves_a_node_that_is_down() -> None:
    class LastWords(netsim.Agent):
        async def run(self) -> None:
            try:
                await asyncio.sleep(10)
            finally:
                await self.broadcast("goodbye", 1)

    run = Network(topology.path(2), faults=[Leave(0, at=1.0)]).run({0: LastWords(), 1: LastWords()})
    table = run.ledger.table("sender")
    assert table["link_down"].tolist() == [1, 0]


def test_an_agent_that_does_not_let_go_is_named() -> None:
    class Stubborn(netsim.Agent):
        async def run(self) -> None:
            for _ in range(3):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(10)

    agents = {0: Stubborn(), 1: Talker()}
    with pytest.raises(AgentError, match=r"agent 0 does not end when it is cancelled"):
        Network(topology.path(2), faults=[Crash(0, at=1.0, until=2.0, keeps_state=True)]).run(agents)


def test_an_agent_that_cannot_be_copied_is_named() -> None:
    class Holder(Talker):
        def __init__(self) -> None:
            super().__init__()
            self.held = (k for k in range(3))

    agents = {0: Holder(), 1: Talker()}
    with pytest.raises(BadInput, match=r"agent = 0: must be copied .* use keeps_state=True"):
        Network(topology.path(2), faults=[Crash(0, at=1.0, until=2.0)]).run(agents)
    Network(topology.path(2), faults=[Crash(0, at=1.0, until=2.0, keeps_state=True)]).run(agents)


def test_slots_are_state_too() -> None:
    class Slotted(netsim.Agent):
        __slots__ = ("met",)

        def __init__(self) -> None:
            self.met = 0

        async def run(self) -> None:
            async for _ in self.rounds(6):
                self.met += 1
                await self.collect()

    agents = {0: Slotted(), 1: Slotted()}
    Network(topology.path(2), faults=[Crash(0, at=2.5, until=3.5)]).run(agents)
    assert [agent.met for agent in agents.values()] == [2, 6]


def test_what_an_agent_holds_of_itself_is_still_itself_after_a_crash() -> None:
    class Dispatcher(netsim.Agent):
        def __init__(self) -> None:
            self.lives = 0
            self.handlers = {"live": self.live}

        def live(self) -> None:
            self.lives += 1

        async def run(self) -> None:
            self.handlers["live"]()
            await asyncio.sleep(1)
            assert self.handlers["live"].__self__ is self

    agents = {0: Dispatcher(), 1: Dispatcher()}
    Network(topology.path(2), faults=[Crash(0, at=0.5, until=1.5)]).run(agents)
    assert [agent.lives for agent in agents.values()] == [1, 1]


@pytest.mark.parametrize("as_list", [False, True])
def test_an_agent_that_says_how_it_is_copied_is_restored_so(as_list: bool) -> None:
    class Locked(netsim.Agent):
        def __init__(self) -> None:
            self.lives = 0
            self.lock = threading.Lock()

        def __getstate__(self) -> Any:
            return [self.lives] if as_list else {"lives": self.lives}

        def __setstate__(self, state: Any) -> None:
            [self.lives] = state if as_list else state.values()
            self.lock = threading.Lock()

        async def run(self) -> None:
            with self.lock:
                self.lives += 1
            await asyncio.sleep(1)

    agents = {0: Locked(), 1: Locked()}
    Network(topology.path(2), faults=[Crash(0, at=0.5, until=1.5)]).run(agents)
    assert [agent.lives for agent in agents.values()] == [1, 1]


def test_who_had_ended_still_answers_and_does_not_begin_anew() -> None:
    class Asked(netsim.Agent):
        def __init__(self) -> None:
            self.lives = 0
            self.heard: list[int | None] = []

        def answer(self, frame: netsim.Frame) -> int:
            return self.lives

        async def run(self) -> None:
            self.lives += 1
            for _ in range(4 if self.name == 1 else 0):
                try:
                    self.heard.append((await self.request(0, "lives", None, timeout=0.5)).payload)
                except TimeoutError:
                    self.heard.append(None)
                await asyncio.sleep(1)

    agents = {0: Asked(), 1: Asked()}
    faults = [Crash(0, at=0.9, until=1.2, keeps_state=True), Crash(0, at=2.5, until=2.9)]
    Network(topology.path(2), Link(latency=0.01), faults=faults).run(agents)
    # Requests are made at 0, 1.02, 2.52 and 4.02 s. Node 0 is down for the second and third; the last restart reset its
    # state.
    assert agents[1].heard == [1, None, None, 0]


def test_a_slot_that_was_empty_before_the_run_is_empty_again() -> None:
    class Slotted(netsim.Agent):
        __slots__ = ("__own", "met")

        async def run(self) -> None:
            assert not hasattr(self, "met")
            assert not hasattr(self, "_Slotted__own")
            self.met = self.__own = 1
            await asyncio.sleep(1)

    agents = {0: Slotted(), 1: Slotted()}
    Network(topology.path(2), faults=[Crash(0, at=0.5, until=1.5)]).run(agents)
    assert agents[0].met == 1


def test_a_task_of_an_agent_that_does_not_let_go_is_named_too() -> None:
    class Haunted(netsim.Agent):
        async def beat(self) -> None:
            while self.now < 8:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.3)

        async def run(self) -> None:
            beating = asyncio.create_task(self.beat())
            await asyncio.sleep(9)
            await beating

    with pytest.raises(AgentError, match=r"agent 0 does not end when it is cancelled: it waits for sleep\(\)"):
        play_two(Haunted, [Crash(0, at=1.0, until=2.0)])


def test_a_task_begun_while_cleaning_up_does_not_outlive_the_crash() -> None:
    class Heir(netsim.Agent):
        async def run(self) -> None:
            try:
                await asyncio.sleep(6)
            finally:
                self.heir = asyncio.create_task(asyncio.sleep(3))

    with pytest.raises(AgentError, match="agent 0 does not end"):
        play_two(Heir, [Crash(0, at=1.0, until=2.0, keeps_state=True)])


@every("number", [0, 1, 4])
@every("rounding", [-3e-10, 0.0, 1e-12, 3e-10])
def test_who_is_back_a_rounding_off_a_boundary_ends_with_the_others(number: int, rounding: float) -> None:
    faults = [Join(0, at=max(number + rounding, 0.0))]
    agents, run = talk(faults)
    assert run.ended_at == 10
    assert agents[0].rounds_of[-1] == 10
    assert agents[0].rounds_of[0] in (number + 1, number + 2)


def play_two(kind: type[netsim.Agent], faults: list[Fault]) -> netsim.Run:
    return Network(topology.path(2), faults=faults).run({0: kind(), 1: kind()})


# --- links ------------------------------------------------------------------------------------------------------------


def silent_rounds(agent: Talker, sender: int) -> list[int]:
    return [k for k, names in agent.heard.items() if sender not in names]


def test_links_are_cut_one_way_or_both() -> None:
    agents, run = talk([LinkDown(0, 1, at=2.5, until=5.5, one_way=True), LinkDown(2, 3, at=1, until=2)])
    # The link goes down at 3 s, as round 4 opens, so the frames sent at that instant are lost.
    assert silent_rounds(agents[1], 0) == [4, 5, 6]
    assert silent_rounds(agents[0], 1) == []
    assert silent_rounds(agents[2], 3) == silent_rounds(agents[3], 2) == [2]
    assert run.ledger.table([])["link_down"].iloc[0] == 5


def test_a_partition_cuts_what_joins_the_sides_and_heals() -> None:
    agents, _ = talk([Partition({0, 1}, at=3, until=5), LinkDown(0, 2, at=4, until=7)])
    assert silent_rounds(agents[0], 1) == silent_rounds(agents[3], 2) == []
    assert silent_rounds(agents[0], 3) == silent_rounds(agents[2], 1) == [4, 5]
    # Two overlapping faults cut this link; it recovers when the later one ends.
    assert silent_rounds(agents[0], 2) == silent_rounds(agents[2], 0) == [4, 5, 6, 7]


@dataclass(frozen=True)
class Mute(Fault):
    """A node that receives frames and cannot send."""

    agent: int
    at: float
    until: float | None = None

    def begin(self, injector: FaultInjector, number: int) -> None:
        injector.cut([(self.agent, other) for other in injector.graph[self.agent]])

    def end(self, injector: FaultInjector, number: int) -> None:
        injector.mend([(self.agent, other) for other in injector.graph[self.agent]])


def test_a_kind_of_ones_own_begins_and_ends() -> None:
    run = play_two(Talker, [Mute(0, at=2.5, until=5), LinkDown(0, 1, at=4, until=7, one_way=True)])
    assert silent_rounds(run.agents[1], 0) == [4, 5, 6, 7]
    assert silent_rounds(run.agents[0], 1) == []
    with pytest.raises(BadInput, match="until = 1"):
        Mute(0, at=2, until=1)


def test_a_kind_of_ones_own_is_saved_and_loaded(tmp_path: Path) -> None:
    script = Faults([Mute(0, at=2.5, until=5), Crash(1, at=3)])
    script.save(tmp_path / "script.json")
    assert list(Faults.load(tmp_path / "script.json")) == list(script)


def test_a_class_elsewhere_does_not_replace_a_kind_of_netsim() -> None:
    type("Crash", (Fault,), {})
    assert Fault.kinds["Crash"] is Crash


def test_jitter_delays_each_frame_by_its_own_amount() -> None:
    _, plain = talk([])
    _agents, run = talk([Jitter(0.5, at=2.5, until=6.5)])
    ended = run.trace.table()
    times = ended[ended["event"] == "delivered"]["time_s"].to_numpy() % 1
    frames = ended[ended["event"] == "delivered"]["time_s"].to_numpy() // 1
    during = (frames >= 3) & (frames < 7)
    assert np.allclose(times[~during], 0.1)
    assert (times[during] >= 0.1).all()
    assert (times[during] < 0.6).all()
    assert len(set(times[during])) == 4 * 12
    # The tolerance is four standard deviations of the mean of 48 uniform draws.
    assert abs(times[during].mean() - 0.35) < 4 * 0.5 / math.sqrt(12 * 48)
    assert run.trace_hash != plain.trace_hash


def test_jitter_on_some_links_leaves_the_others() -> None:
    _, run = talk([Jitter(0.5, on=[(0, 1)])])
    table = run.trace.table()
    delivered = table[table["event"] == "delivered"]
    late = delivered[(delivered["time_s"] % 1).round(9) != 0.1]
    assert set(zip(late["sender"], late["receiver"], strict=True)) == {(0, 1)}
    assert len(late) == 10


def test_faults_elsewhere_leave_the_draws_of_jitter() -> None:
    def delays(faults: list[Fault]) -> list[tuple[float, float]]:
        _, run = talk(faults)
        table = run.trace.table()
        on_link = table[(table["event"] == "delivered") & (table["sender"] == 0) & (table["receiver"] == 1)]
        return list(zip(on_link["message"], on_link["time_s"], strict=True))

    burst, other = Jitter(0.2, at=2.5), Jitter(0.2, on=[(2, 3)])
    alone = delays([burst])
    for before in (ClockSkew(2, drift=1e-3), LinkDown(2, 3, at=1), other, Jitter(0.2, at=2.5, on=[(2, 3)])):
        assert delays([before, burst]) == alone, before
    # The link's earlier burst has ended by then, so its draws must not matter. Two bursts with the same start draw
    # independently.
    late = [row for row in delays([Jitter(0.2, at=0.5, until=1.5), burst]) if row[1] > 2.5]
    assert late == [row for row in alone if row[1] > 2.5]
    twice = delays([burst, burst])
    assert all(both > one for (_, one), (_, both) in zip(alone, twice, strict=True) if one > 2.5)
    assert (
        len(
            {round((both - one) / (one % 1 - 0.1), 6) for (_, one), (_, both) in zip(alone[3:], twice[3:], strict=True)}
        )
        > 1
    )


def test_frames_of_a_fifo_link_keep_their_order_in_a_burst_and_after_it() -> None:
    class Counter(netsim.Agent):
        def __init__(self) -> None:
            self.heard: list[int] = []

        async def run(self) -> None:
            if self.name == 0:
                for number in range(200):
                    await self.broadcast("number", number)
                    await asyncio.sleep(0.01)
                return
            async for frame in self.inbox:
                self.heard.append(frame.payload)

    def heard(fifo: bool) -> list[int]:
        agents = {0: Counter(), 1: Counter()}
        faults = [Jitter(0.5, until=1.0)]
        Network(topology.path(2), Link(latency=0.1, fifo=fifo), faults=faults).run(agents)
        return agents[1].heard

    assert heard(fifo=True) == list(range(200))
    assert sorted(heard(fifo=False)) == list(range(200)) != heard(fifo=False)


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_a_straggler_sends_late() -> None:
    agents, run = talk([Straggler(0, 0.5, at=1.5, until=4.5)])
    table = run.trace.table()
    sent = table[(table["event"] == "sent") & (table["sender"] == 0)]["time_s"].tolist()
    assert sent == [0, 1, 2.5, 3.5, 4.5, 5, 6, 7, 8, 9]
    assert silent_rounds(agents[1], 0) == []
    agents, run = talk([Straggler(0, 0.95, at=1.5, until=4.5)])
    # A delay of 0.95 s and a latency of 0.1 s together exceed a round of 1 s.
    assert silent_rounds(agents[1], 0) == [3, 4, 5]
    assert run.ledger.table([])["late"].iloc[0] == 9


def test_what_a_straggler_delivers_is_late_as_well() -> None:
    class Delivering(netsim.Agent):
        async def run(self) -> None:
            self.done_at = []
            for k in range(2):
                assert await self.deliver(0, "reading", k)
                self.done_at.append(self.now)

    agents = {0: Listener(), 1: Delivering()}
    medium = netsim.Radio(acks=True)
    Network(topology.path(2), Link(rate=1e6), medium=medium, faults=[Straggler(1, delay=0.5)]).run(agents)
    assert agents[1].done_at == pytest.approx([0.5, 1.0], abs=0.02)
    assert [time for time, _, _ in agents[0].heard] == pytest.approx([0.5, 1.0], abs=0.02)


class CleansUp(netsim.Agent):
    """Sends a goodbye when it is cancelled, and records the result."""

    def __init__(self, count: int = 30) -> None:
        self.count = count
        self.goodbyes: list[Any] = []

    async def run(self) -> None:
        try:
            async for k in self.rounds(self.count):
                await self.broadcast("hello", k)
                await self.collect()
        finally:
            self.goodbyes.append(self.now)
            try:
                self.goodbyes.append([await self.broadcast("goodbye", 0), await self.send(self.neighbors[0], "bye", 0)])
            except AgentError as error:
                self.goodbyes.append(type(error).__name__)
            self.goodbyes.append(self.now)


@pytest.mark.parametrize("delay", [0.3, 5.0, 1e9])
def test_a_straggler_that_says_goodbye_as_it_crashes_takes_no_time(delay: float) -> None:
    """A crashed node sends nothing, so the call returns immediately, without the straggler's delay."""
    faults = [Straggler(0, delay, at=2), Crash(0, at=2.5, until=2.6, keeps_state=True)]
    agents = {0: CleansUp(), 1: Talker()}
    run = Network(topology.path(2), faults=faults).run(agents, until=4.2, trace=True)
    assert agents[0].goodbyes[:3] == [2.5, [0, 0], 2.5]
    table = run.trace.table()
    assert table[table["kind"].isin(["goodbye", "bye"])]["event"].tolist() == ["sent", "link_down"] * 2


def test_a_straggler_that_says_goodbye_as_the_run_ends_takes_no_time() -> None:
    agents = {0: CleansUp(), 1: Talker()}
    run = Network(topology.path(2), faults=[Straggler(0, 0.25)]).run(agents, until=4.2)
    assert agents[0].goodbyes == [4.2, "RunOver", 4.2]
    assert run.ended_at == 4.2


def test_what_is_to_be_later_than_all_time_is_said_to_come_never() -> None:
    async def forever(me: Actor) -> None:
        await asyncio.sleep(1e300)
        async for _ in me.rounds(2):
            pass

    with pytest.raises(Stalled) as stalled:
        Network(topology.path(2)).run({0: Actor(forever), 1: Talker(2)})
    line = forever.__code__.co_firstlineno + 1
    assert str(stalled.value) == (
        "at 2 s every task waits for what can never come: agent 0 waits for sleep() "
        f"(test_faults.py, line {line}) (what is to be later than 1e+12 s never comes)"
    )
    # A sleep of sys.maxsize seconds is longer than any run.
    run = Network(topology.path(2)).run({0: Actor(forever), 1: Talker(2)}, until=5.0)
    assert run.ended_at == 5.0

    async def late(me: Actor) -> None:
        await asyncio.sleep(1e11)
        async for _ in me.rounds(1):
            pass

    with pytest.raises(
        AgentError, match=r"^agent 0 raised NetsimError at 1e\+11 s .*: at 1e\+11 s rounds of 1e-06 s can"
    ):
        Network(topology.path(2), round_period=1e-6).run({0: Actor(late), 1: Talker(2)})
    run = Network(topology.path(2)).run({0: Actor(late), 1: Talker(2)})
    assert run.rounds["round"].tolist() == [1, 2, 10**11 + 1]


def test_delays_of_a_straggler_add_up() -> None:
    _, run = talk([Straggler(0, 0.2), Straggler(0, 0.3, at=2, until=4)])
    table = run.trace.table()
    sent = table[(table["event"] == "sent") & (table["sender"] == 0)]["time_s"].to_numpy()
    assert np.allclose(sent - np.arange(10), [0.2, 0.2, 0.5, 0.5, *[0.2] * 6])


@pytest.mark.parametrize("offset", [0.3, -0.3])
def test_a_clock_that_is_off_opens_its_rounds_then(offset: float) -> None:
    _, run = talk([ClockSkew(0, offset=offset)])
    table = run.trace.table()
    sent = table[(table["event"] == "sent") & (table["sender"] == 0)]["time_s"].to_numpy()
    expected = np.arange(10) + offset
    assert np.allclose(sent, np.maximum(expected, 0))


def test_a_clock_that_drifts_falls_behind_until_it_is_late() -> None:
    agents, run = talk([ClockSkew(0, drift=0.11)])
    table = run.trace.table()
    sent = table[(table["event"] == "sent") & (table["sender"] == 0)]["time_s"].to_numpy()
    assert np.allclose(sent, 1.11 * np.arange(10))
    # Frames are late once the sender is 0.9 s behind, which happens in round 10, at 9.99 s.
    assert silent_rounds(agents[1], 0) == [10]
    # Once node 0 is far enough behind, the others' frames of round k arrive in its round k − 1 and are collected there.
    assert all(agents[0].heard[k] for k in range(1, 10))


def test_rows_go_on_by_the_networks_clock() -> None:
    everybody_late = [ClockSkew(node, offset=0.25, drift=1e-3 * node) for node in range(4)]
    agents, run = talk(everybody_late)
    assert run.rounds["time_s"].tolist() == list(range(1, 11))
    assert all(agent.rounds_of == list(range(1, 11)) for agent in agents.values())
    # Whether a frame is late is judged by the receiver's clock. All clocks are about equally late, so no frame is.
    assert run.ledger.table([])["late"].iloc[0] == 0


# --- a node's own clock -----------------------------------------------------------------------------------------------


class Waits(netsim.Agent):
    """Waits by every available means, and records its clock before and after each."""

    def __init__(self) -> None:
        self.shown: list[float] = []
        self.naps = 0

    def look(self) -> None:
        assert asyncio.get_running_loop().time() == self.now
        self.shown.append(self.now)

    async def run(self) -> None:
        self.look()
        await asyncio.sleep(2.0)
        self.look()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3.0):
                await self.inbox.get()
        self.look()
        with contextlib.suppress(TimeoutError):
            await self.request(self.neighbors[0], "anybody?", None, timeout=0.5)
        self.look()
        await asyncio.create_task(self.until(self.now + 1.7))
        self.look()
        called = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.8, called.set_result, None)
        await asyncio.wait_for(called, 100.0)
        self.look()

    async def until(self, time: float) -> None:
        while self.now < time:
            self.naps += 1
            await asyncio.sleep(time - self.now)


@every("offset", [0.0, 0.3, -0.3, 1e5, -1e5])
@every("drift", [0.0, 5e-5, -5e-5, 0.5, -0.5, 9.0])
def test_an_agent_without_rounds_waits_by_its_own_clock(offset: float, drift: float) -> None:
    agents = {0: Waits(), 1: Waits()}
    seen: dict[float, float] = {}
    network = Network(topology.path(2), Link(loss=1.0), faults=[ClockSkew(0, offset, drift)])
    for time in (0.0, 1.0, 5.0):
        network.at(time, lambda time=time: seen.update({time: agents[0].now}))  # type: ignore[misc]
    run = network.run(agents, trace=True)
    waits = np.cumsum([0.0, 2.0, 3.0, 0.5, 1.7, 0.8])
    rounding = 1e-9 * max(1.0, abs(offset))
    # By its own clock each agent waits the right time, although the clocks' offsets and rates differ.
    assert agents[1].shown == pytest.approx(waits, abs=rounding)
    assert agents[0].shown == pytest.approx(waits - offset / (1 + drift), abs=rounding)
    # A sleep until a local time ends as soon as the local clock shows it.
    assert [agent.naps for agent in agents.values()] == [1, 1]
    for time, shown in seen.items():
        assert shown == pytest.approx((time - offset) / (1 + drift), abs=rounding)
    # The trace uses the simulation's clock, for the requests as for the end.
    table = run.trace.table()
    sent = {row.sender: row.time_s for row in table[table["event"] == "sent"].itertuples()}
    assert sent == {0: pytest.approx(5.0 * (1 + drift), abs=rounding), 1: 5.0}
    assert run.ended_at == pytest.approx(8.0 * max(1 + drift, 1.0), abs=rounding)


def test_rounds_and_sleeps_are_by_one_clock() -> None:
    """By its own clock, the agent sends in the middle of a round and sees the expected times."""

    class Both(netsim.Agent):
        async def run(self) -> None:
            self.shown = []
            async for k in self.rounds(4):
                self.shown += [self.now - (k - 1)]
                await asyncio.sleep(0.5)
                await self.broadcast("half past", k)
                self.shown += [self.now - (k - 1)]
                await self.collect()
                self.shown += [self.now - k]

    agents = {0: Both(), 1: Both()}
    run = Network(topology.path(2), faults=[ClockSkew(0, offset=0.2, drift=0.25)]).run(agents, trace=True)
    assert agents[0].shown == pytest.approx([0.0, 0.5, 0.0] * 4, abs=1e-9)
    table = run.trace.table()
    sent = table[(table["event"] == "sent") & (table["sender"] == 0)]["time_s"].tolist()
    assert sent == pytest.approx([0.2 + 1.25 * (k + 0.5) for k in range(4)], abs=1e-9)


def test_an_answer_and_what_it_sets_off_are_by_the_clock_of_who_answers() -> None:
    class Answers(netsim.Agent):
        def answer(self, frame: netsim.Frame) -> float:
            self.loop = asyncio.get_running_loop()
            self.loop.call_later(2.0, self.look)
            return self.now

        def look(self) -> None:
            self.noted = self.loop.time()

        async def run(self) -> None:
            await asyncio.sleep(6.0)

    class Asks(netsim.Agent):
        async def run(self) -> None:
            await asyncio.sleep(4.0)
            self.told = (await self.request(1, "time", None)).payload
            self.thought = self.now

    agents: dict[int, Any] = {0: Asks(), 1: Answers()}
    Network(topology.path(2), faults=[ClockSkew(1, drift=1.0), ClockSkew(0, offset=1.0)]).run(agents)
    # Agent 0's clock shows 3 s at 4 s. Agent 1's clock, at half speed, shows 2 s then; it sleeps 2 s by it, until 4 s.
    assert (agents[0].told, agents[0].thought, agents[1].noted) == (2.0, 3.0, 4.0)


def test_a_budget_of_a_round_is_of_the_rounds_of_who_sends() -> None:
    class Twice(netsim.Agent):
        async def run(self) -> None:
            self.took = []
            async for _ in self.rounds(3):
                for wait in (0.1, 0.8):
                    await asyncio.sleep(wait)
                    self.took.append(await self.broadcast("x", bytes(20)))

    agents = {0: Twice(), 1: Twice()}
    Network(topology.path(2), Link(budget=300), faults=[ClockSkew(0, offset=0.5)]).run(agents)
    assert agents[0].took == agents[1].took == [1, 0] * 3


@pytest.mark.parametrize("offset", [1e5, 1e9, 123456.75])
def test_rounds_that_nobody_takes_part_in_have_no_rows(offset: float) -> None:
    agents, run = talk([ClockSkew(0, offset=offset)], link=Link())
    first = math.floor(offset) + 1
    last = math.ceil(offset + 10)
    # The rows are the other agents' ten rounds, and the network's rounds during the late agent's ten rounds.
    assert run.rounds["round"].tolist() == [*range(1, 11), *range(first, last if last > offset + 10 else last + 1)]
    assert agents[0].rounds_of == list(range(1, 11))
    assert run.ended_at == offset + 10


def test_rows_begin_with_the_first_round_that_anybody_takes_part_in() -> None:
    _, run = talk([ClockSkew(node, offset=7.25) for node in range(4)])
    assert run.rounds["round"].tolist() == list(range(8, 18))
    # An agent that joins late does not wait for another agent that joins even later.

    class Sleeper(Talker):
        async def run(self) -> None:
            await asyncio.sleep(20.5)
            await super().run()

    agents = {0: Talker(3), 1: Sleeper(3)}
    run = Network(topology.path(2), faults=[ClockSkew(0, offset=40)]).run(agents)
    assert run.rounds["round"].tolist() == [22, 23, 24, 41, 42, 43]
    assert agents[1].rounds_of == [22, 23, 24]


def test_a_fast_clock_has_no_more_rows_than_there_are_rounds() -> None:
    agents, run = talk([ClockSkew(0, offset=-1e9), ClockSkew(1, drift=-0.999)])
    assert run.rounds["round"].tolist() == list(range(1, 11))
    assert agents[0].rounds_of == agents[1].rounds_of == list(range(1, 11))


# --- the script -------------------------------------------------------------------------------------------------------

EVERYTHING: list[Fault] = [
    Crash("a", at=3, until=9),
    Crash("b", at=1.5, keeps_state=True),
    Leave(("c", 1), at=2),
    Join("d", at=4.5),
    LinkDown("a", "b", at=1, until=2, one_way=True),
    Partition(["b", "a"], at=0.5, until=1),
    Straggler("a", 0.2, at=1),
    ClockSkew("b", offset=-0.1, drift=1e-5),
    Jitter(0.4, at=1, until=2, on=[("a", ("c", 1))]),
]


def test_a_script_is_sorted_printed_and_kept(tmp_path: Path) -> None:
    faults = Faults(EVERYTHING)
    begins = [fault.begins for fault in faults]
    assert begins == sorted(begins)
    assert len(str(faults).splitlines()) == len(EVERYTHING)
    assert "agent 'a' is down from 3 s to 9 s and returns without its state" in str(faults)
    faults.save(tmp_path / "faults.json")
    assert Faults.load(tmp_path / "faults.json") == faults
    assert faults[:2] + faults[2:] == faults
    assert eval(repr(faults), {"Faults": Faults, **vars(netsim.faults)}) == faults


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "must be a list of faults in JSON"),
        ("[" * 100_000, "must be a list of faults in JSON"),
        ('[{"fault": []}]', "entry 0: must be an object whose 'fault' is one of"),
        ("{}", "must be a list of faults in JSON"),
        ('[{"fault": "Flood"}]', "entry 0: must be an object whose 'fault' is one of"),
        ('[{"fault": "Leave", "agent": 1, "at": 1}, 3]', "entry 1"),
        ('[{"fault": "Crash", "agent": 1, "at": 1, "until": 0.5}]', r"entry 0: until = 0.5: must be a number > 1"),
        ('[{"fault": "Crash", "agent": 1, "att": 1}]', "entry 0: 'att' must be one of"),
        ('[{"fault": "Crash", "agent": 1}]', "entry 0: must have all of"),
    ],
)
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(BadInput, match=why) as refused:
        Faults.load(tmp_path / "bad.json")
    assert "\n" not in str(refused.value)


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    Faults(EVERYTHING).save(tmp_path / "whole.json")
    text = (tmp_path / "whole.json").read_text()
    for end in range(0, len(text) - 1, 37):
        (tmp_path / "cut.json").write_text(text[:end])
        with pytest.raises(BadInput):
            Faults.load(tmp_path / "cut.json")
    with pytest.raises(BadInput, match="must be a file that can be read"):
        Faults.load(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Crash(0, at=-1), "at = -1"),
        (lambda: Crash(0, at=math.nan), "at = nan"),
        (lambda: Crash(0, at=1, until=1), "until = 1: must be a number > 1"),
        (lambda: Crash(0, at=1, keeps_state=2), "keeps_state = 2"),  # type: ignore[arg-type]
        (lambda: Straggler(0, 0.0), "delay = 0"),
        (lambda: ClockSkew(0, drift=-1), "drift = -1"),
        (lambda: ClockSkew(0, offset=1e300), r"offset = 1e\+300: must be at most 1e\+12"),
        (lambda: ClockSkew(0, offset=-1e13), r"offset = -10000000000000.0: must be a number >= -1e\+12"),
        (
            lambda: Network(topology.ring(4), faults=[ClockSkew(0, drift=1e300)]),
            r"drift = 1e\+300: must be such that rounds by this clock last from 1e-09 s to 1e\+12 s, not 1e\+300 s",
        ),
        (
            lambda: Network(topology.ring(4), round_period=1e-6, faults=[ClockSkew(0, drift=-0.9999)]),
            r"drift = -0.9999: must be such that rounds by this clock last from 1e-09 s to 1e\+12 s, not 1e-10 s",
        ),
        (
            lambda: Network(topology.ring(4), round_period=1e-6, faults=[ClockSkew(0, offset=1e11)]),
            r"ClockSkew: offset = 100000000000.0: must be so small that rounds of 1e-06 s can be told apart",
        ),
        (lambda: Straggler(0, 1e300), r"delay = 1e\+300: must be at most 1e\+12"),
        (lambda: Crash(0, at=1e300), r"at = 1e\+300: must be at most 1e\+12"),
        (lambda: Crash(0, at=1, until=1e300), r"until = 1e\+300: must be at most 1e\+12"),
        (lambda: Jitter(-0.1), "most = -0.1"),
        (lambda: Jitter(0.1, on=[0, 1]), "on = "),  # type: ignore[list-item]
        (lambda: Jitter(0.1, on=[(0, 1), (1, 0), [0, 1]]), r"on = \(0, 1\): must be named once"),  # type: ignore[list-item]
        (lambda: Network(topology.ring(4), faults=[Jitter(1, on=[([0], 1)])]), r"link = \(\[0\], 1\): must be an edge"),
        (lambda: Network(topology.ring(4), faults=[LinkDown([0], 1, at=1)]), r"link = \(\[0\], 1\): must be an edge"),
        (lambda: Partition("ab", at=1), "side = 'ab'"),
        (lambda: Network(topology.ring(4), faults=[Leave(7, at=1)]), "agent = 7: must be a node of the graph"),
        (lambda: Network(topology.ring(4), faults=[LinkDown(0, 2, at=1)]), r"link = \(0, 2\): must be an edge"),
        (lambda: Network(topology.ring(4), faults=[Partition(range(4), at=1)]), "side has 4 of 4 agents"),
        (lambda: Network(topology.ring(4), faults=[ClockSkew(1), ClockSkew(1)]), "agent = 1: must be named once"),
        (lambda: Network(topology.ring(4), faults=["crash"]), "faults = 'crash'"),  # type: ignore[list-item]
        (lambda: Network(topology.ring(4), faults=3), "faults = 3"),  # type: ignore[arg-type]
        (lambda: Faults.draw(topology.ring(4), until=1, floods=1), "kind of fault = 'floods'"),
        (lambda: Faults.draw(topology.ring(4), until=1, joins=5), "joins = 5: must be at most 4"),
        (lambda: Faults.draw(topology.ring(4), until=0, cuts=1), "until = 0"),
        (lambda: Faults.draw(topology.ring(4), until=1, delay=0), "delay = 0: must be a number > 0"),
        (lambda: Faults.draw(topology.ring(4), until=1, jitter=(2, 1)), "jitter = 1: must be a number >= 2"),
        (lambda: Faults.draw(topology.ring(4), until=1, offset=(1, 2, 3)), r"offset = \(1, 2, 3\): must be a pair"),
        (lambda: Faults.draw(topology.ring(4), until=1, drift=1), "drift = 1: must be < 1"),
        (
            lambda: Faults.draw(topology.ring(4), until=1, duration=1, mean_duration=1),
            "duration: must be left out with",
        ),
        (lambda: Faults([Crash(2j, at=1)]).save("faults.json"), "must have names and settings that are text"),
    ],
)
def test_bad_input_ends_in_one_line(make: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=why) as refused:
        make()
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_numpy_numbers_are_numbers(tmp_path: Path) -> None:
    faults = Faults([Crash(np.int64(0), at=np.float32(1.5), until=np.int64(3)), Jitter(np.float64(0.5))])
    faults.save(tmp_path / "faults.json")
    assert Faults.load(tmp_path / "faults.json") == faults
    assert json.loads((tmp_path / "faults.json").read_text())[1]["at"] == 1.5


def test_a_drawn_script_comes_from_its_seed_and_kinds_are_independent() -> None:
    graph = topology.ring(10)
    drawn = Faults.draw(graph, until=100, seed=3, **COUNTS)
    assert Faults.draw(graph, until=100, seed=3, **COUNTS) == drawn
    assert Faults.draw(graph, until=100, seed=4, **COUNTS) != drawn
    more = Faults.draw(graph, until=100, seed=3, **(COUNTS | {"cuts": 9}))
    assert set(drawn) <= set(more)
    Network(graph, faults=drawn)
    lengths = [f.until - f.at for f in Faults.draw(graph, until=1e3, mean_duration=7, cuts=2000) if f.until is not None]  # type: ignore[attr-defined]
    assert abs(np.mean(lengths) - 7) < 4 * 7 / math.sqrt(2000)


SIZES: dict[str, tuple[str, str, Callable[[Any], float]]] = {
    "duration": ("cuts", "until", lambda fault: fault.until - fault.at),
    "delay": ("stragglers", "delay", lambda fault: fault.delay),
    "jitter": ("jitters", "most", lambda fault: fault.most),
    "offset": ("skews", "offset", lambda fault: abs(fault.offset)),
    "drift": ("skews", "drift", lambda fault: abs(fault.drift)),
    "loss": ("changes", "loss", lambda fault: fault.loss),
}


@pytest.mark.parametrize("size", SIZES)
def test_drawn_sizes_are_uniform_and_change_nothing_else(size: str) -> None:
    kind, field, value = SIZES[size]

    def drawn(**more: Any) -> tuple[Faults, list[Fault]]:
        faults = Faults.draw(topology.ring(400), until=100, seed=3, **more, **{kind: 400})
        # The base class has no such field; each kind of fault defines its own.
        same: Any = {field: None if size == "duration" else 0.5}
        return faults, [dataclasses.replace(fault, **same) for fault in faults]

    for low, high, asked in ((0.2, 0.9, (0.2, 0.9)), (0.0, 0.5, 0.5)):
        faults, others = drawn(**{size: asked})
        assert others == drawn()[1]
        values = [value(fault) for fault in faults]
        # The end of a fault is a rounded sum of start and duration.
        assert low - 1e-12 <= min(values) <= max(values) <= high + 1e-12
        assert scipy.stats.kstest(values, "uniform", (low, high - low)).pvalue > 1e-3


def test_partitions_are_drawn_one_way_if_asked_for() -> None:
    drawn = {way: Faults.draw(topology.ring(9), until=9, seed=2, partitions=30, one_way=way) for way in (False, True)}
    assert [fault.begins for fault in drawn[True]] == [fault.begins for fault in drawn[False]]
    assert {fault.one_way for fault in drawn[True]} == {True}  # type: ignore[attr-defined]
    assert Faults.draw(topology.ring(9), until=9, seed=2, partitions=30) == drawn[False]
    some = Faults.draw(topology.ring(9), until=9, seed=2, partitions=30, one_way=None)
    assert 5 < sum(fault.one_way for fault in some) < 25  # type: ignore[attr-defined]


def test_whether_crashed_nodes_keep_their_state_can_be_said_and_changes_nothing_else() -> None:
    graph = topology.ring(10)
    counts = COUNTS | {"crashes": 30}
    drawn = {keeps: Faults.draw(graph, until=100, seed=3, keeps_state=keeps, **counts) for keeps in (None, True, False)}
    crashes = {keeps: [fault for fault in drawn[keeps] if isinstance(fault, Crash)] for keeps in drawn}
    assert 5 < sum(crash.keeps_state for crash in crashes[None]) < 25
    for keeps in (True, False):
        assert [fault for fault in drawn[keeps] if not isinstance(fault, Crash)] == [
            fault for fault in drawn[None] if not isinstance(fault, Crash)
        ]
        assert crashes[keeps] == [dataclasses.replace(crash, keeps_state=keeps) for crash in crashes[None]]
    assert drawn[None] == Faults.draw(graph, until=100, seed=3, **counts)
    with pytest.raises(BadInput, match="keeps_state = 1: must be True or False"):
        Faults.draw(graph, until=1, keeps_state=1, crashes=1)  # type: ignore[arg-type]


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, slow(1), slow(2)])
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**40),
    counts=st.fixed_dictionaries({name: st.integers(0, most) for name, most in COUNTS.items()}),
    on_radio=st.booleans(),
)
def test_books_close_and_runs_repeat_with_every_fault_at_once(
    more: int, seed: int, counts: dict[str, int], on_radio: bool
) -> None:
    check_faulty(seed + more, counts, on_radio)


@pytest.mark.parametrize("first", [0, slow(40)])
def test_agents_cannot_know_that_all_clocks_are_slow_in_a_slow_world(first: int) -> None:
    for seed in range(first, first + (40 if first else 10)):
        check_slow_clocks(seed)


def test_a_fault_elsewhere_changes_no_draw() -> None:
    """Law 2: events on links without the fault are the same as in a run without faults."""
    link = Link(latency=latency.uniform(0.0, 0.8), loss=0.3)

    def ends(faults: list[Fault]) -> list[Any]:
        _, run = talk(faults, link=link)
        table = run.trace.table()
        ended = table[(table["event"] != "sent") & ~table["sender"].isin([0]) & ~table["receiver"].isin([0])]
        return sorted(ended[["time_s", "sender", "receiver", "event"]].itertuples(index=False, name=None))

    untouched = ends([])
    assert ends([Crash(0, at=2.5, until=6.5)]) == untouched
    assert ends([LinkDown(0, 1, at=2, until=4), Jitter(0.3, on=[(0, 2), (2, 0)]), Straggler(0, 0.4)]) == untouched
    assert ends([ClockSkew(0, offset=0.2)]) == untouched


def test_without_faults_nothing_changes() -> None:
    _, plain = talk([])
    graph = topology.complete(4)
    network = Network(graph, Link(latency=0.1), seed=1)
    assert network.run({node: Talker() for node in graph}).trace_hash == plain.trace_hash


@every("fault", [LinkDown(0, 1, at=0.5, until=2), Crash(0, at=0.5, until=2, keeps_state=True), Partition([0], 0.5, 2)])
def test_the_end_of_a_fault_does_not_restore_what_the_program_has_cut(fault: Fault) -> None:
    network = Network(topology.path(2), Link(latency=0.25), faults=[fault])
    network.at(0.25, lambda: network.set_link(0, 1, up=False, one_way=True))
    network.at(3.5, lambda: network.set_link(0, 1, up=True))
    run = network.run({0: testing.Talker([(float(t), t) for t in range(6)]), 1: Listener()})
    # After 2 s only the program's own cut, not the fault, keeps agent 0's frames from arriving.
    assert run.agents[1].payloads == [0, 4, 5]


def test_a_receiver_is_on_when_neither_a_crash_nor_the_program_has_it_off() -> None:
    def times(*switches: tuple[float, bool]) -> list[float]:
        network = Network(topology.path(2), Link(latency=0.25), faults=[Crash(1, 1.5, 3.5, keeps_state=True)])
        for time, up in switches:
            network.at(time, partial(network.set_receiver, 1, up))
        run = network.run({0: testing.Talker([(float(t), t) for t in range(6)]), 1: Listener()})
        times: list[float] = run.agents[1].times
        return times

    assert times() == [0.25, 1.25, 4.25, 5.25]
    assert times((2.5, True)) == times()
    assert times((0.5, False)) == [0.25]
    assert times((0.5, False), (2.5, True)) == [0.25, 4.25, 5.25]
    assert times((2.5, False), (4.5, True)) == [0.25, 1.25, 5.25]
