"""Figures that studies draw."""

import itertools
import math

import pandas as pd
import pytest

from netsim.studies.figures import Axis, curves, told_apart


@pytest.mark.parametrize(("first", "last"), [(20, 300), (5, 1000), (100, 1500), (12, 80), (20, 30), (7, 7)])
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
@pytest.mark.parametrize("last", [2, 3, 8, 25, 3000])
def test_only_whole_numbers_stand_at_an_axis_of_rounds(last: int, log: bool) -> None:
    rounds = pd.DataFrame({"algorithm": "A", "round": [1, last], "error": [1.0, 0.1]})
    figure = curves(rounds, Axis("error", log=True), [Axis("round", log=log)], "Rounds")
    figure.draw_without_rendering()
    panel = figure.axes[0]
    texts = [*panel.get_xticklabels(which="major"), *panel.get_xticklabels(which="minor")]
    shown = [text.get_text().replace(",", "").replace("−", "-") for text in texts if text.get_text()]
    assert shown
    assert all(float(text).is_integer() and "$" not in text for text in shown)


def test_curves_that_lie_upon_one_another_have_marks_of_their_own() -> None:
    styles = [told_apart(number, 3) for number in range(3)]
    assert len({style["marker"] for style in styles}) == len({style["markevery"] for style in styles}) == 3
    assert "marker" not in told_apart(0, 1)


@pytest.mark.parametrize(
    "unseen",
    [
        {"wire_bits": [8.0, 16.0], "error": [math.nan, math.nan]},
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
