"""Recorded links: the signal strength or reception rate of each link over time, from a csv file."""

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.radio.phy import Phy
from netsim.util import check, tables

__all__ = ["LinkSeries"]

Series = Mapping[tuple[Hashable, Hashable], tuple[list[float], list[float]]]

# Limits of reception rates: a measured rate of 0 or 1 over finitely many frames does not mean a probability of 0 or 1.
_LEAST, _MOST = 1e-4, 1.0 - 1e-4


@dataclass(frozen=True)
class LinkSeries:
    """The received power of links over time: ``Radio(powers=series.powers, phy=Phy(fading=series))``.

    Before a link's first sample, its power is the first sample; after its last sample, its power is the last sample. A
    frame keeps the power that it has at its start.

    Parameters
    ----------
    series : mapping
        {(sender, receiver): (times, powers)}, times in seconds, increasing, and powers in dBm.
    interpolated : bool
        Whether powers are interpolated linearly, in dB, between samples. By default each sample lasts until the next.

    Raises
    ------
    BadInput
        If a link has no sample, or its times do not increase.
    """

    series: Series
    interpolated: bool = False

    def __post_init__(self) -> None:
        check.flag("interpolated", self.interpolated)
        check.instance("series", self.series, Mapping, "a mapping {(sender, receiver): (times, powers)}")
        kept: dict[Any, tuple[list[float], list[float]]] = {}
        for ends, each in self.series.items():
            times, powers = (
                check.finite_array(f"series[{ends}]", part) for part in check.pair("series", each, "arrays")
            )
            if times.shape != powers.shape or times.ndim != 1 or not len(times) or (np.diff(times) <= 0).any():
                raise check.refuse(f"series[{ends}]", each, "times, which increase, and as many powers")
            kept[ends] = times.tolist(), powers.tolist()
        check.put(self, series=kept)

    @classmethod
    def from_csv(
        cls, path: str | Path, *, interpolated: bool = False, phy: Phy | None = None, bits: int = 400
    ) -> "LinkSeries":
        """Read the series from a csv file with the columns time (s), src, dst, and rssi_dbm or prr.

        The rows of a link must be in order of time. A name that is a whole number is read as an int. A ``prr`` is the
        share of frames received, with ``bits`` bits per frame on the air. It is converted to the power at which the
        ``phy`` receives this share without interference.

        Raises
        ------
        BadInput
            If the file is missing, or a row is not a valid sample; the error then names the row's line.
        """
        phy, bits = Phy() if phy is None else phy, check.integer("bits", bits, low=1)
        found: dict[Any, tuple[list[float], list[float]]] = {}
        known: dict[float, float] = {}
        for where, row in tables.rows(path, ("time", "src", "dst"), ("rssi_dbm", "prr")):
            if ("rssi_dbm" in row) == ("prr" in row):
                raise BadInput(f"{where}: must have a column rssi_dbm, or prr, not both")
            times, powers = found.setdefault((tables.name(where, row, "src"), tables.name(where, row, "dst")), ([], []))
            time = tables.number(where, row, "time")
            if times and time <= times[-1]:
                raise BadInput(f"{where}: time = {time:g}: must be above {times[-1]:g}, the link's time before")
            times.append(time)
            if "prr" in row:
                rate = check.probability(f"{where}: prr", tables.number(where, row, "prr"))
                if rate not in known:
                    known[rate] = phy.receives_from(min(max(rate, _LEAST), _MOST), bits)
                powers.append(known[rate])
            else:
                powers.append(tables.number(where, row, "rssi_dbm"))
        return cls(found, interpolated)

    @cached_property
    def powers(self) -> dict[tuple[Any, Any], float]:
        """The greatest power (dBm) of each link, {(sender, receiver): dBm}."""
        return {ends: max(powers) for ends, (_, powers) in self.series.items()}

    @cached_property
    def graph(self) -> "nx.DiGraph[Any]":
        """A graph of the links that have a series; acknowledgements need a series in both directions."""
        return nx.DiGraph(list(self.series))

    def power(self, sender: Hashable, receiver: Hashable, time: float) -> float:
        """Return the received power (dBm) of a signal that begins on a link at ``time`` (s)."""
        times, powers = self.series[sender, receiver]
        after = bisect_right(times, time)
        if after == 0 or after == len(times) or not self.interpolated:
            return powers[max(after - 1, 0)]
        share = (time - times[after - 1]) / (times[after] - times[after - 1])
        return powers[after - 1] + share * (powers[after] - powers[after - 1])

    def gain_at(self, sender: Hashable, receiver: Hashable, time: float) -> float:
        """Return the difference (dB) of a link's power from its value in `powers`; 0 for a link without a series.

        `Phy.fading` requires this method.
        """
        ends = sender, receiver
        return self.power(sender, receiver, time) - self.powers[ends] if ends in self.series else 0.0
