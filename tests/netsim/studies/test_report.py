"""The page report.html of a run folder has the content listed in docs/run_folder.md."""

import ast
import base64
import html
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from netsim import BadInput, Network, scenarios, topology
from netsim.studies import Study
from netsim.studies.catalogue import find_study
from netsim.studies.figures import drawing, fit_to_page
from netsim.studies.terminal import Reporter
from netsim.testing import Rounder

EVIL = "<script>alert(1)</script> & \"x\" <img src='http://example.org/a.png'> \ud800"


def saved(folder: Path) -> str:
    study = Study("mine", {"loss": 0.1, "what": EVIL})
    study.note(EVIL)
    study.table("many", "Many rows", pd.DataFrame({"number": range(100), "<b>": [EVIL[:-1]] * 100}))
    study.text("words", EVIL)
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([1, 2])
    study.figure("curve", figure)
    study.origin["command"] = "netsim run mine --loss 0.1"
    study.save(folder)
    return (folder / "report.html").read_text(encoding="utf-8")


class Tags(HTMLParser):
    """An HTML parser that collects the tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_it_holds_what_the_folder_does(tmp_path: Path) -> None:
    page = saved(tmp_path / "out")
    (data,) = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    assert base64.b64decode(data) == (tmp_path / "out" / "curve.png").read_bytes()
    for shown in ("Many rows", "netsim run mine --loss 0.1", "numpy", "40 of 100 rows", "many.csv", "trace_hash"):
        assert shown in page
    assert page.count("<tr><td>") == 60


def captions(page: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(r"<figcaption>(.*?)</figcaption>", page)]


def test_a_figure_stands_over_the_sentence_on_what_it_shows(tmp_path: Path) -> None:
    study = Study("mine", {})
    for name, title, caption in (("a", "A title", "What it shows: a < b."), ("b", "A long\ntitle", ""), ("c", "", "")):
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot([1, 2])
        figure.suptitle(title)
        study.figure(name, figure, caption) if caption else study.figure(name, figure)
    study.save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert captions(page) == ["What it shows: a < b.", "A long title", "The figure c."]
    alternatives = [html.unescape(str(each.get("alt"))) for tag, each in Tags(page).tags if tag == "img"]
    assert alternatives == captions(page), "a reader who cannot see it gets the same words"


def test_every_figure_of_a_study_of_ours_has_a_sentence() -> None:
    """The source code is checked, because no test runs all studies."""
    folder = Path(scenarios.__file__).parent
    for path in folder.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "study.figure":
                assert len(call.args) == 3, f"{path.name}, line {call.lineno}: has no caption"
                output = call.args[2]
                parts = output.values if isinstance(output, ast.JoinedStr) else [output]
                if isinstance(end := parts[-1], ast.Constant):
                    assert str(end.value).endswith("."), f"{path.name}, line {call.lineno}: is no sentence"


def test_no_text_is_a_tag_and_nothing_is_asked_of_anybody(tmp_path: Path) -> None:
    tags = Tags(saved(tmp_path / "out")).tags
    assert not {"script", "link", "iframe", "b"} & {tag for tag, _ in tags}
    sources = [value for _, attributes in tags for name, value in attributes.items() if name in ("src", "href")]
    assert all(value is not None and value.startswith("data:") for value in sources)
    (policy,) = [each for tag, each in tags if tag == "meta" and each.get("http-equiv") == "Content-Security-Policy"]
    assert (policy["content"] or "").startswith("default-src 'none'")


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    assert saved(tmp_path / "a") == saved(tmp_path / "b")


@pytest.mark.usefixtures("undrawn")
def test_it_begins_with_what_the_study_asks_and_answers(tmp_path: Path) -> None:
    study = Study("mine", {})
    study.ask("Who hears\n the news?")
    study.answer("Of {agents} agents\n {heard:.0f} %.", "One run, seed {seed}.", agents=3, heard=(31.2, 66.6), seed=1)
    study.table("shares", "Shares", pd.DataFrame({"agents": [3, 3], "heard_%": [31.2, 66.6]}))
    for name in ("a", "b", "c"):
        study.figure(name, Figure(figsize=(1, 1)), f"Figure {name}.", hero=name == "b")
    study.note("A first note.", "A second one.")
    study.save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<h1>Who hears the news?</h1>" in page
    answer = "Of 3 agents 31 to 67 %. <small>One run, seed 1.</small>"
    first, *folded = page.split("<details>")
    assert answer in first
    assert captions(first) == ["Figure b."]
    assert "<table" not in first
    heads = [re.findall(r"<summary><h2>(.*?)</h2> <small>(.*?)</small></summary>", each)[0] for each in folded]
    assert heads[0] == ("Shares", "heard (%): 31.2 to 66.6")
    assert heads[2:] == [
        ("A", "Figure a."),
        ("C", "Figure c."),
        ("Notes", "A first note."),
        ("How it was made, and how to make it again", "netsim run mine"),
    ]
    settings, summary = (
        json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in ("settings", "summary")
    )
    assert settings["question"] == "Who hears the news?"
    assert (summary["answer"], summary["condition"]) == ("Of 3 agents 31 to 67 %.", "One run, seed 1.")


def test_without_an_answer_the_first_table_has_its_place(tmp_path: Path) -> None:
    study = Study("mine", {})
    study.table("shares", "Shares", pd.DataFrame({"heard_%": [31.2, 66.6]}))
    study.table("times", "Times", pd.DataFrame({"latency_s": [0.1, 0.2]}))
    study.save(tmp_path / "out")
    first, *folded = (tmp_path / "out" / "report.html").read_text(encoding="utf-8").split("<details>")
    assert "<h2>Shares</h2>" in first
    assert "66.6" in first
    assert "<h2>Times</h2>" in folded[0]
    assert "Shares" not in "".join(folded)
    assert "answer" not in json.loads((tmp_path / "out" / "summary.json").read_text())


def test_an_answer_does_not_round_to_all_or_nothing() -> None:
    study = Study("mine", {})
    study.answer("{a:.0f} %, {b:.0f} %, {c:.0f} %, {d:,} of {n}.", a=99.73, b=(0.001, 100.0), c=0.0, d=100, n=100)
    assert study.answered == "99.7 %, 0.001 to 100 %, 0 %, 100 of 100."


def test_a_long_table_behind_another_is_named_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    study = Study("mine", {}, reporter=Reporter())
    for name, rows in (("first", 30), ("short", 20), ("long", 1021)):
        study.table(name, f"The {name} one", pd.DataFrame({"algorithm": ["x"] * rows, "value": range(rows)}))
    printed = capsys.readouterr().out
    assert printed.count(" x  ") == 50
    assert printed.endswith("The long one: 1,021 rows, in long.csv\n")
    assert {name: len(table) for name, table in study.tables.items()} == {"first": 30, "short": 20, "long": 1021}


def test_an_answer_has_numbers_that_were_measured(capsys: pytest.CaptureFixture[str]) -> None:
    study = Study("mine", {}, reporter=Reporter())
    study.answer(
        "{who} saves {saved:.0f} %, {more:.0f} %.", "{n} seeds.", who="COKE", saved=(38.1, 50.2), more=(1.1, 1.2), n=6
    )
    said = "COKE saves 38 to 50 %, 1 %. 6 seeds."
    assert (f"{study.answered} {study.condition}", capsys.readouterr().out) == (said, f"{said}\n")
    for text, condition, fields, why in (
        ("{saved:.0f} % less.", "", {}, "field of the answer = 'saved': must be one of"),
        ("{saved:.0f} % less.", "", {"saved": 1, "other": 2}, "value for the answer = 'other': must be one of saved"),
        ("{saved.real} % less.", "", {"saved": 1}, "field of the answer = 'saved.real': must be one of saved"),
        ("{saved:.0f} % less.", "", {"saved": np.float64("nan")}, "answer: saved = "),
        ("{saved:.0f} % less.", "", {"saved": (0.0, math.inf)}, "answer: saved = (0.0, inf): must be finite"),
        ("Saves 38 %.", "", {}, "answer = 'Saves 38 %.': must be a text with a number that was measured"),
        (
            "{who} wins.",
            "Of {n} seeds.",
            {"who": "COKE", "n": 6},
            "answer = '{who} wins.': must be a text with a number",
        ),
        ("It {holds}.", "", {"holds": True}, "answer = 'It {holds}.': must be a text with a number"),
        ("{saved:d} % less.", "", {"saved": 1.5}, "answer = '{saved:d} % less.': must be a text whose formats"),
        ("{saved % less.", "", {"saved": 1}, "answer = '{saved % less.': must be a text with fields in braces"),
    ):
        with pytest.raises(BadInput) as refused:
            study.answer(text, condition, **fields)
        assert str(refused.value).startswith(why)
        assert "\n" not in str(refused.value)
    assert study.answered == said.partition(" 6 seeds.")[0], "what is refused changes nothing"


def test_one_figure_is_the_hero() -> None:
    study = Study("mine", {})
    for _ in range(2):
        study.figure("a", Figure(), hero=True)
    with pytest.raises(BadInput, match=r"^hero = 'b': must be one figure of a study, and 'a' is it"):
        study.figure("b", Figure(), hero=True)
    assert list(study.figures) == ["a"]


@pytest.mark.usefixtures("undrawn")
def test_figures_of_a_page_have_one_width_and_x_scale(tmp_path: Path) -> None:
    study = Study("mine", {})
    for name, width, ends in (("a", 6.5, (1, 3)), ("b", 16.0, (2, 9))):
        figure, panel = drawing(width, 4.0)
        panel.plot(ends, ends)
        panel.set_xlabel("round")
        study.figure(name, figure)
    own = Figure(figsize=(3, 2))
    own.subplots().plot([1, 100])
    study.figure("own", own)
    study.save(tmp_path / "out")
    drawn = [study.figures[name] for name in ("a", "b")]
    assert [tuple(each.get_size_inches()) for each in drawn] == [(12.0, 4.0), (12.0, 3.0)]
    low, high = drawn[0].axes[0].get_xlim()
    assert drawn[1].axes[0].get_xlim() == (low, high)
    assert low <= 1 < 9 <= high
    assert tuple(own.get_size_inches()) == (3.0, 2.0), "a figure that netsim did not lay out keeps its size"


def test_figures_keep_a_size_that_was_chosen() -> None:
    with rc_context({"figure.figsize": (3.5, 2.6)}):
        figure, _ = drawing(6.5, 4.0)
        fit_to_page([figure])
    assert tuple(figure.get_size_inches()) == (3.5, 2.6)


def test_a_study_that_says_nothing_asks_what_its_docstring_says() -> None:
    definition = find_study("averaging")
    assert definition.prepare().question == definition.title
    assert definition.title.endswith(".")


def test_only_of_a_run_with_a_trace_are_there_links_to_the_replay(tmp_path: Path) -> None:
    graph = topology.ring(3)
    for trace in (True, False):
        study = Study("mine", {}, trace=trace)
        study.run("rounder", Network(graph), {i: Rounder(1) for i in graph}, [], 1)
        study.save(tmp_path / f"{trace}")
        page = (tmp_path / f"{trace}" / "report.html").read_text(encoding="utf-8")
        assert ('<a href="replay.html#view=map">the map</a>' in page) == trace
        assert ('href="replay.html#view=spacetime"' in page) == trace


def test_figures_are_light_on_dark_where_the_reader_is(tmp_path: Path) -> None:
    study = Study("mine", {})
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([1, 2])
    study.figure("curve", figure)
    study.save(tmp_path / "out", figures="svg,png")
    drawn = (tmp_path / "out" / "curve.svg").read_text(encoding="utf-8")
    assert drawn.count("@media (prefers-color-scheme: dark) { svg { filter: invert") == 1
    ElementTree.fromstring(drawn)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert 'img[src^="data:image/png"] { filter: invert' in page
