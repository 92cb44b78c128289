"""Convergecast: delivery against closed forms, the tree against a search of all paths, refusals, and files."""

import inspect
import itertools
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, presets
from netsim.scenarios.convergecast import mote
from netsim.scenarios.convergecast.field import SensorField
from netsim.scenarios.convergecast.figures import draw_tree
from netsim.studies import Study, catalogue
from tests.parts import every, slow


def run(**parameters: object) -> Study:
    return catalogue.find_study("convergecast").execute(**parameters)


@pytest.fixture(scope="module")
def quiet() -> Study:
    """Return a study with so little traffic that frames hardly ever collide."""
    return run(agents=12, radius=45.0, model="disk", loss=0.3, period=100.0, readings=150, awake="1", seed=3)


def test_the_agent_is_short() -> None:
    assert len(inspect.getsource(mote.TreeMote).splitlines()) <= 60


def test_what_arrives_is_what_losses_by_hop_make_of_it(quiet: Study) -> None:
    """The expected share is (1 − p)^hops without acknowledgements, and (1 − p^4)^hops with three repetitions."""
    table = quiet.tables["by_hops"]
    assert table["hops"].max() >= 3
    for _, row in table.iterrows():
        hop = 0.7 if row["algorithm"].startswith("no acks") else 1 - 0.3**4
        share = hop ** row["hops"]
        assert row["expected_%"] == pytest.approx(100 * share)
        # Readings share hops, so losses are dependent; but motes at equal distance share no first hop.
        band = 5 * math.sqrt(share * (1 - share) / row["readings"])
        assert abs(row["delivered_%"] / 100 - share) < band + 0.01


def test_all_readings_are_taken_and_each_arrives_once_at_most(quiet: Study) -> None:
    motes = quiet.tables["by_mote"]
    assert (motes["readings"] == 150).all()
    for each in quiet.runs.values():
        (sink,) = [agent for agent in each.agents.values() if agent.parent is None]  # type: ignore[attr-defined]
        heard = [(name, taken) for name, taken, _ in sink.heard]  # type: ignore[attr-defined]
        assert len(heard) == len(set(heard)) == motes.loc[motes["algorithm"] == _name(quiet, each), "arrived"].sum()
    last = quiet.rounds.groupby("algorithm")["arrived"].last()
    assert last.to_dict() == motes.groupby("algorithm")["arrived"].sum().to_dict()


def _name(study: Study, run: object) -> str:
    return next(name for name, each in study.runs.items() if each is run)


def test_who_is_near_the_sink_sends_what_the_others_say(quiet: Study) -> None:
    table = quiet.tables["by_hops"].query("algorithm == 'acks, awake 1'")
    frames = table["frames"].tolist()
    assert frames == sorted(frames, reverse=True)


def test_sleep_saves_energy_and_costs_time() -> None:
    tables = run(agents=15, radius=40.0, readings=15, acks=True, awake="1,0.1", battery=1000.0).tables
    always, asleep = tables["energy"].iloc[0], tables["energy"].iloc[1]
    # 18.8 mA at 3 V for 17 periods of 30 s; awake a tenth of the time, a tenth of this.
    assert always["used_mj"] == pytest.approx(56.4 * 17 * 30, rel=0.01)
    assert asleep["used_mj"] == pytest.approx(0.1 * 56.4 * 17 * 30, rel=0.05)
    # 18.8 mA from a battery of 1000 mAh.
    assert always["used_mah"] == pytest.approx(18.8 * 17 * 30 / 3600, rel=0.01)
    assert always["median_death_days"] == pytest.approx(1000 / 18.8 / 24, rel=0.01)
    assert asleep["first_death_days"] == pytest.approx(10 * always["first_death_days"], rel=0.05)
    awake, later = tables["by_run"].iloc[0], tables["by_run"].iloc[1]
    assert later["latency_s"] > 5 * awake["latency_s"]


def test_a_reading_that_was_never_taken_did_not_arrive() -> None:
    """Awake once in 30 s, a mote takes all ten readings of 3 s each while it waits for the first acknowledgement."""
    study = run(agents=12, radius=45.0, acks=True, awake="0.001", cycle=30.0, period=3.0, readings=10)
    motes, table = study.tables["by_mote"], study.tables["by_run"].iloc[0]
    assert (motes["readings"] == 10).all()
    taken = sum(len(agent.taken_at) for each in study.runs.values() for agent in each.agents.values())  # type: ignore[attr-defined]
    assert table["readings"] == 110
    assert table["taken"] == motes["taken"].sum() == taken < 100
    assert table["delivered_%"] == pytest.approx(100 * motes["arrived"].sum() / 110)
    never = f"acks, awake 0.001: {110 - taken} of 110 readings were never taken: "
    assert [note for note in study.notes if note.startswith(never)]


@pytest.mark.parametrize(
    "how",
    [{"acks": False}, {"acks": True}, {"routing": "ctp"}, {"routing": "rpl"}],
    ids=["no acks", "acks", "ctp", "rpl"],
)
def test_each_reading_has_arrived_or_a_reason(how: dict[str, object]) -> None:
    """Links are bad, motes sleep most of the time, and there are more readings than the channel can carry."""
    study = run(agents=12, radius=45.0, awake="0.03", period=2.0, readings=25, seed=5, **how)
    readings, by_run, losses = (study.tables[name] for name in ("by_reading", "by_run", "losses"))
    assert len(readings) == 11 * 25
    row = by_run.iloc[0]
    assert row["readings"] >= row["taken"] >= row["sent"] >= row["arrived"] == readings["arrived_s"].notna().sum()
    assert losses["readings"].sum() == row["readings"] - row["arrived"] > 0
    assert losses["share_%"].sum() == pytest.approx(100 - row["delivered_%"])
    late = readings["latency_s"].dropna()
    assert (late > 0).all()
    assert row["latency_p90_s"] == pytest.approx(late.quantile(0.9))
    assert row["latency_p50_s"] <= row["latency_p90_s"] <= row["latency_p99_s"] <= late.max()
    assert (readings.loc[readings["arrived_s"].notna(), "reason"] == "").all()
    assert (readings.loc[readings["taken_s"].isna(), "reason"] == "never taken").all()


@pytest.mark.parametrize("mac", ["lpl", slow("xmac"), slow("contikimac")])
def test_radios_that_wake_by_themselves_are_seldom_on(mac: str) -> None:
    study = run(agents=12, radius=45.0, model="disk", loss=0.0, mac=mac, cycle=0.25, period=60.0, readings=3)
    row, energy = study.tables["by_run"].iloc[0], study.tables["energy"].iloc[0]
    assert row["delivered_%"] > 90
    assert (
        study.tables.get("losses", pd.DataFrame({"readings": [0]}))["readings"].sum()
        == row["readings"] - row["arrived"]
    )
    always = 56.4 * 5 * 60
    assert energy["used_mj"] < 0.25 * always
    assert row["latency_s"] > 0.05


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"mac": "tsch", "awake": "0.1"}, "awake = '0.1': must be left out with mac = 'tsch'"),
        ({"mac": "tsch", "cycle": 0.005}, "cycle = 0.005: must be at least a slot, 0.01 s"),
        ({"mac": "xmac", "awake": "0.1"}, "awake = '0.1': must be left out with mac = 'xmac'"),
        ({"mac": "tdma"}, "mac = 'tdma': must be one of csma, lpl, xmac, contikimac, tsch"),
        ({"mac": "lpl", "acks": False}, "acks = False: must be left out with lpl"),
    ],
)
def test_what_does_not_go_together_is_refused(more: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        run(**more)


@pytest.mark.parametrize("routing", ["ctp", "rpl"])
def test_a_protocol_finds_routes_where_the_tree_is_given_otherwise(routing: str) -> None:
    small = {"agents": 15, "radius": 40.0, "readings": 15, "awake": "1"}
    study = run(routing=routing, **small)
    row = study.tables["by_run"].iloc[0]
    assert row["algorithm"] == f"{routing.upper()}, awake 1"
    assert row["delivered_%"] > 98
    assert list(study.runs) == [row["algorithm"]]
    with pytest.raises(BadInput, match="acks = False: must be left out with"):
        run(routing=routing, acks=False, **small)


PLACES = """name, x, y, sink
gate, 0, 0, 1
near, 12, 0,
middle, 24, 5,
far, 36, 0,
3, 46, 8,
"""


def placed(tmp_path: Path, text: str = PLACES, awake: str | None = "1", **more: object) -> Study:
    (tmp_path / "motes.csv").write_text(text)
    changes = ",".join(filter(None, ["site.path_loss.exponent=3.5", str(more.pop("change", ""))]))
    return run(site=str(tmp_path / "motes.csv"), set=changes, readings=10, awake=awake, **more)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("routing", "mac", "name"),
    [
        ("tree", "tsch", "TSCH, wakes every 0.07 s"),
        pytest.param("rpl", "tsch", "RPL, TSCH, wakes every 0.07 s", marks=pytest.mark.slow),
        pytest.param("ctp", "lpl", "CTP, LPL, wakes every 0.125 s", marks=pytest.mark.slow),
        pytest.param("rpl", "xmac", "RPL, X-MAC, wakes every 0.125 s", marks=pytest.mark.slow),
    ],
)
def test_routing_lies_above_every_mac_layer(tmp_path: Path, routing: str, mac: str, name: str) -> None:
    study = placed(tmp_path, awake=None, routing=routing, mac=mac)
    row = study.tables["by_run"].iloc[0]
    assert row["algorithm"] == name
    assert row["delivered_%"] > 90
    losses = study.tables.get("losses", pd.DataFrame({"readings": [0]}))
    assert losses["readings"].sum() == row["readings"] - row["arrived"]
    joined = [note for note in study.notes if "of 4 motes joined the network" in note]
    assert len(joined) == (mac == "tsch")
    assert math.isnan(study.tables["energy"].iloc[0]["retries"]), "protocols send again, not the radio"
    study.save(tmp_path / "run")


def test_links_that_wake_no_receiver_are_named(tmp_path: Path) -> None:
    """A signal has 0 − 40.05 − 35 lg 12 = −77.8 dBm at 12 m and −95.3 dBm at 38 m; ContikiMAC wakes from −90 dBm on."""
    text = "name, x, y, sink\ngate, 0, 0, 1\nnear, 12, 0, 0\nedge, 50, 0, 0\n"
    study = placed(tmp_path, text, awake=None, mac="contikimac")
    (note,) = [each for each in study.notes if "wakes no receiver" in each]
    assert note == "Links of the best tree whose signal, below -90 dBm, wakes no receiver: edge → near."
    arrived = study.tables["by_mote"].set_index("mote")["arrived"]
    # A reading from the edge arrives only if its receiver was awake for another reason.
    assert arrived["near"] == 10 > 2 * arrived["edge"] - 1


@pytest.mark.parametrize("routing", ["tree", "ctp", "rpl"])
def test_motes_stand_where_a_file_says(tmp_path: Path, routing: str) -> None:
    study = placed(tmp_path, routing=routing)
    motes = study.tables["by_mote"]
    assert set(motes["mote"]) == {"near", "middle", "far", 3}
    assert motes.drop_duplicates("mote").set_index("mote")["hops"].to_dict()["near"] == 1
    assert (study.tables["by_run"].iloc[-1]["delivered_%"]) > 95


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("routing", ["tree", slow("ctp")])
def test_a_mote_that_nobody_hears_loses_its_readings_and_is_named(tmp_path: Path, routing: str) -> None:
    lonely = PLACES + "lonely, 900, 900, 0\n"
    with pytest.raises(BadInput, match="lonely"):
        placed(tmp_path, lonely, routing=routing)
    study = placed(tmp_path, lonely, routing=routing, change="site.connected=false")
    assert "Without a path to the sink: lonely." in study.notes
    row = study.tables["by_mote"].set_index("mote").loc["lonely"]
    for column, value in {"readings": 10, "taken": 10, "sent": 0, "arrived": 0}.items():
        assert (row[column] == value).all() if hasattr(row[column], "all") else row[column] == value
    losses, by_run = study.tables["losses"], study.tables["by_run"].set_index("algorithm")
    missing = by_run["readings"] - by_run["arrived"]
    assert losses.groupby("algorithm")["readings"].sum().to_dict() == missing.to_dict()
    assert losses.query("reason == 'no route'")["readings"].tolist() == [10] * len(by_run)
    if routing == "tree":
        assert dict(losses.query("reason == 'no route'").groupby("algorithm")["readings"].sum()) == {
            "no acks, awake 1": 10,
            "acks, awake 1": 10,
        }
        lost = losses.query("algorithm == 'no acks, awake 1' and reason == 'under way at the end'")
        assert lost["readings"].sum() == 0
    study.save(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        (PLACES.replace("0, 1", "0, 0"), {}, "must have one mote with 1 in the column 'sink'; it has 0"),
        (PLACES, {"change": "radio.power_dbm=-5"}, "must be site.PATH=VALUE, several with commas between"),
        (PLACES, {"change": "site.warm_up=300"}, "readings = 10: must be > 10, or all are taken before warm_up ends"),
        (PLACES, {"routing": "ctp,rpl"}, "must be one of tree, ctp, rpl, not several with commas between"),
        (PLACES, {"agents": 5}, "agents = 5: must be left out with site"),
        (PLACES, {"model": "disk"}, "model = 'disk': must be left out with site"),
        (PLACES.replace("x,", "z,"), {}, "must have a column 'x'"),
    ],
)
def test_sites_that_cannot_be_used_are_refused(tmp_path: Path, text: str, more: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        placed(tmp_path, text, **more)


@pytest.mark.filterwarnings("ignore:duty_cycle:RuntimeWarning")
def test_nothing_that_arrives_is_a_result_too(tmp_path: Path) -> None:
    study = run(acks=False, awake="0.0001", readings=3, agents=12, radius=45.0)
    assert (study.tables["by_run"]["delivered_%"] == 0).all()
    assert study.tables["by_run"]["latency_s"].isna().all()
    study.save(tmp_path / "run")
    assert (tmp_path / "run" / "hops.png").is_file()


@pytest.mark.parametrize("tree", ["etx", "hops"])
def test_the_tree_is_the_best_of_all_paths(tree: str) -> None:
    layout = SensorField(agents=9, radius=55.0, tree=tree).layout(presets.ieee802154(), 2)

    def cost(path: list[int]) -> float:
        hops = pairwise(path)
        return sum(1 / (layout.received[a, b] * layout.received[b, a]) if tree == "etx" else 1 for a, b in hops)

    for node in layout.parents:
        ours = [node, *(receiver for _, receiver in layout.path(node))]
        assert ours[-1] == layout.sink
        best = min(cost(path) for path in nx.all_simple_paths(layout.graph, node, layout.sink))
        assert cost(ours) == pytest.approx(best)
    corner = {node: math.hypot(*place) for node, place in layout.graph.nodes(data="pos")}
    assert layout.sink == min(corner, key=lambda node: corner[node])


def test_half_of_the_frames_are_received_at_the_radius() -> None:
    model = SensorField(radius=30.0).resolved()._path_loss()
    assert model.reception({0: (0, 0), 1: (30, 0)})[0, 1] > 0
    assert replace(model, shadowing=0.0).reception({0: (0, 0), 1: (30, 0)})[0, 1] == pytest.approx(0.5)


def test_a_colour_means_the_same_in_both_maps() -> None:
    motes = pd.DataFrame({"algorithm": ["no acks, awake 1"] * 2 + ["acks, awake 1"] * 2, "mote": [1, 2] * 2})
    motes = motes.assign(**{"delivered_%": 50.0, "frames_j": [1e-3, 2e-3, 5e-3, 8e-3]})
    graph = nx.Graph([(0, 1), (1, 2)])
    nx.set_node_attributes(graph, {node: (float(node), 0.0) for node in graph}, "pos")
    figure = draw_tree(motes, SimpleNamespace(graph=graph, parents={1: 0, 2: 1}, sink=0), "")  # type: ignore[arg-type]
    limits = [panel.collections[0].get_clim() for panel in figure.axes[:4]]
    assert limits == [(0.0, 100.0), (0.0, 8.0)] * 2


def test_a_map_of_motes_along_a_road_can_be_read() -> None:
    motes = pd.DataFrame({"algorithm": "acks, awake 1", "mote": [1, 2], "delivered_%": 50.0, "frames_j": 1e-3})
    graph = nx.Graph([(0, 1), (1, 2)])
    nx.set_node_attributes(graph, {node: (2500.0 * node, 0.0) for node in graph}, "pos")
    figure = draw_tree(motes, SimpleNamespace(graph=graph, parents={1: 0, 2: 1}, sink=0), "")  # type: ignore[arg-type]
    figure.draw_without_rendering()
    for panel in figure.axes[:2]:
        box = panel.get_window_extent()
        assert box.height > 0.5 * box.width
        right, up = panel.transData.transform((1.0, 1.0)) - panel.transData.transform((0.0, 0.0))
        assert right == pytest.approx(up)


def test_contikimac_does_not_wake_for_what_no_assessment_finds(tmp_path: Path) -> None:
    path = tmp_path / "motes.csv"
    path.write_text("name,x,y,sink\ngate,0,0,1\nnear,10,0,\nweak,50,0,\n")
    study, other = (
        run(site=str(path), set="site.path_loss.exponent=3.5", mac=mac, cycle=0.25, readings=30)
        for mac in ("contikimac", "xmac")
    )
    motes = study.tables["by_mote"].set_index("mote")["delivered_%"]
    assert motes["near"] > 95
    assert motes["weak"] < 70, "others wake its receiver at times"
    (note,) = [note for note in study.notes if "wakes no receiver" in note]
    assert note == "Links of the best tree whose signal, below -90 dBm, wakes no receiver: weak → near."
    assert not [note for note in other.notes if "wakes no receiver" in note]
    # Over 20 seeds of 30 readings, X-MAC delivers 87 to 100 %, and ContikiMAC 23 to 67 %.
    heard = other.tables["by_mote"].set_index("mote")["delivered_%"]
    assert heard["near"] > 95
    assert heard["weak"] > 80


def test_the_run_folder_has_both_figures(quiet: Study, tmp_path: Path) -> None:
    quiet.save(tmp_path / "run")
    assert {"hops.png", "tree.png", "by_mote.csv"} <= {file.name for file in (tmp_path / "run").iterdir()}
    assert np.isfinite(quiet.tables["by_mote"]["used_j"]).all()


@every(
    ("parameters", "says"),
    [
        ({"awake": "0.1,x"}, "awake = '0.1,x': must be shares above 0"),
        ({"awake": "1.3"}, r"awake = 1.3: must be a fraction in \(0, 1\]"),
        ({"awake": "0"}, r"awake = 0.0: must be a fraction in \(0, 1\]"),
        ({"loss": 0.1}, "loss = 0.1: must go with model = 'disk'"),
        ({"model": "disk", "fading": 2.0}, "fading = 2: must go with model = 'path-loss'"),
        ({"radius": 5.0}, "radius = 5.0: must be larger: 40 motes on 100 m × 100 m are hardly ever connected"),
        ({"radius": 60.0, "shadowing": 60.0, "agents": 3, "seed": 4}, "radius = 60.0: must be larger: 2 of 3"),
        ({"tree": "etcs"}, "tree = 'etcs': must be one of etx, hops"),
        ({"model": "disc"}, "model = 'disc': must be one of path-loss, disk"),
        ({"loss": 1.0, "model": "disk"}, "loss = 1"),
        ({"loss": float("nan")}, "loss = nan"),
        ({"agents": 1}, "agents = 1"),
        ({"radius": -3.0}, "radius = -3"),
        ({"readings": 0}, "readings = 0"),
        ({"period": 0.0}, "period = 0"),
        ({"cycle": -1.0}, "cycle = -1"),
        ({"battery": 0.0}, "battery = 0"),
        ({"set": "site.connected=false"}, "set = 'site.connected=false': must come with site"),
        ({"site": "nowhere.csv"}, "file = 'nowhere.csv': must be an existing file"),
        ({"site": "nowhere.toml"}, "nowhere.toml: must be a TOML file"),
        ({"routing": "ctpp"}, "routing = 'ctpp': must be one of tree, ctp, rpl"),
        (
            {"radius": 70.0, "shadowing": 25.0, "agents": 3, "seed": 0},
            "radius = 70.0: must be larger: 1 of 3 motes without",
        ),
    ],
)
def test_bad_input_is_refused_by_name(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        run(**parameters)


def mapped(places: dict[Any, tuple[float, ...]], edges: list[tuple[Any, Any]], **options: Any) -> Any:
    """Return the first panel of a tree's figure, and the drawn positions of its motes, in order."""
    motes = pd.DataFrame(
        {"algorithm": "CTP, awake 1", "mote": [node for node in places if node], "delivered_%": 50.0, "frames_j": 1e-3}
    )
    graph = nx.Graph(edges)
    graph.add_nodes_from(places)
    nx.set_node_attributes(graph, places, "pos")
    parents = {b: a for a, b in edges}
    layout = SimpleNamespace(graph=graph, parents=parents, sink=0)
    figure = draw_tree(motes, layout, "", **options)  # type: ignore[arg-type]
    figure.draw_without_rendering()
    panel = figure.axes[0]
    return panel, panel.transData.transform(panel.collections[0].get_offsets())


def test_a_mote_far_off_leaves_the_others_their_room() -> None:
    places = {0: (0.0, 0.0), 1: (10.0, 20.0), 2: (20.0, 0.0), 3: (9000.0, 10.0)}
    panel, at = mapped(places, [(0, 1), (0, 2)])
    assert np.ptp(at[:2], axis=0).max() > 0.25 * panel.get_window_extent().width
    assert [text.get_text() for text in panel.texts] == ["1", "2", "3: far off, at (9000, 10)"]


def test_floors_are_drawn_apart_and_named() -> None:
    places = {k: (float(10 * (k % 3)), 5.0 * (k % 2), 3.5 * (k // 3)) for k in range(9)}
    panel, at = mapped(places, [(0, k) for k in range(1, 9)])
    gaps = [math.dist(a, b) for a, b in itertools.combinations(at.tolist(), 2)]
    assert min(gaps) > 10.0
    assert [text.get_text() for text in panel.texts] == [*map(str, range(1, 9)), "z = 0 m", "z = 3.5 m", "z = 7 m"]


def test_names_of_many_motes_do_not_cover_the_map() -> None:
    places = {k: (float(k % 8), float(k // 8)) for k in range(40)}
    panel, _ = mapped(places, [(0, k) for k in range(1, 40)])
    assert not panel.texts


def test_the_tree_has_the_last_parents_of_motes_that_lost_them() -> None:
    places = {0: (0.0, 0.0), 1: (10.0, 20.0), 2: (20.0, 0.0)}
    parents = {"CTP, awake 1": {1: 0, 2: 1}}
    panel, _ = mapped(places, [(0, 1), (0, 2)], parents=parents, lost={"CTP, awake 1": {2}})
    assert [line.get_linestyle() for line in panel.lines] == ["-", "--"]
    study = run(agents=6, radius=60.0, model="disk", routing="ctp", awake="1", readings=3, seed=1)
    found = [mote.routing for mote in study.runs["CTP, awake 1"].agents.values()]  # type: ignore[attr-defined]
    assert all(each.last_parent is not None for each in found if not each.is_sink)
