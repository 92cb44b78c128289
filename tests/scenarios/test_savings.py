"""Figures of savings and of recent errors, which show differences that nearly coincident curves hide."""

import numpy as np
import pandas as pd
import pytest

from netsim.scenarios.papers.report import _short
from netsim.scenarios.tasks.online_task import apart, recent_errors
from netsim.scenarios.tasks.savings import draw_savings, saved_on_the_way


def falling(name: str, cost: int) -> pd.DataFrame:
    count = np.arange(1, 41)
    return pd.DataFrame(
        {
            "algorithm": name,
            "round": count,
            "train_mse": 0.9**count,
            "transmissions": cost * count,
            "wire_bits": 8 * cost * count,
        }
    )


def test_half_the_cost_is_drawn_as_a_saving_of_half() -> None:
    rounds = pd.concat([falling("DKLA", 10), falling("COKE", 5), falling("CTA", 100)], ignore_index=True)
    draw = draw_savings(rounds, "train_mse", 0.0, "DKLA", label="training MSE", title="")
    assert draw is not None
    lines = {line.get_label(): line for line in draw().axes[0].lines}
    assert set(lines) == {"COKE", "DKLA"}
    assert np.allclose(np.asarray(lines["COKE"].get_ydata(), dtype=float), 50.0)
    assert draw_savings(rounds, "train_mse", 0.0, "other", label="", title="") is None


def test_what_bits_tell_again_has_no_panel_of_its_own() -> None:
    same = pd.concat([falling("DKLA", 10), falling("COKE", 5), falling("CTA", 9000)], ignore_index=True)
    coded = same.assign(wire_bits=same["wire_bits"].where(same["algorithm"] != "COKE", same["wire_bits"] / 8))
    # Headers differ in length, so bits on the wire are not proportional to rounds.
    same["wire_bits"] += same["round"] % 3
    draw_one = draw_savings(same, "train_mse", 0.0, "DKLA", label="training MSE", title="")
    draw_two = draw_savings(coded, "train_mse", 0.0, "DKLA", label="training MSE", title="")
    assert draw_one is not None
    assert draw_two is not None
    one, two = draw_one(), draw_two()
    assert [panel.get_title() for panel in one.axes] == ["transmissions (broadcasts) and bits on the wire"]
    assert [panel.get_title() for panel in two.axes] == ["transmissions (broadcasts)", "bits on the wire"]
    drawn = [{line.get_label(): line for line in panel.lines}["COKE"].get_ydata() for panel in two.axes]
    assert np.allclose(np.asarray(drawn[0], dtype=float), 50.0)
    assert np.allclose(np.asarray(drawn[1], dtype=float), 100 * (1 - 0.5 / 8))


def test_of_one_level_alone_there_is_no_figure() -> None:
    slow = falling("CTA", 100).assign(transmissions=lambda rows: rows["transmissions"].where(rows["round"] > 1, 10))
    slow["wire_bits"] = 8 * slow["transmissions"]
    assert draw_savings(pd.concat([falling("DKLA", 10), slow]), "train_mse", 0.0, "DKLA", label="", title="") is None


def test_recent_errors_are_the_means_of_the_last_rounds() -> None:
    errors = np.random.default_rng(0).random(30)
    count = np.arange(1, 31)
    one = pd.DataFrame({"algorithm": "A", "round": count, "running_mse": np.cumsum(errors) / count})
    found = recent_errors(pd.concat([one, one.assign(algorithm="B")], ignore_index=True), 10)
    for _, rows in found.groupby("algorithm"):
        assert np.allclose(rows["recent_mse"].to_numpy()[10:], [errors[t - 9 : t + 1].mean() for t in range(10, 30)])
        assert np.allclose(rows["recent_mse"].to_numpy()[:10], rows["running_mse"][:10])
    assert (apart(found, "recent_mse", "A")["apart"].abs() < 1e-9).all()
    assert set(apart(found, "recent_mse", "A")["algorithm"]) == {"B"}


def test_what_diverged_does_not_fill_a_cell() -> None:
    assert _short(3.2e100) == "3.2e+100"
    assert _short(123456.7) == "123457"


def test_what_is_saved_on_the_way_is_counted_where_the_other_first_is_as_good() -> None:
    rounds = pd.DataFrame(
        {
            "algorithm": ["DKLA"] * 3 + ["COKE"] * 3,
            "round": [1, 2, 3] * 2,
            "train_mse": [4.0, 2.0, 1.0, 5.0, 3.0, 1.5],
            "transmissions": [10, 20, 30, 4, 8, 15],
        }
    )
    found = saved_on_the_way(rounds, "train_mse", "DKLA", "COKE", (1, 2, 3, 9))
    assert found == pytest.approx({1: 0.2, 2: 0.25})
