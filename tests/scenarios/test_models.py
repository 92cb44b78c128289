"""Probes of models give the same columns whether they read the agents or the states that workers send."""

import networkx as nx
import numpy as np
import pytest

from netsim import Link, Network, latency, topology
from netsim.agents import COKE, CTA, CodedSums, Duals, EdgeDuals, LocalProblem, SharingAgent, Squared
from netsim.scenarios.tasks.models import ModelProbe, models_of, residuals
from tests.parts import slow

GRAPH = nx.cycle_graph(6)


def agents(duals: Duals | None = None) -> dict[int, SharingAgent]:
    rng = np.random.default_rng(0)
    found: dict[int, SharingAgent] = {}
    weights = topology.metropolis_weights(GRAPH)
    for node in GRAPH:
        problem = LocalProblem(rng.normal(size=(9, 3)), rng.normal(size=9), loss=Squared(), regularizer=0.01)
        if duals is None:
            found[node] = CTA(problem, 8, eta=0.1, weights=weights[node])
        else:
            found[node] = COKE(problem, 8, rho=0.1, duals=duals)
    return found


def network() -> Network:
    return Network(GRAPH, Link(latency=latency.uniform(0.01, 0.05), loss=0.3), round_period=0.1, seed=3)


@pytest.mark.parametrize("duals", [None, CodedSums(), EdgeDuals()], ids=["none", "coded", "edges"])
@pytest.mark.parametrize("ideal", [slow(True), False])
def test_parts_of_workers_give_the_columns_of_one_process(duals: Duals | None, ideal: bool) -> None:
    probe = ModelProbe(residuals, list(GRAPH), ideal)
    one, several = (network().run(agents(duals), [probe], workers=workers) for workers in (1, 3))
    assert one.trace_hash == several.trace_hash
    assert one.rounds.equals(several.rounds)
    assert ("copy_error" in one.rounds) == (not ideal and not isinstance(duals, EdgeDuals))
    assert ("dual_residual" in one.rounds) == (duals is not None)


def test_columns_are_those_of_their_definitions() -> None:
    run = network().run(agents())
    models = models_of(run.agents, ideal=False)
    apart = [
        np.linalg.norm(copy - run.agents[name].sharing.own)
        for agent in run.agents.values()
        for name, copy in agent.sharing.copies.items()
    ]
    columns = residuals(models)
    assert columns["copy_error"] == max(apart) > 0.0
    nothing = [None] * len(GRAPH)
    alike = {"name": list(GRAPH), "theta": [np.ones(3)] * 6, "dual": nothing, "own": nothing, "copies": [[]] * 6}
    assert residuals(alike) == {"consensus_error": 0.0}
