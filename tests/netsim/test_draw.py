"""`netsim.draw`: how agents declare which of their states are drawn, and how."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar

import numpy as np
import pytest

import netsim
from netsim import Link, Network, Run, topology
from netsim.agents.classics import Raft
from netsim.draw import (
    Arc,
    Badge,
    Drawn,
    Edge,
    Gauge,
    Kind,
    Number,
    Role,
    Stack,
    Star,
    Strip,
    Token,
    declared,
    named_kinds,
    resolved,
)  # fmt: skip
from netsim.errors import BadInput, NetsimError
from netsim.replay.canvas import Call
from netsim.replay.film import Film, film_of
from netsim.replay.html import tokens
from netsim.replay.render import parts
from netsim.replay.run_history import RunHistory
from netsim.replay.still import Still

PATH = topology.path(3)


class Child(netsim.Agent):
    """After a second, chooses the previous agent as its parent and counts one action."""

    draw: ClassVar[Mapping[str, Any]] = {
        "parent": Edge(),
        "root": Star(lambda agent: agent.name == 0),
        "done": Strip(committed=lambda agent: len(agent.done) - 1),
        "waiting": Stack(),
        "left": Gauge(),
        "due": Arc(),
    }

    def __init__(self, **values: Any) -> None:
        self.parent: Any = None
        self.done, self.waiting, self.left, self.due = [(1, "first")], 0, 1.0, 2.0
        vars(self).update(values)

    async def run(self) -> None:
        await self.broadcast("hello", None)
        await self.inbox.get()
        self.parent = {0: None, 1: 0, 2: 1}[int(str(self.name))]
        self.done = [*self.done, (2, "then")]
        self.waiting, self.left = 3, 0.1
        await asyncio.sleep(0.25)
        self.left = 0.05


def played(watched: Any = None, draw: Any = None, trace: bool = True, **values: Any) -> Run:
    network = Network(PATH, Link(latency=1.0), seed=1)
    if watched is not None or draw is not None:
        network.watch(() if watched is None else watched, draw)
    return network.run({name: Child(**values) for name in PATH}, trace=trace, until=1.5)


def drawn(run: Run, **how: Any) -> dict[str, Any]:
    found: dict[str, Any] = parts(run.trace, states=run.watch.table() if run.watch else None, **how)[0]["draw"]
    return found


def test_a_class_declares_once_and_a_traced_run_watches() -> None:
    run = played()
    assert list(run.states.columns) == ["time_s", "agent", "sent", *Child.draw]
    last = run.states.groupby("agent").last()
    assert last.parent.tolist()[1:] == [0, 1]
    assert last.done.tolist() == ["!1|first 2|then"] * 3
    assert run.trace.scene is not None
    assert run.trace.scene.draw["done"] == {"as": "strip"}
    assert drawn(run)["parent"] == {"as": "edge", "colour": True}
    assert played(trace=False).watch is None
    assert played(trace=False).trace_hash == run.trace_hash


def test_precedence_is_replay_watch_class_default() -> None:
    run = played({"waiting": lambda agent: agent.waiting % 2 == 1, "left": "left"}, {"left": Number(middle=0.5)})
    assert drawn(run)["left"] == {"as": "number", "middle": 0.5}
    # The user's function replaces the class's state, so it is not drawn as the class declares.
    assert drawn(run)["waiting"] == {"as": "role"}
    assert drawn(run, draw={"left": Badge(), "parent": None}).keys() == drawn(run).keys() - {"parent"}
    assert drawn(run, draw={"left": Badge()})["left"] == {"as": "badge"}
    with pytest.raises(BadInput, match=r"draw = 'lft': must be a state that the run watched: "):
        drawn(run, draw={"lft": Badge()})


def test_what_is_drawn_adds_no_row_to_what_a_user_watches() -> None:
    asked = {"twice": lambda agent: 2 * agent.waiting}
    traced, plain = played(asked), played(asked, trace=False)
    assert traced.states.equals(plain.states)
    assert len(traced.watch.table()) > len(traced.states)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([None, "a", "b"], {"as": "edge", "colour": True}),
        ([True, False, False], {"as": "star"}),
        ([True, True, False], {"as": "role"}),
        (["red", "blue", "red"], {"as": "role"}),
        ([0, 3, 9], {"as": "number"}),
        ([None, None, None], None),
    ],
)
def test_values_decide_where_nothing_is_declared(values: list[Any], expected: Any) -> None:
    words = list(dict.fromkeys(str(each) for each in values if each is not None))
    coded = {"words": words, "codes": [-1 if each is None else words.index(str(each)) for each in values]}
    column = values if isinstance(values[1], int) and not isinstance(values[1], bool) else coded
    states = {"agents": [0, 1, 2], "values": {"x": column}}
    assert resolved(states, ["a", "b", "c"], {}).get("x") == expected


def test_a_flag_that_wanders_is_a_token() -> None:
    # Agent 0's flag ends before agent 1's begins, so at most one agent has the flag.
    states = {"agents": [0, 1, 0, 1], "values": {"x": {"words": ["True", "False"], "codes": [0, 1, 1, 0]}}}
    assert resolved(states, ["a", "b"], {})["x"] == {"as": "token"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"parent": 7}, r"draw, parent of agent 0 = 7: must be the name of an agent, or None, at 0 s"),
        ({"left": 1.5}, r"draw, left of agent 0 = 1.5: must be a share from 0 to 1, at 0 s"),
        ({"due": "soon"}, r"draw, due of agent 0 = 'soon': must be a time \(s\), at 0 s"),
        ({"waiting": -1}, r"draw, waiting of agent 0 = -1: must be a count of at least 0, at 0 s"),
        ({"done": "x"}, r"draw, done of agent 0 = 'x': must be a list or tuple, at 0 s"),
        ({"done": []}, r"draw, done of agent 0 at 0 s: committed = -1: must be from 0 to the strip's length of 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_agent_and_time(values: dict[str, Any], message: str) -> None:
    with pytest.raises(NetsimError, match=message):
        played(**values)


class Late(netsim.Agent):
    """Has no attribute `found` until it has found something."""

    draw: ClassVar[Mapping[str, Drawn]] = {"found": Badge(), "lgo": Strip()}

    def __init__(self, finds: bool, log: bool) -> None:
        self.finds = finds
        if log:
            self.lgo = ["x"]

    async def run(self) -> None:
        async for k in self.rounds(3):
            if self.finds and k == 3:
                self.found = "it"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_declared_state_that_no_agent_of_the_class_ever_has_is_refused(workers: int) -> None:
    def played(*late: tuple[bool, bool]) -> Run:
        agents = dict(zip(PATH, [*(Late(*each) for each in late), *(Child() for _ in PATH)], strict=False))
        return Network(PATH, Link(latency=0.1)).run(agents, until=4.0, trace=True, workers=workers)

    # `Child` agents have neither attribute and do not declare them. Each attribute exists for one of the two `Late`
    # agents, at the latest in round 3.
    assert played((True, False), (False, True)).states["found"].notna().any()
    with pytest.raises(BadInput, match=r"^draw, lgo of agent 0 at \d s: 'Late' object has no attribute 'lgo'$"):
        played((True, False))
    with pytest.raises(BadInput, match=r"^draw, found of agent 0 at \d s: 'Late' object has no attribute 'found'$"):
        played((False, True), (False, False))


def test_two_edges_do_not_both_give_the_colour() -> None:
    network = Network(PATH)
    with pytest.raises(BadInput, match="draw: a and b: must be one Edge that gives the colour"):
        network.watch(draw={"a": Edge(colour=True), "b": Edge(colour=True)})
    with pytest.raises(BadInput, match=r"draw = \{'a': 'edge'\}: must be"):
        network.watch(draw={"a": "edge"})  # type: ignore[dict-item]
    with pytest.raises(FrozenInstanceError):
        Edge().colour = True  # type: ignore[misc]


def test_a_motes_parts_declare_theirs() -> None:
    class Counter(netsim.Part):
        draw: ClassVar[Mapping[str, Drawn]] = {"count": Number(), "log": Strip(committed="count")}
        count, log = 1, ("x", "y")

    mote = netsim.Mote(one=Counter(), two=Counter())
    found = declared([mote])
    assert list(found) == ["one.count", "one.log", "two.count", "two.log"]
    assert found["two.count"][1](mote) == 1
    assert found["one.count"][1](Raft()) is None


def test_a_kind_of_message_has_a_word() -> None:
    drawn = {"routing.d": Kind("reading").as_dict(), "x": None, "b": Kind("ack").as_dict(), "queue": Stack().as_dict()}
    assert named_kinds(["d", "b", "ack", "x"], drawn) == ["reading", "b", "ack", "x"]

    class Told(Child):
        draw: ClassVar[Mapping[str, Drawn]] = {**Child.draw, "hello": Kind("greeting")}

    agents = {i: Told() for i in PATH}
    run = Network(PATH, Link(latency=1.0), seed=1).run(agents, trace=True, until=1.5)
    assert "hello" not in run.states
    assert parts(run.trace, states=run.states)[0]["kinds"] == ["greeting"]


def test_a_tree_has_depths_loops_and_agents_without_a_way() -> None:
    run = played()
    history = RunHistory(*parts(run.trace, states=run.states))
    assert history.tree_at("parent", 1.2) == ([-1, 0, 1], [0.0, 1.0, 2.0])
    assert np.isnan(history.tree_at("parent", 0.5)[1]).tolist() == [False, True, True]


def picture(time: float, **values: Any) -> list[Call]:
    run = played(**values)
    meta, columns = parts(run.trace, states=run.states)
    # At a twentieth of real time, a new element is marked for 0.15 s of simulated time.
    table = film_of(RunHistory(meta, columns), pace=0.05)
    size, meta = (1000, 700), {**meta, "film": table}
    found = Still(meta, columns, view="map", theme="light", size=size, k=1.0, begin=0.0, end=1.5)
    return [*itertools.chain(*found.at(float(Film(table).at(time))))]


def count(drawn: list[Call], name: str) -> int:
    """Return how many areas have a given colour of the light theme."""
    return sum(each["fill"] == tokens()["themes"]["light"][name] and "codes" in each for each in drawn)


def test_the_map_at_a_time_has_what_is_declared() -> None:
    before, after = picture(0.5), picture(1.2)
    # Two arrowheads are added to that of the legend; a new arrow also glows.
    assert count(after, "edge") - count(before, "edge") == 2
    assert count(picture(1.1), "accent") - count(after, "accent") == 2
    # Three items wait at each of three agents, and their batteries are now low.
    assert count(after, "past") - count(before, "past") == 9
    assert count(before, "good") - count(after, "good") == 3
    words = [each["text"] for each in after if "text" in each and each["fill"]]
    # The entries of the logs are shortened, because a cell has room for three letters.
    assert words.count("fi…") == words.count("th…") == 3
    assert words.count("t2") == 3
    assert "th…" not in [each["text"] for each in before if "text" in each]


# Matrices for colours as seen with complete colour vision deficiencies (Machado, Oliveira and Fernandes 2009), and for
# OKLab.
SEEN = {
    "all": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
CONES = [[0.4122215, 0.5363325, 0.0514460], [0.2119035, 0.6806995, 0.1073970], [0.0883025, 0.2817188, 0.6299787]]
LAB = [[0.2104543, 0.7936178, -0.0040720], [1.9779985, -2.4285922, 0.4505937], [0.0259040, 0.7827718, -0.8086758]]


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize(("name", "least"), [("ordinal", 10.9), ("diverging", 7), ("roles", 11.5)])
def test_colours_differ_in_every_vision(name: str, least: float, seen: str) -> None:
    found = tokens()[name]
    scale = found["light"] if name == "diverging" else [each["light"] if name == "roles" else each for each in found]
    shares = np.array([[int(each[i : i + 2], 16) for i in (1, 3, 5)] for each in scale]) / 255
    light = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    lab = np.cbrt(np.clip(light @ np.array(SEEN[seen]).T, 0, 1) @ np.array(CONES).T) @ np.array(LAB).T
    apart = 100 * np.linalg.norm(lab[:, None] - lab[None, :], axis=-1)
    assert apart[~np.eye(len(scale), dtype=bool)].min() >= least


def test_rafts_log_is_a_strip_with_its_terms() -> None:
    graph = topology.complete(3)
    run = Network(graph, Link(latency=0.01), seed=1).run(
        {name: Raft(commands=[(0.6, "x"), (0.7, "y")]) for name in graph}, trace=True, until=1.5
    )
    texts = run.states.log.unique().tolist()
    assert texts[0] == "-"
    assert {text for text in texts if text.count("|") == 2} >= {"!1|x !1|y"}
    assert drawn(run).keys() == {"role", "term", "due", "log"}
    assert Role(usual="follower") == Raft.draw["role"]
    assert Token().as_dict() == {"as": "token"}
