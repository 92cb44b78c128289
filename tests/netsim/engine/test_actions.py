"""Actions planned with `Network.at`: their time, their order, and their limits."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from netsim import Agent, BadInput, NetsimError, Network, topology
from netsim.testing import Actor, Rounder
from tests.netsim.engine.test_failures import beside
from tests.parts import message_of


class Notes(Agent):
    """Calls a function at its start, and records each of its wake-ups in a shared list."""

    def __init__(self, seen: list[str], first: Callable[[], None] = lambda: None) -> None:
        self.seen = seen
        self.first = first

    async def run(self) -> None:
        self.seen.append(f"{self.name} begins")
        self.first()
        for _ in range(3):
            await asyncio.sleep(1.0)
            self.seen.append(f"{self.name} at {self.now:g}")


def played(plan: Callable[[Network, list[str]], None], first: Callable[[Network, list[str]], None]) -> list[str]:
    seen: list[str] = []
    network = Network(topology.path(2))
    plan(network, seen)
    network.run({0: Notes(seen, lambda: first(network, seen)), 1: Notes(seen)})
    return seen


def nothing(network: Network, seen: list[str]) -> None:
    """Plan nothing."""


def test_at_0_comes_before_agents_begin() -> None:
    def plan(network: Network, seen: list[str]) -> None:
        network.at(1.0, lambda: seen.append("second 1"))
        network.at(0.0, lambda: network.at(0, lambda: seen.append("planned at 0 for 0")))
        network.at(0, lambda: seen.append("second 0"))

    assert played(plan, nothing)[:6] == [
        "second 0",
        "planned at 0 for 0",
        "0 begins",
        "1 begins",
        "second 1",
        "0 at 1",
    ]


def test_a_link_that_is_cut_at_0_carries_nothing() -> None:
    network = Network(topology.path(2))
    network.at(0, lambda: network.set_link(0, 1, up=False, one_way=True))
    table = network.run({i: Actor(lambda me: me.broadcast("x", 1)) for i in range(2)}).ledger.table([])
    assert (table["link_down"].iloc[0], table["delivered"].iloc[0]) == (1, 1)


def test_actions_come_in_the_order_in_which_they_were_given_and_before_agents() -> None:
    """This also holds for actions planned during the run, after agents have set timers for the same time."""

    def plan(network: Network, seen: list[str]) -> None:
        for i in range(3):
            network.at(2.0, lambda i=i: seen.append(f"planned {i}"))  # type: ignore[misc]
        network.at(1.0, lambda: network.at(2.0, lambda: seen.append("planned by an action")))

    def first(network: Network, seen: list[str]) -> None:
        network.at(2, lambda: seen.append("planned by an agent"))

    seen = played(plan, first)
    assert seen[seen.index("1 at 1") + 1 :][:7] == [
        "planned 0",
        "planned 1",
        "planned 2",
        "planned by an agent",
        "planned by an action",
        "0 at 2",
        "1 at 2",
    ]


def test_what_is_planned_during_a_run_is_for_that_run() -> None:
    seen: list[str] = []
    network = Network(topology.path(2))
    for _ in range(2):
        first = Notes(seen, lambda: network.at(1.5, lambda: seen.append("action")))
        network.run({0: first, 1: Notes([])})
    assert seen.count("action") == 2


def test_what_is_planned_before_is_for_every_run() -> None:
    seen: list[str] = []
    network = Network(topology.path(2))
    network.at(1.5, lambda: seen.append("action"))
    for _ in range(2):
        network.run({0: Notes([]), 1: Notes([])})
    assert seen == ["action", "action"]


def test_the_present_is_not_past() -> None:
    def plan(network: Network, seen: list[str]) -> None:
        network.at(1.0, lambda: network.at(1.0, lambda: seen.append("at once")))

    assert "at once" in played(plan, nothing)


def test_an_action_after_the_end_never_acts() -> None:
    def plan(network: Network, seen: list[str]) -> None:
        network.at(3.5, lambda: seen.append("too late"))

    assert "too late" not in played(plan, nothing)


def test_the_past_is_refused() -> None:
    network = Network(topology.path(3))
    network.at(2.5, lambda: network.at(1.0, print))
    message = message_of(lambda: network.run(beside(Rounder(5))), BadInput)
    assert message == "time = 1: must be >= 2.5, the current time of the run"


@pytest.mark.parametrize("time", [0.0, 2.0])
@pytest.mark.parametrize(
    ("error", "name"), [(ValueError("no"), "ValueError: no"), (asyncio.CancelledError(), "CancelledError: ")]
)
def test_an_action_that_raises_ends_the_run(time: float, error: BaseException, name: str) -> None:
    seen: list[str] = []

    def action() -> None:
        raise error

    network = Network(topology.path(2))
    network.at(time, action)
    network.at(time, lambda: seen.append("the next one"))
    agents: dict[Any, Agent] = {0: Notes(seen), 1: Notes(seen)}
    message = message_of(lambda: network.run(agents), NetsimError)
    assert message == f"the action of Network.at({time:g}, …) raised {name}"
    assert "0 at 2" not in seen
