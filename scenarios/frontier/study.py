"""Error against bits: every method with every coder and every censor, and which of them are worth their bits."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim import AgentError, BadInput, check
from netsim.scenarios.frontier.combinations import (
    METHODS,
    ONLINE,
    REFERENCE,
    WITHIN,
    Combination,
    agents_of,
    censor_of,
    coder_of,
    combinations,
)
from netsim.scenarios.frontier.figures import draw_frontier, draw_there
from netsim.scenarios.tasks.batch import BatchTask
from netsim.scenarios.tasks.online import Steps
from netsim.scenarios.tasks.settings import Channel, Setting, chosen_names, complete, names_in, random_graph
from netsim.studies import Study

if TYPE_CHECKING:
    import pandas as pd


def frontier(
    study: Study,
    *,
    data: str = "synthetic",
    rounds: int = 1500,
    rows: int | None = None,
    rho: float | None = None,
    eta: float | None = None,
    threshold: float | None = None,
    decay: float | None = None,
    online_rho: float = 0.1,
    online_eta: float = 3.0,
    online_step: float = 0.3,
    methods: str = "DKLA,COKE,CTA",
    coders: str = "float64,float32,4,3,2,1",
    censors: str = "none,geometric,relative-0.01",
    setting: Setting = Setting(),  # noqa: B008 (frozen)
    channel: Channel = Channel(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> None:
    """Error against bits: every method with every coder and every censor, and the Pareto front.

    DKLA in float64, never censored, is the reference and always runs. A run is "there" once its training MSE stays
    within 1 % of the reference's last one.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of NAME.csv.gz in the folder NETSIM_DATA.
    rounds : int
        Number of rounds; the online methods end sooner if the first agent has passed over its samples.
    rows : int
        Use only so many rows of the table, taken at random.
    rho : float
        Penalty of DKLA and COKE.
    eta : float
        Step size of CTA.
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
    methods : str
        Which of DKLA, COKE, CTA (batch), RFF-DOKL, DOKL, ODKLA, DDKL (online) to run, with commas between. DKLA runs
        with the censor none only and COKE with all others, for COKE is DKLA with a censor.
    coders : str
        float64, float32, float16; B: bits an element of a change, range per message; B@R: the same with the fixed
        range [-R, R); qsgd-B: rounded at random, B bits and a sign.
    censors : str
        none; geometric: speak if the change is >= threshold * decay^k, or geometric-MU with another decay; power:
        threshold / k, or power-MU: threshold * k^-MU; every-M: in every M-th round; random-P: with probability P;
        relative-S: if the change is >= S times the model.
    setting : Setting
        The size of the network and of the model.
    channel : Channel
        The links.
    seed : int
        Seed of everything random.
    """
    chosen = complete(data, study.settings)
    study.settings |= chosen
    # Everything that can refuse an argument comes before the long work.
    check.integer("rounds", rounds, low=1)
    check.integer("agents", chosen["agents"], low=2)
    for name in ("rho", "eta"):
        check.finite(name, chosen[name], above=0.0)
    steps = Steps(
        rho=check.finite("online_rho", online_rho, above=0.0),
        eta=check.finite("online_eta", online_eta, above=0.0),
        step=check.finite("online_step", online_step, above=0.0),
    )
    wanted = combinations(
        chosen_names("methods", methods, METHODS),
        [coder_of(each) for each in names_in(coders)],
        [censor_of(each, chosen["threshold"], chosen["decay"]) for each in names_in(censors)],
    )
    graph = random_graph(chosen, seed)
    network = channel.network(graph, seed)
    task = BatchTask(study, data, chosen, graph, rows=rows, seed=seed, ideal=channel.is_ideal)
    passed = min(rounds, *(len(problem.targets) for problem in task.problems))
    for each in wanted:
        count = passed if each.method in ONLINE else rounds
        try:
            # A combination may diverge; that is an answer, too.
            with np.errstate(over="ignore", invalid="ignore"):
                study.run(each.name, network, agents_of(task, each, count, steps), [task.measure], count)
        except AgentError as error:
            # A coder refuses a model that has grown beyond all bounds.
            if not isinstance(error.__cause__, BadInput):
                raise
        if REFERENCE not in study.runs or not math.isfinite(_end(study)):
            raise BadInput(f"rho = {chosen['rho']}: must be such that {REFERENCE}, the reference, does not diverge")
    study.centralised = task.optimum()
    _report(study, wanted, data, task)


# --- what is measured -------------------------------------------------------------------------------------------------


def pareto(costs: ArrayLike, errors: ArrayLike) -> NDArray[np.bool_]:
    """Return which points no other point beats: none costs no more, errs no more, and is better in one of the two.

    Parameters
    ----------
    costs, errors : array, shape (n,)
        NaN and infinity are never on the front.
    """
    x, y = np.asarray(costs, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    kept = np.zeros(len(x), dtype=bool)
    best, price = math.inf, math.inf
    for i in np.lexsort((y, x)):
        if np.isfinite(x[i]) and (y[i] < best or (y[i] == best and x[i] == price)):
            kept[i], best, price = np.isfinite(y[i]), y[i], x[i]
    return kept


def settled(errors: ArrayLike, level: float) -> int | None:
    """Return the first position from which on no error is above ``level``; None if the last one is."""
    above = np.flatnonzero(~(np.asarray(errors, dtype=np.float64) <= level))
    first = int(above[-1]) + 1 if len(above) else 0
    return first if first < np.size(errors) else None


def _end(study: Study) -> float:
    """Return the reference's last training MSE."""
    return float(study.runs[REFERENCE].rounds["train_mse"].iloc[-1])


def _table(study: Study, wanted: Sequence[Combination]) -> "pd.DataFrame":
    """Return a row for each combination; one that diverged has no numbers."""
    import pandas as pd

    best = _end(study)
    shown = ["train_mse", "test_mse", "transmissions", "payload_bits", "wire_bits"]
    rows = []
    for each in wanted:
        row: dict[str, Any] = {"method": each.method, "coder": each.coder_name, "censor": each.censor_name}
        row |= dict.fromkeys([*shown, "above_%", "round_there", "payload_bits_there", "wire_bits_there"], math.nan)
        if each.name in study.runs:
            rounds = study.runs[each.name].rounds
            row |= {name: float(rounds[name].iloc[-1]) for name in shown}
            row["above_%"] = 100 * (row["train_mse"] / best - 1)
            there = settled(rounds["train_mse"], (1 + WITHIN) * best)
            if there is not None:
                at = rounds.iloc[there]
                row["round_there"] = float(at["round"])
                row["payload_bits_there"], row["wire_bits_there"] = float(at["payload_bits"]), float(at["wire_bits"])
        rows.append(row)
    table = pd.DataFrame(rows, index=[each.name for each in wanted])
    for bits in ("payload", "wire"):
        table[f"{bits}_front"] = pareto(table[f"{bits}_bits"], table["train_mse"])
    return table


def cheapest(table: "pd.DataFrame", bits: str) -> str | None:
    """Return the row with the fewest bits, of those within 1 % of the reference; of equals the one that errs least."""
    within = table[table["above_%"] <= 100 * WITHIN].dropna(subset=[bits])
    return None if within.empty else str(within.sort_values([bits, "train_mse"], kind="stable").index[0])


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, wanted: Sequence[Combination], data: str, task: BatchTask) -> None:
    table = _table(study, wanted)
    study.tables["combinations"] = table.reset_index(drop=True)
    front = table[table["payload_front"]].sort_values("payload_bits")
    shown = ["method", "coder", "censor", "train_mse", "test_mse", "transmissions", "payload_bits", "wire_bits"]
    study.table("front", f"Pareto front of {len(table)} combinations (all: combinations.csv)", front[shown])
    study.table("cheapest", "Each method's cheapest within 1 % of the reference", _cheapest_by_method(table))
    for line in _winners(table):
        study.note(line)
    best = study.centralised["train_mse"]
    study.note(f"Centralised: training MSE {best:.4g}; the reference ended at {table['train_mse'].iloc[0]:.4g}.")
    if best > task.variance:
        study.note(
            f"Does not learn: the centralised training MSE exceeds the target's variance, {task.variance:.4g}. "
            "Another --sigma may help (Air quality learns with 0.5)."
        )
    poor = table.index[~(table["train_mse"] <= task.variance)]
    if len(poor):
        study.note(f"Diverged, or no better than the target's mean; not drawn: {', '.join(map(str, poor))}.")
    study.figure("frontier", draw_frontier(table, task.variance, f"{data} data, {len(task.problems)} agents"))
    if table["payload_bits_there"].max() > 0:
        study.figure("there", draw_there(table))


def _cheapest_by_method(table: "pd.DataFrame") -> "pd.DataFrame":
    import pandas as pd

    names = [cheapest(part, "payload_bits") for _, part in table.groupby("method", sort=False)]
    found = table.loc[[name for name in names if name is not None]]
    base = table.iloc[0]
    columns: dict[str, Any] = {name: found[name] for name in ("method", "coder", "censor", "train_mse", "payload_bits")}
    columns["1 / bits"] = base["payload_bits"] / found["payload_bits"]
    columns["payload_bits_there"] = found["payload_bits_there"]
    columns["1 / bits there"] = base["payload_bits_there"] / found["payload_bits_there"]
    return pd.DataFrame(columns)


def _winners(table: "pd.DataFrame") -> Iterator[str]:
    """Yield what to say of the cheapest combinations."""
    base = table.iloc[0]
    for bits, what in (("payload_bits", "in all"), ("payload_bits_there", "until there for good")):
        name = cheapest(table, bits)
        if name is None or not (spent := float(table.loc[name].to_dict()[bits])) > 0:
            yield "No winner: nothing was sent."
            return
        above = float(table.loc[name].to_dict()["above_%"])
        yield (
            f"Winner by bits {what}: {name}, {spent:,.0f} of payload, 1/{base[bits] / spent:.1f} of {REFERENCE}'s "
            f"{base[bits]:,.0f}; its training MSE ended at {above:+.2f} % of the reference's."
        )
