"""The stage (docs/replay_page.md): pictures at fixed film times, keys for presenters, following of labels and kinds."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import netsim
from netsim import Link, Network, latency, topology
from netsim.agents.classics import Raft
from netsim.draw import Role
from netsim.faults import Partition
from netsim.replay.comparison import compare
from netsim.replay.html import COLUMNS, html
from tests import chromium
from tests.netsim.replay.test_replay_widget import until
from tests.netsim.replay.votes import votes

pytestmark = pytest.mark.skipif(chromium.program() is None, reason="there is no chromium")


@pytest.fixture(scope="module")
def page(browser: chromium.Page, tmp_path_factory: pytest.TempPathFactory) -> chromium.Page:
    """Open the page of an election under a partition."""
    meta, columns = votes()
    path = tmp_path_factory.mktemp("stage") / "votes.html"
    path.write_text(html(meta, {name: column.astype(COLUMNS[name]) for name, column in columns.items()}))
    browser.look(1400, 850)
    browser.open(path)
    return browser


PICTURE = (
    "document.querySelector('[data-part=map]').toDataURL() + document.querySelector('[data-part=links]').toDataURL()"
)
CAPTION = "document.querySelector('[data-part=caption]').textContent"
CLOCK = "document.querySelector('[data-part=clock]').textContent"


def moments(page: chromium.Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.run("replay.moments()")
    return found


def test_a_picture_depends_on_the_films_time_alone(page: chromium.Page) -> None:
    """Seeking forwards or backwards gives the same picture, including marks that glow or fade."""
    length = page.run("replay.state().length")
    times = [length * share for share in (0.13, 0.3, 0.31, 0.52, 0.77)]
    on = [page.run(f"replay.film({time}), {PICTURE}") for time in times]
    back = [page.run(f"replay.film({time}), {PICTURE}") for time in reversed(times)]
    assert on == back[::-1]
    assert len(set(on)) == len(times)


def test_the_film_comes_to_a_moment_stands_and_goes_on(page: chromium.Page) -> None:
    cut = next(each for each in moments(page) if each["time"] == 0.084)
    page.run(f"replay.film({cut['film'] + cut['stands'] / 2})")
    assert page.run("replay.state().time") == 0.084
    assert cut["text"] in page.run(CAPTION)
    # A paused film has no speed. Later, a flight of 13 ms takes at least half a second, and counts as slowed.
    assert "slowed" not in page.run(CLOCK)
    page.run("replay.seek(0.02)")
    slowed = page.run(f"Number({CLOCK}.match(/slowed ([0-9]+)×/)[1])")
    assert slowed >= 0.5 / 0.013


@pytest.mark.parametrize("share", [0.35, 0.5, 0.65])
def test_a_frame_is_where_its_time_says(share: float, page: chromium.Page) -> None:
    """A frame from 1 to 2, in flight from 14 to 26 ms, moves from rim to rim, slightly to the right of the line."""
    page.run(f"replay.theme('light'), replay.seek({0.014 + 0.012 * share})")
    found = page.run(f"""(() => {{
      const [[x, y], [toX, toY]] = [replay.place(1), replay.place(2)], radius = replay.radius();
      const dx = toX - x, dy = toY - y, length = Math.hypot(dx, dy);
      const along = (radius + (length - 2 * radius) * {share}) / length;
      const lane = Math.min(0.22 * radius, 0.35 * 1400 / 96) / length;
      const place = [x + dx * along - dy * lane, y + dy * along + dx * lane];
      const context = document.querySelector("[data-part=map]").getContext("2d");
      return Array.from(context.getImageData(...place.map((each) => Math.round(each * devicePixelRatio)), 1, 1).data);
    }})()""")
    # The colour is the blue of the first kind.
    assert found == [0x11, 0x6C, 0xC6, 255]


PRESS = "(key => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})))"


def test_pagedown_plays_to_the_next_moment_and_pageup_goes_back(page: chromium.Page) -> None:
    page.run("replay.pause(), replay.seek(0), document.activeElement.blur()")
    films = [each["film"] for each in moments(page) if each["film"] > 1e-3]
    for key, film in (("PageDown", films[0]), ("n", next(each for each in films if each > films[0] + 1e-3))):
        # A second key press during playback jumps to the end. Both are sent together, because playback may be short.
        one, state = page.run(f"[1, 2].map(() => ({PRESS}({key!r}), replay.state()))")
        assert one["playing"]
        assert not state["playing"]
        assert state["film"] == pytest.approx(film, abs=1e-3)
    page.press("PageUp")
    before = max((each for each in films if each < film - 0.4), default=0)
    assert page.run("replay.state().film") == pytest.approx(before, abs=1e-3)
    # Without a second key press, the film plays to the moment and stops.
    page.run(f"replay.film({film - 0.3})")
    page.press("PageDown")
    until(page, "!replay.state().playing")
    assert page.run("replay.state().film") == pytest.approx(film, abs=1e-3)
    page.press("b")
    assert page.run("replay.state().film") < film


def test_p_presents_and_esc_leaves(page: chromium.Page) -> None:
    gone = """['header', '.curves', '.inspector', '[data-part=counts]', 'footer button']
      .map((each) => document.querySelector(each).checkVisibility({visibilityProperty: true}))"""
    page.run("replay.show('map'), replay.choose(null), document.activeElement.blur()")
    assert page.run(gone) == [True, False, True, True, True]
    page.press("p", "p")
    assert page.run(gone) == [False] * 5
    stage = "document.querySelector('[data-part=stage]').getBoundingClientRect().width"
    until(page, f"{stage} === innerWidth")
    # The first Esc clears the choice, and the second ends the presentation.
    page.press("ArrowDown")
    page.press("Escape")
    assert page.run("[replay.state().chosen, replay.address().includes('present')]") == [None, True]
    page.press("Escape")
    assert page.run(gone) == [True, False, True, True, True]
    page.press("F5")
    assert page.run(gone) == [False] * 5
    page.press("Escape")


def test_a_presented_scale_has_its_states_name(page: chromium.Page) -> None:
    """During a presentation the list that selects the state is hidden, so the scale must name the state."""
    choose = """(name) => {
      const select = document.querySelector('[data-part=states] select');
      select.value = [...select.options].find((each) => each.textContent === name).value;
      select.dispatchEvent(new Event('change'));
    }"""
    page.run(f"({choose})('term')")
    page.run("replay.present(true)")
    assert page.run("getComputedStyle(document.querySelector('.bar'), '::before').content") == '"term"'
    page.run("replay.present(false)")
    page.run(f"({choose})('role')")


@pytest.mark.parametrize("key", ["l", "g", "k", "e", "."])
def test_keys_take_away_and_give_back(key: str, page: chromium.Page) -> None:
    off = {"l": "legend", "g": "logs", "k": "routine", "e": "links", ".": "black"}[key]
    page.run("replay.seek(0.06), document.activeElement.blur()")
    before = page.run(PICTURE)
    page.press(key, key)
    assert page.run("document.querySelector('.replay').dataset.off") == off
    assert (page.run(PICTURE) == before) == (key in "lg.")
    page.press(key, key)
    assert page.run(PICTURE) == before


def test_text_and_nodes_grow_with_the_screen(page: chromium.Page) -> None:
    sizes = []
    for width, height in ((960, 540), (1920, 1080), (1920, 540)):
        page.look(width, height)
        page.run("replay.present(true)")
        style = "getComputedStyle(document.querySelector('{}')).fontSize"
        until(page, "parseFloat(document.querySelector('[data-part=map]').clientWidth) === innerWidth")
        sizes.append([page.run(f"parseFloat({style.format(part)})") for part in (".caption", ".clock")])
        sizes[-1].append(page.run("replay.radius()"))
    assert sizes[1][0] == pytest.approx(1.9 * 20)
    assert sizes[1] == pytest.approx([2 * each / (10.5 / 10) for each in sizes[0]], rel=0.06)
    # Sizes depend on the smaller of width and height.
    assert sizes[2][:2] == sizes[0][:2]
    page.run("replay.present(false)")
    page.look(1400, 850)


# --- one thing is followed --------------------------------------------------------------------------------------------


def click(page: chromium.Page, x: float, y: float) -> None:
    """Click on a point of the map."""
    left, top = page.run(
        "(({left, top}) => [left, top])(document.querySelector('[data-part=map]').getBoundingClientRect())"
    )
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=left + x, y=top + y, button="left", clickCount=1)


def test_a_click_on_a_frame_follows_its_label(page: chromium.Page) -> None:
    page.run("replay.choose(null), replay.seek(0.0205)")
    one, two = page.run("[replay.place(1), replay.place(2)]")
    # The click is on the frame labelled t1, on its way from agent 1 to agent 2.
    row = next(row for row in page.run("replay.state().flying") if page.run(f"replay.row({row}).receiver") == 2)
    share = page.run(f"(({{depart, end}}) => (0.0205 - depart) / (end - depart))(replay.row({row}))")
    click(page, *(a + (b - a) * share for a, b in zip(one, two, strict=True)))
    state = page.run("replay.state()")
    labels = votes()[1]["label"]
    assert sorted(state["followed"]) == np.flatnonzero(labels == 0).tolist()
    assert state["chosen"] is None
    assert "following “t1”" in page.run("document.querySelector('[data-part=going]').textContent")
    # Playback stops where the arrow keys stop: at arrivals of followed frames.
    ends = np.unique(votes()[1]["end"][labels == 0])
    page.run("document.activeElement.blur()")
    page.press("PageDown")
    page.press("PageDown")
    assert page.run("replay.state().time") == ends[ends > 0.0205][0]
    assert "follow=t1" in page.run("replay.address()")
    page.press("Escape")
    assert page.run("replay.state().followed") is None


def test_an_address_follows_and_what_no_frame_carries_is_not_followed(page: chromium.Page) -> None:
    page.run("replay.follow('vote')")
    kind = votes()[1]["kind"]
    # No label equals this word, so it selects a kind.
    assert sorted(page.run("replay.state().followed")) == np.flatnonzero(kind == 1).tolist()
    page.run("location.hash = '#t=0.2&follow=t2'")
    until(page, "replay.state().time === 0.2")
    assert sorted(page.run("replay.state().followed")) == np.flatnonzero(votes()[1]["label"] == 1).tolist()
    page.run("replay.follow('nothing')")
    assert page.run("replay.state().followed") is None
    page.run("location.hash = ''")


# --- other runs -----------------------------------------------------------------------------------------------------


def opened(browser: chromium.Page, folder: Path, **more: Any) -> chromium.Page:
    """Open the page of the election with some metadata replaced."""
    meta, columns = votes()
    path = folder / "other.html"
    path.write_text(html({**meta, **more}, {name: column.astype(COLUMNS[name]) for name, column in columns.items()}))
    browser.open(path)
    return browser


def test_a_dotted_rim_is_of_those_without_a_way_to_the_root_and_in_the_legend(
    browser: chromium.Page, tmp_path: Path
) -> None:
    """0 and 2 are children of 1, and 3 has no parent; 4 has no state, so it must not change the others' rims."""
    values = {"parent": {"words": ["1"], "codes": [0, -1, 0, -1]}, "up": [1.0] * 4}
    states = {"times": [0.0] * 4, "agents": [0, 1, 2, 3], "sent": [0] * 4, "values": values}
    draw = {"parent": {"as": "edge", "colour": True}, "up": {"as": "badge"}}
    other = opened(browser, tmp_path, states=states, draw=draw, faults=[])
    looks = other.run("replay.seek(0.1), replay.looks()")
    assert [bool(each.get("dashed")) for each in looks] == [False, False, False, True, False]
    legend = "[...document.querySelectorAll('[data-part=words] li')].map((item) => item.textContent)"
    assert "dotted rim: no way to the root" in other.run(legend)
    # If states have no colours, no rim is dotted, and the legend has no entry for it.
    other.run("location.hash = '#t=0.1&colour=none'")
    until(other, f"!({legend}).includes('dotted rim: no way to the root')")
    assert not any(each.get("dashed") for each in other.run("replay.looks()"))


def test_agents_of_two_storeys_stand_apart_also_where_another_moves(browser: chromium.Page, tmp_path: Path) -> None:
    places = [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.5, 1.0]]
    other = opened(browser, tmp_path, positions=places, paths={"4": [[0.0, 0.5, 1.0], [0.3, 0.5, 0.2]]})
    shown = np.array(other.run("replay.seek(0.1), [0, 1, 2, 3].map((agent) => replay.place(agent))"))
    apart = np.hypot(*(shown[:, None] - shown[None, :]).transpose(2, 0, 1))[~np.eye(4, dtype=bool)]
    assert apart.min() > 2 * other.run("replay.radius()")


# --- runs side by side ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared(browser: chromium.Page, tmp_path_factory: pytest.TempPathFactory) -> chromium.Page:
    """Open a page with two runs of Raft, one of which is partitioned from 1 to 2 s."""
    runs = []
    for faults in ([Partition([0, 1], 1.0, 2.0)], []):
        graph = topology.complete(5)
        network = Network(graph, Link(latency=latency.uniform(0.005, 0.02), loss=0.05), seed=1, faults=faults)
        commands = [(0.5 + 0.25 * number, "abcd"[number]) for number in range(4)]
        runs.append(network.run({i: Raft(commands=commands) for i in graph}, until=2.0, trace=True))
    path = compare(runs, tmp_path_factory.mktemp("stage") / "compare.html", names=["cut", "whole"])
    browser.look(1400, 850)
    browser.open(path)
    return browser


def test_two_runs_stand_side_by_side_on_one_clock(compared: chromium.Page) -> None:
    page = compared
    assert page.run("[...document.querySelectorAll('.branch')].map((each) => each.textContent)") == [
        "A · cut",
        "B · whole",
    ]
    shots = "[...document.querySelectorAll('.over')].map((canvas) => canvas.toDataURL())"
    page.run("replay.seek(0.9)")
    one, other = page.run(shots)
    assert one == other
    assert " 0 of 5 differ" in page.run(CLOCK)
    page.run("replay.seek(1.8)")
    one, other = page.run(shots)
    assert one != other
    assert " 5 of 5 differ" in page.run(CLOCK)
    assert any(each["text"].startswith("agents 0, 1 are cut") and each["in"] == [0] for each in moments(page))
    assert page.output == []
    # The page itself is read from disk, and requests nothing else.
    assert len([url for url in page.requested if url.startswith("file:")]) == 1
    assert not [url for url in page.requested if not url.startswith(("file:", "data:"))]


def test_the_table_has_both_runs_and_their_difference(compared: chromium.Page) -> None:
    rows = "[...document.querySelectorAll('[data-part=difference] tr')]"
    rows += ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    compared.run("replay.seek(1.95)")
    head, *body = compared.run(rows)
    assert head == ["by now", "A", "B", "A − B"]
    found = {what: list(map(int, values)) for what, *values in body}
    ended = compared.run("replay.state().ended")
    assert found["delivered"][0] == ended["delivered"]
    assert found["link down"][0] == ended["link_down"] > 0 == found["link down"][1]
    assert all(one - other == less for one, other, less in found.values())
    # Each side of the partition has a leader.
    assert found["leader"][:2] == [2, 1]


def test_keys_and_following_work_on_both(compared: chromium.Page) -> None:
    compared.run("replay.seek(0.5), document.activeElement.blur()")
    shots = "[...document.querySelectorAll('.over')].map((canvas) => canvas.toDataURL())"
    before = compared.run(f"replay.seek(0.55), {shots}")
    compared.run("replay.follow('a')")
    assert all(one != other for one, other in zip(before, compared.run(shots), strict=True))
    compared.run("replay.follow(null)")
    compared.press("p", "p")
    wide = "[...document.querySelectorAll('.pane')].map((each) => Math.round(each.getBoundingClientRect().width))"
    # Beside the legend, the two maps have equal widths.
    until(compared, f"Math.max(...{wide}) - Math.min(...{wide}) <= 1")
    assert sum(compared.run(wide)) == pytest.approx(1400 - 15 * 1400 / 96, abs=2)
    # The names of the runs must be above the caption, also if the caption has two lines.
    edge = "document.querySelector('{}').getBoundingClientRect().{}"
    compared.run("document.querySelector('.caption').textContent = 'word '.repeat(99), 0")
    assert compared.run(edge.format(".branch", "bottom")) <= compared.run(edge.format(".caption", "top"))
    compared.press("Escape")


STORY = "[...document.querySelectorAll('.story li')].map((each) => each.textContent)"


def test_what_happens_in_either_run_is_told_of_it(compared: chromium.Page) -> None:
    compared.run("replay.seek(1.5)")
    assert compared.run("document.querySelector('[data-part=going]').textContent").startswith("A: partition: 0 1 |")
    story = compared.run(STORY)
    assert any("A: agents 0, 1 are cut off" in each for each in story)
    # Both runs have the same beginning.
    assert story[0].endswith("s 0 “becomes leader”")
    assert not any("B: " in each for each in story)


def test_a_press_chooses_the_run_of_diagram_and_inspector(compared: chromium.Page) -> None:
    page, facts = compared, "document.querySelector('[data-part=inspector]').textContent"
    page.run("replay.seek(1.8), replay.choose({agent: 3})")
    mine = {"A": page.run("replay.state().ended"), "B": None}
    assert "Agent 3 in A" in page.run(facts)
    for key, name in (("2", "B"), ("1", "A"), ("2", "B")):
        page.press(key, key)
        until(page, f"{facts}.includes('Agent 3 in {name}')")
        assert page.run("replay.state().time") == 1.8
        mine[name] = page.run("replay.state().ended")
        labels = "[...document.querySelectorAll('.branch')].map((each) => each.textContent)"
        assert page.run(labels) == ["A · cut", "B · whole"]
        assert page.run("document.querySelector('.branch[aria-current]').textContent[0]") == name
        assert any("A: agents 0, 1 are cut off" in each for each in page.run(STORY))
    assert mine["A"]["link_down"] > 0 == mine["B"]["link_down"]  # type: ignore[index]
    # In run B, agent 0 leads in the first term throughout.
    page.run("replay.show('spacetime'), replay.choose({agent: 0})")
    assert "frames of B in view" in page.run(CLOCK)
    assert page.run(facts).count("leader") == 1
    page.run("replay.show('map')")
    page.run("location.hash = '#t=1.5&run=A'")
    until(page, f"replay.state().time === 1.5 && {CLOCK}.includes('1.5')")
    assert page.run("document.querySelector('.branch[aria-current]').textContent") == "A · cut"
    assert page.output == []


def test_a_word_has_one_colour_in_all_runs(browser: chromium.Page, tmp_path: Path) -> None:
    class Moody(netsim.Agent):
        draw: ClassVar = {"mood": Role(usual="calm")}

        def __init__(self, moods: list[str]) -> None:
            self.mood, self.moods = "calm", moods

        async def run(self) -> None:
            async for k in self.rounds(3):
                self.mood = self.moods[k - 1]
                # The kinds of frames, like the states, first occur in a different order in each run.
                await self.broadcast(self.mood, None)
                await self.collect()

    runs = [
        Network(topology.path(2), Link(latency=0.5)).run({i: Moody(each) for i in range(2)}, trace=True)
        for each in (["angry", "happy", "happy"], ["happy", "angry", "angry"])
    ]
    browser.look(1400, 850)
    browser.open(compare(runs, tmp_path / "moods.html"))
    legend = "[...document.querySelectorAll('[data-part=words] li')].map((each) => each.textContent)"
    assert browser.run(legend) == ["calm", "angry", "happy"]
    colours, frames = {}, {}
    shot = "document.querySelectorAll('.over')[{}].toDataURL()"
    for key in ("1", "2"):
        browser.press(key, key)
        for time in (0.9, 1.9):
            words, fill = browser.run(f"replay.seek({time}), (({{words, fill}}) => [words, fill])(replay.looks()[0])")
            assert colours.setdefault(words, fill) == fill
    assert len(set(colours.values())) == 2
    # Except for the times, the second round of A looks like the first round of B, both agents and frames.
    frames = [browser.run(f"replay.seek({time}), {shot.format(number)}") for time, number in ((1.25, 0), (0.25, 1))]
    assert frames[0] == frames[1]


def test_at_a_moment_the_picture_is_that_of_its_words(browser: chromium.Page, tmp_path: Path) -> None:
    class Sender(netsim.Agent):
        draw: ClassVar = {"mood": Role(usual="calm")}
        mood = "calm"

        async def run(self) -> None:
            async for k in self.rounds(2):
                await self.broadcast("x", None)
                # The state changes at the instant of sending, after the frame.
                self.mood = "calm" if k == 1 else "angry"

    run = Network(topology.path(2), Link(latency=0.5)).run({i: Sender() for i in range(2)}, trace=True)
    browser.look(1400, 850)
    browser.open(run.replay(tmp_path / "moody.html"))
    # At a moment that the caption describes, the picture shows the new state; otherwise it shows the state at sending.
    words = "replay.looks().map((each) => each.words)"
    assert browser.run(f"replay.seek(1), {words}") == ["calm", "calm"]
    browser.run("replay.seek(0.9), replay.moment(), replay.moment()")
    assert "are now angry" in browser.run(CAPTION)
    assert browser.run("replay.state().time") == 1.0
    assert browser.run(words) == ["angry", "angry"]


def test_the_inspector_of_a_page_in_a_frame_is_in_view(browser: chromium.Page, tmp_path: Path) -> None:
    meta, columns = votes()
    meta["framed"] = True
    path = tmp_path / "framed.html"
    path.write_text(html(meta, {name: column.astype(COLUMNS[name]) for name, column in columns.items()}))
    box = "(({left, top, bottom}) => [left, top, bottom])(document.querySelector('.inspector').getBoundingClientRect())"
    bar = "document.querySelector('footer').getBoundingClientRect().top"
    for width, height in ((820, 560), (390, 600)):
        browser.look(width, height)
        browser.open(path)
        assert browser.run(f"{box}[1]") > browser.run(bar) - 20
        browser.run("replay.seek(0.2), replay.choose({agent: 1})")
        until(browser, f"{box}[1] < {bar} - 100")
        # Depending on the window, the map is beside or above the stage.
        stage = browser.run("document.querySelector('.stage').getBoundingClientRect().toJSON()")
        left, top, _ = browser.run(box)
        assert left >= stage["right"] or top >= stage["bottom"]
        x, y = browser.run("replay.place(1)")
        assert 0 < x < stage["width"]
        assert 0 < y < stage["height"]
