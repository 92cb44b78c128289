"""Scenarios in files of one's own: what may stand in them, and how their mistakes end."""

import sys
from pathlib import Path

import pytest

from netsim import BadInput
from netsim.studies import catalogue

HEAD = "from netsim import Agent, Network, topology\n"

MODERN = """from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Optional

from netsim import Agent, Network, topology

if TYPE_CHECKING:
    from netsim.studies import Study


@dataclass(frozen=True)
class Size:
    \"\"\"How large.

    Parameters
    ----------
    agents : int
        Number of agents.
    \"\"\"

    kinds: ClassVar[int] = 3
    agents: int = 3
    tags: Optional[str] = field(default=None, kw_only=True)


class Idle(Agent):
    async def run(self) -> None:
        async for _ in self.rounds(2):
            await self.collect()


def NAME(study: Study, *, size: Size = Size(), loss: float | None = None, seed: Optional[int] = None) -> None:
    \"\"\"Does nothing.\"\"\"
    assert pickle.loads(pickle.dumps(size)) == size
    assert dataclasses.replace(size, agents=4).agents == 4
    graph = topology.path(size.agents)
    study.run("idle", Network(graph), {i: Idle() for i in graph}, [], 2)
"""


def written(folder: Path, text: str, name: str = "mine") -> str:
    path = folder / f"{name}.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", ["mine", "json", "numpy", "netsim", "with-dash", "mit größe", "a.b"])
def test_a_file_may_postpone_its_annotations_and_have_any_name(name: str, tmp_path: Path) -> None:
    before = dict(sys.modules)
    scenario = catalogue.find_study(written(tmp_path, MODERN.replace("NAME", "scenario"), name))
    assert [each.name for each in scenario.parameters] == ["loss", "seed", "agents", "tags"]
    assert [each.kind for each in scenario.parameters] == [float, int, int, str]
    assert [each.optional for each in scenario.parameters] == [True, True, False, True]
    study = scenario.execute(agents=5)
    assert len(study.runs["idle"].agents) == 5
    # pandas and the like may have come in; nothing of ours stays, and nothing was replaced.
    assert not [key for key in sys.modules if "_scenario_" in key]
    assert all(sys.modules[key] is module for key, module in before.items())
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.py"], "no __pycache__"


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder, agents in (("a", 3), ("b", 7)):
        written(tmp_path / folder, MODERN.replace("NAME", "mine").replace("agents: int = 3", f"agents: int = {agents}"))
    found = [catalogue.find_study(str(tmp_path / folder / "mine.py")) for folder in "ab"]
    assert [len(each.execute().runs["idle"].agents) for each in found] == [3, 7]


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    # Within the same second, of the same length: what a cache of compiled files would not notice.
    for agents in (3, 7, 5):
        path = written(tmp_path, MODERN.replace("NAME", "mine").replace("agents: int = 3", f"agents: int = {agents}"))
        assert len(catalogue.find_study(path).execute().runs["idle"].agents) == agents


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\ndef mine(study:\n    pass\n", r"SyntaxError \(mine\.py, line 2\): '\(' was never closed"),
        ("def mine(study):\n  pass\n pass\n", r"IndentationError \(mine\.py, line 3\): "),
        ("import json\nimport no_such_module\n", r"ModuleNotFoundError \(mine\.py, line 2\): No module named 'no_such"),
        ("from netsim import Agnet\n", r"ImportError \(mine\.py, line 1\): cannot import name 'Agnet'"),
        ("def f():\n    return 1 / 0\n\nf()\n", r"ZeroDivisionError \(mine\.py, line 2\): division by zero"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError \(mine\.py, line 2\): "),
        ("raise ValueError('a\\nb')\n", r"ValueError \(mine\.py, line 1\): a b$"),
        ("raise ValueError\n", r"ValueError \(mine\.py, line 1\): no message$"),
        ("import sys\nsys.exit('no')\n", r"SystemExit \(mine\.py, line 2\): no$"),
        ("from netsim import Link\nLink(loss=2)\n", r"BadInput \(mine\.py, line 2\): loss = 2: must be"),
        ("def f():\n    f()\nf()\n", r"RecursionError \(mine\.py, line 2\): "),
        ("x = '\0'\n", r"(SyntaxError|ValueError).*: source code"),
        ("(" * 5000 + ")" * 5000, r"\w+Error"),
    ],
)
def test_a_file_that_does_not_run_is_refused_with_its_line(text: str, says: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInput, match=rf"^scenario = (?!.*\n).*: must be a Python file that runs; {says}"):
        catalogue.find_study(path)
    assert not [key for key in sys.modules if "_scenario_" in key]


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(b"x = '\xff'\n")
    with pytest.raises(BadInput, match=r"^scenario = (?!.*\n).*: must be a Python file that runs; SyntaxError"):
        catalogue.find_study(str(tmp_path / "mine.py"))
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(BadInput, match="an existing Python file"):
        catalogue.find_study(str(tmp_path / "folder.py"))


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        ("study, *, agents: int | str = 3", "'agents' the type int"),
        ("study, *, agents: list[int] = 3", "'agents' the type int"),
        ("study, *, agents: 'Missing' = 3", "types that can be found; NameError: name 'Missing'"),
        ("study, *, out: str = 'x'", "'out' another name"),
        ("study, *, trace: bool = False", "'trace' another name"),
        ("study, *, help: bool = False", "'help' another name"),
        ("study, *, reporter: int = 0", "'reporter' another name"),
        ("study, **more: int", "'more' a default"),
    ],
)
def test_a_parameter_that_can_be_no_flag_is_refused(signature: str, says: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"def mine({signature}) -> None:\n    pass\n")
    with pytest.raises(BadInput, match=rf"^scenario = (?!.*\n).*: must (have|give its parameter) {says}"):
        catalogue.find_study(path)


def test_a_parameter_and_a_field_of_one_name_are_refused(tmp_path: Path) -> None:
    text = MODERN.replace("NAME", "mine").replace("loss: float | None = None", "agents: int = 3")
    with pytest.raises(BadInput, match="must have one parameter 'agents', not 2"):
        catalogue.find_study(written(tmp_path, text))
