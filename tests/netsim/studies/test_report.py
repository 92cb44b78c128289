"""The page of a run folder, report.html: what it holds is in docs/run_folder.md."""

import ast
import base64
import html
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from netsim import Network, scenarios, topology
from netsim.studies import Study
from netsim.studies.catalogue import find_study
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
    """What tags and attributes a page has."""

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
    """In the source, for no test runs all of them."""
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


def test_it_begins_with_what_the_study_asks_and_answers(tmp_path: Path) -> None:
    study = Study("mine", {})
    study.ask("Who hears\n the news?", "Of 3 agents, 2.")
    study.save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<h1>Who hears the news?</h1>" in page
    assert page.index("Of 3 agents, 2.") < page.index("<h2>")
    assert "<details>" in page, "the rest is folded"
    settings, summary = (
        json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in ("settings", "summary")
    )
    assert (settings["question"], summary["answer"]) == ("Who hears the news?", "Of 3 agents, 2.")


def test_a_study_that_says_nothing_asks_what_its_docstring_says() -> None:
    scenario = find_study("averaging")
    assert scenario.prepare().question == scenario.title
    assert scenario.title.endswith(".")


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
