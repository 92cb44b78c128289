import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim.errors import BadInput
from netsim.scenarios.data.choice import TableChoice
from netsim.scenarios.data.classes import load_labelled
from netsim.scenarios.data.formats import load_arrays

real_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    return tmp_path


def write(folder: Path, text: str, name: str = "small") -> None:
    (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_text_becomes_classes_and_columns_of_zeros_and_ones(folder: Path) -> None:
    write(folder, "a,colour,kind\n1,red,cat\n2,blue,dog\n3,?,ant\n")
    data = load_labelled("small")
    assert data.classes == ("ant", "cat", "dog")
    assert data.labels.tolist() == [1, 2, 0]
    # The text values in sorted order: "?", "blue", "red".
    assert data.inputs.tolist() == [[1, 0, 0, 1], [2, 0, 1, 0], [3, 1, 0, 0]]


def test_rows_with_an_unknown_cell_are_left_out_of_the_set_that_marks_them(folder: Path) -> None:
    text = "a,colour,kind\n1,red,cat\n2,blue,dog\n3,?,ant\n4,red,dog\n"
    write(folder, text, "adult")
    data = load_labelled("adult")
    assert data.inputs[:, 0].tolist() == [1, 2, 4]
    assert data.classes == ("cat", "dog")
    write(folder, text)
    assert len(load_labelled("small").labels) == 4, "elsewhere a mark is a value like any other"
    write(folder, "a,colour,kind\n1,?,cat\n2,?,dog\n", "adult")
    with pytest.raises(BadInput, match=r"has no row without '\?'"):
        load_labelled("adult")


def test_numbers_as_classes_are_in_their_order(folder: Path) -> None:
    write(folder, "a,kind\n1,10\n2,9\n3,-1\n")
    data = load_labelled("small")
    assert data.classes == ("-1", "9", "10")
    assert data.labels.tolist() == [2, 1, 0]


def test_another_target(folder: Path) -> None:
    write(folder, "kind,a\nx,1\ny,2\n")
    assert load_labelled("small", TableChoice(target="kind")).inputs.tolist() == [[1], [2]]


def test_signs_of_a_class(folder: Path) -> None:
    write(folder, "a,kind\n1,x\n2,y\n3,x\n")
    data = load_labelled("small")
    assert data.signs().tolist() == [-1, 1, -1]
    assert data.signs("x").tolist() == [1, -1, 1]
    with pytest.raises(BadInput, match="positive = 'z': must be one of x, y"):
        data.signs("z")
    write(folder, "a,kind\n1,x\n2,y\n3,z\n")
    with pytest.raises(BadInput, match="positive = None: must be one of the 3 classes of small"):
        load_labelled("small").signs()


def test_some_rows_are_drawn_at_random(folder: Path) -> None:
    write(folder, "a,kind\n" + "".join(f"{i},{i % 3}\n" for i in range(30)))
    first, again, other = (load_labelled("small", rows=12, seed=seed) for seed in (1, 1, 2))
    assert first.inputs.tolist() == again.inputs.tolist() != other.inputs.tolist()
    assert len(set(first.inputs[:, 0])) == 12
    assert (first.labels == first.inputs[:, 0] % 3).all()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a,kind\n1,x\n2,\n", "data row 2 is empty"),
        ("a,kind\n1,x\n2,x\n", "of 2 to 1000 classes; there are 1"),
        ("a,kind\n1,0.5\n2,1\n", "whole numbers or text"),
        ("a,kind\n1,x\n,y\n3,y\n", "column 'a', data row 2 = nan: must be a finite number"),
        ("a,kind\n1,x\noops,y\n3,y\n", "column 'a', data row 2 = 'oops': must be a finite number"),
        ("a,kind\nred,x\n,y\nblue,y\n", "column 'a', data row 2 is empty: must be text"),
        ("kind\nx\ny\n", "has 1 usable columns"),
    ],
)
def test_bad_tables(folder: Path, text: str, fault: str) -> None:
    write(folder, text)
    with pytest.raises(BadInput) as caught:
        load_labelled("small")
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names(folder: Path) -> None:
    write(folder, "a,kind\n1,x\n2,y\n")
    with pytest.raises(BadInput, match="did you mean 'kind'"):
        load_labelled("small", TableChoice(target="kimd"))
    with pytest.raises(BadInput, match="did you mean 'small'"):
        load_labelled("smal")
    with pytest.raises(BadInput, match=r"holds mnist.npz \(or .csv.gz, .csv, .parquet; public source"):
        load_labelled("mnist")
    with pytest.raises(BadInput, match="rows = 3: must be a whole number from 1 to 2"):
        load_labelled("small", rows=3)


def test_arrays(folder: Path) -> None:
    np.savez(folder / "brodatz_center256.npz", x=np.arange(3), y=np.ones(2))
    arrays = load_arrays("brodatz_center256", ("x", "y"))
    assert arrays["x"].tolist() == [0, 1, 2]
    with pytest.raises(BadInput, match="has no array 'z': must hold x, z"):
        load_arrays("brodatz_center256", ("x", "z"))
    whole = (folder / "brodatz_center256.npz").read_bytes()
    (folder / "brodatz_center256.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="cannot be read"):
        load_arrays("brodatz_center256", ("x",))


def test_images(folder: Path) -> None:
    np.savez(folder / "mnist.npz", x=np.arange(24, dtype=np.uint8).reshape(3, 2, 4), y=np.array([8, 0, 8], np.uint8))
    data = load_labelled("mnist")
    assert data.inputs.shape == (3, 8)
    assert data.classes == ("0", "8")
    assert data.signs("8").tolist() == [1, -1, 1]
    assert load_labelled("mnist", rows=1).inputs.shape == (1, 8)


@pytest.mark.parametrize(
    ("x", "y", "fault"),
    [
        (np.zeros((4, 2)), np.zeros(5, int), "holds x (4, 2), y (5,): must be arrays with one sample a row"),
        (np.zeros((4, 2)), np.full(4, 0.5), "data row 1 = 0.5: must hold a class in each row, whole"),
        (np.zeros((0, 2)), np.zeros(0, int), "has no row"),
        (np.array(1.0), np.array(1), "holds x (), y (): must be arrays with one sample a row"),
        (np.full((2, 2), np.nan), np.array([0, 1]), "column 'x0', data row 1 = nan: must be a finite number"),
        (np.full((2, 2), 1j), np.array([0, 1]), "x is complex128 (2, 2): must be numbers or text"),
    ],
)
def test_bad_images(folder: Path, x: Any, y: Any, fault: str) -> None:
    np.savez(folder / "mnist.npz", x=x, y=y)
    with pytest.raises(BadInput) as caught:
        load_labelled("mnist")
    assert fault in str(caught.value)


def test_truth_values_keep_their_names_and_the_bad_row_is_named(folder: Path) -> None:
    write(folder, "a,kind\n1,True\n2,False\n")
    assert load_labelled("small").classes == ("False", "True")
    write(folder, "a,kind\n1,1\n2,0.5\n")
    with pytest.raises(BadInput, match=r"data row 2 = 0\.5"):
        load_labelled("small")


@real_data
@pytest.mark.parametrize(
    ("name", "count", "width", "classes"),
    [
        ("letter", 20000, 16, 26),
        ("adult", 45222, 104, 2),
        ("wisdm_har", 5418, 43, 6),
        ("sensorless_subset", 2200, 48, 11),
        ("banana", 5300, 2, 2),
        ("credit_default", 30000, 23, 2),
        ("mnist", 70000, 784, 10),
    ],
)
def test_real_sets(name: str, count: int, width: int, classes: int) -> None:
    data = load_labelled(name)
    assert data.inputs.shape == (count, width)
    assert len(data.classes) == classes == len(set(data.labels))
    assert np.isfinite(data.inputs).all()
