"""Repeated runs under conditions that must not change results: hash seed, core, and number of workers."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import netsim.studies
from netsim import Agent, BadInput, Link, NetsimError, Network, Radio, core, topology
from netsim.studies import conditions, verification
from netsim.studies.catalogue import find_study
from netsim.studies.conditions import Condition, Job
from netsim.testing import check_same
from netsim.util.hashing import hash_seed
from tests.command import call
from tests.netsim.studies.programs import Counts, Greets, Talks, greeting, talking
from tests.netsim.studies.test_hash_seed import NAMES

pytestmark = pytest.mark.usefixtures("all_undrawn")

STUDY = """
from netsim import Agent, Link, Network, topology

class Says(Agent):
    def __init__(self, number):
        self.number = number
    async def run(self):
        async for _ in self.rounds(2):
            await self.broadcast("x", self.number)
            await self.collect()

def mine(study, *, number: int = 1) -> None:
    graph = topology.path(3)
    agents = {i: Says(number if i == 1 else 0) for i in graph}
    study.run("mine", Network(graph, Link(latency=0.01)), agents, [], 2)
"""


# --- without a process for each ---------------------------------------------------------------------------------------


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Condition]:
    """Simulate the conditions in this process; the study's parameter replaces the hash seed."""
    seen: list[Condition] = []

    def run(self: Condition, job: Job, folder: Path) -> str:
        seen.append(self)
        folder.mkdir()
        if self.workers != 1:
            raise BadInput("workers = 2: must be 1 here")
        if self.core == "none":
            return "agent 0 raised ZeroDivisionError"
        given = {"number": self.hash_seed}
        study = find_study(job.study).execute(job.trace, **given)
        verification.write(study, folder)
        return ""

    monkeypatch.setattr(Condition, "run", run)
    (tmp_path / "mine.py").write_text(STUDY)
    return seen


def others(self: Condition) -> Iterator[tuple[str, Condition]]:
    yield "again", self
    yield "PYTHONHASHSEED=2", Condition(2, self.core)
    yield "core none", Condition(self.hash_seed, "none")
    yield "2 workers", Condition(self.hash_seed, self.core, 2)


@pytest.mark.parametrize("trace", [False, True])
def test_each_condition_has_a_verdict_and_the_first_event(
    trace: bool, in_process: list[Condition], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Condition, "others", others)
    file = str(tmp_path / "mine.py")
    folder = find_study(file).execute(trace, number=1).save(tmp_path / "out")
    again, other, failed, refused = verification.check_conditions(Job(file, {"number": 1}), folder, Condition(1, "x"))
    assert again.lines() == ["again: identical"]
    assert again
    assert not other
    event = other.event
    assert event.startswith("at 0 s, agent 1: message 0 (x) sent to all, 8 payload bits, 96 wire bits (before); ")
    assert event.endswith(", with another payload (PYTHONHASHSEED=2)")
    assert other.lines()[-1] == f"  first event: {event}"
    assert failed.lines() == ["core none: differs; it begins in its end: agent 0 raised ZeroDivisionError"]
    assert not failed
    assert refused.lines() == ["2 workers: not checked (workers = 2: must be 1 here)"]
    assert refused
    # Runs that differ are repeated with a trace, unless the folder already has traces.
    assert len(in_process) == (4 if trace else 6)


def test_a_run_that_does_not_repeat_is_compared_once(in_process: list[Condition], tmp_path: Path) -> None:
    file = str(tmp_path / "mine.py")
    folder = find_study(file).execute(number=7).save(tmp_path / "out")
    (only,) = verification.check_conditions(Job(file, {}), folder, Condition(1, core.NAME))
    assert only.name == "again"
    assert not only


def test_verify_names_the_first_event_of_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    (tmp_path / "number.txt").write_text("0")
    text = f"from pathlib import Path\nNUMBER = int(Path({str(tmp_path / 'number.txt')!r}).read_text())\n"
    file.write_text(text + STUDY.replace("else 0)", "else NUMBER)"))
    folder = find_study(str(file)).execute(True).save(tmp_path / "out")
    (tmp_path / "number.txt").write_text("3")
    found = netsim.studies.verify(folder)
    assert found.state == "differs"
    assert found.event.startswith("at 0 s, agent 0: message 0 (x) sent to all, 8 payload bits, 48 wire bits (recorded)")
    done = call("verify", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert f"  first event: {found.event}\n" in done.stdout


def test_verify_makes_the_trace_of_a_run_whose_condition_is_known(
    in_process: list[Condition], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "hash_seed", lambda: 5)
    monkeypatch.setattr(verification, "hash_seed", lambda: 5)
    study = find_study(str(tmp_path / "mine.py")).execute(number=5)
    # The record claims hash seed 2; as the study's parameter replaces the hash seed, the runs have number=2.
    study.origin["hash_seed"] = 2
    study.runs = find_study(str(tmp_path / "mine.py")).execute(number=2).runs
    folder = study.save(tmp_path / "out")
    found = netsim.studies.verify(folder)
    assert found.state == "differs"
    assert found.event.startswith("at 0 s, agent 1: message 0 (x) sent to all, 8 payload bits, 96 wire bits (recorded)")
    assert [each.hash_seed for each in in_process] == [2]
    assert any(line.startswith("hash seed: 2 recorded, 5 here: the likely cause") for line in found.elsewhere)


def test_conditions_differ_in_one_thing() -> None:
    for base in (Condition(0, "compiled"), Condition(2, "python", 3), Condition(None, "compiled")):
        changed = []
        for name, other in base.others():
            one, two = vars(base), vars(other)
            changed.append([key for key in one if one[key] != two[key]])
            assert (name == "again") == (other == base)
        assert changed == [[], ["hash_seed"], ["hash_seed"], ["core"], ["workers"]]
    assert Condition.here() == Condition(hash_seed(), core.NAME)


def test_a_condition_is_known_only_where_all_of_it_was_recorded() -> None:
    known = {"hash_seed": 3, "core": "python"}
    assert Condition.recorded(known) == Condition(3, "python", 1)
    assert Condition.recorded(known | {"workers": 2}) == Condition(3, "python", 2)
    for gone in ({"hash_seed": None}, {"core": "another"}):
        assert Condition.recorded(known | gone) is None
    assert Condition.recorded({"core": "python"}) is None


@pytest.mark.parametrize("make", [3, Greets, None])
def test_make_must_be_a_function(make: Any) -> None:
    with pytest.raises(BadInput, match=r"^make = .*: must be a function that returns \(network, agents\)$"):
        check_same(make)


def test_what_cannot_be_pickled_is_refused() -> None:
    held = threading.Lock()

    def make(*, seed: int) -> Any:
        with held:
            return talking(seed=seed)

    with pytest.raises(BadInput, match=r"^make = .*: must be picklable \("):
        check_same(make)


def test_a_studys_own_check_comes_first() -> None:
    for name, own in (("bench", True), ("averaging", False)):
        options = {option.name: option for option in netsim.studies.cli._run_command(find_study(name)).params}
        assert ("check" in options) == own
        assert ("check_conditions" in options) != own


# --- in processes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that restricts the conditions by the start of their names; each needs one or two processes."""
    every = Condition.others

    def leave(prefix: str) -> None:
        chosen = lambda self: (pair for pair in every(self) if pair[0].startswith(prefix))  # noqa: E731
        monkeypatch.setattr(Condition, "others", chosen)

    return leave


@pytest.mark.slow  # needs about six processes
def test_the_order_of_a_set_of_names_is_found(only: Callable[[str], None]) -> None:
    only("PYTHONHASHSEED")
    with pytest.raises(AssertionError) as caught:
        check_same(greeting)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the run depends on what it must not depend on"
    assert {line.partition(":")[0] for line in lines[1:] if line[0] != " "} <= {"PYTHONHASHSEED=1", "PYTHONHASHSEED=2"}
    assert any(line.startswith("  first event: at 0 s, agent ") and "(hello) sent to " in line for line in lines)


@pytest.mark.slow  # needs four processes
def test_what_agents_share_is_found_with_workers(only: Callable[[str], None]) -> None:
    only("2 workers")

    def make(*, seed: int) -> Any:
        network, agents = talking(seed=seed)
        return network, {name: Counts() for name in agents}

    with pytest.raises(AssertionError, match=r"\n2 workers: differs; [^\n]*\n  first event: at 0 s, agent \d: [^\n]*$"):
        check_same(make)


@pytest.mark.slow  # needs eight processes
def test_a_right_program_passes_and_a_radio_is_not_split(only: Callable[[str], None]) -> None:
    check_same(talking, seed=3)
    only("2 workers")

    def on_air(*, seed: int) -> Any:
        graph = topology.path(4)
        return Network(graph, Link(rate=250e3), medium=Radio(), seed=seed), {i: Talks() for i in graph}, {"until": 3.0}

    check_same(on_air)


@pytest.mark.slow  # needs a process for each run
def test_a_run_that_fails_or_is_refused_is_no_difference() -> None:
    with pytest.raises(BadInput, match="agents: must be one for each node of the graph"):
        check_same(lambda *, seed: (talking(seed=seed)[0], {}))

    class Fails(Agent):
        async def run(self) -> None:
            raise ValueError("mine")

    with pytest.raises(NetsimError, match=r"^make: its run must end well; agent 0 raised ValueError"):
        check_same(lambda *, seed: (talking(seed=seed)[0], {i: Fails() for i in range(4)}))


@pytest.mark.slow  # needs about eight processes
def test_the_command_checks_and_says_so_by_its_status(tmp_path: Path, only: Callable[[str], None]) -> None:
    (tmp_path / "names.py").write_text(NAMES.replace("print(", "0 and print("))
    done = call("run", "names.py", "--out", "out", "--check", cwd=tmp_path)
    assert done.returncode == 1
    assert "\nagain: " in done.stdout
    assert "  first event: " in done.stdout or hash_seed() is None
    only("2 workers")
    (tmp_path / "mine.py").write_text(STUDY)
    done = call("run", "mine.py", "--number", "4", "--out", "right", "--check", cwd=tmp_path)
    assert done.returncode == 0
    assert "\n2 workers: identical\n" in done.stdout
