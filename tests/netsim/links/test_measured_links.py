"""Networks from data: tables of reception ratios, replayed traces, published measurements, time-varying rates."""

import asyncio
import gzip
import os
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, Link, Network, Radio, Run, links, loss, rate, topology
from netsim.links.measured import from_table
from netsim.testing import Actor, Listener, Rounder, Talker, counts, sized
from netsim.util import datafiles
from tests.parts import every

TABLE = pd.DataFrame(
    [("a", "b", 0.9), ("b", "a", 0.5), ("b", "c", 0.7), ("a", "c", 0.1)], columns=["sender", "receiver", "reception"]
)
measured = pytest.mark.skipif(not os.environ.get("NETSIM_DATA"), reason="NETSIM_DATA is not set")


def losses(found: links.LinkedGraph) -> dict[Any, float]:
    return {ends: pytest.approx(link.loss_model.mean) for ends, link in found.links.items()}


def test_a_table_is_a_network(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    for table in (TABLE, tmp_path / "table.csv", str(tmp_path / "table.csv")):
        found = from_table(table, link=Link(rate=250e3, mtu=116))
        assert list(found.graph) == ["a", "b", "c"]
        expected = {
            ("a", "b"): 0.1,
            ("b", "a"): 0.5,
            ("b", "c"): 0.3,
            ("c", "b"): 1.0,
            ("a", "c"): 0.9,
            ("c", "a"): 1.0,
        }
        assert losses(found) == expected
        assert {(each.rate, each.mtu) for each in found.links.values()} == {(250e3, 116)}


def test_losses_in_blocks_lose_all_of_a_block_or_nothing_and_as_much() -> None:
    """With a coherence time of 1 s and a frame every 0.1 s, ten successive frames share one draw from the table."""
    found = from_table(TABLE, link=Link(rate=1e6), coherence=1.0)
    assert losses(found) == losses(from_table(TABLE))
    pair = nx.Graph([("a", "b")])
    settings = {ends: link for ends, link in found.links.items() if set(ends) == {"a", "b"}}
    plan = [(0.05 + 0.1 * k, k) for k in range(20_000)]
    run = Network(pair, Link(rate=1e6), links=settings, seed=1).run({"b": Talker(plan), "a": Listener()})
    received = np.zeros(20_000, dtype=int)
    received[[k for _, _, k in run.agents["a"].heard]] = 1
    blocks = received.reshape(-1, 10)
    assert set(blocks.sum(axis=1)) == {0, 10}
    assert blocks[:, 0].mean() == pytest.approx(0.5, abs=0.05)
    assert abs(np.corrcoef(blocks[:-1, 0], blocks[1:, 0])[0, 1]) < 4 / np.sqrt(2000)


def test_only_good_links_are_kept() -> None:
    assert set(from_table(TABLE, least=0.6).links) == {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}
    assert losses(from_table(TABLE, least=0.5, both=True)) == {("a", "b"): 0.1, ("b", "a"): 0.5}


def test_reception_of_one_direction_is_that() -> None:
    graph, of = from_table(TABLE, link=Link(rate=1e6), least=0.6)
    for medium in ("wires", Radio()):
        agents = {node: Talker([(0.1 * k, k) for k in range(400)]) for node in graph}
        run = Network(graph, Link(rate=1e6), links=of, medium=medium).run(agents)  # type: ignore[arg-type]
        table = run.ledger.table().set_index(["sender", "receiver"])
        heard = table["delivered"] / (table["delivered"] + table["lost"])
        assert heard["a", "b"] == pytest.approx(0.9, abs=0.06)
        assert heard["b", "a"] == pytest.approx(0.5, abs=0.1)
        assert heard["c", "b"] == 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            TABLE.rename(columns={"reception": "pdr"}),
            "table: must have a column 'reception'; it has sender, receiver, pdr",
        ),
        (TABLE.assign(reception=1.3), "table, row 1: reception = 1.3: must be a probability in [0, 1]"),
        (TABLE.assign(reception=[0.1, None, 0.2, 0.3]), "table, row 2: must have a reception; it is empty"),
        (TABLE.assign(reception=0.0), "table: must leave a link"),
        (pd.concat([TABLE, TABLE]), "table, row 5: must be the only one from 'a' to 'b'"),
        ("no such file.csv", "table = 'no such file.csv': must be an existing file"),
        (7, "table = 7: must be a path or a DataFrame"),
    ],
)
def test_bad_tables_are_refused(table: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_table(table)
    assert str(caught.value).startswith(message)


def test_positions_are_those_of_all_that_have_a_link() -> None:
    places = {"a": (0.0, 0.0), "b": (1.0, 0.0), "c": (2.0, 0.0), "d": (3.0, 0.0)}
    assert from_table(TABLE, positions=places).graph.nodes["c"]["pos"] == (2.0, 0.0)
    del places["c"]
    with pytest.raises(BadInput, match=r"positions: must have all nodes of the table .*; node 'c' is missing"):
        from_table(TABLE, positions=places)
    # With least=0.8, node "c" has no link, and a node without links needs no position.
    assert set(from_table(TABLE, least=0.8, positions=places).graph) == {"a", "b"}


# --- losses in time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("medium", ["wires", "radio", Radio(access="aloha")], ids=["wires", "radio", "Radio"])
def test_a_replayed_trace_delivers_exactly_the_trace(medium: Any) -> None:
    """A frame sent in a minute is received if the record of that minute says so, independently of earlier frames."""
    rng = np.random.default_rng(1)
    heard = rng.integers(0, 2, (40, 3))

    async def now_and_then(me: Actor) -> None:
        for minute in range(80):
            if me.rng.random() < 0.6:
                await me.broadcast("m", minute)
            await asyncio.sleep(1.0)

    graph = topology.star(4)
    link = Link(rate=1e6)
    of = {(0, i): Link(rate=1e6, loss=loss.varying(1 - heard[:, i - 1], 1.0)) for i in range(1, 4)}
    run = Network(graph, link, links=of, medium=medium).run(
        {0: Actor(now_and_then), **{i: Listener() for i in range(1, 4)}}, trace=True
    )
    sent = {round(time) for time in run.trace.table().query("event == 'sent'")["time_s"]}
    for i in range(1, 4):
        got = {payload for _, _, payload in run.agents[i].heard}
        assert got == {minute for minute in sent if heard[minute % 40, i - 1]}
        assert got < sent


def test_the_mean_of_a_varying_loss_is_over_time() -> None:
    model = loss.varying([0.0, 0.5, 1.0], [1.0, 2.0, 1.0])
    assert model.mean == 0.5
    run = Network(topology.path(2), Link(loss=model)).run(
        {0: Talker([(0.01 * k, k) for k in range(4000)]), 1: Listener()}
    )
    assert counts(run)["lost"] / 4000 == pytest.approx(0.5, abs=0.03)
    assert min(time for time, *_ in run.agents[1].heard if time > 2.5) == pytest.approx(2.5, abs=0.6)
    assert not [time for time, *_ in run.agents[1].heard if time % 4.0 >= 3.0]


@pytest.mark.parametrize(
    ("values", "seconds", "name"), [([], 1, "losses"), ([1.2], 1, "losses"), ([0.1], 0, "seconds")]
)
def test_bad_stretches_are_refused(values: list[float], seconds: float, name: str) -> None:
    with pytest.raises(BadInput, match=name):
        loss.varying(values, seconds)


# --- rates in time ----------------------------------------------------------------------------------------------------


def arrivals(times: list[float], sizes: list[int], opportunities: list[float]) -> list[float]:
    link = Link(rate=rate.opportunities(opportunities, bits=8000))
    plan = list(zip(times, map(sized, sizes), strict=True))
    run = Network(topology.path(2), link).run({0: Talker(plan), 1: Listener()})
    return [time for time, *_ in run.agents[1].heard]


def test_frames_leave_at_opportunities() -> None:
    assert arrivals([0.0, 0.0], [1000, 1000], [1.0, 1.5, 4.0]) == [1.0, 1.5]


def test_a_large_frame_takes_several_and_what_is_left_serves_the_next() -> None:
    assert arrivals([0.0, 0.0, 0.0], [1500, 500, 500], [1.0, 1.5, 4.0]) == [1.5, 1.5, 4.0]


def test_an_unused_opportunity_is_gone() -> None:
    assert arrivals([1.2, 1.7], [500, 500], [1.0, 1.5, 4.0]) == [1.5, 4.0]


def test_after_the_last_the_first_comes_again() -> None:
    assert arrivals([0.0] * 5, [1000] * 5, [1.0, 4.0]) == [1.0, 4.0, 5.0, 8.0, 9.0]


@pytest.mark.parametrize("times", [[], [0.0], [2.0, 1.0], [-1.0, 2.0]])
def test_bad_opportunities_are_refused(times: list[float]) -> None:
    with pytest.raises(BadInput, match="seconds"):
        rate.opportunities(times)


@every("name", ["short.down", "short.down.gz"])
def test_a_file_of_mahimahis_is_read(name: str, tmp_path: Path) -> None:
    # A trace in mahimahi's format with delivery opportunities at 1, 1, 2 and 4 ms, repeated every 4 ms.
    text = "1\n1\n2\n4\n"
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    model = rate.opportunities(tmp_path / name)
    assert model.mean == 4 * 12_000 / 4e-3
    run = Network(topology.path(2), Link(rate=model)).run({0: Talker([(0.0, sized(1500))] * 6), 1: Listener()})
    assert run.agents[1].times == pytest.approx([0.001, 0.001, 0.002, 0.004, 0.005, 0.005])
    assert rate.opportunities(str(tmp_path / name), bits=100).mean == pytest.approx(4 * 100 / 4e-3)


@every(
    ("text", "words"),
    [
        ("1\nx\n", "line 2 must be whole milliseconds, not 'x'"),
        ("1\n\n2\n", "line 2 must be whole milliseconds, not ''"),
        ("1\n1.5\n", "line 2 must be whole milliseconds, not '1.5'"),
        ("-1\n", "line 1 must be whole milliseconds, not '-1'"),
        ("2\n1\n", "must be at least one time, in order"),
        ("0\n", "must be at least one time, in order"),
        ("", "must be at least one time, in order"),
    ],
)
def test_a_file_without_opportunities_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "trace").write_text(text)
    with pytest.raises(BadInput) as caught:
        rate.opportunities(tmp_path / "trace")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="must be a file that can be read"):
        rate.opportunities(tmp_path / "none")


def test_a_radio_has_one_rate() -> None:
    with pytest.raises(BadInput, match=r"rate = .*: must be a number of bits per second on a Radio"):
        Network(topology.path(2), Link(rate=rate.opportunities([1.0])), medium=Radio())


# --- published measurements -------------------------------------------------------------------------------------------


@measured
def test_rutgers_links_get_worse_with_the_noise() -> None:
    """Among 29 nodes (812 pairs), more pairs receive half of the broadcasts at −20 dBm of noise than at 0 dBm."""
    counts_ = [links.rutgers(noise=noise, least=0.5, both=False).graph.number_of_edges() for noise in (-20, -10, 0)]
    assert counts_ == sorted(counts_, reverse=True)
    found = links.rutgers(noise=-10, coherence=0.5)
    assert found.links["1-2", "1-6"].loss_model.mean == pytest.approx(1 - 0.99333)
    with pytest.raises(BadInput, match=r"noise = -7: must be one of -20, -15, -10, -5, 0"):
        links.rutgers(noise=-7)
    with pytest.raises(BadInput, match=r"coherence = 1: must be left out with a step"):
        links.grenoble(coherence=1, step=3600)
    with pytest.raises(BadInput, match=r"coherence = 0: must be a number >= 1e-09"):
        links.rutgers(coherence=0)


@measured
def test_the_intel_lab() -> None:
    graph, of = links.intel_lab()
    assert (len(graph), graph.number_of_edges()) == (53, 202)
    assert np.mean([1 - link.loss_model.mean for link in of.values()]) == pytest.approx(0.50, abs=0.01)
    assert graph.nodes[1]["pos"] == (21.5, 23.0)
    table = pd.read_csv(Path(os.environ["NETSIM_DATA"]) / "intel_connectivity.csv.gz").set_index(["sender", "receiver"])
    assert all(1 - link.loss_model.mean == pytest.approx(table["prob"][ends]) for ends, link in of.items())


@measured
def test_grenoble_by_channel_and_time() -> None:
    table = pd.read_csv(Path(os.environ["NETSIM_DATA"]) / "iotlab_grenoble_k7.csv.gz")
    mean = table.query("channel == 15 and src == 0 and dst == 18")["pdr"].mean()
    _, of = links.grenoble(channel=15)
    assert 1 - of[0, 18].loss_model.mean == pytest.approx(mean)
    graph, varying = links.grenoble(channel=15, step=3 * 3600.0)
    assert nx.is_connected(graph)
    assert 1 - varying[0, 18].loss_model.mean == pytest.approx(mean, abs=0.05)


@measured
def test_the_library_is_replayed_minute_by_minute() -> None:
    """Every mote sends once a minute, and the deliveries equal the recorded receptions packet by packet."""
    graph, of = links.ulb_library(link=Link(rate=250e3), minute=1.0)
    rounds = 50
    network = Network(graph, Link(rate=250e3), links=of, round_period=1.0)
    run: Run = network.run({node: Rounder(rounds) for node in graph}, trace=True)
    ends = run.trace.table().query("event == 'delivered'")
    table = pd.read_csv(Path(os.environ["NETSIM_DATA"]) / "ulb_library1_links.csv.gz").query(f"seq < {rounds}")
    expected = {(seq, src, node) for seq, src, node in table[["seq", "src", "node"]].itertuples(index=False)}
    found = {
        (int(time), src, node) for time, src, node in ends[["time_s", "sender", "receiver"]].itertuples(index=False)
    }
    assert found == expected


@measured
def test_a_cellular_link() -> None:
    model = links.cellular("Verizon-LTE-short.down")
    assert isinstance(model, rate.Rate)
    assert model.mean == pytest.approx(58655 * 12000 / 140.0)
    with pytest.raises(BadInput, match="name = 'Verizon': must be one of"):
        links.cellular("Verizon")


def test_missing_files_are_told_where_to_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    with pytest.raises(
        BadInput, match=r"NETSIM_DATA is not set: must be a folder that holds intel_connectivity.csv.gz"
    ):
        links.intel_lab()


def test_the_table_that_was_read_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    TABLE.to_csv(path, index=False)
    with datafiles.recording() as read:
        from_table(path)
    assert read == {str(path): datafiles.digest_of(path)}
