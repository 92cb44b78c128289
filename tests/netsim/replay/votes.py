"""A handmade run in a page's format: an election of five agents, a partition, a crash, notes, captions, labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.replay.html import COLUMNS

CAUSES = ["delivered", "lost", "link_down", "receiver_down", "in_flight"]
KINDS = ["vote?", "vote", "hb"]
NAMES = ["start", "depart", "end", "sender", "receiver", "kind", "cause", "round", "bits", "reply", "number", "label"]

# Each row: kind, term, sender, time in ms, and for each receiver the flight in ms, with a cause if the frame was lost.
FANS: list[tuple[int, int, int, int, dict[int, Any]]] = [
    (0, 1, 1, 14, {0: 13, 2: 12, 3: 16, 4: 20}),
    (1, 1, 0, 27, {1: 12}),
    (1, 1, 2, 26, {1: 14}),
    (1, 1, 3, 30, {1: (0, 1)}),
    (1, 1, 4, 34, {1: 20}),
    (2, 1, 1, 46, {0: 13, 2: 14, 3: 17, 4: (0, 1)}),
    (2, 1, 1, 121, {0: 13, 2: (0, 2), 3: (0, 2), 4: (0, 2)}),
    (0, 2, 3, 136, {2: 13, 4: 13, 1: (0, 2), 0: (0, 2)}),
    (1, 2, 2, 149, {3: 12}),
    (1, 2, 4, 149, {3: 15}),
    (2, 2, 3, 172, {2: 13, 4: 14, 1: (0, 2), 0: (0, 2)}),
    (2, 1, 1, 196, {0: 13, 2: (0, 2), 3: (0, 2), 4: (0, 2)}),
    (2, 2, 3, 247, {2: 12, 4: (13, 3), 1: (0, 2), 0: (0, 2)}),
    (2, 1, 1, 271, {0: 13, 2: 13, 3: 17, 4: (19, 3)}),
    (2, 2, 3, 318, {0: 19, 1: 16, 2: 13, 4: 13}),
]

# Each row: agent, time in ms, role, term.
STATES = [
    *((agent, 0, 0, 0) for agent in range(5)),
    *((1, 14, 1, 1), (0, 27, 0, 1), (2, 26, 0, 1), (3, 30, 0, 1), (4, 34, 0, 1), (1, 40, 2, 1)),
    *((3, 136, 1, 2), (2, 149, 0, 2), (4, 149, 0, 2), (3, 164, 2, 2), (4, 292, 0, 2), (1, 334, 0, 2), (0, 337, 0, 2)),
]

NOTES = [(40, 1, "becomes leader"), (164, 3, "becomes leader"), (284, 2, "ignores old t1"), (334, 1, "steps down")]


def votes() -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the data of the page: metadata and columns."""
    rows = []
    for number, (kind, term, sender, time, ends) in enumerate(FANS):
        for receiver, found in sorted(ends.items()):
            flight, cause = found if isinstance(found, tuple) else (found, 0)
            start, end = time / 1e3, (time + flight) / 1e3
            rows.append((start, start, end, sender, receiver, kind, cause, 0, 64, 0, number, term - 1))
    rows.sort(key=lambda row: row[0])
    columns = {
        name: np.array(column, dtype=COLUMNS[name]) for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)
    }
    states = sorted(STATES, key=lambda each: each[1])
    sides = [[0, 1], [2, 3, 4]]
    across = [[one, other] for one in sides[0] for other in sides[1]]
    crash = {"what": "Crash", "text": "agent 4 is down", "begin": 0.21, "end": 0.292, "agents": [4], "links": []}
    cut = {"what": "Partition", "text": "cut", "begin": 0.084, "end": 0.264, "agents": [], "sides": sides}
    angles = 2 * np.pi * np.arange(5) / 5
    meta = {
        "title": "An election under a partition",
        "command": "netsim run votes",
        "versions": {},
        "agents": [str(agent) for agent in range(5)],
        "positions": np.stack([np.sin(angles), np.cos(angles)], axis=1).tolist(),
        "has_positions": True,
        "paths": {},
        "links": [[one, other] for one in range(5) for other in range(one + 1, 5)],
        "round_period": 1.0,
        "rounds": 0,
        "ended_at": 0.36,
        "kinds": KINDS,
        "causes": CAUSES,
        "counts": dict.fromkeys(CAUSES, 0),
        "total": len(rows),
        "shown": len(rows),
        "omitted": "",
        "curves": {"x": [], "columns": {}},
        "notes": [],
        "question": "",
        "labels": ["t1", "t2"],
        "faults": [cut | {"links": across + [pair[::-1] for pair in across]}, crash],
        "marks": {
            "times": [time / 1e3 for time, *_ in NOTES],
            "agents": [agent for _, agent, _ in NOTES],
            "sent": [0] * len(NOTES),
            "texts": [text for *_, text in NOTES],
        },
        "states": {
            "times": [time / 1e3 for _, time, *_ in states],
            "agents": [agent for agent, *_ in states],
            "sent": [0] * len(states),
            "values": {
                "role": {"words": ["follower", "candidate", "leader"], "codes": [role for *_, role, _ in states]},
                "term": [float(term) for *_, term in states],
            },
        },
    }
    return meta, columns
