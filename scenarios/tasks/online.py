"""What the studies of online methods have in common: their methods by name, their measures, their step sizes."""

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import AgentError, BadInput, Network, Run, topology
from netsim.agents import DDKL, DOKL, ODKLA, RFFDOKL, Censor, OnlineCost, Squared
from netsim.agents.costs.stream import Samples
from netsim.agents.measures.regret import DynamicRegret, StaticRegret
from netsim.quantize import Coder, Float
from netsim.scenarios.tasks.settings import chosen_names, residuals
from netsim.studies import Study
from netsim.typing import Vector

if TYPE_CHECKING:
    import pandas as pd

OnlineAgent = RFFDOKL | ODKLA | DOKL | DDKL
Tracking = Callable[[Vector, int], float]


@dataclass(frozen=True)
class Steps:
    """Step sizes: ρ and η of the ADMM methods (a larger η is a shorter step), the step of diffusion."""

    rho: float
    eta: float
    step: float


@dataclass(frozen=True)
class Method:
    """A method under its name in the papers: a class, and what it says how often in how many bits."""

    name: str
    kind: type[OnlineAgent]
    censor: Censor | None
    coder: Coder

    def agent(self, cost: OnlineCost, rounds: int, steps: Steps, weights: Mapping[Any, float]) -> OnlineAgent:
        """Return one agent."""
        said: dict[str, Any] = {"censor": self.censor, "coder": self.coder}
        if issubclass(self.kind, RFFDOKL):
            return self.kind(cost, rounds, eta=steps.step, weights=weights, **said)
        if issubclass(self.kind, DDKL):
            return self.kind(cost, rounds, rho=steps.rho, **said)
        return self.kind(cost, rounds, rho=steps.rho, eta=steps.eta, **said)

    def grid(self) -> list[Steps]:
        """Return the step sizes worth trying for it."""
        rhos, etas, steps = (0.03, 0.1, 0.3, 1.0, 3.0), (0.5, 1.0, 2.0, 4.0, 8.0, 16.0), (0.03, 0.1, 0.2, 0.3, 0.5, 0.7)
        if issubclass(self.kind, RFFDOKL):
            return [Steps(0.0, 0.0, step) for step in steps]
        if issubclass(self.kind, DDKL):
            return [Steps(rho, 0.0, 0.0) for rho in rhos]
        return [Steps(rho, eta, 0.0) for rho, eta in itertools.product(rhos, etas)]


def methods(censor: Censor, coder: Coder) -> dict[str, Method]:
    """Return the methods by name: plain ones send float32, as the dissertation counts; Q codes, C or Co censors."""
    plain = Float(32)
    return {
        method.name: method
        for method in (
            Method("RFF-DOKL", RFFDOKL, None, plain),
            Method("DOKL", DOKL, None, plain),
            Method("ODKLA", ODKLA, None, plain),
            Method("QC-ODKLA", ODKLA, censor, coder),
            Method("DDKL", DDKL, None, plain),
            Method("CoDDKL", DDKL, censor, plain),
            Method("QDDKL", DDKL, None, coder),
            Method("QC-DDKL", DDKL, censor, coder),
        )
    }


def wanted(algorithms: str, known: Mapping[str, Method]) -> list[Method]:
    """Return the methods that a parameter names, with commas between; raises BadInput for an unknown one."""
    return [known[name] for name in chosen_names("algorithms", algorithms, known)]


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
        weights = topology.metropolis_weights(self.graph)
        self._weights = [dict(enumerate(row)) for row in weights]

    def agents(self, method: Method, rounds: int, steps: Steps) -> dict[int, OnlineAgent]:
        """Return new agents, at the start of their streams."""
        costs = [OnlineCost(samples, self.size, loss=Squared(), regularizer=self.share) for samples in self.streams()]
        return {i: method.agent(costs[i], rounds, steps, self._weights[i]) for i in self.graph}

    def run(self, study: Study, method: Method, rounds: int, steps: Steps) -> Run:
        """Run a method in a study, under its name, and note its running time."""
        measure = Measure(self.size, self.share, rounds, self.ideal, self.tracking)
        start = time.perf_counter()
        run = study.run(method.name, self.network, self.agents(method, rounds, steps), [measure], rounds)
        self.seconds[method.name] = time.perf_counter() - start
        return run

    def tune(self, study: Study, tried: Sequence[Method], rounds: int) -> dict[str, Steps]:
        """Return the steps of each method with the smallest running MSE after so many rounds; keep a table of all."""
        import pandas as pd

        rows = []
        best: dict[str, Steps] = {}
        for method in tried:
            grid = method.grid()
            errors = []
            with study.progress(f"tune {method.name}", len(grid)) as progress:
                for number, steps in enumerate(grid):
                    agents = self.agents(method, rounds, steps)
                    # Steps that are too long diverge; that is an answer, too.
                    with np.errstate(over="ignore", invalid="ignore"):
                        error = _outcome(self, agents, rounds)
                    errors.append(error)
                    rows.append({"algorithm": method.name, **vars(steps), "running_mse": error})
                    progress(number + 1)
            best[method.name] = grid[int(np.argmin(errors))]
        table = pd.DataFrame(rows)
        chosen = table.loc[table.groupby("algorithm", sort=False)["running_mse"].idxmin()]
        study.tables["tuning"] = table
        study.table("steps", f"Steps chosen on {rounds} rounds of held-back data", chosen)
        return best


def _costs(agents: Mapping[Any, OnlineAgent]) -> list[OnlineCost]:
    """Return the agents' costs, which `Streaming.agents` made."""
    return [agent.cost for agent in agents.values() if isinstance(agent.cost, OnlineCost)]


def _outcome(streaming: Streaming, agents: Mapping[int, OnlineAgent], rounds: int) -> float:
    """Return the running MSE at the end of a run; infinity if it diverged."""
    try:
        streaming.network.run(agents)
    except AgentError as error:
        # A coder refuses a model that has grown beyond all bounds.
        if isinstance(error.__cause__, BadInput):
            return math.inf
        raise
    mean = sum(cost.squared_error for cost in _costs(agents)) / (len(agents) * rounds)
    return mean if math.isfinite(mean) else math.inf


class Measure:
    """The columns of a round of an online method (a probe)."""

    def __init__(self, size: int, share: float, rounds: int, ideal: bool, tracking: Tracking | None) -> None:
        self._static = StaticRegret(size, share)
        self._dynamic = DynamicRegret(size, share)
        self._tracking = tracking
        self._ideal = ideal
        # The best model in hindsight costs a factorisation: not in every round.
        self._checked = {*np.unique(np.geomspace(1, rounds, 40).round().astype(int)).tolist(), rounds}
        self._lost: np.ndarray[Any, np.dtype[np.float64]] = np.zeros(0)

    def __call__(self, agents: Mapping[Any, OnlineAgent]) -> dict[str, float]:
        """Return running MSE, regret, consensus error and residuals."""
        costs = _costs(agents)
        count = sum(cost.count for cost in costs)
        columns = {"running_mse": sum(cost.squared_error for cost in costs) / count}
        before = self._lost if len(self._lost) else np.zeros(len(costs))
        self._lost = np.array([cost.loss_sum for cost in costs])
        features = np.stack([cost.features for cost in costs])
        targets = np.array([cost.target for cost in costs])
        losses = self._lost - before
        self._static.add(features, targets, losses=losses)
        self._dynamic.add(features, targets, losses=losses)
        columns["static_regret"] = self._static.value if costs[0].count in self._checked else np.nan
        columns["dynamic_regret"] = self._dynamic.value
        if self._tracking is not None:
            models = np.stack([agent.theta for agent in agents.values()])
            columns["tracking_error"] = self._tracking(models, costs[0].count)
        return columns | residuals(agents, self._ideal)


def given_steps(study: Study, usual: Steps) -> Steps:
    """Return what the study's parameters rho, eta and step say, the usual where they are left open."""
    given = {name: study.settings[name] for name in vars(usual)}
    return Steps(**{name: getattr(usual, name) if value is None else value for name, value in given.items()})


def choose_steps(
    study: Study, trial: Streaming | None, rounds: int, run: Sequence[Method], usual: Steps
) -> dict[str, Steps]:
    """Return the steps of each method: tuned on so many rounds of the trial if there is one, else as given, or usual.

    What the study's parameters rho, eta and step leave open is then written into its settings.
    """
    if trial is not None:
        return trial.tune(study, run, rounds)
    common = given_steps(study, usual)
    study.settings |= vars(common)
    return {method.name: common for method in run}


def converged(rounds: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of the algorithms whose error ends within a hundred times the best one's."""
    last = rounds.groupby("algorithm", sort=False)["running_mse"].last()
    good = last.index[last < 100 * last.min()]
    return rounds[rounds["algorithm"].isin(good)]


def ends(study: Study, reference: str) -> "pd.DataFrame":
    """Return a row for each algorithm's end: its error and bits, and both relative to a reference algorithm's."""
    last = study.rounds.groupby("algorithm", sort=False).last().reset_index()
    columns = ["algorithm", "round", "running_mse", "transmissions", "payload_bits", "wire_bits"]
    table = last[columns].copy()
    if reference in set(table["algorithm"]):
        base = table.set_index("algorithm").loc[reference]
        table = table.assign(
            error_ratio=table["running_mse"] / base["running_mse"],
            bits_ratio=table["payload_bits"] / base["payload_bits"],
        )
    return table.rename(columns={"error_ratio": f"MSE / {reference}", "bits_ratio": f"bits / {reference}"})
