"""The benchmark: its suite, its measures, tuning and comparison of methods, and checks of entries."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, Between, Link, Network, topology
from netsim.agents import DKLA, DPSGD
from netsim.coders import Uniform
from netsim.scenarios.bench.case import experiment, unreachable, unsuited
from netsim.scenarios.bench.entry import digest
from netsim.scenarios.bench.methods import METHODS, chosen_methods
from netsim.scenarios.bench.problems import PROBLEMS, RegressionTask, reached, score
from netsim.scenarios.bench.report import against, draw, markdown, summarised
from netsim.scenarios.bench.suite import CANDIDATES, NETWORKS, SEEDS, TUNING_SEEDS
from netsim.scenarios.tasks.method import agents_of, over_star
from netsim.studies import Study, catalogue
from netsim.studies.experiment import Method as Part
from netsim.studies.experiment.command import ranges_of, settable
from netsim.studies.experiment.tuning import rungs
from netsim.studies.sums import write_sums

pytestmark = pytest.mark.usefixtures("all_undrawn")

MINE = "docs/examples/mine.py"


def case(**given: object) -> Study:
    return catalogue.find_study("bench_case").execute(**given)


# --- problems ---------------------------------------------------------------------------------------------------------


def test_suboptimality_is_that_of_the_sum_of_all_costs() -> None:
    task = RegressionTask(topology.ring(6), seed=3)
    rng = np.random.default_rng(0)

    def total(theta: np.ndarray) -> float:
        return sum(problem.value(theta) for problem in task.problems)

    models = rng.normal(size=(6, task.best.size))
    best, zero = total(task.best), total(np.zeros(task.best.size))
    expected = np.mean([(total(model) - best) / (zero - best) for model in models])
    assert task.measures(models)["suboptimality"] == pytest.approx(expected, rel=1e-9)
    assert task.measures(np.tile(task.best, (6, 1)))["suboptimality"] == pytest.approx(0.0, abs=1e-15)
    assert all(total(task.best + 1e-3 * rng.normal(size=task.best.size)) > best for _ in range(20))


def test_agents_that_do_not_agree_are_far_from_the_common_vector() -> None:
    task = RegressionTask(topology.ring(10), seed=0)
    alone = np.array([np.linalg.lstsq(each.features, each.targets, rcond=None)[0] for each in task.problems])
    assert task.measures(alone)["suboptimality"] > 0.2


def test_a_seed_draws_the_same_problem_and_another_seed_another() -> None:
    ring = topology.ring(4)
    first, again, other = (RegressionTask(ring, seed=seed) for seed in (1, 1, 2))
    assert (first.best == again.best).all()
    assert not np.allclose(first.best, other.best)


# --- what a case costs ------------------------------------------------------------------------------------------------


def run_of(errors: list[float]) -> pd.DataFrame:
    bits = 100.0 * np.arange(1, len(errors) + 1)
    return pd.DataFrame({"error": errors, "wire_bits": bits, "time_s": bits / 100})


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([3.0, 1.0, 0.5], [math.nan, 200.0, 200.0]),
        # The error reaches the target, leaves it, and returns: only the last period below the target counts.
        ([1.0, 3.0, 1.0, 0.1], [100.0, math.nan, 300.0, 300.0]),
        ([3.0, 2.0], [math.nan, math.nan]),
        ([math.nan, math.inf, 1.0], [math.nan, math.nan, 300.0]),
        # The error was measured only in every second round.
        ([3.0, math.nan, 1.0, math.nan], [math.nan, math.nan, 300.0, 300.0]),
    ],
)
def test_the_target_counts_from_where_the_error_stays(errors: list[float], expected: list[float]) -> None:
    found = reached(run_of(errors), "error", 1.0, "wire_bits")
    assert np.array_equal(found, expected, equal_nan=True)


def test_the_score_puts_every_run_that_ends_at_the_target_first() -> None:
    runs = [1.0, 1.0], [3.0] * 9 + [1.0], [0.5, 1.1], [3.0, 100.0], [math.nan] * 2
    scores = [score(run_of(errors), "error", 1.0, agents=2)[-1] for errors in runs]
    assert scores == sorted(scores)
    assert scores[0] == pytest.approx(math.log10(50.0))
    assert scores[1] == pytest.approx(math.log10(500.0))
    assert scores[3] == pytest.approx(12.0)
    assert scores[4] == math.inf


def test_a_case_measures_what_its_ledger_counted() -> None:
    study = case(algorithms="DKLA,COKE", seed=1)
    for name, run in study.runs.items():
        rounds = study.rounds[study.rounds["algorithm"] == name]
        target = PROBLEMS["regression"].target
        first = int(np.flatnonzero(rounds["suboptimality"] > target)[-1]) + 1
        assert rounds["reached_bits"].iloc[-1] == rounds["wire_bits"].iloc[first] / len(run.agents)
        assert rounds["reached_s"].iloc[-1] == rounds["time_s"].iloc[first]
        assert rounds["score"].iloc[-1] == pytest.approx(math.log10(rounds["reached_bits"].iloc[-1]))
    last = study.rounds.groupby("algorithm").last()
    assert last.loc["COKE", "reached_bits"] < last.loc["DKLA", "reached_bits"]


def test_losses_ruin_what_the_docs_say_they_ruin_and_edge_duals_survive() -> None:
    study = case(network="loss-10", algorithms="LEAD,R-ADMM,DKLA-edges", seed=1)
    last = study.rounds.groupby("algorithm").last()["suboptimality"]
    assert last["LEAD"] > 0.1
    assert last["R-ADMM"] < 1e-6
    assert last["DKLA-edges"] < 1e-6


def test_an_own_network_and_method_go_into_a_case() -> None:
    made = experiment(algorithms="D-PSGD")
    mine = {**made.methods, "mine": Part(DPSGD, eta=0.1, coder=Uniform(6))}
    networks = {"half": Link(loss=0.5), "bursts": NETWORKS["bursts"]}
    found = dataclasses.replace(made, methods=mine, networks=networks, rounds=3).run()
    assert found.runs.groupby(["network", "method"]).size().to_dict() == {
        (network, method): 1 for network in networks for method in mine
    }
    assert (found.runs["suboptimality"] < 1.0).all()


# --- who can run where ------------------------------------------------------------------------------------------------


def test_a_case_refuses_a_method_that_is_not_made_for_it() -> None:
    digits, regression = PROBLEMS["digits"], PROBLEMS["regression"]
    assert "proximal" in unsuited(METHODS["DKLA"], digits)
    assert "server" in unreachable("FedAvg", METHODS["FedAvg"], NETWORKS["intel-lab"])
    assert not unsuited(METHODS["FedAvg"], regression)
    assert not unreachable("FedAvg", METHODS["FedAvg"], NETWORKS["bursts"])
    assert not unsuited(METHODS["D-PSGD"], digits)
    assert not unreachable("D-PSGD", METHODS["D-PSGD"], NETWORKS["grenoble"])
    with pytest.raises(
        BadInput, match="network = 'intel-lab': must be one that FedAvg can run on; FedAvg needs a serv"
    ):
        case(network="intel-lab", algorithms="FedAvg")
    with pytest.raises(BadInput, match=r"problem = 'digits': must be one that DKLA can learn; .*proximal"):
        case(problem="digits", algorithms="D-PSGD,DKLA")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"problem": "mnist"}, "problem = 'mnist': must be one of regression, digits"),
        (
            {"network": "loss-5"},
            "network = 'loss-5': must be one of ideal, loss-1, loss-10, bursts, intel-lab, grenoble",
        ),
        ({"algorithms": "none"}, "algorithms = 'none': must go with --method, or name some of CTA, DKLA"),
        ({"algorithms": "lead"}, "algorithms = 'lead'"),
    ],
)
def test_a_case_names_what_is_wrong(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput) as error:
        case(**given)
    assert str(error.value).startswith(message)


def test_a_file_may_not_take_the_name_of_a_method_of_the_suite(tmp_path: Path) -> None:
    shutil.copy(MINE, tmp_path / "LEAD.py")
    with pytest.raises(BadInput, match="must have another file name: a method 'LEAD' already exists"):
        chosen_methods("none", str(tmp_path / "LEAD.py"))


def test_all_methods_begin_without_diverging() -> None:
    places = topology.erdos_renyi(10, edges=28, seed=0), topology.star(10)
    tasks = [RegressionTask(place, seed=0) for place in places]
    for name, method in METHODS.items():
        task = tasks[over_star(method)]
        run = Network(task.graph, seed=0).run(agents_of(method, task, 50), [task.measure])
        assert run.rounds["suboptimality"].iloc[-1] < 0.5, name


def test_tuning_has_the_candidates_that_the_docs_tell() -> None:
    assert [(rung.count, len(rung.seeds)) for rung in rungs(CANDIDATES, TUNING_SEEDS)] == [(12, 1), (6, 1), (3, 1)]
    assert not set(TUNING_SEEDS) & set(SEEDS)


# --- tables and figures -----------------------------------------------------------------------------------------------


def rows(method: str, bits: list[float], network: str = "ideal") -> pd.DataFrame:
    given = {"method": method, "problem": "regression", "network": network, "settings": "its own"}
    costs = {"seed": range(len(bits)), "error": 0.5, "reached_bits": bits, "reached_s": 1.0, "sent_bits": 1e6}
    return pd.DataFrame(given | costs)


def test_means_are_geometric_with_students_interval_and_cells_name_who_survived() -> None:
    nan = math.nan
    runs = pd.concat(
        [
            rows("A", [1000.0, 10_000.0, 100_000.0, 10_000.0]),
            rows("B", [nan, 1000.0, 1000.0, 1000.0]),
            rows("C", [nan, nan, nan, 1000.0]),
        ]
    )
    table = summarised(runs, [("D", "regression", "ideal", "why not")])
    first = table.iloc[0]
    assert first["kbit"] == pytest.approx(10.0)
    # t(3, 97.5 %) = 3.182446; the standard deviation of log10 is √(2/3).
    reach = 3.182446 * math.sqrt(2 / 3) / 2
    assert first["kbit_low"] == pytest.approx(10 ** (1 - reach), rel=1e-5)
    assert first["kbit_high"] == pytest.approx(10 ** (1 + reach), rel=1e-5)
    assert list(table["survived"].fillna(-1)) == [4, 3, 1, -1]
    assert table["why"].iloc[3] == "why not"
    cells = [line.split(" | ")[1].strip(" |") for line in markdown(table, "regression").splitlines()[2:]]
    assert cells == ["10.0 [0.5, 199]", "3/4: 1 [1, 1]", "1/4, error 0.5"]
    assert len(draw(table, "regression").axes) == 1


def test_ratios_are_of_the_seeds_on_which_both_reach_the_target() -> None:
    runs = pd.concat([rows("A", [10.0, 40.0, 90.0]), rows("B", [20.0, 80.0, math.nan]), rows("C", [10.0, 40.0, 90.0])])
    table = against(runs, "A").set_index("method")
    assert list(table["pairs"]) == [2, 3]
    assert list(table["missing"]) == [1, 0]
    assert list(table["ratio"]) == pytest.approx([2.0, 1.0])
    assert list(table["p_holm"]) == pytest.approx([1.0, 1.0]), "two pairs of one ratio show nothing"


# --- entries ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    shutil.copy(MINE, folder / "mine.py")
    study = catalogue.find_study("bench").prepare(
        method=str(folder / "mine.py"), problems="regression", networks="ideal", folder=str(folder / "work"), jobs=1
    )
    catalogue.find_study("bench").play(study)
    study.save(folder / "entry")
    shutil.copy(MINE, folder / "entry" / "mine.py")
    return folder / "entry"


def check(folder: Path) -> Study:
    return catalogue.find_study("bench").execute(check=str(folder))


def changed(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "entry")
    return tmp_path / "entry"


def rewrite(folder: Path, name: str, text: str) -> None:
    """Replace a file's content and its recorded digest, as a deliberate forger would."""
    (folder / name).write_text(text, encoding="utf-8")
    write_sums(folder)


@pytest.mark.slow
def test_an_entry_is_tuned_whole_and_can_be_repeated(made: Path) -> None:
    settings = json.loads((made / "settings.json").read_text(encoding="utf-8"))
    assert settings["bench"]["version"] == 1
    assert settings["bench"]["tuning"]["over"] == {"methods.mine.eta": "0.01:3:log"}
    assert any(name.endswith("mine.py") for name in settings["files_sha256"])
    runs = pd.read_csv(made / "bench_runs.csv")
    assert list(runs["seed"]) == list(SEEDS)
    assert digest(runs) == settings["bench"]["runs_sha256"]
    study = check(made)
    assert list(study.tables["checked"]["difference"]) == [0.0]
    assert study.notes[0].endswith("equal to the digit. The search of the settings was not repeated.")
    assert "is no whole entry: mine lacks regression, loss-1;" in study.notes[1]


@pytest.mark.slow
def test_a_changed_entry_is_refused(made: Path, tmp_path: Path) -> None:
    folder = changed(made, tmp_path)
    runs = pd.read_csv(folder / "bench_runs.csv")
    runs.loc[3, "error"] *= 0.5
    rewrite(folder, "bench_runs.csv", runs.to_csv(index=False))
    with pytest.raises(BadInput, match="as netsim bench wrote it; bench_runs has changed since"):
        check(folder)


@pytest.mark.slow
def test_numbers_that_cannot_be_repeated_are_refused(made: Path, tmp_path: Path) -> None:
    folder = changed(made, tmp_path)
    runs = pd.read_csv(folder / "bench_runs.csv")
    runs["reached_bits"] *= 0.5
    rewrite(folder, "bench_runs.csv", runs.to_csv(index=False))
    rewrite(folder, "bench.csv", summarised(runs, []).to_csv(index=False))
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    settings["bench"]["runs_sha256"] = digest(runs)
    rewrite(folder, "settings.json", json.dumps(settings))
    with pytest.raises(
        BadInput, match=r"whose runs can be repeated; mine on regression, ideal, seed \d: error .* \(here"
    ):
        check(folder)


@pytest.mark.slow
def test_an_entry_without_its_methods_file_is_refused(made: Path, tmp_path: Path) -> None:
    folder = changed(made, tmp_path)
    (folder / "mine.py").write_text("# another\n" + Path(MINE).read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(BadInput, match=r"must be a folder with the file mine\.py that was run"):
        check(folder)


def test_what_is_no_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="must be what `netsim run` wrote; there is no such folder"):
        check(tmp_path / "nothing")
    study = case(algorithms="DKLA")
    study.save(tmp_path / "case")
    with pytest.raises(BadInput, match="must be a run folder of netsim bench, not of bench_case"):
        check(tmp_path / "case")


def test_an_entry_written_by_hand_is_refused_in_one_line(tmp_path: Path) -> None:
    rows = [("D-PSGD", "regression", "ideal", "eta = 0.1", seed, 0.5, math.nan, math.nan, 9.0) for seed in SEEDS]
    names = ["method", "problem", "network", "settings", "seed", "error", "reached_bits", "reached_s", "sent_bits"]
    runs = pd.DataFrame(rows, columns=names)
    table = summarised(runs, [])

    def message(runs: pd.DataFrame, table: pd.DataFrame) -> str:
        study = catalogue.find_study("bench").prepare()
        study.tables |= {"bench_runs": runs, "bench": table}
        runs.to_csv(tmp_path / "runs.csv", index=False)
        digest_of_file = digest(pd.read_csv(tmp_path / "runs.csv")) if len(runs.columns) else ""
        study.origin["bench"] = {"version": 1, "runs_sha256": digest_of_file}
        shutil.rmtree(tmp_path / "entry", ignore_errors=True)
        study.save(tmp_path / "entry")
        with pytest.raises(BadInput) as error:
            check(tmp_path / "entry")
        return str(error.value)

    for name in runs:
        assert f"its bench_runs has no column {name!r}" in message(runs.drop(columns=name), table)
    assert "the column 'error' of its bench_runs must hold numbers" in message(runs.assign(error="x"), table)
    assert "its bench_runs has no row" in message(runs[:0], table)
    assert "loss-10, bursts, intel-lab, grenoble; its bench_runs has 'x'" in message(runs.assign(network="x"), table)
    assert "its bench has no column 'kbit'" in message(runs, table.drop(columns="kbit"))
    assert "the column 'error' of its bench must hold numbers" in message(runs, table.assign(error="x"))
    for other in ({"network": "bursts"}, {"settings": "eta = 3"}, {"method": "LEAD"}):
        assert "whose bench.csv is that of the runs" in message(runs, table.assign(**other))
    mixed = runs.assign(settings=["eta = 0.1"] * 9 + ["eta = 0.2"])
    for odd in (mixed, runs.assign(settings="eta = x"), runs.assign(settings="")):
        assert "with one text of settings, NAME = VALUE, …, of D-PSGD" in message(odd, summarised(odd, []))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"over": "mine.kappa=0.1:1"}, "over: parameter of mine = 'kappa': must be one of"),
        ({"over": "mine.unheard=0.1:1"}, "over = 'mine.unheard': must be a number, unlike 'kept'"),
        ({"paired": "LEAD"}, "paired = 'LEAD': must be one of CTA, mine"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_runs(given: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        catalogue.find_study("bench").execute(method=MINE, algorithms="CTA", folder=str(tmp_path / "work"), **given)
    assert not (tmp_path / "work").exists()


def test_parameters_whose_defaults_are_numbers_of_numpy_are_searched(tmp_path: Path) -> None:
    file = tmp_path / "scaled.py"
    file.write_text(
        "import numpy as np\nfrom netsim.agents import CTA\n\n\nclass Scaled(CTA):\n"
        "    def __init__(self, cost, rounds, weights, eta=np.float32(0.25), often=np.int64(3)):\n"
        "        super().__init__(cost, rounds, eta=eta, weights=weights)\n"
    )
    (method,) = chosen_methods("none", str(file)).values()
    assert settable("scaled", method) == {"eta": "eta", "often": "often"}
    ranges = ranges_of(experiment(algorithms="none", method=str(file)), ["scaled.often=1:4", "eta=0.1:1"])
    assert ranges == {"methods.scaled.often": Between(1, 4), "methods.scaled.eta": Between(0.1, 1)}
    ran = case(algorithms="none", method=str(file), set="scaled.often=4,scaled.eta=0.5").origin["methods"]["scaled"]
    assert (ran["often"], ran["eta"]) == (4, 0.5)


def test_methods_have_names_of_their_own() -> None:
    assert METHODS["D-PSGD"].kind is DPSGD
    assert METHODS["DKLA-sums"].kind is DKLA
    assert METHODS["COKE-4bit"].given["coder"].bits == 4


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return pd.read_csv("docs/benchmark.csv")


def test_the_page_holds_the_tables_of_its_results(published: pd.DataFrame) -> None:
    page = Path("benchmarks/reports/bench.md").read_text(encoding="utf-8")
    for problem in PROBLEMS:
        assert markdown(published, problem) in page
        for method in METHODS:
            assert (published["method"] == method).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "problem", "network"),
    [
        ("LEAD", "regression", "ideal"),
        ("DKLA-sums", "regression", "bursts"),
        ("Push-DIGing-sums", "regression", "loss-1"),
        ("D-PSGD", "digits", "loss-10"),
    ],
)
def test_results_of_the_page_can_be_repeated(published: pd.DataFrame, method: str, problem: str, network: str) -> None:
    keys = {"method": method, "problem": problem, "network": network}
    (row,) = published[(published[list(keys)] == pd.Series(keys)).all(axis=1)].to_dict("records")
    given = {"problem": problem, "network": network, "algorithms": method}
    if row["settings"] != "its own":
        given["set"] = ",".join(f"{method}.{each.replace(' ', '')}" for each in row["settings"].split(", "))
    last = [case(**given, seed=seed).rounds.iloc[-1] for seed in SEEDS]
    columns = {"seed": SEEDS, "error": [each[PROBLEMS[problem].error] for each in last], "sent_bits": 0.0}
    costs = {name: [float(each[name]) for each in last] for name in ("reached_bits", "reached_s")}
    (again,) = summarised(pd.DataFrame({**keys, "settings": row["settings"], **columns, **costs}), []).to_dict(
        "records"
    )
    assert again["survived"] == row["survived"]
    for name in ("kbit", "kbit_low", "kbit_high", "seconds", "error"):
        assert again[name] == pytest.approx(row[name], rel=1e-6, nan_ok=True)
