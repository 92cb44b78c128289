"""Radio settings fixed when a message is sent, and the order of events within an instant: docs/radio_in_hand.md."""

import asyncio
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Energy, Link, Network, Radio, topology
from netsim.testing import Actor, Listener, Talker, counts
from tests.netsim.radio.test_radio_delivery import compiled_only, twin  # noqa: F401  the fixture
from tests.netsim.radio.test_radio_handle import LINK, POWERS, SECOND, does, play

__all__ = ["compiled_only"]


def tune(channel: int) -> Any:
    return lambda me: setattr(me.radio, "channel", channel)


def power(dbm: float) -> Any:
    return lambda me: setattr(me.radio, "power_dbm", dbm)


@pytest.mark.usefixtures("twin")
class TestBoundAsAsked:
    """A message keeps the settings of the moment at which it was sent; on both twins."""

    @pytest.mark.filterwarnings("ignore:rate = 8000 bit/s")
    @pytest.mark.parametrize("access", ["aloha", "csma"])
    def test_a_frame_leaves_on_the_channel_on_which_it_was_asked_for(self, access: str) -> None:
        async def both(me: Any) -> int:
            await me.broadcast("m", SECOND)
            me.radio.channel = 1
            assert me.radio.channel == 1
            await me.broadcast("m", SECOND)
            me.radio.channel = 2
            return 0

        heard: dict[int, Listener] = {1: Listener(), 2: Listener()}

        class Tuned(Listener):
            async def run(self) -> None:
                self.radio.channel = 1
                await super().run()

        heard[2] = Tuned()
        how = {} if access == "aloha" else {"unit_backoff": 1e-6, "cca": 1e-6, "turnaround": 0.0, "lifs": 0.0}
        play({0: does((1.0, both)), **heard}, graph=topology.complete(3), access=access, **how)
        assert [len(heard[1].times), len(heard[2].times)] == [1, 1]
        assert heard[1].times[0] == pytest.approx(2.0, abs=1e-3)
        assert heard[2].times[0] == pytest.approx(3.0, abs=1e-3)

    def test_the_radio_tunes_once_the_frames_before_are_done_with(self) -> None:
        """A frame on channel 1 that begins while the radio still sends on channel 0 is missed; the next arrives."""

        async def both(me: Any) -> None:
            await me.broadcast("m", SECOND)
            me.radio.channel = 1

        me, other = Listener(), Actor()

        class Both(Listener):
            async def run(self) -> None:
                await asyncio.sleep(1.0)
                await both(self)
                await super().run()

        me = Both()
        other = does(
            (0.0, tune(1)), (1.5, lambda me: me.broadcast("m", SECOND)), (3.0, lambda me: me.broadcast("m", SECOND))
        )
        play({0: me, 1: other})
        assert me.times == [4.0]

    def test_a_message_to_be_acknowledged_keeps_its_channel_until_it_is_given_up(self) -> None:
        """Node 1's radio is off until 2.5 s. All tries stay on channel 0, although the sender changes its channel."""
        me = does((1.0, lambda me: asyncio.ensure_future(me.deliver(1, "m", SECOND)) and None), (1.1, tune(1)))
        other = does((0.0, lambda me: me.radio.off()), (2.5, lambda me: me.radio.on()))
        settings: dict[str, Any] = {"acks": True, "ack_bits": 80, "turnaround": 0.001, "unit_backoff": 0.001}
        run = play({0: me, 1: other}, min_be=0, max_be=0, **settings)
        assert counts(run) == {"delivered": 1}
        assert run.airtime["retries"].tolist()[0] == 2

    def test_a_frame_leaves_with_the_power_with_which_it_was_asked_for(self) -> None:
        def quiet(me: Any) -> Any:
            async def both() -> None:
                await me.broadcast("m", SECOND)
                me.radio.power_dbm = -20.0
                await me.broadcast("m", SECOND)
                me.radio.power_dbm = 0.0

            return both()

        listener = Listener()
        powers = {(0, 1): -60.0, (1, 0): -60.0}
        spends = Energy(transmit=4.0, receive=3.0, listen=2.0, sleep=0.5, transmit_at={0: 4.0, -20: 1.0})
        run = play({0: does((1.0, quiet)), 1: listener}, powers=powers, energy=spends)
        assert [frame.rssi_dbm for frame in listener.frames] == pytest.approx([-60.0, -80.0])
        assert run.energy.iloc[0]["transmit_j"] == 4.0 + 1.0

    def test_who_has_tuned_away_does_not_acknowledge(self) -> None:
        me = does((1.0, lambda me: me.deliver(1, "m", SECOND)))
        run = play({0: me, 1: does((2.1, tune(1)))}, acks=True, turnaround=0.25, ack_bits=800, max_frame_retries=0)
        assert not me.log[0]
        assert run.airtime["acks"].tolist() == [0, 0]


@pytest.mark.usefixtures("twin")
class TestOrderWithinAnInstant:
    """The order of the radio's and the agents' actions at one instant, on both twins."""

    def test_a_queued_frame_begins_before_agents_act(self) -> None:
        """The first frame ends at 2 s, when the agent switches off. The queued frame is then already on the air."""

        async def two(me: Any) -> None:
            await me.broadcast("m", SECOND)
            await me.broadcast("m", SECOND)

        listener = Listener()
        play({0: does((1.0, two), (2.0, lambda me: me.radio.off())), 1: listener})
        assert listener.times == [2.0, 3.0]

    def test_a_frame_asked_for_now_begins_after_agents_have_acted(self) -> None:
        """The agent sends and switches off at the same instant, so its frame waits until the radio is on again."""

        async def send(me: Any) -> None:
            await me.broadcast("m", SECOND)
            me.radio.off()

        listener = Listener()
        play({0: does((1.0, send), (4.0, lambda me: me.radio.on())), 1: listener})
        assert listener.times == [5.0]

    @pytest.mark.parametrize("first", [0, 1])
    def test_who_tunes_as_a_frame_is_asked_for_hears_it(self, first: int) -> None:
        """One agent sends and the other changes to its channel at the same instant, in either order."""
        listener = Listener()

        class Tunes(Listener):
            async def run(self) -> None:
                await asyncio.sleep(1.0)
                self.radio.channel = 1
                await super().run()

        listener = Tunes()
        sender = does((0.0, tune(1)), (1.0, lambda me: me.broadcast("m", SECOND)))
        agents: dict[Any, Any] = {first: sender, 1 - first: listener}
        play({node: agents[node] for node in (0, 1)})
        assert listener.times == [2.0]

    def test_what_arrives_now_is_there_before_agents_act(self) -> None:
        """A frame ends at 2 s; an agent that switches its radio off at 2 s still receives it."""
        me = does((2.0, lambda me: me.radio.off()), (2.5, lambda me: len(me.inbox)))
        play({0: me, 1: Talker([(1.0, SECOND)])})
        assert me.log == [None, 1]

    def test_an_acknowledgement_that_ends_with_the_wait_is_in_time(self) -> None:
        """This holds at any simulated time, however the sum of times is rounded."""
        for at in np.random.default_rng(1).uniform(0.0, 1e6, 8):
            me = does((float(at), lambda me: me.deliver(1, "m", SECOND)))
            settings: dict[str, Any] = {"acks": True, "ack_bits": 177, "turnaround": 0.0123}
            wait = 0.0123 + 177 / 8000.0
            run = play({0: me, 1: Listener()}, at + 10.0, max_frame_retries=0, ack_wait=wait, **settings)
            assert me.log == [1], at
            assert run.airtime["no_ack"].tolist() == [0, 0]

    def test_a_frame_sent_again_in_the_instant_of_anothers_hears_nothing_of_it(self) -> None:
        """Node 0's wait for an acknowledgement ends 0.1 s after its frame, as node 2 starts a longer frame.

        Node 0 repeats its frame at that instant, so it sends for two seconds and hears nothing of the other frame.
        """
        wrong, rng = [], np.random.default_rng(2)
        for at in rng.uniform(0.0, 1e4, 12).tolist():
            me = does((at, lambda me: me.deliver(1, "m", SECOND)))
            # Times that differ by less than a nanosecond count as the same instant.
            again = at + 1.0 + 0.1 + float(rng.uniform(-0.9e-9, 0.9e-9))
            long = does((again, lambda me: me.broadcast("m", bytes(1500))))
            radio = Radio(
                access="aloha", acks=True, ack_wait=0.1, min_be=0, max_be=0, max_frame_retries=1, energy=POWERS
            )
            links = {(0, 1): Link(rate=8000.0, loss=1 - 1e-9)}
            network = Network(nx.path_graph([1, 0, 2]), LINK, links=links, medium=radio)
            run = network.run({1: Listener(), 0: me, 2: long}, until=at + 5.0)
            row = run.energy.set_index("agent").loc[0]
            assert row["transmit_s"] == pytest.approx(2.0)
            if row["receive_s"] > 1e-6:
                wrong.append((at, row["receive_s"]))
        assert not wrong
