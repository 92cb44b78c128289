"""The cases: positions, path loss and traffic, the same for all simulators.

``layouts.csv`` has positions in metres and rooms, ``cases.csv`` the traffic, ``figures.csv`` the results. Node 0 is the
sink; every other node sends to it. If a case has two networks, each has half of the nodes, of which the first is its
sink, and a separate PAN; with two channels, the networks use adjacent ones. All nodes send at 0 dBm. The path loss in
dB is L(1 m) + 10 n log10(d/m), with distances of at least a metre, plus ``wall_db`` for each wall; rooms with
consecutive numbers are separated by a wall.
"""

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

__all__ = ["FOLDER", "Case", "Figure", "Run", "cases", "store", "stored"]

FOLDER = Path(__file__).parent
# Bytes of a frame on the air besides its payload: preamble, delimiter and length (6), MAC header and FCS (11).
_AROUND = 17
_NUMBERS = ("exponent", "loss_at_1_m_db", "wall_db", "rate", "seconds")
_COLUMNS = ("who", "case", "quantity", "median", "least", "most", "seeds", "source")

Run = Mapping[str, float]
"""Counts of one run: requests, received, first (those received by node 0), duplicates, acknowledged, access_failed,
no_ack, delay_s."""


@dataclass(frozen=True)
class Figure:
    """The median, least and greatest value of a quantity over the seeds."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.least:.2f}–{self.most:.2f}]"


@dataclass(frozen=True)
class Case:
    """One row of ``cases.csv`` with its layout.

    Attributes
    ----------
    places : tuple of (float, float, int)
        For each node its x and y in m, and the number of its room.
    rate : float
        Messages per second and sender, as a Poisson process; 0: each message follows the last one's acknowledgement.
    seconds : float
        The time for which nodes send.
    """

    name: str
    places: tuple[tuple[float, float, int], ...]
    exponent: float
    loss_at_1_m_db: float
    wall_db: float
    payload_bytes: int
    acks: bool
    rate: float
    seconds: float
    networks: int
    channels: int

    def network(self, node: int) -> int:
        """Return a node's network."""
        return node * self.networks // len(self.places)

    def channel(self, node: int) -> int:
        """Return a node's channel, from 0 on."""
        return self.network(node) % self.channels

    def sink(self, node: int) -> int:
        """Return the sink of a node's network."""
        return self.network(node) * len(self.places) // self.networks

    @property
    def frame_bytes(self) -> int:
        """The bytes of a frame on the air."""
        return self.payload_bytes + _AROUND

    @property
    def metres(self) -> list[list[float]]:
        """The distances (m) between nodes, a row for each sender."""
        return [[math.dist(one[:2], other[:2]) for other in self.places] for one in self.places]

    @property
    def losses_db(self) -> list[list[float]]:
        """The path losses (dB) between nodes, a row for each sender."""
        return [
            [
                self.loss_at_1_m_db
                + 10.0 * self.exponent * math.log10(max(math.dist(one[:2], other[:2]), 1.0))
                + self.wall_db * abs(one[2] - other[2])
                for other in self.places
            ]
            for one in self.places
        ]

    def quantities(self, run: Run) -> dict[str, float]:
        """Return the quantities that are compared between simulators.

        For saturated senders these are the throughput without duplicates, with two networks also that of the first
        network, and the acknowledged throughput, in kbit/s of payload. For a Poisson process they are the delivered
        share in %, and the mean time from request to first reception in ms; with two nodes, the lost share in %.
        """
        if not self.rate:
            kilobits = 8e-3 * self.payload_bytes / self.seconds
            result = {"received_kbps": kilobits * run["received"]}
            if self.networks > 1:
                result["first_kbps"] = kilobits * run["first"]
            return result | ({"acknowledged_kbps": kilobits * run["acknowledged"]} if self.acks else {})
        share = 100.0 * run["received"] / run["requests"]
        if len(self.places) == 2:
            return {"lost_%": 100.0 - share}
        return {"received_%": share, "delay_ms": 1e3 * run["delay_s"] / run["received"]}

    def bound(self, quantity: str) -> float:
        """Return the allowed difference from ns-3's figure: in points for shares, else in % of ns-3's."""
        if quantity.endswith("%"):
            return 1.0
        return 5.0 if self.wall_db or self.exponent == 4 else 3.0

    def difference(self, quantity: str, ours: float, theirs: float) -> float:
        """Return the difference of ``ours``: in points for shares, else in % of ``theirs``."""
        return ours - theirs if quantity.endswith("%") else 100.0 * (ours / theirs - 1.0)

    def figures(self, runs: list[Run]) -> dict[str, Figure]:
        """Return the `Figure` of each quantity over the runs."""
        values = [self.quantities(run) for run in runs]
        columns = {name: [each[name] for each in values] for name in values[0]}
        return {name: Figure(median(column), min(column), max(column)) for name, column in columns.items()}


def cases() -> dict[str, Case]:
    """Return all cases by name."""
    layouts: dict[str, list[tuple[float, float, int]]] = {}
    for row in _rows("layouts.csv"):
        layouts.setdefault(row["layout"], []).append((float(row["x_m"]), float(row["y_m"]), int(row["room"])))
    return {
        row["case"]: Case(
            row["case"],
            tuple(layouts[row["layout"]]),
            payload_bytes=int(row["payload_bytes"]),
            acks=row["acks"] == "1",
            networks=int(row["networks"]),
            channels=int(row["channels"]),
            **{name: float(row[name]) for name in _NUMBERS},
        )
        for row in _rows("cases.csv")
    }


def stored() -> dict[str, dict[str, dict[str, Figure]]]:
    """Return the stored figures: {who: {case: {quantity: figure}}}."""
    result: dict[str, dict[str, dict[str, Figure]]] = {}
    for row in _rows("figures.csv"):
        figure = Figure(*(float(row[name]) for name in ("median", "least", "most")))
        result.setdefault(row["who"], {}).setdefault(row["case"], {})[row["quantity"]] = figure
    return result


def store(results: Mapping[str, Mapping[str, Mapping[str, Figure]]], sources: Mapping[str, str], seeds: int) -> None:
    """Store figures in the form of `stored`, replacing those of the same case and simulator."""
    rows = [row for row in _rows("figures.csv") if row["case"] not in results.get(row["who"], {})]
    for who, by_case in results.items():
        for case, figures in by_case.items():
            for quantity, each in figures.items():
                values = (f"{part:.4f}" for part in (each.median, each.least, each.most))
                line = [who, case, quantity, *values, str(seeds), sources[who]]
                rows.append(dict(zip(_COLUMNS, line, strict=True)))
    places = {name: place for place, name in enumerate(cases())}
    order = list(dict.fromkeys(row["who"] for row in rows))
    rows.sort(key=lambda row: (order.index(row["who"]), places[row["case"]]))
    with (FOLDER / "figures.csv").open("w", encoding="utf-8", newline="") as file:
        file.write("# Medians of seeds 1, 2, …, the least and the most: python -m benchmarks.ns3 --store --who WHO\n")
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _rows(name: str) -> Iterator[dict[str, str]]:
    """Yield a table's rows; lines that begin with # give its source."""
    with (FOLDER / name).open(encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))
