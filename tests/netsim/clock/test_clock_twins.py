"""The compiled virtual-time loop equals its Python twin: order, times, contexts, errors."""

import asyncio
import contextvars
import random
from typing import Any

import pytest

from netsim.clock import clock, new_loop
from netsim.clock.clock import Loop
from netsim.clock.virtual_clock import VirtualSelector
from tests.fuzzers.programs import log_on, program

compiled_only = pytest.mark.skipif(clock.COMPILED is None, reason="there is no compiled twin")
_who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def python_loop() -> Loop:
    return Loop(VirtualSelector())


@compiled_only
def test_random_programs_run_alike() -> None:
    for seed in range(30):
        node = program(seed, 20 + 20 * (seed % 5))
        assert log_on(new_loop, node) == log_on(python_loop, node), seed


def timers_on(loop: Any, seed: int) -> list[Any]:
    """Set, cancel and run random timers, with many due at the same time and some ahead of all others; return a log."""
    draw, log, made = random.Random(seed), list[Any](), list[Any]()

    def act(me: int, may_raise: bool = True) -> None:
        log.append((loop.now(), me, _who.get(), loop.clock.passes, loop.clock.is_alone()))
        for _ in range(draw.choice([0, 0, 1, 1, 2])):
            later, kind = draw.choice([0.0, 0.0, 0.5, 0.5, 1.0, draw.random()]), draw.randrange(9)
            number = len(made)
            _who.set(str(number))
            if kind < 3:
                made.append(loop.call_later(later, act, number))
            elif kind < 5:
                made.append(loop.call_soon(act, number))
            elif kind == 5:
                made.append(
                    loop.call_first_at(
                        loop.now() + later, lambda number=number: act(number), contextvars.copy_context()
                    )
                )
            elif kind == 6:
                made.append(loop.call_at(loop.time() - later, act, number, context=contextvars.Context()))
            elif kind == 7:
                loop.clock.at_instant_end(lambda number=number: act(number, may_raise=False))
            else:
                log.append(loop.clock.skip_to(loop.now() + 0.25))
            if made and draw.random() < 0.2:
                made[draw.randrange(len(made))].cancel()
        if may_raise and draw.random() < 0.05:
            raise ValueError(me)

    loop.set_exception_handler(lambda loop, context: log.append((context["message"], repr(context["exception"]))))
    for number in range(40):
        made.append(loop.call_at_simulated(float(draw.randrange(3)), act, number))
    loop.call_later(3.0, loop.stop)
    loop.run_forever()
    log += [len(loop.clock.pending()), [(each.cancelled(), "Timer" in repr(each)) for each in made]]
    loop.close()
    return log


@compiled_only
def test_random_timers_run_alike() -> None:
    sizes = 0
    for seed in range(40):
        log = contextvars.Context().run(timers_on, new_loop(), seed)
        sizes += len(log)
        assert log == contextvars.Context().run(timers_on, python_loop(), seed), seed
    assert sizes > 4000


@pytest.mark.parametrize("make", [pytest.param(new_loop, marks=compiled_only), python_loop])
def test_a_timer_runs_once_although_the_queue_is_cleared_as_it_is_due(make: Any) -> None:
    """The first callback creates many cancelled timers, so the queue is cleared while the second timer is due."""
    loop, seen = make(), list[str]()

    def starts(name: str) -> None:
        seen.append(name)
        for _ in range(3000):
            loop.call_later(9.0, print).cancel()

    for name in ("first", "second"):
        loop.clock.set_timer(1.0, loop.call_soon(print), lambda name=name: starts(name))
        loop._ready.clear()
    loop.call_later(2.0, loop.stop)
    loop.run_forever()
    loop.close()
    assert seen == ["first", "second"]


@pytest.mark.parametrize("make", [pytest.param(new_loop, marks=compiled_only), python_loop])
def test_a_handle_is_as_asyncios(make: Any) -> None:
    loop = make()
    handles = [loop.call_later(1.5, print, 1), loop.call_soon(print, 2)]
    models = [asyncio.TimerHandle(1.5, print, (1,), loop), asyncio.Handle(print, (2,), loop)]
    for handle, model in zip(handles, models, strict=True):
        for _ in range(2):
            assert repr(handle) == repr(model)
            assert handle.cancelled() is model.cancelled()
            handle.cancel()
            model.cancel()
    assert handles[0].when() == 1.5
    assert hash(handles[0]) == hash(models[0])
    loop.close()
