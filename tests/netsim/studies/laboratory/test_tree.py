"""The tree of branches in a lab, and the controls for its settings."""

import shlex
from typing import Any

import pytest

from netsim import BadInput
from netsim.studies.catalogue import Parameter, find_study
from netsim.studies.laboratory.controls import controls
from netsim.studies.laboratory.tree import Source, Tree


def tree() -> Tree:
    return Tree(Source("election", find_study("election").parameters), {"agents": 6})


def test_a_fault_starts_a_branch_and_changes_none() -> None:
    lab = tree()
    main = lab.get(0)
    crash = lab.grow(main, "0.05 crash 3")
    both = lab.grow(crash, "0.02 cut 0-1")
    assert (main.at, crash.at, both.at) == ("", "0.05 crash 3", "0.02 cut 0-1; 0.05 crash 3")
    assert (crash.name, both.name) == ("crash 3 at 0.05 s", "cut 0–1 at 0.02 s")
    # The same fault, written differently, returns the existing branch.
    assert lab.grow(main, "0.05  crash 3") is crash
    with pytest.raises(BadInput, match=r"^at = '0\.05 crsh 3'"):
        lab.grow(main, "0.05 crsh 3")


def test_an_order_starts_a_branch_that_keeps_the_faults() -> None:
    lab = tree()
    crash = lab.grow(lab.get(0), "0.05 crash 3")
    drawn = lab.grow(crash, "order 7")
    assert (drawn.at, drawn.order, drawn.name, drawn.since) == (crash.at, "7", "order 7", 0.0)
    assert lab.grow(crash, "order  7") is drawn
    words = "at 0.25 s agent 2: agent 3 comes before agent 2"
    told = lab.grow(drawn, f"order {words}")
    assert (told.order, told.name, told.since) == (words, "order changed at 0.25 s", 0.25)
    row = lab.as_dict()["branches"][told.number]
    assert shlex.split(row["command"])[-4:] == ["--at", "0.05 crash 3", "--order", words]
    assert f"order={words!r}" in row["script"]
    with pytest.raises(BadInput, match="order = 'soon': must be a seed"):
        lab.grow(crash, "order soon")
    with pytest.raises(BadInput, match="order = '': must be a seed"):
        lab.grow(crash, "order")


def test_deleting_takes_those_that_leave_it_and_never_the_main_run() -> None:
    lab = tree()
    crash = lab.grow(lab.get(0), "0.05 crash 3")
    lab.grow(crash, "0.06 cut 0-1")
    other = lab.grow(lab.get(0), "0.07 crash 4")
    lab.delete(crash)
    assert list(lab.branches) == [0, other.number]
    with pytest.raises(BadInput, match="another one than the main run"):
        lab.delete(lab.get(0))
    with pytest.raises(BadInput, match="branch = 1"):
        lab.get(1)


def test_each_tells_how_it_is_repeated() -> None:
    lab = tree()
    crash = lab.grow(lab.grow(lab.get(0), "0.05 crash 3"), "0.1 restart 3")
    row = lab.as_dict()["branches"][crash.number]
    words = ["netsim", "run", "election", "--agents", "6", "--at", "0.05 crash 3", "--at", "0.1 restart 3"]
    assert shlex.split(row["command"]) == words
    assert row["sweep"].startswith("netsim sweep election --agents 6 --at '0.05 crash 3; 0.1 restart 3' --seed 1:21")
    assert "find_study('election')" in row["script"]


def test_settings_are_checked() -> None:
    source = tree().source
    assert source.checked("agents", 7.0) == 7
    assert source.checked("loss", 1) == 1.0
    assert source.checked("data_seed", None) is None
    for name, value, words in (("agents", 1.5, "a whole number"), ("loss", "x", "a number"), ("colour", 1, "setting")):
        with pytest.raises(BadInput, match=words):
            source.checked(name, value)


@pytest.mark.parametrize(
    ("parameter", "control"),
    [
        (Parameter("loss", float, False, 0.1, "Share of lost frames."), {"sort": "slider", "low": 0, "high": 1}),
        (Parameter("delay", float, False, 0.03, "Seconds."), {"sort": "slider", "low": 0, "high": 0.2, "step": 0.001}),
        (Parameter("agents", int, False, 12, "At least 3."), {"sort": "slider", "high": 48, "step": 1}),
        (Parameter("seed", int, False, 1, ""), {"sort": "seed"}),
        (Parameter("gain", float, True, None, ""), {"sort": "number", "optional": True}),
        (Parameter("most", float, False, float("inf"), ""), {"sort": "number", "default": None}),
        (Parameter("fast", bool, False, True, ""), {"sort": "switch", "default": True}),
        (Parameter("mode", str, False, "a", '"a": this; "b": that.'), {"sort": "choice", "choices": ["a", "b"]}),
        (Parameter("data", str, False, "a", '"a", "b", or a path.'), {"sort": "text"}),
    ],
)
def test_each_parameter_has_a_control_of_its_sort(parameter: Parameter, control: dict[str, Any]) -> None:
    (found,) = controls([parameter])
    assert {name: found[name] for name in control} == control
    assert found["name"] == parameter.name
