"""Simultaneous sampling: all motes sample at the same instant, once per slot, and report later."""

import asyncio
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import AgentError, BadInput, Link, Mote, Network, Part, Radio
from netsim.agents import CTP, FTSP, Sampler
from netsim.faults import ClockSkew, Crash

LINK, RADIO = Link(rate=250e3, header_bits=136), Radio(acks=True, max_frame_retries=0)


class Notes(Sampler):
    """Records its sampling times, measured by the simulation's clock rather than the mote's."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.at: dict[int, list[float]] = {}

    def read(self, slot: int) -> Any:
        self.at.setdefault(slot, []).append(asyncio.get_running_loop().now())  # type: ignore[attr-defined]
        return [self.name, slot]


def play(make: Any, until: float = 200, nodes: int = 4, **options: Any) -> Any:
    """Run a line of motes whose clocks have drifts of up to 30 ppm and offsets of up to 2 s."""
    skews = [ClockSkew(node, offset=1.3 * node - 2, drift=(20 * node - 30) * 1e-6) for node in range(nodes)]
    faults = [*skews, *options.pop("faults", ())]
    motes = {node: make(node) for node in range(nodes)}
    Network(nx.path_graph(nodes), LINK, medium=RADIO, seed=1, faults=faults, **options).run(motes, until=until)
    return motes


def mote(node: int, **settings: Any) -> Mote:
    return Mote(time=FTSP(5.0), routing=CTP(is_sink=node == 0), app=Notes(10.0, **settings))


def test_all_motes_sample_each_slot_once_and_at_one_instant() -> None:
    motes = play(mote)
    slots = [slot for slot in motes[0].app.at if all(slot in each.app.at for each in motes.values())]
    assert len(slots) >= 8
    for slot in slots:
        times = [each.app.at[slot] for each in motes.values()]
        assert all(len(each) == 1 for each in times)
        assert np.ptp(times) < 1e-6
    for each in motes.values():
        own = sorted(each.app.at)
        assert own == list(range(own[0], own[-1] + 1))
        assert list(each.app.taken) == own
        assert each.routing.taken in (len(own), len(own) - 1)  # the last sample may not be reported yet


def test_readings_arrive_with_their_slot() -> None:
    motes = play(mote)
    heard = [arrival.value for arrival in motes[0].routing.heard.values()]
    assert {(node, slot) for slot, [node, same] in heard if slot == same} == {(each[1][0], each[0]) for each in heard}
    assert len(heard) >= sum(len(each.app.at) for each in motes.values()) - 2 * len(motes)


def test_reports_are_spread() -> None:
    class Routing(CTP):
        def report(self, value: Any) -> bool:
            self.reported = [*getattr(self, "reported", ()), asyncio.get_running_loop().now()]  # type: ignore[attr-defined]
            return super().report(value)

    def make(node: int) -> Mote:
        return Mote(time=FTSP(5.0), routing=Routing(is_sink=node == 0), app=Notes(10.0, spread=4.0))

    motes = play(make)
    waits = [
        min(reported - at for [at] in each.app.at.values() if at <= reported)
        for each in motes.values()
        for reported in each.routing.reported
    ]
    assert len(waits) > 30
    assert 0 <= min(waits) < 0.8
    assert 3.2 < max(waits) <= 4.01


@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_crash_doubles_no_slot(keeps_state: bool) -> None:
    motes = play(mote, 300, faults=[Crash(2, at=140, until=161, keeps_state=keeps_state)])
    at = motes[2].app.at
    assert all(len(times) == 1 for times in at.values())
    assert at
    assert max(times[0] for times in at.values()) > 200


def test_without_a_common_time_nothing_is_sampled() -> None:
    class NoTime(Part):
        is_synchronised = False

        async def run(self) -> None:
            """Return, so that the mote never has a common time."""

    motes = play(lambda node: Mote(time=NoTime(), routing=CTP(is_sink=node == 0), app=Notes(10.0)), 60)
    assert [each.app.taken for each in motes.values()] == [{}] * 4


@pytest.mark.parametrize(
    "make",
    [
        lambda node: Mote(app=Sampler()),
        lambda node: Mote(time=FTSP(), app=Sampler()),
        lambda node: Mote(routing=CTP(is_sink=node == 0), app=Sampler()),
        lambda node: Sampler(),
    ],
)
def test_without_the_parts_that_it_needs_it_is_refused(make: Any) -> None:
    with pytest.raises((BadInput, AgentError), match=r"must be in a mote with the parts time and routing") as found:
        play(make)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("period = 0: must be ", {"period": 0}),
        ("spread = 31: must be ", {"spread": 31}),
        ("spread = -1: must be ", {"spread": -1}),
    ],
)
def test_wrong_settings_are_refused(message: str, settings: Any) -> None:
    with pytest.raises(BadInput, match=message):
        Sampler(**settings)
