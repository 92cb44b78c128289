"""Node capacities (docs/links.md): closed forms, an independent fluid model, combinations with other settings."""

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import AgentError, BadInput, Link, Network, Radio, Run, latency, loss, rate, topology
from netsim.clock.clock import new_loop
from netsim.distributed import UDP
from netsim.faults import Crash, LinkDown
from netsim.links import Budget, Reliability
from netsim.links.capacity import Transfer
from netsim.replay.frames import frames_of
from netsim.testing import Actor, Listener, Talker, counts, sized
from tests.parts import slow

MEGABIT = sized(125_000)
Offers = dict[tuple[Any, Any], list[tuple[float, int]]]
"""For each link, the messages offered as (time in s, size in bytes), in order of time."""


def run(graph: "nx.Graph[Any]", offers: Offers, link: Link | None = None, **settings: Any) -> Run:
    """Send messages at the given times between agents that otherwise only receive, and keep the trace."""

    async def script(me: Actor) -> None:
        mine = [(time, to, size) for (who, to), each in offers.items() if who == me.name for time, size in each]
        for time, to, size in sorted(mine, key=lambda offer: offer[0]):
            await asyncio.sleep(time - me.now)
            await me.send(to, "m", sized(size))
        async for _ in me.inbox:
            pass

    agents = {node: Actor(script) for node in graph}
    return Network(graph, link, connected=False, **settings).run(agents, trace=True)


def arrivals(played: Run) -> dict[tuple[Any, Any], list[float]]:
    """Return the arrival times (s) of the frames on each link."""
    found: dict[tuple[Any, Any], list[float]] = {}
    for row in played.trace.table().query("event == 'delivered'").itertuples():
        found.setdefault((row.sender, row.receiver), []).append(row.time_s)
    return found


def near(found: Mapping[Any, list[float]], wanted: Mapping[Any, list[float]], rel: float = 1e-9) -> bool:
    """Return whether all links have the expected arrival times, up to rounding."""
    assert found.keys() == wanted.keys()
    return all(found[link] == pytest.approx(times, rel=rel) for link, times in wanted.items())


# --- closed forms -----------------------------------------------------------------------------------------------------


def test_a_hub_shares_its_uplink() -> None:
    star, offers = topology.star(9), {(0, i): [(0.0, 125_000)] for i in range(1, 9)}
    assert set(map(tuple, arrivals(run(star, offers, Link(rate=1e6))).values())) == {(1.0,)}
    shared = arrivals(run(star, offers, Link(rate=1e6), uplink=1e6))
    assert near(shared, {(0, i): [8.0] for i in range(1, 9)}, rel=1e-12)
    in_order = arrivals(run(star, offers, Link(rate=1e6), uplink={0: 1e6}, sharing="fifo"))
    assert near(in_order, {(0, i): [float(i)] for i in range(1, 9)})


def test_senders_share_a_downlink() -> None:
    star, offers = topology.star(5), {(i, 0): [(0.0, 125_000)] for i in range(1, 5)}
    shared = arrivals(run(star, offers, Link(rate=1e6), downlink={0: 1e6}))
    assert near(shared, {(i, 0): [4.0] for i in range(1, 5)}, rel=1e-12)


def test_speeds_change_as_transfers_begin_and_end() -> None:
    # The first stream is alone for 1 s. Then both have 1 Mbit/s until the first ends at 3 s, and the second speeds up.
    offers: Offers = {(0, 1): [(0.0, 250_000)], (0, 2): [(1.0, 250_000)]}
    assert near(arrivals(run(topology.star(3), offers, uplink=1e6)), {(0, 1): [3.0], (0, 2): [4.0]})


def test_what_a_link_cannot_use_is_left_to_others() -> None:
    offers: Offers = {(0, 1): [(0.0, 125_000)], (0, 2): [(0.0, 125_000)]}
    links = {(0, 1): Link(rate=2e5)}
    found = arrivals(run(topology.star(3), offers, links=links, uplink=1e6))
    assert near(found, {(0, 1): [5.0], (0, 2): [1.25]})


# --- a recursion of its own -------------------------------------------------------------------------------------------


def filled(
    moving: list[tuple[Any, Any]], up: Mapping[Any, float], down: Mapping[Any, float], rates: Mapping[Any, float]
) -> dict[tuple[Any, Any], float]:
    """Return speeds by progressive filling: raise all until a capacity is full, fix the streams that use it, repeat."""
    speed, free = dict.fromkeys(moving, 0.0), set(moving)
    while free:
        steps = [rates.get(link, math.inf) - speed[link] for link in free]
        for side, limits in ((0, up), (1, down)):
            for node, limit in limits.items():
                used = sum(speed[link] for link in moving if link[side] == node)
                count = sum(link[side] == node for link in free)
                steps += [(limit - used) / count] if count else []
        step = min(steps)
        for link in free:
            speed[link] += step
        for link in set(free):
            at_rate = speed[link] >= rates.get(link, math.inf) * (1 - 1e-12)
            full = [
                sum(speed[other] for other in moving if other[side] == link[side]) >= limit * (1 - 1e-12)
                for side, limits in ((0, up), (1, down))
                if (limit := limits.get(link[side], math.inf)) < math.inf
            ]
            if at_rate or any(full):
                free.discard(link)
    return speed


def by_recursion(offers: Offers, *limits: Mapping[Any, float]) -> dict[tuple[Any, Any], list[float]]:
    """Return the departure time of each message, computed from event to event at constant speeds."""
    waiting, now = {link: list(each) for link, each in offers.items()}, 0.0
    left = {link: 8.0 * each[0][1] for link, each in waiting.items()}
    ends: dict[tuple[Any, Any], list[float]] = {link: [] for link in offers}
    while any(waiting.values()):
        moving = [link for link, each in waiting.items() if each and each[0][0] <= now]
        speed = filled(moving, *limits)
        finish = {link: now + left[link] / speed[link] for link in moving}
        begin = [each[0][0] for each in waiting.values() if each and each[0][0] > now]
        following = min([*finish.values(), *begin])
        for link in moving:
            left[link] -= speed[link] * (following - now)
            if finish[link] <= following * (1 + 1e-14):
                ends[link].append(following)
                waiting[link].pop(0)
                left[link] = 8.0 * waiting[link][0][1] if waiting[link] else 0.0
        now = following
    return ends


@pytest.mark.parametrize("seed", [1, 2, 3, *map(slow, range(4, 24))])
def test_times_are_those_of_progressive_filling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = topology.erdos_renyi(int(rng.integers(3, 9)), p=0.6, seed=seed)
    ends = topology.links_of(graph)
    up, down = ({node: float(rng.choice([1e5, 3e5, 1e6])) for node in graph if rng.random() < 0.8} for _ in range(2))
    rates = {link: float(rng.choice([1e5, 7e5])) for link in ends if rng.random() < 0.3 or link[0] not in up}
    offers: Offers = {
        link: [(float(time), int(rng.integers(500, 20_000))) for time in np.sort(rng.choice([0, 0.1, 0.7, 1.3], 3))]
        for link in ends
    }
    links = {link: Link(rate=each) for link, each in rates.items()}
    found = arrivals(run(graph, offers, links=links, uplink=up, downlink=down))
    assert near(found, by_recursion(offers, up, down, rates))


def test_a_trace_tells_when_the_first_bit_of_a_frame_left() -> None:
    offers: Offers = {(0, i): [(0.0, 125_000)] for i in range(1, 4)}
    shared, in_order = (run(topology.star(4), offers, uplink=1e6, sharing=sharing) for sharing in ("fair", "fifo"))
    assert frames_of(shared.trace).columns["depart"].tolist() == [0.0, 0.0, 0.0]
    assert frames_of(in_order.trace).columns["depart"].tolist() == pytest.approx([0.0, 1.0, 2.0])


def test_earlier_frames_go_first_in_a_fifo() -> None:
    # Uplinks and downlinks are limited: the second flow gets the rest of node 2's downlink, the third the rest of node
    # 1's uplink.
    offers: Offers = {(0, 2): [(0.0, 125_000)], (1, 2): [(0.1, 125_000)], (1, 3): [(0.2, 125_000)]}
    graph = nx.Graph(list(offers))
    found = arrivals(run(graph, offers, uplink={0: 4e5, 1: 1e6}, downlink={2: 1e6}, sharing="fifo"))
    # 1 → 2 gets 6e5 bits/s until it ends, which leaves 4e5 bits/s of node 1's uplink to 1 → 3.
    end = 0.1 + 1e6 / 6e5
    assert near(found, {(0, 2): [2.5], (1, 2): [end], (1, 3): [end + (1e6 - 4e5 * (end - 0.2)) / 1e6]})


# --- composition ------------------------------------------------------------------------------------------------------

KINDS = [
    {"mtu": 100, "header_bits": 24},
    {"queue": 2, "loss": loss.gilbert_elliott(0.3, burst=3)},
    {"queue_bits": 30_000, "latency": latency.uniform(0.01, 0.2), "fifo": True},
    {"loss": 0.3, "duplicate": 0.3, "corrupt": 0.3, "mtu": 500},
    {"reliability": Reliability("ack", attempts=3), "loss": 0.2, "latency": 0.01},
    {"reliability": "nack", "loss": 0.2, "latency": 0.01},
    {"budget": Budget(20_000, per="second", over="wait", burst=20_000), "queue": 3},
    {"budget": Budget(20_000, per="second"), "header_bits": 100},
    {"loss": loss.gilbert_elliott(0.4, burst=3, slot=0.1), "mtu": 300},
]


@pytest.mark.parametrize("settings", KINDS, ids=lambda settings: "-".join(settings))
def test_capacities_without_end_change_nothing(settings: dict[str, Any]) -> None:
    """With capacities that never bind, outcomes and times are the same as without capacities."""
    graph = topology.complete(4)
    rng = np.random.default_rng(1)
    offers = {
        link: [(float(time), int(rng.integers(500, 3000))) for time in np.sort(rng.uniform(0, 2, 6))]
        for link in topology.links_of(graph)
    }
    link = Link(rate=1e5, **settings)
    limited, plain = (run(graph, offers, link, round_period=0.5, seed=3, **each) for each in WITHOUT_END)
    names = ["sender", "receiver", "kind"]
    assert limited.ledger.table().sort_values(names).equals(plain.ledger.table().sort_values(names))
    assert limited.ledger.table()["delivered"].sum() > 15
    assert near(arrivals(limited), arrivals(plain))


WITHOUT_END: list[dict[str, Any]] = [{"uplink": 1e15, "downlink": 1e15}, {}]


def test_fragments_leave_at_the_speeds_of_their_times() -> None:
    # The first of two fragments of 500,000 bits has 10 s of latency, so its departure determines the arrival. It is
    # sent alone for 0.2 s, and then at half speed.
    graph = topology.star(3)
    offers: Offers = {(0, 1): [(0.0, 125_000)], (0, 2): [(0.2, 125_000)]}
    links = {(0, 1): Link(mtu=62_500, latency=latency.trace([10.0, 0.0], offsets=0))}
    assert near(arrivals(run(graph, offers, links=links, uplink=1e6)), {(0, 1): [10.8], (0, 2): [2.0]})
    # In the pause between the two fragments, other transfers used the whole capacity.
    transfer = Transfer(0, [10, 10], 0.0, 0.0, 0, 0, 0, lambda *_: None)
    for time, left in ((0.0, 20.0), (1.0, 10.0), (5.0, 10.0)):
        transfer.note(time, left)
    assert transfer.ends(6.0) == [1.0, 6.0]


@pytest.mark.parametrize(
    ("fault", "delivered"),
    [(Crash(0, at=0.5), 2), (LinkDown(0, 1, at=0.5), 2), (Crash(1, at=0.5), 1)],
    ids=["sender", "link", "receiver"],
)
def test_a_frame_under_way_survives_its_sender_and_its_link(fault: Any, delivered: int) -> None:
    offers: Offers = {(0, 1): [(0.0, 125_000)], (0, 2): [(0.0, 125_000)]}
    played = run(topology.star(3), offers, uplink=1e6, faults=[fault])
    ends = played.ledger.table()[["delivered", "receiver_down"]].sum()
    assert ends.tolist() == [delivered, 2 - delivered]
    assert arrivals(played)[0, 2] == [2.0]


def test_frames_that_the_end_cuts_off_are_in_flight() -> None:
    star = topology.star(3)
    agents = {0: Talker([(0.0, MEGABIT)] * 2), 1: Listener(), 2: Listener()}
    played = Network(star, uplink=1e6).run(agents, until=1.5, trace=True)
    assert counts(played) == {"in_flight": 4}
    left = sorted(frames_of(played.trace).columns["depart"].tolist())
    assert left == [0.0, 0.0, 1.5, 1.5]


def test_the_books_are_closed_when_the_run_is_over() -> None:
    """The event loop may continue after the run, for example with other runs."""

    async def fail(me: Actor) -> None:
        await asyncio.sleep(1.0)
        raise ValueError

    async def both() -> None:
        agents = {0: Talker([(1.0, MEGABIT)]), 1: Actor(fail)}
        with pytest.raises(AgentError) as caught:
            await Network(topology.path(2), Link(loss=1.0), uplink=1e6).run_async(agents)
        await asyncio.sleep(10)
        played = caught.value.run
        assert counts(played) == {"in_flight": 1}
        assert not played.ledger.table()["lost"].any()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(both())


def test_agents_elsewhere_change_no_digit() -> None:
    few = nx.Graph([("a", "b"), ("a", "c"), ("b", "c")])
    more = nx.compose(nx.Graph([(0, 1), (1, 2)]), few)
    offers: Offers = {(one, to): [(0.1, 999), (0.3, 7000)] for one in "abc" for to in "abc" if one != to}
    others: Offers = {(0, 1): [(0.0, 9_999)], (1, 2): [(0.05, 777)]}
    limits = {"uplink": dict.fromkeys("abc", 3e4), "downlink": {"a": 1e4, "b": 7e4}}
    elsewhere = {"uplink": limits["uplink"] | {0: 1e3, 1: 3e3}, "downlink": limits["downlink"]}
    alone, among = arrivals(run(few, offers, **limits)), arrivals(run(more, offers | others, **elsewhere))
    assert alone == {link: times for link, times in among.items() if link in alone}


def test_workers_share_no_downlink_and_have_uplinks_of_their_own() -> None:
    ring = topology.ring(6)

    def played(workers: int, **limits: Any) -> Run:
        agents = {node: Talker([(0.1 * node, sized(500)), (0.3, sized(900))]) for node in ring}
        network = Network(ring, Link(latency=0.01), seed=1, **limits)
        return network.run(agents, workers=workers)  # type: ignore[arg-type]

    uplinks = {node: 1e4 + node for node in ring}
    assert played(2, uplink=uplinks).trace_hash == played(1, uplink=uplinks).trace_hash != played(1).trace_hash
    with pytest.raises(BadInput, match=r"^workers = 2: must be 1 with a downlink, which frames of several workers"):
        played(2, downlink=1e4)


# --- arguments --------------------------------------------------------------------------------------------------------


def network(**settings: Any) -> Network:
    """Return a network of three nodes."""
    return Network(topology.path(3), **settings)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"uplink": 0}, r"uplink = 0: must be a number > 0"),
        ({"uplink": -1.0}, r"uplink = -1.0: must be a number > 0"),
        ({"downlink": math.nan}, r"downlink = nan: must be a number > 0"),
        ({"downlink": math.inf}, r"downlink = inf: must be finite"),
        ({"uplink": [1e6]}, r"uplink = \[1000000.0\]: must be a number > 0"),
        ({"uplink": {7: 1e6}}, r"uplink: must have nodes of the graph as keys; 7 is none"),
        ({"uplink": {0: -5}}, r"uplink\[0\] = -5: must be a number > 0"),
        ({"uplink": 1e6, "sharing": "equal"}, r"sharing = 'equal': must be one of fair, fifo"),
        ({"sharing": "fifo"}, r"sharing = 'fifo': must be left out without an uplink or a downlink"),
        ({"uplink": 1e6, "medium": "radio"}, r"uplink: must be left out unless medium = 'wires'; .*"),
        (
            {"downlink": 1e6, "medium": Radio(), "link": Link(rate=250e3)},
            r"downlink: must be left out unless medium = 'wires'; .*",
        ),
        (
            {"uplink": 1e6, "link": Link(rate=rate.opportunities([0.1]))},
            r"rate = Opportunities.*: must be a number of bits per second with uplink",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput, match=f"^{line}$"):
        network(**settings)


def test_several_processes_in_real_time_are_refused() -> None:
    agents = {node: Listener() for node in range(3)}
    with pytest.raises(BadInput, match=r"^uplink, downlink: must be left out for agents in several processes"):
        network(uplink=1e6).run(agents, transport=UDP("127.0.0.1:9000", {"127.0.0.1:9001": [2]}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("node\n0\n", r"devices.csv: must have a row that describes a device; it has none"),
        (
            "node,downlink\n0,1e6\n",
            r"uplink = '.*devices.csv': must be a csv file with a column uplink or communication",
        ),
        ("node,uplink\n0,fast\n", r"devices.csv, line 2: uplink = 'fast': must be a number"),
        ("node,uplink\n0,-3\n", r"devices.csv, line 2: uplink = -3.0: must be a number > 0"),
        ("node,uplink\n9,1e6\n", r"uplink: must have nodes of the graph as keys; 9 is none"),
        ("node,uplink,speed\n0,1e6,2\n", r"devices.csv, line 1: column = 'speed': must be one of .*"),
    ],
)
def test_a_file_that_says_nothing_is_refused(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "devices.csv").write_text(text)
    with pytest.raises(BadInput, match=f"^{line}$"):
        network(uplink=tmp_path / "devices.csv")


def test_a_file_has_a_row_for_each_node_with_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "devices.csv"
    file.write_text("node,uplink,downlink\n0,1e6,\n2,5e5,2e6\n")
    capacity = network(uplink=str(file), downlink=file).capacity
    assert capacity is not None
    assert (capacity.uplink, capacity.downlink) == ({0: 1e6, 2: 5e5}, {2: 2e6})
