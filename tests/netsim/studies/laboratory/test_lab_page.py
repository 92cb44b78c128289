"""The lab in a real browser: a click starts a branch, and its command reproduces the branch exactly."""

import json
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import BadInput, Link, Network, topology
from netsim.studies.laboratory.notebook import LabSession
from netsim.studies.laboratory.server import LabServer
from tests import chromium
from tests.command import call
from tests.netsim.replay.test_replay_widget import HARNESS, until
from tests.netsim.studies.laboratory.test_server import MAKE
from tests.parts import only_with
from tests.recorded import Average


@pytest.fixture(scope="module")
def election() -> Iterator[LabServer]:
    with LabServer("election", {}, browser=False, report=lambda line: None) as server:
        yield server


def at(place: str) -> str:
    """Return a script for the window position of an agent or of a link's middle, for `Lab.openMenu`."""
    box = "document.querySelector('[data-part=map]').getBoundingClientRect()"
    return f"(() => {{ const box = {box}, places = {place}; return [box.left + places[0], box.top + places[1]]; }})()"


def click(page: chromium.Page, place: str) -> None:
    x, y = page.run(at(place))
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def shown(page: chromium.Page, number: int) -> None:
    """Wait until the page shows the branch."""
    is_done = f"lab.branch && lab.branch.number === {number} && lab.branch.state === 'done'"
    until(page, f"{is_done} && lab.loaded.startsWith('{number} ')")


@pytest.mark.slow
def test_crash_the_leader_to_be_run_on_save_and_repeat(  # noqa: PLR0915  one visit: to start a browser takes long
    election: LabServer, browser: chromium.Page, tmp_path: Path
) -> None:
    browser.look(1400, 850)
    browser.open(election.address)
    shown(browser, 0)
    assert "role leader: 1" in browser.run("document.querySelector('.lab-card').textContent")
    # The buttons show one panel at a time. The legend lists "leader" as a role and as a number.
    for name, other in (("curves", "counts"), ("counts", "curves")):
        pressed = f"document.querySelector('header [data-panel={name}]')"
        assert browser.run(f"{pressed}.checkVisibility() && ({pressed}.click(), {pressed}.ariaPressed)") == "true"
        panels = [browser.run(f"document.querySelector('.panel.{each}').checkVisibility()") for each in (name, other)]
        assert panels == [True, False]
    browser.run("lab.panel('counts', false)")
    legend = "[...document.querySelectorAll('.lab-legend .words li')].map((each) => each.textContent)"
    assert browser.run(legend).count("leader") == 2
    # Agent 1 will become the leader.
    browser.run("replay.seek(0.05)")
    click(browser, "replay.place(1)")
    assert "Agent 1 " in browser.run("document.querySelector('.lab-menu').textContent")
    browser.press("c", "c")
    shown(browser, 1)
    # The parent is shown beside its branch, with the same clock, until the button is pressed again.
    branches = "[...document.querySelectorAll('.branch')].map((each) => each.textContent)"
    until(browser, f"{branches}.length === 2")
    assert browser.run(branches)[1] == "B · main run"
    assert "of 12 differ" in browser.run("document.querySelector('[data-part=clock]').textContent")
    browser.run("document.querySelector('.lab-beside').click()")
    until(browser, f"{branches}.length === 0")
    browser.run("document.querySelector('.lab-beside').click()")
    until(browser, f"{branches}.length === 2")
    # The branch continues from the fault; until then it equals its parent.
    until(browser, "replay.state().time > 0.055")
    assert browser.run("lab.branch.at").endswith(" crash 1")
    # The branch starts after the last event that was visible, and before the next one.
    assert 0.05 <= float(browser.run("lab.branch.at").split()[0]) < 0.053
    # The download button saves the script.
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    buttons = "[...document.querySelectorAll('.lab-right button')]"
    browser.run(f"{buttons}.find((each) => each.textContent === 'Save as script').click()")
    deadline = time.monotonic() + 60
    while not (saved := list(tmp_path.glob("election_crash_1*.py"))):
        assert time.monotonic() < deadline, list(tmp_path.iterdir())
        time.sleep(0.05)
    exec(compile(saved[0].read_text(), "saved", "exec"), {})
    # A key with a branch's number selects the branch; the number is on its card.
    numbers = "[...document.querySelectorAll('.lab-card kbd')].map((each) => each.textContent)"
    assert browser.run(numbers) == ["0", "1"]
    browser.press("0", "0")
    shown(browser, 0)
    browser.press("1", "1")
    shown(browser, 1)
    # The parent lacks the fault, so another fault at the same instant starts a sibling branch.
    browser.press("0", "0")
    shown(browser, 0)
    browser.run("replay.pause(); replay.seek(0.02); lab.openMenu({link: [3, 4]}, 400, 300)")
    browser.press("x", "x")
    shown(browser, 2)
    assert browser.run("lab.branch.parent") == 0
    # The printed command must reproduce the branch.
    for number in (1, 2):
        browser.run(f"lab.choose({number})")
        command, trace_hash = browser.run("[lab.branch.command, lab.branch.hash]")
        out = tmp_path / str(number)
        done = call(*shlex.split(command)[1:], "--out", str(out), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads((out / "summary.json").read_text())["trace_hash"] == trace_hash
        assert trace_hash in browser.run("document.querySelector('.lab-hash').textContent")
        exec(compile(browser.run("lab.branch.script"), "script", "exec"), {})
    # The cross on a card deletes its branch; the other branch keeps its number.
    browser.run("document.querySelector('[data-branch=\"1\"]').nextSibling.click()")
    until(browser, "lab.state.branches.length === 2")
    assert browser.run(numbers) == ["0", "2"]
    browser.press("2", "2")
    shown(browser, 2)
    # Choosing another order of events within instants starts a child branch.
    browser.run(f"{buttons}.find((each) => each.textContent === 'Another order').click()")
    shown(browser, 3)
    assert browser.run("[lab.branch.name, lab.branch.order, lab.branch.parent]") == ["order 1", "1", 2]
    assert browser.run("lab.branch.command").endswith(" --order 1")
    assert browser.run("lab.words.childElementCount") == browser.run("lab.branch.words.length")
    assert browser.output == []


@pytest.mark.slow
def test_typed_and_emptied_fields_run_what_the_command_runs(browser: chromium.Page, tmp_path: Path) -> None:
    file = tmp_path / "adder.py"
    file.write_text(MAKE)
    with LabServer(str(file), {"seed": 3}, browser=False, report=lambda line: None) as server:
        browser.look(1400, 850)
        browser.open(server.address)
        shown(browser, 0)
        for typed, seed in (("9007199254740993", "9007199254740993"), ("", 1)):
            browser.run("(field => { field.focus(); field.select(); })(document.querySelector('[name=seed]'))")
            browser.run("document.execCommand('delete')")
            if typed:
                browser.call("Input.insertText", text=typed)
            browser.press("Enter", "\r")
            until(browser, f"lab.state.settings.seed === {json.dumps(seed)}")
            until(browser, "lab.state.branches[0].state === 'done'")
            command, trace_hash = browser.run("[lab.state.branches[0].command, lab.state.branches[0].hash]")
            assert ("--seed" in command) == bool(typed)
            out = tmp_path / f"run{seed}"
            done = call(*shlex.split(command)[1:], "--out", str(out), cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            assert json.loads((out / "summary.json").read_text())["trace_hash"] == trace_hash
        # As a name of a node, each of these texts would be ambiguous in the text of a fault.
        for name in ("x until 3", "", "0-", "x keeping state"):
            browser.run(f"lab.fault('crash', {json.dumps(name)})")
            assert "cannot have that name" in browser.run("lab.said.textContent")
        assert browser.run("lab.state.branches.length") == 1
        # The field shows the current value as a placeholder, and as its value again once it is left empty.
        assert browser.run("document.querySelector('[name=seed]').placeholder") == "1"
        browser.run("document.activeElement.blur()")
        assert browser.run("document.querySelector('[name=seed]').value") == "1"
        assert browser.output == []


@pytest.mark.slow
def test_settings_run_all_branches_again(browser: chromium.Page, tmp_path: Path) -> None:
    file = tmp_path / "adder.py"
    file.write_text(MAKE)
    with LabServer(str(file), {}, at="2.5 crash 1", browser=False, report=lambda line: None) as server:
        browser.look(1400, 850)
        browser.open(server.address)
        until(browser, "lab.state.branches.every(({state}) => state === 'done')")
        before = browser.run("lab.state.branches.map(({hash}) => hash)")
        change = "const field = document.querySelector('[name=agents][type=range]'); field.value = 6;"
        browser.run(f"(() => {{ {change} field.dispatchEvent(new Event('change')); }})()")
        until(browser, "lab.page.meta.agents.length === 6")
        until(browser, "lab.state.branches.every(({state}) => state === 'done')")
        assert browser.run("lab.state.branches[1].command").endswith("--agents 6 --at '2.5 crash 1'")
        assert not set(before) & set(browser.run("lab.state.branches.map(({hash}) => hash)"))
        # An agent's error is shown with its line number.
        file.write_text(MAKE.replace("frame.payload / 4", "frame.paylod / 4"))
        until(browser, "document.querySelector('.lab-trouble.wrong')")
        assert "adder.py, line 13" in browser.run("document.querySelector('.lab-trouble').textContent")
        assert browser.output == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_cut_on_any_width(width: int, election: LabServer, browser: chromium.Page) -> None:
    browser.look(width, 844)
    browser.open(election.address)
    shown(browser, 0)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("lab.openMenu({agent: 5}, 200, 300)")
    box = browser.run("(({left, right, bottom}) => [left, right, bottom])(lab.menu.getBoundingClientRect())")
    assert box[0] >= 0
    assert box[1] <= width
    assert box[2] <= 844
    browser.press("Escape")
    assert browser.run("document.querySelector('.lab-menu')") is None
    # The menu of an agent can be opened by the keyboard alone.
    browser.run("document.querySelector('.lab-reach button').focus()")
    assert browser.run("replay.state().chosen") == {"agent": 0}
    browser.press("Enter", "\r")
    assert browser.run("document.querySelector('.lab-menu h2').textContent").startswith("Agent 0")
    browser.press("Escape")


# --- in a notebook ----------------------------------------------------------------------------------------------------


def network(**more: Any) -> Network:
    return Network(topology.ring(5), Link(latency=0.03, loss=0.1), round_period=0.1, seed=7, **more)


def agents() -> dict[Any, Average]:
    return {node: Average(10) for node in range(5)}


@only_with("anywidget")
@pytest.mark.parametrize("given", [agents, agents()], ids=["made", "copied"])
def test_a_notebooks_branches_are_runs_with_the_faults(
    given: dict[Any, Average] | Callable[[], dict[Any, Average]],
) -> None:
    widget = netsim.lab(network(), given)
    widget._receive(widget, {"number": 1, "what": "fault", "asked": {"branch": 0, "text": "0.35 crash 2"}}, [])
    assert widget.run(0).trace_hash == network().run(agents()).trace_hash
    faulty = network(faults=[netsim.faults.Crash(2, 0.35)])
    assert widget.run(1).trace_hash == faulty.run(agents()).trace_hash
    for number in (7, -1, True, [0], "0"):
        with pytest.raises(BadInput, match="branch = "):
            widget.run(number)  # type: ignore[arg-type]
    widget.close()


@only_with("anywidget")
@pytest.mark.parametrize("options", [{"until": np.float64(0.45)}, {"until": 0.75, "sample": 0.25}])
def test_the_script_of_a_notebooks_branch_repeats_it(options: dict[str, float]) -> None:
    widget = netsim.lab(network(), agents, **options)
    widget._receive(widget, {"number": 1, "what": "fault", "asked": {"branch": 0, "text": "0.35 crash 2"}}, [])
    for branch in widget._session.answer("state", {})["branches"]:
        exec(branch["script"], {"netsim": netsim, "network": network(), "agents": agents()})
    widget.close()


@only_with("anywidget")
def test_a_widget_answers_whatever_it_is_asked() -> None:
    widget = netsim.lab(network(), agents)
    sent: list[dict[str, Any]] = []
    widget.send = lambda content, buffers=None: sent.append(content)  # type: ignore[method-assign]
    asked: list[Any] = [None, 1, "x", [], {}, {"branch": True, "text": ""}, {"branch": [0], "text": "1 crash 2"}]
    asked += [{"branch": 0, "text": each} for each in (None, 7, "x" * 200_001, "\ud800", "nan crash 2", "1 crash 2\0")]
    for what in ("run", "fault", "delete", "quit", None, 3):
        for each in asked:
            widget._receive(widget, {"number": 5, "what": what, "asked": each}, [])
            (answer,) = sent
            assert answer["number"] == 5
            found = json.loads(answer["answer"])
            if what == "run" and isinstance(each, dict) and each.get("branch") == 0:
                assert "meta" in json.loads(found["data"])
            else:
                assert 0 < len(found["error"]) <= 1100
            sent.clear()
    widget._receive(widget, "no question", [])
    assert list(widget._session.runs) == [0]
    widget.close()


@only_with("anywidget")
def test_what_is_no_network_or_has_run_is_refused() -> None:
    with pytest.raises(BadInput, match="network = "):
        netsim.lab("election", agents())  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="agents = "):
        netsim.lab(network(), 3)  # type: ignore[arg-type]
    session = LabSession(network(), lambda: {}, [], {})
    assert "one for each node" in session.answer("state", {})["branches"][0]["error"]


@only_with("anywidget")
def test_a_widget_asks_python(browser: chromium.Page, tmp_path: Path) -> None:
    widget = netsim.lab(network(), agents)
    sent: list[dict[str, Any]] = []
    widget.send = lambda content, buffers=None: sent.append(content)  # type: ignore[method-assign]
    texts = [json.dumps(each).replace("<", "\\u003c") for each in ({"page": widget.page, "height": 600}, widget._esm)]
    path = tmp_path / "notebook.html"
    path.write_text(HARNESS.replace("STATE", texts[0]).replace("SOURCE", texts[1]), encoding="utf-8")
    browser.look(1400, 850)
    browser.open(path, ready="model.asked = [], model.send = (what) => model.asked.push(what)")

    def serve() -> None:
        for asked in browser.run("model.asked.splice(0)"):
            widget._receive(widget, asked, [])
        for answer in sent:
            browser.run(f"model.heard['msg:custom'].forEach((act) => act({json.dumps(answer)}))")
        sent.clear()

    frame = "document.querySelector('iframe')"
    for _ in range(4):
        until(browser, "model.asked.length > 0")
        serve()
        if widget._waiting:
            break
    # The frame has another origin, so this test cannot read its content, but only take a picture of it.
    assert widget._waiting
    browser.run(f"{frame}.focus()")
    # For the same reason it cannot wait until the frame is drawn, which takes longer on a busy machine.
    deadline = time.monotonic() + 60
    while True:
        browser.screenshot(tmp_path / "widget.png")
        if (tmp_path / "widget.png").stat().st_size > 30_000:
            break
        assert time.monotonic() < deadline
    assert browser.output == []
    widget.close()
