"""Handwritten csv files: all readers accept the same files, and errors name the file and the line."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netsim import Deployment, Profile, mobility
from netsim.errors import BadInput
from netsim.links import from_table
from netsim.radio import Walls
from netsim.util import tables
from tests.parts import every

HEAD, ROWS = ["name", "x", "y"], [["0", "1.5", "2"], ["1", "2.5", "-3"]]
WAYS: list[Callable[[str, str], tuple[str, str, str]]] = [
    lambda mark, point: (mark, point, ""),
    lambda mark, point: (f"{mark} ", point, ""),
    lambda mark, point: (mark, point, "# of ours\n\n"),
    lambda mark, point: (mark, point, "\ufeff"),
]


@every("mark", [",", ";", "\t"])
@every("point", [".", ","])
@every("way", range(4))
@every("end", ["\n", "\r\n"])
@every("packed", [False, True])
def test_positions_in_many_ways(mark: str, point: str, way: int, end: str, packed: bool, tmp_path: Path) -> None:
    if point == mark:
        return
    between, point, before = WAYS[way](mark, point)
    text = before + "\n".join(between.join(row).replace(".", point) for row in [HEAD, *ROWS]) + "\n"
    data = text.replace("\n", end).encode()
    path = tmp_path / "motes.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert Deployment.read(path).positions == {0: (1.5, 2.0), 1: (2.5, -3.0)}


READERS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "positions": (Deployment.read, "name,x,y\n", "0,1,2\n"),
    "moves": (mobility.read, "time,name,x,y\n", "0,0,1,2\n"),
    "walls": (Walls.from_csv, "x1,y1,x2,y2,loss_db\n", "0,0,1,1,3\n"),
    "profile": (Profile.read, "node,seconds\n", "0,0.5\n"),
    "links": (from_table, "sender,receiver,reception\n", "0,1,0.5\n"),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_takes_comments_and_refuses_alike(name: str, tmp_path: Path) -> None:
    read, head, row = READERS[name]
    path = tmp_path / "file.csv"
    path.write_text(f"# of ours\n\n{head}# more\n{row}")
    read(path)
    for first in ("", "Unnamed: 0"):
        path.write_text(f"{first},{head}0,{row}")
        read(path)

    def refused(data: str | bytes) -> str:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        with pytest.raises(BadInput) as caught:
            read(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    bad = row.replace(row.rstrip().rsplit(",", 1)[-1], "x")
    assert "file.csv, line 5: " in refused(f"# of ours\n\n{head}\n{bad}{row}")
    assert "file.csv" in refused(row * 3)
    assert "line 2" in refused(head.encode() + b"\xff,1\n")
    assert "UTF-16" in refused((head + row).encode("utf-16"))
    assert "file.csv" in refused(gzip.compress((head + row * 99).encode())[:-9])
    assert "file.csv" in refused("")
    path.unlink()
    with pytest.raises(BadInput, match="must be an existing file"):
        read(path)


def test_lines_of_a_table_are_those_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text('# one\na,b\n\n1,"x\ny"\n# two\n2,z\n')
    frame, _ = tables.frame(path)
    assert [tables.line_of(path, row) for row in frame.index] == [5, 7]
    assert tables.line_of(path, 9) is None
