"""Other features of the replay page: captions, notes and faults; its address, text size and keys."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from netsim.replay import render
from netsim.replay.html import COLUMNS, html
from tests import chromium
from tests.netsim.replay.test_replay_widget import until
from tests.netsim.replay.votes import votes


@pytest.fixture(scope="module")
def page(browser: chromium.Page, tmp_path_factory: pytest.TempPathFactory) -> chromium.Page:
    """Open the page of an election under a partition."""
    meta, columns = votes()
    meta["counts"] = {"delivered": len(columns["start"])}
    path = tmp_path_factory.mktemp("story") / "votes.html"
    path.write_text(html(meta, {name: column.astype(COLUMNS[name]) for name, column in columns.items()}))
    browser.look(1400, 850)
    browser.open(path)
    return browser


def pixel(page: chromium.Page, agent: int, dx: float = 0, dy: float = 0) -> list[int]:
    """Return the map's colour at an offset from an agent's centre, in units of the agent's radius."""
    script = f"""(() => {{
      const canvas = document.querySelector("[data-part=map]"), [x, y] = replay.place({agent});
      const radius = replay.radius();
      const place = [x + {dx} * radius, y + {dy} * radius].map((each) => Math.round(each * devicePixelRatio));
      return Array.from(canvas.getContext("2d").getImageData(...place, 1, 1).data);
    }})()"""
    found: list[int] = page.run(script)
    return found


def rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)] + [255]


def test_agents_have_the_colours_of_their_words_and_those_that_are_down_have_none(page: chromium.Page) -> None:
    page.run("replay.theme('light'), replay.seek(0.252)")
    roles = page.run("replay.looks()")
    assert [roles[agent]["words"] for agent in range(5)] == [
        "follower · term 1",
        "leader · term 1",
        "follower · term 2",
        "leader · term 2",
        "down",
    ]
    for agent, colour in enumerate(["#c5cdd6", "#0a5fb4", "#c5cdd6", "#0a5fb4", "#ffffff"]):
        assert pixel(page, agent, 0.7) == rgb(colour), agent
    # A leader is drawn as a square, so the corner is filled; for a circle it would not be.
    assert pixel(page, 1, 0.8, 0.8) == rgb("#0a5fb4")
    assert pixel(page, 2, 0.85, 0.85) != rgb("#c5cdd6")
    legend = "[...document.querySelectorAll('[data-part=words] li')].map((item) => item.textContent)"
    # The diagram abbreviates a term of 2 as t2, so it needs an entry in the legend.
    assert page.run(legend) == ["follower", "candidate", "leader", "down", "term"]
    assert page.run("document.querySelector('[data-part=bar]').hidden")


def test_a_cut_link_is_dashed_also_at_the_agent_that_is_chosen(page: chromium.Page) -> None:
    page.run("replay.theme('light'), replay.show('map'), replay.seek(0.252)")
    # The script returns the drawn share of the line from agent 0 to another agent, without the mark in its middle.
    script = """(other) => {
      const context = document.querySelector("[data-part=links]").getContext("2d"), [x, y] = replay.place(0);
      const [to, down] = replay.place(other), seen = [];
      for (let share = 0.15; share < 0.4; share += 0.002) {
        const place = [x + share * (to - x), y + share * (down - y)].map((each) => Math.round(each * devicePixelRatio));
        seen.push(context.getImageData(...place, 1, 1).data[3] > 100);
      }
      return seen.filter(Boolean).length / seen.length;
    }"""
    for chosen in ("null", "{agent: 0}"):
        page.run(f"replay.choose({chosen}), replay.seek(0.251), replay.seek(0.252)")
        assert page.run(f"({script})(2)") < 0.8, chosen
        assert page.run(f"({script})(1)") > 0.95, chosen
    page.run("replay.choose(null)")


def test_faults_are_told_on_the_map_and_what_happens_is_listed(page: chromium.Page) -> None:
    going = "document.querySelector('[data-part=going]').textContent.split('\\n')"
    page.run("replay.seek(0.252)")
    assert page.run(going) == ["partition: 0 1 | 2 3 4, 0.084 to 0.264 s", "agent 4 is down"]
    page.run("replay.seek(0.3)")
    assert page.run(going) == [""]
    items = "[...document.querySelectorAll('.story li')].map((item) => item.textContent)"
    assert page.run(items)[:3] == ["0.04 s 1 “becomes leader”", "0.084 s cut", "0.164 s 3 “becomes leader”"]
    page.run("document.querySelectorAll('.story button')[2].click()")
    assert page.run("replay.state().time") == 0.164
    assert page.run("document.querySelector('.story [aria-current]').textContent") == "0.164 s 3 “becomes leader”"


def test_an_address_holds_what_is_shown(page: chromium.Page) -> None:
    page.run("location.hash = '#t=0.2&agent=3&view=spacetime&kinds=vote,hb&text=1.5&theme=dark&colour=term'")
    until(page, "replay.state().time === 0.2")
    state = page.run("replay.state()")
    assert (state["view"], state["chosen"]) == ("spacetime", {"agent": 3})
    ticked = "[...document.querySelectorAll('[data-kind] input')].map((box) => box.checked)"
    assert page.run(ticked) == [False, True, True]
    assert page.run("document.querySelector('.replay').dataset.theme") == "dark"
    assert page.run("document.querySelector('[data-part=states] select').selectedOptions[0].textContent") == "term"
    # 1.9 units of 1400 / 96 pixels, times the text size of 1.5.
    assert page.run("getComputedStyle(document.querySelector('.clock')).fontSize") == "41.5625px"
    # The page's address is updated with each choice of the user.
    page.run("replay.seek(0.252), replay.show('map'), replay.choose({link: [0, 1]})")
    until(page, "location.hash.startsWith('#t=0.252')")
    assert page.run("location.hash") == "#t=0.252&link=0,1&kinds=vote,hb&colour=term&text=1.5&theme=dark"
    assert page.run("replay.address()") == page.run("location.hash")
    # Unknown values in the address are ignored.
    page.run("location.hash = '#t=x&agent=nobody&view=none&kinds=&text=99&colour=role&theme=light'")
    until(page, "replay.state().time === 0")
    assert page.run(ticked) == [True, True, True]
    page.run("replay.text(1), replay.choose(null)")


def test_by_the_keyboard_alone(page: chromium.Page) -> None:
    page.run("replay.show('map'), replay.choose(null), document.activeElement.blur()")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert page.run("replay.state().chosen") == {"agent": 1}
    assert page.run("document.querySelector('[data-part=chosen]').textContent") == "Agent 1"
    page.press("ArrowUp")
    page.press("ArrowUp")
    assert page.run("replay.state().chosen") == {"agent": 4}
    assert page.run("document.querySelector('[data-part=pick]').value") == "4"
    for size in (1.25, 1.5, 2, 1):
        page.press("t", "t")
        assert page.run("Number(document.querySelector('.replay').style.getPropertyValue('--k'))") == size
    # Tab reaches the play button sixth, after the two views, the text size, the theme and the help.
    stops = "[...document.querySelectorAll('button, select, input')].filter((each) => each.offsetParent)"
    order = page.run(f"{stops}.map((each) => each.dataset.part)")
    assert order.index("play") == 5


def test_close_agents_stand_apart(browser: chromium.Page, tmp_path: Path) -> None:
    meta, columns = votes()
    meta["positions"] = [[0.0, 0.0], [0.0, 0.0], [0.001, 0.0], [1.0, 0.0], [1.0, 1.0]]
    path = tmp_path / "close.html"
    path.write_text(html(meta, {name: column.astype(COLUMNS[name]) for name, column in columns.items()}))
    browser.open(path)
    places = np.array(browser.run("[0, 1, 2, 3, 4].map((agent) => replay.place(agent))"))
    apart = np.hypot(*(places[:, None] - places[None, :]).transpose(2, 0, 1))[~np.eye(5, dtype=bool)]
    assert apart.min() > 2 * browser.run("replay.radius()")


def test_curves_of_the_study_come_first_and_those_that_stay_zero_are_folded(
    browser: chromium.Page, tmp_path: Path
) -> None:
    rows = pd.DataFrame({"time_s": [1.0, 2.0], "transmissions": [3, 4], "lost": [0, 0], "informed": [1, 2]})
    curves = render.curves_of(rows)
    assert list(curves["columns"]) == ["informed", "transmissions", "lost"]
    meta, columns = votes()
    path = tmp_path / "curves.html"
    path.write_text(
        html({**meta, "curves": curves}, {name: each.astype(COLUMNS[name]) for name, each in columns.items()})
    )
    browser.open(path)
    chips = "[...document.querySelectorAll('[data-part={}] button')].map((chip) => chip.textContent)"
    assert browser.run(chips.format("chips")) == ["informed", "transmissions"]
    assert browser.run(chips.format("zeros")) == ["lost"]
    assert browser.run("document.querySelector('[data-part=zeros] summary').textContent") == "1 that stays 0"


@pytest.mark.slow
@pytest.mark.parametrize("view", ["map", "spacetime"])
def test_on_a_phone_nothing_is_cut(view: str, page: chromium.Page) -> None:
    page.look(390, 844)
    page.run(f"replay.text(1), replay.show('{view}'), replay.seek(0.252)")
    assert page.run("document.documentElement.scrollWidth") == 390
    small = """[...document.querySelectorAll("header button, footer button")].filter((each) => each.offsetParent)
      .map((each) => each.getBoundingClientRect()).filter(({width, height}) => Math.min(width, height) < 44).length"""
    assert page.run(small) == 0
    page.look(1400, 850)
