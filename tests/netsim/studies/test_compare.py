"""``netsim compare``: the settings that differ, last values, and figures."""

import errno
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

import netsim
from netsim import BadInput, NetsimError
from netsim.studies import compare
from netsim.studies.catalogue import find_study
from tests.command import call

SMALL = {"agents": 5, "radius": 0.9}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    for name, loss in (("a", 0.0), ("b", 0.3)):
        find_study("averaging").execute(loss=loss, **SMALL).save(folder / name)
    netsim.studies.sweep("averaging", out=folder / "sweep", loss=0.3, seed=[1, 2], **SMALL)
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


def test_the_runs_of_a_pair_may_lie_in_two_folders(room: Path) -> None:
    netsim.studies.sweep("averaging", out=room / "calm", loss=0.0, seed=[1, 2], **SMALL)
    places = [str(room / "calm"), str(room / "sweep")]
    title, differences = compare.paired(compare.table(places, ["spread"]), "spread", "loss=0")
    calm, lossy = (netsim.results.load(place).set_index("seed")["spread"] for place in places)
    assert differences["count"].tolist() == [2]
    assert differences["difference"].iloc[0] == pytest.approx((lossy - calm).mean(), rel=1e-12)
    assert "difference from loss = 0, seed by seed" in title


def test_a_setting_that_names_the_algorithm_is_paired_all_the_same() -> None:
    rows = [("sweep", routing, seed, f"{routing.upper()}, awake 1") for routing in ("ctp", "rpl") for seed in range(3)]
    found = pd.DataFrame(rows, columns=["folder", "routing", "seed", "algorithm"])
    found["delivered_%"] = [90.0, 91.0, 92.0, 95.0, 93.0, 97.0]
    title, differences = compare.paired(found, "delivered_%", "routing=ctp")
    assert differences["count"].tolist() == [3]
    assert differences["difference"].iloc[0] == pytest.approx(4.0)
    assert "no two runs" not in title
    # Runs of different algorithms are compared only at equal settings, except for the setting that is asked about.
    title, differences = compare.paired(found, "delivered_%", "CTP, awake 1")
    assert differences["count"].tolist() == [0]
    assert title.endswith("no two runs that differ in algorithm have the same routing")
    title, differences = compare.paired(
        found.assign(loss=[0, 0, 0, 1, 1, 1])[["loss", *found]], "delivered_%", "loss=0"
    )
    assert not differences["count"].any()


@pytest.mark.parametrize(("changes", "names"), [((None, None), True), (("site.seed=0", "site.seed=1"), False)])
def test_a_site_that_all_runs_share_is_named(changes: tuple[str | None, ...], names: bool, tmp_path: Path) -> None:
    for number, change in enumerate(changes):
        (tmp_path / f"run{number}").mkdir()
        settings = {"parameters": {"site": "house.toml", "set": change, "seed": number}}
        (tmp_path / f"run{number}" / "settings.json").write_text(json.dumps(settings))
    lines = compare.conditions([str(tmp_path / "run0"), str(tmp_path / "run1")])
    said = "All runs have the site house.toml, whose own seed draws shadowing; intervals hold for that one."
    assert lines == [said] * names


def test_the_folder_of_an_experiment_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(BadInput, match=r"it is of an experiment, whose runs are in its runs\.csv"):
        compare.table([str(tmp_path)], [])


def test_seeds_are_summarised_together(room: Path) -> None:
    places = [str(room / "a"), str(room / "sweep")]
    each = compare.table(places, ["spread"])
    title, together = compare.titled(each, ["spread"], "median", False)
    assert title.endswith("low to high: no 95 % interval of the median, which takes 6 (n = 1 to 2)")
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
    netsim.studies.sweep("coke", out=tmp_path / "sweep", eta=[0.5, 60.0], seed=[1, 2, 3], **small)
    (note,) = compare.diverged([str(tmp_path / "sweep")])
    assert note == "CTA diverged in 3 of 6 runs, eta=60.0,seed=1 first: try a smaller step size (--eta)."
    whole = compare.table([str(tmp_path / "sweep")], ["train_mse"])
    for where, notes in (("eta=60", [note.replace("3 of 6", "3 of 3")]), ("eta=0.50", [])):
        left = compare.filtered(whole, None, [where])
        assert compare.diverged([str(tmp_path / "sweep")], left) == notes
    assert compare.diverged([str(tmp_path / "sweep")], whole) == [note]
    assert compare.diverged([str(tmp_path / "sweep")], whole.assign(algorithm="DKLA")) == []
    found = netsim.results.load(tmp_path / "sweep")
    found.loc[found["eta"] == 60.0, "seed"] += 3
    mixed = netsim.results.interval(found[found["seed"] < 5].assign(eta=0), "train_mse", ["eta"], of="median")
    calm = found[found["eta"] == 0.5]["train_mse"]
    assert calm.min() <= mixed["median"].iloc[0] <= calm.max() < mixed["mean"].iloc[0]


def test_runs_that_diverged_are_one_line_however_many(tmp_path: Path) -> None:
    """The notes of the diverged runs have different counts, but must be summarized in one line."""
    small = {"agents": 5, "features": 10, "rounds": 30, "algorithms": "CTA,DKLA", "eta": 60.0}
    netsim.studies.sweep("coke", out=tmp_path / "sweep", loss=[0.1, 0.2], seed=[1, 2, 3], **small)
    (note,) = compare.diverged([str(tmp_path / "sweep")] * 2)
    first = tmp_path / "sweep" / "points" / "loss=0.1,seed=1"
    assert note == f"CTA diverged in 6 of 6 runs, loss=0.1,seed=1 first; why: netsim show {shlex.quote(str(first))}"
    shown = call("show", str(first), cwd=tmp_path).stdout
    assert "CTA diverged: " in shown
    assert "did not arrive in time (lost" in shown


# --- what is put together ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a sweep over two settings and three seeds."""
    folder = tmp_path_factory.mktemp("swept") / "sweep"
    netsim.studies.sweep("averaging", out=folder, loss=[0.0, 0.3], radius=[0.6, 0.9], seed=[1, 2, 3], agents=5)
    return folder


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    monkeypatch.setattr(compare, "write_figure", lambda path, figure: figures.append(figure))
    return figures


def lines(figure: Figure) -> dict[str, list[float]]:
    """Return the values that a figure draws, keyed by the line's name."""
    return {str(line.get_label()): [float(y) for y in line.get_ydata()] for line in figure.axes[0].lines}


def test_against_a_setting_each_combination_of_the_others_has_a_line(swept: Path, drawn: list[Figure]) -> None:
    found = compare.table([str(swept)], ["spread"])
    compare.draw(found, "spread", "x.png", against="loss")
    (figure,) = drawn
    means = netsim.results.load(swept).groupby(["radius", "loss"])["spread"].mean()
    (algorithm,) = found["algorithm"].unique()
    assert lines(figure) == {
        f"radius {radius:g}, {algorithm}": pytest.approx([means[radius, 0.0], means[radius, 0.3]])
        for radius in (0.6, 0.9)
    }
    assert figure.axes[0].get_title().endswith("(Student's t, n = 3)"), "as many as there are seeds"


def test_over_the_rounds_each_combination_has_a_line(swept: Path, drawn: list[Figure]) -> None:
    compare.draw(compare.table([str(swept)], ["spread"]), "spread", "x.png")
    rounds = netsim.results.load(swept, rounds=True)
    expected = {
        f"radius {radius:g}, loss {loss:g}, {algorithm}": pytest.approx(list(part.groupby("round")["spread"].mean()))
        for (loss, radius, algorithm), part in rounds.groupby(["loss", "radius", "algorithm"])
    }
    assert len(expected) == 4
    assert lines(drawn[0]) == expected
    assert "n = 3)" in drawn[0].axes[0].get_title()


def test_a_table_has_a_row_for_each_combination_and_counts_a_seed_once(swept: Path) -> None:
    found = compare.table([str(swept), str(swept)], ["spread"])
    assert len(found) == 12, "a folder that is given twice is there once"
    title, together = compare.titled(found, ["spread"], "mean", False)
    assert title.endswith("95 % interval of the mean (Student's t, n = 3)")
    assert len(together[["loss", "radius"]].drop_duplicates()) == len(together) == 4
    assert set(together["seeds"]) == {3}


def test_folders_that_differ_in_what_they_are_drawn_against_make_a_line(room: Path, drawn: list[Figure]) -> None:
    places = [str(room / "a"), str(room / "b")]
    ends = [netsim.results.load(place)["spread"].iloc[0] for place in places]
    compare.draw(compare.table(places, ["spread"]), "spread", "x.png", against="loss")
    assert list(lines(drawn[0]).values()) == [pytest.approx(ends)]
    assert not drawn[0].axes[0].get_title(), "one seed has no interval"


def test_the_same_seed_in_two_folders_is_not_two_seeds(room: Path, drawn: list[Figure]) -> None:
    """Folder b and the sweep's seed 1 hold the same run, which must count once."""
    places = [str(room / each) for each in ("a", "b", "sweep/points/seed=1")]
    compare.draw(compare.table(places, ["spread"]), "spread", "x.png", against="loss")
    assert [len(line) for line in lines(drawn[0]).values()] == [1, 1, 1]
    assert not drawn[0].axes[0].get_title(), "one seed has no interval"


def test_what_a_study_chose_for_each_seed_does_not_keep_the_seeds_apart(tmp_path: Path) -> None:
    """The study chooses another bandwidth for each seed's data, and the seeds must still be averaged."""
    small = {"agents": 4, "features": 5, "rounds": 5, "algorithms": "DKLA", "tune": True}
    netsim.studies.sweep("coke", out=tmp_path / "sweep", seed=[1, 2, 3], **small)
    found = compare.table([str(tmp_path / "sweep")], ["train_mse"])
    assert list(found.columns) == ["folder", "seed", "algorithm", "train_mse"]
    together = compare.over_seeds(found, ["train_mse"], "mean")
    assert together is not None
    assert list(together["seeds"]) == [3]


def test_a_number_may_be_written_otherwise_and_no_seed_is_a_reference(room: Path) -> None:
    whole = compare.table([str(room / each) for each in ("calm", "sweep")], ["spread"])
    assert set(compare.filtered(whole, None, ["loss=0.0,0.30"])["loss"]) == {0.0, 0.3}
    assert compare.paired(whole, "spread", "loss=0.0")[1].equals(compare.paired(whole, "spread", "loss=0")[1])
    with pytest.raises(BadInput, match=r"^paired = 'seed=1': must be one of averaging, or NAME=VALUE of folder, loss$"):
        compare.paired(whole, "spread", "seed=1")


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


def test_a_figure_that_cannot_be_written_is_reported_in_one_line_and_leaves_the_old_one(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(figure: Figure, file: Any, **_: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    found = compare.table([str(room / "a")], ["spread"])
    monkeypatch.setattr(Figure, "savefig", half)
    for content in ("old", None):
        out = tmp_path / f"{content}.png"
        if content:
            out.write_text(content)
        with pytest.raises(NetsimError, match=r"^out = '.*png': could not be written \(No space left on device\)$"):
            compare.draw(found, "spread", str(out))
        assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    (tmp_path / "x.png").mkdir()
    with pytest.raises(BadInput, match=r"must be a file; it is a folder$"):
        compare.draw(found, "spread", str(tmp_path / "x.png"))


def test_the_command_shows_each_run_and_refuses_what_is_none(room: Path) -> None:
    each = call("compare", "a", "sweep", "--each", cwd=room)
    assert each.stdout.splitlines()[1] == "Last values"
    # Columns that are not shown by default are listed, and can be requested by name.
    (others,) = (line for line in each.stdout.splitlines() if line.startswith("--metric shows others: "))
    names = others.partition(": ")[2].split(", ")
    assert {"wire_bits", "delivered"} <= {*names}
    assert "transmissions" not in names
    assert names[0] in compare.table([str(room / "a")], [names[0]])
    none = call("compare", "a", "none", cwd=room)
    assert none.returncode == 2
    assert none.stderr.startswith("netsim: run folder = 'none': must be what")


def test_runs_without_rounds_are_refused(tmp_path: Path) -> None:
    """Agents that use no rounds leave an empty rounds.csv, so there are no last values to compare."""
    script = tmp_path / "talk.py"
    script.write_text(
        "from netsim import Network, topology\n"
        "from netsim.testing import Listener, Talker\n\n"
        "network = Network(topology.path(2))\n"
        "agents = {0: Talker([(1.0, 'x')]), 1: Listener()}\n"
    )
    made = call("run", "talk.py", "--out", "a", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    refused = call("compare", "a", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("netsim: folders = a: must be runs with rows in rounds.csv; ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "a", "--test", "wilcoxon"), "test = wilcoxon: must go with --paired"),
        (("compare", "a", "--style", "paper"), "style = paper: must go with --out"),
        (("compare", "a", "--against", "loss", "--paired", "x"), "against = loss: must go with --out"),
        (("show", "a", "--format", "latex"), "format = latex: must go with --methods-section"),
    ],
)
def test_a_flag_that_would_do_nothing_is_refused(words: tuple[str, ...], message: str, room: Path) -> None:
    done = call(*words, cwd=room)
    assert (done.returncode, done.stderr) == (2, f"netsim: {message}\n")


MEASURED = """
from netsim import Agent, Network, topology

class Talks(Agent):
    async def run(self):
        async for _ in self.rounds(1):
            await self.broadcast("x", 1.0)

def measured(study, *, name: str = "one", seed: int = 0) -> None:
    graph = topology.ring(3)
    value = [1e308, 1e308, -1e308, float("nan")][seed]
    probe = lambda agents: {"value": value, "other": 1.0}
    study.run(name, Network(graph, seed=seed), {i: Talks() for i in graph}, [probe], 1)
"""


@pytest.fixture(scope="module")
def extreme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extreme")
    (folder / "measured.py").write_text(MEASURED)
    netsim.studies.sweep(str(folder / "measured.py"), out=folder / "sweep", seed=[0, 1, 2, 3])
    find_study(str(folder / "measured.py")).execute(name="学習").save(folder / "run")
    return folder


@pytest.mark.parametrize("metrics", [["value"], ["value", "other"]])
@pytest.mark.parametrize(("of", "value"), [("mean", 1e308 / 3), ("median", 1e308)])
def test_what_sums_overflow_has_a_mean_all_the_same(metrics: list[str], of: str, value: float, extreme: Path) -> None:
    words = [word for name in metrics for word in ("--metric", name)]
    done = call("compare", "sweep", *words, "--statistic", of, "--out", "out.png", cwd=extreme)
    assert (done.returncode, done.stderr) == (0, "")
    together = compare.titled(compare.table([str(extreme / "sweep")], metrics), metrics, of, False)[1]
    assert together[of if len(metrics) == 1 else "value"].tolist() == pytest.approx([value], rel=1e-12)


def test_only_seeds_with_a_value_are_counted(extreme: Path) -> None:
    found = compare.table([str(extreme / "sweep")], ["value", "other"])
    together = compare.titled(found, ["value", "other"], "mean", False)[1]
    assert together["seeds"].tolist() == ["3 to 4"]
    again = compare.titled(found.drop(columns="other"), ["value", "value"], "mean", False)[1]
    assert again["seeds"].tolist() == [3]
    assert "3 to 4" in call("show", "sweep", cwd=extreme).stdout


def test_what_matplotlib_warned_of_is_reported_as_by_run(extreme: Path) -> None:
    done = call("compare", "run", "--metric", "value", "--out", "out.png", cwd=extreme)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("out.png: Glyph 23398 ")


# --- tables of the study's own ----------------------------------------------------------------------------------------


def tabled(study: Any, *, kinds: int = 2, seed: int = 1) -> None:
    """A study without algorithms whose tables have one row a run, or one row for each of several kinds."""
    import pandas as pd

    graph = netsim.topology.path(2)
    agents = {node: netsim.testing.Talker([]) for node in graph}
    study.run("quiet", netsim.Network(graph, seed=seed), agents, [], 1, sample=1.0)
    study.table("whole", "", pd.DataFrame({"algorithm": ["quiet"], "share_%": [10.0 * seed], "only": [seed]}))
    parts = {"algorithm": ["quiet"] * kinds, "size": range(kinds), "share_%": [seed + 0.1 * k for k in range(kinds)]}
    study.table("parts", "", pd.DataFrame(parts))
    study.table(
        "reasons",
        "",
        pd.DataFrame({"way": ["a", "b"][:kinds], "text": ["x", "y"][:kinds], "cost": [1.0, seed][:kinds]}),
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tables")
    code = Path(__file__).read_text().partition("def tabled(")[2].partition("\n\n\n@pytest")[0]
    (folder / "tabled.py").write_text(f"import netsim.testing\nfrom typing import Any\n\ndef tabled({code}\n")
    netsim.studies.sweep(str(folder / "tabled.py"), out=folder / "sweep", seed=[1, 2, 3])
    return str(folder / "sweep")


def test_a_metric_may_be_a_number_of_a_table(tables: str) -> None:
    """The table with the fewest keys supplies the metric, unless another table is named."""
    found = compare.table([tables], ["share_%", "only"])
    assert list(found.columns) == ["folder", "seed", "algorithm", "share_%", "only"]
    assert list(found["share_%"]) == [10.0, 20.0, 30.0]
    parts = compare.table([tables], ["parts.share_%"])
    assert list(parts.columns) == ["folder", "seed", "size", "algorithm", "share_%"]
    assert list(parts["share_%"]) == pytest.approx([1.0, 1.1, 2.0, 2.1, 3.0, 3.1])
    _, together = compare.titled(parts, compare.measures_of(parts), "mean", False)
    assert list(together["mean"]) == pytest.approx([2.0, 2.1])
    assert list(together["seeds"]) == [3, 3]


def test_texts_at_the_beginning_tell_rows_apart_and_the_first_stands_for_the_algorithm(tables: str) -> None:
    found = compare.table([tables], ["cost"])
    assert list(found.columns) == ["folder", "seed", "text", "algorithm", "cost"]
    assert list(found["algorithm"]) == ["a", "b"] * 3


def test_a_number_of_a_table_is_drawn_against_its_keys(tables: str, drawn: list[Figure]) -> None:
    parts = compare.table([tables], ["parts.share_%"])
    compare.draw(parts, "share_%", "x.png", against="size")
    assert lines(drawn[0]) == {"quiet": pytest.approx([2.0, 2.1])}
    with pytest.raises(BadInput, match=r"^against = 'round': must be one of seed, size: share_% has one value a run"):
        compare.draw(parts, "share_%", "x.png", against="round")


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        (["only", "cost"], "metric = 'cost': must be in the same table as 'only'"),
        (["onli"], r"metric = 'onli': must be one of .*\(did you mean 'only'\?\)"),
        (["whole.cost"], r"metric = 'whole.cost': must be one of "),
    ],
)
def test_a_metric_that_no_table_has_is_refused(tables: str, metrics: list[str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        compare.table([tables], metrics)


def test_the_command_line_takes_them(tables: str, tmp_path: Path) -> None:
    shown = call("compare", tables, "--metric", "share_%", cwd=tmp_path).stdout
    assert "Last values of share_% over the seeds" in shown
    assert "--metric whole" not in shown
    # Without ``--metric``, the command lists the available metrics.
    lines = call("compare", tables, cwd=tmp_path).stdout.splitlines()
    assert any(line.startswith("--metric whole.… : ") and "only" in line for line in lines)
