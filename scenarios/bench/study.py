"""`netsim bench`: every method tuned in each case of the suite, then run on other seeds; a table, figures, an entry."""

from collections.abc import Sequence
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
from netsim.scenarios.bench.report import OWN, against, draw, markdown, ratios, summarised
from netsim.scenarios.bench.suite import BUDGET, NETWORKS, RANGES, SEEDS, TUNING_SEEDS, VERSION
from netsim.scenarios.tasks.method import Method, settable
from netsim.scenarios.tasks.settings import chosen_names, names_in
from netsim.studies import Study
from netsim.studies.results import load
from netsim.studies.sweeps import sweep
from netsim.studies.tuning import Range, tune
from netsim.util.check import one_of, refuse

_ALL = "all"
_REFERENCE = "LT-ADMM"


@dataclass(frozen=True, kw_only=True)
class Entered:
    """What is tried.

    Parameters
    ----------
    method : str
        A Python file that defines a class of agents, as for `netsim run coke --method`; several with commas between.
    algorithms : str
        Which of the suite's own methods to run, too, with commas between; "all"; "none". Default: all without --method,
        else none.
    over : str
        Further ranges to search, METHOD.PARAMETER=LOW:HIGH or …:log, with commas between. Parameters of the names eta,
        rho, gamma, beta, v and mu have ranges of the suite.
    problems : str
        Which problems, with commas between.
    networks : str
        Which networks, with commas between.
    paired : str
        The method that others are compared with, seed by seed; by default LT-ADMM, where that is tried.
    """

    method: str | None = None
    algorithms: str | None = None
    over: str | None = None
    problems: str = ",".join(PROBLEMS)
    networks: str = ",".join(NETWORKS)
    paired: str | None = None

    def methods(self) -> list[Method]:
        """Return the methods; raises BadInput for an unknown name or an unusable file."""
        named = self.algorithms or (_ALL if self.method is None else NONE)
        return chosen_methods(",".join(METHODS) if named == _ALL else named, self.method)

    def ranges(self, methods: Sequence[Method]) -> dict[str, list[str]]:
        """Return the ranges that are searched for each method; raises BadInput for one of no method."""
        known = {each.name: settable(each) for each in methods}
        found = {
            method: {name: f"{method}.{name}={RANGES[name]}" for name in values if name in RANGES}
            for method, values in known.items()
        }
        for text in names_in(self.over):
            own = Range.of(text)
            name = one_of("over: method", own.method or "", found)
            # Here rather than in the tuning: that of a user's method begins when those of the suite have run.
            now = known[name][one_of(f"over: parameter of {name}", own.parameter, known[name])]
            if isinstance(now, bool | str):
                raise refuse("over", f"{name}.{own.parameter}", f"a number, unlike {now!r}")
            found[name][own.parameter] = text
        return {name: list(texts.values()) for name, texts in found.items()}


@dataclass(frozen=True, kw_only=True)
class Work:
    """How the work is done.

    Parameters
    ----------
    jobs : int
        Number of processes.
    folder : str
        The folder of all trials and runs, in which an interrupted benchmark goes on.
    redo : bool
        Do once more what was done there with other code or data; without it that is refused.
    """

    jobs: int = 2
    folder: str = "runs/bench-sweeps"
    redo: bool = False


def bench(study: Study, *, entered: Entered = Entered(), work: Work = Work(), check: str | None = None) -> None:
    """A fixed suite for any method: bits and time to a target error, and survival, on lossy and real links.

    Each method is tuned in each case by the same number of runs, on seeds of their own, and then runs on ten others.
    Cases that a method is not made for are left out, and the table says why. One method takes some minutes on two
    cores, all of them about an hour.

    Parameters
    ----------
    check : str
        A run folder of this study, an entry, to check instead: one run of each of its cases is repeated.
    """
    if check is not None:
        check_entry(study, check)
        return
    problems = chosen_names("problems", entered.problems, PROBLEMS)
    networks = chosen_names("networks", entered.networks, NETWORKS)
    methods = entered.methods()
    if entered.paired is not None:
        one_of("paired", entered.paired, [each.name for each in methods])
    reference = entered.paired or _REFERENCE
    study.record(paired=reference)
    ranges = entered.ranges(methods)
    files = {Path(file).stem: file for file in names_in(entered.method)}
    study.origin["bench"] = {
        "version": VERSION,
        "seeds": list(SEEDS),
        "tuning": {"seeds": list(TUNING_SEEDS), "runs": BUDGET, "over": ranges},
    }
    absent = {name: NETWORKS[name].missing() for name in networks}
    runs, refused = [], []
    for number, (method, problem) in enumerate((m, p) for m in methods for p in problems):
        study.reporter.line(f"{number + 1} of {len(methods) * len(problems)}: {method.name}, {problem}")
        lacks = unsuited(method, PROBLEMS[problem])
        whys = {name: absent[name] or unreachable(method, NETWORKS[name]) or lacks for name in networks}
        refused += [(method.name, problem, name, why) for name, why in whys.items() if why]
        possible = [name for name, why in whys.items() if not why]
        if possible:
            file = files.get(method.name)
            tried = {"problem": problem, "network": possible}
            tried |= {"algorithms": method.name} if file is None else {"algorithms": NONE, "method": file}
            runs.append(_measured(study, tried, ranges[method.name], Path(work.folder) / problem / method.name, work))
    _tell(study, runs, refused, reference)


def _measured(study: Study, tried: dict[str, Any], over: Sequence[str], folder: Path, work: Work) -> pd.DataFrame:
    """Tune a method on a problem, for each network apart, and return its results on the suite's seeds."""
    how: dict[str, Any] = {"jobs": work.jobs, "redo": work.redo, "reporter": study.reporter}
    best: list[dict[str, Any]] = [{"when": {"network": name}, "methods": {}} for name in tried["network"]]
    if over:
        tuned = tune(
            "bench_case",
            over=over,
            out=folder / "tuned",
            per=("method", "network"),
            seeds=TUNING_SEEDS,
            # The suite's results say on how many of its seeds a method survives: what was chosen is tested there.
            validation=(),
            budget=BUDGET * len(tried["network"]),
            metric="score",
            **how,
            **tried,
        )
        best = tuned.best
        tried = {**tried, "settings": str(folder / "tuned" / "tuned.json")}
    done = sweep("bench_case", out=folder / "runs", seed=SEEDS, **how, **tried)
    found = load(done.folder)
    settings = {each["when"]["network"]: each["methods"] for each in best}
    texts = [
        ", ".join(f"{name} = {value:g}" for name, value in settings[network].get(method, {}).items()) or OWN
        for network, method in zip(found["network"], found["algorithm"], strict=True)
    ]
    error = PROBLEMS[tried["problem"]].error
    return pd.DataFrame(
        {
            "method": found["algorithm"],
            "problem": tried["problem"],
            "network": found["network"],
            "settings": texts,
            "seed": found["seed"],
            "error": found[error],
            "reached_bits": found["reached_bits"],
            "reached_s": found["reached_s"],
            "sent_bits": found["wire_bits"],
        }
    )


def _tell(
    study: Study, runs: Sequence[pd.DataFrame], refused: Sequence[tuple[str, str, str, str]], reference: str
) -> None:
    """Give the study its tables, figures and text."""
    if not runs:
        whys = "; ".join(dict.fromkeys(why for *_, why in refused))
        raise BadInput(f"networks: must hold one that a method can run on; {whys}")
    each = pd.concat(runs, ignore_index=True)
    study.tables["bench_runs"] = each
    study.origin["bench"]["runs_sha256"] = digest(each)
    table = summarised(each, refused)
    study.table("bench", f"Suite {VERSION}: what it takes to reach the target, over {len(SEEDS)} seeds", table)
    compared = None
    if reference in set(each["method"]) and each["method"].nunique() > 1:
        title = f"Bits to the target, relative to {reference}, seed by seed"
        study.table("bench_paired", title, compared := against(each, reference))
    texts = []
    for problem in dict.fromkeys(table["problem"]):
        chosen = PROBLEMS[problem]
        about = (
            f"**{problem}**: {chosen.about}. Kilobits that an agent sends until the {chosen.error_text} is "
            f"{chosen.target:g} or less and stays there, in {chosen.rounds} rounds: geometric mean [95 % interval, "
            f"Student's t of the logarithms] over {len(SEEDS)} seeds. 7/10: reached on 7 of 10 seeds, of which "
            "the mean is. Where fewer than half reach it, the mean error of the last round stands there instead."
        )
        texts += [about, markdown(table, problem)]
        study.figure(f"bench_{problem}", partial(draw, table, problem), about.replace("**", ""))
        if compared is not None and problem in set(compared["problem"]):
            texts.append(
                f"Bits to the target as a multiple of {reference}'s on the same seed: geometric mean [95 % interval, "
                "Student's t of the logarithms]; *: p < 0.05 after Holm, for all ratios of the benchmark together; (7):"
                " of the 7 seeds on which both reach it, if not of all. –: of fewer than 5."
            )
            texts.append(ratios(compared, problem))
    study.text("benchmark", "\n\n".join(texts) + "\n")
    for why in dict.fromkeys(why for *_, why in refused):
        names = dict.fromkeys(
            f"{method} on {problem}, {network}" for method, problem, network, w in refused if w == why
        )
        study.note(f"Left out: {'; '.join(names)}: {why}.")
