"""``netsim show``: whatever happened to a folder, it prints what is there, or one line."""

import json
import math
import random
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import netsim
from netsim import BadInput, core
from netsim.studies import cli
from netsim.studies.folder import load
from netsim.studies.study import Study
from netsim.studies.terminal import Reporter, text
from tests.command import call
from tests.netsim.test_files_save import returns, studied


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = studied(returns({"mse": 0.25, "gap": math.nan}), agents=2, data="a table", loss=None, radio=False)
    study.note("A note.")
    study.centralised = {"train_mse": 0.5, "test_mse": math.nan}
    return study.save(tmp_path_factory.mktemp("show") / "out")


def show(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["netsim", "show", str(path)])
    status: Any = 0
    try:
        cli.main()
    except SystemExit as stop:
        status = stop.code
    out, err = capsys.readouterr()
    return status, out, err


def seal(path: Path) -> None:
    """Write the files' sizes into the summary, as one would who edits a folder with care."""
    try:
        summary = json.loads((path / "summary.json").read_text())
        for name in summary["bytes"]:
            summary["bytes"][name] = (path / name).stat().st_size
        (path / "summary.json").write_text(json.dumps(summary))
    except (ValueError, TypeError, KeyError, OSError, RecursionError):
        pass


def test_what_is_shown(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, err = show(folder, capsys, monkeypatch)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "netsim run idle --agents 2 --data 'a table' --no-radio"
    assert "centralised train_mse: 0.5" in lines
    assert "centralised test_mse: –" in lines
    assert "A note." in lines
    assert lines[-1] == f"netsim {netsim.__version__}, core: {core.NAME}"


def test_settings_and_version_name_the_core(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["core"] == core.NAME
    monkeypatch.setattr("sys.argv", ["netsim", "--version"])
    cli.main()
    assert capsys.readouterr().out == f"netsim, version {settings['netsim']} (core: {core.NAME})\n"


def test_a_study_without_runs_can_be_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, err = show(Study("empty", {}).save(tmp_path / "out"), capsys, monkeypatch)
    assert (status, err) == (0, "")
    assert out.startswith("netsim run empty\n")


def test_a_folder_of_an_earlier_version_can_be_shown(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    for name, key in (("settings.json", "core"), ("summary.json", "failed")):
        content = json.loads((old / name).read_text())
        del content[key]
        (old / name).write_text(json.dumps(content))
    seal(old)
    assert show(old, capsys, monkeypatch)[0] == 0


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
    """Yield each container of a JSON tree with each of its keys."""
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
        # Integers that Python does not print.
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


@pytest.mark.parametrize("seed", range(300))
def test_an_edited_folder_is_shown_or_refused_in_one_line(
    seed: int, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    status, out, err = show(broken, capsys, monkeypatch)
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
    ("name", "change", "says"),
    [
        (
            "settings.json",
            lambda tree: tree.update(parameters=[1]),
            "settings.json: 'parameters' must be dict, not list",
        ),
        ("settings.json", lambda tree: tree.pop("scenario"), "settings.json must have 'scenario'"),
        ("settings.json", lambda tree: tree.update(core=3), "settings.json: 'core' must be str, not int"),
        ("summary.json", lambda tree: tree.update(notes="x"), "summary.json: 'notes' must be list, not str"),
        ("summary.json", lambda tree: tree.update(notes=[1]), "summary.json: notes[0] must not be int"),
        ("summary.json", lambda tree: tree.update(centralised=1), "summary.json: 'centralised' must be dict, not int"),
        ("summary.json", lambda tree: tree["bytes"].pop("rounds.csv"), "summary.json must have the size of rounds.csv"),
        ("summary.json", lambda tree: tree["bytes"].update({"../x": 3}), "../x has 0 bytes of 3: it was cut short"),
    ],
)
def test_the_line_says_what_is_wrong(name: str, change: Any, says: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "broken")
    tree = json.loads((tmp_path / "broken" / name).read_text())
    change(tree)
    (tmp_path / "broken" / name).write_text(json.dumps(tree))
    if name == "settings.json":
        seal(tmp_path / "broken")
    with pytest.raises(BadInput) as caught:
        load(tmp_path / "broken")
    assert says in str(caught.value)


def test_a_column_of_text_and_a_missing_one_are_named(folder: Path, tmp_path: Path) -> None:
    for number, (old, new, says) in enumerate(
        ((",0.25,", ",high,", "column 'mse' must hold numbers"), ("algorithm,", "method,", "a column 'algorithm'"))
    ):
        broken = tmp_path / str(number)
        shutil.copytree(folder, broken)
        (broken / "rounds.csv").write_text((broken / "rounds.csv").read_text().replace(old, new))
        seal(broken)
        with pytest.raises(BadInput, match=says):
            load(broken)


# --- cells of tables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
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
    import numpy as np

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
    import sys

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
    netsim.sweep("averaging", out=tmp_path / "swept", loss=[0.0, 0.3], seed=[1, 2, 3], agents=5, radius=0.9)
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
    # Killed half-way, and with a point that failed.
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
    netsim.sweep("averaging", out=tmp_path / "swept", seed=[1, 2], agents=5, radius=0.9)
    done = call(words[0], "swept", *words[1:], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("netsim: run folder = 'swept': must be what `netsim run` wrote; it is a sweep, ")
    assert done.stderr.count("\n") == 1
