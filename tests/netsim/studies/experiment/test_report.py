"""An experiment's report and its paragraph for a paper agree with the tables and omit nothing."""

import html
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Between, Link, Links, Method, vary
from netsim.agents import DKLA, DPSGD
from netsim.studies.experiment.report import _answer, _figures
from netsim.studies.experiment.results import Results
from netsim.studies.experiment.tuning import settled
from netsim.studies.methods_section import methods_section
from netsim.studies.paired import holm
from netsim.studies.paper_tables import latex
from netsim.studies.seeds import Seeds
from tests.command import call
from tests.netsim.studies.experiment.parts import Counts, counting, small
from tests.netsim.studies.experiment.test_outcomes import Fails, fails_for
from tests.netsim.studies.experiment.test_scripts import SMALL

pytestmark = pytest.mark.usefixtures("all_undrawn")

METHODS = {"DKLA": Method(DKLA, rho=0.1), "steep": Method(DPSGD, eta=50.0), "bad": Method(Fails, eta=0.1)}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    networks = {"ideal": Links(), "lossy": Links(link=Link(loss=0.2))}
    noises = vary("problem.noise", [0.1, 0.2])
    experiment = small(methods=METHODS, networks=networks, grid=noises, seeds=range(2), rounds=6)
    found: Results = experiment.run(tmp_path_factory.mktemp("report") / "out")
    return found


@pytest.fixture(scope="module")
def page(results: Results) -> str:
    assert results.folder is not None
    assert results.report(title="Who <dies>?") == results.folder / "report.html"
    return (results.folder / "report.html").read_text()


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the table below a heading that starts with ``heading``: the cells of each row except the first."""
    (found,) = re.findall(rf"<h2>{re.escape(heading)}[^<]*</h2>.*?<table>(.*?)</table>", page, re.DOTALL)
    lines = re.findall(r"<tr>(<td>.*?)</tr>", found)
    return [[html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", line)] for line in lines]


def test_page_holds_the_summary_what_was_won_and_every_run_that_died(results: Results, page: str) -> None:
    summary = rows(page, "gap: survivors")
    assert len(summary) == len(results.summary()) == 12
    for line, row in zip(summary, results.summary().to_dict("records"), strict=True):
        assert line[:2] == [row["network"], str(row["problem.noise"])]
        assert row["survived"] in line
        assert line[3] == row["verdict"]
    won = rows(page, "gap: seeds won and lost against DKLA")
    assert [line[3:6] for line in won] == [["0", "2", "0"]] * 8
    assert "p_holm corrected for the 8 rows of this table (Holm)" in page
    died = rows(page, "Runs that diverged or failed")
    assert len(died) == (results.runs["outcome"].isin(["diverged", "failed"])).sum() == 16
    assert all("no step" in line[-1] for line in died if "bad" in line)


def test_tables_are_corrected_for_all_their_rows_and_say_so(results: Results) -> None:
    whole, part = results.versus("DKLA"), results.only("network", "lossy").versus("DKLA")
    for table, count in ((whole, 8), (part, 4)):
        assert table["p_holm"].tolist() == holm(table["p"].to_numpy()).tolist()
        assert f"corrected for the {count} rows of this table (Holm)." in table.attrs["note"]
        assert latex(table).startswith(f"% {table.attrs['note']}\n\\begin{{tabular}}")
    assert whole["p"].iloc[-4:].tolist() == part["p"].tolist()


def test_one_condition_of_a_setting_that_only_some_runs_have(results: Results) -> None:
    cells = [
        (replace(cell, columns={**cell.columns, **({"eta": 0.3} if place % 2 else {})}), found)
        for place, (cell, found) in enumerate(results.cells)
    ]
    some = replace(results, cells=cells)
    assert len(some.only("eta", 0.3).cells) == len(cells) // 2
    with pytest.raises(BadInput, match=r"^value = 0\.4: must be one of 0\.3, which runs have as eta$"):
        some.only("eta", 0.4)
    with pytest.raises(BadInput, match=r"^column = 'etta': must be one of .*eta"):
        some.only("etta", 0.3)


def test_page_says_what_was_asked_and_compared_and_how_all_runs_ended(results: Results, page: str) -> None:
    counts = results.runs["outcome"].value_counts()
    assert "<h1>Who &lt;dies&gt;?</h1>" in page
    assert f"{counts['diverged']} diverged and {counts['failed']} failed." in page.partition("<figure>")[0]
    for part, value in (
        ("method steep", "class DPSGD, censor Always(), coder Exact(), eta 50, unheard kept"),
        ("network ideal", "ideal links"),
        ("network lossy", "link.loss.mean 0.2"),
        ("problem", "function least_squares, agents 4, noise as swept"),
        ("seeds", "0 and 1"),
        ("length", "6 rounds"),
    ):
        assert f"<tr><th>{part}</th><td>{value}</td></tr>" in page
    assert "numpy" in page
    assert page.count("<img") == page.count("<figcaption>") == 2, "over the noise, and over the rounds"
    assert "could not be made" not in page


def test_page_begins_with_the_least_median_and_its_interval_over_the_seeds(results: Results, page: str) -> None:
    medians = results.summary().query("method == 'DKLA'")["median_gap"]
    reach = f"{medians.min():.3g} to {medians.max():.3g}"
    first = html.unescape(page.partition("<details>")[0])
    assert f'<p class="answer">DKLA has the least median gap under 4 of 4 conditions, {reach}. <small>no 95 % ' in first
    assert "interval of the median, which takes 6 (n = 2) over the seeds. With 2 seeds and 3 methods" in first
    methods = {"DKLA": METHODS["DKLA"], "small": Method(DPSGD, eta=1e-4)}
    found = small(methods=methods, seeds=range(6), rounds=3).run()
    row = found.summary().iloc[0]
    assert _answer(found, "All ended.") == [
        f"DKLA has the least median gap, {row['median_gap']:.3g}.",
        f"{row['median_low']:.3g} to {row['median_high']:.3g}: 95 % interval of the median (order statistics, n = 6) "
        "over the seeds. All ended.",
    ]
    assert _answer(counting().run(), "All ended.") == ["All ended.", ""], "no error judges them"


def test_page_begins_with_the_best_method_by_each_goal() -> None:
    methods = {name: Method(Counts, step=step) for name, step in (("one", 1), ("two", 2), ("also one", 1))}
    share = {"share": 0.5}
    asked = counting(methods=methods, after=[lambda run: share], goals=["total", "share"], seeds=range(8))
    assert _answer(asked.run(), "All ended.") == [
        "one has the least median total, 9; the sign test cannot tell also one from it. "
        "one has the greatest median share, 0.5; the sign test cannot tell two and also one from it.",
        "total 9; share 0.5: 95 % interval of the median (order statistics, n = 8) over the seeds. All ended.",
    ]
    with pytest.raises(BadInput, match=r"^goals = 'totals': must be one of .*total"):
        counting(goals=["totals"]).run().report("unwritten.html")
    with pytest.raises(BadInput, match=r"^goals = 'total': must be a list of columns$"):
        counting(goals="total")


def test_dead_runs_are_in_the_figures(results: Results) -> None:
    for _, draw in _figures(results):
        for panel in draw().axes:
            assert panel.texts[0].get_text() == "steep (0/2)\nbad (0/2)"


def test_lines_that_died_alike_are_told_once() -> None:
    found = small(problem=fails_for(1), rounds=3, networks={"a": Links(), "b": Links(link=Link(loss=0.1))}).run()
    assert [[text.get_text() for text in panel.texts] for panel in found.figure().axes] == [["each (1/2)"]] * 2


def test_many_panels_are_several_figures_and_many_lines_several_panels() -> None:
    methods = {f"D-PSGD {number}": Method(DPSGD, eta=0.1 + number / 100) for number in range(9)}
    ((_, draw),) = _figures(small(methods=methods, seeds=[0], rounds=1).run())
    assert [len(panel.lines) for panel in draw().axes] == [8, 1]
    noises = vary("problem.noise", [0.1, 0.2]) * vary("network.round_period", [1.0, 2.0, 3.0, 4.0, 5.0])
    captions = [each for each, _ in _figures(small(grid=noises, seeds=[0], rounds=1).run())]
    assert captions[-2:] == [f"gap against round, problem.noise = {noise}: one seed." for noise in (0.1, 0.2)]


def test_without_an_error_there_are_the_medians_and_a_figure_of_each_measure(tmp_path: Path) -> None:
    found = counting(after=[lambda run: {"ended_at": run.ended_at}], grid=vary("method.step", [1, 2])).run()
    page = found.report(tmp_path / "page.html").read_text()
    assert [line[-2:] for line in rows(page, "Medians over the seeds")] == [["9", "3"], ["18", "3"]]
    captions = [html.unescape(each) for each in re.findall(r"<figcaption>(.*?)</figcaption>", page)]
    assert captions == [
        "total against method.step: one seed.",
        "total against round: one seed.",
        "ended at against method.step: one seed.",
    ]
    assert "survivors" not in page


def test_problems_with_errors_of_their_own_have_tables_of_their_own(tmp_path: Path) -> None:
    def other(seed: int) -> Any:
        costs, graph, measure = small().problem[""].function(seed)
        return costs, graph, lambda models: {"excess": measure(models)["gap"]}

    found = small(problem={"gaps": small().problem[""], "excesses": other}, seeds=[0]).run()
    page = found.report(tmp_path / "page.html").read_text()
    assert [line[0] for line in rows(page, "gap, gaps: survivors")] == ["DKLA", "D-PSGD"]
    assert [line[0] for line in rows(page, "excess, excesses: survivors")] == ["DKLA", "D-PSGD"]


@pytest.mark.usefixtures("undrawn")
def test_command_leaves_a_report_with_the_file_and_how_to_repeat_it(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(f'"""Is it small?\n\nYes."""\n{SMALL}')
    done = call("run", "small.py", "--noise", "0.1,0.2", "--out", "there", cwd=tmp_path)
    assert "there: report.html, runs.csv" in done.stdout
    page = (tmp_path / "there" / "report.html").read_text()
    assert "<h1>Is it small?</h1>" in page
    assert "<pre>netsim run small.py --noise 0.1,0.2</pre>" in page
    done = call("show", "there", "--methods-section", cwd=tmp_path)
    assert done.stdout.startswith("The experiment small.py, “Is it small?”, ran 2 methods, at noise = 0.1 and 0.2, in")
    assert "The command netsim run small.py --noise 0.1,0.2 repeats this." in done.stdout
    assert done.stdout.splitlines()[0] in html.unescape(page), "the page has the same paragraph"
    assert call("pack", "there", "--out", "there.zip", cwd=tmp_path).returncode == 0
    assert "report.html" in zipfile.ZipFile(tmp_path / "there.zip").namelist()


def test_report_is_refused_without_a_place_or_for_another_method() -> None:
    found = counting().run()
    with pytest.raises(BadInput, match=r"^path = None: must be given, for the runs are kept in no folder"):
        found.report()
    with pytest.raises(BadInput, match=r"^reference = 'CTA': must be one of"):
        found.report("never.html", reference="CTA")
    assert not Path("never.html").exists()


# --- the paragraph ----------------------------------------------------------------------------------------------------


def test_paragraph_tells_runs_seeds_outcomes_tests_and_what_to_cite(results: Results) -> None:
    text, counts = results.methods_section(), results.runs["outcome"].value_counts()
    assert "ran 3 methods over 2 networks, at problem.noise = 0.1 and 0.2, in netsim" in text
    assert ": 24 runs of 6 rounds." in text
    assert "the same 2 seeds (0 and 1) of everything random" in text
    assert f"{counts['diverged']} diverged and {counts['failed']} failed." in text
    assert "steep at network = ideal, problem.noise = 0.1 (2 of 2)" in text
    assert "DKLA (censor Always(), coder Exact(), rho 0.1, duals Accumulated()) [1]; " in text
    assert "bad (class Fails, censor Always(), coder Exact(), eta 0.1, unheard kept) after [2]." in text
    assert "diverged if it ended at no number or above 10 times the first" in text
    assert "Clopper and Pearson's [3]" in text
    assert "sign test, with p corrected after Holm [4] for all rows of a table" in text
    assert [line.split()[:4] for line in text.splitlines()[-4:]] == [
        ["[1]", "P.", "Xu,", "Y."],
        ["[2]", "X.", "Lian,", "C."],
        ["[3]", "C.", "J.", "Clopper"],
        ["[4]", "S.", "Holm.", "A"],
    ]
    for _, cell in results.cells[:1]:
        for package, version in cell.about["packages"].items():
            assert f"{package} {version}" in text
    assert r"Holm~\cite{holm1979} for all rows" in results.methods_section("latex")


def test_folder_has_the_paragraph_of_its_results(results: Results, tmp_path: Path) -> None:
    assert results.folder is not None
    assert methods_section(results.folder) == results.methods_section()
    seeds = np.arange(2)
    some = small(problem=fails_for(1), seeds=seeds, rounds=2, methods={"NA": METHODS["DKLA"]})
    found = some.run(tmp_path)
    assert "NA (1 of 2)" in methods_section(tmp_path) == found.methods_section()
    with pytest.raises(BadInput, match="format"):
        results.methods_section("html")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("where", [pytest.param("here", marks=pytest.mark.slow), "file"])
def test_paragraph_tells_how_settings_were_tuned_and_for_which_network(where: str, tmp_path: Path) -> None:
    networks = {"ideal": Links(), "lossy": Links(link=Link(loss=0.5))}
    base = small(networks=networks, rounds=10, seeds=range(2))
    over = {"method.eta": Between(0.01, 1.0, log=True)}
    tuned = base.tune(over, candidates=4, finalists=2, seeds=[100, 101], validation=[200])
    experiment = tuned.experiment
    if where == "file":
        tuned.save(tmp_path / "tuned.json")
        experiment = settled(base, [tmp_path / "tuned.json"], lambda cell: cell.columns)
    found = experiment.run()
    text = found.methods_section()
    assert (
        "The settings of D-PSGD were chosen by successive halving for the least median gap among 4 candidates of each, "
        f"in {len(tuned.table)} runs, for each network apart, over eta of D-PSGD in 0.01:1:log, on the seeds 100 and "
        f"101, and the best 2 were validated on the seed 200{' (tuned.json)' if where == 'file' else ''}. No run that "
        f"is reported here has one of these seeds."
    ) in text
    etas = dict(tuned.chosen[["network", "eta"]].itertuples(index=False, name=None))
    shown = (
        f"eta {etas['ideal']}"
        if len(set(etas.values())) == 1
        else " and ".join(f"{eta} (at network = {network})" for network, eta in etas.items())
    )
    assert shown in text
    page = found.report(tmp_path / "page.html").read_text()
    assert tuned.notes
    for note in tuned.notes:
        assert f"<li>Tuning: {html.escape(note)}</li>" in page


def test_seeds_of_their_own_are_told(tmp_path: Path) -> None:
    found = counting(seeds=[Seeds(seed=1, data_seed=7), Seeds(seed=2, data_seed=7)]).run(tmp_path)
    assert "2 seeds (seed 1, data seed 7; seed 2, data seed 7)." in methods_section(tmp_path)
    assert json.loads((tmp_path / "experiment.json").read_text())["seeds"] == found.about["seeds"]
    assert "Each combination ran with seed 3." in replace(counting(), seeds=[3]).run().methods_section()


def test_counts_of_a_run_that_diverged_are_what_it_spent(results: Results) -> None:
    medians = results.medians().groupby("method")["link_messages"].unique()
    assert medians["steep"].tolist() == medians["DKLA"].tolist() == [6 * 8]
