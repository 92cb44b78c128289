"""What the studies of online methods have in common: their methods by name, their measures, their step sizes."""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import networkx as nx
import numpy as np

from netsim import BadInput, Network, check
from netsim.agents import DDKL, DOKL, ODKLA, RFFDOKL, Censor, OnlineCost, Squared
from netsim.agents.costs.stream import Samples
from netsim.agents.measures.regret import DynamicRegret, StaticRegret
from netsim.coders import Coder, Float, Uniform
from netsim.scenarios.tasks.diagnosis import may_diverge
from netsim.scenarios.tasks.method import Method, averaging_weights, check_joined, methods_in
from netsim.scenarios.tasks.settings import TEXT, Compared, Published, chosen_names, residuals
from netsim.studies import Study
from netsim.typing import Array

if TYPE_CHECKING:
    pass

Tracking = Callable[[Array, int], float]


# --- step sizes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OnlineSteps(Published):
    """Step sizes of online methods, and the censor; what is left open is as published, or usual.

    Parameters
    ----------
    rho : float
        Penalty of the ADMM methods.
    eta : float
        Weight of staying where one is, of the ADMM methods: the larger, the shorter the step.
    step : float
        Step size of RFF-DOKL.
    threshold : float
        Threshold of the censor.
    decay : float
        Its decay.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"threshold": "threshold_v", "decay": "threshold_mu"}
    USUAL: ClassVar[Mapping[str, Mapping[str, float]]] = {"other": {"rho": 1.0, "eta": 8.0, "step": 0.1}}
    """rho, eta and step by data set; the dissertation does not print its own."""

    rho: float | None = None
    eta: float | None = None
    step: float | None = None
    threshold: float | None = None
    decay: float | None = None

    def resolved(self, data: str, conventions: str = TEXT) -> Self:
        """Return the step sizes for a data set, with nothing left open."""
        usual = self.USUAL.get(data, self.USUAL["other"])
        found = super().resolved(data, conventions)
        return dataclasses.replace(found, **{key: value for key, value in usual.items() if getattr(found, key) is None})

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return, for each field that may be left open, what it then is by data set."""
        usual = {key: {data: row[key] for data, row in cls.USUAL.items()} for key in cls.USUAL["other"]}
        return super().by_data() | usual

    def untold(self) -> Self:
        """Return them without rho, eta and step, which were tuned for each method."""
        return dataclasses.replace(self, rho=None, eta=None, step=None)

    def of(self, method: Method) -> Method:
        """Return a method with these step sizes."""
        rho, eta, step = (check.finite(name, getattr(self, name)) for name in ("rho", "eta", "step"))
        return method.with_steps(**{**method.steps, **_taken(method.kind, rho, eta, step)})


def _taken(kind: type, rho: float, eta: float, step: float) -> dict[str, float]:
    """Return what a class of agents takes of the step sizes."""
    if issubclass(kind, RFFDOKL):
        return {"eta": step}
    return {"rho": rho} if issubclass(kind, DDKL) else {"rho": rho, "eta": eta}


def _grid(method: Method) -> list[Method]:
    """Return a method with all step sizes worth trying, of those that it is given; what else it is given stays."""
    known = {
        "rho": (0.03, 0.1, 0.3, 1.0, 3.0),
        "eta": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        "step": (0.03, 0.1, 0.2, 0.3, 0.5, 0.7),
    }
    if issubclass(method.kind, RFFDOKL):
        known["eta"] = known["step"]
    tried = {name: values for name, values in known.items() if name in method.steps}
    return [
        method.with_steps(**{**method.steps, **dict(zip(tried, each, strict=True))})
        for each in itertools.product(*tried.values())
    ]


# --- methods ----------------------------------------------------------------------------------------------------------


def methods(censor: Censor, coder: Coder) -> dict[str, Method]:
    """Return the methods by name: plain ones send float32, as the dissertation counts; Q codes, C or Co censors."""
    plain = Float(32)
    found = (
        Method("RFF-DOKL", RFFDOKL, coder=plain),
        Method("DOKL", DOKL, coder=plain),
        Method("DOKL dense", DOKL, coder=plain, steps={"solve": "dense"}),
        Method("ODKLA", ODKLA, coder=plain),
        Method("QC-ODKLA", ODKLA, censor=censor, coder=coder),
        Method("DDKL", DDKL, coder=plain),
        Method("CoDDKL", DDKL, censor=censor, coder=plain),
        Method("QDDKL", DDKL, coder=coder),
        Method("QC-DDKL", DDKL, censor=censor, coder=coder),
    )
    return {method.name: method for method in found}


def fixed_or_own(bits: int, reach: float | None, *, saturate: bool = True) -> Uniform:
    """Return a quantizer with the fixed range [-reach, reach), or with a range for each message (None).

    Raises
    ------
    BadInput
        For numbers outside their ranges.
    """
    if reach is None:
        if not saturate:
            raise BadInput("saturate = False: must go with a range; a message's own range holds all its elements")
        return Uniform(bits)
    reach = check.finite("range", reach, above=0.0)
    return Uniform(bits, -reach, reach, saturate=saturate)


def own_methods(compared: Compared, steps: OnlineSteps, censor: Censor, taken: Collection[str] = ()) -> list[Method]:
    """Return the user's methods, which may take rho, eta, step and censor; ``taken``: the names of the others."""
    known = {name: getattr(steps, name) for name in ("rho", "eta", "step")}
    return methods_in(compared.method, known | {"censor": censor}, taken)


def wanted(algorithms: str, known: Mapping[str, Method]) -> list[Method]:
    """Return the methods that a parameter names, with commas between; raises BadInput for an unknown one."""
    return [known[name] for name in chosen_names("algorithms", algorithms, known)]


# --- learning ---------------------------------------------------------------------------------------------------------


class Streams:
    """One reading of every agent's stream: their costs, each at the start of its samples.

    Attributes
    ----------
    nodes : range
        The agents' names.
    costs : list of OnlineCost
        One an agent; they count the errors.
    """

    def __init__(
        self, samples: Sequence[Samples], size: int, share: float, weights: Sequence[Mapping[int, float]]
    ) -> None:
        self.costs = [OnlineCost(each, size, loss=Squared(), regularizer=share) for each in samples]
        self.nodes = range(len(self.costs))
        self._weights = weights

    def cost(self, node: int) -> OnlineCost:
        """Return an agent's cost: `draw` takes the next sample and predicts it, `gradient` and `argmin` are of it."""
        return self.costs[node]

    def weights(self, node: int) -> Mapping[int, float]:
        """Return the weights with which an agent averages, by name: a row of Metropolis' doubly stochastic matrix."""
        return self._weights[node]


class OnlineTask(Streams):
    """One reading of every agent's stream, and the measures of those who learn from it.

    Parameters
    ----------
    samples : sequence of iterators
        Each agent's samples (φ, y).
    size : int
        Length D of a model.
    regularizer : float
        The centre's λ; each agent's is λ/N.
    graph : networkx.Graph
        With a node 0, 1, … for each agent.
    rounds : int
        For how many rounds every agent has a sample.
    ideal : bool
        Whether the links lose and delay nothing.

    Attributes
    ----------
    graph, rounds, size
        As given.
    measure : callable
        A probe: running MSE, regret, agreement. The agents have a ``theta`` and a ``cost``, whose `draw` they call once
        a round.
    """

    def __init__(
        self,
        samples: Sequence[Samples],
        size: int,
        regularizer: float,
        graph: "nx.Graph[int]",
        *,
        rounds: int,
        ideal: bool,
    ) -> None:
        super().__init__(samples, size, regularizer / len(graph), averaging_weights(graph))
        self.graph, self.rounds, self.size = graph, rounds, size
        self.measure = Measure(self.costs, rounds, ideal, None)


class _Stopwatch:
    """The processor seconds that agents spend in ``local_step``, of those that have one.

    Parameters
    ----------
    agents : iterable
    """

    def __init__(self, agents: Iterable[Any]) -> None:
        self.seconds = 0.0
        for agent in agents:
            if hasattr(agent, "local_step"):
                agent.local_step = self._timed(agent.local_step)

    def _timed(self, step: Callable[[], Array]) -> Callable[[], Array]:
        def timed() -> Array:
            start = time.thread_time()
            found = step()
            self.seconds += time.thread_time() - start
            return found

        return timed


class Streaming:
    """Agents on a network that learn from streams.

    Parameters
    ----------
    network : Network
        Its nodes are 0, 1, …; it serves all runs.
    ideal : bool
        Whether its links lose and delay nothing.
    streams : callable
        Returns fresh streams, one an agent, always the same.
    size : int
        Length D of a model.
    regularizer : float
        The centre's λ.
    tracking : callable, optional
        Where the truth is known: from the models, shape (N, D), and the round t how far they are from it.
    """

    def __init__(
        self,
        network: Network,
        ideal: bool,
        streams: Callable[[], Sequence[Samples]],
        size: int,
        regularizer: float,
        tracking: Tracking | None = None,
    ) -> None:
        self.network = network
        self.graph = network.graph
        self.ideal = ideal
        self.streams = streams
        self.size = size
        self.share = regularizer / len(self.graph)
        self.tracking = tracking
        self.seconds: dict[str, float] = {}
        self.step_seconds: dict[str, float] = {}
        self._weights = averaging_weights(self.graph)

    def begin(self) -> Streams:
        """Return the streams, at their start."""
        return Streams(self.streams(), self.size, self.share, self._weights)

    def measure(self, streams: Streams, rounds: int) -> "Measure":
        """Return a probe of agents that learn from the streams for so many rounds."""
        return Measure(streams.costs, rounds, self.ideal, self.tracking)

    def run(self, study: Study, method: Method, rounds: int) -> None:
        """Run a method in a study, under its name, and note its running time; one whose models grow beyond all bounds
        is left out, with a note.
        """
        start = time.perf_counter()
        streams = self.begin()
        agents, measure = method.made(study, method.name, streams, rounds), self.measure(streams, rounds)
        watch = _Stopwatch(agents.values())
        with may_diverge() as outcome:
            check_joined(method.name, study.run(method.name, self.network, agents, [measure], rounds))
        if outcome.error is not None:
            steps = ", ".join(f"{name} = {value:g}" for name, value in method.steps.items() if isinstance(value, float))
            study.note(f"{method.name} diverged with {steps or 'its steps'}, and is left out: {outcome.error}")
            return
        self.seconds[method.name], self.step_seconds[method.name] = time.perf_counter() - start, watch.seconds
        study.constant = {"running_mse": measure.variance}

    def tune(self, study: Study, tried: Sequence[Method], rounds: int) -> list[Method]:
        """Return the methods with the steps of the smallest running MSE after so many rounds; keep a table of all."""
        import pandas as pd

        rows = []
        best = []
        for method in tried:
            grid = _grid(method)
            errors = []
            with study.progress(f"tune {method.name}", len(grid)) as progress:
                for number, each in enumerate(grid, 1):
                    errors.append(self._outcome(each, rounds))
                    sizes = {name: value for name, value in each.steps.items() if isinstance(value, float)}
                    rows.append({"algorithm": method.name, **sizes, "running_mse": errors[-1]})
                    progress(number)
            best.append(grid[int(np.argmin(errors))])
        table = pd.DataFrame(rows)
        chosen = table.loc[table.groupby("algorithm", sort=False)["running_mse"].idxmin()]
        study.tables["tuning"] = table
        study.table("steps", f"Steps chosen on {rounds} rounds of held-back data", chosen)
        return best

    def _outcome(self, method: Method, rounds: int) -> float:
        """Return the running MSE at the end of a run; infinity if it diverged."""
        streams = self.begin()
        agents = method.agents(streams, rounds)
        with may_diverge() as outcome:
            self.network.run(agents)
        costs = _costs(agents, streams.costs)
        mean = sum(cost.squared_error for cost in costs) / (len(costs) * rounds)
        return mean if outcome.error is None and math.isfinite(mean) else math.inf


def _costs(agents: Mapping[Any, Any], given: Sequence[OnlineCost]) -> list[OnlineCost]:
    """Return the agents' costs, which count their errors; of an agent without a ``cost`` the one that it was given."""
    found = [getattr(agent, "cost", None) for agent in agents.values()]
    # Agents put together from several processes have costs of their own: a probe reads only `agents`.
    return [cost if isinstance(cost, OnlineCost) else own for cost, own in zip(found, given, strict=True)]


class Measure:
    """The columns of a round of an online method (a probe).

    Parameters
    ----------
    costs : sequence of OnlineCost
        The costs that the agents were given, for those that do not keep theirs as ``cost``.
    rounds : int
        Number of rounds.
    ideal, tracking
        As in `Streaming`.
    """

    def __init__(self, costs: Sequence[OnlineCost], rounds: int, ideal: bool, tracking: Tracking | None) -> None:
        self._costs = costs
        self._static = StaticRegret(costs[0].size, costs[0].regularizer)
        self._dynamic = DynamicRegret(costs[0].size, costs[0].regularizer)
        self._tracking = tracking
        self._ideal = ideal
        # The best model in hindsight costs a factorisation: not in every round.
        self._checked = {*np.unique(np.geomspace(1, rounds, 40).round().astype(int)).tolist(), rounds}
        self._lost = np.zeros(len(costs))
        self._targets = np.zeros(3)  # how many so far, their sum and that of their squares

    @property
    def variance(self) -> float:
        """The variance of the targets so far: the MSE of the best constant."""
        count, total, squares = self._targets.tolist()
        return float(squares / count - (total / count) ** 2)

    def __call__(self, agents: Mapping[Any, Any]) -> dict[str, float]:
        """Return running MSE, regret, consensus error and residuals; the agents have a ``theta`` and a ``cost``."""
        costs, before = _costs(agents, self._costs), self._lost
        if not all(cost.count for cost in costs):
            raise BadInput("an agent took no sample: must take one in each round, by self.cost.draw(theta)")
        columns = {"running_mse": sum(cost.squared_error for cost in costs) / sum(cost.count for cost in costs)}
        self._lost = np.array([cost.loss_sum for cost in costs])
        features = np.stack([cost.features for cost in costs])
        targets = np.array([cost.target for cost in costs])
        losses = self._lost - before
        self._targets += len(targets), targets.sum(), targets @ targets
        self._static.add(features, targets, losses=losses)
        self._dynamic.add(features, targets, losses=losses)
        columns["static_regret"] = self._static.value if costs[0].count in self._checked else np.nan
        columns["dynamic_regret"] = self._dynamic.value
        if self._tracking is not None:
            models = np.stack([agent.theta for agent in agents.values()])
            columns["tracking_error"] = self._tracking(models, costs[0].count)
        return columns | residuals(agents, self._ideal)
