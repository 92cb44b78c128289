"""What several studies have in common: the links between agents, and the paper's settings for a data set."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from netsim import BadInput, Link, Network, check, loss, topology
from netsim.agents.consensus.base import Dual, SharingAgent
from netsim.agents.measures.metrics import consensus_error
from netsim.network import Medium
from netsim.scenarios.published import published


@dataclass(frozen=True, kw_only=True)
class Channel:
    """The links of a study.

    Parameters
    ----------
    loss : float
        Mean probability that a frame is lost.
    burst : float
        Mean number of frames lost in a row; 1: losses are independent.
    latency : float
        Seconds that a frame is under way.
    rate : float
        Bits per second of a transmitter.
    budget : float
        Bits that a transmitter may send per round; the rest is refused.
    medium : str
        "radio": a broadcast is one transmission. "wires": one on each link.
    collisions : bool
        On a radio with a rate, transmissions that overlap at a receiver are lost there.
    round_period : float
        Length of a round in seconds.
    """

    loss: float = 0.0
    burst: float = 1.0
    latency: float = 0.0
    rate: float | None = None
    budget: float | None = None
    medium: str = "radio"
    collisions: bool = False
    round_period: float = 1.0

    @property
    def is_ideal(self) -> bool:
        """Whether every frame arrives at once."""
        return not (self.loss or self.latency or self.rate or self.budget or self.collisions)

    def network(self, graph: "nx.Graph[Any]", seed: int) -> Network:
        """Return a network of such links."""
        check.one_of("medium", self.medium, ("radio", "wires"))
        losses = (
            loss.bernoulli(self.loss)
            if self.burst == 1
            else loss.gilbert_elliott(self.loss, self.burst, names=("loss", "burst"))
        )
        link = Link(loss=losses, latency=self.latency, rate=self.rate, budget=self.budget)
        medium: Medium = "radio" if self.medium == "radio" else "wires"
        return Network(
            graph, link, round_period=self.round_period, medium=medium, collisions=self.collisions, seed=seed
        )


@dataclass(frozen=True, kw_only=True)
class Bandwidth:
    """How a study's bandwidth is chosen, if not as given (`netsim.scenarios.tasks.mapping.choose_sigma`).

    Parameters
    ----------
    median : bool
        Use the median distance between samples as the bandwidth sigma.
    tune : bool
        Choose sigma by cross-validation from a grid around that.
    """

    median: bool = False
    tune: bool = False

    def __post_init__(self) -> None:
        if self.median and self.tune:
            raise BadInput("median = True, tune = True: must be one of the two")


@dataclass(frozen=True, kw_only=True)
class Setting(Bandwidth):
    """The size of a study's network and of its model; what is left open is as published for the data set (`complete`).

    Parameters
    ----------
    agents : int
        Number of agents.
    edges : int
        Number of edges of the random graph; by default as dense as the paper's.
    features : int
        Number L of random frequencies of a layer; a model has L elements, of an online method 2L (DKL-MLP: twice that).
    map : str
        "RF-KL": random Fourier features; "DKL": two layers of them; "DKL-MLP": both layers side by side.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1].
    median : bool
        Use the median distance between samples as the bandwidth instead.
    tune : bool
        Choose the bandwidth by cross-validation; an online method's step sizes, too, on data that the run leaves out.
    regularizer : float
        The centre's regulariser lambda.
    """

    agents: int | None = None
    edges: int | None = None
    features: int | None = None
    map: str = "RF-KL"
    sigma: float | None = None
    regularizer: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma is not None and (self.median or self.tune):
            how = "median" if self.median else "tune"
            raise BadInput(f"sigma = {self.sigma:g}, {how} = True: must be one of the two")


# Parameters of studies, and where they have another name in the published tables.
_COLUMNS = {
    "agents": "agents",
    "edges": "edges",
    "sigma": "sigma",
    "features": "L",
    "regularizer": "lambda",
    "rho": "rho",
    "eta": "cta_eta",
    "threshold": "threshold_v",
    "decay": "threshold_mu",
    "bits": "bits",
}


def complete(data: str, given: Mapping[str, Any], table: str = "settings") -> dict[str, Any]:
    """Return the parameters that a study left open (None), from a paper's settings for the data set.

    The number of edges, if open, makes the graph as dense as the paper's.

    Parameters
    ----------
    given : mapping
        All parameters of the study.
    table : str
        The published table of settings, a row for each data set.
    """
    rows = published(table).set_index("dataset")
    row = rows.loc[data if data in rows.index else "other"].dropna().to_dict()
    paper = {name: row[column] for name, column in _COLUMNS.items() if column in row}
    chosen = {name: paper[name] if given[name] is None else given[name] for name in paper if name in given}
    for name in {"agents", "features", "bits"} & chosen.keys():
        chosen[name] = int(chosen[name])
    for name in ("agents", "features"):
        check.integer(name, chosen[name], low=1)
    check.finite("sigma", chosen["sigma"], above=0.0)
    check.finite("regularizer", chosen["regularizer"], low=0.0)
    if given.get("edges") is None:
        agents = chosen["agents"]
        pairs = agents * (agents - 1) // 2
        density = paper["edges"] / (paper["agents"] * (paper["agents"] - 1) / 2)
        chosen["edges"] = min(pairs, max(agents - 1, round(density * pairs)))
    return chosen


def names_in(text: str) -> list[str]:
    """Return the parts of a parameter that lists several, with commas between."""
    return [each.strip() for each in text.split(",")]


def chosen_names(parameter: str, text: str, allowed: Iterable[str]) -> list[str]:
    """Return the names that a parameter lists, with commas between, each once.

    Raises
    ------
    BadInput
        For a name that is not allowed.
    """
    known = list(allowed)
    return [check.one_of(parameter, each, known) for each in dict.fromkeys(names_in(text))]


def random_graph(chosen: Mapping[str, Any], seed: int) -> "nx.Graph[int]":
    """Return a connected random graph of so many agents and edges."""
    return topology.erdos_renyi(chosen["agents"], edges=int(chosen["edges"]), seed=seed)


def residuals(agents: Mapping[Any, SharingAgent], ideal: bool) -> dict[str, float]:
    """Return consensus_error, dual_residual (ADMM methods) and, on links that are not ideal, copy_error."""
    columns = {"consensus_error": consensus_error(np.stack([agent.theta for agent in agents.values()]))}
    duals = [agent.dual for agent in agents.values() if isinstance(agent, Dual)]
    if duals:
        columns["dual_residual"] = float(np.abs(np.sum(duals, axis=0)).max())
    if not ideal:
        columns["copy_error"] = max(
            (
                float(np.linalg.norm(copy - agents[name].sharing.own))
                for agent in agents.values()
                for name, copy in agent.sharing.copies.items()
            ),
            default=0.0,
        )
    return columns
