"""A synthetic field of motes, computed from a path-loss model, for use where no measurements are available.

``python -m netsim.datasets.synthetic`` writes the two tables included in netsim. They are stored as files instead of
being drawn at each use, so that they are the same on every machine; a test recomputes them.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.datasets.registry import SHIPPED
from netsim.util.files import write_pieces
from netsim.util.typing import Array

if TYPE_CHECKING:
    import pandas as pd

SEED = 1
_COLUMNS, _ROWS, _MOTES = 9, 6, 53
_WIDTH, _HEIGHT = 40.0, 30.0  # The size of the field in metres.
_EXPONENT, _SHADOWING_DB = 3.5, 4.0
_LOSS_AT_1M_DB, _POWER_DBM, _NOISE_DBM = 47.0, -7.0, -85.0
_TRANSMITTER_DB, _RECEIVER_DB, _FADING_DB = 1.5, 1.5, 4.0
_BYTES = 40
_LEAST_UP, _MOST_UP = 0.5, 0.8


def field(seed: int = SEED) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Return the mean reception between motes, and the motes' positions.

    Motes stand on a jittered grid of 40 m × 30 m. Power falls with the 3.5th power of the distance, with log-normal
    shadowing: 4 dB for each pair, the same in both directions, and 1.5 dB for each transmitter and each receiver, which
    makes links asymmetric (Zuniga and Krishnamachari, "Analyzing the transitional region in low power wireless links",
    2004). The probability of receiving 40 bytes is that of O-QPSK in IEEE 802.15.4-2006, annex E, averaged over normal
    fading of 4 dB, times the share of time (from 0.5 to 0.8) for which the sender is up. With these parameters the
    numbers of motes and links, and the mean reception, resemble those of the Intel lab.

    Parameters
    ----------
    seed : int
        The seed of the positions and of all random deviations.

    Returns
    -------
    connectivity : DataFrame
        Columns sender, receiver and prob (rounded to three decimals), for pairs whose prob is at least 0.01.
    places : DataFrame
        Columns mote (from 1), x_m and y_m.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    grid = np.array([(column, row) for row in range(_ROWS) for column in range(_COLUMNS)], dtype=float)[:_MOTES]
    cell = np.array([_WIDTH / _COLUMNS, _HEIGHT / _ROWS])
    places = np.round((grid + 0.5 + rng.uniform(-0.35, 0.35, grid.shape)) * cell * 2.0) / 2.0
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    shadowing = np.triu(rng.normal(0.0, _SHADOWING_DB, apart.shape), 1)
    power = _POWER_DBM - _LOSS_AT_1M_DB - 10.0 * _EXPONENT * np.log10(np.maximum(apart, 1.0))
    power += shadowing + shadowing.T
    power += rng.normal(0.0, _TRANSMITTER_DB, _MOTES)[:, None] + rng.normal(0.0, _RECEIVER_DB, _MOTES)[None]
    # Gauss–Hermite points and weights, to average over normal fading.
    points, weights = np.polynomial.hermite_e.hermegauss(15)
    snr_db = power[..., None] - _NOISE_DBM + _FADING_DB * points
    prob = _reception(10.0 ** (snr_db / 10.0)) @ (weights / weights.sum())
    prob = np.round(prob * rng.uniform(_LEAST_UP, _MOST_UP, _MOTES)[:, None], 3)
    ends = [(i, j) for i in range(_MOTES) for j in range(_MOTES) if i != j and prob[i, j] >= 0.01]
    rows = [(i + 1, j + 1, float(prob[i, j])) for i, j in ends]
    motes = pd.DataFrame({"mote": np.arange(1, _MOTES + 1), "x_m": places[:, 0], "y_m": places[:, 1]})
    return pd.DataFrame(rows, columns=["sender", "receiver", "prob"]), motes


def _reception(snr: Array) -> Array:
    """Return the probability that a frame is received at a signal-to-noise ratio."""
    errors = sum((-1) ** k * math.comb(16, k) * np.exp(20.0 * snr * (1.0 / k - 1.0)) for k in range(2, 17))
    bit_error = np.clip(8.0 / 15.0 / 16.0 * errors, 0.0, 0.5)
    result: Array = (1.0 - bit_error) ** (8 * _BYTES)
    return result


def write(folder: Path = SHIPPED) -> None:
    """Write the two tables of `field` to csv files."""
    for name, table in zip(("synthetic_connectivity", "synthetic_mote_locs"), field(), strict=True):
        write_pieces(folder / f"{name}.csv", [table.to_csv(index=False, lineterminator="\n").encode()])


if __name__ == "__main__":
    write()
