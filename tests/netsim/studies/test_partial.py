"""An interrupted run keeps its results so far, marked as partial, and no command treats it as complete."""

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import netsim
from netsim import Agent, AgentError, BadInput, Link, Network, Run, Stalled, latency, results, topology
from netsim.studies import folder as folders
from netsim.studies.catalogue import find_study
from netsim.studies.sums import write_sums
from tests.command import call

SLOW = """
import asyncio, time
from pathlib import Path
from netsim import Agent, Link, Network, topology

class Talks(Agent):
    end = None
    async def run(self):
        async for k in self.rounds(10_000):
            await self.broadcast("x", k)
            await self.collect()
            if k == 5 and self.end == "agent":
                1 / 0
            if k == 5 and self.end == "stall":
                await asyncio.get_running_loop().create_future()
            if k == 5:
                Path("began").touch()
            time.sleep(0.001)
            if k > 3 and self.end == "well":
                return

def slow(study, *, end: str = "never", first: bool = False, seed: int = 0) -> None:
    graph = topology.ring(4)
    def play(name, end):
        agents = {i: Talks() for i in graph}
        for each in agents.values():
            each.end = end
        study.run(name, Network(graph, Link(loss=0.2), seed=seed), agents, [len], 10)
    if first:
        play("first", "well")
    play("second", end)
    1 / 0
"""


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    return tmp_path


def conserves(ledger: pd.DataFrame) -> bool:
    causes = ["delivered", "late", "lost", "collided", "corrupted", "refused", "queue_full", "link_down"]
    ends = ledger[[*causes, "receiver_down", "inbox_full", "in_flight"]].sum(axis=1)
    return bool(len(ledger) and (ledger["offered"] + ledger["duplicated"] == ends).all())


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    ("number", "ignored", "status", "why"),
    [
        (signal.SIGINT, False, 130, "interrupted"),
        (signal.SIGTERM, False, 143, "terminated"),
        (signal.SIGTERM, True, 143, "terminated"),
    ],
)
def test_a_signal_hands_over_what_there_is(number: int, ignored: bool, status: int, why: str, room: Path) -> None:
    heeds = "signal.SIG_IGN" if ignored else "signal.default_int_handler"
    code = f"import signal; signal.signal(signal.SIGINT, {heeds}); from netsim.__main__ import main; main()"
    words = [sys.executable, "-c", code, "run", "slow.py", "--first", "--out", "out", "--trace"]
    process = subprocess.Popen(words, cwd=room, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (room / "began").exists():
        time.sleep(0.01)
    if ignored:
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        assert process.poll() is None
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == status
    assert stderr.splitlines()[-1] == f"netsim: {why}; what there is so far is in out, marked partial"
    found = folders.load(room / "out", partial=True)
    assert found["summary"]["partial"] == {"why": why, "cut": "second", "unit": "round"}
    assert found["settings"]["partial"] is True
    counts = found["rounds"].groupby("algorithm").size()
    assert counts["first"] == 4
    assert 4 <= counts["second"] < 10_000
    ledger = pd.read_csv(room / "out" / "ledger.csv")
    assert set(ledger["algorithm"]) == {"first", "second"}
    assert conserves(ledger)
    trace = netsim.accounting.Trace.load(room / "out" / "trace-second.npz")
    assert trace.hash == found["summary"]["algorithms"]["second"]["trace_hash"]
    assert sorted(path.name for path in room.iterdir()) == ["began", "out", "slow.py"]


IMPORTS = """
import time
from netsim import Agent, Network, topology

class Idle(Agent):
    async def run(self):
        async for k in self.rounds(3):
            await self.collect()

def imports(study, *, moment: str = "before", seed: int = 0) -> None:
    if moment == "after":
        study.run("a", Network(topology.ring(4)), {i: Idle() for i in range(4)}, [len], 3)
    import half
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_waits_for_the_end_of_an_import(moment: str, tmp_path: Path) -> None:
    half = "import signal\nfrom pathlib import Path\nsignal.raise_signal(signal.SIGINT)\nPath('whole').touch()\n"
    (tmp_path / "half.py").write_text(half)
    (tmp_path / "imports.py").write_text(IMPORTS)
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    words = [sys.executable, "-c", f"{heeds}; from netsim.__main__ import main; main()"]
    words += ["run", "imports.py", "--moment", moment, "--out", "out"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    kept = "no run folder was written" if moment == "before" else "what there is so far is in out, marked partial"
    assert done.stderr.splitlines()[-1] == f"netsim: interrupted; {kept}"
    assert (tmp_path / "whole").exists()


@pytest.mark.parametrize(
    ("end", "rounds", "expected"),
    [
        ("agent", 4, "agent 0 raised ZeroDivisionError in round 5 (slow.py, line 13): division by zero"),
        ("stall", 5, "every task waits for what can never come"),
        ("well", 4, "study 'slow.py' raised ZeroDivisionError (slow.py, line 32): division by zero"),
    ],
)
def test_a_run_that_fails_hands_over_what_there_is(end: str, rounds: int, expected: str, room: Path) -> None:
    done = call("run", "slow.py", "--end", end, "--out", "out", cwd=room)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert expected in line
    assert line.endswith("; what there is so far is in out, marked partial")
    found = folders.load(room / "out", partial=True)
    assert expected in found["summary"]["partial"]["why"]
    assert found["summary"]["partial"]["cut"] == (None if end == "well" else "second")
    assert len(found["rounds"]) == rounds
    assert conserves(pd.read_csv(room / "out" / "ledger.csv"))
    shown = call("show", "out", cwd=room)
    assert shown.returncode == 0
    where = "" if end == "well" else f", second after round {rounds}"
    assert shown.stdout.splitlines()[0].startswith(f"it is partial{where}: ")


@pytest.mark.parametrize("file", ["settings.json", "summary.json"])
def test_nothing_takes_it_for_whole_though_one_of_the_marks_is_gone(file: str, room: Path) -> None:
    call("run", "slow.py", "--end", "agent", "--out", "out", cwd=room)
    kept = json.loads((room / "out" / file).read_text())
    del kept["partial"]
    (room / "out" / file).write_text(json.dumps(kept, indent=2) + "\n")
    write_sums(room / "out")
    for read in (folders.load, results.load, results.compare):
        with pytest.raises(BadInput, match=r"^run folder = .*: must be whole; it is partial.*[^\n]*$"):
            read(room / "out")


def test_a_study_that_failed_is_saved_as_partial_from_python_too(room: Path) -> None:
    found = find_study(str(room / "slow.py"))
    study = found.prepare(end="agent")
    with pytest.raises(AgentError):
        found.play(study)
    with pytest.raises(BadInput, match="must be whole"):
        folders.load(study.save(room / "out"))


@pytest.mark.filterwarnings("ignore:time.sleep:RuntimeWarning")
def test_a_run_whose_failure_the_scenario_survives_is_not_in_a_whole_folder(room: Path) -> None:
    text = SLOW.replace('    play("second", end)\n    1 / 0', SURVIVES)
    (room / "slow.py").write_text(text)
    study = find_study(str(room / "slow.py")).execute(end="agent", first=True)
    assert folders.load(study.save(room / "out"))["rounds"]["algorithm"].unique().tolist() == ["first"]


SURVIVES = """
    try:
        play("second", end)
    except Exception as error:
        study.note(str(error))
"""


# --- in Python --------------------------------------------------------------------------------------------------------


class Talks(Agent):
    def __init__(self, end: Any = None) -> None:
        self.end = end

    async def run(self) -> None:
        async for k in self.rounds(8):
            await self.broadcast("x", k)
            await self.collect()
            # Of several interrupts within one step only the first is noticed, so a single agent interrupts.
            if k == 6 and self.end and (self.end is not interrupts or self.name == 0):
                await self.end()


async def stalls() -> None:
    await asyncio.get_running_loop().create_future()


async def fails() -> None:
    raise RuntimeError("broken")


async def interrupts() -> None:
    signal.raise_signal(signal.SIGINT)


def network() -> Network:
    link = Link(latency=latency.uniform(0.1, 1.7), loss=0.2, duplicate=0.2)
    return Network(topology.ring(5), link, seed=3)


def agents(end: Any) -> dict[int, Agent]:
    return {node: Talks(end) for node in range(5)}


def is_whole_so_far(run: Run, rounds: int = 5) -> None:
    whole = network().run(agents(None), trace=True)
    pd.testing.assert_frame_equal(run.rounds, whole.rounds.iloc[: len(run.rounds)])
    assert len(run.rounds) == rounds
    assert conserves(run.ledger.table())
    assert run.trace.hash == run.trace_hash


@pytest.mark.parametrize(("end", "kind"), [(stalls, Stalled), (fails, AgentError), (interrupts, KeyboardInterrupt)])
@pytest.mark.parametrize("inside", [False, True])
def test_the_error_carries_the_run_so_far(end: Any, kind: type[BaseException], inside: bool) -> None:
    def play() -> None:
        network().run(agents(end), trace=True)

    async def notebook() -> None:
        play()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(kind) as caught:
            asyncio.run(notebook()) if inside else play()
    finally:
        signal.signal(signal.SIGINT, before)
    # If the agents stall, nobody delays the end of round 6, so that round is complete, too.
    is_whole_so_far(caught.value.run, 6 if end is stalls else 5)  # type: ignore[attr-defined]


def test_so_does_that_of_run_async() -> None:
    async def main() -> None:
        await network().run_async(agents(fails), trace=True)

    for factory in (None, netsim.clock.new_loop):
        with pytest.raises(AgentError) as caught, asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())
        is_whole_so_far(caught.value.run)


def test_what_never_began_carries_none() -> None:
    with pytest.raises(BadInput) as caught:
        network().run({})
    assert caught.value.run is None


def test_the_run_does_not_go_along_to_another_process() -> None:
    with pytest.raises(AgentError) as caught:
        network().run(agents(threading.Lock))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.run is None


@pytest.mark.slow
def test_a_kill_leaves_no_folder_at_all(room: Path) -> None:
    code = "from netsim.__main__ import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, "run", "slow.py", "--out", "out"], cwd=room)
    while not (room / "began").exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (room / "out").exists()
