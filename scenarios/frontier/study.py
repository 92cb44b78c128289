"""Error against bits: every method with every coder and every censor, and the Pareto front."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netsim import Agent, AgentError, BadInput, Run
from netsim.agents import Always, Geometric, OnlineCost, Squared
from netsim.coders import Float
from netsim.scenarios.frontier.combinations import METHODS, ONLINE, REFERENCE, WITHIN, censor_of, coder_of, combinations
from netsim.scenarios.frontier.figures import draw_frontier, draw_there
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.batch_task import BatchTask
from netsim.scenarios.tasks.diagnosis import missed
from netsim.scenarios.tasks.method import Task, methods_in, names_of
from netsim.scenarios.tasks.own import OwnTask
from netsim.scenarios.tasks.problems import KernelRegression, OwnProblem, titled
from netsim.scenarios.tasks.settings import Channel, Rows, Setting, chosen_names, names_in, published_row
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Seeds, Setup
from netsim.studies.experiment import Method as Part
from netsim.studies.experiment.study import Played, check_run, study_of
from netsim.studies.figures import Axis
from netsim.studies.reach import settled
from netsim.studies.results import pareto_front
from netsim.util import check


@dataclass(frozen=True, kw_only=True)
class OnlineSteps:
    """Step sizes of online methods.

    Parameters
    ----------
    online_rho : float
        Penalty of DOKL, ODKLA and DDKL.
    online_eta : float
        Proximal weight of DOKL and ODKLA: the larger, the shorter the step.
    online_step : float
        Step size of RFF-DOKL.
    """

    online_rho: float = 0.1
    online_eta: float = 3.0
    online_step: float = 0.3

    def by_method(self) -> dict[str, dict[str, float]]:
        """Return each method's step sizes; raises BadInput if one is not positive."""
        rho, eta, step = (
            check.finite(name, getattr(self, name), above=0.0) for name in ("online_rho", "online_eta", "online_step")
        )
        admm = {"rho": rho, "eta": eta}
        return {"RFF-DOKL": {"eta": step}, "DOKL": admm, "ODKLA": admm, "DDKL": {"rho": rho}}


@dataclass(frozen=True, kw_only=True)
class MethodGrid(OwnProblem):
    """The methods, coders and censors to combine.

    Parameters
    ----------
    methods : str
        Which of DKLA, COKE, CTA, D-PSGD, EXTRA, DIGing, CHOCO, LEAD, BEER, R-ADMM, LT-ADMM (batch), SGP, Push-DIGing,
        AD-PSGD (batch, without coder and censor), EF21, EF21-P, FedAvg, SCAFFOLD, SCAFFOLD-states (batch, over a star),
        RFF-DOKL, DOKL, ODKLA, DDKL (online) to run, separated by commas. DKLA runs only with the censor none, and COKE
        with all others, because COKE is DKLA with a censor. FedAvg and SCAFFOLD accept only float64, float32 and
        float16.
    coders : str
        float64, float32, float16; B: changes with B bits per element, and the range sent in each message; B@R: the same
        with the fixed range [-R, R); qsgd-B: changes rounded at random, with B bits and a sign per element.
    censors : str
        none: always send; geometric: send in round k if the change is >= threshold * decay^k, or geometric-MU with
        decay MU; power: if it is >= threshold / k, or power-MU: >= threshold * k^-MU; every-M: in every M-th round;
        random-P: with probability P; relative-S: if the change is >= S times the model.
    method : str
        Python file that defines a class of agents, which is also run, without other coders or censors; several files
        are separated by commas.
    """

    methods: str = "DKLA,COKE,CTA"
    coders: str = "float64,float32,4,3,2,1"
    censors: str = "none,geometric,relative-0.01"
    method: str | None = None

    def parts(self, steps: Mapping[str, Mapping[str, float]], usual: Geometric) -> dict[str, Part]:
        """Return the reference and the requested combinations; raises BadInput for unknown names."""

        def part(name: str, coder: str, censor: str, method: Part) -> Part:
            label = {"method": name, "coder": coder, "censor": censor}
            kind = OnePass if name in ONLINE else Part
            return kind(method.kind, label=label, **method.given, **steps.get(name, {}))

        chosen = chosen_names("methods", self.methods, METHODS)
        known = {name: part(name, "float64", "none", METHODS[name]) for name in ("DKLA", *chosen)}
        coders = dict(coder_of(each) for each in names_in(self.coders))
        censors = dict(censor_of(each, usual.v, usual.mu) for each in names_in(self.censors))
        found = combinations({"DKLA": known["DKLA"]}, {"float64": Float(64)}, {"none": Always()})
        found |= combinations({name: known[name] for name in chosen}, coders, censors)
        given = {**steps["COKE"], **steps["CTA"], "censor": usual}
        own = methods_in(self.method, given, [*METHODS, *found])
        return found | {name: part(name, "own", "own", each) for name, each in own.items()}

    def names(self, found: Mapping[str, Part]) -> dict[str, list[str]]:
        """Return, for each method, the short names of the parameters that it takes from the study."""

        own = {name: each for name, each in found.items() if each.label["method"] not in (*BASELINES, *ONLINE)}
        words = {name: each.label["censor"] for name, each in own.items() if "censor" in each.given}
        thresholds = [name for name, word in words.items() if word.startswith(("geometric", "power", "own"))]
        decays = {name: own[name] for name in thresholds if words[name] in ("geometric", "own")}
        return (
            names_of(own, {"rho": "rho", "eta": "eta"})
            | names_of({name: own[name] for name in thresholds}, {"threshold": "censor.v"})
            | names_of(decays, {"decay": "censor.mu"})
        )


class OnePass(Part):
    """An online method whose agents pass once, in order, over their samples of a batch task."""

    def agents(self, setup: Setup, nodes: Iterable[Any] | None = None) -> dict[Any, Agent]:
        """Return new agents for all nodes, or for the given ones."""
        task = setup.task
        assert isinstance(task, BatchTask)

        def cost(node: int) -> OnlineCost:
            problem = task.problems[node]
            samples = iter(zip(problem.features, problem.targets.tolist(), strict=True))
            return OnlineCost(samples, task.size, loss=Squared(), regularizer=problem.regularizer)

        # The run ends when the first agent has used all of its samples.
        rounds = min(setup.rounds, *(len(problem.targets) for problem in task.problems))
        return super().agents(replace(setup, task=Task(cost, task.graph), rounds=rounds), nodes)


def experiment(
    *,
    data: str = "synthetic",
    rounds: int = 1500,
    rows: Rows = Rows(),
    steps: OnlineSteps = OnlineSteps(),
    grid: MethodGrid = MethodGrid(),
    setting: Setting = Setting(),
    channel: Channel = Channel(),
    seeds: Seeds = Seeds(),
) -> Experiment:
    """Error against bits: every method with every coder and every censor, and the Pareto front.

    The reference, which always runs, is DKLA in float64 without a censor. A run has reached the reference ("there")
    once its training MSE stays within 1 % of the reference's final MSE. A winner is named only if the reference has
    converged. With --task the first column of the file's measure replaces the training MSE.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of a table in NETSIM_DATA or the cache, or its path.
    rounds : int
        Number of rounds; online methods end earlier once an agent has used all of its samples.
    """
    regression = KernelRegression(data=data, rows=rows, **asdict(setting))
    problem, data = grid.instead(regression, rows, setting, edges=setting.edges)
    if problem is regression:
        check.integer("agents", regression.whole().agents, low=2)
    elif online := [name for name in ONLINE if name in names_in(grid.methods)]:
        allowed = f"left out with task = {grid.task!r}; the study online takes them"
        raise check.refuse("methods", ",".join(online), allowed)
    paper = published_row("settings", data)
    admm = {"rho": paper["rho"]}
    sizes = {"DKLA": admm, "COKE": admm, "CTA": {"eta": paper["cta_eta"]}} | steps.by_method()
    methods = grid.parts(sizes, Geometric(paper["threshold_v"], paper["threshold_mu"]))
    return Experiment(
        problem=problem,
        methods=methods,
        networks=channel,
        seeds=[seeds],
        rounds=rounds,
        names=grid.names(methods),
        report=_report,
    )


def _check_reference(study: Study, played: Played, error: AgentError | None) -> None:
    """Raise BadInput if the reference, which runs first, diverged or has no error for comparison."""
    check_run(study, played, error)
    if played.name != REFERENCE:
        return
    if error is not None or not math.isfinite(_end(study, played.task.error)):
        rho = played.given["rho"]
        raise BadInput(f"rho = {rho}: must be such that {REFERENCE}, the reference, does not diverge")
    if isinstance(played.task, OwnTask):
        played.task.check_above_zero(_end(study, played.task.error), f"{REFERENCE}, the reference,")


frontier = study_of(experiment, ran=_check_reference)


# --- what is measured -------------------------------------------------------------------------------------------------


def _end(study: Study, error: str) -> float:
    """Return the reference's final error."""
    return float(study.runs[REFERENCE].rounds[error].iloc[-1])


def _table(study: Study, played: Sequence[Played], task: BatchTask | OwnTask) -> pd.DataFrame:
    """Return a row for each combination; its values are empty if it diverged."""
    error = task.error
    best = _end(study, error)
    shown = [*task.columns, "transmissions", "payload_bits", "wire_bits"]
    costs = ["round", "payload_bits", "wire_bits"]
    last, there = {}, {}
    for name, run in study.runs.items():
        rounds = run.rounds
        last[name] = rounds[shown].iloc[-1].astype(float)
        if (first := settled(rounds[error], (1 + WITHIN) * best)) is not None:
            there[name] = rounds[costs].iloc[first].astype(float)
    table = pd.DataFrame({each.name: each.cell.method.label for each in played}).T
    table = table.join(pd.DataFrame(last, index=shown).T)
    table["above_%"] = 100 * (table[error] / best - 1)
    table = table.join(pd.DataFrame(there, index=costs, dtype=float).T.add_suffix("_there"))
    for bits in ("payload", "wire"):
        table[f"{bits}_front"] = pareto_front(table[f"{bits}_bits"], table[error])
    return table


def cheapest(table: pd.DataFrame, bits: str, error: str = "train_mse") -> str | None:
    """Return the row with the fewest bits within 1 % of the reference, or None; ties go to the least error."""
    within = table[table["above_%"] <= 100 * WITHIN].dropna(subset=[bits])
    return None if within.empty else str(within.sort_values([bits, error], kind="stable").index[0])


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, played: Sequence[Played]) -> None:
    task, title = played[0].task, titled(played[0])
    table, error = _table(study, played, task), Axis(task.error)
    # Disable the study's comparison with the best constant prediction: here the reference is DKLA.
    study.constant = {}
    study.tables["combinations"] = table.reset_index(drop=True)
    front = table[table["payload_front"]].sort_values("payload_bits")
    shown = ["method", "coder", "censor", *task.columns, "transmissions", "payload_bits", "wire_bits"]
    study.ask("How few bits take a method to the error of one that sends all of its model in each round?")
    name, best = cheapest(table, "payload_bits", task.error), study.centralised.get(task.error, math.nan)
    if name is not None and not best > task.variance and (spent := float(table["payload_bits"][name])) > 0:
        answer(
            study,
            "{name} ends within 1 % of {reference}'s {label} with {spent:,.0f} bits, 1/{times:.3g} of its "
            "{whole:,.0f}.",
            f"The fewest of {{count}} combinations, {{front}} of them on the Pareto front. {of_one_run(study)}",
            **{"name": name, "reference": REFERENCE, "label": error.text, "spent": spent, "count": len(table)},
            **{"times": table["payload_bits"].iloc[0] / spent, "whole": table["payload_bits"].iloc[0]},
            front=len(front),
        )
    study.table("front", f"Pareto front of {len(table)} combinations (all: combinations.csv)", front[shown])
    cheap = _cheapest_by_method(table, task.error)
    study.table("cheapest", "Each method's cheapest within 1 % of the reference", cheap)
    if not best > task.variance:
        unfinished = _unfinished(study.runs[REFERENCE], best, error)
        study.note(*filter(None, [unfinished]), *_winners(table, bool(unfinished), error))
    ended = f"the reference ended at {table[task.error].iloc[0]:.4g}."
    study.note(f"Centralised: {error.text} {best:.4g}; {ended}" if best == best else f"Not centralised: {ended}")
    frames = missed(study.runs[REFERENCE])
    if frames:
        study.note(f"The reference is not the optimum that it is without loss: {frames}.")
    if best > task.variance:
        study.note(
            f"Does not learn, so that nothing wins: the centralised training MSE exceeds the target's variance, "
            f"{task.variance:.4g}. Another --sigma may help (Air quality learns with 0.5)."
        )
    poor = table.index[~((table[task.error] <= task.variance) & np.isfinite(table[task.error]))]
    if len(poor):
        why = "Diverged" if isinstance(task, OwnTask) else "Diverged, or no better than the target's mean"
        study.note(f"{why}; not drawn: {', '.join(map(str, poor))}.")
    study.figure(
        "frontier",
        partial(draw_frontier, table, error, poor, title),
        "The error that each combination ends with, by its payload and by its bits on the wire, with the Pareto front "
        "as a line; below, those that end near the reference.",
        hero=True,
    )
    if table["payload_bits_there"].max() > 0:
        study.figure(
            "there",
            partial(draw_there, table, error),
            "The payload that each combination needs until it stays within 1 % of where the reference ended, and how "
            "far from it each ends.",
        )


def _cheapest_by_method(table: pd.DataFrame, error: str) -> pd.DataFrame:
    names = [cheapest(part, "payload_bits", error) for _, part in table.groupby("method", sort=False)]
    found = table.loc[[name for name in names if name is not None]]
    base = table.iloc[0]
    columns: dict[str, Any] = {name: found[name] for name in ("method", "coder", "censor", error, "payload_bits")}
    columns["1 / bits"] = base["payload_bits"] / found["payload_bits"]
    columns["payload_bits_there"] = found["payload_bits_there"]
    columns["1 / bits there"] = base["payload_bits_there"] / found["payload_bits_there"]
    return pd.DataFrame(columns)


def _unfinished(reference: Run, best: float, error: Axis) -> str:
    """Return a note that no winner is named because the reference has not converged; "" if it has.

    Without losses the reference converges to the centralised optimum ``best``, which is NaN if unknown.
    """
    errors = reference.rounds[error.column].to_numpy()
    fell, above = 1 - errors[-1] / errors[len(errors) // 2], errors[-1] / best - 1
    if fell <= WITHIN and (missed(reference) or not above > WITHIN):
        return ""
    ended = f", and it ended {100 * above:,.1f} % above the centralised optimum" if best == best else ""
    return (
        f"Unfinished: over the second half of its {len(errors):,} rounds the reference's {error.text} fell by "
        f"{100 * fell:,.1f} %{ended}. "
        "Nothing has won yet: more --rounds tell."
    )


def _winners(table: pd.DataFrame, unfinished: bool, error: Axis) -> Iterator[str]:
    """Yield notes on the combinations with the fewest bits."""
    base, called = table.iloc[0], "Cheapest so far" if unfinished else "Winner"
    for bits, what in (("payload_bits", "in all"), ("payload_bits_there", "until there for good")):
        name = cheapest(table, bits, error.column)
        if name is None or not (spent := float(table.loc[name].to_dict()[bits])) > 0:
            yield "No winner: nothing was sent."
            return
        above = float(table.loc[name].to_dict()["above_%"])
        yield (
            f"{called} by bits {what}: {name}, {spent:,.0f} of payload, 1/{base[bits] / spent:.1f} of {REFERENCE}'s "
            f"{base[bits]:,.0f}; its {error.text} ended at {above:+.2f} % of the reference's."
        )
