"""A mote of several parts: each has its own frames, draws and tasks; the mote has name, radio and battery."""

import asyncio
import copy
import itertools
import pickle
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import AgentError, BadInput, Link, Mote, Network, Part, Radio
from netsim.agents import (
    CTP,
    FTSP,
    LPL,
    RPL,
    TSCH,
    ContikiMAC,
    Dissemination,
    Glossy,
    Neighbors,
    Requests,
    XMac,
)
from netsim.core import Frame
from netsim.distributed.states import StateWriter
from netsim.faults import Crash, Join, Leave
from netsim.testing import Listener

LINK, CSMA = Link(rate=250e3, header_bits=136), Radio()


class Says(Part):
    """Sends some frames of its kind, and stores the frames that it receives."""

    def __init__(self, kind: str = "a", times: int = 3, pause: float = 1.0) -> None:
        self.kinds: Any = (kind,)
        self.kind, self.times, self.pause = kind, times, pause
        self.heard, self.drawn = list[Any](), list[float]()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.listen())
            for _ in range(self.times):
                # Different pauses prevent collisions between nodes and between the parts of one node.
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
    """Run motes on a complete graph, and return them."""
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
        """Do nothing."""


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
    # With or without its state, the part continues its random stream after the crash.
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
        (lambda: {"rng": Says()}, r"^Mote: rng: must have another name; the mote has an attribute of this name$"),
        (lambda: {"parts": Says()}, r"^Mote: parts: must have another name"),
        (lambda: {"run": Says()}, r"^Mote: run: must have another name"),
        (lambda: {"a": Mote(b=Says())}, r"^Mote: a: must not be a mote$"),
        (lambda: {"a": ContikiMAC()}, r"^Mote: a: must not be a MAC layer: give it as mac= of the mote$"),
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
        """Do nothing; the part only answers requests."""

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
    assert sampled - len(heard) <= 9  # the last ones are in flight at the end
    late = {slot: times for slot, times in taken.items() if slot >= 25}
    assert len(late) >= 4
    for times in late.values():
        assert len(times) == 9
        assert np.ptp(times) < 1e-6


# --- legal, if unusual, programs --------------------------------------------------------------------------------------


class Keeps(Part):
    """Stores the payloads of one kind."""

    kinds: ClassVar = ("k",)

    def __init__(self) -> None:
        self.got = list[Any]()

    async def run(self) -> None:
        async for frame in self.inbox:
            self.got.append(frame.payload)


class Calls(Part):
    """Runs a coroutine function that gets the part as its argument."""

    def __init__(self, does: Any) -> None:
        self.does, self.found = does, list[Any]()

    async def run(self) -> None:
        self.found.append(await self.does(self))


def both(does: Any, *, mac: Any = None, **options: Any) -> Any:
    """Run two motes: the first part of node 0 calls ``does``, and the second part of each node stores payloads."""

    async def nothing(part: Any) -> None:
        """Do nothing."""

    def make(node: int) -> Mote:
        return Mote(app=Calls(nothing if node else does), keeps=Keeps(), mac=None if mac is None else mac())

    return play(make, medium=CSMA if mac is None else DUTY, **options)


def test_one_task_reads_the_inbox_and_another_iterates() -> None:
    """If no frame can arrive any more, an iteration over the inbox ends, but a task in `inbox.get` keeps waiting."""

    class Reads(Part):
        kinds: ClassVar = ("k",)

        async def run(self) -> None:
            async with asyncio.TaskGroup() as group:
                waits = group.create_task(self.inbox.get())
                await asyncio.sleep(1)
                async for _ in self.inbox:
                    pass
                self.waited = not waits.done()
                waits.cancel()

    motes = {node: Mote(reads=Reads()) for node in range(2)}
    Network(nx.path_graph(2), LINK, medium=CSMA).run(motes)
    assert [mote.reads.waited for mote in motes.values()] == [True, True]


@pytest.mark.parametrize("whole", [lambda part: part, lambda part: Mote(part=part)])
def test_who_iterated_may_still_send_to_who_waits(whole: Any) -> None:
    class Waits(Part):
        kinds: ClassVar = ("k", "bye")

        async def run(self) -> None:
            self.got = [(await self.inbox.get()).kind for _ in range(2)]

    class Leaves(Waits):
        async def run(self) -> None:
            await self.broadcast("k")
            async for _ in self.inbox:
                pass
            await self.broadcast("bye")

    waits = Waits()
    Network(nx.path_graph(2), LINK, medium=CSMA).run({0: whole(waits), 1: whole(Leaves())})
    assert waits.got == ["k", "bye"]


def test_a_task_that_is_cancelled_as_it_is_woken_leaves_the_frame_to_the_next() -> None:
    class Reads(Part):
        kinds: ClassVar = ("z",)

        async def run(self) -> None:
            first, second = (asyncio.create_task(self.inbox.get()) for _ in range(2))
            await asyncio.sleep(1)
            self.inbox.put("frame")
            first.cancel()
            self.got = await second

    motes = {0: Mote(reads=Reads())}
    Network(nx.path_graph(1), LINK, medium=CSMA).run(motes)
    assert motes[0].reads.got == "frame"


def test_a_stalled_part_is_named_with_its_line() -> None:
    async def does(part: Any) -> None:
        await asyncio.Event().wait()

    network = Network(nx.path_graph(2), LINK, medium=CSMA)
    with pytest.raises(
        netsim.errors.Stalled, match=r"agent 0 waits for Event.wait\(\) \(test_mote.py, line \d+\), in part 'app'$"
    ):
        network.run({0: Mote(app=Calls(does)), 1: Mote(keeps=Keeps())})


def test_an_error_in_a_group_of_a_part_names_the_part() -> None:
    async def fails() -> None:
        raise ValueError("no more readings")

    async def does(part: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    with pytest.raises(AgentError, match=r"agent 0, in part 'app', raised ValueError at 0 s .*: no more readings"):
        both(does)


def test_a_part_that_is_cancelled_ends_the_mote_as_an_agent() -> None:
    async def does(part: Any) -> None:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(1)

    with pytest.raises(AgentError, match=r"agent 0 was cancelled at 0 s .* though the run goes on"):
        both(does)


def test_parts_that_call_others_may_be_given_first() -> None:
    async def does(part: Any) -> Any:
        part.mote.routing.report(1.5)
        part.mote.update.publish(b"abc")
        return await part.mote.calls.ask(1, 3)

    class Serves(Requests):
        def answer_to(self, sender: Any, value: Any) -> Any:
            return value + 1

    async def nothing(part: Any) -> None:
        """Do nothing."""

    motes = {
        node: Mote(
            app=Calls(nothing if node else does),
            calls=Serves(),
            update=Dissemination(),
            routing=CTP(is_sink=node == 1),
        )
        for node in range(2)
    }
    Network(nx.path_graph(2), LINK, medium=Radio(acks=True), seed=1).run(motes, until=30)
    assert motes[0].app.found == [4]
    assert motes[1].update.image == b"abc"
    assert [arrival.value for arrival in motes[1].routing.heard.values()] == [1.5]


@pytest.mark.parametrize("mac", [None, LPL])
def test_a_message_is_what_it_was_as_it_was_sent(mac: Any) -> None:
    async def does(part: Any) -> None:
        values, array = [1], np.zeros(2)
        await part.broadcast("k", values)
        values.append(2)
        await part.send(1, "k", values)
        values.append(3)
        await part.broadcast("k", array)
        array[:] = 9

    motes = both(does, mac=mac)
    *lists, array = motes[1].keeps.got
    assert lists == [[1], [1, 2]]
    assert array.tolist() == [0, 0]


@pytest.mark.parametrize("mac", [None, LPL])
@pytest.mark.parametrize(
    ("does", "message"),
    [
        (lambda part: part.broadcast("k", object()), r"raised WireError at 0 s .*: cannot encode a builtins.object"),
        (lambda part: part.broadcast(3, 1), r"raised BadInput at 0 s .*: kind = 3: must be a str$"),
        (lambda part: part.send(1, None, 1), r"raised BadInput at 0 s .*: kind = None: must be a str$"),
        (lambda part: part.send(9, "k", 1), r"raised AgentError at 0 s .*: agent 0 cannot send to 9"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_the_call(does: Any, message: str, mac: Any) -> None:
    with pytest.raises(AgentError, match=r"^agent 0, in part 'app', " + message):
        both(does, mac=mac)


@pytest.mark.parametrize("mac", [None, LPL])
@pytest.mark.parametrize("faults", [[Crash(0, at=4, until=8)], [Leave(0, at=4)], [Join(0, at=6)]])
def test_a_node_that_is_down_sends_nothing(mac: Any, faults: Any) -> None:
    async def sleeps(part: Any) -> None:
        await asyncio.sleep(99)

    motes: Any = {0: Mote(app=Calls(sleeps), mac=mac and mac()), 1: Mote(keeps=Keeps(), mac=mac and mac())}
    network = Network(nx.path_graph(2), LINK, medium=DUTY, seed=1, faults=faults)
    network.at(5, lambda: asyncio.get_running_loop().create_task(motes[0].app.broadcast("k", 1)))
    network.run(motes, until=20)
    assert motes[1].keeps.got == []


def test_a_mote_that_has_ended_sends_nothing_over_its_mac_layer() -> None:
    async def nothing(part: Any) -> None:
        """Do nothing."""

    async def sends() -> None:
        results.append((await motes[0].app.broadcast("k", 1), bool(await motes[0].app.deliver(1, "k", 1))))

    results: list[Any] = []
    motes: Any = {0: Mote(app=Calls(nothing), mac=LPL()), 1: Mote(keeps=Keeps(), mac=LPL())}
    network = Network(nx.path_graph(2), LINK, medium=DUTY, seed=1)
    network.at(5, lambda: asyncio.get_running_loop().create_task(sends()))
    network.run(motes, until=20)
    assert results == [(0, False)]
    assert motes[1].keeps.got == []


@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize("mac", [None, LPL, ContikiMAC])
@pytest.mark.parametrize("at", [1.0, 1.0013, 1.01, 1.3])
def test_a_crash_while_it_sends_leaves_a_mote_that_sends(mac: Any, keeps_state: bool, at: float) -> None:
    async def does(part: Any) -> Any:
        await asyncio.sleep(1)
        await part.broadcast("k", bytes(60))
        return bool(await part.deliver(1, "k", bytes(60)))

    class Sends(Calls):
        async def run(self) -> None:
            self.began = [*getattr(self, "began", ()), self.now]
            await super().run()

    medium = replace(DUTY, access="csma") if mac is None else DUTY
    parts: Any = {0: {"app": Sends(does)}, 1: {}}
    motes: Any = {node: Mote(**each, keeps=Keeps(), mac=mac and mac()) for node, each in parts.items()}
    crash = Crash(0, at=at, until=2, keeps_state=keeps_state)
    Network(nx.path_graph(2), LINK, medium=medium, seed=3, faults=[crash]).run(motes, until=9)
    app = motes[0].app
    assert app.found[-1] is True
    assert app.began == ([0.0, 2.0] if keeps_state else [2.0])
    assert 2 <= len(motes[1].keeps.got) <= 4


def test_motes_join_leave_and_run_empty() -> None:
    async def says(part: Any) -> None:
        while True:
            await asyncio.sleep(1 + 0.01 * part.name)
            await part.broadcast("k", part.name)

    energy = {2: netsim.Energy(transmit=0.05, receive=0.05, listen=0.05, sleep=0, battery=0.3)}
    motes = play(
        lambda node: Mote(app=Calls(says), keeps=Keeps()),
        3,
        medium=Radio(energy=energy),
        faults=[Join(0, at=4.5), Leave(1, at=10.5)],
    )
    counts = Counter(motes[0].keeps.got), Counter(motes[1].keeps.got), Counter(motes[2].keeps.got)
    assert counts[0] == {1: 6, 2: 1}
    assert counts[1][2] == 5
    assert set(counts[2]) == {0, 1}


def test_nodes_may_have_any_names() -> None:
    names = [np.int64(3), (1, "a"), "s", ("t", np.int64(0))]

    async def says(part: Any) -> None:
        index = [*map(str, motes)].index(str(part.name))
        await asyncio.sleep(index)
        await part.broadcast("k", index)

    motes = {name: Mote(app=Calls(says), keeps=Keeps()) for name in names}
    Network(nx.complete_graph(names), LINK, medium=CSMA).run(motes, until=9)
    for index, name in enumerate(names):
        assert motes[name].keeps.got == [each for each in range(4) if each != index]


def test_a_journal_can_hold_a_mote() -> None:
    """Deployments write agents to journals, so motes on wires must be writable."""
    motes = {0: Mote(keeps=Keeps(), update=Dissemination(b"abc"), calls=Requests(), table=Neighbors())}
    assert StateWriter(motes, lambda digest, data: None).state(0)


def test_motes_before_a_run_can_be_pickled() -> None:
    mote = pickle.loads(pickle.dumps(Mote(keeps=Keeps(), update=Dissemination(b"abc"))))
    assert mote.parts == {"keeps": mote.keeps, "update": mote.update}
    assert mote.update.mote is mote


def test_motes_split_over_processes() -> None:
    """Motes on wires may be split over processes; on a radio this is refused."""

    async def says(part: Any) -> None:
        await asyncio.sleep(1)
        await part.broadcast("k", part.name)

    motes = {node: Mote(app=Calls(says), keeps=Keeps()) for node in range(2)}
    with pytest.raises(BadInput, match=r"workers = 2: must be 1 on a netsim.Radio"):
        Network(nx.path_graph(2), LINK, medium=CSMA).run(motes, workers=2)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda: {"a": Kinds("alarm")}, r"^Mote: a: kinds = 'alarm': must be a collection of texts, such as"),
        (lambda: {"a": Kinds(("x", 3))}, r"^Mote: a: kinds = \('x', 3\): must be a collection of texts"),
        (lambda: {"a": Kinds(5)}, r"^Mote: a: kinds = 5: must be a collection of texts"),
        (lambda: dict.fromkeys("ab", Keeps()), r"^Mote: b: must be an object of its own; it is the same as a$"),
        (lambda: {"_owners": Keeps()}, r"^Mote: _owners: must have another name"),
        (lambda: {"mote": Keeps()}, r"^Mote: mote: must have another name"),
        (
            lambda: {"a": Keeps(), "g": Glossy()},
            r"^Mote: g: Glossy must be the only part that gets frames, for it .*; a gets some, too$",
        ),
        (lambda: {"a": CTP(), "g": Glossy()}, r"^Mote: g: Glossy must be the only part that gets frames"),
    ],
)
def test_what_would_fail_silently_is_refused(parts: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Mote(**parts())


class Kinds(Part):
    def __init__(self, kinds: Any) -> None:
        self.kinds = kinds


def test_glossy_and_an_application_share_a_mote() -> None:
    async def does(part: Any) -> Any:
        await asyncio.sleep(5)
        return part.mote.flood.hops

    motes = play(lambda node: Mote(flood=Glossy(is_initiator=node == 0), app=Calls(does)), medium=Radio(access="aloha"))
    assert [mote.app.found for mote in motes.values()] == [[0], [1]]


# --- every MAC layer below every protocol -----------------------------------------------------------------------------


class Doubles(Requests):
    def answer_to(self, sender: Any, value: Any) -> Any:
        return 2 * value


async def _reports(part: Any) -> None:
    await asyncio.sleep(20)
    part.mote.it.report(part.name)


async def _asks(part: Any) -> Any:
    await asyncio.sleep(15)
    return await part.mote.it.ask(part.neighbors[0], 4)


async def _commands(part: Any) -> Any:
    await asyncio.sleep(30)
    return part.name or part.mote.it.down.send(2, "go")


IMAGE = bytes(range(256))
LAYERS: dict[str, Any] = {
    "csma": None,
    "LPL": lambda first: LPL(0.125),
    "XMac": lambda first: XMac(0.125),
    "ContikiMAC": lambda first: ContikiMAC(0.125),
    "TSCH": lambda first: TSCH(is_root=first, slotframe=7, hopping=range(2), beacons=1.0),
}
ABOVE: dict[str, tuple[Any, Any, Any]] = {
    "CTP": (
        lambda first: CTP(is_sink=first),
        _reports,
        lambda motes: {each.value for each in motes[0].it.heard.values()} == {0, 1, 2},
    ),
    "RPL": (
        lambda first: RPL(is_sink=first, downward="storing"),
        _commands,
        lambda motes: [each.value for each in motes[2].it.down.received.values()] == ["go"],
    ),
    "Dissemination": (
        lambda first: Dissemination(IMAGE if first else None, packet=32, page=4, imin=1.0),
        None,
        lambda motes: all(mote.it.image == IMAGE for mote in motes.values()),
    ),
    "Requests": (
        lambda first: Doubles(),
        _asks,
        lambda motes: [mote.app.found for mote in motes.values()] == [[8]] * 3,
    ),
    "Neighbors": (
        lambda first: Neighbors(5.0),
        None,
        lambda motes: [set(mote.it.table) for mote in motes.values()] == [{1}, {0, 2}, {1}],
    ),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("above", ABOVE)
def test_each_protocol_works_above_each_mac_layer(layer: str, above: str) -> None:
    make, does, holds = ABOVE[above]
    motes = {
        node: Mote(
            mac=LAYERS[layer] and LAYERS[layer](node == 0),
            it=make(node == 0),
            **({} if does is None else {"app": Calls(does)}),
        )
        for node in range(3)
    }
    medium = Radio(acks=True, max_frame_retries=0) if layer == "csma" else DUTY
    Network(nx.path_graph(3), LINK, medium=medium, seed=2).run(motes, until=45)
    assert holds(motes)


async def _is_busy(part: Any) -> None:
    """Use the protocol until the run ends, so that the protocol still has work to do then."""
    it = part.mote.it
    while hasattr(it, "report") or hasattr(it, "ask"):
        await asyncio.sleep(0.5)
        if hasattr(it, "report"):
            it.report(part.name)
        else:
            await it.ask(part.neighbors[0], 4)


def _copied(motes: Any, medium: Radio) -> None:
    """Run motes, and then a deep copy and a pickled copy of them."""
    network = Network(nx.path_graph(3), LINK, medium=medium, seed=2)
    network.run(motes, until=5)
    network.run(copy.deepcopy(motes), until=1)
    network.run(pickle.loads(pickle.dumps(motes)), until=1)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("above", ABOVE)
def test_motes_are_copied_while_they_have_work_left(layer: str, above: str) -> None:
    motes = {
        node: Mote(mac=LAYERS[layer] and LAYERS[layer](node == 0), it=ABOVE[above][0](node == 0), app=Calls(_is_busy))
        for node in range(3)
    }
    _copied(motes, Radio(acks=True, max_frame_retries=0) if layer == "csma" else DUTY)


BESIDE: dict[str, Any] = {
    "FTSP": lambda first: FTSP(5.0),
    "CTP": lambda first: CTP(is_sink=first),
    "RPL": lambda first: RPL(is_sink=first),
    "Dissemination": lambda first: Dissemination(IMAGE if first else None, packet=32, page=4, imin=1.0),
    "Requests": lambda first: Doubles(),
    "Neighbors": lambda first: Neighbors(5.0),
    "Glossy": lambda first: Glossy(is_initiator=first),
}
REFUSED = {frozenset({"CTP", "RPL"}), *(frozenset({"Glossy", name}) for name in BESIDE)}


@pytest.mark.parametrize("name", BESIDE)
def test_protocols_that_have_run_alone_are_copied(name: str) -> None:
    _copied({node: BESIDE[name](node == 0) for node in range(3)}, DUTY)


@pytest.mark.parametrize("pair", list(itertools.combinations(BESIDE, 2)), ids="-".join)
def test_each_two_protocols_are_parts_of_one_mote_or_are_refused(pair: tuple[str, str]) -> None:
    def make(node: int) -> Mote:
        return Mote(**{name: BESIDE[name](node == 0) for name in pair})

    if frozenset(pair) in REFUSED:
        with pytest.raises(BadInput, match=r"^Mote: "):
            make(0)
        return
    motes = {node: make(node) for node in range(3)}
    Network(nx.path_graph(3), LINK, medium=Radio(acks=True, max_frame_retries=0), seed=2).run(motes, until=60)
    for name in pair:
        parts = [mote.parts[name] for mote in motes.values()]
        assert not any(part.foreign for part in parts)
        if name in ("CTP", "RPL"):
            assert [part.parent for part in parts] == [None, 0, 1]
        elif name == "FTSP":
            assert all(part.is_synchronised for part in parts)
        elif name == "Dissemination":
            assert all(part.image == IMAGE for part in parts)
        elif name == "Neighbors":
            assert [len(part.table) for part in parts] == [1, 2, 1]
