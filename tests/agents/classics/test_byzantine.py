"""Tests of the oral-message algorithm against the recursion of the paper, and against every lie of a traitor."""

import math
import random
from collections.abc import Callable, Hashable, Iterable
from itertools import combinations, product
from typing import Any

import pytest

from netsim import BadInput, Link, Network, Run, topology
from netsim.agents.classics import OralMessages, Traitor

ORDERS = ("attack", "retreat")
Lie = Callable[[Any, tuple[Any, ...], str], str | None]


def war(n: int, m: int, traitors: Iterable[int], lie: Lie, order: str = "attack") -> Run:
    """Run OM(m) with n generals and general 0 as the commander; all traitors use the strategy ``lie``."""
    generals = {i: Traitor(0, m, lie, order) if i in set(traitors) else OralMessages(0, m, order) for i in range(n)}
    return Network(topology.complete(n), Link(latency=0.1)).run(generals)


def decisions(run: Run) -> dict[Any, str]:
    """Return the decision of each loyal lieutenant."""
    generals: dict[Any, Any] = dict(run.agents)
    return {i: general.decision for i, general in generals.items() if i and general.role == "loyal"}


def recursion(n: int, m: int, traitors: Iterable[int], lie: Lie, order: str = "attack") -> dict[int, str]:
    """Compute the loyal lieutenants' decisions without a network, by the recursion of section 3 of the paper."""
    bad = set(traitors)

    def om(m: int, path: tuple[int, ...], value: str, lieutenants: set[int]) -> dict[int, str]:
        said = {i: (lie(i, path, value) if path[-1] in bad else value) or "retreat" for i in lieutenants}
        if m == 0:
            return said
        heard = {i: [said[i]] for i in lieutenants}
        for j in lieutenants:
            for i, value_j in om(m - 1, (*path, j), said[j], lieutenants - {j}).items():
                heard[i].append(value_j)
        return {i: "attack" if 2 * heard[i].count("attack") > len(heard[i]) else "retreat" for i in lieutenants}

    return {i: value for i, value in om(m, (0,), order, set(range(1, n))).items() if i not in bad}


def at_random(seed: int, silent: bool = True) -> Lie:
    """Return a strategy of random lies, which tells a general always the same lie about a path."""
    choices = (*ORDERS, None) if silent else ORDERS
    return lambda to, path, order: random.Random(f"{seed} {to} {path}").choice(choices)


def one_lie_each(told: dict[int, str | None]) -> Lie:
    return lambda to, path, order: told[to]


def fails(found: dict[int, str], traitors: Iterable[int], order: str = "attack") -> bool:
    """Return whether loyal lieutenants disagree (violating IC1) or disobey a loyal commander (violating IC2)."""
    return len(set(found.values())) > 1 or (0 not in set(traitors) and set(found.values()) != {order})


def test_loyal_generals_obey() -> None:
    for n, m, order in product(range(2, 6), range(3), ORDERS):
        assert set(decisions(war(n, m, [], at_random(0), order)).values()) == {order}


def test_it_decides_what_the_recursion_decides() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        n, m, order = rng.randrange(3, 7), rng.randrange(3), rng.choice(ORDERS)
        traitors = rng.sample(range(n), rng.randrange(n - 1))
        run = war(n, m, traitors, at_random(seed), order)
        assert decisions(run) == recursion(n, m, traitors, at_random(seed), order)


@pytest.mark.parametrize(("n", "m"), [(2, 0), (3, 1), (4, 1), (6, 1), (5, 2), (7, 2), (6, 3)])
def test_the_messages_are_those_of_the_closed_form(n: int, m: int) -> None:
    expected = sum(math.prod(n - i for i in range(1, k + 2)) for k in range(m + 1))
    assert war(n, m, [], at_random(0)).ledger.link_messages == expected


def test_four_generals_stand_every_lie_of_one_traitor() -> None:
    for traitor, order in product(range(4), ORDERS):
        # A traitor lies to three generals if it is the commander, and otherwise to the two other lieutenants.
        listeners = [to for to in range(1, 4) if to != traitor]
        for lies in product((*ORDERS, None), repeat=len(listeners)):
            found = decisions(war(4, 1, [traitor], one_lie_each(dict(zip(listeners, lies, strict=True))), order))
            assert not fails(found, [traitor], order)


@pytest.mark.parametrize(("n", "m", "f"), [(3, 1, 1), (6, 1, 2), (6, 2, 2), (7, 1, 2), (4, 0, 1)])
def test_too_few_generals_or_rounds_fail(n: int, m: int, f: int) -> None:
    assert any(
        fails(recursion(n, m, traitors, at_random(seed, silent=False)), traitors)
        for seed in range(200)
        for traitors in combinations(range(n), f)
    )


def test_seven_generals_stand_two_traitors_in_three_rounds() -> None:
    for seed in range(300):
        traitors = random.Random(seed).sample(range(7), 2)
        order = ORDERS[seed % 2]
        assert not fails(recursion(7, 2, traitors, at_random(seed), order), traitors, order)
        if seed < 5:
            assert not fails(decisions(war(7, 2, traitors, at_random(seed), order)), traitors, order)


def test_a_traitor_cannot_speak_in_the_name_of_another() -> None:
    class Forger(Traitor):
        async def tell(self, to: Hashable, path: tuple[Hashable, ...], order: str) -> None:
            for forged in ((0,), (0, 1), (0, 2), (), "x"):
                await self.send(to, "order", (forged, "retreat"))
            await self.send(to, "order", "nonsense")
            await self.send(to, "order", ((0, self.name), 7))

    generals: dict[int, Any] = {i: OralMessages(0, 1, "attack") for i in range(3)}
    generals[3] = Forger(0, 1, at_random(0))
    run = Network(topology.complete(4), Link(latency=0.1)).run(generals)
    assert decisions(run) == {1: "attack", 2: "attack"}
    assert set(run.agents[1].heard) == {(0,), (0, 2)}  # type: ignore[attr-defined]


def test_what_it_writes_down() -> None:
    network = Network(topology.complete(3), Link(latency=0.1))
    network.watch(["role", "decision"])
    run = network.run({i: OralMessages(0, 1, "attack") for i in range(3)}, trace=True)
    assert list(run.notes["note"]) == ["decides: attack"] * 3
    assert list(run.states["decision"].iloc[-3:]) == ["attack"] * 3
    assert set(run.states["role"]) == {"loyal"}


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(BadInput, match="m = -1"):
        OralMessages(0, -1)
    with pytest.raises(BadInput, match="lie = 'no': must be a function"):
        Traitor(0, 1, "no")  # type: ignore[arg-type]
