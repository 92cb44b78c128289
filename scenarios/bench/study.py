"""`netsim bench`: tune every method in each case of the suite, run it on other seeds, and write tables and figures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from netsim.errors import BadInput
from netsim.scenarios.bench.case import unreachable, unsuited
from netsim.scenarios.bench.entry import check_entry, digest
from netsim.scenarios.bench.methods import METHODS, NONE, chosen_methods
from netsim.scenarios.bench.problems import PROBLEMS
from netsim.scenarios.bench.report import KEYS, OWN, against, draw, markdown, ratios, summarised
from netsim.scenarios.bench.suite import CANDIDATES, NETWORKS, RANGES, SEEDS, TUNING_SEEDS, VERSION
from netsim.scenarios.tasks.settings import chosen_names, names_in
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Method, Results
from netsim.studies.experiment.command import ranges_of, settable
from netsim.studies.experiment.folder import check_folder
from netsim.util.check import one_of
from netsim.util.datafiles import record

_ALL = "all"
_REFERENCE = "LT-ADMM"


@dataclass(frozen=True, kw_only=True)
class Entered:
    """The methods and cases to run.

    Parameters
    ----------
    method : str
        Python file that defines a class of agents, as for `netsim run coke --method`; several are separated by commas.
    algorithms : str
        The suite's own methods to run, separated by commas, or "all" or "none". Default: "none" with --method, else
        "all".
    over : str
        Further ranges to search, METHOD.PARAMETER=LOW:HIGH or …:log, separated by commas. The suite has ranges for
        parameters named eta, rho, gamma, beta, v and mu.
    problems : str
        Problems, separated by commas.
    networks : str
        Networks, separated by commas.
    paired : str
        The method that all others are compared with, seed by seed. Default: LT-ADMM, if it runs.
    """

    method: str | None = None
    algorithms: str | None = None
    over: str | None = None
    problems: str = ",".join(PROBLEMS)
    networks: str = ",".join(NETWORKS)
    paired: str | None = None

    def methods(self) -> dict[str, Method]:
        """Return the methods; raises BadInput for an unknown name or an unusable file."""
        named = self.algorithms or (_ALL if self.method is None else NONE)
        return chosen_methods(",".join(METHODS) if named == _ALL else named, self.method)


@dataclass(frozen=True, kw_only=True)
class Work:
    """The number of processes, and the folder of results.

    Parameters
    ----------
    jobs : int
        Number of processes.
    folder : str
        Folder that stores all trials and runs; an interrupted benchmark continues from it.
    """

    jobs: int = 2
    folder: str = "runs/bench-cells"


Case = tuple[str, str, str]
"""The names of a method, a problem and a network."""


def experiment(*, entered: Entered = Entered()) -> Experiment:
    """Return the experiment: every method in each case of the suite that suits it."""
    methods = entered.methods()
    left_out = _left_out(entered, methods)
    if all(left_out.values()):
        whys = "; ".join(dict.fromkeys(left_out.values()))
        raise BadInput(f"networks: must hold one that a method can run on; {whys}")
    return Experiment(
        problem={name: PROBLEMS[name] for name in chosen_names("problems", entered.problems, PROBLEMS)},
        methods=methods,
        networks={name: NETWORKS[name] for name in chosen_names("networks", entered.networks, NETWORKS)},
        seeds=SEEDS,
        rounds=None,
        only=lambda case: not left_out.get((case["method"], case["problem"], case["network"])),
    )


def _left_out(entered: Entered, methods: Mapping[str, Method]) -> dict[Case, str]:
    """Return, for each case, the reason why its method does not run there; "" if it runs."""
    networks = {name: NETWORKS[name] for name in chosen_names("networks", entered.networks, NETWORKS)}
    absent = {name: network.missing() for name, network in networks.items()}
    found = {}
    for called, method in methods.items():
        for problem in chosen_names("problems", entered.problems, PROBLEMS):
            lacks = unsuited(method, PROBLEMS[problem])
            for name, network in networks.items():
                found[called, problem, name] = absent[name] or unreachable(called, method, network) or lacks
    return found


def bench(study: Study, *, entered: Entered = Entered(), work: Work = Work(), check: str | None = None) -> None:
    """A fixed suite for any method: bits and time to a target error, and survival, on lossy and real links.

    Each method is tuned in each case by the same number of runs, on separate seeds, and then runs on ten others. Cases
    that do not suit a method are left out; the table gives the reason. On two cores one method takes some minutes, and
    all methods about an hour.

    Parameters
    ----------
    check : str
        Run no benchmark, but check this run folder of an earlier one (an entry) by repeating one run of each case.
    """
    if check is not None:
        check_entry(study, check)
        return
    made = experiment(entered=entered)
    if entered.paired is not None:
        one_of("paired", entered.paired, made.methods)
    reference = entered.paired or _REFERENCE
    study.record(paired=reference)
    known = [f"{name}.{each}" for name, method in made.methods.items() for each in settable(name, method)]
    usual = [f"{each}={RANGES[name]}" for each in known if (name := each.rpartition(".")[2]) in RANGES]
    over = {**ranges_of(made, usual), **ranges_of(made, names_in(entered.over))}
    ranges = {path: str(each) for path, each in over.items()}
    tuning = {"seeds": list(TUNING_SEEDS), "candidates": CANDIDATES, "over": ranges}
    study.origin["bench"] = {"version": VERSION, "seeds": list(SEEDS), "tuning": tuning}
    how: dict[str, Any] = {"jobs": work.jobs, "reporter": study.reporter}
    check_folder(Path(work.folder), "folder")
    if over:
        # No validation seeds: the final runs on other seeds test the choice, by counting the seeds that survive.
        search: dict[str, Any] = {"seeds": TUNING_SEEDS, "validation": (), "candidates": CANDIDATES, "of": "mean"}
        made = made.tune(over, out=work.folder, metric="score", **search, **how).experiment
    results = made.run(work.folder, **how)
    for _, found in results.cells:
        record(found.read)
    refused = [(*case, why) for case, why in _left_out(entered, entered.methods()).items() if why]
    _tell(study, _measured(results, made), refused, reference)


def _measured(results: Results, made: Experiment) -> pd.DataFrame:
    """Return a row for each run: the case, the tuned settings, and the cost of reaching the target."""
    rows = []
    for cell, found in results.cells:
        chosen = {path.rpartition(".")[2]: value for path, value in made.settings.get(cell.condition, {}).items()}
        case = {key: cell.columns[key] for key in KEYS}
        texts = ", ".join(f"{name} = {value:g}" for name, value in chosen.items()) or OWN
        costs = {name: found.row.get(name, math.nan) for name in ("reached_bits", "reached_s", "wire_bits")}
        error = found.row.get(PROBLEMS[case["problem"]].error, math.nan)
        rows.append({**case, "settings": texts, "seed": cell.seeds.seed, "error": error, **costs})
    frame = pd.DataFrame(rows).rename(columns={"wire_bits": "sent_bits"})
    order = {name: number for number, name in enumerate([*made.methods, *made.problem, *made.networks])}
    return frame.sort_values(KEYS, key=lambda column: column.map(order), kind="stable", ignore_index=True)


def _answer(study: Study, table: pd.DataFrame) -> None:
    """State which method reaches the target with the fewest bits in most cases; nothing if no method reaches it."""
    study.ask("What does it take to reach the target, and does it survive loss?")
    reached = table[table["survived"] * 2 >= table["seeds"]].dropna(subset=["kbit"])
    if reached.empty:
        return
    least = reached.loc[reached.groupby(["problem", "network"], sort=False)["kbit"].idxmin()]
    name = str(least["method"].value_counts(sort=True).index[0])
    own, won = table[table["method"] == name], least[least["method"] == name]
    text = "{name} reaches the target in {survived:,} of {runs:,} runs"
    if table["method"].nunique() > 1:
        text += ", and in {won} of {cases} cases with the fewest bits"
    text += ": an agent sends {kbit:.3g} kbit there."
    cases = {"won": len(won), "cases": len(least)} if table["method"].nunique() > 1 else {}
    ends = (
        (won["kbit_low"].iloc[0], won["kbit_high"].iloc[0]) if len(won) == 1 else (won["kbit"].min(), won["kbit"].max())
    )
    of = "95 % interval of the geometric mean" if len(won) == 1 else "From case to case, geometric means"
    study.answer(
        text,
        f"{of} over the seeds of {len(SEEDS)} that reach it, in cases in which half or more do.",
        **{"name": name, "survived": own["survived"].sum(), "runs": own["seeds"].sum(), "kbit": ends, **cases},
    )


def _tell(study: Study, each: pd.DataFrame, refused: Sequence[tuple[str, str, str, str]], reference: str) -> None:
    """Add the tables, figures and text to the study."""
    study.tables["bench_runs"] = each
    study.origin["bench"]["runs_sha256"] = digest(each)
    table = summarised(each, refused)
    _answer(study, table)
    study.table("bench", f"Suite {VERSION}: what it takes to reach the target, over {len(SEEDS)} seeds", table)
    compared = None
    if reference in set(each["method"]) and each["method"].nunique() > 1:
        title = f"Bits to the target, relative to {reference}, seed by seed"
        study.table("bench_paired", title, compared := against(each, reference))
    texts: list[str] = []
    for problem in dict.fromkeys(table["problem"]):
        chosen = PROBLEMS[problem]
        about = (
            f"**{problem}**: {chosen.about}. Kilobits that an agent sends until the {chosen.error_text} is "
            f"{chosen.target:g} or less and stays there, in {chosen.rounds} rounds: geometric mean [95 % interval, "
            f"Student's t of the logarithms] over {len(SEEDS)} seeds. 7/10: reached on 7 of 10 seeds, of which "
            "the mean is. Where fewer than half reach it, the mean error of the last round stands there instead."
        )
        texts += about, markdown(table, problem)
        study.figure(f"bench_{problem}", partial(draw, table, problem), about.replace("**", ""))
        if compared is not None and problem in set(compared["problem"]):
            about = (
                f"Bits to the target as a multiple of {reference}'s on the same seed: geometric mean [95 % interval, "
                "Student's t of the logarithms]; *: p < 0.05 after Holm, for all ratios of the benchmark together; (7):"
                " of the 7 seeds on which both reach it, if not of all. –: of fewer than 5."
            )
            texts += about, ratios(compared, problem)
    study.text("benchmark", "\n\n".join(texts) + "\n")
    for why in dict.fromkeys(why for *_, why in refused):
        names = dict.fromkeys(
            f"{method} on {problem}, {network}" for method, problem, network, w in refused if w == why
        )
        study.note(f"Left out: {'; '.join(names)}: {why}.")
