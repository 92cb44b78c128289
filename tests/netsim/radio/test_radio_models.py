"""Path loss against the normal distribution; presets against the numbers of their sources."""

import dataclasses
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.stats import kstest, norm

from netsim import BadInput, Energy, Network, presets, topology
from netsim.radio import LogDistance, LoRaAirtime, within
from netsim.testing import Listener, Talker, sized

PAIR = {"a": (0.0, 0.0), "b": (30.0, 40.0)}


def test_reception_is_that_of_the_normal_distribution() -> None:
    """The probability is Φ((P − PL(d) − θ)/σ): sending at P, path loss 90.97 dB at 50 m, sensitivity θ, fading σ."""
    model = LogDistance(exponent=3, reference_loss=40, fading=5, transmit_dbm=0, sensitivity=-95)
    expected = norm.cdf((0 - (40 + 30 * math.log10(50)) + 95) / 5)
    assert model.reception(PAIR) == {("a", "b"): pytest.approx(expected), ("b", "a"): pytest.approx(expected)}


def test_a_link_delivers_as_often() -> None:
    model = LogDistance(exponent=3.2, reference_loss=40, fading=5)
    preset = presets.ieee802154(acks=False)
    graph, links = model.network(PAIR, link=preset.link)
    run = Network(graph, preset.link, links=links, medium=preset.medium).run(
        {"a": Talker([(0.1 * k, k) for k in range(3000)]), "b": Listener()}
    )
    expected = model.reception(PAIR)["a", "b"]
    assert len(run.agents["b"].heard) / 3000 == pytest.approx(expected, abs=0.04)
    assert 0.5 < expected < 0.95


def test_shadowing_is_normal_and_the_links_own() -> None:
    """Without fading, a link receives all frames or none; Φ((P − PL(d) − θ)/σ) is the share of links that receive."""
    ring = {i: (50 * math.cos(i), 50 * math.sin(i)) for i in range(1000)} | {"hub": (0.0, 0.0)}
    model = LogDistance(reference_loss=40, shadowing=6.0, symmetric=False, fading=0.0)
    drawn = [model.powers({"hub": ring["hub"], i: ring[i]}, seed=3)["hub", i] for i in range(1000)]
    mean = -(40 + 30 * math.log10(50))
    assert kstest((np.array(drawn) - mean) / 6.0, "norm").pvalue > 0.01
    received = [float(power >= model.sensitivity) for power in drawn]
    assert np.mean(received) == pytest.approx(norm.cdf((mean + 95) / 6), abs=0.06)
    # Adding a node changes no existing link; another seed does.
    assert model.powers(PAIR, seed=1).items() <= model.powers(PAIR | {"c": (1.0, 1.0)}, seed=1).items()
    assert model.powers(PAIR, seed=1) != model.powers(PAIR, seed=2)


def test_shadowing_may_be_symmetric() -> None:
    places = {i: (float(i), 3.0 * i) for i in range(6)}
    for symmetric in (True, False):
        powers = LogDistance(shadowing=6.0, symmetric=symmetric).powers(places, seed=1)
        assert all((powers[a, b] == powers[b, a]) == symmetric for a, b in powers)


def test_positions_may_be_those_of_a_graph() -> None:
    graph = topology.grid(2, 3)
    assert within(graph, 1.0).edges == graph.edges
    assert within(graph, 1.5).number_of_edges() == 11
    heard = LogDistance(fading=0.0).audible(graph, -41.0)
    assert heard.to_undirected().edges == graph.edges
    with pytest.raises(BadInput, match=r"positions\['b'\] = \(0.0, 0.0, 1.0\): must be 2 numbers, as the others are"):
        LogDistance().network({"a": (0, 0), "b": (0, 0, 1)})
    with pytest.raises(BadInput, match="must be a graph whose nodes have pos; node 0 has none"):
        within(topology.ring(4), 1.0)


@pytest.mark.parametrize("both", [False, True])
def test_positions_too_far_apart_are_named_as_such(both: bool) -> None:
    """The message names the positions, which the user gave, instead of a table, and states the missing range."""
    with pytest.raises(BadInput) as caught:
        LogDistance(fading=4.0).network({"a": (0, 0), "b": (500, 0)}, both=both)
    way = " each way" if both else ""
    assert str(caught.value) == (
        "positions: must be nearer to one another, or transmit_dbm larger; the best pair receives "
        f"3e-11{way} (least = 0.01), the strongest signal is -121.2 dBm (sensitivity = -95)"
    )


@pytest.mark.parametrize(
    "values", [{"exponent": 0.0}, {"exponent": 101.0}, {"shadowing": -1.0}, {"fading": math.nan}, {"symmetric": 2}]
)
def test_bad_path_losses_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(values))):
        LogDistance(**values)


# --- presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sf", "milliseconds"), [(7, 61.696), (8, 113.152), (10, 370.688), (12, 1482.752)])
def test_loras_time_on_the_air(sf: int, milliseconds: float) -> None:
    """Common calculators give this airtime for 23 bytes at 125 kHz, coding rate 4/5, with 8 preamble symbols."""
    assert LoRaAirtime(spreading_factor=sf).seconds(8 * 23) * 1e3 == pytest.approx(milliseconds)


def test_lora_keeps_to_one_percent() -> None:
    preset = presets.lora(9)
    network = Network(topology.path(2), preset.link, medium=preset.medium)
    run = network.run({0: Talker([(0.0, sized(40))] * 5), 1: Listener()}, trace=True, until=1e4)
    air = run.on_air
    length = air["end_s"][0] - air["start_s"][0]
    assert air["start_s"].diff().dropna().tolist() == pytest.approx([100 * length] * 4)
    budget = presets.lora_budget(9)
    assert budget.bits == pytest.approx(0.01 * 128 * 8 / LoRaAirtime(spreading_factor=9).seconds(128 * 8))


def test_a_frame_of_802154() -> None:
    """A full PSDU of 127 bytes after 6 bytes of preamble and length lasts 4.256 ms, at 17.4 mA and 3 V."""
    preset = presets.ieee802154()
    network = Network(topology.path(2), preset.link, medium=preset.medium)
    run = network.run({0: Talker([(0.0, sized(116))], to=1), 1: Listener()}, trace=True, until=1.0)
    data, ack = run.on_air.to_dict("records")
    assert data["end_s"] - data["start_s"] == pytest.approx(133 * 8 / 250e3)
    assert ack["start_s"] - data["end_s"] == pytest.approx(192e-6)
    assert ack["end_s"] - ack["start_s"] == pytest.approx(352e-6)
    row = run.energy.iloc[0]
    assert row["used_j"] == pytest.approx(0.0174 * 3 * row["transmit_s"] + 0.0188 * 3 * (1 - row["transmit_s"]))


def test_every_preset_carries_a_frame() -> None:
    all_of = [
        *(presets.lora(sf) for sf in range(7, 13)),
        *(presets.ieee802154(power) for power in (0, -25)),
        presets.bluetooth_low_energy(),
        presets.wifi(),
        presets.ethernet(),
        presets.satellite("geo"),
        presets.satellite("leo"),
    ]
    for preset in all_of:
        network = Network(nx.path_graph(2), preset.link, medium=preset.medium)
        run = network.run({0: Talker([(0.0, "reading")], to=1), 1: Listener()})
        assert [payload for _, _, payload in run.agents[1].heard] == ["reading"]
        assert preset.radio is None or preset.radio.energy is preset.energy


def test_a_preset_is_changed_field_by_field() -> None:
    preset = presets.ieee802154(-10)
    assert preset.energy is not None
    assert preset.radio is not None
    battery = dataclasses.replace(preset.energy, battery=2.0)
    radio = dataclasses.replace(preset.radio, energy=battery, max_frame_retries=1)
    assert isinstance(radio.energy, Energy)
    assert (radio.energy.transmit, radio.energy.battery) == (pytest.approx(11.2e-3 * 3), 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: presets.ieee802154(5), "power_dbm = 5: must be one of 0, -1, -3"),
        (lambda: presets.lora(6), "spreading_factor = 6: must be a whole number from 7 to 12"),
        (lambda: presets.satellite("meo"), "orbit = 'meo': must be one of geo, leo"),  # type: ignore[arg-type]
    ],
)
def test_bad_presets_are_refused(make: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value).startswith(message)
