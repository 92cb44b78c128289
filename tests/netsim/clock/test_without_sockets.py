"""Virtual time without sockets, threads or a system event loop, as in a browser (docs/design.md)."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from netsim import Agent, Link, Network, Run, Stalled, topology
from netsim.clock.clock import new_loop
from netsim.testing import Actor
from tests.command import ROOT
from tests.netsim.clock.on_the_loop import story
from tests.parts import on_loop

PAGE = ROOT / "docs" / "first_agent.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def guarded() -> Iterator[None]:
    """Raise an error at every call that creates a socket pair or starts a thread."""

    def refuse(*arguments: Any, **settings: Any) -> NoReturn:
        raise RuntimeError("can't start new thread, nor open a socket")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "socketpair", refuse)
        patch.setattr(socket, "socket", refuse)
        patch.setattr(threading.Thread, "start", refuse)
        yield


class Mean(Agent):
    """Averages with its neighbours, sends one neighbour a request, and starts a job in a thread."""

    def __init__(self, value: float) -> None:
        self.value = value

    def answer(self, frame: Any) -> float:
        return self.value

    async def run(self) -> None:
        async for _ in self.rounds(5):
            await self.broadcast("state", self.value)
            self.value += sum(frame.payload for frame in await self.collect())
            with suppress(TimeoutError):
                await self.request(self.neighbors[0], "value", None, timeout=0.5)
            self.value /= await asyncio.to_thread(lambda: 3.0)


def network() -> tuple[Network, dict[Any, Agent]]:
    graph = topology.ring(4)
    return Network(graph, Link(loss=0.2, latency=0.01), seed=3), {i: Mean(i) for i in graph}


def run_here() -> Run:
    chain, agents = network()
    return chain.run(agents, trace=True)


async def run_inside() -> Run:
    """Run a network from inside a running loop, as a notebook cell does."""
    before = asyncio.current_task(), asyncio.get_running_loop()
    run = run_here()
    assert (asyncio.current_task(), asyncio.get_running_loop()) == before
    await asyncio.sleep(0)
    return run


async def run_awaited() -> Run:
    chain, agents = network()
    return await chain.run_async(agents, trace=True)


def inside(main: Callable[[], Any]) -> Run:
    """Run a function inside an asyncio loop that was created before the guards were set."""
    with asyncio.Runner() as runner:
        runner.get_loop()
        with guarded():
            run: Run = runner.run(main())
    return run


def hashes_of_the_page() -> list[str]:
    """Run the examples of the documentation page; return the trace hash of each run."""
    found: list[str] = []
    run = Network.run

    def traced(*arguments: Any, **settings: Any) -> Run:
        done = run(*arguments, **settings, trace=True)
        found.append(done.trace_hash)
        return done

    namespace: dict[str, object] = {"__name__": "first_agent"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "run", traced)
        for text in BLOCK.findall(PAGE.read_text()):
            exec(compile(text, PAGE.name, "exec"), namespace)
    return found


def test_the_first_agents_run_without_sockets_and_threads() -> None:
    expected = hashes_of_the_page()
    assert len(expected) == 5
    with guarded():
        assert hashes_of_the_page() == expected


def test_every_way_to_run_needs_neither() -> None:
    expected = run_here().trace_hash
    with guarded():
        assert run_here().trace_hash == expected
        assert on_loop(run_awaited).trace_hash == expected
    assert inside(run_inside).trace_hash == expected
    assert inside(run_awaited).trace_hash == expected


def test_a_run_inside_a_running_loop_is_in_the_same_thread() -> None:
    class Looks(Agent):
        async def run(self) -> None:
            self.thread = threading.current_thread()

    async def main() -> None:
        agents = {0: Looks(), 1: Looks()}
        Network(topology.path(2)).run(agents)
        assert agents[0].thread is threading.current_thread()

    asyncio.run(main())


def test_an_agent_may_run_a_network() -> None:
    """The inner run's tasks must be attributed to its own agents, not to the outer agent that waits for it."""

    class Nests(Agent):
        async def run(self) -> None:
            await asyncio.sleep(2.0)
            self.inner = run_here()
            await asyncio.sleep(1.0)

    agents = {0: Nests(), 1: Nests()}
    run = Network(topology.path(2)).run(agents)
    assert run.ended_at == 3.0
    assert {agent.inner.trace_hash for agent in agents.values()} == {run_here().trace_hash}


def test_what_fails_inside_leaves_the_loop_outside_as_it_was() -> None:
    async def main() -> str:
        with pytest.raises(Stalled, match=r"agent 0 waits for Event.wait\(\)"):
            Network(topology.path(1)).run({0: Actor(lambda me: asyncio.Event().wait())})
        return await asyncio.sleep(0.001, "goes on")

    assert asyncio.run(main()) == "goes on"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("depth", [1, 2])
def test_one_interrupt_ends_the_run_inside_a_running_loop(depth: int) -> None:
    """One Ctrl-C suffices inside another loop, also for a run that an agent of an outer run waits for."""

    class Interrupted(Agent):
        cleaned_up = False

        async def run(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.sleep(1e9)
            finally:
                self.cleaned_up = True

    agents = {0: Interrupted()}

    async def start(me: Any = None) -> None:
        Network(topology.path(1)).run(agents)

    async def main() -> None:
        await start() if depth == 1 else Network(topology.path(1)).run({0: Actor(start)})

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
        assert agents[0].cleaned_up
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


# --- what takes sockets and threads gets them -------------------------------------------------------------------------


def test_the_loop_opens_nothing_before_it_must() -> None:
    for clock, sockets in (("virtual", 0), ("wall", 1)):
        loop = new_loop(clock)
        assert len(loop.clock.get_map()) == sockets
        loop.close()


def test_a_thread_wakes_a_loop_that_has_no_sockets() -> None:
    async def main() -> str:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        thread = threading.Timer(0.05, loop.call_soon_threadsafe, [woken.set])
        thread.start()
        await woken.wait()
        return "woken"

    assert on_loop(main) == "woken"


def test_a_thread_may_have_woken_it_before() -> None:
    async def main() -> str:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        loop.call_soon_threadsafe(len, "")
        await asyncio.sleep(1.0)
        threading.Timer(0.05, loop.call_soon_threadsafe, [woken.set]).start()
        await woken.wait()
        return "woken"

    assert on_loop(main) == "woken"


def test_a_loop_that_nothing_wakes_stands_still() -> None:
    with guarded(), pytest.raises(Stalled, match="waits for what can never come"):
        on_loop(lambda: asyncio.Event().wait())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_handler_of_signals_is_called() -> None:
    async def main() -> str:
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, called.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        await called.wait()
        return "called"

    assert on_loop(main) == "called"


# --- in Node's Pyodide ------------------------------------------------------------------------------------------------

START = """
import { readFileSync } from "fs";
const { loadPyodide } = await import(process.env.NETSIM_PYODIDE + "/pyodide/pyodide.mjs");
const python = await loadPyodide();
python.FS.mkdir("/clone");
python.FS.mount(python.FS.filesystems.NODEFS, { root: process.argv[1] }, "/clone");
console.log(await python.runPythonAsync(readFileSync(process.argv[2], "utf8")));
"""

INSIDE = """
import runpy, sys, types
from unittest.mock import MagicMock

# The package of npm has no numpy, and so only the loop's own modules are tried.
for name in ("numpy", "numpy.typing", "netsim.engine.build", "netsim.engine.process", "netsim.engine.runtime",
             "netsim.run"):
    sys.modules[name] = MagicMock()
for name in ("netsim", "netsim.clock", "netsim.core", "netsim.engine", "netsim.util"):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = ["/clone/" + name.replace(".", "/")]
runpy.run_path("/clone/tests/netsim/clock/on_the_loop.py")["story"]()
"""


def test_the_story_of_the_loop() -> None:
    """On this Python the program writes the same log that the Pyodide test expects."""
    expected = story()
    assert [line for line in expected.splitlines() if "stands still" in line or "timeout" in line] == [
        "timeout at 8.6",
        "stands still",
    ]
    with guarded():
        assert story() == expected


@pytest.mark.slow
def test_the_loop_runs_in_pyodide(tmp_path: Path) -> None:
    """The log is the same in Pyodide; needs ``npm install pyodide`` and NETSIM_PYODIDE, the path of node_modules."""
    modules, node = os.environ.get("NETSIM_PYODIDE"), shutil.which("node")
    if node is None or modules is None or not Path(modules, "pyodide").is_dir():
        pytest.skip("needs node, and NETSIM_PYODIDE: the node_modules with the package pyodide")
    (tmp_path / "inside.py").write_text(INSIDE)
    words = [node, "--input-type=module", "-e", START, str(ROOT), str(tmp_path / "inside.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == story().splitlines()
