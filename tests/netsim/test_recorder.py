"""Recorded rows, which survive a crash of their process (docs/run_folder.md)."""

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import BadInput, NetsimError, Recorder

PROGRAM = """
import os, signal, sys
import netsim
from netsim import Network, Recorder, topology

class Dies(netsim.Agent):
    async def run(self):
        async for k in self.rounds(10_000):
            recorder.record(time_s=self.now, agent=self.name, text="x" * 50)
            if k == 1000:
                os.kill(os.getpid(), signal.SIGKILL)

recorder = Recorder(sys.argv[1])
Network(topology.path(2)).run({0: Dies(), 1: Dies()})
"""


@pytest.mark.slow
def test_all_rows_of_a_killed_process_are_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], check=False)
    assert done.returncode == -9
    rows = Recorder.read(path)
    assert len(rows) == 2 * 999 + 1
    assert rows["time_s"].tolist() == [float(k // 2) for k in range(len(rows))]
    assert set(rows["text"]) == {"x" * 50}


def test_rows_are_read_as_they_were_recorded(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    with Recorder(path) as recorder:
        recorder.record(a=1, b="é\n", c=np.float32(0.5), d=np.arange(2))
        # The row is written immediately, so another process can read it while the file is open.
        assert json.loads(path.read_text()) == {"a": 1, "b": "é\n", "c": 0.5, "d": [0, 1]}
        recorder.record(a=np.int64(2), e=None)
    rows = Recorder.read(path)
    assert rows["a"].tolist() == [1, 2]
    assert rows["d"][0] == [0, 1]
    assert list(rows.columns) == ["a", "b", "c", "d", "e"]
    with pytest.raises(NetsimError, match="is closed"):
        recorder.record(a=3)


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": 3')
    assert Recorder.read(path)["a"].tolist() == [1, 2]


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("precious")
    for path in (tmp_path / "old", tmp_path / "missing" / "new", tmp_path):
        with pytest.raises(BadInput, match="must be a new file that can be written"):
            Recorder(path)
    assert (tmp_path / "old").read_text() == "precious"


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, b"x"])
def test_what_json_has_not_is_refused_and_leaves_no_half_line(value: Any, tmp_path: Path) -> None:
    with Recorder(tmp_path / "rows") as recorder:
        with pytest.raises(BadInput, match="must be of numbers, texts, lists and arrays"):
            recorder.record(a=1, b=value)
        recorder.record(a=2)
    assert Recorder.read(tmp_path / "rows")["a"].tolist() == [2]


def test_it_stays_in_its_process(tmp_path: Path) -> None:
    with Recorder(tmp_path / "rows") as recorder, pytest.raises(NetsimError, match="must stay in its process"):
        pickle.dumps(recorder)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Recorder(tmp_path / "rows") as recorder:
        full = os.open("/dev/full", os.O_WRONLY)
        monkeypatch.setattr(recorder, "_file", full)
        with pytest.raises(NetsimError, match="could not be written"):
            recorder.record(a=1)


def test_rows_are_whole_after_the_disk_was_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with Recorder(tmp_path / "rows") as recorder:
        recorder.record(a=1)
        with monkeypatch.context() as full:
            full.setattr(os, "write", lambda file, data: write(file, data[:4]))
            with pytest.raises(NetsimError, match="the disk is full"):
                recorder.record(a=2)
        recorder.record(a=3)
    assert Recorder.read(tmp_path / "rows")["a"].tolist() == [1, 3]


def test_agents_that_crash_keep_their_recorder(tmp_path: Path) -> None:
    class Counts(netsim.Agent):
        def __init__(self) -> None:
            self.recorder, self.count = recorder, 0

        async def run(self) -> None:
            async for number in self.rounds(6):
                self.count += 1
                self.recorder.record(agent=self.name, round=number, count=self.count)

    with Recorder(tmp_path / "rows") as recorder:
        crash = netsim.faults.Crash(0, at=1.5, until=3.5)
        netsim.Network(netsim.topology.path(2), faults=[crash]).run({0: Counts(), 1: Counts()})
    rows = Recorder.read(tmp_path / "rows")
    assert rows.query("agent == 1")["count"].tolist() == [1, 2, 3, 4, 5, 6]
    assert rows.query("agent == 0")["count"].iloc[-1] < 4  # it restarted, so its count began again
    assert copy.deepcopy(recorder) is recorder


def test_not_a_recorders_file(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("a,b\n1,2\n")
    for text in ('{"a": 1}\n{"a":\n{"a": 3}\n', '{"a": 1}\n[2]\n'):
        (tmp_path / "torn").write_text(text)
        with pytest.raises(BadInput, match="torn', line 2: must be the file of a Recorder"):
            Recorder.read(tmp_path / "torn")
    for path in (tmp_path / "other", tmp_path / "missing"):
        with pytest.raises(BadInput, match="must be the file of a Recorder"):
            Recorder.read(path)
