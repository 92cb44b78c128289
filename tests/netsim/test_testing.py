"""The kit for testing agents works as documented, and needs no test framework."""

import asyncio
import contextlib
import doctest
import math
import subprocess
import sys
from typing import Any

import pytest

import netsim.testing
from netsim import AgentError, BadInput, Frame, Link, Network, topology
from netsim.faults import LinkDown
from netsim.testing import (
    Actor,
    KnowsUnheard,
    Listener,
    Replier,
    Rounder,
    Talker,
    check_heard,
    could_know,
    counts,
    losing,
    play,
    sized,
)
from tests.parts import every


def test_its_first_lines_hold() -> None:
    assert doctest.testmod(netsim.testing).attempted > 0
    assert doctest.testmod(netsim.testing).failed == 0


def test_it_needs_no_test_framework() -> None:
    code = "import sys, netsim.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_agents_stand_in_a_line_or_in_another_shape() -> None:
    assert play(Actor(), Actor(), Actor()).agents[1].neighbors == (0, 2)
    run = play(Actor(), Actor(), Actor(), shape=topology.star)
    assert [run.agents[i].neighbors for i in range(3)] == [(1, 2), (0,), (0,)]


def test_settings_go_where_they_belong() -> None:
    rows: list[int] = []
    run = play(
        Rounder(9), Rounder(9), link=Link(loss=1.0), round_period=0.5, until=2.0, trace=True, progress=rows.append
    )
    assert (run.ended_at, rows) == (2.0, [1, 2, 3, 4])
    assert set(run.trace.table()["event"]) == {"sent", "lost"}
    assert play(Actor(), blas_threads=1, seed=3).ended_at == 0.0
    with pytest.raises(BadInput, match="until = -1"):
        play(Actor(), until=-1)
    with pytest.raises(BadInput, match="argument of Network = 'period'"):
        play(Actor(), period=1)


def test_a_talker_follows_its_plan() -> None:
    talker = Talker([(2.0, "b"), (1.0, "a"), (2.0, "c")], 2, kind="word")
    run = play(Listener(), talker, Listener(), link=Link(latency=0.5))
    assert run.agents[0].heard == []
    assert run.agents[2].heard == [(1.5, 1, "a"), (2.5, 1, "b"), (2.5, 1, "c")]
    assert run.agents[2].payloads == ["a", "b", "c"]
    assert {frame.kind for frame in run.agents[2].frames} == {"word"}
    assert talker.took == [1, 1, 1]
    both = Talker([(0.0, 1)])
    play(Listener(), both, Listener())
    assert both.took == [2]


@every(
    ("plan", "words"),
    [
        ([(math.nan, 1)], "plan = nan: must be a number >= 0"),
        ([(-1.0, 1)], "plan = -1.0: must be a number >= 0"),
        ([(1.0, 1), 2.0], "plan[1] = 2.0: must be a pair (time, value)"),
        (3, "plan = 3: must be pairs (time, value)"),
    ],
)
def test_a_plan_that_is_none_is_refused(plan: Any, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        Talker(plan)
    assert str(caught.value) == words


def test_an_actor_follows_its_script_and_its_errors_name_it() -> None:
    async def script(me: Actor) -> None:
        await asyncio.sleep(1.0)
        me.log.append(me.now)
        raise ValueError("failed")

    actor = Actor(script)
    with pytest.raises(AgentError, match=r"agent 0 raised ValueError at 1 s \(test_testing.py, line \d+\): failed"):
        play(actor)
    assert actor.log == [1.0]


def test_a_replier_answers_at_once() -> None:
    async def ask(me: Actor) -> None:
        for number in (1, 2):
            me.log.append((await me.request(1, "?", number)).payload)

    asker, doubles = Actor(ask), Replier(reply=lambda number: 2 * number)
    play(asker, doubles, link=Link(latency=0.25))
    assert (asker.log, doubles.log) == ([2, 4], [(0.25, 1), (0.75, 2)])
    other = Actor(ask)
    play(other, Replier())
    assert other.log == [1, 2]


def test_a_rounder_notes_rounds() -> None:
    first, second = Rounder(2), Rounder(2)
    play(first, second, round_period=0.5)
    assert first.heard == [(1, 1, 1), (2, 1, 2)]
    assert second.opened == [(1, 0.0), (2, 0.5)]
    assert second.closed == [0.5, 1.0]


@every("kind", ["m", "a longer kind of message than most, of ünicode"])
@every("size", [64, 100, 255, 300, 1000, 65_536, 70_000])
def test_a_frame_is_as_long_as_it_is_to_be(size: int, kind: str) -> None:
    run = play(Talker([(0.0, sized(size, kind))], kind=kind), Listener(), link=Link(rate=8 * size))
    frame: Frame = run.agents[1].frames[0]
    assert (len(frame.data), run.agents[1].times) == (size, [1.0])


@pytest.mark.parametrize("size", [0, 6, 263, 2.5, True])
def test_a_size_that_no_frame_has_is_refused(size: Any) -> None:
    with pytest.raises(BadInput, match="size = "):
        sized(size)


def test_exactly_those_frames_are_lost_on_each_link() -> None:
    run = play(Listener(), Talker([(i, i) for i in range(6)]), Listener(), link=Link(loss=losing(0, 4)))
    assert run.agents[0].payloads == run.agents[2].payloads == [1, 2, 3, 5]
    assert counts(run) == {"delivered": 8, "lost": 4}
    assert counts(run, receiver=2) == {"delivered": 4, "lost": 2}
    assert counts(run, sender=0) == {}
    with pytest.raises(BadInput, match="number = -1"):
        losing(-1)
    with pytest.raises(BadInput, match=r"count by = 'to'"):
        counts(run, to=1)


def test_counts_have_all_causes_and_what_is_under_way() -> None:
    run = play(Talker([(0, 1), (1, 2)]), Actor(), link=Link(latency=3.0, duplicate=1.0))
    assert counts(run) == {"duplicated": 2, "in_flight": 4}


class Gossip(Actor):
    """Forwards the first message once; ``knows`` becomes 1 then, and at agent 0 at its start."""

    def __init__(self, begins: float = math.inf) -> None:
        super().__init__()
        self.knows, self.begins = 0, begins

    async def run(self) -> None:
        if self.name != 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.begins):
                    await self.inbox.get()
        self.knows = 1
        await self.broadcast("m", None)


@pytest.mark.parametrize("latency", [0.0, 0.5])
def test_who_could_know_follows_from_the_frames(latency: float) -> None:
    # Agent 3 sends before it has received anything; agent 5 could be reached only over a cut link.
    script = {3: Talker([(0.1, 1)]), 4: Listener(), 5: Gossip()}
    agents = {i: script.get(i, Gossip()) for i in range(6)}
    network = Network(topology.path(6), Link(latency=latency), faults=[LinkDown(4, 5, at=0.0)])
    network.watch({"knows": lambda agent: agent.knows})
    run = network.run(agents, until=9, trace=True)
    known = {0: 0.0, 1: latency, 2: 2 * latency}
    if latency == 0.0:
        # Without latency, agent 3's message at 0.1 s comes after the frame that it received at 0 s.
        known |= {3: 0.0, 4: 0.1}
    assert could_know(run, 0) == known
    # With latency, agent 2 first receives agent 3's frame, but agent 3 knew nothing when it sent that.
    if latency:
        with pytest.raises(KnowsUnheard, match=r"^agent 2 knows at 0.6 s what agent 0 began with, and .* before 1 s$"):
            check_heard(run, "knows", source=0)
    else:
        check_heard(run, "knows", source=0)


def test_who_begins_by_itself_knows_what_it_has_not_heard() -> None:
    network = Network(topology.path(3), Link(latency=0.5, loss=losing(0)))
    network.watch(["knows"])
    run = network.run({i: Gossip(2.0) for i in range(3)}, trace=True)
    with pytest.raises(KnowsUnheard, match=r"^agent 1 knows at 2 s what agent 0 began with, and .* hear.* it at all$"):
        check_heard(run, "knows", source=0)
    with pytest.raises(BadInput, match="state = 'know': must be one that the network watched"):
        check_heard(run, "know", source=0)
    with pytest.raises(BadInput, match="source = 7: must be the name of an agent of the run"):
        could_know(run, 7)
    with pytest.raises(BadInput, match="trace = False: must be True"):
        could_know(play(Actor()), 0)
