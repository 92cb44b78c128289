"""Progress of a sweep: points done, failed and left, and the remaining time; one live line on a terminal."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from netsim.studies.terminal import Countdown, Reporter
from tests.command import MAIN, call
from tests.netsim.studies.test_sweep import STUDY
from tests.parts import pseudo_terminal


@pytest.fixture
def study(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(STUDY)
    return str(tmp_path / "mine.py")


class Clock:
    """A clock whose time (s) a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_line_tells_what_is_done_has_failed_and_is_left() -> None:
    clock = Clock()
    tally = Countdown(1010, clock)
    assert tally.line(0, 0) == "0 done, 0 failed, 1,010 left"
    clock.now += 20.0
    assert tally.line(9, 1) == "9 done, 1 failed, 1,000 left, 33:20 to go"
    clock.now += 20.0
    assert tally.line(990, 10) == "990 done, 10 failed, 10 left, 0:01 to go"
    assert tally.line(1000, 10) == "1,000 done, 10 failed, 0 left"


def test_what_was_done_before_does_not_count_as_fast() -> None:
    clock = Clock()
    tally = Countdown(1000, clock)
    tally.line(900, 0)
    clock.now += 60.0
    assert tally.line(901, 0) == "901 done, 0 failed, 99 left, 1:39:00 to go"


def test_plain_lines_come_by_quarters_and_minutes() -> None:
    clock = Clock()
    tally = Countdown(100, clock)
    due = []
    for ended in range(101):
        if tally.is_due(ended):
            due.append(ended)
        clock.now += 7.0
    assert due[-1] == 100
    assert {25, 50, 75} <= set(due)
    assert 100 * 7 / 60 - 3 <= len(due) <= 100 * 7 / 60 + 5
    quick = Countdown(100, Clock())
    assert [ended for ended in range(101) if quick.is_due(ended)] == [25, 50, 75, 100]


def test_elsewhere_than_on_a_terminal_lines_are_plain(study: str, tmp_path: Path) -> None:
    done = call("sweep", study, "--seed", "0:8", "--fail", "1", "--out", "out", cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert [re.sub(r", \d+:\d+ to go", "", line) for line in lines] == [
        "mine: 1 done, 1 failed, 6 left",
        "mine: 3 done, 1 failed, 4 left",
        "mine: 5 done, 1 failed, 2 left",
        "mine: 7 done, 1 failed, 0 left",
    ]
    again = call("sweep", study, "--seed", "0:8", "--fail", "1", "--out", "out", cwd=tmp_path)
    assert again.stderr == "mine: 7 done, 1 failed, 0 left\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such terminals there")
def test_on_a_terminal_one_line_is_kept_true(study: str, tmp_path: Path) -> None:
    flags = ["sweep", study, "--seed", "0:4", "--fail", "1", "--slow", "0.2", "--out", "out"]
    ours, theirs = pseudo_terminal()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *flags],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(theirs)
    output = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:
            break
        if not read:
            break
        output += read
    os.close(ours)
    assert process.wait() == 1  # one point failed
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode())
    assert "3 done, 1 failed, 0 left" in plain
    assert len([line for line in plain.split("\n") if line.strip("\r ")]) == 1, "all in one line"


def test_a_quiet_reporter_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Reporter(quiet=True).tally("mine", 4) as tally:
        tally(4, 0)
    assert capfd.readouterr() == ("", "")
