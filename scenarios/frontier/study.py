"""Error against bits: every method with every coder and every censor, and which of them are worth their bits."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netsim import BadInput, Run
from netsim.agents import OnlineCost, Squared
from netsim.agents.schedule import Step
from netsim.scenarios.frontier.combinations import (
    METHODS,
    ONLINE,
    REFERENCE,
    WITHIN,
    censor_of,
    coder_of,
    combinations,
)
from netsim.scenarios.frontier.figures import draw_frontier, draw_there
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.batch_task import BatchSteps, BatchStudy, BatchTask
from netsim.scenarios.tasks.diagnosis import missed
from netsim.scenarios.tasks.method import Method, Task, methods_in, with_values
from netsim.scenarios.tasks.own import OTHER, OwnTask, check_left_out, own_task
from netsim.scenarios.tasks.savings import measure
from netsim.scenarios.tasks.settings import Channel, OwnProblem, Rows, Setting, chosen_names, names_in
from netsim.studies import Study
from netsim.studies.figures import Axis
from netsim.studies.outcome import may_diverge
from netsim.studies.reach import settled
from netsim.studies.results import pareto
from netsim.studies.seeds import Seeds
from netsim.util import check


@dataclass(frozen=True, kw_only=True)
class FrontierSteps(BatchSteps):
    """Step sizes of batch and online methods, and the threshold of censors.

    Parameters
    ----------
    threshold : float
        Threshold of the censors geometric and power.
    decay : float
        Decay of the threshold per round, of the censor geometric.
    online_rho : float
        Penalty of DOKL, ODKLA and DDKL.
    online_eta : float
        Weight of staying where one is, of DOKL and ODKLA: the larger, the shorter the step.
    online_step : float
        Step size of RFF-DOKL.
    """

    online_rho: float = 0.1
    online_eta: float = 3.0
    online_step: float = 0.3

    def by_method(self) -> dict[str, Mapping[str, Step | str | bool]]:
        """Return the step sizes of each method; raises BadInput where one is not positive."""
        rho, eta, step = (
            check.finite(name, getattr(self, name), above=0.0) for name in ("online_rho", "online_eta", "online_step")
        )
        admm = {"rho": rho, "eta": eta}
        online = {"RFF-DOKL": {"eta": step}, "DOKL": admm, "ODKLA": admm, "DDKL": {"rho": rho}}
        batch = {**BASELINES, **self.methods()}
        return {name: method.steps for name, method in batch.items()} | online


@dataclass(frozen=True, kw_only=True)
class MethodGrid(OwnProblem):
    """What is combined with what.

    Parameters
    ----------
    methods : str
        Which of DKLA, COKE, CTA, D-PSGD, EXTRA, DIGing, CHOCO, LEAD, BEER, R-ADMM, LT-ADMM (batch), SGP, Push-DIGing,
        AD-PSGD (batch, without coder and censor), EF21, EF21-P, FedAvg, SCAFFOLD, SCAFFOLD-states (batch, over a star),
        RFF-DOKL, DOKL, ODKLA, DDKL (online) to run, with commas between. DKLA runs with the censor none only and COKE
        with all others, for COKE is DKLA with a censor. FedAvg and SCAFFOLD take float64, float32 and float16 only.
    coders : str
        float64, float32, float16; B: bits an element of a change, range per message; B@R: the same with the fixed
        range [-R, R); qsgd-B: rounded at random, B bits and a sign.
    censors : str
        none; geometric: speak if the change is >= threshold * decay^k, or geometric-MU with another decay; power:
        threshold / k, or power-MU: threshold * k^-MU; every-M: in every M-th round; random-P: with probability P;
        relative-S: if the change is >= S times the model.
    method : str
        Also run the class that a Python file defines, as it is; several files with commas between.
    set : str
        Values of methods' parameters: METHOD.PARAMETER=VALUE, several with commas between, where METHOD is a name in
        rounds.csv; "list" names what there is.
    settings : str
        The tuned.json of `netsim tune`: each method runs with the values that were best for this condition. Of several
        with commas between, the first that was tuned for it.
    """

    methods: str = "DKLA,COKE,CTA"
    coders: str = "float64,float32,4,3,2,1"
    censors: str = "none,geometric,relative-0.01"
    method: str | None = None
    set: str | None = None
    settings: str | None = None

    def wanted(self, steps: FrontierSteps) -> list[Method]:
        """Return the combinations asked for; raises BadInput for unknown names."""
        sizes = steps.by_method()
        threshold, decay = check.finite("threshold", steps.threshold), check.finite("decay", steps.decay)
        found = combinations(
            chosen_names("methods", self.methods, METHODS),
            [coder_of(each) for each in names_in(self.coders)],
            [censor_of(each, threshold, decay) for each in names_in(self.censors)],
            sizes,
        )
        taken = [*METHODS, *(each.name for each in found)]
        own = methods_in(self.method, {**sizes["COKE"], **sizes["CTA"], "censor": steps.censor()}, taken)
        labels = {"coder": "own", "censor": "own"}
        return found + [dataclasses.replace(each, labels={"method": each.name, **labels}) for each in own]


def one_pass(task: BatchTask) -> Task:
    """Return a batch task's samples as streams: each is seen once, in its order."""

    def cost(node: int) -> OnlineCost:
        problem = task.problems[node]
        samples = iter(zip(problem.features, problem.targets.tolist(), strict=True))
        return OnlineCost(samples, task.size, loss=Squared(), regularizer=problem.regularizer)

    return Task(cost, task.graph)


def frontier(
    study: Study,
    *,
    data: str = "synthetic",
    rounds: int = 1500,
    rows: Rows = Rows(),
    steps: FrontierSteps = FrontierSteps(),
    grid: MethodGrid = MethodGrid(),
    setting: Setting = Setting(),
    channel: Channel = Channel(),
    seeds: Seeds = Seeds(),
) -> None:
    """Error against bits: every method with every coder and every censor, and the Pareto front.

    DKLA in float64, never censored, is the reference and always runs. A run is "there" once its training MSE stays
    within 1 % of the reference's last one. There is no winner unless the reference has converged. With --task the
    first column of the file's measure stands for the training MSE.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of a table in the folder NETSIM_DATA, or its path.
    rounds : int
        Number of rounds; the online methods end sooner if the first agent has passed over its samples.
    """
    edges = setting.edges
    if grid.task is not None:
        check_left_out(grid.task, data, rows, setting)
        data = OTHER
    batch = BatchStudy.of(study, data, rounds, rows, steps, setting, seeds, channel=channel, least=2)
    wanted = with_values(study, grid.wanted(batch.steps))
    task: BatchTask | OwnTask
    stream: Task
    if grid.task is None:
        task = batch.draw()
        stream, passed = one_pass(task), min(rounds, *(len(problem.targets) for problem in task.problems))
    else:
        task = stream = _own(grid.task, wanted, batch, edges)
        passed = rounds
    for each in wanted:
        online = each.labels["method"] in ONLINE
        with may_diverge() as outcome:
            network = batch.network_of(each)
            each.run(study, network, stream if online else task, [task.measure], passed if online else rounds)
        if outcome.how is not None:
            study.lost[each.name] = outcome.how
        if REFERENCE not in study.runs or not math.isfinite(_end(study, task.error)):
            raise BadInput(f"rho = {batch.steps.rho}: must be such that {REFERENCE}, the reference, does not diverge")
        if isinstance(task, OwnTask):
            task.check_above_zero(_end(study, task.error), f"{REFERENCE}, the reference,")
    study.centralised, study.error = task.optimum(), task.error
    _report(study, wanted, batch.title, task)


def _own(file: str, wanted: Sequence[Method], batch: BatchStudy[FrontierSteps, Setting], edges: int | None) -> OwnTask:
    """Return the problem of a file; raises BadInput for methods that it cannot have, before anything runs."""
    if online := [name for name in ONLINE if name in {each.labels["method"] for each in wanted}]:
        methods = ",".join(online)
        raise check.refuse("methods", methods, f"left out with task = {file!r}; the study online takes them")
    seeds = batch.seeds
    task = own_task(file, seed=seeds.data, graph_seed=seeds.graph, edges=edges, ideal=batch.channel.ideal)
    task.check(wanted, batch.rounds, ("method", "coder", "censor"))
    batch.take(task)
    return task


# --- what is measured -------------------------------------------------------------------------------------------------


def _end(study: Study, error: str) -> float:
    """Return the reference's last error."""
    return float(study.runs[REFERENCE].rounds[error].iloc[-1])


def _table(study: Study, wanted: Sequence[Method], task: BatchTask | OwnTask) -> pd.DataFrame:
    """Return a row for each combination, without numbers if it diverged."""
    error = task.error
    best = _end(study, error)
    shown = [*task.columns, "transmissions", "payload_bits", "wire_bits"]
    rows = []
    for each in wanted:
        row: dict[str, Any] = dict(each.labels)
        row |= dict.fromkeys([*shown, "above_%", "round_there", "payload_bits_there", "wire_bits_there"], math.nan)
        if each.name in study.runs:
            rounds = study.runs[each.name].rounds
            row |= {name: float(rounds[name].iloc[-1]) for name in shown}
            row["above_%"] = 100 * (row[error] / best - 1)
            there = settled(rounds[error], (1 + WITHIN) * best)
            if there is not None:
                at = rounds.iloc[there]
                row["round_there"] = float(at["round"])
                row["payload_bits_there"], row["wire_bits_there"] = float(at["payload_bits"]), float(at["wire_bits"])
        rows.append(row)
    table = pd.DataFrame(rows, index=[each.name for each in wanted])
    for bits in ("payload", "wire"):
        table[f"{bits}_front"] = pareto(table[f"{bits}_bits"], table[error])
    return table


def cheapest(table: pd.DataFrame, bits: str, error: str = "train_mse") -> str | None:
    """Return the row with the fewest bits within 1 % of the reference, then with the least error; None if none is."""
    within = table[table["above_%"] <= 100 * WITHIN].dropna(subset=[bits])
    return None if within.empty else str(within.sort_values([bits, error], kind="stable").index[0])


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, wanted: Sequence[Method], title: str, task: BatchTask | OwnTask) -> None:
    table, error = _table(study, wanted, task), measure(task.error)
    study.tables["combinations"] = table.reset_index(drop=True)
    front = table[table["payload_front"]].sort_values("payload_bits")
    shown = ["method", "coder", "censor", *task.columns, "transmissions", "payload_bits", "wire_bits"]
    study.table("front", f"Pareto front of {len(table)} combinations (all: combinations.csv)", front[shown])
    cheap = _cheapest_by_method(table, task.error)
    study.table("cheapest", "Each method's cheapest within 1 % of the reference", cheap)
    best = study.centralised.get(task.error, math.nan)
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
    """Return that the reference has not converged, so that there is no winner yet; empty if it has.

    If all frames arrive it converges to the centralised optimum, ``best``; NaN if that is not known.
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
    """Yield notes on the cheapest combinations."""
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
