"""Successive orthogonal projections, checked by the serial recursion, a direct solution, and theory."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import AgentError, BadInput, Link, Network, Radio, Run, Stalled, latency
from netsim.agents.maps.features import kernel_values
from netsim.agents.projections import divergences
from netsim.agents.projections.contention import Contention
from netsim.agents.projections.divergences import SQUARES, BinaryEntropy, Divergence, Entropy, HalfSquare
from netsim.agents.projections.estimate import (
    Ensemble,
    Estimate,
    Part,
    alone,
    distance,
    divergence,
    limit,
    linear,
    state_of,
    together,
)
from netsim.agents.projections.orders import ORDERS, Coloured, network_graph, projectors
from netsim.agents.projections.projector import Projector, sure_timeout
from netsim.core.records import COLLIDED, LATE, LOST
from tests.oracle import projections as oracle
from tests.parts import every, slow

SIGMA = 0.15
HOSTILE = Link(loss=0.3, latency=latency.uniform(0.001, 0.05), duplicate=0.3)


def gaussian(x: Any, z: Any) -> Any:
    return kernel_values("gaussian", x, z, SIGMA)


def chain(
    agents: int = 6,
    gram: Callable[[Any, Any], Any] = gaussian,
    reads: int = 5,
    divergence: Divergence = SQUARES,
) -> Ensemble:
    """Return an ensemble on a ring: agents share ``reads`` − 3 examples with the next; the last example is unused."""
    rng = np.random.default_rng(1)
    count = 3 * agents + 1
    inputs = rng.random((count, 2))
    targets = np.sin(5 * inputs[:, 0]) + 0.3 * rng.standard_normal(count)
    if not isinstance(divergence, HalfSquare):
        # The entropies need targets between 0 and 1.
        targets = 1.0 / (1.0 + np.exp(-3.0 * targets))
    access = [[(3 * i + k) % (count - 1) for k in range(reads)] for i in range(agents)]
    weights = [0.5 + 0.1 * i for i in range(agents)]
    return Ensemble(inputs, targets, access, regularizers=weights, gram=gram, divergence=divergence)


@dataclass
class Turn:
    agent: int
    time: float
    version: int
    z: Any
    coefficients: Any
    distance: float


@dataclass
class Watched:
    """A run, and the state after each agent's turn."""

    run: Run
    turns: list[Turn] = field(default_factory=list)


def watch(
    ensemble: Ensemble,
    order: str,
    sweeps: int,
    link: Link | None = None,
    *,
    medium: Any = "wires",
    probes: Sequence[Any] = (),
    **settings: Any,
) -> Watched:
    goal = limit(ensemble)
    agents = projectors(ensemble, order, sweeps, radio=medium != "wires", **{"duration": 0.1, "pause": 0.5} | settings)
    turns: list[Turn] = []

    def watched(i: int, agent: Projector, project: Callable[[], None]) -> Callable[[], None]:
        def it() -> None:
            project()
            away = distance(ensemble, state_of(ensemble, agents), goal)
            turns.append(Turn(i, agent.now, int(agent.versions[0]), agent.z, agent.estimate.coefficients, away))

        return it

    for i, agent in agents.items():
        agent.project = watched(i, agent, agent.project)  # type: ignore[method-assign]
    network = Network(network_graph(ensemble, order), link, medium=medium, seed=2)
    return Watched(network.run(agents, probes), turns)


def assert_serial(ensemble: Ensemble, turns: list[Turn]) -> None:
    """Assert that turns, ordered by their versions, equal the serial recursion."""
    K = ensemble.gram(ensemble.inputs, ensemble.inputs)
    in_order = sorted(turns, key=lambda turn: turn.version)
    given = K, ensemble.access, ensemble.targets, ensemble.regularizers.tolist(), [turn.agent for turn in in_order]
    loss = ensemble.divergence
    trail = oracle.serial(*given) if isinstance(loss, HalfSquare) else oracle.bregman(*given, loss.name)
    for turn, (i, z, function) in zip(in_order, trail, strict=True):
        own = ensemble.access[i]
        np.testing.assert_allclose(turn.z, z[own], rtol=0, atol=1e-9)
        np.testing.assert_allclose(turn.coefficients, function[own], rtol=0, atol=1e-9)


# --- the serial recursion ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("medium", "reliable"), [("wires", False), ("wires", True), ("radio", False), ("radio", True)])
@pytest.mark.parametrize("order", ["token", "coloured"])
def test_fixed_orders_are_the_serial_recursion_update_by_update(order: str, medium: str, reliable: bool) -> None:
    ensemble = chain()
    watched = watch(ensemble, order, 20, medium=medium, reliable=reliable)
    assert_serial(ensemble, watched.turns)
    if order == "token":
        assert [turn.agent for turn in watched.turns] == list(range(6)) * 20
    else:
        colours = nx.greedy_color(ensemble.sharers)
        ranks = [colours[turn.agent] for turn in sorted(watched.turns, key=lambda turn: turn.version)]
        assert ranks == sorted(colours.values()) * 20
        assert len({round(turn.time, 6) for turn in watched.turns}) == 20 * len(set(colours.values()))


@pytest.mark.parametrize("medium", ["wires", "radio"])
@pytest.mark.parametrize("order", ["token", "coloured"])
def test_fixed_orders_keep_to_the_recursion_on_links_that_lose_reorder_and_repeat(order: str, medium: str) -> None:
    # Values arrive several turns late, and three agents read the same example.
    link = Link(loss=0.3, latency=latency.uniform(0.001, 0.5), duplicate=0.3)
    ensemble = chain(reads=8)
    watched = watch(ensemble, order, 15, link, medium=medium, timeout=0.05, duration=0.0)
    assert_serial(ensemble, watched.turns)
    assert watched.run.ledger.exits[LOST] > 0
    assert watched.run.ledger.duplicated > 0


def test_values_that_come_late_or_twice_change_nothing() -> None:
    ensemble = chain()
    agent = projectors(ensemble, "coloured", 1)[1]
    places = agent.part.in_common[0]
    agent.take(0, 5, np.array([1.0, 2.0]))
    assert agent.z[places].tolist() == [1.0, 2.0]
    for version in (4, 5):
        agent.take(0, version, np.array([7.0, 8.0]))
        assert agent.z[places].tolist() == [1.0, 2.0]
    agent.take(0, 6, np.array([3.0, 4.0]))
    assert agent.z[places].tolist() == [3.0, 4.0]


def test_colours_need_no_acknowledgements_on_links_that_delay_frames_as_they_like() -> None:
    link = Link(latency=latency.exponential(0.5))
    assert_serial(chain(), watch(chain(), "coloured", 20, link, reliable=False).turns)
    assert_serial(chain(), watch(chain(), "token", 20, link, reliable=False).turns)


# --- the limit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gram", [gaussian, linear])
def test_the_limit_satisfies_the_optimality_conditions(gram: Callable[[Any, Any], Any]) -> None:
    ensemble = chain(gram=gram)
    goal = limit(ensemble)
    K = gram(ensemble.inputs, ensemble.inputs)
    z, values = oracle.relaxed(K, ensemble.access, ensemble.targets, ensemble.regularizers.tolist())
    np.testing.assert_allclose(goal.z, z, rtol=0, atol=1e-8)
    for own, coefficients, expected in zip(ensemble.access, goal.coefficients, values, strict=True):
        np.testing.assert_allclose(K[:, own] @ coefficients, expected, rtol=0, atol=1e-8)
    assert goal.z[-1] == ensemble.targets[-1], "nobody reads the last example"


CHANNELS: dict[str, tuple[Link, Any]] = {
    "wires": (Link(), "wires"),
    "radio": (Link(), "radio"),
    "lossy": (HOSTILE, "wires"),
    "collisions": (Link(rate=50e3, header_bits=64), Radio(access="aloha")),
}


@pytest.mark.parametrize(
    ("order", "channel"),
    [
        # The other combinations are slow tests; the rest still covers every channel.
        (order, channel) if (channel == "lossy" and place % 2 == 0) or order == "coloured" else slow(order, channel)
        for place, order in enumerate(ORDERS)
        for channel in CHANNELS
    ],
)
def test_every_order_reaches_the_limit_and_never_moves_away(order: str, channel: str) -> None:
    ensemble, (link, medium) = chain(), CHANNELS[channel]
    # Under contention some agents finish their turns early, and the others continue without them.
    sweeps = 110 if order == "contention" else 70
    watched = watch(ensemble, order, sweeps, link, medium=medium, timeout=0.1)
    away = np.array([turn.distance for turn in watched.turns])
    goal = limit(ensemble)
    reached = state_of(ensemble, watched.run.agents)
    np.testing.assert_allclose(reached.z, goal.z, rtol=0, atol=1e-8)
    assert distance(ensemble, reached, goal) < 1e-8
    assert away[0] > 0.1
    assert (np.diff(away) <= 1e-12).all()
    assert len(watched.turns) == 6 * sweeps
    for i, agent in watched.run.agents.items():
        np.testing.assert_array_equal(agent.z, reached.z[ensemble.access[i]])
        assert agent.taken == sweeps or order == "random"
    if isinstance(medium, Radio):
        # Only the agent with the token sends, so no frames collide.
        assert (watched.run.ledger.exits[COLLIDED] > 0) == (order != "token")


@pytest.mark.parametrize("gram", [gaussian, linear])
def test_the_limit_bears_examples_and_agents_that_are_there_twice(gram: Callable[[Any, Any], Any]) -> None:
    rng = np.random.default_rng(4)
    inputs = np.repeat(rng.random((10, 3)), 2, axis=0)
    access = [range(8), range(8), [*range(4, 14)], [19], [*range(10, 20)]]
    ensemble = Ensemble(inputs, rng.standard_normal(20), access, regularizers=[0.5, 0.5, 1.0, 2.0, 0.1], gram=gram)
    goal = limit(ensemble)
    K = gram(ensemble.inputs, ensemble.inputs)
    z, values = oracle.relaxed(K, ensemble.access, ensemble.targets, ensemble.regularizers.tolist())
    np.testing.assert_allclose(goal.z, z, rtol=0, atol=1e-8)
    for own, coefficients, expected in zip(ensemble.access, goal.coefficients, values, strict=True):
        np.testing.assert_allclose(K[:, own] @ coefficients, expected, rtol=0, atol=1e-8)


def test_no_turn_moves_the_limit_of_many_agents_and_it_is_the_nearest_to_the_start() -> None:
    rng = np.random.default_rng(5)
    inputs = rng.random((600, 2))
    near = [np.flatnonzero(np.linalg.norm(inputs - place, axis=1) < 0.15) for place in rng.random((120, 2))]
    ensemble = Ensemble(inputs, rng.standard_normal(600), near, regularizers=0.1, gram=gaussian)
    goal = limit(ensemble)
    square = float(goal.z @ goal.z)
    for own, gram, coefficients in zip(ensemble.access, ensemble.grams, goal.coefficients, strict=True):
        estimate = Estimate(gram, 0.1)
        estimate.coefficients = coefficients
        np.testing.assert_allclose(estimate.project(goal.z[own]), goal.z[own], rtol=0, atol=1e-8)
        square += 0.1 * float(coefficients @ gram @ coefficients)
    # The limit is the projection of (y, 0), so ⟨y, z⟩ = ‖limit‖². The tolerance is wide: Gram matrices of a smooth
    # kernel are nearly singular.
    assert ensemble.targets @ goal.z == pytest.approx(square, rel=1e-6)


def test_a_limit_that_takes_too_much_memory_is_refused_before_any_is_taken() -> None:
    def never(x: Any, z: Any) -> Any:
        raise AssertionError

    ensemble = Ensemble(np.zeros((20_000, 1)), np.zeros(20_000), [range(20_000)], regularizers=1.0, gram=never)
    with pytest.raises(BadInput, match=r"ensemble: 20000 examples, read 20000 times, must be fewer .* of 3.2 GB"):
        limit(ensemble)


def test_a_public_database_gives_every_agent_the_centralised_solution() -> None:
    # The paper's example 1: a linear kernel in d dimensions, d independent examples that all agents read, and one
    # private example per agent.
    rng = np.random.default_rng(3)
    d, agents = 3, 5
    inputs = rng.standard_normal((d + agents, d))
    # Orthogonal public examples, because with nearly dependent ones the agents converge slowly.
    inputs[:d] = 2 * np.linalg.qr(inputs[:d])[0]
    targets = inputs @ rng.standard_normal(d) + 0.5 * rng.standard_normal(d + agents)
    access = [[*range(d), d + i] for i in range(agents)]
    ensemble = Ensemble(inputs, targets, access, regularizers=[0.2, 0.1, 0.3, 0.1, 0.3], gram=linear)
    best = np.linalg.solve(inputs.T @ inputs + 1.0 * np.eye(d), inputs.T @ targets)
    np.testing.assert_allclose(inputs.T @ together(ensemble), best, atol=1e-12)
    goal = limit(ensemble)
    for own, coefficients in zip(ensemble.access, goal.coefficients, strict=True):
        np.testing.assert_allclose(inputs[own].T @ coefficients, best, atol=1e-10)
    for order in ORDERS:
        agents_after = watch(ensemble, order, 40).run.agents
        for i, own in enumerate(ensemble.access):
            weights = inputs[own].T @ agents_after[i].estimate.coefficients
            np.testing.assert_allclose(weights, best, atol=1e-8, err_msg=order)


# --- other losses than squares ----------------------------------------------------------------------------------------

LOSSES = (Entropy(), BinaryEntropy())
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


@each_loss
@pytest.mark.parametrize("order", ORDERS)
def test_bregman_projections_are_the_recursion_that_scipy_solves_turn_by_turn(order: str, loss: Divergence) -> None:
    ensemble = chain(divergence=loss)
    link = HOSTILE if order in ("coloured", "random") else Link()
    watched = watch(ensemble, order, 8, link, timeout=0.1)
    assert_serial(ensemble, watched.turns)
    assert len(watched.turns) >= 40


@each_loss
def test_bregman_projections_reach_the_limit_and_their_divergence_from_it_never_grows(loss: Divergence) -> None:
    ensemble = chain(divergence=loss)
    goal, K = limit(ensemble), gaussian(ensemble.inputs, ensemble.inputs)
    z = oracle.bregman_limit(K, ensemble.access, ensemble.targets, ensemble.regularizers.tolist(), loss.name)
    np.testing.assert_allclose(goal.z, z, rtol=0, atol=1e-9)
    agents = projectors(ensemble, "token", 60)
    away: list[float] = []

    def probe(_: Any) -> dict[str, float]:
        away.append(divergence(ensemble, goal, state_of(ensemble, agents)))
        return {}

    Network(network_graph(ensemble, "token"), Link(latency=0.1), seed=2).run(agents, [probe])
    np.testing.assert_allclose(state_of(ensemble, agents).z, goal.z, rtol=0, atol=1e-8)
    assert away[0] > 0.1
    assert away[-1] < 1e-12
    assert (np.diff(away) <= 1e-14).all()


def test_newtons_first_step_is_the_orthogonal_projection_of_squares() -> None:
    rng = np.random.default_rng(2)
    gram, f, z = gaussian(*2 * [rng.random((7, 2))]), rng.standard_normal(7), rng.standard_normal(7)
    found = divergences.multipliers(HalfSquare(), gram / 0.3, f, np.arange(7), z)
    np.testing.assert_allclose(found, 0.3 * np.linalg.solve(gram + 0.3 * np.eye(7), z - f), rtol=0, atol=1e-12)


def test_half_the_square_of_the_distance_is_the_divergence_of_squares() -> None:
    ensemble = chain()
    one, other = limit(ensemble), state_of(ensemble, projectors(ensemble, "token", 1))
    assert divergence(ensemble, one, other) == pytest.approx(0.5 * distance(ensemble, one, other) ** 2, rel=1e-12)


@pytest.mark.parametrize("loss", [HalfSquare(), *LOSSES], ids=lambda loss: loss.name)
def test_a_divergence_is_its_definition_and_its_conjugate_the_inverse(loss: Divergence) -> None:
    z, other = np.meshgrid(np.linspace(0.05, 0.9, 9), np.linspace(0.1, 0.95, 7))
    u = loss.slope(z)

    def phi(at: Any) -> Any:
        return loss.slope(at) * at - loss.conjugate(loss.slope(at))

    between = phi(z) - phi(other) - loss.slope(other) * (z - other)
    np.testing.assert_allclose(loss.between(z, other), between, rtol=0, atol=1e-14)
    np.testing.assert_allclose(loss.inverse(u), z, rtol=1e-14)
    for function, derivative in ((loss.conjugate, loss.inverse), (loss.inverse, loss.curvature)):
        rise = (function(u + 1e-5) - function(u - 1e-5)) / 2e-5
        np.testing.assert_allclose(derivative(u), rise, rtol=1e-8)


@each_loss
def test_who_learns_alone_or_with_all_examples_has_the_optimum_of_the_loss(loss: Divergence) -> None:
    ensemble = chain(divergence=loss)
    K, y = gaussian(ensemble.inputs, ensemble.inputs), ensemble.targets
    total = ensemble.regularizers.sum()
    own = ensemble.access[2]
    for coefficients, gram, target, weight in (
        (together(ensemble), K, y, total),
        (alone(ensemble, 2), K[np.ix_(own, own)], y[own], ensemble.regularizers[2]),
    ):
        f = gram @ coefficients
        np.testing.assert_allclose(loss.slope(f) - loss.slope(target) + weight * coefficients, 0.0, atol=1e-8)


@pytest.mark.parametrize(
    ("loss", "targets", "message"),
    [
        (Entropy(), [2.0, 0.0], r"^targets\[1\] = 0: must be above 0 for the entropy$"),
        (Entropy(), [-1.0, 2.0], r"^targets\[0\] = -1: must be above 0 for the entropy$"),
        (BinaryEntropy(), [0.0, 0.5], r"^targets\[0\] = 0: must be above 0 and below 1 for the binary entropy$"),
        (BinaryEntropy(), [0.5, 1.0], r"^targets\[1\] = 1: must be above 0 and below 1 for the binary entropy$"),
    ],
)
def test_targets_at_the_edge_of_the_domain_are_refused(loss: Divergence, targets: list[float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Ensemble(np.eye(2), targets, [[0, 1]], regularizers=1.0, gram=linear, divergence=loss)


def test_a_kernel_without_a_function_inside_the_domain_is_refused() -> None:
    ensemble = Ensemble([[1.0], [-1.0]], [1.0, 2.0], [[0, 1]], regularizers=0.1, gram=linear, divergence=Entropy())
    with pytest.raises(BadInput, match=r"^gram: must have a function with values above 0 at all examples of an agent"):
        limit(ensemble)


# --- who hears what ---------------------------------------------------------------------------------------------------


def version_bits(turns: list[Turn], copies: Callable[[int], int]) -> int:
    """Return the bits of the version numbers in all messages: msgpack encodes each number in 1, 2 or 3 bytes."""
    return sum(copies(t.agent) * 8 * (1 + (t.version >= 128) + (t.version >= 256)) for t in turns)


@pytest.mark.parametrize("order", ORDERS)
def test_values_go_to_sharers_only_and_nothing_else_travels(order: str) -> None:
    ensemble = chain()
    watched = watch(ensemble, order, 10, reliable=False)
    sharers = {(a, b) for a, b in ensemble.sharers.edges} | {(b, a) for a, b in ensemble.sharers.edges}
    links = watched.run.ledger.table()
    values = links[(links["kind"] == "values") & (links["offered"] > 0)]
    if order == "contention":
        # Under contention a request and its answer each carry values, so their number is not fixed.
        assert set(zip(values["sender"], values["receiver"], strict=True)) == sharers
    else:
        turns = {i: agent.taken for i, agent in watched.run.agents.items()}
        offered = {(s, r): n for s, r, n in values[["sender", "receiver", "offered"]].itertuples(index=False)}
        assert offered == {pair: turns[pair[0]] for pair in sharers}
        sent = watched.run.ledger.senders_table()
        bits = sent[sent["kind"] == "values"]["payload_bits"].sum()
        shared = sum(64 * len(ensemble.shared(t.agent, o)) for t in watched.turns for o in ensemble.sharers[t.agent])
        assert bits == shared + version_bits(watched.turns, lambda agent: len(list(ensemble.sharers[agent])))
    assert watched.run.ledger.raw_data_bits == 0


def test_a_radio_carries_each_shared_value_once() -> None:
    ensemble = chain()
    watched = watch(ensemble, "coloured", 10, medium="radio", reliable=False)
    assert watched.run.ledger.transmissions == 6 * 10
    # An agent broadcasts four of its five examples: it shares two with the next agent and two with the previous one.
    assert watched.run.ledger.payload_bits == 60 * 4 * 64 + version_bits(watched.turns, lambda agent: 1)


@pytest.mark.parametrize(
    ("delay", "rate"),
    [(0.0, None), (0.003, None), (0.7, None), (0.0, 20e3)],
    ids=["ideal", "latency", "long latency", "rate"],
)
@pytest.mark.parametrize("medium", ["wires", "radio"])
@pytest.mark.parametrize("order", ORDERS)
def test_on_links_that_lose_nothing_no_value_is_sent_twice(
    order: str, medium: str, delay: float, rate: float | None
) -> None:
    ensemble, radio, link = chain(reads=8), medium == "radio", Link(latency=delay, rate=rate)
    timeout = sure_timeout(ensemble, latency=delay, rate=rate, radio=radio)
    watched = watch(ensemble, order, 6, link, medium=medium, timeout=timeout)
    sent = watched.run.ledger.senders_table().groupby("kind")[["transmissions", "payload_bits"]].sum()
    sharers = {i: list(ensemble.sharers[i]) for i in range(6)}
    answers = sum(len(sharers[turn.agent]) for turn in watched.turns)
    bits = version_bits(watched.turns, lambda agent: len(sharers[agent])) + 8 * answers
    if radio:
        assert sent.loc["heard"].tolist() == [2 * answers, bits]
        values = sum(64 * len(ensemble.on_air(turn.agent)) for turn in watched.turns)
        assert sent.loc["values"].tolist() == [36, values + version_bits(watched.turns, lambda agent: 1)]
    else:
        values = sum(64 * len(ensemble.shared(t.agent, other)) for t in watched.turns for other in sharers[t.agent])
        assert sent.loc["values"].tolist() == [2 * answers, values + bits]
    if order in ("token", "random"):
        assert sent.loc["token", "transmissions"] == 2 * 35
    assert watched.run.ledger.exits[LATE] == 0


def test_a_token_lets_one_take_its_turn_at_a_time_even_of_those_that_share_nothing() -> None:
    rng = np.random.default_rng(1)
    pairs = [[0, 1], [2, 3], [1, 4], [3, 5]]
    ensemble = Ensemble(rng.random((6, 2)), rng.random(6), pairs, regularizers=0.5, gram=gaussian)
    assert not ensemble.sharers.has_edge(0, 1)
    watched = watch(ensemble, "token", 5, Link(latency=0.01), timeout=1.0)
    assert [turn.agent for turn in watched.turns] == list(range(4)) * 5
    times = np.array([turn.time for turn in watched.turns])
    # A turn lasts 0.1 s; each message then takes 0.01 s.
    assert (np.diff(times) > 0.1).all()
    assert (np.diff(times) < 0.2).all()


def test_the_token_goes_round_two_agents_that_share_nothing_and_stays_with_one() -> None:
    for agents, edges in ((1, []), (2, [(0, 1)]), (3, [(0, 1), (0, 2), (1, 2)])):
        ensemble = Ensemble(np.eye(3), np.ones(3), [[i] for i in range(agents)], regularizers=0.5, gram=linear)
        assert sorted(network_graph(ensemble, "token").edges) == edges
        assert [turn.agent for turn in watch(ensemble, "token", 3).turns] == list(range(agents)) * 3


@pytest.mark.parametrize("medium", ["wires", "radio"])
def test_sharers_are_spoken_to_at_once_on_wires_and_in_turn_on_a_radio(medium: str) -> None:
    # Agent 0 shares one example with each of agents 1, 2 and 3, which share none with each other.
    star = Ensemble(np.eye(4), np.ones(4), [[0, 1, 2], [0], [1], [2]], regularizers=0.5, gram=linear)
    watched = watch(star, "coloured", 2, Link(latency=0.2), medium=medium, timeout=5.0)
    first, *_, last = sorted(turn.time for turn in watched.turns if turn.agent == 0)
    # A turn takes 0.1 s plus a round trip of 0.4 s per request. On wires agent 0 asks its three sharers in parallel, on
    # a radio one after the other.
    asked = 3 if medium == "radio" else 1
    spoken = [turn.time for turn in watched.turns if turn.agent != 0]
    assert min(spoken) == pytest.approx(first + 0.2 + 0.1)
    assert last - first == pytest.approx(0.1 + max(0.4 * asked, 0.2 + 0.1 + 0.2), abs=1e-6)


@pytest.mark.parametrize("radio", [False, True])
def test_a_sure_timeout_is_longer_than_a_message_and_its_answer(radio: bool) -> None:
    ensemble = chain(reads=8)
    # The timeout covers a round trip: twice the latency.
    assert 2.0 < sure_timeout(ensemble, latency=1.0, radio=radio) < 2.1
    assert 0.0 < sure_timeout(ensemble, radio=radio, round_period=10.0) <= 0.1
    values = 64 * max(
        len(ensemble.on_air(a)) if radio else len(ensemble.shared(a, b)) for a, b in [*ensemble.sharers.edges]
    )
    # On a radio, the values of both directions may be queued behind each other.
    assert sure_timeout(ensemble, rate=1.0, radio=radio) > (4 if radio else 2) * values


def test_a_part_knows_its_own_examples_only() -> None:
    ensemble = chain()
    part = Part(ensemble, 1)
    np.testing.assert_array_equal(part.targets, ensemble.targets[[3, 4, 5, 6, 7]])
    assert part.sharers == [0, 2]
    assert part.in_common[0].tolist() == [0, 1]
    assert part.in_common[2].tolist() == [3, 4]
    on_air = Part(ensemble, 1, radio=True)
    assert on_air.to_send[0].tolist() == [0, 1, 3, 4]
    # Agent 0 sends the values of examples 0, 1, 3 and 4; agent 1 reads 3 and 4, at positions 2 and 3 of the message.
    assert on_air.in_message[0].tolist() == [2, 3]


# --- taking turns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [Link(), HOSTILE, Link(rate=20e3)], ids=["ideal", "hostile", "rate"])
@pytest.mark.parametrize("medium", ["wires", "radio"])
def test_contention_lets_no_two_sharers_act_at_a_time(link: Link, medium: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple[float, float, int]] = []
    turn = Contention.turn

    async def timed(self: Contention) -> None:
        start = self.now
        await turn(self)
        held.append((start, self.now, self.name))  # type: ignore[arg-type]

    monkeypatch.setattr(Contention, "turn", timed)
    ensemble = chain(9)
    watched = watch(ensemble, "contention", 20, link, medium=medium, timeout=0.1, pause=0.1)
    assert len(held) == 9 * 20
    overlapping = [(a, b) for a in held for b in held if a[0] < b[0] < a[1]]
    assert not [pair for pair in overlapping if ensemble.sharers.has_edge(pair[0][2], pair[1][2])]
    assert overlapping, "agents that share nothing do"
    assert sum(agent.refused for agent in watched.run.agents.values()) > 20


def test_who_has_granted_a_claim_draws_no_timers_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = 0
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        nonlocal draws
        draws += 1
        await sleep(seconds)

    monkeypatch.setattr("netsim.agents.projections.contention.asyncio.sleep", counted)
    ensemble = Ensemble(np.eye(3), np.ones(3), [[0, 1], [1, 2]], regularizers=1.0, gram=linear)
    watched = watch(ensemble, "contention", 5, pause=1e-6, duration=1.0)
    assert len(watched.turns) == 10
    # Each of the 10 turns waits for its duration; waiting in pauses of 1 µs would need many more calls.
    assert draws < 100


def test_the_walk_visits_neighbours_at_random_and_ends_for_all() -> None:
    ensemble = chain()
    turns = [turn.agent for turn in watch(ensemble, "random", 30).turns]
    assert len(turns) == 180
    graph = network_graph(ensemble, "random")
    assert all(graph.has_edge(a, b) for a, b in itertools.pairwise(turns))
    steps = {(a, b) for a, b in itertools.pairwise(turns)}
    assert steps == {(a, b) for a in graph for b in graph[a]}
    assert turns == [turn.agent for turn in watch(ensemble, "random", 30).turns]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("medium", ["wires", "radio"])
def test_one_agent_alone_needs_no_messages(order: str, medium: str) -> None:
    rng = np.random.default_rng(0)
    ensemble = Ensemble(rng.random((8, 2)), rng.standard_normal(8), [range(8)], regularizers=0.3, gram=gaussian)
    watched = watch(ensemble, order, 3, medium=medium)
    assert watched.run.ledger.transmissions == 0
    assert len(watched.turns) == 3
    for turn in watched.turns:
        # The first turn reaches the solution, and further projections leave it unchanged.
        np.testing.assert_allclose(turn.coefficients, together(ensemble), atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_no_sweeps_end_at_once(order: str) -> None:
    assert watch(chain(), order, 0).turns == []


@pytest.mark.parametrize("order", ORDERS)
def test_every_round_has_its_row_to_the_last_turn(order: str) -> None:
    ensemble = chain()
    goal = limit(ensemble)

    def away(agents: Any) -> float:
        return distance(ensemble, state_of(ensemble, agents), goal)

    link = Link(loss=0.2, latency=0.02)
    watched = watch(ensemble, order, 30, link, probes=[away], timeout=0.1)
    rounds = watched.run.rounds
    assert rounds["round"].tolist() == list(range(1, len(rounds) + 1))
    assert rounds["away"].iloc[-1] == watched.turns[-1].distance
    assert rounds["time_s"].iloc[-1] <= watched.turns[-1].time + 10


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["token", "coloured", "random"])
def test_without_acknowledgements_a_loss_ends_the_run_with_an_error(order: str) -> None:
    with pytest.raises(Stalled, match="waits for"):
        watch(chain(), order, 50, Link(loss=0.3), reliable=False)


def test_a_link_that_is_cut_is_named() -> None:
    ensemble = chain()
    network = Network(network_graph(ensemble, "token"))
    network.at(3.0, lambda: network.set_link(1, 2, up=False))
    with pytest.raises(AgentError, match=r"agent 1 raised NetsimError.*no answer from 2 to 'values'"):
        network.run(projectors(ensemble, "token", 50, duration=0.1))


@every(
    ("change", "message"),
    [
        ({"access": [[0, 1], []]}, r"access\[1\] = \[\]: must be the numbers of at least one example"),
        ({"access": [[0, 1], [1, 1]]}, r"access\[1\]: must name each example once; 1 is twice"),
        ({"access": [[0, 1], [1, 4]]}, r"access\[1\] = 4: must be a whole number from 0 to 3"),
        ({"access": [[0.7, 1], [1]]}, r"access\[0\] = 0.7: must be a whole number from 0 to 3"),
        ({"access": [[True, False], [1]]}, r"access\[0\] = True: must be a whole number"),
        ({"access": [["0"], [1]]}, r"access\[0\] = '0': must be a whole number"),
        ({"access": [0, 1]}, r"access\[0\] = 0: must be the numbers of at least one example"),
        ({"access": 3}, r"access = 3: must be the examples of at least one agent"),
        ({"regularizers": None}, r"regularizers\[0\] = None: must be a number > 0"),
        ({"regularizers": np.float32(-1)}, r"regularizers\[0\] = np.float32\(-1.0\): must be a number > 0"),
        ({"access": []}, r"access = \[\]: must be the examples of at least one agent"),
        ({"inputs": [1.0, 2.0]}, r"inputs.shape = \(2,\)"),
        ({"targets": [1.0]}, r"targets.shape = \(1,\): must be \(4,\)"),
        ({"targets": [1.0, np.nan, 0.0, 0.0]}, r"targets\[1\] = nan"),
        ({"regularizers": 0.0}, r"regularizers\[0\] = 0.0: must be a number > 0"),
        ({"regularizers": [1.0]}, "regularizers: must be 2, one for each agent; there are 1"),
    ],
)
def test_an_ensemble_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    fine: dict[str, Any] = {
        "inputs": np.eye(4),
        "targets": np.ones(4),
        "access": [[0, 1], [1, 2, 3]],
        "regularizers": 1.0,
        "gram": linear,
    }
    Ensemble(**fine)
    with pytest.raises(BadInput, match=message):
        Ensemble(**fine | change)


@pytest.mark.parametrize("one", [1, 1.0, np.float32(1), np.int64(1), [1, 1.0], np.ones(2)])
def test_regularizers_may_be_numbers_of_any_kind(one: Any) -> None:
    access = [np.arange(2), [np.int32(1), 3]]
    assert Ensemble(np.eye(4), np.ones(4), access, regularizers=one, gram=linear).regularizers.tolist() == [1.0, 1.0]


def test_agents_that_share_nothing_need_another_order() -> None:
    ensemble = Ensemble(np.eye(4), np.ones(4), [[0, 1], [2], [3]], regularizers=1.0, gram=linear)
    for order in ("coloured", "random", "contention"):
        with pytest.raises(BadInput, match="it has 3 parts, the smallest of 1 with agent"):
            network_graph(ensemble, order)
    assert len(watch(ensemble, "token", 4).turns) == 12
    with pytest.raises(BadInput, match=r"order = 'tokens': must be one of .* \(did you mean 'token'"):
        network_graph(ensemble, "tokens")


def test_two_sharers_of_one_colour_are_refused() -> None:
    with pytest.raises(BadInput, match="rank = 1: must differ from the ranks of all sharers"):
        Coloured(Part(chain(), 1), 3, rank=1, ranks={0: 0, 2: 1}, period=2)


def test_a_kernel_that_is_none_is_refused() -> None:
    ensemble = Ensemble(np.eye(2), np.ones(2), [[0, 1]], regularizers=0.1, gram=lambda x, z: -linear(x, z))
    with pytest.raises(BadInput, match=r"regularizer = 0.1: must be larger"):
        projectors(ensemble, "token", 1)
