"""Methods: algorithms by their names in the results, remedies for lost frames, and user-defined classes."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx

import netsim
from netsim import Run, topology
from netsim.agents import Accumulated, Censor, CodedSums, Duals, EdgeDuals, OverStar, RunningSums
from netsim.agents.schedule import Scheduled, Step
from netsim.coders import Coder
from netsim.errors import BadInput
from netsim.links.reliability import WAYS
from netsim.run import Probe
from netsim.scenarios.tasks.settings import Wanted, chosen_names, names_in
from netsim.studies import Study, experiment, script
from netsim.studies.experiment.study import check_took_part, tell_parameters
from netsim.util import check
from netsim.watch import Watched


class Task:
    """A learning problem shared by agents: each agent's cost function and its weights for its neighbours.

    Parameters
    ----------
    cost : callable
        Returns an agent's cost function, in its initial state, for the agent's name.
    graph : networkx.Graph
        The network's graph; its nodes, the agents, are 0, 1, ….

    Attributes
    ----------
    nodes : range
        The agents' names.
    cost, graph
        As given.
    """

    def __init__(self, cost: Callable[[int], Any], graph: "nx.Graph[int]") -> None:
        self.cost, self.graph, self.nodes = cost, graph, range(len(graph))

    @cached_property
    def _rows(self) -> list[dict[int, float]]:
        return [dict(enumerate(row.tolist())) for row in topology.metropolis_weights(self.graph)]

    def weights(self, node: int) -> Mapping[int, float]:
        """Return an agent's Metropolis weights by name: a row of a symmetric, doubly stochastic matrix."""
        return self._rows[node]


@dataclass(frozen=True)
class Method:
    """An algorithm and its name in the results; a field that is None leaves the class's default unchanged.

    Attributes
    ----------
    name : str
        Its name in rounds.csv.
    kind : type
        The agents' class, instantiated as ``kind(cost, rounds, …)``.
    steps : mapping
        The method's step sizes, penalties and other parameters, by name.
    censor : Censor, optional
        Decides in which rounds an agent broadcasts.
    coder : Coder, optional
        Encodes broadcasts, which determines their number of bits.
    labels : mapping
        The method's values in label columns of tables, by column name.
    duals : Duals, optional
        How an ADMM method keeps its duals.
    unheard : {"kept", "dropped"}, optional
        How an averaging method treats a neighbour whose frame is missing.
    """

    name: str
    kind: type[netsim.Agent]
    steps: Mapping[str, Step | str | bool] = field(default_factory=dict)
    censor: Censor | None = None
    coder: Coder | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    duals: Duals | None = None
    unheard: str | None = None

    @property
    def over_star(self) -> bool:
        """Whether its agents are a server, the first agent, and clients, over a star."""
        return issubclass(self.kind, OverStar)

    def agents(self, task: Task, rounds: int) -> dict[int, Any]:
        """Return new agents, one per node, with Metropolis weights if the class needs weights."""
        parameters = inspect.signature(self.kind).parameters
        needs_weights = "weights" in parameters and _is_required(parameters["weights"])
        parts = {"censor": self.censor, "duals": self.duals, "unheard": self.unheard}
        given: dict[str, Any] = {name: value for name, value in parts.items() if value is not None} | {**self.steps}
        agents = {}
        for node in task.nodes:
            own: dict[str, Any] = {} if self.coder is None else {"coder": self.coder.fresh()}
            if needs_weights:
                own["weights"] = task.weights(node)
            agents[node] = self.kind(task.cost(node), rounds, **own, **given)  # type: ignore[call-arg]
        return agents

    def made(self, study: Study, name: str, task: Task, rounds: int) -> dict[int, Any]:
        """Create agents; print their parameters and record them in the study's settings.json."""
        agents = self.agents(task, rounds)
        tell_parameters(study, name, self.part, agents, 2)
        return agents

    def run(
        self,
        study: Study,
        network: netsim.Network,
        task: Task,
        probes: Sequence[Probe],
        rounds: int,
        *,
        watch: Watched | None = None,
    ) -> Run:
        """Create agents and run them on a network in a study; raises BadInput if no agent takes part in any round."""
        agents = self.made(study, self.name, task, rounds)
        return check_took_part(self.name, study.run(self.name, network, agents, probes, rounds, watch=watch))

    def with_steps(self, **steps: Step | str) -> "Method":
        """Return the method with other step sizes."""
        return dataclasses.replace(self, steps=steps)

    @property
    def part(self) -> experiment.Method:
        """The method as a part of an experiment."""
        parts = {name: getattr(self, name) for name in ("censor", "coder", "duals", "unheard")}
        given = {name: value for name, value in parts.items() if value is not None}
        return experiment.Method(self.kind, label=self.labels, **{**self.steps, **given})


def names_of(methods: Mapping[str, Method], places: Mapping[str, str]) -> dict[str, list[str]]:
    """Return short names of paths into an experiment's methods, such as censor.v, of those that are given such a part.

    Parameters
    ----------
    methods : mapping
        The methods by their names in the experiment.
    places : mapping
        The paths by their short names; one that no method has is left out.
    """
    given = {name: each.part.given for name, each in methods.items()}
    found = {
        short: [f"methods.{name}.{path}" for name, own in given.items() if path.partition(".")[0] in own]
        for short, path in places.items()
    }
    return {short: several for short, several in found.items() if several}


REMEDIES: Mapping[str, Duals] = {
    "none": Accumulated(),
    "running-sums": RunningSums(),
    "coded-sums": CodedSums(),
    "edge-duals": EdgeDuals(),
}
"""The ways to maintain the duals, by their names as parameter values."""


def with_remedy(methods: Sequence[Method], remedy: str) -> tuple[list[Method], list[str]]:
    """Return the methods, with the remedy where supported, and notes on those without it.

    ADMM methods get its duals. Running sums are also those of methods with a parameter ``running_sums``.

    Raises
    ------
    BadInput
        For an unknown remedy, or one that none of the methods supports.
    """
    duals = REMEDIES[check.one_of("remedy", remedy, REMEDIES)]
    if remedy == "none":
        return list(methods), []
    usual = {each.name: _default_of(each.kind, "duals") for each in methods}
    own = [name for name, duals in usual.items() if isinstance(duals, Duals) and not isinstance(duals, Accumulated)]
    able = [each for each in methods if isinstance(usual[each.name], Accumulated) and _sends_states(each)]
    summed = [each for each in methods if remedy == "running-sums" and _may_sum(each)]
    if not able and not summed:
        raise BadInput(f"remedy = {remedy!r}: must be combined with an ADMM method that sends states, such as DKLA")
    others = [each.name for each in methods if each not in able and each not in summed and each.name not in own]
    notes = []
    if others:
        notes.append(
            f"Run as published, without {remedy}: {', '.join(others)} (only ADMM methods that send states support it)."
        )
    if own:
        notes.append(f"Run with the duals of their own class, without {remedy}: {', '.join(own)}.")
    return [_mended(each, duals, is_able=each in able, is_summed=each in summed) for each in methods], notes


def _mended(method: Method, duals: Duals, *, is_able: bool, is_summed: bool) -> Method:
    if is_summed:
        return dataclasses.replace(method, steps={**method.steps, "running_sums": True})
    return dataclasses.replace(method, duals=duals) if is_able else method


def _may_sum(method: Method) -> bool:
    """Return whether a method has running sums of its own, which it does not use yet."""
    return _default_of(method.kind, "running_sums") is False and "running_sums" not in method.steps


def _sends_states(method: Method) -> bool:
    coder = _default_of(method.kind, "coder") if method.coder is None else method.coder
    return isinstance(coder, Coder) and coder.whole


def parse_remedies(remedies: str) -> list[str]:
    """Return the listed ways to handle lost frames, except "none": names from `REMEDIES` and link reliabilities
    (`WAYS`).

    Raises
    ------
    BadInput
        For an unknown name.
    """
    found = chosen_names("remedies", remedies, dict.fromkeys([*REMEDIES, *WAYS]))
    return [way for way in found if way != "none"]


def reliability_of(way: str) -> str:
    """Return the link reliability that a remedy implies: "none" if the agents apply the remedy themselves."""
    return way if way in WAYS else "none"


def wanted(
    compared: Wanted,
    known: Mapping[str, Method],
    given: Mapping[str, Any],
    *,
    always: Iterable[Method] = (),
    taken: Collection[str] | None = None,
) -> tuple[list[Method], list[str]]:
    """Return the methods that are compared, with their remedy, and notes on these.

    Methods are those named, those in ``always``, and the user's.

    Parameters
    ----------
    known : mapping
        The study's methods by name.
    given : mapping
        Values, by name, for parameters of the user's classes, such as rho and eta.
    always : iterable of Method
        Methods that run even if they are not named.
    taken : collection of str, optional
        Names that a user's file must not have; by default the names of the study's selected methods.

    Raises
    ------
    BadInput
        For an unknown name, an unusable file, or a remedy that no method supports.
    """
    found = [known[name] for name in chosen_names("algorithms", compared.algorithms, known)]
    found += [each for each in always if each not in found]
    own = methods_in(compared.method, given, [each.name for each in found] if taken is None else taken)
    return with_remedy(found + own, compared.remedy)


# --- classes from files -----------------------------------------------------------------------------------------------


def methods_in(files: str | None, known: Mapping[str, Any], taken: Collection[str] = ()) -> list[Method]:
    """Return the methods that a user's files define; an empty list for None.

    A file must define one subclass of `netsim.Agent`, which is instantiated as ``Mine(cost, rounds, *, …)``. A keyword
    parameter without a default must be ``weights`` or the name of a value in ``known``; a parameter with a default
    always uses it.

    Parameters
    ----------
    files : str
        Comma-separated paths of Python files.
    known : mapping
        Values by name, such as rho and eta.
    taken : collection of str
        Names of the study's own methods.

    Raises
    ------
    BadInput
        If a file is missing or does not run, if it does not define exactly one such class, or if two methods have the
        same name.
    """
    found: list[Method] = []
    for file in names_in(files):
        method = _method_in(file, known)
        if method.name in {*taken, *(each.name for each in found)}:
            raise BadInput(f"method = {file!r}: must have another file name: a method {method.name!r} already exists")
        found.append(method)
    return found


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
        raise BadInput(f"method = {file!r}: must define a class that can be called as {kind.__name__}(cost, rounds)")
    wanted = [each.name for each in parameters[2:] if _is_required(each) and each.kind in _NAMED]
    for name in wanted:
        check.one_of(f"method = {file!r}: a parameter of {kind.__name__} without a default", name, allowed)
    _check_fields(file, kind)
    return Method(Path(file).stem, kind, {name: known[name] for name in wanted if name != "weights"})


_NAMED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_required(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter is required; a `Scheduled` field without a default of its own is, too."""
    default = parameter.default
    return default is parameter.empty or (isinstance(default, Scheduled) and default.default is None)


def _default_of(kind: type, name: str) -> Any:
    """Return the default value of a class's parameter, as a new agent gets it; None if there is none."""
    for each in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        if each.name == name and each.default_factory is not dataclasses.MISSING:
            return each.default_factory()
    parameter = inspect.signature(kind).parameters.get(name)
    return None if parameter is None or _is_required(parameter) else parameter.default


def _check_fields(file: str, kind: type) -> None:
    """Raise BadInput if a class that is not a dataclass itself overrides the default of a base dataclass's field.

    Python would silently create its agents with the base class's default.
    """
    maker = next(each for each in kind.__mro__ if "__init__" in vars(each))
    for each in dataclasses.fields(maker) if "__dataclass_fields__" in vars(maker) else ():
        own = next((vars(base)[each.name] for base in kind.__mro__ if each.name in vars(base)), each.default)
        below = maker is not kind and not isinstance(own, types.MemberDescriptorType)
        if below and each.init and each.default is not dataclasses.MISSING and own is not each.default:
            raise BadInput(
                f"method = {file!r}: {kind.__name__}.{each.name} must be declared as a field, with a type "
                "annotation, in a class decorated with "
                "@dataclass(eq=False, repr=False); otherwise the base class's default is used"
            )
