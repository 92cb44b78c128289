"""Random networks over several workers: they leave behind what they do in one process."""

from dataclasses import replace
from typing import Any

import numpy as np

from netsim import Link, latency
from tests.fuzzers.faults import COUNTS, faulty
from tests.fuzzers.laws import Played, check_books
from tests.fuzzers.networks import Case, Rng, digest
from tests.fuzzers.reliable import a_reliability


def with_latency(rng: Rng, link: Link, period: float) -> Link:
    """Return a link whose frames arrive some time after they are sent, and never just when something else happens."""
    low = float(period * rng.choice([0.01, 0.2, 0.7, 1.9]) * (1 + rng.random() / 10))
    high = low + float(period * rng.choice([0.1, 0.5, 2.0]))
    return replace(link, latency=latency.uniform(low, high))


def of_events(seed: int, with_faults: bool = False, reliable: bool = False) -> Case:
    """Return a case whose agents do anything, over links with latency."""
    case, rng = Case(seed), np.random.default_rng([seed, 7])
    network, period = case.network, case.network.round_period
    network.link = with_latency(rng, network.link, period)
    network.links = {ends: with_latency(rng, link, period) for ends, link in network.links.items()}
    if reliable:
        way = a_reliability(rng, case)
        network.link = replace(network.link, reliability=way)
        network.links = {ends: replace(link, reliability=way) for ends, link in network.links.items()}
    return faulty(case, seed, COUNTS) if with_faults else case


def of_rounds(seed: int, with_faults: bool = False) -> Case:
    """Return a case whose agents read when a round closes, over any links."""
    case, rng = Case(seed), np.random.default_rng([seed, 8])
    case.network.inbox_limit = None
    for name, habits in case.habits.items():
        habit = ("in_rounds", "in_rounds", "twice_in_rounds")[rng.integers(3)]
        calm: dict[str, Any] = {"chance": 0.0, "answers": False, "background": False, "looks": False}
        case.habits[name] = replace(habits, name=habit, counts=False, **calm)
    return faulty(case, seed, COUNTS) if with_faults else case


def check_workers(make: Any, seed: int, **more: bool) -> Played:
    """Check that a case is the same in one process and over several; return it as played over several."""
    rng = np.random.default_rng([seed, 9])
    cases = [make(seed, **more) for _ in range(2)]
    sample = float(rng.choice([0.3, 1.0, 2.5])) * cases[0].network.round_period if rng.random() < 0.3 else None
    count = min(int(rng.integers(2, 5)), len(cases[0].network.graph))
    if rng.random() < 0.5:
        for case in cases:
            case.network.watch({"mood": "mood"})
    one = cases[0].play(trace=True, sample=sample)
    several = cases[1].play(trace=True, sample=sample, workers=count)
    if sample is None:
        check_books(several)
    assert several.run.trace_hash == one.run.trace_hash
    assert several.run.ended_at == one.run.ended_at
    assert several.rounds == one.rounds
    assert sorted(map(repr, several.links)) == sorted(map(repr, one.links))
    assert sorted(map(repr, several.senders)) == sorted(map(repr, one.senders))
    assert sorted(map(repr, several.trace)) == sorted(map(repr, one.trace))
    if one.links == several.links:
        assert digest(one.run) == digest(several.run)
    assert one.run.trace.scene == several.run.trace.scene
    assert [each.tolist() for each in one.run.ledger.heard()] == [each.tolist() for each in several.run.ledger.heard()]
    if one.run.watch is not None:
        tables = [
            each.run.states.sort_values(["time_s", "agent", "sent", "mood"], key=_text) for each in (one, several)
        ]
        assert tables[0].to_csv(index=False) == tables[1].to_csv(index=False)
    for node, agent in one.agents.items():
        other = several.agents[node]
        assert repr(agent.notes) == repr(other.notes), f"agent {node!r} noted something else"
        assert (agent.mood, agent.moods) == (other.mood, other.moods)
    return several


def _text(column: Any) -> Any:
    return column.map(repr) if column.name == "agent" else column
