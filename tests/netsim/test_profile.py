"""Device profiles: a network behaves as the profile's csv file describes."""

from pathlib import Path

import pytest

from netsim import BadInput, Link, Links, Network, Profile, Setup, topology
from netsim.clock.compute import ComputeTimes
from netsim.faults import Crash
from netsim.studies.seeds import Seeds
from netsim.testing import Listener, Talker


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a file that the test will write."""
    return tmp_path / "devices.csv"


def test_fedscales_columns_are_in_its_units(file: Path) -> None:
    # The first row is a device from the published table.
    file.write_text("node,computation,communication\n0,162.0,5648.109619499134\n2,30,1000\n")
    network = Network(topology.path(3), **Profile.read(file).of(range(3)))
    assert network.capacity is not None
    assert network.capacity.uplink == network.capacity.downlink == {0: pytest.approx(5648109.619), 2: 1e6}
    assert network.compute is not None
    times = ComputeTimes(network.compute, seed=1)
    assert [times.seconds(node, 0) for node in range(3)] == [0.162, 0.0, 0.03]


def test_a_file_without_names_is_of_all_nodes(file: Path) -> None:
    file.write_text("uplink,active,inactive\n1e6,0,2\n,3,4\n")
    found = Profile.read(file).of("ab")
    assert found["uplink"] == 1e6
    assert [(fault.agent, fault.at, fault.until) for fault in found["faults"]] == [
        (node, *times) for node in "ab" for times in ((2.0, 3.0), (4.0, None))
    ]


def test_an_experiments_links_take_what_a_network_takes(file: Path) -> None:
    file.write_text("node,uplink,seconds,active,inactive\n0,1e6,0.1,0,5\n")
    ring, given = topology.ring(3), Profile.read(file).of(range(3))
    links = Links(**given, sharing="fifo")
    network = links.network(Setup(Seeds(), rounds=1, graph=ring))
    same = Network(ring, **given, sharing="fifo")
    assert network.compute is not None
    assert (network.capacity, network.faults) == (same.capacity, same.faults)
    assert Links(uplink=file).uplink == {0: 1e6}
    assert not Links(uplink=file).ideal
    assert Links().ideal


def test_a_device_hears_nothing_while_it_is_offline(file: Path) -> None:
    file.write_text("node,active,inactive\n1,1,3\n1,3,4\n1,6,9\n")
    given = Profile.read(file).of(range(2))
    assert given == {"faults": [Crash(1, *times, keeps_state=True) for times in ((0.0, 1.0), (4.0, 6.0), (9.0, None))]}
    agents = {0: Talker([(k + 0.5, k) for k in range(11)]), 1: Listener()}
    run = Network(topology.path(2), Link(latency=0.01), **given).run(agents)
    assert run.agents[1].payloads == [1, 2, 3, 6, 7, 8]  # type: ignore[attr-defined]
    assert run.ledger.table()["receiver_down"].sum() == 4


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("node\n0\n", r"devices.csv: must have a row that describes a device; it has none"),
        ("node,speed\n0,1\n", r"devices.csv, line 1: column = 'speed': must be one of node, uplink, .*"),
        ("node,uplink\n0,nan\n", r"devices.csv, line 2: uplink = nan: must be a number"),
        ("node,uplink\n0,0\n", r"devices.csv, line 2: uplink = 0.0: must be a number > 0"),
        ("node,seconds\n0,-1\n", r"devices.csv, line 2: seconds = -1.0: must be a number >= 0"),
        (
            "node,uplink,communication\n0,1,1\n",
            r"devices.csv, line 2: must have one of the columns uplink and communication, which give the same .*",
        ),
        ("node,uplink\na,1e3\na,2e3\n", r"devices.csv, line 3: uplink of 'a' must be 1000, as before; it is 2000"),
        ("downlink\n10\n10\n5\n", r"devices.csv, line 4: downlink of all nodes must be 10, as before; it is 5"),
        ("node,active\n0,1\n", r"devices.csv, line 2: must have a time in inactive, too; it is empty"),
        ("node,active,inactive\n0,2,2\n", r"devices.csv, line 2: inactive = 2.0: must be a number > 2"),
        ("node,active,inactive\n0,2,5\n0,4,6\n", r"devices.csv, line 3: active = 4.0: must be a number >= 5"),
    ],
)
def test_what_says_nothing_of_a_device_is_refused_in_one_line(file: Path, text: str, line: str) -> None:
    file.write_text(text)
    with pytest.raises(BadInput, match=f"^{line}$"):
        Profile.read(file)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("node,uplink\n7,1e6\n", r"uplink: must have nodes of the graph as keys; 7 is none"),
        ("node,seconds\n7,1\n", r"compute: must have the nodes of the graph as keys; 7 is in one of them only"),
        ("node,active,inactive\n7,1,2\n", r"Crash: agent = 7: must be a node of the graph"),
    ],
)
def test_an_unknown_device_is_refused_in_one_line(file: Path, text: str, line: str) -> None:
    file.write_text(text)
    with pytest.raises(BadInput, match=f"^{line}$"):
        Network(topology.path(3), **Profile.read(file).of(range(3)))
