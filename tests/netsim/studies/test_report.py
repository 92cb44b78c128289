"""The page of a run folder, report.html: what it holds is in docs/run_folder.md."""

import ast
import base64
import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from netsim import scenarios
from netsim.studies import Study

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
