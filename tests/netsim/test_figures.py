"""Figures that studies draw."""

import itertools

import pandas as pd
import pytest

from netsim.studies.figures import Axis, curves


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
