"""The space–time diagram in a real browser: drawing, and selection by pointer, keys and address."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim.replay import html as pages
from tests import chromium

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium.program() is None, reason="needs a Chromium"),
]

CAUSES = ["delivered", "lost", "link_down", "receiver_down", "in_flight"]
TYPES = {"start": "f8", "depart": "f8", "end": "f8", "kind": "i2", "cause": "i2", "bits": "i8", "number": "i8"}
TYPES |= {"reply": "u1", "sender": "i4", "receiver": "i4", "round": "i4", "label": "i4"}
SHIFT = 8

Box = tuple[float, float, float, float]


def frame(start: float, end: float, sender: int, receiver: int, **more: Any) -> dict[str, Any]:
    row = {"start": start, "depart": start, "end": end, "sender": sender, "receiver": receiver, "kind": 0, "cause": 0}
    return {**row, "round": 0, "bits": 8, "reply": 0, "number": round(start * 1000), "label": -1, **more}


def page_of(rows: list[dict[str, Any]], agents: int, **more: Any) -> str:
    """Return the page that shows the given frames."""
    rows = sorted(rows, key=lambda row: (row["start"], row["sender"], row["number"], row["receiver"]))
    columns = {name: np.array([row[name] for row in rows], dtype=dtype) for name, dtype in TYPES.items()}
    counts = {cause: int((columns["cause"] == i).sum()) for i, cause in enumerate(CAUSES)}
    meta = {
        **{"title": "A run", "command": "", "versions": {}, "agents": [f"a{i}" for i in range(agents)], "paths": {}},
        **{"positions": [[float(i), float(i % 2)] for i in range(agents)], "has_positions": True, "links": []},
        **{"round_period": 1.0, "rounds": 0, "ended_at": max(row["end"] for row in rows), "kinds": ["ask", "tell"]},
        **{"causes": CAUSES, "counts": counts, "total": len(rows), "shown": len(rows), "omitted": "", "notes": []},
        **{"states": {"times": [], "agents": [], "sent": [], "values": {}}, "curves": {"x": [], "columns": {}}},
        **{"labels": [], "question": "", "faults": [], "marks": {"times": [], "agents": [], "sent": [], "texts": []}},
    }
    return pages.html({**meta, **more}, columns)


# Agent 0 sends requests to 1 and 2, and 1 sends to 0. Agents 3 and 2 communicate separately.
SMALL = [
    frame(0.1, 0.2, 0, 1),
    frame(0.1, 0.3, 0, 2),
    frame(0.2, 0.35, 1, 0, kind=1),
    frame(0.15, 0.25, 3, 2),
    frame(0.4, 0.5, 2, 3, kind=1),
    frame(0.45, 0.45, 0, 3, cause=1),
    frame(0.52, 0.6, 0, 1, label=0),
]
CRASH = {"what": "Crash", "text": "crash", "begin": 0.4, "end": 0.5, "agents": [1], "links": []}
NOTES = {"times": [0.35], "agents": [0], "sent": [1], "texts": ["all told"]}


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Page]:
    with chromium.browser() as found:
        yield found


@pytest.fixture
def small(browser: chromium.Page, tmp_path: Path) -> chromium.Page:
    browser.look(1400, 850)
    path = tmp_path / "small.html"
    path.write_text(page_of(SMALL, 4, labels=["again"], faults=[CRASH], marks=NOTES), encoding="utf-8")
    browser.open(path)
    browser.run("replay.show('spacetime'); replay.seek(1)")
    return browser


def text_of(page: chromium.Page) -> str:
    found: str = page.run("document.querySelector('[data-part=event-text]').innerText")
    return " ".join(found.split())


def event_at(page: chromium.Page, agent: int, time: float) -> dict[str, Any]:
    dots: list[dict[str, Any]] = page.run("replay.seen().dots")
    return next(dot for dot in dots if dot["agent"] == agent and abs(dot["time"] - time) < 1e-9)


def click(page: chromium.Page, place: list[float], modifiers: int = 0) -> None:
    """Click at a position of the diagram's canvas."""
    canvas = "document.querySelector('canvas[data-part=spacetime]')"
    left, top = page.run(f"(box => [box.left, box.top])({canvas}.getBoundingClientRect())")
    mouse = {"x": left + place[0], "y": top + place[1], "button": "left", "clickCount": 1, "modifiers": modifiers}
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, **mouse)


def test_a_click_lights_past_and_future(small: chromium.Page) -> None:
    assert "Click an event" in text_of(small)
    dots = small.run("replay.seen().dots")
    # Agent 0 has events at 0.1, 0.35, 0.45, 0.52; 1 at 0.2, 0.4, 0.5, 0.6; 2 at 0.25, 0.3, 0.4; 3 at 0.15, 0.5.
    assert len(dots) == 13
    heard = event_at(small, 2, 0.3)
    click(small, heard["place"])
    assert small.run("replay.state().chosen") == {"agent": 2, "event": heard["event"]}
    said = text_of(small)
    assert "Agent a2 at 0.3 s: gets ask from a0." in said
    assert "vector clock [1 0 2 1]" in said
    assert "3 events before it" in said
    assert "2 after it, 7 concurrent" in said
    marks = small.run("replay.seen().marks")
    lit = {(dot["agent"], dot["time"]): marks[dot["event"]] for dot in dots if marks[dot["event"]]}
    assert lit == {(0, 0.1): 1, (3, 0.15): 1, (2, 0.25): 1, (2, 0.4): 2, (3, 0.5): 2}
    small.press("Escape")
    assert small.run("replay.state().chosen") is None
    assert not small.output


def test_two_events_are_ordered_or_concurrent(small: chromium.Page) -> None:
    one, other, apart = event_at(small, 0, 0.1), event_at(small, 3, 0.5), event_at(small, 1, 0.6)
    click(small, one["place"])
    click(small, other["place"], SHIFT)
    assert small.run("replay.state().chosen") == {"agent": 0, "event": one["event"], "with": other["event"]}
    assert "A happened before B, by a chain of 2 frames: a0 → a2, a2 → a3." in text_of(small)
    click(small, apart["place"])
    click(small, other["place"], SHIFT)
    assert "A and B are concurrent" in text_of(small)
    # The first Esc deselects only the second event.
    small.press("Escape")
    assert small.run("replay.state().chosen") == {"agent": 1, "event": apart["event"]}


def test_all_by_keys(small: chromium.Page) -> None:
    small.run("replay.seek(0.36)")
    small.press("Enter")
    assert "Agent a0 at 0.35 s: gets tell from a1, notes “all told”." in text_of(small)
    small.press("ArrowRight")
    assert "Agent a0 at 0.45 s: sends ask to a3 (lost on the way)." in text_of(small)
    small.press("ArrowLeft")
    small.press("ArrowDown")
    assert "Agent a1 at 0.4 s: crash." in text_of(small)
    small.press("ArrowRight")
    assert "Agent a1 at 0.5 s: restart." in text_of(small)
    small.press("c")
    assert "choose the second event" in text_of(small)
    small.press("ArrowUp")
    # Arrow up selects the nearest event of the agent above, here at 0.52 s.
    assert "A and B are concurrent" in text_of(small)
    small.press("Escape")
    small.press("v")
    assert any(word["text"] == "[1 1 0 0]" for word in small.run("replay.seen().words"))
    small.press("v")
    assert not any(word["text"].startswith("[") for word in small.run("replay.seen().words"))
    assert not small.output


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and one[2] > other[0] and one[1] < other[3] and one[3] > other[1]


def busy(seed: int) -> str:
    """Return a page with many frames, a partition, roles, notes and a crash."""
    draw, rows = np.random.default_rng(seed), []
    for number in range(25):
        sender, start = int(draw.integers(6)), float(draw.uniform(0, 4))
        for receiver in range(6):
            if receiver == sender or draw.random() < 0.3:
                continue
            stopped = 1 <= start <= 3 and sender % 2 != receiver % 2
            cause = 2 if stopped else 1 if draw.random() < 0.2 else 0
            end = start if cause else start + float(draw.uniform(0.1, 0.5))
            rows.append(frame(start, end, sender, receiver, number=number, cause=cause, kind=number % 2, label=0))
    times = np.sort(draw.uniform(0, 4, 12)).tolist()
    states = {"times": [0.0] * 6 + times, "agents": [*range(6), *draw.integers(6, size=12).tolist()], "sent": [0] * 18}
    values = {"role": {"words": ["idle", "waits", "leads"], "codes": [0] * 6 + draw.integers(3, size=12).tolist()}}
    parted = {"what": "Partition", "begin": 1.0, "end": 3.0, "agents": [], "sides": [[0, 2, 4], [1, 3, 5]]}
    crashed = {"what": "Crash", "begin": 2.0, "end": None, "agents": [5]}
    faults = [{**fault, "text": "", "links": []} for fault in (parted, crashed)]
    marks = {"times": times[:5], "agents": [0, 1, 2, 3, 4], "sent": [0] * 5, "texts": ["a note"] * 5}
    return page_of(rows, 6, states={**states, "values": values}, faults=faults, marks=marks, labels=["x1"])


@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (1400, 850), (390, 844)])
def test_words_cover_no_event_no_cross_and_no_word(
    browser: chromium.Page, tmp_path: Path, width: int, height: int
) -> None:
    for seed in range(3):
        browser.look(width, height)
        path = tmp_path / "busy.html"
        path.write_text(busy(seed), encoding="utf-8")
        browser.open(path)
        browser.run("replay.show('spacetime'); replay.seek(2.5)")
        seen = browser.run("replay.seen()")
        boxes = [tuple(word["box"]) for word in [*seen["words"], *seen["labels"]]]
        assert boxes
        assert not any(overlap(one, other) for one, other in combinations(boxes, 2))
        for x, y in [dot["place"] for dot in seen["dots"]] + [cross["place"] for cross in seen["crosses"]]:
            assert not any(left < x < right and top < y < bottom for left, top, right, bottom in boxes)
        # The agents of each side of the partition are adjacent, and the frames it stopped end between the sides.
        assert seen["order"] == [0, 2, 4, 1, 3, 5]
        assert seen["tall"] == (width < 760)
        assert not browser.output


def test_time_runs_down_a_narrow_page(small: chromium.Page) -> None:
    small.look(390, 844)
    small.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    small.run("replay.show('spacetime'); replay.seek(1)")
    early, late = event_at(small, 0, 0.45)["place"], event_at(small, 0, 0.52)["place"]
    assert early[0] == late[0]
    assert early[1] < late[1]
    assert event_at(small, 3, 0.5)["place"][0] > early[0]


def test_the_address_chooses_events(small: chromium.Page, tmp_path: Path) -> None:
    one, other = event_at(small, 0, 0.1)["event"], event_at(small, 3, 0.5)["event"]
    again = (tmp_path / "small.html").rename(tmp_path / "again.html")
    small.open(f"{again.as_uri()}#view=spacetime&event={one}&with={other}")
    assert small.run("replay.state().view") == "spacetime"
    assert "A happened before B" in text_of(small)


@pytest.mark.parametrize("width", [390, 1400])
def test_a_line_has_the_colour_of_the_value_that_holds(width: int, browser: chromium.Page, tmp_path: Path) -> None:
    """Agents take thousands of values within one pixel; the line has the colour of the value that then lasts."""
    burst = (1e-9 * np.arange(3000)).tolist()
    # Agent 0 changes from the greatest to the least value at one instant. Agent 1 reaches the greatest value at the end
    # of the burst. Agent 2 leaves it then, and alternates in a second burst.
    changes = [(0.0, 0, 8.0), (0.0, 0, 0.0), *((time, 1, 8.0 * (k == 2999)) for k, time in enumerate(burst))]
    changes += [(time, 2, 8.0 * (k < 2999)) for k, time in enumerate(burst)]
    changes += [(5.0 + time, 2, 8.0 * (k % 2)) for k, time in enumerate(burst)]
    changes.sort(key=lambda each: each[0])
    times, agents, values = (list(column) for column in zip(*changes, strict=True))
    states = {"times": times, "agents": agents, "sent": [0] * len(times), "values": {"x": values}}
    rows = [frame(time, time + 0.5, sender, (sender + 1) % 3) for time in (0.0, 9.5) for sender in range(3)]
    path = tmp_path / "bursts.html"
    path.write_text(page_of(rows, 3, states=states), encoding="utf-8")
    browser.look(width, 850)
    browser.open(path)
    browser.run("replay.show('spacetime'); replay.seek(10)")
    for agent, expected in enumerate([("least", "least"), ("greatest", "greatest"), ("least", "greatest")]):
        (x1, y1), (x2, y2) = (event_at(browser, agent, time)["place"] for time in (0.0, 9.5))
        for time, value in zip((2.5, 7.5), expected, strict=True):
            share = time / 9.5
            place = [x1 + share * (x2 - x1), y1 + share * (y2 - y1)]
            pixel = f"pen => Array.from(pen.getImageData({place[0]}, {place[1]}, 1, 1).data.slice(0, 3))"
            found = browser.run(f"({pixel})(document.querySelector('canvas[data-part=spacetime]').getContext('2d'))")
            assert found == {"least": [255, 240, 214], "greatest": [56, 3, 0]}[value], (agent, time)
