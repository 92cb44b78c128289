"""A gate: tasks wait in front of it and go on together, in the order in which they came, when it opens."""

import asyncio

__all__ = ["Gate"]


class Gate:
    """Opens again and again; whoever waits when it opens goes on with the number that it is opened with."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[int]] = []

    def __len__(self) -> int:
        """Return how many wait, those included that gave up."""
        return len(self._waiting)

    def wait(self) -> asyncio.Future[int]:
        """Return a future of the number with which it opens next."""
        # One for each task: a future that all shared would be cancelled for all by a timeout in one of them.
        future: asyncio.Future[int] = asyncio.Future(loop=self._loop)
        self._waiting.append(future)
        return future

    def open(self, number: int) -> None:
        """Let all go on."""
        for future in self._waiting:
            if not future.done():
                future.set_result(number)
        self._waiting.clear()

    def clear(self) -> None:
        """Let nobody who waits go on."""
        self._waiting.clear()
