"""Tables, intervals, figures and text of many runs."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap

import netsim
from netsim import BadInput, results
from tests.netsim.test_sweep import STUDY


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    (folder / "mine.py").write_text(STUDY)
    netsim.sweep(str(folder / "mine.py"), out=folder / "out", loss=[0.0, 0.2, 0.5], agents=[3, 5], seed=range(4))
    return folder / "out"


def test_one_table_of_all_points(swept: Path) -> None:
    frame = results.load(swept)
    assert len(frame) == 24
    assert list(frame.columns[:5]) == ["point", "loss", "agents", "seed", "algorithm"]
    assert (frame["round"] == 5).all()
    assert (frame.loc[frame["loss"] == 0.0, "heard"] == 5 * 2 * frame.loc[frame["loss"] == 0.0, "agents"]).all()
    every = results.load(swept, rounds=True)
    assert len(every) == 24 * 5
    assert list(every["round"][:5]) == [1, 2, 3, 4, 5]


def test_a_run_folder_is_a_table_too(swept: Path) -> None:
    place = swept / "points" / "loss=0.2,agents=3,seed=1"
    frame = results.load(place)
    whole = results.load(swept)
    row = whole[whole["point"] == place.name].iloc[0]
    assert frame["heard"].iloc[0] == row["heard"]
    assert len(results.load(place, rounds=True)) == 5
    both = results.compare(place, swept)
    assert len(both) == 25
    assert set(both["folder"]) == {str(place), str(swept)}


@pytest.mark.parametrize("what", ["nothing", "text", "empty"])
def test_what_is_neither_is_refused(what: str, tmp_path: Path) -> None:
    if what != "nothing":
        (tmp_path / "sweep.json").write_text("[" if what == "text" else "{}")
    with pytest.raises(BadInput) as caught:
        results.load(tmp_path)
    assert "\n" not in str(caught.value)


# --- intervals --------------------------------------------------------------------------------------------------------


def test_the_interval_is_scipys() -> None:
    rng = np.random.default_rng(0)
    values = rng.exponential(size=12)
    frame = pd.DataFrame({"algorithm": "A", "error": values})
    found = results.interval(frame, "error", ["algorithm"]).iloc[0]
    theirs = bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1))
    assert found["count"] == 12
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert found["median"] == pytest.approx(np.median(values), rel=1e-12)
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert found["low"] == pytest.approx(theirs.confidence_interval.low, abs=0.06 * width)
    assert found["high"] == pytest.approx(theirs.confidence_interval.high, abs=0.06 * width)


def test_groups_and_what_is_empty() -> None:
    frame = pd.DataFrame({"a": [1, 1, 2, 2], "b": ["x", "x", "y", "z"], "v": [1.0, 3.0, np.nan, 5.0]})
    found = results.interval(frame, "v", ["a", "b"])
    assert found[["a", "b", "count", "mean"]].values.tolist() == [[1, "x", 2, 2.0], [2, "z", 1, 5.0]]
    assert found[["low", "high"]].iloc[1].tolist() == [5.0, 5.0]
    with pytest.raises(BadInput, match="column = 'c': must be one of"):
        results.interval(frame, "v", ["c"])
    with pytest.raises(BadInput, match=r"share = 1\.0"):
        results.interval(frame, "v", ["a"], share=1.0)


# --- figures and text -------------------------------------------------------------------------------------------------


def test_bands_and_maps_are_drawn_from_the_means(swept: Path, tmp_path: Path) -> None:
    frame = results.load(swept)
    figure = results.bands(frame, "loss", "heard", by="agents", log=False, title="Heard")
    panel = figure.axes[0]
    assert [line.get_label() for line in panel.lines] == ["3", "5"]
    mean = frame[(frame["agents"] == 3) & (frame["loss"] == 0.5)]["heard"].mean()
    assert panel.lines[0].get_ydata()[2] == pytest.approx(mean)
    assert panel.get_ylabel() == "heard, mean and 95 % interval of 4"
    figure.savefig(tmp_path / "bands.pdf")
    figure.savefig(tmp_path / "bands.svg")
    cells = results.heat_map(frame, "loss", "agents", "heard").axes[0].texts
    assert len(cells) == 6
    assert cells[0].get_text() == "30"


def test_text_for_papers() -> None:
    frame = pd.DataFrame({"name": ["a_b|c", None], "error": [1.23456e-7, np.nan], "count": [3, 40_000]})
    assert (
        results.markdown(frame)
        == "| name | error | count |\n|---|---|---|\n| a_b\\|c | 1.235e-07 | 3 |\n|  |  | 40000 |\n"
    )
    text = results.latex(frame)
    assert r"a\_b|c & $1.235 \cdot 10^{-7}$ & 3 \\" in text
    assert text.startswith("\\begin{tabular}{lrr}\n\\toprule\n")
    assert results.latex(pd.DataFrame({"100 %": ["{x}~^\\"]})).splitlines()[2] == r"100 \% \\"
