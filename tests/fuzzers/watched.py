"""Random networks whose agents' moods are watched: at each change, and when each message leaves."""

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
"""Rounds or samples between rows: with another in each case, as a row looks at all agents."""


def check_watched(seed: int, with_faults: bool = False, on_radio: bool = False) -> Played:
    """Check that watching changes nothing, and that the moods known are those of the agents."""
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
        # A straggler sends its messages later than it meant to.
        messages_leave_as_agents_were(played, changes)
    return played


def changes_of(run: Run) -> dict[Hashable, list[Row]]:
    """Return the changes by agent, in order."""
    found = defaultdict(list)
    for row in rows_of(run.states):
        assert row["twice"] == 2 * row["mood"]
        found[row["agent"]].append(row)
    return found


def changes_are_those_of_the_agents(played: Played, changes: dict[Hashable, list[Row]]) -> None:
    """After each instant the last mood of each agent is known, and no other mood."""
    for name, agent in played.agents.items():
        known = {row["time_s"]: row["mood"] for row in changes[name]}
        # Only the last mood of each instant counts.
        moods = dict(agent.moods)
        crashes = [fault for fault in played.network.faults if isinstance(fault, Crash) and fault.agent == name]
        if any(isinstance(fault, ClockSkew) and fault.agent == name for fault in played.network.faults):
            # The agent recorded times by its own clock.
            assert set(known.values()) <= {0, *(mood for _, mood in agent.moods)}, name
        elif all(fault.keeps_state for fault in crashes):
            assert known == moods, name
        else:
            # A restarted node has lost its mood, and cannot record that.
            assert all(mood == moods.get(time, 0) for time, mood in known.items()), name
        assert [row["sent"] for row in changes[name]] == sorted(row["sent"] for row in changes[name])


def messages_leave_as_agents_were(played: Played, changes: dict[Hashable, list[Row]]) -> None:
    """The sender's mood at each message is known, even if the mood changes again at the same instant."""
    for event, call in sent_events(played):
        [*_, last] = [row for row in changes[event["sender"]] if row["sent"] <= event["message"]]
        assert (last["mood"], last["time_s"]) == (call.mood, call.at), (event, call, last)
