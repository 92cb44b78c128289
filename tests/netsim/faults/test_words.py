"""Faults as text: the syntax of ``--at``, and its effect in a run, a sweep and `netsim verify`."""

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import BadInput, Faults, Link, Network, Radio, topology
from netsim.faults import Crash, Hold, LinkChange, LinkDown, Lose, Partition, Straggler, read
from netsim.faults.words import FORMS, joined, parse
from netsim.studies.catalogue import find_study
from tests.command import call, on_the_other_core
from tests.parts import every

pytestmark = pytest.mark.usefixtures("all_undrawn")

RING = topology.ring(8)


@every(
    ("text", "fault"),
    [
        ("1.2 crash 3 until 2", Crash(3, 1.2, until=2)),
        ("1.2 crash 3", Crash(3, 1.2)),
        ("1.2 crash 3 until 2 keeping state", Crash(3, 1.2, until=2, keeps_state=True)),
        ("2 cut 3-4 until 3", LinkDown(3, 4, 2, until=3)),
        ("2 cut 3->4 until 3", LinkDown(3, 4, 2, until=3, one_way=True)),
        ("2 cut 4 -> 3", LinkDown(4, 3, 2, one_way=True)),
        ("1 delay 3 by 0.1 until 2", Straggler(3, 0.1, at=1, until=2)),
        ("1 lose 3-4", Lose(3, 4, 1)),
        ("0.08 partition 0,1 until 0.26", Partition([0, 1], at=0.08, until=0.26)),
        ("  0.08   partition 0, 1", Partition([0, 1], at=0.08)),
        ("1 partition 0, 1-> until 2", Partition([0, 1], at=1, until=2, one_way=True)),
        ("1 partition 0,1 until 2 dropping frames", Partition([0, 1], at=1, until=2, drops=True)),
        ("2 cut 3->4 dropping frames", LinkDown(3, 4, 2, one_way=True, drops=True)),
        ("2 cut 3-4 until 3 dropping frames", LinkDown(3, 4, 2, until=3, drops=True)),
        ("2 change 3-4 to loss=0.3", LinkChange(3, 4, 2, loss=0.3)),
        ("2 change 3->4 to rate=1e6,queue=3 until 5", LinkChange(3, 4, 2, 5, one_way=True, rate=1e6, queue=3)),
        ("2 hold 3-4 until 5", Hold(3, 4, 2, until=5)),
        ("2 hold 4->3", Hold(4, 3, 2, one_way=True)),
        ("2 hold 4", Hold(4, None, 2)),
    ],
)
def test_each_form_is_a_fault(text: str, fault: netsim.faults.Fault) -> None:
    assert parse(text, RING) == Faults([fault])
    assert parse([text], RING, [Crash(7, at=5)]) == Faults([fault, Crash(7, at=5)])


@pytest.mark.parametrize(("begins", "ends", "kind"), [("cut", "heal", LinkDown), ("hold", "release", Hold)])
def test_one_direction_ends_alone(begins: str, ends: str, kind: type[LinkDown] | type[Hold]) -> None:
    # The other direction continues as one fault, instead of ending and starting again at that instant.
    both = parse(f"1 {begins} 3-4 until 9; 2 {ends} 4->3", RING)
    assert both == Faults([kind(3, 4, 1, 9, one_way=True), kind(4, 3, 1, 2, one_way=True)])
    assert parse(f"5 {ends} 3->4", RING, both) == Faults([kind(3, 4, 1, 5, one_way=True), both[1]])
    assert parse(f"1 {begins} 3-4; 1 {ends} 4->3", RING) == Faults([kind(3, 4, 1, one_way=True)])
    # An end for both directions ends a fault of one direction. An end for the opposite direction ends none.
    assert parse(f"1 {begins} 3->4; 2 {ends} 4-3", RING) == Faults([kind(3, 4, 1, 2, one_way=True)])
    with pytest.raises(BadInput, match=f"{ends} 4->3': must be of a link"):
        parse(f"1 {begins} 3->4; 2 {ends} 4->3", RING)
    directed = nx.DiGraph([(3, 4), (4, 5), (5, 3)])
    assert parse(f"1 {begins} 3-4; 2 {ends} 3->4", directed) == Faults([kind(3, 4, 1, 2)])


def test_a_heal_of_both_directions_ends_a_one_way_partition() -> None:
    for link in ("1-2", "2-1", "1->2"):
        expected = Faults([Partition([0, 1], 1, 3, one_way=True)])
        assert parse(f"1 partition 0,1->; 3 heal {link}", RING) == expected


def test_a_restart_ends_a_crash_and_heal_a_cut() -> None:
    assert parse("1.2 crash 3; 2 restart 3", RING) == Faults([Crash(3, 1.2, until=2)])
    assert parse(["2 restart 3 keeping state", "1.2 crash 3"], RING) == Faults([Crash(3, 1.2, 2, keeps_state=True)])
    # A heal may name the link's ends in any order, and it may name any link that a partition cuts. Other faults stay.
    assert parse(["2 cut 3-4", "2.5 heal 4-3"], RING) == Faults([LinkDown(3, 4, 2, until=2.5)])
    assert parse(["1 partition 0,1", "3 heal 1-2"], RING) == Faults([Partition([0, 1], 1, until=3)])
    assert parse(["1 cut 3->4", "3 heal 3->4"], RING) == Faults([LinkDown(3, 4, 1, 3, one_way=True)])
    holds = [Hold(3, 4, at=1), Hold(4, None, at=1, until=9)]
    assert parse("2 release 4-3", RING, holds) == Faults([Hold(3, 4, at=1, until=2), holds[1]])
    assert parse("2 release 4", RING, holds) == Faults([holds[0], Hold(4, None, at=1, until=2)])
    own = [Crash(3, at=1, until=9), Crash(4, at=1)]
    assert parse("2 restart 3", RING, own) == Faults([Crash(3, at=1, until=2), Crash(4, at=1)])


def test_nodes_are_found_by_the_text_of_their_names() -> None:
    grid = nx.grid_2d_graph(2, 2)
    assert parse("1 crash (0, 1)", grid) == Faults([Crash((0, 1), 1)])
    assert parse("1 lose (0, 0)-(0, 1)", grid) == Faults([Lose((0, 0), (0, 1), 1)])
    assert parse("1 partition (0, 0),(1, 1)", grid) == Faults([Partition([(0, 0), (1, 1)], 1)])
    named = nx.Graph([("a-b", "c"), ("c", "d e")])
    assert parse("1 cut a-b-c", named) == Faults([LinkDown("a-b", "c", 1)])
    assert parse("1 crash d e until 2", named) == Faults([Crash("d e", 1, until=2)])


@every(
    ("text", "words"),
    [
        ("1 crsh 3", "must be one of: TIME crash"),
        ("crash 3", "must be one of: TIME crash"),
        ("x crash 3", "must begin with a time in seconds, >= 0, not 'x'"),
        ("-1 crash 3", "must begin with a time in seconds"),
        ("1 crash 3 until 0.5", "which ends after 1 s"),
        ("1 crash 99", "must be of a node of the graph: 0, 1, 2"),
        ("1 crash 3 by 2", "must be TIME crash NODE"),
        ("1 crash 3 keeping state", "with until"),
        ("1 delay 3", "must be TIME delay NODE by SECONDS"),
        ("1 delay 3 by 0", "must name a delay in seconds, > 0, not '0'"),
        ("1 cut 3-5", "must be of a link of the graph"),
        ("1 restart 3", "must be of a node that has crashed"),
        ("1 heal 3-4", "must be of a link that is cut"),
        ("1 heal 3->4", "must be of a link that is cut"),
        ("1 release 3", "must be of a link or a node that is on hold"),
        ("1 hold 3-5", "must be of a link of the graph"),
        ("1 crash 3 dropping frames", "must be TIME crash NODE"),
        ("1 change 3-4", "must be TIME change NODE-NODE to SETTING=NUMBER"),
        ("1 change 3-4 to loss", "must have SETTING=NUMBER of latency, loss, rate"),
        ("1 change 3-4 to loss=high", "must have SETTING=NUMBER of latency, loss, rate"),
        ("1 change 3-4 to mtu=9", "must have SETTING=NUMBER of latency, loss, rate"),
        ("1 change 3-4 to loss=2", "loss = 2.0: must be"),
        ("1 partition 0,x", "must be of nodes of the graph"),
        ("1 partition 0,1,2,3,4,5,6,7", "must be of some of the nodes, and not all"),
        ("", "must be one of"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse([text], RING)
    assert str(caught.value).startswith(f"at = {text!r}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


SCHEDULE = """time,link,what
2,3-4,"loss=0.3,rate=1e6"
1,0->1,cut dropping frames
4, 0->1, heal

5,3,hold until 6
5,3-4,change to latency=0.1 until 7
"""


def test_a_schedule_is_a_table_of_orders(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text(SCHEDULE, encoding="utf-8-sig")
    own = [LinkDown(0, 1, at=0.5)]
    assert read(tmp_path / "day.csv", RING, own) == Faults(
        [
            LinkDown(1, 0, at=0.5, one_way=True),
            LinkDown(0, 1, at=0.5, until=4, one_way=True),
            LinkDown(0, 1, 1, until=4, one_way=True, drops=True),
            LinkChange(3, 4, 2, loss=0.3, rate=1e6),
            Hold(3, None, 5, until=6),
            LinkChange(3, 4, 5, until=7, latency=0.1),
        ]
    )


@every(
    ("text", "words"),
    [
        ("", "must be a csv file with the columns time, link, what"),
        ("time,what\n", "must be a csv file with the columns time, link, what"),
        ("time,link,what\n1,3-4,cut\n2,3-4\n", "line 3: must have 3 columns, not 2"),
        ("time,link,what\nx,3-4,cut\n", "line 2: at = 'x cut 3-4': must begin with a time"),
        ("time,link,what\n1,3-4,loss=9\n", "loss = 9.0: must be"),
        ("time,link,what\n1,3-5,cut\n", "line 2: at = '1 cut 3-5': must be of a link"),
        ("time,link,what\n1,3-4,heal\n", "must be of a link that is cut"),
        ("time,link,what\n1,3-4,cut; 2 crash 3\n", "line 2: at = "),
    ],
)
def test_a_table_that_is_no_schedule_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text(text)
    with pytest.raises(BadInput) as caught:
        read(tmp_path / "day.csv", RING)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="must be a csv file that can be read"):
        read(tmp_path / "none.csv", RING)


def test_every_form_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/faults.md").read_text()
    for form in FORMS:
        assert form in page


def test_joined_is_one_text_in_order_of_time() -> None:
    assert joined(["2  restart 3", "1 crash 3"]) == "1 crash 3; 2 restart 3"
    assert joined("2 restart 3;1 crash 3") == "1 crash 3; 2 restart 3"


# --- losing one frame -------------------------------------------------------------------------------------------------


class Teller(netsim.Agent):
    """Sends its name in each round, by broadcast or to each neighbour, and records the senders of received frames."""

    def __init__(self, to_all: bool = True) -> None:
        self.to_all = to_all
        self.heard: dict[int, list[int]] = {}

    async def run(self) -> None:
        async for k in self.rounds(5):
            if self.to_all:
                await self.broadcast("hello", k)
            else:
                for name in self.neighbors:
                    await self.send(name, "hello", k)
            self.heard[k] = sorted(frame.sender for frame in await self.collect())


def told(faults: list[netsim.faults.Fault], to_all: bool = True, workers: int = 1, **more: object) -> netsim.Run:
    network = Network(topology.ring(4), Link(latency=0.1, rate=1e9), faults=faults, **more)  # type: ignore[arg-type]
    return network.run({node: Teller(to_all) for node in network.graph}, trace=True, workers=workers)


@pytest.mark.parametrize("to_all", [True, False])
@pytest.mark.parametrize("medium", ["wires", "radio"])
def test_one_frame_is_lost_in_one_direction(to_all: bool, medium: str) -> None:
    run = told([Lose(0, 1, at=1.5)], to_all, medium=medium)
    assert [run.agents[1].heard[k] for k in range(1, 6)] == [[0, 2], [0, 2], [2], [0, 2], [0, 2]]
    assert all(run.agents[0].heard[k] == [1, 3] for k in range(1, 6))
    assert run.ledger.table([])["lost"].item() == 1
    ended = run.trace.table()
    lost = ended[ended["event"] == "lost"]
    assert lost[["sender", "receiver", "time_s"]].to_numpy().tolist() == [[0, 1, 2.0]]


def test_two_lose_two_and_a_cut_link_loses_none() -> None:
    assert told([Lose(0, 1, at=1.5)] * 2).ledger.table([])["lost"].item() == 2
    run = told([Lose(0, 1, at=1.5), LinkDown(0, 1, at=1.5, until=3.5)])
    # The one frame to lose is counted among the frames sent over the link, and a cut link sends none.
    assert [run.agents[1].heard[k] for k in range(1, 6)] == [[0, 2], [0, 2], [2], [2], [2]]
    assert (run.ledger.table([])["lost"].item(), run.ledger.table([])["link_down"].item()) == (1, 4)


def test_a_loss_is_the_same_over_two_workers() -> None:
    faults = [Lose(0, 1, at=1.5), Lose(3, 2, at=2.5)]
    assert told(faults).trace_hash == told(faults, workers=2).trace_hash


def test_on_a_radio_a_transmission_is_lost_and_sent_again_if_acknowledged() -> None:
    radio = {"rate": 250e3}

    def play(acks: bool) -> netsim.Run:
        network = Network(topology.path(2), Link(**radio), medium=Radio(acks=acks), faults=[Lose(0, 1, at=1.5)], seed=3)
        return network.run({node: Teller(to_all=False) for node in network.graph}, trace=True)

    assert play(acks=False).ledger.table([])["lost"].item() == 1
    assert play(acks=False).agents[1].heard[3] == []
    assert play(acks=True).ledger.table([])["lost"].item() == 0
    assert play(acks=True).agents[1].heard[3] == [0]


def test_both_cores_lose_the_same() -> None:
    there = on_the_other_core("from tests.netsim.faults.test_words import hashes; print(hashes())")
    assert there == f"{hashes()}\n"


def hashes() -> list[str]:
    """Return hashes of runs that lose frames: on wires, on a radio, and on a radio without acknowledgements."""
    lost = [Lose(0, 1, at=1.5), Lose(2, 1, at=0)]
    media: list[Any] = ["wires", "radio", Radio(acks=False)]
    return [told(lost, medium=medium).trace_hash for medium in media]


def test_it_is_saved_loaded_drawn_and_checked(tmp_path: Path) -> None:
    script = Faults([Lose(0, 1, at=1.5)])
    script.save(tmp_path / "script.json")
    assert Faults.load(tmp_path / "script.json") == script
    assert str(script) == "link 0 → 1 loses the next frame from 1.5 s"
    assert all(isinstance(each, Lose) for each in Faults.draw(RING, until=9, losses=4))
    with pytest.raises(BadInput, match="Lose: link"):
        Network(RING, faults=[Lose(0, 2, at=1)])


# --- in studies -------------------------------------------------------------------------------------------------------

STUDY = """
from netsim import Agent, Link, Network, topology

class Talker(Agent):
    async def run(self):
        async for _ in self.rounds(5):
            await self.broadcast("x", 1)

def mine(study, *, agents: int = 4) -> None:
    for name, count in (("small", 3), ("large", agents)):
        graph = topology.ring(count)
        study.run(name, Network(graph, Link(latency=0.1)), {i: Talker() for i in graph}, [], 5)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(STUDY)
    return tmp_path


def test_a_study_has_the_faults_in_the_runs_that_have_the_nodes(place: Path) -> None:
    done = call("run", "mine.py", "--at", "2.5 restart 3", "--at", "1.5 crash 3", "--out", "out", cwd=place)
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "out/settings.json").read_text())["parameters"]["at"] == "1.5 crash 3; 2.5 restart 3"
    usual = find_study(str(place / "mine.py")).execute()
    study = find_study(str(place / "mine.py")).execute(at=["1.5 crash 3", "2.5 restart 3"])
    assert "at" not in usual.settings
    assert study.runs["small"].trace_hash == usual.runs["small"].trace_hash
    assert study.runs["large"].trace_hash != usual.runs["large"].trace_hash
    assert study.runs["large"].ledger.table([])["receiver_down"].item() > 0
    assert call("verify", "out", cwd=place).stdout.startswith("out: identical")
    assert "--at '1.5 crash 3; 2.5 restart 3'" in call("show", "out", cwd=place).stdout


def test_a_node_that_no_run_has_is_an_error_in_one_line(place: Path) -> None:
    done = call("run", "mine.py", "--at", "1.5 crash 9", "--out", "out", cwd=place)
    assert done.returncode == 2
    assert "netsim: at = '1.5 crash 9': must be of a node of the graph: 0, 1, 2" in done.stderr
    assert not (place / "out").exists()
    done = call("run", "mine.py", "--at", "1.5 crsh 9", cwd=place)
    assert done.stderr.startswith("netsim: at = '1.5 crsh 9': must be one of")


def test_a_sweep_varies_it(place: Path) -> None:
    words = ["--at", "1.5 crash 3; 2.5 restart 3", "--at", "1.5 cut 0-1"]
    done = call("sweep", "mine.py", *words, "--out", "sweep", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 points" in done.stdout
    table = (place / "sweep/points.csv").read_text()
    assert "1.5 crash 3; 2.5 restart 3" in table
    assert "1.5 cut 0-1" in table
