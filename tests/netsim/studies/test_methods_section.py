"""The methods paragraph for a paper agrees with settings.json."""

import json
import re
from pathlib import Path

import pytest

import netsim
from netsim import BadInput
from netsim.studies.methods_section import methods_section
from tests.command import call

pytestmark = pytest.mark.usefixtures("all_undrawn")

MINE = """
from dataclasses import dataclass

from netsim.agents import DKLA


@dataclass(eq=False, repr=False)
class My_Own(DKLA):
    pass
"""
SMALL = {"agents": 4, "features": 8, "rounds": 5}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("section")
    (folder / "mine_50%.py").write_text(MINE)
    find = netsim.studies.find_study("coke")
    find.execute(**SMALL, seed=3, method=str(folder / "mine_50%.py"), algorithms="DKLA,COKE").save(folder / "run")
    netsim.studies.sweep("coke", out=folder / "sweep", **SMALL, loss=[0.0, 0.25], seed=range(3), data_seed=9)
    netsim.studies.find_study("online").execute(**SMALL, algorithms="RFF-DOKL").save(folder / "online")
    return folder


def settings(folder: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((folder / "settings.json").read_text())
    return found


def test_it_says_what_ran_with_what_and_what_to_cite(room: Path) -> None:
    text, recorded = methods_section(room / "run"), settings(room / "run")
    assert text.startswith("The study coke, ")
    assert f"of netsim {recorded['netsim']} ({recorded['core']} core) ran once." in text
    assert "It ran with seed 3 of everything random." in text
    for name, value in recorded["packages"].items():
        assert f"{name} {value}" in text
    for digest in recorded["files_sha256"].values():
        assert str(digest)[:16] in text
    for digest in recorded["source_sha256"].values():
        assert str(digest)[:16] in text
    assert json.loads((room / "run" / "summary.json").read_text())["trace_hash"] in text
    assert re.search(r"DKLA \(censor Always\(\), coder Exact\(\), rho 0.01, duals Accumulated\(\)\) \[1\];", text)
    assert re.search(r"mine_50% \(class My_Own, [^;]*\) after \[1\]\.", text), "the paper is of the class it is made of"
    assert text.splitlines()[-1].startswith("[1] P. Xu, Y. Wang, X. Chen and Z. Tian. COKE:")


def test_every_parameter_that_is_not_left_open_is_there_with_its_value(room: Path) -> None:
    for folder in ("run", "online"):
        text = methods_section(room / folder)
        named = dict(
            re.findall(r"(\w+) = ([^,;]+)[,;]", text.partition("The parameters were ")[2].partition("; all")[0] + ";")
        )
        for name, value in settings(room / folder)["parameters"].items():
            if value is not None and name not in ("data", "algorithms", "method", "seed"):
                shown = (
                    str(value).lower()
                    if isinstance(value, bool)
                    else f"{value:g}"
                    if isinstance(value, float)
                    else value
                )
                assert named.pop(name) == str(shown).split(",")[0], name
        assert not named


def test_of_a_sweep_it_names_what_varied_the_seeds_and_a_hash_of_all_traces(room: Path) -> None:
    text = methods_section(room / "sweep")
    assert "ran 6 times, at loss = 0 and 0.25." in text
    assert "Each setting ran with 3 seeds (0 to 2) of everything random that has no seed of its own." in text
    assert "Each setting ran with data seed 9." in text
    assert "netsim sweep coke --agents 4 --features 8 --rounds 5 --loss 0.0,0.25 --seed 0:3 --data-seed 9" in text
    joint = re.search(r"begins with ([0-9a-f]{32})\.", text)
    assert joint
    again = methods_section(room / "sweep")
    assert joint[1] in again


def test_other_papers_are_cited_for_other_algorithms(room: Path) -> None:
    text = methods_section(room / "online")
    assert "RFF-DOKL (class RFFDOKL" in text
    assert "[1] P. Bouboulis, S. Chouvardas and S. Theodoridis." in text


def test_latex_escapes_and_cites_by_keys(room: Path) -> None:
    text = methods_section(room / "run", "latex")
    body, _, references = text.partition("\n\n")
    assert r"mine\_50\% (class My\_Own" in body
    assert r"~\cite{xu2021}" in body
    assert r"\texttt{round\_period = 1}" in body
    assert not re.search(r"(?<!\\)[%#&]", body)
    assert references.startswith("\\begin{thebibliography}{1}\n\\bibitem{xu2021} P. Xu")
    assert references.endswith("\\end{thebibliography}\n")


def test_the_command_prints_it_and_refuses_what_is_none(room: Path) -> None:
    done = call("show", "run", "--methods-section", cwd=room)
    assert done.stdout == methods_section(room / "run")
    assert call("show", "run", "--methods-section", "--format", "html", cwd=room).stderr.startswith(
        "netsim: format = 'html'"
    )
    refused = call("show", "nowhere", "--methods-section", cwd=room)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_an_unfinished_sweep_and_a_failed_point_are_told(tmp_path: Path) -> None:
    done = netsim.studies.sweep("coke", out=tmp_path / "sweep", **SMALL, edges=[3, 400])
    assert done.failed
    text = methods_section(tmp_path / "sweep")
    assert "The sweep is not whole" in text
    assert "1 of 2 points" in text
    (tmp_path / "sweep" / "points" / "edges=3" / "summary.json").unlink()
    with pytest.raises(BadInput, match="must have a point that is done"):
        methods_section(tmp_path / "sweep")
