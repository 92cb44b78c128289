"""Shortened scripts of docs/sensor_networks.md: a mote of four parts, and a comparison of three stacks."""

import runpy
from dataclasses import replace
from typing import Any

import pytest

from netsim import vary
from tests.command import ROOT

HOUSE, STACKS = ROOT / "docs" / "examples" / "house.py", ROOT / "docs" / "experiments" / "protocols.py"


@pytest.mark.slow
def test_motes_of_a_house_sample_together_report_and_have_the_firmware() -> None:
    script = runpy.run_path(str(HOUSE))
    site = script["read"]()
    motes = script["play"](site, until=136).agents
    apart = script["spreads"](site, motes)
    assert len(apart) >= 1
    assert max(apart) < 5e-6
    heard = motes[site.sink].routing.heard
    assert len(heard) == sum(each.routing.taken for each in motes.values()) >= 24
    assert all(each.update.image == script["FIRMWARE"] for each in motes.values())


@pytest.mark.slow
def test_a_jammer_costs_readings() -> None:
    experiment: Any = runpy.run_path(str(STACKS))["experiment"]
    short = replace(experiment, methods={"CTP": experiment.methods["CTP, CSMA"]}, seeds=[1], until=145.0)
    short = replace(short, grid=vary("jammer", [0.0, 20.0])).with_values({"network.warm_up": 20.0})
    runs = short.run().runs
    assert set(runs["outcome"]) == {"ended"}
    without, with_jammer = runs["delivered_%"]
    assert with_jammer < 95 < without


@pytest.mark.parametrize("script", [HOUSE, STACKS], ids=lambda path: path.name)
def test_each_script_has_80_lines_at_most(script: Any) -> None:
    assert len(script.read_text().splitlines()) <= 80
