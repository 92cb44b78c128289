"""A mote of several parts: each has its frames, random numbers and tasks; name, radio and battery are the mote's."""

import asyncio
import copy
from collections import Counter
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import AgentError, BadInput, Link, Mote, Network, Part, Radio
from netsim.agents import CTP, FTSP, LPL, RPL, TSCH, ContikiMAC, Glossy
from netsim.core import Frame
from netsim.faults import Crash
from netsim.testing import Listener

LINK, CSMA = Link(rate=250e3, header_bits=136), Radio()


class Says(Part):
    """Says its kind a few times, and keeps what it hears."""

    def __init__(self, kind: str = "a", times: int = 3, pause: float = 1.0) -> None:
        self.kinds: Any = (kind,)
        self.kind, self.times, self.pause = kind, times, pause
        self.heard, self.drawn = list[Any](), list[float]()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.listen())
            for _ in range(self.times):
                # Nodes, and parts of one node, do not disturb each other.
                await asyncio.sleep(self.pause + 0.0213 * self.name + 0.01 * ord(self.kind))
                self.drawn.append(self.rng.random())
                await self.broadcast(self.kind, self.drawn[-1])

    async def listen(self) -> None:
        async for frame in self.inbox:
            self.heard.append((self.now, frame.sender, frame.kind, frame.payload))


class Fails(Part):
    async def run(self) -> None:
        await asyncio.sleep(2)
        raise ValueError("no more readings")


def play(make: Any, nodes: int = 2, *, until: float | None = 20, medium: Any = CSMA, **options: Any) -> Any:
    """Return the motes of a complete network after a run."""
    motes = {node: make(node) for node in range(nodes)}
    network = Network(nx.complete_graph(nodes), LINK, medium=medium, seed=3, **options)
    network.run(motes, until=until)
    return motes


# --- what a part has --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("medium", [Radio(), "wires"])
def test_each_part_gets_the_frames_of_its_kinds(medium: Any) -> None:
    motes = play(lambda node: Mote(one=Says("a"), two=Says("b", times=2)), 3, medium=medium)
    for node, mote in motes.items():
        assert Counter(kind for _, _, kind, _ in mote.one.heard) == {"a": 6}
        assert Counter(kind for _, _, kind, _ in mote.two.heard) == {"b": 4}
        assert {sender for _, sender, *_ in mote.one.heard} == {*range(3)} - {node}
        assert not mote.foreign
        for other in motes.values():
            if other is not mote:
                assert [value for _, sender, _, value in mote.one.heard if sender == other.name] == other.one.drawn


def test_frames_of_no_part_are_dropped_and_counted() -> None:
    motes = play(lambda node: Mote(one=Says("a" if node else "b")))
    assert (motes[0].foreign, motes[1].foreign) == ({"a": 3}, {"b": 3})
    assert not motes[0].one.heard


def test_a_part_that_is_added_changes_no_draw_of_the_others() -> None:
    alone = play(lambda node: Mote(one=Says("a")))
    both = play(lambda node: Mote(zero=Says("b"), one=Says("a")))
    assert [mote.one.drawn for mote in alone.values()] == [mote.one.drawn for mote in both.values()]
    assert both[0].one.drawn != both[0].zero.drawn
    assert both[0].one.drawn != both[1].one.drawn


def test_a_part_reaches_the_others_and_its_mote() -> None:
    class Asks(Part):
        async def run(self) -> None:
            self.found = self.mote.one, self.mote.name, self.name, self.neighbors, self.now, self.round

    [mote, _] = play(lambda node: Mote(asks=Asks(), one=Says())).values()
    assert mote.asks.found == (mote.one, 0, 0, (1,), 0, 0)
    assert mote.parts == {"asks": mote.asks, "one": mote.one}


def test_dotted_names_of_parts_are_watched() -> None:
    class Counts(Part):
        count = 0

        async def run(self) -> None:
            for self.count in range(1, 4):
                await asyncio.sleep(1)
                await self.broadcast("n", self.count)

    network = Network(nx.path_graph(2), LINK, medium=Radio())
    network.watch(["part.count"])
    run = network.run({node: Mote(part=Counts()) for node in range(2)}, until=9)
    assert run.states.query("agent == 0")["part.count"].tolist() == [0, 1, 2, 3]


def test_requests_of_parts_are_answered_by_the_part_of_their_kind() -> None:
    class Serves(Part):
        kinds: ClassVar = ("ask",)

        async def run(self) -> None:
            async for frame in self.inbox:
                await self.reply(frame, 2 * frame.payload)

    class Wants(Part):
        async def run(self) -> None:
            self.found = [(await self.request(1, "ask", k, timeout=5)).payload for k in range(3)]

    motes = play(lambda node: Mote(serves=Serves(), wants=Wants()) if node == 0 else Mote(serves=Serves()), until=60)
    assert motes[0].wants.found == [0, 2, 4]


def test_a_mote_ends_with_its_last_part() -> None:
    class Waits(Part):
        async def run(self) -> None:
            await asyncio.sleep(5)

    network = Network(nx.path_graph(2), LINK, medium=Radio())
    run = network.run({node: Mote(one=Waits(), two=Part.__new__(Ends)) for node in range(2)})
    assert run.ended_at == 5


class Ends(Part):
    async def run(self) -> None:
        """End at once."""


def test_parts_that_only_listen_end_when_nothing_can_come() -> None:
    class Hears(Part):
        kinds: ClassVar = ("a",)

        async def run(self) -> None:
            self.count = 0
            async for _ in self.inbox:
                self.count += 1

    network = Network(nx.path_graph(2), LINK, medium=Radio())
    motes = {0: Mote(says=Says("a", times=4)), 1: Mote(hears=Hears(), also=Says("b", times=0))}
    network.run(motes)
    assert motes[1].hears.count == 4


def test_agents_and_motes_share_a_network() -> None:
    listener = Listener()
    network = Network(nx.path_graph(2), LINK, medium=Radio())
    network.run({0: Mote(one=Says("a"), two=Says("b")), 1: listener}, until=9)
    assert Counter(frame.kind for frame in listener.frames) == {"a": 3, "b": 3}


def test_the_same_run_twice_is_the_same() -> None:
    first, second = (
        Network(nx.path_graph(3), LINK, medium=Radio(acks=True), seed=3).run(
            {node: Mote(one=Says("a"), two=Says("b"), route=RPL(is_sink=node == 0)) for node in range(3)}, until=30
        )
        for _ in range(2)
    )
    assert first.trace_hash == second.trace_hash


def test_motes_that_have_run_continue_as_copies() -> None:
    motes = play(lambda node: Mote(one=Says("a")))
    network = Network(nx.complete_graph(2), LINK, medium=Radio(), seed=4)
    with pytest.raises(BadInput, match="must be a new agent for each run"):
        network.run(motes)
    again = copy.deepcopy(motes)
    network.run(again, until=9)
    assert len(again[0].one.heard) == 6
    assert again[0].one.mote is again[0]
    with pytest.raises(BadInput, match="must be a new agent for each run"):
        network.run({node: Mote(one=mote.one) for node, mote in motes.items()})


# --- faults and errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_state", [True, False])
def test_after_a_crash_all_parts_begin_again(keeps_state: bool) -> None:
    crash = Crash(0, at=2.5, until=4, keeps_state=keeps_state)
    motes = play(lambda node: Mote(one=Says("a"), two=Says("b", times=2)), faults=[crash])
    usual = play(lambda node: Mote(one=Says("a"), two=Says("b", times=2)))
    mote = motes[0]
    assert mote.one.mote is mote
    assert mote.parts["one"] is mote.one
    assert [len(part.drawn) for part in mote.parts.values()] == ([4, 3] if keeps_state else [3, 2])
    # The stream of random numbers goes on where it was.
    first, *later = usual[0].one.drawn
    assert mote.one.drawn[-3:-1] == later
    assert (mote.one.drawn[0] == first) is keeps_state
    assert len(motes[1].one.heard) == 4


def test_the_error_of_a_part_names_agent_and_part() -> None:
    with pytest.raises(AgentError) as found:
        play(lambda node: Mote(one=Says("a"), sensor=Fails()))
    assert str(found.value).startswith("agent 0, in part 'sensor', raised ValueError at 2 s (test_mote.py, line ")
    assert str(found.value).endswith("): no more readings (and 1 more)") or str(found.value).endswith(
        ": no more readings"
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda: {}, r"^Mote: parts: must be one or more, as in Mote\(routing=CTP\(\), app=Sampler\(\)\)$"),
        (lambda: {"a": Says("x"), "b": Says("x")}, r"^Mote: kind 'x': must belong to one part; it is of a and of b$"),
        (lambda: {"a": CTP(), "b": RPL()}, r"^Mote: kind 'd': must belong to one part; it is of a and of b$"),
        (lambda: {"a": Listener()}, r"^Mote: a: Listener must declare its kinds, .* as Part does$"),
        (lambda: {"a": 3}, r"^Mote: a = 3: must be an agent$"),
        (lambda: {"rng": Says()}, r"^Mote: rng: must have another name, for this one is the mote's own$"),
        (lambda: {"parts": Says()}, r"^Mote: parts: must have another name"),
        (lambda: {"run": Says()}, r"^Mote: run: must have another name"),
        (lambda: {"a": Mote(b=Says())}, r"^Mote: a: must be no mote$"),
        (lambda: {"a": ContikiMAC()}, r"^Mote: a: must be no MAC layer: give it as mac= of the mote$"),
        (lambda: {"mac": Says(), "a": CTP()}, r"^Mote: mac: must be a MAC layer, .* not Says$"),
        (lambda: {"mac": TSCH(), "a": Glossy()}, r"^Mote: the radio must be switched by one part; mac and a do so$"),
        (lambda: {"mac": LPL(), "time": FTSP()}, r"^Mote: time: FTSP must be without a MAC layer below"),
    ],
)
def test_what_is_no_mote_is_refused_as_it_is_made(parts: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Mote(**parts())


class Answers(Part):
    kinds: ClassVar = ("q",)

    async def run(self) -> None:
        """Answer only."""

    def answer(self, frame: Frame) -> Any:
        return frame.payload


class InRounds(netsim.RoundAgent):
    kinds: ClassVar = ("r",)


@pytest.mark.parametrize("part", [Answers, lambda: InRounds.__new__(InRounds)])
def test_a_part_has_no_rounds_and_answers_no_requests(part: Any) -> None:
    with pytest.raises(BadInput, match=r"^Mote: a: must be an agent without "):
        Mote(a=part())


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("rounds", "part 'a': a part of a mote has no rounds; use asyncio.sleep"),
        ("collect", r"collect\(\) is for use inside"),
    ],
)
def test_rounds_in_a_part_are_refused_as_they_begin(does: str, message: str) -> None:
    class Tries(Part):
        async def run(self) -> None:
            if does == "collect":
                await self.collect()
            async for _ in self.rounds(3):
                pass

    with pytest.raises(AgentError, match=message):
        play(lambda node: Mote(a=Tries()))


def test_only_one_part_switches_the_radio() -> None:
    class Switches(Part):
        def __init__(self, how: str) -> None:
            self.how = how

        async def run(self) -> None:
            if self.how == "off":
                self.radio.off()
            else:
                await asyncio.sleep(1)
                self.radio.channel = 3

    play(lambda node: Mote(a=Switches("off"), b=Says()))
    with pytest.raises(
        AgentError, match=r"agent 0: part 'b' cannot switch the radio or set its channel: part 'a' does"
    ):
        play(lambda node: Mote(a=Switches("off"), b=Switches("tune")))


def test_a_part_of_two_motes_is_refused() -> None:
    part = Says()
    with pytest.raises(BadInput, match=r"agents\[1\]\.one: must be an object of its own"):
        play(lambda node: Mote(one=part))


def test_protocols_of_parts_are_checked_together() -> None:
    with pytest.raises(BadInput, match="is_sink = False: must be True for one agent"):
        play(lambda node: Mote(routing=CTP()), medium=Radio(acks=True))


# --- above a MAC layer ------------------------------------------------------------------------------------------------

DUTY = Radio(access="aloha", acks=True, max_frame_retries=0)


@pytest.mark.parametrize("layer", [LPL, ContikiMAC])
def test_parts_send_over_the_mac_layer_of_their_mote(layer: Any) -> None:
    class Tells(Part):
        kinds: ClassVar = ("t", "u")

        async def run(self) -> None:
            self.heard, self.results = list[Any](), list[Any]()
            if self.name == 0:
                await self.broadcast("t", 1.5)
                self.results.append(await self.deliver(1, "u", [1, 2]))
                return
            async for message in self.inbox:
                self.heard.append((message.sender, message.kind, message.payload))

    motes = play(lambda node: Mote(mac=layer(), app=Tells(), other=Says("z", times=0)), medium=DUTY)
    assert motes[1].app.heard == [(0, "t", 1.5), (0, "u", [1, 2])]
    assert bool(motes[0].app.results[0])
    assert not motes[1].foreign


@pytest.mark.parametrize(
    ("does", "message"),
    [
        (lambda part: part.request(1, "t"), "above a MAC part there are no requests"),
        (lambda part: part.broadcast("t", 1.0, raw_data=True), "above a MAC part raw data is not counted"),
        (lambda part: part.radio.transmit("t"), "above a MAC part there is no radio.transmit; use deliver"),
    ],
)
def test_what_a_mac_layer_cannot_do_is_refused(does: Any, message: str) -> None:
    class Tries(Part):
        async def run(self) -> None:
            if self.name == 0:
                await does(self)

    with pytest.raises(AgentError, match=message):
        play(lambda node: Mote(mac=LPL(), app=Tries()), medium=DUTY)


def test_what_is_sent_last_leaves_before_the_mote_ends() -> None:
    class Once(Part):
        async def run(self) -> None:
            await self.broadcast("t", self.name)

    heard = Says("t", times=0)
    Network(nx.path_graph(2), LINK, medium=DUTY, seed=1).run(
        {0: Mote(mac=LPL(), app=Once()), 1: Mote(mac=LPL(), app=heard)}, until=9
    )
    assert [each[1:] for each in heard.heard] == [(0, "t", 0)]


# --- the standard deployment ------------------------------------------------------------------------------------------


def test_motes_sample_at_a_common_time_and_report() -> None:
    taken: dict[int, list[float]] = {}

    class Sampler(Part):
        async def run(self) -> None:
            time, routing = self.mote.time, self.mote.routing
            while True:
                if not time.is_synchronised:
                    await asyncio.sleep(1)
                    continue
                slot = int(time.global_time() // 10) + 1
                await time.until(10 * slot)
                taken.setdefault(slot, []).append(asyncio.get_running_loop().now())  # type: ignore[attr-defined]
                await asyncio.sleep(self.rng.uniform(0, 5))
                routing.report([slot, 20.5])

    preset = netsim.presets.ieee802154(acks=True, power_dbm=-10)
    places = {node: (18 * (node % 3), 18 * (node // 3)) for node in range(9)}
    site = netsim.Deployment(places, sinks=[0], preset=preset, drift_ppm=40, offset=2, seed=1)
    motes = {node: Mote(time=FTSP(10), routing=CTP(is_sink=node == 0), app=Sampler()) for node in places}
    site.network(seed=1).run(motes, until=300)
    heard, sampled = motes[0].routing.heard, sum(mote.routing.taken for mote in motes.values())
    assert sampled - len(heard) <= 9  # the last ones are on their way
    late = {slot: times for slot, times in taken.items() if slot >= 25}
    assert len(late) >= 4
    for times in late.values():
        assert len(times) == 9
        assert np.ptp(times) < 1e-6
