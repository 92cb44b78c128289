"""`netsim run theory`: compare the algorithms' theorems, also in their printed form, with runs on small problems."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim import agents as algorithms
from netsim.agents import Geometric, MultiKernelCost
from netsim.agents.costs.stream import StreamCost
from netsim.agents.measures.metrics import consensus_error
from netsim.agents.theory import MEASURED, Theorem
from netsim.agents.theory.admm import ErrorCurve, zero_error
from netsim.agents.theory.online import RegretProbe
from netsim.coders import QSGD, TopK, Uniform
from netsim.errors import NetsimError
from netsim.scenarios.theory.cases import CASES, Curve, Regrets
from netsim.scenarios.theory.problems import GRAPHS, Problem
from netsim.studies import Study
from netsim.studies.figures import drawing, legend_below
from netsim.util import check
from netsim.util.typing import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "censor 0.3·0.95ᵏ": {"censor": Geometric(0.3, 0.95)},
    "censor 0.05·0.9ᵏ, 4 bits in [-2, 2)": {"censor": Geometric(0.05, 0.9), "coder": Uniform(4, low=-2.0, high=2.0)},
    "QSGD of 3 bits": {"coder": QSGD(3)},
    "2 largest elements": {"coder": TopK(2)},
}
"""{text in the table: parameters that determine what agents send}."""

_KINDS: Mapping[Any, str] = {StreamCost: "stream", MultiKernelCost: "kernels"}
# A figure needs at least this number of rounds.
_DRAWN = 20
# Multiples of the end of a range: at the first, runs must converge; at the second, they must diverge if it is exact.
_BELOW, _ABOVE = 0.95, 1.05


def theorems() -> Iterator[tuple[type, Theorem]]:
    """Yield each algorithm that has costs, with each of the theorems that its own class names."""
    for name in sorted(algorithms.__all__):
        kind = getattr(algorithms, name)
        if "cost" in getattr(kind, "__dataclass_fields__", ()):
            for theorem in vars(kind).get("theorems", ()):
                yield kind, theorem


def problem_of(make: Any, graph: str, seed: int, rounds: int) -> Problem:
    """Return a problem with costs of the kind that an algorithm takes."""
    cost = next(each.type for each in dataclasses.fields(make) if each.name == "cost")
    return Problem(_KINDS.get(cost, "ridge"), GRAPHS[graph](), seed, rounds)


def parameters_of(make: Any, problem: Problem) -> dict[str, float]:
    """Return steps and penalties with which the algorithm learns on these problems."""
    stream = problem.kind == "stream"
    usual = {"rho": 0.3 if stream else 0.1, "eta": problem.rounds**0.5 / 4 if stream else 0.1, "gamma": 0.05}
    return {name: value for name, value in usual.items() if name in make.__dataclass_fields__}


def curves(make: Any, theorem: Theorem, problem: Problem, parameters: Mapping[str, Any]) -> Iterator[Curve]:
    """Yield each bound and prediction of a theorem, with the values of the run to which it applies."""
    agents, rounds = problem.agents(make, **parameters), problem.rounds
    known: dict[str, Array] = theorem.bounds(agents, problem.graph, rounds)
    zero: float | Array = np.inf
    if isinstance(theorem, ErrorCurve):
        # Call `errors`, because `bounds` omits a vacuous bound.
        known, zero = {"bound_error": theorem.errors(agents, problem.graph, rounds)}, zero_error(agents)
    probe = theorem.probe(agents, problem.graph)
    optimum = problem.optimum() if problem.kind == "ridge" else np.nan
    probe = Regrets(probe) if isinstance(probe, RegretProbe) else probe

    def measure(those: Mapping[int, Any]) -> dict[str, float]:
        models = np.stack([agent.theta for agent in those.values()])
        # Read copies only if they are needed, because DIGing's agents send more than their models.
        copies = np.stack([agent.sharing.own for agent in those.values()]) if "bound_copy" in known else np.nan
        row = {} if probe is None else probe(those)
        return row | {
            "model_error": float(np.linalg.norm(models - optimum)),
            "model_copy_error": float(np.linalg.norm(models - copies)),
            "consensus_error": consensus_error(models) if models.ndim == 2 else np.nan,
        }

    table = problem.run(agents, measure) if known or probe is not None else pd.DataFrame()
    promised = {name: table[name].to_numpy() for name in MEASURED if name in table} | known
    for name, values in promised.items():
        exact = name.startswith("predicted_")
        if name == "bound_regret":
            zero = table["zero_regret"].to_numpy()
        if np.any(values) and name in MEASURED:
            yield Curve(name, np.asarray(values), table[MEASURED[name]].to_numpy(), exact=exact, zero=zero)


def converges(make: Any, problem: Problem, parameters: Mapping[str, Any]) -> bool:
    """Return whether models change in the last quarter of a run at most as much as in the quarter before.

    On a stream, whose samples change the models for ever, they may change twice as much.
    """
    try:
        with np.errstate(all="ignore"):
            models = problem.kept(problem.agents(make, **parameters), lambda agent: agent.theta)
            moves = np.linalg.norm(np.diff(models, axis=0).reshape(len(models) - 1, -1), axis=1)
    except NetsimError:
        return False
    before, last = (float(part.max()) for part in np.array_split(moves, 4)[2:])
    return bool(last <= (1.0 if problem.kind == "ridge" else 2.0) * before or last < 1e-9 * moves.max())


def ranges(make: Any, theorem: Theorem, problem: Problem, parameters: Mapping[str, Any]) -> Iterator[Curve]:
    """Yield, for each range of a theorem, whether runs converge inside it and, if it is exact, diverge outside.

    What stands for a bound is the range's end, and for what is measured the exact end, where one is known.
    """
    graph = problem.graph

    def of(more: Mapping[str, Any]) -> Any:
        return theorem.ranges(problem.agents(make, **more), graph)

    chosen = {**parameters, **theorem.choice(problem.agents(make, **parameters), graph, "guaranteed")}
    found = of(chosen)
    edge = {each.parameter: each.high for each in found if each.exact}
    for each in found:
        tried = {**chosen, each.parameter: _BELOW * each.high}
        # The range of one parameter may move with another.
        inside = each.exact or all(other.contains for other in of(tried) if not other.exact)
        good = converges(make, problem, tried if inside else chosen)
        if each.exact:
            good = good and not converges(make, problem, {**chosen, each.parameter: _ABOVE * each.high})
        end = np.array([edge.get(each.parameter, np.nan) / each.high])
        name = f"{'exact ' if each.exact else ''}range of {each.parameter}"
        yield Curve(name, end, np.ones(1), exact=each.exact, holds=good, source=each.theorem)


def source_of(theorem: Theorem) -> str:
    """Return the source that the first paragraph of a theorem's docstring has in brackets; else its name."""
    said = re.findall(r"\(([^()`]*)\)", (type(theorem).__doc__ or "").partition("\n\n")[0].replace("\n   ", ""))
    return next((text for text in reversed(said) if " " in text and "=" not in text), theorem.name)


def verdict(found: list[Curve], printed: bool) -> str:
    """Return what runs make of a statement: printed form fails, fails, vacuous, tight (within a factor 2), or holds."""
    if not all(each.holds for each in found):
        return "printed form fails" if printed else "fails"
    if all(each.vacuous for each in found):
        return "vacuous"
    return "tight" if max(each.tightness for each in found) <= 2.0 else "holds"


def play(seeds: int, rounds: int, progress: Callable[[int], None]) -> Iterator[tuple[dict[str, Any], list[Curve]]]:
    """Yield a row of the table for each statement, and the curves of its runs."""
    where = [(graph, seed) for graph in GRAPHS for seed in range(seeds)]
    for done, (make, theorem) in enumerate(theorems(), 1):
        found: dict[tuple[str, str], list[Curve]] = {}
        for condition, sends in CONDITIONS.items():
            for graph, seed in where:
                problem = problem_of(make, graph, seed, rounds)
                parameters = {**parameters_of(make, problem), **sends}
                if theorem.why_not(problem.agents(make, **parameters), problem.graph):
                    break
                for part in (curves, ranges):
                    for curve in part(make, theorem, problem, parameters):
                        found.setdefault((condition, curve.name), []).append(curve)
        if not found:
            yield {"not played": f"{make.__name__}, {theorem.name}"}, []
        for (condition, name), each in found.items():
            source = each[0].source or source_of(theorem)
            yield row(f"{theorem.name}: {name}", make.__name__, source, condition, each), each
        progress(done)
    for number, case in enumerate(CASES, done + 1):
        played = [case.play(make(), seed, rounds) for make in case.graphs.values() for seed in range(seeds)]
        yield row(case.theorem, case.algorithm, case.source, case.condition, played, case.printed), played
        progress(number)


def row(
    theorem: str, algorithm: str, source: str, condition: str, found: list[Curve], printed: bool = False
) -> dict[str, Any]:
    """Return the row of a statement, whose verdict and tightness are those of its runs."""
    tight = [each.tightness for each in found]
    return {
        "theorem": theorem,
        "algorithm": algorithm,
        "source": source,
        "verdict": verdict(found, printed),
        "tight_min": min(tight),
        "tight_max": max(tight),
        "runs": len(found),
        "failed": sum(not each.holds for each in found),
        "condition": condition,
    }


def theory(study: Study, *, repeats: int = 3, rounds: int = 100) -> None:
    """Every theorem of the papers beside runs on small problems: holds, tight, vacuous, or as printed it fails.

    The problems have a path, a ring and a complete graph of 4 or 5 agents. A verdict follows from the runs alone.

    Parameters
    ----------
    repeats : int
        Number of seeds on each graph.
    rounds : int
        Rounds of a run.
    """
    seeds, rounds = check.integer("repeats", repeats, low=1), check.integer("rounds", rounds, low=_DRAWN)
    rows: list[dict[str, Any]] = []
    left: list[str] = []
    drawn: dict[str, Curve] = {}
    with study.progress("theorems", len(list(theorems())) + len(CASES)) as progress:
        for each, found in play(seeds, rounds, progress):
            if not found:
                left.append(each["not played"])
                continue
            rows.append(each)
            if len(found[0].bound) >= _DRAWN:
                drawn.setdefault(each["theorem"], found[0])
    table = pd.DataFrame(rows)
    ends = table["verdict"].value_counts()
    study.ask("Do the papers' theorems hold in runs, and how close are their bounds?")
    study.answer(
        "Of {count} statements {good} hold, {tight} of them within twice of what was measured; {vacuous} hold and say "
        "nothing, {printed} fail as they are printed, and {fails} others fail.",
        f"{{runs:,}} runs of {rounds} rounds on {len(GRAPHS)} graphs with {seeds} seed{'s' * (seeds > 1)} each; a "
        "verdict is on all runs of a statement.",
        **{"count": len(table), "good": ends.get("holds", 0) + ends.get("tight", 0), "tight": ends.get("tight", 0)},
        **{"vacuous": ends.get("vacuous", 0), "runs": table["runs"].sum()},
        **{"printed": ends.get("printed form fails", 0), "fails": ends.get("fails", 0)},
    )
    study.table("theorems", f"Theorems beside runs on {len(GRAPHS)} graphs × {seeds} seeds", table)
    study.note(
        "A bound holds if no round of any run exceeds it, and a prediction if each round is as predicted to 10⁻⁶. A "
        f"range holds if runs at {_BELOW:g} of its end converge and, if it is exact, runs at {_ABOVE:g} of it do not. "
        "Where that would leave another parameter's range, the parameters are those that the theorem chooses.",
        "Tight: within twice of what was measured in all runs. Vacuous: above what the model without learning has. "
        "tight_min and tight_max are the bound over what was measured in the last round above rounding errors; of a "
        "guaranteed range the exact end over its own, where one is known.",
        *(f"{name}: {count}" for name, count in table["verdict"].value_counts().items()),
        *(f"Without a number to compare in these runs: {each}." for each in left),
    )
    caption = "Each bound (dashed) and prediction (dotted) beside what was measured in one run."
    study.figure("bounds", partial(_draw, drawn), caption, hero=True)


def _draw(drawn: Mapping[str, Curve]) -> "Figure":
    """Draw each curve of a run and what was promised of it, a panel each."""
    columns = 4
    figure, panels = drawing(16.0, 3.0 * -(-len(drawn) // columns), columns, -(-len(drawn) // columns))
    for panel, (name, curve) in zip(panels.flat, drawn.items(), strict=False):
        rounds = np.arange(1, len(curve.bound) + 1)
        panel.plot(rounds, curve.measured, color="C0", label="measured")
        line, width, label = (":", 3.0, "predicted") if curve.exact else ("--", 1.5, "bound")
        panel.plot(rounds, curve.bound, line, linewidth=width, color="C3", label=label)
        if np.all(np.isfinite(curve.zero)):
            zero = np.broadcast_to(curve.zero, len(rounds))
            panel.plot(rounds, zero, color="0.6", linewidth=0.8, label="without learning")
        panel.set_yscale("log", nonpositive="mask")
        panel.set_title(name, fontsize=8)
        panel.set_xlabel("round", fontsize=8)
        panel.grid(alpha=0.3)
    for panel in panels.flat[len(drawn) :]:
        panel.set_visible(False)
    entries = {
        label: line for panel in panels.flat for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    legend_below(figure, entries=entries)
    return figure
