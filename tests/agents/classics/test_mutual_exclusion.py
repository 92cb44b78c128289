"""Tests of Ricart and Agrawala's mutual exclusion: never two agents inside, all enter, in order of timestamps."""

from itertools import pairwise
from typing import Any

import pytest

from netsim import BadInput, Link, Network, latency, topology
from netsim.agents.classics import RicartAgrawala
from netsim.errors import Stalled
from netsim.faults import Crash, Lose

DELAYS: dict[str, Any] = {
    "none": 0.0,
    "constant": 0.05,
    "uniform": latency.uniform(0.01, 0.5),
    "exponential": latency.exponential(0.2),
}


def play(count: int, link: Link, seed: int = 0, entries: int = 3, pause: float = 0.5, **settings: Any) -> Any:
    network = Network(topology.complete(count), link, seed=seed, **settings)
    network.watch(["status", "stamp"])
    return network.run({i: RicartAgrawala(entries, stay=0.1, pause=pause) for i in range(count)}, trace=True)


def inside(run: Any) -> list[tuple[float, float, int]]:
    """Return (entry time, exit time, agent) of each stay in the critical section, in order of time."""
    found = []
    for agent, states in run.states.groupby("agent"):
        statuses, times = list(states["status"]), list(states["time_s"])
        for place, status in enumerate(statuses):
            if status == "inside" and statuses[place - 1] != "inside":
                found.append((times[place], times[place + 1], agent))
    return sorted(found)


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("count", [2, 5])
def test_never_two_are_inside_and_all_get_in(delay: str, count: int) -> None:
    """Holds for all latencies, also if frames overtake each other and requests are simultaneous."""
    for seed in range(8):
        run = play(count, Link(latency=DELAYS[delay]), seed, pause=0.0 if seed % 2 else 0.5)
        stays = inside(run)
        assert len(stays) == 3 * count
        for (_, left, _), (entered, _, _) in pairwise(stays):
            assert left <= entered
        assert all(left - entered == pytest.approx(0.1) for entered, left, _ in stays)
        assert [agent.status for agent in run.agents.values()] == ["outside"] * count


def test_an_entry_takes_two_messages_for_each_other_node() -> None:
    for count in (1, 2, 4, 7):
        run = play(count, Link(latency=latency.uniform(0.01, 0.3)), entries=5)
        assert run.ledger.link_messages == 2 * (count - 1) * 5 * count


def test_they_enter_in_the_order_of_their_timestamps() -> None:
    for seed in range(10):
        run = play(5, Link(latency=latency.exponential(0.2)), seed, pause=0.3)
        notes = run.notes
        stamps = [
            (int(note.split()[-1]), agent)
            for note, agent in zip(notes["note"], notes["agent"].astype(int), strict=True)
        ]
        assert stamps == sorted(stamps)
        assert len(set(stamps)) == 15


def test_the_next_enters_one_latency_after_the_one_before_has_left() -> None:
    run = play(5, Link(latency=0.05), pause=0.0)
    stays = inside(run)
    gaps = [entered - left for (_, left, _), (entered, _, _) in pairwise(stays)]
    # The next agent enters as soon as the reply of the agent that has left arrives: one latency of 0.05 s.
    assert gaps == pytest.approx([0.05] * len(gaps))


@pytest.mark.parametrize("kind", ["request", "reply"])
def test_a_lost_message_stops_all(kind: str) -> None:
    """Lose the first frame of link (0, 1), a request of agent 0, or of link (1, 0); agent 0 waits for both."""
    link = (0, 1) if kind == "request" else (1, 0)
    with pytest.raises(Stalled, match="agent 0 waits for"):
        play(3, Link(latency=0.05), pause=0.0, faults=[Lose(*link, at=0.0)])


def test_links_that_acknowledge_keep_it_going() -> None:
    run = play(4, Link(latency=0.05, loss=0.2, reliability="ack"))
    assert len(inside(run)) == 12


def test_a_crashed_node_stops_all() -> None:
    with pytest.raises(Stalled) as error:
        play(4, Link(latency=0.05), faults=[Crash(2, at=0.7)])
    others = [agent for name, agent in error.value.run.agents.items() if name != 2]
    assert {agent.status for agent in others} == {"waiting"}
    assert all(2 in agent.missing for agent in others)


@pytest.mark.parametrize("bad", [{"entries": -1}, {"stay": -0.1}, {"pause": float("inf")}])
def test_bad_arguments_are_refused_in_one_line(bad: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as error:
        RicartAgrawala(**bad)
    assert str(error.value).startswith(f"{next(iter(bad))} = ")
    assert "\n" not in str(error.value)
