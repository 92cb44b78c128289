"""A study's files: complete despite failures while saving; studies in files; pickled runs."""

import copy
import json
import math
import os
import pickle
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import netsim
from netsim import Agent, AgentError, BadInput, NetsimError, Network, Run, core, topology
from netsim.studies import catalogue, cli
from netsim.studies.folder import Unsaved, load
from netsim.studies.formats import Formats
from netsim.studies.reserve import reserve
from netsim.studies.study import Study
from netsim.studies.sums import write_sums
from netsim.studies.terminal import Reporter, text
from tests.command import MAIN, call, on_the_other_core
from tests.netsim.studies.test_files_reserve import disk, fill, left
from tests.parts import every

__all__ = ["disk"]


WHOLE = ["SHA256SUMS", "ledger.csv", "report.html", "rounds.csv", "settings.json", "summary.json"]


class Idle(Agent):
    async def run(self) -> None:
        async for _ in self.rounds(3):
            await self.broadcast("x", 1.0)
            await self.collect()


def play(*probes: Any) -> Run:
    graph = topology.path(2)
    return Network(graph).run({node: Idle() for node in graph}, probes)


def studied(*probes: Any, name: str = "idle", trace: bool = False, **settings: Any) -> Study:
    study = Study("idle", settings, trace=trace)
    graph = topology.path(2)
    study.run(name, Network(graph), {node: Idle() for node in graph}, probes, 3)
    return study


def returns(value: Any) -> Any:
    def measure(agents: Mapping[Any, Any]) -> Any:
        return value

    return measure


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = studied(returns({"mse": 0.25, "gap": math.nan}), agents=2, data="a table", loss=None, radio=False)
    study.note("A note.")
    study.centralised = {"train_mse": 0.5, "test_mse": math.nan}
    return study.save(tmp_path_factory.mktemp("show") / "out")


# --- probes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (0.5, 0.5),
        (True, 1.0),
        (np.bool_(False), 0.0),
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.float32(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.array(0.5), 0.5),
        (np.array([0.5]), 0.5),
        (np.array([[3]]), 3),
        (Fraction(1, 2), 0.5),
        (math.inf, math.inf),
        (10**30, 1e30),
        (10**400, math.inf),
        (-(10**400), -math.inf),
    ],
)
def test_numbers_of_every_kind_are_measures(value: Any, number: float, tmp_path: Path) -> None:
    study = studied(returns(value), returns({"column": value}))
    rounds = load(study.save(tmp_path / "out"))["rounds"]
    assert rounds["measure"].tolist() == [number] * 3
    assert rounds["column"].tolist() == [number] * 3
    last = json.loads((tmp_path / "out" / "summary.json").read_text())["algorithms"]["idle"]
    assert last["column"] == (number if math.isfinite(number) else None)


def test_what_does_not_apply_is_empty(tmp_path: Path) -> None:
    study = studied(returns({"a": math.nan, "b": np.float32("nan")}))
    rounds = load(study.save(tmp_path / "out"))["rounds"]
    assert rounds[["a", "b"]].isna().all(axis=None)
    assert ",,\n" in (tmp_path / "out" / "rounds.csv").read_text()


NO_NUMBERS = ["text", None, b"1", 1j, np.array([1.0, 2.0]), np.array([]), np.str_("1"), [1.0], Decimal(1), object]


@every("value", NO_NUMBERS)
def test_a_measure_that_is_no_number_ends_the_run_at_its_round(value: Any) -> None:
    shown = r"(?!.*\n).*"
    with pytest.raises(
        BadInput, match=rf"^probe measure = {shown}: must be a function that returns .*, after round 1$"
    ):
        play(returns(value))
    with pytest.raises(BadInput, match=rf"^probe measure, column 'a' = {shown}: must be a number .*, after round 1$"):
        play(returns({"a": value}))


@every("column", [0, None, "", " ", "a\nb", "a\0", "\udce4", b"a", ("a", "b"), "round", "trace_hash"])
def test_a_column_has_a_name_of_its_own_that_can_be_written(column: Any) -> None:
    wanted = r"^probe measure, column = (?!.*\n).*: must be printable text, after round 1$"
    if column in ("round", "trace_hash"):
        wanted = rf"^probe column '{column}': must not duplicate an existing column$"
    with pytest.raises(BadInput, match=wanted):
        play(returns({column: 1.0}))


def test_odd_but_lawful_names_come_back(tmp_path: Path) -> None:
    columns = ['a,"b"', "größe", "--loss", "../x", "1", "NA", "a/b", "$x_"]
    study = studied(returns(dict.fromkeys(columns, 0.25)), name='NA/"1", --ø', trace=True)
    rounds = load(study.save(tmp_path / "out"))["rounds"]
    assert rounds[columns].eq(0.25).all(axis=None)
    assert set(rounds["algorithm"]) == {'NA/"1", --ø'}
    assert "trace-NA%2F%221%22, --ø.npz" in left(tmp_path / "out")


# --- names and values that a study is given ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 300, "/" * 100, 3, None, "\udce4"])
def test_an_algorithm_has_a_name_that_can_be_written(name: Any) -> None:
    with pytest.raises(BadInput, match=r"^algorithm = (?!.*\n).*: must be printable text of at most 200 bytes$"):
        studied(name=name)


@every("name", ["", "a/b", "..", ".hidden", "rounds", "Ledger", "a\\b", "x" * 300, 3, "a\0"])
def test_a_table_and_a_figure_have_names_of_files(name: Any) -> None:
    study = Study("x", {})
    with pytest.raises(BadInput, match=r"^table = (?!.*\n).*: must be "):
        study.table(name, "title", pd.DataFrame())
    with pytest.raises(BadInput, match=r"^figure = (?!.*\n).*: must be "):
        study.figure(name, Figure())


def test_a_table_is_a_table_and_a_figure_a_figure() -> None:
    study: Any = Study("x", {})
    with pytest.raises(BadInput, match=r"^table 'x' = \[1\]: must be a pandas DataFrame$"):
        study.table("x", "title", [1])
    with pytest.raises(
        BadInput, match=r"^figure 'x' = 'png': must be a matplotlib Figure, or a function that draws one$"
    ):
        study.figure("x", "png")


def test_numpys_numbers_and_whatever_else_can_be_settings(tmp_path: Path) -> None:
    given = {"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True), "d": (1, np.int8(2)), "e": math.inf}
    study = studied(**given, f=Path("x"), g={1: np.nan}, h="ü\udce4")
    study.centralised = {"train_mse": np.float32(0.5), "test_mse": math.nan}
    found = load(study.save(tmp_path / "out"))
    expected = {"a": 3, "b": 0.5, "c": True, "d": [1, 2], "e": "inf", "f": "x", "g": {"1": None}, "h": "ü\udce4"}
    assert found["settings"]["parameters"] == expected
    assert found["summary"]["centralised"] == {"train_mse": 0.5, "test_mse": None}


def test_notes_and_references_of_any_kind_can_be_read_again(tmp_path: Path) -> None:
    study: Any = Study("x", {})
    study.note(3)
    study.note(np.float64(0.5))
    study.centralised = {"a": "text", 1: None, "b": np.int64(3), "c": [1.0]}
    summary = load(study.save(tmp_path / "out"))["summary"]
    assert summary["notes"] == ["3", "0.5"]
    assert summary["centralised"] == {"a": "text", "1": None, "b": 3, "c": [1.0]}


def test_agents_with_any_name_are_in_the_ledger(tmp_path: Path) -> None:
    graph = nx.path_graph(["a\udce4", "ü"])
    study = Study("x", {})
    study.run("x", Network(graph), {node: Idle() for node in graph}, [], 3)
    load(study.save(tmp_path / "out"))
    assert list(pd.read_csv(tmp_path / "out" / "ledger.csv")["receiver"]) == ["ü", "a\\udce4"]


# --- what fails while it is saved -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_what_matplotlib_warns_of_is_a_note_without_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = studied()
    figure = Figure()
    figure.suptitle("\u6570\u636e")  # the font lacks these characters, so matplotlib would warn
    study.figure("titled", figure)
    folder = study.save(tmp_path / "run")
    assert capsys.readouterr().err == ""
    (note,) = json.loads((folder / "summary.json").read_text())["notes"]
    assert note.startswith("titled.png: Glyph")
    assert note.endswith("(and 1 more)")
    assert "site-packages" not in note
    assert "\n" not in note


def test_a_figure_that_cannot_be_drawn_does_not_take_the_rest_with_it(tmp_path: Path) -> None:
    study = studied()
    for name, title in (("good", "title"), ("bad", "$\\nothing{$")):
        figure = Figure()
        figure.suptitle(title)
        study.figure(name, figure)
    with pytest.raises(Unsaved, match=r"^bad\.png could not be made \(ValueError: [^\n]*; the rest is in .*out$"):
        study.save(tmp_path / "out")
    found = load(tmp_path / "out")
    assert list(found["summary"]["failed"]) == ["bad.png"]
    assert left(tmp_path / "out") == sorted(["good.png", *WHOLE])


def test_figures_are_drawn_when_they_are_saved_or_looked_at(tmp_path: Path) -> None:
    study, drawn = studied(), []

    def draw() -> Figure:
        drawn.append(1)
        figure = Figure()
        figure.suptitle("its title")
        return figure

    study.figure("later", draw)
    study.formats = Formats(figures=())
    study.save(tmp_path / "without")
    assert not drawn
    study.formats = Formats()
    folder = study.save(tmp_path / "with")
    assert (folder / "later.png").is_file()
    assert "its title" in (folder / "report.html").read_text()
    assert study.figures["later"] is study.figures["later"]
    assert drawn == [1]


def test_a_function_that_draws_no_figure_fails_its_file_only(tmp_path: Path) -> None:
    study = studied()
    study.figure("wrong", lambda: "png")  # type: ignore[arg-type,return-value]
    with pytest.raises(Unsaved, match=r"^wrong\.png could not be made \(BadInput: figure 'wrong' = 'png': must be "):
        study.save(tmp_path / "out")
    assert left(tmp_path / "out") == sorted(WHOLE)


def test_the_table_of_rounds_is_made_once_and_belongs_to_its_reader() -> None:
    study = studied()
    first = study.rounds
    first.loc[:, "round"] = -1
    assert (study.rounds["round"] > 0).all()
    study.column("twice", lambda rows: 2 * rows["round"])
    assert (study.rounds["twice"] == 2 * study.rounds["round"]).all()
    study.runs["again"] = next(iter(study.runs.values()))
    assert list(study.rounds["algorithm"].unique()) == [*study.runs]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def big_table(study: Study) -> None:
    study.table("big", "title", pd.DataFrame({"x": np.random.default_rng(0).random(10_000)}))


@pytest.mark.parametrize("inside", [False, True])
def test_on_a_full_disk_the_results_go_to_the_temporary_directory(inside: bool, disk: Path, temporary: Path) -> None:
    study = studied()
    big_table(study)
    out = disk if inside else disk / "out"
    with pytest.raises(
        Unsaved, match=r"^out = '.*': could not be written \(No space left on device\); the results are in"
    ):
        study.save(out)
    assert left(disk) == []
    (kept,) = temporary.iterdir()
    load(kept)
    assert len(pd.read_csv(kept / "big.csv")) == 10_000


def test_a_disk_that_filled_during_the_run(disk: Path, temporary: Path) -> None:
    study = studied()
    with reserve(disk / "out") as place:
        fill(disk)
        with pytest.raises(Unsaved, match="No space left on device"):
            study.save(place)
    assert left(disk) == ["big"]
    (kept,) = temporary.iterdir()
    load(kept)


def test_a_folder_that_went_away_during_the_run(tmp_path: Path, temporary: Path) -> None:
    study = studied()
    (tmp_path / "room").mkdir()
    with reserve(tmp_path / "room" / "out") as place:
        (tmp_path / "room").rename(tmp_path / "moved")
        with pytest.raises(Unsaved, match=r"the results are in .*netsim-idle-"):
            study.save(place)
    (kept,) = temporary.iterdir()
    load(kept)


def test_if_nothing_can_be_written_one_line_reports_it(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    study = studied()
    big_table(study)
    with pytest.raises(Unsaved, match=r"^out = (?!.*\n).*; nor could it in .*\(No space .*\): the results are lost$"):
        study.save(disk / "out")
    assert left(disk) == []


@pytest.mark.parametrize("what", ["rounds.csv", "summary.json", "replace", "rename"])
@pytest.mark.parametrize("inside", [False, True])
def test_an_interrupt_at_any_step_leaves_nothing(
    what: str, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = studied()
    out = tmp_path / "out"
    if inside:
        out.mkdir()

    def interrupt(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    if what == "rounds.csv":
        monkeypatch.setattr(pd.DataFrame, "to_csv", interrupt)
    elif what == "summary.json":
        monkeypatch.setattr(study, "summary", interrupt)
    else:
        real, calls = os.replace, []

        def third(*arguments: Any) -> None:
            calls.append(arguments)
            if len(calls) == 3 or what == "rename":
                interrupt()
            real(*arguments)

        monkeypatch.setattr(os, "replace" if inside else "rename", third if inside else interrupt)
    with pytest.raises(KeyboardInterrupt):
        study.save(out)
    assert left(tmp_path) == (["out"] if inside else [])
    assert not inside or left(out) == []


# --- before a run -----------------------------------------------------------------------------------------------------

MEETS = """\
import os, time
from pathlib import Path
from netsim import Agent, Network, topology
class Idle(Agent):
    async def run(self):
        async for _ in self.rounds(3):
            await self.collect()
def mine(study, *, others: int = 0) -> None:
    Path(f"began-{os.getpid()}").touch()
    graph = topology.path(2)
    study.run("idle", Network(graph), {i: Idle() for i in graph}, [len], 3)
    end = time.monotonic() + 60
    while len(list(Path().glob("began-*"))) <= others and time.monotonic() < end:
        time.sleep(0.01)
"""


@pytest.fixture
def room(tmp_path: Path) -> Path:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "mine.py").write_text(MEETS)
    return folder


@pytest.mark.slow
def test_runs_at_the_same_time_have_folders_of_their_own_by_default(room: Path) -> None:
    words = [sys.executable, "-c", MAIN, "run", "mine.py", "--others", "2"]
    at_once = [
        subprocess.Popen(words, cwd=room, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    output = [process.communicate(timeout=120)[1] for process in at_once]
    assert [process.returncode for process in at_once] == [0, 0, 0], output
    assert sorted(path.name for path in (room / "runs").iterdir()) == ["mine-1", "mine-2", "mine-3"]
    for number in (1, 2, 3):
        load(room / "runs" / f"mine-{number}")


@pytest.mark.parametrize("what", ["full", "read-only", "below a file"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_run(what: str, room: Path, disk: Path) -> None:
    out = disk / "out"
    if what == "full":
        fill(disk)
    elif what == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    else:
        (disk / "other").mkdir()
        (disk / "other" / "file").touch()
        out = disk / "other" / "file" / "out"
    done = call("run", "mine.py", "--out", str(out), cwd=room)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"netsim: out = {str(out)!r}: must be ")
    assert not list(room.glob("began-*")), "it ran in vain"


@pytest.mark.slow
def test_what_a_killed_run_left_beside_the_folder_is_swept_by_the_next(room: Path) -> None:
    """The next run removes what a run left when it was killed while writing its folder."""
    code = (
        "import os, signal, pandas as pd; from netsim.studies.cli import main; "
        "pd.DataFrame.to_csv = lambda *a, **m: os.kill(os.getpid(), signal.SIGKILL); main()"
    )
    words = [sys.executable, "-c", code, "run", "mine.py", "--out", "results/out"]
    assert subprocess.run(words, cwd=room, capture_output=True).returncode == -signal.SIGKILL
    assert os.listdir(room / "results") != []
    assert call("run", "mine.py", "--out", "results/out", cwd=room).returncode == 0
    assert os.listdir(room / "results") == ["out"]


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], tuple[int, str, str]]:
    """Return a function that runs `netsim show` and returns its status, output and errors."""

    def shown(path: Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["netsim", "show", str(path)])
        status: Any = 0
        try:
            cli.main()
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    return shown


Show = Callable[[Path], tuple[int, str, str]]


def seal(path: Path) -> None:
    """Rewrite the digests of the files, as somebody who edits a folder carefully would."""
    write_sums(path)


def test_what_is_shown(folder: Path, show: Show) -> None:
    status, out, err = show(folder)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "netsim run idle --agents 2 --data 'a table' --no-radio"
    assert "centralised train_mse: 0.5" in lines
    assert "centralised test_mse: –" in lines
    assert "A note." in lines
    assert lines[-1] == f"netsim {netsim.__version__}, core: {core.NAME}"


def test_settings_and_version_name_the_core(folder: Path) -> None:
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["core"] == core.NAME
    assert call("--version", cwd=folder).stdout == f"netsim, version {settings['netsim']} (core: {core.NAME})\n"


def test_a_study_without_runs_can_be_shown(tmp_path: Path, show: Show) -> None:
    status, out, err = show(Study("empty", {}).save(tmp_path / "out"))
    assert (status, err) == (0, "")
    assert out.startswith("netsim run empty\n")


# --- edited folders ---------------------------------------------------------------------------------------------------

JUNK: list[Any] = [
    None, True, 0, -1, 1.5, 10**25, 10**400, math.nan, math.inf, -1e300, "", "text", "1", "a\nb\0\x1b[31m", "\ud800",
    "ü" * 1000, [], [1], [[]], ["x", None], {}, {"x": {}}, {"algorithm": 1}, [[[[]]]] * 3,
]  # fmt: skip
BYTES = [
    b"", b"\n", b"\0" * 100, b"\xff\xfe\x00", b"{", b"[" * 100_000, b"null", b"[]", b'"x"', b"1" * 5000, b"{}",
    b"\xef\xbb\xbf{}", b"algorithm;round\nx;1\n",
    b"algorithm\n", b"algorithm,round\nx\n", b"round\n1\n", b"algorithm,round\nx,1,2,3\n", b'algorithm,"\n',
    bytes(range(256)),
    b"algorithm,algorithm\nx,y\n", b"algorithm,x\na," + b"9" * 400 + b"\n", b"algorithm,x\na,text\n",
]  # fmt: skip


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a JSON tree together with each of its keys or indices."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from places(tree[key])


def edit_json(path: Path, draw: random.Random) -> None:
    tree = [json.loads(path.read_text())]
    container, key = draw.choice(list(places(tree)))
    action = draw.randrange(3)
    if action == 0 and isinstance(container, dict):
        del container[key]
    elif action == 1 and isinstance(container, dict):
        container[str(draw.choice(JUNK))] = draw.choice(JUNK)
    else:
        container[key] = draw.choice(JUNK)
    try:
        path.write_text(json.dumps(tree[0]))
    except ValueError:
        # The tree contains an integer that is too long for Python to convert to text.
        path.write_bytes(b"{")


def edit_csv(path: Path, draw: random.Random) -> None:
    rows = [line.split(",") for line in path.read_text().splitlines()]
    row = draw.choice(rows)
    action = draw.randrange(5)
    if action == 0:
        rows.remove(row)
    elif action == 1:
        row.append(str(draw.choice(JUNK)))
    elif action == 2:
        del row[draw.randrange(len(row))]
    else:
        row[draw.randrange(len(row))] = str(
            draw.choice(["", '"', "nan", "-inf", "x" * 500, "9" * 30, "9" * 400, "1e999", "\0"])
        )
    path.write_text("\n".join(",".join(row) for row in rows) + "\n", errors="replace")


def edit_bytes(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if draw.random() < 0.4:
        data = bytearray(draw.choice(BYTES))
    else:
        for _ in range(draw.randint(1, 4)):
            start = draw.randrange(len(data))
            data[start : start + draw.choice([0, 1, 1, 1, 20])] = draw.choice(
                [draw.randbytes(3), b"", b",", b"\n", b'"']
            )
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(60))
def test_an_edited_folder_is_shown_or_refused_in_one_line(seed: int, folder: Path, tmp_path: Path, show: Show) -> None:
    draw = random.Random(seed)
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    for _ in range(draw.randint(1, 2)):
        name = draw.choice(["settings.json", "summary.json", "rounds.csv"])
        try:
            draw.choice([edit_csv if name.endswith("csv") else edit_json, edit_bytes])(broken / name, draw)
        except (ValueError, IndexError, RecursionError):
            continue
    if draw.random() < 0.9:
        seal(broken)
    status, out, err = show(broken)
    if status == 0:
        assert err == ""
        assert out.startswith("netsim run ")
    else:
        assert status == 2
        assert out == ""
        assert err.startswith(f"netsim: run folder = {str(broken)!r}: must be what `netsim run` wrote; ")
        assert err.count("\n") == 1
        assert len(err) < 600


@pytest.mark.parametrize(
    ("name", "change", "wanted"),
    [
        ("settings", lambda tree: tree.update(parameters=[1]), "settings.json: 'parameters' must be dict, not list"),
        ("settings", lambda tree: tree.pop("study"), "settings.json must have 'study'"),
        ("settings", lambda tree: tree.update(core=3), "settings.json: 'core' must be str, not int"),
        ("summary", lambda tree: tree.update(notes="x"), "summary.json: 'notes' must be list, not str"),
        ("summary", lambda tree: tree.update(notes=[1]), "summary.json: notes[0] must not be int"),
        ("summary", lambda tree: tree.update(centralised=1), "summary.json: 'centralised' must be dict, not int"),
    ],
)
def test_the_line_names_what_is_wrong(name: str, change: Any, wanted: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "broken")
    path = tmp_path / "broken" / f"{name}.json"
    tree = json.loads(path.read_text())
    change(tree)
    path.write_text(json.dumps(tree))
    seal(tmp_path / "broken")
    with pytest.raises(BadInput) as caught:
        load(tmp_path / "broken")
    assert wanted in str(caught.value)


def test_a_column_of_text_and_a_missing_one_are_named(folder: Path, tmp_path: Path) -> None:
    for number, (old, new, wanted) in enumerate(
        ((",0.25,", ",high,", "column 'mse' must hold numbers"), ("algorithm,", "method,", "a column 'algorithm'"))
    ):
        broken = tmp_path / str(number)
        shutil.copytree(folder, broken)
        (broken / "rounds.csv").write_text((broken / "rounds.csv").read_text().replace(old, new))
        seal(broken)
        with pytest.raises(BadInput, match=wanted):
            load(broken)


# --- cells of tables --------------------------------------------------------------------------------------------------


@every(
    ("value", "shown"),
    [
        (0.123456, "0.1235"),
        (1234567, "1,234,567"),
        (1234567.0, "1,234,567"),
        (-3.0, "-3"),
        (9.87654321e14, "987,654,321,000,000"),
        (10**17, "100,000,000,000,000,000"),
        (1.23456789e100, "1.23457e+100"),
        (-(2.0**80), "-1.20893e+24"),
        (1e15, "1e+15"),
        (10**400, "inf"),
        (-(10**400), "-inf"),
        (10**30, "1e+30"),
        (math.inf, "inf"),
        (math.nan, "–"),
        (None, "–"),
        (pd.NA, "–"),
        (pd.NaT, "–"),
        (True, "True"),
        ("a\nb", "a b"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_a_cell_shows_a_number_shortly(value: Any, shown: str) -> None:
    assert text(value) == shown


def test_numpys_numbers_are_shown_as_pythons() -> None:
    assert text(np.float32(0.5)) == "0.5"
    assert text(np.int64(1234)) == "1,234"
    assert text(np.bool_(True)) == "True"
    assert text(np.float64("nan")) == "–"
    assert text(np.array([0.5, 1])) == "[0.5 1. ]"


def test_a_summary_has_no_number_of_a_hundred_digits(tmp_path: Path) -> None:
    study = studied(returns({"mse": 1e100, "count": 3.0}))
    study.save(tmp_path / "out")
    written = (tmp_path / "out" / "summary.json").read_text()
    assert '"mse": 1e+100' in written
    assert '"count": 3,' in written


def test_brackets_are_no_markup_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    frame = pd.DataFrame({"[bold]x[/bold]": ["[/red]"]})
    reporter = Reporter()
    reporter.table("title [/]", frame)
    with reporter.progress("DKLA [/]", 3) as progress:
        progress(3)
    out, err = capsys.readouterr()
    assert "[bold]x[/bold]" in out
    assert "[/red]" in out
    assert "title [/]" in out
    assert "DKLA [/]" in err


# --- a sweep ----------------------------------------------------------------------------------------------------------


def test_of_a_sweep_is_shown_what_it_is_and_what_it_came_to(tmp_path: Path) -> None:
    netsim.studies.sweep("averaging", out=tmp_path / "swept", loss=[0.0, 0.3], seed=[1, 2, 3], agents=5, radius=0.9)
    done = call("show", "swept", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "a sweep of averaging: 6 of 6 points done, 0 failed",
        "netsim sweep averaging --loss 0.0,0.3 --seed 1:4 --agents 5 --radius 0.9 --out swept",
    ]
    again = call(*shlex.split(lines[1])[1:], cwd=tmp_path)
    assert again.stdout == "swept: 6 of 6 points, 0 failed; points.csv\n", "the command is that of this sweep"
    assert any(line.split()[:4] == ["swept", "0.3", "averaging", "3"] for line in lines), "a row for each loss"
    for begun in ("with intervals: ", "one point: "):
        (command,) = [line.removeprefix(begun) for line in lines if line.startswith(begun)]
        assert call(*shlex.split(command)[1:], cwd=tmp_path).returncode == 0
    # Make the sweep look as if it had been killed half-way, and one of its points had failed.
    shutil.rmtree(tmp_path / "swept" / "points" / "loss=0.3,seed=2")
    shutil.rmtree(tmp_path / "swept" / "points" / "loss=0.3,seed=3")
    (tmp_path / "swept" / "failed").mkdir(exist_ok=True)
    (tmp_path / "swept" / "failed" / "x.json").write_text('{"point": "loss=0.3,seed=3", "error": "it stood still"}')
    less = call("show", "swept", cwd=tmp_path).stdout.splitlines()
    assert less[0] == "a sweep of averaging: 4 of 6 points done, 1 failed"
    assert less[-1] == "loss=0.3,seed=3 failed: it stood still"
    shutil.rmtree(tmp_path / "swept" / "points")
    assert call("show", "swept", cwd=tmp_path).stdout.startswith("a sweep of averaging: 0 of 6 points done, 1 failed\n")


@pytest.mark.parametrize("words", [["replay"], ["export", "--format", "json"]])
def test_where_one_run_is_needed_a_sweep_is_refused_as_one(words: list[str], tmp_path: Path) -> None:
    netsim.studies.sweep("averaging", out=tmp_path / "swept", seed=[1, 2], agents=5, radius=0.9)
    done = call(words[0], "swept", *words[1:], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("netsim: run folder = 'swept': must be what `netsim run` wrote; it is a sweep, ")
    assert done.stderr.count("\n") == 1


# --- studies in files -------------------------------------------------------------------------------------------------

MODERN = """from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Optional

from netsim import Agent, Network, topology

if TYPE_CHECKING:
    from netsim.studies import Study


@dataclass(frozen=True)
class Size:
    \"\"\"How large.

    Parameters
    ----------
    agents : int
        Number of agents.
    \"\"\"

    kinds: ClassVar[int] = 3
    agents: int = 3
    tags: Optional[str] = field(default=None, kw_only=True)


class Idle(Agent):
    async def run(self) -> None:
        async for _ in self.rounds(2):
            await self.collect()


def NAME(study: Study, *, size: Size = Size(), loss: float | None = None, seed: Optional[int] = None) -> None:
    \"\"\"Does nothing.\"\"\"
    assert pickle.loads(pickle.dumps(size)) == size
    assert dataclasses.replace(size, agents=4).agents == 4
    graph = topology.path(size.agents)
    study.run("idle", Network(graph), {i: Idle() for i in graph}, [], 2)
"""


def written(folder: Path, text: str, name: str = "mine") -> str:
    path = folder / f"{name}.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", ["mine", "json", "numpy", "netsim", "with-dash", "mit größe", "a.b"])
def test_a_file_may_postpone_its_annotations_and_have_any_name(name: str, tmp_path: Path) -> None:
    before = dict(sys.modules)
    definition = catalogue.find_study(written(tmp_path, MODERN.replace("NAME", "experiment"), name))
    assert [each.name for each in definition.parameters] == ["loss", "seed", "agents", "tags"]
    assert [each.kind for each in definition.parameters] == [float, int, int, str]
    assert [each.optional for each in definition.parameters] == [True, True, False, True]
    study = definition.execute(agents=5)
    assert len(study.runs["idle"].agents) == 5
    # Reading the file may import libraries such as pandas, but must leave no module of its own, and replace none.
    assert not [key for key in sys.modules if "_study_" in key]
    assert all(sys.modules[key] is module for key, module in before.items())
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.py"], "no __pycache__"


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder, agents in (("a", 3), ("b", 7)):
        written(tmp_path / folder, MODERN.replace("NAME", "mine").replace("agents: int = 3", f"agents: int = {agents}"))
    found = [catalogue.find_study(str(tmp_path / folder / "mine.py")) for folder in "ab"]
    assert [len(each.execute().runs["idle"].agents) for each in found] == [3, 7]


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    # The files have equal length and are written within one second, so a bytecode cache could not tell them apart.
    for agents in (3, 7, 5):
        path = written(tmp_path, MODERN.replace("NAME", "mine").replace("agents: int = 3", f"agents: int = {agents}"))
        assert len(catalogue.find_study(path).execute().runs["idle"].agents) == agents


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x = 1\ndef mine(study:\n    pass\n", r"SyntaxError \(mine\.py, line 2\): '\(' was never closed"),
        ("def mine(study):\n  pass\n pass\n", r"IndentationError \(mine\.py, line 3\): "),
        ("import json\nimport no_such_module\n", r"ModuleNotFoundError \(mine\.py, line 2\): No module named 'no_such"),
        ("from netsim import Agnet\n", r"ImportError \(mine\.py, line 1\): cannot import name 'Agnet'"),
        ("def f():\n    return 1 / 0\n\nf()\n", r"ZeroDivisionError \(mine\.py, line 2\): division by zero"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError \(mine\.py, line 2\): "),
        ("raise ValueError('a\\nb')\n", r"ValueError \(mine\.py, line 1\): a b$"),
        ("raise ValueError\n", r"ValueError \(mine\.py, line 1\): no message$"),
        ("import sys\nsys.exit('no')\n", r"SystemExit \(mine\.py, line 2\): no$"),
        ("from netsim import Link\nLink(loss=2)\n", r"BadInput \(mine\.py, line 2\): loss = 2: must be"),
        ("def f():\n    f()\nf()\n", r"RecursionError \(mine\.py, line 2\): "),
        ("x = '\0'\n", r"(SyntaxError|ValueError).*: source code"),
        ("(" * 5000 + ")" * 5000, r"\w+Error"),
    ],
)
def test_a_file_that_does_not_run_is_refused_with_its_line(text: str, wanted: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInput, match=rf"^study = (?!.*\n).*: must be a Python file that runs; {wanted}"):
        catalogue.find_study(path)
    assert not [key for key in sys.modules if "_study_" in key]


def test_a_script_that_runs_only_as_the_main_module_is_told_so(tmp_path: Path) -> None:
    text = "from netsim import Network, topology\n\n\ndef main():\n    Network(topology.path(2)).run({})\n\n\n"
    path = written(tmp_path, text + 'if __name__ == "__main__":\n    main()\n')
    with pytest.raises(BadInput, match=r'what stands under `if __name__ == "__main__":` is not run here$'):
        catalogue.find_study(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(b"x = '\xff'\n")
    with pytest.raises(BadInput, match=r"^study = (?!.*\n).*: must be a Python file that runs; SyntaxError"):
        catalogue.find_study(str(tmp_path / "mine.py"))
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(BadInput, match="an existing Python file"):
        catalogue.find_study(str(tmp_path / "folder.py"))


@pytest.mark.parametrize(
    ("signature", "wanted"),
    [
        ("study, *, agents: int | str = 3", "'agents' the type int"),
        ("study, *, agents: list[int] = 3", "'agents' the type int"),
        ("study, *, agents: 'Missing' = 3", "types that can be found; NameError: name 'Missing'"),
        ("study, *, out: str = 'x'", "'out' another name"),
        ("study, *, trace: bool = False", "'trace' another name"),
        ("study, *, help: bool = False", "'help' another name"),
        ("study, *, reporter: int = 0", "'reporter' another name"),
        ("study, **more: int", "'more' a default"),
    ],
)
def test_a_parameter_that_can_be_no_flag_is_refused(signature: str, wanted: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"def mine({signature}) -> None:\n    pass\n")
    with pytest.raises(BadInput, match=rf"^study = (?!.*\n).*: must (have|give its parameter) {wanted}"):
        catalogue.find_study(path)


def test_a_parameter_and_a_field_of_one_name_are_refused(tmp_path: Path) -> None:
    text = MODERN.replace("NAME", "mine").replace("loss: float | None = None", "agents: int = 3")
    with pytest.raises(BadInput, match="must have one parameter 'agents', not 2"):
        catalogue.find_study(written(tmp_path, text))


# --- runs that are pickled and copied ---------------------------------------------------------------------------------


class Heard(Agent):
    def __init__(self, value: float) -> None:
        self.value = np.array([value])
        self.heard: list[Any] = []

    async def run(self) -> None:
        async for _ in self.rounds(3):
            await self.broadcast("x", self.value)
            self.heard += await self.collect()


class Slim(Agent):
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 3

    async def run(self) -> None:
        async for _ in self.rounds(1):
            await self.collect()


def pickled_run(make: Callable[[int], Agent], *probes: Any) -> Run:
    graph = topology.ring(3)
    return Network(graph, seed=1).run({node: make(node) for node in graph}, probes)


COPIES = [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]


@pytest.mark.parametrize("duplicate", COPIES)
def test_a_finished_agent_can_be_copied_and_is_then_in_no_network(duplicate: Callable[[Any], Any]) -> None:
    agent = pickled_run(Heard).agents[0]
    again = duplicate(agent)
    assert type(again) is Heard
    assert again.value == agent.value
    assert [frame.payload for frame in again.heard] == [frame.payload for frame in agent.heard]
    assert len(again.heard) == 6
    assert agent.name == 0, "the original is as it was"
    with pytest.raises(AgentError, match="has not joined a network yet"):
        _ = again.name
    with pytest.raises(AttributeError):
        _ = again.nothing


@pytest.mark.parametrize("duplicate", COPIES)
def test_agents_with_slots_and_agents_that_never_ran_can_be_copied(duplicate: Callable[[Any], Any]) -> None:
    agent: Any = pickled_run(lambda node: Slim()).agents[0]
    assert duplicate(agent).value == 3
    assert duplicate(Slim()).value == 3
    assert vars(duplicate(Heard(2.0)))["value"] == 2.0


def test_a_copy_can_take_part_in_another_run() -> None:
    first = pickled_run(Heard)
    again = pickled_run(lambda node: pickle.loads(pickle.dumps(first.agents[node])))
    assert [len(agent.heard) for agent in again.agents.values()] == [12] * 3


def test_an_agent_can_be_copied_while_it_runs() -> None:
    taken = []

    def snapshot(agents: Any) -> float:
        taken.append(copy.deepcopy(agents[0]))
        return 0.0

    pickled_run(Heard, snapshot)
    assert [len(agent.heard) for agent in taken] == [2, 4, 6]


@pytest.mark.parametrize("duplicate", COPIES[1:])
def test_a_run_can_be_pickled_or_gives_the_reason(duplicate: Callable[[Any], Any]) -> None:
    run = pickled_run(Heard, lambda agents: 1.0)
    try:
        again = duplicate(run)
    except NetsimError as error:
        assert str(error).startswith("a Run cannot be pickled or copied, because its ledger cannot (")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert again.rounds.equals(run.rounds)
        assert again.ledger.table().equals(run.ledger.table())
        assert again.trace_hash == run.trace_hash


PICKLES = """
import copy, pickle
from netsim import Link, Network, Radio, topology
from netsim.testing import Listener, Talker, sized

for medium in ("wires", Radio(access="aloha")):
    talker = Talker([(0.0, sized(100)), (0.5, sized(1000))])
    network = Network(topology.path(2), Link(rate=8000.0), medium=medium)
    run = network.run({0: talker, 1: Listener()}, until=1.0, trace=True)
    for again in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
        assert again.ledger.table().equals(run.ledger.table())
        assert list(again.ledger.in_flight()) == list(run.ledger.in_flight())
        assert again.trace.table().equals(run.trace.table())
        print(again)
"""


def test_a_run_of_the_core_in_python_can_be_pickled_with_what_is_in_flight() -> None:
    assert on_the_other_core(PICKLES).count("1 in flight when the run ended") == 4
