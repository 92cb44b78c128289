"""A link's transmitter against a plain simulation in exact arithmetic, with extreme settings."""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from netsim import Link
from netsim.links import Budget
from netsim.transport.stages import Transmitter
from tests.parts import every

Frames = list[tuple[Fraction, int]]
"""The (time in seconds, size in bytes) of each frame, in order of time."""


class Plain:
    """A transmitter written from docs/links.md that recomputes everything from its history at each frame."""

    def __init__(self, link: Link, period: Fraction) -> None:
        self.link, self.period = link, period
        self.left: list[tuple[Fraction, int]] = []
        self.paid: list[tuple[Fraction, int]] = []

    def accept(self, now: Fraction, size: int) -> tuple[str, list[Fraction]]:
        link = self.link
        mtu = link.mtu or size
        fragments = [8 * min(mtu, size - first) + link.header_bits for first in range(0, size, mtu)]
        bits = sum(fragments)
        here = [held for end, held in self.left if end > now]
        if link.queue is not None and len(here) + 1 > link.queue:
            return "queue_full", []
        if link.queue_bits is not None and sum(here) + bits > link.queue_bits:
            return "queue_full", []
        release = now if link.budget is None else self.budget(now, bits)
        if release is None:
            return "refused", []
        self.paid.append((release, bits))
        end = max([release, *(end for end, _ in self.left)])
        ends = []
        for part in fragments:
            end += Fraction(part) / Fraction(link.rate) if link.rate else 0
            ends.append(end)
        self.left.append((end, bits))
        return "", ends

    def budget(self, now: Fraction, bits: int) -> Fraction | None:
        budget = self.link.budget_model
        return self.bucket(now, bits) if budget.per == "second" else self.window(now, bits)

    def bucket(self, now: Fraction, bits: int) -> Fraction | None:
        budget = self.link.budget_model
        rate = Fraction(budget.bits)
        size = level = rate if budget.burst is None else Fraction(budget.burst)
        then = Fraction(0)
        for when, amount in self.paid:
            level, then = min(size, level + (when - then) * rate) - amount, when
        start = max(now, then)
        level = min(size, level + (start - then) * rate)
        if bits > size or (budget.over == "refuse" and bits > level):
            return None
        return start + max(Fraction(0), (bits - level) / rate)

    def window(self, now: Fraction, bits: int) -> Fraction | None:
        budget = self.link.budget_model
        used: dict[int, int] = defaultdict(int)
        for when, amount in self.paid:
            used[math.floor(when / self.period)] += amount
        if bits > budget.bits:
            return None
        link_index = max([math.floor(now / self.period), *used])
        while used[link_index] + bits > budget.bits:
            if budget.over == "refuse":
                return None
            link_index += 1
        return max(now, link_index * self.period)


def random_link(rng: random.Random, per: str | None, over: str) -> Link:
    """Return a link with integer settings, so that rounding never changes the order of events."""
    budget = None
    if per is not None:
        burst = rng.choice((None, 400, 1000, 4000)) if per == "second" else None
        budget = Budget(rng.choice((300, 800, 2400)), per, over, burst)  # type: ignore[arg-type]
    rate = rng.choice((None, 256, 800, 8000)) if budget else rng.choice((256, 800, 8000))
    return Link(
        rate=rate,
        budget=budget,
        queue=rng.choice((None, None, 1, 2, 5)),
        queue_bits=rng.choice((None, None, 800, 3000)),
        mtu=rng.choice((None, 1, 7, 30, 100)),
        header_bits=rng.choice((0, 0, 8, 88)),
    )


def random_frames(rng: random.Random) -> Frames:
    """Return frames that often arrive together, or exactly when others leave."""
    step = rng.choice((Fraction(1, 16), Fraction(1, 4), Fraction(1)))
    times = sorted(step * rng.randint(0, 60) for _ in range(rng.randint(1, 40)))
    return [(when, rng.choice((1, 2, 10, 29, 30, 31, 100))) for when in times]


@pytest.mark.parametrize("over", ["refuse", "wait"])
@pytest.mark.parametrize("per", [None, "second", "round"])
def test_frames_leave_as_in_a_plain_simulation(per: str | None, over: str) -> None:
    for seed in range(60):
        rng = random.Random(f"{seed} {per} {over}")
        link, frames, period = (
            random_link(rng, per, over),
            random_frames(rng),
            rng.choice((Fraction(1, 4), Fraction(1))),
        )
        transmitter, plain = Transmitter(link, float(period)), Plain(link, period)
        for now, size in frames:
            cause, start, ends = transmitter.accept(float(now), transmitter.fragments(size))
            expected_cause, expected = plain.accept(now, size)
            assert cause == expected_cause, (seed, now, size)
            assert ends == pytest.approx([float(end) for end in expected], abs=1e-8), (seed, now, size)
            assert not ends or float(now) <= start <= ends[0], (seed, now, size)


@pytest.mark.parametrize("queue", [None, 1, 3, 10])
def test_a_queue_and_its_transmitter_tick_by_tick(queue: int | None) -> None:
    """At 800 bit/s a byte takes a tick of 10 ms; the reference model advances byte by byte."""
    for seed in range(60):
        rng = random.Random(seed)
        arrivals: dict[int, list[int]] = defaultdict(list)
        for _ in range(60):
            arrivals[rng.randint(0, 400)].append(rng.randint(1, 20))
        transmitter = Transmitter(Link(rate=800, queue=queue), 1.0)
        waiting: list[list[int]] = []
        expected: dict[int, int] = {}
        found: dict[int, int] = {}
        number = 0
        for tick in range(2000):
            if waiting:
                waiting[0][1] -= 1
                if not waiting[0][1]:
                    expected[waiting.pop(0)[0]] = tick
            for size in arrivals.pop(tick, ()):
                if queue is None or len(waiting) < queue:
                    waiting.append([number, size])
                cause, _, ends = transmitter.accept(tick * 0.01, transmitter.fragments(size))
                if not cause:
                    found[number] = round(100 * ends[-1])
                    assert ends[-1] == pytest.approx(found[number] / 100, abs=1e-9)
                number += 1
        assert not waiting
        assert not arrivals
        assert found == expected


# --- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [0.0, 1e5, 1e7, 1e9])
def test_a_steady_sender_at_the_very_rate_of_its_bucket_is_never_refused(far: float) -> None:
    transmitter = Transmitter(Link(budget=Budget(8000, per="second", burst=800)), 1.0)
    for number in range(3000):
        now = far + number / 10
        assert transmitter.accept(now, [800]) == ("", now, [now])
        assert transmitter.accept(now + 0.05, [800])[0] == "refused"


@every("period", [0.1, 1 / 3, 0.7, 1e-3, 5.0])
@every("first", [0, 10**6, 10**8, 10**11])
def test_a_budget_is_whole_at_each_opening_however_many_rounds_went_before(period: float, first: int) -> None:
    transmitter = Transmitter(Link(budget=800), period)
    for number in range(first, first + 500):
        assert transmitter.accept(number * period, [800])[0] == ""
        assert transmitter.accept(number * period, [8])[0] == "refused"
        assert transmitter.accept((number + 0.999) * period, [8])[0] == "refused"


@pytest.mark.parametrize("early", [0.0, 5e-10, 1e-12])
def test_a_round_opens_within_rounding_of_its_time(early: float) -> None:
    transmitter = Transmitter(Link(budget=800), 2.0)
    assert transmitter.accept(2.0 * (3 - 2e-9), [800])[0] == ""
    assert transmitter.accept(2.0 * (4 - early), [800]) == ("", 8.0, [8.0])
    assert transmitter.accept(2.0 * (5 - 2e-9), [8])[0] == "refused"
    assert transmitter.accept(2.0 * (5 - early), [800])[0] == ""


@pytest.mark.parametrize("count", [1, 7, 100])
def test_what_waits_for_a_bucket_leaves_when_all_before_it_are_paid(count: int) -> None:
    transmitter = Transmitter(Link(budget=Budget(100, per="second", over="wait", burst=1000)), 1.0)
    left = [transmitter.accept(0.0, [300])[2][0] for _ in range(count)]
    assert left == pytest.approx([max(0.0, (300 * (n + 1) - 1000) / 100) for n in range(count)], abs=1e-9)


@pytest.mark.parametrize("bits", [0.29 * 800, 0.57 * 5600, 232, 232.0])
@pytest.mark.parametrize("per", ["round", "second"])
def test_a_budget_that_was_rounded_down_carries_what_was_meant(bits: float, per: Any) -> None:
    whole = round(bits)
    transmitter = Transmitter(Link(budget=Budget(bits, per=per)), 1.0)
    assert [transmitter.accept(now, [size])[0] for now, size in ((0.0, whole), (10.5, whole + 1), (20.5, whole))] == [
        "",
        "refused",
        "",
    ]
    transmitter = Transmitter(Link(budget=Budget(bits, per=per)), 1.0)
    assert [transmitter.accept(0.5, [size])[0] for size in (whole - 8, 8, 1)] == ["", "", "refused"]


def test_a_large_whole_budget_is_exact() -> None:
    for bits in (10**15 + 1, 2**53 - 1):
        for budget in (Budget(bits), Budget(1, per="second", burst=bits)):
            transmitter = Transmitter(Link(budget=budget), 1.0)
            assert transmitter.accept(0.0, [bits + 1])[0] == "refused"
            assert transmitter.accept(0.0, [bits])[0] == ""


@pytest.mark.parametrize(
    "link", [Link(rate=8e5), Link(rate=8e5, queue=10**5), Link(budget=Budget(8e5, "second", "wait"))]
)
def test_a_hundred_thousand_frames_may_wait(link: Link) -> None:
    transmitter = Transmitter(link, 1.0)
    start = time.process_time()
    for _ in range(100_000):
        cause, _, ends = transmitter.accept(0.0, [800])
        assert not cause
    last = ends[-1]
    for _ in range(1000):
        transmitter.accept(last / 2, [800])
    assert last == pytest.approx(100 - (0 if link.rate else 1), abs=1e-6)
    assert time.process_time() - start < 10


# --- the ends of the ranges -------------------------------------------------------------------------------------------


@every(
    ("link", "expected"),
    [
        (Link(rate=1e-300), [8e302, 1.6e303]),
        (Link(rate=5e-324), [math.inf, math.inf]),
        (Link(rate=1e300), [5.0, 5.0]),
        (Link(rate=10**300), [5.0, 5.0]),
        (Link(rate=800, queue=10**30, queue_bits=10**30, mtu=10**30), [6.0, 7.0]),
        (Link(budget=5e-324), None),
        (Link(budget=1e308), [5.0, 5.0]),
        (Link(budget=10**30), [5.0, 5.0]),
        (Link(budget=Budget(5e-324, "second", "wait")), None),
        (Link(budget=Budget(1e308, "second")), [5.0, 5.0]),
        (Link(budget=Budget(5e-324, "second", burst=1e300)), [5.0, 5.0]),
        (Link(rate=800, header_bits=2**31 - 1), [5 + (2**31 + 799) / 800, 5 + 2 * (2**31 + 799) / 800]),
    ],
)
def test_settings_at_the_ends_of_their_ranges(link: Link, expected: list[float] | None) -> None:
    transmitter = Transmitter(link, 1.0)
    for link_index in range(2):
        cause, _, ends = transmitter.accept(5.0, transmitter.fragments(100))
        if expected is None:
            assert (cause, ends) == ("refused", [])
        else:
            assert ends == pytest.approx([expected[link_index]])


def test_a_bucket_that_would_never_fill_again_refuses_and_keeps_what_it_has() -> None:
    transmitter = Transmitter(Link(budget=Budget(5e-324, "second", "wait", burst=1000)), 1.0)
    causes: Callable[[int], str] = lambda bits: transmitter.accept(3.0, [bits])[0]  # noqa: E731
    assert [causes(bits) for bits in (800, 800, 100, 200, 100, 8)] == ["", "refused", "", "refused", "", "refused"]
