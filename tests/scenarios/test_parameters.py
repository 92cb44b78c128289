"""Every parameter of every study is read, documented, and has one meaning; users' methods can be added."""

import ast
import dataclasses
import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from netsim import AgentError, BadInput, NetsimError
from netsim.scenarios import dynamic, online
from netsim.scenarios.coke import CokeMethods, experiment
from netsim.studies import Study, catalogue
from netsim.studies.terminal import Reporter
from tests.command import ROOT
from tests.parts import every

pytestmark = pytest.mark.usefixtures("all_undrawn")

STUDIES = list(catalogue.listed())
SMALL = {"agents": 4, "rounds": 20, "features": 8}


# --- parameters -------------------------------------------------------------------------------------------------------


def read_in(tree: ast.AST) -> set[str]:
    """Return the names read as variables or attributes, and the names that a loop passes to getattr."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Tuple):
            found |= {
                each.value for each in node.iter.elts if isinstance(each, ast.Constant) and type(each.value) is str
            }
    return found


@cache
def read() -> dict[Path, set[str]]:
    """Return the names read in each file of the studies."""
    files = [*(ROOT / "scenarios").rglob("*.py"), ROOT / "netsim" / "studies" / "seeds.py"]
    return {path: read_in(ast.parse(path.read_text())) for path in files}


@every("name", STUDIES)
def test_every_parameter_is_read(name: str) -> None:
    study = catalogue.find_study(name)
    groups = {field.name for _, group in study.groups for field in dataclasses.fields(group)}
    everywhere = set().union(*read().values())
    # An experiment's short names are paths to parameters of its parts, or switches that request a measure.
    paths = {each.name for each in getattr(study.function, "named_parameters", list)()}
    for parameter in study.parameters:
        assert parameter.name in everywhere | paths, parameter.name
    own = read()[Path(inspect.unwrap(study.function).__code__.co_filename).resolve()] | paths
    for parameter in study.parameters:
        assert parameter.name in groups or parameter.name in own, parameter.name


def test_studies_do_not_read_what_they_record() -> None:
    for path in (ROOT / "scenarios").rglob("*.py"):
        assert "study.settings" not in path.read_text(), path


@every("name", STUDIES)
def test_every_parameter_is_described(name: str) -> None:
    for parameter in catalogue.find_study(name).parameters:
        assert len(parameter.description) > 8, parameter.name


def test_one_name_for_one_thing() -> None:
    found: dict[str, set[type]] = {}
    for name in STUDIES:
        for parameter in catalogue.find_study(name).parameters:
            found.setdefault(parameter.name, set()).add(parameter.kind)
    assert {"losses", "loss_function", "draws", "seeds"} & set(found) == set()
    # Step sizes are numbers in most studies, but some studies take a list of them to compare.
    assert {name for name, kinds in found.items() if len(kinds) > 1} <= {"eta", "gamma"}


@pytest.mark.parametrize(
    ("name", "data", "field", "value"),
    [
        ("coke", "synthetic", "sigma", 1.0),
        ("coke", "airquality", "features", 200),
        ("coke", "nobody's", "regularizer", 1e-3),
        ("online", "energy", "sigma", 0.1),
        ("dynamic", "drift", "regularizer", 1e-3),
    ],
)
def test_what_is_left_open_is_as_published_and_help_says_so(name: str, data: str, field: str, value: float) -> None:
    study = catalogue.find_study(name)
    group = next(group for _, group in study.groups if field in {each.name for each in dataclasses.fields(group)})
    assert getattr(group().resolved(data), field) == value
    (parameter,) = [each for each in study.parameters if each.name == field]
    assert parameter.default is None
    assert f"{value:g}" in parameter.description.partition("[default: ")[2]


def test_what_methods_are_given_is_as_published_and_help_says_so() -> None:
    assert experiment(data="airquality").values("threshold") == [0.9]
    assert experiment(data="airquality", compared=CokeMethods(bits=3)).values("decay") == [0.97, 0.97]
    assert online.experiment(data="energy").values("decay") == [0.9]
    assert online.experiment(data="airquality").values("eta") == [2.0, 2.0, 2.0]
    assert dynamic.experiment(data="twitter").values("bits") == [6, 6]
    (parameter,) = [each for each in catalogue.find_study("coke").parameters if each.name == "decay"]
    assert parameter.default is None
    assert parameter.description.endswith("[default: 0.95]")


def test_what_was_chosen_is_recorded_once_and_repeats_the_run() -> None:
    study = catalogue.find_study("coke").execute(**SMALL)
    assert {"rho": 0.01, "threshold": 1.0, "sigma": 1.0}.items() <= study.settings.items()
    again = catalogue.find_study("coke").execute(**study.settings)
    assert again.trace_hash == study.trace_hash
    assert again.settings == study.settings


# --- a method of one's own --------------------------------------------------------------------------------------------

PLAIN = """
from netsim import Agent
import numpy as np

class Alone(Agent):
    def __init__(self, cost, rounds, *, eta, weights, slow=0.5):
        self.cost, self.count, self.eta, self.slow, self.weights = cost, rounds, eta, slow, weights
        self.theta = np.zeros(cost.size)

    async def run(self):
        async for _ in self.rounds(self.count):
            self.theta = self.theta - self.slow * self.eta * self.cost.gradient(self.theta)
"""

ONLINE = """
from netsim import Agent
import numpy as np

class Alone(Agent):
    def __init__(self, cost, rounds, *, step):
        self.cost, self.count, self.step = cost, rounds, step
        self.theta = np.zeros(cost.size)

    async def run(self):
        async for _ in self.rounds(self.count):
            self.cost.draw(self.theta)
            self.theta = self.theta - self.step * self.cost.gradient(self.theta)
"""


def written(folder: Path, text: str, name: str = "alone") -> str:
    (folder / f"{name}.py").write_text(text)
    return str(folder / f"{name}.py")


@pytest.mark.parametrize(
    ("name", "text", "column"),
    [("coke", PLAIN, "train_mse"), ("frontier", PLAIN, "train_mse"), ("online", ONLINE, "running_mse")],
)
def test_a_plain_agent_of_the_users_is_compared(name: str, text: str, column: str, tmp_path: Path) -> None:
    options = {"methods": "DKLA", "coders": "float64", "censors": "none"} if name == "frontier" else {}
    study = catalogue.find_study(name).execute(**SMALL, **options, method=written(tmp_path, text))
    assert list(study.runs)[-1] == "alone"
    rounds = study.rounds[study.rounds["algorithm"] == "alone"]
    assert len(rounds) == 20
    assert rounds[column].iloc[-1] < rounds[column].iloc[0]
    assert rounds["transmissions"].iloc[-1] == 0
    assert any(note.startswith("alone sent nothing") for note in study.notes) or name == "frontier"


def test_the_example_is_compared_over_links_that_lose() -> None:
    path = str(ROOT / "docs" / "examples" / "mine.py")
    study: Study = catalogue.find_study("coke").execute(**SMALL, method=path, loss=0.1)
    assert list(study.runs) == ["CTA", "DKLA", "COKE", "mine"]
    last = study.rounds.groupby("algorithm").last()
    assert last.loc["mine", "transmissions"] == 4 * 20
    assert last.loc["mine", "lost"] > 0
    assert last.loc["mine", "train_mse"] > 0


def test_the_frontier_draws_methods_that_speak(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "examples" / "mine.py").read_text()
    files = ",".join(written(tmp_path, text, name) for name in ("one", "two"))
    options = {"methods": "DKLA", "coders": "float64", "censors": "none", "method": files}
    study = catalogue.find_study("frontier").execute(**SMALL | options | {"rounds": 60})
    names = [text.get_text() for legend in study.figures["frontier"].legends for text in legend.get_texts()]
    assert {"one", "two"} <= set(names)


def test_a_method_for_batches_is_told_to_draw_from_a_stream(tmp_path: Path) -> None:
    path = str(ROOT / "docs" / "examples" / "mine.py")
    with pytest.raises(AgentError, match=r"mine.py, line \d+\): cost: must have a sample; call cost.draw\(theta\)"):
        catalogue.find_study("online").execute(**SMALL, method=path)


def test_a_method_without_a_step_is_told_so(tmp_path: Path) -> None:
    text = "from netsim.agents import Diffusion\n\n\nclass Nothing(Diffusion):\n    pass\n"
    with pytest.raises(AgentError, match="Nothing must define local_step"):
        catalogue.find_study("coke").execute(**SMALL, method=written(tmp_path, text))


def test_several_files(tmp_path: Path) -> None:
    files = ",".join(written(tmp_path, PLAIN, name) for name in ("one", "two"))
    study = catalogue.find_study("coke").execute(**SMALL, algorithms="DKLA", method=files)
    assert list(study.runs) == ["DKLA", "one", "two"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must define one subclass of netsim.Agent; it has 0"),
        (PLAIN + PLAIN.replace("Alone", "Other"), "it has 2"),
        (PLAIN.replace("slow=0.5", "slow"), "a parameter of Alone without a default = 'slow': must be one of"),
        (PLAIN.replace("cost, rounds, *,", "*, cost, rounds,"), "called as Alone(cost, rounds)"),
        ("import nothing_of_the_kind", "must be a Python file that runs; ModuleNotFoundError (alone.py, line 1)"),
        ("class", "must be a Python file that runs; SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        catalogue.find_study("coke").execute(**SMALL, method=written(tmp_path, text))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match=r"method = 'nowhere\.py': must be an existing Python file"):
        catalogue.find_study("coke").execute(**SMALL, method="nowhere.py")


def test_what_the_users_class_raises_is_told_with_its_round(tmp_path: Path) -> None:
    text = PLAIN.replace("self.cost.gradient(self.theta)", "self.cost.gradint(self.theta)")
    with pytest.raises(AgentError, match="raised AttributeError in round 1"):
        catalogue.find_study("coke").execute(**SMALL, algorithms="DKLA", method=written(tmp_path, text))


SILENT = (
    PLAIN.replace("self.rounds(self.count)", "_few(self)")
    + """
async def _few(agent):
    return
    yield
"""
)


@pytest.mark.parametrize("name", ["coke", "online", "dynamic", "frontier"])
def test_a_method_that_takes_part_in_no_round_is_refused_for_that(name: str, tmp_path: Path) -> None:
    options = {"methods": "DKLA", "coders": "float64", "censors": "none"} if name == "frontier" else {}
    if name == "dynamic":
        options = {"compare_bits": ""}
    with pytest.raises(BadInput, match=r"alone took part in no round: run\(\) must iterate with async for k in"):
        catalogue.find_study(name).execute(**SMALL, **options, method=written(tmp_path, SILENT))


def test_an_online_method_that_takes_no_sample_is_told_so(tmp_path: Path) -> None:
    text = ONLINE.replace("self.cost.draw(self.theta)", "pass").replace("self.cost.gradient(self.theta)", "0.0")
    with pytest.raises(NetsimError, match=r"must take one in each round, by self\.cost\.draw\(theta\)"):
        catalogue.find_study("online").execute(**SMALL, method=written(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "own", "algorithm"),
    [("coke", "algorithms", "CTA"), ("online", "algorithms", "DDKL"), ("frontier", "methods", "DDKL")],
)
def test_a_file_with_the_name_of_another_method_is_refused_before_anything_runs(
    name: str, own: str, algorithm: str, tmp_path: Path
) -> None:
    study = catalogue.find_study(name)
    with pytest.raises(BadInput, match=f"must have another file name: a method '{algorithm}' already exists"):
        study.execute(**SMALL, **{own: algorithm}, method=written(tmp_path, PLAIN, algorithm))
    files = f"{written(tmp_path, PLAIN)},{written(tmp_path, PLAIN)}"
    with pytest.raises(BadInput, match="must have another file name: a method 'alone' already exists"):
        study.execute(**SMALL, method=files)


def test_a_method_of_the_users_that_learns_is_drawn_in_the_frontier(tmp_path: Path) -> None:
    text = "from netsim.agents import DKLA\n\n\nclass Mine(DKLA):\n    pass\n"
    options = {"methods": "DKLA", "coders": "float64", "censors": "none"}
    study = catalogue.find_study("frontier").execute(**SMALL, **options, method=written(tmp_path, text, "mine"))
    assert "mine" in list(study.tables["combinations"]["method"])
    assert "frontier" in study.figures


# --- what a method of one's own is given ------------------------------------------------------------------------------

OWN = """
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from netsim.agents import DKLA, ODKLA, Censor, CodedSums, Diffusion, Duals, EdgeDuals, Periodic, RunningSums
from netsim.coders import Coder, Uniform

@dataclass(eq=False, repr=False)
class Mine({base}):
    {body}
"""
COMPARED = {
    "coke": {"algorithms": "DKLA"},
    "frontier": {"methods": "DKLA", "coders": "float64", "censors": "none"},
    "online": {"algorithms": "ODKLA"},
    "dynamic": {"algorithms": "ODKLA", "compare_bits": ""},
}
ADMM = {"coke": "DKLA", "frontier": "DKLA", "online": "ODKLA", "dynamic": "ODKLA"}


def with_own(name: str, folder: Path, body: str, base: str | None = None, **more: Any) -> Study:
    """Run a study with a user's method beside its base class."""
    file = written(folder, OWN.format(base=base or ADMM[name], body=body), "mine")
    return catalogue.find_study(name).execute(**SMALL, **COMPARED[name], method=file, **more)


@pytest.mark.parametrize("name", COMPARED)
def test_a_coder_of_its_own_codes_what_it_sends(name: str, tmp_path: Path) -> None:
    study = with_own(name, tmp_path, "coder: Coder = field(default_factory=lambda: Uniform(4))")
    last = study.rounds.groupby("algorithm").last().loc["mine"]
    elements = 8 if ADMM[name] == "DKLA" else 16  # one cosine per feature, or a sine and a cosine
    assert last["transmissions"] == 4 * 20
    assert last["payload_bits"] == 4 * 20 * (4 * elements + 32)


@pytest.mark.parametrize("name", COMPARED)
def test_duals_and_a_censor_of_its_own_are_used(name: str, tmp_path: Path) -> None:
    study = with_own(name, tmp_path, "duals: Duals = RunningSums()\n    censor: Censor = Periodic(2)")
    last = study.rounds.groupby("algorithm").last().loc["mine"]
    elements = 8 if ADMM[name] == "DKLA" else 16
    assert last["transmissions"] == 4 * 10
    assert last["payload_bits"] == 4 * 10 * 2 * 64 * elements, "a state, and the running sum of states"


def test_what_it_makes_of_the_unheard_and_weights_of_its_own_are_used(tmp_path: Path) -> None:
    step = "def local_step(self):\n        return self.combined()"
    weights = "weights: Mapping = field(default_factory=lambda: dict.fromkeys(range(4), 0.25))"
    body = f'unheard: str = "dropped"\n    {weights}\n    {step}'
    agents: Any = with_own("coke", tmp_path, body, base="Diffusion").runs["mine"].agents
    assert {agent.unheard for agent in agents.values()} == {"dropped"}
    assert all(agent.weights == dict.fromkeys(range(4), 0.25) for agent in agents.values())


@pytest.mark.parametrize(
    ("name", "given"), [("coke", "Geometric(v=1.0, mu=0.95"), ("dynamic", "PowerLaw(v=0.1, mu=0.95")]
)
def test_what_it_leaves_open_is_given_by_the_study(name: str, given: str, tmp_path: Path) -> None:
    study = with_own(name, tmp_path, "_: KW_ONLY\n    censor: Censor = field()")
    assert study.origin["methods"]["mine"]["censor"].startswith(given)
    agent: Any = study.runs["mine"].agents[0]
    assert repr(agent.censor).startswith(given)


@pytest.mark.parametrize("name", COMPARED)
def test_what_each_method_was_made_with_is_printed_and_kept(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "boost: float = 0.5\n    coder: Coder = field(default_factory=lambda: Uniform(4))"
    study = with_own(name, tmp_path, body, reporter=Reporter())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("mine: ")]
    kept = json.loads((study.save(tmp_path / "out") / "settings.json").read_text())["methods"]
    assert list(kept) == list(study.runs)
    assert (
        kept["mine"].items()
        >= {
            "class": "Mine",
            "boost": 0.5,
            "coder": "Uniform(bits=4)",
            "censor": "Always()",
            "duals": "Accumulated()",
        }.items()
    )
    agent: Any = study.runs["mine"].agents[0]
    assert kept["mine"]["rho"] == agent.rho
    assert len(lines) == 1
    for part in ("Mine", "boost 0.5", "coder Uniform(bits=4)", "censor Always()", f"rho {agent.rho}"):
        assert part in lines[0]


def test_a_remedy_is_for_duals_that_its_class_leaves_as_published(tmp_path: Path) -> None:
    kept = {}
    for name, body in {
        "plain": "pass",
        "own": "duals: Duals = CodedSums()",
        "coded": "coder: Coder = Uniform(4)",
    }.items():
        (tmp_path / name).mkdir()
        study = with_own("coke", tmp_path / name, body, remedy="edge-duals")
        kept[name] = study.origin["methods"]["mine"]["duals"].partition("(")[0]
    assert kept == {"plain": "EdgeDuals", "own": "CodedSums", "coded": "Accumulated"}


@pytest.mark.parametrize("line", ["coder = Uniform(4)", "coder: Coder = Uniform(4)"])
def test_a_default_that_python_would_not_heed_is_refused(line: str, tmp_path: Path) -> None:
    text = OWN.replace("@dataclass(eq=False, repr=False)\n", "").format(base="DKLA", body=line)
    with pytest.raises(
        BadInput,
        match=r"^method = .*: Mine.coder must be declared as a field, with a type "
        r"annotation, in a class decorated with @data",
    ):
        catalogue.find_study("coke").execute(**SMALL, method=written(tmp_path, text))


def test_a_class_that_hands_on_its_own_is_taken(tmp_path: Path) -> None:
    made = (
        "def __init__(self, cost, rounds, *, rho):\n        super().__init__(cost, rounds, rho=rho, coder=self.coder)"
    )
    text = OWN.replace("@dataclass(eq=False, repr=False)\n", "").format(
        base="DKLA", body=f"coder = Uniform(4)\n    {made}"
    )
    study = catalogue.find_study("coke").execute(**SMALL, algorithms="DKLA", method=written(tmp_path, text, "mine"))
    assert study.rounds.groupby("algorithm").last().loc["mine", "payload_bits"] == 4 * 20 * (4 * 8 + 32)


@pytest.mark.slow
def test_only_what_the_study_gives_is_tuned(tmp_path: Path) -> None:
    file = written(tmp_path, ONLINE)
    censored = OWN.format(base="ODKLA", body="_: KW_ONLY\n    censor: Censor = field()\n    rho: float = 0.25")
    files = f"{file},{written(tmp_path, censored, 'mine')}"
    study = catalogue.find_study("online").execute(
        **SMALL | {"rounds": 40}, algorithms="ODKLA", tune=True, method=files
    )
    tried = study.tables["tuning"].groupby("algorithm", sort=False).size()
    assert tried["alone"] == 6
    assert tried["mine"] == 6
    assert study.origin["methods"]["mine"]["rho"] == 0.25
