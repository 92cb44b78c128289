"""axe-core finds no serious accessibility problem on the pages; NETSIM_AXE is the path of axe.min.js."""

import json
import os
from pathlib import Path

import pytest

from netsim.replay.html import COLUMNS, html
from netsim.studies import find_study
from netsim.studies.laboratory.server import LabServer
from tests import chromium
from tests.netsim.replay.test_replay_widget import until
from tests.netsim.replay.votes import votes

AXE = os.environ.get("NETSIM_AXE", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AXE, reason="NETSIM_AXE is not set: the path of axe-core's axe.min.js"),
    # Two cases suffice: colours depend only on the scheme, and the layout only on the width.
    pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")]),
]

SOUGHT = """axe.run().then(({violations}) => JSON.stringify(violations
  .filter(({impact}) => ["serious", "critical"].includes(impact))
  .map(({id, nodes}) => [id, nodes.map(({html}) => html.slice(0, 120))])))"""


def wrong(page: chromium.Page) -> list[object]:
    """Return the violations that axe rates as serious or critical."""
    page.run(Path(AXE).read_text(encoding="utf-8") + ";0")
    found: list[object] = json.loads(page.run(SOUGHT))
    return found


def test_a_replay(browser: chromium.Page, tmp_path: Path, width: int, scheme: str) -> None:
    meta, columns = votes()
    path = tmp_path / "votes.html"
    path.write_text(html(meta, {name: column.astype(COLUMNS[name]) for name, column in columns.items()}))
    browser.look(width, 850, scheme)
    browser.open(path)
    browser.run("replay.seek(0.252)")
    assert wrong(browser) == []
    browser.run("replay.show('spacetime'), replay.choose({agent: 1})")
    assert wrong(browser) == []


def test_a_report(browser: chromium.Page, tmp_path: Path, width: int, scheme: str) -> None:
    find_study("election").execute(agents=5).save(tmp_path / "run")
    browser.look(width, 850, scheme)
    browser.open(tmp_path / "run" / "report.html", "true")
    assert wrong(browser) == []
    browser.run("document.querySelectorAll('details').forEach((each) => each.open = true)")
    assert wrong(browser) == []


def test_a_lab(browser: chromium.Page, width: int, scheme: str) -> None:
    with LabServer("election", {"agents": 5}, at="0.01 crash 4", browser=False, report=lambda line: None) as server:
        browser.look(width, 850, scheme)
        browser.open(server.address)
        until(browser, "lab.loaded && lab.state.branches.every(({state}) => state === 'done')")
        assert wrong(browser) == []
        browser.run("lab.openMenu({agent: 1}, 200, 300)")
        assert wrong(browser) == []
        browser.run("lab.tab('settings')")
        assert wrong(browser) == []
