"""Methods: algorithms under the names that results have, and classes from a user's own files."""

import dataclasses
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import networkx as nx

import netsim
from netsim import Run, check, topology
from netsim.agents import Accumulated, Always, Censor, CodedSums, Duals, EdgeDuals, RunningSums
from netsim.agents.schedule import Scheduled, Step
from netsim.coders import Coder, Exact
from netsim.errors import BadInput
from netsim.scenarios.tasks.settings import names_in
from netsim.studies import Study, script


class Task(Protocol):
    """A problem of learning that agents share: what each minimises, and whom it believes how much."""

    @property
    def nodes(self) -> range:
        """The agents' names."""

    def cost(self, node: int, /) -> Any:
        """Return what an agent minimises: new, as before the first round."""

    def weights(self, node: int, /) -> Mapping[int, float]:
        """Return a row of a symmetric, doubly stochastic matrix: the agent's weights, by name."""


def averaging_weights(graph: "nx.Graph[int]") -> list[dict[int, float]]:
    """Return each agent's weights by name: the rows of Metropolis' symmetric, doubly stochastic matrix."""
    return [dict(enumerate(row.tolist())) for row in topology.metropolis_weights(graph)]


@dataclass(frozen=True)
class Method:
    """An algorithm under the name it has in the results.

    Attributes
    ----------
    name : str
        Its name in rounds.csv.
    kind : type
        The agents' class, made as ``kind(cost, rounds, …)``.
    steps : mapping
        Its step sizes and penalties, and what else it takes, by name.
    censor : Censor, optional
        Says when it speaks; default: always.
    coder : Coder, optional
        Says in how many bits; default: float64.
    labels : mapping
        What tables say of it.
    duals : Duals, optional
        How an ADMM method keeps its duals; default: as published.
    unheard : {"kept", "dropped"}
        What counts of a neighbour that an averaging method did not hear in a round; default: its last state.
    """

    name: str
    kind: type[netsim.Agent]
    steps: Mapping[str, Step] = field(default_factory=dict)
    censor: Censor = field(default_factory=Always)
    coder: Coder = Exact()
    labels: Mapping[str, str] = field(default_factory=dict)
    duals: Duals = Accumulated()
    unheard: str = "kept"

    def agents(self, task: Task, rounds: int) -> dict[int, Any]:
        """Return new agents, one a node; what it takes of weights, censor, coder, duals, unheard is given."""
        taken = inspect.signature(self.kind).parameters
        agents = {}
        for node in task.nodes:
            said = {"censor": self.censor, "coder": self.coder.fresh(), "duals": self.duals, "unheard": self.unheard}
            given: dict[str, Any] = {name: value for name, value in said.items() if name in taken}
            if "weights" in taken:
                given["weights"] = task.weights(node)
            agents[node] = self.kind(task.cost(node), rounds, **given, **self.steps)  # type: ignore[call-arg]
        return agents

    def with_steps(self, **steps: Step) -> "Method":
        """Return the method with other step sizes."""
        return dataclasses.replace(self, steps=steps)


REMEDIES: Mapping[str, Duals] = {
    "none": Accumulated(),
    "running-sums": RunningSums(),
    "coded-sums": CodedSums(),
    "edge-duals": EdgeDuals(),
}
"""Ways to keep the duals, by the names that parameters have for them."""


def remedied(study: Study, methods: Sequence[Method], remedy: str) -> list[Method]:
    """Return the methods, those that can with their duals kept so; the study notes which cannot.

    Raises
    ------
    BadInput
        For an unknown remedy, or one that no method can have.
    """
    duals = REMEDIES[check.one_of("remedy", remedy, REMEDIES)]
    if remedy == "none":
        return list(methods)
    able = [each for each in methods if "duals" in inspect.signature(each.kind).parameters and each.coder.whole]
    if not able:
        raise BadInput(f"remedy = {remedy!r}: must go with an ADMM method that sends states, such as DKLA")
    others = [each.name for each in methods if each not in able]
    if others:
        study.note(f"As published, without {remedy}: {', '.join(others)} (only ADMM methods that send states have it).")
    return [dataclasses.replace(each, duals=duals) if each in able else each for each in methods]


# --- classes from files -----------------------------------------------------------------------------------------------


def methods_in(files: str | None, known: Mapping[str, Any], taken: Collection[str] = ()) -> list[Method]:
    """Return the methods that a user's files define; an empty list for None.

    A file defines one subclass of `netsim.Agent`, made as ``Mine(cost, rounds, *, …)``: keyword parameters without a
    default must be ``weights``, or one of those ``known``, which they are then given.

    Parameters
    ----------
    files : str
        Paths of Python files, with commas between.
    known : mapping
        Values by name, such as rho and eta.
    taken : collection of str
        Names of the study's own methods.

    Raises
    ------
    BadInput
        If a file is not there, does not run, defines no class or several, or a class that cannot be made so; if two
        methods have one name.
    """
    found: list[Method] = []
    for file in [] if files is None else names_in(files):
        method = _method_in(file, known)
        if method.name in {*taken, *(each.name for each in found)}:
            raise BadInput(f"method = {file!r}: must be a file of another name, for there is another {method.name!r}")
        found.append(method)
    return found


def check_joined(name: str, run: Run) -> Run:
    """Return a method's run; raises BadInput if no agent took part in a round, for then there is nothing to judge."""
    if run.rounds.empty:
        raise BadInput(f"{name} took part in no round: must take part in each, by async for k in self.rounds(rounds)")
    return run


def _method_in(file: str, known: Mapping[str, Any]) -> Method:
    members = script.load("method", file).values()
    found = [each for each in members if inspect.isclass(each) and issubclass(each, netsim.Agent)]
    own = [each for each in found if not any(other is not each and issubclass(other, each) for other in found)]
    if len(own) != 1:
        raise BadInput(f"method = {file!r}: must define one subclass of netsim.Agent; it has {len(own)}")
    (kind,) = own
    allowed = {"weights", *known}
    parameters = list(inspect.signature(kind).parameters.values())
    if len(parameters) < 2 or any(each.kind is each.KEYWORD_ONLY for each in parameters[:2]):
        raise BadInput(f"method = {file!r}: must define a class that is made as {kind.__name__}(cost, rounds)")
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [each.name for each in parameters[2:] if _is_open(each) and each.kind in named]
    for name in wanted:
        check.one_of(f"method = {file!r}: a parameter of {kind.__name__} without a default", name, allowed)
    return Method(Path(file).stem, kind, {name: known[name] for name in wanted if name != "weights"})


def _is_open(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter must be given; a field that may be a schedule has no default."""
    default = parameter.default
    return default is parameter.empty or (isinstance(default, Scheduled) and default.default is None)
