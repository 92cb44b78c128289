"""Isolated agents share no state that their file defines, and otherwise behave like normal agents."""

import gc
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from netsim import BadInput, Link, Network, topology
from netsim.testing import Listener, Talker, isolated, play

FILE = """
from dataclasses import dataclass, field
from netsim import Agent

HEARD = []

def closed():
    found = []
    return lambda: found

CLOSED = closed()

class Box:
    found = []

@dataclass(eq=False)
class Sharing(Agent):
    ways: list = field(default_factory=list)
    given: list = field(default_factory=list)
    box: Box = field(default_factory=Box)

    def default(self, found=[]):
        return found

    async def run(self):
        ways = {
            "module": HEARD, "closure": CLOSED(), "attribute": self.box.found, "default": self.default(),
            "given": self.given,
        }
        self.ways += [way for way, found in ways.items() if found]
        for found in ways.values():
            found.append(self.name)
        await self.broadcast("ways", len(self.ways))

class Honest(Agent):
    def __init__(self, value):
        self.value = value

    async def run(self):
        async for _ in self.rounds(3):
            await self.broadcast("value", self.value)
            self.value += sum(frame.payload for frame in await self.collect())
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Any]:
    """Return a user's module after importing it."""
    (tmp_path / "shares.py").write_text(FILE)
    yield imported(tmp_path / "shares.py")
    sys.modules.pop("shares")


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def played(agents: Any) -> str:
    return Network(topology.path(2), Link(latency=0.1)).run(agents).trace_hash


def test_agents_share_nothing_that_their_file_defines(file: Any) -> None:
    given: list[Any] = []
    agents = {i: file.Sharing(given=given) for i in range(2)}
    alone = isolated(agents)
    apart = played(alone)
    assert [agent.ways for agent in alone.values()] == [[], []]
    # The run changed neither the original agents nor the objects that they share.
    assert not given
    assert played(agents) != apart
    assert [agent.ways for agent in agents.values()] == [[], ["module", "closure", "attribute", "default", "given"]]


def test_a_class_makes_agents_that_do_not_meet_in_their_constructors(file: Any, tmp_path: Path) -> None:
    text = FILE.replace(
        "    def __init__(self, value):\n",
        "    made = []\n\n    def __init__(self, value):\n        self.made.append(value)\n",
    )
    (tmp_path / "shares.py").write_text(text)
    kind = imported(tmp_path / "shares.py").Honest
    make = isolated(kind)
    assert [make(value=value).made for value in (1, 2)] == [[1], [2]]
    assert [kind(value).made for value in (1, 2)] == [[1, 2]] * 2


def test_a_run_of_honest_agents_is_the_same(file: Any) -> None:
    agents = {0: file.Honest(1), 1: file.Honest(2)}
    alone = isolated(agents)
    assert type(alone[0]) is not type(alone[1])
    assert played(alone) == played(agents)
    assert [agent.value for agent in alone.values()] == [agent.value for agent in agents.values()]


def test_what_an_agent_holds_is_of_its_own_module(file: Any) -> None:
    alone = isolated({0: file.Sharing()})[0]
    assert type(alone.box).__module__ == type(alone).__module__ != file.Box.__module__
    assert type(alone.box) is not file.Box
    assert Path(sys.modules[type(alone).__module__].__file__ or "").name == "shares.py"


def test_modules_are_forgotten_with_their_agents(file: Any) -> None:
    before = set(sys.modules)
    agents = isolated({i: file.Honest(i) for i in range(5)})
    made = isolated(file.Honest)(3)
    assert len(sys.modules.keys() - before) == 6
    del agents, made
    gc.collect()
    assert sys.modules.keys() - before == set()


def test_agents_of_netsim_are_copied() -> None:
    agents = isolated({0: Talker([(0.5, "hello")]), 1: Listener()})
    run = play(*agents.values())
    assert run.agents[1].heard == [(0.5, 0, "hello")]
    assert type(agents[0]) is Talker
    assert isolated(Listener)().frames == []


def test_what_cannot_be_isolated_is_refused_in_one_line(file: Any, tmp_path: Path) -> None:
    class Inner(Listener):
        pass

    for what in (Inner, {0: Inner()}):
        with pytest.raises(BadInput, match=r"agents: .*Inner must be defined at the top of a file"):
            isolated(what)  # type: ignore[arg-type]
    agent = file.Honest(1)
    agent.generator = iter(range(3)).__next__, (i for i in range(3))
    with pytest.raises(BadInput, match=r"agents: agent 7 cannot be copied to be isolated .*generator"):
        isolated({7: agent})
    with pytest.raises(BadInput, match=r"agents\[0\] = 3: must be an agent"):
        isolated({0: 3})  # type: ignore[dict-item]
    with pytest.raises(BadInput, match=r"agents = .*dict.*: must be a class of agents"):
        isolated(dict)  # type: ignore[type-var]
    (tmp_path / "within.py").write_text(FILE + "\nfrom netsim.testing import isolated\nMADE = isolated(Honest)(1)\n")
    with pytest.raises(BadInput, match=r"agents: .*within.py isolates them as it is executed"):
        imported(tmp_path / "within.py")
    del sys.modules["within"]
