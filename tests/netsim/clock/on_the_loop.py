"""The log of a small program on the virtual loop, run by this Python and by a WebAssembly Python without numpy."""

import asyncio
from typing import Any

from netsim.clock.clock import new_loop
from netsim.engine.launch import aside, simulate
from netsim.errors import Stalled

__all__ = ["story"]


class Told:
    """Stands in for a run: its tasks sleep, time out, wake each other and wait for a thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def run(self, loop: Any) -> list[str]:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(self.sleeper(number, loop))
        loop.call_soon_threadsafe(self.lines.append, "a thread would have said this")
        await asyncio.to_thread(self.lines.append, "a job")
        try:
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        except TimeoutError:
            self.lines.append(f"timeout at {loop.now():.1f}")
        return self.lines

    async def sleeper(self, number: int, loop: Any) -> None:
        for step in range(3):
            await asyncio.sleep(1 + number / 10)
            self.lines.append(f"{number} wakes the {step}. time at {loop.now():.1f}")

    def attach_result_to(self, error: BaseException) -> None:
        """Do nothing, because a stand-in has no result."""


class Stuck(Told):
    """Waits for an event that never comes."""

    async def run(self, loop: Any) -> list[str]:
        await asyncio.Event().wait()
        return self.lines


def story() -> str:
    """Return the log, one event a line, even while another event loop is running."""
    with aside():
        run: Any = Told()
        lines: Any = simulate(run, new_loop())
        run = Stuck()
        try:
            simulate(run, new_loop())
        except Stalled:
            lines.append("stands still")
    return "\n".join(lines)
