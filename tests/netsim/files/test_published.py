"""Small files in the formats of published programs and archives: each is read correctly or refused."""

import gzip
import itertools
import math
import struct
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from netsim import Agent, BadInput, Deployment, Link, Mote, Network, Radio, links, mobility, topology
from netsim.agents import Replayed
from netsim.faults import Move
from netsim.files import content
from netsim.files.captures import Packet, read_packets
from netsim.files.convert import convert
from netsim.files.places import EARTH_RADIUS_M, project
from netsim.radio import from_rssi
from netsim.testing import Rounder
from tests.command import call
from tests.fuzzers import field
from tests.parts import every, message_of, slow

HERE = Path(__file__).parent / "published"
OSLO, BERGEN, HAMAR = (10.75, 59.91), (5.32, 60.39), (11.07, 60.79)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Suppress the warnings about skipped entries, which pytest would turn into errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def graph_in(name: str) -> "nx.Graph[Any]":
    return topology.read(HERE / name, connected=False)


def edges_of(graph: "nx.Graph[Any]") -> set[frozenset[Any]]:
    return {frozenset(edge) for edge in graph.edges}


def great_circle(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the distance (m) between two positions (degrees) on a sphere, by the haversine formula."""
    (a, b), (c, d) = (tuple(map(math.radians, place)) for place in (one, other))
    half = math.sin((d - b) / 2) ** 2 + math.cos(b) * math.cos(d) * math.sin((c - a) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(math.sqrt(half))


# --- graphs -----------------------------------------------------------------------------------------------------------

PATH = [(0, 1), (1, 2)]


@every(
    ("name", "edges"),
    [
        ("zoo.gml", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]),
        ("zoo.graphml", [("0", "1"), ("1", "2")]),
        ("gephi.gexf", [("a", "b"), ("b", "c")]),
        ("gephi.csv", [("a", "b"), ("b", "c")]),
        ("pajek.net", [("Oslo", "Voss"), ("Voss", "Bergen")]),
        ("leda.lgr", [("a", "b"), ("b", "c")]),
        ("path.g6", PATH),
        ("path.s6", PATH),
        ("path.mtx", [*PATH, (2, 3)]),
        ("networkx.json", [("sink", 1), (1, 2)]),
        ("networkx.adjlist", [("0", "1"), ("0", "2"), ("1", "3")]),
        ("d3.json", [("Napoleon", "Myriel"), ("Cravatte", "Myriel")]),
        ("d3_by_place.json", [(1, 0), (2, 0)]),
        ("cytoscape.json", PATH),
        ("topohub.json", [(0, 1), (0, 2)]),
        ("snap.txt", [("0", "1"), ("1", "2"), ("2", "30")]),
        ("konect.tsv", [("1", "2"), ("2", "3"), ("3", "4")]),
        ("weighted.edges", [("gateway", "hall"), ("hall", "attic"), ("attic", "cellar")]),
        ("links.csv", [("gateway", "hall"), ("hall", "attic"), ("gateway", "server")]),
        ("matrix.csv", [("a", "b"), ("b", "c")]),
        ("matrix.txt", [*PATH, (2, 3)]),
        ("sndlib.txt", [("Oslo", "Bergen"), ("Oslo", "Hamar"), ("Hamar", "Bergen")]),
        ("sndlib.xml", [("Oslo", "Bergen"), ("Oslo", "Hamar"), ("Hamar", "Bergen")]),
        ("latencies.intra", [("Oslo,+NO4065", "Bergen,+NO4062"), ("Oslo,+NO4065", "Hamar,+NO3")]),
        ("weights.txt", [("Oslo,+NO4065", "Bergen,+NO4062"), ("Oslo,+NO4065", "Hamar,+NO3")]),
        ("map.cch", [(0, 1), (2, 0)]),
    ],
)
def test_graphs_have_the_edges_that_the_file_lists(name: str, edges: list[tuple[Any, Any]]) -> None:
    assert edges_of(graph_in(name)) == {frozenset(edge) for edge in edges}


@every(
    ("name", "edge", "known"),
    [
        ("zoo.graphml", ("1", "2"), {"LinkSpeedRaw": 1e10}),
        ("konect.tsv", ("3", "4"), {"weight": 2.5}),
        ("weighted.edges", ("attic", "cellar"), {"weight": 0.4}),
        ("gephi.csv", ("a", "b"), {"weight": 1.5}),
        ("links.csv", ("gateway", "hall"), {"latency": 0.005, "rate": 250e3, "loss": 0.1}),
        ("links.csv", ("hall", "attic"), {"latency": 0.02, "rate": 250e3}),
        # Capacity is the installed one, or else the smallest module; the weight is the routing cost, if given.
        ("sndlib.txt", ("Oslo", "Bergen"), {"capacity": 155.0, "weight": 3.0}),
        ("sndlib.txt", ("Oslo", "Hamar"), {"capacity": 2500.0}),
        ("sndlib.xml", ("Oslo", "Bergen"), {"capacity": 155.0, "weight": 3.0}),
        ("sndlib.xml", ("Oslo", "Hamar"), {"capacity": 2500.0}),
        ("latencies.intra", ("Oslo,+NO4065", "Bergen,+NO4062"), {"latency": 0.007}),
        ("weights.txt", ("Oslo,+NO4065", "Hamar,+NO3"), {"weight": 2.5}),
    ],
)
def test_edges_keep_what_links_are(name: str, edge: tuple[Any, Any], known: dict[str, float]) -> None:
    data = graph_in(name).edges[edge]
    assert {key: data[key] for key in known} == pytest.approx(known)
    assert not ({"latency", "rate", "weight", "capacity"} & data.keys()) - known.keys()


def test_a_router_of_rocketfuel_has_its_place_and_name() -> None:
    routers = graph_in("map.cch").nodes
    assert routers[0] == {"location": "Oslo, NO", "address": "gw1.example.net!", "backbone": True}
    assert routers[1] == {"location": "Bergen, NO", "address": "10.0.0.2", "backbone": False}


def test_attributes_become_links() -> None:
    table = graph_in("links.csv")
    table.add_edge("server", "far", dist=200)
    table.add_edge("far", "zoo", LinkSpeedRaw="155000000.0")
    found = links.from_graph(table, link=Link(rate=1e3, queue=7)).links
    assert len(found) == 2 * table.number_of_edges()
    assert found["attic", "hall"] == found["hall", "attic"] == Link(latency=0.02, rate=250e3, queue=7)
    assert found["gateway", "server"] == Link(latency=0.001, rate=1e9, loss=0.0, queue=7)
    # The latency of 1 ms is that of 200 km at two thirds of the speed of light.
    assert found["server", "far"] == Link(latency=0.001, rate=1e3, queue=7)
    assert found["zoo", "far"] == Link(rate=155e6, queue=7)
    run = Network(table, links=found).run({node: Rounder(1) for node in table})
    assert run.ledger.link_messages == len(found)


@every(
    ("data", "message"),
    [
        ({"latency": "soon"}, "edge ('a', 'b'): latency = 'soon': must be a number"),
        ({"latency": -1}, "edge ('a', 'b'): latency = -1: must be a number >= 0"),
        ({"dist": math.inf}, "edge ('a', 'b'): dist = inf: must be finite"),
        ({"rate": 0}, "edge ('a', 'b'): rate = 0: must be a number > 0"),
        ({"LinkSpeedRaw": "10G"}, "edge ('a', 'b'): LinkSpeedRaw = '10G': must be a number"),
        ({"loss": 1.5}, "edge ('a', 'b'): loss = 1.5: must be a probability"),
    ],
)
def test_an_attribute_that_is_no_setting_is_refused(data: dict[str, Any], message: str) -> None:
    assert message_of(lambda: links.from_graph(nx.Graph([("a", "b", data)])), BadInput).startswith(message)


def test_latencies_of_minutes_are_doubted() -> None:
    with pytest.warns(RuntimeWarning, match="latency = 35: is in seconds; were milliseconds given"):
        links.from_graph(nx.Graph([("a", "b", {"latency": 35})]))


# --- places -----------------------------------------------------------------------------------------------------------


@every("name", ["zoo.graphml", "topohub.json", "sndlib.txt", "sndlib.xml"])
def test_degrees_become_metres(name: str) -> None:
    with pytest.warns(RuntimeWarning, match=r"longitude and latitude projected to metres around \("):
        graph = graph_in(name)
    places = [data["pos"] for _, data in graph.nodes(data=True) if "pos" in data]
    assert math.dist(*places[:2]) == pytest.approx(great_circle(OSLO, BERGEN), rel=1e-3)


def test_the_projection_keeps_small_fields_and_those_at_the_date_line() -> None:
    rng = np.random.default_rng(5)
    for longitude, latitude in itertools.product((-180.0, -0.01, 90.0, 179.999), (-60.0, 0.0, 45.0)):
        degrees = {
            name: (longitude + float(rng.uniform(0, 0.01)), latitude + float(rng.uniform(0, 0.01))) for name in "abcd"
        }
        wrapped = {name: ((x + 180) % 360 - 180, y) for name, (x, y) in degrees.items()}
        places, _ = project(wrapped)
        for one, other in itertools.combinations("abcd", 2):
            expected = great_circle(wrapped[one], wrapped[other])
            assert math.dist(places[one], places[other]) == pytest.approx(expected, rel=1e-5)
        # On the plane, x grows towards the east and y towards the north.
        east, north = max(degrees, key=lambda n: degrees[n][0]), max(degrees, key=lambda n: degrees[n][1])
        assert places[east] == max(places.values(), key=lambda p: p[0])
        assert places[north] == max(places.values(), key=lambda p: p[1])


def test_lengths_grow_as_far_from_the_middle_as_the_docstring_says() -> None:
    for reach, error in ((500e3, 1.1e-3), (1500e3, 1e-2)):
        side = math.degrees(reach / EARTH_RADIUS_M)
        for latitude in (0.0, 50.0):
            corners = {
                name: (10.0 + x / math.cos(math.radians(latitude)), latitude + y)
                for name, (x, y) in zip("nesw", [(0, side), (side, 0), (0, -side), (-side, 0)], strict=True)
            }
            places, _ = project(corners)
            for one, other in itertools.combinations(corners, 2):
                length = great_circle(corners[one], corners[other])
                assert abs(math.dist(places[one], places[other]) / length - 1) < 1.5 * error
    # Points on opposite sides of the earth cannot be projected faithfully; their coordinates must still be finite.
    assert all(map(math.isfinite, project({0: (0, 90), 1: (0, -90), 2: (90, 0), 3: (-90, 0)})[0][1]))


# --- motes ------------------------------------------------------------------------------------------------------------


@every(
    ("name", "places", "roles"),
    [
        ("motes.csv", {0: (0.0, 0.0), 1: (30.0, 0.0), 2: (60.0, 5.0)}, {0: "gateway"}),
        ("cooja.csc", {1: (33.26, 30.64), 7: (60.0, -4.5)}, {1: "sink", 7: "sink"}),
        ("cooja_2022.csc", {1: (33.26, 30.64, 0.0), 7: (60.0, -4.5, 3.0)}, {1: "sender", 7: "sender"}),
        ("iotlab.json", {"m3-1": (20.1, 26.76, -0.04), "m3-381": (1.0, 25.23, -0.04)}, {"m3-1": "m3", "m3-381": "m3"}),
        (
            "iotlab.csv",
            {"m3-1.grenoble.iot-lab.info": (20.1, 26.76, -0.04), "m3-1.lille.iot-lab.info": (1.0, 2.0, 0.5)},
            {"m3-1.grenoble.iot-lab.info": "m3", "m3-1.lille.iot-lab.info": "m3"},
        ),
        ("networkx.json", {"sink": (0.0, 0.0), 1: (30.0, 0.0), 2: (60.0, 5.0)}, {}),
    ],
)
def test_motes_stand_where_the_file_says(name: str, places: dict[Any, Any], roles: dict[Any, str]) -> None:
    found = Deployment.read(HERE / name)
    assert (found.positions, found.roles) == (places, roles)


def test_what_files_of_motes_say_besides() -> None:
    assert Deployment.read(HERE / "motes.csv").sink == 0
    with pytest.warns(RuntimeWarning, match="IoT-LAB: left out 1 node without a place$"):
        assert Deployment.read(HERE / "iotlab.json").roaming == ("m3-381",)
    with pytest.warns(RuntimeWarning, match="Cooja: left out the radio medium$"):
        site = Deployment.read(HERE / "cooja.csc", sinks=[1])
    assert list(site.network().graph.edges) == [(1, 7)]
    places = Deployment.read(HERE / "gps.csv").positions
    # At 59.91 degrees north, 0.0018 degrees of longitude and 0.0009 degrees of latitude are 100 m each.
    assert math.dist(places["a"], places["b"]) == pytest.approx(100.3, rel=1e-3)
    assert math.dist(places["a"], places["c"]) == pytest.approx(100.1, rel=1e-3)


# --- ways -------------------------------------------------------------------------------------------------------------


@every(
    ("name", "moves"),
    [
        (
            "walk.csv",
            [Move(3, (1, 2), 0), Move("bus", (0, 0), 10), Move(3, (6, 2), 0, 5), Move("bus", (50, 0), 10, 20)],
        ),
        # Node 0 moves 50 m at 2 m/s from 10 s on, and, having reached (50, 0), 40 m at 5 m/s from 35 s on.
        (
            "setdest.tcl",
            [Move(0, (0, 0), 0), Move(0, (50, 0), 10, 35), Move(0, (50, 40), 35, 43), Move(1, (50, 10), 0)],
        ),
        (
            "bonn.movements",
            [
                *[Move(0, (0, 0), 0), Move(0, (20, 0), 0, 10), Move(0, (20, 0), 10, 30)],
                *[Move(1, (5, 5), 0), Move(1, (5, 45), 0, 40)],
            ],
        ),
        (
            "bonn3d.movements",
            [
                *[Move(0, (0, 0, 2), 0), Move(0, (20, 0, 2), 0, 10)],
                *[Move(1, (5, 5, 0), 0), Move(1, (5, 45, 8), 0, 40)],
            ],
        ),
        (
            "fcd.xml",
            [
                *[Move("car.0", (5.1, -1.6), 0), Move("car.0", (6, -1.6), 0, 1)],
                *[Move("walker", (0, 3), 1), Move("walker", (1.2, 3), 1, 2)],
            ],
        ),
    ],
)
def test_nodes_go_where_the_file_says(name: str, moves: list[Move]) -> None:
    found = mobility.read(HERE / name)
    order = {node: number for number, node in enumerate(dict.fromkeys(move.agent for move in moves))}
    assert sorted(found, key=lambda move: (order[move.agent], move.at, move.until or 0)) == sorted(
        moves, key=lambda move: (order[move.agent], move.at, move.until or 0)
    )


def test_a_trace_makes_motes_that_move() -> None:
    site = Deployment.read(HERE / "setdest.tcl")
    assert site.positions == {0: (0.0, 0.0), 1: (50.0, 10.0)}
    assert [site.place_of(0, time) for time in (5, 20, 35, 39, 99)] == [(0, 0), (20, 0), (50, 0), (50, 20), (50, 40)]
    with pytest.warns(RuntimeWarning, match="SUMO: 1 of 2 leave before the end, and stay where they were last"):
        town = Deployment.read(HERE / "fcd.xml")
    assert [join.at for join in town.joins] == [1.0]
    degrees = Deployment.read(HERE / "fcd_geo.xml")
    assert math.dist(degrees.positions["car.0"], degrees.positions["walker"]) == pytest.approx(1112, rel=1e-3)


def test_ns2_jumps_and_commands_at_one_time(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    start = "$node_(4) set X_ 1.0\n$node_(4) set Y_ 2\n$node_(4) set Z_ 3\n"
    path.write_text(
        start
        + '$ns at 7 "$node_(4) setdest 1 12 1"\n$ns at 7 "$node_(4) setdest 1 22 2"\n$ns at 9 "$node_(4) set X_ 5"\n'
    )
    assert mobility.read(path) == [
        Move(4, (1, 2, 3), 0),
        Move(4, (1, 6, 3), 7, 9),
        Move(4, (5, 6, 3), 9),
    ]


# --- measured links ---------------------------------------------------------------------------------------------------


def test_k7_gives_the_mean_reception_of_each_link(tmp_path: Path) -> None:
    packed = tmp_path / "trace.k7.gz"
    packed.write_bytes(gzip.compress((HERE / "trace.k7").read_bytes()))
    for path in (HERE / "trace.k7", packed):
        found = links.from_table(path)
        assert {pair: round(1 - link.loss_model.mean, 9) for pair, link in found.links.items()} == {
            **{(0, 1): 0.75, (1, 0): 0.9, (1, 2): 0.4},
            (2, 1): 0.0,
        }
    assert set(links.grenoble(packed, channel=12, both=False).graph.edges) == {(0, 1)}


def test_rssi_makes_a_radio() -> None:
    with pytest.warns(RuntimeWarning, match="took the mean power of each link; 1 of 5 have several"):
        found = from_rssi(HERE / "rssi.csv")
    assert dict(found.radio.powers or {}) == {
        **{("a", "b"): -71.0, ("b", "a"): -71.0, ("b", "c"): -88.5, ("c", "b"): -120.0},
        **{("a", "c"): -97.0, ("c", "a"): -200.0},
    }
    assert isinstance(found.radio, Radio)
    assert found.radio.phy is not None
    enough = found.radio.phy.receives_from(0.1, 400)
    assert edges_of(found.graph) == {
        frozenset(pair) for pair, dbm in (found.radio.powers or {}).items() if dbm >= enough
    }
    run = Network(found.graph, found.link, medium=found.radio, seed=1).run({n: Rounder(30) for n in found.graph})
    got = run.ledger.table(by=["sender", "receiver"]).set_index(["sender", "receiver"])["delivered"]
    assert got["a", "b"] > 10
    # −120 dBm is 20 dB below the noise, so no frame is received.
    assert got["c", "b"] == 0


# --- captures ---------------------------------------------------------------------------------------------------------

SEEN = [(1_700_000_000_000_000_000, 60), (1_700_000_000_250_000_000, 1500), (1_700_000_002_000_000_000, 90)]
READ = [Packet(0.0, 60), Packet(0.25, 1500), Packet(2.0, 90)]


def pcap(order: str, nano: bool) -> bytes:
    """Return a pcap capture that stores at most 40 bytes of each packet."""
    unit = 1 if nano else 1000
    head = struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 40, 1)
    records = (
        struct.pack(f"{order}4I", at // 10**9, at % 10**9 // unit, min(size, 40), size) + bytes(min(size, 40))
        for at, size in SEEN
    )
    return head + b"".join(records)


def pcapng(order: str, resolution: bytes) -> bytes:
    """Return a pcapng capture with one interface and one block of an unknown type."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        length = struct.pack(f"{order}I", 12 + len(body))
        return struct.pack(f"{order}I", kind) + length + body + length

    options = struct.pack(f"{order}HHI", 9, 1, 0)[:4] + resolution + bytes(3) + bytes(4) if resolution else b""
    ticks = (
        10 ** resolution[0]
        if resolution and resolution[0] < 128
        else 2 ** (resolution[0] - 128)
        if resolution
        else 10**6
    )
    made = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    made += block(1, struct.pack(f"{order}HHI", 1, 0, 40) + options) + block(0xBAD, b"abc")
    for at, size in SEEN:
        time = at * ticks // 10**9
        head = struct.pack(f"{order}5I", 0, time >> 32, time & 0xFFFFFFFF, min(size, 40), size)
        made += block(6, head + bytes(min(size, 40)))
    return made


@every(
    "data",
    [
        *(pcap(order, nano) for order in "<>" for nano in (False, True)),
        *(pcapng(order, resolution) for order in "<>" for resolution in (b"", b"\x09", b"\x84")),
    ],
)
def test_captures_say_when_and_how_long(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(data)
    assert read_packets(path) == READ
    for cut in (10, 30, len(data) - 3):
        path.write_bytes(data[:cut])
        assert "must be a whole capture" in message_of(lambda: read_packets(path), BadInput)


class Notes(Agent):
    """Records the arrival times and payload lengths of messages."""

    background = True

    def __init__(self) -> None:
        self.got: list[tuple[float, int]] = []

    async def run(self) -> None:
        """Receive until the run ends."""
        async for frame in self.inbox:
            self.got.append((round(self.now, 9), len(frame.payload)))


def test_traffic_is_sent_as_it_was_captured(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap.gz"
    path.write_bytes(gzip.compress(pcap("<", nano=False)))
    network = Network(topology.star(3), Link(latency=0.001))
    notes = Notes()
    agents: dict[Any, Any] = {
        0: Replayed(path, 1, start=1.0, speed=2.0),
        1: notes,
        2: Replayed([(0.5, 7), (9.0, 0)]),
    }
    run = network.run(agents)
    assert notes.got == [(1.001, 60), (1.126, 1500), (2.001, 90)]
    assert (run.agents[0].sent, run.agents[2].sent, run.ended_at) == (3, 2, 9.0)
    # The file lists payload sizes; each message adds a few bytes of header.
    assert 0 < run.ledger.wire_bits - 8 * (60 + 1500 + 90 + 7) < 5 * 8 * 40
    motes: dict[Any, Any] = {0: Mote(app=Replayed([(0.5, 7)], 1)), 1: Mote(app=Replayed([(1.0, 7), (2.0, 8)]))}
    whole = Network(topology.path(2)).run(motes)
    assert (whole.ledger.link_messages, motes[1].app.sent) == (3, 2)
    for wrong, message in (
        ([(1.0, 3), (0.5, 3)], "packets: must be in order of time; 0.5 s is after 1 s"),
        ([(0.0, -1)], "packets: size = -1: must be"),
        (HERE / "motes.csv", "must be a capture of pcap or pcapng"),
    ):
        assert message in message_of(partial(Replayed, wrong), BadInput)


# --- netsim convert ---------------------------------------------------------------------------------------------------

FILES = sorted(path.name for path in HERE.iterdir())
REFUSED = {
    "laughs.graphml": ", line 3: must be XML without entities; it declares 'lol'",
    "outside.xml": ", line 2: must be XML without entities; it declares 'file'",
    "ours.dot": "it is in Graphviz's language",
    "weather.csv": ", line 2: must be two names, the ends of an edge; '20.5' is a measured value",
}


def known_of(graph: "nx.Graph[Any]") -> dict[frozenset[str], dict[str, float]]:
    """Return the numeric attributes of each edge, keyed by the edge's ends as text."""
    names = ("latency", "rate", "weight", "loss", "dist", "capacity")
    return {
        frozenset((str(a), str(b))): {name: data[name] for name in names if name in data}
        for a, b, data in graph.edges(data=True)
    }


@every("name", FILES)
def test_what_is_converted_is_read_as_the_original_is(name: str, tmp_path: Path) -> None:
    if name in REFUSED:
        assert REFUSED[name] in message_of(lambda: convert(HERE / name, tmp_path / "out.csv"), BadInput)
        assert not list(tmp_path.glob("*"))
        return
    (folder := tmp_path.with_name(f"of {name}")).mkdir()
    made = convert(HERE / name, folder / "out.csv")
    if "graph of" in made.what:
        graph = graph_in(name)
        for ending in (".graphml", ".json", ".csv"):
            again = topology.read(convert(HERE / name, folder / f"out{ending}").path, connected=False)
            assert known_of(again) == known_of(graph)
            if ending != ".csv":
                places = {str(node): pos for node, pos in graph.nodes(data="pos")}
                assert {str(node): pos for node, pos in again.nodes(data="pos")} == places
    elif "motes" in made.what:
        old, new = Deployment.read(HERE / name), Deployment.read(made.path)
        assert (new.positions, new.roles, new.sinks) == (old.positions, old.roles, old.sinks)
    elif "ways" in made.what:
        old, new = Deployment.read(HERE / name), Deployment.read(made.path)
        for node, time in itertools.product(old.positions, np.linspace(0, 50, 21).tolist()):
            assert new.place_of(node, time) == pytest.approx(old.place_of(node, time), abs=2.5)
    elif name == "trace.k7":
        assert links.from_table(made.path).links == links.from_table(HERE / name).links
    else:
        assert dict(from_rssi(made.path).radio.powers or {}) == dict(from_rssi(HERE / name).radio.powers or {})


def test_the_command_says_what_it_wrote_and_what_it_left_out(tmp_path: Path) -> None:
    done = call("convert", str(HERE / "sndlib.txt"), "net.graphml", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "net.graphml: a graph of 3 nodes and 3 edges (SNDlib)",
        "left out 1 demand",
        "longitude and latitude projected to metres around (8.1950, 60.3500)",
    ]
    done = call("convert", str(HERE / "motes.csv"), "net.graphml", cwd=tmp_path)
    assert done.stderr.strip() == "netsim: out = 'net.graphml': must end in .csv: motes.csv holds motes"
    (tmp_path / "seen.pcap").write_bytes(pcap(">", nano=True))
    call("convert", "seen.pcap", "seen.csv", cwd=tmp_path)
    assert [tuple(row) for row in pd.read_csv(tmp_path / "seen.csv").itertuples(index=False)] == READ


# --- what is refused --------------------------------------------------------------------------------------------------


@every(
    ("door", "name", "message"),
    [
        (topology.read, "motes.csv", "must be a graph; it has positions of motes, which netsim.Deployment.read reads"),
        (topology.read, "trace.k7", "must be a graph; it has measured links"),
        (topology.read, "fcd.xml", "must be a graph; it has ways of nodes, which netsim.mobility.read reads"),
        (topology.read, "laughs.graphml", REFUSED["laughs.graphml"]),
        (mobility.read, "cooja.csc", "must be ways of nodes; it has positions of motes"),
        (mobility.read, "outside.xml", REFUSED["outside.xml"]),
        (mobility.read, "weather.csv", "weather.csv, line 1: must have a column 'name'"),
        (Deployment.read, "d3.json", "must be a file with positions of motes"),
        (Deployment.read, "rssi.csv", "must be positions of motes; it has measured links"),
        (from_rssi, "motes.csv", "must be measured links; it has positions of motes"),
        (read_packets, "zoo.gml", "must be a capture of pcap or pcapng"),
    ],
)
def test_each_door_refuses_files_of_other_kinds(door: Any, name: str, message: str) -> None:
    assert message in message_of(lambda: door(HERE / name), BadInput)


@every(
    ("name", "content", "message"),
    [
        (
            "a.tcl",
            '$node_(0) set X_ 1\n$ns at 1 "$node_(0) setdest 1 2 3"\n',
            "X_ and Y_ of each node; node 0 lacks one",
        ),
        (
            "a.tcl",
            '$ns at 1 "$node_(5) setdest 1 2 3"\n',
            ", line 1: must be a trace with X_ and Y_ of each node; node 5",
        ),
        ("a.tcl", '$node_(0) set X_ 1\n$ns at $t "$node_(0) setdest $x 2 3"\n', ", line 2: must be $ns_ at TIME"),
        ("a.movements", "0 1 2 3 4\n", ", line 1: must be times from 0 that grow, each with x and y"),
        ("a.movements", "0 1 2 5 1 2 3 1 2\n", ", line 1: must be times from 0 that grow"),
        ("a.movements", "0 1 2 0 1 3\n", ", line 1: must be a node at one place at 0 s; it is at two"),
        ("a.movements", "0 1 nan\n", ", line 1: must be a file whose number is a finite number; it is 'nan'"),
        ("a.xml", "<fcd-export><timestep time='1'><vehicle id='a' x='1'/></timestep></fcd-export>", "y is a finite"),
        ("a.xml", "<fcd-export><timestep time='2'/><timestep time='1'/></fcd-export>", "time steps grow from 0"),
        ("a.xml", "<fcd-export/>", "a trace of SUMO with a vehicle, person or container"),
        ("a.xml", "<a>" * 100 + "</a>" * 100, ", line 1: must be XML of at most 64 levels"),
    ],
)
def test_a_broken_trace_is_refused_with_its_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert message in message_of(lambda: mobility.read(tmp_path / name), BadInput)


def test_small_files_that_claim_to_be_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = np.lib.format.header_data_from_array_1_0(np.zeros((1, 1))) | {"shape": (100_000, 100_000)}
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, claims)
    message = message_of(lambda: topology.read(tmp_path / "a.npy"), BadInput)
    assert "must have the 10,000,000,000 numbers of its shape; it is cut short" in message
    monkeypatch.setattr(content, "_MOST_BYTES", 10_000)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"0 1\n" * 5000))
    for door in (topology.read, mobility.read, Deployment.read, read_packets, from_rssi, links.from_table):
        assert "must be at most 10,000 bytes" in message_of(partial(door, tmp_path / "bomb.gz"), BadInput)


@pytest.mark.parametrize("first", [0, slow(1000), slow(2000)])
def test_hostile_files_are_read_or_refused_in_one_line_at_every_door(first: int) -> None:
    for seed in range(first, first + (300 if first else 40)):
        try:
            field.check_one(np.random.default_rng(seed))
        except Exception as error:
            error.add_note(f"with seed {seed}")
            raise


@every(
    "content",
    [
        *(f"a b {each}x\n".encode() for each in ("9" * 300_000, " " * 300_000 + "#", "1." * 100_000)),
        b"NODES (\n" + b"(" * 300_000 + b"\n)\nLINKS (\n)\n",
        b"NODES (\n a ( 1 2 )\n)\nLINKS (\n L ( a a )" + b" 1" * 150_000 + b" x)\n)\n",
        b"0 @" + b" " * 300_000 + b"(\n",
        b"a,+" + b"1" * 300_000 + b"\n",
        b"$node_(0) set X_ " + b"1" * 300_000 + b"x\n",
        b"graph [\n" + b"node [ id 0 ]\n" * 3 + b" " * 300_000,
    ],
)
def test_long_lines_are_read_or_refused_at_once(content: bytes, tmp_path: Path) -> None:
    for name in ("long", "long.cch"):
        (tmp_path / name).write_bytes(content)
        for door in (topology.read, mobility.read):
            # A matcher with exponential backtracking would need hours, and so hit the timeout of the test suite.
            with suppress(BadInput):
                door(tmp_path / name)
