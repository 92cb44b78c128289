"""Imports of the command line before its first output: slow modules are imported last or not at all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from netsim import core
from netsim.util.compiled import is_built
from tests.command import environment

HEAVY = {"numpy", "scipy", "networkx", "pandas", "matplotlib", "asyncio", "msgpack", "rich", "sklearn", "joblib"}

AT_THE_END = f"""
import atexit, sys
atexit.register(lambda: print("imported:", *sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr))
from netsim.__main__ import main
main()
"""

AT_THE_TABLE = f"""
import json, sys
from netsim.studies.terminal import Reporter

def table(self, title, frame, print_it=Reporter.table):
    print_it(self, title, frame)
    seen.append(sorted({HEAVY!r} & set(sys.modules)))

seen, Reporter.table = [], table
from netsim.__main__ import main
main()
print(json.dumps([*seen, "matplotlib" in sys.modules]))
"""


def of_its_own(code: str, *words: str, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=cwd, env=environment(**env), capture_output=True, text=True, check=True)


@pytest.mark.parametrize("words", ["--version", "list", "--help", "run --help", "deploy --help"])
def test_questions_about_netsim_import_no_network(words: str, tmp_path: Path) -> None:
    done = of_its_own(AT_THE_END, *words.split(), cwd=tmp_path)
    assert done.stdout
    assert done.stderr == "imported:\n"


@pytest.mark.slow
def test_a_table_is_there_before_what_draws_figures_is_imported(tmp_path: Path) -> None:
    done = of_its_own(AT_THE_TABLE, "run", "averaging", "--agents", "6", "--out", "here", cwd=tmp_path)
    [at_the_table, drawn] = json.loads(done.stdout.splitlines()[-1])
    # A table that is not printed to a terminal requires neither scipy nor rich nor sklearn.
    assert at_the_table == ["asyncio", "msgpack", "networkx", "numpy", "pandas"]
    assert drawn
    assert (tmp_path / "here" / "spread.png").stat().st_size > 0


@pytest.mark.parametrize("wanted", ["", "python"])
def test_the_version_names_the_core_that_a_run_would_use(wanted: str, tmp_path: Path) -> None:
    quick = of_its_own(AT_THE_END, "--version", cwd=tmp_path, NETSIM_CORE=wanted).stdout
    name = of_its_own("from netsim import core; print(core.NAME)", cwd=tmp_path, NETSIM_CORE=wanted).stdout.strip()
    assert quick.endswith(f"(core: {name})\n")


def test_what_is_built_is_what_is_imported() -> None:
    assert is_built("core._core") == (core.NAME == "compiled")
    assert not is_built("core._none")


def test_a_core_that_must_be_compiled_and_is_not_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_CORE", "compiled")
    with pytest.raises(Exception, match=r"^NETSIM_CORE = 'compiled': must have been built with netsim"):
        is_built("core._none")


def test_a_core_that_there_is_not_is_refused_in_one_line(tmp_path: Path) -> None:
    for words in (("--version",), ("run", "averaging")):
        done = by_module(*words, cwd=tmp_path, NETSIM_CORE="Python")
        assert done.returncode == 2
        assert done.stderr == "netsim: NETSIM_CORE = 'Python': must be python, compiled or empty\n"


def by_module(*words: str, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "netsim", *words]
    return subprocess.run(command, cwd=cwd, env=environment(**env), capture_output=True, text=True, check=False)
