"""The benchmark that compares the results of two installations finds every difference, and names its place."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import same
from netsim.studies import catalogue
from tests.command import ROOT, environment

SUMMARY = {
    "algorithms": {"COKE": {"round": 9, "energy_j": 0.25, "trace_hash": "ab"}},
    "notes": ["A mote was out of reach."],
    "trace_hash": "cd",
    "bytes": {"rounds.csv": 30},
}
ROUNDS = "algorithm,round,mse\nCOKE,8,0.5\nCOKE,9,0.25\n"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Return two folders with equal results."""
    for name in ("here", "there"):
        folder = tmp_path / name / "run"
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps(SUMMARY))
        (folder / "rounds.csv").write_text(ROUNDS)
        (folder / "empty.csv").write_text("node,energy_j\n")
        (folder / "answer.md").write_text("# Answer\n\nCOKE.\n")
        (folder / "settings.json").write_text(json.dumps({"folder": name}))
    return tmp_path / "here", tmp_path / "there"


def change(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / "run" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("summary.json", "0.25", "0.5", "run/summary.json: algorithms.COKE.energy_j: 0.25 here, 0.5 there"),
        ("summary.json", '"round": 9', '"round": 9.0', "run/summary.json: algorithms.COKE.round: 9 here, 9.0 there"),
        ("summary.json", '"cd"', '"ce"', 'run/summary.json: trace_hash: "cd" here, "ce" there'),
        ("summary.json", '"energy_j"', '"energy_mj"', "run/summary.json: algorithms.COKE.energy_j: only here"),
        (
            "summary.json",
            "was out",
            "is out",
            'run/summary.json: notes[0]: "A mote was out of reach." here, "A mote is',
        ),
        ("summary.json", '["A mote was out of reach."]', "[]", "run/summary.json: notes: 1 here, 0 there"),
        ("rounds.csv", "9,0.25", "9,0.250", 'run/rounds.csv: row 2, mse: "0.25" here, "0.250" there'),
        ("rounds.csv", "COKE,9,0.25\n", "", "run/rounds.csv: row 2: only here"),
        ("empty.csv", "energy_j", "energy_mj", 'run/empty.csv: header: "node,energy_j" here, "node,energy_mj" there'),
        ("answer.md", "COKE", "DKLA", 'run/answer.md: line[2]: "COKE." here, "DKLA." there'),
    ],
)
def test_a_changed_result_is_found(two: tuple[Path, Path], name: str, old: str, new: str, found: str) -> None:
    assert same.differences(*two) == []
    change(two[1], name, old, new)
    (difference,) = same.differences(*two)
    assert difference.startswith(found)


def test_what_is_new_everywhere_hides_no_change(two: tuple[Path, Path]) -> None:
    change(two[0], "summary.json", '"round": 9', '"outcome": "converged", "round": 9')
    change(two[1], "summary.json", "0.25", "0.5")
    change(two[0], "rounds.csv", "algorithm,round,mse\nCOKE,8", "algorithm,round,mse,outcome\nCOKE,8")
    change(two[1], "rounds.csv", "9,0.25", "9,0.5")
    assert same.differences(*two) == [
        'run/rounds.csv: row 2, mse: "0.25" here, "0.5" there; row 1, outcome: only here',
        "run/summary.json: algorithms.COKE.energy_j: 0.25 here, 0.5 there; algorithms.COKE.outcome: only here",
    ]


def test_a_missing_file_is_found(two: tuple[Path, Path]) -> None:
    (two[0] / "run" / "rounds.csv").unlink()
    assert same.differences(*two) == ["run/rounds.csv: only there"]


def test_sizes_and_measured_times_do_not_count(two: tuple[Path, Path]) -> None:
    change(two[0], "summary.json", '"rounds.csv": 30', '"rounds.csv": 31')
    change(two[1], "summary.json", ', "bytes": {"rounds.csv": 30}', "")
    for folder, seconds in zip(two, ("1.5", "2.5"), strict=True):
        (folder / "run" / "running_time.csv").write_text(f"algorithm,seconds,step_seconds\nDOKL,{seconds},{seconds}\n")
        (folder / "run" / "claims.csv").write_text(f"where,ours\ntable 3.1,{seconds}\ntable 3.2,1\n")
    assert same.differences(*two) == []
    # Simulated time, unlike running time, is a result.
    for folder, seconds in zip(two, ("1.5", "2.5"), strict=True):
        (folder / "run" / "bench.csv").write_text(f"method,seconds\nDOKL,{seconds}\n")
    assert same.differences(*two) == ['run/bench.csv: row 1, seconds: "1.5" here, "2.5" there']


def test_both_lists_have_every_study_and_a_sweep() -> None:
    studies = {name for name, entry in catalogue.listed().items() if entry.group != "others"}
    for commands in (same.full(), same.SHORT):
        assert {same.study_of(words) for words in commands} >= studies
        assert any(words.startswith("sweep ") for words in commands)
    assert studies <= set(same.full())


INSTALL = """\
#!{python}
import json, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
if "coke" in sys.argv:
    sys.exit("netsim: no coke here")
folder.mkdir()
energy = {energy} if "averaging" in sys.argv else 1
(folder / "summary.json").write_text(json.dumps({{"algorithms": {{"a": {{"energy_j": energy}}}}, "notes": []}}))
"""


def test_the_command_names_what_differs_and_fails(tmp_path: Path) -> None:
    for name, energy in (("here", 0.25), ("there", 0.5)):
        (tmp_path / name).mkdir()
        command = tmp_path / name / "netsim"
        command.write_text(INSTALL.format(python=sys.executable, energy=energy))
        command.chmod(0o755)
    # The benchmark uses the command beside `sys.executable`, so the script sets this to the stub's folder.
    line = "import sys; from benchmarks.same import main; sys.executable = sys.argv.pop(1); main()"
    words = [str(tmp_path / "here" / "python"), str(tmp_path / "there" / "netsim"), "--jobs", "1"]
    for each in ("averaging", "pushsum", "intel_lab", "sweep averaging --seed 0:2", "coke --rounds 3"):
        words += ["--only", each]
    done = subprocess.run(
        [sys.executable, "-c", line, *words], capture_output=True, text=True, cwd=ROOT, env=environment(), check=False
    )
    assert done.stdout.splitlines() == [
        "intel_lab: left out, as NETSIM_DATA is not set",
        "averaging: differs",
        "    run/summary.json: algorithms.a.energy_j: 0.25 here, 0.5 there",
        "pushsum: same",
        "sweep averaging --seed 0:2: differs",
        "    run/summary.json: algorithms.a.energy_j: 0.25 here, 0.5 there",
        "coke --rounds 3: differs",
        "    failed here: netsim: no coke here",
        "4 commands, 1 the same",
        "    differs: averaging",
        "    differs: sweep averaging --seed 0:2",
        "    differs: coke --rounds 3",
    ]
    assert done.returncode == 1
