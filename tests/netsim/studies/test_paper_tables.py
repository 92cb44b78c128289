"""Tables for papers, whose cells contain intervals, and figures of the width of a column."""

import math
import re
from pathlib import Path

import matplotlib
import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from netsim import BadInput, results
from netsim.studies.paper_tables import in_math
from tests.command import call
from tests.parts import every


@every(
    ("number", "low", "high", "shown"),
    [
        (0.5, 0.4, 0.6, r"0.50 \pm 0.10"),
        (123.4, 113.4, 133.4, r"123 \pm 10"),
        (0.00123, 0.00113, 0.00133, r"(1.23 \pm 0.10) \cdot 10^{-3}"),
        (2.0e6, 1.5e6, 2.5e6, r"(2.00 \pm 0.50) \cdot 10^{6}"),
        (0.5, 0.4, 0.9, r"0.50\ [0.40, 0.90]"),
        (-0.5, -0.6, -0.4, r"-0.50 \pm 0.10"),
        (11.1, 3.88, 32.0, r"11\ [3.9, 32]"),
        (0.73, 0.0012, 40.0, r"0.73\ [0.0012, 40]"),
        (5.0, 4e-7, 80.0, r"5.0\ [4.0 \cdot 10^{-7}, 80]"),
        (-0.2, -40.0, 3.0, r"-0.20\ [-40, 3.0]"),
        (5.0, 0.0, 12.0, r"5.0\ [0.0, 12.0]"),
        (0.00076, 0.0000976, 0.00597, r"(0.76\ [0.098, 6.0]) \cdot 10^{-3}"),
        (120.0, 0.003, np.inf, r"120.0\ [0.0030, \infty]"),
        (0.5, np.nan, np.nan, "0.5"),
        (1.25e-7, np.nan, np.nan, r"1.25 \cdot 10^{-7}"),
        (0.5, 0.5, 0.5, "0.5"),
        (np.inf, np.nan, np.nan, r"\infty"),
        (np.nan, np.nan, np.nan, ""),
    ],
)
def test_a_number_has_as_many_digits_as_its_interval_allows(number: float, low: float, high: float, shown: str) -> None:
    assert in_math(number, low, high) == shown


def many(seeds: int = 5) -> pd.DataFrame:
    """Return results of three algorithms, of which the first two are nearly equal and the third is far off."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        [
            {"loss": loss, "seed": seed, "algorithm": name, "error": base + 0.1 * rng.standard_normal()}
            for loss in (0.0, 0.1)
            for seed in range(seeds)
            for name, base in (("A_1", 1.0), ("B", 1.02), ("C", 5.0))
        ]
    )


def cells(text: str) -> dict[str, list[str]]:
    """Return the cells of each row, keyed by the row's name."""
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    rows = [line.removesuffix(r" \\").split(" & ") for line in body.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_a_table_of_methods_by_loss_has_the_best_in_bold_and_what_lies_within_its_interval() -> None:
    table = results.interval(many(), "error", by=["algorithm", "loss"])
    text = results.latex(table, cells="mean", columns="loss", best="least")
    lines = text.splitlines()
    assert lines[0].startswith("% mean; 95 % interval of the mean (Student's t, n = 5); bold: the least")
    assert lines[1] == r"\begin{tabular}{lrr}"
    assert r" & \multicolumn{2}{c}{loss} \\" in lines
    assert r"\cmidrule(lr){2-3}" in lines
    assert r"algorithm & 0 & 0.1 \\" in lines
    found = cells(text)
    assert list(found) == [r"A\_1", "B", "C"]
    for place, loss in enumerate((0.0, 0.1)):
        rows = table[table["loss"] == loss].set_index("algorithm")
        best = rows.loc[rows["mean"].idxmin()]
        for name, row in rows.iterrows():
            cell = found[str(name).replace("_", r"\_")][place]
            shown, reach = map(float, re.findall(r"\d\.\d+", cell))
            assert shown == pytest.approx(row["mean"], abs=0.005)
            assert reach == pytest.approx((row["high"] - row["low"]) / 2, abs=0.005)
            assert ("mathbf" in cell) == (best["low"] <= row["mean"] <= best["high"])
    assert "mathbf" not in "".join(found["C"])
    assert "mathbf" in cells(results.latex(table, cells="mean", columns="loss", best="greatest"))["C"][0]


def test_one_seed_has_no_interval_and_nothing_is_bold() -> None:
    table = results.interval(many(seeds=1), "error", by=["algorithm", "loss"])
    text = results.latex(table, cells="mean", columns="loss", best="least", digits=3)
    assert r"\pm" not in text
    assert "bold" not in text
    assert "mathbf" not in text
    assert text.startswith("% mean; no 95 % interval of the mean, which takes 2 (n = 1)\n")
    assert all(re.fullmatch(r"\$\d\.\d{1,2}\$", cell) for row in cells(text).values() for cell in row)


def test_medians_and_differences_stand_in_cells_too() -> None:
    frame = many(seeds=7)
    medians = results.interval(frame, "error", by=["algorithm", "loss"], of="median")
    found = cells(results.latex(medians, cells="median", columns="loss"))
    assert all(re.fullmatch(r"\$\d\.\d+\\ \[\d\.\d+, \d\.\d+\]\$", cell) for row in found.values() for cell in row)
    apart = results.latex(results.paired(frame, "error", "B"), cells="difference", columns="loss")
    assert apart.startswith("% difference from B, seed by seed; 95 % interval of the mean difference")
    assert set(cells(apart)) == {r"A\_1", "C"}
    with pytest.raises(BadInput, match="rows, columns = algorithm: must tell all rows apart"):
        results.latex(medians, cells="median")


def test_small_numbers_share_a_power_of_ten_unless_they_are_far_apart() -> None:
    table = pd.DataFrame({"algorithm": ["A", "B"], "mean": [7.5e-3, 1.12e-2], "low": [5.8e-3, 9e-3]})
    table["high"] = 2 * table["mean"] - table["low"]
    assert cells(results.latex(table, cells="mean")) == {
        "A": [r"$(7.5 \pm 1.7) \cdot 10^{-3}$"],
        "B": [r"$(11.2 \pm 2.2) \cdot 10^{-3}$"],
    }
    table.loc[1, ["mean", "low", "high"]] = [2e28, 1e28, 3e28]
    assert cells(results.latex(table, cells="mean"))["B"] == [r"$(2.0 \pm 1.0) \cdot 10^{28}$"]


def test_what_is_missing_is_a_dash_and_texts_are_escaped() -> None:
    table = results.interval(many(), "error", by=["algorithm", "loss"])
    table = table[(table["algorithm"] != "B") | (table["loss"] > 0)].assign(of="5 % & more")
    text = results.latex(table, cells="mean", rows=["of", "algorithm"], columns="loss")
    (row,) = (line for line in text.splitlines() if " & B & " in line)
    assert row.startswith(r"5 \% \& more & B & -- & $")


def test_every_cell_is_what_a_typesetter_of_mathematics_takes() -> None:
    table = results.interval(many(), "error", by=["algorithm", "loss"])
    figure = Figure()
    for row in cells(results.latex(table, cells="mean", columns="loss", best="least")).values():
        for cell in row:
            figure.text(0.1, 0.1, cell)
    figure.canvas.draw()


# --- figures ----------------------------------------------------------------------------------------------------------


def test_bands_draw_into_given_axes_and_leave_the_rest_of_the_figure_alone() -> None:
    figure = Figure(figsize=(7.0, 3.0))
    left, right = figure.subplots(1, 2)
    assert results.bands(many(), "loss", "error", ax=left) is figure
    assert [line.get_label() for line in left.lines] == ["A_1", "B", "C"]
    assert not right.lines
    assert tuple(figure.get_size_inches()) == (7.0, 3.0)
    assert "Student's t, n = 5" in left.get_title()


def test_a_facet_for_each_value_with_the_same_lines() -> None:
    figure = results.bands(many().assign(rate=1.0), "rate", "error", facets="loss", title="Errors")
    assert [panel.get_title() for panel in figure.axes] == ["loss 0", "loss 0.1"]
    looks = [[(line.get_color(), line.get_marker(), line.get_label()) for line in panel.lines] for panel in figure.axes]
    assert looks[0] == looks[1]
    assert figure.get_suptitle().startswith("Errors\nmean; band: 95 % interval of the mean (Student's t, n = 5)")
    (legend,) = figure.legends
    assert [each.get_text() for each in legend.get_texts()] == ["A_1", "B", "C"]
    axes = Figure().subplots(1, 2)
    assert results.bands(many().assign(rate=1.0), "rate", "error", facets="loss", ax=axes) is axes[0].figure
    with pytest.raises(BadInput, match=r"^ax = 1 axes: must be 2, one for each facet"):
        results.bands(many().assign(rate=1.0), "rate", "error", facets="loss", ax=axes[0])
    with pytest.raises(BadInput, match=r"^facets = 'loss': must be another column"):
        results.bands(many(), "loss", "error", facets="loss")


def test_a_figure_obeys_matplotlibs_settings() -> None:
    usual = results.bands(many(), "loss", "error")
    settings = {"figure.figsize": (5.0, 2.0), "lines.markersize": 9.0, "axes.titlesize": 5.0, "legend.fontsize": 6.0}
    with matplotlib.rc_context(settings):  # type: ignore[arg-type]
        own = results.bands(many(), "loss", "error")
    assert tuple(usual.get_size_inches()) == (6.5, 4.4)
    assert tuple(own.get_size_inches()) == (5.0, 2.0)
    assert own.axes[0].lines[0].get_markersize() == 9.0
    assert own.axes[0].title.get_fontsize() == 5.0
    legend = own.axes[0].get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_fontsize() == 6.0


@pytest.mark.parametrize(
    ("number", "low", "high", "shown"),
    [
        (0.03152, 0.008329, math.inf, r"0.03152\ [0.00833, \infty]"),
        (0.0003152, 8.329e-5, math.inf, r"(3.152\ [0.833, \infty]) \cdot 10^{-4}"),
        (3.1, 0.8, math.inf, r"3.100\ [0.800, \infty]"),
        (-2.0, -math.inf, 0.5, r"-2.000\ [-\infty, 0.500]"),
        (0.0, 0.0, math.inf, r"0.000\ [0.000, \infty]"),
        (math.inf, 1.0, math.inf, r"\infty"),
    ],
)
def test_an_interval_that_reaches_to_infinity_is_in_the_cell(
    number: float, low: float, high: float, shown: str
) -> None:
    assert in_math(number, low, high) == shown


def test_the_title_of_a_columns_figure_is_whole(tmp_path: Path) -> None:
    # Wide tick labels move the panel to the right, and its title with it.
    wide = many(10).assign(error=6e-3 + 1e-4 * many(10)["error"])
    with results.style("paper"):
        results.bands(wide, "loss", "error", of="median").savefig(tmp_path / "a.png", dpi=150)
    picture = matplotlib.image.imread(tmp_path / "a.png")[:, :, :3]
    assert (picture[:, :3] == 1.0).all()
    assert (picture[:, -3:] == 1.0).all()


def test_a_figure_for_a_paper_has_a_columns_width_and_leaves_no_settings_behind() -> None:
    before = dict(matplotlib.rcParams)
    with results.style("paper"):
        one = results.bands(many(), "loss", "error")
        two = results.bands(many().assign(rate=1.0), "rate", "error", facets="loss")
        one.canvas.draw()
    assert dict(matplotlib.rcParams) == before
    assert one.get_size_inches()[0] == 3.5
    assert two.get_size_inches()[0] == pytest.approx(7.16)
    assert one.axes[0].xaxis.label.get_fontsize() == 8.0
    assert one.axes[0].xaxis.label.get_fontname() == "STIXGeneral"
    box = one.axes[0].title.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= one.bbox.x1
    with pytest.raises(BadInput, match=r"^style = 'poster': must be one of usual, paper"), results.style("poster"):
        pass


def test_the_commands_take_the_style_and_write_vectors(tmp_path: Path) -> None:
    small = ["--agents", "6", "--radius", "0.7"]
    done = call("run", "averaging", *small, "--style", "paper", "--out", "a", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "a").glob("spread.*")} == {"spread.pdf", "spread.svg"}
    svg = (tmp_path / "a" / "spread.svg").read_text()
    assert float(re.search(r'width="([\d.]+)pt"', svg)[1]) == pytest.approx(7.16 * 72)  # type: ignore[index]
    done = call("run", "averaging", *small, "--style", "poster", "--out", "b", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "netsim: style = 'poster': must be one of usual, paper (did you mean 'paper'?)\n",
    )
    assert (
        call("compare", "a", "--metric", "spread", "--out", "s.svg", "--style", "paper", cwd=tmp_path).returncode == 0
    )
    assert float(re.search(r'width="([\d.]+)pt"', (tmp_path / "s.svg").read_text())[1]) == 3.5 * 72  # type: ignore[index]
