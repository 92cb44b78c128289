"""Site files: valid files become a Deployment, and errors are reported with their line."""

import math
from pathlib import Path
from typing import Any

import pytest

from netsim import BadInput, Deployment
from netsim.interferers import BusyPeriods, Jammer, WiFi
from netsim.radio import LogDistance, Walls
from netsim.util import toml
from tests.command import ROOT

HOUSE = ROOT / "docs" / "examples" / "house.toml"

TEXT = """\
seed = 3
least = 0.2
connected = false
warm_up = 60
start = 10

[radio]
power_dbm = -10
acks = false
min_be = 4

[phy]
noise_figure = 12.0

[path_loss]
exponent = 2.4
shadowing = 3

[building]
walls = "walls.csv"
storey = 3.0

[clocks]
drift_ppm = 40
offset = 2

[motes]
file = "motes.csv"

[motes.gateway]
position = [2, 2, 1]
sink = true
power_dbm = 0
start = 0

[motes."8"]
role = "relay"
drift_ppm = 7.5

[interferers.ap]
kind = "wifi"   # an access point
position = [14, 3, 2]
traffic = "10 %"

[interferers.seen]
kind = "busy-periods"
position = [1, 1, 1]
file = "busy.csv"

[[moves]]
mote = 7
to = [20, 9]
at = 60
until = 90

[[moves]]
mote = "gateway"
to = [0, 0, 1]
at = 5

[mobility]
file = "walk.csv"
step = 2.0
"""
FILES = {
    "walls.csv": "x1,y1,x2,y2,loss_db\n0,6,26,6,3.4\n",
    "motes.csv": "name,x,y,z,sink,role,power_dbm\n7,6,3,1,,sensor,\n8,12,3,1,no,sensor,-5\n",
    "busy.csv": "begin,end\n1,2\n",
    "walk.csv": "time,name,x,y\n0,8,12,3\n10,8,20,3\n",
}


def write(folder: Path, text: str = TEXT) -> Path:
    for name, content in FILES.items():
        (folder / name).write_text(content)
    (folder / "site.toml").write_text(text)
    return folder / "site.toml"


def test_a_file_becomes_a_deployment(tmp_path: Path) -> None:
    site = Deployment.read(write(tmp_path))
    assert site.positions == {7: (6.0, 3.0, 1.0), 8: (12.0, 3.0, 1.0), "gateway": (2.0, 2.0, 1.0)}
    assert (site.sink, site.seed, site.least, site.connected, site.warm_up) == ("gateway", 3, 0.2, False, 60.0)
    assert site.roles == {7: "sensor", 8: "relay"}
    assert site.power_dbm == {8: -5.0, "gateway": 0.0}
    walls = Walls([(0, 6, 26, 6, 3.4)], storey=3.0)
    assert site.path_loss == LogDistance(exponent=2.4, shadowing=3.0, walls=walls)
    radio = site.preset.radio
    assert radio is not None
    assert radio.phy is not None
    assert (radio.acks, radio.min_be, radio.phy.transmit_dbm, radio.phy.noise_figure) == (False, 4, -10.0, 12.0)
    assert site.interferers["ap"] == WiFi(position=(14, 3, 2), traffic="10 %")
    assert isinstance(site.interferers["seen"], BusyPeriods)
    ways = [(move.agent, move.at, move.until, move.step) for move in site.moves]
    assert ways == [(8, 0.0, None, 1.0), (8, 0.0, 10.0, 2.0), ("gateway", 5.0, None, 1.0), (7, 60.0, 90.0, 1.0)]


def test_a_mote_may_have_its_own_of_what_is_drawn_for_the_others(tmp_path: Path) -> None:
    site = Deployment.read(write(tmp_path))
    drifts = {clock.agent: clock.drift * 1e6 for clock in site.clocks}
    assert drifts[8] == pytest.approx(7.5)
    plain = Deployment(site.positions, drift_ppm=40, offset=2, start=10, seed=3)
    assert {**{clock.agent: clock.drift * 1e6 for clock in plain.clocks}, 8: 7.5} == pytest.approx(drifts)
    assert [join for join in plain.joins if join.agent != "gateway"] == site.joins


def test_the_house_of_the_docs_is_that_of_the_page() -> None:
    page = (ROOT / "docs" / "sites.md").read_text()
    assert f"```toml\n{HOUSE.read_text()}```" in page


def test_changes_take_the_place_of_what_the_file_has(tmp_path: Path) -> None:
    changes = {"radio.power_dbm": -3, "interferers.ap.at": 5, "motes.gateway.position": [1, 1, 1], "phy.lock_db": 2.0}
    site = Deployment.read(write(tmp_path), changes, seed=9)
    assert site.preset.radio is not None
    assert site.preset.radio.phy is not None
    assert (site.preset.radio.phy.transmit_dbm, site.preset.radio.phy.lock_db) == (-3.0, 2.0)
    assert site.interferers["ap"].at == 5.0
    assert site.positions["gateway"] == (1.0, 1.0, 1.0)
    assert site.seed == 9
    more = {"interferers.jam.kind": "jammer", "interferers.jam.position": [0, 0, 0]}
    assert Deployment.read(HOUSE, more).interferers["jam"] == Jammer(position=(0, 0, 0))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("seed = 3", "sed = 3", r"site.toml, line 1: key = 'sed': must be one of seed,"),
        ("seed = 3", "seed = 1.5", r"site.toml, line 1: seed = 1.5: must be a whole number"),
        ("least = 0.2", "least = 2.0", r"site.toml, line 2: least = 2.0: must be"),
        ("power_dbm = -10", "power_dbm = -11", r"line 8: radio: power_dbm = -11: must be one of 0, -1"),
        (
            "min_be = 4",
            "min_be = 4\npowers = 1",
            r"line 11: radio: key = 'powers': must be one of .*power_dbm, .*access",
        ),
        ("noise_figure = 12.0", "noise = 1", r"line 13: phy: key = 'noise': must be one of"),
        ("exponent = 2.4", "exponent = 'x'", r"line 16: path_loss: exponent = 'x': must be a number"),
        ('"walls.csv"', '"none.csv"', r"line 19: building: file = '.*none.csv': must be an existing file"),
        ("storey = 3.0", "storey = -3.0", r"line 21: building: storey = -3.0: must be a number > 0"),
        ("drift_ppm = 40", "drift = 40", r"line 24: clocks: key = 'drift': must be one of drift_ppm, offset"),
        ("offset = 2", "offset = -2", r"site.toml, line 25: offset = -2: must be a number >= 0"),
        (
            "position = [2, 2, 1]",
            "position = [2, 2]",
            r"line 31: positions\['gateway'\] = \(2.0, 2.0\): must be 3 numbers",
        ),
        ("position = [2, 2, 1]", "x = 2", r"line 31: motes.gateway: key = 'x': must be one of position, sink"),
        ("sink = true", "sink = 'yes'", r"line 32: motes.gateway: sink = 'yes': must be True or False"),
        ('role = "relay"', "role = 4", r"line 37: motes.8: role = 4: must be text"),
        ('[motes."8"]', '[motes."9"]', r"line 36: motes.9: position: must be given"),
        ('kind = "wifi"', 'kind = "wify"', r"line 41: interferers.ap: kind = 'wify': must be one of wifi"),
        ("position = [14, 3, 2]", "duty = 1.0", r"line 42: interferers.ap: key = 'duty': must be one of position"),
        ("position = [14, 3, 2]", "", r"line 40: interferers.ap: position: must be given"),
        (
            "position = [14, 3, 2]",
            "position = [14, 3]",
            r"line 42: interferers\['ap'\]: position = \(14.0, 3.0\): must be 3 numbers",
        ),
        ("mote = 7", "mote = 70", r"site.toml: Move: agent = 70: must be one that has a position"),
        ("until = 90", "util = 90", r"line 54: moves.0: key = 'util': must be one of mote, to, at"),
        ("to = [0, 0, 1]", "to = [0]", r"line 56: moves.1: Move: position = \[0\]: must be"),
        ('mote = "gateway"', "", r"line 56: moves.1: mote: must be given"),
        ("[clocks]", "[clocks", r"site.toml: must be a TOML file \(.*line 23"),
        ("[clocks]\ndrift_ppm = 40\noffset = 2", "[x]", r"line 23: key = 'x': must be one of seed"),
        ('file = "motes.csv"', 'file = "busy.csv"', r"line 27: motes: busy.csv, line 1: must have a column 'name'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert TEXT.count(old) >= 1
    with pytest.raises(BadInput, match=says) as error:
        Deployment.read(write(tmp_path, TEXT.replace(old, new, 1)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"radio.power": 1}, r"site.toml: radio: key = 'power': must be one of"),
        ({"interferers.ap.at": "x"}, r"site.toml: interferers.ap: at = 'x': must be a number"),
        ({"seed.x": 1}, "site = 'seed.x': must be the path of a key"),
    ],
)
def test_what_is_wrong_in_changes_is_told_without_a_line(tmp_path: Path, changes: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Deployment.read(write(tmp_path), changes)


def test_a_csv_file_of_motes_is_a_site(tmp_path: Path) -> None:
    (tmp_path / "motes.csv").write_text("name,x,y,sink,roaming,drift_ppm,start\n1,0,0,1,,,\na,9,0,,yes,-3,2.5\n")
    plain, read = (
        Deployment.read(tmp_path / "motes.csv", drift_ppm={"a": -3.0}),
        Deployment.read(tmp_path / "motes.csv"),
    )
    for name in ("positions", "sinks", "roaming", "start", "drift_ppm", "path_loss", "connected", "interferers"):
        assert getattr(plain, name) == getattr(read, name)
    assert (read.roaming, read.start, read.drift_ppm) == (("a",), {"a": 2.5}, {"a": -3.0})
    assert math.isclose(read.clocks[0].drift, -3e-6)
    (tmp_path / "motes.csv").write_text("name,x,y\n1,0,0\n1,9,0\n")
    with pytest.raises(BadInput, match=r"motes\.csv, line 3: name = 1: must be the only mote of that name"):
        Deployment.read(tmp_path / "motes.csv")


def test_lines_of_keys_are_found() -> None:
    text = 'a = 1\n# b = 2\n[c]\nd.e = 1\n"f g" = [\n  1,\n]\n[[h]]\ni = 1\n[[h]]\ni = 2  # j = 3\n[ k . "l" ]\nm=1\n'
    assert toml.lines_of(text) == {
        **{"a": 1, "c": 3, "c.d.e": 4, "c.f g": 5},
        **{"h": 8, "h.0": 8, "h.0.i": 9, "h.1": 10, "h.1.i": 11, "k.l": 12, "k.l.m": 13},
    }
