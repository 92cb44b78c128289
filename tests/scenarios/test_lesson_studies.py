"""The small studies of the lessons: counts and shares computed by hand, effects of acknowledgements and sums."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, topology
from netsim.studies import Study, catalogue
from netsim.studies.traces import replay

pytestmark = pytest.mark.usefixtures("all_undrawn")


def run(name: str, **parameters: Any) -> Study:
    return catalogue.find_study(name).execute(**parameters)


def at_the_end(study: Study) -> Any:
    return study.tables["at_the_end"].set_index("algorithm")


@pytest.mark.parametrize("seed", [1, 2])
def test_flooding_sends_over_all_edges_but_one_of_each_agent(seed: int) -> None:
    study = run("flooding", loss=0.0, seed=seed)
    edges = topology.random_geometric(30, 0.3, seed=seed).number_of_edges()
    table = at_the_end(study)
    assert (table["informed"] == 30).all()
    assert table["transmissions"].to_dict() == {"flooding": 2 * edges - 29, "tree": 29, "tree-ack": 58}
    assert (table["lost"] == 0).all()


def test_a_tree_tells_all_only_with_acknowledgements() -> None:
    tables = [at_the_end(run("flooding", loss=0.3, seed=seed)) for seed in range(1, 6)]
    heard = {name: [table.loc[name, "informed"] for table in tables] for name in tables[0].index}
    assert heard["tree-ack"] == [30] * 5
    assert sum(heard["tree"]) < sum(heard["flooding"]) < 150
    for table in tables:
        # A node that did not receive the news does not forward it.
        assert table.loc["tree", "transmissions"] <= 29
        assert table.loc["tree-ack", "transmissions"] > 58


def expected_messages(numbers: list[int]) -> int:
    """Return the expected count: each number travels until a larger one stops it; then the leader's goes round."""
    ring, count = len(numbers), 0
    for place, number in enumerate(numbers):
        ahead = (numbers[(place + step) % ring] for step in itertools.count(1))
        count += 1 + sum(1 for _ in itertools.takewhile(lambda other, own=number: other < own, ahead))
    return count + ring


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_election_sends_as_many_messages_as_the_order_asks_for(seed: int) -> None:
    study = run("election", agents=9, loss=0.0, seed=seed)
    numbers = np.random.default_rng(seed).permutation(9).tolist()
    expected = expected_messages(numbers)
    assert at_the_end(study)["transmissions"].to_dict() == {"once": expected, "acknowledged": 2 * expected}
    for each in study.runs.values():
        assert {agent.leader for agent in each.agents.values()} == {8}


def test_an_election_survives_loss_only_with_acknowledgements() -> None:
    tables = [at_the_end(run("election", loss=0.2, seed=seed)) for seed in range(1, 6)]
    assert [table.loc["acknowledged", "informed"] for table in tables] == [12] * 5
    assert sum(table.loc["once", "informed"] for table in tables) < 30


def test_only_running_sums_keep_the_mean() -> None:
    ideal, lossy = at_the_end(run("pushsum", loss=0.0, rounds=200)), at_the_end(run("pushsum", rounds=200))
    assert (ideal["error"] < 1e-6).all()
    # All agents agree in both cases, but only with running sums on the mean.
    assert (lossy["spread"] < 1e-4).all()
    assert (lossy.loc[["metropolis", "push-sum"], "error"] > 0.01).all()
    assert lossy.loc["push-sum-running", "error"] < 1e-4


def test_running_sums_lose_nothing() -> None:
    study = run("pushsum", loss=0.3, rounds=60, agents=12, radius=0.6)
    graph = topology.random_geometric(12, 0.6, seed=1)
    agents = study.runs["push-sum-running"].agents
    # Mass that a neighbour has sent but that has not arrived is carried by its next frame.
    missing = sum(agents[other].sent - agents[node].known.get(other, 0.0) for node in graph for other in graph[node])
    assert sum(agent.held for agent in agents.values()) + missing == pytest.approx([66, 12])
    assert sum(agent.held[1] for agent in study.runs["push-sum"].agents.values()) < 1


@pytest.mark.parametrize("messengers", [1, 2])
def test_generals_attack_alone_as_often_as_computed(messengers: int) -> None:
    wars, lost = 300, 0.3**messengers
    table = run("generals", loss=0.3, messages=4, messengers=messengers, wars=wars).tables["by_messages"]
    for row in table.itertuples():
        alone = lost * (1 - lost) ** (row.messages - 1)
        both = (1 - lost) ** row.messages
        assert row[4:6] == pytest.approx((both, alone))
        for share, expected in ((row.both, both), (row.alone, alone)):
            assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / wars)


def test_the_figure_of_the_generals_has_the_tables_shares_beside_the_expected_ones() -> None:
    study = run("generals", messages=4, wars=50)
    table = study.tables["by_messages"]
    (panel,) = study.figures["shares"].axes
    assert "messages" in panel.get_xlabel()
    assert "50 wars" in panel.get_ylabel()
    # An errorbar container has the label; its first child is the line.
    points = {str(each.get_label()): each.lines[0].get_xydata() for each in panel.containers}
    points |= {str(line.get_label()): line.get_xydata() for line in panel.lines}
    for outcome, said in (("both", "both attack"), ("alone", "one attacks alone")):
        for kind, column in (("measured", outcome), ("expected", f"{outcome} expected")):
            assert points[f"{said}, {kind}"] == pytest.approx(table[["messages", column]].to_numpy())


def test_generals_are_sure_on_perfect_links() -> None:
    table = run("generals", loss=0.0, messages=3, wars=5).tables["by_messages"]
    assert table["both"].tolist() == [1, 1, 1]
    assert table["sent a war"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("generals", {"messages": 51}, "messages = 51: must be a whole number from 1 to 50"),
        ("generals", {"messengers": 0}, "messengers = 0: must be a whole number >= 1"),
        ("generals", {"loss": 1.5}, "loss = 1.5: must be"),
        ("generals", {"wars": 0}, "wars = 0: must be a whole number >= 1"),
        ("pushsum", {"rounds": 0}, "rounds = 0: must be a whole number >= 1"),
        ("flooding", {"latency": 0.0}, "latency = 0"),
        ("election", {"latency": -1.0}, "latency = -1"),
        ("election", {"agents": 2}, "agents = 2: must be a whole number >= 3"),
    ],
)
def test_bad_flags_are_refused_in_a_line(name: str, parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as refused:
        run(name, **parameters)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "parameters", "state"),
    [
        ("flooding", {"agents": 8, "radius": 0.6}, "hops"),
        ("election", {"agents": 5}, "leader"),
        ("pushsum", {"agents": 6, "radius": 0.7, "rounds": 8}, "value"),
        ("generals", {"wars": 5, "messages": 2}, "attacks"),
    ],
)
def test_the_player_shows_their_states(name: str, parameters: dict[str, Any], state: str, tmp_path: Path) -> None:
    study = catalogue.find_study(name).execute(trace=True, **parameters)
    assert study.states is not None
    assert state in study.states.columns
    study.save(tmp_path / "run")
    page = replay(tmp_path / "run")
    assert f'"{state}"' in page.read_text(encoding="utf-8")
