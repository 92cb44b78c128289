"""Random networks from `networks` and `radios` with reliable links, with or without faults."""

import dataclasses

import numpy as np

from netsim import BadInput, Link, topology
from netsim.links import Reliability
from tests.fuzzers.faults import COUNTS, faulty
from tests.fuzzers.laws import Played, check_books, check_same
from tests.fuzzers.networks import Case, Rng
from tests.fuzzers.radios import RadioCase, check_air


def a_reliability(rng: Rng, case: Case) -> Reliability:
    """Return reliability settings: retransmission on request if acknowledgements cannot return in time."""
    network = case.network
    way = ("ack", "ack", "nack", "keyframe")[rng.integers(4)]
    if topology.one_way_link(network.graph) is not None:
        way = "keyframe"
    timeout = None if rng.random() < 0.6 else float(network.round_period * 10 ** rng.uniform(-3, 0.3))
    few = Reliability(way, timeout, attempts=int(rng.integers(1, 6)), window=int(rng.integers(1, 6)))
    changed = [getattr(fault, "latency", None) for fault in network.faults]
    try:
        for link in (
            network.link,
            *network.links.values(),
            *(Link(latency=each) for each in changed if each is not None),
        ):
            few.resend_after(link.latency_model, network.round_period)
    except BadInput:
        return Reliability("nack", window=few.window)
    return few


def reliable(case: Case, seed: int, with_faults: bool) -> Case:
    """Return a case with reliable links, of a kind drawn from a seed, and possibly with faults."""
    rng = np.random.default_rng([seed, 1])
    # Control frames are sent without an agent's call, so calls would not tell their channel.
    case.habits = {node: dataclasses.replace(habits, retunes=False) for node, habits in case.habits.items()}
    network, way = case.network, a_reliability(rng, case)
    network.link = dataclasses.replace(network.link, reliability=way)
    network.links = {ends: dataclasses.replace(link, reliability=way) for ends, link in network.links.items()}
    if with_faults:
        faulty(case, seed, {name: int(rng.integers(most + 1)) for name, most in COUNTS.items()})
    return case


def check_reliable(seed: int, with_faults: bool = False, on_radio: bool = False) -> Played:
    """Check that the laws hold, that probes do not change the run, and that no agent receives a frame twice."""
    kind = RadioCase if on_radio else Case
    played = reliable(kind(seed), seed, with_faults).play(trace=True)
    check_books(played)
    if on_radio:
        check_air(played)
    only_requests_have_numbers(played)
    check_same(played, reliable(kind(seed), seed, with_faults).play(watched=True))
    return played


def only_requests_have_numbers(played: Played) -> None:
    """Check that agents read no control frames, and that ordinary frames are not taken for requests."""
    kinds = {got.kind for agent in played.agents.values() for got in agent.notes.got}
    assert played.damages or not kinds & {"ack", "nack", "resent"}, kinds
