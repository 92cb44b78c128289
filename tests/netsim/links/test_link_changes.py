"""Links that change during a run, tested by closed forms, an independent recursion, draws, and random networks."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netsim import AgentError, BadInput, Faults, Link, Network, Radio, Run, latency, loss, rate, topology
from netsim.distributed import UDP
from netsim.faults import Fault, Hold, LinkChange, LinkDown, Partition
from netsim.links import Budget
from netsim.replay.frames import frames_of
from netsim.testing import Actor, Listener, Talker, sized
from tests.command import on_the_other_core
from tests.fuzzers.changes import check_seed, for_several_workers, hashes
from tests.fuzzers.workers import check_workers
from tests.parts import every, slow

MEGABIT = sized(125_000)
EACH_SECOND = [(float(second), "x") for second in range(30)]
WIRES = {"capacities": {"uplink": 1e15}, "links": {}}
"""Frames wait in the queues of links, or they are transfers that share a capacity, here one that never binds."""


def arrivals(link: Link, plan: Sequence[tuple[float, Any]], *faults: Fault, workers: int = 1, **settings: Any) -> Any:
    """Return the arrival times (s) of agent 0's frames at agent 1, and the counts of that link."""
    network = Network(topology.path(2), link, faults=faults, **settings)
    run = network.run({0: Talker(plan), 1: Listener()}, workers=workers)
    row = run.ledger.table().query("sender == 0").iloc[0]
    return run.agents[1].times, {name: int(row[name]) for name in run.ledger.causes if row[name]}


# --- rates ------------------------------------------------------------------------------------------------------------


@every("capacities", WIRES.values())
def test_a_rate_that_halves_midway_takes_half_as_long_again(capacities: dict[str, float]) -> None:
    halves = LinkChange(0, 1, at=0.5, rate=0.5e6)
    assert arrivals(Link(rate=1e6), [(0.0, MEGABIT)], halves, **capacities) == ([1.5], {"delivered": 1})
    # With a temporary change, 0.5 Mbit have left by 0.5 s, another 0.25 Mbit by 1 s, and then 1 Mbit/s applies again.
    a_while = LinkChange(0, 1, at=0.5, until=1.0, rate=0.5e6)
    times, _ = arrivals(Link(rate=1e6, latency=0.25), [(0.0, MEGABIT)] * 3, a_while, **capacities)
    assert times == pytest.approx([1.5, 2.5, 3.5])
    at_once = LinkChange(0, 1, at=0.5, rate=math.inf)
    times, _ = arrivals(Link(rate=1e6, latency=0.25), [(0.0, MEGABIT)] * 2, at_once, **capacities)
    assert times == pytest.approx([0.75, 0.75], abs=1e-8)
    # A change adds a rate limit and a shorter queue; frames that already wait are not dropped.
    begins = LinkChange(0, 1, at=0.5, rate=1e6, queue=1)
    assert arrivals(Link(), [(0.0, MEGABIT), *[(1.0, MEGABIT)] * 3], begins)[0] == [0.0, 2.0]


@every("capacities", WIRES.values())
def test_a_queue_limits_only_while_there_is_a_rate(capacities: dict[str, float]) -> None:
    bursts = [(time, MEGABIT) for time in (0.0, 1.75, 3.0) for _ in range(5)]
    # Half of the second frame has left when the rate limit ends. Of the first and last burst, the queue accepts two
    # frames.
    expected = [1.0, 1.5, *[1.75] * 5, 4.0, 5.0], {"delivered": 9, "queue_full": 6}
    without = LinkChange(0, 1, at=1.5, until=2.5, rate=math.inf)
    times, outcomes = arrivals(Link(rate=1e6, queue=2), bursts, without, **capacities)
    assert (pytest.approx(expected[0], abs=1e-8), expected[1]) == (times, outcomes)
    for_good = LinkChange(0, 1, at=1.5, rate=math.inf), LinkChange(0, 1, at=2.5, rate=1e6)
    assert arrivals(Link(rate=1e6, queue=2), bursts, *for_good, **capacities) == (times, outcomes)
    # The same, with the queue and the rates set by separate changes.
    changes = [LinkChange(0, 1, at=0.0, queue=2), *(LinkChange(0, 1, t, t + 1.5, rate=1e6) for t in (0.0, 2.5))]
    last = LinkChange(0, 1, at=3.75, rate=1e6)
    assert arrivals(Link(), bursts, *changes, last, **capacities) == (times, outcomes)


def exact(plan: Iterable[tuple[Fraction, int]], rates: list[tuple[Fraction, Fraction]]) -> list[Fraction]:
    """Return the departure times of successive frames; ``rates`` lists (time in s, rate in bits/s from then on)."""
    end, ends = Fraction(0), []
    for offered, bits in plan:
        end, left = max(end, offered), Fraction(bits)
        while left:
            place = max(i for i, (since, _) in enumerate(rates) if since <= end)
            until = rates[place + 1][0] if place + 1 < len(rates) else None
            needs = left / rates[place][1]
            spent = needs if until is None or end + needs <= until else until - end
            end, left = end + spent, left - spent * rates[place][1]
        ends.append(end)
    return ends


@every("seed", range(12))
def test_departures_are_those_of_exact_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = sorted((Fraction(int(rng.integers(0, 64)), 16), int(rng.integers(20, 200))) for _ in range(20))
    rates = [(Fraction(0), Fraction(1024))]
    moments = sorted(set(rng.integers(1, 400, int(rng.integers(1, 6))).tolist()))
    rates += [(Fraction(time, 32), Fraction(int(rng.choice([64, 500, 3000, 100_000])))) for time in moments]
    changes = [LinkChange(0, 1, at=float(time), rate=float(each)) for time, each in rates[1:]]
    wanted = [float(each) + 0.125 for each in exact([(time, 8 * size) for time, size in plan], rates)]
    offered = [(float(time), sized(size)) for time, size in plan]
    for capacities in WIRES.values():
        times, _ = arrivals(Link(rate=1024.0, latency=0.125), offered, *changes, **capacities)
        assert times == pytest.approx(wanted, rel=1e-9)
    # The last bit of a frame determines when its fragments arrive; each frame arrives twice.
    fragments = Link(rate=1024.0, latency=0.125, mtu=31, duplicate=1.0)
    assert sorted(arrivals(fragments, offered, *changes)[0]) == pytest.approx(sorted(2 * wanted))


def test_a_trace_has_the_frames_where_they_are() -> None:
    halves = LinkChange(0, 1, at=0.5, rate=0.5e6)
    network = Network(topology.path(2), Link(rate=1e6), faults=[halves])
    run = network.run({0: Talker([(0.0, MEGABIT)] * 3), 1: Listener()}, trace=True)
    columns = frames_of(run.trace).columns
    assert columns["depart"].tolist() == [0.0, 1.5, 3.5]
    assert columns["end"].tolist() == [1.5, 3.5, 5.5]
    [span] = run.trace.scene.faults
    assert (span["what"], span["text"]) == ("LinkChange", "link 0 ↔ 1 has rate 500000 from 0.5 s")


def test_a_picture_says_what_links_do(tmp_path: Path) -> None:
    faults = [Hold(0, 1, at=4.5, until=9.0), LinkChange(0, 1, at=12.0, until=15.0, loss=0.5), Hold(1, None, 20.0, 22.0)]
    network = Network(topology.path(2), Link(latency=0.25), faults=faults)
    run = network.run({0: Talker(EACH_SECOND), 1: Listener()}, trace=True)
    picture = run.picture(tmp_path / "run.svg", end=29.0).read_text()
    assert "frames on link 0 ↔ 1 wait" in picture
    assert "link 0 ↔ 1 has loss 0.5" in picture


# --- draws ------------------------------------------------------------------------------------------------------------


def heard(link: Link, *faults: Fault) -> dict[tuple[int, int], list[int]]:
    """Return the numbers of the broadcasts received on each link of a ring. Broadcast k is sent at k seconds."""
    plan = [(float(second), second) for second in range(150)]
    network = Network(topology.ring(4), link, faults=faults, seed=3)
    run = network.run({node: Talker(plan) for node in range(4)}, trace=True)
    table = run.trace.table().query("event == 'delivered'")
    found: dict[tuple[int, int], list[int]] = {}
    for row in table.itertuples():
        found.setdefault((row.sender, row.receiver), []).append(row.message)
    return {ends: sorted(numbers) for ends, numbers in found.items()}


BURSTS, RECORDED = loss.gilbert_elliott(0.4, 5), loss.trace([0, 1, 1, 0, 1])
BEFORE_AND_AFTER = [
    (loss.bernoulli(0.2), loss.bernoulli(0.6)),
    (loss.bernoulli(0.2), loss.bernoulli(0.0)),
    (loss.bernoulli(0.0), loss.bernoulli(0.5)),
    (BURSTS, loss.gilbert_elliott(0.2, 2)),
    (BURSTS, loss.gilbert_elliott(0.3, 3, slot=2.0)),
    (BURSTS, RECORDED),
    (RECORDED, loss.bernoulli(0.3)),
    (loss.varying([0.1, 0.9], 7.0), BURSTS),
]


@every(("before", "after"), BEFORE_AND_AFTER)
def test_a_link_draws_as_if_it_had_always_been_so(before: Any, after: Any) -> None:
    delays = latency.exponential(0.1)
    one, other = (heard(Link(loss=each, latency=delays)) for each in (before, after))
    change = LinkChange(0, 1, at=49.5, until=99.5, one_way=True, loss=after)
    found = heard(Link(loss=before, latency=delays), change)
    mixed = [k for k in one[0, 1] if not 50 <= k < 100] + [k for k in other[0, 1] if 50 <= k < 100]
    assert found == one | {(0, 1): sorted(mixed)}
    assert found != one


def test_delays_too_are_those_of_the_numbers() -> None:
    def times(*faults: Fault) -> list[float]:
        return arrivals(Link(latency=latency.uniform(0.1, 0.4)), EACH_SECOND, *faults)[0]

    plain = times()
    for other in (0.25, latency.exponential(0.1), latency.trace([0.3, 0.2])):
        changed = times(LinkChange(0, 1, at=9.5, until=19.5, latency=other))
        assert changed[:10] + changed[20:] == plain[:10] + plain[20:]
        assert not set(changed[10:20]) & set(plain[10:20])


class Drifting:
    """A user-defined latency model whose delays depend on earlier delays."""

    fixed, minimum = None, 0.0
    last: Any = 0.5

    def on_links(self, u: NDArray[np.float64]) -> "Drifting":
        """Return the model for some links, whose initial values are ``u``."""
        other = Drifting()
        other.last = u
        return other

    def delays(self, u: NDArray[np.float64], first: int) -> NDArray[np.float64]:
        """Return the delays of the next frames."""
        found = np.empty_like(u)
        for row, fresh in enumerate(u):
            self.last = found[row] = 0.5 * fresh + 0.5 * self.last
        return 0.5 * found


def test_a_latency_with_memory_goes_on() -> None:
    def times(*faults: Fault, to: Any = None) -> list[list[float]]:
        network = Network(topology.star(3), Link(latency=Drifting()), faults=faults)
        run = network.run({0: Talker(EACH_SECOND, to), 1: Listener(), 2: Listener()}, until=40.0)
        return [run.agents[node].times for node in (1, 2)]

    # Broadcasts and unicasts have separate streams of draws.
    for to in (None, 1):
        plain, changed = times(to=to), times(LinkChange(0, 1, at=9.5, until=19.5, latency=0.6), to=to)
        assert changed[0][:10] + changed[0][20:] == plain[0][:10] + plain[0][20:]
        assert changed[0][10:20] == pytest.approx([k + 0.6 for k in range(10, 20)])
        assert changed[1] == plain[1]


def test_the_change_that_began_last_counts() -> None:
    long, short = LinkChange(0, 1, at=5.5, until=25.5, loss=1.0), LinkChange(0, 1, at=9.5, until=14.5, loss=0.0)
    times, _ = arrivals(Link(), EACH_SECOND, long, short)
    assert times == [*range(6), *range(10, 15), 26.0, 27.0, 28.0, 29.0]
    # The later change sets only the loss, so the latency of the temporary change lasts until its own end.
    good = LinkChange(0, 1, at=9.5, loss=0.0)
    times, _ = arrivals(Link(), EACH_SECOND, LinkChange(0, 1, at=5.5, until=25.5, loss=1.0, latency=0.25), good)
    assert times == [*range(6), *(k + 0.25 for k in range(10, 26)), 26.0, 27.0, 28.0, 29.0]


def test_nothing_overtakes_on_a_fifo_link() -> None:
    shorter = LinkChange(0, 1, at=2.75, latency=0.125)
    assert arrivals(Link(latency=2.0, fifo=True), EACH_SECOND[:6], shorter)[0] == [2.0, 3.0, 4.0, 4.0, 4.125, 5.125]
    times, _ = arrivals(Link(latency=2.0), EACH_SECOND[:6], shorter)
    assert times == [2.0, 3.0, 3.125, 4.0, 4.125, 5.125]


# --- holds and cuts ---------------------------------------------------------------------------------------------------


@every("seed", range(20))
def test_frames_wait_on_a_held_link_and_come_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    begin, end = sorted((rng.random(2) * 8).tolist())
    delays = latency.uniform(0.1, 3.0)

    class Numbered(Listener):
        """Records the numbers and times of received frames."""

        async def run(self) -> None:
            self.found = [(frame.payload, self.now) async for frame in self.inbox]

    def found(*faults: Fault) -> list[tuple[int, float]]:
        network = Network(topology.path(2), Link(latency=delays), faults=faults, seed=seed)
        plan = [(0.25 * k, k) for k in range(30)]
        return network.run({0: Talker(plan), 1: Numbered()}).agents[1].found

    plain = found()
    held = [each for each in plain if begin < each[1] < end]
    wanted = [(k, time) for k, time in plain if not begin < time < end] + [(k, end) for k, _ in sorted(held)]
    assert found(Hold(0, 1, at=begin, until=end)) == sorted(wanted, key=lambda each: each[1])
    # The longer of two holds decides, and a hold of an agent covers all its links.
    both = Hold(0, None, at=begin, until=(begin + end) / 2), Hold(0, 1, at=begin, until=end)
    assert found(*both) == found(Hold(1, None, at=begin, until=end)) == sorted(wanted, key=lambda each: each[1])


def test_a_hold_without_an_end_leaves_frames_in_flight() -> None:
    times, counts = arrivals(Link(latency=0.25), EACH_SECOND, Hold(0, 1, at=9.5))
    assert times == [k + 0.25 for k in range(10)]
    assert counts == {"delivered": 10}
    one_way = Hold(1, None, at=9.5, one_way=True)
    assert len(arrivals(Link(latency=0.25), EACH_SECOND, one_way)[0]) == 30


@every("capacities", WIRES.values())
def test_a_cut_that_drops_loses_what_is_in_flight_and_waits(capacities: dict[str, float]) -> None:
    # Of four frames of 1 Mbit at 1 Mbit/s, one has arrived at 1.25 s, and two wait in the queue.
    plan = [*[(0.0, MEGABIT)] * 4, (1.75, MEGABIT), (2.0, MEGABIT)]
    cut = LinkDown(0, 1, at=1.5, until=1.875, drops=True)
    found = arrivals(Link(rate=1e6, latency=0.25), plan, cut, **capacities)
    assert found == ([1.25, 3.25], {"delivered": 2, "lost": 3, "link_down": 1})
    keeps = arrivals(Link(rate=1e6, latency=0.25), plan, LinkDown(0, 1, at=1.5, until=1.875), **capacities)
    assert keeps == ([1.25, 2.25, 3.25, 4.25, 5.25], {"delivered": 5, "link_down": 1})


def test_a_cut_that_drops_loses_what_is_on_hold() -> None:
    held, cut = Hold(0, 1, at=1.5, until=9.0), LinkDown(0, 1, at=5.75, until=6.5, drops=True)
    times, counts = arrivals(Link(latency=0.5), EACH_SECOND[:10], held, cut)
    assert times == [0.5, 1.5, 9.0, 9.0, 9.5]
    assert counts == {"delivered": 5, "lost": 4, "link_down": 1}


def test_one_side_of_a_partition_hears_and_is_not_heard() -> None:
    def delivered(*faults: Fault) -> dict[tuple[int, int], int]:
        run = Network(topology.ring(4), Link(latency=0.25), faults=faults).run(
            {i: Talker(EACH_SECOND) for i in range(4)}
        )
        return {(row.sender, row.receiver): row.delivered for row in run.ledger.table().itertuples()}

    split = {"at": 9.5, "until": 19.5}
    for side in ([0], [0, 1], [0, 2]):
        # The last frames are still in flight when the run ends.
        cut = {ends: 19 for ends in delivered() if ends[0] in side and ends[1] not in side}
        assert delivered(Partition(side, **split, one_way=True)) == delivered() | cut
        back = {ends[::-1]: 19 for ends in cut}
        assert delivered(Partition(side, **split)) == delivered() | cut | back


# --- by the program ---------------------------------------------------------------------------------------------------


def test_an_agent_changes_links() -> None:
    async def script(me: Actor) -> None:
        for second in range(12):
            await me.send(1, "x", second)
            if second == 2:
                network.set_link(0, 1, loss=1.0, one_way=True)
            if second == 4:
                network.set_link(0, 1, loss=0.0, latency=0.125)
            if second == 6:
                network.set_link(0, 1, held=True)
            if second == 8:
                network.set_link(0, 1, held=False)
            if second == 9:
                network.set_link(0, 1, up=False, drops=True)
            if second == 10:
                network.set_link(0, 1, up=True)
            await asyncio.sleep(1)

    network = Network(topology.path(2), Link(latency=0.25))
    run = network.run({0: Actor(script), 1: Listener()}, trace=True)
    assert run.agents[1].times == [0.25, 1.25, 2.25, 5.125, 8.0, 8.0, 8.125, 11.125]
    spans = [(each["what"], each["begin"], each["end"]) for each in run.trace.scene.faults]
    assert spans == [
        ("LinkChange", 2.0, 4.0),
        ("LinkChange", 4.0, None),
        ("Hold", 6.0, 8.0),
        ("SetLink", 9.0, 10.0),
    ]


# --- random networks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, *map(slow, range(1, 3))])
def test_laws_hold_on_links_that_change(first: int) -> None:
    for seed in range(100 * first, 100 * first + (40 if first else 6)):
        check_seed(seed)


@pytest.mark.parametrize("count", [8, slow(60)])
def test_links_change_alike_with_both_cores(count: int) -> None:
    quiet = "import warnings; warnings.simplefilter('ignore'); "
    code = f"{quiet}from tests.fuzzers.changes import hashes; print(*hashes(7, {count}), sep='\\n')"
    here = hashes(7, count)
    assert on_the_other_core(code).splitlines() == here


@pytest.mark.parametrize("first", [0, slow(1)])
def test_links_change_alike_over_workers(first: int) -> None:
    for seed in range(100 * first, 100 * first + (8 if first else 2)):
        check_workers(for_several_workers, seed)


@pytest.mark.parametrize("count", [2, slow(3)])
def test_workers_hold_and_drop_what_each_of_them_has(count: int) -> None:
    faults = [
        Hold(2, None, at=2.25, until=5.5),
        LinkDown(0, 5, at=3.75, until=4.5, drops=True),
        LinkDown(2, 3, at=6.125, drops=True),
        LinkChange(1, 2, at=3.0, until=9.0, loss=0.5, latency=latency.uniform(0.9, 1.4)),
        Partition([3, 4], at=10.25, until=12.0, one_way=True, drops=True),
    ]

    def run(workers: int) -> Run:
        network = Network(topology.ring(6), Link(latency=latency.uniform(0.7, 1.6)), faults=faults, seed=2)
        network.at(13.5, lambda: network.set_link(0, 1, held=True, duplicate=0.5))
        network.at(16.5, lambda: network.set_link(0, 1, held=False, loss=0.3, one_way=True))
        network.at(18.25, lambda: network.set_link(4, 5, up=False, drops=True))
        return network.run({node: Talker(EACH_SECOND) for node in range(6)}, workers=workers, trace=True)

    one, several = run(1), run(count)
    assert one.trace_hash == several.trace_hash
    assert one.ledger.table().equals(several.ledger.table())
    assert one.ledger.table()["lost"].sum() > 10
    assert one.trace.scene.faults == several.trace.scene.faults


# --- refused ----------------------------------------------------------------------------------------------------------


def over(workers: int = 1, clock: Any = None, **settings: Any) -> Callable[[Fault], Any]:
    """Return a function that runs a network of two nodes with one fault."""
    return lambda fault: Network(topology.path(2), **settings, faults=[fault]).run(
        {0: Talker(EACH_SECOND), 1: Listener()}, workers=workers
    )


LATE = Link(latency=latency.uniform(0.2, 0.4))
RATED = Link(rate=1e3, budget=Budget(1e3, "second", "wait"))
LOSSY = LinkChange(0, 1, at=1, loss=0.5)


@every(
    ("play", "fault", "words"),
    [
        (over(medium=Radio(), link=Link(rate=250e3)), LOSSY, "LinkChange: must be left out on a netsim.Radio"),
        (over(medium=Radio(), link=Link(rate=250e3)), Hold(0, 1, at=1), "Hold: must be left out on a netsim.Radio"),
        (
            over(medium=Radio(), link=Link(rate=250e3)),
            LinkDown(0, 1, at=1, drops=True),
            "LinkDown: drops: must be left out",
        ),
        (
            over(medium=Radio(), link=Link(rate=250e3)),
            Partition([0], at=1, drops=True),
            "Partition: drops: must be left out",
        ),
        (over(medium="radio"), LinkChange(0, 1, at=1, rate=9.0), "rate must be left out with medium = 'radio'"),
        (over(link=RATED), LinkChange(0, 1, at=1, rate=9.0), "rate must stay on a link with a budget"),
        (
            over(link=Link(rate=rate.opportunities([1.0]))),
            LinkChange(0, 1, at=1, rate=9.0),
            "rate must be a number before and after",
        ),
        (over(), LinkChange(0, 1, at=1, queue=3), "queue = 3: must come with a rate"),
        (
            over(link=Link(reliability="ack")),
            LinkChange(0, 1, at=1, latency=0.5),
            "must have a latency below half the round period",
        ),
        (over(2, link=LATE), LinkChange(0, 1, at=1, rate=9.0), "rate must stay with workers"),
        (over(2, link=LATE), LinkChange(0, 1, at=1, latency=0.1), "must be at least 0.2 s: workers rely on"),
        (
            over(2, link=Link(latency=0.5, fifo=True)),
            LinkChange(0, 1, at=1, latency=0.75),
            "latency must stay on a fifo link",
        ),
    ],
)
def test_what_a_link_cannot_take_is_refused_in_one_line(play: Any, fault: Fault, words: str) -> None:
    with pytest.raises((BadInput, AgentError), match=words.replace("(", "\\(")) as caught:
        play(fault)
    assert "\n" not in str(caught.value)


@every(
    ("make", "words"),
    [
        (lambda: LinkChange(0, 1, at=1), "LinkChange: must change one of latency, loss"),
        (lambda: LinkChange(0, 1, at=1, loss=2), "loss = 2: must be"),
        (lambda: LinkChange(0, 1, at=1, rate=-1), "rate = -1: must be"),
        (lambda: LinkChange(0, 1, at=1, crc=3), "crc = 3: must be"),
        (lambda: Network(topology.path(2), faults=[Hold(0, 7, at=1)]), "Hold: link = (0, 7): must be an edge"),
        (lambda: Network(topology.path(2), faults=[Hold(7, None, at=1)]), "Hold: agent = 7: must be a node"),
        (lambda: Network(topology.path(2), faults=[LinkChange(0, 7, at=1, loss=0.1)]), "LinkChange: link = (0, 7)"),
    ],
)
def test_bad_faults_are_refused(make: Any, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert words in str(caught.value)


@every(
    ("settings", "words"),
    [
        ({}, "set_link: must change one of up, held, latency"),
        ({"drops": True}, "drops = True: must come with up=False"),
        ({"up": True, "drops": True}, "drops = True: must come with up=False"),
        ({"held": 3}, "held = 3: must be"),
        ({"loss": 1.5}, "loss = 1.5: must be"),
        ({"mtu": 3}, "argument of Network.set_link = 'mtu': must be one of"),
    ],
)
def test_a_program_that_changes_nothing_is_refused(settings: dict[str, Any], words: str) -> None:
    network = Network(topology.path(2))

    async def script(me: Actor) -> None:
        with pytest.raises(BadInput) as caught:
            network.set_link(0, 1, **settings)
        assert words in str(caught.value)

    network.run({0: Actor(script), 1: Listener()})


def test_real_links_are_what_they_are() -> None:
    for fault in (LOSSY, Hold(0, 1, at=1), LinkDown(0, 1, at=1, drops=True)):
        network = Network(topology.path(2), faults=[fault])
        with pytest.raises(
            BadInput, match=f"^{type(fault).__name__}: must be left out for agents in several processes"
        ):
            network.run({0: Listener(), 1: Listener()}, transport=UDP("127.0.0.1:9000", {"127.0.0.1:9001": [1]}))


def test_faults_of_links_are_saved(tmp_path: Path) -> None:
    script = Faults(
        [LOSSY, Hold(0, None, at=1, until=2), Partition([0], at=1, one_way=True), LinkDown(0, 1, 1, drops=True)]
    )
    script.save(tmp_path / "faults.json")
    assert Faults.load(tmp_path / "faults.json") == script
    with pytest.raises(BadInput, match="must have names and settings that are text, real numbers"):
        Faults([LinkChange(0, 1, at=1, loss=BURSTS)]).save(tmp_path / "faults.json")
