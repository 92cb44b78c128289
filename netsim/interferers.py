"""Interference sources beside motes: Wi-Fi, jammers, networks on other channels.

An interferer has a position, and emits carriers (`netsim.radio.handle.RadioHandle.carrier`). Motes sense these
carriers, which disturb reception but are not frames. Only a `ReactiveJammer` senses the motes' signals.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netsim.agent import Agent
from netsim.errors import BadInput
from netsim.radio.phy import Phy, doubt_power
from netsim.util import check, tables

__all__ = ["BusyPeriods", "Interference", "Interferer", "Jammer", "NearbyNetwork", "ReactiveJammer", "WiFi"]

_TU = 1024e-6
# Attenuation (dB) of another network's signals, indexed by its distance in channels of 5 MHz; the last value also holds
# for larger distances. Source: Atmel, AT86RF231 data sheet 8111C, table 12-7 (32 dB at -5 MHz, 35 dB at +5 MHz).
_REJECTED = (0.0, 32.0, 48.0, 54.0)


@dataclass(frozen=True, kw_only=True)
class Interferer:
    """Base class of interference sources.

    Only the share of its power inside the motes' band (of width ``Phy.bandwidth``) interferes: of a signal 20 MHz wide,
    a band of 2 MHz receives 10 dB less.

    Parameters
    ----------
    position : (x, y) or (x, y, z)
        Its position in metres.
    power_dbm : float
        Its transmit power over its whole band.
    bandwidth : float
        The width (Hz) of its band; if it is wider than the motes' band, it contains the motes' band.
    at, until : float
        The times at which it begins and ends, in seconds.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """

    position: Sequence[float]
    power_dbm: float = 0.0
    bandwidth: float = 2e6
    at: float = 0.0
    until: float = math.inf

    def __post_init__(self) -> None:
        check.fields(self, check.position, "position")
        check.fields(self, check.finite, "power_dbm")
        doubt_power("power_dbm", self.power_dbm)
        check.fields(self, check.finite, "bandwidth", above=0)
        check.fields(self, check.finite, "at", low=0)
        check.fields(self, check.number, "until", above=self.at)

    def in_band_dbm(self, phy: Phy) -> float:
        """Return the transmit power (dBm) that falls into the band of motes with this phy."""
        return self.power_dbm - max(0.0, 10.0 * math.log10(self.bandwidth / phy.bandwidth))

    async def act(self, agent: "Interference") -> None:
        """Emit endlessly; the agent's `run` cancels this coroutine at the end time."""
        raise NotImplementedError


class Interference(Agent):
    """The background agent that runs an interferer."""

    background = True

    def __init__(self, source: Interferer) -> None:
        self.source = source

    async def run(self) -> None:
        """Run the interferer's `act` from its begin to its end."""
        await asyncio.sleep(self.source.at)
        try:
            async with asyncio.timeout(
                None if self.source.until == math.inf else self.source.until - self.now
            ) as limit:
                await self.source.act(self)
        except TimeoutError:
            # The interferer's own code raised the TimeoutError, so it is a real error.
            if not limit.expired():
                raise

    async def emit(self, seconds: float) -> None:
        """Emit a carrier for some seconds, but not beyond the interferer's end."""
        if (left := self.source.until - self.now) > 0.0:
            await self.radio.carrier(min(seconds, left))


@dataclass(frozen=True, kw_only=True)
class Jammer(Interferer):
    """A jammer that emits for a share of each period, or all the time.

    Parameters
    ----------
    duty : float
        The share of time for which it emits, above 0, up to 1.
    period : float
        Seconds between the starts of bursts. For moving motes, the positions at the start of a burst determine its
        received power.
    """

    duty: float = 1.0
    period: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.share, "duty")
        check.fields(self, check.finite, "period", above=0)

    async def act(self, agent: Interference) -> None:
        """Emit at the beginning of each period."""
        while True:
            await agent.emit(self.duty * self.period)
            await asyncio.sleep((1.0 - self.duty) * self.period)


@dataclass(frozen=True, kw_only=True)
class ReactiveJammer(Interferer):
    """A jammer that emits a burst whenever it senses a carrier.

    Parameters
    ----------
    burst : float
        Seconds for which it emits.
    poll : float
        Seconds between carrier-sense measurements; a longer value delays the reaction.
    """

    burst: float = 5e-3
    poll: float = 0.5e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.finite, "burst", "poll", above=0)

    async def act(self, agent: Interference) -> None:
        """Listen, and emit."""
        while True:
            await asyncio.sleep(self.poll)
            if agent.radio.busy():
                await agent.emit(self.burst)
                # Its radio first switches from sending to receiving; until then it would sense a busy channel.
                await asyncio.sleep(self.poll)


@dataclass(frozen=True, kw_only=True)
class NearbyNetwork(Interferer):
    """Another network of motes on a nearby channel, modelled as one source that sends frames as a Poisson process.

    Parameters
    ----------
    frames_per_s : float
        Mean number of frames that begin per second in which no frame is being sent.
    frame : float
        Duration of a frame in seconds; by default that of the longest IEEE 802.15.4 frame, 133 bytes at 250 kbit/s.
    channels_off : int
        The distance of its channel in channels of 5 MHz. Its power is attenuated by 0, 32, 48 and, from distance 3, 54
        dB, as in an AT86RF231.
    """

    frames_per_s: float = 10.0
    frame: float = 133 * 32e-6
    channels_off: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fields(self, check.finite, "frames_per_s", "frame", above=0)
        check.fields(self, check.integer, "channels_off", low=0)

    def in_band_dbm(self, phy: Phy) -> float:
        """Return its power (dBm) after attenuation by the motes' receive filters."""
        return super().in_band_dbm(phy) - _REJECTED[min(self.channels_off, len(_REJECTED) - 1)]

    async def act(self, agent: Interference) -> None:
        """Emit frame after frame."""
        while True:
            await asyncio.sleep(float(agent.rng.exponential(1.0 / self.frames_per_s)))
            await agent.emit(self.frame)


# {traffic: (least and largest packet in bytes, p, sigma in ms, kappa)}.
_TRAFFIC = {
    "voip": (128, 384, 0.1, 11.5, -0.45),
    "video": (500, 1536, 0.1, 12.0, -0.45),
    "download": (1300, 1536, 0.988, 0.04, 0.5),
    "50 %": (128, 1536, 0.55, 0.45, 0.0),
    "25 %": (128, 1536, 0.45, 1.4, 0.0),
    "10 %": (128, 1536, 0.35, 4.0, 0.0),
    "5 %": (128, 1536, 0.2, 6.5, 0.0),
}
# Constants of 802.11g: Mbit/s, the header's bits, SIFS, the fixed part of an ACK and its bits, the mean contention
# window (us), and the longest silence (s) of a network with traffic.
_RATE, _HEADER, _SIFS, _ACK, _ACK_BITS, _WINDOW, _LONGEST = 54.0, 160, 16.0, 21.5, 135, 67.5, 200e-3
_DIFS = 2 * _SIFS + 2 * 9


@dataclass(frozen=True, kw_only=True)
class WiFi(Interferer):
    """A Wi-Fi access point: its beacons, or its network's traffic, on a channel overlapping the motes'.

    "beacons": a beacon of ``beacon`` s every 100 TU of 1.024 ms, the usual interval of IEEE 802.11. The other values
    model a network of 802.11g at 54 Mbit/s. Packets have a uniformly distributed size, and each is acknowledged. The
    next packet follows immediately with probability p, otherwise after a silence drawn from a generalised Pareto
    distribution. "voip", "video" and "download" have the parameters of such traffic; "5 %" to "50 %" those of a device
    that uses this share of the capacity. Source of model and parameters: BabbleSim, ext_2G4_device_WLAN_actmod, commit
    9cb6d8e7, src/WLAN_actmod_main.c and src/WLAN_actmod_argparse.c.

    Parameters
    ----------
    traffic : str
        "beacons", "voip", "video", "download", "5 %", "10 %", "25 %" or "50 %".
    beacon : float
        Duration of a beacon in seconds; by default that of 200 bytes at 1 Mbit/s after a long preamble of 192 us.
    """

    power_dbm: float = 20.0
    bandwidth: float = 20e6
    traffic: str = "beacons"
    beacon: float = 192e-6 + 8 * 200e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("traffic", self.traffic, ("beacons", *_TRAFFIC))
        check.fields(self, check.finite, "beacon", above=0)
        if self.beacon >= 100 * _TU:
            raise check.refuse("beacon", self.beacon, f"below {100 * _TU:g} s, the interval of beacons")

    async def act(self, agent: Interference) -> None:
        """Send beacons, the first at a random time, or packets."""
        rng = agent.rng
        if self.traffic == "beacons":
            await asyncio.sleep(100 * _TU * rng.random())
            while True:
                await agent.emit(self.beacon)
                await asyncio.sleep(100 * _TU - self.beacon)
        least, most, again, scale, shape = _TRAFFIC[self.traffic]
        while True:
            silence = 1e-6 * (_DIFS + 2 * _WINDOW * rng.random())
            if rng.random() >= again:
                silence += 1e-3 * scale * _pareto(shape, rng.random())
            await asyncio.sleep(min(silence, _LONGEST))
            bits = 8 * int(rng.integers(least, most + 1)) + _HEADER + _ACK_BITS
            await agent.emit(1e-6 * (bits / _RATE + _SIFS + _ACK))


def _pareto(shape: float, uniform: float) -> float:
    """Return the quantile of the generalised Pareto distribution of scale 1 at 1 - ``uniform``."""
    left = 1.0 - uniform
    return -math.log(left) if shape == 0.0 else (left**-shape - 1.0) / shape


@dataclass(frozen=True, kw_only=True)
class BusyPeriods(Interferer):
    """Recorded interference: a csv file of busy periods with the columns begin and end, in seconds.

    Parameters
    ----------
    file : str or Path
        The file. Its periods must be in order of time and must not overlap.
    period : float, optional
        Interval in seconds, counted from ``at``, after which the busy periods repeat. None: they are played once.

    Raises
    ------
    BadInput
        If the file is missing, or a row is not a valid period; the error names its line.
    """

    file: str | Path
    period: float | None = None
    periods: tuple[tuple[float, float], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        found, last = list[tuple[float, float]](), 0.0
        for where, row in tables.rows(self.file, ("begin", "end")):
            begin, end = (tables.number(where, row, column) for column in ("begin", "end"))
            if not last <= begin < end:
                raise BadInput(f"{where}: begin = {begin:g}, end = {end:g}: must be in order, and after {last:g} s")
            found.append((begin, end))
            last = end
        check.put(self, periods=tuple(found))
        check.fields(self, check.finite, "period", low=last, above=0, optional=True)

    async def act(self, agent: Interference) -> None:
        """Emit during the recorded busy periods."""
        start = agent.now
        while True:
            for begin, end in self.periods:
                await asyncio.sleep(max(0.0, start + begin - agent.now))
                await agent.emit(start + end - agent.now)
            if self.period is None:
                return
            start += self.period
            await asyncio.sleep(max(0.0, start - agent.now))


KINDS: Mapping[str, type[Any]] = {
    "wifi": WiFi,
    "jammer": Jammer,
    "reactive-jammer": ReactiveJammer,
    "network": NearbyNetwork,
    "busy-periods": BusyPeriods,
}
"""The interferer classes by their names in site files."""
