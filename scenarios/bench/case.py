"""`netsim run bench_case`: one case of the suite, a problem on a network, for some methods at given settings."""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from netsim import BadInput, topology
from netsim.scenarios.bench.methods import chosen_methods
from netsim.scenarios.bench.problems import PROBLEMS, Problem, reached, score
from netsim.scenarios.bench.suite import AGENTS, NETWORKS, Links
from netsim.scenarios.tasks.diagnosis import diverged
from netsim.scenarios.tasks.method import Method, Task, with_values
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.studies.seeds import Seeds
from netsim.util import check


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What is tried.

    Parameters
    ----------
    algorithms : str
        Which of the suite's methods to run, with commas between; "none": only those of --method.
    method : str
        Also run the class that a Python file defines; several files with commas between.
    set : str
        Values of methods' parameters: METHOD.PARAMETER=VALUE, several with commas between; "list" names what there is.
    settings : str
        The tuned.json of `netsim tune`: each method runs with the values that were best for this condition.
    """

    algorithms: str = "D-PSGD,DKLA"
    method: str | None = None
    set: str | None = None
    settings: str | None = None


def bench_case(
    study: Study,
    *,
    problem: str = "regression",
    network: str = "ideal",
    tried: Tried = Tried(),
    seeds: Seeds = Seeds(),
) -> None:
    """One case of the benchmark: some methods on one of its problems and networks, at given settings.

    Parameters
    ----------
    problem : str
        "regression" or "digits".
    network : str
        "ideal", "loss-1", "loss-10", "bursts", "intel-lab" or "grenoble".
    """
    chosen = PROBLEMS[check.one_of("problem", problem, PROBLEMS)]
    links = NETWORKS[check.one_of("network", network, NETWORKS)]
    methods = with_values(study, chosen_methods(tried.algorithms, tried.method))
    for method in methods:
        if why := unreachable(method, links):
            raise BadInput(f"network = {network!r}: must be one that {method.name} can run on; {why}")
        if why := unsuited(method, chosen):
            raise BadInput(f"problem = {problem!r}: must be one that {method.name} can learn; {why}")
    places = [links.network(seeds, star=method.over_star) for method in methods]
    # A star has as many.
    agents = len(places[0].graph)
    where: dict[str, Any] = {"error": chosen.error, "target": chosen.target}
    study.column("reached_bits", lambda rounds: reached(rounds, **where, cost="wire_bits") / agents)
    study.column("reached_s", lambda rounds: reached(rounds, **where, cost="time_s"))
    study.column("score", lambda rounds: score(rounds, **where, agents=agents))
    study.error = chosen.error
    for method, place in zip(methods, places, strict=True):
        task = chosen.task(place.graph, seeds.data)
        run = method.run(study, place, task, [task.measure], chosen.rounds)
        study.note(*filter(None, [diverged(method.name, run, chosen.error)]))
    title = f"{problem}, {network}, {agents} agents, {seeds.text}"
    error = Axis(chosen.error, True)
    shown = study.rounds[study.rounds[chosen.error] < 100]
    axes = [Axis("round", log=True), Axis("wire_bits", log=True)]
    study.figure(
        "error",
        partial(curves, shown, error, axes, title, {"target": chosen.target}),
        f"The {chosen.error_text} by rounds and by bits on the wire; the grey line is the target.",
    )


def unreachable(method: Method, links: Links) -> str:
    """Return why a method cannot run on links; empty if it can."""
    if method.over_star and links.measured is not None:
        return f"{method.name} needs a server that is linked with all others"
    return ""


def unsuited(method: Method, problem: Problem) -> str:
    """Return what a method needs of a cost that a problem's lacks; empty if nothing."""
    try:
        method.agents(_example(problem), problem.rounds)
    except BadInput as error:
        return str(error)
    return ""


@cache
def _example(problem: Problem) -> Task:
    """Return a task of a problem, for agents that never run."""
    return problem.task(topology.star(AGENTS), 0)
