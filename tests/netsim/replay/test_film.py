"""Film time as described in docs/replay.md: pace, moments, following, and comparison of runs."""

import asyncio
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import netsim
from netsim import BadInput, Link, Network, latency, topology
from netsim.agents.classics import Raft
from netsim.draw import Edge, Star, Token
from netsim.engine import observers
from netsim.faults import Crash, Partition
from netsim.live.view import RunView
from netsim.replay.film import MOST_FILM, Film, film_of, followed, listed
from netsim.replay.frames import Columns
from netsim.replay.html import html
from netsim.replay.picture import Wanted, write_picture
from netsim.replay.render import About, parts_of
from netsim.replay.run_history import RunHistory
from netsim.run import Run
from netsim.testing import Rounder
from tests.command import call


def history(count: int, span: float, flight: float, seed: int = 0, **more: Any) -> RunHistory:
    """Return a run with frames at random times, a fifth of which take no time."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.uniform(0, span, count))
    depart = start + rng.exponential(flight / 3, count)
    end = depart + rng.exponential(flight, count) * (rng.random(count) < 0.8)
    columns: Columns = {"start": start, "depart": depart, "end": end, "number": np.arange(count)}
    columns |= {name: rng.integers(0, 9, count).astype(np.int32) for name in ("sender", "receiver")}
    columns |= {"kind": rng.integers(0, 3, count), "cause": (rng.random(count) < 0.1).astype(np.int16)}
    columns |= {name: np.zeros(count, dtype=np.int64) for name in ("round", "bits", "reply")}
    meta = {
        "title": "", "command": "", "agents": [str(each) for each in range(9)], "kinds": ["a", "b", "c"],
        "causes": ["delivered", "lost", "in_flight"], "labels": [], "ended_at": span, "rounds": 0, "round_period": 0.0,
        "paths": {}, "medium": "wires", "states": {"times": [], "agents": [], "sent": [], "values": {}}, "draw": {},
        "marks": {"times": sorted(rng.uniform(0, span, 4)), "agents": [1, 2, 3, 1], "texts": ["x", "y", "x", "z"]},
    }  # fmt: skip
    return RunHistory(meta | more, columns)


def history_of(run: Run, **how: Any) -> RunHistory:
    return RunHistory(*parts_of(run, **how))


def raft(*faults: Any) -> Run:
    graph = topology.complete(5)
    network = Network(graph, Link(latency=latency.uniform(0.005, 0.02), loss=0.05), seed=1, faults=list(faults))
    commands = [(0.5 + 0.25 * number, "abcd"[number]) for number in range(4)]
    return network.run({i: Raft(commands=commands) for i in graph}, until=2.2, trace=True)


@pytest.fixture(scope="module")
def split() -> Run:
    return raft(Partition([0, 1], at=1.1, until=1.8))


# --- pace: laws -------------------------------------------------------------------------------------------------------


def lengths(run: RunHistory, film: Film) -> np.ndarray[Any, Any]:
    some = run.until > run.columns["depart"]
    found: np.ndarray[Any, Any] = film.at(run.until[some]) - film.at(run.columns["depart"][some])
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("count", "span", "flight"), [(0, 3.0, 1.0), (1, 5.0, 1e-6), (60, 1e4, 0.02), (200, 1.0, 0.1)])
@pytest.mark.parametrize("medium", ["wires", "shared"])
def test_time_and_film_never_go_back_and_each_flight_takes_half_a_second(
    count: int, span: float, flight: float, seed: int, medium: str
) -> None:
    run = history(count, span, flight, seed, medium=medium)
    table = film_of(run)
    time, film = np.array(table["time"]), np.array(table["film"])
    assert (np.diff(time) >= 0).all()
    assert (np.diff(film) >= 0).all()
    assert (time[0], film[0], time[-1]) == (0, 0, run.last)
    assert table["most_film"] is None
    if medium == "wires":
        assert lengths(run, Film(table)).min(initial=1.0) >= 0.5
    assert film_of(run) == table


@pytest.mark.parametrize("count", [3000, 20_000])
def test_a_film_that_is_too_long_shortens_flights_far_from_moments_only(count: int) -> None:
    run = history(count, 1000.0, 0.05)
    table = film_of(run)
    film = Film(table)
    assert film.length == pytest.approx(MOST_FILM, abs=0.1)
    assert table["most_film"] == MOST_FILM
    assert lengths(run, film).min() < 0.5
    flies = run.until > run.columns["depart"]
    begin, until = run.columns["depart"][flies], run.until[flies]
    for moment in table["moments"]:
        after = np.argsort(np.where(begin >= moment["time"], begin, np.inf))[:6]
        assert (film.at(until[after]) - film.at(begin[after]) >= 0.5).all()


def test_a_long_table_is_thinned_and_still_gives_half_a_second() -> None:
    run = history(20_000, 10.0, 40.0)
    table = film_of(run)
    assert len(table["time"]) < 3 * MOST_FILM / 0.02
    if table["most_film"] is None:
        assert lengths(run, Film(table)).min() >= 0.5


def test_many_at_once_take_longer_and_a_routine_kind_half_as_long() -> None:
    few, many = (film_of(history(count, 1e-9, 1.0, marks=None))["film"][-1] for count in (4, 60))
    assert 2 * few < many < 16 * few
    run = history(40, 1e4, 0.02)
    run.columns["kind"][:] = np.arange(40) % 4 == 0
    table = film_of(run)
    assert table["routine"] == [0]
    kinds, took = run.columns["kind"][run.until > run.columns["depart"]], lengths(run, Film(table))
    assert np.median(took[kinds == 0]) < 0.6
    assert took[kinds == 1].min() >= 0.96


def test_idle_time_shrinks_to_a_logarithm() -> None:
    short, long = (film_of(history(2, span, 0.01, 3, marks=None))["film"][-1] for span in (1e2, 1e5))
    assert long - short < 3 * 0.3 * 3 + 0.1


def test_a_mote_that_walks_has_time_on_each_way() -> None:
    paths = {"1": [[0.0, 0, 0], [40.0, 1, 1], [70.0, 2, 0], [100.0, 2, 2]]}
    still, walks = (film_of(history(2, 100.0, 0.01, 3, marks=None, paths=each)) for each in ({}, paths))
    assert set(walks["time"]) >= {40.0, 70.0}
    assert walks["film"][-1] > 2 * still["film"][-1]
    alone = Film(film_of(history(0, 100.0, 0.01, paths=paths, marks=None)))
    assert np.allclose(alone.at([25.0, 50.0, 100.0]), [7.5, 15.0, 30.0])


def test_the_film_stands_at_moments_and_comes_there_first() -> None:
    table = film_of(history(50, 100.0, 0.1))
    film = Film(table)
    noted = [each for each in table["moments"] if each["kind"] == "note"]
    assert [each["stands"] for each in noted] == [1.6] * 4
    for each in noted:
        assert film.at(each["time"]) == each["film"]
        assert film.leaves(each["time"]) == pytest.approx(each["film"] + 1.6, abs=1e-4)
        assert film.time(each["film"] + 1.0) == each["time"]
        assert film.rate(each["film"] + 1.0) == 0


def test_a_frame_without_latency_takes_its_round() -> None:
    graph = topology.ring(3)
    run = history_of(Network(graph, round_period=0.1).run({i: Rounder(2) for i in graph}, trace=True))
    assert lengths(run, Film(film_of(run))).min() >= 0.5


def test_a_pace_that_is_asked_for_is_even() -> None:
    run = history(50, 100.0, 0.1)
    table = film_of(run, pace=4.0)
    assert (table["time"], table["film"]) == ([0, run.last], [0, pytest.approx(run.last / 4)])
    assert {each["stands"] for each in table["moments"]} == {0.0}


# --- moments ----------------------------------------------------------------------------------------------------------


def said(run: RunHistory) -> list[str]:
    return [each["text"] for each in film_of(run)["moments"]]


def test_a_run_tells_its_faults_roles_notes_commits_and_what_is_dropped(split: Run) -> None:
    run = history_of(split)
    texts = said(run)
    for text in (
        "0 is now candidate, term 1", "0: becomes leader", "0 commits “a”", "0: steps down",
        "agents 0, 1 are cut off from the others from 1.1 s to 1.8 s",
        "Over: agents 0, 1 are cut off from the others from 1.1 s to 1.8 s",
    ):  # fmt: skip
        assert text in texts
    dropped = [text for text in texts if " drops " in text]
    assert dropped
    assert all(text.endswith("never committed") for text in dropped)
    times = [each["time"] for each in film_of(run)["moments"]]
    assert times == sorted(times)
    first_loss = run.columns["end"][run.columns["cause"] == run.causes.index("lost")].min()
    (loss,) = (each for each in film_of(run)["moments"] if each["kind"] == "loss")
    assert loss["time"] == first_loss
    noted = {(time, f"{run.agents[agent]}: {text}") for time, agent, text in run.notes()}
    assert {(each["time"], each["text"]) for each in film_of(run)["moments"] if each["kind"] == "note"} <= noted


class Joiner(netsim.Agent):
    draw: ClassVar = {"root": Star(), "parent": Edge()}

    def __init__(self, root: bool, plan: list[tuple[float, Any]]) -> None:
        self.root, self.parent, self.plan = root, None, plan

    async def run(self) -> None:
        for time, parent in self.plan:
            await asyncio.sleep(time - self.now)
            self.parent = parent
        await asyncio.sleep(max(5 - self.now, 0))


def test_the_tree_is_reached_by_half_by_all_and_mended() -> None:
    graph = topology.complete(4)
    plans: dict[int, list[tuple[float, Any]]] = {
        0: [], 1: [(0.5, 0)], 2: [(1.0, 1), (3.5, 0)], 3: [(2.0, 1), (3.25, 2)]
    }  # fmt: skip
    network = Network(graph, seed=1, faults=[Crash(1, at=3.0)])
    run = history_of(network.run({i: Joiner(i == 0, plans[i]) for i in graph}, trace=True))
    texts = said(run)
    assert "2 of 4 agents are in the tree" in texts
    assert "All 4 agents are in the tree, at most 2 hops deep" in texts
    # Agent 1 was the parent of both agents.
    assert "3 chooses another parent (1 is down)" in texts
    assert "2 chooses another parent (1 is down)" in texts


class Giver(Joiner):
    draw: ClassVar = {"root": Star(), "gave_to": Edge(lambda agent: agent.parent)}


def test_an_edge_that_is_called_otherwise_is_no_parent_and_makes_no_tree() -> None:
    graph = topology.complete(4)
    plans: dict[int, list[tuple[float, Any]]] = {0: [], 1: [(1.0, 0)], 2: [(1.0, 0)], 3: [(1.0, 1), (2.0, 2)]}
    texts = said(history_of(Network(graph, seed=1).run({i: Giver(i == 0, plans[i]) for i in graph}, trace=True)))
    # Half of the agents and all of them have a parent at the same time, so only one of the two sentences is shown.
    assert texts == ["All 4 agents have a way to a root by gave_to, at most 2 hops deep", "3 has another gave_to"]


def test_an_entry_that_another_has_committed_is_not_called_never_committed() -> None:
    words = ["1|a", "!1|a", "2|b", "!1|a 1|c", "!1|a 2|d"]
    states = {"times": [1.0, 2.0, 3.0, 4.0, 5.0], "agents": [0, 1, 0, 1, 1], "sent": [0] * 5}
    states["values"] = {"log": {"words": words, "codes": [0, 1, 2, 3, 4]}}
    texts = said(history(0, 9.0, 1.0, states=states, draw={"log": {"as": "strip"}}, marks=None))
    assert texts == ["1 commits “a”", "0 drops “a”, although committed", "1 drops “c”, never committed"]


def test_nothing_is_called_first_where_only_a_part_is_shown() -> None:
    states = {"times": [1.0, 2.0], "agents": [0, 0], "sent": [0, 1], "thinned": True}
    states["values"] = {"role": {"words": ["x", "y"], "codes": [0, 1]}}
    more: dict[str, Any] = {"states": states, "draw": {"role": {"as": "role"}}, "marks": None}
    assert said(history(40, 9.0, 0.1, omitted="40 of 41 frames are shown", **more)) == []
    more["states"] = states | {"thinned": False}
    assert {each.split(":")[0] for each in said(history(40, 9.0, 0.1, **more))} == {
        "0 is now y", "The first frame arrives", "The first frame does not arrive"
    }  # fmt: skip


def test_at_most_22_moments_those_of_most_weight() -> None:
    times = np.linspace(0.1, 9.9, 99).tolist()
    marks = {"times": times, "agents": [0] * 99, "texts": [str(each) for each in range(99)]}
    fault = {"what": "Crash", "text": "agent 1 is down", "begin": 9.5, "end": None, "agents": [1], "links": []}
    table = film_of(history(50, 10.0, 0.1, marks=marks, faults=[fault]))
    assert len(table["moments"]) == 22
    assert "agent 1 is down" in [each["text"] for each in table["moments"]]


def test_many_names_are_a_number() -> None:
    assert listed(["2", "3", "4"]) == "2, 3 and 4"
    assert listed([str(each) for each in range(7)]) == "7 agents"


# --- one table for page, film and live view ---------------------------------------------------------------------------


def test_page_film_and_live_view_read_one_table() -> None:
    graph = topology.complete(5)
    network = Network(graph, Link(latency=latency.uniform(0.005, 0.02), loss=0.05), seed=1)
    views: list[RunView] = []

    def viewer(run: Run, scene: Any) -> RunView:
        views.append(RunView(1, About(), 10**6, None, None, run, scene))
        return views[-1]

    network.show_to(viewer)
    run = network.run({i: Raft() for i in graph}, until=1.0, trace=True)
    meta, columns = parts_of(run)
    (found,) = re.findall(r'id="meta">(.*?)</script>', html(meta, columns), re.S)
    assert json.loads(found)["film"] == meta["film"] == film_of(RunHistory(meta, columns))
    assert views[0].news([0] * 5)["film"] == meta["film"]


def test_a_picture_reads_the_pages_table(split: Run, tmp_path: Path) -> None:
    meta, columns = parts_of(split)
    told = json.loads(json.dumps(meta["film"]))
    told["moments"][0]["text"] = "something else"
    wanted = Wanted(view="map", begin=told["moments"][0]["time"], size=(300, 200))
    alone = {name: each for name, each in meta.items() if name != "film"}
    made = [
        write_picture(each, columns, tmp_path / f"{number}.png", wanted).read_bytes()
        for number, each in enumerate((meta, alone, meta | {"film": told}))
    ]
    assert made[0] == made[1] != made[2]


def test_a_live_films_table_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "_PAUSE", 0.0)
    monkeypatch.setattr(observers, "_SHARE", 0)
    graph = topology.ring(4)
    network = Network(graph, Link(latency=0.03), round_period=0.1, seed=1)
    views, tables = [], []

    def viewer(run: Run, scene: Any) -> RunView:
        views.append(RunView(1, About(), 10**6, None, None, run, scene))
        return views[-1]

    network.show_to(viewer)
    for number in range(1, 6):
        network.at(0.1 * number + 0.05, lambda: tables.append(views[0].news([0] * 5)["film"]))
    network.run({i: Rounder(6) for i in graph})
    ends = [table["time"][-1] for table in tables]
    assert ends == sorted(set(ends))
    for before, after in itertools.pairwise(tables):
        assert after["film"][-1] > before["film"][-1]
        assert after["moments"][: len(before["moments"])] == before["moments"]


def test_a_film_shows_all_of_a_short_run_and_of_a_long_one_the_moments_of_most_weight() -> None:
    short = Film(film_of(history(5, 10.0, 0.1)))
    assert short.chosen(0.0, short.length, 100.0) == [(0.0, short.length)]
    run = history(400, 1000.0, 0.1)
    film = Film(film_of(run))
    spans = film.chosen(0.0, film.length, 24.0)
    assert sum(last - first for first, last in spans) == pytest.approx(24.0, abs=1e-3)
    for one, other in itertools.pairwise(spans):
        assert one[1] < other[0]
    heavy = max(film.moments, key=lambda each: each["weight"])
    assert any(first < heavy["film"] and heavy["film"] + heavy["stands"] < last for first, last in spans)


# --- follow one thing -------------------------------------------------------------------------------------------------


def test_a_command_is_followed_by_the_words_of_labels(split: Run) -> None:
    run = history_of(split, follow="c")
    rows = run.meta["film"]["follow"]["rows"]
    labels = {run.labels[number] for number in run.columns["label"][rows] if number >= 0}
    assert labels
    assert all(re.search(r"\bc\b", label) for label in labels)
    assert (np.diff(run.columns["depart"][rows]) >= 0).all()
    table = run.meta["film"]
    film, plain = Film(table), Film(film_of(run))
    flies = [row for row in rows if run.until[row] > run.columns["depart"][row]]
    assert (film.at(run.until[flies]) - film.at(run.columns["depart"][flies]) >= 0.5).all()
    assert film.length < plain.length
    assert table["most_film"] == MOST_FILM


def test_a_kind_is_followed_where_no_label_has_the_word(split: Run) -> None:
    run = history_of(split)
    rows = followed(run, "vote?")
    assert {run.kinds[kind] for kind in run.columns["kind"][rows]} == {"vote?"}
    assert len(rows) == (run.columns["kind"] == run.kinds.index("vote?")).sum()
    with pytest.raises(BadInput, match=r"follow = 'nothing': must be a word of a frame's label, or a kind: "):
        split.replay("nowhere.html", follow="nothing")


@pytest.mark.slow
def test_the_command_follows_a_reading_from_mote_to_sink(tmp_path: Path) -> None:
    few = ["--agents", "6", "--side", "40", "--period", "5", "--readings", "2", "--routing", "ctp", "--awake", "1"]
    call("run", "convergecast", *few, "--trace", "--out", "run", cwd=tmp_path)
    done = call("replay", "run", "--follow", "3:2", cwd=tmp_path)
    page = (tmp_path / done.stdout.splitlines()[0]).read_text(encoding="utf-8")
    follow = json.loads(re.findall(r'"follow":(\{.*?\})', page)[0])
    assert follow["thing"] == "3:2"
    assert follow["rows"]
    done = call("replay", "run", "--follow", "mote", "--gif", cwd=tmp_path)
    assert done.returncode == 2
    assert "follow = 'mote': must be a word of a frame's label, or a kind: " in done.stderr
    (tmp_path / "run").rename(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert call("compare", "--replay", "one", "two", cwd=tmp_path).stdout.split() == ["compare.html"]
    assert '"names":["one","two"]' in (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert call("compare", "--replay", "one", cwd=tmp_path).returncode == 2


def test_a_film_goes_where_the_followed_goes(split: Run, tmp_path: Path) -> None:
    run = history_of(split, follow="c")
    film = Film(run.meta["film"])
    flights = [(float(film.at(run.columns["depart"][row])), float(film.at(run.until[row]))) for row in film.path]
    spans = film.chosen(0.0, film.length, 24.0, flights)
    assert any(first <= flights[0][0] and flights[0][1] <= last for first, last in spans)
    write_picture(run.meta, run.columns, tmp_path / "c.gif", Wanted(fps=1, size=(300, 200)))
    assert (tmp_path / "c.gif").is_file()


# --- runs side by side ------------------------------------------------------------------------------------------------


def test_a_page_of_two_runs_has_both(split: Run, tmp_path: Path) -> None:
    path = netsim.replay.compare([split, raft()], tmp_path / "both.html", names=["cut", "whole"])
    (found,) = re.findall(r'id="meta">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)
    meta = json.loads(found)
    assert (meta["title"], meta["names"]) == ("cut | whole", ["cut", "whole"])
    assert meta["runs"][0]["film"] == parts_of(split)[0]["film"]
    assert meta["runs"][0]["counts"] != meta["runs"][1]["counts"]


def test_what_cannot_be_compared_is_refused_in_one_line(split: Run, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="runs = 1: must be two or three runs"):
        netsim.replay.compare([split], tmp_path / "a.html")
    with pytest.raises(BadInput, match=r"names = \['x', 'x'\]: must be 2 different names"):
        netsim.replay.compare([split, split], tmp_path / "a.html", names=["x", "x"])
    assert not list(tmp_path.iterdir())


def test_what_comes_back_to_a_source_is_no_arrival_and_a_token_has_its_word() -> None:
    class Echo(netsim.Agent):
        draw: ClassVar = {"first": Star(), "has_coin": Token()}

        def __init__(self, first: bool) -> None:
            self.first = self.has_coin = first

        async def run(self) -> None:
            while True:
                if self.has_coin:
                    await asyncio.sleep(1.0)
                    self.has_coin = False
                    await self.broadcast("news", None)
                await self.inbox.get()
                self.has_coin = True

    graph = topology.path(2)
    run = Network(graph, Link(latency=0.25)).run({i: Echo(not i) for i in graph}, trace=True, until=4.0)
    texts = [each["text"] for each in film_of(history_of(run))["moments"]]
    assert texts.count("1 has the coin") == 2
    assert {*texts} == {"The first frame arrives: news from 0 to 1", "1 has the coin", "0 has the coin"}
