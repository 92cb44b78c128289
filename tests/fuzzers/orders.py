"""Laws of `netsim.clock.order.Order`, checked on random networks, radios and programs."""

import warnings
from typing import Any

import numpy as np

from netsim import AgentError, Link, Network, topology
from netsim.clock.order import Order
from tests.fuzzers.networks import Case, Rng, check_drawn, digest
from tests.fuzzers.programs import program
from tests.fuzzers.radios import RadioCase
from tests.fuzzers.workers import Programmed


def of_network(seed: int, order: Order | None, make: Any = Case, workers: int = 1) -> tuple[Any, ...]:
    """Return all results of a random network."""
    with warnings.catch_warnings():
        # Some agents take longer than a round, which causes a warning.
        warnings.simplefilter("ignore", RuntimeWarning)
        played = make(seed).play(order=order, workers=workers)
    notes = {name: repr(agent.notes) for name, agent in played.agents.items()}
    return digest(played.run), played.run.ended_at, notes


def of_radio(seed: int, order: Order | None) -> tuple[Any, ...]:
    """Return all results of a random network with a radio."""
    return of_network(seed, order, RadioCase)


def of_programs(seed: int, order: Order | None) -> tuple[str, str]:
    """Return the trace hash, rows, ledger, any error and the logs of a run of random programs."""
    first = int(np.random.default_rng([seed, 10]).integers(2**31))
    agents = {i: Programmed(program(first + i, 25, ["futures", "look", "hear"])) for i in range(3)}
    try:
        run, end = Network(topology.ring(3), Link(latency=0.25), seed=seed).run(agents, order=order), ""
    except AgentError as error:
        run, end = error.run, str(error)
    return f"{digest(run)} {end}", repr([agent.log for agent in agents.values()])


def check_laws(run: Any, seed: int) -> bool:
    """Check that Order() keeps asyncio's order and that orders repeat; return whether the seed's order differs."""
    usual = run(seed, None)
    assert run(seed, Order()) == usual, f"seed {seed}: Order() is another order than asyncio's"
    order = Order(seed, method="priorities" if seed % 2 else "random", records=True)
    drawn = run(seed, order)
    assert run(seed, Order(seed, method=order.method)) == drawn, f"seed {seed}: the order does not repeat"
    assert run(seed, order.again()) == drawn, f"seed {seed}: the recorded choices do another thing"
    assert run(seed, Order.parse(str(order.again()))) == drawn, f"seed {seed}: the words do another thing"
    return bool(drawn != usual)


def check_seed(seed: int) -> None:
    """Check the laws on a network, a radio or programs, depending on the seed."""
    check_laws((of_network, of_radio, of_programs)[seed % 3], seed)


def check_one(rng: Rng) -> None:
    """Check the laws on a random case."""
    check_drawn(rng, check_seed)
