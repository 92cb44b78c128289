"""A search over seeds finds two leaders of one term in faulty versions of Raft, and none in the right version."""

import runpy
import shlex
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from netsim.checkers import one_leader_a_term
from netsim.faults import Crash
from netsim.faults.words import appending
from netsim.testing import Finding, search
from tests.command import ROOT, call

LECTURE = runpy.run_path(str(ROOT / "docs" / "examples" / "lecture.py"))
EXAMPLE = runpy.run_path(str(ROOT / "docs" / "examples" / "raft.py"))
# Crashed servers keep their state, because Raft relies on its disk.
CRASHES: dict[str, Any] = {"until": 2.5, "mean_duration": 0.1, "crashes": 6, "keeps_state": True}


def cluster(version: str, longest: float = 0.15) -> partial[Any]:
    """Return a `make` of four servers; by default, all wait equally long before they become candidates."""
    return partial(EXAMPLE["make"], version=version, agents=4, longest=longest)


@cache
def found_in(version: str) -> Finding:
    """Return the finding of a search over a hundred seeds."""
    finding = search(cluster(version), one_leader_a_term(), seeds=range(100), faults=CRASHES)
    assert finding is not None
    return finding


def test_two_leaders_of_a_term_are_found_in_a_broken_raft_and_shrunk_to_two_crashes() -> None:
    """If half of the servers count as a majority, two candidates may both win after crashes."""
    finding = found_in("half")
    assert (finding.seed, len(finding.drawn), len(finding.faults)) == (8, 6, 2)
    assert all(isinstance(fault, Crash) for fault in finding.faults)
    assert finding.message == "term 4 has two leaders, 0 and 1"
    for fault in finding.faults:
        assert search(cluster("half"), one_leader_a_term(), seeds=[finding.seed], faults=[fault]) is None
    # The right version satisfies the invariant in spite of the same crashes.
    assert search(cluster("right"), one_leader_a_term(), seeds=[finding.seed], faults=finding.drawn) is None


def test_a_vote_for_whoever_asks_needs_no_fault() -> None:
    finding = found_in("turncoat")
    assert (finding.seed, len(finding.faults)) == (0, 0)


def test_the_finding_repeats_by_its_words_and_by_its_command(tmp_path: Path) -> None:
    finding = found_in("half")
    network, agents, settings = cluster("half")(seed=finding.seed)
    with appending(finding.words):
        run = network.run(agents, **{**settings, "until": finding.time})
    assert run.trace_hash == finding.run.trace_hash
    assert [(agent.role, agent.term) for agent in run.agents.values()].count(("leader", 4)) == 2
    notes = finding.run.notes
    assert notes[notes["note"] == "becomes leader"]["agent"].tolist()[-2:] == [0, 1]
    command = str(finding).splitlines()[-1].removeprefix("again: ")
    words = shlex.split(command)
    assert words[:2] == ["netsim", "run"]
    done = call(*words[1:], "--out", str(tmp_path / "out"), cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    assert finding.replay(tmp_path / "found.html").stat().st_size > 10_000


def lecture(*, gullible: bool, seeds: range) -> Finding | None:
    made = partial(LECTURE["make"], gullible=gullible)
    return search(made, LECTURE["Kept"], seeds=seeds, faults=LECTURE["DRAWN"], order=True)


def test_the_lecture_shows_what_its_search_finds() -> None:
    found = lecture(gullible=True, seeds=range(100))
    assert found is not None
    page = (ROOT / "docs" / "lecture.md").read_text(encoding="utf-8")
    for line in str(found).splitlines()[:-1]:
        assert f"\n{line}\n" in page
    assert found.words == "1 cut 1-0"
    # Server 0 has committed the command, but no other server has it in its log.
    assert [[entry[1] for entry in agent.log].count("a2") for agent in found.run.agents.values()] == [1, 0, 0]
    network, agents, _ = LECTURE["make"](gullible=False, seed=found.seed)
    with appending(found.words):
        mended = network.run(agents, until=found.time, order=found.schedule)
    assert [agent.log[agent.commit][1] for agent in mended.agents.values()] == ["a2", "a1", "a2"]


@pytest.mark.slow
def test_the_lectures_page_counts_seeds() -> None:
    page = (ROOT / "docs" / "lecture.md").read_text(encoding="utf-8")
    broken = sum(lecture(gullible=True, seeds=range(seed, seed + 1)) is not None for seed in range(100))
    assert f"four links that fail | {broken} of 100 " in page
    assert search(LECTURE["make"], LECTURE["Kept"], seeds=range(100), order=True) is None
    assert lecture(gullible=False, seeds=range(300)) is None


@pytest.mark.slow
@pytest.mark.parametrize(("longest", "seeds", "order"), [(0.3, 500, True), (0.15, 30, False)])
def test_none_are_found_in_the_right_one(longest: float, seeds: int, order: bool) -> None:
    made = cluster("right", longest)
    assert search(made, one_leader_a_term(), seeds=range(seeds), faults=CRASHES, order=order) is None
