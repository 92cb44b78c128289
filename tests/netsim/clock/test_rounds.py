"""Rounds: when they open and close, and the frames collected in each."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from netsim import Agent, AgentError, Link, Run, latency, testing, topology
from netsim.core.records import TOTALS
from netsim.testing import Rounder


def play(agents: Mapping[int, Agent], link: Link | None = None, period: float = 0.1, **settings: Any) -> Run:
    in_turn = [agents[i] for i in range(len(agents))]
    return testing.play(*in_turn, shape=topology.complete, link=link, round_period=period, **settings)


def played(count: int, make: Callable[[], Rounder] = Rounder, **settings: Any) -> list[Rounder]:
    agents = [make() for _ in range(count)]
    play(dict(enumerate(agents)), **settings)
    return agents


# --- opening and closing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", [0.1, 1.0, 7e-5, 86_400.0, 1e6])
def test_rounds_are_numbered_from_1_and_open_each_period(period: float) -> None:
    for agent in played(3, lambda: Rounder(40), period=period):
        assert agent.opened == [(k, (k - 1) * period) for k in range(1, 41)]
        assert agent.closed == [k * period for k in range(1, 41)]


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_frames_without_latency_are_heard_in_their_round_by_all(order: list[int]) -> None:
    agents = {i: Rounder() for i in order}
    play(agents)
    for me, agent in agents.items():
        assert sorted(agent.heard) == [(k, other, k) for k in (1, 2, 3) for other in range(4) if other != me]


def test_collect_returns_what_arrived_strictly_before_the_close() -> None:
    class AtTheLast(Rounder):
        async def step(self, k: int) -> None:
            for delay, name in ((0.25, "quarter"), (0.4375, "late: at the close with its latency")):
                await asyncio.sleep(k - 1 + delay - self.now)
                await self.broadcast("x", name)
            self.heard += [(k, f.sender, f.payload) for f in await self.collect()]

    first, second = played(2, lambda: AtTheLast(2), link=Link(latency=0.5625), period=1.0)
    assert first.heard == [(1, 1, "quarter"), (2, 1, "quarter")]
    assert second.heard == [(1, 0, "quarter"), (2, 0, "quarter")]


def test_what_an_agent_sends_at_a_close_belongs_to_no_closed_round() -> None:
    """A frame sent as a round closes is collected in the next round, even by agents that act later in that instant."""

    class Afterthought(Rounder):
        async def step(self, k: int) -> None:
            await asyncio.sleep(0.013)
            await super().step(k)
            await self.broadcast("x", "after the close")

    agents = [Afterthought(3) for _ in range(3)]
    run = play(dict(enumerate(agents)))
    for me, agent in enumerate(agents):
        others = [other for other in range(3) if other != me]
        in_time = [(k, other, k) for k in (1, 2, 3) for other in others]
        afterwards = [(k, other, "after the close") for k in (2, 3) for other in others]
        assert Counter(agent.heard) == Counter(in_time + afterwards)
    assert run.rounds["late"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("delay", [0.1, 0.15])
def test_a_frame_that_takes_a_period_or_more_is_late(delay: float) -> None:
    agents = {i: Rounder() for i in range(2)}
    run = play(agents, Link(latency=delay))
    assert not agents[0].heard
    assert not agents[1].heard
    row = run.ledger.table([]).iloc[0]
    assert row["delivered"] == 0
    assert row["late"] + row["in_flight"] == 6


@pytest.mark.parametrize("delay", [0.1, 0.15])
def test_keep_late_delivers_it_in_the_next_round(delay: float) -> None:
    for me, agent in enumerate(played(2, lambda: Rounder(3, keep_late=True), link=Link(latency=delay))):
        assert agent.heard == [(2, 1 - me, 1), (3, 1 - me, 2)]


def test_a_random_latency_decides_frame_by_frame() -> None:
    agents = {i: Rounder(50) for i in range(5)}
    run = play(agents, Link(latency=latency.uniform(0.0, 0.2)))
    heard = sum(len(agent.heard) for agent in agents.values())
    row = run.ledger.table([]).iloc[0]
    assert heard == row["delivered"]
    assert row["offered"] == 5 * 4 * 50 == row["delivered"] + row["late"] + row["in_flight"]
    assert 400 < heard < 600
    assert all(k == payload for agent in agents.values() for k, _, payload in agent.heard)


# --- agents out of step -----------------------------------------------------------------------------------------------


class Slow(Rounder):
    """Needs 2.5 rounds for its first step."""

    async def step(self, k: int) -> None:
        await self.broadcast("x", k)
        if k == 1:
            await asyncio.sleep(0.25)
        self.heard += [(k, f.sender, f.payload) for f in await self.collect()]
        self.closed.append(self.now)


def test_an_agent_that_overruns_takes_part_again_in_the_next_round_to_open() -> None:
    slow, other, third = Slow(3), Rounder(6), Rounder(6)
    run = play({0: slow, 1: other, 2: third})
    assert slow.opened == [(1, 0.0), (4, pytest.approx(0.3)), (5, pytest.approx(0.4))]
    # The round was already over at the first collect, which returned immediately with all frames received so far.
    assert slow.closed == pytest.approx([0.25, 0.4, 0.5])
    assert [(k, x) for k, sender, x in slow.heard if sender == 1] == [(1, 1), (1, 2), (1, 3), (4, 4), (5, 5)]
    assert other.opened == [(k, pytest.approx((k - 1) * 0.1)) for k in range(1, 7)]
    assert [k for k, sender, _ in other.heard if sender == 2] == [1, 2, 3, 4, 5, 6]
    assert [k for k, sender, _ in other.heard if sender == 0] == [1, 4, 5]
    assert run.rounds["round"].tolist() == [1, 2, 3, 4, 5, 6]


def test_after_the_last_round_its_late_frames_are_still_late() -> None:
    class Reader(Rounder):
        async def run(self) -> None:
            await super().run()
            async for frame in self.inbox:
                self.heard.append((0, frame.sender, frame.payload))

    class Sink(Rounder):
        async def run(self) -> None:
            async for frame in self.inbox:
                self.heard.append((0, frame.sender, frame.payload))

    reader, other, sink = Reader(2), Rounder(4), Sink()
    run = play({0: reader, 1: other, 2: sink}, Link(latency=0.12))
    # The reader skipped rounds 3 and 4. Outside rounds no frame counts as late, so it reads them all.
    assert reader.heard == [(0, 1, 3), (0, 1, 4)]
    assert sorted(x for _, sender, x in sink.heard if sender == 1) == [1, 2, 3, 4]
    assert not other.heard
    assert int(run.ledger.table([])["late"].iloc[0]) == 4


def test_overrunning_alone_is_no_different() -> None:
    slow = Slow(2)
    run = play({0: slow})
    assert slow.opened == [(1, 0.0), (4, pytest.approx(0.3))]
    assert slow.closed == pytest.approx([0.25, 0.4])
    # Rounds in which no agent took part have no row.
    assert run.rounds["round"].tolist() == [1, 4]


def test_what_an_overrunning_agent_sends_belongs_to_its_old_round_and_is_late() -> None:
    class Behind(Rounder):
        async def step(self, k: int) -> None:
            await asyncio.sleep(0.15)
            await self.broadcast("x", k)

    other = Rounder(4)
    run = play({0: Behind(1), 1: other})
    assert other.heard == []
    assert run.rounds["late"].tolist() == [0, 1, 1, 1]


def test_two_loops_one_after_the_other() -> None:
    class Twice(Rounder):
        async def run(self) -> None:
            assert self.round == 0
            await super().run()
            assert self.round == 0
            await super().run()

    first, second = played(2, lambda: Twice(2))
    assert [k for k, _ in first.opened] == [1, 2, 3, 4]
    assert second.heard == [(k, 0, k) for k in (1, 2, 3, 4)]


def test_agents_may_take_part_in_different_numbers_of_rounds() -> None:
    agents = {i: Rounder(i) for i in range(4)}
    run = play(agents)
    assert [len(agent.opened) for agent in agents.values()] == [0, 1, 2, 3]
    assert sorted(agents[3].heard) == [(1, 1, 1), (1, 2, 1), (2, 2, 2)]
    assert run.ended_at == pytest.approx(0.3)


def test_a_loop_that_is_left_and_another_one() -> None:
    class Leaver(Rounder):
        async def run(self) -> None:
            async for k in self.rounds(9):
                await self.step(k)
                if k == 2:
                    break
            assert self.round == 0
            # Frames sent between rounds have no round number, so they are never late.
            await asyncio.sleep(0.05)
            await self.broadcast("x", "between")
            await super().run()

    leaver, other = Leaver(2), Rounder(6)
    play({0: leaver, 1: other})
    assert leaver.opened == [(4, pytest.approx(0.3)), (5, pytest.approx(0.4))]
    assert other.heard == [(1, 0, 1), (2, 0, 2), (3, 0, "between"), (4, 0, 4), (5, 0, 5)]


def test_a_timeout_around_collect_disturbs_no_other_agent() -> None:
    class Impatient(Rounder):
        async def step(self, k: int) -> None:
            await self.broadcast("x", k)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.03):
                    await self.collect()
            # A cancelled collect removes no frame from the inbox, and may be repeated.
            self.heard += [(k, f.sender, f.payload) for f in await self.collect()]

    impatient, other, third = Impatient(3), Rounder(3), Rounder(3)
    play({0: impatient, 1: other, 2: third})
    assert sorted(impatient.heard) == [(k, sender, k) for k in (1, 2, 3) for sender in (1, 2)]
    assert sorted(other.heard) == [(k, sender, k) for k in (1, 2, 3) for sender in (0, 2)]
    assert other.closed == third.closed == pytest.approx([0.1, 0.2, 0.3])


def test_rounds_that_begin_at_any_time_begin_at_a_boundary() -> None:
    class Late(Rounder):
        async def run(self) -> None:
            for _ in range(3):
                await asyncio.sleep(0.1)  # in floating point the sum slightly exceeds the boundary
            await super().run()
            await asyncio.sleep(0.07)
            await super().run()

    (agent,) = played(1, lambda: Late(1))
    assert agent.opened == [(4, pytest.approx(0.3)), (6, pytest.approx(0.5))]


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        ("outside", "agent 0: collect() is for use inside `async for … in self.rounds(…)`"),
        ("after", "agent 0: collect() is for use inside `async for … in self.rounds(…)`"),
        ("twice", "agent 0: collect() was called twice in round 1"),
    ],
)
def test_collect_out_of_place(misuse: str, message: str) -> None:
    class Misuser(Agent):
        async def run(self) -> None:
            if misuse != "outside":
                async for _ in self.rounds(1):
                    await self.collect()
                    if misuse == "twice":
                        await self.collect()
            await self.collect()

    with pytest.raises(AgentError) as caught:
        play({0: Misuser()})
    assert str(caught.value).endswith(message)
    assert "\n" not in str(caught.value)


# --- rows and probes --------------------------------------------------------------------------------------------------


def test_probes_see_every_agent_after_a_round_and_before_the_next() -> None:
    class Counter(Agent):
        def __init__(self) -> None:
            self.state = 0

        async def run(self) -> None:
            async for k in self.rounds(4):
                self.state = 100 * k
                await self.collect()
                await asyncio.sleep(0)
                self.state += 1

    states: list[set[int]] = []

    def spread(agents: Mapping[Any, Any]) -> float:
        states.append({agent.state for agent in agents.values()})
        return 0.0

    play({i: Counter() for i in range(3)}, probes=[spread])
    assert states == [{101}, {201}, {301}, {401}]


def test_a_row_holds_running_totals_and_the_probes() -> None:
    def mean_heard(agents: Mapping[int, Rounder]) -> float:
        return sum(len(agent.heard) for agent in agents.values()) / len(agents)

    def several(agents: Mapping[int, Rounder]) -> dict[str, float]:
        return {"one": 1, "two": 2.0}

    seen: list[int] = []
    run = play({i: Rounder(3) for i in range(4)}, probes=[mean_heard, several], progress=seen.append)
    assert list(run.rounds.columns) == ["round", "time_s", *TOTALS, "mean_heard", "one", "two"]
    assert run.rounds["time_s"].tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert run.rounds["transmissions"].tolist() == [4, 8, 12]
    assert run.rounds["delivered"].tolist() == run.rounds["link_messages"].tolist() == [12, 24, 36]
    assert run.rounds["mean_heard"].tolist() == [3, 6, 9]
    assert run.rounds["two"].tolist() == [2, 2, 2]
    assert seen == [1, 2, 3]


def test_agents_that_only_broadcast_have_rows_and_settled_counts_too() -> None:
    class Beacon(Agent):
        async def run(self) -> None:
            async for k in self.rounds(3):
                await self.broadcast("x", k)

    run = play({i: Beacon() for i in range(3)}, Link(latency=0.01))
    assert run.rounds["delivered"].tolist() == [6, 12, 18]
    assert run.ended_at == pytest.approx(0.3)


def test_a_run_without_rounds_has_no_rows() -> None:
    run = play({i: Rounder(0) for i in range(2)})
    assert run.rounds.empty
    assert list(run.rounds.columns) == ["round", "time_s", *TOTALS]


@pytest.mark.parametrize("until", [0.3, 0.1 + 0.2, 0.3000000001, 0.35])
def test_a_run_stopped_at_a_close_has_that_round_whole(until: float) -> None:
    agents = {i: Rounder(9) for i in range(2)}
    run = play(agents, until=until)
    assert run.rounds["round"].tolist() == [1, 2, 3]
    assert len(agents[0].closed) == 3
    assert len(agents[0].opened) == (3 if until < 0.35 else 4)
    assert run.ended_at == pytest.approx(until)


def test_rounds_on_the_wall_clock() -> None:
    expected = {me: [(k, s) for k in (1, 2, 3) for s in range(3) if s != me] for me in range(3)}
    for pace in (3.0, 1.0, 0.2):
        agents = {i: Rounder(3) for i in range(3)}
        run = play(agents, clock="wall", pace=pace)
        heard = {me: [(k, sender) for k, sender, _ in agent.heard] for me, agent in agents.items()}
        # On a busy machine a round may end before an agent is scheduled; only complete rounds are compared.
        if heard == expected:
            break
    assert heard == expected
    assert run.rounds["round"].tolist() == [1, 2, 3]
