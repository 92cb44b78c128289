"""A replay in a notebook (docs/replay.md): its state in Python, and traits synchronized with a real browser."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from netsim import BadInput, Link, Network, Run, topology
from tests import chromium
from tests.parts import only_with
from tests.recorded import Average

pytestmark = only_with("anywidget")

# A minimal notebook for one widget: its model has only get, set, save_changes, on and off.
HARNESS = """<!doctype html><meta charset="utf-8"><div id="cell" tabindex="0"></div><script type="module">
const values = STATE, heard = {}, keys = [];
window.saved = [];
const model = window.model = {
  get: (name) => values[name],
  set: (name, value) => {
    if (values[name] === value) return;
    values[name] = value;
    (heard[`change:${name}`] || []).forEach((act) => act());
  },
  save_changes: () => window.saved.push({ ...values, page: "" }),
  on: (event, act) => (heard[event] ||= []).push(act),
  heard,
  off: (event, act) => (heard[event] = heard[event].filter((each) => each !== act)),
};
window.values = values, window.keys = keys;
document.addEventListener("keydown", (event) => keys.push(event.key));
const esm = await import(URL.createObjectURL(new Blob([SOURCE], { type: "text/javascript" })));
window.clean = esm.default.render({ model, el: document.getElementById("cell") });
window.there = true;
</script>"""


@pytest.fixture(scope="module")
def run() -> Run:
    graph = topology.random_geometric(8, radius=0.7, seed=3)
    network = Network(graph, Link(latency=0.03, loss=0.1), round_period=0.1, seed=7)
    return network.run({node: Average(20) for node in graph}, trace=True)


def test_its_state_is_that_of_a_page_at_its_beginning(run: Run) -> None:
    from traitlets import TraitError

    widget = run.widget(height=500, title="a <b>")
    state = widget.get_state()
    assert {name: state[name] for name in ("time", "playing", "speed", "agent", "height")} == {
        "time": 0.0, "playing": False, "speed": None, "agent": None, "height": 500,
    }  # fmt: skip
    assert "default-src 'none'; " in state["page"]
    assert "connect-src" not in state["page"]
    assert "<title>a &lt;b></title>" in state["page"]
    widget.time = 1.5
    with pytest.raises(TraitError):
        widget.time = -1
    widget.close()


@pytest.mark.parametrize("settings", [{"height": 10}, {"height": 3.5}, {"most": 0}])
def test_arguments_that_cannot_be_used_are_refused(settings: dict[str, Any], run: Run) -> None:
    [name] = settings
    with pytest.raises(BadInput, match=f"^{name} = "):
        run.widget(**settings)


def test_without_a_trace_or_anywidget_one_line_reports_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = topology.random_geometric(3, radius=1.0, seed=3)
    with pytest.raises(BadInput, match="trace = False"):
        Network(graph).run({node: Average(2) for node in graph}).widget()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"^widget: .*in netsim's clone, pip install '\.\[notebook\]'$"):
        run.widget()


def until(page: chromium.Page, what: str) -> None:
    """Wait until a JavaScript expression is true in the page."""
    page.run(f"new Promise((done) => {{ const look = () => ({what}) ? done() : setTimeout(look, 20); look(); }})")


def test_traits_go_both_ways_and_nothing_else(run: Run, browser: chromium.Page, tmp_path: Path) -> None:
    widget = run.widget(height=600)
    widget.agent = 3
    state = {name: value for name, value in widget.get_state().items() if not name.startswith("_")}
    state = {name: state[name] for name in ("page", "height", "time", "playing", "speed", "agent")}
    texts = [json.dumps(each).replace("<", "\\u003c") for each in (state, widget._esm)]
    path = tmp_path / "notebook.html"
    path.write_text(HARNESS.replace("STATE", texts[0]).replace("SOURCE", texts[1]), encoding="utf-8")
    browser.open(path, ready="true")
    # The page reports the speed that it chose; values that Python set earlier are kept.
    until(browser, "window.there && values.speed > 0")
    assert browser.run("values.agent") == 3
    frame = "document.querySelector('iframe')"
    assert browser.run(f"{frame}.getAttribute('sandbox')") == "allow-scripts"
    assert browser.run(f"{frame}.clientHeight") == 600
    # Values set in the model reach the page; impossible ones are corrected and sent back.
    browser.run("model.set('time', 1.25); model.set('speed', 0.5)")
    browser.run("model.set('time', 99)")
    until(browser, "values.time < 99")
    assert browser.run("values.time") == pytest.approx(run.ended_at)
    assert browser.run("values.speed") == 0.5
    browser.run("model.set('height', 300)")
    assert browser.run(f"{frame}.clientHeight") == 300
    # While playing, the page reports its time less often than it draws.
    browser.run("saved.length = 0; model.set('speed', 16); model.set('time', 0); model.set('playing', true)")
    until(browser, "values.time > 0.3")
    assert browser.run("saved.length") < 12
    browser.run("model.set('playing', false)")
    # Keys pressed inside the frame reach the replay, not the notebook.
    browser.run(f"{frame}.focus()")
    browser.press("End")
    until(browser, f"Math.abs(values.time - {run.ended_at}) < 1e-9")
    assert browser.run("keys") == []
    browser.run("clean(); model.set('time', 0.5)")
    assert [url for url in browser.requested if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert browser.output == []
    widget.close()
