"""The attenuation by walls of a floor plan, compared with exact arithmetic on crossings."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from netsim import BadInput
from netsim.radio import LogDistance, Walls

Point = tuple[float, ...]


def crosses(a: Point, b: Point, p: Point, q: Point) -> bool | None:
    """Return, by exact rational arithmetic, whether a line crosses a wall; None if they only touch or overlap."""
    (ax, ay), (bx, by), (px, py), (qx, qy) = (tuple(map(Fraction, each[:2])) for each in (a, b, p, q))
    dx, dy, ex, ey = bx - ax, by - ay, qx - px, qy - py
    below = dx * ey - dy * ex
    if not below:
        return None
    along = Fraction((px - ax) * ey - (py - ay) * ex, below)
    across = Fraction((px - ax) * dy - (py - ay) * dx, below)
    if along in (0, 1) or across in (0, 1):
        return None
    return 0 < along < 1 and 0 < across < 1


points = st.tuples(st.integers(-6, 6).map(float), st.integers(-6, 6).map(float))
segments = st.tuples(points, points, st.sampled_from([0.0, 3.5, 6.9])).filter(lambda wall: wall[0] != wall[1])


@given(places=st.lists(points, min_size=2, max_size=8, unique=True), walls=st.lists(segments, max_size=6))
def test_the_loss_is_that_of_the_walls_crossed(places: list[Point], walls: list[tuple[Point, Point, float]]) -> None:
    pairs = [(a, b) for a in places for b in places if a != b]
    met = [[crosses(a, b, p, q) for p, q, _ in walls] for a, b in pairs]
    assume(all(each is not None for row in met for each in row))
    expected = [sum(wall[2] for wall, hit in zip(walls, row, strict=True) if hit) for row in met]
    plan = Walls([(*p, *q, loss) for p, q, loss in walls])
    first, second = (np.array([pair[end] for pair in pairs]) for end in (0, 1))
    assert plan.loss_between(first, second) == pytest.approx(expected)


@given(a=points, b=points, walls=st.lists(segments, max_size=4))
def test_a_line_has_one_loss_in_both_directions(a: Point, b: Point, walls: list[tuple[Point, Point, float]]) -> None:
    plan, ends = Walls([(*p, *q, loss) for p, q, loss in walls]), (np.array([a]), np.array([b]))
    assert plan.loss_between(*ends) == plan.loss_between(*ends[::-1])


def test_a_straight_wall_in_two_pieces_counts_once() -> None:
    pieces = Walls([(0, 5, 5, 5, 10.0), (5, 5, 10, 5, 10.0)])
    assert pieces.loss_between(np.array([[5.0, 0.0]]), np.array([[5.0, 10.0]])).tolist() == [10.0]
    # A path along a wall does not cross it.
    assert pieces.loss_between(np.array([[-5.0, 5.0]]), np.array([[15.0, 5.0]])).tolist() == [0.0]


def test_walls_lower_powers_and_links() -> None:
    places = {
        "a": (0.0, 0.0),
        "b": (
            10.0,
            0.0,
        ),
        "c": (20.0, 0.0),
    }
    free = LogDistance(exponent=2.0)
    behind = LogDistance(exponent=2.0, walls=Walls([(5, -5, 5, 5, 6.9), (15, -5, 15, 5, 3.4)]))
    lost = {ends: free.powers(places)[ends] - power for ends, power in behind.powers(places).items()}
    assert lost["a", "b"] == lost["b", "a"] == pytest.approx(6.9)
    assert lost["b", "c"] == pytest.approx(3.4)
    assert lost["a", "c"] == pytest.approx(10.3)
    # COST 231: the loss is the free-space loss plus the losses of the crossed walls.
    expected = 40.2 + 20.0 * math.log10(20.0) + 10.3
    assert behind.powers(places)["a", "c"] == pytest.approx(-expected)


def test_pairs_are_left_out_only_if_walls_are_in_the_way() -> None:
    rng = np.random.default_rng(3)
    places = dict(enumerate(map(tuple, (200.0 * rng.random((60, 2))).tolist())))
    ends = 200.0 * rng.random((15, 4))
    model = LogDistance(shadowing=4.0, walls=Walls([(*each, 12.0) for each in ends.tolist()]))
    everything = model.powers(places, seed=2)
    for level in (-70.0, -95.0, -120.0):
        heard = {pair for pair, power in everything.items() if power >= level}
        assert set(model.audible(places, level, seed=2).edges) == heard
        assert set(model.powers_above(places, level, seed=2)) == heard | {pair[::-1] for pair in heard}


def test_a_floor_plan_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "walls.csv"
    path.write_text("x1,y1,x2,y2,loss_db\n# the kitchen\n0,0,5,0,6.9\n\n5,0,5,4,3.4\n")
    assert Walls.from_csv(path).segments == ((0, 0, 5, 0, 6.9), (5, 0, 5, 4, 3.4))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x1,y1,x2,y2\n0,0,1,1\n", "walls.csv, line 1: must have a column 'loss_db'; it has x1, y1, x2, y2"),
        ("x1,y1,x2,y2,loss_db\n0,0,1,1,5\n0,0,1,x,5\n", "walls.csv, line 3: y2 = 'x': must be a number"),
        ("x1,y1,x2,y2,loss_db\n0,0,1,1,-5\n", "walls.csv, line 2: loss_db = -5.0: must be a number >= 0"),
        ("x1,y1,x2,y2,loss_db\n2,0,2,0,5\n", r"walls.csv, line 2: must be a wall with a length; both of its ends"),
        ("x1,y1,x2,y2,loss_db\n2,0,2,0\n", "walls.csv, line 2: must have 5 cells, as the first line; has 4"),
        ("x1,y1,x2,y2,loss_db,paint\n", "walls.csv, line 1: column = 'paint': must be one of x1, y1"),
        ("", "must begin with a line of columns"),
    ],
)
def test_a_floor_plan_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "walls.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        Walls.from_csv(path)


def test_walls_that_are_none() -> None:
    with pytest.raises(BadInput, match="must be an existing file"):
        Walls.from_csv("nowhere.csv")
    with pytest.raises(BadInput, match=r"segments\[1\] = .*: must be five numbers"):
        Walls([(0, 0, 1, 1, 3.0), (0, 0, 1, 1)])
    with pytest.raises(BadInput, match=r"walls = .*: must be a netsim.radio.Walls"):
        LogDistance(walls=[(0, 0, 1, 1, 3.0)])  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="walls: must go with positions of two or three coordinates"):
        LogDistance(walls=Walls([(0, 0, 1, 1, 3.0)])).powers({0: (0.0,), 1: (5.0,)})


def test_floors_cost_what_cost_231_says() -> None:
    """COST 231: L = k^((k + 2)/(k + 1) − 0.46) · L_f is 18.3, 33.5, 43.6 dB for 1, 2, 3 floors of L_f = 18.3 dB."""
    building = Walls(storey=3.0)
    heights = np.array([1.0, 2.9, 3.1, 7.0, 11.9, -0.5])
    here, there = np.zeros((6, 3)), np.column_stack([np.full(6, 9.0), np.zeros(6), heights])
    here[:, 2] = 1.0
    counts = [0, 0, 1, 2, 3, 1]
    expected = [18.3 * k ** ((k + 2) / (k + 1) - 0.46) if k else 0.0 for k in counts]
    assert building.loss_between(here, there).tolist() == pytest.approx(expected)
    assert building.loss_between(there, here).tolist() == pytest.approx(expected)
    assert Walls(storey=3.0, floor_db=10).loss_between(here[2:3], there[2:3]).tolist() == [10.0]
    assert expected[3:5] == pytest.approx([33.5, 43.6], abs=0.1)


def test_floors_and_walls_add_up_and_places_in_the_plane_have_no_floors() -> None:
    building = Walls([(5, -1, 5, 1, 6.9)], storey=3.0)
    ends = np.array([[0.0, 0.0, 1.0]]), np.array([[9.0, 0.0, 4.0]])
    assert building.loss_between(*ends).tolist() == pytest.approx([6.9 + 18.3])
    assert building.loss_between(*(each[:, :2] for each in ends)).tolist() == [6.9]


def test_a_building_of_two_storeys_hears_less_from_above(tmp_path: Path) -> None:
    plan = tmp_path / "walls.csv"
    plan.write_text("x1,y1,x2,y2,loss_db\n5,-1,5,1,6.9\n")
    building = Walls.from_csv(plan, storey=3.0)
    places = {"here": (0, 0, 1), "there": (4, 0, 1), "above": (4, 0, 4), "behind": (9, 0, 1)}
    model = LogDistance(walls=building)
    open_air = LogDistance().powers(places)
    lost = {ends: open_air[ends] - power for ends, power in model.powers(places).items()}
    assert lost["here", "there"] == pytest.approx(0)
    assert lost["here", "above"] == pytest.approx(18.3)
    assert lost["above", "there"] == pytest.approx(18.3)
    assert lost["above", "behind"] == pytest.approx(18.3 + 6.9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"storey": 0}, "storey = 0: must be"),
        ({"storey": math.inf}, "storey = inf: must be"),
        ({"storey": 3, "floor_db": -1}, "floor_db = -1: must be"),
    ],
)
def test_a_wrong_floor_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Walls(**settings)
