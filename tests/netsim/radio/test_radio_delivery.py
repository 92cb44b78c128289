"""The result of `deliver`: success, number of tries, waiting time, and cause of a failure."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from netsim import Energy, Link, Network, Radio, WireError, topology
from netsim.core.delivery import Delivery
from netsim.faults import Crash
from netsim.radio import DutyCycle, medium
from netsim.testing import Actor, Listener, sized
from netsim.wire.codec import encode

LINK = Link(rate=8000.0)
SECOND = sized(1000)
compiled_only = pytest.mark.skipif(medium.COMPILED is None, reason="there is no compiled twin")


@pytest.fixture(params=[pytest.param("compiled", marks=compiled_only), "python"])
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run each test with the compiled radio and with its Python twin."""
    if request.param == "python":
        monkeypatch.setattr(medium, "COMPILED", None)
    return str(request.param)


def delivered(count: int = 1, link: Link = LINK, payload: Any = SECOND, **kwargs: Any) -> list[Delivery]:
    """Return the results of messages from node 0 to node 1; ``kwargs`` are settings of the radio, and faults."""
    faults = kwargs.pop("faults", [])

    async def says(me: Actor) -> None:
        me.log = [await me.deliver(1, "m", payload) for _ in range(count)]

    me = Actor(says)
    radio = Radio(**{"access": "aloha", "acks": True, "unit_backoff": 1.0, "ack_wait": 2.0} | kwargs)
    Network(topology.path(2), link, medium=radio, faults=faults, seed=3).run({0: me, 1: Listener()}, until=1e4)
    return me.log


def test_one_that_arrives_is_true_and_tells_what_it_took(twin: str) -> None:
    [each] = delivered(energy=Energy(transmit=4.0, listen=2.0))
    assert each
    assert each == 1
    assert sum([each, each]) == 2
    assert (not each) is False
    assert (each.attempts, each.backoffs, each.reason, each.energy_j) == (1, 0, "delivered", 4.0)


def test_csma_waits_before_each_assessment(twin: str) -> None:
    [each] = delivered(access="csma")
    assert (each.attempts, each.backoffs, each.energy_j) == (1, 1, None)


def test_one_that_fails_is_false_and_names_the_cause_of_the_ledger(twin: str) -> None:
    [each] = delivered(faults=[Crash(1, at=0)], max_frame_retries=2, energy=Energy(transmit=4.0))
    assert not each
    assert each == 0
    assert (each.attempts, each.backoffs, each.reason, each.energy_j) == (3, 2, "receiver_down", 12.0)


def test_causes_on_the_way(twin: str) -> None:
    assert [each.reason for each in delivered(link=Link(rate=8000.0, loss=1.0))] == ["lost"]
    asleep = DutyCycle(period=1000.0, awake=400.0, offsets={1: 500.0})
    assert [each.reason for each in delivered(duty_cycle=asleep, max_frame_retries=0)] == ["asleep"]
    [each] = delivered(link=Link(rate=8000.0, queue_bits=8))
    assert (bool(each), each.attempts, each.reason, each.energy_j) == (False, 0, "queue_full", None)


def test_one_that_arrives_without_acknowledgement_is_false_and_delivered(twin: str) -> None:
    """The acknowledgement takes longer than the sender waits for it, so the delivery counts as failed."""
    [each] = delivered(ack_wait=0.001, max_frame_retries=1)
    assert (bool(each), each.attempts, each.reason) == (False, 2, "delivered")


def test_attempts_count_fragments(twin: str) -> None:
    assert [each.attempts for each in delivered(link=Link(rate=8000.0, mtu=500))] == [2]


def test_attempts_are_the_frames_on_the_air() -> None:
    each = delivered(200, Link(rate=8000.0, loss=0.4), sized(10))
    failed = [one for one in each if not one]
    assert failed
    assert all(one.attempts == 4 for one in failed)
    assert all(1 <= one.attempts <= 4 and one.backoffs == one.attempts - 1 for one in each)
    # A frame and its acknowledgement both survive with probability 0.36.
    assert sum(each) / 200 == pytest.approx(1 - 0.64**4, abs=0.08)
    assert np.mean(each) == sum(each) / 200


def test_it_can_be_copied_and_stored_but_not_sent() -> None:
    each = Delivery(True, 3, 2, "delivered", 0.5)
    for same in (copy.deepcopy(each), pickle.loads(pickle.dumps(each))):
        assert same == 1
        assert repr(same) == repr(each) == "<acknowledged: delivered, attempts 3, back-offs 2, 0.5 J>"
    with pytest.raises(WireError, match=r"cannot encode a netsim\.core\.delivery\.Delivery"):
        encode(each)
