"""Studies of learning over several workers give the same rows, ledgers and hashes as in one process."""

from collections.abc import Mapping
from typing import Any

import pytest

from netsim import Link, NetsimError, Network, latency, topology
from netsim.agents import ODKLA
from netsim.network import spread
from netsim.parallel.states import StateSender
from netsim.scenarios.tasks import online
from netsim.scenarios.tasks.models import AgentProbe, Readings
from netsim.studies import Study, catalogue
from tests.parts import message_of, slow

LOSSY = {"loss": 0.2, "latency": 0.05}
STUDIES: dict[str, dict[str, Any]] = {
    "coke": {"agents": 6, "features": 8, "rounds": 8, "bits": 4, **LOSSY},
    "online": {"agents": 6, "features": 8, "rounds": 8, **LOSSY},
    "dynamic": {"agents": 6, "features": 8, "rounds": 8, "data": "drift", "compare_bits": "3", **LOSSY},
    # One run of each method, with and without a coder.
    "omkl": {"agents": 5, "features": 6, "rounds": 12, "rows": 400, "repeats": 1, "eta": "0.1", "gamma": "0.09"}
    | {"topologies": "path,complete", **LOSSY},
    "polk": {"agents": 5, "samples": 200, "checks": 3, **LOSSY},
}


QUICK: dict[str, dict[str, Any]] = {"coke": {"algorithms": "CTA,COKE"}, "dynamic": {"algorithms": "DOKL,QC-DDKL"}}
"""Two methods of two studies suffice to check that measures agree; `pytest -m slow` runs all of them."""


def played(name: str, workers: int, few: bool) -> Study:
    with spread(workers):
        return catalogue.find_study(name).execute(**STUDIES[name] | (QUICK[name] if few else {}))


@pytest.mark.parametrize(("name", "few"), [*[(name, True) for name in QUICK], *[slow(name, False) for name in STUDIES]])
def test_a_study_is_the_same_over_workers(name: str, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    one = played(name, 1, few)
    sent = []
    whole = StateSender.changes

    def changes(states: StateSender) -> bytes:
        sent.append(states)
        # A worker sends complete states only once, at the end.
        assert len(sent) == 1
        return whole(states)

    with monkeypatch.context() as patched:
        patched.setattr(StateSender, "changes", changes)
        several = played(name, 3, few)
    assert several.rounds.equals(one.rounds)
    assert several.runs.keys() == one.runs.keys()
    for key, run in one.runs.items():
        assert several.runs[key].trace_hash == run.trace_hash
        assert several.runs[key].ledger.table().equals(run.ledger.table())


class Second(AgentProbe):
    """A probe that raises an error in the second round, in the process that runs the agents."""

    calls = 0

    def read(self, agents: Mapping[Any, Any]) -> Readings:
        self.calls += 1
        if self.calls == 2:
            raise ValueError("no")
        return {"zero": [0.0] * len(agents)}

    def measure(self, readings: Readings) -> dict[str, float]:
        return {"zero": sum(readings["zero"])}


def test_an_error_of_reading_is_that_of_one_process() -> None:
    network = Network(topology.ring(6), Link(latency=latency.constant(0.05)), round_period=0.1)
    task = online(agents=6, features=4, rounds=5)
    messages = {
        workers: message_of(
            lambda workers=workers: network.run(
                {node: ODKLA(task.cost(node), 5, rho=1.0, eta=8.0) for node in network.graph},
                [Second(network.graph)],
                workers=workers,
            ),
            NetsimError,
        )
        for workers in (1, 2)
    }
    assert messages[1] == messages[2] == "probe Second raised ValueError after round 2: no"
