"""`netsim.testing.simulate` and the pytest plugin behave as stated in docs/testing.md and in their docstrings."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from netsim import Agent, AgentError, BadInput, Link, Network, Stalled, topology
from netsim.checkers import invoke, no_lost_update
from netsim.faults import Lose
from netsim.pytest_plugin import CALL, Call
from netsim.strategies import faults, networks
from netsim.testing import Actor, Listener, Talker, search, simulate
from tests.command import ROOT, python
from tests.parts import every, message_of


class Till(Agent):
    """Node 0 counts sales; it loses one if it reads the next sale before it has written the count of the last one."""

    def __init__(self) -> None:
        self.total = 0

    async def run(self) -> None:
        if self.name == 0:
            async with asyncio.TaskGroup() as group:
                async for frame in self.inbox:
                    group.create_task(self.add(frame.sender))
        await asyncio.sleep(0.001 * self.name)
        with invoke(self, "add", 1) as sale:
            await self.send(0, "add")
            await self.inbox.get()
            sale.ok()

    async def add(self, client: Any) -> None:
        total = self.total
        await asyncio.sleep(0.001)
        self.total = total + 1
        await self.send(client, "added")


def tills() -> Network:
    return Network(topology.star(3), Link(latency=0.25))


async def counts(network: Network) -> None:
    agents = {name: Till() for name in network.graph}
    await network.run_async(agents, until=3.0)
    assert agents[0].total == 2, f"{agents[0].total} counted"


def failure(test: Any, *values: Any, **arguments: Any) -> tuple[BaseException, list[str]]:
    """Return the error of a test that must fail, and the error's notes."""
    with pytest.raises(BaseException) as raised:
        test(*values, **arguments)
    notes: list[str] = getattr(raised.value, "__notes__", str(raised.value).splitlines())
    return raised.value, "\n".join(notes).splitlines()


@pytest.fixture(autouse=True)
def uncalled() -> Iterator[None]:
    """Hide the running test from `simulate`, as without the plugin; these tests run pytest themselves where needed."""
    token = CALL.set(None)
    yield
    CALL.reset(token)


@contextmanager
def called(**own: Any) -> Iterator[None]:
    """Pretend that pytest runs a test with the given options."""
    token = CALL.set(Call("tests/test_it.py::test_it", None, None, None, None)._replace(**own))
    try:
        yield
    finally:
        CALL.reset(token)


def test_it_finds_and_shrinks_what_search_does() -> None:
    def make(*, seed: int) -> Any:
        network = Network(topology.star(3), Link(latency=0.25), seed=seed)
        return network, {name: Till() for name in network.graph}, {"until": 3.0}

    class CountsTwo:
        def __call__(self, agents: Any) -> None: ...

        def at_end(self, agents: Any) -> None:
            assert agents[0].total == 2, f"{agents[0].total} counted"

    @every("how", [{"order": True}, {"faults": {"until": 2.0, "crashes": 2}}])
    def compared(how: Any) -> None:
        found = search(make, CountsTwo, **how)
        assert found is not None
        assert found.faults or found.order
        error, notes = failure(simulate(**how)(counts), tills())
        assert str(error).splitlines()[0] == found.message
        assert notes[:-1] == found.story.splitlines()[:-1]

    compared()


def test_the_options_it_prints_repeat_the_run_alone() -> None:
    test = simulate(order=True, faults={"until": 2.0, "stragglers": 1})(counts)
    with called():
        error, notes = failure(test, tills())
    words = shlex.split(notes[-1])
    assert words[:3] == ["again:", "pytest", "tests/test_it.py::test_it"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    asked = {"seed": int(given["--netsim-seed"]), "at": given["--netsim-at"], "order": given["--netsim-order"]}
    assert asked["order"]
    with called(**asked):
        again, repeated = failure(test, tills())
    assert str(again).splitlines()[0] == str(error).splitlines()[0]
    assert "(1 seed tried)" in repeated[0]
    assert repeated[-1] == notes[-1]
    with called(**asked | {"order": ""}):
        test(tills())
    with called(seed=asked["seed"]):
        _, shrunk = failure(test, tills())
    assert shrunk[-1] == notes[-1]


def test_faults_in_words_take_the_place_of_drawn_ones() -> None:
    ran: list[Any] = []

    @simulate(faults={"until": 2.0, "crashes": 2})
    def test(network: Network) -> None:
        agents = {name: Till() for name in network.graph}
        ran.append(network.run(agents, until=3.0))
        assert agents[0].total == 2

    words = "0.0005 cut 0-1 until 0.8"
    with called(seed=4, at=words):
        _, notes = failure(test, tills())
    (run,) = ran
    assert run.ledger.table()[["delivered", "link_down"]].sum().tolist() == [2, 1]
    assert notes[-1].endswith(f'--netsim-seed 4 --netsim-at "{words}" --netsim-order ""')


def test_each_run_is_that_of_its_seed_in_the_time_of_the_test() -> None:
    hashes: dict[int, str] = {}
    nows: list[float] = []

    @simulate(seeds=(seed for seed in range(3, 8)))
    async def test(seed: int, network: Network) -> None:
        network.at(0.5, lambda: network.set_link(0, 1, up=False))
        agents = {0: Talker([(0.1 * k, k) for k in range(9)]), 1: Listener()}
        async with asyncio.TaskGroup() as group:
            running = group.create_task(network.run_async(agents))
            await asyncio.sleep(0.25)
            nows.append(agents[1].now)
            assert all(time <= 0.25 for time in agents[1].times)
        hashes[seed] = running.result().trace_hash

    network = Network(topology.path(2), Link(latency=0.01, loss=0.4), seed=99)
    test(network=network)
    test(network=network)
    assert nows == [0.25] * 10

    def alone(seed: int) -> str:
        other = Network(topology.path(2), Link(latency=0.01, loss=0.4), seed=seed)
        other.at(0.5, lambda: other.set_link(0, 1, up=False))
        return other.run({0: Talker([(0.1 * k, k) for k in range(9)]), 1: Listener()}).trace_hash

    # Actions that the test schedules are removed after each seed, so they do not accumulate in the fixture's network.
    assert hashes == {seed: alone(seed) for seed in range(3, 8)}
    assert network.run({0: Talker([(0.7, 1)]), 1: Listener()}).ledger.table()["link_down"].sum() == 0


def raises_nothing() -> None:
    with pytest.raises(KeyError):
        pass


async def bad(me: Actor) -> None:
    raise KeyError("x")


async def deaf(me: Actor) -> None:
    await me.inbox.get()


@every(
    ("script", "after", "kind", "message"),
    [
        (bad, None, AgentError, "agent 0 raised KeyError at 0 s (test_simulate.py"),
        (deaf, None, Stalled, "at 0 s every task waits"),
        (None, raises_nothing, pytest.fail.Exception, "DID NOT RAISE"),
        (None, lambda: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_what_raises_fails_the_test_as_itself(script: Any, after: Any, kind: Any, message: str) -> None:
    @simulate(seeds=range(2))
    async def test() -> None:
        network = Network(topology.path(2))
        async with asyncio.TaskGroup() as group:
            group.create_task(network.run_async({0: Actor(script), 1: Actor()}))
        if after is not None:
            after()

    error, notes = failure(test)
    assert type(error) is kind
    assert message in str(error)
    assert notes[0] == "seed 0, at 0 s (1 seed tried)"
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    # If the test's own code raises, its frame must come first, without frames of netsim or asyncio before it.
    assert frames[2:3] == ([] if script else ["test"])


def test_a_broken_invariant_of_netsim_is_told_without_code() -> None:
    test = simulate(order=True, invariant=no_lost_update(lambda agents: agents[0].total))

    async def body(network: Network) -> None:
        await network.run_async({name: Till() for name in network.graph}, until=3.0)

    with called():
        error, notes = failure(test(body), tills())
    assert isinstance(error, pytest.fail.Exception)
    assert not error.pytrace
    assert notes[0].startswith("1 in place of 2: add 1 by 1")
    error, _ = failure(test(body), tills())
    assert isinstance(error, AssertionError)


def test_the_replay_is_written_where_the_options_say(tmp_path: Path) -> None:
    with called(folder=tmp_path / "new"):
        _, notes = failure(simulate(order=True)(counts), tills())
    (page,) = (tmp_path / "new").iterdir()
    assert notes[-1] == f"replay: {page}"
    assert page.name == "test_it-test_it.html"
    assert "comes before" in page.read_text(encoding="utf-8")
    (tmp_path / "file").write_text("")
    with called(folder=tmp_path / "file"):
        _, notes = failure(simulate(order=True)(counts), tills())
    assert notes[-1].startswith("replay: not written (")


async def nothing(network: Network) -> None: ...


async def twice(network: Network) -> None:
    await network.run_async({name: Till() for name in network.graph}, until=1.0)
    await network.run_async({name: Till() for name in network.graph}, until=1.0)


def over_workers(network: Network) -> None:
    network.run({name: Till() for name in network.graph}, until=1.0, workers=2)


@every(
    ("make", "message"),
    [
        (lambda: simulate(seeds=50), "seeds = 50: must be whole numbers, such as range(100)"),  # type: ignore[arg-type]
        (lambda: simulate(seeds=[])(counts)(tills()), "seeds: must be at least one"),
        (lambda: simulate(seeds=None), "seeds = None: must be whole numbers, such as range(100)"),  # type: ignore[arg-type]
        (lambda: simulate(seeds="12")(counts)(tills()), "seeds = '12': must be whole numbers"),  # type: ignore[arg-type]
        (lambda: simulate(order="all")(counts)(tills()), "order = 'all': must be one of"),  # type: ignore[arg-type]
        (lambda: simulate(faults={"crashes": 1})(counts)(tills()), "faults: must have until"),
        (lambda: simulate(invariant=3)(counts)(tills()), "invariant = 3: must be a function of the agents"),  # type: ignore[arg-type]
        (lambda: simulate()(nothing)(tills()), "nothing: must run a network"),
        (lambda: simulate()(twice)(tills()), "network: must be the only one that runs in a simulated test"),
        (lambda: simulate()(over_workers)(tills()), "workers = 2: must be left out in a search or a simulated test"),
        (lambda: simulate()(Till), "test = <class"),
        (lambda: simulate()(given(st.none())(counts)), "test = 'counts': must be without given(…)"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(make: Any, message: str) -> None:
    assert message_of(make, BadInput).startswith(message)


def test_a_run_that_has_not_begun_can_be_shown() -> None:
    # Test frameworks print the variables in a traceback's frames, so a result must have a repr before its run.
    with pytest.raises(BadInput, match="must be the only one") as caught:
        simulate()(twice)(tills())
    assert any("not begun" in repr(entry.frame.f_locals.get("result")) for entry in caught.traceback)


def test_a_skip_is_a_skip() -> None:
    @simulate()
    async def test(network: Network) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        test(tills())


def test_the_network_has_its_own_backend_for_runs_of_agents() -> None:
    inner: list[str] = []

    async def nests(me: Actor) -> None:
        inner.append(Network(topology.path(2), seed=4).run({0: Actor(), 1: Talker([(0, 1)])}).trace_hash)

    @simulate(seeds=range(2))
    def test() -> None:
        Network(topology.path(2)).run({0: Actor(nests), 1: Actor()})

    test()
    assert inner == [Network(topology.path(2), seed=4).run({0: Actor(), 1: Talker([(0, 1)])}).trace_hash] * 2


# --- strategies -------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(network=networks(faults=partial(faults, until=3.0), round_period=0.5))
def test_drawn_networks_run(network: Network) -> None:
    assert nx.is_connected(network.graph)
    assert 2 <= len(network.graph) <= 6
    assert all(0 <= getattr(fault, "at", 0) < 3 for fault in network.faults)
    run = network.run({name: Talker([(0.4, name)]) for name in network.graph}, until=3.0)
    assert run.ended_at <= 3.0


def test_drawn_networks_shrink_to_the_simplest() -> None:
    few = settings(max_examples=20, database=None)
    network = find(networks(faults=partial(faults, until=3.0)), lambda network: True, settings=few)
    assert repr(network) == "<Network of 2 nodes, links 0-1; Link(); seed 0>"
    network = find(networks(link=Link(mtu=9)), lambda network: len(network.graph) > 2, settings=few)
    assert (sorted(network.graph.edges), network.link.mtu) == ([(0, 1), (1, 2)], 9)
    (fault,) = find(faults(topology.path(3), until=3.0), lambda script: len(script) > 0, settings=few)
    assert fault == Lose(0, 1, 0.0)


@every(
    ("make", "message"),
    [
        (lambda: networks(most_nodes=1), "most_nodes = 1: must be a whole number >= 2"),
        (lambda: faults(topology.path(3), until=0.1), "until = 0.1: must be a number > 0.2"),
        (lambda: faults(nx.empty_graph(3), until=1.0), "graph = "),
    ],
)
def test_strategies_refuse_in_a_line(make: Any, message: str) -> None:
    assert message_of(make, BadInput).startswith(message)


# --- pytest -----------------------------------------------------------------------------------------------------------

SUITE = """
import asyncio

import pytest

import netsim
from netsim import Link, Network, topology
from netsim.testing import simulate


class Till(netsim.Agent):
    def __init__(self):
        self.total = 0

    async def run(self):
        if self.name == 0:
            async with asyncio.TaskGroup() as group:
                async for frame in self.inbox:
                    group.create_task(self.add())
        await asyncio.sleep(0.001 * self.name)
        await self.send(0, "add")

    async def add(self):
        total = self.total
        await asyncio.sleep(0.001)
        self.total = total + 1


@pytest.fixture
def network():
    return Network(topology.star(3), Link(latency=0.25))


class TestTill:
    @pytest.mark.parametrize("clients", ["two of them"])
    @simulate(seeds=range(20), order=True)
    async def test_counts(self, clients, network):
        tills = {name: Till() for name in network.graph}
        await network.run_async(tills, until=3.0)
        assert tills[0].total == 2


@simulate(seeds=range(3))
async def test_right(network):
    await network.run_async({name: Till() for name in network.graph}, until=3.0)


@pytest.mark.asyncio
async def test_of_asyncio():
    await asyncio.sleep(0)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a folder with a test suite and the package metadata by which pytest finds the plugin."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    metadata = tmp_path / "packages" / "netsim_emulator-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: netsim-emulator\nVersion: 0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{lines}\n")
    (tmp_path / "suite" / "part").mkdir(parents=True)
    (tmp_path / "suite" / "part" / "test_it.py").write_text(SUITE)
    (tmp_path / "suite" / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return tmp_path / "suite"


def run_suite(suite: Path, *words: str) -> str:
    """Run a suite in a new process, and return the output."""
    path = os.pathsep.join([str(suite.parent / "packages"), str(ROOT)])
    command = [sys.executable, "-W", "ignore", "-m", "pytest", *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_plugin_imports_nothing_of_netsim_until_it_is_used() -> None:
    loaded = python(
        """
        import sys
        import netsim.pytest_plugin
        print(*sorted(each for each in sys.modules if each.startswith(("netsim", "numpy", "pytest", "hypothesis"))))
        """
    )
    assert loaded.split() == ["netsim", "netsim._version", "netsim.pytest_plugin"]


@pytest.mark.slow
def test_a_failing_test_prints_the_command_that_repeats_it(suite: Path) -> None:
    said = run_suite(suite, "-o", "asyncio_mode=strict")
    assert "1 failed, 2 passed" in said
    # Only lines with an E are read: under CI, pytest repeats the output in its summary.
    told = [line.removeprefix("E").strip() for line in said.splitlines() if line.startswith("E")]
    (again,) = (line for line in told if "again: pytest" in line)
    (replay,) = (line for line in told if "replay: " in line)
    assert Path(replay.removeprefix("replay: ")).parent == suite / ".pytest_cache" / "d" / "netsim"
    assert Path(replay.removeprefix("replay: ")).stat().st_size > 100_000
    words = shlex.split(again)[2:]
    assert words[0] == "part/test_it.py::TestTill::test_counts[two of them]"
    repeated = run_suite(suite, *words, "-o", "asyncio_mode=auto", "--netsim-replays", "pages")
    assert "assert 1 == 2" in repeated
    assert "(1 seed tried)" in repeated
    assert again in repeated
    assert (suite / "pages").is_dir()


@pytest.mark.slow
def test_the_page_shows_what_pytest_prints(suite: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text().partition("## Neighbours that follow")[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (suite / "test_till.py").write_text("\n\n".join(blocks))
    said = run_suite(suite, "test_till.py")
    assert "1 failed, 1 passed" in said
    (shown,) = re.findall(r"^```console\n\$ pytest test_till.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for line in shown.splitlines():
        # Compare the line only up to an object's address, the folder, or an omission, which differ.
        first = re.split(r" at 0x|/home/me/till|…", line)[0]
        assert first in said, line


@pytest.mark.slow
def test_it_works_on_several_cores_and_without_hypothesis_and_cache(suite: Path) -> None:
    (suite.parent / "packages" / "hypothesis.py").write_text("raise ImportError('hypothesis is not installed')")
    said = run_suite(suite, "-n", "2", "-o", "asyncio_mode=auto", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    assert "1 failed, 2 passed" in said
    assert "again: pytest" in said
    assert "replay:" not in said


@pytest.mark.slow
def test_options_that_cannot_be_are_refused(suite: Path) -> None:
    assert "--netsim-at: must go with --netsim-seed" in run_suite(suite, "--netsim-at", "")
    assert "--netsim-seed = -1: must be a whole number >= 0" in run_suite(suite, "--netsim-seed=-1")
