"""`netsim.testing.search` keeps the promises of docs/testing.md."""

import asyncio
import itertools
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import netsim.testing
from netsim import Agent, BadInput, Faults, Link, NetsimError, Network, RoundAgent, topology
from netsim.faults import (
    ClockSkew,
    Crash,
    Fault,
    Hold,
    Jitter,
    Join,
    LinkChange,
    LinkDown,
    Lose,
    Move,
    Partition,
    Straggler,
)
from netsim.faults.words import appending, as_text, parse
from netsim.testing import Actor, Finding, search
from tests.command import call
from tests.parts import every, message_of

Made = tuple[Network, dict[Any, Agent], dict[str, Any]]


class Beating(Agent):
    """Sends heartbeats, and is ``alone`` after 0.55 s without one from others."""

    alone = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.beat())
            while True:
                try:
                    async with asyncio.timeout(0.55):
                        await self.inbox.get()
                    self.alone = False
                except TimeoutError:
                    self.alone = True

    async def beat(self) -> None:
        while True:
            await self.broadcast("beat")
            await asyncio.sleep(0.1)


def beating(*, seed: int = 0, agents: int = 5) -> Made:
    graph = topology.complete(agents)
    return Network(graph, Link(latency=0.01), seed=seed), {i: Beating() for i in graph}, {"until": 6.0}


def nobody_alone(agents: Mapping[Any, Any]) -> None:
    alone = [name for name, agent in agents.items() if agent.alone]
    assert not alone, f"{alone} alone"


def one(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


def acting(script: Any, agents: int = 2, until: float | None = 10.0) -> Any:
    """Return a `make` whose agents run a script and then do nothing."""

    def make(*, seed: int) -> Made:
        graph = topology.path(agents)
        return Network(graph, seed=seed), {i: Actor(script) for i in graph}, {} if until is None else {"until": until}

    return make


# --- what is found ----------------------------------------------------------------------------------------------------


def test_nothing_found_is_none() -> None:
    assert search(beating, nobody_alone, seeds=range(3)) is None
    assert search(beating, nobody_alone, seeds=[2], faults={"until": 5, "losses": 3}) is None


def test_a_planted_bug_is_shrunk_to_the_faults_that_it_needs_among_many() -> None:
    """Node 2 has three neighbours, so it is alone only if none of them reaches it; all other faults are irrelevant."""

    def make(*, seed: int) -> Made:
        graph = topology.star(4)  # a star with centre 0
        graph.add_edges_from([(1, 2), (2, 3)])
        return Network(graph, Link(latency=0.01), seed=seed), {i: Beating() for i in graph}, {"until": 8.0}

    def second_hears(agents: Mapping[Any, Any]) -> bool:
        return bool(not agents[2].alone)

    needed: list[Fault] = [LinkDown(2, 0, 2.0), LinkDown(1, 2, 2.75, 7.5), Crash(3, 3.0, 6.5, keeps_state=True)]
    others: list[Fault] = [
        LinkDown(0, 1, 0.5),
        Crash(0, 0.5, 1.2),
        Lose(0, 2, 0.3),
        Straggler(1, 0.2, 1.0, 2.0),
        Jitter(0.05, 0.1, 4.0),
        ClockSkew(1, drift=1e-4),
        LinkDown(0, 3, 3.0, 9.0),
        Crash(1, 6.9, 7.0),
    ]
    finding = one(search(make, second_hears, seeds=[5], faults=needed + others))
    assert (finding.seed, len(finding.drawn)) == (5, 11)
    assert finding.faults == Faults([LinkDown(2, 0, 2.0), LinkDown(1, 2, 3.0), Crash(3, 3.0)])
    assert finding.words == "2 cut 2-0; 3 cut 1-2; 3 crash 3"
    assert finding.message == "second_hears does not hold"
    assert round(finding.time, 9) == 2.9 + 0.01 + 0.55
    for place in range(3):
        left = [fault for number, fault in enumerate(finding.faults) if number != place]
        assert search(make, second_hears, seeds=[5], faults=left) is None


def test_without_faults_only_seeds_vary() -> None:
    async def draws(me: Actor) -> None:
        await asyncio.sleep(1)
        me.log.append(me.rng.random())

    def never_large(agents: Mapping[Any, Any]) -> None:
        assert all(number < 0.95 for agent in agents.values() for number in agent.log), "large"

    finding = one(search(acting(draws), never_large))
    assert finding.tried == finding.seed + 1 > 1
    assert (finding.faults, finding.drawn, finding.words, finding.runs) == (Faults(), Faults(), "", 0)
    assert (finding.time, finding.message, finding.kind) == (1.0, "large", "invariant")
    # A search that starts after the finding must continue to the next one, and count its seeds.
    after = one(search(acting(draws), never_large, seeds=itertools.count(finding.seed + 1)))
    assert after.seed == finding.seed + after.tried


def test_faults_that_are_drawn_but_not_needed_are_left_out_all_together() -> None:
    def never(agents: Mapping[Any, Any]) -> bool:
        return bool(agents[0].now < 1.0)

    finding = one(search(beating, never, seeds=[3], faults={"until": 5.0, "crashes": 4, "keeps_state": True}))
    assert (len(finding.drawn), finding.faults, finding.runs) == (4, Faults(), 1)


def test_repeats_are_equal() -> None:
    faults = {"until": 4.0, "mean_duration": 2.0, "partitions": 2, "cuts": 3, "crashes": 1}
    first, second = (one(search(beating, nobody_alone, faults=faults)) for _ in range(2))
    assert first == second
    assert str(first) == str(second)
    assert first.run.trace_hash == second.run.trace_hash
    # The faults of a seed are those of `Faults.draw`.
    graph = topology.complete(5)
    assert first.drawn == Faults.draw(graph, seed=first.seed, **faults)  # type: ignore[arg-type]
    assert first == one(search(beating, nobody_alone, faults=lambda graph, seed: first.drawn, seeds=range(100)))


# --- when an invariant is called --------------------------------------------------------------------------------------


def test_a_state_between_two_events_is_seen_however_short() -> None:
    async def blinks(me: Actor) -> None:
        await asyncio.sleep(2.5)
        me.log.append(1)
        await asyncio.sleep(1e-9)
        me.log.clear()

    finding = one(search(acting(blinks), lambda agents: not agents[1].log, seeds=[0]))
    assert finding.time == finding.run.ended_at == 2.5
    assert finding.run.agents[1].log == [1]  # type: ignore[attr-defined]


def test_a_state_within_an_instant_is_not_one() -> None:
    async def blinks(me: Actor) -> None:
        await asyncio.sleep(2.5)
        me.log.append(1)
        for _ in range(5):
            await asyncio.sleep(0)
        me.log.clear()

    assert search(acting(blinks), lambda agents: not agents[1].log, seeds=[0]) is None


def test_it_is_called_once_an_instant_and_at_the_end() -> None:
    times: list[float] = []

    async def sleeps(me: Actor) -> None:
        await asyncio.sleep(1)
        await asyncio.sleep(0)
        await asyncio.sleep(1)

    def note(agents: Mapping[Any, Any]) -> None:
        times.append(agents[0].now)

    assert search(acting(sleeps, until=None), note, seeds=[0]) is None
    assert times == [0.0, 1.0, 2.0]
    times.clear()
    assert search(acting(sleeps, until=7.0), note, seeds=[0]) is None
    assert times == [0.0, 1.0, 2.0]
    times.clear()

    async def sleeps_long(me: Actor) -> None:
        await asyncio.sleep(10)

    assert search(acting(sleeps_long, until=7.0), note, seeds=[0]) is None
    assert times == [0.0, 7.0]


def test_a_state_at_the_very_end_is_seen() -> None:
    async def ends(me: Actor) -> None:
        await asyncio.sleep(1)
        me.log.append("the end")

    for until in (None, 1.0):
        finding = one(search(acting(ends, until=until), lambda agents: not agents[0].log, seeds=[0]))
        assert finding.time == 1.0

    async def waits(me: Actor) -> None:
        async for _ in me.inbox:
            pass
        me.log.append("nothing can come any more")

    finding = one(search(acting(waits, until=None), lambda agents: not agents[0].log, seeds=[0]))
    assert finding.time == 0.0


def test_what_cleans_up_after_the_end_is_not_seen() -> None:
    async def cleans_up(me: Actor) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            me.log.append("cancelled")

    assert search(acting(cleans_up), lambda agents: not agents[0].log, seeds=[0]) is None


def test_a_crash_whose_attributes_go_back_is_seen() -> None:
    """A crash that loses state resets a counter; the invariant must see this at the instant of the restart."""

    class Counter(Agent):
        count = 0

        async def run(self) -> None:
            while True:
                await asyncio.sleep(0.3)
                self.count += 1

    class Grows:
        def __init__(self) -> None:
            self.last: dict[Any, int] = {}

        def __call__(self, agents: Mapping[Any, Any]) -> None:
            for name, agent in agents.items():
                assert self.last.get(name, 0) <= agent.count, f"{name} went back to {agent.count}"
                self.last[name] = agent.count

    def make(*, seed: int) -> Made:
        graph = topology.path(3)
        return Network(graph, seed=seed), {i: Counter() for i in graph}, {"until": 9.0}

    finding = one(search(make, Grows, faults={"until": 6.0, "crashes": 3, "keeps_state": False, "stragglers": 2}))
    (crash,) = finding.faults
    assert isinstance(crash, Crash)
    assert not crash.keeps_state
    assert finding.time == crash.until
    assert finding.message == f"{crash.agent} went back to 0"
    assert search(make, Grows, faults={"until": 6.0, "crashes": 3, "keeps_state": True}, seeds=range(20)) is None


def test_agents_that_go_through_rounds_together_are_seen_as_others_are() -> None:
    class Steps(RoundAgent):
        value = 0

        def __init__(self) -> None:
            self.count = 3

        async def say(self, k: int) -> None:
            self.value = k

        def hear(self, frames: Any, k: int) -> None:
            self.value = -k

    times: list[tuple[float, int]] = []

    def note(agents: Mapping[Any, Any]) -> None:
        times.append((agents[0].now, agents[0].value))

    def make(*, seed: int) -> tuple[Network, dict[Any, Agent]]:
        return Network(topology.path(2), seed=seed), {i: Steps() for i in range(2)}

    search(make, note, seeds=[0])
    driven = list(times)
    times.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netsim.engine.round_scheduler.ENABLED", False)
        search(make, note, seeds=[0])
    assert times == driven
    assert len(times) > 3


def test_a_class_has_an_object_for_each_run_which_may_remember() -> None:
    made: list[Any] = []

    class Remembers:
        def __init__(self) -> None:
            self.calls = 0
            made.append(self)

        def __call__(self, agents: Mapping[Any, Any]) -> bool:
            self.calls += 1
            return True

    assert search(beating, Remembers, seeds=range(3)) is None
    calls = [each.calls for each in made if each.calls]
    assert len(calls) == 3
    assert min(calls) > 50


def test_what_must_have_happened_by_the_end_is_asked_there_only() -> None:
    async def ends(me: Actor) -> None:
        await asyncio.sleep(2)
        me.log.append("done")

    class Done:
        asked = 0

        def __call__(self, agents: Mapping[Any, Any]) -> None:
            assert self.asked == 0

        def at_end(self, agents: Mapping[Any, Any]) -> None:
            self.asked += 1
            assert all(agent.log for agent in agents.values()), "not all are done"

    assert search(acting(ends), Done, seeds=[0]) is None
    assert search(acting(ends, until=None), Done, seeds=[0]) is None
    finding = one(search(acting(ends, until=1.5), Done, seeds=[0]))
    assert (finding.message, finding.time) == ("not all are done", 1.5)
    finding = one(search(acting(ends), Done, seeds=[0], faults=[Crash(0, 1.0), Lose(0, 1, 0.5)]))
    assert finding.faults == Faults([Crash(0, 1.0)])


def test_an_assertion_without_text_and_numpy_s_booleans() -> None:
    import numpy as np

    def holds(agents: Mapping[Any, Any]) -> None:
        assert not agents

    for invariant in (holds, lambda agents: np.bool_(False), lambda agents: False):
        finding = one(search(beating, invariant, seeds=[1]))
        assert finding.time == 0.0
        assert "\n" not in finding.message
    assert finding.message == "<lambda> does not hold"
    assert search(beating, lambda agents: np.bool_(True), seeds=[1]) is None


# --- errors of agents -------------------------------------------------------------------------------------------------


def test_an_error_of_an_agent_is_a_finding_shrunk_like_others() -> None:
    class Fragile(Beating):
        async def beat(self) -> None:
            while True:
                await self.broadcast("beat")
                await asyncio.sleep(0.1)
                if self.alone:
                    raise ValueError("nobody is there")

    def make(*, seed: int) -> Made:
        graph = topology.path(3)
        return Network(graph, Link(latency=0.01), seed=seed), {i: Fragile() for i in graph}, {"until": 6.0}

    faults = [LinkDown(0, 1, 1.0), Lose(1, 2, 0.5), Straggler(1, 0.1)]
    finding = one(search(make, lambda agents: None, seeds=[4], faults=faults))
    assert finding.kind == "AgentError"
    assert "agent 0" in finding.message
    assert "nobody is there" in finding.message
    assert finding.faults == Faults([LinkDown(0, 1, 1.0)])
    assert finding.time == finding.run.ended_at
    assert 1.5 < finding.time < 1.7


def test_shrinking_does_not_slip_to_another_kind_of_violation() -> None:
    """The finding is an error. Without the fault the invariant is violated later, which is another kind."""

    async def asks(me: Actor) -> None:
        if me.name == 0:
            await asyncio.sleep(1)
            await me.request(1, "q", timeout=0.5)
        await asyncio.sleep(5)
        me.log.append(1)

    def make(*, seed: int) -> Made:
        graph = topology.path(2)
        agents: dict[Any, Agent] = {0: Actor(asks), 1: netsim.testing.Replier(asks)}
        return Network(graph, Link(latency=0.1), seed=seed), agents, {}

    def silent(agents: Mapping[Any, Any]) -> bool:
        return len(agents[0].log) == 0

    finding = one(search(make, silent, seeds=[0], faults=[Lose(0, 1, 0.5), Lose(1, 0, 3.0)]))
    assert (finding.kind, finding.words) == ("AgentError", "0 lose 0-1")
    assert "TimeoutError" in finding.message
    assert one(search(make, silent, seeds=[0])).kind == "invariant"


def test_a_deadlock_is_a_finding() -> None:
    async def waits(me: Actor) -> None:
        if me.name == 0:
            await asyncio.sleep(1)
            await me.broadcast("go")
        else:
            await me.inbox.get()

    finding = one(search(acting(waits, until=None), lambda agents: None, faults=[Lose(0, 1, 0.2)], seeds=[0]))
    assert finding.kind == "Stalled"
    assert "agent 1" in finding.message
    assert len(finding.faults) == 1
    # If the run has an end time, it cannot stall, so there is no finding.
    assert search(acting(waits), lambda agents: None, faults=[Lose(0, 1, 0.2)], seeds=[0]) is None


def test_another_error_of_the_invariant_is_told_with_its_seed() -> None:
    def wrong(agents: Mapping[Any, Any]) -> None:
        agents[0].leader  # noqa: B018

    told = message_of(lambda: search(beating, wrong, seeds=[7]), NetsimError)
    assert told.startswith("invariant wrong raised AttributeError at 0 s with seed 7: ")


# --- what a finding tells ---------------------------------------------------------------------------------------------


def test_a_finding_tells_how_it_is_repeated_and_is() -> None:
    finding = one(search(beating, nobody_alone, seeds=[8], faults=[Partition([1], 1.2345, 3), Lose(0, 1, 2)]))
    assert str(finding).splitlines() == [
        "[1] alone",
        "seed 8, at 1.56 s (1 seed tried; 1 of 2 faults needed; 5 runs to shrink)",
        "  agent 1 is cut off from the others from 1 s",
        'again: make(seed=8) --at "1 partition 1"',
    ]
    network, agents, settings = beating(seed=8)
    assert finding.words is not None
    with appending(finding.words):
        run = network.run(agents, **{**settings, "until": finding.time})
    assert [agent.alone for agent in run.agents.values()] == [  # type: ignore[attr-defined]
        agent.alone  # type: ignore[attr-defined]
        for agent in finding.run.agents.values()
    ]
    assert run.trace_hash == finding.run.trace_hash


def test_the_replay_shows_the_run_up_to_the_violation(tmp_path: Path) -> None:
    finding = one(search(beating, nobody_alone, seeds=[8], faults=[Partition([2], 1.0)]))
    assert finding.run.ended_at == finding.time
    assert finding.run.trace.table()["time_s"].max() <= finding.time
    page = finding.replay(tmp_path / "found.html")
    assert "seed 8: [2] alone" in page.read_text()
    assert finding.replay(tmp_path / "other.html", title="a title").exists()


def test_the_command_of_a_file_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import asyncio\nfrom netsim import Agent, Network, topology\n\n\n"
        "class Counts(Agent):\n    count = 0\n\n    async def run(self):\n"
        "        async for _ in self.rounds(5):\n            await self.broadcast('x')\n"
        "            self.count += len(await self.collect())\n\n\n"
        "def make(*, seed: int = 1):\n    graph = topology.ring(4)\n"
        "    return Network(graph, seed=seed), {i: Counts() for i in graph}\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import mine  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("mine", None)

    def whole(agents: Mapping[Any, Any]) -> None:
        if agents[0].now == 5.0:
            assert sum(agent.count for agent in agents.values()) == 40

    finding = one(search(mine.make, whole, seeds=[6], faults={"until": 3.0, "cuts": 2, "crashes": 1}))
    words = shlex.split(str(finding).splitlines()[-1])
    assert words[:3] == ["again:", "netsim", "run"]
    assert words[4:] == ["--seed", "6", "--at", finding.words]
    assert (tmp_path / "mine.py").samefile(words[3])
    done = call(*words[2:], "--trace", "--out", str(tmp_path / "out"), cwd=Path.cwd())
    assert done.returncode == 0, done.stderr


def make(*, names: tuple[str, ...] = ("a", "b"), eager: bool = True, agents: int = 2, seed: int = 0) -> Made:
    """Return a network like a file's ``make``; its first two nodes are called ``names``."""
    graph = nx.relabel_nodes(topology.complete(agents), dict(enumerate(names)))
    return Network(graph, seed=seed), {i: Beating() for i in graph}, {"until": 3.0}


def again(finding: Finding | None) -> str:
    return str(one(finding)).rpartition("again: ")[2]


@pytest.mark.parametrize("name", ["$HOME", '"q"', "`ls`", "a\\", "it's", "!x", "two words", "two\nlines", "ä"])
def test_the_shell_takes_any_name_as_it_is(name: str) -> None:
    finding = one(search(partial(make, names=(name, "b")), nobody_alone, seeds=[0], faults=[Crash(name, 1.0)]))
    words = again(finding).rpartition(" --at ")[2]
    assert "\n" not in words
    script = f"printf '%s|' {words}"
    text = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout.decode()
    assert list(parse([text.removesuffix("|")], nx.Graph([(name, "b")]))) == [Crash(name, 1.0)]


def test_settings_of_numpy_are_plain_in_the_command() -> None:
    settings: dict[str, Any] = {"eager": np.False_, "agents": np.int64(3)}
    line = again(search(partial(make, **settings), lambda agents: False, seeds=[0]))
    assert line.endswith("test_search.py --no-eager --agents 3 --seed 0")


def test_the_file_of_a_decorated_make_is_its_own() -> None:
    # The wrapper function is defined in the file of contextlib, but the file of ``make`` must be reported.
    decorated = suppress_nothing()(make)
    assert "test_search.py --seed 0" in again(search(decorated, lambda agents: False, seeds=[0]))


@contextmanager
def suppress_nothing() -> Iterator[None]:
    yield


def test_an_invariant_cannot_change_what_the_next_call_is_given() -> None:
    def forgets(agents: Any) -> None:
        agents.pop(0)

    with pytest.raises(NetsimError, match="invariant forgets raised AttributeError at 0 s with seed 0"):
        search(beating, forgets, seeds=[0])


def test_a_script_without_words_has_none() -> None:
    finding = one(search(beating, nobody_alone, seeds=[1], faults=[Partition([0], at=1.0), Jitter(0.2)]))
    assert finding.words == "1 partition 0"
    finding = one(search(beating, nobody_alone, seeds=[1], faults=[Jitter(20.0)]))
    assert finding.words is None
    assert str(finding).endswith("again: make(seed=1) with the finding's faults added to the network's")


GRAPH = topology.complete(6)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ([], ""),
        ([Crash(3, 1.25)], "1.25 crash 3"),
        ([Crash(3, 1.25, keeps_state=True)], "1.25 crash 3"),
        ([Crash(3, 1, 2, keeps_state=True), Crash(2, 1, 2)], "1 crash 3 until 2 keeping state; 1 crash 2 until 2"),
        ([LinkDown(3, 4, 0.1 + 0.2)], "0.30000000000000004 cut 3-4"),
        ([LinkDown(3, 4, 1, 2), Lose(4, 3, 0.5)], "0.5 lose 4-3; 1 cut 3-4 until 2"),
        ([Partition([3, 1], 2, 5), Straggler(1, 1e-5)], "0 delay 1 by 1e-05; 2 partition 1,3 until 5"),
        ([LinkDown(3, 4, 1, one_way=True)], "1 cut 3->4"),
        ([LinkDown(3, 4, 1, 2, drops=True)], "1 cut 3-4 until 2 dropping frames"),
        ([Partition([3], 1, one_way=True, drops=True)], "1 partition 3-> dropping frames"),
        (
            [LinkChange(3, 4, 1, 2, loss=0.1 + 0.2, rate=1e6), Hold(3, 4, 1, one_way=True), Hold(2, None, 1)],
            "1 change 3-4 to loss=0.30000000000000004,rate=1e+06 until 2; 1 hold 3->4; 1 hold 2",
        ),
        ([LinkChange(3, 4, 1, crc=False)], None),
        ([Hold(3, None, 1, one_way=True)], None),
        ([Crash(3, 1), Jitter(0.1)], None),
    ],
)
def test_faults_in_words_are_those_faults_again(faults: list[Fault], words: str | None) -> None:
    assert as_text(faults, GRAPH) == words
    if words:
        assert str(parse(words, GRAPH)) == str(Faults(faults))


def test_names_that_cannot_be_told_apart_have_no_words() -> None:
    graph: Any = nx.Graph([(1, "1"), (1, "a;b")])
    assert as_text([Crash("1", 1)], graph) is None
    assert as_text([Crash("a;b", 1)], graph) is None
    assert as_text([Crash((0, 1), 1)], nx.grid_2d_graph(2, 2)) == "1 crash (0, 1)"


# --- shrinking --------------------------------------------------------------------------------------------------------


def test_simpler_faults_are_taken_where_they_do() -> None:
    faults: Iterable[Fault]
    # Shrinking prefers a cut of both directions, no end, and few decimals, if these suffice.
    finding = one(
        search(
            lambda *, seed: beating(seed=seed, agents=2),
            nobody_alone,
            seeds=[1],
            faults=[LinkDown(0, 1, 1.23456, 3.456, one_way=True)],
        )
    )
    assert finding.faults == Faults([LinkDown(0, 1, 1.0)])
    # Shrinking also tries a partition that cuts off fewer nodes.
    faults = [Partition([1, 2], 1.5, 3.0)]
    finding = one(search(lambda *, seed: beating(seed=seed, agents=3), nobody_alone, seeds=[1], faults=faults))
    assert finding.faults == Faults([Partition([2], 2.0)])
    assert finding.message == "[2] alone"


def test_a_crash_that_must_end_keeps_its_end_and_if_it_can_its_state() -> None:
    async def starts(me: Actor) -> None:
        me.log.append(me.now)
        await asyncio.sleep(100)

    def once(agents: Mapping[Any, Any]) -> bool:
        return all(agent.log[-1] == 0.0 for agent in agents.values())

    finding = one(search(acting(starts), once, seeds=[0], faults=[Crash(1, 1.26, 1.44), Crash(0, 2.0)]))
    assert finding.words is None or finding.words.endswith("keeping state")
    assert finding.faults == Faults([Crash(1, 1.0, 1.4, keeps_state=True)])


def test_faults_of_the_network_itself_stay() -> None:
    def make(*, seed: int) -> Made:
        graph = topology.path(3)
        network = Network(graph, Link(latency=0.01), seed=seed, faults=[LinkDown(0, 1, 1.0)])
        return network, {i: Beating() for i in graph}, {"until": 5.0}

    def middle_hears(agents: Mapping[Any, Any]) -> bool:
        return bool(not agents[1].alone)

    assert search(make, middle_hears, seeds=[0]) is None
    finding = one(search(make, middle_hears, seeds=[0], faults=[LinkDown(1, 2, 2.0), Crash(0, 0.5, 0.9)]))
    assert finding.faults == Faults([LinkDown(1, 2, 2.0)])
    scene = finding.run.trace.scene
    assert scene is not None
    assert [span["text"] for span in scene.faults] == [
        "link 0 ↔ 1 is down from 1 s",
        "link 1 ↔ 2 is down from 2 s",
    ]


def test_kinds_from_elsewhere_and_those_with_no_end_are_shrunk_as_well() -> None:
    async def starts(me: Actor) -> None:
        while True:
            me.log.append(me.now)
            await asyncio.sleep(0.5)

    def at_once(agents: Mapping[Any, Any]) -> bool:
        return agents[0].now < 1.0 or bool(agents[1].log)

    faults: list[Fault] = [
        Join(1, at=4.123),
        Straggler(0, 0.01, 0.5, 2.0),
        Jitter(0.2, 1.0, 2.0),
        ClockSkew(0, drift=1e-4),
    ]
    finding = one(search(acting(starts), at_once, seeds=[1], faults=faults))
    assert finding.faults == Faults([Join(1, at=4.0)])
    # Only a network with positions can have moves.
    with pytest.raises(BadInput, match="Move: must go with a network"):
        search(beating, nobody_alone, faults=[Move(0, (0.0, 0.0), 1.0)])


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_a_run_without_violation_costs_hardly_more_than_the_run_itself() -> None:
    def plain() -> None:
        for seed in range(1):
            network, agents, settings = beating(seed=seed)
            network.run(agents, **settings)

    def searched() -> None:
        assert search(beating, lambda agents: True, seeds=range(1)) is None

    def calls(work: Callable[[], None]) -> int:
        """Return the number of function calls, a measure of cost that is the same on any machine."""
        kinds: Counter[str] = Counter()
        sys.setprofile(lambda frame, event, argument: kinds.update([event]))
        try:
            work()
        finally:
            sys.setprofile(None)
        return kinds["call"] + kinds["c_call"]

    assert calls(searched) < 1.2 * calls(plain)


def test_a_search_in_a_program_that_is_run_by_another_leaves_its_runs_to_itself() -> None:
    """An agent may run another network; the search must not inspect that inner run."""

    class Runs(Agent):
        inner = 0.0

        async def run(self) -> None:
            graph = topology.path(2)
            self.inner = Network(graph).run({i: Actor() for i in graph}).ended_at
            await asyncio.sleep(1)

    seen: list[int] = []

    def note(agents: Mapping[Any, Any]) -> None:
        seen.append(len(agents))

    assert search(lambda *, seed: (Network(topology.path(3)), {i: Runs() for i in range(3)}), note, seeds=[0]) is None
    assert set(seen) == {3}


# --- bad input --------------------------------------------------------------------------------------------------------


async def waits(agents: Any) -> bool:
    return True


class TwoArguments:
    def __init__(self, graph: Any) -> None: ...


class NotCallable: ...


GOOD = beating(seed=0)


@every(
    ("arguments", "told"),
    [
        ({"seeds": []}, "seeds: must be at least one"),
        ({"seeds": 5}, "seeds = 5: must be whole numbers"),
        ({"seeds": "123"}, "seeds = '123': must be whole numbers"),
        ({"seeds": [-1]}, "seed = -1: must be a whole number >= 0"),
        ({"make": 3}, "make = 3: must be a function that returns"),
        ({"make": lambda: GOOD}, "must be callable as make(seed=…)"),
        ({"make": lambda seed: None}, "make: must return (network, agents), or (network, agents, {arguments of"),
        ({"make": lambda seed: GOOD[0]}, "not Network"),
        ({"make": lambda seed: (GOOD[1], GOOD[0])}, "not (dict, Network)"),
        ({"make": lambda seed: (GOOD[0], [1])}, "not (Network, list)"),
        ({"make": lambda seed: (*GOOD[:2], 5.0)}, "not (Network, dict, float)"),
        ({"make": lambda seed: (*GOOD[:2], {"workers": 2})}, "argument of Network.run = 'workers': must be one of"),
        ({"make": lambda seed: (GOOD[0], {})}, "agents: must be one for each node of the graph"),
        ({"invariant": None}, "invariant = None: must be a function of the agents"),
        ({"invariant": lambda: True}, "must be callable as invariant(agents)"),
        ({"invariant": lambda agents, time: True}, "must be callable as invariant(agents)"),
        ({"invariant": waits}, "must be a function of the agents that is not async"),
        ({"invariant": TwoArguments}, "must be a class whose objects are made without arguments"),
        ({"invariant": NotCallable}, "must be a class with a method __call__(self, agents)"),
        ({"invariant": lambda agents: 0}, "invariant <lambda>, result = 0: must be True, False or None"),
        ({"faults": {"until": 5.0, "crashs": 1}}, "faults = 'crashs': must be one of"),
        ({"faults": {"crashes": 1}}, "faults: must have until"),
        ({"faults": {"until": 5.0, "seed": 3}}, "faults = 'seed': must be one of"),
        ({"faults": {"until": 5.0, "joins": 6}}, "joins = 6: must be at most 5"),
        ({"faults": {"until": 5.0, "crashes": 1, "keeps_state": 1}}, "keeps_state = 1: must be True or False"),
        ({"faults": lambda graph: []}, "must be callable as faults(graph, seed)"),
        ({"faults": lambda graph, seed: 3}, "faults = 3: must be a list of faults"),
        ({"faults": ["1 crash 2"]}, "faults = '1 crash 2': must be a list of faults"),
        ({"faults": [Crash(17, 1.0)]}, "Crash: agent = 17: must be a node of the graph"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: dict[str, Any], told: str) -> None:
    usual: dict[str, Any] = {"make": lambda seed: beating(seed=seed), "invariant": lambda agents: True, "seeds": [0]}
    assert told in message_of(lambda: search(**{**usual, **arguments}), BadInput)


def test_a_make_that_does_not_repeat_is_told() -> None:
    numbers = itertools.count()

    async def other(me: Actor) -> None:
        await asyncio.sleep(1 + me.log[0])

    def make(*, seed: int) -> Made:
        agents: dict[Any, Agent] = {0: Actor(other)}
        agents[0].log.append(next(numbers))  # type: ignore[attr-defined]
        return Network(topology.path(1)), agents, {}

    told = message_of(lambda: search(make, lambda agents: agents[0].now == 0.0, seeds=[3]), NetsimError)
    assert told.startswith("the run of seed 3 does not repeat: make must")


def test_how_far_it_is_stands_on_a_terminal_only(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netsim.seed_search._PROGRESS_DELAY_S", 0.0)
        assert search(beating, lambda agents: True, seeds=range(2)) is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "more"),
    [("holds", {}), ("changes", {"loss": (0.95, 1.0)}), ("partitions", {"one_way": True})],
)
def test_links_that_are_held_change_or_are_cut_one_way_are_drawn_and_shrunk(kind: str, more: dict[str, Any]) -> None:
    faults = {"until": 4.0, "duration": (1.5, 2.0), kind: 4, **more}
    found = search(partial(beating, agents=2), nobody_alone, faults=faults)
    assert found is not None
    [fault] = found.faults
    assert fault.plural == kind
    assert getattr(fault, "one_way", False) is False
    network, agents, settings = beating(seed=found.seed, agents=2)
    assert found.words is not None
    with appending(found.words):
        again = network.run(agents, **{**settings, "until": found.time})
    assert again.trace_hash == found.run.trace_hash
