"""The flag --workers: the run folder does not depend on the number of workers, nor does `netsim verify`."""

import json
from pathlib import Path

import pytest

from tests.command import call

FLAGS = ("run", "averaging", "--agents", "8", "--loss", "0.1")


@pytest.mark.slow
def test_a_run_folder_is_the_same_over_workers(tmp_path: Path) -> None:
    for name, more in (("one", ()), ("two", ("--workers", "2"))):
        done = call(*FLAGS, *more, "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for name in ("rounds.csv", "ledger.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    settings = json.loads((tmp_path / "two" / "settings.json").read_text())
    assert settings["workers"] == 2
    for folder, workers in (("one", "3"), ("two", "1")):
        done = call("verify", folder, "--workers", workers, cwd=tmp_path)
        assert done.stdout == f"{folder}: identical\n", done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--workers", "0"), "workers = 0: must be a whole number >= 1"),
        (("--workers", "2", "--live", "--no-browser"), "workers = 2: must be 1 with --live"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = call(*FLAGS, *flags, "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_no_address_is_shown_for_a_run_that_cannot_be_watched(tmp_path: Path) -> None:
    done = call(*FLAGS, "--workers", "2", "--live", "--no-browser", cwd=tmp_path)
    assert "http" not in done.stdout + done.stderr
