"""Results are not lost at the end of a run: measures are checked as they come, and what was computed is kept."""

import json
import math
import os
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from netsim import Agent, BadInput, Network, Run, topology
from netsim.studies.folder import Unsaved, load
from netsim.studies.reserve import reserve
from netsim.studies.study import Study
from tests.netsim.test_files_reserve import disk, fill, left

__all__ = ["disk"]


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


@pytest.mark.parametrize(
    "value",
    [
        "text",
        None,
        b"1",
        1j,
        np.array([1.0, 2.0]),
        np.array([]),
        np.str_("1"),
        [1.0],
        Decimal(1),
        object,
        np.complex64(1),
    ],
)
def test_a_measure_that_is_no_number_ends_the_run_at_its_round(value: Any) -> None:
    shown = r"(?!.*\n).*"
    with pytest.raises(
        BadInput, match=rf"^probe measure = {shown}: must be a function that returns .*, after round 1$"
    ):
        play(returns(value))
    with pytest.raises(BadInput, match=rf"^probe measure, column 'a' = {shown}: must be a number .*, after round 1$"):
        play(returns({"a": value}))


@pytest.mark.parametrize("column", [0, None, "", " ", "a\nb", "a\0", "\udce4", b"a", ("a", "b")])
def test_a_column_has_a_name_that_can_be_written(column: Any) -> None:
    with pytest.raises(BadInput, match=r"^probe measure, column = (?!.*\n).*: must be printable text, after round 1$"):
        play(returns({column: 1.0}))


@pytest.mark.parametrize("column", ["round", "time_s", "delivered", "algorithm", "trace_hash"])
def test_a_column_must_not_hide_another(column: str) -> None:
    with pytest.raises(BadInput, match=rf"^probe column '{column}': must not be a column that is there already$"):
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


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "rounds", "Ledger", "a\\b", "x" * 300, 3, "a\0"])
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
    with pytest.raises(BadInput, match=r"^figure 'x' = 'png': must be a matplotlib Figure$"):
        study.figure("x", "png")


def test_numpys_numbers_and_whatever_else_can_be_settings(tmp_path: Path) -> None:
    study = studied(
        a=np.int64(3),
        b=np.float32(0.5),
        c=np.bool_(True),
        d=(1, np.int8(2)),
        e=math.inf,
        f=Path("x"),
        g={1: np.nan},
        h="ü\udce4",
    )
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
    import networkx as nx

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
    figure.suptitle("\u6570\u636e")  # marks that its type has no pictures of
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
    assert left(tmp_path / "out") == [
        "good.png",
        "ledger.csv",
        "report.html",
        "rounds.csv",
        "settings.json",
        "summary.json",
    ]


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


def test_if_nothing_can_be_written_one_line_says_so(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
