"""Random networks that watch an attribute of each agent, ``mood``: its changes, and its value when messages leave."""

from collections import defaultdict
from collections.abc import Hashable

from netsim import Run
from netsim.faults import ClockSkew, Crash
from tests.fuzzers.faults import COUNTS, faulty
from tests.fuzzers.laws import Played, Row, check_same, rows_of
from tests.fuzzers.messages import sent_events
from tests.fuzzers.networks import Case
from tests.fuzzers.radios import RadioCase

ROWS = (None, None, 1, 0.3)
"""Intervals between rows, in rounds or seconds, chosen by case; a row also reads all agents."""


def check_watched(seed: int, with_faults: bool = False, on_radio: bool = False) -> Played:
    """Check that watching does not change the run, and that the watched values are those that the agents recorded."""
    kind = RadioCase if on_radio else Case

    def made() -> Case:
        return faulty(kind(seed), seed, COUNTS) if with_faults else kind(seed)

    plain, case = made(), made()
    share = ROWS[seed % len(ROWS)]
    rows = None if share is None else share * case.network.round_period
    case.network.watch({"mood": "mood", "twice": lambda agent: 2 * agent.mood})
    played = case.play(trace=True, sample=rows)
    check_same(played, plain.play(trace=True, sample=rows))
    changes = changes_of(played.run)
    changes_are_those_of_the_agents(played, changes)
    if not (with_faults or played.damages):
        # Skipped with stragglers, which send messages later than the agent's call.
        messages_leave_as_agents_were(played, changes)
    return played


def changes_of(run: Run) -> dict[Hashable, list[Row]]:
    """Return the recorded changes by agent, in order."""
    found = defaultdict(list)
    for row in rows_of(run.states):
        assert row["twice"] == 2 * row["mood"]
        found[row["agent"]].append(row)
    return found


def changes_are_those_of_the_agents(played: Played, changes: dict[Hashable, list[Row]]) -> None:
    """Check that the last value at each instant was recorded for each agent, and no other value."""
    for name, agent in played.agents.items():
        known = {row["time_s"]: row["mood"] for row in changes[name]}
        # The dictionary keeps only the last mood of each instant.
        moods = dict(agent.moods)
        crashes = [fault for fault in played.network.faults if isinstance(fault, Crash) and fault.agent == name]
        if any(isinstance(fault, ClockSkew) and fault.agent == name for fault in played.network.faults):
            # The agent recorded its times by its own, skewed clock, so only the values are compared.
            assert set(known.values()) <= {0, *(mood for _, mood in agent.moods)}, name
        elif all(fault.keeps_state for fault in crashes):
            assert known == moods, name
        else:
            # A restarted node begins with mood 0, and cannot record this change itself.
            assert all(mood == moods.get(time, 0) for time, mood in known.items()), name
        assert [row["sent"] for row in changes[name]] == sorted(row["sent"] for row in changes[name])


def messages_leave_as_agents_were(played: Played, changes: dict[Hashable, list[Row]]) -> None:
    """Check that the sender's mood at each message was recorded, even if it changed again at the same instant."""
    for event, call in sent_events(played):
        [*_, last] = [row for row in changes[event["sender"]] if row["sent"] <= event["message"]]
        assert (last["mood"], last["time_s"]) == (call.mood, call.at), (event, call, last)
