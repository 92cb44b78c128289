"""The worker processes of a sweep or an experiment, which joblib keeps for the next one."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from netsim.studies.sweeps.workers import run_here


@pytest.mark.slow
def test_workers_look_for_files_where_their_parent_does_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local classes are pickled by value; importing this module would take each of six workers a second."""

    @dataclass(frozen=True)
    class Job:
        """A job that has only a name."""

        name: str

    class Where:
        """A sweep whose jobs fail with an error that names the current folder and the data folder."""

        def run(self, job: Any) -> str | None:
            return f"{os.getcwd()} {os.environ.get('NETSIM_DATA')}"

        def lose(self, name: str) -> str:
            raise AssertionError(name)

        def begun(self) -> set[str]:
            return set()

        def forget(self, name: str) -> None:
            raise AssertionError(name)

    for folder, data in (("a", "there"), ("b", "there"), ("b", None)):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        if data is None:
            monkeypatch.delenv("NETSIM_DATA", raising=False)
        else:
            monkeypatch.setenv("NETSIM_DATA", data)
        ended = dict(run_here(Where(), [Job("one"), Job("two")], 2))
        assert ended == dict.fromkeys(("one", "two"), f"{tmp_path / folder} {data}")
