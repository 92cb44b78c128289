"""Random asyncio programs, run on netsim's virtual loop and on a model of it; both must write the same log.

The model is asyncio's own loop, with a clock that jumps to the next timer. Delays are drawn so that no two timers are
due at the same time, because asyncio does not define the order of such timers.

To try many programs, run ``python -m tests.fuzzers.programs --seconds 600 --seed 0`` from the root folder.
"""

import argparse
import asyncio
import itertools
import random
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import netsim
from netsim.clock.clock import LocalClock, Loop
from netsim.clock.task import OWNER, TaskOwner

Node = tuple[Any, ...]
Log = list[tuple[float, str]]


DRIFTS = (None, 0.5, -0.3, 5e-5)
"""Clock drifts with which programs run; None: without own clock."""


class ProgramError(Exception):
    """An error that programs raise intentionally."""


# --- the model --------------------------------------------------------------------------------------------------------


class _Jumping(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("nothing can happen any more")
        self.now += timeout
        return super().select(0)


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks have the same order on both loops."""

    def __hash__(self) -> int:
        if not hasattr(self, "number"):
            loop: Any = self.get_loop()
            self.number = next(loop.numbers)
        return self.number


class ModelLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, with a clock that jumps to the next timer."""

    # Needed so that results of `gather` are numbered as on netsim's loops.
    maker = None

    def __init__(self) -> None:
        self.jumping = _Jumping()
        self.numbers = itertools.count()
        super().__init__(self.jumping)
        self.set_task_factory(lambda loop, coro, **settings: _NumberedTask(coro, loop=loop, **settings))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.jumping.now


# --- programs ---------------------------------------------------------------------------------------------------------


def program(seed: int, size: int = 40, more: Sequence[str] = ()) -> Node:
    """Return a random program: a tree of statements; each is a tuple of its name and its arguments.

    ``more``: names of further statements without substatements, besides `LEAVES`.
    """
    leaves = [*LEAVES, *more]
    rng = random.Random(seed)
    left = [size]
    labels = itertools.count()

    def block(depth: int) -> Node:
        return ("block", *(statement(depth) for _ in range(rng.randint(1, 3))))

    def blocks(depth: int) -> Node:
        return tuple(block(depth + 1) for _ in range(rng.randint(1, 4)))

    def delay() -> float:
        return rng.choice([0.1, 1.0, 3.0]) * rng.random()

    def statement(depth: int) -> Node:
        left[0] -= 1
        name = rng.choice(leaves if depth > 4 or left[0] < 0 else leaves + BRANCHES * 2)
        label = f"{name} {next(labels)}"
        match name:
            case "gather" | "group" | "background" | "as_completed":
                return (name, label, delay(), rng.random() < 0.3, blocks(depth))
            case "wait" | "wait_gathers":
                return (name, label, delay(), rng.choice(WHEN), blocks(depth))
            case "timeout" | "cancel" | "shield" | "wait_for" | "catch" | "cleanup" | "lock" | "limit" | "repeat":
                return (name, label, delay(), rng.randint(1, 3), block(depth + 1))
            case _:
                return (name, label, delay(), rng.randint(0, 2))

    # Each statement's errors are caught, so that the next statement still runs.
    return ("block", *(("catch", f"top {i}", 0.0, 0, ("block", statement(0))) for i in range(6)))


LEAVES = ["log", "sleep", "yield", "put", "get", "set", "await_event", "call_later", "raise", "notify", "meet"]
BRANCHES = [
    *("gather", "group", "background", "as_completed", "wait", "wait_gathers", "timeout", "cancel", "shield"),
    *("wait_for", "catch", "cleanup", "lock", "limit", "repeat"),
]
WHEN = [asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION, asyncio.ALL_COMPLETED]


class Machine:
    """The state of a running program: the objects shared by its tasks, and the log."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.log: Log = []
        self.queues = [asyncio.Queue[str](maxsize=size) for size in (0, 1, 2)]
        self.events = [asyncio.Event() for _ in range(3)]
        self.locks = [asyncio.Lock() for _ in range(4)]
        self.limits = [asyncio.Semaphore(1 + i) for i in range(4)]
        self.condition = asyncio.Condition()
        self.barrier = asyncio.Barrier(2)
        self.background: list[asyncio.Task[Any]] = []
        self.turns = itertools.count()

    def note(self, *what: object) -> None:
        """Append an entry to the log."""
        self.log.append((round(self.loop.time(), 6), " ".join(map(str, what))))

    async def run(self, node: Node) -> str:
        """Run one statement and return its label."""
        name, *parts = node
        if name == "block":
            for part in parts:
                await self.run(part)
            return f"block of {len(parts)}"
        label, delay, *more = parts
        self.note("begin", label)
        # A repeated statement gets a different delay each time, so that no two timers are due at the same time.
        delay *= 1.0 + 1e-4 * next(self.turns)
        try:
            result = await getattr(self, f"do_{name}")(label, delay, *more)
        except BaseException as error:
            self.note("leave", label, kind_of(error))
            raise
        self.note("end", label, result)
        return str(label)

    # --- leaves

    async def do_log(self, label: str, delay: float, which: int) -> None:
        """Do nothing beyond the log entry of every statement."""

    async def do_sleep(self, label: str, delay: float, which: int) -> None:
        await asyncio.sleep(delay)

    async def do_yield(self, label: str, delay: float, which: int) -> None:
        for _ in range(which + 1):
            await asyncio.sleep(0)

    async def do_put(self, label: str, delay: float, which: int) -> None:
        await asyncio.wait_for(self.queues[which].put(label), delay)

    async def do_get(self, label: str, delay: float, which: int) -> str:
        async with asyncio.timeout(delay):
            return await self.queues[which].get()

    async def do_set(self, label: str, delay: float, which: int) -> None:
        event = self.events[which]
        (event.clear if event.is_set() else event.set)()

    async def do_await_event(self, label: str, delay: float, which: int) -> None:
        async with asyncio.timeout(delay):
            await self.events[which].wait()

    async def do_call_later(self, label: str, delay: float, which: int) -> None:
        timer = self.loop.call_later(delay, self.note, "called", label)
        if which == 0:
            self.loop.call_later(delay / 2, timer.cancel)

    async def do_raise(self, label: str, delay: float, which: int) -> None:
        if which == 2:
            raise ProgramError(label)

    async def do_notify(self, label: str, delay: float, which: int) -> object:
        async with asyncio.timeout(delay), self.condition:
            if which == 0:
                return await self.condition.wait()
            self.condition.notify(which)
        return None

    async def do_meet(self, label: str, delay: float, which: int) -> object:
        async with asyncio.timeout(delay):
            return await self.barrier.wait()

    # --- branches

    async def do_gather(self, label: str, delay: float, quiet: bool, nodes: Node) -> Any:
        found = await asyncio.gather(*map(self.run, nodes), return_exceptions=quiet)
        return [kind_of(item) if isinstance(item, BaseException) else item for item in found]

    async def do_group(self, label: str, delay: float, quiet: bool, nodes: Node) -> None:
        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(self.run(node))
            if quiet:
                await asyncio.sleep(delay)

    async def do_background(self, label: str, delay: float, quiet: bool, nodes: Node) -> None:
        self.background += [asyncio.create_task(self.run(node), name=label) for node in nodes]
        if quiet:
            self.loop.call_later(delay, self.background[-1].cancel)

    async def do_as_completed(self, label: str, delay: float, quiet: bool, nodes: Node) -> list[str]:
        tasks = [asyncio.create_task(self.run(node)) for node in nodes]
        found: list[str] = []
        try:
            for next_one in asyncio.as_completed(tasks, timeout=delay if quiet else None):
                try:
                    found.append(await next_one)
                except ProgramError as error:
                    found.append(kind_of(error))
        finally:
            self.background += tasks
        return found

    async def do_wait(self, label: str, delay: float, when: str, nodes: Node) -> list[str]:
        tasks = {asyncio.create_task(self.run(node)) for node in nodes}
        self.background += tasks
        done, pending = await asyncio.wait(tasks, timeout=delay, return_when=when)
        for task in pending:
            task.cancel()
        return [outcome_of(task) for task in done]

    async def do_wait_gathers(self, label: str, delay: float, when: str, nodes: Node) -> list[str]:
        gathers = {asyncio.gather(self.run(node), asyncio.sleep(delay / 2), return_exceptions=True) for node in nodes}
        done, pending = await asyncio.wait(gathers, timeout=delay, return_when=when)
        for gathered in pending:
            gathered.cancel()
        return [kind_of(found) if isinstance(found, BaseException) else found for found, _ in map(result_of, done)]

    async def do_timeout(self, label: str, delay: float, which: int, node: Node) -> str:
        async with asyncio.timeout(delay) as scope:
            if which == 3:
                scope.reschedule(self.loop.time() + delay / 3)
            return await self.run(node)

    async def do_wait_for(self, label: str, delay: float, which: int, node: Node) -> str:
        return await asyncio.wait_for(self.run(node), delay)

    async def do_cancel(self, label: str, delay: float, which: int, node: Node) -> str:
        task = asyncio.create_task(self.run(node))
        await asyncio.sleep(delay)
        self.note(task.cancel(label))
        with suppress(asyncio.CancelledError):
            return await task
        return "cancelled"

    async def do_shield(self, label: str, delay: float, which: int, node: Node) -> str:
        task = asyncio.create_task(self.run(node))
        self.background.append(task)
        async with asyncio.timeout(delay):
            return await asyncio.shield(task)

    async def do_catch(self, label: str, delay: float, which: int, node: Node) -> str:
        try:
            return await self.run(node)
        except* (ProgramError, TimeoutError) as group:
            self.note("caught", kind_of(group))
        return "caught"

    async def do_cleanup(self, label: str, delay: float, which: int, node: Node) -> str:
        try:
            return await self.run(node)
        finally:
            self.note("cleans up", label)
            await asyncio.sleep(delay / 10)
            self.note("cleaned up", label)

    async def do_lock(self, label: str, delay: float, which: int, node: Node) -> str:
        async with asyncio.timeout(delay), self.locks[which]:
            return await self.run(node)

    async def do_limit(self, label: str, delay: float, which: int, node: Node) -> str:
        async with asyncio.timeout(delay), self.limits[which]:
            return await self.run(node)

    async def do_repeat(self, label: str, delay: float, which: int, node: Node) -> None:
        for _ in range(which):
            await self.run(node)
            await asyncio.sleep(delay)


def kind_of(error: BaseException) -> str:
    """Return an exception as text; for a group, with its members in order."""
    if isinstance(error, BaseExceptionGroup):
        return f"group({', '.join(map(kind_of, error.exceptions))})"
    return f"{type(error).__name__}({error})" if isinstance(error, ProgramError) else type(error).__name__


def result_of(gathered: "asyncio.Future[Any]") -> Any:
    """Return the results of a finished `gather`."""
    return ["cancelled", None] if gathered.cancelled() else gathered.result()


def outcome_of(task: "asyncio.Task[str]") -> str:
    """Return a text that describes how a task ended."""
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    return task.result() if error is None else kind_of(error)


# --- both -------------------------------------------------------------------------------------------------------------


def owner_by(clock: LocalClock) -> TaskOwner:
    """Return a task owner with its own, skewed clock."""
    owner = TaskOwner(lambda task, name: None, "", 0, clock)
    loop: Any = asyncio.get_running_loop()
    # The model counts all tasks in one sequence, so the owner must share the loop's counters.
    owner.numbers, owner.names = loop.numbers, loop.names
    return owner


async def play(node: Node, clock: LocalClock | None = None, make: Callable[[], Machine] = Machine) -> Log:
    """Run a program on a new machine, with its own clock if one is given, and return its log.

    After the program, background tasks may run for five more seconds; then they are cancelled.
    """
    if clock is not None:
        OWNER.set(owner_by(clock))
    machine = make()
    machine.loop.set_exception_handler(lambda loop, context: None)
    main = asyncio.create_task(machine.run(node))
    with suppress(TimeoutError, ProgramError, ExceptionGroup, asyncio.CancelledError):
        async with asyncio.timeout(60.0):
            await main
    await asyncio.sleep(5.0)
    machine.note("left", [place for place, task in enumerate(machine.background) if not task.done()])
    while pending := [task for task in (main, *machine.background) if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    machine.note(*map(outcome_of, [main, *machine.background]))
    return machine.log


def log_on(make_loop: Callable[[], asyncio.AbstractEventLoop], node: Node, clock: LocalClock | None = None) -> Log:
    """Return the log of a program run on a new loop."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(play(node, clock))


def skewed_loop() -> Loop:
    """Return a netsim loop that supports task owners with their own clocks."""
    loop = netsim.clock.new_loop()
    loop.skewed = True
    return loop


def difference(seed: int, size: int = 40, drift: float | None = None) -> str:
    """Return the first difference between a program's logs, or ""; with a drift, netsim's clock is skewed."""
    node = program(seed, size)
    clock = None if drift is None else LocalClock(0.0, drift)
    ours, model = log_on(skewed_loop if clock else netsim.clock.new_loop, node, clock), log_on(ModelLoop, node)
    for place, (mine, other) in enumerate(itertools.zip_longest(ours, model)):
        if mine != other and not (mine and other and mine[1] == other[1] and abs(mine[0] - other[0]) < 2e-6):
            return f"seed {seed}, size {size}, event {place}: netsim {mine}, model {other}"
    return ""


def check_one(rng: np.random.Generator) -> None:
    """Raise AssertionError if a random program runs differently on netsim and on the model."""
    found = difference(int(rng.integers(2**31)), int(rng.integers(10, 120)), rng.choice(DRIFTS))
    assert not found, found


class Slow(netsim.Agent):
    """A handwritten program whose result is wrong if its long task ends before its short task begins."""

    def __init__(self, steps: int = 3) -> None:
        self.steps, self.begun, self.ok = steps, False, True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.short())
            group.create_task(self.long())

    async def short(self) -> None:
        self.begun = True

    async def long(self) -> None:
        for _ in range(self.steps):
            await asyncio.sleep(0)
        self.ok = self.begun


def main() -> None:
    """Try programs for some time; print how many were tried, and which of them differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    found = 0
    for seed in itertools.count(options.seed):
        if time.monotonic() > ends:
            break
        what = difference(seed, 20 + 20 * (seed % 5), DRIFTS[seed % len(DRIFTS)])
        if what:
            found += 1
            print(what, flush=True)
    print(f"{seed - options.seed} programs, {found} differ")


if __name__ == "__main__":
    main()
