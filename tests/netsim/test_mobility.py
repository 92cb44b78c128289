"""Mobility models: random waypoint against its known statistics, and traces against their files."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Faults, mobility
from netsim.faults import Move

AREA = (10.0, -50.0, 110.0, 50.0)


def legs(moves: list[Move], start: tuple[float, float]) -> list[tuple[float, float, float]]:
    """Return length (m), duration (s) and following pause (s) of each leg of one node."""
    found, at = [], start
    for move, after in pairwise(moves):
        assert move.until is not None
        found.append((math.dist(at, move.position), move.until - move.at, after.at - move.until))
        at = (move.position[0], move.position[1])
    return found


def test_random_waypoint() -> None:
    moves = mobility.random_waypoint(
        {"a": (60, 0)}, area=AREA, speed=(1, 4), pause=(5, 15), until=200_000, step=2.0, seed=1
    )
    places = np.array([move.position for move in moves])
    assert (places >= [10, -50]).all()
    assert (places <= [110, 50]).all()
    # Waypoints are uniform in the area; the tolerance is four standard deviations of their mean.
    assert places.mean(axis=0) == pytest.approx([60, 0], abs=4 * 100 / math.sqrt(12 * len(moves)))
    length, seconds, pause = np.array(legs(moves, (60, 0))).T
    speed = length / seconds
    assert speed.min() * (1 + 1e-9) >= 1
    assert speed.max() <= 4 * (1 + 1e-9)
    assert speed.mean() == pytest.approx(2.5, abs=4 * 3 / math.sqrt(12 * len(speed)))
    # Slow legs last longer, so the mean speed over time is lower (Yoon, Liu, Noble 2003). The mean distance of two
    # random points in a unit square is 0.5214.
    assert length.sum() / seconds.sum() == pytest.approx(3 / math.log(4), rel=0.05)
    assert length.mean() == pytest.approx(52.14, rel=0.05)
    assert pause.mean() == pytest.approx(10, rel=0.05)
    assert moves[-1].until == 200_000
    assert {move.step for move in moves} == {2.0}


def test_a_way_is_a_function_of_the_seed_and_the_name() -> None:
    settings: dict[str, Any] = {"area": AREA, "speed": (1, 2), "until": 1000, "seed": 4}
    both = mobility.random_waypoint({"a": (20, 0), "b": (30, 0)}, **settings)
    alone = mobility.random_waypoint({"b": (30, 0)}, **settings)
    assert [move for move in both if move.agent == "b"] == alone
    assert mobility.random_waypoint({"b": (30, 0)}, **{**settings, "seed": 5}) != alone


def test_a_way_step_by_step() -> None:
    way = list(Move(0, (10.0, 20.0), at=1.0, until=6.0, step=2.0).way_from((0.0, 0.0)))
    assert way == [(3.0, (4.0, 8.0)), (5.0, (8.0, 16.0)), (6.0, (10.0, 20.0))]
    assert list(Move(0, (1.0, 2.0), at=3.0).way_from((0.0, 0.0, 7.0))) == [(3.0, (1.0, 2.0, 7.0))]
    # Rounding errors must not add a step of zero length.
    assert len(list(Move(0, (1.0, 2.0), at=0.0, until=0.3, step=0.1).way_from((0.0, 0.0)))) == 3


def test_moves_are_printed_and_saved(tmp_path: Path) -> None:
    moves = Faults([Move("a", (1, 2.5), at=3), Move(4, (0, 0, 1), at=5, until=9, step=0.5)])
    assert str(moves) == "agent 'a' goes to (1, 2.5) at 3 s\nagent 4 goes to (0, 0, 1) from 5 s to 9 s"
    moves.save(tmp_path / "moves.json")
    assert Faults.load(tmp_path / "moves.json") == moves


def test_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "walk.csv"
    path.write_text("time,name,x,y\n0,3,1,2\n10,bus,0,0\n5,3,6,2\n20,bus,50,0\n30,bus,50,0\n")
    assert mobility.read(path, step=0.5) == [
        Move(3, (1.0, 2.0), 0.0),
        Move("bus", (0.0, 0.0), 10.0),
        Move(3, (6.0, 2.0), 0.0, 5.0, 0.5),
        Move("bus", (50.0, 0.0), 10.0, 20.0, 0.5),
        Move("bus", (50.0, 0.0), 20.0, 30.0, 0.5),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,name,x,y\n0,a,1,1\n0,a,2,1\n", "walk.csv, line 3: time = 0: must be above 0, the node's time before"),
        ("time,name,x,y\n-1,a,1,1\n", "walk.csv, line 2: time = -1: must be 0 or more"),
        ("time,name,x,y\nsoon,a,1,1\n", "walk.csv, line 2: time = 'soon': must be a number"),
        ("time,name,x\n", "walk.csv, line 1: must have a column 'y'"),
    ],
)
def test_a_trace_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "walk.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        mobility.read(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"speed": (0, 1)}, "speed: low = 0.0: must be a number > 0"),
        ({"speed": (2, 1)}, r"speed = \(2, 1\): must be 2 numbers, the lower bounds first"),
        ({"area": (0, 0, 10)}, r"area = \(0, 0, 10\): must be 4 numbers"),
        ({"pause": (-1, 1)}, "pause: low = -1.0: must be a number >= 0"),
        ({"pause": 3}, "pause = 3: must be 2 numbers, the lower bounds first"),
        ({"until": 0}, "until = 0: must be a number > 0"),
        # In such an area all legs have zero length and take no time, so the trace would never reach ``until``.
        ({"area": (5, 5, 5, 5)}, r"area = \(5, 5, 5, 5\): must be wider or higher than a point"),
        ({"positions": [(20, 0)]}, r"positions = \[\(20, 0\)\]: must be a mapping"),
        ({"positions": {0: (20,)}}, r"positions\[0\] = \(20,\): must be \(x, y\) or \(x, y, z\)"),
    ],
)
def test_random_waypoint_refuses(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        mobility.random_waypoint(
            **{"positions": {0: (20, 0)}, "area": AREA, "speed": (1, 2), "until": 10, **values}  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"position": ()}, r"Move: position = \(\): must be \(x, y\)"),
        ({"position": (1,)}, r"Move: position = \(1,\): must be \(x, y\)"),
        ({"position": (1, math.inf)}, r"Move: position\[1\] = inf: must be finite"),
        ({"until": 1.0}, "until = 1.0: must be a number > 2"),
        ({"step": 0.0}, "step = 0"),
    ],
)
def test_a_move_refuses(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Move(**{"agent": 0, "position": (1, 2), "at": 2.0, **values})
