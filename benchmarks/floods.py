"""Glossy on a field of motes: reliability, latency, radio-on time and time error, and the cost of the medium.

49 motes stand on a grid with a spacing of 45 m; each is displaced by up to 10 m in both directions. Path loss is
log-distance (exponent 3, shadowing 4 dB), links have Rician fading (K = 4, blocks of 50 ms), and clocks drift by up to
20 ppm. The mote in a corner floods 8 bytes once a second. Each seed gives another field. Entries are medians over the
seeds, with the least and the largest in brackets.

"radio on" includes a flood's guard time of 1 ms. "latency" is the time from the flood's start to the first reception,
and "time error" the error of the estimated start; both are means over motes and floods.
"""

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np

from benchmarks.protocols import over
from benchmarks.report import parser, show_table
from netsim import Deployment, presets
from netsim.agents import Glossy
from netsim.radio import BlockFading, LogDistance

WIDTH, SPACING, APART = 7, 45.0, 10.0
PRESET = presets.ieee802154(acks=False)
CHIP, CRYSTAL = 0.5e-6, 20.0


class Mote(Glossy):
    """Records, by its clock (s), the estimated start and the arrival of each flood: {number: (reference, now)}."""

    def __init__(self, is_initiator: bool, **settings: Any) -> None:
        super().__init__(is_initiator, **settings)
        self.begun: list[float] = []
        self.got: dict[int, tuple[float, float]] = {}

    def value(self, number: int) -> bytes:
        """Return the 8 bytes to flood."""
        self.begun.append(self.now)
        return number.to_bytes(8, "big")

    def take(self, number: int, value: bytes) -> None:
        """Record the flood's arrival."""
        assert self.reference is not None
        self.got[number] = self.reference, self.now


def field(seed: int, concurrent_s: float, drift_ppm: float) -> Deployment:
    """Return a field of motes."""
    rng = np.random.default_rng(seed)
    places = {
        i: np.array((i % WIDTH, i // WIDTH)) * SPACING + rng.uniform(-APART, APART, 2) for i in range(WIDTH * WIDTH)
    }
    assert PRESET.radio is not None
    assert PRESET.radio.phy is not None
    fading = BlockFading(coherence=0.05, k_factor=4.0)
    return Deployment(
        {i: tuple(place.tolist()) for i, place in places.items()},
        path_loss=LogDistance(shadowing=4.0),
        preset=PRESET,
        phy=replace(PRESET.radio.phy, concurrent_s=concurrent_s, fading=fading),
        drift_ppm=drift_ppm,
        seed=seed,
    )


def flood(
    seed: int, floods: int, concurrent_s: float = CHIP, drift_ppm: float = CRYSTAL, **settings: Any
) -> dict[str, float]:
    """Flood one field and return the measurements."""
    deployment = field(seed, concurrent_s, drift_ppm)
    motes = {node: Mote(node == 0, **settings) for node in deployment.positions}
    assert PRESET.radio is not None
    radio = replace(PRESET.radio, access="aloha", phy=None)
    run = deployment.network(radio=radio, seed=seed).run(motes, until=floods - 0.5)
    clocks = {skew.agent: skew.clock for skew in deployment.clocks}
    # The latency (s) of each flood, and the error of its estimated start (s), by the motes' clocks.
    late, wrong = [], []
    for node in list(motes)[1:]:
        for number, (reference, now) in motes[node].got.items():
            begun = clocks[node].local(clocks[0].true(motes[0].begun[number - 1]))
            late.append(now - begun)
            wrong.append(abs(reference - begun))
    energy = run.energy[run.energy["agent"] != 0]
    on = energy[["transmit_s", "receive_s", "listen_s"]].sum(axis=1) / len(motes[0].begun)
    hops = nx.single_source_shortest_path_length(deployment.graph, 0)
    return {
        "hops": float(max(hops.values())),
        "reliability %": 100 * len(late) / (len(motes) - 1) / len(motes[0].begun),
        "latency ms": 1e3 * float(np.mean(late)),
        "99 % ms": 1e3 * float(np.quantile(late, 0.99)),
        "radio on ms/flood": 1e3 * float(on.mean()),
        "time error us": 1e6 * float(np.mean(wrong)),
    }


def main() -> None:
    """Run the benchmark."""
    given = parser(__doc__, seeds=5, floods=100).parse_args()
    cases: dict[str, dict[str, Any]] = {f"N = {n}": {"n_tx": n} for n in (1, 2, 3, 5)}
    cases |= {
        "N = 3, frames of a slot disturb each other": {"concurrent_s": 0.0},
        "N = 3, jitter up to 0.4 us": {"jitter": 0.4e-6},
        "N = 3, jitter up to 4 us": {"jitter": 4e-6},
        "N = 3, clocks up to 1 % wrong": {"drift_ppm": 10_000.0, "guard": 25e-3},
    }
    rows = {
        name: over([flood(seed, given.floods, **case) for seed in range(1, given.seeds + 1)])
        for name, case in cases.items()
    }
    title = f"Glossy, {WIDTH * WIDTH} motes, {given.floods} floods on each of {given.seeds} fields"
    show_table(rows, given.json, title)


if __name__ == "__main__":
    main()
