"""Rows sampled at a time interval: their times and their content; sampling changes no result."""

import asyncio
import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import Agent, BadInput, Link, NetsimError, Network, Run, Stalled, latency, loss, testing, topology
from netsim.core.records import CAUSES
from netsim.studies import Study, catalogue
from netsim.studies.folder import load, partial_text
from netsim.studies.terminal import Reporter
from tests.command import on_the_other_core
from tests.fuzzers.networks import check_sampled
from tests.parts import averaging, every, message_of, on_loop, spread

pytestmark = pytest.mark.usefixtures("all_undrawn")


class Beacon(Agent):
    """Sends at intervals of its own, and counts the received frames each time it wakes."""

    def __init__(self, count: int = 10, pause: float = 0.25) -> None:
        self.count, self.pause = count, pause
        self.heard = 0

    async def run(self) -> None:
        for i in range(self.count):
            await self.broadcast("x", [i, float(self.rng.random())])
            await asyncio.sleep(self.pause)
            while len(self.inbox):
                await self.inbox.get()
                self.heard += 1


class Reader(Agent):
    """Counts each frame on arrival."""

    def __init__(self) -> None:
        self.heard = 0

    async def run(self) -> None:
        async for _ in self.inbox:
            self.heard += 1


def test_a_run_tells_rounds_only_where_its_rows_are_rounds() -> None:
    assert repr(beacons(sample=0.1)).startswith("<Run of 4 agents, 28 samples, 2.8 s: ")
    assert repr(beacons()).startswith("<Run of 4 agents, 2.8 s: ")
    assert repr(Network(topology.ring(4)).run({i: testing.Rounder(3) for i in range(4)})).startswith(
        "<Run of 4 agents, 3 rounds, 3 s: "
    )


def test_messages_of_a_sampled_run_count_samples(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def broken(agents: Mapping[Any, Any]) -> float:
        return 1 / 0 if agents[0].now > 0.7 else 0.0

    study = Study("one", {}, reporter=Reporter())
    with pytest.raises(NetsimError, match="after sample 4: division by zero") as caught:
        study.run("one", Network(topology.ring(4)), {i: Beacon() for i in range(4)}, [broken], 4, sample=0.2)
    assert "one: sample 3 of 4" in capsys.readouterr().err
    study.cut_short(caught.value, "why")
    study.save(tmp_path / "out")
    assert partial_text(load(tmp_path / "out", partial=True)) == "it is partial, one after sample 3: why"


def heard(agents: Mapping[Any, Any]) -> float:
    return sum(agent.heard for agent in agents.values())


def beacons(link: Link | None = None, **settings: Any) -> Run:
    graph = topology.ring(4)
    agents = {i: Beacon(pause=0.25 + i / 100) for i in graph}
    return Network(graph, link, seed=3, inbox_limit=5).run(agents, [heard], **settings)


def rows(run: Run, *columns: str) -> list[list[float]]:
    return run.rounds[list(columns)].to_numpy().tolist()


# --- when -------------------------------------------------------------------------------------------------------------


def test_a_row_at_each_interval_and_one_at_the_end() -> None:
    run = beacons(sample=1.0)
    assert run.ended_at == pytest.approx(2.8)
    assert rows(run, "round", "time_s") == [[1, 1.0], [2, 2.0], [3, run.ended_at]]
    assert run.rounds["transmissions"].iloc[-1] == run.ledger.transmissions == 40
    assert run.rounds["heard"].iloc[-1] == heard(run.agents)


@pytest.mark.parametrize(("until", "times"), [(2.0, [1.0, 2.0]), (2.5, [1.0, 2.0, 2.5]), (0.5, [0.5])])
def test_the_last_row_is_the_end_and_no_row_is_there_twice(until: float, times: list[float]) -> None:
    assert beacons(sample=1.0, until=until).rounds["time_s"].tolist() == times


def test_a_run_that_takes_no_time_has_one_row() -> None:
    run = Network(topology.path(2)).run({0: Beacon(1, 0.0), 1: Beacon(1, 0.0)}, sample=1.0)
    assert rows(run, "round", "time_s", "transmissions") == [[1, 0.0, 2]]


@pytest.mark.parametrize("sample", [1, np.float32(0.5), Fraction(1, 4), 0.1, 7e-3])
def test_rows_are_at_multiples(sample: Any) -> None:
    times = beacons(sample=sample).rounds["time_s"].tolist()
    assert times[:-1] == pytest.approx([k * float(sample) for k in range(1, len(times))], rel=1e-12)
    assert len(times) == math.ceil(2.8 / float(sample))


def test_without_it_there_are_no_rows_where_no_agent_takes_part_in_rounds() -> None:
    assert beacons().rounds.empty


def test_progress_and_probes_are_told_of_each_row() -> None:
    rows_seen: list[int] = []
    run = beacons(sample=0.5, progress=rows_seen.append)
    assert rows_seen == run.rounds["round"].tolist() == [1, 2, 3, 4, 5, 6]


# --- what it shows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [True, False])
def test_what_arrives_at_the_very_time_has_arrived(reads: bool) -> None:
    """A frame that arrives at the time of a row counts, whether or not it is read; a waiting reader has handled it."""

    class Sleeper(Reader):
        async def run(self) -> None:
            await asyncio.sleep(3.0)

    graph = topology.path(2)

    def agents() -> dict[int, Agent]:
        return {0: Beacon(1, 3.0), 1: Reader() if reads else Sleeper()}

    run = Network(graph, Link(latency=1.0)).run(agents(), [heard], sample=1.0)
    assert rows(run, "time_s", "delivered", "heard")[0] == [1.0, 1, float(reads)]
    # An arrival that is later than the row's time only by rounding is counted in the row; a later one is not.
    for delay, count in ((math.nextafter(1.0, 2.0), 1), (1.0 + 1e-6, 0)):
        run = Network(graph, Link(latency=delay)).run(agents(), sample=1.0)
        assert rows(run, "time_s", "delivered")[:2] == [[1.0, count], [2.0, 1]]


def test_all_that_is_due_has_happened_however_long_it_takes() -> None:
    """The row of an instant comes after all zero-latency messages, callbacks and tasks of that instant."""

    class Relay(Agent):
        def __init__(self) -> None:
            self.heard = 0

        async def run(self) -> None:
            if self.name == 0:
                await asyncio.sleep(1.0)
                await self.send(1, "x", 0)
                return
            frame = await self.inbox.get()
            for _ in range(5):
                await asyncio.sleep(0)
            await asyncio.create_task(asyncio.sleep(0))
            self.heard += 1
            if self.name != 3:
                await self.send(self.neighbors[1], "x", frame.payload + 1)
            await asyncio.sleep(0.5)

    network = Network(topology.path(4))
    acted: list[str] = []
    network.at(1.0, lambda: acted.append("action"))

    def actions(agents: object) -> int:
        return len(acted)

    run = network.run({i: Relay() for i in range(4)}, [heard, actions], sample=1.0)
    assert rows(run, "time_s", "transmissions", "heard", "actions") == [[1.0, 3, 3, 1], [1.5, 3, 3, 1]]


def test_the_probe_sees_the_time_of_the_row() -> None:
    def now(agents: Mapping[int, Any]) -> float:
        return float(agents[0].now)

    run = Network(topology.path(2)).run({0: Beacon(), 1: Beacon()}, [now], sample=0.4)
    assert run.rounds["now"].tolist() == run.rounds["time_s"].tolist()


# --- no agent notices -------------------------------------------------------------------------------------------------

LINKS = [
    Link(latency=0.25),
    Link(latency=latency.uniform(0.0, 0.9), loss=loss.gilbert_elliott(0.2, 3), duplicate=0.2),
    Link(latency=0.1, rate=2e3, queue=3, corrupt=0.1),
]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("sample", [0.25, 0.03, 1.1, 100.0])
def test_the_run_is_the_same_with_and_without(link: Link, sample: float) -> None:
    plain, sampled = beacons(link, trace=True), beacons(link, sample=sample, trace=True)
    assert sampled.trace_hash == plain.trace_hash
    assert sampled.trace.table().equals(plain.trace.table())
    assert sampled.ended_at == plain.ended_at
    assert heard(sampled.agents) == heard(plain.agents)
    assert sampled.ledger.table().equals(plain.ledger.table())
    total = sampled.ledger.table([]).iloc[0]
    assert total["offered"] + total["duplicated"] == total[[*CAUSES, "in_flight"]].sum()


class Rounder(Agent):
    """Takes part in rounds, and sends both within and between them."""

    def __init__(self, strict: bool = True) -> None:
        self.strict = strict
        self.heard = 0
        self.log: list[Any] = []

    async def run(self) -> None:
        async for k in self.rounds(30, keep_late=not self.strict):
            await self.broadcast("x", k)
            self.log += [(f.sender, f.payload, f.round, k) for f in await self.collect()]
            self.heard = len(self.log)
            await self.send(self.neighbors[0], "word", k)
        await asyncio.sleep(0.5)


def rounders(link: Link, **settings: Any) -> Run:
    graph = topology.ring(5)
    agents = {i: Rounder(bool(i % 2)) for i in graph}
    return Network(graph, link, round_period=0.1, seed=3).run(agents, [heard], **settings)


ROUND_LINKS = [Link(), Link(latency=latency.uniform(0.0, 0.2), loss=0.1), Link(latency=0.1)]


@every("link", ROUND_LINKS)
@every("sample", [0.1, 0.3, 0.07, 0.05])
def test_agents_in_rounds_do_not_notice_either(link: Link, sample: float) -> None:
    plain, sampled = rounders(link), rounders(link, sample=sample)
    assert sampled.trace_hash == plain.trace_hash
    assert [agent.log for agent in sampled.agents.values()] == [agent.log for agent in plain.agents.values()]
    assert len(sampled.rounds) == math.ceil(round(3.5 / sample, 9))


@pytest.mark.parametrize("link", ROUND_LINKS)
def test_a_row_at_a_rounds_end_is_the_rounds(link: Link) -> None:
    """Sampling every n round periods gives every n-th row of the run's table of rounds."""
    plain, sampled = rounders(link).rounds, rounders(link, sample=5 * 0.1).rounds
    assert len(sampled) == 7
    assert sampled["round"].tolist() == list(range(1, 8))
    columns = [name for name in plain if name != "round"]
    assert sampled[columns].iloc[:6].equals(plain[columns].iloc[4::5].reset_index(drop=True))


def test_it_does_not_keep_a_run_going() -> None:
    class Waits(Agent):
        async def run(self) -> None:
            await asyncio.sleep(2.5)
            await self.inbox.get()

    def stalled() -> Any:
        return Network(topology.path(2)).run({0: Waits(), 1: Waits()}, sample=1.0)

    assert message_of(stalled, Stalled).startswith("at 2.5 s every task waits for what can never come")
    run = Network(topology.path(2)).run({0: Beacon(2), 1: Reader()}, sample=1.0)
    assert run.ended_at == 0.5


def test_two_runs_on_one_loop_are_each_sampled() -> None:
    async def both() -> list[Run]:
        networks = [Network(topology.path(2)) for _ in range(2)]
        agents: list[dict[int, Agent]] = [{0: Beacon(4, 0.5), 1: Reader()} for _ in networks]
        runs = zip(networks, agents, (0.5, 0.8), strict=True)
        found = await asyncio.gather(*(network.run_async(own, [heard], sample=s) for network, own, s in runs))
        assert not asyncio.get_running_loop().clock.onlookers  # type: ignore[attr-defined]
        return found

    first, second = on_loop(both)
    assert first.rounds["time_s"].tolist() == [0.5, 1.0, 1.5, 2.0]
    assert second.rounds["time_s"].tolist() == pytest.approx([0.8, 1.6, 2.0])
    assert first.trace_hash == second.trace_hash


def test_on_the_wall_clock_rows_come_about_when_they_are_due() -> None:
    run = Network(topology.path(2)).run({0: Beacon(4, 1.0), 1: Reader()}, sample=0.8, clock="wall", pace=50)
    assert run.rounds["time_s"].tolist()[:4] == pytest.approx([0.8, 1.6, 2.4, 3.2])
    assert run.rounds["time_s"].iloc[-1] == pytest.approx(run.ended_at, rel=0.1)
    assert run.rounds["transmissions"].iloc[-1] == 4


def test_rows_are_the_same_with_either_core() -> None:
    there = on_the_other_core("from tests.netsim.engine.test_sample import all_rows; print(all_rows())")
    assert there == f"{all_rows()}\n"


def all_rows() -> str:
    """Return the rows of runs on all kinds of link, as CSV text."""
    text = "".join(beacons(link, sample=0.17).rounds.to_csv() for link in LINKS)
    return text + "".join(rounders(link, sample=0.17).rounds.to_csv() for link in ROUND_LINKS)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [0, -1.0, math.nan, math.inf, True, "1", 1e-12, [1.0]])
def test_what_is_no_interval_is_refused(sample: Any) -> None:
    assert message_of(lambda: beacons(sample=sample), BadInput).startswith("sample = ")


def test_an_interval_far_below_a_round_is_refused() -> None:
    network = Network(topology.path(2), round_period=1e6)
    message = message_of(lambda: network.run({0: Beacon(), 1: Beacon()}, sample=1e-3), BadInput)
    assert message == "sample = 0.001: must be a number >= 0.01"


def test_too_many_rows_are_refused_before_the_run_or_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    message = message_of(lambda: beacons(sample=1e-6, until=10.0), BadInput)
    assert message == "sample = 1e-06: must be >= 1e-05, or until=10 gives too many rows"
    monkeypatch.setattr("netsim.engine.observers.MOST_ROWS", 100)
    message = message_of(lambda: beacons(sample=0.01), BadInput)
    assert message == "sample = 0.01: must be larger: there were 100 rows by 1 s"


def test_a_probe_that_raises_ends_the_run_at_its_row() -> None:
    calls = itertools.count(1)

    def third(agents: object) -> float:
        return 1 / (3 - next(calls))

    def run() -> Any:
        return Network(topology.path(2)).run({0: Beacon(), 1: Beacon()}, [third], sample=0.5)

    assert message_of(run, NetsimError).startswith("probe third raised ZeroDivisionError after sample 3")


def test_a_study_can_have_its_rows_so() -> None:
    study = Study("mine", {})
    study.run("beacons", Network(topology.path(2)), {0: Beacon(4, 0.5), 1: Reader()}, [heard], 4, sample=0.5)
    assert study.rounds["time_s"].tolist() == [0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_do_not_notice(seed: int) -> None:
    check_sampled(seed)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("every", "rounds"), [(1, [*range(1, 11)]), (4, [1, 4, 8, 10]), (5, [1, 5, 10]), (99, [1, 10])]
)
def test_rows_of_some_rounds_are_those_of_all(every: int, rounds: list[int], workers: int) -> None:
    def rows(every: int) -> list[list[float]]:
        network, agents = averaging(Link(loss=0.2))
        return network.run(agents, [spread], every=every, workers=workers).rounds.values.tolist()

    assert rows(every) == [row for row in rows(1) if row[0] in rounds]


def test_every_is_a_flag_of_every_study() -> None:
    study = catalogue.find_study("coke").execute(rounds=7, agents=4, features=5, algorithms="DKLA,COKE", every=3)
    assert study.rounds["round"].tolist() == [1, 3, 6, 7] * 2
    assert study.settings["every"] == 3
    with pytest.raises(BadInput, match=r"^every = 0: must be"):
        catalogue.find_study("coke").execute(every=0)
    with pytest.raises(BadInput, match=r"^every = 3: must be 1 with RFF-DOKL, whose measures add up over all rounds"):
        catalogue.find_study("online").execute(rounds=7, features=5, every=3)
    # If a study defines a flag with this name itself, the study's flag takes precedence.
    (own,) = [each for each in catalogue.find_study("neural").flags if each.name == "every"]
    assert own.description.endswith("[default: 10]")
