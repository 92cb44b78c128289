"""Requests are repeated, after pauses that double, until they are answered; each is answered once."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import AgentError, BadInput, Link, Mote, Network, Part, Radio
from netsim.agents import Requests
from netsim.faults import ClockSkew, Crash
from tests.agents.test_dissemination import Hostile

LINK, CSMA = Link(rate=250e3, header_bits=136), Radio()


class Serves(Requests):
    """Answers each value with twice the value, and records the requests."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.calls = list[Any]()

    def answer_to(self, sender: Any, value: Any) -> Any:
        self.calls.append((sender, value))
        return 2 * value


class Asks(Part):
    """Asks neighbours one after the other, and stores the answers or errors."""

    def __init__(self, asks: Any = (), pause: float = 0.0, since: float = 0.0) -> None:
        self.asks, self.pause, self.since, self.found = asks, pause, since, list[Any]()

    async def run(self) -> None:
        await asyncio.sleep(self.since)
        for to, value in self.asks:
            try:
                self.found.append(await self.mote.calls.ask(to, value))
            except TimeoutError as error:
                self.found.append(error)
            await asyncio.sleep(self.pause)


def mote(*asks: Any, timeout: float = 0.25, repeats: int = 4, **settings: Any) -> Any:
    return Mote(calls=Serves(timeout=timeout, repeats=repeats), app=Asks(asks, **settings))


def play(
    motes: Any, *, loss: float = 0.0, until: float = 300, medium: Any = CSMA, graph: Any = None, **options: Any
) -> Any:
    link = LINK.with_loss(netsim.loss.bernoulli(loss)) if loss else LINK
    network = Network(graph or nx.complete_graph(len(motes)), link, medium=medium, seed=4, **options)
    return network.run(motes, until=until, trace=True)


def test_an_answer_comes_back() -> None:
    motes = {0: mote((1, 20.5), (2, [1]), (1, "ab")), 1: mote(), 2: mote()}
    play(motes)
    assert motes[0].app.found == [41, [1, 1], "abab"]
    assert (motes[1].calls.calls, motes[2].calls.calls) == ([(0, 20.5), (0, "ab")], [(0, [1])])
    assert (motes[0].calls.asked, motes[0].calls.repeated, motes[1].calls.answered) == (3, 0, 2)


@pytest.mark.parametrize("acks", [False, True])
def test_each_request_is_answered_once_under_heavy_loss_both_ways(acks: bool) -> None:
    count = 60
    motes = {0: mote(*((1, k) for k in range(count)), repeats=12, timeout=0.02), 1: mote()}
    play(motes, loss=0.5, until=9000, medium=Radio(acks=acks, max_frame_retries=0))
    # Each of the 13 transmissions of a request is answered with probability 1/4: one request in 42 fails.
    found = motes[0].app.found
    assert len(found) == count
    answers = [(k, answer) for k, answer in enumerate(found) if not isinstance(answer, TimeoutError)]
    assert len(answers) >= count - 5
    assert all(answer == 2 * k for k, answer in answers)
    calls = Counter(motes[1].calls.calls)
    assert set(calls.values()) == {1}
    assert {value for _, value in calls} >= {k for k, _ in answers}
    assert motes[0].calls.repeated > count
    assert motes[1].calls.answered > count  # repeated requests are answered again, from memory


def test_several_at_once_get_their_own_answers() -> None:
    class Many(Part):
        async def run(self) -> None:
            calls = self.mote.calls
            self.found = await asyncio.gather(*(calls.ask(1 + k % 2, k) for k in range(12)))

    motes = {0: Mote(calls=Serves(timeout=0.5, repeats=6), app=Many()), 1: mote(), 2: mote((0, 7))}
    play(motes, loss=0.3)
    assert motes[0].app.found == [2 * k for k in range(12)]
    assert sorted(value for _, value in motes[1].calls.calls) == [0, 2, 4, 6, 8, 10]


def test_repetitions_come_after_doubled_pauses() -> None:
    """RFC 7252, 4.2: the first pause is 1 to 1.5 times ACK_TIMEOUT, and each later pause is twice the previous one."""
    timeout, repeats, firsts = 2.0, 4, []
    for seed in range(12):
        network = Network(nx.path_graph(2), replace(LINK, loss=1.0), medium=CSMA, seed=seed)
        motes = {0: mote((1, 1), timeout=timeout, repeats=repeats), 1: mote()}
        run = network.run(motes, until=300, trace=True)
        began = run.on_air["start_s"].to_numpy()
        assert len(began) == 1 + repeats
        pauses = np.diff(began)
        firsts.append(pauses[0])
        np.testing.assert_allclose(pauses, pauses[0] * 2.0 ** np.arange(repeats), rtol=0, atol=0.02)
        [error] = motes[0].app.found
        assert type(error) is TimeoutError
        assert "\n" not in str(error)
    assert timeout - 0.02 <= min(firsts) < 1.15 * timeout
    assert 1.35 * timeout < max(firsts) <= 1.5 * timeout + 0.02


def test_the_last_pause_is_waited_before_the_error() -> None:
    ends = []

    class Waits(Part):
        async def run(self) -> None:
            try:
                await self.mote.calls.ask(1, 1)
            except TimeoutError:
                ends.append(self.now)

    link = replace(LINK, loss=1.0)
    motes = {0: Mote(calls=Serves(timeout=1, repeats=2), app=Waits()), 1: mote()}
    run = Network(nx.path_graph(2), link, medium=CSMA, seed=1).run(motes, until=99, trace=True)
    began = run.on_air["start_s"].to_numpy()
    assert len(began) == 3
    assert ends[0] - began[-1] == pytest.approx(2 * (began[-1] - began[-2]), abs=0.02)


def test_an_answerer_that_crashes_in_between_answers_later() -> None:
    motes = {0: mote((1, 1), (1, 2), pause=9.0, timeout=1.0), 1: mote()}
    play(motes, faults=[Crash(1, at=8.0, until=12)])
    assert motes[0].app.found == [2, 4]
    assert motes[1].calls.calls == [(0, 2)]  # the crash erased the record of the first call


def test_a_crash_of_the_asker_does_not_mix_its_requests_up() -> None:
    """After a crash the agent asks all its requests again, and ignores answers to those from before the crash."""
    motes = {0: mote(*((1, k) for k in range(4)), pause=1.0), 1: mote()}
    play(motes, faults=[Crash(0, at=2.5, until=3.5)])
    assert motes[0].app.found == [0, 2, 4, 6]
    assert motes[1].calls.calls[-4:] == [(0, k) for k in range(4)]


def test_answers_of_none_and_false_are_answers() -> None:
    class Nothing(Requests):
        def answer_to(self, sender: Any, value: Any) -> Any:
            return value

    motes = {0: mote((1, None), (1, False), (1, 0), (1, b""), (1, [])), 1: Mote(calls=Nothing())}
    play(motes)
    assert motes[0].app.found == [None, False, 0, b"", []]


def test_who_is_no_neighbour_cannot_be_asked() -> None:
    with pytest.raises(AgentError, match=r"cannot send to 2: its neighbours are 1") as found:
        play({0: mote((2, 1)), 1: mote(), 2: mote()}, graph=nx.path_graph(3))
    assert "\n" not in str(found.value)


def test_garbage_of_its_kinds_stops_nobody() -> None:
    odd: list[Any] = [
        None,
        5,
        2.5,
        "x",
        b"x",
        {},
        [],
        [1],
        [[1], [2]],
        np.zeros(2),
        [-1, 0],
        [None] * 3,
        [1] * 9,
        [True, 1],
    ]
    says = [(kind, value) for kind in Requests.kinds for value in odd]
    motes = {0: mote(*((1, k) for k in range(9)), pause=1.0, repeats=8), 1: mote()}
    network = Network(nx.complete_graph(3), LINK, medium=CSMA, seed=4)
    network.run(motes | {2: Hostile(says)}, until=60)
    assert motes[0].app.found == [2 * k for k in range(9)]
    assert [call for call in motes[1].calls.calls if call[0] == 0] == [(0, k) for k in range(9)]
    assert motes[1].calls.foreign


def test_neighbours_are_told_apart() -> None:
    """Requests of two neighbours with the same identifiers and values are each answered once."""
    asks = [(1, k) for k in range(40)]
    motes = {0: mote(*asks, repeats=10), 1: mote(), 2: mote(*asks, repeats=10)}
    play(motes, loss=0.3, until=900)
    assert Counter(motes[1].calls.calls) == Counter((sender, k) for sender in (0, 2) for k in range(40))


def test_clocks_that_are_behind_change_nothing() -> None:
    """Request identifiers start at the agent's clock, which is negative here."""
    motes = {0: mote((1, 1), (1, 2)), 1: mote()}
    play(motes, faults=[ClockSkew(0, offset=1000.0)], until=60)
    assert motes[0].app.found == [2, 4]
    assert not motes[1].calls.foreign


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("timeout = 0: must be ", {"timeout": 0}),
        ("repeats = -1: must be ", {"repeats": -1}),
        ("memory = 0: must be ", {"memory": 0}),
        ("timeout = 'x': must be ", {"timeout": "x"}),
    ],
)
def test_wrong_settings_are_refused(message: str, settings: Any) -> None:
    with pytest.raises(BadInput, match=message):
        Requests(**settings)
