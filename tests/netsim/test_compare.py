"""``netsim compare``: settings that differ, last values, and a figure."""

from pathlib import Path

import pytest

import netsim
from netsim import BadInput
from netsim.studies import compare
from netsim.studies.catalogue import find
from tests.netsim.test_cli import call

SMALL = {"agents": 5, "radius": 0.9}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    for name, loss in (("a", 0.0), ("b", 0.3)):
        find("averaging").execute(loss=loss, **SMALL).save(folder / name)
    netsim.sweep("averaging", out=folder / "sweep", loss=0.3, seed=[1, 2], **SMALL)
    return folder


def test_what_differs_and_the_last_values(room: Path) -> None:
    places = [str(room / "a"), str(room / "b")]
    found = compare.table(places, ["transmissions", "spread"])
    assert list(found.columns) == ["folder", "loss", "algorithm", "transmissions", "spread"]
    assert list(found["loss"]) == [0.0, 0.3]
    expected = [netsim.results.load(place)["spread"].iloc[0] for place in places]
    assert list(found["spread"]) == expected


def test_a_sweep_has_a_row_for_each_point(room: Path) -> None:
    found = compare.table([str(room / "b"), str(room / "sweep")], ["spread"])
    assert list(found["seed"]) == [1, 1, 2]
    assert found["spread"].iloc[0] == found["spread"].iloc[1], "the same settings"


def test_seeds_are_told_together(room: Path) -> None:
    places = [str(room / "a"), str(room / "sweep")]
    each = compare.table(places, ["spread"])
    title, together = compare.titled(each, ["spread"], "median", False)
    assert title.endswith("interval of the median")
    assert list(together.columns) == ["folder", "loss", "algorithm", "seeds", "mean", "median", "low", "high"]
    assert list(together["seeds"]) == [1, 2]
    assert together["mean"].iloc[1] == pytest.approx(each["spread"].iloc[1:].mean(), rel=1e-12)
    title, several = compare.titled(
        compare.table(places, ["spread", "delivered"]), ["spread", "delivered"], "mean", False
    )
    assert list(several.columns) == ["folder", "loss", "algorithm", "seeds", "spread", "delivered"]
    assert list(several["spread"]) == pytest.approx(list(together["mean"]), rel=1e-12)
    assert compare.titled(each, ["spread"], "mean", True)[1].equals(each)
    with pytest.raises(BadInput, match=r"^statistic = 'mode': must be one of mean, median"):
        compare.titled(each, ["spread"], "mode", False)


def test_a_run_that_diverged_is_named_and_does_not_move_the_median(tmp_path: Path) -> None:
    small = {"agents": 5, "features": 10, "rounds": 60, "algorithms": "CTA"}
    netsim.sweep("coke", out=tmp_path / "sweep", eta=[0.5, 60.0], seed=[1, 2, 3], **small)
    (note,) = compare.diverged([str(tmp_path / "sweep")])
    assert note.startswith("CTA diverged: ")
    assert note.endswith("(3 of 6 runs, eta=60.0,seed=1 first)")
    found = netsim.results.load(tmp_path / "sweep")
    mixed = netsim.results.interval(
        found[(found["eta"] == 0.5) | (found["seed"] == 1)].assign(eta=0), "train_mse", ["eta"], of="median"
    )
    calm = found[found["eta"] == 0.5]["train_mse"]
    assert calm.min() <= mixed["median"].iloc[0] <= calm.max() < mixed["mean"].iloc[0]


def test_an_unknown_metric_and_an_ending_are_refused_by_name(room: Path) -> None:
    with pytest.raises(BadInput, match=r"^metric = 'spred': must be one of .*did you mean 'spread'"):
        compare.table([str(room / "a")], ["spred"])
    with pytest.raises(BadInput, match=r"^out: its ending = 'gif'"):
        compare.draw(compare.table([str(room / "a")], ["spread"]), "spread", "x.gif")


@pytest.mark.parametrize(("name", "begins"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("x.pdf", b"%PDF")])
def test_the_command_prints_and_draws(name: str, begins: bytes, room: Path) -> None:
    done = call("compare", "a", "sweep", "--metric", "spread", "--out", name, cwd=room)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith("Last values of spread over the seeds; low to high: 95 % interval")
    assert (room / name).read_bytes().startswith(begins)


def test_the_command_shows_each_run_and_refuses_what_is_none(room: Path) -> None:
    each = call("compare", "a", "sweep", "--each", cwd=room)
    assert each.stdout.splitlines()[1] == "Last values"
    none = call("compare", "a", "none", cwd=room)
    assert none.returncode == 2
    assert none.stderr.startswith("netsim: run folder = 'none': must be what")
