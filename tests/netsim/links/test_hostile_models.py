"""Every link model accepts numpy's number types, and refuses non-numbers with a one-line error."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import Link, latency, loss, rate
from netsim.errors import BadInput
from netsim.links import Budget, Reliability, from_reception
from netsim.testing import Listener, Talker, play

# Each constructor with valid arguments, of which tests replace one.
NUMBERS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (latency.constant, {"seconds": 0.25}),
    (latency.uniform, {"low": 0.25, "high": 0.5}),
    (latency.normal, {"mean": 0.5, "deviation": 0.125}),
    (latency.exponential, {"mean": 0.5, "minimum": 0.25}),
    (latency.lognormal, {"median": 0.5, "sigma": 0.25}),
    (latency.pareto, {"minimum": 0.5, "shape": 2.5}),
    (latency.of, {"value": 0.5}),
    (loss.bernoulli, {"probability": 0.5}),
    (loss.gilbert_elliott, {"mean": 0.25, "burst": 4.0, "slot": 0.5}),
    (loss.gemodel, {"p": 0.25, "r": 0.5, "bad": 0.75, "good": 0.125, "slot": 0.5}),
    (loss.states, {"p13": 0.25, "p31": 0.5, "p32": 0.125, "p23": 0.75, "p14": 0.5}),
    (loss.correlated, {"probability": 0.25, "correlation": 0.5}),
    (lambda **given: latency.correlated(latency.uniform(0.0, 1.0), **given), {"correlation": 0.5}),
    (lambda **given: latency.empirical([-1.0, 0.5], **given), {"mean": 0.5, "jitter": 0.25}),
    (loss.of, {"value": 0.5}),
    (Link().with_loss, {"loss": 0.5}),
    (Budget, {"bits": 800.0, "per": "second", "burst": 1600.0}),
    (Reliability, {"way": "ack", "timeout": 0.5, "attempts": 3, "window": 8, "every": 5}),
    (
        Link,
        {"latency": 0.5, "loss": 0.25, "rate": 800.0, "queue": 4, "queue_bits": 9000, "budget": 900.0, "mtu": 60}
        | {"header_bits": 8, "duplicate": 0.25, "corrupt": 0.125, "loss_bits": 800},
    ),
    (lambda **given: replace(Link(rate=9.0), **given), {"latency": 0.5, "loss": 0.25, "queue": 4, "duplicate": 0.25}),
    (lambda **given: replace(Budget(9.0, "second"), **given), {"bits": 800.0, "burst": 1600.0}),
    (lambda **given: replace(Reliability("nack"), **given), {"timeout": 0.5, "window": 8}),
    (lambda **given: from_reception({(0, 1): 0.5}, **given).links, {"least": 0.25, "coherence": 0.5}),
    (lambda reception: from_reception({(0, 1): reception}).links, {"reception": 0.5}),
]
ARRAYS: list[tuple[Callable[..., Any], str]] = [
    (latency.trace, "seconds"),
    (latency.empirical, "table"),
    (loss.trace, "lost"),
    (lambda losses: loss.varying(losses, 1.0), "losses"),
    (lambda seconds: loss.varying([0.5, 1.0], seconds), "seconds"),
    (rate.opportunities, "seconds"),
]
NO_NUMBER = [math.nan, np.float32("nan"), "x", "0.5", b"1", [0.5], np.array([0.5, 0.5]), 0.5j, {}, object(), Link, len]
NO_VECTOR: list[Any] = [
    [],
    [math.nan],
    [math.inf],
    ["x"],
    ["1"],
    [[1, 1]],
    [1, [1]],
    [1, None],
    "1",
    None,
    object(),
    [0.5j],
]
NO_VECTOR += [np.zeros((2, 2)), np.array(["1"]), np.array([], dtype=float), {1: 1}, [-1.0], [object()], [10**400]]


def key_of(model: Any) -> str:
    return repr(model)


@pytest.mark.parametrize("number", range(len(NUMBERS)))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_number_of_numpys_is_a_number(number: int, data: st.DataObject) -> None:
    make, arguments = NUMBERS[number]
    kinds: dict[type, list[Any]] = {
        float: [np.float64, np.float32, np.float16, Fraction],
        int: [np.int64, np.int16, np.uint8],
    }
    drawn = {
        name: data.draw(st.sampled_from(list(kinds.get(type(value), [type(value)]))))(value)
        if not (isinstance(value, int) and value > 255)
        else np.int64(value)
        for name, value in arguments.items()
    }
    assert key_of(make(**drawn)) == key_of(make(**arguments))


@pytest.mark.parametrize("number", range(len(NUMBERS)))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_no_number_is_refused(number: int, data: st.DataObject) -> None:
    make, arguments = NUMBERS[number]
    name = data.draw(st.sampled_from(sorted(arguments)))
    wrong = data.draw(st.sampled_from([*NO_NUMBER, True, np.True_, -1.0, -math.inf]))
    with pytest.raises(BadInput) as caught:
        make(**(arguments | {name: wrong}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", range(len(ARRAYS)))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_no_array_of_numbers_is_refused(number: int, data: st.DataObject) -> None:
    make, name = ARRAYS[number]
    wrong = data.draw(st.sampled_from(NO_VECTOR))
    with pytest.raises(BadInput) as caught:
        make(wrong)
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_an_array_may_have_any_type_of_numbers(number: int) -> None:
    make, _ = ARRAYS[number]
    for given_ in ([1, 1], (1, 1), np.ones(2, np.float32), np.ones(2, np.int8), np.array([1, 1], dtype=object)):
        make(given_)


@pytest.mark.parametrize("wrong", [1.7, -0.1, "x", math.nan, True, None, loss.bernoulli])
def test_a_link_with_another_loss_is_checked(wrong: Any) -> None:
    with pytest.raises(BadInput, match=r"^loss"):
        Link().with_loss(wrong)


def test_a_link_takes_another_loss_as_a_number() -> None:
    link = Link(latency=0.5).with_loss(0.2)
    assert link == Link(latency=0.5, loss=0.2)
    run = play(Talker([(0, n) for n in range(200)], None), Listener(), link=link)
    assert 10 < run.ledger.table()["lost"].sum() < 80
