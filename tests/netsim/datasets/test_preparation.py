"""Preparation functions on small originals in the published formats; prepared files against the registry's SHA-256."""

import gzip
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from netsim.datasets import SETS
from netsim.datasets.preparation import Originals, content, content_digest, digest
from netsim.errors import BadInput
from netsim.util import tables
from tests.netsim.datasets.originals import AIR_CSV, ARRAYS, TABLES, zipped

needs_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set")


def originals(folder: Path, files: Mapping[str, bytes]) -> Originals:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return Originals(sorted(folder.iterdir()))


def test_originals_in_the_published_shapes_become_the_tables(tmp_path: Path) -> None:
    assert {*TABLES, *ARRAYS} == {name for name, each in SETS.items() if each.prepare is not None}
    for name, (files, text) in TABLES.items():
        prepare = SETS[name].prepare
        assert prepare is not None
        assert content(prepare(originals(tmp_path / name, files))).decode() == text, name


def test_originals_of_arrays_become_arrays(tmp_path: Path) -> None:
    for name, (files, arrays) in ARRAYS.items():
        prepare = SETS[name].prepare
        assert prepare is not None
        found = prepare(originals(tmp_path / name, files))
        assert isinstance(found, Mapping)
        assert {*found} == {*arrays}
        for key, array in arrays.items():
            assert found[key].dtype == array.dtype
            np.testing.assert_array_equal(found[key], array)
        np.savez(tmp_path / f"{name}.npz", **arrays)
        assert content_digest(tmp_path / f"{name}.npz") == digest(found)


def test_a_digest_of_arrays_knows_names_types_and_shapes() -> None:
    array = np.arange(6, dtype=np.int32)
    same = [{"x": array}, {"x": array.astype(">i4")}]
    others = [{"y": array}, {"x": array.reshape(2, 3)}, {"x": array.astype(np.int64)}, {"x": array, "y": array}]
    assert len({digest(each) for each in same}) == 1
    assert len({digest(each) for each in [*same, *others]}) == 5


def test_ucis_own_text_is_read_with_its_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    (tmp_path / "AirQualityUCI.csv").write_text(AIR_CSV, newline="")
    frame, _ = tables.frame(tmp_path / "AirQualityUCI.csv")
    assert frame["C6H6(GT)"].tolist() == [11.9, 9.4]
    assert frame["AH"].tolist() == [0.7578, 0.7255]
    assert len(frame.columns) == 15


def test_a_file_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    prepare = SETS["airquality"].prepare
    assert prepare is not None
    with pytest.raises(BadInput, match=r"^the original must hold AirQualityUCI.xlsx; it holds AirQualityUCI.csv$"):
        prepare(originals(tmp_path / "a", {"air.zip": zipped({"AirQualityUCI.csv": AIR_CSV})}))
    with pytest.raises(BadInput, match=r"^air.zip cannot be read: "):
        originals(tmp_path / "b", {"air.zip": TABLES["airquality"][0]["air+quality.zip"][:3000]})
    whole = bytearray(zipped({"AirQualityUCI.xlsx": bytes(5000)}))
    whole[100:140] = b"x" * 40
    with pytest.raises(BadInput, match=r"^AirQualityUCI.xlsx cannot be read: "):
        prepare(originals(tmp_path / "c", {"air.zip": bytes(whole)}))


@needs_data
def test_the_prepared_files_at_hand_have_the_registrys_digests() -> None:
    folder = Path(os.environ["NETSIM_DATA"])
    checked = []
    for name, known in SETS.items():
        path = folder / f"{name}{known.suffix}"
        if known.sha256 and path.exists():
            assert content_digest(path) == known.sha256, name
            checked.append(name)
    assert len(checked) >= 1


def _back(name: str, lines: list[str]) -> dict[str, bytes]:
    """Return original files from which the preparation gives the table ``lines``."""
    head, *rows = lines
    if name == "letter":
        moved = (row.rpartition(",") for row in rows)
        return {"letter.zip": zipped({"letter-recognition.data": "".join(f"{end},{own}\n" for own, _, end in moved)})}
    if name == "iotlab_grenoble_k7":
        return {"grenoble.k7": "\n".join(['{"tx_length": 100}', head, *rows, ""]).encode()}
    if name == "banana":
        cells = (row.split(",") for row in rows)
        return {"banana.all.txt": "".join(f"{y} 1:{a} 2:{b}\n" for a, b, y in cells).encode()}
    assert name == "adult"
    rows_of: dict[str, list[str]] = {"train": [], "test": ["|1x3 Cross validator\n"]}
    for row in rows:
        split, *cells = row.split(",")
        rows_of[split].append(", ".join(cells) + (".\n" if split == "test" else "\n"))
    return {f"adult.{end}": "".join(rows_of[split]).encode() for end, split in (("data", "train"), ("test", "test"))}


@needs_data
@pytest.mark.parametrize("name", ["adult", "banana", "iotlab_grenoble_k7", "letter"])
def test_a_prepared_table_taken_apart_is_prepared_again_to_the_same_digest(tmp_path: Path, name: str) -> None:
    lines = gzip.decompress(Path(os.environ["NETSIM_DATA"], f"{name}.csv.gz").read_bytes()).decode().splitlines()
    prepare = SETS[name].prepare
    assert prepare is not None
    assert digest(prepare(originals(tmp_path, _back(name, lines)))) == SETS[name].sha256
