"""The figures that studies draw."""

import itertools
import math

import pandas as pd
import pytest

from netsim.studies.figures import Axis, curves, line_style
from tests.parts import slow


@pytest.mark.parametrize(("first", "last"), [(20, 300), slow(5, 1000), slow(100, 1500), slow(12, 80), (20, 30), (7, 7)])
def test_what_stands_at_a_log_axis_does_not_overlap(first: int, last: int) -> None:
    rounds = pd.DataFrame({"algorithm": "A", "round": [first, last], "error": [1.0, 0.1]})
    figure = curves(rounds, Axis("error", log=True), [Axis("round", log=True)] * 3, "Three panels")
    figure.draw_without_rendering()
    for panel in figure.axes:
        texts = [*panel.get_xticklabels(which="major"), *panel.get_xticklabels(which="minor")]
        low, high = panel.get_xlim()
        shown = [text for text in texts if text.get_text() and low <= text.get_position()[0] <= high]
        assert len(shown) >= 1
        boxes = sorted((box.x0, box.x1) for box in (text.get_window_extent() for text in shown))
        assert all(left[1] <= right[0] for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("last", [2, 3, slow(8), 25, slow(3000)])
def test_only_whole_numbers_stand_at_an_axis_of_rounds(last: int, log: bool) -> None:
    rounds = pd.DataFrame({"algorithm": "A", "round": [1, last], "error": [1.0, 0.1]})
    figure = curves(rounds, Axis("error", log=True), [Axis("round", log=log)], "Rounds")
    figure.draw_without_rendering()
    panel = figure.axes[0]
    texts = [*panel.get_xticklabels(which="major"), *panel.get_xticklabels(which="minor")]
    shown = [text.get_text().replace(",", "").replace("−", "-") for text in texts if text.get_text()]
    assert shown
    assert all(float(text).is_integer() and "$" not in text for text in shown)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (Axis("transmissions"), Axis("error")),
        (Axis("wire_bits", log=True), Axis("error")),
        (Axis("round"), Axis("delivered")),
        (Axis("time_s"), Axis("informed", counts=True)),
    ],
)
def test_counts_are_drawn_as_steps(x: Axis, y: Axis) -> None:
    """A count is constant until the next row: a sloped line would show values that never occurred."""
    rounds = pd.DataFrame({"algorithm": "A", x.column: [1, 2, 4], y.column: [1, 5, 7]})
    (line,) = curves(rounds, y, [x], "Steps").axes[0].lines
    assert line.get_drawstyle() == "steps-post"


def test_what_changes_at_any_time_is_drawn_as_a_line() -> None:
    rounds = pd.DataFrame({"algorithm": "A", "round": [1, 2, 4], "error": [1, 5, 7]})
    assert curves(rounds, Axis("error"), [Axis("round")], "Lines").axes[0].lines[0].get_drawstyle() == "default"


@pytest.mark.parametrize("panels", [1, 3])
@pytest.mark.parametrize("label", ["A", slow("QC-DDKL 2-bit"), "DKL-MLP QC-ODKLA, mean of 40 rounds"])
def test_the_whole_legend_is_in_the_figure(label: str, panels: int) -> None:
    rounds = pd.DataFrame([{"algorithm": f"{label} {i}", "round": 1, "error": 1.0} for i in range(8)])
    figure = curves(rounds, Axis("error"), [Axis("round")] * panels, "Legend")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1
    assert len(legend.get_texts()) == 8


def test_curves_that_lie_upon_one_another_have_marks_of_their_own() -> None:
    styles = [line_style(number, 3) for number in range(3)]
    assert len({style["marker"] for style in styles}) == len({style["markevery"] for style in styles}) == 3
    assert "marker" not in line_style(0, 1)


@pytest.mark.parametrize(
    "unseen",
    [
        slow({"wire_bits": [8.0, 16.0], "error": [math.nan, math.nan]}),
        {"wire_bits": [0.0, 0.0], "error": [1.0, 0.5]},
        {"wire_bits": [8.0, 16.0], "error": [0.0, -1.0]},
    ],
)
def test_a_curve_of_which_nothing_can_be_seen_does_not_keep_the_others_from_being_drawn(
    unseen: dict[str, list[float]],
) -> None:
    seen = pd.DataFrame({"algorithm": "A", "wire_bits": [8.0, 16.0], "error": [1.0, 0.5]})
    rounds = pd.concat([seen, pd.DataFrame({"algorithm": "B"} | unseen)], ignore_index=True)
    for shown in (rounds, rounds.iloc[2:], pd.concat([rounds, rounds.iloc[2:].assign(algorithm="C")])):
        figure = curves(shown, Axis("error", log=True), [Axis("wire_bits", log=True)], "Curves")
        figure.draw_without_rendering()
        lines = [line for line in figure.axes[0].lines if line.get_label() == "A"]
        assert all(line.get_marker() == "o" for line in lines if len(shown) > 2)


def test_a_table_without_rows_is_an_empty_figure() -> None:
    rounds = pd.DataFrame({"algorithm": ["A", "B"], "wire_bits": [8.0, 8.0], "error": [math.nan, math.nan]})
    for shown in (rounds, rounds.iloc[:0]):
        curves(shown, Axis("error", log=True), [Axis("wire_bits", log=True)], "None").draw_without_rendering()
