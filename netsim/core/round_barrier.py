"""A round barrier: tasks wait at it and, when it opens, resume together in the order of their arrival."""

import asyncio

__all__ = ["RoundBarrier"]


class RoundBarrier:
    """A barrier that opens once per round and gives every waiting task the number of the round."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[int]] = []

    def __len__(self) -> int:
        """Return the number of waiting tasks, including cancelled ones."""
        return len(self._waiting)

    def wait(self) -> asyncio.Future[int]:
        """Return a future that yields the number given to the next `open`."""
        # One future per task: a timeout in one task would cancel a shared future for all tasks.
        future: asyncio.Future[int] = asyncio.Future(loop=self._loop)
        self._waiting.append(future)
        return future

    def open(self, number: int) -> None:
        """Resume all waiting tasks with the number of the round."""
        for future in self._waiting:
            if not future.done():
                future.set_result(number)
        self._waiting.clear()

    def clear(self) -> None:
        """Forget all waiting tasks: no later call of `open` resumes them."""
        self._waiting.clear()
