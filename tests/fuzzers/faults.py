"""Random networks to which everything happens at once: those of `networks` and `radios`, with faults."""

from netsim import Faults
from tests.fuzzers.laws import Played, check_books, check_same
from tests.fuzzers.networks import Case
from tests.fuzzers.radios import RadioCase, check_air

COUNTS = {"crashes": 4, "joins": 2, "leaves": 1, "cuts": 3, "partitions": 1, "stragglers": 2, "skews": 2, "jitters": 2}
"""The most that there may be of each kind."""

_OF_EDGES = ("cuts", "partitions", "jitters")
_ONCE_EACH = ("joins", "leaves", "skews")


def faulty(case: Case, seed: int, counts: dict[str, int]) -> Case:
    """Return a case with so many faults of each kind, drawn from a seed."""
    graph, period = case.network.graph, case.network.round_period
    most = dict.fromkeys(_ONCE_EACH, len(graph)) | dict.fromkeys(_OF_EDGES, 99 * graph.number_of_edges())
    fitting = {name: min(count, most.get(name, count)) for name, count in counts.items()}
    case.network.faults = Faults.draw(graph, until=6 * period, seed=seed, **fitting)
    return case


def check_faulty(seed: int, counts: dict[str, int], on_radio: bool = False) -> Played:
    """Check that what holds for any run holds with faults, and that looking changes nothing."""
    kind = RadioCase if on_radio else Case
    played = faulty(kind(seed), seed, counts).play(trace=True)
    check_books(played)
    if on_radio:
        check_air(played)
    check_same(played, faulty(kind(seed), seed, counts).play(watched=True))
    return played
