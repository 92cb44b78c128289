"""Links from positions: the search that skips distant pairs gives the same links as a loop over all pairs."""

import math
from collections.abc import Mapping
from itertools import combinations, permutations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from netsim import BadInput, Link, Network, Radio, loss
from netsim.links.measured import from_reception
from netsim.radio import LogDistance, Phy, within
from netsim.util import draws

Places = dict[Any, tuple[float, ...]]


def shadow_of(model: LogDistance, seed: int, a: Any, b: Any) -> float:
    """Return the shadowing of one link, computed from the keys of its two ends."""
    ends = [draws.name_key(a), draws.name_key(b)]
    first, second = (np.array([key], dtype=np.uint64) for key in (sorted(ends) if model.symmetric else ends))
    key = draws.stream_keys(seed, draws.link_keys(first, second), "shadowing")
    return model.shadowing * float(ndtri(max(draws.uniforms(key, 0, 1)[0, 0], 2.0**-54)))


def powers_of(model: LogDistance, places: Places, seed: int) -> dict[tuple[Any, Any], float]:
    """Return the received power P_t − PL(d) − X of each pair, computed pair by pair; X is the shadowing."""
    return {
        (a, b): model.transmit_dbm
        - model.path_loss(math.dist(places[a], places[b]))
        - (shadow_of(model, seed, a, b) if model.shadowing else 0.0)
        for a, b in permutations(places, 2)
    }


def reception_of(model: LogDistance, places: Places, seed: int) -> dict[tuple[Any, Any], float]:
    """Return the reception probability Φ((P − θ)/σ) of each pair: received power P, sensitivity θ, fading σ."""
    return {
        ends: float(ndtr((power - model.sensitivity) / model.fading))
        if model.fading
        else float(power >= model.sensitivity)
        for ends, power in powers_of(model, places, seed).items()
    }


def in_order(graph: "nx.Graph[Any]") -> tuple[list[Any], list[Any]]:
    return list(graph.nodes(data=True)), [(a, list(others)) for a, others in graph.adjacency()]


def a_field(seed: int, agents: int, dimensions: int, side: float) -> Places:
    rng = np.random.default_rng(seed)
    names = [number if seed % 2 else ("mote", str(number)) for number in rng.permutation(agents).tolist()]
    return dict(zip(names, map(tuple, (side * rng.random((agents, dimensions))).tolist()), strict=True))


models = st.builds(
    LogDistance,
    exponent=st.sampled_from([1e-3, 0.5, 2.0, 3.0, 6.0]),
    reference_distance=st.sampled_from([1.0, 20.0]),
    shadowing=st.sampled_from([0.0, 1.0, 7.0]),
    symmetric=st.booleans(),
    fading=st.sampled_from([0.0, 0.5, 4.0]),
    transmit_dbm=st.sampled_from([-20.0, 0.0]),
)
fields = st.builds(
    a_field, st.integers(0, 5), st.integers(2, 25), st.integers(1, 3), st.sampled_from([0.0, 30.0, 300.0, 1e4])
)


@settings(deadline=None)
@given(model=models, places=fields, seed=st.integers(0, 3))
def test_powers_and_reception_are_those_of_each_pair(model: LogDistance, places: Places, seed: int) -> None:
    found = model.powers(places, seed=seed)
    assert list(found.items()) == list(powers_of(model, places, seed).items())
    received = model.reception(places, seed=seed)
    assert list(received.items()) == list(reception_of(model, places, seed).items())
    assert {type(value) for value in (*found.values(), *received.values())} == {float}


@settings(deadline=None)
@given(
    model=models,
    places=fields,
    seed=st.integers(0, 3),
    least=st.sampled_from([0.0, 1e-300, 0.01, 0.5, 0.999, 1.0]),
    both=st.booleans(),
)
def test_a_network_is_that_of_all_pairs(
    model: LogDistance, places: Places, seed: int, least: float, both: bool
) -> None:
    received, link = reception_of(model, places, seed), Link(latency=0.01, header_bits=8)
    best = max(min(p, received[b, a]) if both else p for (a, b), p in received.items())
    if best < least or not best:
        strongest = max(powers_of(model, places, seed).values())
        with pytest.raises(BadInput) as caught:
            model.network(places, link=link, least=least, both=both, seed=seed)
        assert f"the best pair receives {best:.2g}{' each way' if both else ''} (least" in str(caught.value)
        assert f"the strongest signal is {strongest:.4g} dBm" in str(caught.value)
        return
    found = model.network(places, link=link, least=least, both=both, seed=seed, connected=False)
    expected = from_reception(received, link=link, least=least, both=both, positions=places, nodes=places)
    assert in_order(found.graph) == in_order(expected.graph)
    assert list(found.links.items()) == list(expected.links.items())


@settings(deadline=None)
@given(model=models, places=fields, seed=st.integers(0, 3), level=st.sampled_from([-400.0, -95.0, -60.0, 10.0]))
def test_who_is_audible_is_decided_for_each_pair(model: LogDistance, places: Places, seed: int, level: float) -> None:
    expected: nx.DiGraph[Any] = nx.DiGraph()
    expected.add_nodes_from(places)
    powers = powers_of(model, places, seed)
    expected.add_edges_from(ends for ends, power in powers.items() if power >= level)
    assert in_order(model.audible(places, level, seed=seed)) == in_order(expected)
    # A limit equal to the pair's received power keeps the link.
    (a, b), power = next(iter(powers.items()))
    assert model.audible(places, power, seed=seed).has_edge(a, b)


@settings(deadline=None)
@given(places=fields, share=st.sampled_from([1e-6, 0.1, 0.5, 2.0]))
def test_who_is_within_a_distance_is_decided_for_each_pair(places: Places, share: float) -> None:
    distances = {(a, b): math.dist(places[a], places[b]) for a, b in combinations(places, 2)}
    reach = max(share * max(distances.values()), 1e-3)
    expected: nx.Graph[Any] = nx.Graph()
    expected.add_nodes_from(places)
    expected.add_edges_from(ends for ends, distance in distances.items() if distance <= reach)
    assert in_order(within(places, reach)) == in_order(expected)
    # A limit equal to the pair's distance keeps the link.
    (a, b), distance = next(iter(distances.items()))
    assert not distance or within(places, distance).has_edge(a, b)


def test_pairs_are_found_in_many_blocks_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    places = a_field(2, 60, 2, 400.0)
    model = LogDistance(shadowing=4.0, symmetric=False)
    whole = model.powers(places), in_order(within(places, 90.0)), model.network(places).links
    monkeypatch.setattr("netsim.radio.pathloss._BLOCK", 70)
    assert (model.powers(places), in_order(within(places, 90.0)), model.network(places).links) == whole


@pytest.mark.parametrize("exponent", [3.0, 1e-160])
def test_positions_may_be_as_far_apart_as_numbers_go(exponent: float) -> None:
    places: Places = {0: (0.0, 0.0), 1: (1e200, 0.0), 2: (0.0, 3e200), 3: (1.0, 1.0)}
    model = LogDistance(exponent=exponent)
    assert model.powers(places) == powers_of(model, places, 0)
    heard = {ends for ends, power in powers_of(model, places, 0).items() if power >= -95.0}
    assert set(model.audible(places, -95.0).edges) == heard
    assert set(within(places, 2e200).edges) == {(0, 1), (0, 3), (1, 3)}


class TwoRay(LogDistance):
    """A path loss that grows with the fourth power of distance from 50 m on, and drops to its minimum at 500 m."""

    def path_loss(self, distance: float) -> float:
        return 0.0 if distance > 500.0 else super().path_loss(distance) + 20.0 * math.log10(max(distance / 50.0, 1.0))


class Better(LogDistance):
    """A path loss with an antenna gain of 30 dB towards node 0."""

    def powers(self, positions: "Mapping[Any, Any] | nx.Graph[Any]", *, seed: int = 0) -> dict[tuple[Any, Any], float]:
        found = super().powers(positions, seed=seed)
        return {ends: power + 30.0 * (ends[0] == 0) for ends, power in found.items()}


class Half(LogDistance):
    """A path loss model that halves the probability of reception."""

    def reception(
        self, positions: "Mapping[Any, Any] | nx.Graph[Any]", *, seed: int = 0
    ) -> dict[tuple[Any, Any], float]:
        return {ends: p / 2 for ends, p in super().reception(positions, seed=seed).items()}


@pytest.mark.parametrize("kind", [TwoRay, Better, Half])
def test_a_model_derived_from_it_decides_for_all_pairs(kind: type[LogDistance]) -> None:
    model = kind(shadowing=3.0)
    places = {number: (60.0 * number, 0.0) for number in range(6)}
    found = model.network(places, least=0.25, connected=False)
    assert found.links == from_reception(model.reception(places), least=0.25, positions=places).links
    heard = {ends for ends, power in model.powers(places).items() if power >= -95.0}
    assert set(model.audible(places, -95.0).edges) == heard


def test_links_with_the_same_loss_share_their_settings() -> None:
    places = {number: (float(number), 0.0) for number in range(30)}
    links = LogDistance(fading=0.0).network(places, link=Link(latency=0.5)).links
    assert len(links) == 30 * 29
    assert len({id(link) for link in links.values()}) == 1


def test_losses_may_come_in_blocks() -> None:
    places = {0: (0.0, 0.0), 1: (68.0, 0.0)}
    alone, blocks = (LogDistance().network(places, coherence=each).links[0, 1].loss for each in (None, 5.0))
    assert blocks.mean == pytest.approx(alone.mean)
    assert 0.2 < alone.mean < 0.8
    assert blocks == loss.gilbert_elliott(alone.mean, 1 / (1 - alone.mean), slot=5.0)
    with pytest.raises(BadInput, match="coherence"):
        LogDistance().network(places, coherence=-1.0)


def test_positions_have_a_number_at_least() -> None:
    with pytest.raises(BadInput, match=r"positions\[0\] = \(\): must be a number at least"):
        within({0: (), 1: ()}, 1.0)


def test_received_powers_are_a_mapping_that_cannot_be_changed() -> None:
    places = {"a": (0.0, 0.0), 7: (30.0, 0.0), "c": (0.0, 400.0)}
    model = LogDistance(shadowing=3.0)
    found = model.powers(places, seed=2)
    alone = {(a, b): model.powers_between([(a, b)], places, seed=2)[a, b] for a in places for b in places if a != b}
    assert found == alone
    assert dict(found) == alone == dict(found.items())
    assert list(found) == list(alone)
    assert len(found) == 6
    assert list(found.values()) == list(alone.values())
    assert all(type(power) is float for power in found.values())
    for missing in [("a", "a"), ("a", "z"), "a", ("a",), ("a", 7, "c"), 3, (["a"], 7)]:
        assert missing not in found
    with pytest.raises(ValueError, match="read-only"):
        found.dbm[0] = 0.0  # type: ignore[attr-defined]


def test_a_network_is_the_same_with_powers_as_a_dict() -> None:
    places = {number: (40.0 * number, 0.0) for number in range(5)}
    powers = LogDistance(shadowing=3.0).powers(places)
    one, other = (Radio(phy=Phy(), powers=given) for given in (powers, dict(powers)))
    assert one.powers is powers
    assert one.powers == other.powers
    with pytest.raises(BadInput, match=r"^powers\[\('a', 'b'\)\] = 300"):
        Radio(
            phy=Phy(),
            powers=LogDistance(reference_loss=-300.0).powers({"a": (0.0,), "b": (0.5,)}),
        )
    with pytest.raises(BadInput, match=r"^powers: pair = \(4, 4\): must be two nodes of the network's"):
        Network(nx.path_graph(4), Link(rate=250e3), medium=one)
