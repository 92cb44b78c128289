"""Event loops whose time is simulated."""

import asyncio
import contextvars
import gc
import math
import time
import weakref
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from netsim import BadInput, Stalled
from netsim.clock import new_loop
from netsim.clock.clock import LocalClock, Loop
from tests.parts import message_of, on_loop


def loop_of() -> Loop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    return loop


def now() -> float:
    return loop_of().time()


# --- virtual time -----------------------------------------------------------------------------------------------------


def test_time_jumps_exactly_to_each_timer() -> None:
    times = [0.013, 0.1, 0.7, 1 / 3, 5e-324, 12.345678901234567, 86_400.1]

    async def main() -> list[float]:
        seen: list[float] = []
        for when in times:
            loop_of().call_at(when, lambda: seen.append(now()))
        await asyncio.sleep(1e5)
        return seen

    assert on_loop(main) == sorted(times)


@pytest.mark.parametrize("start", [0.0, 1.0, 2.0**25])
def test_timers_of_one_time_run_in_the_order_in_which_they_were_set(start: float) -> None:
    async def main() -> list[int]:
        await asyncio.sleep(start)
        seen: list[int] = []
        for i in range(50):
            loop_of().call_later(2.0, seen.append, i)
        await asyncio.sleep(2.0)
        return seen

    assert on_loop(main) == list(range(50))


def test_a_simulated_day_and_a_century_cost_nothing() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        await asyncio.sleep(100 * 365 * 86_400)
        # At large times the float spacing of the clock exceeds a nanosecond: timers must still fire.
        await asyncio.sleep(0.5)
        await asyncio.sleep(1e-12)
        return now()

    assert on_loop(main) == 86_400 + 100 * 365 * 86_400 + 0.5


def test_asyncio_works_in_virtual_time() -> None:
    async def main() -> None:
        queue: asyncio.Queue[float] = asyncio.Queue()

        async def produce(delay: float) -> None:
            await asyncio.sleep(delay)
            await queue.put(now())

        async with asyncio.TaskGroup() as group:
            for delay in (3.0, 1.0, 2.0):
                group.create_task(produce(delay))
            assert [await queue.get() for _ in range(3)] == [1.0, 2.0, 3.0]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 4.0)
        assert now() == 7.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await asyncio.Event().wait()
        assert now() == 12.0
        assert await asyncio.gather(asyncio.sleep(2.0, "b"), asyncio.sleep(1.0, "a")) == ["b", "a"]
        assert now() == 14.0

    on_loop(main)


def test_a_cancelled_timer_neither_runs_nor_moves_the_clock() -> None:
    async def main() -> float:
        seen: list[str] = []
        loop = loop_of()
        loop.call_at(9.0, seen.append, "cancelled before").cancel()
        first = loop.call_at(1.0, lambda: second.cancel())
        second = loop.call_at(1.0, seen.append, "cancelled by the one before, at the same instant")
        await asyncio.sleep(1.0)
        assert not seen
        assert first.when() == 1.0
        with pytest.raises(Stalled):
            await _until_standstill(loop)
        return loop.time()

    assert on_loop(main) == 1.0


async def _until_standstill(loop: Loop) -> None:
    still = loop.create_future()
    loop.clock.on_standstill.append(lambda: still.set_exception(Stalled("still")))
    try:
        await still
    finally:
        loop.clock.on_standstill.clear()


def test_a_timer_runs_in_the_context_in_which_it_was_set() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    async def main() -> str:
        seen: list[str] = []
        name.set("when set")
        loop_of().call_later(1.0, lambda: seen.append(name.get()))
        name.set("later")
        await asyncio.sleep(2.0)
        return seen[0]

    assert on_loop(main) == "when set"


def test_cancelled_timers_are_forgotten() -> None:
    """Many cancelled request timeouts must not occupy memory until they are due."""

    class Thing:
        def __call__(self) -> None:
            raise AssertionError

    async def main() -> int:
        things: weakref.WeakSet[Thing] = weakref.WeakSet()
        for _ in range(5000):
            thing = Thing()
            things.add(thing)
            loop_of().call_later(1e6, thing).cancel()
        del thing
        gc.collect()
        return len(things)

    assert on_loop(main) <= 1000


def test_timers_that_never_come() -> None:
    async def main() -> None:
        loop_of().call_at(math.inf, print)
        loop_of().call_at(1.1e12, print)
        with pytest.raises(ValueError, match="NaN"):
            loop_of().call_at(math.nan, print)
        await asyncio.sleep(math.inf)

    with pytest.raises(Stalled):
        on_loop(main)


def test_a_loop_with_nothing_to_do_says_so() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match=r"^the event loop waits for what can never come: [^\n]+$"):
        on_loop(main)


def test_a_closed_loop_sets_no_timers() -> None:
    loop = new_loop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1.0, print)


def test_the_end_of_an_instant_comes_after_all_that_is_ready() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = loop_of()

        async def chatter(name: str) -> None:
            for i in range(3):
                seen.append(f"{name}{i}")
                await asyncio.sleep(0)

        def end() -> None:
            seen.append(f"end at {now():g}")
            loop.call_soon(seen.append, "woken by the end")
            loop.clock.at_instant_end(lambda: seen.append("second end"))

        loop.call_later(1.0, seen.append, "one second")
        loop.clock.at_instant_end(end)
        async with asyncio.TaskGroup() as group:
            group.create_task(chatter("a"))
            group.create_task(chatter("b"))
        loop.call_later(0.0, seen.append, "timer of now")
        await asyncio.sleep(2.0)
        return seen

    assert on_loop(main) == [
        "a0",
        "b0",
        "a1",
        "b1",
        "a2",
        "b2",
        "timer of now",
        "end at 0",
        "woken by the end",
        "second end",
        "one second",
    ]


# --- a node's own clock -----------------------------------------------------------------------------------------------


@hypothesis_settings(max_examples=500, deadline=None)
@given(
    offset=st.floats(-1e9, 1e9),
    drift=st.floats(-0.999, 1e3),
    moment=st.floats(0.0, 1e9),
)
def test_a_local_clock_and_the_time_it_shows(offset: float, drift: float, moment: float) -> None:
    """Compare with exact fractions; a task that waits for a local time must read at least that time when it wakes."""
    clock = LocalClock(offset, drift)
    rate = Fraction(1.0 + drift)
    exact = (Fraction(moment) - Fraction(offset)) / rate
    # Without this lower bound, subnormal numbers would need an exactness that no clock has.
    rounding = Fraction(math.ulp(max(abs(moment), abs(offset), 1e-200)))
    shown = clock.local(moment)
    assert abs(Fraction(shown) - exact) <= 4 * rounding / rate
    due = clock.true(shown)
    assert abs(Fraction(due) - Fraction(moment)) <= 8 * rounding
    assert clock.local(due) >= shown
    later = math.nextafter(shown, math.inf)
    assert clock.local(clock.true(later)) >= later
    assert clock.true(later) >= due


def test_a_local_clock_that_is_right_changes_nothing() -> None:
    clock = LocalClock(0.0, 0.0)
    for moment in (0.0, 0.1, 1 / 3, 5e-324, 12.345678901234567, 1e12):
        assert clock.local(moment) == clock.true(moment) == moment


# --- wall-clock time --------------------------------------------------------------------------------------------------


def test_wall_time_passes_speed_times_as_fast() -> None:
    async def main() -> tuple[list[str], float]:
        assert now() == 0.0
        seen: list[str] = []
        for delay, name in ((0.4, "late"), (0.1, "early"), (0.1, "early, too")):
            loop_of().call_later(delay, seen.append, name)
        await asyncio.sleep(0.5)
        return seen, now()

    began = time.monotonic()
    seen, ended = on_loop(main, clock="wall", pace=5.0)
    assert seen == ["early", "early, too", "late"]
    assert ended >= 0.5
    assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("pace", [0.5, 1.0, 8.0])
def test_the_wall_clock_sleeps_simulated_seconds_divided_by_speed(pace: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the wall clock by one that advances only while the loop sleeps."""
    wall = [1000.0]
    monkeypatch.setattr("netsim.clock.virtual_clock.time.monotonic", lambda: wall[0])

    async def main() -> list[tuple[float, float]]:
        loop, seen = loop_of(), []
        sockets = loop.clock._sockets

        def sleep(timeout: float | None = None) -> Any:
            wall[0] += timeout or 0.0
            return []

        monkeypatch.setattr(sockets, "select", sleep)
        for delay in (3.0, 0.5, 10.0):
            await asyncio.sleep(delay)
            seen.append((now(), wall[0] - 1000.0))
        return seen

    expected = [(3.0, 3.0 / pace), (3.5, 3.5 / pace), (13.5, 13.5 / pace)]
    for got, wanted in zip(on_loop(main, clock="wall", pace=pace), expected, strict=True):
        assert got == pytest.approx(wanted)


def test_a_thread_wakes_a_wall_clock_loop() -> None:
    async def main() -> str:
        async with asyncio.timeout(60):
            return await asyncio.to_thread(lambda: "done")

    assert on_loop(main, clock="wall") == "done"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clock": "virtuel"}, "clock = 'virtuel': must be one of virtual, wall (did you mean 'virtual'?)"),
        ({"clock": "wall", "pace": 0}, "pace = 0: must be a number > 0"),
        ({"pace": math.inf}, "pace = inf: must be finite"),
        ({"pace": "fast"}, "pace = 'fast': must be a number > 0"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    assert message_of(lambda: new_loop(**settings), BadInput) == message
