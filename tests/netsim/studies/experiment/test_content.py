"""A cell's key depends only on its content: everything that changes a result changes the key, and nothing else does."""

import functools
import importlib
import json
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import Experiment, Link, Links, Method, topology
from netsim.agents import DKLA, DPSGD, RunningSums
from netsim.coders import ErrorFeedback, TopK, Uniform
from netsim.errors import BadInput
from netsim.studies.experiment.command import experiment_in
from netsim.studies.experiment.content import content
from netsim.wire.coded import Coder
from tests.netsim.studies.experiment.parts import Counts, counting, small
from tests.parts import every


def told(part: Any) -> str:
    return json.dumps(content(part), sort_keys=True)


def same(one: Any, other: Any) -> bool:
    return told(one) == told(other)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes a user's module and imports it, replacing an earlier version."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def make(text: str, name: str = "mine") -> types.ModuleType:
        name = f"{name}_of_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(text.replace("NAME", tmp_path.name))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        importlib.invalidate_caches()
        names.append(name)
        return importlib.reload(sys.modules[name]) if name in sys.modules else importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)


# --- what changes a key -----------------------------------------------------------------------------------------------


def scaled(function: Callable[[Any], Any], factor: float) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def inner(x: Any) -> Any:
        return factor * function(x)

    return inner


def shifted(function: Callable[[Any], Any], factor: float) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def inner(x: Any) -> Any:
        return factor + function(x)

    return inner


def plain(x: Any) -> Any:
    return x


def closing(a: Any, b: Any) -> Callable[[Any], Any]:
    return lambda x: (a, b, x)


def with_default(value: float) -> Callable[[float], float]:
    def inner(x: float, factor: float = value) -> float:
        return factor * x

    return inner


def agents_that(step: int, base: type[netsim.Agent] = netsim.Agent) -> type[netsim.Agent]:
    class Mine(base):  # type: ignore[misc, valid-type]
        async def run(self) -> None:
            self.total = step

    return Mine


def agents_with(value: Any) -> type[netsim.Agent]:
    class Mine(netsim.Agent):
        step = value

        def __init__(self, factor: float = value) -> None:
            self.factor = factor

    return Mine


def agents_by(base: type[Any]) -> type[Any]:
    class Mine(base):  # type: ignore[misc]
        pass

    return Mine


def agents_with_a_property(value: int) -> type[netsim.Agent]:
    class Mine(netsim.Agent):
        @property
        def step(self) -> int:
            return value

        @staticmethod
        def given() -> int:
            return value

    return Mine


class Factor:
    """A decorator that takes a parameter."""

    def __init__(self, function: Callable[[Any], Any], factor: float) -> None:
        self.factor = factor
        functools.update_wrapper(self, function)

    def __call__(self, x: Any) -> Any:
        return self.factor * self.__wrapped__(x)  # type: ignore[attr-defined]


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value

    def measure(self, agents: Any) -> dict[str, float]:
        return {"value": self.value}


@dataclass
class Drawn:
    scale: InitVar[float]
    table: float = field(init=False)

    def __post_init__(self, scale: float) -> None:
        self.table = 2 * scale


@dataclass(frozen=True)
class Base:
    x: int = 0


class More(Base):
    def __init__(self, more: int) -> None:
        super().__init__()
        object.__setattr__(self, "more", more)


class Doubling(dict[str, int]):
    def __getitem__(self, name: str) -> int:
        return 2 * super().__getitem__(name)


class Tripling(dict[str, int]):
    def __getitem__(self, name: str) -> int:
        return 3 * super().__getitem__(name)


Tripling.__qualname__ = Tripling.__name__ = "Doubling"


class Pair(NamedTuple):
    a: int
    b: int


def partial_of(*given: Any) -> Any:
    made = functools.partial(plain, *given)
    functools.update_wrapper(made, plain)
    return made


class Forgets(Coder):
    def __init__(self, bits: int) -> None:
        self.levels = min(bits, 4)

    def encode(self, vector: Any, rng: Any = None, /) -> Any:
        return np.asarray(vector)


# Several lambdas in one line, as in a mapping of methods, cannot be distinguished by line numbers.
ONE, TWO = {"a": lambda x: x, "b": lambda x: x + 1}, [lambda x: 1, lambda x: 2]


def executed(text: str, **names: Any) -> Any:
    exec(text, names)
    return names["made"]


def other_order() -> tuple[Any, Any]:
    one, two = nx.Graph(), nx.Graph()
    for graph, edges in ((one, [(0, 2), (1, 2), (0, 1)]), (two, [(1, 2), (0, 2), (0, 1)])):
        graph.add_nodes_from(range(3))
        graph.add_edges_from(edges)
    return one, two


PAIRS: dict[str, tuple[Any, Any]] = {
    "lambdas in one line": (ONE["a"], ONE["b"]),
    "lambdas in one line, constants": (TWO[0], TWO[1]),
    "decorators": (scaled(plain, 2), shifted(plain, 2)),
    "a decorator's argument": (scaled(plain, 2), scaled(plain, 3)),
    "a decorator that is a class": (Factor(plain, 2), Factor(plain, 3)),
    "closure": (closing(1, 2), closing(1, 3)),
    "None in a closure": (closing(None, 1), closing(1, None)),
    "default": (with_default(1.0), with_default(2.0)),
    "closure of a class's method": (agents_that(1), agents_that(2)),
    "closure of a property": (agents_with_a_property(1), agents_with_a_property(2)),
    "base of a class in a function": (agents_by(Counts), agents_by(netsim.Agent)),
    "value of a class in a function": (agents_with(1), agents_with(2)),
    "array of a class in a function": (agents_with(np.zeros(3)), agents_with(np.ones(3))),
    "class by type": (type("Mine", (Counts,), {"step": 1}), type("Mine", (Counts,), {"step": 2})),
    "base of a class by type": (type("Mine", (Counts,), {}), type("Mine", (netsim.Agent,), {})),
    "function by exec": (executed("def made(x): return 1"), executed("def made(x): return 2")),
    "constants by exec": (executed("made = lambda x: x in {'a'}"), executed("made = lambda x: x in {'b'}")),
    "class by exec": (
        executed("class made:\n def f(s): return 1"),
        executed("class made:\n def f(s): return 2"),
    ),
    "value of a class by exec": (executed("class made:\n step = 1"), executed("class made:\n step = 2")),
    "static method by exec": (
        executed("class made:\n @staticmethod\n def f(): return 1"),
        executed("class made:\n @staticmethod\n def f(): return 2"),
    ),
    "a helper by exec": (
        executed("def helper(): return 1\ndef made(): return helper()"),
        executed("def helper(): return 2\ndef made(): return helper()"),
    ),
    "partials": (functools.partial(plain, 1), functools.partial(plain, 2)),
    "partials' names": (functools.partial(plain, a=1), functools.partial(plain, b=1)),
    "partials that look like their function": (partial_of(1), partial_of(2)),
    "methods of objects": (Holder(1).measure, Holder(2).measure),
    "methods of mappings": ({"a": 1}.get, {"a": 2}.get),
    "objects": (Holder(1), Holder(2)),
    "arrays in objects": (Holder(np.zeros(2)), Holder(np.ones(2))),
    "dataclass": (Base(1), Base(2)),
    "dataclass and its subclass": (Base(0), More(0)),
    "subclass of a dataclass": (More(1), More(2)),
    "InitVar": (Drawn(1.0), Drawn(2.0)),
    "kinds of mappings": (Doubling(a=1), Tripling(a=1)),
    "kinds of tuples": (Pair(1, 2), (1, 2)),
    "text and number": ("0.1", 0.1),
    "list and tuple": ([1, 2], (1, 2)),
    "True and text": (True, "True"),
    "bytes and text": (b"a", "b'a'"),
    "array's type": (np.zeros(2, np.float32), np.zeros(2, np.float64)),
    "array's shape": (np.zeros((2, 1)), np.zeros((1, 2))),
    "array of objects": (np.array([1, "a"], object), np.array([1, "b"], object)),
    "table": (pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": [1.0 + 2**-52]})),
    "table's types": (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": ["1"]})),
    "coders": (Uniform(4), Uniform(5)),
    "coders in coders": (ErrorFeedback(TopK(3)), ErrorFeedback(TopK(4))),
    "coders that forget": (Forgets(4), Forgets(8)),
    "coders' names": (ErrorFeedback(Uniform(4)), Uniform(4)),
    "graph's edges": (topology.ring(4), nx.path_graph(4)),
    "graph's weights": (nx.Graph([(0, 1, {"w": 1})]), nx.Graph([(0, 1, {"w": 2})])),
    "graph and digraph": (nx.Graph([(0, 1)]), nx.DiGraph([(0, 1)])),
    "order of neighbours": other_order(),
    "random numbers": (np.random.default_rng(0), np.random.default_rng(1)),
}


@every("name", PAIRS)
def test_two_parts_that_differ_have_two_contents(name: str) -> None:
    one, other = PAIRS[name]
    assert not same(one, other)
    # Comparison by address would also distinguish the pair above, but it must recognize equal parts.
    assert same(one, one)


def test_agents_may_hear_in_the_order_of_their_graph() -> None:
    """Graphs with the same edges in another order differ, because sums may differ in their last digits."""
    one, two = other_order()
    assert {*one.edges} == {*two.edges}
    assert list(one[2]) != list(two[2])


def test_parts_with_equal_content_made_twice_are_one() -> None:
    makers: list[Callable[[], Any]] = [
        lambda: scaled(plain, 2),
        lambda: Factor(plain, 2),
        lambda: agents_that(1),
        lambda: agents_with(np.zeros(3)),
        lambda: type("Mine", (Counts,), {"step": 1}),
        lambda: partial_of(1),
        lambda: Holder(np.arange(3)).measure,
        lambda: Drawn(1.0),
        lambda: Pair(1, 2),
        lambda: Forgets(4),
        lambda: topology.random_geometric(8, 0.5, seed=1),
        lambda: pd.DataFrame({"a": [1.5]}),
        lambda: executed("class made:\n def f(s): return s in {'a', 'b', 'c'}"),
        lambda: Method(DKLA, rho=0.1, duals=RunningSums(), coder=ErrorFeedback(TopK(3))),
        lambda: Links(link=Link(loss=0.1), compute=closing(1, 2)),
        lambda: netsim.Deployment({0: (0.0, 0.0), 1: (5.0, 0.0)}, sinks=[0], preset=netsim.presets.ieee802154()),
    ]
    for make in makers:
        assert same(make(), make())


def test_a_graph_of_functions_that_use_each_other_has_a_content_at_once() -> None:
    lines = [f"def f{i}(): return f{i + 1}(), g{i + 1}()\ndef g{i}(): return g{i + 1}(), f{i + 1}()" for i in range(28)]
    text = "\n".join([*lines, "def f28(): return made()\ndef g28(): return VALUE\ndef made(): return f0()"])
    assert not same(executed(f"VALUE = 1\n{text}"), executed(f"VALUE = 2\n{text}"))


@pytest.mark.slow
def test_keys_do_not_depend_on_the_order_of_sets() -> None:
    text = (
        "from netsim.studies.experiment.content import content\n"
        "names = {}\nexec(\"\"\"def f(x, words={'a', 'b', 'c', 'd'}): return x in {'e', 'f', 'g', 'h'}\"\"\", names)\n"
        "print(content([names['f'], {'one', 'two', 'three'}, lambda x: x in {'i', 'j', 'k'}]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", text], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


# --- files that are edited --------------------------------------------------------------------------------------------

MINE = """
import functools
import numpy as np
import netsim
from netsim import Experiment, Links, Method, topology
from netsim.agents import DPSGD, LocalProblem, Squared

NOISE = 0.1
TABLE = np.arange(3.0)
BOUNDS = {"low": [0.0, 1.0]}
seed = 5


def round(x):
    return x + 0.0


def truth(rng):
    return rng.normal(size=3) + TABLE + BOUNDS["low"][0]


@functools.cache
def noise(count):
    return round(NOISE) * np.ones(count)


def twice(function):
    @functools.wraps(function)
    def inner(*words, **named):
        return function(*words, **named)

    return inner


@twice
def problem(seed, agents=3):
    rng = np.random.default_rng(seed)
    w, costs = truth(rng), []
    for _ in range(agents):
        x = rng.normal(size=(4, 3))
        costs.append(LocalProblem(x, x @ w + noise(4), loss=Squared(), regularizer=1e-3))
    return costs, topology.ring(agents), gap


def gap(models):
    return {"gap": float((models**2).mean())}


class Slow(DPSGD):
    factor = 1.0


class Mine(Slow):
    def local_step(self):
        return self.factor * super().local_step()


def unused():
    return 0


def make():
    return Experiment(problem=problem, methods={"mine": Method(Mine, eta=0.1)}, rounds=2, seeds=[0])


experiment = make()
"""


def key_of(module: types.ModuleType) -> str:
    (cell,) = module.make().cells()
    return str(cell.key)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ TABLE", "- TABLE"),
        ("arange(3.0)", "arange(3.0) + 1"),
        ("NOISE = 0.1", "NOISE = 0.2"),
        ("[0.0, 1.0]", "[0.5, 1.0]"),
        ("x + 0.0", "x + 0.5"),
        ("round(NOISE) *", "2 * round(NOISE) *"),
        ("return function(*words, **named)", "return function(*words[::-1], **named)"),
        ("agents=3", "agents=4"),
        ("models**2", "models**4"),
        ("factor = 1.0", "factor = 0.5"),
        ("self.factor * super", "-self.factor * super"),
    ],
    ids=lambda text: text[:14],
)
def test_an_edited_helper_changes_the_key(module: Any, old: str, new: str) -> None:
    before = key_of(module(MINE))
    assert old in MINE
    assert key_of(module(MINE.replace(old, new))) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\nclass Slow", "\n# A comment.\n\nclass Slow"),
        ("return 0", "return 1"),
        ("seed = 5", "seed = 6"),
        ('"""', '"""'),
        ("agents=3", "agents=3"),
    ],
    ids=["comment", "unused", "a local's name", "nothing", "again"],
)
def test_what_is_edited_elsewhere_changes_no_key(module: Any, old: str, new: str) -> None:
    before = key_of(module(MINE))
    assert key_of(module(MINE.replace(old, new))) == before


@pytest.mark.parametrize(
    ("body", "imported"),
    [
        ("return helper.value()", "import helper_of_NAME as helper"),
        ("return value()", "from helper_of_NAME import value"),
        ("return value() + VALUE", "from helper_of_NAME import VALUE, value"),
        ("import helper_of_NAME\n    return helper_of_NAME.value()", ""),
        ("from helper_of_NAME import value\n    return value()", ""),
    ],
    ids=["module", "function", "value", "module in a function", "function in a function"],
)
def test_a_helper_in_another_file_is_a_part_of_the_key(module: Any, body: str, imported: str) -> None:
    text = f"{imported}\n{MINE}".replace("return rng.normal(size=3) + TABLE", f"{body}\n    return rng.normal()")
    helper = "def inner():\n    return FIRST\nFIRST = VALUE = 1\ndef value():\n    return inner()\n"
    module(helper, "helper")
    before = key_of(module(text))
    assert key_of(module(text)) == before
    module(helper.replace("FIRST = VALUE = 1", "FIRST = VALUE = 2"), "helper")
    assert key_of(module(text)) != before


def test_a_value_that_another_file_sets_is_a_part_of_the_key(module: Any) -> None:
    helper = module("RATE = 0.1\n", "helper")
    made = module("import helper_of_NAME as helper\n" + MINE.replace("x + 0.0", "x + helper.RATE"))
    before = key_of(made)
    helper.RATE = 0.2
    assert key_of(made) != before


def test_a_name_that_is_bound_anew_changes_the_key_of_the_same_object(module: Any) -> None:
    made = module(MINE)
    experiment = made.experiment
    (before,) = (cell.key for cell in experiment.cells())
    made.TABLE[0] = 7.0
    (after,) = (cell.key for cell in experiment.cells())
    made.truth = lambda rng: 2 * np.ones(3)
    (last,) = (cell.key for cell in experiment.cells())
    assert len({before, after, last}) == 3


def test_a_file_has_the_same_keys_however_it_is_run(module: Any, tmp_path: Path) -> None:
    text = MINE + (
        "\ndef where():\n    return __file__, __name__\n\n"
        "if __name__ == '__main__':\n    seed, w, x, costs = 1, 2, 3, experiment\n"
        "    print(next(experiment.cells()).key)\n"
    )
    text = text.replace("w, costs = truth(rng), []", "w, costs, _ = truth(rng), [], where")
    made = module(text)
    found = experiment_in(made.__file__)
    assert found is not None
    with found.known():
        (by_netsim,) = (cell.key for cell in found.make().cells())
    main = types.ModuleType("__main__")
    main.__file__ = made.__file__
    printed: list[str] = []
    vars(main)["print"] = printed.append
    before = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        exec(compile(text.replace("NAME", tmp_path.name), made.__file__, "exec"), vars(main))
    finally:
        sys.modules["__main__"] = before
    assert {key_of(made), by_netsim} == {*printed}


# --- what changes no key ----------------------------------------------------------------------------------------------


def keys(experiment: Experiment) -> list[str]:
    return [cell.key for cell in experiment.cells()]


def test_the_order_of_arguments_changes_no_key() -> None:
    one, two = Method(DKLA, rho=0.1, duals=RunningSums()), Method(DKLA, duals=RunningSums(), rho=0.1)
    assert keys(small(methods=one)) == keys(small(methods=two))
    both = [lambda setup, node: 1.0]
    assert same({"a": both[0], "b": both[0]}, {"b": both[0], "a": both[0]})


def test_numbers_of_numpy_are_numbers() -> None:
    plainly = small(methods=Method(DPSGD, eta=0.1), seeds=[0, 1], rounds=5)
    numpys = small(methods=Method(DPSGD, eta=np.float64(0.1)), seeds=np.arange(2), rounds=np.int64(5))
    assert keys(plainly) == keys(numpys)
    assert same({"a": 1, "b": 0.5, "c": True}, {"b": np.float32(0.5), "c": np.bool_(True), "a": np.int16(1)})


def test_names_and_labels_change_no_key() -> None:
    one = small(methods={"a": Method(DPSGD, eta=0.1)})
    two = small(methods={"b": Method(DPSGD, eta=0.1, label={"kind": "x"})}, names={"eta": "method.eta"})
    assert keys(one) == keys(two)


def test_every_setting_of_a_cell_changes_its_key() -> None:
    kept = keys(counting())
    for more in (
        {"rounds": 4},
        {"seeds": [1]},
        {"until": 5.0},
        {"sample": 0.5},
        {"measure": []},
        {"after": [lambda run: {}]},
        {"ending": netsim.Ending(factor=20.0)},
        {"networks": Links(graph=topology.ring(4))},
        {"networks": Links(graph=topology.ring(3), link=Link(loss=0.1))},
        {"networks": Links(graph=topology.ring(3), round_period=2.0)},
        {"methods": Method(Counts, step=2)},
    ):
        assert keys(counting(**more)) != kept, more


def test_what_has_no_value_is_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"must have a value that can be recorded"):
        keys(counting(methods=Method(Counts, step=Holder(sys._getframe()))))
