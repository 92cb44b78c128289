"""`radio.transmit` returns when the message has left; received frames carry the start and the time of their event."""

import asyncio
import math
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import AgentError, BadInput, Link, Network, Radio
from netsim.core.delivery import Sent
from netsim.faults import ClockSkew, Crash, Straggler
from netsim.testing import Listener
from tests.netsim.radio.test_radio_twins import in_python

LINK = Link(rate=250e3, header_bits=136)
ALOHA = Radio(access="aloha")


class Does(netsim.Agent):
    """Calls its radio, and stores the results of the calls."""

    def __init__(self, does: Any) -> None:
        self.does, self.found = does, list[Any]()

    async def run(self) -> None:
        self.found.append(await self.does(self))


class Hears(netsim.Agent):
    """Stores received frames with their arrival times."""

    def __init__(self, channel: int = 0) -> None:
        self.tuned, self.heard = channel, list[tuple[float, netsim.Frame]]()

    async def run(self) -> None:
        self.radio.channel = self.tuned
        async for frame in self.inbox:
            self.heard.append((self.now, frame))


def played(does: Any, radio: Radio = ALOHA, *others: Any, link: Link = LINK, **options: Any) -> tuple[Any, Any, Any]:
    """Run agent 0 with one to three neighbours; return its results, the neighbours and the run."""
    agents = dict(enumerate([Does(does), *(others or [Hears()])]))
    network = Network(nx.star_graph(len(agents) - 1), link, medium=radio, seed=5, **options)
    run = network.run(agents, until=100, trace=True)
    return agents[0].found[0], [*agents.values()][1:], run


def test_a_broadcast_has_left_the_air_after_its_bits() -> None:
    async def does(agent: Any) -> Any:
        await asyncio.sleep(1)
        sent = await agent.radio.transmit("k", 7.5)
        return sent, agent.now

    (sent, now), [other], run = played(does)
    bits = run.on_air["bits"].iloc[0]
    assert (sent.on_air, sent.acknowledged, sent.reason, sent.channel, sent.attempts) == (True, None, "", 0, 1)
    assert (sent.began, sent.ended) == (1, pytest.approx(1 + bits / 250e3))
    assert now == sent.ended
    [(arrived, frame)] = other.heard
    assert (arrived, frame.began, frame.event) == (sent.ended, 1, None)


def test_messages_leave_in_the_order_in_which_they_were_asked_for() -> None:
    async def does(agent: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(agent.radio.transmit("a"))
            await agent.broadcast("b")
            last = group.create_task(agent.radio.transmit("c", to=1))
        return first.result(), last.result()

    (first, last), [other], _ = played(does, Radio())
    # A new task starts later than the `broadcast` that is called in the same step.
    assert [frame.kind for _, frame in other.heard] == ["b", "a", "c"]
    assert first.ended < last.began


def test_a_unicast_has_left_the_air_once_it_is_acknowledged_or_given_up() -> None:
    async def does(agent: Any) -> Any:
        return await agent.radio.transmit("k", 1.0, to=1), agent.now

    (sent, now), _, run = played(does, Radio(access="aloha", acks=True))
    ack = run.on_air.query("kind == '(acknowledgement)'")["end_s"].iloc[0]
    assert (sent.on_air, sent.acknowledged, sent.reason, now) == (True, True, "", ack)
    (sent, now), _, run = played(
        does, Radio(access="aloha", acks=True, max_frame_retries=2), link=replace(LINK, loss=1.0)
    )
    assert (sent.on_air, sent.acknowledged, sent.reason, sent.attempts) == (True, False, "lost", 3)
    assert sent.began == run.on_air["start_s"].iloc[-1]
    assert now > sent.ended


def test_what_was_never_on_the_air_says_why() -> None:
    async def does(agent: Any) -> Any:
        await agent.broadcast("first")
        return await agent.radio.transmit("k", bytes(50)), await agent.radio.transmit("k")

    (refused, sent), _, _ = played(does, Radio(), link=replace(LINK, queue=1))
    assert not refused.on_air
    assert (refused.reason, refused.attempts, refused.channel) == ("queue_full", 0, -1)
    assert math.isnan(refused.began)
    assert math.isnan(refused.ended)
    assert not sent.on_air


def test_a_busy_channel_ends_a_broadcast_that_nothing_acknowledges() -> None:
    async def does(agent: Any) -> Any:
        await asyncio.sleep(0.01)
        return await agent.radio.transmit("k")

    jammer = Does(lambda agent: agent.radio.transmit("jam", bytes(5000)))
    sent, _, run = played(does, Radio(access={1: "aloha"}, max_csma_backoffs=1), jammer)
    assert (sent.on_air, sent.reason, sent.backoffs) == (False, "access_failed", 2)
    assert jammer.found[0].on_air
    assert [*run.airtime["access_failures"]] == [1, 0]


def test_a_frame_goes_out_on_the_channel_that_was_set_as_it_was_asked_for() -> None:
    async def does(agent: Any) -> Any:
        await agent.broadcast("a")
        agent.radio.channel = 5
        return await agent.radio.transmit("b")

    for radio in (ALOHA, Radio()):
        sent, others, _ = played(does, radio, Hears(0), Hears(5))
        assert [[frame.kind for _, frame in each.heard] for each in others] == [["a"], ["b"]]
        assert sent.channel == 5


# --- events -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radio", "link", "to"),
    [
        (Radio(), LINK, None),
        (Radio(access="aloha"), replace(LINK, latency=3e-6), None),
        (Radio(acks=True, max_frame_retries=9), replace(LINK, loss=0.6), 1),
        (Radio(acks=True, max_frame_retries=9), replace(LINK, loss=0.4, mtu=40), 1),
        (Radio(), replace(LINK, mtu=40), None),
        (Radio(access="slotted_aloha", slot=0.7), LINK, None),
    ],
)
def test_an_event_is_the_same_moment_by_the_receivers_clock(radio: Radio, link: Link, to: Any) -> None:
    """The error is the link's delay (3 us in one case) and the drift of the clocks while the frame waited."""
    clocks = [ClockSkew(0, offset=3.0, drift=80e-6), ClockSkew(1, offset=-2.0, drift=-60e-6)]
    at = 7.25

    async def does(agent: Any) -> Any:
        await asyncio.sleep(clocks[0].clock.local(at) - agent.now)
        event = agent.now
        await asyncio.sleep(0.125)
        await agent.broadcast("before", bytes(20))
        return await agent.radio.transmit("k", bytes(100), to, event=event)

    sent, [other], run = played(does, radio, link=link, faults=clocks)
    [frame] = [frame for _, frame in other.heard if frame.kind == "k"]
    delay = link.latency_model.fixed or 0.0
    last = run.on_air.query("kind == 'k'").iloc[-1]
    waited = last["start_s"] - at
    drifted = waited * (1 / clocks[1].clock.rate - 1 / clocks[0].clock.rate)
    assert frame.event == pytest.approx(clocks[1].clock.local(at + delay) + drifted, rel=0, abs=0.6e-6)
    assert waited > 0.125
    if not radio.acks:
        assert frame.began == pytest.approx(clocks[1].clock.local(last["start_s"] + delay), rel=0, abs=1e-9)
    assert sent.began == pytest.approx(clocks[0].clock.local(last["start_s"]), rel=0, abs=1e-9)


def test_an_event_costs_32_bits() -> None:
    async def does(agent: Any) -> Any:
        await agent.radio.transmit("k", 1.5)
        return await agent.radio.transmit("k", 1.5, event=agent.now)

    *_, run = played(does)
    without, with_event = run.on_air["bits"]
    assert with_event - without == 32
    assert run.ledger.wire_bits == without + with_event


def test_a_frame_keeps_its_stamps_when_it_is_copied_and_pickled() -> None:
    import copy
    import pickle

    async def does(agent: Any) -> Any:
        await asyncio.sleep(2)
        return await agent.radio.transmit("k", [1, 2], event=1.5)

    _, [other], _ = played(does)
    [(_, frame)] = other.heard
    for again in (copy.copy(frame), copy.deepcopy(frame), pickle.loads(pickle.dumps(frame)), frame.copy()):
        assert (again.began, again.event, again.payload) == (2, pytest.approx(1.5), [1, 2])


def test_a_frame_over_wires_has_no_stamps() -> None:
    class Says(netsim.Agent):
        async def run(self) -> None:
            await self.broadcast("k")

    listener = Listener()
    Network(nx.path_graph(2)).run({0: Says(), 1: listener})
    [frame] = listener.frames
    assert frame.began is None
    assert frame.event is None


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (AgentError, r"agent 0 cannot send to 9: its neighbours are 1$", {"to": 9}),
        (BadInput, r"event = 1e-09: must be at most 0$", {"event": 1e-9}),
        (BadInput, r"event = -5000: must be ", {"event": -5000}),
        (BadInput, r"event = nan: must be ", {"event": math.nan}),
        (BadInput, r"event = 'now': must be ", {"event": "now"}),
        (BadInput, r"kind = 3: must be a str", {"kind": 3}),
    ],
)
def test_what_cannot_be_transmitted_is_refused_in_one_line(error: Any, message: str, call: Any) -> None:
    with pytest.raises(AgentError, match=message) as found:
        played(lambda agent: agent.radio.transmit(**{"kind": "k"} | call))
    assert "\n" not in str(found.value)
    assert error is AgentError or error.__name__ in str(found.value)


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        (r"access\[1\] = 'tdma': must be one of ", {"access": {1: "tdma"}}),
        (r"slot = None: must go with access = 'slotted_aloha'", {"access": {1: "slotted_aloha"}}),
        (r"slot = 1: must go with access = 'slotted_aloha'", {"access": {1: "aloha"}, "slot": 1}),
    ],
)
def test_a_wrong_access_is_refused(message: str, settings: Any) -> None:
    with pytest.raises(BadInput, match=message):
        Radio(**settings)


def test_an_access_of_no_node_is_refused() -> None:
    with pytest.raises(BadInput, match="access: node = 9: must be a node of the network's graph"):
        Network(nx.path_graph(2), LINK, medium=Radio(access={9: "aloha"}))


def test_a_node_that_is_left_out_uses_csma() -> None:
    async def does(agent: Any) -> Any:
        return agent.radio.access

    other = Does(does)
    found, _, _ = played(does, Radio(access={1: "slotted_aloha"}, slot=1.0), other)
    assert (found, other.found) == ("csma", ["slotted_aloha"])


def test_what_was_sent_is_a_record() -> None:
    sent = Sent(True, None, 1.0, 1.5, 0, 1, 0, "", None)
    assert sent == replace(sent)
    assert repr(sent).startswith("Sent(on_air=True, acknowledged=None, began=1.0, ended=1.5, channel=0")


# --- what may happen meanwhile ----------------------------------------------------------------------------------------

TWINS = pytest.mark.parametrize("twin", [lambda play: play(), in_python])


@TWINS
def test_a_frame_sent_again_leaves_the_events_age_of_its_first_copy(twin: Any) -> None:
    """The link's delay is longer than the wait for an acknowledgement, so each frame is sent again under way."""
    link = replace(LINK, latency=0.003)

    async def does(agent: Any) -> Any:
        await asyncio.sleep(1)
        return await agent.radio.transmit("k", to=1, event=0.75)

    def play() -> tuple[Sent, netsim.Frame]:
        agents = {0: Does(does), 1: Hears()}
        Network(nx.path_graph(2), link, medium=Radio(access="aloha", acks=True)).run(agents, until=3)
        return agents[0].found[0], agents[1].heard[0][1]

    sent, frame = twin(play)
    assert sent.attempts > 1
    assert frame.began is not None
    assert frame.began < sent.began
    assert frame.event == pytest.approx(0.753, rel=0, abs=0.6e-6)


@TWINS
@pytest.mark.parametrize(("waits", "travels"), [(4294.0, True), (4300.0, False)])
def test_an_event_that_has_become_too_old_does_not_travel(twin: Any, waits: float, travels: bool) -> None:
    """The radio is off after queueing, so the event's age, a 32-bit number of microseconds, may overflow."""

    async def does(agent: Any) -> Any:
        agent.radio.off()
        event = agent.now
        waiting = asyncio.ensure_future(agent.radio.transmit("k", event=event))
        await asyncio.sleep(waits)
        agent.radio.on()
        return await waiting

    def play() -> Any:
        agents = {0: Does(does), 1: Hears()}
        Network(nx.path_graph(2), LINK, medium=ALOHA).run(agents, until=5000)
        return agents[0].found[0], agents[1].heard[0][1]

    sent, frame = twin(play)
    assert (sent.began, frame.began) == (waits, waits)
    assert frame.event == (pytest.approx(0, abs=1e-6) if travels else None)


def outside(fault: Any, **call: Any) -> tuple[Any, Any]:
    """Return node 0's transmission, made 5 s after the start by a task outside its agent, and the receivers."""
    sent = list[Any]()
    agents: Any = {0: Does(lambda agent: asyncio.sleep(99)), 1: Hears()}
    network = Network(nx.path_graph(2), LINK, medium=Radio(access="aloha", acks=True), faults=[fault], seed=1)

    async def transmit() -> None:
        sent.append(await agents[0].radio.transmit("k", bytes(99), **call))

    network.at(5, lambda: asyncio.get_running_loop().create_task(transmit()))
    network.run(agents, until=20)
    return sent[0], [frame.kind for _, frame in agents[1].heard]


@TWINS
def test_a_node_that_is_down_transmits_nothing(twin: Any) -> None:
    sent, heard = twin(lambda: outside(Crash(0, at=1, until=10), event=0.5))
    assert (sent.on_air, sent.reason, sent.attempts, heard) == (False, "link_down", 0, [])


@TWINS
def test_a_crash_cuts_short_what_is_on_the_air_and_its_result_is_told(twin: Any) -> None:
    sent, heard = twin(lambda: outside(Crash(0, at=5.0005, until=10)))
    assert (sent.on_air, sent.acknowledged, sent.attempts, sent.began, heard) == (False, None, 1, 5, [])
    assert sent.reason
    sent, heard = twin(lambda: outside(Crash(1, at=5.0005), to=1))
    assert (sent.on_air, sent.acknowledged, sent.reason, sent.attempts, heard) == (True, False, "receiver_down", 4, [])


def test_a_call_that_is_cancelled_leaves_its_message_on_its_way() -> None:
    async def does(agent: Any) -> Any:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.0005):
                await agent.radio.transmit("a", bytes(90))
        return await agent.radio.transmit("b")

    sent, [other], _ = played(does)
    assert [frame.kind for _, frame in other.heard] == ["a", "b"]
    assert (sent.on_air, sent.attempts) == (True, 1)


def test_a_straggler_and_an_agent_in_rounds_transmit() -> None:
    class Rounds(netsim.Agent):
        async def run(self) -> None:
            self.heard = list[Any]()
            async for number in self.rounds(3):
                await asyncio.sleep(0.01 * self.name)
                await self.radio.transmit("k", number, event=self.now)
                self.heard += [(frame.payload, frame.round, round(frame.event, 3)) for frame in await self.collect()]

    agents = {node: Rounds() for node in range(2)}
    Network(nx.path_graph(2), LINK, medium=ALOHA, round_period=1.0, faults=[Straggler(1, 0.5)]).run(agents)
    assert agents[0].heard == [(1, 1, 0.01), (2, 2, 1.01), (3, 3, 2.01)]
    assert agents[1].heard == [(1, 1, 0.0), (2, 2, 1.0), (3, 3, 2.0)]


def test_between_two_tries_that_are_refused_others_have_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full queue a try takes no time; it must still yield to other tasks like `send`, or the run never ends."""
    monkeypatch.setattr("netsim.transport.outbox.MAX_SENDS_PER_INSTANT", 20)

    async def does(agent: Any) -> Any:
        turns, refused = list[int](), 0
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await agent.broadcast("first")
        while not turns:
            try:
                await agent.radio.transmit("k")
            except AgentError:
                refused += 1
        return refused

    refused, *_ = played(does, Radio(), link=replace(LINK, queue=1))
    assert refused == 1
