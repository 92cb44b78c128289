"""Experiment scripts in docs/examples give the results stated on their pages, here with fewer seeds."""

import re
import runpy
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import results, topology, vary
from netsim.studies.experiment.setup import Ends, Setup
from netsim.studies.seeds import Seeds
from tests.command import ROOT

pytestmark = pytest.mark.usefixtures("all_undrawn")


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "examples" / f"{name}.py"))


def page_row(page: str, *firsts: str) -> list[str]:
    """Return the cells of the row, in a table of a documentation page, whose first cells are ``firsts``."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    (found,) = (line for line in lines if line.startswith(f"| {' | '.join(firsts)} |"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_outages_have_their_share_and_length_and_belong_to_a_place() -> None:
    made, lost = script("shared_losses"), []
    places = {0: (0.1, 0.1), 1: (0.2, 0.3), 2: (0.9, 0.9)}
    graph = topology.ring(3)
    nx.set_node_attributes(graph, places, "pos")
    for seed in range(40):
        setup = Setup(Seeds(seed=seed), 2000, graph, method=made["Remedy"]())
        links = [made["Losses"](0.2, True)(Ends(*ends, setup)) for ends in ((1, 0), (2, 1), (0, 2))]
        first, same, other = (list(link.loss.losses) for link in links)
        assert same == first != other
        lost.append(first)
    begun = sum(int(np.sum(np.diff(each) > 0) + each[0]) for each in lost)
    # There are about 1,600 outages in 80,000 rounds, so both estimates have a standard deviation of 3 %.
    assert np.mean(lost) == pytest.approx(0.2, rel=0.1)
    assert np.sum(lost) / begun == pytest.approx(made["BURST"], rel=0.1)


def test_what_is_sent_again_in_an_outage_is_lost_again() -> None:
    made = script("shared_losses")
    one = replace(made["experiment"], seeds=[1], rounds=60, grid=vary("loss", [0.1]))
    found = one.run().runs.set_index(["network", "method"])["excess_%"]
    away, alone = found["by place and time"], found["independent"]
    assert away["sent again at once"] == away["no remedy"]
    assert alone["sent again at once"] < alone["no remedy"] / 4
    assert (away[["asked for later", "running sums", "edge duals"]] < away["no remedy"] / 2).all()


# Slow: ten runs of 300 rounds for each loss, or motes with sleeping radios that need seconds each.
@pytest.mark.slow
def test_remedies_survive_the_losses_that_the_page_says() -> None:
    made = script("shared_losses")
    one = replace(made["experiment"], seeds=range(4), grid=vary("loss", {"10 %": 0.1}))
    found = one.run()
    share = found.runs.assign(right=found.runs["excess_%"] <= made["TARGET"]).groupby(["network", "method"])["right"]
    for method in ("asked for later", "running sums", "edge duals"):
        assert share.mean()["by place and time", method] >= 0.75
    assert share.mean()["independent", "no remedy"] == 0.0
    assert share.mean()["by place and time", "sent again at once"] == share.mean()["by place and time", "no remedy"]


@pytest.mark.slow
def test_the_best_stack_heads_the_report_as_the_page_says(tmp_path: Any) -> None:
    one = replace(script("stacks")["experiment"], seeds=[1], grid=vary("duty", [0.9]))
    found = one.run()
    runs = found.runs.set_index("method")
    for method in runs.index:
        low, high = map(float, re.findall(r"[\d.]+", page_row("stacks.md", method)[2].partition("(")[2]))
        assert low - 1 <= runs.loc[method, "delivered_%"] <= high + 1, method
    best = runs["lifetime_days"].idxmax()
    assert "TSCH" in best
    head = found.report(tmp_path / "report.html").read_text().partition("<small>")[0]
    assert "has the greatest median delivered (%)" in head
    assert f"{best} has the greatest median lifetime (days)" in head


@pytest.mark.slow
def test_savings_hold_and_end_at_the_losses_that_the_page_says() -> None:
    one = replace(script("claims")["experiment"], seeds=range(1, 5))
    table = one.run().tidy()
    ratios = {
        measure: results.paired(table, measure, "DKLA", test="ratio").set_index(["loss", "algorithm"])["ratio"]
        for measure in ("test_mse", "transmissions")
    }
    for loss, shown in ((0.0, "0"), (0.01, "1 %"), (0.1, "10 %")):
        cells = page_row("learning_on_motes.md", shown)
        for method, cell in (("COKE", cells[1]), ("COKE, 4 bits", cells[2]), ("coded sums", cells[3])):
            low, high = map(float, re.findall(r"[\d.]+", cell.partition("(")[2]))
            # The page has ten seeds and this test four, so their means lie in an interval half as wide again.
            reach = 0.75 * (high - low) + 0.01
            assert abs(ratios["test_mse"][loss, method] - (low + high) / 2) < reach, (loss, method)
    assert ratios["transmissions"][0.0, "COKE"] == pytest.approx(0.56, abs=0.04)
