"""`--task mine.py`: a user's problem compared with its known solution, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim.errors import BadInput, NetsimError
from netsim.studies import Study, catalogue
from tests.command import ROOT, call
from tests.parts import only_with

pytestmark = pytest.mark.usefixtures("all_undrawn")

EXAMPLE = ROOT / "docs" / "examples" / "logistic.py"

QUADRATIC = """
import networkx as nx
import numpy as np


class Bowl:
    size = 2

    def __init__(self, centre):
        self.centre = np.array(centre, dtype=float)

    def value(self, theta):
        return float(np.sum((theta - self.centre) ** 2))

    def gradient(self, theta):
        return 2 * (theta - self.centre)


class Solved(Bowl):
    def proximal(self, c):
        return lambda linear: (2 * self.centre - linear) / (2 + 2 * c)


def measure(models):
    return {"distance": np.abs(models - [1.0, 2.0]).max(), "first": models[0, 0]}


def task(seed):
    return [KIND([0, seed]), KIND([1, 2]), KIND([2, 4 - seed])], GRAPH, measure
"""


def file(tmp_path: Path, kind: str = "Solved", graph: str = "nx.path_graph(3)", text: str = QUADRATIC) -> str:
    path = tmp_path / "bowls.py"
    path.write_text(text.replace("KIND", kind).replace("GRAPH", graph))
    return str(path)


def run(study: str = "coke", **parameters: Any) -> Study:
    return catalogue.find_study(study).execute(**parameters)


def refusal(study: str = "coke", **parameters: Any) -> str:
    with pytest.raises(BadInput) as caught:
        run(study, **parameters)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_all_methods_find_the_mean_of_the_bowls(tmp_path: Path) -> None:
    """The sum of |θ - c_i|² has its minimum at the mean of the c_i, which is (1, 2)."""
    study = run(task=file(tmp_path), rounds=150, rho=1.0, eta=0.02, threshold=0.0, seed=1)
    last = study.rounds.groupby("algorithm").last()
    assert last.loc[["DKLA", "COKE"], "distance"].max() < 1e-9
    # A constant step size leaves CTA away from the optimum.
    assert 1e-6 < last.loc["CTA", "distance"] < 0.2
    assert study.centralised == pytest.approx({"distance": 0.0, "first": 1.0}, abs=1e-7)
    assert last["train_mse"].isna().all()
    assert list(study.tables["by_round"])[2:4] == ["distance", "first"]
    assert study.figures["mse"].get_suptitle() == "distance, task bowls, 3 agents"
    assert study.runs["DKLA"].ledger.transmissions == 3 * 150


def test_the_seed_reaches_the_file_and_the_graph_is_its_own(tmp_path: Path) -> None:
    path = file(tmp_path)
    for seed in (0, 3):
        found = run(task=path, rounds=1, algorithms="CTA", eta=0.5, seed=seed).rounds
        # CTA's first step from zero gives 2η c_0 = (0, seed), so all distances from (1, 2) are known.
        assert found["distance"].iloc[0] == max(1.0, abs(seed - 2.0), abs(2.0 - seed))


@only_with("sklearn")
def test_the_example_learns_what_scikit_learn_does() -> None:
    from sklearn.linear_model import LogisticRegression

    study = run(task=str(EXAMPLE), rounds=60, rho=0.02, algorithms="DKLA", seed=4)
    samples = np.random.default_rng(4).standard_normal((8, 50, 6)).reshape(400, 6)
    x, y = samples[:, :5], np.sign(samples @ [2, -1, 0, 1, 0.5, 0.5])
    # scikit-learn minimises sum(loss) + |θ|²/(2C); netsim minimises mean(loss) + 0.01 |θ|², which is 400 times smaller.
    best = LogisticRegression(C=1 / 8, fit_intercept=False, tol=1e-10, max_iter=1000).fit(x, y).coef_[0]
    for agent in study.runs["DKLA"].agents.values():
        np.testing.assert_allclose(agent.theta, best, atol=1e-3)
    loss = np.mean(np.logaddexp(0, -y * (x @ best))) + 0.01 * best @ best
    assert study.centralised["train_loss"] == pytest.approx(loss, abs=1e-9)


def test_the_example_is_short_and_linked() -> None:
    code = EXAMPLE.read_text().partition('"""\n\n')[2]
    assert f"](examples/{EXAMPLE.name})" in (ROOT / "docs" / "algorithms.md").read_text()
    assert len([line for line in code.splitlines() if line.strip()]) <= 30


def test_a_graph_of_its_own_size_is_drawn_where_the_file_has_none(tmp_path: Path) -> None:
    path = file(tmp_path, graph="None")
    runs = {edges: run(task=path, rounds=1, algorithms="CTA", eta=0.1, edges=edges) for edges in (2, 3)}
    assert [study.runs["CTA"].ledger.link_messages for study in runs.values()] == [4, 6]


def test_a_missing_proximal_is_named_with_who_needs_it_before_anything_runs(tmp_path: Path) -> None:
    path = file(tmp_path, kind="Bowl")
    message = "cost = <Bowl>: must have size and proximal, which DKLA asks for; it has no proximal"
    assert refusal(task=path, rounds=3) == message
    assert run(task=path, rounds=3, algorithms="CTA", eta=0.1).rounds["distance"].notna().all()


def test_without_values_there_is_no_centralised_model(tmp_path: Path) -> None:
    text = QUADRATIC.replace("def value", "def other")
    study = run(task=file(tmp_path, text=text), rounds=3, eta=0.1)
    assert study.centralised == {}
    assert not any(note.startswith("Centralised") for note in study.notes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n", "must define a function task(seed)"),
        (
            "def task(seed):\n    return 1\n",
            "must have a task(seed) that returns costs, a graph or None, and a measure",
        ),
        (
            "def task(seed):\n    return [], None, print\n",
            "must return costs, one for each agent, all with the same size",
        ),
        (
            "def task(seed):\n    return 1 / 0\n",
            "must have a function task(seed) that runs; ZeroDivisionError (bowls.py, line 2): division by zero",
        ),
        (
            QUADRATIC.replace("GRAPH", "nx.path_graph(4)").replace("KIND", "Bowl"),
            "must return a networkx.Graph with the nodes 0 to 2, or None",
        ),
    ],
)
def test_files_that_define_no_problem_are_refused(text: str, why: str, tmp_path: Path) -> None:
    path = file(tmp_path, text=text)
    assert refusal(task=path, rounds=3) == f"task = {path!r}: {why}"


def test_flags_without_meaning_and_missing_files_are_refused(tmp_path: Path) -> None:
    path = file(tmp_path)
    why = f"must be left out with task = {path!r}, which defines the problem"
    assert refusal(task=path, features=4) == f"features = 4: {why}"
    assert refusal(task=path, agents=4) == f"agents = 4: {why}"
    assert refusal(task=path, partition="size:1") == f"partition = 'size:1': {why}"
    assert refusal(task=path, data="energy") == f"data = 'energy': {why}"
    assert refusal(task=path, edges=3) == f"edges = 3: must be left out with task = {path!r}, which returns a graph"
    assert refusal(task="no.py") == "task = 'no.py': must be an existing Python file"


def test_a_measure_must_return_numbers_by_name(tmp_path: Path) -> None:
    wrong = QUADRATIC.replace('return {"distance"', 'return None and {"distance"')
    assert refusal(task=file(tmp_path, text=wrong)) == "measure of bowls: must return numbers by column name, not None"
    text = QUADRATIC.replace("models[0, 0]", "'much'")
    assert refusal(task=file(tmp_path, text=text)).startswith(
        "measure of bowls: must return numbers by column name, not {"
    )
    for name in ("copy_error", "round", "wire_bits"):
        taken = file(tmp_path, text=QUADRATIC.replace('"first"', f'"{name}"'))
        assert refusal(task=taken) == f"measure of bowls: must have another name for its column {name!r}"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "np.abs(models - [1.0, 2.0]).max()",
            "np.nan",
            "must return a number as 'distance' of models that are",
        ),
        (
            "def measure(models):",
            "def measure(models):\n    1 / 0",
            "must run; ZeroDivisionError (bowls.py, line 25)",
        ),
    ],
)
def test_a_measure_that_fails_is_named_with_its_line(old: str, new: str, why: str, tmp_path: Path) -> None:
    assert refusal(task=file(tmp_path, text=QUADRATIC.replace(old, new))).startswith(f"measure of bowls: {why}")


def test_a_measure_that_fails_later_is_named_with_its_line(tmp_path: Path) -> None:
    text = QUADRATIC.replace("def measure(models):", "def measure(models):\n    assert not models.any(), 'moved'")
    with pytest.raises(NetsimError) as caught:
        run(task=file(tmp_path, text=text), rounds=2, algorithms="CTA", eta=0.1)
    assert "round 1: measure of bowls: must run; AssertionError (bowls.py, line 25): moved" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_models_that_diverge_to_nan_are_no_mistake_of_the_measure(tmp_path: Path) -> None:
    text = QUADRATIC.replace("return 2 * (theta - self.centre)", "return np.full(2, np.nan)")
    study = run(task=file(tmp_path, text=text), rounds=2, algorithms="CTA", eta=0.1)
    assert "CTA has no distance: its models hold values that are no numbers (NaN)." in study.notes


@pytest.mark.parametrize(("size", "shown"), [("0", "0"), ("'two'", "'two'"), ("(2, 0)", "0"), ("2.5", "2.5")])
def test_sizes_are_whole_numbers(size: str, shown: str, tmp_path: Path) -> None:
    path = file(tmp_path, text=QUADRATIC.replace("size = 2", f"size = {size}"))
    assert refusal(task=path) == f"task = {path!r}: size = {shown}: must be a whole number >= 1"


def test_a_value_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    path = file(tmp_path, text=QUADRATIC.replace("return float(", "return self.nothing + float("))
    why = "value and gradient of bowls: must run; AttributeError (bowls.py, line 13): 'Solved' object has no attribute"
    assert refusal(task=path, rounds=1, eta=0.1).startswith(why)


# --- packet_loss and frontier -----------------------------------------------------------------------------------------

LOSS = (
    QUADRATIC.replace(
        '{"distance": np.abs(models - [1.0, 2.0]).max(), "first": models[0, 0]}',
        '{"cost": np.mean([[each.value(model) for each in COSTS] for model in models]), "first": models[0, 0]}',
    )
    .replace("    return [KIND([0, seed])", "    global COSTS\n    COSTS = [KIND([0, seed])")
    .replace("], GRAPH, measure", "]\n    return COSTS, GRAPH, measure")
)
"""The task with the bowls, whose measure is the mean cost."""


def least(seed: int) -> float:
    """Return the minimum over θ of the mean of |θ - c|² for c = (0, s), (1, 2), (2, 4 - s), attained at (1, 2)."""
    return (2 + 2 * (seed - 2) ** 2) / 3


@pytest.mark.slow
def test_packet_loss_compares_the_errors_of_a_file(tmp_path: Path) -> None:
    given: dict[str, Any] = {"task": file(tmp_path, text=LOSS), "rounds": 60, "rho": 1.0, "eta": 0.05}
    only = {"methods": "CTA,DKLA", "remedies": "running-sums", "burst": 1.0, "repeats": 2, "jobs": 1, "lost": "0.3"}
    study = run("packet_loss", **given, **only, folder=str(tmp_path / "sweeps"), seed=1)
    table = study.tables["runs"].set_index(["family", "remedy", "loss", "seed"]).sort_index()
    for (family, remedy, loss, seed), row in table.iterrows():
        alone = run(**given, algorithms=family, loss=loss, remedy=remedy, seed=seed, threshold=0.0)
        assert row["cost"] == alone.rounds["cost"].iloc[-1]
        assert row["first"] == alone.rounds["first"].iloc[-1]
        assert row["optimum"] == pytest.approx(least(seed))
        assert row["above_optimum_%"] == pytest.approx(100 * (row["cost"] / least(seed) - 1))
    assert len(table) == 2 * 2 * 2 + 2 * 2
    assert table.loc[("DKLA", "running-sums", 0.3), "above_optimum_%"].max() < 1e-3
    assert table.loc[("DKLA", "none", 0.3), "above_optimum_%"].max() > 1
    assert study.titles["above_loss_free_none"].startswith("no remedy: cost above loss-free (%)")
    panels = study.figures["error"].axes
    assert panels[0].get_ylabel() == "cost above\nthe optimum (%)"
    assert "task bowls, 3 agents, 60 rounds, 2 seeds" in study.figures["error"].get_suptitle()
    assert study.captions["error"].startswith("The cost above the centralised optimum by the share")
    assert "train_mse" not in study.tables["runs"]


def test_packet_loss_without_an_optimum_compares_with_loss_free(tmp_path: Path) -> None:
    path = file(tmp_path, text=LOSS.replace("def gradient", "def slope").replace("self.gradient", "self.slope"))
    only = {"methods": "DKLA", "remedies": "none", "burst": 1.0, "repeats": 2, "jobs": 1, "lost": "0.3", "rounds": 30}
    study = run("packet_loss", task=path, rho=1.0, **only, folder=str(tmp_path / "sweeps"))
    assert study.tables["runs"]["above_optimum_%"].isna().all()
    assert study.figures["error"].axes[0].get_ylabel() == "cost above\nloss-free (%)"


def test_frontier_draws_the_errors_of_a_file(tmp_path: Path) -> None:
    path = file(tmp_path, text=LOSS)
    grid = {"methods": "DKLA,COKE,CTA", "coders": "float64,4", "censors": "none,relative-0.01"}
    study = run("frontier", task=path, rounds=80, rho=1.0, eta=0.02, seed=3, **grid)
    table = study.tables["combinations"]
    assert list(table)[3:5] == ["cost", "first"]
    assert table["cost"].iloc[0] == pytest.approx(least(3))
    assert table["above_%"].to_numpy() == pytest.approx(100 * (table["cost"] / table["cost"].iloc[0] - 1).to_numpy())
    assert study.centralised["cost"] == pytest.approx(least(3))
    assert any(note.startswith("Winner by bits in all: ") and "its cost ended at" in note for note in study.notes)
    assert study.figures["frontier"].axes[0].get_ylabel() == "final cost"
    assert "task bowls, 3 agents" in study.figures["frontier"].get_suptitle()
    assert not any("train" in note for note in study.notes)


def test_a_column_that_a_table_has_already_is_refused(tmp_path: Path) -> None:
    why = "measure of bowls: must have another name for its column"
    assert refusal("packet_loss", task=file(tmp_path, text=LOSS.replace('"cost"', '"loss"'))) == f"{why} 'loss'"
    assert refusal("frontier", task=file(tmp_path, text=LOSS.replace('"cost"', '"coder"'))) == f"{why} 'coder'"


@pytest.mark.parametrize("study", ["packet_loss", "frontier"])
def test_both_refuse_what_a_file_cannot_have_before_anything_runs(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = file(tmp_path, kind="Bowl")
    asked = "cost = <Bowl>: must have size and proximal, which DKLA asks for; it has no proximal"
    assert refusal(study, task=path, methods="CTA,DKLA") == asked
    why = f"must be left out with task = {path!r}, which defines the problem"
    assert refusal(study, task=path, agents=3) == f"agents = 3: {why}"
    assert refusal(study, task=path, features=3) == f"features = 3: {why}"
    assert refusal(study, task=path, partition="size:1") == f"partition = 'size:1': {why}"
    assert refusal(study, task=path, data="energy") == f"data = 'energy': {why}"
    loop = file(tmp_path, graph="nx.Graph([(0, 0), (0, 1), (1, 2)])")
    assert "no edge from a node to itself" in refusal(study, task=loop)
    assert [each.name for each in tmp_path.iterdir()] == ["bowls.py"]


def test_an_error_that_is_not_above_zero_has_no_per_cent(tmp_path: Path) -> None:
    path = file(tmp_path, text=LOSS.replace('{"cost": np.mean', '{"cost": -10 + np.mean'))
    why = f"task = {path!r}: must have an error above 0, to compare in per cent; "
    assert refusal("packet_loss", task=path, folder=str(tmp_path / "no"), rho=1.0).startswith(f"{why}the model of the")
    assert refusal("frontier", task=path, rounds=9, rho=1.0).startswith(f"{why}DKLA float64, the reference, has cost -")


def test_frontier_leaves_streams_to_online(tmp_path: Path) -> None:
    path = file(tmp_path)
    why = f"methods = 'ODKLA': must be left out with task = {path!r}; the study online takes them"
    assert refusal("frontier", task=path, methods="DKLA,ODKLA") == why


# --- online -----------------------------------------------------------------------------------------------------------

MOVING = """
import networkx as nx


class Tick:
    size = 1

    def __init__(self, shift):
        self.t, self.shift = 0, shift

    def draw(self, theta):
        self.t += 1

    @property
    def goal(self):
        return self.t + self.shift

    def value(self, theta):
        return float((theta[0] - self.goal) ** 2)

    def gradient(self, theta):
        return 2 * (theta - self.goal)

    def argmin(self, quadratic, linear):
        return (2 * self.goal - linear) / (2 + 2 * quadratic)


def task(seed):
    return [Tick(seed + i) for i in range(COUNT)], GRAPH, MEASURE
"""
BEHIND = 'lambda models, t: {"behind": abs(models - t).max()}'


def moving(tmp_path: Path, count: int = 1, graph: str = "None", measure: str = BEHIND, text: str = MOVING) -> str:
    path = tmp_path / "ticks.py"
    path.write_text(text.replace("COUNT", str(count)).replace("GRAPH", graph).replace("MEASURE", measure))
    return str(path)


def test_an_agent_alone_follows_its_recursion(tmp_path: Path) -> None:
    """Each round's model is evaluated on the round's cost (θ - t - s)² before the update."""
    study = run("online", task=moving(tmp_path), rounds=6, algorithms="RFF-DOKL,DDKL", step=0.25, rho=1.0, seed=2)
    for name, share in (("RFF-DOKL", 0.5), ("DDKL", 1.0)):
        theta, lost, losses, behind = 0.0, 0.0, [], []
        for t in range(1, 7):
            lost += (theta - t - 2) ** 2
            losses.append(lost / t)
            theta += share * (t + 2 - theta)
            behind.append(abs(theta - t))
        rounds = study.runs[name].rounds
        assert rounds["running_loss"].to_numpy() == pytest.approx(losses, abs=1e-12)
        assert rounds["behind"].to_numpy() == pytest.approx(behind, abs=1e-12)
    assert list(study.tables["ends"])[2:4] == ["running_loss", "behind"]
    assert study.figures["mse"].get_suptitle() == "Running error from round 20 on, task ticks, 1 agents"
    assert study.settings["rounds"] == 6


def test_two_agents_follow_linearised_admm(tmp_path: Path) -> None:
    """θ_i ← θ_i − [∇ + ρ(θ_i − θ_n) + γ_i]/(η + 2ρ), γ_i ← γ_i + ρ(θ_i − θ_n); states are sent as float32."""
    path = moving(tmp_path, count=2, graph="nx.path_graph(2)", measure="None")
    study = run("online", task=path, rounds=30, algorithms="ODKLA", rho=0.5, eta=3.0)
    theta, gamma, lost = np.zeros(2), np.zeros(2), 0.0
    for t in range(1, 31):
        goal = t + np.arange(2)
        lost += ((theta - goal) ** 2).sum()
        theta = theta - (2 * (theta - goal) + 0.5 * (theta - theta[::-1]) + gamma) / (3 + 2 * 0.5)
        gamma = gamma + 0.5 * (theta - theta[::-1])
    assert study.rounds["running_loss"].iloc[-1] == pytest.approx(lost / 60, rel=1e-5)
    assert study.rounds["round"].max() == 30


def test_online_names_what_a_cost_lacks_before_anything_runs(tmp_path: Path) -> None:
    path = moving(tmp_path, text=MOVING.replace("def argmin", "def other"))
    needs = "cost = <Tick>: must have size and draw and argmin, which DOKL asks for; it has no argmin"
    assert refusal("online", task=path) == needs
    needs = "cost = <Tick>: must have dense_argmin, which DOKL asks for; it has no dense_argmin"
    assert refusal("online", task=moving(tmp_path), algorithms="DOKL dense") == needs
    path = moving(tmp_path, text=MOVING.replace("def value", "def other"))
    needs = "cost = <Tick>: must have value, for the running loss; it has none"
    assert refusal("online", task=path, algorithms="ODKLA") == needs
    needs = "cost = <Solved>: must have size and draw and gradient, which ODKLA asks for; it has no draw"
    assert refusal("online", task=file(tmp_path), algorithms="ODKLA") == needs


def test_each_method_begins_anew(tmp_path: Path) -> None:
    path = moving(tmp_path)
    both = run("online", task=path, rounds=5, algorithms="RFF-DOKL,DDKL").runs["DDKL"].rounds
    alone = run("online", task=path, rounds=5, algorithms="DDKL").runs["DDKL"].rounds
    assert both["running_loss"].tolist() == alone["running_loss"].tolist()
    kept = MOVING.replace("def task(seed):", "KEPT = [Tick(0)]\n\n\ndef task(seed):\n    return KEPT, None, None\n")
    path = moving(tmp_path, text=kept)
    why = f"task = {path!r}: must return new costs in each call, for each method to begin anew"
    assert refusal("online", task=path) == why


def test_online_refuses_flags_without_meaning(tmp_path: Path) -> None:
    path = moving(tmp_path)
    why = f"must be left out with task = {path!r}, which defines the problem"
    assert refusal("online", task=path, order="time") == f"order = 'time': {why}"
    assert refusal("online", task=path, tune=True) == f"tune = True: {why}"
    assert refusal("online", task=path, rounds=0) == "rounds = 0: must be a whole number >= 1"
    path = moving(tmp_path, measure="'much'")
    why = f"task = {path!r}: must have a task(seed) that returns costs, a graph or None, and a measure or None"
    assert refusal("online", task=path) == why


def test_the_moving_example_follows_the_truth() -> None:
    example = ROOT / "docs" / "examples" / "moving.py"
    study = run("online", task=str(example), rounds=600, algorithms="RFF-DOKL", step=0.1)
    # The initial model, zero, is at distance 3 from the truth; the noise's variance is 0.01.
    assert study.rounds["from_truth"].iloc[-100:].max() < 0.05


@pytest.mark.slow
def test_a_stream_is_measured_in_other_processes_too(tmp_path: Path) -> None:
    path = moving(tmp_path, count=4, graph="nx.cycle_graph(4)")
    given = ("online", "--task", path, "--rounds", "9", "--algorithms", "ODKLA,DDKL")
    assert call("run", *given, "--out", "one", cwd=tmp_path).returncode == 0
    assert call("run", *given, "--workers", "2", "--out", "two", cwd=tmp_path).returncode == 0
    assert (tmp_path / "one" / "rounds.csv").read_bytes() == (tmp_path / "two" / "rounds.csv").read_bytes()
    assert "identical" in call("verify", "one", cwd=tmp_path).stdout


@pytest.mark.slow
def test_a_run_is_repeated_and_a_sweep_refuses_a_changed_file(tmp_path: Path) -> None:
    path = file(tmp_path)
    given = ("coke", "--task", path, "--rounds", "3", "--eta", "0.1")
    assert call("run", *given, "--out", "out", cwd=tmp_path).returncode == 0
    assert "identical" in call("verify", "out", cwd=tmp_path).stdout
    assert call("sweep", *given, "--seed", "0:2", "--out", "sweep", cwd=tmp_path).returncode == 0
    Path(path).write_text(Path(path).read_text() + "# changed\n")
    again = call("sweep", *given, "--seed", "0:3", "--out", "sweep", cwd=tmp_path)
    assert again.returncode != 0
    assert "bowls.py changed since" in again.stderr
