"""A shared medium: reception, acknowledgements, retransmissions, records, and refused settings."""

import asyncio
import math
import pickle
import runpy
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, AgentError, BadInput, Energy, Link, Network, Radio, Run, Stalled, topology
from netsim.faults import ClockSkew, Crash, Join, Leave, LinkDown, Partition
from netsim.links import Budget
from netsim.radio import DutyCycle, LoRaAirtime
from netsim.testing import Actor, Listener, Talker, counts, sized
from tests.command import ROOT
from tests.parts import every

RATE = 8000.0
LINK = Link(rate=RATE)
SECOND = sized(1000)
"""A payload whose frame has 8000 bits, which take one second on the air."""
ALOHA = Radio(access="aloha")
PLACED = nx.Graph([(0, 1), (1, 2)])
nx.set_node_attributes(PLACED, {0: (0, 0), 1: (30, 0), 2: (30, 30)}, "pos")


async def forever(me: Actor) -> None:
    await asyncio.sleep(100)


def talk(*times: float, to: Any = None) -> Talker:
    return Talker([(time, SECOND) for time in times], to)


def radio_run(graph: "nx.Graph[Any]", agents: dict[Any, Agent], radio: Radio = ALOHA, **settings: Any) -> Run:
    link = settings.pop("link", LINK)
    links = settings.pop("links", None)
    others = {node: Listener() for node in graph if node not in agents}
    return Network(graph, link, links=links, medium=radio).run(agents | others, **settings)


# --- what is heard ----------------------------------------------------------------------------------------------------


def test_a_broadcast_is_heard_by_all_neighbours_as_it_ends() -> None:
    run = radio_run(topology.path(4), {1: talk(0.5)}, trace=True)
    assert [[time for time, *_ in run.agents[i].heard] for i in (0, 2, 3)] == [[1.5], [1.5], []]
    [row] = run.on_air.to_dict("records")
    assert (row["start_s"], row["end_s"], row["sender"], row["receiver"], row["bits"]) == (0.5, 1.5, 1, None, 8000)
    assert run.ledger.wire_bits == 8000


def test_overlapping_transmissions_destroy_each_other_where_both_are_heard() -> None:
    run = radio_run(topology.path(4), {0: talk(0.0), 2: talk(0.9)})
    assert counts(run, receiver=1) == {"collided": 2}
    assert counts(run, receiver=3) == {"delivered": 1}


def test_what_ends_as_the_next_begins_is_received() -> None:
    run = radio_run(topology.star(3), {1: talk(0.0, 2.0), 2: talk(1.0, 3.0)})
    assert counts(run, receiver=0) == {"delivered": 4}


@pytest.mark.parametrize("later", [0.0, 0.3])
def test_who_sends_receives_nothing(later: float) -> None:
    run = radio_run(topology.path(3), {0: talk(0.0), 1: talk(later)})
    assert counts(run, receiver=0) == counts(run, receiver=1) == {"half_duplex": 1}


def test_a_lost_frame_ends_when_it_would_have_arrived() -> None:
    link = Link(rate=RATE, loss=1 - 1e-12, latency=0.25)
    table = radio_run(topology.path(2), {0: talk(0.5)}, link=link, trace=True).trace.table()
    assert table[["time_s", "event"]].to_numpy().tolist() == [[0.5, "sent"], [1.75, "lost"]]


def test_a_link_that_loses_all_carries_nothing_and_disturbs_nobody() -> None:
    deaf = {(2, 0): Link(rate=RATE, loss=1.0)}
    run = radio_run(topology.star(3), {1: talk(0.0), 2: talk(0.5)}, links=deaf)
    assert counts(run, sender=1) == {"delivered": 1}
    assert counts(run, sender=2) == {"lost": 1}


def test_a_link_that_loses_all_disturbs_where_it_is_said_to() -> None:
    """Node 2's frame, unreadable at node 0, overlaps the first of node 1's two frames, which collides."""
    deaf = {(2, 0): Link(rate=RATE, loss=1.0)}
    radio = Radio(access="aloha", interference=nx.DiGraph([(2, 0)]))
    run = radio_run(topology.star(3), {1: talk(0.0, 1.5), 2: talk(0.5)}, radio, links=deaf)
    assert counts(run, sender=1) == {"collided": 1, "delivered": 1}
    assert counts(run, sender=2) == {"lost": 1}


@pytest.mark.parametrize(("gap", "ends"), [(12.0, {"delivered": 1, "collided": 1}), (8.0, {"collided": 2})])
def test_the_stronger_is_captured(gap: float, ends: dict[str, int]) -> None:
    powers = {pair: -80.0 for a in range(3) for b in range(3) if a != b for pair in [(a, b)]} | {(1, 0): -80 + gap}
    radio = Radio(access="aloha", powers=powers, capture=10.0)
    run = radio_run(topology.star(3), {1: talk(0.0), 2: talk(0.5)}, radio)
    assert counts(run, receiver=0) == ends


@every("capture", [0.5, 3.0, 6.0, 10.0])
@every("weaker", [-80.0, -77.7, -93.0])
def test_who_is_stronger_by_just_so_much_is_captured(weaker: float, capture: float) -> None:
    powers = {(a, b): weaker for a in range(3) for b in range(3) if a != b} | {(1, 0): weaker + capture}
    radio = Radio(access="aloha", powers=powers, capture=capture)
    run = radio_run(topology.star(3), {1: talk(0.0), 2: talk(0.5)}, radio)
    assert counts(run, receiver=0) == {"delivered": 1, "collided": 1}


def test_two_weaker_ones_add_up() -> None:
    """Each interferer is 10 dB weaker than the frame; the two together are 7 dB weaker."""
    powers = {(i, 0): -90.0 for i in range(1, 4)} | {(1, 0): -80.0} | {(0, i): -80.0 for i in range(1, 4)}

    def captured(capture: float) -> int:
        radio = Radio(access="aloha", powers=powers, capture=capture)
        run = radio_run(topology.star(4), {1: talk(0.0), 2: talk(0.1), 3: talk(0.2)}, radio)
        return counts(run, sender=1).get("delivered", 0)

    assert (captured(6.9), captured(7.1)) == (1, 0)


def test_who_is_no_neighbour_may_disturb() -> None:
    far = nx.DiGraph([(3, 0)])
    agents = {1: talk(0.0), 3: talk(0.5)}
    alone = radio_run(topology.path(4), dict(agents))
    disturbed = radio_run(topology.path(4), {1: talk(0.0), 3: talk(0.5)}, Radio(access="aloha", interference=far))
    assert counts(alone, sender=1, receiver=0) == {"delivered": 1}
    assert counts(disturbed, sender=1, receiver=0) == {"collided": 1}


@pytest.mark.parametrize("later", [0.0, 0.5])
def test_of_two_equally_strong_neither_is_captured(later: float) -> None:
    """Even with capture = 0, a receiver gets at most one frame at a time."""
    powers = {(a, b): -80.0 for a in range(3) for b in range(3) if a != b}
    radio = Radio(access="aloha", powers=powers, capture=0.0)
    run = radio_run(topology.star(3), {1: talk(0.0), 2: talk(later)}, radio)
    assert counts(run, receiver=0) == {"collided": 2}
    stronger = Radio(access="aloha", powers=powers | {(1, 0): -79.99}, capture=0.0)
    run = radio_run(topology.star(3), {1: talk(0.0), 2: talk(later)}, stronger)
    assert counts(run, sender=1, receiver=0) == {"delivered": 1}
    assert counts(run, sender=2, receiver=0) == {"collided": 1}


# --- access -----------------------------------------------------------------------------------------------------------


def test_a_slot_is_waited_for() -> None:
    radio = Radio(access="slotted_aloha", slot=2.0)
    run = radio_run(topology.path(2), {0: talk(0.0, 2.5)}, radio, trace=True)
    assert run.on_air["start_s"].tolist() == [0.0, 4.0]
    assert run.airtime["access_s"][0] == 1.5


def test_frames_of_one_node_wait_for_each_other() -> None:
    run = radio_run(topology.path(2), {0: talk(0.0, 0.0, 0.0)}, trace=True)
    assert run.on_air["start_s"].tolist() == [0.0, 1.0, 2.0]
    assert run.airtime["queueing_s"][0] == 3.0


def test_csma_waits_for_the_carrier_and_gives_up() -> None:
    """While one node sends for a second, another makes 1 + macMaxCSMABackoffs assessments, and then gives up."""
    radio = Radio(max_csma_backoffs=2)
    run = radio_run(topology.complete(3), {0: talk(0.0), 1: talk(0.5)}, radio, trace=True)
    assert counts(run, sender=1) == {"access_failed": 2}
    assert run.airtime[["frames", "busy", "access_failures"]].to_numpy().tolist() == [[1, 0, 0], [0, 3, 1], [0, 0, 0]]
    failed = run.trace.table().query("event == 'access_failed'")["time_s"].unique()
    # The three back-offs last at most 7 + 15 + 31 = 53 units together, and each assessment takes 128 us.
    assert 0.5 + 3 * 128e-6 <= failed[0] <= 0.5 + 53 * 320e-6 + 3 * 128e-6


def test_who_is_sensed_need_not_be_heard() -> None:
    graph, sensing = topology.path(3), nx.DiGraph([(2, 0)])
    sensing.add_nodes_from(graph)
    deaf = radio_run(graph, {0: talk(0.5), 2: talk(0.0)}, Radio())
    aware = radio_run(graph, {0: talk(0.5), 2: talk(0.0)}, Radio(sensing=sensing))
    assert counts(deaf, receiver=1) == {"collided": 2}
    assert counts(aware, receiver=1) == {"delivered": 1, "access_failed": 1}


def test_a_share_of_the_time() -> None:
    radio = Radio(access="aloha", transmit_share=0.01)
    run = radio_run(topology.path(2), {0: talk(0.0, 0.0, 150.0)}, radio, trace=True)
    assert run.on_air["start_s"].tolist() == pytest.approx([0.0, 100.0, 200.0])


def test_a_queue_and_a_budget_are_those_of_the_link() -> None:
    full = radio_run(topology.path(2), {0: talk(0.0, 0.0, 0.0)}, link=Link(rate=RATE, queue=2))
    assert counts(full) == {"delivered": 2, "queue_full": 1}
    budget = Budget(8000, "round", "wait")
    late = radio_run(topology.path(2), {0: talk(0.0, 0.0)}, link=Link(rate=2 * RATE, budget=budget), trace=True)
    assert late.on_air["start_s"].tolist() == [0.0, 1.0]
    none = radio_run(topology.path(2), {0: talk(0.0)}, link=Link(rate=RATE, budget=100))
    assert counts(none) == {"refused": 1}


# --- acknowledgements -------------------------------------------------------------------------------------------------


def acked(**settings: Any) -> Radio:
    return Radio(access="aloha", acks=True, ack_bits=800, turnaround=0.1, unit_backoff=0.1, **settings)


async def deliver(me: Actor) -> None:
    me.log.append((await me.deliver(me.neighbors[0], "m", SECOND), me.now))


def test_an_acknowledgement_tells_the_sender() -> None:
    run = radio_run(topology.path(2), {0: Actor(deliver)}, acked(), trace=True)
    assert run.agents[0].log == [(True, pytest.approx(1.2))]
    assert [time for time, *_ in run.agents[1].heard] == [1.0]
    assert run.on_air[["start_s", "end_s", "kind"]].to_numpy().tolist() == [
        [0.0, 1.0, "m"],
        [1.1, pytest.approx(1.2), "(acknowledgement)"],
    ]
    table = run.ledger.senders_table().set_index("kind")
    assert table.loc["(acknowledgement)", ["transmissions", "payload_bits", "wire_bits"]].tolist() == [0, 0, 800]
    assert run.ledger.transmissions == 1


def test_a_lost_acknowledgement_makes_a_repetition_that_is_suppressed() -> None:
    back = {(1, 0): Link(rate=RATE, loss=1.0)}
    run = radio_run(topology.path(2), {0: Actor(deliver)}, acked(max_frame_retries=2), links=back)
    assert not run.agents[0].log[0][0]
    assert counts(run) == {"delivered": 1}
    assert len(run.agents[1].heard) == 1
    assert run.airtime["duplicates"].tolist() == [0, 2]
    assert run.airtime["retries"].tolist() == [2, 0]


def test_an_end_is_counted_when_the_last_try_is_given_up() -> None:
    radio = acked(max_frame_retries=1, min_be=0, max_be=0)
    there = {(0, 1): Link(rate=RATE, loss=1 - 1e-12)}
    run = radio_run(topology.path(2), {0: Actor(deliver)}, radio, links=there, trace=True)
    assert counts(run) == {"lost": 1}
    [end] = run.trace.table().query("event == 'lost'")["time_s"]
    assert end == pytest.approx(2 * (1 + 0.1 + 0.1 + 0.1))


def test_fragments_are_acknowledged_one_by_one() -> None:
    link = Link(rate=RATE, mtu=400, header_bits=80, loss=0.4)
    run = radio_run(topology.path(2), {0: Actor(deliver)}, acked(max_frame_retries=30), link=link, trace=True)
    assert run.agents[0].log[0][0]
    frames = run.on_air.query("kind == 'm'")
    assert frames.groupby("fragment")["bits"].first().tolist() == [3280, 3280, 1680]
    assert run.airtime["retries"][0] == len(frames) - 3 > 0


def test_a_broadcast_is_not_acknowledged() -> None:
    run = radio_run(topology.path(2), {0: talk(0.0)}, acked())
    assert run.airtime["acks"].tolist() == [0, 0]


def test_what_is_not_acknowledged_cannot_be_awaited() -> None:
    for network in (Network(topology.path(2), LINK), Network(topology.path(2), LINK, medium=ALOHA)):
        with pytest.raises(AgentError, match=r"agent 0 .*the medium must be a netsim\.Radio\(acks=True\)"):
            network.run({0: Actor(deliver), 1: Listener()})


def test_requests_are_answered_over_a_radio() -> None:
    class Asks(Agent):
        async def run(self) -> None:
            if self.name == 0:
                self.reply_heard = (await self.request(1, "ask", 20)).payload

        def answer(self, frame: Any) -> Any:
            return frame.payload + 1

    run = Network(topology.path(2), Link(rate=250e3), medium=Radio(acks=True)).run({0: Asks(), 1: Asks()})
    assert run.agents[0].reply_heard == 21


# --- links that are cut, nodes that are off ---------------------------------------------------------------------------


async def deliver_and_wait(me: Actor) -> None:
    await deliver(me)
    await asyncio.sleep(100)


def faulty_run(graph: "nx.Graph[Any]", agents: dict[Any, Agent], faults: list[Any], radio: Radio, **more: Any) -> Run:
    others = {node: Actor(forever) for node in graph if node not in agents}
    return Network(graph, LINK, medium=radio, faults=faults).run(agents | others, until=30.0, trace=True, **more)


@pytest.mark.parametrize("fault", [LinkDown(0, 1, at=0), LinkDown(0, 1, at=0, one_way=True), Partition([0], at=0)])
def test_a_cut_link_costs_its_sender_what_a_crashed_peer_costs(fault: Any) -> None:
    """The sender cannot tell the two apart: it sends, waits for an acknowledgement, and repeats."""
    radio = acked(energy=Energy(transmit=4.0, receive=3.0, listen=2.0))
    cut = faulty_run(topology.path(2), {0: Actor(deliver_and_wait)}, [fault], radio)
    crashed = faulty_run(topology.path(2), {0: Actor(deliver_and_wait)}, [Crash(1, at=0)], radio)
    assert cut.agents[0].log == crashed.agents[0].log
    [(outcome, time)] = cut.agents[0].log
    assert not outcome
    # Each of four tries takes 1 s, and is followed by a wait of 0.3 s.
    assert time >= 5.2
    assert cut.airtime.iloc[0].tolist() == crashed.airtime.iloc[0].tolist()
    assert cut.energy["used_j"][0] == crashed.energy["used_j"][0] == 4.0 * 4 + 2.0 * 26
    assert counts(cut) == {"link_down": 1}
    assert counts(crashed) == {"receiver_down": 1}
    assert cut.ledger.wire_bits == 4 * 8000


def test_who_tries_until_it_is_heard_is_heard_when_the_link_is_mended() -> None:
    async def insist(me: Actor) -> None:
        while not await me.deliver(1, "m", SECOND):
            me.log.append(me.now)

    run = faulty_run(topology.path(2), {0: Actor(insist)}, [LinkDown(0, 1, at=0, until=12.0)], acked())
    assert counts(run)["delivered"] == 1
    assert len(run.agents[0].log) in (1, 2)


def test_a_link_that_is_mended_between_two_tries_carries_the_second() -> None:
    run = faulty_run(topology.path(2), {0: Actor(deliver_and_wait)}, [LinkDown(0, 1, at=0, until=1.1)], acked())
    assert run.agents[0].log[0][0]
    assert counts(run) == {"delivered": 1}
    assert run.airtime["frames"][0] == 2


def test_a_cut_way_back_loses_acknowledgements() -> None:
    run = faulty_run(topology.path(2), {0: Actor(deliver_and_wait)}, [LinkDown(1, 0, at=0, one_way=True)], acked())
    assert not run.agents[0].log[0][0]
    assert counts(run) == {"delivered": 1}
    assert run.airtime["duplicates"][1] == 3


def test_what_is_on_the_air_as_a_link_is_cut_arrives() -> None:
    run = faulty_run(topology.path(2), {0: talk(0.0, 1.0)}, [LinkDown(0, 1, at=0.5)], ALOHA)
    assert counts(run) == {"delivered": 1, "link_down": 1}


def test_what_is_sent_over_a_cut_link_is_sensed_and_disturbs() -> None:
    """Node 2's link to node 0 is cut: its frame is received by node 3, and disturbs node 0's reception of node 1."""
    graph = nx.Graph([(0, 1), (0, 2), (2, 3)])
    cut = [LinkDown(2, 0, at=0)]
    run = faulty_run(graph, {1: talk(0.0), 2: talk(0.5)}, cut, ALOHA)
    assert counts(run, sender=2) == {"delivered": 1, "link_down": 1}
    assert counts(run, sender=1) == {"collided": 1}
    sensed = faulty_run(graph, {0: talk(0.5), 2: talk(0.0)}, cut, Radio())
    assert counts(sensed, sender=0) == {"access_failed": 2}


def test_reliable_links_send_again_over_a_link_that_was_cut() -> None:
    link = Link(rate=RATE, reliability="ack")
    network = Network(topology.path(2), link, medium=ALOHA, round_period=20.0, faults=[LinkDown(0, 1, at=0, until=1.5)])
    run = network.run({0: Talker([(0.0, sized(500))]), 1: Listener()}, until=15.0)
    assert len(run.agents[1].heard) == 1
    assert counts(run, sender=0)["link_down"] >= 1


def test_a_frame_whose_sender_crashes_is_cut_short() -> None:
    """Node 1's frame of one second ends with its crash after 0.4 s: nobody receives it, and the channel is free."""
    energy = Energy(transmit=4.0, receive=3.0, listen=2.0)
    graph = topology.star(3)
    agents = {1: talk(0.0), 2: talk(0.5)}
    run = faulty_run(graph, agents, [Crash(1, at=0.4)], Radio(access="aloha", energy=energy))
    assert counts(run, sender=1) == {"lost": 1}
    assert counts(run, sender=2) == {"delivered": 1}
    assert run.on_air[["start_s", "end_s", "bits"]].to_numpy().tolist() == [[0.0, 0.4, 8000], [0.5, 1.5, 8000]]
    assert run.airtime["airtime_s"].tolist() == pytest.approx([0.0, 0.4, 1.0])
    table = run.energy.set_index("agent")[["transmit_s", "receive_s", "listen_s", "sleep_s", "used_j"]]
    assert table.loc[0].tolist() == pytest.approx([0.0, 1.4, 28.6, 0.0, 61.4])
    assert table.loc[1].tolist() == pytest.approx([0.4, 0.0, 0.0, 0.0, 1.6])


@pytest.mark.parametrize(
    ("speaks", "faults", "links"),
    [((0.0,), [], {}), ((0.0, 0.1), [], {}), ((0.0,), [LinkDown(0, 1, at=0.0)], {}), ((0.0,), [], {(0, 1): 1.0})],
    ids=["alone", "while it sends", "over a cut link", "over a link that carries nothing"],
)
@pytest.mark.parametrize("down", [(0.0, 0.7), (0.5, 0.7)])
def test_a_receiver_that_was_off_is_told_as_such(
    speaks: tuple[float, ...], faults: list[Any], links: dict[Any, float], down: tuple[float, float]
) -> None:
    """The cause "receiver down" takes precedence, even if the receiver is up again before the frame ends."""
    agents = {1: Actor(forever), 2: Actor(forever)} | {node: talk(time) for node, time in enumerate(speaks)}
    network = Network(
        topology.path(3),
        LINK,
        links={ends: Link(rate=RATE, loss=loss) for ends, loss in links.items()},
        medium=ALOHA,
        faults=[*faults, Crash(1, at=down[0], until=down[1])],
    )
    run = network.run(agents, until=5.0)
    assert counts(run, sender=0) == {"receiver_down": 1}


def test_who_sends_is_not_asleep() -> None:
    """Node 1 sends from 0.5 to 1.5 s, although it would sleep from 1 s on; node 0 begins to send at 1.2 s."""
    cycle = DutyCycle(period=10.0, awake=1.0, offsets={0: 1.0})
    agents = {0: talk(1.2), 1: talk(0.5), 2: Actor(forever)}
    run = radio_run(topology.path(3), agents, Radio(access="aloha", duty_cycle=cycle), until=5.0)
    assert counts(run, sender=0) == {"half_duplex": 1}


def test_a_crash_ends_the_silence_after_a_frame_sooner() -> None:
    """The node crashes 0.4 s into its first frame; with a share of 1/10, its next frame may start at 4 s."""
    agents = {0: talk(0.0, 1.0), 1: Actor(forever)}
    network = Network(topology.path(2), LINK, medium=Radio(access="aloha", transmit_share=0.1))

    def blink() -> None:
        medium = network._runtime().medium
        assert medium is not None
        medium.switch(0, on=False)
        medium.switch(0, on=True)

    network.at(0.4, blink)
    run = network.run(agents, until=20.0, trace=True)
    assert run.on_air["start_s"].tolist() == pytest.approx([0.0, 4.0])


def test_a_crash_ends_the_carrier() -> None:
    """Carrier sense finds the channel busy until the sender crashes, and clear from then on."""
    radio = Radio(min_be=0, max_be=0, unit_backoff=0.2, cca=0.1, turnaround=0.0, max_csma_backoffs=40)
    agents = {1: Talker([(0.0, sized(10_000))]), 2: talk(1.0)}
    run = faulty_run(topology.complete(3), agents, [Crash(1, at=3.05)], radio)
    [start] = run.on_air.query("sender == 2")["start_s"]
    # An assessment ends every 0.1 s. The last one that finds the carrier ends at 3.1 s, so the next one is clear.
    assert start == pytest.approx(3.2)
    assert counts(run, sender=2) == {"delivered": 1, "receiver_down": 1}


def test_a_node_that_is_down_hears_and_spends_nothing() -> None:
    """The node is down from 1.5 to 4 s, which cuts one frame's end and another frame's beginning."""
    energy = Energy(transmit=4.0, receive=3.0, listen=2.0, sleep=1.0)
    network = Network(
        topology.path(2), LINK, medium=Radio(access="aloha", energy=energy), faults=[Crash(1, at=1.5, until=4.0)]
    )
    run = network.run({0: talk(1.0, 3.5, 6.0), 1: Actor(forever)}, until=10.0)
    assert counts(run) == {"receiver_down": 2, "delivered": 1}
    states = run.energy[["transmit_s", "receive_s", "listen_s", "sleep_s", "used_j"]].to_numpy().tolist()
    assert states == [[3.0, 0.0, 7.0, 0.0, 26.0], [0.0, 1.5, 6.0, 0.0, 16.5]]


@pytest.mark.parametrize("radio", [ALOHA, acked()], ids=["no acks", "acks"])
def test_who_goes_off_forgets_the_fragments_that_it_had(radio: Radio) -> None:
    """The receiver is down from 0.45 to 0.5 s, so it loses the first of three fragments, which it had received."""
    link = Link(rate=RATE, mtu=400, header_bits=80)
    network = Network(topology.path(2), link, medium=radio, faults=[Crash(1, at=0.45, until=0.5)])
    run = network.run({0: Talker([(0.0, SECOND), (20.0, SECOND)], to=1), 1: Actor(forever)}, until=30.0)
    assert counts(run) == {"receiver_down": 1, "delivered": 1}


@pytest.mark.parametrize(
    ("at", "until", "listens", "sleeps"), [(1.0, 3.0, 4.0, 14.0), (6.0, 13.0, 3.0, 10.0), (3.0, 9.0, 6.0, 8.0)]
)
def test_a_duty_cycle_goes_on_by_the_clock(at: float, until: float, listens: float, sleeps: float) -> None:
    """The node is awake for 3 of every 10 s by the clock, whatever it did at the crash or would have done then."""
    radio = Radio(
        access="aloha", duty_cycle=DutyCycle(period=10.0, awake=3.0), energy=Energy(transmit=4, listen=2, sleep=0.5)
    )
    network = Network(topology.path(2), LINK, medium=radio, faults=[Crash(1, at=at, until=until)])
    run = network.run({0: Actor(forever), 1: Actor(forever)}, until=20.0)
    assert run.energy[["listen_s", "sleep_s"]].to_numpy().tolist() == [[6.0, 14.0], [listens, sleeps]]


def test_who_joins_late_or_leaves_spends_nothing_before_and_after() -> None:
    network = Network(
        topology.path(3),
        LINK,
        medium=Radio(access="aloha", energy=Energy(listen=2.0)),
        faults=[Join(0, at=4.0), Leave(2, at=7.0)],
    )
    run = network.run({node: Actor(forever) for node in range(3)}, until=10.0)
    assert run.energy["used_j"].tolist() == [12.0, 20.0, 14.0]


def test_a_crash_changes_no_draw_of_others() -> None:
    graph = nx.Graph([(0, 1), (2, 3), (1, 4), (3, 4)])

    def heard(faults: list[Any]) -> Any:
        agents = {node: Talker([(5.0 * k + node, 1) for k in range(40)] if node in (0, 2) else []) for node in graph}
        network = Network(graph, Link(rate=250e3, loss=0.5), medium=Radio(), seed=3, faults=faults)
        run = network.run(agents, trace=True)
        air, ends = run.on_air.query("sender == 2")["start_s"], run.trace.table().query("sender == 2")
        return [*air, *ends["event"]]

    assert heard([]) == heard([Crash(1, at=3.0, until=90.0), Crash(0, at=20.0001, until=50.0)])


# --- sleep ------------------------------------------------------------------------------------------------------------


def test_who_sleeps_hears_nothing_and_sends_later() -> None:
    cycle = DutyCycle(period=10.0, awake=3.0, offsets={2: 5.0})
    run = radio_run(topology.star(3), {0: talk(1.0, 4.0)}, Radio(access="aloha", duty_cycle=cycle), trace=True)
    assert run.on_air["start_s"].tolist() == [1.0, 10.0]
    assert counts(run, receiver=1) == {"delivered": 2}
    assert counts(run, receiver=2) == {"asleep": 2}


def test_a_node_sleeps_by_its_own_clock() -> None:
    """A clock that is 5 s behind wakes its node 5 s later; a clock at half speed doubles all times."""

    def found(offsets: dict[int, float], faults: list[ClockSkew]) -> Any:
        cycle = DutyCycle(period=10.0, awake=3.0, offsets=offsets)
        network = Network(
            topology.star(3),
            LINK,
            medium=Radio(access="aloha", duty_cycle=cycle, energy=Energy(listen=1.0)),
            faults=faults,
        )
        run = network.run({0: talk(1.0, 9.0), 1: Listener(), 2: Listener()}, until=40.0, trace=True)
        assert run.on_air["start_s"].tolist() == [1.0, 10.0]
        on = run.energy["receive_s"] + run.energy["listen_s"]
        return counts(run, receiver=1), counts(run, receiver=2), on.tolist()[1:]

    behind = found({}, [ClockSkew(2, offset=5.0)])
    assert behind == found({2: 5.0}, []) == ({"delivered": 2}, {"asleep": 2}, [12.0, 12.0])
    # At half speed the node is awake from 4 to 10 s and from 24 to 30 s, and misses the frame that begins at 10 s. With
    # an offset of 2.5 s it is awake until 11 s and receives that frame.
    assert found({2: 2.0}, [ClockSkew(2, drift=1.0)])[1:] == ({"asleep": 2}, [12.0, 12.0])
    assert found({2: 2.5}, [ClockSkew(2, drift=1.0)])[1:] == ({"asleep": 1, "delivered": 1}, [12.0, 12.0])


@pytest.mark.parametrize("period", [0.1, 0.3, 1 / 3, 7.3])
def test_a_schedule_knows_its_boundaries(period: float) -> None:
    schedule = DutyCycle(period=period, awake=period / 5).of("a")
    for k in range(1, 2000, 37):
        assert schedule.is_awake(k * period)
        assert not schedule.is_awake(k * period + period / 5)
        assert schedule.next_awake((k - 0.5) * period) == pytest.approx(k * period)
        assert schedule.awake_seconds(0.0, k * period) == pytest.approx(k * period / 5)


@pytest.mark.parametrize(("period", "awake"), [(1e6, 1e-3), (1e9, 1.0), (1e12, 1.0), (86400.0, 1e-5)])
def test_a_window_that_is_short_beside_its_period_is_whole(period: float, awake: float) -> None:
    schedule = DutyCycle(period=period, awake=awake).of("a")
    for begins in (0.0, period):
        assert schedule.is_awake(begins)
        assert schedule.is_awake(begins + 0.5 * awake) or math.ulp(begins) > 0.1 * awake
        assert not schedule.is_awake(begins + 2 * awake + 8 * math.ulp(begins))
        assert schedule.next_awake(begins) == begins
    assert schedule.awake_seconds(0.0, period) == pytest.approx(awake)
    assert not schedule.is_awake(0.999 * period)
    assert schedule.next_awake(0.999 * period) == period


def test_what_is_sent_in_such_a_window_is_sent() -> None:
    radio = Radio(access="aloha", duty_cycle=DutyCycle(period=1e9, awake=1.0))
    run = Network(topology.path(2), Link(rate=1e6), medium=radio).run({0: talk(0.5), 1: Listener()}, until=3.0)
    assert counts(run) == {"delivered": 1}


# --- the run ----------------------------------------------------------------------------------------------------------


def test_what_is_on_the_air_at_the_end_is_in_flight() -> None:
    run = radio_run(topology.star(3), {1: talk(0.0, 0.0)}, until=0.5)
    assert counts(run) == {"in_flight": 2}
    assert run.ledger.table([])["in_flight"].tolist() == [2]


def test_of_what_is_on_the_air_at_the_end_the_part_before_it_counts() -> None:
    """Node 0 sends from 0.5 to 1.5 s, and node 1 acknowledges until 2.5 s; only what precedes the end counts."""
    radio = Radio(access="aloha", acks=True, ack_bits=8000, turnaround=0.0, energy=Energy(transmit=4.0))
    for end, sends, answers in ((1.25, 0.75, 0.0), (2.25, 1.0, 0.75), (9.0, 1.0, 1.0)):
        run = radio_run(topology.path(2), {0: talk(0.5, to=1), 1: Actor(forever)}, radio, trace=True, until=end)
        assert run.airtime["airtime_s"].tolist() == pytest.approx([sends, 0.0])
        assert run.airtime["ack_airtime_s"].tolist() == pytest.approx([0.0, answers])
        assert run.energy["transmit_s"].tolist() == pytest.approx([sends, answers])
        assert run.on_air["end_s"].tolist() == pytest.approx([0.5 + sends] + [1.5 + answers] * (answers > 0))


def test_a_radio_that_has_nothing_to_do_hides_no_standstill() -> None:
    async def wait(me: Actor) -> None:
        await me.inbox.get()

    energy = Energy(listen=1e-3, battery=1.0)
    with pytest.raises(Stalled, match=r"at 1 s every task waits .* agent 0 waits for a frame in its inbox"):
        radio_run(
            topology.path(2),
            {0: Actor(wait), 1: talk(0.0, to=None)},
            Radio(access="aloha", energy=energy),
            links={(1, 0): Link(rate=RATE, loss=1.0)},
        )


def test_a_cut_link_takes_nothing() -> None:
    network = Network(topology.star(3), LINK, medium=ALOHA)
    network.at(0.0, lambda: network.set_link(0, 1, up=False))
    network.at(2.0, lambda: network.set_receiver(2, up=False))
    run = network.run({0: talk(0.0, 2.5), 1: Listener(), 2: Listener()})
    assert counts(run, receiver=1) == {"link_down": 2}
    assert counts(run, receiver=2) == {"delivered": 1, "receiver_down": 1}


@every("radio", [ALOHA, Radio(), Radio(acks=True)])
@every("time", [0.0005, 0.5, 1.0, 1.5])
def test_a_node_that_goes_off_forgets_what_it_has_not_sent(radio: Radio, time: float) -> None:
    """The frame on the air is lost, and waiting frames are refused; after its return the node sends without delay."""
    network = Network(topology.path(2), LINK, medium=radio)

    def blink() -> None:
        medium = network._runtime().medium
        assert medium is not None
        medium.switch(0, on=False)
        medium.switch(0, on=True)

    network.at(time, blink)
    run = network.run({0: Talker([(0.0, SECOND)] * 3 + [(5.0, SECOND)], to=1), 1: Actor(forever)}, until=20.0)
    done, lost = int(time == 1.5), int(radio is ALOHA or time > 0.01)
    ends = {"delivered": done + 1, "lost": lost, "refused": 3 - done - lost}
    assert counts(run) == {end: count for end, count in ends.items() if count}


def test_a_radio_runs_on_the_wall_clock() -> None:
    run = radio_run(topology.path(2), {0: talk(0.0, 0.0, to=1)}, Radio(acks=True), clock="wall", pace=20.0, until=4.0)
    assert counts(run) == {"delivered": 2}


def test_rounds_and_rows_have_the_radios_causes() -> None:
    class Talks(Agent):
        async def run(self) -> None:
            async for k in self.rounds(3):
                await self.broadcast("x", k)
                await self.collect()

    run = Network(topology.complete(4), Link(rate=250e3), medium=Radio()).run({i: Talks() for i in range(4)})
    assert {"access_failed", "half_duplex", "asleep"} <= set(run.rounds.columns) & set(run.ledger.table().columns)
    wired = Network(topology.complete(4)).run({i: Talks() for i in range(4)})
    assert not {"access_failed", "half_duplex", "asleep"} & ({*wired.rounds.columns, *wired.ledger.table().columns})


def test_what_is_kept_of_the_air_can_be_pickled() -> None:
    log = pickle.loads(pickle.dumps(radio_run(topology.path(2), {0: talk(0.0)}, trace=True).air))
    assert log.airtime()["frames"].tolist() == [1, 0]
    assert len(log.log) == 1


def test_another_node_changes_no_draw() -> None:
    """Law 2: back-offs are draws of the node, and losses are draws of the link, so other nodes do not change them."""

    def starts(graph: "nx.Graph[Any]") -> list[float]:
        agents = {node: Talker([(10.0 * k, 1) for k in range(20)] if node == 0 else []) for node in graph}
        run = Network(graph, Link(rate=250e3, loss=0.5), medium=Radio(), seed=3).run(agents, trace=True)
        ends = run.trace.table().query("receiver == 1")
        return [*run.on_air["start_s"], *ends["event"]]

    assert starts(topology.path(2)) == starts(topology.path(5))


def test_the_sensor_engineers_script(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "docs" / "examples" / "sensors.py"
    assert len(path.read_text().splitlines()) <= 60
    script = runpy.run_path(str(path))
    run, sink = script["an_hour"](*script["synthetic"]())
    script["report"](run, sink)
    assert "readings reached the sink" in capsys.readouterr().out
    assert len(run.agents) == 31
    # Thirty motes send one reading a minute, and some of the motes die.
    assert 1000 < len(set(sink.heard)) <= 1800
    assert 5 < np.isfinite(run.energy["died_at_s"]).sum() < 30
    # This mote crashes and restarts after ten minutes; its battery lasts longer than the run.
    sampled = [time for mote, time in sink.heard if mote == 39]
    assert not [time for time in sampled if 1200 <= time < 1800]
    assert min(sampled) < 1200 < 1800 < max(sampled)


# --- refusals ---------------------------------------------------------------------------------------------------------


@every(
    ("settings", "message"),
    [
        ({"access": "csma-ca"}, "access = 'csma-ca': must be one of aloha, slotted_aloha, csma (did you mean 'csma'?)"),
        ({"slot": 0.1}, "slot = 0.1: must go with access = 'slotted_aloha', and that with it"),
        ({"access": "slotted_aloha"}, "slot = None: must go with access = 'slotted_aloha', and that with it"),
        ({"min_be": 6}, "min_be = 6: must be a whole number"),
        ({"max_be": 30}, "max_be = 30: must be a whole number"),
        ({"max_frame_retries": -1}, "max_frame_retries = -1: must be a whole number"),
        ({"cca": 0.0}, "cca = 0.0: must be a number >= 1e-07"),
        ({"turnaround": math.nan}, "turnaround = nan: must be a number >= 0"),
        ({"capture": 401.0, "powers": {}}, "capture = 401.0: must be a number >= 0 and <= 400"),
        ({"powers": {(0, 1): 4e3}}, "powers[(0, 1)] = 4000.0: must be a number >= -200 and <= 200"),
        ({"powers": {(0, 1): -201}}, "powers[(0, 1)] = -201: must be a number >= -200 and <= 200"),
        ({"capture": 3.0}, "capture = 3: must come with powers, or nothing is the stronger"),
        ({"sensing": [(0, 1)]}, "sensing = [(0, 1)]: must be a networkx Graph or DiGraph"),
        ({"transmit_share": 1.3}, "transmit_share = 1.3: must be a fraction in (0, 1]"),
        ({"transmit_share": 0}, "transmit_share = 0: must be a fraction in (0, 1]"),
        ({"duty_cycle": DutyCycle}, "duty_cycle = DutyCycle: must be called: DutyCycle(...)"),
        ({"airtime": LoRaAirtime}, "airtime = LoRaAirtime: must be called: LoRaAirtime(...)"),
        ({"energy": 3.0}, "energy = 3.0: must be a netsim.Energy"),
        ({"duty_cycle": 0.1}, "duty_cycle = 0.1: must be a netsim.radio.DutyCycle"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        Radio(**settings)
    assert str(caught.value).startswith(message)


@every(
    ("settings", "message"),
    [
        ({"link": Link()}, "medium = Radio: must go with a Link that has a rate"),
        ({"link": Link(rate=1e3, duplicate=0.1)}, "duplicate = 0.1: must be 0 on a Radio"),
        ({"medium": Radio(sensing=nx.path_graph(9))}, "sensing: node = 3: must be a node of the network's graph"),
        (
            {"medium": Radio(sensing=nx.path_graph(2))},
            "sensing: must have all nodes of the network's graph; node 2 is miss",
        ),
        (
            {"medium": Radio(duty_cycle=DutyCycle(period=1, awake=0.5, offsets={3: 0.1}))},
            "duty_cycle: offsets: node = 3: must be a node of the network's graph",
        ),
        ({"medium": Radio(energy=Energy(amplifier=1e-12))}, "amplifier = 1e-12: must go with positions; node 0 has no"),
        (
            {"medium": Radio(energy=Energy(amplifier=1e-12, exponent=400.0)), "graph": PLACED},
            "exponent = 400.0: must be smaller: what a bit costs over the 30 m from node 0 is beyond all numbers",
        ),
        ({"medium": Radio(energy={7: Energy()})}, "energy: node = 7: must be a node of the network's graph"),
        (
            {"links": {(0, 1): Link(rate=1.0)}},
            "links[(0, 1)].rate = 1.0: must be 8000.0, the value of `link`, because a radio "
            "has one transmitter for all links",
        ),
        ({"medium": "wave"}, "medium = 'wave': must be one of wires, radio"),
    ],
)
def test_what_does_not_fit_a_network_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        Network(**{"graph": topology.path(3), "link": LINK, "medium": ALOHA} | settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_time_on_the_air_is_a_number_above_0(seconds: float) -> None:
    class Fixed:
        def seconds(self, bits: int) -> float:
            return seconds

    with pytest.raises(BadInput, match=rf"^airtime.seconds\(\d+\) = {seconds}: must be "):
        radio_run(topology.path(2), {0: talk(0.0)}, Radio(airtime=Fixed()))


def test_a_missing_power_is_named() -> None:
    radio = Radio(access="aloha", powers={(0, 1): -50.0})
    with pytest.raises(BadInput, match=r"powers: must have one for each pair .* none for 1 → 0"):
        radio_run(topology.path(2), {0: talk(0.0)}, radio)


def test_a_wired_run_has_no_airtime() -> None:
    run = Network(topology.path(2)).run({0: Listener(), 1: Listener()})
    for name in ("airtime", "energy", "on_air"):
        with pytest.raises(BadInput, match=r"medium: must be a netsim\.Radio"):
            getattr(run, name)
    assert np.isfinite(run.ended_at)


# --- what is hardly meant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Radio(frequency=26), "argument of Radio = 'frequency': must be one of access, slot, "),
        (lambda: Radio(turn_around=1e-3), "must be one of "),
        (lambda: Link(los=0.1), "argument of Link = 'los': must be one of "),
        (lambda: Energy(transmitt=0.1), "(did you mean 'transmit'?)"),
        (lambda: DutyCycle(period=1.0, awake=0.1, offset={0: 0.5}), "(did you mean 'offsets'?)"),
        (lambda: Network(topology.path(2), Link(), loss=0.1), "argument of Network = 'loss': must be one of graph, "),
        (
            lambda: Network(topology.path(2)).set_link(0, 1, link=Link()),
            "of Network.set_link = 'link': must be one of ",
        ),
        (
            lambda: DutyCycle(period=1.0, awake=0.1, offsets={"a": 1.0}),
            "offsets['a'] = 1.0: must be at least 0 and less than the period, 1 s",
        ),
        (lambda: DutyCycle(period=1.0, awake=0.1, offsets={"a": -0.1}), "offsets['a'] = -0.1: must be at least 0"),
    ],
)
def test_unknown_arguments_and_offsets_are_refused_in_one_line(made: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        made()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


CYCLE = DutyCycle(period=1.0, awake=0.7e-3)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        # A rate of 250 bit/s instead of 250 kbit/s: an assessment of 128 µs would be a thirtieth of a bit.
        (
            lambda: Network(topology.path(2), Link(rate=250), medium=Radio()),
            "rate = 250 bit/s: a bit takes 4 ms, an assessment of the channel (cca) 0.128 ms; were kbit/s meant?",
        ),
        # The smallest message has 6 bytes; with a header of 17 bytes it takes 0.736 ms at 250 kbit/s.
        (
            lambda: Network(
                topology.path(2), Link(rate=250e3, mtu=116, header_bits=136), medium=Radio(duty_cycle=CYCLE)
            ),
            "duty_cycle: awake = 0.0007 s: is shorter than any frame; 6 bytes and their header are on the air for "
            "0.000736 s",
        ),
    ],
)
def test_what_is_hardly_meant_is_a_warning_at_the_callers_line(made: Any, message: str) -> None:
    with pytest.warns(RuntimeWarning) as caught:
        made()
    [warning] = caught
    assert str(warning.message) == message
    assert warning.filename == __file__


@pytest.mark.parametrize(
    "made",
    [
        lambda: Network(topology.path(2), Link(rate=250e3), medium=Radio()),
        lambda: Network(topology.path(2), Link(rate=250), medium=Radio(access="aloha")),
        lambda: Network(topology.path(2), Link(rate=250e3), medium=Radio(duty_cycle=CYCLE)),
        lambda: Energy(transmit=1.28),
    ],
)
def test_what_is_usual_is_no_warning(made: Any) -> None:
    # These settings must not warn; the test configuration turns warnings into errors.
    made()


class Rounded(Agent):
    async def run(self) -> None:
        async for _ in self.rounds(4):
            await self.broadcast("m", 0)


@pytest.mark.parametrize(
    ("cycle", "sleeps"),
    [
        (DutyCycle(period=3.0, awake=0.5), "2.5"),
        (DutyCycle(period=4.0, windows=[(0.5, 0.5), (2.75, 0.25)]), "1.75"),
        (DutyCycle(period=1.0, awake=0.1), None),
    ],
)
def test_a_radio_that_sleeps_through_whole_rounds_is_a_warning_once(cycle: DutyCycle, sleeps: str | None) -> None:
    network = Network(topology.path(3), Link(rate=250e3), medium=Radio(duty_cycle=cycle))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network.run({node: Rounded() for node in range(3)})
    found = [str(each.message) for each in caught]
    assert len(found) == (sleeps is not None)
    if sleeps is not None:
        assert found[0].startswith(
            f"duty_cycle: the radio of agent 0 sleeps for {sleeps} s at a time, longer than a round of 1 s"
        )
