"""Links with recorded power or reception rate over time."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import Agent, BadInput, Network, datasets, presets
from netsim.radio import LinkSeries, Phy
from tests.parts import slow

PRESET = presets.ieee802154()
RSSI = "time,src,dst,rssi_dbm\n0,a,b,-60\n0,b,a,-70\n1,a,b,-80\n1,b,a,-70\n3,a,b,-90\n"


class Says(Agent):
    """Broadcasts a frame every ``gap`` seconds until ``until``, and records the frames that it receives."""

    def __init__(self, gap: float, until: float) -> None:
        self.gap, self.until, self.heard = gap, until, list[Any]()

    async def run(self) -> None:
        task = asyncio.create_task(self.listen())
        await asyncio.sleep(self.gap * self.rng.random())
        while self.now < self.until:
            await self.broadcast("d", bytes(27))
            await asyncio.sleep(self.gap)
        task.cancel()

    async def listen(self) -> None:
        async for frame in self.inbox:
            self.heard.append(frame)


def network(series: LinkSeries, **options: Any) -> Network:
    assert PRESET.radio is not None
    radio = replace(PRESET.radio, powers=series.powers, phy=Phy(fading=series), acks=False)
    return Network(series.graph, PRESET.link, medium=radio, connected=False, **options)


def read(tmp_path: Path, text: str, **more: Any) -> LinkSeries:
    (tmp_path / "links.csv").write_text(text)
    return LinkSeries.from_csv(tmp_path / "links.csv", **more)


@pytest.mark.parametrize(
    ("interpolated", "powers"),
    [(False, [-60, -60, -60, -80, -80, -90, -90]), (True, [-60, -60, -70, -80, -85, -90, -90])],
)
def test_a_series_is_stepped_or_interpolated(tmp_path: Path, interpolated: bool, powers: list[float]) -> None:
    series = read(tmp_path, RSSI, interpolated=interpolated)
    times = [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 9.0]
    assert [series.power("a", "b", time) for time in times] == pytest.approx(powers)
    assert series.powers == {("a", "b"): -60.0, ("b", "a"): -70.0}
    assert [series.gain_at("a", "b", time) for time in times] == pytest.approx([power + 60 for power in powers])
    assert series.gain_at("a", "c", 0.0) == 0.0


def test_frames_arrive_with_the_power_of_their_time(tmp_path: Path) -> None:
    agents = network(read(tmp_path, RSSI), seed=1).run({"a": Says(0.1, 5.0), "b": Says(0.1, 5.0)}).agents
    for frame in agents["b"].heard:
        power = -60 if frame.began < 1 else -80 if frame.began < 3 else -90
        assert frame.rssi_dbm == pytest.approx(power)
    assert {round(frame.rssi_dbm) for frame in agents["b"].heard} == {-60, -80, -90}
    assert {round(frame.rssi_dbm) for frame in agents["a"].heard} == {-70}


def test_a_reception_rate_is_that_of_the_frames(tmp_path: Path) -> None:
    """A reception rate holds for each frame, here of 27 bytes that become 50 on the air."""
    text = "time,src,dst,prr\n0,a,b,0.3\n0,b,a,1\n20,a,b,0.8\n20,b,a,0\n"
    agents = network(read(tmp_path, text), seed=2).run({"a": Says(0.02, 40.0), "b": Says(0.02, 40.0)}).agents
    heard = np.array([frame.began for frame in agents["b"].heard])
    # For 1000 frames, three standard deviations are 4.3 %; some frames also collide.
    assert (heard < 20).sum() / 1000 == pytest.approx(0.3, abs=0.06)
    assert (heard >= 20).sum() / 1000 == pytest.approx(0.8, abs=0.06)
    back = np.array([frame.began for frame in agents["a"].heard])
    assert (back < 20).sum() > 900
    assert (back >= 20).sum() < 5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time,src,dst\n0,a,b\n", "line 2: must have a column rssi_dbm, or prr, not both"),
        ("time,src,dst,rssi_dbm,prr\n0,a,b,-50,1\n", "line 2: must have a column rssi_dbm, or prr, not both"),
        ("time,src,dst,prr\n0,a,b,1.5\n", "line 2: prr = 1.5: must be"),
        ("time,src,dst,rssi_dbm\n0,a,b,x\n", "line 2: rssi_dbm = 'x': must be a number"),
        ("time,src,dst,rssi_dbm\n1,a,b,-50\n1,a,b,-60\n", "line 3: time = 1: must be above 1"),
        ("time,src,rssi_dbm\n1,a,-50\n", "line 1: must have a column 'dst'"),
    ],
)
def test_files_of_no_series_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read(tmp_path, text)


@pytest.mark.parametrize("each", [([], []), ([0.0], [1.0, 2.0]), ([1.0, 1.0], [0.0, 0.0]), ([1.0],), "ab"])
def test_series_that_cannot_be_are_refused(each: Any) -> None:
    with pytest.raises(BadInput, match="series"):
        LinkSeries({("a", "b"): each})


@pytest.mark.parametrize("count", [3, slow(12)])
def test_measured_links_lose_what_they_lost_in_grenoble(tmp_path: Path, count: int) -> None:
    """Each link's reception rate follows its recorded trace, here with two days compressed to two minutes."""
    try:
        found = datasets.find("iotlab_grenoble_k7")
    except BadInput:
        pytest.skip("needs NETSIM_DATA")
    table = pd.read_csv(found, comment="#")
    table = table[table["channel"] == 20].assign(at=pd.to_datetime(table["datetime"]))
    table["time"] = (table["at"] - table["at"].min()).dt.total_seconds() / 1440
    table = table.drop_duplicates(["src", "dst", "time"]).sort_values("time")
    middling = table.groupby(["src", "dst"])["pdr"].agg(["mean", "size"]).query("0.3 < mean < 0.9 and size > 8")
    assert len(middling) >= count
    for src, dst in middling.index[:count]:
        rows = table[(table["src"] == src) & (table["dst"] == dst)]
        text = rows.rename(columns={"pdr": "prr"})[["time", "src", "dst", "prr"]].to_csv(index=False)
        series = read(tmp_path, text, bits=400)
        until = float(rows["time"].max())
        # The receiver must not send, because it would miss frames meanwhile.
        gaps = {src: 0.02, dst: until}
        agents = network(series, seed=1).run({node: Says(gaps[node], until) for node in series.graph}).agents
        sent = np.arange(0.01, until, 0.02)
        after = np.searchsorted(rows["time"], sent, side="right") - 1
        expected = rows["pdr"].to_numpy()[np.maximum(after, 0)].mean()
        assert len(agents[dst].heard) / len(sent) == pytest.approx(expected, abs=0.05)
