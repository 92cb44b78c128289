"""The replay page: packed data are unpacked unchanged, and a real browser shows the columns and requests nothing."""

import asyncio
import base64
import gzip
import hashlib
import importlib.resources
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim import Agent, BadInput, Deployment, Link, Network, topology
from netsim.accounting import Trace
from netsim.faults import Move
from netsim.replay import render
from netsim.replay.frames import frames_of
from netsim.replay.html import COLUMNS, html
from netsim.replay.packing import pack
from netsim.studies import find_study
from tests import chromium
from tests.netsim.replay.test_replay_widget import until
from tests.recorded import Columns, averaging, states_at

PAGE = importlib.resources.files("netsim.replay") / "page"
UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
HOSTILE = ["<img src=x onerror=document.title='bad'>", "</script><script>document.title='bad'</script>", "{{meta}}"]


def unpack(packed: dict[str, Any]) -> Columns:
    """Unpack data as page/unpack.js does."""
    data, found = gzip.decompress(base64.b64decode(packed["data"])), {}
    for column in packed["columns"]:
        dtype = np.dtype(f"<{column['type']}")
        size, width = column["length"], dtype.itemsize
        planes, data = data[: size * width], data[size * width :]
        bits = np.frombuffer(planes, np.uint8).reshape(width, size).T.copy().view(f"<u{width}").ravel()
        if column["less"]:
            bits = (bits >> 1) ^ (0 - (bits & 1)).astype(bits.dtype)
            base = 0 if column["less"] == "previous" else found[column["less"]].view(bits.dtype)
            bits = np.cumsum(bits, dtype=bits.dtype) if column["less"] == "previous" else bits + base
        found[column["name"]] = bits.view(dtype)
    assert not data
    return found


@given(st.integers(0, 300), st.integers(0, 2**32), st.sampled_from(["any bits", "sorted", "steps", "constant", "ends"]))
def test_every_bit_comes_back(size: int, seed: int, form: str) -> None:
    draw, columns = np.random.default_rng(seed), {}
    for name, dtype in COLUMNS.items():
        bits = np.frombuffer(draw.bytes(size * np.dtype(dtype).itemsize), dtype=dtype)
        whole = np.arange(size) % 100
        steps = (whole * 0.1 if dtype is np.float64 else whole).astype(dtype)
        ends = np.resize([bits.min(), bits.max()] if size else [0], size).astype(dtype)
        forms = {
            "any bits": bits,
            "sorted": np.sort(bits),
            "steps": steps,
            "constant": np.full_like(bits, 3),
            "ends": ends,
        }
        columns[name] = forms[form]
    found = unpack(json.loads(json.dumps(pack(columns))))
    assert list(found) == list(columns)
    for name, column in columns.items():
        assert found[name].dtype == column.dtype
        assert found[name].tobytes() == column.tobytes()


def test_a_real_run_packs_small_and_the_same_every_time(recorded: tuple[dict[str, Any], Columns]) -> None:
    packed = pack(recorded[1])
    assert packed == pack(recorded[1])
    # Each event's uniform latency has five random bytes, which no packing can avoid.
    assert len(packed["data"]) / len(recorded[1]["start"]) < 12
    even = {"start": np.arange(50_000) * 0.1, "end": np.arange(50_000) * 0.1 + 0.02}
    assert len(pack(even)["data"]) < 40_000


def test_uplot_is_as_published() -> None:
    for name, digest in UPLOT.items():
        assert hashlib.sha256((PAGE / "uplot" / name).read_bytes()).hexdigest() == digest
    assert "MIT License" in (PAGE / "uplot" / "LICENSE").read_text()


def test_the_page_holds_all_its_parts_and_asks_for_nothing(small: tuple[dict[str, Any], Columns]) -> None:
    page = html(*small)
    assert "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:" in page
    for script in PAGE.iterdir():
        if script.name.endswith(".js"):
            assert script.read_text() in page, script.name
    # The page loads no other file, and no text can close its script element.
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:|//|\.)", page)
    assert page.count("<script") == page.count("</script>") == 4
    assert html(*small) == page


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("cause", None, "with a column 'cause'"),
        ("end", np.zeros(2), "must be of shape (1,), as start"),
        ("sender", np.array([2]), "columns['sender'] = 2: must be a whole number from 0 to 1"),
        ("kind", np.array([-1]), "columns['kind'] = -1: must be a whole number from 0 to 0"),
        ("end", np.array([np.nan]), "must be finite"),
        ("depart", np.array([0.5]), "start <= depart <= end"),
    ],
)
def test_columns_that_cannot_be_shown_are_refused(name: str, value: Any, wanted: str) -> None:
    meta, columns = one_frame()
    if value is None:
        del columns[name]
    else:
        columns[name] = value
    with pytest.raises(BadInput, match=re.escape(wanted)) as caught:
        html(meta, columns)
    assert "\n" not in str(caught.value)


def one_frame(**text: Any) -> tuple[dict[str, Any], Columns]:
    """Return a page's data with two agents and one lost frame."""
    meta = {
        "title": "one frame", "command": "", "versions": {}, "agents": ["a", "b"], "positions": [[0, 0], [1, 0]],
        "has_positions": True, "paths": {}, "links": [[0, 1]], "round_period": 1.0, "ended_at": 1.0, "kinds": ["hello"],
        "causes": ["delivered", "lost"], "counts": {"delivered": 0, "lost": 1}, "total": 1, "shown": 1, "omitted": "",
        "states": render.no_changes(), "rounds": 1, "curves": {"x": [], "columns": {}}, "notes": [],
    }  # fmt: skip
    values = {"start": 0.25, "depart": 0.25, "end": 0.375, "receiver": 1, "cause": 1, "round": 1, "bits": 8}
    columns = {name: np.array([values.get(name, 0)], dtype=dtype) for name, dtype in COLUMNS.items()}
    return meta | text, columns


@pytest.fixture(scope="module")
def recorded() -> tuple[dict[str, Any], Columns]:
    """Return the page data of a run of averaging on 16 agents, with lost and late frames."""
    return averaging(16, 30)


@pytest.fixture
def small() -> tuple[dict[str, Any], Columns]:
    return one_frame()


def shown(browser: chromium.Page, tmp_path: Path, data: tuple[dict[str, Any], Columns]) -> chromium.Page:
    """Open a page with given data, and check that it requests nothing and reports no error."""
    path = tmp_path / "page.html"
    path.write_text(html(*data), encoding="utf-8")
    browser.open(path)
    quiet(browser)
    assert browser.run("replay.readyAfter > 0")
    return browser


def quiet(browser: chromium.Page) -> None:
    """Check that the page made no request, and that the console is empty."""
    assert browser.run("performance.getEntriesByType('resource').length") == 0
    assert [url for url in browser.requested if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in browser.requested if url.startswith("file:")]) == 1
    assert browser.output == []


def test_what_is_shown_at_a_time_is_what_the_columns_say(
    browser: chromium.Page, tmp_path: Path, recorded: tuple[dict[str, Any], Columns]
) -> None:
    meta, columns = recorded
    page = shown(browser, tmp_path, recorded)
    start, depart, end, cause = (columns[name] for name in ("start", "depart", "end", "cause"))
    assert np.any(depart > start), "some must wait for their turn"
    draw = np.random.default_rng(5)
    # The times include exact starts and ends of frames, to detect < in place of <=.
    times = [
        *draw.uniform(0, meta["ended_at"], 12),
        *draw.choice(end, 6),
        *draw.choice(start, 3),
        0.0,
        meta["ended_at"],
    ]
    changes = meta["states"]
    text = pd.DataFrame({"time_s": changes["times"], "agent": changes["agents"], "sent": changes["sent"]})
    text["value"] = changes["values"]["value"]
    for view in ("map", "spacetime"):
        at = ", ".join(repr(float(time)) for time in times)
        states = page.run(f"replay.show('{view}'), [{at}].map((time) => (replay.seek(time), replay.state()))")
        for time, state in zip(map(float, times), states, strict=True):
            assert state["time"] == time
            assert state["flying"] == np.flatnonzero((depart <= time) & (end > time)).tolist()
            assert state["waiting"] == np.flatnonzero((start <= time) & (depart > time)).tolist()
            ended = np.bincount(cause[end <= time], minlength=len(meta["causes"]))
            assert state["ended"] == dict(zip(meta["causes"], ended.tolist(), strict=True))
            expected = states_at(text, columns, time)["value"].tolist()
            assert state["states"]["value"] == pytest.approx(expected, rel=1e-7)
    quiet(page)


def test_every_number_is_in_the_page_as_exactly_as_in_the_trace(browser: chromium.Page, tmp_path: Path) -> None:
    draw, size = np.random.default_rng(9), 400
    meta, columns = one_frame(counts={"lost": size}, total=size, shown=size)
    columns = {key: np.repeat(column, size) for key, column in columns.items()}
    columns["start"] = np.sort(draw.exponential(size=size) ** 9)
    columns["depart"] = columns["start"] + draw.exponential(size=size) ** 5
    columns["end"] = columns["depart"] + draw.exponential(size=size) ** 5
    columns["round"] = draw.integers(-(2**31), 2**31, size=size, dtype=np.int32)
    for name in ("bits", "number"):
        columns[name] = draw.integers(-(2**53), 2**53, size=size)
    page = shown(browser, tmp_path, (meta, columns))
    rows = json.loads(page.run(f"JSON.stringify(Array.from({{length: {size}}}, (_, i) => replay.row(i)))"))
    for name, column in columns.items():
        assert [row[name] for row in rows] == column.tolist(), name


def test_counts_in_the_page_are_those_of_the_ledger(
    browser: chromium.Page, tmp_path: Path, recorded: tuple[dict[str, Any], Columns]
) -> None:
    page = shown(browser, tmp_path, recorded)
    read = "Object.fromEntries([...document.querySelectorAll('[data-cause]')].map((row) => [row.dataset.cause, {}]))"
    cells = read.replace("{}", "+row.querySelector('[data-count]').dataset.count")
    counts = page.run(cells)
    assert {name: count for name, count in counts.items() if name in recorded[0]["counts"]} == recorded[0]["counts"]
    assert sum(counts.values()) == recorded[0]["total"]
    page.run(f"replay.seek({recorded[0]['ended_at']})")
    now = page.run(read.replace("{}", "+row.querySelector('[data-now]').textContent"))
    assert now == {**dict.fromkeys(recorded[0]["causes"], 0), **recorded[0]["counts"]}


def test_filters_steps_and_keys(
    browser: chromium.Page, tmp_path: Path, recorded: tuple[dict[str, Any], Columns]
) -> None:
    meta, columns = recorded
    page = shown(browser, tmp_path, recorded)
    start, end = columns["start"], columns["end"]
    page.run("document.querySelector('[data-kind=state] input').click(), document.activeElement.blur()")
    kept = columns["kind"] == meta["kinds"].index("thanks")
    page.run("replay.seek(1.23)")
    assert page.run("replay.state().flying") == np.flatnonzero(kept & (start <= 1.23) & (end > 1.23)).tolist()
    # The keys move from arrival to arrival: forwards by playing, if the flight takes less than a second, and backwards
    # by a jump.
    ends = np.unique(end[kept])
    page.press("ArrowRight")
    assert page.run("replay.state().playing")
    until(page, "!replay.state().playing")
    assert page.run("replay.state().time") == ends[np.searchsorted(ends, 1.23, side="right")]
    page.run("replay.seek(1.23)")
    page.press("ArrowLeft")
    assert page.run("replay.state().time") == ends[np.searchsorted(ends, 1.23) - 1]
    page.run("replay.round()")
    assert page.run("replay.state().time") == pytest.approx(
        meta["round_period"] * (ends[np.searchsorted(ends, 1.23) - 1] // meta["round_period"] + 1)
    )
    page.press("End")
    assert page.run("replay.state().time") == page.run("replay.state().span")
    page.press("Home")
    speed = page.run("replay.state().speed")
    page.press("+", "+")
    assert page.run("replay.state().speed") == pytest.approx(2 * speed)
    page.press(" ", " ")
    page.run("new Promise((done) => setTimeout(done, 300))")
    playing = page.run("replay.state()")
    page.press(" ", " ")
    assert playing["playing"]
    assert playing["time"] > 0
    assert not page.run("replay.state().playing")
    quiet(page)


def test_the_inspector_tells_what_an_agent_and_a_link_did(
    browser: chromium.Page, tmp_path: Path, recorded: tuple[dict[str, Any], Columns]
) -> None:
    meta, columns = recorded
    page = shown(browser, tmp_path, recorded)
    page.run("replay.seek(1.5); replay.choose({agent: 4})")
    rows = "Object.fromEntries([...document.querySelectorAll('[data-part=inspected] tr[data-row]')].map("
    text = page.run(rows + "(row) => [row.dataset.row, [...row.cells].slice(1).map((cell) => cell.textContent)]))")
    over = columns["end"] <= 1.5
    for cause in ("delivered", "lost"):
        ended = over & (columns["cause"] == meta["causes"].index(cause))
        by = [int(np.sum(ended & (columns[role] == 4))) for role in ("sender", "receiver")]
        assert text[cause] == [str(count) for count in by]
    times = page.run("[...document.querySelectorAll('[data-part=latest] time')].map((time) => time.title)")
    short = page.run("[...document.querySelectorAll('[data-part=latest] time')].map((time) => time.textContent)")
    mine = (columns["sender"] == 4) | (columns["receiver"] == 4)
    latest = np.concatenate([columns["start"][mine], columns["end"][mine]])
    latest = np.sort(latest[latest <= 1.5])[::-1][: len(times)]
    # The tooltip shows exact times, and the list seven digits.
    assert [float(time.removesuffix(" s")) for time in times] == latest.tolist()
    assert [float(time.removesuffix(" s")) for time in short] == pytest.approx(latest.tolist(), rel=1e-6)
    assert max(map(len, short)) <= len("0.1234567 s")
    i, j = meta["links"][0]
    page.run(f"replay.choose({{link: [{i}, {j}]}})")
    title = page.run("document.querySelector('[data-part=chosen]').textContent")
    assert title == f"Link {meta['agents'][i]} – {meta['agents'][j]}"
    quiet(page)


def test_names_are_text(browser: chromium.Page, tmp_path: Path) -> None:
    data = one_frame(
        agents=HOSTILE[:2], title=HOSTILE[0], command=HOSTILE[1], kinds=[HOSTILE[0]], notes=HOSTILE,
        versions={HOSTILE[0]: HOSTILE[1]}, causes=["delivered", HOSTILE[1]], counts={HOSTILE[1]: 1},
        states={"times": [0.0, 0.0], "agents": [0, 1], "sent": [0, 0], "values": {HOSTILE[0]: [1.0, float("nan")]}},
        curves={"x": [0.0, 1.0], "columns": {HOSTILE[1]: [1.0, 2.0], "\u2028\ud800": [float("nan"), float("inf")]}},
    )  # fmt: skip
    page = shown(browser, tmp_path, data)
    page.run("replay.choose({agent: 0}); replay.seek(0.5)")
    assert page.run("document.title") == HOSTILE[0]
    assert page.run("document.images.length") == 0
    assert page.run("document.querySelector('[data-part=chosen]').textContent") == f"Agent {HOSTILE[0]}"
    assert page.run("[...document.querySelectorAll('[data-part=notes] li')].map((li) => li.textContent)") == HOSTILE
    quiet(page)


# --- rounds, and what takes no time -----------------------------------------------------------------------------------


class Speaker(Agent):
    """Sends in each of three rounds, or three times outside rounds, or sends requests that are answered immediately."""

    def __init__(self, how: str) -> None:
        self.how, self.heard = how, 0

    def answer(self, frame: Any) -> int:
        return 1

    async def run(self) -> None:
        if self.how == "outside rounds":
            for _ in range(3):
                await self.broadcast("word", None)
                await asyncio.sleep(0.6)
            return
        async for _ in self.rounds(3):
            if self.how == "asks":
                await self.request(self.neighbors[0], "ask", None)
            else:
                await self.broadcast("word", None)
            self.heard += len(await self.collect())


def spoken(how: str, latency: float, path: Path, **settings: Any) -> Path:
    network = Network(topology.path(3), Link(latency=latency), round_period=0.5, seed=1)
    network.watch(["heard"])
    run = network.run({i: Speaker(how) for i in range(3)}, trace=True, **settings)
    return run.replay(path / "page.html")


@pytest.mark.parametrize(
    ("how", "settings", "rounds"),
    [("in rounds", {}, 3), ("in rounds", {"sample": 0.1}, 3), ("outside rounds", {"sample": 0.5}, 0)],
)
def test_a_round_is_shown_while_one_is_open(
    how: str, settings: dict[str, Any], rounds: int, browser: chromium.Page, tmp_path: Path
) -> None:
    browser.open(spoken(how, 0.1, tmp_path, **settings))
    text = [browser.run(f"replay.seek({time}), {CLOCK}") for time in (0, 0.5, 1.2, 99)]
    numbers = [1, 2, 3, 3]
    for clock, number in zip(text, numbers, strict=True):
        assert re.findall(r"round .*? ·", clock) == ([f"round {number} of {rounds} ·"] if rounds else [])
    browser.run("replay.seek(0); for (let i = 0; i < 9; i++) replay.round()")
    assert browser.run("replay.state().time") == 0.5 * rounds
    quiet(browser)


CLOCK = "document.querySelector('[data-part=clock]').textContent"
NOTES = "[...document.querySelectorAll('[data-part=notes] li')].map((li) => li.textContent)"


def test_what_takes_no_time_is_drawn_over_its_round_and_the_page_notes_it(
    browser: chromium.Page, tmp_path: Path
) -> None:
    browser.open(spoken("in rounds", 0.0, tmp_path))
    for time in (0, 0.2, 0.4999, 0.5, 1.3, 1.4999):
        browser.run(f"replay.seek({time})")
        drawn = browser.run("replay.state().drawn")
        assert (drawn["shown"], drawn["drawn"], drawn["spread"], drawn["underway"]) == (4, 4, 4, 0), time
        assert browser.run(CLOCK).endswith(" of 3 · 4 drawn over the round: latency is 0")
        # The counts follow the displayed time, although the frames are drawn over the whole round.
        assert browser.run("replay.state().flying") == []
        assert browser.run("replay.state().ended.delivered") == 4 * (int(time / 0.5) + 1)
    browser.run("replay.seek(1.5)")
    assert browser.run("replay.state().drawn")["shown"] == 0
    browser.run("replay.show('spacetime'); replay.seek(0.7)")
    assert "drawn over the round" not in browser.run(CLOCK)
    output = "12 frames took no time (latency is 0): the map draws them over the rest of their round."
    assert output in browser.run(NOTES)
    quiet(browser)


@pytest.mark.parametrize(("how", "count"), [("asks", 18), ("outside rounds", 12)])
def test_what_is_answered_at_once_or_outside_rounds_is_not_drawn_as_if_it_took_time(
    how: str, count: int, browser: chromium.Page, tmp_path: Path
) -> None:
    browser.open(spoken(how, 0.0, tmp_path))
    for time in (0, 0.2, 0.7):
        browser.run(f"replay.seek({time})")
        assert browser.run("replay.state().drawn")["shown"] == 0
        assert "drawn over" not in browser.run(CLOCK)
    what = "are of a kind that is answered, or outside rounds: they are not seen under way."
    assert f"{count} frames took no time and {what}" in browser.run(NOTES)
    quiet(browser)


def test_with_latency_every_frame_flies_for_its_time(browser: chromium.Page, tmp_path: Path) -> None:
    browser.open(spoken("in rounds", 0.1, tmp_path))
    for time, flying in ((0.05, 4), (0.1001, 0), (0.55, 4)):
        browser.run(f"replay.seek({time})")
        assert browser.run("[replay.state().flying.length, replay.state().drawn.spread]") == [flying, 0]
    assert not any("took no time" in note for note in browser.run(NOTES))


def test_those_that_move_are_where_they_were(browser: chromium.Page, tmp_path: Path) -> None:
    class Waits(Agent):
        async def run(self) -> None:
            await self.broadcast("m", None)
            await asyncio.sleep(100)

    moves = [Move(1, (200.0, 0.0), at=10.0, until=40.0), Move(1, (50.0, 0.0), at=60.0)]
    network = Deployment({0: (0.0, 0.0), 1: (20.0, 0.0)}, moves=moves).network()
    run = network.run({0: Waits(), 1: Waits()}, trace=True)
    run.trace.save(tmp_path / "trace.npz")
    assert Trace.load(tmp_path / "trace.npz").scene == run.trace.scene
    browser.open(run.replay(tmp_path / "page.html"))
    assert any("Agents move" in note for note in browser.run(NOTES))
    times = [0, 10, 25, 40, 59.9, 60, 100]
    found = browser.run(f"{times}.map((time) => (replay.seek(time), [replay.place(0), replay.place(1)]))")
    (zero, _), (end, _) = found[3]
    for (at, place), x in zip(found, [20, 20, 110, 200, 200, 50, 50], strict=True):
        assert at == found[0][0]
        assert (place[0] - zero) / (end - zero) == pytest.approx(x / 200, abs=1e-6)
    quiet(browser)


def test_a_frame_leaves_from_an_agent_that_is_shown_as_it_was(browser: chromium.Page, tmp_path: Path) -> None:
    """If a sender changes its state before and between two frames of one instant, the state at the first is drawn."""

    class Moody(Agent):
        x = 0

        async def run(self) -> None:
            if self.name == 0:
                await asyncio.sleep(1)
                self.x = 5
                await self.broadcast("m", None)
                self.x = 6
                await self.broadcast("m", None)
                self.x = 7
                await asyncio.sleep(1)
                self.x = 8

    network = Network(topology.path(2), Link(latency=0.25))
    network.watch(["x"])
    run = network.run({i: Moody() for i in range(2)}, trace=True)
    browser.open(run.replay(tmp_path / "page.html"))
    times = [0, 0.999, 1, 1.0001, 1.9, 2]
    found = browser.run(f"{times}.map((time) => (replay.seek(time), replay.state().states.x[0]))")
    assert found == [0, 0, 5, 7, 7, 8]
    browser.run("replay.choose({agent: 0}); replay.seek(1.5)")
    assert browser.run("document.querySelector('[data-part=inspected] dd').textContent") == "7"


def test_flooding_is_seen_to_spread_from_those_that_know(browser: chromium.Page, tmp_path: Path) -> None:
    run = find_study("flooding").execute(trace=True).runs["flooding"]
    browser.open(run.replay(tmp_path / "page.html"))
    columns = frames_of(run.trace).columns
    assert len(columns["start"]) > 100
    script = (
        f"{json.dumps(columns['start'].tolist())}.map((time, row) => (replay.seek(time), "
        f"replay.state().states.hops[{json.dumps(columns['sender'].tolist())}[row]]))"
    )
    hops = json.loads(browser.run(f"JSON.stringify({script})"))
    assert None not in hops
    assert browser.run("(replay.seek(0.001), replay.state().states.hops.filter((x) => x >= 0).length)") == 1


EMPTY = {name: np.array([], dtype=dtype) for name, dtype in COLUMNS.items()}


@pytest.mark.parametrize("name", ["one", "empty", "alone", "no agent", "huge", "tiny", "at once", "one kind of state"])
def test_runs_at_the_edge(name: str, browser: chromium.Page, tmp_path: Path) -> None:
    meta, columns = one_frame()
    none = {"links": [], "counts": {"delivered": 0}, "total": 0, "shown": 0, "kinds": [], "ended_at": 0.0}
    if name == "empty":
        columns, meta = EMPTY, meta | none
    elif name == "alone":
        columns, meta = EMPTY, meta | none | {"agents": ["a"], "positions": [[3.0, 4.0]], "ended_at": 2.0}
    elif name == "no agent":
        columns, meta = EMPTY, meta | none | {"agents": [], "positions": [], "causes": ["delivered"]}
    elif name in ("huge", "tiny"):
        scale = 1e15 if name == "huge" else 1e-12
        columns |= {key: columns[key] * scale for key in ("start", "depart", "end")}
        meta |= {"round_period": scale, "ended_at": scale, "positions": [[-scale, 0.0], [scale, 0.0]]}
    elif name == "at once":
        columns |= {key: columns[key] * 0 for key in ("start", "depart", "end")}
        meta |= {
            "ended_at": 0.0,
            "round_period": 0.0,
            "positions": [[0, 0], [0, 0]],
            "curves": {"x": [0.0], "columns": {"e": [0.0]}},
        }
    elif name == "one kind of state":
        times, agents = [0.0, 0.0, 0.5, 0.5], [0, 1, 0, 1]
        meta |= {
            "states": {"times": times, "agents": agents, "sent": [0] * 4, "values": {"s": [1.0] * 4}},
            "curves": {"x": [0, 1], "columns": {"e": [3, 3]}},
        }
    page = shown(browser, tmp_path, (meta, columns))
    for view in ("spacetime", "map"):
        page.run(f"replay.show('{view}'); replay.step(); replay.round(); replay.step(false); replay.theme()")
        page.run("replay.seek(replay.state().span); document.querySelector('[data-part=map]').click()")
    state = page.run("replay.state()")
    assert state["time"] == state["span"] > 0
    assert sum(state["ended"].values()) == len(columns["start"])
    quiet(page)


def test_too_many_frames_are_thinned_and_the_page_notes_it(browser: chromium.Page, tmp_path: Path) -> None:
    meta, columns = one_frame(
        counts={"delivered": 20_000}, total=30_000, shown=20_000, omitted="Every third is left out."
    )
    columns = {key: np.repeat(column, 20_000) for key, column in columns.items()}
    page = shown(browser, tmp_path, (meta, columns))
    for view in ("map", "spacetime"):
        page.run(f"replay.show('{view}'); replay.seek(0.3)")
        drawn = page.run("replay.state().drawn")
        assert drawn["underway"] == 20_000
        assert 2_000 < drawn["drawn"] <= 6_000
        output = page.run("document.querySelector('[data-part=thinned]').textContent")
        assert output == f"Thinned: {drawn['drawn']} of 20000 frames drawn."
    notes = page.run("document.querySelector('[data-part=notes]').textContent")
    assert "Shown are 20000 of 30000 link messages. Every third is left out." in notes
