"""The linearizability check against a search of all permutations, on known histories, and on long ones."""

import itertools
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from netsim import BadInput
from netsim.checkers import Model, Operation, Undecided, find_contradiction, mutex, queue, register, transactions


def call(agent: Any, words: str, start: float, end: float | None, result: Any = None, value: Any = None) -> Operation:
    """Return an operation such as ``"write x"``; ``end=None`` makes one without a known outcome."""
    name, _, key = words.partition(" ")
    made = Operation(agent, name, value, key=key or None, start=start)
    if end is not None:
        made.ok(result)
        made.end = end
    return made


def drawn_result(rng: random.Random, name: str) -> Any:
    return {"read": rng.choice([None, 0, 1]), "cas": rng.random() < 0.5, "dequeue": rng.choice([None, 0, 1])}.get(name)


def drawn(rng: random.Random, names: Sequence[str]) -> list[Operation]:
    """Return a random small history of a few clients, which may be linearizable or not."""
    made = []
    for agent in range(rng.randrange(1, 4)):
        time = 0
        for number in range(rng.randrange(1, 3)):
            start = time + rng.randrange(2)
            time = start + rng.randrange(3)
            name = rng.choice(names)
            value = (rng.randrange(2), rng.randrange(2)) if name == "cas" else rng.randrange(2)
            each = Operation(agent, name, value, number=number, start=start)
            if rng.random() < 0.8:
                each.ok(drawn_result(rng, name))
                each.end = time
            made.append(each)
    return made


def by_permutations(calls: Iterable[Operation], model: Model) -> bool:
    """Return whether some order of the completed calls, with any of the unfinished ones, explains the results."""
    known = [each for each in calls if each.outcome == "ok"]
    others = [each for each in calls if each.outcome == "unknown"]
    subsets = itertools.chain.from_iterable(itertools.combinations(others, n) for n in range(len(others) + 1))
    return any(right(order, model) for some in subsets for order in itertools.permutations([*known, *some]))


def right(order: Sequence[Operation], model: Model) -> bool:
    for i, first in enumerate(order):
        for later in order[i + 1 :]:
            of_one = first.agent == later.agent and later.number < first.number and later.end <= first.start
            if later.end < first.start or of_one:
                return False
    state = model.initial
    for each in order:
        fits, state = model.step(state, each)
        if not fits:
            return False
    return True


@pytest.mark.parametrize(
    ("model", "names"),
    [(register, ("read", "write", "cas", "add")), (queue, ("enqueue", "dequeue")), (mutex, ("acquire", "release"))],
    ids=["register", "queue", "mutex"],
)
def test_it_says_what_all_permutations_say(model: Model, names: Sequence[str]) -> None:
    rng, wrong = random.Random(1), 0
    for _ in range(200):
        calls = drawn(rng, names)
        found = find_contradiction(calls, model)
        assert (found is None) == by_permutations(calls, model), [*map(str, calls)]
        wrong += found is not None
    assert 20 < wrong < 190


def test_what_it_names_is_enough_and_none_of_it_can_be_left_out() -> None:
    rng, found = random.Random(2), 0

    def knowing(calls: list[Operation], some: list[Operation]) -> list[Operation]:
        """Return the history in which only the operations ``some`` have a known outcome."""
        return [
            each if each in some else Operation(each.agent, each.name, each.value, number=each.number, start=each.start)
            for each in calls
        ]

    while found < 50:
        calls = drawn(rng, register.words)
        part = find_contradiction(calls, register)
        if part is not None:
            found += 1
            assert find_contradiction(knowing(calls, part.operations), register) is not None
            for each in part.operations:
                fewer = [other for other in part.operations if other is not each]
                assert find_contradiction(knowing(calls, fewer), register) is None


def test_a_stale_read_is_named_with_the_write_that_it_missed() -> None:
    calls = [
        call(0, "write x", 0, 1, value=5),
        call(1, "read x", 1.5, 2, 5),
        call(2, "read y", 0, 3, None),
        call(1, "read x", 2.5, 3),
    ]
    found = find_contradiction(calls, register)
    assert found is not None
    assert str(found) == "no order explains write x 5 by 0 (0–1 s); read x by 1 (2.5–3 s)"


def test_what_touches_in_time_may_come_in_either_order() -> None:
    assert find_contradiction([call(0, "write", 0, 1, value=5), call(1, "read", 1, 2)], register) is None
    # One agent's operations keep their order even if their times touch.
    assert find_contradiction([call(0, "write", 0, 1, value=5), call(0, "read", 1, 2)], register) is not None


def test_what_is_unknown_may_come_late_or_never_and_what_failed_never() -> None:
    lost = call(0, "write", 0, None, value=5)
    for seen in ([None, None], [None, 5], [5, 5]):
        reads = [call(1, "read", 1 + i, 1.5 + i, result) for i, result in enumerate(seen)]
        assert find_contradiction([lost, *reads], register) is None
    assert find_contradiction([lost, call(1, "read", 1, 2, 5), call(1, "read", 3, 4)], register) is not None
    lost.failed()
    assert find_contradiction([lost, call(1, "read", 1, 2, 5)], register) is not None


def test_write_skew_is_found_and_a_late_order_is_not_asked_for() -> None:
    def transaction(agent: int, start: float, result: list[Any], *words: tuple[Any, ...]) -> Operation:
        return call(agent, "transaction", start, start + 1, result, words)

    skew = [
        transaction(0, 0, [None], ("read", "y"), ("write", "x", 1)),
        transaction(1, 0, [None], ("read", "x"), ("write", "y", 1)),
    ]
    assert find_contradiction(skew, transactions, timed=False) is not None
    stale = [transaction(0, 0, [], ("write", "x", 1)), transaction(1, 5, [None], ("read", "x"))]
    assert find_contradiction(stale, transactions, timed=False) is None
    assert find_contradiction(stale, transactions) is not None


def long_history(count: int, clients: int, unknown: float = 0.0) -> list[Operation]:
    """Return a linearizable history of a register: each operation takes effect within its span."""
    rng, free, spans = random.Random(count), [0.0] * clients, []
    for number in range(count):
        client = min(range(clients), key=free.__getitem__)
        start = free[client] + rng.random()
        free[client] = end = start + 2 * rng.random()
        spans.append((rng.uniform(start, end), start, end, client, number))
    made, state = [], None
    for _, start, end, client, number in sorted(spans):
        each = Operation(client, rng.choice(register.words[:3]), number=number, start=start)
        each.value = (rng.randrange(5), rng.randrange(5)) if each.name == "cas" else rng.randrange(5)
        made.append(each)
        lost = rng.random() < unknown
        if lost and rng.random() < 0.5:
            continue
        each.outcome = "ok"
        each.result = {"read": state, "cas": each.name == "cas" and state == each.value[0]}.get(each.name)
        state = register.step(state, each)[1]
        each.end = end
        if lost:
            each.outcome, each.result, each.end = "unknown", None, float("inf")
    return made


def test_a_thousand_operations_are_explained_and_one_spoiled_read_is_not() -> None:
    calls = long_history(1000, 5)
    assert find_contradiction(calls, register) is None
    assert find_contradiction(long_history(1000, 20), register) is None
    assert find_contradiction(long_history(1000, 5, unknown=0.02), register) is None
    reads = [each for each in calls if each.name == "read"]
    spoiled = reads[3 * len(reads) // 4]
    spoiled.result = 99
    found = find_contradiction(calls, register)
    assert found is not None
    assert spoiled in found.operations
    assert len(found.operations) < 10
    assert found.before > 500


def test_a_question_that_takes_too_long_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsim.checkers.explain._MOST_STEPS", 1000)
    calls = long_history(400, 20, unknown=0.5)
    next(each for each in reversed(calls) if each.name == "read" and each.outcome == "ok").result = 99
    with pytest.raises(Undecided):
        find_contradiction(calls, register)


def test_an_operation_that_the_model_has_not_is_refused() -> None:
    with pytest.raises(BadInput, match="operation 'push': must be enqueue or dequeue: push 1 by 0"):
        find_contradiction([call(0, "push", 0, 1, value=1)], queue)
