"""The methods of an experiment: a class of agents and its parameters, or a function that makes agents."""

import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from netsim.agent import Agent
from netsim.errors import BadInput
from netsim.studies.experiment import paths
from netsim.studies.experiment.paths import brief
from netsim.studies.experiment.setup import Setup
from netsim.util import check
from netsim.wire.coded import Coder


@runtime_checkable
class AnyMethod(Protocol):
    """Makes the agents of a run."""

    @property
    def label(self) -> Mapping[str, str]:
        """Values of columns that distinguish variants of a method in tables."""
        ...

    def agents(self, setup: Setup) -> Mapping[Any, Agent]:
        """Return new agents, one for each node of ``setup.graph``."""
        ...


@runtime_checkable
class Derived(Protocol):
    """A placeholder for parameters that depend on all agents of a run, because an agent knows only its own cost.

    Equal placeholders of a method are evaluated once for all their parameters, before the run's agents are made.
    """

    def derive(self, agents: Mapping[Any, Agent], setup: Setup) -> Mapping[str, Any]:
        """Return parameters by name, derived from provisional agents.

        In these agents the derived parameters have their defaults, or 1.0 if a class has none.
        """
        ...


class Method:
    """A class of agents and its parameters.

    Parameters
    ----------
    kind : type
        The agents' class, called as ``kind(cost, rounds, **given)`` if there is a problem, else as ``kind(**given)``.
        Required arguments that are not given are filled in: ``rounds`` from the run, and ``weights`` from the problem
        (a node's Metropolis weights by neighbour). A static method ``graph_of(graph)`` returns the graph over which the
        agents run, if that is not the problem's.
    label : mapping, optional
        Values of columns that distinguish variants of a method in tables.
    **given
        The other arguments: numbers, coders, censors, duals; a cost or rounds given here replace the run's. A function
        is called with (setup, node) for each node. A `Derived` argument, such as `netsim.agents.theory.Chosen`, is
        replaced by its value for the run.

    Raises
    ------
    BadInput
        If the class is not a class of agents, or lacks the argument.
    """

    def __init__(self, kind: type[Agent], *, label: Mapping[str, str] | None = None, **given: Any) -> None:
        if not (inspect.isclass(kind) and issubclass(kind, Agent)):
            raise check.refuse("kind", kind, "a class of agents, a subclass of netsim.Agent")
        self.kind, self.label, self.given = kind, dict(label or {}), given
        paths.check_arguments(f"parameter of {kind.__name__}", kind, given)

    def parameters(self) -> dict[str, Any]:
        """Return the arguments by name with their values, without those from the run and those without a value."""
        given = self.given
        names = paths.signature_of(self.kind).parameters
        known = {name: given[name] if name in given else default_of(self.kind, name) for name in names} | given
        return {name: value for name, value in known.items() if value is not inspect.Parameter.empty}

    def with_parameter(self, name: str, value: Any) -> "Method":
        """Return the method with another value of an argument."""
        return self.with_given(**{name: value})

    def with_given(self, **given: Any) -> "Method":
        """Return the method with other values of some arguments."""
        return type(self)(self.kind, label=self.label, **{**self.given, **given})

    def with_label(self, **label: str) -> "Method":
        """Return the method with values of some columns."""
        return type(self)(self.kind, label={**self.label, **label}, **self.given)

    def agents(self, setup: Setup, nodes: Iterable[Any] | None = None) -> dict[Any, Agent]:
        """Return new agents, one for each node, or for some nodes.

        Raises
        ------
        BadInput
            If an argument that the class requires is neither given nor known from the run, or a `Derived` value is
            undefined.
        """
        return self._derived(setup)._made(setup, nodes)

    def _derived(self, setup: Setup) -> "Method":
        """Return the method with its `Derived` parameters replaced by their values for a run."""
        several = {name: value for name, value in self.given.items() if isinstance(value, Derived)}
        if not several:
            return self
        if self not in setup.derived:
            usual = Method(self.kind).parameters()
            trial = self.with_given(**{name: usual.get(name, 1.0) for name in several})._made(setup)
            found = {value: value.derive(trial, setup) for value in dict.fromkeys(several.values())}
            for name, value in several.items():
                if name not in found[value]:
                    raise check.refuse(name, value, f"another value; it gives {', '.join(found[value])} only")
            setup.derived[self] = self.with_given(**{name: found[value][name] for name, value in several.items()})
        derived: Method = setup.derived[self]
        return derived

    def _made(self, setup: Setup, nodes: Iterable[Any] | None = None) -> dict[Any, Agent]:
        assert setup.graph is not None
        # Inspect the signature once, not for every node: inspection takes longer than making an agent.
        signature = paths.signature_of(self.kind)
        required = [
            name
            for name in list(signature.parameters)[0 if setup.task is None else 2 :]
            if name not in self.given and default_of(self.kind, name) is inspect.Parameter.empty
        ]
        chosen = setup.graph if nodes is None else nodes
        return {node: self._agent(setup, node, signature, required) for node in chosen}

    def _agent(self, setup: Setup, node: Any, signature: inspect.Signature, required: list[str]) -> Agent:
        task = setup.task
        learns = () if task is None else (task.cost(node), setup.rounds)
        own = {name: _of_node(value, setup, node) for name, value in self.given.items()}
        if not own.keys().isdisjoint(firsts := list(signature.parameters)[:2]):
            own, learns = {**dict(zip(firsts, learns, strict=False)), **own}, ()
        if "rounds" in required:
            own["rounds"] = setup.rounds
        if "weights" in required and task is not None:
            own["weights"] = task.weights(node)
        try:
            signature.bind(*learns, **own)
        except TypeError as error:
            called = "(cost, rounds, …)" if learns else "(…)"
            raise BadInput(f"{self.kind.__name__}{called}: must have all its arguments; {error}") from None
        return self.kind(*learns, **own)

    def __repr__(self) -> str:
        return f"Method({', '.join([self.kind.__name__, *(f'{k}={brief(v)}' for k, v in self.given.items())])})"


def _of_node(value: Any, setup: Setup, node: Any) -> Any:
    """Return the value of an argument for a node; a coder with a memory is copied, because each agent needs its own."""
    if isinstance(value, Coder):
        return value.fresh()
    return value(setup, node) if inspect.isfunction(value) or isinstance(value, paths.Given) else value


def default_of(kind: type, name: str) -> Any:
    """Return the default of a class's argument for a new agent; `inspect.Parameter.empty` if it is required."""
    for each in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        # A worker unpickles a copy of the class, whose `dataclasses.MISSING` is another object: test `callable`
        # instead.
        if each.name == name and callable(each.default_factory):
            return each.default_factory()
    argument = paths.signature_of(kind).parameters[name]
    if argument.kind in (argument.VAR_KEYWORD, argument.VAR_POSITIONAL):
        return argument.empty
    # An argument declared by a descriptor, such as a number or schedule, has its default in the descriptor.
    if isinstance(argument.default, property):
        found = getattr(argument.default, "default", None)
        return argument.empty if found is None else found
    return argument.default


@dataclass(frozen=True)
class Made(paths.FromFunction):
    """A function that makes agents: ``function(setup, **parameters) -> {node: Agent}``.

    Attributes
    ----------
    function : callable
    label : mapping
        As for `Method`.
    """

    label: Mapping[str, str] = field(default_factory=dict)

    def with_label(self, **label: str) -> "Made":
        """Return the method with values of some columns."""
        return dataclasses.replace(self, label={**self.label, **label})

    def agents(self, setup: Setup) -> Mapping[Any, Agent]:
        """Return the agents that the function makes; raises BadInput unless they are agents by node."""
        found = self.function(setup)
        if not isinstance(found, Mapping) or not all(isinstance(each, Agent) for each in found.values()):
            raise BadInput(f"{brief(self.function)}(setup): must return {{node: Agent}}, not {brief(found)}")
        return found


def method_of(given: Any) -> AnyMethod:
    """Return an argument as a method: a class of agents or a function of a `Setup` is wrapped.

    Raises BadInput for any other type.
    """
    if inspect.isclass(given) and issubclass(given, Agent):
        return Method(given)
    if isinstance(given, AnyMethod) and not inspect.isclass(given):
        return given
    if callable(given) and not inspect.isclass(given):
        return Made(given)
    raise check.refuse("methods", given, "a Method, a class of agents, or a function of a Setup")


def product(method: Any, **several: Mapping[str, Any]) -> dict[str, Any]:
    """Return variants of a method: every combination of named values of its parameters.

    ``product(Method(COKE, rho=0.1), coder={"float64": Exact(), "4-bit": Uniform(4)})``. A variant's name joins the
    names of its values, without empty names; each parameter becomes a column of the results.

    Raises
    ------
    BadInput
        If a parameter is unknown, or two variants have the same name.
    """
    base, found = method_of(method), {}
    for names in itertools.product(*several.values()):
        chosen, label = base, dict(base.label)
        for parameter, name in zip(several, names, strict=True):
            chosen = chosen.with_parameter(parameter, several[parameter][name])  # type: ignore[attr-defined]
            label[parameter] = name
        variant = " ".join(filter(None, names))
        if variant in found:
            raise BadInput(f"product: must have one variant {variant!r}, not several")
        found[variant] = chosen.with_label(**label)  # type: ignore[attr-defined]
    return found
