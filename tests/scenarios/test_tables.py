"""A user's table: its file, the types of its columns, and the notes on them."""

import gzip
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim.errors import BadInput
from netsim.scenarios.data.choice import ClassChoice, Columns, TableChoice, choose
from netsim.scenarios.data.classes import load_labelled
from netsim.scenarios.data.files import bare, check_data, find_table
from netsim.scenarios.data.formats import samples_in
from netsim.scenarios.data.samples import ClassSamples, Samples
from netsim.scenarios.data.tables import check_rows, load_table
from netsim.studies import Study, find_study
from tests.parts import every, only_with

needs_arrow = only_with("pyarrow")

HOUSES = pd.DataFrame(
    {
        "rooms": np.arange(60) % 7,
        "zone": ["near", "far"] * 30,
        "date": pd.date_range("2011-01-01", periods=60).strftime("%Y-%m-%d"),
        "price": np.arange(60) * 1000,
    }
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    return tmp_path


def refused(what: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(BadInput) as caught:
        what(*arguments, **named)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- files ------------------------------------------------------------------------------------------------------------


def save(folder: Path, name: str, frame: pd.DataFrame) -> Path:
    path = folder / name
    if name.endswith(".npz"):
        np.savez(path, **{str(key): frame[key].to_numpy() for key in frame})
    elif name.endswith(".parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".npz", pytest.param(".parquet", marks=needs_arrow)])
def test_every_format_is_the_same_table(folder: Path, suffix: str) -> None:
    path = save(folder, f"small{suffix}", HOUSES[["rooms", "price"]])
    for data in ("small", f"small{suffix}", str(path)):
        loaded = load_table(data)
        assert (loaded.inputs[:, 0] == HOUSES["rooms"]).all()
        assert (loaded.target == HOUSES["price"]).all()
        assert (loaded.input_columns, loaded.target_column) == (("rooms",), "price")
        assert samples_in(data) == 60


def test_a_path_needs_no_folder_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    save(tmp_path, "small.csv", HOUSES[["rooms", "price"]])
    assert len(load_table("small.csv").target) == len(load_table("./small.csv").target) == 60
    assert refused(load_table, "./none.csv") == "data = './none.csv': must be a file; there is none"
    assert refused(load_table, "./small").startswith("data = './small': must be a file that ends in .csv.gz, .csv")
    assert refused(load_table, "none.csv").endswith("holds none.csv; data may also be the path of a file")


def test_one_name_of_several_files_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix in (".csv", ".npz"):
        save(folder, f"small{suffix}", HOUSES[["rooms", "price"]])
    message = refused(load_table, "small")
    assert message.startswith("data = 'small': must be one file, there are ")
    assert "small.csv, " in message
    assert message.endswith("small.npz; give the name with its suffix")
    assert len(load_table("small.npz").target) == 60
    # Files of the same name in NETSIM_DATA and in the current folder.
    other = folder / "here"
    other.mkdir()
    save(other, "small.csv", HOUSES[["rooms", "price"]])
    monkeypatch.chdir(other)
    assert refused(load_table, "small.csv").endswith("small.csv; give its path")
    assert find_table("./small.csv") == Path("small.csv")
    monkeypatch.chdir(folder)
    assert find_table("small.csv").samefile(folder / "small.csv")


def test_bare_names() -> None:
    assert [bare(each) for each in ("adult", "adult.csv.gz", "x/adult.csv", ".csv")] == [
        "adult",
        "adult",
        "x/adult.csv",
        ".csv",
    ]


def test_images_are_a_table_of_numbers_too(folder: Path) -> None:
    x = np.arange(48).reshape(6, 2, 4).astype(np.uint8)
    np.savez(folder / "mnist.npz", y=np.arange(6) % 2, x=x)
    loaded = load_table("mnist")
    assert loaded.input_columns == tuple(f"x{i}" for i in range(8))
    assert loaded.target_column == "y"
    assert (loaded.inputs == x.reshape(6, 8)).all()
    assert load_table("mnist", Columns(target="x3")).inputs.shape == (6, 8)


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({"x": np.zeros((3, 2)), "y": np.zeros(4)}, "holds x (3, 2), y (4,): must be arrays with one sample a row"),
        ({}, "holds nothing: must be arrays"),
        ({"x": np.zeros((2, 2)), "y": np.ones(2, dtype=complex)}, "y is complex128 (2,): must be numbers or text"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, "has no row"),
        ({"x": np.zeros(3)}, "has 1 usable columns"),
        ({"x": np.zeros((3, 2)), "x0": np.zeros(3), "y": np.zeros(3)}, "has two columns 'x0'"),
    ],
)
def test_bad_arrays(folder: Path, arrays: dict[str, Any], fault: str) -> None:
    np.savez(folder / "bad.npz", **arrays)
    assert fault in refused(load_table, "bad")


@pytest.mark.parametrize("suffix", [".npz", pytest.param(".parquet", marks=needs_arrow)])
def test_damaged_files(folder: Path, suffix: str) -> None:
    path = save(folder, f"bad{suffix}", HOUSES[["rooms", "price"]])
    path.write_bytes(path.read_bytes()[:200])
    for read in (load_table, samples_in):
        assert f"bad{suffix} cannot be read" in refused(read, f"bad{suffix}")


def test_arrays_without_names(folder: Path) -> None:
    with (folder / "single.npz").open("wb") as file:
        np.save(file, np.zeros((3, 2)))
    assert "must hold named arrays, as numpy.savez writes them" in refused(load_table, "single")


def test_parquet_without_its_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "small.parquet").write_bytes(b"")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    how = "in netsim's clone, pip install '.[arrow]'"
    for read in (load_table, samples_in):
        assert f"small.parquet: must go with pyarrow, which is not installed: {how}" in refused(read, "small")


@needs_arrow
def test_parquet_keeps_its_types(folder: Path) -> None:
    frame = HOUSES.drop(columns="date").assign(
        zone=HOUSES["zone"].astype("category"), sold=[True, False, False] * 20, price=HOUSES["price"].astype("Int64")
    )
    frame[["rooms", "zone", "sold", "price"]].to_parquet(folder / "small.parquet")
    data = load_labelled("small", TableChoice(target="zone"))
    assert data.classes == ("far", "near")
    assert data.inputs.shape == (60, 3)
    assert data.inputs[:3, 1].tolist() == [1, 0, 0], "truth values are numbers as inputs"
    frame.assign(when=pd.to_datetime(HOUSES["date"])).to_parquet(folder / "dates.parquet")
    assert "column 'when' of" in refused(load_table, "dates", Columns(target="price", drop="zone"))


def test_the_rows_are_counted_before_anything_is_built(folder: Path) -> None:
    save(folder, "small.csv", HOUSES)
    assert check_rows("small", 30, each=2) == 60
    assert refused(check_rows, "small", 31, each=2) == "agents = 31: must be at most 30, for 2 samples each of 60"
    assert refused(check_rows, "small", 61) == "agents = 61: must be at most 60, for 1 sample each of 60"
    assert refused(check_rows, "small", 9, rows=8) == "agents = 9: must be at most 8, for 1 sample each of 8"
    assert refused(check_rows, "small", 9, rows=61) == "rows = 61: must be a whole number from 1 to 60"
    assert refused(check_rows, "small", 0) == "agents = 0: must be a whole number >= 1"


def test_a_slip_in_the_name_of_a_problem(folder: Path) -> None:
    check_data("mixtures", ("mixtures", "brodatz"))
    assert refused(check_data, "brodats", ("mixtures", "brodatz")).startswith(
        "data = 'brodats': must be mixtures, brodatz or a table (did you mean 'brodatz'?); NETSIM_DATA = "
    )
    assert refused(check_data, "zzz", ("mixtures",)).startswith("NETSIM_DATA = ")


# --- as programs write them -------------------------------------------------------------------------------------------


@every(
    "text",
    [
        "a,b\n0.5,2\n1,4\n",
        "a, b\n0.5,  2\n1, 4\n",
        "a;b\n0,5;2\n1;4\n",
        '"a";"b"\r\n"0,5";"2"\r\n"1";"4"\r\n',
        "a,b\r0.5,2\r1,4\r",
        ",a,b\r\r,0.5,2\r1,1,4\r",
        "a\tb\n0.5\t2\n1\t4\n",
        "a\tb\n0,5\t2\n1\t4\n",
        "\ufeffa,b\n0.5,2\n1,4\n",
        "# of ours\na,b\n\n0.5,2\n# half\n1,4\n",
        ",a,b\n0,0.5,2\n1,1,4\n",
        "Unnamed: 0,a,b\n0,0.5,2\n1,1,4\n",
        "a;b;;\n0,5;2;;\n1;4;;\n;;;\n",
        'a,"# b"\n0.5,2\n1,4\n',
    ],
)
def test_one_table_in_many_ways(folder: Path, text: str) -> None:
    for suffix, data in ((".csv", text.encode()), (".csv.gz", gzip.compress(text.encode()))):
        (folder / f"small{suffix}").write_bytes(data)
        table = load_table(f"small{suffix}")
        assert table.input_columns == ("a",)
        assert table.inputs.tolist() == [[0.5], [1.0]]
        assert table.target.tolist() == [2.0, 4.0]
        assert samples_in(f"small{suffix}") == 2


def test_a_column_without_a_name_is_left_out_and_said(folder: Path) -> None:
    HOUSES[["rooms", "price"]].to_csv(folder / "small.csv")
    chosen = choose("small", Columns())
    assert chosen.input_columns == ["rooms"]
    assert "column 1 left out: it has no name" in chosen.notes


def test_names_that_count_the_columns_are_names(folder: Path) -> None:
    pd.DataFrame(np.arange(12).reshape(4, 3)).to_csv(folder / "small.csv", index=False)
    assert choose("small", Columns()).notes[1:] == ("columns are called 0 to 2, as the first line says",)
    pd.DataFrame({"land": ["x", "y"], "2019": [1, 2], "2020": [2, 3]}).to_csv(folder / "years.csv", index=False)
    assert choose("years", Columns()).input_columns == ["land", "2019"]


@pytest.mark.parametrize(("mark", "point"), [(";", "."), ("\t", ".")])
def test_marks_between_thousands_are_told(mark: str, point: str, folder: Path) -> None:
    rows = [f"{900 + 5 * k}" if 5 * k < 100 else f"1{point}{5 * k - 100:03d}" for k in range(40)]
    lines = ["kg,y", *(f"{cell},{k}" for k, cell in enumerate(rows))]
    (folder / "small.csv").write_text("\n".join(lines).replace(",", mark) + "\n")
    assert choose("small", Columns()).notes[1:] == ("column 'kg': '1.000' taken as 1.000; if it is 1000, write so",)
    (folder / "small.csv").write_text("\n".join([*lines, "1.25,9"]).replace(",", mark) + "\n")
    assert choose("small", Columns()).notes[1:] == ()


def test_rows_with_names_that_the_first_line_lacks_are_refused_with_their_line(folder: Path) -> None:
    (folder / "small.csv").write_text("# by R\na,y\n1,5,6\n2,7,8\n")
    says = "line 3: must have as many cells as there are names; it has 3 cells under the 2 names of line 2; R adds"
    assert says in refused(load_table, "small")


def test_cells_of_any_length_and_arrays_of_either_order_of_bytes(folder: Path) -> None:
    (folder / "long.csv").write_text("a,b,y\n1," + "x" * 200_000 + ",2\n2,z,4\n3,z,q\n")
    assert "long.csv, line 4: column 'y'" in refused(load_table, "long", Columns(drop="b"))
    np.savez(folder / "big.npz", x=np.arange(4.0).astype(">f8"), y=np.arange(4.0).astype(">f4"))
    assert load_table("big").target.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("mark", ["?", "NA", "NaN"])
def test_a_mark_for_nothing_as_a_class_is_told(mark: str, folder: Path) -> None:
    (folder / "small.csv").write_text("a,y\n" + "".join(f"{k},{('yes', 'no', mark)[k % 3]}\n" for k in range(30)))
    note = f"target 'y': {mark!r} is a class; --missing drop leaves such rows out"
    assert note in load_labelled("small").notes
    assert load_labelled("small", TableChoice(missing="drop")).classes == ("no", "yes")


@pytest.mark.parametrize("study", ["coke", "frontier", "mtu", "lifetime", "online", "dynamic"])
def test_each_study_says_what_it_left_out(study: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{'?' if k % 10 == 0 else k % 7},{k % 5},{k % 4}.5" for k in range(120)]
    (folder / "small.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    note = "rows left out: 12 of 120, which miss a cell"

    def keep(self: Study, *texts: str) -> None:
        if note in texts:
            # The test needs none of the later steps, so it stops here.
            raise KeyboardInterrupt

    monkeypatch.setattr(Study, "note", keep)
    with pytest.raises(KeyboardInterrupt):
        find_study(study).execute(data="small", missing="drop", agents=4)


def test_an_error_shows_the_beginning_of_a_long_cell(folder: Path) -> None:
    (folder / "long.csv").write_text("a,y\n1,2\n2,3\n" + "x" * 1000 + ",4\n")
    assert len(refused(load_table, "long")) < 400


MISSING = "a,kind,b\n1,x,2\n?,y,3\n3,,4\nNA,x,5\n5,y,6\n"


def test_missing_cells_are_refused_dropped_or_filled(folder: Path) -> None:
    (folder / "small.csv").write_text(MISSING)
    for missing in (None, "refuse"):
        says = "column 'a', data row 2 = '?': must be a finite number (2 such rows); --drop a leaves the column out"
        assert f"small.csv, line 3: {says}, --missing drop the rows" in refused(
            load_table, "small", Columns(drop="kind", missing=missing)
        )
    dropped = choose("small", TableChoice(missing="drop"))
    assert dropped.frame.index.tolist() == [0, 4]
    assert dropped.notes[1] == "rows left out: 3 of 5, which miss a cell"
    assert Samples(missing="drop").load("small", 0)[0].inputs.shape == (2, 3)
    table = load_table("small", Columns(drop="kind", missing="mean"))
    assert table.inputs[:, 0].tolist() == [1, 3, 3, 3, 5]
    assert table.notes[1] == "cells filled with their column's mean: 2"
    assert "column 'kind', data row 3 is missing: must be in a column of numbers" in refused(
        choose, "small", TableChoice(missing="mean")
    )
    assert "column 'a', data row 2 is missing: must not be, for a mean" in refused(
        choose, "small", Columns(target="a", missing="mean")
    )
    assert refused(choose, "small", Columns(missing="median")).startswith("missing = 'median': must be one of drop")


def test_text_of_many_values_is_inputs_with_a_note(folder: Path) -> None:
    frame = pd.DataFrame({"who": [f"n{i % 30}" for i in range(90)], "zone": ["a", "b"] * 45, "y": np.arange(90) % 2})
    save(folder, "small.csv", frame)
    note = "column 'who': 30 different texts, each an input; --drop who leaves it out"
    assert choose("small", TableChoice()).notes[1:] == (note,)
    assert choose("small", Columns()).notes[1:] == ()


# --- what the target is taken as --------------------------------------------------------------------------------------


def prices(count: int = 474, rows: int = 20_640) -> np.ndarray[Any, Any]:
    return np.arange(rows) % count * 500


@pytest.mark.parametrize(
    ("target", "classes", "said"),
    [
        (
            prices(),
            False,
            "target 'y': 474 different whole numbers in 20,640 rows, taken as numbers; --classes takes them as classes",
        ),
        (
            np.arange(60) % 3,
            True,
            "target 'y': 3 different whole numbers in 60 rows, taken as classes; --no-classes takes them as numbers",
        ),
        (np.arange(20) % 15, False, "target 'y': 15 different whole numbers in 20 rows, taken as numbers"),
        (np.arange(60) % 21, False, "target 'y': 21 different whole numbers in 60 rows, taken as numbers"),
        (np.arange(60) % 20, True, "target 'y': 20 different whole numbers in 60 rows, taken as classes"),
        (np.arange(60) / 7, False, "target 'y': numbers with fractions in 60 rows, taken as numbers"),
        (np.array(["a", "b"] * 30), True, "target 'y': 2 different texts in 60 rows, taken as classes"),
        (np.array([True, False] * 30), True, "target 'y': truth values in 60 rows, taken as classes"),
        (np.array(["1"] * 59 + ["?"]), False, "target 'y': numbers, though not all, in 60 rows, taken as numbers"),
    ],
)
def test_one_place_decides_and_says_so(folder: Path, target: Any, classes: bool, said: str) -> None:
    save(folder, "small.csv", pd.DataFrame({"x": np.arange(len(target)), "y": target}))
    chosen = choose("small", TableChoice())
    assert chosen.classes == classes
    assert chosen.notes[0].startswith(said)


def test_the_user_has_the_last_word(folder: Path) -> None:
    save(folder, "small.csv", HOUSES.drop(columns=["date", "zone"]))
    assert choose("small", TableChoice(classes=True)).notes == (
        "target 'price': 60 different whole numbers in 60 rows, taken as classes",
    )
    assert load_labelled("small", TableChoice(classes=True)).classes[:3] == ("0", "1000", "2000")
    assert not choose("small", TableChoice(target="rooms", classes=False)).classes
    table, classes = Samples(target="rooms", classes=False).load("small", 0)
    assert classes == ()
    assert (table.target == HOUSES["rooms"] / 6).all()
    table, classes = Samples(target="rooms").load("small", 0)
    assert classes == ("0", "1", "2", "3", "4", "5", "6")
    assert (table.target == HOUSES["rooms"]).all()
    assert table.inputs.min() == 0.0
    assert table.inputs.max() == 1.0


def test_a_study_of_numbers_or_of_classes_has_no_use_for_the_other(folder: Path) -> None:
    save(folder, "small.csv", HOUSES.drop(columns=["date", "zone"]))
    wanted = "data = 'small': must have classes to tell apart; target 'price': 60 different whole numbers in 60 rows"
    assert refused(ClassSamples().load, "small", 0).startswith(wanted)
    assert refused(load_labelled, "small", ClassChoice()).startswith(wanted)
    assert refused(load_labelled, "small", ClassChoice(target="rooms", classes=False)).startswith(
        "data = 'small': must have classes to tell apart; target 'rooms': 7 different whole numbers"
    )
    assert choose("small", ClassChoice(target="rooms")).notes[0].endswith("taken as classes")
    assert choose("small", Columns(target="rooms")).notes[0].endswith("taken as numbers")


def test_what_was_left_out_is_said(folder: Path) -> None:
    save(folder, "small.csv", HOUSES)
    chosen = choose("small", Columns(drop="date, zone"))
    assert chosen.input_columns == ["rooms"]
    assert chosen.notes[-1] == "columns left out: date, zone"
    save(folder, "energy.csv", HOUSES)
    assert choose("energy", Columns()).notes[-1] == "columns left out: date", "known to be no input"
    commas = HOUSES[["rooms", "zone", "price"]].rename(columns={"zone": "near, far"})
    save(folder, "commas.csv", commas)
    assert choose("commas", Columns(drop="near, far")).input_columns == ["rooms"]


def test_text_is_inputs_of_a_regression_too(folder: Path) -> None:
    save(folder, "small.csv", HOUSES.drop(columns="date"))
    table, classes = Samples().load("small", 0)
    assert classes == ()
    assert table.inputs.shape == (60, 3)
    assert (table.inputs[:, 1:].sum(axis=1) == 1.0).all()
    assert refused(load_table, "small").endswith(
        "column 'zone', data row 1 = 'near': must be a finite number (60 such rows); --drop zone leaves the column out"
    )


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({}, "column 'date' of {path} holds dates such as '2011-01-01': leave it out with --drop date, or put numbers"),
        ({"drop": "dat"}, "drop = 'dat': must be a column of {path} (did you mean 'date'?)"),
        ({"target": "dat"}, "target = 'dat': must be a column of {path} (did you mean 'date'?)"),
        ({"target": "zzz"}, "target = 'zzz': must be a column of {path}: rooms, zone, date, price"),
        ({"target": "date"}, "column 'date' of {path} holds dates such as '2011-01-01': must not be the target"),
        ({"drop": "price"}, "drop = 'price': must not be the target, the last column; --target names another"),
        ({"drop": "zone", "target": "zone"}, "drop = 'zone': must not be the target, what --target names"),
        ({"drop": "rooms,zone,date"}, "{path} has 1 usable columns: must have an input and a target at least"),
    ],
)
def test_columns_that_cannot_be(folder: Path, choice: dict[str, str], says: str) -> None:
    path = save(folder, "houses.csv", HOUSES)
    for kind in (Columns, TableChoice):
        assert refused(choose, "houses", kind(**choice)).startswith(says.format(path=path))


@every(
    "cell",
    [
        "2011-01-01", "2011/1/1", "1.12.2011", "12/31/99", "2011-01", "2011-01-01 18:00:00", "2011-01-01T18:00Z",
        "2011-01-01 18:00:00.250+01:00", "18:30", "6:30 PM", "3 Jan 2011", "03-Mar-11", "January 3, 2011",
    ],
)  # fmt: skip
def test_dates_are_known_when_seen(folder: Path, cell: str) -> None:
    save(folder, "small.csv", pd.DataFrame({"a": [cell] * 4, "also": [cell] * 4, "y": range(4)}))
    message = refused(choose, "small", Columns())
    assert message.startswith("columns 'a', 'also' of ")
    assert f"hold dates such as {cell!r}: leave them out with --drop a,also, or put numbers in them" in message


@every("cell", ["3", "2.5", "a-b", "10-20", "1:2:3:4", "near", "2011", "x 2011-01-01", "12.5.", "A4"])
def test_other_text_is_no_date(folder: Path, cell: str) -> None:
    save(folder, "small.csv", pd.DataFrame({"a": [cell] * 4, "y": range(4)}))
    choose("small", Columns())


def test_text_of_too_many_values(folder: Path) -> None:
    names = [f"n{i}" for i in range(1001)]
    save(folder, "small.csv", pd.DataFrame({"who": names, "y": np.arange(1001) % 2}))
    assert refused(load_labelled, "small").endswith(
        "column 'who' holds 1,001 different texts: must be 1,000 at most; --drop who leaves the column out"
    )


def test_digits_have_no_columns() -> None:
    for choice, says in (
        (Samples(target="x"), "target = 'x'"),
        (Samples(drop="x"), "drop = 'x'"),
        (Samples(classes=False), "classes = False"),
    ):
        assert (
            refused(choice.load, "digits", 0) == f"{says}: must be left out for the data 'digits', which are no table"
        )


def test_a_gzipped_file_is_known_by_its_whole_suffix(folder: Path) -> None:
    (folder / "small.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert find_table("small") == find_table("small.csv.gz") == folder / "small.csv.gz"
    assert refused(find_table, "small.csv").endswith(
        "holds small.csv; it holds no such file; data may also be the path of a file"
    )


def test_a_first_line_of_numbers_with_decimal_commas_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('",5","0,5"\n1,2\n3,4\n', encoding="utf-8")
    with pytest.raises(BadInput, match="line 1: must name the columns"):
        choose(str(path), TableChoice())
