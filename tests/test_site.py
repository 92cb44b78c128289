"""The site's pages, from disk and from a server: replays in them, guesses that open the next part, the search."""

import json
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from netsim import BadInput
from netsim.lessons import guess
from netsim.replay.html import as_json, page_of
from tests.chromium import Page, serving
from tests.command import ROOT
from tests.netsim.replay.test_accessible import AXE, wrong
from tests.parts import only_with

LESSONS = sorted((ROOT / "docs" / "lessons").glob("*.ipynb"))
TUTORIAL = ROOT / "docs" / "tutorials" / "first.md"


@pytest.fixture(scope="module")
def replays() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "_replays.py"))


def outputs(path: Path, kind: str) -> list[Any]:
    """Return the outputs of one MIME type that the cells of a lesson show."""
    import nbformat

    found = [cell.get("outputs", ()) for cell in nbformat.read(path, as_version=4).cells]
    return [output.data[kind] for each in found for output in each if kind in output.get("data", {})]


# --- what a lesson asks -----------------------------------------------------------------------------------------------


def test_a_guess_shows_its_question_without_the_answer_until_it_is_asked_for() -> None:
    shown = guess("q1", "How many leaders?", ["none", "one", "<two>"], right=2)._repr_mimebundle_()
    assert shown["text/plain"] == "How many leaders?\n  a) none\n  b) one\n  c) <two>"
    question, answer = shown["text/html"].split("<details>")
    assert question == "<p><b>How many leaders?</b></p><ol type='a'><li>none</li><li>one</li><li>&lt;two&gt;</li></ol>"
    assert "&lt;two&gt;" in answer


@pytest.mark.parametrize(
    ("name", "options", "right", "refusal"),
    [
        ("q 1", ["none", "one"], 0, "name = 'q 1': must be a word"),
        ("q1", ["none"], 0, "options = .*: must be a list of two to eight texts"),
        ("q1", "none", 0, "options = 'none': must be a list of two to eight texts"),
        ("q1", ["none", "one"], 2, "right = 2: must be"),
    ],
)
def test_a_guess_that_nobody_can_answer_is_refused(name: str, options: Any, right: int, refusal: str) -> None:
    with pytest.raises(BadInput, match=f"^{refusal}"):
        guess(name, "How many leaders?", options, right=right)


@only_with("nbformat")
def test_the_page_asks_without_the_call_and_closes_what_the_answer_opens(replays: dict[str, Any]) -> None:
    cells = [
        ("guess('q1', …, right=1)", guess("q1", "How many?", ["one", "two"], right=1)._repr_mimebundle_(), {}),
        ("print(2)", {"text/plain": "2"}, {"reveal": "q1"}),
        ("run.widget()", {replays["RUN"]: '{"name": "x-1", "meta": {"title": "A run"}}'}, {"reveal": "q1"}),
        ("1 + 1", {"text/plain": "2"}, {}),
    ]
    from nbformat import v4

    made = [
        v4.new_code_cell(source, metadata=metadata, outputs=[v4.new_output("execute_result", data=data)])
        for source, data, metadata in cells
    ]
    page = replays["alive"](v4.new_notebook(cells=made))
    assert [cell.source for cell in page.cells] == [
        '<div class="guess" id="q1"><p>How many?</p><div role="group"><button type=\'button\'>one</button>'
        "<button type='button' data-right>two</button></div></div>",
        '<div class="reveal" data-guess="q1" markdown="1">',
        "print(2)",
        "run.widget()",
        "</div>",
        "1 + 1",
    ]
    assert page.cells[3].outputs[0].data == {
        "text/markdown": '<netsim-replay run="x-1" label="A run"></netsim-replay>\n'
    }


@only_with("nbformat")
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_the_runs_that_it_shows_and_the_guesses_that_open_its_cells(
    path: Path, replays: dict[str, Any]
) -> None:
    import nbformat

    cells = nbformat.read(path, as_version=4).cells
    shown = sum(cell.source.count(".widget(") for cell in cells if cell.cell_type == "code")
    kept = [json.loads(run) for run in outputs(path, replays["RUN"])]
    assert [run["name"] for run in kept] == [f"{path.stem}-{number}" for number in range(1, shown + 1)]
    assert kept
    for run in kept:
        assert sum(run["meta"]["counts"].values()) == run["columns"]["columns"][0]["length"]
    asked = [each["name"] for each in outputs(path, replays["GUESS"])]
    assert {cell.metadata["reveal"] for cell in cells if "reveal" in cell.metadata} == set(asked)


# --- scripts ----------------------------------------------------------------------------------------------------------


@only_with("nbformat")
def test_the_page_of_a_run_and_the_run_are_put_together_as_they_are_in_one_file(replays: dict[str, Any]) -> None:
    pieces = json.loads(replays["page_script"]().removeprefix("netsimReplays.page = ").rstrip(";\n"))
    run: dict[str, Any] = {"meta": {"title": "Replay", "agents": ["</script>"]}, "packed": {"data": "H4s="}}
    assert sorted(pieces[1::2]) == ["meta", "packed"]
    whole = "".join(as_json(run[piece]) if number % 2 else piece for number, piece in enumerate(pieces))
    assert whole == page_of(run["meta"], run["packed"])


@pytest.mark.slow
def test_the_tutorials_examples_make_the_run_that_the_first_page_shows(replays: dict[str, Any]) -> None:
    runs = replays["runs_of_page"](TUTORIAL.read_text(), {"news"})
    assert runs["news"]["meta"]["title"] == "News for thirty agents"
    assert runs["news"]["meta"]["counts"]["lost"] == 53
    assert runs["news"]["meta"]["framed"] is True
    assert '<netsim-replay run="news" play ' in (ROOT / "docs" / "index.md").read_text()
    script = replays["run_script"]("news", runs["news"])
    assert re.fullmatch(r'netsimReplays\.add\("news", \{"meta":\{.*\}\);\n', script)


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, without the reference and with only two of the lessons."""
    pytest.importorskip("material", reason="needs mkdocs: pip install -e '.[docs]'")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    with mock.patch.object(sys, "path", [str(ROOT / "docs"), *sys.path]):
        config = load_config(str(ROOT / "mkdocs.yml"))
    hook = config.hooks["docs/_site.py"]
    folder = tmp_path_factory.mktemp("site")
    config.site_dir = str(folder)
    del config.plugins["mkdocstrings"]
    with (
        mock.patch.object(hook, "modules", return_value=()),
        mock.patch.object(hook, "lessons", return_value=[LESSONS[0], LESSONS[16]]),
        mock.patch.object(hook, "examples", return_value=[]),
    ):
        build(config)
    return folder


@pytest.fixture(params=["disk", "server"])
def place(site: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the site's base address: of its folder, or of a server."""
    if request.param == "disk":
        yield site.as_uri()
        return
    with serving(site) as address:
        yield address
        if "browser" in request.fixturenames:
            # A page that is still open when its server ends would report an error, possibly while the next page is
            # open.
            request.getfixturevalue("browser").open("about:blank", ready="1")


def asked_nobody(browser: Page, place: str) -> bool:
    """Check that the page requested nothing from other places and reported no errors."""
    others = [url for url in browser.requested if not url.startswith((place, "about:", "data:", "blob:"))]
    assert not others
    assert not browser.output
    return True


SHOWN = (
    "new Promise(done => { const look = () => { const found = %s; found ? done(found) : setTimeout(look, 50) };"
    " look() })"
)


@pytest.fixture
def listening(browser: Page) -> Iterator[Page]:
    """Let pages of the browser record the messages that their replays send them."""
    heard = "window.heard = []; addEventListener('message', event => heard.push(event.data));"
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=heard)["identifier"]
    yield browser
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)


@pytest.mark.slow
def test_the_first_pages_run_plays(listening: Page, place: str) -> None:
    listening.open(f"{place}/index.html", ready="1")
    listening.run("document.querySelector('netsim-replay').scrollIntoView()")
    plays = "heard.find(each => each.replay === 'state' && each.state.time > 0)"
    assert listening.run(SHOWN % plays)["replay"] == "state"
    assert asked_nobody(listening, place)


@pytest.mark.slow
def test_todays_page_can_show_the_runs_of_all_lessons(listening: Page, site: Path, replays: dict[str, Any]) -> None:
    names = [json.loads(run)["name"] for path in LESSONS for run in outputs(path, replays["RUN"])]
    elements = "".join(f'<netsim-replay run="{name}"></netsim-replay>' for name in names)
    page = site / "all.html"
    page.write_text(f'<meta charset="utf-8"><body>{elements}<script src="theme/replay.js"></script>')
    listening.open(page, ready="document.querySelectorAll('netsim-replay').forEach(each => each.show())")
    # A page that cannot show its run displays an error, and never reports "ready".
    shown = f"heard.filter(each => each.replay === 'ready').length === {len(names)}"
    assert listening.run(SHOWN % shown)
    assert not listening.output


@pytest.mark.slow
def test_a_guess_opens_the_run_and_is_remembered(browser: Page, place: str) -> None:
    hidden = "[...document.querySelectorAll('.reveal > :not(.veil)')].every(each => each.offsetParent === null)"
    page = f"{place}/lessons/{LESSONS[16].stem}.html"
    browser.open(page, ready="sessionStorage.clear()")
    browser.open(f"{page}?", ready="1")
    assert browser.run(hidden)
    browser.run("document.querySelector('.guess button').click()")
    assert not browser.run(hidden)
    assert browser.run("document.querySelector('.guess output').textContent") == "No, it is: two."
    browser.run("document.querySelector('netsim-replay').scrollIntoView()")
    assert browser.run(SHOWN % "document.querySelector('netsim-replay iframe') !== null")
    browser.open(f"{page}??", ready="1")
    assert not browser.run(hidden)
    assert asked_nobody(browser, place)


@pytest.mark.slow
def test_the_answers_open_at_once_by_their_address(browser: Page, place: str) -> None:
    browser.open(f"{place}/lessons/{LESSONS[0].stem}.html#answers", ready="1")
    assert browser.run("document.querySelector('.guess output').textContent") == "It is: 111."
    assert browser.run("document.querySelector('[data-closed]') === null")


SOUGHT = {
    "crash a node": "faults",
    "set loss": "links",
    "compare two runs": "replay",
    # Short words such as "a" find nothing by themselves.
    "write a lesson": "lessons/index",
    "packet loss": "loss",
}


@pytest.mark.slow
def test_who_searches_finds_the_right_page_first(browser: Page, place: str) -> None:
    browser.open(f"{place}/index.html", ready="1")
    browser.run(
        "document.querySelector('#__search').click(); window.field = document.querySelector('.md-search__input')"
    )
    for words, page in SOUGHT.items():
        browser.run(
            f"field.focus(); field.value = {json.dumps(words)};"
            "field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}))"
        )
        # The address of a search result contains the query.
        query = words.replace(" a ", " ").replace(" ", "+")
        found = f"[document.querySelector('.md-search-result__item a')?.href].find(each => each?.includes('h={query}'))"
        assert browser.run(SHOWN % found).partition("?")[0] == f"{place}/{page}.html"
    assert asked_nobody(browser, place)


@pytest.mark.slow
@pytest.mark.skipif(not AXE, reason="NETSIM_AXE is not set: the path of axe-core's axe.min.js")
@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_all_who_read_can_use_the_pages(browser: Page, site: Path, width: int, scheme: str) -> None:
    browser.look(width, 850, scheme)
    for page in ("index", "tutorials/first", f"lessons/{LESSONS[16].stem}"):
        browser.open(site / f"{page}.html", ready="localStorage.clear()")
        browser.open(f"{site.as_uri()}/{page}.html?again", ready="1")
        assert browser.run("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
        assert wrong(browser) == []
