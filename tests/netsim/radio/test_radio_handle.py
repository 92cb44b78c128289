"""The radio as agents control it: on and off, listening, carrier sense, channel, power, and frame metadata."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import Agent, AgentError, BadInput, Energy, Link, Network, Radio, topology
from netsim.faults import Crash
from netsim.radio import DutyCycle, Phy
from netsim.testing import Actor, Listener, Talker, counts, sized
from tests.fuzzers.radios import Flickers
from tests.netsim.radio.test_radio_delivery import compiled_only, twin  # noqa: F401  the fixture
from tests.netsim.radio.test_radio_twins import in_python, story
from tests.parts import slow

# At this rate, 1000 bytes take a second.
LINK = Link(rate=8000.0)
SECOND = sized(1000)
POWERS = Energy(transmit=4.0, receive=3.0, listen=2.0, sleep=0.5)
Step = Callable[[Any], Any]


def does(*steps: tuple[float, Step]) -> Actor:
    """Return an agent that calls functions at set times (s), and stores their results in `log`."""

    async def script(me: Actor) -> None:
        me.log = []
        for time, step in steps:
            await asyncio.sleep(time - me.now)
            result = step(me)
            me.log.append(await result if isinstance(result, Coroutine) else result)
        await asyncio.sleep(1e6)

    return Actor(script)


def play(agents: dict[Any, Agent], until: float = 10.0, graph: Any = None, **radio: Any) -> Any:
    """Run the agents on a path, or on the given graph."""
    graph = topology.path(len(agents)) if graph is None else graph
    return Network(graph, LINK, medium=Radio(**{"access": "aloha"} | radio)).run(agents, until=until)


@pytest.mark.usefixtures("twin")
class TestOnAndOff:
    """Switching the radio on and off, on both twins."""

    def test_a_radio_that_is_off_hears_nothing_and_sleeps(self) -> None:
        """The radio is off from 1.5 to 4 s: it loses the frame being received, and one that begins before 4 s."""
        me = does((1.5, lambda me: me.radio.off()), (4.0, lambda me: me.radio.on()))
        run = play({0: me, 1: Talker([(1.0, SECOND), (3.5, SECOND), (6.0, SECOND)])}, energy=POWERS)
        assert counts(run) == {"asleep": 2, "delivered": 1}
        row = run.energy.iloc[0]
        assert row[["receive_s", "listen_s", "sleep_s"]].tolist() == [1.5, 6.0, 2.5]
        assert row["used_j"] == 1.5 * 3 + 6 * 2 + 2.5 * 0.5

    def test_what_is_on_the_air_is_sent_and_acknowledged_while_the_radio_is_off(self) -> None:
        me = does(
            (1.0, lambda me: asyncio.ensure_future(me.deliver(1, "m", SECOND)) and None),
            (1.5, lambda me: me.radio.off()),
        )
        run = play({0: me, 1: Listener()}, acks=True, ack_bits=8000, turnaround=0.25, energy=POWERS)
        assert counts(run) == {"delivered": 1}
        assert run.airtime["retries"].tolist() == [0, 0]
        # The radio sleeps from 2 s, when everything is sent, except while the acknowledgement arrives from 2.25 to 3.25
        # s.
        row = run.energy.iloc[0]
        assert row[["transmit_s", "receive_s", "listen_s", "sleep_s"]].tolist() == [1, 1, 1, 7]

    @pytest.mark.filterwarnings("ignore:rate = 8000 bit/s")
    @pytest.mark.parametrize("access", ["aloha", "csma"])
    def test_a_frame_waits_until_the_radio_is_on(self, access: str) -> None:
        me = does(
            (1.0, lambda me: me.radio.off()), (2.0, lambda me: me.send(1, "m", SECOND)), (5.0, lambda me: me.radio.on())
        )
        run = play({0: me, 1: Listener()}, access=access, unit_backoff=1e-6, cca=1e-6, turnaround=0)
        [(time, *_)] = run.agents[1].heard
        assert time == pytest.approx(6.0, abs=1e-4)

    def test_a_frame_that_has_not_begun_waits(self) -> None:
        """The radio goes off in the middle of a back-off of 2 s, and on again at 8 s."""
        me = does(
            (1.0, lambda me: me.send(1, "m", SECOND)), (2.0, lambda me: me.radio.off()), (8.0, lambda me: me.radio.on())
        )
        run = play(
            {0: me, 1: Listener()}, 30.0, access="csma", min_be=0, max_be=0, cca=2.0, turnaround=0, lifs=0.0, sifs=0.0
        )
        assert [time for time, *_ in run.agents[1].heard] == [8.0 + 2.0 + 1.0]

    def test_on_again_at_once_sends_once(self) -> None:
        me = does(
            (1.0, lambda me: me.send(1, "m", SECOND)),
            (1.5, lambda me: me.radio.off()),
            (1.6, lambda me: me.radio.on()),
        )
        run = play({0: me, 1: Listener()}, access="csma", min_be=0, max_be=0, cca=2.0, turnaround=0)
        assert [time for time, *_ in run.agents[1].heard] == [4.0]
        assert run.airtime["frames"].tolist() == [1, 0]

    def test_a_battery_lasts_longer_with_the_radio_off(self) -> None:
        me = does((1.0, lambda me: me.radio.off()), (5.0, lambda me: me.radio.on()))
        run = play({0: me, 1: Listener()}, 50.0, energy=Energy(listen=2.0, sleep=0.5, battery=10.0))
        # Node 0 uses 2 J until 1 s, 2 J while off until 5 s, and its last 6 J at 2 W until 8 s.
        assert run.energy["died_at_s"].tolist() == [8.0, 5.0]

    def test_a_node_that_returns_has_its_radio_on_and_on_channel_0(self) -> None:
        def steps(me: Any) -> None:
            me.log.append((me.radio.state, me.radio.channel, me.radio.power_dbm))
            me.radio.off()
            me.radio.channel, me.radio.power_dbm = 3, -20.0

        network = Network(topology.path(2), LINK, medium=Radio(energy=POWERS), faults=[Crash(0, at=2.0, until=3.0)])
        seen: list[Any] = []

        async def script(me: Any) -> None:
            me.log = seen
            steps(me)
            await asyncio.sleep(100)

        run = network.run({0: Actor(script), 1: Listener()}, until=5.0)
        assert seen == [("listen", 0, 0.0), ("listen", 0, 0.0)]
        assert run.energy.iloc[0]["sleep_s"] == 4.0


@pytest.mark.usefixtures("twin")
class TestListening:
    """`radio.listen`, on both twins."""

    def test_what_is_heard_in_a_time(self) -> None:
        """The radio is only on while it listens. Frames end at 2, 3 and 7 s; the second is not complete at 2.5 s."""
        me = does(
            (0.0, lambda me: me.radio.off()),
            (0.5, lambda me: me.radio.listen(2.0)),
            (5.0, lambda me: me.radio.listen(3.0)),
        )
        run = play({0: me, 1: Talker([(1.0, SECOND), (2.0, SECOND), (6.0, SECOND)])}, energy=POWERS)
        assert [[frame.sent_at for frame in each] for each in run.agents[0].log[1:]] == [[1.0], [6.0]]
        assert counts(run) == {"delivered": 2, "asleep": 1}
        assert run.energy.iloc[0]["sleep_s"] == 5.0

    def test_until_a_frame_that_is_wanted(self) -> None:
        me = does(
            (0.0, lambda me: me.radio.off()),
            (0.5, lambda me: me.radio.listen(9.0, until=lambda frame: frame.sent_at > 1.5)),
            (5.0, lambda me: me.radio.listen(0.5, until=lambda frame: True)),
        )
        run = play({0: me, 1: Talker([(1.0, SECOND), (2.0, SECOND)])}, energy=POWERS)
        _, found, none = run.agents[0].log
        assert (found.sent_at, none) == (2.0, None)
        assert run.energy.iloc[0][["receive_s", "listen_s"]].tolist() == [2.0, 1.0]

    def test_carrier_sense_and_states(self) -> None:
        def look(me: Any) -> tuple[str, bool]:
            return me.radio.state, me.radio.busy()

        times = (0.5, 1.5, 2.5, 3.5)
        me = does(*((time, look) for time in times), (4.5, lambda me: me.radio.off()), (5.0, lambda me: me.radio.state))
        talker = does(
            (1.0, lambda me: me.send(0, "m", SECOND)),
            (1.5, lambda me: me.radio.state),
            (3.0, lambda me: me.send(2, "m", SECOND)),
        )
        run = play({0: me, 1: talker, 2: Listener()}, cca=0.1)
        assert run.agents[0].log[:4] == [("listen", False), ("receive", True), ("listen", False), ("receive", True)]
        assert run.agents[0].log[5] == "off"
        assert run.agents[1].log[1] == "transmit"

    def test_with_a_phy_a_locked_receiver_is_busy(self) -> None:
        def look(me: Any) -> tuple[str, bool]:
            return me.radio.state, me.radio.busy()

        me = does((0.5, look), (1.5, look), (2.5, look))
        powers = {(0, 1): -85.0, (1, 0): -85.0}
        run = play({0: me, 1: Talker([(1.0, SECOND)])}, cca=0.1, phy=Phy(), powers=powers)
        assert run.agents[0].log == [("listen", False), ("receive", True), ("listen", False)]


@pytest.mark.usefixtures("twin")
class TestChannelsAndPower:
    """Channels and transmit power, on both twins."""

    def test_frames_on_another_channel_do_not_arrive(self) -> None:
        def tune(channel: int) -> Step:
            return lambda me: setattr(me.radio, "channel", channel)

        me = does((2.5, tune(5)), (4.5, tune(0)))
        talker = does(
            (1.0, lambda me: me.send(0, "m", SECOND)),
            (2.0, lambda me: me.send(0, "m", SECOND)),
            (3.0, tune(5)),
            (3.5, lambda me: me.send(0, "m", SECOND)),
            (5.0, lambda me: me.send(0, "m", SECOND)),
        )
        run = play({0: me, 1: talker})
        assert counts(run) == {"delivered": 2, "asleep": 2}

    def test_frames_on_two_channels_do_not_collide(self) -> None:
        def sender(channel: int) -> Actor:
            return does(
                (0.0, lambda me: setattr(me.radio, "channel", channel)), (1.0, lambda me: me.broadcast("m", SECOND))
            )

        graph = nx.Graph([(0, 1), (2, 1), (2, 3)])
        hears = does((0.0, lambda me: setattr(me.radio, "channel", 7)), (1.0, lambda me: me.radio.listen(3)))
        run = play({0: sender(0), 1: Listener(), 2: sender(7), 3: hears}, graph=graph)
        assert counts(run, receiver=1) == {"delivered": 1, "asleep": 1}
        assert counts(run, receiver=3) == {"delivered": 1}

    def test_a_frame_tells_the_power_with_which_this_receiver_heard_it(self) -> None:
        powers = {(0, 1): -70.0, (0, 2): -85.0}
        powers |= {(b, a): level for (a, b), level in powers.items()}
        graph = nx.Graph([(0, 1), (0, 2)])
        tells = does(
            (1.0, lambda me: me.broadcast("m", [1, 2])),
            (2.0, lambda me: setattr(me.radio, "power_dbm", -4.0)),
            (3.0, lambda me: me.broadcast("m", [1, 2])),
        )
        hears = {node: does((0.0, lambda me: me.radio.listen(5.0))) for node in (1, 2)}
        phy = Phy()
        run = play({0: tells, **hears}, graph=graph, phy=phy, powers=powers)
        for node, level in ((1, -70.0), (2, -85.0)):
            [[first, second]] = run.agents[node].log
            assert (first.payload, first.sender) == ([1, 2], 0)
            assert first.rssi_dbm == pytest.approx(level)
            assert second.rssi_dbm == pytest.approx(level - 4.0)
            assert first.snr_db == pytest.approx(level - phy.noise_dbm)
            assert first.lqi == round(255 * min(1, (level - phy.noise_dbm) / 40))

    def test_without_powers_a_frame_tells_nothing(self) -> None:
        hears = does((0.0, lambda me: me.radio.listen(5.0)))
        run = play({0: hears, 1: Talker([(1.0, 5)])})
        [[frame]] = run.agents[0].log
        assert (frame.rssi_dbm, frame.snr_db, frame.lqi) == (None, None, None)
        hears = does((0.0, lambda me: me.radio.listen(5.0)))
        run = play({0: hears, 1: Talker([(1.0, 5)])}, powers={(0, 1): -70.0, (1, 0): -71.0})
        [[frame]] = run.agents[0].log
        assert frame.rssi_dbm == pytest.approx(-71.0)
        assert frame.snr_db is None

    def test_less_power_reaches_less_far(self) -> None:
        powers = {(0, 1): -80.0, (1, 0): -80.0}
        agent = does(
            (0.5, lambda me: setattr(me.radio, "power_dbm", -25.0)),
            (1.0, lambda me: me.send(1, "m", SECOND)),
            (2.5, lambda me: setattr(me.radio, "power_dbm", 0.0)),
            (3.0, lambda me: me.send(1, "m", SECOND)),
        )
        run = play({0: agent, 1: Listener()}, phy=Phy(), powers=powers)
        assert counts(run) == {"lost": 1, "delivered": 1}

    def test_energy_follows_the_power_that_is_set(self) -> None:
        """A frame costs the power set at its start: 1 s at 4 W, 1 s at 1 W, 1 s at 2.5 W, and 1.5 s of 2 s at 4 W."""
        energy = Energy(transmit=4.0, transmit_at={0: 4.0, -20: 1.0}, listen=2.0)
        me = does(
            (1.0, lambda me: me.send(1, "m", SECOND)),
            (3.0, lambda me: setattr(me.radio, "power_dbm", -20.0)),
            (4.0, lambda me: asyncio.ensure_future(me.deliver(1, "m", SECOND)) and None),
            (4.5, lambda me: setattr(me.radio, "power_dbm", -10.0)),
            (4.6, lambda me: me.energy.used),
            (6.0, lambda me: me.energy.last_frame),
            (7.0, lambda me: me.deliver(1, "m", SECOND)),
            (9.0, lambda me: setattr(me.radio, "power_dbm", 0.0)),
            (9.5, lambda me: me.send(1, "m", sized(2000))),
        )
        acks: dict[str, Any] = {"acks": True, "ack_bits": 8, "turnaround": 0.0}
        run = play({0: me, 1: Listener()}, 11.0, energy={0: energy}, **acks)
        log = run.agents[0].log
        # The acknowledgement of a millisecond is within the tolerance.
        assert log[4] == pytest.approx(4.0 + 2.0 * 3.0 + 0.6, abs=0.003)
        assert log[5] == pytest.approx(1.0)
        assert log[6].energy_j == pytest.approx(2.5)
        row = run.energy.iloc[0]
        assert row["transmit_s"] == pytest.approx(4.5)
        assert row["transmit_j"] == pytest.approx(4.0 + 1.0 + 2.5 + 1.5 * 4.0)
        assert row["used_j"] == pytest.approx(row["transmit_j"] + row["listen_j"])

    def test_a_battery_ends_by_the_power_that_is_set(self) -> None:
        """Listening until 1 s costs 2 J; then 0.25 J last for 0.5 s of sending at 0.5 W instead of 4 W."""
        energy = Energy(transmit=4.0, transmit_at={0: 4.0, -20: 0.5}, listen=2.0, battery=2.25)
        me = does(
            (0.5, lambda me: setattr(me.radio, "power_dbm", -20.0)),
            (1.0, lambda me: me.send(1, "m", SECOND)),
        )
        run = play({0: me, 1: Listener()}, energy={0: energy})
        assert run.energy["died_at_s"].tolist() == [1.5]
        assert run.energy["used_j"].tolist() == [2.25]

    def test_a_node_that_returns_pays_for_its_usual_power(self) -> None:
        energy = Energy(transmit=4.0, transmit_at={0: 4.0, -20: 0.5})
        sent: list[float] = []

        async def script(me: Any) -> None:
            await me.deliver(1, "m", SECOND)
            sent.append(me.energy.last_frame)
            me.radio.power_dbm = -20.0
            await me.deliver(1, "m", SECOND)
            sent.append(me.energy.last_frame)
            await asyncio.sleep(100)

        radio = Radio(access="aloha", acks=True, ack_bits=8, turnaround=0.0, energy=energy)
        network = Network(topology.path(2), LINK, medium=radio, faults=[Crash(0, at=5.0, until=6.0)])
        network.run({0: Actor(script), 1: Listener()}, until=10.0)
        assert sent == pytest.approx([4.0, 0.5] * 2)


def test_a_power_without_watts_is_refused_and_not_set() -> None:
    seen: list[Any] = []

    def steps(me: Any) -> None:
        for power in (5.0, -30.0, -3.0):
            try:
                me.radio.power_dbm = power
            except BadInput as error:
                seen.append(str(error))
            seen.append(me.radio.power_dbm)

    energy = Energy(transmit=4.0, transmit_at={0: 4.0, -25: 1.0})
    play({0: does((1.0, steps)), 1: Listener()}, energy=energy)
    told = "must be from -25 to 0 dBm, for which Energy.transmit_at has watts"
    assert seen == [f"power_dbm = 5.0: {told}", 0.0, f"power_dbm = -30.0: {told}", 0.0, -3.0]


def test_without_watts_by_power_energy_stays() -> None:
    """The power does not change the energy of a model with one transmit power, nor is an energy model required."""
    me = does((1.0, lambda me: setattr(me.radio, "power_dbm", -40.0)), (2.0, lambda me: me.send(1, "m", SECOND)))
    assert play({0: me, 1: Listener()}, energy=POWERS).energy["transmit_j"].tolist() == [4.0, 0.0]
    me = does((1.0, lambda me: setattr(me.radio, "power_dbm", -40.0)), (2.0, lambda me: me.radio.power_dbm))
    assert play({0: me, 1: Listener()}).agents[0].log[1] == -40.0


def test_on_another_medium_there_is_no_radio() -> None:
    for other in ("wires", "radio"):
        with pytest.raises(AgentError, match=r"agent 0 cannot control a radio: the medium must be a netsim\.Radio"):
            Network(topology.path(2), LINK, medium=other).run({0: does((1.0, lambda me: me.radio.on())), 1: Listener()})


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            lambda me: me.radio.off(),
            "agent 0 cannot switch its radio: it has a duty cycle; give Radio(duty_cycle={...}) only for other nodes",
        ),
        (lambda me: me.radio.busy(), "agent 0 cannot assess the channel: its radio is off"),
        (lambda me: setattr(me.radio, "channel", -1), "channel = -1: must be a whole number from 0 to 1000"),
        (lambda me: setattr(me.radio, "power_dbm", math.nan), "power_dbm = nan: must be a number >= -200 and <= 200"),
        (lambda me: me.radio.listen(-1), "seconds = -1: must be a number >= 0"),
        (lambda me: me.radio.listen(1.0, until=3), "until = 3: must be a function of a frame, or None"),
        (lambda me: me.radio.listen(1.0, until=never), "must be a function of a frame, or None"),
        (lambda me: me.radio.airtime(8), "frame = 8: must be a netsim.Frame"),
    ],
)
def test_what_cannot_be_done(step: Step, message: str) -> None:
    cycle = {0: DutyCycle(period=10.0, awake=1.0)}
    with pytest.raises(AgentError) as error:
        play({0: does((5.0, step)), 1: Listener()}, duty_cycle=cycle)
    assert str(error.value).endswith(message)


def test_a_misspelled_setting_of_the_radio_is_refused() -> None:
    # The message's wording differs between Python versions, but always contains the name.
    with pytest.raises(AgentError, match=r"AttributeError.*'chanel'"):
        play({0: does((5.0, lambda me: setattr(me.radio, "chanel", 3))), 1: Listener()})


async def never(frame: object) -> bool:
    """Return False; passed as ``until``, however, the coroutine itself would count as true."""
    return False


@pytest.mark.usefixtures("twin")
class TestSeveralListens:
    """Overlapping calls of `radio.listen`, on both twins; each call keeps the radio on for its own time."""

    def test_the_radio_is_on_until_the_last_has_ended(self) -> None:
        async def both(me: Actor) -> list[int]:
            heard = await asyncio.gather(me.radio.listen(1.0), me.radio.listen(3.0))
            return [len(frames) for frames in heard]

        me = does((0.0, lambda me: me.radio.off()), (0.5, both), (3.5, lambda me: me.radio.state))
        run = play({0: me, 1: Talker([(2.0, SECOND)])}, energy=POWERS)
        assert me.log == [None, [0, 1], "off"]
        assert run.energy.iloc[0][["receive_s", "listen_s", "sleep_s"]].tolist() == [1, 2, 7]

    def test_one_that_is_cancelled_leaves_the_radio_to_the_other(self) -> None:
        async def both(me: Actor) -> int:
            other = asyncio.create_task(me.radio.listen(3.0))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(me.radio.listen(2.0), 0.5)
            return len(await other)

        me = does((0.0, lambda me: me.radio.off()), (0.5, both), (3.5, lambda me: me.radio.state))
        play({0: me, 1: Talker([(2.0, SECOND)])})
        assert me.log == [None, 1, "off"]

    def test_after_a_crash_of_its_node_the_radio_is_on(self) -> None:
        me = does(
            (0.0, lambda me: me.radio.off()),
            (0.5, lambda me: asyncio.gather(me.radio.listen(2.0), me.radio.listen(4.0))),
        )
        medium = Radio(access="aloha", energy=POWERS)
        network = Network(topology.path(1), LINK, medium=medium, faults=[Crash(0, at=1.0, until=9.0)])
        seen: list[str] = []
        network.at(9.0, lambda: seen.append(me.radio.state))
        run = network.run({0: me}, until=20.0)
        assert seen == ["listen"]
        # The node is off for 0.5 s, on for 0.5 s, and down until 9 s. All steps are then overdue and happen together:
        # the radio is on until 13 s, and off afterwards.
        assert run.energy.iloc[0][["listen_s", "sleep_s"]].tolist() == [4.5, 7.5]


def test_a_duty_cycle_shows_in_the_state() -> None:
    me = does((0.5, lambda me: me.radio.state), (5.0, lambda me: me.radio.state))
    run = play({0: me, 1: Listener()}, duty_cycle={0: DutyCycle(period=10.0, awake=1.0)})
    assert run.agents[0].log == ["listen", "sleep"]


class Restless(Agent):
    """Switches its radio, changes channels, listens, assesses the channel and sends, all at random."""

    def __init__(self) -> None:
        self.saw: list[Any] = []

    async def run(self) -> None:
        radio = self.radio
        for _ in range(40):
            await asyncio.sleep(self.rng.exponential(0.02))
            what = self.rng.integers(8)
            to = self.neighbors[self.rng.integers(len(self.neighbors))]
            if what == 0:
                radio.off()
            elif what == 1:
                radio.on()
            elif what == 2:
                radio.channel = int(self.rng.integers(2))
            elif what == 3:
                radio.power_dbm = float(self.rng.integers(-20, 1))
            elif what == 4:
                heard = await radio.listen(self.rng.exponential(0.02))
                self.saw += [(frame.sender, frame.sent_at, frame.rssi_dbm, frame.snr_db, frame.lqi) for frame in heard]
            elif what == 5:
                await self.broadcast("all", self.rng.normal(size=3))
            elif what == 6:
                await self.send(to, "one", [1, 2])
            elif radio.state != "off":
                self.saw.append((radio.state, radio.busy()))
            self.saw.append((self.now, radio.state, radio.channel, radio.power_dbm, self.energy.used))


@compiled_only
@pytest.mark.parametrize("more", [0, slow(1), slow(2)])
@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**30),
    st.sampled_from(["aloha", "csma"]),
    st.booleans(),
    st.sampled_from(["phy", "fading", "capture", "none"]),
)
def test_both_twins_give_the_same_run_to_restless_hands(
    more: int, seed: int, access: Any, acks: bool, hearing: str
) -> None:
    seed += more
    graph = nx.circulant_graph(8, [1, 4])
    powers = {(a, b): -60.0 - (7 * a + 3 * b + seed) % 40 for a in graph for b in graph if a != b}
    radio = Radio(
        access=access,
        acks=acks,
        phy=Phy() if hearing == "phy" else Phy(fading=Flickers(), noise=Flickers()) if hearing == "fading" else None,
        powers=None if hearing == "none" else powers,
        capture=3.0 if hearing == "capture" else None,
        energy=Energy(
            transmit=0.05,
            receive=0.06,
            listen=0.05,
            sleep=1e-3,
            battery=0.06,
            transmit_at={0: 0.05, -7: 0.09, -20: 0.01} if seed % 2 else {},
        ),
    )

    def run() -> Any:
        agents = {node: Restless() for node in graph}
        done = Network(graph, Link(rate=5e4, loss=0.1), medium=radio, seed=seed).run(agents, until=3.0, trace=True)
        joules = done.energy[[f"{state}_j" for state in ("transmit", "receive", "listen", "sleep", "bits")]]
        assert joules.sum(axis=1).tolist() == pytest.approx(done.energy["used_j"].tolist())
        assert (done.energy["used_j"] <= 0.06 * (1 + 1e-9)).all()
        return story(done), [agent.saw for agent in agents.values()]

    assert run() == in_python(run)
