"""Methods: algorithms by their names in the results, remedies for lost frames, and user-defined classes."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import netsim
from netsim import BadInput, Network, Run, topology
from netsim.agents import Accumulated, CodedSums, Duals, EdgeDuals, OverStar, RunningSums
from netsim.coders import Coder
from netsim.links.reliability import WAYS
from netsim.scenarios.tasks.models import ModelProbe, Readings, residuals
from netsim.scenarios.tasks.settings import Wanted, chosen_names, names_in
from netsim.studies import Study, script
from netsim.studies.experiment import Method, Seeds, Setup
from netsim.studies.experiment.methods import default_of
from netsim.studies.experiment.study import check_took_part, tell_parameters
from netsim.util import check
from netsim.util.typing import Array


class Task:
    """A learning problem shared by agents: each agent's cost function and its weights for its neighbours.

    Parameters
    ----------
    cost : callable
        Returns an agent's cost function, in its initial state, for the agent's name.
    graph : networkx.Graph
        The network's graph; its nodes are the agents.

    Attributes
    ----------
    nodes : list
        The agents' names.
    cost, graph
        As given.
    """

    ideal: bool = False
    """Whether the links lose and delay nothing, so that all copies of a state are the same."""

    def __init__(self, cost: Callable[[Any], Any], graph: "nx.Graph[Any]") -> None:
        self.cost, self.graph, self.nodes = cost, graph, list(graph)

    @cached_property
    def _rows(self) -> dict[Any, dict[Any, float]]:
        rows = topology.metropolis_weights(self.graph).tolist()
        return {node: dict(zip(self.nodes, row, strict=True)) for node, row in zip(self.nodes, rows, strict=True)}

    def weights(self, node: Any) -> Mapping[int, float]:
        """Return an agent's Metropolis weights by name: a row of a symmetric, doubly stochastic matrix."""
        return self._rows[node]

    def measures(self, models: Array) -> dict[str, float]:
        """Return the measures of the models of all agents, shape (N, …), by column."""
        raise NotImplementedError

    @property
    def measure(self) -> Callable[[Mapping[Any, Any]], Mapping[str, float]]:
        """A probe of a round's columns: the measures of the agents' models ``theta``, and their disagreement."""
        return ModelProbe(self._columns, self.graph, self.ideal)

    def _columns(self, models: Readings) -> dict[str, float]:
        return self.measures(np.array(models["theta"])) | residuals(models)


def agents_of(method: Method, task: Any, rounds: int) -> dict[Any, Any]:
    """Return a method's new agents for a task, one for each node."""
    return method.agents(Setup(Seeds(), rounds, graph=task.graph, task=task), task.nodes)


def played(
    study: Study, name: str, method: Method, task: Any, network: Network, probes: Sequence[Any], length: int, **how: Any
) -> Run:
    """Print a method's parameters, and run new agents of it in a study for ``length`` rounds; return the run.

    ``how`` is passed on to `Study.run`. Raises BadInput if no agent took part in any round.
    """
    agents = agents_of(method, task, length)
    tell_parameters(study, name, method, agents, 2)
    return check_took_part(name, study.run(name, network, agents, probes, **{"rounds": length, **how}))


def over_star(method: Method) -> bool:
    """Return whether a method's agents are a server, the first agent, and clients, over a star."""
    return issubclass(method.kind, OverStar)


def names_of(methods: Mapping[str, Method], places: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the short names of an experiment's paths into methods that have them, such as censor.v.

    Parameters
    ----------
    methods : mapping
        The methods by their names in the experiment.
    places : mapping
        The paths by their short names; one that no method has is left out.
    """
    found = {
        short: [f"methods.{name}.{path}" for name, own in methods.items() if path.partition(".")[0] in own.given]
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


def with_remedy(methods: Mapping[str, Method], remedy: str) -> tuple[dict[str, Method], list[str]]:
    """Return the methods, with the remedy if they support it, and notes on those that do not.

    ADMM methods get its duals. Running sums also apply to methods with a parameter ``running_sums``.

    Raises
    ------
    BadInput
        For an unknown remedy, or one that none of the methods supports.
    """
    duals = REMEDIES[check.one_of("remedy", remedy, REMEDIES)]
    if remedy == "none":
        return dict(methods), []
    usual = {name: _usual(each, "duals") for name, each in methods.items()}
    own = [name for name, duals in usual.items() if isinstance(duals, Duals) and not isinstance(duals, Accumulated)]
    changed = {n: each.with_given(duals=duals) for n, each in methods.items() if _takes_duals(each)}
    if remedy == "running-sums":
        changed |= {name: each.with_given(running_sums=True) for name, each in methods.items() if _may_sum(each)}
    if not changed:
        raise BadInput(f"remedy = {remedy!r}: must be combined with an ADMM method that sends states, such as DKLA")
    others = [name for name in methods if name not in changed and name not in own]
    only = "(only ADMM methods that send states support it)"
    as_published = f"Run as published, without {remedy}: {', '.join(others)} {only}."
    with_own = f"Run with the duals of their own class, without {remedy}: {', '.join(own)}."
    return {**methods, **changed}, [as_published] * bool(others) + [with_own] * bool(own)


def _usual(method: Method, name: str) -> Any:
    """Return the default of a method's parameter for a new agent; None if there is none."""
    if name not in inspect.signature(method.kind).parameters:
        return None
    found = default_of(method.kind, name)
    return None if found is inspect.Parameter.empty else found


def _takes_duals(method: Method) -> bool:
    coder = method.given.get("coder") or _usual(method, "coder")
    return isinstance(_usual(method, "duals"), Accumulated) and isinstance(coder, Coder) and coder.whole


def _may_sum(method: Method) -> bool:
    """Return whether a method supports running sums, but does not use them."""
    return _usual(method, "running_sums") is False and "running_sums" not in method.given


def parse_remedies(remedies: str) -> list[str]:
    """Return the listed remedies for lost frames, except "none": names from `REMEDIES` and link reliabilities (`WAYS`).

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
    always: Iterable[str] = (),
    taken: Collection[str] | None = None,
) -> tuple[dict[str, Method], list[str]]:
    """Return the compared methods by name, with their remedy, and notes on it.

    These are the methods that ``compared`` names, those in ``always``, and the user's methods.

    Parameters
    ----------
    known : mapping
        The study's methods by name.
    given : mapping
        Values, by name, for parameters of the user's classes, such as rho and eta.
    always : iterable of str
        Methods that run even if they are not named.
    taken : collection of str, optional
        Names that a user's file must not have; by default the names of the study's selected methods.

    Raises
    ------
    BadInput
        For an unknown name, an unusable file, or a remedy that no method supports.
    """
    found = {name: known[name] for name in [*chosen_names("algorithms", compared.algorithms, known), *always]}
    own = methods_in(compared.method, given, found if taken is None else taken)
    return with_remedy(found | own, compared.remedy)


# --- classes from files -----------------------------------------------------------------------------------------------


def methods_in(files: str | None, known: Mapping[str, Any], taken: Collection[str] = ()) -> dict[str, Method]:
    """Return the methods that a user's files define, by the files' names; none for None.

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
    found: dict[str, Method] = {}
    for file in names_in(files):
        method, name = _method_in(file, known), Path(file).stem
        if name in {*taken, *found}:
            raise BadInput(f"method = {file!r}: must have another file name: a method {name!r} already exists")
        found[name] = method
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
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [e.name for e in parameters[2:] if e.kind in named and default_of(kind, e.name) is inspect.Parameter.empty]
    for name in wanted:
        check.one_of(f"method = {file!r}: a parameter of {kind.__name__} without a default", name, allowed)
    _check_fields(file, kind)
    return Method(kind, **{name: known[name] for name in wanted if name != "weights"})


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
