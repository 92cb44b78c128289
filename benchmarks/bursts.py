"""Compare the burstiness of measured links with `netsim.radio`'s models at the same mean reception.

The benchmark has three parts, each of which runs if its data are given:

* ``--rutgers FOLDER``: single receptions, the files sdec* of CRAWDAD rutgers/noise (doi 10.15783/C7B59W)
* NETSIM_DATA with iotlab_grenoble_k7: 19 bursts of 100 frames on each link and channel, with the number of received
  frames and their signal strength
* ``--noise FILE``: noise in dBm, one sample per millisecond and line, such as meyer-heavy.txt of TOSSIM

The models run on a star, whose hub broadcasts. It has a leaf for each measured link, with the power at which the
model's mean reception equals the link's.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import ncx2

from benchmarks.report import columns
from netsim import Link, Network, Radio, datasets, topology
from netsim.errors import BadInput
from netsim.radio import BlockFading, PatternNoise, Phy, beta_factor
from netsim.testing import Listener, Talker

Received = NDArray[np.bool_]

# The least and greatest reception of a link that is compared: others lose very few or almost all frames.
_LEAST, _MOST = 0.1, 0.9
# Bits of a frame besides its payload: preamble, length, MAC header, FCS.
_HEADER = 8 * 17
_GAINS = 400


# --- the models -------------------------------------------------------------------------------------------------------


def power_for(reception: float, phy: Phy, bits: int) -> float:
    """Return the mean power (dBm) at which this share of frames is received, with the noise floor of ``phy``."""
    gains = np.zeros(1)
    if isinstance(phy.fading, BlockFading):
        k = phy.fading.k_factor
        gains = 10 * np.log10(ncx2.ppf((np.arange(_GAINS) + 0.5) / _GAINS, 2, 2 * k) / (2 * (1 + k)))

    def excess(snr: float) -> float:
        return float(np.mean([phy.success(snr + gain, bits) for gain in gains])) - reception

    return float(brentq(excess, -30.0, 40.0)) + phy.noise_dbm


def play(receptions: Sequence[float], phy: Phy, times: Sequence[float], seed: int) -> list[Received]:
    """Return, for each of many links, which of the frames sent at ``times`` (s) are received."""
    # The payload has as many bytes as an encoded float, whatever the number.
    graph, link = topology.star(len(receptions) + 1), Link(rate=250e3, header_bits=_HEADER)
    plan = [(time, float(number)) for number, time in enumerate(times)]
    pair = Network(topology.path(2), link).run({0: Talker(plan[:1]), 1: Listener()})
    bits = int(pair.ledger.table()["wire_bits"].max())
    leaves = range(1, len(receptions) + 1)
    power = {reception: power_for(reception, phy, bits) for reception in set(receptions)}
    powers = {(0, leaf): power[reception] for leaf, reception in zip(leaves, receptions, strict=True)}
    powers |= {(leaf, 0): -200.0 for leaf in leaves}
    listeners = {leaf: Listener() for leaf in leaves}
    radio = Radio(access="aloha", phy=phy, powers=powers)
    Network(graph, link, medium=radio, seed=seed).run({0: Talker(plan), **listeners})
    found = []
    for listener in listeners.values():
        received = np.zeros(len(times), dtype=bool)
        received[[int(payload) for _, _, payload in listener.heard]] = True
        found.append(received)
    return found


# --- single receptions ------------------------------------------------------------------------------------------------


def single_receptions(folder: Path) -> list[Received]:
    """Return the receptions of each link of the Rutgers trace: 300 frames, numbered in the files."""
    found = []
    for file in sorted(folder.rglob("sdec*")):
        received = np.zeros(300, dtype=bool)
        numbers = [int(line.split()[0]) for line in file.read_text().splitlines() if line.strip()]
        received[[each for each in numbers if each < len(received)]] = True
        found.append(received)
    if not found:
        raise BadInput(f"rutgers = {str(folder)!r}: must be a folder that holds files sdec*")
    return found


def runs_of_losses(received: Received) -> NDArray[np.int64]:
    """Return the lengths of the runs of lost frames."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], received, [True]])))
    return edges[1::2] - edges[::2]


def burstiness(links: Sequence[Received]) -> dict[str, float]:
    """Return quartiles of the burstiness β over the links, and the shares of their runs of losses by length."""
    low, median, high = np.nanquantile([beta_factor(each) for each in links], (0.25, 0.5, 0.75))
    lengths = np.concatenate([runs_of_losses(each) for each in links])
    runs = {f"runs of {a}{f' to {b}' if b > a else ''}": np.mean((lengths >= a) & (lengths <= b)) for a, b in _RUNS}
    return {"β, lower quartile": low, "β, median": median, "β, upper quartile": high, **runs, "longest": lengths.max()}


_RUNS = ((1, 1), (2, 2), (3, 4), (5, 9))


def rutgers(folder: Path, seed: int) -> None:
    """Print the burstiness of the Rutgers trace and of models."""
    measured = [each for each in single_receptions(folder) if _LEAST <= each.mean() <= _MOST]
    receptions = [float(each.mean()) for each in measured]
    rows = {"measured": burstiness(measured)}
    # The trace has no times, so coherence is counted in intervals between frames.
    models: dict[str, Any] = {"no fading": None}
    models |= {f"Rayleigh, {n} frame{'s' * (n > 1)}": BlockFading(coherence=0.1 * n) for n in (1, 3, 10)}
    models["Rician, K = 200, 10 frames"] = BlockFading(coherence=1.0, k_factor=200.0)
    for name, fading in models.items():
        rows[name] = burstiness(play(receptions, Phy(fading=fading), [0.1 * k for k in range(300)], seed))
    print(f"Rutgers: {len(measured)} links that received {_LEAST:.0%} to {_MOST:.0%} of 300 frames; seed {seed}")
    print(columns(rows))


# --- bursts of which the number received is known ---------------------------------------------------------------------


def correlation_within(shares: NDArray[np.float64], frames: int) -> float:
    """Return ρ, the correlation of two receptions of one burst, from the share received in each burst.

    The variance of a share is p(1 − p)·(1/n + (1 − 1/n)·ρ). NaN if all frames were received, or none.
    """
    mean = shares.mean()
    if not 0 < mean < 1:
        return np.nan
    return float((shares.var(ddof=1) / (mean * (1 - mean)) - 1 / frames) / (1 - 1 / frames))


def bursts_received(table: pd.DataFrame) -> list[NDArray[np.float64]]:
    """Return the reception rates of each burst, for each link and channel of the Grenoble table; 0 without rows."""
    times = pd.to_datetime(table["datetime"])
    table = table.assign(since=(times - times.min()).dt.total_seconds()).sort_values("since", kind="stable")
    groups = table.groupby(["src", "channel"])["since"]
    # A sender's bursts on a channel are 2.5 hours apart; the times of their receivers differ by seconds.
    table["burst"] = groups.diff().gt(600).groupby([table["src"], table["channel"]]).cumsum()
    table["bursts"] = table.groupby(["src", "channel"])["burst"].transform("max") + 1
    found = []
    for _, part in table.groupby(["src", "dst", "channel"]):
        shares = np.zeros(int(part["bursts"].iloc[0]))
        shares[part["burst"].to_numpy()] = part["pdr"]
        found.append(shares)
    return found


def spread(links: Sequence[NDArray[np.float64]], frames: int) -> dict[str, float]:
    """Return quartiles of ρ over links, and shares of the bursts with high and low reception."""
    low, median, high = np.nanquantile([correlation_within(each, frames) for each in links], (0.25, 0.5, 0.75))
    every = np.concatenate(links)
    shares = {"bursts < 0.1": (every < 0.1).mean(), "bursts > 0.9": (every > 0.9).mean()}
    return {"ρ, lower quartile": low, "ρ, median": median, "ρ, upper quartile": high, **shares}


def grenoble(file: Path, most: int, seed: int) -> None:
    """Print the correlation of receptions within a burst for the Grenoble trace and for models."""
    measured = [each for each in bursts_received(pd.read_csv(file)) if _LEAST <= each.mean() <= _MOST]
    chosen = measured[:: max(len(measured) // most, 1)][:most]
    receptions = [float(each.mean()) for each in chosen]
    bursts, frames = len(chosen[0]), 100
    # Bursts of a second, 2.5 hours apart.
    times = [9000.0 * burst + 0.01 * frame for burst in range(bursts) for frame in range(frames)]
    each = pd.read_csv(file).groupby(["src", "dst", "channel"]).agg({"pdr": "mean", "mean_rssi": "std"})
    deviation = each[each["pdr"].between(_LEAST, _MOST)]["mean_rssi"].median()
    rows = {f"measured, all {len(measured)}": spread(measured, frames), "measured, these": spread(chosen, frames)}
    models: dict[str, Any] = {"no fading": None, "Rayleigh, whole bursts": BlockFading(coherence=100.0)}
    models |= {f"Rayleigh, 1/{n} of a burst": BlockFading(coherence=1 / n) for n in (10, 100)}
    models |= {f"Rician, K = {k}, whole bursts": BlockFading(coherence=100.0, k_factor=k) for k in (20, 200, 1000)}
    for name, fading in models.items():
        received = play(receptions, Phy(fading=fading), times, seed)
        rows[name] = spread([each.reshape(bursts, frames).mean(axis=1) for each in received], frames)
    print(
        f"Grenoble: {len(chosen)} links and channels, {_LEAST:.0%} to {_MOST:.0%} of {bursts} bursts of {frames} frames"
        f"; seed {seed}"
    )
    print(columns(rows))
    print(f"median over links of the standard deviation of a burst's mean RSSI: {deviation:.2f} dB")


def across_channels(file: Path) -> None:
    """Print the correlation of a link's mean RSSI between two channels by their distance, for good links."""
    table = pd.read_csv(file)
    table = table[table["pdr"] >= _MOST]
    groups = table.groupby(["src", "dst", "channel"])["mean_rssi"]
    table = table[groups.transform("count") >= 10]
    by_channel = table.groupby(["src", "dst", "channel"])["mean_rssi"].mean().unstack("channel").dropna()
    differs = by_channel.sub(by_channel.mean(axis=1), axis=0)
    # Deviations over time from a link's mean on a channel; channels are compared within the same 2.5 hours.
    changes = table["mean_rssi"] - table.groupby(["src", "dst", "channel"])["mean_rssi"].transform("mean")
    when = pd.to_datetime(table["datetime"]).dt.floor("150min")
    by_time = table.assign(change=changes, when=when).pivot_table("change", ["when", "src", "dst"], "channel")
    still, moving = (differs - differs.mean()).corr().to_numpy(), by_time.corr().to_numpy()
    rows = {
        f"{lag} apart": {"of means": np.diag(still, lag).mean(), "of changes": np.nanmean(np.diag(moving, lag))}
        for lag in (1, 2, 3, 4, 5, 8)
    }
    deviation = differs.std(axis=1).median()
    print(f"Correlation of RSSI between channels; {len(by_channel)} links that are good on all 16")
    print(columns(rows))
    print(f"median over links of the standard deviation of the mean RSSI over channels: {deviation:.1f} dB")


# --- noise ------------------------------------------------------------------------------------------------------------


def autocorrelation(values: NDArray[np.float64], lag: int) -> float:
    """Return the correlation of values that are ``lag`` samples apart."""
    return float(np.corrcoef(values[:-lag], values[lag:])[0, 1])


def noise(file: Path, seed: int) -> None:
    """Print moments of a noise trace and of fitted models, and a link's reception under each."""
    trace = np.loadtxt(file)
    rows = {"trace": _moments(trace)}
    models = {f"k = {k}": PatternNoise(trace, history=k) for k in (0, 1, 5, 20)}
    models["k = 20, restart 10 s"] = PatternNoise(trace, restart=10.0)
    for name, model in models.items():
        # Read the noise in the middle of each sample, so that rounding has no effect.
        rows[name] = _moments(np.array([model.noise_dbm(seed, 1, 1e-3 * (n + 0.5)) for n in range(len(trace))]))
    print(f"Noise: {len(trace)} samples of 1 ms; seed {seed}")
    print(columns(rows))


def _moments(values: NDArray[np.float64]) -> dict[str, float]:
    # A frame at −84 dBm survives if the noise is below −90 dBm.
    beta = beta_factor(values < -90.0, least=100)
    lags = {f"lag {lag}": autocorrelation(values, lag) for lag in (1, 5, 20, 100)}
    return {"mean dBm": values.mean(), "sd dB": values.std(), "< -90 dBm": (values < -90).mean(), **lags, "β": beta}


def main() -> None:
    """Run the parts for which data are given."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--rutgers", type=Path, help="a folder with the single receptions")
    command.add_argument("--noise", type=Path, help="a file of noise in dBm")
    command.add_argument("--links", type=int, default=200, help="how many of Grenoble's are modelled (default 200)")
    command.add_argument("--seed", type=int, default=0, help="default 0")
    chosen = command.parse_args()
    if chosen.rutgers is not None:
        rutgers(chosen.rutgers, chosen.seed)
    measured = datasets.find("iotlab_grenoble_k7")
    grenoble(measured, chosen.links, chosen.seed)
    across_channels(measured)
    if chosen.noise is not None:
        noise(chosen.noise, chosen.seed)


if __name__ == "__main__":
    main()
