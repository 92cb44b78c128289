"""The command line: its output, its files, and its error messages."""

import json
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import pytest

from netsim import BadInput
from netsim.accounting import Trace
from netsim.studies import catalogue, study
from netsim.studies import folder as folders
from tests.command import call, environment

pytestmark = pytest.mark.usefixtures("undrawn")

QUICK = ["--agents", "4", "--rounds", "30", "--features", "10"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder of the coke study, quantized and with lossy links."""
    out = tmp_path_factory.mktemp("run") / "coke"
    done = call("run", "coke", *QUICK, "--bits", "3", "--loss", "0.1", "--trace", "--out", str(out), cwd=out.parent)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr, "plain text where there is no terminal"
    assert "COKE: round 30 of 30" in done.stderr
    assert "Errors and cost by round" in done.stdout
    assert "published" not in done.stdout, "there are no published numbers of the synthetic data"
    return out


def test_list_names_every_scenario(tmp_path: Path) -> None:
    done = call("list", cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    groups, names = [each for each in lines if each.strip() == each != ""], [each for each in lines if each[:1] == " "]
    assert groups == ["sensor networks", "packet loss", "neural networks", "teaching", "papers"] or "others" in groups
    assert sorted(each.split()[0] for each in names) == list(catalogue.listed())
    assert {"averaging", "coke"} <= set(catalogue.listed())
    for name, listed in catalogue.listed().items():
        assert catalogue.find_study(name).title == listed.title


def test_studies_without_a_group_are_listed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {each: catalogue.Entry(f"m:{each}", f"{each.upper()}.") for each in ("b", "a")}
    entries["c"] = catalogue.Entry("m:c", "C.", "mine")
    registries = catalogue.Registry(entries), catalogue.Registry({"a": catalogue.Entry("x:a", "X.", "theirs")})
    monkeypatch.setattr(catalogue, "registries", lambda: registries)
    assert {group: list(each) for group, each in catalogue.grouped().items()} == {"mine": ["c"], "others": ["a", "b"]}


def test_titles_are_whole_where_studies_are_listed(tmp_path: Path) -> None:
    text = " ".join(call("run", "--help", cwd=tmp_path).stdout.split())
    for listed in catalogue.listed().values():
        assert listed.title in text


def test_run_folder_has_the_documented_files_and_columns(folder: Path) -> None:
    rounds = pd.read_csv(folder / "rounds.csv")
    measures = ("train_mse", "test_mse", "consensus_error", "dual_residual")
    assert tuple(rounds.columns[:11]) == (*study.COLUMNS, *measures)
    assert list(rounds["algorithm"].unique()) == ["CTA", "DKLA", "COKE", "COKE 3-bit"]
    assert (rounds.groupby("algorithm").size() == 30).all()
    assert rounds.loc[rounds["algorithm"] == "CTA", "dual_residual"].isna().all()
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary["centralised"]) == {"train_mse", "test_mse"}
    last = rounds[rounds["algorithm"] == "COKE"].iloc[-1]
    assert summary["algorithms"]["COKE"]["train_mse"] == pytest.approx(last["train_mse"], rel=1e-12)
    assert summary["algorithms"]["COKE"]["wire_bits"] == last["wire_bits"]
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["parameters"]["sigma"] == 1.0, "what was left open is written as it was chosen"
    assert (folder / "mse.png").stat().st_size > 10_000
    assert Trace.load(folder / "trace-COKE 3-bit.npz").hash == summary["algorithms"]["COKE 3-bit"]["trace_hash"]


def test_ledger_csv_adds_up(folder: Path) -> None:
    ledger = pd.read_csv(folder / "ledger.csv")
    rounds = pd.read_csv(folder / "rounds.csv")
    ends = [
        "delivered",
        "late",
        "lost",
        "collided",
        "corrupted",
        "refused",
        "queue_full",
        "link_down",
        "receiver_down",
        "inbox_full",
    ]
    assert (ledger["offered"] + ledger["duplicated"] == ledger[[*ends, "in_flight"]].sum(axis=1)).all()
    for name, rows in ledger.groupby("algorithm"):
        last = rounds[rounds["algorithm"] == name].iloc[-1]
        assert rows["delivered"].sum() == last["delivered"]


def test_the_settings_repeat_the_run(folder: Path, tmp_path: Path) -> None:
    shown = call("show", str(folder), cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    command = shown.stdout.splitlines()[0].split()
    assert command[:3] == ["netsim", "run", "coke"]
    again = call(*command[1:], "--out", "again", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    hashes = [json.loads((path / "summary.json").read_text())["trace_hash"] for path in (folder, tmp_path / "again")]
    assert hashes[0] == hashes[1]
    assert (folder / "rounds.csv").read_bytes() == (tmp_path / "again" / "rounds.csv").read_bytes()


def test_without_out_the_next_free_folder_is_taken(tmp_path: Path) -> None:
    for number in (1, 2):
        done = call("run", "averaging", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "runs" / f"averaging-{number}" / "summary.json").is_file()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "cok"], "study = 'cok': must be one of aloha, averaging, bench, "),
        (["run", "coke", "--los", "0.1"], "--loss"),
        (["run", "coke", "--loss", "1.3"], "loss = 1.3: must be a probability in [0, 1]"),
        (["run", "coke", "--loss", "many"], "--loss"),
        (["run", "coke", "--latency", "-1"], "latency = -1.0: must be"),
        (["run", "coke", "--rate", "-5"], "rate = -5.0: must be"),
        (["run", "coke", "--budget", "-5"], "budget = -5.0: must be"),
        (["run", "coke", "--bits", "17"], "bits = 17: must be a whole number from 1 to 16"),
        (["run", "coke", "--bits", "0"], "bits = 0: must be a whole number from 1 to 16"),
        (["run", "coke", "--agents", "0"], "agents = 0: must be"),
        (["run", "coke", "--edges", "3"], "edges = 3: must be"),
        (
            ["run", "coke", "--algorithms", "COKE,DKLS"],
            "algorithms = 'DKLS': must be one of CTA, DKLA, COKE, D-PSGD, ",
        ),
        (
            ["run", "coke", "--medium", "radios"],
            "medium = 'radios': must be one of radio, wires (did you mean 'radio'?)",
        ),
        (
            ["run", "coke", "--data", "tomshardware"],
            "NETSIM_DATA is not set: must be a folder that holds tomshardware.csv.gz",
        ),
        (["run", "coke", "--sigma", "0"], "sigma = 0.0: must be"),
        (["run", "coke", "--rows", "50"], "rows = 50: must be left out"),
        (["run", "missing.py"], "study = 'missing.py': must be an existing Python file"),
        (["show", "nowhere"], "run folder = 'nowhere': must be what `netsim run` wrote"),
        (["shaw"], "shaw"),
    ],
)
def test_a_mistake_ends_in_one_line_and_status_2(words: list[str], expected: str, tmp_path: Path) -> None:
    done = call(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("netsim: ")
    assert expected in line
    assert not list(tmp_path.iterdir()), "nothing half-written"


def test_an_unknown_table_and_too_few_samples(tmp_path: Path) -> None:
    pd.DataFrame({"x": range(9), "y": range(9)}).to_csv(tmp_path / "small.csv.gz", index=False)
    for words, expected in (
        (["--data", "smal"], "small"),
        (["--data", "small", "--agents", "5"], "agents = 5: must be at most 4"),
    ):
        done = call("run", "coke", *words, cwd=tmp_path, NETSIM_DATA=str(tmp_path))
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert expected in line


def test_an_agent_that_raises_is_named_with_its_round_and_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from netsim import Agent, Network, topology\n"
        "class Divider(Agent):\n"
        "    async def run(self):\n"
        "        async for k in self.rounds(5):\n"
        "            1 / (3 - k)\n"
        "def mine(study, *, agents: int = 2) -> None:\n"
        "    graph = topology.path(agents)\n"
        "    study.run('mine', Network(graph), {i: Divider() for i in graph}, [], 5)\n"
        "def _report(study, table):\n"
        "    'A helper, and no study.'\n"
    )
    done = call("run", "mine.py", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    why = "agent 0 raised ZeroDivisionError in round 3 (mine.py, line 5): division by zero"
    assert line == f"netsim: {why}; what there is so far is in out, marked partial"
    with pytest.raises(BadInput, match="must be whole; it is partial, mine after round 2: agent 0 raised"):
        folders.load(tmp_path / "out")


@pytest.mark.parametrize("name", ["settings.json", "rounds.csv", "ledger.csv", "summary.json", "mse.png"])
def test_a_folder_cut_short_is_refused(name: str, folder: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    data = (broken / name).read_bytes()
    (broken / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match=r"^run folder = [^\n]*$"):
        folders.load(broken)
    (broken / name).unlink()
    with pytest.raises(BadInput, match=r"^run folder = [^\n]*$"):
        folders.load(broken)


def test_out_must_be_free_and_is_checked_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    done = call("run", "coke", "--out", "full", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "netsim: out = 'full': must be a new or an empty folder\n"
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["x"]


def test_an_interrupted_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = catalogue.find_study("averaging").execute(agents=5, radius=0.9)

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(done, "summary", interrupt)
    with pytest.raises(KeyboardInterrupt):
        done.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_help_shows_every_parameter(tmp_path: Path) -> None:
    done = call("run", "coke", "--help", cwd=tmp_path)
    assert done.returncode == 0
    for parameter in catalogue.find_study("coke").parameters:
        assert "--" + parameter.name.replace("_", "-") in done.stdout
        assert parameter.description, parameter.name


def test_a_scenario_parameter_needs_a_type_and_a_default(tmp_path: Path) -> None:
    for number, (signature, expected) in enumerate(
        (
            ("study, *, agents=3", "'agents' the type int"),
            ("study, *, agents: int", "'agents' a default"),
            ("other", "one function whose first parameter is `study`"),
        )
    ):
        path = tmp_path / f"mine{number}.py"
        path.write_text(f"def mine({signature}):\n    pass\n")
        with pytest.raises(BadInput, match=expected):
            catalogue.find_study(str(path))


def test_execute_refuses_an_unknown_parameter() -> None:
    with pytest.raises(BadInput, match=r"parameter = 'looss': must be one of .* \(did you mean 'loss'\?\)"):
        catalogue.find_study("coke").execute(looss=0.1)


def test_main_is_the_console_script() -> None:
    from importlib.metadata import entry_points

    from netsim.__main__ import main

    scripts = entry_points(group="console_scripts", name="netsim")
    assert {script.load() for script in scripts} == {main}


def test_an_installation_under_a_former_name_beside_this_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "netsim-0.1.0.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: netsim\nVersion: 0.1.0\n")
    (old / "entry_points.txt").write_text("[netsim.studies]\nnetsim = netsim.scenarios:SHELF\n")
    words = ["run", "averaging", "--agents", "5", "--out"]
    assert call(*words, "plain", cwd=tmp_path).returncode == 0
    monkeypatch.syspath_prepend(tmp_path)
    assert call(*words, "beside", cwd=tmp_path).returncode == 0
    plain, beside = ((tmp_path / name / "rounds.csv").read_bytes() for name in ("plain", "beside"))
    assert plain == beside


# --- results that must not be lost, whatever happens ------------------------------------------------------------------

TWO_RUNS = """\
from netsim import Agent, Network, topology
class Idle(Agent):
    async def run(self):
        async for _ in self.rounds(3):
            await self.collect()
def mine(study, *, agents: int = 2, fail: str = "") -> None:
    graph = topology.path(agents)
    def play(name, probe):
        study.run(name, Network(graph), {i: Idle() for i in graph}, [probe], 3)
    def count(agents):
        return len(agents)
    def text(agents):
        return "text"
    if fail == "first":
        1 / 0
    play("first", count)
    if fail == "probe":
        play("second", text)
    if fail == "report":
        1 / 0
    if fail == "exit":
        raise SystemExit
    study.note("größe \\udce4")
"""


@pytest.mark.parametrize(
    ("fail", "line"),
    [
        (
            "probe",
            "netsim: probe text = 'text': must be a function that returns a number or a mapping of numbers, after",
        ),
        (
            "report",
            "netsim: study 'mine.py' raised ZeroDivisionError (mine.py, line 20): division by zero; what the",
        ),
        ("exit", "netsim: study 'mine.py' raised SystemExit (mine.py, line 22): no message; what there is so far "),
    ],
)
def test_finished_runs_are_kept_when_what_follows_fails(fail: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TWO_RUNS)
    done = call("run", "mine.py", "--fail", fail, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(line)
    assert done.stderr.endswith("; what there is so far is in runs/mine-1, marked partial\n")
    found = folders.load(tmp_path / "runs" / "mine-1", partial=True)
    rows = found["rounds"].groupby("algorithm", sort=False).size().to_dict()
    assert rows == {"first": 3}, "a probe that returns no number wrote no row"
    assert list(found["summary"]["algorithms"]) == (["first", "second"] if fail == "probe" else ["first"])


def test_a_scenario_that_raises_before_anything_was_run_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(TWO_RUNS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = call("run", "mine.py", "--fail", "first", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == ("netsim: study 'mine.py' raised ZeroDivisionError (mine.py, line 15): division by zero\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_a_file_with_a_mistake_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import no_such_module\n")
    done = call("run", "mine.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "netsim: study = 'mine.py': must be a Python file that runs; "
        "ModuleNotFoundError (mine.py, line 1): No module named 'no_such_module'\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirections")
@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">/dev/full", "2>/dev/full", "| true"])
def test_an_output_that_cannot_be_written_does_not_end_a_run(redirection: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TWO_RUNS)
    command = f"{sys.executable} -m netsim run mine.py --out out {redirection}"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folders.load(tmp_path / "out")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.slow
def test_a_terminal_without_the_letters_shows_them_escaped(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TWO_RUNS)
    code = (
        "import sys; from netsim.studies.cli import main\n"
        "sys.argv[1:] = ['run', 'mine.py', '--out', 'out']; main()\n"
        "print('-- shown --')\n"
        "sys.argv[1:] = ['show', 'out']; main()"
    )
    env = environment(PYTHONIOENCODING="ascii")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "gr\\xf6\\xdfe \\udce4" in done.stdout.partition("-- shown --")[0]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("delay", [0.02, 0.1, 0.2, 0.35, 0.5, 1.0])
def test_an_interrupt_at_any_moment_ends_in_one_line(delay: float, tmp_path: Path) -> None:
    code = "import os; from netsim.__main__ import main; os.write(1, b'ready\\n'); main()"
    words = [sys.executable, "-c", code, "run", "averaging", "--agents", "60", "--out", "out"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    if process.returncode == 0:
        folders.load(tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        return
    assert process.returncode == 130
    (line,) = [line for line in stderr.splitlines() if line and ": round" not in line]
    if line == "netsim: interrupted; no run folder was written":
        assert list(tmp_path.iterdir()) == []
        return
    assert line == "netsim: interrupted; what there is so far is in out, marked partial"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(BadInput, match="must be whole; it is partial"):
        folders.load(tmp_path / "out")


# --- several values ---------------------------------------------------------------------------------------------------


def test_several_values_of_a_flag_name_the_sweep_that_runs_them(tmp_path: Path) -> None:
    """The suggested sweep command keeps the other flags, except those that a sweep does not have."""
    flags = ["--agents=5", "--radius", "0.9", "--seed", "0:3", "--trace", "--figures", "svg"]
    done = call("run", "averaging", *flags, cwd=tmp_path)
    assert done.returncode == 2
    start = "netsim: seed = '0:3': must be one value; several are a sweep: "
    assert done.stderr.startswith(start)
    command = done.stderr.removeprefix(start).rstrip("\n")
    assert command == "netsim sweep averaging --agents 5 --radius 0.9 --seed 0:3 --out sweeps/averaging"
    swept = call(*shlex.split(command)[1:], cwd=tmp_path)
    assert swept.stdout == "sweeps/averaging: 3 of 3 points, 0 failed; points.csv\n", swept.stderr
    again = call("run", "averaging", "--loss", "0,0.1", cwd=tmp_path)
    assert again.stderr.endswith("netsim sweep averaging --loss 0,0.1 --out sweeps/averaging-2\n"), "the place is taken"


@pytest.mark.parametrize("flags", [["--loss", "0,x"], ["--seed", "0:3:"], ["--seed", "5:5"], ["--pace", "1:2"]])
def test_what_no_sweep_could_run_either_is_refused_as_before(flags: list[str], tmp_path: Path) -> None:
    done = call("run", "averaging", *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert "sweep" not in done.stderr
    assert f"'{flags[0]}'" in done.stderr
