"""A live view of a run (docs/replay.md): results are unchanged, and the page receives all events."""

import http.client
import json
import re
import threading
import time
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import Agent, AgentError, BadInput, Link, Network, Run, latency, topology
from netsim.engine import observers
from netsim.live import live_view, server
from netsim.live.view import PendingFrames, ShownChanges
from netsim.replay import render
from netsim.replay.frames import frames_of
from netsim.replay.html import COLUMNS
from netsim.testing import Rounder
from tests.netsim.replay.test_replay import KINDS, Mixed, network
from tests.netsim.replay.test_replay_page import unpack


class Page:
    """The client side of a live page: it sends the same requests as page/live.js."""

    def __init__(self, address: str, number: int = 1) -> None:
        self.address = f"{address}{number}/"
        self.since = "0.0.0.0.0"
        self.ended: list[np.ndarray[Any, Any]] = []
        self.under_way: Any = None
        self.columns: dict[str, np.ndarray[Any, Any]] = {}
        self.news: dict[str, Any] = {}

    def ask(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.address}more?since={self.since}", timeout=20) as answer:
            self.news = json.load(answer)
        found = unpack(self.news["packed"])
        self.since = self.news["since"]
        self.ended.append(table({name: found.pop(name) for name in COLUMNS}, self.news["labels"]))
        self.under_way = table({name: found.pop(f"open {name}") for name in COLUMNS}, self.news["labels"])
        for name, column in found.items():
            if name.startswith("state "):
                kept, first = self.columns.get(name, column[:0]), self.news["change"]
            else:
                kept = self.columns.get(name, np.full(len(self.columns.get("curves x", ())), np.nan))
                first = self.news["row"]
            self.columns[name] = np.concatenate([kept[:first], column])
        return self.news

    def states(self, names: list[str]) -> pd.DataFrame:
        """Return the received states in the form of `Run.states`, for agents whose names are numbers."""
        columns = ["time_s", "agent", "sent", *names]
        found = ["times", "agents", "sent", *range(len(names))]
        return pd.DataFrame({name: self.columns[f"state {each}"] for name, each in zip(columns, found, strict=True)})

    @property
    def frames(self) -> np.ndarray[Any, Any]:
        return np.sort(np.concatenate(self.ended))


def table(columns: dict[str, Any], labels: list[str]) -> np.ndarray[Any, Any]:
    """Return columns as sortable records, in which a hash of its text replaces each label."""
    found = np.empty(len(columns["start"]), dtype=[(name, dtype) for name, dtype in COLUMNS.items()])
    for name in COLUMNS:
        found[name] = columns[name]
    hashes = np.array([*(zlib.crc32(label.encode()) & 0x7FFFFFFF for label in labels), -1])
    found["label"] = hashes[columns["label"]]
    return found


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send news to pages after every row, instead of at intervals."""
    monkeypatch.setattr(observers, "_PAUSE", 0.0)
    monkeypatch.setattr(observers, "_SHARE", 0)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that the server waits for further requests, because these tests make none."""
    monkeypatch.setattr(server, "_PAGE_TIMEOUT", 0.2)
    monkeypatch.setattr(server, "_ABRUPT", 0.2)


def play(name: str, shown: Callable[[Network], Any] | None = None, **settings: Any) -> Run:
    found, coded = network(name)
    found.watch({"k": lambda agent: agent.round})
    found.at(0.55, lambda: found.set_link(0, next(iter(found.graph[0])), up=False))
    if shown:
        shown(found)
    return found.run({node: Mixed(coded) for node in found.graph}, until=1.1501, **settings)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("always")
def test_the_run_is_the_same_and_the_page_gets_all_that_the_trace_has(name: str) -> None:
    plain = play(name, trace=True)
    pages: list[Page] = []

    def asks(number: int) -> None:
        pages[0].ask()
        # Progress is called before the row reaches the page, so the page knows the time of the previous row.
        assert pages[0].news["known"] == pytest.approx(0.1 * (number - 1), abs=1e-6)

    found, coded = network(name)
    found.watch({"k": lambda agent: agent.round})
    found.at(0.55, lambda: found.set_link(0, next(iter(found.graph[0])), up=False))
    with live_view(found, browser=False) as shown:
        pages.append(Page(shown.address))
        run = found.run({node: Mixed(coded) for node in found.graph}, until=1.1501, progress=asks)
        last = pages[0].ask()
    assert len(pages[0].ended) > 5
    assert run.trace_hash == plain.trace_hash
    assert run.rounds.to_csv() == plain.rounds.to_csv()
    assert run.ledger.table().to_csv() == plain.ledger.table().to_csv()
    assert run.states.to_csv() == plain.states.to_csv()
    frames = frames_of(plain.trace)
    assert np.array_equal(pages[0].frames, np.sort(table(frames.columns, plain.trace.texts)))
    assert last["counts"] == frames.counts
    assert last["total"] == sum(frames.counts.values()) == len(pages[0].frames)
    assert not last["running"]
    assert not last["why"]
    assert pages[0].columns["curves x"].tolist() == plain.rounds["time_s"].tolist()
    for index, column in enumerate(last["curves"]):
        assert np.array_equal(pages[0].columns[f"curve {index}"], plain.rounds[column].to_numpy(float), equal_nan=True)
    assert pages[0].states(["k"]).to_csv() == plain.states.to_csv()
    assert len(plain.states) > 7 * 12
    assert last["rounds"] == 12


@pytest.mark.usefixtures("always")
def test_at_each_look_frames_add_up() -> None:
    found, coded = network("queued")
    looks = []

    def look(number: int) -> None:
        if number == 1:
            # Progress is called before the row reaches the page, so there is nothing to compare at the first row.
            return
        page = Page(shown.address)
        news = page.ask()
        exits = {cause: count for cause, count in news["counts"].items() if cause != "in_flight"}
        assert len(page.frames) == sum(exits.values())
        assert len(page.under_way) == news["counts"]["in_flight"]
        assert np.all(page.under_way["end"] == np.inf)
        assert np.all(page.under_way["start"] <= news["known"])
        looks.append(len(page.under_way))

    with live_view(found, browser=False) as shown:
        found.run({node: Mixed(coded) for node in found.graph}, progress=look)
    assert max(looks) > 0


@pytest.mark.usefixtures("always")
def test_the_newest_are_kept_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = play("lossy", trace=True)
    found, _ = network("lossy")
    found.at(0.55, lambda: found.set_link(0, next(iter(found.graph[0])), up=False))
    with live_view(found, browser=False, most=100) as shown:
        run = found.run({node: Mixed() for node in found.graph}, until=1.1501)
        page = Page(shown.address)
        news = page.ask()
    frames = np.sort(table(frames_of(plain.trace).columns, plain.trace.texts))
    assert len(page.frames) == news["most"] == 100
    assert news["total"] == len(frames) > 300
    assert np.isin(page.frames, frames).all()
    assert page.frames["start"].min() > np.median(frames["start"])
    with pytest.raises(BadInput, match="trace = False"):
        _ = run.trace
    # Records that were already sent must not be kept.
    assert not any(len(each) for each in run.ledger.tally.records().values())


def test_a_trace_that_was_asked_for_is_kept_and_the_same() -> None:
    found, _ = network("lossy")
    plain = found.run({node: Mixed() for node in found.graph}, trace=True)
    with live_view(found, browser=False):
        run = found.run({node: Mixed() for node in found.graph}, trace=True)
    assert run.trace.table().equals(plain.trace.table())
    assert run.trace.hash == plain.trace_hash


def test_of_many_rows_a_page_has_some_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "_PAUSE", 0.0)
    monkeypatch.setattr(observers, "_SHARE", 1)
    monkeypatch.setattr(render, "MOST_ROWS", 20)
    graph = topology.random_geometric(3, radius=1.0, seed=2)
    found = Network(graph, round_period=1.0)
    found.watch({"heard": lambda agent: len(agent.heard)})
    pages: list[Page] = []
    with live_view(found, browser=False) as shown:
        pages.append(Page(shown.address))
        asks = lambda number: pages[0].ask() if number > 1 and number % 7 == 0 else None  # noqa: E731
        run = found.run({node: Rounder(100) for node in graph}, progress=asks)
        news = pages[0].ask()
    times = pages[0].columns["curves x"]
    assert times.tolist() == run.rounds["time_s"].tolist()[::8]
    sent = pages[0].columns[f"curve {news['curves'].index('transmissions')}"]
    assert sent.tolist() == run.rounds["transmissions"].tolist()[::8]
    assert pages[0].states(["heard"]).to_csv() == run.states.to_csv()
    assert news["notes"] == ["Curves show one row of 8."]


def test_of_many_changes_a_page_has_fewer_the_older_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "_PAUSE", 0.0)
    monkeypatch.setattr(observers, "_SHARE", 1)
    monkeypatch.setattr(render, "MOST_CHANGES", 60)
    found = Network(topology.path(3), round_period=1.0)
    found.watch({"heard": lambda agent: len(agent.heard)})
    pages: list[Page] = []
    with live_view(found, browser=False) as shown:
        pages.append(Page(shown.address))
        asks = lambda number: pages[0].ask() if number > 1 and number % 7 == 0 else None  # noqa: E731
        run = found.run({node: Rounder(100) for node in range(3)}, progress=asks)
        news = pages[0].ask()
    kept, whole = pages[0].states(["heard"]), run.states
    assert 30 <= len(kept) <= 60 < len(whole) == 303
    assert set(map(tuple, kept.to_numpy())) < set(map(tuple, whole.to_numpy()))
    for agent in range(3):
        mine, all_of_mine = (table[table["agent"] == agent].to_numpy().tolist() for table in (kept, whole))
        assert (mine[0], mine[-1]) == (all_of_mine[0], all_of_mine[-1])
        assert len(mine) >= 10
    assert (kept["time_s"] > 90).sum() > 2 * (kept["time_s"] < 10).sum()
    assert news["notes"] == [render.thinned(len(kept), 303)]


@pytest.mark.parametrize("each_time", [1, 7, 70, 900])
def test_however_many_changes_come_at_once_a_page_has_no_more(each_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks ``each_time`` changes happen; the page never holds more than MOST_CHANGES of them."""
    monkeypatch.setattr(render, "MOST_CHANGES", 60)
    found = Network(topology.path(3), round_period=1.0)
    found.watch({"heard": lambda agent: len(agent.heard)})
    run = found.run({node: Rounder(300) for node in range(3)})
    shown = ShownChanges(3, 1)
    times, agents = run.states["time_s"].to_numpy(), run.states["agent"].to_numpy().astype(np.int32)

    class Watched:
        end = recoded = 0
        columns, words, drawn_as = ("x",), (None,), ()

        def changes(self, first: int) -> list[Any]:
            new = slice(first, self.end)
            return [times[new], agents[new], np.zeros(self.end - first, np.int64), np.zeros((self.end - first, 1))]

    watched: Any = Watched()
    for watched.end in range(each_time, len(times) + 1, each_time):
        shown.look(watched)
        assert shown.count <= 60


class Gossip(Agent):
    """An agent that does not use rounds."""

    async def run(self) -> None:
        import asyncio

        for _ in range(300):
            await asyncio.sleep(float(self.rng.uniform(0.01, 0.1)))
            await self.broadcast("word", None)


@pytest.mark.parametrize("settings", [{}, {"sample": 0.5}], ids=["no rows", "sampled"])
def test_agents_without_rounds_are_shown_too(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "_PAUSE", 0.01)
    monkeypatch.setattr(observers, "_SHARE", 0)
    monkeypatch.setattr(observers, "_WITHOUT_ROWS", 0.0)
    graph = topology.random_geometric(6, radius=0.8, seed=2)
    link = Link(latency=latency.uniform(0.01, 0.3), loss=0.1)
    plain = Network(graph, link).run({node: Gossip() for node in graph}, trace=True, **settings)
    known: list[float] = []
    found = Network(graph, link)
    for step in range(1, 10):
        found.at(step, lambda: known.append(pages[0].ask()["known"]))
    with live_view(found, browser=False) as shown:
        pages = [Page(shown.address)]
        run = found.run({node: Gossip() for node in graph}, **settings)
        pages[0].ask()
    assert run.trace_hash == plain.trace_hash
    assert run.rounds.equals(plain.rounds)
    assert np.array_equal(pages[0].frames, np.sort(table(frames_of(plain.trace).columns, plain.trace.texts)))
    assert len(set(known)) > 2
    assert known == sorted(known)


class Broken(Rounder):
    async def run(self) -> None:
        async for k in self.rounds(5):
            await self.broadcast("x", k)
            if k == 3 and self.name == 0:
                raise ValueError("broken <b>")


def test_a_run_that_fails_gives_the_reason_and_ends_as_ever() -> None:
    graph = topology.random_geometric(4, radius=0.9, seed=2)
    found = Network(graph)
    pages: list[Page] = []

    def fail() -> None:
        with live_view(found, browser=False) as shown:
            pages.append(Page(shown.address))
            try:
                found.run({node: Broken(5) for node in graph})
            finally:
                pages[0].ask()

    with pytest.raises(AgentError, match="broken"):
        fail()
    [page], news = pages, pages[0].news
    assert not news["running"]
    assert "broken <b>" in news["why"]
    assert news["total"] == len(page.frames) > 0
    with pytest.raises(urllib.error.URLError):
        page.ask()


@pytest.mark.usefixtures("always")
def test_what_cannot_be_shown_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def fail(self: PendingFrames, scene: Any, over: bool) -> None:
        looks.append(1)
        raise MemoryError("no room")

    monkeypatch.setattr(PendingFrames, "look", fail)
    plain = play("lossy")
    found, _ = network("lossy")
    found.watch({"k": lambda agent: agent.round})
    found.at(0.55, lambda: found.set_link(0, next(iter(found.graph[0])), up=False))
    with live_view(found, browser=False) as shown:
        run = found.run({node: Mixed() for node in found.graph}, until=1.1501)
        news = Page(shown.address).ask()
    assert run.rounds.equals(plain.rounds)
    assert news["why"] == "it cannot be shown any further: MemoryError: no room"
    assert not news["running"]
    assert len(looks) == 1


def test_what_comes_after_the_block_is_not_shown() -> None:
    found, _ = network("lossy")
    with live_view(found, browser=False):
        pass
    run = found.run({node: Mixed() for node in found.graph}, trace=True)
    assert len(run.trace) > 0


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture
def place() -> Iterator[urllib.parse.SplitResult]:
    """The address of a live view whose run has ended."""
    found, _ = network("lossy")
    with live_view(found, browser=False, title="<script>") as shown:
        found.run({node: Mixed() for node in found.graph})
        yield urllib.parse.urlsplit(shown.address)


def asked(place: urllib.parse.SplitResult, path: str, host: str | None = None, method: str = "GET") -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or place.netloc)
    connection.endheaders()
    answer = connection.getresponse()
    answer.text = answer.read().decode()  # type: ignore[attr-defined]
    connection.close()
    return answer


def test_it_is_for_this_machine_and_for_those_that_know_the_address(place: urllib.parse.SplitResult) -> None:
    assert place.hostname == "127.0.0.1"
    assert re.fullmatch(r"/[\w-]{32}/", place.path)
    page = asked(place, place.path + "1/")
    assert page.status == 200
    assert asked(place, place.path + "1/", host=f"localhost:{place.port}").status == 200
    # A foreign host name that resolves to this machine (DNS rebinding), wrong ports, or no name.
    for host in (f"evil.example:{place.port}", "127.0.0.1", f"127.0.0.1:{(place.port or 0) + 1}", ""):
        assert asked(place, place.path + "1/", host=host).status in (400, 421)
    for path in ("/", "/1/", f"/{'x' * 32}/1/", place.path[:-2] + "/1/", place.path.rstrip("/"), place.path + "2/",
                 place.path + "1/x", place.path + "../1/"):  # fmt: skip
        assert asked(place, path).status == 404, path
    assert asked(place, place.path + "1/", method="POST").status == 501
    assert asked(place, place.path).getheader("Location") == "1/"


def test_no_other_page_can_read_or_frame_it(place: urllib.parse.SplitResult) -> None:
    for path in ("1/", "1/more?since=0.0.0.0.0", "nothing"):
        answer = asked(place, place.path + path)
        assert answer.getheader("Access-Control-Allow-Origin") is None
        assert answer.getheader("Content-Security-Policy") == "frame-ancestors 'none'"
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("Referrer-Policy") == "no-referrer"
        assert answer.getheader("Cache-Control") == "no-store"
    page = asked(place, place.path + "1/").text
    assert "default-src 'none'; " in page
    assert "connect-src 'self'; " in page
    assert "<title>&lt;script></title>" in page


@pytest.mark.parametrize(
    "since", ["", "1", "1.2", "1.2.3.4.x", "-1.0.0.0.0", "1.2.3.4", "9" * 20 + ".0.0.0.0", "²....0"]
)
def test_a_question_that_makes_no_sense_is_refused(since: str, place: urllib.parse.SplitResult) -> None:
    assert asked(place, f"{place.path}1/more?since={urllib.parse.quote(since)}").status == 400


@pytest.mark.parametrize("settings", [{"pace": 0}, {"pace": float("nan")}, {"most": 0}, {"browser": "yes"}])
def test_arguments_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    found, _ = network("lossy")
    [name] = settings
    with pytest.raises(BadInput, match=f"^{name} = "), live_view(found, **{"browser": False} | settings):
        pass


def test_it_serves_until_the_page_has_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_PAGE_TIMEOUT", 60.0)
    found, _ = network("lossy")
    addresses: list[str] = []
    over = threading.Event()

    def work() -> None:
        with live_view(found, browser=False) as shown:
            addresses.append(shown.address)
            for _ in range(2):
                found.run({node: Mixed() for node in found.graph})
        over.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not addresses:
        time.sleep(0.01)
    with urllib.request.urlopen(addresses[0]) as answer:
        assert b"<title>" in answer.read()
    deadline = time.monotonic() + 60
    while not ((first := Page(addresses[0])).ask()["over"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [number for number, _ in first.news["runs"]] == [1, 2]
    assert not over.wait(0.3)
    Page(addresses[0], 2).ask()
    assert over.wait(20)
    thread.join()
