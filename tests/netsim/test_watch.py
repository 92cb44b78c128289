"""`Network.watch`: the recorded states of agents and the times of their changes (docs/replay.md)."""

import asyncio
import math
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import Agent, BadInput, Link, NetsimError, Network, Run, topology
from netsim.faults import ClockSkew, Crash
from netsim.replay.frames import frames_of
from netsim.replay.render import parts
from netsim.studies import find_study
from netsim.testing import Actor
from tests.command import on_the_other_core
from tests.fuzzers.watched import check_watched
from tests.parts import message_of, on_loop, slow
from tests.recorded import states_at


class Heard(Agent):
    """Counts received frames."""

    def __init__(self) -> None:
        self.heard: Any = 0
        self.none: Any = None

    async def run(self) -> None:
        async for k in self.rounds(4):
            if k % 2:
                await self.broadcast("m", k)
            self.heard = self.heard + len(await self.collect())


def played(watch: Any, **settings: Any) -> Run:
    graph = topology.path(3)
    network = Network(graph, Link(loss=0.3, latency=0.1), seed=1)
    network.watch(watch)
    return network.run({i: Heard() for i in graph}, **settings)


def changes(run: Run, agent: Any, column: str = "x") -> list[tuple[float, float]]:
    """Return the times and values at which an agent's state changed."""
    mine = run.states[run.states["agent"] == agent]
    return list(zip(mine["time_s"], mine[column], strict=True))


def alone(agent: Agent, watch: Any = ("x",), actions: dict[float, Callable[[], None]] | None = None) -> Run:
    """Run an agent beside an idle one; neither needs to have the watched attribute at the start."""

    class Silent(Agent):
        x = 0.0

        async def run(self) -> None:
            pass

    network = Network(topology.path(2))
    network.watch(watch)
    for time, action in (actions or {}).items():
        network.at(time, action)
    return network.run({0: agent, 1: Silent()})


# --- each change, at its instant --------------------------------------------------------------------------------------


def test_it_keeps_each_agents_state_at_the_beginning_and_each_change() -> None:
    run = played(["heard", "none"])
    table = run.states
    assert list(table.columns) == ["time_s", "agent", "sent", "heard", "none"]
    assert table.head(3).to_numpy()[:, :4].tolist() == [[0.0, agent, 0, 0.0] for agent in range(3)]
    assert table["none"].isna().all()
    assert table["time_s"].is_monotonic_increasing
    assert table.groupby("agent")["heard"].is_monotonic_increasing.all()
    assert not table.groupby("agent")["heard"].diff().eq(0).any()
    for row in run.rounds.itertuples():
        assert table[table["time_s"] <= row.time_s].groupby("agent")["heard"].last().sum() == row.delivered
    assert table.groupby("agent")["heard"].last().tolist() == [agent.heard for agent in run.agents.values()]


def test_a_change_is_known_at_the_instant_at_which_it_comes() -> None:
    class Sleeper(Agent):
        x = 0.0

        async def run(self) -> None:
            for pause in (0.25, 0.5, 1.0):
                await asyncio.sleep(pause)
                self.x = self.now

    assert changes(alone(Sleeper()), 0) == [(0.0, 0.0), (0.25, 0.25), (0.75, 0.75), (1.75, 1.75)]


def test_of_one_instant_the_last_is_kept_and_what_was_each_time_it_sent() -> None:
    class Moody(Agent):
        def __init__(self) -> None:
            self.x = 0

        async def run(self) -> None:
            await asyncio.sleep(1)
            for self.x in (1, 2):
                pass
            await self.broadcast("m", self.x)
            self.x = 3
            await asyncio.sleep(0)
            await self.send(1, "m", self.x)
            self.x = 4
            await asyncio.sleep(0)
            self.x = 5
            await asyncio.sleep(1)

    table = alone(Moody()).states
    mine = table[table["agent"] == 0][["time_s", "sent", "x"]].to_numpy().tolist()
    assert mine == [[0.0, 0, 0], [1.0, 0, 2], [1.0, 1, 3], [1.0, 2, 5]]


def test_whatever_runs_an_agents_code_is_noticed() -> None:
    class Busy(Agent):
        def __init__(self) -> None:
            self.x: dict[str, float] = {}

        def put(self, what: str) -> None:
            self.x[what] = self.now

        def answer(self, frame: Any) -> None:
            self.put("answer")

        async def task(self) -> None:
            await asyncio.sleep(0.3)
            self.put("task")

        async def run(self) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(0.2, self.put, "callback")
            loop.call_later(0.1, loop.call_soon_threadsafe, self.put, "from a thread")
            task = asyncio.create_task(self.task())
            try:
                async for _ in self.rounds(3):
                    self.put("opening")
                    await self.collect()
                    self.put("closing")
                await task
                await asyncio.sleep(10)
            finally:
                self.put("cleanup")

    class Asker(Agent):
        x: Any = ()

        async def run(self) -> None:
            await asyncio.sleep(0.45)
            await self.request(0, "ask", None)
            await asyncio.sleep(6)

    graph = topology.path(2)
    network = Network(graph, Link(latency=0.05), faults=[Crash(agent=0, at=4.0)])
    network.watch({"x": lambda agent: sum(hash((key, value)) % 997 for key, value in dict(agent.x).items())})
    busy = Busy()
    network.at(3.5, lambda: busy.x.update(action=3.5))
    run = network.run({0: busy, 1: Asker()}, until=6.0)
    whens = {0.0, *(time for time, _ in changes(run, 0))}
    assert set(busy.x.items()) == {
        ("from a thread", 0.1), ("callback", 0.2), ("task", 0.3), ("answer", 0.5), ("opening", 2.0), ("closing", 3.0),
        ("action", 3.5), ("cleanup", 4.0),
    }  # fmt: skip
    assert whens == {0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 3.5, 4.0}


@pytest.mark.parametrize("faults", [[], [ClockSkew(0, offset=0.25)]])
def test_what_a_crash_in_the_midst_of_a_round_changes_is_noticed(faults: list[Any]) -> None:
    class Waiter(Agent):
        x = 0

        async def run(self) -> None:
            try:
                async for _ in self.rounds(9):
                    await self.collect()
            finally:
                self.x = -1

    graph = topology.path(2)
    network = Network(graph, faults=[*faults, Crash(agent=0, at=0.5)])
    network.watch(["x"])
    assert changes(network.run({i: Waiter() for i in graph}, until=3), 0) == [(0.0, 0.0), (0.5, -1.0)]


def test_what_depends_on_others_is_seen_with_the_next_row() -> None:
    class Writer(Agent):
        async def run(self) -> None:
            await asyncio.sleep(1.3)
            board[0] = 7

    board: dict[int, int] = {}
    network = Network(topology.path(2))
    network.watch({"x": lambda agent: board.get(agent.name)})
    run = network.run({0: Actor(lambda me: asyncio.sleep(5)), 1: Writer()}, sample=0.5)
    assert changes(run, 0)[1:] == [(1.5, 7.0)]


def test_a_run_without_rounds_or_rows_has_states_too(tmp_path: Path) -> None:
    class Pinger(Agent):
        def __init__(self) -> None:
            self.x = 0

        async def run(self) -> None:
            for _ in range(3):
                await asyncio.sleep(0.25)
                await self.broadcast("ping", None)
            async for _ in self.inbox:
                self.x += 1

    network = Network(topology.path(2), Link(latency=0.1))
    network.watch(["x"])
    run = network.run({i: Pinger() for i in range(2)}, trace=True)
    assert len(run.rounds) == 0
    assert changes(run, 0) == [(0.0, 0.0), (0.75, 2.0), (0.85, 3.0)]
    assert run.replay(tmp_path / "page.html").stat().st_size > 10_000


# --- what is shown of whom, as each message leaves --------------------------------------------------------------------


def logged(monkeypatch: pytest.MonkeyPatch, attribute: str) -> dict[int, list[tuple[float, float]]]:
    """Log the time and state of each agent whenever it sends; return the logs, keyed by `id` of the agent."""
    log = defaultdict(list)

    def noting(name: str) -> Callable[..., Any]:
        sends = getattr(Agent, name)

        def noted(agent: Any, *args: Any, **settings: Any) -> Any:
            value = getattr(agent, attribute)
            log[id(agent)].append((agent.now, math.nan if value is None else float(value)))
            return sends(agent, *args, **settings)

        return noted

    for name in ("broadcast", "send", "request", "reply"):
        monkeypatch.setattr(Agent, name, noting(name))
    return log


@pytest.mark.parametrize(
    ("study", "parameters", "attribute"),
    [
        ("flooding", {}, "hops"),
        ("election", {}, "leader"),
        ("generals", {"wars": 10}, "attacks"),
        ("averaging", {"agents": 4}, "value"),
    ],
)
def test_frames_leave_from_agents_that_are_shown_as_they_were(
    study: str, parameters: dict[str, Any], attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logged(monkeypatch, attribute)
    done = find_study(study).execute(trace=True, **parameters)
    messages = 0
    for run in done.runs.values():
        states, columns = run.states, frames_of(run.trace).columns
        for number, agent in enumerate(run.agents.values()):
            mine = states[states["agent"] == agent.name]
            for message, (time, value) in enumerate(log[id(agent)]):
                known = mine[mine["sent"] <= message].iloc[-1]
                assert known["time_s"] <= time
                assert known[attribute] == value or (math.isnan(known[attribute]) and math.isnan(value))
                messages += 1
            # In the replay, frames of one instant have the colour of their sender's state at the first of them.
            starts = columns["start"][columns["sender"] == number]
            first = dict(reversed(log[id(agent)]))
            for time in set(starts.tolist()):
                picture = states_at(states, columns, time).loc[agent.name, attribute]
                assert picture == first[time] or (math.isnan(picture) and math.isnan(first[time]))
    assert messages > 100


def test_no_general_attacks_before_that_is_decided() -> None:
    run = find_study("generals").execute(trace=True, messages=1, wars=3, loss=0.0).runs["1-message"]
    decided = [(k + at, attacks) for k in range(3) for at, attacks in ((0.0, 0.0), (0.01, 1.0))]
    assert changes(run, 1, "attacks") == decided


# --- nothing else changes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_radio", [False, True])
@pytest.mark.parametrize("with_faults", [False, True])
@pytest.mark.parametrize("more", [0, slow(1)])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**50))
def test_in_random_networks_each_mood_is_known_when_it_comes(
    more: int, seed: int, with_faults: bool, on_radio: bool
) -> None:
    check_watched(seed + more, with_faults, on_radio)


def test_watching_changes_nothing() -> None:
    run, plain = played(["heard"], trace=True), played(None)
    assert run.trace_hash == plain.trace_hash
    assert run.rounds.equals(plain.rounds)
    with pytest.raises(BadInput, match=r"^watch = None: must be given to Network.watch for agents' states to be kept$"):
        _ = plain.states


def test_both_cores_keep_the_same() -> None:
    ours = watched()
    assert on_the_other_core("from tests.netsim.test_watch import watched; print(watched())") == f"{ours}\n"
    assert ours.count("\n") > 50


def watched() -> str:
    """Return the watched states of random networks as text."""
    runs = [check_watched(seed, faults).run for seed in range(5) for faults in (False, True)]
    return "".join(run.states.to_csv() for run in runs)


def test_by_samples_and_from_a_coroutine() -> None:
    sampled, plain = played(["heard"], sample=0.5), played(["heard"])
    assert sampled.states.equals(plain.states)
    graph = topology.path(3)

    async def main() -> Run:
        network = Network(graph)
        network.watch(["heard"])
        return await network.run_async({i: Heard() for i in graph})

    assert len(asyncio.run(main()).states) > 3


def test_two_runs_on_one_loop_keep_their_own() -> None:
    async def one(size: int) -> Run:
        network = Network(topology.path(size))
        network.watch(["heard"])
        return await network.run_async({i: Heard() for i in range(size)})

    async def both() -> list[Run]:
        return await asyncio.gather(one(3), one(2))

    found = on_loop(both)
    for run, size in zip(found, (3, 2), strict=True):
        network = Network(topology.path(size))
        network.watch(["heard"])
        assert run.states.equals(network.run({i: Heard() for i in range(size)}).states)


# --- what is watched --------------------------------------------------------------------------------------------------


def test_what_is_watched_may_have_a_name_of_its_own_and_be_any_number() -> None:
    run = played({"a": lambda agent: np.float32(agent.heard), "b": lambda agent: np.array([agent.heard]), "c": "heard"})
    table = run.states
    assert (table["a"] == table["c"]).all()
    assert (table["b"] == table["c"]).all()
    assert played([lambda agent: True]).states["<lambda>"].tolist() == [1.0] * 3


class Late(Agent):
    """Has no state until some time after its start."""

    def __init__(self, after: float) -> None:
        self.after = after

    async def run(self) -> None:
        await asyncio.sleep(self.after)
        self.x = 1
        await asyncio.sleep(3)


def test_what_an_agent_has_only_later_is_none_until_then() -> None:
    assert [time for time, _ in changes(alone(Late(0.5)), 0)] == [0.0, 0.5]
    network = Network(topology.path(2))
    network.watch(["x"])
    with pytest.raises(BadInput, match=r"^watch, x of agent 0 at 1 s: 'Late' object has no attribute 'x'$"):
        network.run({i: Late(1.5) for i in range(2)}, sample=1.0)


class Voter(Agent):
    """One of two classes of agents in a network; it has the state ``role``."""

    def __init__(self) -> None:
        self.role = "follower"

    async def run(self) -> None:
        async for k in self.rounds(3):
            self.role = "leader" if k == 2 else "follower"
            await self.broadcast("m", k)
            await self.collect()


class Acceptor(Agent):
    """The other class, which has the state ``promised``, and no ``role``."""

    def __init__(self) -> None:
        self.promised = 0

    async def run(self) -> None:
        async for _ in self.rounds(3):
            self.promised += len(await self.collect())


@pytest.mark.parametrize("workers", [1, 2])
def test_an_agent_without_an_attribute_shows_none(workers: int, tmp_path: Path) -> None:
    network = Network(topology.path(4))
    network.watch({"role": "role", "promised": "promised", "twice": lambda agent: 2 * agent.promised})
    agents: dict[int, Agent] = {i: Voter() if i % 2 else Acceptor() for i in range(4)}
    run = network.run(agents, trace=True, workers=workers)
    for name, states in run.states.groupby("agent"):
        if name % 2:
            assert states["role"].iloc[-1] == "follower"
            assert set(states["role"]) == {"leader", "follower"}
            assert states[["promised", "twice"]].isna().all(axis=None)
        else:
            assert states["role"].isna().all()
            assert states["promised"].iloc[-1] == {0: 3, 2: 6}[name]
            assert (states["twice"] == 2 * states["promised"]).all()
    run.states.to_csv(tmp_path / "states.csv", index=False)
    lines = (tmp_path / "states.csv").read_text().splitlines()
    assert lines[0] == "time_s,agent,sent,role,promised,twice"
    assert {line.split(",", 3)[3] for line in lines if line.startswith("0.0,")} >= {",0.0,0.0", "follower,,"}
    values = parts(run.trace, states=run.states)[0]["states"]["values"]
    assert values["role"]["codes"][0] == -1
    assert values["promised"].count(None) == values["role"]["codes"].count(0) + values["role"]["codes"].count(1)
    for name in ("page.html", "map.png", "lines.svg"):
        path = tmp_path / name
        run.replay(path) if path.suffix == ".html" else run.picture(path)
        assert path.stat().st_size > 1000


@pytest.mark.parametrize("workers", [1, 2])
def test_a_misspelled_attribute_is_refused_though_classes_differ(workers: int) -> None:
    network = Network(topology.path(4))
    network.watch(["role", "promise"])
    with pytest.raises(
        BadInput, match=r"^watch, promise of agent 0 at \d s: 'Acceptor' object has no attribute 'promise'$"
    ):
        network.run({i: Voter() if i % 2 else Acceptor() for i in range(4)}, workers=workers)


def test_a_mistake_in_a_function_is_no_missing_attribute() -> None:
    network = Network(topology.path(2))
    network.watch({"wrong": lambda agent: agent.role.size})
    with pytest.raises(BadInput, match=r"^watch, wrong of agent 1 at 1 s: 'str' object has no attribute 'size'$"):
        network.run({0: Acceptor(), 1: Voter()})


def test_what_no_agent_ever_had_is_refused_at_the_end_of_a_run_without_rows() -> None:
    with pytest.raises(BadInput, match=r"^watch, y of agent 0 at 3.5 s: 'Late' object has no attribute 'y'$"):
        alone(Late(0.5), ["y"])


@pytest.mark.parametrize(
    ("watch", "message"),
    [
        ("heard", "watch = 'heard': must be names of attributes or functions of an agent: {column: source}, or a list"),
        ([], "watch = []: must be names of attributes or functions of an agent: {column: source}, or a list"),
        ({"sent": "heard"}, "watch, column = 'sent': must be a name that is not in use"),
        (["heard", "heard"], "watch, column = 'heard': must be a name that is not in use"),
        ({"a\nb": "heard"}, r"watch, column = 'a\nb': must be printable text"),
        ({"a": 3}, "watch['a'] = 3: must be the name of an attribute, or a function of an agent"),
        (["herd"], "watch, herd of agent 0 at 1 s: 'Heard' object has no attribute 'herd'"),
        (
            {"a": lambda agent: b"b"},
            "watch, a of agent 0 = b'b': must be a number, True or False, text, or a set, list, tuple or dict of such "
            "(None for none), at 0 s",
        ),
    ],
)
def test_what_cannot_be_watched_is_refused_in_one_line(watch: Any, message: str) -> None:
    assert message_of(lambda: played(watch), BadInput) == message


def test_a_function_that_raises_is_named() -> None:
    def error(agent: Agent) -> float:
        return 1 / 0

    with pytest.raises(NetsimError, match=r"^watch, error of agent 0 raised ZeroDivisionError at 0 s: "):
        played([error])


def test_a_function_that_raises_as_an_agent_sends_is_not_the_agents_error() -> None:
    class Sender(Agent):
        x = 0

        async def run(self) -> None:
            await asyncio.sleep(1)
            self.x = -1
            try:
                await self.broadcast("m", None)
            except Exception:
                self.x = 1

    with pytest.raises(NetsimError, match=r"^watch, root of agent 0 raised ValueError at 1 s: "):
        alone(Sender(), {"root": lambda agent: math.sqrt(agent.x)})


def test_infinity_and_nan_are_kept_and_huge_numbers_are_infinite() -> None:
    table = played({"a": lambda agent: 10**400, "b": lambda agent: math.nan}).states
    assert np.isinf(table["a"]).all()
    assert table["b"].isna().all()
    assert len(table) == 3


def test_states_travel_with_the_run() -> None:
    from netsim import core

    run = played({"a": lambda agent: agent.heard})
    if core.NAME == "python":
        assert pickle.loads(pickle.dumps(run)).states.equals(run.states)
