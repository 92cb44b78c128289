"""A round barrier: tasks wait at it, and go on together when it opens, in the order in which they came."""

import asyncio

__all__ = ["RoundBarrier"]


class RoundBarrier:
    """Opens again and again: all tasks that wait go on with the number that it is opened with."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[int]] = []

    def __len__(self) -> int:
        """Return how many wait, including those that were cancelled."""
        return len(self._waiting)

    def wait(self) -> asyncio.Future[int]:
        """Return a future of the number with which it opens next."""
        # One for each task: a timeout in one task would cancel a shared future for all.
        future: asyncio.Future[int] = asyncio.Future(loop=self._loop)
        self._waiting.append(future)
        return future

    def open(self, number: int) -> None:
        """Let all tasks go on."""
        for future in self._waiting:
            if not future.done():
                future.set_result(number)
        self._waiting.clear()

    def clear(self) -> None:
        """Forget all tasks that wait."""
        self._waiting.clear()
