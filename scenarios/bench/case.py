"""`netsim run bench_case`: one case of the suite (a problem on a network) for some methods at given settings."""

from collections.abc import Sequence
from functools import cache, partial

from netsim import AgentError, BadInput, topology
from netsim.scenarios.bench.methods import chosen_methods
from netsim.scenarios.bench.problems import PROBLEMS, Suited
from netsim.scenarios.bench.suite import AGENTS, NETWORKS, Links
from netsim.scenarios.tasks.answers import answer_least
from netsim.scenarios.tasks.diagnosis import diverged
from netsim.scenarios.tasks.method import Task, agents_of, over_star
from netsim.scenarios.tasks.theory import THEORY
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Method, Seeds
from netsim.studies.experiment.study import Played, study_of
from netsim.studies.figures import Axis, curves
from netsim.util import check


def experiment(
    *,
    problem: str = "regression",
    network: str = "ideal",
    algorithms: str = "D-PSGD,DKLA",
    method: str | None = None,
    seeds: Seeds = Seeds(),
) -> Experiment:
    """One case of the benchmark: some methods on one of its problems and networks, at given settings.

    Parameters
    ----------
    problem : str
        "regression" or "digits".
    network : str
        "ideal", "loss-1", "loss-10", "bursts", "intel-lab" or "grenoble".
    algorithms : str
        The suite's methods to run, separated by commas. "none": run only those of --method.
    method : str
        Python file that defines a class of agents, which is run too; several files are separated by commas.
    """
    chosen = PROBLEMS[check.one_of("problem", problem, PROBLEMS)]
    links = NETWORKS[check.one_of("network", network, NETWORKS)]
    methods = chosen_methods(algorithms, method)
    for name, each in methods.items():
        if why := unreachable(name, each, links):
            raise BadInput(f"network = {network!r}: must be one that {name} can run on; {why}")
        if why := unsuited(each, chosen):
            raise BadInput(f"problem = {problem!r}: must be one that {name} can learn; {why}")
    return Experiment(
        problem=chosen,
        methods=methods,
        networks=links,
        seeds=[seeds],
        rounds=chosen.rounds,
        report=partial(_report, case=f"{problem}, {network}"),
    )


def _measure(study: Study, played: Played, error: AgentError | None) -> None:
    """Add columns with the cost of reaching the target, and a note if the run diverged."""
    if error is not None:
        raise error
    chosen, agents = played.cell.problem, len(played.setup.graph or ())
    assert isinstance(chosen, Suited)
    study.column("reached_bits", lambda rounds: chosen.columns(rounds, agents)["reached_bits"])
    study.column("reached_s", lambda rounds: chosen.columns(rounds, agents)["reached_s"])
    study.column("score", lambda rounds: chosen.columns(rounds, agents)["score"])
    study.note(*filter(None, [diverged(played.name, study.runs[played.name], chosen.error)]))


bench_case = study_of(experiment, ran=_measure, measures=THEORY)


def _report(study: Study, played: Sequence[Played], *, case: str) -> None:
    cell, agents = played[0].cell, len(played[0].task.graph)
    chosen = cell.problem
    assert isinstance(chosen, Suited)
    error = Axis(chosen.error, True)
    answer_least(study, chosen.error)
    shown = study.rounds[study.rounds[chosen.error] < 100]
    axes = [Axis("round", log=True), Axis("wire_bits", log=True)]
    title = f"{case}, {agents} agents, {cell.seeds.text}"
    study.figure(
        "error",
        partial(curves, shown, error, axes, title, {"target": chosen.target}),
        f"The {chosen.error_text} by rounds and by bits on the wire; the grey line is the target.",
        hero=True,
    )


def unreachable(name: str, method: Method, links: Links) -> str:
    """Return the reason why a method cannot run on these links; "" if it can."""
    if over_star(method) and links.measured is not None:
        return f"{name} needs a server that is linked with all others"
    return ""


def unsuited(method: Method, problem: Suited) -> str:
    """Return the members that a method needs but the problem's cost function lacks; "" if none."""
    try:
        agents_of(method, _example(problem), problem.rounds)
    except BadInput as error:
        return str(error)
    return ""


@cache
def _example(problem: Suited) -> Task:
    """Return a cached task of a problem, used only to check which members its costs have."""
    return problem.task(topology.star(AGENTS), 0)
