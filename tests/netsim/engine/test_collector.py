"""Runs leak no memory: unreferenced objects are freed, although garbage collection is rare during runs."""

import gc
import weakref

import pytest

import netsim
from netsim import Network, topology


class Full(netsim.RoundAgent):
    """Holds so many objects that its release is observable."""

    count = 1

    def __init__(self) -> None:
        self.kept = [[i] for i in range(5000)]

    async def say(self, k: int) -> None:
        await self.broadcast("value", k)

    def hear(self, frames: object, k: int) -> None:
        pass


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_frozen")
def test_agents_of_former_runs_are_collected() -> None:
    ring = topology.ring(4)
    former: list[weakref.ref[Full]] = []
    # A full collection starts when there are as many new objects as old ones. Each run leaves 20,000 lists.
    most = 30 + 2 * len(gc.get_objects()) // 20_000
    while all(agent() is not None for agent in former):
        assert len(former) < most
        agents = {name: Full() for name in ring}
        former.append(weakref.ref(agents[0]))
        Network(ring).run(agents)


@pytest.mark.usefixtures("nothing_frozen")
def test_no_collection_during_a_run_looks_at_what_was_built() -> None:
    looked_at: list[bool] = []

    class Looks(netsim.Agent):
        """Records whether the collector tracks its internal object `_netsim`, which was built before the run."""

        async def run(self) -> None:
            looked_at.append(any(each is self._netsim for each in gc.get_objects()))

    Network(topology.path(2)).run({0: Looks(), 1: Looks()})
    assert looked_at == [False, False]
