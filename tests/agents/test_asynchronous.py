"""Asynchronous methods: the round-based classes, with frames processed on arrival and broadcasts at random times."""

import asyncio
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Link, Network, latency, topology
from netsim.agents import CHOCO, DKLA, Duals, EdgeDuals, LocalProblem, SharingAgent, Squared, centralised, schedule
from netsim.coders import Uniform
from tests.parts import slow

SIZE, STEPS, LAMBDA = 6, 1500, 1e-2
GRAPH = topology.ring(5)
LATE = latency.uniform(0.1, 3.0)


class OnArrival(SharingAgent):
    """An agent that handles frames on arrival, and steps once a second on average, independent of the others."""

    async def run(self) -> None:
        self.begin()
        listening = asyncio.create_task(self.listen())
        for k in range(1, self.count + 1):
            await asyncio.sleep(self.rng.exponential())
            await self.say(k)
        listening.cancel()

    async def listen(self) -> None:
        async for frame in self.inbox:
            self.hear([frame], 0)


class AsynchronousDKLA(OnArrival, DKLA):
    """DKLA without rounds."""


class AsynchronousCHOCO(OnArrival, CHOCO):
    """CHOCO-SGD without rounds."""


def problems() -> list[LocalProblem]:
    rng = np.random.default_rng(0)
    return [
        LocalProblem(rng.normal(size=(20, SIZE)), rng.normal(size=20), loss=Squared(), regularizer=LAMBDA / len(GRAPH))
        for _ in GRAPH
    ]


def run(agents: dict[int, Any], **link: Any) -> np.ndarray[Any, Any]:
    """Return the models after a run over links that are slower than a step and reorder frames."""
    Network(GRAPH, Link(latency=LATE, **link), seed=1).run(agents)
    return np.stack([agent.theta for agent in agents.values()])


@pytest.mark.parametrize("loss", [slow(0.0), 0.3])
def test_dkla_with_edge_duals_reaches_the_optimum_without_rounds(loss: float) -> None:
    local = problems()
    agents = {i: AsynchronousDKLA(local[i], STEPS, rho=0.1, duals=EdgeDuals()) for i in GRAPH}
    models = run(agents, loss=loss)
    np.testing.assert_allclose(models, np.tile(centralised(local, LAMBDA), (len(GRAPH), 1)), rtol=0, atol=1e-6)


def test_a_fault_may_take_the_state_between_two_steps() -> None:
    local = problems()
    agents = {i: AsynchronousDKLA(local[i], STEPS, rho=0.1, duals=EdgeDuals()) for i in GRAPH}
    network = Network(GRAPH, Link(latency=LATE), seed=1)
    network.at(300.0, agents[0].restart)
    network.run(agents)
    optimum = centralised(local, LAMBDA)
    for agent in agents.values():
        np.testing.assert_allclose(agent.theta, optimum, rtol=0, atol=1e-6)


def test_coded_changes_are_gossiped_without_rounds() -> None:
    local, rows = problems(), [dict(enumerate(row)) for row in topology.metropolis_weights(GRAPH)]
    # The step size of an agent decays with the number of the agent's steps.
    steps: dict[str, Any] = {"eta": schedule.power(0.5, 1.0), "gamma": 0.3, "coder": Uniform(6)}
    agents = {i: AsynchronousCHOCO(local[i], STEPS, weights=rows[i], **steps) for i in GRAPH}
    models = run(agents)
    best = centralised(local, LAMBDA)
    assert np.linalg.norm(models - best, axis=1).max() < 0.15 * np.linalg.norm(best)
    for name, agent in agents.items():
        for other, copy in agent.sharing.copies.items():
            # All frames arrived except those in flight at the end, and each copy is the sum of all changes.
            assert other != name
            assert np.linalg.norm(copy - agents[int(str(other))].sharing.own) < 0.05 * np.linalg.norm(best)


def test_what_is_heard_after_a_crash_and_before_the_next_step_counts_for_nothing() -> None:
    class Crashed(DKLA):
        async def run(self) -> None:
            self.begin()
            await self.say(1)
            self.restart()
            self.hear([await anext(aiter(self.inbox))], 1)
            assert not self.dual.any()
            await self.say(2)

    agents = {i: Crashed(each, 2, rho=0.1) for i, each in enumerate(problems())}
    Network(GRAPH, Link(latency=0.1)).run(agents)
    assert all(agent.sharing.spoken == 1 for agent in agents.values())


def test_a_local_step_of_another_shape_is_refused_without_rounds_too() -> None:
    class Wrong(AsynchronousDKLA):
        duals: Duals = EdgeDuals()

        def local_step(self) -> Any:
            return np.zeros(SIZE + 1)

    agents = {i: Wrong(each, 2, rho=0.1) for i, each in enumerate(problems())}
    with pytest.raises(Exception, match=r"Wrong.local_step\(\) returned \(7,\)") as caught:
        run(agents)
    assert isinstance(caught.value.__cause__, BadInput)
